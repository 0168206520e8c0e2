//! The coordinator: owns a ballot, fills slots in order, counts who has them, tells what is decided.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use super::acceptor::Following;
use super::ledger::Ledger;
use super::members::Members;
use super::reads::Reads;
use super::replica::{Active, Duty, Life, proposal_of, refuse};
use super::{Message, Paxos, Record, WAITING_BYTES_MAX, WAITING_READS_MAX, WINDOW_BYTES, WINDOW_SLOTS};
use crate::effect::{Cx, Effects, Proposal, ReadMode, Refusal};
use crate::id::{Ballot, Content, Instant, NodeId, Slot, Stamp, Value};
use crate::peers::GrantNumber;
use crate::planted::{self, Planted};

/// A slot undecided for this long is sent again to those who have not answered,
const RETRANSMIT_US: u64 = 200_000;
/// ... and where more than this is in flight, later, as if disks and links took so much in a microsecond: what is large is
/// still on its way, and sent twice it takes twice as long.
const RETRANSMIT_SOON_BYTES: usize = 1 << 20;
const RETRANSMIT_BYTES_PER_US: usize = 8;
/// The most slots sent again at once: who lacks more has worse troubles than loss.
const RETRANSMIT_SLOTS_MAX: usize = 32;
/// After so long a pause, followers that may not know the last decisions are told; then again, doubled up to the maximum.
/// Of whom nothing is to be expected is told once that is over, if it still lacks them.
const DECIDE_US: u64 = 10_000;
const DECIDE_AGAIN_US: u64 = 100_000;
const DECIDE_AGAIN_US_MAX: u64 = 3_200_000;
/// What is in flight has so long to be decided before a hand-over goes ahead without it.
const HAND_OVER_US: u64 = 1_000_000;
/// A coordinator that is challenged by a ballot that nobody follows takes a higher one, but not more often than this.
const REELECTION_US: u64 = 1_000_000;

pub(super) struct Coordination {
    pub(super) members: Members,
    /// Values that an earlier ballot may have had decided, to be proposed before anything new.
    adopted: VecDeque<Value>,
    /// Below are adopted slots. Nothing is read before they are executed.
    pub(super) adopted_until: Slot,
    next_proposal: Slot,
    /// Nothing is proposed after a stop.
    stop_proposed: bool,
    /// The largest stamp of any value proposed or adopted.
    stamp: Stamp,
    queue: Queue,
    pub(super) reads: Reads,
    handing_over: Option<HandingOver>,
    retransmit: Option<Retransmit>,
    /// As long as there are members that may not know the last decisions.
    decide: Option<Decide>,
    elected_at: Instant,
    /// Nothing is proposed earlier.
    proposes_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct HandingOver {
    to: NodeId,
    latest_at: Instant,
}

/// Slots below `below` were in flight when the timer was set.
#[derive(Clone, Copy)]
struct Retransmit {
    at: Instant,
    below: Slot,
    /// The slot that held things up when the timer fired before.
    stuck: Option<Slot>,
}

#[derive(Clone, Copy)]
struct Decide {
    at: Instant,
    again_us: u64,
}

/// Proposals that wait to be proposed, and reads that wait for an election.
#[derive(Default)]
pub(super) struct Queue {
    proposals: VecDeque<Proposal>,
    bytes: usize,
    reads: VecDeque<(u64, ReadMode)>,
}

fn proposal_weight(proposal: &Proposal) -> usize {
    match proposal {
        Proposal::Commands(bytes) | Proposal::Stop(bytes) => bytes.len(),
        Proposal::Mark | Proposal::Read { .. } | Proposal::HandOver { .. } => 0,
    }
}

impl Queue {
    pub(super) fn push(&mut self, proposal: Proposal, out: &mut Effects<Paxos>) {
        match proposal {
            Proposal::Read { token, mode } if self.reads.len() < WAITING_READS_MAX => {
                self.reads.push_back((token, mode))
            }
            Proposal::Commands(_) | Proposal::Mark | Proposal::Stop(_) if self.has_room(&proposal) => {
                self.bytes += proposal_weight(&proposal) + Queue::OVERHEAD;
                self.proposals.push_back(proposal);
            }
            Proposal::HandOver { .. } => refuse(proposal, Refusal::NotCoordinator { coordinator: None }, out),
            _ => refuse(proposal, Refusal::Overloaded, out),
        }
    }

    fn refuse_proposals(&mut self, why: Refusal, out: &mut Effects<Paxos>) {
        self.bytes = 0;
        self.proposals.drain(..).for_each(|proposal| refuse(proposal, why, out));
    }

    const OVERHEAD: usize = 64;

    fn has_room(&self, proposal: &Proposal) -> bool {
        self.proposals.is_empty() || self.bytes + proposal_weight(proposal) + Queue::OVERHEAD <= WAITING_BYTES_MAX
    }

    fn pop(&mut self) -> Option<Proposal> {
        let proposal = self.proposals.pop_front()?;
        self.bytes -= proposal_weight(&proposal) + Queue::OVERHEAD;
        Some(proposal)
    }

    pub(super) fn refuse_all(mut self, why: Refusal, out: &mut Effects<Paxos>) {
        self.refuse_proposals(why, out);
        for (token, mode) in self.reads {
            refuse(Proposal::Read { token, mode }, why, out);
        }
    }
}

impl Coordination {
    /// Goes on where an idle coordinator stopped: with everything executed.
    pub(super) fn resumed(replica: &Paxos, known: Option<Members>, now: Instant) -> Coordination {
        let members = known.unwrap_or_else(|| Members::new(replica.configuration.members.len()));
        let mut coordination = Coordination::elected(replica, members, VecDeque::new(), now);
        // Whoever is not known to have everything may have it: there is time.
        let later = Decide { at: now.after_us(DECIDE_AGAIN_US_MAX), again_us: DECIDE_AGAIN_US };
        coordination.decide = replica.laggards(&coordination.members).next().map(|_| later);
        coordination
    }

    pub(super) fn elected(replica: &Paxos, members: Members, adopted: VecDeque<Value>, now: Instant) -> Coordination {
        let stamp = adopted.iter().map(|value| value.stamp).fold(replica.time, Stamp::max);
        Coordination {
            members,
            adopted_until: Slot(replica.next_slot.0 + adopted.len() as u64),
            adopted,
            next_proposal: replica.next_slot,
            stop_proposed: false,
            stamp,
            queue: Queue::default(),
            reads: Reads::new(now),
            handing_over: None,
            retransmit: None,
            // Also those members learn of the new coordinator that did not vote for it.
            decide: Some(Decide { at: now.after_us(DECIDE_US), again_us: DECIDE_AGAIN_US }),
            elected_at: now,
            proposes_at: None,
        }
    }

    /// Slots that recovery or a peer knew as decided were executed together with the one that held them up: what was
    /// adopted for them is not to be proposed again, least of all in other slots.
    fn skip_to(&mut self, next_slot: Slot) {
        let skipped = next_slot.0.saturating_sub(self.next_proposal.0);
        let adopted = usize::try_from(skipped).unwrap_or(usize::MAX).min(self.adopted.len());
        self.adopted.drain(..adopted);
        self.next_proposal = self.next_proposal.max(next_slot);
    }

    fn is_in_flight(&self, next_slot: Slot) -> bool {
        self.next_proposal > next_slot || !self.adopted.is_empty()
    }

    /// Whether anything waits for slots to be executed, or for room among those in flight.
    pub(super) fn has_waiting(&self) -> bool {
        !self.reads.is_empty()
            || !self.queue.proposals.is_empty()
            || !self.adopted.is_empty()
            || self.handing_over.is_some()
    }

    pub(super) fn is_handing_over(&self) -> bool {
        self.handing_over.is_some()
    }

    /// Whoever is silent would coordinate nothing: what was kept back for it goes on here.
    pub(super) fn keep_from(&mut self, node: NodeId) {
        self.handing_over = self.handing_over.filter(|handing_over| handing_over.to != node);
    }

    /// What this member has said counts no more; it is told later what is decided.
    pub(super) fn forget(&mut self, position: usize, now: Instant) {
        self.members.forget(position);
        self.decide.get_or_insert(Decide { at: now.after_us(DECIDE_US), again_us: DECIDE_AGAIN_US });
    }

    /// A new member is told later what is decided.
    pub(super) fn widen(&mut self, count: usize, now: Instant) {
        if self.members.list.len() < count {
            self.members.widen(count);
            self.decide.get_or_insert(Decide { at: now.after_us(DECIDE_US), again_us: DECIDE_AGAIN_US });
        }
    }

    /// Looks at both ends of it, and at what the first member has said.
    pub(super) fn look(&self) -> u64 {
        let member = self.members.list.first().map_or(0, |member| member.holds_below.0);
        member ^ self.next_proposal.0 ^ self.elected_at.0 ^ self.queue.bytes as u64
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let handing_over = self.handing_over.map(|handing_over| handing_over.latest_at);
        let retransmit = self.retransmit.map(|retransmit| retransmit.at);
        let decide = self.decide.map(|decide| decide.at);
        [handing_over, retransmit, decide, self.reads.deadline(), self.proposes_at].into_iter().flatten().min()
    }

    /// Own proposals in flight come back. Adopted ones have no proposer here.
    pub(super) fn refuse_in_flight(&self, ledger: &Ledger, why: Refusal, out: &mut Effects<Paxos>) {
        let own = ledger.from(self.adopted_until).take_while(|(slot, _)| *slot < self.next_proposal);
        for (_, entry) in own {
            refuse(proposal_of(&entry.value), why, out);
        }
    }

    pub(super) fn into_queue(mut self) -> Queue {
        self.queue.reads.extend(self.reads.into_waiting());
        self.queue
    }

    pub(super) fn check(&self, replica: &Paxos, ledger: &Ledger) {
        let next_slot = replica.next_slot;
        assert_eq!(replica.promised.node, replica.me, "coordinating at somebody else's ballot");
        assert!(self.next_proposal >= next_slot, "proposes {:?}, executed to {next_slot:?}", self.next_proposal);
        let in_flight = self.next_proposal.0 - next_slot.0;
        assert!(in_flight <= WINDOW_SLOTS, "{in_flight} slots in flight");
        let filled = ledger.from(next_slot).take_while(|(slot, _)| *slot < self.next_proposal).count() as u64;
        assert_eq!(filled, in_flight, "holes among the slots in flight");
        assert!(self.queue.reads.is_empty(), "reads wait in rounds");
        let laggard = replica.laggards(&self.members).next();
        assert!(self.decide.is_some() || laggard.is_none(), "{laggard:?} would never be told what is decided");
    }
}

impl Coordination {
    /// Whether the member at this position has said something at this ballot.
    pub(super) fn has_answered(&self, position: usize) -> bool {
        self.members.list[position].frontier.is_some()
    }
}

impl Paxos {
    /// Of a coordinator: below are slots with values that earlier ballots may have had decided.
    pub fn proposes_from(&self) -> Slot {
        match &self.life {
            Life::Working(active) => match &active.duty {
                Duty::Coordinating(coordination) => coordination.adopted_until,
                _ => self.next_slot,
            },
            Life::Idle { .. } => self.next_slot,
        }
    }

    pub(super) fn member_frontiers(&self, members: &Members) -> Vec<(NodeId, Slot)> {
        let known = self.configuration.members.iter().zip(&members.list);
        known
            .map(|(&node, member)| match node == self.me {
                true => (node, self.next_slot),
                false => (node, member.frontier.unwrap_or_default().max(member.told_below)),
            })
            .collect()
    }

    pub(super) fn on_elected(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        mut queue: Queue,
        out: &mut Effects<Paxos>,
    ) {
        let reads = mem::take(&mut queue.reads);
        if let Duty::Coordinating(coordination) = &mut active.duty {
            coordination.queue = queue;
            if cx.proposes_late {
                coordination.proposes_at = Some(cx.now.after_us(cx.peers.timing().lease_given_us));
            }
        }
        self.pump(active, cx, out);
        for (token, mode) in reads {
            self.read(active, cx, token, mode, out);
        }
    }

    pub(super) fn propose_coordinating(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        proposal: Proposal,
        out: &mut Effects<Paxos>,
    ) {
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        match proposal {
            Proposal::Read { token, mode } => self.read(active, cx, token, mode, out),
            Proposal::HandOver { to }
                if to == self.me || !self.configuration.contains(to) || self.is_absent(to, cx) =>
            {
                refuse(proposal, Refusal::NotCoordinator { coordinator: Some(self.me) }, out);
            }
            Proposal::HandOver { to } => {
                // Whoever asks again does not wait anew.
                let before = coordination.handing_over.filter(|before| before.to == to);
                let latest_at = before.map_or(cx.now.after_us(HAND_OVER_US), |before| before.latest_at);
                coordination.handing_over = Some(HandingOver { to, latest_at });
                self.try_hand_over(active, cx, out);
            }
            Proposal::Commands(_) | Proposal::Mark | Proposal::Stop(_) => {
                coordination.queue.push(proposal, out);
                self.pump(active, cx, out);
            }
        }
    }

    /// Fills slots while the window has room: first what was adopted, then what waits.
    fn pump(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        while let Duty::Coordinating(coordination) = &mut active.duty {
            let in_flight = coordination.next_proposal.0 - self.next_slot.0;
            let full = in_flight >= WINDOW_SLOTS || in_flight > 0 && active.ledger.bytes() >= WINDOW_BYTES;
            coordination.proposes_at = coordination.proposes_at.filter(|&at| cx.now < at);
            if full || coordination.stop_proposed || coordination.proposes_at.is_some() {
                return;
            }
            let value = match coordination.adopted.pop_front() {
                Some(value) => value,
                None if coordination.handing_over.is_some() => return,
                None => match coordination.queue.pop() {
                    Some(proposal) => coordination.stamp(proposal, cx),
                    None => return,
                },
            };
            self.propose_next(active, cx, value, out);
        }
    }

    fn propose_next(&mut self, active: &mut Active, cx: &mut Cx<'_>, value: Value, out: &mut Effects<Paxos>) {
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let (ballot, slot, frontier) = (self.promised, coordination.next_proposal, self.next_slot);
        coordination.next_proposal = slot.next();
        coordination.stop_proposed = matches!(value.content, Content::Stop(_));
        let below = coordination.next_proposal;
        active.ledger.accept(slot, ballot, value.clone());
        let at = cx.now.after_us(retransmit_us(&active.ledger));
        coordination.retransmit.get_or_insert(Retransmit { at, below, stuck: None });
        if !planted::is(Planted::AcceptNotPersisted) {
            out.persist(Record::Accepted { ballot, slot, value: value.clone(), frontier });
        }
        self.frontier_majority = self.majority_frontier(&coordination.members);
        let frontier_majority = self.frontier_majority;
        self.send_to_others(&Message::Accept { ballot, slot, frontier, frontier_majority, value }, out);
        out.send_once_durable(self.me, Message::Accepted { ballot, slot, next_slot: frontier, grant: 0 });
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the message")]
    pub(super) fn handle_accepted(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        from: NodeId,
        slot: Slot,
        next_slot: Slot,
        grant: GrantNumber,
        out: &mut Effects<Paxos>,
    ) {
        let position = self.configuration.position(from).expect("only members are heard");
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        if slot >= coordination.next_proposal {
            *cx.nonsense_count += 1;
            return;
        }
        coordination.members.note_vote(position, slot, next_slot, grant);
        if let Some(entry) = active.ledger.find_mut(slot) {
            entry.acknowledgers |= 1 << position;
            if self.is_write_quorum(entry.acknowledgers) || planted::is(Planted::DecideOnMinority) {
                entry.decided = true;
                self.advance(active, cx, out);
            }
        }
        if tells_at_once(active, cx.wants_frontiers) {
            self.tell_holders(active, cx, out);
        }
    }

    /// Takes note of a vote that decides nothing, because it is too few or comes too late: a slot of three members has two of
    /// these. False if the vote is to be handled as any message is, by a step.
    pub fn hear_idle_vote(&mut self, now: Instant, wants_frontiers: bool, from: NodeId, message: &Message) -> bool {
        let &Message::Accepted { ballot, slot, next_slot, grant } = message else { return false };
        let (Life::Working(active), Some(position)) = (&mut self.life, self.configuration.position(from)) else {
            return false;
        };
        let may_have_more = self.silent != 0 || self.stopped || !active.overtaken.is_empty();
        if may_have_more || tells_at_once(active, wants_frontiers) {
            return false;
        }
        let Duty::Coordinating(coordination) = &mut active.duty else { return false };
        if ballot != self.promised || slot >= coordination.next_proposal {
            return false;
        }
        if let Some(entry) = active.ledger.find_mut(slot) {
            let acknowledgers = entry.acknowledgers | 1 << position;
            let decides = self.configuration.quorum.is_write_quorum(self.configuration.members.len(), acknowledgers);
            if decides && !entry.decided || planted::is(Planted::DecideOnMinority) {
                return false;
            }
            entry.acknowledgers = acknowledgers;
        }
        coordination.members.note_vote(position, slot, next_slot, grant);
        self.used_at = now;
        true
    }

    /// Any answer at the present ballot says how far its sender has executed, and under which grant it was given.
    pub(super) fn note_answer(&mut self, active: &mut Active, from: NodeId, next_slot: Slot, grant: GrantNumber) {
        let position = self.configuration.position(from).expect("only members are heard");
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        coordination.members.note(position, next_slot, grant);
    }

    /// Up to where a write quorum has executed everything, as far as this replica knows.
    pub(super) fn majority_frontier(&self, members: &Members) -> Slot {
        members.executed_by_quorum(&self.configuration, (self.me, self.next_slot), self.frontier_majority)
    }

    pub(super) fn handle_frontier(&mut self, active: &mut Active, from: NodeId, next_slot: Slot) {
        self.note_answer(active, from, next_slot, 0);
    }

    /// After slots were executed, or might have been.
    pub(super) fn on_advanced(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        advanced: bool,
        out: &mut Effects<Paxos>,
    ) {
        let tells_at_once = tells_at_once(active, cx.wants_frontiers);
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        if advanced {
            // Who is told at once is told when it answers. Whoever does not for long is sent what it lacks then, as well.
            let wait_us = if tells_at_once { RETRANSMIT_US } else { DECIDE_US };
            coordination.decide = Some(Decide { at: cx.now.after_us(wait_us), again_us: DECIDE_AGAIN_US });
            coordination.skip_to(self.next_slot);
            if !coordination.is_in_flight(self.next_slot) {
                coordination.retransmit = None;
            }
        }
        if self.stopped {
            self.refuse_stopped(active, out);
            return;
        }
        self.release_reads(active, out);
        self.pump(active, cx, out);
        self.try_hand_over(active, cx, out);
    }

    /// After the stop nothing is decided. The coordinator stays, to tell the others.
    pub(super) fn refuse_stopped(&mut self, active: &mut Active, out: &mut Effects<Paxos>) {
        if let Duty::Coordinating(coordination) = &mut active.duty {
            let mut queue = mem::take(&mut coordination.queue);
            queue.reads.extend(coordination.reads.take_waiting());
            coordination.adopted.clear();
            coordination.next_proposal = self.next_slot;
            coordination.handing_over = None;
            coordination.retransmit = None;
            queue.refuse_all(Refusal::Stopped, out);
        } else if let Duty::Preparing(candidacy) = mem::replace(&mut active.duty, Duty::Following(Following::default()))
        {
            candidacy.refuse_all(Refusal::Stopped, out);
        }
    }

    /// Once nothing is in flight, or that has taken too long.
    fn try_hand_over(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Coordinating(coordination) = &active.duty else {
            return;
        };
        let Some(HandingOver { to, latest_at }) = coordination.handing_over else {
            return;
        };
        if coordination.is_in_flight(self.next_slot) && cx.now < latest_at {
            return;
        }
        // From here on nothing is read at this ballot, so the lease is given back.
        self.resign(active, Some(to), out);
        active.duty = Duty::Following(Following::after_hand_over(to, cx.now));
        out.send(to, Message::HandOver { ballot: self.promised, next_slot: self.next_slot });
    }

    /// Somebody has promised a higher ballot, whose owner may be a candidate that nobody follows.
    pub(super) fn on_challenged(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        promised: Ballot,
        out: &mut Effects<Paxos>,
    ) {
        if !self.is_upheld(active, cx) {
            self.promise(active, promised, out);
            return;
        }
        let Duty::Coordinating(coordination) = &active.duty else {
            return;
        };
        let stuck = coordination.retransmit.is_some_and(|retransmit| retransmit.stuck == Some(self.next_slot));
        let recent = cx.now < coordination.elected_at.after_us(REELECTION_US);
        if recent || coordination.is_in_flight(self.next_slot) && !stuck {
            // It stays, to know when it has been long enough.
            (active.is_rare, active.is_challenged) = (false, true);
            return;
        }
        // A higher ballot of our own wins the challenger back; the others are bound to us and not to it.
        let ours = Duty::Following(Following::default());
        let Duty::Coordinating(coordination) = mem::replace(&mut active.duty, ours) else {
            return;
        };
        coordination.refuse_in_flight(&active.ledger, Refusal::Uncertain { coordinator: Some(self.me) }, out);
        let mut queue = coordination.into_queue();
        if cx.proposes_late {
            // They were let through by what this replica knew of its leases, and others may give some before it is elected again.
            queue.refuse_proposals(Refusal::NotCoordinator { coordinator: Some(self.me) }, out);
        }
        self.start_reelection(active, cx, queue, promised.number, out);
    }

    pub(super) fn on_woken_coordinating(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        self.pump(active, cx, out);
        self.try_hand_over(active, cx, out);
        self.try_retransmit(active, cx, out);
        self.try_confirm_again(active, cx, out);
        self.try_decide(active, cx, out);
    }

    fn try_retransmit(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let Some(Retransmit { at, below, .. }) = coordination.retransmit else {
            return;
        };
        if cx.now < at {
            return;
        }
        let (ballot, frontier) = (self.promised, self.next_slot);
        let frontier_majority = self.majority_frontier(&coordination.members);
        let undecided = active.ledger.from(frontier).take_while(|(slot, _)| *slot < below);
        for (slot, entry) in undecided.filter(|(_, entry)| !entry.decided).take(RETRANSMIT_SLOTS_MAX) {
            for &member in self.configuration.members.iter() {
                let answered = entry.acknowledgers & self.bit(member) != 0;
                if member != self.me && !answered && !self.is_absent(member, cx) {
                    let value = entry.value.clone();
                    out.send(member, Message::Accept { ballot, slot, frontier, frontier_majority, value });
                }
            }
        }
        coordination.retransmit = coordination.is_in_flight(frontier).then(|| Retransmit {
            at: cx.now.after_us(retransmit_us(&active.ledger)),
            below: coordination.next_proposal,
            stuck: (frontier < below).then_some(frontier),
        });
    }

    /// The members that are not known to have executed all that is decided.
    pub(super) fn laggards(&self, members: &Members) -> impl Iterator<Item = NodeId> {
        let known = self.configuration.members.iter().zip(&members.list);
        known.filter_map(|(&node, member)| {
            let level = member.frontier.is_some_and(|frontier| frontier.max(member.told_below) >= self.next_slot);
            (!level && node != self.me).then_some(node)
        })
    }

    /// Whether everybody has executed everything, or was told to, and no read has asked around: then the active state is of no use.
    pub(super) fn is_level(&self, coordination: &Coordination) -> bool {
        self.laggards(&coordination.members).next().is_none() && !coordination.reads.has_had_rounds()
    }

    /// Tells those that hold all that is decided, and are not known to have executed it.
    fn tell_holders(&self, active: &mut Active, cx: &Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let (ballot, frontier) = (self.promised, self.next_slot);
        for (&node, member) in self.configuration.members.iter().zip(&mut coordination.members.list) {
            let lacks_the_word = member.frontier < Some(frontier) && member.told_below < frontier;
            if lacks_the_word && member.holds_below >= frontier && node != self.me && !self.is_absent(node, cx) {
                out.send(node, Message::Execute { ballot, frontier });
                member.told_below = frontier;
            }
        }
        if self.laggards(&coordination.members).next().is_none() {
            coordination.decide = None;
        }
    }

    fn try_decide(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let Duty::Coordinating(coordination) = &mut active.duty else {
            return;
        };
        let Some(Decide { again_us, .. }) = coordination.decide.filter(|decide| decide.at <= cx.now) else {
            return;
        };
        let (ballot, frontier) = (self.promised, self.next_slot);
        let frontier_majority = self.majority_frontier(&coordination.members);
        let (mut told, mut lacking) = (false, false);
        for member in self.laggards(&coordination.members) {
            lacking = true;
            if !self.is_absent(member, cx) {
                out.send(member, Message::Decide { ballot, frontier, frontier_majority });
                told = true;
            }
        }
        let wait_us = if told { again_us } else { DECIDE_AGAIN_US_MAX };
        let again = Decide { at: cx.now.after_us(wait_us), again_us: (again_us * 2).min(DECIDE_AGAIN_US_MAX) };
        coordination.decide = lacking.then_some(again);
    }

    /// Whether nothing is lost by forgetting all but that this replica coordinates, and what its members have said.
    pub(super) fn is_quiet(&self, coordination: &Coordination, cx: &Cx<'_>) -> bool {
        !coordination.is_in_flight(self.next_slot)
            && !coordination.has_waiting()
            && self.laggards(&coordination.members).all(|member| self.is_absent(member, cx))
    }
}

fn retransmit_us(ledger: &Ledger) -> u64 {
    let large = ledger.bytes().saturating_sub(RETRANSMIT_SOON_BYTES);
    RETRANSMIT_US + (large / RETRANSMIT_BYTES_PER_US) as u64
}

/// In a group that is seldom used nothing follows soon that would say what is decided.
pub(super) fn tells_at_once(active: &Active, wants_frontiers: bool) -> bool {
    active.is_rare && !wants_frontiers
}

impl Coordination {
    /// Gives a proposal its time, never before any other's, and its randomness.
    fn stamp(&mut self, proposal: Proposal, cx: &Cx<'_>) -> Value {
        let content = match proposal {
            Proposal::Commands(bytes) => Content::Commands(bytes),
            Proposal::Stop(bytes) => Content::Stop(bytes),
            Proposal::Mark | Proposal::Read { .. } | Proposal::HandOver { .. } => Content::Mark,
        };
        self.stamp = self.stamp.max(cx.stamp);
        Value { stamp: self.stamp, seed: seed(cx.random, self.next_proposal), content }
    }
}

/// One step may fill many slots; each gets bits of its own (the finalizer of SplitMix64).
fn seed(random: u64, slot: Slot) -> u64 {
    let mut bits = random.wrapping_add(slot.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
