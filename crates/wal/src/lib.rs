//! One segmented write-ahead log for many groups (GigaPaxos, sections 3.4 and 3.5). It knows bytes, not ballots.
//!
//! Promises:
//! - **Sans-I/O.** The log decides what is written where; the host writes it, by a [`Storage`] or otherwise, and says
//!   when it is durable. Server and simulator run the same code.
//! - **One block a flush, for all groups.** What is appended between two [`Wal::submit`]s becomes one block (several,
//!   where a segment ends or [`BLOCK_BYTES_MAX`] is reached) with one checksum.
//! - **A crash loses only what was not durable**, and nothing of it comes back later. Bytes that were durable and are
//!   not readable are *damage*: located, reported and never applied. See [`OpenReport`].
//! - **A segment goes when nobody needs it**, oldest first. While the log is larger than it should be
//!   ([`Wal::needs_relief`]), [`Wal::pinning`] names groups that hold on to the oldest segment. A checkpoint makes a group's
//!   records needless; what it cannot cover is appended again by [`Wal::carry`]. The newest durable block is never removed,
//!   so that the [`Lsn`] of what was durable is never used again.
//! - **What is needless stays so.** What was released is noted in the log itself, so that opening it calls only those
//!   groups up that have something in it.
//!
//! A block is padded to whole pages, and a page is written once. The alternative, to fill the last page up with the
//! next flush, writes less when flushes are small and spaced out, but rewrites a page of acknowledged records, which a
//! torn write would then take along. A device writes a page either way, and under load blocks are large.
//!
//! It refuses to know: what a record means, when to sync, and what a checkpoint is.

#![forbid(unsafe_code)]

mod block;
mod buffer;
pub mod file;
mod index;
pub mod memory;
mod recover;
mod releases;
mod relief;
mod report;
mod storage;
mod submission;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use block::FORMAT_VERSION;
use block::{HEADER_BYTES, Header, Life, RECORD_HEADER_BYTES};
use buffer::{Buffer, Pool};
use index::{Index, Position, SEGMENT_MAX};
use releases::{Noted, Releases};
pub use report::{Damage, OpenError, OpenReport, ReadError, SegmentStatistics, Statistics};
pub use storage::{Bounds, Errand, Storage, StorageError};
pub use submission::{Block, Creation, Submission};

/// Blocks begin at multiples of this, in the log and in memory.
pub const PAGE_BYTES: usize = 4096;
/// The largest record. A caller that appends a larger one has a bug: [`Wal::append`] panics.
pub const RECORD_BYTES_MAX: usize = 24 * 1024 * 1024;
/// A block that would grow beyond this is closed and another one begun. One record always fits.
pub const BLOCK_BYTES_MAX: usize = 32 * 1024 * 1024;
pub const SEGMENT_BYTES_MIN: u64 = 16 * 1024;
pub const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

const _: () = assert!(RECORD_BYTES_MAX + RECORD_HEADER_BYTES + HEADER_BYTES <= BLOCK_BYTES_MAX);

/// The address of a block: its segment in the upper half, the offset in the lower. A record has that of its block.
/// Later blocks have larger ones. One that was durable is never used again; one that a crash took away may be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    fn at(segment: u64, offset: u64) -> Lsn {
        debug_assert!(offset <= u64::from(u32::MAX));
        Lsn(segment << 32 | offset)
    }

    pub fn segment(self) -> u64 {
        self.0 >> 32
    }

    pub fn offset(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.segment(), self.offset())
    }
}

/// What a record is to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Of this slot (`u64::MAX` is reserved). The newest of a slot is the one in force.
    Slot(u64),
    /// The group's state. The newest is the one in force.
    State,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Random, chosen when the log's directory is made and the same ever after.
    pub log_id: u64,
    /// The newest block that is known to have been durable, from outside the log; 0 if none is. A log that ends before it is damaged.
    pub known_end: Lsn,
    /// A multiple of [`PAGE_BYTES`]. A segment for a larger record is larger.
    pub segment_bytes: u64,
    /// The log should not be larger than this and twice what is needed of it.
    pub slack_bytes: u64,
    /// The log should not be larger than this, however much of it is needed: it is what recovery reads.
    pub size_bytes_max: u64,
    /// The index should not take more memory than this.
    pub index_bytes_max: usize,
}

impl Settings {
    pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

    pub fn new(log_id: u64) -> Settings {
        Settings {
            log_id,
            known_end: Lsn(0),
            segment_bytes: Settings::SEGMENT_BYTES,
            slack_bytes: 2 * Settings::SEGMENT_BYTES,
            size_bytes_max: 8 * Settings::SEGMENT_BYTES,
            index_bytes_max: 96 * 1024 * 1024,
        }
    }
}

/// A record as it is found when a log is opened.
#[derive(Debug)]
pub struct Recovered<'a> {
    pub group: u64,
    pub kind: Kind,
    pub bytes: &'a [u8],
    pub lsn: Lsn,
    /// Nobody has said that a checkpoint covers it.
    pub is_needed: bool,
}

/// The log. See the crate's promises.
pub struct Wal {
    settings: Settings,
    life: Life,
    index: Index,
    /// The number of the next segment to be created.
    segment_next: u64,
    /// Where the next block begins.
    cursor: Cursor,
    gathering: Option<Gathering>,
    /// Blocks that are closed and not known to be durable, oldest first. Reads are answered from them.
    in_flight: VecDeque<Arc<Block>>,
    /// How many of `in_flight`, from the back, are not yet submitted.
    unsubmitted_count: usize,
    create: Vec<Creation>,
    /// The newest block that was closed, or accepted when the log was opened.
    closed: Lsn,
    durable: Lsn,
    /// The newest block with records, and the newest that a closed block calls durable.
    recorded: Lsn,
    vouched: Lsn,
    pool: Pool,
    /// What was released and is not noted yet.
    unnoted: Vec<Noted>,
    report: OpenReport,
    counted: Statistics,
}

/// The rest of the newest segment.
#[derive(Clone, Copy)]
struct Cursor {
    segment: u64,
    offset: u64,
    length: u64,
}

/// The block that takes records now. Its place is fixed, so their positions are.
struct Gathering {
    lsn: Lsn,
    buffer: Buffer,
    record_count: u32,
}

impl Wal {
    /// Reads the whole log and calls every record back, in the order in which they were appended, also those that
    /// later ones supersede or a checkpoint covers. Then writing goes on behind the last whole block. A medium that refuses to be read ends
    /// this with an error: taken for a torn tail, it would be forgotten what was promised.
    ///
    /// # Panics
    /// If `settings.segment_bytes` is out of its limits or no multiple of a page.
    pub fn open(
        storage: &impl Storage,
        settings: Settings,
        mut each: impl FnMut(Recovered<'_>),
    ) -> Result<Wal, OpenError> {
        let size = settings.segment_bytes;
        assert!((SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&size), "a segment of {size} bytes");
        assert!(size.is_multiple_of(PAGE_BYTES as u64), "a segment of {size} bytes, which are not whole pages");
        let segments = storage.segments()?;
        let bounds = storage.bounds()?;
        let mut releases = Releases::default();
        let scan = recover::Scan::of(storage, &segments, settings.log_id, &mut releases)?;
        let verdict = scan.judge(&segments, bounds, settings.known_end);
        releases.retain(|block| verdict.accepts(block));
        let mut index = Index::default();
        for &segment in &segments {
            index.add_segment(segment, storage.length(segment)?);
        }
        let mut report = OpenReport {
            segments: segments.clone(),
            torn_bytes: verdict.torn_bytes,
            groups_made_out: recover::make_out(storage, &segments, &verdict.damage)?,
            damage: verdict.damage.clone(),
            ..OpenReport::default()
        };
        recover::walk(
            storage,
            &segments,
            settings.log_id,
            |header, bytes| {
                if verdict.accepts(header.lsn) {
                    replay(header, bytes, &releases, &mut index, &mut report, &mut each);
                }
            },
            |_| {},
        )?;
        let last_present = segments.last().copied().unwrap_or(0);
        let cursor = resume(storage, last_present, bounds, verdict.end)?;
        let segment_next = bounds.last.max(last_present) + 1;
        let resumed = match cursor.length {
            0 => Lsn::at(segment_next, 0),
            _ => Lsn::at(cursor.segment, cursor.offset),
        };
        Ok(Wal {
            settings,
            life: Life { cut: verdict.last, resumed },
            index,
            segment_next,
            cursor,
            gathering: None,
            in_flight: VecDeque::new(),
            unsubmitted_count: 0,
            create: Vec::new(),
            closed: verdict.last,
            durable: verdict.last,
            recorded: verdict.last,
            vouched: Lsn(0),
            pool: Pool::default(),
            unnoted: Vec::new(),
            report,
            counted: Statistics::default(),
        })
    }

    /// What opening found.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Adds a record to the block being gathered. It is durable once [`Wal::durable`] has reached what
    /// [`Wal::appended`] says now.
    ///
    /// # Panics
    /// If `bytes` are more than [`RECORD_BYTES_MAX`], the slot is `u64::MAX`, or the group `u64::MAX - 1`.
    pub fn append(&mut self, group: u64, kind: Kind, bytes: &[u8]) {
        assert!(bytes.len() <= RECORD_BYTES_MAX, "a log record of {} bytes", bytes.len());
        assert_ne!(group, releases::GROUP, "this number marks the log's own records");
        let (position, lsn) = self.write_record(group, kind, bytes);
        self.index.insert(group, kind, position, lsn);
    }

    fn write_record(&mut self, group: u64, kind: Kind, bytes: &[u8]) -> (Position, Lsn) {
        let needed = RECORD_HEADER_BYTES + bytes.len();
        if self.gathering.as_ref().is_some_and(|block| !block.has_room(needed, self.cursor)) {
            self.close();
        }
        if self.gathering.is_none() {
            self.begin(needed);
        }
        let block = self.gathering.as_mut().expect("one was begun above");
        let at = block.buffer.len();
        block.buffer.reserve(needed);
        block.buffer.extend(&block::record_header(group, kind, bytes.len()));
        block.buffer.extend(bytes);
        block::seal_record(&mut block.buffer.bytes_mut()[at..]);
        block.record_count += 1;
        self.counted.record_bytes += needed as u64;
        (Position::new(block.lsn.segment(), block.lsn.offset() + at as u64, needed), block.lsn)
    }

    /// Closes the block being gathered and hands out what is to be written. None if nothing was appended.
    pub fn submit(&mut self) -> Option<Submission> {
        // What is noted goes with what is written anyway.
        if self.gathering.is_some() {
            self.note_releases();
        }
        self.close();
        let first = self.in_flight.len() - self.unsubmitted_count;
        self.unsubmitted_count = 0;
        let writes: Vec<Arc<Block>> = self.in_flight.range(first..).cloned().collect();
        let lsn = writes.last()?.lsn;
        Some(Submission { lsn, create: std::mem::take(&mut self.create), writes })
    }

    /// Everything up to the submission `lsn` is durable.
    ///
    /// # Panics
    /// If that was never submitted.
    pub fn completed(&mut self, lsn: Lsn) {
        assert!(lsn <= self.closed, "completed up to {lsn:?}, closed only up to {:?}", self.closed);
        self.durable = self.durable.max(lsn);
        while self.in_flight.len() > self.unsubmitted_count && self.in_flight[0].lsn <= lsn {
            let block = self.in_flight.pop_front().expect("its length was checked");
            if let Ok(block) = Arc::try_unwrap(block) {
                self.pool.give(block.buffer);
            }
        }
    }

    /// Closes an empty block, if no block says yet that the newest record is durable; it is submitted like any other. Bits
    /// that flip later in that record are then told from a torn tail. Nothing happens while records are gathered or in
    /// flight, nor at the very end of a segment. Releases that wait to be noted are noted instead.
    pub fn vouch(&mut self) {
        let at_rest = self.gathering.is_none() && self.durable == self.closed;
        let room = (self.cursor.length - self.cursor.offset) as usize;
        if at_rest && !self.unnoted.is_empty() && room >= pages(releases::BLOCK_BYTES_MAX) {
            return self.note_releases();
        }
        let has_room = room >= PAGE_BYTES;
        if at_rest && has_room && self.vouched < self.recorded {
            self.begin(0);
            self.close();
        }
    }

    /// The newest block known to be durable.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// What the segments take.
    pub fn size_bytes(&self) -> u64 {
        self.index.size_bytes()
    }

    /// What the index takes in memory.
    pub fn index_bytes(&self) -> usize {
        self.index.memory_bytes()
    }

    /// What records appended so far take, with their headers.
    pub fn record_bytes(&self) -> u64 {
        self.counted.record_bytes
    }

    /// The block that holds the newest record.
    pub fn appended(&self) -> Lsn {
        self.gathering.as_ref().map_or(self.closed, |block| block.lsn)
    }

    /// Puts the bytes of the slot's newest record into `into`, also if they are not durable yet. False if there is
    /// none.
    pub fn read(
        &mut self,
        storage: &impl Storage,
        group: u64,
        slot: u64,
        into: &mut Vec<u8>,
    ) -> Result<bool, ReadError> {
        self.read_kind(storage, group, Kind::Slot(slot), into)
    }

    /// As [`Wal::read`], of the group's newest state record.
    pub fn read_state(&mut self, storage: &impl Storage, group: u64, into: &mut Vec<u8>) -> Result<bool, ReadError> {
        self.read_kind(storage, group, Kind::State, into)
    }

    /// From the lowest slot that the index has a record of to the one after the highest. There may be gaps.
    pub fn slots(&mut self, group: u64) -> Option<Range<u64>> {
        self.index.slots(group)
    }

    /// Begins a block in which `needed` bytes have room, in a new segment if the newest has not.
    fn begin(&mut self, needed: usize) {
        let needed = pages(HEADER_BYTES + needed) as u64;
        if self.cursor.offset + needed > self.cursor.length {
            let (segment, length) = (self.segment_next, self.settings.segment_bytes.max(needed));
            assert!(segment <= SEGMENT_MAX, "segment numbers are used up");
            self.segment_next += 1;
            self.create.push(Creation { segment, length });
            self.index.add_segment(segment, length);
            self.cursor = Cursor { segment, offset: 0, length };
        }
        let mut buffer = self.pool.take();
        buffer.extend_zeros(HEADER_BYTES);
        let lsn = Lsn::at(self.cursor.segment, self.cursor.offset);
        self.gathering = Some(Gathering { lsn, buffer, record_count: 0 });
    }

    /// Completes the block being gathered, if there is one.
    fn close(&mut self) {
        let Some(Gathering { lsn, mut buffer, record_count }) = self.gathering.take() else { return };
        let length = buffer.len();
        let header = Header {
            version: FORMAT_VERSION,
            log_id: self.settings.log_id,
            lsn,
            previous: self.closed,
            durable: self.durable,
            life: self.life,
            length: length as u32,
            count: record_count,
        };
        block::seal(buffer.bytes_mut(), &header);
        buffer.extend_zeros(pages(length) - length);
        self.cursor.offset += buffer.len() as u64;
        self.counted.block_count += 1;
        self.counted.written_bytes += buffer.len() as u64;
        self.closed = lsn;
        self.vouched = self.durable;
        if record_count > 0 {
            self.recorded = lsn;
        }
        self.in_flight.push_back(Arc::new(Block { lsn, buffer }));
        self.unsubmitted_count += 1;
    }

    fn read_kind(
        &mut self,
        storage: &impl Storage,
        group: u64,
        kind: Kind,
        into: &mut Vec<u8>,
    ) -> Result<bool, ReadError> {
        let Some(position) = self.index.position(group, kind) else { return Ok(false) };
        into.clear();
        if let Some(record) = self.unflushed(position) {
            let header = record.first_chunk().expect("a position in memory is that of a whole record");
            let (length, ..) = block::record_claimed(header);
            into.extend_from_slice(&record[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + length]);
            return Ok(true);
        }
        let (segment, offset) = (position.segment(), position.offset());
        let damaged = ReadError::Damaged { segment, offset };
        let mut header = [0; RECORD_HEADER_BYTES];
        storage.read(segment, offset, &mut header)?;
        let (length, found_group, found_kind) = block::record_claimed(&header);
        let end = offset + (RECORD_HEADER_BYTES + length) as u64;
        if (found_group, found_kind) != (group, kind) || end > storage.length(segment)? {
            return Err(damaged);
        }
        into.resize(RECORD_HEADER_BYTES + length, 0);
        storage.read(segment, offset, into)?;
        if !block::record_is_whole(into) {
            into.clear();
            return Err(damaged);
        }
        into.drain(..RECORD_HEADER_BYTES);
        Ok(true)
    }

    /// The bytes from `position` on, if they are still in memory.
    fn unflushed(&self, position: Position) -> Option<&[u8]> {
        let lsn = Lsn::at(position.segment(), position.offset());
        let within = |start: Lsn, bytes: &'_ [u8]| (lsn.0 - start.0) < bytes.len() as u64;
        if let Some(block) = self.gathering.as_ref().filter(|block| block.lsn <= lsn) {
            return Some(&block.buffer.bytes()[(lsn.0 - block.lsn.0) as usize..]);
        }
        let at = self.in_flight.partition_point(|block| block.lsn <= lsn).checked_sub(1)?;
        let block = &self.in_flight[at];
        within(block.lsn, block.bytes()).then(|| &block.bytes()[(lsn.0 - block.lsn.0) as usize..])
    }
}

impl Gathering {
    fn has_room(&self, needed: usize, cursor: Cursor) -> bool {
        let length = self.buffer.len() + needed;
        length <= BLOCK_BYTES_MAX && self.lsn.offset() + pages(length) as u64 <= cursor.length
    }
}

/// Hands the records of an accepted block to the index and to the host.
fn replay(
    header: &Header,
    bytes: &[u8],
    releases: &Releases,
    index: &mut Index,
    report: &mut OpenReport,
    each: &mut impl FnMut(Recovered<'_>),
) {
    let lsn = header.lsn;
    report.block_count += 1;
    let adds_up = block::for_each_record(bytes, header.count, |at, group, kind, bytes| {
        if group == releases::GROUP {
            return;
        }
        let position = Position::new(lsn.segment(), lsn.offset() + at as u64, RECORD_HEADER_BYTES + bytes.len());
        let is_needed = !releases.cover(group, kind, position.lsn());
        if is_needed {
            index.insert(group, kind, position, lsn);
        }
        report.record_count += 1;
        each(Recovered { group, kind, bytes, lsn, is_needed });
    });
    if !adds_up {
        report.damage.push(Damage::Unreadable { from: lsn, to: Lsn(lsn.0 + u64::from(header.length)) });
    }
}

/// Where writing goes on: in the newest segment, behind its last whole block (whether it was accepted or not, so that
/// no address is used twice). In a new segment if the newest one is lost.
fn resume(storage: &impl Storage, last_present: u64, bounds: Bounds, end: Option<Lsn>) -> Result<Cursor, StorageError> {
    if last_present == 0 || last_present < bounds.last {
        return Ok(Cursor { segment: 0, offset: 0, length: 0 });
    }
    // A block that fills its segment ends where the address says the segment still is.
    let offset = end.filter(|end| end.segment() == last_present).map_or(0, |end| end.offset());
    let length = storage.length(last_present)?;
    Ok(Cursor { segment: last_present, offset: offset.min(length), length })
}

/// `length` rounded up to whole pages.
fn pages(length: usize) -> usize {
    length.next_multiple_of(PAGE_BYTES)
}
