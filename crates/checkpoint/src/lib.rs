//! Where snapshots of groups live, and later paused groups: an embedded key-value library behind one trait.
//!
//! Promises:
//! - A [`Batch`] is applied whole or not at all, and is durable when [`Store::apply`] returns.
//! - [`FjallStore`] (on disk) and [`MemoryStore`] (the simulator's) behave alike: one conformance suite runs on both.
//! - A store of a newer release is refused by name, and so is one that lost a batch which was durable.
//!
//! It refuses to know what the bytes mean, and when a checkpoint is due.

#![forbid(unsafe_code)]

mod batch;
mod count;
mod fjall_store;
mod memory_store;

pub use batch::Batch;
pub use fjall_store::{FjallSettings, FjallStore};
pub use memory_store::MemoryStore;

/// The longest name of an object or node record. The library's keys end at 65,535 bytes; ours begin with ten bytes of
/// their own, and the rest is left for what a later format may want to put in front.
pub const NAME_BYTES_MAX: usize = 65_000;
/// The largest value: one object of 16 MiB with its results and deadlines, and room.
pub const VALUE_BYTES_MAX: usize = 24 * 1024 * 1024;
/// The layout that this release writes.
pub const FORMAT_VERSION: u16 = 1;

/// One of a group's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// What the group is and how far its checkpoint reaches.
    Meta,
    Object(&'a [u8]),
}

/// Records of groups, and a few of the node itself. Reads see every batch that was applied.
pub trait Store {
    /// Applies the batch, atomically; durable when it returns. After an error the outcome is unknown until the store
    /// is opened again.
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// Whether it could still apply a batch. It may not: what was applied is put in order in the background.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn get(&self, group: u64, key: Key<'_>) -> Result<Option<Vec<u8>>, StoreError>;

    /// Calls back name and value of the group's objects, by ascending name from `first` on, for as long as `each` says so.
    fn objects_from(
        &self,
        group: u64,
        first: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError>;

    /// As [`Store::objects_from`], of every object.
    fn for_each(&self, group: u64, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.objects_from(group, b"", &mut |name, value| {
            each(name, value);
            true
        })
    }

    /// Begins to walk over all groups, by ascending group from `first` on.
    fn walk_from(&self, first: u64) -> Box<dyn Walk + '_>;

    /// Calls back every group that has a meta record, with it, by ascending group.
    fn groups(&self, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), StoreError> {
        let mut walk = self.walk_from(0);
        while let Some((group, meta)) = walk.next_group()? {
            each(group, &meta);
        }
        Ok(())
    }

    /// A record of the node itself: its identity, what it is pinned to, its directory of the cluster.
    fn node_record(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
}

/// A way through the groups of a store as it was when the walk began. However many groups it visits, it reads each of their
/// records once, where a look-up reads again whatever lies in one block with what it is for.
pub trait Walk {
    /// The next group that has a meta record, with it. Whatever was not read of the one before is passed by.
    fn next_group(&mut self) -> Result<Option<(u64, Vec<u8>)>, StoreError>;

    /// Calls back name and value of this group's objects, by ascending name, for as long as `each` says so. They come once. After an
    /// error, which is about this group, the next one can be gone to.
    fn objects(&mut self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError>;
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing of the batch counts. When there is space, drop the store and open it again.
    #[error("no space left for checkpoints")]
    NoSpace,
    /// What was applied could not be put in order in the background, and the store does not say why. Where there is no space,
    /// that is the reason, and this is as [`StoreError::NoSpace`]; otherwise as [`StoreError::Engine`].
    #[error("the checkpoint store {path} failed: {source}")]
    Stopped { path: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the checkpoint store {path} is in use by another process")]
    InUse { path: String },
    #[error(
        "the checkpoint store {path} was written by a newer release (format {found}, this one knows up to {known})"
    )]
    NewerVersion { path: String, found: u16, known: u16 },
    /// What it holds is older than what was durable in it.
    #[error(
        "the checkpoint store {path} has lost the last {lost} batches that were stored in it: what this node promised may \
         be among them"
    )]
    Lost { path: String, lost: u64 },
    /// A record is not what this store writes.
    #[error("the checkpoint store {path} is damaged: {what}")]
    Damaged { path: String, what: &'static str },
    /// A read or write failed; the process must stop and recover from what is on the medium.
    #[error("the checkpoint store {path} failed: {source}")]
    Engine { path: String, source: Box<dyn std::error::Error + Send + Sync> },
}
