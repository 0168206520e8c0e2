//! What every `Replica` must be: deterministic, tolerant of repeated and stale messages, restorable from any prefix of its
//! records. The checks are generic; a protocol adds how its replicas are made and a history for them to live through.

mod harness;

use harness::chain::{Load, World};
use harness::{Cluster, Group, Random, Recorded, recover};
use quorate_protocol::chain::Chain;
use quorate_protocol::effect::{Cx, Effect, Effects, Event, Proposal, ReadMode, Replica};
use quorate_protocol::id::{Instant, NodeId, Slot, Stamp};
use quorate_protocol::paxos::Paxos;
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{Authority, Reach, Register, Request};

/// A step to be taken: the world as it was, and what happened.
struct Step<R: Replica> {
    now: Instant,
    stamp: Stamp,
    random: u64,
    peers: Peers,
    event: Event<R::Message, R::Request>,
}

fn take<R: Replica>(replica: &mut R, me: NodeId, step: &Step<R>) -> Vec<Effect<R>> {
    let mut out = Effects::default();
    let mut nonsense_count = 0;
    let Step { now, stamp, random, ref peers, ref event } = *step;
    let mut cx = Cx {
        me,
        now,
        stamp,
        random,
        peers,
        wants_frontiers: true,
        proposes_late: false,
        nonsense_count: &mut nonsense_count,
    };
    replica.step(&mut cx, event.clone(), &mut out);
    replica.check();
    out.list
}

/// Two replicas that live through the same do the same.
fn assert_deterministic<R: Replica>(make: impl Fn() -> R, me: NodeId, steps: &[Step<R>]) {
    let (mut one, mut other) = (make(), make());
    for step in steps {
        let (said, repeated) = (take(&mut one, me, step), take(&mut other, me, step));
        assert_eq!(format!("{said:?}"), format!("{repeated:?}"), "{me} at {:?}", step.event);
    }
}

/// Messages that come twice, and all of them once more at the end, break nothing: what is decided is decided once, in order.
fn assert_tolerant<R: Replica>(make: impl Fn() -> R, me: NodeId, steps: &[Step<R>]) {
    let mut replica = make();
    let mut expected = Slot(0);
    let mut follow = |effects: Vec<Effect<R>>| {
        for effect in effects {
            if let Effect::Decided { slot, .. } = effect {
                assert_eq!(slot, expected, "{me} decides out of order");
                expected = slot.next();
            }
        }
    };
    for step in steps {
        follow(take(&mut replica, me, step));
        if let Event::Received { .. } = step.event {
            follow(take(&mut replica, me, step));
        }
    }
    let last = steps.last().expect("a history");
    for step in steps.iter().filter(|step| matches!(step.event, Event::Received { .. })) {
        let Step { now, stamp, random, ref peers, .. } = *last;
        let stale = Step { now, stamp, random, peers: peers.clone(), event: step.event.clone() };
        follow(take(&mut replica, me, &stale));
    }
}

/// Whatever prefix of the records was written, a replica comes of it that works.
fn assert_restorable<R: Replica>(count: usize, restore: impl Fn(usize) -> R, me: NodeId, last: &Step<R>) {
    for length in 0..=count {
        let mut replica = restore(length);
        replica.check();
        take(&mut replica, me, last);
    }
}

/// A history of three members with crashes of none: replicas as they were born can live through it again.
fn history(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(3, QuorumSystem::Majority, seed);
    cluster.events = Some(Vec::new());
    let mut random = Random::new(seed);
    for turn in 0..400_u64 {
        cluster.now = cluster.now.after_us(random.below(20_000));
        let node = NodeId(1 + random.below(3) as u32);
        match random.below(10) {
            0 => cluster.heartbeat(node),
            1 => cluster.sync(node),
            2 => cluster.propose(node, Proposal::Commands(format!("c{turn}").into_bytes().into())),
            3 => cluster.propose(node, Proposal::Read { token: turn, mode: ReadMode::Lease }),
            4 => cluster.attend(node),
            5 if random.chance(10) => cluster.propose(node, Proposal::HandOver { to: NodeId(2) }),
            _ => drop(cluster.deliver_next()),
        }
    }
    cluster
}

fn steps_of(cluster: &Cluster, id: NodeId) -> Vec<Step<Paxos>> {
    let recorded = cluster.events.as_ref().expect("recorded").iter().filter(|recorded| recorded.node == id);
    let step = |recorded: &Recorded| {
        let Recorded { now, stamp, random, ref peers, ref event, .. } = *recorded;
        Step { now, stamp, random, peers: peers.clone(), event: event.clone() }
    };
    recorded.map(step).collect()
}

#[test]
fn paxos_conforms() {
    let mut decided = 0;
    for seed in 1..=100 {
        let cluster = history(seed);
        decided += cluster.agreement.chosen.len();
        for node in &cluster.nodes {
            let steps = steps_of(&cluster, node.id);
            let Some(last) = steps.last() else { continue };
            let born = || Paxos::new(cluster.configuration.clone(), node.id);
            assert_deterministic(born, node.id, &steps);
            assert_tolerant(born, node.id, &steps);
            let restore = |count| recover(&cluster.configuration, node.id, &node.disk, count).0;
            assert_restorable(node.disk.log.len(), restore, node.id, last);
        }
    }
    assert!(decided > 100, "{decided} slots decided: the histories are too quiet");
}

/// A history of a chain of three and one that joins.
fn history_of_chain(seed: u64) -> World {
    let mut world = World::new(4, 3, seed);
    world.events = Some(Vec::new());
    let mut random = Random::new(seed);
    for turn in 0..600_u64 {
        world.now = world.now.after_us(random.below(20_000));
        let node = NodeId(1 + random.below(4) as u32);
        match random.below(10) {
            0 | 1 => world.sync(node),
            2 => world.propose(NodeId(1), Proposal::Commands(format!("c{turn}").into_bytes().into())),
            3 => world.propose(node, Proposal::Read { token: turn, mode: ReadMode::Lease }),
            4 => world.attend(node),
            5 if turn > 200 && world.parent.changes == 0 => {
                world.parent.join(NodeId(4));
                let membership = world.parent.membership.clone();
                world.tell(NodeId(3), membership.clone());
                world.tell(NodeId(4), membership);
            }
            _ => {
                if let Some(packet) =
                    world.network.packets.pop_front().filter(|packet| !matches!(packet.load, Load::Told(_)))
                {
                    world.deliver(packet);
                }
            }
        }
    }
    world
}

#[test]
fn chain_conforms() {
    let mut decided = 0;
    for seed in 1..=100 {
        let world = history_of_chain(seed);
        decided += world.checks.agreement.chosen.len();
        let events = world.events.as_ref().expect("recorded");
        for node in &world.nodes {
            let own = events.iter().filter(|recorded| recorded.node == node.id);
            let peers = || Peers::new(Timing::default(), Instant(0), 1);
            let steps: Vec<_> = own
                .map(|recorded| {
                    let harness::chain::Recorded { now, stamp, random, ref event, .. } = *recorded;
                    Step { now, stamp, random, peers: peers(), event: event.clone() }
                })
                .collect();
            let (Some(last), Some(birth)) = (steps.last(), &node.born) else { continue };
            let born = || Chain::new(birth.clone(), node.id);
            assert_deterministic(born, node.id, &steps);
            assert_tolerant(born, node.id, &steps);
            let restore = |count| harness::chain::recover(birth, node.id, &node.disk, count).0;
            assert_restorable(node.disk.log.len(), restore, node.id, last);
        }
    }
    assert!(decided > 100, "{decided} slots decided: the histories are too quiet");
}

/// A history of three members of a register group, and of one that takes a place.
fn history_of_registers(seed: u64, authority: Authority) -> harness::register::World {
    let mut world = harness::register::World::new(4, 3, QuorumSystem::Majority, seed);
    world.set_authority(authority);
    world.events = Some(Vec::new());
    let mut random = Random::new(seed);
    for turn in 0..800_u64 {
        world.now = world.now.after_us(random.below(5_000));
        let node = NodeId(1 + random.below(4) as u32);
        let deadline = Stamp(world.stamp().0 + random.below(500));
        match random.below(12) {
            0 | 1 => world.sync(node),
            2 if world.is_up(node) => drop(world.read(node, "k", deadline)),
            3 if world.is_up(node) => drop(world.write(node, "k", Some(&format!("v{turn}")), None, deadline)),
            4 if world.is_up(node) => drop(world.write(node, "k", None, None, deadline)),
            5 => world.attend(node),
            6 if authority != Authority::Parent => {
                let members = [&[1, 2, 3][..], &[1, 2, 4], &[2, 4]][random.below(3) as usize];
                let (members, token) = (members.iter().copied().map(NodeId).collect(), world.next_token());
                let quorum = QuorumSystem::Majority;
                world.step(node, Event::Requested(Request::Reconfigure { token, members, quorum }));
            }
            6 if turn > 200 && world.parent.stages.len() == 1 => {
                let members = [&[1, 2, 3][..], &[1, 2, 4], &[2, 4]][random.below(3) as usize];
                let next =
                    |epoch| harness::register::configuration(epoch, members, QuorumSystem::square(members.len()));
                world.decide(|stage, epoch| stage.successor(next(epoch)));
                world.bear(NodeId(4));
                world.know(node);
            }
            7 => {
                let token = world.next_token();
                let request = if turn > 700 { Request::Seal { token } } else { Request::Retire { token } };
                world.step(node, Event::Requested(request));
            }
            _ => drop(world.deliver_next()),
        }
    }
    world
}

#[test]
fn register_conforms() {
    let mut answered = 0;
    let authorities = [Authority::Parent, Authority::Members(Reach::Preferred), Authority::Members(Reach::Twofold)]
        .into_iter()
        .cycle();
    for (seed, authority) in (1..=100).zip(authorities) {
        let world = history_of_registers(seed, authority);
        answered += world.answers.len();
        let events = world.events.as_ref().expect("recorded");
        for node in &world.nodes {
            let Some(stages) = &node.born else { continue };
            let own = events.iter().filter(|recorded| recorded.node == node.id);
            let steps: Vec<Step<Register>> = own
                .map(|recorded| {
                    let harness::register::Recorded { now, stamp, ref peers, ref event, .. } = *recorded;
                    Step { now, stamp, random: 0, peers: peers.clone(), event: event.clone() }
                })
                .collect();
            let Some(last) = steps.last() else { continue };
            let born = || Register::new(stages.clone(), node.id, 1, harness::register::PACE).decided_by(authority);
            assert_deterministic(born, node.id, &steps);
            assert_tolerant(born, node.id, &steps);
            let restore = |count| harness::register::recover(stages, node.id, 2, &node.disk, count, authority);
            assert_restorable(node.disk.len(), restore, node.id, last);
        }
    }
    assert!(answered > 1000, "{answered} answers: the histories are too quiet");
}
