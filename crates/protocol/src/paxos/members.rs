//! What a coordinator knows of the members.

use alloc::boxed::Box;
use alloc::vec;

use crate::id::{Configuration, NodeId, Slot};
use crate::peers::GrantNumber;

/// What the members have said at the present ballot, by position.
pub(super) struct Members {
    pub(super) list: Box<[Member]>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Member {
    /// Below are executed slots. Unknown until the member answers.
    pub(super) frontier: Option<Slot>,
    /// Below are slots that are on the member's disk, or executed.
    pub(super) holds_below: Slot,
    /// Below are slots of which it was told, while it held them, that they are decided. Should it not have heard, it asks,
    /// at the latest when the group is used again.
    pub(super) told_below: Slot,
    /// Of the newest answer.
    grant: GrantNumber,
}

impl Members {
    pub(super) fn new(count: usize) -> Members {
        Members { list: vec![Member::default(); count].into_boxed_slice() }
    }

    /// Answers overtake each other, so the largest counts: frontiers and grant numbers only grow.
    pub(super) fn note(&mut self, position: usize, next_slot: Slot, grant: GrantNumber) {
        let member = &mut self.list[position];
        member.frontier = member.frontier.max(Some(next_slot));
        member.holds_below = member.holds_below.max(next_slot);
        member.grant = member.grant.max(grant);
    }

    pub(super) fn note_vote(&mut self, position: usize, slot: Slot, next_slot: Slot, grant: GrantNumber) {
        self.note(position, next_slot, grant);
        let member = &mut self.list[position];
        if member.holds_below == slot {
            member.holds_below = slot.next();
        }
    }

    /// What this member has said counts no more.
    pub(super) fn forget(&mut self, position: usize) {
        self.list[position] = Member::default();
    }

    /// There are so many now, the new ones behind the others.
    pub(super) fn widen(&mut self, count: usize) {
        let mut list = core::mem::take(&mut self.list).into_vec();
        list.resize(count, Member::default());
        self.list = list.into_boxed_slice();
    }

    pub(super) fn grant(&self, position: usize) -> GrantNumber {
        self.list[position].grant
    }

    /// The highest slot below which a write quorum has executed everything, where this member has come to `mine`, and that is
    /// `known` of an earlier one.
    pub(super) fn executed_by_quorum(&self, configuration: &Configuration, mine: (NodeId, Slot), known: Slot) -> Slot {
        let (me, next_slot) = mine;
        let frontiers = || {
            let members = configuration.members.iter().zip(&self.list);
            members.map(|(&node, member)| if node == me { next_slot } else { member.frontier.unwrap_or_default() })
        };
        let is_reached = |slot: Slot| {
            let has_reached = |set, (position, frontier)| set | u64::from(frontier >= slot) << position;
            let set = frontiers().enumerate().fold(0, has_reached);
            configuration.quorum.is_write_quorum(self.list.len(), set)
        };
        frontiers().fold(known, |highest, slot| if slot > highest && is_reached(slot) { slot } else { highest })
    }
}
