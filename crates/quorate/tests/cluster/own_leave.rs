//! Own groups with named members leave a node that is drained, while clients use them; before that it is not removed.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Connection, Value};

use crate::come_and_go::{add, node, refusal, remove_once_it_is_gone, write_fourth};
use crate::ledger::counter_key;
use crate::load::Load;
use crate::moves::drain;
use crate::nodes::{Cluster, until};
use crate::own::{group, group_all, groups_at, is_refused, shown};
use crate::own_led::started;
use crate::random::Random;
use crate::registers::ask;

const NODES: usize = 4;
/// That nobody uses meanwhile.
const IDLE: usize = 300;

fn of_node(client: &mut Connection, name: &str, field: &str) -> Option<i64> {
    let shown: BTreeMap<String, Value> = redis::cmd("QUORATE").arg(&["NODE", "SHOW", name]).query(client).ok()?;
    shown.get(field).and_then(|value| redis::from_redis_value(value.clone()).ok())
}

fn is_on(client: &mut Connection, key: &str, node: &str) -> bool {
    shown(client, key, "members").contains(node)
}

/// Counters that clients use get own groups on n4: of Paxos, and chains where their volumes are on n4 as well.
fn give_groups(client: &mut Connection) -> (usize, usize) {
    let (mut of_paxos, mut chains) = (0, 0);
    for number in 0..12 {
        let key = counter_key(number);
        let others = ["n4,n1", "n1,n2,n4", "n2,n4,n3", "n4"];
        until("the counter is there", || group(client, &["SHOW", &key]).is_ok());
        let made = number % 2 == 0
            && ["n4,n1", "n2,n4", "n3,n4"]
                .iter()
                .any(|members| group(client, &["PROMOTE", &key, "PROTOCOL", "chain", "MEMBERS", members]).is_ok());
        if made {
            chains += 1;
        } else {
            group(client, &["PROMOTE", &key, "MEMBERS", others[number % 4]]).expect("promoted");
            of_paxos += 1;
        }
    }
    (of_paxos, chains)
}

/// Registers on n4, as far as their volumes are there.
fn make_registers(client: &mut Connection) -> Vec<String> {
    let names = (0..60).map(|number| format!("own-register:{number}"));
    let has_made = |key: &String| {
        ["n4,n1,n2", "n3,n1,n4", "n2,n4,n3"].iter().any(|members| {
            group(client, &["CREATE", key, "PROTOCOL", "register", "MEMBERS", members, "VALUE", key]).is_ok()
        })
    };
    names.filter(has_made).collect()
}

#[test]
fn own_groups_of_all_protocols_leave_a_node_that_is_drained_while_clients_write() {
    let mut random = Random::announced();
    let mut cluster = started("own-leave", NODES);
    let mut load = Load::start(&cluster, &mut random);
    load.wait_for_in_flight(64);
    let mut client = cluster.client(1);
    let (of_paxos, chains) = give_groups(&mut client);
    let registers = make_registers(&mut client);
    assert!(of_paxos > 0 && chains > 0 && !registers.is_empty(), "{of_paxos} {chains} {registers:?}");
    println!("{of_paxos} of Paxos, {chains} chains and {} registers are on n4", registers.len());
    let idle: Vec<String> = (0..IDLE).map(|number| format!("idle:{number}")).collect();
    group_all(&mut client, "CREATE", &idle[..IDLE / 2], &["MEMBERS", "n4", "VALUE", "7"]);
    group_all(&mut client, "CREATE", &idle[IDLE / 2..], &["MEMBERS", "n3,n4", "VALUE", "7"]);
    let named = of_node(&mut client, "n4", "own_groups_named").expect("told");
    assert_eq!(named as usize, of_paxos + chains + registers.len() + IDLE);

    let told = drain(&cluster, 1, "n4");
    assert!(!told.contains("own group"), "{told}");
    assert_eq!(of_node(&mut client, "n4", "own_groups_named"), Some(0));
    until("no replica is left", || {
        let status = cluster.status();
        status.nodes.iter().find(|node| node.name == "n4").and_then(groups_at) == Some(0)
    });
    let counters: Vec<String> = (0..12).map(counter_key).collect();
    for key in counters.iter().chain(&registers).chain(&idle) {
        assert!(!is_on(&mut client, key, "n4"), "{key}");
    }
    let refused = group(&mut client, &["CREATE", "late", "MEMBERS", "n4"]);
    assert!(is_refused(&refused, "n4 is being drained"), "{refused:?}");
    load.ledger().watch();
    until("every counter takes increments", || load.ledger().resumed_after().is_some());
    load.check(&cluster);

    cluster.signal(3, libc::SIGTERM);
    remove_once_it_is_gone(&cluster, 0, "n4");
    cluster.one_fewer();
    load.check(&cluster);
    load.stop();
    let values: Vec<i64> = redis::cmd("MGET").arg(&idle).query(&mut client).expect("read");
    assert_eq!(values, vec![7; IDLE]);
    for key in &registers {
        assert_eq!(ask(&mut client, &format!("GET {key}")), Value::BulkString(key.clone().into_bytes()));
    }
    load.check(&cluster);
    cluster.stop_all();
}

#[test]
fn a_dead_node_is_not_removed_while_own_groups_have_members_there() {
    let mut cluster = Cluster::started("own-leave-dead", 3);
    let member = write_fourth(&cluster, 4);
    add(&cluster, 0, &member);
    cluster.one_more();
    cluster.start_by_hand(3);
    let mut client = cluster.client(0);
    until("n4 is a member", || group(&mut client, &["CREATE", "three", "MEMBERS", "n4,n1,n2", "VALUE", "1"]).is_ok());
    group(&mut client, &["CREATE", "lone", "MEMBERS", "n4", "VALUE", "1"]).expect("created");
    assert_eq!(ask(&mut client, "INCR three"), Value::Int(2));
    assert_eq!(ask(&mut client, "INCR lone"), Value::Int(2));
    cluster.kill(3);
    let mut line = String::new();
    until("it is missed", || {
        line = refusal(&node(&cluster, 1, &["remove", "n4"]));
        !line.contains("n4 is live")
    });
    assert!(line.contains("2 own groups have members on n4: QUORATE NODE DRAIN n4 moves them"), "{line}");
    // What is left of it that nobody else has is waited for.
    let output = node(&cluster, 2, &["drain", "n4"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && told.contains("1 own group stays on n4: "), "{told}");
    assert!(told.contains("too few of its members are heard to end it"), "{told}");
    assert!(!is_on(&mut client, "three", "n4"));
    assert_eq!(ask(&mut client, "INCR three"), Value::Int(3));
    let line = refusal(&node(&cluster, 1, &["remove", "n4"]));
    assert!(line.contains("1 own group has a member on n4"), "{line}");
    cluster.start_by_hand(3);
    drain(&cluster, 0, "n4");
    assert_eq!(ask(&mut client, "INCR lone"), Value::Int(3));
    assert!(!is_on(&mut client, "lone", "n4"));
    cluster.stop_by_hand(3);
    remove_once_it_is_gone(&cluster, 2, "n4");
    cluster.one_fewer();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!([ask(&mut client, "INCR lone"), ask(&mut client, "INCR three")], [Value::Int(4), Value::Int(4)]);
    cluster.stop_all();
}
