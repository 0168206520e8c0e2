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
use quorate_protocol::paxos::{AcceptedValue, Paxos, Record, Testimony};
use quorate_protocol::{Epoch, Event, GroupId, NodeId, Slot};

use super::checkpoints::Stored;
use super::seats::{BeforeTestimonies, Copying, remembers};
use super::{Group, Host};
use crate::envelope::Envelope;
use crate::frame::Message;
use crate::group_state::GroupState;
use crate::planted::{self, Planted};
use crate::readmission::Asks;
use crate::replica::AnyMessage;
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
    } else if group.own.is_some() {
        "may have forgotten what it said, at an unclean stop or with what was lost: another group takes this one's place once a quorum \
         of the others has ended it"
    } else {
        "may have forgotten what it said, at an unclean stop or with what was lost, and cannot be taken in again"
    }
}

/// The last slot that a member has accepted, and that may give an object a group of its own: where each object has one, any command
/// may.
fn last_that_may_bear(testimony: &Testimony, each_has_one: bool) -> Option<Slot> {
    let may_bear = |accepted: &&AcceptedValue| {
        let Content::Commands(payload) = &accepted.value.content else { return false };
        let mut bytes: &[u8] = payload;
        std::iter::from_fn(|| Envelope::take(&mut bytes))
            .any(|envelope| each_has_one || is_volume_command(envelope.command))
    };
    testimony.accepted.iter().filter(may_bear).map(|accepted| accepted.slot).max()
}

/// The name of the node record that says which own groups are not born here.
pub(super) const FROM_BEFORE: &str = "from_before";

/// Own groups of a volume whose replica here had forgotten what it said: they may have been here before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FromBefore {
    pub(super) numbers_below: u64,
    /// And those that begin in slots below: an earlier start may have executed what others had accepted. 0 once they are executed.
    pub(super) slots_below: Slot,
}

fn encode_from_before(all: &BTreeMap<GroupId, FromBefore>) -> Vec<u8> {
    let words = all.iter().flat_map(|(volume, before)| [volume.0, before.numbers_below, before.slots_below.0]);
    words.flat_map(u64::to_le_bytes).collect()
}

/// `None` where the record is not whole.
pub(super) fn decode_from_before(record: &[u8]) -> Option<BTreeMap<GroupId, FromBefore>> {
    let (words, rest) = record.as_chunks::<8>();
    let (entries, more) = words.as_chunks::<3>();
    let of = |entry: &[[u8; 8]; 3]| {
        let [volume, numbers_below, slots_below] = entry.map(u64::from_le_bytes);
        (GroupId(volume), FromBefore { numbers_below, slots_below: Slot(slots_below) })
    };
    (rest.is_empty() && more.is_empty()).then(|| entries.iter().map(of).collect())
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
    /// Of a node that is to take a seat.
    copying: Copying,
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

impl Readmissions {
    /// The group is in another epoch.
    pub(super) fn begin_anew(&mut self, group: GroupId) {
        self.0.remove(&group);
    }

    /// How far a node's copy is that is to take a seat.
    pub(super) fn copying(&self, group: GroupId) -> Option<&Copying> {
        self.0.get(&group).map(|readmission| &readmission.copying)
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
            if asked.is_empty() && asks == Asks::Testimony {
                readmission = self.readmit(index, readmission.testimonies);
            } else if matches!(asks, Asks::Slots | Asks::Standing) || readmission.is_due() {
                let found = &self.groups[index as usize];
                let (epoch, next_slot) = (found.configuration.epoch, found.replica.next_slot());
                let message = Message::Readmit { group, epoch, start: self.settings.start, next_slot, asks };
                asked.iter().for_each(|&node| self.outbox.send(node, &message));
            }
            readmission.beats += u32::from(matches!(asks, Asks::Slots | Asks::Standing));
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
        let next_other = others[readmission.beats as usize % others.len()];
        match self.before_testimonies(found) {
            Some(BeforeTestimonies::Copy) => {
                let unheard = readmission.copying.unheard(others, self.clock.now());
                let is_behind = !readmission.copying.has_reached(found.replica.next_slot());
                return Some(match is_behind && (unheard.is_empty() || readmission.beats.is_multiple_of(2)) {
                    true => (Asks::Slots, vec![next_other]),
                    false => (Asks::Standing, unheard),
                });
            }
            Some(BeforeTestimonies::Wait) => return Some((Asks::Standing, Vec::new())),
            None => {}
        }
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
        Some((Asks::Slots, vec![next_other]))
    }

    fn readmit(&mut self, index: u32, testimonies: BTreeMap<NodeId, Testimony>) -> Readmission {
        let unnoticed = Some(testimonies.keys().copied().collect());
        // Whatever groups were born here before it came are here, unless something was lost.
        let volume = self.groups[index as usize].id();
        let is_newcomer = self.is_newcomer(index)
            && !self.here.losses.may_hide_births_of(volume)
            && !self.own.from_before.contains_key(&volume);
        let group = &mut self.groups[index as usize];
        let each_has_one = group.machine.owns;
        let bearing = testimonies.values().filter_map(|testimony| last_that_may_bear(testimony, each_has_one)).max();
        let id = group.id();
        if let Some(replica) = group.replica.paxos_mut() {
            replica.readmit(testimonies.into_values());
            group.state = GroupState::Alive;
            group.checkpoint.changed = true;
            self.silence_told.remove(&id);
            self.counters.readmitted += 1;
            if !is_newcomer {
                self.keep_earlier_births_away(index, bearing.map_or(Slot(0), Slot::next));
            }
            self.log_testimonies(index);
            if self.groups[index as usize].machine.children().is_some() {
                self.reconcile_own_groups(index);
            }
            // Whoever coordinated may have left meanwhile.
            self.plan(index, Event::Suspected(self.settings.node));
            self.plan(index, Event::Woken);
        }
        Readmission { unnoticed, ..Readmission::default() }
    }

    /// Own groups that began before may have been here, and so may those that begin in slots below `slots_below`.
    fn keep_earlier_births_away(&mut self, index: u32, slots_below: Slot) {
        let group = &self.groups[index as usize];
        let numbers_below = group.machine.children().map_or(0, |children| children.last_number + 1);
        let before = FromBefore { numbers_below, slots_below };
        if before != FromBefore::default() {
            let volume = group.id();
            self.own.from_before.insert(volume, before);
            self.store_from_before();
            self.renew_own_groups_of(volume);
        }
    }

    /// Own groups of numbers below this may have been here.
    pub(super) fn keep_births_away(&mut self, volume: GroupId, numbers_below: u64, batch: &mut Batch) {
        self.own.from_before.insert(volume, FromBefore { numbers_below, slots_below: Slot(0) });
        batch.put_node_record(FROM_BEFORE, encode_from_before(&self.own.from_before));
    }

    /// The volume has come to this slot, and own groups have begun in it, the last of them with this number.
    pub(super) fn note_last_birth(&mut self, volume: GroupId, slot: Slot, last_number: Option<u64>) {
        let Some(before) = self.own.from_before.get_mut(&volume).filter(|before| before.slots_below > Slot(0)) else {
            return;
        };
        let is_before = slot < before.slots_below;
        if let Some(last) = last_number.filter(|_| is_before) {
            before.numbers_below = before.numbers_below.max(last + 1);
        }
        if slot.next() >= before.slots_below {
            before.slots_below = Slot(0);
        }
        self.store_from_before();
        self.renew_own_groups_of(volume);
    }

    fn store_from_before(&mut self) {
        let mut batch = Batch::new();
        batch.put_node_record(FROM_BEFORE, encode_from_before(&self.own.from_before));
        self.store(batch, Stored::Directory { births: Vec::new(), dropped: Vec::new() });
    }

    pub(super) fn forget_earlier_births(&mut self, volume: GroupId, batch: &mut Batch) {
        if self.own.from_before.remove(&volume).is_some() {
            batch.put_node_record(FROM_BEFORE, encode_from_before(&self.own.from_before));
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
        self.groups[index as usize].checkpoint.forgets = true;
        self.want_checkpoint_now(index);
    }

    /// Slots have come that a silent replica lacked. If there are more, whoever sent them is asked at once.
    pub(super) fn learn(&mut self, index: u32, from: NodeId, message: AnyMessage) {
        if self.groups[index as usize].machine.is_unborn_root() && !planted::is(Planted::RootLogOnNothing) {
            return;
        }
        let before = self.groups[index as usize].replica.next_slot();
        self.step_next(index, Event::Received { from, message });
        let Some(found) = self.groups.get(index as usize) else { return };
        let (group, epoch, next_slot) = (found.id(), found.configuration.epoch, found.replica.next_slot());
        let Some(readmission) = self.readmissions.0.get(&group).filter(|_| next_slot > before) else { return };
        let is_copying = self.is_copying(found);
        let lacks = |testimony: &Testimony| testimony.next_slot > next_slot;
        let is_behind = match is_copying {
            true => !readmission.copying.has_reached(next_slot),
            false => readmission.testimonies.values().any(lacks),
        };
        if is_behind {
            let (start, asks) = (self.settings.start, Asks::Slots);
            self.outbox.send(from, &Message::Readmit { group, epoch, start, next_slot, asks });
        }
    }

    /// Whether a silent replica only lacks slots that others have.
    pub(super) fn is_catching_up(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        if self.is_copying(group) {
            return true;
        }
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
        self.compare_root_groups(from, group, epoch);
        let Some(index) = self.rouse(group) else { return };
        let now = self.clock.now();
        let found = &self.groups[index as usize];
        let is_member = found.configuration.epoch == epoch && found.configuration.contains(from);
        let is_ahead = found.configuration.epoch < epoch;
        let is_copying = matches!(asks, Asks::Slots | Asks::Standing);
        let found = &self.groups[index as usize];
        if !found.is_alive() {
            return self.tell_silent(index);
        }
        if is_ahead {
            self.meet_unknown_group();
            return;
        }
        if !(is_member || is_copying && self.is_to_enter(found, from)) || from == self.settings.node {
            return;
        }
        let found = &mut self.groups[index as usize];
        // One that would be silent after a start is not well.
        let is_well = remembers(found);
        let Some(replica) = found.replica.paxos_mut() else { return };
        let testimony = match asks {
            Asks::Standing if !is_well => return,
            Asks::Notice => {
                replica.forget_silence(from);
                self.catch_ups.push((group, from, next_slot));
                Testimony::default()
            }
            Asks::Slots => return self.catch_ups.push((group, from, next_slot)),
            Asks::Standing => Testimony { next_slot: replica.next_slot(), ..Testimony::default() },
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
        let now = self.clock.now();
        let before_testimonies = self.before_testimonies(&self.groups[index as usize]);
        let configuration = &self.groups[index as usize].configuration;
        if configuration.epoch == epoch
            && configuration.contains(from)
            && from != self.settings.node
            && let Some(readmission) = self.readmissions.0.get_mut(&group)
        {
            match before_testimonies {
                Some(BeforeTestimonies::Copy) => return readmission.copying.note(from, testimony.next_slot, now),
                Some(BeforeTestimonies::Wait) => return,
                None => {}
            }
            match &mut readmission.unnoticed {
                Some(unnoticed) => drop(unnoticed.remove(&from)),
                None => drop(readmission.testimonies.insert(from, testimony)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
