//! Own groups that are registers: how they end, what becomes of deleted and expired objects, and who leaves them.
//!
//! Nothing orders the commands on a register, so there is no last one. Its members are sealed instead, and whoever knows what
//! it ends with tells the volume, which takes what it is told first. See docs/decisions/0022.

use quorate_object::Outcome;
use quorate_protocol::register::{Content, Key, Request, Tag, Version};
use quorate_protocol::wire::Wire;
use quorate_protocol::{GroupId, Slot, Stamp};

use super::Host;
use super::held::HeldAnswer;
use super::registers::Waiting;
use crate::envelope::Ticket;
use crate::frame::{Bounce, Position};
use crate::record::GroupRecord;
use crate::register::{NOT_IN_ONE_STEP, object_of};
use crate::volume::{Birth, Frozen, Record, VolumeCommand, volume_of};

/// Own registers looked at in a heartbeat for whether their objects are deleted or have expired.
const LOOKED_AT: usize = 2_000;
/// With so many operations of its own a node tells no volume of another deleted object: the next heartbeat comes back to it.
const TOLD_AT_ONCE: usize = 1_000;

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
        if let Some(Waiting::End { group }) = self.registers.waiting.remove(token) {
            let token = self.registers.token(Waiting::End { group });
            self.ask_core(index, Request::Final { token, after: None });
        }
    }

    /// What the group ends with: its one register, if that was ever written.
    pub(super) fn take_final_state(&mut self, index: u32, token: u64, versions: Vec<(Key, Version)>) {
        let Some(Waiting::End { group }) = self.registers.waiting.remove(token) else { return };
        self.counters.registers_ended += 1;
        let id = group;
        let group = &self.groups[index as usize];
        let Some(own) = group.own() else { return };
        let content = versions.first().map_or(&Content::Tombstone, |(_, version)| &version.content);
        let object = object_of(&own.name, content, group.hash_key);
        let mut last = Vec::new();
        versions.first().map_or(Tag::ABSENT, |(_, version)| version.tag).encode(&mut last);
        let state = Frozen { time_ms: self.clock.stamp().0, object, results: Vec::new() };
        let (number, telling) = (own.number, self.internals.number_next());
        self.tell_volume(index, &VolumeCommand::Return { number, state, last });
        // Until the volume has answered this member is at it: nobody has it begin again meanwhile.
        if !self.internals.contains(telling) {
            self.registers.ending.remove(&id);
        }
    }

    /// A write was under way when the group was sealed. Only the state that the volume takes says whether it happened.
    pub(super) fn leave_undecided(&mut self, token: u64, tag: Tag) {
        if let Some(Waiting::Client { group, .. }) = self.registers.waiting.get(token)
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

    /// An own register's object is gone. Whoever is told so finds the name in no listing any more, and free.
    pub(super) fn answer_once_ended(&mut self, group: GroupId, ticket: Ticket, outcome: Outcome) {
        let position = Position::default();
        match volume_of(group).filter(|_| self.find(group).is_some()) {
            Some(_) => self.hold_answer(group, HeldAnswer { ticket, position, outcome, since: self.clock.now() }),
            None => self.answer_ticket(ticket, position, outcome),
        }
    }

    /// A client's command has found no object.
    pub(super) fn tell_gone(&mut self, group: GroupId, ticket: Ticket, outcome: Outcome) {
        match outcome {
            // What no register does in one step the volume does, once it has the name again.
            Outcome::Error(text) if volume_of(group).is_some() && text == NOT_IN_ONE_STEP => {
                self.bounce(ticket.node, ticket.start, ticket.number, Bounce::Stopped);
            }
            outcome => self.answer_once_ended(group, ticket, outcome),
        }
        if let Some(index) = self.find(group) {
            self.look_whether_deleted(index);
        }
    }

    /// Whether an own register's object is deleted, as far as this member knows: then its group is to end.
    pub(super) fn look_whether_deleted(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let (Some(own), Some(replica)) = (group.own(), group.replica.register()) else { return };
        let is_busy = self.internals.count() >= TOLD_AT_ONCE;
        if replica.core().status().tombstone_count > 0 && !is_busy && self.is_time_to_tell(index) {
            let (number, name) = (own.number, own.name.to_vec());
            let stops =
                |volume: u32| self.groups[volume as usize].machine.children().map(|children| &children.stopping);
            // The volume has executed that it is to end, and sees to it.
            if self.find(own.volume).and_then(stops).is_some_and(|stopping| stopping.contains_key(&number)) {
                return;
            }
            self.tell_volume(index, &VolumeCommand::Retire { number, name });
        }
    }

    /// Each heartbeat, some of them: what has expired is read by one of the members, later by the next one if it is still there, and
    /// becomes a tombstone. Whoever has that tells the volume, since it need not be the one that read.
    pub(super) fn look_after_own_registers(&mut self) {
        let (me, stamp) = (self.settings.node, self.clock.stamp());
        let after = self.registers.looked_at.take();
        let turn = |record: &GroupRecord| {
            let mut live = record.member_ids().filter(|node| *node == me || !self.peers.is_suspected(*node));
            live.position(|node| node == me)
        };
        let range = self.own.led.range(GroupId(after.map_or(0, |group| group.0 + 1))..);
        let looked_at: Vec<(GroupId, Option<usize>)> =
            range.take(LOOKED_AT).map(|(&group, led)| (group, turn(&led.record))).collect();
        self.registers.looked_at = looked_at.last().map(|(group, _)| *group).filter(|_| looked_at.len() == LOOKED_AT);
        let deadline = Stamp(stamp.0 + self.settings.timeout_ms);
        for (group, turn) in looked_at {
            let Some(index) = self.find(group).filter(|&index| self.groups[index as usize].is_alive()) else {
                continue;
            };
            let Some(replica) = self.groups[index as usize].replica.register() else { continue };
            let core = replica.core();
            let due = |key: &Key| {
                let held = core.held(key).map(|held| &held.content);
                held.zip(turn).is_some_and(|(held, turn)| self.is_due(held, turn as u64, stamp))
            };
            let expired = core.expired(None, 1, stamp).0.into_iter().find(due);
            if let Some(key) = expired {
                let token = self.registers.token(Waiting::Expiry { group });
                self.ask_core(index, Request::Read { token, key, deadline });
            }
            self.look_whether_deleted(index);
        }
    }

    /// This node is not in the group any more, and nobody waits for what it holds of it.
    pub(super) fn leave_register(&mut self, group: GroupId) {
        let Some((volume, _)) = volume_of(group) else { return self.leave_group(group) };
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
            let record = Record::new(number, led.place());
            let birth = Birth { name: led.name.clone(), record, state: Frozen::default() };
            if let Some(index) = self.find(volume) {
                self.bear_own(index, &birth, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer};
    use quorate_protocol::register::Body;
    use quorate_protocol::{GroupId, NodeId, Stamp};

    use crate::Target;
    use crate::frame::Message;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, Fate, arrives};
    use crate::host::{Answer, Group, Host, Submission};
    use crate::replica::{AnyMessage, Protocol};
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

    const COUNT: usize = 100;

    fn name(at: usize) -> Vec<u8> {
        format!("key{at}").into_bytes()
    }

    /// Three nodes, and as many registers in groups of their own.
    fn with_registers() -> Cluster {
        let mut cluster = Cluster::new(|_| {});
        let number = cluster.next_number();
        let mut request = GroupRequest::of(GroupAction::Create { value: b"x".to_vec() });
        request.names = (0..COUNT).map(name).collect();
        request.protocol = Protocol::Register;
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(1_000, arrives);
        let volume = cluster.volume();
        let last = own_group(volume, COUNT as u64);
        assert!(cluster.nodes.iter().all(|node| versions_held(&node.host, last) == Some(1)));
        cluster
    }

    fn submit(cluster: &mut Cluster, command: &Command<'_>) -> u64 {
        let number = cluster.next_number();
        let target = Target::Slot { namespace: 0, slot: 0 };
        cluster.node(1).host.submit(Submission { number, predecessor: None, target, command });
        number
    }

    fn delete_all(cluster: &mut Cluster) {
        for at in 0..COUNT {
            submit(cluster, &Command::Del { key: &name(at) });
        }
    }

    fn answer_to(cluster: &Cluster, number: u64) -> Option<Answer> {
        let answers = &cluster.nodes[0].answers;
        answers.iter().find(|(answered, _)| *answered == number).map(|(_, answer)| answer.clone())
    }

    /// How many own groups are to end, and how many there are, as node 1 has executed it.
    fn ending_and_away(cluster: &Cluster) -> (usize, usize) {
        let host = &cluster.nodes[0].host;
        let machine = &host.groups[host.find(cluster.volume()).unwrap() as usize].machine;
        let ending = machine.children().map_or(0, |children| children.stopping.len());
        (ending, machine.objects().map_or(0, |objects| objects.away_count()))
    }

    /// The volume's replicas do not hear each other, as if there were too much for them to do.
    fn volume_stalls(volume: GroupId) -> impl Fn(NodeId, NodeId, &Message<'_>) -> Fate {
        move |_, _, message| match message {
            Message::Replica { group, .. } if *group == volume => Fate::IsLost,
            _ => Fate::Arrives,
        }
    }

    fn operations_opened(cluster: &Cluster) -> Vec<u64> {
        cluster.nodes.iter().map(|node| node.host.internals.number_next()).collect()
    }

    #[test]
    fn a_volume_with_too_much_to_do_is_told_of_each_deleted_register_once() {
        let mut cluster = with_registers();
        let stalls = volume_stalls(cluster.volume());
        let before = operations_opened(&cluster);
        delete_all(&mut cluster);
        cluster.pass(4_000, &stalls);
        assert_eq!(ending_and_away(&cluster), (0, COUNT));
        for (before, after) in before.into_iter().zip(operations_opened(&cluster)) {
            let opened = after - before;
            assert!(opened <= COUNT as u64 + 10, "{opened} for {COUNT} registers");
        }
        cluster.pass(10_000, arrives);
        assert_eq!(ending_and_away(&cluster), (0, 0));
    }

    #[test]
    fn a_register_is_ended_once_by_each_member_while_its_volume_has_too_much_to_do() {
        let mut cluster = with_registers();
        let stalls = volume_stalls(cluster.volume());
        delete_all(&mut cluster);
        while ending_and_away(&cluster).0 < COUNT / 2 {
            cluster.pass(1, arrives);
        }
        cluster.pass(4_000, &stalls);
        let (ending, _) = ending_and_away(&cluster);
        let ended: u64 = cluster.nodes.iter().map(|node| node.host.counters.registers_ended).sum();
        assert!(ending > 0 && ended <= 3 * COUNT as u64, "{ended} of {COUNT} registers");
        cluster.pass(10_000, arrives);
        assert_eq!(ending_and_away(&cluster), (0, 0));
    }

    #[test]
    fn a_volume_that_is_told_twice_that_an_object_is_deleted_has_its_group_end_once() {
        let mut cluster = with_registers();
        let before = operations_opened(&cluster);
        delete_all(&mut cluster);
        cluster.pass(2_000, arrives);
        assert_eq!(ending_and_away(&cluster), (0, 0));
        let opened: u64 = before.iter().zip(operations_opened(&cluster)).map(|(before, after)| after - before).sum();
        // Each is told of by whoever deleted it, perhaps by the others, and given back by one.
        assert!(opened <= 4 * COUNT as u64 + 10, "{opened} for {COUNT} registers");
        let ended: u64 = cluster.nodes.iter().map(|node| node.host.counters.registers_ended).sum();
        assert_eq!(ended, COUNT as u64);
    }

    #[test]
    fn whoever_hears_that_a_register_is_deleted_finds_its_name_free() {
        let mut cluster = with_registers();
        let (deleted, read) = (submit(&mut cluster, &Command::Del { key: b"key0" }), cluster.next_number());
        let mut asked = false;
        while answer_to(&cluster, deleted).is_none() {
            assert_eq!(ending_and_away(&cluster).1, COUNT, "it is listed until its deletion is answered");
            cluster.pass(1, arrives);
            let host = &mut cluster.node(1).host;
            let is_tombstone = |group: &Group| {
                let replica = group.replica.register();
                group.own().is_some() && replica.is_some_and(|replica| replica.core().status().tombstone_count > 0)
            };
            if !asked && host.groups().any(is_tombstone) {
                asked = true;
                let target = Target::Slot { namespace: 0, slot: 0 };
                let command = &Command::IncrBy { key: b"key0", delta: 7 };
                host.submit(Submission { number: read, predecessor: None, target, command });
            }
        }
        assert_eq!(answer_to(&cluster, deleted), Some(Answer::Outcome(Outcome::Int(1))));
        assert_eq!(ending_and_away(&cluster), (0, COUNT - 1));
        cluster.pass(200, arrives);
        assert!(asked);
        assert_eq!(answer_to(&cluster, read), Some(Answer::Outcome(Outcome::Int(7))), "the volume has executed it");
    }

    #[test]
    fn a_deletion_is_answered_also_where_the_volume_is_late() {
        let mut cluster = with_registers();
        let stalls = volume_stalls(cluster.volume());
        let deleted = submit(&mut cluster, &Command::Del { key: b"key0" });
        cluster.pass(400, &stalls);
        assert_eq!(answer_to(&cluster, deleted), None);
        cluster.pass(400, &stalls);
        assert_eq!(answer_to(&cluster, deleted), Some(Answer::Outcome(Outcome::Int(1))));
    }

    /// The members are slow, and the group does not end: it is not even sealed, or nobody is told what it ends with.
    #[test]
    fn a_deletion_that_is_sent_again_while_its_answer_waits_is_neither_refused_nor_done_twice() {
        for is_sealed in [false, true] {
            let mut cluster = with_registers();
            let stalls = volume_stalls(cluster.volume());
            let rounds = RefCell::new(BTreeSet::new());
            let is_slow = |from, to, message: &Message<'_>| match message {
                Message::Replica { message: AnyMessage::Register(register), .. } => match register.body {
                    Body::Store { round, .. } => {
                        rounds.borrow_mut().insert(round);
                        Fate::Arrives
                    }
                    Body::Stored { .. } if to == NodeId(1) => Fate::IsLate { by_us: 900_000 },
                    Body::Told { .. } => Fate::IsLost,
                    _ => Fate::Arrives,
                },
                Message::Request { .. } => Fate::IsLost,
                _ if is_sealed => Fate::Arrives,
                message => stalls(from, to, message),
            };
            let deleted = submit(&mut cluster, &Command::Del { key: b"key0" });
            cluster.pass(1_300, is_slow);
            assert!(cluster.node(1).host.counters.resent > 0);
            assert_eq!(rounds.borrow().len(), 1, "is sealed: {is_sealed}");
            assert_eq!(answer_to(&cluster, deleted), None);
            cluster.pass(1_000, arrives);
            assert_eq!(answer_to(&cluster, deleted), Some(Answer::Outcome(Outcome::Int(1))), "is sealed: {is_sealed}");
        }
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

    #[test]
    fn a_register_that_has_expired_ends_though_its_first_member_does_not_know() {
        let mut cluster = Cluster::new(|settings| settings.tombstones_after_us = 1_000_000);
        let promoted = cluster.write(1, b"one");
        cluster.pass(200, arrives);
        ask(&mut cluster, GroupAction::Promote, &[]);
        cluster.pass(500, arrives);
        assert!(cluster.is_done(1, promoted));
        let first = cluster.node(1).host.own.led.values().next().expect("there is one").record.members[0];
        let misses_stores = |_: NodeId, to: NodeId, message: &Message<'_>| match message {
            Message::Replica { message: AnyMessage::Register(message), .. } => match message.body {
                Body::Store { .. } if to == NodeId(first) => Fate::IsLost,
                _ => Fate::Arrives,
            },
            _ => Fate::Arrives,
        };
        let (condition, answer) = (Condition::Always, SetAnswer::Ok);
        let other = first % 3 + 1;
        let expiry = Expiry::AtMs(cluster.node(other).host.stamp().0 as i64 + 500);
        let command = &Command::Set { key: b"key", value: b"two", condition, expiry, answer };
        let (number, target) = (cluster.next_number(), Target::Slot { namespace: 0, slot: 0 });
        cluster.node(other).host.submit(Submission { number, predecessor: None, target, command });
        cluster.pass(100, misses_stores);
        assert!(cluster.is_done(other, number));
        let group = own_group(cluster.volume(), 1);
        let host = &cluster.node(first).host;
        let replica = host.groups[host.find(group).expect("it is a member") as usize].replica.register();
        let later = Stamp(host.stamp().0 + 10_000);
        assert!(
            replica.expect("it is a register").core().expired(None, 1, later).0.is_empty(),
            "it has missed the write"
        );
        cluster.pass(5_000, arrives);
        assert_eq!(ending_and_away(&cluster), (0, 0));
    }
}
