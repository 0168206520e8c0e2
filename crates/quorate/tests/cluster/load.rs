//! Clients that write without pause, each at its own node, until that node is gone: then it goes to another. No write
//! is ever sent twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, RedisResult, Value};

use crate::ledger::{End, Ledger, Write, counter_key, register_key};
use crate::nodes::{Cluster, connect, until};
use crate::random::Random;

const WRITERS: usize = 24;
/// Writes that each writer keeps in flight.
const WINDOW: usize = 8;
const COUNTERS: usize = 12;
/// Before a writer whose node does not take it looks for another.
const RECONNECT_AFTER: Duration = Duration::from_millis(20);
/// How long a value may take to be read again while nodes come back.
const READ_WITHIN: Duration = Duration::from_secs(20);
/// Keys asked for in one request.
const READ_AT_ONCE: usize = 500;

pub(crate) struct Load {
    ledger: Arc<Ledger>,
    orders: Arc<Orders>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Orders {
    is_paused: AtomicBool,
    is_over: AtomicBool,
    value_next: AtomicU64,
}

impl Load {
    pub(crate) fn start(cluster: &Cluster, random: &mut Random) -> Load {
        let (ledger, orders) = (Arc::new(Ledger::new(COUNTERS)), Arc::new(Orders::default()));
        let addresses: Vec<_> = (0..cluster.node_count()).map(|index| cluster.address(index)).collect();
        let writer = |number: usize| {
            let mut writer = Writer {
                addresses: addresses.clone(),
                at: number % addresses.len(),
                register: ledger.new_register(),
                ledger: ledger.clone(),
                orders: orders.clone(),
                random: random.fork(),
                in_flight: VecDeque::new(),
            };
            thread::spawn(move || writer.run())
        };
        let threads = (0..WRITERS).map(writer).collect();
        Load { ledger, orders, threads }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns when at least so many writes are unanswered.
    pub(crate) fn wait_for_in_flight(&self, count: u64) {
        until("there are writes in flight", || self.ledger.totals().in_flight >= count);
    }

    /// Lets every write end, then compares what each node reads with what the clients were told.
    pub(crate) fn check(&self, cluster: &Cluster) {
        self.orders.is_paused.store(true, Ordering::SeqCst);
        until("all writes have ended", || self.ledger.totals().in_flight == 0);
        self.check_at(cluster, 0..cluster.node_count());
        self.orders.is_paused.store(false, Ordering::SeqCst);
    }

    /// The same at some nodes; nobody writes.
    fn check_at(&self, cluster: &Cluster, nodes: impl Iterator<Item = usize>) {
        let keys = self.ledger.keys();
        for index in nodes {
            let values = read_all(cluster, index, &keys);
            self.ledger.assert_explains(&values, &format!("node {}", index + 1));
        }
    }

    /// Ends the writers. What they were told can be compared later.
    pub(crate) fn stop(&mut self) {
        self.orders.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().expect("a writer does not panic");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.orders.is_over.store(true, Ordering::SeqCst);
    }
}

struct Writer {
    addresses: Vec<(&'static str, u16)>,
    /// The node that it talks to.
    at: usize,
    /// The register that it writes, nobody else does. After a write of unknown outcome it takes a new one: an unknown
    /// write may take effect late, and must not be mistaken for the loss of a later one.
    register: usize,
    ledger: Arc<Ledger>,
    orders: Arc<Orders>,
    random: Random,
    in_flight: VecDeque<(Write, Instant)>,
}

impl Writer {
    fn run(&mut self) {
        while !self.orders.is_over.load(Ordering::SeqCst) {
            if let Ok(mut connection) = connect(self.addresses[self.at]) {
                if let Err(error) = self.write_at(&mut connection) {
                    self.note(&error);
                }
                while let Some((write, sent_at)) = self.in_flight.pop_front() {
                    self.end(write, sent_at, &End::Unknown);
                }
            }
            self.at = self.random.below(self.addresses.len() as u64) as usize;
            thread::sleep(RECONNECT_AFTER);
        }
    }

    /// Writes until the connection breaks or the load is over.
    fn write_at(&mut self, connection: &mut Connection) -> RedisResult<()> {
        loop {
            let is_over = self.orders.is_over.load(Ordering::SeqCst);
            if !is_over && !self.orders.is_paused.load(Ordering::SeqCst) {
                while self.in_flight.len() < WINDOW {
                    self.send(connection)?;
                }
            } else if self.in_flight.is_empty() {
                if is_over {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            let reply = connection.recv_response()?;
            let (write, sent_at) = self.in_flight.pop_front().expect("something was sent");
            let end = self.judge(write, reply);
            self.end(write, sent_at, &end);
        }
    }

    fn send(&mut self, connection: &mut Connection) -> RedisResult<()> {
        let (write, command) = if self.random.below(2) == 0 {
            let counter = self.random.below(COUNTERS as u64) as usize;
            (Write::Increment { counter }, command(&["INCR", &counter_key(counter)]))
        } else {
            let (register, value) = (self.register, self.orders.value_next.fetch_add(1, Ordering::SeqCst));
            let command = command(&["SET", &register_key(register), &value.to_string()]);
            (Write::Assign { register, value }, command)
        };
        // In flight before it is sent: a part that has left may be a whole command.
        self.in_flight.push_back((write, Instant::now()));
        self.ledger.sent();
        connection.send_packed_command(&command.get_packed_command())
    }

    fn judge(&self, write: Write, reply: Value) -> End {
        match (write, reply) {
            (Write::Increment { .. }, Value::Int(number)) => End::Counted(number),
            (Write::Assign { .. }, Value::Okay) => End::Acknowledged,
            (_, Value::ServerError(error)) => match error.code() {
                "NOQUORUM" | "TRYAGAIN" | "LOADING" => End::Refused,
                "TIMEOUT" => End::Unknown,
                _ => self.complain(format!("{write:?} got {error:?}")),
            },
            (_, reply) => self.complain(format!("{write:?} got {reply:?}")),
        }
    }

    fn end(&mut self, write: Write, sent_at: Instant, end: &End) {
        self.ledger.ended(write, sent_at, end);
        if *end == End::Unknown && matches!(write, Write::Assign { register, .. } if register == self.register) {
            self.register = self.ledger.new_register();
        }
    }

    /// A connection may break; but a server that keeps it must answer, and in the language that was agreed on.
    fn note(&self, error: &redis::RedisError) {
        if error.is_timeout() || !error.is_io_error() {
            self.ledger.complain(format!("a connection to node {} ended with {error:?}", self.at + 1));
        }
    }

    fn complain(&self, what: String) -> End {
        self.ledger.complain(what);
        End::Unknown
    }
}

fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command
}

/// Reads may be repeated.
fn read_all(cluster: &Cluster, index: usize, keys: &[String]) -> Vec<Option<String>> {
    let deadline = Instant::now() + READ_WITHIN;
    loop {
        let read = || -> RedisResult<Vec<Option<String>>> {
            let mut client = cluster.try_client(index)?;
            let mut values = Vec::new();
            for keys in keys.chunks(READ_AT_ONCE) {
                values.extend(redis::cmd("MGET").arg(keys).query::<Vec<Option<String>>>(&mut client)?);
            }
            Ok(values)
        };
        match read() {
            Ok(values) => return values,
            Err(error) if Instant::now() > deadline => panic!("node {} does not read: {error}", index + 1),
            Err(_) => thread::sleep(RECONNECT_AFTER),
        }
    }
}
