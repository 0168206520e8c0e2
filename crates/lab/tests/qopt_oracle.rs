//! What section V of the Q-Opt paper says of its figures 3 to 5 and its table I, of the workloads in `crates/control/data/simulated.csv`;
//! and that they are what is measured: `quorate lab qopt-oracle --csv` writes them anew, and prints the figures.

use std::path::Path;
use std::sync::OnceLock;

use quorate_control::{Measured, data};
use quorate_lab::qopt::oracle::{
    Accuracy, Evaluation, OPERATIONS, Point, SPLITS, Setting, evaluate, grid, grid_of_others, measure, parted, plot,
    tested,
};

fn simulated() -> Vec<Measured> {
    data::simulated().expect("it parses")
}

fn evaluation() -> &'static Evaluation {
    static EVALUATION: OnceLock<Evaluation> = OnceLock::new();
    EVALUATION.get_or_init(|| evaluate(simulated().into_iter().filter(|one| one.members == 5).collect(), SPLITS))
}

/// Few workloads, measured for a short time.
fn few() -> Vec<Measured> {
    let mut few = Vec::new();
    for (bytes, clients) in [(1 << 10, 200), (64 << 10, 40), (64 << 10, 100)] {
        for write_percent in [1, 5, 15, 50, 75, 95] {
            few.push(measure(Setting { members: 5, write_percent, bytes, clients }, 1_000, 7));
        }
    }
    few
}

#[test]
fn reads_want_large_write_quorums_and_writes_small_ones() {
    let few = few();
    for one in &few {
        let (share, bytes) = (one.workload.write_share, one.workload.bytes);
        let best = one.best();
        assert!(share > 0.05 || best >= 4, "{one:?}");
        assert!(share < 0.5 || bytes < 65536.0 || best <= 2, "{one:?}");
    }
    let losses: Vec<_> = (1..=10)
        .flat_map(|seed| {
            let (training, test) = parted(&few, 60, seed);
            tested(&training, &test, 10)
        })
        .collect();
    let oracle = Accuracy::of(losses).loss;
    for write in 1..=5 {
        let fixed = Accuracy::of(few.iter().map(|one| one.loss(write)).collect()).loss;
        assert!(oracle < fixed, "the oracle loses {oracle}, write quorums of {write} lose {fixed}");
    }
}

#[test]
fn the_workloads_that_are_written_down_are_those_measured() {
    let settings: Vec<_> = grid().into_iter().chain(grid_of_others()).collect();
    let simulated = simulated();
    assert_eq!(settings.len(), simulated.len());
    for (setting, written) in settings.into_iter().zip(simulated).step_by(41) {
        let measured = measure(setting, OPERATIONS, 1);
        assert_eq!(data::print(&[measured]), data::print(&[written]), "{setting:?}");
    }
}

#[test]
fn every_write_quorum_is_the_best_of_some_workload_and_no_share_of_writes_decides_alone() {
    let Evaluation { workloads, .. } = evaluation();
    for write in 1..=5 {
        assert!(workloads.iter().any(|one| one.best() == write), "{write}");
    }
    let is_torn = |share: f64| {
        let of_share: Vec<_> = workloads.iter().filter(|one| one.workload.write_share == share).collect();
        of_share.iter().any(|one| one.best() == 1) && of_share.iter().any(|one| one.best() == 5)
    };
    assert!(is_torn(0.15) && is_torn(0.3));
}

#[test]
fn more_training_loses_less_and_less_than_any_fixed_sizes() {
    let Evaluation { points, fixed, .. } = evaluation();
    let [first, middle, last] = [0, 4, 8].map(|at| &points[at]);
    let of = [|point: &Point| point.unboosted.clone(), |point: &Point| point.boosted.clone()];
    for of in of {
        assert!(of(last).misclassified < of(first).misclassified);
        assert!(of(last).loss < of(first).loss);
    }
    let least = fixed.iter().map(|fixed| fixed.loss).fold(f64::MAX, f64::min);
    assert!(middle.boosted.loss < least / 4.0, "{} {least}", middle.boosted.loss);
    let Accuracy { misclassified, loss, .. } = middle.boosted;
    assert!(loss < misclassified / 2.0, "the paper's: mistakes are between near equals");
    assert!(middle.boosted.far_off(0.05) < misclassified / 2.0);
}

#[test]
fn the_worst_choice_is_several_times_slower() {
    let worst = evaluation().ranks.last().expect("there are five");
    assert!(worst.losses.last().is_some_and(|loss| *loss > 0.7), "{:?}", worst.losses.last());
}

/// `UPDATE=1` draws it anew.
#[test]
fn the_drawing_in_the_documents_is_of_these_figures() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/qopt-oracle.svg");
    let drawn = plot::svg(evaluation());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &drawn).expect("the drawing can be written");
    }
    assert!(std::fs::read_to_string(&path).expect("there is a drawing") == drawn, "UPDATE=1 draws it anew");
}
