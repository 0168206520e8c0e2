//! Strangers at every port: garbage, silence, and connections that are never used.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::{Nodes, PATIENCE, until};

/// Repeatable noise.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 32) as u8
    };
    (0..length).map(|_| next(&mut state)).collect()
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
    stream
}

/// What a closed connection says; through TLS, which writes what it still has to before it reads, and misses a goodbye, too.
const CLOSED: [ErrorKind; 3] = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe, ErrorKind::UnexpectedEof];

/// Waits until the other side closes the connection.
pub fn assert_closed(stream: &mut impl Read) {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if CLOSED.contains(&error.kind()) => return,
            Err(error) => panic!("it is still open: {error}"),
        }
    }
}

#[test]
fn garbage_at_every_port_harms_nobody() {
    let nodes = Nodes::started(1);
    let listen = nodes.configs[0].listen;
    for address in [listen.client, listen.peer, listen.admin] {
        for seed in 0..100 {
            let mut stream = connect(address);
            // It may be refused before all of it is written.
            let _ = stream.write_all(&noise(seed, 1 << (seed % 16)));
            let _ = stream.write_all(b"\r\n\r\n");
        }
        let mut stream = connect(address);
        let _ = stream.write_all(&noise(7, 4 << 20));
        assert_closed(&mut stream);
    }
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"\x43\x00\x01QUORATE\n\x01"] {
        // It may be refused before all of it is written.
        let _ = connect(listen.peer).write_all(garbage);
    }
    assert_eq!(nodes.client(0).call_until_served(&["SET", "key", "value"]), "+OK");
    assert_eq!(nodes.http(0, "GET /healthz").0, 200);
}

#[test]
fn connections_that_say_nothing_neither_stay_at_the_peer_port_nor_keep_nodes_out() {
    let mut nodes = Nodes::started(3);
    assert_eq!(nodes.client(0).call_until_served(&["SET", "key", "value"]), "+OK");
    nodes.kill(2);
    let peer = nodes.configs[0].listen.peer;
    // More than there are places for, and half of them have begun to greet.
    let mut silent: Vec<TcpStream> = (0..100).map(|_| connect(peer)).collect();
    for stream in silent.iter_mut().step_by(2) {
        let _ = stream.write_all(b"\x43");
    }
    nodes.start(2);
    let mut client = nodes.client(2);
    assert_eq!(client.call_until_served(&["GET", "key"]), "value");
    silent.iter_mut().for_each(assert_closed);
}

#[test]
fn clients_that_vanish_or_stall_in_the_middle_of_a_request_do_not_hold_up_others() {
    let mut nodes = Nodes::new(1);
    nodes.configs[0].limits.request_s = 1;
    nodes.start(0);
    let mut client = nodes.client(0);
    assert_eq!(client.call_until_served(&["SET", "key", "value"]), "+OK");
    let address = nodes.configs[0].listen.client;
    let mut stalled: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
    for (number, stream) in stalled.iter_mut().enumerate() {
        stream.write_all(b"*2\r\n$3\r\nGET\r\n$3\r\nke").expect("it is read");
        if number % 2 == 0 {
            stream.shutdown(std::net::Shutdown::Both).expect("it is open");
        }
    }
    for _ in 0..100 {
        assert_eq!(client.call(&["GET", "key"]), "value");
    }
    stalled.iter_mut().skip(1).step_by(2).for_each(assert_closed);
    let mut other = nodes.client(0);
    until("only who talks is counted", || {
        other.send(&["INFO", "clients"]);
        let length: usize = other.line()[1..].parse().expect("a bulk string");
        let mut text = String::new();
        while text.len() < length {
            text += &(other.line() + "\r\n");
        }
        assert_eq!(other.line(), "");
        text.contains("connected_clients:2\r\n")
    });
}
