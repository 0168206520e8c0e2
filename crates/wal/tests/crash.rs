//! Random work with crashes in the middle of it, against the plainest model: a list of what was appended.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use common::{Random, Record, open, open_told};
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Kind, Lsn, Storage, Submission, Wal};

struct World {
    random: Random,
    storage: MemoryStorage,
    wal: Wal,
    /// Submitted and not written; written and not synced.
    submitted: VecDeque<Submission>,
    written: Lsn,
    /// Everything appended that may still be on the medium.
    model: Vec<Record>,
    /// Per group: slots below the first, and states appended before the second, are covered by a checkpoint.
    released: BTreeMap<u64, (u64, Lsn)>,
    slot_next: u64,
    torn_count: u64,
    removed_count: u64,
    carried_count: u64,
    /// Records that opening said were covered.
    covered_count: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let storage = MemoryStorage::default();
        let (wal, _) = open(&storage);
        World {
            random: Random(seed),
            storage,
            wal,
            submitted: VecDeque::new(),
            written: Lsn(0),
            model: Vec::new(),
            released: BTreeMap::new(),
            slot_next: 0,
            torn_count: 0,
            removed_count: 0,
            carried_count: 0,
            covered_count: 0,
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.append(),
            45..48 => self.relieve(),
            48..50 => self.wal.vouch(),
            50..65 => self.submitted.extend(self.wal.submit()),
            65..75 => self.write(),
            75..85 => self.sync(),
            85..93 => self.release(),
            93..98 => self.remove(),
            _ => self.crash(),
        }
    }

    fn append(&mut self) {
        let group = self.random.below(5);
        let kind = match self.random.below(5) {
            0 => Kind::State,
            1 => Kind::Slot(self.slot_next.saturating_sub(self.random.below(10))),
            _ => {
                self.slot_next += 1;
                Kind::Slot(self.slot_next)
            }
        };
        let length = match self.random.below(100) {
            0 => 40_000,
            1..5 => 5_000,
            _ => self.random.below(300),
        };
        let bytes: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
        self.wal.append(group, kind, &bytes);
        self.model.push(Record { lsn: self.wal.appended(), group, kind, bytes });
    }

    fn write(&mut self) {
        if let Some(submission) = self.submitted.pop_front() {
            submission.write(&mut self.storage).unwrap();
            self.written = submission.lsn;
        }
    }

    fn sync(&mut self) {
        self.storage.sync().unwrap();
        self.wal.completed(self.written);
    }

    fn release(&mut self) {
        let group = self.random.below(5);
        let before = self.wal.durable();
        let slot = self.slot_next.saturating_sub(self.random.below(20));
        let (slots, states) = self.released.entry(group).or_insert((0, Lsn(0)));
        (*slots, *states) = ((*slots).max(slot), before);
        self.wal.release(group, *slots, before);
    }

    /// Whoever pins the oldest segment has it appended again, as a host does that cannot make a checkpoint.
    fn relieve(&mut self) {
        for group in self.wal.pinning(2) {
            let kinds = self.wal.pinned(group);
            assert!(!kinds.is_empty(), "group {group} pins nothing");
            let newest = self.newest(self.wal.appended());
            let again: Vec<Record> = kinds.iter().map(|kind| newest[&(group, *kind)].clone()).collect();
            assert!(again.windows(2).all(|pair| pair[0].lsn <= pair[1].lsn), "out of order: {kinds:?}");
            let blocks = self.wal.statistics().block_count;
            let bytes: usize = again.iter().map(|record| record.bytes.len() + 24).sum();
            assert_eq!(self.wal.carry(&self.storage, group).unwrap(), bytes);
            let lsn = self.wal.appended();
            self.carried_count += again.len() as u64;
            self.model.extend(again.into_iter().map(|record| Record { lsn, ..record }));
            if self.wal.statistics().block_count != blocks {
                self.learn_addresses();
            }
        }
    }

    /// What was carried fell into several blocks: opening the log tells into which.
    fn learn_addresses(&mut self) {
        self.submitted.extend(self.wal.submit());
        while !self.submitted.is_empty() {
            self.write();
        }
        self.sync();
        let (_, found) = open(&self.storage);
        let without_address = |records: &[Record]| -> Vec<(u64, Kind, Vec<u8>)> {
            records.iter().map(|record| (record.group, record.kind, record.bytes.clone())).collect()
        };
        assert_eq!(without_address(&found), without_address(&self.model));
        self.model = found;
    }

    fn remove(&mut self) {
        // A record that is superseded by one that is not durable yet is in force should the power go now.
        let now = self.in_force(self.wal.durable());
        let later = self.in_force(self.wal.appended());
        let needed: BTreeSet<u64> = now.values().chain(later.values()).map(|record| record.lsn.segment()).collect();
        for segment in self.wal.removable() {
            assert!(!needed.contains(&segment), "segment {segment} is needed");
            self.storage.remove(segment).unwrap();
            self.model.retain(|record| record.lsn.segment() != segment);
            self.removed_count += 1;
        }
    }

    /// The newest record of each kind up to `lsn`, without what a checkpoint covers.
    fn in_force(&self, lsn: Lsn) -> BTreeMap<(u64, Kind), &Record> {
        let mut newest = self.newest(lsn);
        newest.retain(|(group, kind), record| {
            let (slots, states) = self.released.get(group).copied().unwrap_or_default();
            match kind {
                Kind::Slot(slot) => *slot >= slots,
                Kind::State => record.lsn >= states,
            }
        });
        newest
    }

    fn newest(&self, lsn: Lsn) -> BTreeMap<(u64, Kind), &Record> {
        let records = self.model.iter().filter(|record| record.lsn <= lsn);
        records.map(|record| ((record.group, record.kind), record)).collect()
    }

    fn crash(&mut self) {
        let durable = self.model.iter().filter(|record| record.lsn <= self.wal.durable()).count();
        self.submitted.clear();
        if self.random.below(5) == 0 {
            self.storage.restart();
        } else {
            let random = &mut self.random;
            self.storage.crash(&mut || random.next());
        }
        let (wal, found, needed) = open_told(&self.storage);
        self.wal = wal;
        let report = self.wal.report();
        assert_eq!(report.damage, [], "a crash is no damage");
        self.torn_count += u64::from(report.torn_bytes > 0);
        assert!(found.len() >= durable, "{} records of {durable} durable ones", found.len());
        assert_eq!(found, self.model[..found.len()], "what is found is a prefix of what was appended");
        self.model = found;
        for (record, _) in self.model.iter().zip(needed).filter(|(_, needed)| !needed) {
            let (slots, states) = self.released.get(&record.group).copied().unwrap_or_default();
            let covered = match record.kind {
                Kind::Slot(slot) => slot < slots,
                Kind::State => record.lsn < states,
            };
            assert!(covered, "no checkpoint covers {record:?}");
            self.covered_count += 1;
        }
        self.check_reads();
        self.written = self.wal.durable();
        for (group, (slots, states)) in &self.released {
            self.wal.release(*group, *slots, *states);
        }
        self.check_reads();
    }

    fn check_reads(&mut self) {
        let mut bytes = Vec::new();
        let in_force = self.in_force(self.wal.appended());
        let in_force: Vec<_> = in_force.into_iter().map(|(key, record)| (key, record.bytes.clone())).collect();
        for ((group, kind), expected) in in_force {
            let found = match kind {
                Kind::Slot(slot) => {
                    assert!(self.wal.slots(group).is_some_and(|slots| slots.contains(&slot)));
                    self.wal.read(&self.storage, group, slot, &mut bytes)
                }
                Kind::State => self.wal.read_state(&self.storage, group, &mut bytes),
            };
            assert!(found.unwrap(), "{kind:?} of group {group}");
            assert_eq!(bytes, expected, "{kind:?} of group {group}");
        }
    }
}

#[test]
fn a_crash_keeps_a_prefix_that_holds_all_that_was_durable() {
    let (mut torn, mut removed, mut carried, mut covered) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut world = World::new(seed);
        for _ in 0..600 {
            world.step();
            if world.random.below(20) == 0 {
                world.check_reads();
            }
        }
        world.crash();
        torn += world.torn_count;
        removed += world.removed_count;
        carried += world.carried_count;
        covered += world.covered_count;
    }
    assert!(torn > 100, "only {torn} torn tails were met");
    assert!(removed > 1000, "only {removed} segments were removed");
    assert!(carried > 1000, "only {carried} records were carried");
    assert!(covered > 1000, "only {covered} records were known to be needless");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let mut world = World::new(seed);
        (0..500).for_each(|_| world.step());
        (format!("{:?}", world.storage), world.wal.pinning(10))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

/// The note of the deletion stands in the block that the group's new life begins in, behind its first record.
#[test]
fn what_a_group_logs_at_once_after_it_was_deleted_outlives_the_note() {
    let mut storage = MemoryStorage::default();
    let (mut wal, _) = open(&storage);
    common::flush(&mut wal, &mut storage, 7, Kind::Slot(3), b"of its first life");
    wal.forget(7);
    common::flush(&mut wal, &mut storage, 7, Kind::Slot(100), b"of its second");
    assert_eq!(told(&storage), [(b"of its first life".to_vec(), false), (b"of its second".to_vec(), true)]);
}

/// A chain that is left, and joined again with nothing, begins with its first slot.
#[test]
fn a_group_that_was_deleted_begins_with_low_slots_behind_the_note() {
    let mut storage = MemoryStorage::default();
    let (mut wal, _) = open(&storage);
    common::flush(&mut wal, &mut storage, 7, Kind::Slot(3), b"of its first life");
    wal.forget(7);
    wal.note_releases();
    common::flush(&mut wal, &mut storage, 7, Kind::Slot(0), b"of its second");
    assert_eq!(told(&storage), [(b"of its first life".to_vec(), false), (b"of its second".to_vec(), true)]);
}

/// The note would else stand in the block that the slot is appended to again, behind it.
#[test]
fn a_slot_that_was_released_and_noted_may_be_logged_again_at_once() {
    let mut storage = MemoryStorage::default();
    let (mut wal, _) = open(&storage);
    common::flush(&mut wal, &mut storage, 7, Kind::Slot(3), b"as it was accepted first");
    wal.release_noted(7, 4, Lsn(0));
    common::flush(&mut wal, &mut storage, 7, Kind::Slot(3), b"as it was accepted then");
    let expected = [(b"as it was accepted first".to_vec(), false), (b"as it was accepted then".to_vec(), true)];
    assert_eq!(told(&storage), expected);
}

/// What opening tells of group 7, and whether it is needed.
fn told(storage: &MemoryStorage) -> Vec<(Vec<u8>, bool)> {
    let (_, records, needed) = common::open_told(storage);
    let told = records.into_iter().zip(needed).filter(|(found, _)| found.group == 7);
    told.map(|(found, needed)| (found.bytes, needed)).collect()
}
