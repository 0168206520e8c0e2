//! The applications beside this node: programs that are given objects, over connections that a thread each waits for.
//!
//! A connection is opened for the first object, and kept. The node says `QUORATE 1` on it, to which any reply that is no error says that
//! the application speaks this protocol, and then one request after the other:
//!
//! ```text
//! EXECUTE key object word ...      the object's bytes, or null where there is none
//! ```
//!
//! The answer is an array: the client's reply alone if the object stays as it is, and behind it the object's new bytes, or null if it is
//! to be gone. An error in place of it is the client's reply, and the object stays.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mio::Waker;
use quorate_front::{Job, JobCall, ReplyTree, Worked};
use quorate_object::OBJECT_BYTES_MAX;
use quorate_resp::{ReplyLimits, ReplyParser, ReplyWriter, Value, Version, write_request};
use tracing::{info, warn};

use crate::config::{Application, ApplicationAddress};

/// Calls for one object that have not begun after so long wait until what there is is stored.
const TOGETHER_FOR: Duration = Duration::from_millis(100);
/// How often it is looked whether an application that was out of reach is there again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;
const ELEMENTS_MAX: usize = 1 << 20;

/// The applications of one node, by their numbers.
pub(crate) struct Applications {
    known: Vec<Known>,
    worked: Receiver<Worked>,
}

struct Known {
    name: String,
    jobs: Sender<Job>,
    counters: Arc<Counters>,
}

/// What was counted since the start.
#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    failures: AtomicU64,
    is_out_of_reach: AtomicBool,
}

/// The same, for whoever asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApplicationFigures {
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) failures: u64,
    pub(crate) is_out_of_reach: bool,
}

impl Applications {
    pub(crate) fn start(applications: &[Application], waker: &Arc<Waker>) -> io::Result<Applications> {
        let (report, worked) = channel();
        let known = applications.iter().map(|application| {
            let (jobs, todo) = channel();
            let (todo, counters) = (Arc::new(Mutex::new(todo)), Arc::new(Counters::default()));
            for _ in 0..application.connections {
                let mut connection = Connection::new(application.clone(), counters.clone());
                let (todo, report, waker) = (todo.clone(), report.clone(), waker.clone());
                let work = move || {
                    loop {
                        match next_job(&todo) {
                            Ok(job) if report.send(connection.work(&job)).is_err() => return,
                            // A poll that is gone belongs to a worker that has ended.
                            Ok(_) => drop(waker.wake()),
                            Err(RecvTimeoutError::Timeout) => connection.look_again(),
                            Err(RecvTimeoutError::Disconnected) => return,
                        }
                    }
                };
                std::thread::Builder::new().name(format!("app-{}", application.name)).spawn(work)?;
            }
            Ok(Known { name: application.name.clone(), jobs, counters })
        });
        Ok(Applications { known: known.collect::<io::Result<_>>()?, worked })
    }

    pub(crate) fn number(&self, name: &[u8]) -> Option<usize> {
        self.known.iter().position(|known| known.name.as_bytes() == name)
    }

    pub(crate) fn give(&self, jobs: Vec<Job>) {
        for job in jobs {
            // Its threads end only by panics, of which the standard error tells.
            let _ = self.known[job.application].jobs.send(job);
        }
    }

    pub(crate) fn take_worked(&self) -> Option<Worked> {
        self.worked.try_recv().ok()
    }

    /// What is wrong with them.
    pub(crate) fn alarms(&self) -> impl Iterator<Item = String> {
        let out_of_reach = self.known.iter().filter(|known| known.counters.is_out_of_reach.load(Ordering::Relaxed));
        out_of_reach.map(|known| format!("application {} does not answer this node", known.name))
    }

    pub(crate) fn figures(&self) -> Vec<ApplicationFigures> {
        let figures = self.known.iter().map(|Known { name, counters, .. }| ApplicationFigures {
            name: name.clone(),
            calls: counters.calls.load(Ordering::Relaxed),
            failures: counters.failures.load(Ordering::Relaxed),
            is_out_of_reach: counters.is_out_of_reach.load(Ordering::Relaxed),
        });
        figures.collect()
    }
}

fn next_job(todo: &Mutex<Receiver<Job>>) -> Result<Job, RecvTimeoutError> {
    todo.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK_AGAIN)
}

/// One connection to an application, opened when it is needed.
struct Connection {
    application: Application,
    counters: Arc<Counters>,
    open: Option<Open>,
    request: Vec<u8>,
}

struct Open {
    stream: Stream,
    /// For one answer.
    timeout: Duration,
    parser: ReplyParser,
    input: Vec<u8>,
    is_new: bool,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// What an application says of a call.
#[derive(Debug, PartialEq)]
struct Answer {
    reply: ReplyTree,
    /// What the object is now, unless it stays as it is.
    object: Option<Option<Arc<Vec<u8>>>>,
}

/// Why a call has changed nothing, and what its client is told.
#[derive(Debug)]
enum Failed {
    /// Others would wait in vain as well.
    OutOfReach(ReplyTree),
    Refused(ReplyTree),
}

/// Why there is no answer.
enum Trouble {
    OutOfReach(io::Error),
    /// It took the call, and then hung up or said what is no answer.
    NoAnswer(io::Error),
}

impl Connection {
    fn new(application: Application, counters: Arc<Counters>) -> Connection {
        Connection { application, counters, open: None, request: Vec::new() }
    }

    /// Carries out one call after the other, for a while. Those behind one that found nobody are refused as it was.
    fn work(&mut self, job: &Job) -> Worked {
        let mut object = job.object.clone();
        let mut out_of_reach: Option<ReplyTree> = None;
        let mut replies = Vec::with_capacity(job.calls.len());
        let began = Instant::now();
        for call in &job.calls {
            if out_of_reach.is_none() && !replies.is_empty() && began.elapsed() > TOGETHER_FOR {
                break;
            }
            let answer = match &out_of_reach {
                None => self.call(&job.key, object.as_ref(), call),
                Some(reply) => Err(Failed::Refused(reply.clone())),
            };
            if answer.is_err() {
                self.counters.failures.fetch_add(1, Ordering::Relaxed);
            }
            replies.push(match answer {
                Ok(Answer { reply, object: changed }) => {
                    object = changed.unwrap_or(object);
                    reply
                }
                Err(Failed::Refused(reply)) => reply,
                Err(Failed::OutOfReach(reply)) => out_of_reach.insert(reply).clone(),
            });
        }
        if out_of_reach.is_none() {
            self.note_in_reach();
        }
        self.counters.calls.fetch_add(replies.len() as u64, Ordering::Relaxed);
        Worked { id: job.id, object, replies }
    }

    /// One that was out of reach may be there again, though nobody has called it since.
    fn look_again(&mut self) {
        if self.counters.is_out_of_reach.load(Ordering::Relaxed)
            && let Ok(open) = Open::connect(&self.application)
        {
            self.open = Some(open);
            self.note_in_reach();
        }
    }

    fn note_in_reach(&self) {
        if self.counters.is_out_of_reach.swap(false, Ordering::Relaxed) {
            info!("application {} answers again", self.application.name);
        }
    }

    fn call(&mut self, key: &[u8], object: Option<&Arc<Vec<u8>>>, call: &JobCall) -> Result<Answer, Failed> {
        let value = self.execute(key, object, call).map_err(|trouble| match trouble {
            Trouble::OutOfReach(error) => Failed::OutOfReach(self.out_of_reach(&error)),
            Trouble::NoAnswer(error) => Failed::Refused(self.no_answer(&error)),
        })?;
        let name = &self.application.name;
        let answer = answer_of(value, name).map_err(Failed::Refused)?;
        let why = match &answer.object {
            Some(_) if call.only_reads => "would change the object, and FCALL_RO only reads: use FCALL",
            Some(Some(object)) if object.len() > OBJECT_BYTES_MAX => "has made the object larger than 16 MiB",
            _ => return Ok(answer),
        };
        Err(Failed::Refused(refusal(format_args!("{name} {why}"))))
    }

    fn execute(&mut self, key: &[u8], object: Option<&Arc<Vec<u8>>>, call: &JobCall) -> Result<Value, Trouble> {
        let words = call.words.arguments();
        self.request.clear();
        let mut writer = ReplyWriter::new(&mut self.request, Version::Resp2);
        writer.array(3 + words.len());
        writer.bulk(b"EXECUTE");
        writer.bulk(key);
        match object {
            Some(object) => writer.bulk(object),
            None => writer.null(),
        }
        words.iter().for_each(|word| writer.bulk(word));
        loop {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => Open::connect(&self.application).map_err(Trouble::OutOfReach)?,
            };
            let is_new = std::mem::replace(&mut open.is_new, false);
            match open.ask(&self.request) {
                Ok(value) => {
                    self.open = Some(open);
                    return Ok(value);
                }
                // It was ended since the last call, and may have been started again.
                Err(error) if !is_new && is_gone(&error) => {}
                Err(error) if is_late(&error) => return Err(Trouble::OutOfReach(error)),
                Err(error) => return Err(Trouble::NoAnswer(error)),
            }
        }
    }

    fn out_of_reach(&self, error: &io::Error) -> ReplyTree {
        let Application { name, address, .. } = &self.application;
        let reason = self.reason(error);
        if !self.counters.is_out_of_reach.swap(true, Ordering::Relaxed) {
            warn!("application {name} at {address} does not answer: {reason}");
        }
        self.no_answer(error)
    }

    fn no_answer(&self, error: &io::Error) -> ReplyTree {
        let Application { name, address, .. } = &self.application;
        refusal(format_args!("{name} at {address} does not answer this node: {}", self.reason(error)))
    }

    fn reason(&self, error: &io::Error) -> String {
        if is_late(error) { format!("no answer within {} ms", self.application.timeout_ms) } else { error.to_string() }
    }
}

fn refusal(why: std::fmt::Arguments<'_>) -> ReplyTree {
    ReplyTree::Error(format!("APPLICATION not executed: {why}"))
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

impl Open {
    fn connect(application: &Application) -> io::Result<Open> {
        let timeout = Duration::from_millis(application.timeout_ms);
        let stream = match &application.address {
            ApplicationAddress::Unix(path) => {
                let stream = connect_unix(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Stream::Unix(stream)
            }
            ApplicationAddress::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        let limits = ReplyLimits {
            string_length_max: 2 * OBJECT_BYTES_MAX,
            element_count_max: ELEMENTS_MAX,
            ..ReplyLimits::default()
        };
        let mut open = Open { stream, timeout, parser: ReplyParser::new(limits), input: Vec::new(), is_new: true };
        let mut greeting = Vec::new();
        write_request(&mut greeting, &["QUORATE", "1"]);
        match open.ask(&greeting)? {
            Value::Error(text) => Err(nonsense(format!("it refuses this node: {text}"))),
            _ => Ok(open),
        }
    }

    fn ask(&mut self, request: &[u8]) -> io::Result<Value> {
        let began = Instant::now();
        let mut buffer = [0; READ_BYTES];
        match self.stream.read_at_once(&mut buffer)? {
            None => {}
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => return Err(nonsense("it says what nobody has asked for".into())),
        }
        let mut unsent = request;
        while !unsent.is_empty() {
            match self.stream.write(unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => unsent = &unsent[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if began.elapsed() > self.timeout {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        loop {
            let (consumed, value) =
                self.parser.parse(&self.input).map_err(|error| nonsense(format!("it does not speak RESP: {error}")))?;
            self.input.drain(..consumed);
            if let Some(value) = value {
                // What nobody has asked for would be taken for the next answer.
                return if self.input.is_empty() {
                    Ok(value)
                } else {
                    Err(nonsense("it says more than one reply".into()))
                };
            }
            if began.elapsed() > self.timeout {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.input.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits for nobody: where as many connections wait to be taken as may, this fails at once.
fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let stream = mio::net::UnixStream::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::ConnectionRefused, "it takes no further connection"),
        _ => error,
    })?;
    let stream = UnixStream::from(stream);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl Stream {
    /// What there is to read, if there is anything: nothing at all at the end.
    fn read_at_once(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.set_nonblocking(true)?;
        let read = match self.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            read => read.map(Some),
        };
        self.set_nonblocking(false)?;
        read
    }

    fn set_nonblocking(&self, is_so: bool) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(is_so),
            Stream::Tcp(stream) => stream.set_nonblocking(is_so),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn nonsense(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// What an application's reply says, or the error that it is.
fn answer_of(value: Value, name: &str) -> Result<Answer, ReplyTree> {
    let malformed = || {
        Err(refusal(format_args!(
            "{name} answers neither [reply] nor [reply, object], where an object is a string or null"
        )))
    };
    let mut elements = match value {
        Value::Error(text) => return Ok(Answer { reply: ReplyTree::Error(text), object: None }),
        Value::Array(elements) => elements,
        _ => return malformed(),
    };
    let object = match (elements.len(), elements.pop()) {
        (1, reply) => {
            elements.extend(reply);
            None
        }
        (2, Some(Value::Bulk(object))) => Some(Some(Arc::new(object))),
        (2, Some(Value::Null)) => Some(None),
        _ => return malformed(),
    };
    match elements.pop() {
        Some(reply) => Ok(Answer { reply: tree_of(reply), object }),
        None => malformed(),
    }
}

fn tree_of(value: Value) -> ReplyTree {
    match value {
        Value::Simple(text) => ReplyTree::Simple(text),
        Value::Error(text) => ReplyTree::Error(text),
        Value::Integer(number) => ReplyTree::Integer(number),
        Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => ReplyTree::Bytes(bytes),
        Value::Null => ReplyTree::Null,
        Value::Array(values) | Value::Set(values) | Value::Push(values) => {
            ReplyTree::Array(values.into_iter().map(tree_of).collect())
        }
        Value::Map(pairs) => {
            ReplyTree::Map(pairs.into_iter().map(|(name, value)| (text_of(name), tree_of(value))).collect())
        }
        Value::Double(number) => ReplyTree::Double(number),
        Value::Boolean(flag) => ReplyTree::Boolean(flag),
        Value::BigNumber(text) => ReplyTree::Text(text),
    }
}

/// Names in maps are text.
fn text_of(name: Value) -> String {
    match name {
        Value::Simple(text) | Value::BigNumber(text) => text,
        Value::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Verbatim { text, .. } => String::from_utf8_lossy(&text).into_owned(),
        Value::Null => String::new(),
        Value::Error(text) => text,
        // A name that is made of others.
        Value::Array(values) | Value::Set(values) | Value::Push(values) => {
            values.into_iter().map(text_of).collect::<Vec<_>>().join(" ")
        }
        Value::Map(pairs) => {
            pairs.into_iter().flat_map(|(name, value)| [name, value]).map(text_of).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests;
