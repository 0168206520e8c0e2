//! What the members of a group say to each other. Group and epoch travel outside, in the frame.

use alloc::vec::Vec;

use crate::id::{Ballot, Slot, Value};
use crate::peers::GrantNumber;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Phase 1: `ballot.node` wants to coordinate and has executed every slot below `from`. `released` says that its node
    /// coordinates no more, and never will, at that ballot or a lower one: a promise of one of these binds nobody. It says
    /// nothing of other nodes' ballots, however low: `released` need not have been elected.
    Prepare {
        ballot: Ballot,
        from: Slot,
        released: Option<Ballot>,
    },
    /// The answerer accepts nothing below `ballot`. It has executed every slot below `next_slot`; `accepted` is all that it
    /// has accepted at or above both that and the candidate's `from`. `grant` is what binds it to the candidate's node.
    Promise {
        ballot: Ballot,
        next_slot: Slot,
        grant: GrantNumber,
        accepted: Vec<AcceptedValue>,
    },
    /// Not yet: the answerer's promise of `promised` binds it for `wait_us` more.
    Busy {
        ballot: Ballot,
        promised: Ballot,
        wait_us: u64,
    },
    /// `ballot` came too late: the answerer has promised `promised`, which is higher.
    Rejected {
        ballot: Ballot,
        promised: Ballot,
    },

    /// Phase 2. Every slot below `frontier` is decided; that decides here what was accepted *at this ballot*, no more.
    Accept {
        ballot: Ballot,
        slot: Slot,
        frontier: Slot,
        frontier_majority: Slot,
        value: Value,
    },
    /// The value of `slot` is on the answerer's disk, or was executed already.
    Accepted {
        ballot: Ballot,
        slot: Slot,
        next_slot: Slot,
        grant: GrantNumber,
    },
    /// What an `Accept` says of decided slots, when there is nothing to accept.
    Decide {
        ballot: Ballot,
        frontier: Slot,
        frontier_majority: Slot,
    },
    /// Answers `Decide`: everything below `next_slot` is executed here.
    Frontier {
        ballot: Ballot,
        next_slot: Slot,
    },

    /// What `Decide` says, to a member that is known to hold all that is decided: it executes that, and does not answer.
    Execute {
        ballot: Ballot,
        frontier: Slot,
    },

    /// Is `ballot` still the highest that you promised?
    Confirm {
        ballot: Ballot,
        round: u64,
    },
    Confirmed {
        ballot: Ballot,
        round: u64,
        next_slot: Slot,
        grant: GrantNumber,
    },

    /// The sender lacks decided slots, the first of them `from`.
    Fetch {
        from: Slot,
    },
    /// Decided values in slot order, from somebody who has executed every slot below `next_slot`.
    Learn {
        slots: Vec<(Slot, Value)>,
        next_slot: Slot,
    },

    /// The coordinator of `ballot` neither proposes nor reads any more: the receiver shall coordinate.
    HandOver {
        ballot: Ballot,
        next_slot: Slot,
    },
}

/// A value as an acceptor knows it: accepted at `ballot`, whether decided or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedValue {
    pub slot: Slot,
    pub ballot: Ballot,
    pub value: Value,
}
