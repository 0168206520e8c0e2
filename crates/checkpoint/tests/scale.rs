//! What a million small groups cost in the store: by `cargo xtask long checkpoints`.
#![allow(clippy::unwrap_used, reason = "a measurement may stop where it likes")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use quorate_checkpoint::{Batch, FjallSettings, FjallStore, Key, Store};

const VALUE_BYTES: usize = 80;
const LOOKUPS: usize = 20_000;
const BATCH_GROUPS: usize = 10_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Resident memory of this process in MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    files(directory).iter().filter_map(|file| std::fs::metadata(file).ok()).map(|found| found.blocks() * 512).sum()
}

/// Has the kernel forget what it keeps of these files.
fn make_cold(directory: &Path) {
    for file in files(directory) {
        let path = file.display();
        let done = Command::new("dd").args([format!("if={path}"), "iflag=nocache".into(), "count=0".into()]).output();
        assert!(done.unwrap().status.success());
    }
}

fn value(group: u64, round: u64) -> Vec<u8> {
    let mut random = Random(group ^ round << 40);
    // Half of it is the same for every group: members, settings, zeros.
    let mut bytes = vec![0; VALUE_BYTES];
    bytes[..VALUE_BYTES / 2]
        .chunks_mut(8)
        .for_each(|part| part.copy_from_slice(&random.next().to_le_bytes()[..part.len()]));
    bytes
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 1000].as_nanos() as f64 / 1000.0;
    let mean = times.iter().sum::<Duration>().as_nanos() as f64 / 1000.0 / times.len() as f64;
    format!("mean {mean:.1} us, p50 {:.1}, p99 {:.1}, p99.9 {:.1}", at(500), at(990), at(999))
}

/// What is measured where.
struct Measurement {
    groups: u64,
    directory: PathBuf,
    random: Random,
}

impl Measurement {
    fn open(&self) -> FjallStore {
        FjallStore::open(&self.directory, &FjallSettings::default()).unwrap()
    }

    fn tell(&self, what: &str, from: Instant, count: u64) {
        let seconds = from.elapsed().as_secs_f64();
        println!(
            "{what}: {seconds:.2} s, {:.0} groups/s, {} B/group on disk, {} MiB resident",
            count as f64 / seconds,
            disk_bytes(&self.directory) / self.groups,
            resident_mib()
        );
    }

    /// Stores these groups, a batch after the other.
    fn put(&self, what: &str, store: &mut FjallStore, mut groups: impl ExactSizeIterator<Item = u64>, round: u64) {
        let (from, count) = (Instant::now(), groups.len());
        let mut slowest = Duration::ZERO;
        while groups.len() > 0 {
            let mut batch = Batch::new();
            groups.by_ref().take(BATCH_GROUPS).for_each(|group| batch.put_meta(group, value(group, round)));
            let from = Instant::now();
            store.apply(batch).unwrap();
            slowest = slowest.max(from.elapsed());
        }
        self.tell(what, from, count as u64);
        println!("   slowest batch of {BATCH_GROUPS}: {slowest:?}");
    }

    fn look_up(&mut self, what: &str, store: &FjallStore, below: u64) {
        let mut times = Vec::with_capacity(LOOKUPS);
        for _ in 0..LOOKUPS {
            let group = self.random.next() % below;
            let from = Instant::now();
            assert!(store.get(group, Key::Meta).unwrap().is_some());
            times.push(from.elapsed());
        }
        println!("looked up {what}: {}", percentiles(times));
    }

    /// In a process of its own, so that its memory is that of the store.
    fn read(&mut self) {
        make_cold(&self.directory);
        let from = Instant::now();
        let store = self.open();
        self.tell("opened, files cold", from, self.groups);
        make_cold(&self.directory);
        self.look_up("at random, files cold", &store, self.groups);
        let from = Instant::now();
        let mut count = 0;
        store.groups(&mut |_, _| count += 1).unwrap();
        assert_eq!(count, self.groups);
        self.tell("all walked over", from, self.groups);
        self.look_up("at random, files in the page cache", &store, self.groups);
        self.look_up("among 10,000", &store, 10_000);
        let from = Instant::now();
        let absent =
            (self.groups..self.groups + 100_000).filter(|&group| store.get(group, Key::Meta).unwrap().is_some());
        assert_eq!(absent.count(), 0);
        println!("absent ones looked up: {:.2} us", from.elapsed().as_secs_f64() * 10.0);
        drop(store);
        let from = Instant::now();
        drop(self.open());
        self.tell("opened, files in the page cache", from, self.groups);
    }
}

#[test]
#[ignore = "measures for minutes"]
fn very_many_small_groups() {
    let groups = number("QUORATE_GROUPS", 1_000_000);
    let random = Random(1);
    if let Ok(directory) = std::env::var("QUORATE_DIRECTORY") {
        return Measurement { groups, directory: directory.into(), random }.read();
    }
    let scratch = Scratch(std::env::temp_dir().join(format!("quorate-scale-{}", std::process::id())));
    std::fs::create_dir_all(&scratch.0).unwrap();
    let measurement = Measurement { groups, directory: scratch.0.join("checkpoint"), random };
    let mut store = measurement.open();
    measurement.put("created, ascending", &mut store, (0..groups as usize).map(|group| group as u64), 0);
    let mut random = Random(2);
    let again = (0..1_000_000).map(|_| random.next() % groups);
    measurement.put("written again, at random", &mut store, again, 1);
    drop(store);
    let mut reader = Command::new(std::env::current_exe().unwrap());
    reader.args(["--ignored", "--exact", "--nocapture", "very_many_small_groups"]);
    assert!(reader.env("QUORATE_DIRECTORY", &measurement.directory).status().unwrap().success());
}
