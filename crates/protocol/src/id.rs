//! The numbers and names that cross every boundary, each a type of its own.

use alloc::sync::Arc;
use core::fmt;

use crate::quorum::QuorumSystem;

/// One node of a cluster, whichever data directory it has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u32);

/// A replica group. Never used again, not even after the group is deleted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub u64);

/// The number of a group's configuration; the parent gives out the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u32);

impl Epoch {
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// A position in a group's sequence of decided values, from 0 in each epoch; a chain that loses or gains members goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slot(pub u64);

/// A proposer's right to propose. Ordered by number, then node, so that no two nodes share one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ballot {
    pub number: u32,
    pub node: NodeId,
}

/// Group time: milliseconds since the Unix epoch, from the hybrid clock. What deadlines and expiries are compared with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);

/// The lease clock: microseconds since an arbitrary origin, monotonic, counting while the machine is suspended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

/// Encoded commands. Shared, because one batch is at once in the log, in a frame to each peer and in a replica.
pub type Payload = Arc<[u8]>;

/// What a slot holds. The protocol reads none of `commands`.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    /// The group's time is the largest stamp of any slot up to this one.
    pub stamp: Stamp,
    /// The source of whatever randomness executing the commands needs, the same on every replica.
    pub seed: u64,
    pub content: Content,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// Executes nothing; carries time forward, or fills a slot that an election found empty.
    Mark,
    /// Commands in the order in which they are to be executed.
    Commands(Payload),
    /// The last value of an epoch. Later slots are neither executed nor answered.
    Stop(Payload),
}

/// Who replicates a group in one epoch, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    pub group: GroupId,
    pub epoch: Epoch,
    /// The order is meaningful: the first member is the coordinator that the group is born with.
    pub members: Arc<[NodeId]>,
    pub quorum: QuorumSystem,
}

impl Configuration {
    pub fn contains(&self, node: NodeId) -> bool {
        self.members.contains(&node)
    }

    /// The position of `node` among the members, which sets of members are made of.
    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.members.iter().position(|&member| member == node)
    }
}

impl Slot {
    pub fn next(self) -> Slot {
        Slot(self.0 + 1)
    }
}

impl Instant {
    pub const MAX: Instant = Instant(u64::MAX);

    pub fn after_us(self, duration_us: u64) -> Instant {
        Instant(self.0.saturating_add(duration_us))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}.{}", self.number, self.node.0)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::Mark => write!(f, "mark@{:?}", self.stamp),
            Content::Commands(bytes) => write!(f, "{:?}@{:?}", Text(bytes), self.stamp),
            Content::Stop(bytes) => write!(f, "stop{:?}@{:?}", Text(bytes), self.stamp),
        }
    }
}

/// Bytes as text where they are text, else their number: scripts print words, the simulator prints batches.
struct Text<'a>(&'a [u8]);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match core::str::from_utf8(self.0) {
            Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => write!(f, "({text})"),
            _ => write!(f, "({} bytes)", self.0.len()),
        }
    }
}
