//! Which keys there are: what members hold, put together page by page.
//!
//! A page is asked of a read quorum in each known configuration, as wide as a query that finds nothing: of each key up to
//! where all answers reach, the highest version is then no older than what was at a write quorum when the listing began.
//! Nothing is written back: of a key that is being written, either may be said, and again the other.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::operation::{Operation, Phase, Purpose};
use super::{Answer, Body, Entry, Key, LIST_BYTES_MAX, LIST_KEYS_MAX, Outline, Register, Round, Tag};
use crate::effect::{Cx, Effects};
use crate::id::NodeId;

/// The answers so far, put together.
#[derive(Clone, Hash, Default)]
pub(super) struct Listing {
    count: usize,
    /// The highest version of each key, up to where all answers reach.
    found: BTreeMap<Key, (Tag, Outline)>,
    /// That key, if there may be more.
    to: Option<Key>,
}

impl Listing {
    fn new(count: usize) -> Listing {
        Listing { count: count.clamp(1, LIST_KEYS_MAX), ..Listing::default() }
    }

    /// The view has changed: nothing that was answered counts.
    pub(super) fn anew(&self) -> Listing {
        Listing::new(self.count)
    }

    pub(super) fn body(&self, round: Round, from: Key) -> Body {
        Body::List { round, from, tombstones: false, count: self.count as u32 }
    }

    fn note(&mut self, entries: Vec<Entry>, end: bool) {
        if let Some(last) = entries.last().filter(|_| !end) {
            self.reach_to(last.key.clone());
        }
        let is_reached = |entry: &Entry| self.to.as_ref().is_none_or(|to| entry.key <= *to);
        for Entry { key, tag, outline } in entries.into_iter().filter(is_reached) {
            let found = self.found.entry(key).or_insert((tag, outline));
            if tag > found.0 {
                *found = (tag, outline);
            }
        }
        // A page more than that is not kept, however much the answers differ.
        let mut bytes = 0;
        let fits = |(position, key): &(usize, &Key)| {
            bytes += key.0.len();
            *position < self.count && (bytes <= LIST_BYTES_MAX || *position == 0)
        };
        let last = self.found.keys().enumerate().take_while(fits).last();
        if let Some((position, last)) = last
            && position + 1 < self.found.len()
        {
            self.reach_to(last.clone());
        }
    }

    fn reach_to(&mut self, key: Key) {
        if self.to.as_ref().is_none_or(|to| key < *to) {
            self.found.retain(|found, _| *found <= key);
            self.to = Some(key);
        }
    }
}

impl Operation {
    pub(super) fn listing(token: u64, after: Option<&Key>, count: usize) -> Operation {
        Operation::new(Purpose::Read { token }, Key::after(after), Phase::List(Listing::new(count)))
    }

    pub(super) fn is_listing(&self) -> bool {
        matches!(self.phase, Phase::List(_))
    }
}

impl Register {
    pub(super) fn handle_listed(
        &mut self,
        cx: &Cx<'_>,
        from: NodeId,
        round: Round,
        (entries, end): (Vec<Entry>, bool),
        out: &mut Effects<Register>,
    ) {
        let bit = self.known.bit(from);
        let Some(mut operation) = self.take(round) else { return };
        if let Phase::List(listing) = &mut operation.phase
            && operation.answered & bit == 0
        {
            listing.note(entries, end);
            operation.answered |= bit;
        }
        self.proceed(cx, round, operation, out);
    }

    pub(super) fn finish_listing(
        &mut self,
        cx: &Cx<'_>,
        operation: &Operation,
        listing: Listing,
        out: &mut Effects<Register>,
    ) {
        let Listing { found, to: next, .. } = listing;
        let live = found.into_iter().filter(|(_, (_, outline))| outline.is_live(cx.stamp));
        let keys = live.map(|(key, _)| key).collect();
        self.end(operation, operation.token().map(|token| Answer::Listed { token, keys, next }), out);
    }
}
