//! What can be asked of the objects of several keys, and its bytes.
//!
//! # Bytes
//!
//! A code byte and fields, little-endian, byte strings with a `u32` length, lists with a `u32` count, sides, flags and codes as
//! `u8`: 0 MoveElement (side from, side to), 1 MoveMember (member), 2 Rename (if absent), 3 Copy (replace), 4 SetIfAllAbsent
//! (values), 5 PopElements (side, count u64), 6 PopMembers (highest, count u64), 7 StoreRange (span, offset i64, count i64,
//! reversed), 8 CombineSets (how, result), 9 CombineSortedSets (how, list of weights f64, aggregate, result, wrong). How: 0 Union,
//! 1 Intersection, 2 Difference. An aggregate: 0 Sum, 1 Least, 2 Greatest. A result: 0 Members, 1 Scores, 2 Count (most u64),
//! 3 Stored. A code never changes its meaning.

use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len};
use crate::collection::{Wrong, read_list, write_list};
use crate::list::{ELEMENT_BYTES, ListSide};
use crate::sorted_set::{Span, read_score};

/// What can be asked of the objects of several keys.
#[derive(Clone, Debug, PartialEq)]
pub enum KeysOp<'a> {
    /// Takes an element from the list of the first key and puts it into that of the second.
    MoveElement {
        from: ListSide,
        to: ListSide,
    },
    /// The same of a member of a set.
    MoveMember {
        member: &'a [u8],
    },
    /// Gives the object of the first key the second one for a name.
    Rename {
        if_absent: bool,
    },
    /// Gives the second key what the first one has.
    Copy {
        replace: bool,
    },
    /// Makes strings of all keys, unless there is an object of any.
    SetIfAllAbsent {
        values: Vec<&'a [u8]>,
    },
    /// Takes up to so many elements from the first list that there is.
    PopElements {
        side: ListSide,
        count: u64,
    },
    /// The same of a sorted set.
    PopMembers {
        highest: bool,
        count: u64,
    },
    /// Stores in the first key those of a span of the second one's sorted set. The offset and the count as in
    /// [`SortedSetOp::Range`](crate::SortedSetOp::Range).
    StoreRange {
        span: Span<'a>,
        offset: i64,
        count: i64,
        reversed: bool,
    },
    CombineSets {
        how: Combination,
        result: Combined,
    },
    /// Also of sets, whose members have a score of 1.
    CombineSortedSets {
        how: Combination,
        /// What the scores of each are multiplied by; none for 1 everywhere, as it is in a difference. No NaN.
        weights: Vec<f64>,
        aggregate: Aggregate,
        result: Combined,
        /// What is wrong with the options: told only where no object is of another type.
        wrong: Option<Wrong>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    Union,
    Intersection,
    /// What the first one has and none of the others.
    Difference,
}

/// What is made of the scores of a member that several have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    Sum,
    Least,
    Greatest,
}

/// What becomes of the members that come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combined {
    Members,
    /// They are answered with their scores, if they have any.
    Scores,
    /// They are counted, up to so many; up to the last for 0.
    Count {
        most: u64,
    },
    /// They become the object of the first key, which is then not among those that are combined.
    Stored,
}

impl<'a> KeysOp<'a> {
    /// Whether it is one, and for so many keys.
    pub(super) fn takes(&self, keys: usize) -> bool {
        let combined = |result: &Combined| match result {
            Combined::Stored => keys.saturating_sub(1),
            _ => keys,
        };
        match self {
            KeysOp::MoveElement { .. }
            | KeysOp::MoveMember { .. }
            | KeysOp::Rename { .. }
            | KeysOp::Copy { .. }
            | KeysOp::StoreRange { .. } => keys == 2,
            KeysOp::SetIfAllAbsent { values } => keys == values.len(),
            KeysOp::PopElements { .. } | KeysOp::PopMembers { .. } => keys > 0,
            KeysOp::CombineSets { result, .. } => combined(result) > 0,
            KeysOp::CombineSortedSets { how, weights, result, .. } => {
                let is_weighted = *how != Combination::Difference && weights.len() == combined(result);
                combined(result) > 0 && (weights.is_empty() || is_weighted)
            }
        }
    }

    pub(super) fn is_read(&self) -> bool {
        match self {
            KeysOp::CombineSets { result, .. } | KeysOp::CombineSortedSets { result, .. } => {
                *result != Combined::Stored
            }
            _ => false,
        }
    }

    /// By how many bytes objects may be larger afterwards for what was sent; `None` if it is served also when there is no memory.
    pub(super) fn growth_bytes_max(&self) -> Option<usize> {
        match self {
            KeysOp::MoveElement { .. } => Some(ELEMENT_BYTES),
            KeysOp::SetIfAllAbsent { values } => Some(values.iter().map(|value| value.len()).sum()),
            KeysOp::Copy { .. } | KeysOp::StoreRange { .. } => Some(0),
            KeysOp::CombineSets { .. } | KeysOp::CombineSortedSets { .. } => (!self.is_read()).then_some(0),
            KeysOp::MoveMember { .. }
            | KeysOp::Rename { .. }
            | KeysOp::PopElements { .. }
            | KeysOp::PopMembers { .. } => None,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            KeysOp::MoveElement { from, to } => out.extend_from_slice(&[0, from.code(), to.code()]),
            KeysOp::MoveMember { member } => {
                out.push(1);
                write_bytes(out, member);
            }
            KeysOp::Rename { if_absent } => out.extend_from_slice(&[2, u8::from(*if_absent)]),
            KeysOp::Copy { replace } => out.extend_from_slice(&[3, u8::from(*replace)]),
            KeysOp::SetIfAllAbsent { values } => {
                out.push(4);
                write_list(out, values.iter().copied());
            }
            KeysOp::PopElements { side, count } => {
                out.extend_from_slice(&[5, side.code()]);
                out.extend_from_slice(&count.to_le_bytes());
            }
            KeysOp::PopMembers { highest, count } => {
                out.extend_from_slice(&[6, u8::from(*highest)]);
                out.extend_from_slice(&count.to_le_bytes());
            }
            KeysOp::StoreRange { span, offset, count, reversed } => {
                out.push(7);
                span.encode(out);
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
                out.push(u8::from(*reversed));
            }
            KeysOp::CombineSets { how, result } => {
                out.extend_from_slice(&[8, *how as u8]);
                result.encode(out);
            }
            KeysOp::CombineSortedSets { how, weights, aggregate, result, wrong } => {
                out.extend_from_slice(&[9, *how as u8]);
                write_len(out, weights.len());
                weights.iter().for_each(|weight| out.extend_from_slice(&weight.to_le_bytes()));
                out.push(*aggregate as u8);
                result.encode(out);
                out.push(Wrong::encode(*wrong));
            }
        }
    }

    pub(super) fn decode(r: &mut Reader<'a>) -> Result<KeysOp<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => KeysOp::MoveElement { from: ListSide::decode(r)?, to: ListSide::decode(r)? },
            1 => KeysOp::MoveMember { member: r.bytes()? },
            2 => KeysOp::Rename { if_absent: r.flag()? },
            3 => KeysOp::Copy { replace: r.flag()? },
            4 => KeysOp::SetIfAllAbsent { values: read_list(r)? },
            5 => KeysOp::PopElements { side: ListSide::decode(r)?, count: r.u64()? },
            6 => KeysOp::PopMembers { highest: r.flag()?, count: r.u64()? },
            7 => KeysOp::StoreRange { span: Span::decode(r)?, offset: r.i64()?, count: r.i64()?, reversed: r.flag()? },
            8 => KeysOp::CombineSets { how: Combination::decode(r)?, result: Combined::decode(r)? },
            9 => KeysOp::CombineSortedSets {
                how: Combination::decode(r)?,
                weights: read_weights(r)?,
                aggregate: Aggregate::decode(r)?,
                result: Combined::decode(r)?,
                wrong: Wrong::decode(r.u8()?)?,
            },
            _ => return malformed("unknown operation on several keys"),
        })
    }
}

fn read_weights(r: &mut Reader<'_>) -> Result<Vec<f64>, Malformed> {
    // Not allocated from the declared count: a weight that is not there ends the reading.
    let count = r.u32()?;
    (0..count).map(|_| read_score(r)).collect()
}

impl Combination {
    fn decode(r: &mut Reader<'_>) -> Result<Combination, Malformed> {
        match r.u8()? {
            0 => Ok(Combination::Union),
            1 => Ok(Combination::Intersection),
            2 => Ok(Combination::Difference),
            _ => malformed("unknown way to combine sets"),
        }
    }
}

impl Aggregate {
    fn decode(r: &mut Reader<'_>) -> Result<Aggregate, Malformed> {
        match r.u8()? {
            0 => Ok(Aggregate::Sum),
            1 => Ok(Aggregate::Least),
            2 => Ok(Aggregate::Greatest),
            _ => malformed("unknown aggregate of scores"),
        }
    }
}

impl Combined {
    fn encode(self, out: &mut Vec<u8>) {
        match self {
            Combined::Members => out.push(0),
            Combined::Scores => out.push(1),
            Combined::Count { most } => {
                out.push(2);
                out.extend_from_slice(&most.to_le_bytes());
            }
            Combined::Stored => out.push(3),
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Combined, Malformed> {
        match r.u8()? {
            0 => Ok(Combined::Members),
            1 => Ok(Combined::Scores),
            2 => Ok(Combined::Count { most: r.u64()? }),
            3 => Ok(Combined::Stored),
            _ => malformed("unknown result of combined sets"),
        }
    }
}
