//! Lazy write-backs after a change of quorum sizes: what a read has found at many members is stored again, by sizes of the
//! present, so that later reads ask fewer. Nobody waits for that and correctness does not need it. One batch is under way at
//! a time, and what is found meanwhile is the next: so it costs a message a member for many registers, not for each.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use super::view::{Nodes, Quorum};
use super::{Body, Key, LIST_BYTES_MAX, LIST_KEYS_MAX, Register, Round, Tag, Version};
use crate::effect::{Cx, Effects};
use crate::id::{Instant, NodeId};

/// As many tries as a batch is worth.
const TRIES_MAX: u32 = 3;
/// How many queries tell what the next one is to expect.
const MET_NEW_MAX: u8 = 16;

#[derive(Clone, Hash, Default)]
pub(super) struct Renewals {
    waiting: BTreeMap<Key, Version>,
    batch: Option<Batch>,
    /// Of the latest queries, so many more met a version that had been renewed since sizes changed than one that had not.
    met_new: u8,
}

#[derive(Clone, Hash)]
struct Batch {
    round: Round,
    versions: Vec<(Key, Version)>,
    answered: Nodes,
    tries: u32,
    retry_at: Instant,
}

impl Renewals {
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_none()
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.batch.as_ref().map(|batch| batch.retry_at)
    }

    /// Whether queries should ask at once as many as versions of the past need, rather than find out each time.
    pub(super) fn expects_old(&self) -> bool {
        self.met_new < MET_NEW_MAX / 2
    }

    pub(super) fn note(&mut self, is_old: bool) {
        self.met_new = match is_old {
            true => self.met_new.saturating_sub(1),
            false => (self.met_new + 1).min(MET_NEW_MAX),
        };
    }

    /// The view has changed: what was to be renewed is older than another epoch now.
    pub(super) fn clear(&mut self) {
        *self = Renewals::default();
    }

    /// As many as one message takes.
    fn take(&mut self) -> Vec<(Key, Version)> {
        let mut bytes = 0;
        let mut fits = |key: &Key, version: &Version| {
            bytes += key.0.len() + version.content.length();
            bytes <= LIST_BYTES_MAX
        };
        let count = self.waiting.iter().take(LIST_KEYS_MAX).take_while(|(key, version)| fits(key, version)).count();
        // One that is larger than that goes alone.
        match self.waiting.keys().nth(count.max(1)).cloned() {
            Some(next) => {
                let later = self.waiting.split_off(&next);
                mem::replace(&mut self.waiting, later).into_iter().collect()
            }
            None => mem::take(&mut self.waiting).into_iter().collect(),
        }
    }
}

impl Register {
    /// This version was found to be the latest, and is to be found by fewer from now on.
    pub(super) fn renew(&mut self, cx: &Cx<'_>, key: Key, version: Version, out: &mut Effects<Register>) {
        // What does not fit is found again.
        if self.renewals.waiting.len() < LIST_KEYS_MAX {
            self.renewals.waiting.insert(key, version);
        }
        self.try_renew(cx, out);
    }

    fn try_renew(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        if self.renewals.batch.is_some() || self.renewals.waiting.is_empty() {
            return;
        }
        let versions = self.renewals.take();
        let round = self.next_round();
        let retry_at = cx.now.after_us(self.pace.retry_us);
        let batch = Batch { round, versions, answered: 0, tries: 1, retry_at };
        let stage = self.known.newest();
        let whom = self.known.preferred(stage, Quorum::Write, round.number, self.suspects(cx));
        self.tell_batch(&batch, whom, out);
        self.renewals.batch = Some(batch);
    }

    fn tell_batch(&self, batch: &Batch, whom: Nodes, out: &mut Effects<Register>) {
        for node in self.known.members_of(whom & !batch.answered) {
            self.send(node, Body::Renew { round: batch.round, versions: batch.versions.clone() }, out);
        }
    }

    pub(super) fn on_woken_renewals(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        let Some(mut batch) = self.renewals.batch.take_if(|batch| batch.retry_at <= cx.now) else { return };
        if batch.tries < TRIES_MAX {
            batch.tries += 1;
            batch.retry_at = cx.now.after_us(self.pace.retry_us);
            self.tell_batch(&batch, self.known.all(), out);
            self.renewals.batch = Some(batch);
        } else {
            self.try_renew(cx, out);
        }
    }

    pub(super) fn handle_renew(
        &mut self,
        from: NodeId,
        round: Round,
        versions: Vec<(Key, Version)>,
        out: &mut Effects<Register>,
    ) {
        for (key, version) in versions {
            self.hold(key, version, out);
        }
        self.answer(from, Body::Renewed { round }, out);
    }

    pub(super) fn handle_renewed(&mut self, cx: &Cx<'_>, from: NodeId, round: Round, out: &mut Effects<Register>) {
        let bit = self.known.bit(from);
        let Some(batch) = self.renewals.batch.as_mut().filter(|batch| batch.round == round) else { return };
        batch.answered |= bit;
        let answered = batch.answered;
        if self.known.single().is_none_or(|stage| !self.known.is_quorum(stage, Quorum::Write, answered)) {
            return;
        }
        let batch = self.renewals.batch.take();
        let versions = batch.into_iter().flat_map(|batch| batch.versions);
        let tags: Vec<(Key, Tag)> = versions.map(|(key, version)| (key, version.tag)).collect();
        for node in self.known.members_of(answered) {
            self.send(node, Body::ConfirmAll { tags: tags.clone() }, out);
        }
        self.try_renew(cx, out);
    }
}
