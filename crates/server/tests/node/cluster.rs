//! Whole nodes on real sockets and disks: they serve, survive a crash, stop cleanly and refuse strangers.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::common::{Nodes, until};
use quorate_node::root::Durability;
use quorate_server::config::Secret;

#[test]
fn any_node_serves_any_key_and_a_crash_loses_nothing() {
    let mut nodes = Nodes::started(3);
    let (mut first, mut second) = (nodes.client(0), nodes.client(1));
    for number in 0..20 {
        let (key, value) = (format!("key{number}"), format!("value{number}"));
        assert_eq!(first.call_until_served(&["SET", &key, &value]), "+OK");
        assert_eq!(second.call_until_served(&["GET", &key]), value);
    }
    for number in 1..=10 {
        assert_eq!(second.call_until_served(&["INCR", "counter"]), format!(":{number}"));
    }
    nodes.kill(2);
    for number in 11..=20 {
        assert_eq!(first.call_until_served(&["INCR", "counter"]), format!(":{number}"));
    }
    for number in 0..20 {
        let (key, value) = (format!("key{number}"), format!("value{number}"));
        assert_eq!(second.call_until_served(&["GET", &key]), value);
    }
    nodes.start(2);
    let mut third = nodes.client(2);
    assert_eq!(third.call_until_served(&["INCR", "counter"]), ":21");
}

#[test]
fn all_nodes_killed_at_once_come_back_with_everything() {
    let mut nodes = Nodes::started(3);
    let mut client = nodes.client(0);
    for number in 1..=50 {
        assert_eq!(client.call_until_served(&["INCR", "counter"]), format!(":{number}"));
    }
    (0..3).for_each(|index| nodes.kill(index));
    (0..3).for_each(|index| nodes.start(index));
    assert_eq!(nodes.client(1).call_until_served(&["GET", "counter"]), "50");
}

#[test]
fn nodes_that_are_stopped_together_do_not_wait_for_each_other() {
    let mut nodes = Nodes::started(3);
    for index in 0..3 {
        assert_eq!(nodes.client(index).call_until_served(&["SET", "key", "value"]), "+OK");
    }
    let began_at = Instant::now();
    nodes.stop_all();
    let took = began_at.elapsed();
    assert!(took < Duration::from_secs(4), "the last of them had nobody to hand over to, and took {took:?}");
}

#[test]
fn a_pipeline_is_answered_in_order_and_behind_a_closed_end() {
    let nodes = Nodes::started(1);
    let mut client = nodes.client(0);
    assert_eq!(client.call_until_served(&["SET", "a", "0"]), "+OK");
    let pipeline = b"INCR a\r\nGET a\r\nINCR b\r\nPING\r\nINCR a\r\nGET a\r\n";
    client.stream.write_all(pipeline).unwrap();
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let lines: Vec<String> = (0..8).map(|_| client.line()).collect();
    assert_eq!(lines, [":1", "$1", "1", ":1", "+PONG", ":2", "$1", "2"]);
}

#[test]
fn a_clean_stop_hands_over_and_is_marked() {
    let mut nodes = Nodes::started(3);
    assert_eq!(nodes.client(0).call_until_served(&["SET", "kept", "yes"]), "+OK");
    nodes.stop(0);
    assert!(nodes.configs[0].node.data_dir.join("clean_stop").exists());
    assert_eq!(nodes.client(1).call_until_served(&["GET", "kept"]), "yes");
    nodes.start(0);
    assert_eq!(nodes.client(0).call_until_served(&["GET", "kept"]), "yes");
}

#[test]
fn http_tells_of_health_and_status_and_changes_namespaces() {
    let nodes = Nodes::started(1);
    until("the node is ready", || nodes.http(0, "GET /readyz").0 == 200);
    assert_eq!(nodes.http(0, "GET /healthz"), (200, "well\n".to_owned()));
    until("the volumes are born", || nodes.http(0, "GET /metrics").1.contains("{state=\"unborn\"} 0"));
    let (status, body) = nodes.http(0, "GET /metrics");
    assert_eq!(status, 200);
    for line in ["quorate_ready 1", "quorate_replicas{state=\"coordinating\"} 9", "quorate_lag_slots_max 0"] {
        assert!(body.lines().any(|found| found == line), "{line}: {body}");
    }
    let (status, body) = nodes.http(0, "GET /status");
    assert_eq!(status, 200);
    let status: quorate_node::status::Status = serde_json::from_str(&body).unwrap();
    assert_eq!((status.nodes.len(), status.volumes.len()), (1, 8));
    assert_eq!(nodes.http(0, "POST /namespaces/3?volumes=2&replicas=1").0, 200);
    assert!(nodes.http(0, "GET /namespaces").1.contains("\"namespace\":3"));
    let mut client = nodes.client(0);
    assert_eq!(client.call(&["SELECT", "3"]), "+OK");
    assert_eq!(client.call_until_served(&["SET", "key", "value"]), "+OK");
    assert_eq!(nodes.http(0, "DELETE /namespaces/3").0, 200);
    assert_eq!(nodes.http(0, "DELETE /namespaces/3").0, 404);
    assert_eq!(nodes.http(0, "POST /namespaces/4?colour=red").0, 400);
}

#[test]
fn a_node_with_another_secret_stays_alone() {
    let mut nodes = Nodes::started(3);
    assert_eq!(nodes.client(0).call_until_served(&["SET", "key", "value"]), "+OK");
    nodes.kill(2);
    nodes.configs[2].cluster.secret = Secret::new("something else altogether".into());
    nodes.start(2);
    assert_eq!(nodes.client(0).call_until_served(&["SET", "key", "other"]), "+OK");
    let reply = nodes.client(2).call(&["GET", "key"]);
    assert!(["-LOADING", "-NOQUORUM", "-TRYAGAIN", "-TIMEOUT"].iter().any(|why| reply.starts_with(why)), "{reply}");
}

#[test]
fn a_node_whose_directory_was_emptied_is_refused() {
    let mut nodes = Nodes::started(3);
    assert_eq!(nodes.client(0).call_until_served(&["SET", "key", "value"]), "+OK");
    // Everybody has met everybody.
    until("all links are made", || (0..3).all(|index| nodes.configs[index].node.data_dir.join("peers").exists()));
    assert_eq!(nodes.client(2).call_until_served(&["GET", "key"]), "value");
    nodes.kill(2);
    std::fs::remove_dir_all(&nodes.configs[2].node.data_dir).unwrap();
    nodes.start(2);
    let reply = nodes.client(2).call(&["GET", "key"]);
    assert!(reply.starts_with("-LOADING") || reply.starts_with("-NOQUORUM"), "{reply}");
    assert_eq!(nodes.client(1).call_until_served(&["GET", "key"]), "value");
}

#[test]
fn a_port_in_use_is_named() {
    let mut nodes = Nodes::new(1);
    let taken = std::net::TcpListener::bind(nodes.configs[0].listen.client).unwrap();
    let refused = quorate_server::Node::start(nodes.configs[0].clone()).expect_err("the port is taken").to_string();
    assert!(refused.contains(&nodes.configs[0].listen.client.to_string()), "{refused}");
    drop(taken);
    nodes.start(0);
}

#[test]
fn intervals_and_memory_are_served_and_an_interval_survives_a_crash_of_the_process() {
    let mut nodes = Nodes::new(3);
    nodes.configs.iter_mut().for_each(|config| config.defaults.durability = Durability::Interval);
    (0..3).for_each(|index| nodes.start(index));
    for number in 1..=100 {
        assert_eq!(nodes.client(0).call_until_served(&["INCR", "counter"]), format!(":{number}"));
    }
    (0..3).for_each(|index| nodes.kill(index));
    (0..3).for_each(|index| nodes.start(index));
    assert_eq!(nodes.client(1).call_until_served(&["GET", "counter"]), "100");
    assert_eq!(nodes.http(1, "POST /namespaces/1?volumes=2&durability=memory").0, 200);
    let mut client = nodes.client(1);
    assert_eq!(client.call(&["SELECT", "1"]), "+OK");
    assert_eq!(client.call_until_served(&["INCR", "counter"]), ":1");
}
