//! Who may change the chains of a parent.
//!
//! A coordinator takes office with a command on the parent, before it gives any term, and names its office in each change of
//! a chain. A change that is executed behind a later office is void: it was proposed by somebody who knows nothing of the
//! terms that were given since. See docs/decisions/0020.

use quorate_protocol::Ballot;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// As ballots, of the parent's coordinators; the first stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Office {
    number: u32,
    node: u32,
}

impl From<Ballot> for Office {
    fn from(ballot: Ballot) -> Office {
        Office { number: ballot.number, node: ballot.node.0 }
    }
}

/// What ends with an office, and may have been written before there were offices.
pub(crate) fn decode_with_office<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let none = [0, 0];
    postcard::from_bytes(bytes).or_else(|_| postcard::from_bytes(&[bytes, &none[..]].concat())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_protocol::NodeId;

    #[test]
    fn offices_follow_each_other_as_ballots_do() {
        let office = |number, node| Office::from(Ballot { number, node: NodeId(node) });
        assert!(Office::default() < office(0, 1) && office(0, 2) < office(1, 1) && office(1, 1) < office(1, 2));
    }

    #[test]
    fn what_was_written_before_there_were_offices_has_none() {
        let office = Office { number: 300, node: 3 };
        let bytes = postcard::to_stdvec(&(7u64, office)).expect("plain data has an encoding");
        assert_eq!(decode_with_office(&bytes), Some((7u64, office)));
        let older = postcard::to_stdvec(&7u64).expect("plain data has an encoding");
        assert_eq!(decode_with_office(&older), Some((7u64, Office::default())));
        assert_eq!(decode_with_office::<(u64, Office)>(&[0x80]), None);
    }
}
