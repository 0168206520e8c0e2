//! A chain in memory: nodes with drifting clocks and disks that lose what is not synced, a network whose packets the test
//! delivers, a toy parent that keeps the rules of `Membership`, and what must hold of every run, checked as it goes.

pub mod checks;
pub mod parent;
pub mod script;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;

use checks::Checks;
use parent::Parent;
use quorate_protocol::chain::{Body, Chain, Membership, Message, Place, Position, Record, Request};
use quorate_protocol::effect::{After, Cx, Effect, Effects, Event, Proposal, Replica};
use quorate_protocol::id::{Epoch, Instant, NodeId, Slot, Stamp, Value};
use quorate_protocol::peers::{Peers, Timing};

use super::network::{self, Network};
use super::{Group, Random};

/// Where the parent is.
pub const PARENT: NodeId = NodeId(0);

#[derive(Clone, Debug)]
pub enum Load {
    Chain(Message),
    Snapshot(Position, Vec<Value>),
    /// To the parent: may I go on?
    LeaseWanted {
        epoch: Epoch,
        asked_at: Instant,
    },
    /// From the parent: until when, on the asker's clock.
    Lease {
        epoch: Epoch,
        until: Instant,
    },
    Told(Arc<Membership>),
    /// To the parent: the joining node holds everything.
    Extended {
        epoch: Epoch,
    },
}

pub type Packet = network::Packet<Load>;

#[derive(Clone, Default)]
pub struct Disk {
    pub checkpoint: Option<(Position, Vec<Value>)>,
    pub log: Vec<Record>,
}

pub struct Node {
    pub id: NodeId,
    pub up: bool,
    /// `None` also if it has never been told of the chain.
    pub replica: Option<Chain>,
    /// The membership that its replica was born in, which a host keeps beside it.
    pub born: Option<Arc<Membership>>,
    pub disk: Disk,
    /// Appended, not synced.
    pub unsynced: Vec<Record>,
    /// What waits until they are on disk.
    held: VecDeque<(NodeId, Message)>,
    pub executed: Vec<Value>,
    clock_offset: u64,
    /// Parts in a million by which its clock is fast.
    pub drift_ppm: i64,
}

pub struct World {
    pub nodes: Vec<Node>,
    pub parent: Parent,
    pub now: Instant,
    pub random: Random,
    pub network: Network<Load>,
    pub trace: Option<String>,
    /// Prints the trace as it goes.
    pub aloud: bool,
    pub checks: Checks,
    pub nonsense_count: u64,
    /// Every event of every node, if wanted.
    pub events: Option<Vec<Recorded>>,
    pub synced_at_once: bool,
    /// Slots that a host sends at once of its log.
    pub learned_max: usize,
    peers: Peers,
}

pub struct Recorded {
    pub node: NodeId,
    pub now: Instant,
    pub stamp: Stamp,
    pub random: u64,
    pub event: Event<Message, Request>,
}

impl World {
    /// The first `members` of `count` nodes make the chain.
    pub fn new(count: u32, members: u32, seed: u64) -> World {
        let list: Arc<[NodeId]> = (1..=members).map(NodeId).collect();
        let membership = Arc::new(Membership { epoch: Epoch(1), members: list, joining: None });
        let now = Instant(10_000_000);
        let node = |id: NodeId| {
            let is_member = membership.place(id) != Place::Outside;
            Node {
                id,
                up: true,
                replica: is_member.then(|| Chain::new(membership.clone(), id)),
                born: is_member.then(|| membership.clone()),
                disk: Disk::default(),
                unsynced: Vec::new(),
                held: VecDeque::new(),
                executed: Vec::new(),
                clock_offset: u64::from(id.0) * 1_000_000_000,
                drift_ppm: 0,
            }
        };
        World {
            nodes: (1..=count).map(|id| node(NodeId(id))).collect(),
            parent: Parent::new(membership.clone()),
            now,
            random: Random::new(seed),
            network: Network::new(),
            trace: None,
            aloud: false,
            checks: Checks::default(),
            nonsense_count: 0,
            events: None,
            synced_at_once: false,
            learned_max: usize::MAX,
            peers: Peers::new(Timing::default(), now, 1),
        }
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize - 1]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize - 1]
    }

    pub fn replica(&self, id: NodeId) -> Option<&Chain> {
        self.node(id).replica.as_ref()
    }

    pub fn is_up(&self, id: NodeId) -> bool {
        self.node(id).up
    }

    pub fn clock(&self, id: NodeId) -> Instant {
        let node = self.node(id);
        let drift = self.now.0 as i64 * node.drift_ppm / 1_000_000;
        Instant((self.now.0 + node.clock_offset).saturating_add_signed(drift))
    }

    fn is_traced(&self) -> bool {
        self.trace.is_some() || self.aloud
    }

    /// Runs one step and all that follows from it at once.
    pub fn step(&mut self, id: NodeId, event: Event<Message, Request>) {
        if let Some(events) = &mut self.events {
            let (stamp, random) = (Stamp(self.now.0 / 1000), 0);
            let now = Instant(self.now.0 + self.nodes[id.0 as usize - 1].clock_offset);
            events.push(Recorded { node: id, now, stamp, random, event: event.clone() });
        }
        let (now, stamp) = (self.clock(id), Stamp(self.now.0 / 1000));
        let node = &mut self.nodes[id.0 as usize - 1];
        let Some(replica) = node.replica.as_mut().filter(|_| node.up) else { return };
        let mut out = Effects::default();
        let nonsense_count = &mut self.nonsense_count;
        let mut cx = Cx {
            me: id,
            now,
            stamp,
            random: 0,
            peers: &self.peers,
            wants_frontiers: true,
            proposes_late: false,
            nonsense_count,
        };
        replica.step(&mut cx, event, &mut out);
        replica.check();
        for effect in out.list {
            self.perform(id, effect);
        }
        checks::check_members(self);
        if self.synced_at_once {
            self.sync(id);
        }
    }

    fn perform(&mut self, id: NodeId, effect: Effect<Chain>) {
        let quiet = matches!(&effect, Effect::Send { to, .. } if *to == id);
        if self.is_traced() && !quiet {
            self.say(&format!("  {id} {effect:?}"));
        }
        let node = self.node_mut(id);
        match effect {
            Effect::Persist(record) => node.unsynced.push(record),
            Effect::Send { to, message, after } => {
                if after == After::Durable && !node.unsynced.is_empty() {
                    node.held.push_back((to, message));
                } else {
                    self.send(id, to, message);
                }
            }
            Effect::Decided { slot, value, .. } => checks::on_decided(self, id, slot, value),
            Effect::Readable { token } => {
                let seen = self.node(id).executed.len() as u64;
                self.checks.on_read(id, token, seen);
            }
            Effect::Refused { proposal, why } => self.checks.on_refused(proposal, why),
            Effect::Answered(answer) => match answer {},
            Effect::CatchUp { peer, from } => self.catch_up(id, peer, from),
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        if from == to {
            self.step(to, Event::Received { from, message });
        } else {
            self.network.post(from, to, Load::Chain(message));
        }
    }

    /// As a host does: from the log where it reaches back so far, else by a snapshot.
    fn catch_up(&mut self, id: NodeId, peer: NodeId, from: Slot) {
        let node = self.node(id);
        let replica = node.replica.as_ref().expect("it has just stepped");
        let next_slot = replica.next_slot();
        let mut values: BTreeMap<Slot, Value> = BTreeMap::new();
        for (slot, value) in node.disk.log.iter().chain(&node.unsynced).filter_map(Record::entry) {
            if slot >= from && slot < next_slot {
                values.insert(slot, value.clone());
            }
        }
        let complete = values.len() as u64 == next_slot.0 - from.0;
        let load = if complete {
            let slots: Vec<_> = values.into_iter().take(self.learned_max).collect();
            Load::Chain(Message { epoch: replica.epoch(), body: Body::Suffix { slots, frontier: next_slot } })
        } else {
            Load::Snapshot(replica.position(), node.executed.clone())
        };
        self.network.post(id, peer, load);
    }

    pub fn propose(&mut self, id: NodeId, proposal: Proposal) {
        if !self.is_up(id) || self.replica(id).is_none() {
            return;
        }
        self.checks.on_proposed(&proposal);
        self.step(id, Event::Proposed(proposal));
    }

    /// A read of the only object there is, at any member: from its own state if nothing is pending there.
    pub fn read_clean(&mut self, id: NodeId) -> Option<usize> {
        let now = self.clock(id);
        let node = self.node(id);
        let replica = node.replica.as_ref().filter(|_| node.up)?;
        if !replica.answers_clean(now) || replica.pending().next().is_some() {
            return None;
        }
        let seen = node.executed.len();
        self.checks.on_clean_read(id, seen as u64);
        Some(seen)
    }

    /// The parent's word to a node.
    pub fn tell(&mut self, id: NodeId, membership: Arc<Membership>) {
        if !self.is_up(id) {
            return;
        }
        if self.is_traced() {
            self.say(&format!("parent -> {id} {membership:?}"));
        }
        if self.replica(id).is_none() {
            if membership.place(id) == Place::Joining {
                let node = self.node_mut(id);
                node.replica = Some(Chain::new(membership.clone(), id));
                node.born = Some(membership);
                self.step(id, Event::Woken);
            }
            return;
        }
        self.step(id, Event::Requested(Request::Reconfigure { membership }));
    }

    fn install(&mut self, id: NodeId, position: Position, values: Vec<Value>) {
        let node = self.node_mut(id);
        let Some(replica) = &mut node.replica else { return };
        if position.next_slot <= replica.next_slot() || replica.membership().place(id) != Place::Joining {
            return;
        }
        let next_slot = position.next_slot;
        replica.restore(Record::Checkpoint(position));
        replica.check();
        node.executed = values;
        self.say(&format!("{id} installs a snapshot up to {next_slot:?}"));
        self.checkpoint(id);
        self.step(id, Event::Woken);
    }

    /// Saves the objects and forgets the log that they make superfluous.
    pub fn checkpoint(&mut self, id: NodeId) {
        self.sync(id);
        let node = self.node_mut(id);
        let Some(replica) = &node.replica else { return };
        let position = replica.position();
        let next_slot = position.next_slot;
        node.disk.checkpoint = Some((position, node.executed.clone()));
        node.disk.log.retain(|record| record.entry().is_some_and(|(slot, _)| slot >= next_slot));
    }

    /// A replica with nothing in hand comes to rest, and is woken again.
    pub fn rest_and_wake(&mut self, id: NodeId) {
        let may_rest = |chain: &&Chain| chain.is_idle() && !chain.is_stopped() && chain.membership().joining.is_none();
        if !self.is_up(id) || self.replica(id).filter(may_rest).is_none() {
            return;
        }
        self.checkpoint(id);
        let node = self.node_mut(id);
        let position = node.replica.as_ref().map(Chain::position);
        node.replica = position.map(|position| Chain::resumed(position, id));
        self.say(&format!("{id} comes to rest and is woken"));
    }

    /// The first `written` of the records that were not synced are on disk all the same.
    pub fn crash(&mut self, id: NodeId, written: usize) {
        let node = self.node_mut(id);
        let written = written.min(node.unsynced.len());
        node.disk.log.extend(node.unsynced.drain(..written));
        node.unsynced.clear();
        node.up = false;
        node.replica = None;
        node.held.clear();
    }

    pub fn restart(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.up = true;
        let Some(born) = &node.born else { return };
        let (replica, executed) = recover(born, id, &node.disk, node.disk.log.len());
        node.replica = Some(replica);
        node.executed = executed;
        if self.replica(id).is_some_and(|replica| !replica.is_idle()) {
            self.step(id, Event::Woken);
        }
    }
}

impl Group for World {
    type Load = Load;

    fn ids(&self) -> Vec<NodeId> {
        (1..=self.nodes.len() as u32).map(NodeId).collect()
    }

    fn now(&mut self) -> &mut Instant {
        &mut self.now
    }

    fn network(&mut self) -> &mut Network<Load> {
        &mut self.network
    }

    fn trace(&mut self) -> &mut Option<String> {
        &mut self.trace
    }

    fn sync(&mut self, id: NodeId) {
        loop {
            let node = self.node_mut(id);
            node.disk.log.append(&mut node.unsynced);
            let Some((to, message)) = node.held.pop_front() else { return };
            self.send(id, to, message);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let Packet { from, to, load } = packet;
        if to == PARENT {
            return parent::receive(self, from, load);
        }
        if !self.is_up(to) {
            return;
        }
        if let Load::Told(membership) = load {
            return self.tell(to, membership);
        }
        if self.replica(to).is_none() {
            // Of a group that it does not know, a node asks the parent.
            let asked_at = self.clock(to);
            return self.network.post(to, PARENT, Load::LeaseWanted { epoch: Epoch(0), asked_at });
        }
        match load {
            Load::Chain(message) => {
                if self.is_traced() {
                    self.say(&format!("{from} -> {to} {message:?}"));
                }
                self.step(to, Event::Received { from, message });
            }
            Load::Snapshot(position, values) => self.install(to, position, values),
            Load::Lease { epoch, until } => self.node_mut(to).replica.as_mut().expect("is there").lease(epoch, until),
            Load::Told(_) | Load::LeaseWanted { .. } | Load::Extended { .. } => {}
        }
    }

    /// The timer's turn at one node, and the host's word to the parent.
    fn attend(&mut self, id: NodeId) {
        let now = self.clock(id);
        if !self.is_up(id) || self.replica(id).is_none() {
            return;
        }
        if self.replica(id).and_then(Chain::wake_at).is_some_and(|at| at <= now) {
            self.step(id, Event::Woken);
        }
        let Some(replica) = self.replica(id) else { return };
        let (epoch, is_extended) = (replica.epoch(), replica.is_extended());
        self.network.post(id, PARENT, Load::LeaseWanted { epoch, asked_at: now });
        if is_extended {
            self.network.post(id, PARENT, Load::Extended { epoch });
        }
    }

    fn say(&mut self, line: &str) {
        if self.aloud {
            println!("{line}");
        }
        if let Some(trace) = &mut self.trace {
            writeln!(trace, "{line}").expect("strings take everything");
        }
    }
}

/// A replica from a disk of which only the first `count` records of the log were written.
pub fn recover(born: &Arc<Membership>, id: NodeId, disk: &Disk, count: usize) -> (Chain, Vec<Value>) {
    let mut replica = Chain::new(born.clone(), id);
    let mut executed = Vec::new();
    if let Some((position, values)) = &disk.checkpoint {
        replica.restore(Record::Checkpoint(position.clone()));
        executed.clone_from(values);
    }
    for record in &disk.log[..count] {
        replica.restore(record.clone());
    }
    replica.restored();
    replica.check();
    (replica, executed)
}
