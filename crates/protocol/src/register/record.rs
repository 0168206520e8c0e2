//! What a replica must not forget.

use alloc::vec::Vec;

use super::{Choice, Key, Stage, Tag, Version};
use crate::id::{Ballot, Epoch};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The configurations that are not known to be retired.
    Known { stages: Vec<Stage> },
    /// This version is held, whatever was held before.
    Held { key: Key, version: Version },
    /// The tombstone of this tag is forgotten: its counter is below the floor from now on.
    Forgotten { key: Key, tag: Tag },
    /// Tombstones with counters up to this one may have been forgotten.
    Floor { floor: u64 },
    /// Nothing is answered any more.
    Sealed {},
    /// While this epoch's is the only configuration: of its successor, nothing is voted for below this ballot.
    Promised { epoch: Epoch, ballot: Ballot },
    /// Likewise: this was voted for, and nothing below its ballot will be.
    Voted { epoch: Epoch, choice: Choice },
}
