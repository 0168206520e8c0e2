//! Taking replicas in again that have forgotten what they said: those of durability `memory`, whose nodes did not stop cleanly.
//!
//! Such a replica is silent until each other member has testified (see [`quorate_protocol::paxos::Testimony`]) and it has caught up
//! with all of them. Nothing of this is put on record: at the next unclean stop all is forgotten again.
//!
//! Not so where objects have had groups of their own: a birth that is executed again would bring such a group to life that has forgotten
//! as well, and does not know it.

use std::collections::BTreeMap;

use quorate_protocol::id::Content;
use quorate_protocol::paxos::{self, Paxos, Testimony};
use quorate_protocol::{Epoch, Event, GroupId, NodeId, Slot};

use super::{Group, Host};
use crate::envelope::Envelope;
use crate::frame::Message;
use crate::group_state::GroupState;
use crate::planted::{self, Planted};
use crate::replica::AnyMessage;
use crate::root::Durability;
use crate::volume::is_volume_command;

/// Whether this replica may have said what it does not remember, and nothing of it is on record.
fn has_forgotten(group: &Group) -> bool {
    group.state == GroupState::Forgetful && group.durability == Durability::Memory
}

/// For the status.
pub(super) fn why_forgetful(group: &Group) -> &'static str {
    match has_forgotten(group) && has_no_own_groups(group) {
        true => {
            "may have forgotten what it said before an unclean stop: it takes part again once every other member is there"
        }
        false => "may have forgotten what it said before an unclean stop",
    }
}

fn has_no_own_groups(group: &Group) -> bool {
    group.own.is_none() && !group.machine.owns && group.machine.children().is_none()
}

/// Whether something that a member has accepted may give an object a group of its own.
fn may_bear(testimony: &Testimony) -> bool {
    testimony.accepted.iter().any(|accepted| {
        let Content::Commands(payload) = &accepted.value.content else { return false };
        let mut bytes: &[u8] = payload;
        std::iter::from_fn(|| Envelope::take(&mut bytes)).any(|envelope| is_volume_command(envelope.command))
    })
}

/// Who has not testified after so many heartbeats is gone, or may not: it is asked once in so many.
const PATIENCE_BEATS: u32 = 16;

#[derive(Default)]
pub(super) struct Readmissions(BTreeMap<GroupId, Readmission>);

#[derive(Default)]
struct Readmission {
    /// Of the other members.
    testimonies: BTreeMap<NodeId, Testimony>,
    beats: u32,
}

impl Readmission {
    fn asks(&mut self) -> bool {
        self.beats = self.beats.wrapping_add(1);
        self.beats < PATIENCE_BEATS || self.beats.is_multiple_of(PATIENCE_BEATS)
    }
}

impl Host {
    /// A replica here is silent, and it may be that it can be taken in again.
    pub(super) fn seek_readmission(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        if has_forgotten(group)
            && has_no_own_groups(group)
            && group.replica.paxos().is_some_and(Paxos::may_be_readmitted)
        {
            self.readmissions.0.entry(group.id()).or_default();
        }
    }

    /// Each heartbeat: whoever has not testified is asked, and then for what is lacking.
    pub(super) fn tend_readmissions(&mut self) {
        for (group, mut readmission) in std::mem::take(&mut self.readmissions.0) {
            let Some(index) = self.find(group) else { continue };
            let found = &self.groups[index as usize];
            if !has_forgotten(found) || !has_no_own_groups(found) {
                continue;
            }
            let (epoch, next_slot) = (found.configuration.epoch, found.replica.next_slot());
            let me = self.settings.node;
            let others = || found.configuration.members.iter().copied().filter(move |&node| node != me);
            let testimonies = &readmission.testimonies;
            let ahead = testimonies.iter().max_by_key(|(_, testimony)| testimony.next_slot);
            let enough = if planted::is(Planted::ReadmittedByOne) { 1 } else { others().count() };
            let asked: Vec<(NodeId, bool)> = match ahead {
                Some((&node, testimony)) if testimonies.len() >= enough => {
                    let is_level = testimony.next_slot <= next_slot || planted::is(Planted::ReadmittedBehind);
                    if is_level { Vec::new() } else { vec![(node, true)] }
                }
                _ => others().filter(|node| !testimonies.contains_key(node)).map(|node| (node, false)).collect(),
            };
            if asked.is_empty() && testimonies.values().any(may_bear) {
                // By the time that they testify again it is known whether it does.
                readmission = Readmission::default();
            } else if asked.is_empty() {
                self.readmit(index, readmission.testimonies);
                continue;
            }
            if asked.iter().any(|(_, lacks)| *lacks) || readmission.asks() {
                for (to, lacks) in asked {
                    let start = self.settings.start;
                    self.outbox.send(to, &Message::Readmit { group, epoch, start, next_slot, lacks });
                }
            }
            self.readmissions.0.insert(group, readmission);
        }
    }

    fn readmit(&mut self, index: u32, testimonies: BTreeMap<NodeId, Testimony>) {
        let group = &mut self.groups[index as usize];
        let Some(replica) = group.replica.paxos_mut() else { return };
        let others: Vec<NodeId> = testimonies.keys().copied().collect();
        replica.readmit(testimonies.into_values());
        group.state = GroupState::Alive;
        group.checkpoint.changed = true;
        let (id, epoch, from) = (group.id(), group.configuration.epoch, group.replica.next_slot());
        self.silence_told.remove(&id);
        self.counters.readmitted += 1;
        self.plan(index, Event::Woken);
        // They know by any word that it is not silent any more.
        let message = AnyMessage::Paxos(paxos::Message::Fetch { from });
        others.iter().for_each(|&to| {
            self.outbox.send(to, &Message::Replica { group: id, epoch, message: message.clone() });
        });
    }

    /// Whether a silent replica only lacks slots that others have.
    pub(super) fn is_catching_up(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        let readmission = self.readmissions.0.get(&group.id());
        readmission.is_some_and(|readmission| readmission.testimonies.len() + 1 == group.configuration.members.len())
    }

    /// A member has forgotten what it said before this start of its node.
    pub(super) fn handle_readmit(
        &mut self,
        from: NodeId,
        group: GroupId,
        epoch: Epoch,
        start: u32,
        next_slot: Slot,
        lacks: bool,
    ) {
        let Some(index) = self.rouse(group) else { return };
        let found = &mut self.groups[index as usize];
        let is_member = found.configuration.epoch == epoch && found.configuration.contains(from);
        if !found.is_alive() {
            return self.tell_silent(index);
        }
        if !is_member || from == self.settings.node || !has_no_own_groups(found) {
            return;
        }
        if lacks {
            self.catch_ups.push((group, from, next_slot));
            return;
        }
        let now = self.clock.now();
        let Some(testimony) = found.replica.paxos_mut().map(|replica| replica.testify(from, now)) else { return };
        self.forget_mail_from(from, group);
        let group_lsn = self.groups[index as usize].lsn;
        let is_durable = self.may_speak(index);
        let lane = if is_durable { self.outbox.lane(from) } else { self.outbox.lane_once_durable(from, group_lsn) };
        if let Some(lane) = lane {
            Message::Testimony { group, epoch, start, testimony }.encode(lane);
        }
        self.note_waking(index);
    }

    pub(super) fn handle_testimony(
        &mut self,
        from: NodeId,
        group: GroupId,
        epoch: Epoch,
        start: u32,
        testimony: Testimony,
    ) {
        let Some(index) = self.find(group).filter(|_| start == self.settings.start) else { return };
        let configuration = &self.groups[index as usize].configuration;
        if configuration.epoch == epoch
            && configuration.contains(from)
            && from != self.settings.node
            && let Some(readmission) = self.readmissions.0.get_mut(&group)
        {
            readmission.testimonies.insert(from, testimony);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_object::Outcome;

    use super::*;
    use crate::answer::Answer;
    use crate::host::three_nodes::{Cluster, Fate, arrives};

    fn of_memory() -> Cluster {
        Cluster::new(|settings| settings.defaults.durability = Durability::Memory)
    }

    fn state(cluster: &mut Cluster, id: u32) -> GroupState {
        let volume = cluster.volume();
        let host = &cluster.node(id).host;
        host.groups[host.find(volume).expect("it is a member") as usize].state
    }

    fn reads(cluster: &mut Cluster, at: u32, value: &[u8]) -> bool {
        let number = cluster.read(at);
        cluster.pass(300, arrives);
        cluster.node(at).answers.contains(&(number, Answer::Outcome(Outcome::Bulk(value.to_vec()))))
    }

    #[test]
    fn nothing_is_lost_where_nodes_die_one_after_the_other() {
        let mut cluster = of_memory();
        for (round, id) in [3, 1, 2, 2, 1, 3].into_iter().enumerate() {
            let value = [b'0' + round as u8];
            let at = id % 3 + 1;
            let written = cluster.write(at, &value);
            cluster.pass(1_500, arrives);
            assert!(cluster.is_done(at, written));
            cluster.restart(id);
            assert_eq!(state(&mut cluster, id), GroupState::Forgetful);
            cluster.pass(2_000, arrives);
            assert_eq!(state(&mut cluster, id), GroupState::Alive);
            assert!((1..=3).all(|at| reads(&mut cluster, at, &value)));
        }
    }

    #[test]
    fn whoever_has_forgotten_waits_for_all_others() {
        let mut cluster = of_memory();
        cluster.restart(3);
        cluster.node(2).is_down = true;
        cluster.pass(3_000, arrives);
        assert_eq!(state(&mut cluster, 3), GroupState::Forgetful);
        cluster.node(2).is_down = false;
        cluster.pass(2_000, arrives);
        assert_eq!(state(&mut cluster, 3), GroupState::Alive);
        assert_eq!(cluster.node(3).host.counters().readmitted, 1);
    }

    #[test]
    fn a_quorum_that_a_forgotten_vote_was_part_of_still_counts() {
        let mut cluster = of_memory();
        let volume = cluster.volume();
        // Node 2 hears of nothing that is decided.
        let all_but_2 = |_: NodeId, to: NodeId, message: &Message<'_>| match message {
            Message::Replica { group, .. } if *group == volume && to == NodeId(2) => Fate::IsLost,
            _ => Fate::Arrives,
        };
        let written = cluster.write(1, b"one");
        // Nor does node 1 say that it is decided, before node 3 has forgotten it.
        cluster.pass(3, all_but_2);
        assert!(cluster.is_done(1, written));
        cluster.restart(3);
        cluster.pass(1_000, all_but_2);
        assert_eq!(state(&mut cluster, 3), GroupState::Alive);
        cluster.node(1).is_down = true;
        cluster.pass(3_000, arrives);
        assert!(reads(&mut cluster, 2, b"one") && reads(&mut cluster, 3, b"one"));
    }
}
