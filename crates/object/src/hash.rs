//! Hashes: fields with values, in the order in which the fields came.
//!
//! # Bytes
//!
//! An operation is a code byte and its fields, little-endian, byte strings with a `u32` length, lists with a `u32` count: 0 Set
//! (answer u8: 0 count, 1 OK; pairs), 1 SetNx (field, value), 2 Get (field), 3 MGet (fields), 4 All (what u8: 0 fields, 1 values,
//! 2 both), 5 Len, 6 Exists (field), 7 Strlen (field), 8 Del (fields), 9 IncrBy (field, i64), 10 IncrByFloat (field, f64), 11 Scan,
//! 12 Random (values u8, chance). A change: 0 Set (pairs), 1 Remove (fields). A code never changes its meaning.

use std::borrow::Cow;

use indexmap::IndexMap;

use crate::OBJECT_BYTES_MAX;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len};
use crate::collection::{
    ANSWER_TOO_LONG, Chance, ElementScan, HEAD_BYTES, HashKey, PIECE_BYTES, TOO_LARGE, bulk, distinct, error, int,
    keeps_order, read_list, room_to_keep, write_list,
};
use crate::number::{self, FloatError};
use crate::outcome::Outcome;

/// What a field costs besides its bytes, about: its entry and its place in the index with room to grow, two allocations.
const FIELD_BYTES: usize = 72;

#[derive(Debug)]
pub(crate) struct Hash {
    fields: IndexMap<Box<[u8]>, Box<[u8]>, HashKey>,
    /// Of all fields and values.
    bytes: usize,
}

/// What can be asked of a hash.
#[derive(Clone, Debug, PartialEq)]
pub enum HashOp<'a> {
    /// HSET answers how many fields are new, HMSET answers OK.
    Set {
        pairs: Vec<Pair<'a>>,
        answers_ok: bool,
    },
    SetNx {
        field: &'a [u8],
        value: &'a [u8],
    },
    Get {
        field: &'a [u8],
    },
    MGet {
        fields: Vec<&'a [u8]>,
    },
    All {
        what: HashPart,
    },
    Len,
    Exists {
        field: &'a [u8],
    },
    Strlen {
        field: &'a [u8],
    },
    Del {
        fields: Vec<&'a [u8]>,
    },
    IncrBy {
        field: &'a [u8],
        delta: i64,
    },
    IncrByFloat {
        field: &'a [u8],
        delta: f64,
    },
    Scan(ElementScan<'a>),
    Random {
        with_values: bool,
        chance: Chance,
    },
}

/// A field and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// What is shown of each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashPart {
    Field,
    Value,
    Both,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashChange<'a> {
    Set(Vec<(&'a [u8], Cow<'a, [u8]>)>),
    Remove(Vec<&'a [u8]>),
}

impl Hash {
    pub(crate) fn new(key: HashKey) -> Hash {
        Hash { fields: IndexMap::with_hasher(key), bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes + self.fields.len() * FIELD_BYTES
    }

    pub(crate) fn apply(&mut self, change: HashChange<'_>) {
        match change {
            HashChange::Set(pairs) => pairs.iter().for_each(|(field, value)| self.set(field, value)),
            HashChange::Remove(fields) => fields.into_iter().for_each(|field| self.remove(field)),
        }
    }

    fn set(&mut self, field: &[u8], value: &[u8]) {
        self.bytes += value.len();
        match self.fields.get_mut(field) {
            Some(old) => {
                self.bytes -= old.len();
                *old = value.into();
            }
            None => {
                self.bytes += field.len();
                self.fields.insert(field.into(), value.into());
            }
        }
    }

    fn remove(&mut self, field: &[u8]) {
        let removed = match keeps_order(self.fields.len()) {
            true => self.fields.shift_remove(field),
            false => self.fields.swap_remove(field),
        };
        if let Some(value) = removed {
            self.bytes -= field.len() + value.len();
        }
        if let Some(room) = room_to_keep(self.fields.len(), self.fields.capacity()) {
            self.fields.shrink_to(room);
        }
    }

    /// What a checkpoint stores: the fields in their order.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_len(out, self.fields.len());
        for (field, value) in &self.fields {
            write_bytes(out, field);
            write_bytes(out, value);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>, key: HashKey) -> Result<Hash, Malformed> {
        let mut hash = Hash::new(key);
        for count in 1..=r.u32()? as usize {
            let (field, value) = (r.bytes()?, r.bytes()?);
            hash.set(field, value);
            if hash.fields.len() != count {
                return malformed("a field comes twice");
            }
        }
        Ok(hash)
    }

    fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.fields.get(field).map(|value| &**value)
    }

    /// What it takes in answers and where it is stored.
    pub(crate) fn stored_bytes(&self) -> usize {
        HEAD_BYTES + self.bytes + self.fields.len() * 2 * PIECE_BYTES
    }

    /// What the field at a place takes in an answer, with its value.
    fn bytes_at(&self, place: usize) -> usize {
        self.fields.get_index(place).map_or(0, |(field, value)| field.len() + value.len() + 2 * PIECE_BYTES)
    }

    fn show(&self, place: usize, what: HashPart, out: &mut Vec<Outcome>) {
        let Some((field, value)) = self.fields.get_index(place) else { return };
        if what != HashPart::Value {
            out.push(bulk(field));
        }
        if what != HashPart::Field {
            out.push(bulk(value));
        }
    }
}

type Effect<'a> = (Option<HashChange<'a>>, Outcome);

impl<'a> HashOp<'a> {
    pub(crate) fn is_read(&self) -> bool {
        match self {
            HashOp::Get { .. }
            | HashOp::MGet { .. }
            | HashOp::All { .. }
            | HashOp::Len
            | HashOp::Exists { .. }
            | HashOp::Strlen { .. }
            | HashOp::Scan(_)
            | HashOp::Random { .. } => true,
            HashOp::Set { .. }
            | HashOp::SetNx { .. }
            | HashOp::Del { .. }
            | HashOp::IncrBy { .. }
            | HashOp::IncrByFloat { .. } => false,
        }
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        match self {
            HashOp::Set { pairs, .. } => {
                Some(pairs.iter().map(|(field, value)| FIELD_BYTES + field.len() + value.len()).sum())
            }
            HashOp::SetNx { field, value } => Some(FIELD_BYTES + field.len() + value.len()),
            HashOp::IncrBy { field, .. } | HashOp::IncrByFloat { field, .. } => Some(FIELD_BYTES + field.len()),
            _ => None,
        }
    }

    /// What it changes of the hash, if there is one, and what it answers.
    pub(crate) fn execute(&self, hash: Option<&Hash>, _seed: u64) -> Effect<'a> {
        let value = |field: &[u8]| hash.and_then(|hash| hash.get(field));
        let len = hash.map_or(0, |hash| hash.fields.len());
        match self {
            HashOp::Set { pairs, answers_ok } => {
                let new = distinct(pairs.iter().map(|(field, _)| *field), |field| value(field).is_none());
                let outcome = if *answers_ok { Outcome::Ok } else { int(new.len()) };
                let pairs = pairs.iter().map(|(field, value)| (*field, Cow::Borrowed(*value))).collect();
                set(hash, pairs, outcome)
            }
            HashOp::SetNx { field, .. } if value(field).is_some() => (None, Outcome::Int(0)),
            HashOp::SetNx { field, value } => set(hash, vec![(field, Cow::Borrowed(value))], Outcome::Int(1)),
            HashOp::Del { fields } => {
                let there = distinct(fields.iter().copied(), |field| value(field).is_some());
                let outcome = int(there.len());
                ((!there.is_empty()).then_some(HashChange::Remove(there)), outcome)
            }
            HashOp::IncrBy { field, delta } => match number::parse_integer(value(field).unwrap_or(b"0")) {
                None => (None, error("ERR hash value is not an integer")),
                Some(number) => match number.checked_add(*delta) {
                    None => (None, error("ERR increment or decrement would overflow")),
                    Some(sum) => set(hash, vec![(field, Cow::Owned(sum.to_string().into_bytes()))], Outcome::Int(sum)),
                },
            },
            HashOp::IncrByFloat { field, delta } => match number::add_float(value(field).unwrap_or(b"0"), *delta) {
                Ok(sum) => {
                    let sum = sum.into_bytes();
                    set(hash, vec![(field, Cow::Owned(sum.clone()))], Outcome::Bulk(sum))
                }
                Err(FloatError::NotAFloat) => (None, error("ERR hash value is not a float")),
                Err(FloatError::NanOrInfinity) => (None, error("ERR increment would produce NaN or Infinity")),
            },
            HashOp::Get { field } => (None, value(field).map_or(Outcome::Nil, bulk)),
            HashOp::MGet { fields } => {
                let values = || fields.iter().map(|field| value(field));
                // A field can be asked for as often as somebody likes.
                let bytes: usize = values().map(|value| PIECE_BYTES + value.map_or(0, <[u8]>::len)).sum();
                if bytes > OBJECT_BYTES_MAX {
                    return (None, error(ANSWER_TOO_LONG));
                }
                (None, Outcome::List(values().map(|value| value.map_or(Outcome::Nil, bulk)).collect()))
            }
            HashOp::All { what } => {
                let mut shown = Vec::with_capacity(len * 2);
                (0..len).for_each(|place| hash.iter().for_each(|hash| hash.show(place, *what, &mut shown)));
                let is_map = *what == HashPart::Both;
                (None, if is_map { Outcome::Map(shown) } else { Outcome::List(shown) })
            }
            HashOp::Len => (None, int(len)),
            HashOp::Exists { field } => (None, Outcome::Int(i64::from(value(field).is_some()))),
            HashOp::Strlen { field } => (None, int(value(field).map_or(0, <[u8]>::len))),
            HashOp::Scan(scan) => {
                let name =
                    |place| hash.and_then(|hash| hash.fields.get_index(place)).map_or(&b""[..], |(field, _)| field);
                let show = |place, out: &mut Vec<Outcome>| {
                    hash.iter().for_each(|hash| hash.show(place, HashPart::Both, out));
                };
                (None, scan.answer(len, name, show))
            }
            HashOp::Random { with_values, chance } => (None, random(hash, *with_values, *chance)),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            HashOp::Set { pairs, answers_ok } => {
                out.extend_from_slice(&[0, u8::from(*answers_ok)]);
                write_len(out, pairs.len());
                for (field, value) in pairs {
                    write_bytes(out, field);
                    write_bytes(out, value);
                }
            }
            HashOp::SetNx { field, value } => {
                write_field(out, 1, field);
                write_bytes(out, value);
            }
            HashOp::Get { field } => write_field(out, 2, field),
            HashOp::MGet { fields } => {
                out.push(3);
                write_list(out, fields.iter().copied());
            }
            HashOp::All { what } => {
                out.extend_from_slice(&[4, *what as u8]);
            }
            HashOp::Len => out.push(5),
            HashOp::Exists { field } => write_field(out, 6, field),
            HashOp::Strlen { field } => write_field(out, 7, field),
            HashOp::Del { fields } => {
                out.push(8);
                write_list(out, fields.iter().copied());
            }
            HashOp::IncrBy { field, delta } => {
                write_field(out, 9, field);
                out.extend_from_slice(&delta.to_le_bytes());
            }
            HashOp::IncrByFloat { field, delta } => {
                write_field(out, 10, field);
                out.extend_from_slice(&delta.to_le_bytes());
            }
            HashOp::Scan(scan) => {
                out.push(11);
                scan.encode(out);
            }
            HashOp::Random { with_values, chance } => {
                out.extend_from_slice(&[12, u8::from(*with_values)]);
                chance.encode(out);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<HashOp<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => HashOp::Set { answers_ok: r.flag()?, pairs: read_pairs(r)? },
            1 => HashOp::SetNx { field: r.bytes()?, value: r.bytes()? },
            2 => HashOp::Get { field: r.bytes()? },
            3 => HashOp::MGet { fields: read_list(r)? },
            4 => HashOp::All {
                what: match r.u8()? {
                    0 => HashPart::Field,
                    1 => HashPart::Value,
                    2 => HashPart::Both,
                    _ => return malformed("unknown part of a hash"),
                },
            },
            5 => HashOp::Len,
            6 => HashOp::Exists { field: r.bytes()? },
            7 => HashOp::Strlen { field: r.bytes()? },
            8 => HashOp::Del { fields: read_list(r)? },
            9 => HashOp::IncrBy { field: r.bytes()?, delta: r.i64()? },
            10 => HashOp::IncrByFloat { field: r.bytes()?, delta: r.f64()? },
            11 => HashOp::Scan(ElementScan::decode(r)?),
            12 => HashOp::Random { with_values: r.flag()?, chance: Chance::decode(r)? },
            _ => return malformed("unknown operation on a hash"),
        })
    }
}

/// Sets these fields, unless the hash would be too large then.
fn set<'a>(hash: Option<&Hash>, pairs: Vec<(&'a [u8], Cow<'a, [u8]>)>, outcome: Outcome) -> Effect<'a> {
    let bytes_of = |field: &[u8], value: &[u8]| field.len() + value.len() + 2 * PIECE_BYTES;
    let new: usize = pairs.iter().map(|(field, value)| bytes_of(field, value)).sum();
    let old = hash.map_or(HEAD_BYTES, |hash| {
        let replaced = distinct(pairs.iter().map(|(field, _)| *field), |field| hash.get(field).is_some());
        let replaced = replaced.into_iter().map(|field| bytes_of(field, hash.get(field).unwrap_or_default()));
        hash.stored_bytes() - replaced.sum::<usize>()
    });
    if old + new > OBJECT_BYTES_MAX {
        return (None, error(TOO_LARGE));
    }
    (Some(HashChange::Set(pairs)), outcome)
}

fn random(hash: Option<&Hash>, with_values: bool, chance: Chance) -> Outcome {
    let what = if with_values { HashPart::Both } else { HashPart::Field };
    let len = hash.map_or(0, |hash| hash.fields.len());
    let places = match chance.places(len, |place| hash.map_or(0, |hash| hash.bytes_at(place))) {
        Ok(places) => places,
        Err(refused) => return refused,
    };
    let mut shown = Vec::new();
    places.into_iter().for_each(|place| hash.iter().for_each(|hash| hash.show(place, what, &mut shown)));
    match chance.count {
        None => shown.pop().unwrap_or(Outcome::Nil),
        Some(_) if with_values => Outcome::Pairs(shown),
        Some(_) => Outcome::List(shown),
    }
}

fn write_field(out: &mut Vec<u8>, code: u8, field: &[u8]) {
    out.push(code);
    write_bytes(out, field);
}

fn read_pairs<'a>(r: &mut Reader<'a>) -> Result<Vec<Pair<'a>>, Malformed> {
    let count = r.u32()?;
    (0..count).map(|_| Ok((r.bytes()?, r.bytes()?))).collect()
}

impl<'a> HashChange<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            HashChange::Set(pairs) => {
                out.push(0);
                write_len(out, pairs.len());
                for (field, value) in pairs {
                    write_bytes(out, field);
                    write_bytes(out, value);
                }
            }
            HashChange::Remove(fields) => {
                out.push(1);
                write_list(out, fields.iter().copied());
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<HashChange<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => {
                let pairs = read_pairs(r)?;
                HashChange::Set(pairs.into_iter().map(|(field, value)| (field, Cow::Borrowed(value))).collect())
            }
            1 => HashChange::Remove(read_list(r)?),
            _ => return malformed("unknown change of a hash"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_that_has_shrunk_gives_its_room_back() {
        let mut hash = Hash::new(HashKey([7; 16]));
        let names: Vec<[u8; 4]> = (0..5000_u32).map(u32::to_le_bytes).collect();
        names.iter().for_each(|name| hash.set(name, b"v"));
        let full = hash.fields.capacity();
        hash.apply(HashChange::Remove(names[1..].iter().map(|name| &name[..]).collect()));
        assert!(hash.fields.capacity() < full / 10, "{} of {full}", hash.fields.capacity());
        assert_eq!((hash.get(&names[0]), hash.fields.len()), (Some(&b"v"[..]), 1));
    }
}
