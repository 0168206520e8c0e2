//! How a member is replaced: another node takes its seat.
//!
//! The parent decides it, under the next epoch. Members of one epoch do not hear those of another, so whoever has left is heard by nobody
//! who knows that it has. Who takes the seat is to the others a member that has forgotten what it said, and is taken in again as one
//! (see [`super::readmission`]): what was chosen with the vote of whoever sat there before, another member has accepted, and
//! testifies to in the new epoch. Everything else goes on: ballots, slots, what is in flight.

use alloc::sync::Arc;

use super::Paxos;
use crate::id::{Configuration, Instant};

impl Paxos {
    /// The next configuration of the group, which differs in who sits where. The replica is to be woken, and to be told to suspect who
    /// has left.
    ///
    /// Whoever coordinated and has left may hold a lease that this member is bound by. It is not any more once this is called: the
    /// host waits until no grant counts that was given to that node before.
    pub fn take_seats(&mut self, next: Arc<Configuration>, now: Instant) {
        let before = core::mem::replace(&mut self.configuration, next);
        assert!(self.configuration.contains(self.me), "{} is not in {:?}", self.me, self.configuration);
        assert_eq!(before.members.len(), self.configuration.members.len(), "a seat for a seat");
        let now_there = self.configuration.clone();
        let seats = before.members.iter().zip(now_there.members.iter()).enumerate();
        for (position, (&leaving, _)) in seats.filter(|(_, (leaving, entering))| leaving != entering) {
            self.forget_said(position, leaving, now);
            self.silent &= !(1 << position);
        }
    }
}
