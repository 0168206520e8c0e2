use quorate_protocol::Stamp;

use super::*;
use crate::envelope::ENVELOPE_BYTES_MAX;
use crate::frame::{Header, encode_frame};
use crate::host::three_nodes::{Cluster, Fate, arrives};

const VALUE: [u8; 4000] = [7; 4000];
const LARGE: usize = 1000;

fn digesting(digest_bytes: usize) -> Cluster {
    Cluster::new(|settings| settings.digest_bytes = digest_bytes)
}

fn counts(cluster: &mut Cluster, id: u32) -> DigestCounts {
    cluster.node(id).host.counters().digests
}

fn is_body(message: &Message<'_>) -> bool {
    matches!(message, Message::Digest(DigestMessage::Body { .. }))
}

fn is_question(message: &Message<'_>) -> bool {
    matches!(message, Message::Digest(DigestMessage::InFull { .. }))
}

fn is_referring(message: &Message<'_>) -> bool {
    matches!(message, Message::Digest(DigestMessage::Referring { .. }))
}

fn is_accept_in_full(message: &Message<'_>) -> bool {
    let Message::Replica { message: AnyMessage::Paxos(message), .. } = message else { return false };
    commands_of(message).is_some_and(|payload| payload.len() >= LARGE)
}

#[test]
fn a_large_command_is_sent_to_each_member_once_and_not_by_its_coordinator() {
    let mut cluster = digesting(LARGE);
    let number = cluster.write(2, &VALUE);
    cluster.pass(50, |_, _, message| {
        assert!(!is_accept_in_full(message));
        Fate::Arrives
    });
    assert!(cluster.is_done(2, number));
    cluster.assert_executed(&[1, 2, 3], 1);
    let (coordinator, entry, other) = (counts(&mut cluster, 1), counts(&mut cluster, 2), counts(&mut cluster, 3));
    assert_eq!((entry.bodies_sent, coordinator.references_sent), (1, 2));
    assert_eq!((entry.references_resolved, other.references_resolved), (1, 1));
    // What a reference takes, the command takes beside its value.
    let saved = 2 * VALUE.len() as u64;
    assert!(coordinator.bytes_saved.abs_diff(saved) < 20, "{coordinator:?}");
    assert_eq!((other.held, other.asked_in_full, coordinator.sent_in_full), (0, 0, 0));
}

#[test]
fn small_commands_those_of_the_coordinator_and_all_where_it_is_off_are_sent_in_full() {
    let mut cluster = digesting(LARGE);
    cluster.write(2, &VALUE[..900]);
    cluster.write(1, &VALUE);
    cluster.pass(50, arrives);
    cluster.assert_executed(&[1, 2, 3], 2);
    for id in 1..=3 {
        let counts = counts(&mut cluster, id);
        assert_eq!((counts.bodies_sent, counts.references_sent), (0, 0));
    }
    let mut cluster = digesting(0);
    cluster.write(2, &VALUE);
    cluster.pass(50, arrives);
    cluster.assert_executed(&[1, 2, 3], 1);
    assert_eq!((counts(&mut cluster, 2).bodies_sent, counts(&mut cluster, 1).references_sent), (0, 0));
}

#[test]
fn a_body_that_comes_late_is_waited_for() {
    let mut cluster = digesting(LARGE);
    let number = cluster.write(2, &VALUE);
    cluster.pass(50, |_, _, message| if is_body(message) { Fate::IsLate { by_us: 3_000 } } else { Fate::Arrives });
    assert!(cluster.is_done(2, number));
    cluster.assert_executed(&[1, 2, 3], 1);
    let other = counts(&mut cluster, 3);
    assert_eq!((other.held, other.references_resolved, other.asked_in_full), (1, 1, 0));
    assert_eq!(cluster.node(3).host.digests.held_bytes, 0);
}

#[test]
fn a_message_whose_body_does_not_come_is_asked_for_in_full() {
    let mut cluster = digesting(LARGE);
    cluster.write(2, &VALUE);
    cluster.pass(6, |_, _, message| if is_body(message) { Fate::IsLost } else { Fate::Arrives });
    cluster.assert_executed(&[1], 1);
    cluster.assert_executed(&[3], 0);
    assert_eq!(counts(&mut cluster, 3).asked_in_full, 0, "not yet");
    cluster.pass(50, arrives);
    cluster.assert_executed(&[1, 2, 3], 1);
    let other = counts(&mut cluster, 3);
    assert_eq!((other.held, other.references_resolved, other.asked_in_full), (1, 0, 1));
    assert_eq!(counts(&mut cluster, 1).sent_in_full, 1);
}

#[test]
fn what_a_member_has_learned_meanwhile_is_not_asked_for() {
    let mut cluster = digesting(LARGE);
    cluster.write(2, &VALUE);
    cluster.pass(3, |_, _, message| if is_body(message) { Fate::IsLost } else { Fate::Arrives });
    // The next slot tells node 3 that this one is decided, so that its replica fetches it.
    cluster.write(1, &VALUE);
    cluster.pass(50, arrives);
    cluster.assert_executed(&[1, 2, 3], 2);
    assert_eq!((counts(&mut cluster, 3).held, counts(&mut cluster, 3).asked_in_full), (1, 0));
}

#[test]
fn a_question_that_is_lost_costs_a_retransmission() {
    let mut cluster = digesting(LARGE);
    // Node 2 is not heard by the coordinator, so that the slot needs node 3.
    cluster.write(2, &VALUE);
    let fate = |from: NodeId, _: NodeId, message: &Message<'_>| {
        let is_vote = from == NodeId(2) && matches!(message, Message::Replica { .. });
        if is_body(message) || is_question(message) || is_vote { Fate::IsLost } else { Fate::Arrives }
    };
    cluster.pass(150, fate);
    cluster.assert_executed(&[1, 2, 3], 0);
    assert_eq!(counts(&mut cluster, 3).asked_in_full, 1);
    cluster.pass(100, fate);
    cluster.assert_executed(&[1, 3], 1);
    let (coordinator, other) = (counts(&mut cluster, 1), counts(&mut cluster, 3));
    assert_eq!((coordinator.sent_in_full, coordinator.references_sent, other.references_resolved), (0, 2, 0));
}

#[test]
fn another_body_under_the_same_ticket_is_not_taken() {
    let mut cluster = digesting(LARGE);
    cluster.write(2, &VALUE);
    cluster.pass(50, |_, _, message| match message {
        Message::Digest(DigestMessage::Body { start, number, command }) => {
            let mut other = command.to_vec();
            other[command.len() - 1] ^= 1;
            let mut bytes = Vec::new();
            let body = DigestMessage::Body { start: *start, number: *number, command: &other };
            Message::Digest(body).encode(&mut bytes);
            Fate::Becomes(bytes)
        }
        _ => Fate::Arrives,
    });
    cluster.assert_executed(&[1, 2, 3], 1);
    let other = counts(&mut cluster, 3);
    assert_eq!((other.bodies_mistaken, other.references_resolved, other.asked_in_full, other.held), (1, 0, 1, 0));
    assert!(cluster.node(3).host.digests.bodies.is_empty());
}

#[test]
fn an_entry_node_that_dies_with_its_bodies_is_not_waited_for() {
    let mut cluster = digesting(LARGE);
    cluster.write(2, &VALUE);
    // The coordinator has the request, and nobody else has the body.
    cluster.pass(1, |_, _, message| if is_body(message) { Fate::IsLost } else { Fate::Arrives });
    cluster.node(2).is_down = true;
    cluster.pass(100, arrives);
    cluster.assert_executed(&[1, 3], 1);
    assert_eq!((counts(&mut cluster, 3).asked_in_full, counts(&mut cluster, 1).sent_in_full), (1, 1));
}

#[test]
fn a_suspected_entry_node_is_not_waited_for_at_all() {
    let mut cluster = digesting(LARGE);
    cluster.node(2).is_down = true;
    cluster.pass(1_000, arrives);
    assert!(cluster.node(3).host.is_suspected(NodeId(2)));
    let ticket = Ticket { node: NodeId(2), start: 1, number: 1 };
    let (group, accept) = (cluster.volume(), accept_of(&referring_to(&[ticket])));
    cluster.node(3).host.handle_referring(NodeId(1), group, Epoch(0), accept);
    assert_eq!((counts(&mut cluster, 3).held, counts(&mut cluster, 3).asked_in_full), (0, 1));
}

#[test]
fn a_new_coordinator_proposes_in_full_what_it_accepted_by_reference() {
    let mut cluster = digesting(LARGE);
    let number = cluster.write(2, &VALUE);
    // Only node 3 hears of the slot before the coordinator dies, and nobody hears node 3.
    let fate = |from: NodeId, to: NodeId, message: &Message<'_>| match message {
        message if is_referring(message) && to == NodeId(2) => Fate::IsLost,
        Message::Replica { .. } if from == NodeId(3) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    cluster.pass(20, fate);
    cluster.assert_executed(&[1, 2, 3], 0);
    assert_eq!(counts(&mut cluster, 3).references_resolved, 1);
    cluster.node(1).is_down = true;
    cluster.pass(3_000, |_, _, message| {
        assert!(!is_referring(message), "the new coordinator knows nothing of the bodies");
        Fate::Arrives
    });
    assert!(cluster.is_done(2, number));
    let again =
        cluster.node(2).host.counters().answered_from_window + cluster.node(3).host.counters().answered_from_window;
    let (two, three) = (cluster.node(2).executed.clone(), cluster.node(3).executed.clone());
    let volume = cluster.volume();
    let of_volume = |executed: Vec<(GroupId, Slot, u64)>| {
        executed.into_iter().filter(move |(group, ..)| *group == volume).collect::<Vec<_>>()
    };
    assert_eq!(of_volume(two), of_volume(three));
    assert!(again > 0, "the copy that was sent again was not executed again");
}

#[test]
fn what_a_node_said_in_an_earlier_start_does_not_come_to_life_with_a_late_body() {
    let mut cluster = digesting(LARGE);
    cluster.write(2, &VALUE);
    cluster.pass(5, |_, _, message| if is_body(message) { Fate::IsLate { by_us: 8_000 } } else { Fate::Arrives });
    assert_eq!(cluster.node(3).host.digests.held.len(), 1);
    let header = Header { node: NodeId(1), start: 2, sequence: 1, stamp: Stamp(0), wall: Stamp(0), directory: 0 };
    let mut frame = Vec::new();
    encode_frame(&header, &[], &mut frame);
    cluster.node(3).host.receive(NodeId(1), &frame).expect("it is whole");
    assert_eq!((cluster.node(3).host.digests.held.len(), cluster.node(3).host.digests.held_bytes), (0, 0));
    cluster.pass(10, arrives);
    assert_eq!(counts(&mut cluster, 3).references_resolved, 0);
}

#[test]
fn a_body_that_nobody_refers_to_is_thrown_away() {
    let mut cluster = digesting(LARGE);
    let number = cluster.write(2, &VALUE);
    let is_for_coordinator = |_: NodeId, _: NodeId, message: &Message<'_>| match message {
        Message::Request { .. } | Message::Digest(DigestMessage::Spread { .. }) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    cluster.pass(1, is_for_coordinator);
    cluster.pass(5, arrives);
    assert!(!cluster.node(3).host.digests.bodies.is_empty());
    cluster.pass(2_010, arrives);
    assert!(cluster.is_done(2, number), "it was sent again, in full");
    cluster.assert_executed(&[1, 2, 3], 1);
    assert_eq!((counts(&mut cluster, 3).bodies_unused, counts(&mut cluster, 1).references_sent), (1, 0));
    assert!(cluster.node(3).host.digests.bodies.is_empty());
}

#[test]
fn nothing_is_left_behind() {
    let mut cluster = digesting(LARGE);
    for _ in 0..20 {
        let lost_to_three = |_: NodeId, to: NodeId, message: &Message<'_>| match is_body(message) && to == NodeId(3) {
            true => Fate::IsLost,
            false => Fate::Arrives,
        };
        cluster.write(2, &VALUE);
        cluster.pass(10, lost_to_three);
        cluster.write(3, &VALUE);
        cluster.pass(3, arrives);
    }
    cluster.pass(3_000, arrives);
    let counts = counts(&mut cluster, 3);
    assert!(counts.references_resolved > 0 && counts.asked_in_full > 0, "{counts:?}");
    for node in &mut cluster.nodes {
        let digests = &node.host.digests;
        assert!(digests.bodies.is_empty() && digests.spread.is_empty() && digests.sent.is_empty());
        assert!(digests.held.is_empty() && digests.held_bytes == 0 && digests.timer_at.is_none());
    }
}

fn referring_to(tickets: &[Ticket]) -> Vec<u8> {
    let mut payload = Vec::new();
    for &ticket in tickets {
        Envelope::encode(ticket, Stamp(1), 0, 0, |out| out.extend_from_slice(&VALUE), &mut payload);
    }
    refer(&payload, |_| true).expect("there are some").0
}

fn accept_of(payload: &[u8]) -> paxos::Message {
    let value = Value { stamp: Stamp(1), seed: 1, content: Content::Commands(payload.into()) };
    let ballot = Ballot { number: 0, node: NodeId(1) };
    paxos::Message::Accept { ballot, slot: Slot(9), frontier: Slot(0), frontier_majority: Slot(0), value }
}

#[test]
fn bodies_and_messages_that_wait_are_limited_in_bytes() {
    let mut cluster = digesting(LARGE);
    let group = cluster.volume();
    let host = &mut cluster.node(3).host;
    let body = vec![7; 8 << 20];
    for number in 0..10 {
        host.handle_digest(NodeId(2), DigestMessage::Body { start: 1, number, command: &body });
    }
    let is_there = |host: &Host, number| host.body(Ticket { node: NodeId(2), start: 1, number }).is_some();
    assert_eq!(host.counters.digests.bodies_unused, 3, "seven with what keeping them takes");
    assert!(!is_there(host, 2) && is_there(host, 3) && is_there(host, 9));

    let ticket = Ticket { node: NodeId(2), start: 1, number: 77 };
    let mut payload = Vec::new();
    let other = Ticket { number: 78, ..ticket };
    Envelope::encode(other, Stamp(1), 0, 0, |out| out.extend_from_slice(&body[..4 << 20]), &mut payload);
    payload.extend(referring_to(&[ticket]));
    for _ in 0..4 {
        host.handle_referring(NodeId(1), group, Epoch(0), accept_of(&payload));
    }
    assert_eq!((host.counters.digests.held, host.counters.digests.asked_in_full), (3, 1));
    assert!(host.digests.held_bytes <= HELD_BYTES_MAX);
}

#[test]
fn what_no_correct_node_says_is_counted_and_no_more() {
    let mut cluster = digesting(LARGE);
    let group = cluster.volume();
    let host = &mut cluster.node(3).host;
    let before = host.counters.nonsense;
    let ballot = Ballot { number: 0, node: NodeId(1) };
    host.handle_referring(NodeId(1), group, Epoch(0), paxos::Message::Fetch { from: Slot(0) });
    for payload in [&[1, 2, 3][..], &[0xFF; 47], &[0, 0, 0, 0x80]] {
        host.handle_referring(NodeId(1), group, Epoch(0), accept_of(payload));
    }
    assert_eq!(host.counters.nonsense - before, 4);
    // Nothing was sent so, or to others.
    host.handle_digest(NodeId(2), DigestMessage::InFull { group, epoch: Epoch(0), ballot, slot: Slot(0) });
    host.handle_digest(NodeId(2), DigestMessage::InFull { group: GroupId(99), epoch: Epoch(0), ballot, slot: Slot(0) });
    let huge = vec![0; ENVELOPE_BYTES_MAX];
    host.handle_digest(NodeId(2), DigestMessage::Body { start: 1, number: 1, command: &huge });
    assert_eq!(host.counters.digests.sent_in_full, 0);
}
