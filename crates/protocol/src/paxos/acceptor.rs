//! The acceptor, which every member is, and the follower, who learns what is decided.
//!
//! An acceptor speaks only of what is on its disk: every answer waits for the records before it.

use alloc::vec::Vec;

use super::ledger::{Ledger, weight};
use super::replica::{Active, Duty};
use super::{ACCEPTED_BYTES_MAX, ACCEPTED_SLOTS_MAX, AcceptedValue, Message, Paxos, Record};
use crate::effect::{After, Cx, Effect, Effects};
use crate::id::{Ballot, Content, Instant, NodeId, Slot, Value};
use crate::planted::{self, Planted};

/// Decided slots that were asked for and have not come are asked for again, of somebody else.
const FETCH_RETRY_US: u64 = 200_000;
/// A value accepted and not heard of again for this long is asked about, ever more rarely up to the maximum.
const STALE_US: u64 = 1_000_000;
const STALE_US_MAX: u64 = 16_000_000;
/// For how long the member handed over to is believed to coordinate without having said so.
const HANDED_OVER_US: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Following {
    behind: Option<Behind>,
    /// When to ask about what is accepted and not decided, and how long that has been put off.
    stale: Option<(Instant, u64)>,
    handed_to: Option<(NodeId, Instant)>,
}

/// Slots below `frontier` are decided and not known here.
#[derive(Debug)]
struct Behind {
    frontier: Slot,
    asked: NodeId,
    retry_at: Instant,
}

impl Following {
    pub(super) fn after_hand_over(to: NodeId, now: Instant) -> Following {
        Following { handed_to: Some((to, now.after_us(HANDED_OVER_US))), ..Following::default() }
    }

    pub(super) fn without_hand_over(self) -> Following {
        Following { handed_to: None, ..self }
    }

    pub(super) fn forget_hand_over_to(&mut self, node: NodeId) {
        self.handed_to = self.handed_to.filter(|(to, _)| *to != node);
    }

    pub(super) fn handed_to(&self) -> Option<NodeId> {
        self.handed_to.map(|(to, _)| to)
    }

    pub(super) fn note_progress(&mut self, next_slot: Slot, advanced: bool) {
        if advanced {
            self.stale = None;
        }
        if self.behind.as_ref().is_some_and(|behind| behind.frontier <= next_slot) {
            self.behind = None;
        }
    }

    /// What is accepted is watched until it is executed.
    pub(super) fn watch(&mut self, ledger: &Ledger, now: Instant) {
        if ledger.is_empty() {
            self.stale = None;
        } else if self.stale.is_none() {
            self.stale = Some((now.after_us(STALE_US), STALE_US));
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.behind.is_none() && self.handed_to.is_none()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let behind = self.behind.as_ref().map(|behind| behind.retry_at);
        let stale = self.stale.map(|(at, _)| at);
        let handed = self.handed_to.map(|(_, until)| until);
        [behind, stale, handed].into_iter().flatten().min()
    }
}

impl Paxos {
    /// How long this replica's promise keeps it from promising a ballot of `candidate`, if it does.
    ///
    /// An elected coordinator that a write quorum is bound to is bound to itself: no candidate could win against it, and one
    /// that merely does not hear it must not depose it.
    pub(super) fn bound_us(
        &self,
        active: &Active,
        cx: &Cx<'_>,
        candidate: NodeId,
        released: Option<Ballot>,
    ) -> Option<u64> {
        let holder = self.promised.node;
        let given_back = |released: Ballot| released.node == holder && self.promised <= released;
        // A holder that is silent reads nothing at the ballots that it may have had. But its word may be older than a later
        // start of it, of which this replica's node had heard before it was itself started.
        let silent = self.is_silent(holder) && !cx.peers.is_bound_by_the_past(cx.now);
        let has_left = !self.configuration.contains(holder);
        let free = holder == candidate || released.is_some_and(given_back) || silent || has_left;
        if free || planted::is(Planted::PromiseDespiteGrant) {
            return None;
        }
        if holder == self.me {
            return self.is_upheld(active, cx).then_some(cx.peers.timing().heartbeat_us);
        }
        cx.peers.bound_until(holder, cx.now).map(|until| until.0 - cx.now.0)
    }

    /// Whether this replica coordinates, and grants from nodes that make a write quorum with it still last.
    pub(super) fn is_upheld(&self, active: &Active, cx: &Cx<'_>) -> bool {
        let Duty::Coordinating(_) = active.duty else {
            return false;
        };
        let givers = self.configuration.members.iter().filter(|&&node| cx.peers.grant_held(node, cx.now).is_some());
        let set = givers.fold(self.bit(self.me), |set, &node| set | self.bit(node));
        self.is_write_quorum(set)
    }

    /// Heeds an elected coordinator, who may have been elected without this member's promise.
    fn heed(&mut self, active: &mut Active, ballot: Ballot, out: &mut Effects<Paxos>) {
        if ballot > self.promised {
            self.promise(active, ballot, out);
        } else if let Duty::Preparing(_) = active.duty {
            // It was about to be replaced, and is there after all.
            self.resign(active, Some(ballot.node), out);
        }
    }

    /// Promises `ballot`, which is another node's and higher than any before.
    ///
    /// Also where an acceptance follows, which says as much: its record goes when its slot is covered by a checkpoint or a
    /// snapshot, which may have been taken before.
    pub(super) fn promise(&mut self, active: &mut Active, ballot: Ballot, out: &mut Effects<Paxos>) {
        assert!(ballot > self.promised, "{ballot:?} is not above {:?}", self.promised);
        self.resign(active, Some(ballot.node), out);
        self.promised = ballot;
        if !planted::is(Planted::PromiseNotPersisted) {
            out.persist(Record::Promised { ballot });
        }
    }

    fn answer(&self, to: NodeId, message: Message, out: &mut Effects<Paxos>) {
        let after = if planted::is(Planted::AcceptedBeforeDurable) { After::Now } else { After::Durable };
        out.list.push(Effect::Send { to, message, after });
    }

    fn reject(&self, ballot: Ballot, out: &mut Effects<Paxos>) {
        self.answer(ballot.node, Message::Rejected { ballot, promised: self.promised }, out);
    }

    pub(super) fn handle_prepare(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        ballot: Ballot,
        from: Slot,
        released: Option<Ballot>,
        out: &mut Effects<Paxos>,
    ) {
        if ballot < self.promised {
            self.reject(ballot, out);
            return;
        }
        // Equal ballots are answered again: the first promise may have been lost.
        if ballot > self.promised {
            if let Some(wait_us) = self.bound_us(active, cx, ballot.node, released) {
                let message = Message::Busy { ballot, promised: self.promised, wait_us };
                self.answer(ballot.node, message, out);
                // To whoever has promised itself a ballot that nobody follows, this coordinator is none until it takes a
                // higher one; and where nothing is proposed, no rejection would tell of it.
                if let Duty::Coordinating(_) = active.duty {
                    self.on_challenged(active, cx, ballot, out);
                }
                return;
            }
            self.promise(active, ballot, out);
        }
        let accepted = active.ledger.from(from).map(|(slot, entry)| AcceptedValue {
            slot,
            ballot: entry.ballot,
            value: entry.value.clone(),
        });
        let grant = cx.peers.grant_given(ballot.node, cx.now);
        let message = Message::Promise { ballot, next_slot: self.next_slot, grant, accepted: accepted.collect() };
        self.answer(ballot.node, message, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the message")]
    pub(super) fn handle_accept(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        ballot: Ballot,
        slot: Slot,
        value: Value,
        frontier: Slot,
        out: &mut Effects<Paxos>,
    ) {
        let lower = ballot < self.promised;
        if lower && !planted::is(Planted::AcceptLowerBallot) {
            self.reject(ballot, out);
            return;
        }
        // A grant to somebody else does not matter here: who proposes has won a read quorum, so that no other lease holds.
        if !lower {
            self.heed(active, ballot, out);
        }
        // First what the frontier decides, so that the ring has room for what is new.
        active.ledger.decide_below(frontier, ballot);
        self.advance(active, cx, out);
        let answered = self.accept(active, ballot, slot, value, frontier, out);
        if answered {
            let grant = cx.peers.grant_given(ballot.node, cx.now);
            let message = Message::Accepted { ballot, slot, next_slot: self.next_slot, grant };
            self.answer(ballot.node, message, out);
        }
        self.note_frontier(active, cx, ballot.node, frontier, out);
    }

    /// Puts a value on record unless it is there. False if there is no answer to be given.
    fn accept(
        &mut self,
        active: &mut Active,
        ballot: Ballot,
        slot: Slot,
        value: Value,
        frontier: Slot,
        out: &mut Effects<Paxos>,
    ) -> bool {
        let executed = slot < self.next_slot;
        let on_record = active.ledger.find(slot).is_some_and(|entry| entry.decided || entry.ballot == ballot);
        let stores = !executed && !on_record && !self.stopped && has_room(&active.ledger, slot, &value);
        if stores {
            active.ledger.accept(slot, ballot, value.clone());
            if !planted::is(Planted::AcceptNotPersisted) {
                out.persist(Record::Accepted { ballot, slot, value, frontier });
            }
        }
        stores || executed || on_record
    }

    pub(super) fn handle_decide(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        ballot: Ballot,
        frontier: Slot,
        answers: bool,
        out: &mut Effects<Paxos>,
    ) {
        if ballot < self.promised {
            self.reject(ballot, out);
            return;
        }
        self.heed(active, ballot, out);
        active.ledger.decide_below(frontier, ballot);
        self.advance(active, cx, out);
        if answers {
            self.answer(ballot.node, Message::Frontier { ballot, next_slot: self.next_slot }, out);
        }
        self.note_frontier(active, cx, ballot.node, frontier, out);
    }

    pub(super) fn handle_confirm(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        ballot: Ballot,
        round: u64,
        out: &mut Effects<Paxos>,
    ) {
        if ballot < self.promised {
            self.reject(ballot, out);
            return;
        }
        // Who asks was elected, perhaps without us: its reads may rest on our promise only once that is on record.
        self.heed(active, ballot, out);
        let grant = cx.peers.grant_given(ballot.node, cx.now);
        let message = Message::Confirmed { ballot, round, next_slot: self.next_slot, grant };
        self.answer(ballot.node, message, out);
    }

    pub(super) fn handle_learn(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        from: NodeId,
        slots: Vec<(Slot, Value)>,
        next_slot: Slot,
        out: &mut Effects<Paxos>,
    ) {
        // It lacks nothing that was decided at its ballot or below. What was decided above must not count as decided at its own.
        if let Duty::Coordinating(_) = active.duty {
            return;
        }
        let before = self.next_slot;
        let mut expected = before;
        for (slot, value) in slots {
            if slot < expected || self.stopped {
                continue;
            }
            if slot > expected {
                break;
            }
            expected = slot.next();
            let known = active.ledger.find(slot).is_some_and(|entry| entry.decided);
            if !known {
                out.persist(Record::Decided { slot, value: value.clone() });
            }
            let last = matches!(value.content, Content::Stop(_));
            active.ledger.learn(slot, self.promised, value);
            if last {
                break;
            }
        }
        self.advance(active, cx, out);
        let Duty::Following(following) = &mut active.duty else {
            return;
        };
        if self.next_slot > before && self.next_slot < next_slot && !self.stopped {
            // There is more where this came from.
            following.behind = None;
            self.note_frontier(active, cx, from, next_slot, out);
        }
    }

    /// Somebody knows every slot below `frontier` as decided: asks for those that are lacking here.
    fn note_frontier(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        source: NodeId,
        frontier: Slot,
        out: &mut Effects<Paxos>,
    ) {
        let Duty::Following(following) = &mut active.duty else {
            return;
        };
        if frontier <= self.next_slot || self.stopped {
            return;
        }
        match &mut following.behind {
            Some(behind) => behind.frontier = behind.frontier.max(frontier),
            behind @ None => {
                *behind = Some(Behind { frontier, asked: source, retry_at: cx.now.after_us(FETCH_RETRY_US) });
                out.send(source, Message::Fetch { from: self.next_slot });
            }
        }
    }

    pub(super) fn on_woken_following(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let (now, from, promised) = (cx.now, self.next_slot, self.promised);
        let Duty::Following(following) = &mut active.duty else {
            return;
        };
        if following.handed_to.is_some_and(|(_, until)| until <= now) {
            following.handed_to = None;
        }
        if let Some(behind) = following.behind.as_mut().filter(|behind| behind.retry_at <= now) {
            behind.asked = self.next_to_ask(behind.asked, cx);
            behind.retry_at = now.after_us(FETCH_RETRY_US);
            out.send(behind.asked, Message::Fetch { from });
        }
        if let Some((_, waited_us)) = following.stale.filter(|(at, _)| *at <= now) {
            let wait_us = (waited_us * 2).min(STALE_US_MAX);
            following.stale = Some((now.after_us(wait_us), wait_us));
            let reachable = promised.node != self.me && !self.is_absent(promised.node, cx);
            let asked = if reachable { promised.node } else { self.next_to_ask(self.me, cx) };
            if asked != self.me {
                out.send(asked, Message::Fetch { from });
            }
        }
    }

    /// The next member after `asked` that is neither suspected nor this one; `asked` itself if there is no other.
    pub(super) fn next_to_ask(&self, asked: NodeId, cx: &Cx<'_>) -> NodeId {
        let members = &self.configuration.members;
        let start = self.configuration.position(asked).map_or(0, |position| position + 1);
        let in_turn = (0..members.len()).map(|step| members[(start + step) % members.len()]);
        in_turn.into_iter().find(|&node| node != self.me && !self.is_absent(node, cx)).unwrap_or(asked)
    }
}

/// The ring is bounded, except that the next slot always has room: without it nothing would ever leave.
fn has_room(ledger: &Ledger, slot: Slot, value: &Value) -> bool {
    let within_slots = slot.0 - ledger.base().0 < ACCEPTED_SLOTS_MAX;
    let replaced = ledger.find(slot).map_or(0, |entry| weight(&entry.value));
    let within_bytes = ledger.bytes() - replaced + weight(value) <= ACCEPTED_BYTES_MAX;
    within_slots && (within_bytes || slot == ledger.base())
}
