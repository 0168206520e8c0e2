//! Thousands of short runs under loss, repetition, reordering, lateness, crashes and hand-overs. The harness checks agreement,
//! refusals and reads as they happen; then everything is healed, and the group must come to life again.

mod harness;

use std::sync::Arc;

use harness::network::Roughness;
use harness::runs::runs;
use harness::{Cluster, Group, Node, Random};
use quorate_protocol::effect::{Proposal, ReadMode};
use quorate_protocol::id::{NodeId, Payload};
use quorate_protocol::quorum::QuorumSystem;

/// How rough a run is, in percent of what is done.
struct Weather {
    network: Roughness,
    crash: u64,
    stop: u64,
    hand_over: u64,
    silence: u64,
    /// How often heartbeats get through as time passes: leases are held in some runs, and lapse in others.
    heartbeats: u64,
    /// Now and then more proposals at once than the window holds.
    bursts: bool,
}

struct Run {
    cluster: Cluster,
    random: Random,
    weather: Weather,
    command_count: u64,
    token: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random::new(seed ^ 0x5eed);
        let (count, quorum) = match random.below(10) {
            0 => (1, QuorumSystem::Majority),
            1 => (2, QuorumSystem::Majority),
            2 => (5, QuorumSystem::Majority),
            3 => (5, QuorumSystem::Threshold { read: 4, write: 2 }),
            4 => (4, QuorumSystem::Threshold { read: 2, write: 3 }),
            5 => (7, QuorumSystem::Majority),
            _ => (3, QuorumSystem::Majority),
        };
        let weather = Weather {
            network: Roughness {
                loss: random.below(4) * 5,
                repetition: random.below(4) * 5,
                reordering: random.below(3) * 30,
                lateness: random.chance(50).then(|| random.below(20)),
            },
            crash: random.below(3),
            stop: u64::from(random.below(10) == 0),
            hand_over: random.below(2),
            silence: u64::from(random.below(3) == 0),
            heartbeats: random.below(3) * 45,
            bursts: random.below(20) == 0,
        };
        let mut cluster = Cluster::new(count, quorum, seed);
        cluster.wants_frontiers = random.chance(50);
        Run { cluster, random, weather, command_count: 0, token: 0 }
    }

    fn any_node(&mut self) -> NodeId {
        let count = self.cluster.nodes.len() as u64;
        self.cluster.nodes[self.random.below(count) as usize].id
    }

    fn command(&mut self) -> Payload {
        self.command_count += 1;
        Arc::from(format!("c{}", self.command_count).as_bytes())
    }

    /// Where the host would send a client: mostly to whom it believes to coordinate.
    fn proposer(&mut self) -> NodeId {
        let node = self.any_node();
        match &self.cluster.node(node).replica {
            Some(replica) if self.random.chance(80) => replica.coordinator(),
            _ => node,
        }
    }

    fn act(&mut self) {
        match self.random.below(100) {
            0..=44 => self.cluster.deliver_some(&mut self.random, self.weather.network),
            45..=59 => {
                let node = self.any_node();
                self.cluster.sync(node);
            }
            60..=69 => self.propose(),
            70..=79 => self.cluster.pass_time(&mut self.random, self.weather.heartbeats),
            80..=84 => {
                let node = self.any_node();
                if self.cluster.is_up(node) {
                    self.cluster.heartbeat(node);
                }
            }
            85..=92 => self.read(),
            93..=95 if self.random.chance(self.weather.crash * 30) => self.crash_or_restart(),
            96 => {
                let node = self.any_node();
                match self.random.chance(30) {
                    true => self.cluster.set_aside(node),
                    false => self.cluster.checkpoint(node),
                }
            }
            93..=95 if self.random.chance(self.weather.silence * 20) => self.silence(),
            97 if self.weather.hand_over > 0 => {
                let (node, to) = (self.proposer(), self.any_node());
                self.cluster.propose(node, Proposal::HandOver { to });
            }
            98 if self.random.chance(self.weather.stop * 20) => {
                let (node, command) = (self.proposer(), self.command());
                self.cluster.propose(node, Proposal::Stop(command));
            }
            97..=98 if self.weather.network.lateness.is_some() => self.cluster.network.release(),
            _ => self.cluster.turn_links(&mut self.random),
        }
    }

    fn propose(&mut self) {
        let node = self.proposer();
        if self.weather.bursts && self.random.chance(5) {
            for _ in 0..300 + self.random.below(300) {
                let command = self.command();
                self.cluster.propose(node, Proposal::Commands(command));
            }
        }
        let proposal = if self.random.chance(5) { Proposal::Mark } else { Proposal::Commands(self.command()) };
        self.cluster.propose(node, proposal);
    }

    fn read(&mut self) {
        self.token += 1;
        let node = self.proposer();
        let mode = if self.random.chance(20) { ReadMode::Quorum } else { ReadMode::Lease };
        self.cluster.propose(node, Proposal::Read { token: self.token, mode });
    }

    fn crash_or_restart(&mut self) {
        let node = self.any_node();
        if self.cluster.is_up(node) {
            self.cluster.crash(node);
        } else {
            self.cluster.restart(node);
        }
    }

    /// One replica at a time is given up, until its node is started anew.
    fn silence(&mut self) {
        let node = self.any_node();
        let others = self.cluster.nodes.iter().any(|node| node.silent);
        if !others && self.cluster.is_up(node) {
            self.cluster.silence(node);
        }
    }

    /// Whether a group of which one member is silent can go on for good.
    fn can_do_without_one(&self) -> bool {
        let majority = self.cluster.configuration.quorum == QuorumSystem::Majority;
        majority && self.cluster.nodes.len() >= 3
    }

    /// Healed, the group decides what it is asked to within a bound, and everybody executes it.
    fn come_to_life(&mut self) {
        self.cluster.network.heal();
        self.cluster.network.release();
        for node in self.cluster.ids() {
            if self.cluster.node(node).silent && !self.can_do_without_one() {
                self.cluster.crash(node);
            }
            if !self.cluster.is_up(node) {
                self.cluster.restart(node);
            }
        }
        self.cluster.synced_at_once = true;
        let mut last = self.chosen();
        let mut proposed = 0;
        for turn in 0..3000 {
            self.cluster.calm_turn(turn);
            // After a stop every client that is sent on is told so, even if a member that was away does not know it yet.
            let stopped = self.cluster.nodes.iter().filter(|node| !node.silent).all(|node| {
                let mut at = node.id;
                for _ in 0..self.cluster.nodes.len() {
                    at = self.cluster.node(at).replica.as_ref().expect("restarted").coordinator();
                }
                self.cluster.node(at).replica.as_ref().is_some_and(|replica| replica.is_stopped())
            });
            let level = |node: &Node| node.silent || node.executed.len() as u64 == self.chosen();
            let level = self.cluster.nodes.iter().all(level);
            if stopped || proposed > 2 && self.chosen() > last && level {
                return;
            }
            if turn.is_multiple_of(50) {
                let node = self.any_node();
                let replica = self.cluster.node(node).replica.as_ref().expect("restarted");
                let coordinator = replica.coordinator();
                let command = self.command();
                if proposed <= 2 {
                    last = self.chosen();
                }
                proposed += 1;
                self.cluster.propose(coordinator, Proposal::Commands(command));
            }
        }
        let states: Vec<_> = self.cluster.nodes.iter().map(|node| node.replica.as_ref().map(|r| r.status())).collect();
        panic!("no life within 30 s: {states:#?}");
    }

    fn chosen(&self) -> u64 {
        self.cluster.agreement.chosen.len() as u64
    }
}

fn run(seed: u64) -> Run {
    go_on(Run::new(seed))
}

fn go_on(mut run: Run) -> Run {
    // Some groups are young when it begins, some have long had their leases.
    if run.random.chance(70) {
        (0..60).for_each(|turn| run.cluster.calm_turn(turn));
    }
    for _ in 0..200 + run.random.below(800) {
        run.act();
    }
    run
}

#[test]
fn so_do_groups_whose_coordinators_outwait_leases_given_onward() {
    let come_to_life = |seed| {
        let mut run = Run::new(seed);
        run.cluster.proposes_late = true;
        let mut run = go_on(run);
        run.come_to_life();
        assert_eq!(run.cluster.nonsense_count, 0);
        run
    };
    let slots: usize = runs(600, come_to_life).map(|run| run.cluster.agreement.chosen.len()).sum();
    assert!(slots > 600, "{slots} slots");
}

#[test]
fn any_weather_keeps_agreement_and_the_group_comes_back_to_life() {
    let (mut slots, mut reads) = (0, 0);
    let come_to_life = |seed| {
        let mut run = run(seed);
        run.come_to_life();
        // Late and repeated messages of members are no nonsense.
        assert_eq!(run.cluster.nonsense_count, 0);
        run
    };
    for run in runs(3000, come_to_life) {
        slots += run.cluster.agreement.chosen.len();
        reads += run.cluster.reads_answered;
    }
    println!("{slots} slots, {reads} reads");
    assert!(slots > 0 && reads > 0, "{slots} slots, {reads} reads");
}

/// Each planted bug is caught by the rules that the harness checks.
#[cfg(feature = "planted")]
mod planted {
    use quorate_protocol::planted::Planted;

    use super::harness::runs::assert_caught;

    #[test]
    #[ignore = "mutates the whole process: run alone"]
    fn planted_bugs_are_caught() {
        assert_caught(Planted::ALL, 30_000, super::run);
    }
}
