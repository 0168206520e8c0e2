//! What a server answers, appended to a connection's output in the version that its client has asked for.

use crate::integer::write_integer;

/// The protocol's version, chosen by `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    #[default]
    Resp2,
    Resp3,
}

/// Appends replies to a buffer. Types that version 2 lacks are written as what Redis writes in their place.
pub struct ReplyWriter<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl<'a> ReplyWriter<'a> {
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> ReplyWriter<'a> {
        ReplyWriter { out, version }
    }

    /// A status such as `OK`; line ends in it become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error, its code first and without the leading dash. As Redis prints them, line ends at its end are left out, and
    /// others become spaces.
    pub fn error(&mut self, text: &[u8]) {
        let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
        self.line(b'-', &text[..end]);
    }

    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 16);
        self.length_header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.line_end();
    }

    /// The absence of a value.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The absence of a list, which version 2 tells apart from that of a value.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// Announces an array; its `length` elements follow.
    pub fn array(&mut self, length: usize) {
        self.length_header(b'*', length);
    }

    /// Announces a map; `length` pairs of key and value follow. A flat array in version 2.
    pub fn map(&mut self, length: usize) {
        match self.version {
            Version::Resp2 => self.length_header(b'*', length * 2),
            Version::Resp3 => self.length_header(b'%', length),
        }
    }

    /// Announces a set; its `length` elements follow. An array in version 2.
    pub fn set(&mut self, length: usize) {
        match self.version {
            Version::Resp2 => self.length_header(b'*', length),
            Version::Resp3 => self.length_header(b'~', length),
        }
    }

    /// Announces a list of `length` pairs, each announced by [`ReplyWriter::pair`]. A flat array in version 2.
    pub fn pairs(&mut self, length: usize) {
        match self.version {
            Version::Resp2 => self.length_header(b'*', length * 2),
            Version::Resp3 => self.length_header(b'*', length),
        }
    }

    /// Announces a pair of such a list; its two elements follow.
    pub fn pair(&mut self) {
        if self.version == Version::Resp3 {
            self.length_header(b'*', 2);
        }
    }

    /// A double as [`ReplyWriter::double_text`], in the fewest digits that tell it.
    pub fn double(&mut self, value: f64) {
        let text = if value.is_nan() {
            "nan".to_string()
        } else if value.is_infinite() {
            if value > 0.0 { "inf" } else { "-inf" }.to_string()
        } else {
            value.to_string()
        };
        self.double_text(&text);
    }

    /// A double that is written already, in version 2 as a bulk string.
    pub fn double_text(&mut self, text: &str) {
        match self.version {
            Version::Resp2 => self.bulk(text.as_bytes()),
            Version::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    /// A boolean, in version 2 as 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(match (self.version, value) {
            (Version::Resp2, false) => b":0\r\n",
            (Version::Resp2, true) => b":1\r\n",
            (Version::Resp3, false) => b"#f\r\n",
            (Version::Resp3, true) => b"#t\r\n",
        });
    }

    /// Plain text for people, in version 2 as a bulk string.
    pub fn verbatim_text(&mut self, text: &[u8]) {
        const FORMAT: &[u8] = b"txt:";
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => {
                self.length_header(b'=', FORMAT.len() + text.len());
                self.out.extend_from_slice(FORMAT);
                self.out.extend_from_slice(text);
                self.line_end();
            }
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend(text.iter().map(|&byte| match byte {
            b'\r' | b'\n' => b' ',
            other => other,
        }));
        self.line_end();
    }

    fn length_header(&mut self, kind: u8, length: usize) {
        // Nothing in memory is longer than isize::MAX.
        self.header(kind, length as i64);
    }

    fn header(&mut self, kind: u8, value: i64) {
        self.out.push(kind);
        write_integer(self.out, value);
        self.line_end();
    }

    fn line_end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}
