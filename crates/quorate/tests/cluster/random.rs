//! Random choices that follow from a seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The seed that `QUORATE_SEED` asks for, or one of its own; told, so that it can be asked for.
    pub(crate) fn announced() -> Random {
        let seed = std::env::var("QUORATE_SEED").map_or_else(
            |_| quorate_server::directory::random_u64().expect("the system has random numbers"),
            |text| text.parse().expect("QUORATE_SEED is a number"),
        );
        println!("QUORATE_SEED={seed}");
        Random::new(seed)
    }

    /// Another source, whose numbers have nothing to do with this one's.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
