//! Commands in full, and references that stand for them on the way from a coordinator to its members (decision 0024).
//!
//! ```text
//! reference: length u32, highest bit set | node u32 | start u32 | number u64 | deadline_ms u64 | predecessor u32 | settled u32 |
//!            digest u128
//! ```
//! An envelope without its command: the rest of it as it is, `length` included, and the digest (xxh3-128) of the command,
//! which is the *body*. No envelope is so long that its length has that bit. The ticket says which command it is, for ever;
//! the digest, that what somebody has under that ticket is the same: it guards against mistakes, and not against nodes
//! that lie, which are not let in.

use quorate_protocol::NodeId;
use xxhash_rust::xxh3::xxh3_128;

use crate::envelope::{ENVELOPE_BYTES_MAX, Envelope, HEADER_BYTES, Ticket};
use crate::planted::{self, Planted};

const LENGTH_BYTES: usize = 4;
const IS_REFERENCE: u32 = 1 << 31;
const DIGEST_BYTES: usize = 16;

/// Why references cannot be replaced by what they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// No coordinator would have written this.
    Malformed,
    /// The first body that is not here.
    Missing(Ticket),
    /// What is here under this ticket is another body.
    Mistaken(Ticket),
}

/// A slot's commands, in full again, and which of them had been left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub payload: Vec<u8>,
    pub tickets: Vec<Ticket>,
}

/// A slot's commands with references in place of those that `is_spread` is true of, and how many these are. `None` if it is
/// of none.
pub(crate) fn refer(payload: &[u8], mut is_spread: impl FnMut(Ticket) -> bool) -> Option<(Vec<u8>, u64)> {
    let (mut referring, mut count) = (Vec::new(), 0);
    let mut rest = payload;
    while !rest.is_empty() {
        let before = rest;
        let envelope = Envelope::take(&mut rest)?;
        let whole = &before[..before.len() - rest.len()];
        if !is_spread(envelope.ticket) {
            referring.extend_from_slice(whole);
            continue;
        }
        let length = (whole.len() - LENGTH_BYTES) as u32 | IS_REFERENCE;
        referring.extend_from_slice(&length.to_le_bytes());
        referring.extend_from_slice(&whole[LENGTH_BYTES..HEADER_BYTES]);
        referring.extend_from_slice(&xxh3_128(envelope.command).to_le_bytes());
        count += 1;
    }
    (count > 0).then_some((referring, count))
}

/// Undoes [`refer`] with the bodies that `find` has: all of them, or nothing is answered.
pub(crate) fn resolve<'a>(referring: &[u8], find: impl Fn(Ticket) -> Option<&'a [u8]>) -> Result<Resolved, Unresolved> {
    let (mut payload, mut tickets) = (Vec::new(), Vec::new());
    let mut rest = referring;
    while !rest.is_empty() {
        let Some(reference) = take_reference(&mut rest)? else {
            let before = rest;
            Envelope::take(&mut rest).ok_or(Unresolved::Malformed)?;
            payload.extend_from_slice(&before[..before.len() - rest.len()]);
            continue;
        };
        let Reference { ticket, length, header, digest } = reference;
        let body = match find(ticket) {
            Some(body) => body,
            None if planted::is(Planted::BodyLeftOut) => &[],
            None => return Err(Unresolved::Missing(ticket)),
        };
        let is_meant = body.len() + HEADER_BYTES == length as usize + LENGTH_BYTES && xxh3_128(body) == digest;
        if !is_meant && !planted::is(Planted::BodyLeftOut) {
            return Err(Unresolved::Mistaken(ticket));
        }
        // A slot holds commands up to a limit, or one that is larger, and none is larger than this.
        if payload.len() + HEADER_BYTES + body.len() > ENVELOPE_BYTES_MAX {
            return Err(Unresolved::Malformed);
        }
        let length = (HEADER_BYTES - LENGTH_BYTES + body.len()) as u32;
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(header);
        payload.extend_from_slice(body);
        tickets.push(ticket);
    }
    Ok(Resolved { payload, tickets })
}

struct Reference<'a> {
    ticket: Ticket,
    /// Of the envelope, without the bit.
    length: u32,
    /// What an envelope has between its length and its command.
    header: &'a [u8],
    digest: u128,
}

/// Takes a reference off `bytes`, if they begin with one.
fn take_reference<'a>(bytes: &mut &'a [u8]) -> Result<Option<Reference<'a>>, Unresolved> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or(Unresolved::Malformed)?;
    let length = u32::from_le_bytes(*length);
    if length & IS_REFERENCE == 0 {
        return Ok(None);
    }
    let (header, rest) = rest.split_at_checked(HEADER_BYTES - LENGTH_BYTES).ok_or(Unresolved::Malformed)?;
    let (digest, rest) = rest.split_first_chunk::<DIGEST_BYTES>().ok_or(Unresolved::Malformed)?;
    let node = header.first_chunk::<4>().map(|node| NodeId(u32::from_le_bytes(*node)));
    let start = header[4..].first_chunk::<4>().map(|start| u32::from_le_bytes(*start));
    let number = header[8..].first_chunk::<8>().map(|number| u64::from_le_bytes(*number));
    let (Some(node), Some(start), Some(number)) = (node, start, number) else { return Err(Unresolved::Malformed) };
    *bytes = rest;
    let ticket = Ticket { node, start, number };
    Ok(Some(Reference { ticket, length: length & !IS_REFERENCE, header, digest: u128::from_le_bytes(*digest) }))
}

#[cfg(test)]
mod tests {
    use quorate_protocol::Stamp;

    use super::*;

    fn ticket(number: u64) -> Ticket {
        Ticket { node: NodeId(2), start: 3, number }
    }

    /// Commands of these numbers, each a long one made of its number.
    fn payload(numbers: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        for &number in numbers {
            let command = vec![number; 500];
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&command);
            Envelope::encode(ticket(number.into()), Stamp(9), u32::from(number), 0, write, &mut payload);
        }
        payload
    }

    fn is_even(ticket: Ticket) -> bool {
        ticket.number.is_multiple_of(2)
    }

    #[test]
    fn references_stand_for_commands_in_their_places() {
        let whole = payload(&[1, 2, 3, 4]);
        let (referring, count) = refer(&whole, is_even).unwrap();
        assert_eq!((referring.len(), count), (whole.len() - 2 * (500 - DIGEST_BYTES), 2));
        let bodies: Vec<Vec<u8>> = (0..5).map(|number| vec![number; 500]).collect();
        let resolved = resolve(&referring, |ticket| Some(&bodies[ticket.number as usize]));
        assert_eq!(resolved, Ok(Resolved { payload: whole, tickets: vec![ticket(2), ticket(4)] }));
    }

    #[test]
    fn where_nothing_was_spread_there_are_no_references() {
        assert_eq!(refer(&payload(&[1, 3]), is_even), None);
        assert_eq!(refer(&[], is_even), None);
        assert_eq!(refer(&[7; 40], |_| true), None, "these are no envelopes");
    }

    #[test]
    fn a_reference_without_its_body_is_resolved_to_nothing() {
        let (referring, _) = refer(&payload(&[1, 2, 4]), is_even).unwrap();
        let two = [2; 500];
        let found = |ticket: Ticket| (ticket.number == 2).then_some(&two[..]);
        assert_eq!(resolve(&referring, found), Err(Unresolved::Missing(ticket(4))));
        for other in [&[3; 500][..], &[2; 499], &[]] {
            assert_eq!(resolve(&referring, |_| Some(other)), Err(Unresolved::Mistaken(ticket(2))), "{}", other.len());
        }
    }

    #[test]
    fn bytes_that_are_no_commands_are_refused() {
        let (referring, _) = refer(&payload(&[1, 2]), is_even).unwrap();
        let two = [2; 500];
        for length in 1..referring.len() {
            let cut = resolve(&referring[..length], |_| Some(&two));
            let is_boundary = length == payload(&[1]).len();
            assert_eq!(cut.is_err(), !is_boundary, "{length}");
        }
        for at in 0..referring.len() {
            let mut damaged = referring.clone();
            damaged[at] ^= 0x80;
            let resolved = resolve(&damaged, |_| Some(&two));
            assert!(
                resolved.is_err() || resolved.is_ok_and(|resolved| resolved.payload.len() == 2 * (HEADER_BYTES + 500)),
                "{at}"
            );
        }
    }

    #[test]
    fn many_references_to_one_body_do_not_fill_the_memory() {
        let body = vec![2; ENVELOPE_BYTES_MAX - HEADER_BYTES];
        let mut one = Vec::new();
        Envelope::encode(ticket(2), Stamp(9), 0, 0, |out| out.extend_from_slice(&body), &mut one);
        let (mut referring, _) = refer(&one, is_even).unwrap();
        assert!(resolve(&referring, |_| Some(&body)).is_ok_and(|resolved| resolved.payload == one));
        referring.extend_from_within(..);
        assert_eq!(resolve(&referring, |_| Some(&body)), Err(Unresolved::Malformed));
    }
}
