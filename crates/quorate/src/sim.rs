//! `quorate sim`: runs seeds of the deterministic simulator.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, RangeInclusive};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_node::replica::Protocol;
use quorate_node::root::Authority;
use quorate_sim::run::{self, Report, run_seed, run_worlds};
use quorate_sim::world::{Settings, Sometimes};

use crate::failure::Failure;

/// Run a cluster in an imagined world that follows from a seed: crashes, torn writes, partitions, pauses, drifting clocks
///
/// Every seed is judged: no two replicas disagree, no acknowledged write is lost, every client's history is
/// linearizable, and once the faults are over every call is answered.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub struct Options {
    /// Run one seed and tell what it did
    #[arg(long, group = "which")]
    seed: Option<u64>,
    /// Run the seeds from A to B, both included
    #[arg(long, group = "which", value_name = "A..B", value_parser = parse_range)]
    seeds: Option<RangeInclusive<u64>>,
    /// Stop beginning new seeds after this many minutes
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u64>,
    /// Run so many seeds at once [default: as many as there are cores]
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<NonZeroUsize>,
    /// How the replicas of the worlds' volumes agree
    #[arg(long, value_name = "NAME", default_value = "paxos", value_parser = parse_protocol)]
    protocol: Protocol,
    /// Of registers: who decides on their members, who change all the time where they do it themselves
    #[arg(long, value_name = "WHO", default_value = "parent", value_parser = parse_authority)]
    authority: Authority,
    /// Objects come and go all the time to groups of their own on whatever nodes, most of them without a replica of the
    /// volume
    #[arg(long, conflicts_with_all = ["protocol", "authority"])]
    outside: bool,
    /// Nodes forget what they said, one at a time: with durability `memory` or `interval`, or because their logs decay
    ///
    /// With `--protocol chain` as well.
    #[arg(long, conflicts_with_all = ["authority", "outside"])]
    forgetful: bool,
    /// Few objects come and go several times within milliseconds, frames are late by seconds, nodes die between two checkpoints
    #[arg(long, conflicts_with_all = ["protocol", "authority", "outside", "forgetful"])]
    hasty: bool,
    /// Volumes are read through routers, at whatever member is known to be consistent
    #[arg(long, conflicts_with_all = ["protocol", "authority", "outside", "forgetful", "hasty"])]
    routed: bool,
    /// Volumes move from node to node all the time
    ///
    /// With `--protocol chain` or `--protocol register` volumes of these two.
    #[arg(long, conflicts_with_all = ["authority", "outside", "forgetful", "hasty", "routed"])]
    moves: bool,
    /// Objects are pairs of strings, which commands on both of them and transactions change and read in one step
    #[arg(long, conflicts_with_all = ["protocol", "authority", "outside", "forgetful", "hasty", "routed", "moves"])]
    pairs: bool,
    /// Run each seed twice and compare the traces
    #[arg(long)]
    twice: bool,
}

fn parse_protocol(word: &str) -> Result<Protocol, String> {
    let words = Protocol::ALL.map(Protocol::word).join(" or ");
    Protocol::parse(word).ok_or_else(|| format!("the protocols are {words}"))
}

fn parse_authority(word: &str) -> Result<Authority, String> {
    Authority::parse(word).ok_or_else(|| "either the parent or the members decide".to_owned())
}

fn parse_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let bounds = text.split_once("..").and_then(|(first, last)| {
        Some((first.parse::<u64>().ok()?, last.trim_start_matches('=').parse::<u64>().ok()?))
    });
    match bounds {
        Some((first, last)) if first <= last => Ok(first..=last),
        _ => Err("seeds are given as A..B, with A no larger than B, such as 1..200".into()),
    }
}

/// Runs the seeds. The exit status is 1 if one of them failed.
pub fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.forgetful && options.protocol.is_register() {
        return Err(Failure::new("registers that have forgotten what they said stay silent: there are no such worlds"));
    }
    let seeds = options.seeds.clone().or(options.seed.map(|seed| seed..=seed)).unwrap_or(1..=1);
    // A broken invariant is reported with its seed; where in the code it was noticed is for `--seed` to tell.
    if options.seed.is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let deadline = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let (mut passed, mut failed) = (0, Vec::new());
    let mut reached = Sometimes::default();
    let in_time = || deadline.is_none_or(|deadline| Instant::now() < deadline);
    let worlds = seeds.take_while(|_| in_time()).map(|seed| world(options, seed));
    run_worlds(
        worlds,
        options.jobs.unwrap_or_else(run::threads),
        |world| judge(options, world),
        |report| {
            reached.add(&report.sometimes);
            if report.failure.is_some() {
                println!("{report}");
                failed.push(report.seed);
            } else {
                passed += 1;
                if options.seed.is_some() {
                    println!("{report}");
                }
            }
            if (passed + failed.len()) % 100 == 0 {
                eprint!("\r{passed} passed, {} failed", failed.len());
                let _ = std::io::stderr().flush();
            }
            ControlFlow::Continue(())
        },
    );
    eprint!("\r");
    println!("reached, over all seeds:");
    for (name, count) in reached.counts() {
        println!("  {count:>9}  {name}");
    }
    println!("{passed} passed, {} failed", failed.len());
    failed.sort_unstable();
    for seed in &failed {
        println!("replay: quorate sim {} --seed {seed}", words_of(options));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn judge(options: &Options, world: Settings) -> Report {
    let mut report = run_seed(world.clone());
    if options.twice && report.failure.is_none() {
        let again = run_seed(world).trace_hash;
        if again != report.trace_hash {
            report.failure = Some(format!("determinism: run again, its trace is {again:016x}"));
        }
    }
    report
}

/// What a seed stands for.
fn world(options: &Options, seed: u64) -> Settings {
    match options.authority {
        Authority::Parent if options.outside => Settings::of_outside(seed),
        Authority::Parent if options.forgetful && options.protocol.is_chain() => Settings::of_forgetful_chains(seed),
        Authority::Parent if options.forgetful => Settings::of_forgetful(seed),
        Authority::Parent if options.hasty => Settings::of_hasty(seed),
        Authority::Parent if options.routed => Settings::of_routed(seed),
        Authority::Parent if options.pairs => Settings::of_pairs(seed),
        Authority::Parent if options.moves && options.protocol == Protocol::Paxos => Settings::of_moves(seed),
        Authority::Parent if options.moves => Settings::of_led_moves(seed),
        Authority::Parent => Settings::of(options.protocol, seed),
        Authority::Members => Settings::of_members(seed),
    }
}

fn words_of(options: &Options) -> String {
    match options.authority {
        Authority::Parent if options.outside => "--outside".into(),
        Authority::Parent if options.forgetful => format!("--forgetful --protocol {}", options.protocol.word()),
        Authority::Parent if options.hasty => "--hasty".into(),
        Authority::Parent if options.routed => "--routed".into(),
        Authority::Parent if options.pairs => "--pairs".into(),
        Authority::Parent if options.moves => format!("--moves --protocol {}", options.protocol.word()),
        Authority::Parent => format!("--protocol {}", options.protocol.word()),
        Authority::Members => "--authority members".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_told_from_nonsense() {
        assert_eq!(parse_range("3..9"), Ok(3..=9));
        assert_eq!(parse_range("3..=9"), Ok(3..=9));
        for text in ["", "3", "9..3", "a..b", "3-9"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
