//! The layout of what registers say and record.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Malformed, Reader, Wire, put_list, put_prefixed, put_u8, put_u32, put_u64, put_words, take_list};
use crate::id::{Configuration, Epoch, GroupId, NodeId, Stamp};
use crate::quorum::QuorumSystem;
use crate::register::{Body, Choice, Content, Entry, Key, Message, Outline, Record, Round, Stage, Tag, Version, View};

/// No less than a key and its tag take.
const KEYED_TAG_SIZE_MIN: usize = 29;
/// No less than an entry of a listing takes.
const ENTRY_SIZE_MIN: usize = 30;
/// No less than a key and its version take.
const KEYED_VERSION_SIZE_MIN: usize = 34;
/// No less than a stage of one member takes.
const STAGE_SIZE_MIN: usize = 33;

impl Wire for Key {
    fn encode(&self, out: &mut Vec<u8>) {
        put_prefixed(out, &self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Key(Arc::from(reader.prefixed("key")?)))
    }
}

fn put_option<T: Wire>(out: &mut Vec<u8>, option: Option<&T>) {
    option.is_some().encode(out);
    if let Some(some) = option {
        some.encode(out);
    }
}

fn take_option<T: Wire>(reader: &mut Reader<'_>) -> Result<Option<T>, Malformed> {
    if bool::decode(reader)? { T::decode(reader).map(Some) } else { Ok(None) }
}

macro_rules! option {
    ($name:ident) => {
        impl Wire for Option<$name> {
            fn encode(&self, out: &mut Vec<u8>) {
                put_option(out, self.as_ref());
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                take_option(reader)
            }
        }
    };
}

option!(Stamp);
option!(Key);
option!(Content);
option!(Choice);

macro_rules! structure {
    ($name:ident { $($field:ident),* }) => {
        impl Wire for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)*
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok($name { $($field: Wire::decode(reader)?),* })
            }
        }
    };
}

impl Wire for u32 {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, *self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u32()
    }
}

number!(GroupId, put_u64, u64);

// Fields are written in this order.
structure!(Round { start, number });
structure!(View { oldest, newest });
structure!(Tag { counter, node, start, operation, expired });
structure!(Version { tag, renewed, content });
structure!(Stage { configuration, moved, reads_since, fence });
structure!(Message { view, body });
structure!(Choice { ballot, configuration, fence });
structure!(Entry { key, tag, outline });

/// A tag; a value is its expiry, then its bytes.
impl Wire for Content {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Content::Tombstone => put_u8(out, 0),
            Content::Value { bytes, expires } => {
                put_u8(out, 1);
                expires.encode(out);
                put_prefixed(out, bytes);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u8()? {
            0 => Ok(Content::Tombstone),
            1 => {
                let expires = Wire::decode(reader)?;
                Ok(Content::Value { bytes: Arc::from(reader.prefixed("value")?), expires })
            }
            tag => Err(Malformed::UnknownTag { of: "register content", tag }),
        }
    }
}

/// A tag; a value is its expiry.
impl Wire for Outline {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Outline::Tombstone => put_u8(out, 0),
            Outline::Value { expires } => {
                put_u8(out, 1);
                expires.encode(out);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u8()? {
            0 => Ok(Outline::Tombstone),
            1 => Ok(Outline::Value { expires: Wire::decode(reader)? }),
            tag => Err(Malformed::UnknownTag { of: "outline of a register", tag }),
        }
    }
}

/// A tag and the two numbers, if it has any.
impl Wire for QuorumSystem {
    fn encode(&self, out: &mut Vec<u8>) {
        let (tag, numbers) = match *self {
            QuorumSystem::Majority => (0, None),
            QuorumSystem::Threshold { read, write } => (1, Some([read, write])),
            QuorumSystem::Grid { rows, columns } => (2, Some([rows, columns])),
        };
        put_u8(out, tag);
        out.extend(numbers.into_iter().flatten());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u8()? {
            0 => Ok(QuorumSystem::Majority),
            1 => Ok(QuorumSystem::Threshold { read: reader.u8()?, write: reader.u8()? }),
            2 => Ok(QuorumSystem::Grid { rows: reader.u8()?, columns: reader.u8()? }),
            tag => Err(Malformed::UnknownTag { of: "quorum system", tag }),
        }
    }
}

impl Wire for Configuration {
    fn encode(&self, out: &mut Vec<u8>) {
        self.group.encode(out);
        self.epoch.encode(out);
        self.quorum.encode(out);
        put_list(out, &self.members);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (group, epoch, quorum) = (GroupId::decode(reader)?, Epoch::decode(reader)?, QuorumSystem::decode(reader)?);
        let members: Vec<NodeId> = take_list(reader, "members", 4)?;
        Ok(Configuration { group, epoch, members: members.into(), quorum })
    }
}

impl Wire for (Epoch, u8) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        put_u8(out, self.1);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((Epoch::decode(reader)?, reader.u8()?))
    }
}

impl Wire for (Key, Tag) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((Key::decode(reader)?, Tag::decode(reader)?))
    }
}

impl Wire for (Key, Version) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((Key::decode(reader)?, Version::decode(reader)?))
    }
}

macro_rules! list {
    ($element:ty, $of:literal, $size_min:expr) => {
        impl Wire for Vec<$element> {
            fn encode(&self, out: &mut Vec<u8>) {
                put_list(out, self);
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                take_list(reader, $of, $size_min)
            }
        }
    };
}

list!((Epoch, u8), "sizes of reads", 5);
list!((Key, Tag), "keys", KEYED_TAG_SIZE_MIN);
list!(Entry, "entries", ENTRY_SIZE_MIN);
list!((Key, Version), "versions", KEYED_VERSION_SIZE_MIN);
list!(Stage, "configurations", STAGE_SIZE_MIN);

// Fields are written in this order. Tags are never used again for anything else.
tagged!(Body, "register message", {
    1 => Query { round, key, content },
    2 => Found { round, tag, renewed, floor, confirmed, content },
    3 => Store { round, key, version },
    4 => Stored { round },
    5 => Confirm { key, tag },
    6 => Inform { stages },
    7 => Informed {},
    8 => Behind {},
    9 => List { round, from, tombstones, count },
    10 => Listed { round, entries, end, floor },
    11 => Raise { round, floor },
    12 => Raised { round },
    13 => Bury { round, tombstones },
    14 => Buried { round },
    15 => Forget { round, tombstones },
    16 => Forgotten { round },
    17 => Prepare { ballot },
    18 => Promise { ballot, voted },
    19 => Propose { choice, audience },
    20 => Vote { choice },
    21 => Abstain { ballot, promised },
    22 => Renew { round, versions },
    23 => Renewed { round },
    24 => ConfirmAll { tags },
    25 => Seal { round },
    26 => Sealed { round },
    27 => Tell { round, after },
    28 => Told { round, versions, end },
});

impl Record {
    /// Whether a record of a log begins as one of a register does.
    pub fn is_one(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(0x21..=0x27))
    }
}

// A record says by its first byte that it is of a register: nothing else in a log tells the protocols apart.
tagged!(Record, "register record", {
    0x21 => Known { stages },
    0x22 => Held { key, version },
    0x23 => Forgotten { key, tag },
    0x24 => Floor { floor },
    0x25 => Promised { epoch, ballot },
    0x26 => Voted { epoch, choice },
    0x27 => Sealed {},
});
