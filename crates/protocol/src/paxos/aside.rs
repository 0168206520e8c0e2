//! A replica whose group lacks a quorum, made fit to leave memory with slots in flight (GigaPaxos, section 3.3.2).
//!
//! It is to its group as one whose node was started anew: it keeps what it has promised, accepted and executed, and coordinates
//! at none of the ballots that it had, since it forgets what it had proposed at them.

use core::mem;

use super::ledger::{Entry, Ledger};
use super::replica::{Duty, Life};
use super::{Paxos, Record};
use crate::effect::Effects;
use crate::id::Slot;

impl Paxos {
    /// Gives up whatever this replica does but for what it must keep. What it has in flight may still be decided, by others;
    /// what waits is refused. From now on it [is aside](Paxos::is_aside), until something comes for it.
    pub fn set_aside(&mut self, out: &mut Effects<Paxos>) {
        match mem::replace(&mut self.life, Life::FOLLOWING) {
            idle @ Life::Idle { .. } => self.life = idle,
            Life::Working(mut active) => {
                out.list.append(&mut active.overtaken);
                self.resign(&mut active, None, out);
                if !active.ledger.is_empty() {
                    self.life = Life::Working(active);
                }
            }
        }
    }

    /// Whether its [position](Paxos::position) and what it has [accepted](Paxos::accepted) are all that must be kept of it.
    /// A replica that takes both back goes on with [`Paxos::restored`].
    pub fn is_aside(&self) -> bool {
        match &self.life {
            Life::Idle { .. } => true,
            Life::Working(active) => matches!(active.duty, Duty::Following(_)) && active.overtaken.is_empty(),
        }
    }

    /// What is accepted, or known as decided, and not executed: records that stand for all that it was recorded by.
    pub fn accepted(&self) -> impl Iterator<Item = Record> + '_ {
        let frontier = self.next_slot;
        let record = move |(slot, entry): (Slot, &Entry)| {
            let (ballot, value) = (entry.ballot, entry.value.clone());
            match entry.decided {
                true => Record::Decided { slot, value },
                false => Record::Accepted { ballot, slot, value, frontier },
            }
        };
        self.ledger().into_iter().flat_map(move |ledger| ledger.from(frontier)).map(record)
    }

    /// What the values of [`Paxos::accepted`] weigh, and over how many slots they lie.
    pub fn accepted_extent(&self) -> (usize, u64) {
        let Some(ledger) = self.ledger() else { return (0, 0) };
        let last = ledger.from(self.next_slot).last();
        (ledger.bytes(), last.map_or(0, |(slot, _)| slot.0 + 1 - self.next_slot.0))
    }

    fn ledger(&self) -> Option<&Ledger> {
        match &self.life {
            Life::Idle { .. } => None,
            Life::Working(active) => Some(&active.ledger),
        }
    }
}
