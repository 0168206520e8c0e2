//! What the tests of the log share.
#![allow(dead_code, reason = "each test file uses its part")]

use quorate_wal::{Kind, Lsn, OpenReport, Settings, Storage, Wal};

pub(crate) const LOG_ID: u64 = 0x0123_4567_89ab_cdef;

/// splitmix64: short, and the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) lsn: Lsn,
    pub(crate) group: u64,
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn settings() -> Settings {
    Settings { segment_bytes: 16 * 1024, slack_bytes: 48 * 1024, size_bytes_max: 128 * 1024, ..Settings::new(LOG_ID) }
}

pub(crate) fn open(storage: &impl Storage) -> (Wal, Vec<Record>) {
    let (wal, records, _) = open_told(storage);
    (wal, records)
}

/// As [`open`]; also which of the records are said to be needed.
pub(crate) fn open_told(storage: &impl Storage) -> (Wal, Vec<Record>, Vec<bool>) {
    let (mut records, mut needed) = (Vec::new(), Vec::new());
    let wal = Wal::open(storage, settings(), |found| {
        let (lsn, group, kind) = (found.lsn, found.group, found.kind);
        records.push(Record { lsn, group, kind, bytes: found.bytes.to_vec() });
        needed.push(found.is_needed);
    });
    (wal.expect("the medium can be read"), records, needed)
}

pub(crate) fn report(storage: &impl Storage) -> OpenReport {
    open(storage).0.report().clone()
}

/// Appends one record and makes it durable.
pub(crate) fn flush(wal: &mut Wal, storage: &mut impl Storage, group: u64, kind: Kind, bytes: &[u8]) -> Record {
    wal.append(group, kind, bytes);
    let submission = wal.submit().expect("something was appended");
    submission.perform(storage).expect("the medium works");
    wal.completed(submission.lsn);
    assert_eq!(wal.durable(), wal.appended());
    Record { lsn: submission.lsn, group, kind, bytes: bytes.to_vec() }
}
