//! Names whose objects are held elsewhere: they keep their place in every listing, and a note that says where they are.

use crate::codec::Malformed;
use crate::object::Object;
use crate::objects::Objects;
use crate::swapped::Note;

/// A name whose object is held elsewhere, and what is noted of it, in one allocation: the name's length, the name, the note.
/// Smaller than a string, so that a table's entry is no larger for it.
#[derive(Debug)]
pub(crate) struct Away {
    bytes: Box<[u8]>,
}

impl Away {
    pub(crate) fn new(name: &[u8], note: &[u8]) -> Away {
        let name_len = u16::try_from(name.len()).expect("names are at most NAME_BYTES_MAX long");
        Away { bytes: [&name_len.to_le_bytes(), name, note].concat().into_boxed_slice() }
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.bytes[2..self.note_at()]
    }

    pub(crate) fn note(&self) -> &[u8] {
        &self.bytes[self.note_at()..]
    }

    fn note_at(&self) -> usize {
        2 + usize::from(u16::from_le_bytes([self.bytes[0], self.bytes[1]]))
    }

    /// Bytes allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Objects {
    /// How many names have their objects elsewhere.
    pub fn away_count(&self) -> usize {
        self.away_count
    }

    /// What is noted of the name's object, if that is held elsewhere.
    pub fn away(&self, key: &[u8]) -> Option<Note<'_>> {
        if self.away_count == 0 {
            return None;
        }
        let place = self.place(key);
        let Some(slot) = place.slot else {
            return self.swapped_note(key).map(Note::Swapped);
        };
        match self.table.at(place.hash, slot) {
            Object::Away(away) => Some(Note::Here(away.note())),
            Object::String(_) | Object::Collection(_) => None,
        }
    }

    /// The value of the name's object, and when it expires, if a string is here.
    pub fn value(&self, key: &[u8]) -> Option<(&[u8], Option<u64>)> {
        let place = self.place(key);
        let text = self.table.at(place.hash, place.slot?).text()?;
        Some((text.value(), text.expires_ms()))
    }

    /// The name's object, encoded, if there is one here.
    pub fn encoded(&self, key: &[u8]) -> Option<Vec<u8>> {
        let place = self.place(key);
        let object = self.table.at(place.hash, place.slot?);
        let mut encoded = Vec::new();
        match object {
            Object::Away(_) => return None,
            Object::String(_) | Object::Collection(_) => object.encode(&mut encoded),
        }
        Some(encoded)
    }

    /// The name's object, if there is one, is held elsewhere from now on, or what is noted of it has changed.
    pub fn send_away(&mut self, key: &[u8], note: &[u8]) {
        self.replace(key, Object::Away(Away::new(key, note)));
    }

    /// Puts an encoded object in the place of whatever has the name, as a change like any other.
    pub fn put_encoded(&mut self, key: &[u8], encoded: &[u8]) -> Result<(), Malformed> {
        let object = Object::decode(key, encoded, self.hash_key)?;
        self.replace(key, object);
        Ok(())
    }

    /// Nothing has the name any more, wherever it was held.
    pub fn remove_name(&mut self, key: &[u8]) {
        let place = self.place(key);
        match place.slot {
            Some(slot) => self.remove(place.hash, slot),
            None if self.forget_swapped(key) => self.unsaved.note_gone(place.hash, key),
            None => {}
        }
    }

    /// Shows each name whose object is held elsewhere, with what is noted of it, but for those that are swapped.
    pub fn for_each_away(&self, mut each: impl FnMut(&[u8], &[u8])) {
        if self.away_count == 0 {
            return;
        }
        self.table.visit_leaves(0, &mut |entries| {
            for entry in entries {
                if let Object::Away(away) = &entry.object {
                    each(away.name(), away.note());
                }
            }
            std::ops::ControlFlow::Continue(())
        });
    }

    /// Takes them out of the table, for one that is about to be emptied.
    pub(crate) fn take_all_away(&mut self) -> Vec<(u64, Object)> {
        let mut names = Vec::new();
        self.for_each_away(|name, _| names.push(name.to_vec()));
        let place = |name: Vec<u8>| self.place(&name);
        let places: Vec<_> = names.into_iter().map(place).map(|place| place.hash).collect();
        let mut taken = Vec::with_capacity(places.len());
        for hash in places {
            // Slots move as objects are taken out; names of one hash are taken in any order.
            let slot = self.table.find_by(hash, |object| matches!(object, Object::Away(_)));
            let object = self.take_out(hash, slot.expect("it was found just now"));
            taken.push((hash, object));
        }
        taken
    }

    fn replace(&mut self, key: &[u8], object: Object) {
        let place = self.place(key);
        match place.slot {
            Some(slot) => drop(self.take_out(place.hash, slot)),
            None => drop(self.forget_swapped(key)),
        }
        self.insert(place.hash, object);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Command, Condition, Expiry, Objects, Outcome, SetAnswer};

    fn set(key: &[u8], expiry: Expiry) -> Command<'_> {
        Command::Set { key, value: b"v", condition: Condition::Always, expiry, answer: SetAnswer::Ok }
    }

    #[test]
    fn a_name_keeps_its_place_while_its_object_is_elsewhere() {
        let mut objects = Objects::new([7; 16]);
        objects.run(&set(b"a", Expiry::AtMs(100)), 1, 0);
        objects.run(&set(b"b", Expiry::Unset), 1, 0);
        let encoded = objects.encoded(b"a").expect("it is here");
        objects.send_away(b"a", b"note");
        assert_eq!(
            (objects.away(b"a").as_deref(), objects.away(b"b").as_deref(), objects.away(b"c").as_deref()),
            (Some(&b"note"[..]), None, None)
        );
        assert_eq!(objects.encoded(b"a"), None);
        objects.advance(1000);
        let keys = objects.read(&Command::Keys { pattern: b"*" }, 1000);
        assert!(matches!(keys, Outcome::Keys(keys) if keys.len() == 2));
        assert_eq!(objects.run(&Command::Flush, 1000, 0), Outcome::Ok);
        assert_eq!((objects.count(), objects.away_count(), objects.away(b"a").as_deref()), (1, 1, Some(&b"note"[..])));
        objects.put_encoded(b"a", &encoded).expect("it was encoded here");
        assert_eq!((objects.away_count(), objects.next_expiry_ms()), (0, Some(100)));
        objects.remove_name(b"a");
        assert_eq!(
            (objects.count(), objects.next_expiry_ms(), objects.bytes()),
            (0, None, Objects::new([0; 16]).bytes() + objects.unsaved.bytes())
        );
    }

    #[test]
    fn a_checkpoint_holds_what_is_noted() {
        let mut objects = Objects::new([7; 16]);
        objects.run(&set(b"a", Expiry::Unset), 1, 0);
        objects.take_dirty(|_, _| {});
        objects.send_away(b"a", b"note");
        let mut stored = Vec::new();
        objects.take_dirty(|name, encoded| stored.push((name.to_vec(), encoded.map(<[u8]>::to_vec))));
        let mut restored = Objects::new([7; 16]);
        for (name, encoded) in &stored {
            restored.restore_object(name, encoded.as_deref().expect("it is there")).expect("it was encoded here");
        }
        assert_eq!((restored.away(b"a").as_deref(), restored.digest()), (Some(&b"note"[..]), objects.digest()));
        objects.run(&Command::Flush, 2, 0);
        assert!(objects.was_flushed());
        let mut dirty = 0;
        objects.take_dirty(|name, encoded| dirty += usize::from(name == b"a" && encoded.is_some()));
        assert_eq!(dirty, 1, "after a flush everything that stays is stored again");
    }
}
