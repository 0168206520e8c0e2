//! Thousands of correct histories pass every checker; each defect of a store is found in every run.

mod common;

use common::{Defect, Run, bounds};
use quorate_sim::check::{Verdict, counters, linearizability, registers};
use quorate_sim::history::{Answer, CallId, Fate, History, Object};
use quorate_sim::workload::{Role, Workload};

/// Each object by the checker for its role as well.
fn check_by_role(history: &History) -> Vec<Verdict> {
    let objects = history.by_object();
    let judged = objects.iter().filter_map(|(object, calls)| match Workload::role(*object) {
        Role::Register => Some(registers::check_object(history, *object, calls, &bounds())),
        Role::Counter => Some(counters::check_object(history, *object, calls, last_number(history, calls))),
        Role::Text | Role::Expiring => None,
    });
    judged.collect()
}

fn last_number(history: &History, calls: &[CallId]) -> i64 {
    let last = calls.last().expect("an object has calls");
    match &history.record(*last).fate {
        Fate::Answered { answer: Answer::Bytes(digits), .. } => {
            std::str::from_utf8(digits).expect("digits").parse().expect("a number")
        }
        _ => 0,
    }
}

#[test]
fn correct_histories_pass() {
    for seed in 0..2_000 {
        let history = Run::new(seed, 300).history();
        let verdict = linearizability::check(&history, &bounds());
        assert_eq!(verdict, Verdict::Linearizable, "seed {seed}: {verdict}");
        for verdict in check_by_role(&history) {
            assert_eq!(verdict, Verdict::Linearizable, "seed {seed}: {verdict}");
        }
    }
}

#[test]
fn correct_histories_pass_whose_unknown_calls_may_take_effect_for_ever() {
    for seed in 0..500 {
        let history = Run::new(seed, 600).history();
        let bounds = quorate_sim::check::Bounds { unknown_effect_us: None, ..bounds() };
        let verdict = linearizability::check(&history, &bounds);
        assert_eq!(verdict, Verdict::Linearizable, "seed {seed}: {verdict}");
    }
}

#[test]
fn a_long_run_with_many_losses_is_decided() {
    let run = Run { lost_per_mille: 40, clients: 40, ..Run::new(1, 20_000) };
    let history = run.history();
    let verdict = linearizability::check(&history, &bounds());
    assert_eq!(verdict, Verdict::Linearizable, "{verdict}");
    for verdict in check_by_role(&history) {
        assert_eq!(verdict, Verdict::Linearizable, "{verdict}");
    }
}

/// Each defect in fifty runs; the general search must prove all of them wrong, not merely give up.
#[test]
fn every_defect_is_found() {
    let defects = [
        Defect::StaleRead,
        Defect::LostWrite,
        Defect::ExecutedTwice,
        Defect::ExecutedAgainLater,
        Defect::Reordered,
        Defect::Resurrected,
        Defect::NeverExpires,
        Defect::SplitBrain,
        Defect::RefusedButExecuted,
        Defect::LateEffect,
    ];
    for defect in defects {
        for seed in 0..50 {
            let run = Run { lost_per_mille: 30, refused_per_mille: 30, ..Run::new(seed, 1_500) };
            let history = run.with(defect).history();
            let verdict = linearizability::check(&history, &bounds());
            assert!(matches!(verdict, Verdict::Violation { .. }), "{defect:?} with seed {seed}: {verdict}");
        }
    }
}

/// What the fast judges find among the defects that concern them.
#[test]
fn defects_of_registers_and_counters_are_found_by_their_own_judges() {
    for defect in [Defect::StaleRead, Defect::LostWrite, Defect::ExecutedTwice, Defect::SplitBrain] {
        for seed in 0..50 {
            let history = Run::new(seed, 3_000).with(defect).history();
            let is_found = check_by_role(&history).iter().any(|verdict| matches!(verdict, Verdict::Violation { .. }));
            assert!(is_found, "{defect:?} with seed {seed}");
        }
    }
}

#[test]
fn a_run_repeats() {
    let records = |seed| Run::new(seed, 500).history().records().to_vec();
    assert_eq!(records(5), records(5));
    assert_ne!(records(5), records(6));
}

#[test]
fn an_explanation_shows_the_calls() {
    let history = Run::new(0, 1_500).with(Defect::LostWrite).history();
    let Verdict::Violation { object, explanation } = linearizability::check(&history, &bounds()) else {
        panic!("a lost write was not found");
    };
    assert!(object <= Object(11));
    assert!(explanation.contains("answered calls can be put in order"), "{explanation}");
    assert!(explanation.lines().filter(|line| line.contains("|")).count() > 2, "{explanation}");
}
