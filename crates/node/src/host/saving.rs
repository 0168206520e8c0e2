//! Checkpoints that are made over several turns.
//!
//! A volume may have changed in a million places since its last checkpoint, and nobody's commands are to wait until all of them are
//! encoded. Some are now and then, with time between for everything else; the objects themselves see to it that each is stored as it was when the checkpoint began. One
//! volume is at it at a time, and the others wait; own groups, which have one object each, do not.

use quorate_checkpoint::Batch;
use quorate_protocol::{GroupId, Instant};

use super::Host;
use super::checkpoints::{Checkpointed, Stored, encode_meta, put_some};
use super::quarantine::isolate;
use crate::planted::{self, Planted};

/// So much time is left to everything else, at least, once as many objects were encoded as may be in a turn.
const PAUSE_US: u64 = 1_000;

/// A checkpoint that is being made.
pub(super) struct Saving {
    pub(super) batch: Batch,
    pub(super) covered: Checkpointed,
    pub(super) is_complete: bool,
}

impl Host {
    /// Goes on with the checkpoint that is not complete, and hands it over when it is. How many objects more may be encoded in this
    /// turn.
    pub(super) fn save_more(&mut self) -> usize {
        if self.clock.now() < self.storing.saves_at { 0 } else { self.save_so_many(self.settings.saved_per_turn) }
    }

    /// So many more could have been encoded in this turn.
    pub(super) fn end_saving(&mut self, left: usize) {
        let now = self.clock.now();
        if left == 0 && self.storing.saves_at <= now {
            self.storing.saves_at = now.after_us(PAUSE_US);
        }
    }

    /// When somebody's turn to be encoded comes, if anybody waits for it.
    pub(super) fn saves_at(&self) -> Option<Instant> {
        (self.storing.saving.is_some() || self.storing.is_spent).then_some(self.storing.saves_at)
    }

    /// Nobody waits for this turn's end any more.
    pub(super) fn complete_saving(&mut self) {
        self.save_so_many(usize::MAX);
    }

    fn save_so_many(&mut self, count: usize) -> usize {
        let mut left = count;
        let Some(mut saving) = self.storing.saving.take() else { return left };
        let Checkpointed { index, group: id, .. } = saving.covered;
        let group = &mut self.groups[index as usize];
        // One that was given up since has nothing to save any more.
        let Some(objects) = group.machine.objects_mut().filter(|objects| objects.is_saving()) else { return left };
        match isolate(|| put_some(objects, id.0, &mut left, &mut saving.batch)) {
            Ok(true) => {
                if planted::is(Planted::PositionOfTheEnd) {
                    let mut meta = Vec::new();
                    encode_meta(group, &mut meta);
                    saving.batch.put_meta(id.0, meta);
                }
                self.counters.checkpoints_in_turns += 1;
                self.store_checkpoints();
                let checkpointed = vec![saving.covered];
                self.hand_over(saving.batch, Stored::Checkpoints { checkpointed, forgotten: Vec::new() });
            }
            Ok(false) => self.storing.saving = Some(saving),
            Err(words) => self.quarantine(index, "making a checkpoint", words),
        }
        self.discard_deleted(index);
        left
    }

    /// The group is gone from here.
    pub(super) fn forget_saving(&mut self, group: GroupId) {
        self.storing.saving.take_if(|saving| saving.covered.group == group);
    }
}
