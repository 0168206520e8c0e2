//! Inline requests: a line of words with Redis's quoting, for people with `telnet`.
//!
//! Words are unquoted in place, which always fits, because a quoted word is never shorter than what it stands for.

use crate::request::Span;

/// The line's quotes do not match, or a closing quote is followed by something other than space.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnbalancedQuotes;

/// Splits `line` (without its line end) into words, unquotes them in place and appends their places to `spans`.
pub(crate) fn split_words(line: &mut [u8], spans: &mut Vec<Span>) -> Result<(), UnbalancedQuotes> {
    let mut read = 0;
    let mut write = 0;
    loop {
        while line.get(read).is_some_and(|&byte| is_space(byte)) {
            read += 1;
        }
        // Redis handles the line as a C string: a NUL ends it.
        if matches!(line.get(read), None | Some(0)) {
            return Ok(());
        }
        let start = write;
        let word_end = unquote_word(line, read, &mut write)?;
        spans.push(Span::new(start, write - start));
        read = word_end;
    }
}

/// Moves one word that begins at `read` to `write`, without its quotes and escapes, and returns where it ended.
fn unquote_word(line: &mut [u8], mut read: usize, write: &mut usize) -> Result<usize, UnbalancedQuotes> {
    loop {
        match line.get(read) {
            None | Some(0 | b' ' | b'\n' | b'\r' | b'\t') => return Ok(read),
            Some(b'"') => {
                read = unquote_double(line, read + 1, write)?;
                return end_of_quote(line, read);
            }
            Some(b'\'') => {
                read = unquote_single(line, read + 1, write)?;
                return end_of_quote(line, read);
            }
            Some(&byte) => {
                put(line, write, byte);
                read += 1;
            }
        }
    }
}

/// Unquotes up to the closing double quote and returns the position after it.
fn unquote_double(line: &mut [u8], mut read: usize, write: &mut usize) -> Result<usize, UnbalancedQuotes> {
    loop {
        let (byte, length) = match line[read.min(line.len())..] {
            [b'"', ..] => return Ok(read + 1),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_digit(high) << 4 | hex_digit(low), 4)
            }
            [b'\\', escaped, ..] if escaped != 0 => (unescape(escaped), 2),
            [] | [0, ..] => return Err(UnbalancedQuotes),
            [byte, ..] => (byte, 1),
        };
        put(line, write, byte);
        read += length;
    }
}

/// Unquotes up to the closing single quote, where only the quote itself can be escaped.
fn unquote_single(line: &mut [u8], mut read: usize, write: &mut usize) -> Result<usize, UnbalancedQuotes> {
    loop {
        let (byte, length) = match line[read.min(line.len())..] {
            [b'\'', ..] => return Ok(read + 1),
            [b'\\', b'\'', ..] => (b'\'', 2),
            [] | [0, ..] => return Err(UnbalancedQuotes),
            [byte, ..] => (byte, 1),
        };
        put(line, write, byte);
        read += length;
    }
}

/// A closing quote must be followed by space or the end of the line.
fn end_of_quote(line: &[u8], read: usize) -> Result<usize, UnbalancedQuotes> {
    match line.get(read) {
        None | Some(0) => Ok(read),
        Some(&byte) if is_space(byte) => Ok(read),
        Some(_) => Err(UnbalancedQuotes),
    }
}

fn put(line: &mut [u8], write: &mut usize, byte: u8) {
    line[*write] = byte;
    *write += 1;
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// C's `isspace`, which Rust's `is_ascii_whitespace` is not: it has the vertical tab too.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
        let mut line = line.to_vec();
        let mut spans = Vec::new();
        split_words(&mut line, &mut spans)?;
        Ok(spans.iter().map(|span| span.of(&line).to_vec()).collect())
    }

    #[test]
    fn words_are_split_at_space() {
        assert_eq!(words(b"").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(words(b" \t ").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(words(b"ping").unwrap(), [b"ping"]);
        assert_eq!(words(b"  set\tkey  value ").unwrap(), [&b"set"[..], b"key", b"value"]);
        assert_eq!(words(b"a\x0bb \x0bc").unwrap(), [&b"a\x0bb"[..], b"c"]);
        assert_eq!(words(b"ping a\0b c").unwrap(), [&b"ping"[..], b"a"]);
    }

    #[test]
    fn quotes_and_escapes() {
        assert_eq!(words(br#""a b" 'c d' "" ''"#).unwrap(), [&b"a b"[..], b"c d", b"", b""]);
        assert_eq!(words(br#""\x41\n\r\t\b\a\q\"\\""#).unwrap(), [b"A\n\r\t\x08\x07q\"\\"]);
        assert_eq!(words(br#""\xzz\x4" next"#).unwrap(), [&b"xzzx4"[..], b"next"]);
        assert_eq!(words(br"'a\'b\n'").unwrap(), [br"a'b\n"]);
        assert_eq!(words(br#"a"b c"'"#), Err(UnbalancedQuotes));
        assert_eq!(words(br#"a"b c" d'e'"#).unwrap(), [&b"ab c"[..], b"de"]);
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [&br#""a"#[..], b"'a", br#""a"b"#, b"'a'b", b"\"a\\", b"\"a\0\"", b"a\"b"] {
            assert_eq!(words(line), Err(UnbalancedQuotes), "{}", line.escape_ascii());
        }
    }
}
