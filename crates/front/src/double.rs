//! Doubles as Redis reads them where it asks C for one: decimal, hexadecimal and infinite ones, in any case of letters.

use crate::refusal::c_string;

/// A score: what is too large for a double or too small is none.
pub(crate) fn parse_double(word: &[u8]) -> Option<f64> {
    read(word).filter(|read| !read.out_of_range).map(|read| read.value)
}

/// The bound of a range, which is taken less strictly: nothing at all is 0, what is too large is infinite and what is too small
/// 0, spaces before it and what follows a NUL do not matter.
pub(crate) fn parse_lenient_double(word: &[u8]) -> Option<f64> {
    let word = c_string(word, usize::MAX);
    let is_space = |byte: &u8| b" \t\n\x0b\x0c\r".contains(byte);
    match word.iter().position(|byte| !is_space(byte)) {
        None if word.is_empty() => Some(0.0),
        None => None,
        Some(start) => read(&word[start..]).map(|read| read.value),
    }
}

struct Read {
    value: f64,
    /// Digits that came to infinity, or to 0 though they are not.
    out_of_range: bool,
}

/// No NaN.
fn read(word: &[u8]) -> Option<Read> {
    let text = core::str::from_utf8(word).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let hexadecimal = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X"));
    let (value, digits) = match hexadecimal {
        Some(digits) => (read_hexadecimal(digits)?, digits.split(['p', 'P']).next()?),
        None => (unsigned.parse().ok()?, unsigned.split(['e', 'E']).next()?),
    };
    // Rust takes a sign of its own.
    if unsigned.starts_with(['+', '-']) || value.is_nan() {
        return None;
    }
    let is_nothing = digits.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let is_infinity = !digits.bytes().any(|byte| byte.is_ascii_digit()) && hexadecimal.is_none();
    let out_of_range = value == 0.0 && !is_nothing || value.is_infinite() && !is_infinity;
    Some(Read { value: if text.starts_with('-') { -value } else { value }, out_of_range })
}

/// Digits with a point or without, and perhaps `p` and a power of 2: rounded to the nearest double, half to even.
fn read_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, power) = match text.split_once(['p', 'P']) {
        Some((mantissa, power)) => (mantissa, read_power(power)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The number is (bits + something below 1, if it is inexact) * 2^exponent.
    let (mut bits, mut inexact) = (0_u64, false);
    let mut exponent = power.saturating_sub(4 * fraction.len() as i64);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if bits >> 58 == 0 {
            bits = bits << 4 | digit;
        } else {
            inexact |= digit != 0;
            exponent = exponent.saturating_add(4);
        }
    }
    Some(scaled(bits, inexact, exponent))
}

/// As many digits as one likes.
fn read_power(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let beyond = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Some(text.parse().unwrap_or(beyond))
}

fn scaled(bits: u64, inexact: bool, exponent: i64) -> f64 {
    /// The exponents of the last bit of the smallest doubles, and of the largest ones.
    const LOWEST: i64 = -1074;
    const HIGHEST: i64 = 971;
    if bits == 0 {
        return 0.0;
    }
    // A double has 53 bits, fewer if they would be below the lowest.
    let length = 64 - i64::from(bits.leading_zeros());
    let last = exponent.saturating_add(length - 53).max(LOWEST);
    let dropped = last.saturating_sub(exponent);
    let kept = match dropped {
        ..=0 => bits << -dropped,
        65.. => 0,
        dropped => {
            let rest = u128::from(bits) & ((1 << dropped) - 1);
            let half = 1_u128 << (dropped - 1);
            let kept = (u128::from(bits) >> dropped) as u64;
            let up = rest > half || rest == half && (inexact || kept % 2 == 1);
            kept + u64::from(up)
        }
    };
    // Both factors are exact, and so is their product, unless it is too large.
    match last {
        _ if kept == 0 => 0.0,
        ..=HIGHEST => (kept as f64) * 2_f64.powi((last / 2) as i32) * 2_f64.powi((last - last / 2) as i32),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_double, parse_lenient_double};

    #[test]
    fn doubles_are_read_as_by_c() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("-.5", Some(-0.5)),
            ("+5.e1", Some(50.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("2.5e-324", Some(5e-324)),
            ("0e-9999999999999999999", Some(0.0)),
            ("1e308", Some(1e308)),
            ("1e309", None),
            ("2e-324", None),
            ("1e-99999999999999999999", None),
            ("nan", None),
            ("-nan", None),
            ("", None),
            ("+", None),
            ("+-1", None),
            ("--1", None),
            ("+inf", Some(f64::INFINITY)),
            (" 1", None),
            ("1 ", None),
            ("1\0", None),
            ("1e", None),
            (".", None),
            ("infinit", None),
            ("1_0", None),
            ("0x", None),
            ("0x.", None),
            ("0xg", None),
            ("0x1p", None),
            ("0x1p+", None),
            ("0x1p1.", None),
            ("0x1.2.3", None),
            ("0x10", Some(16.0)),
            ("-0X.8P+1", Some(-1.0)),
            ("0xA.8", Some(10.5)),
            ("0x1p-1074", Some(5e-324)),
            ("0x1p-1075", None),
            ("0x1.8p-1075", Some(5e-324)),
            ("0x3p-1075", Some(1e-323)),
            ("0x1.fffffffffffffp1023", Some(f64::MAX)),
            ("0x1.fffffffffffff7p1023", Some(f64::MAX)),
            ("0x1.fffffffffffff8p1023", None),
            ("0x1p1024", None),
            ("0x20000000000001", Some(9_007_199_254_740_992.0)),
            ("0x20000000000003", Some(9_007_199_254_740_996.0)),
            ("0x2000000000000100000000000", Some(1.584_563_250_285_286_8e29)),
            ("0x2000000000000100000000001", Some(1.584_563_250_285_287e29)),
            ("0x0p99999999999999999999", Some(0.0)),
            ("0x1p99999999999999999999", None),
            ("0x1p-99999999999999999999", None),
            ("0x1.0000000000000000000000000p0", Some(1.0)),
        ] {
            assert_eq!(parse_double(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(parse_double(b"\xff"), None);
        assert_eq!(parse_double(b"-0").map(f64::to_bits), Some((-0.0_f64).to_bits()));
    }

    #[test]
    fn bounds_are_read_less_strictly() {
        for (text, expected) in [
            ("", Some(0.0)),
            (" ", None),
            (" \t1", Some(1.0)),
            ("1 ", None),
            ("1\0x", Some(1.0)),
            ("\0", Some(0.0)),
            ("1e309", Some(f64::INFINITY)),
            ("-0x1p9999", Some(f64::NEG_INFINITY)),
            ("1e-400", Some(0.0)),
            ("nan", None),
            ("x", None),
        ] {
            assert_eq!(parse_lenient_double(text.as_bytes()), expected, "{text:?}");
        }
    }
}
