//! `quorate bench`: what a running cluster gives, and what it costs.
//!
//! A closed loop: each connection sends so many requests at once and the next ones when all are answered. The latency
//! of a request counts from the sending of its batch. Beside throughput it prints the processor time that the servers
//! spent on an operation, which says more than a throughput where the load shares the machine with them.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use quorate_node::status::{NodeState, Status};
use serde::Serialize;

mod changes;
mod cluster;
mod cpu;
mod etcd;
mod groups;
mod load;
mod pairs;
mod peer;
mod protocols;
mod quorums;
mod replies;

use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::say;
use crate::status;
use cpu::Processes;
use load::{Load, Measured};
use peer::Peer;

const CONNECTIONS_MAX: i64 = 10_000;
const PIPELINE_MAX: i64 = 10_000;
const SIZE_MAX: i64 = 16 << 20;
const KEYS_MAX: u64 = 1_000_000_000;

const EXAMPLES: &str = "Examples:
  quorate bench                                            SET and GET, 64 connections
  quorate bench --connections 1,16,64 --pipeline 1,16      all six combinations
  quorate bench --matrix --json > figures.json             the full table
  quorate bench -p 6379 --pids $(pidof redis-server)       another server alone
  quorate bench --tls --cacert ca.pem --password-file pw   an encrypted port, with a password
  quorate bench --ops set --seconds 1 --against redis+wait=127.0.0.1:6380,127.0.0.1:6381,127.0.0.1:6382
                                                           both in turns: 20 pairs, ratios with intervals
  quorate bench --ops set --seconds 1 --against-namespace 1
                                                           two namespaces in turns: what their settings cost
  quorate bench protocols --help                           volumes of each protocol in turns: CPU, messages, load of members
  quorate bench changes --help                             quorum sizes and members of registers change under load
  quorate bench groups --help                              what very many groups of their own cost
  quorate bench quorums --help                             registers at every write quorum: what `quorate tune` learns from";

/// Measure SET and GET: throughput, latency, and CPU per operation of the servers
///
/// Each list is run in all combinations; --matrix is the table that docs/performance.md shows. CPU per operation is
/// summed over the server processes, which are found through the cluster's status if it runs on this machine, and can
/// be named with --pids: any server that speaks the Redis protocol can be measured. Existing keys named
/// `bench:000000000000` and on are overwritten.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_help_subcommand = true, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Spread the connections over all live nodes instead of one
    #[arg(long)]
    spread: bool,
    /// How many connections at once
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "64",
          value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    connections: Vec<u32>,
    /// How many requests a connection sends at once
    #[arg(short = 'P', long, value_name = "LIST", value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=PIPELINE_MAX))]
    pipeline: Vec<u32>,
    /// Bytes of a value
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "16",
          value_parser = clap::value_parser!(u32).range(0..=SIZE_MAX))]
    size: Vec<u32>,
    /// Which operations
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "set,get")]
    ops: Vec<Operation>,
    /// Of a hundred requests of a GET, so many are SETs; latencies are those of the others
    #[arg(long, value_name = "PERCENT", default_value_t = 0, conflicts_with = "against", value_parser = clap::value_parser!(u64).range(0..100))]
    writes: u64,
    /// Seconds of each measurement, after a warm-up of a fifth of that
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How many keys, drawn at random
    #[arg(short, long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    keys: u64,
    /// The namespace that the keys are in, as SELECT names it
    #[arg(long, value_name = "N", default_value_t = 0)]
    namespace: u32,
    /// The full table: 1, 16, 64, 256 connections, pipeline 1 and 16, 16 B and 1 KiB
    #[arg(long, conflicts_with_all = ["connections", "pipeline", "size"])]
    matrix: bool,
    /// The server processes whose CPU time is counted
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pids: Vec<u32>,
    /// Measure another server too, in turns with the cluster: KIND is redis, redis+wait (each SET followed by WAIT 2 0),
    /// etcd or quorate. The first endpoint is asked, without password and TLS; the CPU time of the processes behind all of
    /// them is counted
    #[arg(long, value_name = "KIND=HOST:PORT,...")]
    against: Vec<Peer>,
    /// Measure the same in this namespace of the cluster too, in turns with the other
    #[arg(long, value_name = "N")]
    against_namespace: Vec<u32>,
    /// How often each measurement is made, medians are told; six or more give intervals [default: 1, or 20 against others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: Option<u32>,
    /// Print a JSON array of all measurements
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Changes(changes::Options),
    Groups(groups::Options),
    Protocols(protocols::Options),
    Quorums(quorums::Options),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Set,
    Get,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Row {
    operation: Operation,
    connections: u32,
    pipeline: u32,
    size_bytes: u32,
    operations_per_s: f64,
    latency_p50_us: u64,
    latency_p99_us: u64,
    /// Summed over the server processes; absent if they are not known.
    cpu_us_per_operation: Option<f64>,
    errors: u64,
}

/// Why a column is empty, to whoever looks at it.
fn tell_if_unknown(processes: &Processes, options: &Options) {
    if processes.is_empty() && !options.json && std::io::stdout().is_terminal() {
        say("CPU: the server processes are not known; name them with --pids.");
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let done = match &options.command {
        Some(Command::Changes(changes)) => Some(changes::run(&options.endpoint, changes)),
        Some(Command::Groups(groups)) => Some(groups::run(&options.endpoint, groups)),
        Some(Command::Protocols(protocols)) => Some(protocols::run(&options.endpoint, protocols)),
        Some(Command::Quorums(quorums)) => Some(quorums::run(&options.endpoint, quorums)),
        None => None,
    };
    if let Some(done) = done {
        return done.map(|()| ExitCode::SUCCESS);
    }
    let status = cluster_status(&options.endpoint)?;
    let targets = targets(options, status.as_ref())?;
    let processes = processes(&options.endpoint, &options.pids, status.as_ref())?;
    if options.pairs.is_some() || !options.against.is_empty() || !options.against_namespace.is_empty() {
        pairs::run(options, &targets, &processes)?;
        tell_if_unknown(&processes, options);
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    let mut refusal = None;
    if !options.json {
        say(HEADER);
    }
    for (load, is_measured) in loads(options) {
        let Measured { row, error, .. } = load.run(&targets, &processes)?;
        refusal = refusal.or(error);
        if is_measured {
            if !options.json {
                say(line(&row));
            }
            rows.push(row);
        }
    }
    if options.json {
        let json = serde_json::to_string_pretty(&rows).context("cannot print the measurements")?;
        say(json);
    }
    tell_if_unknown(&processes, options);
    match refusal {
        Some(refusal) => Err(Failure(format!("some requests were refused, the first with: {refusal}"))),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What is to be run, in order, and whether it is part of the result: reads are preceded by writes of every key.
fn loads(options: &Options) -> Vec<(Load, bool)> {
    let preset = |list: &[u32], matrix: &[u32]| if options.matrix { matrix.to_vec() } else { list.to_vec() };
    let sizes = preset(&options.size, &[16, 1024]);
    let pipelines = preset(&options.pipeline, &[1, 16]);
    let connection_counts = preset(&options.connections, &[1, 16, 64, 256]);
    let measured = Duration::from_secs(options.seconds);
    let mut loads = Vec::new();
    for &size in &sizes {
        for &operation in &options.ops {
            if operation == Operation::Get {
                loads.push((Load::fill(size, options.keys).in_namespace(options.namespace), false));
            }
            for &pipeline in &pipelines {
                for &connections in &connection_counts {
                    let load = Load::random(operation, connections, pipeline, size, options.keys, measured);
                    let load = match operation {
                        Operation::Get => load.with_writes(options.writes),
                        Operation::Set => load,
                    };
                    loads.push((load.in_namespace(options.namespace), true));
                }
            }
        }
    }
    loads
}

/// None if what listens there is no Quorate.
fn cluster_status(endpoint: &Endpoint) -> Result<Option<Status>, Failure> {
    let mut client = Client::connect(endpoint)?;
    client.ping()?;
    Ok(status::fetch(&mut client).ok())
}

fn targets(options: &Options, status: Option<&Status>) -> Result<Vec<Endpoint>, Failure> {
    if !options.spread {
        return Ok(vec![options.endpoint.clone()]);
    }
    let status = status.ok_or_else(|| Failure::new("--spread needs a cluster that tells its nodes; leave it out"))?;
    let live = status.nodes.iter().filter(|node| node.state == NodeState::Live);
    live.map(|node| {
        let address = options.endpoint.at(&node.client);
        address.ok_or_else(|| Failure(format!("{} has no address for clients: {:?}", node.name, node.client)))
    })
    .collect()
}

fn processes(endpoint: &Endpoint, pids: &[u32], status: Option<&Status>) -> Result<Processes, Failure> {
    if !pids.is_empty() {
        return Processes::named(pids);
    }
    let is_local = matches!(endpoint.host.as_str(), "127.0.0.1" | "localhost" | "::1");
    let nodes = status.filter(|_| is_local).map_or(&[][..], |status| &status.nodes);
    Ok(Processes::of_nodes(nodes.iter().filter_map(|node| node.own.as_ref().map(|own| own.pid))))
}

const HEADER: &str = "OP   CONNECTIONS  PIPELINE   SIZE B       OPS/S   P50 ms   P99 ms  CPU us/op   ERRORS";

fn line(row: &Row) -> String {
    let operation = match row.operation {
        Operation::Set => "SET",
        Operation::Get => "GET",
    };
    let cpu = row.cpu_us_per_operation.map_or_else(|| "-".to_owned(), |us| format!("{us:.2}"));
    let ms = |us: u64| us as f64 / 1000.0;
    format!(
        "{operation}  {:>11}  {:>8}  {:>7}  {:>10.0}  {:>7.3}  {:>7.3}  {cpu:>9}  {:>7}",
        row.connections,
        row.pipeline,
        row.size_bytes,
        row.operations_per_s,
        ms(row.latency_p50_us),
        ms(row.latency_p99_us),
        row.errors
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    fn parse(words: &str) -> Options {
        Program::parse_from(words.split(' ')).options
    }

    #[test]
    fn lists_are_run_in_all_combinations_and_reads_find_their_keys() {
        let options = parse("bench --connections 1,4 --pipeline 1,16 --size 16 --ops set,get");
        let loads = loads(&options);
        assert_eq!(loads.iter().filter(|(_, is_measured)| *is_measured).count(), 8);
        assert_eq!(loads.iter().position(|(_, is_measured)| !is_measured), Some(4), "filled before the first read");
    }

    #[test]
    fn writes_are_mixed_into_measured_reads_and_nothing_else() {
        let loads = loads(&parse("bench --ops set,get --writes 5"));
        let percents: Vec<u64> = loads.iter().map(|(load, _)| load.writes_percent).collect();
        assert_eq!(percents, [0, 0, 5], "a SET, the keys, a GET");
    }

    #[test]
    fn the_matrix_is_complete() {
        let measured = loads(&parse("bench --matrix")).iter().filter(|(_, is_measured)| *is_measured).count();
        assert_eq!(measured, 2 * 4 * 2 * 2);
    }

    #[test]
    fn lines_stand_under_their_header() {
        let row = Row {
            operation: Operation::Set,
            connections: 256,
            pipeline: 16,
            size_bytes: 1024,
            operations_per_s: 123_456.7,
            latency_p50_us: 350,
            latency_p99_us: 12_345,
            cpu_us_per_operation: Some(15.25),
            errors: 0,
        };
        assert_eq!(line(&row), "SET          256        16     1024      123457    0.350   12.345      15.25        0");
        assert_eq!(line(&row).len(), HEADER.len());
        assert!(line(&Row { cpu_us_per_operation: None, ..row }).contains("   -  "));
    }
}
