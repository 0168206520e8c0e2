//! Very many own groups: nodes are killed while some of them are written, and nothing that was acknowledged is lost.
//!
//! Twenty thousand, or as many as `QUORATE_GROUPS` says. With `QUORATE_GIGABYTES` so much is then written to one of them
//! while each other one is written once. `cargo xtask long groups` runs it with a million, built for use.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, Value};

use crate::nodes::{Cluster, connect, until};
use crate::own::shown;
use crate::random::Random;

const GROUPS_DEFAULT: u64 = 20_000;
const NODES: usize = 3;
const NAMESPACE: &str = "7";
/// Names in a command, and first writes that are sent at once.
const BATCH: usize = 10_000;
const PIPELINE: usize = 1_000;
/// One group in so many is written while nodes are killed.
const CLEAN_SHARE: u64 = 100;
/// Writes that each writer keeps in flight.
const WINDOW: usize = 8;
/// Random keys that a node that was started must answer for.
const ASKED: u64 = 1_000;
/// Groups of which more is looked at.
const LOOKED_AT: usize = 300;
const ENDED: usize = 100;
const HOT_BYTES: usize = 16 << 10;
/// Writes to the hot group at once.
const HOT_PIPELINE: u64 = 64;
/// What a log may take, beside thrice what is needed of it.
const LOG_BYTES_SPARE: u64 = 256 << 20;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn very_many_own_groups_lose_nothing_when_nodes_are_killed() {
    let mut random = Random::announced();
    let groups = number_of("QUORATE_GROUPS").unwrap_or(GROUPS_DEFAULT);
    let mut cluster = Cluster::started("many", NODES);
    let create = ["NAMESPACE", "CREATE", NAMESPACE, "GROUPS", "own"];
    redis::cmd("QUORATE").arg(&create).exec(&mut cluster.client(0)).expect("created");
    let samples = Samples::default();
    let addresses: Vec<_> = (0..NODES).map(|index| cluster.address(index)).collect();
    let mut told = vec![Told::default(); groups as usize];
    thread::scope(|scope| {
        let _stop = StopAtEnd(&samples.is_over);
        scope.spawn(|| samples.take(&addresses));
        make(&cluster, groups as usize);
        look_at_some(&cluster, groups, &mut random);
        kill_one_under_writes(&mut cluster, &addresses, &mut told, &mut random);
        let began = Instant::now();
        (0..NODES).for_each(|index| cluster.kill(index));
        let killed = began.elapsed();
        cluster.start_all_by_hand();
        answer_random(&cluster, 0, groups, &mut random);
        println!("all nodes: {ASKED} random keys answered {:.2?} after they were started", began.elapsed() - killed);
        verify(&cluster, &told);
        end_and_begin_some(&cluster, &mut told);
        if let Some(gigabytes) = number_of("QUORATE_GIGABYTES") {
            write_to_one(&cluster, gigabytes, &mut told);
        }
        verify(&cluster, &told);
    });
    samples.judge();
    cluster.stop_all();
}

fn key(number: usize) -> String {
    format!("group:{number}")
}

/// A client of the namespace.
fn client(cluster: &Cluster, index: usize) -> Connection {
    try_client(cluster.address(index)).expect("the node takes clients")
}

fn try_client(address: (&str, u16)) -> redis::RedisResult<Connection> {
    let mut client = connect(address)?;
    redis::cmd("SELECT").arg(NAMESPACE).exec(&mut client)?;
    Ok(client)
}

/// Half of them by commands, half by being written first; each holds a zero.
fn make(cluster: &Cluster, groups: usize) {
    let began = Instant::now();
    let names: Vec<String> = (0..groups).map(key).collect();
    let (created, written) = names.split_at(groups / 2);
    for (number, names) in created.chunks(BATCH).enumerate() {
        let mut command = redis::cmd("QUORATE");
        command.arg(&["GROUP", "CREATE", "KEYS"]).arg(names.len()).arg(names).arg(&["VALUE", "0"]);
        let answers: Vec<String> = command.query(&mut client(cluster, number % NODES)).expect("answered");
        assert_eq!(answers, vec!["OK"; names.len()]);
    }
    println!("{} groups by commands: {:.2?}", created.len(), began.elapsed());
    let began = Instant::now();
    let mut clients: Vec<Connection> = (0..NODES).map(|index| client(cluster, index)).collect();
    for (number, names) in written.chunks(PIPELINE).enumerate() {
        let sets = names.iter().map(|name| redis::cmd("SET").arg(name).arg(0).to_owned());
        let answers = ask_all(&mut clients[number % NODES], sets);
        assert!(answers.iter().all(|answer| *answer == Value::Okay), "{:?}", refusals(&answers));
    }
    println!("{} groups by first writes: {:.2?}", written.len(), began.elapsed());
}

/// All commands at once, and what each was answered.
fn ask_all(client: &mut Connection, commands: impl Iterator<Item = Cmd>) -> Vec<Value> {
    let mut bytes = Vec::new();
    let mut count = 0;
    for command in commands {
        command.write_packed_command(&mut bytes);
        count += 1;
    }
    client.send_packed_command(&bytes).expect("sent");
    (0..count).map(|_| client.recv_response().expect("answered")).collect()
}

fn refusals(answers: &[Value]) -> Vec<&Value> {
    answers.iter().filter(|answer| matches!(answer, Value::ServerError(_))).take(3).collect()
}

/// They are own groups of all nodes, and each node coordinates some.
fn look_at_some(cluster: &Cluster, groups: u64, random: &mut Random) {
    let mut client = client(cluster, 0);
    let mut coordinated = [0; NODES];
    for _ in 0..LOOKED_AT {
        let name = key(random.below(groups) as usize);
        assert_eq!(shown(&mut client, &name, "kind"), "own");
        let coordinator = shown(&mut client, &name, "coordinator");
        let at = (1..=NODES).find(|id| coordinator == format!("n{id}")).expect("a node");
        coordinated[at - 1] += 1;
    }
    assert!(coordinated.iter().all(|count| *count > LOOKED_AT / NODES / 3), "{coordinated:?}");
}

/// What clients know of a group's value: the last that was acknowledged, and one that may have been taken, after which
/// nothing more is written to it while nodes are killed.
#[derive(Clone, Debug, Default)]
struct Told {
    acknowledged: u64,
    unknown: Option<u64>,
}

impl Told {
    fn check(&self, value: &Value) -> Result<(), String> {
        let number = match value {
            Value::BulkString(text) => String::from_utf8_lossy(text).parse::<u64>().ok(),
            _ => None,
        };
        let is_explained = number.is_some_and(|number| number == self.acknowledged || Some(number) == self.unknown);
        if is_explained { Ok(()) } else { Err(format!("holds {value:?}, {self:?}")) }
    }
}

/// Random groups are written without pause, while a node is killed and started again.
fn kill_one_under_writes(
    cluster: &mut Cluster,
    addresses: &[(&'static str, u16)],
    told: &mut [Told],
    random: &mut Random,
) {
    let groups = told.len() as u64;
    let dirty_count = (groups / CLEAN_SHARE).max(NODES as u64);
    let mut dirty: Vec<usize> = (0..dirty_count).map(|_| random.below(groups) as usize).collect();
    dirty.sort_unstable();
    dirty.dedup();
    random.shuffle(&mut dirty);
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let written = thread::scope(|scope| {
        let _stop = StopAtEnd(&is_over);
        let writers: Vec<_> = dirty
            .chunks(dirty.len().div_ceil(NODES))
            .enumerate()
            .map(|(at, groups)| {
                let groups = groups.iter().map(|group| (*group, Told::default())).collect();
                let (is_over, acknowledged) = (&is_over, &acknowledged);
                let writer = Writer { addresses, at, groups, lost: Vec::new(), is_over, acknowledged };
                scope.spawn(move || writer.run())
            })
            .collect();
        let more = || {
            let enough = acknowledged.load(Ordering::SeqCst) + dirty_count;
            until("more is written", || acknowledged.load(Ordering::SeqCst) >= enough);
        };
        more();
        cluster.kill(1);
        more();
        let began = Instant::now();
        cluster.start_by_hand(1);
        answer_random(cluster, 1, groups, random);
        println!("one node: {ASKED} random keys answered {:.2?} after it was started", began.elapsed());
        more();
        is_over.store(true, Ordering::SeqCst);
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer does not panic")).collect::<Vec<_>>()
    });
    println!("{} writes to {} groups were acknowledged", acknowledged.load(Ordering::SeqCst), dirty.len());
    for (group, what) in written {
        told[group] = what;
    }
}

/// Writes its groups in turn, each with the next number, at one node until that is gone.
struct Writer<'a> {
    addresses: &'a [(&'static str, u16)],
    at: usize,
    groups: VecDeque<(usize, Told)>,
    /// Of whose last write nobody knows.
    lost: Vec<(usize, Told)>,
    is_over: &'a AtomicBool,
    acknowledged: &'a AtomicU64,
}

impl Writer<'_> {
    fn run(mut self) -> Vec<(usize, Told)> {
        while !self.is_over.load(Ordering::SeqCst) {
            if let Ok(mut client) = try_client(self.addresses[self.at]) {
                self.write_at(&mut client);
            }
            self.at = (self.at + 1) % self.addresses.len();
            thread::sleep(Duration::from_millis(20));
        }
        self.lost.extend(self.groups);
        self.lost
    }

    /// Until the connection breaks or all is over, and then until everything is answered.
    fn write_at(&mut self, client: &mut Connection) {
        let mut in_flight: VecDeque<(usize, Told)> = VecDeque::new();
        let mut is_open = true;
        while is_open && !(self.is_over.load(Ordering::SeqCst) && in_flight.is_empty()) {
            if in_flight.len() < WINDOW
                && !self.is_over.load(Ordering::SeqCst)
                && let Some((group, told)) = self.groups.pop_front()
            {
                let set = redis::cmd("SET").arg(key(group)).arg(told.acknowledged + 1).get_packed_command();
                in_flight.push_back((group, told));
                is_open = client.send_packed_command(&set).is_ok();
                continue;
            }
            if in_flight.is_empty() {
                // Nothing is left to write.
                return;
            }
            let Ok(reply) = client.recv_response() else { break };
            let (group, mut told) = in_flight.pop_front().expect("something was sent");
            match reply {
                Value::Okay => {
                    told.acknowledged += 1;
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                    self.groups.push_back((group, told));
                }
                Value::ServerError(error) if ["NOQUORUM", "TRYAGAIN", "LOADING"].contains(&error.code()) => {
                    self.groups.push_back((group, told));
                }
                Value::ServerError(error) if error.code() == "TIMEOUT" => self.lose(group, told),
                other => panic!("a write to {} was answered with {other:?}", key(group)),
            }
        }
        in_flight.into_iter().for_each(|(group, told)| self.lose(group, told));
    }

    fn lose(&mut self, group: usize, told: Told) {
        self.lost.push((group, Told { unknown: Some(told.acknowledged + 1), ..told }));
    }
}

/// Returns when the node has answered for so many random keys, those that it refused asked again.
fn answer_random(cluster: &Cluster, index: usize, groups: u64, random: &mut Random) {
    let mut keys: Vec<String> = (0..ASKED).map(|_| key(random.below(groups) as usize)).collect();
    let mut client = client(cluster, index);
    until("every key is answered for", || {
        let answers = ask_all(&mut client, keys.iter().map(|key| redis::cmd("GET").arg(key).to_owned()));
        let mut answers = answers.into_iter();
        keys.retain(|_| matches!(answers.next(), Some(Value::ServerError(_))));
        keys.is_empty()
    });
}

/// Each group holds what it must; a third of them is read at each node.
fn verify(cluster: &Cluster, told: &[Told]) {
    let began = Instant::now();
    let mut clients: Vec<Connection> = (0..NODES).map(|index| client(cluster, index)).collect();
    for (number, part) in told.chunks(PIPELINE).enumerate() {
        let first = number * PIPELINE;
        let gets = || (first..first + part.len()).map(|number| redis::cmd("GET").arg(key(number)).to_owned());
        let mut answers = Vec::new();
        // Reads may be repeated, while nodes take over from each other.
        until("all are read", || {
            answers = ask_all(&mut clients[number % NODES], gets());
            refusals(&answers).is_empty()
        });
        let wrong = part.iter().zip(&answers).enumerate();
        let wrong = wrong.filter_map(|(at, (told, value))| Some((key(first + at), told.check(value).err()?)));
        assert_eq!(wrong.collect::<Vec<_>>(), [], "LOST");
    }
    println!("{} groups hold what was acknowledged: {:.2?}", told.len(), began.elapsed());
}

/// Some are deleted, some expire; all of those are gone, and begin again when they are written again.
fn end_and_begin_some(cluster: &Cluster, told: &mut [Told]) {
    let mut client = client(cluster, 2);
    let names: Vec<String> = (0..2 * ENDED).map(key).collect();
    let (deleted, expired) = names.split_at(ENDED);
    let count: usize = redis::cmd("DEL").arg(deleted).query(&mut client).expect("deleted");
    assert_eq!(count, ENDED);
    let again = ask_all(&mut client, deleted[..10].iter().map(|name| redis::cmd("INCR").arg(name).to_owned()));
    assert_eq!(again, vec![Value::Int(1); 10]);
    let deadlines = expired.iter().map(|name| redis::cmd("PEXPIRE").arg(name).arg(1).to_owned());
    assert_eq!(ask_all(&mut client, deadlines), vec![Value::Int(1); ENDED]);
    until("they have expired", || redis::cmd("EXISTS").arg(expired).query(&mut client) == Ok(0));
    let left = told.len() - 2 * ENDED + 10;
    until("their groups are gone", || redis::cmd("DBSIZE").query(&mut client) == Ok(left));
    let counted = ask_all(&mut client, names.iter().map(|name| redis::cmd("INCR").arg(name).to_owned()));
    let expected = |at: usize| Value::Int(if at < 10 { 2 } else { 1 });
    assert_eq!(counted, (0..names.len()).map(expected).collect::<Vec<_>>());
    for (at, told) in told[..2 * ENDED].iter_mut().enumerate() {
        *told = Told { acknowledged: if at < 10 { 2 } else { 1 }, unknown: None };
    }
    assert_eq!(shown(&mut client, &names[0], "kind"), "own");
    assert_eq!(redis::cmd("DBSIZE").query(&mut client), Ok(told.len()));
}

/// One group takes almost all that is written, while every other one takes a write.
fn write_to_one(cluster: &Cluster, gigabytes: u64, told: &mut [Told]) {
    let began = Instant::now();
    let rounds = gigabytes * 1_000_000_000 / (HOT_BYTES as u64 * HOT_PIPELINE);
    let rare_each = (told.len() as u64).div_ceil(rounds.max(1)) as usize;
    let mut client = client(cluster, 0);
    let hot = redis::cmd("SET").arg("hot").arg("x".repeat(HOT_BYTES)).to_owned();
    let mut rare = told.iter_mut().enumerate();
    for _ in 0..rounds {
        let mut commands = vec![hot.clone(); HOT_PIPELINE as usize];
        for (number, told) in rare.by_ref().take(rare_each) {
            let value = told.unknown.unwrap_or(told.acknowledged) + 1;
            *told = Told { acknowledged: value, unknown: None };
            commands.push(redis::cmd("SET").arg(key(number)).arg(value).to_owned());
        }
        let answers = ask_all(&mut client, commands.into_iter());
        assert!(answers.iter().all(|answer| *answer == Value::Okay), "{:?}", refusals(&answers));
    }
    println!("{gigabytes} GB to one group while each other one was written once: {:.2?}", began.elapsed());
}

/// The logs, looked at every second.
#[derive(Default)]
struct Samples {
    is_over: AtomicBool,
    count: AtomicU64,
    bytes_max: AtomicU64,
    /// What a log took beyond thrice what was needed of it.
    excess_max: AtomicU64,
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Samples {
    fn take(&self, addresses: &[(&'static str, u16)]) {
        while !self.is_over.load(Ordering::SeqCst) {
            let told = addresses.iter().find_map(|&address| {
                let mut client = connect(address).ok()?;
                let text: String = redis::cmd("QUORATE").arg(&["STATUS", "JSON"]).query(&mut client).ok()?;
                serde_json::from_str::<quorate_node::status::Status>(&text).ok()
            });
            for own in told.iter().flat_map(|status| &status.nodes).filter_map(|node| node.own.as_ref()) {
                self.count.fetch_add(1, Ordering::SeqCst);
                self.bytes_max.fetch_max(own.log.bytes, Ordering::SeqCst);
                self.excess_max.fetch_max(own.log.bytes.saturating_sub(3 * own.log.live_bytes), Ordering::SeqCst);
            }
            thread::sleep(Duration::from_secs(1));
        }
    }

    fn judge(&self) {
        let [count, bytes, excess] =
            [&self.count, &self.bytes_max, &self.excess_max].map(|figure| figure.load(Ordering::SeqCst));
        println!("{count} looks at logs: {} MiB at most, {} beyond thrice what was needed", bytes >> 20, excess >> 20);
        assert!(count > 0 && excess <= LOG_BYTES_SPARE, "a log took {excess} bytes beyond thrice what was needed");
    }
}
