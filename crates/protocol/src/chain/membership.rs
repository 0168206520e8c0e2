//! Who is in the chain, in which order, as its parent decided.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::id::{Configuration, Epoch, NodeId};

/// One configuration of a chain. Whoever decides them keeps these rules, on which safety rests:
/// - epochs grow by each change, and one change is made at a time;
/// - a change removes members, or adds the joining one behind the last, or begins or gives up a joining: those that stay
///   keep their order;
/// - nobody is told of a configuration without a member before that member's lease has ended;
/// - the joining node becomes a member only on the tail's word, given at the present epoch, that it holds everything
///   decided ([`Chain::is_extended`](super::Chain::is_extended)).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Membership {
    pub epoch: Epoch,
    /// From head to tail.
    pub members: Arc<[NodeId]>,
    /// Gets a copy from the tail, and is to be the tail one day.
    pub joining: Option<NodeId>,
}

/// Where a node stands in a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Counted from the head.
    Member(usize),
    Joining,
    /// Removed, or never in it.
    Outside,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.epoch, self.members)?;
        self.joining.map_or(Ok(()), |node| write!(f, "+{node}"))
    }
}

impl Membership {
    pub fn of(configuration: &Configuration) -> Membership {
        Membership { epoch: configuration.epoch, members: configuration.members.clone(), joining: None }
    }

    pub fn head(&self) -> NodeId {
        self.members[0]
    }

    pub fn tail(&self) -> NodeId {
        self.members[self.members.len() - 1]
    }

    pub fn place(&self, node: NodeId) -> Place {
        match self.members.iter().position(|&member| member == node) {
            Some(position) => Place::Member(position),
            None if self.joining == Some(node) => Place::Joining,
            None => Place::Outside,
        }
    }

    pub fn predecessor(&self, node: NodeId) -> Option<NodeId> {
        match self.place(node) {
            Place::Member(0) | Place::Outside => None,
            Place::Member(position) => Some(self.members[position - 1]),
            Place::Joining => Some(self.tail()),
        }
    }

    /// The joining node is the tail's.
    pub fn successor(&self, node: NodeId) -> Option<NodeId> {
        match self.place(node) {
            Place::Member(position) => self.members.get(position + 1).copied().or(self.joining),
            Place::Joining | Place::Outside => None,
        }
    }

    /// Without this node, which may be the joining one.
    pub fn without(&self, node: NodeId, epoch: Epoch) -> Membership {
        let members: Vec<NodeId> = self.members.iter().copied().filter(|&member| member != node).collect();
        Membership { epoch, members: members.into(), joining: self.joining.filter(|&joining| joining != node) }
    }

    pub fn with_joining(&self, node: NodeId, epoch: Epoch) -> Membership {
        Membership { epoch, members: self.members.clone(), joining: Some(node) }
    }

    /// The joining node is the tail.
    pub fn extended(&self, epoch: Epoch) -> Membership {
        let members: Vec<NodeId> = self.members.iter().copied().chain(self.joining).collect();
        Membership { epoch, members: members.into(), joining: None }
    }
}
