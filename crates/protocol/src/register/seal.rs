//! A register's last word. There is no order in which a last command could be decided, so members are sealed one by one: a
//! sealed member never again answers a query or a store. Once a read quorum and a write quorum of every size in use or still
//! borne are sealed no phase completes any more, and what they hold is what the group ends with: of each key the version of
//! the highest tag. A read that was answered has its version at a write quorum, so that is found.
//!
//! The parent takes one such final state, of whichever replica tells it first. What of a write that was under way depends on
//! it alone: the write has happened if the final version's tag is not below its own, and otherwise never will.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::ops::Bound;

use super::operation::{Operation, Phase, Purpose};
use super::succession::Authority;
use super::view::{Nodes, Quorum};
use super::{Answer, Body, Key, LIST_BYTES_MAX, LIST_KEYS_MAX, Record, Register, Round, Version};
use crate::effect::{Cx, Effects};
use crate::id::{Epoch, Instant, NodeId};
use crate::planted::{self, Planted};

/// Versions in order of their keys, and whether there are no more.
type Page = (Vec<(Key, Version)>, bool);

#[derive(Clone, Hash)]
pub(super) struct LastWord {
    token: u64,
    task: Task,
    round: Round,
    answered: Nodes,
    pages: Vec<Page>,
    pub(super) retry_at: Instant,
}

#[derive(Clone, Hash)]
enum Task {
    Seal,
    Tell { after: Option<Key> },
}

impl Body {
    /// Of what a sealed member does not do any more.
    fn question(&self) -> Option<Round> {
        match self {
            Body::Query { round, .. }
            | Body::Store { round, .. }
            | Body::Renew { round, .. }
            | Body::List { round, .. }
            | Body::Raise { round, .. }
            | Body::Bury { round, .. }
            | Body::Forget { round, .. } => Some(*round),
            _ => None,
        }
    }
}

impl Register {
    pub(super) fn seal(&mut self, cx: &Cx<'_>, token: u64, out: &mut Effects<Register>) {
        self.start_last_word(cx, token, Task::Seal, out);
    }

    pub(super) fn tell_final(&mut self, cx: &Cx<'_>, token: u64, after: Option<Key>, out: &mut Effects<Register>) {
        self.start_last_word(cx, token, Task::Tell { after }, out);
    }

    fn start_last_word(&mut self, cx: &Cx<'_>, token: u64, task: Task, out: &mut Effects<Register>) {
        self.give_up_last_word(out);
        if self.succession.authority != Authority::Parent {
            return self.tell(Answer::Unsound { token }, out);
        }
        // A successor that is under way comes first.
        if self.known.single().is_none() {
            return self.tell(Answer::GivenUp { token }, out);
        }
        let (round, retry_at) = (self.next_round(), Instant(0));
        self.last_word = Some(LastWord { token, task, round, answered: 0, pages: Vec::new(), retry_at });
        self.ask_for_last_word(cx, out);
    }

    pub(super) fn give_up_last_word(&mut self, out: &mut Effects<Register>) {
        if let Some(last_word) = self.last_word.take() {
            self.tell(Answer::GivenUp { token: last_word.token }, out);
        }
    }

    pub(super) fn ask_for_last_word(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        let Some(last_word) = &mut self.last_word else { return };
        last_word.retry_at = cx.now.after_us(self.pace.retry_us);
        let (round, answered) = (last_word.round, last_word.answered);
        let body = match &last_word.task {
            Task::Seal => Body::Seal { round },
            Task::Tell { after } => Body::Tell { round, after: after.clone() },
        };
        for node in self.known.members_of(self.known.all() & !answered) {
            self.send(node, body.clone(), out);
        }
    }

    pub(super) fn on_woken_last_word(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        if self.last_word.as_ref().is_some_and(|last_word| last_word.retry_at <= cx.now) {
            self.ask_for_last_word(cx, out);
        }
    }

    /// Whether this was a question that a sealed member answers by saying that it is.
    pub(super) fn refuses(&mut self, from: NodeId, body: &Body, out: &mut Effects<Register>) -> bool {
        let Some(round) = body.question().filter(|_| self.sealed && !planted::is(Planted::RegisterSealedAnswers))
        else {
            return false;
        };
        self.answer(from, Body::Sealed { round }, out);
        true
    }

    pub(super) fn handle_seal(&mut self, from: NodeId, round: Round, out: &mut Effects<Register>) {
        if !self.sealed {
            self.sealed = true;
            out.persist(Record::Sealed {});
            self.renewals.clear();
            self.give_up_errand(out);
            self.due.clear();
            self.listing_count = 0;
            for operation in mem::take(&mut self.operations).into_values() {
                self.end_sealed(&operation, out);
            }
        }
        self.answer(from, Body::Sealed { round }, out);
    }

    /// What is left of an operation: nothing but the tag under which it may have happened.
    fn end_sealed(&mut self, operation: &Operation, out: &mut Effects<Register>) {
        let answer = operation.token().map(|token| match (&operation.purpose, &operation.phase) {
            (Purpose::Write { .. }, Phase::Store { version, .. }) => Answer::Undecided { token, tag: version.tag },
            _ => Answer::Over { token },
        });
        self.end(operation, answer, out);
    }

    pub(super) fn handle_sealed(&mut self, from: NodeId, round: Round, out: &mut Effects<Register>) {
        if let Some(operation) = self.take(round) {
            return self.end_sealed(&operation, out);
        }
        if self.is_errand(round) {
            return self.give_up_errand(out);
        }
        let bit = self.known.bit(from);
        let Some(last_word) = self.last_word.as_mut().filter(|last_word| last_word.round == round) else { return };
        if matches!(last_word.task, Task::Seal) {
            last_word.answered |= bit;
            self.try_end_last_word(out);
        }
    }

    pub(super) fn handle_tell(&self, from: NodeId, round: Round, after: Option<&Key>, out: &mut Effects<Register>) {
        if !self.sealed {
            return;
        }
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let (mut versions, mut bytes, mut end) = (Vec::new(), 0, true);
        for (key, held) in self.objects.held.range::<Key, _>(range) {
            bytes += key.0.len() + held.version.content.length();
            if versions.len() == LIST_KEYS_MAX || bytes > LIST_BYTES_MAX && !versions.is_empty() {
                end = false;
                break;
            }
            versions.push((key.clone(), held.version.clone()));
        }
        self.answer(from, Body::Told { round, versions, end }, out);
    }

    pub(super) fn handle_told(&mut self, from: NodeId, round: Round, page: Page, out: &mut Effects<Register>) {
        let bit = self.known.bit(from);
        let Some(last_word) = self.last_word.as_mut().filter(|last_word| last_word.round == round) else { return };
        if matches!(last_word.task, Task::Tell { .. }) && last_word.answered & bit == 0 {
            last_word.answered |= bit;
            last_word.pages.push(page);
            self.try_end_last_word(out);
        }
    }

    fn try_end_last_word(&mut self, out: &mut Effects<Register>) {
        let Some(stage) = self.known.single() else { return };
        let Some(last_word) = &self.last_word else { return };
        let set = last_word.answered;
        let is = |quorum| self.known.is_quorum(stage, quorum, set);
        let is_wide = self.known.is_wide_enough(stage, set, Epoch(0));
        if !is(Quorum::Read) || !is(Quorum::Write) || !is_wide {
            return;
        }
        let epoch = stage.epoch();
        let Some(LastWord { token, task, pages, .. }) = self.last_word.take() else { return };
        let answer = match task {
            Task::Seal => Answer::Sealed { token, epoch },
            Task::Tell { .. } => {
                let (versions, next) = highest(pages);
                Answer::Final { token, versions, next }
            }
        };
        self.tell(answer, out);
    }
}

/// Of each key the version of the highest tag, up to where all pages reach, and that key if there may be more.
fn highest(pages: Vec<Page>) -> (Vec<(Key, Version)>, Option<Key>) {
    let unfinished = pages.iter().filter(|(_, end)| !end);
    let next = unfinished.filter_map(|(versions, _)| versions.last().map(|(key, _)| key)).min().cloned();
    let mut by_key: BTreeMap<Key, Version> = BTreeMap::new();
    let versions = pages.into_iter().flat_map(|(versions, _)| versions);
    for (key, version) in versions.filter(|(key, _)| next.as_ref().is_none_or(|next| key <= next)) {
        let highest = by_key.entry(key).or_insert_with(|| version.clone());
        if version.tag > highest.tag {
            *highest = version;
        }
    }
    (by_key.into_iter().collect(), next)
}
