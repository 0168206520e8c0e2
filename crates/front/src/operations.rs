//! Who waits for which operation.
//!
//! Operations are numbered one by one, so the table is a ring that begins at the oldest unanswered one: looking up,
//! adding and removing are index arithmetic.

use std::collections::VecDeque;

use crate::backend::OperationId;

/// Whose operation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Client(Waiter),
    /// The object of this number that an application works on.
    Work(usize),
}

/// The place in a connection's queue to which an answer belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) connection: u32,
    pub(crate) generation: u32,
    /// The pending reply's number in its connection.
    pub(crate) sequence: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    asker: Asker,
    pub(crate) key_hash: u64,
    /// An operation of the connection before this one whose key fell into the same bucket; 0 if none is unanswered.
    pub(crate) previous: u64,
    answered: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// The number of the ring's first operation is one more than this.
    finished: u64,
    ring: VecDeque<Operation>,
}

impl Operations {
    /// The number that the next operation will have.
    pub(crate) fn next(&self) -> OperationId {
        OperationId(self.finished + 1 + self.ring.len() as u64)
    }

    pub(crate) fn add(&mut self, asker: Asker, key_hash: u64, previous: u64) -> OperationId {
        let id = self.next();
        self.ring.push_back(Operation { asker, key_hash, previous, answered: false });
        id
    }

    /// The operation, if it is known and unanswered, or was answered while an older one was not.
    pub(crate) fn at(&self, number: u64) -> Option<&Operation> {
        let index = number.checked_sub(self.finished + 1)?;
        self.ring.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn set_previous(&mut self, number: u64, previous: u64) {
        let index = number.checked_sub(self.finished + 1).and_then(|index| usize::try_from(index).ok());
        if let Some(operation) = index.and_then(|index| self.ring.get_mut(index)) {
            operation.previous = previous;
        }
    }

    /// Takes the operation out. `None` if it was never submitted or is answered already.
    pub(crate) fn answer(&mut self, id: OperationId) -> Option<Asker> {
        let index = usize::try_from(id.0.checked_sub(self.finished + 1)?).ok()?;
        let operation = self.ring.get_mut(index).filter(|operation| !operation.answered)?;
        operation.answered = true;
        let asker = operation.asker;
        while self.ring.front().is_some_and(|operation| operation.answered) {
            self.ring.pop_front();
            self.finished += 1;
        }
        Some(asker)
    }
}

impl Operation {
    pub(crate) fn is_unanswered(&self) -> bool {
        !self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(sequence: u32) -> Asker {
        Asker::Client(Waiter { connection: 0, generation: 1, sequence })
    }

    #[test]
    fn each_operation_is_answered_once_in_any_order() {
        let mut operations = Operations::default();
        for number in 1..=5 {
            assert_eq!(operations.add(asker(number), 0, 0), OperationId(u64::from(number)));
        }
        for number in [3, 1, 5, 2, 4] {
            let id = OperationId(u64::from(number));
            assert_eq!(operations.answer(id), Some(asker(number)));
            assert_eq!(operations.answer(id), None, "answered twice");
        }
        assert!(operations.ring.is_empty());
        assert_eq!(operations.next(), OperationId(6));
        assert_eq!(operations.answer(OperationId(0)), None);
        assert_eq!(operations.answer(OperationId(6)), None);
    }
}
