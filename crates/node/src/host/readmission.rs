//! Taking replicas in again that have forgotten what they said: those of durability `memory`, whose nodes did not stop cleanly, those
//! of `interval`, whose machines lost power, and those of which the log has lost something.
//!
//! Such a replica is silent until each other member has testified (see [`quorate_protocol::paxos::Testimony`]) and it has caught up
//! with all of them. Where there is a log, it has what was testified to before the checkpoint store has the replica as one that
//! remembers; a start in between finds one that has forgotten.
//!
//! Not so where objects have had groups of their own: a birth that is executed again would bring such a group to life that has forgotten
//! as well, and does not know it.

use std::collections::{BTreeMap, BTreeSet};

use quorate_protocol::id::Content;
use quorate_protocol::paxos::{Paxos, Record, Testimony};
use quorate_protocol::{Epoch, Event, GroupId, NodeId, Slot};

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
    has_no_own_groups(group) && group.replica.paxos().is_some_and(Paxos::may_be_readmitted)
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
        if seeks_readmission(group) {
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
            self.log_testimonies(index);
            self.plan(index, Event::Woken);
        }
        Readmission { unnoticed, ..Readmission::default() }
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
        let declines = asks == Asks::Testimony && !has_no_own_groups(found);
        if !is_member || from == self.settings.node || declines {
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
        // Once that is decided or not, whoever testifies knows whether there are own groups; until then nothing is executed here.
        if may_bear(&testimony) {
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
