//! Digest mode (GigaPaxos, section 4.2.1; decision 0024): a large command leaves its entry node for all members of its
//! group, and the coordinator refers to it.
//!
//! Replicas know nothing of this. What the coordinator's has to say is shortened after it was said, and made whole before
//! a member's hears it, so that none accepts, logs or promises what it does not have in full. A message that cannot be
//! made whole is asked for in full; a replica's retransmissions are always sent in full. Whatever is lost or forgotten here
//! costs a member time and nothing else: to its replica the message was late, or lost.

use std::collections::VecDeque;
use std::mem;

use quorate_protocol::id::Content;
use quorate_protocol::{Ballot, Epoch, GroupId, Instant, NodeId, Payload, Slot, Value, paxos};

use super::routes::Route;
use super::{Host, Timer};
use crate::bodies::{Unresolved, refer, resolve};
use crate::entry::Target;
use crate::envelope::{Envelope, Ticket};
use crate::frame::{Access, DigestMessage, Message};
use crate::own_place::OwnPlace;
use crate::recent::Recent;
use crate::replica::{AnyMessage, Protocol};

/// Bodies that no message has referred to yet: so many bytes, for so long. A coordinator whose queue is longer than that
/// sends its messages in full before.
pub const BODY_BYTES_MAX: usize = 64 << 20;
const BODY_US: u64 = 2_000_000;
/// Of commands that came here, that their bodies were sent to the other members: for so long, about as many.
const SPREAD_US: u64 = 1_000_000;
const SPREAD_BYTES_MAX: usize = 4 << 20;
/// Messages that were sent with references, in full. After so long the replica has sent them again by itself.
pub const SENT_BYTES_MAX: usize = 64 << 20;
const SENT_US: u64 = 1_000_000;
/// A message waits for a body so long before it is asked for in full: the two come over different links. Messages that
/// wait take so many bytes at most.
const HELD_US: u64 = 5_000;
pub const HELD_BYTES_MAX: usize = 16 << 20;
/// What holding a message takes beside its value.
const HELD_OVERHEAD_BYTES: usize = 128;

pub(super) struct Digests {
    bodies: Recent<Ticket, Vec<u8>>,
    spread: Recent<Ticket, ()>,
    sent: Recent<(GroupId, Slot), Sent>,
    /// Oldest first.
    held: VecDeque<Held>,
    held_bytes: usize,
    timer_at: Option<Instant>,
}

/// An `Accept` that refers to bodies.
struct Sent {
    epoch: Epoch,
    ballot: Ballot,
    full: paxos::Message,
    referring: Payload,
    reference_count: u64,
    /// Who was sent it with references. Whoever is to be sent it again is sent it in full.
    to: Vec<NodeId>,
}

/// An `Accept` that refers to a body that is not here.
struct Held {
    from: NodeId,
    group: GroupId,
    epoch: Epoch,
    accept: paxos::Message,
    bytes: usize,
    missing: Ticket,
    ask_at: Instant,
}

/// What digest mode has come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestCounts {
    /// Bodies sent to members, as their entry node.
    pub bodies_sent: u64,
    /// Bodies that nothing referred to in time, or for which there was no room.
    pub bodies_unused: u64,
    /// References sent in place of commands, as their coordinator, and what that has saved.
    pub references_sent: u64,
    pub bytes_saved: u64,
    /// References replaced by what they stand for.
    pub references_resolved: u64,
    /// Messages held because a body was not there yet.
    pub held: u64,
    /// Messages asked for in full, and those sent again because somebody did.
    pub asked_in_full: u64,
    pub sent_in_full: u64,
    /// Bodies that were not those that a reference meant.
    pub bodies_mistaken: u64,
}

impl Default for Digests {
    fn default() -> Digests {
        Digests {
            bodies: Recent::new(BODY_US, BODY_BYTES_MAX),
            spread: Recent::new(SPREAD_US, SPREAD_BYTES_MAX),
            sent: Recent::new(SENT_US, SENT_BYTES_MAX),
            held: VecDeque::new(),
            held_bytes: 0,
            timer_at: None,
        }
    }
}

/// What an `Accept` carries, if that is commands.
fn commands_of(message: &paxos::Message) -> Option<&Payload> {
    match message {
        paxos::Message::Accept { value: Value { content: Content::Commands(payload), .. }, .. } => Some(payload),
        _ => None,
    }
}

/// The same `Accept` with other commands.
fn with_commands(message: &paxos::Message, payload: Payload) -> paxos::Message {
    let mut message = message.clone();
    if let paxos::Message::Accept { value, .. } = &mut message {
        value.content = Content::Commands(payload);
    }
    message
}

impl Digests {
    /// The message as it is to be sent to this member, if that is with references.
    fn refer(
        &mut self,
        group: GroupId,
        epoch: Epoch,
        to: NodeId,
        message: &paxos::Message,
        now: Instant,
    ) -> Option<(paxos::Message, u64)> {
        if self.spread.is_empty() && self.sent.is_empty() {
            return None;
        }
        let paxos::Message::Accept { ballot, slot, .. } = message else { return None };
        let payload = commands_of(message)?;
        let key = (group, *slot);
        if self.sent.get(&key).is_none() {
            let spread = &mut self.spread;
            let (referring, reference_count) = refer(payload, |ticket| spread.take(&ticket).is_some())?;
            let (full, referring) = (message.clone(), referring.into());
            let sent = Sent { epoch, ballot: *ballot, full, referring, reference_count, to: Vec::new() };
            self.sent.insert(key, sent, payload.len(), now);
        }
        let sent = self.sent.get_mut(&key)?;
        if (sent.epoch, sent.ballot) != (epoch, *ballot) || sent.to.contains(&to) {
            return None;
        }
        sent.to.push(to);
        Some((with_commands(message, sent.referring.clone()), sent.reference_count))
    }

    fn next_at(&self) -> Option<Instant> {
        let recent = [self.bodies.next_at(), self.spread.next_at(), self.sent.next_at()];
        recent.into_iter().flatten().chain(self.held.front().map(|held| held.ask_at)).min()
    }

    /// What a node has said in an earlier start is void.
    pub(super) fn forget_held_from(&mut self, node: NodeId) {
        self.take_held(|held| held.from == node);
    }

    fn take_held(&mut self, is_wanted: impl Fn(&Held) -> bool) -> VecDeque<Held> {
        if !self.held.iter().any(&is_wanted) {
            return VecDeque::new();
        }
        let (wanted, others) = mem::take(&mut self.held).into_iter().partition(is_wanted);
        self.held = others;
        self.held_bytes = self.held.iter().map(|held| held.bytes).sum();
        wanted
    }
}

impl Host {
    /// As the entry node, right before a command leaves for its coordinator: the other members are sent its body, if that
    /// is so large that it pays, and the coordinator is told.
    pub(super) fn spread_body(
        &mut self,
        target: Target,
        own: Option<&OwnPlace>,
        route: &Route,
        access: Access,
        envelope: &[u8],
    ) {
        let (least, me) = (self.settings.digest_bytes, self.settings.node);
        if least == 0 || envelope.len() < least || access != Access::Write || route.coordinator == me {
            return;
        }
        let (Ok(place), Some(envelope)) = (self.directory.resolve(target), Envelope::take(&mut &envelope[..])) else {
            return;
        };
        let (protocol, members) = match own {
            Some(own) => (own.protocol, &own.members[..]),
            None => (place.protocol, &place.members[..]),
        };
        if protocol != Protocol::Paxos || members.len() < 2 {
            return;
        }
        let Ticket { start, number, .. } = envelope.ticket;
        let body = Message::Digest(DigestMessage::Body { start, number, command: envelope.command });
        // A member that can be sent nothing now asks the coordinator.
        for &member in members.iter().filter(|&&member| member != me && member != route.coordinator) {
            if !self.peers.is_suspected(member) && !self.outbox.is_congested(member) {
                self.outbox.send(member, &body);
                self.counters.digests.bodies_sent += 1;
            }
        }
        self.outbox.send(route.coordinator, &Message::Digest(DigestMessage::Spread { start, number }));
    }

    /// What this node says to another's replica with references in place of commands, where that is possible.
    pub(super) fn refer(
        &mut self,
        group: GroupId,
        epoch: Epoch,
        to: NodeId,
        full: &paxos::Message,
    ) -> Option<paxos::Message> {
        let (accept, count) = self.digests.refer(group, epoch, to, full, self.clock.now())?;
        let bytes = |message: &paxos::Message| commands_of(message).map_or(0, |payload| payload.len() as u64);
        self.counters.digests.references_sent += count;
        self.counters.digests.bytes_saved += bytes(full).saturating_sub(bytes(&accept));
        self.arm_digests();
        Some(accept)
    }

    pub(super) fn handle_digest(&mut self, from: NodeId, message: DigestMessage<'_>) {
        match message {
            DigestMessage::Body { start, number, command } => {
                self.take_body(Ticket { node: from, start, number }, command);
            }
            DigestMessage::Spread { start, number } => {
                let ticket = Ticket { node: from, start, number };
                self.digests.spread.insert(ticket, (), 0, self.clock.now());
                self.arm_digests();
            }
            DigestMessage::Referring { group, epoch, accept } => self.handle_referring(from, group, epoch, accept),
            DigestMessage::InFull { group, epoch, ballot, slot } => {
                self.handle_in_full(from, group, epoch, ballot, slot);
            }
        }
    }

    fn take_body(&mut self, ticket: Ticket, command: &[u8]) {
        let now = self.clock.now();
        let unused = self.digests.bodies.insert(ticket, command.to_vec(), command.len(), now);
        self.counters.digests.bodies_unused += unused;
        for Held { from, group, epoch, accept, .. } in self.digests.take_held(|held| held.missing == ticket) {
            self.handle_referring(from, group, epoch, accept);
        }
        self.arm_digests();
    }

    /// Hands the message to its replica once nothing is left out of it.
    fn handle_referring(&mut self, from: NodeId, group: GroupId, epoch: Epoch, accept: paxos::Message) {
        let Some(payload) = commands_of(&accept) else {
            self.counters.nonsense += 1;
            return;
        };
        match resolve(payload, |ticket| self.body(ticket)) {
            Ok(resolved) => {
                self.counters.digests.references_resolved += resolved.tickets.len() as u64;
                for ticket in &resolved.tickets {
                    self.digests.bodies.take(ticket);
                }
                let accept = with_commands(&accept, resolved.payload.into());
                self.handle_replica_message(from, group, epoch, AnyMessage::Paxos(accept));
            }
            Err(Unresolved::Missing(ticket)) => self.hold(from, group, epoch, accept, ticket),
            Err(Unresolved::Mistaken(ticket)) => {
                self.counters.digests.bodies_mistaken += 1;
                self.digests.bodies.take(&ticket);
                self.ask_in_full(from, group, epoch, &accept);
            }
            Err(Unresolved::Malformed) => self.counters.nonsense += 1,
        }
    }

    /// A command that came here as a body, or that this node's own client waits for.
    fn body(&self, ticket: Ticket) -> Option<&[u8]> {
        if ticket.node != self.settings.node {
            return self.digests.bodies.get(&ticket).map(Vec::as_slice);
        }
        let is_own = ticket.start == self.settings.start;
        let operation = self.operations_of(ticket.number).find(ticket.number).filter(|_| is_own)?;
        Envelope::take(&mut &operation.envelope[..]).map(|envelope| envelope.command)
    }

    /// The body may be on its way, unless it would have to come from this node, or from one that is not heard.
    fn hold(&mut self, from: NodeId, group: GroupId, epoch: Epoch, accept: paxos::Message, missing: Ticket) {
        let bytes = commands_of(&accept).map_or(0, |payload| payload.len()) + HELD_OVERHEAD_BYTES;
        let may_come = missing.node != self.settings.node && !self.peers.is_suspected(missing.node);
        if !may_come || self.digests.held_bytes + bytes > HELD_BYTES_MAX {
            return self.ask_in_full(from, group, epoch, &accept);
        }
        self.counters.digests.held += 1;
        let ask_at = self.clock.now().after_us(HELD_US);
        self.digests.held_bytes += bytes;
        self.digests.held.push_back(Held { from, group, epoch, accept, bytes, missing, ask_at });
        self.arm_digests();
    }

    fn ask_in_full(&mut self, from: NodeId, group: GroupId, epoch: Epoch, accept: &paxos::Message) {
        let paxos::Message::Accept { ballot, slot, .. } = *accept else { return };
        // What the replica has heard since, it has fetched by itself.
        let here = self.find(group).map(|index| &self.groups[index as usize].replica);
        if here.is_some_and(|replica| replica.next_slot() > slot) {
            return;
        }
        self.counters.digests.asked_in_full += 1;
        self.outbox.send(from, &Message::Digest(DigestMessage::InFull { group, epoch, ballot, slot }));
    }

    /// Sends a member again what it was sent, this time in full. To its replica the first one was merely late.
    fn handle_in_full(&mut self, from: NodeId, group: GroupId, epoch: Epoch, ballot: Ballot, slot: Slot) {
        let is_alive = self.find(group).is_some_and(|index| self.groups[index as usize].is_alive());
        let Some(sent) = self.digests.sent.get(&(group, slot)).filter(|_| is_alive) else { return };
        if (sent.epoch, sent.ballot) != (epoch, ballot) || !sent.to.contains(&from) {
            return;
        }
        let message = AnyMessage::Paxos(sent.full.clone());
        self.counters.digests.sent_in_full += 1;
        self.counters.messages_sent += 1;
        self.outbox.send(from, &Message::Replica { group, epoch, message });
    }

    fn arm_digests(&mut self) {
        let Some(at) = self.digests.next_at() else { return };
        if self.digests.timer_at.is_none_or(|earlier| at < earlier) {
            self.digests.timer_at = Some(at);
            self.timers.set(at, Timer::Digests);
        }
    }

    pub(super) fn digests_timer_fired(&mut self, at: Instant) {
        // An earlier one has been set since this, and has set the next one.
        if self.digests.timer_at != Some(at) {
            return;
        }
        let now = self.clock.now();
        self.digests.timer_at = None;
        for Held { from, group, epoch, accept, .. } in self.digests.take_held(|held| held.ask_at <= now) {
            self.ask_in_full(from, group, epoch, &accept);
        }
        self.counters.digests.bodies_unused += self.digests.bodies.drop_old(now);
        self.digests.spread.drop_old(now);
        self.digests.sent.drop_old(now);
        self.arm_digests();
    }
}

#[cfg(test)]
mod tests;
