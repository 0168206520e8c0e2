//! When to look at what again: one queue for all groups of a worker.
//!
//! A timer is a wish, not a promise: firing early or twice is harmless, so nothing is ever cancelled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quorate_protocol::Instant;

#[derive(Debug)]
pub struct Timers<T> {
    queue: BinaryHeap<Reverse<(Instant, T)>>,
}

impl<T: Ord> Default for Timers<T> {
    fn default() -> Self {
        Timers { queue: BinaryHeap::new() }
    }
}

impl<T: Ord> Timers<T> {
    pub fn set(&mut self, at: Instant, what: T) {
        self.queue.push(Reverse((at, what)));
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.queue.len()
    }

    pub fn next_at(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    pub fn take_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.next_at()? > now {
            return None;
        }
        self.queue.pop().map(|Reverse(due)| due)
    }
}
