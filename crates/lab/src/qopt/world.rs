//! Registers, their processors, disks and network, the group's parent, and clients that ask again as soon as they are
//! answered. Contents take time of the receiver's processor, of the sender's link and of the disk; empty ones take none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_protocol::effect::After;
use quorate_protocol::id::{Configuration, GroupId};
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{Answer, Body, Content, Key, Message, Pace, Record, Register, Request, Stage};
use quorate_protocol::{Cx, Effect, Effects, Epoch, Event, Instant, NodeId, Replica, Stamp};

use super::{DISK_NS_A_BYTE, HANDLE_NS_A_BYTE, HANDLE_US, LINK_NS_A_BYTE, MESSAGE_US, SYNC_US, Sizes};
use crate::queue::Queue;
use crate::random::Random;

/// Longer than anything takes here.
const PACE: Pace = Pace { widen_us: 5_000_000, retry_us: 10_000_000 };
const PATIENCE_MS: u64 = 60_000;
/// Above the tokens of clients.
const RETIREMENT: u64 = u64::MAX;

pub(super) struct World {
    servers: Vec<Server>,
    queue: Queue<Happening>,
    peers: Peers,
    clients: Vec<Client>,
    workload: Workload,
    value: Arc<[u8]>,
    parent: Parent,
    pub(super) answered: u64,
    /// Of the clients, by their latest operation.
    waiting: BTreeMap<u64, usize>,
    next_token: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) members: usize,
    pub(super) clients: usize,
    pub(super) read_percent: u64,
    pub(super) objects: u64,
    /// Of each object.
    pub(super) bytes: usize,
    pub(super) seed: u64,
}

struct Server {
    replica: Register,
    /// What its only processor works on, and what waits behind.
    jobs: VecDeque<Job>,
    /// When its disk has taken the bytes of everything that was appended to its log.
    written_at: u64,
    /// When everything that was appended to its log is on disk.
    durable_at: u64,
    /// When its link has taken everything that was sent.
    sent_at: u64,
    woken_at: Option<Instant>,
}

type Job = Event<Message, Request>;

struct Client {
    server: usize,
    random: Random,
}

/// Tells one member to make the change and, when that is done, all of them that it is made.
struct Parent {
    stages: Vec<Stage>,
    began_at: u64,
    /// Who has the end of the change on disk.
    told: usize,
    /// How long each change took.
    durations_us: Vec<u64>,
}

enum Happening {
    Arrives {
        server: usize,
        job: Job,
    },
    Done {
        server: usize,
    },
    Answered {
        token: u64,
    },
    Woken {
        server: usize,
    },
    /// The parent hears that the change may be completed, and has decided it once that is on its disk.
    Retirable,
    Completed,
    Told,
}

impl World {
    pub(super) fn new(workload: Workload, sizes: Sizes) -> World {
        let members = workload.members;
        let first = Stage::first(configuration(members, 1, sizes));
        let server = |number| Server {
            replica: Register::new(vec![first.clone()], node(number), 1, PACE),
            jobs: VecDeque::new(),
            written_at: 0,
            durable_at: 0,
            sent_at: 0,
            woken_at: None,
        };
        let client = |number: usize| Client {
            server: number % members,
            random: Random::new(workload.seed * 10_000 + number as u64),
        };
        World {
            servers: (0..members).map(server).collect(),
            queue: Queue::new(),
            peers: Peers::new(Timing::default(), Instant(0), 1),
            clients: (0..workload.clients).map(client).collect(),
            workload,
            value: vec![0; workload.bytes].into(),
            parent: Parent { stages: vec![first], began_at: 0, told: 0, durations_us: Vec::new() },
            answered: 0,
            waiting: BTreeMap::new(),
            next_token: 0,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.queue.now()
    }

    /// Each object is written once, through the protocol, by one client after the other.
    pub(super) fn fill(&mut self) {
        let objects = self.workload.objects;
        let mut begun = 0;
        for client in 0..self.clients.len() {
            self.write(client, begun % objects);
            begun += 1;
        }
        let mut ended = 0;
        while ended < objects.max(self.clients.len() as u64) {
            if let Some(client) = self.next() {
                ended += 1;
                if begun < objects {
                    self.write(client, begun);
                    begun += 1;
                }
            }
        }
    }

    /// All clients begin, where none waits.
    pub(super) fn begin(&mut self) {
        assert!(self.waiting.is_empty(), "somebody waits");
        (0..self.clients.len()).for_each(|client| self.ask(client));
    }

    pub(super) fn run_until(&mut self, at_us: u64) {
        while self.queue.next_at().is_some_and(|next| next < at_us) {
            if let Some(client) = self.next() {
                self.answered += 1;
                self.ask(client);
            }
        }
    }

    /// Runs until so many more operations are answered, and tells how many that were in a second.
    pub(super) fn rate_of_next(&mut self, count: u64) -> f64 {
        let began_us = self.now();
        let mut left = count;
        while left > 0 {
            if let Some(client) = self.next() {
                left -= 1;
                self.ask(client);
            }
        }
        self.answered += count;
        count as f64 * 1e6 / (self.now() - began_us) as f64
    }

    /// The parent has decided these sizes; how long ago is told when all members know that nothing else is in use.
    pub(super) fn change(&mut self, sizes: Sizes) {
        let [stage] = &self.parent.stages[..] else { panic!("one change at a time") };
        let next = stage.successor(configuration(self.workload.members, stage.epoch().0 + 1, sizes));
        self.parent.stages.push(next);
        self.parent.began_at = self.now();
        let stages = self.parent.stages.clone();
        for request in [Request::Know { stages }, Request::Retire { token: RETIREMENT }] {
            self.queue.plan(MESSAGE_US, Happening::Arrives { server: 0, job: Event::Requested(request) });
        }
    }

    pub(super) fn durations_us(&self) -> &[u64] {
        &self.parent.durations_us
    }

    fn write(&mut self, client: usize, object: u64) {
        let content = Content::Value { bytes: self.value.clone(), expires: None };
        let (token, deadline) = (self.next_token, self.deadline());
        self.request(client, Request::Write { token, key: key(object), content, deadline });
    }

    fn ask(&mut self, client: usize) {
        let Workload { read_percent, objects, .. } = self.workload;
        let random = &mut self.clients[client].random;
        let (is_read, object) = (random.below(100) < read_percent, random.below(objects));
        if is_read {
            let (token, deadline) = (self.next_token, self.deadline());
            self.request(client, Request::Read { token, key: key(object), deadline });
        } else {
            self.write(client, object);
        }
    }

    fn deadline(&self) -> Stamp {
        Stamp(self.now() / 1000 + PATIENCE_MS)
    }

    fn request(&mut self, client: usize, request: Request) {
        self.waiting.insert(self.next_token, client);
        self.next_token += 1;
        let server = self.clients[client].server;
        self.queue.plan(MESSAGE_US, Happening::Arrives { server, job: Event::Requested(request) });
    }

    /// The client that is answered, if one is.
    fn next(&mut self) -> Option<usize> {
        match self.queue.pop().expect("clients always wait for something") {
            Happening::Arrives { server, job } => {
                if self.servers[server].jobs.is_empty() {
                    self.queue.plan(handle_us(&job), Happening::Done { server });
                }
                self.servers[server].jobs.push_back(job);
            }
            Happening::Done { server } => {
                let job = self.servers[server].jobs.pop_front().expect("it was being worked on");
                self.step(server, job);
                if let Some(next) = self.servers[server].jobs.front() {
                    self.queue.plan(handle_us(next), Happening::Done { server });
                }
            }
            Happening::Answered { token } => return self.waiting.remove(&token),
            Happening::Woken { server } => {
                let now = Instant(self.now());
                if self.servers[server].woken_at.take_if(|at| *at <= now).is_some() {
                    self.step(server, Event::Woken);
                }
            }
            Happening::Retirable => self.queue.plan(SYNC_US, Happening::Completed),
            Happening::Completed => self.complete(),
            Happening::Told => {
                self.parent.told += 1;
                if self.parent.told == self.servers.len() {
                    self.parent.durations_us.push(self.now() - self.parent.began_at);
                }
            }
        }
        None
    }

    fn complete(&mut self) {
        self.parent.told = 0;
        self.parent.stages.remove(0);
        for server in 0..self.servers.len() {
            let job = Event::Requested(Request::Know { stages: self.parent.stages.clone() });
            self.queue.plan(MESSAGE_US, Happening::Arrives { server, job });
        }
    }

    fn step(&mut self, server: usize, job: Job) {
        let now = self.now();
        let is_end = matches!(&job, Event::Requested(Request::Know { stages }) if stages.len() == 1);
        let (mut out, mut nonsense_count) = (Effects::default(), 0);
        let nonsense_count = &mut nonsense_count;
        let stamp = Stamp(now / 1000);
        let mut cx = Cx {
            me: node(server),
            now: Instant(now),
            stamp,
            random: 0,
            peers: &self.peers,
            wants_frontiers: true,
            proposes_late: false,
            nonsense_count,
        };
        self.servers[server].replica.step(&mut cx, job, &mut out);
        assert_eq!(*nonsense_count, 0, "a member was sent what none would say");
        for effect in out.list {
            self.perform(server, now, effect);
        }
        let server_state = &mut self.servers[server];
        let wake_at = server_state.replica.wake_at();
        if let Some(at) = wake_at.filter(|at| server_state.woken_at.is_none_or(|earlier| *at < earlier)) {
            server_state.woken_at = Some(at);
            self.queue.plan(at.0.saturating_sub(now), Happening::Woken { server });
        }
        if is_end {
            let wait = self.servers[server].durable_at.saturating_sub(now);
            self.queue.plan(wait + MESSAGE_US, Happening::Told);
        }
    }

    fn perform(&mut self, server: usize, now: u64, effect: Effect<Register>) {
        match effect {
            Effect::Persist(record) => {
                let server = &mut self.servers[server];
                server.written_at = server.written_at.max(now) + take_us(record_bytes(&record), DISK_NS_A_BYTE);
                server.durable_at = server.written_at + SYNC_US;
            }
            Effect::Send { to, message, after } => {
                let ready_at = match after {
                    After::Now => now,
                    After::Durable => self.servers[server].durable_at.max(now),
                };
                let to = to.0 as usize - 1;
                let way = match to == server {
                    true => ready_at - now,
                    false => self.leave(server, now, ready_at, message_bytes(&message)),
                };
                let job = Event::Received { from: node(server), message };
                self.queue.plan(way, Happening::Arrives { server: to, job });
            }
            Effect::Answered(Answer::Value { token, content, .. }) => {
                let way = self.leave(server, now, now, content_bytes(&content));
                self.queue.plan(way, Happening::Answered { token });
            }
            Effect::Answered(Answer::Written { token }) => {
                let way = self.leave(server, now, now, 0);
                self.queue.plan(way, Happening::Answered { token });
            }
            Effect::Answered(Answer::Retirable { .. }) => self.queue.plan(MESSAGE_US, Happening::Retirable),
            effect => unreachable!("without failures there is no {effect:?}"),
        }
    }

    /// How long until a message is where it goes. Its bytes take the link when it is said, also if it waits for the disk.
    fn leave(&mut self, server: usize, now: u64, ready_at: u64, bytes: usize) -> u64 {
        let server = &mut self.servers[server];
        server.sent_at = server.sent_at.max(now) + take_us(bytes, LINK_NS_A_BYTE);
        server.sent_at.max(ready_at) - now + MESSAGE_US
    }
}

fn take_us(bytes: usize, ns_a_byte: u64) -> u64 {
    bytes as u64 * ns_a_byte / 1000
}

fn handle_us(job: &Job) -> u64 {
    let bytes = match job {
        Event::Received { message, .. } => message_bytes(message),
        Event::Requested(Request::Write { content, .. }) => content_bytes(content),
        _ => 0,
    };
    HANDLE_US + take_us(bytes, HANDLE_NS_A_BYTE)
}

fn message_bytes(message: &Message) -> usize {
    match &message.body {
        Body::Found { content: Some(content), .. } => content_bytes(content),
        Body::Store { version, .. } => content_bytes(&version.content),
        Body::Renew { versions, .. } => versions.iter().map(|(_, version)| content_bytes(&version.content)).sum(),
        _ => 0,
    }
}

fn record_bytes(record: &Record) -> usize {
    match record {
        Record::Held { version, .. } => content_bytes(&version.content),
        _ => 0,
    }
}

fn content_bytes(content: &Content) -> usize {
    match content {
        Content::Value { bytes, .. } => bytes.len(),
        Content::Tombstone => 0,
    }
}

fn configuration(members: usize, epoch: u32, sizes: Sizes) -> Configuration {
    let members = (0..members).map(node).collect();
    let quorum = QuorumSystem::Threshold { read: sizes.read, write: sizes.write };
    Configuration { group: GroupId(1), epoch: Epoch(epoch), members, quorum }
}

fn node(server: usize) -> NodeId {
    NodeId(server as u32 + 1)
}

fn key(object: u64) -> Key {
    Key(Arc::from(object.to_le_bytes()))
}
