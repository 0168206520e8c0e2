//! Own groups that lose their quorum with writes in flight leave memory, and lose nothing.

use std::thread;
use std::time::{Duration, Instant};

use quorate_node::status::OwnGroupsStatus;
use redis::{Connection, Value};

use crate::nodes::{Cluster, figure, until};
use crate::random::Random;

const NODES: usize = 3;
const KEYS: usize = 600;
const WRITERS: usize = 4;
/// How long writers begin new rounds. The other nodes are killed before the last of them.
const WRITES_FOR: Duration = Duration::from_millis(1_500);
/// Those that something has just come for.
const ACTIVE_MAX: u64 = 5;

/// What clients know of an object: the last value that was acknowledged, and the last that was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    acknowledged: u64,
    sent: u64,
}

fn client(cluster: &Cluster, index: usize) -> Connection {
    let mut client = cluster.client(index);
    redis::cmd("SELECT").arg(1).exec(&mut client).expect("the namespace is there");
    client
}

fn key(number: usize) -> String {
    format!("object:{number}")
}

/// All at once, and what each was answered.
fn set_all(client: &mut Connection, keys: &[usize], told: &mut [Told]) {
    let mut bytes = Vec::new();
    for (&number, told) in keys.iter().zip(told.iter_mut()) {
        told.sent += 1;
        redis::cmd("SET").arg(key(number)).arg(told.sent).write_packed_command(&mut bytes);
    }
    client.send_packed_command(&bytes).expect("sent");
    for told in told.iter_mut() {
        if client.recv_response().expect("answered") == Value::Okay {
            told.acknowledged = told.sent;
        }
    }
}

fn own_groups(cluster: &Cluster, index: usize) -> OwnGroupsStatus {
    let status = cluster.status_of(index).expect("it tells its status");
    let of_node = status.nodes.into_iter().find(|node| node.id == index as u32 + 1).expect("itself");
    of_node.own.expect("it answers").own_groups
}

fn stranded(client: &mut Connection) -> u64 {
    figure(client, "own_groups_stranded")
}

#[test]
fn own_groups_without_a_quorum_leave_memory_with_writes_in_flight() {
    let mut random = Random::announced();
    let mut cluster = Cluster::started("stranded", NODES);
    cluster.stop_all();
    cluster.rest_at_once();
    cluster.up();
    redis::cmd("QUORATE")
        .arg(&["NAMESPACE", "CREATE", "1", "GROUPS", "own"])
        .exec(&mut cluster.client(0))
        .expect("made");
    until("every node knows the namespace", || {
        (0..NODES).all(|index| redis::cmd("SELECT").arg(1).exec(&mut cluster.client(index)).is_ok())
    });
    let mut told = vec![Told::default(); KEYS];
    let mut order: Vec<usize> = (0..KEYS).collect();
    random.shuffle(&mut order);
    // All at the survivor, which coordinates a third of the groups.
    let writers: Vec<_> = order
        .chunks(KEYS / WRITERS)
        .map(|keys| {
            let (mut client, keys) = (client(&cluster, 0), keys.to_vec());
            thread::spawn(move || {
                let mut told = vec![Told::default(); keys.len()];
                let began = Instant::now();
                let mut is_over = false;
                while !is_over {
                    is_over = began.elapsed() > WRITES_FOR;
                    set_all(&mut client, &keys, &mut told);
                }
                keys.into_iter().zip(told).collect::<Vec<_>>()
            })
        })
        .collect();
    thread::sleep(WRITES_FOR - Duration::from_millis(300));
    cluster.kill(1);
    cluster.kill(2);
    for writer in writers {
        for (number, what) in writer.join().expect("a writer does not panic") {
            told[number] = what;
        }
    }
    let unknown = told.iter().filter(|told| told.sent > told.acknowledged).count();
    until("what is in flight has left memory", || own_groups(&cluster, 0).active <= ACTIVE_MAX);
    let paused = stranded(&mut client(&cluster, 0));
    println!(
        "{unknown} of {KEYS} objects have a write of unknown fate; {paused} groups were paused with slots in flight"
    );
    assert!(paused >= KEYS as u64 / 20, "{paused} groups were paused");
    [1, 2].into_iter().for_each(|index| cluster.start_by_hand(index));
    let mut clients: Vec<Connection> = (0..NODES).map(|index| client(&cluster, index)).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        for (number, what) in told.iter().enumerate().filter(|(number, _)| number % NODES == index) {
            let mut value = Value::Nil;
            until("it is read", || {
                value = redis::cmd("GET").arg(key(number)).query(client).unwrap_or(Value::Okay);
                value != Value::Okay
            });
            let found: u64 = redis::from_redis_value(value).unwrap_or_default();
            assert!((what.acknowledged..=what.sent).contains(&found), "LOST: {} is {found}, {what:?}", key(number));
        }
    }
    for (number, what) in told.iter().enumerate() {
        let set = redis::cmd("SET").arg(key(number)).arg(what.sent + 1).to_owned();
        until("it is written", || set.exec(&mut clients[number % NODES]).is_ok());
    }
    cluster.stop_all();
}
