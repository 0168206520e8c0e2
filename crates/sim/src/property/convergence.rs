//! Convergence: once faults are over and nothing is asked any more, all replicas of a group stand at the same slot with
//! the same state; members of a register group know the same configuration and no other. Those that were given up are left
//! out.

use std::collections::{BTreeMap, BTreeSet};

use quorate_node::register::RegisterReplica;
use quorate_node::root::{Durability, ROOT};
use quorate_node::volume::volume_of;
use quorate_node::{Group, GroupState, Host};
use quorate_protocol::{GroupId, NodeId, Slot};

use crate::world::Node;

/// Whether every replica has executed what any replica of its group has, and all nodes know who the members are where those
/// decide that.
pub fn is_converged(nodes: &[Node]) -> bool {
    let mut newest = BTreeMap::new();
    let mut known = nodes.iter().filter_map(Node::host).flat_map(Host::newest_epochs);
    if !known.all(|(group, epoch)| *newest.entry(group).or_insert(epoch) == epoch) {
        return false;
    }
    if nodes.iter().filter_map(Node::host).any(|host| left_over(host).next().is_some()) {
        return false;
    }
    if nodes.iter().filter_map(Node::host).any(is_replacing) {
        return false;
    }
    let mut slots: BTreeMap<GroupId, Slot> = BTreeMap::new();
    let is_same = nodes.iter().filter_map(Node::host).flat_map(judged).all(|group| {
        let first = *slots.entry(group.id()).or_insert(standing(group));
        // Names that nodes were told to read again may be on their way.
        let is_whole = !group.has_swapped();
        group.is_alive() && is_whole && first == standing(group) && group.replica.register().is_none_or(is_settled)
    });
    is_same && changing_own(nodes).next().is_none() && own_amiss(nodes).is_empty()
}

/// Whether replicas of volumes are on their way to other nodes, as far as any node knows, or are left where they were; or own groups
/// that could leave nodes which are to be emptied; or a node is taken for absent.
pub fn is_moving(nodes: &[Node]) -> bool {
    let is_moving =
        |host: &Host| host.sees_moves() || !host.absent_nodes().is_empty() || host.has_to_move_off().is_some();
    nodes.iter().filter_map(Node::host).any(is_moving)
}

/// Volumes of which own groups begin or end still.
fn changing_own(nodes: &[Node]) -> impl Iterator<Item = &Group> {
    nodes.iter().filter_map(Node::host).flat_map(judged).filter(|group| group.changing_own() != Default::default())
}

/// Own groups that are not where their volumes say that they are, in words.
fn own_amiss(nodes: &[Node]) -> Vec<String> {
    let hosts = || nodes.iter().filter_map(Node::host);
    let members: BTreeMap<GroupId, Vec<NodeId>> = hosts().flat_map(judged).flat_map(Group::own_groups).collect();
    let mut amiss = Vec::new();
    for host in hosts() {
        let node = host.settings().node;
        let given_up: BTreeSet<GroupId> = host.groups().filter(|group| is_given_up(group)).map(Group::id).collect();
        let is_told = |group: GroupId| volume_of(group).is_some_and(|(volume, _)| !given_up.contains(&volume));
        let here: BTreeSet<GroupId> = host.own_groups().filter(|group| is_told(*group)).collect();
        let is_missing = |group: &GroupId| {
            let is_kept = here.contains(group) || host.is_kept_from_birth(*group);
            members[group].contains(&node) && is_told(*group) && !is_kept
        };
        amiss.extend(members.keys().filter(|group| is_missing(group)).map(|group| format!("{node} lacks {group:?}")));
        let is_over = |group: &&GroupId| !members.contains_key(group);
        amiss.extend(here.iter().filter(is_over).map(|group| format!("{node} still has {group:?}")));
    }
    amiss
}

/// The groups of a node that are judged. An own group hears of nothing any more where its volume's replica was given up.
fn judged(host: &Host) -> impl Iterator<Item = &Group> {
    let given_up: BTreeSet<GroupId> = host.groups().filter(|group| is_given_up(group)).map(Group::id).collect();
    host.groups()
        .filter(|group| !is_given_up(group) && group.replica.is_inside())
        .filter(move |group| volume_of(group.id()).is_none_or(|(volume, _)| !given_up.contains(&volume)))
}

/// Whether the replica is silent with reason.
fn is_given_up(group: &Group) -> bool {
    match group.state {
        GroupState::Quarantined => true,
        GroupState::Forgetful => group.durability == Durability::Interval || group.own().is_some(),
        GroupState::Damaged => group.own().is_some(),
        _ => false,
    }
}

/// Groups of volumes that this node knows to be dropped.
fn left_over(host: &Host) -> impl Iterator<Item = GroupId> {
    let volumes: Option<BTreeSet<u64>> =
        host.directory().map(|root| root.volumes().map(|(.., volume)| volume.group).chain([ROOT.0]).collect());
    host.groups().map(Group::id).filter(move |&group| {
        let volume = volume_of(group).map_or(group, |(volume, _)| volume);
        volumes.as_ref().is_some_and(|volumes| !volumes.contains(&volume.0))
    })
}

/// Whether this node knows of a member of a volume that is to be replaced, or has been by one that does not take part yet.
fn is_replacing(host: &Host) -> bool {
    let seats = host.directory().into_iter().flat_map(|root| root.placement.seats.values());
    seats.into_iter().any(|seats| seats.leaving.is_some() || seats.unsettled.is_some())
}

/// The slot that a replica stands at; of a register group, whose members order nothing, the epoch.
fn standing(group: &Group) -> Slot {
    match group.replica.register() {
        Some(replica) => Slot(u64::from(replica.core().view().newest.0)),
        None => group.replica.next_slot(),
    }
}

fn is_settled(replica: &RegisterReplica) -> bool {
    replica.core().stages().len() == 1
}

/// The groups whose replicas stand at different slots, in words, for a run that does not end.
pub fn unrest(nodes: &[Node]) -> String {
    let mut replicas: BTreeMap<GroupId, Vec<(Slot, String)>> = BTreeMap::new();
    for host in nodes.iter().filter_map(Node::host) {
        for group in judged(host) {
            let slot = standing(group);
            let (node, role, state) = (host.settings().node, group.replica.role(), group.state);
            let settled = if group.replica.register().is_none_or(is_settled) { "" } else { " between two epochs" };
            let swapped = if group.has_swapped() { " between memory and store" } else { "" };
            let words =
                format!("{node} {slot:?} {role:?} {state:?}{settled}{swapped} of {:?}", group.configuration.members);
            replicas.entry(group.id()).or_default().push((slot, words));
        }
    }
    replicas.retain(|_, replicas| {
        let is_off = |(slot, words): &(Slot, String)| {
            *slot != replicas[0].0 || !words.contains("Alive") || words.contains("between")
        };
        replicas.iter().any(is_off)
    });
    let line = |(group, replicas): (&GroupId, &Vec<(Slot, String)>)| {
        let words: Vec<&str> = replicas.iter().map(|(_, words)| &words[..]).collect();
        format!("\n  {group:?}: {}", words.join("; "))
    };
    let left_over = |host: &Host| {
        let node = host.settings().node;
        left_over(host).map(|group| format!("\n  {node} has {group:?} of a dropped volume")).collect::<String>()
    };
    let left_over = nodes.iter().filter_map(Node::host).map(left_over);
    let changing = changing_own(nodes).map(|volume| {
        let (begin, end) = volume.changing_own();
        format!("\n  own groups of {:?} begin: {begin:?}, or end: {end:?}", volume.id())
    });
    let amiss = own_amiss(nodes).into_iter().map(|words| format!("\n  {words}"));
    let is_moving = |host: &&Host| host.sees_moves() || !host.absent_nodes().is_empty();
    let moving = nodes.iter().filter_map(Node::host).filter(is_moving).map(moves_seen);
    let to_move_off = nodes.iter().filter_map(Node::host).filter_map(|host| {
        Some(format!("\n  {} is to empty nodes: {}", host.settings().node, host.has_to_move_off()?))
    });
    replicas.iter().map(line).chain(left_over).chain(changing).chain(amiss).chain(moving).chain(to_move_off).collect()
}

/// What a node knows of volumes that move, in words.
fn moves_seen(host: &Host) -> String {
    let root = host.directory().expect("it sees that there");
    let volumes: Vec<_> = root.volumes().map(|(.., volume)| volume).collect();
    let chains: Vec<_> =
        host.groups().filter_map(|group| Some((group.id(), group.replica.chain()?.status()))).collect();
    let (node, placement) = (host.settings().node, &root.placement);
    format!("\n  {node} sees volumes move: {placement:?}, {volumes:?}; it has {chains:?}")
}

/// Panics, naming the replicas, where states differ.
pub fn assert_same_state(nodes: &[Node]) {
    let mut states = BTreeMap::new();
    for host in nodes.iter().filter_map(Node::host) {
        let node = host.settings().node;
        for group in judged(host) {
            let digest = group.machine_digest();
            let (first, by) = *states.entry(group.id()).or_insert((digest, node));
            assert!(first == digest, "convergence: {by} and {node} hold different states of {:?}", group.id());
            assert!(group.keeps_names_right(), "convergence: {node} has miscounted the own groups of {:?}", group.id());
        }
    }
}
