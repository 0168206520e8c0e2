//! Elections: how a member wins the right to propose.
//!
//! A candidate's own promise is on its disk before its prepare leaves, so no ballot is used twice. It proposes nothing
//! below the highest next slot that it hears, and fetches what it lacks up to there before it coordinates.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::coordinator::{Coordination, Queue};
use super::ledger::Ledger;
use super::members::Members;
use super::replica::{Active, Duty};
use super::{AcceptedValue, Message, Paxos, Record};
use crate::effect::{Cx, Effects, Proposal, Refusal};
use crate::id::{Ballot, Content, Instant, NodeId, Slot, Stamp, Value};
use crate::peers::GrantNumber;
use crate::planted::{self, Planted};

/// A candidate asks again after this, doubled each time up to the maximum, and as much again at random, so that duels end.
const RETRY_US: u64 = 50_000;
const RETRY_US_MAX: u64 = 800_000;
/// How far beyond its next slot a member can have accepted. Far more than [`super::ACCEPTED_SLOTS_MAX`], because a member
/// that has just recovered may have executed less than it had before.
const PROMISED_SLOTS_MAX: u64 = 1 << 20;
/// A candidate that is not elected by now refuses what waits for it and follows again.
const CANDIDACY_US: u64 = 5_000_000;

pub(super) struct Candidacy {
    stage: Stage,
    /// No number up to this one is used.
    number_heard: u32,
    /// See [`Message::Prepare`].
    released: Option<Ballot>,
    promises: u64,
    /// Members bound to somebody's ballot.
    busy: Vec<(NodeId, Ballot)>,
    members: Members,
    /// The highest next slot heard, and from whom.
    next_slot_heard: (Slot, NodeId),
    /// Of each slot the value of the highest ballot heard.
    adopted: BTreeMap<Slot, (Ballot, Value)>,
    queue: Queue,
    attempts: u32,
    pub(super) retry_at: Instant,
    give_up_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits before it takes a ballot: its own promise binds it, or it has just lost one.
    Waiting,
    /// Its ballot is its promise. Others are asked once that is on its disk.
    Asking,
    /// Elected, but others have executed more.
    CatchingUp,
}

impl Candidacy {
    fn new(released: Option<Ballot>, members_count: usize, me: NodeId, now: Instant) -> Candidacy {
        Candidacy {
            stage: Stage::Waiting,
            number_heard: released.map_or(0, |ballot| ballot.number),
            released,
            promises: 0,
            busy: Vec::new(),
            members: Members::new(members_count),
            next_slot_heard: (Slot(0), me),
            adopted: BTreeMap::new(),
            queue: Queue::default(),
            attempts: 0,
            retry_at: now,
            give_up_at: now.after_us(CANDIDACY_US),
        }
    }

    pub(super) fn enqueue(&mut self, proposal: Proposal, out: &mut Effects<Paxos>) {
        self.queue.push(proposal, out);
    }

    pub(super) fn refuse_all(self, why: Refusal, out: &mut Effects<Paxos>) {
        self.queue.refuse_all(why, out);
    }

    /// The value of the highest ballot is the only one that can have been decided.
    fn adopt(&mut self, slot: Slot, ballot: Ballot, value: &Value) {
        let better = match self.adopted.get(&slot) {
            None => true,
            Some((adopted, _)) if planted::is(Planted::AdoptLowestBallot) => ballot < *adopted,
            Some((adopted, _)) => ballot > *adopted,
        };
        if better {
            self.adopted.insert(slot, (ballot, value.clone()));
        }
    }

    fn adopt_own(&mut self, ledger: &Ledger, next_slot: Slot) {
        for (slot, entry) in ledger.from(next_slot) {
            if entry.decided {
                self.adopted.insert(slot, (entry.ballot, entry.value.clone()));
            } else {
                self.adopt(slot, entry.ballot, &entry.value);
            }
        }
    }

    /// What is to be proposed before anything new, from `next_slot` on. Holes are marks; nothing follows a stop.
    fn take_adopted(&mut self, next_slot: Slot, time: Stamp) -> VecDeque<Value> {
        let mut values = VecDeque::new();
        let mut expected = next_slot;
        for (slot, (_, value)) in self.adopted.split_off(&next_slot) {
            while expected < slot {
                values.push_back(Value { stamp: time, seed: 0, content: Content::Mark });
                expected = expected.next();
            }
            let last = matches!(value.content, Content::Stop(_));
            values.push_back(value);
            expected = expected.next();
            if last {
                break;
            }
        }
        values
    }

    /// The member has forgotten it, and is asked again. What only that one had executed others may know, or that it was never decided.
    pub(super) fn forget_promise(&mut self, position: usize, node: NodeId, now: Instant) {
        self.members.forget(position);
        if self.stage == Stage::Asking {
            self.promises &= !(1 << position);
        }
        if self.stage != Stage::Waiting && self.next_slot_heard.1 == node {
            self.stage = Stage::Waiting;
            self.retry_at = now;
        }
    }

    pub(super) fn widen(&mut self, count: usize) {
        self.members.widen(count);
    }

    fn back_off(&mut self, cx: &Cx<'_>) {
        let wait_us = (RETRY_US << self.attempts.min(8)).min(RETRY_US_MAX);
        self.attempts += 1;
        self.retry_at = cx.now.after_us(wait_us + cx.random % wait_us);
    }

    pub(super) fn check(&self, promised: Ballot, me: NodeId) {
        assert!(self.stage == Stage::Waiting || promised.node == me, "a candidate promised {promised:?}");
    }
}

impl Paxos {
    /// Whether it is this member's turn to take over: the coordinator is suspected, and so is every member between.
    pub(super) fn is_successor(&self, cx: &Cx<'_>) -> bool {
        let coordinator = self.promised.node;
        if self.stopped || coordinator == self.me || !self.is_absent(coordinator, cx) || cx.peers.is_excused_itself() {
            return false;
        }
        let members = &self.configuration.members;
        let start = self.configuration.position(coordinator).map_or(0, |position| position + 1);
        let in_turn = (0..members.len()).map(|step| members[(start + step) % members.len()]);
        let first = in_turn.into_iter().find(|&node| node == self.me || !self.is_absent(node, cx));
        first == Some(self.me)
    }

    pub(super) fn on_suspected(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        if matches!(active.duty, Duty::Following(_)) && self.is_successor(cx) {
            self.start_election(active, cx, None, out);
        }
    }

    /// Nobody else need be told: whoever is silent tells every member. Nor is it asked for a promise at once, which it would
    /// answer with the same word.
    pub(super) fn on_silenced(&mut self, active: &mut Active, cx: &mut Cx<'_>, node: NodeId, out: &mut Effects<Paxos>) {
        let own = self.bit(self.me);
        match &mut active.duty {
            Duty::Following(following) => {
                following.forget_hand_over_to(node);
                if self.is_successor(cx) {
                    self.start_election(active, cx, None, out);
                }
            }
            Duty::Preparing(candidacy) => match candidacy.stage {
                Stage::Waiting => self.try_prepare(active, cx, out),
                Stage::Asking if candidacy.promises & own != 0 => self.send_prepare(active, self.silent, out),
                Stage::Asking | Stage::CatchingUp => {}
            },
            Duty::Coordinating(coordination) => coordination.keep_from(node),
        }
    }

    pub(super) fn handle_hand_over(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        ballot: Ballot,
        out: &mut Effects<Paxos>,
    ) {
        if self.stopped || cx.peers.is_excused_itself() {
            return;
        }
        match &mut active.duty {
            Duty::Following(_) if ballot >= self.promised => self.start_election(active, cx, Some(ballot), out),
            Duty::Preparing(candidacy) if candidacy.released < Some(ballot) => {
                candidacy.released = Some(ballot);
                match candidacy.stage {
                    Stage::Waiting => self.try_prepare(active, cx, out),
                    Stage::Asking => self.send_prepare(active, 0, out),
                    Stage::CatchingUp => {}
                }
            }
            // Late: somebody has coordinated since.
            Duty::Following(_) | Duty::Preparing(_) | Duty::Coordinating(_) => {}
        }
    }

    pub(super) fn start_election(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        released: Option<Ballot>,
        out: &mut Effects<Paxos>,
    ) {
        let candidacy = Candidacy::new(released, self.configuration.members.len(), self.me, cx.now);
        active.duty = Duty::Preparing(candidacy);
        self.try_prepare(active, cx, out);
    }

    /// A coordinator takes a ballot above `number_heard`, and what waits for it along.
    pub(super) fn start_reelection(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        queue: Queue,
        number_heard: u32,
        out: &mut Effects<Paxos>,
    ) {
        let mut candidacy = Candidacy::new(None, self.configuration.members.len(), self.me, cx.now);
        candidacy.queue = queue;
        candidacy.number_heard = number_heard;
        active.duty = Duty::Preparing(candidacy);
        self.try_prepare(active, cx, out);
    }

    /// Takes the next ballot, unless this replica's own promise still binds it to another node.
    pub(super) fn try_prepare(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Preparing(candidacy) = &active.duty else {
            return;
        };
        let bound_us = self.bound_us(active, cx, self.me, candidacy.released);
        let number = self.promised.number.max(candidacy.number_heard).checked_add(1);
        let Duty::Preparing(candidacy) = &mut active.duty else {
            return;
        };
        candidacy.back_off(cx);
        if let Some(bound_us) = bound_us {
            candidacy.stage = Stage::Waiting;
            candidacy.retry_at = cx.now.after_us(bound_us);
            return;
        }
        // Four thousand million elections: out of numbers, the group waits for its next epoch.
        let Some(number) = number else { return };
        let ballot = Ballot { number, node: self.me };
        candidacy.stage = Stage::Asking;
        candidacy.promises = 0;
        candidacy.busy.clear();
        candidacy.members = Members::new(self.configuration.members.len());
        candidacy.next_slot_heard = (self.next_slot, self.me);
        candidacy.adopted.clear();
        self.promised = ballot;
        if !planted::is(Planted::PromiseNotPersisted) {
            out.persist(Record::Promised { ballot });
        }
        self.send_prepare(active, 0, out);
        // What is accepted here is merged in once elected.
        let promise = Message::Promise { ballot, next_slot: self.next_slot, grant: 0, accepted: Vec::new() };
        out.send_once_durable(self.me, promise);
    }

    /// Asks the members that have not promised yet, but for these.
    fn send_prepare(&self, active: &Active, except: u16, out: &mut Effects<Paxos>) {
        let Duty::Preparing(candidacy) = &active.duty else {
            return;
        };
        for &member in self.configuration.members.iter() {
            if member != self.me && (candidacy.promises | u64::from(except)) & self.bit(member) == 0 {
                out.send_once_durable(member, self.prepare(candidacy));
            }
        }
    }

    fn prepare(&self, candidacy: &Candidacy) -> Message {
        Message::Prepare { ballot: self.promised, from: self.next_slot, released: candidacy.released }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the message")]
    pub(super) fn handle_promise(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        from: NodeId,
        next_slot: Slot,
        grant: GrantNumber,
        accepted: Vec<AcceptedValue>,
        out: &mut Effects<Paxos>,
    ) {
        let position = self.configuration.position(from).expect("only members are heard");
        match &mut active.duty {
            Duty::Coordinating(coordination) => coordination.members.note(position, next_slot, grant),
            Duty::Following(_) => {}
            Duty::Preparing(candidacy) => {
                candidacy.members.note(position, next_slot, grant);
                if candidacy.stage != Stage::Asking || candidacy.promises & 1 << position != 0 {
                    return;
                }
                candidacy.promises |= 1 << position;
                for AcceptedValue { slot, ballot, value } in &accepted {
                    // Holes up to it are filled one by one: a peer's nonsense must not make us fill for ever.
                    if slot.0.saturating_sub(next_slot.0) < PROMISED_SLOTS_MAX {
                        candidacy.adopt(*slot, *ballot, value);
                    } else {
                        *cx.nonsense_count += 1;
                    }
                }
                if next_slot > candidacy.next_slot_heard.0 {
                    candidacy.next_slot_heard = (next_slot, from);
                }
                self.release_bound_to(active, from, out);
                self.try_win(active, cx, out);
            }
        }
    }

    /// A node that promises our ballot coordinates nothing below it any more: whoever is bound to it is free, and is told of
    /// the very ballot that binds it.
    fn release_bound_to(&self, active: &mut Active, holder: NodeId, out: &mut Effects<Paxos>) {
        let Duty::Preparing(candidacy) = &mut active.duty else { return };
        let (ballot, from) = (self.promised, self.next_slot);
        candidacy.busy.retain(|&(member, promised)| {
            let bound = promised.node != holder;
            if !bound {
                out.send_once_durable(member, Message::Prepare { ballot, from, released: Some(promised) });
            }
            bound
        });
    }

    pub(super) fn handle_busy(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        from: NodeId,
        promised: Ballot,
        wait_us: u64,
        out: &mut Effects<Paxos>,
    ) {
        let holder_promised = |candidacy: &Candidacy| candidacy.promises & self.bit(promised.node) != 0;
        let Duty::Preparing(candidacy) = &mut active.duty else {
            return;
        };
        if candidacy.stage != Stage::Asking {
            return;
        }
        candidacy.busy.retain(|(member, _)| *member != from);
        candidacy.busy.push((from, promised));
        if holder_promised(candidacy) {
            self.release_bound_to(active, promised.node, out);
        } else {
            candidacy.retry_at = cx.now.after_us(wait_us.min(RETRY_US_MAX) + cx.random % RETRY_US);
        }
    }

    pub(super) fn handle_rejected(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        promised: Ballot,
        out: &mut Effects<Paxos>,
    ) {
        match &mut active.duty {
            Duty::Following(_) => {}
            Duty::Coordinating(_) => self.on_challenged(active, cx, promised, out),
            Duty::Preparing(candidacy) if self.is_absent(promised.node, cx) || promised.node == self.me => {
                // Its owner is gone: a higher ballot is needed, soon.
                candidacy.number_heard = candidacy.number_heard.max(promised.number);
                candidacy.stage = Stage::Waiting;
                candidacy.back_off(cx);
            }
            // On record, so that this replica knows whom to send its clients to instead of duelling.
            Duty::Preparing(_) => self.promise(active, promised, out),
        }
    }

    fn try_win(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Preparing(candidacy) = &mut active.duty else {
            return;
        };
        let own = candidacy.promises & self.bit(self.me) != 0;
        if !own || !self.is_read_quorum(candidacy.promises) {
            return;
        }
        candidacy.stage = Stage::CatchingUp;
        if planted::is(Planted::ProposeBelowHeard) {
            candidacy.next_slot_heard = (self.next_slot, self.me);
        }
        let (heard, source) = candidacy.next_slot_heard;
        if heard > self.next_slot {
            candidacy.attempts = 0;
            candidacy.back_off(cx);
            out.send(source, Message::Fetch { from: self.next_slot });
        }
        self.try_coordinate(active, cx, out);
    }

    /// Coordinates once elected and level with everybody heard.
    pub(super) fn try_coordinate(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Preparing(candidacy) = &mut active.duty else {
            return;
        };
        if self.stopped {
            self.refuse_stopped(active, out);
            return;
        }
        if candidacy.stage != Stage::CatchingUp || self.next_slot < candidacy.next_slot_heard.0 {
            return;
        }
        candidacy.adopt_own(&active.ledger, self.next_slot);
        let adopted = candidacy.take_adopted(self.next_slot, self.time);
        let members = core::mem::replace(&mut candidacy.members, Members::new(0));
        let queue = core::mem::take(&mut candidacy.queue);
        active.duty = Duty::Coordinating(Coordination::elected(self, members, adopted, cx.now));
        self.on_elected(active, cx, queue, out);
    }

    pub(super) fn on_woken_preparing(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let own = self.bit(self.me);
        let Duty::Preparing(candidacy) = &mut active.duty else {
            return;
        };
        if cx.now < candidacy.retry_at {
            return;
        }
        if cx.peers.is_excused_itself() {
            let other = self.next_to_ask(self.me, cx);
            self.resign(active, Some(other), out);
            return;
        }
        if cx.now >= candidacy.give_up_at {
            self.resign(active, None, out);
            return;
        }
        match candidacy.stage {
            Stage::Waiting => self.try_prepare(active, cx, out),
            Stage::Asking => {
                candidacy.back_off(cx);
                // Before the own promise is durable nobody has been asked.
                if candidacy.promises & own != 0 {
                    self.send_prepare(active, 0, out);
                }
            }
            Stage::CatchingUp => {
                let (_, source) = candidacy.next_slot_heard;
                if self.is_absent(source, cx) {
                    // Others may know what it knew, or that it was never decided.
                    self.try_prepare(active, cx, out);
                } else {
                    candidacy.back_off(cx);
                    out.send(source, Message::Fetch { from: self.next_slot });
                }
            }
        }
    }
}
