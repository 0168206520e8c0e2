//! Which object a client asks for.

use quorate_protocol::router::Kgroup;

use super::{KGROUPS, Keys, OBJECTS};
use crate::random::Random;

const EXPONENT: f64 = 0.99;
const SCALE: u64 = 1 << 40;

pub(super) struct Choice {
    /// Of each rank, in parts of `SCALE`, with all ranks before it; empty if all objects are alike.
    cumulated: Vec<u64>,
}

impl Choice {
    pub(super) fn new(keys: Keys) -> Choice {
        if keys == Keys::Uniform {
            return Choice { cumulated: Vec::new() };
        }
        let weights: Vec<f64> = (1..=OBJECTS).map(|rank| (rank as f64).powf(-EXPONENT)).collect();
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let cumulate = |weight: &f64| {
            sum += weight;
            (sum / total * SCALE as f64) as u64
        };
        Choice { cumulated: weights.iter().map(cumulate).collect() }
    }

    pub(super) fn object(&self, random: &mut Random) -> usize {
        if self.cumulated.is_empty() {
            return random.below(OBJECTS as u64) as usize;
        }
        let dice = random.below(SCALE);
        self.cumulated.partition_point(|&until| until <= dice).min(OBJECTS - 1)
    }
}

/// Spreads objects over kgroups as a hash does, so that popular ones do not lie together.
pub(super) fn kgroup_of(object: usize) -> Kgroup {
    let mixed = (object as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Kgroup::of_hash_slot((mixed >> 40) as u16 % KGROUPS as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_popular_object_is_asked_for_as_often_as_the_law_says() {
        let (choice, mut random) = (Choice::new(Keys::Zipf), Random::new(1));
        let objects: Vec<usize> = (0..100_000).map(|_| choice.object(&mut random)).collect();
        let percent = |rank: usize| objects.iter().filter(|&&object| object == rank).count() as f64 / 1000.0;
        // 1 / (the sum of 1 / rank^0.99 up to 100,000) is 7.9 %.
        assert!((percent(0) - 7.9).abs() < 0.4, "{}", percent(0));
        assert!((percent(1) - 4.0).abs() < 0.4, "{}", percent(1));
    }

    #[test]
    fn objects_are_spread_over_all_kgroups() {
        let mut counts = vec![0; KGROUPS];
        (0..OBJECTS).for_each(|object| counts[usize::from(kgroup_of(object).hash_slot())] += 1);
        let used = counts.iter().filter(|&&count| count > 0).count();
        assert!(used > KGROUPS * 99 / 100, "{used}");
        assert!(counts.iter().all(|&count| count < 30));
    }
}
