//! How a volume's coordinator has own groups of it end: it asks their members, some groups at once, until each has told the
//! volume what it has come to.

use hashbrown::HashMap;
use quorate_protocol::{Epoch, Event, GroupId, Instant, NodeId, Payload, Proposal};

use super::Host;
use super::own::BIRTH_EPOCH;
use crate::frame::Message;
use crate::hash::FixedState;
use crate::volume::{Record, own_group};

/// Own groups that this node has asked to stop, and of which nothing has come back: with more, no other is asked, so that ten
/// thousand that end at once do not drown what clients do meanwhile.
const STOPPING_AT_ONCE: usize = 1_000;
/// Who was asked so often and has not ended lacks a member, and keeps no other waiting.
const STOPPING_TIMES: u32 = 5;
/// Looked at for that, in one volume, each time from where the last look ended.
const STOPPING_SEEN_MAX: usize = 4 * STOPPING_AT_ONCE;
/// Who was asked to stop is asked again after this,
const STOP_AGAIN_US: u64 = 200_000;
/// ... and after twice as long each time, up to 2 to this power times as long: it may be at it, with many others.
const STOP_DOUBLINGS_MAX: u32 = 3;

/// Own groups that were asked to stop, for volumes that this node coordinates.
#[derive(Default)]
pub(super) struct Asked {
    /// When last, and how often.
    groups: HashMap<GroupId, (Instant, u32), FixedState>,
    /// Of them, those that may well be at it.
    patient: usize,
    /// Of a volume with very many: the number where the next look begins.
    next: HashMap<GroupId, u64, FixedState>,
}

impl Asked {
    fn note(&mut self, group: GroupId, now: Instant) {
        let (at, times) = self.groups.entry(group).or_insert((now, 0));
        *at = now;
        *times += 1;
        match *times {
            1 => self.patient += 1,
            STOPPING_TIMES => self.patient -= 1,
            _ => {}
        }
    }

    pub(super) fn remove(&mut self, group: GroupId) {
        let removed = self.groups.remove(&group);
        self.patient -= usize::from(removed.is_some_and(|(_, times)| times < STOPPING_TIMES));
    }

    /// No own group of the volume is to end any more.
    pub(super) fn forget_volume(&mut self, volume: GroupId) {
        self.next.remove(&volume);
    }

    /// Of volumes that another node coordinates by now, nothing comes back.
    fn forget_old(&mut self, now: Instant) {
        self.groups.retain(|_, (at, times)| at.after_us(2 * stop_again_us(*times)) > now);
        self.patient = self.groups.values().filter(|(_, times)| *times < STOPPING_TIMES).count();
    }
}

impl Host {
    /// Own groups of the volume that have not ended yet, and were not asked to stop, or some time ago.
    pub(super) fn ask_all_to_stop(&mut self, volume: u32) {
        let group = &self.groups[volume as usize];
        let Some(children) = group.machine.children() else { return };
        let next = self.own.asked.next.entry(group.id()).or_default();
        let in_turn = children.stopping.range(*next..).chain(children.stopping.range(..*next));
        let numbers: Vec<u64> = in_turn.map(|(number, _)| *number).take(STOPPING_SEEN_MAX).collect();
        *next = numbers.last().map_or(0, |last| last + 1);
        numbers.into_iter().for_each(|number| self.ask_to_stop(volume, number));
    }

    /// First whoever is believed to coordinate the group is asked, and then, with emphasis, all of its members.
    pub(super) fn ask_to_stop(&mut self, volume: u32, number: u64) {
        let now = self.clock.now();
        let group = own_group(self.groups[volume as usize].id(), number);
        let times = match self.own.asked.groups.get(&group) {
            Some((at, times)) if at.after_us(stop_again_us(*times)) > now => return,
            Some((_, times)) => *times,
            None if self.own.asked.patient >= STOPPING_AT_ONCE => return,
            None => 0,
        };
        let Some((record, members)) = self.about_to_stop(volume, number) else { return };
        self.own.asked.note(group, now);
        let epoch = record.led().map_or(BIRTH_EPOCH, |led| Epoch(led.epoch));
        let insist = times > 0;
        let here = self.find(group).and_then(|index| self.groups[index as usize].replica.coordinator());
        let first = here.unwrap_or(members[0]);
        // Whoever ends a register does all of it, so one after the other is asked.
        let only = record.protocol().is_register().then(|| self.in_turn(&members, number + u64::from(times)));
        let is_asked = |member: NodeId| only.map_or(insist || member == first, |only| member == only);
        for &member in members.iter().filter(|&&member| is_asked(member)) {
            if member == self.settings.node {
                self.handle_stop_group(group, epoch, insist);
            } else {
                self.outbox.send(member, &Message::StopGroup { group, epoch, insist });
            }
        }
    }

    /// One of these that is not suspected, if there is one.
    fn in_turn(&self, members: &[NodeId], turn: u64) -> NodeId {
        let at = |step: usize| members[(turn as usize + step) % members.len()];
        let is_live = |node: &NodeId| *node == self.settings.node || !self.peers.is_suspected(*node);
        (0..members.len()).map(at).find(is_live).unwrap_or(members[0])
    }

    /// The record of an own group that is to stop now, and its members.
    fn about_to_stop(&self, volume: u32, number: u64) -> Option<(Record, Vec<NodeId>)> {
        let group = &self.groups[volume as usize];
        let name = group.machine.children()?.stopping.get(&number)?;
        let record = Record::decode(&group.machine.objects()?.away(name)?).ok()?;
        let here = self.find(own_group(group.id(), number));
        let is_gone = here.is_some_and(|index| self.groups[index as usize].is_object_gone());
        // What it has come to would have to wait for what is starting, and its clients with it.
        if record.becomes.is_some() && !is_gone && group.machine.starts_too_much() {
            return None;
        }
        let members = record.member_ids(&group.configuration.members);
        // A register's next configuration, once it is decided, comes first: what is sealed does not move.
        let is_settled = record.led().is_none_or(|led| !led.is_moving());
        (record.number == number && is_settled).then_some((record, members))
    }

    pub(super) fn handle_stop_group(&mut self, group: GroupId, epoch: Epoch, insist: bool) {
        let Some(index) = self.rouse(group) else {
            self.tell_if_silent(group);
            // It is asked to stop again, once it is here.
            self.look_for(group);
            return;
        };
        self.tell_silent(index);
        let found = &self.groups[index as usize];
        if !found.is_alive() || found.own.is_none() {
            return;
        }
        match found.replica.register().map(|replica| replica.core()) {
            // A member that has not heard of all changes would be sealed in a configuration that is over.
            Some(core) if core.stages().len() > 1 || core.view().newest != epoch => {}
            Some(_) => self.end_register(index),
            None if found.replica.is_stopped() && insist => self.tell_final_state(index),
            None if found.replica.is_stopped() => {}
            None => self.plan(index, Event::Proposed(Proposal::Stop(Payload::from(&[][..])))),
        }
    }

    pub(super) fn forget_asked_to_stop(&mut self) {
        self.own.asked.forget_old(self.clock.now());
    }
}

/// After what wait who was asked to stop so often is asked again.
fn stop_again_us(times: u32) -> u64 {
    STOP_AGAIN_US << times.saturating_sub(1).min(STOP_DOUBLINGS_MAX)
}

#[cfg(test)]
mod tests {
    use quorate_protocol::NodeId;

    use super::*;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, arrives};

    fn ask(cluster: &mut Cluster, action: GroupAction, names: &[Vec<u8>], members: &[&str]) {
        for names in names.chunks(500) {
            let number = cluster.next_number();
            let mut request = GroupRequest::of(action.clone());
            request.names = names.to_vec();
            request.members = members.iter().map(|&name| name.to_owned()).collect();
            request.is_batch = true;
            cluster.node(1).host.submit_group_request(number, 0, request);
            cluster.pass(1_000, arrives);
        }
    }

    /// Whether a group all of whose members are alive ends while so many others cannot.
    fn ends_while_others_cannot(count: usize) -> bool {
        let mut cluster = Cluster::new(|_| {});
        let stuck: Vec<Vec<u8>> = (0..count).map(|at| format!("stuck{at}").into_bytes()).collect();
        ask(&mut cluster, GroupAction::Create { value: b"x".to_vec() }, &stuck, &["n1", "n3"]);
        let free = [b"free".to_vec()];
        ask(&mut cluster, GroupAction::Create { value: b"x".to_vec() }, &free, &["n1", "n2"]);
        cluster.node(3).is_down = true;
        cluster.node(1).host.unlinked(NodeId(3));
        cluster.node(2).host.unlinked(NodeId(3));
        cluster.pass(2_000, arrives);
        ask(&mut cluster, GroupAction::Demote, &stuck, &[]);
        ask(&mut cluster, GroupAction::Demote, &free, &[]);
        cluster.pass(30_000, arrives);
        let host = &cluster.nodes[0].host;
        let machine = &host.groups[host.find(cluster.volume()).unwrap() as usize].machine;
        let stopping = &machine.children().unwrap().stopping;
        assert!(stopping.len() >= count);
        !stopping.values().any(|name| name == b"free")
    }

    #[test]
    fn few_groups_that_cannot_end_keep_no_other_from_its_end() {
        assert!(ends_while_others_cannot(10));
    }

    #[test]
    fn many_groups_that_cannot_end_keep_no_other_from_its_end() {
        assert!(ends_while_others_cannot(STOPPING_AT_ONCE));
    }
}
