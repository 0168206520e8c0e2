//! What replicas say to each other, and where it lies in a frame.

use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Epoch, GroupId, paxos};

use super::{FrameError, Message, decode_body, kind, take_body};
use crate::replica::AnyMessageRef;

const HEAD_BYTES: usize = size_of::<GroupId>() + size_of::<Epoch>();

pub(super) fn put_head(group: GroupId, epoch: Epoch, out: &mut Vec<u8>) {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&group.0.to_le_bytes());
    head[8..].copy_from_slice(&epoch.0.to_le_bytes());
    out.extend_from_slice(&head);
}

/// The kind of the message whose body was appended.
pub(super) fn encode_body(group: GroupId, epoch: Epoch, message: AnyMessageRef<'_>, out: &mut Vec<u8>) -> u8 {
    put_head(group, epoch, out);
    match message {
        AnyMessageRef::Paxos(message) => {
            message.encode(out);
            kind::REPLICA
        }
        AnyMessageRef::Chain(message) => {
            message.encode(out);
            kind::CHAIN
        }
        AnyMessageRef::Register(message) => {
            message.encode(out);
            kind::REGISTER
        }
    }
}

/// Appends what a replica says, as [`Message::Replica`] would.
pub fn encode_replica(group: GroupId, epoch: Epoch, message: AnyMessageRef<'_>, out: &mut Vec<u8>) {
    super::encode_with(out, |out| encode_body(group, epoch, message, out));
}

/// Where a message lies among those of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of a request, or of what a Paxos replica says.
    pub group: Option<GroupId>,
    kind: u8,
    begin: u32,
    end: u32,
}

/// Where the messages of a frame lie, in order, without taking them apart. Ends early, with an error, at bytes that are none.
pub fn places(bytes: &[u8]) -> impl Iterator<Item = Result<Place, FrameError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Ok((kind, body, behind)) = take_body(rest) else {
            rest = &[];
            return Some(Err(FrameError::Malformed));
        };
        let end = bytes.len() - behind.len();
        rest = behind;
        let names_group = matches!(kind, kind::REPLICA | kind::REQUEST);
        let group = body.first_chunk().filter(|_| names_group).map(|group| GroupId(u64::from_le_bytes(*group)));
        // No frame is as long as four gigabytes.
        Some(Ok(Place { group, kind, begin: (end - body.len()) as u32, end: end as u32 }))
    })
}

impl Place {
    /// `None` if it is one of a newer release.
    pub fn message(self, bytes: &[u8]) -> Result<Option<Message<'_>>, FrameError> {
        decode_body(self.kind, self.body(bytes)).map_err(|_| FrameError::Malformed)
    }

    /// What a Paxos replica says, and in which epoch.
    pub fn said(self, bytes: &[u8]) -> Option<(Epoch, paxos::Message)> {
        if self.kind != kind::REPLICA {
            return None;
        }
        let mut reader = Reader::new(self.body(bytes).get(size_of::<GroupId>()..)?);
        let mut said = || -> Result<_, Malformed> { Ok((Epoch(reader.u32()?), paxos::Message::decode(&mut reader)?)) };
        let said = said().ok()?;
        reader.finish().ok()?;
        Some(said)
    }

    fn body(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.begin as usize..self.end as usize).unwrap_or_default()
    }
}
