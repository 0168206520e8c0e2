//! Random runs in which members are replaced: the parent decides it, each node hears of it when it does, and whoever takes a seat is
//! taken in by the others. Some members forget everything as well. The harness checks agreement, refusals and reads; in the end all
//! that is under way must come to its end, and the group must decide.

mod harness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use harness::network::Roughness;
use harness::runs::runs;
use harness::{Cluster, Group, Random};
use quorate_protocol::effect::{Event, Proposal, ReadMode};
use quorate_protocol::id::{Configuration, Epoch, NodeId, Payload, Slot};
use quorate_protocol::paxos::{Paxos, Record, Testimony};
use quorate_protocol::quorum::QuorumSystem;

/// What the parent has decided: see docs/decisions/0033.
#[derive(Clone)]
struct Directory {
    configuration: Arc<Configuration>,
    /// Who leaves, unless there is to be a seat more, and who comes.
    change: Option<(Option<NodeId>, NodeId)>,
    unsettled: Option<NodeId>,
    /// In which epoch a node took its seat.
    entered: BTreeMap<NodeId, Epoch>,
}

impl Directory {
    /// Who sits where; to a node that is to come in, as it will be.
    fn seated(&self, me: NodeId) -> Configuration {
        let mut configuration = (*self.configuration).clone();
        if let Some((leaving, joining)) = self.change.filter(|(_, joining)| *joining == me) {
            configuration.members = with_seat(&configuration, leaving, joining);
        }
        configuration
    }

    fn is_joining(&self, node: NodeId) -> bool {
        self.change.is_some_and(|(_, joining)| joining == node)
    }

    fn lives_on(&self, node: NodeId) -> bool {
        self.configuration.contains(node) || self.is_joining(node)
    }

    fn is_word_of(&self, node: NodeId, epoch: Epoch) -> bool {
        !self.is_joining(node) && self.entered.get(&node).is_none_or(|&entered| entered <= epoch)
    }
}

fn with_seat(configuration: &Configuration, leaving: Option<NodeId>, joining: NodeId) -> Arc<[NodeId]> {
    let seats = configuration.members.iter().map(|&member| if Some(member) == leaving { joining } else { member });
    seats.chain(leaving.is_none().then_some(joining)).collect()
}

/// What a node has of the parent's word, and what its replica knows of itself.
#[derive(Default)]
struct Standing {
    /// On disk: which directory.
    version: usize,
    /// On disk: the replica may have forgotten what it said.
    is_forgetful: bool,
    /// How far the others had come, to a node that copies.
    heard: BTreeMap<NodeId, Slot>,
    testimonies: BTreeMap<NodeId, Testimony>,
    unnoticed: BTreeSet<NodeId>,
}

struct Run {
    cluster: Cluster,
    random: Random,
    network: Roughness,
    heartbeats: u64,
    forgets: bool,
    directories: Vec<Directory>,
    standings: BTreeMap<NodeId, Standing>,
    command_count: u64,
    token: u64,
    /// Newcomers that were taken in, and members that had forgotten.
    entered: usize,
    readmitted: usize,
    /// Seats that came to those that there were.
    widened: usize,
    /// How many percent of what a node does lead it to hear of what the parent has decided.
    follows: BTreeMap<NodeId, u64>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random::new(seed ^ 0x5ea7);
        let (count, quorum) = match random.below(10) {
            0 => (1 + random.below(2) as u32, QuorumSystem::Majority),
            1 => (4, QuorumSystem::Majority),
            2 => (5, QuorumSystem::Threshold { read: 4, write: 2 }),
            3 => (7, QuorumSystem::Majority),
            4..=6 => (5, QuorumSystem::Majority),
            _ => (3, QuorumSystem::Majority),
        };
        let network = Roughness {
            loss: random.below(4) * 5,
            repetition: random.below(4) * 5,
            reordering: random.below(3) * 30,
            lateness: random.chance(50).then(|| random.below(20)),
        };
        let cluster = Cluster::with_spares(count, 1 + random.below(3) as u32, quorum, seed);
        let first = Directory {
            configuration: cluster.configuration.clone(),
            change: None,
            unsettled: None,
            entered: BTreeMap::new(),
        };
        Run {
            network,
            heartbeats: random.below(3) * 45,
            forgets: random.chance(30),
            follows: cluster.ids().into_iter().map(|id| (id, [1, 10, 50][random.below(3) as usize])).collect(),
            directories: vec![first],
            standings: cluster.ids().into_iter().map(|id| (id, Standing::default())).collect(),
            command_count: 0,
            token: 0,
            entered: 0,
            readmitted: 0,
            widened: 0,
            cluster,
            random,
        }
    }

    fn any_node(&mut self) -> NodeId {
        let count = self.cluster.nodes.len() as u64;
        self.cluster.nodes[self.random.below(count) as usize].id
    }

    fn any_of(&mut self, nodes: &[NodeId]) -> Option<NodeId> {
        (!nodes.is_empty()).then(|| nodes[self.random.below(nodes.len() as u64) as usize])
    }

    fn newest(&self) -> &Directory {
        self.directories.last().expect("there is a first one")
    }

    fn standing(&mut self, id: NodeId) -> &mut Standing {
        self.standings.get_mut(&id).expect("each has one")
    }

    /// The directory as this node knows it.
    fn known_to(&self, id: NodeId) -> &Directory {
        &self.directories[self.standings[&id].version]
    }

    fn replica(&mut self, id: NodeId) -> Option<&mut Paxos> {
        let index = self.cluster.index(id);
        self.cluster.nodes[index].replica.as_mut()
    }

    fn next_slot(&self, id: NodeId) -> Slot {
        self.cluster.node(id).replica.as_ref().map_or(Slot(0), Paxos::next_slot)
    }

    /// Its replica takes part.
    fn is_alive(&self, id: NodeId) -> bool {
        let node = self.cluster.node(id);
        node.replica.is_some() && !node.silent
    }

    fn others(&self, id: NodeId) -> Vec<NodeId> {
        let members = self.cluster.node(id).configuration.members.iter();
        members.copied().filter(|&member| member != id).collect()
    }

    /// Those of the others that answer: members of the same epoch that take part.
    fn answering(&self, id: NodeId) -> Vec<NodeId> {
        let epoch = self.cluster.node(id).configuration.epoch;
        let answers = |other: &NodeId| {
            let network = &self.cluster.network;
            let is_there = self.is_alive(*other) && self.cluster.node(*other).configuration.epoch == epoch;
            is_there && network.connects(id, *other) && network.connects(*other, id)
        };
        self.others(id).into_iter().filter(answers).collect()
    }

    fn command(&mut self) -> Payload {
        self.command_count += 1;
        Arc::from(format!("c{}", self.command_count).as_bytes())
    }

    /// Where the host would send a client: mostly to whom it believes to coordinate, if that is a member.
    fn proposer(&mut self) -> NodeId {
        let id = self.any_node();
        let node = self.cluster.node(id);
        let believed = node.replica.as_ref().map(Paxos::coordinator);
        let is_believed = self.random.chance(80);
        believed.filter(|coordinator| is_believed && node.configuration.contains(*coordinator)).unwrap_or(id)
    }

    fn act(&mut self) {
        let node = self.any_node();
        match self.random.below(100) {
            0..=39 => self.cluster.deliver_some(&mut self.random, self.network),
            40..=49 => self.cluster.sync(node),
            50..=57 => {
                let (at, command) = (self.proposer(), self.command());
                self.cluster.propose(at, Proposal::Commands(command));
            }
            58..=64 => self.cluster.pass_time(&mut self.random, self.heartbeats),
            65..=67 if self.cluster.is_up(node) => self.cluster.heartbeat(node),
            68..=72 => self.read(),
            73 => self.cluster.checkpoint(node),
            74 if self.random.chance(50) => self.crash_or_restart(node),
            75 if self.random.chance(20) => self.forget(node),
            76 if self.network.lateness.is_some() => self.cluster.network.release(),
            77 => self.cluster.turn_links(&mut self.random),
            78 => {
                let at = self.proposer();
                self.cluster.propose(at, Proposal::HandOver { to: node });
            }
            79 => self.replace(false),
            80 if self.random.chance(10) => self.keep(),
            _ => self.tend(node),
        }
    }

    fn read(&mut self) {
        self.token += 1;
        let at = self.proposer();
        let mode = if self.random.chance(30) { ReadMode::Quorum } else { ReadMode::Lease };
        self.cluster.propose(at, Proposal::Read { token: self.token, mode });
    }

    fn crash_or_restart(&mut self, id: NodeId) {
        if self.cluster.is_up(id) {
            self.cluster.crash(id);
        } else {
            self.restart(id);
        }
    }

    fn restart(&mut self, id: NodeId) {
        let standing = self.standing(id);
        let Standing { version, is_forgetful, .. } = *standing;
        *standing = Standing { version, is_forgetful, ..Standing::default() };
        if !self.known_to(id).lives_on(id) {
            return;
        }
        let index = self.cluster.index(id);
        self.cluster.nodes[index].silent = is_forgetful;
        self.cluster.restart(id);
    }

    /// All that a member ever said is gone. One at a time, and none while another knows nothing.
    fn forget(&mut self, id: NodeId) {
        let is_other = self.standings.values().any(|standing| standing.is_forgetful);
        let is_spare = !self.newest().configuration.contains(id) || self.newest().configuration.members.len() < 3;
        let loses_all = self.cluster.configuration.quorum != QuorumSystem::Majority;
        let is_settled = self.newest().change.is_none() && self.newest().unsettled.is_none();
        if !self.forgets || is_other || is_spare || loses_all || !is_settled {
            return;
        }
        self.cluster.say(&format!("{id} forgets"));
        self.cluster.crash(id);
        let index = self.cluster.index(id);
        self.cluster.nodes[index].disk = harness::Disk::default();
        self.standing(id).is_forgetful = true;
        // What it has said of how far it was is old by the time it may be relied on.
        for standing in self.standings.values_mut() {
            standing.heard.remove(&id);
        }
        self.restart(id);
    }
}

/// What the parent decides.
impl Run {
    /// A member, or whoever has entered and does not take part. Or a node comes beside all members.
    fn replace(&mut self, is_urgent: bool) {
        let Directory { configuration, change, unsettled, .. } = self.newest().clone();
        let members = configuration.members.to_vec();
        let spares: Vec<NodeId> = self.cluster.ids().into_iter().filter(|id| !members.contains(id)).collect();
        let leaving = unsettled.or_else(|| self.any_of(&members));
        let may_widen = configuration.quorum == QuorumSystem::Majority && unsettled.is_none();
        let leaving = leaving.filter(|_| members.len() > 1 && !(may_widen && self.random.chance(30)));
        let joining = self.any_of(&spares);
        if let (None, Some(joining)) = (change, joining)
            && (unsettled.is_none() || is_urgent || self.random.chance(5))
        {
            self.decide(|directory| directory.change = Some((leaving, joining)));
        }
    }

    fn keep(&mut self) {
        if self.newest().change.is_some() {
            self.decide(|directory| directory.change = None);
        }
    }

    fn decide(&mut self, command: impl FnOnce(&mut Directory)) {
        let mut next = self.newest().clone();
        command(&mut next);
        let Directory { configuration, change, unsettled, .. } = &next;
        let line = format!(
            "{:?} {:?}, change {change:?}, unsettled {unsettled:?}",
            configuration.epoch, configuration.members
        );
        self.cluster.say(&line);
        self.directories.push(next);
    }
}

/// What a node does about its seat.
impl Run {
    fn tend(&mut self, id: NodeId) {
        if self.standings[&id].version + 1 < self.directories.len() && self.random.chance(self.follows[&id]) {
            return self.follow(id);
        }
        if !self.cluster.is_up(id) {
            return;
        }
        if !self.cluster.node(id).silent {
            return self.settle(id);
        }
        match self.known_to(id).is_joining(id) {
            true => self.copy(id),
            false => self.seek(id),
        }
    }

    /// The newest directory is on the node's disk, and the replica goes by it.
    fn follow(&mut self, id: NodeId) {
        let directory = self.newest().clone();
        if !directory.lives_on(id) {
            self.cluster.crash(id);
            let index = self.cluster.index(id);
            self.cluster.nodes[index].disk = harness::Disk::default();
            self.cluster.nodes[index].executed.clear();
            *self.standing(id) = Standing { version: self.directories.len() - 1, ..Standing::default() };
            return;
        }
        let is_member = self.known_to(id).lives_on(id);
        if is_member && !self.cluster.is_up(id) {
            // It hears of nothing.
            return;
        }
        let next = Arc::new(directory.seated(id));
        if !is_member {
            return self.bear(id, next);
        }
        if !self.take_seats(id, next, &directory) {
            return;
        }
        self.standing(id).version = self.directories.len() - 1;
    }

    fn bear(&mut self, id: NodeId, configuration: Arc<Configuration>) {
        *self.standing(id) =
            Standing { version: self.directories.len() - 1, is_forgetful: true, ..Standing::default() };
        let index = self.cluster.index(id);
        let node = &mut self.cluster.nodes[index];
        node.replica = None;
        node.configuration = configuration;
        node.silent = true;
        self.cluster.restart(id);
    }

    /// False if it has to wait for what whoever leaves may believe in.
    fn take_seats(&mut self, id: NodeId, next: Arc<Configuration>, directory: &Directory) -> bool {
        let index = self.cluster.index(id);
        let now = self.cluster.clock(id);
        let before = self.cluster.nodes[index].configuration.clone();
        if before == next {
            return true;
        }
        let node = &mut self.cluster.nodes[index];
        let replica = node.replica.as_mut().expect("it is up");
        let holder = replica.coordinator();
        let has_left = holder != id && before.contains(holder) && !next.contains(holder);
        if has_left && !node.silent {
            let until = *node.bound.get_or_insert_with(|| node.peers.break_grant(holder, now));
            if now < until {
                return false;
            }
        }
        node.bound = None;
        node.configuration = next.clone();
        replica.take_seats(next.clone(), now);
        let is_word = directory.is_word_of(id, before.epoch);
        if !is_word && !node.silent {
            node.silent = true;
            replica.restored();
        }
        let is_silent = node.silent;
        let standing = self.standing(id);
        *standing = Standing { is_forgetful: is_silent || standing.is_forgetful, ..Standing::default() };
        if !is_silent {
            for node in before.members.iter().copied().filter(|node| !next.contains(*node)) {
                self.cluster.step(id, Event::Suspected(node));
            }
            self.cluster.step(id, Event::Woken);
        }
        true
    }

    /// A copy of what the others have, and the seat once it is close.
    fn copy(&mut self, id: NodeId) {
        // One that would be silent after a start is not well.
        let mut well = self.answering(id);
        well.retain(|other| !self.standings[other].is_forgetful);
        if let Some(other) = self.any_of(&well) {
            let reached = self.next_slot(other);
            self.standing(id).heard.insert(other, reached);
            self.catch_up(id, other);
        }
        let next_slot = self.next_slot(id);
        let heard = &self.standings[&id].heard;
        let are_heard = self.others(id).iter().all(|other| heard.contains_key(other));
        let is_close = are_heard && heard.values().all(|reached| *reached <= next_slot);
        if is_close && self.newest().is_joining(id) && self.random.chance(30) {
            self.widened += usize::from(self.newest().change.is_some_and(|(leaving, _)| leaving.is_none()));
            self.decide(|directory| {
                let (leaving, joining) = directory.change.take().expect("it joins");
                let mut next = (*directory.configuration).clone();
                next.members = with_seat(&next, leaving, joining);
                next.epoch = Epoch(next.epoch.0 + 1);
                leaving.map(|leaving| directory.entered.remove(&leaving));
                directory.entered.insert(joining, next.epoch);
                directory.unsettled = Some(joining);
                directory.configuration = Arc::new(next);
            });
        }
    }

    fn catch_up(&mut self, id: NodeId, from: NodeId) {
        let node = self.cluster.node(from);
        let (position, executed) = (node.replica.as_ref().expect("it answers").position(), node.executed.clone());
        self.cluster.install(id, position, executed);
    }

    /// Who has forgotten, or has a seat and knows nothing, asks the others.
    fn seek(&mut self, id: NodeId) {
        let answering = self.answering(id);
        let Some(other) = self.any_of(&answering) else { return };
        let testimonies = &self.standings[&id].testimonies;
        let reached = testimonies.values().map(|testimony| testimony.next_slot).max();
        if testimonies.len() < self.others(id).len() {
            let now = self.cluster.clock(other);
            self.cluster.sync(other);
            let testimony = self.replica(other).expect("it answers").testify(id, now);
            self.standing(id).testimonies.insert(other, testimony);
            return self.cluster.step(other, Event::Woken);
        }
        if reached > Some(self.next_slot(id)) {
            return self.catch_up(id, other);
        }
        self.take_part(id);
    }

    fn take_part(&mut self, id: NodeId) {
        let testimonies = std::mem::take(&mut self.standing(id).testimonies);
        match self.newest().unsettled == Some(id) {
            true => self.entered += 1,
            false => self.readmitted += 1,
        }
        let unnoticed = self.others(id).into_iter().collect();
        self.standing(id).unnoticed = unnoticed;
        let index = self.cluster.index(id);
        let node = &mut self.cluster.nodes[index];
        let replica = node.replica.as_mut().expect("it is up");
        replica.readmit(testimonies.into_values());
        node.silent = false;
        node.unsynced.push(Record::Promised { ballot: replica.status().ballot });
        node.unsynced.extend(replica.accepted());
        self.cluster.step(id, Event::Suspected(id));
        self.cluster.step(id, Event::Woken);
    }

    /// Whoever takes part again tells all, knows it after a start once that is on its disk, and then another member may change.
    fn settle(&mut self, id: NodeId) {
        let unnoticed: Vec<NodeId> = self.standings[&id].unnoticed.iter().copied().collect();
        let answering = self.answering(id);
        for other in unnoticed.into_iter().filter(|other| answering.contains(other)) {
            self.replica(other).expect("it answers").forget_silence(id);
            self.standing(id).unnoticed.remove(&other);
        }
        if self.standings[&id].is_forgetful {
            if self.random.chance(30) {
                self.cluster.checkpoint(id);
                self.standing(id).is_forgetful = false;
            }
            return;
        }
        let Directory { unsettled, configuration, .. } = self.newest();
        if *unsettled == Some(id) && configuration.epoch == self.cluster.node(id).configuration.epoch {
            self.decide(|directory| directory.unsettled = None);
        }
    }
}

impl Run {
    /// Healed, every change comes to its end, and the group decides what it is asked to.
    fn come_to_life(&mut self) {
        self.cluster.network.heal();
        self.cluster.network.release();
        for id in self.cluster.ids() {
            if !self.cluster.is_up(id) {
                self.restart(id);
            }
        }
        self.cluster.synced_at_once = true;
        self.follows.values_mut().for_each(|percent| *percent = 50);
        let mut last = u64::MAX;
        for turn in 0..6000 {
            self.cluster.calm_turn(turn);
            if turn % 1000 == 999 && self.newest().unsettled.is_some() {
                // Whoever has entered may have spoken before it forgot, and another one may wait for it to testify.
                self.replace(true);
            }
            for id in self.cluster.ids() {
                self.tend(id);
            }
            let newest = self.newest();
            let is_settled = newest.change.is_none() && newest.unsettled.is_none();
            let chosen = self.cluster.agreement.chosen.len() as u64;
            let members = newest.configuration.members.iter();
            let are_level = members.clone().all(|&id| self.is_alive(id) && self.next_slot(id).0 == chosen);
            if is_settled && are_level && chosen > last {
                return;
            }
            if turn.is_multiple_of(50) {
                if is_settled {
                    last = last.min(chosen);
                }
                let at = self.proposer();
                let command = self.command();
                self.cluster.propose(at, Proposal::Commands(command));
            }
        }
        println!("{}", self.cluster.trace.take().unwrap_or_default());
        for node in &self.cluster.nodes {
            let Standing { version, is_forgetful, testimonies, heard, .. } = &self.standings[&node.id];
            let testified: Vec<_> = testimonies.keys().collect();
            println!(
                "{}: {:?}, directory {version}, silent {}, forgetful {is_forgetful}, {testified:?} testified, {heard:?}",
                node.id, node.configuration, node.silent
            );
            println!("    {:?}", node.replica.as_ref().map(Paxos::status));
        }
        let Directory { configuration, change, unsettled, .. } = self.newest();
        let version = self.directories.len() - 1;
        panic!(
            "no life within 60 s: directory {version}, {configuration:?}, change {change:?}, unsettled {unsettled:?}"
        );
    }
}

fn run(seed: u64) -> Run {
    let mut run = Run::new(seed);
    if std::env::var_os("TRACE").is_some() {
        run.cluster.trace = Some(String::new());
    }
    if run.random.chance(70) {
        (0..60).for_each(|turn| run.cluster.calm_turn(turn));
    }
    for _ in 0..400 + run.random.below(1600) {
        run.act();
    }
    run.come_to_life();
    run
}

#[test]
fn members_are_replaced_in_any_weather_and_nothing_is_lost() {
    let mut counts = [0; 5];
    for run in runs(2000, run) {
        let Run { entered, readmitted, widened, .. } = run;
        let more = [entered, readmitted, widened, run.cluster.agreement.chosen.len(), run.cluster.reads_answered];
        counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
    }
    println!("entered, readmitted, widened, slots, reads: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// Each planted bug is caught by the rules that the harness checks.
#[cfg(feature = "planted")]
mod planted {
    use quorate_protocol::planted::Planted;

    use super::harness::runs::assert_caught;

    #[test]
    #[ignore = "mutates the whole process: run alone"]
    fn planted_bugs_are_caught() {
        assert_caught(Planted::IN_SEATS, 30_000, super::run);
    }
}
