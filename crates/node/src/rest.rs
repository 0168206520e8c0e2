//! Own groups at rest: nothing in hand, all that they are in some tens of bytes.
//!
//! The same fields stand behind two heads: one for the checkpoint store, where a record must speak for itself, and one for
//! the table in memory, where what many groups have in common is said once.
//!
//! ```text
//! in the store: version u8, epoch, namespace, durability u8, members (count u8, each), hash key 16 bytes, start,
//!               covered below, [chain: epoch, members (count u8, each), joining + 1 or 0],
//!               [accepted: count, each as in the log]
//! in memory:    group u64, kin
//! both:         flags u8, next slot, bound, time, [machine time], [expiry], name, [object], [results]
//! bound:        of paxos, slots not known executed by a majority, ballot's number and node; of a chain, since which epoch,
//!               how it stands, 0
//! ```
//! All others are numbers of seven bits a byte; bytes stand behind their length; times but the first are distances from it.

use std::sync::Arc;

use hashbrown::{HashMap, HashTable};
use quorate_object::Objects;
use quorate_protocol::chain::Membership;
use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Ballot, Epoch, GroupId, NodeId, Slot, Stamp, chain, paxos};
use quorate_wal::Lsn;

use crate::group_state::GroupState;
use crate::hash::FixedState;
use crate::machine::{Content, Machine};
use crate::number::{put_bytes, put_near, put_number, take_bytes, take_near, take_number, take_u32};
use crate::replica::{Position, Protocol};
use crate::results::{Results, name_tag};
use crate::root::Durability;

/// The layout of an own group's record in the store; see [`crate::host::checkpoints`] for the others.
pub(crate) const VERSION: u8 = 11;
const VERSION_CHAIN: u8 = 12;
/// Of a group that lacked a quorum: with what it had accepted.
const VERSION_ACCEPTED: u8 = 13;
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
    /// Of chains.
    pub chain: Option<Arc<Membership>>,
}

impl Kin {
    pub(crate) fn protocol(&self) -> Protocol {
        if self.chain.is_some() { Protocol::Chain } else { Protocol::Paxos }
    }
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

/// How a member of a chain stands.
mod standing {
    pub(super) const ESTABLISHED: u8 = 1;
    pub(super) const JOINED: u8 = 2;
}

/// Whether a record of the store is of this kind.
pub(crate) fn is_rest(record: &[u8]) -> bool {
    matches!(record.first(), Some(&(VERSION | VERSION_CHAIN | VERSION_ACCEPTED)))
}

/// What stands before a group's own fields in the store.
#[derive(Debug)]
pub(crate) struct StoredHead {
    pub kin: Kin,
    /// The start of the node in which it was written.
    pub start: u32,
    pub covered_below: Lsn,
    /// What the replica has accepted and not executed; of Paxos.
    pub accepted: Vec<paxos::Record>,
}

impl StoredHead {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Kin { namespace, durability, hash_key, epoch, members, chain } = &self.kin;
        out.push(match chain {
            Some(_) => VERSION_CHAIN,
            None if self.accepted.is_empty() => VERSION,
            None => VERSION_ACCEPTED,
        });
        put_number(u64::from(epoch.0), out);
        put_number(u64::from(*namespace), out);
        out.push(durability.code());
        put_members(members, out);
        out.extend_from_slice(hash_key);
        put_number(u64::from(self.start), out);
        put_number(self.covered_below.0, out);
        if let Some(chain) = chain {
            put_number(u64::from(chain.epoch.0), out);
            put_members(&chain.members, out);
            put_number(chain.joining.map_or(0, |node| u64::from(node.0) + 1), out);
        } else if !self.accepted.is_empty() {
            put_accepted(&self.accepted, out);
        }
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<StoredHead, Malformed> {
        let version = reader.u8()?;
        if !matches!(version, VERSION | VERSION_CHAIN | VERSION_ACCEPTED) {
            return Err(Malformed::UnknownTag { of: "version of an own group's checkpoint", tag: version });
        }
        let (epoch, namespace) = (Epoch(take_u32(reader)?), take_u32(reader)?);
        let durability = Durability::of_code(reader.u8()?)?;
        let members = take_members(reader)?;
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(reader.bytes(16)?);
        let (start, covered_below) = (take_u32(reader)?, Lsn(take_number(reader)?));
        let chain = match version {
            VERSION_CHAIN => {
                let (epoch, members) = (Epoch(take_u32(reader)?), take_members(reader)?);
                let joining = take_u32(reader)?.checked_sub(1).map(NodeId);
                Some(Arc::new(Membership { epoch, members, joining }))
            }
            _ => None,
        };
        let accepted = if version == VERSION_ACCEPTED { take_accepted(reader)? } else { Vec::new() };
        let kin = Kin { namespace, durability, hash_key, epoch, members, chain };
        Ok(StoredHead { kin, start, covered_below, accepted })
    }
}

fn put_accepted(accepted: &[paxos::Record], out: &mut Vec<u8>) {
    put_number(accepted.len() as u64, out);
    let mut bytes = Vec::new();
    for record in accepted {
        bytes.clear();
        record.encode(&mut bytes);
        put_bytes(&bytes, out);
    }
}

fn take_accepted(reader: &mut Reader<'_>) -> Result<Vec<paxos::Record>, Malformed> {
    let count = take_number(reader)?;
    (0..count).map(|_| paxos::Record::decode_all(take_bytes(reader)?)).collect()
}

fn put_members(members: &[NodeId], out: &mut Vec<u8>) {
    out.push(members.len() as u8);
    members.iter().for_each(|member| put_number(u64::from(member.0), out));
}

fn take_members(reader: &mut Reader<'_>) -> Result<Arc<[NodeId]>, Malformed> {
    let count = reader.u8()?;
    (0..count).map(|_| take_u32(reader).map(NodeId)).collect()
}

/// What a replica is bound by beside its next slot: three numbers.
fn bound_of(position: &Position) -> Option<[u64; 3]> {
    match position {
        Position::Paxos(position) => {
            let not_known = position.next_slot.0.saturating_sub(position.frontier_majority.0);
            Some([not_known, u64::from(position.promised.number), u64::from(position.promised.node.0)])
        }
        Position::Chain(position) => {
            let set = |is: bool, bit: u8| if is { bit } else { 0 };
            let standing = set(position.established, standing::ESTABLISHED) | set(position.joined, standing::JOINED);
            Some([u64::from(position.since.0), u64::from(standing), 0])
        }
        Position::Register(_) => None,
    }
}

fn position_of(kin: &Kin, next_slot: Slot, bound: [u64; 3], time: Stamp, stopped: bool) -> Result<Position, Malformed> {
    let u32 = |number: u64| u32::try_from(number).map_err(|_| Malformed::UnknownTag { of: "bound at rest", tag: 0 });
    Ok(match &kin.chain {
        None => Position::Paxos(paxos::Position {
            next_slot,
            promised: Ballot { number: u32(bound[1])?, node: NodeId(u32(bound[2])?) },
            frontier_majority: Slot(next_slot.0.saturating_sub(bound[0])),
            time,
            stopped,
        }),
        Some(chain) => Position::Chain(chain::Position {
            next_slot,
            time,
            stopped,
            membership: chain.clone(),
            since: Epoch(u32(bound[0])?),
            established: bound[1] & u64::from(standing::ESTABLISHED) != 0,
            joined: bound[1] & u64::from(standing::JOINED) != 0,
        }),
    })
}

/// What there is of a group that comes to rest.
pub(crate) struct RestOf<'a> {
    pub position: &'a Position,
    pub coordinating: bool,
    pub state: GroupState,
    pub name: &'a [u8],
    pub machine: &'a Machine,
}

impl RestOf<'_> {
    /// Appends its fields. The object stands among them unless it has a place of its own.
    pub(crate) fn encode(&self, object: Option<&[u8]>, is_apart: bool, out: &mut Vec<u8>) {
        let RestOf { position, coordinating, state, name, machine } = *self;
        let Some(bound) = bound_of(position) else { return };
        let time = position.time();
        let object = object.filter(|_| !is_apart);
        let expiry = machine.next_expiry();
        let set = |is: bool, flag: u8| if is { flag } else { 0 };
        out.push(
            set(position.stopped(), flag::STOPPED)
                | set(coordinating, flag::COORDINATING)
                | set(object.is_some(), flag::OBJECT)
                | set(is_apart, flag::APART)
                | set(state == GroupState::Forgetful, flag::FORGETFUL)
                | set(state == GroupState::Damaged, flag::DAMAGED)
                | set(expiry.is_some(), flag::EXPIRES)
                | set(!machine.results().is_empty(), flag::RESULTS),
        );
        put_number(position.next_slot().0, out);
        bound.into_iter().for_each(|number| put_number(number, out));
        put_number(time.0, out);
        put_near(machine.time().0, time.0, out);
        if let Some(expiry) = expiry {
            put_near(expiry.0, time.0, out);
        }
        put_bytes(name, out);
        if let Some(object) = object {
            put_bytes(object, out);
        }
        if !machine.results().is_empty() {
            machine.results().encode_short(time, name_tag(Some(name)), out);
        }
    }
}

impl Rest {
    /// Takes back what [`RestOf::encode`] wrote.
    pub(crate) fn decode(kin: &Kin, mut reader: Reader<'_>) -> Result<Rest, Malformed> {
        let reader = &mut reader;
        let flags = reader.u8()?;
        let is = |flag: u8| flags & flag != 0;
        let next_slot = Slot(take_number(reader)?);
        let bound = [take_number(reader)?, take_number(reader)?, take_number(reader)?];
        let time = Stamp(take_number(reader)?);
        let position = position_of(kin, next_slot, bound, time, is(flag::STOPPED))?;
        let machine_time = Stamp(take_near(time.0, reader)?);
        if is(flag::EXPIRES) {
            take_near(time.0, reader)?;
        }
        let name = take_bytes(reader)?;
        let mut objects = Objects::new(kin.hash_key);
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
    pub has_object: bool,
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
    let has_object = flags & (flag::OBJECT | flag::APART) != 0;
    Ok(Glance { expiry, has_object, name_if_apart: (flags & flag::APART != 0).then(|| name.to_vec()) })
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
        let kin = self.kin.get(take_number(&mut reader).ok()? as usize)?;
        if let Some(chain) = &kin.chain {
            return Some(chain.head());
        }
        reader.u8().ok()?;
        for _ in 0..3 {
            take_number(&mut reader).ok()?;
        }
        take_u32(&mut reader).ok().map(NodeId)
    }

    /// The epoch and the next slot of a chain that rests here.
    pub(crate) fn chain(&self, group: GroupId) -> Option<(Epoch, Slot)> {
        let mut reader = Reader::new(&self.find(group)?[GROUP_BYTES..]);
        let kin = self.kin.get(take_number(&mut reader).ok()? as usize)?;
        let epoch = kin.chain.as_ref()?.epoch;
        reader.u8().ok()?;
        Some((epoch, Slot(take_number(&mut reader).ok()?)))
    }

    /// Takes apart what [`Resting::take`] gave.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<(Kin, Rest), Malformed> {
        let mut reader = Reader::new(&bytes[GROUP_BYTES..]);
        let number = take_u32(&mut reader)?;
        let kin = self.kin.get(number as usize).ok_or(Malformed::UnknownTag { of: "kin", tag: 0 })?.clone();
        let rest = Rest::decode(&kin, reader)?;
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
    use quorate_protocol::Value;
    use quorate_protocol::id::Content;

    use super::*;
    use crate::envelope::Ticket;
    use crate::volume::Frozen;

    fn kin() -> Kin {
        let members = [NodeId(1), NodeId(2), NodeId(3)].into();
        Kin { namespace: 0, durability: Durability::Sync, hash_key: [7; 16], epoch: Epoch(0), members, chain: None }
    }

    fn kin_of_chain() -> Kin {
        let members = [NodeId(3), NodeId(1)].into();
        let chain = Membership { epoch: Epoch(9), members, joining: Some(NodeId(2)) };
        Kin { chain: Some(Arc::new(chain)), ..kin() }
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
        Position::Paxos(paxos::Position {
            next_slot: Slot(300),
            promised: Ballot { number: 4, node: NodeId(2) },
            frontier_majority: Slot(299),
            time: Stamp(1_700_000_000_000),
            stopped: false,
        })
    }

    fn in_flight() -> Vec<paxos::Record> {
        let value = |content| Value { stamp: Stamp(1_700_000_000_001), seed: 5, content };
        let ballot = Ballot { number: 3, node: NodeId(1) };
        let (first, second) = (value(Content::Commands((*b"command").into())), value(Content::Mark));
        vec![
            paxos::Record::Accepted { ballot, slot: Slot(300), value: first, frontier: Slot(300) },
            paxos::Record::Decided { slot: Slot(302), value: second },
        ]
    }

    fn position_in_chain() -> Position {
        Position::Chain(chain::Position {
            next_slot: Slot(300),
            time: Stamp(1_700_000_000_000),
            stopped: false,
            membership: kin_of_chain().chain.expect("it is one"),
            since: Epoch(7),
            established: true,
            joined: false,
        })
    }

    fn put(resting: &mut Resting, group: GroupId, value: &[u8]) -> usize {
        put_of(resting, group, &kin(), &position(), value)
    }

    fn put_of(resting: &mut Resting, group: GroupId, kin: &Kin, position: &Position, value: &[u8]) -> usize {
        let mut bytes = Vec::new();
        resting.head(group, kin, &mut bytes);
        let machine = machine(value);
        let object = machine.objects().and_then(|objects| objects.encoded(b"name"));
        let state = GroupState::Alive;
        let rest = RestOf { position, coordinating: true, state, name: b"name", machine: &machine };
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
    fn a_member_of_a_chain_comes_back_as_it_went_to_rest() {
        let mut resting = Resting::default();
        put_of(&mut resting, GroupId(5), &kin_of_chain(), &position_in_chain(), b"value");
        assert_eq!(resting.coordinator(GroupId(5)), Some(NodeId(3)));
        assert_eq!(resting.chain(GroupId(5)), Some((Epoch(9), Slot(300))));
        let bytes = resting.take(GroupId(5)).expect("it rests");
        let (back, rest) = resting.decode(&bytes).unwrap();
        assert_eq!((back, rest.position, &*rest.name), (kin_of_chain(), position_in_chain(), &b"name"[..]));
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
        for (kin, position) in [(kin(), position()), (kin_of_chain(), position_in_chain())] {
            let mut record = Vec::new();
            let accepted = if kin.chain.is_some() { Vec::new() } else { in_flight() };
            StoredHead { kin: kin.clone(), start: 2, covered_below: Lsn(1 << 30), accepted }.encode(&mut record);
            let machine = machine(b"value");
            let object = machine.objects().and_then(|objects| objects.encoded(b"name"));
            let state = GroupState::Forgetful;
            let rest = RestOf { position: &position, coordinating: false, state, name: b"name", machine: &machine };
            rest.encode(object.as_deref(), false, &mut record);
            let decoded = |bytes: &[u8]| {
                let mut reader = Reader::new(bytes);
                let head = StoredHead::take(&mut reader)?;
                Ok::<_, Malformed>((Rest::decode(&head.kin, reader)?, head))
            };
            let (rest, head) = decoded(&record).unwrap();
            let is_paxos = kin.chain.is_none();
            assert_eq!((rest.state, rest.position, head.kin), (GroupState::Forgetful, position, kin));
            assert_eq!(head.accepted, if is_paxos { in_flight() } else { Vec::new() });
            assert!(glance(&record).is_ok());
            for length in 0..record.len() {
                assert!(decoded(&record[..length]).is_err(), "{length} bytes");
            }
        }
    }
}
