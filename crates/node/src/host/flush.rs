//! Emptying a volume: its objects at once, and then, one by one, those that have groups of their own.

use std::collections::{BTreeMap, VecDeque};

use quorate_object::{Command, Outcome, slot_of_key};

use super::Host;
use crate::answer::Answer;
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
    volume: u32,
    names: VecDeque<Vec<u8>>,
    /// The volume has others, whose hashes begin here.
    others_from: Option<u64>,
    under_way: usize,
    /// The first answer that is none.
    failed: Option<Answer>,
}

/// The refusal of emptying a volume of registers. Whoever empties all namespaces is to see which one is left.
pub(super) fn holds_registers(namespace: u32) -> String {
    format!(
        "PROTOCOL namespace {namespace} holds registers (protocol register), which nothing empties as a whole: \
         delete keys with DEL, or drop the namespace"
    )
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
        let number = self.flushes.number_next;
        self.flushes.number_next += 1;
        let (names, others_from, under_way, failed) = (VecDeque::new(), Some(0), 0, None);
        let flush = Flush { operation, namespace, volume, names, others_from, under_way, failed };
        self.flushes.open.insert(number, flush);
        self.go_on_flushing(number);
    }

    /// The volume tells of some objects that have groups of their own.
    pub(super) fn take_flushed_names(&mut self, number: u64, answer: Answer) {
        let Some(flush) = self.flushes.open.get_mut(&number) else { return };
        flush.under_way -= 1;
        match answer {
            Answer::Outcome(Outcome::Scan { next, keys }) => (flush.names, flush.others_from) = (keys.into(), next),
            answer => flush.failed = Some(answer),
        }
        self.go_on_flushing(number);
    }

    pub(super) fn take_deleted(&mut self, number: u64, answer: Answer) {
        let Some(flush) = self.flushes.open.get_mut(&number) else { return };
        flush.under_way -= 1;
        if !matches!(answer, Answer::Outcome(Outcome::Int(_))) {
            flush.failed.get_or_insert(answer);
            flush.names.clear();
            flush.others_from = None;
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
        let Some(flush) = self.flushes.open.get_mut(&number).filter(|flush| flush.under_way == 0) else { return };
        if let Some(hash) = flush.others_from.take() {
            flush.under_way = 1;
            let target = Target::Volume { namespace: flush.namespace, index: flush.volume };
            let purpose = Purpose::FlushedNames { flush: number };
            self.submit_to_volume(target, &VolumeCommand::ListOwnFrom { hash }, purpose);
        } else if let Some(flush) = self.flushes.open.remove(&number) {
            let answer = flush.failed.unwrap_or(Answer::Outcome(Outcome::Ok));
            self.answers.push((flush.operation, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_object::{Command, Outcome};

    use super::holds_registers;
    use crate::Target;
    use crate::host::three_nodes::{Cluster, arrives};
    use crate::host::{Answer, Submission};

    #[test]
    fn who_empties_all_namespaces_is_told_which_one_holds_registers() {
        let mut cluster = Cluster::new(|_| {});
        let words: Vec<Vec<u8>> =
            "NAMESPACE CREATE 12 PROTOCOL register".split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let number = cluster.next_number();
        cluster.node(1).host.submit_admin(number, 0, &words);
        cluster.pass(1_000, arrives);
        cluster.node(1).answers.clear();
        for namespace in [0, 12] {
            let target = Target::Volume { namespace, index: 0 };
            let number = u64::from(namespace);
            cluster.node(1).host.submit(Submission { number, predecessor: None, target, command: &Command::Flush });
        }
        cluster.pass(100, arrives);
        let refusal = Outcome::Error(holds_registers(12));
        let answers = &mut cluster.node(1).answers;
        answers.sort_by_key(|(number, _)| *number);
        assert_eq!(*answers, [(0, Answer::Outcome(Outcome::Ok)), (12, Answer::Outcome(refusal))]);
        assert!(holds_registers(12).contains("namespace 12 holds registers"));
    }
}
