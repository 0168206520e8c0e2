//! The node's copy of the root's state: where every key's group is, and which replicas shall live here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_object::Outcome;
use quorate_protocol::chain::Chain;
use quorate_protocol::register::Stage;
use quorate_protocol::{Epoch, Event, GroupId, Instant, NodeId};

use super::checkpoints::Stored;
use super::group::Group;
use super::seats::{seated, takes_a_seat};
use super::{Host, Timer};
use crate::answer::Answer;
use crate::entry::{Purpose, Target};
use crate::frame::Bounce;
use crate::group_state::GroupState;
use crate::machine::Content;
use crate::planted::{self, Planted};
use crate::quorum::Quorum;
use crate::record::GroupRecord;
use crate::replica::{AnyReplica, Protocol};
use crate::root::{Namespace, NodeRecord, ROOT, Reads, RootCommand, RootGroup, RootState, Seats, Settings};

use crate::volume::volume_of;

/// The name of the node record that keeps the directory over a restart.
pub(super) const RECORD: &str = "directory";

/// Where commands for one group go.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub group: GroupId,
    pub epoch: Epoch,
    pub members: Vec<NodeId>,
    /// Who answered last, or was named by who refused.
    pub hint: Option<NodeId>,
    pub protocol: Protocol,
    pub reads: Reads,
    /// Of a chain, or of a volume of which a member is to be replaced.
    pub joining: Option<NodeId>,
    /// Of registers.
    pub stages: Vec<Stage>,
}

impl Place {
    /// Of an own group that its volume, whose place this is, leads.
    pub(super) fn of_own(&self, protocol: Protocol, record: &GroupRecord) -> Place {
        Place::new(record, protocol, self.reads)
    }

    fn new(record: &GroupRecord, protocol: Protocol, reads: Reads) -> Place {
        Place {
            group: GroupId(record.group),
            epoch: Epoch(record.epoch),
            members: record.member_ids().collect(),
            hint: None,
            protocol,
            reads,
            joining: record.joining.map(NodeId),
            stages: record.stages.0.clone(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Directory {
    state: Option<RootState>,
    /// The newest that was heard of the root's own group, and its place by that.
    root_group: RootGroup,
    root: Place,
    /// All nodes that are known, and how often that has changed.
    nodes: Vec<NodeRecord>,
    nodes_version: u64,
    /// Those of the configuration, for as long as there is no directory.
    configured: Vec<NodeRecord>,
    /// Those that the root's own group has named since the directory.
    told_of: Vec<NodeRecord>,
    places: BTreeMap<u32, Vec<Place>>,
    has_routed: bool,
    /// Nodes on which the root or a volume has a replica, or may come to have one.
    with_part: BTreeSet<u32>,
    /// Questions to the root so far, and whether the last one is under way.
    question: u64,
    asking: bool,
    asked_at: Instant,
    /// An answer to a question that was asked since this start has been followed.
    pub(super) is_followed: bool,
    /// The latest question that was answered.
    answered: u64,
    /// Another one is to follow it.
    asking_anew: bool,
    /// A question was refused: until then no other one is asked, unless somebody waits for it.
    refused_until: Instant,
}

/// How many objects a namespace has, as this node's replicas know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectCount {
    pub namespace: u32,
    pub objects: u64,
    /// Those that expire some time.
    pub expiring: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Everything,
    Namespace,
}

impl Directory {
    pub(super) fn new(root_members: Vec<NodeId>, configured: Vec<NodeRecord>) -> Directory {
        let members = root_members.into_iter().map(|node| node.0).collect();
        let record = GroupRecord::new(Protocol::Paxos, ROOT, members, Quorum::Majority);
        let root = Place::new(&record, Protocol::Paxos, Reads::Lease);
        Directory {
            state: None,
            root_group: RootGroup { version: 0, record, seats: Seats::default(), nodes: Vec::new() },
            nodes: configured.clone(),
            nodes_version: 0,
            configured,
            told_of: Vec::new(),
            has_routed: false,
            with_part: BTreeSet::new(),
            root,
            places: BTreeMap::new(),
            question: 0,
            asking: false,
            asked_at: Instant(0),
            is_followed: false,
            answered: 0,
            asking_anew: false,
            refused_until: Instant(0),
        }
    }

    pub(super) fn state(&self) -> Option<&RootState> {
        self.state.as_ref()
    }

    pub(super) fn has_part(&self, node: u32) -> bool {
        self.with_part.contains(&node)
    }

    pub(super) fn version(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.version)
    }

    /// Whether this question to the root has been answered, and the answer followed.
    pub(super) fn has_answer_to(&self, question: u64) -> bool {
        self.answered >= question
    }

    /// Whether a namespace is read through routers, or one may be.
    pub(super) fn has_routed(&self) -> bool {
        self.state.is_none() || self.has_routed
    }

    pub(super) fn namespace(&self, number: u32) -> Option<&Namespace> {
        self.state.as_ref()?.namespaces.get(&number)
    }

    pub(super) fn root_group(&self) -> &RootGroup {
        &self.root_group
    }

    /// Whether that is news.
    pub(super) fn hear_of_root_group(&mut self, told: RootGroup) -> bool {
        if told.version <= self.root_group.version {
            return false;
        }
        let is_news = !told.is_same(&self.root_group);
        if is_news {
            let hint = self.root.hint.filter(|node| told.record.members.contains(&node.0));
            self.root = Place { hint, ..Place::new(&told.record, Protocol::Paxos, Reads::Lease) };
        }
        self.root_group = told;
        self.gather_nodes();
        is_news
    }

    /// Whom the root's own group names is known also before the directory says so: it may be the way to the root.
    fn gather_nodes(&mut self) {
        let mut nodes = self.state.as_ref().map_or_else(|| self.configured.clone(), |state| state.nodes.clone());
        match self.version() < self.root_group.version {
            // Also those of earlier words: only the directory says that one is not there any more.
            true => self.told_of.extend(self.root_group.nodes.iter().cloned()),
            false => self.told_of.clear(),
        }
        self.told_of.sort_by_key(|node| node.id);
        self.told_of.dedup_by_key(|node| node.id);
        let is_new = |told: &&NodeRecord| nodes.iter().all(|node| node.id != told.id);
        let beside: Vec<NodeRecord> = self.told_of.iter().filter(is_new).cloned().collect();
        nodes.extend(beside);
        if nodes != self.nodes {
            self.nodes = nodes;
            self.nodes_version += 1;
        }
    }

    pub(super) fn nodes(&self) -> &[NodeRecord] {
        &self.nodes
    }

    pub(super) fn nodes_version(&self) -> u64 {
        self.nodes_version
    }

    /// Whether it tells something new of the root's own group.
    pub(super) fn set(&mut self, state: RootState) -> bool {
        let is_news = self.hear_of_root_group(state.root_group());
        self.with_part = state.with_part();
        self.has_routed = state.namespaces.values().any(|namespace| namespace.settings.reads == Reads::Routed);
        self.places = state
            .namespaces
            .iter()
            .map(|(&number, namespace)| {
                let Settings { protocol, reads, .. } = namespace.settings;
                let place = |volume: &GroupRecord| Place::new(volume, protocol, reads);
                (number, namespace.volumes.iter().map(place).collect())
            })
            .collect();
        self.state = Some(state);
        self.gather_nodes();
        is_news
    }

    pub(super) fn resolve(&self, target: Target) -> Result<&Place, Missing> {
        match target {
            Target::Root => Ok(&self.root),
            _ if self.state.is_none() => Err(Missing::Everything),
            Target::Slot { namespace, slot } => {
                let places = self.places.get(&namespace).ok_or(Missing::Namespace)?;
                let index = u32::from(slot) * places.len() as u32 / crate::root::SLOT_COUNT;
                places.get(index as usize).ok_or(Missing::Namespace)
            }
            Target::Volume { namespace, index } => {
                self.places.get(&namespace).and_then(|places| places.get(index as usize)).ok_or(Missing::Namespace)
            }
        }
    }

    /// A volume's place among those of its namespace.
    pub(super) fn index_of_volume(&self, namespace: u32, volume: GroupId) -> Option<u32> {
        let places = self.places.get(&namespace)?;
        places.iter().position(|place| place.group == volume).map(|index| index as u32)
    }

    /// Where commands for a volume, or the root, go.
    pub(super) fn place_of(&self, namespace: u32, volume: GroupId) -> Option<&Place> {
        if volume == ROOT {
            return Some(&self.root);
        }
        self.places.get(&namespace)?.iter().find(|place| place.group == volume)
    }

    /// The way to a volume of any namespace.
    pub(super) fn target_of_volume(&self, volume: GroupId) -> Option<Target> {
        self.places.keys().find_map(|&namespace| {
            let index = self.index_of_volume(namespace, volume)?;
            Some(Target::Volume { namespace, index })
        })
    }

    /// The members of a group have told who they are.
    pub(super) fn follow_members(&mut self, namespace: u32, record: &GroupRecord) {
        let places = self.places.get_mut(&namespace).into_iter().flatten();
        if let Some(place) = places.into_iter().find(|place| place.group.0 == record.group) {
            let hint = place.hint.filter(|node| record.members.contains(&node.0));
            *place = Place { hint, ..Place::new(record, place.protocol, place.reads) };
        }
    }

    /// This node has no part in the group that it was believed to coordinate: the next member is asked.
    pub(super) fn distrust(&mut self, target: Target, node: NodeId) {
        let Ok(place) = self.resolve(target) else { return };
        let Some(at) = place.members.iter().position(|&member| member == node) else { return };
        let next = place.members[(at + 1) % place.members.len()];
        self.set_hint(target, next);
    }

    pub(super) fn set_hint(&mut self, target: Target, node: NodeId) {
        let place = match target {
            Target::Root => Some(&mut self.root),
            Target::Slot { namespace, slot } => self.places.get_mut(&namespace).and_then(|places| {
                let index = u32::from(slot) * places.len() as u32 / crate::root::SLOT_COUNT;
                places.get_mut(index as usize)
            }),
            Target::Volume { namespace, index } => {
                self.places.get_mut(&namespace).and_then(|places| places.get_mut(index as usize))
            }
        };
        if let Some(place) = place {
            place.hint = Some(node);
        }
    }
}

impl Host {
    /// The objects of those namespaces of which a replica of every volume serves here; of others, only a part is known.
    pub fn object_counts(&self) -> Vec<ObjectCount> {
        let Some(state) = self.directory.state() else { return Vec::new() };
        state.namespaces.iter().filter_map(|(&number, namespace)| self.object_count(number, namespace)).collect()
    }

    fn object_count(&self, number: u32, namespace: &Namespace) -> Option<ObjectCount> {
        let mut count = ObjectCount { namespace: number, objects: 0, expiring: 0 };
        for volume in &namespace.volumes {
            let group = &self.groups[self.find(GroupId(volume.group))? as usize];
            let Content::Objects(objects) = group.machine.content() else { return None };
            if group.state != GroupState::Alive {
                return None;
            }
            count.objects += objects.count() as u64;
            count.expiring += objects.expiring_count() as u64;
        }
        Some(count)
    }

    /// Asks the root, linearizably, for what it says now.
    pub(super) fn ask_for_directory(&mut self) {
        let now = self.clock.now();
        if self.directory.asking {
            if self.directory.asked_at.after_us(ROOT_MISSED_US) <= now {
                self.ask_where_the_root_is();
            }
        } else if self.directory.refused_until <= now {
            self.ask_for_directory_now();
        }
    }

    fn ask_for_directory_now(&mut self) {
        self.directory.asking = true;
        self.directory.asked_at = self.clock.now();
        self.directory.question += 1;
        let command = RootCommand::Read { version: self.directory.version() };
        self.submit_to_root(&command, Purpose::Directory);
    }

    /// As [`Host::ask_for_directory`], with a question that is asked from now on. The number of that question.
    pub(super) fn ask_for_directory_anew(&mut self) -> u64 {
        if self.directory.asking {
            self.directory.asking_anew = true;
            return self.directory.question + 1;
        }
        self.ask_for_directory_now();
        self.directory.question
    }

    /// A message for a group that is not here, or is in another epoch: perhaps our directory is old. False if it was asked for
    /// just now.
    pub(super) fn meet_unknown_group(&mut self) -> bool {
        let now = self.clock.now();
        let is_time = self.unknown_group_asked_at.after_us(UNKNOWN_GROUP_PAUSE_US) <= now;
        if is_time {
            self.unknown_group_asked_at = now;
            self.ask_for_directory();
        }
        is_time
    }

    pub(super) fn take_directory(&mut self, answer: Answer) {
        self.directory.asking = false;
        match answer {
            Answer::Outcome(Outcome::Bulk(bytes)) => match RootState::decode(&bytes) {
                Some(state) => {
                    self.directory.is_followed = true;
                    self.follow_directory(state);
                    self.note_lost_groups();
                }
                None => self.counters.nonsense += 1,
            },
            // There is nothing newer.
            Answer::Outcome(Outcome::Nil) => {
                self.directory.is_followed = true;
                self.note_lost_groups();
            }
            Answer::Outcome(_) if self.lost_groups_known_with.is_none() => {}
            // The node cannot do without: it asks until it is told.
            _ => {
                let again_at = self.clock.now().after_us(UNKNOWN_GROUP_PAUSE_US);
                self.directory.refused_until = again_at;
                self.timers.set(again_at, Timer::Directory);
                self.ask_where_the_root_is();
                return;
            }
        }
        self.directory.answered = self.directory.question;
        self.leave_forgotten_chains();
        self.leave_replaced_chains();
        self.finish_waiting_admins(self.directory.question);
        if std::mem::take(&mut self.directory.asking_anew) {
            self.ask_for_directory_now();
        }
    }

    /// Brings to life the replicas that shall be here and drops those that shall not.
    fn follow_directory(&mut self, state: RootState) {
        if state.version <= self.directory.version() {
            return;
        }
        let me = self.settings.node;
        let mut batch = quorate_checkpoint::Batch::new();
        batch.put_node_record(RECORD, state.encode());
        let mut births = Vec::new();
        let with_parent = |namespace: &Namespace| !namespace.settings.authority.is_members();
        for (number, namespace, volume) in state.volumes().filter(|(_, namespace, _)| with_parent(namespace)) {
            if !volume.lives_on(me, namespace.settings.protocol) || self.find(GroupId(volume.group)).is_some() {
                continue;
            }
            let machine = Group::empty_machine(namespace);
            let settings = &namespace.settings;
            let protocol = settings.protocol;
            let configuration = match protocol {
                Protocol::Paxos => seated(volume, state.seats(volume.group), me),
                Protocol::Chain | Protocol::Register => volume.configuration(),
            };
            let mut group =
                Group::new(protocol, configuration, number, settings.durability, namespace.hash_key, machine, me);
            if protocol.is_chain() {
                group.replica = AnyReplica::Chain(Box::new(Chain::new(Arc::new(volume.membership()), me)));
            }
            if protocol.is_register() {
                group.replica = self.register_replica(volume);
            }
            if protocol == Protocol::Paxos && takes_a_seat(volume, state.seats(volume.group), me) {
                self.seats.born.insert(GroupId(volume.group));
                group.state = GroupState::Forgetful;
                group.replica.restored();
            }
            births.push(self.bear(group, &mut batch));
        }
        births.extend(self.bear_root_of(&state, &mut batch));
        let known: BTreeSet<u64> = state.volumes().map(|(_, _, volume)| volume.group).collect();
        let is_volume = |group: &GroupId| *group != ROOT && volume_of(*group).is_none();
        // Of one whose members decide this node may have heard before the root told.
        let is_gone = |group: &GroupId| is_volume(group) && !known.contains(&group.0) && state.has_given(*group);
        let mut gone: Vec<GroupId> = self.index.keys().copied().filter(is_gone).collect();
        gone.extend(self.volumes_outside().into_iter().filter(is_gone));
        gone.sort_unstable();
        self.successions.forget_dropped(&state, &mut batch);
        let mut dropped = Vec::new();
        for volume in gone {
            self.orphan(volume);
            dropped.extend(self.drop_group(volume, &mut batch));
            dropped.push(volume);
        }
        self.store(batch, Stored::Directory { births, dropped });
        self.note_directory_storing(state.version);
        if self.directory.set(state) {
            self.store_root_group();
        }
        self.follow_nodes();
        self.leave_forgotten_chains();
        self.follow_listed();
        self.tell_registers();
        self.tell_chains();
        self.ask_for_term(ROOT);
    }

    /// Puts a new group among the others and into `batch`; it speaks once the batch is stored, unless the node may have had a
    /// replica of it in a directory that was lost.
    pub(super) fn bear(&mut self, mut group: Group, batch: &mut quorate_checkpoint::Batch) -> GroupId {
        let id = group.id();
        if self.lost_groups_known_with.is_some() && !planted::is(Planted::LostGroupsBornAnew) {
            group.state = GroupState::Forgetful;
            group.replica.restored();
        }
        group.checkpoint.covered_below = self.wal.durable();
        let mut meta = Vec::new();
        super::checkpoints::encode_meta(&group, &mut meta);
        batch.put_meta(id.0, meta);
        super::checkpoints::put_content(&mut group.machine, id, batch);
        let index = self.groups.insert(Box::new(group)) as u32;
        self.index.insert(id, index);
        id
    }

    /// The root has been asked since all other nodes refuse the directory that was lost: what that had a part in is known, once it is
    /// stored, and whatever is born from here on is new.
    fn note_lost_groups(&mut self) {
        if self.lost_groups_known_with.is_none_or(|question| self.directory.question < question) {
            return;
        }
        let Some(state) = self.directory.state() else { return };
        self.here.losses.know_what_was_had(state.group_next());
        self.lost_groups_known_with = None;
        let mut batch = quorate_checkpoint::Batch::new();
        self.here.losses.put(&mut batch);
        self.store(batch, Stored::Directory { births: Vec::new(), dropped: Vec::new() });
        self.storing.note_losses();
    }

    /// Lets the replicas speak whose birth is stored; of a new node, once the others have accepted it.
    pub(super) fn finish_births(&mut self, births: Vec<GroupId>) {
        if self.settings.is_new {
            return self.births_waiting.extend(births);
        }
        for id in births {
            let Some(index) = self.find(id) else { continue };
            self.seek_readmission(index);
            let group = &mut self.groups[index as usize];
            if group.state == GroupState::Unborn {
                group.state = GroupState::Alive;
                self.plan(index, Event::Woken);
                self.deliver_requests(id);
                self.pursue_wishes(id);
            }
        }
        self.tell_registers();
        self.tell_chains();
        self.ask_for_term(ROOT);
    }

    /// Every other node of the cluster has accepted this one, whose data directory is new: it may speak.
    pub fn admit(&mut self) {
        self.settings.is_new = false;
        if self.lost_groups_known_with.is_some() {
            self.lost_groups_known_with = Some(self.ask_for_directory_anew());
        }
        let births = std::mem::take(&mut self.births_waiting);
        self.finish_births(births);
        let awake: Vec<u32> = self.groups.iter().map(|(index, _)| index as u32).collect();
        awake.into_iter().for_each(|index| self.seek_readmission(index));
        self.run();
    }

    /// Names the group's own groups that had ended and were not forgotten yet: they go with it.
    pub(super) fn drop_group(&mut self, group: GroupId, batch: &mut quorate_checkpoint::Batch) -> Vec<GroupId> {
        let Some(index) = self.index.remove(&group) else { return Vec::new() };
        let removed = self.groups.remove(index as usize);
        // A snapshot of it that is still to be stored is so before it is deleted, not after.
        self.store_waiting_snapshots();
        self.storing.forget_installing(group);
        self.forget_dropped(group, batch);
        self.swapping.forget(group);
        self.forget_saving(group);
        self.discard(removed.machine);
        let dead: Vec<GroupId> = removed.dead.into_iter().map(|(_, group)| group).collect();
        dead.iter().for_each(|group| batch.delete_group(group.0));
        dead
    }

    /// This node is not in the group any more, and what it holds of it is of no use.
    pub(super) fn leave_group(&mut self, group: GroupId) {
        let mut batch = quorate_checkpoint::Batch::new();
        let mut dropped = self.drop_group(group, &mut batch);
        dropped.push(group);
        self.store(batch, Stored::Directory { births: Vec::new(), dropped });
    }

    /// A replica of a chain that may have forgotten what it said begins anew once it is left out: as any node that joins, with what
    /// the tail has. The root must have been asked since this node's start. All configurations in which it may have said something
    /// were decided before, and what it says in later ones it will have been told in them.
    pub(super) fn leave_forgotten_chains(&mut self) {
        let me = self.settings.node;
        let is_forgetful = |index: u32| self.groups[index as usize].state == GroupState::Forgetful;
        let forgetful: Vec<&GroupRecord> = self
            .led_by(ROOT, Protocol::Chain)
            .filter(|record| self.find(GroupId(record.group)).is_some_and(is_forgetful))
            .collect();
        // Until all others refuse the directory that was lost, it might join as well.
        if forgetful.is_empty() || self.settings.is_new {
            return;
        }
        let is_too_early = planted::is(Planted::ForgottenChainTooEarly);
        let is_out =
            |record: &&&GroupRecord| is_too_early || !record.members.contains(&me.0) && record.joining != Some(me.0);
        let left: Vec<GroupId> = forgetful.iter().filter(is_out).map(|record| GroupId(record.group)).collect();
        if !self.directory.is_followed && !is_too_early {
            return self.ask_for_directory();
        }
        for group in left {
            self.counters.chains_left += 1;
            self.leave_group(group);
        }
    }

    fn forget_dropped(&mut self, group: GroupId, batch: &mut quorate_checkpoint::Batch) {
        batch.delete_group(group.0);
        self.transfers.forget(group);
        self.silence_told.remove(&group);
        self.forget_earlier_births(group, batch);
        self.bounce_reads_of(group, Bounce::UnknownGroup);
        self.lose_register(group, Bounce::UnknownGroup);
    }
}

/// A root that has not answered for so long may be elsewhere.
const ROOT_MISSED_US: u64 = 200_000;
/// How often, at most, a message for an unknown group makes the node ask for the directory.
const UNKNOWN_GROUP_PAUSE_US: u64 = 100_000;

#[cfg(test)]
mod tests {
    use crate::host::three_nodes::{Cluster, arrives};

    #[test]
    fn a_root_that_refuses_is_not_asked_with_every_frame() {
        let mut cluster = Cluster::of(4, |_| {});
        for down in [1, 2] {
            cluster.node(down).is_down = true;
        }
        cluster.pass(3_000, arrives);
        let asked = |cluster: &mut Cluster| cluster.node(3).host.directory.question;
        let before = asked(&mut cluster);
        for _ in 0..1_000 {
            cluster.node(3).host.ask_for_directory();
            cluster.pass(1, arrives);
        }
        let questions = asked(&mut cluster) - before;
        assert!((1..=11).contains(&questions), "{questions} in a second");
        for up in [1, 2] {
            cluster.node(up).is_down = false;
            cluster.restart(up);
        }
        cluster.pass(2_000, arrives);
        assert!(!cluster.node(3).host.directory.asking, "it is told again");
    }
}
