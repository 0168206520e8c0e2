//! The sockets are real; the time is the test's.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use mio::{Events, Poll, Token};
use quorate_front::{Access, Limits, Request, ServerInfo, Verdict};

use super::client::{GUEST_US, LINGER_US, OUTPUT_PATIENCE_US};
use super::*;

const SECOND_US: u64 = 1_000_000;
const LISTENER: Token = Source::ClientListener.token();

/// Knows nothing and answers nothing: connections talk to the front alone.
struct Silent {
    has_room: bool,
}

impl Backend for Silent {
    fn application(&self, _name: &[u8]) -> Option<usize> {
        None
    }

    fn has_room(&self) -> bool {
        self.has_room
    }

    fn submit(&mut self, _request: Request<'_>) {}

    fn verify(&mut self, _connection: ConnectionId, _address: &str, _password: &[u8]) -> Option<Verdict> {
        None
    }

    fn namespace_exists(&self, _namespace: u32) -> bool {
        true
    }

    fn namespaces(&self) -> Vec<u32> {
        vec![0]
    }

    fn volumes(&self, _namespace: u32) -> Option<u32> {
        Some(1)
    }

    fn server_info(&mut self) -> ServerInfo {
        ServerInfo::default()
    }

    fn config(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

struct Port {
    poll: Poll,
    clients: Clients,
    front: Front,
    backend: Silent,
    address: std::net::SocketAddr,
    now: Instant,
}

impl Port {
    fn new(limits: config::Limits) -> Port {
        Port::open_to(Access::Open, limits)
    }

    fn open_to(access: Access, limits: config::Limits) -> Port {
        let poll = Poll::new().unwrap();
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).unwrap();
        let clients = Clients::new(listener, poll.registry().try_clone().unwrap(), limits, None);
        // Nothing is held up, so that all of an output can wait.
        let front = Front::new(
            Limits { output_length_pause: 256 << 20, output_length_max: 256 << 20, ..Limits::default() },
            access,
        );
        Port { poll, clients, front, backend: Silent { has_room: true }, address, now: Instant(SECOND_US) }
    }

    fn connect(&mut self) -> TcpStream {
        let count = self.clients.count();
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        self.turn_until(|port| port.clients.count() == count + 1);
        stream
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(64);
        self.poll.poll(&mut events, Some(Duration::from_millis(5))).unwrap();
        for event in &events {
            match Source::of(event.token()) {
                Source::Client(place) => self.clients.on_event(place, event),
                _ => self.clients.on_listener(),
            }
        }
        self.clients.read(&mut vec![0; 64 << 10]);
        self.clients.accept(&mut self.front, self.now, 0);
        self.clients.offer(&mut self.front, &mut self.backend, self.now, 0);
        self.clients.tick(&mut self.front, self.now);
        self.clients.write(&mut self.front, self.now);
    }

    fn turn_until(&mut self, holds: impl Fn(&Port) -> bool) {
        for _ in 0..4_000 {
            if holds(self) {
                return;
            }
            self.turn();
        }
        panic!("it did not come to that");
    }

    /// Time passes, and the port notices.
    fn pass(&mut self, us: u64) {
        self.now = self.now.after_us(us);
        self.turn();
    }

    fn input_bytes(&self) -> usize {
        self.clients.input_bytes
    }
}

fn limits() -> config::Limits {
    config::Limits::default()
}

#[test]
fn a_request_that_is_not_finished_in_time_ends_the_connection_and_silence_does_not() {
    let mut port = Port::new(config::Limits { request_s: 10, ..limits() });
    let (mut slow, mut steady, _silent) = (port.connect(), port.connect(), port.connect());
    slow.write_all(b"*1\r\n$4\r\nPI").unwrap();
    steady.write_all(b"PING\r\nPI").unwrap();
    port.turn_until(|port| port.input_bytes() == 10 + 2);
    port.pass(5 * SECOND_US);
    // One byte now and then makes no difference, but a whole request does.
    slow.write_all(b"N").unwrap();
    steady.write_all(b"NG\r\nPI").unwrap();
    port.turn_until(|port| port.input_bytes() == 11 + 2);
    port.turn_until(|port| port.front.reply_length() == 0);
    port.pass(5 * SECOND_US - 1);
    assert_eq!(port.clients.count(), 3);
    port.pass(SECOND_US);
    assert_eq!((port.clients.count(), port.clients.counters().cut), (2, 1));
    port.pass(5 * SECOND_US);
    assert_eq!((port.clients.count(), port.input_bytes()), (1, 0), "the second one did not go on either");
}

#[test]
fn silence_ends_a_connection_if_it_is_configured_so() {
    let mut port = Port::new(config::Limits { idle_s: 10, ..limits() });
    let (mut talking, _silent) = (port.connect(), port.connect());
    port.pass(5 * SECOND_US);
    talking.write_all(b"PING\r\n").unwrap();
    port.turn_until(|port| port.front.reply_length_of(port.clients.places[0].as_ref().unwrap().connection) == 0);
    let mut reply = [0; 7];
    let mut reading = talking.try_clone().unwrap();
    let reader = std::thread::spawn(move || reading.read_exact(&mut reply).map(|()| reply));
    port.turn_until(|_| reader.is_finished());
    assert_eq!(&reader.join().unwrap().unwrap(), b"+PONG\r\n");
    port.pass(5 * SECOND_US - 1);
    assert_eq!(port.clients.count(), 2);
    port.pass(SECOND_US);
    assert_eq!(port.clients.count(), 1);
}

#[test]
fn who_reads_too_little_for_too_long_is_disconnected() {
    let mut port = Port::new(limits());
    let mut client = port.connect();
    // Far more than the kernel keeps for either side.
    let value = vec![b'v'; 8 << 20];
    let mut writing = client.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..6 {
            write!(writing, "*2\r\n$4\r\nECHO\r\n${}\r\n", value.len()).unwrap();
            writing.write_all(&value).unwrap();
            writing.write_all(b"\r\n").unwrap();
        }
    });
    port.turn_until(|_| writer.is_finished());
    port.turn_until(|port| port.input_bytes() == 0);
    port.pass(0);
    assert!(port.front.reply_length() > client::OUTPUT_BYTES_SOFT);
    port.pass(OUTPUT_PATIENCE_US - 1);
    assert_eq!(port.clients.count(), 1);
    port.pass(SECOND_US);
    assert_eq!((port.clients.count(), port.clients.counters().cut, port.front.reply_length()), (0, 1, 0));
    assert!(client.read(&mut [0; 1]).is_ok(), "what the kernel had of it arrives");
}

#[test]
fn whoever_has_the_most_goes_when_all_together_have_too_much() {
    let mut port = Port::new(config::Limits { client_buffers_bytes: 60_000, ..limits() });
    let mut streams = [port.connect(), port.connect(), port.connect()];
    let begin = |length: usize| {
        let mut request = b"*2\r\n$4\r\nECHO\r\n$1000000\r\n".to_vec();
        request.resize(length, b'v');
        request
    };
    for (stream, length) in streams.iter_mut().zip([10_000, 30_000, 20_000]) {
        stream.write_all(&begin(length)).unwrap();
    }
    port.turn_until(|port| port.input_bytes() == 60_000);
    assert_eq!(port.clients.count(), 3, "exactly the limit");
    streams[0].write_all(b"v").unwrap();
    port.turn_until(|port| port.clients.count() == 2);
    assert_eq!((port.clients.counters().evicted, port.input_bytes()), (1, 30_001));
    assert!(matches!(streams[1].read(&mut [0; 1]), Ok(0) | Err(_)), "the largest one is gone");
}

#[test]
fn nothing_more_is_taken_or_read_until_there_is_room() {
    let mut port = Port::new(limits());
    let mut client = port.connect();
    port.backend.has_room = false;
    let mut writing = client.try_clone().unwrap();
    let count = 1 << 20;
    let writer = std::thread::spawn(move || writing.write_all(&b"PING\r\n".repeat(count)).unwrap());
    port.turn_until(|port| port.clients.held_back.len() == 1);
    let held = port.input_bytes();
    for _ in 0..50 {
        port.turn();
    }
    assert_eq!(port.input_bytes(), held, "the rest stays with the client");
    port.backend.has_room = true;
    let reader = std::thread::spawn(move || client.read_exact(&mut vec![0; b"+PONG\r\n".len() * count]));
    port.turn_until(|_| reader.is_finished());
    reader.join().unwrap().unwrap();
    writer.join().unwrap();
}

#[test]
fn who_is_told_goodbye_may_finish_what_it_was_saying() {
    let mut port = Port::new(limits());
    let client = port.connect();
    let mut writing = client.try_clone().unwrap();
    let length = (16 << 20) + 1;
    let talker = std::thread::spawn(move || {
        write!(writing, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\n")?;
        writing.write_all(&vec![b'v'; length])?;
        let mut reply = String::new();
        writing.read_to_string(&mut reply).map(|_| reply)
    });
    port.turn_until(|_| talker.is_finished());
    assert_eq!(talker.join().unwrap().unwrap(), "-ERR Protocol error: invalid bulk length\r\n");
    // Both ends of it are still open here; it is not waited for longer than this.
    port.pass(LINGER_US - 1);
    assert_eq!(port.clients.count(), 1);
    port.pass(SECOND_US);
    assert_eq!(port.clients.count(), 0);
    drop(client);
}

#[test]
fn one_too_many_is_told_so_and_costs_nothing() {
    let mut port = Port::new(config::Limits { clients: 2, ..limits() });
    let (_first, second) = (port.connect(), port.connect());
    for number in 1..=300 {
        let mut refused = TcpStream::connect(port.address).unwrap();
        port.turn_until(|port| port.clients.counters().refused == number);
        let mut reply = String::new();
        refused.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "-ERR max number of clients reached\r\n");
    }
    drop(second);
    port.turn_until(|port| port.clients.count() == 1);
    port.connect();
}

#[test]
fn a_guest_has_ten_seconds_to_give_the_password() {
    let mut port = Port::open_to(Access::Password, limits());
    let _silent = port.connect();
    port.pass(GUEST_US - 1);
    assert_eq!(port.clients.count(), 1);
    port.pass(SECOND_US);
    assert_eq!(port.clients.count(), 0);
    let mut open = Port::new(limits());
    let _silent = open.connect();
    open.pass(100 * GUEST_US);
    assert_eq!(open.clients.count(), 1);
}

#[test]
fn a_node_that_stops_takes_nothing_more_and_says_goodbye() {
    let mut port = Port::new(limits());
    let (mut busy, mut idle) = (port.connect(), port.connect());
    busy.write_all(b"PING\r\n").unwrap();
    let mut reading = busy.try_clone().unwrap();
    let reader = std::thread::spawn(move || reading.read_exact(&mut [0; 7]));
    port.turn_until(|_| reader.is_finished());
    reader.join().unwrap().unwrap();
    port.clients.leave();
    // Not taken: it is neither answered nor in the way of what was.
    busy.write_all(&b"PING\r\n".repeat(10_000)).unwrap();
    let mut told = Vec::new();
    let mut reading = busy.try_clone().unwrap();
    let reader = std::thread::spawn(move || reading.read_to_end(&mut told).map(|_| told));
    port.turn_until(|_| reader.is_finished());
    assert_eq!(reader.join().unwrap().unwrap(), b"");
    (0..50).for_each(|_| port.turn());
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
    drop(port);
    assert_eq!(busy.read(&mut [0; 1]).unwrap(), 0, "it is not reset");
}
