//! The hybrid clock: wall time that never goes back and never falls behind what others have stamped.

use quorate_protocol::{Instant, Stamp};

/// Two readings of the node's clocks, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The lease clock.
    pub now: Instant,
    /// Wall time, which may jump.
    pub wall: Stamp,
}

/// A stamp this far ahead of our wall clock is a peer whose clock is off: it is not followed.
pub const STAMP_AHEAD_MAX_MS: u64 = 1000;

#[derive(Clone, Copy, Debug)]
pub struct HybridClock {
    moment: Moment,
    stamp: Stamp,
    /// When `stamp` was last raised by more than the passing of time.
    raised_at: Instant,
    raised_to: Stamp,
    /// How far a wall clock that is ahead may be followed now.
    slew_us: u64,
}

/// A wall clock that is ahead is followed by this part of the time that passes: one that jumps does not take group time
/// along, and is found out by the peers' stamps before it is followed far.
const SLEW_PART: u64 = 10;
const SLEW_US_MAX: u64 = 100_000;

impl HybridClock {
    pub fn new(moment: Moment) -> HybridClock {
        HybridClock { moment, stamp: moment.wall, raised_at: moment.now, raised_to: moment.wall, slew_us: 0 }
    }

    pub fn now(&self) -> Instant {
        self.moment.now
    }

    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub fn wall(&self) -> Stamp {
        self.moment.wall
    }

    pub fn advance(&mut self, moment: Moment) {
        let now = moment.now.max(self.moment.now);
        self.slew_us = (self.slew_us + (now.0 - self.moment.now.0) / SLEW_PART).min(SLEW_US_MAX);
        self.moment = Moment { now, wall: moment.wall };
        let elapsed_ms = (now.0 - self.raised_at.0) / 1000;
        self.stamp = self.stamp.max(Stamp(self.raised_to.0 + elapsed_ms));
        let ahead_ms = moment.wall.0.saturating_sub(self.stamp.0).min(self.slew_us / 1000);
        if ahead_ms > 0 {
            self.slew_us -= ahead_ms * 1000;
            self.raise(Stamp(self.stamp.0 + ahead_ms));
        }
    }

    /// Follows a stamp seen in a frame or in the log. False if it is too far ahead to be believed.
    pub fn observe(&mut self, stamp: Stamp) -> bool {
        if stamp.0 > self.stamp.0 + STAMP_AHEAD_MAX_MS {
            return false;
        }
        if stamp > self.stamp {
            self.raise(stamp);
        }
        true
    }

    /// The wall clock is right: leaves a time far ahead of it, which was that of a wrong one. Group time never goes back
    /// by it, since no slot takes a stamp below that of the slot before.
    pub fn settle(&mut self) {
        if self.stamp.0 > self.moment.wall.0 + STAMP_AHEAD_MAX_MS {
            self.raise(self.moment.wall);
        }
    }

    /// Follows a stamp that this node had stored: it was believed once, however far ahead it is.
    pub fn observe_restored(&mut self, stamp: Stamp) {
        if stamp > self.stamp {
            self.raise(stamp);
        }
    }

    fn raise(&mut self, stamp: Stamp) {
        self.stamp = stamp;
        self.raised_to = stamp;
        self.raised_at = self.moment.now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(now_ms: u64, wall_ms: u64) -> Moment {
        Moment { now: Instant(now_ms * 1000), wall: Stamp(wall_ms) }
    }

    #[test]
    fn a_wall_clock_set_back_does_not_turn_time_back() {
        let mut clock = HybridClock::new(moment(0, 5000));
        clock.advance(moment(10, 1000));
        assert_eq!(clock.stamp(), Stamp(5010));
    }

    #[test]
    fn a_wall_clock_that_jumps_ahead_is_followed_slowly() {
        let mut clock = HybridClock::new(moment(0, 5000));
        clock.advance(moment(100, 3_600_000));
        assert_eq!(clock.stamp(), Stamp(5110));
        clock.advance(moment(200, 3_600_100));
        assert_eq!(clock.stamp(), Stamp(5220));
    }

    #[test]
    fn a_stamp_seen_is_followed_and_time_goes_on_from_it() {
        let mut clock = HybridClock::new(moment(0, 5000));
        assert!(clock.observe(Stamp(5500)));
        clock.advance(moment(20, 5020));
        assert_eq!(clock.stamp(), Stamp(5520));
    }

    #[test]
    fn a_stamp_far_ahead_is_not_believed() {
        let mut clock = HybridClock::new(moment(0, 5000));
        assert!(!clock.observe(Stamp(7000)));
        assert_eq!(clock.stamp(), Stamp(5000));
    }
}
