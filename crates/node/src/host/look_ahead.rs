//! Looking at groups before they are stepped: those of a frame before the first of its messages is taken, and those that want to
//! be woken before the first of them is.
//!
//! A step of one of very many groups finds nothing of its group in any cache, and what it needs lies in several places, each
//! known only from the one before. Taken one by one, each step waits for them one after the other. Looked at level by level
//! for many groups, the waits overlap. Of few dozen groups the same holds: what other processes and the kernel do between two
//! turns takes their place in the nearer caches.

use quorate_protocol::Event;

use super::Host;
use crate::frame::groups_named;

/// With fewer groups awake, what a frame needs is mostly in the nearest caches.
const AWAKE_MIN: usize = 32;
/// With fewer groups in a frame there is nothing to overlap.
const GROUPS_MIN: usize = 4;
/// At once. With more, what was looked at first would be gone again.
const GROUPS_MAX: usize = 512;

impl Host {
    pub(super) fn look_ahead(&mut self, messages: &[u8]) {
        if self.groups.len() < AWAKE_MIN {
            return;
        }
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.clear();
        let named = groups_named(messages).take(GROUPS_MAX);
        ahead.extend(named.filter_map(|group| Some((group, self.index.get(&group).copied()?))));
        if ahead.len() < GROUPS_MIN {
            self.ahead = ahead;
            return;
        }
        let indices = || ahead.iter().map(|&(_, index)| index);
        self.look(indices());
        self.wal.look_ahead(ahead.iter().map(|(group, _)| group.0));
        self.look_deepest(indices());
        let groups = || indices().filter_map(|index| self.groups.get(index as usize));
        groups().for_each(|group| group.look_at_next());
        let sought: Vec<_> = groups().filter_map(|group| group.seek_next()).collect();
        sought.iter().for_each(|(objects, sought)| objects.look_at_entry(sought));
        sought.iter().for_each(|(objects, sought)| objects.look_at_name(sought));
        drop(sought);
        self.ahead = ahead;
    }

    /// Wakes the groups at these places.
    pub(super) fn wake(&mut self, due: &[u32]) {
        for due in due.chunks(GROUPS_MAX) {
            if due.len() > 1 && self.groups.len() >= AWAKE_MIN {
                self.look(due.iter().copied());
                self.look_deepest(due.iter().copied());
            }
            for &index in due {
                if self.groups.get(index as usize).is_some_and(|group| group.is_alive()) {
                    self.plan(index, Event::Woken);
                }
            }
            self.run();
        }
    }

    fn look(&self, indices: impl Iterator<Item = u32> + Clone) {
        let groups = |index: u32| self.groups.get(index as usize);
        indices.clone().filter_map(groups).for_each(|group| group.look());
        indices.filter_map(groups).for_each(|group| group.look_deeper());
    }

    fn look_deepest(&self, indices: impl Iterator<Item = u32>) {
        let groups = indices.filter_map(|index| self.groups.get(index as usize));
        groups.for_each(|group| group.look_deepest());
    }
}
