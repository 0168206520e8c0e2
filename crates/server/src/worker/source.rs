//! What an event of the poll is about, packed into its token.

use mio::Token;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Waker,
    ClientListener,
    PeerListener,
    /// The client at this place.
    Client(usize),
    /// The link from another node at this place.
    Incoming(usize),
    /// The link to another node at this place.
    Outgoing(usize),
}

const KIND_BITS: u32 = 2;
const CLIENT: usize = 1;
const INCOMING: usize = 2;
const OUTGOING: usize = 3;

impl Source {
    pub(crate) const fn token(self) -> Token {
        let (place, kind) = match self {
            Source::Waker => (0, 0),
            Source::ClientListener => (1, 0),
            Source::PeerListener => (2, 0),
            Source::Client(place) => (place, CLIENT),
            Source::Incoming(place) => (place, INCOMING),
            Source::Outgoing(place) => (place, OUTGOING),
        };
        Token(place << KIND_BITS | kind)
    }

    pub(crate) fn of(token: Token) -> Source {
        let place = token.0 >> KIND_BITS;
        match token.0 % (1 << KIND_BITS) {
            CLIENT => Source::Client(place),
            INCOMING => Source::Incoming(place),
            OUTGOING => Source::Outgoing(place),
            _ if place == 0 => Source::Waker,
            _ if place == 1 => Source::ClientListener,
            _ => Source::PeerListener,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_survives_its_token() {
        for source in [
            Source::Waker,
            Source::ClientListener,
            Source::PeerListener,
            Source::Client(0),
            Source::Client(9_999),
            Source::Incoming(3),
            Source::Outgoing(63),
        ] {
            assert_eq!(Source::of(source.token()), source);
        }
    }
}
