//! Sets: members, each once, in the order in which they came.
//!
//! # Bytes
//!
//! An operation is a code byte and its fields, little-endian, byte strings with a `u32` length, lists with a `u32` count: 0 Add
//! (members), 1 Remove (members), 2 Has (member), 3 HasEach (members), 4 Members, 5 Len, 6 Pop (a byte 0, or 1 and the count u64),
//! 7 Random (chance), 8 Scan. A change: 0 Add (members), 1 Remove (members), 2 Clear. A code never changes its meaning.

use std::borrow::Cow;

use indexmap::IndexSet;

use crate::OBJECT_BYTES_MAX;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_optional_u64};
use crate::collection::{
    Chance, ElementScan, HEAD_BYTES, HashKey, PIECE_BYTES, TOO_LARGE, bulk, distinct, error, int, keeps_order,
    read_list, room_to_keep, write_list,
};
use crate::outcome::Outcome;

/// What a member costs besides its bytes, about: its entry and its place in the index with room to grow, and an allocation.
const MEMBER_BYTES: usize = 56;

#[derive(Debug)]
pub(crate) struct Set {
    members: IndexSet<Box<[u8]>, HashKey>,
    /// Of all members.
    bytes: usize,
}

/// What can be asked of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetOp<'a> {
    Add {
        members: Vec<&'a [u8]>,
    },
    Remove {
        members: Vec<&'a [u8]>,
    },
    Has {
        member: &'a [u8],
    },
    HasEach {
        members: Vec<&'a [u8]>,
    },
    Members,
    Len,
    Pop {
        /// `None` for one member in place of a set of them.
        count: Option<u64>,
    },
    Random {
        chance: Chance,
    },
    Scan(ElementScan<'a>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetChange<'a> {
    Add(Vec<&'a [u8]>),
    Remove(Vec<Cow<'a, [u8]>>),
    /// All of them.
    Clear,
}

impl Set {
    pub(crate) fn new(key: HashKey) -> Set {
        Set { members: IndexSet::with_hasher(key), bytes: 0 }
    }

    /// Of these members.
    pub(crate) fn of(members: Vec<&[u8]>, key: HashKey) -> Set {
        let mut set = Set::new(key);
        set.apply(SetChange::Add(members));
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes + self.members.len() * MEMBER_BYTES
    }

    pub(crate) fn apply(&mut self, change: SetChange<'_>) {
        match change {
            SetChange::Add(members) => members.into_iter().for_each(|member| {
                self.add(member);
            }),
            SetChange::Remove(members) => {
                members.iter().for_each(|member| self.remove(member));
                self.give_back();
            }
            SetChange::Clear => {
                self.members.clear();
                self.bytes = 0;
            }
        }
    }

    /// Whether it was not there.
    fn add(&mut self, member: &[u8]) -> bool {
        let is_new = self.members.insert(member.into());
        if is_new {
            self.bytes += member.len();
        }
        is_new
    }

    fn remove(&mut self, member: &[u8]) {
        let was_there = match keeps_order(self.members.len()) {
            true => self.members.shift_remove(member),
            false => self.members.swap_remove(member),
        };
        if was_there {
            self.bytes -= member.len();
        }
    }

    /// The memory of places that a set has no more members for.
    fn give_back(&mut self) {
        if let Some(room) = room_to_keep(self.members.len(), self.members.capacity()) {
            self.members.shrink_to(room);
        }
    }

    /// What a checkpoint stores: the members in their order.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_list(out, self.members.iter().map(|member| &**member));
    }

    pub(crate) fn decode(r: &mut Reader<'_>, key: HashKey) -> Result<Set, Malformed> {
        let mut set = Set::new(key);
        for _ in 0..r.u32()? {
            if !set.add(r.bytes()?) {
                return malformed("a member comes twice");
            }
        }
        Ok(set)
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn has(&self, member: &[u8]) -> bool {
        self.members.contains(member)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(|member| &**member)
    }

    /// What it takes in answers and where it is stored.
    pub(crate) fn stored_bytes(&self) -> usize {
        HEAD_BYTES + self.bytes + self.members.len() * PIECE_BYTES
    }

    fn name(&self, place: usize) -> &[u8] {
        self.members.get_index(place).map_or(&b""[..], |member| member)
    }
}

type Effect<'a> = (Option<SetChange<'a>>, Outcome);

impl<'a> SetOp<'a> {
    pub(crate) fn is_read(&self) -> bool {
        match self {
            SetOp::Has { .. }
            | SetOp::HasEach { .. }
            | SetOp::Members
            | SetOp::Len
            | SetOp::Random { .. }
            | SetOp::Scan(_) => true,
            SetOp::Add { .. } | SetOp::Remove { .. } | SetOp::Pop { .. } => false,
        }
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        match self {
            SetOp::Add { members } => Some(members.iter().map(|member| member.len() + MEMBER_BYTES).sum()),
            _ => None,
        }
    }

    /// What it changes of the set, if there is one, and what it answers. `seed` chooses what SPOP takes.
    pub(crate) fn execute(&self, set: Option<&Set>, seed: u64) -> Effect<'a> {
        let has = |member: &[u8]| set.is_some_and(|set| set.has(member));
        let len = set.map_or(0, Set::len);
        match self {
            SetOp::Add { members } => add(set, distinct(members.iter().copied(), |member| !has(member))),
            SetOp::Remove { members } => {
                let there = distinct(members.iter().copied(), has);
                let outcome = int(there.len());
                let change = || SetChange::Remove(there.iter().map(|member| Cow::Borrowed(*member)).collect());
                ((!there.is_empty()).then(change), outcome)
            }
            SetOp::Has { member } => (None, Outcome::Int(i64::from(has(member)))),
            SetOp::HasEach { members } => {
                let answers = members.iter().map(|member| Outcome::Int(i64::from(has(member))));
                (None, Outcome::List(answers.collect()))
            }
            SetOp::Members => {
                let members = set.into_iter().flat_map(Set::members);
                (None, Outcome::Set(members.map(bulk).collect()))
            }
            SetOp::Len => (None, int(len)),
            SetOp::Pop { count } => pop(set, *count, seed),
            SetOp::Random { chance } => (None, random(set, *chance)),
            SetOp::Scan(scan) => {
                let name = |place| set.map_or(&b""[..], |set| set.name(place));
                (None, scan.answer(len, name, |place, out| out.push(bulk(name(place)))))
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SetOp::Add { members } => write_members(out, 0, members),
            SetOp::Remove { members } => write_members(out, 1, members),
            SetOp::Has { member } => {
                out.push(2);
                write_bytes(out, member);
            }
            SetOp::HasEach { members } => write_members(out, 3, members),
            SetOp::Members => out.push(4),
            SetOp::Len => out.push(5),
            SetOp::Pop { count } => {
                out.push(6);
                write_optional_u64(out, *count);
            }
            SetOp::Random { chance } => {
                out.push(7);
                chance.encode(out);
            }
            SetOp::Scan(scan) => {
                out.push(8);
                scan.encode(out);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<SetOp<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => SetOp::Add { members: read_list(r)? },
            1 => SetOp::Remove { members: read_list(r)? },
            2 => SetOp::Has { member: r.bytes()? },
            3 => SetOp::HasEach { members: read_list(r)? },
            4 => SetOp::Members,
            5 => SetOp::Len,
            6 => SetOp::Pop { count: r.optional(Reader::u64)? },
            7 => SetOp::Random { chance: Chance::decode(r)? },
            8 => SetOp::Scan(ElementScan::decode(r)?),
            _ => return malformed("unknown operation on a set"),
        })
    }
}

/// Adds these, which are not there, unless the set would be too large then.
fn add<'a>(set: Option<&Set>, new: Vec<&'a [u8]>) -> Effect<'a> {
    let bytes: usize = new.iter().map(|member| member.len() + PIECE_BYTES).sum();
    if set.map_or(HEAD_BYTES, Set::stored_bytes) + bytes > OBJECT_BYTES_MAX {
        return (None, error(TOO_LARGE));
    }
    let outcome = int(new.len());
    ((!new.is_empty()).then_some(SetChange::Add(new)), outcome)
}

/// Names those that it takes, but for all of them.
fn pop<'a>(set: Option<&Set>, count: Option<u64>, seed: u64) -> Effect<'a> {
    let len = set.map_or(0, |set| set.members.len());
    // There are far fewer members than the largest count.
    let chance = Chance { count: count.map(|count| i64::try_from(count).unwrap_or(i64::MAX)), seed };
    let places = match chance.places(len, |_| 0) {
        Ok(places) => places,
        Err(refused) => return (None, refused),
    };
    let taken: Vec<&[u8]> = set.iter().flat_map(|set| places.iter().map(|place| set.name(*place))).collect();
    let change = match taken.len() {
        0 => None,
        all if all == len => Some(SetChange::Clear),
        _ => Some(SetChange::Remove(taken.iter().map(|member| Cow::Owned(member.to_vec())).collect())),
    };
    let mut shown: Vec<Outcome> = taken.into_iter().map(bulk).collect();
    match count {
        None => (change, shown.pop().unwrap_or(Outcome::Nil)),
        Some(_) => (change, Outcome::Set(shown)),
    }
}

fn random(set: Option<&Set>, chance: Chance) -> Outcome {
    let len = set.map_or(0, |set| set.members.len());
    let places = match chance.places(len, |place| set.map_or(0, |set| PIECE_BYTES + set.name(place).len())) {
        Ok(places) => places,
        Err(refused) => return refused,
    };
    let mut shown: Vec<Outcome> =
        set.iter().flat_map(|set| places.iter().map(|place| bulk(set.name(*place)))).collect();
    match chance.count {
        None => shown.pop().unwrap_or(Outcome::Nil),
        Some(_) => Outcome::List(shown),
    }
}

fn write_members(out: &mut Vec<u8>, code: u8, members: &[&[u8]]) {
    out.push(code);
    write_list(out, members.iter().copied());
}

impl<'a> SetChange<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SetChange::Add(members) => write_members(out, 0, members),
            SetChange::Remove(members) => {
                out.push(1);
                write_list(out, members.iter().map(|member| &**member));
            }
            SetChange::Clear => out.push(2),
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<SetChange<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => SetChange::Add(read_list(r)?),
            1 => SetChange::Remove(read_list(r)?.into_iter().map(Cow::Borrowed).collect()),
            2 => SetChange::Clear,
            _ => return malformed("unknown change of a set"),
        })
    }
}
