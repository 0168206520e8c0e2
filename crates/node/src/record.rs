//! What a parent's replicated state says of a group: its epoch, and who is in it. The parent of a volume is the root, that of an
//! own group its volume. Whichever it is, it decides one change after the other.

use quorate_protocol::chain::{Membership, Place};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::Stage;
use quorate_protocol::{Configuration, Epoch, GroupId, NodeId};
use serde::{Deserialize, Serialize};

use crate::quorum::{Quorum, Stages};
use crate::replica::Protocol;

/// Why a parent decides no change now. Whoever asked for it asks again until it is time.
pub(crate) const STILL_CHANGING: &str = "ERR not done: an earlier change has not come to its end, or too much is beginning. Is a \
                                         quorum of the members alive? QUORATE GROUP SHOW tells of it";

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupRecord {
    pub group: u64,
    pub epoch: u32,
    /// The first is the coordinator that the group is born with and returns to; of a chain, from head to tail.
    pub members: Vec<u32>,
    /// Of a chain: gets a copy from the tail, and is to be the tail one day. Of a volume of `paxos`: gets a copy, and is to take a
    /// member's seat.
    pub joining: Option<u32>,
    /// Of a chain: the members that it is to have, in their order, and that come back to it. It was born with them, but for
    /// those that have replaced others. Else the members.
    pub home: Vec<u32>,
    /// Of registers: the configurations that are not retired, one or two. `epoch` and `members` are those of the last.
    pub stages: Stages,
}

impl GroupRecord {
    /// Of a group that is born with these members; `quorum` concerns registers.
    pub(crate) fn new(protocol: Protocol, group: GroupId, members: Vec<u32>, quorum: Quorum) -> GroupRecord {
        let home = members.clone();
        let mut record =
            GroupRecord { group: group.0, epoch: 0, members, joining: None, home, stages: Stages::default() };
        if protocol.is_register() {
            let quorum = quorum.system(record.members.len());
            record.stages.0.push(Stage::first(Configuration { quorum, ..record.configuration() }));
        }
        record
    }

    /// Of registers that stand in these configurations.
    pub(crate) fn of_stages(group: GroupId, stages: Vec<Stage>) -> GroupRecord {
        let newest = stages.last().map(|stage| &stage.configuration);
        let members: Vec<u32> = newest.iter().flat_map(|newest| newest.members.iter().map(|node| node.0)).collect();
        let epoch = newest.map_or(0, |newest| newest.epoch.0);
        GroupRecord { group: group.0, epoch, home: members.clone(), members, joining: None, stages: Stages(stages) }
    }

    pub fn member_ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().copied().map(NodeId)
    }

    /// All members, and those that come back. A chain's present members are its [membership](GroupRecord::membership), those of
    /// registers stand in its stages.
    pub(crate) fn configuration(&self) -> Configuration {
        let home = self.home.iter().copied().map(NodeId);
        let mut members: Vec<NodeId> = match &self.stages.0[..] {
            [] => home.chain(self.member_ids()).collect(),
            stages => stages.iter().flat_map(|stage| stage.configuration.members.iter().copied()).collect(),
        };
        let mut named = std::collections::BTreeSet::new();
        members.retain(|member| named.insert(*member));
        Configuration {
            group: GroupId(self.group),
            epoch: Epoch(0),
            members: members.into(),
            quorum: QuorumSystem::Majority,
        }
    }

    /// Whether a node is a member, was one that may come back, or is to be one.
    pub fn names(&self, node: u32) -> bool {
        self.named().any(|named| named == node)
    }

    /// Nodes that it [names](GroupRecord::names), some of them more than once.
    pub(crate) fn named(&self) -> impl Iterator<Item = u32> + '_ {
        let standing = self.stages.0.iter().flat_map(|stage| stage.configuration.members.iter().map(|node| node.0));
        self.members.iter().chain(&self.joining).chain(&self.home).copied().chain(standing)
    }

    /// Whether a replica of it comes to life on this node: a chain's with the chain, or when it is to join.
    pub(crate) fn lives_on(&self, node: NodeId, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Paxos => self.members.contains(&node.0) || self.joining == Some(node.0),
            // One that has been replaced since it was asked to join is given up.
            Protocol::Chain => {
                let joins = self.joining == Some(node.0) && self.home.contains(&node.0);
                joins || self.epoch == 0 && self.members.contains(&node.0)
            }
            Protocol::Register => self.stages.0.iter().any(|stage| stage.configuration.contains(node)),
        }
    }
}

/// Why a node does not come in place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplaceError {
    NotThere,
    IsThere,
    Changing,
}

/// Of a chain.
impl GroupRecord {
    pub(crate) fn membership(&self) -> Membership {
        Membership { epoch: Epoch(self.epoch), members: self.member_ids().collect(), joining: self.joining.map(NodeId) }
    }

    pub(crate) fn reconfigure(&mut self, members: Vec<u32>, joining: Option<u32>) {
        self.epoch += 1;
        (self.members, self.joining) = (members, joining);
    }

    /// Whether it has the members that it is to have and no other, in whatever order.
    pub fn is_whole(&self) -> bool {
        let is_here = |node: &u32| self.members.contains(node);
        self.joining.is_none() && self.members.len() == self.home.len() && self.home.iter().all(is_here)
    }

    /// A member in whose place another has come, or is to come.
    pub(crate) fn replaced(&self) -> Option<NodeId> {
        self.member_ids().find(|node| !self.home.contains(&node.0))
    }

    /// Whether the node has nothing to do with the chain any more, and does not come back to it.
    pub(crate) fn is_left_by(&self, node: NodeId) -> bool {
        self.membership().place(node) == Place::Outside && !self.home.contains(&node.0)
    }

    /// One node in place of another, from head to tail. The chain follows: who has come joins, and who has gone leaves.
    pub(crate) fn replace(&mut self, from: u32, to: u32) -> Result<(), ReplaceError> {
        let at = self.home.iter().position(|&node| node == from).ok_or(ReplaceError::NotThere)?;
        if self.home.contains(&to) {
            return Err(ReplaceError::IsThere);
        }
        // While one is being replaced, only whoever was to come and has not may be replaced by yet another.
        let is_changing = self.replaced().is_some() && self.members.contains(&from);
        if self.joining.is_some() || is_changing {
            return Err(ReplaceError::Changing);
        }
        self.home[at] = to;
        Ok(())
    }

    /// In a chain with all its members, one of those whose moving behind the tail brings back the order that it is to have: the
    /// first that does not follow those before it in that order. The tail never does.
    pub(crate) fn out_of_turn(&self) -> Option<NodeId> {
        let is_whole = self.is_whole();
        let mut follows = 0;
        for member in &self.members {
            follows += usize::from(self.home.get(follows) == Some(member));
        }
        self.home.get(follows).copied().map(NodeId).filter(|_| is_whole)
    }
}

/// Of registers.
impl GroupRecord {
    /// Whether a successor has been decided, and what was before it is not retired yet.
    pub fn is_moving(&self) -> bool {
        self.stages.0.len() > 1
    }

    /// These members and quorums are next.
    pub(crate) fn follow(&mut self, members: Vec<u32>, quorum: Quorum) {
        let Some(before) = self.stages.0.last() else { return };
        self.epoch += 1;
        let configuration = Configuration {
            group: GroupId(self.group),
            epoch: Epoch(self.epoch),
            members: members.iter().copied().map(NodeId).collect(),
            quorum: quorum.system(members.len()),
        };
        let next = before.successor(configuration);
        self.stages.0.push(next);
        self.members = members;
    }

    /// The same members and quorums go on in another epoch.
    pub(crate) fn renew(&mut self, fence: Option<Epoch>) {
        self.follow(self.members.clone(), self.quorum());
        if let (Some(fence), Some(next)) = (fence, self.stages.0.last_mut()) {
            *next = next.clone().fenced(fence);
        }
    }

    /// What was before this epoch's configuration, which is the newest, is over.
    pub(crate) fn retire_before(&mut self, epoch: u32) -> bool {
        let is_over = self.is_moving() && self.epoch == epoch;
        if is_over {
            self.stages.0.remove(0);
        }
        is_over
    }

    /// The last member that is in any quorum. A square leaves members out, which hold nothing but by chance.
    pub(crate) fn last_in_use(&self) -> Option<NodeId> {
        let Configuration { members, quorum, .. } = &self.stages.0.last()?.configuration;
        let load = quorum.load(members.len(), 0.5);
        members.iter().zip(&load.members).rfind(|(_, load)| **load > 0.0).map(|(&node, _)| node)
    }

    pub fn quorum(&self) -> Quorum {
        self.stages.0.last().map_or(Quorum::Majority, |stage| Quorum::of_system(stage.configuration.quorum))
    }
}

/// How far along the sequence of configurations somebody is who knows these: what is retired counts beside what is decided.
pub(crate) fn standing(stages: &[Stage]) -> Option<(Epoch, Epoch)> {
    Some((stages.last()?.epoch(), stages.first()?.epoch()))
}

/// Whether whoever knows these configurations of a group knows more than who knows those.
pub(crate) fn is_ahead(stages: &[Stage], of: &[Stage]) -> bool {
    standing(stages) > standing(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of nodes 1, 2 and 3, in order, that has come to these members.
    fn chain(members: &[u32], joining: Option<u32>) -> GroupRecord {
        let mut record = GroupRecord::new(Protocol::Chain, GroupId(7), vec![1, 2, 3], Quorum::Majority);
        record.reconfigure(members.to_vec(), joining);
        record
    }

    #[test]
    fn one_node_of_a_chain_is_replaced_at_a_time() {
        let mut record = chain(&[1, 2, 3], None);
        assert!(record.is_whole());
        assert_eq!(record.replace(4, 5), Err(ReplaceError::NotThere));
        assert_eq!(record.replace(1, 3), Err(ReplaceError::IsThere));
        assert_eq!(record.replace(1, 4), Ok(()));
        assert_eq!((&record.home[..], &record.members[..], record.epoch), (&[4, 2, 3][..], &[1, 2, 3][..], 1));
        assert_eq!((record.is_whole(), record.replaced()), (false, Some(NodeId(1))));
        assert!(record.out_of_turn().is_none(), "nobody is moved behind the tail meanwhile");
        assert!(!record.is_left_by(NodeId(1)) && !record.is_left_by(NodeId(4)) && record.is_left_by(NodeId(5)));
        assert_eq!(record.replace(2, 5), Err(ReplaceError::Changing));
        assert_eq!(record.replace(4, 5), Ok(()), "who has not come yet");
        assert_eq!(record.replace(5, 1), Ok(()), "back");
        assert!(record.is_whole() && record.home == [1, 2, 3]);
        assert_eq!(chain(&[1, 2], Some(3)).replace(3, 4), Err(ReplaceError::Changing), "it is given up first");
        let mut shorter = chain(&[1, 2], None);
        assert_eq!(shorter.replace(3, 4), Ok(()), "who was left out");
        assert!(shorter.is_left_by(NodeId(3)) && shorter.replaced().is_none());
    }

    #[test]
    fn the_last_member_in_use_is_in_a_quorum() {
        let last = |quorum, members: &[u32]| {
            let record = GroupRecord::new(Protocol::Register, GroupId(7), members.to_vec(), quorum);
            record.last_in_use().map(|node| node.0)
        };
        assert_eq!(last(Quorum::Square, &[3, 1, 2, 5, 4]), Some(5), "the fifth is outside of the square");
        assert_eq!(last(Quorum::Grid { rows: 2, columns: 3 }, &[3, 1, 2, 5, 4]), Some(4));
        assert_eq!(last(Quorum::Majority, &[3, 1, 2]), Some(2));
        assert_eq!(last(Quorum::Threshold { read: 3, write: 1 }, &[3, 1, 2]), Some(2));
    }
}
