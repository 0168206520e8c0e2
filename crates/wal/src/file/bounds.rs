//! `log.bounds`: which segments should exist, so that a deleted file is noticed.
//!
//! Two pages with a checksum each say the same. They are written one after the other, and the newer valid one counts: a
//! torn write leaves the one before, and a page that decays leaves the same. Writing them needs no space: a full disk can
//! be freed.
//!
//! ```text
//! page   0 checksum u64  xxh3-64 of the following 40 bytes
//!        8 magic    "QBND"   12 version u16   14 reserved u16
//!       16 turn     u64      24 first   u64   32 last     u64   40 reserved u64
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::failed;
use crate::PAGE_BYTES;
use crate::block::FORMAT_VERSION;
use crate::storage::{Bounds, StorageError};

const NAME: &str = "log.bounds";
const UNFINISHED: &str = "log-bounds.tmp";
const MAGIC: [u8; 4] = *b"QBND";
const RECORD_BYTES: usize = 48;

pub(super) struct BoundsFile {
    path: PathBuf,
    file: File,
    turn: u64,
    bounds: Bounds,
}

impl BoundsFile {
    /// Opens the file; makes it if there are no segments that it would have to know of.
    pub(super) fn open(directory: &Path, may_create: bool) -> Result<BoundsFile, StorageError> {
        let path = directory.join(NAME);
        if may_create && !path.exists() {
            let unfinished = directory.join(UNFINISHED);
            create(&unfinished).and_then(|()| fs::rename(&unfinished, &path)).map_err(failed("create", &path))?;
        }
        BoundsFile::read(path, true)
    }

    /// Opens the file and leaves it as it is.
    pub(super) fn open_read_only(directory: &Path) -> Result<BoundsFile, StorageError> {
        BoundsFile::read(directory.join(NAME), false)
    }

    fn read(path: PathBuf, is_writable: bool) -> Result<BoundsFile, StorageError> {
        let opened = OpenOptions::new().read(true).write(is_writable).open(&path);
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                bounds_error(&path, "missing, so nobody can say which log segments there should be")
            }
            _ => failed("open", &path)(source),
        })?;
        let mut newest = None;
        for page in 0..2 {
            let mut record = [0; RECORD_BYTES];
            match file.read_exact_at(&mut record, page * PAGE_BYTES as u64) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                Err(error) => return Err(failed("read", &path)(error)),
            }
            if let Some((version, turn, bounds)) = decode(&record) {
                if version > FORMAT_VERSION {
                    let path = path.display().to_string();
                    return Err(StorageError::NewerVersion { path, found: version, known: FORMAT_VERSION });
                }
                newest = newest.max(Some((turn, bounds.first, bounds.last)));
            }
        }
        let (turn, first, last) = newest.ok_or_else(|| bounds_error(&path, "damaged"))?;
        Ok(BoundsFile { path, file, turn, bounds: Bounds { first, last } })
    }

    pub(super) fn get(&self) -> Bounds {
        self.bounds
    }

    /// Durable when it returns.
    pub(super) fn set(&mut self, bounds: Bounds) -> Result<(), StorageError> {
        if bounds == self.bounds {
            return Ok(());
        }
        let turn = self.turn + 1;
        let record = encode(turn, bounds);
        for page in [turn % 2, (turn + 1) % 2] {
            let written = self.file.write_all_at(&record, page * PAGE_BYTES as u64);
            written.and_then(|()| self.file.sync_data()).map_err(failed("write", &self.path))?;
        }
        (self.turn, self.bounds) = (turn, bounds);
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    let mut pages = vec![0; 2 * PAGE_BYTES];
    for page in [0, PAGE_BYTES] {
        pages[page..page + RECORD_BYTES].copy_from_slice(&encode(0, Bounds::EMPTY));
    }
    file.write_all_at(&pages, 0)?;
    file.sync_all()
}

fn bounds_error(path: &Path, what: &'static str) -> StorageError {
    StorageError::Bounds { path: path.display().to_string(), what }
}

fn encode(turn: u64, bounds: Bounds) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[8..12].copy_from_slice(&MAGIC);
    record[12..14].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    record[16..24].copy_from_slice(&turn.to_le_bytes());
    record[24..32].copy_from_slice(&bounds.first.to_le_bytes());
    record[32..40].copy_from_slice(&bounds.last.to_le_bytes());
    let checksum = xxh3_64(&record[8..]);
    record[..8].copy_from_slice(&checksum.to_le_bytes());
    record
}

fn decode(record: &[u8; RECORD_BYTES]) -> Option<(u16, u64, Bounds)> {
    let field = |at: usize| u64::from_le_bytes(*record[at..].first_chunk().expect("every field lies inside"));
    let version = u16::from_le_bytes([record[12], record[13]]);
    let whole = record[8..12] == MAGIC && field(0) == xxh3_64(&record[8..]);
    whole.then(|| (version, field(16), Bounds { first: field(24), last: field(32) }))
}
