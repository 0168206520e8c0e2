//! Bytes that are not what was written: never applied, never a panic, and named when they were durable.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use common::{LOG_ID, Random, Record, flush, open, report, settings};
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Damage, Kind, Lsn, OpenError, ReadError, Settings, Storage, StorageError, Wal};

/// A log of `count` flushes of one record each, all durable.
fn log(count: u64) -> (MemoryStorage, Vec<Record>) {
    let mut storage = MemoryStorage::default();
    let (mut wal, _) = open(&storage);
    let records = (0..count)
        .map(|slot| flush(&mut wal, &mut storage, 1, Kind::Slot(slot), &vec![slot as u8; 100 + slot as usize * 61]))
        .collect();
    (storage, records)
}

fn block_bytes(record: &Record) -> u64 {
    72 + 24 + record.bytes.len() as u64
}

#[test]
fn flipped_bits_are_located_and_never_applied() {
    let (clean, records) = log(100);
    for seed in 0..500 {
        let mut random = Random(seed);
        let mut storage = clean.clone();
        let mut hit = Vec::new();
        for _ in 0..1 + random.below(3) {
            let victim = random.below(100) as usize;
            let at = records[victim].lsn.offset() + random.below(block_bytes(&records[victim]));
            if !hit.contains(&victim) {
                storage.flip(records[victim].lsn.segment(), at as usize, 1 << random.below(8));
                hit.push(victim);
            }
        }
        let (wal, found) = open(&storage);
        let whole_max = (0..100).rev().find(|at| !hit.contains(at)).unwrap();
        let expected: Vec<Record> =
            (0..=whole_max).filter(|at| !hit.contains(at)).map(|at| records[at].clone()).collect();
        assert_eq!(found, expected, "seed {seed}");
        for victim in hit.iter().filter(|victim| **victim < whole_max) {
            let lsn = records[*victim].lsn;
            let named = |damage: &Damage| match damage {
                Damage::Unreadable { from, to } => *from <= lsn && lsn < *to,
                Damage::MissingSegment { .. } => false,
            };
            assert!(wal.report().damage.iter().any(named), "seed {seed}: {lsn:?} in {:?}", wal.report().damage);
        }
        assert_eq!(wal.report().damage.is_empty(), hit.iter().all(|victim| *victim > whole_max));
    }
}

#[test]
fn an_end_that_is_gone_is_damage_if_it_is_known_to_have_been_there() {
    let (mut storage, records) = log(12);
    let known = Settings { known_end: records[11].lsn, ..settings() };
    let reopen = |storage: &MemoryStorage| {
        let mut found = Vec::new();
        let wal = Wal::open(storage, known.clone(), |record| found.push(record.bytes.to_vec())).unwrap();
        (wal, found)
    };
    assert_eq!(reopen(&storage).0.report().damage, []);
    let gone = records[7].lsn;
    for record in &records[7..] {
        let zeros = vec![0; block_bytes(record) as usize];
        storage.write(record.lsn.segment(), record.lsn.offset(), &zeros).unwrap();
    }
    assert_eq!(report(&storage).damage, [], "it looks like a log that never was longer");
    let (mut wal, found) = reopen(&storage);
    assert_eq!(found.len(), 7);
    let damage = wal.report().damage.clone();
    assert!(
        matches!(damage[..], [Damage::Unreadable { from, to }] if from <= gone && records[11].lsn < to),
        "{damage:?}"
    );
    // What is written now has addresses of its own. Until the next known end, what was lost before it is told each time.
    let next = flush(&mut wal, &mut storage, 1, Kind::Slot(12), b"next");
    assert!(next.lsn > records[11].lsn);
    let (wal, found) = reopen(&storage);
    assert_eq!(found.len(), 8);
    let again = &wal.report().damage;
    assert!(again.len() == 1 && again[0].end() == damage[0].end(), "{again:?}");
    let stopped = Settings { known_end: next.lsn, ..settings() };
    assert_eq!(Wal::open(&storage, stopped, |_| {}).unwrap().report().damage, []);
}

#[test]
fn the_log_goes_on_after_damage() {
    let (mut storage, records) = log(20);
    storage.flip(records[5].lsn.segment(), records[5].lsn.offset() as usize + 80, 1);
    let (mut wal, _) = open(&storage);
    flush(&mut wal, &mut storage, 2, Kind::State, b"after");
    let (wal, found) = open(&storage);
    assert_eq!(found.len(), 20);
    assert_eq!(wal.report().damage.len(), 1, "still reported: nothing has taken its place");
    assert_eq!(found.last().map(|record| record.bytes.as_slice()), Some(b"after".as_slice()));
}

#[test]
fn a_deleted_segment_is_noticed_wherever_it_was() {
    let (clean, records) = log(40);
    let last = records.last().unwrap().lsn.segment();
    assert!(last > 5);
    for segment in 1..=last {
        let mut storage = clean.clone();
        storage.lose(segment);
        let (mut wal, found) = open(&storage);
        assert_eq!(wal.report().damage, [Damage::MissingSegment { segment }]);
        assert!(found.iter().eq(records.iter().filter(|record| record.lsn.segment() != segment)));
        let next = flush(&mut wal, &mut storage, 1, Kind::Slot(999), b"on");
        assert!(next.lsn > records.last().unwrap().lsn, "an address is never used twice");
        assert_eq!(open(&storage).1.last(), Some(&next));
    }
}

#[test]
fn any_bytes_at_all_can_be_opened() {
    let (clean, records) = log(30);
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut storage = clean.clone();
        for _ in 0..random.below(5_000) {
            let segment = 1 + random.below(records.last().unwrap().lsn.segment());
            storage.flip(segment, random.below(16 * 1024) as usize, random.next() as u8);
        }
        let (_, found) = open(&storage);
        assert!(found.iter().all(|record| records.contains(record)), "seed {seed}");
    }
}

#[test]
fn a_record_that_decays_after_opening_is_not_handed_out() {
    let (mut storage, records) = log(3);
    let (mut wal, _) = open(&storage);
    let mut bytes = Vec::new();
    assert!(wal.read(&storage, 1, 1, &mut bytes).unwrap());
    assert_eq!(bytes, records[1].bytes);
    for at in 72..block_bytes(&records[1]) {
        let offset = (records[1].lsn.offset() + at) as usize;
        storage.flip(1, offset, 4);
        let outcome = wal.read(&storage, 1, 1, &mut bytes);
        assert!(matches!(outcome, Err(ReadError::Damaged { segment: 1, .. })), "byte {at}: {outcome:?}");
        storage.flip(1, offset, 4);
    }
}

#[test]
fn another_logs_segments_are_refused_by_name() {
    let (storage, _) = log(3);
    let other = Settings { log_id: LOG_ID + 1, ..settings() };
    let outcome = Wal::open(&storage, other, |_| {}).map(|_| ());
    assert!(matches!(outcome, Err(OpenError::ForeignLog { segment: 1, found: LOG_ID, .. })), "{outcome:?}");
}

#[test]
fn a_full_disk_is_survived() {
    let mut storage = MemoryStorage::default();
    storage.set_capacity(3 * 16 * 1024);
    let (mut wal, _) = open(&storage);
    let mut records = Vec::new();
    let refused = loop {
        wal.append(1, Kind::Slot(records.len() as u64), &[7; 3000]);
        let submission = wal.submit().unwrap();
        match submission.perform(&mut storage) {
            Ok(()) => wal.completed(submission.lsn),
            Err(StorageError::NoSpace { segment: 4 }) => break submission,
            Err(error) => panic!("{error}"),
        }
        records.push(submission.lsn);
    };
    wal.release(1, records.len() as u64, Lsn(0));
    assert_eq!(wal.removable(), [1, 2], "the newest durable block stays");
    for segment in [1, 2] {
        storage.remove(segment).unwrap();
    }
    refused.perform(&mut storage).unwrap();
    wal.completed(refused.lsn);
    assert_eq!(open(&storage).1.last().map(|record| record.lsn), Some(refused.lsn));
    assert_eq!(report(&storage).damage, []);
}

#[test]
fn nothing_is_accepted_after_a_failed_sync() {
    let (mut storage, _) = log(3);
    let (mut wal, _) = open(&storage);
    wal.append(1, Kind::State, b"x");
    let submission = wal.submit().unwrap();
    storage.fail_next_sync();
    assert!(matches!(submission.perform(&mut storage), Err(StorageError::Io { action: "sync", .. })));
    assert!(matches!(submission.perform(&mut storage), Err(StorageError::Poisoned)));
    assert!(matches!(storage.sync(), Err(StorageError::Poisoned)));
}
