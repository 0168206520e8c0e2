//! What was executed, so that nothing is executed twice.
//!
//! Every executed ticket is kept with its outcome until group time has passed its deadline: from then on a copy of the
//! command is refused anyway. Part of the replicated state: what is kept and what is forgotten follows from the
//! sequence of slots alone.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use quorate_object::Outcome;
use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{NodeId, Stamp};

use crate::envelope::Ticket;

#[derive(Clone, Debug, Default)]
pub struct Results {
    /// In the order of execution.
    kept: VecDeque<Kept>,
    /// The number of the first one kept, counting all that ever were: positions in `index` never move.
    base: u64,
    index: HashTable<u64>,
}

#[derive(Clone, Debug)]
struct Kept {
    ticket: Ticket,
    deadline: Stamp,
    outcome: Short,
}

/// Most outcomes are a word.
#[derive(Clone, Debug)]
enum Short {
    Ok,
    Nil,
    Int(i64),
    Other(Box<[u8]>),
}

impl Results {
    #[cfg(test)]
    fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The largest deadline kept: once group time is past it, nothing needs to be.
    pub fn deadline_max(&self) -> Option<Stamp> {
        self.kept.iter().map(|kept| kept.deadline).max()
    }

    pub fn contains(&self, ticket: Ticket) -> bool {
        self.find(ticket).is_some()
    }

    pub fn outcome(&self, ticket: Ticket) -> Option<Outcome> {
        self.find(ticket).map(|kept| kept.outcome.expand())
    }

    /// Keeps what a ticket, not kept so far, was answered.
    pub fn keep(&mut self, ticket: Ticket, deadline: Stamp, outcome: &Outcome) {
        let position = self.base + self.kept.len() as u64;
        self.kept.push_back(Kept { ticket, deadline, outcome: Short::from(outcome) });
        let (kept, base) = (&self.kept, self.base);
        self.index.insert_unique(hash(ticket), position, |&position| hash(kept[(position - base) as usize].ticket));
    }

    /// Forgets what group time has passed. Deadlines are nearly in order, so only the oldest are looked at.
    pub fn forget_before(&mut self, time: Stamp) {
        while self.kept.front().is_some_and(|kept| kept.deadline < time) {
            let position = self.base;
            let Some(kept) = self.kept.pop_front() else { return };
            self.base += 1;
            if let Ok(found) = self.index.find_entry(hash(kept.ticket), |&at| at == position) {
                found.remove();
            }
        }
        if self.kept.is_empty() && self.kept.capacity() > 64 {
            self.kept = VecDeque::new();
            self.index = HashTable::new();
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.kept.len() as u32).to_le_bytes());
        for kept in &self.kept {
            out.extend_from_slice(&kept.ticket.node.0.to_le_bytes());
            out.extend_from_slice(&kept.ticket.start.to_le_bytes());
            out.extend_from_slice(&kept.ticket.number.to_le_bytes());
            out.extend_from_slice(&kept.deadline.0.to_le_bytes());
            let length_at = out.len();
            out.extend_from_slice(&[0; 4]);
            kept.outcome.expand().encode(out);
            let length = (out.len() - length_at - 4) as u32;
            out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Results, Malformed> {
        let mut results = Results::default();
        for _ in 0..reader.u32()? {
            let ticket = Ticket { node: NodeId(reader.u32()?), start: reader.u32()?, number: reader.u64()? };
            let deadline = Stamp(reader.u64()?);
            let length = reader.u32()? as usize;
            let outcome =
                Outcome::decode(reader.bytes(length)?).map_err(|_| Malformed::UnknownTag { of: "outcome", tag: 0 })?;
            results.keep(ticket, deadline, &outcome);
        }
        Ok(results)
    }

    fn find(&self, ticket: Ticket) -> Option<&Kept> {
        let at = |position: &u64| &self.kept[(position - self.base) as usize];
        self.index.find(hash(ticket), |position| at(position).ticket == ticket).map(at)
    }
}

impl Short {
    fn expand(&self) -> Outcome {
        match self {
            Short::Ok => Outcome::Ok,
            Short::Nil => Outcome::Nil,
            Short::Int(number) => Outcome::Int(*number),
            Short::Other(bytes) => Outcome::decode(bytes).expect("it was encoded here"),
        }
    }
}

impl From<&Outcome> for Short {
    fn from(outcome: &Outcome) -> Short {
        match outcome {
            Outcome::Ok => Short::Ok,
            Outcome::Nil => Short::Nil,
            Outcome::Int(number) => Short::Int(*number),
            other => {
                let mut bytes = Vec::new();
                other.encode(&mut bytes);
                Short::Other(bytes.into_boxed_slice())
            }
        }
    }
}

/// Tickets are given out by nodes, not chosen by clients: a plain multiplicative hash is safe.
fn hash(ticket: Ticket) -> u64 {
    let mixed = ticket.number ^ (u64::from(ticket.node.0) << 48) ^ (u64::from(ticket.start) << 32);
    let mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}

impl Hash for Results {
    /// For comparing replicas: what is kept, in its order.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(number: u64) -> Ticket {
        Ticket { node: NodeId(1), start: 1, number }
    }

    #[test]
    fn an_outcome_is_kept_until_group_time_passes_its_deadline() {
        let mut results = Results::default();
        results.keep(ticket(1), Stamp(100), &Outcome::Int(5));
        results.keep(ticket(2), Stamp(200), &Outcome::Bulk(b"old".to_vec()));
        results.forget_before(Stamp(100));
        assert_eq!(results.outcome(ticket(1)), Some(Outcome::Int(5)));
        results.forget_before(Stamp(101));
        assert_eq!(results.outcome(ticket(1)), None);
        assert_eq!(results.outcome(ticket(2)), Some(Outcome::Bulk(b"old".to_vec())));
    }

    #[test]
    fn the_same_number_of_another_start_or_node_is_another_ticket() {
        let mut results = Results::default();
        results.keep(ticket(1), Stamp(100), &Outcome::Ok);
        assert!(!results.contains(Ticket { start: 2, ..ticket(1) }));
        assert!(!results.contains(Ticket { node: NodeId(2), ..ticket(1) }));
    }

    #[test]
    fn thousands_survive_growth_forgetting_and_the_codec() {
        let mut results = Results::default();
        for number in 0..10_000 {
            results.keep(ticket(number), Stamp(number), &Outcome::Int(number as i64));
            results.forget_before(Stamp(number.saturating_sub(3000)));
        }
        assert_eq!(results.len(), 3001);
        let mut bytes = Vec::new();
        results.encode(&mut bytes);
        let decoded = Results::decode(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(decoded.outcome(ticket(6999)), Some(Outcome::Int(6999)));
        assert_eq!(decoded.outcome(ticket(6998)), None);
        assert_eq!(decoded.len(), 3001);
    }
}
