//! Which objects expire when, in order of time.

use std::collections::BTreeMap;

/// One time and name hash for each object that expires; names of equal hash may share one.
#[derive(Debug)]
pub(crate) struct Expiries {
    /// How many objects have this expiry and hash.
    counts: BTreeMap<(u64, u64), u32>,
    /// The sum of the counts.
    total: usize,
    /// The earliest, kept because every command asks for it.
    next_ms: Option<u64>,
}

impl Expiries {
    /// What an object in here costs, about: key, count and the tree's room to grow.
    pub(crate) const BYTES_EACH: usize = 36;

    pub(crate) fn new() -> Expiries {
        Expiries { counts: BTreeMap::new(), total: 0, next_ms: None }
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }

    pub(crate) fn has_due(&self, time_ms: u64) -> bool {
        self.next_ms.is_some_and(|next_ms| next_ms <= time_ms)
    }

    /// Whether any expires after one time, and not after the other.
    pub(crate) fn has_between(&self, after_ms: u64, until_ms: u64) -> bool {
        after_ms < until_ms && self.counts.range((after_ms + 1, 0)..=(until_ms, u64::MAX)).next().is_some()
    }

    pub(crate) fn add(&mut self, expires_ms: u64, hash: u64) {
        *self.counts.entry((expires_ms, hash)).or_default() += 1;
        self.total += 1;
        self.next_ms = Some(self.next_ms.map_or(expires_ms, |next_ms| next_ms.min(expires_ms)));
    }

    pub(crate) fn remove(&mut self, expires_ms: u64, hash: u64) {
        let count = self.counts.get_mut(&(expires_ms, hash));
        let count = count.expect("every object's expiry was added when it was set");
        *count -= 1;
        self.total -= 1;
        if *count == 0 {
            self.counts.remove(&(expires_ms, hash));
            self.next_ms = self.counts.first_key_value().map(|(&(next_ms, _), _)| next_ms);
        }
    }

    /// The expiry and hash of the object that is due first, if one is due.
    pub(crate) fn first_due(&self, time_ms: u64) -> Option<(u64, u64)> {
        if !self.has_due(time_ms) {
            return None;
        }
        self.counts.first_key_value().map(|(&first, _)| first)
    }

    /// How many objects expire.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// How many objects are due.
    pub(crate) fn due_count(&self, time_ms: u64) -> usize {
        if !self.has_due(time_ms) {
            return 0;
        }
        self.counts.range(..=(time_ms, u64::MAX)).map(|(_, &count)| count as usize).sum()
    }
}
