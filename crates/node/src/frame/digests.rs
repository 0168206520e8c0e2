//! What nodes say to each other so that a large command passes each link once: see decision 0024.
//!
//! ```text
//! tag u8 | body ...
//! ```

use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Ballot, Epoch, GroupId, Slot, paxos};

#[derive(Clone, Debug)]
pub enum DigestMessage<'a> {
    /// From its entry node to a member of its group: a command that its coordinator will refer to. The ticket's node is the
    /// sender.
    Body { start: u32, number: u64, command: &'a [u8] },
    /// From its entry node to its coordinator: all other members, as far as the sender knows them, have been sent the body
    /// of this command, which comes next.
    Spread { start: u32, number: u64 },
    /// An `Accept` in whose value references stand for commands.
    Referring { group: GroupId, epoch: Epoch, accept: paxos::Message },
    /// A member lacks what this `Accept` of the receiver refers to: it is to come in full.
    InFull { group: GroupId, epoch: Epoch, ballot: Ballot, slot: Slot },
}

mod tag {
    pub(super) const BODY: u8 = 1;
    pub(super) const SPREAD: u8 = 2;
    pub(super) const REFERRING: u8 = 3;
    pub(super) const IN_FULL: u8 = 4;
}

impl<'a> DigestMessage<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            DigestMessage::Body { start, number, command } => {
                out.push(tag::BODY);
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(command);
            }
            DigestMessage::Spread { start, number } => {
                out.push(tag::SPREAD);
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
            }
            DigestMessage::Referring { group, epoch, accept } => {
                out.push(tag::REFERRING);
                group.encode(out);
                epoch.encode(out);
                accept.encode(out);
            }
            DigestMessage::InFull { group, epoch, ballot, slot } => {
                out.push(tag::IN_FULL);
                group.encode(out);
                epoch.encode(out);
                ballot.encode(out);
                slot.encode(out);
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<DigestMessage<'a>, Malformed> {
        Ok(match reader.u8()? {
            tag::BODY => {
                let (start, number) = (reader.u32()?, reader.u64()?);
                DigestMessage::Body { start, number, command: reader.bytes(reader.remaining())? }
            }
            tag::SPREAD => DigestMessage::Spread { start: reader.u32()?, number: reader.u64()? },
            tag::REFERRING => DigestMessage::Referring {
                group: Wire::decode(reader)?,
                epoch: Wire::decode(reader)?,
                accept: Wire::decode(reader)?,
            },
            tag::IN_FULL => DigestMessage::InFull {
                group: Wire::decode(reader)?,
                epoch: Wire::decode(reader)?,
                ballot: Wire::decode(reader)?,
                slot: Wire::decode(reader)?,
            },
            tag => return Err(Malformed::UnknownTag { of: "message about digests", tag }),
        })
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::NodeId;

    use super::*;

    #[test]
    fn what_is_cut_off_or_unknown_is_refused() {
        let (group, epoch) = (GroupId(9), Epoch(1));
        let ballot = Ballot { number: 3, node: NodeId(1) };
        let accept = paxos::Message::Decide { ballot, frontier: Slot(1), frontier_majority: Slot(1) };
        let messages = [
            DigestMessage::Spread { start: 1, number: 2 },
            DigestMessage::Referring { group, epoch, accept },
            DigestMessage::InFull { group, epoch, ballot, slot: Slot(5) },
        ];
        for message in messages {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert!(DigestMessage::decode(&mut Reader::new(&bytes)).is_ok());
            for length in 0..bytes.len() {
                assert!(DigestMessage::decode(&mut Reader::new(&bytes[..length])).is_err(), "{message:?} {length}");
            }
        }
        // A body may be of any length, but begins with its ticket.
        assert!(DigestMessage::decode(&mut Reader::new(&[tag::BODY; 12])).is_err());
        assert!(DigestMessage::decode(&mut Reader::new(&[9; 40])).is_err());
    }
}
