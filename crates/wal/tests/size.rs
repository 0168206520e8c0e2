//! The size of the log while one group writes much and very many others write once each: it stays below three times what
//! is needed, and four segments.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::LOG_ID;
use quorate_wal::file::FileStorage;
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Kind, Lsn, SEGMENT_BYTES_MIN, Settings, Storage, Wal};

const HOT: u64 = u64::MAX / 2;
const RARE_RECORD_BYTES: usize = 100;
const RECORD_HEADER_BYTES: u64 = 24;
/// Every so many rare groups have accepted something that is not decided for long: no checkpoint covers it.
const STUCK_EVERY: u64 = 100;
/// Turns that a checkpoint takes to be stored.
const STORE_TURNS: u64 = 5;
const GROUPS_PER_TURN: usize = 256;

/// What is written, and by how many.
struct Work {
    hot_bytes: u64,
    hot_record_bytes: usize,
    hot_records_per_turn: u64,
    rare_groups: u64,
    settings: Settings,
}

/// A host that does with the log what the node's does, and knows exactly what is needed.
struct Host<'a, S> {
    work: &'a Work,
    storage: S,
    wal: Wal,
    turn: u64,
    hot_slot: u64,
    hot_released: u64,
    /// Groups whose checkpoints are being stored: when they are, and below which slot.
    storing: VecDeque<(u64, u64, u64)>,
    being_stored: BTreeSet<u64>,
    live_bytes: u64,
    rare_next: u64,
    carried: BTreeMap<u64, u64>,
    sizes_max: u64,
}

impl<S: Storage> Host<'_, S> {
    fn turn(&mut self) {
        self.turn += 1;
        let record = vec![7; self.work.hot_record_bytes];
        for _ in 0..self.work.hot_records_per_turn {
            self.wal.append(HOT, Kind::Slot(self.hot_slot), &record);
            self.live_bytes += record.len() as u64 + RECORD_HEADER_BYTES;
            self.hot_slot += 1;
        }
        let hot_written = self.hot_slot * record.len() as u64;
        let hot_written = hot_written.min(self.work.hot_bytes);
        while self.rare_next < self.work.rare_groups * hot_written / self.work.hot_bytes {
            self.wal.append(self.rare_next, Kind::Slot(0), &[9; RARE_RECORD_BYTES]);
            self.live_bytes += RARE_RECORD_BYTES as u64 + RECORD_HEADER_BYTES;
            self.rare_next += 1;
        }
        // As often as the node's host does: a quarter of a segment here, 16 MiB there.
        if (self.hot_slot - self.hot_released) * record.len() as u64 >= self.work.settings.segment_bytes / 4 {
            self.checkpoint(HOT, self.hot_slot);
        }
        self.flush();
        self.finish_checkpoints();
        self.relieve();
        for segment in self.wal.removable() {
            self.storage.remove(segment).unwrap();
        }
    }

    fn flush(&mut self) {
        let submission = self.wal.submit().unwrap();
        submission.perform(&mut self.storage).unwrap();
        self.wal.completed(submission.lsn);
    }

    fn checkpoint(&mut self, group: u64, below: u64) {
        if self.being_stored.insert(group) {
            self.storing.push_back((self.turn + STORE_TURNS, group, below));
        }
    }

    fn finish_checkpoints(&mut self) {
        while self.storing.front().is_some_and(|(due, ..)| *due <= self.turn) {
            let Some((_, group, below)) = self.storing.pop_front() else { break };
            self.being_stored.remove(&group);
            self.wal.release(group, below, Lsn(0));
            self.live_bytes -= match group {
                HOT => (below - self.hot_released) * (self.work.hot_record_bytes as u64 + RECORD_HEADER_BYTES),
                _ => RARE_RECORD_BYTES as u64 + RECORD_HEADER_BYTES,
            };
            if group == HOT {
                self.hot_released = below;
            }
        }
    }

    fn relieve(&mut self) {
        if !self.wal.needs_relief() {
            return;
        }
        for group in self.wal.pinning(GROUPS_PER_TURN) {
            if group == HOT {
                self.checkpoint(HOT, self.hot_slot);
            } else if group % STUCK_EVERY == 0 {
                assert!(self.wal.carry(&self.storage, group).unwrap() > 0);
                *self.carried.entry(group).or_default() += 1;
            } else {
                self.checkpoint(group, 1);
            }
        }
    }
}

/// Does the work; `size` is what the log takes on its medium.
fn run<S: Storage>(work: &Work, storage: S, size: impl Fn(&S) -> u64, mut told: impl FnMut(&mut Host<S>, u64)) {
    let wal = Wal::open(&storage, work.settings.clone(), |_| {}).unwrap();
    let mut host = Host {
        work,
        storage,
        wal,
        turn: 0,
        hot_slot: 0,
        hot_released: 0,
        storing: VecDeque::new(),
        being_stored: BTreeSet::new(),
        live_bytes: 0,
        rare_next: 0,
        carried: BTreeMap::new(),
        sizes_max: 0,
    };
    while host.hot_slot * (work.hot_record_bytes as u64) < work.hot_bytes {
        host.turn();
        let size = size(&host.storage);
        host.sizes_max = host.sizes_max.max(size);
        let most = 3 * host.live_bytes + 4 * work.settings.segment_bytes;
        assert!(size <= most, "{size} bytes, at most {most}; {:?}", host.wal.statistics());
        let estimate = host.wal.statistics().live_bytes as f64 / host.live_bytes.max(1) as f64;
        assert!((0.75..1.3).contains(&estimate), "{} bytes are told as {estimate} of that", host.live_bytes);
        told(&mut host, size);
    }
    assert_eq!(host.rare_next, work.rare_groups);
    let carried = host.carried.len() as u64;
    assert!(carried > work.rare_groups / STUCK_EVERY / 2, "records of only {carried} groups were carried on");
    open_again(host);
}

/// Opening the log finds all that is needed, and says of nothing else that it is.
fn open_again<S: Storage>(mut host: Host<'_, S>) {
    host.turn = u64::MAX;
    host.finish_checkpoints();
    // The notes of the last releases go with a block.
    host.wal.append(HOT, Kind::Slot(host.hot_slot), &[]);
    host.flush();
    let Host { work, storage, mut wal, hot_slot, hot_released, .. } = host;
    let statistics = wal.statistics();
    let mut needed = BTreeSet::new();
    let began = Instant::now();
    let again = Wal::open(&storage, work.settings.clone(), |record| {
        if record.is_needed {
            needed.insert((record.group, record.kind));
        }
    });
    let mut again = again.unwrap();
    let found = again.statistics();
    println!(
        "opened in {:?}: {} records, {} of them needed",
        began.elapsed(),
        again.report().record_count,
        needed.len()
    );
    assert_eq!((found.live_bytes, found.group_count), (statistics.live_bytes, statistics.group_count));
    for slot in hot_released..hot_slot {
        assert!(needed.contains(&(HOT, Kind::Slot(slot))), "slot {slot} is lost");
    }
    let mut bytes = Vec::new();
    for group in (0..work.rare_groups).step_by(STUCK_EVERY as usize) {
        assert!(again.read(&storage, group, 0, &mut bytes).unwrap(), "the record of group {group} is lost");
        assert_eq!(bytes, [9; RARE_RECORD_BYTES]);
    }
}

#[test]
fn the_log_stays_small_however_rare_the_groups_are_that_pin_it() {
    let segment_bytes = 16 * SEGMENT_BYTES_MIN;
    let settings = Settings {
        segment_bytes,
        slack_bytes: 2 * segment_bytes,
        size_bytes_max: 8 * segment_bytes,
        ..Settings::new(LOG_ID)
    };
    let work =
        Work { hot_bytes: 40 << 20, hot_record_bytes: 4096, hot_records_per_turn: 4, rare_groups: 20_000, settings };
    let size = |storage: &MemoryStorage| {
        let segments = storage.segments().unwrap();
        // And the spare.
        segments.iter().map(|segment| storage.length(*segment).unwrap()).sum::<u64>() + segment_bytes
    };
    run(&work, MemoryStorage::default(), size, |_, _| {});
}

/// Nobody reads, releases or asks for statistics meanwhile.
#[test]
fn what_supersedes_itself_calls_for_relief() {
    let segment_bytes = 4 * SEGMENT_BYTES_MIN;
    let settings = Settings { segment_bytes, slack_bytes: 2 * segment_bytes, ..Settings::new(LOG_ID) };
    let mut storage = MemoryStorage::default();
    let mut wal = Wal::open(&storage, settings, |_| {}).unwrap();
    let mut append = |group, bytes: &[u8]| {
        wal.append(group, Kind::State, bytes);
        let submission = wal.submit().unwrap();
        submission.perform(&mut storage).unwrap();
        wal.completed(submission.lsn);
        wal.needs_relief()
    };
    append(0, b"pins the first segment");
    let state = vec![7; SEGMENT_BYTES_MIN as usize / 2];
    let calls = (0..100).position(|_| append(HOT, &state)).expect("more than what is needed, doubled, and the slack");
    assert!(calls >= 8, "after {calls}, before the slack is used up");
}

/// By `cargo xtask long log`: 10 GB of one group while each of a million others writes once, on a real disk.
#[test]
#[ignore = "writes as much as a disk takes in minutes"]
fn ten_gigabytes_while_a_million_groups_write_once() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let work = Work {
        hot_bytes: number("QUORATE_GIGABYTES", 10) * 1_000_000_000,
        hot_record_bytes: 16 << 10,
        hot_records_per_turn: 64,
        rare_groups: number("QUORATE_GROUPS", 1_000_000),
        settings: Settings::new(LOG_ID),
    };
    let directory = Scratch(std::env::temp_dir().join(format!("quorate-log-{}", std::process::id())));
    let storage = FileStorage::open(&directory.0).unwrap();
    let (began, mut told_at) = (Instant::now(), Duration::ZERO);
    let mib = |bytes: u64| bytes >> 20;
    let tell = |host: &mut Host<FileStorage>, size: u64| {
        if began.elapsed() >= told_at {
            told_at += Duration::from_secs(1);
            let statistics = host.wal.statistics();
            println!(
                "{:>3} s: {:>5} MiB written, {:>7} rare groups; on disk {:>3} MiB in {} segments, needed {:>2} MiB of {:>6} groups; index {:>5} KiB, carried {} KiB",
                told_at.as_secs() - 1,
                mib(statistics.written_bytes),
                host.rare_next,
                mib(size),
                statistics.segment_count,
                mib(host.live_bytes),
                statistics.group_count,
                statistics.index_bytes >> 10,
                statistics.carried_bytes >> 10,
            );
        }
    };
    run(&work, storage, |_| on_disk(&directory.0), tell);
    println!("{} s in all", began.elapsed().as_secs());
}

fn on_disk(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap();
    // A file may have been renamed between the two looks.
    entries.filter_map(|entry| entry.unwrap().metadata().ok()).map(|found| found.len()).sum()
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
