//! The store on disk, on the `fjall` library: a log-structured tree, which takes many small checkpoints cheaply.
//!
//! ```text
//! 0, "format"                      our version, u16 little-endian
//! 0, "count"                       batches so far, this one included, u64 little-endian
//! 0, ".", name                     a record of the node
//! 1, group u64 big-endian, 0       a group's meta record
//! 1, group u64 big-endian, 1, name an object of it
//! ```
//!
//! One keyspace for all, so that a batch is one entry of one journal, and all of a group lies together: a group is
//! woken by one scan. The library buffers nothing that was applied: the batch is synced before it returns, and then
//! counted in a file of our own, since the library does not tell when it loses one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::config::PartitioningPolicy;
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::batch::{Batch, Change, GroupChanges};
use crate::count::Count;
use crate::{FORMAT_VERSION, Key, Store, StoreError, Walk};

const OF_NODE: u8 = 0;
const OF_GROUP: u8 = 1;
const META: u8 = 0;
const OBJECT: u8 = 1;
const FORMAT: &[u8] = b"\0format";
const COUNT: &[u8] = b"\0count";
const KEYSPACE: &str = "checkpoints";
/// Tag and group, before the kind.
const PREFIX_BYTES: usize = 9;
/// Objects that are stepped over on the way to the next group, before it is sought: a step costs far less than a
/// search, but a volume may have millions.
const STEPS_MAX: u32 = 16;

/// What the library may use. The defaults are for a node that shares its machine with others.
#[derive(Clone, Debug)]
pub struct FjallSettings {
    /// Blocks kept for reading, and the parts of indexes and filters that were used last: with a million small groups in a
    /// store, a fourth of this is too little to find one without reading.
    pub cache_bytes: u64,
    /// Changes kept in memory before they become a file. At most five of these at a time, and one large value: whoever
    /// applies batches waits for the files.
    pub memtable_bytes: u64,
    /// Files kept open, at least 10.
    pub open_files_max: usize,
}

impl Default for FjallSettings {
    fn default() -> Self {
        let mib = 1024 * 1024;
        FjallSettings { cache_bytes: 16 * mib, memtable_bytes: 4 * mib, open_files_max: 64 }
    }
}

/// Of more than one thread, the library's first passes the same merge on to the others, again and again without a rest, for
/// as long as they are busy with another one.
const THREADS: usize = 1;

/// Files are divided at this size. What is new is merged with all of the first level, which is four of these: with the
/// library's 64 MiB that was a whole store of a million groups, merged anew for every few seconds of one busy group.
const FILE_BYTES: u64 = 8 * 1024 * 1024;

/// Changes wait while so many memtables wait to become files: one more may come of the batch that follows, ...
const SEALED_MAX: usize = 3;
/// ... or so many files to be merged. Both are one below of what the library waits for.
const RUNS_MAX: usize = 29;
const FILES_CHECK: Duration = Duration::from_millis(10);

/// The library's floor for the size of its journals.
const JOURNALS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A directory with checkpoints. Clones share it: one may read while another applies. A group's batches must come from
/// one thread at a time.
#[derive(Clone)]
pub struct FjallStore {
    database: Database,
    records: Keyspace,
    memtable_bytes: u64,
    count: Arc<Mutex<Count>>,
    path: String,
}

impl FjallStore {
    /// Opens the directory, which is made if it is missing.
    pub fn open(directory: &Path, settings: &FjallSettings) -> Result<FjallStore, StoreError> {
        let path = directory.display().to_string();
        let opened = Database::builder(directory)
            .cache_size(settings.cache_bytes)
            .max_journaling_size(JOURNALS_BYTES_MAX)
            .max_cached_files(Some(settings.open_files_max))
            .worker_threads(THREADS)
            .manual_journal_persist(true)
            .open();
        let database = opened.map_err(|error| store_error(&path, error))?;
        let options = || options(settings);
        let records = database.keyspace(KEYSPACE, options).map_err(|error| store_error(&path, error))?;
        // A killed process may have left a batch that was written and not synced. What is read is about to be acted on.
        database.persist(PersistMode::SyncAll).map_err(|error| store_error(&path, error))?;
        let stored = batch_count(&records, &path)?;
        let count = Arc::new(Mutex::new(open_count(&FjallStore::count_path(directory), stored, &path)?));
        let store = FjallStore { database, records, memtable_bytes: settings.memtable_bytes, count, path };
        store.check_format()?;
        Ok(store)
    }

    /// The file beside a store's directory that counts its batches.
    pub fn count_path(directory: &Path) -> PathBuf {
        directory.with_extension("count")
    }

    /// Refuses a newer layout; writes our version into a new store.
    fn check_format(&self) -> Result<(), StoreError> {
        match self.value(FORMAT)? {
            Some(version) => {
                let what = "its format record is not a version";
                let damaged = || StoreError::Damaged { path: self.path.clone(), what };
                let found = u16::from_le_bytes(version.try_into().map_err(|_| damaged())?);
                if found > FORMAT_VERSION {
                    return Err(StoreError::NewerVersion { path: self.path.clone(), found, known: FORMAT_VERSION });
                }
                Ok(())
            }
            None => self.commit(|batch| {
                batch.insert(&self.records, FORMAT, FORMAT_VERSION.to_le_bytes());
                Ok(())
            }),
        }
    }

    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.records.get(key).map_err(|error| self.error(error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn commit(
        &self,
        fill: impl FnOnce(&mut fjall::OwnedWriteBatch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.wait_for_files()?;
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        fill(&mut batch)?;
        let number = count.get() + 1;
        batch.insert(&self.records, COUNT, number.to_le_bytes());
        batch.commit().map_err(|error| self.error(error))?;
        count.set(number).map_err(|error| self.error(error.into()))?;
        self.begin_memtable_if_full()
    }

    /// The library would wait where this does, and for ever if its thread ended meanwhile.
    fn wait_for_files(&self) -> Result<(), StoreError> {
        let tree = &self.records.tree;
        while tree.sealed_memtable_count() >= SEALED_MAX || tree.l0_run_count() >= RUNS_MAX {
            self.check()?;
            std::thread::sleep(FILES_CHECK);
        }
        Ok(())
    }

    /// The library would leave this to its thread, and changes gather without limit while that merges files. The next batch
    /// waits while three of these wait to become files.
    fn begin_memtable_if_full(&self) -> Result<(), StoreError> {
        if self.records.tree.active_memtable().size() > self.memtable_bytes {
            self.records.rotate_memtable().map_err(|error| self.error(error))?;
        }
        Ok(())
    }

    /// Deletes groups that follow one another: one search for all of them, and no marks for what was not there.
    fn delete_groups(&self, batch: &mut fjall::OwnedWriteBatch, first: u64, last: u64) -> Result<(), StoreError> {
        for entry in self.records.range(first_key(first)..key_behind(last)) {
            let key = entry.key().map_err(|error| self.error(error))?;
            batch.remove(&self.records, key);
        }
        Ok(())
    }

    /// Adds a group's changes. The library must not meet one key twice in a batch: what is cleared and put again is
    /// only put.
    fn add_group(
        &self,
        batch: &mut fjall::OwnedWriteBatch,
        group: u64,
        changes: GroupChanges,
    ) -> Result<(), StoreError> {
        if changes.cleared {
            for entry in self.records.prefix(key(group, OBJECT, b"")) {
                let key = entry.key().map_err(|error| self.error(error))?;
                if !changes.objects.contains_key(&key[PREFIX_BYTES + 1..]) {
                    batch.remove(&self.records, key);
                }
            }
        }
        if let Some(change) = changes.meta {
            self.add(batch, key(group, META, b""), change);
        }
        for (name, change) in changes.objects {
            self.add(batch, key(group, OBJECT, &name), change);
        }
        Ok(())
    }

    fn add(&self, batch: &mut fjall::OwnedWriteBatch, key: Vec<u8>, change: Change) {
        match change {
            Some(value) => batch.insert(&self.records, key, value),
            None => batch.remove(&self.records, key),
        }
    }

    fn error(&self, error: fjall::Error) -> StoreError {
        store_error(&self.path, error)
    }
}

impl Store for FjallStore {
    fn check(&self) -> Result<(), StoreError> {
        // Nothing is left to be written, so that this does no more than to look.
        self.database.persist(PersistMode::Buffer).map_err(|error| self.error(error))
    }

    fn apply(&mut self, changes: Batch) -> Result<(), StoreError> {
        self.commit(|batch| {
            let mut deleted = Vec::new();
            for (group, changes) in changes.groups {
                match changes.is_deletion() {
                    true => deleted.push(group),
                    false => self.add_group(batch, group, changes)?,
                }
            }
            for run in deleted.chunk_by(|group, next| group + 1 == *next) {
                self.delete_groups(batch, run[0], run[run.len() - 1])?;
            }
            for (name, change) in changes.node {
                self.add(batch, node_key(&name), change);
            }
            Ok(())
        })
    }

    fn get(&self, group: u64, record: Key<'_>) -> Result<Option<Vec<u8>>, StoreError> {
        match record {
            Key::Meta => self.value(&key(group, META, b"")),
            Key::Object(name) => self.value(&key(group, OBJECT, name)),
        }
    }

    fn objects_from(
        &self,
        group: u64,
        first: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        for entry in self.records.range(key(group, OBJECT, first)..key(group, OBJECT + 1, b"")) {
            let (key, value) = entry.into_inner().map_err(|error| self.error(error))?;
            if !each(&key[PREFIX_BYTES + 1..], &value) {
                break;
            }
        }
        Ok(())
    }

    fn walk_from(&self, first: u64) -> Box<dyn Walk + '_> {
        let records = self.records.range(first_key(first)..);
        Box::new(FjallWalk { store: self, records, group: first, ahead: None })
    }

    fn node_record(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.value(&node_key(name.as_bytes()))
    }
}

/// One search that goes on and on. A search of its own for each group would read the first block behind that group's key anew
/// in every file, and blocks are as large as the values in them.
struct FjallWalk<'a> {
    store: &'a FjallStore,
    records: fjall::Iter,
    /// The one that was gone to last.
    group: u64,
    /// What was found behind its objects.
    ahead: Option<GroupRecord>,
}

/// A record of a group, as it is stored.
struct GroupRecord {
    group: u64,
    key: fjall::UserKey,
    value: fjall::UserValue,
}

impl GroupRecord {
    fn is_meta(&self) -> bool {
        self.key.get(PREFIX_BYTES) == Some(&META)
    }
}

impl FjallWalk<'_> {
    fn next_record(&mut self) -> Result<Option<GroupRecord>, StoreError> {
        if let Some(record) = self.ahead.take() {
            return Ok(Some(record));
        }
        let Some(entry) = self.records.next() else { return Ok(None) };
        let (key, value) = entry.into_inner().map_err(|error| self.store.error(error))?;
        let what = "a key is too short";
        let group = group_of(&key).ok_or_else(|| StoreError::Damaged { path: self.store.path.clone(), what })?;
        Ok(Some(GroupRecord { group, key, value }))
    }

    /// What the present group has in front of the next one's first record.
    fn read_objects(&mut self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError> {
        while let Some(record) = self.next_record()? {
            if record.group != self.group || record.is_meta() {
                self.ahead = Some(record);
                break;
            }
            if !each(&record.key[PREFIX_BYTES + 1..], &record.value) {
                break;
            }
        }
        Ok(())
    }

    fn pass_by(&mut self, group: u64) {
        self.records = self.store.records.range(key_behind(group)..);
    }
}

impl Walk for FjallWalk<'_> {
    fn next_group(&mut self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let mut steps = 0;
        while let Some(record) = self.next_record()? {
            if record.is_meta() {
                self.group = record.group;
                return Ok(Some((record.group, record.value.to_vec())));
            }
            steps += 1;
            if steps == STEPS_MAX {
                steps = 0;
                self.pass_by(record.group);
            }
        }
        Ok(None)
    }

    fn objects(&mut self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError> {
        let read = self.read_objects(each);
        if read.is_err() {
            // What the search would say from here on may lack what could not be read.
            self.pass_by(self.group);
        }
        read
    }
}

fn options(settings: &FjallSettings) -> KeyspaceCreateOptions {
    // Whole, the index of a file with a million small groups is larger than the cache, and read anew for every look-up.
    let in_parts = || PartitioningPolicy::new([false, true]);
    KeyspaceCreateOptions::default()
        .max_memtable_size(settings.memtable_bytes)
        .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(FILE_BYTES)))
        .manual_journal_persist(true)
        .index_block_partitioning_policy(in_parts())
        .filter_block_partitioning_policy(in_parts())
}

fn batch_count(records: &Keyspace, path: &str) -> Result<u64, StoreError> {
    let Some(bytes) = records.get(COUNT).map_err(|error| store_error(path, error))? else { return Ok(0) };
    let what = "its count of batches is not a number";
    let number = <[u8; 8]>::try_from(&*bytes).map_err(|_| StoreError::Damaged { path: path.to_owned(), what })?;
    Ok(u64::from_le_bytes(number))
}

/// The count of what was durable, which the store must have.
fn open_count(file: &Path, stored: u64, path: &str) -> Result<Count, StoreError> {
    let failed = |error: io::Error| store_error(&file.display().to_string(), error.into());
    let mut count = match Count::open(file).map_err(failed)? {
        Some(count) => count,
        None if stored > 0 => {
            return Err(StoreError::Damaged {
                path: path.to_owned(),
                what: "the file that counts its batches is missing",
            });
        }
        None => Count::create(file).map_err(failed)?,
    };
    if count.get() > stored {
        return Err(StoreError::Lost { path: path.to_owned(), lost: count.get() - stored });
    }
    // A crash may have come between a batch and its count.
    count.set(stored).map_err(failed)?;
    Ok(count)
}

fn key(group: u64, kind: u8, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(PREFIX_BYTES + 1 + name.len());
    key.push(OF_GROUP);
    key.extend_from_slice(&group.to_be_bytes());
    key.push(kind);
    key.extend_from_slice(name);
    key
}

fn first_key(group: u64) -> Vec<u8> {
    key(group, META, b"")
}

/// Where the next group's records begin.
fn key_behind(group: u64) -> Vec<u8> {
    group.checked_add(1).map_or(vec![OF_GROUP + 1], first_key)
}

/// Names of our own begin differently, so that nobody overwrites the format.
fn node_key(name: &[u8]) -> Vec<u8> {
    [&[OF_NODE, b'.'], name].concat()
}

fn group_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.get(1..)?.first_chunk()?))
}

fn store_error(path: &str, error: fjall::Error) -> StoreError {
    let path = path.to_owned();
    match error {
        fjall::Error::Locked => StoreError::InUse { path },
        fjall::Error::Poisoned => StoreError::Stopped { path, source: Box::new(error) },
        error if is_for_space(&error) => StoreError::NoSpace,
        error => StoreError::Engine { path, source: Box::new(error) },
    }
}

/// Whether the error, or one that it comes from, is that there was no space.
fn is_for_space(error: &fjall::Error) -> bool {
    let is_it = |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest_table(directory: &Path) -> u64 {
        let entries = std::fs::read_dir(directory).unwrap().flatten();
        let sizes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
            true => largest_table(&entry.path()),
            // Journals are larger.
            false if entry.path().extension().is_some() => 0,
            false => entry.metadata().map_or(0, |found| found.len()),
        });
        sizes.max().unwrap_or(0)
    }

    #[test]
    fn a_merge_concerns_a_part_of_what_is_stored() {
        let directory = std::env::temp_dir().join(format!("quorate-tables-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let mut store = FjallStore::open(&directory.join("store"), &FjallSettings::default()).unwrap();
        let mut bits = 1_u64;
        for group in 0..48 {
            let mut batch = Batch::new();
            let mut random = || {
                bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (bits >> 56) as u8
            };
            // Overlapping with all others.
            (0..64).for_each(|part| batch.put_meta(part * 100 + group, (0..16 << 10).map(|_| random()).collect()));
            store.apply(batch).unwrap();
            if group % 3 == 2 {
                // A busy machine would write several of them as one file, which is larger and not merged yet.
                store.records.rotate_memtable_and_wait().unwrap();
            }
        }
        while store.records.l0_table_count() >= 4 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        drop(store);
        let largest = largest_table(&directory.join("store"));
        assert!(largest > FILE_BYTES / 2, "files were merged: {largest}");
        assert!(largest < FILE_BYTES * 3 / 2, "a file of {largest} bytes");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_kept_in_memory_is_bounded_while_files_are_merged() {
        let directory = std::env::temp_dir().join(format!("quorate-memtable-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let settings = FjallSettings { memtable_bytes: 64 << 10, ..FjallSettings::default() };
        let mut store = FjallStore::open(&directory.join("store"), &settings).unwrap();
        let mut rotated = 0;
        for round in 0..300_u64 {
            let mut batch = Batch::new();
            // All over the store, so that every file overlaps with every other.
            (0..200).for_each(|place| batch.put_meta(place * 1_000 + round % 100, vec![round as u8; 80]));
            store.apply(batch).unwrap();
            let active = store.records.tree.active_memtable().size();
            assert!(active <= settings.memtable_bytes, "{active} bytes after batch {round}");
            rotated += u64::from(active == 0);
            assert!(store.records.sealed_memtable_count() <= 5);
        }
        assert!(rotated >= 50, "{rotated} files were begun");
        drop(store);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
