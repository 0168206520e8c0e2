//! Every byte of a small log, one flipped bit at a time: what a block held is not applied and its place is told, or the
//! byte meant nothing.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use common::{Record, flush, open};
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Damage, Kind, Lsn, PAGE_BYTES, Storage};

const SEGMENT_BYTES: usize = 16 * 1024;
const HEADER_BYTES: usize = 72;
const RECORD_HEADER_BYTES: usize = 24;

/// Blocks of one and of several pages, of one record and of three, in two segments; the last one is vouched for.
fn log() -> (MemoryStorage, Vec<Vec<Record>>) {
    let mut storage = MemoryStorage::default();
    let (mut wal, _) = open(&storage);
    let mut blocks = Vec::new();
    for (number, length) in [30, 5000, 100, 0, 3000, 700].into_iter().enumerate() {
        let mut block = Vec::new();
        if number % 2 == 0 {
            for group in [7, 8] {
                wal.append(group, Kind::State, b"some state");
                block.push((group, Kind::State, b"some state".to_vec()));
            }
        }
        let (group, kind, bytes) = (number as u64, Kind::Slot(number as u64), vec![number as u8; length]);
        let lsn = flush(&mut wal, &mut storage, group, kind, &bytes).lsn;
        block.push((group, kind, bytes));
        blocks.push(block.into_iter().map(|(group, kind, bytes)| Record { lsn, group, kind, bytes }).collect());
    }
    wal.vouch();
    let submission = wal.submit().expect("an empty block");
    submission.perform(&mut storage).unwrap();
    wal.completed(submission.lsn);
    wal.vouch();
    assert!(wal.submit().is_none(), "what is vouched for need not be vouched for again");
    (storage, blocks)
}

/// Where a block's bytes lie that mean something.
fn extent(block: &[Record]) -> (u64, usize, usize) {
    let lsn = block[0].lsn;
    let length = HEADER_BYTES + block.iter().map(|record| RECORD_HEADER_BYTES + record.bytes.len()).sum::<usize>();
    (lsn.segment(), lsn.offset() as usize, lsn.offset() as usize + length)
}

fn assert_noticed(storage: &MemoryStorage, blocks: &[Vec<Record>], hit: usize, at: (u64, usize, u8)) {
    let (wal, found) = open(storage);
    let expected: Vec<Record> =
        blocks.iter().enumerate().filter(|(number, _)| *number != hit).flat_map(|(_, block)| block.clone()).collect();
    assert_eq!(found, expected, "{at:?}");
    let report = wal.report();
    let lsn = blocks[hit][0].lsn;
    let named = |damage: &Damage| matches!(damage, Damage::Unreadable { from, to } if *from <= lsn && lsn < *to);
    assert_eq!(report.damage.iter().filter(|damage| named(damage)).count(), 1, "{at:?}: {:?}", report.damage);
    assert_eq!((report.damage.len(), report.torn_bytes), (1, 0), "{at:?}");
    let end = report.damage[0].end();
    let next = blocks.get(hit + 1).map_or(Lsn(u64::MAX), |block| block[0].lsn);
    assert!(end <= next, "{at:?}: {end:?} reaches into the block at {next:?}");
    // Records before the flipped bit can still be made out, if the bit is in none of their own bytes.
    let groups: Vec<u64> = blocks[hit].iter().map(|record| record.group).collect();
    assert!(report.groups_made_out.iter().all(|group| groups.contains(group)), "{at:?}: {:?}", report.groups_made_out);
    let in_header = at.1 < blocks[hit][0].lsn.offset() as usize + HEADER_BYTES;
    if in_header {
        assert!(groups.iter().all(|group| report.groups_made_out.contains(group)), "{at:?}");
    }
}

#[test]
fn no_byte_can_change_unnoticed() {
    let (clean, blocks) = log();
    let (all, end) = (blocks.concat(), blocks.last().map(|block| extent(block)).unwrap());
    assert_eq!(end.0, 2, "two segments");
    let mut counts = (0, 0);
    for segment in 1..=2 {
        for at in 0..SEGMENT_BYTES {
            let block_at = |at: usize| {
                blocks.iter().position(|block| {
                    let (of, from, to) = extent(block);
                    of == segment && (from..to).contains(&at)
                })
            };
            let hit = block_at(at);
            let in_header = hit.is_some_and(|block| at < extent(&blocks[block]).1 + HEADER_BYTES);
            // Every bit of a header, one of each other byte.
            let bits = if in_header { 0..8 } else { at as u32 % 8..at as u32 % 8 + 1 };
            for bit in bits {
                let mut storage = clean.clone();
                storage.flip(segment, at, 1 << bit);
                match hit {
                    Some(hit) => assert_noticed(&storage, &blocks, hit, (segment, at, bit as u8)),
                    None => {
                        // Padding, or the block that only vouches, or what was never written.
                        let (wal, found) = open(&storage);
                        assert_eq!(
                            (found, wal.report().damage.as_slice()),
                            (all.clone(), [].as_slice()),
                            "{segment} {at}"
                        );
                    }
                }
                counts = if hit.is_some() { (counts.0 + 1, counts.1) } else { (counts.0, counts.1 + 1) };
            }
        }
    }
    assert!(counts.0 > 9_000 && counts.1 > 9_000, "{counts:?}");
}

#[test]
fn what_nobody_vouches_for_is_a_torn_tail() {
    let mut storage = MemoryStorage::default();
    let (mut wal, _) = open(&storage);
    let kept = flush(&mut wal, &mut storage, 1, Kind::Slot(0), b"kept");
    let last = flush(&mut wal, &mut storage, 1, Kind::Slot(1), b"last");
    let mut torn = storage.clone();
    torn.flip(1, last.lsn.offset() as usize + HEADER_BYTES, 1);
    let (wal_of_torn, found) = open(&torn);
    assert_eq!(found, std::slice::from_ref(&kept));
    assert_eq!(wal_of_torn.report().damage, []);
    assert!(wal_of_torn.report().torn_bytes > 0);
    // The same once an empty block vouches for it.
    wal.vouch();
    wal.submit().unwrap().perform(&mut storage).unwrap();
    assert_eq!(storage.length(1).unwrap() as usize, SEGMENT_BYTES);
    storage.flip(1, last.lsn.offset() as usize + HEADER_BYTES, 1);
    let (wal, found) = open(&storage);
    assert_eq!(found, [kept]);
    let to = Lsn(last.lsn.0 + PAGE_BYTES as u64);
    assert_eq!(wal.report().damage, [Damage::Unreadable { from: last.lsn, to }]);
}
