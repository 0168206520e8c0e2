//! Numbers written as text: what INCRBY and INCRBYFLOAT take for a number, and how they write their result.
//!
//! Redis adds floats as the machine's long doubles and prints 17 places. Here decimals are added exactly, in units of 10^-17,
//! and results too large for that (beyond 10^21) as `f64`. So common sums (0.1 + 0.2) read as in Redis, every machine computes
//! the same, and the digits of a long double's rounding error (Redis: 7000 + 73.2 is 7073.20000000000000018) are not
//! reproduced. Hexadecimal floats and numbers beyond `f64` are refused, and those so small that a long double has no place for
//! them, as by Redis.

/// Places after the decimal point that a result may have.
const PLACES: u32 = 17;

/// The longest text that is taken for a float, as in Redis.
const FLOAT_BYTES_MAX: usize = 5 * 1024;

/// The decimal exponent of the smallest long double.
const EXPONENT_MIN: i64 = -4951;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatError {
    NotAFloat,
    NanOrInfinity,
}

/// The integer that `text` is the one canonical spelling of: no sign for 0, no `+`, no leading zeros or spaces.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match *digits {
        [b'0'] if digits.len() == text.len() => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// The text of `text + delta`.
pub(crate) fn add_float(text: &[u8], delta: f64) -> Result<String, FloatError> {
    if text.len() > FLOAT_BYTES_MAX {
        return Err(FloatError::NotAFloat);
    }
    let text = str::from_utf8(text).map_err(|_| FloatError::NotAFloat)?;
    let value: f64 = text.parse().map_err(|_| FloatError::NotAFloat)?;
    // Infinity is a float, but digits that come to infinity are none.
    if value.is_nan()
        || float_vanishes(text)
        || (value.is_infinite() && text.contains(|byte: char| byte.is_ascii_digit()))
    {
        return Err(FloatError::NotAFloat);
    }
    let sum = value + delta;
    if !sum.is_finite() {
        return Err(FloatError::NanOrInfinity);
    }
    // The shortest decimal that reads as `delta` is what the client wrote, up to 15 digits.
    let exact = parse_decimal(text).zip(parse_decimal(&format!("{delta:e}")));
    Ok(match exact.and_then(|(value, delta)| value.checked_add(delta)) {
        Some(sum) => print_decimal(sum),
        None => format!("{sum}"),
    })
}

/// Whether the text of a float has digits that are not 0 and yet, as a long double, no value but 0.
#[must_use]
pub fn float_vanishes(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = mantissa.trim_start_matches(['+', '-']);
    let point = digits.find('.').unwrap_or(digits.len()) as i64;
    let Some(first) = digits.find(|digit: char| matches!(digit, '1'..='9')) else { return false };
    let first = first as i64;
    let place = if first < point { point - first - 1 } else { point - first };
    let beyond = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
    place.saturating_add(exponent.parse().unwrap_or(beyond)) < EXPONENT_MIN
}

/// A float's text in units of 10^-17, rounded half to even; `None` if it has too many digits for an `i128`.
fn parse_decimal(text: &str) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let negative = mantissa.starts_with('-');
    let mantissa = mantissa.trim_start_matches(['+', '-']);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut units: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let digit = digit.is_ascii_digit().then(|| i128::from(digit - b'0'))?;
        units = units.checked_mul(10)?.checked_add(digit)?;
    }
    let shift = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(i64::from(PLACES))?;
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|places| 10_i128.checked_pow(places));
    let units = match power {
        _ if units == 0 => 0,
        Some(power) if shift >= 0 => units.checked_mul(power)?,
        Some(power) => divide_half_even(units, power),
        None if shift >= 0 => return None,
        // Less than half of a unit.
        None => 0,
    };
    Some(if negative { -units } else { units })
}

/// For `units >= 0` and `divisor > 1`.
fn divide_half_even(units: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (units / divisor, units % divisor);
    let up = match remainder.cmp(&(divisor - remainder)) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient % 2 == 1,
        std::cmp::Ordering::Greater => true,
    };
    quotient + i128::from(up)
}

/// A double as C prints it with `%.17g`, so that it reads back as the same.
#[must_use]
pub fn double_text(value: f64) -> String {
    const DIGITS: i32 = 17;
    if !value.is_finite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let scientific = format!("{:.16e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.replace('.', "");
    let (whole, fraction) = match exponent {
        0..DIGITS => {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            (whole, fraction.to_owned())
        }
        -4..0 => ("0", "0".repeat(-exponent as usize - 1) + &digits),
        _ => (&digits[..1], digits[1..].to_owned()),
    };
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let power = match exponent {
        -4..DIGITS => String::new(),
        _ => format!("e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    };
    format!("{sign}{whole}{point}{fraction}{power}")
}

fn print_decimal(units: i128) -> String {
    let one = 10_u128.pow(PLACES);
    let (whole, fraction) = (units.unsigned_abs() / one, units.unsigned_abs() % one);
    let sign = if units < 0 { "-" } else { "" };
    if fraction == 0 {
        return format!("{sign}{whole}");
    }
    let fraction = format!("{fraction:0width$}", width = PLACES as usize);
    format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::{FloatError, add_float, double_text, parse_integer};

    #[test]
    fn integers_have_one_spelling() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            ("", None),
            ("-", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
            ("1.0", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn floats_are_added_and_printed_as_in_redis() {
        for (text, delta, expected) in [
            ("10.50", 0.1, "10.6"),
            ("10.6", -5.0, "5.6"),
            ("5.0e3", 2.0e2, "5200"),
            ("0", 0.1, "0.1"),
            ("0.1", 0.2, "0.3"),
            ("3", 1.1, "4.1"),
            ("-1.5", 1.5, "0"),
            ("-0.0", 0.0, "0"),
            ("1", 1e-18, "1"),
            ("0", -1e-17, "-0.00000000000000001"),
            (".5", 0.25, "0.75"),
            ("5.", 0.0, "5"),
            ("+5", 1.0, "6"),
            ("9007199254740993", 2.0, "9007199254740995"),
            ("17179869184", 1.5, "17179869185.5"),
            ("1e21", 1.0, "1000000000000000000001"),
            ("1e23", 0.0, "100000000000000000000000"),
            ("1e-400", 1.0, "1"),
            ("1e-4951", 1.0, "1"),
            ("0.1e-4950", 1.0, "1"),
            ("100e-4953", 1.0, "1"),
            ("0e-99999999999999999999", 1.0, "1"),
        ] {
            assert_eq!(add_float(text.as_bytes(), delta).as_deref(), Ok(expected), "{text:?} + {delta}");
        }
    }

    #[test]
    fn what_is_no_float_is_refused() {
        let vanishing = ["1e-4952", "-1e-1772036854775807", "1e-99999999999999999999", "0.01e-4950"];
        for text in ["", " 1", "1 ", "abc", "nan", "1e", "1e5x", "--1", "0x10", "1e999"].into_iter().chain(vanishing) {
            assert_eq!(add_float(text.as_bytes(), 1.0), Err(FloatError::NotAFloat), "{text:?}");
        }
        assert_eq!(add_float(&b"1".repeat(6000), 1.0), Err(FloatError::NotAFloat));
        assert_eq!(add_float(b"\xff", 1.0), Err(FloatError::NotAFloat));
        for (text, delta) in [("inf", 1.0), ("1", f64::INFINITY), ("inf", f64::NEG_INFINITY), ("1e308", 1.7e308)] {
            assert_eq!(add_float(text.as_bytes(), delta), Err(FloatError::NanOrInfinity), "{text:?} + {delta}");
        }
    }

    #[test]
    #[allow(clippy::excessive_precision, reason = "some are half between two decimals")]
    fn doubles_are_printed_as_by_c() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (100.0, "100"),
            (0.1, "0.10000000000000001"),
            (-2.5, "-2.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e20, "1e+20"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1.0000000000000001e-17, "1.0000000000000001e-17"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            // Half between two: to the even digit.
            (562_949_953_421_312.125, "562949953421312.12"),
            (562_949_953_421_312.375, "562949953421312.38"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "4.9406564584124654e-324"),
            (9.999_999_999_999_999e22, "9.9999999999999992e+22"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(double_text(value), expected);
        }
    }
}
