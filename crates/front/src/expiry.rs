//! Expiry times as clients give them, made absolute with the entry node's time.

use quorate_resp::parse_integer;

use crate::refusal::Refusal;
use crate::specs::Spec;

/// How a client names a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeForm {
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
}

impl TimeForm {
    /// The form that an option such as `EX` names.
    pub(crate) fn of_option(word: &[u8]) -> Option<TimeForm> {
        if word.eq_ignore_ascii_case(b"EX") {
            Some(TimeForm::Seconds)
        } else if word.eq_ignore_ascii_case(b"PX") {
            Some(TimeForm::Milliseconds)
        } else if word.eq_ignore_ascii_case(b"EXAT") {
            Some(TimeForm::UnixSeconds)
        } else if word.eq_ignore_ascii_case(b"PXAT") {
            Some(TimeForm::UnixMilliseconds)
        } else {
            None
        }
    }

    /// The absolute time that `value` means; `None` if it overflows.
    fn absolute_ms(self, value: i64, now_ms: u64) -> Option<i64> {
        let milliseconds = match self {
            TimeForm::Seconds | TimeForm::UnixSeconds => value.checked_mul(1000)?,
            TimeForm::Milliseconds | TimeForm::UnixMilliseconds => value,
        };
        match self {
            TimeForm::Seconds | TimeForm::Milliseconds => milliseconds.checked_add(i64::try_from(now_ms).ok()?),
            TimeForm::UnixSeconds | TimeForm::UnixMilliseconds => Some(milliseconds),
        }
    }
}

/// The time of SET, GETEX and their relatives, which must be positive.
pub(crate) fn parse_expiry(spec: &Spec, form: TimeForm, word: &[u8], now_ms: u64) -> Result<i64, Refusal> {
    let value = parse_integer(word).ok_or(Refusal::NOT_AN_INTEGER)?;
    if value <= 0 {
        return Err(Refusal::invalid_expire_time(spec));
    }
    form.absolute_ms(value, now_ms).ok_or_else(|| Refusal::invalid_expire_time(spec))
}

/// The time of EXPIRE and its relatives, which may lie in the past.
pub(crate) fn parse_deadline(spec: &Spec, form: TimeForm, word: &[u8], now_ms: u64) -> Result<i64, Refusal> {
    let value = parse_integer(word).ok_or(Refusal::NOT_AN_INTEGER)?;
    form.absolute_ms(value, now_ms).ok_or_else(|| Refusal::invalid_expire_time(spec))
}
