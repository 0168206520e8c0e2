//! What stops of this node may have lost, for groups that are looked at only later.
//!
//! A group that is paused is not read when its node starts. When it is woken, any time after, it must still be known
//! whether a stop since it was stored has taken from it what it had said: the node keeps a record of such stops.

use quorate_checkpoint::Batch;
use quorate_wal::Lsn;

use super::group::Group;
use super::{Forgotten, HostSettings};
use crate::group_state::GroupState;
use crate::root::Durability;

/// The name of the node's record.
pub(super) const RECORD: &str = "losses";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// The latest start before which the process had died.
    memory: u32,
    /// The latest start before which the machine had died.
    unsynced: u32,
    /// The latest start that has found the log damaged, and the first block behind all damage.
    damaged: u32,
    damage_end: Lsn,
}

impl Losses {
    pub(super) fn decode(record: &[u8]) -> Option<Losses> {
        let (fields, rest) = record.split_first_chunk::<20>()?;
        let field = |at: usize| u32::from_le_bytes(*fields[at..].first_chunk().expect("every field lies inside"));
        let damage_end = Lsn(u64::from_le_bytes(*fields[12..].first_chunk()?));
        rest.is_empty().then_some(Losses { memory: field(0), unsynced: field(4), damaged: field(8), damage_end })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(20);
        for start in [self.memory, self.unsynced, self.damaged] {
            record.extend_from_slice(&start.to_le_bytes());
        }
        record.extend_from_slice(&self.damage_end.0.to_le_bytes());
        record
    }

    /// Nobody can read what earlier stops have lost: whatever was stored before this start may have lost all that it could.
    pub(super) fn unknown(start: u32, durable: Lsn) -> Losses {
        Losses { memory: start, unsynced: start, damaged: start, damage_end: durable }
    }

    /// With what this start has found.
    pub(super) fn after_start(self, settings: &HostSettings, damage_end: Lsn) -> Losses {
        let (start, forgotten) = (settings.start, settings.forgotten);
        let mut losses = self;
        if forgotten != Forgotten::Nothing {
            losses.memory = start;
        }
        if forgotten == Forgotten::Unsynced {
            losses.unsynced = start;
        }
        if damage_end > self.damage_end {
            (losses.damaged, losses.damage_end) = (start, damage_end);
        }
        losses
    }

    /// Whether the log was ever found damaged: it may have held births that nobody knows of.
    pub(super) fn has_damage(&self) -> bool {
        self.damaged != 0
    }

    pub(super) fn put(&self, batch: &mut Batch) {
        batch.put_node_record(RECORD, self.encode());
    }

    /// What has become of a group that was stored in that start of the node, by now.
    pub(super) fn judge(&self, group: &mut Group, stored_in: u32) {
        if group.state != GroupState::Alive {
            return;
        }
        let forgetful = match group.durability {
            Durability::Sync => false,
            Durability::Interval => stored_in < self.unsynced,
            Durability::Memory => stored_in < self.memory,
        };
        let is_damaged = group.durability != Durability::Memory
            && stored_in < self.damaged
            && group.checkpoint.covered_below < self.damage_end;
        group.state = match (forgetful, is_damaged) {
            (true, _) => GroupState::Forgetful,
            (_, true) => GroupState::Damaged,
            _ => GroupState::Alive,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_is_taken_for_the_worst() {
        let known = Losses { memory: 3, unsynced: 2, damaged: 1, damage_end: Lsn(4096) };
        assert_eq!(Losses::decode(&known.encode()), Some(known));
        assert_eq!(Losses::decode(&known.encode()[1..]), None);
        let unknown = Losses::unknown(9, Lsn(8192));
        assert!(unknown.memory > known.memory && unknown.unsynced > known.unsynced);
        assert!(unknown.damage_end > known.damage_end);
    }
}
