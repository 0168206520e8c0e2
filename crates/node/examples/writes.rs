//! What a write costs three nodes, without sockets, files and clocks: the code of the hosts alone.
//!
//! `cargo run --release -p quorate-node --example writes -- [VOLUMES [CLIENTS [WRITES [BETWEEN_KB]]]]`
//!
//! Each client has one write under way, to one of 10,000 names; all enter at the first node, which coordinates all volumes. Run it
//! under `valgrind --tool=callgrind` to count instructions: they are the same each time. Between two turns BETWEEN_KB of other
//! memory are read, which is not counted: in a cluster the kernel and other processes use the caches as well.

use std::hint::black_box;
use std::time::{Duration, Instant as RealInstant};

use quorate_checkpoint::MemoryStore;
use quorate_node::root::{NodeRecord, Settings};
use quorate_node::{Answer, Forgotten, Host, HostSettings, Submission};
use quorate_node::{Moment, Target};
use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer, slot_of_key};
use quorate_protocol::peers::Timing;
use quorate_protocol::{Instant, NodeId, Stamp};
use quorate_wal::memory::MemoryStorage;

const NAMES: u64 = 10_000;
/// Between one turn of a node and its next.
const TURN_US: u64 = 100;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next = |usual: u64| numbers.next().unwrap_or(Ok(usual));
    let (volumes, clients, writes, between_kb) = (next(64)?, next(40)?, next(1_000_000)?, next(0)?);
    if volumes == 0 || clients == 0 || writes == 0 {
        return Err("give at least one volume, one client and one write".into());
    }
    let mut nodes = Nodes::new(volumes as u32)?;
    nodes.write(NAMES.max(writes / 10), clients)?;
    nodes.between = vec![1; between_kb as usize * 1024 / 8];
    nodes.spent = Duration::ZERO;
    let slots_before = nodes.slots();
    nodes.write(writes, clients)?;
    let us = nodes.spent.as_secs_f64() * 1e6;
    let slots = nodes.slots() - slots_before;
    println!(
        "{volumes} volumes, {clients} clients: {:.3} us a write on three nodes together, {:.3} slots a write",
        us / writes as f64,
        slots as f64 / writes as f64
    );
    Ok(())
}

struct Nodes {
    hosts: Vec<Host>,
    storage: MemoryStorage,
    now_us: u64,
    /// What has arrived at each node, from whom.
    arrived: Vec<Vec<(NodeId, Vec<u8>)>>,
    spare: Vec<Vec<u8>>,
    number: u64,
    random: u64,
    answers: Vec<(u64, Answer)>,
    between: Vec<u64>,
    /// In turns.
    spent: Duration,
}

impl Nodes {
    fn new(volumes: u32) -> Result<Nodes, Error> {
        let storage = MemoryStorage::default();
        let open = |id| Host::open(settings(id, volumes), &storage, &MemoryStore::default(), moment(1_000_000));
        let hosts = (1..=3).map(|id| Ok(open(NodeId(id))?.0)).collect::<Result<Vec<_>, Error>>()?;
        let arrived = hosts.iter().map(|_| Vec::new()).collect();
        let mut nodes = Nodes {
            hosts,
            storage,
            now_us: 1_000_000,
            arrived,
            spare: Vec::new(),
            number: 0,
            random: 1,
            answers: Vec::new(),
            between: Vec::new(),
            spent: Duration::ZERO,
        };
        for host in &mut nodes.hosts {
            let me = host.settings().node;
            (1..=3).map(NodeId).filter(|&peer| peer != me).for_each(|peer| host.linked(peer));
        }
        // Leases are granted, and volumes follow their clients.
        let started = nodes.now_us;
        while nodes.now_us < started + 20_000_000 {
            nodes.round(40)?;
        }
        Ok(nodes)
    }

    fn write(&mut self, count: u64, clients: u64) -> Result<(), Error> {
        let mut left = count;
        while left > 0 {
            let wave = left.min(clients);
            left -= self.round(wave)?;
        }
        Ok(())
    }

    /// So many clients write and are answered. Says how many were.
    fn round(&mut self, clients: u64) -> Result<u64, Error> {
        let mut done = 0;
        let mut to_submit = clients;
        for _ in 0..200 {
            for at in 0..self.hosts.len() {
                black_box(self.between.iter().step_by(8).sum::<u64>());
                let start = RealInstant::now();
                self.turn(at, if at == 0 { std::mem::take(&mut to_submit) } else { 0 })?;
                self.spent += start.elapsed();
            }
            done += self.answers.drain(..).filter(|(_, answer)| *answer == Answer::Outcome(Outcome::Ok)).count() as u64;
            if done == clients {
                break;
            }
        }
        Ok(done)
    }

    fn turn(&mut self, at: usize, submitted: u64) -> Result<(), Error> {
        self.now_us += TURN_US;
        let host = &mut self.hosts[at];
        host.begin(moment(self.now_us));
        for (from, frame) in std::mem::take(&mut self.arrived[at]) {
            host.receive(from, &frame)?;
            self.spare.push(frame);
        }
        for _ in 0..submitted {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = format!("key:{:012}", (self.random >> 33) % NAMES);
            self.number += 1;
            let (condition, expiry, answer) = (Condition::Always, Expiry::Unset, SetAnswer::Ok);
            let command = &Command::Set { key: key.as_bytes(), value: b"sixteen bytes...", condition, expiry, answer };
            let target = Target::Slot { namespace: 0, slot: slot_of_key(key.as_bytes()) };
            host.submit(Submission { number: self.number, predecessor: None, target, command });
        }
        host.end(&self.storage);
        self.take_frames(at);
        let host = &mut self.hosts[at];
        for (number, _) in host.take_batches() {
            host.stored(number);
        }
        if let Some(submission) = host.log_mut().submit() {
            let lsn = submission.lsn;
            drop(submission);
            host.flushed(lsn);
        }
        host.take_answers(&mut self.answers);
        self.take_frames(at);
        Ok(())
    }

    fn take_frames(&mut self, at: usize) {
        let (arrived, spare, me) = (&mut self.arrived, &mut self.spare, NodeId(at as u32 + 1));
        self.hosts[at].take_frames(|to: NodeId, frame: &[u8]| {
            let mut copy = spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(frame);
            arrived[to.0 as usize - 1].push((me, copy));
        });
    }

    fn slots(&self) -> u64 {
        self.hosts[0].counters().slots_applied
    }
}

fn moment(now_us: u64) -> Moment {
    Moment { now: Instant(now_us), wall: Stamp(1_700_000_000_000 + now_us / 1000) }
}

fn settings(node: NodeId, volumes: u32) -> HostSettings {
    let record = |id: u32| {
        let address = format!("n{id}:1");
        NodeRecord { id, name: format!("n{id}"), peer: address.clone(), client: address.clone(), admin: address }
    };
    HostSettings {
        node,
        start: 1,
        nodes: (1..=3).map(record).collect(),
        defaults: Settings { replicas: 3, volumes, ..Settings::default() },
        cluster: 7,
        timing: Timing::default(),
        timeout_ms: 5_000,
        log: quorate_wal::Settings::new(7),
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
        follow_clients_at: 100,
        forgotten: Forgotten::Nothing,
        is_new: false,
        version: "example".into(),
        joins: false,
        level_known: quorate_node::level::FeatureLevel::KNOWN,
        pid: 0,
        observe: false,
    }
}
