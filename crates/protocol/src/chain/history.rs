//! The updates that a replica has and has not executed: the paper's `Sent` list, with what the tail is about to decide.

use alloc::collections::VecDeque;

use crate::id::{Content, Slot, Stamp, Value};

#[derive(Debug)]
pub(super) struct History {
    /// The first slot that is not executed.
    next_slot: Slot,
    /// Slots below are decided. At least `next_slot`, at most `received`.
    decided: Slot,
    /// From `next_slot` on, without holes.
    values: VecDeque<Value>,
    bytes: usize,
    /// Group time after the last of them.
    pub(super) time: Stamp,
}

/// What a value weighs against limits: its commands and the bytes around them.
fn weight(value: &Value) -> usize {
    const OVERHEAD: usize = 64;
    match &value.content {
        Content::Mark => OVERHEAD,
        Content::Commands(bytes) | Content::Stop(bytes) => OVERHEAD + bytes.len(),
    }
}

impl History {
    pub(super) fn new(next_slot: Slot, time: Stamp) -> History {
        History { next_slot, decided: next_slot, values: VecDeque::new(), bytes: 0, time }
    }

    pub(super) fn next_slot(&self) -> Slot {
        self.next_slot
    }

    pub(super) fn decided(&self) -> Slot {
        self.decided
    }

    /// The first slot that is not there.
    pub(super) fn received(&self) -> Slot {
        Slot(self.next_slot.0 + self.values.len() as u64)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn ends_in_stop(&self) -> bool {
        matches!(self.values.back(), Some(Value { content: Content::Stop(_), .. }))
    }

    pub(super) fn last(&self) -> Option<(Slot, &Value)> {
        let last = self.values.back()?;
        Some((Slot(self.received().0 - 1), last))
    }

    pub(super) fn from(&self, from: Slot) -> impl Iterator<Item = (Slot, &Value)> {
        let skipped = usize::try_from(from.0.saturating_sub(self.next_slot.0)).unwrap_or(usize::MAX);
        (self.next_slot.0..).map(Slot).zip(&self.values).skip(skipped)
    }

    pub(super) fn push(&mut self, value: Value) {
        self.bytes += weight(&value);
        self.time = self.time.max(value.stamp);
        self.values.push_back(value);
    }

    /// True if something new is decided. What is not here cannot be.
    pub(super) fn decide_below(&mut self, frontier: Slot) -> bool {
        let frontier = frontier.min(self.received());
        let advances = frontier > self.decided;
        self.decided = self.decided.max(frontier);
        advances
    }

    pub(super) fn pop_decided(&mut self) -> Option<(Slot, Value)> {
        if self.next_slot >= self.decided {
            return None;
        }
        let (slot, value) = (self.next_slot, self.values.pop_front()?);
        self.bytes -= weight(&value);
        self.next_slot = slot.next();
        Some((slot, value))
    }

    /// Drops undecided updates from `from` on.
    pub(super) fn truncate(&mut self, from: Slot, time: Stamp) {
        let kept = usize::try_from(from.max(self.decided).0 - self.next_slot.0).unwrap_or(usize::MAX);
        while self.values.len() > kept {
            self.bytes -= self.values.pop_back().as_ref().map_or(0, weight);
        }
        self.time = self.values.iter().map(|value| value.stamp).max().unwrap_or_default().max(time);
    }

    /// Everything below `slot` has been executed by other means.
    pub(super) fn drop_below(&mut self, slot: Slot, time: Stamp) {
        let known = usize::try_from(slot.0.saturating_sub(self.next_slot.0)).unwrap_or(usize::MAX);
        let dropped: usize = self.values.drain(..known.min(self.values.len())).map(|value| weight(&value)).sum();
        self.bytes -= dropped;
        self.next_slot = self.next_slot.max(slot);
        self.decided = self.decided.max(slot);
        self.time = self.time.max(time);
    }

    pub(super) fn check(&self) {
        let bytes: usize = self.values.iter().map(weight).sum();
        assert_eq!(bytes, self.bytes, "bytes of the history");
        assert!(self.next_slot <= self.decided, "executed to {:?}, decided to {:?}", self.next_slot, self.decided);
        assert!(self.decided <= self.received(), "decided to {:?}, has {:?}", self.decided, self.received());
        let stops = self.values.iter().filter(|value| matches!(value.content, Content::Stop(_))).count();
        assert!(stops == usize::from(self.ends_in_stop()), "updates after a stop");
    }
}
