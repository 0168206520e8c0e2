//! Client libraries in other languages, and redis-rs: each is asked what `clients/README.md` says, and must find its way
//! back to a node that was killed and started again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use redis::{Connection, RedisResult, Value};

use crate::nodes::{Cluster, until};

/// Scripts below `clients`, and what they want to be told before the address.
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("go/run", &[]),
    ("node/run", &["ioredis"]),
    ("node/run", &["node-redis"]),
    ("java/run", &["jedis"]),
    ("java/run", &["lettuce"]),
];
/// The first time, a script fetches and builds.
const READY_WITHIN: Duration = Duration::from_secs(600);
const OVER_WITHIN: Duration = Duration::from_secs(90);
/// How long a program may count before its node is killed, and without its node.
const COUNTING: Duration = Duration::from_millis(300);
const PIPELINE_LENGTH: i64 = 1000;

#[test]
#[ignore = "fetches the libraries and what builds them: cargo xtask long clients"]
fn libraries_of_other_languages_find_what_they_expect() {
    let mut cluster = Cluster::started("clients", 3);
    for (script, words) in PROGRAMS {
        for protocol in ["2", "3"] {
            let mut program = Program::start(&cluster, script, words, protocol);
            program.expect("ready", READY_WITHIN);
            thread::sleep(COUNTING);
            cluster.kill(0);
            thread::sleep(COUNTING);
            cluster.start_by_hand(0);
            program.tell("the node is back");
            println!("{}", program.expect("ok ", OVER_WITHIN));
        }
    }
}

/// A script that runs until its value goes.
struct Program {
    child: Child,
    told: Receiver<String>,
}

impl Program {
    fn start(cluster: &Cluster, script: &str, words: &[&str], protocol: &str) -> Program {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(script);
        let (host, port) = cluster.address(0);
        let mut command = Command::new(path);
        command.args(words).args([host, &port.to_string(), protocol]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, told) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines() {
                if line.is_ok_and(|line| sender.send(line).is_ok()) {
                    continue;
                }
                break;
            }
        });
        Program { child, told }
    }

    /// Waits for a line that begins so.
    fn expect(&mut self, start: &str, within: Duration) -> String {
        let line = self.told.recv_timeout(within).expect("a program that goes on, or tells on standard error why not");
        assert!(line.starts_with(start), "{line}");
        line
    }

    fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("the program listens");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn redis_rs_finds_what_it_expects() {
    let mut cluster = Cluster::started("redis-rs", 3);
    for protocol in ["resp2", "resp3"] {
        let (host, port) = cluster.address(0);
        let client = redis::Client::open(format!("redis://{host}:{port}/?protocol={protocol}")).expect("an address");
        let mut connection = client.get_connection().expect("the node takes clients");
        ask(&mut connection, protocol).expect("answers as of Redis");
        pipeline(&mut connection).expect("a pipeline");
        cluster.kill(0);
        let lost: RedisResult<i64> = redis::cmd("INCR").arg("counter").query(&mut connection);
        assert!(lost.expect_err("the node is gone").is_io_error());
        cluster.start_by_hand(0);
        until("the library connects again", || {
            client.get_connection().is_ok_and(|mut connection| pipeline(&mut connection).is_ok())
        });
    }
}

fn ask(connection: &mut Connection, protocol: &str) -> RedisResult<()> {
    let key = |name: &str| format!("{protocol}:{name}");
    let binary: &[u8] = b"\x00\r\n\xff";
    let mut call = |words: &[&[u8]]| -> RedisResult<Value> {
        let (name, words) = words.split_first().expect("a command");
        let mut command = redis::Cmd::new();
        command.arg(*name).arg(words);
        command.query(connection)
    };
    let (a, b, nothing) = (key("a"), key("b"), key("nothing"));
    let (a, b, nothing) = (a.as_bytes(), b.as_bytes(), nothing.as_bytes());
    assert_eq!(call(&[b"PING"])?, Value::SimpleString("PONG".to_owned()));
    assert_eq!(call(&[b"SET", a, binary, b"EX", b"3600"])?, Value::Okay);
    assert_eq!(call(&[b"GET", a])?, Value::BulkString(binary.to_vec()));
    assert!(matches!(call(&[b"TTL", a])?, Value::Int(3590..=3600)));
    assert_eq!(call(&[b"GET", nothing])?, Value::Nil);
    assert!(call(&[b"INCR", a]).expect_err("text").to_string().contains("not an integer"));
    assert_eq!(call(&[b"MSET", a, b"1", b, b"2"])?, Value::Okay);
    let strings = |text: &[u8]| Value::BulkString(text.to_vec());
    assert_eq!(call(&[b"MGET", a, nothing, b])?, Value::Array(vec![strings(b"1"), Value::Nil, strings(b"2")]));
    assert_eq!(call(&[b"INCRBYFLOAT", b, b"0.5"])?, strings(b"2.5"));
    assert_eq!(call(&[b"DEL", a, b, nothing])?, Value::Int(2));
    Ok(())
}

fn pipeline(connection: &mut Connection) -> RedisResult<()> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("DEL").arg("pipeline").ignore();
    for _ in 0..PIPELINE_LENGTH {
        pipeline.cmd("INCR").arg("pipeline");
    }
    let replies: Vec<i64> = pipeline.query(connection)?;
    assert_eq!(replies, (1..=PIPELINE_LENGTH).collect::<Vec<_>>());
    Ok(())
}
