//! This node as a router: what it knows of groups whose commands enter here and that others coordinate. The rules are
//! [`quorate_protocol::router`]'s.
//!
//! A session is asked for with the first read of a group, and renewed while there are others. Reads of stable kgroups go to
//! members in turns, or are answered here at once if this node is one of them; the coordinator is left alone.

use std::collections::BTreeMap;

use quorate_object::Command;
use quorate_object::slot_of_key;
use quorate_protocol::router::{Kgroup, Place, RecallNumber, Router, Scope, SessionId};
use quorate_protocol::{Epoch, GroupId, Instant, NodeId, Slot};

use super::Host;
use super::dispatch::INTERNAL;
use super::routes::Route;
use crate::entry::Target;
use crate::envelope::Envelope;
use crate::frame::{Access, Bounce, Message, Position, RouterMessage};
use crate::machine::ReadAnswer;
use crate::planted::{self, Planted};
use crate::root::Reads;

/// A session is renewed while reads have come within this.
const USED_US: u64 = 1_000_000;
/// A group of which nothing is read is forgotten after this.
const FORGOTTEN_US: u64 = 10_000_000;

/// Groups by whose sessions this node may read at their members.
pub(super) type Routers = BTreeMap<GroupId, RoutedGroup>;

pub(super) struct RoutedGroup {
    router: Router,
    epoch: Epoch,
    coordinator: NodeId,
    read_at: Instant,
    asked_at: Instant,
    turn: usize,
}

/// A write that a router counts until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoutedWrite {
    pub group: GroupId,
    pub session: SessionId,
    pub kgroup: Kgroup,
}

/// Whom a read was sent to in place of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoutedRead {
    pub node: NodeId,
    pub slot: Slot,
}

impl Host {
    fn is_routed_here(&self, target: Target) -> bool {
        self.directory.has_routed() && self.directory.resolve(target).is_ok_and(|place| place.reads == Reads::Routed)
    }

    /// A read of a group that another node coordinates is about to be sent, or answered here. The group's session is asked for,
    /// if there is none.
    fn note_routed_read(&mut self, group: GroupId, epoch: Epoch, coordinator: NodeId) -> &mut RoutedGroup {
        let now = self.clock.now();
        let routed = self.routers.entry(group).or_insert_with(|| {
            let (router, asked_at) = (Router::default(), Instant(0));
            RoutedGroup { router, epoch, coordinator, read_at: now, asked_at, turn: 0 }
        });
        (routed.epoch, routed.coordinator, routed.read_at) = (epoch, coordinator, now);
        if routed.router.session().is_none() && routed.asked_at.after_us(self.settings.timing.heartbeat_us) <= now {
            routed.asked_at = now;
            let held = None;
            let message = RouterMessage::Ask { group, epoch, start: self.settings.start, asked_at: now, held };
            self.outbox.send(coordinator, &Message::Router(message));
        }
        routed
    }

    /// Who is to answer this read, if it need not be the coordinator.
    pub(super) fn reader(&mut self, number: u64, target: Target, route: &Route) -> Option<RoutedRead> {
        let Target::Slot { slot: hash_slot, .. } = target else { return None };
        let me = self.settings.node;
        if route.coordinator == me || number & INTERNAL != 0 || !self.is_routed_here(target) {
            return None;
        }
        // Only the coordinator reads several objects at once.
        let operation = self.clients.find(number)?;
        let envelope = Envelope::take(&mut &operation.envelope[..])?;
        Command::key_of(envelope.command)?;
        let now = self.clock.now();
        let routed = self.note_routed_read(route.group, route.epoch, route.coordinator);
        let Place::Members { slot, members } = routed.router.place(Kgroup::of_hash_slot(hash_slot), now) else {
            return None;
        };
        routed.turn += 1;
        let turn = routed.turn;
        // Whoever answers the read before this one on its connection knows no less than that answer says.
        let before = self.clients.find(number).and_then(|operation| self.clients.find(operation.predecessor));
        let before = before.and_then(|before| before.routed_read).map(|read| read.node);
        let place = self.directory.resolve(target).ok()?;
        let is_fit = |&(position, &node): &(usize, &NodeId)| {
            let is_other = node != me && node != route.coordinator && !self.peers.is_suspected(node);
            is_other && members >> position & 1 == 1 && self.linked.contains(&node)
        };
        let fit: Vec<NodeId> = place.members.iter().enumerate().filter(is_fit).map(|(_, &node)| node).collect();
        let next = *fit.get(turn.checked_rem(fit.len())?)?;
        let node = before.filter(|node| fit.contains(node)).unwrap_or(next);
        Some(RoutedRead { node, slot })
    }

    pub(super) fn send_routed_read(&mut self, route: &Route, read: RoutedRead, envelope: &[u8]) {
        let (group, epoch, slot) = (route.group, route.epoch, read.slot);
        self.outbox.send(read.node, &Message::Router(RouterMessage::Read { group, epoch, slot, envelope }));
    }

    /// Whether this node's replica may answer a read at once: its kgroup is stable, and this is a consistent member.
    pub(super) fn is_stable_here(&mut self, target: Target, index: u32) -> bool {
        let Target::Slot { slot: hash_slot, .. } = target else { return false };
        let group = &self.groups[index as usize];
        let (id, epoch, next_slot) = (group.id(), group.configuration.epoch, group.replica.next_slot());
        let Some(coordinator) = group.replica.coordinator().filter(|&node| node != self.settings.node) else {
            return false;
        };
        if !group.is_alive() || !group.replica.is_inside() {
            return false;
        }
        let now = self.clock.now();
        let routed = self.note_routed_read(id, epoch, coordinator);
        match routed.router.place(Kgroup::of_hash_slot(hash_slot), now) {
            Place::Members { slot, .. } => next_slot > slot || planted::is(Planted::RoutedReadTooEarly),
            Place::Coordinator => false,
        }
    }

    /// The session under which an operation is sent to the coordinator: a write that is sent for the first time is counted from now
    /// on.
    pub(super) fn session_of(&mut self, number: u64, target: Target, route: &Route) -> Option<SessionId> {
        let Target::Slot { slot: hash_slot, .. } = target else { return None };
        if route.coordinator == self.settings.node || number & INTERNAL != 0 {
            return None;
        }
        let router = &mut self.routers.get_mut(&route.group)?.router;
        let operation = self.clients.find_mut(number)?;
        match (operation.access, operation.routed_write) {
            (Access::Write, Some(write)) => (write.group == route.group).then_some(write.session),
            // A copy that left before is in no session.
            (Access::Write, None) if operation.attempts > 0 => None,
            (Access::Write, None) => {
                let (group, kgroup) = (route.group, Kgroup::of_hash_slot(hash_slot));
                let session = router.begin_write(kgroup)?;
                operation.routed_write = Some(RoutedWrite { group, session, kgroup });
                Some(session)
            }
            _ => router.session(),
        }
    }

    /// A write was executed. One that was sent to its object's own group as well may have been executed in either: if it was the
    /// volume, nobody says at which slot.
    pub(super) fn end_routed_write(&mut self, number: u64, Position { slot, acknowledgers }: Position) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        let Some(write) = operation.routed_write.take() else { return };
        if operation.has_moved {
            return self.lose_routed_write(write);
        }
        if let Some(routed) = self.routers.get_mut(&write.group) {
            routed.router.end_write(write.session, write.kgroup, slot, acknowledgers.into());
        }
    }

    /// A write has ended, and may be executed at whatever slot.
    pub(super) fn lose_routed_write(&mut self, write: RoutedWrite) {
        let now = self.clock.now();
        if let Some(routed) = self.routers.get_mut(&write.group) {
            routed.router.lose_write(write.session, now);
        }
    }

    /// The member that was asked cannot answer: the coordinator can.
    pub(super) fn handle_read_refused(&mut self, from: NodeId, number: u64) {
        let Some(operation) = self.clients.find_mut(number) else { return };
        let (target, group) = (operation.target, operation.was_sent_to);
        operation.routed_read = None;
        self.counters.reads_turned_back += 1;
        if let (Target::Slot { slot: hash_slot, .. }, Some(group)) = (target, group)
            && let Ok(place) = self.directory.resolve(target)
            && let Some(position) = place.members.iter().position(|&member| member == from)
            && let Some(routed) = self.routers.get_mut(&group)
        {
            routed.router.leave_out(Kgroup::of_hash_slot(hash_slot), position);
        }
        self.retry_after(number, 0);
    }

    pub(super) fn handle_router_message(&mut self, from: NodeId, message: RouterMessage<'_>) {
        match message {
            RouterMessage::Ask { group, epoch, start, asked_at, held } => {
                self.handle_router_ask(from, group, epoch, (start, asked_at), held)
            }
            RouterMessage::Grant { group, start, asked_at, session, left_us } => {
                self.handle_router_grant(from, group, (start, asked_at), session, left_us)
            }
            RouterMessage::Recall { group, number, scope } => self.handle_recall(from, group, number, scope),
            RouterMessage::Recalled { group, number } => self.handle_recalled(from, group, number),
            RouterMessage::Share { group, session, recalls, kgroup, next_slot } => {
                if let Some(routed) = self.routers.get_mut(&group).filter(|_| session.coordinator == from) {
                    routed.router.handle_share(session, recalls, kgroup, next_slot);
                }
            }
            RouterMessage::Request { group, epoch, access, session, envelope } => {
                self.handle_request(from, group, epoch, access, Some(session), envelope)
            }
            RouterMessage::Read { group, epoch, slot, envelope } => {
                self.handle_routed_read(from, group, epoch, slot, envelope)
            }
        }
    }

    fn handle_router_grant(
        &mut self,
        from: NodeId,
        group: GroupId,
        (start, asked_at): (u32, Instant),
        session: SessionId,
        left_us: u64,
    ) {
        // An earlier start of this node has asked.
        if start != self.settings.start {
            return;
        }
        // A peer that answers from the future has not answered us.
        let now = self.clock.now();
        if asked_at > now || left_us > self.settings.timing.lease_held_us || session.coordinator != from {
            self.counters.nonsense += 1;
            return;
        }
        if let Some(routed) = self.routers.get_mut(&group) {
            routed.router.handle_grant(session, asked_at, left_us, now);
        }
    }

    fn handle_recall(&mut self, from: NodeId, group: GroupId, number: RecallNumber, scope: Scope) {
        if let Some(routed) = self.routers.get_mut(&group) {
            routed.router.handle_recall(from, number, scope);
        }
        self.outbox.send(from, &Message::Router(RouterMessage::Recalled { group, number }));
    }

    /// Answers a router's read, if everything has been executed here that it may have to see.
    fn handle_routed_read(&mut self, from: NodeId, group: GroupId, epoch: Epoch, slot: Slot, bytes: &[u8]) {
        let mut rest = bytes;
        let Some(envelope) = Envelope::take(&mut rest).filter(|envelope| envelope.ticket.node == from) else {
            self.counters.nonsense += 1;
            return;
        };
        let ticket = envelope.ticket;
        // Whoever asks for more than the link to it carries is told to ask elsewhere, before anything is read for it.
        if self.outbox.is_congested(from) {
            return self.bounce(from, ticket.start, ticket.number, Bounce::Overloaded);
        }
        match self.read_routed(group, epoch, slot, envelope.command) {
            Some((position, outcome)) => {
                self.counters.reads_routed += 1;
                self.answer_ticket(ticket, position, outcome)
            }
            None => self.bounce(from, ticket.start, ticket.number, Bounce::NotCoordinator { coordinator: None }),
        }
    }

    fn read_routed(
        &mut self,
        group: GroupId,
        epoch: Epoch,
        slot: Slot,
        command: &[u8],
    ) -> Option<(Position, quorate_object::Outcome)> {
        let index = self.find(group)?;
        let found = &mut self.groups[index as usize];
        let next_slot = found.replica.next_slot();
        let has_executed = next_slot > slot || planted::is(Planted::RoutedReadTooEarly);
        let is_right = found.configuration.epoch == epoch && found.own.is_none() && found.replica.paxos().is_some();
        if !is_right || !found.is_alive() || !found.replica.is_inside() || !has_executed {
            return None;
        }
        found.used_at = self.clock.now();
        let command = Command::decode(command).ok()?;
        let outcome = self.read_stable(index, &command)?;
        Some((Position { slot: next_slot, acknowledgers: 0 }, outcome))
    }

    /// What a stable object is, if time does not change it: when that happens, the coordinator says.
    pub(super) fn read_stable(&mut self, index: u32, command: &Command<'_>) -> Option<quorate_object::Outcome> {
        let key = command.key()?;
        let now = self.clock.stamp();
        let machine = &self.groups[index as usize].machine;
        if machine.expires(key) || command.access() != quorate_object::Access::Read {
            return None;
        }
        match self.read_machine(index, |machine| machine.read_objects(command, now)) {
            Some(ReadAnswer::Outcome(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// With each heartbeat: sessions that are used are renewed.
    pub(super) fn tend_routers(&mut self) {
        let (now, start) = (self.clock.now(), self.settings.start);
        self.routers.retain(|_, routed| now < routed.read_at.after_us(FORGOTTEN_US));
        for (&group, routed) in &mut self.routers {
            if now < routed.read_at.after_us(USED_US) {
                routed.asked_at = now;
                let (epoch, held) = (routed.epoch, routed.router.session());
                let message = RouterMessage::Ask { group, epoch, start, asked_at: now, held };
                self.outbox.send(routed.coordinator, &Message::Router(message));
            }
        }
    }
}

/// The kgroup of what a command on objects reads or writes.
pub(super) fn kgroup_of(command: &[u8]) -> Option<Kgroup> {
    Command::key_in_slot_of(command).map(|key| Kgroup::of_hash_slot(slot_of_key(key)))
}

#[cfg(test)]
mod tests;
