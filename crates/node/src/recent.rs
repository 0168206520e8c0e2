//! Things kept for a while: no longer than a time, and no more bytes of them than a limit. The oldest go first.

use std::collections::VecDeque;
use std::hash::Hash;

use hashbrown::HashMap;
use quorate_protocol::Instant;

use crate::hash::FixedState;

/// What keeping one thing takes beside its own bytes, roughly.
const OVERHEAD_BYTES: usize = 96;

pub(crate) struct Recent<K, V> {
    lasts_us: u64,
    bytes_max: usize,
    bytes: usize,
    kept: HashMap<K, Kept<V>, FixedState>,
    /// Oldest first; also of what was taken out since, but never at the front.
    order: VecDeque<(Instant, K)>,
}

struct Kept<V> {
    value: V,
    bytes: usize,
    since: Instant,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    pub fn new(lasts_us: u64, bytes_max: usize) -> Recent<K, V> {
        Recent { lasts_us, bytes_max, bytes: 0, kept: HashMap::default(), order: VecDeque::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// What is there already stays. Answers how many others went to make room, this one included if it is too large for
    /// any.
    pub fn insert(&mut self, key: K, value: V, bytes: usize, now: Instant) -> u64 {
        let bytes = bytes + OVERHEAD_BYTES;
        if bytes > self.bytes_max {
            return 1;
        }
        if self.kept.contains_key(&key) {
            return 0;
        }
        let mut gone = 0;
        while self.bytes + bytes > self.bytes_max && self.drop_oldest() {
            gone += 1;
        }
        self.bytes += bytes;
        self.kept.insert(key, Kept { value, bytes, since: now });
        self.order.push_back((now, key));
        gone
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.kept.get(key).map(|kept| &kept.value)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.kept.get_mut(key).map(|kept| &mut kept.value)
    }

    pub fn take(&mut self, key: &K) -> Option<V> {
        let kept = self.kept.remove(key)?;
        self.bytes -= kept.bytes;
        self.drop_taken();
        Some(kept.value)
    }

    /// Answers how many have been there for too long, and are not any more.
    pub fn drop_old(&mut self, now: Instant) -> u64 {
        let mut gone = 0;
        while self.next_at().is_some_and(|at| at <= now) && self.drop_oldest() {
            gone += 1;
        }
        gone
    }

    /// When the oldest goes.
    pub fn next_at(&self) -> Option<Instant> {
        self.order.front().map(|(since, _)| since.after_us(self.lasts_us))
    }

    fn drop_oldest(&mut self) -> bool {
        let Some((_, key)) = self.order.front().copied() else { return false };
        self.take(&key).is_some()
    }

    fn drop_taken(&mut self) {
        let is_there = |since: Instant, key: &K| self.kept.get(key).is_some_and(|kept| kept.since == since);
        while self.order.front().is_some_and(|(since, key)| !is_there(*since, key)) {
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant(us)
    }

    #[test]
    fn what_was_there_for_too_long_goes() {
        let mut recent = Recent::new(100, 1 << 20);
        recent.insert(1, "a", 10, at(0));
        recent.insert(2, "b", 10, at(50));
        assert_eq!(recent.drop_old(at(99)), 0);
        assert_eq!(recent.drop_old(at(100)), 1);
        assert_eq!((recent.get(&1), recent.get(&2), recent.next_at()), (None, Some(&"b"), Some(at(150))));
        assert_eq!(recent.drop_old(at(150)), 1);
        assert!(recent.is_empty() && recent.bytes == 0 && recent.order.is_empty());
    }

    #[test]
    fn the_oldest_make_room_and_no_more_of_them_than_needed() {
        let each = 1000 + OVERHEAD_BYTES;
        let mut recent = Recent::new(100, 3 * each);
        for key in 0..3 {
            assert_eq!(recent.insert(key, (), 1000, at(key)), 0, "exactly as many as fit");
        }
        assert_eq!(recent.insert(3, (), 1000, at(3)), 1);
        assert!(recent.get(&0).is_none() && recent.get(&1).is_some());
        assert_eq!(recent.insert(4, (), 2 * each - OVERHEAD_BYTES, at(4)), 2, "two go for one that is as large");
        assert!(recent.get(&2).is_none() && recent.get(&3).is_some());
        assert_eq!(recent.insert(5, (), 3 * each, at(5)), 1, "too large for any room");
        assert!(recent.get(&5).is_none() && recent.get(&4).is_some());
    }

    #[test]
    fn what_was_taken_and_came_again_counts_from_then() {
        let mut recent = Recent::new(100, 1 << 20);
        recent.insert(1, "a", 0, at(0));
        recent.insert(2, "b", 0, at(10));
        assert_eq!(recent.take(&2), Some("b"));
        recent.insert(2, "c", 0, at(20));
        assert_eq!(recent.drop_old(at(110)), 1, "the first only");
        assert_eq!(recent.get(&2), Some(&"c"));
        assert_eq!(recent.insert(2, "d", 0, at(30)), 0);
        assert_eq!(recent.take(&2), Some("c"), "what is there stays");
        assert!(recent.order.is_empty());
    }
}
