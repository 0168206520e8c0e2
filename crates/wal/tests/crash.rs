//! Random work with crashes in the middle of it, against the plainest model: a list of what was appended.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use common::{Random, Record, open};
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
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..48 => self.append(),
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
        let mut newest = BTreeMap::new();
        for record in self.model.iter().filter(|record| record.lsn <= lsn) {
            newest.insert((record.group, record.kind), record);
        }
        newest.retain(|(group, kind), record| {
            let (slots, states) = self.released.get(group).copied().unwrap_or_default();
            match kind {
                Kind::Slot(slot) => *slot >= slots,
                Kind::State => record.lsn >= states,
            }
        });
        newest
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
        let (wal, found) = open(&self.storage);
        self.wal = wal;
        let report = self.wal.report();
        assert_eq!(report.damage, [], "a crash is no damage");
        self.torn_count += u64::from(report.torn_bytes > 0);
        assert!(found.len() >= durable, "{} records of {durable} durable ones", found.len());
        assert_eq!(found, self.model[..found.len()], "what is found is a prefix of what was appended");
        self.model = found;
        self.written = self.wal.durable();
        for (group, (slots, states)) in &self.released {
            self.wal.release(*group, *slots, *states);
        }
        self.check_reads();
    }

    fn check_reads(&self) {
        let mut bytes = Vec::new();
        for ((group, kind), record) in self.in_force(self.wal.appended()) {
            let found = match kind {
                Kind::Slot(slot) => {
                    assert!(self.wal.slots(group).is_some_and(|slots| slots.contains(&slot)));
                    self.wal.read(&self.storage, group, slot, &mut bytes)
                }
                Kind::State => self.wal.read_state(&self.storage, group, &mut bytes),
            };
            assert!(found.unwrap(), "{kind:?} of group {group}");
            assert_eq!(bytes, record.bytes, "{kind:?} of group {group}");
        }
    }
}

#[test]
fn a_crash_keeps_a_prefix_that_holds_all_that_was_durable() {
    let (mut torn, mut removed) = (0, 0);
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
    }
    assert!(torn > 100, "only {torn} torn tails were met");
    assert!(removed > 1000, "only {removed} segments were removed");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let mut world = World::new(seed);
        (0..500).for_each(|_| world.step());
        (format!("{:?}", world.storage), world.wal.oldest_groups(10))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}
