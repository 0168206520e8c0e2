//! What clients send: arrays of bulk strings, or inline lines.
//!
//! The parser promises that arguments are slices of the caller's buffer (nothing is copied), that bytes once understood
//! are not looked at again however slowly the rest arrives, that nothing is allocated for a length that was only declared,
//! and that it allocates nothing at all once its list of spans has grown to what the connection uses.
//! Leniencies are Redis's own: what follows a carriage return, or the bytes of an argument, is skipped unread.

use core::fmt;
use core::ops::Index;

use crate::inline;
use crate::integer::parse_integer;

/// How large a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of one argument.
    pub argument_length_max: usize,
    /// Arguments of one request.
    pub argument_count_max: usize,
    /// Bytes of an inline request, and of the line that declares a length.
    pub line_length_max: usize,
    /// Bytes of one request with all its arguments.
    pub request_length_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
            argument_length_max: 16 << 20,
            argument_count_max: 1 << 20,
            line_length_max: 64 << 10,
            request_length_max: 32 << 20,
        }
    }
}

/// Arguments of a request of a guest: a client that has not shown yet that it may use the server.
pub const GUEST_ARGUMENT_COUNT_MAX: usize = 10;
/// Bytes of one argument of a guest's.
pub const GUEST_ARGUMENT_LENGTH_MAX: usize = 16 << 10;

/// The client does not speak the protocol, or exceeds a limit; the connection cannot be used any further.
/// Displays as Redis's words, which belong behind `-ERR `.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    MultibulkLength,
    MultibulkLineLength,
    GuestMultibulkLength,
    BulkLength,
    GuestBulkLength,
    BulkLineLength,
    BulkExpected { found: u8 },
    UnbalancedQuotes,
    InlineLength,
    RequestLength,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            ProtocolError::MultibulkLength => f.write_str("invalid multibulk length"),
            ProtocolError::MultibulkLineLength => f.write_str("too big mbulk count string"),
            ProtocolError::GuestMultibulkLength => f.write_str("unauthenticated multibulk length"),
            ProtocolError::GuestBulkLength => f.write_str("unauthenticated bulk length"),
            ProtocolError::BulkLength => f.write_str("invalid bulk length"),
            ProtocolError::BulkLineLength => f.write_str("too big bulk count string"),
            // A line end would break the reply's own line; Redis prints a space too.
            ProtocolError::BulkExpected { found: b'\r' | b'\n' } => f.write_str("expected '$', got ' '"),
            ProtocolError::BulkExpected { found } => {
                write!(f, "expected '$', got '{}'", char::from(*found))
            }
            ProtocolError::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            ProtocolError::InlineLength => f.write_str("too big inline request"),
            ProtocolError::RequestLength => f.write_str("too big request"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Where an argument lies, counted from the request's first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    length: u32,
}

impl Span {
    pub(crate) fn new(start: usize, length: usize) -> Span {
        // Requests end far below 4 GiB: `RequestParser::new` caps the limit.
        Span { start: start as u32, length: length as u32 }
    }

    pub(crate) fn of(self, request: &[u8]) -> &[u8] {
        &request[self.start as usize..][..self.length as usize]
    }
}

/// A request that is kept for later.
#[derive(Debug)]
pub struct Request {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Request {
    #[must_use]
    pub fn arguments(&self) -> Arguments<'_> {
        Arguments { request: &self.bytes, spans: &self.spans }
    }
}

/// The arguments of one request, the command's name first.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    request: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument with this number, for as long as the buffer lives.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.request))
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let request = self.request;
        self.spans.iter().map(move |span| span.of(request))
    }

    /// A copy of them, for when the buffer is used for something else.
    #[must_use]
    pub fn to_request(&self) -> Request {
        let mut request = Request { bytes: Vec::new(), spans: Vec::with_capacity(self.len()) };
        for word in self.iter() {
            request.spans.push(Span::new(request.bytes.len(), word.len()));
            request.bytes.extend_from_slice(word);
        }
        request
    }

    /// The arguments from number `first` on.
    #[must_use]
    pub fn from(&self, first: usize) -> Arguments<'a> {
        let first = first.min(self.spans.len());
        Arguments { request: self.request, spans: &self.spans[first..] }
    }
}

impl Index<usize> for Arguments<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        self.spans[index].of(self.request)
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|argument| argument.escape_ascii().to_string())).finish()
    }
}

/// What the parser waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// The first byte of a request.
    Request,
    /// `*` and a number, or an inline line.
    FirstLine,
    /// `$` and a number.
    BulkLine,
    /// An argument of this many bytes and its line end.
    Bulk { length: usize },
}

/// Spans kept allocated between requests; what a huge request needed is given back.
const SPANS_KEPT: usize = 1024;

/// Finds the requests in a connection's bytes.
///
/// `parse` is called with a buffer that begins at the first byte of a request. While it answers `None`, call it again with
/// the same bytes and more behind them. Once it has answered a length, the request's arguments are `arguments(buffer)`,
/// and the next call is for the request that begins that many bytes later.
#[derive(Debug)]
pub struct RequestParser {
    limits: RequestLimits,
    is_guest: bool,
    awaited: Awaited,
    /// Bytes of the current request that are understood.
    position: usize,
    /// Bytes behind `position` in which no line end was found.
    scanned: usize,
    arguments_missing: usize,
    spans: Vec<Span>,
}

impl Default for RequestParser {
    fn default() -> Self {
        RequestParser::new(RequestLimits::default())
    }
}

impl RequestParser {
    #[must_use]
    pub fn new(limits: RequestLimits) -> RequestParser {
        let request_length_max = limits.request_length_max.min(u32::MAX as usize);
        RequestParser {
            limits: RequestLimits { request_length_max, ..limits },
            is_guest: false,
            awaited: Awaited::Request,
            position: 0,
            scanned: 0,
            arguments_missing: 0,
            spans: Vec::new(),
        }
    }

    /// Holds the requests from the next one on to the narrower limits of guests, or no longer.
    pub fn set_guest(&mut self, is_guest: bool) {
        self.is_guest = is_guest;
    }

    /// Looks for one whole request at the start of `buffer` and returns its length.
    ///
    /// A request without arguments (an empty line, `*0`) is a request too, to be skipped. Inline words are unquoted in
    /// place, hence the `mut`; bytes behind the request stay as they are.
    ///
    /// # Errors
    /// What the client did wrong. The parser must not be used for this connection again.
    pub fn parse(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(&first) = buffer.first() else {
            return Ok(None);
        };
        if self.awaited == Awaited::Request {
            self.begin();
        }
        if self.awaited == Awaited::FirstLine && first != b'*' {
            return self.parse_inline(buffer);
        }
        let complete = self.parse_multibulk(buffer)?;
        if self.position + self.awaited_length() > self.limits.request_length_max {
            return Err(ProtocolError::RequestLength);
        }
        Ok(complete.then(|| self.complete()))
    }

    /// The arguments of the request whose length `parse` has just answered, in the same buffer.
    #[must_use]
    pub fn arguments<'a>(&'a self, buffer: &'a [u8]) -> Arguments<'a> {
        debug_assert_eq!(self.awaited, Awaited::Request, "asked for arguments of a partial request");
        Arguments { request: buffer, spans: &self.spans }
    }

    fn begin(&mut self) {
        self.spans.clear();
        self.spans.shrink_to(SPANS_KEPT);
        self.position = 0;
        self.scanned = 0;
        self.awaited = Awaited::FirstLine;
    }

    fn complete(&mut self) -> usize {
        self.awaited = Awaited::Request;
        self.position
    }

    /// Bytes that the request is known to need behind `position`.
    fn awaited_length(&self) -> usize {
        match self.awaited {
            Awaited::Bulk { length } => length,
            _ => self.scanned,
        }
    }

    fn parse_inline(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(offset) = position_of(b'\n', &buffer[self.scanned..]) else {
            // What may turn out to be half of the line's end is no part of it.
            let line = buffer.strip_suffix(b"\r").unwrap_or(buffer);
            if line.len() > self.limits.line_length_max {
                return Err(ProtocolError::InlineLength);
            }
            self.scanned = buffer.len();
            return Ok(None);
        };
        let line_end = self.scanned + offset;
        let mut line = &mut buffer[..line_end];
        if let [rest @ .., b'\r'] = line {
            line = rest;
        }
        if line.len() > self.limits.line_length_max {
            return Err(ProtocolError::InlineLength);
        }
        inline::split_words(line, &mut self.spans)
            .map_err(|inline::UnbalancedQuotes| ProtocolError::UnbalancedQuotes)?;
        self.position = line_end + 1;
        Ok(Some(self.complete()))
    }

    /// Understands as much as there is. True once the request is whole.
    fn parse_multibulk(&mut self, buffer: &[u8]) -> Result<bool, ProtocolError> {
        if self.awaited == Awaited::FirstLine {
            let Some(count) = self.take_first_line(buffer)? else {
                return Ok(false);
            };
            self.arguments_missing = count;
            if self.arguments_missing > self.limits.argument_count_max {
                return Err(ProtocolError::MultibulkLength);
            }
            if self.is_guest && self.arguments_missing > GUEST_ARGUMENT_COUNT_MAX {
                return Err(ProtocolError::GuestMultibulkLength);
            }
            self.awaited = Awaited::BulkLine;
        }
        while self.arguments_missing > 0 {
            let length = match self.awaited {
                Awaited::Bulk { length } => length,
                _ => match self.take_bulk_line(buffer)? {
                    Some(length) => length,
                    None => return Ok(false),
                },
            };
            if buffer.len() < self.position + length + LINE_END_LENGTH {
                self.awaited = Awaited::Bulk { length };
                return Ok(false);
            }
            self.spans.push(Span::new(self.position, length));
            self.position += length + LINE_END_LENGTH;
            self.awaited = Awaited::BulkLine;
            self.arguments_missing -= 1;
        }
        Ok(true)
    }

    fn take_first_line(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if let Some(count) = self.take_short_line(buffer, b'*') {
            return Ok(Some(count));
        }
        let Some(line) = self.take_line(buffer).map_err(|LineTooLong| ProtocolError::MultibulkLineLength)? else {
            return Ok(None);
        };
        let count = parse_integer(&line[1..]).ok_or(ProtocolError::MultibulkLength)?;
        // Redis skips a request of no or fewer arguments.
        Ok(Some(usize::try_from(count.max(0)).unwrap_or(usize::MAX)))
    }

    fn take_bulk_line(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let length = match self.take_short_line(buffer, b'$') {
            Some(length) => length,
            None => match self.take_long_bulk_line(buffer)? {
                Some(length) => length,
                None => return Ok(None),
            },
        };
        if length > self.limits.argument_length_max {
            return Err(ProtocolError::BulkLength);
        }
        if self.is_guest && length > GUEST_ARGUMENT_LENGTH_MAX {
            return Err(ProtocolError::GuestBulkLength);
        }
        Ok(Some(length))
    }

    fn take_long_bulk_line(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(line) = self.take_line(buffer).map_err(|LineTooLong| ProtocolError::BulkLineLength)? else {
            return Ok(None);
        };
        // An empty line means that the carriage return stands where the dollar should.
        let found = *line.first().unwrap_or(&b'\r');
        if found != b'$' {
            return Err(ProtocolError::BulkExpected { found });
        }
        let length = parse_integer(&line[1..]).ok_or(ProtocolError::BulkLength)?;
        usize::try_from(length).map(Some).map_err(|_| ProtocolError::BulkLength)
    }

    /// The number of a whole line of one or two digits, which nearly all are. Any other line is left where it is.
    fn take_short_line(&mut self, buffer: &[u8], marker: u8) -> Option<usize> {
        let digit = |byte: u8| usize::from(byte - b'0');
        let (number, length) = match *buffer.get(self.position..)? {
            // The line feed behind the carriage return must have arrived, although nobody looks at it.
            [first, ones @ b'0'..=b'9', b'\r', _, ..] if first == marker => (digit(ones), 2),
            [first, tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] if first == marker => {
                (10 * digit(tens) + digit(ones), 3)
            }
            _ => return None,
        };
        self.position += length + LINE_END_LENGTH;
        self.scanned = 0;
        Some(number)
    }

    /// The line at `position` without its end, once all of it is there.
    fn take_line<'b>(&mut self, buffer: &'b [u8]) -> Result<Option<&'b [u8]>, LineTooLong> {
        let line = &buffer[self.position..];
        let carriage_return = position_of(b'\r', &line[self.scanned..]).map(|offset| self.scanned + offset);
        let length = carriage_return.unwrap_or(line.len());
        if length > self.limits.line_length_max {
            return Err(LineTooLong);
        }
        // The line feed behind the carriage return must have arrived, although nobody looks at it.
        if carriage_return.is_none() || line.len() < length + LINE_END_LENGTH {
            self.scanned = length;
            return Ok(None);
        }
        self.position += length + LINE_END_LENGTH;
        self.scanned = 0;
        Ok(Some(&line[..length]))
    }
}

const LINE_END_LENGTH: usize = b"\r\n".len();

struct LineTooLong;

/// The lines sought here are a few bytes long, where a plain loop beats anything clever.
fn position_of(wanted: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == wanted)
}
