//! Looking at objects before they are asked for.
//!
//! An object is found in several steps, each of which waits for memory where there are many objects: its place in the index, its
//! entry, its name. For one object after the other that takes longer than everything else a command does. Looked at step by
//! step for many at once, the waits overlap, and whoever asks for the objects afterwards finds all of it in a cache.

use std::hint::black_box;

use crate::objects::Objects;
use crate::table::Slot;

/// With fewer objects, what finds them mostly is in a cache.
const OBJECTS_MIN: usize = 32;
/// Objects that are looked at together.
const TOGETHER: usize = 8;

/// An object that is sought, for whoever looks at objects of many groups: in three looks, each at all of them before the next.
pub struct Sought {
    hash: u64,
    /// Where it may well be.
    slot: Option<Slot>,
}

impl Objects {
    /// Before the first look. Nothing if there are few objects here.
    pub fn seek(&self, name: &[u8]) -> Option<Sought> {
        (self.count() >= OBJECTS_MIN).then(|| Sought { hash: self.hash(name), slot: None })
    }

    pub fn look_at_index(&self, sought: &mut Sought) {
        sought.slot = self.table.guess(sought.hash);
    }

    pub fn look_at_entry(&self, sought: &Sought) -> u64 {
        sought.slot.map_or(0, |slot| self.table.hash_at(sought.hash, slot))
    }

    pub fn look_at_name(&self, sought: &Sought) -> u8 {
        sought.slot.map_or(0, |slot| self.table.at(sought.hash, slot).look())
    }

    /// Looks at the objects of these names. It changes nothing, and says nothing of what there is.
    pub fn look_ahead<'k>(&self, names: impl Iterator<Item = &'k [u8]>) {
        if self.count() < OBJECTS_MIN {
            return;
        }
        let mut names = names.peekable();
        let mut seen = 0;
        while names.peek().is_some() {
            let mut hashes = [0; TOGETHER];
            let mut slots = [None; TOGETHER];
            let mut count = 0;
            for (hash, name) in hashes.iter_mut().zip(names.by_ref()) {
                *hash = self.hash(name);
                count += 1;
            }
            for (slot, &hash) in slots[..count].iter_mut().zip(&hashes) {
                *slot = self.table.guess(hash);
            }
            let guessed = || hashes.iter().zip(&slots).filter_map(|(&hash, slot)| Some((hash, (*slot)?)));
            seen ^= guessed().fold(0, |seen, (hash, slot)| seen ^ self.table.hash_at(hash, slot));
            seen ^= guessed().fold(0, |seen, (hash, slot)| seen ^ u64::from(self.table.at(hash, slot).look()));
        }
        black_box(seen);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Command, Condition, Expiry, Objects, SetAnswer};

    #[test]
    fn any_names_may_be_looked_at_and_nothing_changes() {
        let mut objects = Objects::new([7; 16]);
        let name = |number: u32| number.to_le_bytes();
        for number in 0..10_000 {
            objects.look_ahead([&name(number)[..], &name(number + 1)].into_iter());
            if let Some(mut sought) = objects.seek(&name(number / 2)) {
                objects.look_at_index(&mut sought);
                objects.look_at_entry(&sought);
                objects.look_at_name(&sought);
            }
            let command = Command::Set {
                key: &name(number),
                value: b"v",
                condition: Condition::Always,
                expiry: Expiry::Unset,
                answer: SetAnswer::Ok,
            };
            objects.run(&command, 1, 0);
        }
        let before = objects.digest();
        let names: Vec<_> = (0..20_000).step_by(3).map(name).collect();
        for count in [0, 1, 7, 8, 9, names.len()] {
            objects.look_ahead(names[..count].iter().map(|name| &name[..]));
        }
        assert_eq!(objects.digest(), before);
    }
}
