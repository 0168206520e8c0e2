//! The throughput evaluation of FLAIR, figures 1 and 2 of its technical report: what reads at any consistent replica bring, by the
//! share of writes and by how unevenly keys are used.
//!
//! [`Router`](quorate_protocol::router::Router) and [`Sessions`](quorate_protocol::router::Sessions) are the real ones, and
//! decide where reads go, what is recalled, and which writes wait for it. The replicas around them are a model of Multi-Paxos
//! without failures and disks, in which every message costs the node that handles it the same. Nothing is batched: each write, and each
//! confirmation of a read, is a round of its own. Every run asserts that it is linearizable, object by object.

mod keys;
mod leader;
mod plot;
mod world;

pub use plot::svg;

use world::World;

/// From one node to another, or to a client.
pub const MESSAGE_NS: u64 = 50_000;
/// Of a replica's only processor: for each message that it is sent, with the answer to that, and for each that it sends to another replica or
/// to a router and that is no answer.
pub const HANDLE_NS: u64 = 10_000;
/// Of a router, for each message that it passes on: a switch, or nearly.
pub const ROUTER_NS: u64 = 100;
pub const CLIENTS: usize = 512;
pub const OBJECTS: usize = 100_000;
/// Hash slots, as everywhere.
pub const KGROUPS: usize = 16_384;
/// By how many requests each throughput is told.
pub const OPERATIONS: u64 = 100_000;
pub const NODES: [usize; 2] = [3, 5];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// All reads at the leader, under its lease.
    Leader,
    /// All reads at the leader, each confirmed by a quorum.
    Quorum,
    /// Reads wherever a router sends them; each router passes its share of all requests.
    Routed { routers: usize },
}

impl System {
    pub const ALL: [System; 4] =
        [System::Leader, System::Quorum, System::Routed { routers: 1 }, System::Routed { routers: 3 }];

    pub fn name(self) -> &'static str {
        match self {
            System::Leader => "leader",
            System::Quorum => "quorum",
            System::Routed { routers: 1 } => "routed, 1 router",
            System::Routed { .. } => "routed, 3 routers",
        }
    }

    fn routers(self) -> usize {
        match self {
            System::Leader | System::Quorum => 0,
            System::Routed { routers } => routers,
        }
    }
}

/// YCSB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    A,
    B,
    C,
}

impl Workload {
    pub const ALL: [Workload; 3] = [Workload::A, Workload::B, Workload::C];

    pub fn name(self) -> &'static str {
        match self {
            Workload::A => "A",
            Workload::B => "B",
            Workload::C => "C",
        }
    }

    pub fn write_percent(self) -> u64 {
        match self {
            Workload::A => 50,
            Workload::B => 5,
            Workload::C => 0,
        }
    }
}

/// How often each object is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Uniform,
    /// With exponent 0.99.
    Zipf,
}

impl Keys {
    pub const ALL: [Keys; 2] = [Keys::Uniform, Keys::Zipf];

    pub fn name(self) -> &'static str {
        match self {
            Keys::Uniform => "uniform",
            Keys::Zipf => "Zipf 0.99",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    pub system: System,
    pub workload: Workload,
    pub keys: Keys,
    pub replicas: usize,
    pub clients: usize,
    /// Answered while it is measured, after as many that are not counted.
    pub operations: u64,
    pub router_ns: u64,
    pub seed: u64,
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Requests answered in each second.
    pub throughput: f64,
    pub reads: u64,
    pub writes: u64,
    pub read_at_leader: u64,
    /// By a member that had not executed the slot asked for; then read at the leader.
    pub turned_back: u64,
    pub recalls: u64,
}

impl Outcome {
    pub fn leader_share(&self) -> f64 {
        share(self.read_at_leader, self.reads)
    }

    pub fn turned_back_share(&self) -> f64 {
        share(self.turned_back, self.reads)
    }

    pub fn recalls_per_write(&self) -> f64 {
        share(self.recalls, self.writes)
    }
}

fn share(of: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { of as f64 / all as f64 }
}

/// Panics if a read is stale.
pub fn measure(experiment: &Experiment) -> Outcome {
    World::new(experiment).run()
}

/// One bar of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    pub experiment: Experiment,
    pub outcome: Outcome,
    /// As a multiple of what [`System::Leader`] has with as many replicas.
    pub relative: f64,
}

/// Figures 1 and 2 with so many replicas, in the order of [`Keys::ALL`], [`Workload::ALL`] and [`System::ALL`].
///
/// Where all reads are the leader's it is the same which keys they are of, and measured once.
pub fn figures(replicas: usize, clients: usize, operations: u64, router_ns: u64, seed: u64) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for keys in Keys::ALL {
        for workload in Workload::ALL {
            let mut leader = 0.0;
            for system in System::ALL {
                let experiment = Experiment { system, workload, keys, replicas, clients, operations, router_ns, seed };
                let is_same = |bar: &&Bar| (bar.experiment.system, bar.experiment.workload) == (system, workload);
                let outcome = match bars.iter().find(is_same).filter(|_| system.routers() == 0) {
                    Some(bar) => bar.outcome,
                    None => measure(&experiment),
                };
                if system == System::Leader {
                    leader = outcome.throughput;
                }
                bars.push(Bar { experiment, outcome, relative: outcome.throughput / leader });
            }
        }
    }
    bars
}

/// What the report says in words, of five replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Paper {
    pub relative: Option<f64>,
    pub leader_percent: Option<f64>,
    pub turned_back_percent: Option<f64>,
}

/// Its system is `routed, 1 router` here, and OptRaft is `leader`.
pub fn paper(experiment: &Experiment) -> Paper {
    if experiment.replicas != 5 || experiment.system != (System::Routed { routers: 1 }) {
        return Paper::default();
    }
    let (relative, leader_percent, turned_back_percent) = match (experiment.keys, experiment.workload) {
        (Keys::Uniform, Workload::A) => (Some(1.13), None, None),
        (Keys::Uniform, Workload::B) => (Some(2.4), Some(2.9), None),
        (Keys::Uniform, Workload::C) => (Some(4.7), None, None),
        (Keys::Zipf, Workload::B) => (None, None, Some(0.3)),
        (Keys::Zipf, _) => (None, None, None),
    };
    Paper { relative, leader_percent, turned_back_percent }
}
