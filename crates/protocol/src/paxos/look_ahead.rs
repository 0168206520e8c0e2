//! Looks at a replica before it is stepped, by whoever is about to step many: nothing comes of it but that what a step needs is in
//! a cache then.

use super::Paxos;
use super::replica::{Duty, Life};
use crate::id::Value;

impl Paxos {
    /// Looks at what a step begins with.
    pub fn look(&self) -> u64 {
        let Life::Working(active) = &self.life else { return 0 };
        let duty = match &active.duty {
            Duty::Following(following) => u64::from(following.is_quiet()),
            Duty::Preparing(candidacy) => candidacy.retry_at.0,
            Duty::Coordinating(coordination) => coordination.look(),
        };
        active.wake_at.map_or(0, |at| at.0) ^ duty ^ active.ledger.bytes() as u64
    }

    /// What the next slot will hold, as far as known.
    pub fn next_value(&self) -> Option<&Value> {
        match &self.life {
            Life::Working(active) => Some(&active.ledger.find(self.next_slot)?.value),
            Life::Idle { .. } => None,
        }
    }
}
