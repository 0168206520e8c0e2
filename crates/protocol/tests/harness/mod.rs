//! A cluster of one group in memory: a clock, a network whose packets the test delivers, disks that lose what is not
//! synced, and the rules that every run must obey, checked as it goes.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

pub mod agreement;
pub mod chain;
pub mod golden;
pub mod group;
pub mod linear;
pub mod network;
pub mod register;
pub mod runs;
pub mod weather;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_protocol::effect::{After, Cx, Effect, Effects, Event, Proposal, Refusal, Replica};
use quorate_protocol::id::{Configuration, Epoch, GroupId, Instant, NodeId, Slot, Stamp, Value};
use quorate_protocol::paxos::{Message, Paxos, Position, Record};
use quorate_protocol::peers::{self, Peers, Timing};
use quorate_protocol::quorum::QuorumSystem;

use self::agreement::Agreement;
pub use self::group::Group;
use self::network::Network;

#[derive(Clone, Debug)]
pub enum Body {
    Paxos(Message),
    Peer(peers::Message),
    Snapshot(Position, Vec<Value>),
    /// The sender's replica neither votes nor serves any more in this start of its node.
    Silent,
}

/// What is said, in which start of the sender, and in which epoch of its replica.
#[derive(Clone, Debug)]
pub struct Said {
    start: u32,
    epoch: Epoch,
    body: Body,
}

impl Said {
    /// When the first nodes have just started.
    pub fn at_first(message: Message) -> Said {
        Said { start: 1, epoch: Epoch(1), body: Body::Paxos(message) }
    }
}

pub type Packet = network::Packet<Said>;

/// What a node's disk holds: a checkpoint with its objects, and the log after it.
#[derive(Clone, Default)]
pub struct Disk {
    pub checkpoint: Option<(Position, Vec<Value>)>,
    pub log: Vec<Record>,
}

pub struct Node {
    pub id: NodeId,
    /// As this node has it on disk.
    pub configuration: Arc<Configuration>,
    pub replica: Option<Paxos>,
    /// Its replica has been given up in this start, and it says so to whoever speaks to it.
    pub silent: bool,
    /// Until then it hears nobody: its next configuration is near.
    pub bound: Option<Instant>,
    /// The latest start of each node that was heard of since the own one.
    heard: BTreeMap<NodeId, u32>,
    pub peers: Peers,
    pub disk: Disk,
    /// Appended, not synced.
    pub unsynced: Vec<Record>,
    /// What waits until they are on disk.
    held: VecDeque<(NodeId, Message)>,
    /// The objects: everything executed.
    pub executed: Vec<Value>,
    pub start_number: u32,
    /// Lease clocks have no common origin.
    clock_offset: u64,
}

pub struct Cluster {
    pub configuration: Arc<Configuration>,
    pub nodes: Vec<Node>,
    pub now: Instant,
    pub random: Random,
    pub network: Network<Said>,
    pub trace: Option<String>,
    pub agreement: Agreement,
    /// By token: how many slots were executed anywhere when the read was asked for.
    reads: BTreeMap<u64, usize>,
    pub reads_answered: usize,
    pub nonsense_count: u64,
    /// Every event of every node with what it was told of the world, if wanted.
    pub events: Option<Vec<Recorded>>,
    pub synced_at_once: bool,
    pub wants_frontiers: bool,
    pub proposes_late: bool,
}

pub struct Recorded {
    pub node: NodeId,
    pub now: Instant,
    pub stamp: Stamp,
    pub random: u64,
    pub peers: Peers,
    pub event: Event<Message>,
}

/// xorshift64*.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.bits() >> 16) % bound
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

impl Cluster {
    pub fn new(count: u32, quorum: QuorumSystem, seed: u64) -> Cluster {
        Cluster::with_spares(count, 0, quorum, seed)
    }

    /// With nodes that are no members.
    pub fn with_spares(count: u32, spares: u32, quorum: QuorumSystem, seed: u64) -> Cluster {
        let members: Arc<[NodeId]> = (1..=count).map(NodeId).collect();
        let configuration = Arc::new(Configuration { group: GroupId(1), epoch: Epoch(1), members, quorum });
        let mut cluster = Cluster {
            nodes: Vec::new(),
            now: Instant(10_000_000),
            random: Random::new(seed),
            network: Network::new(),
            trace: None,
            agreement: Agreement::default(),
            reads: BTreeMap::new(),
            reads_answered: 0,
            nonsense_count: 0,
            events: None,
            synced_at_once: false,
            wants_frontiers: true,
            proposes_late: false,
            configuration,
        };
        for id in (1..=count + spares).map(NodeId) {
            let clock_offset = u64::from(id.0) * 1_000_000_000;
            let configuration = cluster.configuration.clone();
            let replica = configuration.contains(id).then(|| Paxos::new(configuration.clone(), id));
            cluster.nodes.push(Node {
                id,
                configuration,
                replica,
                silent: false,
                bound: None,
                heard: BTreeMap::new(),
                peers: Peers::new(Timing::default(), Instant(0), 1),
                disk: Disk::default(),
                unsynced: Vec::new(),
                held: VecDeque::new(),
                executed: Vec::new(),
                start_number: 1,
                clock_offset,
            });
        }
        for index in 0..cluster.nodes.len() {
            let Node { id, clock_offset, .. } = cluster.nodes[index];
            cluster.nodes[index].peers = cluster.new_peers(id, clock_offset, 1);
        }
        cluster
    }

    fn new_peers(&self, me: NodeId, clock_offset: u64, start_number: u32) -> Peers {
        let now = Instant(self.now.0 + clock_offset);
        let mut peers = Peers::new(Timing::default(), now, start_number);
        for node in self.ids().into_iter().filter(|&node| node != me) {
            peers.add(node, now);
        }
        peers
    }

    pub fn index(&self, id: NodeId) -> usize {
        self.nodes.iter().position(|node| node.id == id).expect("a node")
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[self.index(id)]
    }

    pub fn is_up(&self, id: NodeId) -> bool {
        self.node(id).replica.is_some()
    }

    pub fn clock(&self, id: NodeId) -> Instant {
        Instant(self.now.0 + self.node(id).clock_offset)
    }

    /// Runs one step and all that follows from it at once.
    pub fn step(&mut self, id: NodeId, event: Event<Message>) {
        let index = self.index(id);
        let now = self.clock(id);
        let (stamp, random) = (Stamp(self.now.0 / 1000), self.random.bits());
        if let Some(events) = &mut self.events {
            let peers = self.nodes[index].peers.clone();
            events.push(Recorded { node: id, now, stamp, random, peers, event: event.clone() });
        }
        let node = &mut self.nodes[index];
        let Some(replica) = node.replica.as_mut().filter(|_| !node.silent) else { return };
        let mut out = Effects::default();
        let nonsense_count = &mut self.nonsense_count;
        let (wants_frontiers, proposes_late) = (self.wants_frontiers, self.proposes_late);
        let mut cx =
            Cx { me: id, now, stamp, random, peers: &node.peers, wants_frontiers, proposes_late, nonsense_count };
        replica.step(&mut cx, event, &mut out);
        replica.check();
        for effect in out.list {
            self.perform(id, effect);
        }
        if self.synced_at_once {
            self.sync(id);
        }
    }

    fn perform(&mut self, id: NodeId, effect: Effect<Paxos>) {
        let index = self.index(id);
        let quiet = matches!(&effect, Effect::Send { to, .. } if *to == id);
        if self.trace.is_some() && !quiet {
            self.say(&format!("  {id} {effect:?}"));
        }
        let node = &mut self.nodes[index];
        match effect {
            Effect::Persist(record) => node.unsynced.push(record),
            Effect::Send { to, message, after } => {
                if after == After::Durable && !node.unsynced.is_empty() {
                    node.held.push_back((to, message));
                } else {
                    self.send(id, to, message);
                }
            }
            Effect::Decided { slot, value, .. } => self.agreement.execute(id, &mut node.executed, slot, value),
            Effect::Readable { token } => self.read(id, token),
            Effect::Refused { proposal, why } => self.refuse(proposal, why),
            Effect::CatchUp { peer, from } => self.catch_up(id, peer, from),
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        if from == to {
            self.step(to, Event::Received { from, message });
        } else {
            self.post(from, to, Body::Paxos(message));
        }
    }

    pub fn post(&mut self, from: NodeId, to: NodeId, body: Body) {
        let Node { start_number: start, configuration, .. } = self.node(from);
        let said = Said { start: *start, epoch: configuration.epoch, body };
        self.network.post(from, to, said);
    }

    /// Linearizability: what was executed anywhere before the read was asked for is seen.
    fn read(&mut self, id: NodeId, token: u64) {
        let asked_at = self.reads.remove(&token).expect("asked for once");
        let seen = self.node(id).executed.len();
        assert!(seen >= asked_at, "{id} reads {seen} slots, {asked_at} were executed before the read {token}");
        self.reads_answered += 1;
    }

    fn refuse(&mut self, proposal: Proposal, why: Refusal) {
        self.agreement.refuse(&proposal, why);
        if let Proposal::Read { token, .. } = proposal {
            self.reads.remove(&token).expect("asked for once");
        }
    }

    /// As a host does: from the log where it reaches back so far, else by a snapshot.
    fn catch_up(&mut self, id: NodeId, peer: NodeId, from: Slot) {
        let node = self.node(id);
        let next_slot = node.replica.as_ref().map_or(Slot(0), Paxos::next_slot);
        let mut values: BTreeMap<Slot, Value> = BTreeMap::new();
        for (slot, value) in node.disk.log.iter().chain(&node.unsynced).filter_map(Record::entry) {
            if slot >= from && slot < next_slot {
                values.insert(slot, value.clone());
            }
        }
        let complete = values.len() as u64 == next_slot.0 - from.0;
        let body = if complete {
            Body::Paxos(Message::Learn { slots: values.into_iter().collect(), next_slot })
        } else {
            let position = node.replica.as_ref().expect("it has just stepped").position();
            Body::Snapshot(position, node.executed.clone())
        };
        self.post(id, peer, body);
    }

    pub fn propose(&mut self, id: NodeId, proposal: Proposal) {
        if let Proposal::Read { token, .. } = proposal {
            let executed = self.nodes.iter().map(|node| node.executed.len()).max().unwrap_or(0);
            self.reads.insert(token, executed);
        }
        if self.node(id).silent {
            self.tell_silent(id);
        } else if self.is_up(id) {
            self.step(id, Event::Proposed(proposal));
        }
    }

    /// As the host does: a message of an earlier start is told from one of a later, and a later start takes back what the
    /// one before it said of itself. True if this one is of an earlier start.
    fn hears_of_start(&mut self, id: NodeId, from: NodeId, start: u32) -> bool {
        let index = self.index(id);
        let node = &mut self.nodes[index];
        let heard = node.heard.entry(from).or_insert(start);
        let is_late = start < *heard;
        if start > *heard
            && let Some(replica) = &mut node.replica
        {
            replica.forget_silence(from);
        }
        *heard = start.max(*heard);
        is_late
    }

    /// The replica is given up: from now on its node only says so.
    pub fn silence(&mut self, id: NodeId) {
        let index = self.index(id);
        self.nodes[index].silent = true;
        self.tell_silent(id);
    }

    fn tell_silent(&mut self, id: NodeId) {
        for to in self.ids().into_iter().filter(|&to| to != id) {
            self.post(id, to, Body::Silent);
        }
    }

    pub fn install(&mut self, id: NodeId, position: Position, values: Vec<Value>) {
        let index = self.index(id);
        let node = &mut self.nodes[index];
        let Some(replica) = &mut node.replica else { return };
        if position.next_slot <= replica.next_slot() {
            return;
        }
        replica.restore(Record::Checkpoint(position));
        replica.check();
        node.executed = values;
        self.say(&format!("{id} installs a snapshot up to {:?}", position.next_slot));
        self.checkpoint(id);
        self.step(id, Event::Woken);
    }

    /// Saves the objects and forgets the log that they make superfluous.
    pub fn checkpoint(&mut self, id: NodeId) {
        self.sync(id);
        let index = self.index(id);
        let node = &mut self.nodes[index];
        let Some(replica) = &node.replica else { return };
        let position = replica.position();
        node.disk.checkpoint = Some((position, node.executed.clone()));
        node.disk.log.retain(|record| record.entry().is_some_and(|(slot, _)| slot >= position.next_slot));
    }

    /// Leaves memory with what it has accepted, and is woken at once: nobody could tell from when it is woken later.
    pub fn set_aside(&mut self, id: NodeId) {
        let index = self.index(id);
        let Node { silent: false, replica: Some(replica), .. } = &mut self.nodes[index] else { return };
        let mut out = Effects::default();
        replica.set_aside(&mut out);
        replica.check();
        for effect in out.list {
            self.perform(id, effect);
        }
        self.checkpoint(id);
        let node = &mut self.nodes[index];
        let Some(replica) = node.replica.as_ref().filter(|replica| replica.is_aside()) else { return };
        node.disk.log = replica.accepted().collect();
        let (woken, _) = recover(&node.configuration, id, &node.disk, node.disk.log.len());
        assert_eq!(woken.position(), replica.position(), "the position of {id}");
        assert!(woken.accepted().eq(replica.accepted()), "what {id} has accepted");
        let is_idle = woken.is_idle();
        node.replica = Some(woken);
        self.say(&format!("  {id} is set aside and woken"));
        if !is_idle {
            self.step(id, Event::Woken);
        }
    }

    pub fn crash(&mut self, id: NodeId) {
        let index = self.index(id);
        let node = &mut self.nodes[index];
        node.replica = None;
        node.unsynced.clear();
        node.held.clear();
        node.silent = false;
        node.bound = None;
        node.heard.clear();
    }

    pub fn restart(&mut self, id: NodeId) {
        let index = self.index(id);
        let node = &mut self.nodes[index];
        node.start_number += 1;
        let (clock_offset, start_number) = (node.clock_offset, node.start_number);
        let (replica, executed) = recover(&node.configuration, id, &node.disk, node.disk.log.len());
        node.replica = Some(replica);
        node.executed = executed;
        self.nodes[index].peers = self.new_peers(id, clock_offset, start_number);
        if self.nodes[index].replica.as_ref().is_some_and(|replica| !replica.is_idle()) {
            self.step(id, Event::Woken);
        }
    }

    pub fn heartbeat(&mut self, from: NodeId) {
        let sent_at = self.clock(from);
        for to in self.ids().into_iter().filter(|&to| to != from) {
            self.post(from, to, Body::Peer(peers::Message::Heartbeat { sent_at }));
        }
    }
}

impl Group for Cluster {
    type Load = Said;

    fn ids(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    fn now(&mut self) -> &mut Instant {
        &mut self.now
    }

    fn network(&mut self) -> &mut Network<Said> {
        &mut self.network
    }

    fn trace(&mut self) -> &mut Option<String> {
        &mut self.trace
    }

    fn sync(&mut self, id: NodeId) {
        let index = self.index(id);
        loop {
            let node = &mut self.nodes[index];
            node.disk.log.append(&mut node.unsynced);
            let Some((to, message)) = node.held.pop_front() else { return };
            self.send(id, to, message);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let Packet { from, to, load: Said { start, epoch, body } } = packet;
        if !self.is_up(to) {
            return;
        }
        let now = self.clock(to);
        let index = self.index(to);
        self.nodes[index].peers.heard(from, now);
        let is_late = self.hears_of_start(to, from, start);
        let concerns_replica = matches!(body, Body::Paxos(_) | Body::Snapshot(..));
        // Members of one epoch do not hear those of another.
        let node = &self.nodes[index];
        if (node.bound.is_some() || node.configuration.epoch != epoch) && !matches!(body, Body::Peer(_)) {
            return;
        }
        if self.nodes[index].silent && concerns_replica {
            return self.tell_silent(to);
        }
        match body {
            Body::Silent if is_late => {}
            Body::Silent => {
                if self.trace.is_some() {
                    self.say(&format!("{from} -> {to} silent"));
                }
                self.step(to, Event::Silenced(from));
            }
            Body::Paxos(message) => {
                if self.trace.is_some() {
                    self.say(&format!("{from} -> {to} {message:?}"));
                }
                self.step(to, Event::Received { from, message });
            }
            Body::Peer(peers::Message::Heartbeat { sent_at }) => {
                if let Some(answer) = self.nodes[index].peers.handle_heartbeat(from, sent_at, now) {
                    self.post(to, from, Body::Peer(answer));
                }
            }
            Body::Peer(peers::Message::Grant { sent_at, number }) => {
                self.nodes[index].peers.handle_grant(from, sent_at, number);
            }
            Body::Snapshot(position, values) => self.install(to, position, values),
        }
    }

    /// The detector's and the timer's turn at one node.
    fn attend(&mut self, id: NodeId) {
        if !self.is_up(id) {
            return;
        }
        let now = self.clock(id);
        let index = self.index(id);
        for suspect in self.nodes[index].peers.suspect(now) {
            self.step(id, Event::Suspected(suspect));
        }
        let replica = self.nodes[index].replica.as_ref();
        if replica.and_then(Paxos::wake_at).is_some_and(|at| at <= now) {
            self.step(id, Event::Woken);
        }
    }

    fn exchange_heartbeats(&mut self) {
        let nodes = self.ids();
        for (from, to) in nodes.iter().flat_map(|&from| nodes.iter().map(move |&to| (from, to))) {
            let connected = from != to && self.network.connects(from, to) && self.is_up(from) && self.is_up(to);
            if !connected {
                continue;
            }
            let (sent_at, answered_at) = (self.clock(from), self.clock(to));
            let (asker, giver) = (self.index(from), self.index(to));
            self.hears_of_start(to, from, self.nodes[asker].start_number);
            self.nodes[giver].peers.heard(from, answered_at);
            let answer = self.nodes[giver].peers.handle_heartbeat(from, sent_at, answered_at);
            if let Some(peers::Message::Grant { sent_at, number }) = answer.filter(|_| self.network.connects(to, from))
            {
                self.nodes[asker].peers.heard(to, sent_at);
                self.nodes[asker].peers.handle_grant(to, sent_at, number);
            }
        }
    }
}

/// A replica from a disk of which only the first `count` records of the log were written.
pub fn recover(configuration: &Arc<Configuration>, id: NodeId, disk: &Disk, count: usize) -> (Paxos, Vec<Value>) {
    let mut replica = Paxos::new(configuration.clone(), id);
    let mut executed = Vec::new();
    if let Some((position, values)) = &disk.checkpoint {
        replica.restore(Record::Checkpoint(*position));
        executed.clone_from(values);
    }
    for record in &disk.log[..count] {
        replica.restore(record.clone());
    }
    replica.restored();
    replica.check();
    (replica, executed)
}
