//! Looking at the groups of a frame before the first of its messages is taken.
//!
//! A message to one of very many groups finds nothing of its group in any cache, and what a step needs lies in several
//! places, each known only from the one before. Taken one by one, each message waits for them one after the other. Looked at
//! level by level for all groups of a frame, the waits overlap.

use std::hint::black_box;

use quorate_protocol::GroupId;

use super::Host;
use crate::frame::groups_named;

/// With fewer groups awake, what a frame needs is mostly in a cache.
const AWAKE_MIN: usize = 4096;
/// Of one frame. With more, what was looked at first would be gone again.
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
        let groups = |&(_, index): &(GroupId, u32)| self.groups.get(index as usize);
        for group in ahead.iter().filter_map(groups) {
            group.look();
        }
        for group in ahead.iter().filter_map(groups) {
            group.look_deeper();
        }
        for (group, _) in &ahead {
            black_box(self.wal.look(group.0));
        }
        for group in ahead.iter().filter_map(groups) {
            group.look_deepest();
        }
        self.ahead = ahead;
    }
}
