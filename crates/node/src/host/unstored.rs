//! Checkpoints of volumes that nobody uses any more.
//!
//! A volume is checkpointed once enough of it has been logged. What thousands of births leave in it is little in the log and
//! much in the store: it would all be stored when the log runs out of room, which is when somebody writes most. So a
//! volume that has executed something since its last checkpoint and is then left alone is stored meanwhile, a few a second.
//! The next start has less to replay, too.

use std::collections::VecDeque;

use quorate_protocol::{GroupId, Instant, Slot};

use super::Host;

/// A volume is left alone if it has executed nothing for so long.
const ALONE_US: u64 = 3_000_000;
/// Volumes stored each time that coordinators are balanced, and volumes looked at for that.
const STORED_MAX: usize = 2;
const SEEN_MAX: usize = 4_096;

/// A volume that has executed something since its last checkpoint.
pub(super) struct Unstored {
    index: u32,
    group: GroupId,
    /// How far it had executed when it was looked at last, and when that was.
    next_slot: Slot,
    since: Instant,
}

impl Host {
    /// After a slot was applied, or a start.
    pub(super) fn note_unstored(&mut self, index: u32) {
        let group = &mut self.groups[index as usize];
        if group.is_unstored || group.own.is_some() {
            return;
        }
        let next_slot = group.replica.next_slot();
        if next_slot > group.checkpoint.next_slot {
            group.is_unstored = true;
            let (group, since) = (group.id(), self.clock.now());
            self.unstored.push_back(Unstored { index, group, next_slot, since });
        }
    }

    pub(super) fn store_unused(&mut self) {
        let now = self.clock.now();
        let mut left = STORED_MAX;
        let mut seen: VecDeque<Unstored> = self.unstored.drain(..self.unstored.len().min(SEEN_MAX)).collect();
        seen.retain_mut(|unstored| {
            let found = self.groups.get_mut(unstored.index as usize).filter(|group| group.id() == unstored.group);
            let Some(group) = found else { return false };
            let next_slot = group.replica.next_slot();
            if next_slot <= group.checkpoint.next_slot {
                group.is_unstored = false;
                return false;
            }
            if unstored.next_slot != next_slot {
                (unstored.next_slot, unstored.since) = (next_slot, now);
            }
            let is_alone = unstored.since.after_us(ALONE_US) <= now && !group.checkpoint.urgent;
            if left > 0 && is_alone && group.is_alive() {
                left -= 1;
                self.counters.stored_unused += 1;
                self.want_checkpoint_now(unstored.index);
            }
            true
        });
        self.unstored.append(&mut seen);
    }
}

#[cfg(test)]
mod tests {
    use quorate_checkpoint::MemoryStore;
    use quorate_wal::memory::MemoryStorage;

    use crate::host::quarantine::tests::Node;
    use crate::root::Durability;

    #[test]
    fn a_volume_is_stored_once_when_nobody_uses_it_any_more() {
        let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Sync, 1);
        // What forming the cluster left.
        (0..1_000).for_each(|_| node.turn());
        let before = node.host.counters().stored_unused;
        // Used every second it is not.
        for _ in 0..10 {
            node.write(0);
            (0..100).for_each(|_| node.turn());
        }
        assert_eq!(node.host.counters().stored_unused, before);
        (0..1_000).for_each(|_| node.turn());
        assert_eq!(node.host.counters().stored_unused, before + 1);
        let volume = node.volume(0);
        assert_eq!(node.host.log_mut().slots(volume.0), None, "the log need not keep anything of it");
        let mut node = Node::open(node.storage, node.store, Durability::Sync, 2);
        (0..1_000).for_each(|_| node.turn());
        assert!(node.host.counters().checkpoints <= 3, "what is stored is not stored again");
    }
}
