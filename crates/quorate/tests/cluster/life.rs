//! Starting, stopping and starting again, as a person does it.

use std::process::{Command, Stdio};
use std::time::Duration;

use redis::Connection;

use crate::load::Load;
use crate::nodes::{Cluster, figure, until};
use crate::random::Random;

const KEYS: usize = 200;

fn set_all(client: &mut Connection) {
    for number in 0..KEYS {
        redis::cmd("SET").arg(number).arg(number * 7).exec(client).expect("stored");
    }
}

fn assert_all(client: &mut Connection) {
    let keys: Vec<usize> = (0..KEYS).collect();
    let mut values = Vec::<Option<usize>>::new();
    until("the values are read", || redis::cmd("MGET").arg(&keys).query(client).map(|read| values = read).is_ok());
    assert_eq!(values, keys.iter().map(|number| Some(number * 7)).collect::<Vec<_>>());
    let count: usize = redis::cmd("DBSIZE").query(client).expect("counted");
    assert_eq!(count, KEYS);
}

/// Standard error of a command that refuses: one line, exit status 1.
fn refusal(command: &mut Command) -> String {
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    text
}

#[test]
fn up_brings_its_data_back_and_refuses_a_directory_and_ports_in_use() {
    let mut cluster = Cluster::started("again", 3);
    set_all(&mut cluster.client(0));
    let line = refusal(&mut cluster.up_command());
    assert!(line.contains("in use"), "{line}");
    assert!(line.contains("node-1"), "{line}");
    // Not disturbed.
    assert_all(&mut cluster.client(1));
    cluster.down();
    let taken = std::net::TcpListener::bind(("127.0.0.1", cluster.ports().client + 1)).expect("free again");
    let line = refusal(&mut cluster.up_command());
    assert!(line.contains(&taken.local_addr().expect("an address").to_string()), "{line}");
    assert!(line.contains("n2") && line.contains("node.toml"), "{line}");
    drop(taken);
    cluster.up();
    for index in 0..3 {
        assert_all(&mut cluster.client(index));
    }
    cluster.down();
}

#[test]
fn nodes_are_started_by_hand_from_what_up_has_written() {
    let mut cluster = Cluster::started("hand", 3);
    set_all(&mut cluster.client(2));
    cluster.kill(1);
    until("up reports the death", || cluster.told().contains("n2 (pid"));
    let told = cluster.told();
    assert!(told.contains("was killed by signal 9, SIGKILL"), "{told}");
    assert!(told.contains("start it again with: quorate node --config"), "{told}");
    assert_all(&mut cluster.client(0));
    cluster.start_by_hand(1);
    assert_all(&mut cluster.client(1));
    // `up` stops what it started, and says what it did not start.
    cluster.down();
    let told = cluster.told();
    assert!(told.contains("n2 was started again by hand"), "{told}");
    cluster.start_by_hand(0);
    assert_all(&mut cluster.client(0));
    cluster.start_by_hand(2);
    assert_all(&mut cluster.client(2));
    cluster.stop_all();
}

#[test]
fn up_starts_nodes_again_that_die_and_leaves_those_down_that_were_stopped() {
    let mut cluster = Cluster::new("restart", 3);
    let mut command = cluster.up_command();
    command.arg("--restart");
    cluster.up_as(command);
    set_all(&mut cluster.client(0));
    cluster.kill(1);
    until("up starts n2 again", || cluster.told().contains("n2 was started again as pid"));
    assert!(cluster.told().contains("SIGKILL (its log ends: "), "{}", cluster.told());
    assert!(cluster.told().contains("; it is started again in 500 ms"), "{}", cluster.told());
    until("n2 serves again", || cluster.try_client(1).is_ok());
    assert_all(&mut cluster.client(1));
    cluster.signal(2, libc::SIGTERM);
    until("up reports the end", || cluster.told().contains("ended with status 0"));
    assert!(cluster.told().contains("start it again with: quorate node --config"), "{}", cluster.told());
    cluster.down();
}

/// More than is encoded at once for a member that was away, and more than one log segment.
#[test]
fn a_large_volume_is_copied_to_a_node_that_was_away() {
    const LARGE_KEYS: usize = 30_000;
    let mut cluster = Cluster::started("copied", 3);
    let mut client = cluster.client(0);
    redis::cmd("QUORATE").arg(&["NAMESPACE", "CREATE", "1", "VOLUMES", "1"]).exec(&mut client).expect("created");
    redis::cmd("SELECT").arg(1).exec(&mut client).expect("selected");
    let value = |key: usize, round: usize| format!("{round} {key} {}", "x".repeat(300));
    let mut set_all = |round: usize| {
        for first in (0..LARGE_KEYS).step_by(500) {
            let mut batch = redis::pipe();
            for key in first..first + 500 {
                batch.set(key, value(key, round)).ignore();
            }
            batch.exec(&mut client).expect("stored");
        }
    };
    set_all(0);
    cluster.kill(2);
    (1..=4).for_each(&mut set_all);
    cluster.start_by_hand(2);
    until("n3 has a snapshot", || {
        set_all(5);
        cluster.try_client(2).is_ok_and(|mut third| figure(&mut third, "snapshots_installed") > 0)
    });
    let copied = (0..2).map(|index| figure(&mut cluster.client(index), "snapshots_copied")).sum::<u64>();
    assert!(copied > 0, "from the checkpoint store");
    // One of the two that were there is missing: whoever coordinates, n3 has a say in all that is read.
    cluster.kill(1);
    let keys: Vec<usize> = (0..LARGE_KEYS).step_by(7).collect();
    let mut third = cluster.client(2);
    redis::cmd("SELECT").arg(1).exec(&mut third).expect("selected");
    let mut values = Vec::<Option<String>>::new();
    until("the values are read", || redis::cmd("MGET").arg(&keys).query(&mut third).map(|read| values = read).is_ok());
    assert_eq!(values, keys.iter().map(|&key| Some(value(key, 5))).collect::<Vec<_>>());
    cluster.down();
    cluster.stop_all();
}

#[test]
fn nodes_stop_cleanly_under_load_and_lose_nothing() {
    let mut random = Random::announced();
    let mut cluster = Cluster::started("stop", 3);
    cluster.down();
    (0..3).for_each(|index| cluster.start_by_hand(index));
    let mut load = Load::start(&cluster, &mut random);
    for index in 0..3 {
        load.wait_for_in_flight(64);
        cluster.stop_by_hand(index);
        load.ledger().watch();
        until("every counter takes increments again", || load.ledger().resumed_after().is_some());
        let resumed = load.ledger().resumed_after().expect("just seen").as_millis();
        cluster.start_by_hand(index);
        load.check(&cluster);
        println!("n{}: all counters count after {resumed} ms; {}", index + 1, load.ledger().totals());
    }
    load.stop();
    cluster.stop_all();
}

#[test]
fn what_a_node_that_stops_has_not_answered_it_has_not_carried_out() {
    let mut cluster = Cluster::started("goodbye", 3);
    cluster.down();
    (0..3).for_each(|index| cluster.start_by_hand(index));
    let clients: Vec<_> = (0..16).map(|number| (number, cluster.client(0))).collect();
    let count_until_it_ends = |(number, mut client): (usize, redis::Connection)| {
        let mut answered = 0;
        loop {
            match redis::cmd("INCR").arg(number).query::<u64>(&mut client) {
                Ok(_) => answered += 1,
                Err(error) => return (number, answered, error),
            }
        }
    };
    let ended: Vec<(usize, u64, redis::RedisError)> = std::thread::scope(|scope| {
        let counting: Vec<_> =
            clients.into_iter().map(|client| scope.spawn(move || count_until_it_ends(client))).collect();
        std::thread::sleep(Duration::from_millis(500));
        cluster.stop_by_hand(0);
        counting.into_iter().map(|client| client.join().expect("it counts")).collect()
    });
    let mut other = cluster.client(1);
    for (number, answered, error) in ended {
        assert!(error.is_connection_dropped() && !error.to_string().contains("reset"), "{error}");
        let count: u64 = redis::cmd("GET").arg(number).query(&mut other).expect("the others serve");
        assert!(answered > 0 && count == answered, "{answered} answers, counted to {count}; {error}");
    }
    cluster.start_by_hand(0);
    cluster.stop_all();
}

#[test]
fn clusters_of_one_two_and_five_nodes_serve() {
    for node_count in [1, 2, 5] {
        let mut cluster = Cluster::started("sizes", node_count);
        set_all(&mut cluster.client(0));
        for index in 0..node_count {
            assert_all(&mut cluster.client(index));
        }
        cluster.down();
    }
}

#[test]
fn an_ephemeral_cluster_leaves_nothing() {
    let mut cluster = Cluster::new("ephemeral", 1);
    let temporary = cluster.data();
    std::fs::create_dir(&temporary).expect("a directory");
    let is_empty = || std::fs::read_dir(&temporary).expect("a directory").next().is_none();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["up", "--ephemeral"]).env("TMPDIR", &temporary).stdin(Stdio::null());
    cluster.up_as(command);
    set_all(&mut cluster.client(0));
    assert!(!is_empty());
    cluster.down();
    assert!(is_empty());
}
