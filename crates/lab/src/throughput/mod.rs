//! Section 5.1 of the chain replication paper: one chain, no failures, clients that ask again as soon as they are
//! answered. `chain` is the real core; the others are what it is compared with.

mod chain;
mod primary_backup;

use std::collections::VecDeque;

use crate::queue::Queue;
use crate::random::Random;

/// The paper's latencies.
pub const MESSAGE_US: u64 = 1_000;
pub const QUERY_US: u64 = 5_000;
/// Of an update where its outcome is computed.
pub const UPDATE_US: u64 = 50_000;
/// Of a change, everywhere else.
pub const CHANGE_US: u64 = 20_000;
pub const CLIENTS: usize = 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Updates at the head, queries at the tail.
    Chain,
    /// Everything at the primary, which waits for all backups.
    PrimaryBackup,
    /// A chain whose queries any server answers, which is not linearizable.
    WeakChain,
    /// The same of primary/backup.
    WeakPrimaryBackup,
}

impl System {
    pub const ALL: [System; 4] = [System::Chain, System::PrimaryBackup, System::WeakChain, System::WeakPrimaryBackup];

    /// As the paper calls it.
    pub fn name(self) -> &'static str {
        match self {
            System::Chain => "chain",
            System::PrimaryBackup => "p/b",
            System::WeakChain => "weak-chain",
            System::WeakPrimaryBackup => "weak-p/b",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    pub system: System,
    pub servers: usize,
    /// Of a hundred requests, so many are updates.
    pub update_percent: u32,
    pub clients: usize,
    /// Simulated time, after a tenth of it that is not counted.
    pub measured_us: u64,
    pub seed: u64,
}

/// Requests answered in each second.
pub fn throughput(experiment: &Experiment) -> f64 {
    let Experiment { system, servers, .. } = *experiment;
    match system {
        System::Chain => World::new(experiment, chain::Servers::new(servers, false)).run(),
        System::WeakChain => World::new(experiment, chain::Servers::new(servers, true)).run(),
        System::PrimaryBackup => World::new(experiment, primary_backup::Servers::new(servers, false)).run(),
        System::WeakPrimaryBackup => World::new(experiment, primary_backup::Servers::new(servers, true)).run(),
    }
}

/// How long one request takes if there is no other.
pub fn latency_us(system: System, servers: usize, update: bool) -> u64 {
    let update_percent = if update { 100 } else { 0 };
    let experiment = Experiment { system, servers, update_percent, clients: 1, measured_us: 0, seed: 1 };
    match system {
        System::Chain => World::new(&experiment, chain::Servers::new(servers, false)).run_once(),
        System::WeakChain => World::new(&experiment, chain::Servers::new(servers, true)).run_once(),
        System::PrimaryBackup => World::new(&experiment, primary_backup::Servers::new(servers, false)).run_once(),
        System::WeakPrimaryBackup => World::new(&experiment, primary_backup::Servers::new(servers, true)).run_once(),
    }
}

/// One curve of figure 4.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub system: System,
    pub servers: usize,
    /// Percent of updates, and requests a second.
    pub points: Vec<(u32, f64)>,
}

pub const REPLICATION_FACTORS: [usize; 3] = [2, 3, 10];
pub const UPDATE_PERCENTS: [u32; 11] = [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50];

/// Figure 4: for each replication factor the curves of all systems.
pub fn figure_4(measured_us: u64, seed: u64) -> Vec<Curve> {
    let mut curves = Vec::new();
    for servers in REPLICATION_FACTORS {
        for system in System::ALL {
            let point = |update_percent: u32| {
                let experiment = Experiment { system, servers, update_percent, clients: CLIENTS, measured_us, seed };
                (update_percent, throughput(&experiment))
            };
            curves.push(Curve { system, servers, points: UPDATE_PERCENTS.into_iter().map(point).collect() });
        }
    }
    curves
}

/// What a server has to do.
enum Job<L> {
    Request { client: usize, update: bool },
    Letter { from: usize, letter: L },
}

enum Outgoing<L> {
    ToServer { from: usize, to: usize, letter: L },
    ToClient { client: usize },
}

/// The servers of one system, without their processors.
trait Service {
    type Letter;

    /// Which server a client turns to; `dice` is a number from 0 to 999.
    fn server_for(&self, update: bool, dice: u64) -> usize;
    /// How long a job occupies a server's only processor.
    fn work_us(&self, job: &Job<Self::Letter>) -> u64;
    /// What comes of a job once the processor is done with it.
    fn finish(&mut self, now: u64, server: usize, job: Job<Self::Letter>, out: &mut Vec<Outgoing<Self::Letter>>);
}

enum Event<L> {
    Arrives { server: usize, job: Job<L> },
    Done { server: usize },
    Answered { client: usize },
}

struct World<S: Service> {
    experiment: Experiment,
    service: S,
    queue: Queue<Event<S::Letter>>,
    /// Of each server: what it works on, and what waits behind.
    processors: Vec<VecDeque<Job<S::Letter>>>,
    clients: Vec<Random>,
}

impl<S: Service> World<S> {
    fn new(experiment: &Experiment, service: S) -> World<S> {
        let clients = (0..experiment.clients as u64).map(|client| Random::new(experiment.seed * 1_000 + client));
        let mut world = World {
            experiment: *experiment,
            service,
            queue: Queue::new(),
            processors: (0..experiment.servers).map(|_| VecDeque::new()).collect(),
            clients: clients.collect(),
        };
        (0..experiment.clients).for_each(|client| world.ask(client));
        world
    }

    fn run(mut self) -> f64 {
        let from_us = self.experiment.measured_us / 10;
        let until_us = from_us + self.experiment.measured_us;
        let mut answered = 0_u64;
        while let Some(event) = self.queue.pop() {
            if self.queue.now() >= until_us {
                break;
            }
            if let Some(client) = self.handle(event) {
                answered += u64::from(self.queue.now() >= from_us);
                self.ask(client);
            }
        }
        answered as f64 * 1e6 / self.experiment.measured_us as f64
    }

    fn run_once(mut self) -> u64 {
        loop {
            let event = self.queue.pop().expect("a client that waits is answered");
            if self.handle(event).is_some() {
                return self.queue.now();
            }
        }
    }

    fn ask(&mut self, client: usize) {
        let random = &mut self.clients[client];
        let update = random.below(100) < u64::from(self.experiment.update_percent);
        let server = self.service.server_for(update, random.below(1000));
        self.queue.plan(MESSAGE_US, Event::Arrives { server, job: Job::Request { client, update } });
    }

    /// The client that is answered, if one is.
    fn handle(&mut self, event: Event<S::Letter>) -> Option<usize> {
        match event {
            Event::Answered { client } => return Some(client),
            Event::Arrives { server, job } => match self.service.work_us(&job) {
                0 => self.finish(server, job),
                work_us => {
                    if self.processors[server].is_empty() {
                        self.queue.plan(work_us, Event::Done { server });
                    }
                    self.processors[server].push_back(job);
                }
            },
            Event::Done { server } => {
                let job = self.processors[server].pop_front().expect("it was being worked on");
                self.finish(server, job);
                if let Some(next) = self.processors[server].front() {
                    self.queue.plan(self.service.work_us(next), Event::Done { server });
                }
            }
        }
        None
    }

    fn finish(&mut self, server: usize, job: Job<S::Letter>) {
        let mut out = Vec::new();
        self.service.finish(self.queue.now(), server, job, &mut out);
        for outgoing in out {
            let event = match outgoing {
                Outgoing::ToServer { from, to, letter } => {
                    Event::Arrives { server: to, job: Job::Letter { from, letter } }
                }
                Outgoing::ToClient { client } => Event::Answered { client },
            };
            self.queue.plan(MESSAGE_US, event);
        }
    }
}
