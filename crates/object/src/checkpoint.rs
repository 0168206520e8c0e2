//! What a checkpoint needs of the objects: what changed since the last one, and all of it.
//!
//! A checkpoint stores an encoded object under each name. It stays equal to the objects if, each time, it first empties itself if
//! [`Objects::was_flushed`], and then stores or removes what is shown after [`Objects::begin_saving`]. A million changed objects
//! need not be shown at once: each is shown as it was when the saving began. Whatever is about to change before its turn has come
//! is encoded first.

use std::ops::ControlFlow;

use hashbrown::{HashTable, hash_table};

use crate::codec::Malformed;
use crate::object::Object;
use crate::objects::Objects;
use crate::table::{Slot, Table};

/// What a removed name costs until the next checkpoint, about, besides its bytes: the box and its place in the set.
const GONE_BYTES_EACH: usize = size_of::<Gone>() * 3 / 2;

/// A name that was removed, with its hash.
type Gone = (u64, Box<[u8]>);

/// Removals since the last checkpoint. Changed objects are marked in the table.
#[derive(Debug)]
pub(crate) struct Unsaved {
    gone: HashTable<Gone>,
    gone_bytes: usize,
    flushed: bool,
}

/// An object encoded before its turn, behind its name.
type Early = (Box<[u8]>, Box<[u8]>);

/// A saving under way.
#[derive(Debug)]
pub(crate) struct Saving {
    gone: hash_table::IntoIter<Gone>,
    /// Objects that have changed since it began, as they were, with their names.
    early: Vec<Early>,
    /// What is to be saved from this hash on is marked in the table.
    next: Option<u64>,
    /// The one with the marks, if all objects were deleted at once since it began.
    table: Option<Table>,
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

    /// The name is back, and shown as changed or not at all.
    pub(crate) fn note_back(&mut self, hash: u64, name: &[u8]) {
        if !self.gone.is_empty()
            && let Ok(found) = self.gone.find_entry(hash, |(_, other)| **other == *name)
        {
            self.gone_bytes -= GONE_BYTES_EACH + name.len();
            found.remove();
        }
    }

    pub(crate) fn note_flush(&mut self) {
        *self = Unsaved { flushed: true, ..Unsaved::new() };
    }
}

impl Objects {
    /// Whether all objects of the last checkpoint were deleted at once since then. Ask before [`Objects::begin_saving`] forgets
    /// it.
    pub fn was_flushed(&self) -> bool {
        self.unsaved.flushed
    }

    /// What changed up to here is shown by [`Objects::save_some`], and counts as saved. The saving before must be over.
    pub fn begin_saving(&mut self) {
        assert!(self.saving.is_none(), "one saving at a time");
        let Unsaved { gone, .. } = std::mem::replace(&mut self.unsaved, Unsaved::new());
        self.table.turn_round();
        let saving = Saving { gone: gone.into_iter(), early: Vec::new(), next: Some(0), table: None };
        self.saving = Some(Box::new(saving));
    }

    pub fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// Shows names that had changed or were gone when the saving began, each of them once, with its object as that was then, or
    /// `None` if it was gone; also names that came and went since the saving before. Counts `left` down by one for each, and for each
    /// part of the table without any, and stops when it is used up, but not within a part. Says whether that was all.
    pub fn save_some(&mut self, left: &mut usize, mut each: impl FnMut(&[u8], Option<&[u8]>)) -> bool {
        let Some(saving) = &mut self.saving else { return true };
        *left = left.saturating_sub(saving.early.len());
        saving.early.drain(..).for_each(|(name, encoded)| each(&name, Some(&encoded)));
        let gone_before = saving.gone.len();
        saving.gone.by_ref().take(*left).for_each(|(_, name)| each(&name, None));
        *left -= gone_before - saving.gone.len();
        let table = saving.table.as_mut().unwrap_or(&mut self.table);
        let mut encoded = Vec::new();
        while *left > 0
            && let Some(from) = saving.next
        {
            let (saved, next) = table.save_leaf(from, &mut |object| {
                encoded.clear();
                object.encode(&mut encoded);
                each(object.name(), Some(&encoded));
            });
            *left = left.saturating_sub(saved.max(1));
            saving.next = next;
        }
        let is_over = saving.next.is_none() && saving.gone.len() == 0;
        if is_over {
            self.end_saving();
        }
        is_over
    }

    fn end_saving(&mut self) {
        if let Some(table) = self.saving.take().and_then(|saving| saving.table) {
            self.discard_table(table);
        }
    }

    /// A saving in one go.
    pub fn take_dirty(&mut self, each: impl FnMut(&[u8], Option<&[u8]>)) {
        self.begin_saving();
        self.save_some(&mut { usize::MAX }, each);
    }

    /// Nothing counts as changed: whoever says so has stored everything, or stores nothing. A saving under way is given up.
    pub fn forget_changes(&mut self) {
        self.end_saving();
        self.unsaved = Unsaved::new();
        self.table.unmark_all();
    }

    /// Everything counts as changed, for a checkpoint that begins with nothing. No name may be swapped, nor a saving be under way.
    pub fn note_all_changed(&mut self) {
        self.assert_none_swapped();
        self.unsaved = Unsaved::new();
        self.table.mark_all();
    }

    /// The object there is about to change.
    pub(crate) fn save_before_change(&mut self, hash: u64, slot: Slot) {
        let Some(saving) = &mut self.saving else { return };
        if let Some(object) = self.table.save(hash, slot) {
            let mut encoded = Vec::new();
            object.encode(&mut encoded);
            saving.early.push((object.name().into(), encoded.into()));
        }
    }

    /// All objects go at once. Those that are to be saved are kept until they are.
    pub(crate) fn replace_table(&mut self) {
        let table = std::mem::replace(&mut self.table, Table::new());
        match &mut self.saving {
            Some(saving) if saving.table.is_none() => saving.table = Some(table),
            _ => self.discard_table(table),
        }
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

    /// Puts back an object that a checkpoint stored, in place of any of that name. It counts as saved, and is not
    /// shown.
    pub fn restore_object(&mut self, key: &[u8], encoded: &[u8]) -> Result<(), Malformed> {
        let object = Object::decode(key, encoded, self.hash_key)?;
        let place = self.place(key);
        match place.slot {
            Some(slot) => drop(self.take_out(place.hash, slot)),
            None => drop(self.forget_swapped(key)),
        }
        self.note(place.hash, &object);
        self.unsaved.note_back(place.hash, key);
        self.table.insert(place.hash, object, false);
        Ok(())
    }
}
