//! Own groups that are not awake, and in which something expires, are woken for that: some in each turn and hardly any while too many
//! are awake. However many expire at one time, or have while the node was down, it goes on serving.

use std::collections::VecDeque;

use quorate_protocol::{GroupId, Instant};

use super::Host;

/// Expiries that are looked at in one turn, of groups awake or not.
const EXPIRIES_PER_TURN: usize = 1_024;
/// Groups woken in one turn, together with those that the store is asked for ...
const ROUSED_PER_TURN: usize = 256;
/// ... and, where too many are awake and do not come to rest, each time that this has passed.
const ROUSED_IF_CROWDED: usize = 16;
const CROWDED_US: u64 = 100_000;

#[derive(Default)]
pub(super) struct Expired {
    /// Groups that are to be woken.
    waiting: VecDeque<GroupId>,
    roused_at: Instant,
}

impl Host {
    pub(super) fn fire_expiries(&mut self) {
        let now = self.clock.now();
        for _ in 0..EXPIRIES_PER_TURN {
            let Some((at, group)) = self.expiries.take_due(now) else { break };
            self.expire(group, at);
        }
        self.rouse_expired();
    }

    /// When there is something to do for expiries.
    pub(super) fn expiries_at(&self) -> Option<Instant> {
        let waiting_at = match self.here.expired.waiting.is_empty() {
            true => None,
            false if self.expired_room() > 0 => Some(self.clock.now()),
            false => Some(self.here.expired.roused_at.after_us(CROWDED_US)),
        };
        waiting_at.into_iter().chain(self.expiries.next_at()).min()
    }

    /// Something expires in a group that is not awake: it is woken for that.
    pub(super) fn wake_for_expiry(&mut self, group: GroupId, at: Instant) {
        if self.here.expiries.get(&group) == Some(&at) && !self.postpone_expiry(group) {
            self.here.expiries.remove(&group);
            self.here.expired.waiting.push_back(group);
        }
    }

    /// A group that comes awake late does not wait for its timer: where too many are awake it would rest again before.
    pub(super) fn expire_if_due(&mut self, index: u32) {
        let (now, stamp) = (self.clock.now(), self.clock.stamp());
        let group = &mut self.groups[index as usize];
        if group.machine.next_expiry().is_some_and(|expiry| expiry <= stamp) {
            group.expiry_timer = Some(now);
            let id = group.id();
            self.expire(id, now);
        }
    }

    fn expired_room(&self) -> usize {
        if self.is_crowded() { 0 } else { ROUSED_PER_TURN.saturating_sub(self.here.sought_count()) }
    }

    fn rouse_expired(&mut self) {
        if self.here.expired.waiting.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut left = self.expired_room();
        if left == 0 && self.here.expired.roused_at.after_us(CROWDED_US) <= now {
            left = ROUSED_IF_CROWDED;
        }
        while left > 0
            && let Some(group) = self.here.expired.waiting.pop_front()
        {
            // One that came awake meanwhile and rests again has come back to it, or will.
            if self.find(group).is_none() && !self.here.expiries.contains_key(&group) {
                self.rouse(group);
                self.here.expired.roused_at = now;
                left -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_checkpoint::MemoryStore;
    use quorate_object::{Command, Condition, EXPIRED_AT_ONCE_MAX, Expiry, Outcome, SetAnswer};
    use quorate_protocol::NodeId;
    use quorate_wal::memory::MemoryStorage;

    use super::*;
    use crate::host::quarantine::tests::Node;
    use crate::host::three_nodes::settings;
    use crate::host::{Answer, HostSettings};
    use crate::root::{Groups, Settings};

    const AWAKE_MAX: usize = 100;

    fn settings_of(start: u32, groups: Groups) -> HostSettings {
        HostSettings {
            start,
            defaults: Settings { replicas: 1, volumes: 1, groups, ..Settings::default() },
            rest_after_us: 1_000_000,
            awake_max: AWAKE_MAX,
            ..settings(NodeId(1), 1)
        }
    }

    fn open(groups: Groups) -> Node {
        Node::open_with(MemoryStorage::default(), MemoryStore::default(), settings_of(1, groups))
    }

    fn open_again(node: Node, groups: Groups) -> Node {
        Node::open_with(node.storage, node.store, settings_of(2, groups))
    }

    fn fill(node: &mut Node, count: usize, expires_ms: u64) {
        for number in 0..count {
            let expiry = Expiry::AtMs(expires_ms as i64);
            let (key, condition, answer) = (&number.to_le_bytes(), Condition::Always, SetAnswer::Ok);
            let set = Command::Set { key, value: b"v", condition, expiry, answer };
            assert_eq!(node.ask(0, &set), Answer::Outcome(Outcome::Ok));
        }
    }

    fn woken(node: &Node) -> u64 {
        node.host.counters().woken_from_memory + node.host.counters().woken_from_store
    }

    /// Until no own group is left: how many woke at most in one turn, and how many did.
    fn turns_until_all_have_ended(node: &mut Node) -> (u64, u64) {
        let (before, mut most) = (woken(node), 0);
        for _ in 0..20_000 {
            let at_first = woken(node);
            node.turn();
            most = most.max(woken(node) - at_first);
            if node.host.here.all.is_empty() {
                return (most, woken(node) - before);
            }
        }
        panic!("{} groups are left, {} of them due", node.host.here.all.len(), node.host.here.expired.waiting.len());
    }

    #[test]
    fn groups_in_which_something_expires_at_one_time_are_woken_over_several_turns() {
        let mut node = open(Groups::Own);
        let count = 4 * ROUSED_PER_TURN;
        let expires_ms = node.wall_ms() + 60_000;
        fill(&mut node, count, expires_ms);
        while node.wall_ms() < expires_ms - 10 {
            node.turn();
        }
        assert_eq!(node.host.own_counts().active, 0);
        let (most, all) = turns_until_all_have_ended(&mut node);
        assert!(most <= ROUSED_PER_TURN as u64, "{most} woke in one turn");
        assert!(all >= count as u64, "{all}");
    }

    #[test]
    fn a_node_that_was_down_while_groups_expired_wakes_them_over_several_turns() {
        let mut node = open(Groups::Own);
        let count = 3 * ROUSED_PER_TURN;
        let expires_ms = node.wall_ms() + 300_000;
        fill(&mut node, count, expires_ms);
        (0..1_000).for_each(|_| node.turn());
        assert!(node.wall_ms() < expires_ms && node.host.here.all.len() == count as u64);
        let mut node = open_again(node, Groups::Own);
        let (most, _) = turns_until_all_have_ended(&mut node);
        assert!(most <= ROUSED_PER_TURN as u64, "{most} woke in one turn");
    }

    #[test]
    fn where_too_many_are_awake_what_has_expired_is_seen_to_all_the_same() {
        let mut node = open(Groups::Own);
        let expires_ms = node.wall_ms() + 30_000;
        fill(&mut node, 2 * ROUSED_IF_CROWDED, expires_ms);
        while node.wall_ms() < expires_ms - 10 {
            node.turn();
        }
        // As if many were in use.
        node.host.settings.awake_max = 0;
        node.host.here.awake_count += 1;
        (0..3).for_each(|_| node.turn());
        assert_eq!(node.host.here.expired.waiting.len(), ROUSED_IF_CROWDED);
        let again_at = node.host.here.expired.roused_at.after_us(CROWDED_US);
        assert!(node.host.expiries_at().is_some_and(|at| at <= again_at));
        turns_until_all_have_ended(&mut node);
    }

    #[test]
    fn a_volume_removes_what_expires_at_one_time_over_several_slots() {
        let mut node = open(Groups::Volumes);
        let count = 3 * EXPIRED_AT_ONCE_MAX;
        let expires_ms = node.wall_ms() + 300_000;
        fill(&mut node, count, expires_ms);
        let volume = node.volume(0);
        let left = |node: &Node| {
            let index = node.host.find(volume).expect("it is here");
            node.host.groups[index as usize].machine.objects().expect("it is a volume").count()
        };
        while node.wall_ms() < expires_ms - 10 {
            node.turn();
        }
        let mut before = left(&node);
        assert_eq!(before, count);
        let mut steps = 0;
        for _ in 0..100 {
            node.turn();
            let after = left(&node);
            assert!(before - after <= EXPIRED_AT_ONCE_MAX, "{} in one turn", before - after);
            steps += usize::from(after < before);
            before = after;
        }
        assert_eq!((before, steps), (0, 3));
        assert_eq!(node.ask(0, &Command::Count), Answer::Outcome(Outcome::Int(0)));
    }
}
