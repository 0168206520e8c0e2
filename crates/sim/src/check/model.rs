//! The sequential object: what one string or counter does with one command at a time.
//!
//! It is written from Redis's documentation and shares no code with the store that it judges.
//!
//! **Expiry.** A command is executed at some group time. All that is known of it is that it lies within the call's
//! interval of true time, widened by the clocks' skew ([`Window`]). So an object with an expiry
//! - *may* be found expired by a call whose window reaches the expiry, and is then gone for every later call, because
//!   expiry is decided in the log;
//! - *must* be found expired by a call whose window begins after the expiry.
//!
//! In between both are tried. This accepts a little more than a single ever-growing group time would allow (two
//! overlapping calls may disagree by up to the skew) and never rejects a correct history. Equality counts as either.

use crate::history::{Action, Answer, Bytes};

/// The group times at which a call can have been executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) earliest_ms: i64,
    pub(super) latest_ms: i64,
}

/// What an object is between two commands; `None` where there is none.
pub(super) type State = Option<Contents>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contents {
    pub(super) value: Bytes,
    pub(super) expires_at_ms: Option<i64>,
}

/// What a command does to the object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Keep,
    Replace(State),
}

/// How the command is answered. Owned only where it must be.
enum Reply<'a> {
    Plain(Answer),
    Value(&'a [u8]),
    /// DEL that may have met a register, which answers that there was an object.
    Erased {
        present: bool,
    },
    /// PTTL of an object that expires at this time.
    ExpiresAt(i64),
}

/// The changes with which the object, in this state, can have given this answer; all possible ones if the answer is
/// unknown. At most two: the object found alive, and the object found expired.
pub(super) fn explain(
    action: &Action,
    observed: Option<&Answer>,
    state: &State,
    window: Window,
) -> [Option<Change>; 2] {
    let expiry_ms = state.as_ref().and_then(|contents| contents.expires_at_ms);
    let may_live = expiry_ms.is_none_or(|at_ms| window.earliest_ms <= at_ms);
    let may_be_gone = expiry_ms.is_some_and(|at_ms| window.latest_ms >= at_ms);
    let attempt = |state: &State| {
        let (change, reply) = execute(action, state.as_ref());
        observed.is_none_or(|answer| reply.agrees_with(answer, window)).then_some(change)
    };
    let alive = if may_live { attempt(state) } else { None };
    let gone = if may_be_gone { attempt(&None).map(|change| change.after_expiry()) } else { None };
    [alive, gone]
}

/// Whether a call with this answer cannot have changed the object, whatever it was, but by finding it expired.
pub(super) fn changed_nothing(action: &Action, answer: &Answer) -> bool {
    match (action, answer) {
        (Action::SetIfEqual { .. } | Action::GetDel, Answer::Nil) => true,
        (Action::SetIfAbsent { .. } | Action::Del | Action::ExpireAt { .. } | Action::Persist, Answer::Int(0)) => true,
        (_, Answer::Error(_)) => true,
        (action, _) => !action.is_write(),
    }
}

impl Change {
    fn after_expiry(self) -> Self {
        match self {
            Self::Keep => Self::Replace(None),
            replaced => replaced,
        }
    }
}

impl Reply<'_> {
    fn agrees_with(&self, observed: &Answer, window: Window) -> bool {
        match (self, observed) {
            (Self::Plain(expected), observed) => expected == observed,
            (Self::Erased { present }, Answer::Int(found)) => *found == 1 || *found == 0 && !present,
            (Self::Value(expected), Answer::Bytes(observed)) => *expected == &**observed,
            (Self::ExpiresAt(at_ms), Answer::Int(left_ms)) => {
                let now_ms = at_ms.saturating_sub(*left_ms);
                *left_ms >= 0 && (window.earliest_ms..=window.latest_ms).contains(&now_ms)
            }
            _ => false,
        }
    }
}

const PTTL_NO_EXPIRY: i64 = -1;
const PTTL_NO_OBJECT: i64 = -2;

fn execute<'a>(action: &Action, contents: Option<&'a Contents>) -> (Change, Reply<'a>) {
    let present = contents.is_some();
    let length = contents.map_or(0, |contents| contents.value.len()) as i64;
    let old = || contents.map_or(Reply::Plain(Answer::Nil), |contents| Reply::Value(&contents.value));
    match action {
        Action::Get => (Change::Keep, old()),
        Action::Exists => (Change::Keep, flag(present)),
        Action::Strlen => (Change::Keep, int(length)),
        Action::Pttl => (Change::Keep, time_left(contents)),
        Action::Set { value } => (put(value, None), Reply::Plain(Answer::Ok)),
        Action::SetExpiring { value, at_ms } => (put(value, Some(*at_ms)), Reply::Plain(Answer::Ok)),
        Action::SetIfAbsent { value } => (if present { Change::Keep } else { put(value, None) }, flag(!present)),
        Action::SetIfEqual { expected, value } => match contents {
            Some(contents) if contents.value == *expected => (put(value, None), Reply::Plain(Answer::Ok)),
            _ => (Change::Keep, Reply::Plain(Answer::Nil)),
        },
        Action::GetSet { value } => (put(value, None), old()),
        Action::Append { value } => append(contents, value),
        Action::IncrBy { delta } => incr_by(contents, *delta),
        Action::Del => (remove(present), flag(present)),
        Action::Erase => (remove(present), Reply::Erased { present }),
        Action::GetDel => (remove(present), old()),
        Action::ExpireAt { at_ms } => (set_expiry(contents, Some(*at_ms)), flag(present)),
        Action::Persist => {
            let expires = contents.is_some_and(|contents| contents.expires_at_ms.is_some());
            (if expires { set_expiry(contents, None) } else { Change::Keep }, flag(expires))
        }
    }
}

fn flag<'a>(set: bool) -> Reply<'a> {
    int(i64::from(set))
}

fn int<'a>(number: i64) -> Reply<'a> {
    Reply::Plain(Answer::Int(number))
}

fn put(value: &[u8], expires_at_ms: Option<i64>) -> Change {
    Change::Replace(Some(Contents { value: value.into(), expires_at_ms }))
}

fn remove(present: bool) -> Change {
    if present { Change::Replace(None) } else { Change::Keep }
}

fn time_left<'a>(contents: Option<&Contents>) -> Reply<'a> {
    match contents {
        None => int(PTTL_NO_OBJECT),
        Some(Contents { expires_at_ms: None, .. }) => int(PTTL_NO_EXPIRY),
        Some(Contents { expires_at_ms: Some(at_ms), .. }) => Reply::ExpiresAt(*at_ms),
    }
}

fn set_expiry(contents: Option<&Contents>, expires_at_ms: Option<i64>) -> Change {
    match contents {
        None => Change::Keep,
        Some(contents) => Change::Replace(Some(Contents { value: contents.value.clone(), expires_at_ms })),
    }
}

fn append<'a>(contents: Option<&Contents>, tail: &[u8]) -> (Change, Reply<'a>) {
    let head = contents.map_or(&[][..], |contents| &contents.value);
    let value = [head, tail].concat();
    let length = value.len() as i64;
    (put(&value, contents.and_then(|contents| contents.expires_at_ms)), int(length))
}

fn incr_by<'a>(contents: Option<&Contents>, delta: i64) -> (Change, Reply<'a>) {
    let refuse = |line: &str| (Change::Keep, Reply::Plain(Answer::Error(line.into())));
    let Some(number) = contents.map_or(Some(0), |contents| parse_integer(&contents.value)) else {
        return refuse("ERR value is not an integer or out of range");
    };
    let Some(sum) = number.checked_add(delta) else {
        return refuse("ERR increment or decrement would overflow");
    };
    let expires_at_ms = contents.and_then(|contents| contents.expires_at_ms);
    (put(sum.to_string().as_bytes(), expires_at_ms), int(sum))
}

/// A number as Redis takes it: no sign but a minus, no leading zeros, no spaces.
fn parse_integer(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALWAYS: Window = Window { earliest_ms: 0, latest_ms: 0 };

    fn contents(value: &str, expires_at_ms: Option<i64>) -> State {
        Some(Contents { value: value.as_bytes().into(), expires_at_ms })
    }

    #[test]
    fn an_expiry_ahead_is_alive_one_behind_is_gone_one_within_is_either() {
        let state = contents("a", Some(100));
        let get = |earliest_ms, latest_ms| {
            explain(&Action::Get, None, &state, Window { earliest_ms, latest_ms }).map(|change| change.is_some())
        };
        assert_eq!(get(10, 99), [true, false]);
        assert_eq!(get(101, 120), [false, true]);
        assert_eq!(get(90, 110), [true, true]);
    }

    #[test]
    fn pttl_must_fit_the_window() {
        let state = contents("a", Some(100));
        let pttl = |left_ms| {
            let window = Window { earliest_ms: 40, latest_ms: 60 };
            explain(&Action::Pttl, Some(&Answer::Int(left_ms)), &state, window)[0].is_some()
        };
        assert!(pttl(50) && pttl(40) && pttl(60));
        assert!(!pttl(39) && !pttl(61) && !pttl(PTTL_NO_EXPIRY));
    }

    #[test]
    fn numbers_are_taken_as_redis_takes_them() {
        for (text, number) in [("0", Some(0)), ("-7", Some(-7)), ("+7", None), ("07", None), ("", None), ("-0", None)] {
            assert_eq!(parse_integer(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn incr_keeps_the_expiry_and_set_removes_it() {
        let state = contents("1", Some(100));
        let [change, _] = explain(&Action::IncrBy { delta: 2 }, Some(&Answer::Int(3)), &state, ALWAYS);
        assert_eq!(change, Some(Change::Replace(contents("3", Some(100)))));
        let set = Action::Set { value: b"x"[..].into() };
        let [change, _] = explain(&set, Some(&Answer::Ok), &state, ALWAYS);
        assert_eq!(change, Some(Change::Replace(contents("x", None))));
    }
}
