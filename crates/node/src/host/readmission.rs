//! Taking replicas in again that have forgotten what they said: those of durability `memory`, whose nodes did not stop cleanly, those
//! of `interval`, whose machines lost power, and those of which the log has lost something.
//!
//! Such a replica is silent until each other member has testified (see [`quorate_protocol::paxos::Testimony`]) and it has caught up
//! with all of them. Where there is a log, it has what was testified to before the checkpoint store has the replica as one that
//! remembers; a start in between finds one that has forgotten.
//!
//! Where objects have groups of their own, births are executed again while it catches up. None of these groups is born by that, nor later:
//! it may have been here before, and have said what nobody here remembers.

use std::collections::{BTreeMap, BTreeSet};

use quorate_checkpoint::Batch;
use quorate_protocol::id::Content;
use quorate_protocol::paxos::{Paxos, Record, Testimony};
use quorate_protocol::{Epoch, Event, GroupId, NodeId, Slot};

use super::checkpoints::Stored;
use super::{Group, Host};
use crate::envelope::Envelope;
use crate::frame::Message;
use crate::group_state::GroupState;
use crate::planted::{self, Planted};
use crate::readmission::Asks;
use crate::root::Durability;
use crate::volume::is_volume_command;

/// Whether this replica can be taken in again, should it have forgotten what it said.
pub(super) fn may_be_readmitted(group: &Group) -> bool {
    group.own.is_none() && group.replica.paxos().is_some_and(Paxos::may_be_readmitted)
}

/// Whether it can leave its group instead, and join it with nothing: see [`Host::leave_forgotten_chains`].
pub(super) fn may_join_anew(group: &Group) -> bool {
    group.replica.chain().is_some() && group.own.is_none()
}

fn seeks_readmission(group: &Group) -> bool {
    group.state == GroupState::Forgetful && may_be_readmitted(group)
}

/// For the status.
pub(super) fn why_forgetful(group: &Group) -> &'static str {
    if may_be_readmitted(group) {
        "may have forgotten what it said, at an unclean stop or with what was lost: it waits for every other member to testify"
    } else if may_join_anew(group) {
        "may have forgotten what it said, at an unclean stop or with what was lost: the chain leaves it out, and it joins again"
    } else {
        "may have forgotten what it said, at an unclean stop or with what was lost, and cannot be taken in again"
    }
}

/// Whether something that a member has accepted may give an object a group of its own.
fn may_bear(testimony: &Testimony) -> bool {
    testimony.accepted.iter().any(|accepted| {
        let Content::Commands(payload) = &accepted.value.content else { return false };
        let mut bytes: &[u8] = payload;
        std::iter::from_fn(|| Envelope::take(&mut bytes)).any(|envelope| is_volume_command(envelope.command))
    })
}

/// The name of the node record that says which own groups are not born here.
pub(super) const UNBORN: &str = "unborn";

fn encode_unborn(unborn_below: &BTreeMap<GroupId, u64>) -> Vec<u8> {
    let numbers = unborn_below.iter().flat_map(|(volume, number)| [volume.0, *number]);
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// `None` where the record is not whole.
pub(super) fn decode_unborn(record: &[u8]) -> Option<BTreeMap<GroupId, u64>> {
    let (numbers, rest) = record.as_chunks::<8>();
    let (pairs, single) = numbers.as_chunks::<2>();
    let whole = rest.is_empty() && single.is_empty();
    let of = |[volume, number]: &[[u8; 8]; 2]| (GroupId(u64::from_le_bytes(*volume)), u64::from_le_bytes(*number));
    whole.then(|| pairs.iter().map(of).collect())
}

/// By group.
#[derive(Default)]
pub(super) struct Readmissions(BTreeMap<GroupId, Readmission>);

#[derive(Default)]
struct Readmission {
    /// Of the other members.
    testimonies: BTreeMap<NodeId, Testimony>,
    /// Who is not known to have noticed that the replica takes part again, once it does.
    unnoticed: Option<BTreeSet<NodeId>>,
    beats: u32,
}

/// Heartbeats between two questions at most, to somebody who does not answer.
const BEATS_MAX: u32 = 256;

impl Readmission {
    /// Whether it is asked with this heartbeat: ever more rarely, since who does not answer is gone, or declines.
    fn is_due(&mut self) -> bool {
        self.beats = self.beats.wrapping_add(1);
        self.beats.is_power_of_two() || self.beats.is_multiple_of(BEATS_MAX)
    }
}

impl Host {
    /// A replica here is silent, and it may be that it can be taken in again.
    pub(super) fn seek_readmission(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        if seeks_readmission(group) && !self.settings.is_new {
            self.readmissions.0.entry(group.id()).or_default();
        }
    }

    /// Whoever did not answer may do so now.
    pub(super) fn ask_again_soon(&mut self) {
        self.readmissions.0.values_mut().for_each(|readmission| readmission.beats = 0);
    }

    /// Each heartbeat: whoever has not testified is asked, then somebody for what is lacking, then all to take notice.
    pub(super) fn tend_readmissions(&mut self) {
        for (group, mut readmission) in std::mem::take(&mut self.readmissions.0) {
            let Some(index) = self.find(group) else { continue };
            let Some((asks, asked)) = self.next_question(index, &readmission) else { continue };
            if asked.is_empty() {
                readmission = self.readmit(index, readmission.testimonies);
            } else if asks == Asks::Slots || readmission.is_due() {
                let found = &self.groups[index as usize];
                let (epoch, next_slot) = (found.configuration.epoch, found.replica.next_slot());
                let message = Message::Readmit { group, epoch, start: self.settings.start, next_slot, asks };
                asked.iter().for_each(|&node| self.outbox.send(node, &message));
            }
            readmission.beats += u32::from(asks == Asks::Slots);
            self.readmissions.0.insert(group, readmission);
        }
    }

    /// What is to be asked next, and of whom; of nobody, if all have testified and nothing is lacking. `None` if all is done, or
    /// cannot be.
    fn next_question(&self, index: u32, readmission: &Readmission) -> Option<(Asks, Vec<NodeId>)> {
        let found = &self.groups[index as usize];
        if let Some(unnoticed) = &readmission.unnoticed {
            let is_known = unnoticed.is_empty() || !found.is_alive();
            return (!is_known).then(|| (Asks::Notice, unnoticed.iter().copied().collect()));
        }
        if !seeks_readmission(found) {
            return None;
        }
        let members = found.configuration.members.iter().copied();
        let others: Vec<NodeId> = members.filter(|&node| node != self.settings.node).collect();
        let testimonies = &readmission.testimonies;
        let enough = if planted::is(Planted::ReadmittedByOne) { 1 } else { others.len() };
        if testimonies.len() < enough {
            let missing = others.into_iter().filter(|node| !testimonies.contains_key(node));
            return Some((Asks::Testimony, missing.collect()));
        }
        let reached = testimonies.values().map(|testimony| testimony.next_slot).max();
        if reached <= Some(found.replica.next_slot()) || planted::is(Planted::ReadmittedBehind) {
            return Some((Asks::Testimony, Vec::new()));
        }
        // One after the other: whoever had executed the most may be gone.
        Some((Asks::Slots, vec![others[readmission.beats as usize % others.len()]]))
    }

    fn readmit(&mut self, index: u32, testimonies: BTreeMap<NodeId, Testimony>) -> Readmission {
        let unnoticed = Some(testimonies.keys().copied().collect());
        let group = &mut self.groups[index as usize];
        let id = group.id();
        if let Some(replica) = group.replica.paxos_mut() {
            replica.readmit(testimonies.into_values());
            group.state = GroupState::Alive;
            group.checkpoint.changed = true;
            self.silence_told.remove(&id);
            self.counters.readmitted += 1;
            self.keep_earlier_births_away(index);
            self.log_testimonies(index);
            if self.groups[index as usize].machine.children().is_some() {
                self.reconcile_own_groups(index);
            }
            self.plan(index, Event::Woken);
        }
        Readmission { unnoticed, ..Readmission::default() }
    }

    /// Own groups that began before may have been here.
    fn keep_earlier_births_away(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let Some(last) = group.machine.children().map(|children| children.last_number) else { return };
        self.own.unborn_below.insert(group.id(), last + 1);
        let mut batch = Batch::new();
        batch.put_node_record(UNBORN, encode_unborn(&self.own.unborn_below));
        self.store(batch, Stored::Directory { births: Vec::new(), dropped: Vec::new() });
    }

    pub(super) fn forget_earlier_births(&mut self, volume: GroupId, batch: &mut Batch) {
        if self.own.unborn_below.remove(&volume).is_some() {
            batch.put_node_record(UNBORN, encode_unborn(&self.own.unborn_below));
        }
    }

    /// What the replica has taken over is its own word from here on, also for later starts.
    fn log_testimonies(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        if group.durability == Durability::Memory {
            return;
        }
        let promised = group.replica.paxos().map(|replica| Record::Promised { ballot: replica.status().ballot });
        promised.iter().for_each(|record| self.persist::<Paxos>(index, record));
        self.log_accepted(index);
        // Whatever the log held before is made up for.
        self.groups[index as usize].checkpoint.covered_below = self.wal.durable();
        self.want_checkpoint_now(index);
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
        (group, epoch): (GroupId, Epoch),
        start: u32,
        next_slot: Slot,
        asks: Asks,
    ) {
        let Some(index) = self.rouse(group) else { return };
        let now = self.clock.now();
        let found = &mut self.groups[index as usize];
        let is_member = found.configuration.epoch == epoch && found.configuration.contains(from);
        if !found.is_alive() {
            return self.tell_silent(index);
        }
        if !is_member || from == self.settings.node {
            return;
        }
        let Some(replica) = found.replica.paxos_mut() else { return };
        let testimony = match asks {
            Asks::Notice => {
                replica.forget_silence(from);
                self.catch_ups.push((group, from, next_slot));
                Testimony::default()
            }
            Asks::Slots => return self.catch_ups.push((group, from, next_slot)),
            Asks::Testimony => {
                let testimony = replica.testify(from, now);
                self.forget_mail_from(from, group);
                testimony
            }
        };
        let lsn = self.groups[index as usize].lsn;
        let lane = match self.may_speak(index) {
            true => self.outbox.lane(from),
            false => self.outbox.lane_once_durable(from, lsn),
        };
        if let Some(lane) = lane {
            Message::Testimony { group, epoch, start, testimony }.encode(lane);
        }
        self.plan(index, Event::Woken);
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
        // An earlier start of this node may have executed it, and others have not. It is asked again, until whoever testifies has.
        if may_bear(&testimony) {
            if let Some(readmission) = self.readmissions.0.get_mut(&group) {
                readmission.beats = 0;
            }
            return;
        }
        let configuration = &self.groups[index as usize].configuration;
        if configuration.epoch == epoch
            && configuration.contains(from)
            && from != self.settings.node
            && let Some(readmission) = self.readmissions.0.get_mut(&group)
        {
            match &mut readmission.unnoticed {
                Some(unnoticed) => drop(unnoticed.remove(&from)),
                None => drop(readmission.testimonies.insert(from, testimony)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
