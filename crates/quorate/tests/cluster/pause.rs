//! SIGSTOP, and SIGCONT after others have taken over: the node goes on in the belief that no time has passed.

use redis::{Connection, RedisResult, Value};

use crate::load::Load;
use crate::nodes::{Cluster, until};
use crate::random::Random;

const NODES: usize = 3;
const IN_FLIGHT_MIN: u64 = 64;
/// Connections that ask a node something while it stands still.
const ASKERS: usize = 4;
/// How often each counter is read just after the node went on.
const READS_AFTER: usize = 100;

/// Each node is the coordinator of some counters, a follower of the others, and the entry node of its clients.
#[test]
fn a_node_that_stood_still_answers_nothing_old_and_loses_nothing() {
    let mut random = Random::announced();
    let cluster = Cluster::started("pause", NODES);
    let mut load = Load::start(&cluster, &mut random);
    for index in 0..NODES {
        until("the node coordinates its share", || coordinates(&cluster, index));
        let mut askers: Vec<Connection> = (0..ASKERS).map(|_| cluster.client(index)).collect();
        load.wait_for_in_flight(IN_FLIGHT_MIN);
        cluster.freeze(index);
        load.ledger().watch();
        // Then its leases are over, and all that it coordinated is coordinated by others.
        until("the other nodes take increments of every counter", || load.ledger().resumed_after().is_some());
        let told = load.ledger().told();
        for asker in &mut askers {
            ask(asker, &told).expect("a socket takes so much from who does not read");
        }
        cluster.signal(index, libc::SIGCONT);
        for (number, asker) in askers.iter_mut().enumerate() {
            assert_new(asker, &told, &format!("node {}, asked while it stood still by {number}", index + 1));
        }
        for _ in 0..READS_AFTER {
            let told = load.ledger().told();
            ask(&mut askers[0], &told).expect("the node is back");
            assert_new(&mut askers[0], &told, &format!("node {}, asked after it stood still", index + 1));
        }
        load.ledger().watch();
        until("every counter takes increments again", || load.ledger().resumed_after().is_some());
        load.check(&cluster);
        println!("n{}: {}", index + 1, load.ledger().totals());
    }
    load.stop();
}

fn coordinates(cluster: &Cluster, index: usize) -> bool {
    let coordinated =
        cluster.status().volumes.iter().filter(|volume| volume.coordinator == Some(index as u32 + 1)).count();
    coordinated >= 10
}

/// Sends a read of every counter, and waits for nothing.
fn ask(asker: &mut Connection, told: &[(String, i64)]) -> RedisResult<()> {
    let mut reads = redis::pipe();
    told.iter().for_each(|(key, _)| {
        reads.cmd("GET").arg(key);
    });
    asker.send_packed_command(&reads.get_packed_pipeline())
}

/// Takes the answers. Whatever somebody was told before the question was asked must be seen.
fn assert_new(asker: &mut Connection, told: &[(String, i64)], when: &str) {
    for (key, least) in told {
        match asker.recv_response().unwrap_or_else(|error| panic!("{when}: {error}")) {
            Value::BulkString(bytes) => {
                let text = String::from_utf8(bytes).expect("a number");
                let value: i64 = text.parse().expect("a number");
                assert!(value >= *least, "{when}: {key} is {value}, although somebody had been told {least}");
            }
            Value::Nil => assert_eq!(*least, 0, "{when}: {key} is not there"),
            // It has not noticed yet that the others are there, or was asked too long ago.
            Value::ServerError(error) if ["NOQUORUM", "TIMEOUT", "TRYAGAIN"].contains(&error.code()) => {}
            other => panic!("{when}: {key} is {other:?}"),
        }
    }
}
