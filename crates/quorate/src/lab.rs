//! `quorate lab`: the papers' experiments.

mod flair;
mod oracle;
mod registers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use quorate_lab::outage::{Case, section_4};
use quorate_lab::plot;
use quorate_lab::throughput::{CLIENTS, Curve, REPLICATION_FACTORS, System, UPDATE_PERCENTS, figure_4, latency_us};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{align_right, say, table, trimmed};

/// Run the papers' experiments on the protocols' own code, in an imagined world: the same figures on every machine
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    ChainThroughput(ThroughputOptions),
    ChainOutage(OutageOptions),
    RollupMessages(registers::MessagesOptions),
    QoptReconfiguration(registers::ReconfigurationOptions),
    QoptOracle(oracle::OracleOptions),
    FlairThroughput(flair::FlairOptions),
}

/// Chain replication against primary/backup: requests a second by the share of updates (figure 4 of the paper)
///
/// 25 clients, each asking again as soon as it is answered; a message takes 1 ms, a query 5 ms, an update 50 ms where its
/// outcome is computed and 20 ms everywhere else. `chain` is this project's protocol; the others are only compared with
/// it. The weak ones answer queries anywhere, and are not linearizable.
#[derive(Debug, Args)]
struct ThroughputOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also draw the curves into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Simulated seconds of each point
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seconds: u32,
    /// Where the clients' choices come from
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    seed: u64,
}

/// For how many message delays clients go without answers after a failure is detected (section 4 of the paper)
///
/// Each message takes one unit and everything else none. The chain of three runs this project's protocol; primary/backup
/// is the paper's description of it.
#[derive(Debug, Args)]
struct OutageOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show the messages of each case
    #[arg(long)]
    messages: bool,
}

pub fn run(options: &Options) -> Result<ExitCode, Failure> {
    match &options.experiment {
        Experiment::ChainThroughput(options) => chain_throughput(options)?,
        Experiment::ChainOutage(options) => chain_outage(options),
        Experiment::RollupMessages(options) => registers::rollup_messages(options),
        Experiment::QoptReconfiguration(options) => registers::qopt_reconfiguration(options)?,
        Experiment::QoptOracle(options) => oracle::qopt_oracle(options)?,
        Experiment::FlairThroughput(options) => flair::flair_throughput(options)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn chain_throughput(options: &ThroughputOptions) -> Result<(), Failure> {
    let curves = figure_4(u64::from(options.seconds) * 1_000_000, options.seed);
    if let Some(path) = &options.svg {
        draw(path, &plot::svg(&curves))?;
    }
    if options.json {
        say(format!("{:#}", throughput_json(options, &curves)));
        return Ok(());
    }
    for servers in REPLICATION_FACTORS {
        let ms = |update| latency_us(System::Chain, servers, update) as f64 / 1000.0;
        say(format!(
            "t = {servers}: alone, an update takes {} ms in a chain and a query {} ms; requests a second of {CLIENTS} clients:",
            ms(true),
            ms(false)
        ));
        let of_servers: Vec<_> = curves.iter().filter(|curve| curve.servers == servers).collect();
        let names = of_servers.iter().map(|curve| curve.system.name());
        let mut rows = table(&std::iter::once("updates").chain(names).collect::<Vec<_>>());
        for (index, percent) in UPDATE_PERCENTS.into_iter().enumerate() {
            let rates = of_servers.iter().map(|curve| format!("{:.1}", curve.points[index].1));
            rows.add_row(std::iter::once(format!("{percent} %")).chain(rates).collect::<Vec<_>>());
        }
        align_right(&mut rows, 0..=of_servers.len());
        say(trimmed(rows));
        say("");
    }
    say("after van Renesse and Schneider (2004), section 5.1; the weak variants are not linearizable");
    if let Some(path) = &options.svg {
        say(format!("drawn in {}", path.display()));
    }
    Ok(())
}

fn draw(path: &Path, drawing: &str) -> Result<(), Failure> {
    std::fs::write(path, drawing).map_err(|error| {
        Failure(format!("cannot write {}: {error}; name a file in a folder that you may write to", path.display()))
    })
}

fn throughput_json(options: &ThroughputOptions, curves: &[Curve]) -> Value {
    let curve = |curve: &Curve| {
        let points: Vec<_> = curve
            .points
            .iter()
            .map(|(percent, rate)| json!({ "update_percent": percent, "requests_per_second": rate }))
            .collect();
        json!({ "system": curve.system.name(), "replication_factor": curve.servers, "points": points })
    };
    let latency = |servers: usize| {
        json!({
            "replication_factor": servers,
            "update_us": latency_us(System::Chain, servers, true),
            "query_us": latency_us(System::Chain, servers, false),
        })
    };
    json!({
        "source": "van Renesse and Schneider (2004), section 5.1, figure 4",
        "clients": CLIENTS,
        "seconds": options.seconds,
        "seed": options.seed,
        "chain_latencies": REPLICATION_FACTORS.map(latency),
        "curves": curves.iter().map(curve).collect::<Vec<_>>(),
    })
}

fn chain_outage(options: &OutageOptions) {
    let cases = section_4();
    if options.json {
        say(format!("{:#}", json!({ "cases": cases.iter().map(case_json).collect::<Vec<_>>() })));
        return;
    }
    let mut rows = table(&["protocol", "failed", "requests", "delays", "paper", "after which"]);
    for outage in cases.iter().flat_map(|case| &case.outages) {
        let (delays, paper) = (outage.delays.to_string(), outage.paper.to_string());
        rows.add_row([outage.protocol, outage.failed, outage.requests, &delays, &paper, outage.what]);
    }
    align_right(&mut rows, 3..=4);
    say(trimmed(rows));
    for case in cases.iter().filter(|_| options.messages) {
        say(format!("\n{}", case.title));
        for (at, words) in &case.messages {
            say(format!("{at:>4}  {words}"));
        }
    }
    say("\nmessage delays from the detection of a failure, after van Renesse and Schneider (2004), section 4");
}

fn case_json(case: &Case) -> Value {
    let outage = |outage: &quorate_lab::outage::Outage| {
        json!({
            "protocol": outage.protocol,
            "failed": outage.failed,
            "requests": outage.requests,
            "delays": outage.delays,
            "delays_in_paper": outage.paper,
            "after_which": outage.what,
        })
    };
    let message = |(at, words): &(u64, String)| json!({ "at": at, "message": words });
    json!({
        "title": case.title,
        "outages": case.outages.iter().map(outage).collect::<Vec<_>>(),
        "messages": case.messages.iter().map(message).collect::<Vec<_>>(),
    })
}
