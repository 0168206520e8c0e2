//! `maxmemory`, with memory that the test decides on.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Client, Nodes, until};
use quorate_server::config::Bytes;

const LIMIT: u64 = 100 << 20;
const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

fn info(client: &mut Client, field: &str) -> String {
    client.send(&["INFO", "memory"]);
    let length: usize = client.line()[1..].parse().expect("a bulk string");
    let mut value = None;
    let mut read = 0;
    while read < length {
        let line = client.line();
        read += line.len() + 2;
        if let Some(rest) = line.strip_prefix(&format!("{field}:")) {
            value = Some(rest.to_owned());
        }
    }
    assert_eq!(client.line(), "");
    value.expect("INFO has the field")
}

#[test]
fn writes_that_may_grow_are_refused_beyond_the_limit_and_served_again_below_it() {
    static USED: AtomicU64 = AtomicU64::new(LIMIT);
    let mut nodes = Nodes::new(1);
    nodes.configs[0].limits.maxmemory = Bytes(LIMIT);
    nodes.meters[0] = Some(|| USED.load(Ordering::Relaxed));
    nodes.start(0);
    let mut client = nodes.client(0);
    // What was written since the figure was read counts too, until it is read again.
    until("exactly the limit is not beyond it", || client.call(&["SET", "kept", "1"]) == "+OK");
    assert_eq!(
        (info(&mut client, "used_memory"), info(&mut client, "maxmemory")),
        (LIMIT.to_string(), LIMIT.to_string())
    );
    USED.store(LIMIT + 1, Ordering::Relaxed);
    until("it is noticed", || client.call(&["SET", "new", "x"]) == OOM);
    for words in [
        &["SET", "kept", "2"][..],
        &["INCR", "kept"],
        &["APPEND", "kept", "2"],
        &["SETRANGE", "kept", "9", "x"],
        &["GETSET", "kept", "2"],
        &["SETNX", "new", "x"],
        &["INCRBYFLOAT", "kept", "1"],
        &["MSET", "new", "x"],
    ] {
        assert_eq!(client.call(words), OOM, "{words:?}");
    }
    assert_eq!(client.call(&["QUORATE", "GROUP", "CREATE", "new"]), OOM);
    assert_eq!(nodes.http_sending(0, "POST /groups/0", "", r#"{"action": "create", "keys": ["new"]}"#).0, 503);
    assert_eq!(client.call(&["GET", "kept"]), "1", "nothing of it was executed");
    assert_eq!(client.call(&["EXPIRE", "kept", "1000"]), ":1");
    assert_eq!(client.call(&["PERSIST", "kept"]), ":1");
    assert_eq!(client.call(&["DEL", "kept"]), ":1");
    assert_eq!(client.call(&["FLUSHALL"]), "+OK");
    USED.store(LIMIT, Ordering::Relaxed);
    until("it is noticed", || client.call(&["SET", "new", "x"]) == "+OK");
    // The limit can be changed while the node runs.
    assert_eq!(client.call(&["CONFIG", "SET", "maxmemory", "99mb"]), "+OK");
    assert_eq!(client.call(&["SET", "new", "x"]), OOM);
    assert!(client.call(&["CONFIG", "SET", "maxmemory", "much"]).ends_with("argument must be a memory value"));
    assert!(client.call(&["CONFIG", "SET", "maxmemory", "1mb"]).contains("at least 33554432"));
    assert_eq!(client.call(&["CONFIG", "SET", "maxmemory", "0"]), "+OK");
    assert_eq!(client.call(&["SET", "new", "x"]), "+OK");
}

#[test]
fn a_node_without_memory_refuses_what_others_send_it_as_coordinator_and_follows_others() {
    static USED: AtomicU64 = AtomicU64::new(0);
    let mut nodes = Nodes::new(3);
    nodes.configs.iter_mut().for_each(|config| config.limits.maxmemory = Bytes(LIMIT));
    nodes.meters = vec![Some(|| 0), Some(|| USED.load(Ordering::Relaxed)), Some(|| 0)];
    (0..3).for_each(|index| nodes.start(index));
    let (mut other, mut full) = (nodes.client(0), nodes.client(1));
    let keys: Vec<String> = (0..64).map(|number| format!("key{number}")).collect();
    for key in &keys {
        assert_eq!(other.call_until_served(&["SET", key, "0"]), "+OK");
    }
    USED.store(LIMIT + 1, Ordering::Relaxed);
    until("it is noticed", || full.call(&["SET", &keys[0], "1"]) == OOM);
    let mut refused = 0;
    for key in &keys {
        assert_eq!(full.call(&["SET", key, "1"]), OOM);
        let reply = other.call_until_served(&["SET", key, "2"]);
        let value = other.call_until_served(&["GET", key]);
        match reply.as_str() {
            "+OK" => assert_eq!(value, "2"),
            OOM => assert_eq!(value, "0", "not executed"),
            _ => panic!("{reply}"),
        }
        refused += usize::from(reply == OOM);
        // Whoever has no memory still takes its part in what the others decide.
        assert_eq!(full.call_until_served(&["GET", key]), value);
    }
    assert!((1..keys.len()).contains(&refused), "it coordinates some and not all: {refused} refused");
    USED.store(0, Ordering::Relaxed);
    for key in &keys {
        until("it is noticed", || other.call(&["SET", key, "3"]) == "+OK");
    }
}
