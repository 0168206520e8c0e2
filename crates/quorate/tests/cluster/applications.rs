//! Objects are given to applications, of which some fail, while nodes are killed: what clients were told has happened once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use quorate_resp::{ReplyLimits, ReplyParser, ReplyWriter, Value, Version};
use redis::{RedisResult, cmd};

use crate::nodes::{Cluster, until};
use crate::random::Random;

const RUN: Duration = Duration::from_secs(8);
const KEYS: u64 = 3;
const CLIENTS: usize = 9;

/// A counter that hangs up now and then, before or after it has counted, and in the middle of what it says.
struct Counter {
    address: SocketAddr,
    hung_up: Arc<AtomicI64>,
}

impl Counter {
    fn start(mut random: Random) -> Counter {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let hung_up = Arc::new(AtomicI64::new(0));
        let counted = hung_up.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (random, counted) = (Random::new(random.below(u64::MAX)), counted.clone());
                thread::spawn(move || {
                    if count(stream, random).is_none() {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Counter { address, hung_up }
    }
}

/// None if it has hung up by itself.
fn count(mut stream: TcpStream, mut random: Random) -> Option<()> {
    let mut parser = ReplyParser::new(ReplyLimits::default());
    let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let (consumed, request) = parser.parse(&input).expect("the node speaks RESP");
        input.drain(..consumed);
        let Some(request) = request else {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return Some(()),
                Ok(length) => input.extend_from_slice(&buffer[..length]),
            }
            continue;
        };
        let Value::Array(words) = request else { panic!("{request:?}") };
        let mut answer = Vec::new();
        let mut writer = ReplyWriter::new(&mut answer, Version::Resp2);
        match &words[..] {
            [Value::Bulk(name), ..] if name == b"QUORATE" => writer.simple("OK"),
            [_, _, object, word @ ..] => {
                let number = match object {
                    Value::Bulk(object) => str::from_utf8(object).expect("text").parse().expect("a number"),
                    _ => 0,
                };
                match word {
                    [] => {
                        writer.array(1);
                        writer.integer(number);
                    }
                    _ => {
                        writer.array(2);
                        writer.integer(number + 1);
                        writer.bulk((number + 1).to_string().as_bytes());
                    }
                }
                match random.below(100) {
                    0 => return None,
                    1 => answer.truncate(answer.len() / 2),
                    _ => {}
                }
            }
            _ => panic!("{words:?}"),
        }
        if stream.write_all(&answer).is_err() {
            return Some(());
        }
        if !answer.ends_with(b"\r\n") || answer.len() < 5 {
            return None;
        }
    }
}

/// What the clients know of one counter.
#[derive(Default)]
struct Known {
    /// The numbers that they were told after adding.
    added: Mutex<Vec<i64>>,
    /// Calls of which nobody knows.
    unknown: AtomicI64,
    /// The highest number that anybody was told.
    told: AtomicI64,
}

fn key(number: usize) -> String {
    format!("counter:{number}")
}

fn call(known: &[Known], mut random: Random, address: (&str, u16), is_over: &AtomicBool) {
    let mut client = None;
    while !is_over.load(Ordering::Relaxed) {
        client = client.or_else(|| crate::nodes::connect(address).ok());
        let Some(connected) = &mut client else {
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let number = random.below(KEYS) as usize;
        let adds = random.below(3) > 0;
        let mut command = cmd(if adds || random.below(2) == 0 { "FCALL" } else { "FCALL_RO" });
        command.arg("counter").arg(1).arg(key(number));
        if adds {
            command.arg("add");
        }
        let known = &known[number];
        let told_before = known.told.load(Ordering::SeqCst);
        match command.query::<i64>(connected) {
            Ok(value) => {
                assert!(value >= told_before + i64::from(adds), "{value} is older than {told_before}");
                known.told.fetch_max(value, Ordering::SeqCst);
                if adds {
                    known.added.lock().expect("nobody has panicked").push(value);
                }
            }
            // The connection is still good.
            Err(error) if matches!(error.code(), Some("NOQUORUM" | "TRYAGAIN" | "LOADING" | "APPLICATION")) => {}
            Err(_) => {
                known.unknown.fetch_add(i64::from(adds), Ordering::Relaxed);
                client = None;
            }
        }
    }
}

#[test]
fn calls_of_applications_that_fail_happen_once_or_not_at_all() {
    let mut random = Random::announced();
    let counter = Counter::start(Random::new(random.below(u64::MAX)));
    let mut cluster = Cluster::new("applications", 3);
    let mut command = cluster.up_command();
    command.arg("--application").arg(format!("counter={}", counter.address));
    cluster.up_as(command);
    // One object in a volume, one with a group of its own, one in a chain.
    let mut client = cluster.client(0);
    for command in ["set counter:1 1", "set counter:2 1", "promote counter:1", "promote counter:2 protocol chain"] {
        let words = if command.starts_with("set") { command.to_owned() } else { format!("quorate group {command}") };
        ask::<String>(&mut client, &words).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    let known: Arc<Vec<Known>> = Arc::new((0..KEYS).map(|_| Known::default()).collect());
    let is_over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let address = cluster.address(number % 3);
            let (known, is_over, random) = (known.clone(), is_over.clone(), Random::new(random.below(u64::MAX)));
            thread::spawn(move || call(&known, random, address, &is_over))
        })
        .collect();
    let started = Instant::now();
    let told = |known: &[Known]| known.iter().map(|known| known.told.load(Ordering::SeqCst)).sum::<i64>();
    while started.elapsed() < RUN {
        let victim = random.below(3) as usize;
        thread::sleep(Duration::from_millis(500 + random.below(500)));
        cluster.kill(victim);
        thread::sleep(Duration::from_millis(random.below(700)));
        cluster.start_by_hand(victim);
        let before = told(&known);
        until("counting goes on", || told(&known) > before);
    }
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no client has panicked"));
    for (number, known) in known.iter().enumerate() {
        let first = i64::from(number > 0);
        let mut count = None;
        until("the last number is read", || {
            let read = |mut client| ask::<i64>(&mut client, &format!("get {}", key(number))).ok();
            count = cluster.try_client(1).ok().and_then(read);
            count.is_some()
        });
        let count = count.unwrap_or_default() - first;
        let mut added = known.added.lock().expect("nobody has panicked").clone();
        let (told, unknown) = (added.len() as i64, known.unknown.load(Ordering::Relaxed));
        added.sort_unstable();
        added.dedup();
        println!("{}: {told} calls answered, {unknown} not, {count} executed", key(number));
        assert_eq!(added.len() as i64, told, "two calls made the same number");
        assert!(
            (told..=told + unknown).contains(&count),
            "{told} calls were answered, {unknown} not, {count} executed"
        );
        assert!(told > 50, "too little happened");
    }
    assert!(counter.hung_up.load(Ordering::Relaxed) > 0, "the application never failed");
}

fn ask<T: redis::FromRedisValue>(client: &mut redis::Connection, line: &str) -> RedisResult<T> {
    let mut words = line.split(' ');
    let mut command = cmd(words.next().unwrap_or_default());
    words.for_each(|word| {
        command.arg(word);
    });
    command.query(client)
}

/// The applications in `applications/`.
#[test]
fn applications_in_python_are_served() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = Command::new(repository.join("scripts/redis-py")).stderr(Stdio::inherit()).output().expect("started");
    let python = String::from_utf8(python.stdout).expect("a path");
    let mut cluster = Cluster::new("applications-python", 3);
    let mut command = cluster.up_command();
    let mut programs = Vec::new();
    for name in ["stock", "sqlite"] {
        let address = format!("unix:{}", cluster.scratch().join(format!("{name}.sock")).display());
        command.arg("--application").arg(format!("{name}={address}"));
        let program = repository.join("applications").join(format!("{name}.py"));
        let mut start = Command::new(python.trim());
        start.env("PYTHONDONTWRITEBYTECODE", "1").arg(program).arg(address);
        programs.push(Ended(start.spawn().expect("started")));
    }
    cluster.up_as(command);
    let mut clients: Vec<_> = (0..3).map(|node| cluster.client(node)).collect();
    until("the application answers", || ask::<i64>(&mut clients[0], "fcall stock 1 apples add 10").is_ok());
    assert_eq!(ask::<i64>(&mut clients[1], "fcall stock 1 apples take 3"), Ok(7));
    let refused = ask::<i64>(&mut clients[2], "fcall stock 1 apples take 8").expect_err("there are not enough");
    assert_eq!((refused.code(), refused.detail()), (Some("STOCK"), Some("there are 7")));
    let refused = ask::<i64>(&mut clients[2], "fcall_ro stock 1 apples take 1").expect_err("it would write");
    assert_eq!(refused.code(), Some("APPLICATION"));
    assert_eq!(ask::<i64>(&mut clients[2], "fcall_ro stock 1 apples count"), Ok(7));
    let sql = |client: &mut redis::Connection, words: &[&str]| {
        cmd("FCALL").arg("sqlite").arg(1).arg("shop").arg(words).query::<redis::Value>(client)
    };
    until("the application answers", || {
        sql(&mut clients[0], &["create table if not exists orders (item, count)"]).is_ok()
    });
    assert_eq!(sql(&mut clients[1], &["insert into orders values (?, ?)", "apples", "3"]), Ok(redis::Value::Int(1)));
    let rows = cmd("FCALL_RO").arg("sqlite").arg(1).arg("shop").arg("select * from orders").query(&mut clients[2]);
    assert_eq!(rows, Ok(vec![vec!["apples".to_owned(), "3".to_owned()]]));
    assert!(sql(&mut clients[2], &["selec"]).is_err_and(|error| error.code() == Some("SQL")));
    // One that has ended is told of at once.
    programs.clear();
    let refused = ask::<i64>(&mut clients[0], "fcall stock 1 apples add 10").expect_err("it has ended");
    assert_eq!(refused.code(), Some("APPLICATION"));
    assert_eq!(ask::<i64>(&mut clients[0], "get apples"), Ok(7));
}

/// A program that ends with its value.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
