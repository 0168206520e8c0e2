//! Namespaces of local reads: any node answers alone, and whoever has written reads that.

use redis::Commands;

use crate::nodes::{Cluster, until};
use crate::own::group;

const ROUNDS: i64 = 300;
const KEYS: i64 = 20;

fn reads_alone(cluster: &Cluster, index: usize) -> bool {
    let status = cluster.status_of(index).unwrap_or_default();
    status.namespaces.first().is_some_and(|namespace| namespace.reads == "local")
}

#[test]
fn whoever_writes_reads_that_at_once_at_a_node_that_reads_alone() {
    let mut cluster = Cluster::started("local-reads", 3);
    redis::cmd("QUORATE").arg(&["NAMESPACE", "SET", "0", "READS", "local"]).exec(&mut cluster.client(0)).expect("set");
    until("all nodes read alone", || (0..3).all(|index| reads_alone(&cluster, index)));
    for index in 0..3 {
        let mut client = cluster.client(index);
        for round in 0..ROUNDS {
            let key = format!("key{}", round % KEYS);
            let value = format!("{index}-{round}");
            let _: () = client.set(&key, &value).expect("stored");
            let read: String = client.get(&key).expect("read");
            assert_eq!(read, value, "{key} at node {index}");
            let counter = format!("counter{}", round % KEYS);
            let (counted, read): (i64, i64) =
                redis::pipe().cmd("INCR").arg(&counter).cmd("GET").arg(&counter).query(&mut client).expect("served");
            assert_eq!(read, counted, "{counter} at node {index}");
        }
    }
    cluster.down();
}

#[test]
fn whoever_writes_to_an_object_that_moves_between_groups_reads_that_too() {
    let mut cluster = Cluster::started("local-moves", 3);
    let mut clients: Vec<_> = (0..3).map(|index| cluster.client(index)).collect();
    redis::cmd("QUORATE").arg(&["NAMESPACE", "SET", "0", "READS", "local"]).exec(&mut clients[0]).expect("set");
    until("all nodes read alone", || (0..3).all(|index| reads_alone(&cluster, index)));
    for round in 0..60 {
        let counter = format!("counter{}", round % 7);
        // Who asks for the move, and who counts.
        let (mover, counting) = (round % 3, (round + 1 + round / 3 % 2) % 3);
        let seen: i64 = clients[mover].incr(&counter, 1).expect("counted");
        let action = if round / 7 % 2 == 0 { "PROMOTE" } else { "DEMOTE" };
        group(&mut clients[mover], &[action, &counter]).expect("moved");
        for _ in 0..5 {
            let counted: i64 = clients[counting].incr(&counter, 1).expect("counted");
            let read: i64 = clients[counting].get(&counter).expect("read");
            assert!(counted > seen && read == counted, "{counter}: {seen}, {counted}, {read} in round {round}");
        }
    }
    cluster.down();
}
