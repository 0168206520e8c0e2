//! A parent that never fails: it holds the chain's configuration, grants leases, and keeps the rules of `Membership`.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_protocol::chain::Membership;
use quorate_protocol::id::{Epoch, Instant, NodeId};

use super::{Load, PARENT, World};
use crate::harness::Group;

pub const LEASE_HELD_US: u64 = 400_000;
pub const LEASE_GIVEN_US: u64 = 450_000;

pub struct Parent {
    pub membership: Arc<Membership>,
    /// Until when each member may believe that it holds a lease.
    given_until: BTreeMap<NodeId, Instant>,
    /// Gets no lease any more, and is removed once the last has ended.
    pub removing: Option<NodeId>,
    pub changes: usize,
}

impl Parent {
    pub fn new(membership: Arc<Membership>) -> Parent {
        Parent { membership, given_until: BTreeMap::new(), removing: None, changes: 0 }
    }

    fn epoch_next(&self) -> Epoch {
        Epoch(self.membership.epoch.0 + 1)
    }

    fn change(&mut self, membership: Membership) {
        self.membership = Arc::new(membership);
        self.changes += 1;
    }

    /// Begins to remove a member, or gives up the joining node.
    pub fn remove(&mut self, node: NodeId) {
        if self.membership.joining == Some(node) {
            self.change(self.membership.without(node, self.epoch_next()));
        } else if self.removing.is_none()
            && self.membership.members.len() > 1
            && self.membership.members.contains(&node)
        {
            self.removing = Some(node);
        }
    }

    /// Goes on with a removal. True if there is a new configuration.
    pub fn attend(&mut self, now: Instant) -> bool {
        let Some(node) = self.removing else { return false };
        if self.given_until.get(&node).is_some_and(|&until| now <= until) {
            return false;
        }
        self.removing = None;
        self.change(self.membership.without(node, self.epoch_next()));
        true
    }

    pub fn join(&mut self, node: NodeId) {
        if self.removing.is_none() && self.membership.joining.is_none() && !self.membership.members.contains(&node) {
            self.change(self.membership.with_joining(node, self.epoch_next()));
        }
    }

    /// The answer to a member that asks at `epoch`.
    pub fn grant(&mut self, node: NodeId, epoch: Epoch, asked_at: Instant, now: Instant) -> Option<Load> {
        if epoch < self.membership.epoch {
            return Some(Load::Told(self.membership.clone()));
        }
        if self.removing == Some(node) || !self.membership.members.contains(&node) {
            return None;
        }
        self.given_until.insert(node, now.after_us(LEASE_GIVEN_US));
        Some(Load::Lease { epoch, until: asked_at.after_us(LEASE_HELD_US) })
    }

    fn extend(&mut self, from: NodeId, epoch: Epoch) {
        let is_current = epoch == self.membership.epoch && from == self.membership.tail();
        if is_current && self.removing.is_none() && self.membership.joining.is_some() {
            self.change(self.membership.extended(self.epoch_next()));
        }
    }
}

pub fn receive(world: &mut World, from: NodeId, load: Load) {
    match load {
        Load::LeaseWanted { epoch, asked_at } => {
            let answer = world.parent.grant(from, epoch, asked_at, world.now);
            if let Some(answer) = answer {
                world.network.post(PARENT, from, answer);
            }
        }
        Load::Extended { epoch } => world.parent.extend(from, epoch),
        _ => {}
    }
}

impl World {
    /// Every member asks for its lease and gets it, at once.
    pub fn lease_all(&mut self) {
        for id in self.ids() {
            let asked_at = self.clock(id);
            let Some(epoch) = self.replica(id).filter(|_| self.is_up(id)).map(|replica| replica.epoch()) else {
                continue;
            };
            if let Some(Load::Lease { epoch, until }) = self.parent.grant(id, epoch, asked_at, self.now) {
                self.nodes[id.0 as usize - 1].replica.as_mut().expect("is there").lease(epoch, until);
            }
        }
    }
}
