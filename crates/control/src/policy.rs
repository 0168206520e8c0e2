//! Which quorums should get other sizes, each with a reason in words: a pure function of what is asked of them.
//!
//! Changes only what gains: by [`analytic::gain`], so that no demand moves sizes to and fro.

use crate::analytic;
use crate::oracle::{Advice, Oracle, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One object with sizes of its own.
    Hot,
    /// All objects of a group that have none: the tail.
    Bulk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub read: usize,
    pub write: usize,
}

/// What has, or could have, quorum sizes of its own, and what was asked of it for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunable {
    /// A key, or which namespace. Unique.
    pub id: String,
    pub kind: Kind,
    pub members: usize,
    /// How many of them may fail at once.
    pub tolerance: usize,
    pub sizes: Sizes,
    /// Operations.
    pub reads: u64,
    pub writes: u64,
    /// Mean size of what was read and written.
    pub bytes: f64,
    /// How long that took.
    pub seconds: f64,
}

impl Tunable {
    pub fn operations(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// From 0 to 1; 0 without operations.
    pub fn write_share(&self) -> f64 {
        self.writes as f64 / self.operations().max(1) as f64
    }

    /// Operations a second; 0 if they took no time.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.operations() as f64 / self.seconds } else { 0.0 }
    }

    fn workload(&self, throughput: f64) -> Workload {
        let bytes = if self.bytes.is_finite() { self.bytes.max(0.0) } else { 0.0 };
        Workload { write_share: self.write_share(), bytes, throughput }
    }

    /// The smallest and the largest write quorum with which reads and writes go on while so many members have failed.
    fn bounds(&self) -> Option<(usize, usize)> {
        let most = self.members.checked_sub(self.tolerance)?;
        let least = self.tolerance + 1;
        (least <= most).then_some((least, most))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Fewer operations say nothing.
    pub operations_min: u64,
    /// The predicted gain that is worth a change: 0.05 is a twentieth more throughput. At least 0 is taken.
    pub gain_min: f64,
    /// Of rounds: how many hot objects each looks at.
    pub hot_count: usize,
    /// Of rounds: the paper's γ, over how many of them gain is counted.
    pub gain_rounds: usize,
    /// Of rounds: the paper's θ, the gain in so many rounds below which hot objects are not worth more of them.
    pub gain_rounds_min: f64,
    /// Of rounds: the change of a share of writes, 0 to 1, with which they begin anew.
    pub shift_min: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            operations_min: 1_000,
            gain_min: 0.03,
            hot_count: 8,
            gain_rounds: 2,
            gain_rounds_min: 0.02,
            shift_min: 0.15,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub id: String,
    pub kind: Kind,
    pub from: Sizes,
    pub to: Sizes,
    /// One sentence.
    pub reason: String,
}

/// What to change among these, which share the members' machines. What is refused by tolerance or bounds is left as it is.
pub fn plan(groups: &[Tunable], settings: &Settings, oracle: &Oracle) -> Vec<Change> {
    plan_under(groups.iter().map(Tunable::throughput).sum(), groups, settings, oracle)
}

/// The same, where so many operations a second are asked of these and of what else shares the machines.
pub fn plan_under(throughput: f64, groups: &[Tunable], settings: &Settings, oracle: &Oracle) -> Vec<Change> {
    groups.iter().filter_map(|tunable| plan_one(tunable, throughput, settings, oracle)).collect()
}

/// `throughput`: of everything.
pub(crate) fn plan_one(tunable: &Tunable, throughput: f64, settings: &Settings, oracle: &Oracle) -> Option<Change> {
    if tunable.operations() < settings.operations_min {
        return None;
    }
    let (least, most) = tunable.bounds()?;
    let (members, from, workload) = (tunable.members, tunable.sizes, tunable.workload(throughput));
    if from.write == 0 || from.read.max(from.write) > members || from.read + from.write <= members {
        return None;
    }
    let bears = from.read.max(from.write) <= most;
    let learnt = oracle.write_quorum(members, least, most, workload);
    let computed = oracle.cheapest(members, least, most, workload);
    let gain = |from: Sizes, advice: &Advice| analytic::gain(from, sizes(advice), workload);
    let is_worth_it =
        |from: Sizes, advice: &Advice| gain(from, advice) > 0.0 && gain(from, advice) >= settings.gain_min;
    // Few workloads may have taught something strange: costs that are as much lower are believed rather.
    let is_strange = is_worth_it(sizes(&learnt), &computed);
    let advices = if is_strange { [computed.clone(), computed] } else { [learnt, computed] };
    // What does not bear failures is changed whatever is gained.
    let advice = advices.into_iter().find(|advice| !bears || is_worth_it(from, advice))?;
    let to = sizes(&advice);
    let expected = match bears {
        true => format!("{:.0}% more throughput expected under load", 100.0 * gain(from, &advice)),
        false => format!("quorums of {} and {} do not bear {} failed", from.read, from.write, tunable.tolerance),
    };
    let reason = format!("{}; {expected}", advice.why);
    Some(Change { id: tunable.id.clone(), kind: tunable.kind, from, to, reason })
}

fn sizes(advice: &Advice) -> Sizes {
    Sizes { read: advice.read, write: advice.write }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::random::Random;

    pub(crate) fn tunable(id: &str, kind: Kind, reads: u64, writes: u64) -> Tunable {
        Tunable {
            id: id.to_owned(),
            kind,
            members: 5,
            tolerance: 1,
            sizes: Sizes { read: 3, write: 3 },
            reads,
            writes,
            bytes: 1024.0,
            seconds: 10.0,
        }
    }

    pub(crate) fn apply(changes: &[Change], tunables: &mut [Tunable]) {
        for change in changes {
            let changed = tunables.iter_mut().find(|tunable| tunable.id == change.id).expect("it was there");
            assert_eq!(changed.sizes, change.from);
            changed.sizes = change.to;
        }
    }

    fn any(number: u64, random: &mut Random) -> Tunable {
        let members = 3 + random.below(7) as usize;
        let write = 1 + random.below(members as u64) as usize;
        Tunable {
            id: number.to_string(),
            kind: if random.below(2) == 0 { Kind::Hot } else { Kind::Bulk },
            members,
            tolerance: random.below(5) as usize,
            sizes: Sizes { read: members + 1 - write, write },
            reads: random.below(100_000),
            writes: random.below(100_000) >> random.below(8),
            bytes: f64::from(1 << random.below(20)),
            seconds: 1.0 + random.share() * 60.0,
        }
    }

    #[test]
    fn the_same_demand_changes_nothing_twice() {
        let (mut random, oracle, settings) = (Random::new(1), Oracle::built_in(), Settings::default());
        let mut changed_count = 0;
        for _ in 0..200 {
            let mut groups: Vec<_> = (0..10).map(|number| any(number, &mut random)).collect();
            let changes = plan(&groups, &settings, &oracle);
            changed_count += changes.len();
            apply(&changes, &mut groups);
            assert_eq!(plan(&groups, &settings, &oracle), []);
            // Faster or slower because of that.
            let factor = 0.3 + random.share() * 3.0;
            groups.iter_mut().for_each(|tunable| tunable.seconds *= factor);
            let again = plan(&groups, &settings, &oracle);
            apply(&again, &mut groups);
            groups.iter_mut().for_each(|tunable| tunable.seconds /= factor);
            let back = plan(&groups, &settings, &oracle);
            for change in &again {
                let is_undone = back.iter().any(|back| back.id == change.id && back.to == change.from);
                assert!(!is_undone, "{change:?}");
            }
        }
        assert!(changed_count > 200, "{changed_count}");
    }

    #[test]
    fn changes_keep_to_the_tolerance() {
        let (mut random, oracle) = (Random::new(2), Oracle::built_in());
        for number in 0..2_000 {
            let tunable = any(number, &mut random);
            for change in plan(std::slice::from_ref(&tunable), &Settings::default(), &oracle) {
                let most = tunable.members - tunable.tolerance;
                assert_eq!(change.to.read + change.to.write, tunable.members + 1);
                assert!(change.to.read <= most && change.to.write <= most, "{tunable:?} {change:?}");
            }
        }
    }

    #[test]
    fn reads_get_small_read_quorums_for_a_reason() {
        let reads = [tunable("a", Kind::Hot, 99_000, 1_000)];
        let changes = plan(&reads, &Settings::default(), &Oracle::built_in());
        let [change] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((change.from, change.to), (Sizes { read: 3, write: 3 }, Sizes { read: 2, write: 4 }));
        let words = "99% reads of 1 KiB at 10,000 operations a second: small read quorums, as far as the tolerance allows; \
                     7% more throughput expected under load";
        assert_eq!(change.reason, words);
    }

    #[test]
    fn few_operations_and_small_gains_change_nothing() {
        let oracle = Oracle::built_in();
        let settings = Settings::default();
        let brief = |writes: u64| Tunable { seconds: 0.1, ..tunable("a", Kind::Hot, 990, writes) };
        assert_eq!(plan(&[brief(9)], &settings, &oracle), []);
        assert_eq!(plan(&[brief(10)], &settings, &oracle).len(), 1);
        let greedy = Settings { gain_min: 2.0, ..settings };
        assert_eq!(plan(&[tunable("a", Kind::Hot, 99_000, 1_000)], &greedy, &oracle), []);
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let oracle = Oracle::default();
        let settings = Settings { operations_min: 0, ..Settings::default() };
        let idle = Tunable { seconds: 0.0, bytes: f64::NAN, ..tunable("a", Kind::Bulk, 0, 0) };
        plan(&[idle], &settings, &oracle).iter().for_each(|change| assert!(!change.reason.contains("NaN")));
        let none = Tunable { members: 0, ..tunable("a", Kind::Bulk, 5, 5) };
        let fragile = Tunable { tolerance: 3, ..tunable("a", Kind::Bulk, 5_000, 5) };
        assert_eq!(plan(&[none, fragile], &settings, &oracle), []);
    }

    #[test]
    fn sizes_beyond_the_tolerance_are_mended() {
        let beyond = Tunable { sizes: Sizes { read: 1, write: 5 }, ..tunable("a", Kind::Bulk, 99_000, 1_000) };
        let changes = plan(&[beyond], &Settings::default(), &Oracle::built_in());
        assert_eq!(changes[0].to, Sizes { read: 2, write: 4 });
        assert!(changes[0].reason.ends_with("quorums of 1 and 5 do not bear 1 failed"), "{}", changes[0].reason);
        let loose = Tunable { sizes: Sizes { read: 3, write: 4 }, ..tunable("a", Kind::Bulk, 99_000, 1_000) };
        let changes = plan(&[loose], &Settings::default(), &Oracle::built_in());
        assert_eq!(changes[0].to, Sizes { read: 2, write: 4 });
        assert!(changes[0].reason.ends_with("8% more throughput expected under load"), "{}", changes[0].reason);
    }

    #[test]
    fn what_few_workloads_taught_gives_way_to_costs_that_are_much_lower() {
        // One of the workloads that are built in, whose best size was chance.
        for write_percent in [70, 80, 90] {
            let writes = tunable("a", Kind::Bulk, 1_000 * (100 - write_percent), 1_000 * write_percent);
            for sizes in [Sizes { read: 3, write: 3 }, Sizes { read: 2, write: 4 }] {
                let asked = Tunable { bytes: 10_000.0, sizes, ..writes.clone() };
                let changes = plan(&[asked], &Settings::default(), &Oracle::built_in());
                assert_eq!(changes[0].to, Sizes { read: 4, write: 2 }, "{write_percent}% writes");
            }
        }
    }
}
