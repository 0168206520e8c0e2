//! What a replica must not forget.

use crate::id::{Ballot, Slot, Stamp, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Nothing below `ballot` is accepted or promised any more.
    Promised { ballot: Ballot },
    /// `value` was accepted at `ballot`, whose coordinator knew every slot below `frontier` as decided.
    Accepted { ballot: Ballot, slot: Slot, value: Value, frontier: Slot },
    /// `value` was learned as decided, whoever accepted it.
    Decided { slot: Slot, value: Value },
    /// The state up to this position is kept elsewhere.
    Checkpoint(Position),
}

impl Record {
    /// The slot that this record fills and its value. The last such record of a slot that has been executed holds the
    /// decided value, which is what a member that lacks the slot is sent; except below a snapshot taken from a peer: what was
    /// accepted there before may never have been decided.
    pub fn entry(&self) -> Option<(Slot, &Value)> {
        match self {
            Record::Accepted { slot, value, .. } | Record::Decided { slot, value } => Some((*slot, value)),
            Record::Promised { .. } | Record::Checkpoint(_) => None,
        }
    }
}

/// The idle state of a replica: with a copy of the group's objects, a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Every slot below is executed, none from here on.
    pub next_slot: Slot,
    pub promised: Ballot,
    /// Every slot below is executed by a write quorum.
    pub frontier_majority: Slot,
    /// The largest stamp of any slot executed.
    pub time: Stamp,
    pub stopped: bool,
}
