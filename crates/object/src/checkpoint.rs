//! What a checkpoint needs of the objects: what changed since the last one, and all of it.
//!
//! A checkpoint stores an encoded object under each name. It stays equal to the objects if, each time, it first empties itself if
//! [`Objects::was_flushed`], and then stores or removes what [`Objects::take_dirty`] shows.

use std::ops::ControlFlow;

use hashbrown::HashTable;

use crate::codec::Malformed;
use crate::object::Object;
use crate::objects::Objects;

/// What a removed name costs until the next checkpoint, about, besides its bytes: the box and its place in the set.
const GONE_BYTES_EACH: usize = size_of::<(u64, Box<[u8]>)>() * 3 / 2;

/// Removals since the last checkpoint. Changed objects are marked in the table.
#[derive(Debug)]
pub(crate) struct Unsaved {
    /// Names that were removed, with their hash. Some may be back.
    gone: HashTable<(u64, Box<[u8]>)>,
    gone_bytes: usize,
    flushed: bool,
}

impl Unsaved {
    pub(crate) fn new() -> Unsaved {
        Unsaved { gone: HashTable::new(), gone_bytes: 0, flushed: false }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.gone_bytes
    }

    pub(crate) fn note_gone(&mut self, hash: u64, name: &[u8]) {
        if self.gone.find(hash, |(_, other)| **other == *name).is_some() {
            return;
        }
        self.gone_bytes += GONE_BYTES_EACH + name.len();
        self.gone.insert_unique(hash, (hash, name.into()), |(hash, _)| *hash);
    }

    pub(crate) fn note_flush(&mut self) {
        *self = Unsaved { flushed: true, ..Unsaved::new() };
    }
}

impl Objects {
    /// Whether all objects of the last checkpoint were deleted at once since then. Ask before [`Objects::take_dirty`] forgets it.
    pub fn was_flushed(&self) -> bool {
        self.unsaved.flushed
    }

    /// Shows each name changed or removed since the last call once, with its encoded object or `None` if it is gone, and takes all
    /// of it for saved. A name that came and went in the meantime is shown as gone too.
    pub fn take_dirty(&mut self, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        let unsaved = std::mem::replace(&mut self.unsaved, Unsaved::new());
        for (hash, name) in &unsaved.gone {
            // A name that is back is dirty in the table.
            if self.table.find(*hash, name).is_none() {
                each(name, None);
            }
        }
        let mut encoded = Vec::new();
        self.table.take_dirty(&mut |object| {
            encoded.clear();
            object.encode(&mut encoded);
            each(object.name(), Some(&encoded));
        });
    }

    /// Shows every object, encoded, in no particular order. No name may be swapped.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8])) {
        self.assert_none_swapped();
        let mut encoded = Vec::new();
        self.table.visit_leaves(0, &mut |entries| {
            for entry in entries {
                encoded.clear();
                entry.object.encode(&mut encoded);
                each(entry.object.name(), &encoded);
            }
            ControlFlow::Continue(())
        });
    }

    /// Puts back an object that a checkpoint stored, in place of any of that name. It counts as saved: [`Objects::take_dirty`] does
    /// not show it.
    pub fn restore_object(&mut self, key: &[u8], encoded: &[u8]) -> Result<(), Malformed> {
        let object = Object::decode(key, encoded)?;
        let place = self.place(key);
        match place.slot {
            Some(slot) => drop(self.take_out(place.hash, slot)),
            None => drop(self.forget_swapped(key)),
        }
        self.note(place.hash, &object);
        self.table.insert(place.hash, object, false);
        Ok(())
    }
}
