//! The client's side: requests out, replies of both versions in.
//!
//! The reply parser keeps what it has built of a nested reply and gives the bytes back at once, so that it never begins
//! again; it holds a depth and lengths to their limits and allocates only for elements that have arrived.

use core::fmt;

use crate::integer::{parse_integer, write_integer};

/// Appends a request as every server takes it: an array of bulk strings.
pub fn write_request<T: AsRef<[u8]>>(out: &mut Vec<u8>, words: &[T]) {
    out.push(b'*');
    write_integer(out, words.len() as i64);
    out.extend_from_slice(b"\r\n");
    for word in words {
        let word = word.as_ref();
        out.push(b'$');
        write_integer(out, word.len() as i64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// One reply. Attributes are skipped; text that should be UTF-8 and is not is read lossily.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    Double(f64),
    Boolean(bool),
    BigNumber(String),
    Verbatim { format: String, text: Vec<u8> },
}

/// How large a reply may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    pub depth_max: usize,
    /// Bytes of one string.
    pub string_length_max: usize,
    /// Elements of one array, map or set.
    pub element_count_max: usize,
    /// Bytes of one line.
    pub line_length_max: usize,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        ReplyLimits {
            depth_max: 32,
            string_length_max: 512 << 20,
            element_count_max: 16 << 20,
            line_length_max: 64 << 10,
        }
    }
}

/// The server does not speak the protocol, or exceeds a limit; the connection cannot be used any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError {
    UnknownType(u8),
    MalformedLine(String),
    MissingLineEnd,
    LineTooLong,
    StringTooLong,
    TooManyElements,
    TooDeep,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::UnknownType(byte) => {
                write!(f, "the reply begins with '{}', which is no type of RESP", byte.escape_ascii())
            }
            ReplyError::MalformedLine(line) => write!(f, "the reply's line {line:?} is malformed"),
            ReplyError::MissingLineEnd => f.write_str("a string of the reply has no line end"),
            ReplyError::LineTooLong => f.write_str("a line of the reply is too long"),
            ReplyError::StringTooLong => f.write_str("a string of the reply is too long"),
            ReplyError::TooManyElements => f.write_str("the reply has too many elements"),
            ReplyError::TooDeep => f.write_str("the reply is nested too deeply"),
        }
    }
}

impl std::error::Error for ReplyError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

/// A nested value of which elements are missing.
#[derive(Debug)]
struct Partial {
    kind: Kind,
    missing: usize,
    elements: Vec<Value>,
}

/// What stands at the start of the buffer.
enum Item {
    Whole(Value),
    Nested(Kind, usize),
}

/// Finds the replies in what a server sends.
#[derive(Debug, Default)]
pub struct ReplyParser {
    limits: ReplyLimits,
    stack: Vec<Partial>,
}

impl ReplyParser {
    #[must_use]
    pub fn new(limits: ReplyLimits) -> ReplyParser {
        ReplyParser { limits, stack: Vec::new() }
    }

    /// Takes what it can from `buffer` and returns how many bytes that was, which must not be shown again, and a reply if
    /// one is whole. Call it until it returns none.
    ///
    /// # Errors
    /// What the server did wrong. The parser must not be used for this connection again.
    pub fn parse(&mut self, buffer: &[u8]) -> Result<(usize, Option<Value>), ReplyError> {
        let mut consumed = 0;
        while let Some((item, length)) = self.parse_item(&buffer[consumed..])? {
            consumed += length;
            let whole = match item {
                Item::Whole(value) => self.add(value),
                Item::Nested(kind, missing) => {
                    if self.stack.len() >= self.limits.depth_max {
                        return Err(ReplyError::TooDeep);
                    }
                    self.stack.push(Partial { kind, missing, elements: Vec::new() });
                    self.close_full()
                }
            };
            if whole.is_some() {
                return Ok((consumed, whole));
            }
        }
        Ok((consumed, None))
    }

    /// Puts a value where it belongs; returns it if it belongs to nothing, being a whole reply.
    fn add(&mut self, value: Value) -> Option<Value> {
        match self.stack.last_mut() {
            None => Some(value),
            Some(partial) => {
                partial.elements.push(value);
                partial.missing -= 1;
                self.close_full()
            }
        }
    }

    fn close_full(&mut self) -> Option<Value> {
        while let Some(partial) = self.stack.pop_if(|partial| partial.missing == 0) {
            let value = match partial.kind {
                Kind::Array => Value::Array(partial.elements),
                Kind::Set => Value::Set(partial.elements),
                Kind::Push => Value::Push(partial.elements),
                Kind::Map => Value::Map(pairs(partial.elements)),
                // An attribute precedes the value that it describes and counts as nothing.
                Kind::Attribute => continue,
            };
            match self.stack.last_mut() {
                None => return Some(value),
                Some(outer) => {
                    outer.elements.push(value);
                    outer.missing -= 1;
                }
            }
        }
        None
    }

    fn parse_item(&self, buffer: &[u8]) -> Result<Option<(Item, usize)>, ReplyError> {
        let Some(line_end) = buffer.windows(2).position(|pair| pair == b"\r\n") else {
            // What may turn out to be half of the line's end is no part of it.
            let line = buffer.strip_suffix(b"\r").unwrap_or(buffer);
            return if self.is_too_long(line) { Err(ReplyError::LineTooLong) } else { Ok(None) };
        };
        let (line, length) = (&buffer[..line_end], line_end + 2);
        if self.is_too_long(line) {
            return Err(ReplyError::LineTooLong);
        }
        let Some((&kind, text)) = line.split_first() else {
            return Err(ReplyError::MalformedLine(String::new()));
        };
        let value = match kind {
            b'+' => Value::Simple(lossy(text)),
            b'-' => Value::Error(lossy(text)),
            b':' => Value::Integer(parse_number(line, text)?),
            b'(' => Value::BigNumber(lossy(text)),
            b',' => Value::Double(parse_double(text).ok_or_else(|| malformed(line))?),
            b'#' if text == b"t" => Value::Boolean(true),
            b'#' if text == b"f" => Value::Boolean(false),
            b'_' if text.is_empty() => Value::Null,
            b'#' | b'_' => return Err(malformed(line)),
            b'$' | b'=' | b'!' => return self.parse_string(kind, line, &buffer[length..], length),
            b'*' | b'%' | b'~' | b'>' | b'|' => return self.parse_nested(kind, line, length),
            other => return Err(ReplyError::UnknownType(other)),
        };
        Ok(Some((Item::Whole(value), length)))
    }

    fn is_too_long(&self, line: &[u8]) -> bool {
        line.len() > self.limits.line_length_max
    }

    fn parse_string(
        &self,
        kind: u8,
        line: &[u8],
        rest: &[u8],
        line_length: usize,
    ) -> Result<Option<(Item, usize)>, ReplyError> {
        let declared = parse_number(line, &line[1..])?;
        if declared == -1 {
            return Ok(Some((Item::Whole(Value::Null), line_length)));
        }
        let length = usize::try_from(declared).map_err(|_| malformed(line))?;
        if length > self.limits.string_length_max {
            return Err(ReplyError::StringTooLong);
        }
        let Some((bytes, end)) = rest.get(..length + 2).map(|bytes| bytes.split_at(length)) else {
            return Ok(None);
        };
        if end != b"\r\n" {
            return Err(ReplyError::MissingLineEnd);
        }
        let value = match (kind, bytes) {
            (b'!', _) => Value::Error(lossy(bytes)),
            (b'=', [a, b, c, b':', text @ ..]) => Value::Verbatim { format: lossy(&[*a, *b, *c]), text: text.to_vec() },
            (b'=', _) => return Err(malformed(line)),
            _ => Value::Bulk(bytes.to_vec()),
        };
        Ok(Some((Item::Whole(value), line_length + length + 2)))
    }

    fn parse_nested(&self, kind: u8, line: &[u8], line_length: usize) -> Result<Option<(Item, usize)>, ReplyError> {
        let declared = parse_number(line, &line[1..])?;
        if declared == -1 {
            return Ok(Some((Item::Whole(Value::Null), line_length)));
        }
        let count = usize::try_from(declared).map_err(|_| malformed(line))?;
        if count > self.limits.element_count_max {
            return Err(ReplyError::TooManyElements);
        }
        let (kind, missing) = match kind {
            b'%' => (Kind::Map, count * 2),
            b'|' => (Kind::Attribute, count * 2),
            b'~' => (Kind::Set, count),
            b'>' => (Kind::Push, count),
            _ => (Kind::Array, count),
        };
        Ok(Some((Item::Nested(kind, missing), line_length)))
    }
}

fn pairs(elements: Vec<Value>) -> Vec<(Value, Value)> {
    let mut elements = elements.into_iter();
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn malformed(line: &[u8]) -> ReplyError {
    ReplyError::MalformedLine(lossy(line))
}

fn parse_number(line: &[u8], text: &[u8]) -> Result<i64, ReplyError> {
    parse_integer(text).ok_or_else(|| malformed(line))
}

fn parse_double(text: &[u8]) -> Option<f64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}
