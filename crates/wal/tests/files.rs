//! The log in a directory.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Random, flush, open, report};
use quorate_wal::file::FileStorage;
use quorate_wal::{Bounds, Damage, Kind, Settings, Storage, StorageError, Wal};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("quorate-wal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Open = fn(&std::path::Path) -> Result<FileStorage, StorageError>;
const WAYS: [(&str, Open); 2] = [("direct", FileStorage::open), ("buffered", FileStorage::open_buffered)];

#[test]
fn what_is_written_is_found_and_old_files_are_used_again() {
    for (name, way) in WAYS {
        let directory = Directory::new(name);
        let mut random = Random(1);
        let mut slot = 0;
        for _ in 0..5 {
            let mut storage = way(&directory.0).unwrap();
            let (mut wal, _) = open(&storage);
            assert_eq!((wal.report().damage.as_slice(), wal.report().torn_bytes), ([].as_slice(), 0));
            let mut expected = Vec::new();
            for _ in 0..30 {
                let bytes: Vec<u8> = (0..random.below(6000)).map(|_| random.next() as u8).collect();
                expected.push(flush(&mut wal, &mut storage, 1, Kind::Slot(slot), &bytes));
                slot += 1;
            }
            drop(storage);
            let mut storage = way(&directory.0).unwrap();
            let (mut wal, found) = open(&storage);
            assert!(found.ends_with(&expected), "{name}");
            let mut bytes = Vec::new();
            assert!(wal.read(&storage, 1, slot - 3, &mut bytes).unwrap());
            assert_eq!(bytes, expected[27].bytes);
            wal.release(1, slot, wal.durable());
            for segment in wal.removable() {
                storage.remove(segment).unwrap();
            }
            assert_eq!(storage.segments().unwrap().len(), 1, "{name}");
        }
        let names = directory.names();
        assert_eq!(names.len(), 3, "one segment, one spare and the bounds: {names:?}");
        assert_eq!(names[1..], ["log-spare.qlog", "log.bounds"]);
        assert_eq!((names[0].len(), names[0].starts_with("log-000000000000000000")), (29, true), "{names:?}");
    }
}

#[test]
fn what_another_thread_writes_is_durable_when_it_says_so() {
    for (name, way) in WAYS {
        let directory = Directory::new(&format!("errand-{name}"));
        let mut storage = way(&directory.0).unwrap();
        let (mut wal, _) = open(&storage);
        // More than one segment, so that one submission is written to several files.
        for slot in 0..9 {
            wal.append(1, Kind::Slot(slot), &[slot as u8; 5000]);
        }
        let submission = wal.submit().unwrap();
        let errand = storage.hand_out(&submission).unwrap().expect("files are worth a thread");
        let segments: std::collections::BTreeSet<_> = submission.writes.iter().map(|block| block.segment()).collect();
        assert!(segments.len() > 1);
        std::thread::spawn(errand).join().unwrap().unwrap();
        wal.completed(submission.lsn);
        let mut bytes = Vec::new();
        assert!(wal.read(&storage, 1, 8, &mut bytes).unwrap());
        assert_eq!(bytes, [8; 5000]);
        let (_, found) = open(&way(&directory.0).unwrap());
        assert_eq!(found.iter().map(|record| record.bytes[0]).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    }
}

/// Bytes that this thread has asked the system for.
fn read_bytes() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn large_blocks_are_read_twice_once_to_be_judged_and_once_to_be_given_back() {
    const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;
    let directory = Directory::new("reads");
    let mut storage = FileStorage::open(&directory.0).unwrap();
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..common::settings() };
    let mut wal = Wal::open(&storage, settings.clone(), |_| {}).unwrap();
    for slot in 0..10 {
        flush(&mut wal, &mut storage, 1, Kind::Slot(slot), &vec![slot as u8; 1_500_000]);
    }
    assert_eq!(wal.size_bytes(), 2 * SEGMENT_BYTES);
    let (before, mut found) = (read_bytes(), 0);
    Wal::open(&storage, settings, |_| found += 1).unwrap();
    let read = read_bytes() - before;
    assert_eq!(found, 10);
    assert!(read <= 4 * SEGMENT_BYTES + 65_536, "{read} bytes were read");
}

#[test]
fn a_record_of_17_mib_fits() {
    let directory = Directory::new("large");
    let mut storage = FileStorage::open(&directory.0).unwrap();
    let (mut wal, _) = open(&storage);
    let large: Vec<u8> = (0..17 * 1024 * 1024u32).map(|at| (at >> 8) as u8).collect();
    flush(&mut wal, &mut storage, 1, Kind::Slot(0), b"before");
    flush(&mut wal, &mut storage, 1, Kind::Slot(1), &large);
    flush(&mut wal, &mut storage, 1, Kind::Slot(2), b"after");
    let (mut wal, found) = open(&FileStorage::open(&directory.0).unwrap());
    assert_eq!((found.len(), &found[1].bytes), (3, &large));
    let mut bytes = Vec::new();
    assert!(wal.read(&storage, 1, 1, &mut bytes).unwrap() && bytes == large);
}

#[test]
fn a_deleted_file_is_noticed() {
    let directory = Directory::new("deleted");
    let mut storage = FileStorage::open(&directory.0).unwrap();
    let (mut wal, _) = open(&storage);
    for slot in 0..12 {
        flush(&mut wal, &mut storage, 1, Kind::Slot(slot), &[1; 3000]);
    }
    assert_eq!(storage.bounds().unwrap(), Bounds { first: 1, last: 3 });
    fs::remove_file(directory.0.join("log-00000000000000000003.qlog")).unwrap();
    let storage = FileStorage::open(&directory.0).unwrap();
    assert_eq!(report(&storage).damage, [Damage::MissingSegment { segment: 3 }]);
    fs::remove_file(directory.0.join("log.bounds")).unwrap();
    let outcome = FileStorage::open(&directory.0).map(|_| ());
    assert!(matches!(outcome, Err(StorageError::Bounds { .. })), "{outcome:?}");
}

#[test]
fn a_bounds_page_that_decays_leaves_the_other_in_force() {
    let directory = Directory::new("bounds");
    let mut storage = FileStorage::open(&directory.0).unwrap();
    for segment in 1..=2 {
        storage.create(segment, 16 * 1024).unwrap();
    }
    let path = directory.0.join("log.bounds");
    let clean = fs::read(&path).unwrap();
    for at in (0..48).chain(4096..4096 + 48) {
        let mut bytes = clean.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let found = FileStorage::open_read_only(&directory.0).unwrap().bounds().unwrap();
        assert_eq!(found, Bounds { first: 1, last: 2 }, "byte {at}");
    }
    let mut bytes = clean.clone();
    (bytes[20], bytes[4096 + 20]) = (!bytes[20], !bytes[4096 + 20]);
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(FileStorage::open(&directory.0), Err(StorageError::Bounds { what: "damaged", .. })));
    // Half of an older turn, as a power cut between the two pages leaves it: the newer one counts.
    fs::write(&path, &clean).unwrap();
    let mut storage = FileStorage::open(&directory.0).unwrap();
    storage.create(3, 16 * 1024).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].copy_from_slice(&clean[4096..]);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(FileStorage::open(&directory.0).unwrap().bounds().unwrap().last, 3);
}

#[test]
fn looking_at_a_log_changes_nothing() {
    let directory = Directory::new("look");
    let mut storage = FileStorage::open(&directory.0).unwrap();
    let (mut wal, _) = open(&storage);
    flush(&mut wal, &mut storage, 1, Kind::State, b"seen");
    drop(storage);
    let read =
        || directory.names().into_iter().map(|name| fs::read(directory.0.join(name)).unwrap()).collect::<Vec<_>>();
    let before = (directory.names(), read());
    let mut storage = FileStorage::open_read_only(&directory.0).unwrap();
    assert_eq!(open(&storage).1[0].bytes, b"seen");
    assert!(matches!(storage.create(9, 16 * 1024), Err(StorageError::Poisoned)));
    assert!(matches!(storage.remove(1), Err(StorageError::Poisoned)));
    assert!(matches!(storage.write(1, 0, &[0; 4096]), Err(StorageError::Poisoned)));
    assert!((directory.names(), read()) == before);
    assert!(FileStorage::open_read_only(&directory.0.join("nowhere")).is_err());
}

#[test]
fn names_that_are_no_segments_are_left_alone() {
    let directory = Directory::new("names");
    fs::create_dir_all(&directory.0).unwrap();
    for name in ["log-1.qlog", "log-0000000000000000000x.qlog", "log-segment.tmp", "notes"] {
        fs::write(directory.0.join(name), b"x").unwrap();
    }
    let storage = FileStorage::open(&directory.0).unwrap();
    assert_eq!(storage.segments().unwrap(), Vec::<u64>::new());
    assert!(directory.names().contains(&"notes".to_owned()));
}
