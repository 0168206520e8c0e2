//! What only memory holds outlives nodes that die one after the other.

use crate::nodes::{Cluster, figure, until};

const KEYS: usize = 200;
const READMITTED: &str = "replicas_readmitted";

#[test]
fn what_only_memory_holds_outlives_nodes_that_die_one_after_the_other() {
    let mut cluster = Cluster::started("forget", 3);
    let create = ["NAMESPACE", "CREATE", "1", "VOLUMES", "4", "DURABILITY", "memory"];
    redis::cmd("QUORATE").arg(&create).exec(&mut cluster.client(0)).expect("created");
    let select = |cluster: &Cluster, index: usize| {
        let mut client = cluster.client(index);
        redis::cmd("SELECT").arg(1).exec(&mut client).expect("selected");
        client
    };
    let keys: Vec<usize> = (0..KEYS).collect();
    let check = |cluster: &Cluster, round: usize| {
        for index in 0..3 {
            let mut client = select(cluster, index);
            let mut values = Vec::<Option<usize>>::new();
            until("the values are read", || {
                redis::cmd("MGET").arg(&keys).query(&mut client).map(|read| values = read).is_ok()
            });
            assert!(values.iter().all(|value| *value == Some(round)), "round {round}, node {index}: {values:?}");
        }
    };
    for (round, dies) in [2, 0, 1, 0].into_iter().enumerate() {
        let mut client = select(&cluster, (dies + 1) % 3);
        for key in &keys {
            redis::cmd("SET").arg(key).arg(round).exec(&mut client).expect("stored");
        }
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
