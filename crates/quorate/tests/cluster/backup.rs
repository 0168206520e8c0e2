//! What a cluster holds, written into a file and read from it again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use redis::{Connection, Value};

use crate::compat::peer::Redis;
use crate::nodes::{Cluster, connect, until};
use crate::own::group_all;

/// Namespaces of every protocol, beside 0.
const NAMESPACES: [(u32, &str); 5] = [
    (1, "PROTOCOL chain VOLUMES 4"),
    (2, "PROTOCOL register VOLUMES 4 QUORUM \"threshold 2 2\""),
    (3, "PROTOCOL register AUTHORITY members MEMBERS n1,n2"),
    (4, "GROUPS own DURABILITY memory REPLICAS 1"),
    (5, "READS routed"),
];
const OF_REGISTERS: [u32; 2] = [2, 3];
/// Far from now, as nothing may expire while it is looked at.
const EXPIRES_MS: u64 = 4_000_000_000_000;
/// More than one request adds.
const ELEMENTS: usize = 25_000;
const VALUE_BYTES_MAX: usize = 16 << 20;

type Address = (&'static str, u16);
/// By namespace and key: type, value and when it expires.
type Content = BTreeMap<(u32, Vec<u8>), (String, Vec<Vec<u8>>, i64)>;

fn entered(address: Address, namespace: u32) -> Connection {
    let mut client = connect(address).expect("it takes clients");
    until("the namespace is known", || redis::cmd("SELECT").arg(namespace).exec(&mut client).is_ok());
    client
}

fn run(command: &str, address: Address, arguments: &[&str]) -> Output {
    let (host, port) = address;
    Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args([command, "-h", host, "-p", &port.to_string()])
        .args(arguments)
        .output()
        .expect("started")
}

fn succeed(command: &str, address: Address, arguments: &[&str]) -> String {
    let output = run(command, address, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The one line on standard error.
fn refused(command: &str, address: Address, arguments: &[&str]) -> String {
    let output = run(command, address, arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    text
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes.clone(),
        Value::SimpleString(text) => text.clone().into_bytes(),
        other => panic!("{other:?}"),
    }
}

/// Everything that clients see of these namespaces.
fn content(address: Address, namespaces: &[u32]) -> Content {
    let mut content = Content::new();
    for &namespace in namespaces {
        let mut client = entered(address, namespace);
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut client).expect("listed");
        for key in keys {
            let kind: String = redis::cmd("TYPE").arg(&key).query(&mut client).expect("known");
            let mut read = |words: &[&str]| {
                let mut command = redis::cmd(words[0]);
                command.arg(&key).arg(&words[1..]);
                command.query::<Value>(&mut client).expect("read")
            };
            let value = match kind.as_str() {
                "string" => read(&["GET"]),
                "list" => read(&["LRANGE", "0", "-1"]),
                "hash" => read(&["HGETALL"]),
                "set" => read(&["SMEMBERS"]),
                "zset" => read(&["ZRANGE", "0", "-1", "WITHSCORES"]),
                other => panic!("{other}"),
            };
            let mut elements: Vec<Vec<u8>> = match value {
                Value::Array(elements) if kind == "hash" => {
                    elements.chunks(2).map(|pair| [bytes(&pair[0]), bytes(&pair[1])].join(&b'=')).collect()
                }
                Value::Array(elements) => elements.iter().map(bytes).collect(),
                one => vec![bytes(&one)],
            };
            if matches!(kind.as_str(), "set" | "hash") {
                elements.sort();
            }
            let expires_ms = redis::cmd("PEXPIRETIME").arg(&key).query(&mut client).expect("known");
            content.insert((namespace, key), (kind, elements, expires_ms));
        }
    }
    content
}

fn fill_with_strings(client: &mut Connection, namespace: u32) {
    let mut pipeline = redis::pipe();
    for number in 0..500 {
        pipeline.cmd("SET").arg(format!("key {number}")).arg(number * (namespace as usize + 1)).ignore();
    }
    pipeline.cmd("SET").arg("binary \r\n\0").arg(&b"\xff\r\n$3\r\n"[..]).ignore();
    pipeline.cmd("SET").arg("empty").arg("").ignore();
    pipeline.cmd("SET").arg("for a while").arg("v").arg("PXAT").arg(EXPIRES_MS).ignore();
    pipeline.exec(client).expect("stored");
}

fn fill_with_types(client: &mut Connection) {
    let many: Vec<String> = (0..ELEMENTS).map(|number| format!("element {number}")).collect();
    let mut pipeline = redis::pipe();
    pipeline.cmd("SET").arg("largest").arg(vec![b'v'; VALUE_BYTES_MAX]).ignore();
    pipeline.cmd("RPUSH").arg("list").arg(&["b", "a", "", "b"]).ignore();
    pipeline.cmd("RPUSH").arg("long list").arg(&many).ignore();
    pipeline.cmd("SADD").arg("set").arg(&many).ignore();
    pipeline.cmd("HSET").arg("hash").arg(&["field", "", "\0", "\r\n", "f", "v"]).ignore();
    let scores = ["-inf", "low", "0.1", "b", "3", "a", "3", "b2", "1e300", "high", "inf", "top"];
    pipeline.cmd("ZADD").arg("sorted").arg(&scores).ignore();
    for key in ["list", "hash", "sorted"] {
        pipeline.cmd("PEXPIREAT").arg(key).arg(EXPIRES_MS).ignore();
    }
    pipeline.exec(client).expect("stored");
}

fn fill(cluster: &Cluster) -> Vec<u32> {
    let mut client = cluster.client(0);
    fill_with_strings(&mut client, 0);
    fill_with_types(&mut client);
    // Objects with groups of their own, one of them a register.
    let own = ["key 1".to_owned(), "key 2".to_owned(), "list".to_owned()];
    group_all(&mut client, "PROMOTE", &own, &[]);
    group_all(&mut client, "PROMOTE", &["empty".to_owned()], &["PROTOCOL", "register"]);
    for (number, words) in NAMESPACES {
        let mut command = redis::cmd("QUORATE");
        command.arg("NAMESPACE").arg("CREATE").arg(number);
        for (at, part) in words.split('"').enumerate() {
            match at % 2 {
                0 => command.arg(part.split_whitespace().collect::<Vec<_>>()),
                _ => command.arg(part),
            };
        }
        command.exec(&mut client).expect("made");
        let mut client = entered(cluster.address(0), number);
        fill_with_strings(&mut client, number);
        if !OF_REGISTERS.contains(&number) {
            fill_with_types(&mut client);
        }
    }
    [0].into_iter().chain(NAMESPACES.map(|(number, _)| number)).collect()
}

fn settings(cluster: &Cluster) -> String {
    let listed: Value =
        redis::cmd("QUORATE").arg(&["NAMESPACE", "LIST"]).query(&mut cluster.client(0)).expect("listed");
    format!("{listed:?}")
}

#[test]
fn what_a_cluster_holds_is_there_again_in_another_one() {
    let (here, there) = (Cluster::started("backup-here", 3), Cluster::started("backup-there", 3));
    let namespaces = fill(&here);
    let file: PathBuf = here.scratch().join("all.quorate");
    succeed("backup", here.address(1), &[path_text(&file)]);
    let told = succeed("restore", there.address(2), &["--check", path_text(&file)]);
    assert_eq!(told.lines().count(), 1 + namespaces.len(), "{told}");
    succeed("restore", there.address(0), &[path_text(&file)]);
    let expected = content(here.address(0), &namespaces);
    assert_eq!(expected.len(), 503 * 6 + 6 * 4);
    assert!(content(there.address(2), &namespaces) == expected, "every namespace holds what it held");
    assert_eq!(settings(&there), settings(&here));
    let told = refused("restore", there.address(0), &[path_text(&file)]);
    assert!(told.contains("namespace 0 has 509 objects: nothing is written"), "{told}");
    let mut client = there.client(0);
    redis::pipe()
        .cmd("RPUSH")
        .arg("list")
        .arg("c")
        .cmd("DEL")
        .arg("set")
        .cmd("SET")
        .arg("new")
        .arg("v")
        .exec(&mut client)
        .expect("changed");
    succeed("restore", there.address(0), &["--overwrite", "-n", "0", path_text(&file)]);
    let mut found = content(there.address(0), &namespaces);
    assert!(found.remove(&(0, b"new".to_vec())).is_some(), "what the file does not name stays");
    assert!(found == expected, "what it names is as it was");
}

#[test]
fn it_is_written_while_clients_write_and_a_node_dies() {
    let mut cluster = Cluster::started("backup-load", 3);
    let mut client = cluster.client(0);
    let mut pipeline = redis::pipe();
    (0..20_000).for_each(|number| {
        pipeline.cmd("SET").arg(format!("stays {number}")).arg(number).ignore();
    });
    pipeline.exec(&mut client).expect("stored");
    let file: PathBuf = cluster.scratch().join("all.quorate");
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let mut client = cluster.client(0);
            thread::spawn(move || {
                for number in 0..4_000 {
                    // It may be refused while a node dies.
                    let _ = redis::cmd("SET")
                        .arg(format!("changes {writer} {}", number % 50))
                        .arg(number)
                        .exec(&mut client);
                }
            })
        })
        .collect();
    cluster.kill(2);
    succeed("backup", cluster.address(0), &[path_text(&file)]);
    writers.into_iter().for_each(|writer| writer.join().expect("it does not panic"));
    redis::cmd("FLUSHDB").exec(&mut client).expect("emptied");
    succeed("restore", cluster.address(1), &[path_text(&file)]);
    let keys: Vec<String> = (0..20_000).map(|number| format!("stays {number}")).collect();
    let values: Vec<Option<usize>> = redis::cmd("MGET").arg(&keys).query(&mut client).expect("read");
    assert!(values.iter().enumerate().all(|(number, value)| *value == Some(number)), "nothing that stayed is missing");
}

#[test]
fn what_a_redis_holds_comes_into_a_cluster_and_back() {
    let (redis, cluster) = (Redis::started(2), Cluster::started("backup-redis", 3));
    let mut client = connect(redis.address).expect("it takes clients");
    fill_with_strings(&mut client, 0);
    fill_with_types(&mut client);
    redis::cmd("XADD").arg(&["stream", "*", "f", "v"]).exec(&mut client).expect("stored");
    let file: PathBuf = cluster.scratch().join("redis.quorate");
    let told = refused("backup", redis.address, &[path_text(&file)]);
    assert!(told.contains("stream (of type stream)"), "{told}");
    redis::cmd("DEL").arg("stream").exec(&mut client).expect("deleted");
    let expected = content(redis.address, &[0]);
    succeed("restore", cluster.address(0), &[path_text(&file)]);
    assert!(content(cluster.address(0), &[0]) == expected, "in the cluster");
    let back = cluster.scratch().join("back.quorate");
    succeed("backup", cluster.address(0), &[path_text(&back)]);
    redis::cmd("FLUSHALL").exec(&mut client).expect("emptied");
    succeed("restore", redis.address, &[path_text(&back)]);
    assert!(content(redis.address, &[0]) == expected, "in Redis");
    // It takes nothing more: a string stays what it was, and of a list that is begun nothing stays.
    redis::pipe()
        .cmd("SET")
        .arg("key 1")
        .arg("other")
        .cmd("CONFIG")
        .arg(&["SET", "maxmemory", "1"])
        .exec(&mut client)
        .expect("set");
    let output = run("restore", redis.address, &["--overwrite", path_text(&back)]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), told.lines().count()), (Some(1), 6), "{told}");
    assert!(
        told.contains("OOM") && told.ends_with("509 objects could not be written, of which these are the first\n"),
        "{told}"
    );
    let found = content(redis.address, &[0]);
    assert_eq!(found.get(&(0, b"key 1".to_vec())).map(|(_, value, _)| &value[0][..]), Some(&b"other"[..]));
    assert!(!found.contains_key(&(0, b"long list".to_vec())));
}

/// A transaction's answers may not be as large as a set's members are, which are read apart then.
#[test]
fn the_largest_sets_are_written() {
    const MEMBERS: usize = 800_000;
    let cluster = Cluster::started("backup-set", 1);
    let mut client = cluster.client(0);
    for first in (0..MEMBERS).step_by(50_000) {
        let members: Vec<usize> = (first..first + 50_000).collect();
        redis::cmd("SADD").arg("set").arg(&members).exec(&mut client).expect("added");
    }
    redis::cmd("PEXPIREAT").arg("set").arg(EXPIRES_MS).exec(&mut client).expect("stored");
    let file = cluster.scratch().join("all.quorate");
    succeed("backup", cluster.address(0), &[path_text(&file)]);
    redis::cmd("FLUSHDB").exec(&mut client).expect("emptied");
    succeed("restore", cluster.address(0), &[path_text(&file)]);
    assert_eq!(redis::cmd("SCARD").arg("set").query::<usize>(&mut client).expect("counted"), MEMBERS);
    assert_eq!(redis::cmd("PEXPIRETIME").arg("set").query::<u64>(&mut client).expect("known"), EXPIRES_MS);
}

#[test]
fn it_fails_when_its_node_dies_and_leaves_nothing() {
    let mut cluster = Cluster::started("backup-dies", 1);
    let mut client = cluster.client(0);
    for number in 0..200 {
        redis::cmd("SET").arg(number).arg(vec![b'v'; 1 << 20]).exec(&mut client).expect("stored");
    }
    let mut pipeline = redis::pipe();
    (0..20_000).for_each(|number| {
        pipeline.cmd("SET").arg(format!("small {number}")).arg(number).ignore();
    });
    pipeline.exec(&mut client).expect("stored");
    let (file, partial) = (cluster.scratch().join("all.quorate"), cluster.scratch().join("all.quorate.partial"));
    let (address, path) = (cluster.address(0), file.clone());
    let backup = thread::spawn(move || refused("backup", address, &[path_text(&path)]));
    until("something is written", || fs::metadata(&partial).is_ok_and(|data| data.len() > 1 << 20));
    let told = refused("backup", address, &[path_text(&file)]);
    assert!(told.contains("another backup is being written"), "{told}");
    cluster.kill(0);
    let told = backup.join().expect("it does not panic");
    assert!(told.contains("namespace 0"), "{told}");
    assert!(!file.exists() && !partial.exists());
}

#[test]
fn what_is_not_whole_changes_nothing() {
    let cluster = Cluster::started("backup-damaged", 1);
    let mut client = cluster.client(0);
    fill_with_strings(&mut client, 0);
    let (file, damaged) = (cluster.scratch().join("all.quorate"), cluster.scratch().join("damaged.quorate"));
    succeed("backup", cluster.address(0), &[path_text(&file)]);
    let told = refused("backup", cluster.address(0), &[path_text(&file)]);
    assert!(told.contains("is there already"), "{told}");
    redis::cmd("FLUSHALL").exec(&mut client).expect("emptied");
    let whole = fs::read(&file).expect("readable");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let shorter = &whole[..whole.len() * 2 / 3];
    let foreign = b"*1\r\n$4\r\nPING\r\n";
    let newer = b"*2\r\n$4\r\nECHO\r\n$16\r\nquorate backup 2\r\n";
    for (bytes, why) in [
        (&flipped[..], "it is damaged"),
        (shorter, "its end is missing"),
        (foreign, "no file of `quorate backup`"),
        (newer, "a newer quorate"),
    ] {
        fs::write(&damaged, bytes).expect("written");
        for arguments in [&["--check"][..], &[]] {
            let told = refused("restore", cluster.address(0), &[arguments, &[path_text(&damaged)]].concat());
            assert!(told.contains(why), "{told}");
        }
    }
    assert_eq!(redis::cmd("DBSIZE").query::<usize>(&mut client).expect("counted"), 0);
    succeed("restore", cluster.address(0), &[path_text(&file)]);
    assert_eq!(redis::cmd("DBSIZE").query::<usize>(&mut client).expect("counted"), 503);
}
