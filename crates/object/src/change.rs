//! What a command does to an object, computed before it is done: chain replication logs changes instead of commands.
//!
//! # Bytes
//!
//! One code byte, then the fields, little-endian: 1 Put (key, value, expires), 2 Write (key, offset u32, bytes), 3 Expire (key,
//! expires), 4 Delete (key), 5 Flush, 6 to 9 of elements (key, change: see `hash.rs`, `list.rs`, `set.rs` and `sorted_set.rs`), 10 Store
//! (key, object as it is stored), 16 Several (count u32, each change as bytes). Byte strings are a `u32` length and the bytes; expires
//! is a byte 0, or 1 and a u64. A code never changes its meaning.

use std::borrow::Cow;

use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len, write_optional_u64};
use crate::collection::OpChange;
use crate::{NAME_BYTES_MAX, OBJECT_BYTES_MAX};

/// One change of one object, or of all. Applying the same changes to equal tables leaves equal tables.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'a> {
    /// The string is `value` and expires then, whatever it was.
    Put {
        key: &'a [u8],
        value: Cow<'a, [u8]>,
        expires_ms: Option<u64>,
    },
    /// The string holds `bytes` at `offset`; zeros fill a gap before it. The expiry stays.
    Write {
        key: &'a [u8],
        offset: u32,
        bytes: &'a [u8],
    },
    /// The object expires then, or never.
    Expire {
        key: &'a [u8],
        expires_ms: Option<u64>,
    },
    Delete {
        key: &'a [u8],
    },
    /// Elements of the object are others. One without elements is none.
    Elements {
        key: &'a [u8],
        change: OpChange<'a>,
    },
    /// The object is this one, encoded as it is stored, whatever it was.
    Store {
        key: &'a [u8],
        object: Cow<'a, [u8]>,
    },
    /// Every object of the group is deleted.
    Flush,
    /// Changes of one object each, one after the other.
    Several(Vec<Change<'a>>),
}

impl<'a> Change<'a> {
    /// The name of the one object changed; `None` if all are, or several may be.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Change::Put { key, .. }
            | Change::Write { key, .. }
            | Change::Expire { key, .. }
            | Change::Elements { key, .. }
            | Change::Store { key, .. }
            | Change::Delete { key } => Some(key),
            Change::Flush | Change::Several(_) => None,
        }
    }

    /// The changes of one object each, or of all, that it consists of.
    pub(crate) fn parts(self) -> impl Iterator<Item = Change<'a>> {
        let (one, several) = match self {
            Change::Several(changes) => (None, changes),
            change => (Some(change), Vec::new()),
        };
        one.into_iter().chain(several)
    }

    /// What it stores of whole objects, about: far more, perhaps, than whoever asked for it has sent.
    pub(crate) fn stored_bytes(&self) -> usize {
        match self {
            Change::Store { object, .. } => object.len(),
            Change::Several(changes) => changes.iter().map(Change::stored_bytes).sum(),
            _ => 0,
        }
    }

    /// Appends the change's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::Put { key, value, expires_ms } => {
                out.push(code::PUT);
                write_bytes(out, key);
                write_bytes(out, value);
                write_optional_u64(out, *expires_ms);
            }
            Change::Write { key, offset, bytes } => {
                out.push(code::WRITE);
                write_bytes(out, key);
                out.extend_from_slice(&offset.to_le_bytes());
                write_bytes(out, bytes);
            }
            Change::Expire { key, expires_ms } => {
                out.push(code::EXPIRE);
                write_bytes(out, key);
                write_optional_u64(out, *expires_ms);
            }
            Change::Delete { key } => {
                out.push(code::DELETE);
                write_bytes(out, key);
            }
            Change::Elements { key, change } => {
                out.push(change.code());
                write_bytes(out, key);
                change.encode(out);
            }
            Change::Store { key, object } => {
                out.push(code::STORE);
                write_bytes(out, key);
                write_bytes(out, object);
            }
            Change::Flush => out.push(code::FLUSH),
            Change::Several(changes) => {
                out.push(code::SEVERAL);
                write_len(out, changes.len());
                for change in changes {
                    let mut encoded = Vec::new();
                    change.encode(&mut encoded);
                    write_bytes(out, &encoded);
                }
            }
        }
    }

    /// Reads exactly what [`Change::encode`] wrote. Refuses anything else, also bytes after the end and an object larger than
    /// [`OBJECT_BYTES_MAX`]; never panics.
    pub fn decode(bytes: &'a [u8]) -> Result<Change<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let r = &mut reader;
        let change = match r.u8()? {
            code::PUT => {
                Change::Put { key: r.bytes()?, value: Cow::Borrowed(r.bytes()?), expires_ms: r.optional(Reader::u64)? }
            }
            code::WRITE => Change::Write { key: r.bytes()?, offset: r.u32()?, bytes: r.bytes()? },
            code::EXPIRE => Change::Expire { key: r.bytes()?, expires_ms: r.optional(Reader::u64)? },
            code::DELETE => Change::Delete { key: r.bytes()? },
            code::STORE => Change::Store { key: r.bytes()?, object: Cow::Borrowed(r.bytes()?) },
            code::FLUSH => Change::Flush,
            code::SEVERAL => Change::Several(decode_several(r)?),
            code => Change::Elements { key: r.bytes()?, change: OpChange::decode(code, r)? },
        };
        reader.end()?;
        if change.is_within_limits() { Ok(change) } else { malformed("an object beyond its limit") }
    }

    fn is_within_limits(&self) -> bool {
        let value_len = match self {
            Change::Put { value, .. } => value.len(),
            Change::Write { offset, bytes, .. } => (*offset as usize).saturating_add(bytes.len()),
            // Whoever computed it has looked at what the object is with it.
            Change::Elements { .. } => 0,
            // Whoever stores it looks at what it has.
            Change::Store { .. } => 0,
            Change::Expire { .. } | Change::Delete { .. } | Change::Flush | Change::Several(_) => 0,
        };
        value_len <= OBJECT_BYTES_MAX && self.key().is_none_or(|key| key.len() <= NAME_BYTES_MAX)
    }
}

fn decode_several<'a>(r: &mut Reader<'a>) -> Result<Vec<Change<'a>>, Malformed> {
    let count = r.u32()?;
    let one = |encoded: &'a [u8]| match encoded.first() {
        Some(&code::SEVERAL | &code::FLUSH) => malformed("not a change of one object"),
        _ => Change::decode(encoded),
    };
    (0..count).map(|_| one(r.bytes()?)).collect()
}

mod code {
    pub(super) const PUT: u8 = 1;
    pub(super) const WRITE: u8 = 2;
    pub(super) const EXPIRE: u8 = 3;
    pub(super) const DELETE: u8 = 4;
    pub(super) const FLUSH: u8 = 5;
    pub(super) const STORE: u8 = 10;
    pub(super) const SEVERAL: u8 = 16;
}
