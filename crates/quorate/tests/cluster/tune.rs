//! Nodes tell what clients ask for, and quorum sizes follow it.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Connection;

use crate::nodes::{Cluster, until};

/// A namespace of registers, and one with an object that is a register of its own.
const BULK: u32 = 1;
const SINGLE: u32 = 2;
const VALUE_BYTES: usize = 10_000;

fn quorate(cluster: &Cluster, words: &[&str]) -> Output {
    let (_, port) = cluster.address(0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(words).args(["--port", &port.to_string()]).stdin(Stdio::null()).output().expect("started")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn entered(cluster: &Cluster, node: usize, namespace: u32) -> Connection {
    let mut client = cluster.client(node);
    until("it has heard of the namespace", || redis::cmd("SELECT").arg(namespace).exec(&mut client).is_ok());
    client
}

fn sizes(client: &mut Connection, key: &str) -> (u8, u8) {
    let shown: std::collections::HashMap<String, redis::Value> =
        redis::cmd("QUORATE").arg(&["QUORUM", "SHOW", key]).query(client).expect("shown");
    let size = |name: &str| redis::from_redis_value::<u8>(shown[name].clone()).expect("a number");
    (size("read_quorum"), size("write_quorum"))
}

fn ask(client: &mut Connection, key: &str, reads: usize, writes: usize) {
    let mut pipeline = redis::pipe();
    for _ in 0..reads {
        pipeline.get(key).ignore();
    }
    for _ in 0..writes {
        pipeline.set(key, vec![b'v'; VALUE_BYTES]).ignore();
    }
    pipeline.exec(client).expect("answered");
}

/// Ends the clients, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn quorum_sizes_follow_what_clients_ask_for() {
    let mut cluster = Cluster::started("tune", 5);
    let mut client = cluster.client(0);
    for line in [
        format!("NAMESPACE CREATE {BULK} PROTOCOL register REPLICAS 5 VOLUMES 8"),
        format!("NAMESPACE CREATE {SINGLE} REPLICAS 5 VOLUMES 8"),
    ] {
        redis::cmd("QUORATE").arg(line.split(' ').collect::<Vec<_>>()).exec(&mut client).expect("made");
    }
    let (mut reader, mut writer) = (entered(&cluster, 0, BULK), entered(&cluster, 1, SINGLE));
    let promote = ["GROUP", "CREATE", "hot", "PROTOCOL", "register"];
    redis::cmd("QUORATE").arg(&promote).exec(&mut writer).expect("made");
    assert_eq!((sizes(&mut reader, "any"), sizes(&mut writer, "hot")), ((3, 3), (3, 3)));
    let is_over = AtomicBool::new(false);
    let asks = |client: &mut Connection, keys: &[&str], reads, writes| {
        for key in keys.iter().cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
            ask(client, key, reads, writes);
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| asks(&mut reader, &["key0", "key1", "key2", "key3"], 50, 1));
        scope.spawn(|| asks(&mut writer, &["hot"], 1, 20));
        until("demand is told", || {
            let told = printed(&quorate(&cluster, &["demand"]));
            told.lines().any(|line| line.split_whitespace().take(2).eq(["hot", "2"]))
        });
        until("sizes would change", || {
            let told = printed(&quorate(&cluster, &["tune", "--once", "--dry-run"]));
            told.contains("\"hot\" in namespace 2: would become R 4 W 2 (was R 3 W 3)")
                && told.contains("namespace 1: would become R 2 W 4 (was R 3 W 3)")
        });
        let mut other = entered(&cluster, 2, SINGLE);
        assert_eq!(sizes(&mut other, "hot"), (3, 3), "nothing was changed");
        until("sizes change", || {
            quorate(&cluster, &["tune", "--once"]);
            sizes(&mut other, "hot") == (4, 2) && sizes(&mut entered(&cluster, 3, BULK), "any") == (2, 4)
        });
        // And stay.
        let told = printed(&quorate(&cluster, &["tune", "--once"]));
        assert_eq!(told.trim(), "nothing to change: no other sizes promise 3% more");
    });
    cluster.stop_all();
}

fn group(client: &mut Connection, key: &str) -> (String, Vec<String>) {
    let shown: std::collections::HashMap<String, redis::Value> =
        redis::cmd("QUORATE").arg(&["GROUP", "SHOW", key]).query(client).expect("shown");
    let kind = redis::from_redis_value(shown["kind"].clone()).expect("a word");
    (kind, redis::from_redis_value(shown["members"].clone()).expect("names"))
}

#[test]
fn an_object_follows_its_clients_to_another_node() {
    let mut cluster = Cluster::started("follow", 4);
    let mut client = cluster.client(0);
    let line = "NAMESPACE CREATE 1 VOLUMES 1 REPLICAS 3";
    redis::cmd("QUORATE").arg(line.split(' ').collect::<Vec<_>>()).exec(&mut client).expect("made");
    redis::cmd("SET").arg("hot").arg("0").exec(&mut entered(&cluster, 0, 1)).expect("stored");
    let (kind, members) = group(&mut entered(&cluster, 0, 1), "hot");
    assert_eq!((kind.as_str(), members.len()), ("volume", 3));
    let name = |at: usize| format!("n{}", at + 1);
    let outside = (0..4).find(|at| !members.contains(&name(*at))).expect("one of four has none");
    let last = (0..4).find(|at| name(*at) == members[2]).expect("it is a member");
    for (at, word) in [(outside, "PROMOTE"), (last, "MOVE")] {
        let is_over = AtomicBool::new(false);
        let mut asking = entered(&cluster, at, 1);
        std::thread::scope(|scope| {
            let _over = Over(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut pipeline = redis::pipe();
                    for number in 0..10 {
                        pipeline.set("hot", number).ignore().get("hot").ignore();
                    }
                    pipeline.exec(&mut asking).expect("it follows unnoticed");
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let mut other = entered(&cluster, 0, 1);
            until(word, || {
                let would = printed(&quorate(&cluster, &["tune", "--once", "--follow", "--dry-run"]));
                would.contains(&format!("\"hot\" in namespace 1: would be a group of its own on {},", name(at)))
            });
            until(word, || {
                quorate(&cluster, &["tune", "--once", "--follow"]);
                let (kind, members) = group(&mut other, "hot");
                kind == "own" && members[0] == name(at) && members.len() == 3
            });
            let told = printed(&quorate(&cluster, &["tune", "--once", "--follow"]));
            assert!(!told.contains("hot"), "it is where it is asked for: {told}");
        });
    }
    cluster.stop_all();
}
