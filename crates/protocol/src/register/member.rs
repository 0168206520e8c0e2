//! A member's part: what it holds, and its answers. Every answer waits until what it says is on disk.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Body, Content, Entry, Key, LIST_BYTES_MAX, Outline, Record, Register, Round, Tag, Version};
use crate::effect::Effects;
use crate::id::{Epoch, NodeId};
use crate::planted::{self, Planted};

/// One register here.
#[derive(Clone, Hash)]
pub(super) struct Held {
    pub(super) version: Version,
    /// The version was at a write quorum of this epoch, when that was the only one. It says nothing of an epoch to which
    /// versions were moved since: an operation there reads at quorums which need not meet that one.
    pub(super) confirmed: Option<Epoch>,
}

#[derive(Clone, Hash, Default)]
pub(super) struct Objects {
    pub(super) held: BTreeMap<Key, Held>,
    /// Those of them that are tombstones, which are looked for among many.
    pub(super) tombstones: BTreeSet<Key>,
    /// No tombstone that was forgotten here had a higher counter.
    pub(super) floor: u64,
}

impl Objects {
    /// Whether the version is newer than what is held, or the same and known to be the latest more recently.
    fn is_news(&self, key: &Key, version: &Version) -> bool {
        let held = self.held.get(key).map(|held| &held.version);
        held.is_none_or(|held| (version.tag, version.renewed) > (held.tag, held.renewed))
    }

    pub(super) fn hold(&mut self, key: Key, version: Version) {
        let is_same = |held: &Held| held.version.tag == version.tag || planted::is(Planted::RegisterConfirmedForOthers);
        let confirmed = self.held.get(&key).filter(|held| is_same(held)).and_then(|held| held.confirmed);
        match version.content {
            Content::Tombstone => self.tombstones.insert(key.clone()),
            Content::Value { .. } => self.tombstones.remove(&key),
        };
        self.held.insert(key, Held { version, confirmed });
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.tombstones.clear();
    }

    pub(super) fn forget(&mut self, key: &Key, tag: Tag) {
        if self.held.get(key).is_some_and(|held| held.version.tag == tag) {
            self.held.remove(key);
            self.tombstones.remove(key);
        }
        self.floor = self.floor.max(tag.counter);
    }

    /// So many in order of their keys, and whether these are all.
    fn list(&self, from: &Key, tombstones: bool, count: usize) -> (Vec<Entry>, bool) {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut take = |key: &Key, held: &Held| {
            bytes += key.0.len();
            let fits = entries.len() < count && (bytes <= LIST_BYTES_MAX || entries.is_empty());
            if fits {
                let outline = Outline::of(&held.version.content);
                entries.push(Entry { key: key.clone(), tag: held.version.tag, outline });
            }
            fits
        };
        let end = match tombstones {
            false => self.held.range(from..).all(|(key, held)| take(key, held)),
            true => self.tombstones.range(from..).all(|key| self.held.get(key).is_none_or(|held| take(key, held))),
        };
        (entries, end)
    }
}

impl Register {
    pub(super) fn handle_query(
        &self,
        from: NodeId,
        round: Round,
        key: &Key,
        content: bool,
        out: &mut Effects<Register>,
    ) {
        let floor = self.objects.floor;
        let found = match self.objects.held.get(key) {
            None => {
                let (tag, renewed) = (Tag::ABSENT, Epoch(0));
                Body::Found { round, tag, renewed, floor, confirmed: false, content: None }
            }
            Some(Held { version, confirmed }) => {
                // Where sizes have changed since, whoever reads looks back, and finds it as this one does.
                let unmoved_since = self.known.single().map(|stage| stage.moved);
                let confirmed = confirmed.is_some_and(|epoch| unmoved_since.is_some_and(|moved| epoch >= moved));
                let content = content.then(|| version.content.clone());
                Body::Found { round, tag: version.tag, renewed: version.renewed, floor, confirmed, content }
            }
        };
        self.answer(from, found, out);
    }

    pub(super) fn handle_store(
        &mut self,
        from: NodeId,
        round: Round,
        key: Key,
        version: Version,
        out: &mut Effects<Register>,
    ) {
        self.hold(key, version, out);
        self.answer(from, Body::Stored { round }, out);
    }

    pub(super) fn hold(&mut self, key: Key, version: Version, out: &mut Effects<Register>) {
        if self.objects.is_news(&key, &version) {
            out.persist(Record::Held { key: key.clone(), version: version.clone() });
            self.objects.hold(key, version);
        }
    }

    pub(super) fn handle_confirm(&mut self, key: &Key, tag: Tag) {
        let Some(stage) = self.known.single() else { return };
        if let Some(held) = self.objects.held.get_mut(key).filter(|held| held.version.tag == tag) {
            held.confirmed = Some(stage.epoch());
        }
    }

    pub(super) fn handle_list(
        &self,
        from: NodeId,
        round: Round,
        key: &Key,
        (tombstones, count): (bool, u32),
        out: &mut Effects<Register>,
    ) {
        let (entries, end) = self.objects.list(key, tombstones, count as usize);
        self.answer(from, Body::Listed { round, entries, end, floor: self.objects.floor }, out);
    }

    pub(super) fn handle_raise(&mut self, from: NodeId, round: Round, floor: u64, out: &mut Effects<Register>) {
        if floor > self.objects.floor {
            out.persist(Record::Floor { floor });
            self.objects.floor = floor;
        }
        self.answer(from, Body::Raised { round }, out);
    }

    pub(super) fn handle_bury(
        &mut self,
        from: NodeId,
        round: Round,
        tombstones: Vec<(Key, Tag)>,
        out: &mut Effects<Register>,
    ) {
        for (key, tag) in tombstones {
            self.hold(key, Version { tag, renewed: Epoch(0), content: Content::Tombstone }, out);
        }
        self.answer(from, Body::Buried { round }, out);
    }

    pub(super) fn handle_forget(
        &mut self,
        from: NodeId,
        round: Round,
        tombstones: Vec<(Key, Tag)>,
        out: &mut Effects<Register>,
    ) {
        for (key, tag) in tombstones {
            let held = self.objects.held.get(&key).map(|held| &held.version);
            let is_held = held.is_some_and(|held| held.tag == tag && held.content == Content::Tombstone);
            if is_held {
                out.persist(Record::Forgotten { key: key.clone(), tag });
                self.objects.forget(&key, tag);
            }
        }
        self.answer(from, Body::Forgotten { round }, out);
    }
}
