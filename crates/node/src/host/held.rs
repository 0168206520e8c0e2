//! Answers of own groups whose object is gone.
//!
//! The volume lists the name until the group has ended and the volume has taken back what is left. Whoever is told that the
//! object is deleted is told once that is so, and does not find it in a listing any more.

use quorate_object::Outcome;
use quorate_protocol::{GroupId, Instant};

use super::Host;
use crate::envelope::Ticket;
use crate::frame::Position;

/// An answer that has waited for so long is given when the host next looks, still before its operation is sent again: if the volume
/// is slow, or has lost its quorum, it is the listing that is late.
const HELD_MAX_US: u64 = 500_000;

pub(super) struct HeldAnswer {
    pub ticket: Ticket,
    pub position: Position,
    pub outcome: Outcome,
    pub since: Instant,
}

impl Host {
    pub(super) fn hold_answer(&mut self, group: GroupId, answer: HeldAnswer) {
        self.held_answers.entry(group).or_default().push(answer);
    }

    /// Whether it was carried out here, and its answer waits. What is asked again meanwhile must not be carried out again, nor be
    /// refused because the group ends.
    pub(super) fn holds_answer(&self, group: GroupId, ticket: Ticket) -> bool {
        let held = self.held_answers.get(&group);
        held.is_some_and(|answers| answers.iter().any(|answer| answer.ticket == ticket))
    }

    /// The group has ended, or it has an object again.
    pub(super) fn release_answers(&mut self, group: GroupId) {
        if self.held_answers.is_empty() {
            return;
        }
        for HeldAnswer { ticket, position, outcome, .. } in self.held_answers.remove(&group).unwrap_or_default() {
            self.answer_ticket(ticket, position, outcome);
        }
    }

    pub(super) fn release_old_answers(&mut self) {
        let now = self.clock.now();
        let is_old = |answer: &HeldAnswer| answer.since.after_us(HELD_MAX_US) <= now;
        let of_group =
            |(group, answers): (&GroupId, &Vec<HeldAnswer>)| answers.first().is_some_and(is_old).then_some(*group);
        let old: Vec<GroupId> = self.held_answers.iter().filter_map(of_group).collect();
        old.into_iter().for_each(|group| self.release_answers(group));
    }
}
