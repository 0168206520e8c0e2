//! Bugs planted in the protocol and in the host, one at a time: the general checks must find each within the seeds that
//! CI runs anyway, and nothing without one.
#![cfg(feature = "planted")]

use std::ops::ControlFlow;
use std::time::Instant;

use quorate_node::planted as in_host;
use quorate_node::replica::Protocol;
use quorate_protocol::planted as in_protocol;
use quorate_sim::run::{self, run_seed, run_worlds};
use quorate_sim::world::Settings;

/// Worlds allocate all the time, and the program runs them with this one, too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// CI's sweep. A mutation that needs more would be missed there.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=400;

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

/// What one of the first of these worlds shows that shows anything, and its seed.
fn found(worlds: impl Iterator<Item = Settings> + Send) -> Option<(u64, String)> {
    let mut found = None;
    run_worlds(worlds, run::threads(), run_seed, |report| match report.failure {
        Some(failure) => {
            found = Some((report.seed, failure));
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    });
    found
}

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
        in_the_host(&Host::ALL, Settings::of_seed),
        in_the_host(&Host::IN_CHAIN, Settings::of_chains),
        in_the_host(&Host::IN_REGISTER, Settings::of_registers),
        in_the_host(&Host::IN_LED, Settings::of_led),
        in_the_host(&Host::IN_QUARANTINE, Settings::of_panics),
        in_the_host(&Host::IN_OUTSIDE, Settings::of_outside),
        in_the_host(&Host::IN_LATENESS, Settings::of_late),
        in_the_host(&Host::IN_SUCCESSION, Settings::of_members),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `PLANTED=name` asks for one bug alone, by a part of its name.
#[test]
fn every_planted_bug_is_found_and_none_where_there_is_none() {
    let asked = std::env::var("PLANTED").unwrap_or_default();
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for Mutation { name, plant, world } in mutations().into_iter().filter(|mutation| mutation.name.contains(&asked)) {
        plant();
        let began = Instant::now();
        match found(SEEDS.map(world)) {
            Some((seed, failure)) => {
                let line: String = failure.lines().next().unwrap_or_default().chars().take(150).collect();
                println!("{name}: seed {seed}, {:.0?}: {line}", began.elapsed());
            }
            None => missed.push(name),
        }
        in_protocol::select(None);
        in_host::select(None);
    }
    std::panic::set_hook(told);
    assert!(missed.is_empty(), "not found within seeds {SEEDS:?}: {missed:?}");
    let of_protocols =
        Protocol::ALL.into_iter().flat_map(|protocol| HEALTHY.map(move |seed| Settings::of(protocol, seed)));
    let of_led = HEALTHY.map(Settings::of_led).chain(HEALTHY.map(Settings::of_outside));
    let of_volumes = HEALTHY.map(Settings::of_panics).chain(HEALTHY.map(Settings::of_late));
    let worlds = of_protocols.chain(of_led).chain(of_volumes).chain(HEALTHY.map(Settings::of_members));
    assert_eq!(found(worlds), None, "a check fails without any bug planted");
}
