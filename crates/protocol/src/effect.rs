//! The contract between a replica and whoever hosts it.
//!
//! *Effects start in order, and one marked [`After::Durable`] waits, without holding up those behind it, until every
//! earlier [`Effect::Persist`] of that group is on disk.* That sentence is the whole contract. A coordinator learns of
//! its own durable write as it learns of a peer's: by a message, which the host hands back to it.
//!
//! `step` cannot fail. Nonsense from a peer is ignored and counted; a refusal is an effect; a disk error is the host's.

use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use crate::id::{Instant, NodeId, Payload, Slot, Stamp, Value};
use crate::peers::Peers;

/// One replica of one group.
pub trait Replica: Sized {
    /// What replicas of this group say to each other.
    type Message: Clone + fmt::Debug;
    /// What a replica must not forget.
    type Record: Clone + fmt::Debug;
    /// What a host asks of a replica beyond proposals, and how the replica answers. `Infallible` where there is nothing:
    /// the host then needs no arm for either.
    type Request: Clone + fmt::Debug;
    type Answer: Clone + fmt::Debug;

    /// Takes back a record, in the order in which they were persisted. Any prefix of them is a valid past.
    fn restore(&mut self, record: Self::Record);
    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Self::Message, Self::Request>, out: &mut Effects<Self>);
    /// When it wants to be woken, as things are after the last step. What it wanted before does not count any more.
    fn wake_at(&self) -> Option<Instant>;
    /// Panics, naming the values, if an invariant is broken.
    fn check(&self);
}

/// What a step may know of the world.
pub struct Cx<'a> {
    pub me: NodeId,
    /// The lease clock, read after the turn's requests were taken: a lease that holds now held while they waited.
    pub now: Instant,
    /// The hybrid clock.
    pub stamp: Stamp,
    /// Fresh random bits for this step.
    pub random: u64,
    /// Who is suspected, and which leases are held and given.
    pub peers: &'a Peers,
    /// Whether the host must know of each member how far it has executed.
    pub wants_frontiers: bool,
    /// Whether leases may have been given onward in this group, to others than its members: whoever is elected proposes nothing, and
    /// nothing of what an earlier ballot may have had decided, before all of these are over, since an election does not outwait them.
    pub proposes_late: bool,
    /// Messages that no correct peer would have sent.
    pub nonsense_count: &'a mut u64,
}

#[derive(Clone, Debug)]
pub enum Event<M, Q = Infallible> {
    Received {
        from: NodeId,
        message: M,
    },
    Proposed(Proposal),
    /// A protocol without a sequence of decided values is asked in its own words.
    Requested(Q),
    /// The detector lost this node, and this group has reason to care.
    Suspected(NodeId),
    /// This member's node says that its replica neither votes nor serves any more, until the node starts anew: in this
    /// group it counts as suspected, whatever is heard of it elsewhere, and coordinates at no ballot of its own.
    Silenced(NodeId),
    /// The instant that [`Replica::wake_at`] told has come (or any earlier one: waking is only a hint).
    Woken,
}

/// What the host asks of a replica.
#[derive(Clone, Debug)]
pub enum Proposal {
    /// Commands to be decided, in this order, in one slot.
    Commands(Payload),
    /// Nothing but the time: decided so that group time moves.
    Mark,
    /// The last command of the epoch.
    Stop(Payload),
    /// May the state be read now, linearizably? Answered by [`Effect::Readable`].
    Read { token: u64, mode: ReadMode },
    /// Give the group's coordination to this member.
    HandOver { to: NodeId },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// By the lease where one is held, else by a quorum round.
    Lease,
    /// Always by a quorum round.
    Quorum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Now,
    Durable,
}

/// Why a proposal comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not executed. The node named, if any, is believed to coordinate.
    NotCoordinator { coordinator: Option<NodeId> },
    /// The proposer lost its ballot with the proposal in flight: it may still be decided, once.
    Uncertain { coordinator: Option<NodeId> },
    /// Not executed: the epoch is over.
    Stopped,
    /// Not executed: too much is waiting already.
    Overloaded,
}

pub enum Effect<R: Replica> {
    Persist(R::Record),
    /// `to` may be the replica itself, which is how it learns of its own durable writes.
    Send {
        to: NodeId,
        message: R::Message,
        after: After,
    },
    /// In slot order, without gaps, each slot once. `acknowledgers` is a set of positions among the members.
    Decided {
        slot: Slot,
        value: Value,
        acknowledgers: u64,
    },
    /// A read may be answered from the state as it is after the effects before this one.
    Readable {
        token: u64,
    },
    Refused {
        proposal: Proposal,
        why: Refusal,
    },
    /// Answers [`Event::Requested`].
    Answered(R::Answer),
    /// `peer` lacks decided slots from `from` on: send it what the log has, or a snapshot.
    CatchUp {
        peer: NodeId,
        from: Slot,
    },
}

impl<R: Replica> fmt::Debug for Effect<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Persist(record) => write!(f, "persist {record:?}"),
            Effect::Send { to, message, after: After::Now } => write!(f, "send {to} {message:?}"),
            Effect::Send { to, message, after: After::Durable } => write!(f, "send {to} {message:?} once durable"),
            Effect::Decided { slot, value, .. } => write!(f, "decided {slot:?} {value:?}"),
            Effect::Readable { token } => write!(f, "readable {token}"),
            Effect::Refused { proposal, why } => write!(f, "refused {proposal:?} {why:?}"),
            Effect::Answered(answer) => write!(f, "answered {answer:?}"),
            Effect::CatchUp { peer, from } => write!(f, "catch up {peer} from {from:?}"),
        }
    }
}

/// The effects of one step, in order. The host keeps one and reuses it.
pub struct Effects<R: Replica> {
    pub list: Vec<Effect<R>>,
}

impl<R: Replica> Default for Effects<R> {
    fn default() -> Self {
        Effects { list: Vec::new() }
    }
}

impl<R: Replica> Effects<R> {
    pub fn persist(&mut self, record: R::Record) {
        self.list.push(Effect::Persist(record));
    }

    pub fn send(&mut self, to: NodeId, message: R::Message) {
        self.list.push(Effect::Send { to, message, after: After::Now });
    }

    pub fn send_once_durable(&mut self, to: NodeId, message: R::Message) {
        self.list.push(Effect::Send { to, message, after: After::Durable });
    }
}
