//! Bugs planted in the protocol and in the host, one at a time: the general checks must find each within the seeds that
//! CI runs anyway, and nothing without one.
#![cfg(feature = "planted")]

use std::ops::ControlFlow;

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

#[test]
fn every_planted_bug_is_found_and_none_where_there_is_none() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    let mut report = |world: fn(u64) -> Settings, name: String| match found(SEEDS.map(world)) {
        Some((seed, failure)) => {
            let line = failure.lines().next().unwrap_or_default();
            println!("{name}: seed {seed}: {}", &line[..line.len().min(150)]);
        }
        None => missed.push(name),
    };
    for planted in in_protocol::Planted::ALL {
        in_protocol::select(Some(planted));
        report(Settings::of_seed, format!("{planted:?}"));
    }
    for planted in in_protocol::Planted::IN_CHAIN.into_iter().filter(|planted| !FOUND_ELSEWHERE.contains(planted)) {
        in_protocol::select(Some(planted));
        report(Settings::of_chains, format!("{planted:?}"));
    }
    let found_here = |planted: &in_protocol::Planted| !FOUND_ELSEWHERE.contains(planted);
    for planted in in_protocol::Planted::IN_REGISTER.into_iter().filter(found_here) {
        in_protocol::select(Some(planted));
        report(Settings::of_registers, format!("{planted:?}"));
    }
    in_protocol::select(None);
    for planted in in_host::Planted::ALL {
        in_host::select(Some(planted));
        // Commands that wait for a birth come late, and elsewhere hardly any do.
        let world =
            if planted == in_host::Planted::SettledRunsAgain { Settings::of_outside } else { Settings::of_seed };
        report(world, format!("{planted:?}"));
    }
    for planted in in_host::Planted::IN_CHAIN {
        in_host::select(Some(planted));
        report(Settings::of_chains, format!("{planted:?}"));
    }
    for planted in in_host::Planted::IN_REGISTER {
        in_host::select(Some(planted));
        report(Settings::of_registers, format!("{planted:?}"));
    }
    for planted in in_host::Planted::IN_LED {
        in_host::select(Some(planted));
        report(Settings::of_led, format!("{planted:?}"));
    }
    for planted in in_host::Planted::IN_OUTSIDE {
        in_host::select(Some(planted));
        report(Settings::of_outside, format!("{planted:?}"));
    }
    for planted in in_host::Planted::IN_SUCCESSION {
        in_host::select(Some(planted));
        report(Settings::of_members, format!("{planted:?}"));
    }
    in_host::select(None);
    std::panic::set_hook(told);
    assert!(missed.is_empty(), "not found within seeds {SEEDS:?}: {missed:?}");
    let of_protocols =
        Protocol::ALL.into_iter().flat_map(|protocol| HEALTHY.map(move |seed| Settings::of(protocol, seed)));
    let of_led = HEALTHY.map(Settings::of_led).chain(HEALTHY.map(Settings::of_outside));
    let worlds = of_protocols.chain(of_led).chain(HEALTHY.map(Settings::of_members));
    assert_eq!(found(worlds), None, "a check fails without any bug planted");
}
