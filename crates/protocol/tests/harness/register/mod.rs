//! A register group in memory: nodes, disks and a network as in the harness above, the group's parent, clients, and what
//! they saw.

pub mod page;
pub mod script;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use quorate_protocol::effect::{After, Cx, Effect, Effects, Event, Replica};
use quorate_protocol::id::{Configuration, Epoch, GroupId, Instant, NodeId, Payload, Stamp};
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{
    Answer, Authority, Body, Content, Key, Message, Pace, Record, Register, Request, Stage, Tag, Version, View,
};

use self::page::{Judged, Page};
use super::linear::{Call, Outcome, assert_linearizable};
use super::network::{self, Network};
use super::{Group, Random};

pub const PACE: Pace = Pace { widen_us: 5_000, retry_us: 50_000 };

pub type Packet = network::Packet<Message>;

pub struct Node {
    pub id: NodeId,
    pub replica: Option<Register>,
    /// What the parent said when the replica was born, in which start, and where its records begin.
    pub born: Option<Vec<Stage>>,
    pub disk: Vec<Record>,
    unsynced: Vec<Record>,
    held: VecDeque<(NodeId, Message)>,
    pub start: u32,
    clock_offset: u64,
    pub peers: Peers,
    authority: Authority,
    /// What it knew when it gave up a replica: no later one is of these configurations.
    pub left: Option<Vec<Stage>>,
}

/// The ordered group that decides configurations: here, one that never fails.
pub struct Parent {
    pub stages: Vec<Stage>,
    /// Up to which epoch each node has no older operations.
    drained: BTreeMap<NodeId, Epoch>,
    /// What is ready to be retired comes to be known by and by, if not at once.
    pub ready: Option<Vec<Epoch>>,
}

pub struct Recorded {
    pub node: NodeId,
    pub now: Instant,
    pub stamp: Stamp,
    pub peers: Peers,
    pub event: Event<Message, Request>,
}

pub struct World {
    pub nodes: Vec<Node>,
    pub now: Instant,
    pub random: Random,
    pub network: Network<Message>,
    pub trace: Option<String>,
    pub parent: Parent,
    pub nonsense_count: u64,
    pub synced_at_once: bool,
    pub events: Option<Vec<Recorded>>,
    /// By token.
    pub calls: BTreeMap<u64, Call>,
    asked_of: BTreeMap<u64, NodeId>,
    /// Of listings, by token.
    pub pages: BTreeMap<u64, Page>,
    /// What a retry repeats.
    writes: BTreeMap<u64, Request>,
    token: u64,
    /// Orders calls and returns.
    moment: u64,
    pub answers: Vec<Answer>,
    pub forgotten_count: usize,
    /// What every replica that knows an epoch knows it as.
    agreed: BTreeMap<Epoch, Stage>,
    /// What the group has ended with, and from where on that is still to be told.
    pub is_sealed: bool,
    pub finals: BTreeMap<Key, Version>,
    pub final_next: Option<Option<Key>>,
    /// Writes that were under way then, with their tags.
    undecided: BTreeMap<u64, Tag>,
    /// Where members decide: requests that ended as they were meant to.
    pub reconfigured_count: usize,
    /// Replicas that were given up by nodes which may be members again.
    pub left_count: usize,
}

pub fn configuration(epoch: u32, members: &[u32], quorum: QuorumSystem) -> Configuration {
    let members: Arc<[NodeId]> = members.iter().copied().map(NodeId).collect();
    Configuration { group: GroupId(1), epoch: Epoch(epoch), members, quorum }
}

impl World {
    /// `count` nodes, of which the first `member_count` are members at first.
    pub fn new(count: u32, member_count: u32, quorum: QuorumSystem, seed: u64) -> World {
        let members: Vec<u32> = (1..=member_count).collect();
        let first = Stage::first(configuration(1, &members, quorum));
        let mut world = World {
            nodes: Vec::new(),
            now: Instant(10_000_000),
            random: Random::new(seed),
            network: Network::new(),
            trace: None,
            parent: Parent { stages: vec![first], drained: BTreeMap::new(), ready: None },
            nonsense_count: 0,
            synced_at_once: false,
            events: None,
            calls: BTreeMap::new(),
            asked_of: BTreeMap::new(),
            pages: BTreeMap::new(),
            writes: BTreeMap::new(),
            token: 0,
            moment: 0,
            answers: Vec::new(),
            forgotten_count: 0,
            agreed: BTreeMap::new(),
            is_sealed: false,
            finals: BTreeMap::new(),
            final_next: None,
            undecided: BTreeMap::new(),
            reconfigured_count: 0,
            left_count: 0,
        };
        for id in (1..=count).map(NodeId) {
            let clock_offset = u64::from(id.0) * 1_000_000_000;
            let peers = new_peers(count, id, Instant(world.now.0 + clock_offset), 1);
            world.nodes.push(Node {
                id,
                replica: None,
                born: None,
                disk: Vec::new(),
                unsynced: Vec::new(),
                held: VecDeque::new(),
                start: 1,
                clock_offset,
                peers,
                authority: Authority::Parent,
                left: None,
            });
        }
        members.into_iter().for_each(|id| world.bear(NodeId(id)));
        world
    }

    /// The members decide their successors by themselves; nothing has happened yet.
    pub fn set_authority(&mut self, authority: Authority) {
        for index in 0..self.nodes.len() {
            self.nodes[index].authority = authority;
            if self.nodes[index].born.take().is_some() {
                self.bear(self.nodes[index].id);
            }
        }
    }

    pub fn index(&self, id: NodeId) -> usize {
        id.0 as usize - 1
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[self.index(id)]
    }

    pub fn is_up(&self, id: NodeId) -> bool {
        self.node(id).replica.is_some()
    }

    pub fn stamp(&self) -> Stamp {
        Stamp(self.now.0 / 1000)
    }

    fn clock(&self, id: NodeId) -> Instant {
        Instant(self.now.0 + self.node(id).clock_offset)
    }

    /// A replica comes to life where the parent says that there is one, and there has been none.
    pub fn bear(&mut self, id: NodeId) {
        self.bear_into(id, self.parent.stages.clone());
    }

    fn bear_into(&mut self, id: NodeId, stages: Vec<Stage>) {
        let index = self.index(id);
        let node = &mut self.nodes[index];
        if node.born.is_none() && standing(&stages) > node.left.as_deref().and_then(standing) {
            let mut replica = Register::new(stages.clone(), id, node.start, PACE);
            if let Some((newest, _)) = standing(&stages).filter(|_| node.left.is_some()) {
                replica.number_from(u64::from(newest.0) << 32);
            }
            node.replica = Some(replica.decided_by(node.authority));
            node.born = Some(stages);
        }
    }

    /// The node's part ends with the configurations that it was in: by these, it is in none. What it held is gone; of what it
    /// knew, that remains.
    pub fn leave(&mut self, id: NodeId, stages: &[Stage]) {
        assert!(stages.iter().all(|stage| !stage.configuration.contains(id)), "{id} is needed: {stages:?}");
        self.crash(id, 0);
        let index = self.index(id);
        let node = &mut self.nodes[index];
        (node.born, node.left) = (None, Some(stages.to_vec()));
        node.disk.clear();
        self.left_count += 1;
    }

    /// Whether what is on its disk is of earlier configurations than these.
    pub fn has_known_less(&self, id: NodeId, stages: &[Stage]) -> bool {
        let node = self.node(id);
        let Some(born) = &node.born else { return false };
        let known = recover(born, id, node.start, &node.disk, node.disk.len(), node.authority);
        standing(known.stages()) < standing(stages)
    }

    /// A replica goes when it is in no configuration, has that on disk and nothing in hand.
    pub fn try_leave(&mut self, id: NodeId) {
        let node = self.node(id);
        let is_written = node.unsynced.is_empty() && node.held.is_empty();
        let left = node.replica.as_ref().filter(|replica| is_written && replica.is_idle() && !replica.is_member());
        if let Some(stages) = left.map(|replica| replica.stages().to_vec()) {
            self.leave(id, &stages);
        }
    }

    /// Where members decide, a replica comes to life on the word of one of them.
    fn bear_as_told(&mut self, from: NodeId, to: NodeId, message: &Message) {
        if self.node(to).authority == Authority::Parent || self.node(to).born.is_some() {
            return;
        }
        let left = self.node(to).left.clone().unwrap_or_default();
        match &message.body {
            // It tells who is in it since it has left.
            _ if standing(&left) > Some((message.view.newest, message.view.oldest)) => {
                let view = recover(&left, to, 1, &[], 0, Authority::Parent).view();
                self.send(to, from, Message { view, body: Body::Inform { stages: left } });
            }
            Body::Inform { stages } if stages.iter().any(|stage| stage.configuration.contains(to)) => {
                self.bear_into(to, stages.clone());
            }
            Body::Inform { .. } => {}
            // Of a group that the node does not know: which is it?
            _ => {
                let view = View { oldest: Epoch(0), newest: Epoch(0) };
                self.send(to, from, Message { view, body: Body::Behind {} });
            }
        }
    }

    fn assert_agreement(&mut self, id: NodeId) {
        let index = self.index(id);
        for stage in self.nodes[index].replica.iter().flat_map(Register::stages) {
            let agreed = self.agreed.entry(stage.epoch()).or_insert_with(|| stage.clone());
            assert_eq!(agreed, stage, "{id} knows another configuration by this epoch");
        }
    }

    pub fn step(&mut self, id: NodeId, event: Event<Message, Request>) {
        let (index, now, stamp) = (self.index(id), self.clock(id), self.stamp());
        if let Some(events) = &mut self.events {
            let peers = self.nodes[index].peers.clone();
            events.push(Recorded { node: id, now, stamp, peers, event: event.clone() });
        }
        let node = &mut self.nodes[index];
        let Some(replica) = &mut node.replica else { return };
        let mut out = Effects::default();
        let nonsense_count = &mut self.nonsense_count;
        let mut cx = Cx {
            me: id,
            now,
            stamp,
            random: 0,
            peers: &node.peers,
            wants_frontiers: true,
            proposes_late: false,
            nonsense_count,
        };
        replica.step(&mut cx, event, &mut out);
        replica.check();
        self.assert_agreement(id);
        for effect in out.list {
            self.perform(id, effect);
        }
        if self.synced_at_once {
            self.sync(id);
        }
    }

    fn perform(&mut self, id: NodeId, effect: Effect<Register>) {
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
            Effect::Answered(answer) => self.answered(id, answer),
            other => panic!("{id} {other:?}"),
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        if from == to {
            self.step(to, Event::Received { from, message });
        } else {
            self.network.post(from, to, message);
        }
    }

    pub fn unsynced_count(&self, id: NodeId) -> u64 {
        self.node(id).unsynced.len() as u64
    }

    /// So much of what was not synced is on disk all the same.
    pub fn crash(&mut self, id: NodeId, kept: usize) {
        let index = self.index(id);
        let node = &mut self.nodes[index];
        node.replica = None;
        node.disk.extend(node.unsynced.drain(..).take(kept));
        node.unsynced.clear();
        node.held.clear();
        self.asked_of.retain(|_, node| *node != id);
    }

    pub fn restart(&mut self, id: NodeId) {
        let (index, count, now) = (self.index(id), self.nodes.len() as u32, self.clock(id));
        let node = &mut self.nodes[index];
        node.start += 1;
        node.peers = new_peers(count, id, now, node.start);
        if let Some(born) = &node.born {
            node.replica = Some(recover(born, id, node.start, &node.disk, node.disk.len(), node.authority));
        }
    }

    /// Checkpoint: everything it holds replaces its records.
    pub fn checkpoint(&mut self, id: NodeId) {
        self.sync(id);
        let index = self.index(id);
        let node = &mut self.nodes[index];
        if let Some(replica) = &node.replica {
            node.disk = replica.records().collect();
        }
    }

    pub fn next_token(&mut self) -> u64 {
        self.token += 1;
        self.token
    }

    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub fn read(&mut self, id: NodeId, key: &str, deadline: Stamp) -> u64 {
        let token = self.next_token();
        let call = Call { key: key.into(), write: None, called: self.next_moment(), outcome: Outcome::Unknown };
        self.calls.insert(token, call);
        self.asked_of.insert(token, id);
        self.step(id, Event::Requested(Request::Read { token, key: Key(text(key)), deadline }));
        token
    }

    /// Nothing written is a delete.
    pub fn write(
        &mut self,
        id: NodeId,
        key: &str,
        value: Option<&str>,
        expires: Option<Stamp>,
        deadline: Stamp,
    ) -> u64 {
        let token = self.next_token();
        let write = Some((value.map(String::from), expires));
        let call = Call { key: key.into(), write, called: self.next_moment(), outcome: Outcome::Unknown };
        self.calls.insert(token, call);
        self.asked_of.insert(token, id);
        let content = match value {
            Some(value) => Content::Value { bytes: text(value), expires },
            None => Content::Tombstone,
        };
        self.writes.insert(token, Request::Write { token, key: Key(text(key)), content, deadline });
        self.retry(id, token);
        token
    }

    pub fn list(&mut self, id: NodeId, after: Option<&str>, count: usize, deadline: Stamp) -> u64 {
        let (token, called) = (self.next_token(), self.next_moment());
        self.pages.insert(token, Page { after: after.map(String::from), count, called, answered: None });
        let after = after.map(|after| Key(text(after)));
        self.step(id, Event::Requested(Request::List { token, after, count, deadline }));
        token
    }

    /// The same write again, with the same deadline.
    pub fn retry(&mut self, id: NodeId, token: u64) {
        let request = self.writes[&token].clone();
        self.step(id, Event::Requested(request));
    }

    fn answered(&mut self, id: NodeId, answer: Answer) {
        let moment = self.next_moment();
        let stamp = self.stamp();
        let (token, outcome) = match &answer {
            Answer::Value { token, content, .. } => {
                let value = match content {
                    Content::Value { bytes, .. } => Some(String::from_utf8(bytes.to_vec()).expect("text")),
                    Content::Tombstone => None,
                };
                (*token, Outcome::Returned { at: moment, stamp, value })
            }
            Answer::Written { token } => (*token, Outcome::Returned { at: moment, stamp, value: None }),
            Answer::Listed { token, .. }
            | Answer::Elsewhere { token, .. }
            | Answer::Overloaded { token }
            | Answer::Over { token }
            | Answer::Unknown { token }
                if self.pages.contains_key(token) =>
            {
                let page = self.pages.get_mut(token).expect("looked at");
                assert!(page.answered.is_none(), "answered twice: {page:?} {answer:?}");
                page.answered = Some((moment, answer));
                return;
            }
            Answer::Listed { .. } => panic!("{id} {answer:?}"),
            Answer::Elsewhere { token, .. } | Answer::Overloaded { token } | Answer::Unknown { token }
                if !self.calls.contains_key(token) =>
            {
                return;
            }
            Answer::Unknown { token } => (*token, Outcome::Unknown),
            Answer::Overloaded { token } | Answer::Elsewhere { token, .. } => (*token, Outcome::NotCarriedOut),
            Answer::Retirable { epoch, .. } => {
                return match &mut self.parent.ready {
                    Some(ready) => ready.push(*epoch),
                    None => self.retire(*epoch),
                };
            }
            Answer::Over { token } => (*token, Outcome::NotCarriedOut),
            Answer::Undecided { token, tag } => {
                self.undecided.insert(*token, *tag);
                (*token, Outcome::Unknown)
            }
            Answer::Sealed { .. } => {
                self.is_sealed = true;
                return;
            }
            Answer::Final { versions, next, .. } => {
                self.finals.extend(versions.iter().cloned());
                self.final_next = Some(next.clone());
                return;
            }
            Answer::Drained { epoch, .. } => {
                self.parent.drained.insert(id, *epoch);
                return;
            }
            Answer::Forgotten { count, .. } => {
                self.forgotten_count += count;
                return;
            }
            Answer::Reconfigured { .. } => {
                self.reconfigured_count += 1;
                return;
            }
            Answer::GivenUp { .. } | Answer::Unsound { .. } | Answer::Overtaken { .. } => return,
        };
        self.answers.push(answer);
        // A retry is answered again; a call has returned once.
        let call = self.calls.get_mut(&token).expect("called");
        if self.asked_of.remove(&token).is_some() {
            call.outcome = outcome;
        }
    }

    /// The parent decides the next configuration.
    pub fn decide(&mut self, make: impl Fn(&Stage, u32) -> Stage) -> bool {
        let [stage] = &self.parent.stages[..] else { return false };
        let next = make(stage, stage.epoch().0 + 1);
        if next.configuration.quorum.fit(next.configuration.members.len()).is_err() {
            return false;
        }
        let drained = |node| self.parent.drained.get(node).copied().unwrap_or(Epoch(0));
        let members = stage.configuration.members.iter();
        let fence = members.map(drained).min().expect("members").max(stage.fence);
        self.parent.stages.push(next.fenced(fence));
        true
    }

    /// It decides that the predecessor is retired.
    pub fn retire(&mut self, epoch: Epoch) {
        if self.parent.stages.last().is_some_and(|stage| stage.epoch() == epoch) {
            self.parent.stages.retain(|stage| stage.epoch() == epoch);
        }
    }

    /// Whether all that a node had begun before this epoch has ended there.
    pub fn has_drained(&self, node: NodeId, epoch: Epoch) -> bool {
        self.parent.drained.get(&node).is_some_and(|&drained| drained >= epoch)
    }

    /// What the parent has decided comes to this node.
    pub fn know(&mut self, id: NodeId) {
        self.know_of(id, self.parent.stages.clone());
    }

    /// What it had decided once.
    pub fn know_of(&mut self, id: NodeId, stages: Vec<Stage>) {
        self.step(id, Event::Requested(Request::Know { stages }));
    }

    /// Whoever takes the group's place begins with what it has ended with: as if each key had been read last of all. And what was
    /// undecided is decided by that.
    pub fn take_over_finals(&mut self) {
        for (token, tag) in std::mem::take(&mut self.undecided) {
            let (at, stamp) = (self.next_moment(), self.stamp());
            let call = self.calls.get_mut(&token).expect("called");
            let version = self.finals.get(&Key(text(&call.key)));
            call.outcome = match version.is_some_and(|version| version.tag >= tag) {
                true => Outcome::Returned { at, stamp, value: None },
                false => Outcome::NotCarriedOut,
            };
        }
        let keys: BTreeSet<String> = self.calls.values().map(|call| call.key.clone()).collect();
        for key in keys {
            let value = self.finals.get(&Key(text(&key))).and_then(|version| match &version.content {
                Content::Value { expires: Some(stamp), .. } if *stamp <= self.stamp() => None,
                Content::Value { bytes, .. } => Some(String::from_utf8(bytes.to_vec()).expect("text")),
                Content::Tombstone => None,
            });
            let (called, at, stamp, token) = (self.next_moment(), self.next_moment(), self.stamp(), self.next_token());
            let outcome = Outcome::Returned { at, stamp, value };
            self.calls.insert(token, Call { key, write: None, called, outcome });
        }
    }

    /// What the pages of listings say is what clients saw of each key, as far as that decides it.
    pub fn assert_pages(&self) -> Judged {
        self.pages.values().map(|page| page.assert_right(&self.calls)).fold(Judged::default(), |sum, judged| Judged {
            listed: sum.listed + judged.listed,
            missing: sum.missing + judged.missing,
        })
    }

    /// How many registers' histories were too entangled to say.
    pub fn assert_linearizable(&self) -> usize {
        let mut by_key: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
        for call in self.calls.values() {
            by_key.entry(&call.key).or_default().push(call);
        }
        by_key.into_iter().filter(|(key, calls)| !assert_linearizable(key, calls)).count()
    }
}

impl Group for World {
    type Load = Message;

    fn ids(&self) -> Vec<NodeId> {
        (1..=self.nodes.len() as u32).map(NodeId).collect()
    }

    fn now(&mut self) -> &mut Instant {
        &mut self.now
    }

    fn network(&mut self) -> &mut Network<Message> {
        &mut self.network
    }

    fn trace(&mut self) -> &mut Option<String> {
        &mut self.trace
    }

    fn sync(&mut self, id: NodeId) {
        let index = self.index(id);
        loop {
            let node = &mut self.nodes[index];
            node.disk.append(&mut node.unsynced);
            let Some((to, message)) = node.held.pop_front() else { return };
            self.send(id, to, message);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let Packet { from, to, load: message } = packet;
        self.bear_as_told(from, to, &message);
        if !self.is_up(to) {
            return;
        }
        let (index, now) = (self.index(to), self.clock(to));
        self.nodes[index].peers.heard(from, now);
        if self.trace.is_some() {
            self.say(&format!("{from} -> {to} {message:?}"));
        }
        self.step(to, Event::Received { from, message });
    }

    /// The detector's and the timer's turn.
    fn attend(&mut self, id: NodeId) {
        let (index, now) = (self.index(id), self.clock(id));
        for suspect in self.nodes[index].peers.suspect(now) {
            self.step(id, Event::Suspected(suspect));
        }
        let replica = self.nodes[index].replica.as_ref();
        if replica.and_then(Register::wake_at).is_some_and(|at| at <= now) {
            self.step(id, Event::Woken);
        }
    }

    fn exchange_heartbeats(&mut self) {
        let ids = self.ids();
        for (&from, &to) in ids.iter().flat_map(|from| ids.iter().map(move |to| (from, to))) {
            // A node without a replica of this group is alive all the same.
            let is_down = |id: NodeId| self.node(id).born.is_some() && !self.is_up(id);
            if from != to && self.network.connects(from, to) && !is_down(from) && !is_down(to) {
                let (index, now) = (self.index(to), self.clock(to));
                self.nodes[index].peers.heard(from, now);
            }
        }
    }
}

/// The newest epoch known and the oldest: whoever knows more stands higher.
fn standing(stages: &[Stage]) -> Option<(Epoch, Epoch)> {
    Some((stages.last()?.epoch(), stages.first()?.epoch()))
}

fn new_peers(count: u32, me: NodeId, now: Instant, start: u32) -> Peers {
    let mut peers = Peers::new(Timing::default(), now, start);
    (1..=count).map(NodeId).filter(|&node| node != me).for_each(|node| peers.add(node, now));
    peers
}

/// A replica of which only the first `count` records were written.
pub fn recover(
    born: &[Stage],
    id: NodeId,
    start: u32,
    disk: &[Record],
    count: usize,
    authority: Authority,
) -> Register {
    let mut replica = Register::new(born.to_vec(), id, start, PACE).decided_by(authority);
    disk[..count].iter().for_each(|record| replica.restore(record.clone()));
    replica.check();
    replica
}

pub fn text(text: &str) -> Payload {
    Arc::from(text.as_bytes())
}
