//! Bugs planted in the protocol and in the host, one at a time: the general checks must find each within the seeds that
//! CI runs anyway, and nothing without one.
#![cfg(feature = "planted")]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use quorate_node::planted as in_host;
use quorate_node::replica::Protocol;
use quorate_protocol::planted as in_protocol;
use quorate_sim::run::{self, Report, run_seed, run_seed_within, run_worlds};
use quorate_sim::world::Settings;

/// Worlds allocate all the time, and the program runs them with this one, too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// CI's sweep. A mutation that needs more would be missed there.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=400;

/// What the checker may try for one object of a world with a bug. One that it gives up there shows nothing, and costs little.
const CONFIGURATIONS_MAX: usize = 1_000_000;

/// These show nothing when no bug is planted.
const HEALTHY: std::ops::RangeInclusive<u64> = 1..=20;

/// Whole clusters meet these too seldom; the random runs of the protocol's own tests find them.
const FOUND_ELSEWHERE: [in_protocol::Planted; 4] = [
    in_protocol::Planted::ChainJoinedNotPersisted,
    in_protocol::Planted::ChainJoinedBelowFloor,
    in_protocol::Planted::ChainRemovalForgetsDecided,
    // No client of these worlds lists keys.
    in_protocol::Planted::RegisterListsFromOne,
];

/// A bug, how it is planted, and the worlds that are to find it.
struct Mutation {
    name: String,
    plant: Box<dyn Fn()>,
    world: fn(u64) -> Settings,
}

fn in_the_protocol(bugs: &[in_protocol::Planted], world: fn(u64) -> Settings) -> Vec<Mutation> {
    let found_here = bugs.iter().copied().filter(|bug| !FOUND_ELSEWHERE.contains(bug));
    let planted =
        |bug| Mutation { name: format!("{bug:?}"), plant: Box::new(move || in_protocol::select(Some(bug))), world };
    found_here.map(planted).collect()
}

fn in_the_host(bugs: &[in_host::Planted], world: fn(u64) -> Settings) -> Vec<Mutation> {
    let planted =
        |bug| Mutation { name: format!("{bug:?}"), plant: Box::new(move || in_host::select(Some(bug))), world };
    bugs.iter().copied().map(planted).collect()
}

fn mutations() -> Vec<Mutation> {
    use in_host::Planted as Host;
    use in_protocol::Planted as Core;
    [
        in_the_protocol(&Core::ALL, Settings::of_seed),
        in_the_protocol(&Core::IN_CHAIN, Settings::of_chains),
        in_the_protocol(&Core::IN_REGISTER, Settings::of_registers),
        in_the_protocol(&Core::IN_READMISSION, Settings::of_forgetful),
        in_the_protocol(&Core::IN_ROUTING, Settings::of_routed),
        in_the_host(&Host::IN_ROUTING, Settings::of_routed),
        in_the_host(&Host::ALL, Settings::of_seed),
        in_the_host(&Host::IN_CHAIN, Settings::of_chains),
        in_the_host(&Host::IN_REGISTER, Settings::of_registers),
        in_the_host(&Host::IN_LED, Settings::of_led),
        in_the_host(&Host::IN_QUARANTINE, Settings::of_panics),
        in_the_host(&Host::IN_OUTSIDE, Settings::of_outside),
        in_the_host(&Host::IN_READMISSION, Settings::of_forgetful),
        in_the_host(&Host::IN_FORGETFUL_CHAINS, Settings::of_forgetful_chains),
        in_the_host(&Host::IN_LATENESS, Settings::of_late),
        in_the_host(&Host::IN_SUCCESSION, Settings::of_members),
        in_the_host(&Host::IN_SEATS, Settings::of_moves),
        in_the_host(&Host::IN_ROOT, Settings::of_moves),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The seed that showed each bug when it was last looked for, where the next search begins: the file says `name seed` a
/// line. A seed may stand for something else since, so that the bug is shown by another; `UPDATE=1` writes the file anew.
fn shown_by() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mutations.txt")
}

fn last_seeds() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(shown_by()).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let pairs = pairs.filter_map(|(name, seed)| Some((name.to_owned(), seed.parse().ok()?)));
    pairs.filter(|(_, seed)| SEEDS.contains(seed)).collect()
}

/// What the first of these worlds that shows anything shows, and its seed.
fn found(
    worlds: impl Iterator<Item = Settings> + Send,
    threads: NonZeroUsize,
    run: impl Fn(Settings) -> Report + Sync,
) -> Option<(u64, String)> {
    let mut found = None;
    run_worlds(worlds, threads, run, |report| match report.failure {
        Some(failure) => {
            found = Some((report.seed, failure));
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    });
    found
}

/// Only what is wrong for certain is a failure here.
fn shown(world: Settings) -> Report {
    let mut report = run_seed_within(world, CONFIGURATIONS_MAX);
    if report.is_undecided {
        report.failure = None;
    }
    report
}

const ALONE: &str = "QUORATE_PLANTED_ALONE";
/// Begins the line in which a process says what it found.
const FOUND: &str = "found by seed ";

/// A bug is planted in a whole process, so each has one of its own, and there are as many at once as there are cores.
#[test]
#[ignore = "run by the test of all of them, a process for each"]
fn one_planted_bug() {
    let name = std::env::var(ALONE).expect("the name of a planted bug");
    let Mutation { plant, world, .. } =
        mutations().into_iter().find(|mutation| mutation.name == name).expect("a bug of this name");
    let last = last_seeds().get(&name).copied();
    let seeds = last.into_iter().chain(SEEDS.filter(|&seed| Some(seed) != last));
    plant();
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = found(seeds.map(world), NonZeroUsize::MIN, shown);
    std::panic::set_hook(told);
    if let Some((seed, failure)) = found {
        in_protocol::select(None);
        in_host::select(None);
        assert_eq!(run_seed(world(seed)).failure, None, "seed {seed} fails without any bug planted");
        let line: String = failure.lines().next().unwrap_or_default().chars().take(150).collect();
        println!("\n{FOUND}{seed}: {line}");
    }
}

/// The seed by which a process of its own found this bug, and what it said.
fn look_for(name: &str) -> Option<(u64, String)> {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["one_planted_bug", "--exact", "--ignored", "--nocapture"]).env(ALONE, name);
    let output = command.output().expect("a process for the bug");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "looking for {name}: {said}{}", String::from_utf8_lossy(&output.stderr));
    let (seed, failure) = said.lines().find_map(|line| line.strip_prefix(FOUND))?.split_once(": ")?;
    Some((seed.parse().ok()?, failure.to_owned()))
}

/// `PLANTED=name` asks for those bugs alone that have it in their names.
#[test]
fn every_planted_bug_is_found_and_none_where_there_is_none() {
    let asked = std::env::var("PLANTED").unwrap_or_default();
    let names: Vec<String> =
        mutations().into_iter().map(|mutation| mutation.name).filter(|name| name.contains(&asked)).collect();
    let mut last = last_seeds();
    let next = Mutex::new(names.iter());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..run::threads().get() {
            scope.spawn(|| {
                while let Some(name) = { next.lock().expect("nobody panics with it").next() } {
                    let began = Instant::now();
                    let outcome = look_for(name);
                    let seconds = began.elapsed().as_secs();
                    match &outcome {
                        Some((seed, line)) => println!("{name}: seed {seed}, {seconds} s: {line}"),
                        None => println!("{name}: not found, {seconds} s"),
                    }
                    outcomes.lock().expect("nobody panics with it").push((name, outcome));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no thread has panicked");
    let missed: Vec<_> = outcomes.iter().filter(|(_, outcome)| outcome.is_none()).map(|(name, _)| *name).collect();
    assert!(missed.is_empty(), "not found within seeds {SEEDS:?}: {missed:?}");
    last.extend(outcomes.into_iter().filter_map(|(name, outcome)| Some((name.clone(), outcome?.0))));
    if std::env::var_os("UPDATE").is_some() {
        let known: BTreeSet<String> = mutations().into_iter().map(|mutation| mutation.name).collect();
        let lines =
            last.iter().filter(|(name, _)| known.contains(*name)).map(|(name, seed)| format!("{name} {seed}\n"));
        std::fs::write(shown_by(), lines.collect::<String>()).expect("the file of seeds can be written");
    }
    if asked.is_empty() {
        healthy_worlds_show_nothing();
    }
}

fn healthy_worlds_show_nothing() {
    let of_protocols =
        Protocol::ALL.into_iter().flat_map(|protocol| HEALTHY.map(move |seed| Settings::of(protocol, seed)));
    let of_led = HEALTHY.map(Settings::of_led).chain(HEALTHY.map(Settings::of_outside));
    let of_volumes = HEALTHY
        .map(Settings::of_panics)
        .chain(HEALTHY.map(Settings::of_late))
        .chain(HEALTHY.map(Settings::of_routed))
        .chain(HEALTHY.map(Settings::of_forgetful))
        .chain(HEALTHY.map(Settings::of_forgetful_chains));
    let worlds = of_protocols.chain(of_led).chain(of_volumes).chain(HEALTHY.map(Settings::of_members));
    assert_eq!(found(worlds, run::threads(), run_seed), None, "a check fails without any bug planted");
}
