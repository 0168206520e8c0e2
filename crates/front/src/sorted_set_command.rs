//! Words of a client to an operation on a sorted set.

use quorate_object::{MemberBound, ScoreBound, ScoreCondition, SortedSetOp, Span};

use crate::double::{parse_double, parse_lenient_double};
use crate::object_command::{Call, parse_chance, parse_element_scan};
use crate::refusal::Refusal;
use crate::specs::Id;

pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<SortedSetOp<'a>, Refusal> {
    let member = call.word(2);
    Ok(match call.spec.id {
        Id::ZAdd | Id::ZIncrBy => return parse_add(call),
        Id::ZRem => SortedSetOp::Remove { members: call.words.from(2).iter().collect() },
        Id::ZScore => SortedSetOp::Score { member },
        Id::ZMScore => SortedSetOp::MScore { members: call.words.from(2).iter().collect() },
        Id::ZCard => SortedSetOp::Len,
        Id::ZCount => SortedSetOp::Count { span: parse_span(call, By::Score, false)? },
        Id::ZLexCount => SortedSetOp::Count { span: parse_span(call, By::Member, false)? },
        Id::ZRange => return parse_range(call, None, None),
        Id::ZRevRange => return parse_range(call, Some(By::Rank), Some(true)),
        Id::ZRangeByScore => return parse_range(call, Some(By::Score), Some(false)),
        Id::ZRevRangeByScore => return parse_range(call, Some(By::Score), Some(true)),
        Id::ZRangeByLex => return parse_range(call, Some(By::Member), Some(false)),
        Id::ZRevRangeByLex => return parse_range(call, Some(By::Member), Some(true)),
        Id::ZRank => SortedSetOp::Rank { member, reversed: false },
        Id::ZRevRank => SortedSetOp::Rank { member, reversed: true },
        Id::ZPopMin => SortedSetOp::Pop { highest: false, count: parse_pop_count(call)? },
        Id::ZPopMax => SortedSetOp::Pop { highest: true, count: parse_pop_count(call)? },
        Id::ZRemRangeByScore => SortedSetOp::RemoveRange { span: parse_span(call, By::Score, false)? },
        Id::ZRemRangeByRank => SortedSetOp::RemoveRange { span: parse_span(call, By::Rank, false)? },
        Id::ZRemRangeByLex => SortedSetOp::RemoveRange { span: parse_span(call, By::Member, false)? },
        Id::ZScan => SortedSetOp::Scan(parse_element_scan(call)?),
        Id::ZRandMember => {
            let (with_scores, chance) = parse_chance(call, Some("WITHSCORES"))?;
            SortedSetOp::Random { with_scores, chance }
        }
        other => unreachable!("{other:?} is no command on sorted sets"),
    })
}

/// ZADD, and ZINCRBY, which Redis reads in the same way, options included.
fn parse_add<'a>(call: &Call<'a>) -> Result<SortedSetOp<'a>, Refusal> {
    let (mut absent, mut present, mut greater, mut less) = (false, false, false, false);
    let (mut counts_changed, mut increments) = (false, call.spec.id == Id::ZIncrBy);
    let mut start = 2;
    while let Some(word) = call.words.at(start) {
        let options = [
            ("NX", &mut absent),
            ("XX", &mut present),
            ("CH", &mut counts_changed),
            ("INCR", &mut increments),
            ("GT", &mut greater),
            ("LT", &mut less),
        ];
        let Some((_, flag)) = options.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())) else {
            break;
        };
        *flag = true;
        start += 1;
    }
    let words = call.words.from(start);
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(Refusal::SYNTAX);
    }
    let condition = parse_condition(absent, present, greater, less)?;
    if increments && words.len() > 2 {
        return Err(Refusal::fixed("ERR INCR option supports a single increment-element pair"));
    }
    let mut words = words.iter();
    let pairs = std::iter::from_fn(|| words.next().zip(words.next()));
    let pairs = pairs.map(|(score, member)| Ok((member, parse_double(score).ok_or(Refusal::NOT_A_FLOAT)?)));
    let pairs: Vec<(&[u8], f64)> = pairs.collect::<Result<_, _>>()?;
    Ok(match pairs[..] {
        [(member, delta)] if increments => SortedSetOp::Incr { member, delta, condition },
        _ => SortedSetOp::Add { pairs, condition, counts_changed },
    })
}

fn parse_condition(absent: bool, present: bool, greater: bool, less: bool) -> Result<ScoreCondition, Refusal> {
    if absent && present {
        return Err(Refusal::fixed("ERR XX and NX options at the same time are not compatible"));
    }
    Ok(match (absent, present, greater, less) {
        (true, _, true, _) | (true, _, _, true) | (_, _, true, true) => {
            return Err(Refusal::fixed("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        (true, ..) => ScoreCondition::IfAbsent,
        (_, true, true, _) => ScoreCondition::IfPresentAndGreater,
        (_, true, _, true) => ScoreCondition::IfPresentAndLess,
        (_, true, ..) => ScoreCondition::IfPresent,
        (_, _, true, _) => ScoreCondition::IfGreater,
        (_, _, _, true) => ScoreCondition::IfLess,
        _ => ScoreCondition::Always,
    })
}

/// What the two ends of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Rank,
    Score,
    Member,
}

/// ZRANGE, which tells by its options what the range is of and in which order, and those that tell it by their names.
pub(crate) fn parse_range<'a>(
    call: &Call<'a>,
    by: Option<By>,
    reversed: Option<bool>,
) -> Result<SortedSetOp<'a>, Refusal> {
    let (is_by_fixed, is_order_fixed) = (by.is_some(), reversed.is_some());
    let (mut by, mut reversed) = (by.unwrap_or(By::Rank), reversed.unwrap_or(false));
    let mut chosen = false;
    let (mut offset, mut count, mut with_scores) = (0, -1, false);
    let mut place = 4;
    while let Some(option) = call.words.at(place) {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        // What is stored has its scores anyway.
        if is("WITHSCORES") && call.spec.id != Id::ZRangeStore {
            with_scores = true;
        } else if is("LIMIT") && call.words.len() > place + 2 {
            (offset, count) = (call.integer(place + 1)?, call.integer(place + 2)?);
            place += 2;
        } else if is("REV") && !is_order_fixed && !reversed {
            reversed = true;
        } else if (is("BYLEX") || is("BYSCORE")) && !is_by_fixed && !chosen {
            by = if is("BYLEX") { By::Member } else { By::Score };
            chosen = true;
        } else {
            return Err(Refusal::SYNTAX);
        }
        place += 1;
    }
    if by == By::Rank && count != -1 {
        return Err(Refusal::fixed(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if by == By::Member && with_scores {
        return Err(Refusal::fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
    }
    let span = parse_span(call, by, reversed)?;
    Ok(SortedSetOp::Range { span, offset, count, reversed, with_scores })
}

/// The two words after the key. The higher bound of a reversed range is the first.
fn parse_span<'a>(call: &Call<'a>, by: By, reversed: bool) -> Result<Span<'a>, Refusal> {
    let (min, max) = match reversed {
        false => (call.word(2), call.word(3)),
        true => (call.word(3), call.word(2)),
    };
    Ok(match by {
        By::Rank => Span::Ranks { start: call.integer(2)?, end: call.integer(3)? },
        By::Score => match parse_score_bound(min).zip(parse_score_bound(max)) {
            Some((min, max)) => Span::Scores { min, max },
            None => return Err(Refusal::fixed("ERR min or max is not a float")),
        },
        By::Member => match parse_member_bound(min).zip(parse_member_bound(max)) {
            Some((min, max)) => Span::Members { min, max },
            None => return Err(Refusal::fixed("ERR min or max not valid string range item")),
        },
    })
}

fn parse_score_bound(word: &[u8]) -> Option<ScoreBound> {
    let excluding = word.strip_prefix(b"(");
    let score = parse_lenient_double(excluding.unwrap_or(word))?;
    Some(ScoreBound { score, excluded: excluding.is_some() })
}

/// Redis takes `-` and `+` also with a NUL and anything after it.
fn parse_member_bound(word: &[u8]) -> Option<MemberBound<'_>> {
    match word {
        [b'-'] | [b'-', 0, ..] => Some(MemberBound::First),
        [b'+'] | [b'+', 0, ..] => Some(MemberBound::Last),
        [b'[', member @ ..] => Some(MemberBound::Including(member)),
        [b'(', member @ ..] => Some(MemberBound::Excluding(member)),
        _ => None,
    }
}

fn parse_pop_count(call: &Call<'_>) -> Result<Option<u64>, Refusal> {
    match call.words.len() {
        2 => Ok(None),
        3 => call.count(2, Refusal::NEGATIVE).map(Some),
        _ => Err(Refusal::SYNTAX),
    }
}
