//! Bytes that released versions wrote. They are opened for ever; a change of the layout makes a new version.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{LOG_ID, Record, flush, open, settings};
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Kind, Lsn, OpenError, Storage, Wal};
use xxhash_rust::xxh3::xxh3_64;

const VERSION_1: &str = include_str!("golden/version-1.hex");

/// Three blocks in two lives of a log.
fn write(storage: &mut MemoryStorage) -> Vec<Record> {
    let (mut wal, _) = open(storage);
    wal.append(7, Kind::Slot(42), b"accepted");
    wal.append(u64::MAX, Kind::State, b"");
    let submission = wal.submit().unwrap();
    submission.perform(storage).unwrap();
    wal.completed(submission.lsn);
    let lsn = submission.lsn;
    let second = flush(&mut wal, storage, 7, Kind::State, b"promised");
    let (mut wal, _) = open(storage);
    let third = flush(&mut wal, storage, 7, Kind::Slot(43), b"after a restart");
    vec![
        Record { lsn, group: 7, kind: Kind::Slot(42), bytes: b"accepted".to_vec() },
        Record { lsn, group: u64::MAX, kind: Kind::State, bytes: Vec::new() },
        second,
        third,
    ]
}

/// The pages of segment 1, 32 bytes a line, zero lines left out.
fn hex(storage: &MemoryStorage) -> String {
    let mut bytes = vec![0; storage.length(1).unwrap() as usize];
    storage.read(1, 0, &mut bytes).unwrap();
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(32).enumerate().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)) {
        write!(text, "{:04x} ", line * 32).unwrap();
        bytes.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

fn parse(hex: &str) -> MemoryStorage {
    let mut bytes = vec![0; 16 * 1024];
    for line in hex.lines() {
        let (offset, digits) = line.split_once(' ').unwrap();
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for at in 0..digits.len() / 2 {
            bytes[offset + at] = u8::from_str_radix(&digits[at * 2..][..2], 16).unwrap();
        }
    }
    storage_of(&bytes)
}

fn storage_of(bytes: &[u8]) -> MemoryStorage {
    let mut storage = MemoryStorage::default();
    storage.create(1, bytes.len() as u64).unwrap();
    storage.write(1, 0, bytes).unwrap();
    storage.sync().unwrap();
    storage
}

#[test]
fn version_1_is_written_as_it_always_was() {
    let mut storage = MemoryStorage::default();
    write(&mut storage);
    let written = hex(&storage);
    if std::env::var_os("QUORATE_BLESS").is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-1.hex"), &written).unwrap();
    }
    assert_eq!(written, VERSION_1, "the layout changed: give it a new version and keep the old file");
}

#[test]
fn version_1_is_read() {
    let expected = write(&mut MemoryStorage::default());
    let (mut wal, found) = open(&parse(VERSION_1));
    assert_eq!(found, expected);
    assert_eq!((wal.report().damage.len(), wal.report().torn_bytes, wal.durable()), (0, 0, Lsn((1 << 32) + 8192)));
    assert_eq!(wal.slots(7), Some(42..44));
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let storage = parse(VERSION_1);
    let mut bytes = vec![0; 16 * 1024];
    storage.read(1, 0, &mut bytes).unwrap();
    bytes[4096 + 12] = 2;
    let torn = Wal::open(&storage_of(&bytes), settings(), |_| {}).map(|wal| wal.durable());
    assert!(torn.is_ok(), "a flipped bit is not a newer version: {torn:?}");
    let length = u32::from_le_bytes(*bytes[4096 + 64..].first_chunk().unwrap()) as usize;
    let checksum = xxh3_64(&bytes[4096 + 8..4096 + length]);
    bytes[4096..4096 + 8].copy_from_slice(&checksum.to_le_bytes());
    let outcome = Wal::open(&storage_of(&bytes), settings(), |_| {}).map(|_| ());
    assert!(matches!(outcome, Err(OpenError::NewerVersion { segment: 1, found: 2, known: 1 })), "{outcome:?}");
    assert_eq!(settings().log_id, LOG_ID);
}
