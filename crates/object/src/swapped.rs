//! Names whose objects are held elsewhere, without the names: a checkpoint has those, and here is only what finds a note.
//!
//! Such a name takes 16 bytes whatever its length: 85 bits of two hashes of it under the group's key, and its note. Two names
//! are taken for one if all of these are alike, which for ten million names and a trillion that are asked for happens once in
//! four million such groups, and cannot be brought about by who does not know the key.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::ops::{ControlFlow, Deref};

use crate::away::Away;
use crate::object::Object;
use crate::objects::Objects;
use crate::table::HASH_BITS;

/// A longer note stays beside its name.
const NOTE_BYTES_MAX: usize = NOTE_BITS as usize / 8;
const NOTE_BITS: u32 = 40;
/// How long the note is.
const LENGTH_BITS: u32 = 3;
/// Of a second hash.
const TAG_BITS: u32 = u128::BITS - HASH_BITS - LENGTH_BITS - NOTE_BITS;

/// What a swapped name takes in memory, about: a tree's nodes are full to two thirds.
const BYTES_EACH: usize = size_of::<u128>() + size_of::<u128>() * 3 / 5;

/// What is noted of a name whose object is held elsewhere.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    Here(&'a [u8]),
    /// Its name is swapped.
    Swapped(SwappedNote),
}

#[derive(Clone, Copy, Debug)]
pub struct SwappedNote {
    bytes: [u8; NOTE_BYTES_MAX],
    length: u8,
}

impl Deref for Note<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Note::Here(note) => note,
            Note::Swapped(note) => &note.bytes[..usize::from(note.length)],
        }
    }
}

/// Hash, tag, length of the note and note of each, from the high bits down: in SCAN's order.
#[derive(Debug, Default)]
pub(crate) struct Swapped {
    entries: BTreeSet<u128>,
}

/// The leading bits of an entry: what tells its name from others.
#[derive(Clone, Copy)]
struct Print(u128);

impl Print {
    fn new(hash: u64, tag: u64) -> Print {
        let tag = tag >> (u64::BITS - TAG_BITS);
        Print((u128::from(hash) << TAG_BITS | u128::from(tag)) << (LENGTH_BITS + NOTE_BITS))
    }

    fn with(self, note: &[u8]) -> u128 {
        let mut bytes = [0; 16];
        bytes[..note.len()].copy_from_slice(note);
        self.0 | (note.len() as u128) << NOTE_BITS | u128::from_le_bytes(bytes)
    }
}

fn note_of(entry: u128) -> SwappedNote {
    let length = (entry >> NOTE_BITS) as u8 & ((1 << LENGTH_BITS) - 1);
    let mut bytes = [0; NOTE_BYTES_MAX];
    bytes.copy_from_slice(&entry.to_le_bytes()[..NOTE_BYTES_MAX]);
    SwappedNote { bytes, length }
}

impl Swapped {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * BYTES_EACH
    }

    fn find(&self, print: Print) -> Option<u128> {
        let last = print.0 | ((1 << (LENGTH_BITS + NOTE_BITS)) - 1);
        self.entries.range(print.0..=last).next().copied()
    }
}

impl Objects {
    /// How many names are swapped. Until they are back with [`Objects::swap_in`] there is no listing of names, and no copy.
    pub fn swapped_count(&self) -> usize {
        self.swapped.len()
    }

    /// What the names take that could be swapped, about.
    pub fn away_bytes(&self) -> usize {
        self.away_bytes
    }

    /// The note of a name that is swapped.
    pub(crate) fn swapped_note(&self, key: &[u8]) -> Option<SwappedNote> {
        self.swapped_entry(key).map(note_of)
    }

    /// Forgets the names of one leaf's objects that are held elsewhere, as far as they did not change since the last checkpoint,
    /// which must be stored, and `may` agrees to their notes. Begins at a leaf for hash `from`, and says where the next one does.
    pub fn swap_out(&mut self, from: u64, may: impl Fn(&[u8]) -> bool) -> Option<u64> {
        let goes = |object: &Object| match object {
            Object::Away(away) => away.note().len() <= NOTE_BYTES_MAX && may(away.note()),
            Object::String(_) | Object::Collection(_) => false,
        };
        let (taken, next) = self.table.take_clean(from, goes);
        for (hash, object) in taken {
            self.note_taken(hash, &object);
            if let Object::Away(away) = &object {
                let entry = self.print(hash, away.name()).with(away.note());
                self.swapped.entries.insert(entry);
                self.away_count += 1;
            }
        }
        next
    }

    /// The checkpoint has this name. If it is swapped it is here again, with the note that was kept.
    pub fn swap_in(&mut self, name: &[u8]) {
        if let Some(entry) = self.take_swapped(name) {
            let object = Object::Away(Away::new(name, &Note::Swapped(note_of(entry))));
            let hash = self.hash(name);
            self.note(hash, &object);
            self.table.insert(hash, object, false);
        }
    }

    /// Shows the notes of all swapped names.
    pub fn for_each_swapped(&self, mut each: impl FnMut(&[u8])) {
        self.swapped.entries.iter().for_each(|&entry| each(&Note::Swapped(note_of(entry))));
    }

    /// The name is not swapped any more. Whoever asks puts something else in its place.
    pub(crate) fn forget_swapped(&mut self, name: &[u8]) -> bool {
        self.take_swapped(name).is_some()
    }

    fn take_swapped(&mut self, name: &[u8]) -> Option<u128> {
        let entry = self.swapped_entry(name)?;
        self.swapped.entries.remove(&entry);
        self.away_count -= 1;
        Some(entry)
    }

    fn swapped_entry(&self, name: &[u8]) -> Option<u128> {
        // Nearly all groups have none, and need no second hash.
        if self.swapped.entries.is_empty() {
            return None;
        }
        self.swapped.find(self.print(self.hash(name), name))
    }

    fn print(&self, hash: u64, name: &[u8]) -> Print {
        let mut hasher = self.hasher;
        hasher.write(name);
        hasher.write_u8(1);
        Print::new(hash, hasher.finish())
    }

    /// Whoever lists or copies names asks for them before.
    pub(crate) fn assert_none_swapped(&self) {
        assert_eq!(self.swapped_count(), 0, "names are in the checkpoint only");
    }

    /// All that is not held elsewhere goes, one by one: the checkpoint still has the names that are swapped.
    pub(crate) fn flush_around_swapped(&mut self) {
        let mut names = Vec::new();
        self.table.visit_leaves(0, &mut |entries| {
            let here = entries.iter().filter(|entry| !matches!(entry.object, Object::Away(_)));
            names.extend(here.map(|entry| entry.object.name().to_vec()));
            ControlFlow::Continue(())
        });
        names.iter().for_each(|name| self.remove_name(name));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Command, Condition, Expiry, Objects, Outcome, SetAnswer};

    fn put(objects: &mut Objects, name: &[u8]) {
        let set = Command::Set {
            key: name,
            value: b"v",
            condition: Condition::Always,
            expiry: Expiry::Unset,
            answer: SetAnswer::Ok,
        };
        assert_eq!(objects.run(&set, 1, 0), Outcome::Ok);
    }

    fn swap_all_out(objects: &mut Objects) {
        let mut from = Some(0);
        while let Some(hash) = from {
            from = objects.swap_out(hash, |note| note != b"stays");
        }
    }

    /// What a checkpoint would hold, by name.
    type Checkpoint = std::collections::BTreeMap<Vec<u8>, Vec<u8>>;

    fn store(objects: &mut Objects, checkpoint: &mut Checkpoint) {
        if objects.was_flushed() {
            checkpoint.clear();
        }
        objects.take_dirty(|name, object| match object {
            Some(object) => drop(checkpoint.insert(name.to_vec(), object.to_vec())),
            None => drop(checkpoint.remove(name)),
        });
    }

    fn name(number: u32) -> Vec<u8> {
        format!("a name that is rather long {number}").into_bytes()
    }

    /// Some thousand names, most of them held elsewhere.
    fn mixed(objects: &mut Objects, checkpoint: &mut Checkpoint) {
        for number in 0..6_000 {
            put(objects, &name(number));
            match number % 8 {
                0 => {}
                1 => objects.send_away(&name(number), b"stays"),
                2 => objects.send_away(&name(number), b"too long"),
                _ => objects.send_away(&name(number), &number.to_le_bytes()[..3]),
            }
        }
        store(objects, checkpoint);
    }

    #[test]
    fn a_swapped_name_is_found_and_takes_little() {
        let (mut objects, mut checkpoint) = (Objects::new([7; 16]), Checkpoint::new());
        mixed(&mut objects, &mut checkpoint);
        let (digest, count, away) = (objects.digest(), objects.count(), objects.away_count());
        let before = objects.bytes();
        swap_all_out(&mut objects);
        assert_eq!(objects.swapped_count(), 6_000 / 8 * 5);
        assert_eq!((objects.count(), objects.away_count()), (count, away));
        assert!(before - objects.bytes() > objects.swapped_count() * 50);
        for number in 0..6_000 {
            let note = objects.away(&name(number)).map(|note| note.to_vec());
            let expected = match number % 8 {
                0 => None,
                1 => Some(b"stays".to_vec()),
                2 => Some(b"too long".to_vec()),
                _ => Some(number.to_le_bytes()[..3].to_vec()),
            };
            assert_eq!(note, expected, "{number}");
        }
        assert!(objects.away(b"another").is_none());
        assert_eq!(objects.run(&Command::Get { key: &name(3) }, 1, 0), Outcome::Error(crate::objects::AWAY.into()));
        let mut notes = 0;
        objects.for_each_swapped(|note| notes += note.len());
        assert_eq!(notes, 3 * objects.swapped_count());
        checkpoint.keys().for_each(|name| objects.swap_in(name));
        assert_eq!((objects.swapped_count(), objects.digest(), objects.bytes()), (0, digest, before));
        objects.take_dirty(|name, _| panic!("{name:?} is stored"));
    }

    #[test]
    fn what_changed_since_the_checkpoint_is_not_swapped() {
        let (mut objects, mut checkpoint) = (Objects::new([7; 16]), Checkpoint::new());
        put(&mut objects, b"a");
        objects.send_away(b"a", b"1");
        swap_all_out(&mut objects);
        assert_eq!(objects.swapped_count(), 0);
        store(&mut objects, &mut checkpoint);
        swap_all_out(&mut objects);
        assert_eq!(objects.swapped_count(), 1);
    }

    /// Whatever is done to swapped names, the checkpoint comes to hold what the objects do.
    #[test]
    fn checkpoints_are_right_whatever_becomes_of_swapped_names() {
        for flushes in [false, true] {
            let (mut objects, mut checkpoint) = (Objects::with_hash_mask(0xff), Checkpoint::new());
            mixed(&mut objects, &mut checkpoint);
            swap_all_out(&mut objects);
            objects.send_away(&name(3), b"other");
            objects.remove_name(&name(4));
            objects.put_encoded(&name(5), &checkpoint[&name(8)].clone()).unwrap();
            objects.remove_name(&name(6));
            put(&mut objects, &name(6));
            let restored = checkpoint[&name(7)].clone();
            objects.restore_object(&name(7), &restored).unwrap();
            if flushes {
                assert_eq!(objects.run(&Command::Flush, 1, 0), Outcome::Ok);
                assert!(!objects.was_flushed(), "the names that are swapped must stay");
                assert_eq!(objects.count(), objects.away_count());
            }
            store(&mut objects, &mut checkpoint);
            swap_all_out(&mut objects);
            let mut restored = Objects::with_hash_mask(0xff);
            checkpoint.iter().for_each(|(name, object)| restored.restore_object(name, object).unwrap());
            checkpoint.keys().for_each(|name| objects.swap_in(name));
            assert_eq!(objects.swapped_count(), 0);
            assert_eq!((objects.digest(), objects.bytes()), (restored.digest(), restored.bytes()), "{flushes}");
            assert_eq!(objects.away_bytes(), restored.away_bytes());
            assert_eq!(objects.away(&name(3)).as_deref(), Some(&b"other"[..]));
            assert!(objects.away(&name(4)).is_none() && objects.away(&name(7)).is_some());
        }
    }
}
