//! Conversations recorded from Redis 7.0.15, byte for byte.
//!
//! In the files of `tests/golden`, `> ` is a line that a client sends, `< ` the escaped bytes that Redis answered, and
//! `~ ` a line whose answer is not compared. To compare the files with a living Redis:
//! `REDIS=127.0.0.1:6379 cargo test -p quorate-front --test golden -- --ignored` (it empties that Redis).

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use support::Talk;

enum Line {
    Compared { request: String, reply: String },
    Ignored { request: String },
}

fn conversations() -> Vec<(PathBuf, Vec<Line>)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<_> = fs::read_dir(directory)
        .expect("the recorded conversations are there")
        .map(|entry| entry.expect("a readable directory").path())
        .collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), conversation(&path))).collect()
}

fn conversation(path: &PathBuf) -> Vec<Line> {
    let text = fs::read_to_string(path).expect("a readable file");
    let mut lines = text.lines();
    let mut conversation = Vec::new();
    while let Some(line) = lines.next() {
        conversation.push(match line.split_at(2) {
            ("> ", request) => {
                let reply = lines.next().and_then(|line| line.strip_prefix("< "));
                let reply = reply.unwrap_or_else(|| panic!("{line:?} has no reply")).to_string();
                Line::Compared { request: request.to_string(), reply }
            }
            ("~ ", request) => Line::Ignored { request: request.to_string() },
            _ => panic!("{line:?} is neither a request nor a reply"),
        });
    }
    conversation
}

/// Holds all conversations, each on a connection of its own, and compares the replies.
fn compare(mut connect: impl FnMut() -> Box<dyn FnMut(&str) -> String>) {
    let mut differences = Vec::new();
    let mut compared = 0;
    for (path, conversation) in conversations() {
        let mut ask = connect();
        for line in conversation {
            match line {
                Line::Ignored { request } => drop(ask(&request)),
                Line::Compared { request, reply } => {
                    let found = ask(&request);
                    compared += 1;
                    if found != reply {
                        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                        differences.push(format!("{name}: {request}\n  want {reply}\n  have {found}"));
                    }
                }
            }
        }
    }
    assert!(compared > 700, "only {compared} replies were compared");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn replies_are_those_of_redis() {
    compare(|| {
        let mut talk = Talk::default();
        Box::new(move |request| talk.ask(request))
    });
}

#[test]
#[ignore = "needs a Redis 7.0 at the address in REDIS, and empties it"]
fn the_recording_is_what_redis_says() {
    let address = std::env::var("REDIS").expect("REDIS names a server");
    compare(|| {
        let mut stream = TcpStream::connect(&address).expect("a Redis listens");
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket takes timeouts");
        let mut ask = move |request: &str| {
            stream.write_all(format!("{request}\r\n").as_bytes()).expect("Redis reads");
            let mut reply = Vec::new();
            let mut buffer = [0; 65_536];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                reply.extend_from_slice(&buffer[..length]);
            }
            reply.escape_ascii().to_string()
        };
        ask("FLUSHALL");
        Box::new(ask)
    });
}
