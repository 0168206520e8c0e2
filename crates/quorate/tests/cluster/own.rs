//! Objects with groups of their own, through the public interface.

use std::collections::BTreeSet;
use std::process::Command;

use quorate_node::status::NodeStatus;
use redis::{Connection, RedisError, RedisResult, Value};

use crate::nodes::{Cluster, figure, until};

const KEYS: usize = 3_000;

pub(crate) fn group(client: &mut Connection, words: &[&str]) -> RedisResult<Value> {
    redis::cmd("QUORATE").arg("GROUP").arg(words).query(client)
}

/// What `SHOW` says under a name, as text.
pub(crate) fn shown(client: &mut Connection, key: &str, field: &str) -> String {
    let map: Vec<Value> = redis::cmd("QUORATE").arg(&["GROUP", "SHOW", key]).query(client).expect("shown");
    let text =
        |value: &Value| redis::from_redis_value::<String>(value.clone()).unwrap_or_else(|_| format!("{value:?}"));
    let pair = map.chunks(2).find(|pair| text(&pair[0]) == field).expect("a field");
    text(&pair[1])
}

pub(crate) fn is_refused(result: &Result<Value, RedisError>, text: &str) -> bool {
    result.as_ref().is_err_and(|error| error.to_string().contains(text))
}

fn names(prefix: &str) -> Vec<String> {
    (0..KEYS).map(|number| format!("{prefix}{number}")).collect()
}

/// One command on many names; every answer must be OK.
pub(crate) fn group_all(client: &mut Connection, action: &str, names: &[String], options: &[&str]) {
    let mut command = redis::cmd("QUORATE");
    command.arg("GROUP").arg(action).arg("KEYS").arg(names.len()).arg(names).arg(options);
    let answers: Vec<String> = command.query(client).expect("answered");
    assert_eq!(answers, vec!["OK"; names.len()]);
}

fn incr_all(client: &mut Connection, names: &[String]) -> Vec<i64> {
    let mut pipeline = redis::pipe();
    names.iter().for_each(|name| {
        pipeline.cmd("INCR").arg(name);
    });
    pipeline.query(client).expect("counted")
}

#[test]
fn an_object_is_given_a_group_of_its_own_and_put_back_while_it_is_used() {
    let mut cluster = Cluster::started("own", 3);
    let (mut first, mut second) = (cluster.client(0), cluster.client(1));
    redis::cmd("SET").arg(&["key", "1", "EX", "1000"]).exec(&mut first).expect("stored");
    assert_eq!(shown(&mut first, "key", "kind"), "volume");
    assert!(is_refused(&group(&mut first, &["PROMOTE", "nothing"]), "no such key"));
    group(&mut first, &["PROMOTE", "key"]).expect("promoted");
    assert_eq!(shown(&mut second, "key", "kind"), "own");
    assert!(is_refused(&group(&mut second, &["PROMOTE", "key"]), "group of its own already"));
    let values: (i64, i64, i64) =
        redis::pipe().cmd("INCR").arg("key").cmd("TTL").arg("key").cmd("DBSIZE").query(&mut second).expect("served");
    assert!(values.0 == 2 && (990..=1000).contains(&values.1) && values.2 == 1, "{values:?}");
    group(&mut second, &["DEMOTE", "key"]).expect("asked for");
    until("it is back", || shown(&mut first, "key", "kind") == "volume");
    let value: i64 = redis::cmd("INCR").arg("key").query(&mut first).expect("counted");
    assert_eq!(value, 3);
    // One member, a value from the start, deletion, and the same name again at once.
    group(&mut first, &["CREATE", "single", "MEMBERS", "n3", "VALUE", "one"]).expect("created");
    assert_eq!(
        (shown(&mut first, "single", "coordinator"), shown(&mut first, "key", "kind")),
        ("n3".into(), "volume".into())
    );
    assert!(is_refused(&group(&mut first, &["CREATE", "other", "MEMBERS", "n9"]), "no node is called n9"));
    for round in 0..20 {
        let (value, gone): (String, i64) =
            redis::pipe().cmd("GET").arg("single").cmd("DEL").arg("single").query(&mut second).expect("served");
        assert_eq!((value, gone), (if round == 0 { "one".into() } else { round.to_string() }, 1));
        redis::cmd("SET").arg("single").arg(round + 1).exec(&mut first).expect("stored");
    }
    cluster.down();
}

#[test]
fn thousands_of_own_groups_outlive_their_nodes() {
    let mut cluster = Cluster::started("own-many", 3);
    let (names, created) = (names("key:"), names("made:"));
    let mut client = cluster.client(0);
    assert_eq!(incr_all(&mut client, &names), vec![1; KEYS]);
    group_all(&mut client, "PROMOTE", &names, &[]);
    group_all(&mut client, "CREATE", &created, &["VALUE", "1"]);
    assert_eq!(incr_all(&mut cluster.client(1), &names), vec![2; KEYS]);
    assert_eq!(incr_all(&mut cluster.client(2), &created), vec![2; KEYS]);
    cluster.kill(1);
    let mut counted = Vec::new();
    let mut client = cluster.client(2);
    until("the others take over", || {
        let values: RedisResult<Vec<Option<i64>>> = redis::cmd("MGET").arg(&names).arg(&created).query(&mut client);
        values.map(|values| counted = values).is_ok()
    });
    assert_eq!(counted, vec![Some(2); 2 * KEYS]);
    assert_eq!(incr_all(&mut client, &names), vec![3; KEYS]);
    cluster.start_by_hand(1);
    cluster.kill(0);
    cluster.kill(2);
    cluster.start_by_hand(0);
    cluster.start_by_hand(2);
    let mut client = cluster.client(1);
    let mut values = Vec::new();
    until("all are back", || {
        redis::cmd("MGET").arg(&names).query(&mut client).map(|read: Vec<Option<i64>>| values = read).is_ok()
    });
    assert_eq!(values, vec![Some(3); KEYS]);
    group_all(&mut client, "DEMOTE", &names, &[]);
    until("they are back in their volumes", || shown(&mut client, &names[KEYS - 1], "kind") == "volume");
    assert_eq!(incr_all(&mut client, &names), vec![4; KEYS]);
    let count: usize = redis::cmd("DBSIZE").query(&mut client).expect("counted");
    assert_eq!(count, 2 * KEYS);
    redis::cmd("FLUSHDB").exec(&mut client).expect("emptied");
    let left: Vec<Option<i64>> = redis::cmd("MGET").arg(&created).query(&mut client).expect("read");
    assert_eq!(left, vec![None; KEYS]);
    until("no group is left", || redis::cmd("DBSIZE").query(&mut client) == Ok(0));
    bench(&cluster);
    cluster.stop_all();
}

/// The benchmark measures what it is asked for, and leaves nothing behind.
fn bench(cluster: &Cluster) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args([
        "bench",
        "groups",
        "--port",
        &cluster.address(1).1.to_string(),
        "--groups",
        "2000",
        "--batch",
        "500",
    ]);
    command.args(["--rows", "creation,memory,record,active,paused", "--settle", "0", "--pairs", "1", "--json"]);
    let output = command.output().expect("started");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = |name: &str| {
        let rows = report["rows"].as_array().expect("rows");
        rows.iter().find(|row| row["row"] == name).unwrap_or_else(|| panic!("{name} is not in {report}"))
    };
    assert!(row("creation")["groups_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{report}");
    assert_eq!(row("memory")["groups"].as_array().map(Vec::len), Some(cluster.node_count()));
    assert_eq!(row("record")["nodes"].as_array().map(Vec::len), Some(cluster.node_count() - 1));
    assert_eq!(row("active")["compared"].as_array().map(Vec::len), Some(3));
    assert_eq!(row("paused")["loads"].as_array().map(Vec::len), Some(3));
    assert_eq!(cluster.status().namespaces.len(), 1, "its namespaces are dropped");
    until("no group is left", || cluster.status().nodes.iter().all(|node| groups_at(node) == Some(0)));
}

/// Own groups at a node, wherever they are.
pub(crate) fn groups_at(node: &NodeStatus) -> Option<u64> {
    let groups = node.own.as_ref()?.own_groups;
    Some(groups.active + groups.idle + groups.paused)
}

#[test]
fn every_key_of_a_namespace_can_have_a_group_of_its_own() {
    let mut cluster = Cluster::started("own-all", 3);
    let mut client = cluster.client(0);
    redis::cmd("QUORATE").arg(&["NAMESPACE", "CREATE", "5", "GROUPS", "own"]).exec(&mut client).expect("created");
    redis::cmd("SELECT").arg(5).exec(&mut client).expect("entered");
    let names = names("k");
    assert_eq!(incr_all(&mut client, &names), vec![1; KEYS]);
    assert_eq!(incr_all(&mut client, &names), vec![2; KEYS]);
    assert_eq!(shown(&mut client, "k7", "kind"), "own");
    let deleted: usize = redis::cmd("DEL").arg(&names[..100]).query(&mut client).expect("deleted");
    assert_eq!(deleted, 100);
    assert_eq!(incr_all(&mut client, &names)[99..101], [1, 3]);
    cluster.down();
}

#[test]
fn a_dropped_namespace_takes_its_groups_along_even_if_all_nodes_die_meanwhile() {
    let mut cluster = Cluster::started("own-dropped", 3);
    cluster.stop_all();
    // Few may wait for the checkpoint store: most births are put off until it has those before them.
    cluster.set_groups(&[("rest_after_ms", 200), ("resting_bytes", 0), ("awake_max", 1_000)]);
    cluster.up();
    let names = names("k");
    for is_cut_short in [false, true] {
        let mut client = cluster.client(0);
        let namespace = |client: &mut Connection, words: &[&str]| {
            redis::cmd("QUORATE").arg("NAMESPACE").arg(words).exec(client).expect("changed");
        };
        namespace(&mut client, &["CREATE", "1", "GROUPS", "own"]);
        redis::cmd("SELECT").arg(1).exec(&mut client).expect("there");
        assert!(redis::cmd("GET").arg(&names[0]).query::<Value>(&mut client) == Ok(Value::Nil), "of the one before");
        assert_eq!(incr_all(&mut client, &names), vec![1; KEYS]);
        namespace(&mut client, &["DROP", "1"]);
        if is_cut_short {
            (0..3).for_each(|node| cluster.kill(node));
            cluster.start_all_by_hand();
        }
        until("no group is left", || cluster.status().nodes.iter().all(|node| groups_at(node) == Some(0)));
    }
    cluster.stop_all();
}

#[test]
fn who_was_told_that_an_object_is_gone_finds_its_name_in_no_listing() {
    let mut cluster = Cluster::started("own-gone", 3);
    let mut client = cluster.client(0);
    redis::cmd("QUORATE").arg(&["NAMESPACE", "CREATE", "5", "GROUPS", "own"]).exec(&mut client).expect("created");
    let [mut client, mut other] = [0, 1].map(|index| {
        let mut client = cluster.client(index);
        until("the namespace is known", || redis::cmd("SELECT").arg(5).exec(&mut client).is_ok());
        client
    });
    let assert_empty = |client: &mut Connection| {
        let (count, keys): (u64, Vec<String>) =
            redis::pipe().cmd("DBSIZE").cmd("KEYS").arg("*").query(client).expect("listed");
        assert!(count == 0 && keys.is_empty(), "{count}, {keys:?}");
    };
    for round in 0..60 {
        let key = format!("k{round}");
        redis::cmd("SET").arg(&[&key, "v"]).exec(&mut client).expect("stored");
        match round % 3 {
            0 => redis::cmd("DEL").arg(&key).exec(&mut client).expect("deleted"),
            1 => redis::cmd("GETDEL").arg(&key).exec(&mut other).expect("deleted"),
            _ => {
                redis::cmd("PEXPIRE").arg(&[&key, "3"]).exec(&mut client).expect("set");
                let is_gone = |client: &mut Connection| {
                    let value: Option<String> = redis::cmd("GET").arg(&key).query(client).expect("read");
                    value.is_none()
                };
                until("it has expired", || is_gone(&mut other));
            }
        }
        assert_empty(&mut other);
        // What is deleted and written anew in one go is there.
        let answers: (String, u64, String, u64) = redis::pipe()
            .cmd("SET")
            .arg(&[&key, "1"])
            .cmd("DEL")
            .arg(&key)
            .cmd("SET")
            .arg(&[&key, "2"])
            .cmd("DEL")
            .arg(&key)
            .query(&mut client)
            .expect("served");
        assert_eq!(answers, ("OK".into(), 1, "OK".into(), 1));
        assert_empty(&mut client);
    }
    cluster.down();
}

fn scanned(client: &mut Connection) -> BTreeSet<String> {
    let (mut cursor, mut found) = (0_u64, BTreeSet::new());
    loop {
        let page: (u64, Vec<String>) = redis::cmd("SCAN").arg(cursor).query(client).expect("a page");
        found.extend(page.1);
        cursor = page.0;
        if cursor == 0 {
            return found;
        }
    }
}

#[test]
fn names_that_only_the_checkpoint_store_has_are_listed_and_go_with_their_objects() {
    let mut cluster = Cluster::started("own-swapped", 3);
    cluster.stop_all();
    cluster.rest_at_once();
    cluster.up();
    let mut client = cluster.client(0);
    redis::cmd("QUORATE").arg(&["NAMESPACE", "CREATE", "4", "GROUPS", "own"]).exec(&mut client).expect("created");
    let connect = |cluster: &Cluster, index| {
        let mut client = cluster.client(index);
        until("the namespace is known", || redis::cmd("SELECT").arg(4).exec(&mut client).is_ok());
        client
    };
    let names = names("a name of some length ");
    let mut client = connect(&cluster, 0);
    assert_eq!(incr_all(&mut client, &names), vec![1; KEYS]);
    let all: BTreeSet<String> = names.iter().cloned().collect();
    let are_swapped = |client: &mut Connection| figure(client, "own_group_records_swapped") > KEYS as u64 / 2;
    for index in 0..3 {
        let mut client = connect(&cluster, index);
        until("records are swapped", || are_swapped(&mut client));
        // What is asked for by name is found without the names.
        assert_eq!(incr_all(&mut client, &names[..50]), vec![index as i64 + 2; 50]);
        assert!(are_swapped(&mut client));
        assert_eq!(scanned(&mut client), all);
        let count: usize = redis::cmd("DBSIZE").query(&mut client).expect("counted");
        assert_eq!(count, KEYS);
        if index == 0 {
            cluster.kill(1);
            cluster.start_by_hand(1);
        } else {
            (0..3).for_each(|node| cluster.kill(node));
            cluster.start_all_by_hand();
        }
    }
    let mut client = connect(&cluster, 2);
    let deleted: usize = redis::cmd("DEL").arg(&names[..100]).query(&mut client).expect("deleted");
    assert_eq!(deleted, 100);
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut client).expect("listed");
    keys.sort();
    assert!(keys.iter().eq(all.iter().filter(|name| !names[..100].contains(name))));
    until("records are swapped", || are_swapped(&mut client));
    redis::cmd("FLUSHDB").exec(&mut client).expect("emptied");
    assert_eq!(scanned(&mut client), BTreeSet::new());
    assert_eq!(incr_all(&mut client, &names[..200]), vec![1; 200]);
    cluster.stop_all();
}
