//! How long things took, counted in classes.

/// The upper bounds of the classes in microseconds; beyond the last there is one more class.
pub const BOUNDS_US: [u32; 17] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Counts of durations since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By class: up to its bound, and beyond that of the class before.
    pub counts: [u64; BOUNDS_US.len() + 1],
    pub sum_us: u64,
}

impl Histogram {
    pub fn add(&mut self, duration_us: u64) {
        let class = BOUNDS_US.partition_point(|&bound| u64::from(bound) < duration_us);
        self.counts[class] += 1;
        self.sum_us += duration_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_the_class_that_it_closes() {
        let mut histogram = Histogram::default();
        for duration_us in [0, 50, 51, 10_000_000, 10_000_001] {
            histogram.add(duration_us);
        }
        assert_eq!(histogram.counts[..3], [2, 1, 0]);
        assert_eq!(histogram.counts[BOUNDS_US.len() - 1..], [1, 1]);
        assert_eq!(histogram.sum_us, 20_000_102);
    }
}
