//! Some hosts and the links between them, for tests that decide about every message.

use quorate_checkpoint::{Batch, MemoryStore, Store};
use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer};
use quorate_protocol::peers::Timing;
use quorate_protocol::{GroupId, Instant, NodeId, Slot, Stamp};
use quorate_wal::memory::MemoryStorage;

use crate::answer::Answer;
use crate::frame::{Header, Message, decode_frame, encode_frame, messages};
use crate::host::{Forgotten, Host, HostSettings, OpenReport, Submission};
use crate::root::{NodeRecord, Settings};
use crate::{Moment, Target};

/// What becomes of a message on its way.
pub(super) enum Fate {
    Arrives,
    IsLost,
    IsLate {
        by_us: u64,
    },
    /// Other bytes arrive in its place.
    Becomes(Vec<u8>),
}

pub(super) struct Node {
    pub(super) host: Host,
    pub(super) storage: MemoryStorage,
    pub(super) store: MemoryStore,
    /// What is to be stored waits.
    pub(super) is_store_slow: bool,
    unstored: Vec<(u64, Batch)>,
    pub(super) answers: Vec<(u64, Answer)>,
    pub(super) is_down: bool,
    /// How far its wall clock is ahead of the others'.
    pub(super) wall_ahead_ms: u64,
    /// There is no space for its log.
    pub(super) is_full: bool,
    frames_sent: u64,
    pub(super) executed: Vec<(GroupId, Slot, u64)>,
}

/// Three nodes that are members of one volume, perhaps with others beside them, and links on which a test decides about every
/// message.
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    now_us: u64,
    /// When it arrives, to whom, and the frame.
    under_way: Vec<(u64, NodeId, NodeId, Vec<u8>)>,
    number: u64,
}

fn moment(now_us: u64) -> Moment {
    Moment { now: Instant(now_us), wall: Stamp(1_700_000_000_000 + now_us / 1000) }
}

/// Of one of so many nodes, for tests that change what they are about.
pub(super) fn settings(node: NodeId, count: u32) -> HostSettings {
    let record = |id: u32| {
        let address = format!("n{id}:1");
        NodeRecord { id, name: format!("n{id}"), peer: address.clone(), client: address.clone(), admin: address }
    };
    HostSettings {
        node,
        start: 1,
        nodes: (1..=count).map(record).collect(),
        defaults: Settings { replicas: 3, volumes: 1, ..Settings::default() },
        cluster: 7,
        timing: Timing::default(),
        timeout_ms: 5_000,
        log: quorate_wal::Settings { segment_bytes: 1 << 20, slack_bytes: 4 << 20, ..quorate_wal::Settings::new(7) },
        seed: 1,
        checkpoint_bytes: 16 << 20,
        checkpoint_slots: 1 << 20,
        encoded_at_once_max: 1 << 20,
        saved_per_turn: 8192,
        rest_after_us: 10_000_000,
        awake_max: 1_000,
        turn_after_us: 10_000_000,
        tombstones_after_us: 60_000_000,
        resting_bytes_max: 1 << 20,
        records_bytes_max: 1 << 20,
        digest_bytes: 0,
        follow_clients_at: 0,
        forgotten: Forgotten::Nothing,
        is_new: false,
        version: "test".into(),
        joins: false,
        level_known: crate::level::FeatureLevel::KNOWN,
        pid: 0,
        observe: true,
    }
}

impl Node {
    fn new(host: Host, storage: MemoryStorage, store: MemoryStore) -> Node {
        Node {
            host,
            storage,
            store,
            is_store_slow: false,
            unstored: Vec::new(),
            answers: Vec::new(),
            is_down: false,
            wall_ahead_ms: 0,
            is_full: false,
            frames_sent: 0,
            executed: Vec::new(),
        }
    }
}

impl Cluster {
    /// Node 1 coordinates the volume. `set` changes the settings of each node.
    pub(super) fn new(set: impl Fn(&mut HostSettings)) -> Cluster {
        let cluster = Cluster::of(3, set);
        let volume = cluster.volume();
        let coordinators: Vec<bool> = cluster.nodes.iter().map(|node| coordinates(&node.host, volume)).collect();
        assert_eq!(coordinators, [true, false, false]);
        cluster
    }

    /// Of so many nodes.
    pub(super) fn of(count: u32, set: impl Fn(&mut HostSettings)) -> Cluster {
        let open = |id: u32| {
            let storage = MemoryStorage::default();
            let mut settings = settings(NodeId(id), count);
            set(&mut settings);
            let (host, _) =
                Host::open(settings, &storage, &MemoryStore::default(), moment(1_000_000)).expect("nothing is stored");
            Node::new(host, storage, MemoryStore::default())
        };
        let mut cluster =
            Cluster { nodes: (1..=count).map(open).collect(), now_us: 1_000_000, under_way: Vec::new(), number: 0 };
        cluster.nodes.iter_mut().for_each(|node| link(&mut node.host));
        cluster.pass(5_000, |_, _, _| Fate::Arrives);
        cluster.nodes.iter_mut().for_each(|node| node.executed.clear());
        cluster
    }

    /// One more node, with the next number.
    pub(super) fn join(&mut self, settings: HostSettings) {
        assert_eq!(settings.node.0 as usize, self.nodes.len() + 1);
        let (storage, store) = (MemoryStorage::default(), MemoryStore::default());
        let (host, _) = Host::open(settings, &storage, &store, moment(self.now_us)).expect("nothing is stored");
        self.nodes.push(Node::new(host, storage, store));
    }

    /// An administrative command, in words without spaces in them, and what is answered.
    pub(super) fn say(&mut self, at: u32, line: &str) -> Answer {
        let number = self.next_number();
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.node(at).host.submit_admin(number, 0, &words);
        self.pass(2_000, arrives);
        let answers = &self.node(at).answers;
        answers.iter().find(|(of, _)| *of == number).map(|(_, answer)| answer.clone()).expect("answered")
    }

    pub(super) fn volume(&self) -> GroupId {
        let root = self.nodes[0].host.directory().expect("the nodes know the cluster");
        GroupId(root.namespaces[&0].volumes[0].group)
    }

    /// So many milliseconds go by.
    pub(super) fn pass(&mut self, duration_ms: u64, fate: impl Fn(NodeId, NodeId, &Message<'_>) -> Fate) {
        for _ in 0..duration_ms {
            self.now_us += 1_000;
            for at in 0..self.nodes.len() {
                self.turn(at, &fate);
            }
        }
    }

    fn turn(&mut self, at: usize, fate: &impl Fn(NodeId, NodeId, &Message<'_>) -> Fate) {
        let me = NodeId(at as u32 + 1);
        let is_due = |under_way: &(u64, NodeId, NodeId, Vec<u8>)| under_way.0 <= self.now_us && under_way.2 == me;
        let (arrived, rest) = std::mem::take(&mut self.under_way).into_iter().partition(is_due);
        self.under_way = rest;
        let node = &mut self.nodes[at];
        if node.is_down {
            return;
        }
        let Moment { now, wall } = moment(self.now_us);
        node.host.begin(Moment { now, wall: Stamp(wall.0 + node.wall_ahead_ms) });
        for (_, from, _, frame) in arrived {
            let frame: Vec<u8> = frame;
            node.host.receive(from, &frame).expect("it is whole");
        }
        node.host.set_out_of_space(node.is_full);
        node.host.end(&node.storage);
        for lookup in node.host.take_lookups() {
            node.host.found(lookup.run(&node.store));
        }
        node.unstored.extend(node.host.take_batches());
        if !node.is_store_slow {
            for (number, batch) in std::mem::take(&mut node.unstored) {
                node.store.apply(batch).expect("it has room");
                node.host.stored(number);
            }
        }
        if !node.is_full
            && let Some(submission) = node.host.log_mut().submit()
        {
            submission.perform(&mut node.storage).expect("it has room");
            node.host.flushed(submission.lsn);
        }
        node.host.take_answers(&mut node.answers);
        node.executed.extend(node.host.take_executed());
        let mut frames = Vec::new();
        node.host.take_frames(|to, frame: &[u8]| frames.push((to, frame.to_vec())));
        for (to, frame) in frames {
            let (header, bytes) = decode_frame(&frame).expect("it is whole");
            for message in messages(bytes) {
                let message = message.expect("it is sound");
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                let arrives_us = match fate(me, to, &message) {
                    Fate::Arrives => self.now_us,
                    Fate::IsLost => continue,
                    Fate::IsLate { by_us } => self.now_us + by_us,
                    Fate::Becomes(other) => {
                        bytes = other;
                        self.now_us
                    }
                };
                node.frames_sent += 1;
                let mut frame = Vec::new();
                encode_frame(&Header { sequence: node.frames_sent, ..header }, &bytes, &mut frame);
                self.under_way.push((arrives_us, me, to, frame));
            }
        }
    }

    /// The node's process dies between two turns, and another one opens what it had stored.
    pub(super) fn restart(&mut self, id: u32) {
        let report = self.restart_after(id, Forgotten::Memory);
        assert!(report.damage.is_empty(), "{:?}", report.damage);
    }

    pub(super) fn restart_after(&mut self, id: u32, forgotten: Forgotten) -> OpenReport {
        let node = &mut self.nodes[id as usize - 1];
        let before = node.host.settings();
        let settings = HostSettings { start: before.start + 1, forgotten, ..before.clone() };
        let (host, report) =
            Host::open(settings, &node.storage, &node.store, moment(self.now_us)).expect("it was stored whole");
        node.host = host;
        link(&mut node.host);
        node.unstored.clear();
        report
    }

    /// The node's data directory is gone, and a new one takes its place.
    pub(super) fn replace_directory(&mut self, id: u32) {
        let node = self.node(id);
        (node.storage, node.store) = (MemoryStorage::default(), MemoryStore::default());
        self.restart_after(id, Forgotten::Everything);
    }

    /// As [`Cluster::replace_directory`], where not all other nodes have let the new one in yet.
    pub(super) fn replace_directory_unmet(&mut self, id: u32) {
        let now = moment(self.now_us);
        let node = self.node(id);
        (node.storage, node.store) = (MemoryStorage::default(), MemoryStore::default());
        let before = node.host.settings();
        let settings =
            HostSettings { start: before.start + 1, forgotten: Forgotten::Everything, is_new: true, ..before.clone() };
        let opened = Host::open(settings, &node.storage, &node.store, now);
        self.node(id).host = opened.expect("nothing is stored").0;
        link(&mut self.node(id).host);
    }

    /// Of what waits to be stored at a node whose store is slow, the first is.
    pub(super) fn store_first(&mut self, id: u32) {
        let node = self.node(id);
        let (number, batch) = node.unstored.remove(0);
        node.store.apply(batch).expect("it has room");
        node.host.stored(number);
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(super) fn write(&mut self, at: u32, value: &[u8]) -> u64 {
        self.set(at, b"key", value)
    }

    pub(super) fn set(&mut self, at: u32, key: &[u8], value: &[u8]) -> u64 {
        let (condition, expiry, answer) = (Condition::Always, Expiry::Unset, SetAnswer::Ok);
        self.submit(at, &Command::Set { key, value, condition, expiry, answer })
    }

    pub(super) fn read(&mut self, at: u32) -> u64 {
        self.submit(at, &Command::Get { key: b"key" })
    }

    /// A client's command on the first volume.
    pub(super) fn submit(&mut self, at: u32, command: &Command<'_>) -> u64 {
        let number = self.next_number();
        let target = Target::Slot { namespace: 0, slot: 0 };
        self.node(at).host.submit(Submission { number, predecessor: None, target, command });
        number
    }

    pub(super) fn node(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize - 1]
    }

    pub(super) fn is_done(&self, at: u32, number: u64) -> bool {
        self.nodes[at as usize - 1].answers.contains(&(number, Answer::Outcome(Outcome::Ok)))
    }

    /// What these nodes have executed of the volume is the same, and so many slots.
    pub(super) fn assert_executed(&self, nodes: &[u32], count: usize) {
        let volume = self.volume();
        let of = |id: &u32| {
            let executed = &self.nodes[*id as usize - 1].executed;
            executed.iter().filter(|(group, ..)| *group == volume).copied().collect::<Vec<_>>()
        };
        let first = of(&nodes[0]);
        assert_eq!(first.len(), count, "{first:?}");
        nodes.iter().for_each(|id| assert_eq!(of(id), first, "node {id}"));
    }
}

/// The links to all others are made.
fn link(host: &mut Host) {
    let me = host.settings().node;
    let count = host.settings().nodes.len() as u32;
    (1..=count).map(NodeId).filter(|&peer| peer != me).for_each(|peer| host.linked(peer));
}

pub(super) fn coordinates(host: &Host, group: GroupId) -> bool {
    host.groups().any(|found| found.id() == group && found.replica.is_coordinating())
}

pub(super) fn arrives(_: NodeId, _: NodeId, _: &Message<'_>) -> Fate {
    Fate::Arrives
}
