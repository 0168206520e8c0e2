//! What the host asks of a replica, and is answered.

use alloc::vec::Vec;

use super::{Content, Key, Stage, Tag, Version, View};
use crate::id::{Epoch, NodeId, Stamp};
use crate::quorum::QuorumSystem;

/// What the host asks. Tokens are the host's: never used twice in one start of a node, but for a retry of the same write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Read {
        token: u64,
        key: Key,
        deadline: Stamp,
    },
    /// A retry of the same token is answered as the first was, and not carried out again, until the deadline has passed.
    /// Nobody may retry it at another node: there it would be another write.
    Write {
        token: u64,
        key: Key,
        content: Content,
        deadline: Stamp,
    },
    /// Which keys are there after this one? In order, at most so many (from one to [`LIST_KEYS_MAX`](super::LIST_KEYS_MAX)).
    /// A key that was written before this was asked, and is neither written, deleted nor expired until it is answered, is
    /// listed. One that was deleted before, and not written since, is not. Of all others either may be said.
    List {
        token: u64,
        after: Option<Key>,
        count: usize,
        deadline: Stamp,
    },
    /// The parent's word: these configurations, by epoch, are decided, and all before them retired.
    Know {
        stages: Vec<Stage>,
    },
    /// Make the oldest configuration ready to be retired. The parent then decides that it is, and says so by `Know`.
    Retire {
        token: u64,
    },
    /// Where members decide: these shall be the next ones. Of what members ask for at the same time one comes after the other.
    /// Ends when the configuration before it is retired.
    Reconfigure {
        token: u64,
        members: Vec<NodeId>,
        quorum: QuorumSystem,
    },
    /// Likewise, these quorums for the members that there are, unless others are decided first.
    Resize {
        token: u64,
        quorum: QuorumSystem,
    },
    /// Likewise, the same once more, unless anything is decided first: it ends what began in this epoch or before. With a fence:
    /// all members have drained up to it.
    Renew {
        token: u64,
        epoch: Epoch,
        fence: Epoch,
    },
    /// Say when all operations have ended here that began before this epoch.
    Drain {
        token: u64,
        epoch: Epoch,
    },
    /// Make the group's last word: from then on no operation completes. Never taken back.
    Seal {
        token: u64,
    },
    /// What a sealed group ends with, of keys after this one, as many as one answer takes.
    Final {
        token: u64,
        after: Option<Key>,
    },
    /// Forget tombstones of keys after this one, as many as one answer lists. It waits until a stage's fence is above the
    /// present epoch.
    Forget {
        token: u64,
        after: Option<Key>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// A tombstone: never written, deleted or expired.
    Value {
        token: u64,
        content: Content,
        /// How often members were asked: once, unless the value had to be stored first, or more of them had to be asked, or the
        /// same again.
        rounds: u32,
    },
    Written {
        token: u64,
    },
    /// In order; perhaps fewer than were asked for, or none. There may be more after `next`.
    Listed {
        token: u64,
        keys: Vec<Key>,
        next: Option<Key>,
    },
    /// The deadline has passed, or a fence: a write may have happened or may still happen. Or a reconfiguration may have
    /// happened, and others after it.
    Unknown {
        token: u64,
    },
    /// Not carried out: too much is under way.
    Overloaded {
        token: u64,
    },
    /// Not carried out: this node is no member any more. These are.
    Elsewhere {
        token: u64,
        members: Vec<NodeId>,
    },

    /// Once the parent has decided so, every configuration before this epoch is retired. Where members decide: it is.
    Retirable {
        token: u64,
        epoch: Epoch,
    },
    /// The configuration asked for is the group's, by this epoch, and no earlier one is in use any more.
    Reconfigured {
        token: u64,
        epoch: Epoch,
    },
    /// Not carried out: another configuration came first, perhaps of other members.
    Overtaken {
        token: u64,
    },
    /// Not carried out: no sound configuration, or not for members to decide.
    Unsound {
        token: u64,
    },
    Drained {
        token: u64,
        epoch: Epoch,
    },
    /// Not carried out: this group is sealed, and something else takes its place.
    Over {
        token: u64,
    },
    /// A write was under way under this tag when the group was sealed. It has happened if the final version's tag is not below
    /// it; otherwise it was not carried out.
    Undecided {
        token: u64,
        tag: Tag,
    },
    /// No operation of this epoch completes any more.
    Sealed {
        token: u64,
        epoch: Epoch,
    },
    /// In order of the keys; there may be more after `next`.
    Final {
        token: u64,
        versions: Vec<(Key, Version)>,
        next: Option<Key>,
    },
    /// So many tombstones are forgotten; those after `next` have not been looked at.
    Forgotten {
        token: u64,
        count: usize,
        next: Option<Key>,
    },
    /// Another errand has taken its place, or the configuration has changed.
    GivenUp {
        token: u64,
    },
}

/// What an operator is shown of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub view: View,
    pub is_member: bool,
    /// Registers held, tombstones among them.
    pub key_count: usize,
    pub tombstone_count: usize,
    pub operation_count: usize,
}
