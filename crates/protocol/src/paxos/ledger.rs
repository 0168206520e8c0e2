//! The slots that a replica has not executed yet: a ring that starts at its next slot.

use alloc::collections::VecDeque;

use crate::id::{Ballot, Content, Slot, Value};
use crate::planted::{self, Planted};

#[derive(Debug)]
pub(super) struct Entry {
    /// At which the value was accepted; of a learned value, any ballot.
    pub(super) ballot: Ballot,
    pub(super) value: Value,
    pub(super) decided: bool,
    /// At the coordinator: the members on whose disks the value is, by position.
    pub(super) acknowledgers: u64,
}

#[derive(Debug)]
pub(super) struct Ledger {
    base: Slot,
    /// Holes are `None`. The last one, if any, is not a hole.
    entries: VecDeque<Option<Entry>>,
    bytes: usize,
    /// What was accepted at this ballot below this slot has been marked as decided: a log is recovered in one pass.
    swept: (Ballot, Slot),
}

/// What a value weighs against limits: its commands and the bytes around them.
pub(super) fn weight(value: &Value) -> usize {
    const OVERHEAD: usize = 64;
    match &value.content {
        Content::Mark => OVERHEAD,
        Content::Commands(bytes) | Content::Stop(bytes) => OVERHEAD + bytes.len(),
    }
}

impl Ledger {
    pub(super) fn new(base: Slot) -> Ledger {
        Ledger { base, entries: VecDeque::new(), bytes: 0, swept: (Ballot::default(), base) }
    }

    pub(super) fn base(&self) -> Slot {
        self.base
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn find(&self, slot: Slot) -> Option<&Entry> {
        let index = slot.0.checked_sub(self.base.0)?;
        self.entries.get(usize::try_from(index).ok()?)?.as_ref()
    }

    pub(super) fn find_mut(&mut self, slot: Slot) -> Option<&mut Entry> {
        let index = slot.0.checked_sub(self.base.0)?;
        self.entries.get_mut(usize::try_from(index).ok()?)?.as_mut()
    }

    /// The filled slots at or above `from`, in order.
    pub(super) fn from(&self, from: Slot) -> impl Iterator<Item = (Slot, &Entry)> {
        let skipped = usize::try_from(from.0.saturating_sub(self.base.0)).unwrap_or(usize::MAX);
        let slots = (self.base.0..).map(Slot);
        slots.zip(&self.entries).skip(skipped).filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    /// Fills `slot` with a value that is not known as decided. A decided value stays as it is.
    pub(super) fn accept(&mut self, slot: Slot, ballot: Ballot, value: Value) {
        self.fill(slot, Entry { ballot, value, decided: false, acknowledgers: 0 });
    }

    pub(super) fn learn(&mut self, slot: Slot, ballot: Ballot, value: Value) {
        self.fill(slot, Entry { ballot, value, decided: true, acknowledgers: 0 });
    }

    fn fill(&mut self, slot: Slot, entry: Entry) {
        assert!(slot >= self.base, "{slot:?} is executed, below {:?}", self.base);
        let index = usize::try_from(slot.0 - self.base.0).expect("callers bound the distance by a window");
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, || None);
        }
        self.swept.1 = self.swept.1.min(slot);
        let place = &mut self.entries[index];
        match place {
            Some(old) if old.decided => return,
            Some(old) => self.bytes -= weight(&old.value),
            None => {}
        }
        self.bytes += weight(&entry.value);
        *place = Some(entry);
    }

    /// A frontier heard at `ballot` decides what was accepted at `ballot`. A slot accepted at another may hold a value that
    /// was not chosen.
    pub(super) fn decide_below(&mut self, frontier: Slot, ballot: Ballot) {
        let from = if self.swept.0 == ballot { self.swept.1.max(self.base) } else { self.base };
        let skipped = usize::try_from(from.0 - self.base.0).unwrap_or(usize::MAX);
        let count = usize::try_from(frontier.0.saturating_sub(from.0)).unwrap_or(usize::MAX);
        self.swept = (ballot, frontier.max(from));
        let skipped = skipped.min(self.entries.len());
        for entry in self.entries.range_mut(skipped..).take(count).flatten() {
            if entry.ballot == ballot || planted::is(Planted::FrontierDecidesAnyBallot) {
                entry.decided = true;
            }
        }
    }

    pub(super) fn is_next_decided(&self) -> bool {
        matches!(self.entries.front(), Some(Some(entry)) if entry.decided)
    }

    /// Takes the next slot, if it is decided.
    pub(super) fn pop_decided(&mut self) -> Option<Entry> {
        if !self.is_next_decided() {
            return None;
        }
        let entry = self.entries.pop_front()??;
        if self.entries.is_empty() {
            // The next one lies where this one lay, which is in a cache, and not behind it.
            self.entries.clear();
        }
        self.bytes -= weight(&entry.value);
        self.base = self.base.next();
        Some(entry)
    }

    /// Everything below `slot` has been executed by other means.
    pub(super) fn drop_below(&mut self, slot: Slot) {
        while self.base < slot && !self.entries.is_empty() {
            if let Some(entry) = self.entries.pop_front().flatten() {
                self.bytes -= weight(&entry.value);
            }
            self.base = self.base.next();
        }
        self.base = self.base.max(slot);
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    pub(super) fn check(&self) {
        let bytes: usize = self.entries.iter().flatten().map(|entry| weight(&entry.value)).sum();
        assert_eq!(bytes, self.bytes, "bytes of the ledger");
        assert!(self.entries.back().is_none_or(Option::is_some), "the ledger ends in a hole");
    }
}
