//! A medium in memory that crashes, fills up, fails and decays on command: the simulator's disk.

use std::collections::BTreeMap;
use std::io;

use crate::storage::{Bounds, Storage, StorageError};

/// What a crash keeps or loses as a whole.
pub const SECTOR_BYTES: usize = 512;

/// Segments in memory. As with files, creating and removing is durable at once, and a removed segment's bytes come
/// back in the next one created with its length.
#[derive(Clone, Debug)]
pub struct MemoryStorage {
    segments: BTreeMap<u64, Vec<u8>>,
    bounds: Bounds,
    unsynced: Vec<Unsynced>,
    spare: Option<Vec<u8>>,
    capacity_bytes: u64,
    sync_fails: bool,
    poisoned: bool,
}

#[derive(Clone, Debug)]
struct Unsynced {
    segment: u64,
    offset: usize,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        MemoryStorage {
            segments: BTreeMap::new(),
            bounds: Bounds::EMPTY,
            unsynced: Vec::new(),
            spare: None,
            capacity_bytes: u64::MAX,
            sync_fails: false,
            poisoned: false,
        }
    }
}

impl MemoryStorage {
    /// No segment is created beyond this many bytes of segments.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.capacity_bytes = bytes;
    }

    /// The next sync fails, and with it the storage, until [`MemoryStorage::crash`].
    pub fn fail_next_sync(&mut self) {
        self.sync_fails = true;
    }

    /// The power goes: each write since the last sync is kept, lost, or torn into sectors of which some are kept.
    pub fn crash(&mut self, random: &mut impl FnMut() -> u64) {
        let unsynced = std::mem::take(&mut self.unsynced);
        for write in unsynced.iter().rev() {
            if let Some(bytes) = self.segments.get_mut(&write.segment) {
                bytes[write.offset..][..write.before.len()].copy_from_slice(&write.before);
            }
        }
        for write in &unsynced {
            let Some(bytes) = self.segments.get_mut(&write.segment) else { continue };
            let fate = random() % 3;
            for (at, sector) in write.after.chunks(SECTOR_BYTES).enumerate() {
                let kept = match fate {
                    0 => true,
                    1 => false,
                    _ => random().is_multiple_of(2),
                };
                if kept {
                    bytes[write.offset + at * SECTOR_BYTES..][..sector.len()].copy_from_slice(sector);
                }
            }
        }
        self.sync_fails = false;
        self.poisoned = false;
    }

    /// The process goes, the machine stays: what was written is still there, and is synced when it is opened again.
    pub fn restart(&mut self) {
        self.unsynced.clear();
        self.sync_fails = false;
        self.poisoned = false;
    }

    /// The medium decays: these bits flip, durably.
    pub fn flip(&mut self, segment: u64, offset: usize, bits: u8) {
        if let Some(byte) = self.segments.get_mut(&segment).and_then(|bytes| bytes.get_mut(offset)) {
            *byte ^= bits;
        }
    }

    /// Somebody deletes a segment that is still needed.
    pub fn lose(&mut self, segment: u64) {
        self.segments.remove(&segment);
    }

    fn segment(&self, segment: u64, offset: u64, length: usize) -> Result<&[u8], StorageError> {
        let range = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(length)?));
        let bytes = self.segments.get(&segment).zip(range).and_then(|(bytes, range)| bytes.get(range));
        bytes.ok_or(StorageError::OutOfBounds { segment, offset })
    }

    fn usable(&self) -> Result<(), StorageError> {
        if self.poisoned { Err(StorageError::Poisoned) } else { Ok(()) }
    }
}

impl Storage for MemoryStorage {
    fn segments(&self) -> Result<Vec<u64>, StorageError> {
        Ok(self.segments.keys().copied().collect())
    }

    fn bounds(&self) -> Result<Bounds, StorageError> {
        Ok(self.bounds)
    }

    fn length(&self, segment: u64) -> Result<u64, StorageError> {
        let missing = StorageError::OutOfBounds { segment, offset: 0 };
        self.segments.get(&segment).map(|bytes| bytes.len() as u64).ok_or(missing)
    }

    fn create(&mut self, segment: u64, length: u64) -> Result<(), StorageError> {
        self.usable()?;
        if self.segments.contains_key(&segment) {
            return Ok(());
        }
        let used: u64 = self.segments.values().map(|bytes| bytes.len() as u64).sum();
        if used.saturating_add(length) > self.capacity_bytes {
            return Err(StorageError::NoSpace { segment });
        }
        let recycled = self.spare.take_if(|spare| spare.len() as u64 == length);
        self.segments.insert(segment, recycled.unwrap_or_else(|| vec![0; length as usize]));
        self.bounds.last = self.bounds.last.max(segment);
        Ok(())
    }

    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.usable()?;
        let before = self.segment(segment, offset, bytes.len())?.to_vec();
        let offset = offset as usize;
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment[offset..][..bytes.len()].copy_from_slice(bytes);
        }
        self.unsynced.push(Unsynced { segment, offset, before, after: bytes.to_vec() });
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.usable()?;
        if self.sync_fails {
            self.poisoned = true;
            let source = io::Error::other("injected");
            return Err(StorageError::Io { action: "sync", path: "memory".into(), source });
        }
        self.unsynced.clear();
        Ok(())
    }

    fn read(&self, segment: u64, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        into.copy_from_slice(self.segment(segment, offset, into.len())?);
        Ok(())
    }

    fn remove(&mut self, segment: u64) -> Result<(), StorageError> {
        self.usable()?;
        self.bounds.first = self.bounds.first.max(segment + 1);
        self.unsynced.retain(|write| write.segment != segment);
        if let Some(bytes) = self.segments.remove(&segment) {
            self.spare = Some(bytes);
        }
        Ok(())
    }
}
