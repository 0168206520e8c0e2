//! What it takes to read all of a store.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use std::fs;
use std::path::Path;

use quorate_checkpoint::{Batch, FjallSettings, FjallStore, Store};

const GROUPS: u64 = 16;
const ROUNDS: u64 = 6;
const VALUE_BYTES: usize = 1024 * 1024;

/// Bytes that this thread has asked the system for.
fn read_bytes() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..VALUE_BYTES).map(|_| next()).collect()
}

fn fill(directory: &Path, settings: &FjallSettings) {
    let mut store = FjallStore::open(directory, settings).unwrap();
    for round in 0..ROUNDS {
        for group in 0..GROUPS {
            let mut batch = Batch::new();
            batch.put_meta(group, round.to_le_bytes().to_vec());
            batch.put_object(group, &round.to_be_bytes(), noise(round * GROUPS + group));
            store.apply(batch).unwrap();
        }
    }
}

#[test]
fn a_walk_reads_large_values_once() {
    let directory = std::env::temp_dir().join(format!("quorate-checkpoint-reads-{}", std::process::id()));
    // Nothing that was read once is found again in memory.
    let settings = FjallSettings { cache_bytes: 1024 * 1024, ..FjallSettings::default() };
    fill(&directory, &settings);
    let store = FjallStore::open(&directory, &settings).unwrap();
    let before = read_bytes();
    let (mut walk, mut objects) = (store.walk_from(0), 0);
    while let Some((group, meta)) = walk.next_group().unwrap() {
        assert_eq!(meta, (ROUNDS - 1).to_le_bytes());
        let mut each = |name: &[u8], value: &[u8]| {
            let round = u64::from_be_bytes(name.try_into().unwrap());
            assert!(value == noise(round * GROUPS + group), "group {group}, round {round}");
            objects += 1;
            true
        };
        walk.objects(&mut each).unwrap();
    }
    drop(walk);
    let (read, stored) = (read_bytes() - before, GROUPS * ROUNDS * VALUE_BYTES as u64);
    assert_eq!(objects, GROUPS * ROUNDS);
    assert!(read < stored + stored / 4, "{read} bytes were read for the {stored} that are stored");
    drop(store);
    let _ = fs::remove_file(FjallStore::count_path(&directory));
    let _ = fs::remove_dir_all(&directory);
}
