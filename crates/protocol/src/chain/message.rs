//! What the nodes of a chain say to each other. The group travels outside, in the frame.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Membership;
use crate::id::{Epoch, Slot, Value};

/// Acted on at this epoch only. A receiver that is ahead answers with what is newer; one that is behind asks for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub epoch: Epoch,
    pub body: Body,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.epoch, self.body)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Down: the next update, which is on the disks of all members up to the sender. Every slot below `frontier` is decided.
    Forward {
        slot: Slot,
        frontier: Slot,
        value: Value,
    },
    /// Down: what the receiver has said that it lacks, or a part of it; maybe nothing, which says that the sender is at
    /// this epoch. Also what a host makes of a log for a joining node.
    Suffix {
        slots: Vec<(Slot, Value)>,
        frontier: Slot,
    },
    /// Up: every slot below `frontier` is decided.
    Acknowledge {
        frontier: Slot,
    },
    /// Up: the sender has every slot below `next_slot` on its disk, and wants what comes after.
    Connect {
        membership: Arc<Membership>,
        next_slot: Slot,
    },
    /// From the joining node to the tail: every slot below `next_slot` is on its disk.
    Held {
        next_slot: Slot,
    },

    /// The newest configuration that the sender knows. At the receiver's own epoch: connect again.
    Newest {
        membership: Arc<Membership>,
    },
    /// The sender has heard of the receiver's epoch and does not know its configuration.
    Behind,

    /// From a member to the tail: how far is everything decided? `confirmed`: do not go by the lease.
    Query {
        round: u64,
        confirmed: bool,
    },
    /// Every slot below `frontier` was decided when this was said, and nothing above had been answered before it was asked.
    Committed {
        round: u64,
        frontier: Slot,
    },
    /// From the tail to everybody else: is this still your epoch?
    Confirm {
        round: u64,
    },
    Confirmed {
        round: u64,
    },

    /// From a replica to itself: every slot below `next_slot`, and `joined` if it is said, is on the own disk.
    Kept {
        next_slot: Slot,
        joined: bool,
    },
}

/// What a host asks of a replica beside proposals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The parent's word. One of an epoch that is not newer changes nothing.
    Reconfigure { membership: Arc<Membership> },
}
