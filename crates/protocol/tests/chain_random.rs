//! Thousands of short runs of a chain under loss, repetition, reordering, very late messages, crashes that keep any part of
//! what was not synced, drifting clocks, partitions from each other and from the parent, and a parent that removes and
//! extends all the while. The harness checks what must hold as it goes; then everything is healed, and the chain must
//! come to life again.

mod harness;

use std::sync::Arc;

use harness::chain::{Load, PARENT, Packet, World};
use harness::network::Roughness;
use harness::runs::runs;
use harness::{Group, Random};
use quorate_protocol::chain::Place;
use quorate_protocol::effect::{Proposal, ReadMode};
use quorate_protocol::id::{NodeId, Payload};

/// How rough a run is, in percent of what is done.
struct Weather {
    network: Roughness,
    crash: u64,
    stop: u64,
    change: u64,
    /// The parent's own word reaches a node of the chain only if it cannot hear it from another.
    parent_is_shy: bool,
}

struct Run {
    world: World,
    random: Random,
    weather: Weather,
    command_count: u64,
    token: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random::new(seed ^ 0xc4a1);
        let (count, members) = match random.below(8) {
            0 => (1, 1),
            1 => (2, 1),
            2 => (3, 2),
            3 => (5, 4),
            4 => (4, 3),
            _ => (3, 3),
        };
        let weather = Weather {
            network: Roughness {
                loss: random.below(4) * 4,
                repetition: random.below(4) * 5,
                reordering: random.below(3) * 30,
                lateness: Some(random.below(3) * 3),
            },
            crash: random.below(3),
            stop: u64::from(random.below(10) == 0),
            change: random.below(4),
            parent_is_shy: random.below(3) == 0,
        };
        let mut world = World::new(count, members, seed);
        world.learned_max = if random.chance(50) { 3 } else { usize::MAX };
        for node in &mut world.nodes {
            node.drift_ppm = random.below(1001) as i64 - 500;
        }
        Run { world, random, weather, command_count: 0, token: 0 }
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(1 + self.random.below(self.world.nodes.len() as u64) as u32)
    }

    fn command(&mut self) -> Payload {
        self.command_count += 1;
        Arc::from(format!("c{}", self.command_count).as_bytes())
    }

    /// Where the host would send a client: mostly to whom it believes to be the head, or the tail.
    fn believed(&mut self, head: bool) -> NodeId {
        let node = self.any_node();
        match self.world.replica(node) {
            Some(replica) if self.random.chance(80) => {
                if head {
                    replica.membership().head()
                } else {
                    replica.membership().tail()
                }
            }
            _ => node,
        }
    }

    fn act(&mut self) {
        match self.random.below(100) {
            0..=44 => self.deliver_some(),
            45..=59 => {
                let node = self.any_node();
                self.world.sync(node);
            }
            60..=69 => {
                let node = self.believed(true);
                let proposal = if self.random.chance(5) { Proposal::Mark } else { Proposal::Commands(self.command()) };
                self.world.propose(node, proposal);
            }
            70..=77 => self.pass_time(),
            78..=82 => self.read(),
            83..=87 => {
                let node = self.any_node();
                self.world.read_clean(node);
            }
            88..=91 if self.random.chance(self.weather.crash * 30) => self.crash_or_restart(),
            92 => {
                let node = self.any_node();
                match self.random.chance(50) {
                    true => self.world.checkpoint(node),
                    false => self.world.rest_and_wake(node),
                }
            }
            93 if self.random.chance(self.weather.stop * 20) => {
                let (node, command) = (self.believed(true), self.command());
                self.world.propose(node, Proposal::Stop(command));
            }
            94..=97 if self.random.chance(self.weather.change * 30) => self.change(),
            98 => self.world.network.release(),
            99 => self.turn_links(),
            _ => self.deliver_some(),
        }
    }

    fn read(&mut self) {
        self.token += 1;
        let node = self.believed(false);
        let mode = if self.random.chance(20) { ReadMode::Quorum } else { ReadMode::Lease };
        self.world.propose(node, Proposal::Read { token: self.token, mode });
    }

    fn deliver_some(&mut self) {
        for _ in 0..1 + self.random.below(6) {
            if let Some(packet) = self.world.network.take_one(&mut self.random, self.weather.network) {
                self.deliver(packet);
            }
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let to = packet.to;
        if let Load::Told(membership) = &packet.load
            && self.weather.parent_is_shy
            && membership.place(to) != Place::Joining
            && membership.members[self.world.parent.changes % membership.members.len()] != to
        {
            return;
        }
        self.world.deliver(packet);
    }

    fn pass_time(&mut self) {
        let most_us = if self.random.chance(10) { 600_000 } else { 40_000 };
        let passed_us = self.random.below(most_us);
        self.world.now = self.world.now.after_us(passed_us);
        let now = self.world.now;
        if self.world.parent.attend(now) {
            self.tell_all();
        }
        for id in self.world.ids() {
            if self.random.chance(70) {
                self.world.attend(id);
            }
        }
    }

    fn tell_all(&mut self) {
        let membership = self.world.parent.membership.clone();
        let mut ids = self.world.ids();
        // To the successor first, or not.
        if self.random.chance(50) {
            ids.reverse();
        }
        for id in ids {
            self.world.network.post(PARENT, id, Load::Told(membership.clone()));
        }
    }

    fn change(&mut self) {
        let node = self.any_node();
        let membership = self.world.parent.membership.clone();
        match membership.place(node) {
            Place::Outside => self.world.parent.join(node),
            Place::Member(_) => self.world.parent.remove(node),
            Place::Joining if self.random.chance(20) => self.world.parent.remove(node),
            Place::Joining => {}
        }
        self.tell_all();
    }

    fn crash_or_restart(&mut self) {
        let node = self.any_node();
        if self.world.is_up(node) {
            let written = self.random.below(4) as usize;
            self.world.crash(node, written);
        } else {
            self.world.restart(node);
        }
    }

    fn turn_links(&mut self) {
        let (from, to) = (self.any_node(), self.any_node());
        match self.random.below(5) {
            0 | 1 => self.world.network.heal(),
            2 => self.world.network.cut(from, to),
            3 => {
                self.world.network.cut(from, PARENT);
                self.world.network.cut(PARENT, from);
            }
            _ => self.world.network.isolate(from),
        }
    }

    fn decided(&self) -> u64 {
        self.world.checks.agreement.chosen.len() as u64
    }

    /// Healed, the chain decides what it is asked to within a bound, and every member executes it.
    fn come_to_life(&mut self) {
        self.world.network.heal();
        for id in self.world.ids() {
            if !self.world.is_up(id) {
                self.world.restart(id);
            }
        }
        self.world.network.release();
        self.world.synced_at_once = true;
        let (mut proposed, mut goal) = (0, u64::MAX);
        for turn in 0..3000 {
            self.calm_turn();
            let membership = self.world.parent.membership.clone();
            let settled = self.world.parent.removing.is_none() && membership.joining.is_none();
            let replicas = || membership.members.iter().map(|&id| self.world.replica(id));
            let level = |id: &NodeId| self.world.node(*id).executed.len() as u64 == self.decided();
            let agree = replicas().all(|replica| replica.is_some_and(|replica| replica.epoch() == membership.epoch));
            let stopped = replicas().all(|replica| replica.is_some_and(|replica| replica.is_stopped()));
            let alive = stopped || proposed > 2 && self.decided() >= goal;
            if settled && agree && alive && membership.members.iter().all(level) {
                return;
            }
            if turn % 50 == 0 {
                proposed += 1;
                if proposed == 2 {
                    goal = self.decided() + 1;
                }
                let command = self.command();
                self.world.propose(membership.head(), Proposal::Commands(command));
            }
        }
        let states: Vec<_> = self
            .world
            .ids()
            .into_iter()
            .map(|id| (id, self.world.replica(id).map(|replica| replica.status())))
            .collect();
        panic!("no life within 30 s: parent {:?}, {states:#?}", self.world.parent.membership);
    }

    /// Ten milliseconds in which nothing is lost.
    fn calm_turn(&mut self) {
        self.world.now = self.world.now.after_us(10_000);
        let now = self.world.now;
        if self.world.parent.attend(now) {
            self.tell_all();
        }
        for id in self.world.ids() {
            self.world.sync(id);
            self.world.attend(id);
        }
        for _ in 0..self.world.network.packets.len() {
            if let Some(packet) = self.world.network.packets.pop_front() {
                self.deliver(packet);
            }
        }
    }
}

/// With `TRACE` each step is printed.
fn run(seed: u64) -> Run {
    let mut run = Run::new(seed);
    run.world.aloud = std::env::var_os("TRACE").is_some();
    if run.random.chance(70) {
        (0..20).for_each(|_| run.calm_turn());
    }
    for _ in 0..200 + run.random.below(1000) {
        run.act();
    }
    run.come_to_life();
    run
}

#[test]
fn any_weather_keeps_the_invariants_and_the_chain_comes_back_to_life() {
    let (mut updates, mut reads, mut clean, mut changes) = (0, 0, 0, 0);
    let checked = |seed| {
        let run = run(seed);
        // Late and repeated messages of members are no nonsense.
        assert_eq!(run.world.nonsense_count, 0);
        run
    };
    for run in runs(3000, checked) {
        updates += run.world.checks.updates_answered;
        reads += run.world.checks.reads_answered;
        clean += run.world.checks.clean_reads_answered;
        changes += run.world.parent.changes;
    }
    println!("{updates} updates, {reads} reads, {clean} clean reads, {changes} changes");
    assert!(updates > 0 && reads > 0 && clean > 0 && changes > 0, "{updates} {reads} {clean} {changes}");
}

/// Each planted bug is caught by the same checks.
#[cfg(feature = "planted")]
mod planted {
    use quorate_protocol::planted::Planted;

    use super::harness::runs::assert_caught;

    #[test]
    #[ignore = "mutates the whole process: run alone"]
    fn planted_bugs_are_caught() {
        assert_caught(Planted::IN_CHAIN, 60_000, super::run);
    }
}
