//! Volumes that move from node to node while clients use them.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use redis::Value;

use crate::load::Load;
use crate::nodes::{Cluster, until};
use crate::random::Random;
use crate::register_load::RegisterLoad;
use crate::registers::ask;

const NODES: usize = 4;
/// A drained node is empty, or nodes are even, so soon: one that has 48 replicas, of which two move at a time.
const MOVED_WITHIN: Duration = Duration::from_secs(150);

pub(crate) fn started(name: &str, protocol: &str) -> Cluster {
    let mut cluster = Cluster::new(name, NODES);
    let mut command = cluster.up_command();
    command.args(["--protocol", protocol]);
    cluster.up_as(command);
    until("the nodes know where volumes are", || (0..NODES).all(|index| !counts(&cluster, index).is_empty()));
    cluster
}

/// How many replicas each node has, as this one knows.
pub(crate) fn counts(cluster: &Cluster, index: usize) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for volume in cluster.status_of(index).unwrap_or_default().volumes {
        volume.members.iter().for_each(|member| *counts.entry(member.node).or_insert(0) += 1);
    }
    counts
}

pub(crate) fn waits(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < MOVED_WITHIN, "waited for {} s until {what}", began.elapsed().as_secs());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// `quorate node drain`, which waits: what it says in the end.
pub(crate) fn drain(cluster: &Cluster, asked: usize, name: &str) -> String {
    let port = cluster.address(asked).1.to_string();
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(["node", "drain", name, "-p", &port])
        .output()
        .expect("it is a program");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    println!("{name} is drained after {:?}: {told}", began.elapsed());
    told
}

#[test]
fn a_node_is_drained_of_its_chains_and_nodes_are_made_even_while_clients_write() {
    is_drained_and_levelled("chain");
}

#[test]
fn a_node_is_drained_of_its_volumes_of_paxos_and_nodes_are_made_even_while_clients_write() {
    is_drained_and_levelled("paxos");
}

fn is_drained_and_levelled(protocol: &str) {
    let mut random = Random::announced();
    let mut cluster = started(&format!("{protocol}-moves"), protocol);
    let mut load = Load::start(&cluster, &mut random);
    let told = drain(&cluster, 1, "n4");
    assert!(told.contains("n4 has no replica of a volume or of the root any more"), "{told}");
    for index in 0..NODES {
        until("the node knows it", || !counts(&cluster, index).contains_key(&4));
    }
    until("whoever has come takes part", || {
        let volumes = cluster.status().volumes;
        volumes.iter().all(|volume| volume.members.len() == 3 && volume.joining.is_empty() && volume.leaving.is_empty())
    });
    load.ledger().watch();
    until("every counter takes increments", || load.ledger().resumed_after().is_some());
    load.check(&cluster);

    let mut client = cluster.client(3);
    assert!(
        matches!(ask(&mut client, "QUORATE NODE DRAIN n1"), Value::ServerError(_)),
        "three replicas need three nodes"
    );
    assert_eq!(ask(&mut client, "QUORATE NODE UNDRAIN n4"), Value::Okay);
    assert_eq!(ask(&mut client, "QUORATE NODE LEVEL"), Value::Okay);
    waits("all nodes have as many", || {
        counts(&cluster, 0).values().all(|&count| count == 48) && counts(&cluster, 0).len() == 4
    });
    load.check(&cluster);
    load.stop();
    cluster.stop_all();
    cluster.up();
    load.check(&cluster);
    cluster.stop_all();
}

#[test]
fn a_node_is_drained_of_its_registers_while_clients_write_and_one_volume_is_moved_back_by_hand() {
    let mut random = Random::announced();
    let mut cluster = started("register-moves", "register");
    let mut load = RegisterLoad::start(&cluster, 0, &[0, 1, 2, 3], &mut random);
    drain(&cluster, 0, "n4");
    load.assert_unharmed();
    until("the nodes know it", || (0..NODES).all(|index| !counts(&cluster, index).contains_key(&4)));
    let mut client = cluster.client(2);
    assert_eq!(ask(&mut client, "QUORATE NODE UNDRAIN n4"), Value::Okay);
    assert_eq!(ask(&mut client, "QUORATE VOLUME MOVE 0 7 FROM n2 TO n4"), Value::Okay);
    let members = |volume: u32| {
        let status = cluster.status_of(3).unwrap_or_default();
        let found = status.volumes.into_iter().find(|told| told.index == volume).unwrap_or_default();
        let members: Vec<u32> = found.members.iter().map(|member| member.node).collect();
        (members, found.joining, found.leaving)
    };
    until("it is moved", || {
        let (members, joining, leaving) = members(7);
        members.contains(&4) && !members.contains(&2) && joining.is_empty() && leaving.is_empty()
    });
    load.assert_unharmed();
    (0..NODES).for_each(|index| load.read_all(&cluster, index, &mut random));
    load.stop();
    cluster.stop_all();
}
