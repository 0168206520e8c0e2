//! Helping a member that lacks decided slots: with what the log still has, or memory where there is no log, else with a
//! snapshot in parts.

use hashbrown::HashMap;
use quorate_checkpoint::Batch;
use quorate_object::NAME_BYTES_MAX;
use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{Epoch, Event, GroupId, Instant, NodeId, Slot, chain, paxos};
use quorate_wal::Storage;

use super::Host;
use super::checkpoints::{Meta, decode_meta, encode_meta, name_of, put_snapshot, root_object};
use super::copies::{Kept, Page};
use super::group::Group;
use super::quarantine::isolate;
use crate::frame::Message;
use crate::group_state::GroupState;
use crate::hash::FixedState;
use crate::machine::{Content, Machine};
use crate::planted::{self, Planted};
use crate::replica::{AnyMessage, AnyRecord, AnyReplica, Position};
use crate::root::{ROOT, RootState};

/// Catch-up from the log is served up to so many bytes a turn: the rest waits for the next one.
const CATCH_UP_BYTES_PER_TURN: usize = 8 << 20;
/// Decided values are sent in messages of about this size.
const LEARN_BYTES_MAX: usize = 1 << 20;
/// A snapshot travels in parts of this size, one at a time.
pub const PART_BYTES: usize = 256 << 10;
/// A snapshot whose receiver says nothing for so long is given up; it will ask again.
const TRANSFER_PATIENCE_US: u64 = 2_000_000;
/// Snapshots sent at once by one node, and those gathered or on their way to its store.
const TRANSFERS_MAX: usize = 8;
/// Places of damage that are remembered for the status.
const DAMAGE_NOTED_MAX: usize = 16;
/// Neither the beginning of a snapshot nor an object is longer.
const UNTAKEN_BYTES_MAX: usize = 256 << 20;

#[derive(Default)]
pub(super) struct Transfers {
    pub(super) outgoing: HashMap<(GroupId, NodeId), Outgoing, FixedState>,
    incoming: HashMap<GroupId, Incoming, FixedState>,
    /// Of groups whose checkpoint is being sent.
    pub(super) kept: HashMap<GroupId, Kept, FixedState>,
    number: u64,
}

pub(super) struct Outgoing {
    epoch: Epoch,
    pub(super) next_slot: u64,
    part: u32,
    /// What is there to be sent, and what of it is.
    bytes: Vec<u8>,
    sent: usize,
    pub(super) rest: Rest,
    heard_at: Instant,
}

/// What comes behind the bytes that are there.
pub(super) enum Rest {
    Nothing,
    /// The store has it, from this name on.
    Stored(Vec<u8>),
    /// It is being looked up, under this number.
    Asked(u64),
}

struct Incoming {
    from: NodeId,
    next_slot: u64,
    part_next: u32,
    heard_at: Instant,
    gathered: Gathered,
}

pub(super) struct Part<'a> {
    pub next_slot: u64,
    pub part: u32,
    pub last: bool,
    pub bytes: &'a [u8],
}

/// A snapshot on its way to the store.
pub(super) struct Installing {
    group: GroupId,
    epoch: Epoch,
    position: Position,
    machine: Machine,
    /// Who sent it, and its last part.
    from: NodeId,
    part: u32,
}

impl Installing {
    pub(super) fn group(&self) -> GroupId {
        self.group
    }
}

impl Outgoing {
    pub(super) fn new(epoch: Epoch, next_slot: u64, bytes: Vec<u8>, rest: Rest, now: Instant) -> Outgoing {
        Outgoing { epoch, next_slot, part: 0, bytes, sent: 0, rest, heard_at: now }
    }

    /// Goes on with these bytes.
    pub(super) fn turn_to(&mut self, page: Page, now: Instant) {
        let Page { bytes, next } = page;
        (self.bytes, self.sent, self.heard_at) = (bytes, 0, now);
        self.rest = next.map_or(Rest::Nothing, Rest::Stored);
    }

    fn part(&self) -> &[u8] {
        let end = self.bytes.len().min(self.sent + PART_BYTES);
        &self.bytes[self.sent..end]
    }
}

impl Transfers {
    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(super) fn forget(&mut self, group: GroupId) {
        self.outgoing.retain(|(of, _), _| *of != group);
        self.incoming.remove(&group);
        self.kept.remove(&group);
    }

    /// Whether parts of a snapshot of the group have come.
    pub(super) fn is_coming(&self, group: GroupId) -> bool {
        self.incoming.contains_key(&group)
    }

    /// Whether a snapshot of the group is on its way, from here or to here.
    pub(super) fn concern(&self, group: GroupId) -> bool {
        self.incoming.contains_key(&group) || self.outgoing.keys().any(|(of, _)| *of == group)
    }

    pub(super) fn give_up_silent(&mut self, now: Instant) {
        let is_heard = |outgoing: &Outgoing| outgoing.heard_at.after_us(TRANSFER_PATIENCE_US) > now;
        self.outgoing.retain(|_, outgoing| is_heard(outgoing) || matches!(outgoing.rest, Rest::Asked(_)));
        self.incoming.retain(|_, incoming| incoming.heard_at.after_us(TRANSFER_PATIENCE_US) > now);
        self.kept.retain(|_, kept| kept.until > now);
    }
}

impl Host {
    pub(super) fn serve_catch_ups(&mut self, storage: &impl Storage) {
        let mut budget = CATCH_UP_BYTES_PER_TURN;
        for (id, peer, from) in std::mem::take(&mut self.catch_ups) {
            if budget == 0 {
                self.catch_ups.push((id, peer, from));
                continue;
            }
            let Some(index) = self.find(id) else { continue };
            let group = &self.groups[index as usize];
            if peer == self.settings.node || !group.is_alive() || from >= group.replica.next_slot() {
                continue;
            }
            // What the root was born with stands in no log, and a newcomer there has nothing.
            let has_nothing = id == ROOT && from == Slot(0) && !planted::is(Planted::RootLogOnNothing);
            let learned = if has_nothing { 0 } else { self.send_learned(index, peer, from, storage) };
            match learned {
                0 => budget = budget.saturating_sub(self.start_snapshot(index, peer, from)),
                bytes => {
                    self.keep_on(id, from.0);
                    budget = budget.saturating_sub(bytes);
                }
            }
        }
    }

    /// Sends decided values. How many bytes; none if the first of them is not there any more.
    fn send_learned(&mut self, index: u32, peer: NodeId, from: Slot, storage: &impl Storage) -> usize {
        let group = &self.groups[index as usize];
        let (id, epoch, next_slot) = (group.id(), group.configuration.epoch, group.replica.next_slot());
        let mut slots = Vec::new();
        let mut bytes = 0;
        let mut slot = from;
        while slot < next_slot && bytes < LEARN_BYTES_MAX {
            if let Some((value, length)) = self.unlogged.find(id, epoch, slot) {
                slots.push((slot, value.clone()));
                bytes += length;
                slot = slot.next();
                continue;
            }
            self.scratch.clear();
            let found = match self.wal.read(storage, id.0, slot.0, &mut self.scratch) {
                Ok(found) => found,
                // What the record said is in memory; with a checkpoint, the log need not have it any more.
                Err(error) => {
                    self.note_damage(error.to_string());
                    self.want_checkpoint_now(index);
                    break;
                }
            };
            let replica = &self.groups[index as usize].replica;
            let record = found.then(|| replica.decode_record(&self.scratch).ok()).flatten();
            let Some((at, value)) = record.as_ref().and_then(AnyRecord::entry) else { break };
            if at != slot {
                break;
            }
            slots.push((slot, value.clone()));
            bytes += self.scratch.len();
            slot = slot.next();
        }
        if slots.is_empty() {
            return 0;
        }
        self.counters.learned_sent += 1;
        let group = &self.groups[index as usize];
        let message = match &group.replica {
            AnyReplica::Paxos(_) => AnyMessage::Paxos(paxos::Message::Learn { slots, next_slot }),
            AnyReplica::Chain(replica) => {
                let body = chain::Body::Suffix { slots, frontier: next_slot };
                AnyMessage::Chain(chain::Message { epoch: replica.epoch(), body })
            }
            // Its records fill no slots, and its members help each other in their own words.
            AnyReplica::Register(_) => return 0,
        };
        self.outbox.send(peer, &Message::Replica { group: id, epoch, message });
        bytes.max(1)
    }

    pub(super) fn note_damage(&mut self, what: String) {
        if !self.damage.contains(&what) && self.damage.len() < DAMAGE_NOTED_MAX {
            self.damage.push(what);
        }
    }

    /// How many bytes were sent at once. A snapshot of one part is not waited for: if it is lost it is asked for again. So
    /// thousands of small groups catch up without waiting for each other.
    fn start_snapshot(&mut self, index: u32, peer: NodeId, has_below: Slot) -> usize {
        let group = &self.groups[index as usize];
        let (id, epoch, next_slot) = (group.id(), group.configuration.epoch, group.replica.next_slot().0);
        let key = (id, peer);
        let is_full = self.transfers.outgoing.len() >= TRANSFERS_MAX;
        if self.transfers.outgoing.contains_key(&key) || is_full && group.own.is_none() {
            return 0;
        }
        if self.is_copied(index) {
            self.start_copy(index, peer, has_below);
            return 0;
        }
        // It is asked for again.
        if !self.want_names(index) {
            return 0;
        }
        let group = &self.groups[index as usize];
        let bytes = match isolate(|| encode_snapshot(group)) {
            Ok(bytes) => bytes,
            Err(words) => {
                self.quarantine(index, "making a snapshot", words);
                return 0;
            }
        };
        if bytes.len() <= PART_BYTES {
            self.counters.snapshots_sent += 1;
            self.outbox
                .send(peer, &Message::Snapshot { group: id, epoch, next_slot, part: 0, last: true, bytes: &bytes });
            return bytes.len();
        }
        if is_full {
            return 0;
        }
        let outgoing = Outgoing::new(epoch, next_slot, bytes, Rest::Nothing, self.clock.now());
        self.transfers.outgoing.insert(key, outgoing);
        self.counters.snapshots_sent += 1;
        self.send_part(id, peer);
        PART_BYTES
    }

    pub(super) fn send_part(&mut self, group: GroupId, peer: NodeId) {
        let Some(outgoing) = self.transfers.outgoing.get(&(group, peer)) else { return };
        let Outgoing { epoch, next_slot, part, .. } = *outgoing;
        let bytes = outgoing.part();
        let last = outgoing.sent + bytes.len() == outgoing.bytes.len() && matches!(outgoing.rest, Rest::Nothing);
        self.outbox.send(peer, &Message::Snapshot { group, epoch, next_slot, part, last, bytes });
    }

    pub(super) fn handle_snapshot_taken(
        &mut self,
        from: NodeId,
        group: GroupId,
        epoch: Epoch,
        next_slot: u64,
        part: u32,
    ) {
        self.keep_on(group, next_slot);
        let key = (group, from);
        let Some(outgoing) = self.transfers.outgoing.get_mut(&key) else { return };
        let is_expected = outgoing.epoch == epoch && outgoing.next_slot == next_slot && outgoing.part == part;
        if !is_expected || matches!(outgoing.rest, Rest::Asked(_)) {
            return;
        }
        outgoing.sent += outgoing.part().len();
        outgoing.part += 1;
        outgoing.heard_at = self.clock.now();
        if outgoing.sent < outgoing.bytes.len() {
            return self.send_part(group, from);
        }
        match std::mem::replace(&mut outgoing.rest, Rest::Nothing) {
            Rest::Stored(next) => self.ask_for_page(group, from, next),
            Rest::Nothing | Rest::Asked(_) => drop(self.transfers.outgoing.remove(&key)),
        }
    }

    pub(super) fn handle_snapshot(&mut self, from: NodeId, group: GroupId, epoch: Epoch, part: Part<'_>) {
        let Some(index) = self.rouse(group) else {
            // It is asked for again, once it is awake.
            if !self.is_sought(group) {
                self.meet_unknown_group();
            }
            return;
        };
        let found = &self.groups[index as usize];
        let is_catching_up = self.is_catching_up(index);
        if found.configuration.epoch == epoch && found.state.is_silent() && !is_catching_up {
            return self.tell_silent(index);
        }
        if found.configuration.epoch != epoch
            || !found.is_alive() && !is_catching_up
            || part.next_slot <= found.replica.next_slot().0
        {
            return;
        }
        let now = self.clock.now();
        if part.part == 0 {
            let busy = self.transfers.incoming.get(&group).is_some_and(|incoming| incoming.from != from);
            let in_parts = self.storing.installing().filter(|installing| installing.part > 0);
            let is_full = self.transfers.incoming.len() + in_parts.count() >= TRANSFERS_MAX;
            let is_stored = self.storing.installing().any(|installing| installing.group == group);
            if !part.last && (busy || is_full || is_stored) {
                return;
            }
            let gathered = match found.own {
                Some(_) => Gathered::new(),
                None => Gathered::to_be_stored(group),
            };
            let incoming = Incoming { from, next_slot: part.next_slot, part_next: 0, heard_at: now, gathered };
            if part.last {
                return self.take_last_part(group, epoch, part, incoming);
            }
            self.transfers.incoming.insert(group, incoming);
        }
        let Some(mut incoming) = self.transfers.incoming.remove(&group) else { return };
        let is_next = incoming.from == from && incoming.next_slot == part.next_slot && incoming.part_next == part.part;
        if !is_next {
            self.transfers.incoming.insert(group, incoming);
            return;
        }
        let taken = Message::SnapshotTaken { group, epoch, next_slot: part.next_slot, part: part.part };
        if part.last {
            self.outbox.send(from, &taken);
            return self.take_last_part(group, epoch, part, incoming);
        }
        match isolate(|| incoming.gathered.take(group, part.bytes)) {
            Ok(Ok(())) => {
                incoming.part_next += 1;
                incoming.heard_at = now;
                self.transfers.incoming.insert(group, incoming);
                self.outbox.send(from, &taken);
            }
            Ok(Err(_)) => self.counters.nonsense += 1,
            Err(words) => self.quarantine(index, "reading a snapshot", words),
        }
    }

    /// A snapshot is stored before the replica stands on it: what it then says, it will not have forgotten.
    fn take_last_part(&mut self, group: GroupId, epoch: Epoch, part: Part<'_>, incoming: Incoming) {
        let Some(index) = self.find(group) else { return };
        let Incoming { from, mut gathered, .. } = incoming;
        let decoded = isolate(|| gathered.take(group, part.bytes).and_then(|()| gathered.finish(group)));
        let (meta, mut machine, mut batch) = match decoded {
            Ok(Ok((Snapshot { meta, machine }, batch))) => (meta, machine, batch),
            Ok(Err(_)) => {
                self.counters.nonsense += 1;
                return;
            }
            Err(words) => return self.quarantine(index, "reading a snapshot", words),
        };
        // It is asked for again.
        if !self.may_replace_checkpoint(index) {
            return;
        }
        // One batch of a group at a time: the store must not mix this state with a checkpoint of the one before it.
        if std::mem::replace(&mut self.groups[index as usize].checkpoint.under_way, true) {
            return;
        }
        let found = &self.groups[index as usize];
        let Some(position) = position_of_install(found.replica.position(), meta.position) else {
            self.groups[index as usize].checkpoint.under_way = false;
            self.counters.nonsense += 1;
            return;
        };
        put_snapshot(found, self.settings.start, position.clone(), &mut machine, &mut batch);
        let installing = Installing { group, epoch, position, machine, from, part: part.part };
        self.want_snapshot_stored(batch, installing);
    }

    /// While large snapshots are being stored here, whoever has sent them is told: they are of use only as long as the log there
    /// has what comes behind them.
    pub(super) fn tell_installing(&mut self) {
        let told: Vec<(NodeId, Message<'static>)> = self
            .storing
            .installing()
            .filter(|installing| installing.part > 0)
            .map(|&Installing { group, epoch, ref position, from, part, .. }| {
                (from, Message::SnapshotTaken { group, epoch, next_slot: position.next_slot().0, part })
            })
            .collect();
        told.iter().for_each(|(to, message)| self.outbox.send(*to, message));
    }

    /// The store holds the snapshot. If the replica has come further by itself meanwhile, the next checkpoint stores the
    /// whole of its own state again.
    pub(super) fn install(&mut self, installing: Installing) {
        let Some(index) = self.find(installing.group) else { return };
        let group = &mut self.groups[index as usize];
        group.checkpoint.under_way = false;
        if group.configuration.epoch != installing.epoch || group.state == GroupState::Quarantined {
            return;
        }
        if group.replica.next_slot() >= installing.position.next_slot() {
            group.checkpoint.whole = true;
            return self.want_checkpoint_now(index);
        }
        let old = std::mem::replace(&mut group.machine, installing.machine);
        // What was promised meanwhile, it does not hold.
        group.checkpoint.changed = true;
        group.checkpoint.whole = group.own.is_some();
        let next_slot = installing.position.next_slot();
        group.checkpoint.next_slot = next_slot;
        group.replica.restore(installing.position);
        group.ahead = None;
        self.discard(old);
        self.counters.snapshots_installed += 1;
        self.wal.release(installing.group.0, next_slot.0, quorate_wal::Lsn(0));
        self.plan(index, Event::Woken);
        self.arm_timers_after_apply(index);
        self.answer_due_reads(index);
        self.reconcile_own_groups(index);
    }
}

/// What a replica stands on with another's state: how far that has come, and what it has itself promised or adopted.
fn position_of_install(mine: Position, theirs: Position) -> Option<Position> {
    match (mine, theirs) {
        (Position::Paxos(mine), Position::Paxos(theirs)) => {
            Some(Position::Paxos(paxos::Position { promised: mine.promised, ..theirs }))
        }
        (Position::Chain(mine), Position::Chain(theirs)) => {
            let chain::Position { next_slot, time, stopped, .. } = theirs;
            Some(Position::Chain(chain::Position { next_slot, time, stopped, ..mine }))
        }
        (Position::Paxos(_) | Position::Chain(_) | Position::Register(_), _) => None,
    }
}

pub(super) fn encode_snapshot(group: &Group) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_meta(group, &mut bytes);
    let meta_length = bytes.len() as u32;
    bytes.splice(0..0, meta_length.to_le_bytes());
    group.machine.encode_head(&mut bytes);
    match group.machine.content() {
        Content::Root(root) => put_entry(&mut bytes, root_object(), &root.encode()),
        Content::Objects(objects) => objects.for_each(|key, object| put_entry(&mut bytes, key, object)),
    }
    bytes
}

/// An object in a snapshot.
pub(super) fn put_entry(bytes: &mut Vec<u8>, key: &[u8], object: &[u8]) {
    bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&(object.len() as u32).to_le_bytes());
    bytes.extend_from_slice(object);
}

/// A name, its object, and how long both are.
type Entry<'a> = (&'a [u8], &'a [u8], usize);

/// The first object of these bytes, if it is there as a whole.
fn take_entry(bytes: &[u8]) -> Result<Option<Entry<'_>>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut entry = || {
        let key_length = reader.u32()? as usize;
        let key = reader.bytes(key_length)?;
        let object_length = reader.u32()? as usize;
        Ok((key, reader.bytes(object_length)?))
    };
    match entry() {
        Ok((key, object)) => Ok(Some((key, object, bytes.len() - reader.remaining()))),
        Err(Malformed::Truncated) => Ok(None),
        Err(malformed) => Err(malformed),
    }
}

/// A group as another member, or a birth, describes it.
pub(super) struct Snapshot {
    pub(super) meta: Meta,
    pub(super) machine: Machine,
}

/// A snapshot of which more and more is there.
struct Gathered {
    /// What could not be taken apart yet.
    bytes: Vec<u8>,
    /// The beginning was looked for among so many.
    sought_in: usize,
    snapshot: Option<Snapshot>,
    /// Its objects, for the store.
    batch: Option<Batch>,
}

impl Gathered {
    fn new() -> Gathered {
        Gathered { bytes: Vec::new(), sought_in: 0, snapshot: None, batch: None }
    }

    fn to_be_stored(group: GroupId) -> Gathered {
        let mut batch = Batch::new();
        batch.clear_objects(group.0);
        Gathered { batch: Some(batch), ..Gathered::new() }
    }

    fn take(&mut self, group: GroupId, bytes: &[u8]) -> Result<(), Malformed> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > UNTAKEN_BYTES_MAX {
            return Err(Malformed::TooLong { of: "beginning or object of a snapshot" });
        }
        // A long beginning is not looked for again with each part.
        if self.snapshot.is_none() && self.bytes.len() >= 2 * self.sought_in {
            self.take_beginning(group)?;
        }
        self.take_entries(group)
    }

    fn take_beginning(&mut self, group: GroupId) -> Result<(), Malformed> {
        self.sought_in = self.bytes.len();
        let mut reader = Reader::new(&self.bytes);
        let mut beginning = || {
            let meta_length = reader.u32()? as usize;
            let meta = decode_meta(group, reader.bytes(meta_length)?)?;
            let mut machine = Machine::decode_head(empty_content(group, meta.hash_key), &mut reader)?;
            machine.owns = meta.owns;
            Ok(Snapshot { meta, machine })
        };
        match beginning() {
            Ok(snapshot) => {
                let rest = reader.remaining();
                self.snapshot = Some(snapshot);
                self.bytes.drain(..self.bytes.len() - rest);
                Ok(())
            }
            Err(Malformed::Truncated) => Ok(()),
            Err(malformed) => Err(malformed),
        }
    }

    fn take_entries(&mut self, group: GroupId) -> Result<(), Malformed> {
        let Some(snapshot) = &mut self.snapshot else { return Ok(()) };
        let mut taken = 0;
        while let Some((key, object, length)) = take_entry(&self.bytes[taken..])? {
            if key.len() > NAME_BYTES_MAX {
                return Err(Malformed::TooLong { of: "name in a snapshot" });
            }
            restore_object(snapshot.machine.content_mut(), key, object)?;
            let stored_as = if group == ROOT { root_object() } else { key };
            if let Some(batch) = &mut self.batch {
                batch.put_object(group.0, &name_of(stored_as), object.to_vec());
            }
            taken += length;
        }
        self.bytes.drain(..taken);
        Ok(())
    }

    /// There is no more.
    fn finish(mut self, group: GroupId) -> Result<(Snapshot, Batch), Malformed> {
        if self.snapshot.is_none() {
            self.take_beginning(group)?;
            self.take_entries(group)?;
        }
        let mut snapshot = self.snapshot.filter(|_| self.bytes.is_empty()).ok_or(Malformed::Truncated)?;
        if planted::is(Planted::SnapshotWithoutResults) {
            snapshot.machine.forget_results();
        }
        Ok((snapshot, self.batch.unwrap_or_default()))
    }
}

pub(super) fn decode_snapshot(group: GroupId, bytes: &[u8]) -> Result<Snapshot, Malformed> {
    let mut gathered = Gathered::new();
    gathered.take(group, bytes)?;
    gathered.finish(group).map(|(snapshot, _)| snapshot)
}

/// Whether these bytes are a snapshot of this group, as a peer would send it.
pub fn check_snapshot(group: GroupId, bytes: &[u8]) -> Result<(), Malformed> {
    decode_snapshot(group, bytes).map(|_| ())
}

pub(super) fn empty_content(group: GroupId, hash_key: [u8; 16]) -> Content {
    if group == crate::root::ROOT {
        Content::Root(Box::new(RootState::empty()))
    } else {
        Content::Objects(Box::new(quorate_object::Objects::new(hash_key)))
    }
}

pub(super) fn restore_object(content: &mut Content, key: &[u8], bytes: &[u8]) -> Result<(), Malformed> {
    let malformed = Malformed::UnknownTag { of: "object in a snapshot", tag: 0 };
    match content {
        Content::Root(root) => **root = RootState::decode(bytes).ok_or(malformed)?,
        Content::Objects(objects) => objects.restore_object(key, bytes).map_err(|_| malformed)?,
    }
    Ok(())
}
