//! One replica: what it keeps when idle, its life, and the dispatch of events.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::mem;

use super::acceptor::Following;
use super::candidate::Candidacy;
use super::coordinator::{Coordination, tells_at_once};
use super::ledger::Ledger;
use super::members::Members;
use super::{MEMBERS_MAX, Message, Position, Record};
use crate::effect::{Cx, Effect, Effects, Event, Proposal, Refusal, Replica};
use crate::id::{Ballot, Configuration, Content, Instant, NodeId, Slot, Stamp, Value};
use crate::planted::{self, Planted};

/// Nothing to do for this long: the active state is given up.
const IDLE_US: u64 = 10_000_000;

/// One member's part of a group. Its size is what an idle group costs.
pub struct Paxos {
    pub(super) configuration: Arc<Configuration>,
    /// The first slot that is not executed.
    pub(super) next_slot: Slot,
    /// Every slot below is executed by a write quorum. At a coordinator: as it was known when somebody was last told of it.
    pub(super) frontier_majority: Slot,
    /// The largest stamp of any slot executed.
    pub(super) time: Stamp,
    /// Nothing below this ballot is accepted or promised. Its node coordinates, as far as known here.
    pub(super) promised: Ballot,
    pub(super) me: NodeId,
    pub(super) stopped: bool,
    /// Members that have said that they are silent, and nothing since.
    pub(super) silent: u16,
    /// When a message or a proposal last came.
    pub(super) used_at: Instant,
    /// False while the records of an earlier run are restored.
    running: bool,
    pub(super) life: Life,
}

pub(super) enum Life {
    /// Nothing in flight, nothing accepted that is not executed, nobody waiting.
    Idle {
        coordinating: bool,
        /// What the members had said to a coordinator, if it remembers: what a lease rests on.
        known: Option<Members>,
    },
    Working(Box<Active>),
}

/// What a replica needs only while its group works.
pub(super) struct Active {
    pub(super) ledger: Ledger,
    pub(super) duty: Duty,
    /// Once nothing is in hand.
    pub(super) wake_at: Option<Instant>,
    /// The group had not been used for long, and is for one proposal so far: the active state is of no use once there is
    /// nothing in hand.
    pub(super) is_rare: bool,
    /// Somebody has promised a higher ballot, and it is too early to win them back.
    pub(super) is_challenged: bool,
    /// Refusals that a snapshot has caused outside of any step.
    pub(super) overtaken: Vec<Effect<Paxos>>,
}

pub(super) enum Duty {
    Following(Following),
    Preparing(Candidacy),
    Coordinating(Coordination),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Following,
    Preparing,
    Coordinating,
}

/// What an operator is shown of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub role: Role,
    pub ballot: Ballot,
    pub next_slot: Slot,
    pub frontier_majority: Slot,
    /// Slots accepted or proposed, not yet executed.
    pub in_flight: u64,
    /// At the coordinator, as far as known: up to where each member has executed, or was told to execute what it holds.
    pub frontiers: Vec<(NodeId, Slot)>,
    pub stopped: bool,
}

impl Paxos {
    /// A replica born empty, in this run of its node. The first member coordinates from birth, at ballot 0, which counts
    /// as promised by everyone.
    pub fn new(configuration: Arc<Configuration>, me: NodeId) -> Paxos {
        assert!(configuration.contains(me), "{me} is not in {configuration:?}");
        let count = configuration.members.len();
        assert!(count <= MEMBERS_MAX, "{count} members");
        let promised = Ballot { number: 0, node: configuration.members[0] };
        Paxos {
            configuration,
            next_slot: Slot(0),
            frontier_majority: Slot(0),
            time: Stamp(0),
            promised,
            me,
            stopped: false,
            silent: 0,
            used_at: Instant(0),
            running: false,
            life: Life::Idle { coordinating: promised.node == me, known: None },
        }
    }

    /// A replica born at `next_slot`, in this run of its node, with what every member is born with. What it says must wait
    /// until whoever bears it cannot forget that any more.
    pub fn born(configuration: Arc<Configuration>, me: NodeId, next_slot: Slot, time: Stamp) -> Paxos {
        Paxos { next_slot, time, running: true, ..Paxos::new(configuration, me) }
    }

    /// The end of recovery: whatever was coordinated before the restart is not any more, not even from birth, because a
    /// proposal may have left before it was on the own disk.
    ///
    /// What was recovered as decided is executed by the next step. Unless the replica [is idle](Paxos::is_idle) it wants to
    /// be woken, so that it may ask about what it does not know as decided.
    pub fn restored(&mut self) {
        self.running = true;
        match &mut self.life {
            idle @ Life::Idle { .. } => *idle = Life::FOLLOWING,
            Life::Working(active) => active.duty = Duty::Following(Following::default()),
        }
    }

    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.configuration
    }

    /// What a checkpoint saves beside the objects.
    pub fn position(&self) -> Position {
        Position {
            next_slot: self.next_slot,
            promised: self.promised,
            frontier_majority: self.frontier_majority,
            time: self.time,
            stopped: self.stopped,
        }
    }

    pub fn next_slot(&self) -> Slot {
        self.next_slot
    }

    /// Who is believed to coordinate: whose ballot is promised, or to whom this replica has handed over.
    pub fn coordinator(&self) -> NodeId {
        match &self.life {
            Life::Working(active) => self.believed_coordinator(active),
            Life::Idle { .. } => self.promised.node,
        }
    }

    pub(super) fn believed_coordinator(&self, active: &Active) -> NodeId {
        match &active.duty {
            Duty::Following(following) => following.handed_to().unwrap_or(self.promised.node),
            Duty::Preparing(_) | Duty::Coordinating(_) => self.promised.node,
        }
    }

    pub fn is_coordinating(&self) -> bool {
        self.role() == Role::Coordinating
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether only the idle state is kept in memory: the replica may be checkpointed and put away.
    pub fn is_idle(&self) -> bool {
        matches!(self.life, Life::Idle { .. })
    }

    /// Gives up the active state now, rather than once it has been of no use for long. False if something is in hand that
    /// would be lost.
    pub fn rest(&mut self, cx: &Cx<'_>) -> bool {
        let Life::Working(active) = &self.life else { return true };
        if active.overtaken.is_empty() && self.is_quiet_now(active, cx) {
            self.give_up_active();
        }
        self.is_idle()
    }

    /// A replica that rested elsewhere than in memory goes on where it was, in the same run of its node.
    pub fn resume(&mut self, coordinating: bool) {
        assert!(self.is_idle(), "a replica goes on from rest");
        assert!(!coordinating || self.promised.node == self.me, "who coordinates has promised it itself");
        self.running = true;
        self.life = Life::Idle { coordinating, known: None };
    }

    pub fn role(&self) -> Role {
        match &self.life {
            Life::Idle { coordinating: true, .. } => Role::Coordinating,
            Life::Idle { coordinating: false, .. } => Role::Following,
            Life::Working(active) => match active.duty {
                Duty::Following(_) => Role::Following,
                Duty::Preparing(_) => Role::Preparing,
                Duty::Coordinating(_) => Role::Coordinating,
            },
        }
    }

    /// Whether this replica coordinates and the member has said something at its ballot: one that is silent here cannot
    /// take over, whatever its node does elsewhere.
    pub fn has_answered(&self, member: NodeId) -> bool {
        let Some(position) = self.configuration.position(member).filter(|_| !self.is_silent(member)) else {
            return false;
        };
        match &self.life {
            // It came to rest once everybody had.
            Life::Idle { coordinating, .. } => *coordinating,
            Life::Working(active) => {
                matches!(&active.duty, Duty::Coordinating(coordination) if coordination.has_answered(position))
            }
        }
    }

    /// Whether this member has said that it is silent here, and nothing since.
    pub fn is_silent(&self, member: NodeId) -> bool {
        u64::from(self.silent) & self.bit(member) != 0
    }

    /// The member's node was started anew: whether it is still silent it will say.
    pub fn forget_silence(&mut self, member: NodeId) {
        self.silent &= !(self.bit(member) as u16);
    }

    /// Whether nothing is to be expected of this member.
    pub(super) fn is_absent(&self, member: NodeId, cx: &Cx<'_>) -> bool {
        !self.configuration.contains(member) || self.is_silent(member) || cx.peers.is_suspected(member)
    }

    pub fn status(&self) -> Status {
        let active = match &self.life {
            Life::Idle { .. } => None,
            Life::Working(active) => Some(active),
        };
        let known = match (&self.life, active.map(|active| &active.duty)) {
            // One that had been away may be back, and nobody has told it of anything yet.
            (Life::Idle { known: Some(known), .. }, _) if self.laggards(known).next().is_none() => Some(known),
            (_, Some(Duty::Coordinating(coordination))) => Some(&coordination.members),
            _ => None,
        };
        Status {
            role: self.role(),
            ballot: self.promised,
            next_slot: self.next_slot,
            frontier_majority: known.map_or(self.frontier_majority, |known| self.majority_frontier(known)),
            in_flight: active.map_or(0, |active| active.ledger.from(self.next_slot).count() as u64),
            frontiers: known.map(|known| self.member_frontiers(known)).unwrap_or_default(),
            stopped: self.stopped,
        }
    }

    /// The set that holds this member only. Empty for anybody else.
    pub(super) fn bit(&self, node: NodeId) -> u64 {
        self.configuration.position(node).map_or(0, |position| 1 << position)
    }

    pub(super) fn is_read_quorum(&self, set: u64) -> bool {
        self.configuration.quorum.is_read_quorum(self.configuration.members.len(), set)
    }

    pub(super) fn is_write_quorum(&self, set: u64) -> bool {
        self.configuration.quorum.is_write_quorum(self.configuration.members.len(), set)
    }

    pub(super) fn send_to_others(&self, message: &Message, out: &mut Effects<Paxos>) {
        for &member in self.configuration.members.iter().filter(|&&member| member != self.me) {
            out.send(member, message.clone());
        }
    }

    fn take_active(&mut self, now: Instant) -> (Box<Active>, bool) {
        match mem::replace(&mut self.life, Life::FOLLOWING) {
            Life::Working(active) => (active, false),
            Life::Idle { coordinating, known } => {
                let duty = match coordinating {
                    true => Duty::Coordinating(Coordination::resumed(self, known, now)),
                    false => Duty::Following(Following::default()),
                };
                let is_rare = self.used_at.after_us(IDLE_US) <= now;
                (Box::new(Active::new(self.next_slot, duty, is_rare)), true)
            }
        }
    }

    /// Records come back outside of any step: the ledger is made where there is none.
    fn ledger_of_restored(&mut self) -> &mut Ledger {
        if let Life::Idle { .. } = self.life {
            let duty = Duty::Following(Following::default());
            self.life = Life::Working(Box::new(Active::new(self.next_slot, duty, false)));
        }
        match &mut self.life {
            Life::Working(active) => &mut active.ledger,
            Life::Idle { .. } => unreachable!("made above"),
        }
    }

    fn restore_checkpoint(&mut self, position: Position) {
        // While recovering the position is this replica's own. Later it is a peer's snapshot: what the peer promised binds
        // the peer, and would here be a promise without a record.
        if !self.running {
            self.promised = self.promised.max(position.promised);
        }
        self.time = self.time.max(position.time);
        self.frontier_majority = self.frontier_majority.max(position.frontier_majority);
        if position.next_slot <= self.next_slot || planted::is(Planted::FrontierLostOnRestart) && !self.running {
            return;
        }
        self.next_slot = position.next_slot;
        self.stopped |= position.stopped;
        match mem::replace(&mut self.life, Life::FOLLOWING) {
            // Nobody else could have come further at a ballot that is still ours.
            Life::Idle { .. } => {}
            Life::Working(mut active) => {
                if let Duty::Coordinating(_) = active.duty {
                    let mut out = Effects::default();
                    self.resign(&mut active, None, &mut out);
                    active.overtaken.append(&mut out.list);
                }
                active.ledger.drop_below(position.next_slot);
                if position.stopped {
                    active.ledger.clear();
                }
                self.life = Life::Working(active);
            }
        }
    }

    fn dispatch(&mut self, active: &mut Active, cx: &mut Cx<'_>, event: Event<Message>, out: &mut Effects<Paxos>) {
        match event {
            Event::Received { from, message } => {
                if self.is_plausible(from, &message) {
                    self.receive(active, cx, from, message, out);
                } else {
                    *cx.nonsense_count += 1;
                }
            }
            Event::Proposed(proposal) => self.propose(active, cx, proposal, out),
            Event::Suspected(_) => self.on_suspected(active, cx, out),
            Event::Silenced(node) => self.on_silenced(active, cx, node, out),
            Event::Woken => match active.duty {
                Duty::Following(_) => self.on_woken_following(active, cx, out),
                Duty::Preparing(_) => self.on_woken_preparing(active, cx, out),
                Duty::Coordinating(_) => self.on_woken_coordinating(active, cx, out),
            },
        }
    }

    /// Whether a correct member could have sent this: who speaks for a ballot owns it, who answers one answers its owner.
    fn is_plausible(&self, from: NodeId, message: &Message) -> bool {
        if !self.configuration.contains(from) {
            return false;
        }
        match message {
            Message::Prepare { ballot, .. }
            | Message::Accept { ballot, .. }
            | Message::Decide { ballot, .. }
            | Message::Execute { ballot, .. }
            | Message::Confirm { ballot, .. }
            | Message::HandOver { ballot, .. } => ballot.node == from && from != self.me,
            // The own durable promise and acceptance arrive like a peer's.
            Message::Promise { ballot, .. } | Message::Accepted { ballot, .. } => ballot.node == self.me,
            Message::Busy { ballot, .. } | Message::Frontier { ballot, .. } | Message::Confirmed { ballot, .. } => {
                ballot.node == self.me && from != self.me
            }
            Message::Rejected { ballot, promised } => ballot.node == self.me && from != self.me && promised > ballot,
            Message::Fetch { .. } | Message::Learn { .. } => from != self.me,
        }
    }

    fn receive(
        &mut self,
        active: &mut Active,
        cx: &mut Cx<'_>,
        from: NodeId,
        message: Message,
        out: &mut Effects<Paxos>,
    ) {
        match message {
            Message::Prepare { ballot, from: slot, released } => {
                self.handle_prepare(active, cx, ballot, slot, released, out);
            }
            Message::Promise { ballot, next_slot, grant, accepted } if ballot == self.promised => {
                self.handle_promise(active, cx, from, next_slot, grant, accepted, out);
            }
            Message::Busy { ballot, promised, wait_us } if ballot == self.promised => {
                self.handle_busy(active, cx, from, promised, wait_us, out);
            }
            Message::Rejected { ballot, promised } if ballot == self.promised => {
                self.handle_rejected(active, cx, promised, out);
            }
            Message::Accept { ballot, slot, frontier, frontier_majority, value } => {
                self.frontier_majority = self.frontier_majority.max(frontier_majority);
                self.handle_accept(active, cx, ballot, slot, value, frontier, out);
            }
            Message::Accepted { ballot, slot, next_slot, grant } if ballot == self.promised => {
                self.handle_accepted(active, cx, from, slot, next_slot, grant, out);
            }
            Message::Decide { ballot, frontier, frontier_majority } => {
                self.frontier_majority = self.frontier_majority.max(frontier_majority);
                self.handle_decide(active, cx, ballot, frontier, true, out);
            }
            Message::Execute { ballot, frontier } => self.handle_decide(active, cx, ballot, frontier, false, out),
            Message::Frontier { ballot, next_slot } if ballot == self.promised => {
                self.handle_frontier(active, from, next_slot);
            }
            Message::Confirm { ballot, round } => self.handle_confirm(active, cx, ballot, round, out),
            Message::Confirmed { ballot, round, next_slot, grant } if ballot == self.promised => {
                self.handle_confirmed(active, cx, from, round, next_slot, grant, out);
            }
            Message::Fetch { from: slot } => {
                if slot < self.next_slot {
                    out.list.push(Effect::CatchUp { peer: from, from: slot });
                }
            }
            Message::Learn { slots, next_slot } => self.handle_learn(active, cx, from, slots, next_slot, out),
            Message::HandOver { ballot, .. } => self.handle_hand_over(active, cx, ballot, out),
            // Answers to a ballot that has been given up since.
            Message::Promise { .. }
            | Message::Busy { .. }
            | Message::Rejected { .. }
            | Message::Accepted { .. }
            | Message::Frontier { .. }
            | Message::Confirmed { .. } => {}
        }
    }

    fn propose(&mut self, active: &mut Active, cx: &mut Cx<'_>, proposal: Proposal, out: &mut Effects<Paxos>) {
        if self.stopped {
            refuse(proposal, Refusal::Stopped, out);
            return;
        }
        if let Duty::Following(_) = active.duty {
            let coordinator = self.believed_coordinator(active);
            let absent = coordinator == self.me || self.is_absent(coordinator, cx);
            // A node that can put nothing on record would not be elected.
            let other = (absent && cx.peers.is_excused_itself()).then(|| self.next_to_ask(self.me, cx));
            if other.is_some() || !absent || matches!(proposal, Proposal::HandOver { .. }) {
                refuse(proposal, Refusal::NotCoordinator { coordinator: other.or(Some(coordinator)) }, out);
                return;
            }
            self.start_election(active, cx, None, out);
        }
        match active.duty {
            Duty::Coordinating(_) => self.propose_coordinating(active, cx, proposal, out),
            Duty::Preparing(ref mut candidacy) => candidacy.enqueue(proposal, out),
            Duty::Following(_) => unreachable!("an election has begun"),
        }
    }

    /// Executes what is decided and next in order, and does what may be done then.
    #[inline]
    pub(super) fn advance(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let has_news = active.ledger.is_next_decided() || self.stopped;
        match &mut active.duty {
            Duty::Following(following) if !has_news => following.note_progress(self.next_slot, false),
            Duty::Coordinating(coordination) if !has_news && !coordination.has_waiting() => {}
            _ => self.execute(active, cx, out),
        }
    }

    #[inline(never)]
    fn execute(&mut self, active: &mut Active, cx: &mut Cx<'_>, out: &mut Effects<Paxos>) {
        let before = self.next_slot;
        while !self.stopped {
            let Some(entry) = active.ledger.pop_decided() else {
                break;
            };
            let slot = self.next_slot;
            self.next_slot = slot.next();
            self.time = self.time.max(entry.value.stamp);
            self.stopped = matches!(entry.value.content, Content::Stop(_));
            out.list.push(Effect::Decided { slot, value: entry.value, acknowledgers: entry.acknowledgers });
        }
        if self.stopped {
            active.ledger.clear();
        }
        let advanced = self.next_slot > before;
        match &mut active.duty {
            Duty::Following(following) => following.note_progress(self.next_slot, advanced),
            Duty::Preparing(_) => self.try_coordinate(active, cx, out),
            Duty::Coordinating(_) => self.on_advanced(active, cx, advanced, out),
        }
    }

    /// Ends whatever this replica did with its own ballot. What is in flight may still be decided, by others.
    pub(super) fn resign(&mut self, active: &mut Active, coordinator: Option<NodeId>, out: &mut Effects<Paxos>) {
        match mem::replace(&mut active.duty, Duty::Following(Following::default())) {
            Duty::Following(following) => active.duty = Duty::Following(following.without_hand_over()),
            Duty::Preparing(candidacy) => candidacy.refuse_all(Refusal::NotCoordinator { coordinator }, out),
            Duty::Coordinating(coordination) => {
                coordination.refuse_in_flight(&active.ledger, Refusal::Uncertain { coordinator }, out);
                coordination.into_queue().refuse_all(Refusal::NotCoordinator { coordinator }, out);
            }
        }
    }

    /// Whether nothing is lost with the active state but what an idle coordinator keeps.
    fn is_quiet_now(&self, active: &Active, cx: &Cx<'_>) -> bool {
        active.ledger.is_empty()
            && match &active.duty {
                Duty::Following(following) => following.is_quiet(),
                Duty::Preparing(_) => false,
                Duty::Coordinating(coordination) => self.is_quiet(coordination, cx),
            }
    }

    fn give_up_active(&mut self) {
        if let Life::Working(active) = mem::replace(&mut self.life, Life::FOLLOWING)
            && let Duty::Coordinating(coordination) = active.duty
        {
            self.frontier_majority = self.majority_frontier(&coordination.members);
            self.life = Life::Idle { coordinating: true, known: Some(coordination.members) };
        }
    }

    /// Keeps the active state, or gives it up if it has been of no use for long.
    fn settle(&mut self, mut active: Box<Active>, fresh: bool, cx: &Cx<'_>) {
        if let Duty::Following(following) = &mut active.duty {
            following.watch(&active.ledger, cx.now);
        }
        let quiet = self.is_quiet_now(&active, cx);
        let idle_at = self.used_at.after_us(IDLE_US);
        let at_once = match &active.duty {
            // What wakes a level one and leaves it level is a word that comes late.
            Duty::Coordinating(coordination) => {
                let came_late = fresh && !cx.wants_frontiers && !active.is_challenged;
                (tells_at_once(&active, cx.wants_frontiers) || came_late) && self.is_level(coordination)
            }
            _ => active.is_rare || fresh,
        };
        if quiet && (cx.now >= idle_at || at_once) {
            self.life = Life::Working(active);
            self.give_up_active();
            return;
        }
        let deadline = match &active.duty {
            Duty::Following(following) => following.deadline(),
            Duty::Preparing(candidacy) => Some(candidacy.retry_at),
            Duty::Coordinating(coordination) => coordination.deadline(),
        };
        let deadline = deadline.unwrap_or(idle_at);
        active.wake_at = Some(if cx.now < idle_at { deadline.min(idle_at) } else { deadline });
        self.life = Life::Working(active);
    }
}

impl Life {
    pub(super) const FOLLOWING: Life = Life::Idle { coordinating: false, known: None };
}

impl Active {
    fn new(base: Slot, duty: Duty, is_rare: bool) -> Active {
        let (ledger, overtaken) = (Ledger::new(base), Vec::new());
        Active { ledger, duty, wake_at: None, is_rare, is_challenged: false, overtaken }
    }
}

pub(super) fn refuse(proposal: Proposal, why: Refusal, out: &mut Effects<Paxos>) {
    out.list.push(Effect::Refused { proposal, why });
}

impl Replica for Paxos {
    type Message = Message;
    type Record = Record;
    type Request = Infallible;
    type Answer = Infallible;

    fn restore(&mut self, record: Record) {
        match record {
            Record::Promised { ballot } => self.promised = self.promised.max(ballot),
            Record::Accepted { ballot, slot, value, frontier } => {
                // To accept is to promise.
                self.promised = self.promised.max(ballot);
                if self.stopped || planted::is(Planted::AcceptedSlotDroppedInRecovery) {
                    return;
                }
                let next_slot = self.next_slot;
                let ledger = self.ledger_of_restored();
                // A checkpoint may have told of a later ballot before.
                let is_newest = ledger.find(slot).is_none_or(|entry| entry.ballot <= ballot);
                if slot >= next_slot && is_newest {
                    ledger.accept(slot, ballot, value);
                }
                ledger.decide_below(frontier, ballot);
            }
            Record::Decided { slot, value } => {
                let promised = self.promised;
                if slot >= self.next_slot && !self.stopped {
                    self.ledger_of_restored().learn(slot, promised, value);
                }
            }
            Record::Checkpoint(position) => self.restore_checkpoint(position),
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message>, out: &mut Effects<Paxos>) {
        self.running = true;
        match event {
            Event::Received { from, .. } if self.silent != 0 => self.forget_silence(from),
            Event::Received { from, ref message } if self.hear_idle_vote(cx.now, cx.wants_frontiers, from, message) => {
                return;
            }
            Event::Silenced(node) if node != self.me => self.silent |= self.bit(node) as u16,
            _ => {}
        }
        // A sweep over a million idle groups allocates nothing.
        let concerns_idle = match &event {
            Event::Woken => false,
            Event::Suspected(_) | Event::Silenced(_) => self.is_successor(cx),
            Event::Received { .. } | Event::Proposed(_) | Event::Requested(_) => true,
        };
        if self.is_idle() && !concerns_idle {
            return;
        }
        let (mut active, fresh) = self.take_active(cx.now);
        if let Event::Received { .. } | Event::Proposed(_) = event {
            self.used_at = cx.now;
        }
        active.is_rare &= fresh || !matches!(event, Event::Proposed(Proposal::Commands(_)));
        out.list.append(&mut active.overtaken);
        // What was recovered or came with a snapshot. Neither comes to a coordinator, who left nothing undone.
        if !matches!(active.duty, Duty::Coordinating(_)) || active.ledger.is_next_decided() {
            self.advance(&mut active, cx, out);
        }
        self.dispatch(&mut active, cx, event, out);
        self.advance(&mut active, cx, out);
        self.settle(active, fresh, cx);
    }

    fn wake_at(&self) -> Option<Instant> {
        match &self.life {
            Life::Working(active) => active.wake_at,
            Life::Idle { .. } => None,
        }
    }

    fn check(&self) {
        let Life::Working(active) = &self.life else {
            return;
        };
        active.ledger.check();
        assert_eq!(active.ledger.base(), self.next_slot, "the ledger starts at the next slot");
        assert!(!self.stopped || active.ledger.is_empty(), "slots after the stop");
        let highest = active.ledger.from(self.next_slot).map(|(_, entry)| entry.ballot).max();
        assert!(
            highest.is_none_or(|highest| highest <= self.promised),
            "accepted {highest:?} above {:?}",
            self.promised
        );
        match &active.duty {
            Duty::Following(_) => {}
            Duty::Preparing(candidacy) => candidacy.check(self.promised, self.me),
            Duty::Coordinating(coordination) => coordination.check(self, &active.ledger),
        }
    }
}

pub(super) fn proposal_of(value: &Value) -> Proposal {
    match &value.content {
        Content::Mark => Proposal::Mark,
        Content::Commands(bytes) => Proposal::Commands(bytes.clone()),
        Content::Stop(bytes) => Proposal::Stop(bytes.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_group_is_small() {
        assert!(size_of::<Paxos>() <= 80, "{}", size_of::<Paxos>());
    }
}
