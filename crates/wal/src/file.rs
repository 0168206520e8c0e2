//! A log in a directory: `log-00000000000000000001.qlog` and so on, one file a segment.
//!
//! Files are made at full length with zeros in them, so that a flush changes no metadata, and renamed into place.
//! Where the file system can, flushes are `O_DIRECT | O_DSYNC` writes of whole pages, which are durable when they
//! return; elsewhere `pwrite` and `fdatasync`. A removed file is kept as the spare of the next one (its old blocks
//! carry old addresses and never pass), and when the newest file is half full and there is no spare, a thread makes
//! one: in the steady state no flush waits for a file.

mod bounds;
mod errand;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::PAGE_BYTES;
use crate::buffer::Buffer;
use crate::storage::{Bounds, Errand, Storage, StorageError};
use crate::submission::Submission;
use bounds::BoundsFile;
use errand::Writer;

const SPARE: &str = "log-spare.qlog";
const SPARE_UNFINISHED: &str = "log-spare.tmp";
const SEGMENT_UNFINISHED: &str = "log-segment.tmp";
const PROBE: &str = "log-probe.tmp";
const ZEROS_BYTES: usize = 1024 * 1024;

/// A directory that holds a log. One process at a time: whoever owns the data directory sees to that.
pub struct FileStorage {
    directory: PathBuf,
    /// Kept open to make creations, renames and removals durable.
    handle: File,
    files: BTreeMap<u64, Segment>,
    bounds: BoundsFile,
    direct: bool,
    /// The file that was last written, opened for flushes.
    writer: Option<Arc<Writer>>,
    /// Files with writes that are not durable yet; only without direct I/O.
    unsynced: Vec<u64>,
    spare_maker: Option<JoinHandle<io::Result<()>>>,
    /// There is a spare, or one is being made.
    spare_expected: bool,
    /// Where bytes are copied to that are not aligned in memory.
    aligned: Buffer,
    /// Set by whoever sees a write or a sync fail, on whichever thread.
    poisoned: Arc<AtomicBool>,
}

struct Segment {
    file: File,
    length: u64,
}

impl FileStorage {
    /// Opens the directory, which is made if it is missing.
    pub fn open(directory: &Path) -> Result<FileStorage, StorageError> {
        fs::create_dir_all(directory).map_err(failed("create", directory))?;
        let direct = supports_direct(&directory.join(PROBE)).map_err(failed("write to", directory))?;
        FileStorage::open_with(directory, direct)
    }

    /// As [`FileStorage::open`], without direct I/O.
    pub fn open_buffered(directory: &Path) -> Result<FileStorage, StorageError> {
        fs::create_dir_all(directory).map_err(failed("create", directory))?;
        FileStorage::open_with(directory, false)
    }

    /// Opens what is there to be looked at: nothing is made or synced, and whatever would change it is refused.
    pub fn open_read_only(directory: &Path) -> Result<FileStorage, StorageError> {
        let handle = File::open(directory).map_err(failed("open", directory))?;
        let files = open_segments(directory)?;
        let bounds = BoundsFile::open_read_only(directory)?;
        let mut storage = FileStorage::of(directory, handle, files, bounds, false);
        storage.poisoned = Arc::new(AtomicBool::new(true));
        Ok(storage)
    }

    /// Whether flushes are direct writes.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    fn open_with(directory: &Path, direct: bool) -> Result<FileStorage, StorageError> {
        let handle = File::open(directory).map_err(failed("open", directory))?;
        let files = open_segments(directory)?;
        for (&number, segment) in &files {
            // What a killed process wrote may be in the page cache only.
            segment.file.sync_data().map_err(failed("sync", &directory.join(segment_name(number))))?;
        }
        let bounds = BoundsFile::open(directory, files.is_empty())?;
        handle.sync_all().map_err(failed("sync", directory))?;
        Ok(FileStorage::of(directory, handle, files, bounds, direct))
    }

    fn of(
        directory: &Path,
        handle: File,
        files: BTreeMap<u64, Segment>,
        bounds: BoundsFile,
        direct: bool,
    ) -> FileStorage {
        FileStorage {
            directory: directory.to_owned(),
            handle,
            files,
            bounds,
            direct,
            writer: None,
            unsynced: Vec::new(),
            spare_maker: None,
            spare_expected: directory.join(SPARE).exists(),
            aligned: Buffer::with_capacity(PAGE_BYTES),
            poisoned: Arc::default(),
        }
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.directory.join(segment_name(segment))
    }

    fn usable(&self) -> Result<(), StorageError> {
        if self.poisoned.load(Ordering::Relaxed) { Err(StorageError::Poisoned) } else { Ok(()) }
    }

    /// Turns a failed write or sync into the end of this storage.
    fn poison(&mut self, action: &'static str, segment: u64, source: io::Error) -> StorageError {
        self.poisoned.store(true, Ordering::Relaxed);
        StorageError::Io { action, path: self.path(segment).display().to_string(), source }
    }

    fn sync_directory(&mut self) -> Result<(), StorageError> {
        self.handle.sync_all().map_err(|source| {
            self.poisoned.store(true, Ordering::Relaxed);
            failed("sync", &self.directory)(source)
        })
    }

    /// Puts a file of `length` bytes at `path`: the spare if it fits, else a new one.
    fn make(&mut self, path: &Path, length: u64) -> io::Result<()> {
        if let Some(maker) = self.spare_maker.take() {
            // Without a spare a file is made here and now, and fails in the same way if it must.
            let _ = maker.join();
        }
        let spare = self.directory.join(SPARE);
        if std::mem::take(&mut self.spare_expected) && spare.exists() {
            if fs::metadata(&spare)?.len() == length {
                return fs::rename(&spare, path);
            }
            fs::remove_file(&spare)?;
        }
        let unfinished = self.directory.join(SEGMENT_UNFINISHED);
        fill(&unfinished, length, self.direct)?;
        fs::rename(&unfinished, path)
    }

    /// Has a spare made, if there is none and none is being made.
    fn prepare_spare(&mut self, length: u64) {
        if std::mem::replace(&mut self.spare_expected, true) {
            return;
        }
        let (unfinished, spare) = (self.directory.join(SPARE_UNFINISHED), self.directory.join(SPARE));
        let direct = self.direct;
        let make = move || fill(&unfinished, length, direct).and_then(|()| fs::rename(&unfinished, &spare));
        self.spare_maker = std::thread::Builder::new().name("log-spare".into()).spawn(make).ok();
    }

    /// The descriptor for flushes of `segment`, opened when the segment changes.
    fn writer(&mut self, segment: u64) -> io::Result<Arc<Writer>> {
        if let Some(writer) = self.writer.as_ref().filter(|writer| writer.segment == segment) {
            return Ok(writer.clone());
        }
        let flags = if self.direct { libc::O_DIRECT | libc::O_DSYNC } else { 0 };
        let path = self.path(segment);
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&path)?;
        Ok(self.writer.insert(Arc::new(Writer { segment, path, file })).clone())
    }

    fn write_at(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let writer = self.writer(segment)?;
        if !self.direct || bytes.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            return writer.file.write_all_at(bytes, offset);
        }
        self.aligned.clear();
        self.aligned.extend(bytes);
        writer.file.write_all_at(self.aligned.bytes(), offset)
    }

    fn check_bounds(&self, segment: u64, offset: u64, count: usize) -> Result<(), StorageError> {
        let length = self.length(segment)?;
        let fits = offset.checked_add(count as u64).is_some_and(|end| end <= length);
        if fits { Ok(()) } else { Err(StorageError::OutOfBounds { segment, offset }) }
    }

    /// Has a spare made once the newest segment is half full.
    fn note_written(&mut self, segment: u64, offset: u64) {
        let newest = self.files.last_key_value().filter(|(newest, _)| **newest == segment);
        if let Some(length) = newest.map(|(_, newest)| newest.length).filter(|length| offset >= length / 2) {
            self.prepare_spare(length);
        }
    }
}

impl Drop for FileStorage {
    fn drop(&mut self) {
        if let Some(maker) = self.spare_maker.take() {
            let _ = maker.join();
        }
    }
}

impl Storage for FileStorage {
    fn segments(&self) -> Result<Vec<u64>, StorageError> {
        Ok(self.files.keys().copied().collect())
    }

    fn bounds(&self) -> Result<Bounds, StorageError> {
        Ok(self.bounds.get())
    }

    fn length(&self, segment: u64) -> Result<u64, StorageError> {
        self.files.get(&segment).map(|file| file.length).ok_or(StorageError::OutOfBounds { segment, offset: 0 })
    }

    fn create(&mut self, segment: u64, length: u64) -> Result<(), StorageError> {
        self.usable()?;
        if self.files.contains_key(&segment) {
            return Ok(());
        }
        let path = self.path(segment);
        let made = self.make(&path, length).and_then(|()| File::open(&path));
        let file = made.map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageError::NoSpace { segment },
            _ => self.poison("create", segment, source),
        })?;
        self.sync_directory()?;
        let bounds = self.bounds.get();
        self.set_bounds(Bounds { last: bounds.last.max(segment), ..bounds })?;
        self.files.insert(segment, Segment { file, length });
        Ok(())
    }

    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.usable()?;
        self.check_bounds(segment, offset, bytes.len())?;
        self.write_at(segment, offset, bytes).map_err(|source| self.poison("write", segment, source))?;
        if !self.direct && self.unsynced.last() != Some(&segment) {
            self.unsynced.push(segment);
        }
        self.note_written(segment, offset);
        Ok(())
    }

    fn hand_out(&mut self, submission: &Submission) -> Result<Option<Errand>, StorageError> {
        self.usable()?;
        submission.create(self)?;
        let mut parts = Vec::with_capacity(submission.writes.len());
        for block in &submission.writes {
            let (segment, offset) = (block.segment(), block.offset());
            self.check_bounds(segment, offset, block.bytes().len())?;
            let writer = self.writer(segment).map_err(|source| self.poison("open", segment, source))?;
            parts.push((writer, block.clone()));
            self.note_written(segment, offset);
        }
        let (is_direct, poisoned) = (self.direct, self.poisoned.clone());
        Ok(Some(Box::new(move || errand::perform(&parts, is_direct, &poisoned))))
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.usable()?;
        for segment in std::mem::take(&mut self.unsynced) {
            let synced = self.files.get(&segment).map_or(Ok(()), |segment| segment.file.sync_data());
            synced.map_err(|source| self.poison("sync", segment, source))?;
        }
        Ok(())
    }

    fn read(&self, segment: u64, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let file = &self.files.get(&segment).ok_or(StorageError::OutOfBounds { segment, offset })?.file;
        file.read_exact_at(into, offset).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => StorageError::OutOfBounds { segment, offset },
            _ => StorageError::Io { action: "read", path: self.path(segment).display().to_string(), source },
        })
    }

    fn remove(&mut self, segment: u64) -> Result<(), StorageError> {
        self.usable()?;
        let bounds = self.bounds.get();
        self.set_bounds(Bounds { first: bounds.first.max(segment + 1), ..bounds })?;
        self.writer.take_if(|writer| writer.segment == segment);
        self.unsynced.retain(|number| *number != segment);
        let Some(removed) = self.files.remove(&segment) else { return Ok(()) };
        let path = self.path(segment);
        let newest = self.files.last_key_value();
        let recyclable = newest.is_some_and(|(_, newest)| newest.length == removed.length);
        let gone = if recyclable && !std::mem::replace(&mut self.spare_expected, true) {
            fs::rename(&path, self.directory.join(SPARE))
        } else {
            fs::remove_file(&path)
        };
        gone.map_err(|source| self.poison("remove", segment, source))?;
        self.sync_directory()
    }
}

impl FileStorage {
    fn set_bounds(&mut self, bounds: Bounds) -> Result<(), StorageError> {
        self.bounds.set(bounds).inspect_err(|_| self.poisoned.store(true, Ordering::Relaxed))
    }
}

fn open_segments(directory: &Path) -> Result<BTreeMap<u64, Segment>, StorageError> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(failed("list", directory))? {
        let name = entry.map_err(failed("list", directory))?.file_name();
        let Some(number) = name.to_str().and_then(segment_number) else { continue };
        let path = directory.join(&name);
        let file = File::open(&path).map_err(failed("open", &path))?;
        let length = file.metadata().map_err(failed("open", &path))?.len();
        files.insert(number, Segment { file, length });
    }
    Ok(files)
}

fn segment_name(segment: u64) -> String {
    format!("log-{segment:020}.qlog")
}

fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".qlog")?;
    (digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Makes a file of `length` zeros, durable but for its name. Leaves nothing behind when it fails.
fn fill(path: &Path, length: u64, direct: bool) -> io::Result<()> {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let filled = (|| {
        let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
        let mut zeros = Buffer::with_capacity(ZEROS_BYTES);
        zeros.extend_zeros(ZEROS_BYTES.min(length as usize));
        let mut offset = 0;
        while offset < length {
            let count = (length - offset).min(ZEROS_BYTES as u64);
            file.write_all_at(&zeros.bytes()[..count as usize], offset)?;
            offset += count;
        }
        file.sync_all()
    })();
    if filled.is_err() {
        let _ = fs::remove_file(path);
    }
    filled
}

/// Tries a direct write: some file systems refuse it only then. Any other failure is one of the directory.
fn supports_direct(probe: &Path) -> io::Result<bool> {
    let outcome = fill(probe, PAGE_BYTES as u64, true);
    match outcome {
        Ok(()) => fs::remove_file(probe).map(|()| true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(false),
        // The log may be read, and freed, when the disk is full.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(false),
        Err(error) => Err(error),
    }
}

/// An [`StorageError::Io`] about a path.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    let path = path.display().to_string();
    move |source| StorageError::Io { action, path, source }
}
