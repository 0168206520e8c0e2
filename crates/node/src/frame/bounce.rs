//! Commands that come back.

use quorate_protocol::NodeId;
use quorate_protocol::wire::{Malformed, Reader};

/// Why a command comes back to its entry node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounce {
    /// Ask the node named, or find out who it is.
    NotCoordinator {
        coordinator: Option<NodeId>,
    },
    /// The group is not here: the entry node's directory may be old, or ours.
    UnknownGroup,
    /// It was not executed because the one before it on its connection was not: send both again, in order.
    OutOfOrder,
    /// Its deadline has passed; it may have been executed before.
    Expired,
    Overloaded,
    /// It would take memory that the node does not have.
    OutOfMemory,
    Stopped,
    /// The replica neither votes nor serves: ask the next member.
    Silent,
    /// Its deadline is further ahead than an honest clock would set it: the entry node's clock is off.
    NotBelieved,
    /// The coordinator lost its ballot with the command in flight: it may still be executed, once.
    Uncertain {
        coordinator: Option<NodeId>,
    },
}

impl Bounce {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let (tag, node) = match self {
            Bounce::NotCoordinator { coordinator } => (0, coordinator.map_or(u32::MAX, |node| node.0)),
            Bounce::UnknownGroup => (1, 0),
            Bounce::OutOfOrder => (2, 0),
            Bounce::Expired => (3, 0),
            Bounce::Overloaded => (4, 0),
            Bounce::Stopped => (5, 0),
            Bounce::NotBelieved => (7, 0),
            Bounce::Silent => (8, 0),
            Bounce::OutOfMemory => (9, 0),
            Bounce::Uncertain { coordinator } => (6, coordinator.map_or(u32::MAX, |node| node.0)),
        };
        out.push(tag);
        out.extend_from_slice(&node.to_le_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Bounce, Malformed> {
        let (tag, node) = (reader.u8()?, reader.u32()?);
        let coordinator = (node != u32::MAX).then_some(NodeId(node));
        Ok(match tag {
            0 => Bounce::NotCoordinator { coordinator },
            1 => Bounce::UnknownGroup,
            2 => Bounce::OutOfOrder,
            3 => Bounce::Expired,
            4 => Bounce::Overloaded,
            5 => Bounce::Stopped,
            7 => Bounce::NotBelieved,
            8 => Bounce::Silent,
            9 => Bounce::OutOfMemory,
            6 => Bounce::Uncertain { coordinator },
            tag => return Err(Malformed::UnknownTag { of: "bounce", tag }),
        })
    }
}
