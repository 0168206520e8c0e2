//! What only memory holds outlives nodes that die one after the other.

use redis::{Connection, Value};

use crate::nodes::{Cluster, figure, until};
use crate::registers::show;

const NODES: usize = 3;
const KEYS: usize = 200;
const READMITTED: &str = "replicas_readmitted";

/// With a namespace of few volumes that is in memory only.
fn started(name: &str, protocol: &str) -> Cluster {
    let cluster = Cluster::started(name, NODES);
    let create = ["NAMESPACE", "CREATE", "1", "PROTOCOL", protocol, "VOLUMES", "4", "DURABILITY", "memory"];
    redis::cmd("QUORATE").arg(&create).exec(&mut cluster.client(0)).expect("created");
    cluster
}

fn client(cluster: &Cluster, index: usize) -> Connection {
    let mut client = cluster.client(index);
    redis::cmd("SELECT").arg(1).exec(&mut client).expect("selected");
    client
}

fn keys() -> Vec<String> {
    (0..KEYS).map(|key| key.to_string()).collect()
}

fn write(cluster: &Cluster, index: usize, round: usize) {
    let mut client = client(cluster, index);
    for key in keys() {
        redis::cmd("SET").arg(key).arg(round).exec(&mut client).expect("stored");
    }
}

/// Every node reads of every key what was written in this round.
fn check(cluster: &Cluster, round: usize) {
    for index in 0..NODES {
        let mut client = client(cluster, index);
        let mut values = Vec::<Option<usize>>::new();
        until("the values are read", || {
            redis::cmd("MGET").arg(keys()).query(&mut client).map(|read| values = read).is_ok()
        });
        assert!(values.iter().all(|value| *value == Some(round)), "round {round}, node {index}: {values:?}");
    }
}

#[test]
fn what_only_memory_holds_outlives_nodes_that_die_one_after_the_other() {
    let mut cluster = started("forget", "paxos");
    for (round, dies) in [2, 0, 1, 0].into_iter().enumerate() {
        write(&cluster, (dies + 1) % NODES, round);
        cluster.kill(dies);
        cluster.start_by_hand(dies);
        until("its replicas are taken in again", || {
            cluster.try_client(dies).is_ok_and(|mut client| figure(&mut client, READMITTED) == 4)
        });
        check(&cluster, round);
    }
    // A clean stop stores what was taken in again like everything else.
    cluster.stop_all();
    cluster.start_all_by_hand();
    check(&cluster, 3);
    cluster.stop_all();
}

#[test]
fn chains_in_memory_outlive_nodes_that_die_one_after_the_other() {
    let mut cluster = started("forget-chains", "chain");
    for (round, dies) in [2, 0, 1].into_iter().enumerate() {
        write(&cluster, (dies + 1) % NODES, round);
        cluster.kill(dies);
        cluster.start_by_hand(dies);
        let mut client = client(&cluster, (dies + 1) % NODES);
        let is_whole = |client: &mut Connection| {
            let member_counts = show(client, &keys()).into_iter().map(|fields| match &fields["members"] {
                Value::Array(members) => members.len(),
                other => panic!("members are {other:?}"),
            });
            member_counts.min() == Some(NODES)
        };
        until("it is left out", || !is_whole(&mut client));
        until("it is in all chains again", || is_whole(&mut client));
        check(&cluster, round);
    }
    cluster.stop_all();
}
