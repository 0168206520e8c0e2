//! When what is looked at: Algorithm 1 of the Q-Opt paper, and what the paper leaves open, when it begins anew.
//!
//! Each round looks at the hottest objects not looked at yet, until throughput over the last rounds gains too little; then at
//! the tail in bulk; then rests until the workload shifts. One round is told of at a time; how long one is, the caller knows.

use std::collections::BTreeMap;

use crate::oracle::Oracle;
use crate::policy::{Change, Kind, Settings, Tunable, plan_one};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Hot objects, some in each round.
    Hot,
    /// The tail, in one round.
    Bulk,
    Rest,
}

/// What to do after a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What was looked at.
    pub phase: Phase,
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug)]
pub struct Rounds {
    settings: Settings,
    is_resting: bool,
    /// Of each round since hot objects were begun with.
    throughputs: Vec<f64>,
    /// What has been looked at since, with its share of writes then.
    seen: BTreeMap<String, f64>,
}

impl Rounds {
    pub fn new(settings: Settings) -> Rounds {
        Rounds { settings, is_resting: false, throughputs: Vec::new(), seen: BTreeMap::new() }
    }

    /// A round has ended, with so many operations a second of everything.
    pub fn end_round(&mut self, throughput: f64, tunables: &[Tunable], oracle: &Oracle) -> Turn {
        if self.is_resting {
            if !self.has_shifted(tunables) {
                return Turn { phase: Phase::Rest, changes: Vec::new() };
            }
            self.begin();
        }
        self.throughputs.push(throughput);
        let hottest = self.hottest(tunables);
        if hottest.is_empty() || self.is_settled() {
            // Objects that were not worth a round of their own are no news later.
            self.note(tunables.iter());
            self.is_resting = true;
            let bulk = tunables.iter().filter(|tunable| tunable.kind == Kind::Bulk);
            return Turn { phase: Phase::Bulk, changes: self.plan(bulk, throughput, oracle) };
        }
        self.note(hottest.iter().copied());
        Turn { phase: Phase::Hot, changes: self.plan(hottest.into_iter(), throughput, oracle) }
    }

    /// A change was not made: it is looked at again, if need be by beginning anew.
    pub fn forget(&mut self, id: &str) {
        self.seen.remove(id);
    }

    fn begin(&mut self) {
        self.is_resting = false;
        self.throughputs.clear();
        self.seen.clear();
    }

    /// Those of which enough was asked to tell.
    fn telling<'a>(&self, tunables: &'a [Tunable]) -> impl Iterator<Item = &'a Tunable> + use<'a> {
        let least = self.settings.operations_min;
        tunables.iter().filter(move |tunable| tunable.operations() >= least)
    }

    /// What has not been seen, or is not written as it was.
    fn has_shifted(&self, tunables: &[Tunable]) -> bool {
        let is_as_seen = |tunable: &Tunable| {
            let seen = self.seen.get(&tunable.id);
            seen.is_some_and(|share| (tunable.write_share() - share).abs() <= self.settings.shift_min)
        };
        !self.telling(tunables).all(is_as_seen)
    }

    /// The hottest objects that have not been looked at.
    fn hottest<'a>(&self, tunables: &'a [Tunable]) -> Vec<&'a Tunable> {
        let is_new = |tunable: &&Tunable| tunable.kind == Kind::Hot && !self.seen.contains_key(&tunable.id);
        let mut hot: Vec<_> = self.telling(tunables).filter(is_new).collect();
        hot.sort_by(|a, b| b.operations().cmp(&a.operations()).then_with(|| a.id.cmp(&b.id)));
        hot.truncate(self.settings.hot_count.max(1));
        hot
    }

    /// Whether the last rounds have gained too little for one more.
    fn is_settled(&self) -> bool {
        let Some(now) = self.throughputs.last() else { return false };
        let earlier = self.throughputs.iter().rev().nth(self.settings.gain_rounds.max(1));
        // Whatever comes after nothing is a gain.
        earlier.is_some_and(|earlier| now - earlier < self.settings.gain_rounds_min * earlier)
    }

    fn note<'a>(&mut self, tunables: impl Iterator<Item = &'a Tunable>) {
        let least = self.settings.operations_min;
        let telling = tunables.filter(|tunable| tunable.operations() >= least);
        self.seen.extend(telling.map(|tunable| (tunable.id.clone(), tunable.write_share())));
    }

    fn plan<'a>(&self, tunables: impl Iterator<Item = &'a Tunable>, throughput: f64, oracle: &Oracle) -> Vec<Change> {
        tunables.filter_map(|tunable| plan_one(tunable, throughput, &self.settings, oracle)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{apply, tunable};

    fn settings() -> Settings {
        Settings { hot_count: 2, gain_rounds: 1, gain_rounds_min: 0.05, ..Settings::default() }
    }

    /// Five hot objects that are read, the first most, and a tail that is written.
    fn tunables() -> Vec<Tunable> {
        let hot = |number: u64| tunable(&format!("hot {number}"), Kind::Hot, 99_000 - number, 1_000);
        let tail = Tunable { bytes: 65536.0, ..tunable("tail", Kind::Bulk, 1_000, 20_000) };
        (0..5).map(hot).chain([tail]).collect()
    }

    fn ids(turn: &Turn) -> Vec<&str> {
        turn.changes.iter().map(|change| change.id.as_str()).collect()
    }

    #[test]
    fn hot_objects_come_one_after_the_other_and_then_the_tail() {
        let (mut rounds, mut tunables, oracle) = (Rounds::new(settings()), tunables(), Oracle::built_in());
        let mut turns = Vec::new();
        for throughput in [50_000.0, 60_000.0, 70_000.0, 80_000.0, 90_000.0] {
            let turn = rounds.end_round(throughput, &tunables, &oracle);
            apply(&turn.changes, &mut tunables);
            turns.push((turn.phase, ids(&turn).join(", ")));
        }
        let expected = [
            (Phase::Hot, "hot 0, hot 1"),
            (Phase::Hot, "hot 2, hot 3"),
            (Phase::Hot, "hot 4"),
            (Phase::Bulk, "tail"),
            (Phase::Rest, ""),
        ];
        assert_eq!(turns, expected.map(|(phase, ids)| (phase, ids.to_owned())));
    }

    #[test]
    fn hot_objects_end_where_they_gain_nothing() {
        let (mut rounds, tunables, oracle) = (Rounds::new(settings()), tunables(), Oracle::built_in());
        assert_eq!(rounds.end_round(50_000.0, &tunables, &oracle).phase, Phase::Hot);
        assert_eq!(rounds.end_round(52_600.0, &tunables, &oracle).phase, Phase::Hot);
        let turn = rounds.end_round(53_000.0, &tunables, &oracle);
        assert_eq!((turn.phase, ids(&turn)), (Phase::Bulk, vec!["tail"]));
        assert_eq!(rounds.end_round(20_000.0, &tunables, &oracle).phase, Phase::Rest);
    }

    /// Until the first rest.
    fn rested(tunables: &mut [Tunable], oracle: &Oracle) -> Rounds {
        let mut rounds = Rounds::new(settings());
        for _ in 0..20 {
            let turn = rounds.end_round(50_000.0, tunables, oracle);
            apply(&turn.changes, tunables);
            if turn.phase == Phase::Rest {
                return rounds;
            }
        }
        panic!("there is no rest");
    }

    #[test]
    fn a_shift_of_the_workload_begins_anew() {
        let (mut tunables, oracle) = (tunables(), Oracle::built_in());
        let mut rounds = rested(&mut tunables, &oracle);
        tunables[5].writes = 10_000;
        assert_eq!(rounds.end_round(50_000.0, &tunables, &oracle).phase, Phase::Rest);
        tunables[0].reads = 2_000;
        tunables[0].writes = 98_000;
        tunables[0].bytes = 65536.0;
        assert_eq!(rounds.end_round(50_000.0, &tunables, &oracle).phase, Phase::Hot);
    }

    #[test]
    fn a_new_hot_object_begins_anew_and_a_lukewarm_one_does_not() {
        let (mut tunables, oracle) = (tunables(), Oracle::built_in());
        let mut rounds = rested(&mut tunables, &oracle);
        tunables.push(tunable("new", Kind::Hot, 500, 10));
        assert_eq!(rounds.end_round(50_000.0, &tunables, &oracle).phase, Phase::Rest);
        tunables[6].reads = 500_000;
        let turn = rounds.end_round(50_000.0, &tunables, &oracle);
        assert_eq!((turn.phase, ids(&turn)), (Phase::Hot, vec!["new"]));
    }

    #[test]
    fn what_was_not_done_is_tried_again() {
        let (mut tunables, oracle) = (tunables(), Oracle::built_in());
        let mut rounds = Rounds::new(settings());
        let turn = rounds.end_round(50_000.0, &tunables, &oracle);
        assert_eq!(ids(&turn), ["hot 0", "hot 1"]);
        apply(&turn.changes[1..], &mut tunables);
        rounds.forget("hot 0");
        let turn = rounds.end_round(60_000.0, &tunables, &oracle);
        assert_eq!(ids(&turn), ["hot 0", "hot 2"]);
    }

    #[test]
    fn the_same_demand_comes_to_rest_and_stays_there() {
        let (mut tunables, oracle) = (tunables(), Oracle::built_in());
        let mut rounds = rested(&mut tunables, &oracle);
        for _ in 0..50 {
            assert_eq!(rounds.end_round(50_000.0, &tunables, &oracle), Turn { phase: Phase::Rest, changes: vec![] });
        }
    }

    #[test]
    fn without_demand_there_is_nothing_to_do() {
        let mut rounds = Rounds::new(settings());
        let phases = [(); 3].map(|()| rounds.end_round(0.0, &[], &Oracle::default()).phase);
        assert_eq!(phases, [Phase::Bulk, Phase::Rest, Phase::Rest]);
    }
}
