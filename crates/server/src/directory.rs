//! A node's data directory: whose it is, that nobody else uses it, and what its last run may have lost.
//!
//! Opening promises three things. No other process has the directory open, for as long as this one lives. The data in
//! it are this node's of this cluster, in a format that this version reads. And the start number is larger than any
//! used before, on disk before anybody sees it.
//!
//! ```text
//! identity, identity.copy   one file written twice, each by rename; see [`Identity`]
//! lock                      held by flock while the node runs
//! pid                       of the process that runs the node; removed when it stops cleanly
//! clean_stop                the start number of the run that stopped cleanly; removed at start
//! new                       from when the directory was made until every other node has accepted it
//! replacement               from when it was made in place of one that was lost until the store knows which groups that had
//! removed                   once its node has been told that it was removed from the cluster
//! wal/, checkpoint/         the log's and the checkpoint's
//! ```
//!
//! It knows nothing of what the log and the checkpoint keep in their own directories.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use quorate_node::Forgotten;
use quorate_protocol::id::NodeId;

use crate::config::{ClusterId, Config};

mod identity;

pub use identity::{FORMAT, Identity};

const IDENTITY: &str = "identity";
const IDENTITY_COPY: &str = "identity.copy";
const LOCK: &str = "lock";
const PID: &str = "pid";
const CLEAN_STOP: &str = "clean_stop";
pub(crate) const NEW: &str = "new";
const REPLACEMENT: &str = "replacement";
const REMOVED: &str = "removed";
pub(crate) const WAL: &str = "wal";
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// What there is as soon as a node has spoken: the log's record of its files, the checkpoint, and the count of its batches.
const WITNESSES: [&str; 3] = ["wal/log.bounds", CHECKPOINT, "checkpoint.count"];
/// Shards (logs) of a directory, fixed when it is made.
const SHARDS: u32 = 1;

/// Starts are counted within a directory, and directories of a node above them: those in a later one have higher numbers.
const START_BITS: u32 = 24;
/// The most directories that a node can have, one after the other.
pub const DIRECTORIES_MAX: u32 = 1 << (u32::BITS - START_BITS);

/// In the how manieth data directory of its node a start was.
pub(crate) fn directory_of(start: u32) -> u32 {
    (start >> START_BITS) + 1
}

/// The how manieth it was with that directory.
pub(crate) fn start_within(start: u32) -> u32 {
    start & (u32::MAX >> (u32::BITS - START_BITS))
}

pub(crate) fn first_start_in(directory: u32) -> u32 {
    ((directory - 1) << START_BITS) + 1
}

/// An open data directory. Dropping it releases the lock and leaves the marks of a crash, once the run has [begun]: a start
/// that fails before has said nothing to anybody, and leaves what it found.
///
/// [begun]: Directory::begin
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    identity: Identity,
    forgotten: Forgotten,
    /// The machine's boot id, until the identity has it.
    boot: Option<String>,
    run: u64,
    is_new: bool,
    has_begun: bool,
    /// Its lock is released when it is closed, by us or by our death.
    _lock: File,
}

/// Whose data directory it is to be, and which of those that the node has had, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose {
    pub cluster: ClusterId,
    pub node: NodeId,
    /// From 1.
    pub directory: u32,
}

impl Whose {
    pub fn of(config: &Config) -> Whose {
        Whose { cluster: config.cluster.id, node: config.node_id(), directory: config.node.directory }
    }
}

/// Why a directory cannot be used. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{} is in use by another process{}; stop it first or use another directory", path.display(), pid_note(.pid))]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error("{} was written by a newer quorate (format {found}); this one reads {FORMAT}: use the newer one", path.display())]
    Newer { path: PathBuf, found: u32 },
    #[error("{} holds data of cluster {found}, not of {expected}; use another directory or correct cluster.id", path.display())]
    OtherCluster { path: PathBuf, found: ClusterId, expected: ClusterId },
    #[error("{} holds data of node {found}, not of node {expected}; use another directory or correct node.id", path.display())]
    OtherNode { path: PathBuf, found: u32, expected: u32 },
    #[error("{} and its copy are damaged ({reason}); restore them from a backup, or give the node a new directory (node.directory)", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{} is data directory {found} of its node, and node.directory is {expected}: {}", path.display(), other_directory_note(*found, *expected))]
    OtherDirectory { path: PathBuf, found: u32, expected: u32 },
    #[error("{} holds data but no identity; restore {IDENTITY} from a backup, or give the node a new directory (node.directory)", path.display())]
    IdentityMissing { path: PathBuf },
    #[error(
        "{} lacks {missing}: the node may have forgotten what it promised; put back what was there, or give the \
         node a new directory (node.directory)",
        path.display()
    )]
    Gone { path: PathBuf, missing: &'static str },
    #[error("{} is of a node that was removed from the cluster, and no node takes it for one any more: remove it", path.display())]
    Removed { path: PathBuf },
    #[error("{} is not the data directory of a node{}", path.display(), nodes_note(path))]
    NoNode { path: PathBuf },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl DirectoryError {
    /// Whether the disk is full, which is no damage.
    pub(crate) fn is_for_space(&self) -> bool {
        let DirectoryError::Io { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

fn pid_note(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

fn other_directory_note(found: u32, expected: u32) -> &'static str {
    match found < expected {
        true => {
            "if it is to be replaced, move it away first; it is of no use any more once the new one has been accepted"
        }
        false => "set node.directory to what it is",
    }
}

/// Whoever names what is around a node's directory, or in it, may mean that.
fn nodes_note(path: &Path) -> String {
    let inner = path.join("node-1");
    let meant = [path.parent(), Some(&inner)].into_iter().flatten().find(|meant| meant.join(LOCK).exists());
    meant.map_or_else(String::new, |meant| format!("; {} is", meant.display()))
}

impl Directory {
    /// Whether all other nodes of the cluster have accepted this data directory; if not, the node does not serve yet.
    pub fn is_accepted(path: &Path) -> bool {
        !path.join(NEW).exists()
    }

    /// Whether its node has been told that it was removed from the cluster.
    pub fn is_removed(path: &Path) -> bool {
        path.join(REMOVED).exists()
    }

    /// Its node was removed from the cluster: it is not opened again.
    pub fn remove(&mut self) -> Result<(), DirectoryError> {
        write_whole(&self.path, REMOVED, b"The node of this directory was removed from the cluster.\n")
    }

    /// Opens the directory that is described, making it if there is none, for a run: one number further.
    pub fn open(path: &Path, whose: Whose) -> Result<Directory, DirectoryError> {
        fs::create_dir_all(path).map_err(failed("make", path))?;
        let lock = lock(path)?;
        check_not_removed(path)?;
        let known = read_identity(path, whose)?;
        let boot = machine_boot().map_err(failed("read the boot id for", path))?;
        if known.is_none() {
            // Before there is an identity: should this end here, the directory is still new.
            write_whole(path, NEW, b"Not all other nodes of the cluster have accepted this directory yet.\n")?;
        }
        // Where it was begun as an earlier one it has said nothing yet.
        let is_begun = known.as_ref().is_some_and(|known| directory_of(known.start_number) == whose.directory);
        if !is_begun && whose.directory > 1 {
            write_whole(path, REPLACEMENT, b"It is not known yet which groups the lost directory had.\n")?;
        }
        let forgotten = match &known {
            _ if path.join(REPLACEMENT).exists() => Forgotten::Everything,
            Some(identity) => forgotten(path, identity, &boot)?,
            None => Forgotten::Nothing,
        };
        let is_new = path.join(NEW).exists();
        if !is_new {
            check_witnesses(path)?;
        }
        let run = random_u64().map_err(failed("draw a random number for", path))?;
        let identity = match known {
            Some(identity) => {
                let start_number = first_start_in(whose.directory).max(identity.start_number + 1);
                Identity { start_number, ..identity }
            }
            None => Identity {
                cluster: whose.cluster,
                node: whose.node,
                incarnation: random_u64().map_err(failed("draw a random number for", path))?,
                shards: SHARDS,
                start_number: first_start_in(whose.directory),
                boot: boot.clone(),
                log_end: 0,
            },
        };
        // The mark goes after it was read and before the new start number is used; its own number makes it harmless
        // if this very removal is lost.
        remove_if_there(&path.join(CLEAN_STOP))?;
        write_identity(path, &identity)?;
        for name in [WAL, CHECKPOINT] {
            let inner = path.join(name);
            fs::create_dir_all(&inner).map_err(failed("make", &inner))?;
        }
        sync_directory(path)?;
        fs::write(path.join(PID), format!("{}\n", std::process::id()))
            .map_err(failed("write the pid file of", path))?;
        Ok(Directory {
            path: path.to_owned(),
            identity,
            forgotten,
            boot: Some(boot),
            run,
            is_new,
            has_begun: false,
            _lock: lock,
        })
    }

    /// From here on the node may say and keep what it could forget.
    pub fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Whether [`Directory::open`] could succeed now; changes nothing and makes nothing.
    pub fn check(path: &Path, whose: Whose) -> Result<(), DirectoryError> {
        if !path.join(LOCK).exists() {
            return Ok(());
        }
        let _lock = lock(path)?;
        check_not_removed(path)?;
        match read_identity(path, whose)? {
            Some(_) if Directory::is_accepted(path) => check_witnesses(path),
            _ => Ok(()),
        }
    }

    /// Locks the directory of a stopped node to be looked at. Nothing is made or changed.
    pub(crate) fn lock_stopped(path: &Path) -> Result<File, DirectoryError> {
        match File::open(path.join(LOCK)) {
            Ok(file) => take_lock(path, file),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(DirectoryError::NoNode { path: path.to_owned() })
            }
            Err(error) => Err(failed("look at", path)(error)),
        }
    }

    /// The identities written in it, each with where, or why it cannot be read.
    pub(crate) fn identities(path: &Path) -> Vec<(PathBuf, Result<Identity, String>)> {
        let read = |name: &str| {
            let file = path.join(name);
            let text = fs::read(&file).map_err(|error| error.to_string());
            let identity = text.and_then(|text| {
                Identity::from_text(&String::from_utf8_lossy(&text)).map_err(|unreadable| match unreadable {
                    identity::Unreadable::Newer(found) => format!("it is of a newer quorate (format {found})"),
                    identity::Unreadable::Damaged(reason) => format!("it is damaged: {reason}"),
                })
            });
            (file, identity)
        };
        [IDENTITY, IDENTITY_COPY].map(read).into()
    }

    /// Whether the run of `identity` ended cleanly, as far as is written.
    pub(crate) fn was_stopped_cleanly(path: &Path, identity: &Identity) -> bool {
        forgotten(path, identity, &identity.boot).is_ok_and(|forgotten| forgotten == Forgotten::Nothing)
    }

    /// Whether a node has ever run here.
    pub fn holds_data(path: &Path) -> bool {
        [IDENTITY, IDENTITY_COPY, WAL, CHECKPOINT].iter().any(|name| path.join(name).exists())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Drawn for this run: a copy of the directory from before counts its next start by the same number, and draws another.
    pub fn run(&self) -> u64 {
        self.run
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// It is known from now on what earlier runs have forgotten. Before, a run that ends as soon as it has begun must not hide that
    /// the machine lost power before it.
    pub fn settle(&mut self) -> Result<(), DirectoryError> {
        let Some(boot) = self.boot.clone() else { return Ok(()) };
        if self.forgotten == Forgotten::Everything {
            remove_if_there(&self.path.join(REPLACEMENT))?;
            sync_directory(&self.path)?;
        }
        if boot != self.identity.boot {
            let settled = Identity { boot, ..self.identity.clone() };
            write_identity(&self.path, &settled)?;
            self.identity = settled;
        }
        self.boot = None;
        Ok(())
    }

    /// What the runs before this one may have said and not kept.
    pub fn forgotten(&self) -> Forgotten {
        self.forgotten
    }

    /// Whether some other node has not accepted the directory yet, as far as is remembered. Nothing that a node said is
    /// in such a directory: a node that lost its own would otherwise pass for one that never promised anything.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Every other node has accepted it.
    pub fn admit(&mut self) -> Result<(), DirectoryError> {
        remove_if_there(&self.path.join(NEW))?;
        sync_directory(&self.path)?;
        self.is_new = false;
        Ok(())
    }

    pub fn wal_path(&self) -> PathBuf {
        self.path.join(WAL)
    }

    pub fn checkpoint_path(&self) -> PathBuf {
        self.path.join(CHECKPOINT)
    }

    /// The run ends and everything it kept is on disk: to be called last. The log reaches to `log_end`.
    pub fn stop_cleanly(self, log_end: u64) -> Result<(), DirectoryError> {
        write_identity(&self.path, &Identity { log_end, ..self.identity.clone() })?;
        self.mark_stopped()
    }

    fn mark_stopped(&self) -> Result<(), DirectoryError> {
        write_whole(&self.path, CLEAN_STOP, format!("{}\n", self.identity.start_number).as_bytes())?;
        remove_if_there(&self.path.join(PID))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.has_begun && self.forgotten == Forgotten::Nothing {
            // If that fails as well, this counts as a crash.
            let _ = self.mark_stopped();
        }
    }
}

fn lock(path: &Path) -> Result<File, DirectoryError> {
    let lock_path = path.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(failed("open", &lock_path))?;
    take_lock(path, file)
}

fn take_lock(path: &Path, file: File) -> Result<File, DirectoryError> {
    let lock_path = path.join(LOCK);
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(path.join(PID)).ok().and_then(|text| text.trim().parse().ok());
            Err(DirectoryError::InUse { path: path.to_owned(), pid })
        }
        Err(TryLockError::Error(source)) => Err(DirectoryError::Io { action: "lock", path: lock_path, source }),
    }
}

/// What it should have and has not.
pub(crate) fn check_witnesses(path: &Path) -> Result<(), DirectoryError> {
    let gone = WITNESSES.iter().find(|name| !path.join(name).exists());
    gone.map_or(Ok(()), |missing| Err(DirectoryError::Gone { path: path.to_owned(), missing }))
}

fn check_not_removed(path: &Path) -> Result<(), DirectoryError> {
    if Directory::is_removed(path) { Err(DirectoryError::Removed { path: path.to_owned() }) } else { Ok(()) }
}

fn write_identity(path: &Path, identity: &Identity) -> Result<(), DirectoryError> {
    [IDENTITY, IDENTITY_COPY].iter().try_for_each(|name| write_whole(path, name, identity.to_text().as_bytes()))
}

/// The identity the directory has, if any: the later of its two writings, as a crash may fall between them.
fn read_identity(path: &Path, whose: Whose) -> Result<Option<Identity>, DirectoryError> {
    let Whose { cluster, node, directory } = whose;
    let mut latest: Option<Identity> = None;
    let mut damage = None;
    for name in [IDENTITY, IDENTITY_COPY] {
        let file = path.join(name);
        let text = match fs::read(&file) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => {
                return Err(DirectoryError::Io { action: "read", path: file, source });
            }
        };
        match Identity::from_text(&text) {
            Ok(identity) if latest.as_ref().is_none_or(|latest| latest.start_number < identity.start_number) => {
                latest = Some(identity);
            }
            Ok(_) => {}
            Err(identity::Unreadable::Newer(found)) => {
                return Err(DirectoryError::Newer { path: path.to_owned(), found });
            }
            Err(identity::Unreadable::Damaged(reason)) => damage = Some(reason),
        }
    }
    match (latest, damage) {
        (Some(found), _) if found.cluster != cluster => {
            Err(DirectoryError::OtherCluster { path: path.to_owned(), found: found.cluster, expected: cluster })
        }
        (Some(found), _) if found.node != node => {
            Err(DirectoryError::OtherNode { path: path.to_owned(), found: found.node.0, expected: node.0 })
        }
        (Some(identity), _) => match directory_of(identity.start_number) {
            // One that nobody has accepted yet, because the one before it is known, becomes the next one.
            found if found == directory || found < directory && path.join(NEW).exists() => Ok(Some(identity)),
            found => Err(DirectoryError::OtherDirectory { path: path.to_owned(), found, expected: directory }),
        },
        (None, Some(reason)) => Err(DirectoryError::Damaged { path: path.join(IDENTITY), reason }),
        (None, None) if is_filled(&path.join(WAL)) || is_filled(&path.join(CHECKPOINT)) => {
            Err(DirectoryError::IdentityMissing { path: path.to_owned() })
        }
        (None, None) => Ok(None),
    }
}

fn is_filled(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

/// Judged by how the run of `identity` ended.
fn forgotten(path: &Path, identity: &Identity, boot: &str) -> Result<Forgotten, DirectoryError> {
    let mark = path.join(CLEAN_STOP);
    let marked = match fs::read_to_string(&mark) {
        Ok(text) => text.trim().parse() == Ok(identity.start_number),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(source) => {
            return Err(DirectoryError::Io { action: "read", path: mark, source });
        }
    };
    Ok(if marked {
        Forgotten::Nothing
    } else if identity.boot == boot {
        Forgotten::Memory
    } else {
        Forgotten::Unsynced
    })
}

/// Replaces a file so that a crash leaves the old or the new one, whole.
pub(crate) fn write_whole(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), DirectoryError> {
    let path = directory.join(name);
    let unfinished = directory.join(format!("{name}.new"));
    let write = || -> io::Result<()> {
        let mut file = File::create(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)
    };
    write().map_err(failed("write", &path))?;
    sync_directory(directory)
}

fn sync_directory(path: &Path) -> Result<(), DirectoryError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(failed("sync", path))
}

fn remove_if_there(path: &Path) -> Result<(), DirectoryError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DirectoryError {
    let path = path.to_owned();
    move |source| DirectoryError::Io { action, path, source }
}

/// What tells one run of the machine's kernel from another.
fn machine_boot() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

/// Unpredictable, from the operating system: identities and secrets are made of it.
pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests;
