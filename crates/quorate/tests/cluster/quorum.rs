//! Two nodes of three are gone: every command is answered all the same, and in time.

use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::nodes::{Cluster, until};

/// The server's deadline for a command, and what a busy machine adds.
const DEADLINE: Duration = Duration::from_secs(5);
const BUSY: Duration = Duration::from_secs(4);

/// What needs a quorum, of every kind. `{}` is a key that only this try names.
const COMMANDS: [&str; 22] = [
    "GET {}",
    "SET {} x",
    "SET {} x EX 100",
    "GETSET {} x",
    "INCR {}",
    "INCRBYFLOAT {} 1.5",
    "APPEND {} x",
    "SETRANGE {} 3 x",
    "MGET {} kept",
    "MSET {} x {}:b y",
    "DEL {}",
    "EXISTS {}",
    "TYPE {}",
    "TTL {}",
    "EXPIRE {} 100",
    "SCAN 0",
    "KEYS *",
    "DBSIZE",
    "FLUSHDB",
    "QUORATE NAMESPACE CREATE 7",
    "QUORATE NAMESPACE SET 0 READS quorum",
    "QUORATE NAMESPACE DROP 7",
];

/// What a node answers by itself.
const LOCAL: [&str; 7] =
    ["PING", "TIME", "INFO", "CLIENT LIST", "CONFIG GET port", "QUORATE STATUS JSON", "QUORATE NAMESPACE LIST"];

#[test]
fn without_a_quorum_every_command_is_answered_and_none_that_was_refused_is_executed() {
    let mut cluster = Cluster::started("quorum", 3);
    assert_eq!(ask(&mut cluster.client(0), "SET kept x"), Value::Okay);
    cluster.kill(1);
    // Standing still is as good as gone.
    cluster.freeze(2);
    let mut refused = Vec::new();
    let sent_at = Instant::now();
    // At first the node hopes for the others, and refuses nothing at once; but it may have seen that they are gone.
    let reply = try_to(&cluster, "SET {} x", 0, &mut refused);
    assert!(["TIMEOUT", "NOQUORUM"].contains(&code(&reply)), "{reply:?}");
    assert!(sent_at.elapsed() < DEADLINE + BUSY, "{:?}", sent_at.elapsed());
    for (number, command) in COMMANDS.iter().enumerate() {
        let sent_at = Instant::now();
        let reply = try_to(&cluster, command, number + 1, &mut refused);
        assert_eq!(code(&reply), "NOQUORUM", "{command}: {reply:?}");
        assert!(sent_at.elapsed() < BUSY, "{command} was refused after {:?}", sent_at.elapsed());
    }
    for command in LOCAL {
        let sent_at = Instant::now();
        let reply = ask(&mut cluster.client(0), command);
        assert_eq!(code(&reply), "", "{command}: {reply:?}");
        assert!(sent_at.elapsed() < BUSY, "{command} was answered after {:?}", sent_at.elapsed());
    }
    cluster.start_by_hand(1);
    let mut client = cluster.client(0);
    until("two of three nodes take writes", || ask(&mut client, "SET again x") == Value::Okay);
    assert_eq!(ask(&mut client, "GET kept"), Value::BulkString(b"x".to_vec()));
    assert!(refused.len() > COMMANDS.len() / 2, "{refused:?}");
    for key in refused {
        assert_eq!(ask(&mut client, &format!("EXISTS {key}")), Value::Int(0), "{key} was written by a refused command");
    }
    cluster.signal(2, libc::SIGCONT);
    until("the third node serves again", || code(&ask(&mut cluster.client(2), "GET kept")).is_empty());
}

/// Tries a command with a key of its own, which is noted if the command was refused.
fn try_to(cluster: &Cluster, command: &str, number: usize, refused: &mut Vec<String>) -> Value {
    let key = format!("try:{number}");
    let reply = ask(&mut cluster.client(0), &command.replace("{}", &key));
    if code(&reply) == "NOQUORUM" && command.contains("{}") {
        refused.push(key);
    }
    reply
}

fn ask(client: &mut Connection, line: &str) -> Value {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().expect("a command has words"));
    words.for_each(|word| {
        command.arg(word);
    });
    let sent = client.send_packed_command(&command.get_packed_command());
    sent.and_then(|()| client.recv_response()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// The first word of an error, or nothing.
fn code(reply: &Value) -> &str {
    match reply {
        Value::ServerError(error) => error.code(),
        _ => "",
    }
}
