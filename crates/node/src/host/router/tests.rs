use std::cell::Cell;

use quorate_object::{Condition, Expiry, OBJECT_BYTES_MAX, Outcome, SetAnswer, slot_of_key};
use quorate_protocol::NodeId;

use super::*;
use crate::answer::Answer;
use crate::host::Submission;
use crate::host::three_nodes::{Cluster, Fate, arrives};

const KEY: &[u8] = b"key";

fn kgroup() -> Kgroup {
    Kgroup::of_hash_slot(slot_of_key(KEY))
}

/// Node 1 coordinates the only volume, which is read through routers.
fn routed() -> Cluster {
    let mut cluster = Cluster::new(|settings| settings.defaults.reads = Reads::Routed);
    set(&mut cluster, 1, b"first", Expiry::Unset);
    cluster.pass(1_000, arrives);
    cluster
}

fn submit(cluster: &mut Cluster, at: u32, command: &Command<'_>) -> u64 {
    let number = cluster.next_number();
    let target = Target::Slot { namespace: 0, slot: slot_of_key(KEY) };
    cluster.node(at).host.submit(Submission { number, predecessor: None, target, command });
    number
}

fn set(cluster: &mut Cluster, at: u32, value: &[u8], expiry: Expiry) -> u64 {
    let (condition, answer) = (Condition::Always, SetAnswer::Ok);
    submit(cluster, at, &Command::Set { key: KEY, value, condition, expiry, answer })
}

fn read(cluster: &mut Cluster, at: u32) -> u64 {
    submit(cluster, at, &Command::Get { key: KEY })
}

fn assert_reads(cluster: &mut Cluster, at: u32, number: u64, value: &[u8]) {
    let expected = (number, Answer::Outcome(Outcome::Bulk(value.to_vec())));
    assert!(cluster.node(at).answers.contains(&expected), "node {at} reads {value:?}");
}

/// Node 3 has a session, and the key's kgroup is shared with it.
fn share_with_3(cluster: &mut Cluster) {
    for _ in 0..3 {
        read(cluster, 3);
        cluster.pass(100, arrives);
    }
    let before = cluster.node(3).host.counters.reads_routed_here;
    read(cluster, 3);
    assert_eq!(cluster.node(3).host.counters.reads_routed_here, before + 1, "without a message");
}

#[test]
fn a_member_reads_alone_what_is_shared_with_it_and_no_more_once_it_is_recalled() {
    let mut cluster = routed();
    share_with_3(&mut cluster);
    let written = set(&mut cluster, 2, b"second", Expiry::Unset);
    cluster.pass(10, arrives);
    assert!(cluster.is_done(2, written));
    let here = cluster.node(3).host.counters.reads_routed_here;
    let number = read(&mut cluster, 3);
    cluster.pass(10, arrives);
    assert_reads(&mut cluster, 3, number, b"second");
    assert_eq!(cluster.node(3).host.counters.reads_routed_here, here, "the coordinator was asked");
    let number = read(&mut cluster, 3);
    assert_eq!(cluster.node(3).host.counters.reads_routed_here, here + 1, "which shared it again");
    cluster.pass(1, arrives);
    assert_reads(&mut cluster, 3, number, b"second");
}

#[test]
fn a_write_waits_for_the_lease_of_a_router_that_does_not_hear_of_it() {
    let mut cluster = routed();
    share_with_3(&mut cluster);
    let lost = |from: NodeId, to: NodeId, _: &Message<'_>| {
        if from == NodeId(3) || to == NodeId(3) { Fate::IsLost } else { Fate::Arrives }
    };
    let written = set(&mut cluster, 2, b"second", Expiry::Unset);
    let mut waited_ms = 0;
    while !cluster.is_done(2, written) {
        let (here, number) = (cluster.node(3).host.counters.reads_routed_here, read(&mut cluster, 3));
        let reads_alone = cluster.node(3).host.counters.reads_routed_here > here;
        cluster.pass(1, lost);
        waited_ms += 1;
        if reads_alone {
            assert_reads(&mut cluster, 3, number, b"first");
        }
    }
    assert!((100..=460).contains(&waited_ms), "{waited_ms} ms");
    let here = cluster.node(3).host.counters.reads_routed_here;
    read(&mut cluster, 3);
    assert_eq!(cluster.node(3).host.counters.reads_routed_here, here, "its lease has ended before");
}

/// One at a time, where a router that is not heard makes them wait.
#[test]
fn the_largest_values_are_written() {
    let mut cluster = routed();
    share_with_3(&mut cluster);
    let turned_back = Cell::new(0);
    let lost = |from: NodeId, to: NodeId, message: &Message<'_>| {
        turned_back
            .update(|count| count + u32::from(matches!(message, Message::Bounced { why: Bounce::Overloaded, .. })));
        if from == NodeId(3) || to == NodeId(3) { Fate::IsLost } else { Fate::Arrives }
    };
    let value = vec![b'v'; OBJECT_BYTES_MAX];
    let first = set(&mut cluster, 2, &value, Expiry::Unset);
    cluster.pass(50, lost);
    assert_eq!((cluster.is_done(2, first), turned_back.get()), (false, 0), "it waits");
    let second = set(&mut cluster, 2, &value, Expiry::Unset);
    cluster.pass(10, lost);
    assert!(turned_back.get() > 0, "there is room for one");
    cluster.pass(1_500, lost);
    assert!(cluster.is_done(2, first) && cluster.is_done(2, second));
}

/// So does one whose object got its own group while it was under way, and lost it again.
#[test]
fn a_write_that_may_have_been_executed_elsewhere_ends_the_session() {
    let mut cluster = routed();
    share_with_3(&mut cluster);
    let number = set(&mut cluster, 3, b"second", Expiry::Unset);
    cluster.node(3).host.clients.find_mut(number).expect("it is under way").has_moved = true;
    let node_3_learns_nothing = |_: NodeId, to: NodeId, message: &Message<'_>| {
        let is_of_log = matches!(message, Message::Replica { .. });
        if to == NodeId(3) && is_of_log { Fate::IsLost } else { Fate::Arrives }
    };
    for _ in 0..100 {
        cluster.pass(1, node_3_learns_nothing);
        if cluster.is_done(3, number) {
            break;
        }
    }
    assert!(cluster.is_done(3, number));
    let read = read(&mut cluster, 3);
    cluster.pass(20, arrives);
    assert_reads(&mut cluster, 3, read, b"second");
}

#[test]
fn an_object_that_expires_is_read_at_the_coordinator() {
    let mut cluster = routed();
    share_with_3(&mut cluster);
    let expires_ms = cluster.node(1).host.stamp().0 as i64 + 60_000;
    set(&mut cluster, 3, b"for a while", Expiry::AtMs(expires_ms));
    cluster.pass(100, arrives);
    let counts = |cluster: &mut Cluster| [1, 2, 3].map(|id| cluster.node(id).host.counters.reads_routed);
    let (here, answered) = (cluster.node(3).host.counters.reads_routed_here, counts(&mut cluster));
    for _ in 0..5 {
        let number = read(&mut cluster, 3);
        cluster.pass(20, arrives);
        assert_reads(&mut cluster, 3, number, b"for a while");
    }
    assert_eq!((cluster.node(3).host.counters.reads_routed_here, counts(&mut cluster)), (here, answered));
}

#[test]
fn whoever_comes_to_coordinate_holds_writes_back_until_what_others_granted_is_over() {
    let mut cluster = routed();
    cluster.node(1).host.hand_over_all(|_| true);
    cluster.pass(20, arrives);
    let written = set(&mut cluster, 3, b"second", Expiry::Unset);
    cluster.pass(400, arrives);
    assert!(!cluster.is_done(3, written));
    let number = read(&mut cluster, 3);
    cluster.pass(5, arrives);
    assert_reads(&mut cluster, 3, number, b"first");
    cluster.pass(100, arrives);
    assert!(cluster.is_done(3, written));
}

/// A copy that waits here, and one that another coordinator has had decided, are two.
#[test]
fn nothing_is_shared_while_a_write_waits_though_a_copy_of_it_was_executed() {
    let mut cluster = routed();
    let node_2_hears_little = |from: NodeId, to: NodeId, message: &Message<'_>| match message {
        Message::Replica { .. } | Message::Reply { .. } if from == NodeId(1) && to == NodeId(2) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    let written = set(&mut cluster, 2, b"second", Expiry::Unset);
    cluster.pass(100, node_2_hears_little);
    assert!(!cluster.is_done(2, written));
    cluster.node(1).is_down = true;
    let volume = cluster.volume();
    let held = |cluster: &Cluster| {
        let host = &cluster.nodes[1].host;
        let routed = host.groups[host.find(volume).expect("it is a member") as usize].routed.as_ref();
        routed.is_some_and(|routed| routed.holds(kgroup()))
    };
    let (mut waited_ms, mut shared_at) = (0, None);
    while waited_ms < 3_000 && (!cluster.is_done(2, written) || held(&cluster)) {
        cluster.pass(1, arrives);
        waited_ms += 1;
        read(&mut cluster, 3);
        let shared = cluster.node(2).host.counters.shared;
        if shared > 0 && held(&cluster) {
            shared_at.get_or_insert(waited_ms);
        }
    }
    assert!(cluster.is_done(2, written));
    assert_eq!(shared_at, None, "it may be what changes the object");
    cluster.pass(100, arrives);
    read(&mut cluster, 3);
    cluster.pass(100, arrives);
    assert!(cluster.node(2).host.counters.shared > 0, "nothing waits any more");
}
