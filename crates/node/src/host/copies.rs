//! Snapshots of volumes with very many objects: read from the checkpoint store, page by page, so that no turn encodes all of them
//! and no memory holds a copy.
//!
//! All pages must be of one checkpoint, so that is *kept*: the next one waits. It is kept on until the member has
//! stored what it got, and has caught up from the log, which begins where that checkpoint ends; else the log would have gone on by
//! the time the member stands on its snapshot, and it would need another one. Keeping is for that alone: a page is sent only if the
//! checkpoint is still the one that the first page was of.

use quorate_checkpoint::{Key, Store, StoreError};
use quorate_protocol::wire::Malformed;
use quorate_protocol::{GroupId, Instant, NodeId, Slot};

use super::Host;
use super::checkpoints::{FIRST_OBJECT, Name, decode_meta, take_name};
use super::lookups::Lookup;
use super::open::restore_head;
use super::transfer::{Outgoing, PART_BYTES, Rest, put_entry};
use crate::planted::{self, Planted};
use crate::root::Durability;

/// A checkpoint is kept for so long behind the last sign that somebody needs it.
const KEPT_US: u64 = 2_000_000;
/// And not longer than this in all: whoever has it may be unable to store it.
const KEPT_US_MAX: u64 = 600_000_000;
/// None is kept while the log or its index is so many times as large as it should be: whoever cannot keep up has to wait for a
/// quieter time.
const LOG_FACTOR: u64 = 4;

/// A checkpoint that nothing is to replace.
pub(super) struct Kept {
    next_slot: u64,
    pub(super) until: Instant,
    given_up_at: Instant,
}

/// Some of a snapshot's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
    /// Where the next one begins in the store, if there is one.
    pub(super) next: Option<Vec<u8>>,
}

/// The beginning of a snapshot if no name is given to begin from, else objects from there on. Nothing if the store has no such
/// group.
pub(super) fn read_page(store: &impl Store, id: GroupId, from: Option<&[u8]>) -> Result<Option<Page>, String> {
    let stored = |error: StoreError| error.to_string();
    let malformed = |malformed: Malformed| malformed.to_string();
    let mut page = Page { bytes: Vec::new(), next: None };
    let Some(from) = from else {
        let Some(bytes) = store.get(id.0, Key::Meta).map_err(stored)? else { return Ok(None) };
        let meta = decode_meta(id, &bytes).map_err(malformed)?;
        let head = restore_head(id, &meta, store).map_err(stored)?.map_err(malformed)?;
        page.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        page.bytes.extend_from_slice(&bytes);
        head.encode_head(&mut page.bytes);
        page.next = Some(FIRST_OBJECT.to_vec());
        return Ok(Some(page));
    };
    let mut taken = Ok(());
    let mut each = |name: &[u8], object: &[u8]| {
        match take_name(name) {
            Ok(Name::Object(_)) if page.bytes.len() >= PART_BYTES => page.next = Some(name.to_vec()),
            Ok(Name::Object(key)) => {
                put_entry(&mut page.bytes, key, object);
                return true;
            }
            // They are behind the objects, and in the beginning of the snapshot.
            Ok(Name::Run(_) | Name::Children(_)) => {}
            Err(malformed) => taken = Err(malformed),
        }
        false
    };
    store.objects_from(id.0, from, &mut each).map_err(stored)?;
    taken.map_err(malformed)?;
    Ok(Some(page))
}

impl Host {
    /// Whether a snapshot of this group is read from the store.
    pub(super) fn is_copied(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        let objects = group.machine.objects();
        // The log has nothing of one that is kept in memory only: what it is sent must be as new as can be.
        let is_logged = group.durability != Durability::Memory;
        is_logged
            && group.own.is_none()
            && objects.is_some_and(|objects| objects.bytes() > self.settings.encoded_at_once_max)
    }

    /// Whether no checkpoint is to begin: the present one is kept, or a snapshot comes that will be stored in its place.
    pub(super) fn is_checkpoint_unwanted(&self, group: GroupId) -> bool {
        let is_kept = self.transfers.kept.get(&group).is_some_and(|kept| kept.until > self.clock.now());
        (is_kept && !planted::is(Planted::PagesOfTwoCheckpoints) || self.transfers.is_coming(group))
            && self.log_may_grow()
    }

    fn keep_checkpoint(&mut self, group: GroupId, next_slot: u64) {
        if self.log_may_grow() {
            let now = self.clock.now();
            let given_up_at = now.after_us(KEPT_US_MAX);
            self.transfers.kept.insert(group, Kept { next_slot, until: now.after_us(KEPT_US), given_up_at });
        }
    }

    /// A member still needs it: it goes on with its copy, has it stored, or asks for what comes behind it.
    pub(super) fn keep_on(&mut self, group: GroupId, next_slot: u64) {
        let until = self.clock.now().after_us(KEPT_US);
        if let Some(kept) = self.transfers.kept.get_mut(&group).filter(|kept| kept.next_slot <= next_slot) {
            kept.until = until.min(kept.given_up_at);
        }
    }

    /// Nobody but this node is waited for as long as something is looked up here.
    pub(super) fn keep_what_is_looked_up(&mut self) {
        let is_asked = |outgoing: &Outgoing| matches!(outgoing.rest, Rest::Asked(_));
        let asked = self.transfers.outgoing.iter().filter(|(_, outgoing)| is_asked(outgoing));
        let asked: Vec<(GroupId, u64)> = asked.map(|((group, _), outgoing)| (*group, outgoing.next_slot)).collect();
        asked.into_iter().for_each(|(group, next_slot)| self.keep_on(group, next_slot));
    }

    fn log_may_grow(&self) -> bool {
        let most = &self.settings.log;
        self.wal.size_bytes() <= most.size_bytes_max.saturating_mul(LOG_FACTOR)
            && self.wal.index_bytes() as u64 <= (most.index_bytes_max as u64).saturating_mul(LOG_FACTOR)
    }

    /// Begins to send what the store has, once that is more than the member has. Until then it is asked for again.
    pub(super) fn start_copy(&mut self, index: u32, peer: NodeId, has_below: Slot) {
        let group = &self.groups[index as usize];
        let (id, epoch, checkpoint) = (group.id(), group.configuration.epoch, group.checkpoint);
        let next_slot = checkpoint.next_slot.0;
        if checkpoint.under_way {
            // The one behind it waits.
            return self.keep_checkpoint(id, next_slot);
        }
        if checkpoint.whole || checkpoint.next_slot <= has_below {
            return self.want_checkpoint_now(index);
        }
        self.keep_checkpoint(id, next_slot);
        let number = self.transfers.next_number();
        let outgoing = Outgoing::new(epoch, next_slot, Vec::new(), Rest::Asked(number), self.clock.now());
        self.transfers.outgoing.insert((id, peer), outgoing);
        self.counters.snapshots_sent += 1;
        self.counters.snapshots_copied += 1;
        self.lookups.push(Lookup::Page { group: id, peer, number, from: None });
    }

    pub(super) fn ask_for_page(&mut self, group: GroupId, peer: NodeId, from: Vec<u8>) {
        let number = self.transfers.next_number();
        if let Some(outgoing) = self.transfers.outgoing.get_mut(&(group, peer)) {
            outgoing.rest = Rest::Asked(number);
            self.lookups.push(Lookup::Page { group, peer, number, from: Some(from) });
        }
    }

    pub(super) fn found_page(
        &mut self,
        group: GroupId,
        peer: NodeId,
        number: u64,
        found: Result<Option<Page>, String>,
    ) {
        let key = (group, peer);
        let is_asked = |outgoing: &&mut Outgoing| matches!(outgoing.rest, Rest::Asked(asked) if asked == number);
        let Some(outgoing) = self.transfers.outgoing.get_mut(&key).filter(is_asked) else { return };
        let Some(index) = self.index.get(&group).copied() else { return };
        let checkpoint = &mut self.groups[index as usize].checkpoint;
        let is_same = !checkpoint.under_way && !checkpoint.whole && checkpoint.next_slot.0 == outgoing.next_slot;
        match found {
            Ok(Some(page)) if is_same || planted::is(Planted::PagesOfTwoCheckpoints) => {
                outgoing.turn_to(page, self.clock.now());
                self.send_part(group, peer);
            }
            // It is asked for again.
            Ok(_) => drop(self.transfers.outgoing.remove(&key)),
            Err(words) => {
                // Memory has all of it.
                checkpoint.whole = true;
                self.transfers.outgoing.remove(&key);
                self.transfers.kept.remove(&group);
                self.want_checkpoint_now(index);
                self.note_damage(format!("the checkpoint of group {} cannot be read: {words}", group.0));
            }
        }
    }
}
