//! Clients of registers, at nodes that stay alive. None tries anything again: whatever is not answered well is a failure.
//!
//! A *rising* key is written by one client, with 1, 2, 3 and so on, and read by all. A read must see what was acknowledged
//! or read by anybody before it was sent, or more, and nothing that was not sent; that is all that linearizability asks
//! of such a key. *Free* keys are written, deleted and read by all; each value is written once, and the history is judged
//! in the end by the checker of the simulation.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quorate_sim::check::{Bounds, linearizability};
use quorate_sim::history::{self, Action, Answer, CallId, Fate, History, Object};
use redis::{Connection, RedisResult, Value};

use crate::nodes::{Cluster, until};
use crate::random::Random;

const CLIENTS_PER_NODE: usize = 3;
/// Rising keys of each client, enough that all of them together are in most volumes.
const RISING_PER_CLIENT: usize = 8;
const FREE_KEYS: u16 = 12;
/// What a client sends before it waits for answers, at most.
const BATCH_MAX: u64 = 4;
/// How long a node that comes back may refuse to read.
const READ_WITHIN: Duration = Duration::from_secs(20);
const READ_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// What a node says that cannot serve now, besides NOQUORUM.
const NOT_YET: [&str; 2] = ["TRYAGAIN", "LOADING"];

pub(crate) struct RegisterLoad {
    books: Arc<Mutex<Books>>,
    /// What its clients select.
    namespace: u32,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    began: Instant,
}

#[derive(Default)]
struct Books {
    rising: Vec<Rising>,
    history: History,
    value_last: u64,
    connection_count: u32,
    gaps: Vec<Gap>,
    answered: u64,
    failures: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Rising {
    sent: u64,
    /// The highest that was acknowledged or read.
    known: u64,
}

/// How long a client of the load has had no success.
struct Gap {
    last: Instant,
    longest: Duration,
}

pub(crate) fn rising_key(number: usize) -> String {
    format!("rising:{number}")
}

/// Those that the clients at so many nodes write.
pub(crate) fn rising_keys(node_count: usize) -> Vec<String> {
    (0..node_count * CLIENTS_PER_NODE * RISING_PER_CLIENT).map(rising_key).collect()
}

pub(crate) fn free_key(number: u16) -> String {
    format!("free:{number}")
}

pub(crate) fn free_keys() -> impl Iterator<Item = String> {
    (0..FREE_KEYS).map(free_key)
}

impl RegisterLoad {
    /// Clients at these nodes, in this namespace.
    pub(crate) fn start(cluster: &Cluster, namespace: u32, nodes: &[usize], random: &mut Random) -> RegisterLoad {
        let mut load = RegisterLoad {
            books: Arc::default(),
            namespace,
            is_over: Arc::default(),
            threads: Vec::new(),
            began: Instant::now(),
        };
        load.join(cluster, nodes, random);
        load
    }

    /// More clients, at these nodes. Returns when each has been answered: a node that has just begun lets them wait.
    pub(crate) fn join(&mut self, cluster: &Cluster, nodes: &[usize], random: &mut Random) {
        self.is_over.store(false, Ordering::SeqCst);
        for &at in nodes.iter().cycle().take(nodes.len() * CLIENTS_PER_NODE) {
            let mut client = self.client(cluster, at, random).expect("the node takes clients");
            let gap = {
                let mut books = books(&self.books);
                let first = books.rising.len();
                client.own = first..first + RISING_PER_CLIENT;
                books.rising.resize(client.own.end, Rising::default());
                books.gaps.push(Gap { last: Instant::now(), longest: Duration::ZERO });
                books.gaps.len() - 1
            };
            client.gap = Some(gap);
            let is_over = self.is_over.clone();
            self.threads.push(thread::spawn(move || client.run(&is_over)));
        }
        until("each client has been answered", || {
            self.assert_unharmed();
            books(&self.books).gaps.iter().all(|gap| gap.longest > Duration::ZERO)
        });
    }

    /// More clients, at a node that is about to be killed or to stand still: they write only free keys, and may be refused
    /// or lose their connections.
    pub(crate) fn join_wary(&mut self, cluster: &Cluster, nodes: &[usize], random: &mut Random) {
        for &at in nodes.iter().cycle().take(nodes.len() * CLIENTS_PER_NODE) {
            let client = self.asker(cluster, at, random);
            let is_over = self.is_over.clone();
            self.threads.push(thread::spawn(move || client.run(&is_over)));
        }
    }

    /// Somebody who is no part of the load.
    pub(crate) fn asker(&self, cluster: &Cluster, at: usize, random: &mut Random) -> Client {
        self.try_asker(cluster, at, random).expect("the node takes clients")
    }

    fn try_asker(&self, cluster: &Cluster, at: usize, random: &mut Random) -> RedisResult<Client> {
        let mut client = self.client(cluster, at, random)?;
        client.is_wary = true;
        Ok(client)
    }

    fn client(&self, cluster: &Cluster, at: usize, random: &mut Random) -> RedisResult<Client> {
        let mut connection = cluster.try_client(at)?;
        redis::cmd("SELECT").arg(self.namespace).query::<()>(&mut connection)?;
        let number = {
            let mut books = books(&self.books);
            books.connection_count += 1;
            history::Connection(books.connection_count)
        };
        Ok(Client {
            at,
            connection,
            number,
            own: 0..0,
            gap: None,
            is_wary: false,
            books: self.books.clone(),
            began: self.began,
            random: random.fork(),
            in_flight: VecDeque::new(),
        })
    }

    /// From now on, [`RegisterLoad::longest_gap`] is measured.
    pub(crate) fn watch(&self) {
        let now = Instant::now();
        for gap in &mut books(&self.books).gaps {
            *gap = Gap { last: now, longest: Duration::ZERO };
        }
    }

    /// The longest time since [`RegisterLoad::watch`] in which some client was told nothing.
    pub(crate) fn longest_gap(&self) -> Duration {
        let now = Instant::now();
        let longest = |gap: &Gap| gap.longest.max(now.duration_since(gap.last));
        books(&self.books).gaps.iter().map(longest).max().unwrap_or_default()
    }

    pub(crate) fn answered(&self) -> u64 {
        books(&self.books).answered
    }

    /// No client has met with anything but success so far.
    pub(crate) fn assert_unharmed(&self) {
        let failures = books(&self.books).failures.clone();
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    }

    /// Ends the clients; others may join later.
    pub(crate) fn stop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().expect("a client does not panic");
        }
        books(&self.books).gaps.clear();
        self.assert_unharmed();
    }

    /// Reads all keys at a node, which may be about to come back: what it refuses is asked again.
    pub(crate) fn read_all(&self, cluster: &Cluster, at: usize, random: &mut Random) {
        let deadline = Instant::now() + READ_WITHIN;
        loop {
            let read = self.try_asker(cluster, at, random).is_ok_and(|mut asker| asker.read_all());
            self.assert_unharmed();
            if read {
                return;
            }
            assert!(Instant::now() < deadline, "node {} does not read", at + 1);
            thread::sleep(READ_AGAIN_AFTER);
        }
    }

    /// What each of these nodes reads agrees with what all clients were told. Nobody writes.
    pub(crate) fn check(&self, cluster: &Cluster, nodes: impl Iterator<Item = usize>, random: &mut Random) {
        assert!(self.threads.is_empty(), "somebody still writes");
        nodes.for_each(|at| self.read_all(cluster, at, random));
        let books = books(&self.books);
        for (number, rising) in books.rising.iter().enumerate() {
            assert_eq!(rising.known, rising.sent, "{} was read, and another value acknowledged", rising_key(number));
        }
        let bounds = Bounds::default();
        let verdict = linearizability::check(&books.history, &bounds);
        assert!(verdict.is_linearizable(), "{verdict}");
    }
}

impl Drop for RegisterLoad {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

fn books(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().expect("no thread panics with the books open")
}

/// One connection.
pub(crate) struct Client {
    at: usize,
    connection: Connection,
    number: history::Connection,
    /// The rising keys that it writes.
    own: Range<usize>,
    gap: Option<usize>,
    /// It may be refused, or lose its connection; but it must be answered in time.
    is_wary: bool,
    books: Arc<Mutex<Books>>,
    began: Instant,
    random: Random,
    in_flight: VecDeque<Sent>,
}

/// A command on its way.
struct Sent {
    words: Vec<String>,
    asked: Asked,
    at: Instant,
}

#[derive(Clone, Copy)]
enum Asked {
    Raise {
        key: usize,
        value: u64,
    },
    Look {
        key: usize,
        /// What was known when it was asked.
        least: u64,
    },
    Free(CallId),
}

/// How a command ended, for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    NoQuorum,
    /// Not executed: the node is not ready for it.
    NotYet,
    Unknown,
}

impl Client {
    fn run(mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::SeqCst) {
            for _ in 0..=self.random.below(BATCH_MAX) {
                self.think();
            }
            // What went wrong stands in the books.
            let Ok(ends) = self.send().and_then(|()| self.receive()) else { return };
            if ends.iter().any(|end| *end != End::Done) {
                thread::sleep(READ_AGAIN_AFTER);
            }
        }
    }

    /// Decides what to ask next, half of it of free keys.
    fn think(&mut self) {
        let rising_count = books(&self.books).rising.len() as u64;
        match self.random.below(12) {
            choice @ 0..6 => {
                let key = self.choose(u64::from(FREE_KEYS)) as u16;
                self.ask_free(key, choice);
            }
            6..9 if !self.own.is_empty() => {
                let key = self.own.start + self.random.below(self.own.len() as u64) as usize;
                self.raise(key);
            }
            _ if rising_count > 0 => {
                let key = self.choose(rising_count) as usize;
                self.look(key);
            }
            _ => {}
        }
    }

    /// A number below `end`, and each second time the first, where all meet.
    fn choose(&mut self, end: u64) -> u64 {
        if self.random.below(2) == 0 { 0 } else { self.random.below(end) }
    }

    fn ask_free(&mut self, key: u16, choice: u64) {
        let mut books = books(&self.books);
        let (action, words) = match choice {
            0 => (Action::Erase, vec!["DEL".to_owned(), free_key(key)]),
            1 | 2 => {
                books.value_last += 1;
                let value = books.value_last.to_string();
                let action = Action::Set { value: value.clone().into_bytes().into_boxed_slice() };
                (action, vec!["SET".to_owned(), free_key(key), value])
            }
            _ => (Action::Get, vec!["GET".to_owned(), free_key(key)]),
        };
        let call = history::Call { object: Object(key), action };
        let now_us = self.began.elapsed().as_micros() as u64;
        let id = books.history.invoke(self.number, call, now_us);
        self.in_flight.push_back(Sent { words, asked: Asked::Free(id), at: Instant::now() });
    }

    pub(crate) fn set_free(&mut self, key: u16) {
        self.ask_free(key, 1);
    }

    fn get_free(&mut self, key: u16) {
        self.ask_free(key, u64::MAX);
    }

    fn raise(&mut self, key: usize) {
        let value = {
            let rising = &mut books(&self.books).rising[key];
            rising.sent += 1;
            rising.sent
        };
        let words = vec!["SET".to_owned(), rising_key(key), value.to_string()];
        self.in_flight.push_back(Sent { words, asked: Asked::Raise { key, value }, at: Instant::now() });
    }

    fn look(&mut self, key: usize) {
        let least = books(&self.books).rising[key].known;
        let words = vec!["GET".to_owned(), rising_key(key)];
        self.in_flight.push_back(Sent { words, asked: Asked::Look { key, least }, at: Instant::now() });
    }

    /// Decides to read every key.
    pub(crate) fn look_at_all(&mut self) {
        let rising_count = books(&self.books).rising.len();
        (0..rising_count).for_each(|key| self.look(key));
        (0..FREE_KEYS).for_each(|key| self.get_free(key));
    }

    fn read_all(&mut self) -> bool {
        self.look_at_all();
        let ends = self.send().and_then(|()| self.receive());
        ends.is_ok_and(|ends| ends.iter().all(|end| *end == End::Done))
    }

    /// Sends what was decided, and waits for nothing.
    pub(crate) fn send(&mut self) -> Result<(), ()> {
        let mut pipe = redis::pipe();
        for sent in &self.in_flight {
            let command = pipe.cmd(&sent.words[0]);
            sent.words[1..].iter().for_each(|word| {
                command.arg(word);
            });
        }
        let sent = self.connection.send_packed_command(&pipe.get_packed_pipeline());
        sent.map_err(|error| self.lose("took no commands", &error))
    }

    /// Takes all answers.
    pub(crate) fn receive(&mut self) -> Result<Vec<End>, ()> {
        let mut ends = Vec::new();
        while let Some(sent) = self.in_flight.pop_front() {
            let reply = self.connection.recv_response();
            let told = format!("{} got, after {} ms", sent.words.join(" "), sent.at.elapsed().as_millis());
            let reply = reply.map_err(|error| self.lose(&told, &error))?;
            ends.push(self.judge(&sent, &reply).map_err(|what| self.fail(format!("{told}: {what}")))?);
        }
        Ok(ends)
    }

    /// The connection is of no use any more.
    fn lose(&self, what: &str, error: &redis::RedisError) {
        if !self.is_wary || error.is_timeout() {
            self.fail(format!("{what}: {error}"));
        }
    }

    fn fail(&self, what: String) {
        let at_s = self.began.elapsed().as_secs_f64();
        books(&self.books).failures.push(format!("{at_s:.3} s, node {}: {what}", self.at + 1));
    }

    fn judge(&self, sent: &Sent, reply: &Value) -> Result<End, String> {
        let mut books = books(&self.books);
        if let Value::ServerError(error) = reply {
            let end = match error.code() {
                "TIMEOUT" if self.is_wary => End::Unknown,
                "NOQUORUM" if self.is_wary => End::NoQuorum,
                code if self.is_wary && NOT_YET.contains(&code) => End::NotYet,
                _ => return Err(format!("{error:?}")),
            };
            if let (Asked::Free(id), End::NoQuorum | End::NotYet) = (sent.asked, end) {
                books.history.settle(id, Fate::NotExecuted);
            }
            return Ok(end);
        }
        match sent.asked {
            Asked::Raise { key, value } => {
                if *reply != Value::Okay {
                    return Err(format!("{reply:?}"));
                }
                books.rising[key].known = books.rising[key].known.max(value);
            }
            Asked::Look { key, least } => {
                let value = match reply {
                    Value::Nil => 0,
                    reply => number(reply).ok_or_else(|| format!("{reply:?}"))?,
                };
                let rising = &mut books.rising[key];
                if value < least || value > rising.sent {
                    return Err(format!("{value}, with {least} known before and {} sent", rising.sent));
                }
                rising.known = rising.known.max(value);
            }
            Asked::Free(id) => {
                let answer = match reply {
                    Value::Okay => Answer::Ok,
                    Value::Nil => Answer::Nil,
                    Value::Int(number) => Answer::Int(*number),
                    Value::BulkString(bytes) => Answer::Bytes(bytes.clone().into_boxed_slice()),
                    reply => return Err(format!("{reply:?}")),
                };
                let at_us = self.began.elapsed().as_micros() as u64;
                books.history.settle(id, Fate::Answered { at_us, answer });
            }
        }
        books.answered += 1;
        if let Some(gap) = self.gap.and_then(|gap| books.gaps.get_mut(gap)) {
            let now = Instant::now();
            gap.longest = gap.longest.max(now.duration_since(gap.last));
            gap.last = now;
        }
        Ok(End::Done)
    }
}

fn number(reply: &Value) -> Option<u64> {
    let Value::BulkString(bytes) = reply else { return None };
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
