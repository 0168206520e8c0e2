//! What operators do at a running node.

use std::io::Read;

use crate::common::{Nodes, until};

#[test]
fn clients_are_killed_limited_and_told_apart() {
    let nodes = Nodes::started(1);
    let (mut operator, mut other) = (nodes.client(0), nodes.client(0));
    assert_eq!(other.call(&["CLIENT", "SETNAME", "victim"]), "+OK");
    let id = other.call(&["CLIENT", "ID"]);
    assert_eq!(operator.call(&["CLIENT", "KILL", "ID", &id[1..]]), ":1");
    let mut rest = Vec::new();
    other.stream.read_to_end(&mut rest).expect("it is closed, not reset");
    assert!(rest.is_empty());
    until("it is gone", || count(&mut operator) == 1);
    assert_eq!(operator.call(&["CONFIG", "SET", "maxclients", "1"]), "+OK");
    assert_eq!(nodes.client(0).line(), "-ERR max number of clients reached");
    assert_eq!(operator.call(&["CONFIG", "SET", "maxclients", "2", "port", "1"]), CANNOT_SET_PORT);
    assert_eq!(nodes.client(0).line(), "-ERR max number of clients reached");
    assert_eq!(operator.call(&["CONFIG", "SET", "maxclients", "2"]), "+OK");
    assert_eq!(nodes.client(0).call(&["PING"]), "+PONG");
}

const CANNOT_SET_PORT: &str =
    "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config";

/// How many clients `CLIENT LIST` lists.
fn count(client: &mut crate::common::Client) -> usize {
    client.send(&["CLIENT", "LIST"]);
    let length: usize = client.line()[1..].parse().expect("a bulk string");
    let mut text = String::new();
    while text.len() < length {
        text.push_str(&client.line());
        text.push_str("\r\n");
    }
    text.lines().filter(|line| line.starts_with("id=")).count()
}

#[test]
fn the_slow_log_times_a_write_with_its_flush() {
    let mut nodes = Nodes::new(1);
    nodes.configs[0].log.slow_command_us = 1;
    nodes.start(0);
    let mut client = nodes.client(0);
    assert_eq!(client.call_until_served(&["SET", "key", "value"]), "+OK");
    client.send(&["SLOWLOG", "GET", "1"]);
    let lines: Vec<String> = (0..15).map(|_| client.line()).collect();
    assert_eq!(lines[..2], ["*1", "*6"]);
    let duration_us: u64 = lines[4][1..].parse().expect("a number");
    assert!(duration_us > 1, "{lines:?}");
    assert_eq!(lines[5..12], ["*3", "$3", "SET", "$3", "key", "$5", "value"]);
}

#[test]
fn help_is_an_array_of_lines_that_the_refusal_of_what_is_unknown_points_to() {
    let nodes = Nodes::started(1);
    let mut client = nodes.client(0);
    client.send(&["QUORATE", "help"]);
    let count: usize = client.line().strip_prefix('*').and_then(|count| count.parse().ok()).expect("an array");
    let lines: Vec<String> = (0..count).map(|_| client.line()).collect();
    assert!(lines.iter().all(|line| line.starts_with('+')), "{lines:?}");
    assert!(lines[0].starts_with("+QUORATE <subcommand>"));
    let place = lines.iter().position(|line| line == "+NAMESPACE LIST").expect("it is told of");
    assert!(lines[place + 1].starts_with("+    "), "and what it does is on a line of its own");
    assert!(client.call(&["QUORATE", "NOSUCH"]).ends_with(": QUORATE HELP tells what each does"));
}
