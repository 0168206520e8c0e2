//! One bad group stays one bad group: what panics in it is caught, its replica is given up, and the node goes on.
//!
//! A replica that is given up, like one that may have forgotten what it said or whose log is damaged, is *silent*: it
//! neither votes nor serves before its node starts anew. The other members would wait for it in vain, because its node is
//! well and nobody suspects it. So the node says so for it, and they go on without it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_checkpoint::Batch;
use quorate_object::Outcome;
use quorate_protocol::{Epoch, Event, GroupId, Instant, NodeId};

use super::Host;
use super::checkpoints::Stored;
use super::group::Group;
use super::own::BIRTH_EPOCH;
use crate::envelope::Envelope;
use crate::frame::{Bounce, Message};
use crate::group_state::GroupState;
use crate::machine::{Machine, ReadAnswer};
use crate::root::{Durability, ROOT};

/// The node record that names replicas whose memory was given up and is not to be trusted after a clean stop either.
pub(super) const RECORD: &str = "given-up";

/// What went wrong in what is one group's own, for the log of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub group: GroupId,
    /// [`super::ROOT_NAMESPACE`] for the root.
    pub namespace: u32,
    /// What the group's replica was doing.
    pub doing: &'static str,
    /// The words of the panic, or what is wrong with what was read.
    pub words: String,
    /// Otherwise it met bytes that are sound and that it cannot read.
    pub is_panic: bool,
    /// Whether the replica was given up.
    pub is_quarantined: bool,
}

const READ_FAILED: &str = "ERR the read failed inside the node, whose log says more: please report it";

/// Where a simulator makes a group panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicIn {
    Step,
    Apply,
}

/// Runs what is one group's own. If it panics, its words come back, and nothing that it had in hand is to be used again.
pub(super) fn isolate<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let words =
            panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        words.unwrap_or("a panic without words").to_owned()
    })
}

/// Panics without a word on standard error: it is no news.
pub(super) fn panic_as_planned() -> ! {
    std::panic::resume_unwind(Box::new("as planned"))
}

impl Host {
    /// Gives a group's replica up after a panic. It falls silent, whoever waits for it goes on elsewhere, and the other
    /// members are told.
    pub(super) fn quarantine(&mut self, index: u32, doing: &'static str, words: String) {
        let group = &mut self.groups[index as usize];
        if group.state == GroupState::Quarantined {
            return;
        }
        group.give_up(self.settings.node);
        let (id, namespace, durability) = (group.id(), group.namespace, group.durability);
        let gathered = std::mem::take(&mut group.gathered);
        group.due_reads.clear();
        self.counters.quarantined += 1;
        self.faults.push(Fault { group: id, namespace, doing, words, is_panic: true, is_quarantined: true });
        self.transfers.forget(id);
        self.swapping.forget(id);
        // No checkpoint will release what its log holds, nor that of its own groups that have ended.
        self.wal.search_again();
        let mut rest = &gathered[..];
        while let Some(envelope) = Envelope::take(&mut rest) {
            let ticket = envelope.ticket;
            self.bounce(ticket.node, ticket.start, ticket.number, Bounce::Silent);
        }
        self.bounce_reads_of(id, Bounce::Silent);
        self.lose_register(id, Bounce::Silent);
        self.turn_away_from(self.settings.node, id);
        self.end_all_awaited(id);
        if durability == Durability::Memory {
            self.remember_given_up();
        }
        self.silence_told.insert(id, self.clock.now());
        let everybody = self.peers.nodes().collect::<Vec<_>>();
        self.send_silent(index, &everybody);
    }

    /// The panics that were caught since this was last asked.
    pub fn take_faults(&mut self) -> Vec<Fault> {
        std::mem::take(&mut self.faults)
    }

    /// What a read says of a group's state; nothing if an expiry has to be decided first. A read changes nothing, so one that panics costs the group nothing: it would do the same at the next member, and the one after that.
    pub(super) fn read_machine(
        &mut self,
        index: u32,
        read: impl FnOnce(&Machine) -> Option<ReadAnswer>,
    ) -> Option<ReadAnswer> {
        let group = &self.groups[index as usize];
        match isolate(|| read(&group.machine)) {
            Ok(answer) => answer,
            Err(words) => {
                self.counters.reads_failed += 1;
                let (group, namespace) = (group.id(), group.namespace);
                let (is_panic, is_quarantined) = (true, false);
                self.faults.push(Fault { group, namespace, doing: "reading", words, is_panic, is_quarantined });
                Some(ReadAnswer::Outcome(Outcome::Error(READ_FAILED.into())))
            }
        }
    }

    /// For a simulator, with [`super::HostSettings::observe`]: the next step of this group, or the next slot that it
    /// executes, panics.
    pub fn plan_panic(&mut self, group: GroupId, place: PanicIn) {
        self.panic_planned = Some((group, place));
    }

    /// Whether a panic is planned for here. It is over then.
    pub(super) fn take_planned_panic(&mut self, index: u32, place: PanicIn) -> bool {
        if !self.settings.observe || self.panic_planned.is_none() {
            return false;
        }
        let here = Some((self.groups[index as usize].id(), place));
        self.panic_planned.take_if(|planned| Some(*planned) == here).is_some()
    }

    /// Somebody has spoken to a replica that is silent: all members are told that it is, at most once a heartbeat.
    pub(super) fn tell_silent(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let (id, now) = (group.id(), self.clock.now());
        let pause_us = self.settings.timing.heartbeat_us;
        let is_told = |at: &Instant| at.after_us(pause_us) > now;
        if !group.state.is_silent() || self.silence_told.get(&id).is_some_and(is_told) {
            return;
        }
        let me = self.settings.node;
        let others: Vec<NodeId> = group.configuration.members.iter().copied().filter(|&node| node != me).collect();
        self.silence_told.insert(id, now);
        self.send_silent(index, &others);
        self.seek_readmission(index);
    }

    /// As [`Host::tell_silent`], for a replica that is not there.
    pub(super) fn tell_kept_from_birth(&mut self, group: GroupId, epoch: Epoch) {
        let now = self.clock.now();
        let pause_us = self.settings.timing.heartbeat_us;
        if self.silence_told.get(&group).is_some_and(|at| at.after_us(pause_us) > now) {
            return;
        }
        self.silence_told.insert(group, now);
        // Who its members are is not known here; whoever is none takes no notice.
        for node in self.peers.nodes().collect::<Vec<_>>() {
            self.outbox.send(node, &Message::Silent { group, epoch });
        }
    }

    /// Somebody takes this node for a member of the group that answers.
    pub(super) fn tell_if_silent(&mut self, group: GroupId) {
        match self.find(group) {
            Some(index) => self.tell_silent(index),
            None if self.is_kept_from_birth(group) => {
                let epoch = if group == ROOT { self.epoch_of_root() } else { BIRTH_EPOCH };
                self.tell_kept_from_birth(group, epoch);
            }
            None => {}
        }
    }

    fn send_silent(&mut self, index: u32, to: &[NodeId]) {
        let group = &self.groups[index as usize];
        let message = Message::Silent { group: group.id(), epoch: group.configuration.epoch };
        for &node in to {
            self.outbox.send(node, &message);
        }
    }

    /// The group's replica at that node neither votes nor serves.
    pub(super) fn handle_silent(&mut self, from: NodeId, group: GroupId, epoch: Epoch) {
        let here = self.find(group).filter(|&index| {
            let group = &self.groups[index as usize];
            group.configuration.epoch == epoch && group.is_alive()
        });
        if let Some(index) = here {
            let known = self.groups[index as usize].replica.is_silent(from);
            self.silence_heard = true;
            self.plan(index, Event::Silenced(from));
            if known {
                return;
            }
        }
        self.turn_away_from(from, group);
    }

    /// A node was started anew: what its last start said of its replicas is over.
    pub(super) fn forget_silence_of(&mut self, node: NodeId) {
        if self.silence_heard {
            self.groups.iter_mut().for_each(|(_, group)| group.replica.forget_silence(node));
        }
    }

    /// Sends operations that went to a silent replica elsewhere. They may have been executed.
    fn turn_away_from(&mut self, node: NodeId, group: GroupId) {
        let waiting: Vec<_> = self
            .clients
            .iter()
            .chain(self.internals.iter())
            .filter(|operation| operation.sent_to == Some(node) && operation.was_sent_to == Some(group))
            .map(|operation| (operation.number, operation.target, operation.own.is_some()))
            .collect();
        for (number, target, is_own) in waiting {
            match is_own {
                true => self.ask_next_member(number, node),
                false => self.directory.distrust(target, node),
            }
            self.retry_after(number, 0);
        }
    }

    /// A clean stop stores nothing of a replica that was given up, so it must not count as clean for it.
    pub(super) fn remember_given_up(&mut self) {
        let given_up =
            |group: &&Group| group.state == GroupState::Quarantined && group.durability == Durability::Memory;
        let ids = self.groups().filter(given_up).flat_map(|group| group.id().0.to_le_bytes()).collect();
        let mut batch = Batch::new();
        batch.put_node_record(RECORD, ids);
        self.store(batch, Stored::Directory { births: Vec::new(), dropped: Vec::new() });
    }
}

/// The groups that a [`RECORD`] names.
pub(super) fn decode_given_up(record: &[u8]) -> impl Iterator<Item = GroupId> + '_ {
    record.as_chunks().0.iter().map(|bytes| GroupId(u64::from_le_bytes(*bytes)))
}

#[cfg(test)]
pub(super) mod tests;
