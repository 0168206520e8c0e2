//! What section V of the Q-Opt paper says of its figures 3 to 5 and its table I, of the workloads that are built in; and that
//! they are what is measured.

use std::path::Path;
use std::sync::OnceLock;

use quorate_control::{Measured, data};
use quorate_lab::qopt::oracle::{
    Accuracy, Evaluation, OPERATIONS, Point, SPLITS, Setting, evaluate, grid, grid_of_others, measure, parted, plot,
    tested,
};

fn built_in() -> Vec<Measured> {
    data::simulated().expect("it parses")
}

fn evaluation() -> &'static Evaluation {
    static EVALUATION: OnceLock<Evaluation> = OnceLock::new();
    EVALUATION.get_or_init(|| evaluate(built_in().into_iter().filter(|one| one.members == 5).collect(), SPLITS))
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
fn the_workloads_built_in_are_those_measured() {
    let settings: Vec<_> = grid().into_iter().chain(grid_of_others()).collect();
    let built_in = built_in();
    assert_eq!(settings.len(), built_in.len());
    for (setting, built_in) in settings.into_iter().zip(built_in).step_by(41) {
        let measured = measure(setting, OPERATIONS, 1);
        assert_eq!(data::print(&[measured]), data::print(&[built_in]), "{setting:?}");
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

#[test]
#[ignore = "prints the figures"]
fn print() {
    let Evaluation { points, ranks, fixed, analytic, .. } = evaluation();
    let say = |name: String, one: &Accuracy| {
        let worst = one.losses.last().copied().unwrap_or(0.0);
        let Accuracy { misclassified, loss, loss_if_wrong, .. } = one;
        let far_off = one.far_off(0.05);
        println!("{name:20} {misclassified:.3} {loss:.4} {loss_if_wrong:.4} far off {far_off:.3} worst {worst:.3}");
    };
    for point in points {
        say(format!("{} unboosted", point.trained_percent), &point.unboosted);
        say(format!("{} boosted", point.trained_percent), &point.boosted);
    }
    ranks.iter().enumerate().for_each(|(rank, one)| say(format!("rank {}", rank + 1), one));
    fixed.iter().enumerate().for_each(|(write, one)| say(format!("fixed {}", write + 1), one));
    say(String::from("analytic"), analytic);
}

/// `UPDATE=1 cargo test --release` writes what is built in anew.
#[test]
#[ignore = "takes a minute"]
fn all_workloads_built_in_are_those_measured() {
    let settings = grid().into_iter().chain(grid_of_others());
    let measured: Vec<_> = settings.map(|setting| measure(setting, OPERATIONS, 1)).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../control/data/simulated.csv");
    let printed = data::print(&measured);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &printed).expect("it can be written");
    }
    assert!(std::fs::read_to_string(&path).expect("there are workloads") == printed);
}
