//! The best write quorum of a workload, as learnt from workloads that were measured at every one (Q-Opt, section V).
//!
//! Features are the paper's three: the share of writes, the mean size of objects, and throughput.

use std::collections::{BTreeMap, BTreeSet};

use crate::analytic;
use crate::boost::Boosted;
use crate::data::{self, ParseError};
use crate::tree::{Case, Growth, TrainError, heaviest};

/// C5.0's.
pub const TRIALS: usize = 10;
/// Parts of what can be served.
const LOADS: [f64; 6] = [1.0, 0.5, 0.25, 0.1, 0.01, 0.001];
/// Of a workload to which sizes are all the same.
const WEIGHT_MIN: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Of operations, from 0 to 1.
    pub write_share: f64,
    /// Mean size of an object.
    pub bytes: f64,
    /// Operations a second of everything that shares the members' machines.
    pub throughput: f64,
}

impl Workload {
    /// Sizes and throughputs differ by factors.
    fn features(self) -> Vec<f64> {
        vec![self.write_share, (1.0 + self.bytes).log2(), (1.0 + self.throughput).log2()]
    }
}

/// A workload that was tried with every size.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub members: usize,
    pub workload: Workload,
    /// Operations a second at write quorums of 1, 2 and so on to all members.
    pub throughputs: Vec<f64>,
}

impl Measured {
    /// The write quorum of most throughput; the smallest of equals.
    pub fn best(&self) -> usize {
        self.best_among(1, self.members)
    }

    fn best_among(&self, least: usize, most: usize) -> usize {
        let better = |best: usize, next: usize| if self.at(next) > self.at(best) { next } else { best };
        (least..=most).fold(least, better)
    }

    /// Operations a second at this write quorum.
    pub fn at(&self, write: usize) -> f64 {
        self.throughputs[write - 1]
    }

    /// The share of the best throughput that is lost at this write quorum.
    pub fn loss(&self, write: usize) -> f64 {
        1.0 - self.at(write) / self.at(self.best())
    }

    /// The same, while clients ask for this part of what can be served.
    fn seen_under(&self, load: f64) -> Measured {
        let workload = Workload { throughput: load * self.workload.throughput, ..self.workload };
        Measured { workload, ..self.clone() }
    }

    /// The same, as it looks while write quorums are of this size.
    pub fn seen_at(&self, write: usize) -> Measured {
        let workload = Workload { throughput: self.at(write), ..self.workload };
        Measured { workload, ..self.clone() }
    }

    /// It weighs what is lost by choosing blindly: where all sizes are nearly equal, the best is chance.
    fn case(&self, least: usize, most: usize) -> Case {
        let best = self.best_among(least, most);
        let mean = (least..=most).map(|write| self.at(write)).sum::<f64>() / (most - least + 1) as f64;
        let weight = WEIGHT_MIN + 1.0 - mean / self.at(best);
        Case { features: self.workload.features(), class: best - 1, weight }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub write: usize,
    pub read: usize,
    /// One sentence.
    pub why: String,
}

/// Without training it knows only what operations cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Oracle {
    /// By the number of members and how many of them may fail: what is best among all is not what is best among those allowed.
    learnt: BTreeMap<(usize, usize), Boosted>,
}

impl Oracle {
    /// Of at most so many trees for each number of members.
    pub fn train(measured: &[Measured], trials: usize) -> Result<Oracle, TrainError> {
        let mut learnt = BTreeMap::new();
        let members: BTreeSet<_> = measured.iter().map(|one| one.members).collect();
        for members in members {
            let of_members: Vec<_> = measured.iter().filter(|one| one.members == members).collect();
            for tolerance in 0..members.div_ceil(2) {
                let case = |one: &&Measured| one.case(tolerance + 1, members - tolerance);
                let mut cases: Vec<_> = of_members.iter().map(case).collect();
                even_out(&mut cases);
                learnt.insert((members, tolerance), Boosted::train(&cases, members, trials, Growth::default())?);
            }
        }
        Ok(Oracle { learnt })
    }

    /// Trained with this crate's measurements; [`data::parse`] takes others. Keep it: training takes a while.
    pub fn built_in() -> Oracle {
        let measured = Oracle::measured_built_in().expect("a test parses it");
        Oracle::learnt_from(&measured).expect("a test trains it")
    }

    /// Each as seen at every size, since it is not known which one is in use when it is asked, and where less is asked for than can
    /// be served: what is best is best then too.
    pub fn learnt_from(measured: &[Measured]) -> Result<Oracle, TrainError> {
        let at_every_size = |one: &Measured| (1..=one.members).map(|write| one.seen_at(write)).collect::<Vec<_>>();
        let at_every_load = |one: Measured| LOADS.map(|load| one.seen_under(load));
        let seen: Vec<_> = measured.iter().flat_map(at_every_size).flat_map(at_every_load).collect();
        Oracle::train(&seen, TRIALS)
    }

    /// What `quorate bench quorums --csv` has measured, of nodes on one machine.
    pub fn measured_built_in() -> Result<Vec<Measured>, ParseError> {
        data::parse(include_str!("../data/workloads.csv"))
    }

    /// The best write quorum from `least` to `most`, which the tolerance allows. Bounds beyond 1 and `members` are drawn in;
    /// if none is left between them, the answer is `least`.
    ///
    /// # Panics
    /// Without members.
    pub fn write_quorum(&self, members: usize, least: usize, most: usize, workload: Workload) -> Advice {
        assert!(members > 0, "there is a member");
        let least = least.clamp(1, members);
        let most = most.clamp(least, members);
        let tolerance = (least - 1).min(members - most);
        let Some(learnt) = self.learnt.get(&(members, tolerance)) else {
            return self.cheapest(members, least, most, workload);
        };
        let write = best_allowed(learnt, least, most, workload);
        Advice { write, read: members + 1 - write, why: why(members, (least, most), write, workload) }
    }

    /// The same, by costs alone.
    ///
    /// # Panics
    /// Without members.
    pub fn cheapest(&self, members: usize, least: usize, most: usize, workload: Workload) -> Advice {
        assert!(members > 0, "there is a member");
        let least = least.clamp(1, members);
        let most = most.clamp(least, members);
        let write = analytic::cheapest(members, least, most, workload);
        let is_learnt = self.learnt.keys().any(|&(learnt, _)| learnt == members);
        let unknown = if is_learnt { String::new() } else { format!("; no {members} members were measured") };
        let why = format!("{} (computed{unknown})", why(members, (least, most), write, workload));
        Advice { write, read: members + 1 - write, why }
    }
}

/// Weights that are 1 in the mean.
fn even_out(cases: &mut [Case]) {
    let mean = cases.iter().map(|case| case.weight).sum::<f64>() / cases.len() as f64;
    cases.iter_mut().for_each(|case| case.weight /= mean);
}

/// By votes; if there are none, what is closest to what all vote for.
fn best_allowed(boosted: &Boosted, least: usize, most: usize, workload: Workload) -> usize {
    let votes = boosted.votes(&workload.features());
    let winner = heaviest(&votes) + 1;
    let order = |a: &usize, b: &usize| {
        votes[*a - 1].total_cmp(&votes[*b - 1]).then(b.abs_diff(winner).cmp(&a.abs_diff(winner)))
    };
    (least..=most).max_by(order).unwrap_or(least)
}

fn why(members: usize, (least, most): (usize, usize), write: usize, workload: Workload) -> String {
    let Workload { write_share, bytes, throughput } = workload;
    let (share, what) = if write_share > 0.5 { (write_share, "writes") } else { (1.0 - write_share, "reads") };
    let sizes = match (2 * write).cmp(&(members + 1)) {
        std::cmp::Ordering::Less => "small write quorums",
        std::cmp::Ordering::Equal => "balanced quorums",
        std::cmp::Ordering::Greater => "small read quorums",
    };
    let is_held_back = (write == least && least > 1) || (write == most && most < members);
    let bound = if is_held_back { ", as far as the tolerance allows" } else { "" };
    let share = (100.0 * share).round();
    let (size, rate) = (size(bytes), thousands(throughput));
    format!("{share}% {what} of {size} at {rate} operations a second: {sizes}{bound}")
}

/// `12,000`, rounded to three digits.
fn thousands(number: f64) -> String {
    let digits = (number.max(1.0).log10().floor() as i32 - 2).max(0);
    let unit = 10_f64.powi(digits);
    let rounded = format!("{:.0}", (number / unit).round() * unit);
    let mut words = String::new();
    for (at, digit) in rounded.chars().enumerate() {
        if at > 0 && (rounded.len() - at) % 3 == 0 {
            words.push(',');
        }
        words.push(digit);
    }
    words
}

fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0} bytes"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.0} KiB", bytes / 1024.0),
        bytes => format!("{:.1} MiB", bytes / 1024.0 / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn any(random: &mut Random) -> Workload {
        let bytes = f64::from(1 << random.below(24));
        Workload { write_share: random.share(), bytes, throughput: random.share() * 50_000.0 }
    }

    #[test]
    fn answers_are_within_what_is_allowed() {
        let (mut random, oracle) = (Random::new(1), Oracle::built_in());
        for _ in 0..5_000 {
            let members = 1 + random.below(9) as usize;
            let least = 1 + random.below(members as u64) as usize;
            let most = least + random.below((members - least + 1) as u64) as usize;
            let advice = oracle.write_quorum(members, least, most, any(&mut random));
            assert!((least..=most).contains(&advice.write), "{advice:?}");
            assert_eq!(advice.read + advice.write, members + 1);
        }
    }

    #[test]
    fn bounds_that_make_no_sense_are_drawn_in() {
        let workload = Workload { write_share: 0.5, bytes: 100.0, throughput: 10.0 };
        for (least, most) in [(0, 0), (9, 9), (4, 2), (0, 99)] {
            let Advice { write, .. } = Oracle::built_in().write_quorum(5, least, most, workload);
            assert!((1..=5).contains(&write));
        }
    }

    #[test]
    fn what_was_measured_is_learnt() {
        let measured = data::simulated().expect("it parses");
        let oracle = Oracle::learnt_from(&measured).expect("it can be learnt");
        let fives: Vec<_> = measured.iter().filter(|one| one.members == 5).collect();
        assert!(fives.len() > 150);
        let loss = |write: &dyn Fn(&Measured) -> usize| {
            fives.iter().map(|one| one.loss(write(one))).sum::<f64>() / fives.len() as f64
        };
        for in_use in 1..=5 {
            let advised = loss(&|one| oracle.write_quorum(5, 1, 5, one.seen_at(in_use).workload).write);
            assert!(advised < 0.01, "{advised} while {in_use} is in use");
            let fixed = loss(&|_| in_use);
            assert!(fixed > 5.0 * advised, "{fixed}, {advised}");
        }
    }

    #[test]
    fn the_best_of_those_allowed_is_learnt_for_every_tolerance() {
        let measured = data::simulated().expect("it parses");
        let oracle = Oracle::learnt_from(&measured).expect("it can be learnt");
        for (members, tolerance) in [(3, 0), (4, 0), (4, 1), (5, 1), (6, 1), (6, 2), (7, 0), (7, 1), (7, 2)] {
            let (least, most) = (tolerance + 1, members - tolerance);
            let lost = |one: &Measured| {
                let advice = oracle.write_quorum(members, least, most, one.workload);
                1.0 - one.at(advice.write) / one.at(one.best_among(least, most))
            };
            let losses: Vec<_> = measured.iter().filter(|one| one.members == members).map(lost).collect();
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            assert!(mean < 0.01, "{mean} of {members} members, {tolerance} of which may fail");
        }
    }

    #[test]
    fn what_is_built_in_serves_better_than_any_one_choice_however_little_is_asked_for() {
        let (measured, oracle) = (Oracle::measured_built_in().expect("it parses"), Oracle::built_in());
        for (members, tolerance) in [(3, 0), (4, 0), (4, 1), (5, 0), (5, 1)] {
            let (least, most) = (tolerance + 1, members - tolerance);
            let of_members: Vec<_> = measured.iter().filter(|one| one.members == members).collect();
            let lost = |write: &dyn Fn(&Measured) -> usize| {
                let loss = |one: &&Measured| 1.0 - one.at(write(one)) / one.at(one.best_among(least, most));
                of_members.iter().map(loss).sum::<f64>() / of_members.len() as f64
            };
            let advised =
                |load: f64| lost(&|one| oracle.write_quorum(members, least, most, one.seen_under(load).workload).write);
            let one_choice = (least..=most).map(|write| lost(&|_| write)).fold(f64::MAX, f64::min);
            for load in [1.0, 0.3, 0.05] {
                let advised = advised(load);
                assert!(
                    advised < 0.03 && advised < 0.7 * one_choice,
                    "{members}, {tolerance}: {advised}, {one_choice}"
                );
            }
        }
    }

    #[test]
    fn reads_and_writes_are_served() {
        let oracle = Oracle::built_in();
        let reads = Workload { write_share: 0.05, bytes: 1024.0, throughput: 12_000.0 };
        let Advice { write, why, .. } = oracle.write_quorum(5, 1, 5, reads);
        assert!(write >= 4, "{write}");
        assert_eq!(why, "95% reads of 1 KiB at 12,000 operations a second: small read quorums");
        let writes = Workload { write_share: 0.95, bytes: 65536.0, throughput: 3_000.0 };
        let Advice { write, why, .. } = oracle.write_quorum(5, 2, 4, writes);
        assert_eq!(write, 2);
        let words =
            "95% writes of 64 KiB at 3,000 operations a second: small write quorums, as far as the tolerance allows";
        assert_eq!(why, words);
    }

    #[test]
    fn what_was_not_measured_is_computed_and_said_so() {
        let reads = Workload { write_share: 0.0, bytes: 10.0, throughput: 999.4 };
        let Advice { write, read, why } = Oracle::built_in().write_quorum(9, 1, 9, reads);
        assert_eq!((write, read), (9, 1));
        let words = "100% reads of 10 bytes at 999 operations a second: small read quorums (computed; no 9 members were measured)";
        assert_eq!(why, words);
    }

    #[test]
    fn numbers_are_told_in_three_digits() {
        let cases = [(0.0, "0"), (7.6, "8"), (999.9, "1,000"), (12_345.0, "12,300"), (1_234_567.0, "1,230,000")];
        for (number, words) in cases {
            assert_eq!(thousands(number), words);
        }
    }
}
