//! The simulator's store. A clone is an image of the medium.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use crate::batch::{Batch, Change, GroupChanges};
use crate::{Key, Store, StoreError, Walk};

/// Records in memory, durable as far as the simulator is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStore {
    groups: BTreeMap<u64, Group>,
    node: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    meta: Option<Vec<u8>>,
    objects: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Store for MemoryStore {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        for (number, changes) in batch.groups {
            let group = self.groups.entry(number).or_default();
            group.apply(changes);
            if *group == Group::default() {
                self.groups.remove(&number);
            }
        }
        for (name, change) in batch.node {
            set(&mut self.node, name, change);
        }
        Ok(())
    }

    fn get(&self, group: u64, key: Key<'_>) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(group) = self.groups.get(&group) else { return Ok(None) };
        Ok(match key {
            Key::Meta => group.meta.clone(),
            Key::Object(name) => group.objects.get(name).cloned(),
        })
    }

    fn objects_from(
        &self,
        group: u64,
        first: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        if let Some(group) = self.groups.get(&group) {
            let from_first = (Bound::Included(first), Bound::Unbounded);
            // Whoever breaks off has enough.
            let _ = group
                .objects
                .range::<[u8], _>(from_first)
                .try_for_each(|(name, value)| each(name, value).then_some(()));
        }
        Ok(())
    }

    fn walk_from(&self, first: u64) -> Box<dyn Walk + '_> {
        Box::new(MemoryWalk { groups: self.groups.range(first..), group: None })
    }

    fn node_record(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.node.get(name.as_bytes()).cloned())
    }
}

struct MemoryWalk<'a> {
    groups: btree_map::Range<'a, u64, Group>,
    group: Option<&'a Group>,
}

impl Walk for MemoryWalk<'_> {
    fn next_group(&mut self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let next = self.groups.find_map(|(number, group)| Some((*number, group, group.meta.clone()?)));
        self.group = next.as_ref().map(|(_, group, _)| *group);
        Ok(next.map(|(number, _, meta)| (number, meta)))
    }

    fn objects(&mut self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError> {
        let objects = self.group.take().into_iter().flat_map(|group| &group.objects);
        // Whoever breaks off has enough.
        let _ = objects.map(|(name, value)| each(name, value)).take_while(|goes_on| *goes_on).count();
        Ok(())
    }
}

impl Group {
    fn apply(&mut self, changes: GroupChanges) {
        if let Some(meta) = changes.meta {
            self.meta = meta;
        }
        if changes.cleared {
            self.objects.clear();
        }
        for (name, change) in changes.objects {
            set(&mut self.objects, name, change);
        }
    }
}

fn set(records: &mut BTreeMap<Vec<u8>, Vec<u8>>, name: Vec<u8>, change: Change) {
    match change {
        Some(value) => records.insert(name, value),
        None => records.remove(&name),
    };
}
