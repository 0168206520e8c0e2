//! Convergence: once faults are over and nothing is asked any more, all replicas of a group stand at the same slot with
//! the same state. Those that were given up are left out.

use std::collections::BTreeMap;

use quorate_node::host::{Group, GroupState};
use quorate_protocol::{GroupId, Slot};

use crate::world::Node;

/// Whether every replica has executed what any replica of its group has.
pub fn is_converged(nodes: &[Node]) -> bool {
    let mut slots: BTreeMap<GroupId, Slot> = BTreeMap::new();
    nodes.iter().filter_map(Node::host).flat_map(|host| host.groups()).filter(is_left).all(|group| {
        let first = *slots.entry(group.id()).or_insert(group.replica.next_slot());
        group.is_alive() && first == group.replica.next_slot()
    })
}

/// The groups whose replicas stand at different slots, in words, for a run that does not end.
pub fn unrest(nodes: &[Node]) -> String {
    let mut replicas: BTreeMap<GroupId, Vec<(Slot, String)>> = BTreeMap::new();
    for host in nodes.iter().filter_map(Node::host) {
        for group in host.groups().filter(is_left) {
            let slot = group.replica.next_slot();
            let (node, role, state) = (host.settings().node, group.replica.role(), group.state);
            let words = format!("{node} {slot:?} {role:?} {state:?} of {:?}", group.configuration.members);
            replicas.entry(group.id()).or_default().push((slot, words));
        }
    }
    replicas
        .retain(|_, replicas| replicas.iter().any(|(slot, words)| *slot != replicas[0].0 || !words.contains("Alive")));
    let line = |(group, replicas): (&GroupId, &Vec<(Slot, String)>)| {
        let words: Vec<&str> = replicas.iter().map(|(_, words)| &words[..]).collect();
        format!("\n  {group:?}: {}", words.join("; "))
    };
    replicas.iter().map(line).collect()
}

fn is_left(group: &&Group) -> bool {
    group.state != GroupState::Quarantined && group.replica.is_inside()
}

/// Panics, naming the replicas, where states differ.
pub fn assert_same_state(nodes: &[Node]) {
    let mut states = BTreeMap::new();
    for host in nodes.iter().filter_map(Node::host) {
        let node = host.settings().node;
        for group in host.groups().filter(is_left) {
            let digest = group.machine_digest();
            let (first, by) = *states.entry(group.id()).or_insert((digest, node));
            assert!(first == digest, "convergence: {by} and {node} hold different states of {:?}", group.id());
        }
    }
}
