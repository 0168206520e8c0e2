//! Objects whose own groups become others, through the public interface: other nodes, other protocols, while clients count and
//! a node dies.

use redis::{Connection, Value};

use crate::load::Load;
use crate::nodes::{Cluster, until};
use crate::own_led::{for_all, started};
use crate::random::Random;
use crate::registers::{show, text};

const NODES: usize = 5;
const IN_FLIGHT_MIN: u64 = 64;

/// A counter, and the members of its volume, among which those of a chain must be.
struct Counter {
    key: String,
    home: String,
}

impl Counter {
    /// The protocol and the members of the group that it is in; none while that becomes another.
    fn group(&self, client: &mut Connection) -> Option<(String, String)> {
        let fields = show(client, std::slice::from_ref(&self.key)).remove(0);
        let Value::Array(members) = &fields["members"] else { panic!("no list: {fields:?}") };
        let members: Vec<String> = members.iter().filter_map(text).collect();
        let protocol = text(&fields["protocol"]).expect("a word");
        (!fields.contains_key("becomes")).then_some((protocol, members.join(",")))
    }
}

/// Asks at some node for another protocol on these members, or on those of each volume, and waits until that is so.
fn retype(cluster: &Cluster, client: &mut Connection, counters: &[Counter], protocol: &str, members: Option<&str>) {
    let named = |counter: &Counter| members.map_or(counter.home.clone(), str::to_owned);
    for counter in counters {
        let options = format!("PROTOCOL {protocol} MEMBERS {}", named(counter));
        for_all(client, "GROUP RETYPE", std::slice::from_ref(&counter.key), &options);
    }
    let mut other = cluster.client(NODES - 1);
    for counter in counters {
        let expected = Some((protocol.to_owned(), named(counter)));
        until("it has become another", || counter.group(&mut other) == expected);
    }
}

fn wait_for_increments(load: &Load) {
    load.ledger().watch();
    until("every counter takes increments", || load.ledger().resumed_after().is_some());
}

#[test]
fn counters_move_and_change_their_protocol_and_none_is_lost_when_a_node_dies() {
    let mut random = Random::announced();
    let mut cluster = started("becoming", NODES);
    let mut load = Load::start(&cluster, &mut random);
    wait_for_increments(&load);
    let counter = |(key, _): (String, i64)| {
        let counter = Counter { key, home: String::new() };
        let (_, home) = counter.group(&mut cluster.client(0)).expect("a volume stays what it is");
        Counter { home, ..counter }
    };
    let counters: Vec<Counter> = load.ledger().told().into_iter().map(counter).collect();
    let keys: Vec<String> = counters.iter().map(|counter| counter.key.clone()).collect();
    for_all(&mut cluster.client(1), "GROUP PROMOTE", &keys, "");
    let before = load.ledger().totals();
    for (protocol, members) in [("paxos", Some("n5,n4,n3")), ("chain", None), ("paxos", Some("n2,n4")), ("chain", None)]
    {
        load.wait_for_in_flight(IN_FLIGHT_MIN);
        let mut client = cluster.client(random.below(NODES as u64) as usize);
        retype(&cluster, &mut client, &counters, protocol, members);
        wait_for_increments(&load);
    }
    let after = load.ledger().totals();
    assert_eq!((after.refused, after.unknown), (before.refused, before.unknown), "clients take no notice");

    load.wait_for_in_flight(IN_FLIGHT_MIN);
    retype(&cluster, &mut cluster.client(0), &counters, "paxos", Some("n1,n2,n3"));
    cluster.kill(1);
    for (at, key) in keys.iter().enumerate() {
        let members = if at % 2 == 0 { "n3,n4,n5" } else { "n5,n1" };
        until("the group leaves the dead node", || {
            let moved =
                redis::cmd("QUORATE").arg(&["GROUP", "MOVE", key, "MEMBERS", members]).exec(&mut cluster.client(0));
            moved.is_ok()
        });
    }
    for (at, counter) in counters.iter().enumerate() {
        let members = if at % 2 == 0 { "n3,n4,n5" } else { "n5,n1" };
        let expected = Some(("paxos".to_owned(), members.to_owned()));
        until("the group is elsewhere", || counter.group(&mut cluster.client(0)) == expected);
    }
    wait_for_increments(&load);
    cluster.start_by_hand(1);
    until("the node serves", || cluster.try_client(1).is_ok());
    load.check(&cluster);
    load.stop();
    println!("{}", load.ledger().totals());
    cluster.stop_all();
}
