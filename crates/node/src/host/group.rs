//! One replica of one group, with what it holds.

use std::sync::Arc;

use quorate_object::{Command, Objects, Sought};
use quorate_protocol::id::Content as ValueContent;
use quorate_protocol::paxos::Paxos;
use quorate_protocol::{
    Configuration, Cx, Effect, Event, GroupId, Instant, NodeId, Payload, Proposal, Replica, Slot, Value, chain, paxos,
    register,
};
use quorate_wal::Lsn;

use super::coordination::Demand;
use super::quarantine::isolate;
use super::routed::Routed;
use super::transfer::empty_content;
use crate::ahead::Ahead;
use crate::envelope::Envelope;
use crate::group_state::GroupState;
use crate::machine::{Content, Machine};
use crate::register::{content_of, key_of};
use crate::replica::{AnyEffects, AnyEvent, AnyMessage, AnyReplica, AnyRequest, Protocol};
use crate::root::{Durability, Groups, Namespace};
use crate::volume::{Children, Record, own_group, volume_of};

/// The namespace number under which the root group is kept.
pub const ROOT_NAMESPACE: u32 = u32::MAX;

pub struct Group {
    pub configuration: Arc<Configuration>,
    pub namespace: u32,
    pub durability: Durability,
    /// Keys the hash of its objects' names.
    pub(super) hash_key: [u8; 16],
    pub state: GroupState,
    pub replica: AnyReplica,
    pub(crate) machine: Machine,
    /// Of a chain that is used: what its updates in flight will make of its objects.
    pub(super) ahead: Option<Box<Ahead>>,
    /// Commands of this turn, one envelope behind the other.
    pub(super) gathered: Vec<u8>,
    /// The flush that the newest record is part of.
    pub(super) lsn: Lsn,
    pub(super) checkpoint: CheckpointState,
    /// Reads that wait for an expiry to be decided.
    pub(super) due_reads: Vec<u32>,
    /// When commands or reads last came.
    pub(super) used_at: Instant,
    pub(super) expiry_timer: Option<Instant>,
    pub(super) forget_timer: bool,
    /// Of an own group: it is in the list of those with nothing in hand.
    pub(super) is_quiet: bool,
    /// It was to rest, and waits for a checkpoint.
    pub(super) rests_once_stored: bool,
    /// It is in the list of those that lack a quorum, and nothing has happened in it since then.
    pub(super) stranded_since: Option<Instant>,
    /// Its replica was set aside, to be paused, and nothing has happened since.
    pub(super) is_set_aside: bool,
    /// It is in the list of those that this node coordinates for others.
    pub(super) is_displaced: bool,
    /// Of a volume that this node coordinates.
    pub(super) demand: Option<Box<Demand>>,
    /// Of a volume that is read through routers.
    pub(super) routed: Option<Box<Routed>>,
    /// Of a volume: it is in the list of those that have executed more than the store holds.
    pub(super) is_unstored: bool,
    /// Of an own group.
    pub(super) own: Option<Box<Own>>,
    /// Of a volume: the log holds births up to here that its replica must not speak of before they are on disk.
    pub(super) births_lsn: Lsn,
    /// Of a volume: own groups that ended with these slots. What they said is kept until a checkpoint holds the slot.
    pub(super) dead: Vec<(Slot, GroupId)>,
}

/// What a replica of an own group knows of where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    pub volume: GroupId,
    pub number: u64,
    pub name: Box<[u8]>,
    /// When the volume was last told that the object is deleted, or what the group had come to when it stopped.
    pub(super) told_at: Instant,
    /// The operation with which it was told: while that is open, nothing is said again. 0 for none.
    pub(super) telling: u64,
}

impl Own {
    /// What an own group of this id and name is; `None` for any other group.
    pub(super) fn of(group: GroupId, name: &[u8]) -> Option<Box<Own>> {
        let (volume, number) = volume_of(group)?;
        Some(Box::new(Own { volume, number, name: name.into(), told_at: Instant(0), telling: 0 }))
    }
}

/// What a step will need is looked at beforehand: nothing comes of it but that it is in a cache then.
impl Group {
    pub(super) fn look(&self) -> u64 {
        let own = usize::from(self.own.is_some());
        let lengths = own ^ self.gathered.len() ^ self.due_reads.len() ^ self.machine.results.len();
        let logged = self.lsn.0 ^ self.births_lsn.0 ^ self.checkpoint.bytes ^ self.checkpoint.covered_below.0;
        let small = u64::from(self.is_quiet) ^ self.state as u64;
        lengths as u64 ^ logged ^ small ^ self.used_at.0 ^ self.machine.time.0 ^ self.replica.next_slot().0
    }

    pub(super) fn look_deeper(&self) -> u64 {
        let replica = self.replica.paxos().map_or(0, Paxos::look);
        let results = self.machine.results.look();
        let objects = self.machine.objects().map_or(0, Objects::count);
        replica ^ u64::from(self.configuration.epoch.0) ^ results ^ objects as u64
    }

    pub(super) fn look_deepest(&self) -> u64 {
        let value = self.next_value().map_or(0, |value| value.stamp.0);
        let object = self.machine.objects().map_or(0, Objects::look);
        let results = self.machine.results.look_deeper();
        value ^ u64::from(self.configuration.members[0].0) ^ u64::from(object) ^ results
    }

    pub(super) fn look_at_next(&self) -> u64 {
        match self.next_value().map(|value| &value.content) {
            Some(ValueContent::Commands(payload)) => {
                payload.first().zip(payload.last()).map_or(0, |(first, last)| (first ^ last).into())
            }
            _ => 0,
        }
    }

    fn next_value(&self) -> Option<&Value> {
        self.replica.paxos()?.next_value()
    }

    /// Where the object of the next slot may well be, if that is one command.
    pub(super) fn seek_next(&self) -> Option<(&Objects, Sought)> {
        let (objects, value) = (self.machine.objects()?, self.next_value()?);
        let ValueContent::Commands(payload) = &value.content else { return None };
        let envelope = Envelope::take(&mut &payload[..]).filter(|_| !Envelope::is_followed(payload))?;
        let sought = objects.seek(Command::key_of(envelope.command)?)?;
        Some((objects, sought))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckpointState {
    /// What the store holds, or will once the batch under way is stored.
    pub(super) next_slot: Slot,
    /// Whatever the log has of the group in blocks before this one, the store makes up for: if such a block is damaged,
    /// that does not concern the group.
    pub(super) covered_below: Lsn,
    /// Bytes of records since.
    pub(super) bytes: u64,
    /// Own groups that have begun since.
    pub(super) births: u32,
    pub(super) under_way: bool,
    /// The store holds another state than the changes are counted from: the next one stores everything.
    pub(super) whole: bool,
    /// The log is running out of room for old records.
    pub(super) urgent: bool,
    /// Something was said since the last one that it does not hold.
    pub(super) changed: bool,
    /// The replica was taken in again, and in the store is one that has forgotten what it said.
    pub(super) forgets: bool,
    /// The last one holds that this replica coordinates.
    pub(super) coordinating: bool,
    /// Of an own group: the store has it as one record, as it has groups at rest ...
    pub(super) is_record: bool,
    /// ... but its object in a place of its own.
    pub(super) apart: bool,
    /// That record has what the replica has accepted, too: the log need not ...
    pub(super) holds_accepted: bool,
    /// ... but from there on it does again.
    pub(super) logged_again: Lsn,
}

impl Group {
    pub(super) fn new(
        protocol: Protocol,
        configuration: Configuration,
        namespace: u32,
        durability: Durability,
        hash_key: [u8; 16],
        machine: Machine,
        me: NodeId,
    ) -> Group {
        let configuration = Arc::new(configuration);
        Group {
            replica: AnyReplica::new(protocol, &configuration, me),
            ahead: None,
            configuration,
            namespace,
            durability,
            hash_key,
            state: GroupState::Unborn,
            machine,
            gathered: Vec::new(),
            lsn: Lsn(0),
            checkpoint: CheckpointState::default(),
            due_reads: Vec::new(),
            used_at: Instant(0),
            expiry_timer: None,
            forget_timer: false,
            is_quiet: false,
            rests_once_stored: false,
            stranded_since: None,
            is_set_aside: false,
            is_displaced: false,
            demand: None,
            routed: None,
            is_unstored: false,
            own: None,
            births_lsn: Lsn(0),
            dead: Vec::new(),
        }
    }

    /// Whose object it is, if it is an own group.
    pub fn own(&self) -> Option<&Own> {
        self.own.as_deref()
    }

    /// Goes on where it was when it came to rest, in the same run of its node, or was paused with slots in flight.
    pub(super) fn resume(&mut self, coordinating: bool) {
        match self.replica.paxos_mut() {
            Some(replica) if replica.is_idle() => replica.resume(coordinating),
            Some(replica) => replica.restored(),
            None => {}
        }
    }

    /// Of an own group that is a register, and whose machine has what it begins with: that is the register's from now on.
    pub(super) fn begin_register(&mut self, name: &[u8]) {
        let (Some(replica), Content::Objects(objects)) = (self.replica.register_mut(), self.machine.content()) else {
            return;
        };
        if let Some((value, expires_ms)) = objects.value(name) {
            replica.begin_with(key_of(objects.hash(name), name), content_of(value, expires_ms));
        }
        self.machine = Machine::new(empty_content(self.id(), self.hash_key));
    }

    /// An own group whose object is deleted is about to end. What it has executed is answered once its volume has that, and
    /// the name is free again: until then the volume lists it.
    pub(super) fn is_object_gone(&self) -> bool {
        self.own.is_some()
            && !self.replica.protocol().is_register()
            && self.machine.objects().is_some_and(|objects| objects.count() == 0)
    }

    /// Whether it may come to rest, and is stored as one record then.
    pub(super) fn rests(&self) -> bool {
        self.own.is_some() && !self.replica.protocol().is_register()
    }

    pub fn id(&self) -> GroupId {
        self.configuration.group
    }

    /// Whether its coordinator asks each member how far it has executed. A volume's births are complete once all say that they
    /// have executed them.
    pub(super) fn wants_frontiers(&self) -> bool {
        volume_of(self.id()).is_none()
    }

    pub fn is_alive(&self) -> bool {
        self.state == GroupState::Alive
    }

    /// A step of its replica. A chain's head executes commands before it proposes what has become of them. If that is too much for
    /// one update, the other commands come back, to be proposed next.
    pub(super) fn step(&mut self, cx: &mut Cx<'_>, event: AnyEvent, effects: &mut AnyEffects) -> Option<Payload> {
        let mut left = None;
        match &mut self.replica {
            AnyReplica::Paxos(replica) => {
                if let Some(event) = of_paxos(event) {
                    replica.step(cx, event, &mut effects.paxos);
                }
            }
            AnyReplica::Register(replica) => {
                if let Some(event) = of_register(event) {
                    replica.core_mut().step(cx, event, &mut effects.register);
                }
            }
            AnyReplica::Chain(replica) => {
                let event = of_chain(event)?;
                let event = match event {
                    Event::Proposed(Proposal::Commands(envelopes)) => {
                        let ahead = self.ahead.get_or_insert_with(|| Box::new(Ahead::new(self.hash_key)));
                        match replica.order(cx) {
                            Ok(order) => {
                                let (changes, rest) = ahead.execute(replica, &self.machine, &order, &envelopes);
                                left = Some(rest).filter(|rest| !rest.is_empty()).map(Payload::from);
                                Event::Proposed(Proposal::Commands(Payload::from(&changes[..])))
                            }
                            Err(why) => {
                                let proposal = Proposal::Commands(envelopes);
                                effects.chain.list.push(Effect::Refused { proposal, why });
                                return None;
                            }
                        }
                    }
                    event => event,
                };
                replica.step(cx, event, &mut effects.chain);
            }
        }
        left
    }

    /// Whether an update in flight concerns what this command reads: then not every member can answer it.
    pub(super) fn is_in_flight(&mut self, command: &[u8]) -> bool {
        let AnyReplica::Chain(replica) = &self.replica else { return false };
        if replica.next_slot() == replica.received() {
            return false;
        }
        let ahead = self.ahead.get_or_insert_with(|| Box::new(Ahead::new(self.hash_key)));
        ahead.concerns(replica, command)
    }

    /// After a panic: nothing of what the replica had in hand is looked at again, and what stands in its place is empty
    /// and says nothing.
    pub(super) fn give_up(&mut self, me: NodeId) {
        self.state = GroupState::Quarantined;
        let mut empty = AnyReplica::new(self.replica.protocol(), &self.configuration, me);
        empty.restored();
        let replica = std::mem::replace(&mut self.replica, empty);
        let empty = Machine::new(empty_content(self.id(), self.hash_key));
        let machine = std::mem::replace(&mut self.machine, empty);
        // It may be in no state to be dropped either.
        let _ = isolate(|| drop((replica, machine)));
    }

    /// The coordinator that the group was born with, and that coordination returns to.
    pub(super) fn preferred(&self) -> NodeId {
        self.configuration.members[0]
    }

    /// Whether names of its own groups are in the checkpoint store only.
    pub fn has_swapped(&self) -> bool {
        self.machine.has_swapped()
    }

    /// Of a volume: its own groups that begin, and those that end.
    pub fn changing_own(&self) -> (Vec<u64>, Vec<u64>) {
        let numbers = |children: &Children| {
            let begin = children.starting_by_number().map(|(number, _)| number).collect();
            (begin, children.stopping.keys().copied().collect())
        };
        self.machine.children().map(numbers).unwrap_or_default()
    }

    /// Of a volume: its own groups with their members. Those are left out whose records are in the store only.
    pub fn own_groups(&self) -> Vec<(GroupId, Vec<NodeId>)> {
        let mut groups = Vec::new();
        if let Some(objects) = self.machine.objects() {
            objects.for_each_away(|_, bytes| {
                if let Ok(record) = Record::decode(bytes) {
                    let members = record.member_ids(&self.configuration.members);
                    groups.push((own_group(self.id(), record.number), members));
                }
            });
        }
        groups
    }

    /// Equal on replicas that stand at the same slot. No names may be swapped.
    pub fn machine_digest(&self) -> u64 {
        self.machine.digest()
    }

    /// Of a volume: whether it finds own groups by number and by node as their records say.
    pub fn keeps_names_right(&self) -> bool {
        self.machine.keeps_names_right()
    }

    /// Panics, naming the values, if an invariant of the replica is broken.
    pub fn assert_sound(&self) {
        self.replica.check();
    }

    pub(super) fn empty_machine(namespace: &Namespace) -> Machine {
        let mut machine = Machine::new(Content::Objects(Box::new(Objects::new(namespace.hash_key))));
        machine.owns = namespace.settings.groups == Groups::Own;
        machine
    }
}

/// What is meant for another protocol is no event: who sends it has the group for another.
fn of_paxos(event: AnyEvent) -> Option<Event<paxos::Message>> {
    Some(match event {
        Event::Received { from, message: AnyMessage::Paxos(message) } => Event::Received { from, message },
        Event::Received { .. } | Event::Requested(_) => return None,
        Event::Proposed(proposal) => Event::Proposed(proposal),
        Event::Suspected(node) => Event::Suspected(node),
        Event::Silenced(node) => Event::Silenced(node),
        Event::Woken => Event::Woken,
    })
}

fn of_chain(event: AnyEvent) -> Option<Event<chain::Message, chain::Request>> {
    Some(match event {
        Event::Received { from, message: AnyMessage::Chain(message) } => Event::Received { from, message },
        Event::Requested(AnyRequest::Chain(request)) => Event::Requested(request),
        Event::Received { .. } | Event::Requested(_) => return None,
        Event::Proposed(proposal) => Event::Proposed(proposal),
        Event::Suspected(node) => Event::Suspected(node),
        Event::Silenced(node) => Event::Silenced(node),
        Event::Woken => Event::Woken,
    })
}

fn of_register(event: AnyEvent) -> Option<Event<register::Message, register::Request>> {
    Some(match event {
        Event::Received { from, message: AnyMessage::Register(message) } => Event::Received { from, message },
        Event::Requested(AnyRequest::Register(request)) => Event::Requested(request),
        Event::Received { .. } | Event::Requested(_) => return None,
        Event::Proposed(proposal) => Event::Proposed(proposal),
        Event::Suspected(node) => Event::Suspected(node),
        Event::Silenced(node) => Event::Silenced(node),
        Event::Woken => Event::Woken,
    })
}
