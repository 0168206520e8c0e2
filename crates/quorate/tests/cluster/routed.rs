//! Namespaces of routed reads: any node answers, from its own replica where it can, and nobody reads what is old, whichever node
//! stands still or dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redis::{Connection, RedisResult};

use crate::nodes::{Cluster, figure, until};

const NODES: usize = 3;
const COUNTERS: usize = 16;
const NAMESPACE: &str = "1";
/// Errors of nodes that stand still, are gone, or have not noticed that others are back.
const PASSING: [&str; 4] = ["NOQUORUM", "TIMEOUT", "TRYAGAIN", "LOADING"];

/// What clients were told of each counter, and how often they read.
#[derive(Default)]
struct Told {
    counters: [AtomicI64; COUNTERS],
    reads: [AtomicU64; NODES],
    writes: AtomicU64,
    is_over: AtomicBool,
}

fn enter(address: (&str, u16)) -> RedisResult<Connection> {
    let mut connection = redis::Client::open(address)?.get_connection_with_timeout(Duration::from_secs(1))?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    redis::cmd("SELECT").arg(NAMESPACE).exec(&mut connection)?;
    Ok(connection)
}

/// Asks until all is over; after an error on a new connection, which is to be one that may pass.
fn ask(told: &Told, address: (&'static str, u16), mut each: impl FnMut(&mut Connection) -> RedisResult<()>) {
    while !told.is_over.load(Ordering::SeqCst) {
        let Ok(mut connection) = enter(address) else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        while !told.is_over.load(Ordering::SeqCst) {
            match each(&mut connection) {
                Ok(()) => {}
                Err(error) if error.is_io_error() => break,
                Err(error) => assert!(error.code().is_some_and(|code| PASSING.contains(&code)), "{error}"),
            }
        }
    }
}

fn write(told: &Told, address: (&'static str, u16), first: usize) {
    let mut next = first;
    ask(told, address, |connection| {
        next = (next + 1) % COUNTERS;
        let value: i64 = redis::cmd("INCR").arg(format!("counter{next}")).query(connection)?;
        told.counters[next].fetch_max(value, Ordering::SeqCst);
        told.writes.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(3));
        Ok(())
    });
}

fn read(told: &Told, index: usize, address: (&'static str, u16)) {
    let mut next = index;
    ask(told, address, |connection| {
        next = (next + 1) % COUNTERS;
        let least = told.counters[next].load(Ordering::SeqCst);
        let value: Option<i64> = redis::cmd("GET").arg(format!("counter{next}")).query(connection)?;
        let value = value.unwrap_or_default();
        assert!(
            value >= least,
            "node {}: counter{next} is {value}, although somebody had been told {least}",
            index + 1
        );
        told.counters[next].fetch_max(value, Ordering::SeqCst);
        told.reads[index].fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
}

/// A figure that the nodes have in INFO, of all of them together.
fn of_all(cluster: &Cluster, name: &str) -> u64 {
    (0..cluster.node_count()).map(|index| figure(&mut cluster.client(index), name)).sum()
}

#[test]
fn nobody_reads_what_is_old_whichever_node_stands_still_or_dies() {
    let mut cluster = Cluster::started("routed", NODES);
    let create = ["NAMESPACE", "CREATE", NAMESPACE, "VOLUMES", "4", "READS", "routed"];
    redis::cmd("QUORATE").arg(&create).exec(&mut cluster.client(0)).expect("made");
    let told = Arc::new(Told::default());
    let mut threads = Vec::new();
    for index in 0..NODES {
        let address = cluster.address(index);
        for first in [index, index + 8] {
            let told = told.clone();
            threads.push(thread::spawn(move || write(&told, address, first)));
        }
        for _ in 0..2 {
            let told = told.clone();
            threads.push(thread::spawn(move || read(&told, index, address)));
        }
    }
    let goes_on = |but: Option<usize>| {
        let before: Vec<u64> = told.reads.iter().map(|reads| reads.load(Ordering::SeqCst)).collect();
        let writes = told.writes.load(Ordering::SeqCst);
        until("writes and reads go on", || {
            let are_read = (0..NODES)
                .all(|index| but == Some(index) || told.reads[index].load(Ordering::SeqCst) > before[index] + 500);
            are_read && told.writes.load(Ordering::SeqCst) > writes + 100
        });
    };
    goes_on(None);
    for index in 0..NODES {
        cluster.freeze(index);
        goes_on(Some(index));
        cluster.signal(index, libc::SIGCONT);
        goes_on(None);
    }
    for index in 0..NODES {
        cluster.kill(index);
        goes_on(Some(index));
        cluster.start_by_hand(index);
        goes_on(None);
    }
    let counts = ["reads_routed_here", "kgroups_shared", "recalls_sent"].map(|name| of_all(&cluster, name));
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    told.is_over.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().expect("a client does not panic");
    }
    cluster.down();
}

#[test]
fn a_node_without_a_replica_reads_at_the_members_and_leaves_the_coordinator_alone() {
    let mut cluster = Cluster::started("routed-outside", 4);
    let create = ["NAMESPACE", "CREATE", NAMESPACE, "VOLUMES", "1", "REPLICAS", "3", "READS", "routed"];
    redis::cmd("QUORATE").arg(&create).exec(&mut cluster.client(0)).expect("made");
    let status = cluster.status();
    let volume = status.volumes.iter().find(|volume| volume.namespace == 1).expect("its volume");
    let outside = (1..=4)
        .find(|node| volume.members.iter().all(|member| member.node != *node))
        .expect("one of four nodes has no replica");
    let mut entered = None;
    // It hears of the cluster a moment later than the root's members.
    until("it takes clients", || {
        entered = enter(cluster.address(outside as usize - 1)).ok();
        entered.is_some()
    });
    let mut client = entered.expect("it is there");
    for key in 0..100 {
        redis::cmd("SET").arg(key).arg(key).exec(&mut client).expect("stored");
    }
    // Each is read at the coordinator first, which shares it.
    until("the members answer all that is read", || {
        let before = of_all(&cluster, "reads_routed");
        for key in 0..100 {
            let value: i64 = redis::cmd("GET").arg(key).query(&mut client).expect("read");
            assert_eq!(value, key);
        }
        of_all(&cluster, "reads_routed") == before + 100
    });
    cluster.down();
}
