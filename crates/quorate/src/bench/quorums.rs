//! `quorate bench quorums`: the same loads on registers at every write quorum, from which the oracle of `quorate tune` learns.
//!
//! Loads differ by the share of writes, the size of values and the number of connections. Each is measured at all write quorums in turns,
//! and the medians count, so that what the machine does otherwise tells little. All keys are written before, since versions from
//! before a change of sizes cost more. Namespaces are made at first and dropped at last.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quorate_control::{Measured, Workload, data};
use quorate_node::root::NAMESPACE_NUMBER_MAX;

use super::Operation;
use super::cluster::{self, Cluster};
use super::load::Load;
use super::pairs;
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{align_right, complain, say, table, trimmed};

const WRITES_PERCENT: [u64; 7] = [1, 5, 20, 50, 80, 95, 99];
const SIZES_BYTES: [u32; 2] = [100, 10_000];
const CONNECTIONS: [u32; 2] = [8, 64];
const KEYS: u64 = 1_000;
const VOLUMES: u32 = 8;

const EXAMPLES: &str = "Examples:
  quorate bench quorums                             3, 4 and 5 members, as far as there are nodes: some minutes
  quorate bench quorums --members 5 --csv measured.csv
  quorate tune --workloads measured.csv             choose sizes by what was measured here";

/// Measure the same loads at every size of write quorums: what quorum sizes are worth where
///
/// Reads ask as few members as writes of that size allow. It makes its own namespaces, and drops them at its end, also after a failure or
/// when it is told to end (Ctrl-C, SIGTERM).
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(super) struct Options {
    /// The namespace to be made, which must not be there
    #[arg(short = 'n', long, value_name = "N", default_value_t = 9_300,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NAMESPACE_NUMBER_MAX)))]
    namespace: u32,
    /// How many members registers have
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_values_t = [3, 4, 5],
          value_parser = clap::value_parser!(u64).range(2..=data::MEMBERS_MAX as u64))]
    members: Vec<u64>,
    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Milliseconds of each measurement, after a warm-up of a fifth of that
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    milliseconds: u64,
    /// Write what was measured into this file, for `quorate tune`
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub(super) fn run(endpoint: &Endpoint, options: &Options) -> Result<(), Failure> {
    let cluster = Cluster::find(endpoint, &[])?;
    cluster::drop_when_told_to_end(&[&cluster])?;
    let mut measured = Vec::new();
    // Whether it can be written is known before minutes have gone by.
    write(options, &measured)?;
    for &members in &options.members {
        if members as usize > cluster.nodes.len() {
            complain(format_args!("{members} members are left out: the cluster has {} nodes", cluster.nodes.len()));
            continue;
        }
        let loads = measure_all(&cluster, options, members as usize, &mut measured);
        let dropped = cluster.made().into_iter().try_for_each(|number| cluster.drop_namespace(number));
        write(options, &measured)?;
        loads.and(dropped)?;
    }
    print(&measured);
    Ok(())
}

fn write(options: &Options, measured: &[Measured]) -> Result<(), Failure> {
    let Some(path) = &options.csv else { return Ok(()) };
    std::fs::write(path, data::print(measured)).context(format!("cannot write {}", path.display()))
}

fn measure_all(
    cluster: &Cluster,
    options: &Options,
    members: usize,
    measured: &mut Vec<Measured>,
) -> Result<(), Failure> {
    let namespace = options.namespace;
    let settings = format!("PROTOCOL register REPLICAS {members} VOLUMES {VOLUMES} TOLERANCE 0 QUORUM majority");
    cluster.make_namespace(namespace, &settings.split(' ').collect::<Vec<_>>())?;
    let mut client = Client::connect(&cluster.nodes[0].endpoint)?;
    for size in SIZES_BYTES {
        for connections in CONNECTIONS {
            for writes_percent in WRITES_PERCENT {
                let measured_for = Duration::from_millis(options.milliseconds);
                let load = Load::random(Operation::Get, connections, 1, size, KEYS, measured_for);
                let load = load.with_writes(writes_percent).in_namespace(namespace);
                let mut rounds = vec![Vec::new(); members];
                for at in (0..options.rounds).flat_map(|_| 0..members) {
                    let (read, write) = ((members - at).to_string(), (at + 1).to_string());
                    client.ask(&["QUORATE", "QUORUM", "SET", "NAMESPACE", &namespace.to_string(), &read, &write])?;
                    throughput(cluster, &Load::fill(size, KEYS).in_namespace(namespace))?;
                    rounds[at].push(throughput(cluster, &load)?);
                }
                let throughputs: Vec<f64> = rounds.into_iter().map(|rates| pairs::estimate(rates).median).collect();
                let observed = throughputs[members / 2];
                let (write_share, bytes) = (writes_percent as f64 / 100.0, f64::from(size));
                let workload = Workload { write_share, bytes, throughput: observed };
                measured.push(Measured { members, workload, throughputs });
            }
        }
    }
    Ok(())
}

/// Operations a second.
fn throughput(cluster: &Cluster, load: &Load) -> Result<f64, Failure> {
    let measured = cluster.run_spread(load)?;
    match measured.error {
        Some(error) => Err(Failure(format!("a request was refused: {error}"))),
        None => Ok(measured.row.operations_per_s),
    }
}

fn print(measured: &[Measured]) {
    let mut rows = table(&["members", "writes", "bytes", "best W", "operations/s at each W"]);
    for one in measured {
        let rates: Vec<String> = one.throughputs.iter().map(|rate| format!("{rate:>7.0}")).collect();
        rows.add_row([
            one.members.to_string(),
            format!("{:.0} %", 100.0 * one.workload.write_share),
            format!("{:.0}", one.workload.bytes),
            one.best().to_string(),
            rates.join(" "),
        ]);
    }
    align_right(&mut rows, 0..4);
    say(trimmed(rows));
}
