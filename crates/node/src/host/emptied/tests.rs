//! Five nodes, of which the first three have the volume; the fourth, or one of these, is to be emptied.

use quorate_object::{Command, Outcome};
use quorate_protocol::NodeId;

use crate::Target;
use crate::answer::{AdminReply, Answer};
use crate::host::Submission;
use crate::host::three_nodes::{Cluster, arrives};

fn cluster() -> Cluster {
    Cluster::of(5, |_| {})
}

fn told(cluster: &mut Cluster, line: &str) -> AdminReply {
    told_by(cluster, 1, line)
}

fn told_by(cluster: &mut Cluster, at: u32, line: &str) -> AdminReply {
    match cluster.say(at, line) {
        Answer::Admin(reply) => reply,
        answer => panic!("{line}: {answer:?}"),
    }
}

fn text(reply: &AdminReply) -> String {
    match reply {
        AdminReply::Text(text) => text.clone(),
        AdminReply::Int(number) => number.to_string(),
        AdminReply::List(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        AdminReply::Map(entries) => {
            entries.iter().map(|(name, reply)| format!("{name}={}", text(reply))).collect::<Vec<_>>().join(" ")
        }
        other => format!("{other:?}"),
    }
}

fn field(reply: &AdminReply, name: &str) -> String {
    let AdminReply::Map(entries) = reply else { panic!("{reply:?}") };
    entries.iter().find(|(entry, _)| entry == name).map(|(_, value)| text(value)).unwrap_or_default()
}

fn members(cluster: &mut Cluster, key: &str) -> String {
    field(&told(cluster, &format!("GROUP SHOW {key}")), "members")
}

fn of_node(cluster: &mut Cluster, node: &str) -> [String; 3] {
    let shown = told(cluster, &format!("NODE SHOW {node}"));
    ["own_groups", "own_groups_named", "own_groups_waiting"].map(|name| field(&shown, name))
}

fn make(cluster: &mut Cluster, key: &str, words: &str) {
    assert_eq!(told(cluster, &format!("GROUP CREATE {key} {words} VALUE 5")), AdminReply::Ok, "{key} {words}");
}

fn count(cluster: &mut Cluster, at: u32, key: &str) -> u64 {
    let number = cluster.next_number();
    let target = Target::Volume { namespace: 0, index: 0 };
    let command = &Command::IncrBy { key: key.as_bytes(), delta: 1 };
    cluster.node(at).host.submit(Submission { number, predecessor: None, target, command });
    number
}

fn counted(cluster: &mut Cluster, at: u32, key: &str) -> i64 {
    let number = count(cluster, at, key);
    cluster.pass(1_000, arrives);
    let answer = cluster.node(at).answers.iter().find(|(answered, _)| *answered == number);
    match answer {
        Some((_, Answer::Outcome(Outcome::Int(value)))) => *value,
        other => panic!("{key}: {other:?}"),
    }
}

fn assert_counted(cluster: &mut Cluster) {
    let volume = cluster.volume();
    for id in 1..=5 {
        let host = &cluster.node(id).host;
        let group = host.find(volume).map(|index| &host.groups[index as usize]);
        assert!(group.is_none_or(|group| group.keeps_names_right()), "at node {id}");
    }
}

#[test]
fn named_members_of_paxos_leave_and_their_places_are_taken() {
    let mut cluster = cluster();
    for (key, words) in [("a", "n1,n4,n5"), ("b", "n4"), ("c", "n4,n2,n1"), ("d", "n5,n2"), ("e", "n5,n4")] {
        make(&mut cluster, key, &format!("MEMBERS {words}"));
    }
    cluster.pass(500, arrives);
    assert_eq!(of_node(&mut cluster, "n4"), ["4", "4", ""]);
    assert_eq!(told(&mut cluster, "NODE DRAIN n4"), AdminReply::Ok);
    // Clients go on.
    let mut numbers = Vec::new();
    for round in 0..120 {
        let at = round % 5 + 1;
        for key in ["a", "b", "c", "d", "e"] {
            numbers.push((at, count(&mut cluster, at, key)));
        }
        cluster.pass(20, arrives);
    }
    cluster.pass(8_000, arrives);
    for (at, number) in numbers {
        let answer = cluster.node(at).answers.iter().find(|(answered, _)| *answered == number);
        assert!(matches!(answer, Some((_, Answer::Outcome(Outcome::Int(_))))), "{answer:?}");
    }
    assert_eq!(of_node(&mut cluster, "n4"), ["0", "0", ""]);
    assert_eq!(members(&mut cluster, "d"), "n5,n2", "it stays");
    let a = members(&mut cluster, "a");
    assert!(a == "n1,n2,n5" || a == "n1,n3,n5", "{a}");
    assert_eq!(members(&mut cluster, "c"), "n3,n2,n1", "members of the volume come first");
    for key in ["a", "b", "c", "d", "e"] {
        assert!(!members(&mut cluster, key).contains("n4"), "{key}");
        assert_eq!(counted(&mut cluster, 4, key), 5 + 120 + 1, "{key}");
    }
    assert_counted(&mut cluster);
    assert_eq!((1..=5).map(|id| cluster.node(id).host.counters.own_groups_moved_off).sum::<u64>(), 4);
}

#[test]
fn chains_and_registers_go_with_their_volume() {
    let mut cluster = cluster();
    make(&mut cluster, "chain", "PROTOCOL chain MEMBERS n3,n1");
    make(&mut cluster, "all", "PROTOCOL chain MEMBERS n1,n3,n2");
    make(&mut cluster, "register", "PROTOCOL register MEMBERS n2,n3");
    make(&mut cluster, "paxos", "MEMBERS n3,n2,n1");
    make(&mut cluster, "volumes", "PROTOCOL paxos");
    assert_eq!(told(&mut cluster, "NODE DRAIN n3"), AdminReply::Ok);
    cluster.pass(20_000, arrives);
    let [own, named, waiting] = of_node(&mut cluster, "n3");
    assert_eq!([&own[..], &named, &waiting], ["0", "0", ""]);
    assert_eq!(members(&mut cluster, "chain"), "n2,n1");
    let paxos = members(&mut cluster, "paxos");
    assert!(paxos == "n4,n2,n1" || paxos == "n5,n2,n1", "{paxos}");
    assert_eq!(counted(&mut cluster, 3, "chain"), 6);
    assert_eq!(counted(&mut cluster, 5, "paxos"), 6);
    assert_eq!(counted(&mut cluster, 4, "volumes"), 6);
    assert_counted(&mut cluster);
}

#[test]
fn a_member_that_is_dead_is_replaced_and_one_that_would_be_alone_is_waited_for() {
    let mut cluster = cluster();
    make(&mut cluster, "three", "MEMBERS n4,n1,n5");
    make(&mut cluster, "lone", "MEMBERS n4");
    make(&mut cluster, "two", "MEMBERS n4,n2");
    cluster.pass(500, arrives);
    cluster.node(4).is_down = true;
    [1, 2, 3, 5].into_iter().for_each(|id| cluster.node(id).host.unlinked(NodeId(4)));
    cluster.pass(3_000, arrives);
    assert_eq!(told(&mut cluster, "NODE DRAIN n4"), AdminReply::Ok);
    cluster.pass(5_000, arrives);
    assert!(!members(&mut cluster, "three").contains("n4"));
    assert_eq!(counted(&mut cluster, 2, "three"), 6);
    let [own, named, waiting] = of_node(&mut cluster, "n4");
    assert_eq!((&own[..], &named[..]), ("", "2"));
    assert_eq!(waiting, "groups=2 why=too few of its members are heard to end it");
    cluster.node(4).is_down = false;
    [1, 2, 3, 5].into_iter().for_each(|id| cluster.node(id).host.linked(NodeId(4)));
    [1, 2, 3, 5].into_iter().for_each(|id| cluster.node(4).host.linked(NodeId(id)));
    cluster.pass(25_000, arrives);
    assert_eq!(of_node(&mut cluster, "n4"), ["0", "0", ""]);
    for key in ["lone", "two"] {
        assert!(!members(&mut cluster, key).contains("n4"), "{key}");
        assert_eq!(counted(&mut cluster, 4, key), 6);
    }
    assert_counted(&mut cluster);
}

#[test]
fn what_has_nowhere_to_go_stays_and_says_so() {
    let mut cluster = cluster();
    make(&mut cluster, "everywhere", "MEMBERS n1,n2,n3,n4,n5");
    assert_eq!(told(&mut cluster, "NODE DRAIN n5"), AdminReply::Ok);
    cluster.pass(3_000, arrives);
    assert_eq!(of_node(&mut cluster, "n5"), ["1", "1", "groups=1 why=no other node is well that could be a member"]);
    assert_eq!(told(&mut cluster, "NODE UNDRAIN n5"), AdminReply::Ok);
    cluster.pass(3_000, arrives);
    assert_eq!(of_node(&mut cluster, "n5"), ["1", "1", ""]);
    assert_eq!(members(&mut cluster, "everywhere"), "n1,n2,n3,n4,n5");
}

#[test]
fn many_leave_a_bounded_number_at_a_time_and_are_spread() {
    let mut cluster = cluster();
    let names = |from: u32| (from..from + 100).map(|number| format!(" k{number}")).collect::<String>();
    for from in [0, 100, 200, 300] {
        let line = format!("GROUP CREATE KEYS 100{} MEMBERS n4", names(from));
        assert!(matches!(told(&mut cluster, &line), AdminReply::List(_)));
    }
    assert_eq!(of_node(&mut cluster, "n4"), ["400", "400", ""]);
    assert_eq!(told(&mut cluster, "NODE DRAIN n4"), AdminReply::Ok);
    cluster.pass(6_000, arrives);
    assert_eq!(of_node(&mut cluster, "n4"), ["0", "0", ""]);
    let on = [1, 2, 3, 5].map(|id| of_node(&mut cluster, &format!("n{id}"))[1].parse::<u32>().expect("a number"));
    assert_eq!(on.iter().sum::<u32>(), 400);
    assert!(on[..3].iter().all(|count| (132..=135).contains(count)) && on[3] == 0, "{on:?}");
    assert_counted(&mut cluster);
}
