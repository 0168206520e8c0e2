//! Schedules that need several ballots at once.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::effect::Replica;
use crate::effect::{Cx, Effect, Effects, Event, Proposal};
use crate::id::{Ballot, Configuration, Content, Epoch, GroupId, Instant, NodeId, Slot, Stamp, Value};
use crate::peers::{Peers, Timing};
use crate::quorum::QuorumSystem;

fn ms(ms: u64) -> Instant {
    Instant(10_000_000 + ms * 1000)
}

fn step(replica: &mut Paxos, me: NodeId, peers: &Peers, at: u64, event: Event<Message>) -> Effects<Paxos> {
    let (mut nonsense, mut out) = (0, Effects::default());
    let mut cx =
        Cx { me, now: ms(at), stamp: Stamp(1), random: 0, peers, wants_frontiers: true, nonsense_count: &mut nonsense };
    replica.step(&mut cx, event, &mut out);
    replica.check();
    assert_eq!(nonsense, 0);
    // What it tells itself.
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
fn a_coordinator_says_nothing_at_its_ballot_of_what_was_decided_above() {
    let nodes = [2, 1, 3, 4, 5].map(NodeId);
    let configuration = Arc::new(Configuration {
        group: GroupId(9),
        epoch: Epoch(1),
        members: nodes.into(),
        quorum: QuorumSystem::Majority,
    });
    let born = |me| Paxos::born(configuration.clone(), me, Slot(0), Stamp(0));
    let peers_of = |me: NodeId| {
        let mut peers = Peers::new(Timing::default(), Instant(1_000_000), 1);
        nodes.into_iter().filter(|&node| node != me).for_each(|node| peers.add(node, ms(0)));
        peers
    };
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
