//! Own groups that were born here later than at their other members: what those have executed has to be fetched.
//!
//! A member that comes to stand on its volume's snapshot may have very many of them. They are born some in each turn, and asked about
//! in rounds, so that neither this node nor those who answer stand still for it. What comes for one that is yet to be born waits.

use std::collections::BTreeMap;
use std::ops::Bound;

use quorate_protocol::{GroupId, Slot, paxos};

use super::led::own_groups_of;
use super::own::SETTLE_US;
use super::{Host, Timer};
use crate::frame::Message;
use crate::replica::AnyMessage;
use crate::volume::{Birth, Frozen, Record, volume_of};

/// Groups that are born at once, and in each turn from then on.
pub(super) const BORN_PER_TURN: usize = 512;
/// Groups that are asked about in one turn, and how soon the next are.
const FETCHED_PER_TURN: usize = 512;
const NEXT_US: u64 = 1_000;
/// Who was born late asks the others so often for what they have executed; who was born with nothing until it has something.
const QUESTIONS: u32 = 5;

#[derive(Default)]
pub(super) struct Late {
    /// How often each has asked.
    groups: BTreeMap<GroupId, u32>,
    /// Yet to be born, with nothing but their names.
    unborn: BTreeMap<GroupId, Vec<u8>>,
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

    pub(super) fn is_unborn(&self, group: GroupId) -> bool {
        self.unborn.contains_key(&group)
    }

    pub(super) fn has_unborn(&self) -> bool {
        !self.unborn.is_empty()
    }

    /// The volume stands on another state, or is gone.
    pub(super) fn forget_unborn(&mut self, volume: GroupId) {
        for group in self.unborn.range(own_groups_of(volume)).map(|(group, _)| *group).collect::<Vec<_>>() {
            self.unborn.remove(&group);
        }
    }

    pub(super) fn bear_later(&mut self, group: GroupId, name: Vec<u8>) {
        self.unborn.insert(group, name);
    }
}

impl Host {
    /// As the volume's replica here has it by now: it may have ended meanwhile, or be another group.
    pub(super) fn bear_some_late(&mut self) {
        if !self.own.late.has_unborn() {
            return;
        }
        for _ in 0..BORN_PER_TURN {
            let Some((group, name)) = self.own.late.unborn.pop_first() else { break };
            let Some((volume, number)) = volume_of(group) else { continue };
            let Some(index) = self.find(volume).filter(|&index| self.groups[index as usize].is_alive()) else {
                continue;
            };
            let objects = self.groups[index as usize].machine.objects();
            let record = objects.and_then(|objects| Record::decode(&objects.away(&name)?).ok());
            if let Some(record) = record.filter(|record| record.number == number) {
                self.bear_own(index, &Birth { name, record, state: Frozen::default() }, false);
            }
        }
        self.set_settle_timer(SETTLE_US);
    }

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
    use quorate_object::Command;
    use quorate_protocol::{Event, NodeId, Proposal};

    use super::super::own::BIRTH_EPOCH;
    use super::*;
    use crate::Target;
    use crate::host::Submission;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, Fate, arrives};
    use crate::root::Reads;
    use crate::volume::own_group;
    use std::cell::Cell;

    fn create(cluster: &mut Cluster, count: usize) {
        for names in (0..count).collect::<Vec<_>>().chunks(500) {
            let number = cluster.next_number();
            let mut request = GroupRequest::of(GroupAction::Create { value: b"v".to_vec() });
            request.names = names.iter().map(|name| name.to_le_bytes().to_vec()).collect();
            request.is_batch = true;
            cluster.node(1).host.submit_group_request(number, 0, request);
            cluster.pass(2_000, arrives);
        }
    }

    #[test]
    fn very_many_groups_that_a_volume_has_and_its_member_has_not_are_born_over_several_turns() {
        let mut cluster = Cluster::new(|_| {});
        let volume = cluster.volume();
        let count = 2 * BORN_PER_TURN + 100;
        create(&mut cluster, count);
        let host = &mut cluster.node(3).host;
        let groups: Vec<GroupId> = host.here.all.iter().map(GroupId).collect();
        assert_eq!(groups.len(), count);
        // As if the volume's replica had come to its state by a snapshot.
        groups.iter().for_each(|group| assert!(host.end_own(*group)));
        let index = host.find(volume).expect("it is a member");
        host.reconcile_own_groups(index);
        assert_eq!(host.here.all.len() as usize, BORN_PER_TURN);
        let unborn: Vec<GroupId> = groups.into_iter().filter(|group| !host.here.all.contains(group.0)).collect();
        let fetch = || AnyMessage::Paxos(paxos::Message::Fetch { from: Slot(0) });
        assert!(unborn.iter().all(|group| host.keep_message(NodeId(1), *group, BIRTH_EPOCH, fetch())), "mail waits");
        assert!(host.next_turn_at() <= host.clock.now(), "it goes on at once");
        // One ends before it is born.
        let ended = *unborn.last().expect("most are");
        let name = host.own.late.unborn[&ended].clone();
        host.groups[index as usize].machine.objects_mut().expect("it is a volume").remove_name(&name);
        let mut before = BORN_PER_TURN;
        for _ in 0..5 {
            cluster.pass(1, arrives);
            let born = cluster.node(3).host.here.all.len() as usize;
            assert!(born - before <= BORN_PER_TURN, "{} in one turn", born - before);
            before = born;
        }
        assert_eq!(before, count - 1);
        cluster.pass(3_000, arrives);
        let host = &cluster.node(3).host;
        assert!(host.own.late.is_empty() && !host.own.late.has_unborn(), "each has got what the others have");
        assert!(host.groups().all(|group| volume_of(group.id()).is_none() || group.replica.next_slot() > Slot(0)));
    }

    #[test]
    fn nothing_is_executed_while_a_volumes_new_state_is_followed() {
        let mut cluster = Cluster::new(|settings| settings.defaults.reads = Reads::Quorum);
        create(&mut cluster, 3);
        let volume = cluster.volume();
        // Node 1 coordinates its group, which has ended in the new state.
        let key = &2_usize.to_le_bytes()[..];
        let number = cluster.next_number();
        let host = &mut cluster.node(1).host;
        let target = Target::Slot { namespace: 0, slot: 0 };
        host.submit(Submission { number, predecessor: None, target, command: &Command::Get { key } });
        host.go_by_volume(number);
        assert_eq!(host.reads.len(), 1);
        let index = host.find(volume).expect("it is a member");
        host.groups[index as usize].machine.objects_mut().expect("it is a volume").remove_name(key);
        host.plan(index, Event::Proposed(Proposal::Mark));
        host.reconcile_own_groups(index);
        assert_eq!(host.own_groups().count(), 2, "the read was turned back with the group");
        assert!(host.todo.iter().any(|(at, ..)| *at == index), "another state came in between");
    }

    #[test]
    fn a_volumes_new_state_says_anew_which_groups_are_to_be_born() {
        let mut late = Late::default();
        let (one, other) = (GroupId(66), GroupId(67));
        for number in 1..4 {
            late.bear_later(own_group(one, number), b"name".to_vec());
            late.bear_later(own_group(other, number), b"name".to_vec());
        }
        late.forget_unborn(one);
        assert!(!late.is_unborn(own_group(one, 1)) && late.is_unborn(own_group(other, 1)));
        assert_eq!(late.unborn.len(), 3);
    }

    #[test]
    fn what_groups_that_were_born_late_lack_is_fetched_over_several_turns() {
        let mut cluster = Cluster::new(|_| {});
        let count = FETCHED_PER_TURN + 100;
        create(&mut cluster, count);
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
