//! One of four nodes takes the seat of a member of the volume that the other three have.

use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer};
use quorate_protocol::{GroupId, NodeId};

use super::*;
use crate::Target;
use crate::answer::Answer;
use crate::frame::Message;
use crate::host::Submission;
use crate::host::three_nodes::{Cluster, Fate, arrives, coordinates};

fn cluster() -> Cluster {
    Cluster::of(4, |_| {})
}

/// Has the root, by way of node 1, put one node in another's place.
fn replace(cluster: &mut Cluster, from: u32, to: u32) {
    let (group, epoch) = (cluster.volume().0, record(cluster).epoch);
    let command = RootCommand::Place(PlaceCommand::Replace { group, epoch, from, to });
    cluster.node(1).host.submit_to_root(&command, Purpose::Settling);
}

fn record(cluster: &mut Cluster) -> GroupRecord {
    let root = cluster.node(1).host.directory().expect("the nodes know the cluster");
    root.namespaces[&0].volumes[0].clone()
}

fn seats(cluster: &mut Cluster) -> crate::root::Seats {
    let group = cluster.volume().0;
    let root = cluster.node(1).host.directory().expect("the nodes know the cluster");
    root.seats(group).cloned().unwrap_or_default()
}

fn has_replica(cluster: &mut Cluster, id: u32) -> bool {
    let volume = cluster.volume();
    cluster.node(id).host.find(volume).is_some()
}

fn takes_part(cluster: &mut Cluster, id: u32) -> bool {
    let volume = cluster.volume();
    let host = &cluster.node(id).host;
    host.find(volume).is_some_and(|index| host.groups[index as usize].is_alive())
}

fn written(cluster: &mut Cluster, at: u32, value: &[u8]) {
    let number = cluster.write(at, value);
    cluster.pass(2_000, arrives);
    assert!(cluster.is_done(at, number), "at node {at}: {:?}", cluster.node(at).answers);
}

fn read(cluster: &mut Cluster, at: u32) -> Vec<u8> {
    let number = cluster.read(at);
    cluster.pass(2_000, arrives);
    let answers = &cluster.node(at).answers;
    let found = answers.iter().find(|(answered, _)| *answered == number);
    match found {
        Some((_, Answer::Outcome(Outcome::Bulk(value)))) => value.clone(),
        other => panic!("at node {at}: {other:?}"),
    }
}

fn assert_moved(cluster: &mut Cluster, members: [u32; 3], epoch: u32) {
    let record = record(cluster);
    assert_eq!((&record.members[..], record.epoch, record.joining), (&members[..], epoch, None));
    assert_eq!((seats(cluster).leaving, seats(cluster).unsettled), (None, None));
    for id in 1..=4 {
        let is_member = members.contains(&id);
        assert_eq!((has_replica(cluster, id), takes_part(cluster, id)), (is_member, is_member), "node {id}");
    }
}

#[test]
fn a_follower_is_replaced_while_clients_write() {
    let mut cluster = cluster();
    written(&mut cluster, 1, b"before");
    replace(&mut cluster, 2, 4);
    let mut numbers = Vec::new();
    for round in 0..100 {
        let at = round % 4 + 1;
        numbers.push((at, cluster.write(at, b"meanwhile")));
        cluster.pass(30, arrives);
    }
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, [1, 4, 3], 1);
    for (at, number) in numbers {
        assert!(cluster.is_done(at, number), "at node {at}: {number}");
    }
    for at in 1..=4 {
        assert_eq!(read(&mut cluster, at), b"meanwhile");
    }
    // It counts: without one of those that were there before.
    cluster.node(3).is_down = true;
    written(&mut cluster, 2, b"after");
    assert_eq!(read(&mut cluster, 4), b"after");
}

#[test]
fn the_coordinator_is_replaced_and_the_seat_keeps_its_turn() {
    let mut cluster = cluster();
    written(&mut cluster, 2, b"before");
    replace(&mut cluster, 1, 4);
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, [4, 2, 3], 1);
    written(&mut cluster, 1, b"after");
    assert_eq!(read(&mut cluster, 3), b"after");
    cluster.pass(10_000, arrives);
    let volume = cluster.volume();
    assert!(coordinates(&cluster.node(4).host, volume), "the first seat's");
}

/// A start finds what is stored: whoever testifies in an epoch must know of it then.
#[test]
fn an_epoch_is_followed_once_the_directory_that_says_so_is_stored_and_not_with_an_earlier_one() {
    let mut cluster = cluster();
    written(&mut cluster, 1, b"before");
    let volume = cluster.volume();
    let epoch = |cluster: &mut Cluster| {
        let host = &cluster.node(3).host;
        host.groups[host.find(volume).expect("it is a member") as usize].configuration.epoch
    };
    cluster.node(3).is_store_slow = true;
    let words: Vec<Vec<u8>> = ["NAMESPACE", "CREATE", "7"].iter().map(|word| word.as_bytes().to_vec()).collect();
    let number = cluster.next_number();
    cluster.node(1).host.submit_admin(number, 0, &words);
    cluster.pass(500, arrives);
    replace(&mut cluster, 2, 4);
    cluster.pass(3_000, arrives);
    assert_eq!((record(&mut cluster).epoch, epoch(&mut cluster)), (1, Epoch(0)));
    cluster.store_first(3);
    cluster.pass(1_000, arrives);
    assert_eq!(epoch(&mut cluster), Epoch(0), "an earlier directory is stored");
    assert!(!takes_part(&mut cluster, 4), "not all have testified");
    cluster.node(3).is_store_slow = false;
    cluster.pass(2_000, arrives);
    assert_eq!(epoch(&mut cluster), Epoch(1));
    assert_moved(&mut cluster, [1, 4, 3], 1);
}

#[test]
fn a_volume_that_nobody_uses_since_its_nodes_were_started_is_moved() {
    let mut cluster = cluster();
    written(&mut cluster, 1, b"before");
    (1..=4).for_each(|id| cluster.restart(id));
    cluster.pass(3_000, arrives);
    replace(&mut cluster, 2, 4);
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, [1, 4, 3], 1);
}

#[test]
fn a_dead_member_is_replaced_and_finds_that_it_was() {
    for dead in [1, 2] {
        let mut cluster = cluster();
        written(&mut cluster, 3, b"before");
        cluster.node(dead).is_down = true;
        cluster.pass(2_000, arrives);
        let (group, epoch) = (cluster.volume().0, 0);
        let command = RootCommand::Place(PlaceCommand::Replace { group, epoch, from: dead, to: 4 });
        cluster.node(3).host.submit_to_root(&command, Purpose::Settling);
        cluster.pass(4_000, arrives);
        let host = &cluster.node(4).host;
        let index = host.find(GroupId(group)).expect("it is to be a member");
        assert!(host.groups[index as usize].is_alive(), "in the place of {dead}");
        written(&mut cluster, 4, b"after");
        cluster.node(dead).is_down = false;
        cluster.restart(dead);
        cluster.pass(3_000, arrives);
        let members = if dead == 1 { [4, 2, 3] } else { [1, 4, 3] };
        assert_moved(&mut cluster, members, 1);
        assert_eq!(read(&mut cluster, dead), b"after");
    }
}

#[test]
fn who_dies_while_it_copies_goes_on_once_it_is_back() {
    let mut cluster = cluster();
    written(&mut cluster, 1, b"before");
    replace(&mut cluster, 3, 4);
    // It has heard of it, and no more.
    let lost = |_: NodeId, to: NodeId, message: &Message<'_>| match message {
        Message::Testimony { .. } | Message::Snapshot { .. } if to == NodeId(4) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    cluster.pass(1_000, lost);
    assert!(has_replica(&mut cluster, 4) && !takes_part(&mut cluster, 4));
    assert_eq!(record(&mut cluster).members, [1, 2, 3]);
    cluster.restart(4);
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, [1, 2, 4], 1);
    assert_eq!(read(&mut cluster, 4), b"before");
}

#[test]
fn who_was_to_come_and_does_not_forgets_what_it_has_copied() {
    let mut cluster = cluster();
    let lost = |_: NodeId, to: NodeId, message: &Message<'_>| match message {
        Message::Testimony { .. } if to == NodeId(4) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    replace(&mut cluster, 3, 4);
    cluster.pass(1_000, lost);
    assert!(has_replica(&mut cluster, 4));
    let group = cluster.volume().0;
    let command = RootCommand::Place(PlaceCommand::Keep { group, epoch: 0 });
    cluster.node(1).host.submit_to_root(&command, Purpose::Settling);
    cluster.pass(1_000, lost);
    assert_moved(&mut cluster, [1, 2, 3], 0);
    // And comes for another seat.
    replace(&mut cluster, 2, 4);
    cluster.pass(3_000, arrives);
    assert_moved(&mut cluster, [1, 4, 3], 1);
}

#[test]
fn a_member_that_starts_anew_goes_on_in_the_epoch_that_it_had_heard_of() {
    let mut cluster = cluster();
    written(&mut cluster, 1, b"before");
    replace(&mut cluster, 3, 4);
    let mut since = None;
    for ms in 0..3_000 {
        // Until others have entered the next epoch, who takes the seat knows nothing.
        cluster.pass(1, arrives);
        if since.is_none() && record(&mut cluster).epoch == 1 {
            since = Some(ms);
            cluster.restart(1);
            cluster.restart(2);
        }
    }
    assert!(since.is_some());
    cluster.pass(2_000, arrives);
    assert_moved(&mut cluster, [1, 2, 4], 1);
    let volume = cluster.volume();
    let epochs = [1, 2, 4].map(|id| {
        let host = &cluster.node(id).host;
        host.groups[host.find(volume).expect("it is a member") as usize].configuration.epoch.0
    });
    assert_eq!(epochs, [1, 1, 1]);
    assert_eq!(read(&mut cluster, 3), b"before");
}

/// Node 2 coordinates the second of two volumes, and hears of nothing but that.
fn deaf(volume: GroupId) -> impl Fn(NodeId, NodeId, &Message<'_>) -> Fate {
    move |from, to, message| {
        let concerns = |node: NodeId| from == node || to == node;
        match message {
            _ if !concerns(NodeId(2)) => Fate::Arrives,
            Message::Peers(_) => Fate::Arrives,
            Message::Replica { group, .. } | Message::Request { group, .. } if *group == volume => Fate::Arrives,
            Message::Reply { .. } => Fate::Arrives,
            _ => Fate::IsLost,
        }
    }
}

/// Who has left believes in its lease for as long as it does not hear that it has.
#[test]
fn a_coordinator_that_was_replaced_unheard_answers_nothing_old() {
    let mut cluster = Cluster::of(4, |settings| settings.defaults.volumes = 2);
    let target = Target::Slot { namespace: 0, slot: 16_383 };
    let volume = {
        let root = cluster.node(1).host.directory().expect("the nodes know the cluster");
        let volume = &root.namespaces[&0].volumes[1];
        assert_eq!(volume.members, [2, 3, 4]);
        GroupId(volume.group)
    };
    let set = |cluster: &mut Cluster, at: u32, value: &[u8]| {
        let number = cluster.next_number();
        let (key, condition, expiry, answer) = (b"key", Condition::Always, Expiry::Unset, SetAnswer::Ok);
        let command = &Command::Set { key, value, condition, expiry, answer };
        cluster.node(at).host.submit(Submission { number, predecessor: None, target, command });
        number
    };
    let before = set(&mut cluster, 2, b"before");
    cluster.pass(1_000, arrives);
    assert!(cluster.is_done(2, before) && coordinates(&cluster.node(2).host, volume));
    let command = PlaceCommand::Replace { group: volume.0, epoch: 0, from: 2, to: 1 };
    cluster.node(3).host.submit_to_root(&RootCommand::Place(command), Purpose::Settling);
    cluster.pass(500, deaf(volume));
    // What it would do itself.
    let host = &mut cluster.node(3).host;
    let root = host.directory().expect("it knows the cluster");
    let seats = root.seats(volume.0).cloned().unwrap_or_default();
    let held = Held { is_clear: true, ..held_for(&root.namespaces[&0].volumes[1], &seats) };
    let index = host.find(volume).expect("it is a member");
    host.submit_hold(index, Some(held));
    let mut number = None;
    let mut told_before = 0;
    for _ in 0..6_000 {
        let read = cluster.next_number();
        let command = &Command::Get { key: b"key" };
        cluster.node(2).host.submit(Submission { number: read, predecessor: None, target, command });
        let is_written = number.is_some_and(|number| cluster.is_done(3, number));
        cluster.pass(1, deaf(volume));
        let answers = std::mem::take(&mut cluster.node(2).answers);
        for (_, answer) in answers.into_iter().filter(|(answered, _)| *answered == read) {
            assert_eq!(answer, Answer::Outcome(Outcome::Bulk(b"before".to_vec())));
            assert!(!is_written, "somebody has written since");
            told_before += 1;
        }
        let root = cluster.node(3).host.directory().expect("it knows the cluster");
        if root.namespaces[&0].volumes[1].epoch == 1 && number.is_none() {
            number = Some(set(&mut cluster, 3, b"after"));
        }
    }
    assert!(told_before > 100, "it has a lease: {told_before}");
    assert!(number.is_some_and(|number| cluster.is_done(3, number)), "the others go on without it");
}
