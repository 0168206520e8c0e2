//! Where the newest record of every slot and every group's newest state record are, and how much of each segment is
//! still needed (GigaPaxos, section 3.5).
//!
//! A position is 8 bytes, without the record's length; what is needed of a segment is therefore counted in records. A
//! group of which nothing is needed has no entry. Nothing here reads storage.

mod slots;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use crate::{Kind, Lsn};
use slots::Slots;

/// The address of a record: segment and offset. Ordered as the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u64);

impl Position {
    const NONE: Position = Position(u64::MAX);

    pub(crate) fn new(segment: u64, offset: u64) -> Position {
        Position(Lsn::at(segment, offset).0)
    }

    pub(crate) fn segment(self) -> u64 {
        Lsn(self.0).segment()
    }

    pub(crate) fn offset(self) -> u64 {
        Lsn(self.0).offset()
    }

    fn is_none(self) -> bool {
        self == Position::NONE
    }
}

#[derive(Default)]
pub(crate) struct Index {
    groups: HashMap<u64, Group, BuildHasherDefault<GroupHasher>>,
    segments: BTreeMap<u64, Segment>,
}

struct Group {
    slots: Slots,
    state: Position,
    /// The newest segment that has this group in its list.
    listed: u64,
}

#[derive(Default)]
pub(crate) struct Segment {
    pub(crate) length: u64,
    /// Bytes of records ever appended, and their number.
    pub(crate) record_bytes: u64,
    pub(crate) record_count: u64,
    /// Records that somebody still needs.
    pub(crate) live_count: u64,
    /// The newest block with a record that took the place of one in here. Until it is durable, that one is needed too.
    superseded: Lsn,
    /// Groups with records in here, in order of their first one.
    groups: Vec<u64>,
}

impl Index {
    pub(crate) fn add_segment(&mut self, segment: u64, length: u64) {
        self.segments.insert(segment, Segment { length, ..Segment::default() });
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.values()
    }

    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Takes note of a record of `bytes` bytes in the block `lsn`; it takes the place of an earlier one of its kind.
    pub(crate) fn insert(&mut self, group: u64, kind: Kind, position: Position, bytes: u64, lsn: Lsn) {
        let entry = self.groups.entry(group).or_insert(Group { slots: Slots::Empty, state: Position::NONE, listed: 0 });
        let superseded = match kind {
            Kind::Slot(slot) => entry.slots.insert(slot, position),
            Kind::State => {
                let before = std::mem::replace(&mut entry.state, position);
                (!before.is_none()).then_some(before)
            }
        };
        let segment = self.segments.entry(position.segment()).or_default();
        segment.record_bytes += bytes;
        segment.record_count += 1;
        segment.live_count += 1;
        if entry.listed != position.segment() {
            entry.listed = position.segment();
            segment.groups.push(group);
        }
        if let Some(before) = superseded
            && let Some(segment) = self.segments.get_mut(&before.segment())
        {
            segment.live_count -= 1;
            segment.superseded = lsn;
        }
    }

    pub(crate) fn position(&self, group: u64, kind: Kind) -> Option<Position> {
        let group = self.groups.get(&group)?;
        match kind {
            Kind::Slot(slot) => group.slots.position(slot),
            Kind::State => (!group.state.is_none()).then_some(group.state),
        }
    }

    pub(crate) fn slots(&self, group: u64) -> Option<Range<u64>> {
        self.groups.get(&group)?.slots.range()
    }

    pub(crate) fn release(&mut self, group: u64, slot_below: u64, appended_before: Lsn) {
        let Some(entry) = self.groups.get_mut(&group) else { return };
        let segments = &mut self.segments;
        entry.slots.release(slot_below, |position| discount(segments, position));
        if !entry.state.is_none() && entry.state.0 < appended_before.0 {
            discount(segments, entry.state);
            entry.state = Position::NONE;
        }
        if entry.state.is_none() && entry.slots.is_empty() {
            self.groups.remove(&group);
        }
    }

    pub(crate) fn forget(&mut self, group: u64) {
        self.release(group, u64::MAX, Lsn(u64::MAX));
    }

    /// Takes out the oldest segments of which nothing is needed, up to `below`. Only from the old end: what is left is
    /// without gaps, so that a gap found later is a loss.
    pub(crate) fn take_removable(&mut self, below: u64, durable: Lsn) -> Vec<u64> {
        let mut removable = Vec::new();
        while let Some(oldest) = self.segments.first_entry()
            && *oldest.key() < below
            && oldest.get().live_count == 0
            && oldest.get().superseded <= durable
        {
            removable.push(*oldest.key());
            oldest.remove();
        }
        removable
    }

    /// Groups with needed records in segments before `below`, those of the oldest segment first.
    pub(crate) fn oldest_groups(&self, below: u64, most: usize) -> Vec<u64> {
        let mut oldest = Vec::new();
        let mut seen: HashSet<u64, BuildHasherDefault<GroupHasher>> = HashSet::default();
        for (&number, segment) in self.segments.range(..below).filter(|(_, segment)| segment.live_count > 0) {
            let pinning = segment.groups.iter().filter(|group| self.pins(**group, number));
            for &group in pinning {
                if oldest.len() == most {
                    return oldest;
                }
                if seen.insert(group) {
                    oldest.push(group);
                }
            }
        }
        oldest
    }

    fn pins(&self, group: u64, segment: u64) -> bool {
        self.groups.get(&group).is_some_and(|entry| {
            (!entry.state.is_none() && entry.state.segment() == segment) || entry.slots.reach_into(segment)
        })
    }
}

fn discount(segments: &mut BTreeMap<u64, Segment>, position: Position) {
    if let Some(segment) = segments.get_mut(&position.segment()) {
        segment.live_count -= 1;
    }
}

/// Mixes the bits of a group id. Group ids are given out by parents, never chosen by a client, and runs must repeat:
/// so no random key.
#[derive(Default)]
pub(crate) struct GroupHasher(u64);

impl Hasher for GroupHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        let wide = u128::from(id ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xd6e8_feb8_6659_fd93_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(index: &mut Index, group: u64, kind: Kind, segment: u64, offset: u64) {
        index.insert(group, kind, Position::new(segment, offset), 100, Lsn::at(segment, offset & !4095));
    }

    fn index() -> Index {
        let mut index = Index::default();
        for segment in 1..=4 {
            index.add_segment(segment, 65_536);
        }
        index
    }

    #[test]
    fn a_superseded_record_is_needed_until_its_successor_is_durable() {
        let mut index = index();
        insert(&mut index, 7, Kind::State, 1, 72);
        insert(&mut index, 7, Kind::State, 2, 8192 + 72);
        assert_eq!(index.take_removable(4, Lsn::at(2, 4096)), []);
        assert_eq!(index.take_removable(4, Lsn::at(2, 8192)), [1]);
    }

    #[test]
    fn a_release_spares_what_came_after_the_checkpoint() {
        let mut index = index();
        for slot in 10..20 {
            insert(&mut index, 7, Kind::Slot(slot), 1, 72 + slot * 100);
        }
        insert(&mut index, 7, Kind::State, 2, 4096 + 72);
        index.release(7, 15, Lsn::at(2, 4096));
        assert_eq!(index.slots(7), Some(15..20));
        assert!(index.position(7, Kind::State).is_some(), "a state record in the very block is not before it");
        index.release(7, 20, Lsn::at(2, 8192));
        assert_eq!((index.slots(7), index.group_count()), (None, 0));
        assert_eq!(index.take_removable(4, Lsn::at(3, 0)), [1, 2, 3]);
    }

    #[test]
    fn one_rare_group_is_named_as_the_one_that_pins() {
        let mut index = index();
        insert(&mut index, 1, Kind::Slot(0), 1, 72);
        insert(&mut index, 99, Kind::Slot(0), 1, 300);
        for slot in 1..100 {
            insert(&mut index, 1, Kind::Slot(slot), 2 + slot / 50, 72 + slot * 100);
        }
        index.release(1, 60, Lsn(0));
        assert_eq!(index.oldest_groups(4, 10), [99, 1]);
        assert_eq!(index.oldest_groups(4, 1), [99]);
        assert_eq!(index.take_removable(4, Lsn::at(3, 0)), []);
        index.forget(99);
        assert_eq!(index.take_removable(4, Lsn::at(3, 0)), [1, 2]);
        assert_eq!(index.oldest_groups(4, 10), [1]);
    }
}
