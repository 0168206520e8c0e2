//! Section V of the Q-Opt paper: how well decision trees tell the best write quorum of a workload (figures 3 to 5, table I).
//!
//! The paper measured OpenStack Swift on 20 machines, with proxies beside its storage nodes. Here registers run their own code
//! in a simulated world: processors, links and disks are a few constants, nothing else contends for them, nothing fails, and
//! members themselves coordinate. So percentages are of this world, and what can be compared is how they go with the share
//! used for training. All objects of a workload are alike, of one size and equally often asked for; the few that there are
//! make operations meet more often than they would among many.

mod costs;
mod measure;
pub mod plot;

use quorate_control::{Measured, Oracle, analytic, oracle};

pub use measure::{Setting, grid, grid_of_others, measure};

use super::MEMBERS;
use crate::random::Random;

/// Percent of workloads that the oracle learns from; it is asked about the others.
pub const TRAINED_PERCENTS: [usize; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
/// By which each throughput is told.
pub const OPERATIONS: u64 = 3_000;
/// A choice that loses more of the throughput is worse than chance among equals.
pub const FAR_OFF: f64 = 0.05;
/// Into training and test, of which figures are means. The paper's are of 200.
pub const SPLITS: u64 = 50;

/// The paper's table I, in percent: of workloads misclassified, of throughput lost, and lost if misclassified.
pub const TABLE_1: [(usize, [[f64; 3]; 2]); 3] = [
    (10, [[15.0, 4.6, 14.1], [14.0, 4.0, 12.9]]),
    (50, [[9.0, 2.2, 10.9], [7.0, 1.6, 9.5]]),
    (90, [[6.0, 1.6, 9.5], [5.0, 0.9, 7.6]]),
];

/// How good choices were. Shares are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accuracy {
    pub misclassified: f64,
    /// Of the best throughput, in the mean.
    pub loss: f64,
    /// The same, where the choice was not the best.
    pub loss_if_wrong: f64,
    /// Of each choice, in order.
    pub losses: Vec<f64>,
}

impl Accuracy {
    pub fn of(mut losses: Vec<f64>) -> Accuracy {
        losses.sort_by(f64::total_cmp);
        let (count, sum) = (losses.len().max(1) as f64, losses.iter().sum::<f64>());
        let wrong = losses.iter().filter(|loss| **loss > 0.0).count();
        Accuracy {
            misclassified: wrong as f64 / count,
            loss: sum / count,
            loss_if_wrong: sum / wrong.max(1) as f64,
            losses,
        }
    }

    /// The share of choices that lose more than this part of the best throughput: sizes are often nearly equal.
    pub fn far_off(&self, part: f64) -> f64 {
        let count = self.losses.len();
        (count - self.losses.partition_point(|loss| *loss <= part)) as f64 / count.max(1) as f64
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub trained_percent: usize,
    pub unboosted: Accuracy,
    pub boosted: Accuracy,
}

/// Figures 3 to 5 and table I.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    pub workloads: Vec<Measured>,
    /// Figure 4 and table I.
    pub points: Vec<Point>,
    /// Figure 5: the best choice of each workload, the second best and so on.
    pub ranks: Vec<Accuracy>,
    /// The same write quorum for all, from 1 on.
    pub fixed: Vec<Accuracy>,
    /// The cheapest by the costs of messages, bytes and disk writes, without any training.
    pub analytic: Accuracy,
}

/// Of workloads with equally many members.
pub fn evaluate(workloads: Vec<Measured>, splits: u64) -> Evaluation {
    let members = workloads.first().map_or(MEMBERS, |first| first.members);
    let points = TRAINED_PERCENTS.into_iter().map(|percent| point(&workloads, percent, splits)).collect();
    let by = |choose: &dyn Fn(&Measured) -> usize| losses(workloads.iter(), choose);
    let ranks = (0..members).map(|rank| Accuracy::of(by(&|one| ranked(one)[rank]))).collect();
    let fixed = (1..=members).map(|write| Accuracy::of(by(&|_| write))).collect();
    let analytic = Accuracy::of(by(&|one| {
        analytic::cheapest_by(members, 1, members, |write| costs::cost(members, write, one.workload))
    }));
    Evaluation { workloads, points, ranks, fixed, analytic }
}

fn losses<'a>(workloads: impl Iterator<Item = &'a Measured>, choose: &dyn Fn(&Measured) -> usize) -> Vec<f64> {
    workloads.map(|one| one.loss(choose(one))).collect()
}

/// Write quorums, the best first.
fn ranked(one: &Measured) -> Vec<usize> {
    let mut writes: Vec<_> = (1..=one.members).collect();
    writes.sort_by(|a, b| one.at(*b).total_cmp(&one.at(*a)));
    writes
}

fn point(workloads: &[Measured], trained_percent: usize, splits: u64) -> Point {
    let [mut unboosted, mut boosted] = [Vec::new(), Vec::new()];
    for split in 1..=splits {
        let (training, test) = parted(workloads, trained_percent, split);
        for (trials, losses) in [(1, &mut unboosted), (oracle::TRIALS, &mut boosted)] {
            losses.extend(tested(&training, &test, trials));
        }
    }
    Point { trained_percent, unboosted: Accuracy::of(unboosted), boosted: Accuracy::of(boosted) }
}

/// What is lost on `test` by an oracle that knows `training`.
pub fn tested(training: &[Measured], test: &[Measured], trials: usize) -> Vec<f64> {
    let oracle = Oracle::train(training, trials).expect("what was measured is finite");
    losses(test.iter(), &|one| oracle.write_quorum(one.members, 1, one.members, one.workload).write)
}

/// At random: so many percent, at least one, and the rest.
pub fn parted(workloads: &[Measured], percent: usize, seed: u64) -> (Vec<Measured>, Vec<Measured>) {
    let (mut rest, mut random) = (workloads.to_vec(), Random::new(seed));
    for at in (1..rest.len()).rev() {
        rest.swap(at, random.below(at as u64 + 1) as usize);
    }
    let training = rest.drain(..(workloads.len() * percent / 100).max(1)).collect();
    (training, rest)
}
