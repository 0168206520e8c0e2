//! Registers at their limits, and what no correct peer would say.

mod harness;

use harness::linear::Outcome;
use harness::register::{World, configuration, text};
use harness::{Group, Random};
use quorate_protocol::effect::Event;
use quorate_protocol::id::{Ballot, Epoch, Instant, NodeId, Stamp};
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{
    Answer, Authority, Body, COUNTER_MAX, Choice, Content, Entry, Key, LIST_BYTES_MAX, LIST_KEYS_MAX, LISTINGS_MAX,
    Message, OPERATIONS_MAX, Outline, Pace, Reach, Register, Request, Round, Stage, Tag, Version, View,
};
use quorate_protocol::wire::{Reader, Wire};
use quorate_protocol::{Cx, Effect, Effects, Replica};

const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);
const VIEW: View = View { oldest: Epoch(1), newest: Epoch(1) };

fn run(world: &mut World) {
    world.synced_at_once = true;
    while world.deliver_next() {}
}

fn key() -> Key {
    Key(text("k"))
}

#[test]
fn so_many_operations_and_no_more() {
    let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
    let deadline = Stamp(world.stamp().0 + 1000);
    world.network.isolate(N1);
    for _ in 0..OPERATIONS_MAX {
        let token = world.next_token();
        let request = Request::Read { token, key: key(), deadline };
        step_unchecked(&mut world, request);
    }
    assert_eq!(world.node(N1).replica.as_ref().expect("born").status().operation_count, OPERATIONS_MAX);
    let token = world.read(N1, "k", deadline);
    assert_eq!(world.answers, [Answer::Overloaded { token }]);
    assert_eq!(world.calls[&token].outcome, Outcome::NotCarriedOut);
    // A listing is an operation.
    let token = world.list(N1, None, 1, deadline);
    assert_eq!(answer(&world, token), Some(&Answer::Overloaded { token }));
}

fn answer(world: &World, token: u64) -> Option<&Answer> {
    world.pages[&token].answered.as_ref().map(|(_, answer)| answer)
}

#[test]
fn so_many_listings_and_no_more() {
    let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
    let deadline = Stamp(world.stamp().0 + 1000);
    world.network.isolate(N1);
    let tokens: Vec<u64> = (0..LISTINGS_MAX).map(|_| world.list(N1, None, 1, deadline)).collect();
    assert_eq!(world.node(N1).replica.as_ref().expect("born").status().operation_count, LISTINGS_MAX);
    let refused = world.list(N1, None, 1, deadline);
    assert_eq!(answer(&world, refused), Some(&Answer::Overloaded { token: refused }));
    // Asked again while it is under way, it is not asked twice; and a read is no listing.
    let request = Request::List { token: tokens[0], after: None, count: 1, deadline };
    world.step(N1, Event::Requested(request));
    let read = world.read(N1, "k", deadline);
    assert_eq!(world.calls[&read].outcome, Outcome::Unknown);
    assert!(world.answers.is_empty(), "{:?}", world.answers);
    assert!(!world.node(N1).replica.as_ref().expect("born").is_idle());
    // Each ends by its deadline, and there is room again.
    world.now = world.now.after_us(1_000_000);
    world.attend(N1);
    assert!(tokens.iter().all(|&token| answer(&world, token) == Some(&Answer::Unknown { token })));
    assert!(world.node(N1).replica.as_ref().expect("born").is_idle());
    world.network.heal();
    let late = world.list(N1, None, 1, deadline);
    assert_eq!(answer(&world, late), Some(&Answer::Unknown { token: late }), "behind its deadline");
    let token = world.list(N1, None, 1, Stamp(world.stamp().0 + 1000));
    run(&mut world);
    assert_eq!(answer(&world, token), Some(&Answer::Listed { token, keys: Vec::new(), next: None }));
}

/// Page by page, whatever number is asked for; keys of any length, of which one fits into every page.
#[test]
fn pages_have_limits() {
    let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
    let deadline = Stamp(world.stamp().0 + 1000);
    let mut keys: Vec<String> = (0..LIST_KEYS_MAX + 10).map(|number| format!("k{number:04}")).collect();
    // Longer than a page's bytes, by itself and together with the next.
    keys.extend([LIST_BYTES_MAX + 1, LIST_BYTES_MAX / 2, LIST_BYTES_MAX / 2 + 1].map(|length| "l".repeat(length)));
    keys.sort();
    for (number, key) in keys.iter().enumerate() {
        world.write(NodeId(1 + number as u32 % 3), key, Some("v"), None, deadline);
        run(&mut world);
    }
    let mut page = |after: Option<&str>, count: usize| {
        let token = world.list(N2, after, count, deadline);
        run(&mut world);
        let Some(Answer::Listed { keys, next, .. }) = answer(&world, token).cloned() else { panic!("no page") };
        let string = |key: Key| String::from_utf8(key.0.to_vec()).expect("text");
        (keys.into_iter().map(string).collect::<Vec<_>>(), next.map(string))
    };
    assert_eq!(page(None, 0).0.len(), 1, "none is one");
    assert_eq!(page(None, usize::MAX).0.len(), LIST_KEYS_MAX);
    let (last, end) = (keys.last().expect("keys"), "m");
    assert_eq!(page(Some(last), 1), (Vec::new(), None));
    assert_eq!(page(Some(end), 1), (Vec::new(), None));
    for count in [7, LIST_KEYS_MAX - 1, LIST_KEYS_MAX, LIST_KEYS_MAX + 1] {
        let (mut listed, mut next, mut pages) = (Vec::new(), None, Vec::new());
        loop {
            let (some, following) = page(next.as_deref(), count);
            let bytes: usize = some.iter().map(String::len).sum();
            assert!(some.len() <= count && (bytes <= LIST_BYTES_MAX || some.len() == 1), "{} {bytes}", some.len());
            pages.push(some.len());
            listed.extend(some);
            next = following;
            if next.is_none() {
                break;
            }
        }
        assert!(listed == keys, "{count}: {pages:?}");
    }
    let held = |key: &str| world.node(N1).replica.as_ref().expect("up").held(&Key(text(key))).cloned();
    assert!(matches!(held("k0000").expect("written").content, Content::Value { .. }));
    assert_eq!(held("k"), None);
}

/// Without the invariants of the whole replica, which take too long for so many.
fn step_unchecked(world: &mut World, request: Request) {
    use quorate_protocol::effect::{Cx, Effects, Replica};
    let (now, stamp) = (world.now, world.stamp());
    let node = &mut world.nodes[0];
    let mut nonsense_count = 0;
    let mut cx = Cx {
        me: N1,
        now,
        stamp,
        random: 0,
        peers: &node.peers,
        wants_frontiers: true,
        proposes_late: false,
        nonsense_count: &mut nonsense_count,
    };
    let replica = node.replica.as_mut().expect("born");
    replica.step(&mut cx, Event::Requested(request), &mut Effects::default());
}

/// More keys than one page lists: all of them are moved, to members of whom none had any.
#[test]
fn versions_move_page_by_page() {
    let mut world = World::new(6, 3, QuorumSystem::Majority, 1);
    let deadline = Stamp(world.stamp().0 + 1000);
    let count = 2 * LIST_KEYS_MAX + 10;
    for number in 0..count {
        world.write(NodeId(1 + number as u32 % 3), &format!("k{number}"), Some("v"), None, deadline);
        run(&mut world);
    }
    world.decide(|stage, epoch| stage.successor(configuration(epoch, &[4, 5, 6], QuorumSystem::Majority)));
    (4..=6).for_each(|id| world.bear(NodeId(id)));
    world.know(N1);
    world.step(N1, Event::Requested(Request::Retire { token: 0 }));
    run(&mut world);
    assert_eq!(world.parent.stages.len(), 1, "retired");
    (1..=6).for_each(|id| world.know(NodeId(id)));
    for number in 0..count {
        let token = world.read(NodeId(4 + number as u32 % 3), &format!("k{number}"), deadline);
        run(&mut world);
        let outcome = &world.calls[&token].outcome;
        assert!(
            matches!(outcome, Outcome::Returned { value: Some(value), .. } if value == "v"),
            "{number}: {outcome:?}"
        );
    }
    assert_eq!(world.node(N1).replica.as_ref().expect("up").status().key_count, 0, "no member holds nothing");
}

#[test]
fn nonsense_is_counted_and_changes_nothing() {
    let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
    world.read(N1, "k", Stamp(world.stamp().0 + 1000));
    let Some(Body::Query { round, .. }) = world.network.packets.pop_front().map(|packet| packet.load.body) else {
        panic!("a query")
    };
    let tag = |counter| Tag { counter, node: N2, start: 1, operation: 1, expired: false };
    let store = |counter, renewed| {
        let version = Version { tag: tag(counter), renewed: Epoch(renewed), content: Content::Tombstone };
        Body::Store { round, key: key(), version }
    };
    let found = |counter, renewed, floor, content| {
        let (tag, renewed) = (tag(counter), Epoch(renewed));
        Body::Found { round, tag, renewed, floor, confirmed: true, content }
    };
    let entry = |key, counter| Entry { key: Key(text(key)), tag: tag(counter), outline: Outline::Tombstone };
    let unsound = Stage::first(configuration(1, &[1, 2, 2], QuorumSystem::Majority));
    let disjoint = Stage::first(configuration(1, &[1, 2], QuorumSystem::Threshold { read: 1, write: 1 }));
    let bodies = [
        store(0, 1),
        store(COUNTER_MAX + 1, 1),
        store(1, 2),
        found(0, 1, 0, Some(Content::Tombstone)),
        found(1, 2, 0, Some(Content::Tombstone)),
        found(1, 1, COUNTER_MAX + 1, Some(Content::Tombstone)),
        Body::Renew {
            round,
            versions: vec![(key(), Version { tag: tag(1), renewed: Epoch(2), content: Content::Tombstone })],
        },
        Body::Raise { round, floor: COUNTER_MAX + 1 },
        Body::Bury { round, tombstones: vec![(key(), tag(0))] },
        Body::Listed { round, entries: Vec::new(), end: false, floor: 0 },
        Body::Listed { round, entries: vec![entry("k", 0)], end: true, floor: 0 },
        Body::Listed { round, entries: vec![entry("l", 1), entry("k", 1)], end: true, floor: 0 },
        Body::Listed { round, entries: vec![entry("k", 1), entry("k", 1)], end: true, floor: 0 },
        Body::Listed { round, entries: vec![entry("a", 1)], end: true, floor: 0 },
        Body::List { round, from: key(), tombstones: false, count: 0 },
        Body::List { round, from: key(), tombstones: false, count: LIST_KEYS_MAX as u32 + 1 },
        Body::Inform { stages: Vec::new() },
        Body::Inform { stages: vec![unsound] },
        Body::Inform { stages: vec![disjoint] },
    ];
    for (count, body) in (1..).zip(bodies) {
        world.step(N1, Event::Received { from: N2, message: Message { view: VIEW, body: body.clone() } });
        assert_eq!(world.nonsense_count, count, "{body:?}");
    }
    let message = Message { view: VIEW, body: found(1, 1, 0, Some(Content::Tombstone)) };
    world.step(N1, Event::Received { from: NodeId(9), message });
    assert_eq!(world.nonsense_count, 20, "an answer of somebody else");
    assert_eq!(world.node(N1).replica.as_ref().expect("up").status().key_count, 0);
    assert!(world.answers.is_empty());
}

/// Whatever a peer says, no assertion is reached, which is for this replica's own mistakes.
#[test]
fn noise_breaks_nothing() {
    let mut random = Random::new(7);
    let mut heard = 0;
    for _ in 0..300 {
        let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
        if random.chance(50) {
            world.set_authority(Authority::Members(Reach::Twofold));
            let request = Request::Reconfigure { token: 9, members: vec![N1, N2], quorum: QuorumSystem::Majority };
            world.step(N1, Event::Requested(request));
        }
        world.read(N1, "k", Stamp(world.stamp().0 + 1000));
        world.write(N1, "k", Some("v"), None, Stamp(world.stamp().0 + 1000));
        world.list(N1, None, 3, Stamp(world.stamp().0 + 1000));
        world.step(N1, Event::Requested(Request::Forget { token: 0, after: None }));
        for _ in 0..200 {
            let length = random.below(70);
            let noise = |random: &mut Random| if random.chance(60) { random.below(3) } else { random.bits() } as u8;
            let mut bytes: Vec<u8> = (0..length).map(|_| noise(&mut random)).collect();
            if let Some(kind) = bytes.first_mut() {
                *kind = 1 + random.below(28) as u8;
            }
            if let Ok(body) = Body::decode(&mut Reader::new(&bytes)) {
                heard += 1;
                world.step(N1, Event::Received { from: N2, message: Message { view: VIEW, body } });
            }
        }
        world.now = world.now.after_us(2_000_000);
        world.attend(N1);
    }
    assert!(heard > 1000, "{heard} messages decoded");
}

fn choice(number: u32, epoch: u32, members: &[u32]) -> Choice {
    let configuration = configuration(epoch, members, QuorumSystem::Majority);
    Choice { ballot: Ballot { number, node: N2 }, configuration, fence: Epoch(0) }
}

/// What is said of a successor where a parent decides, of any but the next one, by others than the candidate, or unsoundly.
#[test]
fn campaigns_that_no_correct_member_would_lead() {
    let propose = |choice| Body::Propose { choice, audience: 0 };
    let (own, other) = (Ballot { number: 1, node: N1 }, Ballot { number: 1, node: NodeId(3) });
    let bodies = [
        propose(choice(1, 3, &[1, 2])),
        propose(choice(1, 2, &[1, 1])),
        propose(choice(1, 2, &[])),
        propose(choice(0, 2, &[1, 2])),
        propose(choice(u32::MAX, 2, &[1, 2])),
        Body::Vote { choice: choice(1, 1, &[1, 2]) },
        Body::Prepare { ballot: other },
        Body::Promise { ballot: other, voted: None },
        Body::Promise { ballot: own, voted: Some(choice(1, 4, &[1, 2])) },
        Body::Abstain { ballot: own, promised: Ballot { number: u32::MAX, node: N2 } },
    ];
    let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
    world.set_authority(Authority::Members(Reach::Preferred));
    for (count, body) in (1..).zip(bodies) {
        world.step(N1, Event::Received { from: N2, message: Message { view: VIEW, body: body.clone() } });
        assert_eq!(world.nonsense_count, count, "{body:?}");
    }
    let seal = Message { view: VIEW, body: Body::Seal { round: Round { start: 1, number: 1 } } };
    world.step(N1, Event::Received { from: N2, message: seal });
    assert_eq!(world.nonsense_count, 11, "nobody is there to take over what a seal leaves");
    let sound = || Message { view: VIEW, body: propose(choice(1, 2, &[1, 2])) };
    world.step(N1, Event::Received { from: N2, message: sound() });
    assert_eq!(world.nonsense_count, 11, "a sound proposal");
    let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
    world.step(N1, Event::Received { from: N2, message: sound() });
    assert_eq!(world.nonsense_count, 1, "where a parent decides");
}

#[test]
fn one_reconfiguration_at_a_time_and_only_a_sound_one() {
    let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
    world.set_authority(Authority::Members(Reach::Preferred));
    let ask = |world: &mut World, token, members: &[u32], quorum| {
        let (now, stamp) = (world.now, world.stamp());
        let members = members.iter().copied().map(NodeId).collect();
        let request = Event::Requested(Request::Reconfigure { token, members, quorum });
        let node = &mut world.nodes[0];
        let (mut out, mut nonsense_count) = (quorate_protocol::Effects::default(), 0);
        let nonsense_count = &mut nonsense_count;
        let mut cx = quorate_protocol::Cx {
            me: N1,
            now,
            stamp,
            random: 0,
            peers: &node.peers,
            wants_frontiers: true,
            proposes_late: false,
            nonsense_count,
        };
        quorate_protocol::Replica::step(node.replica.as_mut().expect("born"), &mut cx, request, &mut out);
        out.list.into_iter().find_map(|effect| match effect {
            quorate_protocol::Effect::Answered(answer) => Some(answer),
            _ => None,
        })
    };
    let threshold = QuorumSystem::Threshold { read: 1, write: 1 };
    assert_eq!(ask(&mut world, 1, &[1, 2], threshold), Some(Answer::Unsound { token: 1 }));
    assert_eq!(ask(&mut world, 2, &[], QuorumSystem::Majority), Some(Answer::Unsound { token: 2 }));
    assert_eq!(ask(&mut world, 3, &[2, 2], QuorumSystem::Majority), Some(Answer::Unsound { token: 3 }));
    let epoch = Epoch(1);
    let same = ask(&mut world, 4, &[1, 2, 3], QuorumSystem::Majority);
    assert_eq!(same, Some(Answer::Reconfigured { token: 4, epoch }), "it is so already");
    assert_eq!(ask(&mut world, 5, &[1, 2], QuorumSystem::Majority), None);
    assert_eq!(ask(&mut world, 6, &[1, 3], QuorumSystem::Majority), Some(Answer::Overloaded { token: 6 }));
    world.set_authority(Authority::Parent);
    assert_eq!(ask(&mut world, 7, &[1, 2], QuorumSystem::Majority), Some(Answer::Unsound { token: 7 }));
}

/// Members under load are slow, and each question that comes again makes them slower. One that was lost comes again in time.
#[test]
fn members_that_do_not_answer_are_asked_again_ever_more_rarely() {
    let mut world = World::new(3, 3, QuorumSystem::Threshold { read: 3, write: 3 }, 1);
    world.synced_at_once = true;
    let deadline = Stamp(world.stamp().0 + 1000);
    let token = world.write(N1, "k", Some("v"), None, deadline);
    let mut asked_at_ms = Vec::new();
    for ms in 0..1000 {
        if world.network.packets.drain(..).any(|packet| packet.to == N2) {
            asked_at_ms.push(ms);
        }
        world.now = world.now.after_us(1_000);
        world.exchange_heartbeats();
        world.attend(N1);
    }
    assert_eq!(asked_at_ms, [0, 5, 55, 155, 355, 555, 755, 955]);
    assert_eq!(world.calls[&token].outcome, Outcome::Unknown);
    assert!(world.answers.contains(&Answer::Unknown { token }), "{:?}", world.answers);
}

/// Under load a change of the view meets very many messages of the old one. To answer each of them, and to send all again for
/// each answer, would bring up more messages than there were.
#[test]
fn one_word_is_enough_for_many_messages_of_an_old_view() {
    let mut world = World::new(3, 3, QuorumSystem::Majority, 1);
    world.synced_at_once = true;
    let deadline = Stamp(world.stamp().0 + 1000);
    for number in 0..100 {
        world.read(N2, &format!("k{number}"), deadline);
    }
    world.decide(|stage, epoch| stage.successor(configuration(epoch, &[1, 2, 3], QuorumSystem::square(3))));
    (1..=3).map(NodeId).filter(|&id| id != N2).for_each(|id| world.know(id));
    let mut delivered = 0;
    while world.deliver_next() {
        delivered += 1;
    }
    assert_eq!(world.answers.len(), 100);
    // Each read asks one other member, or two; once in the old view and once in the new one, and is answered in the latter.
    assert!(delivered < 700, "{delivered} messages");
    // What was lost is said again after a while.
    let stale = |world: &mut World| {
        let body = Body::Behind {};
        world.step(N1, Event::Received { from: N2, message: Message { view: VIEW, body } });
        world.network.packets.drain(..).count()
    };
    world.now = world.now.after_us(1_000_000);
    assert_eq!((stale(&mut world), stale(&mut world)), (1, 0));
    world.now = world.now.after_us(1_000_000);
    assert_eq!(stale(&mut world), 1);
}

#[test]
fn a_replica_that_is_born_again_in_one_start_of_its_node_takes_no_tag_twice() {
    // Alone in its group: as it was born, and as it is born again after it was given up.
    let first_tag = |first: u64| {
        let stage = Stage::first(configuration(1, &[1], QuorumSystem::Majority));
        let mut replica = Register::new(vec![stage], N1, 7, Pace { widen_us: 1_000, retry_us: 10_000 });
        replica.number_from(first);
        let (mut nonsense_count, peers) = (0, Peers::new(Timing::default(), Instant(1), 7));
        let content = Content::Value { bytes: text("v"), expires: None };
        let write = Request::Write { token: 1, key: key(), content, deadline: Stamp(1_000) };
        let mut events = vec![Event::Requested(write)];
        while let Some(event) = events.pop() {
            let nonsense_count = &mut nonsense_count;
            let mut cx = Cx {
                me: N1,
                now: Instant(1),
                stamp: Stamp(1),
                random: 0,
                peers: &peers,
                wants_frontiers: true,
                proposes_late: false,
                nonsense_count,
            };
            let mut effects = Effects::default();
            replica.step(&mut cx, event, &mut effects);
            for effect in effects.list {
                if let Effect::Send { message, .. } = effect {
                    events.push(Event::Received { from: N1, message });
                }
            }
        }
        replica.held(&key()).expect("written").tag
    };
    assert_ne!(first_tag(0), first_tag(1 << 40));
}
