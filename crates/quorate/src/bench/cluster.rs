//! The cluster that is measured: its nodes, what they use, and the namespaces that are made for it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use quorate_node::status::{NodeState, NodeStatus, OwnGroupsStatus, Status};
use quorate_resp::Value;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use super::cpu::Processes;
use super::load::{Load, Measured};
use super::processes;
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::complain;
use crate::status;

/// Groups that keep something in hand for long: a busy one its many results.
const ACTIVE_MAX: u64 = 100;
/// Servers that take less than this share of a core, together, do nothing but wait; a million awake groups take some of it.
const QUIET_SHARE: f64 = 0.15;
const QUIET_WITHIN_S: u32 = 60;

pub(super) struct Cluster {
    endpoint: Endpoint,
    pub(super) nodes: Vec<Node>,
    /// Those of all nodes.
    pub(super) processes: Processes,
    /// Namespaces that were made for the benchmark and are still there.
    made: Arc<Mutex<Vec<u32>>>,
}

pub(super) struct Node {
    pub(super) name: String,
    pub(super) endpoint: Endpoint,
    process: Processes,
}

/// What a node had allocated at two moments, and what that is for each of so many things.
#[derive(Debug, Serialize)]
pub(super) struct NodeMemory {
    pub(super) node: String,
    pub(super) before_bytes: u64,
    pub(super) after_bytes: u64,
    pub(super) bytes_each: f64,
}

/// Where the own groups of a node are.
#[derive(Debug, Serialize)]
pub(super) struct NodeGroups {
    pub(super) node: String,
    #[serde(flatten)]
    pub(super) groups: OwnGroupsStatus,
}

#[derive(Debug, Serialize)]
pub(super) struct NodeIdle {
    pub(super) node: String,
    /// Of one core; absent if the node's process is not known.
    pub(super) cpu_percent: Option<f64>,
}

/// What nodes have spent since they were started.
pub(super) struct Spent {
    pub(super) cpu_us: Option<Vec<u64>>,
    pub(super) messages: u64,
}

impl Cluster {
    pub(super) fn find(endpoint: &Endpoint, pids: &[u32]) -> Result<Cluster, Failure> {
        let status = status::fetch(&mut Client::connect(endpoint)?)?;
        if let Some(node) = status.nodes.iter().find(|node| node.state != NodeState::Live) {
            return Err(Failure(format!("{} is not there: all nodes are needed", node.name)));
        }
        let processes = processes(endpoint, pids, Some(&status))?;
        let node = |node: &NodeStatus| {
            let at = endpoint.at(&node.client);
            let at =
                at.ok_or_else(|| Failure(format!("{} has no address for clients: {:?}", node.name, node.client)))?;
            let pid = node.own.as_ref().map(|own| own.pid).filter(|_| !processes.is_empty());
            let process = pid.map_or_else(Processes::default, |pid| Processes::of_nodes([pid].into_iter()));
            Ok::<_, Failure>(Node { name: node.name.clone(), endpoint: at, process })
        };
        let nodes = status.nodes.iter().map(node).collect::<Result<_, _>>()?;
        Ok(Cluster { endpoint: endpoint.clone(), nodes, processes, made: Arc::default() })
    }

    pub(super) fn run(&self, load: &Load) -> Result<Measured, Failure> {
        load.run(std::slice::from_ref(&self.endpoint), &self.processes)
    }

    /// With the processor time of what the load leaves to be done: checkpoints, and the merging of what was stored.
    pub(super) fn run_to_the_end(&self, load: &Load) -> Result<Measured, Failure> {
        let before = self.processes.cpu_us();
        let mut measured = self.run(load)?;
        let began = Instant::now();
        let idle_share = self.wait_for_quiet();
        let idle_us = idle_share * began.elapsed().as_micros() as f64;
        let spent = self.processes.cpu_us().zip(before).map(|(after, before)| after.saturating_sub(before));
        let operations = measured.row.operations_per_s * measured.seconds;
        measured.row.cpu_us_per_operation = spent.map(|us| (us as f64 - idle_us) / operations);
        Ok(measured)
    }

    /// Returns when the servers take next to no processor time, or after a while: which share of a core they take by then.
    fn wait_for_quiet(&self) -> f64 {
        let mut share = 0.0;
        for _ in 0..QUIET_WITHIN_S {
            let before = self.processes.cpu_us();
            thread::sleep(Duration::from_secs(1));
            let spent = self.processes.cpu_us().zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
            share = spent as f64 / 1e6;
            if share <= QUIET_SHARE {
                return share;
            }
        }
        share.min(QUIET_SHARE)
    }

    /// With the connections spread over all nodes.
    pub(super) fn run_spread(&self, load: &Load) -> Result<Measured, Failure> {
        let endpoints: Vec<Endpoint> = self.nodes.iter().map(|node| node.endpoint.clone()).collect();
        load.run(&endpoints, &self.processes)
    }

    /// The processor time of each node, as far as it is known, and what all replicas have said to others so far.
    pub(super) fn spent(&self) -> Result<Spent, Failure> {
        let Status { nodes, .. } = status::fetch(&mut Client::connect(&self.endpoint)?)?;
        let messages = nodes.iter().filter_map(|node| node.own.as_ref()).map(|own| own.messages_sent).sum();
        let cpu_us = self.nodes.iter().map(|node| node.process.cpu_us()).collect();
        Ok(Spent { cpu_us, messages })
    }

    pub(super) fn make_namespace(&self, number: u32, settings: &[&str]) -> Result<(), Failure> {
        let number_text = number.to_string();
        let words = [&["QUORATE", "NAMESPACE", "CREATE", &number_text], settings].concat();
        Client::connect(&self.endpoint)?.ask(&words)?;
        lock(&self.made).push(number);
        // Any node may be asked for it.
        let deadline = Instant::now() + Duration::from_secs(10);
        for node in &self.nodes {
            while let Err(failure) = Client::connect_to_namespace(&node.endpoint, number) {
                if Instant::now() > deadline {
                    return Err(failure);
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    pub(super) fn made(&self) -> Vec<u32> {
        lock(&self.made).clone()
    }

    pub(super) fn drop_namespace(&self, number: u32) -> Result<(), Failure> {
        drop_at(&self.endpoint, number)?;
        lock(&self.made).retain(|made| *made != number);
        Ok(())
    }

    /// Whether each node is a member of each volume.
    pub(super) fn holds_everywhere(&self, namespace: u32) -> Result<bool, Failure> {
        let Status { volumes, .. } = status::fetch(&mut Client::connect(&self.endpoint)?)?;
        let mut of_namespace = volumes.iter().filter(|volume| volume.namespace == namespace);
        Ok(of_namespace.all(|volume| volume.members.len() == self.nodes.len()))
    }

    pub(super) fn groups(&self) -> Result<Vec<NodeGroups>, Failure> {
        let Status { nodes, .. } = status::fetch(&mut Client::connect(&self.endpoint)?)?;
        let of = |node: NodeStatus| Some(NodeGroups { node: node.name, groups: node.own?.own_groups });
        Ok(nodes.into_iter().filter_map(of).collect())
    }

    /// Returns when next to no own group of any node has anything in hand, or after so long.
    pub(super) fn wait_for_rest(&self, within: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + within;
        let is_awake = |node: &NodeGroups| node.groups.active > ACTIVE_MAX;
        while Instant::now() < deadline && self.groups()?.iter().any(is_awake) {
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// What each node has allocated.
    pub(super) fn memory(&self) -> Result<Vec<u64>, Failure> {
        self.nodes.iter().map(|node| used_memory(&node.endpoint)).collect()
    }

    pub(super) fn memory_since(&self, before: &[u64], count: u64) -> Result<Vec<NodeMemory>, Failure> {
        let after = self.memory()?;
        let since = |((node, &before_bytes), after_bytes): ((&Node, &u64), u64)| NodeMemory {
            node: node.name.clone(),
            before_bytes,
            after_bytes,
            bytes_each: (after_bytes as f64 - before_bytes as f64) / count as f64,
        };
        Ok(self.nodes.iter().zip(before).zip(after).map(since).collect())
    }

    pub(super) fn idle(&self, seconds: u64) -> Result<Vec<NodeIdle>, Failure> {
        let times = || -> Vec<Option<u64>> { self.nodes.iter().map(|node| node.process.cpu_us()).collect() };
        let before = times();
        thread::sleep(Duration::from_secs(seconds));
        let spent = before.into_iter().zip(times()).map(|(before, after)| Some(after?.saturating_sub(before?)));
        let idle = |(node, us): (&Node, Option<u64>)| NodeIdle {
            node: node.name.clone(),
            cpu_percent: us.map(|us| us as f64 / (seconds * 10_000) as f64),
        };
        Ok(self.nodes.iter().zip(spent).map(idle).collect())
    }
}

/// Whoever ends the benchmark by a signal does not want its namespaces either. A second signal ends it at once.
pub(super) fn drop_when_told_to_end(clusters: &[&Cluster]) -> Result<(), Failure> {
    let refused = "cannot listen for signals";
    let was_told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, was_told.clone()).context(refused)?;
        flag::register(signal, was_told.clone()).context(refused)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).context(refused)?;
    let clusters: Vec<_> = clusters.iter().map(|cluster| (cluster.endpoint.clone(), cluster.made.clone())).collect();
    thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        for (endpoint, made) in clusters {
            // Held to the end of the process: nothing more is made.
            let made = std::mem::ManuallyDrop::new(lock(&made));
            for &number in made.iter() {
                if let Err(Failure(reason)) = drop_at(&endpoint, number) {
                    complain(format_args!("namespace {number} is left: {reason}; quorate namespace drop removes it"));
                }
            }
        }
        std::process::exit(128 + signal);
    });
    Ok(())
}

fn drop_at(endpoint: &Endpoint, number: u32) -> Result<(), Failure> {
    Client::connect(endpoint)?.ask(&["QUORATE", "NAMESPACE", "DROP", &number.to_string()]).map(drop)
}

fn lock(made: &Mutex<Vec<u32>>) -> MutexGuard<'_, Vec<u32>> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}

fn used_memory(endpoint: &Endpoint) -> Result<u64, Failure> {
    let text = match Client::connect(endpoint)?.ask(&["INFO", "memory"])? {
        Value::Bulk(text) | Value::Verbatim { text, .. } => String::from_utf8_lossy(&text).into_owned(),
        other => return Err(Failure(format!("INFO was answered with {other:?}"))),
    };
    let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
    let bytes = line.and_then(|text| text.trim().parse().ok());
    bytes.ok_or_else(|| Failure(format!("{endpoint} does not tell the memory that it uses")))
}
