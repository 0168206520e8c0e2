//! Whether this node's wall clock can be trusted.

use super::Host;
use crate::planted::{self, Planted};

impl Host {
    /// Whether this node's wall clock is not known to be within a second of most: then it neither coordinates nor takes
    /// commands. What it still stamps is right, if it ever was: time goes on by the lease clock.
    pub fn is_clock_off(&self) -> bool {
        self.clock_off
    }

    /// Whether it is known to be off, rather than not known to be right.
    pub fn is_clock_known_off(&self) -> bool {
        self.clock_off && self.walls.is_mine_known_off()
    }

    pub(super) fn judge_clock(&mut self) {
        self.clock_off = !self.walls.is_mine_trusted() && !planted::is(Planted::EveryClockTrusted);
        if !self.clock_off {
            self.clock.follow_wall();
        }
    }
}
