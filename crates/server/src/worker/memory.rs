//! What the process uses of the machine's memory, and whether that is too much.
//!
//! The figure is what the process has allocated: every object, outcome, buffer and cache is in it. It is read now and then,
//! and in between what clients write is added, so that a burst cannot run far ahead of it.

use quorate_protocol::Instant;

use crate::Meter;

/// How often it is read.
const MEASURE_US: u64 = 100_000;

pub(crate) struct Memory {
    meter: Meter,
    /// 0 for no limit.
    max_bytes: u64,
    used_bytes: u64,
    peak_bytes: u64,
    measure_at: Instant,
}

impl Memory {
    pub(crate) fn new(meter: Meter, max_bytes: u64) -> Memory {
        Memory { meter, max_bytes, used_bytes: 0, peak_bytes: 0, measure_at: Instant(0) }
    }

    pub(crate) fn measure(&mut self, now: Instant) {
        if now < self.measure_at {
            return;
        }
        self.measure_at = now.after_us(MEASURE_US);
        self.used_bytes = (self.meter)();
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
    }

    /// A client writes so much.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.used_bytes += bytes as u64;
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.max_bytes > 0 && self.used_bytes > self.max_bytes
    }

    /// As measured at this moment.
    pub(crate) fn used_bytes(&self) -> u64 {
        (self.meter)()
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.max(self.used_bytes)
    }

    pub(crate) fn set_max_bytes(&mut self, max_bytes: u64) {
        self.max_bytes = max_bytes;
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_limit_is_exceeded_by_the_first_byte_beyond_it_and_only_while_it_is() {
        static USED: AtomicU64 = AtomicU64::new(1000);
        let mut memory = Memory::new(|| USED.load(Ordering::Relaxed), 1000);
        memory.measure(Instant(0));
        assert!(!memory.is_exceeded(), "exactly the limit");
        memory.expect(1);
        assert!(memory.is_exceeded());
        USED.store(999, Ordering::Relaxed);
        memory.measure(Instant(MEASURE_US - 1));
        assert!(memory.is_exceeded(), "not before it is time");
        memory.measure(Instant(MEASURE_US));
        assert!(!memory.is_exceeded());
        USED.store(1001, Ordering::Relaxed);
        memory.measure(Instant(2 * MEASURE_US));
        assert!(memory.is_exceeded());
        assert_eq!(memory.peak_bytes(), 1001);
    }

    #[test]
    fn without_a_limit_nothing_exceeds_it() {
        let mut memory = Memory::new(|| u64::MAX, 0);
        memory.measure(Instant(0));
        assert!(!memory.is_exceeded());
    }
}
