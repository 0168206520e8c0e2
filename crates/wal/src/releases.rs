//! What was released, as the log remembers it: records of its own, under a group number that no group has.
//!
//! ```text
//! group u64, slot below u64, state before u64: and again, as often as the record is long
//! ```
//!
//! Such a note lies behind what it speaks of, and is written only when a checkpoint is durable that covers it. It spares
//! the next opening a search for the checkpoint of every group that the log has ever heard of. A note that is lost costs
//! just that. A release that does not know these notes takes them for records of a group that is gone.

use std::collections::BTreeMap;

use crate::block::{HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::{Kind, Lsn};

pub(crate) const GROUP: u64 = u64::MAX - 1;
const NOTE_BYTES: usize = 24;
/// So many releases are noted together at the latest.
pub(crate) const UNNOTED_MAX: usize = 512;
/// A block with nothing but as many of them.
pub(crate) const BLOCK_BYTES_MAX: usize = HEADER_BYTES + RECORD_HEADER_BYTES + UNNOTED_MAX * NOTE_BYTES;

/// Covered are slots below the one, and a state record before the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) group: u64,
    pub(crate) slot_below: u64,
    pub(crate) state_before: Lsn,
}

pub(crate) fn encode(notes: &[Noted]) -> Vec<u8> {
    let fields = notes.iter().flat_map(|note| [note.group, note.slot_below, note.state_before.0]);
    fields.flat_map(u64::to_le_bytes).collect()
}

/// What the notes of a log add up to.
#[derive(Default)]
pub(crate) struct Releases {
    /// As found, with the addresses of the block and of the note.
    found: Vec<(Lsn, Lsn, Noted)>,
    covers: BTreeMap<u64, Vec<Cover>>,
}

/// Slots below the one that lie before the other.
struct Cover {
    slot_below: u64,
    before: Lsn,
    state_before: Lsn,
}

impl Releases {
    /// Takes in a note that lies at `at` in a block; notes come in the order of the log.
    pub(crate) fn note(&mut self, block: Lsn, at: Lsn, bytes: &[u8]) {
        let notes = bytes.chunks_exact(NOTE_BYTES).map(|note| {
            let field = |at: usize| u64::from_le_bytes(*note[at..].first_chunk().expect("every field lies inside"));
            (block, at, Noted { group: field(0), slot_below: field(8), state_before: Lsn(field(16)) })
        });
        self.found.extend(notes);
    }

    /// Believes the notes in blocks that are part of the log's history.
    pub(crate) fn retain(&mut self, accepts: impl Fn(Lsn) -> bool) {
        for (_, at, noted) in std::mem::take(&mut self.found).into_iter().filter(|(block, ..)| accepts(*block)) {
            let covers = self.covers.entry(noted.group).or_default();
            let mut state_before = noted.state_before.min(at);
            // The newer one covers what the older one does, unless a group was deleted in between and made anew.
            if let Some(older) = covers.pop_if(|older| older.slot_below <= noted.slot_below) {
                state_before = state_before.max(older.state_before);
            }
            covers.push(Cover { slot_below: noted.slot_below, before: at, state_before });
        }
    }

    pub(crate) fn cover(&self, group: u64, kind: Kind, lsn: Lsn) -> bool {
        let covers = self.covers.get(&group).map_or(&[][..], Vec::as_slice);
        covers.iter().any(|cover| match kind {
            Kind::Slot(slot) => slot < cover.slot_below && lsn < cover.before,
            Kind::State => lsn < cover.state_before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn releases(notes: &[(u64, u64, u64)]) -> Releases {
        let mut releases = Releases::default();
        for &(at, slot_below, state_before) in notes {
            releases.note(
                Lsn(at),
                Lsn(at),
                &encode(&[Noted { group: 7, slot_below, state_before: Lsn(state_before) }]),
            );
        }
        releases.retain(|lsn| lsn < Lsn(1000));
        releases
    }

    #[test]
    fn covers_what_was_released_and_lies_before_the_note() {
        let releases = releases(&[(100, 10, 50), (200, 20, 0), (2000, 99, 1999)]);
        let covered = |kind, at| releases.cover(7, kind, Lsn(at));
        assert!(covered(Kind::Slot(9), 90) && covered(Kind::Slot(19), 199) && covered(Kind::State, 49));
        assert!(!covered(Kind::Slot(20), 90), "not below");
        assert!(!covered(Kind::Slot(9), 201), "appended again since");
        assert!(!covered(Kind::State, 50), "newer than the checkpoint");
        assert!(!releases.cover(8, Kind::Slot(0), Lsn(1)));
    }

    #[test]
    fn what_a_group_of_that_number_logs_after_it_was_deleted_is_needed() {
        let releases = releases(&[(100, u64::MAX, u64::MAX), (200, 3, 0)]);
        let covered = |kind, at| releases.cover(7, kind, Lsn(at));
        assert!(covered(Kind::Slot(50), 99) && covered(Kind::State, 99));
        assert!(covered(Kind::Slot(2), 150), "the second checkpoint");
        assert!(!covered(Kind::Slot(3), 150) && !covered(Kind::State, 101));
    }
}
