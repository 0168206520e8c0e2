//! Volumes are coordinated where their commands enter, whichever node that is.

use redis::Connection;

use crate::nodes::{Cluster, until};

const NODES: usize = 3;
const NAMESPACE: u32 = 5;
const VOLUMES: usize = 4;
/// Commands in one go, enough for a second.
const KEYS: usize = 2_000;

fn write_all(client: &mut Connection) {
    let mut pipeline = redis::pipe();
    for key in 0..KEYS {
        pipeline.set(key, "value").ignore();
    }
    pipeline.query::<()>(client).expect("the cluster is well");
}

/// How many of the namespace's volumes each node coordinates.
fn coordinated(cluster: &Cluster) -> [usize; NODES] {
    let mut counts = [0; NODES];
    for volume in cluster.status().volumes.iter().filter(|volume| volume.namespace == NAMESPACE) {
        if let Some(node) = volume.coordinator {
            counts[node as usize - 1] += 1;
        }
    }
    counts
}

#[test]
fn volumes_are_coordinated_where_their_commands_enter() {
    let cluster = Cluster::started("follow", NODES);
    let mut clients: Vec<Connection> = (0..NODES).map(|index| cluster.client(index)).collect();
    let mut create = redis::cmd("QUORATE");
    create.arg(&["NAMESPACE", "CREATE"]).arg(NAMESPACE).arg("VOLUMES").arg(VOLUMES);
    create.exec(&mut clients[0]).expect("a namespace can be made");
    for client in &mut clients {
        until("the node knows the namespace", || redis::cmd("SELECT").arg(NAMESPACE).query::<()>(client).is_ok());
    }
    let mut spread = [0; NODES];
    until("each node coordinates some", || {
        clients.iter_mut().for_each(write_all);
        spread = coordinated(&cluster);
        spread.iter().all(|&count| count > 0) && spread.iter().sum::<usize>() == VOLUMES
    });
    for entry in [1, 2] {
        until("the entry node coordinates all", || {
            write_all(&mut clients[entry]);
            coordinated(&cluster)[entry] == VOLUMES
        });
    }
}
