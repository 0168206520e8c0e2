//! What makes the log small again: releases, and who is to be asked for more of them.

use crate::block::RECORD_HEADER_BYTES;
use crate::releases::{self, Noted, UNNOTED_MAX};
use crate::{Kind, Lsn, ReadError, SegmentStatistics, Statistics, Storage, Wal};

impl Wal {
    /// A durable checkpoint covers these: the group's slots below `slot_below`, and its state record if that was
    /// appended in a block before `appended_before`, which is what [`Wal::durable`] said when the checkpoint was made.
    /// (Not [`Wal::appended`]: a crash may take that block away, and a new record may come to lie at its address.)
    pub fn release(&mut self, group: u64, slot_below: u64, appended_before: Lsn) {
        let state_before = appended_before.min(self.durable);
        if self.index.release(group, slot_below, state_before) {
            self.note(Noted { group, slot_below, state_before });
        }
    }

    /// As [`Wal::release`], also of slots that the group may append again: that comes to lie behind the note.
    pub fn release_noted(&mut self, group: u64, slot_below: u64, appended_before: Lsn) {
        self.release(group, slot_below, appended_before);
        self.note_releases();
    }

    /// The group is deleted, durably: nothing of it is needed. Should it be made anew its slots must be higher, since they may
    /// stand in the same block as the note of this, before it; or the note goes first ([`Wal::note_releases`]).
    pub fn forget(&mut self, group: u64) {
        let slot_below = self.index.slots(group).map_or(0, |slots| slots.end);
        if self.index.release(group, u64::MAX, Lsn(u64::MAX)) {
            self.note(Noted { group, slot_below, state_before: Lsn(u64::MAX) });
        }
    }

    /// The oldest segments, if nobody needs them any more, in the order in which they must be removed. Each is named
    /// once; one that is not removed is found again when the log is next opened.
    pub fn removable(&mut self) -> Vec<u64> {
        self.index.take_removable(self.durable.segment(), self.durable)
    }

    /// Whether the log is larger than it should be ([`crate::Settings`]), and a release could change that.
    pub fn needs_relief(&self) -> bool {
        let (size, settings) = (self.index.size_bytes(), &self.settings);
        let is_over = size > settings.size_bytes_max
            || size > 2 * self.index.live_bytes() + settings.slack_bytes
            || self.index.memory_bytes() > settings.index_bytes_max;
        is_over && self.index.oldest_needed(self.durable.segment()).is_some()
    }

    /// Searches for groups that hold on to the oldest segment, a part of all groups a call; at most `most`. When it has
    /// been through, it begins again once something was released: whoever is named then was released too little, or has
    /// not been released yet.
    pub fn pinning(&mut self, most: usize) -> Vec<u64> {
        self.index.pinning(self.durable.segment(), most)
    }

    /// Begins the search for groups that hold on to the oldest segment again, although nothing was released: what was going
    /// to be released of a group that was found will not be.
    pub fn search_again(&mut self) {
        self.index.search_again();
    }

    /// What the group needs of the oldest segment, in the order in which it lies there.
    pub fn pinned(&mut self, group: u64) -> Vec<Kind> {
        self.index.settle();
        let oldest = self.index.oldest_needed(self.durable.segment());
        let needed = oldest.map(|oldest| self.index.needed_before(group, oldest + 1)).unwrap_or_default();
        needed.into_iter().map(|(_, kind)| kind).collect()
    }

    /// Appends again what the group needs of the oldest segment, in order: until those copies are durable, the segment
    /// stays. Returns the bytes appended. What cannot be read stays where it is.
    pub fn carry(&mut self, storage: &impl Storage, group: u64) -> Result<usize, ReadError> {
        let (mut carried, mut bytes) = (0, Vec::new());
        for kind in self.pinned(group) {
            if self.read_kind(storage, group, kind, &mut bytes)? {
                self.append(group, kind, &bytes);
                carried += RECORD_HEADER_BYTES + bytes.len();
            }
        }
        self.counted.carried_bytes += carried as u64;
        Ok(carried)
    }

    pub fn statistics(&mut self) -> Statistics {
        self.index.settle();
        Statistics {
            group_count: self.index.group_count() as u64,
            segment_count: self.index.segment_count() as u64,
            bytes: self.index.size_bytes(),
            live_bytes: self.index.live_bytes(),
            index_bytes: self.index.memory_bytes() as u64,
            ..self.counted
        }
    }

    /// Every segment, oldest first.
    pub fn segments(&mut self) -> impl Iterator<Item = SegmentStatistics> {
        self.index.settle();
        self.index.segments().map(|(segment, found)| SegmentStatistics {
            segment,
            bytes: found.length,
            live_bytes: found.live_bytes,
            live_record_count: found.live_count,
        })
    }

    fn note(&mut self, noted: Noted) {
        self.unnoted.push(noted);
        if self.unnoted.len() >= UNNOTED_MAX {
            self.note_releases();
        }
    }

    /// Adds what was released to the block being gathered: what is appended from now on lies behind it.
    pub fn note_releases(&mut self) {
        if !self.unnoted.is_empty() {
            let bytes = releases::encode(&std::mem::take(&mut self.unnoted));
            self.write_record(releases::GROUP, Kind::State, &bytes);
        }
    }
}
