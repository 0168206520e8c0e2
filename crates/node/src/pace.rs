//! How long operations on registers take at present, and so after what wait a phase asks more members.

use quorate_protocol::Instant;
use quorate_protocol::register::Pace;

/// Before anything is known.
pub(crate) const PACE: Pace = Pace { widen_us: 2_000, retry_us: 200_000 };

/// A phase waits no less than this for those that it asks first, and no longer.
const WIDEN_US_MIN: u64 = 1_000;
const WIDEN_US_MAX: u64 = 50_000;
/// Fewer say nothing of the slowest of a hundred.
const SAMPLES_MIN: u32 = 100;

/// Counts by the logarithm of their microseconds, to a quarter; old ones fade.
#[derive(Clone, Debug)]
pub(crate) struct RoundTrips {
    counts: [u32; 128],
    pace: Pace,
}

impl Default for RoundTrips {
    fn default() -> Self {
        RoundTrips { counts: [0; 128], pace: PACE }
    }
}

impl RoundTrips {
    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    pub(crate) fn note(&mut self, asked_at: Instant, now: Instant) {
        let took_us = now.0.saturating_sub(asked_at.0).max(1);
        let power = took_us.ilog2();
        // Of four steps to the next power of two.
        let step = (took_us << 2 >> power) & 3;
        let at = (power as usize * 4 + step as usize).min(self.counts.len() - 1);
        self.counts[at] = self.counts[at].saturating_add(1);
    }

    /// Each heartbeat: the pace follows, and what was counted counts half from now on.
    pub(crate) fn fade(&mut self) {
        let total: u32 = self.counts.iter().sum();
        if total < SAMPLES_MIN {
            return;
        }
        let slow = total / 100;
        let mut above = 0;
        let found = self.counts.iter().enumerate().rev().find(|(_, count)| {
            above += **count;
            above > slow
        });
        // The upper end of its step.
        let p99_us = found.map_or(0, |(at, _)| (5 + at as u64 % 4) << (at / 4) >> 2);
        self.pace.widen_us = (2 * p99_us).clamp(WIDEN_US_MIN, WIDEN_US_MAX);
        self.counts.iter_mut().for_each(|count| *count /= 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace_of(each_us: &[u64]) -> u64 {
        let mut round_trips = RoundTrips::default();
        each_us.iter().for_each(|&us| round_trips.note(Instant(7), Instant(7 + us)));
        round_trips.fade();
        round_trips.pace().widen_us
    }

    #[test]
    fn a_phase_waits_twice_the_slowest_of_a_hundred() {
        assert_eq!(pace_of(&[300; 1_000]), WIDEN_US_MIN);
        assert_eq!(pace_of(&[9_000; 99]), PACE.widen_us, "too few to tell");
        let widen_us = pace_of(&[9_000; 1_000]);
        assert!((18_000..=22_500).contains(&widen_us), "{widen_us}");
        assert_eq!(pace_of(&[10_000_000; 1_000]), WIDEN_US_MAX);
        let mut mixed = vec![300; 995];
        mixed.extend([30_000; 5]);
        assert_eq!(pace_of(&mixed), WIDEN_US_MIN, "half a percent is slow");
    }

    #[test]
    fn what_was_slow_long_ago_is_forgotten() {
        let mut round_trips = RoundTrips::default();
        (0..1_000).for_each(|_| round_trips.note(Instant(0), Instant(20_000)));
        for _ in 0..20 {
            (0..1_000).for_each(|_| round_trips.note(Instant(0), Instant(200)));
            round_trips.fade();
        }
        assert_eq!(round_trips.pace().widen_us, WIDEN_US_MIN);
    }
}
