//! This node as the coordinator of groups that are read through routers: who has a session, and which writes wait until what
//! they change is recalled. The rules are [`quorate_protocol::router`]'s.
//!
//! A node that comes to coordinate holds writes back until every session has lapsed that another may have granted before, or
//! this node itself before it was started: coordination is handed over, or taken from whoever falls silent, without waiting for
//! its leases.

use std::collections::VecDeque;

use hashbrown::HashMap;
use quorate_object::Command;
use quorate_protocol::router::{Kgroup, Recall, RecallNumber, Scope, SessionId, Sessions};
use quorate_protocol::{Ballot, Epoch, Event, GroupId, Instant, NodeId, Payload, Proposal, Slot, Stamp};

use super::router::kgroup_of;
use super::{Host, Timer};
use crate::envelope::{Envelope, Ticket};
use crate::frame::{Bounce, Message, RouterMessage};
use crate::hash::FixedState;
use crate::planted::{self, Planted};
use crate::root::{ROOT, Reads};
use crate::volume::VolumeCommand;

/// Recalls that are not confirmed are told again after this, and whoever waits is looked at.
const AGAIN_US: u64 = 20_000;
/// What waits in one group, or one write: the largest is larger than this.
const HELD_BYTES_MAX: usize = 16 << 20;

/// What one that waits takes beside its bytes, about.
const HELD_OVERHEAD: usize = 256;
/// Recalls that are told again at once.
const RECALLS_AGAIN_MAX: usize = 1_000;

/// What a member knows of its group's routers.
pub(super) struct Routed {
    sessions: Sessions,
    /// At which this node coordinates, and since when.
    ballot: Option<Ballot>,
    since: Instant,
    /// Below are slots that were adopted, with commands that were not counted here.
    proposes_from: Slot,
    /// Proposed at this ballot.
    in_hand: InHand,
    held: Waiting,
    timer_at: Option<Instant>,
}

struct Held {
    ticket: Ticket,
    deadline: Stamp,
    scope: Scope,
    by: Option<(NodeId, SessionId)>,
    envelope: Vec<u8>,
}

impl Held {
    fn weight(&self) -> usize {
        self.envelope.len() + HELD_OVERHEAD
    }
}

#[derive(Default)]
struct ScopeCounts(HashMap<Scope, u32, FixedState>);

impl ScopeCounts {
    fn add(&mut self, scope: Scope) {
        *self.0.entry(scope).or_default() += 1;
    }

    fn remove(&mut self, scope: Scope) {
        if let Some(count) = self.0.get_mut(&scope) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&scope);
            }
        }
    }

    fn overlap(&self, scope: Scope) -> bool {
        match scope {
            Scope::One(_) => self.0.contains_key(&scope) || self.0.contains_key(&Scope::All),
            Scope::All => !self.0.is_empty(),
        }
    }
}

/// Writes that are proposed and not executed.
#[derive(Default)]
struct InHand {
    by_ticket: HashMap<Ticket, (Scope, u32), FixedState>,
    scopes: ScopeCounts,
}

impl InHand {
    /// Of a command that comes twice, both copies.
    fn add(&mut self, ticket: Ticket, scope: Scope) {
        let (scope, copies) = self.by_ticket.entry(ticket).or_insert((scope, 0));
        *copies += 1;
        self.scopes.add(*scope);
    }

    fn remove(&mut self, ticket: Ticket) {
        let Some((scope, copies)) = self.by_ticket.get_mut(&ticket) else { return };
        self.scopes.remove(*scope);
        *copies -= 1;
        if *copies == 0 {
            self.by_ticket.remove(&ticket);
        }
    }
}

/// Writes that wait, in the order in which they came.
#[derive(Default)]
struct Waiting {
    list: VecDeque<Held>,
    scopes: ScopeCounts,
    bytes: usize,
}

impl Waiting {
    fn has_room_for(&self, held: &Held) -> bool {
        self.list.is_empty() || self.bytes + held.weight() <= HELD_BYTES_MAX
    }

    fn push(&mut self, held: Held) {
        self.scopes.add(held.scope);
        self.bytes += held.weight();
        self.list.push_back(held);
    }

    /// Takes those that are admitted, of those that overlap with this scope: none before another one that waits and overlaps with it.
    fn take_admitted(&mut self, among: Scope, mut admit: impl FnMut(&Held) -> bool) -> Vec<Held> {
        let mut blocked = ScopeCounts::default();
        let (mut taken, mut left) = (Vec::new(), VecDeque::with_capacity(self.list.len()));
        for held in std::mem::take(&mut self.list) {
            if held.scope.overlaps(among) && !blocked.overlap(held.scope) && admit(&held) {
                self.scopes.remove(held.scope);
                self.bytes -= held.weight();
                taken.push(held);
            } else {
                blocked.add(held.scope);
                left.push_back(held);
            }
        }
        self.list = left;
        taken
    }

    fn take_all(&mut self) -> VecDeque<Held> {
        std::mem::take(self).list
    }
}

impl Routed {
    /// Whether a write on it waits.
    pub(super) fn holds(&self, kgroup: Kgroup) -> bool {
        self.held.scopes.overlap(Scope::One(kgroup))
    }
}

impl Host {
    /// Whether a group's writes wait for routers, for all that is known: without a directory they may have to.
    pub(super) fn is_routed(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        if group.own.is_some() || group.id() == ROOT || group.replica.paxos().is_none() {
            return false;
        }
        if !self.directory.has_routed() {
            return false;
        }
        self.directory.namespace(group.namespace).is_none_or(|namespace| namespace.settings.reads == Reads::Routed)
    }

    fn routed_mut(&mut self, index: u32) -> &mut Routed {
        let (me, start, now) = (self.settings.node, self.settings.start, self.clock.now());
        self.groups[index as usize].routed.get_or_insert_with(|| {
            Box::new(Routed {
                sessions: Sessions::new(me, start),
                ballot: None,
                since: now,
                proposes_from: Slot(0),
                in_hand: InHand::default(),
                held: Waiting::default(),
                timer_at: None,
            })
        })
    }

    /// After a step: this node may have come to coordinate a group.
    pub(super) fn note_routed_role(&mut self, index: u32) {
        if !self.groups.contains(index as usize) || !self.is_routed(index) {
            return;
        }
        let Some(ballot) = self.ballot_coordinated(index) else { return };
        let now = self.clock.now();
        let replica = self.groups[index as usize].replica.paxos();
        let proposes_from = replica.map_or(Slot(0), |replica| replica.proposes_from());
        let routed = self.routed_mut(index);
        if routed.ballot == Some(ballot) {
            return;
        }
        (routed.ballot, routed.since, routed.proposes_from) = (Some(ballot), now, proposes_from);
        routed.sessions.on_elected();
        // What was proposed before is among what the election has found, or nowhere: nothing waits in a replica for another ballot.
        routed.in_hand = InHand::default();
        if !routed.held.list.is_empty() {
            self.look_at_held(index, Scope::All);
        }
    }

    /// A write for this group has come, by a router in this session or by nobody. False if it is to be proposed as any.
    pub(super) fn hold_write(
        &mut self,
        index: u32,
        from: NodeId,
        session: Option<SessionId>,
        envelope: &Envelope<'_>,
        bytes: &[u8],
    ) -> bool {
        if !self.is_routed(index) {
            return false;
        }
        let Some(scope) = scope_of(envelope.command) else { return false };
        let (ticket, deadline) = (envelope.ticket, envelope.deadline);
        let coordinator = self.other_coordinator(index);
        // Without a directory it is not known whether anything has to be waited for.
        if coordinator.is_some() || self.directory.state().is_none() {
            self.bounce(ticket.node, ticket.start, ticket.number, Bounce::NotCoordinator { coordinator });
            return true;
        }
        self.note_routed_role(index);
        let by = session.map(|session| (from, session));
        let held = Held { ticket, deadline, scope, by, envelope: bytes.to_vec() };
        let routed = self.routed_mut(index);
        if !routed.held.has_room_for(&held) {
            self.bounce(ticket.node, ticket.start, ticket.number, Bounce::Overloaded);
            return true;
        }
        // Behind one that waits it waits as well, and whoever looks after that one finds it.
        let is_behind = routed.held.scopes.overlap(scope);
        routed.held.push(held);
        if !is_behind {
            self.look_at_held(index, scope);
        }
        true
    }

    /// Another member that is believed to coordinate, and alive.
    fn other_coordinator(&self, index: u32) -> Option<NodeId> {
        let replica = &self.groups[index as usize].replica;
        let believed = replica.coordinator().filter(|&node| node != self.settings.node)?;
        let is_absent = self.peers.is_suspected(believed) || replica.is_silent(believed);
        (!is_absent && !replica.is_coordinating()).then_some(believed)
    }

    /// Proposes what need not wait any more, in the order in which it came, as far as it overlaps with this scope.
    fn look_at_held(&mut self, index: u32, among: Scope) {
        let (now, again_at) = (self.clock.now(), self.clock.now().after_us(AGAIN_US));
        let group = &self.groups[index as usize];
        if !group.is_alive() {
            return self.turn_back_held(index);
        }
        if !group.replica.is_coordinating() {
            // Who is excused would not be elected.
            if self.peers.is_excused_itself() || self.other_coordinator(index).is_some() {
                return self.turn_back_held(index);
            }
            // Nothing is changed by a mark: whoever is elected holds back what is. One at a time.
            if self.routed_mut(index).timer_at.is_none() {
                self.plan(index, Event::Proposed(Proposal::Mark));
            }
            return self.look_again_at_held(index, again_at);
        }
        let given_us = self.settings.timing.lease_given_us;
        let routed = self.routed_mut(index);
        let until = routed.since.after_us(given_us);
        if now < until && !planted::is(Planted::RoutedWriteTooEarly) {
            return self.look_again_at_held(index, until);
        }
        let (sessions, mut recalls) = (&mut routed.sessions, Vec::new());
        let ready = routed.held.take_admitted(among, |held| sessions.admit(held.scope, held.by, now, &mut recalls));
        let waits = !routed.held.list.is_empty();
        let lapse_at = sessions.lapse_at().filter(|&at| now < at);
        ready.iter().for_each(|held| routed.in_hand.add(held.ticket, held.scope));
        self.tell_recalls(index, &recalls);
        ready.iter().for_each(|held| self.gather(index, &held.envelope));
        if waits {
            self.look_again_at_held(index, lapse_at.map_or(again_at, |at| at.min(again_at)));
        }
    }

    fn tell_recalls(&mut self, index: u32, recalls: &[Recall]) {
        let group = self.groups[index as usize].id();
        for &Recall { router, number, scope } in recalls {
            self.counters.recalls_sent += 1;
            self.outbox.send(router, &Message::Router(RouterMessage::Recall { group, number, scope }));
        }
    }

    fn look_again_at_held(&mut self, index: u32, at: Instant) {
        let group = self.groups[index as usize].id();
        let routed = self.routed_mut(index);
        if routed.timer_at.is_none_or(|earlier| at < earlier) {
            routed.timer_at = Some(at);
            self.timers.set(at, Timer::Routed { index, group });
        }
    }

    pub(super) fn routed_timer_fired(&mut self, index: u32, group: GroupId) {
        let Some(found) = self.groups.get_mut(index as usize).filter(|found| found.id() == group) else { return };
        let Some(routed) = &mut found.routed else { return };
        routed.timer_at = None;
        if routed.held.list.is_empty() {
            return;
        }
        let recalls: Vec<Recall> = routed.sessions.open_recalls().take(RECALLS_AGAIN_MAX).collect();
        let stamp = self.clock.stamp();
        // Nobody waits for them any more.
        let expired = routed.held.take_admitted(Scope::All, |held| held.deadline < stamp);
        self.tell_recalls(index, &recalls);
        for Held { ticket, .. } in expired {
            self.bounce(ticket.node, ticket.start, ticket.number, Bounce::Expired);
        }
        self.note_routed_role(index);
        self.look_at_held(index, Scope::All);
    }

    fn turn_back_held(&mut self, index: u32) {
        let coordinator = self.other_coordinator(index);
        for Held { ticket, .. } in self.routed_mut(index).held.take_all() {
            self.bounce(ticket.node, ticket.start, ticket.number, Bounce::NotCoordinator { coordinator });
        }
    }

    /// A group that is read through routers is proposed nothing where it is not coordinated: an election would be followed by the
    /// commands before what had been granted is over.
    pub(super) fn must_not_propose(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        group.routed.is_some() && !group.replica.is_coordinating() && self.is_routed(index)
    }

    pub(super) fn turn_back_commands(&mut self, index: u32, payload: &Payload) {
        let coordinator = self.other_coordinator(index);
        if coordinator.is_none() {
            self.plan(index, Event::Proposed(Proposal::Mark));
        }
        let mut bytes: &[u8] = payload;
        while let Some(Envelope { ticket, .. }) = Envelope::take(&mut bytes) {
            self.forget_in_hand(index, ticket);
            self.bounce(ticket.node, ticket.start, ticket.number, Bounce::NotCoordinator { coordinator });
        }
    }

    /// A command was executed in this slot. Copies of it that were adopted, or proposed by somebody else, are not those that were
    /// counted.
    pub(super) fn forget_executed(&mut self, index: u32, slot: Slot, ticket: Ticket) {
        let Some(routed) = &self.groups[index as usize].routed else { return };
        if slot >= routed.proposes_from && routed.ballot == self.ballot_coordinated(index) {
            self.forget_in_hand(index, ticket);
        }
    }

    /// A command was refused.
    pub(super) fn forget_in_hand(&mut self, index: u32, ticket: Ticket) {
        if let Some(routed) = &mut self.groups[index as usize].routed {
            routed.in_hand.remove(ticket);
        }
    }

    pub(super) fn handle_router_ask(
        &mut self,
        from: NodeId,
        group: GroupId,
        epoch: Epoch,
        (start, asked_at): (u32, Instant),
        held: Option<SessionId>,
    ) {
        let Some(index) = self.find(group) else { return };
        let found = &self.groups[index as usize];
        let is_right = found.is_alive() && !found.replica.is_stopped() && found.configuration.epoch == epoch;
        if !is_right || !self.is_routed(index) || self.clock_off {
            return;
        }
        self.note_routed_role(index);
        let (now, timing) = (self.clock.now(), self.settings.timing);
        let replica = self.groups[index as usize].replica.paxos();
        let Some(lease_until) = replica.and_then(|replica| replica.lease_until(now, &self.peers)) else { return };
        let left_us = timing.lease_held_us.min(lease_until.0.saturating_sub(now.0));
        let until = now.after_us(left_us + timing.lease_given_us - timing.lease_held_us);
        let Some(session) = self.routed_mut(index).sessions.grant(from, held, now, until) else { return };
        let message = RouterMessage::Grant { group, start, asked_at, session, left_us };
        self.outbox.send(from, &Message::Router(message));
    }

    pub(super) fn handle_recalled(&mut self, from: NodeId, group: GroupId, number: RecallNumber) {
        let Some(index) = self.find(group) else { return };
        let Some(routed) = &mut self.groups[index as usize].routed else { return };
        let Some(scope) = routed.sessions.handle_recalled(from, number) else { return };
        if routed.held.scopes.overlap(scope) {
            self.look_at_held(index, scope);
        }
    }

    /// A router's read is about to be answered from what has been executed here: the kgroup is shared with it if no write is in hand,
    /// and time does not change the object.
    pub(super) fn share(&mut self, index: u32, router: NodeId, session: SessionId, command: &[u8]) {
        let now = self.clock.now();
        let found = &mut self.groups[index as usize];
        let next_slot = found.replica.next_slot();
        let group = found.id();
        let (Some(key), Some(kgroup)) = (Command::key_of(command), kgroup_of(command)) else { return };
        let expires = found.machine.expires(key);
        let Some(routed) = found.routed.as_mut().filter(|_| found.replica.is_coordinating()) else { return };
        let is_written = routed.in_hand.scopes.overlap(Scope::One(kgroup)) || routed.holds(kgroup);
        let is_quiet = !is_written || planted::is(Planted::SharedWhileWritten);
        if expires || !is_quiet {
            return;
        }
        if let Some(recalls) = routed.sessions.share(router, session, kgroup, now) {
            self.counters.shared += 1;
            let message = RouterMessage::Share { group, session, recalls, kgroup, next_slot };
            self.outbox.send(router, &Message::Router(message));
        }
    }
}

/// What a command may change of objects; `None` if nothing.
fn scope_of(command: &[u8]) -> Option<Scope> {
    match VolumeCommand::decode(command) {
        Some(
            VolumeCommand::Complete { .. }
            | VolumeCommand::Reconfigure { .. }
            | VolumeCommand::RetireBefore { .. }
            | VolumeCommand::TakeOffice { .. },
        ) => None,
        Some(_) => Some(Scope::All),
        None => Some(kgroup_of(command).map_or(Scope::All, Scope::One)),
    }
}
