//! Decimal integers exactly as Redis takes and prints them.

/// Parses what Redis's `string2ll` accepts: an optional minus and digits without leading zeros, and nothing else.
/// `+1`, ` 1`, `01`, `-0` and the empty string are not integers.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    // Counting downwards reaches i64::MIN without overflowing on the way.
    let mut value: i64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// Longest decimal form: `-9223372036854775808`.
const DECIMAL_LENGTH_MAX: usize = 20;

/// Appends the decimal form of `value` without going through the formatting machinery.
pub(crate) fn write_integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0u8; DECIMAL_LENGTH_MAX];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_redis_accepts() {
        for value in [0, 1, -1, 10, 907, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(parse_integer(value.to_string().as_bytes()), Some(value));
        }
    }

    #[test]
    fn refuses_what_redis_refuses() {
        for text in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "-01",
            "0x1",
            "1.0",
            "a",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn prints_what_it_parses() {
        for value in [0, 7, -7, 10, 1234567890, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_integer(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }
}
