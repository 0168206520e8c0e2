//! Registers that live long: dozens of configurations one after the other, whose members leave, forget everything and come
//! back as new replicas; messages that arrive when three configurations have gone by since, writes that are asked once more
//! long after they were answered, and a parent whose word comes late or is an old one. What clients saw must be linearizable.

#[path = "register_long/end.rs"]
mod end;
mod harness;

use std::collections::BTreeMap;

use harness::linear::Outcome;
use harness::network::Roughness;
use harness::register::{Node, World, configuration};
use harness::runs::runs;
use harness::{Group, Random};
use quorate_protocol::effect::Event;
use quorate_protocol::id::{Epoch, NodeId, Stamp};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{Authority, LIST_BYTES_MAX, Reach, Register, Request, Stage};

const NODES_MAX: u64 = 6;
/// The search for an order takes no more of one key, and a read or two are added at the end.
const CALLS_PER_KEY: usize = 110;
/// What clients are ready to wait for.
const PATIENCE_MS_MAX: u64 = 20_000;
const TURNS: u32 = 6_000;
/// The weather lasts so many turns.
const WEATHER_TURNS: u32 = 400;

/// In percent of what is done.
struct Weather {
    network: Roughness,
    crash: u64,
    partition: u64,
    change: u64,
    /// Of changes, those of the members.
    members: u64,
    collect: u64,
    operate: u64,
}

impl Weather {
    fn of(random: &mut Random) -> Weather {
        let (is_calm, is_to_collect) = (random.chance(40), random.chance(40));
        let storm = |random: &mut Random, most: u64| match (is_calm, is_to_collect) {
            (true, _) => 0,
            (false, true) => random.below(most / 3 + 1),
            (false, false) => random.below(most + 1),
        };
        Weather {
            network: Roughness {
                loss: storm(random, 12),
                repetition: storm(random, 15),
                reordering: random.below(3) * 30,
                lateness: Some(random.below(4) * 3),
            },
            crash: storm(random, 50),
            partition: storm(random, 40),
            change: if is_to_collect { random.below(10) } else { random.below(4) * 30 },
            members: random.below(3) * 35,
            collect: if is_to_collect { 90 } else { random.below(20) },
            operate: 20 + random.below(3) * 40,
        }
    }
}

/// A replica of a node: its start, and how far the one before it had come.
type Part = (u32, Option<Epoch>);

struct Life {
    world: World,
    random: Random,
    weather: Weather,
    value_count: u64,
    key_count: u64,
    key_length: usize,
    calls: BTreeMap<String, usize>,
    /// Writes, with the replica that was asked: no other may be asked again.
    writes: Vec<(u64, NodeId, Part)>,
    /// What the parent had decided at some time.
    past: Vec<Vec<Stage>>,
    epochs: u64,
    collector: NodeId,
    own: bool,
    /// The group is being sealed, and no other change is decided.
    ends: bool,
    deletes: u64,
    expiry: u64,
}

fn any_quorum(random: &mut Random, members: usize) -> QuorumSystem {
    let quorum = match random.below(6) {
        0 => QuorumSystem::square(members),
        1..=3 => {
            let write = match random.below(4) {
                0 => 1,
                1 => members as u8,
                _ => 1 + random.below(members as u64) as u8,
            };
            QuorumSystem::Threshold { read: members as u8 + 1 - write, write }
        }
        4 => {
            let columns = 1 + random.below(members as u64) as u8;
            QuorumSystem::Grid { rows: (members as u8).div_ceil(columns), columns }
        }
        _ => QuorumSystem::Majority,
    };
    if quorum.fit(members).is_ok() { quorum } else { QuorumSystem::Majority }
}

impl Life {
    fn new(seed: u64, own: bool) -> Life {
        let mut random = Random::new(seed ^ 0x1e55);
        let nodes = 3 + random.below(NODES_MAX - 2) as u32;
        let members = 1 + random.below(u64::from(nodes)) as u32;
        let quorum = any_quorum(&mut random, members as usize);
        let mut world = World::new(nodes, members, quorum, seed);
        if own {
            let reach = if random.chance(70) { Reach::Preferred } else { Reach::Twofold };
            world.set_authority(Authority::Members(reach));
        }
        if random.chance(50) {
            world.parent.ready = Some(Vec::new());
        }
        let past = vec![world.parent.stages.clone()];
        let weather = Weather::of(&mut random);
        let (key_count, deletes, expiry) = (1 + random.below(5), random.below(3) * 30, random.below(2) * 20);
        Life {
            world,
            random,
            weather,
            value_count: 0,
            key_count,
            key_length: 0,
            calls: BTreeMap::new(),
            writes: Vec::new(),
            past,
            epochs: 0,
            collector: NodeId(1),
            own,
            ends: false,
            deletes,
            expiry,
        }
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(1 + self.random.below(self.world.nodes.len() as u64) as u32)
    }

    fn replicas(&self) -> impl Iterator<Item = &Register> {
        self.world.nodes.iter().filter_map(|node| node.replica.as_ref())
    }

    fn act(&mut self) {
        let node = self.any_node();
        match self.random.below(100) {
            0..=42 => self.deliver_some(),
            43..=54 => self.world.sync(node),
            55..=61 if self.random.chance(self.weather.operate) => self.operate(node),
            62 => self.list(node),
            63 => self.ask_once_more(),
            64..=73 => self.pass_time(),
            74..=76 if self.random.chance(self.weather.crash) => self.crash_or_restart(node),
            77 => self.bring_back(node),
            78 | 79 if self.random.chance(self.weather.partition) => self.turn_links(),
            80 if self.random.chance(20) => self.world.checkpoint(node),
            81 if self.random.chance(15) => self.world.network.release(),
            82 | 83 => self.try_leave(node),
            84..=99 if self.is_ending() => self.ask_for_the_end(node),
            84..=99 if self.random.chance(self.weather.collect) => self.collect(),
            84..=93 if self.random.chance(self.weather.change) => self.change(node),
            _ => {}
        }
    }

    /// Where keys are long, two of them are a page.
    fn key(&self, number: u64) -> String {
        format!("k{number}{}", "-".repeat(self.key_length))
    }

    fn operate(&mut self, node: NodeId) {
        // Another set of keys every now and then: none is asked for too often.
        let number = self.random.below(self.key_count);
        let key = self.key(number);
        let calls = self.calls.entry(key.clone()).or_default();
        if !self.world.is_up(node) || *calls >= CALLS_PER_KEY {
            return;
        }
        *calls += 1;
        self.value_count += 1;
        let patience = if self.random.chance(20) { PATIENCE_MS_MAX - 20 } else { 2_000 };
        let deadline = Stamp(self.world.stamp().0 + 20 + self.random.below(patience));
        if self.random.chance(50) {
            self.world.read(node, &key, deadline);
            return;
        }
        let token = if self.random.chance(self.deletes) {
            self.world.write(node, &key, None, None, deadline)
        } else {
            let value = format!("v{}", self.value_count);
            let expires = self.random.chance(self.expiry);
            let expires = expires.then(|| Stamp(self.world.stamp().0 + self.random.below(800)));
            self.world.write(node, &key, Some(&value), expires, deadline)
        };
        self.writes.push((token, node, self.part_of(node)));
    }

    fn list(&mut self, node: NodeId) {
        let after = self.random.below(self.key_count + 1).checked_sub(1).map(|number| self.key(number));
        let deadline = Stamp(self.world.stamp().0 + 20 + self.random.below(2_000));
        if self.world.is_up(node) {
            let count = 1 + self.random.below(3) as usize;
            self.world.list(node, after.as_deref(), count, deadline);
        }
    }

    fn part_of(&self, node: NodeId) -> Part {
        let left = self.world.node(node).left.as_ref().and_then(|stages| stages.last());
        (self.world.node(node).start, left.map(Stage::epoch))
    }

    fn ask_once_more(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let one = self.random.below(self.writes.len() as u64) as usize;
        let last = self.writes.len() - 1;
        let (token, node, part) = self.writes[if self.random.chance(50) { one } else { last }];
        // What was not carried out is another write where it is asked again.
        let is_refused = self.world.calls[&token].outcome == Outcome::NotCarriedOut;
        if self.world.is_up(node) && self.part_of(node) == part && !is_refused {
            self.world.retry(node, token);
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
        let most_us = if self.random.chance(5) { 600_000 } else { 15_000 };
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

    fn crash_or_restart(&mut self, node: NodeId) {
        if self.world.is_up(node) {
            let kept = self.random.below(self.world.unsynced_count(node) + 1);
            self.world.crash(node, kept as usize);
        } else {
            self.bring_back(node);
        }
    }

    fn bring_back(&mut self, node: NodeId) {
        if !self.world.is_up(node) && self.world.node(node).born.is_some() {
            self.world.restart(node);
        }
        if self.random.chance(10) {
            self.world.network.heal();
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

    /// A node that is in no configuration gives its replica up. One that is down loses its disk with it.
    fn try_leave(&mut self, node: NodeId) {
        if self.world.is_up(node) {
            return self.world.try_leave(node);
        }
        let stages = match self.own {
            true => self.newest_known(),
            false => self.world.parent.stages.clone(),
        };
        let is_out = stages.iter().all(|stage| !stage.configuration.contains(node));
        // Others may know less than its disk does.
        if is_out && self.world.has_known_less(node, &stages) {
            self.world.leave(node, &stages);
        }
    }

    /// Of any replica that is up.
    fn newest_known(&self) -> Vec<Stage> {
        let of = |replica: &Register| (replica.view().newest, replica.view().oldest);
        let newest = self.replicas().max_by_key(|replica| of(replica));
        newest.map_or_else(|| self.world.parent.stages.clone(), |replica| replica.stages().to_vec())
    }

    fn change(&mut self, node: NodeId) {
        if self.own {
            return self.ask_a_member(node);
        }
        let is_changing = self.world.parent.stages.len() == 2;
        match self.random.below(10) {
            0 | 1 if !is_changing && !self.ends => self.decide(),
            0..=2 if is_changing => self.ask_to_retire(node),
            3 => self.world.know(node),
            4 => {
                let stages = self.past[self.random.below(self.past.len() as u64) as usize].clone();
                self.world.know_of(node, stages);
            }
            5 | 6 => self.bear_members(),
            7 => self.hear_of_one(),
            8 if self.random.chance(30) => self.drain(node),
            _ => {}
        }
    }

    /// The parent comes to know, perhaps for the second time, that something is ready to be retired.
    fn hear_of_one(&mut self) {
        let Some(ready) = self.world.parent.ready.as_mut().filter(|ready| !ready.is_empty()) else { return };
        let epoch = ready[self.random.below(ready.len() as u64) as usize];
        self.world.retire(epoch);
        self.note_past();
    }

    fn note_past(&mut self) {
        if self.past.last() != Some(&self.world.parent.stages) {
            self.past.push(self.world.parent.stages.clone());
        }
    }

    fn bear_members(&mut self) {
        for stage in self.world.parent.stages.clone() {
            stage.configuration.members.iter().for_each(|&node| self.world.bear(node));
        }
    }

    fn ask_to_retire(&mut self, node: NodeId) {
        let is_at_it = self.replicas().any(Register::is_retiring);
        if node != self.collector && (!is_at_it || self.random.chance(5)) {
            if !self.own {
                self.world.know(node);
            }
            let token = self.world.next_token();
            self.world.step(node, Event::Requested(Request::Retire { token }));
        }
    }

    fn members_of_next(&mut self, old: Vec<u32>) -> Vec<u32> {
        if !self.random.chance(self.weather.members) {
            return old;
        }
        let nodes = self.world.nodes.len() as u32;
        let members: Vec<u32> = match self.random.chance(50) {
            // One goes, or comes.
            true => {
                let one = 1 + self.random.below(u64::from(nodes)) as u32;
                let is_in = old.contains(&one);
                let rest = old.iter().copied().filter(|&member| member != one);
                rest.chain(Some(one).filter(|_| !is_in)).collect()
            }
            false => (1..=nodes).filter(|_| self.random.chance(60)).collect(),
        };
        if members.is_empty() { old } else { members }
    }

    fn decide(&mut self) {
        let stage = self.world.parent.stages.last().expect("a stage").clone();
        let old: Vec<u32> = stage.configuration.members.iter().map(|node| node.0).collect();
        let members = self.members_of_next(old.clone());
        let is_same = members == old && self.random.chance(20);
        let quorum = if is_same { stage.configuration.quorum } else { any_quorum(&mut self.random, members.len()) };
        self.decide_on(&members, quorum);
    }

    fn decide_on(&mut self, members: &[u32], quorum: QuorumSystem) {
        let renew = self.random.chance(5);
        let is_decided = self.world.decide(|stage: &Stage, epoch| {
            let next = configuration(epoch, members, quorum);
            if renew { stage.renewal(next) } else { stage.successor(next) }
        });
        self.epochs += u64::from(is_decided);
        self.note_past();
    }

    fn drain(&mut self, node: NodeId) {
        let epoch = match self.own {
            true => self.newest_known().last().map_or(Epoch(1), Stage::epoch),
            false => self.world.parent.stages.last().expect("a stage").epoch(),
        };
        let token = self.world.next_token();
        self.world.step(node, Event::Requested(Request::Drain { token, epoch }));
    }

    /// What whoever collects tombstones does next.
    fn collect(&mut self) {
        let awaited = self.world.node(self.collector).replica.as_ref().and_then(Register::awaits_fence);
        let stages = if self.own { self.newest_known() } else { self.world.parent.stages.clone() };
        let [stage] = &stages[..] else {
            let node = self.any_node();
            if !self.own {
                self.bear_members();
                self.hear_of_one();
            }
            return self.ask_to_retire(node);
        };
        let (epoch, members) = (stage.epoch(), stage.configuration.members.clone());
        let any = members[self.random.below(members.len() as u64) as usize];
        let Some(awaited) = awaited else {
            let has_tombstone = |node: &Node| node.replica.as_ref().is_some_and(|up| up.status().tombstone_count > 0);
            if self.world.nodes.iter().any(has_tombstone) && self.random.chance(30) {
                self.collector = any;
                if !self.own {
                    self.world.know(any);
                }
                let token = self.world.next_token();
                self.world.step(any, Event::Requested(Request::Forget { token, after: None }));
            }
            return;
        };
        let late: Vec<NodeId> = members.iter().copied().filter(|&node| !self.world.has_drained(node, epoch)).collect();
        if awaited < epoch && !late.is_empty() {
            for node in late {
                if !self.own {
                    self.world.know(node);
                }
                self.drain(node);
            }
            return;
        }
        if self.own && any == self.collector {
            return;
        }
        if self.own {
            let fence = if awaited < epoch { epoch } else { Epoch(0) };
            let token = self.world.next_token();
            return self.world.step(any, Event::Requested(Request::Renew { token, epoch, fence }));
        }
        let numbers: Vec<u32> = members.iter().map(|node| node.0).collect();
        self.decide_on(&numbers, stage.configuration.quorum);
    }

    /// A change that is under way comes first.
    fn is_ending(&self) -> bool {
        self.ends && self.world.parent.stages.len() == 1
    }

    /// Any member may be asked, several at once.
    fn ask_a_member(&mut self, node: NodeId) {
        let token = self.world.next_token();
        let old: Vec<u32> =
            self.newest_known().last().expect("a stage").configuration.members.iter().map(|node| node.0).collect();
        let request = match self.random.below(10) {
            0 => Request::Retire { token },
            1 => Request::Resize { token, quorum: any_quorum(&mut self.random, old.len()) },
            2 => {
                let members = self.members_of_next(old);
                let quorum = any_quorum(&mut self.random, members.len());
                let members = members.into_iter().map(NodeId).collect();
                Request::Reconfigure { token, members, quorum }
            }
            _ => return,
        };
        self.world.step(node, Event::Requested(request));
    }
}

#[derive(Default, Debug)]
struct Figures {
    returned: usize,
    epochs: u64,
    forgotten: usize,
    left: usize,
    undecided: usize,
}

impl Life {
    /// Changes of the weather go by, and with them what is done.
    fn live(&mut self, turns: u32) {
        for turn in 0..turns {
            if turn % WEATHER_TURNS == 0 {
                self.weather = Weather::of(&mut self.random);
            }
            self.act();
        }
    }

    fn judge(&self) -> Figures {
        let undecided = self.world.assert_linearizable();
        let epochs = if self.own { self.world.reconfigured_count as u64 } else { self.epochs };
        let (forgotten, left) = (self.world.forgotten_count, self.world.left_count);
        Figures { returned: self.world.answers.len(), epochs, forgotten, left, undecided }
    }
}

fn live_and_rest(seed: u64, own: bool, key_length: usize) -> Figures {
    let mut life = Life::new(seed, own);
    life.key_length = key_length;
    life.live(TURNS);
    life.come_to_rest();
    life.world.assert_pages();
    life.judge()
}

fn live_and_end(seed: u64) -> Figures {
    let mut life = Life::new(seed, false);
    // What a value has become by its expiry depends on when the group's heir looks.
    life.expiry = 0;
    life.live(TURNS / 2);
    life.ends = true;
    life.live(TURNS / 2);
    life.come_to_an_end();
    life.judge()
}

fn assert_eventful(last: u64, run: impl Fn(u64) -> Figures) {
    let sum = runs(last, run).fold(Figures::default(), |sum, one| Figures {
        returned: sum.returned + one.returned,
        epochs: sum.epochs + one.epochs,
        forgotten: sum.forgotten + one.forgotten,
        left: sum.left + one.left,
        undecided: sum.undecided + one.undecided,
    });
    println!("{sum:?}");
    if std::env::var_os("SEEDS").is_none() {
        assert!(sum.returned as u64 > 50 * last && sum.epochs > 2 * last, "{sum:?}: too quiet");
        assert!(last < 100 || sum.forgotten > 0 && sum.left > 0, "{sum:?}: too quiet");
    }
}

#[test]
fn registers_outlive_their_configurations() {
    assert_eventful(150, |seed| live_and_rest(seed, false, 0));
}

#[test]
fn registers_whose_members_decide_outlive_their_configurations() {
    assert_eventful(150, |seed| live_and_rest(seed, true, 0));
}

/// Everything that is moved, listed and forgotten takes several pages.
#[test]
fn registers_of_long_keys_outlive_their_configurations() {
    assert_eventful(5, |seed| live_and_rest(seed, false, LIST_BYTES_MAX / 3));
}

/// Whoever takes the group's place begins with what was answered last.
#[test]
fn registers_that_have_lived_long_end() {
    assert_eventful(150, live_and_end);
}

/// Each planted bug is caught by the same checks.
#[cfg(feature = "planted")]
mod planted {
    use quorate_protocol::planted::Planted;

    use super::harness::runs::assert_caught;

    #[test]
    #[ignore = "mutates the whole process: run alone"]
    fn planted_bugs_are_caught() {
        assert_caught(Planted::IN_REGISTER, 20_000, |seed| super::live_and_rest(seed, false, 0));
        let in_succession = Planted::IN_SUCCESSION.into_iter().chain([Planted::RegisterForgetsEarly]);
        assert_caught(in_succession, 20_000, |seed| super::live_and_rest(seed, true, 0));
        assert_caught([Planted::RegisterSealedAnswers], 20_000, super::live_and_end);
    }
}
