//! A replica that may have forgotten what it said does not keep its group from the others.

use std::time::{Duration, Instant};

use quorate_node::root::Durability;

use crate::common::{Nodes, PATIENCE};

/// Groups are taken over as soon as somebody asks for them. Nothing but a busy machine takes longer than this.
const ANSWERED_WITHIN: Duration = Duration::from_secs(4);

#[test]
fn a_coordinator_that_forgot_is_replaced_although_nobody_suspects_it() {
    let mut nodes = Nodes::new(3);
    for config in &mut nodes.configs {
        config.defaults.durability = Durability::Memory;
    }
    (0..3).for_each(|index| nodes.start(index));
    let keys: Vec<String> = (0..32).map(|number| format!("key:{number}")).collect();
    let mut client = nodes.client(1);
    for key in &keys {
        assert_eq!(client.call_until_served(&["SET", key, "before"]), "+OK");
    }
    // Gone and back before anybody misses it; what it had promised was in its memory only.
    nodes.kill(0);
    nodes.start(0);
    let deadline = Instant::now() + PATIENCE;
    for node in [1, 2, 0] {
        let mut client = nodes.client(node);
        for key in &keys {
            let asked_at = Instant::now();
            let mut value = client.call(&["GET", key]);
            // A node that has just started does not know at once who is there.
            while value.starts_with("-NOQUORUM") || value.starts_with("-LOADING") || value.starts_with("-TRYAGAIN") {
                assert!(Instant::now() < deadline, "{key} at node {node}: {value}");
                std::thread::sleep(Duration::from_millis(20));
                value = client.call(&["GET", key]);
            }
            assert_eq!(value, "before", "{key} at node {node}");
            assert!(asked_at.elapsed() < ANSWERED_WITHIN, "{key} at node {node} after {:?}", asked_at.elapsed());
            assert_eq!(client.call(&["SET", key, "before"]), "+OK");
        }
    }
}

#[test]
fn a_start_that_fails_costs_nothing_of_what_a_clean_stop_has_kept() {
    let mut nodes = Nodes::new(1);
    nodes.configs[0].defaults.durability = Durability::Memory;
    nodes.start(0);
    assert_eq!(nodes.client(0).call_until_served(&["SET", "key", "value"]), "+OK");
    nodes.stop(0);
    nodes.start(0);
    assert_eq!(nodes.client(0).call_until_served(&["GET", "key"]), "value", "a clean stop keeps it");
    nodes.stop(0);
    let taken = std::net::TcpListener::bind(nodes.configs[0].listen.client).expect("nobody listens there");
    quorate_server::Node::start(nodes.configs[0].clone()).expect_err("the port is taken");
    drop(taken);
    nodes.start(0);
    let (mut client, deadline) = (nodes.client(0), Instant::now() + Duration::from_secs(10));
    let mut value = client.call(&["GET", "key"]);
    while value != "value" && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        value = client.call(&["GET", "key"]);
    }
    assert_eq!(value, "value", "the start that failed has said nothing to anybody");
}
