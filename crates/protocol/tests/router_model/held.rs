//! What is shared between states until it changes.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Compared by its hash, which is taken when it changes.
#[derive(Clone, Debug)]
pub struct Held<T> {
    pub value: Arc<T>,
    hash: u64,
}

/// Kgroups by the hundred are hashed at each step.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

fn hash_of<T: Hash>(value: &T) -> u64 {
    let mut hasher = Quick::default();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<T: Clone + Hash> Held<T> {
    pub fn new(value: T) -> Held<T> {
        Held { hash: hash_of(&value), value: Arc::new(value) }
    }

    pub fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(Arc::make_mut(&mut self.value));
        self.hash = hash_of(&*self.value);
        result
    }
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Held<T>) -> bool {
        self.hash == other.hash
    }
}

impl<T> Hash for Held<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}
