//! Seeds that always run: they pass, they are the same each time, and between them they reach the rare paths.

use quorate_sim::run::run_seed;
use quorate_sim::world::{Settings, Sometimes};

#[test]
fn a_seed_run_twice_gives_the_same_trace() {
    for seed in 1..=4 {
        let first = run_seed(Settings::of_seed(seed));
        let second = run_seed(Settings::of_seed(seed));
        assert_eq!(first.failure, None, "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed} is not deterministic");
        assert_ne!(first.trace_hash, run_seed(Settings::of_seed(seed + 100)).trace_hash);
    }
}

#[test]
fn seeds_pass_and_reach_the_rare_paths() {
    let mut reached = Sometimes::default();
    for seed in 1..=60 {
        let report = run_seed(Settings::of_seed(seed));
        assert_eq!(report.failure, None, "quorate sim --seed {seed}");
        assert!(report.calls >= 20_000 && report.faults.crashes >= 20 && report.faults.partitions >= 5, "{report}");
        reached.add(&report.sometimes);
    }
    for (name, count) in reached.counts() {
        assert!(count > 0, "no seed reached: {name}");
    }
}
