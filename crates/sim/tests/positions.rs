//! A chain under load, with each failure of each member and of each two: the head, the middle and the tail, dead, without power,
//! standing still, or cut off with their clients. What clients see is linearizable, and in the end all is answered.

use std::collections::BTreeSet;

use quorate_node::root::Reads;
use quorate_sim::run::run_seed;
use quorate_sim::world::{Blow, Settings, Strike};

/// Worlds allocate all the time, and the program runs them with this one, too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MEMBERS: usize = 3;

/// One chain, whose head is the first node. It goes on for some seconds after the faults.
fn chain(reads: Reads, strikes: Vec<Strike>) -> Settings {
    Settings {
        nodes: MEMBERS as u32,
        replicas: MEMBERS as u8,
        volumes: 1,
        reads,
        calls: 8_000,
        crashes_min: 0,
        partitions_min: 0,
        strikes: Some(strikes),
        ..Settings::of_chains(1)
    }
}

fn run(reads: Reads, strikes: Vec<Strike>) -> BTreeSet<&'static str> {
    let report = run_seed(chain(reads, strikes.clone()));
    assert_eq!(report.failure, None, "{reads:?} {strikes:?}");
    let counts = report.sometimes.counts();
    counts.into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name).collect()
}

#[test]
fn each_member_fails_in_each_way() {
    let mut reached = BTreeSet::new();
    for node in 0..MEMBERS {
        for blow in Blow::ALL {
            for reads in [Reads::Lease, Reads::Apportioned] {
                reached.extend(run(reads, vec![Strike { after_us: 0, node, blow }]));
            }
        }
    }
    assert!(reached.contains("a chain was changed"), "{reached:?}");
}

#[test]
fn each_two_members_fail_in_each_way_one_soon_after_the_other() {
    // At once; before the first one can have been left out; while the chain has just been changed; while the first comes back.
    const APART_US: [u64; 4] = [0, 200_000, 700_000, 2_100_000];
    for (at, blow) in Blow::ALL.into_iter().enumerate() {
        for (other_at, other_blow) in Blow::ALL.into_iter().enumerate() {
            for first in 0..MEMBERS {
                for second in (0..MEMBERS).filter(|&second| second != first) {
                    let after_us = APART_US[(at + other_at + first) % APART_US.len()];
                    let reads = if (first + second + at).is_multiple_of(2) { Reads::Lease } else { Reads::Apportioned };
                    let strikes = [(0, first, blow), (after_us, second, other_blow)];
                    let strike = |(after_us, node, blow)| Strike { after_us, node, blow };
                    run(reads, strikes.map(strike).to_vec());
                }
            }
        }
    }
}
