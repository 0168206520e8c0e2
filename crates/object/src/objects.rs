//! The objects of one group, as a deterministic state machine.
//!
//! Replicas that apply the same commands, or the same changes, at the same group times hold the same objects. Nothing here reads a
//! clock or draws a random number: both are arguments. Group time never runs backwards, and an object expires when group time
//! reaches its expiry, on every replica alike: from then on nobody who asks finds it, though of very many that expire at one time
//! only some are removed at once. Knows nothing of groups, replicas or logs.
//!
//! [`Objects::execute`] computes what a command changes and [`Objects::apply`] changes it; [`Objects::run`] is both in one, for
//! those who log commands rather than changes.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::change::Change;
use crate::checkpoint::{Saving, Unsaved};
use crate::collection::{Collection, Elements, HashKey, OpChange};
use crate::command::{Access, Command};
use crate::discarded::Discarded;
use crate::expiries::Expiries;
use crate::object::Object;
use crate::outcome::Outcome;
use crate::swapped::Swapped;
use crate::table::{Entry, HASH_BITS, Slot, Table};
use crate::text::Text;

/// The largest value of a string.
pub const OBJECT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The longest name of an object.
pub const NAME_BYTES_MAX: usize = 64_000;

/// So many objects are removed at once when they have expired: what is left goes with the next step of group time. Replicas
/// that had different limits would hold different objects, though nobody who asks would notice.
pub const EXPIRED_AT_ONCE_MAX: usize = 1024;

/// What an object costs besides its own allocation, about: its entry with room to grow, its place in the index.
const ENTRY_BYTES: usize = size_of::<Entry>() + 12;

/// The answer of a command on an object that is held elsewhere: whoever runs commands asks [`Objects::away`] before.
pub(crate) const AWAY: &str = "ERR the object is held elsewhere";

/// A group's objects by name.
#[derive(Debug)]
pub struct Objects {
    pub(crate) hasher: SipHasher13,
    pub(crate) hash_key: HashKey,
    /// All ones but in tests that want names of equal hash.
    hash_mask: u64,
    pub(crate) table: Table,
    pub(crate) expiries: Expiries,
    pub(crate) unsaved: Unsaved,
    pub(crate) saving: Option<Box<Saving>>,
    /// Of the objects in the table.
    object_bytes: usize,
    /// Names whose objects are held elsewhere.
    pub(crate) away_count: usize,
    /// Part of `object_bytes`: what those of them take that are in the table.
    pub(crate) away_bytes: usize,
    pub(crate) swapped: Swapped,
    pub(crate) discarded: Option<Box<Discarded>>,
}

/// Where a name's object is, or would be.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) hash: u64,
    pub(crate) slot: Option<Slot>,
}

impl Objects {
    /// No objects. All replicas of a group must be given the same `hash_key`: it decides the order of SCAN. A key that clients
    /// cannot know keeps them from choosing names that collide.
    pub fn new(hash_key: [u8; 16]) -> Objects {
        Objects {
            hasher: SipHasher13::new_with_key(&hash_key),
            hash_key: HashKey(hash_key),
            hash_mask: (1 << HASH_BITS) - 1,
            table: Table::new(),
            expiries: Expiries::new(),
            unsaved: Unsaved::new(),
            saving: None,
            object_bytes: 0,
            away_count: 0,
            away_bytes: 0,
            swapped: Swapped::default(),
            discarded: None,
        }
    }

    /// The name's place in SCAN's order, below 2^[`HASH_BITS`].
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key) & self.hash_mask
    }

    /// Looks at the object if there is only one, so that it is in a cache when it is asked for.
    pub fn look(&self) -> u8 {
        if self.count() == 1 { self.table.look() } else { 0 }
    }

    /// How many objects there are, the due ones that no [`Objects::advance`] has removed yet included: [`Command::Count`] leaves
    /// those out.
    pub fn count(&self) -> usize {
        self.table.count() + self.swapped.len()
    }

    /// How many of them expire some time.
    pub fn expiring_count(&self) -> usize {
        self.expiries.total()
    }

    /// The memory that the objects take, about, but for what a saving under way holds on to.
    pub fn bytes(&self) -> usize {
        size_of::<Objects>() + self.object_bytes + self.unsaved.bytes() + self.swapped.bytes()
    }

    /// Executes a command at group time `time_ms`, not before that of any earlier command: removes what has expired by then as
    /// [`Objects::advance`] does, and leaves the objects as [`Objects::apply`] does with the change of [`Objects::execute`].
    pub fn run(&mut self, command: &Command<'_>, time_ms: u64, seed: u64) -> Outcome {
        self.advance(time_ms);
        self.run_advanced(command, time_ms, seed)
    }

    /// The same for whoever has called [`Objects::advance`], once for many commands. Of the object that the command names nothing
    /// is left if it has expired.
    pub fn run_advanced(&mut self, command: &Command<'_>, time_ms: u64, seed: u64) -> Outcome {
        if let Command::Transaction(transaction) = command {
            return self.run_transaction(transaction, time_ms, seed);
        }
        let place = command.key().map(|key| self.place_of_live(key, time_ms));
        let (change, outcome) = self.execute_at(command, place, time_ms, seed);
        if let Some(change) = change {
            self.apply_found(change, place, time_ms);
        }
        outcome
    }

    /// Applies what was computed for the object at that place, if it is of that one.
    pub(crate) fn apply_found(&mut self, change: Change<'_>, place: Option<Place>, time_ms: u64) {
        match (place, change.key()) {
            (Some(place), Some(_)) => self.apply_at(change, place),
            _ => self.apply(change, time_ms),
        }
    }

    /// What a command would change at group time `time_ms`, and what it answers. Objects that are due by then are taken for gone.
    /// `seed` is there for commands whose result is random.
    pub fn execute<'a>(&self, command: &Command<'a>, time_ms: u64, seed: u64) -> (Option<Change<'a>>, Outcome) {
        self.execute_at(command, command.key().map(|key| self.place(key)), time_ms, seed)
    }

    /// Answers a command that only reads. Panics on one that may write: see [`Command::access`].
    pub fn read(&self, command: &Command<'_>, time_ms: u64) -> Outcome {
        assert_eq!(command.access(), Access::Read, "{command:?} is no read");
        match command {
            Command::Transaction(transaction) => self.read_transaction(transaction, time_ms),
            Command::OnKeys(on_keys) => on_keys.execute(&|_| self, time_ms).1,
            command => {
                let place = command.key().map(|key| self.place(key));
                self.read_at(command, self.live(place, time_ms), time_ms)
            }
        }
    }

    /// Changes the objects: with [`Objects::advance`], the only way to.
    pub fn apply(&mut self, change: Change<'_>, time_ms: u64) {
        match (change.key(), change) {
            (_, Change::Several(changes)) => changes.into_iter().for_each(|change| self.apply(change, time_ms)),
            (Some(key), change) => {
                // Whoever computed the change took an object that was due for gone.
                let place = self.place_of_live(key, time_ms);
                self.apply_at(change, place);
            }
            (None, _) => self.flush(),
        }
    }

    /// Removes objects whose expiry is at or before group time `time_ms`, those first that expire first: about
    /// [`EXPIRED_AT_ONCE_MAX`]. Those that stay are taken for gone by whoever asks, and go when this is called again.
    pub fn advance(&mut self, time_ms: u64) {
        let (mut removed, mut last) = (0, None);
        while let Some(first) = self.expiries.first_due(time_ms) {
            // Names of one hash go together: which of them is found first differs between replicas.
            if removed >= EXPIRED_AT_ONCE_MAX && last != Some(first) {
                return;
            }
            (removed, last) = (removed + 1, Some(first));
            let (expires_ms, hash) = first;
            let slot = self.table.find_by(hash, |object| object.expires_ms() == Some(expires_ms));
            self.remove(hash, slot.expect("an object has every expiry in the index"));
        }
    }

    /// Removes the object of this name if its expiry is at or before group time `time_ms`: nothing is to find it that does not know
    /// the time.
    pub fn expire(&mut self, key: &[u8], time_ms: u64) {
        self.place_of_live(key, time_ms);
    }

    /// When the next object expires; in the past while objects are due that are still here.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.expiries.next_ms()
    }

    /// Whether any object is due at `now_ms` and still here.
    pub fn has_due(&self, now_ms: u64) -> bool {
        self.expiries.has_due(now_ms)
    }

    /// Whether a command meets an object that is due at `now_ms`, and was not at group time `time_ms`. Whoever is to answer it
    /// first commits a group time that expires the object. One that has expired, and is still here, makes no difference.
    pub fn is_due(&self, command: &Command<'_>, time_ms: u64, now_ms: u64) -> bool {
        if !self.expiries.has_due(now_ms) {
            return false;
        }
        let Some(key) = command.key() else {
            return self.expiries.has_between(time_ms, now_ms);
        };
        self.object(self.place(key)).is_some_and(|object| object.is_due(now_ms) && !object.is_due(time_ms))
    }

    /// Whether there is an object of this name here that has not expired.
    pub fn has_live(&self, key: &[u8], time_ms: u64) -> bool {
        self.live_of(key, time_ms).is_some_and(|object| !matches!(object, Object::Away(_)))
    }

    /// Whether an object of this name is here that will expire, or has.
    pub fn expires(&self, key: &[u8]) -> bool {
        self.expiries.next_ms().is_some()
            && self.object(self.place(key)).is_some_and(|object| object.expires_ms().is_some())
    }

    pub(crate) fn place_of_live(&mut self, key: &[u8], time_ms: u64) -> Place {
        let place = self.place(key);
        match place.slot {
            Some(slot) if self.table.at(place.hash, slot).is_due(time_ms) => {
                self.remove(place.hash, slot);
                Place { slot: None, ..place }
            }
            _ => place,
        }
    }

    pub(crate) fn place(&self, key: &[u8]) -> Place {
        let hash = self.hash(key);
        Place { hash, slot: self.table.find(hash, key) }
    }

    fn object(&self, place: Place) -> Option<&Object> {
        place.slot.map(|slot| self.table.at(place.hash, slot))
    }

    fn live(&self, place: Option<Place>, time_ms: u64) -> Option<&Object> {
        place.and_then(|place| self.object(place)).filter(|object| !object.is_due(time_ms))
    }

    /// The object of this name, if it has not expired.
    pub(crate) fn live_of(&self, key: &[u8], time_ms: u64) -> Option<&Object> {
        self.live(Some(self.place(key)), time_ms)
    }

    /// What an object holds, be it past its time.
    pub(crate) fn held_bytes(&self, key: &[u8]) -> usize {
        match self.live_of(key, 0) {
            None => 0,
            Some(Object::Collection(collection)) => collection.elements.stored_bytes(),
            Some(object) => object.text().map_or(0, |text| text.value().len()),
        }
    }

    pub(crate) fn execute_at<'a>(
        &self,
        command: &Command<'a>,
        place: Option<Place>,
        time_ms: u64,
        seed: u64,
    ) -> (Option<Change<'a>>, Outcome) {
        if let Command::Transaction(_) | Command::OnKeys(_) = command {
            return command.execute_among(&|_| self, time_ms, seed);
        }
        let object = self.live(place, time_ms);
        let is_away = match (object, command.key()) {
            (Some(object), _) => matches!(object, Object::Away(_)),
            (None, Some(key)) => self.swapped_note(key).is_some(),
            (None, None) => false,
        };
        if is_away {
            return (None, Outcome::Error(AWAY.into()));
        }
        match command.access() {
            Access::Read => (None, self.read_at(command, object, time_ms)),
            Access::Write => crate::write::execute(command, object, time_ms, seed),
        }
    }

    pub(crate) fn apply_at(&mut self, change: Change<'_>, place: Place) {
        let Place { hash, slot } = place;
        match (change, slot) {
            (Change::Put { value, expires_ms, .. }, Some(slot)) => {
                self.update(hash, slot, |object| match object {
                    Object::String(text) => text.put(&value, expires_ms),
                    Object::Collection(collection) => {
                        *object = Object::String(Text::new(collection.name(), &value, expires_ms));
                    }
                    Object::Away(_) => {}
                });
            }
            (Change::Put { key, value, expires_ms }, None) => {
                self.insert(hash, Object::String(Text::new(key, &value, expires_ms)));
            }
            (Change::Write { offset, bytes, .. }, Some(slot)) => {
                self.update(hash, slot, |object| match object {
                    Object::String(text) => text.write(offset as usize, bytes),
                    Object::Collection(_) | Object::Away(_) => {}
                });
            }
            (Change::Write { key, offset, bytes }, None) => {
                let mut text = Text::new(key, b"", None);
                text.write(offset as usize, bytes);
                self.insert(hash, Object::String(text));
            }
            (Change::Elements { change, .. }, Some(slot)) => self.change_elements(hash, slot, change),
            (Change::Elements { key, change }, None) => {
                let mut elements = Elements::for_change(&change, self.hash_key);
                elements.apply(change);
                if !elements.is_empty() {
                    self.insert(hash, Object::Collection(Box::new(Collection::new(key, elements))));
                }
            }
            (Change::Expire { expires_ms, .. }, Some(slot)) => {
                self.update(hash, slot, |object| object.set_expires_ms(expires_ms));
            }
            (Change::Store { key, object }, _) => {
                // What cannot be read changes nothing, at no replica.
                let _ = self.put_encoded(key, &object);
            }
            (Change::Delete { .. }, Some(slot)) => self.remove(hash, slot),
            (Change::Expire { .. } | Change::Delete { .. }, None) => {}
            (Change::Flush, _) => self.flush(),
            (Change::Several(_), _) => unreachable!("it is applied one by one"),
        }
    }

    /// An object without elements is gone.
    fn change_elements(&mut self, hash: u64, slot: Slot, change: OpChange<'_>) {
        let mut is_empty = false;
        self.update(hash, slot, |object| {
            if let Object::Collection(collection) = object {
                collection.elements.apply(change);
                is_empty = collection.elements.is_empty();
            }
        });
        if is_empty {
            self.remove(hash, slot);
        }
    }

    pub(crate) fn update(&mut self, hash: u64, slot: Slot, change: impl FnOnce(&mut Object)) {
        self.save_before_change(hash, slot);
        let object = self.table.at_mut(hash, slot);
        let (bytes_before, expires_before) = (object.heap_bytes(), object.expires_ms());
        change(object);
        let (bytes, expires) = (object.heap_bytes(), object.expires_ms());
        self.object_bytes = self.object_bytes + bytes - bytes_before;
        if expires != expires_before {
            self.forget_expiry(expires_before, hash);
            self.note_expiry(expires, hash);
        }
    }

    pub(crate) fn insert(&mut self, hash: u64, object: Object) {
        self.note(hash, &object);
        self.unsaved.note_back(hash, object.name());
        self.table.insert(hash, object, true);
    }

    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) {
        let object = self.take_out(hash, slot);
        self.unsaved.note_gone(hash, object.name());
    }

    /// What is held elsewhere stays: it is for whoever holds it to delete.
    fn flush(&mut self) {
        if self.swapped_count() > 0 {
            return self.flush_around_swapped();
        }
        let kept = if self.away_count == 0 { Vec::new() } else { self.take_all_away() };
        self.replace_table();
        let expiries = std::mem::replace(&mut self.expiries, Expiries::new());
        self.discard_expiries(expiries);
        self.unsaved.note_flush();
        self.object_bytes = 0;
        self.away_bytes = 0;
        for (hash, object) in kept {
            self.insert(hash, object);
        }
    }

    /// Counts an object that comes into the table.
    pub(crate) fn note(&mut self, hash: u64, object: &Object) {
        let bytes = ENTRY_BYTES + object.heap_bytes();
        self.object_bytes += bytes;
        if let Object::Away(_) = object {
            self.away_count += 1;
            self.away_bytes += bytes;
        }
        self.note_expiry(object.expires_ms(), hash);
    }

    /// Takes an object out of the table and of all accounts.
    pub(crate) fn take_out(&mut self, hash: u64, slot: Slot) -> Object {
        self.save_before_change(hash, slot);
        let object = self.table.remove(hash, slot);
        self.note_taken(hash, &object);
        object
    }

    /// An object is out of the table: it does not count any more.
    pub(crate) fn note_taken(&mut self, hash: u64, object: &Object) {
        let bytes = ENTRY_BYTES + object.heap_bytes();
        self.object_bytes -= bytes;
        if let Object::Away(_) = object {
            self.away_count -= 1;
            self.away_bytes -= bytes;
        }
        self.forget_expiry(object.expires_ms(), hash);
    }

    fn note_expiry(&mut self, expires_ms: Option<u64>, hash: u64) {
        if let Some(expires_ms) = expires_ms {
            self.expiries.add(expires_ms, hash);
            self.object_bytes += Expiries::BYTES_EACH;
        }
    }

    fn forget_expiry(&mut self, expires_ms: Option<u64>, hash: u64) {
        if let Some(expires_ms) = expires_ms {
            self.expiries.remove(expires_ms, hash);
            self.object_bytes -= Expiries::BYTES_EACH;
        }
    }

    /// Compares replicas: equal for equal names, values and expiries, whatever the order they came in and whatever the hash key.
    /// Reads every object.
    pub fn digest(&self) -> u64 {
        let mut sum = self.count() as u64;
        self.for_each(|key, encoded| {
            let mut hasher = SipHasher13::new();
            hasher.write_u64(key.len() as u64);
            hasher.write(key);
            hasher.write(encoded);
            sum = sum.wrapping_add(hasher.finish());
        });
        sum
    }
}

#[cfg(test)]
impl Objects {
    /// Objects whose names have few different hashes.
    pub(crate) fn with_hash_mask(hash_mask: u64) -> Objects {
        Objects { hash_mask, ..Objects::new([7; 16]) }
    }
}

#[cfg(test)]
mod tests {
    use super::{EXPIRED_AT_ONCE_MAX, Objects};
    use crate::{Command, Condition, Expiry, Outcome, SetAnswer};

    /// Eight hashes for a hundred names, all of which expire at one of two times.
    fn crowded() -> Objects {
        let mut objects = Objects::with_hash_mask(7);
        for n in 0..100 {
            let name = n.to_string();
            let set = Command::Set {
                key: name.as_bytes(),
                value: b"v",
                condition: Condition::Always,
                expiry: Expiry::AtMs(if n % 3 == 0 { 10 } else { 20 }),
                answer: SetAnswer::Ok,
            };
            assert_eq!(objects.run(&set, 0, 0), Outcome::Ok);
        }
        objects
    }

    #[test]
    fn names_of_one_hash_expire_each_at_its_time() {
        let mut objects = crowded();
        assert_eq!(objects.run(&Command::Persist { key: b"3" }, 0, 0), Outcome::Int(1));
        assert_eq!(objects.run(&Command::Del { key: b"4" }, 0, 0), Outcome::Int(1));
        objects.advance(10);
        assert_eq!(objects.next_expiry_ms(), Some(20));
        for n in 0..100 {
            let here = n == 3 || (n % 3 != 0 && n != 4);
            let name = n.to_string();
            let exists = Command::Exists { key: name.as_bytes() };
            assert_eq!(objects.read(&exists, 10), Outcome::Int(i64::from(here)), "{n}");
        }
        objects.advance(20);
        assert_eq!((objects.count(), objects.next_expiry_ms()), (1, None));
    }

    #[test]
    fn names_of_one_hash_that_expire_together_are_removed_together() {
        let all = 2 * EXPIRED_AT_ONCE_MAX;
        let crowded = |numbers: &mut dyn Iterator<Item = usize>| {
            let mut objects = Objects::with_hash_mask(7);
            for number in numbers {
                let (key, condition, expiry) = (&number.to_le_bytes(), Condition::Always, Expiry::AtMs(10));
                let set = Command::Set { key, value: b"v", condition, expiry, answer: SetAnswer::Ok };
                objects.run(&set, 0, 0);
            }
            objects
        };
        // Whatever order they came in.
        let (mut one, mut other) = (crowded(&mut (0..all)), crowded(&mut (0..all).rev()));
        one.advance(10);
        other.advance(10);
        assert!((EXPIRED_AT_ONCE_MAX..all).contains(&(all - one.count())), "{} are left", one.count());
        assert_eq!(one.digest(), other.digest());
    }

    #[test]
    fn a_scan_shows_names_of_one_hash_together() {
        let objects = crowded();
        let (mut from, mut pages, mut met) = (Some(0), 0, 0);
        while let Some(hash) = from {
            let scan = Command::Scan { from: hash, count: 1, pattern: None, type_name: None };
            let Outcome::Scan { next, keys } = objects.read(&scan, 0) else {
                panic!("SCAN answers a page");
            };
            assert!(keys.iter().all(|key| objects.hash(key) == hash));
            met += keys.len();
            pages += 1;
            from = next;
        }
        assert_eq!((met, pages), (100, 8));
    }
}
