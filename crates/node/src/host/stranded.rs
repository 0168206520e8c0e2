//! Own groups that lack a quorum do not stay in memory (GigaPaxos, section 3.3.2).
//!
//! What such a group has in flight cannot come to an end before others of its members are back: it is *stranded*, and would
//! never be idle. So it is stored with what it has accepted, and paused like a group at rest; what comes for it wakes it.
//! While it is paused, its record in the store stands for what the log had of it. Once it is awake the log has that again,
//! before another checkpoint takes the record's place. See docs/decisions/0019.

use quorate_protocol::paxos::{self, ACCEPTED_SLOTS_MAX, Paxos, Role};
use quorate_protocol::{Event, GroupId, Instant, Proposal, Slot};
use quorate_wal::Lsn;

use super::Host;
use super::group::Group;
use crate::planted::{self, Planted};
use crate::root::Durability;

/// A group has been without a quorum for so many times what it takes to suspect a node, before it is paused.
const SUSPICIONS: u64 = 4;
/// One with more in flight, or more results, stays awake.
const ASIDE_BYTES_MAX: usize = 64 << 10;
/// What expires in a group that lacked a quorum when it came to rest is looked at again after this, until some node is back.
const EXPIRY_AGAIN_US: u64 = 10_000_000;

impl Group {
    /// Something has happened in it: it was recorded, executed, or asked for.
    pub(super) fn note_progress(&mut self) {
        self.stranded_since = None;
        self.is_set_aside = false;
    }

    /// It was set aside, and still is.
    pub(super) fn is_aside(&self) -> bool {
        self.is_set_aside && self.replica.paxos().is_some_and(Paxos::is_aside)
    }

    /// What is to be stored of it beside its position.
    pub(super) fn accepted_aside(&self) -> Vec<paxos::Record> {
        match self.replica.paxos() {
            Some(replica) if self.is_aside() && !planted::is(Planted::PausedLosesAccepted) => {
                replica.accepted().collect()
            }
            _ => Vec::new(),
        }
    }

    fn may_be_set_aside(&self) -> bool {
        let (bytes, slots) = self.replica.paxos().map_or((0, 0), Paxos::accepted_extent);
        bytes + self.machine.results().bytes() <= ASIDE_BYTES_MAX && slots <= ACCEPTED_SLOTS_MAX
    }
}

/// Whether a record of the store can be of a replica that stands there.
pub(super) fn is_accepted_at(next_slot: Slot, record: &paxos::Record) -> bool {
    let distance = record.entry().and_then(|(slot, _)| slot.0.checked_sub(next_slot.0));
    distance.is_some_and(|distance| distance < ACCEPTED_SLOTS_MAX)
}

impl Host {
    /// After a step of a group that has something in hand: whether too many of its members are suspected for that to come to
    /// an end. Until then it is woken every now and then, if only by itself.
    pub(super) fn note_stranded(&mut self, index: u32) {
        let now = self.clock.now();
        let Some(group) = self.groups.get(index as usize).filter(|_| self.peers.suspects_any()) else { return };
        let is_paxos = group.replica.paxos().is_some();
        if is_paxos && group.rests() && group.stranded_since.is_none() && self.lacks_quorum(group, now) {
            let id = group.id();
            self.groups[index as usize].stranded_since = Some(now);
            self.here.stranded.push_back((now, index, id));
        }
    }

    /// Whether so many members have been suspected since then, without a break, that the others are no quorum.
    pub(super) fn lacks_quorum(&self, group: &Group, since: Instant) -> bool {
        let is_gone = |node| {
            self.peers.is_suspected(node) && self.suspected_at.get(&node).is_none_or(|suspected| *suspected <= since)
        };
        let members = &group.configuration.members;
        let there = (0..members.len()).filter(|&at| !is_gone(members[at])).fold(0, |set, at| set | 1 << at);
        !group.configuration.quorum.is_write_quorum(members.len(), there)
    }

    /// Groups that have been without a quorum and without progress for long are set aside, and then paused.
    pub(super) fn pause_stranded(&mut self, left: &mut usize) {
        let now = self.clock.now();
        let least_us = SUSPICIONS * self.settings.timing.suspicion_us;
        let wait_us = if self.is_crowded() { least_us } else { self.settings.rest_after_us.max(least_us) };
        while *left > 0
            && let Some(&(since, index, id)) = self.here.stranded.front()
            && since.after_us(wait_us) <= now
        {
            self.here.stranded.pop_front();
            *left -= 1;
            if self.find(id) != Some(index) || self.groups[index as usize].stranded_since != Some(since) {
                continue;
            }
            self.groups[index as usize].stranded_since = None;
            match self.lacks_quorum(&self.groups[index as usize], since) {
                true => self.set_aside(index, id),
                false => self.note_quiet(index),
            }
        }
    }

    fn set_aside(&mut self, index: u32, id: GroupId) {
        if !self.come_to_rest(index) && self.groups[index as usize].may_be_set_aside() {
            let group = &mut self.groups[index as usize];
            if let Some(replica) = group.replica.paxos_mut() {
                replica.set_aside(&mut self.effects.paxos);
                group.is_set_aside = !group.replica.is_idle();
            }
            self.perform(index);
            self.run();
        }
        if self.find(id) == Some(index) {
            match self.groups[index as usize].is_aside() {
                true => self.try_rest(index),
                false => self.note_quiet(index),
            }
        }
    }

    /// The store has what a group that leaves memory has accepted, so the log need not.
    pub(super) fn release_accepted(&mut self, id: GroupId) {
        self.counters.paused_stranded += 1;
        if let Some(slots) = self.wal.slots(id.0) {
            self.wal.release_noted(id.0, slots.end, Lsn(0));
        }
    }

    /// A group is awake that was paused while it was stranded: the log has what it has accepted, again.
    pub(super) fn log_accepted_again(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        if group.checkpoint.holds_accepted && group.is_alive() && group.durability != Durability::Memory {
            self.log_accepted(index);
        }
    }

    /// The log has what the replica has accepted, before the store has anything newer.
    pub(super) fn log_accepted(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let accepted: Vec<paxos::Record> =
            group.replica.paxos().map(|own| own.accepted().collect()).unwrap_or_default();
        let is_changed = group.checkpoint.changed;
        accepted.iter().for_each(|record| self.persist::<Paxos>(index, record));
        let group = &mut self.groups[index as usize];
        group.checkpoint.changed = is_changed;
        group.checkpoint.logged_again = group.lsn;
    }

    /// Whether what the store holds of a group may be replaced: whatever else it held, the log has.
    pub(super) fn may_replace_checkpoint(&self, index: u32) -> bool {
        self.groups.get(index as usize).is_none_or(|group| group.checkpoint.logged_again <= self.wal.durable())
    }

    /// There is something to be done in a group that this node does not coordinate. Where nobody does, because the replica here was
    /// set aside or its node started anew, or because a node was lost while the group slept, no client need come first.
    pub(super) fn take_over_if_uncoordinated(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let is_following = group.replica.paxos().is_some_and(|replica| replica.role() == Role::Following);
        let Some(coordinator) = group.replica.coordinator().filter(|_| is_following && group.is_alive()) else {
            return;
        };
        if self.lacks_quorum(group, self.clock.now()) {
            return;
        }
        if coordinator == self.settings.node {
            self.plan(index, Event::Proposed(Proposal::Mark));
        } else if self.peers.is_suspected(coordinator) || !group.configuration.contains(coordinator) {
            self.plan(index, Event::Suspected(coordinator));
        }
    }

    /// Something expires in a group that is not awake. If it lacked a quorum when it came to rest, and no node has come back
    /// since, nobody could decide that.
    pub(super) fn postpone_expiry(&mut self, group: GroupId) -> bool {
        let is_in_vain = self.here.without_quorum.contains(group.0);
        if is_in_vain {
            self.arm_expiry_of_paused(group, self.clock.now().after_us(EXPIRY_AGAIN_US));
        }
        is_in_vain
    }
}
