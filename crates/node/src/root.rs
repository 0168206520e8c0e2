//! The root group's state: the nodes, the namespaces and the record of every volume.
//!
//! A copy of it, at most a little old, is every node's *directory*: the way from a key to the group that holds it.
//! Routing by an old copy is harmless, since whoever is asked wrongly says so. Replicas come to life only from a copy
//! that the root gave as a linearizable answer.

mod absence;
mod layout;
mod nodes;
mod own_seats;
mod placement;
mod planner;
mod registers;
mod seats;
mod settings;
mod upgrade;

use std::collections::BTreeMap;

use quorate_object::Outcome;
use quorate_protocol::{Epoch, GroupId, NodeId};
use serde::{Deserialize, Serialize};

use crate::level::FeatureLevel;
use crate::office::{Office, decode_with_office};
use crate::quorum::{Quorum, Stages};
pub use crate::record::GroupRecord;
use crate::replica::Protocol;
pub(crate) use absence::Spared;
pub use absence::{REPLACE_AFTER_S_MAX, ReplaceAfter};
pub(crate) use layout::{HAS_CHANGED, Places, stays};
pub use nodes::{NAME_LENGTH_MAX, NODES_MAX, check_name};
pub use placement::{PlaceCommand, Placement, Seats};
pub(crate) use planner::{Health, plan};
pub use registers::check_quorum;
pub(crate) use seats::RootGroup;
pub(crate) use settings::NO_LEASE;
pub use settings::{Authority, Durability, Groups, INTERVAL_US, Reads, Settings, replicas_max};
use settings::{ROUTED_FOR_EVER, refused_reads};
pub use upgrade::{Upgrade, UpgradeCommand, VERSION_BYTES_MAX};

/// The root group's own identity.
pub const ROOT: GroupId = GroupId(1);

/// Hash slots of a namespace, as in Redis Cluster.
pub const SLOT_COUNT: u32 = 16_384;

pub const NAMESPACE_NUMBER_MAX: u32 = 9_999;
pub const NAMESPACE_COUNT_MAX: usize = 1_000;
pub const REPLICAS_MAX: u8 = 15;
/// Replicas of a register.
pub const REGISTER_REPLICAS_MAX: u8 = 49;
/// Members of a group.
pub const MEMBERS_MAX: usize = REPLICAS_MAX as usize;
pub const VOLUMES_MAX: u32 = 4_096;
/// No namespace is made that would make the encoded state larger. It is one value in the checkpoint store and in the log of each
/// node, and grows a little while configurations follow each other.
const STATE_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootState {
    /// Rises with every change.
    pub version: u64,
    /// In the order of their numbers.
    pub nodes: Vec<NodeRecord>,
    pub namespaces: BTreeMap<u32, Namespace>,
    group_next: u64,
    /// The latest that was taken.
    pub(crate) office: Office,
    /// The rolling upgrade that is under way.
    pub upgrade: Option<Upgrade>,
    /// What all nodes can do.
    pub level: FeatureLevel,
    pub placement: Placement,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub id: u32,
    pub name: String,
    pub peer: String,
    pub client: String,
    pub admin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    pub settings: Settings,
    /// Keys the hash of object names, on all replicas alike.
    pub hash_key: [u8; 16],
    pub volumes: Vec<GroupRecord>,
}

/// A command on the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootCommand {
    /// The whole state, unless it still is at this version.
    Read {
        version: u64,
    },
    CreateNamespace {
        number: u32,
        settings: Settings,
        /// Where members decide, those that are named; none for as many as `settings` says.
        members: Vec<u32>,
    },
    /// Changes what can change while a namespace lives.
    SetNamespace {
        number: u32,
        reads: Reads,
    },
    DropNamespace {
        number: u32,
    },
    /// Another configuration of a volume that is a chain, unless it has had one since this epoch. Only the coordinator of the
    /// root proposes it, when it knows that whoever is left out answers nothing any more; void behind a later office than its own.
    Reconfigure {
        group: u64,
        epoch: u32,
        members: Vec<u32>,
        joining: Option<u32>,
        office: Office,
    },
    /// Other quorums for all register groups of a namespace, among the members that they have.
    SetQuorum {
        number: u32,
        quorum: Quorum,
    },
    /// Other members, and perhaps other quorums, for a volume of registers: its successor is decided.
    MoveRegisters {
        group: u64,
        members: Vec<u32>,
        quorum: Option<Quorum>,
    },
    /// Another epoch for a volume of registers that stands at this one. With a fence, all members have drained up to it.
    RenewRegisters {
        group: u64,
        epoch: u32,
        fence: Option<u32>,
    },
    /// A member has made the volume ready to go on in this epoch's configuration alone.
    RetireBefore {
        group: u64,
        epoch: u32,
    },
    /// Where members decide, what they have decided: for nodes that hear of the group from the root alone.
    NoteMembers {
        group: u64,
        stages: Stages,
    },
    /// Whoever coordinates the root is about to give terms.
    TakeOffice {
        office: Office,
    },
    Upgrade(UpgradeCommand),
    Place(PlaceCommand),
}

impl RootCommand {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let bytes = postcard::to_stdvec(self).expect("plain data has an encoding");
        out.extend_from_slice(&bytes);
    }

    pub fn decode(bytes: &[u8]) -> Option<RootCommand> {
        decode_with_office(bytes)
    }
}

impl RootState {
    /// What a cluster begins with: its nodes, and namespace 0.
    pub fn bootstrap(mut nodes: Vec<NodeRecord>, defaults: Settings, seed: u64) -> RootState {
        nodes.sort_by_key(|node| node.id);
        let mut root = RootState { version: 1, nodes, ..RootState::empty() };
        root.create(0, defaults, &[], seed);
        root
    }

    /// Nothing at all, to be restored into.
    pub fn empty() -> RootState {
        RootState {
            version: 0,
            nodes: Vec::new(),
            namespaces: BTreeMap::new(),
            group_next: ROOT.0 + 1,
            office: Office::default(),
            upgrade: None,
            level: FeatureLevel::FIRST,
            placement: Placement::default(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain data has an encoding")
    }

    pub fn decode(bytes: &[u8]) -> Option<RootState> {
        upgrade::decode(bytes)
    }

    pub fn execute(&mut self, command: &RootCommand, seed: u64) -> Outcome {
        match command {
            RootCommand::Read { .. } => self.read(command),
            RootCommand::CreateNamespace { number, settings, members } => {
                self.create_namespace(*number, *settings, members, seed)
            }
            RootCommand::SetNamespace { number, reads } => {
                let Some(namespace) = self.namespaces.get_mut(number) else { return no_such_namespace(*number) };
                let protocol = namespace.settings.protocol;
                if protocol.is_register() && *reads == Reads::Lease {
                    return Outcome::Error(NO_LEASE.into());
                }
                if let Some(refusal) = refused_reads(protocol, *reads) {
                    return refusal;
                }
                if (*reads == Reads::Routed) != (namespace.settings.reads == Reads::Routed) {
                    return error(ROUTED_FOR_EVER);
                }
                namespace.settings.reads = *reads;
                self.version += 1;
                Outcome::Ok
            }
            RootCommand::Reconfigure { office, .. } if *office < self.office => Outcome::Nil,
            RootCommand::Reconfigure { group, epoch, members, joining, .. } => {
                let volumes = self.namespaces.values_mut().flat_map(|namespace| &mut namespace.volumes);
                let found = volumes.into_iter().find(|volume| volume.group == *group && volume.epoch == *epoch);
                let Some(volume) = found else { return Outcome::Nil };
                volume.reconfigure(members.clone(), *joining);
                self.note_members_of_chain(*group, members);
                self.version += 1;
                Outcome::Ok
            }
            RootCommand::SetQuorum { number, quorum } => self.set_quorum(*number, *quorum),
            RootCommand::MoveRegisters { group, members, quorum } => self.move_registers(*group, members, *quorum),
            RootCommand::RenewRegisters { group, epoch, fence } => {
                self.renew_registers(*group, *epoch, fence.map(Epoch))
            }
            RootCommand::RetireBefore { group, epoch } => self.retire_before(*group, *epoch),
            RootCommand::NoteMembers { group, stages } => self.note_members(*group, stages),
            RootCommand::TakeOffice { office } => {
                self.office = self.office.max(*office);
                Outcome::Ok
            }
            RootCommand::Upgrade(command) => self.execute_upgrade(command),
            RootCommand::Place(command) => self.execute_place(command),
            RootCommand::DropNamespace { number: 0 } => error("namespace 0 cannot be dropped: FLUSHDB empties it"),
            RootCommand::DropNamespace { number } => {
                if self.namespaces.remove(number).is_none() {
                    return no_such_namespace(*number);
                }
                self.forget_seats();
                self.version += 1;
                Outcome::Ok
            }
        }
    }

    pub fn read(&self, command: &RootCommand) -> Outcome {
        match command {
            RootCommand::Read { version } if *version < self.version => Outcome::Bulk(self.encode()),
            _ => Outcome::Nil,
        }
    }

    /// Every volume of this protocol whose configurations the root decides.
    pub fn led(&self, protocol: Protocol) -> impl Iterator<Item = &GroupRecord> {
        let is_led = move |settings: &Settings| settings.protocol == protocol && !settings.authority.is_members();
        let namespaces = self.namespaces.values().filter(move |namespace| is_led(&namespace.settings));
        namespaces.flat_map(|namespace| &namespace.volumes)
    }

    /// The number of the next group.
    pub(crate) fn group_next(&self) -> u64 {
        self.group_next
    }

    pub(crate) fn has_given(&self, group: GroupId) -> bool {
        group.0 < self.group_next
    }

    /// Whether a volume of this id was there and is not any more.
    pub(crate) fn has_dropped(&self, group: GroupId) -> bool {
        self.has_given(group) && !self.volumes().any(|(.., volume)| volume.group == group.0)
    }

    /// The volume that holds a hash slot, and its place among the namespace's volumes.
    pub fn volume_of_slot(&self, namespace: u32, slot: u16) -> Option<(u32, &GroupRecord)> {
        let volumes = &self.namespaces.get(&namespace)?.volumes;
        let index = u32::from(slot) * volumes.len() as u32 / SLOT_COUNT;
        volumes.get(index as usize).map(|volume| (index, volume))
    }

    /// Every volume with its namespace.
    pub fn volumes(&self) -> impl Iterator<Item = (u32, &Namespace, &GroupRecord)> {
        self.namespaces
            .iter()
            .flat_map(|(number, namespace)| namespace.volumes.iter().map(move |volume| (*number, namespace, volume)))
    }

    fn create_namespace(&mut self, number: u32, settings: Settings, members: &[u32], seed: u64) -> Outcome {
        if number > NAMESPACE_NUMBER_MAX {
            return error(&format!("a namespace is a number from 0 to {NAMESPACE_NUMBER_MAX}"));
        }
        if self.namespaces.contains_key(&number) {
            return error(&format!("namespace {number} exists already"));
        }
        if self.namespaces.len() >= NAMESPACE_COUNT_MAX {
            return error(&format!("there are {NAMESPACE_COUNT_MAX} namespaces already: drop one first"));
        }
        let replicas_max = replicas_max(settings.protocol);
        if settings.replicas == 0 || settings.replicas > replicas_max {
            return error(&format!("REPLICAS must be from 1 to {replicas_max}"));
        }
        if usize::from(settings.replicas) > self.nodes.len() {
            let (replicas, nodes) = (settings.replicas, self.nodes.len());
            return error(&format!("REPLICAS {replicas} needs as many nodes, and the cluster has {nodes}"));
        }
        if settings.volumes == 0 || settings.volumes > VOLUMES_MAX {
            return error(&format!("VOLUMES must be from 1 to {VOLUMES_MAX}"));
        }
        if settings.protocol != Protocol::Paxos && settings.groups == Groups::Own {
            return error("GROUPS own goes with PROTOCOL paxos");
        }
        if settings.groups == Groups::Own && settings.reads == Reads::Routed {
            return error("READS routed goes with GROUPS volumes: reads of own groups are not routed");
        }
        if let Err(refusal) = self.check_authority(&settings, members).and_then(|()| check_quorum(&settings)) {
            return Outcome::Error(refusal);
        }
        if let Some(refusal) = refused_reads(settings.protocol, settings.reads) {
            return refusal;
        }
        let group_next = self.group_next;
        self.create(number, settings, members, seed);
        if self.encode().len() > STATE_BYTES_MAX {
            // Nobody has been told of it.
            self.namespaces.remove(&number);
            self.group_next = group_next;
            return error(&format!(
                "all namespaces together would have more volumes than the cluster can keep account of, which takes \
                 {STATE_BYTES_MAX} bytes at most: make fewer, or drop a namespace"
            ));
        }
        self.version += 1;
        Outcome::Ok
    }

    /// Volume i's members, unless they are named, are the nodes from the i-th on, around, of those that stay: every node
    /// coordinates as many volumes as any other.
    fn create(&mut self, number: u32, mut settings: Settings, named: &[u32], seed: u64) {
        settings.replicas = settings.replicas.min(self.nodes.len() as u8);
        // It was not said, or it would have been refused.
        if settings.protocol.is_register() && settings.reads == Reads::Lease {
            settings.reads = Reads::Quorum;
        }
        let nodes = self.nodes_for_new(settings.replicas.into());
        let mut volumes = Vec::with_capacity(settings.volumes as usize);
        for index in 0..settings.volumes as usize {
            let members: Vec<u32> = match named {
                [] => laid_out(nodes.len(), index, settings.replicas.into()).map(|at| nodes[at]).collect(),
                named => named.to_vec(),
            };
            let group = GroupId(self.group_next);
            let volume = GroupRecord::new(settings.protocol, group, members, settings.quorum);
            volumes.push(volume);
            self.group_next += 1;
        }
        let mut hash_key = [0; 16];
        hash_key[..8].copy_from_slice(&seed.to_le_bytes());
        hash_key[8..].copy_from_slice(&seed.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        self.namespaces.insert(number, Namespace { settings, hash_key, volumes });
    }
}

/// Where a namespace's volume lies among so many nodes. Each is the first of as many volumes as any other, or one more, and those
/// that come behind it are others each time: what one node coordinated is taken over by all of the rest.
fn laid_out(nodes: usize, index: usize, replicas: usize) -> impl Iterator<Item = usize> {
    let (first, round) = (index % nodes, index / nodes);
    let others = (0..nodes - 1).map(move |k| (first + 1 + (round + k) % (nodes - 1)) % nodes);
    std::iter::once(first).chain(others).take(replicas)
}

/// The root is born with 3 members, 5 from five nodes on: the first nodes by number. Whoever has its state asks that, which knows
/// them also when nodes have come or gone: [`RootState::root_members`].
pub fn root_members(nodes: &[NodeRecord]) -> Vec<NodeId> {
    let count = if nodes.len() >= 5 { 5 } else { nodes.len().min(3) };
    let mut ids: Vec<NodeId> = nodes.iter().map(|node| NodeId(node.id)).collect();
    ids.sort();
    ids.truncate(count);
    ids
}

fn no_such_namespace(number: u32) -> Outcome {
    error(&format!("no namespace {number}: QUORATE NAMESPACE LIST shows those that exist"))
}

fn no_such_node(id: u32) -> Outcome {
    error(&format!("no node {id}"))
}

fn error(text: &str) -> Outcome {
    Outcome::Error(format!("ERR {text}"))
}

#[cfg(test)]
impl RootState {
    /// Of nodes that nobody connects to.
    fn of_nodes(count: u32, settings: Settings) -> RootState {
        let record = |id| NodeRecord {
            id,
            name: format!("n{id}"),
            peer: String::new(),
            client: String::new(),
            admin: String::new(),
        };
        RootState::bootstrap((1..=count).map(record).collect(), settings, 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_protocol::{Ballot, NodeId};

    fn cluster(nodes: u32) -> RootState {
        RootState::of_nodes(nodes, Settings::default())
    }

    #[test]
    fn every_slot_has_a_volume_and_coordinators_are_even() {
        let root = cluster(5);
        let mut slots = [0; 64];
        for slot in 0..SLOT_COUNT as u16 {
            slots[root.volume_of_slot(0, slot).unwrap().0 as usize] += 1;
        }
        assert!(slots.iter().all(|&count| count == 256));
        let mut coordinated = [0; 6];
        root.volumes().for_each(|(_, _, volume)| coordinated[volume.members[0] as usize] += 1);
        assert_eq!(coordinated[1..], [13, 13, 13, 13, 12]);
    }

    #[test]
    fn what_a_node_coordinated_is_taken_over_by_all_others() {
        for (nodes, replicas) in [(3, 3), (4, 3), (5, 3), (7, 5), (2, 2)] {
            let rounds = 6 * (nodes - 1);
            let mut volumes = (0..nodes * rounds).map(|index| laid_out(nodes, index, replicas).collect::<Vec<_>>());
            let mut next = BTreeMap::new();
            let mut last = BTreeMap::new();
            volumes.by_ref().for_each(|members| {
                assert_eq!(members.iter().collect::<std::collections::BTreeSet<_>>().len(), replicas);
                *next.entry((members[0], members[1])).or_insert(0) += 1;
                *last.entry(members[replicas - 1]).or_insert(0) += 1;
            });
            assert!(next.values().all(|&count| count == rounds / (nodes - 1)), "{nodes} nodes: {next:?}");
            assert_eq!(next.len(), nodes * (nodes - 1));
            assert!(last.values().all(|&count| count == rounds), "of chains, tails are as even as heads: {last:?}");
        }
        assert_eq!(laid_out(1, 5, 1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn group_ids_are_not_used_again() {
        let mut root = cluster(3);
        let create = RootCommand::CreateNamespace { number: 1, settings: Settings::default(), members: Vec::new() };
        assert_eq!(root.execute(&create, 1), Outcome::Ok);
        let first = root.namespaces[&1].volumes[0].group;
        assert_eq!(root.execute(&RootCommand::DropNamespace { number: 1 }, 2), Outcome::Ok);
        assert_eq!(root.execute(&create, 3), Outcome::Ok);
        assert!(root.namespaces[&1].volumes[0].group > first + 63);
    }

    #[test]
    fn the_limits_of_a_namespace_are_told() {
        let mut root = cluster(3);
        let refused = |root: &mut RootState, number, settings| {
            let create = RootCommand::CreateNamespace { number, settings, members: Vec::new() };
            let outcome = root.execute(&create, 1);
            matches!(outcome, Outcome::Error(_))
        };
        let settings = Settings::default();
        assert!(refused(&mut root, 0, settings));
        assert!(refused(&mut root, NAMESPACE_NUMBER_MAX + 1, settings));
        assert!(refused(&mut root, 1, Settings { replicas: 4, ..settings }));
        assert!(refused(&mut root, 1, Settings { volumes: 0, ..settings }));
        assert!(refused(&mut root, 1, Settings { volumes: VOLUMES_MAX + 1, ..settings }));
        assert!(!refused(&mut root, NAMESPACE_NUMBER_MAX, Settings { volumes: VOLUMES_MAX, ..settings }));
    }

    #[test]
    fn registers_are_read_by_quorums_unless_something_else_is_said_which_is_refused() {
        let mut root = cluster(3);
        let settings = Settings { protocol: Protocol::Register, volumes: 1, ..Settings::default() };
        assert_eq!(settings.reads, Reads::Lease, "the default is that of others");
        let create = RootCommand::CreateNamespace { number: 1, settings, members: Vec::new() };
        assert_eq!(root.execute(&create, 1), Outcome::Ok);
        let set = |number, reads| RootCommand::SetNamespace { number, reads };
        let before = root.clone();
        assert_eq!(root.execute(&set(1, Reads::Lease), 1), Outcome::Error(NO_LEASE.into()));
        for reads in [Reads::Local, Reads::Apportioned, Reads::Routed] {
            assert!(matches!(root.execute(&set(1, reads), 1), Outcome::Error(_)), "{reads:?}");
        }
        assert_eq!(root, before);
        assert_eq!(root.execute(&set(1, Reads::Quorum), 1), Outcome::Ok);
        assert_eq!(root.execute(&set(0, Reads::Lease), 1), Outcome::Ok);
        assert_eq!(
            (root.namespaces[&0].settings.reads, root.namespaces[&1].settings.reads),
            (Reads::Lease, Reads::Quorum)
        );
    }

    #[test]
    fn routed_reads_are_for_volumes_of_paxos_and_for_ever() {
        let mut root = cluster(3);
        let routed = Settings { reads: Reads::Routed, volumes: 1, ..Settings::default() };
        let create = |number, settings| RootCommand::CreateNamespace { number, settings, members: Vec::new() };
        for settings in [
            Settings { protocol: Protocol::Chain, ..routed },
            Settings { protocol: Protocol::Register, ..routed },
            Settings { groups: Groups::Own, ..routed },
        ] {
            assert!(matches!(root.execute(&create(1, settings), 1), Outcome::Error(_)), "{settings:?}");
        }
        assert_eq!(root.execute(&create(1, routed), 1), Outcome::Ok);
        let set = |number, reads| RootCommand::SetNamespace { number, reads };
        for (number, reads) in [(1, Reads::Lease), (1, Reads::Local), (0, Reads::Routed)] {
            assert_eq!(root.execute(&set(number, reads), 1), error(ROUTED_FOR_EVER), "{number} {reads:?}");
        }
        assert_eq!(root.execute(&set(1, Reads::Routed), 1), Outcome::Ok);
    }

    #[test]
    fn a_namespace_that_would_make_the_state_too_large_is_refused() {
        let mut root = cluster(u32::from(REGISTER_REPLICAS_MAX));
        let (protocol, reads) = (Protocol::Register, Reads::Quorum);
        let settings =
            Settings { volumes: VOLUMES_MAX, replicas: REGISTER_REPLICAS_MAX, protocol, reads, ..Settings::default() };
        let create = |number| RootCommand::CreateNamespace { number, settings, members: Vec::new() };
        let refused = (1..).find(|&number| root.execute(&create(number), 1) != Outcome::Ok).expect("there is a limit");
        assert!(root.encode().len() <= STATE_BYTES_MAX && root.encode().len() > STATE_BYTES_MAX * 9 / 10);
        let before = root.clone();
        let outcome = root.execute(&create(refused), 1);
        assert!(matches!(&outcome, Outcome::Error(line) if line.contains("make fewer")), "{outcome:?}");
        assert_eq!(root, before);
        assert_eq!(root.execute(&RootCommand::DropNamespace { number: 1 }, 1), Outcome::Ok);
        assert_eq!(root.execute(&create(refused), 1), Outcome::Ok);
    }

    #[test]
    fn reading_an_unchanged_root_costs_nothing() {
        let root = cluster(3);
        assert_eq!(root.read(&RootCommand::Read { version: 1 }), Outcome::Nil);
        let Outcome::Bulk(bytes) = root.read(&RootCommand::Read { version: 0 }) else { panic!() };
        assert_eq!(RootState::decode(&bytes), Some(root));
    }

    #[test]
    fn a_change_of_a_chain_is_void_behind_a_later_office() {
        let mut root = cluster(3);
        let settings = Settings { protocol: Protocol::Chain, ..Settings::default() };
        root.execute(&RootCommand::CreateNamespace { number: 1, settings, members: Vec::new() }, 1);
        let chain = root.namespaces[&1].volumes[0].clone();
        let office = |number| Office::from(Ballot { number, node: NodeId(1) });
        let without_tail = |number| RootCommand::Reconfigure {
            group: chain.group,
            epoch: 0,
            members: chain.members[..2].to_vec(),
            joining: None,
            office: office(number),
        };
        assert_eq!(root.execute(&RootCommand::TakeOffice { office: office(5) }, 1), Outcome::Ok);
        assert_eq!(root.execute(&RootCommand::TakeOffice { office: office(3) }, 1), Outcome::Ok, "it comes late");
        let before = root.clone();
        assert_eq!(root.execute(&without_tail(4), 1), Outcome::Nil);
        assert_eq!(root, before);
        let mut restored = RootState::decode(&root.encode()).expect("it was encoded");
        assert_eq!(restored.execute(&without_tail(4), 1), Outcome::Nil, "a copy knows it too");
        assert_eq!(restored.execute(&without_tail(5), 1), Outcome::Ok);
        assert_eq!(restored.namespaces[&1].volumes[0].members.len(), 2);
    }
}
