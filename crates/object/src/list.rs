//! Lists: elements that may be equal, from the left to the right.
//!
//! # Bytes
//!
//! An operation is a code byte and its fields, little-endian, byte strings with a `u32` length, lists with a `u32` count, what may
//! be missing after a byte 0 or 1; a side is 0 for left and 1 for right: 0 Push (side u8, if there u8, values), 1 Pop (side u8,
//! optional count u64), 2 Len, 3 Range (start i64, stop i64), 4 Index (index as text), 5 Set (index as text, value), 6 Insert (after
//! u8, pivot, value), 7 Remove (count i64, element), 8 Trim (start i64, stop i64), 9 Pos (element, rank i64, optional count u64,
//! most compared u64). A change: 0 Push (side u8, values), 1 Trim (start u32, len u32), 2 Write (index u32, value), 3 Insert
//! (index u32, value), 4 Remove (count i64, element). A code never changes its meaning.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use crate::OBJECT_BYTES_MAX;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_optional_u64};
use crate::collection::{
    ANSWER_TOO_LONG, HEAD_BYTES, NOT_AN_INTEGER, PIECE_BYTES, TOO_LARGE, bulk, error, int, read_list, room_to_keep,
    write_list,
};
use crate::number;
use crate::outcome::Outcome;

/// What an element costs besides its bytes, about: its place with room to grow, and an allocation.
pub(crate) const ELEMENT_BYTES: usize = 40;

#[derive(Debug)]
pub(crate) struct List {
    elements: VecDeque<Box<[u8]>>,
    /// Of all elements.
    bytes: usize,
}

/// What can be asked of a list. An index or rank is negative if it counts from the right, where -1 is the last element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListOp<'a> {
    Push {
        side: ListSide,
        values: Vec<&'a [u8]>,
        /// LPUSHX and RPUSHX make no new list.
        if_there: bool,
    },
    Pop {
        side: ListSide,
        /// `None` for one element in place of a list of them.
        count: Option<u64>,
    },
    Len,
    Range {
        start: i64,
        stop: i64,
    },
    /// What the index is, is looked at only where there is a list.
    Index {
        index: &'a [u8],
    },
    Set {
        index: &'a [u8],
        value: &'a [u8],
    },
    Insert {
        after: bool,
        pivot: &'a [u8],
        value: &'a [u8],
    },
    /// So many from the left, or from the right if `count` is negative; 0 for all.
    Remove {
        count: i64,
        element: &'a [u8],
    },
    Trim {
        start: i64,
        stop: i64,
    },
    Pos {
        element: &'a [u8],
        /// Which match is the first that counts, from 1.
        rank: i64,
        /// `None` for one index in place of a list of them, 0 for all.
        count: Option<u64>,
        /// How many elements are compared; 0 for all.
        compared_max: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSide {
    Left,
    Right,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListChange<'a> {
    /// One after the other, so that those on the left end up in the opposite order.
    Push {
        side: ListSide,
        values: Vec<Cow<'a, [u8]>>,
    },
    /// Only `len` elements stay, from `start` on.
    Trim {
        start: u32,
        len: u32,
    },
    Write {
        index: u32,
        value: &'a [u8],
    },
    /// The value gets this index.
    Insert {
        index: u32,
        value: &'a [u8],
    },
    /// As the operation. It is told by the element, since indexes of many would take far more bytes.
    Remove {
        count: i64,
        element: &'a [u8],
    },
}

impl List {
    pub(crate) fn new() -> List {
        List { elements: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes + self.elements.len() * ELEMENT_BYTES
    }

    /// An index beyond the end changes nothing.
    pub(crate) fn apply(&mut self, change: ListChange<'_>) {
        match change {
            ListChange::Push { side, values } => values.iter().for_each(|value| self.push(side, value)),
            ListChange::Trim { start, len } => self.trim(start as usize, len as usize),
            ListChange::Write { index, value } => {
                if let Some(old) = self.elements.get_mut(index as usize) {
                    self.bytes = self.bytes - old.len() + value.len();
                    *old = value.into();
                }
            }
            ListChange::Insert { index, value } => {
                if index as usize <= self.elements.len() {
                    self.bytes += value.len();
                    self.elements.insert(index as usize, value.into());
                }
            }
            ListChange::Remove { count, element } => self.remove(count, element),
        }
    }

    fn push(&mut self, side: ListSide, value: &[u8]) {
        self.bytes += value.len();
        match side {
            ListSide::Left => self.elements.push_front(value.into()),
            ListSide::Right => self.elements.push_back(value.into()),
        }
    }

    fn trim(&mut self, start: usize, len: usize) {
        let end = start.saturating_add(len).min(self.elements.len());
        let start = start.min(end);
        for gone in self.elements.drain(end..) {
            self.bytes -= gone.len();
        }
        for gone in self.elements.drain(..start) {
            self.bytes -= gone.len();
        }
        self.give_back();
    }

    fn remove(&mut self, count: i64, element: &[u8]) {
        let matches = self.count(element);
        let removed = removed_of(matches, count);
        let first = if count < 0 { matches - removed } else { 0 };
        let mut met = 0..;
        self.elements.retain(|other| {
            **other != *element || !met.next().is_some_and(|met| (first..first + removed).contains(&met))
        });
        self.bytes -= removed * element.len();
        self.give_back();
    }

    /// The memory of places that a list has no more elements for.
    fn give_back(&mut self) {
        if let Some(room) = room_to_keep(self.elements.len(), self.elements.capacity()) {
            self.elements.shrink_to(room);
        }
    }

    /// What a checkpoint stores: the elements from the left.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_list(out, self.elements.iter().map(|element| &**element));
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<List, Malformed> {
        let mut list = List::new();
        for _ in 0..r.u32()? {
            list.push(ListSide::Right, r.bytes()?);
        }
        Ok(list)
    }

    /// How many elements are equal to this one.
    fn count(&self, element: &[u8]) -> usize {
        self.elements.iter().filter(|other| ***other == *element).count()
    }

    /// What it takes in answers and where it is stored.
    pub(crate) fn stored_bytes(&self) -> usize {
        HEAD_BYTES + self.bytes + self.elements.len() * PIECE_BYTES
    }

    /// The place that an index as a client writes it means, if there is one.
    fn place(&self, index: &[u8]) -> Result<Option<usize>, Outcome> {
        let Some(index) = number::parse_integer(index) else { return Err(error(NOT_AN_INTEGER)) };
        let place = usize::try_from(from_left(index, self.elements.len())).ok();
        Ok(place.filter(|place| *place < self.elements.len()))
    }
}

/// How many of so many equal elements LREM removes.
fn removed_of(matches: usize, count: i64) -> usize {
    match count {
        0 => matches,
        _ => usize::try_from(count.unsigned_abs()).map_or(matches, |count| count.min(matches)),
    }
}

/// An index that may count from the right; negative if that goes beyond the left end.
fn from_left(index: i64, len: usize) -> i64 {
    if index < 0 { index + len as i64 } else { index }
}

/// The places of a range with both ends.
fn places(start: i64, stop: i64, len: usize) -> Range<usize> {
    let start = from_left(start, len).max(0);
    let stop = from_left(stop, len).min(len as i64 - 1);
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// As changes tell it.
fn narrow(place: usize) -> u32 {
    u32::try_from(place).expect("an object has no room for so many elements")
}

type Effect<'a> = (Option<ListChange<'a>>, Outcome);

impl<'a> ListOp<'a> {
    pub(crate) fn is_read(&self) -> bool {
        match self {
            ListOp::Len | ListOp::Range { .. } | ListOp::Index { .. } | ListOp::Pos { .. } => true,
            ListOp::Push { .. }
            | ListOp::Pop { .. }
            | ListOp::Set { .. }
            | ListOp::Insert { .. }
            | ListOp::Remove { .. }
            | ListOp::Trim { .. } => false,
        }
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        match self {
            ListOp::Push { values, .. } => Some(values.iter().map(|value| value.len() + ELEMENT_BYTES).sum()),
            ListOp::Set { value, .. } => Some(value.len()),
            ListOp::Insert { value, .. } => Some(value.len() + ELEMENT_BYTES),
            _ => None,
        }
    }

    /// What it changes of the list, if there is one, and what it answers.
    pub(crate) fn execute(&self, list: Option<&List>, _seed: u64) -> Effect<'a> {
        let len = list.map_or(0, |list| list.elements.len());
        match self {
            ListOp::Push { if_there: true, .. } if list.is_none() => (None, Outcome::Int(0)),
            ListOp::Push { side, values, .. } => {
                push(list, *side, values.iter().map(|value| Cow::Borrowed(*value)).collect())
            }
            ListOp::Pop { side, count } => pop(list, *side, *count),
            ListOp::Len => (None, int(len)),
            ListOp::Range { start, stop } => {
                let shown = list.map(|list| list.elements.range(places(*start, *stop, len)));
                (None, Outcome::List(shown.into_iter().flatten().map(|element| bulk(element)).collect()))
            }
            ListOp::Index { index } => (None, list.map_or(Outcome::Nil, |list| element_at(list, index))),
            ListOp::Set { index, value } => match list {
                Some(list) => set(list, index, value),
                None => (None, error("ERR no such key")),
            },
            ListOp::Insert { after, pivot, value } => match list {
                Some(list) => insert(list, *after, pivot, value),
                None => (None, Outcome::Int(0)),
            },
            ListOp::Remove { count, element } => {
                let removed = removed_of(list.map_or(0, |list| list.count(element)), *count);
                ((removed > 0).then_some(ListChange::Remove { count: *count, element }), int(removed))
            }
            ListOp::Trim { start, stop } => {
                let kept = places(*start, *stop, len);
                let change = ListChange::Trim { start: narrow(kept.start), len: narrow(kept.len()) };
                ((kept.len() < len).then_some(change), Outcome::Ok)
            }
            ListOp::Pos { element, rank, count, compared_max } => {
                (None, positions(list, element, *rank, *count, *compared_max))
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ListOp::Push { side, values, if_there } => {
                out.extend_from_slice(&[0, side.code(), u8::from(*if_there)]);
                write_list(out, values.iter().copied());
            }
            ListOp::Pop { side, count } => {
                out.extend_from_slice(&[1, side.code()]);
                write_optional_u64(out, *count);
            }
            ListOp::Len => out.push(2),
            ListOp::Range { start, stop } => write_integers(out, 3, *start, *stop),
            ListOp::Index { index } => {
                out.push(4);
                write_bytes(out, index);
            }
            ListOp::Set { index, value } => {
                out.push(5);
                write_bytes(out, index);
                write_bytes(out, value);
            }
            ListOp::Insert { after, pivot, value } => {
                out.extend_from_slice(&[6, u8::from(*after)]);
                write_bytes(out, pivot);
                write_bytes(out, value);
            }
            ListOp::Remove { count, element } => {
                out.push(7);
                out.extend_from_slice(&count.to_le_bytes());
                write_bytes(out, element);
            }
            ListOp::Trim { start, stop } => write_integers(out, 8, *start, *stop),
            ListOp::Pos { element, rank, count, compared_max } => {
                out.push(9);
                write_bytes(out, element);
                out.extend_from_slice(&rank.to_le_bytes());
                write_optional_u64(out, *count);
                out.extend_from_slice(&compared_max.to_le_bytes());
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<ListOp<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => ListOp::Push { side: ListSide::decode(r)?, if_there: r.flag()?, values: read_list(r)? },
            1 => ListOp::Pop { side: ListSide::decode(r)?, count: r.optional(Reader::u64)? },
            2 => ListOp::Len,
            3 => ListOp::Range { start: r.i64()?, stop: r.i64()? },
            4 => ListOp::Index { index: r.bytes()? },
            5 => ListOp::Set { index: r.bytes()?, value: r.bytes()? },
            6 => ListOp::Insert { after: r.flag()?, pivot: r.bytes()?, value: r.bytes()? },
            7 => ListOp::Remove { count: r.i64()?, element: r.bytes()? },
            8 => ListOp::Trim { start: r.i64()?, stop: r.i64()? },
            9 => ListOp::Pos {
                element: r.bytes()?,
                rank: r.i64()?,
                count: r.optional(Reader::u64)?,
                compared_max: r.u64()?,
            },
            _ => return malformed("unknown operation on a list"),
        })
    }
}

fn write_integers(out: &mut Vec<u8>, code: u8, first: i64, second: i64) {
    out.push(code);
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&second.to_le_bytes());
}

/// Adds these, unless the list would be too large then.
pub(crate) fn push<'a>(list: Option<&List>, side: ListSide, values: Vec<Cow<'a, [u8]>>) -> Effect<'a> {
    let new: usize = values.iter().map(|value| value.len() + PIECE_BYTES).sum();
    if list.map_or(HEAD_BYTES, List::stored_bytes) + new > OBJECT_BYTES_MAX {
        return (None, error(TOO_LARGE));
    }
    let len = list.map_or(0, |list| list.elements.len()) + values.len();
    (Some(ListChange::Push { side, values }), int(len))
}

fn pop<'a>(list: Option<&List>, side: ListSide, count: Option<u64>) -> Effect<'a> {
    let Some(list) = list else {
        return (None, if count.is_some() { Outcome::NilList } else { Outcome::Nil });
    };
    let len = list.elements.len();
    let popped = usize::try_from(count.unwrap_or(1)).map_or(len, |count| count.min(len));
    let kept = len - popped;
    let mut shown: Vec<Outcome> = match side {
        ListSide::Left => list.elements.range(..popped).map(|element| bulk(element)).collect(),
        ListSide::Right => list.elements.range(kept..).rev().map(|element| bulk(element)).collect(),
    };
    let start = if side == ListSide::Left { popped } else { 0 };
    let change = (popped > 0).then(|| ListChange::Trim { start: narrow(start), len: narrow(kept) });
    match count {
        None => (change, shown.pop().unwrap_or(Outcome::Nil)),
        Some(_) => (change, Outcome::List(shown)),
    }
}

fn element_at(list: &List, index: &[u8]) -> Outcome {
    match list.place(index) {
        Ok(place) => place.and_then(|place| list.elements.get(place)).map_or(Outcome::Nil, |element| bulk(element)),
        Err(refused) => refused,
    }
}

fn set<'a>(list: &List, index: &[u8], value: &'a [u8]) -> Effect<'a> {
    let place = match list.place(index) {
        Ok(Some(place)) => place,
        Ok(None) => return (None, error("ERR index out of range")),
        Err(refused) => return (None, refused),
    };
    if list.stored_bytes() - list.elements[place].len() + value.len() > OBJECT_BYTES_MAX {
        return (None, error(TOO_LARGE));
    }
    (Some(ListChange::Write { index: narrow(place), value }), Outcome::Ok)
}

fn insert<'a>(list: &List, after: bool, pivot: &[u8], value: &'a [u8]) -> Effect<'a> {
    let Some(place) = list.elements.iter().position(|element| **element == *pivot) else {
        return (None, Outcome::Int(-1));
    };
    if list.stored_bytes() + value.len() + PIECE_BYTES > OBJECT_BYTES_MAX {
        return (None, error(TOO_LARGE));
    }
    let index = narrow(place + usize::from(after));
    (Some(ListChange::Insert { index, value }), int(list.elements.len() + 1))
}

/// What LPOS answers.
fn positions(list: Option<&List>, element: &[u8], rank: i64, count: Option<u64>, compared_max: u64) -> Outcome {
    let all_if_zero = |number: u64| match number {
        0 => usize::MAX,
        _ => usize::try_from(number).unwrap_or(usize::MAX),
    };
    let passed_over = usize::try_from(rank.unsigned_abs().saturating_sub(1)).unwrap_or(usize::MAX);
    let len = list.map_or(0, |list| list.elements.len());
    let mut found = (0..len)
        .map(|step| if rank < 0 { len - 1 - step } else { step })
        .take(all_if_zero(compared_max))
        .filter(|place| list.is_some_and(|list| *list.elements[*place] == *element))
        .skip(passed_over)
        .map(int);
    match count {
        None => found.next().unwrap_or(Outcome::Nil),
        Some(count) => {
            // Each number is nine bytes.
            let most = OBJECT_BYTES_MAX / 9;
            let found: Vec<Outcome> = found.take(all_if_zero(count)).take(most + 1).collect();
            if found.len() > most { error(ANSWER_TOO_LONG) } else { Outcome::List(found) }
        }
    }
}

impl ListSide {
    pub(crate) fn code(self) -> u8 {
        match self {
            ListSide::Left => 0,
            ListSide::Right => 1,
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<ListSide, Malformed> {
        Ok(if r.flag()? { ListSide::Right } else { ListSide::Left })
    }
}

impl<'a> ListChange<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ListChange::Push { side, values } => {
                out.extend_from_slice(&[0, side.code()]);
                write_list(out, values.iter().map(|value| &**value));
            }
            ListChange::Trim { start, len } => {
                out.push(1);
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&len.to_le_bytes());
            }
            ListChange::Write { index, value } => write_at(out, 2, *index, value),
            ListChange::Insert { index, value } => write_at(out, 3, *index, value),
            ListChange::Remove { count, element } => {
                out.push(4);
                out.extend_from_slice(&count.to_le_bytes());
                write_bytes(out, element);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<ListChange<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => ListChange::Push {
                side: ListSide::decode(r)?,
                values: read_list(r)?.into_iter().map(Cow::Borrowed).collect(),
            },
            1 => ListChange::Trim { start: r.u32()?, len: r.u32()? },
            2 => ListChange::Write { index: r.u32()?, value: r.bytes()? },
            3 => ListChange::Insert { index: r.u32()?, value: r.bytes()? },
            4 => ListChange::Remove { count: r.i64()?, element: r.bytes()? },
            _ => return malformed("unknown change of a list"),
        })
    }
}

fn write_at(out: &mut Vec<u8>, code: u8, index: u32, value: &[u8]) {
    out.push(code);
    out.extend_from_slice(&index.to_le_bytes());
    write_bytes(out, value);
}
