//! Reads that are linearizable: under the lease at once, else after a quorum has confirmed the ballot.
//!
//! The lease rule (see [`crate::peers`]): a member counts only if it answered at the present ballot under the very grant
//! that is held from it now. Such a member's promise is still this coordinator's.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::members::Members;
use super::replica::{Active, Duty, Life, refuse};
use super::{Message, Paxos, WAITING_READS_MAX};
use crate::effect::{Cx, Effect, Effects, Proposal, ReadMode, Refusal};
use crate::id::{Instant, NodeId, Slot};
use crate::peers::{GrantNumber, Peers};
use crate::planted::{self, Planted};

/// A round without a quorum is asked again of those who have not answered.
const CONFIRM_AGAIN_US: u64 = 50_000;

pub(super) struct Reads {
    /// The last round begun. No number comes twice at one ballot: a late answer to a forgotten round confirms nothing.
    round: u64,
    round_confirmed: u64,
    /// While a round runs.
    confirmers: Option<u64>,
    again_at: Instant,
    /// In the order in which they came, so in the order of their rounds.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    token: u64,
    mode: ReadMode,
    /// The first round that begins after the read came.
    round: u64,
}

impl Reads {
    /// Rounds are counted from the clock, because the active state may have been given up and made again since.
    pub(super) fn new(now: Instant) -> Reads {
        let (round, waiting) = (now.0, VecDeque::new());
        Reads { round, round_confirmed: 0, confirmers: None, again_at: now, waiting }
    }

    /// The numbers of the next ones are counted from a clock that may stand where it stood.
    pub(super) fn has_had_rounds(&self) -> bool {
        self.round_confirmed != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.confirmers.map(|_| self.again_at)
    }

    pub(super) fn take_waiting(&mut self) -> VecDeque<(u64, ReadMode)> {
        self.confirmers = None;
        self.waiting.drain(..).map(|waiting| (waiting.token, waiting.mode)).collect()
    }

    pub(super) fn into_waiting(mut self) -> VecDeque<(u64, ReadMode)> {
        self.take_waiting()
    }
}

impl Paxos {
    pub(super) fn read(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        token: u64,
        mode: ReadMode,
        out: &mut Effects<Paxos>,
    ) {
        if mode == ReadMode::Lease && self.holds_lease(active, cx.now, cx.peers) {
            out.list.push(Effect::Readable { token });
            return;
        }
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let reads = &mut coordination.reads;
        if reads.waiting.len() >= WAITING_READS_MAX {
            refuse(Proposal::Read { token, mode }, Refusal::Overloaded, out);
            return;
        }
        reads.waiting.push_back(Waiting { token, mode, round: reads.round + 1 });
        if reads.confirmers.is_none() {
            self.begin_round(active, cx, out);
        }
    }

    /// Until when nothing can be decided without this replica, if it knows that it coordinates and has executed all that was
    /// decided before. What it lets others do meanwhile is over before another coordinates.
    pub fn lease_until(&self, now: Instant, peers: &Peers) -> Option<Instant> {
        let members = self.lease_members()?;
        let held = |(position, &node): (usize, &NodeId)| {
            let is_mine = peers.grant_held(node, now).is_some_and(|held| held == members.grant(position));
            let until = if node == self.me { Some(Instant::MAX) } else { peers.held_until(node, now) };
            until.filter(|_| is_mine || node == self.me).map(|until| (until, 1u64 << position))
        };
        let mut held: Vec<(Instant, u64)> = self.configuration.members.iter().enumerate().filter_map(held).collect();
        held.sort_unstable_by(|one, other| other.cmp(one));
        let mut set = 0;
        let last = held.into_iter().find(|(_, bit)| {
            set |= bit;
            self.is_write_quorum(set)
        });
        last.map(|(until, _)| until)
    }

    /// Whether a read may be answered here at once, without a step.
    pub fn is_readable(&self, now: Instant, peers: &Peers) -> bool {
        !self.stopped && self.lease_members().is_some_and(|members| self.are_bound(members, now, peers))
    }

    /// What the members have said, if this replica coordinates and has executed whatever may have been decided before.
    fn lease_members(&self) -> Option<&Members> {
        match &self.life {
            Life::Working(active) => self.lease_members_of(active),
            Life::Idle { coordinating, known } => known.as_ref().filter(|_| *coordinating),
        }
    }

    fn lease_members_of<'a>(&self, active: &'a Active) -> Option<&'a Members> {
        match &active.duty {
            Duty::Coordinating(coordination)
                if self.next_slot >= coordination.adopted_until && !coordination.is_handing_over() =>
            {
                Some(&coordination.members)
            }
            _ => None,
        }
    }

    /// Whether the state here is the newest there is, without asking anybody.
    fn holds_lease(&self, active: &Active, now: Instant, peers: &Peers) -> bool {
        self.lease_members_of(active).is_some_and(|members| self.are_bound(members, now, peers))
    }

    /// Whether a write quorum has answered under what it is still bound by.
    fn are_bound(&self, members: &Members, now: Instant, peers: &Peers) -> bool {
        let binds = |(position, &node): (usize, &NodeId)| {
            let answered = members.grant(position);
            let counts = match peers.grant_held(node, now) {
                Some(held) => answered == held || planted::is(Planted::StaleGrantCounts) && answered != 0,
                None => false,
            };
            (counts || node == self.me).then_some(1u64 << position)
        };
        let set = self.configuration.members.iter().enumerate().filter_map(binds).fold(0, |set, bit| set | bit);
        self.is_write_quorum(set) || planted::is(Planted::ReadWithoutLease)
    }

    fn begin_round(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let own = self.bit(self.me);
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let reads = &mut coordination.reads;
        reads.round += 1;
        reads.confirmers = Some(own);
        reads.again_at = cx.now.after_us(CONFIRM_AGAIN_US);
        self.send_to_others(&Message::Confirm { ballot: self.promised, round: reads.round }, out);
        self.try_complete_round(active, cx, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the message")]
    pub(super) fn handle_confirmed(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        from: NodeId,
        round: u64,
        next_slot: Slot,
        grant: GrantNumber,
        out: &mut Effects<Paxos>,
    ) {
        self.note_answer(active, from, next_slot, grant);
        let bit = self.bit(from);
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let reads = &mut coordination.reads;
        if round == reads.round
            && let Some(confirmers) = &mut reads.confirmers
        {
            *confirmers |= bit;
            self.try_complete_round(active, cx, out);
        }
    }

    /// A write quorum meets every read quorum: at the moment it answered, no higher ballot had been won.
    fn try_complete_round(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let reads = &mut coordination.reads;
        if !reads.confirmers.is_some_and(|set| self.is_write_quorum(set)) {
            return;
        }
        reads.confirmers = None;
        reads.round_confirmed = reads.round;
        let more = reads.waiting.back().is_some_and(|waiting| waiting.round > reads.round);
        self.release_reads(active, out);
        if more {
            self.begin_round(active, cx, out);
        }
    }

    /// Reads whose round is confirmed, once all that was adopted is executed.
    pub(super) fn release_reads(&mut self, active: &mut Active, out: &mut Effects<Paxos>) {
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        if self.next_slot < coordination.adopted_until {
            return;
        }
        let reads = &mut coordination.reads;
        let confirmed = reads.round_confirmed;
        let count = reads.waiting.iter().take_while(|waiting| waiting.round <= confirmed).count();
        out.list.extend(reads.waiting.drain(..count).map(|waiting| Effect::Readable { token: waiting.token }));
    }

    pub(super) fn try_confirm_again(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let reads = &mut coordination.reads;
        let Some(confirmers) = reads.confirmers.filter(|_| reads.again_at <= cx.now) else {
            return;
        };
        reads.again_at = cx.now.after_us(CONFIRM_AGAIN_US);
        for &member in self.configuration.members.iter() {
            if confirmers & self.bit(member) == 0 && !self.is_absent(member, cx) {
                out.send(member, Message::Confirm { ballot: self.promised, round: reads.round });
            }
        }
    }
}
