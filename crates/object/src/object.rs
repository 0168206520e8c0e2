//! One named object: a variant for each type, and what all types can do.

use crate::away::Away;
use crate::codec::{Malformed, Reader, malformed};
use crate::collection::{Collection, Elements, HashKey};
use crate::text::Text;
use crate::{NAME_BYTES_MAX, OBJECT_BYTES_MAX};

/// The layout of stored objects that this release writes.
const LAYOUT: u8 = 1;

const TYPE_AWAY: u8 = 0;
const TYPE_STRING: u8 = 1;

/// Whether an object that was encoded is held elsewhere.
pub fn is_away(encoded: &[u8]) -> bool {
    encoded.starts_with(&[LAYOUT, TYPE_AWAY])
}

/// Whether an object that was encoded is a string.
pub fn is_string(encoded: &[u8]) -> bool {
    encoded.starts_with(&[LAYOUT, TYPE_STRING])
}

/// An object with its name and expiry. Every type keeps these in its own way, so that a small object is one allocation.
#[derive(Debug)]
pub(crate) enum Object {
    String(Text),
    Collection(Box<Collection>),
    /// The object of this name is held elsewhere. Instead of a value it has a note of whoever put it there.
    Away(Away),
}

impl Object {
    pub(crate) fn name(&self) -> &[u8] {
        match self {
            Object::String(text) => text.name(),
            Object::Collection(collection) => collection.name(),
            Object::Away(away) => away.name(),
        }
    }

    /// The string, if it is one.
    pub(crate) fn text(&self) -> Option<&Text> {
        match self {
            Object::String(text) => Some(text),
            Object::Collection(_) | Object::Away(_) => None,
        }
    }

    /// A byte of the name, or 0: with it in a cache, the name is.
    pub(crate) fn look(&self) -> u8 {
        self.name().last().copied().unwrap_or_default()
    }

    pub(crate) fn expires_ms(&self) -> Option<u64> {
        match self {
            Object::String(text) => text.expires_ms(),
            Object::Collection(collection) => collection.expires_ms,
            // It expires where it is.
            Object::Away(_) => None,
        }
    }

    pub(crate) fn is_due(&self, time_ms: u64) -> bool {
        self.expires_ms().is_some_and(|expires_ms| expires_ms <= time_ms)
    }

    pub(crate) fn set_expires_ms(&mut self, expires_ms: Option<u64>) {
        match self {
            Object::String(text) => text.set_expires_ms(expires_ms),
            Object::Collection(collection) => collection.expires_ms = expires_ms,
            Object::Away(_) => {}
        }
    }

    /// What TYPE answers; `None` if whoever holds the object must be asked.
    pub(crate) fn type_name(&self) -> Option<&'static str> {
        match self {
            Object::String(_) => Some("string"),
            Object::Collection(collection) => Some(collection.elements.type_name()),
            Object::Away(_) => None,
        }
    }

    /// Bytes allocated for the object alone.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Object::String(text) => text.heap_bytes(),
            Object::Collection(collection) => collection.heap_bytes(),
            Object::Away(away) => away.heap_bytes(),
        }
    }

    /// Appends what a checkpoint stores under the object's name: layout, type (0 away, 1 string, 2 hash, 3 list, 4 set, 5
    /// sorted set), expiry (0, or 1 and a u64), then
    /// what the type has; a string has its value up to the end, and one that is away what is noted of it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Object::String(text) => {
                out.extend_from_slice(&[LAYOUT, TYPE_STRING]);
                crate::codec::write_optional_u64(out, text.expires_ms());
                out.extend_from_slice(text.value());
            }
            Object::Collection(collection) => {
                out.extend_from_slice(&[LAYOUT, collection.elements.type_code()]);
                crate::codec::write_optional_u64(out, collection.expires_ms);
                collection.elements.encode(out);
            }
            Object::Away(away) => {
                out.extend_from_slice(&[LAYOUT, TYPE_AWAY]);
                crate::codec::write_optional_u64(out, None);
                out.extend_from_slice(away.note());
            }
        }
    }

    /// Reads what [`Object::encode`] wrote under `name`.
    pub(crate) fn decode(name: &[u8], encoded: &[u8], key: HashKey) -> Result<Object, Malformed> {
        let mut reader = Reader::new(encoded);
        if reader.u8()? != LAYOUT {
            return malformed("an object's layout is of another release");
        }
        let type_code = reader.u8()?;
        let expires_ms = reader.optional(Reader::u64)?;
        let value = reader.remainder();
        if name.len() > NAME_BYTES_MAX || value.len() > OBJECT_BYTES_MAX {
            return malformed("an object beyond its limit");
        }
        match (type_code, expires_ms) {
            (TYPE_STRING, _) => Ok(Object::String(Text::new(name, value, expires_ms))),
            (TYPE_AWAY, None) => Ok(Object::Away(Away::new(name, value))),
            (TYPE_AWAY, Some(_)) => malformed("what is held elsewhere expires there"),
            (type_code, _) => {
                let mut collection = Collection::new(name, Elements::decode(type_code, value, key)?);
                collection.expires_ms = expires_ms;
                Ok(Object::Collection(Box::new(collection)))
            }
        }
    }
}
