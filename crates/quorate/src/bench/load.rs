//! One load on one thread: requests out, replies counted, latencies recorded.
//!
//! Requests are made once; before each sending only the digits of their keys are rewritten.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};
use quorate_resp::write_request;

use super::cpu::Processes;
use super::replies::{ReplyCounter, Unexpected};
use super::{Operation, Row};
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::wire::Wire;

const KEY_PREFIX: &str = "bench:";
const KEY_DIGITS: usize = 12;
const READ_BYTES: usize = 256 << 10;
/// The longest latency that is told from longer ones.
const LATENCY_US_MAX: u64 = 60_000_000;
/// No reply on any connection for this long ends the measurement.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How keys are filled before reads.
const FILL_CONNECTIONS: u32 = 16;
const FILL_PIPELINE: u32 = 16;

#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) operation: Operation,
    pub(super) connections: u32,
    pub(super) pipeline: u32,
    pub(super) size: u32,
    pub(super) keys: u64,
    /// Each connection selects this namespace first.
    namespace: u32,
    /// Each write is followed by Redis's WAIT for two replicas.
    waits: bool,
    /// Of a hundred batches of reads, so many are writes.
    pub(super) writes_percent: u64,
    until: Until,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// For so long after a warm-up.
    Elapsed(Duration),
    /// Each key once.
    AllKeys,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The state of an xorshift generator.
    Random(u64),
    /// One after the other, the first one again after the last one: the next one.
    InTurn(u64),
}

#[derive(Debug)]
pub(super) struct Measured {
    pub(super) row: Row,
    /// How long it took.
    pub(super) seconds: f64,
    /// The longest that a connection was without an answer, if that is known.
    pub(super) longest_us: Option<u64>,
    /// Where somebody goes on who takes the keys in turn.
    pub(super) key_next: u64,
    /// The first error that the server answered with.
    pub(super) error: Option<String>,
}

impl Load {
    pub(super) fn random(
        operation: Operation,
        connections: u32,
        pipeline: u32,
        size: u32,
        keys: u64,
        measured: Duration,
    ) -> Load {
        Load {
            operation,
            connections,
            pipeline,
            size,
            keys,
            namespace: 0,
            waits: false,
            writes_percent: 0,
            until: Until::Elapsed(measured),
            order: Order::Random(0x9e37_79b9_7f4a_7c15),
        }
    }

    pub(super) fn fill(size: u32, keys: u64) -> Load {
        let filled = Load::random(Operation::Set, FILL_CONNECTIONS, FILL_PIPELINE, size, keys, Duration::ZERO);
        filled.each_once()
    }

    /// The same operations, on each key once.
    pub(super) fn each_once(self) -> Load {
        Load { until: Until::AllKeys, order: Order::InTurn(0), ..self }
    }

    /// The same, on one key after the other from this one on.
    pub(super) fn in_turn(&self, key: u64) -> Load {
        Load { order: Order::InTurn(key), ..self.clone() }
    }

    pub(super) fn in_namespace(self, namespace: u32) -> Load {
        Load { namespace, ..self }
    }

    /// The same load, with each write followed by Redis's WAIT for two replicas.
    pub(super) fn waiting(&self) -> Load {
        Load { waits: true, ..self.clone() }
    }

    /// The same, with so many of a hundred batches written. Latencies are those of the others.
    pub(super) fn with_writes(&self, percent: u64) -> Load {
        Load { writes_percent: percent, ..self.clone() }
    }

    /// Seconds that are measured; of a fill, none.
    pub(super) fn measured_s(&self) -> u64 {
        match self.until {
            Until::Elapsed(measured) => measured.as_secs(),
            Until::AllKeys => 0,
        }
    }

    fn replies_per_operation(&self) -> u64 {
        if self.waits { 2 } else { 1 }
    }

    pub(super) fn run(&self, targets: &[Endpoint], processes: &Processes) -> Result<Measured, Failure> {
        let mut run = Run::new(self, targets)?;
        let duration = match self.until {
            Until::AllKeys => None,
            Until::Elapsed(measured) => {
                run.advance(Some(measured / 5))?;
                run.begin_counting();
                Some(measured)
            }
        };
        let cpu_before = processes.cpu_us();
        run.advance(duration)?;
        let cpu_after = processes.cpu_us();
        Ok(run.measured(cpu_before.zip(cpu_after).map(|(before, after)| after.saturating_sub(before))))
    }

    /// `pipeline` requests, and where the digits of their keys are.
    fn requests(&self) -> (Vec<u8>, Vec<usize>) {
        self.requests_of(self.operation)
    }

    fn requests_of(&self, operation: Operation) -> (Vec<u8>, Vec<usize>) {
        let key = key(0);
        let value = "x".repeat(self.size as usize);
        let mut request = Vec::new();
        match operation {
            Operation::Set => write_request(&mut request, &["SET", &key, &value]),
            Operation::Get => write_request(&mut request, &["GET", &key]),
        }
        if self.waits {
            write_request(&mut request, &["WAIT", "2", "0"]);
        }
        let key_at = request.windows(key.len()).position(|bytes| bytes == key.as_bytes());
        let digits_at = key_at.expect("the request holds its key") + KEY_PREFIX.len();
        let count = self.pipeline as usize;
        let digits = (0..count).map(|index| index * request.len() + digits_at).collect();
        (request.repeat(count), digits)
    }
}

struct Run<'a> {
    load: &'a Load,
    poll: Poll,
    connections: Vec<Connection>,
    keys: Keys,
    /// Which batches are writes, where reads and writes are mixed.
    random: u64,
    buffer: Vec<u8>,
    latencies_us: Histogram<u64>,
    longest_us: u64,
    counting_since: Instant,
    /// Replies.
    count: u64,
    errors_before: u64,
    last_reply_at: Instant,
}

type Stream = Wire<mio::net::TcpStream>;

struct Connection {
    stream: Stream,
    /// The batch, of which `written` bytes are sent.
    requests: Vec<u8>,
    digits: Vec<usize>,
    /// A batch of the other kind, where reads and writes are mixed, and whether the one in use is of writes.
    other: (Vec<u8>, Vec<usize>),
    writes: bool,
    written: usize,
    sent_at: Instant,
    unanswered: u64,
    replies: ReplyCounter,
}

impl<'a> Run<'a> {
    fn new(load: &'a Load, targets: &[Endpoint]) -> Result<Run<'a>, Failure> {
        let poll = Poll::new().context("cannot poll")?;
        let mut connections = Vec::new();
        let (requests, digits) = load.requests();
        let other = load.requests_of(Operation::Set);
        let now = Instant::now();
        for (index, target) in (0..load.connections as usize).zip(targets.iter().cycle()) {
            let mut stream = connect(target, load.namespace)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(stream.socket(), Token(index), interest).context("cannot poll")?;
            connections.push(Connection {
                stream,
                requests: requests.clone(),
                digits: digits.clone(),
                other: other.clone(),
                writes: false,
                written: requests.len(),
                sent_at: now,
                unanswered: 0,
                replies: ReplyCounter::default(),
            });
        }
        let latencies_us = Histogram::new_with_max(LATENCY_US_MAX, 3).context("cannot record latencies")?;
        Ok(Run {
            load,
            poll,
            connections,
            keys: Keys::new(load),
            random: 0x2545_f491_4f6c_dd1d,
            buffer: vec![0; READ_BYTES],
            latencies_us,
            longest_us: 0,
            counting_since: now,
            count: 0,
            errors_before: 0,
            last_reply_at: now,
        })
    }

    /// Goes on for so long, or until every key was sent and all is answered.
    fn advance(&mut self, duration: Option<Duration>) -> Result<(), Failure> {
        let start = Instant::now();
        self.last_reply_at = start;
        for index in 0..self.connections.len() {
            if self.connections[index].unanswered == 0 {
                self.send(index, start)?;
            }
        }
        let mut events = Events::with_capacity(self.connections.len().max(16));
        loop {
            let now = Instant::now();
            let is_over = match duration {
                Some(duration) => now - start >= duration,
                None => self.connections.iter().all(|connection| connection.unanswered == 0),
            };
            if is_over {
                return Ok(());
            }
            if now - self.last_reply_at > SILENCE_MAX {
                let message = format!("no reply for {} s; does the cluster have a quorum?", SILENCE_MAX.as_secs());
                return Err(Failure(message));
            }
            match self.poll.poll(&mut events, Some(Duration::from_millis(100))) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result.context("cannot poll")?,
            }
            for event in &events {
                let index = event.token().0;
                if event.is_writable() {
                    self.connections[index].write().context("a connection failed")?;
                }
                if event.is_readable() {
                    self.receive(index)?;
                }
            }
        }
    }

    /// Reads what has arrived, and sends the next batch if that was all of this one.
    fn receive(&mut self, index: usize) -> Result<(), Failure> {
        loop {
            let connection = &mut self.connections[index];
            let length = match connection.stream.read(&mut self.buffer) {
                Ok(0) => return Err(Failure::new("a node closed the connection")),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure(format!("a connection failed: {error}"))),
            };
            let now = Instant::now();
            let replies = connection.replies.count(&self.buffer[..length]).map_err(|Unexpected(byte)| {
                Failure(format!("a reply begins with '{}'; is that a server of keys and values?", byte.escape_ascii()))
            })?;
            if replies > connection.unanswered {
                return Err(Failure::new("there are more replies than requests"));
            }
            let latency_us = u64::try_from((now - connection.sent_at).as_micros()).unwrap_or(LATENCY_US_MAX);
            self.longest_us = self.longest_us.max(latency_us);
            if !connection.writes {
                self.latencies_us.saturating_record_n(latency_us, replies);
            }
            self.count += replies;
            self.last_reply_at = now;
            connection.unanswered -= replies;
            if connection.unanswered == 0 {
                self.send(index, now)?;
            }
            // Less than was asked for: the socket is empty, and its next bytes are a new event.
            if length < self.buffer.len() && self.connections[index].stream.reads_all_there_is() {
                return Ok(());
            }
        }
    }

    fn send(&mut self, index: usize, now: Instant) -> Result<(), Failure> {
        let connection = &mut self.connections[index];
        if self.load.writes_percent > 0 {
            self.random = xorshift(self.random);
            let writes = (self.random >> 16) % 100 < self.load.writes_percent;
            if writes != connection.writes {
                std::mem::swap(&mut connection.requests, &mut connection.other.0);
                std::mem::swap(&mut connection.digits, &mut connection.other.1);
                connection.writes = writes;
            }
        }
        let mut count = 0;
        for &digits in &connection.digits {
            let Some(key) = self.keys.next() else { break };
            write_digits(&mut connection.requests[digits..digits + KEY_DIGITS], key);
            count += 1;
        }
        let request_length = connection.requests.len() / connection.digits.len();
        connection.requests.truncate(count * request_length);
        connection.digits.truncate(count.max(1));
        connection.written = 0;
        connection.sent_at = now;
        connection.unanswered = count as u64 * self.load.replies_per_operation();
        connection.write().context("a connection failed")
    }

    fn begin_counting(&mut self) {
        self.latencies_us.reset();
        self.longest_us = 0;
        self.count = 0;
        self.errors_before = self.errors();
        self.counting_since = Instant::now();
    }

    fn errors(&self) -> u64 {
        self.connections.iter().map(|connection| connection.replies.errors).sum()
    }

    fn measured(&self, cpu_us: Option<u64>) -> Measured {
        let Load { operation, connections, pipeline, size, .. } = *self.load;
        let elapsed_s = self.counting_since.elapsed().as_secs_f64();
        let count = (self.count / self.load.replies_per_operation()) as f64;
        let row = Row {
            operation,
            connections,
            pipeline,
            size_bytes: size,
            operations_per_s: count / elapsed_s,
            latency_p50_us: self.latencies_us.value_at_quantile(0.5),
            latency_p99_us: self.latencies_us.value_at_quantile(0.99),
            cpu_us_per_operation: cpu_us.filter(|_| count > 0.0).map(|us| us as f64 / count),
            errors: self.errors() - self.errors_before,
        };
        let error = self.connections.iter().find_map(|connection| connection.replies.first_error.clone());
        let key_next = match self.keys.order {
            Order::InTurn(next) => next % self.load.keys,
            Order::Random(_) => 0,
        };
        let unanswered = self.connections.iter().filter(|connection| connection.unanswered > 0);
        let waiting_us = unanswered.map(|connection| connection.sent_at.elapsed().as_micros() as u64).max();
        let longest_us = self.longest_us.max(waiting_us.unwrap_or(0));
        Measured { row, seconds: elapsed_s, longest_us: Some(longest_us), key_next, error }
    }
}

impl Connection {
    /// Sends what the socket takes; the rest follows when it is writable again.
    fn write(&mut self) -> io::Result<()> {
        while self.written < self.requests.len() {
            match self.stream.write(&self.requests[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }
}

/// A connection that knows the password, if there is one, and is in the namespace.
fn connect(target: &Endpoint, namespace: u32) -> Result<Stream, Failure> {
    let client = Client::connect_to_namespace(target, namespace)?;
    client.into_stream().without_waiting().context(format_args!("cannot use the connection to {target}"))
}

/// The key of this number.
pub(super) fn key(number: u64) -> String {
    format!("{KEY_PREFIX}{number:0KEY_DIGITS$}")
}

/// The numbers of the keys, in the order in which they are sent.
struct Keys {
    count: u64,
    is_endless: bool,
    order: Order,
}

impl Keys {
    fn new(load: &Load) -> Keys {
        Keys { count: load.keys, is_endless: load.until != Until::AllKeys, order: load.order }
    }
}

impl Iterator for Keys {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match &mut self.order {
            Order::Random(state) => {
                *state = xorshift(*state);
                Some((*state >> 16) % self.count)
            }
            Order::InTurn(next) if self.is_endless || *next < self.count => {
                let key = *next % self.count;
                *next += 1;
                Some(key)
            }
            Order::InTurn(_) => None,
        }
    }
}

fn xorshift(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ state << 17
}

fn write_digits(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_hold_keys_that_can_be_rewritten() {
        let load = Load::random(Operation::Set, 1, 2, 3, 10, Duration::ZERO);
        let (mut requests, digits) = load.requests();
        write_digits(&mut requests[digits[1]..digits[1] + KEY_DIGITS], 42);
        let one = |key: &str| format!("*3\r\n$3\r\nSET\r\n$18\r\nbench:{key}\r\n$3\r\nxxx\r\n");
        let expected = one("000000000000") + &one("000000000042");
        assert_eq!(String::from_utf8_lossy(&requests), expected);
    }

    #[test]
    fn a_write_that_waits_is_two_requests() {
        let load = Load::random(Operation::Set, 1, 2, 3, 10, Duration::ZERO).waiting();
        let (requests, digits) = load.requests();
        let one =
            "*3\r\n$3\r\nSET\r\n$18\r\nbench:000000000000\r\n$3\r\nxxx\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n0\r\n";
        assert_eq!((String::from_utf8_lossy(&requests).as_ref(), digits.len()), (one.repeat(2).as_str(), 2));
    }

    #[test]
    fn a_fill_names_each_key_once_and_random_keys_stay_in_range() {
        let keys: Vec<u64> = Keys::new(&Load::fill(16, 5)).collect();
        assert_eq!(keys, [0, 1, 2, 3, 4]);
        let random = Load::random(Operation::Get, 1, 1, 16, 7, Duration::ZERO);
        let in_turn: Vec<u64> = Keys::new(&random.in_turn(5)).take(4).collect();
        assert_eq!(in_turn, [5, 6, 0, 1]);
        let drawn: Vec<u64> = Keys::new(&random).take(1000).collect();
        assert!(drawn.iter().all(|&key| key < 7));
        assert!((0..7).all(|key| drawn.contains(&key)));
    }
}
