//! The experiment on reads through routers.

use std::path::PathBuf;

use clap::Args;
use quorate_lab::flair::{
    Bar, CLIENTS, HANDLE_NS, KGROUPS, Keys, MESSAGE_NS, NODES, OBJECTS, OPERATIONS, ROUTER_NS, figures, paper, svg,
};
use serde_json::{Value, json};

use super::draw;
use crate::failure::Failure;
use crate::output::{align_right, say, table, trimmed};

/// What reads at any consistent replica bring: throughput by the share of writes (figures 1 and 2 of FLAIR's technical report)
///
/// Clients that ask again as soon as they are answered; a message takes 50 µs, and 10 µs of the processor of whoever handles it.
/// What routers and the leader know of each other is this project's protocol, the replication around it a model. `leader` reads under
/// the leader's lease, `quorum` with a round for each read. A router stands for the paper's switch: all requests pass it.
#[derive(Debug, Args)]
pub(super) struct FlairOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also draw the figures of the largest group into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// How many replicas there are
    #[arg(long, value_delimiter = ',', default_values_t = NODES.map(|nodes| nodes as u64),
        value_parser = clap::value_parser!(u64).range(2..=15))]
    nodes: Vec<u64>,
    /// How many clients there are
    #[arg(long, default_value_t = CLIENTS as u64, value_parser = clap::value_parser!(u64).range(3..=10_000))]
    clients: u64,
    /// How long a router has to do with each message, in nanoseconds
    #[arg(long, default_value_t = ROUTER_NS, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    router_ns: u64,
    /// By how many operations each throughput is told
    #[arg(long, default_value_t = OPERATIONS, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    operations: u64,
    /// Where the clients' choices come from
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    seed: u64,
}

pub(super) fn flair_throughput(options: &FlairOptions) -> Result<(), Failure> {
    let &FlairOptions { clients, operations, router_ns, seed, .. } = options;
    let measured = |&nodes: &u64| figures(nodes as usize, clients as usize, operations, router_ns, seed);
    let groups: Vec<Vec<Bar>> = options.nodes.iter().map(measured).collect();
    if let Some(path) = &options.svg {
        let largest = groups.iter().max_by_key(|bars| bars.first().map(|bar| bar.experiment.replicas));
        draw(path, &svg(largest.map_or(&[], Vec::as_slice)))?;
    }
    if options.json {
        say(format!("{:#}", flair_json(options, &groups)));
        return Ok(());
    }
    for bars in &groups {
        for keys in Keys::ALL {
            say_figure(bars, keys);
        }
    }
    say("after Takruri, Kettaneh, Alquraan and Al-Kiswany (2020), technical report, section 2.1; no read was stale");
    if let Some(path) = &options.svg {
        say(format!("drawn in {}", path.display()));
    }
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

fn said(figure: Option<f64>) -> String {
    figure.map_or(String::new(), |figure| figure.to_string())
}

fn say_figure(bars: &[Bar], keys: Keys) {
    let Some(first) = bars.first() else { return };
    say(format!(
        "{} replicas, {} keys, {} clients; throughput as a multiple of the leader's",
        first.experiment.replicas,
        keys.name(),
        first.experiment.clients
    ));
    let names = [
        "workload",
        "reads",
        "per second",
        "throughput",
        "paper",
        "% at leader",
        "paper",
        "% turned back",
        "paper",
        "recalls/write",
    ];
    let mut rows = table(&names);
    for bar in bars.iter().filter(|bar| bar.experiment.keys == keys) {
        let (experiment, outcome, paper) = (&bar.experiment, &bar.outcome, paper(&bar.experiment));
        rows.add_row([
            experiment.workload.name().to_string(),
            experiment.system.name().to_string(),
            format!("{:.0}", outcome.throughput),
            format!("{:.2}", bar.relative),
            said(paper.relative),
            percent(outcome.leader_share()),
            said(paper.leader_percent),
            percent(outcome.turned_back_share()),
            said(paper.turned_back_percent),
            format!("{:.2}", outcome.recalls_per_write()),
        ]);
    }
    align_right(&mut rows, 2..=9);
    say(trimmed(rows));
    say("");
}

fn flair_json(options: &FlairOptions, groups: &[Vec<Bar>]) -> Value {
    let bar = |bar: &Bar| {
        let (experiment, outcome, paper) = (&bar.experiment, &bar.outcome, paper(&bar.experiment));
        json!({
            "replicas": experiment.replicas,
            "keys": experiment.keys.name(),
            "workload": experiment.workload.name(),
            "write_percent": experiment.workload.write_percent(),
            "reads": experiment.system.name(),
            "requests_per_second": outcome.throughput,
            "throughput_by_leader": bar.relative,
            "read_at_leader": outcome.leader_share(),
            "turned_back": outcome.turned_back_share(),
            "recalls_per_write": outcome.recalls_per_write(),
            "paper": {
                "throughput_by_leader": paper.relative,
                "read_at_leader_percent": paper.leader_percent,
                "turned_back_percent": paper.turned_back_percent,
            },
        })
    };
    json!({
        "source": "Takruri, Kettaneh, Alquraan and Al-Kiswany (2020), technical report, section 2.1, figures 1 and 2",
        "clients": options.clients,
        "operations": options.operations,
        "seed": options.seed,
        "objects": OBJECTS,
        "kgroups": KGROUPS,
        "message_ns": MESSAGE_NS,
        "handle_ns": HANDLE_NS,
        "router_ns": options.router_ns,
        "bars": groups.iter().flatten().map(bar).collect::<Vec<_>>(),
    })
}
