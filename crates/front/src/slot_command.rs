//! Words of a client to an operation on the objects of several keys, which lie in one hash slot.

use std::ops::Range;

use quorate_object::{
    Aggregate, Combination, Combined, Command, KeysOp, ListSide, NAME_BYTES_MAX, OnKeys, SortedSetOp, Wrong,
};

use crate::double::parse_double;
use crate::object_command::{Call, check_length};
use crate::refusal::Refusal;
use crate::sorted_set_command::parse_range;
use crate::specs::Id;
use crate::submit::count_keys;

/// Keys of one command: all of them are looked at in one go.
const KEYS_MAX: usize = 10_000;
const TOO_MANY: Refusal = Refusal::fixed("ERR the command has more than 10,000 keys");
const NO_KEYS: Refusal = Refusal::fixed("ERR numkeys should be greater than 0");
const NO_COUNT: Refusal = Refusal::fixed("ERR count should be greater than 0");
const NEGATIVE_LIMIT: Refusal = Refusal::fixed("ERR LIMIT can't be negative");
const OTHER_DATABASE: Refusal = Refusal::fixed(
    "ERR COPY takes no DB: the namespaces have volumes of their own, and nothing is done in two of them at once",
);

/// An operation with its keys.
type Parsed<'a> = Result<(Vec<&'a [u8]>, KeysOp<'a>), Refusal>;

pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<Command<'a>, Refusal> {
    check_length(call)?;
    let (keys, op) = parse_op(call)?;
    if keys.len() > KEYS_MAX {
        return Err(TOO_MANY);
    }
    if keys.iter().any(|key| key.len() > NAME_BYTES_MAX) {
        return Err(Refusal::KEY_TOO_LONG);
    }
    OnKeys::new(keys, op).map(Command::OnKeys).ok_or(Refusal::CROSS_SLOT)
}

fn parse_op<'a>(call: &Call<'a>) -> Parsed<'a> {
    use Combination::{Difference, Intersection, Union};
    let both = || vec![call.word(1), call.word(2)];
    let all = || call.words.from(1).iter().collect();
    Ok(match call.spec.id {
        Id::LMove => (both(), KeysOp::MoveElement { from: parse_side(call.word(3))?, to: parse_side(call.word(4))? }),
        Id::RPopLPush => (both(), KeysOp::MoveElement { from: ListSide::Right, to: ListSide::Left }),
        Id::SMove => (both(), KeysOp::MoveMember { member: call.word(3) }),
        Id::Rename => (both(), KeysOp::Rename { if_absent: false }),
        Id::RenameNx => (both(), KeysOp::Rename { if_absent: true }),
        Id::Copy => (both(), KeysOp::Copy { replace: parse_replace(call)? }),
        Id::MSetNx => return parse_pairs(call),
        Id::SInter => (all(), KeysOp::CombineSets { how: Intersection, result: Combined::Members }),
        Id::SUnion => (all(), KeysOp::CombineSets { how: Union, result: Combined::Members }),
        Id::SDiff => (all(), KeysOp::CombineSets { how: Difference, result: Combined::Members }),
        Id::SInterStore => (all(), KeysOp::CombineSets { how: Intersection, result: Combined::Stored }),
        Id::SUnionStore => (all(), KeysOp::CombineSets { how: Union, result: Combined::Stored }),
        Id::SDiffStore => (all(), KeysOp::CombineSets { how: Difference, result: Combined::Stored }),
        Id::SInterCard => return parse_card_of_sets(call),
        Id::ZInter => return parse_combination(call, Intersection, Combined::Members),
        Id::ZUnion => return parse_combination(call, Union, Combined::Members),
        Id::ZDiff => return parse_combination(call, Difference, Combined::Members),
        Id::ZInterCard => return parse_combination(call, Intersection, Combined::Count { most: 0 }),
        Id::ZInterStore => return parse_combination(call, Intersection, Combined::Stored),
        Id::ZUnionStore => return parse_combination(call, Union, Combined::Stored),
        Id::ZDiffStore => return parse_combination(call, Difference, Combined::Stored),
        Id::ZRangeStore => (both(), parse_stored_range(call)?),
        Id::LMPop => {
            let (keys, is_right, count) = parse_pop(call, ["LEFT", "RIGHT"])?;
            (keys, KeysOp::PopElements { side: side(is_right), count })
        }
        Id::ZMPop => {
            let (keys, highest, count) = parse_pop(call, ["MIN", "MAX"])?;
            (keys, KeysOp::PopMembers { highest, count })
        }
        other => unreachable!("{other:?} is no command on several keys"),
    })
}

fn parse_side(word: &[u8]) -> Result<ListSide, Refusal> {
    parse_either(word, ["LEFT", "RIGHT"]).map(side)
}

fn side(is_right: bool) -> ListSide {
    if is_right { ListSide::Right } else { ListSide::Left }
}

/// Whether it is the second of two words.
fn parse_either(word: &[u8], [first, second]: [&str; 2]) -> Result<bool, Refusal> {
    match word {
        _ if word.eq_ignore_ascii_case(first.as_bytes()) => Ok(false),
        _ if word.eq_ignore_ascii_case(second.as_bytes()) => Ok(true),
        _ => Err(Refusal::SYNTAX),
    }
}

/// The options of COPY.
fn parse_replace(call: &Call<'_>) -> Result<bool, Refusal> {
    let mut replace = false;
    let mut place = 3;
    while let Some(option) = call.words.at(place) {
        if option.eq_ignore_ascii_case(b"REPLACE") {
            replace = true;
        } else if option.eq_ignore_ascii_case(b"DB") && place + 1 < call.words.len() {
            call.integer(place + 1)?;
            return Err(OTHER_DATABASE);
        } else {
            return Err(Refusal::SYNTAX);
        }
        place += 1;
    }
    Ok(replace)
}

/// MSETNX.
fn parse_pairs<'a>(call: &Call<'a>) -> Parsed<'a> {
    let places = (0..count_keys(call)?).map(|number| 1 + 2 * number);
    let (keys, values) = places.map(|place| (call.word(place), call.word(place + 1))).unzip();
    Ok((keys, KeysOp::SetIfAllAbsent { values }))
}

/// A number of keys, and so many of them: where they are among the words.
fn parse_counted(call: &Call<'_>) -> Result<Range<usize>, Refusal> {
    let count = call.count(1, NO_KEYS)?;
    match usize::try_from(count).unwrap_or(usize::MAX) {
        0 => Err(NO_KEYS),
        count => Ok(2..count.saturating_add(2)),
    }
}

/// SINTERCARD.
fn parse_card_of_sets<'a>(call: &Call<'a>) -> Parsed<'a> {
    let places = parse_counted(call)?;
    if places.end > call.words.len() {
        return Err(Refusal::fixed("ERR Number of keys can't be greater than number of args"));
    }
    let mut most = 0;
    for place in (places.end..call.words.len()).step_by(2) {
        if !call.word(place).eq_ignore_ascii_case(b"LIMIT") || place + 1 == call.words.len() {
            return Err(Refusal::SYNTAX);
        }
        most = call.count(place + 1, NEGATIVE_LIMIT)?;
    }
    let op = KeysOp::CombineSets { how: Combination::Intersection, result: Combined::Count { most } };
    Ok((places.map(|place| call.word(place)).collect(), op))
}

/// LMPOP and ZMPOP: the keys, whether it is the second of the two ends that is asked for, and how many.
fn parse_pop<'a>(call: &Call<'a>, ends: [&str; 2]) -> Result<(Vec<&'a [u8]>, bool, u64), Refusal> {
    let places = parse_counted(call)?;
    let end = call.words.at(places.end).ok_or(Refusal::SYNTAX)?;
    let is_second = parse_either(end, ends)?;
    let options = places.end + 1;
    let count = match call.words.at(options) {
        None => 1,
        Some(option) if option.eq_ignore_ascii_case(b"COUNT") && options + 1 < call.words.len() => {
            call.count(options + 1, NO_COUNT)?
        }
        Some(_) => return Err(Refusal::SYNTAX),
    };
    match count {
        0 => Err(NO_COUNT),
        _ if call.words.len() > options + 2 => Err(Refusal::SYNTAX),
        _ => Ok((places.map(|place| call.word(place)).collect(), is_second, count)),
    }
}

/// ZRANGESTORE: ZRANGE of the second key.
fn parse_stored_range<'a>(call: &Call<'a>) -> Result<KeysOp<'a>, Refusal> {
    let range = Call { words: call.words.from(1), ..*call };
    match parse_range(&range, None, None)? {
        SortedSetOp::Range { span, offset, count, reversed, .. } => {
            Ok(KeysOp::StoreRange { span, offset, count, reversed })
        }
        other => unreachable!("{other:?} is no range"),
    }
}

/// ZUNION and the like. What is wrong with the options Redis finds once it has found no object of another type.
fn parse_combination<'a>(call: &Call<'a>, how: Combination, result: Combined) -> Parsed<'a> {
    let counted_at = if result == Combined::Stored { 2 } else { 1 };
    let first = counted_at + 1;
    let count = match usize::try_from(call.integer(counted_at)?) {
        Ok(count @ 1..) => count,
        _ => {
            let name = call.spec.name;
            return Err(Refusal::of(format!("ERR at least 1 input key is needed for '{name}' command")));
        }
    };
    if count > call.words.len() - first {
        return Err(Refusal::SYNTAX);
    }
    let mut keys: Vec<&[u8]> = (1..counted_at).map(|place| call.word(place)).collect();
    keys.extend((first..first + count).map(|place| call.word(place)));
    let mut options = Options { how, weights: Vec::new(), aggregate: Aggregate::Sum, result };
    let wrong = options.parse(call, first + count, count).err();
    let Options { how, weights, aggregate, result } = options;
    Ok((keys, KeysOp::CombineSortedSets { how, weights, aggregate, result, wrong }))
}

/// What the options of ZUNION and the like say, so far.
struct Options {
    how: Combination,
    weights: Vec<f64>,
    aggregate: Aggregate,
    result: Combined,
}

impl Options {
    /// Those from `place` on, for so many keys.
    fn parse(&mut self, call: &Call<'_>, mut place: usize, count: usize) -> Result<(), Wrong> {
        let is_counted = matches!(self.result, Combined::Count { .. });
        let has_scores = self.how != Combination::Difference && !is_counted;
        while let Some(option) = call.words.at(place) {
            let following = call.words.len() - place - 1;
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            if has_scores && following >= count && is("WEIGHTS") {
                let weights = call.words.from(place + 1).iter().take(count).map(parse_double);
                self.weights = weights.collect::<Option<_>>().ok_or(Wrong::WeightNotAFloat)?;
                place += count;
            } else if has_scores && following >= 1 && is("AGGREGATE") {
                self.aggregate = parse_aggregate(call.word(place + 1)).ok_or(Wrong::Syntax)?;
                place += 1;
            } else if matches!(self.result, Combined::Members | Combined::Scores) && is("WITHSCORES") {
                self.result = Combined::Scores;
            } else if is_counted && following >= 1 && is("LIMIT") {
                let most = call.count(place + 1, NEGATIVE_LIMIT).map_err(|_| Wrong::NegativeLimit)?;
                self.result = Combined::Count { most };
                place += 1;
            } else {
                return Err(Wrong::Syntax);
            }
            place += 1;
        }
        Ok(())
    }
}

fn parse_aggregate(word: &[u8]) -> Option<Aggregate> {
    match word {
        _ if word.eq_ignore_ascii_case(b"SUM") => Some(Aggregate::Sum),
        _ if word.eq_ignore_ascii_case(b"MIN") => Some(Aggregate::Least),
        _ if word.eq_ignore_ascii_case(b"MAX") => Some(Aggregate::Greatest),
        _ => None,
    }
}
