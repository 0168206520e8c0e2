//! Own groups that were born here later than at their other members: what those have executed has to be fetched.
//!
//! A member that comes to stand on its volume's snapshot may have very many of them. They are asked about in rounds, some in each
//! turn, so that neither this node nor those who answer stand still for it.

use std::collections::BTreeMap;
use std::ops::Bound;

use quorate_protocol::{GroupId, Slot, paxos};

use super::{Host, Timer};
use crate::frame::Message;
use crate::replica::AnyMessage;

/// Groups that are asked about in one turn, and how soon the next are.
const FETCHED_PER_TURN: usize = 512;
const NEXT_US: u64 = 1_000;
/// Who was born late asks the others so often for what they have executed; who was born with nothing until it has something.
const QUESTIONS: u32 = 5;

#[derive(Default)]
pub(super) struct Late {
    /// How often each has asked.
    groups: BTreeMap<GroupId, u32>,
    /// The last one that was looked at in the round under way, if one is.
    asked_up_to: Option<GroupId>,
}

impl Late {
    pub(super) fn insert(&mut self, group: GroupId) {
        self.groups.insert(group, 0);
    }

    pub(super) fn contains(&self, group: GroupId) -> bool {
        self.groups.contains_key(&group)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl Host {
    /// Begins a round, unless one is under way.
    pub(super) fn fetch_for_late(&mut self) {
        if self.own.late.asked_up_to.is_none() && !self.own.late.is_empty() {
            self.fetch_for_some_late();
        }
    }

    pub(super) fn fetch_for_some_late(&mut self) {
        let after = self.own.late.asked_up_to.map_or(Bound::Unbounded, Bound::Excluded);
        let due = self.own.late.groups.range((after, Bound::Unbounded)).take(FETCHED_PER_TURN);
        let due: Vec<(GroupId, u32)> = due.map(|(group, asked)| (*group, *asked)).collect();
        self.own.late.asked_up_to = due.last().map(|(group, _)| *group).filter(|_| due.len() == FETCHED_PER_TURN);
        for (group, asked) in due {
            match self.fetch_for(group) {
                Some(from) if from == Slot(0) || asked < QUESTIONS => {
                    self.own.late.groups.insert(group, asked.saturating_add(1));
                }
                _ => drop(self.own.late.groups.remove(&group)),
            }
        }
        if self.own.late.asked_up_to.is_some() {
            self.timers.set(self.clock.now().after_us(NEXT_US), Timer::Late);
        }
    }

    /// Asks the other members for what they have executed, and says from which slot on.
    fn fetch_for(&mut self, group: GroupId) -> Option<Slot> {
        let late = &self.groups[self.find(group)? as usize];
        let (from, epoch, members) =
            (late.replica.next_slot(), late.configuration.epoch, late.configuration.members.clone());
        if late.is_alive() {
            let message = AnyMessage::Paxos(paxos::Message::Fetch { from });
            for &member in members.iter().filter(|&&member| member != self.settings.node) {
                self.outbox.send(member, &Message::Replica { group, epoch, message: message.clone() });
            }
        }
        Some(from)
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::NodeId;

    use super::*;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, Fate, arrives};
    use std::cell::Cell;

    #[test]
    fn what_groups_that_were_born_late_lack_is_fetched_over_several_turns() {
        let mut cluster = Cluster::new(|_| {});
        let number = cluster.next_number();
        let mut request = GroupRequest::of(GroupAction::Create { value: b"v".to_vec() });
        let count = FETCHED_PER_TURN + 100;
        request.names = (0..count).map(|name| name.to_le_bytes().to_vec()).collect();
        request.is_batch = true;
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(3_000, arrives);
        let host = &mut cluster.node(3).host;
        let groups: Vec<GroupId> = host.here.all.iter().map(GroupId).collect();
        assert_eq!(groups.len(), count);
        for group in groups {
            host.rouse(group);
            host.own.late.insert(group);
        }
        host.set_settle_timer(0);
        let (mut all, mut most) = (0, 0);
        for _ in 0..1_000 {
            let sent = Cell::new(0);
            cluster.pass(1, |from, to, message| {
                let is_fetch =
                    |message: &AnyMessage| matches!(message, AnyMessage::Paxos(paxos::Message::Fetch { .. }));
                if let Message::Replica { message, .. } = message
                    && (from, to) == (NodeId(3), NodeId(1))
                    && is_fetch(message)
                {
                    sent.set(sent.get() + 1);
                }
                Fate::Arrives
            });
            most = most.max(sent.get());
            all += sent.get();
        }
        assert!(most <= FETCHED_PER_TURN, "{most} in one turn");
        assert_eq!(all, count * (QUESTIONS as usize + 1), "each asks as often as one alone would");
        assert!(cluster.node(3).host.own.late.is_empty());
    }
}
