//! The only byte layout of the protocols: little-endian, fixed widths, each number where it is written here.
//!
//! Decoding takes nothing on trust: it never panics, never allocates more than the input could fill, and refuses what is
//! left over. Frames and log records carry versions and checksums; what is inside them is laid out here.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::id::{Ballot, Content, Instant, NodeId, Payload, Slot, Stamp, Value};
use crate::paxos::{AcceptedValue, Message, Position, Record, Testimony};
use crate::peers::Message as PeerMessage;

/// A value, message or record longer than this is refused.
pub const LENGTH_MAX: usize = 64 << 20;

/// Not something that a correct peer of a known version would have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The input ends early.
    Truncated,
    /// Bytes are left over.
    Trailing,
    /// A tag that this version does not know.
    UnknownTag { of: &'static str, tag: u8 },
    /// A length or count beyond its limit, or beyond what the input could hold.
    TooLong { of: &'static str },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Truncated => write!(f, "the input ends early"),
            Malformed::Trailing => write!(f, "bytes are left over"),
            Malformed::UnknownTag { of, tag } => write!(f, "unknown {of} {tag}"),
            Malformed::TooLong { of } => write!(f, "{of} is too long"),
        }
    }
}

impl core::error::Error for Malformed {}

pub trait Wire: Sized {
    fn encode(&self, out: &mut Vec<u8>);
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// The whole input is one of these.
    fn decode_all(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() > LENGTH_MAX {
            return Err(Malformed::TooLong { of: "input" });
        }
        let mut reader = Reader::new(bytes);
        let decoded = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(decoded)
    }
}

/// Takes numbers and bytes from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Refuses what is left over.
    pub fn finish(&self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A `u32` length, then as many bytes.
    pub fn prefixed(&mut self, of: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        if length > LENGTH_MAX {
            return Err(Malformed::TooLong { of });
        }
        self.bytes(length)
    }

    /// A `u32` count of elements of at least `size_min` bytes each, which must fit into what remains.
    pub fn count(&mut self, of: &'static str, size_min: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        match count.checked_mul(size_min) {
            Some(size) if size <= self.remaining() => Ok(count),
            _ => Err(Malformed::TooLong { of }),
        }
    }

    /// Numbers of 64 bits, all or none.
    #[inline]
    fn words<const N: usize>(&mut self) -> Result<[u64; N], Malformed> {
        let (words, _) = self.bytes(size_of::<[u64; N]>())?.as_chunks();
        let words: [[u8; 8]; N] = words.try_into().map_err(|_| Malformed::Truncated)?;
        Ok(words.map(u64::from_le_bytes))
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }
}

/// What fits into 64 bits.
trait Word {
    fn to_word(&self) -> u64;
    fn from_word(word: u64) -> Self;
}

/// A tag and numbers of 64 bits, appended at once: most of what is said and logged begins with some.
#[inline]
fn put_words<const N: usize>(out: &mut Vec<u8>, tag: u8, words: [u64; N]) {
    put_u8(out, tag);
    out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
}

pub fn put_u8(out: &mut Vec<u8>, number: u8) {
    out.push(number);
}

pub fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// A `u32` length, then the bytes.
pub fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// A length or a count. Limits far below 4 Gi are enforced where values are made.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    put_u32(out, u32::try_from(count).expect("lengths are bounded far below 4 GiB"));
}

macro_rules! number {
    ($name:ident, $put:ident, $take:ident) => {
        impl Wire for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $put(out, self.0);
            }

            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                reader.$take().map($name)
            }
        }
    };
}

macro_rules! word {
    ($name:ident) => {
        number!($name, put_u64, u64);

        impl Word for $name {
            fn to_word(&self) -> u64 {
                self.0
            }

            fn from_word(word: u64) -> $name {
                $name(word)
            }
        }
    };
}

number!(NodeId, put_u32, u32);
word!(Slot);
word!(Stamp);
word!(Instant);

impl Word for u64 {
    fn to_word(&self) -> u64 {
        *self
    }

    fn from_word(word: u64) -> u64 {
        word
    }
}

/// As its fields, one after the other.
impl Word for Ballot {
    fn to_word(&self) -> u64 {
        u64::from(self.number) | u64::from(self.node.0) << 32
    }

    fn from_word(word: u64) -> Ballot {
        Ballot { number: word as u32, node: NodeId((word >> 32) as u32) }
    }
}

impl Wire for u64 {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, *self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u64()
    }
}

impl Wire for Ballot {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.number);
        self.node.encode(out);
    }

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Ballot { number: reader.u32()?, node: NodeId::decode(reader)? })
    }
}

/// Stamp, seed, tag, then a length and bytes unless it is a mark.
impl Wire for Value {
    fn encode(&self, out: &mut Vec<u8>) {
        let (tag, bytes) = match &self.content {
            Content::Mark => (0, None),
            Content::Commands(bytes) => (1, Some(bytes)),
            Content::Stop(bytes) => (2, Some(bytes)),
        };
        let mut head = [0; VALUE_SIZE_MIN];
        head[..8].copy_from_slice(&self.stamp.0.to_le_bytes());
        head[8..16].copy_from_slice(&self.seed.to_le_bytes());
        head[16] = tag;
        out.extend_from_slice(&head);
        if let Some(bytes) = bytes {
            put_prefixed(out, bytes);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let [stamp, seed] = reader.words()?;
        let content = match reader.u8()? {
            0 => Content::Mark,
            1 => Content::Commands(payload(reader)?),
            2 => Content::Stop(payload(reader)?),
            tag => return Err(Malformed::UnknownTag { of: "content", tag }),
        };
        Ok(Value { stamp: Stamp(stamp), seed, content })
    }
}

/// The one copy between a frame and the objects.
fn payload(reader: &mut Reader<'_>) -> Result<Payload, Malformed> {
    Ok(Arc::from(reader.prefixed("commands")?))
}

/// No less than any value takes: stamp, seed and tag.
const VALUE_SIZE_MIN: usize = 17;

impl Wire for Option<Ballot> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u8(out, u8::from(self.is_some()));
        if let Some(ballot) = self {
            ballot.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u8()? {
            0 => Ok(None),
            1 => Ballot::decode(reader).map(Some),
            tag => Err(Malformed::UnknownTag { of: "optional ballot", tag }),
        }
    }
}

impl Wire for AcceptedValue {
    fn encode(&self, out: &mut Vec<u8>) {
        self.slot.encode(out);
        self.ballot.encode(out);
        self.value.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(AcceptedValue {
            slot: Slot::decode(reader)?,
            ballot: Ballot::decode(reader)?,
            value: Value::decode(reader)?,
        })
    }
}

impl Wire for Testimony {
    fn encode(&self, out: &mut Vec<u8>) {
        self.promised.encode(out);
        self.next_slot.encode(out);
        self.accepted.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Testimony {
            promised: Ballot::decode(reader)?,
            next_slot: Slot::decode(reader)?,
            accepted: Vec::decode(reader)?,
        })
    }
}

impl Wire for (Slot, Value) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((Slot::decode(reader)?, Value::decode(reader)?))
    }
}

fn put_list<T: Wire>(out: &mut Vec<u8>, list: &[T]) {
    put_count(out, list.len());
    for element in list {
        element.encode(out);
    }
}

fn take_list<T: Wire>(reader: &mut Reader<'_>, of: &'static str, size_min: usize) -> Result<Vec<T>, Malformed> {
    let count = reader.count(of, size_min)?;
    (0..count).map(|_| T::decode(reader)).collect()
}

impl Wire for Position {
    fn encode(&self, out: &mut Vec<u8>) {
        self.next_slot.encode(out);
        self.promised.encode(out);
        self.frontier_majority.encode(out);
        self.time.encode(out);
        put_u8(out, u8::from(self.stopped));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Position {
            next_slot: Slot::decode(reader)?,
            promised: Ballot::decode(reader)?,
            frontier_majority: Slot::decode(reader)?,
            time: Stamp::decode(reader)?,
            stopped: match reader.u8()? {
                0 => false,
                1 => true,
                tag => {
                    return Err(Malformed::UnknownTag { of: "stopped flag", tag });
                }
            },
        })
    }
}

/// A tag, then the fields as they are written: first, in brackets, those of 64 bits.
macro_rules! tagged {
    ($name:ident, $of:literal, {
        $($tag:literal => $variant:ident { $([$($word:ident),*])? $($field:ident),* $(,)? }),* $(,)?
    }) => {
        impl Wire for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant { $($($word,)*)? $($field),* } => {
                        put_words(out, $tag, [$($($word.to_word()),*)?]);
                        $($field.encode(out);)*
                    })*
                }
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                match reader.u8()? {
                    $($tag => {
                        $(let [$($word),*] = reader.words()?;)?
                        Ok($name::$variant {
                            $($($word: Word::from_word($word),)*)?
                            $($field: Wire::decode(reader)?),*
                        })
                    })*
                    tag => Err(Malformed::UnknownTag { of: $of, tag }),
                }
            }
        }
    };
}

mod chain;
mod register;

impl Wire for Vec<AcceptedValue> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_list(out, self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        take_list(reader, "accepted values", 16 + VALUE_SIZE_MIN)
    }
}

impl Wire for Vec<(Slot, Value)> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_list(out, self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        take_list(reader, "learned slots", 8 + VALUE_SIZE_MIN)
    }
}

// Fields are written in this order. Tags are never used again for anything else.
tagged!(Message, "message", {
    1 => Prepare { [ballot, from] released },
    2 => Promise { [ballot, next_slot, grant] accepted },
    3 => Busy { [ballot, promised, wait_us] },
    4 => Rejected { [ballot, promised] },
    5 => Accept { [ballot, slot, frontier, frontier_majority] value },
    6 => Accepted { [ballot, slot, next_slot, grant] },
    7 => Decide { [ballot, frontier, frontier_majority] },
    8 => Frontier { [ballot, next_slot] },
    9 => Confirm { [ballot, round] },
    10 => Confirmed { [ballot, round, next_slot, grant] },
    11 => Fetch { [from] },
    12 => Learn { slots, next_slot },
    13 => HandOver { [ballot, next_slot] },
    14 => Execute { [ballot, frontier] },
});

impl Wire for Record {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Promised { ballot } => {
                put_u8(out, 1);
                ballot.encode(out);
            }
            Record::Accepted { ballot, slot, value, frontier } => {
                put_words(out, 2, [ballot.to_word(), slot.0, frontier.0]);
                value.encode(out);
            }
            Record::Decided { slot, value } => {
                put_u8(out, 3);
                slot.encode(out);
                value.encode(out);
            }
            Record::Checkpoint(position) => {
                put_u8(out, 4);
                position.encode(out);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.u8()? {
            1 => Record::Promised { ballot: Ballot::decode(reader)? },
            2 => {
                let (ballot, slot, frontier) = (Ballot::decode(reader)?, Slot::decode(reader)?, Slot::decode(reader)?);
                Record::Accepted { ballot, slot, value: Value::decode(reader)?, frontier }
            }
            3 => Record::Decided { slot: Slot::decode(reader)?, value: Value::decode(reader)? },
            4 => Record::Checkpoint(Position::decode(reader)?),
            tag => return Err(Malformed::UnknownTag { of: "record", tag }),
        })
    }
}

tagged!(PeerMessage, "peer message", {
    1 => Heartbeat { [sent_at] },
    2 => Grant { [sent_at, number] },
});
