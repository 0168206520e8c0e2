//! The hybrid clock: wall time that never goes back and never falls behind what trusted nodes have stamped; and whom to
//! trust.
//!
//! A wall clock is trusted if most clocks of the cluster agree with it. Wall clocks are compared through the lease clock,
//! which does not jump: a node knows how far each other's wall clock was from its own lease clock when the two last
//! spoke, so that it notices at once, and without asking anybody, when its own has been set.

use hashbrown::HashMap;
use quorate_protocol::{Instant, NodeId, Stamp};

use crate::hash::FixedState;

/// Two readings of the node's clocks, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The lease clock.
    pub now: Instant,
    /// Wall time, which may jump.
    pub wall: Stamp,
}

/// Wall clocks that are no further apart agree.
pub const WALLS_APART_MAX_MS: u64 = 1000;

/// A question that took longer to be answered says too little about the other's wall clock.
const ROUND_TRIP_US_MAX: u64 = 500_000;

/// What is known of another's wall clock counts for as long as so many heartbeats: it may have been set since. Machines so busy
/// that answers take longer than they may for some seconds have no wrong clocks for that.
const KNOWN_HEARTBEATS: u64 = 50;

#[derive(Clone, Copy, Debug)]
pub struct HybridClock {
    moment: Moment,
    stamp: Stamp,
    /// When `stamp` was last raised by more than the passing of time.
    raised_at: Instant,
    raised_to: Stamp,
}

impl HybridClock {
    /// A clock that knows nothing of the time of day yet.
    pub fn new(moment: Moment) -> HybridClock {
        HybridClock { moment, stamp: Stamp(0), raised_at: moment.now, raised_to: Stamp(0) }
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

    /// Time passes. Where the wall clock stands matters only to [`HybridClock::follow_wall`].
    pub fn advance(&mut self, moment: Moment) {
        let now = moment.now.max(self.moment.now);
        self.moment = Moment { now, wall: moment.wall };
        let elapsed_ms = (now.0 - self.raised_at.0) / 1000;
        self.stamp = self.stamp.max(Stamp(self.raised_to.0 + elapsed_ms));
    }

    /// The wall clock is trusted.
    pub fn follow_wall(&mut self) {
        self.follow(self.moment.wall);
    }

    /// Follows a stamp of a trusted node, or one found in the log.
    pub fn follow(&mut self, stamp: Stamp) {
        if stamp > self.stamp {
            self.stamp = stamp;
            self.raised_to = stamp;
            self.raised_at = self.moment.now;
        }
    }
}

/// What this node knows of the wall clocks of all.
#[derive(Clone, Debug)]
pub struct WallClocks {
    /// Other nodes that count whether anything is known of them or not. Of all that count more than half must agree.
    counted: Vec<NodeId>,
    known_us: u64,
    now: Instant,
    mine_ms: i64,
    others: HashMap<NodeId, Known, FixedState>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    origin_ms: i64,
    asked_at: Instant,
}

/// What the wall clock shows when the lease clock shows 0.
fn origin_ms(wall: Stamp, now: Instant) -> i64 {
    wall.0 as i64 - (now.0 / 1000) as i64
}

impl WallClocks {
    pub fn new(counted: Vec<NodeId>, heartbeat_us: u64, moment: Moment) -> WallClocks {
        let mine_ms = origin_ms(moment.wall, moment.now);
        WallClocks {
            counted,
            known_us: KNOWN_HEARTBEATS * heartbeat_us,
            now: moment.now,
            mine_ms,
            others: HashMap::default(),
        }
    }

    /// These count from now on, and of all others those of which something is known. Of nodes that are not there any more nothing is.
    pub fn count(&mut self, counted: Vec<NodeId>, is_there: impl Fn(NodeId) -> bool) {
        self.counted = counted;
        self.others.retain(|node, _| is_there(*node));
    }

    /// How many nodes count, this one included.
    fn node_count(&self) -> usize {
        let is_more = |(node, known): &(&NodeId, &Known)| self.is_fresh(known) && !self.counted.contains(node);
        1 + self.counted.len() + self.others.iter().filter(is_more).count()
    }

    /// What this node's own clocks show now.
    pub fn read(&mut self, moment: Moment) {
        self.now = moment.now;
        self.mine_ms = origin_ms(moment.wall, moment.now);
    }

    /// Another node answered, showing its wall clock, what it was asked at `asked_at`. Its clock was read somewhere
    /// between then and now.
    pub fn hear(&mut self, node: NodeId, wall: Stamp, asked_at: Instant) {
        let round_trip_us = self.now.0.saturating_sub(asked_at.0);
        if round_trip_us <= ROUND_TRIP_US_MAX {
            let origin_ms = origin_ms(wall, Instant(asked_at.0 + round_trip_us / 2));
            self.others.insert(node, Known { origin_ms, asked_at });
        }
    }

    /// Whether this node's wall clock agrees with those of most nodes, itself counted.
    pub fn is_mine_trusted(&self) -> bool {
        let agreeing = 1 + self.others.values().filter(|known| self.agrees(known)).count();
        agreeing * 2 > self.node_count()
    }

    /// Whether this node's wall clock is known to disagree with so many that no majority can agree. Otherwise, where it is not
    /// trusted, too few could be asked lately.
    pub fn is_mine_known_off(&self) -> bool {
        let apart = self.others.values().filter(|known| self.is_fresh(known) && !self.agrees(known)).count();
        apart * 2 >= self.node_count()
    }

    /// Whether another node's wall clock is known to agree with this one's.
    pub fn agrees_with(&self, node: NodeId) -> bool {
        self.others.get(&node).is_some_and(|known| self.agrees(known))
    }

    fn agrees(&self, known: &Known) -> bool {
        self.is_fresh(known) && known.origin_ms.abs_diff(self.mine_ms) <= WALLS_APART_MAX_MS
    }

    fn is_fresh(&self, known: &Known) -> bool {
        self.now <= known.asked_at.after_us(self.known_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(now_ms: u64, wall_ms: u64) -> Moment {
        Moment { now: Instant(now_ms * 1000), wall: Stamp(wall_ms) }
    }

    fn trusted(moment: Moment) -> HybridClock {
        let mut clock = HybridClock::new(moment);
        clock.follow_wall();
        clock
    }

    #[test]
    fn a_wall_clock_set_back_does_not_turn_time_back() {
        let mut clock = trusted(moment(0, 5000));
        clock.advance(moment(10, 1000));
        clock.follow_wall();
        assert_eq!(clock.stamp(), Stamp(5010));
    }

    #[test]
    fn a_wall_clock_that_is_not_trusted_is_not_followed() {
        let mut clock = trusted(moment(0, 5000));
        clock.advance(moment(100, 3_600_000));
        assert_eq!(clock.stamp(), Stamp(5100));
    }

    #[test]
    fn a_stamp_is_followed_and_time_goes_on_from_it() {
        let mut clock = trusted(moment(0, 5000));
        clock.follow(Stamp(5500));
        clock.advance(moment(20, 5020));
        assert_eq!(clock.stamp(), Stamp(5520));
    }

    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    /// Of three nodes; B and C have answered at once that their walls show `b_ms` and `c_ms` when ours shows 5000.
    fn walls(b_ms: u64, c_ms: u64) -> WallClocks {
        let mut walls = WallClocks::new(vec![B, C], 100_000, moment(100, 5000));
        walls.hear(B, Stamp(b_ms), Instant(100_000));
        walls.hear(C, Stamp(c_ms), Instant(100_000));
        walls
    }

    #[test]
    fn a_wall_clock_is_trusted_with_that_of_one_of_two_others() {
        assert!(!WallClocks::new(vec![B, C], 100_000, moment(100, 5000)).is_mine_trusted(), "nobody was heard");
        assert!(WallClocks::new(vec![], 100_000, moment(100, 5000)).is_mine_trusted(), "there is nobody else");
        let apart = walls(6000, 6001);
        assert!(apart.is_mine_trusted() && apart.agrees_with(B) && !apart.agrees_with(C));
        assert!(!walls(6001, 3999).is_mine_trusted());
    }

    #[test]
    fn a_wall_clock_is_off_once_no_majority_can_agree_with_it() {
        assert!(walls(6001, 3999).is_mine_known_off());
        assert!(!walls(6001, 5000).is_mine_known_off(), "C's agrees");
        let mut walls = WallClocks::new(vec![B, C], 100_000, moment(100, 5000));
        assert!(!walls.is_mine_trusted() && !walls.is_mine_known_off(), "nobody was heard");
        walls.hear(B, Stamp(9000), Instant(100_000));
        assert!(!walls.is_mine_trusted() && !walls.is_mine_known_off(), "C's may agree");
        let mut walls = WallClocks::new(vec![B], 100_000, moment(100, 5000));
        walls.hear(B, Stamp(9000), Instant(100_000));
        assert!(walls.is_mine_known_off(), "there is nobody else");
    }

    #[test]
    fn who_was_never_heard_counts_only_with_a_part_in_something_and_who_is_heard_counts() {
        let mut walls = WallClocks::new(vec![], 100_000, moment(100, 5000));
        assert!(walls.is_mine_trusted());
        walls.hear(B, Stamp(9000), Instant(100_000));
        assert!(!walls.is_mine_trusted() && walls.is_mine_known_off(), "one of two is no majority");
        walls.hear(B, Stamp(5000), Instant(100_000));
        walls.count(vec![C], |_| true);
        assert!(walls.is_mine_trusted(), "two of three");
        walls.count(vec![C], |node| node != B);
        assert!(!walls.is_mine_trusted() && !walls.agrees_with(B), "B is gone");
    }

    #[test]
    fn ones_own_jump_is_noticed_without_a_word_from_others() {
        let mut walls = walls(5000, 5000);
        walls.read(moment(2_100, 7_000));
        assert!(walls.is_mine_trusted(), "2 s passed by both clocks");
        walls.read(moment(2_100, 8_001));
        assert!(!walls.is_mine_trusted());
    }

    #[test]
    fn what_was_known_long_ago_counts_no_more() {
        let mut walls = walls(5000, 5000);
        walls.read(moment(5_101, 10_001));
        assert!(!walls.is_mine_trusted() && !walls.agrees_with(B));
        assert!(!walls.is_mine_known_off(), "it may be right");
    }

    #[test]
    fn the_middle_of_the_round_trip_counts_and_a_long_one_does_not() {
        let mut walls = walls(5000, 5000);
        // Asked at 100 ms, answered at 500: read at 300 ms or so, when ours showed 5200.
        walls.read(moment(500, 5400));
        walls.hear(B, Stamp(6200), Instant(100_000));
        assert!(walls.agrees_with(B));
        walls.read(moment(601, 5501));
        walls.hear(B, Stamp(9999), Instant(100_000));
        assert!(walls.agrees_with(B), "an answer after more than half a second changes nothing");
    }
}
