//! What the log hands to the host to be written.

use std::sync::Arc;

use crate::Lsn;
use crate::buffer::Buffer;
use crate::storage::{Storage, StorageError};

/// A closed block on its way to the medium.
pub struct Block {
    pub(crate) lsn: Lsn,
    pub(crate) buffer: Buffer,
}

impl Block {
    pub fn segment(&self) -> u64 {
        self.lsn.segment()
    }

    pub fn offset(&self) -> u64 {
        self.lsn.offset()
    }

    /// Whole pages, aligned in memory.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    pub segment: u64,
    pub length: u64,
}

/// Work for the medium: create, write in any order, sync; then [`Wal::completed`] with `lsn`. Submissions are
/// performed in order, and each is written whole: a failed one may be tried again only after [`StorageError::NoSpace`].
pub struct Submission {
    pub lsn: Lsn,
    pub create: Vec<Creation>,
    pub writes: Vec<Arc<Block>>,
}

impl Submission {
    /// Creates and writes; not yet durable.
    pub fn write(&self, storage: &mut impl Storage) -> Result<(), StorageError> {
        self.create(storage)?;
        self.writes.iter().try_for_each(|block| storage.write(block.segment(), block.offset(), block.bytes()))
    }

    /// All creations come first: if there is no space, nothing of this submission is written.
    pub(crate) fn create(&self, storage: &mut impl Storage) -> Result<(), StorageError> {
        self.create.iter().try_for_each(|creation| storage.create(creation.segment, creation.length))
    }

    /// Creates, writes and syncs: durable when it returns.
    pub fn perform(&self, storage: &mut impl Storage) -> Result<(), StorageError> {
        self.write(storage)?;
        storage.sync()
    }
}
