//! Writing the blocks of a submission on another thread than the one that owns the log.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::failed;
use crate::storage::StorageError;
use crate::submission::Block;

/// A segment's file, opened for flushes.
pub(super) struct Writer {
    pub(super) segment: u64,
    pub(super) path: PathBuf,
    pub(super) file: File,
}

impl Writer {
    /// Whatever fails ends the storage: what of it is on the medium is unknowable.
    fn poison(&self, action: &'static str, poisoned: &AtomicBool) -> impl FnOnce(io::Error) -> StorageError {
        move |source| {
            poisoned.store(true, Ordering::Relaxed);
            failed(action, &self.path)(source)
        }
    }
}

/// Blocks are aligned in memory, so they are written from where they are.
pub(super) fn perform(
    parts: &[(Arc<Writer>, Arc<Block>)],
    is_direct: bool,
    poisoned: &AtomicBool,
) -> Result<(), StorageError> {
    for (writer, block) in parts {
        writer.file.write_all_at(block.bytes(), block.offset()).map_err(writer.poison("write", poisoned))?;
    }
    // A direct write is durable when it returns.
    for (at, (writer, _)) in parts.iter().enumerate().filter(|_| !is_direct) {
        let is_last_of_file = parts.get(at + 1).is_none_or(|(next, _)| next.segment != writer.segment);
        if is_last_of_file {
            writer.file.sync_data().map_err(writer.poison("sync", poisoned))?;
        }
    }
    Ok(())
}
