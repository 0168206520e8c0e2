//! Of chains.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Malformed, Reader, Wire, Word, put_list, put_u8, put_u32, put_words, take_list};
use crate::chain::{Body, Membership, Message, Position, Record};
use crate::id::{Epoch, NodeId, Slot, Stamp, Value};

impl Wire for Epoch {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u32().map(Epoch)
    }
}

impl Wire for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u8(out, u8::from(*self));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(Malformed::UnknownTag { of: "flag", tag }),
        }
    }
}

/// Epoch, members from head to tail, then a flag and the joining node.
impl Wire for Arc<Membership> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        put_list(out, &self.members);
        self.joining.is_some().encode(out);
        if let Some(joining) = self.joining {
            joining.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let epoch = Epoch::decode(reader)?;
        let members = take_list(reader, "members", 4)?.into();
        let joining = if bool::decode(reader)? { Some(NodeId::decode(reader)?) } else { None };
        Ok(Arc::new(Membership { epoch, members, joining }))
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.body.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Message { epoch: Epoch::decode(reader)?, body: Body::decode(reader)? })
    }
}

// Fields are written in this order. Tags are never used again for anything else.
tagged!(Body, "message of a chain", {
    1 => Forward { [slot, frontier] value },
    2 => Suffix { slots, frontier },
    3 => Acknowledge { [frontier] },
    4 => Connect { membership, next_slot },
    5 => Held { next_slot },
    6 => Newest { membership },
    7 => Behind {},
    8 => Query { round, confirmed },
    9 => Committed { round, frontier },
    10 => Confirm { round },
    11 => Confirmed { round },
    // Never leaves its replica.
    12 => Kept { next_slot, joined },
});

impl Wire for Position {
    fn encode(&self, out: &mut Vec<u8>) {
        self.next_slot.encode(out);
        self.time.encode(out);
        self.stopped.encode(out);
        self.membership.encode(out);
        self.since.encode(out);
        self.established.encode(out);
        self.joined.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Position {
            next_slot: Slot::decode(reader)?,
            time: Stamp::decode(reader)?,
            stopped: bool::decode(reader)?,
            membership: Wire::decode(reader)?,
            since: Epoch::decode(reader)?,
            established: bool::decode(reader)?,
            joined: bool::decode(reader)?,
        })
    }
}

impl Record {
    /// Whether a record of a log begins as one of a chain does.
    pub fn is_one(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(0x11..=0x14))
    }
}

/// A record says by its first byte that it is of a chain: nothing else in a log tells the protocols apart.
impl Wire for Record {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Adopted { membership, decided, since } => {
                put_u8(out, 0x11);
                membership.encode(out);
                decided.encode(out);
                since.encode(out);
            }
            Record::Update { epoch, slot, value, frontier } => {
                put_u8(out, 0x12);
                epoch.encode(out);
                slot.encode(out);
                frontier.encode(out);
                value.encode(out);
            }
            Record::Joined { membership, decided, since } => {
                put_u8(out, 0x13);
                membership.encode(out);
                decided.encode(out);
                since.encode(out);
            }
            Record::Checkpoint(position) => {
                put_u8(out, 0x14);
                position.encode(out);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.u8()? {
            0x11 => Record::Adopted {
                membership: Wire::decode(reader)?,
                decided: Slot::decode(reader)?,
                since: Epoch::decode(reader)?,
            },
            0x12 => {
                let (epoch, slot, frontier) = (Epoch::decode(reader)?, Slot::decode(reader)?, Slot::decode(reader)?);
                Record::Update { epoch, slot, value: Value::decode(reader)?, frontier }
            }
            0x13 => Record::Joined {
                membership: Wire::decode(reader)?,
                decided: Slot::decode(reader)?,
                since: Epoch::decode(reader)?,
            },
            0x14 => Record::Checkpoint(Position::decode(reader)?),
            tag => return Err(Malformed::UnknownTag { of: "record of a chain", tag }),
        })
    }
}
