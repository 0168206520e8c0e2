//! A node in place of another in a chain. Who comes joins as whoever was away does, behind the tail and with a copy; once the chain
//! has as many members without it, who has been replaced leaves, and drops what it holds.

use quorate_protocol::{Epoch, GroupId, NodeId};

use super::super::Host;
use super::super::led::parent_of;
use super::Terms;
use crate::group_state::GroupState;
use crate::record::GroupRecord;
use crate::replica::Protocol;
use crate::root::ROOT;

impl Terms {
    /// Whether a member is to leave the chain though it is well: to come back behind the tail, or for good.
    pub(super) fn goes(&self, parent: GroupId, group: GroupId, epoch: Epoch, member: NodeId) -> bool {
        let turning = self.turning.get(&parent);
        turning.is_some_and(|turning| (turning.group, turning.epoch, turning.member) == (group, epoch, member))
            || self.going.get(&group) == Some(&(epoch, member))
    }

    /// This node has left the parent's group: it decides nothing about its chains any more.
    pub(in crate::host) fn leave_parent(&mut self, parent: GroupId) {
        self.changing.retain(|group, _| parent_of(*group) != parent);
        self.coordinated.remove(&parent);
        self.turning.remove(&parent);
    }
}

impl Host {
    /// Members that have been replaced are to leave, where their chain does not become shorter than it is to be. As with one that is
    /// moved behind the tail, nothing is confirmed to them any more, and the chain goes on without them when what was is over.
    pub(super) fn let_replaced_go(&mut self, parent: GroupId) {
        if parent != ROOT {
            return;
        }
        let going: Vec<(GroupId, Epoch, NodeId)> = self
            .due_of(ROOT)
            .filter(|record| record.members.len() > record.home.len() && record.joining.is_none())
            .filter_map(|record| Some((record, record.replaced()?)))
            .filter(|(record, leaving)| {
                record.member_ids().all(|node| node == *leaving || self.is_counted_on(record, node))
            })
            .map(|(record, leaving)| (GroupId(record.group), Epoch(record.epoch), leaving))
            .collect();
        let before = std::mem::take(&mut self.terms.going);
        for (group, epoch, leaving) in going {
            if before.get(&group) != Some(&(epoch, leaving)) {
                self.terms.release(ROOT, leaving, group);
                self.counters.chains_replaced += 1;
            }
            self.terms.going.insert(group, (epoch, leaving));
        }
    }

    /// Whether a member is there, knows what it is to know, and is not about to be left out itself.
    fn is_counted_on(&self, record: &GroupRecord, node: NodeId) -> bool {
        let is_heard = node == self.settings.node || !self.peers.is_suspected(node);
        let group = GroupId(record.group);
        let is_turned =
            self.terms.turning.get(&ROOT).is_some_and(|turning| (turning.group, turning.member) == (group, node));
        is_heard && !is_turned && self.terms.have_spoken.contains(&node) && !self.terms.absent.contains(&(group, node))
    }

    /// Replicas of chains that this node is not in any more, nor comes back to, go. The root must have been asked since this node's
    /// start, and know of the replica's configuration: whatever that has said was said in configurations before the one without it.
    pub(in crate::host) fn leave_replaced_chains(&mut self) {
        if !self.directory.is_followed || self.settings.is_new {
            return;
        }
        let me = self.settings.node;
        let is_over = |record: &&GroupRecord| {
            let Some(index) = self.find(GroupId(record.group)) else { return false };
            let group = &self.groups[index as usize];
            let is_known = group.replica.chain().is_some_and(|chain| chain.epoch() <= Epoch(record.epoch));
            // One that has forgotten what it said begins anew in its own time.
            let is_there = !matches!(group.state, GroupState::Unborn | GroupState::Forgetful);
            record.is_left_by(me) && is_known && is_there
        };
        let left: Vec<GroupId> =
            self.led_by(ROOT, Protocol::Chain).filter(is_over).map(|record| GroupId(record.group)).collect();
        for group in left {
            self.leave_group(group);
        }
    }
}

#[cfg(test)]
mod tests;
