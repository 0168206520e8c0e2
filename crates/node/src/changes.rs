//! What a chain's updates carry: not commands, but what has become of them. The head executes each command once; every
//! member, the head included, applies the same changes and keeps the same results.
//!
//! ```text
//! each: length u32 | node u32 | start u32 | number u64 | deadline_ms u64 | tag u32 | settled u64 | verdict u8 |
//!       outcome length u32, outcome ... | change ...
//! ```
//! Little-endian; `length` counts what follows it. Without a change the last part is empty. The verdicts are 0 executed, 1
//! again (answered what it was answered when it was executed), 2 expired, 3 out of order, 4 full.

use quorate_object::{Change, Outcome};
use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{NodeId, Stamp};

use crate::envelope::Ticket;
use crate::machine::Verdict;

/// What has become of one command.
#[derive(Debug)]
pub(crate) struct Done<'a> {
    pub ticket: Ticket,
    pub deadline: Stamp,
    /// See [`crate::results::name_tag`].
    pub tag: u32,
    /// See [`crate::envelope::Envelope::settled_below`].
    pub settled: u64,
    pub verdict: Verdict,
    pub change: Option<Change<'a>>,
}

mod code {
    pub(super) const EXECUTED: u8 = 0;
    pub(super) const AGAIN: u8 = 1;
    pub(super) const EXPIRED: u8 = 2;
    pub(super) const OUT_OF_ORDER: u8 = 3;
    pub(super) const FULL: u8 = 4;
}

impl<'a> Done<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.ticket.node.0.to_le_bytes());
        out.extend_from_slice(&self.ticket.start.to_le_bytes());
        out.extend_from_slice(&self.ticket.number.to_le_bytes());
        out.extend_from_slice(&self.deadline.0.to_le_bytes());
        out.extend_from_slice(&self.tag.to_le_bytes());
        out.extend_from_slice(&self.settled.to_le_bytes());
        let (code, outcome) = match &self.verdict {
            Verdict::Executed(outcome) => (code::EXECUTED, Some(outcome)),
            Verdict::Again(outcome) => (code::AGAIN, Some(outcome)),
            Verdict::Expired => (code::EXPIRED, None),
            Verdict::OutOfOrder => (code::OUT_OF_ORDER, None),
            // Objects of a chain's volume have no groups of their own.
            Verdict::Full | Verdict::Away(_) => (code::FULL, None),
        };
        out.push(code);
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        if let Some(outcome) = outcome {
            outcome.encode(out);
        }
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        if let Some(change) = &self.change {
            change.encode(out);
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Takes the first off `bytes`. `None` at their end.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Result<Option<Done<'a>>, Malformed> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader::new(bytes);
        let length = reader.u32()? as usize;
        let mut body = Reader::new(reader.bytes(length)?);
        let ticket = Ticket { node: NodeId(body.u32()?), start: body.u32()?, number: body.u64()? };
        let (deadline, tag, settled, code) = (Stamp(body.u64()?), body.u32()?, body.u64()?, body.u8()?);
        let outcome_length = body.u32()? as usize;
        let outcome = body.bytes(outcome_length)?;
        let outcome =
            || Outcome::decode(outcome).map_err(|_| Malformed::UnknownTag { of: "outcome of an update", tag: 0 });
        let verdict = match code {
            code::EXECUTED => Verdict::Executed(outcome()?),
            code::AGAIN => Verdict::Again(outcome()?),
            code::EXPIRED => Verdict::Expired,
            code::OUT_OF_ORDER => Verdict::OutOfOrder,
            code::FULL => Verdict::Full,
            tag => return Err(Malformed::UnknownTag { of: "verdict of an update", tag }),
        };
        let rest = body.bytes(body.remaining())?;
        let change = match rest {
            [] => None,
            bytes => {
                Some(Change::decode(bytes).map_err(|_| Malformed::UnknownTag { of: "change of an update", tag: 0 })?)
            }
        };
        *bytes = &bytes[4 + length..];
        Ok(Some(Done { ticket, deadline, tag, settled, verdict, change }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_become_of_commands_is_read_as_it_was_written() {
        let ticket = Ticket { node: NodeId(2), start: 3, number: 9 };
        let done = |verdict, change| Done { ticket, deadline: Stamp(77), tag: 5, settled: 4, verdict, change };
        let put = Change::Put { key: b"k", value: b"v"[..].into(), expires_ms: Some(8) };
        let all = [
            done(Verdict::Executed(Outcome::Ok), Some(put)),
            done(Verdict::Executed(Outcome::Int(3)), None),
            done(Verdict::Again(Outcome::Nil), None),
            done(Verdict::Expired, None),
            done(Verdict::OutOfOrder, None),
            done(Verdict::Full, None),
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|done| done.encode(&mut bytes));
        let mut rest = &bytes[..];
        for done in &all {
            let taken = Done::take(&mut rest).expect("whole").expect("one more");
            assert_eq!(format!("{taken:?}"), format!("{done:?}"));
        }
        assert!(Done::take(&mut rest).expect("the end").is_none());
        for length in 1..bytes.len() {
            let mut rest = &bytes[..length];
            while let Ok(Some(_)) = Done::take(&mut rest) {}
        }
        assert!(Done::take(&mut &bytes[..20]).is_err());
    }
}
