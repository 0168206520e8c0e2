//! Forgetting the tombstones of register groups.
//!
//! What was deleted must be remembered until nobody can bring an older version back: until all members hold the tombstone, and
//! every operation that began before that is over. The last of the members that are in a quorum sees to it, while all are alive,
//! for many at once:
//!
//! 1. Its replica buries the tombstones at all members.
//! 2. The parent decides another epoch, and all members drain: what began before it has ended there.
//! 3. The parent decides one more, whose fence says so. The replica then has the tombstones forgotten.
//!
//! Epochs are retired by the first of the members alive, as ever: a replica has one errand at a time. Where members decide, there is
//! no parent: the first of the others alive is the candidate for both epochs, and retires what was before.
//!
//! What has expired becomes a tombstone when somebody reads it. Members walk through what they hold, and read what nobody else does:
//! of each key one of them at once, and the next one after it, if it holds that, where it is still there much later.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use quorate_protocol::register::{Content, Key, Request};
use quorate_protocol::{Epoch, GroupId, Instant, NodeId, Stamp};

use super::Host;
use super::registers::Waiting;
use crate::entry::Purpose;
use crate::frame::Message;
use crate::hash::FixedState;
use crate::record::GroupRecord;
use crate::register::hash_of_key;
use crate::replica::Protocol;
use crate::root::{ROOT, RootCommand, RootState};

/// So many tombstones are collected after a second, and fewer after [`super::HostSettings::tombstones_after_us`].
const MANY: usize = 1_000;
const REST_OF_MANY_US: u64 = 1_000_000;
/// A collection that has not ended by now is given up; it begins anew.
const PATIENCE_US: u64 = 15_000_000;
/// Groups whose tombstones a node collects at once: each takes the parent four decisions.
const AT_ONCE_MAX: usize = 4;

/// Keys looked at in a heartbeat for whether they have expired, and those that are read then.
const LOOKED_AT: usize = 2_000;
const EXPIRED_MAX: usize = 256;

/// Where the walk through the groups here has come to.
#[derive(Default)]
pub(super) struct Expiries {
    group: Option<GroupId>,
    after: Option<Key>,
}

#[derive(Default)]
pub(super) struct Collections {
    open: HashMap<GroupId, Collection, FixedState>,
    /// When the last one of a group ended, if nothing was left.
    ended_at: HashMap<GroupId, Instant, FixedState>,
}

struct Collection {
    /// The errand of the replica here.
    token: u64,
    /// At which the tombstones are buried.
    epoch: Epoch,
    step: Step,
    began_at: Instant,
}

enum Step {
    Burying,
    /// The next epoch is asked for.
    Renewing,
    /// So many members have drained.
    Draining(BTreeSet<NodeId>),
    /// The epoch with the fence is asked for.
    Fencing,
}

impl Collections {
    /// An errand was given up. That of a collection which lasted too long is, when the next one begins.
    pub(super) fn give_up(&mut self, group: GroupId, token: u64) {
        if self.open.get(&group).is_some_and(|open| open.token == token) {
            self.open.remove(&group);
        }
    }

    pub(super) fn forget(&mut self, group: GroupId) {
        self.open.remove(&group);
        self.ended_at.remove(&group);
    }
}

impl Host {
    /// Each heartbeat.
    pub(super) fn collect_tombstones(&mut self) {
        let now = self.clock.now();
        self.registers.collections.open.retain(|_, open| open.began_at.after_us(PATIENCE_US) > now);
        let is_mine = |volume: &GroupRecord| {
            let is_open = self.registers.collections.open.contains_key(&GroupId(volume.group));
            !volume.is_moving() && (is_open || self.is_to_collect(volume))
        };
        let led = self.led_by(ROOT, Protocol::Register).filter(|volume| is_mine(volume)).cloned();
        let mine: Vec<GroupRecord> = led.chain(self.of_members().filter(is_mine)).collect();
        for volume in mine {
            self.go_on_collecting(&volume);
        }
    }

    fn is_to_collect(&self, volume: &GroupRecord) -> bool {
        let (me, now, group) = (self.settings.node, self.clock.now(), GroupId(volume.group));
        let is_last = volume.members.len() > 1 && volume.last_in_use() == Some(me);
        if !is_last || self.registers.collections.open.len() >= AT_ONCE_MAX {
            return false;
        }
        let Some(index) = self.find(group).filter(|&index| self.groups[index as usize].is_alive()) else {
            return false;
        };
        let Some(replica) = self.groups[index as usize].replica.register() else { return false };
        let ended_at = self.registers.collections.ended_at.get(&group).copied().unwrap_or(self.started_at);
        let is_worth_it = match replica.core().status().tombstone_count {
            0 => false,
            MANY.. => ended_at.after_us(REST_OF_MANY_US) <= now,
            _ => ended_at.after_us(self.settings.tombstones_after_us) <= now,
        };
        is_worth_it && volume.member_ids().all(|node| node == me || !self.peers.is_suspected(node))
    }

    fn go_on_collecting(&mut self, volume: &GroupRecord) {
        let (group, at) = (GroupId(volume.group), Epoch(volume.epoch));
        let Some(index) = self.find(group) else { return };
        let Some(open) = self.registers.collections.open.get_mut(&group) else {
            let token = self.registers.token(Waiting::Collection { group });
            let open = Collection { token, epoch: at, step: Step::Burying, began_at: self.clock.now() };
            self.registers.collections.open.insert(group, open);
            return self.ask_core(index, Request::Forget { token, after: None });
        };
        let renewed = open.epoch.next();
        match &open.step {
            Step::Burying => {
                let core = self.groups[index as usize].replica.register().map(|replica| replica.core());
                if at == open.epoch && core.and_then(|core| core.awaits_fence()) == Some(at) {
                    open.step = Step::Renewing;
                    self.renew(volume, None);
                }
            }
            Step::Renewing if at == open.epoch => self.ask_members_to_renew(volume, None),
            Step::Renewing if at == renewed => {
                open.step = Step::Draining(BTreeSet::new());
                self.ask_to_drain(volume);
            }
            Step::Draining(_) if at == renewed => self.ask_to_drain(volume),
            Step::Fencing if at == renewed => self.ask_members_to_renew(volume, Some(at)),
            Step::Renewing | Step::Draining(_) | Step::Fencing => {}
        }
    }

    /// The group's next epoch is to be decided, of the same members and quorums.
    fn renew(&mut self, volume: &GroupRecord, fence: Option<Epoch>) {
        let group = GroupId(volume.group);
        if self.successions.contains(group) {
            return self.ask_members_to_renew(volume, fence);
        }
        let fence = fence.map(|fence| fence.0);
        let command = RootCommand::RenewRegisters { group: group.0, epoch: volume.epoch, fence };
        self.submit_to_root(&command, Purpose::Settling);
    }

    /// Members may have missed it, or have had something else to decide. The candidate is another one than this node, whose
    /// replica has its errand.
    fn ask_members_to_renew(&mut self, volume: &GroupRecord, fence: Option<Epoch>) {
        let (me, group) = (self.settings.node, GroupId(volume.group));
        let candidate = volume.member_ids().find(|node| *node != me && !self.peers.is_suspected(*node));
        if let Some(candidate) = candidate.filter(|_| self.successions.contains(group)) {
            self.wish_renewal(candidate, group, Epoch(volume.epoch), fence.unwrap_or_default());
        }
    }

    fn ask_to_drain(&mut self, volume: &GroupRecord) {
        let (group, epoch) = (GroupId(volume.group), Epoch(volume.epoch));
        let Some(Step::Draining(drained)) = self.registers.collections.open.get(&group).map(|open| &open.step) else {
            return;
        };
        let left: Vec<NodeId> = volume.member_ids().filter(|node| !drained.contains(node)).collect();
        if left.is_empty() {
            if let Some(open) = self.registers.collections.open.get_mut(&group) {
                open.step = Step::Fencing;
            }
            return self.renew(volume, Some(epoch));
        }
        for node in left {
            match node == self.settings.node {
                true => self.handle_drain(node, group, epoch),
                false => self.outbox.send(node, &Message::Drain { group, epoch }),
            }
        }
    }

    /// A node wants to know when the replica here has drained.
    pub(super) fn handle_drain(&mut self, asker: NodeId, group: GroupId, epoch: Epoch) {
        let Some(index) = self.find(group).filter(|&index| self.groups[index as usize].is_alive()) else { return };
        if self.groups[index as usize].replica.register().is_some() {
            let token = self.registers.token(Waiting::Drain { group, asker });
            self.ask_core(index, Request::Drain { token, epoch });
        }
    }

    pub(super) fn tell_drained(&mut self, asker: NodeId, group: GroupId, epoch: Epoch) {
        match asker == self.settings.node {
            true => self.handle_drained(asker, group, epoch),
            false => self.outbox.send(asker, &Message::Drained { group, epoch }),
        }
    }

    pub(super) fn handle_drained(&mut self, from: NodeId, group: GroupId, epoch: Epoch) {
        if let Some(open) = self.registers.collections.open.get_mut(&group)
            && let Step::Draining(drained) = &mut open.step
            && open.epoch.next() == epoch
        {
            drained.insert(from);
        }
    }

    /// So many tombstones are forgotten; whether there are others.
    pub(super) fn end_collection(&mut self, group: GroupId, count: usize, is_more: bool) {
        self.counters.tombstones_forgotten += count as u64;
        self.registers.collections.open.remove(&group);
        match is_more {
            true => self.registers.collections.ended_at.remove(&group),
            false => self.registers.collections.ended_at.insert(group, self.clock.now()),
        };
    }
}

impl Host {
    /// Whether a member, whose turn it is so many others after, is to read what has expired. Those before it need not hold it: then
    /// it is still there when their turns, and the collection of what they have found, must be over.
    pub(super) fn is_due(&self, content: &Content, turn: u64, now: Stamp) -> bool {
        let late_ms = turn.saturating_mul(self.settings.tombstones_after_us / 500);
        matches!(content, Content::Value { expires: Some(expires), .. } if expires.0.saturating_add(late_ms) <= now.0)
    }

    /// Each heartbeat, one group: those of its keys that are this member's to look after.
    pub(super) fn look_for_expired(&mut self) {
        let (me, stamp) = (self.settings.node, self.clock.stamp());
        let Expiries { group, after } = std::mem::take(&mut self.registers.expiries);
        let here = |volume: &&GroupRecord| {
            self.find(GroupId(volume.group)).is_some_and(|index| self.groups[index as usize].is_alive())
        };
        let same = after.as_ref().and(group);
        let is_next = |volume: &&GroupRecord| match same {
            Some(same) => volume.group == same.0,
            None => group.is_none_or(|last| volume.group > last.0),
        };
        // After the last group comes the first one.
        let volumes = self.directory.state().into_iter().flat_map(RootState::volumes);
        let of_registers = volumes.filter(|(_, namespace, _)| namespace.settings.protocol.is_register());
        let found = of_registers.map(|(.., volume)| volume).filter(here).filter(is_next);
        let Some(volume) = found.min_by_key(|volume| volume.group) else { return };
        let volume = self.present(volume);
        let (group, members) = (GroupId(volume.group), volume.members.len());
        let Some(place) = volume.member_ids().position(|node| node == me) else {
            return self.registers.expiries.group = Some(group);
        };
        let Some(index) = self.find(group) else { return };
        let Some(replica) = self.groups[index as usize].replica.register() else { return };
        let core = replica.core();
        let (expired, next) = core.expired(after.as_ref(), LOOKED_AT, stamp);
        self.registers.expiries = Expiries { group: Some(group), after: next };
        let turn = |key: &Key| (place as u64 + members as u64 - hash_of_key(key) % members as u64) % members as u64;
        let is_mine = |key: &Key| core.held(key).is_some_and(|held| self.is_due(&held.content, turn(key), stamp));
        let deadline = Stamp(stamp.0 + self.settings.timeout_ms);
        for key in expired.into_iter().filter(is_mine).take(EXPIRED_MAX).collect::<Vec<_>>() {
            let token = self.registers.token(Waiting::Expiry { group });
            self.ask_core(index, Request::Read { token, key, deadline });
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_object::{Command, Condition, Expiry, SetAnswer};
    use quorate_protocol::NodeId;

    use crate::Target;
    use crate::frame::Message;
    use crate::host::Submission;
    use crate::host::three_nodes::{Cluster, Fate, arrives};

    /// Tombstones that the three members of a register namespace hold, and have forgotten.
    fn held_and_forgotten(cluster: &Cluster) -> (usize, u64) {
        let held = |group: &crate::host::Group| group.replica.register().map(|own| own.core().status().tombstone_count);
        let hosts = || cluster.nodes.iter().map(|node| &node.host);
        let forgotten = hosts().map(|host| host.counters.tombstones_forgotten).sum();
        (hosts().flat_map(|host| host.groups().filter_map(held)).sum(), forgotten)
    }

    fn with_a_tombstone() -> Cluster {
        let mut cluster = Cluster::new(|settings| settings.tombstones_after_us = 1_000_000);
        let number = cluster.next_number();
        let words = ["NAMESPACE", "CREATE", "1", "PROTOCOL", "register", "VOLUMES", "1"];
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        cluster.node(1).host.submit_admin(number, 0, &words);
        cluster.pass(500, arrives);
        let number = cluster.next_number();
        let command = &Command::Del { key: b"key" };
        let target = Target::Slot { namespace: 1, slot: 0 };
        cluster.node(1).host.submit(Submission { number, predecessor: None, target, command });
        cluster.pass(100, arrives);
        assert!(held_and_forgotten(&cluster).0 > 0, "{:?}", cluster.node(1).answers);
        cluster
    }

    #[test]
    fn tombstones_are_collected() {
        let mut cluster = with_a_tombstone();
        cluster.pass(5_000, arrives);
        assert_eq!(held_and_forgotten(&cluster), (0, 1));
    }

    #[test]
    fn a_collection_that_lasts_too_long_begins_anew() {
        let mut cluster = with_a_tombstone();
        let no_drain = |_: NodeId, _: NodeId, message: &Message<'_>| match message {
            Message::Drain { .. } => Fate::IsLost,
            _ => Fate::Arrives,
        };
        cluster.pass(20_000, no_drain);
        assert_eq!(held_and_forgotten(&cluster), (3, 0));
        cluster.pass(20_000, arrives);
        assert_eq!(held_and_forgotten(&cluster), (0, 1));
    }

    /// Versions that the members hold, whatever they are.
    fn held(cluster: &Cluster) -> usize {
        let held = |group: &crate::host::Group| group.replica.register().map(|own| own.core().status().key_count);
        cluster.nodes.iter().flat_map(|node| node.host.groups().filter_map(held)).sum()
    }

    #[test]
    fn what_has_expired_goes_whoever_holds_it() {
        let mut cluster = with_a_tombstone();
        for key in 0..60 {
            let number = cluster.next_number();
            let name = format!("key{key}");
            let (condition, answer) = (Condition::Always, SetAnswer::Ok);
            let expiry = Expiry::AtMs(cluster.node(1).host.stamp().0 as i64 + 500);
            let command = &Command::Set { key: name.as_bytes(), value: b"value", condition, expiry, answer };
            let target = Target::Slot { namespace: 1, slot: 0 };
            cluster.node(1).host.submit(Submission { number, predecessor: None, target, command });
            cluster.pass(5, arrives);
        }
        assert!((120..180).contains(&held(&cluster)), "not all members hold all: {}", held(&cluster));
        cluster.pass(30_000, arrives);
        assert_eq!(held(&cluster), 0);
    }
}
