//! Where the newest record of every slot and every group's newest state record are, and how much of each segment is
//! still needed (GigaPaxos, section 3.5).
//!
//! It holds exactly what is needed: a group of which nothing is needed has no entry, so that a million groups whose
//! checkpoints cover everything cost nothing. It need not be swapped: what makes it small is the same checkpoints that make
//! the log small ([`crate::Settings::index_bytes_max`]). Nothing here reads storage.

mod position;
mod records;
mod slots;
mod table;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Range;

use crate::{Kind, Lsn};
pub(crate) use position::{Position, SEGMENT_MAX};
use records::Records;
use table::{Entry, Table};

/// Entries that one search for groups which pin the oldest segment looks at: some tens of microseconds.
const STEPS_MAX: usize = 4096;
/// Records noted before they are sorted into their groups, at most: likewise.
const WAITING_MAX: usize = 512;
/// With fewer groups, what is sorted into one is in a cache when the next record of it is.
const LOOK_AHEAD_MIN: usize = 1024;

#[derive(Default)]
pub(crate) struct Index {
    groups: Table,
    /// The newest records, which are not in `groups` yet. Of a few dozen groups in use each has several of them, and what memory
    /// holds of it is fetched once for all.
    waiting: Vec<Waiting>,
    segments: BTreeMap<u64, Segment>,
    size_bytes: u64,
    live_bytes: u64,
    /// Memory that the entries hold beside the table.
    heap_bytes: usize,
    sweep: Sweep,
}

struct Waiting {
    group: u64,
    kind: Kind,
    position: Position,
    lsn: Lsn,
}

#[derive(Default)]
pub(crate) struct Segment {
    pub(crate) length: u64,
    /// Records that somebody still needs, and what they take, of those that are sorted in.
    pub(crate) live_count: u64,
    pub(crate) live_bytes: u64,
    /// The newest block with a record that took the place of one in here. Until it is durable, that one is needed too.
    superseded: Lsn,
}

/// How far the search for groups that pin the oldest segment has come.
#[derive(Default)]
struct Sweep {
    segment: u64,
    /// Entries before this place are yet to be looked at. An entry that moves does so to a smaller place, and from the
    /// end: from what was looked at before.
    place: usize,
    /// Something was released, or came to lie elsewhere, since the last search from end to end began.
    has_news: bool,
}

impl Index {
    pub(crate) fn add_segment(&mut self, segment: u64, length: u64) {
        // What waits to be sorted in still counts what it supersedes: never more than a segment of it.
        self.settle();
        self.segments.insert(segment, Segment { length, ..Segment::default() });
        self.size_bytes += length;
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = (u64, &Segment)> {
        self.segments.iter().map(|(number, segment)| (*number, segment))
    }

    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Of what is sorted in.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// What the segments take.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What records that somebody needs take. Those whose successors wait to be sorted in are among them.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// What the index takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.groups.bytes() + self.heap_bytes + self.waiting.capacity() * size_of::<Waiting>()
    }

    /// Takes note of a record in the block `lsn`; it takes the place of an earlier one of its kind.
    pub(crate) fn insert(&mut self, group: u64, kind: Kind, position: Position, lsn: Lsn) {
        self.live_bytes += position.bytes();
        self.waiting.push(Waiting { group, kind, position, lsn });
        if self.waiting.len() == WAITING_MAX {
            self.settle();
        }
    }

    /// Sorts the newest records into their groups.
    pub(crate) fn settle(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        if self.groups.len() >= LOOK_AHEAD_MIN {
            self.look_ahead(&waiting);
        }
        for of_segment in waiting.chunk_by(|one, next| one.position.segment() == next.position.segment()) {
            let segment = self.segments.entry(of_segment[0].position.segment()).or_default();
            segment.live_count += of_segment.len() as u64;
            segment.live_bytes += of_segment.iter().map(|waiting| waiting.position.bytes()).sum::<u64>();
            of_segment.iter().for_each(|waiting| self.sort_in(waiting));
        }
        waiting.clear();
        self.waiting = waiting;
    }

    fn sort_in(&mut self, &Waiting { group, kind, position, lsn }: &Waiting) {
        let Some(place) = self.groups.find(group) else {
            return self.groups.push(Entry { group, records: Records::new(kind, position) });
        };
        let records = self.groups.records_mut(place);
        let before = records.heap_bytes();
        let superseded = records.insert(kind, position);
        self.heap_bytes = self.heap_bytes + records.heap_bytes() - before;
        if let Some(before) = superseded {
            self.sweep.has_news = true;
            discount(&mut self.segments, &mut self.live_bytes, before);
            if let Some(segment) = self.segments.get_mut(&before.segment()) {
                segment.superseded = lsn;
            }
        }
    }

    /// Looks at what these records need of their groups, so that it is in a cache when they are sorted in. Looked at level by level,
    /// the waits for memory overlap.
    fn look_ahead(&self, waiting: &[Waiting]) {
        let places: Vec<_> = waiting.iter().filter_map(|waiting| self.groups.find(waiting.group)).collect();
        let records = || places.iter().filter_map(|&place| self.groups.at(place)).map(|entry| &entry.records);
        black_box(records().fold(0, |seen, records| seen ^ records.look()));
        black_box(records().fold(0, |seen, records| seen ^ records.look_deeper()));
        black_box(records().fold(0, |seen, records| seen ^ records.look_deepest()));
    }

    pub(crate) fn position(&mut self, group: u64, kind: Kind) -> Option<Position> {
        self.settle();
        self.groups.get(group)?.position(kind)
    }

    pub(crate) fn slots(&mut self, group: u64) -> Option<Range<u64>> {
        self.settle();
        self.groups.get(group)?.slots()
    }

    /// Whether anything was let go.
    pub(crate) fn release(&mut self, group: u64, slot_below: u64, appended_before: Lsn) -> bool {
        self.settle();
        let Some(place) = self.groups.find(group) else { return false };
        let records = self.groups.records_mut(place);
        let (segments, live_bytes) = (&mut self.segments, &mut self.live_bytes);
        let before = records.heap_bytes();
        let mut count = 0;
        let is_empty = records.release(slot_below, appended_before, |position| {
            count += 1;
            discount(segments, live_bytes, position);
        });
        self.heap_bytes -= before;
        match is_empty {
            true => self.groups.remove(place),
            false => self.heap_bytes += records.heap_bytes(),
        }
        self.sweep.has_news |= count > 0;
        count > 0
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
            if !self.waiting.is_empty() {
                // Some of that may lie in it.
                self.settle();
                continue;
            }
            removable.push(*oldest.key());
            self.size_bytes -= oldest.remove().length;
        }
        removable
    }

    /// The oldest segment that is needed by what is sorted in, if it lies before `below`.
    pub(crate) fn oldest_needed(&self, below: u64) -> Option<u64> {
        self.segments.range(..below).find(|(_, segment)| segment.live_count > 0).map(|(number, _)| *number)
    }

    /// Goes on with the search for groups that hold on to the oldest segment that is needed, if it lies before `below`.
    /// At most `most`; each is named again in every search from end to end, of which one begins only when the last one has
    /// ended and something was released since.
    pub(crate) fn pinning(&mut self, below: u64, most: usize) -> Vec<u64> {
        self.settle();
        let Some(oldest) = self.oldest_needed(below) else { return Vec::new() };
        if self.sweep.segment != oldest {
            self.sweep = Sweep { segment: oldest, place: 0, has_news: true };
        }
        if self.sweep.place == 0 && std::mem::take(&mut self.sweep.has_news) {
            self.sweep.place = self.groups.len();
        }
        self.sweep.place = self.sweep.place.min(self.groups.len());
        let end = self.sweep.place.saturating_sub(STEPS_MAX);
        let mut found = Vec::new();
        while self.sweep.place > end && found.len() < most {
            self.sweep.place -= 1;
            let pins = |entry: &&Entry| entry.records.has_any_before(oldest + 1);
            found.extend(self.groups.at(self.sweep.place).filter(pins).map(|entry| entry.group));
        }
        found
    }

    pub(crate) fn search_again(&mut self) {
        self.sweep.has_news = true;
    }

    /// What a group needs of the segments before `segment`, in the order of the log.
    pub(crate) fn needed_before(&mut self, group: u64, segment: u64) -> Vec<(Position, Kind)> {
        self.settle();
        let mut needed = Vec::new();
        if let Some(records) = self.groups.get(group) {
            records.for_each_before(segment, |kind, position| needed.push((position, kind)));
        }
        needed.sort_unstable();
        needed
    }
}

fn discount(segments: &mut BTreeMap<u64, Segment>, live_bytes: &mut u64, position: Position) {
    *live_bytes -= position.bytes();
    if let Some(segment) = segments.get_mut(&position.segment()) {
        segment.live_count -= 1;
        segment.live_bytes -= position.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(index: &mut Index, group: u64, kind: Kind, segment: u64, offset: u64) {
        index.insert(group, kind, Position::new(segment, offset, 100), Lsn::at(segment, offset & !4095));
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
        assert!(index.release(7, 15, Lsn::at(2, 4096)));
        assert_eq!(index.slots(7), Some(15..20));
        assert!(index.position(7, Kind::State).is_some(), "a state record in the very block is not before it");
        index.release(7, 20, Lsn::at(2, 8192));
        assert_eq!((index.slots(7), index.group_count()), (None, 0));
        assert_eq!(index.take_removable(4, Lsn::at(3, 0)), [1, 2, 3]);
    }

    #[test]
    fn what_waits_to_be_sorted_in_is_counted_and_found() {
        let mut index = index();
        for count in 1..=WAITING_MAX as u64 + 10 {
            insert(&mut index, count % 3, Kind::Slot(count), 1, 72 + 100 * count);
            let waiting: u64 = index.waiting.iter().map(|waiting| waiting.position.bytes()).sum();
            assert_eq!(index.live_bytes(), index.segments[&1].live_bytes + waiting);
        }
        assert_eq!((index.waiting.len(), index.group_count()), (10, 3));
        let newest = WAITING_MAX as u64 + 10;
        assert_eq!(index.slots(newest % 3).map(|slots| slots.end), Some(newest + 1));
        assert!(index.waiting.is_empty());
        insert(&mut index, 1, Kind::State, 2, 72);
        assert!(index.position(1, Kind::State).is_some());
        insert(&mut index, 9, Kind::State, 2, 372);
        assert_eq!(index.needed_before(9, 3).len(), 1);
        insert(&mut index, 8, Kind::Slot(1), 2, 672);
        assert!(index.release(8, 2, Lsn(0)));
        assert_eq!(index.take_removable(4, Lsn::at(4, 0)), []);
        (0..3).for_each(|group| assert!(index.release(group, u64::MAX, Lsn::at(4, 0))));
        insert(&mut index, 7, Kind::Slot(1), 1, 60_000);
        assert_eq!(index.take_removable(4, Lsn::at(4, 0)), [], "what waits is needed");
        assert!(index.release(7, 2, Lsn(0)));
        assert_eq!(index.take_removable(4, Lsn::at(4, 0)), [1]);
    }

    #[test]
    fn one_rare_group_is_named_as_the_one_that_pins() {
        let mut index = index();
        insert(&mut index, 1, Kind::Slot(0), 1, 72);
        insert(&mut index, 99, Kind::Slot(0), 1, 300);
        for slot in 1..100 {
            insert(&mut index, 1, Kind::Slot(slot), 2 + slot / 50, 72 + slot * 100);
        }
        assert_eq!(index.pinning(4, 1), [99]);
        index.release(1, 60, Lsn(0));
        assert_eq!(index.pinning(4, 10), [], "the search goes on where it was");
        assert_eq!(index.pinning(4, 10), [99]);
        assert_eq!(index.pinning(4, 10), [], "nothing was released since");
        assert_eq!(index.take_removable(4, Lsn::at(3, 0)), []);
        assert_eq!(index.oldest_needed(4), Some(1));
        assert!(index.release(99, u64::MAX, Lsn(u64::MAX)));
        assert_eq!(index.take_removable(4, Lsn::at(3, 0)), [1, 2]);
        assert_eq!(index.pinning(4, 10), [1]);
        assert_eq!(index.pinning(3, 10), [], "the newest segment is not to be had");
    }

    #[test]
    fn every_group_that_pins_is_found_while_others_go() {
        let mut index = index();
        for group in 0..20_000 {
            insert(&mut index, group, Kind::Slot(0), 1 + group % 2, 72 + group);
        }
        let mut named = std::collections::BTreeSet::new();
        while index.oldest_needed(2).is_some() {
            let found = index.pinning(2, 100);
            for group in &found {
                named.insert(*group);
                // Every tenth takes its time.
                if group % 10 != 4 || named.len() > 9_900 {
                    index.release(*group, 1, Lsn(0));
                }
            }
        }
        assert_eq!((named.len(), index.group_count()), (10_000, 10_000));
        assert_eq!(index.live_bytes, index.segments.values().map(|segment| segment.live_bytes).sum::<u64>());
    }

    #[test]
    fn needed_records_are_told_in_the_order_of_the_log() {
        let mut index = index();
        insert(&mut index, 7, Kind::Slot(9), 1, 72);
        insert(&mut index, 7, Kind::State, 1, 300);
        insert(&mut index, 7, Kind::Slot(8), 1, 500);
        insert(&mut index, 7, Kind::Slot(10), 2, 72);
        insert(&mut index, 7, Kind::Slot(9), 2, 200);
        let mut kinds = |segment| index.needed_before(7, segment).into_iter().map(|(_, kind)| kind).collect::<Vec<_>>();
        assert_eq!(kinds(2), [Kind::State, Kind::Slot(8)]);
        assert_eq!(kinds(3), [Kind::State, Kind::Slot(8), Kind::Slot(10), Kind::Slot(9)]);
        assert_eq!(index.needed_before(8, 3), []);
    }
}
