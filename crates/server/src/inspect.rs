//! Looking at the data directory of a stopped node. Nothing in it is changed: the log is only read, and the checkpoint
//! store, which cannot be opened without being written to, is copied first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use quorate_checkpoint::{FjallSettings, FjallStore, Store, StoreError};
use quorate_node::inspect::{ballot_words, checkpoint_facts, log_record, stored_name};
use quorate_wal::file::FileStorage;
use quorate_wal::{Kind, Lsn, Storage, Wal};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::directory::{
    CHECKPOINT, Directory, DirectoryError, Identity, NEW, WAL, check_witnesses, directory_of, start_within,
};
use crate::links::Pins;

/// What is in a data directory.
#[derive(Debug, Default, Serialize)]
pub struct Inspection {
    pub path: String,
    pub identity: Option<IdentityFacts>,
    pub log: LogFacts,
    /// Whether the checkpoints could be read. If not, groups without one here may well have one.
    pub store_is_read: bool,
    pub groups: BTreeMap<u64, GroupFacts>,
    /// Replicas of which the checkpoints say that they neither vote nor serve. What they forgot may be long gone from here.
    pub silent_replicas: u64,
    /// Each place that is not what was written, a sentence each. Empty: all is well.
    pub damage: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct IdentityFacts {
    pub cluster: String,
    pub node: u32,
    pub incarnation: String,
    /// The how manieth directory of the node it is.
    pub directory: u32,
    /// With this directory.
    pub starts: u32,
    pub stopped_cleanly: bool,
    /// Not all other nodes have accepted the directory yet.
    pub is_new: bool,
}

#[derive(Debug, Default, Serialize)]
pub struct LogFacts {
    pub segments: Vec<SegmentFacts>,
    pub blocks: u64,
    pub records: u64,
    /// At the end of the log, never acknowledged.
    pub torn_bytes: u64,
    /// Groups of which records can be made out in what is damaged.
    pub groups_made_out: Vec<u64>,
}

#[derive(Debug, Default, Serialize)]
pub struct SegmentFacts {
    pub segment: u64,
    pub bytes: u64,
    /// Offsets of the first and the last block that holds records.
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub blocks: u64,
    pub records: u64,
    pub record_bytes: u64,
    pub groups: u64,
    /// Of the record bytes, within a quarter, what no checkpoint and no later record makes needless.
    pub live_bytes: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct GroupFacts {
    /// Of its checkpoint; absent of a group that only the log knows.
    pub checkpoint: Option<GroupCheckpoint>,
    /// The highest slot that the log has a record of.
    pub slot_last: Option<u64>,
    /// The highest ballot promised or accepted at, in the log or the checkpoint.
    pub promised: Option<String>,
    pub log_records: u64,
    pub log_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct GroupCheckpoint {
    pub namespace: u32,
    pub epoch: u32,
    pub members: Vec<u32>,
    pub durability: &'static str,
    pub silent: Option<&'static str>,
    pub next_slot: u64,
    pub promised: String,
    pub objects: u64,
    pub bytes: u64,
}

/// What else is told while it is read, a line each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details {
    pub log: bool,
    pub checkpoints: bool,
    /// Only of this group.
    pub group: Option<u64>,
}

/// Reads all of a stopped node's directory. Damage is part of what is found; only what cannot be looked at is an error.
pub fn inspect(path: &Path, details: Details, mut tell: impl FnMut(String)) -> Result<Inspection, DirectoryError> {
    let _lock = Directory::lock_stopped(path)?;
    let mut found = Inspection { path: path.display().to_string(), ..Inspection::default() };
    let identity = read_identity(path, &mut found);
    if let Err(error) = Pins::open(path) {
        found.damage.push(error.to_string());
    }
    if Directory::is_accepted(path)
        && let Err(error) = check_witnesses(path)
    {
        found.damage.push(error.to_string());
    }
    let log = identity.map(|identity| read_log(path, &identity, details, &mut found, &mut tell)).transpose();
    let log = log.unwrap_or_else(|reason| {
        found.damage.push(reason);
        None
    });
    let copied = copy_store(path).map_err(|source| DirectoryError::Io {
        action: "copy the checkpoint store of",
        path: path.to_owned(),
        source,
    })?;
    if let Some(copy) = copied {
        match read_store(&copy, details, &mut found, &mut tell) {
            Ok(()) => found.store_is_read = true,
            Err(reason) => found.damage.push(reason),
        }
        let Inspection { path, damage, .. } = &mut found;
        damage.iter_mut().for_each(|damage| *damage = copy.named_after(damage, path));
    }
    if let Some(log) = log {
        tell_needed(log, &mut found);
    }
    Ok(found)
}

fn read_identity(path: &Path, found: &mut Inspection) -> Option<Identity> {
    let mut latest: Option<Identity> = None;
    for (file, read) in Directory::identities(path) {
        match read {
            Ok(identity) if latest.as_ref().is_none_or(|latest| latest.start_number < identity.start_number) => {
                latest = Some(identity);
            }
            Ok(_) => {}
            Err(reason) => found.damage.push(format!("{}: {reason}", file.display())),
        }
    }
    let identity = latest?;
    found.identity = Some(IdentityFacts {
        cluster: identity.cluster.to_string(),
        node: identity.node.0,
        incarnation: format!("{:016x}", identity.incarnation),
        directory: directory_of(identity.start_number),
        starts: start_within(identity.start_number),
        stopped_cleanly: Directory::was_stopped_cleanly(path, &identity),
        is_new: path.join(NEW).exists(),
    });
    Some(identity)
}

fn read_log(
    path: &Path,
    identity: &Identity,
    details: Details,
    found: &mut Inspection,
    tell: &mut impl FnMut(String),
) -> Result<Wal, String> {
    let storage = FileStorage::open_read_only(&path.join(WAL)).map_err(|error| error.to_string())?;
    let mut segments: BTreeMap<u64, (SegmentFacts, BTreeSet<u64>)> = BTreeMap::new();
    for segment in storage.segments().map_err(|error| error.to_string())? {
        let bytes = storage.length(segment).map_err(|error| error.to_string())?;
        segments.insert(segment, (SegmentFacts { segment, bytes, ..SegmentFacts::default() }, BTreeSet::new()));
    }
    let Inspection { groups, damage, .. } = found;
    let mut block = None;
    let mut promised: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    let known_end = quorate_wal::Lsn(identity.log_end);
    let settings = quorate_wal::Settings { known_end, ..quorate_wal::Settings::new(identity.incarnation) };
    let opened = Wal::open(&storage, settings, |record| {
        let Some((facts, seen)) = segments.get_mut(&record.lsn.segment()) else { return };
        facts.blocks += u64::from(block.replace(record.lsn) != Some(record.lsn));
        facts.first = facts.first.or(Some(record.lsn.offset()));
        facts.last = Some(record.lsn.offset());
        facts.records += 1;
        facts.record_bytes += record.bytes.len() as u64;
        seen.insert(record.group);
        let group = groups.entry(record.group).or_default();
        group.log_records += 1;
        group.log_bytes += record.bytes.len() as u64;
        if let Kind::Slot(slot) = record.kind {
            group.slot_last = group.slot_last.max(Some(slot));
        }
        let told = log_record(record.bytes);
        if let Ok((_, Some(ballot))) = &told {
            let highest = promised.entry(record.group).or_default();
            *highest = (*highest).max(*ballot);
        }
        let words = told.map_or_else(|reason| format!("unreadable: {reason}"), |(words, _)| words);
        if words.starts_with("unreadable") {
            damage.push(format!("{}: a record of group {} is {words}", place(record.lsn), record.group));
        }
        if details.log && details.group.is_none_or(|group| group == record.group) {
            tell(format!("{} group {}: {words}, {} bytes", place(record.lsn), record.group, record.bytes.len()));
        }
    });
    for (group, ballot) in promised {
        groups.entry(group).or_default().promised = Some(ballot_words(ballot));
    }
    let wal = opened.map_err(|error| error.to_string())?;
    let report = wal.report();
    damage.extend(report.damage.iter().map(|damage| format!("the log is damaged: {damage}")));
    let segments = segments.into_values().map(|(facts, seen)| SegmentFacts { groups: seen.len() as u64, ..facts });
    found.log = LogFacts {
        segments: segments.collect(),
        blocks: report.block_count,
        records: report.record_count,
        torn_bytes: report.torn_bytes,
        groups_made_out: report.groups_made_out.clone(),
    };
    Ok(wal)
}

/// What the node would find to be needed of each segment, were it started.
fn tell_needed(mut log: Wal, found: &mut Inspection) {
    for (number, group) in &found.groups {
        match &group.checkpoint {
            Some(checkpoint) => log.release(*number, checkpoint.next_slot, Lsn(0)),
            None => log.forget(*number),
        }
    }
    for segment in log.segments() {
        let facts = found.log.segments.iter_mut().find(|facts| facts.segment == segment.segment);
        facts.into_iter().for_each(|facts| facts.live_bytes = segment.live_bytes);
    }
}

fn place(lsn: Lsn) -> String {
    format!("segment {} offset {}", lsn.segment(), lsn.offset())
}

/// A directory that goes with the value, or with the process if a signal ends that.
pub(crate) struct Copy(PathBuf);

impl Copy {
    fn make() -> io::Result<Copy> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let copy = Copy(std::env::temp_dir().join(format!("quorate-inspect-{}-{number}", std::process::id())));
        fs::create_dir_all(&copy.0)?;
        remove_at_a_signal(copy.0.clone())?;
        Ok(copy)
    }

    pub(crate) fn store(&self) -> Result<FjallStore, StoreError> {
        FjallStore::open(&self.0.join(CHECKPOINT), &FjallSettings::default())
    }

    /// The name of the copy would mean nothing to anybody.
    pub(crate) fn named_after(&self, text: &str, original: &str) -> String {
        text.replace(&self.0.display().to_string(), original)
    }
}

/// Whoever reads what is told may have read enough.
fn remove_at_a_signal(path: PathBuf) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGPIPE])?;
    let wait = move || {
        for signal in &mut signals {
            // It may still be coming into being.
            let _ = (0..10).any(|_| fs::remove_dir_all(&path).is_ok() && !path.exists());
            let _ = emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The store in a temporary directory; none if there is none and never was.
pub(crate) fn copy_store(path: &Path) -> io::Result<Option<Copy>> {
    let store = path.join(CHECKPOINT);
    let count = FjallStore::count_path(&store);
    let is_there = store.is_dir() && fs::read_dir(&store)?.next().is_some();
    if !is_there && !count.exists() {
        return Ok(None);
    }
    let copy = Copy::make()?;
    if is_there {
        copy_all(&store, &copy.0.join(CHECKPOINT))?;
    }
    if count.exists() {
        fs::copy(count, FjallStore::count_path(&copy.0.join(CHECKPOINT)))?;
    }
    Ok(Some(copy))
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn read_store(
    copy: &Copy,
    details: Details,
    found: &mut Inspection,
    tell: &mut impl FnMut(String),
) -> Result<(), String> {
    let store = copy.store().map_err(|error| store_words(&error))?;
    let mut walk = store.walk_from(0);
    while let Some((group, meta)) = walk.next_group().map_err(|error| store_words(&error))? {
        let facts = match checkpoint_facts(group, &meta) {
            Ok(facts) => facts,
            Err(reason) => {
                found.damage.push(format!("the checkpoint of group {group} cannot be read: {reason}"));
                continue;
            }
        };
        let (mut objects, mut bytes) = (0, 0);
        let read = walk.objects(&mut |name, value| {
            objects += 1;
            bytes += (name.len() + value.len()) as u64;
            if details.checkpoints && details.group.is_none_or(|wanted| wanted == group) {
                tell(format!("group {group}: {}, {} bytes", stored_name(name), value.len()));
            }
            true
        });
        if let Err(error) = read {
            found.damage.push(format!("the checkpoint of group {group} cannot be read: {error}"));
        }
        found.silent_replicas += u64::from(facts.silent.is_some());
        let entry = found.groups.entry(group).or_default();
        entry.promised.get_or_insert_with(|| facts.promised.clone());
        entry.checkpoint = Some(GroupCheckpoint {
            namespace: facts.namespace,
            epoch: facts.epoch,
            members: facts.members,
            durability: facts.durability,
            silent: facts.silent,
            next_slot: facts.next_slot,
            promised: facts.promised,
            objects,
            bytes,
        });
    }
    Ok(())
}

/// What went wrong with a store, for somebody who knows no more of it than that there is one.
pub(crate) fn store_words(error: &StoreError) -> String {
    let StoreError::Engine { path, source } = error else { return error.to_string() };
    let causes = std::iter::successors(Some(&**source as &dyn std::error::Error), |error| error.source());
    let mut of_system = causes.filter_map(|error| error.downcast_ref::<io::Error>());
    // A file that is gone is no refusal of the system's.
    let is_refusal = |error: &io::Error| error.raw_os_error().is_some() && error.kind() != io::ErrorKind::NotFound;
    if of_system.any(is_refusal) {
        return error.to_string();
    }
    format!(
        "the checkpoint store {path} is damaged: a part of it is not what was written ({source}); \
         docs/operations/disks.md says what that means and what to do"
    )
}

#[cfg(test)]
mod tests {
    use quorate_checkpoint::Batch;
    use quorate_protocol::NodeId;

    use super::*;
    use crate::config::ClusterId;
    use crate::directory::Whose;

    #[test]
    fn damage_is_told_of_the_directory_that_was_asked_for_and_nothing_is_left_behind() {
        let path = std::env::temp_dir().join(format!("quorate-inspected-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        drop(
            Directory::open(&path, Whose { cluster: ClusterId(1), node: NodeId(1), directory: 1 })
                .expect("a new directory"),
        );
        let mut store = FjallStore::open(&path.join(CHECKPOINT), &FjallSettings::default()).expect("a new store");
        let mut batch = Batch::new();
        batch.put_meta(7, b"what no release writes".to_vec());
        store.apply(batch).expect("there is space");
        drop(store);
        let found = inspect(&path, Details::default(), |_| {}).expect("it can be looked at");
        assert!(found.store_is_read && found.damage.iter().any(|damage| damage.contains("group 7")), "{found:?}");
        fs::write(FjallStore::count_path(&path.join(CHECKPOINT)), "no count").expect("it can be written to");
        let found = inspect(&path, Details::default(), |_| {}).expect("it can be looked at");
        let told = found.damage.join("\n");
        assert!(!found.store_is_read && told.contains(&*path.to_string_lossy()), "{told}");
        assert!(!told.contains("quorate-inspect-"), "{told}");
        let copy = copy_store(&path).expect("it can be copied").expect("there is one");
        let place = copy.0.clone();
        assert!(place.exists());
        drop(copy);
        assert!(!place.exists());
        let _ = fs::remove_dir_all(&path);
    }

    #[test]
    fn a_damaged_store_is_told_from_one_that_the_system_refuses() {
        let told = |source: Box<dyn std::error::Error + Send + Sync>| {
            store_words(&StoreError::Engine { path: "/data/checkpoint".into(), source })
        };
        let damaged = told("ChecksumMismatch".into());
        assert!(
            damaged.starts_with("the checkpoint store /data/checkpoint is damaged") && damaged.contains("disks.md")
        );
        let refused = told(Box::new(io::Error::from_raw_os_error(libc::EACCES)));
        assert!(refused.contains("failed: Permission denied"), "{refused}");
    }
}
