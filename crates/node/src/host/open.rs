//! Bringing a host to life from what its disk holds: checkpoints, then the log behind them.

use std::collections::VecDeque;

use hashbrown::HashMap;
use quorate_checkpoint::{Store, StoreError, Walk};
use quorate_protocol::peers::Peers;
use quorate_protocol::wire::Malformed;
use quorate_protocol::{GroupId, NodeId, Slot, Stamp};
use quorate_wal::{Lsn, Storage, Wal};
use roaring::RoaringTreemap;
use slab::Slab;

use super::at_once::ToldOf;
use super::checkpoints::{BEHIND_OBJECTS, Meta, Name, Stored, decode_meta, encode_meta, take_name};
use super::directory::{Directory, RECORD};
use super::dispatch::INTERNAL;
use super::group::{CheckpointState, Group, Own, ROOT_NAMESPACE};
use super::losses::{self, Losses};
use super::quarantine::{self, decode_given_up, isolate};
use super::readmission::{FROM_BEFORE, FromBefore, decode_from_before, may_be_readmitted, may_join_anew};
use super::replay::{Replay, Rest};
use super::resting::read_paused;
use super::root_group;
use super::router::Routers;
use super::seats::seated;
use super::succession::{MEMBERS, Successions};
use super::transfer::{empty_content, restore_object};
use super::{Counters, Fault, Forgotten, Host, HostSettings};
use crate::clock::{HybridClock, Moment, WallClocks};
use crate::entry::Operations;
use crate::group_state::GroupState;
use crate::hash::FixedState;
use crate::machine::Machine;
use crate::outbox::Outbox;
use crate::register::RegisterReplica;
use crate::replica::Protocol;
use crate::rest::{Glance, glance, is_rest};
use crate::results::Results;
use crate::root::{Durability, ROOT, RootGroup, RootState, root_members};
use crate::timers::Timers;
use crate::volume::volume_of;
use crate::wakings::Wakings;

/// What was found on opening, for the log of the process and for status.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    pub group_count: usize,
    pub record_count: u64,
    pub torn_bytes: u64,
    /// Where the log or a checkpoint is damaged, in words.
    pub damage: Vec<String>,
    /// Replicas that neither vote nor serve.
    pub silent_count: usize,
}

/// Groups that are named as damaged; the status of the cluster names all.
const GROUPS_NAMED_MAX: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Log(#[from] quorate_wal::OpenError),
    #[error(transparent)]
    Store(#[from] quorate_checkpoint::StoreError),
    #[error(
        "the checkpoint of group {group} cannot be read ({reason}), and no directory says who its members are: was it \
         written by a newer release?"
    )]
    Checkpoint { group: u64, reason: String },
    #[error("node {0} is not among the cluster's nodes")]
    NotAMember(NodeId),
    #[error("{0} was removed from the cluster, and no other node takes it for one any more: remove its data directory")]
    Removed(NodeId),
}

impl Host {
    /// Reads what the disk holds. The first turn may begin when it returns.
    pub fn open(
        settings: HostSettings,
        storage: &impl Storage,
        store: &impl Store,
        moment: Moment,
    ) -> Result<(Host, OpenReport), OpenError> {
        if !settings.nodes.iter().any(|node| node.id == settings.node.0) {
            return Err(OpenError::NotAMember(settings.node));
        }
        let mut report = OpenReport::default();
        let mut faults = Vec::new();
        let directory = restore_directory(&settings, store, &mut report)?;
        if directory.state().is_some_and(|state| state.node(settings.node.0).is_none()) {
            return Err(OpenError::Removed(settings.node));
        }
        let successions = Successions::restore(store, &mut report.damage)?;
        let mut own = Sleeping::new(&settings, store);
        let mut groups = restore_checkpoints(&settings, store, &directory, &mut own, &mut report, &mut faults)?;
        let (wal, mut lost) = replay_log(&settings, storage, &mut groups, &mut own, &mut report, &mut faults)?;
        let damage_end = wal.report().damage.iter().map(|damage| damage.end()).max().unwrap_or_default();
        let mut host = Host::with_nothing(settings, moment, wal, directory);
        host.successions = successions;
        let given_up = store.node_record(quarantine::RECORD)?.unwrap_or_default();
        let given_up: Vec<GroupId> = decode_given_up(&given_up).collect();
        groups.extend(given_up.iter().filter_map(|group| own.load(*group, &mut faults)));
        lost.append(&mut own.lost);
        host.note_losses(store, damage_end)?;

        for mut group in groups {
            if group.state != GroupState::Quarantined {
                group.replica.restored();
            }
            let decides = host.successions.contains(group.id()).then_some(MEMBERS);
            if let Some(replica) = group.replica.register_mut() {
                replica.core_mut().set_start(host.settings.start);
                decides.into_iter().for_each(|authority| replica.core_mut().set_authority(authority));
            }
            match own.stored_in.get(&group.id()) {
                Some(&start) => host.here.losses.judge(&mut group, start),
                None if group.state == GroupState::Alive => {
                    group.state = state_after_stop(&group, &host.settings, damage_end);
                }
                None => {}
            }
            if group.state == GroupState::Alive && given_up.contains(&group.id()) {
                group.state = GroupState::Forgetful;
            }
            report.silent_count += usize::from(group.state.is_silent());
            host.clock.follow(group.machine.time());
            host.adopt(group);
        }
        host.restore_from_before(store, &mut report)?;
        host.keep_from_birth(lost);
        host.leave_sleeping(own.all, own.expiries);
        if damage_end > Lsn(0) {
            report.silent_count += host.give_up_lost_births();
        }
        host.damage = report.damage.clone();
        host.remember_silent();
        host.find_renewals();
        host.storing.note_losses();
        let awake: Vec<u32> = host.groups.iter().map(|(index, _)| index as u32).collect();
        awake.into_iter().for_each(|index| host.seek_readmission(index));
        host.counters.quarantined = faults.len() as u64;
        host.faults = faults;
        report.group_count = host.groups.len() + host.own_counts().paused;
        host.bear_root();
        host.follow_nodes();
        host.judge_clock();
        host.start_timers();
        host.ask_for_directory();
        host.reconcile_all_own_groups();
        host.tend_outside();
        host.follow_listed();
        host.tell_registers();
        host.tell_chains();
        host.follow_stored_seats();
        host.run();
        Ok((host, report))
    }

    fn with_nothing(settings: HostSettings, moment: Moment, wal: Wal, directory: Directory) -> Host {
        let asks_from = if settings.is_new { u64::MAX } else { 0 };
        let lost_groups_known_with = (settings.forgotten == Forgotten::Everything).then_some(asks_from);
        Host {
            clock: HybridClock::new(moment),
            random: settings.seed,
            demand: super::demand::DemandOfClients::new(moment.now, settings.seed),
            peers: Peers::new(settings.timing, moment.now, settings.start),
            started_at: moment.now,
            linked: Vec::new(),
            gone: Vec::new(),
            begin_asked_at: None,
            levels: HashMap::default(),
            walls: WallClocks::new(Vec::new(), settings.timing.heartbeat_us, moment),
            clock_off: true,
            seen: HashMap::default(),
            client_count: 0,
            recovered_at: HashMap::default(),
            suspected_at: HashMap::default(),
            groups: Slab::new(),
            index: HashMap::default(),
            directory,
            remembered: super::routes::Remembered::default(),
            confirmed: HashMap::default(),
            unknown_group_asked_at: moment.now,
            clients: Operations::new(1),
            internals: Operations::new(INTERNAL | 1),
            admins: Vec::new(),
            batches_open: super::batches::Batches::default(),
            changes: super::postponed::Changes::default(),
            placing: super::placement::Placing::default(),
            flushes: super::flush::Flushes::default(),
            lookups: Vec::new(),
            swapping: super::swapped::Swapping::default(),
            counting: super::census::Counting::default(),
            discarded: Vec::new(),
            questions: super::status::Questions::default(),
            reads: Slab::new(),
            read_buffers: Vec::new(),
            outbox: Outbox::default(),
            held: VecDeque::new(),
            todo: VecDeque::new(),
            running: false,
            effects: crate::replica::AnyEffects::default(),
            gathered: Vec::new(),
            executed: Vec::new(),
            held_answers: Default::default(),
            verdicts: Vec::new(),
            catch_ups: Vec::new(),
            transfers: super::transfer::Transfers::default(),
            digests: super::digests::Digests::default(),
            unlogged: super::unlogged::Unlogged::default(),
            readmissions: super::readmission::Readmissions::default(),
            seats: super::seats::SeatChanges::default(),
            emptying: super::emptied::Emptying::default(),
            removals: super::removal::Removals::default(),
            staged: Vec::new(),
            own: super::own::OwnGroups::default(),
            terms: super::chains::Terms::default(),
            registers: super::registers::Registers::default(),
            successions: Successions::default(),
            wishes: super::wishes::Wishes::default(),
            here: super::resting::OwnHere::default(),
            displaced: VecDeque::new(),
            followed: Vec::new(),
            sweeps: VecDeque::new(),
            timers: Timers::default(),
            expiries: Timers::default(),
            retries: super::retries::Retries::default(),
            wakings: Wakings::default(),
            wal,
            settings,
            scratch: Vec::new(),
            answers: Vec::new(),
            answer_bytes: 0,
            out_of_memory: false,
            out_of_space: false,
            is_leaving: false,
            routers: Routers::new(),
            told: ToldOf::default(),
            batches: Vec::new(),
            storing: super::checkpoints::Storing::default(),
            behind: super::behind::Behind::default(),
            checkpoint_wanted: VecDeque::new(),
            unstored: VecDeque::new(),
            faults: Vec::new(),
            panic_planned: None,
            silence_told: HashMap::default(),
            silence_heard: false,
            births_waiting: Vec::new(),
            lost_groups_known_with,
            damage: Vec::new(),
            alarms: Vec::new(),
            counters: Counters::default(),
        }
    }

    pub(super) fn adopt(&mut self, group: Group) {
        let (id, is_unborn) = (group.id(), group.state == GroupState::Unborn);
        let (released, lsn) = (group.checkpoint.next_slot, Lsn(0));
        let index = self.groups.insert(Box::new(group)) as u32;
        self.index.insert(id, index);
        self.note_awake(index);
        if is_unborn {
            return self.births_waiting.push(id);
        }
        self.wal.release(id.0, released.0, lsn);
        self.log_accepted_again(index);
        // Born late, and stopped before the others had told what they have executed.
        let group = &self.groups[index as usize];
        if group.own.is_some()
            && group.is_alive()
            && group.replica.paxos().is_some_and(|own| own.next_slot() == Slot(0))
        {
            self.own.late.insert(id);
        }
        self.plan(index, quorate_protocol::Event::Woken);
        self.arm_timers_after_apply(index);
    }

    /// If it cannot be read, any own group of the volumes that are here may have been.
    fn restore_from_before(&mut self, store: &impl Store, report: &mut OpenReport) -> Result<(), StoreError> {
        let Some(record) = store.node_record(FROM_BEFORE)? else { return Ok(()) };
        self.own.from_before = decode_from_before(&record).unwrap_or_else(|| {
            report.damage.push("which own groups may have been here before cannot be read: none is born here".into());
            let all = FromBefore { numbers_below: u64::MAX, slots_below: Slot(0) };
            self.groups().filter(|group| group.own().is_none()).map(|group| (group.id(), all)).collect()
        });
        Ok(())
    }

    /// What this start has found lost is known from now on, also of groups that are read only later.
    fn note_losses(&mut self, store: &impl Store, damage_end: Lsn) -> Result<(), StoreError> {
        let record = store.node_record(losses::RECORD)?;
        let known = match record.as_deref().map(Losses::decode) {
            Some(Some(known)) => known,
            Some(None) => Losses::unknown(self.settings.start, self.wal.durable()),
            None => Losses::default(),
        };
        self.here.losses = known.after_start(&self.settings, damage_end);
        if record.is_none_or(|record| record != self.here.losses.encode()) {
            let mut batch = quorate_checkpoint::Batch::new();
            self.here.losses.put(&mut batch);
            self.store(batch, Stored::Directory { births: Vec::new(), dropped: Vec::new() });
        }
        Ok(())
    }

    /// Own groups that the log says nothing of stay where they are.
    fn leave_sleeping(&mut self, all: RoaringTreemap, expiries: Vec<(GroupId, Stamp)>) {
        self.here.all |= all;
        // Whoever is woken too early, since the wall clock is wrong, rests again until it is time.
        let (now, stamp) = (self.clock.now(), self.clock.stamp().max(self.clock.wall()));
        for (group, expiry) in expiries {
            if self.find(group).is_none() {
                let wait_ms = expiry.0.saturating_sub(stamp.0);
                self.arm_expiry_of_paused(group, now.after_us(wait_ms.saturating_mul(1000)));
            }
        }
    }

    /// What a replica may have forgotten stays forgotten, however the node is stopped from now on.
    fn remember_silent(&mut self) {
        let mut batch = quorate_checkpoint::Batch::new();
        let mut dropped = Vec::new();
        for (_, group) in &self.groups {
            if matches!(group.state, GroupState::Forgetful | GroupState::Damaged) {
                let mut meta = Vec::new();
                encode_meta(group, &mut meta);
                batch.put_meta(group.id().0, meta);
            }
            // It is never checkpointed again, and would hold on to the log for ever.
            if group.state == GroupState::Damaged {
                dropped.push(group.id());
            }
        }
        if !batch.is_empty() {
            batch.delete_node_record(quarantine::RECORD);
            self.store(batch, Stored::Directory { births: Vec::new(), dropped });
        }
    }
}

/// `damage_end` is the first block of the log behind everything that is damaged.
fn state_after_stop(group: &Group, settings: &HostSettings, damage_end: Lsn) -> GroupState {
    let forgotten = settings.forgotten;
    // What is here may have been found only after it was lost.
    if forgotten == Forgotten::Everything {
        return GroupState::Forgetful;
    }
    // It has never said anything.
    if settings.is_new {
        return GroupState::Unborn;
    }
    let damaged = group.durability != Durability::Memory && group.checkpoint.covered_below < damage_end;
    let forgetful = match group.durability {
        Durability::Sync => false,
        Durability::Interval => forgotten == Forgotten::Unsynced,
        Durability::Memory => forgotten != Forgotten::Nothing,
    };
    match (forgetful, damaged) {
        (true, _) => GroupState::Forgetful,
        (_, true) if may_be_readmitted(group) || may_join_anew(group) => GroupState::Forgetful,
        (_, true) => GroupState::Damaged,
        _ => GroupState::Alive,
    }
}

/// Own groups in the store, which are not read before something comes for them.
pub(super) struct Sleeping<'a, S> {
    me: NodeId,
    store: &'a S,
    all: RoaringTreemap,
    expiries: Vec<(GroupId, Stamp)>,
    /// Those that were read after all, with the starts in which they were stored.
    stored_in: HashMap<GroupId, u32, FixedState>,
    /// They are there, and cannot be read.
    lost: Vec<GroupId>,
}

impl<'a, S: Store> Sleeping<'a, S> {
    fn new(settings: &HostSettings, store: &'a S) -> Sleeping<'a, S> {
        let (stored_in, lost) = (HashMap::default(), Vec::new());
        Sleeping { me: settings.node, store, all: RoaringTreemap::new(), expiries: Vec::new(), stored_in, lost }
    }

    fn note(&mut self, group: GroupId, record: &[u8]) {
        self.all.insert(group.0);
        if let Ok(Glance { expiry, has_object, .. }) = glance(record) {
            // Of an object that is gone, its volume may not have been told.
            let gone = (!has_object).then_some(Stamp(0));
            self.expiries.extend(expiry.or(gone).map(|expiry| (group, expiry)));
        }
    }

    /// A group that the log has something of, if it is in the store.
    pub(super) fn load(&mut self, group: GroupId, faults: &mut Vec<Fault>) -> Option<Group> {
        if !self.all.contains(group.0) || self.stored_in.contains_key(&group) || self.lost.contains(&group) {
            return None;
        }
        let revived = match read_paused(self.store, group) {
            Ok(Some(paused)) => isolate(|| paused.revive(group, self.me))
                .and_then(|revived| revived.map_err(|malformed| malformed.to_string())),
            Ok(None) => Err("it is not there".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match revived {
            Ok((revived, start, _)) => {
                self.stored_in.insert(group, start);
                Some(revived)
            }
            Err(words) => {
                self.lost.push(group);
                let (doing, namespace) = ("reading its checkpoint", ROOT_NAMESPACE);
                faults.push(Fault { group, namespace, doing, words, is_panic: false, is_quarantined: true });
                None
            }
        }
    }
}

fn restore_checkpoints<S: Store>(
    settings: &HostSettings,
    store: &S,
    directory: &Directory,
    own: &mut Sleeping<'_, S>,
    report: &mut OpenReport,
    faults: &mut Vec<Fault>,
) -> Result<Vec<Group>, OpenError> {
    let mut groups = Vec::new();
    let mut walk = store.walk_from(0);
    while let Some((group, bytes)) = walk.next_group()? {
        let id = GroupId(group);
        if volume_of(id).is_some() && is_rest(&bytes) {
            own.note(id, &bytes);
            continue;
        }
        groups.push(match decode_meta(id, &bytes) {
            Ok(meta) if meta.configuration.contains(settings.node) => {
                restore_group(settings.node, id, meta, &mut *walk, report, faults)
            }
            Ok(_) => unreadable_group(settings, directory, id, "this node is not among its members".into(), faults)?,
            Err(malformed) => unreadable_group(settings, directory, id, malformed.to_string(), faults)?,
        });
    }
    Ok(groups)
}

/// A group whose meta record says nothing that this release understands; who its members are is known from elsewhere.
fn unreadable_group(
    settings: &HostSettings,
    directory: &Directory,
    id: GroupId,
    reason: String,
    faults: &mut Vec<Fault>,
) -> Result<Group, OpenError> {
    let me = settings.node;
    let content = Machine::new(empty_content(id, [0; 16]));
    let listed = directory.state().and_then(|state| state.volumes().find(|(.., volume)| volume.group == id.0));
    let mut group = match listed {
        _ if id == ROOT => Group::new(
            Protocol::Paxos,
            seated(&directory.root_group().record, Some(&directory.root_group().seats), me),
            ROOT_NAMESPACE,
            Durability::Sync,
            [0; 16],
            content,
            me,
        ),
        Some((number, namespace, volume)) => {
            let durability = namespace.settings.durability;
            Group::new(
                namespace.settings.protocol,
                volume.configuration(),
                number,
                durability,
                namespace.hash_key,
                content,
                me,
            )
        }
        None => return Err(OpenError::Checkpoint { group: id.0, reason }),
    };
    if !group.configuration.contains(me) {
        return Err(OpenError::Checkpoint { group: id.0, reason });
    }
    give_up_unreadable(&mut group, me, "reading its checkpoint", Unreadable::Malformed(reason), faults);
    Ok(group)
}

/// What fits its checksum and cannot be read was written by a newer release, or is a bug of ours, like a panic: the replica
/// is silent, and what is on the disk stays for a release that can read it.
pub(super) fn give_up_unreadable(
    group: &mut Group,
    me: NodeId,
    doing: &'static str,
    unreadable: Unreadable,
    faults: &mut Vec<Fault>,
) {
    group.give_up(me);
    let (group, namespace) = (group.id(), group.namespace);
    let (words, is_panic) = match unreadable {
        Unreadable::Malformed(words) => (words, false),
        Unreadable::Panicked(words) => (words, true),
    };
    faults.push(Fault { group, namespace, doing, words, is_panic, is_quarantined: true });
}

pub(super) enum Unreadable {
    Malformed(String),
    /// Whoever read it panicked.
    Panicked(String),
}

/// Without any part of its checkpoint the group is there, and silent.
fn restore_group(
    me: NodeId,
    id: GroupId,
    meta: Meta,
    walk: &mut dyn Walk,
    report: &mut OpenReport,
    faults: &mut Vec<Fault>,
) -> Group {
    let (position, covered_below) = (meta.position.clone(), meta.covered_below);
    let mut state = meta.state;
    let mut unreadable = None;
    let restored = isolate(|| restore_machine(id, &meta, walk));
    let machine = match restored.unwrap_or_else(|words| Ok(Err(Unreadable::Panicked(words)))) {
        Ok(Ok(restored)) => restored,
        Ok(Err(reason)) => {
            unreadable = Some(reason);
            Machine::restored(meta.time, Results::default(), empty_content(id, meta.hash_key))
        }
        Err(error) => {
            report.damage.push(format!("the checkpoint of group {} cannot be read: {error}", id.0));
            state = GroupState::Damaged;
            Machine::restored(meta.time, Results::default(), empty_content(id, meta.hash_key))
        }
    };
    let protocol = position.protocol();
    let mut group =
        Group::new(protocol, meta.configuration, meta.namespace, meta.durability, meta.hash_key, machine, me);
    group.own = Own::of(id, &meta.name);
    group.state = state;
    let next_slot = position.next_slot();
    group.replica.restore(position);
    if unreadable.is_none()
        && state == GroupState::Alive
        && let Some(replica) = group.replica.register_mut()
    {
        match restore_versions(replica, walk) {
            Ok(Ok(())) => {}
            Ok(Err(malformed)) => unreadable = Some(Unreadable::Malformed(malformed.to_string())),
            Err(error) => {
                report.damage.push(format!("the checkpoint of group {} cannot be read: {error}", id.0));
                group.state = GroupState::Damaged;
            }
        }
    }
    group.checkpoint = CheckpointState { next_slot, covered_below, ..CheckpointState::default() };
    if let Some(reason) = unreadable {
        give_up_unreadable(&mut group, me, "reading its checkpoint", reason, faults);
    }
    group
}

/// What a register group holds, behind the head of its checkpoint.
fn restore_versions(replica: &mut RegisterReplica, walk: &mut dyn Walk) -> Result<Result<(), Malformed>, StoreError> {
    let mut restored = Ok(());
    walk.objects(&mut |name, bytes| {
        restored = take_name(name).and_then(|name| match name {
            Name::Object(key) => replica.restore_version(key, bytes),
            Name::Run(_) | Name::Children(_) => Ok(()),
        });
        restored.is_ok()
    })?;
    Ok(restored)
}

/// The store's own error says that it is damaged; otherwise there is a reason why something in it says nothing.
fn restore_machine(id: GroupId, meta: &Meta, walk: &mut dyn Walk) -> Result<Result<Machine, Unreadable>, StoreError> {
    let restored = restore_from(id, meta, |each| walk.objects(each))?;
    Ok(restored.map_err(|malformed| Unreadable::Malformed(malformed.to_string())))
}

/// The same without objects.
pub(super) fn restore_head(
    id: GroupId,
    meta: &Meta,
    store: &impl Store,
) -> Result<Result<Machine, Malformed>, StoreError> {
    restore_from(id, meta, |each| store.objects_from(id.0, BEHIND_OBJECTS, each))
}

/// `read` calls back what there is, for as long as that is wanted.
fn restore_from(
    id: GroupId,
    meta: &Meta,
    read: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), StoreError>,
) -> Result<Result<Machine, Malformed>, StoreError> {
    let mut content = empty_content(id, meta.hash_key);
    let mut results = Results::default();
    if meta.position.protocol().is_register() {
        return Ok(Ok(Machine::restored(meta.time, results, content)));
    }
    let (mut children, mut pieces) = (Vec::new(), 0);
    let mut restored = Ok(());
    read(&mut |name, bytes| {
        restored = take_name(name).and_then(|name| match name {
            Name::Object(key) => restore_object(&mut content, key, bytes),
            Name::Run(run) => results.restore_run(meta.results_base, run, bytes),
            Name::Children(piece) if piece == pieces => {
                children.extend_from_slice(bytes);
                pieces += 1;
                Ok(())
            }
            Name::Children(tag) => Err(Malformed::UnknownTag { of: "piece of a volume's own groups", tag }),
        });
        restored.is_ok()
    })?;
    meta.marks.iter().for_each(|&mark| results.mark(mark));
    let mut machine = Machine::restored(meta.time, results, content);
    machine.owns = meta.owns;
    let restored = restored.and_then(|()| machine.restore_children(&children));
    if let Some(children) = &mut machine.children {
        children.pieces = pieces;
    }
    Ok(restored.map(|()| machine))
}

fn replay_log(
    settings: &HostSettings,
    storage: &impl Storage,
    groups: &mut Vec<Group>,
    own: &mut Sleeping<'_, impl Store>,
    report: &mut OpenReport,
    faults: &mut Vec<Fault>,
) -> Result<(Wal, Vec<GroupId>), OpenError> {
    let mut replay = Replay::new(settings.node, groups, own, faults);
    let mut wal = Wal::open(storage, settings.log.clone(), |recovered| replay.take(&recovered))?;
    let Rest { strangers, lost } = replay.finish();
    strangers.into_iter().for_each(|group| wal.forget(group));
    wal.note_releases();
    report.record_count = wal.report().record_count;
    report.torn_bytes = wal.report().torn_bytes;
    report.damage.extend(wal.report().damage.iter().map(|damage| format!("the log is damaged: {damage}")));
    let made_out = &wal.report().groups_made_out;
    if !made_out.is_empty() {
        let groups: Vec<String> = made_out.iter().take(GROUPS_NAMED_MAX).map(u64::to_string).collect();
        let more = if made_out.len() > GROUPS_NAMED_MAX { " and others" } else { "" };
        report.damage.push(format!("what can be made out there is of the groups {}{more}", groups.join(", ")));
    }
    Ok((wal, lost))
}

/// It is a copy of what the root says, and the root is asked anew.
fn restore_directory(
    settings: &HostSettings,
    store: &impl Store,
    report: &mut OpenReport,
) -> Result<Directory, OpenError> {
    let root_members = match settings.joins {
        // Who has no replica of the root says so, and another one is asked.
        true => settings.nodes.iter().map(|node| NodeId(node.id)).filter(|node| *node != settings.node).collect(),
        false => root_members(&settings.nodes),
    };
    let mut directory = Directory::new(root_members, settings.nodes.clone());
    if let Some(bytes) = store.node_record(RECORD)? {
        match RootState::decode(&bytes) {
            Some(state) => drop(directory.set(state)),
            None => report.damage.push("the stored directory cannot be read: the root is asked for it".into()),
        }
    }
    // Whatever is lost of it, others tell.
    if let Some(told) = store.node_record(root_group::RECORD)?.and_then(|bytes| RootGroup::decode(&bytes)) {
        directory.hear_of_root_group(told);
    }
    Ok(directory)
}
