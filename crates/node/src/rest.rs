//! Own groups at rest: nothing in hand, all that they are in some tens of bytes.
//!
//! The same fields stand behind two heads: one for the checkpoint store, where a record must speak for itself, and one for
//! the table in memory, where what many groups have in common is said once.
//!
//! ```text
//! in the store: version 4, epoch, namespace, durability u8, members (count u8, each), hash key 16 bytes, start,
//!               covered below
//! in memory:    group u64, kin
//! both:         flags u8, next slot, slots not known executed by a majority, ballot's number and node, time, [machine time],
//!               [expiry], name, [object], [results]
//! ```
//! All others are numbers of seven bits a byte; bytes stand behind their length; times but the first are distances from it.

use std::sync::Arc;

use hashbrown::{HashMap, HashTable};
use quorate_object::Objects;
use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{Ballot, Epoch, GroupId, NodeId, Slot, Stamp, paxos::Position};
use quorate_wal::Lsn;

use crate::hash::FixedState;
use crate::host::GroupState;
use crate::machine::{Content, Machine};
use crate::number::{put_bytes, put_near, put_number, take_bytes, take_near, take_number, take_u32};
use crate::results::{Results, name_tag};
use crate::root::Durability;

/// The layout of an own group's record in the store; see [`crate::host::checkpoints`] for the others.
pub(crate) const VERSION: u8 = 4;
/// An object of up to so many bytes stands in the record; a larger one has a place of its own in the store.
pub(crate) const INLINE_BYTES_MAX: usize = 256;

/// What many groups have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kin {
    pub namespace: u32,
    pub durability: Durability,
    pub hash_key: [u8; 16],
    pub epoch: Epoch,
    pub members: Arc<[NodeId]>,
}

/// What one group has for itself.
pub(crate) struct Rest {
    pub state: GroupState,
    pub position: Position,
    pub coordinating: bool,
    pub name: Box<[u8]>,
    /// The object has a place of its own in the store.
    pub is_apart: bool,
    pub machine: Machine,
}

mod flag {
    pub(super) const STOPPED: u8 = 1;
    pub(super) const COORDINATING: u8 = 2;
    pub(super) const OBJECT: u8 = 4;
    pub(super) const APART: u8 = 8;
    pub(super) const FORGETFUL: u8 = 16;
    pub(super) const DAMAGED: u8 = 32;
    pub(super) const EXPIRES: u8 = 64;
    pub(super) const RESULTS: u8 = 128;
}

/// Whether a record of the store is of this kind.
pub(crate) fn is_rest(record: &[u8]) -> bool {
    record.first() == Some(&VERSION)
}

/// What stands before a group's own fields in the store.
#[derive(Debug)]
pub(crate) struct StoredHead {
    pub kin: Kin,
    /// The start of the node in which it was written.
    pub start: u32,
    pub covered_below: Lsn,
}

impl StoredHead {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Kin { namespace, durability, hash_key, epoch, members } = &self.kin;
        out.push(VERSION);
        put_number(u64::from(epoch.0), out);
        put_number(u64::from(*namespace), out);
        out.push(durability.code());
        out.push(members.len() as u8);
        members.iter().for_each(|member| put_number(u64::from(member.0), out));
        out.extend_from_slice(hash_key);
        put_number(u64::from(self.start), out);
        put_number(self.covered_below.0, out);
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<StoredHead, Malformed> {
        let version = reader.u8()?;
        if version != VERSION {
            return Err(Malformed::UnknownTag { of: "version of an own group's checkpoint", tag: version });
        }
        let (epoch, namespace) = (Epoch(take_u32(reader)?), take_u32(reader)?);
        let durability = Durability::of_code(reader.u8()?)?;
        let count = reader.u8()?;
        let members: Vec<NodeId> = (0..count).map(|_| take_u32(reader).map(NodeId)).collect::<Result<_, _>>()?;
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(reader.bytes(16)?);
        let kin = Kin { namespace, durability, hash_key, epoch, members: members.into() };
        Ok(StoredHead { kin, start: take_u32(reader)?, covered_below: Lsn(take_number(reader)?) })
    }
}

/// What there is of a group that comes to rest.
pub(crate) struct RestOf<'a> {
    pub position: Position,
    pub coordinating: bool,
    pub state: GroupState,
    pub name: &'a [u8],
    pub machine: &'a Machine,
}

impl RestOf<'_> {
    /// Appends its fields. The object stands among them unless it has a place of its own.
    pub(crate) fn encode(&self, object: Option<&[u8]>, is_apart: bool, out: &mut Vec<u8>) {
        let RestOf { position, coordinating, state, name, machine } = *self;
        let object = object.filter(|_| !is_apart);
        let expiry = machine.next_expiry();
        let set = |is: bool, flag: u8| if is { flag } else { 0 };
        out.push(
            set(position.stopped, flag::STOPPED)
                | set(coordinating, flag::COORDINATING)
                | set(object.is_some(), flag::OBJECT)
                | set(is_apart, flag::APART)
                | set(state == GroupState::Forgetful, flag::FORGETFUL)
                | set(state == GroupState::Damaged, flag::DAMAGED)
                | set(expiry.is_some(), flag::EXPIRES)
                | set(!machine.results().is_empty(), flag::RESULTS),
        );
        put_number(position.next_slot.0, out);
        put_number(position.next_slot.0.saturating_sub(position.frontier_majority.0), out);
        put_number(u64::from(position.promised.number), out);
        put_number(u64::from(position.promised.node.0), out);
        put_number(position.time.0, out);
        put_near(machine.time().0, position.time.0, out);
        if let Some(expiry) = expiry {
            put_near(expiry.0, position.time.0, out);
        }
        put_bytes(name, out);
        if let Some(object) = object {
            put_bytes(object, out);
        }
        if !machine.results().is_empty() {
            machine.results().encode_short(position.time, name_tag(Some(name)), out);
        }
    }
}

impl Rest {
    /// Takes back what [`RestOf::encode`] wrote.
    pub(crate) fn decode(hash_key: [u8; 16], mut reader: Reader<'_>) -> Result<Rest, Malformed> {
        let reader = &mut reader;
        let flags = reader.u8()?;
        let is = |flag: u8| flags & flag != 0;
        let next_slot = Slot(take_number(reader)?);
        let frontier_majority = Slot(next_slot.0.saturating_sub(take_number(reader)?));
        let promised = Ballot { number: take_u32(reader)?, node: NodeId(take_u32(reader)?) };
        let time = Stamp(take_number(reader)?);
        let position = Position { next_slot, promised, frontier_majority, time, stopped: is(flag::STOPPED) };
        let machine_time = Stamp(take_near(time.0, reader)?);
        if is(flag::EXPIRES) {
            take_near(time.0, reader)?;
        }
        let name = take_bytes(reader)?;
        let mut objects = Objects::new(hash_key);
        if is(flag::OBJECT) {
            objects
                .restore_object(name, take_bytes(reader)?)
                .map_err(|_| Malformed::UnknownTag { of: "object at rest", tag: 0 })?;
        }
        let results = match is(flag::RESULTS) {
            true => Results::decode_short(time, name_tag(Some(name)), reader)?,
            false => Results::default(),
        };
        reader.finish()?;
        let state = match (is(flag::FORGETFUL), is(flag::DAMAGED)) {
            (true, _) => GroupState::Forgetful,
            (_, true) => GroupState::Damaged,
            _ => GroupState::Alive,
        };
        let machine = Machine::restored(machine_time, results, Content::Objects(Box::new(objects)));
        let (coordinating, is_apart) = (is(flag::COORDINATING), is(flag::APART));
        Ok(Rest { state, position, coordinating, name: name.into(), is_apart, machine })
    }
}

/// What is looked at of a record without taking all of it apart.
pub(crate) struct Glance {
    pub expiry: Option<Stamp>,
    /// The object's name, if the object has a place of its own.
    pub name_if_apart: Option<Vec<u8>>,
}

pub(crate) fn glance(record: &[u8]) -> Result<Glance, Malformed> {
    let mut reader = Reader::new(record);
    StoredHead::take(&mut reader)?;
    let flags = reader.u8()?;
    for _ in 0..4 {
        take_number(&mut reader)?;
    }
    let time = take_number(&mut reader)?;
    take_number(&mut reader)?;
    let expiry = if flags & flag::EXPIRES != 0 { Some(Stamp(take_near(time, &mut reader)?)) } else { None };
    let name = take_bytes(&mut reader)?;
    Ok(Glance { expiry, name_if_apart: (flags & flag::APART != 0).then(|| name.to_vec()) })
}

/// Groups at rest in memory.
#[derive(Default)]
pub(crate) struct Resting {
    /// Places by group.
    index: HashTable<u32>,
    /// In pieces, so that growing neither copies nor leaves half of it unused.
    chunks: Vec<Vec<Box<[u8]>>>,
    free: Vec<u32>,
    kin: Vec<Kin>,
    kin_numbers: HashMap<Kin, u32, FixedState>,
    bytes: usize,
    /// Where the next one is looked for that leaves memory.
    hand: u32,
}

const CHUNK: usize = 1024;
const GROUP_BYTES: usize = 8;

impl Resting {
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// What the groups take, but for the table around them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins a group's bytes, for [`RestOf::encode`] to go on with and [`Resting::insert`] to take.
    pub(crate) fn head(&mut self, group: GroupId, kin: &Kin, out: &mut Vec<u8>) {
        let number = match self.kin_numbers.get(kin) {
            Some(number) => *number,
            None => {
                let number = self.kin.len() as u32;
                self.kin.push(kin.clone());
                self.kin_numbers.insert(kin.clone(), number);
                number
            }
        };
        out.extend_from_slice(&group.0.to_le_bytes());
        put_number(u64::from(number), out);
    }

    pub(crate) fn insert(&mut self, bytes: &[u8]) {
        let group = group_of(bytes);
        debug_assert!(self.find(group).is_none(), "{group:?} rests already");
        self.bytes += bytes.len();
        let place = self.free.pop().unwrap_or_else(|| {
            if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
                self.chunks.push(Vec::with_capacity(CHUNK));
            }
            let last = self.chunks.len() - 1;
            self.chunks[last].push(Box::default());
            (last * CHUNK + self.chunks[last].len() - 1) as u32
        });
        self.chunks[place as usize / CHUNK][place as usize % CHUNK] = bytes.into();
        let chunks = &self.chunks;
        let hash = |place: &u32| hash_of(group_of(&chunks[*place as usize / CHUNK][*place as usize % CHUNK]));
        self.index.insert_unique(hash_of(group), place, hash);
    }

    /// Takes a group out.
    pub(crate) fn take(&mut self, group: GroupId) -> Option<Box<[u8]>> {
        let chunks = &mut self.chunks;
        let is_it = |place: &u32| group_of(&chunks[*place as usize / CHUNK][*place as usize % CHUNK]) == group;
        let (place, _) = self.index.find_entry(hash_of(group), is_it).ok()?.remove();
        let bytes = std::mem::take(&mut chunks[place as usize / CHUNK][place as usize % CHUNK]);
        self.free.push(place);
        self.bytes -= bytes.len();
        Some(bytes)
    }

    /// Some group, another one each time, to leave memory.
    pub(crate) fn next_to_leave(&mut self) -> Option<GroupId> {
        let places = self.chunks.iter().map(Vec::len).sum::<usize>() as u32;
        for _ in 0..places {
            self.hand = (self.hand + 1) % places;
            let bytes = &self.chunks[self.hand as usize / CHUNK][self.hand as usize % CHUNK];
            if !bytes.is_empty() {
                return Some(group_of(bytes));
            }
        }
        None
    }

    /// Who is believed to coordinate the group, if it rests here.
    pub(crate) fn coordinator(&self, group: GroupId) -> Option<NodeId> {
        let mut reader = Reader::new(&self.find(group)?[GROUP_BYTES..]);
        take_number(&mut reader).ok()?;
        reader.u8().ok()?;
        for _ in 0..3 {
            take_number(&mut reader).ok()?;
        }
        take_u32(&mut reader).ok().map(NodeId)
    }

    /// Takes apart what [`Resting::take`] gave.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<(Kin, Rest), Malformed> {
        let mut reader = Reader::new(&bytes[GROUP_BYTES..]);
        let number = take_u32(&mut reader)?;
        let kin = self.kin.get(number as usize).ok_or(Malformed::UnknownTag { of: "kin", tag: 0 })?.clone();
        let rest = Rest::decode(kin.hash_key, reader)?;
        Ok((kin, rest))
    }

    fn find(&self, group: GroupId) -> Option<&[u8]> {
        let at = |place: &u32| &self.chunks[*place as usize / CHUNK][*place as usize % CHUNK];
        self.index.find(hash_of(group), |place| group_of(at(place)) == group).map(|place| &at(place)[..])
    }
}

/// What places no group has any more stay with the table until others need them.
fn group_of(bytes: &[u8]) -> GroupId {
    GroupId(bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)))
}

fn hash_of(group: GroupId) -> u64 {
    use std::hash::BuildHasher;
    FixedState::default().hash_one(group)
}

#[cfg(test)]
mod tests {
    use quorate_object::Outcome;

    use super::*;
    use crate::envelope::Ticket;
    use crate::volume::Frozen;

    fn kin() -> Kin {
        let members = [NodeId(1), NodeId(2), NodeId(3)].into();
        Kin { namespace: 0, durability: Durability::Sync, hash_key: [7; 16], epoch: Epoch(0), members }
    }

    fn machine(value: &[u8]) -> Machine {
        let mut objects = Objects::new(kin().hash_key);
        let set = quorate_object::Command::Set {
            key: b"name",
            value,
            condition: quorate_object::Condition::Always,
            expiry: quorate_object::Expiry::Unset,
            answer: quorate_object::SetAnswer::Ok,
        };
        objects.run(&set, 1_700_000_000_000, 0);
        let object = objects.encoded(b"name");
        let frozen = Frozen { time_ms: 1_700_000_000_000, object, results: Vec::new() };
        let mut machine = Machine::thawed(kin().hash_key, b"name", &frozen);
        let ticket = Ticket { node: NodeId(2), start: 3, number: 123_456 };
        machine.results_mut().keep(ticket, Stamp(1_700_000_004_321), name_tag(Some(b"name")), &Outcome::Ok);
        machine
    }

    fn position() -> Position {
        Position {
            next_slot: Slot(300),
            promised: Ballot { number: 4, node: NodeId(2) },
            frontier_majority: Slot(299),
            time: Stamp(1_700_000_000_000),
            stopped: false,
        }
    }

    fn put(resting: &mut Resting, group: GroupId, value: &[u8]) -> usize {
        let mut bytes = Vec::new();
        resting.head(group, &kin(), &mut bytes);
        let machine = machine(value);
        let object = machine.objects().and_then(|objects| objects.encoded(b"name"));
        let state = GroupState::Alive;
        let rest = RestOf { position: position(), coordinating: true, state, name: b"name", machine: &machine };
        rest.encode(object.as_deref(), false, &mut bytes);
        resting.insert(&bytes);
        bytes.len()
    }

    #[test]
    fn a_group_comes_back_as_it_went_to_rest() {
        let mut resting = Resting::default();
        put(&mut resting, GroupId(5), b"value");
        assert_eq!(resting.coordinator(GroupId(5)), Some(NodeId(2)));
        assert_eq!(resting.coordinator(GroupId(6)), None);
        let bytes = resting.take(GroupId(5)).expect("it rests");
        assert_eq!((resting.take(GroupId(5)), resting.len(), resting.bytes()), (None, 0, 0));
        let (back, rest) = resting.decode(&bytes).unwrap();
        assert_eq!((back, rest.position, rest.coordinating, &*rest.name), (kin(), position(), true, &b"name"[..]));
        assert_eq!(rest.machine.digest(), machine(b"value").digest());
    }

    #[test]
    fn what_a_group_takes_besides_its_name_and_value_is_little() {
        let mut resting = Resting::default();
        let bytes = put(&mut resting, GroupId(5), &[b'v'; 16]);
        assert!(bytes - b"name".len() - 16 <= 44, "{bytes}");
    }

    #[test]
    fn thousands_come_and_go() {
        let mut resting = Resting::default();
        for group in 1..=5_000 {
            put(&mut resting, GroupId(group), b"value");
        }
        for group in (1..=5_000).step_by(2) {
            assert!(resting.take(GroupId(group)).is_some());
        }
        for group in 5_001..=6_000 {
            put(&mut resting, GroupId(group), b"value");
        }
        assert_eq!(resting.len(), 3_500);
        let mut left = 0;
        while let Some(group) = resting.next_to_leave() {
            assert!(group.0 > 5_000 || group.0.is_multiple_of(2), "{group:?} was taken before");
            assert!(resting.take(group).is_some());
            left += 1;
        }
        assert_eq!((left, resting.bytes()), (3_500, 0));
    }

    #[test]
    fn any_record_cut_short_is_refused() {
        let mut record = Vec::new();
        StoredHead { kin: kin(), start: 2, covered_below: Lsn(1 << 30) }.encode(&mut record);
        let machine = machine(b"value");
        let object = machine.objects().and_then(|objects| objects.encoded(b"name"));
        let state = GroupState::Forgetful;
        RestOf { position: position(), coordinating: false, state, name: b"name", machine: &machine }.encode(
            object.as_deref(),
            false,
            &mut record,
        );
        let decoded = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            StoredHead::take(&mut reader)?;
            Rest::decode(kin().hash_key, reader)
        };
        assert_eq!(decoded(&record).unwrap().state, GroupState::Forgetful);
        assert!(glance(&record).is_ok());
        for length in 0..record.len() {
            assert!(decoded(&record[..length]).is_err(), "{length} bytes");
        }
    }
}
