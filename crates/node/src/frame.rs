//! What nodes say to each other, as bytes.
//!
//! ```text
//! frame:   length u32 | checksum u64 | version u8 | node u32 | start u32 | sequence u64 | stamp u64 | wall u64 | directory u64 | messages ...
//! message: kind u8 | length u32 | body ...
//! ```
//! Little-endian. `length` counts what follows it; the checksum (xxh3-64) covers what follows *it*. One frame carries
//! what a turn has for a peer, of all groups. A message of a kind that a reader does not know is passed over.

mod bounce;
mod digests;
mod kind;
mod replica;
mod routing;

use quorate_object::Outcome;
use quorate_protocol::paxos::Testimony;
use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Epoch, GroupId, Instant, NodeId, Slot, Stamp, chain, paxos, peers, register};
use xxhash_rust::xxh3::xxh3_64;

pub use bounce::Bounce;
pub use digests::DigestMessage;
pub use replica::{Place, encode_replica, places};
pub use routing::RouterMessage;

use crate::chain_view::ChainView;
use crate::members::{Reconfigured, Told, Wanted};
use crate::readmission::Asks;
use crate::replica::AnyMessage;

/// The layout that this release speaks.
pub const FRAME_VERSION: u8 = 4;
/// No correct peer sends a longer frame; a longer one ends the link.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

const LENGTH_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 8;
const HEADER_BYTES: usize = LENGTH_BYTES + CHECKSUM_BYTES + 1 + 4 + 4 + 8 + 8 + 8 + 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub node: NodeId,
    pub start: u32,
    /// Counts the sender's frames since its start, so that one that arrives twice is known.
    pub sequence: u64,
    /// The sender's hybrid clock.
    pub stamp: Stamp,
    /// The sender's wall clock.
    pub wall: Stamp,
    /// The version of the sender's directory.
    pub directory: u64,
}

#[derive(Clone, Debug)]
pub enum Message<'a> {
    Peers(peers::Message),
    /// A client's command for a group that the receiver is believed to coordinate. To a member of a register group `epoch` is
    /// the start of the receiver that is meant: in another one a write that comes again would be another write.
    Request {
        group: GroupId,
        epoch: Epoch,
        access: Access,
        envelope: &'a [u8],
    },
    Reply {
        start: u32,
        number: u64,
        position: Position,
        outcome: &'a [u8],
    },
    Bounced {
        start: u32,
        number: u64,
        why: Bounce,
    },
    Replica {
        group: GroupId,
        epoch: Epoch,
        message: AnyMessage,
    },
    /// Part `part` of a snapshot's bytes. `next_slot` names the snapshot; `last` ends it.
    Snapshot {
        group: GroupId,
        epoch: Epoch,
        next_slot: u64,
        part: u32,
        last: bool,
        bytes: &'a [u8],
    },
    SnapshotTaken {
        group: GroupId,
        epoch: Epoch,
        next_slot: u64,
        part: u32,
    },
    /// The sender's replica neither votes nor serves any more in this start of the sender.
    Silent {
        group: GroupId,
        epoch: Epoch,
    },
    /// What the sender knows of the root's own group. Whoever knows less goes by it, and whoever knows more tells the sender.
    RootGroup(&'a [u8]),
    /// The sender's replica, which has executed all below `next_slot`, has forgotten what it said before this start of the sender.
    Readmit {
        group: GroupId,
        epoch: Epoch,
        start: u32,
        next_slot: Slot,
        asks: Asks,
    },
    /// Answers `Readmit` of that start.
    Testimony {
        group: GroupId,
        epoch: Epoch,
        start: u32,
        testimony: Testimony,
    },
    /// A command was not executed, and cannot be where it was sent: its object has a group of its own, of this record in
    /// that volume at this slot.
    Away {
        start: u32,
        number: u64,
        volume: GroupId,
        slot: Slot,
        record: &'a [u8],
    },
    /// From whoever coordinates the volume: this own group's last command is to be decided. `insist` says that this has
    /// been asked before: whoever knows it to be decided tells the volume.
    StopGroup {
        group: GroupId,
        epoch: Epoch,
        insist: bool,
    },
    /// From whoever coordinates the volume, to a node without a replica of it: it is a member of these own groups, which begin.
    Births {
        volume: GroupId,
        numbers: Vec<u64>,
    },
    /// The sender has the births of these own groups on its disk.
    Born {
        volume: GroupId,
        numbers: Vec<u64>,
    },
    /// The sender's checkpoint store takes own groups more slowly than they are born.
    StoreBehind,
    /// The sender's log has no space, or it is being stopped: others are to act in its place.
    Unable,
    /// To whoever coordinates the parent of chains: may I answer reads of these groups, at these epochs, for a while?
    /// `extended` are those of which the sender is the tail, and the joining node holds everything.
    TermQuestion {
        parent: GroupId,
        asked_at: Instant,
        confirm: Vec<(GroupId, Epoch)>,
        extended: Vec<(GroupId, Epoch)>,
        /// Those that name the sender a member, and of which it has no replica that could be one.
        absent: Vec<(GroupId, Epoch)>,
    },
    /// For so long, counted from when it was asked, nothing is decided in the parent without the sender, and no chain of
    /// those that were confirmed since this number was first given comes to life without the receiver.
    TermAnswer {
        parent: GroupId,
        asked_at: Instant,
        number: u64,
        left_us: u64,
        confirmed: Vec<(GroupId, Epoch)>,
    },
    /// To a member of a register group: have all operations ended at your replica that began before this epoch?
    Drain {
        group: GroupId,
        epoch: Epoch,
    },
    /// They have.
    Drained {
        group: GroupId,
        epoch: Epoch,
    },
    /// How far is the receiver in these chains?
    ViewQuestion {
        nonce: u64,
        groups: Vec<GroupId>,
    },
    /// Of those that it has replicas of.
    ViewAnswer {
        nonce: u64,
        views: Vec<ChainView>,
    },
    /// Who is in a register group whose members decide, as far as the sender knows. Whoever knows more says so.
    Members(Told),
    /// To a member of such a group: have this decided. `nonce` names the question, in this start of the sender.
    Reconfigure {
        group: GroupId,
        start: u32,
        nonce: u64,
        wanted: Wanted,
    },
    Reconfigured {
        start: u32,
        nonce: u64,
        outcome: Reconfigured,
    },
    StatusQuestion {
        nonce: u64,
    },
    StatusAnswer {
        nonce: u64,
        bytes: &'a [u8],
    },
    Digest(DigestMessage<'a>),
    Router(RouterMessage<'a>),
}

fn put_epochs(list: &[(GroupId, Epoch)], out: &mut Vec<u8>) {
    out.extend_from_slice(&(list.len() as u32).to_le_bytes());
    for (group, epoch) in list {
        out.extend_from_slice(&group.0.to_le_bytes());
        out.extend_from_slice(&epoch.0.to_le_bytes());
    }
}

fn put_numbers(numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    numbers.for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// All that are left.
fn take_numbers(r: &mut Reader<'_>) -> Result<Vec<u64>, Malformed> {
    let count = r.remaining() / size_of::<u64>();
    (0..count).map(|_| r.u64()).collect()
}

fn take_epochs(r: &mut Reader<'_>) -> Result<Vec<(GroupId, Epoch)>, Malformed> {
    const EACH: usize = 12;
    let count = r.u32()? as usize;
    if count > r.remaining() / EACH {
        return Err(Malformed::Truncated);
    }
    (0..count).map(|_| Ok((GroupId(r.u64()?), Epoch(r.u32()?)))).collect()
}

/// Where in its group's history an answer was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Every slot below it had been executed; for a write, this slot and no later one.
    pub slot: Slot,
    /// The members known to have accepted the slot, as positions among the group's members; none for a read.
    pub acknowledgers: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Write,
    ReadLease,
    ReadQuorum,
}

impl Access {
    fn decode(r: &mut Reader<'_>) -> Result<Access, Malformed> {
        match r.u8()? {
            0 => Ok(Access::Write),
            1 => Ok(Access::ReadLease),
            2 => Ok(Access::ReadQuorum),
            tag => Err(Malformed::UnknownTag { of: "access", tag }),
        }
    }
}

/// Why bytes are not a frame. The link they came by is of no use any more.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    #[error("a frame of {0} bytes is longer than any peer may send")]
    TooLong(usize),
    #[error("the frame's checksum does not match: the bytes were damaged on the way")]
    Checksum,
    #[error("the frame is of layout {0}, and this release reads {FRAME_VERSION}: upgrade this node")]
    Version(u8),
    #[error("the frame's messages do not fit its length")]
    Malformed,
}

/// The length of the first frame of `bytes`, once all of it is there.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    if length + LENGTH_BYTES < HEADER_BYTES {
        return Err(FrameError::Malformed);
    }
    Ok((rest.len() >= length).then_some(length + LENGTH_BYTES))
}

/// Makes a frame of messages; `out` is appended to.
pub fn encode_frame(header: &Header, messages: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES + CHECKSUM_BYTES]);
    out.push(FRAME_VERSION);
    out.extend_from_slice(&header.node.0.to_le_bytes());
    out.extend_from_slice(&header.start.to_le_bytes());
    out.extend_from_slice(&header.sequence.to_le_bytes());
    out.extend_from_slice(&header.stamp.0.to_le_bytes());
    out.extend_from_slice(&header.wall.0.to_le_bytes());
    out.extend_from_slice(&header.directory.to_le_bytes());
    out.extend_from_slice(messages);
    let length = (out.len() - start - LENGTH_BYTES) as u32;
    let checksum = xxh3_64(&out[start + LENGTH_BYTES + CHECKSUM_BYTES..]);
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    out[start + LENGTH_BYTES..start + LENGTH_BYTES + CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Takes a whole frame apart into its header and its messages' bytes.
pub fn decode_frame(bytes: &[u8]) -> Result<(Header, &[u8]), FrameError> {
    if bytes.len() < HEADER_BYTES {
        return Err(FrameError::Malformed);
    }
    let mut reader = Reader::new(&bytes[LENGTH_BYTES..]);
    let mut header = || {
        let checksum = reader.u64()?;
        let version = reader.u8()?;
        let node = NodeId(reader.u32()?);
        let (start, sequence) = (reader.u32()?, reader.u64()?);
        let (stamp, wall, directory) = (Stamp(reader.u64()?), Stamp(reader.u64()?), reader.u64()?);
        Ok::<_, Malformed>((checksum, version, Header { node, start, sequence, stamp, wall, directory }))
    };
    let (checksum, version, header) = header().map_err(|_| FrameError::Malformed)?;
    if checksum != xxh3_64(&bytes[LENGTH_BYTES + CHECKSUM_BYTES..]) {
        return Err(FrameError::Checksum);
    }
    if version != FRAME_VERSION {
        return Err(FrameError::Version(version));
    }
    Ok((header, &bytes[HEADER_BYTES..]))
}

impl Message<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_with(out, |out| self.encode_body(out));
    }

    /// The kind of the message whose body was appended.
    fn encode_body(&self, out: &mut Vec<u8>) -> u8 {
        let head = |group: &GroupId, epoch: &Epoch, out: &mut Vec<u8>| replica::put_head(*group, *epoch, out);
        match self {
            Message::Peers(peers::Message::Heartbeat { sent_at }) => {
                out.extend_from_slice(&sent_at.0.to_le_bytes());
                kind::HEARTBEAT
            }
            Message::Peers(peers::Message::Grant { sent_at, number }) => {
                out.extend_from_slice(&sent_at.0.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
                kind::GRANT
            }
            Message::Request { group, epoch, access, envelope } => {
                head(group, epoch, out);
                out.push(*access as u8);
                out.extend_from_slice(envelope);
                kind::REQUEST
            }
            Message::Reply { start, number, position, outcome } => {
                position.encode_reply_head(*start, *number, out);
                out.extend_from_slice(outcome);
                kind::REPLY
            }
            Message::Bounced { start, number, why } => {
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
                why.encode(out);
                kind::BOUNCED
            }
            Message::Replica { group, epoch, message } => replica::encode_body(*group, *epoch, message.as_ref(), out),
            Message::TermQuestion { parent, asked_at, confirm, extended, absent } => {
                out.extend_from_slice(&parent.0.to_le_bytes());
                out.extend_from_slice(&asked_at.0.to_le_bytes());
                put_epochs(confirm, out);
                put_epochs(extended, out);
                put_epochs(absent, out);
                kind::TERM_QUESTION
            }
            Message::TermAnswer { parent, asked_at, number, left_us, confirmed } => {
                out.extend_from_slice(&parent.0.to_le_bytes());
                out.extend_from_slice(&asked_at.0.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&left_us.to_le_bytes());
                put_epochs(confirmed, out);
                kind::TERM_ANSWER
            }
            Message::Snapshot { group, epoch, next_slot, part, last, bytes } => {
                head(group, epoch, out);
                out.extend_from_slice(&next_slot.to_le_bytes());
                out.extend_from_slice(&part.to_le_bytes());
                out.push(u8::from(*last));
                out.extend_from_slice(bytes);
                kind::SNAPSHOT
            }
            Message::SnapshotTaken { group, epoch, next_slot, part } => {
                head(group, epoch, out);
                out.extend_from_slice(&next_slot.to_le_bytes());
                out.extend_from_slice(&part.to_le_bytes());
                kind::SNAPSHOT_TAKEN
            }
            Message::Members(told) => {
                told.encode(out);
                kind::MEMBERS
            }
            Message::Reconfigure { group, start, nonce, wanted } => {
                out.extend_from_slice(&group.0.to_le_bytes());
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&nonce.to_le_bytes());
                wanted.encode(out);
                kind::RECONFIGURE
            }
            Message::Reconfigured { start, nonce, outcome } => {
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&nonce.to_le_bytes());
                outcome.encode(out);
                kind::RECONFIGURED
            }
            Message::Digest(message) => {
                message.encode(out);
                kind::DIGEST
            }
            Message::Router(message) => {
                message.encode(out);
                kind::ROUTER
            }
            Message::Silent { group, epoch } => {
                head(group, epoch, out);
                kind::SILENT
            }
            Message::Readmit { group, epoch, start, next_slot, asks } => {
                head(group, epoch, out);
                out.extend_from_slice(&start.to_le_bytes());
                next_slot.encode(out);
                out.push(*asks as u8);
                kind::READMIT
            }
            Message::RootGroup(bytes) => {
                out.extend_from_slice(bytes);
                kind::ROOT_GROUP
            }
            Message::Testimony { group, epoch, start, testimony } => {
                head(group, epoch, out);
                out.extend_from_slice(&start.to_le_bytes());
                testimony.encode(out);
                kind::TESTIMONY
            }
            Message::Away { start, number, volume, slot, record } => {
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&volume.0.to_le_bytes());
                slot.encode(out);
                out.extend_from_slice(record);
                kind::AWAY
            }
            Message::StopGroup { group, epoch, insist } => {
                head(group, epoch, out);
                out.push(u8::from(*insist));
                kind::STOP_GROUP
            }
            Message::Births { volume, numbers } => {
                put_numbers([volume.0].iter().chain(numbers).copied(), out);
                kind::BIRTHS
            }
            Message::Born { volume, numbers } => {
                put_numbers([volume.0].iter().chain(numbers).copied(), out);
                kind::BORN
            }
            Message::StoreBehind => kind::STORE_BEHIND,
            Message::Unable => kind::UNABLE,
            Message::Drain { group, epoch } => {
                head(group, epoch, out);
                kind::DRAIN
            }
            Message::Drained { group, epoch } => {
                head(group, epoch, out);
                kind::DRAINED
            }
            Message::ViewQuestion { nonce, groups } => {
                out.extend_from_slice(&nonce.to_le_bytes());
                put_numbers(groups.iter().map(|group| group.0), out);
                kind::VIEW_QUESTION
            }
            Message::ViewAnswer { nonce, views } => {
                out.extend_from_slice(&nonce.to_le_bytes());
                views.iter().for_each(|view| view.encode(out));
                kind::VIEW_ANSWER
            }
            Message::StatusQuestion { nonce } => {
                out.extend_from_slice(&nonce.to_le_bytes());
                kind::STATUS_QUESTION
            }
            Message::StatusAnswer { nonce, bytes } => {
                out.extend_from_slice(&nonce.to_le_bytes());
                out.extend_from_slice(bytes);
                kind::STATUS_ANSWER
            }
        }
    }
}

/// Appends a message whose body, and what kind that is, comes from `body`.
fn encode_with(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>) -> u8) {
    let start = out.len();
    out.extend_from_slice(&[0; 5]);
    out[start] = body(out);
    let length = (out.len() - start - 5) as u32;
    out[start + 1..start + 5].copy_from_slice(&length.to_le_bytes());
}

/// Appends a reply without an intermediate copy of its outcome.
pub fn encode_reply(start: u32, number: u64, position: Position, outcome: &Outcome, out: &mut Vec<u8>) {
    encode_with(out, |out| {
        position.encode_reply_head(start, number, out);
        outcome.encode(out);
        kind::REPLY
    });
}

/// The length of the whole messages at the beginning of `bytes`, the first one and as many more as fit into `size`.
pub fn whole_messages(bytes: &[u8], size: usize) -> usize {
    let mut length = 0;
    while let Some((head, _)) = bytes.get(length..).and_then(|rest| rest.split_first_chunk::<5>()) {
        let next = length + 5 + u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > 0 && next > size {
            break;
        }
        length = next;
    }
    length.min(bytes.len())
}

/// The messages of a frame, in order, up to an error at bytes that are none.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Result<Message<'_>, FrameError>> {
    places(bytes).filter_map(|place| place.and_then(|place| place.message(bytes)).transpose())
}

/// The kind and the body of the first message, and what is behind it.
fn take_body(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), Malformed> {
    let (head, rest) = bytes.split_first_chunk::<5>().ok_or(Malformed::Truncated)?;
    let [kind, length @ ..] = *head;
    let (body, rest) = rest.split_at_checked(u32::from_le_bytes(length) as usize).ok_or(Malformed::Truncated)?;
    Ok((kind, body, rest))
}

fn decode_body(kind: u8, body: &[u8]) -> Result<Option<Message<'_>>, Malformed> {
    let mut reader = Reader::new(body);
    let r = &mut reader;
    let message = match kind {
        kind::HEARTBEAT => Message::Peers(peers::Message::Heartbeat { sent_at: Instant(r.u64()?) }),
        kind::GRANT => Message::Peers(peers::Message::Grant { sent_at: Instant(r.u64()?), number: r.u64()? }),
        kind::REQUEST => {
            let (group, epoch) = (GroupId(r.u64()?), Epoch(r.u32()?));
            Message::Request { group, epoch, access: Access::decode(r)?, envelope: r.bytes(r.remaining())? }
        }
        kind::REPLY => {
            let (start, number) = (r.u32()?, r.u64()?);
            let position = Position { slot: Slot(r.u64()?), acknowledgers: r.u16()? };
            Message::Reply { start, number, position, outcome: r.bytes(r.remaining())? }
        }
        kind::BOUNCED => Message::Bounced { start: r.u32()?, number: r.u64()?, why: Bounce::decode(r)? },
        kind::REPLICA => {
            let (group, epoch) = (GroupId(r.u64()?), Epoch(r.u32()?));
            Message::Replica { group, epoch, message: AnyMessage::Paxos(paxos::Message::decode(r)?) }
        }
        kind::CHAIN => {
            let (group, epoch) = (GroupId(r.u64()?), Epoch(r.u32()?));
            Message::Replica { group, epoch, message: AnyMessage::Chain(chain::Message::decode(r)?) }
        }
        kind::MEMBERS => Message::Members(Told::decode(r)?),
        kind::RECONFIGURE => Message::Reconfigure {
            group: GroupId(r.u64()?),
            start: r.u32()?,
            nonce: r.u64()?,
            wanted: Wanted::decode(r)?,
        },
        kind::RECONFIGURED => {
            Message::Reconfigured { start: r.u32()?, nonce: r.u64()?, outcome: Reconfigured::decode(r)? }
        }
        kind::DRAIN => Message::Drain { group: GroupId(r.u64()?), epoch: Epoch(r.u32()?) },
        kind::DRAINED => Message::Drained { group: GroupId(r.u64()?), epoch: Epoch(r.u32()?) },
        kind::REGISTER => {
            let (group, epoch) = (GroupId(r.u64()?), Epoch(r.u32()?));
            Message::Replica { group, epoch, message: AnyMessage::Register(register::Message::decode(r)?) }
        }
        kind::TERM_QUESTION => Message::TermQuestion {
            parent: GroupId(r.u64()?),
            asked_at: Instant(r.u64()?),
            confirm: take_epochs(r)?,
            extended: take_epochs(r)?,
            absent: take_epochs(r)?,
        },
        kind::TERM_ANSWER => Message::TermAnswer {
            parent: GroupId(r.u64()?),
            asked_at: Instant(r.u64()?),
            number: r.u64()?,
            left_us: r.u64()?,
            confirmed: take_epochs(r)?,
        },
        kind::SNAPSHOT => Message::Snapshot {
            group: GroupId(r.u64()?),
            epoch: Epoch(r.u32()?),
            next_slot: r.u64()?,
            part: r.u32()?,
            last: r.u8()? != 0,
            bytes: r.bytes(r.remaining())?,
        },
        kind::SNAPSHOT_TAKEN => Message::SnapshotTaken {
            group: GroupId(r.u64()?),
            epoch: Epoch(r.u32()?),
            next_slot: r.u64()?,
            part: r.u32()?,
        },
        kind::SILENT => Message::Silent { group: GroupId(r.u64()?), epoch: Epoch(r.u32()?) },
        kind::READMIT => Message::Readmit {
            group: GroupId(r.u64()?),
            epoch: Epoch(r.u32()?),
            start: r.u32()?,
            next_slot: Slot::decode(r)?,
            asks: Asks::decode(r)?,
        },
        kind::ROOT_GROUP => Message::RootGroup(r.bytes(r.remaining())?),
        kind::TESTIMONY => Message::Testimony {
            group: GroupId(r.u64()?),
            epoch: Epoch(r.u32()?),
            start: r.u32()?,
            testimony: Testimony::decode(r)?,
        },
        kind::AWAY => Message::Away {
            start: r.u32()?,
            number: r.u64()?,
            volume: GroupId(r.u64()?),
            slot: Slot::decode(r)?,
            record: r.bytes(r.remaining())?,
        },
        kind::STOP_GROUP => {
            Message::StopGroup { group: GroupId(r.u64()?), epoch: Epoch(r.u32()?), insist: r.u8()? != 0 }
        }
        kind::VIEW_QUESTION => {
            let (nonce, groups) = (r.u64()?, take_numbers(r)?);
            Message::ViewQuestion { nonce, groups: groups.into_iter().map(GroupId).collect() }
        }
        kind::BIRTHS => Message::Births { volume: GroupId(r.u64()?), numbers: take_numbers(r)? },
        kind::BORN => Message::Born { volume: GroupId(r.u64()?), numbers: take_numbers(r)? },
        kind::STORE_BEHIND => Message::StoreBehind,
        kind::UNABLE => Message::Unable,
        kind::VIEW_ANSWER => {
            let (nonce, count) = (r.u64()?, r.remaining() / ChainView::BYTES);
            Message::ViewAnswer { nonce, views: (0..count).map(|_| ChainView::decode(r)).collect::<Result<_, _>>()? }
        }
        kind::DIGEST => Message::Digest(DigestMessage::decode(r)?),
        kind::ROUTER => Message::Router(RouterMessage::decode(r)?),
        kind::STATUS_QUESTION => Message::StatusQuestion { nonce: r.u64()? },
        kind::STATUS_ANSWER => Message::StatusAnswer { nonce: r.u64()?, bytes: r.bytes(r.remaining())? },
        _ => return Ok(None),
    };
    reader.finish()?;
    Ok(Some(message))
}

impl Position {
    fn encode_reply_head(self, start: u32, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&start.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&self.slot.0.to_le_bytes());
        out.extend_from_slice(&self.acknowledgers.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
