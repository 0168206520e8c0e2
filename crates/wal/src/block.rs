//! The layout of the log: one block a flush, records inside. Everything is little-endian.
//!
//! ```text
//! block   0 checksum   u64  xxh3-64 of everything that follows, up to `length`
//!         8 magic      "QLOG"
//!        12 version    u16
//!        14 reserved   u16  0
//!        16 log id     u64  random per log: foreign bytes never pass
//!        24 lsn        u64  its own address: bytes of a recycled segment never pass
//!        32 previous   u64  lsn of the block before it: a missing block is noticed
//!        40 durable    u64  newest lsn known to be durable when this was written: tells damage from a torn tail
//!        48 cut        u64  when the log was last opened: the last block that was accepted,
//!        56 resumed    u64    and where writing went on. What lies between them is void
//!        64 length     u32  of header and records; then zeros up to a page
//!        68 count      u32  of records
//!        72 records
//! record  0 checksum   u32  low half of the xxh3-64 of everything that follows
//!         4 length     u32  of the bytes
//!         8 group      u64  2^64 - 2: a note of what was released (`releases.rs`)
//!        16 slot       u64  all ones: a state record
//!        24 bytes
//! ```
//!
//! Every later version keeps the meaning of the first 32 bytes and of `length`, so that a newer block is recognised as
//! whole and newer, and refused by name. A record has a checksum of its own because it is read alone for a peer that
//! catches up, perhaps months after the block was verified.

use xxhash_rust::xxh3::xxh3_64;

use crate::{Kind, Lsn};

pub(crate) const HEADER_BYTES: usize = 72;
pub(crate) const RECORD_HEADER_BYTES: usize = 24;
/// The version this release writes. It reads all from 1 on.
pub const FORMAT_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"QLOG";
const SLOT_OF_STATE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u16,
    pub(crate) log_id: u64,
    pub(crate) lsn: Lsn,
    pub(crate) previous: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) life: Life,
    pub(crate) length: u32,
    pub(crate) count: u32,
}

/// The time between an opening of the log and the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// The last block that was accepted when the log was opened.
    pub(crate) cut: Lsn,
    /// Where writing went on. Blocks between `cut` and `resumed` were torn away and stay so.
    pub(crate) resumed: Lsn,
}

impl Life {
    pub(crate) fn voids(self, lsn: Lsn) -> bool {
        self.cut < lsn && lsn < self.resumed
    }
}

impl Header {
    /// Whether a log could have written this here: what a block names lies before it. One that does not would void, or
    /// vouch for, what is written later.
    pub(crate) fn is_coherent(&self) -> bool {
        let Life { cut, resumed } = self.life;
        self.previous < self.lsn && self.durable < self.lsn && cut < resumed && resumed <= self.lsn
    }
}

/// Fills in the header of a block whose records are in place, and the checksum over all of it.
pub(crate) fn seal(block: &mut [u8], header: &Header) {
    debug_assert_eq!(block.len(), header.length as usize);
    block[8..12].copy_from_slice(&MAGIC);
    block[12..14].copy_from_slice(&header.version.to_le_bytes());
    block[14..16].fill(0);
    let fields =
        [header.log_id, header.lsn.0, header.previous.0, header.durable.0, header.life.cut.0, header.life.resumed.0];
    for (at, field) in block[16..64].chunks_exact_mut(8).zip(fields) {
        at.copy_from_slice(&field.to_le_bytes());
    }
    block[64..68].copy_from_slice(&header.length.to_le_bytes());
    block[68..72].copy_from_slice(&header.count.to_le_bytes());
    let checksum = xxh3_64(&block[8..]);
    block[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// What the bytes at `lsn` claim to be, if they claim to be a block that belongs there. Not yet believed: see
/// [`is_whole`].
pub(crate) fn claimed(bytes: &[u8], lsn: Lsn) -> Option<Header> {
    let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    if header[8..12] != MAGIC || u64_at(header, 24) != lsn.0 {
        return None;
    }
    let length = u32_at(header, 64);
    (length as usize >= HEADER_BYTES).then(|| Header {
        version: u16::from_le_bytes([header[12], header[13]]),
        log_id: u64_at(header, 16),
        lsn,
        previous: Lsn(u64_at(header, 32)),
        durable: Lsn(u64_at(header, 40)),
        life: Life { cut: Lsn(u64_at(header, 48)), resumed: Lsn(u64_at(header, 56)) },
        length,
        count: u32_at(header, 68),
    })
}

/// Whether `block`, of exactly the claimed length, is what was written.
pub(crate) fn is_whole(block: &[u8]) -> bool {
    block.len() >= HEADER_BYTES && u64_at(block, 0) == xxh3_64(&block[8..])
}

/// The header of a record, but for its checksum.
pub(crate) fn record_header(group: u64, kind: Kind, length: usize) -> [u8; RECORD_HEADER_BYTES] {
    let mut header = [0; RECORD_HEADER_BYTES];
    header[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    header[8..16].copy_from_slice(&group.to_le_bytes());
    header[16..24].copy_from_slice(&slot_of(kind).to_le_bytes());
    header
}

/// Completes a record, which is its header and its bytes.
pub(crate) fn seal_record(record: &mut [u8]) {
    let checksum = xxh3_64(&record[4..]) as u32;
    record[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The header of a record: how many bytes follow it, whose it is and what.
pub(crate) fn record_claimed(header: &[u8; RECORD_HEADER_BYTES]) -> (usize, u64, Kind) {
    let kind = match u64_at(header, 16) {
        SLOT_OF_STATE => Kind::State,
        slot => Kind::Slot(slot),
    };
    (u32_at(header, 4) as usize, u64_at(header, 8), kind)
}

/// Whether header and bytes of a record are what was written.
pub(crate) fn record_is_whole(record: &[u8]) -> bool {
    record.len() >= RECORD_HEADER_BYTES && u32_at(record, 0) == xxh3_64(&record[4..]) as u32
}

/// Calls back each record of a whole block: its offset in the block, group, kind and bytes. False if they do not add
/// up to the block, which its checksum makes all but impossible.
pub(crate) fn for_each_record(block: &[u8], count: u32, mut each: impl FnMut(usize, u64, Kind, &[u8])) -> bool {
    let mut at = HEADER_BYTES;
    for _ in 0..count {
        let Some(header) = block.get(at..).and_then(|rest| rest.first_chunk()) else { return false };
        let (length, group, kind) = record_claimed(header);
        let start = at + RECORD_HEADER_BYTES;
        let Some(bytes) = block.get(start..start.saturating_add(length)) else { return false };
        each(at, group, kind, bytes);
        at = start + length;
    }
    at == block.len()
}

/// Calls back the group of each whole record that follows a header at the start of `block`, whatever the header says,
/// up to the first that is not whole.
pub(crate) fn for_each_readable(block: &[u8], mut each: impl FnMut(u64)) {
    let mut at = HEADER_BYTES;
    while let Some(header) = block.get(at..).and_then(|rest| rest.first_chunk()) {
        let (length, group, _) = record_claimed(header);
        let record = at..(at + RECORD_HEADER_BYTES).saturating_add(length);
        if length == 0 && group == 0 || !block.get(record.clone()).is_some_and(record_is_whole) {
            return;
        }
        each(group);
        at = record.end;
    }
}

fn slot_of(kind: Kind) -> u64 {
    match kind {
        Kind::Slot(slot) => {
            assert_ne!(slot, SLOT_OF_STATE, "the last slot number marks state records");
            slot
        }
        Kind::State => SLOT_OF_STATE,
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("callers check the length of a header first"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("callers check the length of a header first"))
}
