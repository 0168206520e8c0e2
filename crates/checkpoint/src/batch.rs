//! Changes that are applied together. Built anywhere, applied where the store is.

use std::collections::BTreeMap;

use crate::{NAME_BYTES_MAX, VALUE_BYTES_MAX};

/// What becomes of a record: a value, or nothing.
pub(crate) type Change = Option<Vec<u8>>;

/// Changes to groups and to the node's own records. Of several changes to one record the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub(crate) groups: BTreeMap<u64, GroupChanges>,
    pub(crate) node: BTreeMap<Vec<u8>, Change>,
    bytes: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupChanges {
    pub(crate) meta: Option<Change>,
    /// Objects that are not named below go, whatever they are.
    pub(crate) cleared: bool,
    pub(crate) objects: BTreeMap<Vec<u8>, Change>,
}

impl GroupChanges {
    /// Nothing of the group is left.
    pub(crate) fn is_deletion(&self) -> bool {
        self.cleared && self.meta == Some(None) && self.objects.values().all(Option::is_none)
    }
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.node.is_empty()
    }

    /// Adds the changes of a batch that was built later.
    pub fn append(&mut self, later: Batch) {
        if self.is_empty() {
            *self = later;
            return;
        }
        self.bytes += later.bytes;
        self.node.extend(later.node);
        for (number, changes) in later.groups {
            let group = self.group(number);
            group.meta = changes.meta.or(group.meta.take());
            if changes.cleared {
                group.cleared = true;
                group.objects.clear();
            }
            group.objects.extend(changes.objects);
        }
    }

    /// Names and values that were put in, for those who keep batches bounded.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// # Panics
    /// If the value is larger than [`VALUE_BYTES_MAX`].
    pub fn put_meta(&mut self, group: u64, meta: Vec<u8>) {
        self.check(&[], &meta);
        self.group(group).meta = Some(Some(meta));
    }

    /// # Panics
    /// If the name is longer than [`NAME_BYTES_MAX`] or the value larger than [`VALUE_BYTES_MAX`].
    pub fn put_object(&mut self, group: u64, name: &[u8], value: Vec<u8>) {
        self.check(name, &value);
        self.group(group).objects.insert(name.to_vec(), Some(value));
    }

    /// # Panics
    /// If the name is longer than [`NAME_BYTES_MAX`].
    pub fn delete_object(&mut self, group: u64, name: &[u8]) {
        self.check(name, &[]);
        self.group(group).objects.insert(name.to_vec(), None);
    }

    /// Deletes all objects of the group; those put in later stay. Whoever installs a snapshot begins with this.
    pub fn clear_objects(&mut self, group: u64) {
        let group = self.group(group);
        group.cleared = true;
        group.objects.clear();
    }

    /// Deletes the group: objects and meta record.
    pub fn delete_group(&mut self, group: u64) {
        self.clear_objects(group);
        self.group(group).meta = Some(None);
    }

    /// # Panics
    /// If the name is longer than [`NAME_BYTES_MAX`] or the value larger than [`VALUE_BYTES_MAX`].
    pub fn put_node_record(&mut self, name: &str, value: Vec<u8>) {
        self.check(name.as_bytes(), &value);
        self.node.insert(name.as_bytes().to_vec(), Some(value));
    }

    pub fn delete_node_record(&mut self, name: &str) {
        self.node.insert(name.as_bytes().to_vec(), None);
    }

    fn group(&mut self, group: u64) -> &mut GroupChanges {
        self.groups.entry(group).or_default()
    }

    fn check(&mut self, name: &[u8], value: &[u8]) {
        assert!(name.len() <= NAME_BYTES_MAX, "a name of {} bytes in a checkpoint", name.len());
        assert!(value.len() <= VALUE_BYTES_MAX, "a value of {} bytes in a checkpoint", value.len());
        self.bytes += name.len() + value.len();
    }
}
