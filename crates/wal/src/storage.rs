//! What the log asks of a medium: numbered segments of fixed length, written at offsets and made durable on demand.
//!
//! Two media exist: files ([`crate::file`]) and memory that crashes on command ([`crate::memory`]). Neither knows what
//! the bytes mean.

use std::io;

use crate::submission::Submission;

/// What is left to do of a submission that was [handed out](Storage::hand_out): durable when it returns.
pub type Errand = Box<dyn FnOnce() -> Result<(), StorageError> + Send>;

/// A medium for one log. A segment exists durably, at its full length, once [`Storage::create`] has returned. Whatever
/// can be read when a medium is opened is durable: a killed process may have left writes that nobody synced, and the
/// log is about to tell others of them.
pub trait Storage {
    /// The numbers of the segments that are there, ascending.
    fn segments(&self) -> Result<Vec<u64>, StorageError>;

    /// The segments that *should* be there, remembered apart from them: this is how a deleted file is noticed.
    fn bounds(&self) -> Result<Bounds, StorageError>;

    /// The length of a segment in bytes.
    fn length(&self, segment: u64) -> Result<u64, StorageError>;

    /// Makes a segment of `length` bytes, which hold zeros or what a removed segment held. Does nothing if it exists,
    /// so that it can be tried again. [`StorageError::NoSpace`] leaves no trace.
    fn create(&mut self, segment: u64, length: u64) -> Result<(), StorageError>;

    /// Writes into an existing segment. `offset` and the length of `bytes` are multiples of [`crate::PAGE_BYTES`].
    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), StorageError>;

    /// Every write so far is durable when this returns. After a failure nothing is accepted any more: which of the
    /// writes are on the medium is unknowable, and asking again would only get a false yes.
    fn sync(&mut self) -> Result<(), StorageError>;

    /// Does what cannot be done elsewhere, and hands out the rest, for another thread: writing and syncing. Until that is done
    /// nothing more is written or handed out. [`StorageError::NoSpace`] as of [`Storage::create`]. None from a medium that
    /// nobody has to wait for.
    fn hand_out(&mut self, _submission: &Submission) -> Result<Option<Errand>, StorageError> {
        Ok(None)
    }

    /// Fills `into` from a segment, seeing every write so far.
    fn read(&self, segment: u64, offset: u64, into: &mut [u8]) -> Result<(), StorageError>;

    /// Removes the oldest segment, durably; [`Bounds::first`] moves past it before it goes.
    fn remove(&mut self, segment: u64) -> Result<(), StorageError>;
}

/// From the first segment not removed to the last one created, both included. `last < first`: none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub first: u64,
    pub last: u64,
}

impl Bounds {
    /// Of a log that has no segment yet.
    pub const EMPTY: Bounds = Bounds { first: 1, last: 0 };
}

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// No segment can be made now. What was asked can be asked again when there is space.
    #[error("no space left for log segment {segment}")]
    NoSpace { segment: u64 },
    /// An earlier write or sync failed; the process must stop and recover from what is on the medium.
    #[error("the log failed earlier and accepts nothing until the process is started again")]
    Poisoned,
    /// The caller named a segment that is not there, or bytes outside it.
    #[error("log segment {segment} has no bytes at {offset}")]
    OutOfBounds { segment: u64, offset: u64 },
    /// The file that remembers which segments exist cannot be trusted. Restore it together with the log.
    #[error("{path}: {what}")]
    Bounds { path: String, what: &'static str },
    #[error("{path}: written by a newer release (format {found}, this one knows up to {known})")]
    NewerVersion { path: String, found: u16, known: u16 },
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: String, source: io::Error },
}
