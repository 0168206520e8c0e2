//! What is to happen, in the order of time and, at one time, in the order in which it was planned.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

pub(crate) struct Queue<E> {
    now: u64,
    planned_count: u64,
    due: BinaryHeap<Planned<E>>,
}

struct Planned<E> {
    at: u64,
    number: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue { now: 0, planned_count: 0, due: BinaryHeap::new() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn plan(&mut self, delay: u64, event: E) {
        self.due.push(Planned { at: self.now + delay, number: self.planned_count, event });
        self.planned_count += 1;
    }

    /// When the next event is.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.due.peek().map(|planned| planned.at)
    }

    /// The next event, whose time it is then.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let Planned { at, event, .. } = self.due.pop()?;
        self.now = at;
        Some(event)
    }
}

impl<E> Ord for Planned<E> {
    /// The greatest is the first, as heaps have it.
    fn cmp(&self, other: &Planned<E>) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Planned<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Planned<E>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Planned<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_planning() {
        let mut queue = Queue::new();
        queue.plan(5, 'c');
        queue.plan(3, 'a');
        queue.plan(3, 'b');
        assert_eq!((queue.pop(), queue.now()), (Some('a'), 3));
        queue.plan(2, 'd');
        let rest: String = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!((rest.as_str(), queue.now()), ("bcd", 5));
    }
}
