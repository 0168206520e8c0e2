//! Chains: whichever node is killed or stands still, it is the head of some, in the middle of others and the tail of the rest.

use std::thread;
use std::time::{Duration, Instant};

use redis::Commands;

use crate::load::Load;
use crate::nodes::{Cluster, until};
use crate::random::Random;

const NODES: usize = 3;
const IN_FLIGHT_MIN: u64 = 64;
/// Objects that are only read, enough for every chain to have some.
const READ_KEYS: usize = 200;
/// How long reads are watched, with and without a node.
const WATCHED: Duration = Duration::from_secs(4);

fn started(name: &str) -> Cluster {
    let mut cluster = Cluster::new(name, NODES);
    let mut command = cluster.up_command();
    command.args(["--protocol", "chain"]);
    cluster.up_as(command);
    until("all nodes are in all chains", || is_whole(&cluster));
    cluster
}

/// Every chain has all nodes as members, as each of them knows: one that has just come back may know what was long ago.
fn is_whole(cluster: &Cluster) -> bool {
    (0..NODES).all(|index| {
        let status = cluster.status_of(index).unwrap_or_default();
        !status.volumes.is_empty() && status.volumes.iter().all(|volume| volume.members.len() == NODES)
    })
}

#[test]
fn chains_lose_nothing_when_their_nodes_are_killed_one_after_the_other() {
    let mut random = Random::announced();
    let mut cluster = started("chain-kill");
    assert!(cluster.status().namespaces.iter().all(|namespace| namespace.protocol == "chain"));
    let mut load = Load::start(&cluster, &mut random);
    // Who kills a node while the others start stops them all.
    thread::sleep(Duration::from_secs(1));
    for index in 0..NODES {
        load.wait_for_in_flight(IN_FLIGHT_MIN);
        cluster.kill(index);
        load.ledger().watch();
        until("the shorter chains take increments of every counter", || load.ledger().resumed_after().is_some());
        let resumed = load.ledger().resumed_after().expect("just seen");
        cluster.start_by_hand(index);
        until("the node is in all chains again", || is_whole(&cluster));
        load.ledger().watch();
        until("every counter takes increments again", || load.ledger().resumed_after().is_some());
        load.check(&cluster);
        println!(
            "n{}: all counters count again after {} ms; {}",
            index + 1,
            resumed.as_millis(),
            load.ledger().totals()
        );
    }
    load.stop();
    load.check(&cluster);
    cluster.stop_all();
    cluster.up();
    load.check(&cluster);
    cluster.stop_all();
}

#[test]
fn a_member_of_chains_that_stood_still_answers_nothing_old() {
    let mut random = Random::announced();
    let cluster = started("chain-pause");
    let mut load = Load::start(&cluster, &mut random);
    for index in 0..NODES {
        load.wait_for_in_flight(IN_FLIGHT_MIN);
        let mut asker = cluster.client(index);
        cluster.freeze(index);
        load.ledger().watch();
        until("the shorter chains take increments of every counter", || load.ledger().resumed_after().is_some());
        let told = load.ledger().told();
        cluster.signal(index, libc::SIGCONT);
        for (key, least) in &told {
            let value: Option<i64> = asker.get(key).unwrap_or(Some(*least));
            assert!(value.unwrap_or(0) >= *least, "n{} says {value:?} of {key}, which was {least}", index + 1);
        }
        until("the node is in all chains again", || is_whole(&cluster));
        load.check(&cluster);
    }
    load.stop();
}

/// The name of the node at the end of a key's chain.
fn tail_of(client: &mut redis::Connection, key: &str) -> String {
    let shown: Vec<redis::Value> =
        redis::cmd("QUORATE").arg("GROUP").arg("SHOW").arg(key).query(client).expect("shown");
    let word = |value: &redis::Value| redis::from_redis_value::<String>(value.clone()).ok();
    let at = shown.iter().position(|value| word(value).as_deref() == Some("tail")).expect("a chain has a tail");
    word(&shown[at + 1]).expect("a name")
}

/// The numbers of the members of each chain, from head to tail.
fn orders(cluster: &Cluster) -> Vec<Vec<u32>> {
    cluster
        .status()
        .volumes
        .into_iter()
        .map(|volume| volume.members.into_iter().map(|member| member.node).collect())
        .collect()
}

#[test]
fn chains_get_back_their_order_once_a_node_is_back() {
    let mut cluster = started("chain-order");
    let born = orders(&cluster);
    let heads = |node: u32| born.iter().filter(|members| members[0] == node).count();
    let counts = [1, 2, 3].map(heads);
    assert!(counts.iter().all(|&count| counts.iter().all(|&other| count <= other + 1)), "{counts:?}");
    let mut client = cluster.client(1);
    let _: () = client.set("key", "here").expect("written");
    cluster.kill(0);
    until("the chains are shorter", || orders(&cluster).iter().all(|members| members.len() == NODES - 1));
    cluster.start_by_hand(0);
    until("the node is in all chains again", || is_whole(&cluster));
    assert_ne!(orders(&cluster), born, "it came back as the tail");
    until("all chains have their order again", || orders(&cluster) == born);
    assert_eq!(client.get::<_, String>("key").expect("read"), "here");
    cluster.down();
}

/// The longest that a reader of chains without the killed node as tail had to wait for an answer.
fn longest_gap(cluster: &Cluster, keys: &[String]) -> Duration {
    let mut reader = cluster.client(1);
    let (began, mut longest, mut last) = (Instant::now(), Duration::ZERO, Instant::now());
    for key in keys.iter().cycle() {
        if began.elapsed() > WATCHED {
            break;
        }
        let value: Option<String> = reader.get(key).expect("the tail is there");
        assert_eq!(value.as_deref(), Some("here"), "{key}");
        longest = longest.max(last.elapsed());
        last = Instant::now();
        thread::sleep(Duration::from_millis(1));
    }
    longest
}

#[test]
fn reads_go_on_while_a_head_or_a_middle_member_is_down() {
    let mut cluster = started("chain-reads");
    let mut client = cluster.client(1);
    let mut keys = Vec::new();
    for number in 0..READ_KEYS {
        let key = format!("read:{number}");
        let _: () = client.set(&key, "here").expect("written");
        if tail_of(&mut client, &key) != "n1" {
            keys.push(key);
        }
    }
    assert!(keys.len() > READ_KEYS / 3, "two thirds of the chains have another tail");
    let quiet = longest_gap(&cluster, &keys);
    cluster.kill(0);
    let without = longest_gap(&cluster, &keys);
    println!(
        "longest wait for a read: {} ms, {} ms without a head or a middle",
        quiet.as_millis(),
        without.as_millis()
    );
    until("the chains are shorter", || cluster.status().volumes.iter().all(|volume| volume.members.len() == NODES - 1));
}
