//! What replicas of a register group say to each other. The group travels outside, in the frame; the epochs are here,
//! because there may be two.

use alloc::vec::Vec;
use core::fmt;

use super::{Choice, Content, Key, Stage, Tag, Version, View};
use crate::id::{Ballot, Epoch, Stamp};

/// Names one phase of an operation, or one step of an errand. Answers repeat it. Never used again: starts are counted
/// durably.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round {
    pub start: u32,
    pub number: u64,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// What the sender knows. Nobody acts on a message of another view, but to make both equal.
    pub view: View,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Which version do you hold? `content`: send it along.
    Query {
        round: Round,
        key: Key,
        content: bool,
    },
    /// Answers `Query`. Every counter of a tombstone that was forgotten here is at most `floor`. `confirmed`: the version is
    /// known to be where every query of this epoch finds it.
    Found {
        round: Round,
        tag: Tag,
        renewed: Epoch,
        floor: u64,
        confirmed: bool,
        content: Option<Content>,
    },
    /// Hold this, unless you hold something newer.
    Store {
        round: Round,
        key: Key,
        version: Version,
    },
    /// Answers `Store`, once that or something newer is on disk.
    Stored {
        round: Round,
    },
    /// This version is at a write quorum of the sender's epoch. Not answered.
    Confirm {
        key: Key,
        tag: Tag,
    },

    /// All configurations that the sender does not know to be retired: the receiver was behind.
    Inform {
        stages: Vec<Stage>,
    },
    /// Answers `Inform`: the view of this message is on disk.
    Informed {},
    /// The receiver knows more than the sender: inform me.
    Behind {},

    /// Which keys do you hold, from this one on? No more than so many. `tombstones`: of these only.
    List {
        round: Round,
        from: Key,
        tombstones: bool,
        count: u32,
    },
    /// Answers `List`, in order of the keys. `end`: there are no more.
    Listed {
        round: Round,
        entries: Vec<Entry>,
        end: bool,
        floor: u64,
    },
    /// Give no tag up to this counter to a key that you hold nothing of.
    Raise {
        round: Round,
        floor: u64,
    },
    Raised {
        round: Round,
    },
    /// Hold these tombstones, unless you hold something newer.
    Bury {
        round: Round,
        tombstones: Vec<(Key, Tag)>,
    },
    Buried {
        round: Round,
    },
    /// These tombstones are held by all members, and nothing older is under way.
    Forget {
        round: Round,
        tombstones: Vec<(Key, Tag)>,
    },
    Forgotten {
        round: Round,
    },

    /// Hold these, unless you hold something newer: nobody waits for it.
    Renew {
        round: Round,
        versions: Vec<(Key, Version)>,
    },
    /// Answers `Renew`, once all of that or something newer is on disk.
    Renewed {
        round: Round,
    },
    /// As `Confirm`, of each of these.
    ConfirmAll {
        tags: Vec<(Key, Tag)>,
    },

    /// Answer no query and no store from now on.
    Seal {
        round: Round,
    },
    /// Answers `Seal`, and whatever else a sealed member is asked: it is sealed, on disk.
    Sealed {
        round: Round,
    },
    /// Which versions do you hold, of keys after this one? Answered by sealed members.
    Tell {
        round: Round,
        after: Option<Key>,
    },
    /// Answers `Tell`, in order of the keys. `end`: there are no more.
    Told {
        round: Round,
        versions: Vec<(Key, Version)>,
        end: bool,
    },

    /// Where members decide: vote for no successor below this ballot, and tell for which you have voted.
    Prepare {
        ballot: Ballot,
    },
    Promise {
        ballot: Ballot,
        voted: Option<Choice>,
    },
    /// Vote for this, and tell the members at these positions beside the candidate.
    Propose {
        choice: Choice,
        audience: u64,
    },
    Vote {
        choice: Choice,
    },
    /// Answers `Prepare` and `Propose` of lower ballots than this.
    Abstain {
        ballot: Ballot,
        promised: Ballot,
    },
}

/// What a listing says of a register.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    pub key: Key,
    pub tag: Tag,
    pub outline: Outline,
}

/// A content without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outline {
    Value { expires: Option<Stamp> },
    Tombstone,
}

impl Outline {
    pub(super) fn of(content: &Content) -> Outline {
        match content {
            Content::Value { expires, .. } => Outline::Value { expires: *expires },
            Content::Tombstone => Outline::Tombstone,
        }
    }

    /// Whether a read of it finds a value.
    pub(super) fn is_live(self, now: Stamp) -> bool {
        matches!(self, Outline::Value { expires } if expires.is_none_or(|expires| now < expires))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { key, tag, outline } = self;
        match outline {
            Outline::Tombstone => write!(f, "{key:?}: tombstone@{tag:?}"),
            Outline::Value { expires: None } => write!(f, "{key:?}: value@{tag:?}"),
            Outline::Value { expires: Some(stamp) } => write!(f, "{key:?}: value until {stamp:?}@{tag:?}"),
        }
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}.{}", self.start, self.number)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.view, self.body)
    }
}
