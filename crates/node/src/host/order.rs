//! The order of a connection's operations on one object.

use quorate_protocol::Slot;

use super::Host;
use crate::answer::{Answer, Failure};
use crate::frame::Access;

impl Host {
    /// Whether a read's answer cannot be used: it came before that of the read before it, and may be older than what
    /// that one will see, or it is older. The read is sent again, once the one before it is answered.
    pub(super) fn is_out_of_order(&mut self, number: u64, slot: Slot) -> bool {
        let Some(operation) = self.operations(number).find_mut(number) else { return false };
        let (access, predecessor, too_old) = (operation.access, operation.predecessor, slot < operation.not_before);
        if operation.is_asked_anew {
            return true;
        }
        if access == Access::Write || predecessor == 0 {
            return false;
        }
        let doubtful = operation.is_doubtful || operation.has_moved && operation.not_before > Slot(0);
        let overtaken = self.operations(number).contains(predecessor);
        if overtaken && let Some(operation) = self.operations(number).find_mut(number) {
            operation.parked = true;
        } else if doubtful {
            self.ask_anew(number);
            return true;
        } else if too_old {
            // In a later turn: within this one, this node would give the same answer.
            self.retry_after(number, 1);
        }
        overtaken || too_old
    }

    /// A register may show a write of unknown outcome after whatever is done now. What waits behind that write was not sent,
    /// and is not: so a pipeline takes effect in its order, or its end does not.
    pub(super) fn refuse_behind(&mut self, mut next: Option<u64>) {
        while let Some(number) = next
            && let Some(operation) = self.operations(number).find_mut(number)
            && operation.parked
        {
            next = operation.successor.take();
            self.complete(number, Answer::Failed(Failure::BehindUnknown));
        }
    }

    /// What stood between these two is gone: the second now waits for the first.
    pub(super) fn close_gap(&mut self, predecessor: u64, number: u64) {
        let Some(before) = self.operations(predecessor).find_mut(predecessor) else { return };
        before.successor = Some(number);
        let (parked, access) = (before.parked, before.access);
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        operation.predecessor = predecessor;
        if !parked && !operation.in_turn && !operation.access.waits_for(access) {
            self.unpark(number);
        }
    }

    /// The operation before this one is answered.
    pub(super) fn unpark(&mut self, number: u64) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        if std::mem::take(&mut operation.parked) {
            self.retry_after(number, 0);
        }
    }
}
