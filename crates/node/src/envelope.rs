//! A command on its way: who asked, until when it may be executed, and the command itself.
//!
//! ```text
//! length u32 | node u32 | start u32 | number u64 | deadline_ms u64 | predecessor u32 | settled u32 | command ...
//! ```
//! Little-endian; `length` counts what follows it. Envelopes stand one behind the other in a slot's payload, and a
//! request frame carries one as it will be logged, so that a command is encoded once and copied from there on.

use quorate_protocol::{NodeId, Stamp};

/// Bytes of an envelope before its command.
pub const HEADER_BYTES: usize = 36;

/// No command is larger: it is logged in one record, with what shares its slot.
pub const ENVELOPE_BYTES_MAX: usize = 20 << 20;

/// Names one operation for ever: the node a client is connected to, the durable count of that node's starts, and a
/// number that is not used twice within a start. Whoever comes to know the outcome can answer straight to that node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub node: NodeId,
    pub start: u32,
    pub number: u64,
}

impl Ticket {
    /// A node numbers operations of clients, its own and proposals one beside the other.
    pub fn space(self) -> u8 {
        (self.number >> 62) as u8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub ticket: Ticket,
    /// Refused, its outcome unknown, in a slot whose group time is past this.
    pub deadline: Stamp,
    /// How far before `ticket.number` the same connection's latest unanswered command on the same object is; 0 if none.
    pub predecessor: u32,
    /// How far before `ticket.number` the oldest unanswered operation of this node's start is: nobody waits for older ones.
    pub settled: u32,
    pub command: &'a [u8],
}

/// Says nothing of older operations.
pub const NOTHING_SETTLED: u32 = u32::MAX;

impl<'a> Envelope<'a> {
    /// Appends an envelope whose command `write` appends.
    pub fn encode(
        ticket: Ticket,
        deadline: Stamp,
        predecessor: u32,
        settled: u32,
        write: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&ticket.node.0.to_le_bytes());
        out.extend_from_slice(&ticket.start.to_le_bytes());
        out.extend_from_slice(&ticket.number.to_le_bytes());
        out.extend_from_slice(&deadline.0.to_le_bytes());
        out.extend_from_slice(&predecessor.to_le_bytes());
        out.extend_from_slice(&settled.to_le_bytes());
        write(out);
        let length = u32::try_from(out.len() - start - 4).expect("a command is far smaller than 4 GiB");
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Below this number nobody waits for an operation of the ticket's node, start and [space](Ticket::space).
    pub fn settled_below(&self) -> u64 {
        self.ticket.number.saturating_sub(u64::from(self.settled))
    }

    /// Takes the first envelope off `bytes`. `None` if they do not begin with a whole one.
    pub fn take(bytes: &mut &'a [u8]) -> Option<Envelope<'a>> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length + 4 < HEADER_BYTES || rest.len() < length {
            return None;
        }
        let (body, rest) = rest.split_at(length);
        *bytes = rest;
        let (node, body) = body.split_first_chunk::<4>()?;
        let (start, body) = body.split_first_chunk::<4>()?;
        let (number, body) = body.split_first_chunk::<8>()?;
        let (deadline, body) = body.split_first_chunk::<8>()?;
        let (predecessor, body) = body.split_first_chunk::<4>()?;
        let (settled, command) = body.split_first_chunk::<4>()?;
        Some(Envelope {
            ticket: Ticket {
                node: NodeId(u32::from_le_bytes(*node)),
                start: u32::from_le_bytes(*start),
                number: u64::from_le_bytes(*number),
            },
            deadline: Stamp(u64::from_le_bytes(*deadline)),
            predecessor: u32::from_le_bytes(*predecessor),
            settled: u32::from_le_bytes(*settled),
            command,
        })
    }

    /// Whether there is more behind the first envelope.
    pub fn is_followed(bytes: &[u8]) -> bool {
        let length = bytes.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        bytes.len() > length.saturating_add(4)
    }

    /// Writes the deadline of an encoded envelope that nobody has been sent yet.
    pub fn set_deadline(encoded: &mut [u8], deadline: Stamp) {
        encoded[20..28].copy_from_slice(&deadline.0.to_le_bytes());
    }

    /// Rewrites the predecessor of an encoded envelope: it was answered since, or is another now.
    pub fn set_predecessor(encoded: &mut [u8], predecessor: u32) {
        encoded[28..32].copy_from_slice(&predecessor.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(number: u64, command: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let ticket = Ticket { node: NodeId(2), start: 3, number };
        Envelope::encode(ticket, Stamp(9), 1, 2, |out| out.extend_from_slice(command), &mut out);
        out
    }

    #[test]
    fn envelopes_stand_behind_each_other() {
        let mut bytes = encoded(7, b"set");
        bytes.extend(encoded(8, b""));
        assert!(Envelope::is_followed(&bytes) && !Envelope::is_followed(&bytes[bytes.len() - HEADER_BYTES..]));
        let mut rest = &bytes[..];
        let first = Envelope::take(&mut rest).unwrap();
        assert_eq!((first.ticket.number, first.command, first.predecessor, first.settled), (7, &b"set"[..], 1, 2));
        assert_eq!(Envelope::take(&mut rest).unwrap().ticket, Ticket { node: NodeId(2), start: 3, number: 8 });
        assert!(rest.is_empty());
    }

    #[test]
    fn a_cut_or_short_envelope_is_refused() {
        let bytes = encoded(7, b"set");
        for length in 0..bytes.len() {
            assert!(Envelope::take(&mut &bytes[..length]).is_none());
        }
        assert!(Envelope::take(&mut &[3, 0, 0, 0, 1, 2, 3][..]).is_none());
    }

    #[test]
    fn the_predecessor_can_be_rewritten() {
        let mut bytes = encoded(7, b"set");
        Envelope::set_predecessor(&mut bytes, 0);
        assert_eq!(Envelope::take(&mut &bytes[..]).unwrap().predecessor, 0);
    }
}
