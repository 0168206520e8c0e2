//! Who is let in: passwords on the client port, tokens on the admin port, and what a stranger may do.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use quorate_server::auth::secrets::Token;

use crate::common::{Nodes, PATIENCE, until};

const PASSWORD: &str = "open sesame";
/// Of that, by another implementation, and quickly checked: what is tested here does not depend on its being slow.
const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$zhtFVFdMeYvy7p79IuYRAg$MDfgJiFTzn0l38zAVtkdSVNwQRYMgsgdewNAxpgHYIM";
const NO_AUTH: &str = "-NOAUTH Authentication required.";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

fn with_password() -> Nodes {
    let mut nodes = Nodes::new(1);
    nodes.configs[0].auth.password_hash = Some(HASH.parse().expect("a hash"));
    nodes.start(0);
    nodes
}

#[test]
fn the_password_opens_and_nothing_else_does() {
    let nodes = with_password();
    let mut client = nodes.client(0);
    assert_eq!(client.call(&["GET", "key"]), NO_AUTH);
    assert_eq!(client.call(&["AUTH", "open sesam"]), WRONG);
    assert_eq!(client.call(&["AUTH", "admin", PASSWORD]), WRONG);
    assert_eq!(client.call(&["GET", "key"]), NO_AUTH);
    // What is sent behind the password waits for the verdict, and is then served.
    client.send(&["AUTH", PASSWORD]);
    client.send(&["PING"]);
    assert_eq!([client.line(), client.line()], ["+OK", "+PONG"]);
    assert_eq!(client.call_until_served(&["SET", "key", "value"]), "+OK");
    let mut other = nodes.client(0);
    assert_eq!(other.call(&["HELLO", "3", "AUTH", "default", PASSWORD]), "%7");
    let mut third = nodes.client(0);
    assert_eq!(third.call(&["PING"]), NO_AUTH, "each connection for itself");
}

#[test]
fn secrets_change_while_the_node_runs_and_who_is_in_stays() {
    let mut nodes = Nodes::new(1);
    nodes.start(0);
    let mut reloader = nodes.reloader(0);
    let mut before = nodes.client(0);
    assert_eq!(before.call(&["PING"]), "+PONG");
    let mut config = nodes.configs[0].clone();
    config.auth.password_hash = Some(HASH.parse().expect("a hash"));
    config.auth.admin_token_hash = Some(Token::random().expect("random").hash());
    reloader.reload(config.clone());
    until("the password is asked for", || nodes.client(0).call(&["PING"]) == NO_AUTH);
    assert_eq!(nodes.client(0).call(&["AUTH", PASSWORD]), "+OK");
    assert_eq!(before.call(&["PING"]), "+PONG");
    assert_eq!(nodes.http(0, "GET /namespaces").0, 401);
    // One that would let in everybody from everywhere changes nothing.
    let mut open = nodes.configs[0].clone();
    open.listen.client = "0.0.0.0:7000".parse().expect("an address");
    reloader.reload(open);
    assert_eq!(nodes.http(0, "GET /namespaces").0, 401);
    reloader.reload(nodes.configs[0].clone());
    until("nobody is asked", || nodes.client(0).call(&["PING"]) == "+PONG");
    assert_ne!(nodes.http(0, "GET /namespaces").0, 401);
}

#[test]
fn guessing_is_slowed_down_and_a_right_guess_not_told() {
    let nodes = with_password();
    let mut client = nodes.client(0);
    let limited = "-ERR too many wrong passwords from this address, try again in ";
    let started = Instant::now();
    let mut guesses = 0;
    let reply = loop {
        let reply = client.call(&["AUTH", &format!("guess {guesses}")]);
        if reply != WRONG {
            break reply;
        }
        guesses += 1;
        assert!(guesses < 1000, "nobody stops it");
    };
    assert!(reply.starts_with(limited), "{reply}");
    // Ten, and one more for each second that it took.
    assert!(guesses >= 10 && guesses <= 11 + started.elapsed().as_secs(), "{guesses}");
    let mut other = nodes.client(0);
    assert!(other.call(&["AUTH", PASSWORD]).starts_with(limited), "the same address");
    let deadline = Instant::now() + PATIENCE;
    while other.call(&["AUTH", PASSWORD]) != "+OK" {
        assert!(Instant::now() < deadline, "never allowed again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_guest_beyond_its_limits_is_disconnected() {
    let nodes = with_password();
    for (bytes, text) in [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length"),
        ("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length"),
    ] {
        let mut client = nodes.client(0);
        client.stream.write_all(bytes.as_bytes()).expect("it is read");
        assert_eq!(client.line(), text);
        assert_eq!(client.stream.read(&mut [0; 1]).expect("an end"), 0);
    }
    let mut client = nodes.client(0);
    assert_eq!(client.call(&["AUTH", &"x".repeat(16384)]), WRONG);
    // One reply of more than 1 KiB: not a byte of it is sent.
    client.send(&["HELLO", "3", &"x".repeat(2000)]);
    assert_eq!(client.stream.read(&mut [0; 1]).expect("an end"), 0);
}

#[test]
fn administrators_show_their_token() {
    let mut nodes = Nodes::new(1);
    let token = Token::random().expect("random");
    nodes.configs[0].auth.admin_token_hash = Some(token.hash());
    nodes.start(0);
    assert_eq!(nodes.http(0, "GET /healthz").0, 200, "for everybody");
    for request in ["GET /", "GET /status", "GET /namespaces", "POST /namespaces/1", "DELETE /namespaces/1", "GET /no"]
    {
        assert_eq!(nodes.http(0, request).0, 401, "{request}");
    }
    let with = |token: &str| nodes.http_with(0, "GET /namespaces", &format!("authorization: {token}\r\n")).0;
    assert_eq!(with(&format!("Bearer {}x", token.expose())), 401);
    assert_eq!(with(&format!("Basic {}", token.expose())), 401);
    assert_eq!(with("Bearer"), 401);
    assert_ne!(with(&format!("Bearer {}", token.expose())), 401);
    assert_ne!(with(&format!("bearer {}", token.expose())), 401);
}

#[test]
fn a_node_that_others_can_reach_does_not_start_without_a_password() {
    let mut nodes = Nodes::new(1);
    let port = nodes.configs[0].listen.client.port();
    nodes.configs[0].listen.client = ([0, 0, 0, 0], port).into();
    let refused = quorate_server::Node::start(nodes.configs[0].clone()).expect_err("exposed").to_string();
    assert!(refused.starts_with(&format!("listen.client is 0.0.0.0:{port}")), "{refused}");
    assert!(!nodes.configs[0].node.data_dir.exists(), "it touched nothing");
    nodes.configs[0].auth.insecure = true;
    nodes.start(0);
    assert_eq!(nodes.client(0).call(&["PING"]), "+PONG");
}
