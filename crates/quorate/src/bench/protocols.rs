//! `quorate bench protocols`: the same load on volumes of each protocol, in turns.
//!
//! Beside throughput, latency and processor time it counts what replicas say to each other for an operation, and how evenly
//! the work lies on the nodes. Connections are spread over all nodes. Namespaces are made at first and dropped at last.

use std::cell::RefCell;
use std::time::Duration;

use clap::Args;
use quorate_node::root::NAMESPACE_NUMBER_MAX;
use serde::Serialize;

use super::cluster::{self, Cluster, Spent};
use super::load::{Load, Measured};
use super::pairs::{self, Compared, Contender, Estimate, told, told_whole};
use super::{CONNECTIONS_MAX, Operation, PIPELINE_MAX, SIZE_MAX};
use crate::client::Endpoint;
use crate::failure::{Context, Failure};
use crate::output::{align_right, say, table, trimmed};

const EXAMPLES: &str = "Examples:
  quorate bench protocols                      what the cluster has nodes for: on 3 paxos, chain, register
  quorate bench protocols --pairs 20 --json > figures.json
  quorate bench protocols --pipeline 16 --pairs 6

Of 4 nodes a 2x2 grid is measured too, of 5 paxos with 5 replicas, of 9, 16 and 25 grids of all of them.";

/// Compare volumes of each protocol: throughput, CPU and messages per operation, how evenly nodes work
///
/// It makes its own namespaces, and drops them at its end, also after a failure or when it is told to end (Ctrl-C, SIGTERM).
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(super) struct Options {
    /// The first of nine namespaces to be made, which must not be there
    #[arg(short = 'n', long, value_name = "N", default_value_t = 9_100,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NAMESPACE_NUMBER_MAX - 8)))]
    namespace: u32,
    /// Connections, spread over all nodes
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    connections: u32,
    /// How many requests a connection sends at once
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=PIPELINE_MAX))]
    pipeline: u32,
    /// Bytes of a value
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=SIZE_MAX))]
    size: u32,
    /// How many keys, drawn at random
    #[arg(short, long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: u64,
    /// Seconds of each measurement, after a warm-up of a fifth of that
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How often each is made; six or more give intervals
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// The server processes whose CPU time is counted
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pids: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A kind of namespace that is compared with the others.
struct Way {
    name: &'static str,
    nodes: usize,
    settings: &'static str,
}

/// The others are compared with the first.
const WAYS: [Way; 9] = [
    Way { name: "paxos 3", nodes: 3, settings: "PROTOCOL paxos REPLICAS 3" },
    Way { name: "chain 3", nodes: 3, settings: "PROTOCOL chain REPLICAS 3" },
    Way { name: "chain 3 apportioned", nodes: 3, settings: "PROTOCOL chain REPLICAS 3 READS apportioned" },
    Way { name: "register 3 majority", nodes: 3, settings: "PROTOCOL register REPLICAS 3 QUORUM majority" },
    Way { name: "register 4 grid 2x2", nodes: 4, settings: "PROTOCOL register REPLICAS 4 QUORUM grid 2x2" },
    Way { name: "paxos 5", nodes: 5, settings: "PROTOCOL paxos REPLICAS 5" },
    Way { name: "register 9 grid 3x3", nodes: 9, settings: "PROTOCOL register REPLICAS 9 QUORUM grid 3x3" },
    Way { name: "register 16 grid 4x4", nodes: 16, settings: "PROTOCOL register REPLICAS 16 QUORUM grid 4x4" },
    Way { name: "register 25 grid 5x5", nodes: 25, settings: "PROTOCOL register REPLICAS 25 QUORUM grid 5x5" },
];

/// Of a hundred operations, in the last part.
const WRITES_PERCENT: u64 = 5;

#[derive(Debug, Serialize)]
struct Part {
    load: String,
    ways: Vec<Figures>,
}

#[derive(Debug, Serialize)]
struct Figures {
    #[serde(flatten)]
    compared: Compared,
    /// What replicas said to those of other nodes.
    messages_per_operation: Estimate,
    /// The processor time of the node that spent most, to the mean of all; absent if it is not known.
    busiest_to_mean: Option<Estimate>,
}

pub(super) fn run(endpoint: &Endpoint, options: &Options) -> Result<(), Failure> {
    let cluster = Cluster::find(endpoint, &options.pids)?;
    cluster::drop_when_told_to_end(&[&cluster])?;
    let nodes = cluster.nodes.len();
    let ways: Vec<(u32, &Way)> = (options.namespace..).zip(&WAYS).filter(|(_, way)| way.nodes <= nodes).collect();
    if ways.is_empty() {
        return Err(Failure(format!("the cluster has {nodes} nodes, and three are needed")));
    }
    let mut parts = Vec::new();
    let measured = measure(&cluster, options, &ways, &mut parts);
    let dropped = cluster.made().into_iter().map(|number| cluster.drop_namespace(number)).fold(Ok(()), Result::and);
    if options.json && !parts.is_empty() {
        say(serde_json::to_string_pretty(&parts).context("cannot print the measurements")?);
    }
    measured.and(dropped)
}

fn measure(cluster: &Cluster, options: &Options, ways: &[(u32, &Way)], parts: &mut Vec<Part>) -> Result<(), Failure> {
    let Options { connections, pipeline, size, keys, seconds, .. } = *options;
    for (number, way) in ways {
        let settings: Vec<&str> = way.settings.split(' ').collect();
        cluster.make_namespace(*number, &settings)?;
        let filled = cluster.run_spread(&Load::fill(size, keys).in_namespace(*number))?;
        if let Some(error) = filled.error {
            return Err(Failure(format!("{}: {error}", way.name)));
        }
    }
    let of = |operation| Load::random(operation, connections, pipeline, size, keys, Duration::from_secs(seconds));
    let mixed = of(Operation::Get).with_writes(WRITES_PERCENT);
    let loads = [("SET", of(Operation::Set)), ("GET", of(Operation::Get)), ("GET, 5% SET, latencies of GET", mixed)];
    for (title, load) in loads {
        let part = Part { load: title.to_owned(), ways: in_turns(cluster, options.pairs, ways, &load)? };
        if !options.json {
            print(&part, options);
        }
        parts.push(part);
    }
    Ok(())
}

fn in_turns(cluster: &Cluster, pairs: u32, ways: &[(u32, &Way)], load: &Load) -> Result<Vec<Figures>, Failure> {
    let spent: Vec<RefCell<Vec<Work>>> = ways.iter().map(|_| RefCell::default()).collect();
    let contender = |(at, (number, way)): (usize, &(u32, &Way))| {
        let (load, spent) = (load.clone().in_namespace(*number), &spent[at]);
        let measure = move || {
            let before = cluster.spent()?;
            let measured = cluster.run_spread(&load)?;
            spent.borrow_mut().push(Work::between(&before, &cluster.spent()?, &measured));
            Ok(measured)
        };
        Contender { name: way.name.to_owned(), measure: Box::new(measure) }
    };
    let mut contenders: Vec<Contender<'_>> = ways.iter().enumerate().map(contender).collect();
    let compared = pairs::in_turns(pairs, &mut contenders)?;
    drop(contenders);
    let figures = compared.into_iter().zip(&spent).map(|(compared, spent)| {
        let spent = spent.borrow();
        let shares: Option<Vec<f64>> = spent.iter().map(|work| work.busiest_to_mean).collect();
        Figures {
            compared,
            messages_per_operation: pairs::estimate(spent.iter().map(|work| work.messages).collect()),
            busiest_to_mean: shares.map(pairs::estimate),
        }
    });
    Ok(figures.collect())
}

/// What one measurement took.
struct Work {
    /// Each operation.
    messages: f64,
    busiest_to_mean: Option<f64>,
}

impl Work {
    /// The warm-up is in between too: as long as a fifth of what is measured, at the same pace.
    fn between(before: &Spent, after: &Spent, measured: &Measured) -> Work {
        const WITH_WARM_UP: f64 = 1.2;
        let Measured { row, seconds, .. } = measured;
        let operations = row.operations_per_s * seconds * WITH_WARM_UP;
        let cpu_us = before.cpu_us.as_ref().zip(after.cpu_us.as_ref());
        let busiest_to_mean = cpu_us.and_then(|(before, after)| {
            let spent: Vec<f64> = before.iter().zip(after).map(|(before, after)| (after - before) as f64).collect();
            let mean = spent.iter().sum::<f64>() / spent.len() as f64;
            (mean > 0.0).then(|| spent.iter().copied().fold(0.0, f64::max) / mean)
        });
        let messages = after.messages.saturating_sub(before.messages) as f64;
        Work { messages: messages / operations.max(1.0), busiest_to_mean }
    }
}

fn print(part: &Part, options: &Options) {
    let Options { connections, pipeline, size, pairs, .. } = *options;
    say(format_args!(
        "{}: {connections} connections over all nodes, pipeline {pipeline}, {size} B, medians of {pairs}, CPU to that of {}",
        part.load, WAYS[0].name
    ));
    let head = ["", "ops/s", "p50 ms", "p99 ms", "CPU us/op", "ratio", "messages/op", "busiest node to mean"];
    let mut lines = table(&head);
    for way in &part.ways {
        let Compared { server, operations_per_s, latency_p50_us, latency_p99_us, .. } = &way.compared;
        let ms = |estimate: &Estimate| format!("{:.3}", estimate.median / 1000.0);
        let of = |estimate: Option<Estimate>| estimate.map_or_else(|| "-".to_owned(), |estimate| told(&estimate));
        // Of this one's to the first's, where the pairs tell the first's to this one's.
        let inverse = |ratio: Estimate| format!("{:.2}", 1.0 / ratio.median);
        lines.add_row([
            server.clone(),
            told_whole(operations_per_s),
            ms(latency_p50_us),
            ms(latency_p99_us),
            of(way.compared.cpu_us_per_operation),
            way.compared.cpu_ratio.map_or_else(|| "1.00".to_owned(), inverse),
            format!("{:.2}", way.messages_per_operation.median),
            way.busiest_to_mean.map_or_else(|| "-".to_owned(), |share| format!("{:.2}", share.median)),
        ]);
    }
    align_right(&mut lines, 1..8);
    say(trimmed(lines));
}
