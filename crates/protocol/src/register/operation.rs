//! What clients ask, and each key's move to a successor: a query, then a store where one is needed. Or a listing.
//!
//! A phase asks preferred quorums first, everybody not suspected after a while, suspects after another. It counts
//! answers of members with the very same view; when the view changes it begins again, and a write that has a tag keeps it.

use core::mem;

use super::listing::Listing;
use super::view::{Known, Nodes, Quorum};
use super::{Answer, Body, Content, Key, Message, Register, Round, Tag, Version};
use crate::effect::{Cx, Effects};
use crate::id::{Epoch, Instant, NodeId};
use crate::planted::{self, Planted};

#[derive(Clone, Hash)]
pub(super) struct Operation {
    pub(super) purpose: Purpose,
    /// Of a listing, the least that it may list.
    pub(super) key: Key,
    /// The newest epoch when its query began. What began early enough is over once a stage says so.
    pub(super) began: Epoch,
    pub(super) deadline_at: Instant,
    /// Which of the preferred quorums, and the number in its tag.
    pub(super) number: u64,
    pub(super) phase: Phase,
    asked: Nodes,
    pub(super) answered: Nodes,
    breadth: Breadth,
    /// How often members were asked, in all phases.
    rounds: u32,
    /// How often everybody who has not answered was asked again, in this phase.
    repeats: u32,
    /// When more members are asked, or the same again.
    next_at: Instant,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Purpose {
    /// Of one register, or a listing.
    Read {
        token: u64,
    },
    Write {
        token: u64,
        content: Content,
    },
    /// To the newest configuration, for the errand that retires the oldest.
    Move,
}

#[derive(Clone, Hash)]
pub(super) enum Phase {
    Query(Tally),
    /// `answer`: nothing is left to be told where there is none.
    Store {
        version: Version,
        answer: Option<Answer>,
    },
    List(Listing),
}

/// The highest version that a query has met.
#[derive(Clone, Hash, Default)]
pub(super) struct Tally {
    tag: Tag,
    renewed: Epoch,
    content: Option<Content>,
    floor: u64,
    confirmed: bool,
    holders: Nodes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Breadth {
    Preferred,
    Trusted,
    All,
}

impl Operation {
    pub(super) fn new(purpose: Purpose, key: Key, phase: Phase) -> Operation {
        Operation {
            purpose,
            key,
            began: Epoch(0),
            deadline_at: Instant::MAX,
            number: 0,
            phase,
            asked: 0,
            answered: 0,
            breadth: Breadth::Preferred,
            rounds: 0,
            repeats: 0,
            next_at: Instant(0),
        }
    }

    pub(super) fn due_at(&self) -> Instant {
        self.next_at.min(self.deadline_at)
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self.purpose {
            Purpose::Read { token } | Purpose::Write { token, .. } => Some(token),
            Purpose::Move => None,
        }
    }

    pub(super) fn is_waiting_for(&self, bit: Nodes) -> bool {
        self.asked & !self.answered & bit != 0
    }

    /// What this phase says to whoever it asks.
    fn body(&self, round: Round) -> Body {
        match &self.phase {
            Phase::Query(_) => {
                let content = !matches!(self.purpose, Purpose::Write { .. });
                Body::Query { round, key: self.key.clone(), content }
            }
            Phase::Store { version, .. } => Body::Store { round, key: self.key.clone(), version: version.clone() },
            Phase::List(listing) => listing.body(round, self.key.clone()),
        }
    }

    fn quorum(&self) -> Quorum {
        match self.phase {
            Phase::Query(_) | Phase::List(_) => Quorum::Read,
            Phase::Store { .. } => Quorum::Write,
        }
    }

    /// The configurations in which this phase needs a quorum: all; a move stores only where it moves to.
    fn stages<'a>(&self, known: &'a Known) -> &'a [super::Stage] {
        let stages = known.stages();
        match (&self.purpose, &self.phase) {
            (Purpose::Move, Phase::Store { .. }) => &stages[stages.len() - 1..],
            _ if planted::is(Planted::RegisterOldConfigurationOnly) => &stages[..1],
            _ => stages,
        }
    }

    fn is_complete(&self, known: &Known) -> bool {
        let reached = self.stages(known).iter().all(|stage| known.is_quorum(stage, self.quorum(), self.answered));
        let renewed = match &self.phase {
            Phase::Store { .. } => return reached,
            Phase::Query(tally) if tally.confirmed && planted::is(Planted::RegisterConfirmedForEver) => return reached,
            Phase::Query(tally) => tally.renewed,
            // There may be keys that nobody has named yet.
            Phase::List(_) if planted::is(Planted::RegisterListsFromOne) => return self.answered != 0,
            Phase::List(_) => Epoch(0),
        };
        let unchecked = planted::is(Planted::RegisterSmallerReadQuorum);
        let wide = |stage| known.is_wide_enough(stage, self.answered, renewed);
        reached && (unchecked || self.stages(known).iter().all(wide))
    }
}

impl Phase {
    pub(super) fn query() -> Phase {
        Phase::Query(Tally::default())
    }
}

impl Tally {
    /// Whether the highest version is known to be at a write quorum of each of these configurations.
    fn is_settled(&self, known: &Known) -> bool {
        let held = || known.stages().iter().all(|stage| known.is_quorum(stage, Quorum::Write, self.holders));
        self.confirmed || held()
    }

    fn note(&mut self, bit: Nodes, tag: Tag, renewed: Epoch, confirmed: bool, content: Option<Content>) {
        if tag > self.tag {
            *self = Tally { tag, renewed, content, confirmed, holders: bit, floor: self.floor };
        } else if tag == self.tag {
            self.renewed = self.renewed.max(renewed);
            self.confirmed |= confirmed;
            self.holders |= bit;
        }
    }
}

impl Register {
    /// Begins the operation's phase, under a round of its own.
    pub(super) fn begin(&mut self, cx: &Cx<'_>, mut operation: Operation, out: &mut Effects<Register>) {
        let round = self.next_round();
        if operation.quorum() == Quorum::Read {
            operation.began = self.known.newest().epoch();
        }
        operation.asked = operation.answered;
        operation.breadth = Breadth::Preferred;
        operation.repeats = 0;
        operation.next_at = cx.now.after_us(self.pace.widen_us);
        let (quorum, turn) = (operation.quorum(), operation.number.wrapping_add(u64::from(self.me.0)));
        let avoid = self.suspects(cx) & !operation.answered;
        let preferred = operation.stages(&self.known).iter();
        let mut wanted = preferred.fold(0, |set, stage| set | self.known.preferred(stage, quorum, turn, avoid));
        let expects_old = self.renewals.expects_old() || matches!(operation.phase, Phase::List(_));
        if quorum == Quorum::Read && expects_old {
            let stages = operation.stages(&self.known).iter();
            wanted = stages.fold(wanted, |set, stage| set | self.known.preferred_since(stage, turn, avoid));
        }
        let wanted = wanted & !operation.answered;
        self.ask(&mut operation, round, wanted, out);
        self.keep(round, operation);
    }

    fn ask(&self, operation: &mut Operation, round: Round, whom: Nodes, out: &mut Effects<Register>) {
        operation.asked |= whom;
        operation.rounds += u32::from(whom != 0);
        for node in self.known.members_of(whom) {
            self.send(node, operation.body(round), out);
        }
    }

    pub(super) fn suspects(&self, cx: &Cx<'_>) -> Nodes {
        let is_suspected = |node: &&NodeId| cx.peers.is_suspected(**node) || self.unreachable.contains(*node);
        let suspected = self.known.nodes().iter().filter(is_suspected);
        suspected.fold(0, |set, &node| set | self.known.bit(node))
    }

    /// More members are asked; those that were, again.
    pub(super) fn widen(&mut self, cx: &Cx<'_>, round: Round, out: &mut Effects<Register>) {
        let Some(mut operation) = self.take(round) else { return };
        if cx.now >= operation.deadline_at {
            return self.end_unknown(&operation, out);
        }
        let everybody = operation.stages(&self.known).iter().fold(0, |set, stage| set | self.known.all_of(stage));
        let silent = everybody & !operation.answered;
        let unasked = silent & !operation.asked;
        let trusted = unasked & !self.suspects(cx);
        let (whom, breadth, wait_us) = match operation.breadth {
            Breadth::Preferred if trusted != 0 => (trusted, Breadth::Trusted, self.pace.widen_us),
            Breadth::Preferred | Breadth::Trusted if unasked != 0 => (unasked, Breadth::All, self.pace.retry_us),
            _ => {
                let wait_us = self.pace.repeat_us(operation.repeats);
                operation.repeats += 1;
                (silent, Breadth::All, wait_us)
            }
        };
        operation.breadth = breadth;
        operation.next_at = cx.now.after_us(wait_us);
        self.ask(&mut operation, round, whom, out);
        self.keep(round, operation);
    }

    /// The member has caught up with this view: what it was asked before then it dropped.
    pub(super) fn ask_again(&mut self, node: NodeId, out: &mut Effects<Register>) {
        let (bit, view) = (self.known.bit(node), self.view());
        for (&round, operation) in &mut self.operations {
            if operation.is_waiting_for(bit) {
                operation.rounds += 1;
                out.send(node, Message { view, body: operation.body(round) });
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn handle_found(
        &mut self,
        cx: &Cx<'_>,
        from: NodeId,
        round: Round,
        (tag, renewed): (Tag, Epoch),
        floor: u64,
        confirmed: bool,
        content: Option<Content>,
        out: &mut Effects<Register>,
    ) {
        let bit = self.known.bit(from);
        let Some(mut operation) = self.take(round) else { return };
        let is_asked_for =
            content.is_some() || tag == Tag::ABSENT || matches!(operation.purpose, Purpose::Write { .. });
        if let Phase::Query(tally) = &mut operation.phase
            && is_asked_for
        {
            tally.note(bit, tag, renewed, confirmed, content);
            tally.floor = tally.floor.max(floor);
            operation.answered |= bit;
        }
        self.proceed(cx, round, operation, out);
    }

    pub(super) fn handle_stored(&mut self, cx: &Cx<'_>, from: NodeId, round: Round, out: &mut Effects<Register>) {
        let Some(mut operation) = self.take(round) else { return };
        if let Phase::Store { .. } = operation.phase {
            operation.answered |= self.known.bit(from);
        }
        self.proceed(cx, round, operation, out);
    }

    pub(super) fn proceed(&mut self, cx: &Cx<'_>, round: Round, mut operation: Operation, out: &mut Effects<Register>) {
        if !operation.is_complete(&self.known) {
            let exhausted = operation.asked & !operation.answered == 0;
            self.keep(round, operation);
            // The preferred quorum was not wide enough for a version this old.
            if exhausted {
                self.widen(cx, round, out);
            }
            return;
        }
        if let Phase::Query(tally) = &operation.phase {
            let is_old = self.is_resized_since(tally.renewed);
            self.renewals.note(is_old);
        }
        match mem::replace(&mut operation.phase, Phase::query()) {
            Phase::Query(tally) => match operation.purpose.clone() {
                Purpose::Read { token } => self.finish_read_query(cx, operation, token, tally, out),
                Purpose::Write { token, content } => {
                    self.finish_write_query(cx, operation, token, content, &tally, out)
                }
                Purpose::Move => self.finish_move_query(cx, operation, tally, out),
            },
            Phase::Store { version, answer } => self.finish_store(cx, &operation, &version, answer, out),
            Phase::List(listing) => self.finish_listing(cx, &operation, listing, out),
        }
    }

    fn finish_read_query(
        &mut self,
        cx: &Cx<'_>,
        operation: Operation,
        token: u64,
        tally: Tally,
        out: &mut Effects<Register>,
    ) {
        let Some(content) = tally.content.clone() else {
            let rounds = operation.rounds;
            return self.end(&operation, Some(Answer::Value { token, content: Content::Tombstone, rounds }), out);
        };
        if content.is_expired(cx.stamp) {
            // A version of its own: nobody who finds it can find the value again.
            let tag = match planted::is(Planted::RegisterExpiryTakesNewTag) {
                false => Tag { expired: true, ..tally.tag },
                true => Tag { counter: tally.tag.counter + 1, ..tally.tag },
            };
            let version = Version { tag, renewed: self.renewed_by(tally.renewed), content: Content::Tombstone };
            let answer = Some(Answer::Value { token, content: Content::Tombstone, rounds: operation.rounds });
            return self.store(cx, operation, version, answer, 0, out);
        }
        let settled = tally.is_settled(&self.known) || planted::is(Planted::RegisterNoWriteBack);
        let version = Version { tag: tally.tag, renewed: self.renewed_by(tally.renewed), content };
        let answer = Answer::Value { token, content: version.content.clone(), rounds: operation.rounds };
        if !settled {
            return self.write_back(cx, operation, version, Some(answer), &tally, out);
        }
        self.end(&operation, Some(answer), out);
        // Later reads need not ask as many members as this one did.
        if self.is_resized_since(tally.renewed) && version.renewed > tally.renewed {
            self.renew(cx, operation.key, version, out);
        }
    }

    fn finish_write_query(
        &mut self,
        cx: &Cx<'_>,
        operation: Operation,
        token: u64,
        content: Content,
        tally: &Tally,
        out: &mut Effects<Register>,
    ) {
        let counter = tally.tag.counter.max(tally.floor) + 1;
        let tag = match planted::is(Planted::RegisterTagReused) {
            false => Tag { counter, node: self.me, start: self.start, operation: operation.number, expired: false },
            true => Tag { counter, node: self.me, ..Tag::ABSENT },
        };
        let renewed = self.renewed_by(self.known.oldest().epoch());
        let version = Version { tag, renewed, content };
        self.store(cx, operation, version, Some(Answer::Written { token }), 0, out);
    }

    fn finish_move_query(&mut self, cx: &Cx<'_>, operation: Operation, tally: Tally, out: &mut Effects<Register>) {
        let is_there = self.known.is_quorum(self.known.newest(), Quorum::Write, tally.holders);
        match tally.content.clone() {
            Some(content) if !is_there => {
                let version = Version { tag: tally.tag, renewed: tally.renewed, content };
                self.write_back(cx, operation, version, None, &tally, out);
            }
            _ => self.on_moved(cx, out),
        }
    }

    /// The epoch that a version is renewed by when it is stored now: the present one, if there is no other.
    fn renewed_by(&self, otherwise: Epoch) -> Epoch {
        self.known.single().map_or(otherwise, |stage| stage.epoch())
    }

    fn is_resized_since(&self, renewed: Epoch) -> bool {
        self.known.stages().iter().any(|stage| stage.read_size_since(renewed) > 0)
    }

    /// Stores what was found; whoever was found to hold it need not be asked, unless it should learn that it was renewed.
    fn write_back(
        &mut self,
        cx: &Cx<'_>,
        operation: Operation,
        version: Version,
        answer: Option<Answer>,
        tally: &Tally,
        out: &mut Effects<Register>,
    ) {
        let holders = if self.is_resized_since(tally.renewed) { 0 } else { tally.holders };
        self.store(cx, operation, version, answer, holders, out);
    }

    fn store(
        &mut self,
        cx: &Cx<'_>,
        mut operation: Operation,
        version: Version,
        answer: Option<Answer>,
        holders: Nodes,
        out: &mut Effects<Register>,
    ) {
        operation.phase = Phase::Store { version, answer };
        operation.answered = holders;
        self.begin(cx, operation, out);
    }

    fn finish_store(
        &mut self,
        cx: &Cx<'_>,
        operation: &Operation,
        version: &Version,
        mut answer: Option<Answer>,
        out: &mut Effects<Register>,
    ) {
        if let Some(Answer::Value { rounds, .. }) = &mut answer {
            *rounds = operation.rounds;
        }
        if self.known.single().is_some() {
            for node in self.known.members_of(operation.answered) {
                self.send(node, Body::Confirm { key: operation.key.clone(), tag: version.tag }, out);
            }
        }
        match operation.purpose {
            Purpose::Move => self.on_moved(cx, out),
            _ => self.end(operation, answer, out),
        }
    }

    /// The view has changed: all phases begin again. What a stage says is over ends here.
    pub(super) fn restart_operations(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        let fence = self.known.newest().fence;
        self.due.clear();
        self.listing_count = 0;
        for (_, mut operation) in mem::take(&mut self.operations) {
            operation.answered = 0;
            match (&operation.purpose, &operation.phase) {
                // The errand begins again, too.
                (Purpose::Move, _) => {}
                (Purpose::Write { .. }, Phase::Store { .. }) if operation.began < fence => {
                    self.end_unknown(&operation, out);
                }
                (Purpose::Write { .. }, Phase::Store { .. }) => self.begin(cx, operation, out),
                (_, Phase::List(listing)) => {
                    operation.phase = Phase::List(listing.anew());
                    self.begin(cx, operation, out);
                }
                _ => {
                    operation.phase = Phase::query();
                    self.begin(cx, operation, out);
                }
            }
        }
    }
}
