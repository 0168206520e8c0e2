//! The file: requests as clients send them, with marks at its beginning and end and before each namespace.
//!
//! | request | |
//! | --- | --- |
//! | `ECHO "quorate backup 1"` | the first: the version of this format |
//! | `ECHO "quorate namespace 3 PROTOCOL register ..."`, `SELECT 3` | what follows is of this namespace, which was made with these words |
//! | `SET`; or `DEL`, then `RPUSH`, `HSET`, `SADD` or `ZADD`, then perhaps `PEXPIREAT` | one object |
//! | `ECHO "quorate backup ends: objects 2 checksum 0123456789abcdef"` | the last: the number of objects, and the xxh3 of all bytes before it |
//!
//! Marks are `ECHO`s, so that whatever sends the file to a server, such as `redis-cli --pipe`, passes over them.

use std::fmt;
use std::io::{self, Read, Write};

use quorate_resp::{ProtocolError, RequestParser, write_request};
use xxhash_rust::xxh3::Xxh3;

const VERSION: u32 = 1;
const BEGINS: &str = "quorate backup ";
const NAMESPACE: &str = "quorate namespace ";
const ENDS: &str = "quorate backup ends: ";
const READ_BYTES: usize = 256 << 10;

pub(super) struct Writer<W: Write> {
    out: W,
    checksum: Xxh3,
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn begin(out: W) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, checksum: Xxh3::new(), objects: 0, bytes: 0 };
        writer.write(&mark(&format!("{BEGINS}{VERSION}")))?;
        Ok(writer)
    }

    /// What follows is of this namespace.
    pub(super) fn enter(&mut self, namespace: u32, words: &str) -> io::Result<()> {
        let mut bytes = mark(&format!("{NAMESPACE}{namespace} {words}"));
        write_request(&mut bytes, &["SELECT", &namespace.to_string()]);
        self.write(&bytes)
    }

    /// The requests that make an object, or several.
    pub(super) fn add(&mut self, requests: &[u8], objects: u64) -> io::Result<()> {
        self.objects += objects;
        self.write(requests)
    }

    pub(super) fn end(mut self) -> io::Result<W> {
        let checksum = self.checksum.digest();
        self.out.write_all(&mark(&format!("{ENDS}objects {} checksum {checksum:016x}", self.objects)))?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

fn mark(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_request(&mut bytes, &["ECHO", text]);
    bytes
}

/// What a file holds, in the order in which it was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A namespace begins that was made with these words.
    Namespace { number: u32, words: Vec<String> },
    /// The requests that make one object.
    Object { key: Vec<u8>, requests: Vec<u8>, count: usize },
}

/// Why a file is not read any further.
#[derive(Debug)]
pub(super) enum FileError {
    Io(io::Error),
    Foreign,
    Newer(String),
    Damaged(String),
    Truncated,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io(error) => write!(f, "{error}"),
            FileError::Foreign => f.write_str("that is no file of `quorate backup`"),
            FileError::Newer(version) => {
                write!(f, "it was written by a newer quorate (format {version}): use that release")
            }
            FileError::Damaged(how) => write!(f, "it is damaged: {how}; use another copy of it"),
            FileError::Truncated => {
                f.write_str("its end is missing: it was not written to the end; use another copy of it")
            }
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> FileError {
        FileError::Io(error)
    }
}

pub(super) struct Reader<R: Read> {
    input: R,
    parser: RequestParser,
    /// What is read; up to `at` it is done with.
    buffer: Vec<u8>,
    at: usize,
    /// Read, and for the next part.
    ahead: Option<Request>,
    /// Of what is done with.
    checksum: Xxh3,
    objects: u64,
    has_begun: bool,
    has_ended: bool,
}

/// One request of the file.
struct Request {
    words: Vec<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Request {
    fn is(&self, verb: &str) -> bool {
        self.words.first().is_some_and(|word| word == verb.as_bytes())
    }

    /// The text of a mark.
    fn mark(&self) -> Option<&str> {
        match &self.words[..] {
            [verb, text] if verb == b"ECHO" => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }
}

impl<R: Read> Reader<R> {
    pub(super) fn new(input: R) -> Reader<R> {
        Reader {
            input,
            parser: RequestParser::default(),
            buffer: Vec::new(),
            at: 0,
            ahead: None,
            checksum: Xxh3::new(),
            objects: 0,
            has_begun: false,
            has_ended: false,
        }
    }

    /// The next part, or none once the file has come to its end and is whole.
    pub(super) fn next(&mut self) -> Result<Option<Part>, FileError> {
        if self.has_ended {
            return Ok(None);
        }
        if !self.has_begun {
            self.begin()?;
        }
        let request = self.request()?.ok_or(FileError::Truncated)?;
        if let Some(text) = request.mark() {
            return match (text.strip_prefix(NAMESPACE), text.strip_prefix(ENDS)) {
                (Some(namespace), _) => {
                    let part = self.namespace(namespace)?;
                    self.checksum.update(&request.bytes);
                    self.select()?;
                    Ok(Some(part))
                }
                (_, Some(sums)) => self.end(sums, &request.bytes).map(|()| None),
                _ => Err(FileError::Damaged(format!("it has an unknown mark, {text:?}"))),
            };
        }
        self.checksum.update(&request.bytes);
        self.objects += 1;
        self.object(request).map(Some)
    }

    fn begin(&mut self) -> Result<(), FileError> {
        let first = match self.request() {
            Ok(first) => first.ok_or(FileError::Truncated)?,
            Err(FileError::Damaged(_) | FileError::Truncated) => return Err(FileError::Foreign),
            Err(error) => return Err(error),
        };
        let version = first.mark().and_then(|text| text.strip_prefix(BEGINS)).ok_or(FileError::Foreign)?;
        if version != VERSION.to_string() {
            return Err(FileError::Newer(version.to_owned()));
        }
        self.checksum.update(&first.bytes);
        self.has_begun = true;
        Ok(())
    }

    fn namespace(&self, text: &str) -> Result<Part, FileError> {
        // A setting of several words is in quotes.
        let mut words = Vec::new();
        for (at, part) in text.split('"').enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        let number = words.first().and_then(|word| word.parse().ok());
        let number = number.ok_or_else(|| FileError::Damaged(format!("it has a namespace {text:?}")))?;
        Ok(Part::Namespace { number, words: words.split_off(1) })
    }

    fn select(&mut self) -> Result<(), FileError> {
        let request = self.request()?.ok_or(FileError::Truncated)?;
        if !request.is("SELECT") {
            return Err(FileError::Damaged("a namespace is not entered".to_owned()));
        }
        self.checksum.update(&request.bytes);
        Ok(())
    }

    /// The object whose first request this is. What begins with `DEL` goes on until something else begins.
    fn object(&mut self, first: Request) -> Result<Part, FileError> {
        if !first.is("SET") && !first.is("DEL") || first.words.len() < 2 {
            let verb = first.words.first().map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
            return Err(FileError::Damaged(format!("an object begins with {verb:?}")));
        }
        let (key, is_whole) = (first.words[1].clone(), first.is("SET"));
        let (mut requests, mut count) = (first.bytes, 1);
        if is_whole {
            return Ok(Part::Object { key, requests, count });
        }
        loop {
            let request = self.request()?.ok_or(FileError::Truncated)?;
            if !["RPUSH", "HSET", "SADD", "ZADD", "PEXPIREAT"].iter().any(|verb| request.is(verb)) {
                self.ahead = Some(request);
                return Ok(Part::Object { key, requests, count });
            }
            if request.words.get(1) != Some(&key) {
                return Err(FileError::Damaged("an object's requests are of several keys".to_owned()));
            }
            self.checksum.update(&request.bytes);
            requests.extend_from_slice(&request.bytes);
            count += 1;
        }
    }

    fn end(&mut self, sums: &str, bytes: &[u8]) -> Result<(), FileError> {
        let expected = format!("objects {} checksum {:016x}", self.objects, self.checksum.digest());
        if bytes != mark(&format!("{ENDS}{expected}")) {
            return Err(FileError::Damaged(format!("it ends with {sums:?}, and holds {expected:?}")));
        }
        if self.request()?.is_some() {
            return Err(FileError::Damaged("something follows its end".to_owned()));
        }
        self.has_ended = true;
        Ok(())
    }

    /// The next request. None at the end of the input.
    fn request(&mut self) -> Result<Option<Request>, FileError> {
        if let Some(request) = self.ahead.take() {
            return Ok(Some(request));
        }
        let damaged = |error: ProtocolError| FileError::Damaged(error.to_string());
        loop {
            if let Some(length) = self.parser.parse(&mut self.buffer[self.at..]).map_err(damaged)? {
                let bytes = self.buffer[self.at..self.at + length].to_vec();
                let words = self.parser.arguments(&self.buffer[self.at..]).iter().map(<[u8]>::to_vec).collect();
                self.at += length;
                return Ok(Some(Request { words, bytes }));
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            let start = self.buffer.len();
            self.buffer.resize(start + READ_BYTES, 0);
            let read = self.input.read(&mut self.buffer[start..]);
            self.buffer.truncate(start + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) if self.buffer.len() == self.at => return Ok(None),
                Ok(0) => return Err(FileError::Truncated),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(requests: &[&[&str]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|words| write_request(&mut bytes, words));
        bytes
    }

    fn string() -> Vec<u8> {
        requests(&[&["SET", "k", "v"]])
    }

    fn list() -> Vec<u8> {
        requests(&[&["DEL", "l"], &["RPUSH", "l", "a", "\r\n"], &["RPUSH", "l", "b"], &["PEXPIREAT", "l", "5"]])
    }

    fn file() -> Vec<u8> {
        let mut writer = Writer::begin(Vec::new()).expect("written");
        writer.enter(0, "PROTOCOL paxos").expect("written");
        writer.add(&[string(), list()].concat(), 2).expect("written");
        writer.enter(12, "PROTOCOL register QUORUM \"threshold 1 3\"").expect("written");
        writer.add(&list(), 1).expect("written");
        writer.end().expect("written")
    }

    /// Hands out a few bytes at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(7).min(self.0.len());
            self.0.read(&mut buffer[..length])
        }
    }

    fn parts(bytes: &[u8]) -> Result<Vec<Part>, FileError> {
        let (mut reader, mut parts) = (Reader::new(Slow(bytes)), Vec::new());
        while let Some(part) = reader.next()? {
            parts.push(part);
        }
        Ok(parts)
    }

    #[test]
    fn what_is_written_is_read() {
        let namespace = |number, words: &[&str]| {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            Part::Namespace { number, words }
        };
        let a_list = || Part::Object { key: b"l".to_vec(), requests: list(), count: 4 };
        let expected = vec![
            namespace(0, &["PROTOCOL", "paxos"]),
            Part::Object { key: b"k".to_vec(), requests: string(), count: 1 },
            a_list(),
            namespace(12, &["PROTOCOL", "register", "QUORUM", "threshold 1 3"]),
            a_list(),
        ];
        assert_eq!(parts(&file()).expect("it is whole"), expected);
    }

    #[test]
    fn no_part_of_a_file_passes_for_all_of_it() {
        let whole = file();
        for length in 0..whole.len() {
            assert!(parts(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
        }
        assert!(matches!(parts(&[&whole[..], b"\0"].concat()), Err(FileError::Truncated | FileError::Damaged(_))));
        assert!(matches!(parts(&[&whole[..], &whole[..]].concat()), Err(FileError::Damaged(_))));
    }

    #[test]
    fn a_bit_that_is_not_what_it_was_is_found() {
        let whole = file();
        for at in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(parts(&damaged).is_err(), "bit {at}");
        }
    }

    #[test]
    fn what_is_of_somebody_else_is_told_from_what_is_damaged() {
        assert!(matches!(parts(b"REDIS0010"), Err(FileError::Foreign)));
        assert!(matches!(parts(&string()), Err(FileError::Foreign)));
        assert!(matches!(parts(&mark("quorate backup 2")), Err(FileError::Newer(_))));
        let strange = [mark("quorate backup 1"), requests(&[&["FLUSHALL"]])].concat();
        assert!(matches!(parts(&strange), Err(FileError::Damaged(_))));
    }
}
