//! Every limit at its edge.

mod harness;

use std::sync::Arc;

use harness::chain::World;
use harness::{Cluster, Group, Packet, Said};
use quorate_protocol::chain;
use quorate_protocol::effect::{Event, Proposal, ReadMode};
use quorate_protocol::id::{Ballot, Configuration, Content, Epoch, GroupId, NodeId, Payload, Slot, Stamp, Value};
use quorate_protocol::paxos::{
    ACCEPTED_SLOTS_MAX, MEMBERS_MAX, Message, Paxos, Record, WAITING_BYTES_MAX, WINDOW_SLOTS,
};
use quorate_protocol::quorum::QuorumSystem;

const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(3, QuorumSystem::Majority, 1);
    cluster.trace = Some(String::new());
    cluster
}

fn in_flight(cluster: &Cluster, id: NodeId) -> u64 {
    cluster.node(id).replica.as_ref().map_or(0, |replica| replica.status().in_flight)
}

fn refusals(cluster: &mut Cluster, word: &str) -> usize {
    let trace = cluster.trace.replace(String::new()).unwrap_or_default();
    trace.lines().filter(|line| line.contains("refused") && line.contains(word)).count()
}

fn payload(length: usize) -> Payload {
    Arc::from(vec![b'x'; length])
}

#[test]
fn the_window_holds_so_many_slots_and_then_more_once_some_are_decided() {
    let mut cluster = cluster();
    for _ in 0..WINDOW_SLOTS + 10 {
        cluster.propose(N1, Proposal::Commands(payload(1)));
    }
    assert_eq!(in_flight(&cluster, N1), WINDOW_SLOTS);
    let accepts = cluster.network.packets.iter().filter(|packet| packet.to == N2).count() as u64;
    assert_eq!(accepts, WINDOW_SLOTS);
    cluster.synced_at_once = true;
    while cluster.deliver_next() {
        cluster.sync(N1);
    }
    assert_eq!(cluster.agreement.chosen.len() as u64, WINDOW_SLOTS + 10);
}

#[test]
fn a_value_beyond_the_window_of_bytes_goes_alone() {
    let mut cluster = cluster();
    cluster.propose(N1, Proposal::Commands(payload(9 << 20)));
    cluster.propose(N1, Proposal::Commands(payload(1)));
    assert_eq!(in_flight(&cluster, N1), 1);
}

/// When, in milliseconds after it was proposed, a value of this size that nobody has answered for is sent again.
fn sent_again_after_ms(length: usize) -> u64 {
    let mut cluster = cluster();
    cluster.propose(N1, Proposal::Commands(payload(length)));
    let accepts = |cluster: &Cluster| cluster.network.packets.iter().filter(|packet| packet.to == N2).count();
    let (first, started) = (accepts(&cluster), cluster.now);
    while accepts(&cluster) == first {
        cluster.now = cluster.now.after_us(10_000);
        cluster.step(N1, Event::Woken);
    }
    (cluster.now.0 - started.0) / 1_000
}

#[test]
fn what_is_large_is_given_time_before_it_is_sent_again() {
    assert_eq!(sent_again_after_ms(16), 200);
    assert_eq!(sent_again_after_ms(1 << 19), 200);
    // 8 MB/s for what is more than 1 MiB: as long as a slow disk and a slow link may take.
    assert_eq!(sent_again_after_ms(9 << 20), 1_250);
}

#[test]
fn what_waits_beyond_its_limit_is_refused_as_overload() {
    let mut cluster = cluster();
    cluster.propose(N1, Proposal::Commands(payload(9 << 20)));
    let half = WAITING_BYTES_MAX / 2 - 64;
    cluster.propose(N1, Proposal::Commands(payload(half)));
    cluster.propose(N1, Proposal::Commands(payload(half)));
    assert_eq!(refusals(&mut cluster, "Overloaded"), 0);
    cluster.propose(N1, Proposal::Mark);
    assert_eq!(refusals(&mut cluster, "Overloaded"), 1);
}

/// How many commands that wait for the window are refused when a coordinator, challenged, takes a higher ballot.
fn refused_before_a_reelection(is_routed: bool) -> usize {
    let mut cluster = cluster();
    cluster.proposes_late = is_routed;
    cluster.exchange_heartbeats();
    cluster.propose(N1, Proposal::Commands(payload(9 << 20)));
    cluster.propose(N1, Proposal::Commands(payload(1)));
    cluster.network.packets.clear();
    for _ in 0..50 {
        cluster.now = cluster.now.after_us(100_000);
        cluster.exchange_heartbeats();
        cluster.attend(N1);
        cluster.network.packets.clear();
    }
    let ballot = cluster.node(N1).replica.as_ref().expect("it is up").position().promised;
    let promised = Ballot { number: ballot.number + 1, node: NodeId(3) };
    cluster.deliver(Packet { from: N2, to: N1, load: Said::at_first(Message::Rejected { ballot, promised }) });
    assert!(cluster.node(N1).replica.as_ref().is_some_and(|replica| !replica.is_coordinating()));
    refusals(&mut cluster, "NotCoordinator")
}

/// Where reads are routed, what was let through at one ballot is nothing that the next may propose.
#[test]
fn what_waits_for_the_window_is_refused_before_a_reelection_where_others_may_give_leases() {
    assert_eq!(refused_before_a_reelection(true), 1);
    assert_eq!(refused_before_a_reelection(false), 0);
}

#[test]
fn reads_that_wait_are_bounded() {
    let mut cluster = cluster();
    for token in 0..=quorate_protocol::paxos::WAITING_READS_MAX as u64 {
        cluster.propose(N1, Proposal::Read { token, mode: ReadMode::Quorum });
    }
    assert_eq!(refusals(&mut cluster, "Overloaded"), 1);
}

#[test]
fn an_acceptor_keeps_no_slot_too_far_ahead() {
    let ballot = Ballot { number: 0, node: N1 };
    for (slot, kept) in [(ACCEPTED_SLOTS_MAX - 1, 1), (ACCEPTED_SLOTS_MAX, 0), (u64::MAX, 0)] {
        let mut cluster = cluster();
        let value = Value { stamp: Stamp(1), seed: 0, content: Content::Mark };
        let (frontier, frontier_majority) = (Slot(0), Slot(0));
        let accept = Message::Accept { ballot, slot: Slot(slot), frontier, frontier_majority, value };
        cluster.deliver(Packet { from: N1, to: N2, load: Said::at_first(accept) });
        assert_eq!(in_flight(&cluster, N2), kept, "slot {slot}");
        assert_eq!(cluster.node(N2).unsynced.len() as u64, kept, "slot {slot}");
    }
}

/// After recovery one undecided slot may hold up more decided ones than the window holds. The coordinator adopts them all;
/// as soon as that slot is decided they are executed, and what was still to be proposed for them is proposed nowhere else.
#[test]
fn what_recovery_knows_as_decided_is_proposed_once() {
    let mut cluster = cluster();
    let count = WINDOW_SLOTS + 100;
    let value = |slot: u64| {
        let content = Content::Commands(format!("v{slot}").into_bytes().into());
        Value { stamp: Stamp(1), seed: 0, content }
    };
    let ballots = [Ballot { number: 1, node: N1 }, Ballot { number: 2, node: N1 }];
    cluster.crash(N1);
    cluster.nodes[0].disk.log = (0..count)
        .map(|slot| {
            let ballot = ballots[usize::from(slot > 0)];
            Record::Accepted { ballot, slot: Slot(slot), value: value(slot), frontier: Slot(slot) }
        })
        .collect();
    cluster.restart(N1);
    cluster.synced_at_once = true;
    cluster.propose(N1, Proposal::Commands(payload(1)));
    while cluster.deliver_next() {}
    let expected: Vec<_> = (0..count).map(value).collect();
    assert_eq!(cluster.node(N1).executed[..count as usize], expected);
    assert_eq!(cluster.node(N1).executed.len() as u64, count + 1);
}

#[test]
fn nonsense_is_counted_and_changes_nothing() {
    let ballot = Ballot { number: 9, node: NodeId(3) };
    let stranger = NodeId(77);
    let nonsense = [
        (stranger, Message::Fetch { from: Slot(0) }),
        // Somebody else's ballot, a stranger's, and answers to a ballot that is not the receiver's.
        (N1, Message::Prepare { ballot, from: Slot(0), released: None }),
        (
            stranger,
            Message::Decide {
                ballot: Ballot { number: 9, node: stranger },
                frontier: Slot(9),
                frontier_majority: Slot(9),
            },
        ),
        (N1, Message::Accepted { ballot, slot: Slot(0), next_slot: Slot(0), grant: 1 }),
        (N1, Message::Rejected { ballot: Ballot { number: 9, node: N2 }, promised: Ballot { number: 8, node: N1 } }),
    ];
    for (count, (from, message)) in nonsense.into_iter().enumerate() {
        let mut cluster = cluster();
        cluster.deliver(Packet { from, to: N2, load: Said::at_first(message) });
        assert_eq!(cluster.nonsense_count, 1, "case {count}");
        assert!(cluster.network.packets.is_empty() && cluster.node(N2).unsynced.is_empty(), "case {count}");
        assert!(cluster.node(N2).replica.as_ref().is_some_and(Paxos::is_idle), "case {count}");
    }
}

fn born(count: usize) -> Paxos {
    let members = (1..=count as u32).map(NodeId).collect();
    let quorum = QuorumSystem::Majority;
    Paxos::new(Arc::new(Configuration { group: GroupId(1), epoch: Epoch(1), members, quorum }), N1)
}

#[test]
fn so_many_members_and_no_more() {
    assert!(born(MEMBERS_MAX).is_coordinating());
    assert!(std::panic::catch_unwind(|| born(MEMBERS_MAX + 1)).is_err());
}

fn world_of_chain() -> World {
    let mut world = World::new(2, 2, 1);
    world.trace = Some(String::new());
    world
}

fn refusals_in_chain(world: &mut World, word: &str) -> usize {
    let trace = world.trace.replace(String::new()).unwrap_or_default();
    trace.lines().filter(|line| line.contains("refused") && line.contains(word)).count()
}

#[test]
fn a_head_refuses_what_is_beyond_its_window() {
    let mut world = world_of_chain();
    for number in 0..chain::WINDOW_SLOTS + 3 {
        world.propose(N1, Proposal::Commands(Arc::from(format!("c{number}").as_bytes())));
    }
    assert_eq!(refusals_in_chain(&mut world, "Overloaded"), 3);
    world.synced_at_once = true;
    world.sync(N1);
    while world.deliver_next() {}
    assert_eq!(world.checks.agreement.chosen.len(), chain::WINDOW_SLOTS);
    world.propose(N1, Proposal::Mark);
    assert_eq!(refusals_in_chain(&mut world, "Overloaded"), 0);
}

#[test]
fn a_head_takes_one_update_of_any_size_and_none_beyond_its_window_of_bytes() {
    let mut world = world_of_chain();
    world.trace = None;
    world.propose(N1, Proposal::Commands(payload(chain::WINDOW_BYTES)));
    world.trace = Some(String::new());
    world.propose(N1, Proposal::Mark);
    assert_eq!(refusals_in_chain(&mut world, "Overloaded"), 1);
    assert_eq!(world.node(N1).replica.as_ref().map_or(0, |replica| replica.status().in_flight), 1);
}

#[test]
fn reads_that_wait_in_a_chain_are_counted() {
    let mut world = world_of_chain();
    for token in 0..chain::WAITING_READS_MAX as u64 + 2 {
        world.propose(N2, Proposal::Read { token, mode: ReadMode::Quorum });
    }
    assert_eq!(refusals_in_chain(&mut world, "Overloaded"), 2);
}
