//! How a member is replaced: another node takes its seat. Or a seat of its own, behind all others.
//!
//! The parent decides it, under the next epoch. Members of one epoch do not hear those of another, so whoever has left is heard by nobody
//! who knows that it has. Who takes the seat is to the others a member that has forgotten what it said, and is taken in again as one
//! (see [`super::readmission`]): what was chosen with the vote of whoever sat there before, another member has accepted, and
//! testifies to in the new epoch. Everything else goes on: ballots, slots, what is in flight.
//!
//! With a seat more, a quorum without the newcomer is one of before as well, and one with it has its word, to which all others have
//! testified.

use alloc::sync::Arc;

use super::Paxos;
use super::replica::{Duty, Life};
use crate::id::{Configuration, Instant};

impl Paxos {
    /// The next configuration of the group, which differs in who sits where, and perhaps has more seats. The replica is to be woken, and to be told to suspect who
    /// has left.
    ///
    /// Whoever coordinated and has left may hold a lease that this member is bound by. It is not any more once this is called: the
    /// host waits until no grant counts that was given to that node before.
    pub fn take_seats(&mut self, next: Arc<Configuration>, now: Instant) {
        let before = core::mem::replace(&mut self.configuration, next);
        assert!(self.configuration.contains(self.me), "{} is not in {:?}", self.me, self.configuration);
        let now_there = self.configuration.clone();
        // Only to who was to come beside all others, and now comes in a place of theirs: a member loses none.
        let is_copy = matches!(&self.life, Life::Working(active) if matches!(active.duty, Duty::Following(_)))
            || matches!(self.life, Life::Idle { coordinating: false, .. });
        assert!(is_copy || before.members.len() <= now_there.members.len(), "a seat is lost");
        self.silent &= !(u16::MAX << now_there.members.len());
        self.widen(now_there.members.len(), now);
        let seats = before.members.iter().zip(now_there.members.iter()).enumerate();
        for (position, (&leaving, _)) in seats.filter(|(_, (leaving, entering))| leaving != entering) {
            self.forget_said(position, leaving, now);
            self.silent &= !(1 << position);
        }
    }
    /// Of members that are new nothing is known.
    fn widen(&mut self, count: usize, now: Instant) {
        match &mut self.life {
            Life::Idle { known: Some(known), .. } => known.widen(count),
            Life::Idle { known: None, .. } => {}
            Life::Working(active) => match &mut active.duty {
                Duty::Following(_) => {}
                Duty::Preparing(candidacy) => candidacy.widen(count),
                Duty::Coordinating(coordination) => coordination.widen(count, now),
            },
        }
    }
}
