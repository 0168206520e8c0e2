//! When each group wants to be woken.
//!
//! Most of what a group wants to be woken for is over by then: a value was decided before it would have been sent again. So
//! what a group wants is kept beside the queue, and a time that comes for nothing touches no group. Of a million groups that
//! are written in turn none would be in any cache.

use std::collections::BTreeMap;

use quorate_protocol::Instant;

/// Groups are woken so often, at most this much later than they want to be: all of one time lie side by side.
const TICK_US: u64 = 1 << 10;

/// By the groups' places.
#[derive(Debug, Default)]
pub struct Wakings {
    places: Vec<Waking>,
    queue: BTreeMap<Instant, Vec<u32>>,
}

#[derive(Clone, Copy, Debug)]
struct Waking {
    wanted_at: Instant,
    /// The earliest time in the queue: that of what is wanted, or before it.
    queued_at: Instant,
}

impl Waking {
    const NONE: Waking = Waking { wanted_at: Instant::MAX, queued_at: Instant::MAX };
}

impl Wakings {
    /// What the group at this place wanted before does not count any more.
    pub fn set(&mut self, place: u32, wanted_at: Option<Instant>) {
        if self.places.len() <= place as usize {
            self.places.resize(place as usize + 1, Waking::NONE);
        }
        let waking = &mut self.places[place as usize];
        waking.wanted_at = wanted_at.unwrap_or(Instant::MAX);
        let at = tick(waking.wanted_at);
        if at < waking.queued_at {
            waking.queued_at = at;
            self.queue.entry(at).or_default().push(place);
        }
    }

    /// When somebody may have to be woken.
    pub fn next_at(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|(at, _)| *at)
    }

    /// The places of groups that want to be woken by now.
    pub fn take_due(&mut self, now: Instant) -> Vec<u32> {
        let mut due = Vec::new();
        while let Some(earliest) = self.queue.first_entry().filter(|earliest| *earliest.key() <= now) {
            let (at, places) = earliest.remove_entry();
            for place in places {
                let waking = &mut self.places[place as usize];
                // Else an earlier time was queued later, and has come.
                if waking.queued_at != at {
                    continue;
                }
                waking.queued_at = Instant::MAX;
                if waking.wanted_at <= now {
                    waking.wanted_at = Instant::MAX;
                    due.push(place);
                } else {
                    let put_off = waking.wanted_at;
                    self.set(place, Some(put_off));
                }
            }
        }
        due
    }
}

/// The time at which somebody is woken who wants that at this one.
fn tick(at: Instant) -> Instant {
    Instant(at.0.checked_next_multiple_of(TICK_US).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time that is one of those at which somebody is woken.
    const T: u64 = TICK_US;

    #[test]
    fn the_last_word_counts() {
        let mut wakings = Wakings::default();
        wakings.set(7, Some(Instant(10 * T)));
        wakings.set(3, Some(Instant(20 * T - 5)));
        assert_eq!(wakings.take_due(Instant(10 * T - 1)), [0; 0]);
        wakings.set(7, Some(Instant(30 * T)));
        assert_eq!(wakings.take_due(Instant(20 * T - 1)), [0; 0], "7 wants to be woken later");
        assert_eq!(wakings.take_due(Instant(20 * T)), [3], "at most a tick late");
        wakings.set(7, Some(Instant(28 * T)));
        wakings.set(7, Some(Instant(30 * T)));
        assert_eq!(wakings.take_due(Instant(31 * T)), [7], "once");
        wakings.set(3, Some(Instant(40 * T)));
        wakings.set(3, None);
        assert_eq!(wakings.take_due(Instant(50 * T)), [0; 0], "or not at all");
        assert_eq!(wakings.next_at(), None);
    }

    #[test]
    fn wakings_that_are_put_off_do_not_pile_up() {
        let mut wakings = Wakings::default();
        for now in (0..50_000).map(|tick| tick * T) {
            wakings.take_due(Instant(now));
            // A write: sent again unless it is decided, then the others are told, then there is nothing more to do for long.
            wakings.set(1, Some(Instant(now + 200 * T)));
            wakings.set(1, Some(Instant(now + 10 * T)));
            wakings.set(1, Some(Instant(now + 10_000 * T)));
        }
        let queued: usize = wakings.queue.values().map(Vec::len).sum();
        // What was put off is there until its time comes, for as long as that is, and once for each of the first times.
        assert!(queued <= 10_000 / 10 + 20, "{queued}");
        assert_eq!(wakings.take_due(Instant(100_000 * T)), [1]);
        assert_eq!(wakings.next_at(), None);
    }
}
