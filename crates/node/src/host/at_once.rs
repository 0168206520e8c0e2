//! Reads that the entry node answers itself, at once: the coordinator under its lease, and any member in a namespace of local
//! reads.
//!
//! A local read is *sequentially consistent*: what a node's clients were told of a group, be it by another node, the replica
//! here must have executed before it answers them alone. So whoever writes reads that, and nobody reads backwards. Until the
//! replica has come so far, they read as under a lease.

use hashbrown::HashMap;
use quorate_object::Command;
use quorate_protocol::chain::Place;
use quorate_protocol::{GroupId, Slot};

use super::group::Group;
use super::{Host, Submission};
use crate::answer::Answer;
use crate::frame::Access;
use crate::hash::FixedState;
use crate::machine::ReadAnswer;
use crate::root::Reads;
use crate::volume::volume_of;

/// Groups of which it is kept one by one what clients were told of them.
const GROUPS_TOLD_MAX: usize = 1 << 16;

impl Host {
    /// False if others are to be asked, or a predecessor or an expiry comes first.
    pub(super) fn read_at_once(&mut self, submission: &Submission<'_>, reads: Reads) -> bool {
        if submission.predecessor.is_some_and(|predecessor| self.clients.contains(predecessor)) {
            return false;
        }
        let Ok(place) = self.directory.resolve(submission.target) else { return false };
        let Some(volume) = self.find(place.group) else { return false };
        if reads == Reads::Routed && !self.is_leased(volume) {
            return self.read_routed_here(submission, volume);
        }
        let answer = match self.read_alone(volume, submission.command, reads) {
            Some(ReadAnswer::Away(_)) if reads == Reads::Local => {
                let own = self.find_own(submission.target, submission.command.key());
                let here = own.and_then(|own| self.find(own.group));
                here.and_then(|index| self.read_alone(index, submission.command, reads))
            }
            answer => answer,
        };
        let Some(ReadAnswer::Outcome(outcome)) = answer else { return false };
        if reads != Reads::Local {
            self.counters.reads_leased += 1;
            self.note_demand(volume, self.settings.node);
        }
        self.answer(submission.number, Answer::Outcome(outcome));
        true
    }

    /// A read of a stable kgroup of which this node has a consistent replica.
    fn read_routed_here(&mut self, submission: &Submission<'_>, volume: u32) -> bool {
        if !self.is_stable_here(submission.target, volume) {
            return false;
        }
        let Some(outcome) = self.read_stable(volume, submission.command) else { return false };
        self.counters.reads_routed_here += 1;
        self.answer(submission.number, Answer::Outcome(outcome));
        true
    }

    fn read_alone(&mut self, index: u32, command: &Command<'_>, reads: Reads) -> Option<ReadAnswer> {
        let may_read = self.groups[index as usize].is_alive()
            && match reads {
                Reads::Local => self.has_executed_what_was_told(index),
                Reads::Lease | Reads::Apportioned | Reads::Routed => self.is_leased(index),
                Reads::Quorum => false,
            };
        if !may_read {
            return None;
        }
        let now = self.clock.stamp();
        self.read_machine(index, |machine| machine.read_objects(command, now))
    }

    fn is_leased(&self, index: u32) -> bool {
        let replica = self.groups[index as usize].replica.paxos();
        !self.clock_off && replica.is_some_and(|replica| replica.is_readable(self.clock.now(), &self.peers))
    }

    fn has_executed_what_was_told(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        let is_joining = group.replica.chain().is_some_and(|chain| chain.status().place == Place::Joining);
        if !group.replica.is_inside() || is_joining || self.own.late.contains(group.id()) {
            return false;
        }
        group.replica.protocol().is_ordered() && self.told.of(group.id()).is_executed_by(group)
    }

    /// An operation of this node's is about to be answered, by what this slot has left behind or, if it is a read, found.
    pub(super) fn note_told(&mut self, number: u64, slot: Slot) {
        let Some(operation) = self.operations_of(number).find(number) else { return };
        let Ok(place) = self.directory.resolve(operation.target) else { return };
        if place.reads != Reads::Local {
            return;
        }
        let below = if operation.access == Access::Write { Slot(slot.0 + 1) } else { slot };
        let (volume, asked) = (place.group, operation.was_sent_to.unwrap_or(place.group));
        // One that was asked of several groups may have been answered by any of them.
        let of_volume = if operation.has_moved || asked == volume { below } else { Slot(0) };
        let asked_number = volume_of(asked).map_or(0, |(_, number)| number);
        let own_number = asked_number.max(operation.away_number.unwrap_or(0));
        self.told.note(volume, Told { below: of_volume, own_number });
        if asked != volume {
            self.told.note(asked, Told { below, own_number: 0 });
        }
        if self.told.is_full() {
            let mut told = std::mem::take(&mut self.told);
            told.make_room(|group, told| {
                self.find(group).is_some_and(|index| told.is_executed_by(&self.groups[index as usize]))
            });
            self.told = told;
        }
    }
}

/// What clients were told of a group: whatever they read here alone must be as new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    /// Everything below was executed.
    below: Slot,
    /// Of a volume: this own group was born.
    own_number: u64,
}

impl Told {
    fn add(&mut self, other: Told) {
        self.below = self.below.max(other.below);
        self.own_number = self.own_number.max(other.own_number);
    }

    fn is_executed_by(self, group: &Group) -> bool {
        let last_number = group.machine.children().map_or(0, |children| children.last_number);
        group.replica.next_slot() >= self.below && last_number >= self.own_number
    }
}

/// What this node's clients were told of each group, whether or not a replica of it is here, awake and born.
#[derive(Default)]
pub(super) struct ToldOf {
    groups: HashMap<GroupId, Told, FixedState>,
    /// Of all others, at most.
    others: Told,
}

impl ToldOf {
    fn of(&self, group: GroupId) -> Told {
        self.groups.get(&group).copied().unwrap_or(self.others)
    }

    fn note(&mut self, group: GroupId, told: Told) {
        self.groups.entry(group).or_insert(self.others).add(told);
    }

    fn is_full(&self) -> bool {
        self.groups.len() > GROUPS_TOLD_MAX
    }

    /// What a replica here has executed needs no more thought. If that is not enough, much is taken for told that was not.
    fn make_room(&mut self, is_executed: impl Fn(GroupId, Told) -> bool) {
        self.groups.retain(|&group, told| !is_executed(group, *told));
        if self.groups.len() > GROUPS_TOLD_MAX / 2 {
            self.groups.drain().for_each(|(_, told)| self.others.add(told));
        }
    }
}

#[cfg(test)]
mod tests;
