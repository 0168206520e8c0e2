use quorate_object::Outcome;
use quorate_protocol::{GroupId, NodeId};

use super::super::tests::{answers_reads, goes_on_without};
use crate::answer::{AdminReply, Answer};
use crate::host::HostSettings;
use crate::host::three_nodes::{Cluster, arrives};
use crate::record::GroupRecord;
use crate::replica::Protocol;
use crate::root::{Reads, Settings};

fn set(settings: &mut HostSettings, protocol: Protocol, volumes: u32) {
    let reads = if protocol.is_register() { Reads::Quorum } else { Reads::Lease };
    settings.defaults = Settings { protocol, volumes, reads, replicas: 3, ..Settings::default() };
    settings.turn_after_us = 500_000;
}

/// Four nodes, and a volume on the first three.
fn four(protocol: Protocol) -> Cluster {
    let mut cluster = Cluster::of(4, |settings| set(settings, protocol, 1));
    let written = cluster.write(1, b"first");
    cluster.pass(500, arrives);
    assert!(cluster.is_done(1, written));
    assert_eq!(record(&cluster, 1).members, [1, 2, 3]);
    cluster
}

/// As a node knows it.
fn record(cluster: &Cluster, at: u32) -> GroupRecord {
    let root = cluster.nodes[at as usize - 1].host.directory().expect("it knows the cluster");
    root.namespaces[&0].volumes[0].clone()
}

fn has_replica(cluster: &Cluster, at: u32, group: GroupId) -> bool {
    cluster.nodes[at as usize - 1].host.find(group).is_some()
}

fn say(cluster: &mut Cluster, at: u32, line: &str) -> u64 {
    let number = cluster.next_number();
    let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    cluster.node(at).host.submit_admin(number, 0, &words);
    number
}

fn answer(cluster: &Cluster, at: u32, number: u64) -> Option<Answer> {
    let answers = &cluster.nodes[at as usize - 1].answers;
    answers.iter().find(|(of, _)| *of == number).map(|(_, answer)| answer.clone())
}

fn field(reply: &AdminReply, name: &str) -> Option<AdminReply> {
    let AdminReply::Map(fields) = reply else { panic!("{reply:?}") };
    fields.iter().find(|(field, _)| field == name).map(|(_, told)| told.clone())
}

const OK: Answer = Answer::Admin(AdminReply::Ok);

/// The value is what all live nodes read.
fn assert_reads(cluster: &mut Cluster, nodes: &[u32], value: &[u8]) {
    for &at in nodes {
        let read = cluster.read(at);
        cluster.pass(500, arrives);
        assert_eq!(answer(cluster, at, read), Some(Answer::Outcome(Outcome::Bulk(value.to_vec()))), "at node {at}");
    }
}

#[test]
fn a_member_is_replaced_while_the_chain_is_used_and_it_never_is_shorter_than_it_was() {
    let mut cluster = four(Protocol::Chain);
    let group = cluster.volume();
    let asked = say(&mut cluster, 4, "VOLUME MOVE 0 0 FROM n1 TO n4");
    let mut last = cluster.write(2, b"0");
    let (mut longest_ms, mut waited_ms, mut count, mut most) = (0, 0, 0, 0);
    for _ in 0..8_000 {
        cluster.pass(1, arrives);
        waited_ms += 1;
        let members = record(&cluster, 2).members;
        assert!(members.len() >= 3 || !members.contains(&1), "{members:?}");
        most = most.max(members.len());
        let is_over = [2, 3, 4].into_iter().any(|at| goes_on_without(&cluster.node(at).host, group, 1));
        assert!(!(is_over && answers_reads(&cluster.node(1).host, group)), "what node 1 answers may be old");
        if cluster.is_done(2, last) {
            longest_ms = longest_ms.max(waited_ms);
            (count, waited_ms) = (count + 1, 0);
            last = cluster.write(2, count.to_string().as_bytes());
        }
    }
    assert_eq!(answer(&cluster, 4, asked), Some(OK));
    assert_eq!((most, record(&cluster, 2).members), (4, vec![4, 2, 3]), "it has the order that it is to have");
    assert_eq!([1, 2, 3, 4].map(|at| has_replica(&cluster, at, group)), [false, true, true, true]);
    assert!(longest_ms < 500 && count > 1_000, "{count} writes, one of which took {longest_ms} ms");
    cluster.pass(500, arrives);
    assert_reads(&mut cluster, &[1, 2, 3, 4], count.to_string().as_bytes());
}

#[test]
fn who_has_left_may_come_again_and_begins_anew() {
    let mut cluster = four(Protocol::Chain);
    for (line, at, members) in [
        ("VOLUME MOVE 0 0 FROM n3 TO n4", 3, [1, 2, 4]),
        ("VOLUME MOVE 0 0 FROM n1 TO n3", 2, [3, 2, 4]),
        ("VOLUME MOVE 0 0 FROM n4 TO n1", 1, [3, 2, 1]),
    ] {
        let asked = say(&mut cluster, at, line);
        cluster.pass(6_000, arrives);
        assert_eq!(answer(&cluster, at, asked), Some(OK), "{line}");
        assert_eq!(record(&cluster, at).members, members, "{line}");
        let written = cluster.write(at, line.as_bytes());
        cluster.pass(200, arrives);
        assert!(cluster.is_done(at, written), "{line}");
        // What is on disks is enough.
        [1, 2, 3, 4].into_iter().for_each(|id| cluster.restart(id));
        cluster.pass(3_000, arrives);
        assert_reads(&mut cluster, &[1, 2, 3, 4], line.as_bytes());
    }
}

/// A move from node 2 to node 4 during which nodes die after so long, and are back 14 s later.
fn is_moved_though_nodes_die(dead: &[u32], after_ms: u64) {
    let mut cluster = four(Protocol::Chain);
    let group = cluster.volume();
    let asked = say(&mut cluster, 1, "VOLUME MOVE 0 0 FROM n2 TO n4");
    cluster.pass(after_ms, arrives);
    let kill = |cluster: &mut Cluster, is_down: bool| {
        for &id in dead {
            if !is_down {
                cluster.restart(id);
            }
            cluster.node(id).is_down = is_down;
            let others = (1..=4).filter(|other| !dead.contains(other));
            for other in others {
                let host = &mut cluster.node(other).host;
                match is_down {
                    true => host.unlinked(NodeId(id)),
                    false => host.linked(NodeId(id)),
                }
            }
        }
    };
    kill(&mut cluster, true);
    cluster.pass(3_000, arrives);
    let survivor = [3, 1, 4, 2].into_iter().find(|id| !dead.contains(id)).expect("not all die");
    let written = cluster.write(survivor, b"second");
    cluster.pass(11_000, arrives);
    assert!(cluster.is_done(survivor, written), "{dead:?} after {after_ms} ms: {:?}", record(&cluster, survivor));
    kill(&mut cluster, false);
    cluster.pass(12_000, arrives);
    let told = record(&cluster, survivor);
    assert!(told.is_whole(), "{dead:?} after {after_ms} ms: {told:?}");
    let is_moved = told.members == [1, 4, 3];
    // Who was to come, and died before it had, was given up.
    assert!(is_moved || dead.contains(&4) && told.members == [1, 2, 3], "{dead:?} after {after_ms} ms: {told:?}");
    assert!(dead.contains(&1) || answer(&cluster, 1, asked) == Some(OK), "{dead:?} after {after_ms} ms");
    let out = if is_moved { 2 } else { 4 };
    assert!(!has_replica(&cluster, out, group), "{dead:?} after {after_ms} ms");
    assert_reads(&mut cluster, &[1, 2, 3, 4], b"second");
}

/// From before the root has decided it until it is over.
const MOMENTS_MS: [u64; 10] = [0, 5, 50, 100, 150, 220, 400, 700, 900, 1_500];

#[test]
fn a_move_comes_to_its_end_though_whoever_is_replaced_dies() {
    MOMENTS_MS.into_iter().for_each(|after_ms| is_moved_though_nodes_die(&[2], after_ms));
}

#[test]
fn a_move_comes_to_its_end_or_is_given_up_though_whoever_comes_dies() {
    MOMENTS_MS.into_iter().for_each(|after_ms| is_moved_though_nodes_die(&[4], after_ms));
    MOMENTS_MS.into_iter().for_each(|after_ms| is_moved_though_nodes_die(&[2, 4], after_ms));
}

#[test]
fn a_move_comes_to_its_end_though_whoever_coordinates_the_root_dies() {
    MOMENTS_MS.into_iter().skip(3).for_each(|after_ms| is_moved_though_nodes_die(&[1], after_ms));
}

#[test]
fn a_register_is_moved_and_who_has_left_has_nothing_of_it() {
    let mut cluster = four(Protocol::Register);
    let group = cluster.volume();
    let asked = say(&mut cluster, 3, "VOLUME MOVE 0 0 FROM n1 TO n4");
    cluster.pass(3_000, arrives);
    assert_eq!(answer(&cluster, 3, asked), Some(OK));
    assert_eq!(record(&cluster, 3).members, [4, 2, 3]);
    assert_eq!([1, 2, 3, 4].map(|at| has_replica(&cluster, at, group)), [false, true, true, true]);
    assert_reads(&mut cluster, &[1, 2, 3, 4], b"first");
}

#[test]
fn a_node_is_drained_of_chains_and_has_nothing_left_and_nodes_are_made_even() {
    is_drained_and_levelled(Protocol::Chain);
}

#[test]
fn a_node_is_drained_of_registers_and_has_nothing_left_and_nodes_are_made_even() {
    is_drained_and_levelled(Protocol::Register);
}

#[test]
fn a_node_is_drained_of_volumes_of_paxos_and_has_nothing_left_and_nodes_are_made_even() {
    is_drained_and_levelled(Protocol::Paxos);
}

fn is_drained_and_levelled(protocol: Protocol) {
    let mut cluster = Cluster::of(4, |settings| set(settings, protocol, 8));
    cluster.pass(1_000, arrives);
    let ask = |cluster: &mut Cluster, at: u32, line: &str| {
        let number = say(cluster, at, line);
        cluster.pass(600, arrives);
        match answer(cluster, at, number) {
            Some(Answer::Admin(reply)) => reply,
            other => panic!("{line}: {other:?}"),
        }
    };
    let int = |reply: &AdminReply, name: &str| match field(reply, name) {
        Some(AdminReply::Int(number)) => number,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(int(&ask(&mut cluster, 1, "NODE SHOW n4"), "replicas"), 6);
    assert_eq!(ask(&mut cluster, 2, "NODE DRAIN n4"), AdminReply::Ok);
    let shown = ask(&mut cluster, 3, "NODE SHOW n4");
    assert_eq!(field(&shown, "draining"), Some(AdminReply::Text("yes".into())));
    assert!(int(&shown, "replicas") > 0 && (!protocol.is_chain() || int(&shown, "leaving") > 0), "{shown:?}");
    cluster.pass(40_000, arrives);
    let shown = ask(&mut cluster, 3, "NODE SHOW n4");
    assert_eq!((int(&shown, "replicas"), int(&shown, "own_groups")), (0, 0), "{shown:?}");
    let volumes = cluster.node(4).host.groups().count();
    assert_eq!(volumes, 0, "it has nothing of what was there");
    assert_eq!(field(&shown, "root"), Some(AdminReply::Text("no".into())));
    let refused = ask(&mut cluster, 1, "NODE DRAIN n1");
    assert!(matches!(&refused, AdminReply::Error(line) if line.contains("only 2 nodes")), "{refused:?}");

    assert_eq!(ask(&mut cluster, 1, "NODE UNDRAIN n4"), AdminReply::Ok);
    assert_eq!(ask(&mut cluster, 4, "NODE LEVEL"), AdminReply::Ok);
    cluster.pass(30_000, arrives);
    let shown = [1, 2, 3, 4].map(|node| ask(&mut cluster, node, &format!("NODE SHOW n{node}")));
    assert_eq!(shown.each_ref().map(|shown| int(shown, "replicas")), [7, 7, 7, 6], "three have the root");
    assert!(shown.iter().all(|shown| field(shown, "levelling") == Some(AdminReply::Text("no".into()))));
    let AdminReply::List(volumes) = ask(&mut cluster, 4, "VOLUME LIST 0") else { panic!("no list") };
    assert_eq!(volumes.len(), 8);
    let none = Some(AdminReply::List(Vec::new()));
    assert!(volumes.iter().all(|volume| field(volume, "joining") == none && field(volume, "leaving") == none));
}

#[test]
fn what_cannot_be_moved_so_is_refused_with_what_to_do() {
    let mut cluster = four(Protocol::Chain);
    for (line, word) in [
        ("VOLUME MOVE 1 0 FROM n1 TO n4", "no namespace 1"),
        ("VOLUME MOVE 0 7 FROM n1 TO n4", "no volume 7"),
        ("VOLUME MOVE 0 0 FROM n9 TO n4", "n9"),
        ("VOLUME MOVE 0 0 FROM n4 TO n1", "no replica on n4"),
        ("VOLUME MOVE 0 0 FROM n1 TO n2", "on n2 already"),
        ("VOLUME MOVE 0 0 FROM n1", "FROM node TO node"),
        ("VOLUME LIST 9", "no namespace 9"),
        ("NODE SHOW n9", "n9"),
        ("NODE DRAIN", "DRAIN|UNDRAIN name"),
    ] {
        let asked = say(&mut cluster, 2, line);
        cluster.pass(500, arrives);
        let told = answer(&cluster, 2, asked);
        assert!(matches!(&told, Some(Answer::Admin(AdminReply::Error(why))) if why.contains(word)), "{line}: {told:?}");
    }
}
