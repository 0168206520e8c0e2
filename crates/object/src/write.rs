//! What writing commands change and answer: Redis 7.0's semantics and error texts.

use std::borrow::Cow;

use crate::change::Change;
use crate::collection::WRONG_TYPE;
use crate::command::{Command, Condition, ExpireCondition, Expiry, SetAnswer};
use crate::number::{self, FloatError};
use crate::object::Object;
use crate::objects::{NAME_BYTES_MAX, OBJECT_BYTES_MAX};
use crate::outcome::Outcome;
use crate::read::elements_of;
use crate::text::Text;

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const WOULD_OVERFLOW: &str = "ERR increment or decrement would overflow";
const NOT_A_FLOAT: &str = "ERR value is not a valid float";
const NAN_OR_INFINITY: &str = "ERR increment would produce NaN or Infinity";
const NAME_TOO_LONG: &str = "ERR the key is longer than 64000 bytes";
pub(crate) const TOO_LARGE: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// A change, if there is any, and the answer.
type Effect<'a> = (Option<Change<'a>>, Outcome);

/// `object` is the live object that the command names, if it names one.
pub(crate) fn execute<'a>(command: &Command<'a>, object: Option<&Object>, time_ms: u64, seed: u64) -> Effect<'a> {
    if command.key().is_some_and(|key| key.len() > NAME_BYTES_MAX) {
        return refused(NAME_TOO_LONG);
    }
    if command.is_of_strings() && matches!(object, Some(Object::Collection(_))) {
        return refused(WRONG_TYPE);
    }
    match *command {
        Command::Elements { key, ref op } => match elements_of(object) {
            Ok(elements) => {
                let (change, outcome) = op.execute(elements, seed);
                (change.map(|change| Change::Elements { key, change }), outcome)
            }
            Err(refused) => (None, refused),
        },
        Command::Set { key, value, condition, expiry, answer } => {
            let set = Set { key, value, expiry };
            set.execute(object, condition, answer, time_ms)
        }
        Command::GetSet { key, value } => {
            let set = Set { key, value, expiry: Expiry::Unset };
            set.execute(object, Condition::Always, SetAnswer::Old, time_ms)
        }
        Command::GetDel { key } => (object.map(|_| Change::Delete { key }), value_of(object)),
        Command::GetEx { key, expiry } => {
            let change = object.and_then(|object| get_ex(key, object, expiry, time_ms));
            (change, value_of(object))
        }
        Command::Append { key, value } => append(key, value, object),
        Command::SetRange { key, offset, value } => set_range(key, offset, value, object),
        Command::IncrBy { key, delta } => incr_by(key, delta, object),
        Command::IncrByFloat { key, delta } => incr_by_float(key, delta, object),
        Command::Del { key } => (object.map(|_| Change::Delete { key }), Outcome::Int(i64::from(object.is_some()))),
        Command::ExpireAt { key, at_ms, condition } => match object {
            Some(object) if holds(condition, object.expires_ms(), at_ms) => {
                (Some(expire(key, at_ms, time_ms)), Outcome::Int(1))
            }
            _ => (None, Outcome::Int(0)),
        },
        Command::Persist { key } => match object.and_then(Object::expires_ms) {
            Some(_) => (Some(Change::Expire { key, expires_ms: None }), Outcome::Int(1)),
            None => (None, Outcome::Int(0)),
        },
        Command::Flush => (Some(Change::Flush), Outcome::Ok),
        _ => unreachable!("{command:?} is no write"),
    }
}

/// What all forms of SET have.
struct Set<'a> {
    key: &'a [u8],
    value: &'a [u8],
    expiry: Expiry,
}

impl<'a> Set<'a> {
    fn execute(self, object: Option<&Object>, condition: Condition<'_>, answer: SetAnswer, time_ms: u64) -> Effect<'a> {
        if self.value.len() > OBJECT_BYTES_MAX {
            return refused(TOO_LARGE);
        }
        let holds = match condition {
            Condition::Always => true,
            Condition::IfAbsent => object.is_none(),
            Condition::IfPresent => object.is_some(),
            Condition::IfEqual(expected) => text_of(object) == Some(expected),
        };
        let outcome = match answer {
            SetAnswer::Ok if holds => Outcome::Ok,
            SetAnswer::Ok => Outcome::Nil,
            SetAnswer::Old => value_of(object),
            SetAnswer::Flag => Outcome::Int(i64::from(holds)),
        };
        (if holds { self.change(object, time_ms) } else { None }, outcome)
    }

    fn change(self, object: Option<&Object>, time_ms: u64) -> Option<Change<'a>> {
        let Set { key, value, expiry } = self;
        let expires_ms = match expiry {
            Expiry::Unset | Expiry::Remove => None,
            Expiry::Keep => object.and_then(Object::expires_ms),
            Expiry::AtMs(at_ms) => match future(at_ms, time_ms) {
                Some(expires_ms) => Some(expires_ms),
                // It would expire before anybody could read it.
                None => return object.map(|_| Change::Delete { key }),
            },
        };
        Some(Change::Put { key, value: Cow::Borrowed(value), expires_ms })
    }
}

fn get_ex<'a>(key: &'a [u8], object: &Object, expiry: Expiry, time_ms: u64) -> Option<Change<'a>> {
    match expiry {
        Expiry::Unset | Expiry::Keep => None,
        Expiry::Remove => object.expires_ms().map(|_| Change::Expire { key, expires_ms: None }),
        Expiry::AtMs(at_ms) => Some(expire(key, at_ms, time_ms)),
    }
}

fn append<'a>(key: &'a [u8], value: &'a [u8], object: Option<&Object>) -> Effect<'a> {
    match text_of(object) {
        None => put_new(key, Cow::Borrowed(value)),
        Some(text) => write(key, text.len(), value, text.len()),
    }
}

fn set_range<'a>(key: &'a [u8], offset: u32, value: &'a [u8], object: Option<&Object>) -> Effect<'a> {
    let offset = offset as usize;
    match text_of(object) {
        None if value.is_empty() => (None, Outcome::Int(0)),
        None if offset + value.len() > OBJECT_BYTES_MAX => refused(TOO_LARGE),
        None => {
            let mut padded = vec![0; offset + value.len()];
            padded[offset..].copy_from_slice(value);
            put_new(key, Cow::Owned(padded))
        }
        Some(text) => write(key, offset, value, text.len()),
    }
}

/// Creates a string, and answers its length.
fn put_new<'a>(key: &'a [u8], value: Cow<'a, [u8]>) -> Effect<'a> {
    if value.len() > OBJECT_BYTES_MAX {
        return refused(TOO_LARGE);
    }
    let outcome = Outcome::Int(value.len() as i64);
    (Some(Change::Put { key, value, expires_ms: None }), outcome)
}

/// Writes into a string of `len` bytes, and answers its length then.
fn write<'a>(key: &'a [u8], offset: usize, bytes: &'a [u8], len: usize) -> Effect<'a> {
    if bytes.is_empty() {
        return (None, Outcome::Int(len as i64));
    }
    let end = offset + bytes.len();
    match u32::try_from(offset) {
        Ok(offset) if end <= OBJECT_BYTES_MAX => {
            (Some(Change::Write { key, offset, bytes }), Outcome::Int(len.max(end) as i64))
        }
        _ => refused(TOO_LARGE),
    }
}

fn incr_by<'a>(key: &'a [u8], delta: i64, object: Option<&Object>) -> Effect<'a> {
    let Some(value) = number::parse_integer(text_of(object).unwrap_or(b"0")) else {
        return refused(NOT_AN_INTEGER);
    };
    let Some(sum) = value.checked_add(delta) else {
        return refused(WOULD_OVERFLOW);
    };
    (Some(replace(key, sum.to_string(), object)), Outcome::Int(sum))
}

fn incr_by_float<'a>(key: &'a [u8], delta: f64, object: Option<&Object>) -> Effect<'a> {
    match number::add_float(text_of(object).unwrap_or(b"0"), delta) {
        Ok(sum) => (Some(replace(key, sum.clone(), object)), Outcome::Bulk(sum.into_bytes())),
        Err(FloatError::NotAFloat) => refused(NOT_A_FLOAT),
        Err(FloatError::NanOrInfinity) => refused(NAN_OR_INFINITY),
    }
}

/// Another value with the same expiry.
fn replace<'a>(key: &'a [u8], value: String, object: Option<&Object>) -> Change<'a> {
    let expires_ms = object.and_then(Object::expires_ms);
    Change::Put { key, value: Cow::Owned(value.into_bytes()), expires_ms }
}

/// EXPIRE's condition, where no expiry counts as infinitely late.
fn holds(condition: ExpireCondition, expires_ms: Option<u64>, at_ms: i64) -> bool {
    let expires_ms = expires_ms.map(i128::from);
    let at_ms = i128::from(at_ms);
    match condition {
        ExpireCondition::Always => true,
        ExpireCondition::IfNone => expires_ms.is_none(),
        ExpireCondition::IfSome => expires_ms.is_some(),
        ExpireCondition::IfGreater => expires_ms.is_some_and(|expires_ms| at_ms > expires_ms),
        ExpireCondition::IfLess => expires_ms.is_none_or(|expires_ms| at_ms < expires_ms),
        ExpireCondition::IfSomeAndLess => expires_ms.is_some_and(|expires_ms| at_ms < expires_ms),
    }
}

/// An expiry that is past deletes at once.
fn expire(key: &[u8], at_ms: i64, time_ms: u64) -> Change<'_> {
    match future(at_ms, time_ms) {
        Some(expires_ms) => Change::Expire { key, expires_ms: Some(expires_ms) },
        None => Change::Delete { key },
    }
}

fn future(at_ms: i64, time_ms: u64) -> Option<u64> {
    u64::try_from(at_ms).ok().filter(|&at_ms| at_ms > time_ms)
}

fn value_of(object: Option<&Object>) -> Outcome {
    text_of(object).map_or(Outcome::Nil, |value| Outcome::Bulk(value.to_vec()))
}

fn text_of(object: Option<&Object>) -> Option<&[u8]> {
    object.and_then(Object::text).map(Text::value)
}

fn refused<'a>(line: &str) -> Effect<'a> {
    (None, Outcome::Error(line.to_owned()))
}
