//! What the log takes in memory for each group, counted at the allocator. One test: the count is of the whole process.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::LOG_ID;
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Kind, Lsn, Settings, Storage, Wal};

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is the system's own with the same arguments; counting neither allocates nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The tables are as empty as with a million: they have just grown.
const GROUPS: u64 = 250_000;

/// Every group logs a record, and what was logged is made durable. How much the log has grown in memory, a group.
fn log_one_each(wal: &mut Wal, storage: &mut MemoryStorage, kind: Kind) -> f64 {
    let flush = |wal: &mut Wal, storage: &mut MemoryStorage| {
        let submission = wal.submit().unwrap();
        // The medium is memory here, and is not what is measured: nothing is written.
        submission.create.iter().for_each(|creation| storage.create(creation.segment, 4096).unwrap());
        let lsn = submission.lsn;
        drop(submission);
        wal.completed(lsn);
    };
    let before = ALLOCATED.load(Ordering::Relaxed);
    for group in 0..GROUPS {
        wal.append(group << 20, kind, &[1; 40]);
        if group % 1000 == 999 {
            flush(wal, storage);
        }
    }
    (ALLOCATED.load(Ordering::Relaxed) - before) as f64 / GROUPS as f64
}

#[test]
fn a_group_costs_a_few_bytes_while_it_has_records_and_nothing_afterwards() {
    let mut storage = MemoryStorage::default();
    let mut wal = Wal::open(&storage, Settings::new(LOG_ID), |_| {}).unwrap();
    let empty = ALLOCATED.load(Ordering::Relaxed);
    let told = |wal: &mut Wal| wal.statistics().index_bytes as f64 / GROUPS as f64;

    let first = log_one_each(&mut wal, &mut storage, Kind::Slot(1));
    println!("one record a group: {first:.1} B, told as {:.1}", told(&mut wal));
    assert!(first < 40.0, "one record costs {first} bytes a group");
    assert!((0.95..1.05).contains(&(told(&mut wal) / first)), "told as {}", told(&mut wal));

    let again = log_one_each(&mut wal, &mut storage, Kind::Slot(1));
    assert!(again.abs() < 1.0, "a record in the place of another one costs {again} bytes");

    let second = log_one_each(&mut wal, &mut storage, Kind::Slot(2));
    let third = log_one_each(&mut wal, &mut storage, Kind::State);
    println!("three records a group: {:.1} B, told as {:.1}", first + second + third, told(&mut wal));
    assert!(second + third < 72.0, "two more records cost {second} and {third} bytes");

    let fourth = log_one_each(&mut wal, &mut storage, Kind::Slot(3));
    let (all, told_of_all) = (first + second + third + fourth, told(&mut wal));
    println!("four records a group: {all:.1} B, told as {told_of_all:.1}");
    assert!((0.8..1.2).contains(&(told_of_all / all)), "{all} bytes are told as {told_of_all}");

    assert!(all < 180.0, "four records cost {all} bytes");
    for group in 0..GROUPS {
        wal.release(group << 20, 4, wal.durable());
        if let Some(submission) = (group % 1000 == 999).then(|| wal.submit()).flatten() {
            let lsn = submission.lsn;
            drop(submission);
            wal.completed(lsn);
        }
    }
    let removed = wal.removable().len();
    assert!(removed > 0, "no segment could go");
    let left = ALLOCATED.load(Ordering::Relaxed).saturating_sub(empty);
    println!("nothing that is needed: {left} B for all groups together");
    assert!(left < 500_000, "{left} bytes are left for {GROUPS} groups of which nothing is needed");
    assert_eq!((wal.statistics().group_count, wal.statistics().live_bytes), (0, 0));
    assert_eq!(wal.slots(7 << 20), None);
    wal.release(7 << 20, 4, Lsn(0));
}
