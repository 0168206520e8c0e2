//! Own groups that are registers: how they end, what becomes of deleted and expired objects, and who leaves them.
//!
//! Nothing orders the commands on a register, so there is no last one. Its members are sealed instead, and whoever knows what
//! it ends with tells the volume, which takes what it is told first. See docs/decisions/0022.

use quorate_protocol::register::{Content, Key, Request, Tag, Version};
use quorate_protocol::wire::Wire;
use quorate_protocol::{GroupId, Slot, Stamp};

use super::Host;
use super::registers::Waiting;
use crate::frame::Bounce;
use crate::record::GroupRecord;
use crate::register::object_of;
use crate::volume::{Birth, Frozen, Record, VolumeCommand, volume_of};

/// Own registers looked at in a heartbeat for whether their objects are deleted or have expired.
const LOOKED_AT: usize = 2_000;

impl Host {
    /// The volume has the group ended. Whoever is asked again begins again: not while it is at it.
    pub(super) fn end_register(&mut self, index: u32) {
        let group = self.groups[index as usize].id();
        if self.registers.ending.insert(group) {
            let token = self.registers.token(Waiting::End { group });
            self.ask_core(index, Request::Seal { token });
        }
    }

    pub(super) fn gather_final_state(&mut self, index: u32, token: u64) {
        if let Some(Waiting::End { group }) = self.registers.waiting.remove(&token) {
            let token = self.registers.token(Waiting::End { group });
            self.ask_core(index, Request::Final { token, after: None });
        }
    }

    /// What the group ends with: its one register, if that was ever written.
    pub(super) fn take_final_state(&mut self, index: u32, token: u64, versions: Vec<(Key, Version)>) {
        let Some(Waiting::End { group }) = self.registers.waiting.remove(&token) else { return };
        self.registers.ending.remove(&group);
        self.counters.registers_ended += 1;
        let group = &self.groups[index as usize];
        let Some(own) = group.own() else { return };
        let content = versions.first().map_or(&Content::Tombstone, |(_, version)| &version.content);
        let object = object_of(&own.name, content, group.hash_key);
        let mut last = Vec::new();
        versions.first().map_or(Tag::ABSENT, |(_, version)| version.tag).encode(&mut last);
        let state = Frozen { time_ms: self.clock.stamp().0, object, results: Vec::new() };
        let number = own.number;
        self.tell_volume(index, &VolumeCommand::Return { number, state, last });
    }

    /// A write was under way when the group was sealed. Only the state that the volume takes says whether it happened.
    pub(super) fn leave_undecided(&mut self, token: u64, tag: Tag) {
        if let Some(Waiting::Client { group, .. }) = self.registers.waiting.get(&token)
            && volume_of(*group).is_some()
        {
            self.registers.undecided.entry(*group).or_default().push((token, tag));
        } else {
            self.turn_back(token, Bounce::Expired);
        }
    }

    /// The volume has taken what the group ended with.
    pub(super) fn decide_undecided(&mut self, group: GroupId, last: &[u8]) {
        let undecided = self.registers.undecided.remove(&group).unwrap_or_default();
        let Some(index) = self.find(group).filter(|_| !undecided.is_empty()) else { return };
        let last = Tag::decode_all(last);
        for (token, tag) in undecided {
            match last {
                Ok(last) if tag <= last => self.take_written(index, token),
                Ok(_) => self.turn_back(token, Bounce::Stopped),
                Err(_) => self.turn_back(token, Bounce::Expired),
            }
        }
    }

    /// Whether an own register's object is deleted, as far as this member knows: then its group is to end.
    pub(super) fn look_whether_deleted(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let (Some(own), Some(replica)) = (group.own(), group.replica.register()) else { return };
        if replica.core().status().tombstone_count > 0 && self.is_time_to_tell(index) {
            let (number, name) = (own.number, own.name.to_vec());
            self.tell_volume(index, &VolumeCommand::Retire { number, name });
        }
    }

    /// Each heartbeat, some of them: what has expired is read by one of the members, and becomes a tombstone. Whoever has that
    /// tells the volume, since it need not be the one that read.
    pub(super) fn look_after_own_registers(&mut self) {
        let (me, stamp) = (self.settings.node, self.clock.stamp());
        let after = self.registers.looked_at.take();
        let is_mine = |record: &GroupRecord| {
            let mut live = record.member_ids().filter(|node| *node == me || !self.peers.is_suspected(*node));
            live.next() == Some(me)
        };
        let range = self.own.led.range(GroupId(after.map_or(0, |group| group.0 + 1))..);
        let looked_at: Vec<(GroupId, bool)> =
            range.take(LOOKED_AT).map(|(&group, led)| (group, is_mine(&led.record))).collect();
        self.registers.looked_at = looked_at.last().map(|(group, _)| *group).filter(|_| looked_at.len() == LOOKED_AT);
        let deadline = Stamp(stamp.0 + self.settings.timeout_ms);
        for (group, is_mine) in looked_at {
            let Some(index) = self.find(group).filter(|&index| self.groups[index as usize].is_alive()) else {
                continue;
            };
            let Some(replica) = self.groups[index as usize].replica.register() else { continue };
            let expired = is_mine.then(|| replica.core().expired(None, 1, stamp).0).into_iter().flatten().next();
            if let Some(key) = expired {
                let token = self.registers.token(Waiting::Expiry { group });
                self.ask_core(index, Request::Read { token, key, deadline });
            }
            self.look_whether_deleted(index);
        }
    }

    /// This node is not in the group any more, and nobody waits for what it holds of it.
    pub(super) fn leave_register(&mut self, group: GroupId) {
        let Some((volume, _)) = volume_of(group) else { return self.drop_register(group) };
        let Some(index) = self.find(volume) else { return };
        // The volume's replica has executed that this node is not a member before its next slot.
        let executed = Slot(self.groups[index as usize].replica.next_slot().0.saturating_sub(1));
        self.own.leaving.insert(group);
        self.bury(index, executed, group);
        // It may be named a member again, and others wait for it then.
        self.want_checkpoint_now(index);
    }

    /// What was said for these groups is forgotten: a node that has left may be a member anew.
    pub(super) fn finish_leaving(&mut self, forgotten: &[GroupId]) {
        for group in forgotten {
            if !self.own.leaving.remove(group) {
                continue;
            }
            self.counters.registers_left += 1;
            // Births are always logged at the same slot: one from now on is not what was just forgotten.
            self.wal.note_releases();
            let (Some(led), Some((volume, number))) = (self.own.led.get(group), volume_of(*group)) else { continue };
            let record = Record { number, stopping: false, place: led.place() };
            let birth = Birth { name: led.name.clone(), record, state: Frozen::default() };
            if let Some(index) = self.find(volume) {
                self.bear_own(index, &birth, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::GroupId;

    use crate::host::Host;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, arrives};
    use crate::replica::Protocol;
    use crate::volume::own_group;

    fn ask(cluster: &mut Cluster, action: GroupAction, members: &[&str]) {
        let number = cluster.next_number();
        let mut request = GroupRequest::of(action);
        request.names = vec![b"key".to_vec()];
        request.protocol = Protocol::Register;
        request.members = members.iter().map(|&name| name.to_owned()).collect();
        cluster.node(1).host.submit_group_request(number, 0, request);
    }

    /// Of a replica that is there: how many versions it holds.
    fn versions_held(host: &Host, group: GroupId) -> Option<usize> {
        let replica = host.groups[host.find(group)? as usize].replica.register()?;
        Some(replica.core().status().key_count)
    }

    #[test]
    fn who_left_a_register_and_came_back_has_after_a_crash_what_it_voted_for() {
        let mut cluster = Cluster::new(|_| {});
        let group = own_group(cluster.volume(), 1);
        let first = cluster.write(1, b"one");
        cluster.pass(200, arrives);
        ask(&mut cluster, GroupAction::Promote, &[]);
        cluster.pass(500, arrives);
        assert!(cluster.is_done(1, first) && versions_held(&cluster.node(3).host, group) == Some(1));

        // It is named again before the checkpoint is stored that forgets it.
        cluster.node(3).is_store_slow = true;
        ask(&mut cluster, GroupAction::Move, &["n1", "n2"]);
        cluster.pass(1_000, arrives);
        assert!(cluster.node(3).host.own.leaving.contains(&group));
        ask(&mut cluster, GroupAction::Move, &["n1", "n2", "n3"]);
        cluster.pass(50, arrives);
        cluster.node(3).is_store_slow = false;
        for _ in 0..100 {
            cluster.pass(1, arrives);
            if cluster.node(3).host.find(group).is_some() {
                break;
            }
        }
        cluster.node(3).is_store_slow = true;
        cluster.pass(500, arrives);
        let second = cluster.write(1, b"two");
        cluster.pass(500, arrives);
        assert!(cluster.is_done(1, second));
        assert_eq!(versions_held(&cluster.node(3).host, group), Some(1));
        cluster.restart(3);
        assert_eq!(versions_held(&cluster.node(3).host, group), Some(1));
    }
}
