//! Thousands of short runs of registers under loss, repetition, reordering, partitions, crashes and reconfigurations. What
//! clients saw must be linearizable; then everything is healed, and the group must come to life again.

#[path = "register_random/collect.rs"]
mod collect;
mod harness;

use std::sync::Arc;

use collect::Collection;
use harness::network::Roughness;
use harness::register::page::Judged;
use harness::register::{Node, World, configuration};
use harness::runs::runs;
use harness::{Group, Random};
use quorate_protocol::effect::Event;
use quorate_protocol::id::{Epoch, NodeId, Stamp};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{Answer, Authority, Reach, Register, Request, Stage};

const NODES_MAX: u64 = 7;

/// How rough a run is, in percent of what is done.
struct Weather {
    network: Roughness,
    crash: u64,
    partition: u64,
    change: u64,
    deletes: u64,
    expiry: u64,
    keys: u64,
    /// Tombstones are forgotten as fast as can be.
    collect: bool,
}

struct Run {
    world: World,
    random: Random,
    weather: Weather,
    value_count: u64,
    epochs: u64,
    /// Who was last asked to forget tombstones.
    collector: Option<NodeId>,
    collection: Collection,
    /// Members decide, and no parent does.
    own: bool,
    /// Who was last asked for a reconfiguration.
    candidate: NodeId,
    /// The group is being sealed.
    seals: bool,
}

fn any_quorum(random: &mut Random, members: usize) -> QuorumSystem {
    match random.below(5) {
        0 => QuorumSystem::square(members),
        1 | 2 => {
            let write = 1 + random.below(members as u64) as u8;
            QuorumSystem::Threshold { read: members as u8 + 1 - write, write }
        }
        3 => {
            let columns = 1 + random.below(members as u64) as u8;
            QuorumSystem::Grid { rows: (members as u8).div_ceil(columns), columns }
        }
        _ => QuorumSystem::Majority,
    }
}

impl Run {
    fn new(seed: u64, own: bool) -> Run {
        let mut random = Random::new(seed ^ 0x5eed);
        let nodes = 3 + random.below(NODES_MAX - 2) as u32;
        let members = 1 + random.below(u64::from(nodes)) as u32;
        let quorum = any_quorum(&mut random, members as usize);
        let quorum = if quorum.fit(members as usize).is_ok() { quorum } else { QuorumSystem::Majority };
        let weather = Weather {
            network: Roughness {
                loss: random.below(4) * 5,
                repetition: random.below(4) * 5,
                reordering: random.below(3) * 30,
                lateness: None,
            },
            crash: random.below(3) * 30,
            partition: random.below(2) * 50,
            change: random.below(4) * 33,
            deletes: random.below(3) * 20,
            expiry: random.below(2) * 20,
            keys: 1 + random.below(3),
            collect: false,
        };
        let collect = random.below(4) == 0;
        let weather = if collect {
            let network = Roughness { loss: weather.network.loss / 3, ..weather.network };
            let (crash, partition) = (weather.crash / 6, weather.partition / 5);
            Weather { network, crash, partition, change: 100, deletes: 50, expiry: 20, collect, ..weather }
        } else {
            weather
        };
        let mut world = World::new(nodes, members, quorum, seed);
        if own {
            let reach = if random.chance(50) { Reach::Preferred } else { Reach::Twofold };
            world.set_authority(Authority::Members(reach));
        }
        Run {
            world,
            random,
            weather,
            value_count: 0,
            epochs: 0,
            collector: None,
            collection: Collection::Begin,
            own,
            candidate: NodeId(1),
            seals: false,
        }
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(1 + self.random.below(self.world.nodes.len() as u64) as u32)
    }

    fn act(&mut self) {
        match self.random.below(100) {
            0..=49 => self.deliver_some(),
            50..=61 => {
                let node = self.any_node();
                self.world.sync(node);
            }
            62..=67 => self.operate(),
            68 => self.operate(),
            69 => self.list(),
            88..=96 if self.weather.collect && self.own => self.collect_among_members(),
            88..=97 if self.weather.collect && !self.own => self.collect(),
            70..=79 => self.pass_time(),
            80..=83 if self.random.chance(self.weather.crash) => self.crash_or_restart(),
            84..=86 if self.random.chance(self.weather.partition) => self.turn_links(),
            87 if self.random.chance(self.weather.crash) => {
                let node = self.any_node();
                self.world.checkpoint(node);
            }
            88..=97 if self.own => self.ask_members(),
            // One change at a time, and this is the last.
            88..=99 if self.seals => {
                let node = self.any_node();
                self.ask_for_seal(node);
            }
            88..=97 if self.random.chance(self.weather.change) => self.reconfigure(),
            _ => {}
        }
    }

    fn operate(&mut self) {
        let node = self.any_node();
        if !self.world.is_up(node) || self.value_count >= 110 {
            return;
        }
        self.value_count += 1;
        let key = format!("k{}", self.random.below(self.weather.keys));
        let deadline = Stamp(self.world.stamp().0 + 50 + self.random.below(3000));
        if self.random.chance(50) {
            self.world.read(node, &key, deadline);
        } else if self.random.chance(self.weather.deletes) {
            self.world.write(node, &key, None, None, deadline);
        } else {
            let value = format!("v{}", self.value_count);
            let expires = self.random.chance(self.weather.expiry);
            let expires = expires.then(|| Stamp(self.world.stamp().0 + self.random.below(500)));
            let token = self.world.write(node, &key, Some(&value), expires, deadline);
            if self.random.chance(10) {
                self.world.retry(node, token);
            }
        }
    }

    fn list(&mut self) {
        let node = self.any_node();
        let after = self.random.below(self.weather.keys + 1).checked_sub(1).map(|number| format!("k{number}"));
        let count = 1 + self.random.below(3) as usize;
        let deadline = Stamp(self.world.stamp().0 + 50 + self.random.below(3000));
        if self.world.is_up(node) {
            self.world.list(node, after.as_deref(), count, deadline);
        }
    }

    fn deliver_some(&mut self) {
        for _ in 0..1 + self.random.below(8) {
            if let Some(packet) = self.world.network.take_one(&mut self.random, self.weather.network) {
                self.world.deliver(packet);
            }
        }
    }

    fn pass_time(&mut self) {
        let most_us = if self.random.chance(10) { 600_000 } else { 20_000 };
        self.world.now = self.world.now.after_us(self.random.below(most_us));
        if self.random.chance(60) {
            self.world.exchange_heartbeats();
        }
        for id in self.world.ids() {
            if self.random.chance(70) {
                self.world.attend(id);
            }
        }
    }

    fn crash_or_restart(&mut self) {
        let node = self.any_node();
        if self.world.is_up(node) {
            let kept = self.random.below(self.world.unsynced_count(node) + 1);
            self.world.crash(node, kept as usize);
        } else if self.world.node(node).born.is_some() {
            self.world.restart(node);
        }
    }

    fn turn_links(&mut self) {
        let (from, to) = (self.any_node(), self.any_node());
        match self.random.below(4) {
            0 | 1 => self.world.network.heal(),
            2 => self.world.network.cut(from, to),
            _ => self.world.network.isolate(from),
        }
    }

    fn decide_and_count(&mut self) {
        if self.decide_next() {
            self.epochs += 1;
        }
    }

    /// The change under way is brought forward.
    fn urge(&mut self) {
        self.bear_members();
        let node = self.any_node();
        self.world.know(node);
        // Not too often: whoever is asked again begins again.
        if self.collector != Some(node) && self.random.chance(8) {
            let token = self.world.next_token();
            self.world.step(node, Event::Requested(Request::Retire { token }));
        }
    }

    /// What the parent does next, or somebody too early or too late.
    fn reconfigure(&mut self) {
        let node = self.any_node();
        let changing = self.world.parent.stages.len() == 2;
        match self.random.below(12) {
            0 | 1 if !changing => self.decide_and_count(),
            2..=4 => self.world.know(node),
            5 if changing => self.bear_members(),
            6 if changing && self.collector != Some(node) => {
                let token = self.world.next_token();
                self.world.step(node, Event::Requested(Request::Retire { token }));
            }
            8 if !changing => {
                for id in self.world.ids() {
                    self.drain_to_present(id);
                }
            }
            9 if self.collector.is_none() || self.random.chance(5) => self.ask_to_forget(node),
            _ => {}
        }
    }

    /// Any member may be asked for a reconfiguration, several at once, and crash in the middle of it.
    fn ask_members(&mut self) {
        let node = self.any_node();
        if self.random.chance(10) {
            let token = self.world.next_token();
            self.world.step(node, Event::Requested(Request::Retire { token }));
        } else if self.random.chance(self.weather.change) && self.random.chance(30) {
            let together = 1 + self.random.below(3);
            for _ in 0..together {
                let node = self.any_node();
                self.ask_for_a_reconfiguration(node);
                self.candidate = node;
            }
        } else if self.random.chance(self.weather.crash) && self.world.is_up(self.candidate) {
            // What it said is on its way; it asks for something else.
            let node = self.candidate;
            self.world.crash(node, self.world.unsynced_count(node) as usize);
            self.world.restart(node);
            self.ask_for_a_reconfiguration(node);
        }
    }

    fn ask_for_a_reconfiguration(&mut self, node: NodeId) {
        let nodes = self.world.nodes.len() as u32;
        let members: Vec<NodeId> = (1..=nodes).filter(|_| self.random.chance(60)).map(NodeId).collect();
        let quorum = any_quorum(&mut self.random, members.len().max(1));
        let token = self.world.next_token();
        let request = match self.random.chance(20) {
            true => Request::Resize { token, quorum },
            false => Request::Reconfigure { token, members, quorum },
        };
        self.world.step(node, Event::Requested(request));
    }

    /// The newest configuration that any replica knows, and whether quorums of its members know it as the only one.
    fn newest(&self) -> (Stage, bool) {
        let replicas = || self.world.nodes.iter().filter_map(|node| node.replica.as_ref());
        let newest = replicas().filter_map(|replica| replica.stages().last()).max_by_key(|stage| stage.epoch());
        let newest = newest.expect("there are replicas").clone();
        let is_settled = |replica: &Register| replica.stages() == std::slice::from_ref(&newest);
        let members = newest.configuration.members.iter();
        let knows = |node: NodeId| self.world.node(node).replica.as_ref().is_some_and(is_settled);
        let known =
            members.enumerate().filter(|&(_, &node)| knows(node)).fold(0, |set, (position, _)| set | 1 << position);
        let (quorum, count) = (newest.configuration.quorum, newest.configuration.members.len());
        let settled = quorum.is_read_quorum(count, known) && quorum.is_write_quorum(count, known);
        (newest, settled)
    }

    /// Who knows of two configurations; if nobody does, everybody.
    fn undecided(&self) -> Arc<[NodeId]> {
        let knows_two = |node: &&Node| node.replica.as_ref().is_some_and(|replica| replica.stages().len() == 2);
        let two: Arc<[NodeId]> = self.world.nodes.iter().filter(knows_two).map(|node| node.id).collect();
        if two.is_empty() { self.world.nodes.iter().map(|node| node.id).collect() } else { two }
    }

    fn decide_next(&mut self) -> bool {
        let stage = self.world.parent.stages.last().expect("a stage").clone();
        let old: Vec<u32> = stage.configuration.members.iter().map(|node| node.0).collect();
        let kind = self.random.below(4);
        let members = match kind {
            // Sizes only, the same again, or a renewal.
            0..=2 => old,
            _ => {
                let nodes = self.world.nodes.len() as u32;
                let mut members: Vec<u32> = (1..=nodes).filter(|_| self.random.chance(60)).collect();
                if members.is_empty() {
                    members = old;
                }
                members
            }
        };
        let count = members.len();
        let quorum = match kind {
            0 => stage.configuration.quorum,
            1 => {
                let write = 1 + self.random.below(count as u64) as u8;
                QuorumSystem::Threshold { read: count as u8 + 1 - write, write }
            }
            _ => any_quorum(&mut self.random, count),
        };
        let renew = self.random.chance(10);
        self.world.decide(|stage: &Stage, epoch| {
            let next = configuration(epoch, &members, quorum);
            if renew { stage.renewal(next) } else { stage.successor(next) }
        })
    }

    fn bear_members(&mut self) {
        self.bear_members_of(self.world.parent.stages.len() - 1);
    }

    fn bear_members_of(&mut self, stage: usize) {
        let members = self.world.parent.stages[stage].configuration.members.clone();
        members.iter().for_each(|&node| self.world.bear(node));
    }

    fn drain_to_present(&mut self, node: NodeId) {
        let epoch = self.world.parent.stages.last().expect("a stage").epoch();
        self.drain(node, epoch);
    }

    fn drain(&mut self, node: NodeId, epoch: Epoch) {
        let token = self.world.next_token();
        self.world.step(node, Event::Requested(Request::Drain { token, epoch }));
    }

    fn ask_for_seal(&mut self, node: NodeId) {
        let token = self.world.next_token();
        let request = match (self.world.is_sealed, self.world.final_next.clone()) {
            (false, _) => Request::Seal { token },
            (true, None) => Request::Final { token, after: None },
            (true, Some(Some(after))) => Request::Final { token, after: Some(after) },
            (true, Some(None)) => return,
        };
        self.world.step(node, Event::Requested(request));
    }

    /// Healed, the group is sealed and tells what it ends with; after that nothing is ever answered again.
    fn come_to_an_end(&mut self) {
        self.heal();
        self.settle(|run| run.world.parent.stages.len() == 1, true);
        let members = self.world.parent.stages[0].configuration.members.clone();
        members.iter().for_each(|&node| self.world.know(node));
        for _ in 0..40 {
            let node = members[self.random.below(members.len() as u64) as usize];
            self.ask_for_seal(node);
            self.operate();
            for _ in 0..2000 {
                self.world.now = self.world.now.after_us(100);
                self.world.ids().into_iter().for_each(|id| self.world.attend(id));
                if !self.world.deliver_next() {
                    break;
                }
            }
        }
        assert_eq!(self.world.final_next, Some(None), "not sealed, or its last word is not heard");
        // What was undecided is decided only then.
        self.world.assert_pages();
        self.world.take_over_finals();
    }

    fn heal(&mut self) {
        self.world.network.heal();
        self.world.synced_at_once = true;
        if !self.own {
            // Of the old configuration as well: a member that nobody has needed yet may be needed now.
            (0..self.world.parent.stages.len()).for_each(|stage| self.bear_members_of(stage));
        }
        for id in self.world.ids() {
            self.world.sync(id);
            if !self.world.is_up(id) && self.world.node(id).born.is_some() {
                self.world.restart(id);
            }
        }
    }

    /// Healed, the group retires what is to be retired, and every member reads and writes within a bound.
    fn come_to_life(&mut self) {
        self.heal();
        let members = if self.own {
            // Whoever still campaigns comes to an end, too.
            self.settle(|_| false, true);
            let (newest, settled) = self.newest();
            assert!(settled, "{newest:?} is not what its members know");
            // A member of whom nobody needed anything yet need not be there.
            let members = newest.configuration.members.iter().copied();
            members.filter(|&node| self.world.is_up(node)).collect()
        } else {
            self.settle(|run| run.world.parent.stages.len() == 1, true);
            let members = self.world.parent.stages[0].configuration.members.clone();
            members.iter().for_each(|&node| self.world.know(node));
            members
        };
        let deadline = Stamp(self.world.stamp().0 + 10_000);
        let before = self.world.answers.len();
        for (number, &node) in members.iter().enumerate() {
            self.world.write(node, "k0", Some(&format!("last{number}")), None, deadline);
            self.world.read(node, "k0", deadline);
        }
        let wanted = before + 2 * members.len();
        let pages: Vec<u64> = members.iter().map(|&node| self.world.list(node, None, 10, deadline)).collect();
        self.settle(|run| run.world.answers.len() >= wanted, false);
        for page in pages.iter().map(|token| &self.world.pages[token]) {
            assert!(matches!(&page.answered, Some((_, Answer::Listed { next: None, .. }))), "{page:?}");
        }
        let unknown = self.world.answers[before..].iter().filter(|answer| {
            let format = format!("{answer:?}");
            !format.starts_with("Value") && !format.starts_with("Written")
        });
        // Whatever was asked before may end as it must.
        let last = self.world.calls.iter().rev().take(2 * members.len());
        assert!(
            last.clone().all(|(_, call)| matches!(call.outcome, harness::linear::Outcome::Returned { .. })),
            "{:?} {:?}",
            unknown.collect::<Vec<_>>(),
            last.collect::<Vec<_>>()
        );
    }

    fn settle(&mut self, is_done: impl Fn(&Run) -> bool, retiring: bool) {
        for turn in 0..4000_u64 {
            if is_done(self) && (retiring || turn > 400) {
                return;
            }
            if self.own && retiring && turn > 1000 && self.newest().1 {
                return;
            }
            if retiring && turn.is_multiple_of(300) {
                let oldest = match self.own {
                    true => self.undecided(),
                    false => self.world.parent.stages[0].configuration.members.clone(),
                };
                let driver = oldest[self.random.below(oldest.len() as u64) as usize];
                if !self.own {
                    self.world.know(driver);
                }
                let token = self.world.next_token();
                self.world.step(driver, Event::Requested(Request::Retire { token }));
                if self.own && self.world.is_up(driver) {
                    let deadline = Stamp(self.world.stamp().0 + 10_000);
                    self.world.read(driver, "k0", deadline);
                }
            }
            self.world.now = self.world.now.after_us(2_000);
            if turn.is_multiple_of(50) {
                self.world.exchange_heartbeats();
            }
            for id in self.world.ids() {
                self.world.attend(id);
            }
            for _ in 0..self.world.network.packets.len() {
                self.world.deliver_next();
            }
        }
        let views: Vec<_> = self.world.nodes.iter().map(|node| node.replica.as_ref().map(Register::view)).collect();
        panic!("no life within 8 s: {:?} {views:?} {:?}", self.world.parent.stages, self.newest());
    }
}

struct Figures {
    returned: usize,
    epochs: u64,
    forgotten: usize,
    undecided: usize,
    judged: Judged,
}

fn run_by(seed: u64, own: bool) -> Figures {
    let mut run = Run::new(seed, own);
    let turns = if run.weather.collect { 3000 } else { 1500 };
    for _ in 0..turns {
        run.act();
    }
    run.come_to_life();
    let undecided = run.world.assert_linearizable();
    let judged = run.world.assert_pages();
    let epochs = if own { run.world.reconfigured_count as u64 } else { run.epochs };
    Figures { returned: run.world.answers.len(), epochs, forgotten: run.world.forgotten_count, undecided, judged }
}

#[test]
fn registers_are_linearizable_and_come_to_life() {
    let (mut returned, mut epochs, mut forgotten, mut undecided) = (0, 0, 0, 0);
    let (mut listed, mut missing) = (0, 0);
    for figures in runs(1500, |seed| run_by(seed, false)) {
        returned += figures.returned;
        epochs += figures.epochs;
        forgotten += figures.forgotten;
        undecided += figures.undecided;
        listed += figures.judged.listed;
        missing += figures.judged.missing;
    }
    println!("{returned} answers, {epochs} reconfigurations, {forgotten} tombstones forgotten, {undecided} undecided");
    println!("of keys on pages {listed} had to be listed, {missing} had to be missing");
    let all = std::env::var_os("SEEDS").is_none();
    assert!(!all || forgotten > 0, "no tombstone was forgotten");
    assert!(!all || listed > 1000 && missing > 1000, "{listed} listed, {missing} missing: too quiet");
    assert!(!all || returned > 1000 && epochs > 200, "{returned} answers, {epochs} reconfigurations: too quiet");
}

fn run_to_its_end(seed: u64) -> usize {
    let mut run = Run::new(seed, false);
    // What a value has become by its expiry depends on when the group's heir looks.
    (run.weather.expiry, run.weather.collect) = (0, false);
    for turn in 0..1200 {
        run.seals |= turn > 600 && run.world.parent.stages.len() == 1;
        run.act();
    }
    run.come_to_an_end();
    run.world.assert_linearizable();
    run.world.answers.len()
}

/// Whoever takes a sealed group's place begins with what was answered last, and knows of each write whether it happened.
#[test]
fn the_last_word_is_the_last() {
    let returned: usize = runs(600, run_to_its_end).sum();
    println!("{returned} answers");
    assert!(std::env::var_os("SEEDS").is_some() || returned > 1000, "{returned} answers: too quiet");
}

/// Members decide their successors by themselves. All that ever know an epoch know the same configuration by it.
#[test]
fn members_agree_on_every_successor() {
    let (mut returned, mut epochs, mut forgotten) = (0, 0, 0);
    for figures in runs(600, |seed| run_by(seed, true)) {
        returned += figures.returned;
        epochs += figures.epochs;
        forgotten += figures.forgotten;
    }
    println!("{returned} answers, {epochs} reconfigurations, {forgotten} tombstones forgotten");
    let all = std::env::var_os("SEEDS").is_none();
    assert!(!all || forgotten > 0, "no tombstone was forgotten");
    assert!(!all || returned > 1000 && epochs > 200, "{returned} answers, {epochs} reconfigurations: too quiet");
}

/// Each planted bug is caught by the same checks.
#[cfg(feature = "planted")]
mod planted {
    use quorate_protocol::planted::Planted;

    use super::harness::runs::assert_caught;

    #[test]
    #[ignore = "mutates the whole process: run alone"]
    fn planted_bugs_are_caught() {
        assert_caught(Planted::IN_REGISTER, 20_000, |seed| super::run_by(seed, false));
        let in_succession = Planted::IN_SUCCESSION.into_iter().chain([Planted::RegisterForgetsEarly]);
        assert_caught(in_succession, 20_000, |seed| super::run_by(seed, true));
        assert_caught([Planted::RegisterSealedAnswers], 20_000, super::run_to_its_end);
    }
}
