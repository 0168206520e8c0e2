//! Changes of groups that find another one under way. A parent decides one after the other and refuses what comes too early;
//! the node that was asked asks again until it is time, and its client does not notice.

use std::collections::BTreeMap;

use quorate_object::Outcome;
use quorate_protocol::Instant;

use super::{Host, Timer};
use crate::answer::Answer;
use crate::entry::Purpose;
use crate::record::STILL_CHANGING;
use crate::root::{HAS_CHANGED, RootCommand};

/// A change takes some milliseconds, or as long as it takes to move versions.
const FIRST_PAUSE_US: u64 = 2_000;
const LONGEST_PAUSE_US: u64 = 100_000;

/// How long whoever asks goes on asking.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    give_up_at: Instant,
    pause_us: u64,
}

impl Patience {
    /// When to ask again, unless that would be too late.
    pub(super) fn again_at(&mut self, now: Instant) -> Option<Instant> {
        let again_at = now.after_us(self.pause_us);
        self.pause_us = (self.pause_us * 2).min(LONGEST_PAUSE_US);
        (again_at < self.give_up_at).then_some(again_at)
    }
}

/// What clients have asked the root for, by their operations.
#[derive(Default)]
pub(super) struct Changes {
    open: BTreeMap<u64, (RootCommand, Patience)>,
}

impl Host {
    pub(super) fn patience(&self) -> Patience {
        let give_up_at = self.clock.now().after_us(self.settings.timeout_ms * 1000);
        Patience { give_up_at, pause_us: FIRST_PAUSE_US }
    }

    pub(super) fn submit_change(&mut self, operation: u64, command: RootCommand) {
        let patience = self.patience();
        self.changes.open.insert(operation, (command, patience));
        self.change_again(operation);
    }

    pub(super) fn change_again(&mut self, operation: u64) {
        if let Some((command, _)) = self.changes.open.get(&operation) {
            let mut command = command.clone();
            self.refresh_move(&mut command);
            self.submit_to_root(&command, Purpose::Admin { operation });
        }
    }

    /// Whether the root is to be asked again, which has answered.
    pub(super) fn postpone_change(&mut self, operation: u64, answer: &Answer) -> bool {
        let Some((command, mut patience)) = self.changes.open.remove(&operation) else { return false };
        let is_answer = |why: &str| matches!(answer, Answer::Outcome(Outcome::Error(line)) if line == why);
        if is_answer(HAS_CHANGED) {
            self.ask_for_directory();
        }
        let is_early = is_answer(STILL_CHANGING) || is_answer(HAS_CHANGED);
        let Some(again_at) = patience.again_at(self.clock.now()).filter(|_| is_early) else { return false };
        self.changes.open.insert(operation, (command, patience));
        self.timers.set(again_at, Timer::Change { operation });
        true
    }
}
