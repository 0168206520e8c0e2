use std::cell::Cell;

use quorate_object::Outcome;

use super::*;
use crate::answer::Answer;
use crate::host::Forgotten;
use crate::host::batches::{GroupAction, GroupRequest};
use crate::host::three_nodes::{Cluster, Fate, arrives, coordinates};
use crate::quorum::Quorum;
use crate::replica::{AnyMessage, Protocol};
use crate::root::Groups;
use crate::volume::{VolumeCommand, volume_of};
use quorate_protocol::paxos;

fn renews(message: &Message<'_>) -> bool {
    let Message::Request { envelope, .. } = message else { return false };
    let command = Envelope::take(&mut &envelope[..]).and_then(|envelope| VolumeCommand::decode(envelope.command));
    matches!(command, Some(VolumeCommand::Renew(_)))
}

/// Whoever has forgotten own groups asks in vain that they begin anew.
fn nothing_begins_anew(_: NodeId, _: NodeId, message: &Message<'_>) -> Fate {
    if renews(message) { Fate::IsLost } else { Fate::Arrives }
}

/// The numbers of the own groups that a node has.
fn own_numbers(cluster: &mut Cluster, id: u32) -> Vec<u64> {
    cluster.node(id).host.own_groups().filter_map(|group| Some(volume_of(group)?.1)).collect()
}

fn of_memory() -> Cluster {
    Cluster::new(|settings| settings.defaults.durability = Durability::Memory)
}

fn state(cluster: &mut Cluster, id: u32) -> GroupState {
    let volume = cluster.volume();
    let host = &cluster.node(id).host;
    host.groups[host.find(volume).expect("it is a member") as usize].state
}

fn reads(cluster: &mut Cluster, at: u32, value: &[u8]) -> bool {
    let number = cluster.read(at);
    cluster.pass(300, arrives);
    cluster.node(at).answers.contains(&(number, Answer::Outcome(Outcome::Bulk(value.to_vec()))))
}

#[test]
fn nothing_is_lost_where_nodes_die_one_after_the_other() {
    let mut cluster = of_memory();
    for (round, id) in [3, 1, 2, 2, 1, 3].into_iter().enumerate() {
        let value = [b'0' + round as u8];
        let at = id % 3 + 1;
        let written = cluster.write(at, &value);
        cluster.pass(1_500, arrives);
        assert!(cluster.is_done(at, written));
        cluster.restart(id);
        assert_eq!(state(&mut cluster, id), GroupState::Forgetful);
        cluster.pass(2_000, arrives);
        assert_eq!(state(&mut cluster, id), GroupState::Alive);
        assert!((1..=3).all(|at| reads(&mut cluster, at, &value)));
    }
}

#[test]
fn whoever_has_forgotten_waits_for_all_others() {
    let mut cluster = of_memory();
    cluster.restart(3);
    cluster.node(2).is_down = true;
    cluster.pass(3_000, arrives);
    assert_eq!(state(&mut cluster, 3), GroupState::Forgetful);
    cluster.node(2).is_down = false;
    cluster.pass(2_000, arrives);
    assert_eq!(state(&mut cluster, 3), GroupState::Alive);
    assert_eq!(cluster.node(3).host.counters().readmitted, 1);
}

/// Node 3 forgets a vote that decided something of which node 2 has not heard.
fn still_counts(mut cluster: Cluster, forget: fn(&mut Cluster, u32)) {
    let volume = cluster.volume();
    // Node 2 hears of nothing that is decided.
    let all_but_2 = |_: NodeId, to: NodeId, message: &Message<'_>| match message {
        Message::Replica { group, .. } if *group == volume && to == NodeId(2) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    let written = cluster.write(1, b"one");
    // Nor does node 1 say that it is decided, before node 3 has forgotten it.
    cluster.pass(3, all_but_2);
    assert!(cluster.is_done(1, written));
    forget(&mut cluster, 3);
    cluster.pass(2_000, all_but_2);
    assert_eq!(state(&mut cluster, 3), GroupState::Alive);
    cluster.node(1).is_down = true;
    cluster.pass(3_000, arrives);
    assert!(reads(&mut cluster, 2, b"one") && reads(&mut cluster, 3, b"one"));
}

#[test]
fn a_quorum_that_a_forgotten_vote_was_part_of_still_counts() {
    still_counts(of_memory(), Cluster::restart);
}

#[test]
fn a_quorum_that_a_lost_directory_was_part_of_still_counts() {
    still_counts(Cluster::new(|_| {}), Cluster::replace_directory);
}

fn silence_comes_late(by_us: u64) -> impl Fn(NodeId, NodeId, &Message<'_>) -> Fate {
    move |from, _, message| match message {
        Message::Silent { .. } if from == NodeId(1) => Fate::IsLate { by_us },
        _ => Fate::Arrives,
    }
}

#[test]
fn silence_that_comes_late_deposes_nobody() {
    let mut cluster = of_memory();
    let volume = cluster.volume();
    cluster.restart(1);
    // Somebody speaks to it: it says that it is silent, which comes late.
    cluster.write(2, b"old");
    cluster.pass(1_400, silence_comes_late(1_500_000));
    assert_eq!(state(&mut cluster, 1), GroupState::Alive);
    let number = cluster.write(1, b"old");
    cluster.pass(100, arrives);
    assert!(cluster.is_done(1, number), "{:?}", cluster.node(1).answers);
    // From here on node 1 hears nothing of the volume; heartbeats go on.
    let not_to_1 = move |_: NodeId, to: NodeId, message: &Message<'_>| match message {
        Message::Replica { group, .. } if *group == volume && to == NodeId(1) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    for _ in 0..20 {
        cluster.pass(50, not_to_1);
        assert_eq!(coordinators(&mut cluster, volume), [true, false, false], "it holds a lease");
    }
}

fn coordinators(cluster: &mut Cluster, volume: GroupId) -> [bool; 3] {
    [1, 2, 3].map(|id| coordinates(&cluster.node(id).host, volume))
}

fn slot_of(cluster: &mut Cluster, id: u32) -> u64 {
    let volume = cluster.volume();
    let host = &cluster.node(id).host;
    host.groups[host.find(volume).unwrap() as usize].replica.next_slot().0
}

#[test]
fn a_lost_word_that_it_is_back_costs_no_more_than_time() {
    let mut cluster = of_memory();
    let volume = cluster.volume();
    cluster.write(1, b"one");
    cluster.pass(1_000, arrives);
    cluster.restart(3);
    // The word that it is back is lost.
    let unnoticed = |_: NodeId, _: NodeId, message: &Message<'_>| match message {
        Message::Readmit { asks: Asks::Notice, .. } => Fate::IsLost,
        _ => Fate::Arrives,
    };
    let mut last = 0;
    for _ in 0..1_000 {
        if state(&mut cluster, 3) == GroupState::Alive {
            break;
        }
        if last == 0 || cluster.is_done(1, last) {
            last = cluster.write(1, b"more");
        }
        cluster.pass(1, unnoticed);
    }
    assert_eq!(state(&mut cluster, 3), GroupState::Alive);
    cluster.pass(50, unnoticed);
    cluster.pass(60_000, arrives);
    let slots = [1, 2, 3].map(|id| slot_of(&mut cluster, id));
    let silent = [1, 2].map(|id| {
        let host = &cluster.node(id).host;
        host.groups[host.find(volume).unwrap() as usize].replica.is_silent(NodeId(3))
    });
    assert!(slots[2] == slots[0], "{slots:?}, held to be silent: {silent:?}");
}

#[test]
fn what_was_taken_over_is_known_also_to_the_next_start() {
    let mut cluster = Cluster::new(|settings| settings.defaults.durability = Durability::Interval);
    let volume = cluster.volume();
    let synced = cluster.node(3).storage.clone();
    // Node 3 accepts what is written, which is chosen by that; nobody hears of it.
    let unheard = |to_3: bool| {
        move |from: NodeId, to: NodeId, message: &Message<'_>| match message {
            Message::Replica { group, .. } if *group == volume && to == NodeId(2) => Fate::IsLost,
            Message::Replica { message: AnyMessage::Paxos(paxos::Message::Accepted { .. }), .. }
                if from == NodeId(3) =>
            {
                Fate::IsLost
            }
            Message::Replica { message: AnyMessage::Paxos(paxos::Message::Accept { .. }), .. }
                if to == NodeId(3) && !to_3 =>
            {
                Fate::IsLost
            }
            _ => Fate::Arrives,
        }
    };
    cluster.write(1, b"one");
    cluster.pass(10, unheard(true));
    // Its machine loses power, and it hears of it again only by what node 1 testifies.
    cluster.node(3).storage = synced;
    cluster.restart_after(3, Forgotten::Unsynced);
    assert!(!cluster.node(3).host.remembers_losses(), "nothing is stored yet");
    assert_eq!(state(&mut cluster, 3), GroupState::Forgetful);
    cluster.pass(1_000, unheard(false));
    assert!(cluster.node(3).host.remembers_losses());
    assert_eq!(state(&mut cluster, 3), GroupState::Alive);
    cluster.restart(3);
    assert_eq!(state(&mut cluster, 3), GroupState::Alive, "the store has it so");
    cluster.node(1).is_down = true;
    cluster.pass(3_000, arrives);
    assert!(reads(&mut cluster, 2, b"one") && reads(&mut cluster, 3, b"one"));
}

#[test]
fn a_replica_with_a_hole_in_its_log_is_taken_in_again() {
    let mut cluster = Cluster::new(|_| {});
    let values: Vec<[u8; 2]> = (0..20).map(|round| [b'v', b'a' + round]).collect();
    for value in &values {
        cluster.write(1, value);
        cluster.pass(50, arrives);
    }
    let end = cluster.node(3).host.log_mut().durable();
    let (segment, middle) = (end.segment(), end.offset() as usize / 2);
    cluster.node(3).storage.flip(segment, middle / 4096 * 4096 + 20, 1);
    let report = cluster.restart_after(3, Forgotten::Memory);
    assert_eq!(
        (report.damage.is_empty(), state(&mut cluster, 3)),
        (false, GroupState::Forgetful),
        "{:?}",
        report.damage
    );
    cluster.pass(2_000, arrives);
    assert_eq!(state(&mut cluster, 3), GroupState::Alive);
    cluster.write(2, b"new");
    cluster.pass(1_000, arrives);
    // The hole is still there, and what lies before it is made up for.
    let report = cluster.restart_after(3, Forgotten::Memory);
    assert_eq!((report.damage.is_empty(), state(&mut cluster, 3)), (false, GroupState::Alive), "{:?}", report.damage);
    cluster.node(1).is_down = true;
    cluster.pass(3_000, arrives);
    assert!(reads(&mut cluster, 3, b"new"));
}

#[test]
fn who_cannot_be_taken_in_asks_ever_more_rarely() {
    let mut cluster = of_memory();
    // Each waits for the other.
    cluster.restart(2);
    cluster.restart(3);
    cluster.pass(20_000, arrives);
    let count = std::cell::Cell::new(0);
    cluster.pass(60_000, |_, _, message| {
        if let Message::Readmit { .. } = message {
            count.set(count.get() + 1);
        }
        Fate::Arrives
    });
    assert_eq!([2, 3].map(|id| state(&mut cluster, id)), [GroupState::Forgetful; 2]);
    assert!(count.get() < 60, "{} in an idle minute", count.get());
}

/// What is accepted is not decided, and node 3 catches up with nothing.
fn stalled(_: NodeId, to: NodeId, message: &Message<'_>) -> Fate {
    match message {
        Message::Replica { message: AnyMessage::Paxos(paxos::Message::Accepted { .. }), .. } => Fate::IsLost,
        Message::Replica { message: AnyMessage::Paxos(paxos::Message::Learn { .. }), .. }
        | Message::Snapshot { .. }
            if to == NodeId(3) =>
        {
            Fate::IsLost
        }
        message if renews(message) => Fate::IsLost,
        _ => Fate::Arrives,
    }
}

#[test]
fn a_write_that_may_have_given_an_object_a_group_before_does_not_do_so_again() {
    let mut cluster = Cluster::new(|settings| {
        settings.defaults.durability = Durability::Memory;
        settings.defaults.groups = Groups::Own;
    });
    cluster.set(1, b"one", b"x");
    cluster.pass(5, stalled);
    cluster.restart(3);
    cluster.pass(1_000, stalled);
    cluster.pass(3_000, nothing_begins_anew);
    let own_groups = [1, 2, 3].map(|id| own_numbers(&mut cluster, id).len());
    assert_eq!((own_groups, state(&mut cluster, 3)), ([1, 1, 0], GroupState::Alive));
    // It is found also though it began after the replica was taken in again.
    cluster.pass(5_000, arrives);
    let own_groups = [1, 2, 3].map(|id| own_numbers(&mut cluster, id));
    assert_eq!(own_groups, [[2], [2], [2]]);
}

#[test]
fn a_volume_that_bore_nothing_is_asked_until_it_has_executed_what_might_have() {
    let mut cluster = of_memory();
    let number = cluster.next_number();
    let request = GroupRequest { names: vec![b"nothing".to_vec()], ..GroupRequest::of(GroupAction::Promote) };
    cluster.node(1).host.submit_group_request(number, 0, request);
    cluster.pass(5, stalled);
    cluster.restart(3);
    cluster.pass(1_000, stalled);
    let asked = Cell::new(0);
    let count = |_: NodeId, _: NodeId, message: &Message<'_>| {
        asked.set(asked.get() + u32::from(renews(message)));
        Fate::Arrives
    };
    cluster.pass(5_000, count);
    let slots = [1, 3].map(|id| slot_of(&mut cluster, id));
    assert!(slots[0] == slots[1] && slots[0] >= 2, "that, and what had it decided: {slots:?}");
    assert_ne!(asked.replace(0), 0);
    cluster.pass(60_000, count);
    assert_eq!((asked.get(), [1, 3].map(|id| slot_of(&mut cluster, id))), (0, slots));
}

#[test]
fn a_birth_that_may_have_been_executed_before_is_not_executed_again() {
    let mut cluster = of_memory();
    let first = cluster.write(1, b"one");
    cluster.pass(1_000, arrives);
    assert!(cluster.is_done(1, first));
    let number = cluster.next_number();
    let mut request = GroupRequest::of(GroupAction::Promote);
    request.names = vec![b"key".to_vec()];
    cluster.node(1).host.submit_group_request(number, 0, request);
    // It is accepted and not decided while node 3 forgets, is testified to, and catches up with nothing.
    cluster.pass(5, stalled);
    cluster.restart(3);
    cluster.pass(1_000, stalled);
    cluster.pass(3_000, nothing_begins_anew);
    let own_groups = |cluster: &mut Cluster, id: u32| cluster.node(id).host.here.all.len();
    assert_eq!([1, 2, 3].map(|id| own_groups(&mut cluster, id)), [1, 1, 0], "node 3 may have voted in it");
    assert_eq!(state(&mut cluster, 3), GroupState::Alive, "its volume takes part again");
    // Nor by later starts, however the volume's replica has come to where it is.
    assert_eq!(cluster.node(3).host.close(), []);
    cluster.pass(1, nothing_begins_anew);
    cluster.restart_after(3, Forgotten::Nothing);
    cluster.pass(1_000, nothing_begins_anew);
    assert_eq!(([own_groups(&mut cluster, 3)], state(&mut cluster, 3)), ([0], GroupState::Alive));
    // It begins anew, and is another one then.
    let before = own_numbers(&mut cluster, 1);
    cluster.pass(3_000, arrives);
    let after = own_numbers(&mut cluster, 3);
    assert!(after.len() == 1 && after > before, "{before:?}, then {after:?}");
    assert_eq!([1, 2].map(|id| own_numbers(&mut cluster, id)), [after.clone(), after]);
}

fn root_state(cluster: &mut Cluster, id: u32) -> Option<GroupState> {
    cluster.node(id).host.root_state()
}

fn create_namespace(cluster: &mut Cluster, at: u32) -> GroupId {
    let number = cluster.next_number();
    let words: Vec<Vec<u8>> = ["NAMESPACE", "CREATE", "1"].iter().map(|word| word.as_bytes().to_vec()).collect();
    cluster.node(at).host.submit_admin(number, 0, &words);
    cluster.pass(300, arrives);
    let root = cluster.node(at).host.directory().expect("it knows the cluster");
    GroupId(root.namespaces[&1].volumes[0].group)
}

#[test]
fn a_node_with_a_new_directory_has_forgotten_all_and_takes_part_again() {
    let mut cluster = Cluster::new(|_| {});
    let volume = cluster.volume();
    let written = cluster.write(3, b"one");
    cluster.pass(100, arrives);
    assert!(cluster.is_done(3, written));
    cluster.replace_directory(3);
    assert_eq!(root_state(&mut cluster, 3), Some(GroupState::Forgetful));
    cluster.node(2).is_down = true;
    cluster.pass(3_000, arrives);
    assert_eq!(root_state(&mut cluster, 3), Some(GroupState::Forgetful), "all others have to testify");
    assert_eq!(state(&mut cluster, 3), GroupState::Forgetful);
    cluster.node(2).is_down = false;
    cluster.pass(2_000, arrives);
    assert_eq!(root_state(&mut cluster, 3), Some(GroupState::Alive));
    assert_eq!(state(&mut cluster, 3), GroupState::Alive);
    assert!(cluster.node(3).host.remembers_losses());
    // What is born from here on is new.
    let born = create_namespace(&mut cluster, 3);
    let host = &cluster.node(3).host;
    assert!(host.groups[host.find(born).expect("it is a member") as usize].is_alive());
    cluster.restart(3);
    assert_eq!(state(&mut cluster, 3), GroupState::Alive, "the store has it so");
    cluster.node(1).is_down = true;
    cluster.pass(3_000, arrives);
    assert!(reads(&mut cluster, 2, b"one") && reads(&mut cluster, 3, b"one"));
    assert_ne!(born, volume);
}

#[test]
fn a_start_that_ends_before_it_is_stored_what_was_lost_changes_nothing() {
    let mut cluster = Cluster::new(|_| {});
    cluster.write(1, b"one");
    cluster.pass(100, arrives);
    cluster.replace_directory(3);
    cluster.node(3).is_store_slow = true;
    cluster.pass(2_000, arrives);
    assert!(!cluster.node(3).host.remembers_losses());
    cluster.node(3).is_store_slow = false;
    cluster.restart_after(3, Forgotten::Everything);
    assert_eq!(root_state(&mut cluster, 3), Some(GroupState::Forgetful));
    cluster.pass(2_000, arrives);
    assert_eq!(state(&mut cluster, 3), GroupState::Alive);
    assert!(cluster.node(3).host.remembers_losses());
}

/// Own groups of each protocol, with these first members and others.
const KINDS: [(&[u8], Protocol, &[&str]); 5] = [
    (b"paxos", Protocol::Paxos, &[]),
    (b"register", Protocol::Register, &[]),
    (b"chain", Protocol::Chain, &[]),
    (b"paxos of some", Protocol::Paxos, &["n3", "n2", "n1"]),
    (b"register of some", Protocol::Register, &["n3", "n1", "n2"]),
];

fn create_each_kind(cluster: &mut Cluster) {
    for (name, protocol, members) in KINDS {
        let number = cluster.next_number();
        let request = GroupRequest {
            names: vec![name.to_vec()],
            protocol,
            members: members.iter().map(|&member| member.to_owned()).collect(),
            ..GroupRequest::of(GroupAction::Create { value: b"x".to_vec() })
        };
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(500, arrives);
        let made = (number, Answer::Admin(crate::answer::AdminReply::Ok));
        assert!(cluster.node(1).answers.contains(&made), "{:?}", cluster.node(1).answers);
    }
}

#[test]
fn groups_of_objects_begin_anew_where_a_directory_was_lost() {
    let mut cluster = Cluster::new(|_| {});
    create_each_kind(&mut cluster);
    let before = own_numbers(&mut cluster, 3);
    assert_eq!(before.len(), KINDS.len());
    cluster.replace_directory(3);
    cluster.pass(1_000, nothing_begins_anew);
    let is_chains = |cluster: &mut Cluster| own_numbers(cluster, 3).into_iter().all(|number| number == before[2]);
    assert!(is_chains(&mut cluster), "a chain takes in who has forgotten; nothing else is born again");
    let written = KINDS.map(|(name, ..)| cluster.set(3, name, b"y"));
    cluster.pass(1_500, nothing_begins_anew);
    let done = written.map(|number| cluster.is_done(3, number));
    assert_eq!(done, [true; KINDS.len()], "the others go on: {:?}", cluster.node(3).answers);
    // Clients go on meanwhile.
    let mut written = Vec::new();
    for _ in 0..600 {
        written.extend(KINDS.map(|(name, ..)| cluster.set(2, name, b"z")));
        cluster.pass(10, arrives);
    }
    cluster.pass(100, arrives);
    let undone: Vec<u64> = written.into_iter().filter(|&number| !cluster.is_done(2, number)).collect();
    let answers = &cluster.node(2).answers;
    assert!(
        undone.is_empty(),
        "{:?}",
        answers.iter().filter(|(number, _)| undone.contains(number)).collect::<Vec<_>>()
    );
    let after = own_numbers(&mut cluster, 3);
    assert_eq!(
        (after.len(), cluster.node(3).host.counters().own_groups_renewed),
        (KINDS.len(), KINDS.len() as u64 - 1)
    );
    assert!(after.iter().all(|number| *number == before[2] || !before.contains(number)), "{before:?}, then {after:?}");
    cluster.node(1).is_down = true;
    cluster.pass(2_000, arrives);
    let written = KINDS.map(|(name, ..)| cluster.set(3, name, b"w"));
    cluster.pass(2_000, arrives);
    assert!(written.into_iter().all(|number| cluster.is_done(3, number)), "{:?}", cluster.node(3).answers);
}

#[test]
fn whoever_has_not_heard_that_groups_began_anew_asks_their_volume() {
    let mut cluster = Cluster::new(|_| {});
    create_each_kind(&mut cluster);
    let before = own_numbers(&mut cluster, 1);
    cluster.replace_directory(3);
    let nothing_is_decided = |from: NodeId, to: NodeId, message: &Message<'_>| {
        let Message::Replica { message: AnyMessage::Paxos(message), .. } = message else { return Fate::Arrives };
        let tells = matches!(message, paxos::Message::Decide { .. } | paxos::Message::Execute { .. });
        if tells && (from, to) == (NodeId(1), NodeId(3)) { Fate::IsLost } else { Fate::Arrives }
    };
    let begun = |cluster: &mut Cluster, id: u32| {
        own_numbers(cluster, id).iter().filter(|number| !before.contains(number)).count()
    };
    // The others end theirs, and node 3 hears of it, but not of what comes after.
    while begun(&mut cluster, 1) < KINDS.len() - 1 {
        cluster.pass(1, |from, to, message| nothing_is_decided(from, to, message));
    }
    assert!(begun(&mut cluster, 3) < KINDS.len() - 1, "it has not heard of the last");
    cluster.node(1).is_down = true;
    let mut written = Vec::new();
    for _ in 0..300 {
        written.extend(KINDS.map(|(name, ..)| cluster.set(3, name, b"z")));
        cluster.pass(10, arrives);
    }
    cluster.pass(1_000, arrives);
    let undone: Vec<u64> = written.into_iter().filter(|&number| !cluster.is_done(3, number)).collect();
    let answers = cluster.node(3).answers.iter();
    assert!(undone.is_empty(), "{:?}", answers.filter(|(number, _)| undone.contains(number)).collect::<Vec<_>>());
}

#[test]
fn what_the_others_cannot_end_is_left_as_it_is() {
    let mut cluster = Cluster::new(|_| {});
    let create = |cluster: &mut Cluster, name: &[u8], quorum| {
        let number = cluster.next_number();
        let create = GroupRequest::of(GroupAction::Create { value: b"x".to_vec() });
        let protocol = Protocol::Register;
        let request = GroupRequest { names: vec![name.to_vec()], protocol, quorum, ..create };
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(500, arrives);
    };
    create(&mut cluster, b"key", Some(Quorum::Threshold { read: 1, write: 3 }));
    create(&mut cluster, b"other", None);
    let before = own_numbers(&mut cluster, 1);
    let read = [1, 2, 3].map(|at| reads(&mut cluster, at, b"x"));
    assert_eq!(read, [true; 3]);
    cluster.node(2).is_down = true;
    cluster.replace_directory(3);
    cluster.pass(3_000, arrives);
    cluster.node(2).is_down = false;
    cluster.pass(6_000, arrives);
    // The one begins anew once node 2 is back. The other is written by all or nobody, and read all the same.
    let after = own_numbers(&mut cluster, 3);
    assert!(before.len() == 2 && after.len() == 1 && !before.contains(&after[0]), "{before:?}, then {after:?}");
    let read = [1, 2, 3].map(|at| reads(&mut cluster, at, b"x"));
    assert_eq!(read, [true; 3]);
    let quiet = cluster.node(3).host.counters().own_groups_renewed;
    cluster.pass(60_000, arrives);
    assert_eq!((quiet, cluster.node(3).host.counters().own_groups_renewed), (1, 1));
    assert_eq!(own_numbers(&mut cluster, 3), after);
}

#[test]
fn very_many_groups_begin_anew_a_few_at_a_time() {
    let mut cluster = Cluster::new(|_| {});
    let count = 600;
    let number = cluster.next_number();
    let mut request = GroupRequest::of(GroupAction::Create { value: b"x".to_vec() });
    (request.names, request.is_batch) = ((0..count).map(|name: u64| name.to_le_bytes().to_vec()).collect(), true);
    cluster.node(1).host.submit_group_request(number, 0, request);
    cluster.pass(3_000, arrives);
    cluster.replace_directory(3);
    let (mut most, mut before) = (0, 0);
    for _ in 0..100 {
        // One heartbeat.
        cluster.pass(100, arrives);
        let renewed = cluster.node(3).host.counters().own_groups_renewed;
        (most, before) = (most.max(renewed - before), renewed);
    }
    assert_eq!((before, cluster.node(3).host.own_groups().count() as u64), (count, count));
    assert!(most <= 256, "{most} with a heartbeat");
}

#[test]
fn what_is_born_before_all_others_have_let_a_new_directory_in_may_have_been_in_the_lost_one() {
    let mut cluster = Cluster::new(|_| {});
    cluster.write(1, b"one");
    cluster.pass(100, arrives);
    cluster.replace_directory_unmet(3);
    cluster.pass(2_000, arrives);
    // The lost directory is not lost for some other node: with that, this one is made, and written to.
    let born = create_namespace(&mut cluster, 1);
    cluster.pass(2_000, arrives);
    let state_of = |cluster: &mut Cluster, group| {
        let host = &cluster.node(3).host;
        host.groups[host.find(group).expect("it is a member") as usize].state
    };
    assert!(!cluster.node(3).host.remembers_losses());
    let volume = cluster.volume();
    assert_eq!([born, volume].map(|group| state_of(&mut cluster, group)), [GroupState::Forgetful; 2]);
    assert_eq!(root_state(&mut cluster, 3), Some(GroupState::Forgetful));
    cluster.node(3).host.admit();
    cluster.pass(2_000, arrives);
    assert!(cluster.node(3).host.remembers_losses());
    assert_eq!([born, volume].map(|group| state_of(&mut cluster, group)), [GroupState::Alive; 2]);
    assert_eq!(root_state(&mut cluster, 3), Some(GroupState::Alive));
}

#[test]
fn who_rests_is_told_that_a_node_with_a_new_directory_is_silent() {
    let mut cluster = Cluster::new(|settings| settings.rest_after_us = 100_000);
    let names: [&[u8]; 3] = [b"a", b"b", b"c"];
    // Each of them has another first member, which coordinates.
    let number = cluster.next_number();
    let mut request = GroupRequest::of(GroupAction::Create { value: b"x".to_vec() });
    (request.names, request.is_batch) = (names.map(<[u8]>::to_vec).to_vec(), true);
    cluster.node(2).host.submit_group_request(number, 0, request);
    cluster.pass(3_000, nothing_begins_anew);
    cluster.replace_directory(3);
    cluster.pass(3_000, nothing_begins_anew);
    assert_eq!(state(&mut cluster, 3), GroupState::Alive);
    assert!(cluster.node(3).host.here.all.is_empty());
    let written = names.map(|name| cluster.set(3, name, b"y"));
    cluster.pass(1_000, nothing_begins_anew);
    assert!(written.into_iter().all(|number| cluster.is_done(3, number)), "{:?}", cluster.node(3).answers);
    cluster.replace_directory(3);
    cluster.pass(3_000, nothing_begins_anew);
    for name in names {
        let number = cluster.next_number();
        let mut request = GroupRequest::of(GroupAction::Move);
        (request.names, request.members) = (vec![name.to_vec()], ["n1", "n2", "n3"].map(str::to_owned).to_vec());
        cluster.node(2).host.submit_group_request(number, 0, request);
    }
    cluster.pass(3_000, nothing_begins_anew);
    assert_eq!(cluster.node(3).host.here.all.len(), 3, "moved, they are others");
}
