//! Members of own groups on nodes that have no replica of the volume.
//!
//! Such a node does not execute births and ends. It asks the volume, and only the answer to a question of its own bears a
//! replica here, or ends it. The volume answers linearizably, and what ends here is struck from the questions under way: so
//! no word from before an end bears a group that this node has been a member of and has forgotten. What other nodes say is a
//! reason to ask, never to believe. See docs/decisions/0025.

use std::collections::{BTreeMap, BTreeSet};

use quorate_object::Outcome;
use quorate_protocol::{GroupId, Instant, NodeId};

use super::led::own_groups_of;
use super::own::Parent;
use super::{Host, Timer};
use crate::answer::Answer;
use crate::entry::{Purpose, Target};
use crate::frame::Message;
use crate::planted::{self, Planted};
use crate::volume::{Birth, Frozen, OwnRecord, Record, VolumeCommand, Word, own_group, own_group_said, volume_of};

/// How often it is seen to that what is to be asked is asked.
const TEND_US: u64 = 100_000;
/// A walk over all groups that are here without their volume begins so long after the last one has ended: who has missed an
/// end hears of it then.
const WALK_PAUSE_US: u64 = 5_000_000;
/// Numbers in one question, of which there is one at a time to each volume.
const ASKED_MAX: usize = 256;
/// Groups that wait to be asked about.
const WANTED_MAX: usize = 1 << 14;
/// Births that one node is told of at once; of the others when these are on its disk.
const TOLD_MAX: usize = 1_024;

#[derive(Default)]
pub(super) struct Outside {
    /// To be asked about.
    wanted: BTreeSet<GroupId>,
    /// The numbers of the question under way to each volume.
    asked: BTreeMap<GroupId, BTreeSet<u64>>,
    /// They have executed their last command: asked about until they are over.
    ending: BTreeSet<GroupId>,
    /// Where the walk goes on, and when.
    walked_to: GroupId,
    walk_at: Instant,
    is_timer_set: bool,
    /// At whoever coordinates a volume, of its groups that begin: members that have said that the birth is on their disks.
    born: BTreeMap<GroupId, Vec<NodeId>>,
}

/// What whoever coordinates a volume does.
impl Host {
    pub(super) fn has_told_birth(&self, group: GroupId, member: NodeId) -> bool {
        let told = self.own.outside.born.get(&group).is_some_and(|told| told.contains(&member));
        told || planted::is(Planted::CompletedWithoutOutside)
    }

    /// Tells nodes without a replica of the volume of the births of which they have not said that they are on their disks.
    pub(super) fn tell_births(&mut self, volume: u32) {
        let group = &self.groups[volume as usize];
        let id = group.id();
        let Some(children) = group.machine.children() else { return };
        let mut begin = BTreeSet::new();
        let mut untold: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for (number, starting) in children.starting_by_number() {
            let OwnRecord::Paxos { members } = &starting.place else { continue };
            begin.insert(number);
            for member in members.iter().copied().map(NodeId).filter(|&member| !group.configuration.contains(member)) {
                let told = self.own.outside.born.get(&own_group(id, number));
                if !told.is_some_and(|told| told.contains(&member)) {
                    untold.entry(member).or_default().push(number);
                }
            }
        }
        self.forget_told(id, |number| !begin.contains(&number));
        for (node, mut numbers) in untold {
            if !self.peers.is_suspected(node) {
                numbers.truncate(TOLD_MAX);
                self.outbox.send(node, &Message::Births { volume: id, numbers });
            }
        }
    }

    /// Of own groups of this volume that have begun there is nothing to be known any more.
    pub(super) fn forget_told(&mut self, volume: GroupId, has_begun: impl Fn(u64) -> bool) {
        let born = &mut self.own.outside.born;
        let is_over = |group: &GroupId| volume_of(*group).is_none_or(|(_, number)| has_begun(number));
        let over: Vec<GroupId> =
            born.range(own_groups_of(volume)).map(|(group, _)| *group).filter(|group| is_over(group)).collect();
        over.iter().for_each(|group| drop(born.remove(group)));
    }

    pub(super) fn handle_born(&mut self, from: NodeId, volume: GroupId, numbers: &[u64]) {
        let Some(index) = self.find(volume) else { return };
        let group = &self.groups[index as usize];
        let Some(children) = group.machine.children().filter(|_| group.replica.is_coordinating()) else { return };
        let begin: BTreeSet<u64> = children.starting_by_number().map(|(number, _)| number).collect();
        for number in numbers.iter().filter(|number| begin.contains(number)) {
            let told = self.own.outside.born.entry(own_group(volume, *number)).or_default();
            if !told.contains(&from) {
                told.push(from);
            }
        }
    }
}

/// What a member does.
impl Host {
    pub(super) fn handle_births(&mut self, from: NodeId, volume: GroupId, numbers: &[u64]) {
        let mut born = Vec::new();
        for &number in numbers {
            let Some(group) = own_group_said(volume, number) else {
                self.counters.nonsense += 1;
                return;
            };
            if self.is_on_disk_of(group) {
                born.push(number);
            } else if !self.here.all.contains(group.0) {
                self.look_for(group);
            }
        }
        if !born.is_empty() {
            self.outbox.send(from, &Message::Born { volume, numbers: born });
        }
    }

    /// Whether the birth of an own group is on this node's disk, and can be read.
    fn is_on_disk_of(&self, group: GroupId) -> bool {
        let is_born = |index: u32| self.groups[index as usize].is_alive();
        // One that is at rest is in the store.
        self.here.all.contains(group.0) && !self.own.lost.contains(&group) && self.find(group).is_none_or(is_born)
    }

    /// Somebody takes this node for a member of an own group that is not here: its volume is asked. False if this node will
    /// not be one, as far as it knows.
    pub(super) fn look_for(&mut self, group: GroupId) -> bool {
        let Some((volume, number)) = volume_of(group).filter(|(volume, _)| !self.has_volume(*volume)) else {
            return false;
        };
        if self.settings.is_new || self.here.all.contains(group.0) || self.is_kept_from_birth(group) {
            return false;
        }
        if self.own.outside.asked.get(&volume).is_some_and(|asked| asked.contains(&number)) {
            return true;
        }
        // This node may be a member of the volume, of which it has not heard yet.
        let me = self.settings.node;
        let target = self.target_of(volume);
        let place = target.and_then(|target| self.directory.resolve(target).ok());
        let is_outside = place.is_some_and(|place| !place.members.contains(&me) || self.find(volume).is_some());
        if !is_outside || self.own.outside.wanted.len() >= WANTED_MAX {
            return false;
        }
        self.own.outside.wanted.insert(group);
        self.ask_volume(volume);
        self.set_outside_timer();
        true
    }

    /// The last command of a group that is here without its volume was executed: it is over soon.
    pub(super) fn note_stopped(&mut self, index: u32) {
        let group = self.groups[index as usize].id();
        if volume_of(group).is_some_and(|(volume, _)| self.find(volume).is_none()) {
            self.own.outside.ending.insert(group);
            self.set_outside_timer();
        }
    }

    pub(super) fn tend_outside(&mut self) {
        self.own.outside.is_timer_set = false;
        let has_any = self.walk();
        let outside = &mut self.own.outside;
        outside.wanted.extend(outside.ending.iter());
        let mut volumes: Vec<GroupId> = outside.wanted.iter().filter_map(|group| Some(volume_of(*group)?.0)).collect();
        volumes.dedup();
        volumes.into_iter().for_each(|volume| self.ask_volume(volume));
        if has_any || !self.own.outside.wanted.is_empty() || !self.own.outside.ending.is_empty() {
            self.set_outside_timer();
        }
    }

    fn set_outside_timer(&mut self) {
        if !std::mem::replace(&mut self.own.outside.is_timer_set, true) {
            self.timers.set(self.clock.now().after_us(TEND_US), Timer::Outside);
        }
    }

    /// Some of the groups that are here without their volume are to be asked about, those of one volume at a time. Whether
    /// there may be any.
    fn walk(&mut self) -> bool {
        let now = self.clock.now();
        if now < self.own.outside.walk_at || self.own.outside.wanted.len() >= WANTED_MAX {
            return true;
        }
        let from = self.own.outside.walked_to;
        match self.next_outside(from) {
            Some(volume) => {
                let range = own_groups_of(volume);
                // Of a namespace that was dropped before this node was started, nobody tells.
                if self.directory.state().is_some_and(|state| state.has_dropped(volume)) {
                    self.own.outside.walked_to = GroupId(range.end().0 + 1);
                    self.orphan(volume);
                    return true;
                }
                let mut groups = self.here.all.iter();
                groups.advance_to(own_group(volume, 0).0.max(from.0));
                let some: Vec<GroupId> =
                    groups.map(GroupId).take_while(|group| range.contains(group)).take(ASKED_MAX).collect();
                self.own.outside.walked_to = GroupId(some.last().map_or(range.end().0, |group| group.0) + 1);
                self.own.outside.wanted.extend(some);
                true
            }
            None => {
                self.own.outside.walked_to = GroupId(0);
                self.own.outside.walk_at = now.after_us(WALK_PAUSE_US);
                from > GroupId(0)
            }
        }
    }

    /// The first volume that is not here, and has an own group here of this id or above.
    fn next_outside(&self, from: GroupId) -> Option<GroupId> {
        let mut groups = self.here.all.iter();
        groups.advance_to(from.0);
        while let Some(group) = groups.next() {
            let (volume, _) = volume_of(GroupId(group))?;
            if self.find(volume).is_none() {
                return Some(volume);
            }
            groups.advance_to(own_groups_of(volume).end().0 + 1);
        }
        None
    }

    /// Volumes that are not here, and have own groups here.
    pub(super) fn volumes_outside(&self) -> Vec<GroupId> {
        let mut volumes = Vec::new();
        let mut from = GroupId(0);
        while let Some(volume) = self.next_outside(from) {
            volumes.push(volume);
            from = GroupId(own_groups_of(volume).end().0 + 1);
        }
        volumes
    }

    /// Asks a volume about its groups that are wanted, unless a question to it is under way.
    fn ask_volume(&mut self, volume: GroupId) {
        let Some(target) = self.target_of(volume).filter(|_| !self.own.outside.asked.contains_key(&volume)) else {
            return;
        };
        let outside = &mut self.own.outside;
        let groups: Vec<GroupId> = outside.wanted.range(own_groups_of(volume)).take(ASKED_MAX).copied().collect();
        if groups.is_empty() {
            return;
        }
        for group in &groups {
            outside.wanted.remove(group);
        }
        let numbers: Vec<u64> = groups.iter().filter_map(|group| Some(volume_of(*group)?.1)).collect();
        outside.asked.insert(volume, numbers.iter().copied().collect());
        self.submit_to_volume(target, &VolumeCommand::Tell { numbers }, Purpose::Words { volume });
    }

    /// A volume has answered a question, or will not: then whoever had a reason to ask has it still.
    pub(super) fn take_words(&mut self, volume: GroupId, answer: Answer) {
        let words = match answer {
            Answer::Outcome(Outcome::Bulk(bytes)) => Word::decode_all(&bytes).unwrap_or_default(),
            _ => Vec::new(),
        };
        let is_answered = !words.is_empty();
        for (number, word) in words {
            let asked = self.own.outside.asked.get_mut(&volume);
            let is_asked = asked.is_some_and(|asked| asked.remove(&number));
            if !is_asked && !planted::is(Planted::OutsideBornAgain) {
                continue;
            }
            match word {
                Word::Unborn => {}
                // What a newcomer has of groups that are over, it comes to know with the volume's replica; of those that are led no
                // more is told than that.
                Word::Gone if self.find(volume).is_some() => self.return_mail(own_group(volume, number)),
                Word::Gone => self.end_outside(own_group(volume, number)),
                // This node has become a member of the volume since it asked.
                Word::Lives { .. } if self.has_volume(volume) => self.return_mail(own_group(volume, number)),
                Word::Lives { name, members, state } => self.bear_outside(volume, number, name, members, state),
            }
        }
        let left = self.own.outside.asked.remove(&volume).unwrap_or_default();
        if is_answered {
            // What there was to tell was too much for one answer.
            self.own.outside.wanted.extend(left.into_iter().map(|number| own_group(volume, number)));
            self.ask_volume(volume);
        }
    }

    /// The volume has taken back what the group had come to, or has had it before.
    pub(super) fn take_returned(&mut self, group: GroupId, answer: &Answer) {
        self.registers.ending.remove(&group);
        let is_outside = volume_of(group).is_some_and(|(volume, _)| self.find(volume).is_none());
        if is_outside && matches!(answer, Answer::Outcome(Outcome::Ok | Outcome::Nil)) {
            self.end_outside(group);
        }
    }

    fn bear_outside(&mut self, volume: GroupId, number: u64, name: Vec<u8>, members: Vec<u32>, state: Option<Frozen>) {
        let group = own_group(volume, number);
        if self.here.all.contains(group.0) {
            return;
        }
        let me = self.settings.node;
        let Some(parent) = self.parent_outside(volume).filter(|_| members.contains(&me.0)) else {
            return self.return_mail(group);
        };
        let record = Record::new(number, OwnRecord::Paxos { members });
        self.bear_of(&parent, &Birth { name, record, state: state.unwrap_or_default() }, false);
        self.counters.outside_born += u64::from(self.here.all.contains(group.0));
        self.set_settle_timer(0);
        self.set_outside_timer();
    }

    /// What this node knows of a volume that is not here.
    fn parent_outside(&self, volume: GroupId) -> Option<Parent> {
        let target = self.target_of(volume)?;
        let Target::Volume { namespace, .. } = target else { return None };
        let place = self.directory.resolve(target).ok()?;
        let found = self.directory.namespace(namespace)?;
        let (durability, hash_key) = (found.settings.durability, found.hash_key);
        Some(Parent { id: volume, members: place.members.clone().into(), namespace, durability, hash_key, here: None })
    }

    /// The group is over, and what it said here is forgotten: a question that may have been answered before does not
    /// concern it any more.
    fn end_outside(&mut self, group: GroupId) {
        let Some((volume, number)) = volume_of(group) else { return };
        let outside = &mut self.own.outside;
        outside.wanted.remove(&group);
        outside.ending.remove(&group);
        if let Some(asked) = outside.asked.get_mut(&volume) {
            asked.remove(&number);
        }
        if self.end_own(group) {
            self.counters.outside_ended += 1;
            self.storing.forgettable.push(group);
        } else {
            self.return_mail(group);
        }
    }

    /// A namespace was dropped, and with it this volume.
    pub(super) fn forget_outside(&mut self, volume: GroupId) {
        let range = own_groups_of(volume);
        let outside = &mut self.own.outside;
        for groups in [&mut outside.wanted, &mut outside.ending] {
            for group in groups.range(range.clone()).copied().collect::<Vec<_>>() {
                groups.remove(&group);
            }
        }
        outside.asked.remove(&volume);
        self.forget_told(volume, |_| true);
    }
}
