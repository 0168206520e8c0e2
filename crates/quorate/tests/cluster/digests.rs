//! Large values where entry nodes send them to all members, and coordinators only refer to them: less passes through the
//! coordinator, and what is acknowledged stays, also if it is killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redis::{Connection, RedisResult};

use crate::nodes::{Cluster, until};

const NODES: usize = 3;
const VALUE_BYTES: usize = 256 << 10;
const MEASURED_WRITES: usize = 40;
/// Acknowledged before and after the coordinator is killed, by each writer.
const WRITES_EACH: usize = 20;
const WRITERS: usize = 4;

/// Where Redis's hash puts what is in the braces: all keys are in one volume.
const SLOT: usize = 12_182;
const SLOTS: usize = 16_384;

/// Whoever asks for metrics sooner may be told the same again.
const FRESH_AFTER: Duration = Duration::from_millis(150);

fn key(writer: usize, number: usize) -> String {
    format!("{{foo}}:{writer}:{number}")
}

/// A value like no other.
fn value(writer: usize, number: usize) -> Vec<u8> {
    let word = format!("{writer}-{number};").into_bytes();
    word.iter().copied().cycle().take(VALUE_BYTES).collect()
}

fn set(client: &mut Connection, writer: usize, number: usize) -> RedisResult<()> {
    redis::cmd("SET").arg(key(writer, number)).arg(value(writer, number)).query(client)
}

/// What a node's `/metrics` say of something without labels.
fn metric(cluster: &Cluster, index: usize, name: &str) -> u64 {
    thread::sleep(FRESH_AFTER);
    let port = cluster.ports().admin + index as u16;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the node serves HTTP");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it takes a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).trim().parse().expect("a number")
}

/// The index of the node that coordinates the volume of the keys, once one does.
fn coordinator(cluster: &Cluster) -> usize {
    let mut found = None;
    until("the volume of the keys has a coordinator", || {
        let volumes = cluster.status().volumes;
        let of_keys = |count: usize| (SLOT * count / SLOTS) as u32;
        let count = volumes.iter().filter(|volume| volume.namespace == 0).count();
        let volume = volumes.iter().find(|volume| volume.namespace == 0 && volume.index == of_keys(count));
        found = volume.and_then(|volume| volume.coordinator);
        found.is_some()
    });
    found.expect("just found") as usize - 1
}

fn others(node: usize) -> impl Iterator<Item = usize> {
    (0..NODES).filter(move |&other| other != node)
}

/// The bytes that the coordinator sends while large values are written at another node, one after the other, and which node
/// that is.
fn sent_by_coordinator(cluster: &Cluster, writer: usize) -> (u64, usize) {
    let mut found = None;
    // A node that has just come back is given back what it coordinated.
    until("the coordinator stays the same", || {
        // After a start nobody coordinates before somebody wants something; and the entry node knows by then whom to ask.
        let takes_writes = |client: &mut Connection| until("the node writes", || set(client, writer, 0).is_ok());
        takes_writes(&mut cluster.client(0));
        let coordinator = coordinator(cluster);
        let mut client = cluster.client(others(coordinator).next().expect("there are others"));
        takes_writes(&mut client);
        let sent = || metric(cluster, coordinator, "quorate_frame_sent_bytes_total");
        let before = sent();
        let are_written = (1..=MEASURED_WRITES).all(|number| set(&mut client, writer, number).is_ok());
        found = Some((sent() - before, coordinator));
        are_written && self::coordinator(cluster) == coordinator
    });
    found.expect("just found")
}

/// All nodes stop, and start again with the mode on.
fn turn_on(cluster: &mut Cluster) {
    cluster.stop_all();
    for index in 0..NODES {
        let path = cluster.node_directory(index).join("node.toml");
        let text = std::fs::read_to_string(&path).expect("up has written it");
        assert!(text.contains("digest_bytes = 0"), "{text}");
        std::fs::write(&path, text.replace("digest_bytes = 0", "digest_bytes = \"64kb\"")).expect("writable");
    }
    cluster.start_all_by_hand();
}

/// Writes until enough is acknowledged, and as much again once the coordinator is killed: the numbers of these writes. No
/// write is sent twice.
fn write_through(
    cluster: &Cluster,
    entry: usize,
    writer: usize,
    is_killed: &AtomicBool,
    halfway: &AtomicUsize,
) -> Vec<usize> {
    let mut client = cluster.client(entry);
    let (mut acknowledged, mut enough) = (Vec::new(), usize::MAX);
    for number in 0.. {
        match set(&mut client, writer, number) {
            Ok(()) => {
                acknowledged.push(number);
                halfway.fetch_add(usize::from(acknowledged.len() == WRITES_EACH), Ordering::SeqCst);
            }
            Err(error) => assert!(!error.is_io_error(), "the entry node is well: {error}"),
        }
        if enough == usize::MAX && is_killed.load(Ordering::SeqCst) {
            enough = acknowledged.len() + WRITES_EACH;
        }
        if acknowledged.len() >= enough {
            break;
        }
    }
    acknowledged
}

/// A node that has just come back may refuse for a moment.
fn assert_reads(cluster: &Cluster, index: usize, writer: usize, number: usize) {
    let mut client = cluster.client(index);
    let mut read: Option<Vec<u8>> = None;
    until("the node reads", || match redis::cmd("GET").arg(key(writer, number)).query(&mut client) {
        Ok(found) => {
            read = found;
            true
        }
        Err(_) => false,
    });
    let is_right = read.is_some_and(|read| read == value(writer, number));
    assert!(is_right, "node {} has not what was acknowledged as {}", index + 1, key(writer, number));
}

#[test]
fn large_values_pass_by_the_coordinator_and_outlive_it() {
    let mut cluster = Cluster::started("digests", NODES);
    let (sent_off, _) = sent_by_coordinator(&cluster, 100);
    turn_on(&mut cluster);
    let (sent_on, killed) = sent_by_coordinator(&cluster, 200);
    let of_all = |name: &str| (0..NODES).map(|index| metric(&cluster, index, name)).sum::<u64>();
    let (references, resolved) =
        (metric(&cluster, killed, "quorate_references_sent_total"), of_all("quorate_references_resolved_total"));
    let in_full = metric(&cluster, killed, "quorate_references_in_full_total");
    println!(
        "the coordinator sent {sent_off} bytes without digests and {sent_on} with them, {references} references, {in_full} of \
         its messages again in full"
    );
    assert!(sent_off as usize >= 2 * MEASURED_WRITES * VALUE_BYTES);
    assert!(sent_on * 4 < sent_off, "{sent_on} bytes with digests, {sent_off} without");
    assert!(references as usize >= 2 * MEASURED_WRITES && resolved > 0, "{references} sent, {resolved} resolved");
    assert_eq!(of_all("quorate_bodies_mistaken_total"), 0);

    let (is_killed, halfway) = (AtomicBool::new(false), AtomicUsize::new(0));
    let acknowledged: Vec<Vec<usize>> = thread::scope(|scope| {
        let write = |writer: usize| {
            let entry = others(killed).nth(writer % (NODES - 1)).expect("two others");
            let (cluster, is_killed, halfway) = (&cluster, &is_killed, &halfway);
            scope.spawn(move || write_through(cluster, entry, writer, is_killed, halfway))
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        until("all write", || halfway.load(Ordering::SeqCst) == WRITERS);
        cluster.signal(killed, libc::SIGKILL);
        is_killed.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect()
    });
    cluster.wait_by_hand(killed);
    cluster.start_by_hand(killed);
    for index in 0..NODES {
        for (writer, numbers) in acknowledged.iter().enumerate() {
            numbers.iter().for_each(|&number| assert_reads(&cluster, index, writer, number));
        }
    }
    cluster.stop_all();
}
