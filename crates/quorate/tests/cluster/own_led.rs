//! Objects with groups of their own that are chains or registers, through the public interface: made, changed, killed and ended
//! while clients use them.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use redis::{Connection, Value};

use crate::load::Load;
use crate::nodes::{Cluster, until};
use crate::own::{group, group_all, is_refused, shown};
use crate::random::Random;
use crate::register_load::{RegisterLoad, free_keys, rising_keys};
use crate::registers::{ask, names, others, show, text};

const NODES: usize = 3;
const IN_FLIGHT_MIN: u64 = 64;
/// Own registers that are changed by one command.
const KEYS: usize = 1_000;
/// How long clients go on between two changes.
const BETWEEN_CHANGES: Duration = Duration::from_millis(300);
/// Where volumes have more members than own groups need.
const NAMESPACE: u32 = 1;

/// Every node takes commands of administration.
pub(crate) fn started(name: &str, node_count: usize) -> Cluster {
    let cluster = Cluster::started(name, node_count);
    for index in 0..node_count {
        let mut client = cluster.client(index);
        until("the node knows the volumes", || {
            let shown = group(&mut client, &["SHOW", "nothing"]);
            is_refused(&shown, "no such key")
        });
    }
    cluster
}

/// The same words of `QUORATE` for all keys, one change after the other.
pub(crate) fn for_all(client: &mut Connection, command: &str, keys: &[String], options: &str) {
    let line = format!("QUORATE {command} KEYS {} {} {options}", keys.len(), keys.join(" "));
    assert_eq!(ask(client, line.trim_end()), Value::Array(vec![Value::Okay; keys.len()]), "{line}");
}

/// Returns when all these nodes know of nothing but this quorum for these keys.
fn settle(cluster: &Cluster, nodes: &[usize], namespace: u32, keys: &[String], quorum: &str) {
    for &node in nodes {
        let mut client = entered(cluster, node, namespace);
        until("the change is over", || {
            let shown = show(&mut client, keys);
            let is_over = |fields: &BTreeMap<String, Value>| {
                !fields.contains_key("moving") && fields.get("quorum").and_then(text).as_deref() == Some(quorum)
            };
            shown.iter().all(is_over)
        });
    }
}

fn entered(cluster: &Cluster, node: usize, namespace: u32) -> Connection {
    let mut client = cluster.client(node);
    assert_eq!(ask(&mut client, &format!("SELECT {namespace}")), Value::Okay);
    client
}

/// A node may refuse for a moment what registers refuse, before it has heard that the object is none any more.
fn counts(client: &mut Connection, key: &str, expected: i64) {
    until("the object is no register", || match ask(client, &format!("INCR {key}")) {
        Value::ServerError(error) if error.code() == "PROTOCOL" => false,
        reply => {
            assert_eq!(reply, Value::Int(expected), "{key}");
            true
        }
    });
}

fn answer(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[test]
fn an_object_is_a_chain_of_its_own_for_a_while() {
    let mut cluster = started("own-chain", NODES);
    let (mut first, mut second) = (cluster.client(0), cluster.client(1));
    assert_eq!(ask(&mut first, "SET key 1 EX 1000"), Value::Okay);
    group(&mut first, &["PROMOTE", "key", "PROTOCOL", "chain", "MEMBERS", "n3,n2"]).expect("promoted");
    let drawn = ["kind", "protocol", "chain", "head", "tail"].map(|field| shown(&mut second, "key", field));
    assert_eq!(drawn, ["own", "chain", "n3 -> n2", "n3", "n2"]);
    assert_eq!(ask(&mut first, "INCR key"), Value::Int(2));
    assert_eq!(ask(&mut second, "APPEND key 0"), Value::Int(2));
    assert_eq!(ask(&mut first, "SET key x NX"), Value::Nil);
    assert_eq!(ask(&mut first, "EXPIRE key 500"), Value::Int(1));
    let quorum = group(&mut first, &["PROMOTE", "key", "PROTOCOL", "chain", "QUORUM", "majority"]);
    assert!(is_refused(&quorum, "QUORUM goes with PROTOCOL register"), "{quorum:?}");
    group(&mut first, &["MOVE", "key", "MEMBERS", "n1,n2"]).expect("asked for");
    until("it has moved", || shown(&mut second, "key", "chain") == "n1 -> n2");
    group(&mut second, &["DEMOTE", "key"]).expect("asked for");
    until("it is back", || shown(&mut first, "key", "kind") == "volume");
    assert_eq!(ask(&mut second, "GET key"), answer("20"));
    let Value::Int(left) = ask(&mut first, "TTL key") else { panic!("no time to live") };
    assert!((400..=500).contains(&left), "{left}");
    cluster.down();
}

/// What `SHOW` tells of each member of a key's chain.
fn positions(client: &mut Connection, key: &str) -> Vec<BTreeMap<String, Value>> {
    let fields = show(client, &[key.to_owned()]).remove(0);
    let Value::Array(positions) = &fields["positions"] else { panic!("no list: {fields:?}") };
    positions.iter().map(|position| redis::from_redis_value(position.clone()).expect("fields")).collect()
}

#[test]
fn every_member_of_a_chain_says_where_it_is_awake_or_at_rest() {
    let mut cluster = started("own-chain-rest", NODES);
    cluster.stop_all();
    cluster.rest_at_once();
    cluster.up();
    let (mut first, mut second) = (cluster.client(0), cluster.client(1));
    assert_eq!(ask(&mut first, "SET key 1"), Value::Okay);
    group(&mut first, &["PROMOTE", "key", "PROTOCOL", "chain", "MEMBERS", "n3,n2,n1"]).expect("promoted");
    let all = |client: &mut Connection, field: &str| -> Vec<String> {
        positions(client, "key").iter().map(|position| text(&position[field]).expect("text")).collect()
    };
    assert_eq!(all(&mut first, "node"), ["n3", "n2", "n1"]);
    let rests = |client: &mut Connection| all(client, "state").iter().all(|state| state == "paused");
    for round in 1..=3 {
        until("the chain rests", || rests(&mut second));
        assert_eq!(ask(&mut second, "INCR key"), Value::Int(round + 1));
        assert_eq!(ask(&mut first, "GET key"), answer(&(round + 1).to_string()));
    }
    let decided = all(&mut second, "decided");
    assert!(decided.iter().all(|slot| slot == &decided[0]), "{decided:?}");
    until("the chain rests", || rests(&mut second));
    // A head at rest dies: whoever is left goes on, and the head comes back behind them.
    cluster.kill(2);
    until("the chain takes increments", || ask(&mut second, "INCR key") == Value::Int(5));
    cluster.start_by_hand(2);
    until("it is in the chain again", || {
        let states = all(&mut second, "state");
        states.len() == NODES && states.iter().all(|state| ["active", "idle", "paused"].contains(&&state[..]))
    });
    assert_eq!(ask(&mut first, "INCR key"), Value::Int(6));
    cluster.stop_all();
    cluster.up();
    assert_eq!(ask(&mut cluster.client(0), "GET key"), answer("6"));
    cluster.down();
}

#[test]
fn own_chains_lose_nothing_when_their_tail_and_their_head_are_killed() {
    let mut random = Random::announced();
    let mut cluster = started("own-chain-kill", NODES);
    let mut load = Load::start(&cluster, &mut random);
    load.ledger().watch();
    until("every counter is there", || load.ledger().resumed_after().is_some());
    let counters: Vec<String> = load.ledger().told().into_iter().map(|(key, _)| key).collect();
    // The first node is the head of some, in the middle of others, and the tail of the rest.
    for (share, members) in counters.chunks(counters.len().div_ceil(NODES)).zip(["n1,n2,n3", "n2,n3,n1", "n3,n1,n2"]) {
        for_all(&mut cluster.client(1), "GROUP PROMOTE", share, &format!("PROTOCOL chain MEMBERS {members}"));
    }
    for index in [0, 2] {
        load.wait_for_in_flight(IN_FLIGHT_MIN);
        cluster.kill(index);
        load.ledger().watch();
        until("the shorter chains take increments", || load.ledger().resumed_after().is_some());
        cluster.start_by_hand(index);
        until("the node is in all chains again", || {
            let shown = show(&mut cluster.client(1), &counters);
            shown.iter().all(|fields| match &fields["members"] {
                Value::Array(members) => members.len() == NODES,
                other => panic!("members are {other:?}"),
            })
        });
        load.ledger().watch();
        until("every counter takes increments again", || load.ledger().resumed_after().is_some());
        load.check(&cluster);
        println!("n{} is in all chains again; {}", index + 1, load.ledger().totals());
    }
    load.wait_for_in_flight(IN_FLIGHT_MIN);
    for_all(&mut cluster.client(0), "GROUP DEMOTE", &counters, "");
    until("they are back in their volumes", || {
        let shown = show(&mut cluster.client(0), &counters);
        shown.iter().all(|fields| text(&fields["kind"]).as_deref() == Some("volume"))
    });
    load.ledger().watch();
    until("every counter takes increments", || load.ledger().resumed_after().is_some());
    load.stop();
    load.check(&cluster);
    cluster.stop_all();
}

#[test]
fn an_object_is_a_register_of_its_own_for_a_while() {
    let mut cluster = started("own-register", NODES);
    let (mut first, mut second) = (cluster.client(0), cluster.client(1));
    assert_eq!(ask(&mut first, "SET key 1"), Value::Okay);
    let promote = ["PROMOTE", "key", "PROTOCOL", "register", "QUORUM", "threshold", "1", "3"];
    group(&mut first, &promote).expect("promoted");
    let drawn = ["kind", "protocol", "quorum", "survives_crashes"].map(|field| shown(&mut second, "key", field));
    assert_eq!(drawn, ["own", "register", "threshold 1 3", "0"]);
    for line in ["INCR key", "APPEND key x", "SET key x NX", "EXPIRE key 10", "GETDEL key"] {
        let refused = ask(&mut second, line);
        assert!(matches!(&refused, Value::ServerError(error) if error.code() == "PROTOCOL"), "{line}: {refused:?}");
    }
    assert_eq!(ask(&mut second, "SET key 2"), Value::Okay);
    let small = ask(&mut first, "QUORATE QUORUM SET key 1 2");
    assert!(matches!(&small, Value::ServerError(error) if error.to_string().contains("could miss")), "{small:?}");
    group(&mut second, &["DEMOTE", "key"]).expect("asked for");
    until("it is back", || shown(&mut first, "key", "kind") == "volume");
    counts(&mut first, "key", 3);
    // It is deleted, there again at once, and a register again.
    group(&mut first, &promote).expect("promoted");
    for round in 0..20 {
        let value = format!("{round}");
        assert_eq!(ask(&mut second, "DEL key"), Value::Int(1));
        assert_eq!(ask(&mut first, "GET key"), Value::Nil);
        assert_eq!(ask(&mut first, &format!("SET key {value}")), Value::Okay);
        until("the deleted one's group is gone", || shown(&mut second, "key", "kind") == "volume");
        group(&mut second, &promote).expect("promoted");
        assert_eq!(ask(&mut first, "GET key"), answer(&value));
    }
    cluster.down();
}

#[test]
fn an_own_register_expires_and_its_name_is_free_again() {
    let mut cluster = started("own-register-expiry", NODES);
    let (mut first, mut second) = (cluster.client(0), cluster.client(1));
    assert_eq!(ask(&mut first, "SET promoted 1 EX 1000"), Value::Okay);
    group(&mut first, &["PROMOTE", "promoted", "PROTOCOL", "register"]).expect("promoted");
    let Value::Int(left) = ask(&mut second, "TTL promoted") else { panic!("no time to live") };
    assert!((900..=1000).contains(&left), "{left}");
    group(&mut first, &["CREATE", "created", "PROTOCOL", "register", "MEMBERS", "n3,n2", "VALUE", "1"])
        .expect("created");
    assert_eq!(ask(&mut first, "TTL created"), Value::Int(-1));
    for key in ["promoted", "created"] {
        assert_eq!(ask(&mut second, &format!("SET {key} 7 PX 100")), Value::Okay);
        until("it has expired", || ask(&mut first, &format!("GET {key}")) == Value::Nil);
        until("its group is gone", || {
            let is_gone = |client| is_refused(&group(client, &["SHOW", key]), "no such key");
            is_gone(&mut first) && is_gone(&mut second)
        });
        counts(&mut second, key, 1);
        assert_eq!(shown(&mut first, key, "kind"), "volume");
    }
    cluster.down();
}

/// Rising keys are the registers: free keys are deleted by their clients, which would end their groups.
#[test]
fn own_registers_change_sizes_and_members_and_no_client_takes_notice() {
    const NODES: usize = 5;
    let mut random = Random::announced();
    let mut cluster = started("own-register-change", NODES);
    let all = others(NODES, &[]);
    let line = format!("QUORATE NAMESPACE CREATE {NAMESPACE} REPLICAS {NODES} VOLUMES 8");
    until("the namespace is made", || ask(&mut cluster.client(0), &line) == Value::Okay);
    for &node in &all {
        let mut client = cluster.client(node);
        until("the node knows the namespace", || ask(&mut client, &format!("SELECT {NAMESPACE}")) == Value::Okay);
        for key in free_keys() {
            until("the node serves the volume", || ask(&mut client, &format!("DEL {key}")) == Value::Int(0));
        }
    }
    let (keys, mut client) = (rising_keys(NODES), entered(&cluster, 0, NAMESPACE));
    for_all(&mut client, "GROUP CREATE", &keys, "PROTOCOL register MEMBERS n1,n2,n3 QUORUM threshold 1 3 VALUE 0");
    settle(&cluster, &all, NAMESPACE, &keys, "threshold 1 3");
    let mut load = RegisterLoad::start(&cluster, NAMESPACE, &all, &mut random);
    let mut changed = 0;
    for (sizes, members) in [((3, 1), None), ((2, 2), None), ((1, 3), Some(4)), ((3, 1), Some(5)), ((2, 2), Some(3))] {
        let mut client = entered(&cluster, random.below(NODES as u64) as usize, NAMESPACE);
        let quorum = match members {
            None => {
                for_all(&mut client, "QUORUM SET", &keys, &format!("{} {}", sizes.0, sizes.1));
                format!("threshold {} {}", sizes.0, sizes.1)
            }
            Some(count) => {
                let mut members = all.clone();
                random.shuffle(&mut members);
                members.truncate(count);
                let quorum = if count == 4 { "grid 2x2".to_owned() } else { format!("threshold 2 {}", count - 1) };
                for key in &keys {
                    move_to(&mut client, key, &members, &quorum);
                }
                quorum
            }
        };
        settle(&cluster, &all, NAMESPACE, &keys, &quorum);
        changed += keys.len();
        thread::sleep(BETWEEN_CHANGES);
        load.assert_unharmed();
    }
    load.stop();
    load.check(&cluster, others(NODES, &[]).into_iter(), &mut random);
    for_all(&mut client, "GROUP DEMOTE", &keys, "");
    until("they are back in their volumes", || {
        show(&mut client, &keys).iter().all(|fields| text(&fields["kind"]).as_deref() == Some("volume"))
    });
    load.check(&cluster, all.into_iter(), &mut random);
    println!("{changed} changes of own registers; {} answers", load.answered());
    cluster.stop_all();
}

/// After the change that is under way.
fn move_to(client: &mut Connection, key: &str, members: &[usize], quorum: &str) {
    let line = format!("QUORATE GROUP MOVE {key} MEMBERS {} QUORUM {quorum}", names(members).join(","));
    assert_eq!(ask(client, &line), Value::Okay, "{line}");
}

#[test]
fn thousands_of_own_chains_and_registers_outlive_their_nodes() {
    let mut cluster = started("own-led-restart", NODES);
    let mut client = cluster.client(0);
    let [registers, chains] = ["register", "chain"].map(|protocol| {
        let keys: Vec<String> = (0..KEYS).map(|number| format!("{protocol}:{number}")).collect();
        group_all(&mut client, "CREATE", &keys, &["PROTOCOL", protocol, "VALUE", "1"]);
        keys
    });
    let mut resize = redis::cmd("QUORATE");
    resize.arg(&["QUORUM", "SET", "KEYS"]).arg(KEYS).arg(&registers).arg(&[1, 3]);
    let answers: Vec<String> = resize.query(&mut client).expect("answered");
    assert_eq!(answers, vec!["OK"; KEYS]);
    settle(&cluster, &others(NODES, &[]), 0, &registers, "threshold 1 3");
    let pairs: Vec<(&String, String)> = registers.iter().map(|key| (key, format!("{key} is"))).collect();
    redis::cmd("MSET").arg(&pairs).exec(&mut cluster.client(1)).expect("written");
    let mut pipeline = redis::pipe();
    chains.iter().for_each(|key| {
        pipeline.cmd("INCR").arg(key);
    });
    let counted: Vec<i64> = pipeline.query(&mut cluster.client(2)).expect("counted");
    assert_eq!(counted, vec![2; KEYS]);
    (0..NODES).for_each(|index| cluster.kill(index));
    cluster.start_all_by_hand();
    for index in 0..NODES {
        let mut client = cluster.client(index);
        let (mut written, mut counted) = (Vec::new(), Vec::new());
        until("the registers are back", || {
            redis::cmd("MGET")
                .arg(&registers)
                .query(&mut client)
                .map(|read: Vec<Option<String>>| written = read)
                .is_ok()
        });
        until("the chains are back", || {
            redis::cmd("MGET").arg(&chains).query(&mut client).map(|read: Vec<Option<i64>>| counted = read).is_ok()
        });
        assert!(written.iter().zip(&pairs).all(|(found, (_, sent))| found.as_ref() == Some(sent)));
        assert_eq!(counted, vec![Some(2); KEYS]);
    }
    let mut client = cluster.client(0);
    let last = [registers[KEYS - 1].as_str(), chains[KEYS - 1].as_str()];
    assert_eq!(last.map(|key| shown(&mut client, key, "kind")), ["own", "own"]);
    assert_eq!(shown(&mut client, last[0], "quorum"), "threshold 1 3");
    cluster.stop_all();
}
