//! Schedules that need several ballots at once.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::effect::{Cx, Effect, Effects, Event, Proposal, Replica};
use crate::id::{Ballot, Configuration, Content, Epoch, GroupId, Instant, NodeId, Slot, Stamp, Value};
use crate::peers::{self, Peers, Timing};
use crate::quorum::QuorumSystem;

/// Forgets what it said; the others do not.
const F: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const A: NodeId = NodeId(3);
const THREE: [NodeId; 3] = [F, B, A];

fn ms(ms: u64) -> Instant {
    Instant(10_000_000 + ms * 1000)
}

fn born(me: NodeId, members: &[NodeId]) -> Paxos {
    let (group, epoch, quorum) = (GroupId(9), Epoch(1), QuorumSystem::Majority);
    let configuration = Configuration { group, epoch, members: members.into(), quorum };
    Paxos::born(Arc::new(configuration), me, Slot(0), Stamp(0))
}

fn peers_of(me: NodeId, members: &[NodeId], start: u32) -> Peers {
    let mut peers = Peers::new(Timing::default(), Instant(1_000_000), start);
    members.iter().filter(|&&node| node != me).for_each(|&node| peers.add(node, ms(0)));
    peers
}

/// With all that the replica tells itself.
fn step(replica: &mut Paxos, me: NodeId, peers: &Peers, at: u64, event: Event<Message>) -> Effects<Paxos> {
    let (mut nonsense, mut out) = (0, Effects::default());
    let mut cx = Cx {
        me,
        now: ms(at),
        stamp: Stamp(1),
        random: 0,
        peers,
        wants_frontiers: true,
        proposes_late: false,
        nonsense_count: &mut nonsense,
    };
    replica.step(&mut cx, event, &mut out);
    replica.check();
    assert_eq!(nonsense, 0);
    let own: Vec<Message> = out
        .list
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { to, message, .. } if *to == me => Some(message.clone()),
            _ => None,
        })
        .collect();
    for message in own {
        let mut more = step(replica, me, peers, at, Event::Received { from: me, message });
        out.list.append(&mut more.list);
    }
    out
}

fn sent(out: &Effects<Paxos>, node: NodeId, is: impl Fn(&Message) -> bool) -> Message {
    let found = out.list.iter().find_map(|effect| match effect {
        Effect::Send { to, message, .. } if *to == node && is(message) => Some(message.clone()),
        _ => None,
    });
    found.expect("it is sent")
}

fn heard(from: NodeId, message: Message) -> Event<Message> {
    Event::Received { from, message }
}

#[test]
fn a_lease_does_not_rest_on_the_grant_of_a_forgotten_promise() {
    let born = |me| born(me, &THREE);
    let (mut f0, mut b, mut a) = (born(F), born(B), born(A));
    let of = |me, start| peers_of(me, &THREE, start);
    let (mut pf, mut pb, mut pa) = (of(F, 1), of(B, 1), of(A, 1));
    // F coordinates from birth, decides slot 0 with A and tells it; B hears nothing of that.
    let payload = |byte: u8| crate::id::Payload::from(&[byte][..]);
    let out = step(&mut f0, F, &pf, 0, Event::Proposed(Proposal::Commands(payload(b'o'))));
    let accept = sent(&out, A, |message| matches!(message, Message::Accept { .. }));
    let Message::Accept { value: old, .. } = accept.clone() else { panic!() };
    let out = step(&mut a, A, &pa, 1, heard(F, accept));
    let vote = sent(&out, F, |message| matches!(message, Message::Accepted { .. }));
    step(&mut f0, F, &pf, 2, heard(A, vote));
    let out = step(&mut f0, F, &pf, 20, Event::Woken);
    step(&mut a, A, &pa, 21, heard(F, sent(&out, A, |message| matches!(message, Message::Decide { .. }))));
    assert_eq!((f0.next_slot(), a.next_slot(), b.next_slot()), (Slot(1), Slot(1), Slot(0)));
    // It hands over to B, who has asked for a grant.
    let Some(peers::Message::Grant { sent_at, number }) = pf.handle_heartbeat(B, ms(498), ms(499)) else { panic!() };
    pb.handle_grant(F, sent_at, number);
    pb.heard(F, ms(499));
    let out = step(&mut f0, F, &pf, 500, Event::Proposed(Proposal::HandOver { to: B }));
    let out = step(&mut b, B, &pb, 501, heard(F, sent(&out, B, |message| matches!(message, Message::HandOver { .. }))));
    let out = step(&mut f0, F, &pf, 502, heard(B, sent(&out, F, |message| matches!(message, Message::Prepare { .. }))));
    let promise = sent(&out, B, |message| matches!(message, Message::Promise { .. }));
    let out = step(&mut b, B, &pb, 503, heard(F, promise));
    sent(&out, F, |message| matches!(message, Message::Fetch { .. }));
    // F dies. It says first that it is silent; A has not heard B since long ago.
    drop((f0, pf));
    let mut f = born(F);
    f.restored();
    let mut pf = Peers::new(Timing::default(), ms(505), 2);
    [B, A].into_iter().for_each(|node| pf.add(node, ms(505)));
    pf.heard(B, ms(505));
    pa.suspect(ms(505));
    pa.heard(F, ms(505));
    let prepares = step(&mut a, A, &pa, 506, Event::Silenced(F));
    let prepare = sent(&prepares, F, |message| matches!(message, Message::Prepare { .. }));
    // Both testify, F learns slot 0, and is taken in again.
    let testimonies = [b.testify(F, ms(507)), a.testify(F, ms(507))];
    step(&mut f, F, &pf, 508, heard(A, Message::Learn { slots: [(Slot(0), old.clone())].into(), next_slot: Slot(1) }));
    f.readmit(testimonies);
    // A is elected and writes.
    let out = step(&mut f, F, &pf, 610, heard(A, prepare));
    let promise = sent(&out, A, |message| matches!(message, Message::Promise { .. }));
    step(&mut a, A, &pa, 611, heard(F, promise));
    let out = step(&mut a, A, &pa, 612, Event::Proposed(Proposal::Commands(payload(b'n'))));
    let accept = sent(&out, F, |message| matches!(message, Message::Accept { .. }));
    let out = step(&mut f, F, &pf, 613, heard(A, accept));
    let vote = sent(&out, A, |message| matches!(message, Message::Accepted { .. }));
    let out = step(&mut a, A, &pa, 614, heard(F, vote));
    let is_new = |effect: &Effect<Paxos>| matches!(effect, Effect::Decided { slot: Slot(1), value: Value { content: Content::Commands(bytes), .. }, .. } if bytes[..] == [b'n']);
    assert!(out.list.iter().any(is_new), "it is executed, and its client is told");
    // F answers what B has fetched.
    step(&mut b, B, &pb, 616, heard(F, Message::Learn { slots: [(Slot(0), old)].into(), next_slot: Slot(1) }));
    assert!(!b.is_readable(ms(617), &pb), "B reads without the new value");
}

#[test]
fn a_candidate_does_not_wait_for_what_was_forgotten() {
    let born = |me| born(me, &THREE);
    let (mut f0, mut b, mut a) = (born(F), born(B), born(A));
    let of = |me, start| peers_of(me, &THREE, start);
    let (pf, pb, pa) = (of(F, 1), of(B, 1), of(A, 1));
    let payload = |byte: u8| crate::id::Payload::from(&[byte][..]);
    // F decides slot 0 with A and tells its client, nobody else.
    let out = step(&mut f0, F, &pf, 0, Event::Proposed(Proposal::Commands(payload(b'o'))));
    let accept = sent(&out, A, |message| matches!(message, Message::Accept { .. }));
    let out = step(&mut a, A, &pa, 1, heard(F, accept));
    let vote = sent(&out, F, |message| matches!(message, Message::Accepted { .. }));
    step(&mut f0, F, &pf, 2, heard(A, vote));
    let out = step(&mut f0, F, &pf, 3, Event::Proposed(Proposal::HandOver { to: B }));
    let prepares =
        step(&mut b, B, &pb, 4, heard(F, sent(&out, B, |message| matches!(message, Message::HandOver { .. }))));
    let out =
        step(&mut f0, F, &pf, 5, heard(B, sent(&prepares, F, |message| matches!(message, Message::Prepare { .. }))));
    let promise = sent(&out, B, |message| matches!(message, Message::Promise { .. }));
    step(&mut b, B, &pb, 6, heard(F, promise));
    let out =
        step(&mut a, A, &pa, 7, heard(B, sent(&prepares, A, |message| matches!(message, Message::Prepare { .. }))));
    let promise = sent(&out, B, |message| matches!(message, Message::Promise { .. }));
    step(&mut b, B, &pb, 8, heard(A, promise));
    drop((f0, pf));
    let mut f = born(F);
    f.restored();
    let pf = of(F, 2);
    f.readmit([b.testify(F, ms(9)), a.testify(F, ms(9))]);
    let mut at = 110;
    // All are there and every message arrives.
    let mut under_way =
        step(&mut f, F, &pf, at, Event::Woken).list.into_iter().map(|effect| (F, effect)).collect::<Vec<_>>();
    while at < 10_000 && !b.is_coordinating() {
        at += 10;
        for (from, effect) in core::mem::take(&mut under_way) {
            let Effect::Send { to, message, .. } = effect else { continue };
            if to == from {
                continue;
            }
            let (replica, peers) = match to {
                F => (&mut f, &pf),
                B => (&mut b, &pb),
                _ => (&mut a, &pa),
            };
            let out = step(replica, to, peers, at, heard(from, message));
            under_way.extend(out.list.into_iter().map(|effect| (to, effect)));
        }
        for (me, replica, peers) in [(F, &mut f, &pf), (B, &mut b, &pb), (A, &mut a, &pa)] {
            if replica.wake_at().is_some_and(|wake| wake <= ms(at)) {
                let out = step(replica, me, peers, at, Event::Woken);
                under_way.extend(out.list.into_iter().map(|effect| (me, effect)));
            }
        }
    }
    assert!(at < 1_000, "nobody coordinates for {at} ms: {:?}", [f.status(), b.status(), a.status()]);
}

#[test]
fn a_coordinator_says_nothing_at_its_ballot_of_what_was_decided_above() {
    let nodes = [2, 1, 3, 4, 5].map(NodeId);
    let born = |me| born(me, &nodes);
    let peers_of = |me| peers_of(me, &nodes, 1);
    let [n2, n1, n3, n4, n5] = nodes;
    let (mut one, mut five) = (born(n1), born(n5));
    let (p1, p5) = (peers_of(n1), peers_of(n5));
    let value = |byte: u8| Value {
        stamp: Stamp(1),
        seed: 0,
        content: Content::Commands(crate::id::Payload::from(&[byte][..])),
    };
    // Node 2 coordinated at b0.2, decided slot 0, which 3 has executed, and hands over to 1.
    let released = Ballot { number: 0, node: n2 };
    step(&mut one, n1, &p1, 0, heard(n2, Message::HandOver { ballot: released, next_slot: Slot(1) }));
    let ballot = Ballot { number: 1, node: n1 };
    step(
        &mut one,
        n1,
        &p1,
        1,
        heard(n4, Message::Promise { ballot, next_slot: Slot(0), grant: 0, accepted: Vec::new() }),
    );
    let out = step(
        &mut one,
        n1,
        &p1,
        2,
        heard(n3, Message::Promise { ballot, next_slot: Slot(1), grant: 0, accepted: Vec::new() }),
    );
    sent(&out, n3, |message| matches!(message, Message::Fetch { .. }));
    let out = step(&mut one, n1, &p1, 300, Event::Woken);
    sent(&out, n3, |message| matches!(message, Message::Fetch { .. }));
    // The first is answered; the second one is late.
    let learn = |slots: &[(u64, u8)]| {
        let slots: Vec<(Slot, Value)> = slots.iter().map(|&(slot, byte)| (Slot(slot), value(byte))).collect();
        Message::Learn { next_slot: Slot(slots.len() as u64), slots }
    };
    step(&mut one, n1, &p1, 301, heard(n3, learn(&[(0, b'o')])));
    assert!(one.is_coordinating());
    // Only 5 hears of what 1 proposes.
    let out = step(&mut one, n1, &p1, 302, Event::Proposed(Proposal::Commands(crate::id::Payload::from(&b"x"[..]))));
    step(&mut five, n5, &p5, 303, heard(n1, sent(&out, n5, |message| matches!(message, Message::Accept { .. }))));
    step(&mut five, n5, &p5, 304, heard(n1, learn(&[(0, b'o')])));
    // 3 is elected at b2.3 by 2 and 4, which have accepted nothing in slot 1, and decides 'y' there. Then it answers the second.
    let out = step(&mut one, n1, &p1, 900, heard(n3, learn(&[(0, b'o'), (1, b'y')])));
    let mut of_one: Vec<Value> = Vec::new();
    let executed = |out: &Effects<Paxos>, into: &mut Vec<Value>| {
        out.list.iter().for_each(|effect| {
            if let Effect::Decided { slot: Slot(1), value, .. } = effect {
                into.push(value.clone())
            }
        });
    };
    executed(&out, &mut of_one);
    let out = step(&mut one, n1, &p1, 920, Event::Woken);
    let told = out.list.iter().find_map(|effect| match effect {
        Effect::Send { to, message, .. } if *to == n5 => Some(message.clone()),
        _ => None,
    });
    let mut of_five: Vec<Value> = Vec::new();
    if let Some(told) = told {
        let out = step(&mut five, n5, &p5, 921, heard(n1, told));
        executed(&out, &mut of_five);
    }
    assert!(of_five.is_empty() || of_five == of_one, "slot 1: {of_one:?} at 1, {of_five:?} at 5");
}
