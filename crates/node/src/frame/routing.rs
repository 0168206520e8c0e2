//! What routers and coordinators say to each other: see docs/protocols/router.md.
//!
//! ```text
//! tag u8 | body ...
//! ```

use quorate_protocol::router::{Kgroup, RecallNumber, Scope, SessionId};
use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Epoch, GroupId, Instant, Slot};

use super::Access;

#[derive(Clone, Debug)]
pub enum RouterMessage<'a> {
    /// To whoever coordinates the group: a session, or the renewal of the one held.
    Ask {
        group: GroupId,
        epoch: Epoch,
        start: u32,
        asked_at: Instant,
        held: Option<SessionId>,
    },
    /// For so long, counted from when it was asked.
    Grant {
        group: GroupId,
        start: u32,
        asked_at: Instant,
        session: SessionId,
        left_us: u64,
    },
    /// From a coordinator: what is in this scope will change.
    Recall {
        group: GroupId,
        number: RecallNumber,
        scope: Scope,
    },
    Recalled {
        group: GroupId,
        number: RecallNumber,
    },
    /// Nothing in this kgroup changes before it is recalled, unless by the receiver's writes in this session.
    Share {
        group: GroupId,
        session: SessionId,
        recalls: RecallNumber,
        kgroup: Kgroup,
        next_slot: Slot,
    },
    /// As [`super::Message::Request`], by a router that has this session.
    Request {
        group: GroupId,
        epoch: Epoch,
        access: Access,
        session: SessionId,
        envelope: &'a [u8],
    },
    /// To any member that has executed this slot: a read of a stable kgroup.
    Read {
        group: GroupId,
        epoch: Epoch,
        slot: Slot,
        envelope: &'a [u8],
    },
}

mod tag {
    pub(super) const ASK: u8 = 1;
    pub(super) const GRANT: u8 = 2;
    pub(super) const RECALL: u8 = 3;
    pub(super) const RECALLED: u8 = 4;
    pub(super) const SHARE: u8 = 5;
    pub(super) const REQUEST: u8 = 6;
    pub(super) const READ: u8 = 7;
}

/// In the place of a kgroup's number.
const ALL_KGROUPS: u16 = u16::MAX;

fn put_session(session: SessionId, out: &mut Vec<u8>) {
    session.coordinator.encode(out);
    out.extend_from_slice(&session.number.to_le_bytes());
}

fn take_session(r: &mut Reader<'_>) -> Result<SessionId, Malformed> {
    Ok(SessionId { coordinator: Wire::decode(r)?, number: r.u64()? })
}

impl<'a> RouterMessage<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut head = |tag: u8, group: GroupId| {
            out.push(tag);
            group.encode(out);
        };
        match *self {
            RouterMessage::Ask { group, epoch, start, asked_at, held } => {
                head(tag::ASK, group);
                epoch.encode(out);
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&asked_at.0.to_le_bytes());
                out.push(u8::from(held.is_some()));
                held.iter().for_each(|session| put_session(*session, out));
            }
            RouterMessage::Grant { group, start, asked_at, session, left_us } => {
                head(tag::GRANT, group);
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&asked_at.0.to_le_bytes());
                put_session(session, out);
                out.extend_from_slice(&left_us.to_le_bytes());
            }
            RouterMessage::Recall { group, number, scope } => {
                head(tag::RECALL, group);
                out.extend_from_slice(&number.to_le_bytes());
                let kgroup = match scope {
                    Scope::One(kgroup) => kgroup.hash_slot(),
                    Scope::All => ALL_KGROUPS,
                };
                out.extend_from_slice(&kgroup.to_le_bytes());
            }
            RouterMessage::Recalled { group, number } => {
                head(tag::RECALLED, group);
                out.extend_from_slice(&number.to_le_bytes());
            }
            RouterMessage::Share { group, session, recalls, kgroup, next_slot } => {
                head(tag::SHARE, group);
                put_session(session, out);
                out.extend_from_slice(&recalls.to_le_bytes());
                out.extend_from_slice(&kgroup.hash_slot().to_le_bytes());
                next_slot.encode(out);
            }
            RouterMessage::Request { group, epoch, access, session, envelope } => {
                head(tag::REQUEST, group);
                epoch.encode(out);
                out.push(access as u8);
                put_session(session, out);
                out.extend_from_slice(envelope);
            }
            RouterMessage::Read { group, epoch, slot, envelope } => {
                head(tag::READ, group);
                epoch.encode(out);
                slot.encode(out);
                out.extend_from_slice(envelope);
            }
        }
    }

    pub(super) fn decode(r: &mut Reader<'a>) -> Result<RouterMessage<'a>, Malformed> {
        let (tag, group) = (r.u8()?, GroupId(r.u64()?));
        Ok(match tag {
            tag::ASK => RouterMessage::Ask {
                group,
                epoch: Wire::decode(r)?,
                start: r.u32()?,
                asked_at: Instant(r.u64()?),
                held: if r.u8()? == 0 { None } else { Some(take_session(r)?) },
            },
            tag::GRANT => RouterMessage::Grant {
                group,
                start: r.u32()?,
                asked_at: Instant(r.u64()?),
                session: take_session(r)?,
                left_us: r.u64()?,
            },
            tag::RECALL => RouterMessage::Recall {
                group,
                number: r.u64()?,
                scope: match r.u16()? {
                    ALL_KGROUPS => Scope::All,
                    number => Scope::One(Kgroup::of_hash_slot(number)),
                },
            },
            tag::RECALLED => RouterMessage::Recalled { group, number: r.u64()? },
            tag::SHARE => RouterMessage::Share {
                group,
                session: take_session(r)?,
                recalls: r.u64()?,
                kgroup: Kgroup::of_hash_slot(r.u16()?),
                next_slot: Wire::decode(r)?,
            },
            tag::REQUEST => RouterMessage::Request {
                group,
                epoch: Wire::decode(r)?,
                access: Access::decode(r)?,
                session: take_session(r)?,
                envelope: r.bytes(r.remaining())?,
            },
            tag::READ => RouterMessage::Read {
                group,
                epoch: Wire::decode(r)?,
                slot: Wire::decode(r)?,
                envelope: r.bytes(r.remaining())?,
            },
            tag => return Err(Malformed::UnknownTag { of: "message about routing", tag }),
        })
    }
}
