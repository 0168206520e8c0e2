//! Emptying a volume: its objects at once, and then, one by one, those that have groups of their own.

use std::collections::{BTreeMap, VecDeque};

use quorate_object::{Command, Outcome, slot_of_key};

use super::{Answer, Host};
use crate::entry::{Purpose, Target};
use crate::frame::Access;
use crate::volume::VolumeCommand;

/// Own groups' objects deleted at once.
const AT_ONCE_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Flushes {
    number_next: u64,
    open: BTreeMap<u64, Flush>,
}

struct Flush {
    operation: u64,
    namespace: u32,
    names: VecDeque<Vec<u8>>,
    under_way: usize,
    /// The first answer that is none.
    failed: Option<Answer>,
}

impl Host {
    pub(super) fn submit_flush(&mut self, operation: u64, namespace: u32, volume: u32) {
        let mut bytes = Vec::new();
        Command::Flush.encode(&mut bytes);
        let target = Target::Volume { namespace, index: volume };
        self.submit_bytes(target, Access::Write, &bytes, Purpose::Flush { operation, namespace, volume });
    }

    /// The volume is empty, but for as many names as the answer says, if it says a number.
    pub(super) fn take_flushed(&mut self, operation: u64, namespace: u32, volume: u32, answer: Answer) {
        let Answer::Outcome(Outcome::Int(_)) = answer else {
            return self.answers.push((operation, answer));
        };
        let target = Target::Volume { namespace, index: volume };
        self.submit_to_volume(target, &VolumeCommand::ListOwn, Purpose::FlushedNames { operation, namespace });
    }

    /// The volume tells which objects have groups of their own.
    pub(super) fn take_flushed_names(&mut self, operation: u64, namespace: u32, answer: Answer) {
        let Answer::Outcome(Outcome::Keys(names)) = answer else {
            return self.answers.push((operation, answer));
        };
        let number = self.flushes.number_next;
        self.flushes.number_next += 1;
        let flush = Flush { operation, namespace, names: names.into(), under_way: 0, failed: None };
        self.flushes.open.insert(number, flush);
        self.go_on_flushing(number);
    }

    pub(super) fn take_deleted(&mut self, number: u64, answer: Answer) {
        let Some(flush) = self.flushes.open.get_mut(&number) else { return };
        flush.under_way -= 1;
        if !matches!(answer, Answer::Outcome(Outcome::Int(_))) {
            flush.failed.get_or_insert(answer);
            flush.names.clear();
        }
        self.go_on_flushing(number);
    }

    fn go_on_flushing(&mut self, number: u64) {
        loop {
            let Some(flush) = self.flushes.open.get_mut(&number) else { return };
            if flush.under_way >= AT_ONCE_MAX {
                return;
            }
            let Some(name) = flush.names.pop_front() else { break };
            flush.under_way += 1;
            let target = Target::Slot { namespace: flush.namespace, slot: slot_of_key(&name) };
            let own = self.find_own(target, Some(&name));
            let operation = self.internals.number_next();
            let delete = Command::Del { key: &name };
            let purpose = Purpose::FlushedName { flush: number };
            self.open_operation(operation, target, own, Access::Write, 0, purpose, |out| delete.encode(out));
        }
        if self.flushes.open.get(&number).is_some_and(|flush| flush.under_way == 0)
            && let Some(flush) = self.flushes.open.remove(&number)
        {
            let answer = flush.failed.unwrap_or(Answer::Outcome(Outcome::Ok));
            self.answers.push((flush.operation, answer));
        }
    }
}
