//! What the log costs: `cargo run --release -p quorate-wal --example cost -- [DIRECTORY]`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use quorate_wal::file::FileStorage;
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Kind, Lsn, Settings, Storage, Wal};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for group_count in [1, 1_000, 1_000_000] {
        append_and_submit(group_count)?;
    }
    if let Some(directory) = std::env::args().nth(1) {
        flushes(&PathBuf::from(directory))?;
    }
    Ok(())
}

/// Batches of 64 records of 100 bytes, round-robin over groups; every group is checkpointed when it has 100 slots.
fn append_and_submit(group_count: u64) -> Result<(), Box<dyn std::error::Error>> {
    const BATCH: u64 = 64;
    let storage = MemoryStorage::default();
    let mut wal = Wal::open(&storage, Settings::new(1), |_| {})?;
    let (mut appending, mut submitting) = (Duration::ZERO, Duration::ZERO);
    let batches = 100_000;
    for batch in 0..batches {
        let start = Instant::now();
        for record in batch * BATCH..(batch + 1) * BATCH {
            wal.append(record % group_count, Kind::Slot(record / group_count), &[1; 100]);
        }
        let appended = Instant::now();
        let submission = wal.submit().ok_or("something was appended")?;
        let lsn = submission.lsn;
        drop(submission);
        wal.completed(lsn);
        appending += appended - start;
        submitting += appended.elapsed();
        let slot = batch * BATCH / group_count;
        if slot % 100 == 99 && group_count < BATCH {
            (0..group_count).for_each(|group| wal.release(group, slot, Lsn(0)));
        }
        wal.removable();
    }
    let append_ns = appending.as_nanos() / u128::from(batches * BATCH);
    let submit_ns = submitting.as_nanos() / u128::from(batches);
    println!(
        "{group_count:>9} groups: append {append_ns} ns, submit and complete {submit_ns} ns (64 records of 100 B)"
    );
    Ok(())
}

/// Flushes of one small record each, one after the other.
fn flushes(directory: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut storage = FileStorage::open(directory)?;
    let mut wal = Wal::open(&storage, Settings::new(1), |_| {})?;
    let mut times: Vec<Duration> = Vec::new();
    for slot in 0..20_000 {
        wal.append(1, Kind::Slot(slot), &[1; 100]);
        let start = Instant::now();
        let submission = wal.submit().ok_or("something was appended")?;
        submission.perform(&mut storage)?;
        times.push(start.elapsed());
        wal.completed(submission.lsn);
    }
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    println!("flush: p50 {:?}, p99 {:?}, max {:?}, direct {}", at(0.5), at(0.99), at(0.9999), storage.is_direct());
    println!("segments: {:?}", storage.bounds()?);
    Ok(())
}
