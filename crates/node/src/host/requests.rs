//! Commands and reads at the replica that they were sent to.

use quorate_object::Command;
use quorate_protocol::effect::ReadMode;
use quorate_protocol::router::SessionId;
use quorate_protocol::{Epoch, Event, GroupId, NodeId, Payload, Proposal, Stamp};

use super::Host;
use super::held::HeldAnswer;
use crate::Target;
use crate::clock::WALLS_APART_MAX_MS;
use crate::envelope::{ENVELOPE_BYTES_MAX, Envelope, Ticket};
use crate::frame::{Access, Bounce, Message, Position};
use crate::group_state::GroupState;
use crate::machine::{Content, ReadAnswer};
use crate::planted::{self, Planted};
use crate::volume::VolumeCommand;

/// Commands are proposed in slots of at most about this size.
pub const SLOT_BYTES_MAX: usize = 1 << 20;

/// Buffers of answered reads that are kept for the next ones, and the largest that is worth it.
const READ_BUFFERS_MAX: usize = 64;
const READ_BUFFER_BYTES_MAX: usize = 4096;

/// What a register group's replicas are born with: its epochs travel with what they say.
const REGISTER_EPOCH: Epoch = Epoch(0);

/// A read on its way to being answered here.
pub struct Read {
    group: GroupId,
    ticket: Ticket,
    access: Access,
    command: Vec<u8>,
    /// Of the router that it has come by.
    session: Option<SessionId>,
    /// No update in flight in its chain concerns it: what is here is as new as all that has passed here.
    is_clean: bool,
    /// The time of the read: whatever expires by then must have expired here first.
    at: Stamp,
}

impl Host {
    /// Takes a command that its entry node, perhaps this one, believes this node coordinates. A router sends it in a session.
    pub(super) fn handle_request(
        &mut self,
        from: NodeId,
        group: GroupId,
        epoch: Epoch,
        access: Access,
        session: Option<SessionId>,
        bytes: &[u8],
    ) {
        let mut rest = bytes;
        let envelope = match Envelope::take(&mut rest) {
            Some(envelope) if rest.is_empty() && envelope.ticket.node == from => envelope,
            _ => {
                self.counters.nonsense += 1;
                return;
            }
        };
        let Ticket { start, number, .. } = envelope.ticket;
        let latest_ms = self.clock.stamp().0 + self.settings.timeout_ms + WALLS_APART_MAX_MS;
        let believed = envelope.deadline.0 <= latest_ms && !self.clock_off;
        if bytes.len() > ENVELOPE_BYTES_MAX || !believed {
            self.counters.stamps_not_believed += 1;
            return self.bounce(from, start, number, Bounce::NotBelieved);
        }
        let found = self.rouse(group);
        let register = found.filter(|&index| self.groups[index as usize].replica.protocol().is_register());
        let is_meant = epoch == Epoch(self.settings.start) || planted::is(Planted::RegisterStartIgnored);
        if register.is_some() && access == Access::Write && !is_meant {
            // What an earlier start of this node has made of it, nobody knows.
            return self.bounce(from, start, number, Bounce::Uncertain { coordinator: None });
        }
        let born_at = if register.is_some() { REGISTER_EPOCH } else { epoch };
        let state = |index: u32| {
            let group = &self.groups[index as usize];
            (group.configuration.epoch == born_at).then_some((index, group.state))
        };
        let index = match found.and_then(state) {
            Some((index, GroupState::Alive)) => index,
            _ if self.keep_request(from, group, epoch, access, bytes) => return,
            Some((index, state)) if state.is_silent() => {
                self.tell_silent(index);
                return self.bounce(from, start, number, Bounce::Silent);
            }
            None if self.point_to_members(from, group) => {
                let coordinator = self.other_member(group);
                return self.bounce(from, start, number, Bounce::NotCoordinator { coordinator });
            }
            None if self.is_kept_from_birth(group) => {
                self.tell_kept_from_birth(group, epoch);
                return self.bounce(from, start, number, Bounce::Silent);
            }
            _ => {
                self.compare_root_groups(from, group, epoch);
                self.meet_unknown_group();
                return self.bounce(from, start, number, Bounce::UnknownGroup);
            }
        };
        let found = &mut self.groups[index as usize];
        found.used_at = self.clock.now();
        found.note_progress();
        self.note_demand(index, from);
        if register.is_some() {
            return self.ask_register(index, &envelope);
        }
        match access {
            Access::Write if self.is_too_large_now(index, &envelope) => {
                self.bounce(from, start, number, Bounce::OutOfMemory);
            }
            Access::Write if self.is_too_early_to_enter(index, envelope.command) => {
                self.bounce(from, start, number, Bounce::Overloaded);
            }
            Access::Write if self.is_too_early_for_births(index, &envelope) => {
                self.bounce(from, start, number, Bounce::Overloaded);
            }
            Access::Write if self.hold_write(index, from, session, &envelope, bytes) => {}
            Access::Write => self.gather(index, bytes),
            Access::ReadLease | Access::ReadQuorum => {
                let read = Read {
                    group,
                    ticket: envelope.ticket,
                    access,
                    command: self.read_buffer(envelope.command),
                    session,
                    is_clean: false,
                    at: self.clock.stamp(),
                };
                let token = self.reads.insert(read) as u64;
                let found = &mut self.groups[index as usize];
                let is_clean = access == Access::ReadLease
                    && found.replica.answers_clean(self.clock.now())
                    && !found.is_in_flight(envelope.command);
                if is_clean {
                    self.counters.reads_clean += 1;
                    self.reads[token as usize].is_clean = true;
                    return self.answer_read(index, token as u32);
                }
                let mode = if access == Access::ReadQuorum { ReadMode::Quorum } else { ReadMode::Lease };
                self.plan(index, Event::Proposed(Proposal::Read { token, mode }));
            }
        }
    }

    /// A copy of a read's command, in a buffer that an earlier one has left.
    fn read_buffer(&mut self, command: &[u8]) -> Vec<u8> {
        let mut buffer = self.read_buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(command);
        buffer
    }

    /// How much a command would make of what the replica here holds, if there is one.
    pub fn copied_bytes(&self, target: Target, command: &Command<'_>) -> usize {
        if !matches!(command, Command::OnKeys(_) | Command::Transaction(_)) {
            return 0;
        }
        let volume = self.directory.resolve(target).ok().and_then(|place| self.find(place.group));
        match volume.map(|index| self.groups[index as usize].machine.content()) {
            Some(Content::Objects(objects)) => command.copied_bytes(objects),
            _ => 0,
        }
    }

    /// Whether this node has no memory for what the command would leave behind. One that was executed before is let
    /// through: it is answered what it was answered then.
    fn is_too_large_now(&self, index: u32, envelope: &Envelope<'_>) -> bool {
        let machine = &self.groups[index as usize].machine;
        self.out_of_memory
            && matches!(machine.content(), Content::Objects(_))
            && (Command::decode(envelope.command).is_ok_and(|command| command.growth_bytes_max().is_some())
                || matches!(VolumeCommand::decode(envelope.command), Some(VolumeCommand::Create { .. })))
            && !machine.results().contains(envelope.ticket)
    }

    /// Puts a command beside the others of this turn for the same group: they will share a slot.
    pub(super) fn gather(&mut self, index: u32, envelope: &[u8]) {
        let group = &mut self.groups[index as usize];
        if group.gathered.is_empty() {
            self.gathered.push(index);
        } else if group.gathered.len() + envelope.len() > SLOT_BYTES_MAX {
            let payload = Payload::from(&group.gathered[..]);
            group.gathered.clear();
            self.plan(index, Event::Proposed(Proposal::Commands(payload)));
        }
        self.groups[index as usize].gathered.extend_from_slice(envelope);
    }

    pub(super) fn propose_gathered(&mut self) {
        while !self.gathered.is_empty() {
            let gathered = std::mem::take(&mut self.gathered);
            self.look_before_proposals(&gathered);
            for index in gathered {
                let Some(group) = self.groups.get_mut(index as usize) else { continue };
                if group.gathered.is_empty() {
                    continue;
                }
                let payload = Payload::from(&group.gathered[..]);
                group.gathered.clear();
                self.step_next(index, Event::Proposed(Proposal::Commands(payload)));
            }
            self.run();
        }
    }

    /// The state may be read now, unless an expiry has to be decided first.
    pub(super) fn answer_read(&mut self, index: u32, token: u32) {
        let Some(read) = self.reads.get_mut(token as usize) else { return };
        read.at = self.clock.stamp();
        // What is in flight takes effect at its own time, which this node's clock may not have heard of.
        if let Some(chain) = self.groups[index as usize].replica.chain().filter(|_| read.is_clean) {
            read.at = read.at.max(chain.received_time());
        }
        if !self.finish_read(index, token) {
            let due_reads = &mut self.groups[index as usize].due_reads;
            due_reads.push(token);
            if due_reads.len() == 1 {
                self.plan(index, Event::Proposed(Proposal::Mark));
            }
        }
    }

    /// Reads that waited for an expiry: the mark that decides it may just have been applied.
    pub(super) fn answer_due_reads(&mut self, index: u32) {
        let group = &mut self.groups[index as usize];
        if group.due_reads.is_empty() {
            return;
        }
        let time = group.machine.time();
        let (ready, waiting) = std::mem::take(&mut group.due_reads)
            .into_iter()
            .partition(|&token| self.reads.get(token as usize).is_none_or(|read| read.at <= time));
        group.due_reads = waiting;
        let ready: Vec<u32> = ready;
        // Those that came while the mark was on its way need one of their own.
        if !ready.is_empty() && !self.groups[index as usize].due_reads.is_empty() {
            self.plan(index, Event::Proposed(Proposal::Mark));
        }
        for token in ready {
            let is_answered = self.finish_read(index, token);
            debug_assert!(is_answered, "group time has passed the time of the read");
        }
    }

    /// Answers a read. False if an expiry has to be decided first.
    fn finish_read(&mut self, index: u32, token: u32) -> bool {
        let Some(read) = self.reads.get_mut(token as usize) else { return true };
        // Whoever asks for more than the link to it carries is told to ask again, before anything is read for it.
        if self.outbox.is_congested(read.ticket.node) {
            self.bounce_read(token, Bounce::Overloaded);
            return true;
        }
        let (command, at) = (std::mem::take(&mut read.command), read.at);
        let (router, session) = (read.ticket.node, read.session);
        let outcome = self.read_machine(index, |machine| machine.read(&command, at));
        let Some(outcome) = outcome else {
            self.reads[token as usize].command = command;
            return false;
        };
        if let ReadAnswer::Swapped = outcome {
            // Whoever asks does so again until the names are here.
            self.want_names(index);
            self.bounce_read(token, Bounce::Overloaded);
            return true;
        }
        if let (Some(session), ReadAnswer::Outcome(_)) = (session, &outcome) {
            self.share(index, router, session, &command);
        }
        if self.read_buffers.len() < READ_BUFFERS_MAX && command.capacity() <= READ_BUFFER_BYTES_MAX {
            self.read_buffers.push(command);
        }
        let read = self.reads.remove(token as usize);
        let group = &self.groups[index as usize];
        let outcome = match outcome {
            ReadAnswer::Outcome(outcome) => outcome,
            ReadAnswer::Away(record) => {
                let (Ticket { node, start, number }, volume) = (read.ticket, group.id());
                let slot = group.replica.next_slot();
                if node != self.settings.node {
                    self.outbox.send(node, &Message::Away { start, number, volume, slot, record: &record });
                } else if start == self.settings.start {
                    self.handle_away(number, volume, slot, &record);
                }
                return true;
            }
            ReadAnswer::Swapped => unreachable!("turned back above"),
        };
        let slot = match group.replica.chain() {
            Some(chain) if read.is_clean => chain.received(),
            _ => group.replica.next_slot(),
        };
        let position = Position { slot, acknowledgers: 0 };
        self.counters.reads_leased += u64::from(read.access == Access::ReadLease);
        if group.is_object_gone() {
            let (group, since) = (group.id(), self.clock.now());
            self.hold_answer(group, HeldAnswer { ticket: read.ticket, position, outcome, since });
            self.retire_if_gone(index);
        } else {
            self.answer_ticket(read.ticket, position, outcome);
        }
        true
    }

    /// The group's replica is gone, and with it whoever would have answered.
    pub(super) fn bounce_reads_of(&mut self, group: GroupId, why: Bounce) {
        let of_group: Vec<u32> =
            self.reads.iter().filter(|(_, read)| read.group == group).map(|(token, _)| token as u32).collect();
        for token in of_group {
            self.bounce_read(token, why);
        }
    }

    pub(super) fn bounce_read(&mut self, token: u32, why: Bounce) {
        if self.reads.contains(token as usize) {
            let Ticket { node, start, number } = self.reads.remove(token as usize).ticket;
            self.bounce(node, start, number, why);
        }
    }

    pub(super) fn bounce_due_reads(&mut self, index: u32, why: Bounce) {
        for token in std::mem::take(&mut self.groups[index as usize].due_reads) {
            self.bounce_read(token, why);
        }
    }
}
