//! What a register holds, and the order of its versions.

use core::fmt;

use crate::id::{Epoch, NodeId, Payload, Stamp};

/// The key of a register.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub Payload);

impl Key {
    /// The least key after this one; the least of all after none.
    pub(super) fn after(key: Option<&Key>) -> Key {
        let bytes = key.map(|key| key.0.iter().copied().chain([0]));
        Key(bytes.into_iter().flatten().collect())
    }
}

/// Names a version and orders it among all versions of its key. No two writes ever share one: a node counts its operations,
/// and its starts durably.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag {
    /// Above every counter that the write's query saw.
    pub counter: u64,
    pub node: NodeId,
    pub start: u32,
    pub operation: u64,
    /// The tombstone that the expiry of the version without this mark writes: right after it, before every later write. So an
    /// expiry that comes late erases nothing but what has expired.
    pub expired: bool,
}

impl Tag {
    /// Below every tag: of a key that was never written.
    pub const ABSENT: Tag = Tag { counter: 0, node: NodeId(0), start: 0, operation: 0, expired: false };
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Content {
    Value {
        bytes: Payload,
        /// From this stamp on the register is to be read as absent.
        expires: Option<Stamp>,
    },
    /// Deleted or expired. Kept until nobody could bring an older version back.
    Tombstone,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version {
    pub tag: Tag,
    /// Whatever was written before at quorums of sizes older than this epoch's is known to be no newer: see
    /// [`Stage::reads_since`](super::Stage).
    pub renewed: Epoch,
    pub content: Content,
}

impl Content {
    pub(super) fn length(&self) -> usize {
        match self {
            Content::Value { bytes, .. } => bytes.len(),
            Content::Tombstone => 0,
        }
    }

    pub(super) fn is_expired(&self, now: Stamp) -> bool {
        matches!(self, Content::Value { expires: Some(expires), .. } if *expires <= now)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Tag::ABSENT {
            return write!(f, "absent");
        }
        write!(f, "{}.{}.{}.{}", self.counter, self.node, self.start, self.operation)?;
        if self.expired { write!(f, "+expired") } else { Ok(()) }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Value { bytes, expires } => {
                write!(f, "({})", bytes.escape_ascii())?;
                expires.map_or(Ok(()), |stamp| write!(f, " until {stamp:?}"))
            }
            Content::Tombstone => write!(f, "tombstone"),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{:?}/{:?}", self.content, self.tag, self.renewed)
    }
}
