//! Nodes take seats in the root itself, which three of four to seven nodes have at first.

use quorate_checkpoint::Store;
use quorate_protocol::{Epoch, NodeId};

use super::*;
use crate::answer::{AdminReply, Answer};
use crate::entry::Purpose;
use crate::frame::Message;
use crate::host::Forgotten;
use crate::host::three_nodes::{Cluster, Fate, arrives, coordinates};
use crate::root::{NodeRecord, PlaceCommand, RootCommand};

fn root_of(cluster: &mut Cluster, at: u32) -> RootGroup {
    cluster.node(at).host.directory.root_group().clone()
}

fn ask(cluster: &mut Cluster, at: u32, command: PlaceCommand) {
    cluster.node(at).host.submit_to_root(&RootCommand::Place(command), Purpose::Settling);
}

/// Has the root, by way of some node, put one node in another's place.
fn replace(cluster: &mut Cluster, at: u32, from: u32, to: u32) {
    let epoch = root_of(cluster, at).record.epoch;
    ask(cluster, at, PlaceCommand::Replace { group: ROOT.0, epoch, from, to });
}

fn epoch_here(cluster: &mut Cluster, id: u32) -> Option<Epoch> {
    let host = &cluster.node(id).host;
    host.find(ROOT).map(|index| host.groups[index as usize].configuration.epoch)
}

fn takes_part(cluster: &mut Cluster, id: u32) -> bool {
    let host = &cluster.node(id).host;
    host.find(ROOT).is_some_and(|index| host.groups[index as usize].is_alive())
}

/// All nodes that are up know these members, which take part, and nobody else has a replica.
fn assert_moved(cluster: &mut Cluster, members: &[u32], epoch: u32) {
    for id in 1..=cluster.nodes.len() as u32 {
        if cluster.node(id).is_down {
            continue;
        }
        let RootGroup { record, seats, .. } = root_of(cluster, id);
        assert_eq!((&record.members[..], record.epoch, record.joining), (members, epoch, None), "node {id}");
        assert_eq!((seats.leaving, seats.unsettled), (None, None), "node {id}");
        let is_member = members.contains(&id);
        assert_eq!(takes_part(cluster, id), is_member, "node {id}");
        assert_eq!(epoch_here(cluster, id), is_member.then_some(Epoch(epoch)), "node {id}");
    }
}

/// The root decides what it is asked to by this node, and each node that is up hears of it.
fn assert_serves(cluster: &mut Cluster, at: u32, namespace: u32) {
    let told = cluster.say(at, &format!("NAMESPACE CREATE {namespace}"));
    assert_eq!(told, Answer::Admin(AdminReply::Ok), "by node {at}");
    cluster.pass(1_000, arrives);
    for id in 1..=cluster.nodes.len() as u32 {
        let node = cluster.node(id);
        let knows = node.host.directory().is_some_and(|root| root.namespaces.contains_key(&namespace));
        assert!(node.is_down || knows, "node {id}");
    }
}

#[test]
fn a_follower_and_the_coordinator_of_the_root_are_replaced() {
    for leaving in [1, 2, 3] {
        let mut cluster = Cluster::of(4, |_| {});
        assert_serves(&mut cluster, 3, 1);
        replace(&mut cluster, 4, leaving, 4);
        cluster.pass(4_000, arrives);
        let members = [1, 2, 3].map(|id| if id == leaving { 4 } else { id });
        assert_moved(&mut cluster, &members, 1);
        assert_serves(&mut cluster, leaving, 2);
        // It counts: without one of those that were there before.
        let other = members.into_iter().find(|id| *id != 4).expect("two stay");
        cluster.node(other).is_down = true;
        cluster.pass(2_000, arrives);
        assert_serves(&mut cluster, leaving, 3);
        cluster.node(other).is_down = false;
        (1..=4).for_each(|id| cluster.restart(id));
        cluster.pass(3_000, arrives);
        assert_moved(&mut cluster, &members, 1);
        assert_serves(&mut cluster, leaving, 4);
    }
}

/// One more node joins, by way of node 3.
fn add(cluster: &mut Cluster, number: u32) {
    let line = format!("NODE ADD n{number} PEER n{number}:1 CLIENT n{number}:2 ADMIN n{number}:3");
    assert_eq!(cluster.say(3, &line), Answer::Admin(AdminReply::Int(number.into())));
    let settings = crate::host::three_nodes::settings(NodeId(number), number);
    cluster.join(crate::host::HostSettings { joins: true, is_new: true, ..settings });
    (1..number).for_each(|other| link(cluster, number, other));
    cluster.pass(3_000, arrives);
    cluster.node(number).host.admit();
    cluster.pass(2_000, arrives);
}

fn link(cluster: &mut Cluster, one: u32, other: u32) {
    for (from, to) in [(one, other), (other, one)] {
        if !cluster.node(from).is_down {
            cluster.node(from).host.linked(NodeId(to));
        }
    }
}

/// Also to those that have joined since it was made.
fn restart_and_link(cluster: &mut Cluster, id: u32) {
    cluster.restart(id);
    (5..=7).for_each(|joined| cluster.node(id).host.linked(NodeId(joined)));
}

#[test]
fn who_was_away_finds_the_root_where_none_of_those_is_that_it_knew() {
    let mut cluster = Cluster::of(4, |_| {});
    // A root of three among seven: those that come later are no members.
    (5..=7).for_each(|number| add(&mut cluster, number));
    assert_moved(&mut cluster, &[1, 2, 3], 0);
    cluster.node(4).is_down = true;
    for (epoch, (from, to)) in [(1, 5), (2, 6), (3, 7)].into_iter().enumerate() {
        replace(&mut cluster, from, from, to);
        cluster.pass(4_000, arrives);
        let expected = [[5, 2, 3], [5, 6, 3], [5, 6, 7]][epoch];
        assert_moved(&mut cluster, &expected, epoch as u32 + 1);
    }
    // None of the old members is there any more, but for one, which was away as well and knows nothing.
    (1..=3).for_each(|id| cluster.node(id).is_down = true);
    cluster.node(4).is_down = false;
    restart_and_link(&mut cluster, 4);
    cluster.pass(2_000, arrives);
    assert_moved(&mut cluster, &[5, 6, 7], 3);
    assert_serves(&mut cluster, 4, 1);
    (1..=3).for_each(|id| {
        cluster.node(id).is_down = false;
        restart_and_link(&mut cluster, id);
    });
    cluster.pass(5_000, arrives);
    assert_moved(&mut cluster, &[5, 6, 7], 3);
    assert_serves(&mut cluster, 1, 2);
}

/// A node knows where others are from its directory only, and that is older than the nodes that the root is on.
#[test]
fn who_was_away_is_told_of_members_that_it_has_never_heard_of() {
    for (away, moves) in [(1, &[(1, 5)][..]), (4, &[(1, 5), (2, 6)][..])] {
        let mut cluster = Cluster::of(4, |_| {});
        cluster.node(away).is_down = true;
        cluster.pass(1_000, arrives);
        let mut members = vec![1, 2, 3];
        for &(from, to) in moves {
            add(&mut cluster, to);
            replace(&mut cluster, 3, from, to);
            cluster.pass(4_000, arrives);
            members.iter_mut().filter(|member| **member == from).for_each(|member| *member = to);
        }
        assert_moved(&mut cluster, &members, moves.len() as u32);
        // Of those that it knows, it hears but one that is a member still.
        let gone: Vec<u32> = [1, 2].into_iter().filter(|id| *id != away && !members.contains(id)).collect();
        gone.iter().for_each(|id| cluster.node(*id).is_down = true);
        cluster.node(away).is_down = false;
        cluster.restart(away);
        cluster.pass(2_000, arrives);
        let numbers: Vec<u32> = cluster.node(away).host.known_nodes().iter().map(|node| node.id).collect();
        for &(_, came) in moves {
            assert!(numbers.contains(&came), "{numbers:?}");
            link(&mut cluster, away, came);
        }
        cluster.pass(3_000, arrives);
        assert_moved(&mut cluster, &members, moves.len() as u32);
        assert_serves(&mut cluster, away, 1);
    }
}

#[test]
fn a_node_that_the_root_was_to_be_on_for_a_while_is_a_peer_all_along() {
    let mut cluster = Cluster::new(|_| {});
    cluster.node(3).is_down = true;
    cluster.pass(1_000, arrives);
    let line = "NODE ADD n4 PEER n4:1 CLIENT n4:2 ADMIN n4:3";
    assert_eq!(cluster.say(1, line), Answer::Admin(AdminReply::Int(4)));
    replace(&mut cluster, 1, 3, 4);
    cluster.pass(1_000, arrives);
    ask(&mut cluster, 1, PlaceCommand::Keep { group: ROOT.0, epoch: 0 });
    cluster.pass(1_000, arrives);
    cluster.node(3).is_down = false;
    for _ in 0..2_000 {
        cluster.pass(1, arrives);
        let host = &cluster.node(3).host;
        let is_known = host.known_nodes().iter().any(|node| node.id == 4);
        assert_eq!(host.is_peer(NodeId(4)), is_known);
        assert!(is_known || host.directory().is_some_and(|root| root.node(4).is_none()), "it was known before");
    }
    assert!(cluster.node(3).host.is_peer(NodeId(4)));
}

#[test]
fn nobody_comes_in_while_a_member_that_stays_is_missed_and_after_a_while_not_at_all() {
    for joins_beside in [false, true] {
        let mut cluster = Cluster::of(4, |_| {});
        let ask = |cluster: &mut Cluster| match joins_beside {
            true => ask(cluster, 1, PlaceCommand::WidenRoot { epoch: 0, to: 4 }),
            false => replace(cluster, 1, 3, 4),
        };
        // It has a copy, and is about to come in.
        let lost = |_: NodeId, _: NodeId, message: &Message<'_>| match message {
            Message::Request { group: ROOT, .. } => Fate::IsLost,
            _ => Fate::Arrives,
        };
        ask(&mut cluster);
        cluster.pass(600, lost);
        assert_eq!(root_of(&mut cluster, 4).record.joining, Some(4));
        cluster.node(2).is_down = true;
        cluster.pass(5_000, arrives);
        let RootGroup { record, .. } = root_of(&mut cluster, 1);
        assert_eq!((record.epoch, record.joining), (0, Some(4)), "it would never be taken in");
        cluster.pass(8_000, arrives);
        let RootGroup { record, .. } = root_of(&mut cluster, 1);
        assert_eq!((&record.members[..], record.joining), (&[1, 2, 3][..], None));
        let told = cluster.say(3, "ROOT MOVE FROM n1 TO n4");
        assert!(
            matches!(&told, Answer::Admin(AdminReply::Error(why)) if why.contains("n2, another member")),
            "{told:?}"
        );
        assert_eq!(cluster.say(3, "ROOT MOVE FROM n2 TO n4"), Answer::Admin(AdminReply::Ok));
        cluster.pass(3_000, arrives);
        assert_moved(&mut cluster, &[1, 4, 3], 1);
    }
}

/// The one that has decided it is not believed to coordinate any more by the time anybody hears of it, and the one that leaves is dead.
#[test]
fn members_that_have_not_heard_are_told_by_whoever_has() {
    let mut cluster = Cluster::of(4, |_| {});
    cluster.node(3).is_down = true;
    cluster.pass(2_000, arrives);
    replace(&mut cluster, 2, 3, 4);
    // Node 2 hears of nothing that was decided, once the new epoch is; and for so long that leases end.
    let mut is_decided = false;
    for _ in 0..3_000 {
        let deaf = is_decided;
        cluster.pass(1, |from, to, message| match message {
            Message::Peers(_) if deaf => Fate::IsLost,
            _ if deaf && (from, to) == (NodeId(1), NodeId(2)) => Fate::IsLost,
            _ if deaf && (from, to) == (NodeId(4), NodeId(2)) => Fate::IsLost,
            _ => Fate::Arrives,
        });
        is_decided |= epoch_here(&mut cluster, 1) == Some(Epoch(1));
    }
    assert!(is_decided);
    assert_eq!(epoch_here(&mut cluster, 2), Some(Epoch(0)));
    assert!(!takes_part(&mut cluster, 4), "not all have testified");
    cluster.pass(5_000, arrives);
    assert_moved(&mut cluster, &[1, 2, 4], 1);
    assert_serves(&mut cluster, 2, 1);
    cluster.node(3).is_down = false;
    cluster.restart(3);
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, &[1, 2, 4], 1);
}

/// A start finds what is stored: whoever testifies in an epoch must know of it then.
#[test]
fn an_epoch_is_followed_once_what_says_so_is_stored() {
    let mut cluster = Cluster::of(4, |_| {});
    cluster.node(2).is_store_slow = true;
    replace(&mut cluster, 1, 3, 4);
    cluster.pass(3_000, arrives);
    assert_eq!(root_of(&mut cluster, 2).record.epoch, 1, "it has heard of it");
    assert_eq!((epoch_here(&mut cluster, 1), epoch_here(&mut cluster, 2)), (Some(Epoch(1)), Some(Epoch(0))));
    assert!(!takes_part(&mut cluster, 4), "not all have testified");
    // What it had stored is what it begins with.
    cluster.restart(2);
    assert_eq!(epoch_here(&mut cluster, 2), Some(Epoch(0)));
    cluster.node(2).is_store_slow = false;
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, &[1, 2, 4], 1);
    assert_serves(&mut cluster, 2, 1);
}

#[test]
fn a_seat_is_added_and_who_was_to_come_may_come_in_another_place() {
    let mut cluster = Cluster::of(5, |_| {});
    let members = root_of(&mut cluster, 1).record.members;
    assert_eq!(members, [1, 2, 3, 4, 5], "five from the start have five");
    let mut cluster = Cluster::of(4, |_| {});
    let line = "NODE ADD n5 PEER n5:1 CLIENT n5:2 ADMIN n5:3";
    assert_eq!(cluster.say(2, line), Answer::Admin(AdminReply::Int(5)));
    let lost = |_: NodeId, to: NodeId, message: &Message<'_>| match message {
        Message::Testimony { .. } if to == NodeId(4) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    ask(&mut cluster, 1, PlaceCommand::WidenRoot { epoch: 0, to: 4 });
    cluster.pass(1_000, lost);
    assert_eq!((epoch_here(&mut cluster, 4), takes_part(&mut cluster, 4)), (Some(Epoch(0)), false));
    ask(&mut cluster, 1, PlaceCommand::Keep { group: ROOT.0, epoch: 0 });
    replace(&mut cluster, 1, 2, 4);
    cluster.pass(4_000, arrives);
    assert_moved(&mut cluster, &[1, 4, 3], 1);
    ask(&mut cluster, 3, PlaceCommand::WidenRoot { epoch: 1, to: 2 });
    cluster.pass(4_000, arrives);
    assert_moved(&mut cluster, &[1, 4, 3, 2], 2);
    assert_serves(&mut cluster, 2, 1);
    // Of four one may be missing.
    cluster.node(1).is_down = true;
    cluster.pass(2_000, arrives);
    assert_serves(&mut cluster, 2, 2);
    cluster.node(1).is_down = false;
    cluster.restart(1);
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, &[1, 4, 3, 2], 2);
}

#[test]
fn a_member_that_stops_in_between_goes_on_in_the_epoch_that_it_had_heard_of() {
    for wait_ms in (0..600).step_by(25) {
        let mut cluster = Cluster::of(4, |_| {});
        replace(&mut cluster, 1, 3, 4);
        cluster.pass(wait_ms, arrives);
        (1..=4).for_each(|id| cluster.restart(id));
        cluster.pass(5_000, arrives);
        let RootGroup { record, .. } = root_of(&mut cluster, 2);
        if (record.epoch, record.joining) == (0, None) {
            // Nothing was decided yet.
            replace(&mut cluster, 2, 3, 4);
            cluster.pass(4_000, arrives);
        }
        assert_moved(&mut cluster, &[1, 2, 4], 1);
        assert_serves(&mut cluster, 3, 1);
    }
}

#[test]
fn a_member_that_lost_its_directory_is_taken_in_again_and_one_that_has_left_is_not() {
    for (lost, from) in [(4, 2), (1, 2), (2, 2), (4, 1)] {
        let mut cluster = Cluster::of(4, |_| {});
        assert_serves(&mut cluster, 3, 1);
        replace(&mut cluster, 1, from, 4);
        cluster.pass(4_000, arrives);
        let members = [1, 2, 3].map(|id| if id == from { 4 } else { id });
        assert_moved(&mut cluster, &members, 1);
        cluster.replace_directory(lost);
        cluster.pass(8_000, arrives);
        assert_moved(&mut cluster, &members, 1);
        assert_serves(&mut cluster, lost, 2);
        // Whoever was taken in again counts.
        let other = members.into_iter().find(|id| *id != lost).expect("two more");
        cluster.node(other).is_down = true;
        cluster.pass(2_000, arrives);
        assert_serves(&mut cluster, lost, 3);
    }
}

#[test]
fn a_member_whose_directory_cannot_be_read_keeps_its_replica() {
    let mut cluster = Cluster::new(|_| {});
    assert_serves(&mut cluster, 3, 1);
    let node = cluster.node(2);
    // One that has joined takes no node of its configuration for a member.
    node.host.settings.joins = true;
    let mut batch = Batch::new();
    batch.put_node_record(crate::host::directory::RECORD, vec![0xFF; 3]);
    node.store.apply(batch).expect("it has room");
    let report = cluster.restart_after(2, Forgotten::Memory);
    assert!(!report.damage.is_empty());
    cluster.node(1).is_down = true;
    cluster.pass(4_000, arrives);
    assert!(takes_part(&mut cluster, 2));
    assert_serves(&mut cluster, 2, 2);
}

#[test]
fn an_operator_is_told_of_the_root_and_moves_it() {
    let mut cluster = Cluster::of(4, |_| {});
    let shown = |cluster: &mut Cluster, at: u32| match cluster.say(at, "ROOT SHOW") {
        Answer::Admin(AdminReply::Map(fields)) => format!("{fields:?}"),
        other => panic!("{other:?}"),
    };
    assert!(shown(&mut cluster, 4).contains(r#"("members", List([Text("n1"), Text("n2"), Text("n3")]))"#));
    assert_eq!(cluster.say(4, "ROOT MOVE FROM n2 TO n4"), Answer::Admin(AdminReply::Ok));
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, &[1, 4, 3], 1);
    let told = shown(&mut cluster, 2);
    assert!(told.contains(r#"("members", List([Text("n1"), Text("n4"), Text("n3")]))"#), "{told}");
    assert_eq!(cluster.say(3, "ROOT WIDEN TO n2"), Answer::Admin(AdminReply::Ok));
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, &[1, 4, 3, 2], 2);
    for (line, why) in [
        ("ROOT", "ROOT SHOW; QUORATE ROOT MOVE FROM node TO node"),
        ("ROOT SHOW n1", "ROOT WIDEN TO node"),
        ("ROOT MOVE FROM n1 TO n9", "n9"),
        ("ROOT MOVE FROM n1 TO n3", "n3 has a replica of the root"),
        ("ROOT WIDEN TO n1", "n1 has a replica of the root"),
    ] {
        let Answer::Admin(AdminReply::Error(refusal)) = cluster.say(1, line) else { panic!("{line} is not refused") };
        assert!(refusal.contains(why), "{line}: {refusal}");
    }
}

#[test]
fn what_is_no_word_of_the_root_is_not_believed() {
    let mut cluster = Cluster::of(4, |_| {});
    let known = root_of(&mut cluster, 1);
    let with = |members: Vec<u32>, group| {
        let record = crate::record::GroupRecord { members, group, epoch: 9, ..known.record.clone() };
        let nodes = record.members.iter().map(|&id| NodeRecord { id, ..known.nodes[0].clone() }).collect();
        RootGroup { version: known.version + 9, record, nodes, ..known.clone() }.encode()
    };
    let words = [
        Vec::new(),
        vec![0xFF; 40],
        with(vec![], 1),
        with(vec![1, 1, 2], 1),
        with(vec![1, 2], 2),
        with((1..17).collect(), 1),
    ];
    for bytes in words {
        cluster.node(1).host.handle_root_group(NodeId(2), &bytes);
    }
    cluster.pass(500, arrives);
    assert_eq!(root_of(&mut cluster, 1), known);
    assert!(cluster.node(1).host.counters().nonsense >= 6);
    assert!(coordinates(&cluster.node(1).host, ROOT));
}
