//! `quorate bench changes`: registers' quorum sizes and members change, while nobody asks and under load.
//!
//! How long a change takes until the older configuration is retired, and the longest time that a client was without an answer,
//! beside that of an equal run in which nothing changes. Namespaces are made at first and dropped at last.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_node::root::NAMESPACE_NUMBER_MAX;
use quorate_resp::Value;
use serde::Serialize;

use super::cluster::{self, Cluster};
use super::load::{Load, Measured, key};
use super::pairs::{self, Estimate, told};
use super::{CONNECTIONS_MAX, Operation};
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{align_right, say, table, trimmed};

const EXAMPLES: &str = "Examples:
  quorate bench changes                        150 connections, 5 pairs of runs, with changes and without
  quorate bench changes --volumes 64 --pairs 10 --json > figures.json";

/// Changes made while nobody asks.
const IDLE_CHANGES: usize = 20;
/// Between two changes of a run.
const PAUSE: Duration = Duration::from_millis(100);
/// A change that has not ended by then never will.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of a hundred operations.
const WRITES_PERCENT: u64 = 50;
const SIZE_BYTES: u32 = 16;

/// Change quorum sizes and members of registers: how long it takes, and how long clients wait meanwhile
///
/// It makes its own namespaces, and drops them at its end, also after a failure or when it is told to end (Ctrl-C, SIGTERM).
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(super) struct Options {
    /// The first of two namespaces to be made, which must not be there
    #[arg(short = 'n', long, value_name = "N", default_value_t = 9_200,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NAMESPACE_NUMBER_MAX - 1)))]
    namespace: u32,
    /// Connections, spread over all nodes; half of what they send is written
    #[arg(short, long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    connections: u32,
    /// How many keys, drawn at random
    #[arg(short, long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: u64,
    /// Volumes of each namespace: sizes of all are changed at once, members of one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    volumes: u32,
    /// Seconds of each run, after a warm-up of a fifth of that
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How often a run is made with changes and without
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is changed, and what it was and becomes by turns.
struct Kind {
    name: &'static str,
    namespace: u32,
    settings: String,
    changes: [Vec<String>; 2],
}

#[derive(Debug, Serialize)]
struct Figures {
    changed: &'static str,
    connections: u32,
    idle_ms: Estimate,
    loaded_ms: Estimate,
    loaded_longest_ms: f64,
    changes_under_load: usize,
    /// Without changes.
    latency_p99_ms: Estimate,
    /// The longest that a client was without an answer, in runs without changes and in those with them.
    quiet_gap_ms: Estimate,
    changing_gap_ms: Estimate,
    gap_ratio: Estimate,
}

pub(super) fn run(endpoint: &Endpoint, options: &Options) -> Result<(), Failure> {
    let cluster = Cluster::find(endpoint, &[])?;
    cluster::drop_when_told_to_end(&[&cluster])?;
    let kinds = kinds(&cluster, options)?;
    let mut figures = Vec::new();
    let measured = kinds.iter().try_for_each(|kind| {
        figures.push(measure(&cluster, options, kind)?);
        Ok(())
    });
    let dropped = cluster.made().into_iter().map(|number| cluster.drop_namespace(number)).fold(Ok(()), Result::and);
    if !figures.is_empty() {
        match options.json {
            true => say(serde_json::to_string_pretty(&figures).context("cannot print the measurements")?),
            false => print(&figures, options),
        }
    }
    measured.and(dropped)
}

fn kinds(cluster: &Cluster, options: &Options) -> Result<[Kind; 2], Failure> {
    let names: Vec<&str> = cluster.nodes.iter().map(|node| &node.name[..]).collect();
    let count = names.len();
    if !(3..=15).contains(&count) {
        return Err(Failure(format!("the cluster has {count} nodes, and 3 to 15 are needed")));
    }
    let settings = |quorum: String| {
        format!("PROTOCOL register REPLICAS {count} VOLUMES {} TOLERANCE 0 QUORUM {quorum}", options.volumes)
    };
    let (sizes, members) = (options.namespace, options.namespace + 1);
    let middle = (count.div_ceil(2), count + 1 - count.div_ceil(2));
    let to = |(read, write): (usize, usize)| format!("QUORATE QUORUM SET NAMESPACE {sizes} {read} {write}");
    let at = |names: &[&str]| format!("QUORATE GROUP MOVE {} MEMBERS {} QUORUM majority", key(0), names.join(","));
    let words = |line: String| line.split(' ').map(str::to_owned).collect();
    Ok([
        Kind {
            name: "sizes",
            namespace: sizes,
            settings: settings(format!("threshold {} {}", middle.0, middle.1)),
            changes: [words(to((1, count))), words(to(middle))],
        },
        Kind {
            name: "members",
            namespace: members,
            settings: settings("majority".to_owned()),
            changes: [words(at(&names[..count - 1])), words(at(&names))],
        },
    ])
}

fn measure(cluster: &Cluster, options: &Options, kind: &Kind) -> Result<Figures, Failure> {
    let settings: Vec<&str> = kind.settings.split(' ').collect();
    cluster.make_namespace(kind.namespace, &settings)?;
    let served = |measured: Measured| match measured.error {
        Some(error) => Err(Failure(format!("{}: a request was refused: {error}", kind.name))),
        None => Ok(measured),
    };
    served(cluster.run_spread(&Load::fill(SIZE_BYTES, options.keys).in_namespace(kind.namespace))?)?;
    let mut changer = Changer::new(cluster, kind)?;
    let idle_ms = (0..IDLE_CHANGES).map(|_| changer.change()).collect::<Result<Vec<_>, _>>()?;
    let measured_for = Duration::from_secs(options.seconds);
    let load = Load::random(Operation::Get, options.connections, 1, SIZE_BYTES, options.keys, measured_for);
    let load = load.with_writes(WRITES_PERCENT).in_namespace(kind.namespace);
    let (mut p99s, mut quiet_gaps, mut changing_gaps, mut loaded_ms) = (vec![], vec![], vec![], vec![]);
    for _ in 0..options.pairs {
        let quiet = served(cluster.run_spread(&load)?)?;
        p99s.push(quiet.row.latency_p99_us as f64 / 1000.0);
        quiet_gaps.push(longest_ms(&quiet));
        let is_over = AtomicBool::new(false);
        let changing = thread::scope(|scope| {
            let changes = scope.spawn(|| {
                // The warm-up is not looked at.
                thread::sleep(measured_for / 5 + PAUSE);
                while !is_over.load(Ordering::Relaxed) {
                    loaded_ms.push(changer.change()?);
                    thread::sleep(PAUSE);
                }
                Ok(())
            });
            let measured = cluster.run_spread(&load);
            is_over.store(true, Ordering::Relaxed);
            let changed: Result<(), Failure> = changes.join().expect("changes do not panic");
            changed.and(measured)
        });
        changing_gaps.push(longest_ms(&served(changing?)?));
    }
    let ratios = changing_gaps.iter().zip(&quiet_gaps).map(|(changing, quiet)| changing / quiet).collect();
    Ok(Figures {
        changed: kind.name,
        connections: options.connections,
        idle_ms: pairs::estimate(idle_ms),
        loaded_longest_ms: loaded_ms.iter().copied().fold(0.0, f64::max),
        changes_under_load: loaded_ms.len(),
        loaded_ms: pairs::estimate(loaded_ms),
        latency_p99_ms: pairs::estimate(p99s),
        quiet_gap_ms: pairs::estimate(quiet_gaps),
        changing_gap_ms: pairs::estimate(changing_gaps),
        gap_ratio: pairs::estimate(ratios),
    })
}

fn longest_ms(measured: &Measured) -> f64 {
    measured.longest_us.map_or(f64::NAN, |us| us as f64 / 1000.0)
}

/// Makes one change after the other, and waits for the end of each.
struct Changer<'a> {
    client: Client,
    kind: &'a Kind,
    count: usize,
}

impl Changer<'_> {
    fn new<'a>(cluster: &Cluster, kind: &'a Kind) -> Result<Changer<'a>, Failure> {
        let client = Client::connect_to_namespace(&cluster.nodes[0].endpoint, kind.namespace)?;
        Ok(Changer { client, kind, count: 0 })
    }

    /// Milliseconds until the configuration before is retired.
    fn change(&mut self) -> Result<f64, Failure> {
        let began = Instant::now();
        self.client.ask(&self.kind.changes[self.count % 2])?;
        self.count += 1;
        while self.is_moving()? {
            if began.elapsed() > PATIENCE {
                return Err(Failure(format!("a change of {} has not ended after {PATIENCE:?}", self.kind.name)));
            }
            thread::sleep(Duration::from_micros(500));
        }
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    }

    fn is_moving(&mut self) -> Result<bool, Failure> {
        let shown = self.client.ask(&["QUORATE", "GROUP", "SHOW", &key(0)])?;
        let is_moving = |value: &Value| matches!(value, Value::Bulk(text) if text == b"moving");
        match &shown {
            Value::Array(words) => Ok(words.iter().any(is_moving)),
            other => Err(Failure(format!("GROUP SHOW was answered with {other:?}"))),
        }
    }
}

fn print(figures: &[Figures], options: &Options) {
    say(format_args!(
        "{} connections over all nodes, half writes, {} volumes: medians, in ms; gaps are the longest that a client was without an answer, of {} pairs of runs",
        options.connections, options.volumes, options.pairs
    ));
    let head =
        ["changed", "idle", "under load", "longest", "changes", "p99 without", "gap without", "gap with", "ratio"];
    let mut lines = table(&head);
    for row in figures {
        lines.add_row([
            row.changed.to_owned(),
            told(&row.idle_ms),
            told(&row.loaded_ms),
            format!("{:.1}", row.loaded_longest_ms),
            row.changes_under_load.to_string(),
            told(&row.latency_p99_ms),
            told(&row.quiet_gap_ms),
            told(&row.changing_gap_ms),
            told(&row.gap_ratio),
        ]);
    }
    align_right(&mut lines, 1..9);
    say(trimmed(lines));
}
