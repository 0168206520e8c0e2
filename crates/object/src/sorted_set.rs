//! Sorted sets: members with scores, in the order of the scores, and of the members' bytes where those are equal.
//!
//! A score is a double, but no NaN, and no -0: that is 0. In a set whose scores differ the members have no order of their own; what
//! is then in a span of members follows from a walk, as in a small set of Redis.
//!
//! # Bytes
//!
//! An operation is a code byte and its fields, little-endian, byte strings with a `u32` length, lists with a `u32` count, scores as
//! an `f64`: 0 Add (condition u8; counts u8: 0 new members, 1 changed ones as well; list of member and score), 1 Incr (condition u8,
//! member, score), 2 Remove (members), 3 Score (member), 4 MScore (members), 5 Len, 6 Count (span), 7 Range (span, offset i64, count
//! i64, reversed u8, scores u8), 8 Rank (member, reversed u8), 9 Pop (highest u8; count: a byte 0, or 1 and a u64), 10 RemoveRange
//! (span), 11 Scan, 12 Random (scores u8, chance). A condition: 0 Always, 1 IfAbsent, 2 IfPresent, 3 IfGreater, 4 IfLess,
//! 5 IfPresentAndGreater, 6 IfPresentAndLess. A span: 0 Ranks (start i64, end i64), 1 Scores (two bounds: excluded u8, score),
//! 2 Members (two bounds: 0 First, 1 Last, 2 Including and 3 Excluding with a member). A change: 0 Put (list of member and score),
//! 1 Remove (members). A code never changes its meaning.

mod execute;
mod operation;
mod order;

use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexMap;

pub use self::operation::{MemberBound, ScoreBound, ScoreCondition, SortedSetOp, Span};
pub(crate) use self::operation::{Scored, read_score};
use self::operation::{read_scored, write_scored};
use self::order::{Entry, Order};
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len};
use crate::collection::{HEAD_BYTES, HashKey, PIECE_BYTES, keeps_order, read_list, room_to_keep, write_list};

/// What a member costs besides its bytes, about: its entries in the map and in the order with room to grow, its place in the
/// index, an allocation with two counts.
const MEMBER_BYTES: usize = 120;

/// What a score takes in answers and where it is stored.
pub(crate) const SCORE_BYTES: usize = 9;

#[derive(Debug)]
pub(crate) struct SortedSet {
    /// In the order in which they came, like the fields of a hash: a large set is scanned in it.
    scores: IndexMap<Arc<[u8]>, f64, HashKey>,
    order: Order,
    /// Of all members.
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SortedSetChange<'a> {
    Put(Vec<Scored<'a>>),
    Remove(Vec<Cow<'a, [u8]>>),
}

impl SortedSet {
    pub(crate) fn new(key: HashKey) -> SortedSet {
        SortedSet { scores: IndexMap::with_hasher(key), order: Order::default(), bytes: 0 }
    }

    /// Of these members with their scores.
    pub(crate) fn of(scored: Vec<Scored<'_>>, key: HashKey) -> SortedSet {
        let mut set = SortedSet::new(key);
        set.apply(SortedSetChange::Put(scored));
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes + self.scores.len() * MEMBER_BYTES
    }

    pub(crate) fn apply(&mut self, change: SortedSetChange<'_>) {
        match change {
            SortedSetChange::Put(pairs) => pairs.into_iter().for_each(|(member, score)| self.put(member, score)),
            SortedSetChange::Remove(members) => members.iter().for_each(|member| self.remove(member)),
        }
    }

    fn put(&mut self, member: &[u8], score: f64) {
        // Takes the sign from 0.
        let score = score + 0.0;
        if let Some(old) = self.scores.get_mut(member) {
            if let Some(entry) = self.order.remove(*old, member) {
                *old = score;
                self.order.insert(Entry { score, ..entry });
            }
            return;
        }
        let member: Arc<[u8]> = member.into();
        self.bytes += member.len();
        self.scores.insert(Arc::clone(&member), score);
        self.order.insert(Entry { score, member });
    }

    fn remove(&mut self, member: &[u8]) {
        let removed = match keeps_order(self.scores.len()) {
            true => self.scores.shift_remove(member),
            false => self.scores.swap_remove(member),
        };
        if let Some(score) = removed {
            self.order.remove(score, member);
            self.bytes -= member.len();
        }
        if let Some(room) = room_to_keep(self.scores.len(), self.scores.capacity()) {
            self.scores.shrink_to(room);
        }
    }

    /// What a checkpoint stores: the members in the order in which they came, from which the other one follows.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_len(out, self.scores.len());
        for (member, score) in &self.scores {
            write_bytes(out, member);
            out.extend_from_slice(&score.to_le_bytes());
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>, key: HashKey) -> Result<SortedSet, Malformed> {
        let mut set = SortedSet::new(key);
        for count in 1..=r.u32()? as usize {
            let (member, score) = (r.bytes()?, read_score(r)?);
            if score == 0.0 && score.is_sign_negative() {
                return malformed("a stored score is -0");
            }
            set.put(member, score);
            if set.len() != count {
                return malformed("a member is stored twice");
            }
        }
        Ok(set)
    }

    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    /// All members with their scores, in the order in which they came.
    pub(crate) fn scored(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.scores.iter().map(|(member, score)| (&**member, *score))
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// What it takes in answers and where it is stored.
    pub(crate) fn stored_bytes(&self) -> usize {
        HEAD_BYTES + self.bytes + self.len() * (PIECE_BYTES + SCORE_BYTES)
    }
}

impl<'a> SortedSetChange<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SortedSetChange::Put(pairs) => {
                out.push(0);
                write_scored(out, pairs);
            }
            SortedSetChange::Remove(members) => {
                out.push(1);
                write_list(out, members.iter().map(|member| &**member));
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<SortedSetChange<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => SortedSetChange::Put(read_scored(r)?),
            1 => SortedSetChange::Remove(read_list(r)?.into_iter().map(Cow::Borrowed).collect()),
            _ => return malformed("unknown change of a sorted set"),
        })
    }
}
