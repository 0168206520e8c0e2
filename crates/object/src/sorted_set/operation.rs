//! What can be asked of a sorted set, and its bytes, which the head of the module above describes.

use super::MEMBER_BYTES;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len, write_optional_u64};
use crate::collection::{Chance, ElementScan, read_list, write_list};

/// What can be asked of a sorted set. No score in it is NaN.
#[derive(Clone, Debug, PartialEq)]
pub enum SortedSetOp<'a> {
    /// Sets scores, one pair after the other.
    Add {
        pairs: Vec<Scored<'a>>,
        condition: ScoreCondition,
        /// Answers how many members are new or have another score, in place of how many are new.
        counts_changed: bool,
    },
    /// Answers the new score, or nil where the condition does not hold.
    Incr {
        member: &'a [u8],
        delta: f64,
        condition: ScoreCondition,
    },
    Remove {
        members: Vec<&'a [u8]>,
    },
    Score {
        member: &'a [u8],
    },
    MScore {
        members: Vec<&'a [u8]>,
    },
    Len,
    Count {
        span: Span<'a>,
    },
    /// The offset and the count, which is negative for all, are of those in the span, and without a meaning for ranks.
    Range {
        span: Span<'a>,
        offset: i64,
        count: i64,
        /// From the highest to the lowest, from where ranks then count as well.
        reversed: bool,
        with_scores: bool,
    },
    Rank {
        member: &'a [u8],
        reversed: bool,
    },
    Pop {
        highest: bool,
        /// `None` for one member in place of a list of them.
        count: Option<u64>,
    },
    RemoveRange {
        span: Span<'a>,
    },
    Scan(ElementScan<'a>),
    Random {
        with_scores: bool,
        chance: Chance,
    },
}

/// A member and its score.
pub type Scored<'a> = (&'a [u8], f64);

/// When a score is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreCondition {
    Always,
    IfAbsent,
    IfPresent,
    /// Or absent, like the next one.
    IfGreater,
    IfLess,
    IfPresentAndGreater,
    IfPresentAndLess,
}

/// Members next to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span<'a> {
    /// Both included; negative ones count from the end.
    Ranks {
        start: i64,
        end: i64,
    },
    Scores {
        min: ScoreBound,
        max: ScoreBound,
    },
    Members {
        min: MemberBound<'a>,
        max: MemberBound<'a>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    pub score: f64,
    pub excluded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberBound<'a> {
    /// Before every member.
    First,
    /// After every member.
    Last,
    Including(&'a [u8]),
    Excluding(&'a [u8]),
}

impl<'a> SortedSetOp<'a> {
    pub(crate) fn is_read(&self) -> bool {
        match self {
            SortedSetOp::Score { .. }
            | SortedSetOp::MScore { .. }
            | SortedSetOp::Len
            | SortedSetOp::Count { .. }
            | SortedSetOp::Range { .. }
            | SortedSetOp::Rank { .. }
            | SortedSetOp::Scan(_)
            | SortedSetOp::Random { .. } => true,
            SortedSetOp::Add { .. }
            | SortedSetOp::Incr { .. }
            | SortedSetOp::Remove { .. }
            | SortedSetOp::Pop { .. }
            | SortedSetOp::RemoveRange { .. } => false,
        }
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        match self {
            SortedSetOp::Add { pairs, .. } => Some(pairs.iter().map(|(member, _)| member.len() + MEMBER_BYTES).sum()),
            SortedSetOp::Incr { member, .. } => Some(member.len() + MEMBER_BYTES),
            _ => None,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SortedSetOp::Add { pairs, condition, counts_changed } => {
                out.extend_from_slice(&[0, *condition as u8, u8::from(*counts_changed)]);
                write_scored(out, pairs);
            }
            SortedSetOp::Incr { member, delta, condition } => {
                out.extend_from_slice(&[1, *condition as u8]);
                write_bytes(out, member);
                out.extend_from_slice(&delta.to_le_bytes());
            }
            SortedSetOp::Remove { members } => {
                out.push(2);
                write_list(out, members.iter().copied());
            }
            SortedSetOp::Score { member } => {
                out.push(3);
                write_bytes(out, member);
            }
            SortedSetOp::MScore { members } => {
                out.push(4);
                write_list(out, members.iter().copied());
            }
            SortedSetOp::Len => out.push(5),
            SortedSetOp::Count { span } => {
                out.push(6);
                span.encode(out);
            }
            SortedSetOp::Range { span, offset, count, reversed, with_scores } => {
                out.push(7);
                span.encode(out);
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
                out.extend_from_slice(&[u8::from(*reversed), u8::from(*with_scores)]);
            }
            SortedSetOp::Rank { member, reversed } => {
                out.push(8);
                write_bytes(out, member);
                out.push(u8::from(*reversed));
            }
            SortedSetOp::Pop { highest, count } => {
                out.extend_from_slice(&[9, u8::from(*highest)]);
                write_optional_u64(out, *count);
            }
            SortedSetOp::RemoveRange { span } => {
                out.push(10);
                span.encode(out);
            }
            SortedSetOp::Scan(scan) => {
                out.push(11);
                scan.encode(out);
            }
            SortedSetOp::Random { with_scores, chance } => {
                out.extend_from_slice(&[12, u8::from(*with_scores)]);
                chance.encode(out);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<SortedSetOp<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => SortedSetOp::Add {
                condition: ScoreCondition::decode(r)?,
                counts_changed: r.flag()?,
                pairs: read_scored(r)?,
            },
            1 => SortedSetOp::Incr { condition: ScoreCondition::decode(r)?, member: r.bytes()?, delta: read_score(r)? },
            2 => SortedSetOp::Remove { members: read_list(r)? },
            3 => SortedSetOp::Score { member: r.bytes()? },
            4 => SortedSetOp::MScore { members: read_list(r)? },
            5 => SortedSetOp::Len,
            6 => SortedSetOp::Count { span: Span::decode(r)? },
            7 => SortedSetOp::Range {
                span: Span::decode(r)?,
                offset: r.i64()?,
                count: r.i64()?,
                reversed: r.flag()?,
                with_scores: r.flag()?,
            },
            8 => SortedSetOp::Rank { member: r.bytes()?, reversed: r.flag()? },
            9 => SortedSetOp::Pop { highest: r.flag()?, count: r.optional(Reader::u64)? },
            10 => SortedSetOp::RemoveRange { span: Span::decode(r)? },
            11 => SortedSetOp::Scan(ElementScan::decode(r)?),
            12 => SortedSetOp::Random { with_scores: r.flag()?, chance: Chance::decode(r)? },
            _ => return malformed("unknown operation on a sorted set"),
        })
    }
}

impl ScoreCondition {
    /// Whether a member's score, if it has one, may become the new one.
    pub(super) fn allows(self, old: Option<f64>, new: f64) -> bool {
        match self {
            ScoreCondition::Always => true,
            ScoreCondition::IfAbsent => old.is_none(),
            ScoreCondition::IfPresent => old.is_some(),
            ScoreCondition::IfGreater => old.is_none_or(|old| new > old),
            ScoreCondition::IfLess => old.is_none_or(|old| new < old),
            ScoreCondition::IfPresentAndGreater => old.is_some_and(|old| new > old),
            ScoreCondition::IfPresentAndLess => old.is_some_and(|old| new < old),
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<ScoreCondition, Malformed> {
        Ok(match r.u8()? {
            0 => ScoreCondition::Always,
            1 => ScoreCondition::IfAbsent,
            2 => ScoreCondition::IfPresent,
            3 => ScoreCondition::IfGreater,
            4 => ScoreCondition::IfLess,
            5 => ScoreCondition::IfPresentAndGreater,
            6 => ScoreCondition::IfPresentAndLess,
            _ => return malformed("unknown condition for a score"),
        })
    }
}

impl<'a> Span<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Span::Ranks { start, end } => {
                out.push(0);
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&end.to_le_bytes());
            }
            Span::Scores { min, max } => {
                out.push(1);
                for bound in [min, max] {
                    out.push(u8::from(bound.excluded));
                    out.extend_from_slice(&bound.score.to_le_bytes());
                }
            }
            Span::Members { min, max } => {
                out.push(2);
                min.encode(out);
                max.encode(out);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<Span<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => Span::Ranks { start: r.i64()?, end: r.i64()? },
            1 => Span::Scores { min: ScoreBound::decode(r)?, max: ScoreBound::decode(r)? },
            2 => Span::Members { min: MemberBound::decode(r)?, max: MemberBound::decode(r)? },
            _ => return malformed("unknown span"),
        })
    }
}

impl ScoreBound {
    fn decode(r: &mut Reader<'_>) -> Result<ScoreBound, Malformed> {
        Ok(ScoreBound { excluded: r.flag()?, score: read_score(r)? })
    }
}

impl<'a> MemberBound<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MemberBound::First => out.push(0),
            MemberBound::Last => out.push(1),
            MemberBound::Including(member) => {
                out.push(2);
                write_bytes(out, member);
            }
            MemberBound::Excluding(member) => {
                out.push(3);
                write_bytes(out, member);
            }
        }
    }

    fn decode(r: &mut Reader<'a>) -> Result<MemberBound<'a>, Malformed> {
        Ok(match r.u8()? {
            0 => MemberBound::First,
            1 => MemberBound::Last,
            2 => MemberBound::Including(r.bytes()?),
            3 => MemberBound::Excluding(r.bytes()?),
            _ => return malformed("unknown bound of a span"),
        })
    }
}

pub(crate) fn read_score(r: &mut Reader<'_>) -> Result<f64, Malformed> {
    let score = r.f64()?;
    if score.is_nan() { malformed("a score is not a number") } else { Ok(score) }
}

pub(super) fn write_scored(out: &mut Vec<u8>, pairs: &[Scored<'_>]) {
    write_len(out, pairs.len());
    for (member, score) in pairs {
        write_bytes(out, member);
        out.extend_from_slice(&score.to_le_bytes());
    }
}

pub(super) fn read_scored<'a>(r: &mut Reader<'a>) -> Result<Vec<Scored<'a>>, Malformed> {
    // Not allocated from the declared count: a pair that is not there ends the reading.
    let count = r.u32()?;
    (0..count).map(|_| Ok((r.bytes()?, read_score(r)?))).collect()
}
