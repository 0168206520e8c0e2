//! What a command answers, independent of the Redis protocol's version, and its bytes in frames.
//!
//! # Bytes
//!
//! One code byte, then the fields, little-endian; byte strings are a `u32` length and the bytes, lists a `u32` count and the items:
//! 0 Ok, 1 Nil, 2 Int (i64), 3 Bulk (bytes), 4 Word (its place in [`WORDS`], u8), 5 Error (UTF-8), 6 Keys (list), 7 Scan (next: a
//! byte 0, or 1 and a u64; keys: list), 8 Float (f64), 9 NilList; 10 List, 11 Set, 12 Map and 13 Pairs (a list of outcomes, each with its own
//! code; in Map and Pairs of even length). A code never changes its meaning; words are only added at the end.

use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len, write_optional_u64};

/// The words that TYPE can answer, in the order of their codes.
pub const WORDS: [&str; 7] = ["none", "string", "list", "set", "zset", "hash", "stream"];

/// The answer of one command on one group.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Ok,
    Nil,
    Int(i64),
    Bulk(Vec<u8>),
    /// A status word other than OK: what TYPE answers, one of [`WORDS`].
    Word(&'static str),
    /// A Redis error line without the leading `-`, such as `WRONGTYPE Operation against ...`.
    Error(String),
    Keys(Vec<Vec<u8>>),
    /// `next` is where the scan of this group goes on; `None` at its end.
    Scan {
        next: Option<u64>,
        keys: Vec<Vec<u8>>,
    },
    Float(f64),
    /// No list, where there might have been one.
    NilList,
    List(Vec<Outcome>),
    Set(Vec<Outcome>),
    /// Names and values in turns.
    Map(Vec<Outcome>),
    /// Elements and what belongs to them in turns; a list of pairs in RESP3, in RESP2 a flat one.
    Pairs(Vec<Outcome>),
}

impl Outcome {
    /// Roughly the memory that it keeps besides itself.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Outcome::Bulk(value) => value.len(),
            Outcome::Error(line) => line.len(),
            Outcome::Keys(keys) | Outcome::Scan { keys, .. } => {
                keys.iter().map(|key| key.len() + size_of::<Vec<u8>>()).sum()
            }
            Outcome::List(items) | Outcome::Set(items) | Outcome::Map(items) | Outcome::Pairs(items) => {
                items.iter().map(|item| size_of::<Outcome>() + item.heap_bytes()).sum()
            }
            Outcome::Ok | Outcome::Nil | Outcome::Int(_) | Outcome::Word(_) | Outcome::Float(_) | Outcome::NilList => 0,
        }
    }

    /// How many bytes [`Outcome::encode`] writes.
    pub fn encoded_bytes(&self) -> usize {
        let list = |lengths: &mut dyn Iterator<Item = usize>| 5 + lengths.sum::<usize>();
        match self {
            Outcome::Ok | Outcome::Nil | Outcome::NilList => 1,
            Outcome::Word(_) => 2,
            Outcome::Int(_) | Outcome::Float(_) => 9,
            Outcome::Bulk(value) => 5 + value.len(),
            Outcome::Error(line) => 5 + line.len(),
            Outcome::Keys(keys) => list(&mut keys.iter().map(|key| 4 + key.len())),
            Outcome::Scan { next, keys } => {
                1 + if next.is_some() { 8 } else { 0 } + list(&mut keys.iter().map(|key| 4 + key.len()))
            }
            Outcome::List(items) | Outcome::Set(items) | Outcome::Map(items) | Outcome::Pairs(items) => {
                list(&mut items.iter().map(Outcome::encoded_bytes))
            }
        }
    }

    /// Appends the outcome's bytes to `out`. Panics on a word that is not one of [`WORDS`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Outcome::Ok => out.push(code::OK),
            Outcome::Nil => out.push(code::NIL),
            Outcome::Int(number) => {
                out.push(code::INT);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Outcome::Bulk(value) => {
                out.push(code::BULK);
                write_bytes(out, value);
            }
            Outcome::Word(word) => {
                let place = WORDS.iter().position(|known| known == word);
                let place = place.and_then(|place| u8::try_from(place).ok());
                out.push(code::WORD);
                out.push(place.expect("only words of WORDS are answered"));
            }
            Outcome::Error(line) => {
                out.push(code::ERROR);
                write_bytes(out, line.as_bytes());
            }
            Outcome::Float(number) => {
                out.push(code::FLOAT);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Outcome::NilList => out.push(code::NIL_LIST),
            Outcome::List(items) => write_outcomes(out, code::LIST, items),
            Outcome::Set(items) => write_outcomes(out, code::SET, items),
            Outcome::Map(items) => write_outcomes(out, code::MAP, items),
            Outcome::Pairs(items) => write_outcomes(out, code::PAIRS, items),
            Outcome::Keys(keys) => {
                out.push(code::KEYS);
                write_list(out, keys);
            }
            Outcome::Scan { next, keys } => {
                out.push(code::SCAN);
                write_optional_u64(out, *next);
                write_list(out, keys);
            }
        }
    }

    /// Reads exactly what [`Outcome::encode`] wrote. Refuses anything else, also bytes after the end; never panics.
    pub fn decode(bytes: &[u8]) -> Result<Outcome, Malformed> {
        let mut reader = Reader::new(bytes);
        let outcome = Outcome::read(&mut reader, DEPTH_MAX)?;
        reader.end()?;
        Ok(outcome)
    }

    fn read(r: &mut Reader<'_>, depth: usize) -> Result<Outcome, Malformed> {
        Ok(match r.u8()? {
            code::OK => Outcome::Ok,
            code::NIL => Outcome::Nil,
            code::INT => Outcome::Int(r.i64()?),
            code::BULK => Outcome::Bulk(r.bytes()?.to_vec()),
            code::WORD => match WORDS.get(usize::from(r.u8()?)) {
                Some(word) => Outcome::Word(word),
                None => return malformed("unknown word"),
            },
            code::ERROR => match str::from_utf8(r.bytes()?) {
                Ok(line) => Outcome::Error(line.to_owned()),
                Err(_) => return malformed("an error line is not UTF-8"),
            },
            code::KEYS => Outcome::Keys(read_list(r)?),
            code::SCAN => Outcome::Scan { next: r.optional(Reader::u64)?, keys: read_list(r)? },
            code::FLOAT => Outcome::Float(r.f64()?),
            code::NIL_LIST => Outcome::NilList,
            code::LIST => Outcome::List(read_outcomes(r, depth)?),
            code::SET => Outcome::Set(read_outcomes(r, depth)?),
            code::MAP => Outcome::Map(read_even(r, depth)?),
            code::PAIRS => Outcome::Pairs(read_even(r, depth)?),
            _ => return malformed("unknown outcome"),
        })
    }
}

mod code {
    pub(super) const OK: u8 = 0;
    pub(super) const NIL: u8 = 1;
    pub(super) const INT: u8 = 2;
    pub(super) const BULK: u8 = 3;
    pub(super) const WORD: u8 = 4;
    pub(super) const ERROR: u8 = 5;
    pub(super) const KEYS: u8 = 6;
    pub(super) const SCAN: u8 = 7;
    pub(super) const FLOAT: u8 = 8;
    pub(super) const NIL_LIST: u8 = 9;
    pub(super) const LIST: u8 = 10;
    pub(super) const SET: u8 = 11;
    pub(super) const MAP: u8 = 12;
    pub(super) const PAIRS: u8 = 13;
}

/// Lists in lists: nothing answers deeper ones than ZMPOP in a transaction.
const DEPTH_MAX: usize = 4;

fn write_outcomes(out: &mut Vec<u8>, code: u8, items: &[Outcome]) {
    out.push(code);
    write_len(out, items.len());
    items.iter().for_each(|item| item.encode(out));
}

fn read_outcomes(r: &mut Reader<'_>, depth: usize) -> Result<Vec<Outcome>, Malformed> {
    let Some(depth) = depth.checked_sub(1) else { return malformed("lists in lists, too deep") };
    // Not allocated from the declared count: an item that is not there ends the reading.
    let count = r.u32()?;
    (0..count).map(|_| Outcome::read(r, depth)).collect()
}

fn read_even(r: &mut Reader<'_>, depth: usize) -> Result<Vec<Outcome>, Malformed> {
    let items = read_outcomes(r, depth)?;
    if items.len() % 2 == 0 { Ok(items) } else { malformed("half of a pair") }
}

fn write_list(out: &mut Vec<u8>, items: &[Vec<u8>]) {
    write_len(out, items.len());
    for item in items {
        write_bytes(out, item);
    }
}

fn read_list(r: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
    // Not allocated from the declared count: an item that is not there ends the reading.
    let count = r.u32()?;
    (0..count).map(|_| r.bytes().map(<[u8]>::to_vec)).collect()
}
