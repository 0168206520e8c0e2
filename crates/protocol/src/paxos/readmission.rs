//! How a member that has forgotten what it said is taken in again.
//!
//! Its votes and promises may still count. So it stays silent until every other member has *testified*: to the highest ballot that
//! it has promised, to how far it has executed, and to all that it has accepted beyond. Whoever testifies has heard of the
//! member's new start, takes nothing more that an earlier one said, and forgets a promise of it that has elected nobody yet. A
//! quorum that a forgotten vote was part of has another member, who testifies to the same value; and whoever was elected by a
//! forgotten promise testifies to its ballot. A member that takes over the highest ballot and the newest values knows as much as it
//! ever did, once it has executed what all others had (compare the recovery of Viewstamped Replication, Liskov and Cowling 2012,
//! section 4.3, where a quorum testifies; and Michael et al. 2017 on what may go wrong with that).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::replica::{Duty, Life};
use super::{AcceptedValue, Paxos, Record};
use crate::effect::Replica;
use crate::id::{Ballot, Instant, NodeId, Slot, Value};
use crate::planted::{self, Planted};

/// What a member knows of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Testimony {
    pub promised: Ballot,
    /// It has executed every slot below.
    pub next_slot: Slot,
    /// All that it has accepted from there on.
    pub accepted: Vec<AcceptedValue>,
}

impl Paxos {
    /// Testifies to a member that has forgotten what it said, whose earlier words count no more here. Others may rely on this: it
    /// leaves once what it says is durable. The replica is to be woken.
    pub fn testify(&mut self, to: NodeId, now: Instant) -> Testimony {
        if let Some(position) = self.configuration.position(to) {
            self.forget_said(position, to, now);
        }
        let ledger = match &self.life {
            Life::Working(active) => Some(&active.ledger),
            Life::Idle { .. } => None,
        };
        let entries = ledger.into_iter().flat_map(|ledger| ledger.from(self.next_slot));
        let accepted =
            entries.map(|(slot, entry)| AcceptedValue { slot, ballot: entry.ballot, value: entry.value.clone() });
        Testimony { promised: self.promised, next_slot: self.next_slot, accepted: accepted.collect() }
    }

    /// What the member at this position has said counts no more.
    pub(super) fn forget_said(&mut self, position: usize, member: NodeId, now: Instant) {
        match &mut self.life {
            Life::Idle { known: Some(known), .. } => known.forget(position),
            Life::Idle { known: None, .. } => {}
            Life::Working(active) => match &mut active.duty {
                Duty::Following(_) => {}
                Duty::Preparing(candidacy) => candidacy.forget_promise(position, member, now),
                Duty::Coordinating(coordination) => coordination.forget(position, now),
            },
        }
    }

    /// Whether every quorum that this member may have been part of has another one.
    pub fn may_be_readmitted(&self) -> bool {
        let alone = self.bit(self.me);
        !self.is_write_quorum(alone) && !self.is_read_quorum(alone)
    }

    /// All other members have testified, and this one has executed what each of them had: it votes from here on.
    pub fn readmit(&mut self, testimonies: impl IntoIterator<Item = Testimony>) {
        let mut newest: BTreeMap<Slot, (Ballot, Value)> = BTreeMap::new();
        for testimony in testimonies {
            if !planted::is(Planted::ReadmittedWithoutPromises) {
                self.promised = self.promised.max(testimony.promised);
            }
            for AcceptedValue { slot, ballot, value } in testimony.accepted {
                if planted::is(Planted::ReadmittedWithoutValues) {
                    continue;
                }
                if newest.get(&slot).is_none_or(|(known, _)| *known < ballot) {
                    newest.insert(slot, (ballot, value));
                }
            }
        }
        for (slot, (ballot, value)) in newest.split_off(&self.next_slot) {
            self.restore(Record::Accepted { ballot, slot, value, frontier: Slot(0) });
        }
    }
}
