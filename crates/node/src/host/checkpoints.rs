//! Checkpoints: what a group's log records need not be kept for any more.
//!
//! A checkpoint stores the objects that changed since the last one, and with them the position up to which they are
//! executed, in one atomic batch. What it costs follows the changes, not the size of the group. Where very much has changed it is
//! made over [several turns](super::saving).

mod names;

use quorate_checkpoint::Batch;
use quorate_object::Objects;
use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{Configuration, Epoch, GroupId, Instant, NodeId, Slot, Stamp, quorum::QuorumSystem};
use quorate_wal::Lsn;

pub(super) use names::{BEHIND_OBJECTS, FIRST_OBJECT, name_of};
pub(crate) use names::{Name, take_name};
use names::{RUN_NAME, children_name};

use super::Host;
use super::group::Group;
use super::quarantine::isolate;
use super::resting::{fit_at_rest, kin_of};
use super::saving::Saving;
use super::transfer::Installing;
use crate::group_state::GroupState;
use crate::machine::{Content, Machine};
use crate::planted::{self, Planted};
use crate::register::RegisterReplica;
use crate::replica::{AnyReplica, Position, Protocol};
use crate::rest::{INLINE_BYTES_MAX, Kin, RestOf, StoredHead};
use crate::results::{Mark, Results};
use crate::root::Durability;

/// The layout of a group's meta record, by its protocol.
const META_VERSION: u8 = 8;
const META_VERSION_CHAIN: u8 = 9;
const META_VERSION_REGISTER: u8 = 10;
/// The name under which the root's state is stored as if it were an object.
const ROOT_OBJECT: &[u8] = b"root";
/// Batches under way at once: one that is being stored, and one that is next. What comes meanwhile shares the one behind them:
/// with more under way each would be smaller, and what it releases be released later.
const UNDER_WAY_MAX: usize = 2;
/// Checkpoints share a batch until it is this large, but for the last of them.
const BATCH_BYTES: usize = 1 << 20;
/// Checkpoints begun in a turn.
const PER_TURN: usize = 512;

/// Own groups that begin in a volume between two checkpoints of it.
const BIRTHS_MAX: u32 = 512;

/// What a volume keeps of its own groups is stored in pieces of so many bytes.
const PIECE_BYTES: usize = 16 << 20;

/// What to do once a batch is stored.
pub(super) enum Stored {
    /// Groups born here, and groups dropped, whose records the log may forget once their deletion is durable.
    Directory {
        births: Vec<GroupId>,
        /// Those that stay silent for ever need no records either.
        dropped: Vec<GroupId>,
    },
    Checkpoints {
        checkpointed: Vec<Checkpointed>,
        /// Own groups that ended, and need not be remembered any more.
        forgotten: Vec<GroupId>,
    },
    Snapshots(Vec<Installing>),
}

/// Checkpoints that are not handed over yet.
#[derive(Default)]
struct Filling {
    batch: Batch,
    checkpointed: Vec<Checkpointed>,
    forgotten: Vec<GroupId>,
}

/// What a checkpoint covers.
pub(super) struct Checkpointed {
    pub(super) index: u32,
    pub(super) group: GroupId,
    next_slot: Slot,
    appended: Lsn,
    is_alive: bool,
}

#[derive(Default)]
pub(super) struct Storing {
    number_next: u64,
    under_way: std::collections::VecDeque<(u64, Stored)>,
    /// Batches below say what this start has found lost.
    losses_below: u64,
    filling: Filling,
    /// A checkpoint that is not complete.
    pub(super) saving: Option<Saving>,
    /// Others wait, since as many objects were encoded as may be for now.
    pub(super) is_spent: bool,
    /// From when on more may be.
    pub(super) saves_at: Instant,
    /// Own groups that ended, and that the checkpoint of their volume remembers as ended.
    pub(super) forgettable: Vec<GroupId>,
    /// Snapshots that came while others were being stored: thousands of small ones share a few batches.
    snapshots: (Batch, Vec<Installing>),
}

impl Storing {
    /// Own groups that ended, and that no batch on its way forgets.
    pub(super) fn to_forget(&self) -> usize {
        self.forgettable.len() + self.filling.forgotten.len()
    }

    /// The batches handed over so far say what this start has found lost.
    pub(super) fn note_losses(&mut self) {
        self.losses_below = self.number_next;
    }

    /// The group's replica is gone: what was on its way to the store for it, another one does not stand on.
    pub(super) fn forget_installing(&mut self, group: GroupId) {
        for (_, stored) in &mut self.under_way {
            if let Stored::Snapshots(installing) = stored {
                installing.retain(|one| one.group() != group);
            }
        }
    }

    /// The number of the batch that was handed over last.
    pub(super) fn last_number(&self) -> u64 {
        self.number_next.saturating_sub(1)
    }

    /// Snapshots that are not stored yet.
    pub(super) fn installing(&self) -> impl Iterator<Item = &Installing> {
        let under_way = self.under_way.iter().filter_map(|(_, stored)| match stored {
            Stored::Snapshots(installing) => Some(installing),
            Stored::Directory { .. } | Stored::Checkpoints { .. } => None,
        });
        under_way.flatten().chain(&self.snapshots.1)
    }
}

impl Host {
    /// Hands a batch to the environment, behind what was made before it.
    pub(super) fn store(&mut self, batch: Batch, then: Stored) {
        self.store_checkpoints();
        self.hand_over(batch, then);
    }

    /// Hands over the checkpoints that were made since the last time.
    pub(super) fn store_checkpoints(&mut self) {
        let Filling { batch, checkpointed, forgotten } = std::mem::take(&mut self.storing.filling);
        if !batch.is_empty() {
            self.hand_over(batch, Stored::Checkpoints { checkpointed, forgotten });
        }
    }

    pub(super) fn hand_over(&mut self, batch: Batch, then: Stored) {
        let number = self.storing.number_next;
        self.storing.number_next += 1;
        self.storing.under_way.push_back((number, then));
        self.batches.push((number, batch));
    }

    /// Whether the store says what earlier runs of the node have forgotten: from then on only this run is to be judged by how it
    /// ends.
    pub fn remembers_losses(&self) -> bool {
        self.lost_groups_known_with.is_none()
            && self.storing.under_way.front().is_none_or(|(number, _)| *number >= self.storing.losses_below)
    }

    /// The batch of this number is durable. Batches are stored in the order in which they were handed over.
    pub fn stored(&mut self, number: u64) {
        let Some((expected, then)) = self.storing.under_way.pop_front() else { return };
        assert_eq!(expected, number, "batches are stored in order");
        self.note_stored();
        match then {
            Stored::Directory { births, dropped } => {
                dropped.iter().for_each(|group| self.wal.forget(group.0));
                // One that is born anew begins with low slots: what it logs is not what was just forgotten.
                self.wal.note_releases();
                self.finish_births(births);
                self.note_directory_stored(number);
            }
            Stored::Checkpoints { checkpointed, forgotten } => {
                forgotten.iter().for_each(|group| self.wal.forget(group.0));
                self.finish_leaving(&forgotten);
                checkpointed.into_iter().for_each(|group| self.release(group));
            }
            Stored::Snapshots(installing) => installing.into_iter().for_each(|one| self.install(one)),
        }
        self.run();
    }

    fn release(&mut self, checkpointed: Checkpointed) {
        let Checkpointed { index, group, next_slot, appended, is_alive } = checkpointed;
        if self.find(group) == Some(index) {
            self.groups[index as usize].checkpoint.forgets &= !is_alive;
            self.groups[index as usize].checkpoint.under_way = false;
            self.wal.release(group.0, next_slot.0, appended);
            // It may have been made while a snapshot was on its way, and cover nothing that the oldest segment holds.
            self.wal.search_again();
            self.counters.checkpoints += 1;
            self.forget_dead(index, next_slot);
            self.rest_once_stored(index);
            if self.find(group) == Some(index) {
                self.note_names_stored(index);
            }
        }
    }

    pub(super) fn want_snapshot_stored(&mut self, batch: Batch, installing: Installing) {
        self.storing.snapshots.0.append(batch);
        self.storing.snapshots.1.push(installing);
    }

    /// One batch of snapshots at a time, beside the checkpoints.
    fn store_snapshots(&mut self) {
        let is_snapshots = |(_, stored): &(u64, Stored)| matches!(stored, Stored::Snapshots(_));
        if !self.storing.under_way.iter().any(is_snapshots) {
            self.store_waiting_snapshots();
        }
    }

    pub(super) fn store_waiting_snapshots(&mut self) {
        if !self.storing.snapshots.1.is_empty() {
            let (batch, installing) = std::mem::take(&mut self.storing.snapshots);
            self.store(batch, Stored::Snapshots(installing));
        }
    }

    /// Small checkpoints share a batch, and so a sync.
    pub(super) fn start_checkpoints(&mut self) {
        self.store_snapshots();
        let mut left = self.checkpoint_wanted.len().min(PER_TURN);
        // What is to be stored of a group goes before its deletion.
        let snapshots = &self.storing.snapshots.1;
        let is_coming = |group: &GroupId| snapshots.iter().any(|snapshot| snapshot.group() == *group);
        let forgettable = std::mem::take(&mut self.storing.forgettable);
        let (later, forgettable): (Vec<_>, Vec<_>) = forgettable.into_iter().partition(is_coming);
        let mut objects_left = self.save_more();
        self.storing.is_spent = false;
        while left > 0 && self.storing.filling.batch.bytes() < BATCH_BYTES {
            left -= 1;
            let Some(index) = self.checkpoint_wanted.pop_front() else { break };
            let Some(group) = self.groups.get(index as usize) else { continue };
            let must_wait = group.checkpoint.under_way || self.is_checkpoint_unwanted(group.id());
            let is_spent = objects_left == 0 && group.own.is_none();
            self.storing.is_spent |= is_spent && !must_wait;
            // Once one of those is stored, there is room.
            let is_full = group.own.is_none() && self.storing.under_way.len() >= UNDER_WAY_MAX;
            if must_wait || is_spent || is_full || !self.may_replace_checkpoint(index) || !self.may_store_whole(index) {
                self.checkpoint_wanted.push_back(index);
                continue;
            }
            let Some(made) = self.make_checkpoint(index, &mut objects_left) else { continue };
            match made.is_complete {
                true => {
                    self.storing.filling.batch.append(made.batch);
                    self.storing.filling.checkpointed.push(made.covered);
                }
                false => self.storing.saving = Some(made),
            }
        }
        self.end_saving(objects_left);
        let filling = &mut self.storing.filling;
        forgettable.iter().for_each(|group| filling.batch.delete_group(group.0));
        filling.forgotten.extend(forgettable);
        if self.storing.under_way.len() < UNDER_WAY_MAX {
            self.store_checkpoints();
        }
        self.storing.forgettable.extend(later);
    }

    /// Whether nothing is missing in memory of what is to be stored as a whole.
    fn may_store_whole(&mut self, index: u32) -> bool {
        let is_whole = self.groups.get(index as usize).is_some_and(|group| group.checkpoint.whole);
        !is_whole || self.want_names(index)
    }

    /// A volume that has many new own groups is checkpointed before the log asks for that. What the volumes have to say of a
    /// million groups would else be stored all at once, and the groups themselves wait for it.
    pub(super) fn note_births(&mut self, volume: u32, births: usize) {
        let checkpoint = &mut self.groups[volume as usize].checkpoint;
        checkpoint.births = checkpoint.births.saturating_add(births as u32);
        if checkpoint.births >= BIRTHS_MAX && !std::mem::replace(&mut checkpoint.urgent, true) {
            self.checkpoint_wanted.push_front(volume);
        }
    }

    pub(super) fn want_checkpoint_now(&mut self, index: u32) {
        if !std::mem::replace(&mut self.groups[index as usize].checkpoint.urgent, true) {
            self.checkpoint_wanted.push_back(index);
        }
    }

    /// For a clean stop: hands over batches of what only memory holds. The replicas that this concerns say nothing from
    /// now on. One that has accepted what is not decided yet cannot be kept so: it is stored as one that forgets. Says which
    /// cannot be stored at all: those are not trusted at the next start.
    pub fn close(&mut self) -> Vec<GroupId> {
        self.complete_saving();
        let mut unstored = Vec::new();
        let in_memory: Vec<u32> = self
            .groups
            .iter()
            .filter(|(_, group)| group.durability == Durability::Memory && group.is_alive())
            .map(|(index, _)| index as u32)
            .collect();
        for index in in_memory {
            let id = self.groups[index as usize].id();
            let installing = self.storing.installing().any(|snapshot| snapshot.group() == id);
            let group = &mut self.groups[index as usize];
            let at_rest = group.replica.in_flight() == 0 && !installing;
            group.state = if at_rest { GroupState::Closed } else { GroupState::Forgetful };
            group.checkpoint.urgent = true;
            // Batches are stored in order: one more behind one that is under way is as good as the only one.
            group.checkpoint.under_way = false;
            match self.make_checkpoint(index, &mut { usize::MAX }) {
                Some(Saving { batch, covered, .. }) => {
                    self.store(batch, Stored::Checkpoints { checkpointed: vec![covered], forgotten: Vec::new() });
                }
                // It lacks names that are in the store only, beside an older state, which must not count as this one.
                None => {
                    let state = &mut self.groups[index as usize].state;
                    // Of one that panicked, a fault tells.
                    if std::mem::replace(state, GroupState::Quarantined) != GroupState::Quarantined {
                        unstored.push(id);
                    }
                }
            }
        }
        if self.groups().any(|group| group.state == GroupState::Quarantined) {
            self.remember_given_up();
        }
        unstored
    }

    /// Whether enough has been logged for a group since its last checkpoint; asked after a step.
    pub(super) fn want_checkpoint(&mut self, index: u32) {
        let (bytes, slots) = (self.settings.checkpoint_bytes, self.settings.checkpoint_slots);
        let group = &mut self.groups[index as usize];
        let executed = group.replica.next_slot().0.saturating_sub(group.checkpoint.next_slot.0);
        if group.checkpoint.bytes >= bytes || executed >= slots {
            self.want_checkpoint_now(index);
        }
    }

    /// The changes since the last checkpoint, if there is to be one; of a volume, so many objects at first.
    fn make_checkpoint(&mut self, index: u32, objects_left: &mut usize) -> Option<Saving> {
        let group = self.groups.get_mut(index as usize)?;
        let speaks_or_spoke =
            !matches!(group.state, GroupState::Unborn | GroupState::Damaged | GroupState::Quarantined);
        let is_incomplete = group.checkpoint.whole && group.machine.has_swapped();
        if !group.checkpoint.urgent || group.checkpoint.under_way || !speaks_or_spoke || is_incomplete {
            return None;
        }
        group.checkpoint.urgent = false;
        group.checkpoint.under_way = true;
        group.checkpoint.changed = false;
        group.checkpoint.coordinating = group.replica.is_coordinating();
        let id = group.id();
        let appended = self.wal.appended();
        let in_flight = self.wal.slots(id.0).is_some_and(|slots| slots.end > group.replica.next_slot().0);
        if !in_flight || group.is_aside() {
            // Not what was merely appended: a crash may take that away, and other records may come to lie there.
            group.checkpoint.covered_below = self.wal.durable();
        }
        let start = self.settings.start;
        let (batch, is_complete) = match isolate(|| checkpoint_of(group, start, objects_left)) {
            Ok(made) => made,
            Err(words) => {
                self.quarantine(index, "making a checkpoint", words);
                return None;
            }
        };
        let group = self.groups.get_mut(index as usize)?;
        let next_slot = group.replica.next_slot();
        group.checkpoint.next_slot = next_slot;
        group.checkpoint.bytes = 0;
        group.checkpoint.births = 0;
        let is_alive = group.is_alive();
        Some(Saving { batch, covered: Checkpointed { index, group: id, next_slot, appended, is_alive }, is_complete })
    }
}

/// The changes, and whether those are all of them.
fn checkpoint_of(group: &mut Group, start: u32, objects_left: &mut usize) -> (Batch, bool) {
    let id = group.id();
    let mut batch = Batch::new();
    if group.rests() && (group.is_aside() || fit_at_rest(group.machine.results())) {
        put_own(group, start, &mut batch);
        return (batch, true);
    }
    if let AnyReplica::Register(replica) = &mut group.replica {
        put_versions(replica, id, &mut batch);
        let mut meta = Vec::new();
        encode_meta(group, &mut meta);
        batch.put_meta(id.0, meta);
        return (batch, true);
    }
    // What there is may be of another state, or an own group's one record.
    let was_record = std::mem::take(&mut group.checkpoint.is_record);
    group.checkpoint.holds_accepted = false;
    if std::mem::take(&mut group.checkpoint.whole) || was_record {
        begin_whole(&mut group.machine, id, &mut batch);
    }
    let mut meta = Vec::new();
    encode_meta(group, &mut meta);
    batch.put_meta(id.0, meta);
    let is_complete = match group.own {
        Some(_) => put_changes(group, &mut { usize::MAX }, &mut batch),
        None => put_changes(group, objects_left, &mut batch),
    };
    (batch, is_complete)
}

/// What the store has of a group goes, and all of it counts as changed.
fn begin_whole(machine: &mut Machine, group: GroupId, batch: &mut Batch) {
    batch.clear_objects(group.0);
    machine.results_mut().forget_saved();
    if let Some(objects) = machine.objects_mut() {
        objects.note_all_changed();
    }
}

/// All of an own group, in one record unless its object is large. A group in use, with many results, is stored as others
/// are: what has changed.
fn put_own(group: &mut Group, start: u32, batch: &mut Batch) {
    let (id, state) = (group.id(), group.state);
    let Some(own) = &group.own else { return };
    let mut position = group.replica.position();
    if planted::is(Planted::CheckpointAhead) {
        let next_slot = position.next_slot_mut();
        *next_slot = next_slot.next();
    }
    if std::mem::take(&mut group.checkpoint.whole) || !std::mem::replace(&mut group.checkpoint.is_record, true) {
        batch.clear_objects(id.0);
        group.machine.results_mut().forget_saved();
    } else if group.checkpoint.apart {
        batch.delete_object(id.0, &name_of(&own.name));
    }
    if let Some(objects) = group.machine.objects_mut() {
        objects.forget_changes();
    }
    let kin = kin_of(group);
    group.checkpoint.holds_accepted = group.is_aside();
    let accepted = group.accepted_aside();
    let head = StoredHead { kin, start, covered_below: group.checkpoint.covered_below, accepted };
    let coordinating = group.checkpoint.coordinating;
    let rest = RestOf { position: &position, coordinating, state, name: &own.name, machine: &group.machine };
    group.checkpoint.apart = put_rest(id, &head, &rest, batch);
}

/// Whether the object has a place of its own.
pub(super) fn put_rest(group: GroupId, head: &StoredHead, rest: &RestOf<'_>, batch: &mut Batch) -> bool {
    let object = rest.machine.objects().and_then(|objects| objects.encoded(rest.name));
    let is_apart = object.as_ref().is_some_and(|object| object.len() > INLINE_BYTES_MAX);
    let mut record = Vec::new();
    head.encode(&mut record);
    rest.encode(object.as_deref(), is_apart, &mut record);
    batch.put_meta(group.0, record);
    if is_apart && let Some(object) = object {
        batch.put_object(group.0, &name_of(rest.name), object);
    }
    is_apart
}

/// The versions of a register group that have changed; all, if some are to go.
fn put_versions(replica: &mut RegisterReplica, group: GroupId, batch: &mut Batch) {
    if replica.take_whole() {
        batch.clear_objects(group.0);
    }
    replica.take_unsaved(|key, version| match version {
        Some(version) => batch.put_object(group.0, &name_of(key), version),
        None => batch.delete_object(group.0, &name_of(key)),
    });
}

fn put_changes(group: &mut Group, objects_left: &mut usize, batch: &mut Batch) -> bool {
    let id = group.id().0;
    // An emptied group's range is cleared as a whole, and the runs stand in it too.
    let flushed = group.machine.objects_mut().is_some_and(|objects| objects.was_flushed());
    if flushed {
        batch.clear_objects(id);
        group.machine.results_mut().forget_saved();
    }
    put_results(&mut group.machine, id, batch);
    put_children(&mut group.machine, id, batch);
    if let Content::Root(root) = group.machine.content() {
        batch.put_object(id, &name_of(ROOT_OBJECT), root.encode());
        return true;
    }
    let Some(objects) = group.machine.objects_mut() else { return true };
    objects.begin_saving();
    put_some(objects, id, objects_left, batch)
}

/// Puts about as many of the changed objects into a batch as there may be. Whether those were all.
pub(super) fn put_some(objects: &mut Objects, group: u64, objects_left: &mut usize, batch: &mut Batch) -> bool {
    objects.save_some(objects_left, |key, object| match object {
        Some(bytes) => batch.put_object(group, &name_of(key), bytes.to_vec()),
        None => batch.delete_object(group, &name_of(key)),
    })
}

/// Puts everything that a machine holds into a batch: for a birth.
pub(super) fn put_content(machine: &mut Machine, group: GroupId, batch: &mut Batch) {
    batch.clear_objects(group.0);
    put_head(machine, group, batch);
    if let Some(objects) = machine.objects_mut() {
        objects.forget_changes();
    }
    match machine.content() {
        Content::Root(root) => batch.put_object(group.0, &name_of(ROOT_OBJECT), root.encode()),
        Content::Objects(objects) => {
            objects.for_each(|key, bytes| batch.put_object(group.0, &name_of(key), bytes.to_vec()))
        }
    }
}

/// What a machine holds besides its content.
fn put_head(machine: &mut Machine, group: GroupId, batch: &mut Batch) {
    machine.results_mut().forget_saved();
    put_results(machine, group.0, batch);
    put_children(machine, group.0, batch);
}

/// What was executed is stored in runs beside the objects, so that a checkpoint writes only what is new of it too.
fn put_results(machine: &mut Machine, group: u64, batch: &mut Batch) {
    machine.results_mut().take_unsaved(|run, bytes| {
        let mut name = vec![RUN_NAME];
        name.extend_from_slice(&run.to_be_bytes());
        match bytes {
            Some(bytes) => batch.put_object(group, &name, bytes.to_vec()),
            None => batch.delete_object(group, &name),
        }
    });
}

fn put_children(machine: &mut Machine, group: u64, batch: &mut Batch) {
    let Some(children) = machine.children.as_deref_mut() else { return };
    let encoded = children.encode();
    let count = encoded.len().div_ceil(PIECE_BYTES);
    let count = u8::try_from(count).expect("what a volume keeps of its own groups fits into memory many times over");
    for (piece, bytes) in (0..).zip(encoded.chunks(PIECE_BYTES)) {
        batch.put_object(group, &children_name(piece), bytes.to_vec());
    }
    (count..children.pieces).for_each(|piece| batch.delete_object(group, &children_name(piece)));
    children.pieces = count;
}

/// A peer's snapshot, as what this group will be once it is stored. Unless that is one record, its objects are in the batch already.
pub(super) fn put_snapshot(group: &Group, start: u32, position: Position, machine: &mut Machine, batch: &mut Batch) {
    let id = group.id();
    match (&group.own, position) {
        (Some(own), position @ (Position::Paxos(_) | Position::Chain(_))) if fit_at_rest(machine.results()) => {
            batch.clear_objects(id.0);
            let chain = match &position {
                Position::Chain(position) => Some(position.membership.clone()),
                Position::Paxos(_) | Position::Register(_) => None,
            };
            let kin = Kin { chain, ..kin_of(group) };
            let covered_below = group.checkpoint.covered_below;
            let head = StoredHead { kin, start, covered_below, accepted: Vec::new() };
            let rest =
                RestOf { position: &position, coordinating: false, state: group.state, name: &own.name, machine };
            put_rest(id, &head, &rest, batch);
        }
        (own, position) => {
            match own {
                Some(_) => put_content(machine, id, batch),
                None => put_head(machine, id, batch),
            }
            let mut meta = Vec::new();
            encode_meta_of(group, position, machine, &mut meta);
            batch.put_meta(id.0, meta);
        }
    }
}

pub(super) fn encode_meta(group: &Group, out: &mut Vec<u8>) {
    encode_meta_of(group, group.replica.position(), &group.machine, out);
}

/// As [`encode_meta`], for a state that the group does not stand at yet.
pub(super) fn encode_meta_of(group: &Group, mut position: Position, machine: &Machine, out: &mut Vec<u8>) {
    if planted::is(Planted::CheckpointAhead) {
        let next_slot = position.next_slot_mut();
        *next_slot = next_slot.next();
    }
    out.push(match position.protocol() {
        Protocol::Paxos => META_VERSION,
        Protocol::Chain => META_VERSION_CHAIN,
        Protocol::Register => META_VERSION_REGISTER,
    });
    out.extend_from_slice(&group.configuration.epoch.0.to_le_bytes());
    out.extend_from_slice(&group.namespace.to_le_bytes());
    out.push(group.durability.code());
    out.push(match group.state {
        GroupState::Unborn | GroupState::Alive | GroupState::Quarantined | GroupState::Closed => 0,
        GroupState::Forgetful => 1,
        GroupState::Damaged => 2,
    });
    out.push(group.configuration.members.len() as u8);
    for member in group.configuration.members.iter() {
        out.extend_from_slice(&member.0.to_le_bytes());
    }
    position.encode(out);
    out.extend_from_slice(&group.hash_key);
    out.extend_from_slice(&machine.time().0.to_le_bytes());
    out.extend_from_slice(&machine.results().base().to_le_bytes());
    machine.results().encode_marks(out);
    out.extend_from_slice(&group.checkpoint.covered_below.0.to_le_bytes());
    out.push(u8::from(machine.owns));
    let name = group.own().map_or(&[][..], |own| &own.name);
    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    out.extend_from_slice(name);
}

/// A group's meta record, taken apart.
pub(crate) struct Meta {
    pub configuration: Configuration,
    pub namespace: u32,
    pub durability: Durability,
    pub state: GroupState,
    pub position: Position,
    pub hash_key: [u8; 16],
    pub time: Stamp,
    /// See [`crate::results::Results::base`].
    pub results_base: u64,
    pub marks: Vec<Mark>,
    /// See [`super::group::CheckpointState`].
    pub covered_below: Lsn,
    /// See [`crate::machine::Machine::owns`].
    pub owns: bool,
    /// Of an own group's object.
    pub name: Vec<u8>,
}

pub(crate) fn decode_meta(group: GroupId, bytes: &[u8]) -> Result<Meta, Malformed> {
    let mut reader = Reader::new(bytes);
    let protocol = match reader.u8()? {
        META_VERSION => Protocol::Paxos,
        META_VERSION_CHAIN => Protocol::Chain,
        META_VERSION_REGISTER => Protocol::Register,
        tag => return Err(Malformed::UnknownTag { of: "version of a group's checkpoint", tag }),
    };
    let epoch = Epoch(reader.u32()?);
    let namespace = reader.u32()?;
    let durability = Durability::of_code(reader.u8()?)?;
    let state = match reader.u8()? {
        0 => GroupState::Alive,
        1 => GroupState::Forgetful,
        2 => GroupState::Damaged,
        tag => return Err(Malformed::UnknownTag { of: "state of a replica", tag }),
    };
    let count = reader.u8()?;
    let members = (0..count).map(|_| reader.u32().map(NodeId)).collect::<Result<Vec<_>, _>>()?;
    let position = Position::decode(protocol, &mut reader)?;
    let mut hash_key = [0; 16];
    hash_key.copy_from_slice(reader.bytes(16)?);
    let (time, results_base, marks) = (Stamp(reader.u64()?), reader.u64()?, Results::decode_marks(&mut reader)?);
    let covered_below = Lsn(reader.u64()?);
    let owns = reader.u8()? != 0;
    let length = reader.u32()? as usize;
    let name = reader.bytes(length)?.to_vec();
    reader.finish()?;
    let quorum = QuorumSystem::Majority;
    let configuration = Configuration { group, epoch, members: members.into(), quorum };
    Ok(Meta {
        configuration,
        namespace,
        durability,
        state,
        position,
        hash_key,
        time,
        results_base,
        marks,
        covered_below,
        owns,
        name,
    })
}

pub(super) fn root_object() -> &'static [u8] {
    ROOT_OBJECT
}

#[cfg(test)]
mod tests;
