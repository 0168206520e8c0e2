//! Keeping the log small: whoever holds on to its oldest segment is checkpointed, a few groups a turn.
//!
//! A checkpoint rather than a copy at the log's end: it is written once and for all, where a copy would be made again each
//! time the log has gone round, and it makes recovery and the log's index smaller as well. Only what no checkpoint covers is
//! carried on: slots that are accepted and not decided, and whatever a replica left behind that was given up.

use quorate_protocol::GroupId;
use quorate_wal::{Kind, Storage};

use super::Host;
use crate::group_state::GroupState;
use crate::planted::{self, Planted};
use crate::volume::volume_of;

/// Groups asked for a checkpoint in a turn.
const GROUPS_PER_TURN: usize = 256;
/// Bytes of records carried on in a turn, but for those of the last group.
const CARRIED_BYTES_PER_TURN: usize = 256 << 10;

impl Host {
    pub(super) fn relieve_log(&mut self, storage: &impl Storage) {
        if !self.wal.needs_relief() {
            return;
        }
        let mut carried = 0;
        for group in self.wal.pinning(GROUPS_PER_TURN) {
            if let Some(index) = self.find(GroupId(group)) {
                match self.would_relieve(index) {
                    true => self.want_checkpoint_now(index),
                    false if carried < CARRIED_BYTES_PER_TURN => carried += self.carry(GroupId(group), storage),
                    false => {}
                }
            } else if self.here.all.contains(group) && !self.own.lost.contains(&GroupId(group)) {
                // At rest, so the store has all of it. What it promised last stood in the newest block when it was stored, and
                // is released by its place in the log: the group may wake and log more before that is noted.
                self.wal.release(group, 0, self.wal.durable());
            } else if let Some((volume, _)) = volume_of(GroupId(group)) {
                // It has ended, and may be forgotten once its volume's checkpoint says so. Without the volume it is one that
                // nobody can read.
                let speaks = |index: &u32| !self.groups[*index as usize].state.is_silent();
                match self.find(volume).filter(speaks) {
                    Some(index) => self.want_checkpoint_now(index),
                    None if carried < CARRIED_BYTES_PER_TURN => carried += self.carry(GroupId(group), storage),
                    None => {}
                }
            }
        }
    }

    /// Whether a checkpoint covers anything of what the group needs of the oldest segment.
    fn would_relieve(&mut self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        if matches!(group.state, GroupState::Unborn | GroupState::Damaged | GroupState::Quarantined) {
            return false;
        }
        let next_slot = group.replica.next_slot().0;
        let covers = |kind: &Kind| !matches!(kind, Kind::Slot(slot) if *slot >= next_slot);
        group.checkpoint.under_way || self.wal.pinned(group.id().0).iter().any(covers)
    }

    fn is_quarantined(&self, group: GroupId) -> bool {
        self.find(group).is_some_and(|index| self.groups[index as usize].state == GroupState::Quarantined)
    }

    fn carry(&mut self, group: GroupId, storage: &impl Storage) -> usize {
        if planted::is(Planted::CarriedRecordDropped) {
            self.wal.forget(group.0);
            return 0;
        }
        if planted::is(Planted::QuarantinedPinsLog) && self.is_quarantined(group) {
            return 0;
        }
        match self.wal.carry(storage, group.0) {
            Ok(bytes) => {
                self.counters.carried += u64::from(bytes > 0);
                bytes
            }
            // It stays where it is, and with it the segment.
            Err(error) => {
                self.note_damage(error.to_string());
                0
            }
        }
    }
}
