//! One replica: what it keeps, and the dispatch of events.

use alloc::sync::Arc;
use core::cmp::Ordering;
use core::convert::Infallible;

use super::history::History;
use super::reads::{Asker, Reads};
use super::{Body, Membership, Message, Place, Position, Record, Request, WINDOW_BYTES, WINDOW_SLOTS};
use crate::effect::{Cx, Effect, Effects, Event, Proposal, Refusal, Replica};
use crate::id::{Content, Epoch, Instant, NodeId, Slot, Stamp, Value};
use crate::planted::{self, Planted};

/// What was not answered is said again.
pub(super) const RETRY_US: u64 = 200_000;
/// Acknowledgements follow each other no faster: each says how far everything is decided, and nobody's answer waits for one ...
pub(super) const ACKNOWLEDGE_US: u64 = 10_000;
/// ... unless so many updates would be kept for it.
pub(super) const ACKNOWLEDGE_SLOTS: u64 = 256;
/// To a neighbour that is suspected, because only a new configuration is of use then.
const RETRY_SUSPECTED_US: u64 = 2_000_000;

/// One node's part of a chain.
pub struct Chain {
    pub(super) membership: Arc<Membership>,
    pub(super) me: NodeId,
    pub(super) place: Place,
    pub(super) history: History,
    /// The largest stamp of any slot executed.
    pub(super) time: Stamp,
    pub(super) stopped: bool,
    pub(super) since: Epoch,
    /// The epoch of the newest update that was restored.
    pub(super) restored_at: Epoch,
    /// Whether this member may decide and answer as the tail: who has joined hears its predecessor first.
    pub(super) established: bool,
    /// False while the records of an earlier run are restored.
    pub(super) running: bool,
    /// What was restored is still to be acted on.
    pub(super) fresh: bool,
    /// At the tail and the joining node: slots below are on the own disk.
    pub(super) durable: Slot,
    /// At the tail: what it held when it became that may have been answered by the one before. Reads wait for it.
    pub(super) floor: Slot,
    /// At the head: slots from here on were ordered in this run.
    pub(super) ordered_from: Slot,
    pub(super) lease_until: Instant,
    pub(super) extension: Extension,
    /// At the tail: slots below are on the joining node's disk.
    pub(super) joiner_held: Slot,
    /// At the tail: from which slot on the joining node was sent what the log has, and when.
    pub(super) served: Option<(Slot, Instant)>,
    /// The predecessor has spoken at this epoch, or nothing is expected of it.
    pub(super) connected: bool,
    /// The successor's position is known: updates go to it as they come.
    pub(super) linked: bool,
    /// Which slot was asked for, and when.
    pub(super) asked: Option<(Slot, Instant)>,
    pub(super) retry_at: Option<Instant>,
    /// When the predecessor was last told how far everything is decided, and how far that was.
    pub(super) told: (Instant, Slot),
    /// When it will be told.
    pub(super) tell_at: Option<Instant>,
    pub(super) reads: Reads,
}

/// How far the tail has come with the joining node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// It is sent what it lacks, while the tail decides without it.
    Copying,
    /// It lacks little: nothing more is decided until it has that.
    Closing,
    /// Nothing is decided without it. `durable` once that is on disk, and so may be told.
    Joined { durable: bool },
}

/// What the next update that a head takes will get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub slot: Slot,
    pub stamp: Stamp,
    pub seed: u64,
}

/// What an operator is shown of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub membership: Arc<Membership>,
    pub place: Place,
    pub next_slot: Slot,
    /// Updates that are here and not known as decided: the paper's `Sent`.
    pub in_flight: u64,
    pub lease_until: Instant,
    pub established: bool,
    pub stopped: bool,
    /// At the tail, if a node is joining: how far it is, and what it holds.
    pub extension: Option<(Extension, Slot)>,
}

impl Chain {
    /// A replica born empty in a group that is born with it, or, in a membership that it is joining, beside one.
    pub fn new(membership: Arc<Membership>, me: NodeId) -> Chain {
        Chain::born(membership, me, Slot(0), Stamp(0))
    }

    /// A replica born at `next_slot` with what every member is born with.
    pub fn born(membership: Arc<Membership>, me: NodeId, next_slot: Slot, time: Stamp) -> Chain {
        let place = membership.place(me);
        let is_member = matches!(place, Place::Member(_));
        assert!(place != Place::Outside, "{me} is not in {membership:?}");
        assert!(membership.members.len() <= super::MEMBERS_MAX, "{membership:?}");
        Chain {
            since: membership.epoch,
            restored_at: Epoch(0),
            membership,
            me,
            place,
            history: History::new(next_slot, time),
            time,
            stopped: false,
            established: is_member,
            running: false,
            fresh: !is_member,
            durable: next_slot,
            floor: next_slot,
            ordered_from: next_slot,
            lease_until: Instant(0),
            extension: Extension::Copying,
            joiner_held: Slot(0),
            served: None,
            connected: is_member,
            linked: is_member,
            asked: None,
            retry_at: None,
            told: (Instant(0), next_slot),
            tell_at: None,
            reads: Reads::default(),
        }
    }

    /// A replica that came to rest here once it was [idle](Chain::is_idle), with all that it was on record. It lacks nothing and
    /// waits for nobody; whoever has more to say to it says it. Records behind the position may be restored after it. One that was
    /// saved before it had heard its predecessor still has to.
    pub fn resumed(position: Position, me: NodeId) -> Chain {
        let Position { next_slot, time, stopped, membership, since, established, joined } = position;
        let has_predecessor = membership.predecessor(me).is_some();
        Chain {
            place: membership.place(me),
            since,
            restored_at: Epoch(0),
            membership,
            me,
            history: History::new(next_slot, time),
            time,
            stopped,
            established,
            running: false,
            fresh: false,
            durable: next_slot,
            floor: next_slot,
            ordered_from: next_slot,
            lease_until: Instant(0),
            extension: if joined { Extension::Joined { durable: true } } else { Extension::Copying },
            joiner_held: Slot(0),
            served: None,
            connected: established || !has_predecessor,
            linked: true,
            asked: None,
            retry_at: None,
            told: (Instant(0), next_slot),
            tell_at: None,
            reads: Reads::default(),
        }
    }

    /// The end of recovery. What was recovered as decided is executed by the next step; unless the replica
    /// [is idle](Chain::is_idle) it wants to be woken.
    pub fn restored(&mut self) {
        self.ordered_from = self.history.received();
        self.floor = self.history.received();
        self.fresh = true;
    }

    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    pub fn epoch(&self) -> Epoch {
        self.membership.epoch
    }

    /// What a checkpoint saves beside the objects.
    pub fn position(&self) -> Position {
        Position {
            next_slot: self.history.next_slot(),
            time: self.time,
            stopped: self.stopped,
            membership: self.membership.clone(),
            since: self.since,
            established: self.established,
            joined: matches!(self.extension, Extension::Joined { .. }),
        }
    }

    pub fn next_slot(&self) -> Slot {
        self.history.next_slot()
    }

    /// The first slot of which nothing is here.
    pub fn received(&self) -> Slot {
        self.history.received()
    }

    /// Group time after the last update that is here.
    pub fn received_time(&self) -> Stamp {
        self.history.time
    }

    /// Updates that are here and not executed, in order: what a head's next outcome rests on beside the state, and which
    /// objects a member does not answer for itself.
    pub fn pending(&self) -> impl Iterator<Item = (Slot, &Value)> {
        self.history.from(self.history.next_slot())
    }

    pub fn is_head(&self) -> bool {
        self.place == Place::Member(0)
    }

    /// Whether the answers to what this replica decides are its to give.
    pub fn is_tail(&self) -> bool {
        self.place == Place::Member(self.membership.members.len() - 1)
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether nothing is in flight and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.history.len() == 0 && !self.is_waiting() && !self.fresh && self.tell_at.is_none()
    }

    /// What the next proposal will get if it is made with the same `cx`, or why it will be refused. The head computes an
    /// update's outcome with it, once, and proposes the change.
    pub fn order(&self, cx: &Cx<'_>) -> Result<Order, Refusal> {
        if !self.is_head() {
            return Err(Refusal::NotCoordinator { coordinator: Some(self.membership.head()) });
        }
        if self.has_stop() {
            return Err(Refusal::Stopped);
        }
        let len = self.history.len();
        if len >= WINDOW_SLOTS || len > 0 && self.history.bytes() >= WINDOW_BYTES {
            return Err(Refusal::Overloaded);
        }
        Ok(Order { slot: self.history.received(), stamp: cx.stamp.max(self.history.time), seed: cx.random })
    }

    /// The parent's coordinator answers for this epoch: until then no chain without this member comes to life. `until` is
    /// counted on the own lease clock, from before the parent was asked.
    pub fn lease(&mut self, epoch: Epoch, until: Instant) {
        if epoch == self.epoch() {
            self.lease_until = self.lease_until.max(until);
        }
    }

    pub fn holds_lease(&self, now: Instant) -> bool {
        matches!(self.place, Place::Member(_)) && (now < self.lease_until || planted::is(Planted::ChainLeaseIgnored))
    }

    /// Whether any member may answer, from its own state, for an object that none of the [pending](Chain::pending)
    /// updates concerns.
    pub fn answers_clean(&self, now: Instant) -> bool {
        self.holds_lease(now) && self.established && !self.fresh && !self.has_stop()
    }

    /// At the tail: the joining node holds everything decided, and will. To be told to the parent, with the epoch.
    pub fn is_extended(&self) -> bool {
        self.is_tail() && self.membership.joining.is_some() && self.extension == Extension::Joined { durable: true }
    }

    pub fn status(&self) -> Status {
        let extension =
            (self.is_tail() && self.membership.joining.is_some()).then_some((self.extension, self.joiner_held));
        Status {
            membership: self.membership.clone(),
            place: self.place,
            next_slot: self.history.next_slot(),
            in_flight: self.history.len() as u64,
            lease_until: self.lease_until,
            established: self.established,
            stopped: self.stopped,
            extension,
        }
    }

    /// STOP is an update of every object: whoever has it answers nothing more.
    pub(super) fn has_stop(&self) -> bool {
        self.stopped || self.history.ends_in_stop()
    }

    pub(super) fn predecessor(&self) -> Option<NodeId> {
        self.membership.predecessor(self.me)
    }

    pub(super) fn successor(&self) -> Option<NodeId> {
        self.membership.successor(self.me)
    }

    pub(super) fn message(&self, body: Body) -> Message {
        Message { epoch: self.membership.epoch, body }
    }

    /// Acts on what was restored or came with a snapshot.
    fn begin(&mut self, cx: &Cx<'_>, out: &mut Effects<Chain>) {
        self.fresh = false;
        self.advance(out);
        self.keep(out);
        if !self.connected {
            self.connect(cx, out);
        }
        self.prompt(out);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message, out: &mut Effects<Chain>) {
        let Message { epoch, body } = message;
        if from == self.me {
            if let (true, Body::Kept { next_slot, joined }) = (epoch == self.epoch(), body) {
                self.handle_kept(cx, next_slot, joined, out);
            }
            return;
        }
        match epoch.cmp(&self.epoch()) {
            Ordering::Less if planted::is(Planted::ChainOldEpochAccepted) => self.handle(cx, from, body, out),
            Ordering::Less => self.refuse_old(cx, from, out),
            Ordering::Equal => self.handle(cx, from, body, out),
            Ordering::Greater => self.handle_ahead(cx, from, epoch, body, out),
        }
    }

    /// At the own epoch. Who may say what follows from the places of the two.
    fn handle(&mut self, cx: &mut Cx<'_>, from: NodeId, body: Body, out: &mut Effects<Chain>) {
        let (sender, me) = (Some(from), self.place);
        let is_member = matches!(me, Place::Member(_));
        let from_member = self.membership.members.contains(&from);
        match body {
            Body::Forward { slot, frontier, value } if sender == self.predecessor() => {
                self.handle_forward(cx, slot, frontier, value, out);
            }
            Body::Suffix { slots, frontier } if sender == self.predecessor() => {
                self.handle_suffix(cx, slots, frontier, out);
            }
            Body::Acknowledge { frontier } if from_member && sender == self.successor() => {
                self.handle_acknowledge(cx, frontier, out);
            }
            Body::Connect { next_slot, .. } if sender == self.successor() => {
                self.handle_connect(cx, from, next_slot, out);
            }
            Body::Held { next_slot } if self.is_tail() && sender == self.membership.joining => {
                self.handle_held(cx, from, next_slot, out);
            }
            Body::Newest { .. } => {
                if sender == self.predecessor() {
                    self.ask(cx, out);
                }
            }
            Body::Behind => {}
            Body::Query { round, confirmed } if self.is_tail() && from_member => {
                self.handle_query(cx, from, round, confirmed, out);
            }
            Body::Committed { round, frontier } if is_member && from == self.membership.tail() => {
                self.handle_committed(cx, round, frontier, out);
            }
            Body::Confirm { round } if from == self.membership.tail() && me != Place::Outside => {
                out.send(from, self.message(Body::Confirmed { round }));
            }
            Body::Confirmed { round } if self.is_tail() => self.handle_confirmed(cx, from, round, out),
            _ => *cx.nonsense_count += 1,
        }
    }

    fn propose(&mut self, cx: &mut Cx<'_>, proposal: Proposal, out: &mut Effects<Chain>) {
        let content = match &proposal {
            Proposal::Commands(bytes) => Content::Commands(bytes.clone()),
            Proposal::Mark => Content::Mark,
            Proposal::Stop(bytes) => Content::Stop(bytes.clone()),
            Proposal::Read { token, mode } => return self.read(cx, Asker::Local { token: *token }, *mode, out),
            // Members change places only through a stop: who would be before the tail might lack what that has answered.
            Proposal::HandOver { .. } => {
                let coordinator = Some(self.membership.head());
                return refuse(proposal, Refusal::NotCoordinator { coordinator }, out);
            }
        };
        match self.order(cx) {
            Ok(Order { stamp, seed, .. }) => {
                self.take(Value { stamp, seed, content }, out);
                self.keep(out);
            }
            Err(why) => refuse(proposal, why, out),
        }
    }

    /// Executes what is decided.
    pub(super) fn advance(&mut self, out: &mut Effects<Chain>) {
        let acknowledgers = (1 << self.membership.members.len()) - 1;
        while let Some((slot, value)) = self.history.pop_decided() {
            self.time = self.time.max(value.stamp);
            self.stopped |= matches!(value.content, Content::Stop(_));
            out.list.push(Effect::Decided { slot, value, acknowledgers });
        }
    }

    /// Whether somebody's answer is outstanding that may have to be asked for again.
    fn is_waiting(&self) -> bool {
        match self.place {
            Place::Outside => false,
            Place::Joining => true,
            Place::Member(_) => {
                let successor = self.successor().is_some();
                !self.connected || successor && (!self.linked || self.history.len() > 0) || !self.reads.is_empty()
            }
        }
    }

    fn on_woken(&mut self, cx: &mut Cx<'_>, out: &mut Effects<Chain>) {
        if self.tell_at.is_some_and(|at| at <= cx.now) {
            self.tell_decided(cx, out);
        }
        if self.retry_at.is_none_or(|at| cx.now < at) {
            return;
        }
        if !self.connected || self.place == Place::Joining {
            self.connect(cx, out);
        }
        self.prompt(out);
        self.ask_again(cx, out);
        let suspected = |node: Option<NodeId>| node.is_some_and(|node| cx.peers.is_suspected(node));
        let is_alone = suspected(self.predecessor()) || suspected(self.successor());
        self.retry_at = Some(cx.now.after_us(if is_alone { RETRY_SUSPECTED_US } else { RETRY_US }));
    }

    fn settle(&mut self, cx: &Cx<'_>) {
        if self.is_waiting() {
            self.retry_at.get_or_insert(cx.now.after_us(RETRY_US));
        } else {
            self.retry_at = None;
        }
    }
}

pub(super) fn refuse(proposal: Proposal, why: Refusal, out: &mut Effects<Chain>) {
    out.list.push(Effect::Refused { proposal, why });
}

impl Replica for Chain {
    type Message = Message;
    type Record = Record;
    type Request = Request;
    type Answer = Infallible;

    fn restore(&mut self, record: Record) {
        match record {
            Record::Adopted { membership, decided, since } => self.restore_adopted(membership, decided, since),
            Record::Update { epoch, slot, value, frontier } => self.restore_update(epoch, slot, value, frontier),
            Record::Joined { membership, decided, since } => {
                let epoch = membership.epoch;
                self.restore_adopted(membership, decided, since);
                if epoch == self.epoch() && !planted::is(Planted::ChainJoinedNotPersisted) {
                    self.extension = Extension::Joined { durable: true };
                }
            }
            Record::Checkpoint(position) => self.restore_checkpoint(position),
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Request>, out: &mut Effects<Chain>) {
        self.running = true;
        if self.fresh {
            self.begin(cx, out);
        }
        match event {
            Event::Received { from, message } => self.receive(cx, from, message, out),
            Event::Proposed(proposal) => self.propose(cx, proposal, out),
            Event::Requested(Request::Reconfigure { membership }) => self.reconfigure(cx, membership, out),
            // The parent takes the suspected out of the chain; nobody else may.
            Event::Suspected(_) | Event::Silenced(_) => {}
            Event::Woken => self.on_woken(cx, out),
        }
        self.settle(cx);
    }

    fn wake_at(&self) -> Option<Instant> {
        self.retry_at.into_iter().chain(self.tell_at).min()
    }

    fn check(&self) {
        self.history.check();
        assert_eq!(self.place, self.membership.place(self.me), "place");
        let is_member = matches!(self.place, Place::Member(_));
        assert!(!is_member || self.established || !self.connected, "who is not established waits for its predecessor");
        assert!(!self.stopped || self.history.len() == 0 || self.fresh, "updates after the stop");
        assert!(self.durable <= self.received(), "{:?} on disk, {:?} received", self.durable, self.received());
        self.reads.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else its predecessor, which knows everything as decided, says nothing, and nobody answers reads.
    #[test]
    fn who_was_saved_before_it_had_heard_its_predecessor_asks_it() {
        let (head, tail) = (NodeId(1), NodeId(2));
        let membership = Arc::new(Membership { epoch: Epoch(6), members: [head, tail].into(), joining: None });
        let waits = |me: NodeId, established: bool| {
            let mut saved = Chain::new(membership.clone(), me);
            saved.established = established;
            let mut restored = Chain::new(membership.clone(), me);
            restored.restore(Record::Checkpoint(saved.position()));
            let resumed = Chain::resumed(saved.position(), me);
            [restored, resumed].map(|chain| {
                chain.check();
                chain.is_waiting()
            })
        };
        assert_eq!(waits(tail, false), [true; 2]);
        assert_eq!(waits(tail, true), [false; 2]);
        assert_eq!(waits(head, true), [false; 2]);
    }

    #[test]
    fn a_quiet_chain_is_small_and_allocates_nothing() {
        assert!(size_of::<Chain>() <= 344, "{}", size_of::<Chain>());
    }
}
