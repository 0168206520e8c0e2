//! Reads that are linearizable: the tail's at once under its membership lease, else once everybody who could have
//! adopted another configuration has said that it has not; other members' after asking the tail how far everything is
//! decided.

use alloc::collections::VecDeque;

use super::replica::refuse;
use super::{Body, Chain, Place, WAITING_READS_MAX};
use crate::effect::{Cx, Effect, Effects, Proposal, ReadMode, Refusal};
use crate::id::{NodeId, Slot};
use crate::planted::{self, Planted};

#[derive(Default)]
pub(super) struct Reads {
    /// The last round begun. No number comes twice, also after a restart: they are counted from the clock.
    round: u64,
    /// At the tail.
    round_confirmed: u64,
    /// At the tail: who has confirmed the running round, by position; the joining node comes last.
    confirmers: Option<u64>,
    /// At another member: the round is a query that is not answered.
    asking: bool,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    asker: Asker,
    mode: ReadMode,
    /// The first round that begins after the read came.
    round: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Local { token: u64 },
    Member { node: NodeId, round: u64 },
}

impl Reads {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn check(&self) {
        assert!(!(self.asking && self.confirmers.is_some()), "asks the tail and the others");
        assert!(self.waiting.len() <= WAITING_READS_MAX + super::MEMBERS_MAX, "{} reads wait", self.waiting.len());
    }
}

impl Chain {
    pub(super) fn read(&mut self, cx: &mut Cx<'_>, asker: Asker, mode: ReadMode, out: &mut Effects<Chain>) {
        let refusal = match self.place {
            Place::Member(_) if self.has_stop() => Some(Refusal::Stopped),
            Place::Member(_) if self.reads.waiting.len() >= WAITING_READS_MAX => Some(Refusal::Overloaded),
            Place::Member(_) => None,
            Place::Joining | Place::Outside => {
                Some(Refusal::NotCoordinator { coordinator: Some(self.membership.tail()) })
            }
        };
        if let Some(why) = refusal {
            return refuse_read(asker, mode, why, out);
        }
        let leased = mode == ReadMode::Lease && self.is_tail() && self.holds_lease(cx.now);
        if leased && self.is_level() {
            return self.answer(asker, out);
        }
        self.reads.waiting.push_back(Waiting { asker, mode, round: self.reads.round + 1 });
        if !leased && self.reads.confirmers.is_none() && !self.reads.asking {
            self.begin_round(cx, out);
        }
    }

    /// Whether this tail knows of everything that was answered before it was the tail.
    fn is_level(&self) -> bool {
        self.established && (self.history.next_slot() >= self.floor || planted::is(Planted::ChainReadsBeforeLevel))
    }

    fn answer(&self, asker: Asker, out: &mut Effects<Chain>) {
        match asker {
            Asker::Local { token } => out.list.push(Effect::Readable { token }),
            Asker::Member { node, round } => {
                let frontier = self.history.next_slot();
                out.send(node, self.message(Body::Committed { round, frontier }));
            }
        }
    }

    fn begin_round(&mut self, cx: &mut Cx<'_>, out: &mut Effects<Chain>) {
        self.reads.round = (self.reads.round + 1).max(cx.now.0);
        if self.is_tail() {
            self.reads.confirmers = Some(self.bit(self.me));
        } else {
            self.reads.asking = true;
        }
        self.send_round(out);
        self.try_complete_round(cx, out);
    }

    fn send_round(&self, out: &mut Effects<Chain>) {
        let round = self.reads.round;
        if self.reads.asking {
            let confirmed = self.reads.waiting.iter().any(|waiting| waiting.mode == ReadMode::Quorum);
            out.send(self.membership.tail(), self.message(Body::Query { round, confirmed }));
        }
        let confirmers = self.reads.confirmers.unwrap_or(u64::MAX);
        for &node in self.membership.members.iter().chain(&self.membership.joining) {
            if confirmers & self.bit(node) == 0 {
                out.send(node, self.message(Body::Confirm { round }));
            }
        }
    }

    fn bit(&self, node: NodeId) -> u64 {
        match self.membership.place(node) {
            Place::Member(position) => 1 << position,
            Place::Joining => 1 << self.membership.members.len(),
            Place::Outside => 0,
        }
    }

    pub(super) fn handle_confirmed(&mut self, cx: &mut Cx<'_>, from: NodeId, round: u64, out: &mut Effects<Chain>) {
        let bit = self.bit(from);
        if round != self.reads.round {
            return;
        }
        if let Some(confirmers) = &mut self.reads.confirmers {
            *confirmers |= bit;
            self.try_complete_round(cx, out);
        }
    }

    /// A successor of this configuration comes to life only through one of those who have confirmed it.
    fn try_complete_round(&mut self, cx: &mut Cx<'_>, out: &mut Effects<Chain>) {
        let others = self.membership.members.iter().chain(&self.membership.joining);
        let all = others.fold(0, |set, &node| set | self.bit(node));
        if self.reads.confirmers != Some(all) {
            return;
        }
        self.reads.confirmers = None;
        self.reads.round_confirmed = self.reads.round;
        let more = self.reads.waiting.iter().any(|waiting| waiting.round > self.reads.round);
        self.release_reads(cx, out);
        if more {
            self.begin_round(cx, out);
        }
    }

    /// At the tail: those whose round is confirmed, or that a lease answers.
    pub(super) fn release_reads(&mut self, cx: &Cx<'_>, out: &mut Effects<Chain>) {
        if !self.is_level() || self.reads.is_empty() {
            return;
        }
        let (confirmed, leased) = (self.reads.round_confirmed, self.holds_lease(cx.now));
        let waiting = core::mem::take(&mut self.reads.waiting);
        for waiting in waiting {
            if waiting.round <= confirmed || waiting.mode == ReadMode::Lease && leased {
                self.answer(waiting.asker, out);
            } else {
                self.reads.waiting.push_back(waiting);
            }
        }
    }

    /// At the tail, of another member.
    pub(super) fn handle_query(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        round: u64,
        confirmed: bool,
        out: &mut Effects<Chain>,
    ) {
        let asked = |waiting: &Waiting| waiting.asker == Asker::Member { node: from, round };
        if self.reads.waiting.iter().any(asked) {
            return;
        }
        self.reads.waiting.retain(|waiting| !matches!(waiting.asker, Asker::Member { node, .. } if node == from));
        let mode = if confirmed { ReadMode::Quorum } else { ReadMode::Lease };
        self.read(cx, Asker::Member { node: from, round }, mode, out);
    }

    /// At another member. What the tail has decided is here, because it came through here.
    pub(super) fn handle_committed(&mut self, cx: &mut Cx<'_>, round: u64, frontier: Slot, out: &mut Effects<Chain>) {
        if !self.reads.asking || round != self.reads.round {
            return;
        }
        self.learn(cx, frontier, out);
        if self.history.next_slot() < frontier {
            return;
        }
        self.reads.asking = false;
        let waiting = core::mem::take(&mut self.reads.waiting);
        for waiting in waiting {
            if waiting.round <= round {
                self.answer(waiting.asker, out);
            } else {
                self.reads.waiting.push_back(waiting);
            }
        }
        if !self.reads.is_empty() {
            self.begin_round(cx, out);
        }
    }

    pub(super) fn ask_again(&mut self, cx: &mut Cx<'_>, out: &mut Effects<Chain>) {
        if self.reads.is_empty() {
            return;
        }
        if self.is_tail() {
            self.release_reads(cx, out);
        }
        if self.reads.asking || self.reads.confirmers.is_some() {
            self.send_round(out);
        } else if !self.reads.is_empty() {
            self.begin_round(cx, out);
        }
    }

    /// What was asked in another configuration is asked anew in this one.
    pub(super) fn restart_reads(&mut self, cx: &mut Cx<'_>, out: &mut Effects<Chain>) {
        self.reads.confirmers = None;
        self.reads.asking = false;
        let waiting = core::mem::take(&mut self.reads.waiting);
        for Waiting { asker, mode, .. } in waiting {
            if let Asker::Local { .. } = asker {
                self.read(cx, asker, mode, out);
            }
        }
    }

    pub(super) fn stop_reads(&mut self, out: &mut Effects<Chain>) {
        self.reads.confirmers = None;
        self.reads.asking = false;
        for Waiting { asker, mode, .. } in core::mem::take(&mut self.reads.waiting) {
            refuse_read(asker, mode, Refusal::Stopped, out);
        }
    }
}

fn refuse_read(asker: Asker, mode: ReadMode, why: Refusal, out: &mut Effects<Chain>) {
    if let Asker::Local { token } = asker {
        refuse(Proposal::Read { token, mode }, why, out);
    }
}
