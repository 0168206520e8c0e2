//! What a replica must not forget.

use alloc::sync::Arc;

use super::Membership;
use crate::id::{Epoch, Slot, Stamp, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The configuration that the replica acts in from here on. Every slot below `decided` is known as that; what it has above
    /// of epochs before `since` is void, since it has joined anew. So the newest of these says all that those before it did.
    Adopted { membership: Arc<Membership>, decided: Slot, since: Epoch },
    /// An update as it was ordered or received at `epoch`, when every slot below `frontier` was known as decided.
    Update { epoch: Epoch, slot: Slot, value: Value, frontier: Slot },
    /// The joining node holds everything decided, and nothing is decided without it in this configuration any more. Otherwise
    /// as when that was adopted.
    Joined { membership: Arc<Membership>, decided: Slot, since: Epoch },
    /// The state up to this position is kept elsewhere.
    Checkpoint(Position),
}

impl Record {
    /// Records sorted by this stand in the order in which they were persisted, as far as that matters: a log that moves old
    /// records behind newer ones has them sorted before they are restored.
    pub fn order(&self) -> (Epoch, u8, Slot) {
        match self {
            Record::Checkpoint(position) => (position.membership.epoch, 0, position.next_slot),
            Record::Adopted { membership, .. } => (membership.epoch, 1, Slot(0)),
            Record::Update { epoch, slot, .. } => (*epoch, 2, *slot),
            Record::Joined { membership, .. } => (membership.epoch, 3, Slot(0)),
        }
    }

    /// The slot that this record fills and its value. The last such record of a slot that has been executed holds the
    /// decided value, which is what a joining node that lacks the slot is sent; except below a snapshot taken from another.
    pub fn entry(&self) -> Option<(Slot, &Value)> {
        match self {
            Record::Update { slot, value, .. } => Some((*slot, value)),
            Record::Adopted { .. } | Record::Joined { .. } | Record::Checkpoint(_) => None,
        }
    }
}

/// What a replica is without its undecided updates: with a copy of the group's objects, a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Every slot below is executed, none from here on.
    pub next_slot: Slot,
    /// The largest stamp of any slot executed.
    pub time: Stamp,
    pub stopped: bool,
    pub membership: Arc<Membership>,
    /// Undecided updates of an epoch before this one are void: the replica has joined anew since.
    pub since: Epoch,
    /// Whether a predecessor has spoken at an epoch at which the replica is a member, if it once joined.
    pub established: bool,
    pub joined: bool,
}
