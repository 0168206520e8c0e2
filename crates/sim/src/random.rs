//! The one source of chance in a run: a small seeded generator (xoshiro256**, Blackman and Vigna 2018).
//!
//! The same seed gives the same sequence on every platform and in every release of the toolchain: there is no floating
//! point here, whose last digit may differ, and no system randomness.

use std::ops::Range;

/// A generator of pseudo-random numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        let state = [split_mix(&mut mixer), split_mix(&mut mixer), split_mix(&mut mixer), split_mix(&mut mixer)];
        Self { state }
    }

    /// A generator of its own for one part of the world, so that a part that draws more often does not shift what the
    /// others draw.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let drawn = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        drawn
    }

    /// A number below `limit`, which must not be 0. The bias of the multiplication is below 2^-32 for any limit in use.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// A number of a range that is not empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "an empty range {range:?} holds no number");
        range.start + self.below(range.end - range.start)
    }

    /// True in `per_mille` of a thousand draws.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of the items, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Fisher-Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }

    /// A waiting time with the given mean and a long tail: half of them below two thirds of the mean, one in a
    /// thousand above six times the mean, none above 44 times.
    ///
    /// This is the exponential distribution with straight lines between its powers of two, in whole numbers.
    pub fn delay(&mut self, mean: u64) -> u64 {
        let halvings = u128::from(self.next_u64().leading_zeros());
        let fraction = u128::from(self.next_u64() >> 32);
        // A halving is two thirds of the mean long, because the mean of `halvings + fraction` is one and a half.
        let halvings_q32 = (halvings << 32) + fraction;
        ((halvings_q32 * u128::from(mean) * 2 / 3) >> 32) as u64
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_generator() {
        // The first numbers of xoshiro256** from the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(drawn, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn seeds_differ_and_repeat() {
        let draw = |seed| Random::new(seed).next_u64();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (9_500..10_500).contains(&count)), "{seen:?}");
    }

    #[test]
    fn chance_is_per_mille() {
        let mut random = Random::new(2);
        let hits = (0..100_000).filter(|_| random.chance(30)).count();
        assert!((2_700..3_300).contains(&hits), "{hits}");
        assert!(!random.chance(0));
        assert!(random.chance(1000));
    }

    #[test]
    fn delays_have_their_mean_and_a_tail() {
        let mut random = Random::new(3);
        let delays: Vec<u64> = (0..100_000).map(|_| random.delay(1_000)).collect();
        let mean = delays.iter().sum::<u64>() / 100_000;
        assert!((980..1_020).contains(&mean), "{mean}");
        let late = delays.iter().filter(|&&delay| delay > 6_000).count();
        assert!((100..400).contains(&late), "{late}");
    }

    #[test]
    fn shuffle_keeps_the_items_and_moves_them() {
        let mut random = Random::new(4);
        let mut items: Vec<u32> = (0..100).collect();
        random.shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
