//! Namespaces whose members decide: reconfigured at any node, several times at once, killed and restarted while clients use them
//! and none tries anything again; and whatever becomes of the cluster's root.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::nodes::{Cluster, until};
use crate::random::Random;
use crate::register_load::{RegisterLoad, free_key};
use crate::registers::{ask, names, others, show, text};

/// The root has five members. Without three of them most nodes are alive, and it has no quorum.
const NODES: usize = 7;
const ROOT_LOST: [usize; 3] = [0, 1, 2];
const NAMESPACE: u32 = 1;
/// How long clients go on between two changes.
const BETWEEN_CHANGES: Duration = Duration::from_millis(300);
/// A reconfiguration must be over so soon, on all nodes.
const CHANGED_WITHIN: Duration = Duration::from_secs(10);
/// How often something changes while a node goes.
const ROUNDS: usize = 4;

type Fields = BTreeMap<String, Value>;

fn entered(cluster: &Cluster, node: usize) -> Connection {
    let mut client = cluster.client(node);
    let select = format!("SELECT {NAMESPACE}");
    until("the node knows the namespace", || ask(&mut client, &select) == Value::Okay);
    client
}

/// A cluster with a namespace of these members, which all nodes serve.
fn started(name: &str, members: &[usize]) -> Cluster {
    let cluster = Cluster::started(name, NODES);
    create_namespace(&cluster, members);
    for index in 0..NODES {
        let mut client = entered(&cluster, index);
        until("the node serves the namespace", || ask(&mut client, "SET first x") == Value::Okay);
    }
    cluster
}

fn create_namespace(cluster: &Cluster, members: &[usize]) {
    let members = names(members).join(",");
    let line = format!("QUORATE NAMESPACE CREATE {NAMESPACE} PROTOCOL register AUTHORITY members MEMBERS {members}");
    until("the namespace is made", || ask(&mut cluster.client(0), &line) == Value::Okay);
}

fn fields(cluster: &Cluster, node: usize) -> Fields {
    show(&mut entered(cluster, node), &[free_key(0)]).remove(0)
}

fn word(fields: &Fields, name: &str) -> String {
    fields.get(name).and_then(text).unwrap_or_default()
}

fn epoch(fields: &Fields) -> i64 {
    match fields.get("epoch") {
        Some(Value::Int(epoch)) => *epoch,
        other => panic!("an epoch is shown as {other:?}"),
    }
}

fn members(fields: &Fields) -> Vec<String> {
    match fields.get("members") {
        Some(Value::Array(members)) => members.iter().filter_map(text).collect(),
        other => panic!("members are shown as {other:?}"),
    }
}

/// Asks at one node, which may be no member.
fn move_to(cluster: &Cluster, node: usize, members: &[usize]) {
    let line = format!("QUORATE NAMESPACE MOVE {NAMESPACE} MEMBERS {}", names(members).join(","));
    let answer = ask(&mut cluster.client(node), &line);
    assert_eq!(answer, Value::Okay, "{line} at n{}", node + 1);
}

/// Returns what is shown when these nodes all know of one configuration, the same, of an epoch that is no lower.
fn settled(cluster: &Cluster, nodes: &[usize], least: i64) -> Fields {
    let sent_at = Instant::now();
    let mut last = Fields::new();
    until("the change is over", || {
        let shown: Vec<Fields> = nodes.iter().map(|&node| fields(cluster, node)).collect();
        let epochs: BTreeSet<i64> = shown.iter().map(epoch).collect();
        let is_over = epochs.len() == 1 && shown.iter().all(|fields| !fields.contains_key("moving"));
        let told: Vec<String> =
            shown.iter().map(|fields| format!("{} {:?}", epoch(fields), word(fields, "moving"))).collect();
        let waited = sent_at.elapsed();
        last = shown.into_iter().next().unwrap_or_default();
        let is_over = is_over && epoch(&last) >= least;
        assert!(is_over || waited < CHANGED_WITHIN, "after {waited:?} the nodes show {told:?}, and not {least}");
        is_over
    });
    last
}

#[test]
fn members_decide_while_nodes_are_killed_or_stand_still() {
    let mut random = Random::announced();
    // Those that have clients are members all the time: what a node passes on to one that is killed has no known outcome.
    let (live, guests) = (others(NODES, &ROOT_LOST), ROOT_LOST);
    let mut cluster = started("authority-kill", &live);
    let mut load = RegisterLoad::start(&cluster, NAMESPACE, &live, &mut random);
    let mut now = epoch(&settled(&cluster, &others(NODES, &[]), 0));
    for round in 0..ROUNDS {
        let victim = guests[random.below(guests.len() as u64) as usize];
        let mut wanted = live.clone();
        wanted.extend(guests.iter().filter(|_| round % 2 == 0));
        random.shuffle(&mut wanted);
        let node = live[random.below(live.len() as u64) as usize];
        move_to(&cluster, node, &wanted);
        thread::sleep(Duration::from_millis(random.below(60)));
        let stops = random.below(2) == 0;
        match stops {
            true => cluster.freeze(victim),
            false => cluster.kill(victim),
        }
        let shown = settled(&cluster, &others(NODES, &[victim]), now + 1);
        now = epoch(&shown);
        assert_eq!(members(&shown), names(&wanted), "what was asked for");
        thread::sleep(BETWEEN_CHANGES);
        load.assert_unharmed();
        match stops {
            true => cluster.signal(victim, libc::SIGCONT),
            false => cluster.start_by_hand(victim),
        }
        load.read_all(&cluster, victim, &mut random);
        settled(&cluster, &others(NODES, &[]), now);
    }
    load.stop();
    load.check(&cluster, 0..NODES, &mut random);
    cluster.stop_all();
    cluster.up();
    assert_eq!(epoch(&settled(&cluster, &others(NODES, &[]), now)), now, "nothing is forgotten");
    load.check(&cluster, 0..NODES, &mut random);
    cluster.stop_all();
}

#[test]
fn members_decide_while_the_root_has_no_quorum() {
    let mut random = Random::announced();
    let (all, live) = (others(NODES, &[]), others(NODES, &ROOT_LOST));
    let mut cluster = started("authority-root", &[0, 1, 3]);
    let mut load = RegisterLoad::start(&cluster, NAMESPACE, &live, &mut random);
    // At a node that is no member, and whose clients go to the new members without having heard of them.
    move_to(&cluster, 6, &[3, 4, 5]);
    let first = epoch(&settled(&cluster, &all, 1));
    for node in ROOT_LOST {
        until("a node that has left may be wiped", || {
            node == 2 || word(&fields(&cluster, node), "may_be_wiped") == "yes"
        });
    }
    assert_eq!(word(&fields(&cluster, 2), "here"), "no member");
    assert_eq!(word(&fields(&cluster, 3), "here"), "member, complete");
    ROOT_LOST.iter().for_each(|&node| cluster.kill(node));
    let create = ask(&mut cluster.client(6), "QUORATE NAMESPACE CREATE 2");
    assert!(matches!(create, Value::ServerError(_)), "the root has a quorum: {create:?}");
    load.assert_unharmed();
    // Two at once, at two members: one comes after the other.
    let wishes = [(3, [3, 4, 6]), (5, [4, 5, 6])];
    thread::scope(|scope| {
        let cluster = &cluster;
        for (node, wanted) in wishes {
            scope.spawn(move || move_to(cluster, node, &wanted));
        }
    });
    let shown = settled(&cluster, &live, first + 2);
    assert_eq!(epoch(&shown), first + 2, "each was decided once");
    assert!(wishes.iter().any(|(_, wanted)| members(&shown) == names(wanted)), "{:?}", members(&shown));
    load.assert_unharmed();
    // Several in a row, and other sizes, at members and others.
    let mut now = first + 2;
    for wanted in [[3, 4, 5], [6, 5, 4], [3, 6, 4]] {
        let node = live[random.below(live.len() as u64) as usize];
        move_to(&cluster, node, &wanted);
        now += 1;
        thread::sleep(BETWEEN_CHANGES);
    }
    let shown = settled(&cluster, &live, now);
    assert_eq!(members(&shown), names(&[3, 6, 4]));
    let resize = format!("QUORATE QUORUM SET NAMESPACE {NAMESPACE} 1 3");
    assert_eq!(ask(&mut cluster.client(5), &resize), Value::Okay);
    let shown = settled(&cluster, &live, now + 1);
    assert_eq!((word(&shown, "quorum"), members(&shown)), ("threshold 1 3".into(), names(&[3, 6, 4])));
    load.assert_unharmed();
    load.stop();
    // All that are alive are members, and one is killed. It hears from the others who they are.
    move_to(&cluster, 4, &live);
    now = epoch(&settled(&cluster, &live, now + 2));
    let victim = live[random.below(live.len() as u64) as usize];
    load.join(&cluster, &others(NODES, &[0, 1, 2, victim]), &mut random);
    cluster.kill(victim);
    cluster.start_by_hand(victim);
    load.read_all(&cluster, victim, &mut random);
    assert_eq!(epoch(&settled(&cluster, &live, now)), now);
    load.stop();
    // Those that were away hear of everything, although the root has not been told.
    ROOT_LOST.iter().for_each(|&node| cluster.start_by_hand(node));
    assert_eq!(epoch(&settled(&cluster, &all, now)), now);
    load.check(&cluster, 0..NODES, &mut random);
    until("the root has a quorum", || ask(&mut cluster.client(6), "QUORATE NAMESPACE CREATE 3") == Value::Okay);
    // The number can be used again at once, and nothing of what was there comes back.
    let drop = format!("QUORATE NAMESPACE DROP {NAMESPACE}");
    assert_eq!(ask(&mut cluster.client(5), &drop), Value::Okay);
    create_namespace(&cluster, &[6, 0, 2]);
    for &node in &all {
        let read = format!("GET {}", free_key(0));
        until("the node serves the new one", || ask(&mut entered(&cluster, node), &read) == Value::Nil);
    }
    cluster.stop_all();
}
