//! A hasher without a random seed, for tables keyed by numbers that no client chooses: two runs of one seed must
//! visit them alike.

use std::hash::{BuildHasherDefault, Hasher};

pub type FixedState = BuildHasherDefault<Multiplicative>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Multiplicative(u64);

impl Hasher for Multiplicative {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
