//! What a client may take of a node, at the edge.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use crate::common::{Nodes, PATIENCE};

/// Reads until the other side closes; the bytes that came.
fn read_to_end(stream: &mut std::net::TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return received,
            Ok(length) => received.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return received,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn one_client_too_many_is_told_so() {
    let mut nodes = Nodes::new(1);
    nodes.configs[0].limits.clients = 2;
    nodes.start(0);
    let (mut first, mut second) = (nodes.client(0), nodes.client(0));
    assert_eq!(first.call(&["PING"]), "+PONG");
    assert_eq!(second.call(&["PING"]), "+PONG");
    let mut third = nodes.client(0);
    assert_eq!(third.line(), "-ERR max number of clients reached");
    drop(second);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut again = nodes.client(0);
        again.send(&["PING"]);
        if again.line() == "+PONG" {
            break;
        }
        assert!(Instant::now() < deadline, "the place of a client that left is free");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_that_reads_nothing_is_disconnected_beyond_the_output_limit() {
    let mut nodes = Nodes::new(1);
    nodes.configs[0].limits.output_buffer_bytes = 17 << 20;
    nodes.start(0);
    let mut client = nodes.client(0);
    let value = "v".repeat(4 << 20);
    assert_eq!(client.call_until_served(&["SET", "large", &value]), "+OK");
    let mut greedy = nodes.client(0);
    let request = b"GET large\r\n".repeat(64);
    greedy.stream.write_all(&request).unwrap();
    // Long enough for all answers to be ready; nothing is read meanwhile.
    std::thread::sleep(Duration::from_millis(500));
    let received = read_to_end(&mut greedy.stream);
    assert!(received.len() < 64 * value.len(), "{} bytes were kept for it", received.len());
    assert_eq!(client.call(&["PING"]), "+PONG");
}

#[test]
fn a_slow_reader_gets_everything_if_it_stays_within_the_limit() {
    let nodes = Nodes::started(1);
    let mut client = nodes.client(0);
    let value = "v".repeat(1 << 20);
    assert_eq!(client.call_until_served(&["SET", "large", &value]), "+OK");
    client.stream.write_all(&b"GET large\r\n".repeat(40)).unwrap();
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let received = read_to_end(&mut client.stream);
    let one = format!("${}\r\n{value}\r\n", value.len());
    assert_eq!(received.len(), 40 * one.len());
}

#[test]
fn requests_that_never_end_are_disconnected() {
    let mut nodes = Nodes::new(1);
    nodes.configs[0].limits.query_buffer_bytes = 1 << 20;
    nodes.start(0);
    let mut client = nodes.client(0);
    let mut endless = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$8388608\r\n".to_vec();
    endless.resize(4 << 20, b'v');
    // The node may close before it has taken all of it.
    let _ = client.stream.write_all(&endless);
    assert!(read_to_end(&mut client.stream).is_empty());
    assert_eq!(nodes.client(0).call(&["PING"]), "+PONG");
}

#[test]
fn the_largest_value_is_stored_and_one_byte_more_is_told_so() {
    let nodes = Nodes::started(1);
    let mut client = nodes.client(0);
    let largest = "v".repeat(16 << 20);
    assert_eq!(client.call_until_served(&["SET", "large", &largest]), "+OK");
    assert_eq!(client.call(&["STRLEN", "large"]), format!(":{}", 16 << 20));
    // All of it is sent before anything is read, as clients do.
    client.send(&["SET", "larger", &(largest + "v")]);
    assert_eq!(read_to_end(&mut client.stream), b"-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(nodes.client(0).call(&["EXISTS", "large", "larger"]), ":1");
}

#[test]
fn large_answers_that_nobody_reads_are_not_all_made_at_once() {
    let nodes = Nodes::started(1);
    let mut client = nodes.client(0);
    let value = "v".repeat(8 << 20);
    assert_eq!(client.call_until_served(&["SET", "large", &value]), "+OK");
    // 160 GB, asked for at once.
    let mut greedy: Vec<_> = (0..4).map(|_| nodes.client(0)).collect();
    for client in &mut greedy {
        client.stream.write_all(&b"GET large\r\n".repeat(5_000)).unwrap();
    }
    for _ in 0..100 {
        assert_eq!(client.call(&["STRLEN", "large"]), format!(":{}", 8 << 20));
    }
    // They are slow, not gone: whoever reads gets its answers.
    for client in &mut greedy {
        let mut received = vec![0; 24 << 20];
        client.stream.read_exact(&mut received).unwrap();
    }
}
