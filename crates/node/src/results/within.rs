//! What was executed on an object goes along when the object goes to another group: as much of it as there is room for.
//!
//! What a command was answered is given up before it is that the command was executed: whoever asks again is told so. If there
//! are too many commands even so, the oldest come to be settled, and a copy of one is refused.

use quorate_object::Outcome;

use super::{Kept, Mark, Results, Short};

/// What is kept of a command whose answer there was no room for.
const ANSWER_LOST: &str =
    "TIMEOUT executed, but what it answered is lost: it was too large to be kept, read before you repeat it";

/// Bytes of an entry before its outcome, and of a mark.
const KEPT_BYTES: usize = 32;
const MARK_BYTES: usize = 25;

impl Results {
    /// As [`Results::encode`], in so many bytes at most, but for the marks.
    pub fn encode_within(&self, bytes_max: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let length = self.encoded_length();
        match length.checked_sub(bytes_max).filter(|excess| *excess > 0) {
            Some(excess) => self.without(excess).encode(&mut bytes),
            None => self.encode(&mut bytes),
        }
        bytes
    }

    fn encoded_length(&self) -> usize {
        8 + self.kept.iter().map(Kept::encoded_length).sum::<usize>() + MARK_BYTES * self.origins.len()
    }

    /// Takes about as many bytes as that less.
    fn without(&self, mut excess: usize) -> Results {
        let lost = Short::from(&Outcome::Error(ANSWER_LOST.into()));
        let mut shorter: Vec<Kept> = self.kept.iter().cloned().collect();
        for kept in &mut shorter {
            let saved = kept.outcome.encoded_length().saturating_sub(lost.encoded_length());
            if excess > 0 && saved > 0 {
                excess = excess.saturating_sub(saved);
                kept.outcome = lost.clone();
            }
        }
        let mut results = Results::default();
        for Kept { ticket, deadline, tag, outcome } in shorter {
            if excess > 0 {
                excess = excess.saturating_sub(KEPT_BYTES + outcome.encoded_length());
                let settled = ticket.number.saturating_add(1);
                let (node, start, space) = (ticket.node, ticket.start, ticket.space());
                results.mark(Mark { node, start, space, settled, until: deadline });
            } else {
                results.keep(ticket, deadline, tag, &outcome.expand());
            }
        }
        self.marks().into_iter().for_each(|mark| results.mark(mark));
        results
    }
}

impl Kept {
    fn encoded_length(&self) -> usize {
        KEPT_BYTES + self.outcome.encoded_length()
    }
}

impl Short {
    fn encoded_length(&self) -> usize {
        match self {
            Short::Ok | Short::Nil => 1,
            Short::Int(_) => 9,
            Short::Other(bytes) => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::wire::Reader;
    use quorate_protocol::{NodeId, Stamp};

    use super::*;
    use crate::envelope::Ticket;

    fn ticket(number: u64) -> Ticket {
        Ticket { node: NodeId(1), start: 1, number }
    }

    fn within(results: &Results, bytes_max: usize) -> Results {
        let bytes = results.encode_within(bytes_max);
        assert!(bytes.len() <= bytes_max, "{} bytes", bytes.len());
        Results::decode(&mut Reader::new(&bytes)).expect("whole")
    }

    #[test]
    fn the_length_is_told_without_encoding() {
        let mut results = Results::default();
        let outcomes =
            [Outcome::Ok, Outcome::Nil, Outcome::Int(3), Outcome::Bulk(vec![7; 100]), Outcome::Word("string")];
        for (number, outcome) in (1..).zip(outcomes) {
            results.keep(ticket(number), Stamp(100), 7, &outcome);
        }
        results.settle(ticket(9), 1);
        let mut bytes = Vec::new();
        results.encode(&mut bytes);
        assert_eq!(results.encoded_length(), bytes.len());
        assert_eq!(results.encode_within(bytes.len()), bytes);
    }

    #[test]
    fn answers_are_given_up_first_and_the_oldest_commands_then() {
        let mut results = Results::default();
        results.keep(ticket(1), Stamp(101), 7, &Outcome::Bulk(vec![7; 2000]));
        for number in 2..=40 {
            results.keep(ticket(number), Stamp(100 + number), 7, &Outcome::Int(number as i64));
        }
        results.keep(ticket(41), Stamp(141), 7, &Outcome::Bulk(vec![7; 2000]));
        let lost = Some(Outcome::Error(ANSWER_LOST.into()));

        let shorter = within(&results, 4000);
        assert_eq!((shorter.outcome(ticket(1)), shorter.outcome(ticket(2))), (lost.clone(), Some(Outcome::Int(2))));
        assert_eq!(shorter.outcome(ticket(41)), results.outcome(ticket(41)), "one was enough");

        let shorter = within(&results, 1000);
        assert_eq!(shorter.outcome(ticket(41)), lost);
        assert!(!shorter.contains(ticket(1)) && shorter.is_settled(ticket(1)), "it is not executed again");
        assert!(shorter.contains(ticket(40)) && !shorter.is_settled(ticket(40)));
        assert!((1..=41).all(|number| shorter.contains(ticket(number)) || shorter.is_settled(ticket(number))));
    }
}
