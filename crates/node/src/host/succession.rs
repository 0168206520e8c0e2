//! Register groups whose members decide their configurations by themselves: who they are, on this node, whose replica comes to
//! life, and which one may go. See docs/decisions/0023.
//!
//! Every node keeps what it has heard of each such group, members or not, and tells the others in turn: whoever knows more
//! says so. Nothing here asks the root, but that a node which hears of a namespace for the first time hears it from there.

use std::collections::BTreeMap;

use quorate_checkpoint::{Batch, Store, StoreError};
use quorate_object::Objects;
use quorate_protocol::register::{Authority as CoreAuthority, Reach, Stage};
use quorate_protocol::{Epoch, GroupId, Instant, NodeId};
use serde::{Deserialize, Serialize};

use super::Host;
use super::checkpoints::Stored;
use super::group::Group;
use super::registers::Waiting;
use crate::answer::AdminReply;
use crate::entry::Purpose;
use crate::frame::Message;
use crate::group_state::GroupState;
use crate::machine::{Content, Machine};
use crate::members::Told;
use crate::planted::{self, Planted};
use crate::quorum::Stages;
use crate::record::{GroupRecord, is_ahead, standing};
use crate::replica::Protocol;
use crate::root::{RootCommand, RootState};

/// The name of the node record that keeps what is known of such groups.
const RECORD: &str = "members";
/// Who decides in their cores.
pub(super) const MEMBERS: CoreAuthority = CoreAuthority::Members(Reach::Preferred);

/// What is said of a group to a node that seems to lack it is not said again before this, unless there is news.
const SAY_AGAIN_US: u64 = 10_000;
/// Groups that a peer is told of in a heartbeat; each heartbeat another peer is.
const TOLD_PER_BEAT: usize = 16;
/// The root is told again after this, if it does not seem to have heard.
const ROOT_AGAIN_US: u64 = 5_000_000;

#[derive(Default)]
pub(super) struct Successions {
    known: BTreeMap<GroupId, Known>,
    /// What was kept could not be read: this node may have been a member without knowing when.
    is_unreadable: bool,
    /// Heartbeats so far.
    turn: usize,
}

/// A group, as far as this node has heard.
struct Known {
    told: Told,
    /// A replica of it was here and is gone. It had known no more than this node does since.
    has_left: bool,
    /// What others have shown that they know.
    heard: BTreeMap<NodeId, (Epoch, Epoch)>,
    said_at: BTreeMap<NodeId, Instant>,
    root_due_at: Instant,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    told: Told,
    has_left: bool,
}

impl Known {
    fn new(told: Told, has_left: bool) -> Known {
        Known { told, has_left, heard: BTreeMap::new(), said_at: BTreeMap::new(), root_due_at: Instant(0) }
    }

    /// Members of the newest configuration, then those that are only in the one before it.
    fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        let newest = self.told.newest().map(|stage| &stage.configuration);
        let stages = self.told.stages().iter().rev().flat_map(|stage| stage.configuration.members.iter().copied());
        let first = newest.map_or(0, |newest| newest.members.len());
        let is_new = move |(at, node): &(usize, NodeId)| *at < first || newest.is_none_or(|all| !all.contains(*node));
        stages.enumerate().filter(is_new).map(|(_, node)| node)
    }
}

impl Successions {
    pub(super) fn restore(store: &impl Store, damage: &mut Vec<String>) -> Result<Successions, StoreError> {
        let mut successions = Successions::default();
        let Some(bytes) = store.node_record(RECORD)? else { return Ok(successions) };
        match postcard::from_bytes::<Vec<Kept>>(&bytes) {
            Ok(kept) => {
                let known = |kept: Kept| (kept.told.group(), Known::new(kept.told, kept.has_left));
                successions.known = kept.into_iter().map(known).collect();
            }
            Err(_) => {
                successions.is_unreadable = true;
                damage.push(
                    "what is stored of namespaces of AUTHORITY members cannot be read: this node joins none".into(),
                );
            }
        }
        Ok(successions)
    }

    pub(super) fn contains(&self, group: GroupId) -> bool {
        self.known.contains_key(&group)
    }

    /// Members of the newest configuration, and then of the one before it, if it is still in use.
    pub(super) fn members(&self, group: GroupId) -> impl Iterator<Item = NodeId> + '_ {
        self.known.get(&group).into_iter().flat_map(Known::members)
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.known.keys().copied()
    }

    fn put(&self, batch: &mut Batch) {
        // What cannot be read stays for a release that can.
        if self.is_unreadable {
            return;
        }
        let kept = |known: &Known| Kept { told: known.told.clone(), has_left: known.has_left };
        let kept: Vec<Kept> = self.known.values().map(kept).collect();
        batch.put_node_record(RECORD, postcard::to_stdvec(&kept).expect("plain data has an encoding"));
    }

    /// What the root has dropped is gone.
    pub(super) fn forget_dropped(&mut self, root: &RootState, batch: &mut Batch) {
        let count = self.known.len();
        self.known.retain(|group, _| !root.has_dropped(*group));
        if self.known.len() < count {
            self.put(batch);
        }
    }
}

/// What the root says of such groups.
fn listed(root: &RootState) -> Vec<Told> {
    let of_members = root.volumes().filter(|(_, namespace, _)| namespace.settings.authority.is_members());
    let told = of_members.map(|(number, namespace, volume)| Told {
        group: volume.group,
        namespace: number,
        durability: namespace.settings.durability,
        hash_key: namespace.hash_key,
        stages: volume.stages.clone(),
    });
    told.collect()
}

/// Who the members are.
impl Host {
    /// The directory has news, or this node has started.
    pub(super) fn follow_listed(&mut self) {
        let listed = self.directory.state().map(listed).unwrap_or_default();
        listed.into_iter().for_each(|told| self.follow_members(told));
        for group in self.successions.groups().collect::<Vec<_>>() {
            self.show_directory(group);
        }
    }

    /// Somebody knows who the members are.
    pub(super) fn handle_members(&mut self, from: NodeId, told: Told) {
        let group = told.group();
        let Some(known) = self.successions.known.get_mut(&group) else {
            if !told.is_question() {
                self.follow_members(told);
            }
            return;
        };
        if let Some(standing) = standing(told.stages()) {
            known.heard.insert(from, standing);
        }
        if told.is_ahead_of(&known.told) {
            self.follow_members(told);
        } else if known.told.is_ahead_of(&told) {
            self.tell_members(from, group);
        }
    }

    /// Takes over what is news, and bears the replica that is to be here.
    fn follow_members(&mut self, told: Told) {
        let group = told.group();
        if !told.is_sound() {
            self.counters.nonsense += 1;
            return;
        }
        if self.directory.state().is_some_and(|root| root.has_dropped(group)) {
            return;
        }
        match self.successions.known.get_mut(&group) {
            Some(known) if !told.is_ahead_of(&known.told) => return,
            Some(known) => {
                known.told.stages = told.stages.clone();
                known.said_at.clear();
            }
            None => drop(self.successions.known.insert(group, Known::new(told.clone(), false))),
        }
        self.show_directory(group);
        let mut batch = Batch::new();
        let births = match self.find(group) {
            Some(index) => {
                self.tell_register(index, told.stages.0);
                Vec::new()
            }
            None => self.bear_member(group, &mut batch).into_iter().collect(),
        };
        self.successions.put(&mut batch);
        self.store(batch, Stored::Directory { births, dropped: Vec::new() });
    }

    /// A replica comes to life on the word of somebody who knows what was decided, if that is news: whatever a replica that is
    /// gone from here has known and said, this node has known more since, and it was no member then.
    fn bear_member(&mut self, group: GroupId, batch: &mut Batch) -> Option<GroupId> {
        let (me, known) = (self.settings.node, self.successions.known.get_mut(&group)?);
        if !known.told.contains(me) || self.successions.is_unreadable {
            return None;
        }
        known.has_left = false;
        let Told { namespace, durability, hash_key, ref stages, .. } = known.told;
        let record = GroupRecord::of_stages(group, stages.0.clone());
        let machine = Machine::new(Content::Objects(Box::new(Objects::new(hash_key))));
        let configuration = record.configuration();
        let mut born = Group::new(Protocol::Register, configuration, namespace, durability, hash_key, machine, me);
        born.replica = self.register_replica(&record);
        if let Some(replica) = born.replica.register_mut() {
            replica.core_mut().set_authority(MEMBERS);
        }
        // Nobody who might remember what it was told before is asked.
        if self.here.losses.may_have_had(group) {
            born.state = GroupState::Forgetful;
        }
        self.counters.members_born += 1;
        Some(self.bear(born, batch))
    }

    /// Operations find the members of whom this node has heard.
    fn show_directory(&mut self, group: GroupId) {
        if let Some(known) = self.successions.known.get(&group) {
            let record = GroupRecord::of_stages(group, known.told.stages().to_vec());
            self.directory.follow_members(known.told.namespace, &record);
        }
    }

    /// What this node knows of who is in a group; of one with a parent, what that says.
    pub(super) fn present(&self, record: &GroupRecord) -> GroupRecord {
        match self.successions.known.get(&GroupId(record.group)) {
            Some(known) => GroupRecord::of_stages(GroupId(record.group), known.told.stages().to_vec()),
            None => record.clone(),
        }
    }

    /// Groups whose members decide, as this node has heard of them.
    pub(super) fn of_members(&self) -> impl Iterator<Item = GroupRecord> + '_ {
        let record = |(group, known): (&GroupId, &Known)| GroupRecord::of_stages(*group, known.told.stages().to_vec());
        self.successions.known.iter().map(record)
    }

    /// Groups whose members decide, each with the epoch of the newest configuration that this node has heard of.
    pub fn newest_epochs(&self) -> impl Iterator<Item = (GroupId, Epoch)> + '_ {
        let newest = |known: &Known| known.told.newest().map_or(Epoch(0), |stage| stage.epoch());
        self.successions.known.iter().map(move |(group, known)| (*group, newest(known)))
    }

    /// After a step of a register's replica, which may have learned of a change.
    pub(super) fn note_succession(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let core = group.replica.register().map(|replica| replica.core());
        let Some(core) = core.filter(|core| core.authority() != CoreAuthority::Parent) else { return };
        let id = group.id();
        let Some(known) = self.successions.known.get(&id) else { return };
        if is_ahead(core.stages(), known.told.stages()) {
            let told = Told { stages: Stages(core.stages().to_vec()), ..known.told.clone() };
            self.follow_members(told);
            self.spread(id);
        }
        self.answer_decided(index);
    }

    /// One of the members tells everybody; who misses it hears of it in turn.
    fn spread(&mut self, group: GroupId) {
        if self.is_first(group) {
            for node in self.peers.nodes().collect::<Vec<_>>() {
                self.tell_members(node, group);
            }
        }
    }

    /// Whether this node is the first of the newest members alive.
    fn is_first(&self, group: GroupId) -> bool {
        let me = self.settings.node;
        let members = self.successions.known.get(&group).into_iter().flat_map(Known::members);
        members.into_iter().find(|node| *node == me || !self.peers.is_suspected(*node)) == Some(me)
    }

    pub(super) fn tell_members(&mut self, to: NodeId, group: GroupId) {
        let now = self.clock.now();
        if to == self.settings.node {
            return;
        }
        let Some(known) = self.successions.known.get_mut(&group) else {
            return self.outbox.send(to, &Message::Members(Told::question(group)));
        };
        if known.said_at.get(&to).is_some_and(|at| at.after_us(SAY_AGAIN_US) > now) {
            return;
        }
        known.said_at.insert(to, now);
        self.outbox.send(to, &Message::Members(known.told.clone()));
    }

    /// A replica of a group that is not here was spoken to. True if its members decide: then who asked is told what is known
    /// here of them, or tells it.
    pub(super) fn point_to_members(&mut self, from: NodeId, group: GroupId) -> bool {
        let is_known = self.find(group).is_none() && self.successions.contains(group);
        if is_known {
            self.tell_members(from, group);
        }
        is_known
    }

    /// Something has come from a replica of a group that this node has never heard of.
    pub(super) fn ask_for_members(&mut self, from: NodeId, group: GroupId) {
        if self.meet_unknown_group() {
            self.outbox.send(from, &Message::Members(Told::question(group)));
        }
    }

    /// Another member to go to, for who has asked here.
    pub(super) fn other_member(&self, group: GroupId) -> Option<NodeId> {
        let is_fit = |node: &NodeId| {
            *node != self.settings.node && self.linked.contains(node) && !self.peers.is_suspected(*node)
        };
        self.successions.known.get(&group)?.members().find(is_fit)
    }

    /// What is asked of a replica here is for the members, which it is none of any more: who asks hears who they are first.
    pub(super) fn tell_asker(&mut self, token: u64) {
        if let Some(Waiting::Client { group, ticket, .. }) = self.registers.waiting.get(token) {
            let (group, node) = (*group, ticket.node);
            if self.successions.contains(group) {
                self.tell_members(node, group);
            }
        }
    }

    /// The link to this node has been made.
    pub(super) fn tell_all_members(&mut self, node: NodeId) {
        for group in self.successions.groups().collect::<Vec<_>>() {
            self.tell_members(node, group);
        }
    }

    /// Each heartbeat.
    pub(super) fn tend_successions(&mut self) {
        self.successions.turn += 1;
        let (turn, nodes) = (self.successions.turn, self.peers.nodes().collect::<Vec<_>>());
        let groups: Vec<GroupId> = self.successions.groups().collect();
        if groups.is_empty() {
            return;
        }
        if let Some(&node) = nodes.get(turn % nodes.len().max(1)) {
            let first = turn / nodes.len() * TOLD_PER_BEAT;
            let some = (0..groups.len().min(TOLD_PER_BEAT)).map(|at| groups[(first + at) % groups.len()]);
            some.for_each(|group| self.tell_members(node, group));
        }
        for group in groups {
            self.tell_replica(group);
            self.try_leave(group);
        }
        self.tell_root();
    }

    /// The replica here may have been on its way to life when there was news.
    fn tell_replica(&mut self, group: GroupId) {
        let (Some(index), Some(known)) = (self.find(group), self.successions.known.get(&group)) else { return };
        let core = self.groups[index as usize].replica.register().map(|replica| replica.core());
        if core.is_some_and(|core| is_ahead(known.told.stages(), core.stages())) {
            let stages = known.told.stages().to_vec();
            self.tell_register(index, stages);
        }
    }

    /// Nodes that start later, and know nobody, hear from the root.
    fn tell_root(&mut self) {
        let now = self.clock.now();
        let volumes = self.directory.state().into_iter().flat_map(RootState::volumes);
        let of_members = volumes.filter(|(_, namespace, _)| namespace.settings.authority.is_members());
        let has_news = |listed: &GroupRecord, known: &Known| {
            let is_settled = known.told.stages().len() == 1 && known.root_due_at <= now;
            is_settled && is_ahead(known.told.stages(), &listed.stages.0)
        };
        let news = of_members.filter_map(|(.., listed)| {
            let known = self.successions.known.get(&GroupId(listed.group))?;
            has_news(listed, known).then_some(GroupId(listed.group))
        });
        let news: Vec<GroupId> = news.filter(|group| self.is_first(*group)).collect();
        for group in news {
            let Some(known) = self.successions.known.get_mut(&group) else { continue };
            known.root_due_at = now.after_us(ROOT_AGAIN_US);
            let command = RootCommand::NoteMembers { group: group.0, stages: known.told.stages.clone() };
            self.submit_to_root(&command, Purpose::Settling);
        }
    }

    /// A replica that is no member's goes once nobody waits for it. What is known of the members stays.
    fn try_leave(&mut self, group: GroupId) {
        let me = self.settings.node;
        let (Some(index), Some(known)) = (self.find(group), self.successions.known.get_mut(&group)) else { return };
        let leaves_early = planted::is(Planted::MemberLeavesEarly) || planted::is(Planted::MemberBornAgain);
        let is_needed = match leaves_early {
            true => known.told.newest().is_some_and(|stage| stage.configuration.contains(me)),
            false => known.told.contains(me),
        };
        let found = &self.groups[index as usize];
        let is_over = found.replica.is_idle() && (!found.replica.is_inside() || leaves_early);
        // One that is silent is told nothing any more.
        if is_needed || !(found.state.is_silent() || is_over) {
            return;
        }
        known.has_left = true;
        if planted::is(Planted::MemberBornAgain) {
            self.successions.known.remove(&group);
        }
        self.counters.registers_left += 1;
        let mut batch = Batch::new();
        self.drop_group(group, &mut batch);
        self.successions.put(&mut batch);
        self.store(batch, Stored::Directory { births: Vec::new(), dropped: vec![group] });
    }

    /// Groups here that stand between two configurations, with the newer epoch, and this node's place among those who see to
    /// it that they do not stay there: behind the candidate, which may be dead.
    pub(super) fn between_two(&self) -> Vec<(GroupId, Epoch, usize)> {
        let me = self.settings.node;
        let live = |node: &NodeId| *node == me || !self.peers.is_suspected(*node);
        let between = |(group, known): (&GroupId, &Known)| {
            let index = self.find(*group)?;
            let core = self.groups[index as usize].replica.register()?.core();
            let [_, newest] = core.stages() else { return None };
            let rank = known.members().filter(live).position(|node| node == me)?;
            (!core.is_retiring()).then_some((*group, newest.epoch(), rank + 1))
        };
        self.successions.known.iter().filter_map(between).collect()
    }
}

/// For people.
impl Host {
    /// What this node is to a group whose members decide: whether it is complete, or may be wiped.
    pub(super) fn show_part(&self, group: GroupId, entries: &mut Vec<(String, AdminReply)>) {
        let Some(known) = self.successions.known.get(&group) else { return };
        let text = |text: &str| AdminReply::Text(text.to_owned());
        entries.push(("authority".into(), text("members")));
        let here = self.find(group).map(|index| &self.groups[index as usize]);
        let is_in = |stage: Option<&Stage>| stage.is_some_and(|stage| stage.configuration.contains(self.settings.node));
        let (oldest, newest) = (is_in(known.told.stages().first()), is_in(known.told.newest()));
        let part = match (oldest, newest) {
            (true, true) => "member, complete",
            (false, true) => "member, not complete: versions are moved to it",
            (true, false) => "leaving: its versions are still needed",
            (false, false) if here.is_some() => "left: what was begun here comes to its end",
            (false, false) if known.has_left => "left",
            (false, false) => "no member",
        };
        entries.push(("here".into(), text(part)));
        if known.has_left && here.is_none() {
            let unaware: Vec<&str> = self.unaware_of(known).filter_map(|node| self.node_name(node)).collect();
            entries.push(("may_be_wiped".into(), text(if unaware.is_empty() { "yes" } else { "not yet" })));
            if !unaware.is_empty() {
                entries.push(("not_told".into(), text(&unaware.join(","))));
            }
        }
        let waiting = self.wishes.count(group);
        entries.push(("reconfigurations_here".into(), AdminReply::Int(waiting as i64)));
    }

    /// Live nodes that have not shown yet that they know as much as this one.
    fn unaware_of<'a>(&'a self, known: &'a Known) -> impl Iterator<Item = NodeId> + 'a {
        let mine = standing(known.told.stages());
        let knows = move |node: &NodeId| known.heard.get(node).copied() >= mine;
        self.peers.nodes().filter(move |node| !self.peers.is_suspected(*node) && !knows(node))
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::Configuration;
    use quorate_protocol::quorum::QuorumSystem;

    use super::*;

    const GROUP: GroupId = GroupId(7);

    fn known(stages: &[(u32, &[u32])]) -> Known {
        let stage = |(epoch, members): &(u32, &[u32])| {
            let members = members.iter().copied().map(NodeId).collect();
            Stage::first(Configuration { group: GROUP, epoch: Epoch(*epoch), members, quorum: QuorumSystem::Majority })
        };
        let stages = Stages(stages.iter().map(stage).collect());
        Known::new(Told { stages, ..Told::question(GROUP) }, false)
    }

    #[test]
    fn members_of_the_newest_configuration_come_first_and_each_once() {
        let members: Vec<u32> = known(&[(1, &[1, 2, 3]), (2, &[4, 3])]).members().map(|node| node.0).collect();
        assert_eq!(members, [4, 3, 1, 2]);
    }

    #[test]
    fn who_knows_that_a_configuration_is_retired_is_ahead() {
        let told = |stages: &[(u32, &[u32])]| known(stages).told;
        let sequence = [
            Told::question(GROUP),
            told(&[(0, &[1])]),
            told(&[(0, &[1]), (1, &[2])]),
            told(&[(1, &[2])]),
            told(&[(1, &[2]), (2, &[1])]),
        ];
        for (at, one) in sequence.iter().enumerate() {
            for (behind, other) in sequence.iter().enumerate() {
                assert_eq!(one.is_ahead_of(other), at > behind, "{one:?} and {other:?}");
            }
            assert_eq!(one.is_sound(), at > 0, "nothing is known by a question");
        }
    }
}
