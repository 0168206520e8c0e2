//! Words of a client to a command on one object.
//!
//! Options are taken in any order and refused in the same cases and words as by Redis 7.0, but for INCRBYFLOAT, which takes
//! decimal numbers within the range of a double only, since that is what objects count with.

use quorate_object::{
    Chance, Command, Condition, ElementScan, ExpireCondition, Expiry, Op, SetAnswer, TtlUnit, Wrong, float_vanishes,
};
use quorate_resp::{Arguments, parse_integer};

use crate::expiry::{TimeForm, parse_deadline, parse_expiry};
use crate::refusal::Refusal;
use crate::scan::{SCAN_COUNT_DEFAULT, parse_cursor};
use crate::specs::{Id, Spec};
use crate::{hash_command, list_command, set_command, sorted_set_command};

/// A request that has passed the look-up and the arity check.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) spec: &'static Spec,
    /// The command's name first.
    pub(crate) words: Arguments<'a>,
    pub(crate) now_ms: u64,
    /// The longest value that an object may have.
    pub(crate) object_length_max: usize,
    /// For commands whose answer is random.
    pub(crate) seed: u64,
}

impl<'a> Call<'a> {
    /// A word that the arity check has found to be there.
    pub(crate) fn word(&self, index: usize) -> &'a [u8] {
        self.words.at(index).unwrap_or_default()
    }

    pub(crate) fn integer(&self, index: usize) -> Result<i64, Refusal> {
        parse_integer(self.word(index)).ok_or(Refusal::NOT_AN_INTEGER)
    }

    /// An integer that is not negative; anything else is refused with these words.
    pub(crate) fn count(&self, index: usize, refusal: Refusal) -> Result<u64, Refusal> {
        parse_integer(self.word(index)).and_then(|count| u64::try_from(count).ok()).ok_or(refusal)
    }
}

/// The command for the object `call.word(1)`.
pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<Command<'a>, Refusal> {
    let key = call.word(1);
    Ok(match call.spec.id {
        Id::Get => Command::Get { key },
        Id::Set => return parse_set(call),
        Id::SetNx => Command::Set {
            key,
            value: call.word(2),
            condition: Condition::IfAbsent,
            expiry: Expiry::Unset,
            answer: SetAnswer::Flag,
        },
        Id::SetEx => return parse_set_with_time(call, TimeForm::Seconds),
        Id::PSetEx => return parse_set_with_time(call, TimeForm::Milliseconds),
        Id::GetSet => Command::GetSet { key, value: call.word(2) },
        Id::GetDel => Command::GetDel { key },
        Id::GetEx => return parse_get_ex(call),
        Id::Append => Command::Append { key, value: call.word(2) },
        Id::Strlen => Command::Strlen { key },
        Id::Incr => Command::IncrBy { key, delta: 1 },
        Id::Decr => Command::IncrBy { key, delta: -1 },
        Id::IncrBy => Command::IncrBy { key, delta: call.integer(2)? },
        Id::DecrBy => Command::IncrBy { key, delta: parse_decrement(call)? },
        Id::IncrByFloat => Command::IncrByFloat { key, delta: parse_float(call.word(2))? },
        Id::GetRange => Command::GetRange { key, start: call.integer(2)?, end: call.integer(3)? },
        Id::SetRange => return parse_set_range(call),
        Id::Type => Command::Type { key },
        Id::Ttl => Command::Ttl { key, unit: TtlUnit::Seconds },
        Id::PTtl => Command::Ttl { key, unit: TtlUnit::Milliseconds },
        Id::ExpireTime => Command::Ttl { key, unit: TtlUnit::UnixSeconds },
        Id::PExpireTime => Command::Ttl { key, unit: TtlUnit::UnixMilliseconds },
        Id::Expire => return parse_expire(call, TimeForm::Seconds),
        Id::PExpire => return parse_expire(call, TimeForm::Milliseconds),
        Id::ExpireAt => return parse_expire(call, TimeForm::UnixSeconds),
        Id::PExpireAt => return parse_expire(call, TimeForm::UnixMilliseconds),
        Id::Persist => Command::Persist { key },
        _ => Command::Elements { key, op: parse_op(call)? },
    })
}

/// The operation on the elements of an object. Redis looks at most words before it looks at the object.
fn parse_op<'a>(call: &Call<'a>) -> Result<Op<'a>, Refusal> {
    check_length(call)?;
    match call.spec.group {
        "hash" => hash_command::parse(call).map(Op::Hash),
        "list" => list_command::parse(call).map(Op::List),
        "set" => set_command::parse(call).map(Op::Set),
        "sorted-set" => sorted_set_command::parse(call).map(Op::SortedSet),
        other => unreachable!("{other} is no type of object"),
    }
}

/// A command on elements is logged in one record, and what a client writes at once has to have room in it.
pub(crate) fn check_length(call: &Call<'_>) -> Result<(), Refusal> {
    if call.words.iter().map(|word| word.len() + size_of::<u32>()).sum::<usize>() > call.object_length_max {
        return Err(Refusal::fixed("ERR the command is longer than 16 MiB: write fewer elements at once"));
    }
    Ok(())
}

/// The options of HSCAN, SSCAN and ZSCAN. What is wrong with them Redis finds once it has found an object.
pub(crate) fn parse_element_scan<'a>(call: &Call<'a>) -> Result<ElementScan<'a>, Refusal> {
    let from = parse_cursor(call.word(2)).ok_or(Refusal::fixed("ERR invalid cursor"))?;
    let mut scan = ElementScan { from, count: SCAN_COUNT_DEFAULT, pattern: None, wrong: None };
    let mut words = call.words.from(3).iter();
    while let Some(option) = words.next() {
        let value = words.next();
        match value.filter(|_| scan.wrong.is_none()) {
            Some(value) if option.eq_ignore_ascii_case(b"COUNT") => match parse_integer(value) {
                None => scan.wrong = Some(Wrong::NotAnInteger),
                Some(count) if count < 1 => scan.wrong = Some(Wrong::Syntax),
                Some(count) => scan.count = u32::try_from(count).unwrap_or(u32::MAX),
            },
            Some(pattern) if option.eq_ignore_ascii_case(b"MATCH") => {
                scan.pattern = Some(pattern).filter(|pattern| *pattern != b"*");
            }
            _ => scan.wrong = scan.wrong.or(Some(Wrong::Syntax)),
        }
    }
    Ok(scan)
}

/// `[count [option]]`, for commands that have such an option: whether it is there.
pub(crate) fn parse_chance(call: &Call<'_>, option: Option<&str>) -> Result<(bool, Chance), Refusal> {
    let seed = call.seed;
    if call.words.len() == 2 {
        return Ok((false, Chance { count: None, seed }));
    }
    let count = call.integer(2)?;
    if count == i64::MIN {
        let most = i64::MAX;
        return Err(Refusal::of(format!("ERR value is out of range, value must between -{most} and {most}")));
    }
    let is_option = |word: &[u8]| option.is_some_and(|option| word.eq_ignore_ascii_case(option.as_bytes()));
    let with = match call.words.len() {
        3 => false,
        4 if is_option(call.word(3)) => true,
        _ => return Err(Refusal::SYNTAX),
    };
    if with && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(Refusal::fixed("ERR value is out of range"));
    }
    Ok((with, Chance { count: Some(count), seed }))
}

/// SET key value and options. A later option of the same kind replaces an earlier one, different kinds exclude each other.
fn parse_set<'a>(call: &Call<'a>) -> Result<Command<'a>, Refusal> {
    let mut condition = Condition::Always;
    let mut answer = SetAnswer::Ok;
    let mut keep = false;
    let mut time: Option<(TimeForm, &[u8])> = None;
    let mut options = call.words.from(3).iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"NX") && matches!(condition, Condition::Always | Condition::IfAbsent) {
            condition = Condition::IfAbsent;
        } else if option.eq_ignore_ascii_case(b"XX") && matches!(condition, Condition::Always | Condition::IfPresent) {
            condition = Condition::IfPresent;
        } else if option.eq_ignore_ascii_case(b"IFEQ") && matches!(condition, Condition::Always | Condition::IfEqual(_))
        {
            condition = Condition::IfEqual(options.next().ok_or(Refusal::SYNTAX)?);
        } else if option.eq_ignore_ascii_case(b"GET") {
            answer = SetAnswer::Old;
        } else if option.eq_ignore_ascii_case(b"KEEPTTL") && time.is_none() {
            keep = true;
        } else {
            time = Some(parse_time_option(option, &mut options, time, keep)?);
        }
    }
    let expiry = match time {
        Some((form, word)) => Expiry::AtMs(parse_expiry(call.spec, form, word, call.now_ms)?),
        None if keep => Expiry::Keep,
        None => Expiry::Unset,
    };
    Ok(Command::Set { key: call.word(1), value: call.word(2), condition, expiry, answer })
}

/// `EX seconds` and the like, unless a time of another form, or its opposite, was given before.
fn parse_time_option<'a>(
    option: &[u8],
    options: &mut impl Iterator<Item = &'a [u8]>,
    before: Option<(TimeForm, &[u8])>,
    excluded: bool,
) -> Result<(TimeForm, &'a [u8]), Refusal> {
    let form = TimeForm::of_option(option).ok_or(Refusal::SYNTAX)?;
    if excluded || before.is_some_and(|(other, _)| other != form) {
        return Err(Refusal::SYNTAX);
    }
    Ok((form, options.next().ok_or(Refusal::SYNTAX)?))
}

fn parse_set_with_time<'a>(call: &Call<'a>, form: TimeForm) -> Result<Command<'a>, Refusal> {
    let at_ms = parse_expiry(call.spec, form, call.word(2), call.now_ms)?;
    Ok(Command::Set {
        key: call.word(1),
        value: call.word(3),
        condition: Condition::Always,
        expiry: Expiry::AtMs(at_ms),
        answer: SetAnswer::Ok,
    })
}

fn parse_get_ex<'a>(call: &Call<'a>) -> Result<Command<'a>, Refusal> {
    let key = call.word(1);
    let mut persist = false;
    let mut time: Option<(TimeForm, &[u8])> = None;
    let mut options = call.words.from(2).iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"PERSIST") && time.is_none() {
            persist = true;
        } else {
            time = Some(parse_time_option(option, &mut options, time, persist)?);
        }
    }
    Ok(match time {
        Some((form, word)) => {
            let at_ms = parse_expiry(call.spec, form, word, call.now_ms)?;
            Command::GetEx { key, expiry: Expiry::AtMs(at_ms) }
        }
        None if persist => Command::GetEx { key, expiry: Expiry::Remove },
        None => Command::Get { key },
    })
}

fn parse_decrement(call: &Call<'_>) -> Result<i64, Refusal> {
    call.integer(2)?.checked_neg().ok_or(Refusal::fixed("ERR decrement would overflow"))
}

/// A number, also an infinite one, with which the object can make no sum. Digits that come to infinity, or to 0 though they
/// are not, are none.
pub(crate) fn parse_float(word: &[u8]) -> Result<f64, Refusal> {
    let text = core::str::from_utf8(word).map_err(|_| Refusal::NOT_A_FLOAT)?;
    let number: Option<f64> = text.parse().ok();
    let is_number = |number: &f64| !number.is_nan() && (number.is_finite() || !word.iter().any(u8::is_ascii_digit));
    number.filter(is_number).filter(|_| !float_vanishes(text)).ok_or(Refusal::NOT_A_FLOAT)
}

fn parse_set_range<'a>(call: &Call<'a>) -> Result<Command<'a>, Refusal> {
    let (key, value) = (call.word(1), call.word(3));
    let offset = call.integer(2)?;
    if offset < 0 {
        return Err(Refusal::fixed("ERR offset is out of range"));
    }
    // Nothing written at any offset is a question for the length.
    if value.is_empty() {
        return Ok(Command::Strlen { key });
    }
    let length_max = call.object_length_max.saturating_sub(value.len());
    match u32::try_from(offset) {
        Ok(offset) if offset as usize <= length_max => Ok(Command::SetRange { key, offset, value }),
        _ => Err(Refusal::STRING_TOO_LARGE),
    }
}

fn parse_expire<'a>(call: &Call<'a>, form: TimeForm) -> Result<Command<'a>, Refusal> {
    let condition = parse_expire_condition(call.words.from(3))?;
    let at_ms = parse_deadline(call.spec, form, call.word(2), call.now_ms)?;
    Ok(Command::ExpireAt { key: call.word(1), at_ms, condition })
}

fn parse_expire_condition(options: Arguments<'_>) -> Result<ExpireCondition, Refusal> {
    let (mut none, mut some, mut greater, mut less) = (false, false, false, false);
    for option in options.iter() {
        if option.eq_ignore_ascii_case(b"NX") {
            none = true;
        } else if option.eq_ignore_ascii_case(b"XX") {
            some = true;
        } else if option.eq_ignore_ascii_case(b"GT") {
            greater = true;
        } else if option.eq_ignore_ascii_case(b"LT") {
            less = true;
        } else {
            return Err(Refusal::quoting("ERR Unsupported option ", option, ""));
        }
    }
    if none && (some || greater || less) {
        return Err(Refusal::fixed("ERR NX and XX, GT or LT options at the same time are not compatible"));
    }
    Ok(match (some, greater, less) {
        (_, true, true) => {
            return Err(Refusal::fixed("ERR GT and LT options at the same time are not compatible"));
        }
        (true, false, true) => ExpireCondition::IfSomeAndLess,
        // An object without expiry expires last, so that GT implies XX.
        (_, true, false) => ExpireCondition::IfGreater,
        (false, false, true) => ExpireCondition::IfLess,
        (true, false, false) => ExpireCondition::IfSome,
        (false, false, false) if none => ExpireCondition::IfNone,
        (false, false, false) => ExpireCondition::Always,
    })
}
