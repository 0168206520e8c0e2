//! How many batches a store has been given, kept apart from it.
//!
//! The library takes damage in the middle of its journal for a torn end: it cuts off what follows and says nothing. A
//! store that has fewer batches than were durable has lost some, and with them promises that others rely on.
//!
//! Two pages are written in turns, each with a checksum, so that a torn write leaves the other. Writing them needs no
//! space.
//!
//! ```text
//! page   0 checksum u64  xxh3-64 of the following 16 bytes
//!        8 magic    "QCNT"   12 version u16   14 reserved u16   16 count u64
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

const PAGE_BYTES: u64 = 4096;
const RECORD_BYTES: usize = 24;
const MAGIC: [u8; 4] = *b"QCNT";
const VERSION: u16 = 1;

pub(crate) struct Count {
    file: File,
    count: u64,
}

impl Count {
    /// None if there is no such file, an error also if neither page is whole.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Count>> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut newest = None;
        for page in 0..2 {
            let mut record = [0; RECORD_BYTES];
            match file.read_exact_at(&mut record, page * PAGE_BYTES) {
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
                _ => newest = newest.max(decode(&record)),
            }
        }
        let count = newest.ok_or_else(|| io::Error::other("both of its pages are damaged"))?;
        Ok(Some(Count { file, count }))
    }

    /// Makes the file, or does so anew, durably.
    pub(crate) fn create(path: &Path) -> io::Result<Count> {
        let mut pages = vec![0; 2 * PAGE_BYTES as usize];
        pages[..RECORD_BYTES].copy_from_slice(&encode(0));
        let unfinished = PathBuf::from(format!("{}.new", path.display()));
        fs::write(&unfinished, pages)?;
        let file = OpenOptions::new().read(true).write(true).open(&unfinished)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Count { file, count: 0 })
    }

    pub(crate) fn get(&self) -> u64 {
        self.count
    }

    /// Durable when it returns.
    pub(crate) fn set(&mut self, count: u64) -> io::Result<()> {
        if count != self.count {
            self.file.write_all_at(&encode(count), count % 2 * PAGE_BYTES)?;
            self.file.sync_data()?;
            self.count = count;
        }
        Ok(())
    }
}

fn encode(count: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[8..12].copy_from_slice(&MAGIC);
    record[12..14].copy_from_slice(&VERSION.to_le_bytes());
    record[16..24].copy_from_slice(&count.to_le_bytes());
    let checksum = xxh3_64(&record[8..]);
    record[..8].copy_from_slice(&checksum.to_le_bytes());
    record
}

fn decode(record: &[u8; RECORD_BYTES]) -> Option<u64> {
    let field = |at: usize| u64::from_le_bytes(*record[at..].first_chunk().expect("every field lies inside"));
    let is_whole = record[8..12] == MAGIC && field(0) == xxh3_64(&record[8..]);
    is_whole.then(|| field(16))
}
