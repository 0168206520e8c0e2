//! Operations that are sent again: those that came back, and those of which nothing is heard.

use quorate_protocol::NodeId;

use super::steps::next_random;
use super::{Host, Timer};
use crate::entry::Operation;

/// An operation that came back is sent again after this, and a little at random.
pub(super) const RETRY_US: u64 = 10_000;
/// ... and after twice as long each time, up to 2 to this power times as long.
const RETRY_DOUBLINGS_MAX: u32 = 3;
/// An operation of which nothing is heard is sent again after this.
const RESEND_US: u64 = 1_000_000;

impl Host {
    pub(super) fn retry_later(&mut self, number: u64) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        let base_us = RETRY_US << operation.attempts.min(RETRY_DOUBLINGS_MAX);
        let wait_us = base_us + next_random(&mut self.random) % base_us;
        self.retry_after(number, wait_us);
    }

    pub(super) fn retry_after(&mut self, number: u64, wait_us: u64) {
        let at = self.clock.now().after_us(wait_us);
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        if operation.retry_at.is_none_or(|earlier| at < earlier) {
            operation.retry_at = Some(at);
            self.timers.set(at, Timer::Retry { number });
        }
    }

    /// Sends an operation again, and right behind it those that wait for it: a pipeline of thousands on one object is
    /// executed in one go then, where each for itself would mostly arrive before the one before it.
    pub(super) fn retry(&mut self, number: u64) {
        let now = self.clock.now();
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        // It went with the one before it, and may have come back since.
        if operation.retry_at.is_none_or(|at| at > now) {
            return;
        }
        let mut next = Some(number);
        while let Some(number) = next {
            let Some(operation) = self.operations(number).find_mut(number) else { return };
            if operation.retry_at.take().is_none() {
                return;
            }
            next = operation.successor;
            self.dispatch(number);
            // It got nowhere, and nor would they.
            if self.operations(number).find_mut(number).is_some_and(|operation| operation.retry_at.is_some()) {
                return;
            }
        }
    }

    /// Sends everything again that went to a node and was not answered, in order.
    pub(super) fn resend_operations_to(&mut self, node: NodeId) {
        let sent_there = |operation: &&Operation| operation.sent_to == Some(node);
        let numbers: Vec<u64> = self
            .clients
            .iter()
            .chain(self.internals.iter())
            .filter(sent_there)
            .map(|operation| operation.number)
            .collect();
        for number in numbers {
            self.counters.resent += 1;
            self.dispatch(number);
        }
    }

    /// Sends again what has been silent for too long.
    pub(super) fn resend_silent(&mut self) {
        let now = self.clock.now();
        let silent = |operation: &&Operation| {
            let patience_us = RESEND_US << operation.attempts.saturating_sub(1).min(2);
            !operation.parked && operation.sent_at.after_us(patience_us) <= now
        };
        let numbers: Vec<u64> =
            self.clients.iter().chain(self.internals.iter()).filter(silent).map(|operation| operation.number).collect();
        for number in numbers {
            self.counters.resent += 1;
            self.dispatch(number);
        }
    }
}
