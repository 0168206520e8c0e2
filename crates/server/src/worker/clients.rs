//! The sockets of Redis clients: what they send goes to the front, what the front answers goes to them.
//!
//! A turn reads each socket that has something once and writes each that something is for once. What a client may have
//! waiting is bounded in both directions; whoever goes beyond is disconnected, whoever is merely fast is not read.

use std::io::{ErrorKind, Write};
use std::sync::Arc;

use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};
use quorate_front::{Backend, ConnectionId, Front, Progress};
use quorate_protocol::Instant;
use tracing::{debug, warn};

use super::Source;
use crate::config;
use crate::tls::{SPEAK_TLS, Store, Stream};

/// Connections accepted in one turn.
const ACCEPTED_PER_TURN_MAX: usize = 128;
/// After an accept that failed, for want of descriptors perhaps.
const ACCEPT_RETRY_US: u64 = 100_000;
/// How long a client may be a guest: whoever does not give the password is disconnected.
const GUEST_US: u64 = 10_000_000;
/// How often slow clients and old guests are looked for.
const SWEEP_US: u64 = 1_000_000;
/// Output beyond this many bytes may wait for this long.
const OUTPUT_BYTES_SOFT: usize = 16 << 20;
const OUTPUT_PATIENCE_US: u64 = 10_000_000;
/// Emptied buffers larger than this are given back.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

pub(crate) struct Clients {
    registry: Registry,
    listener: Option<TcpListener>,
    /// The listener may have connections, to be asked for at this time.
    accept_at: Option<Instant>,
    limits: config::Limits,
    /// With what connections are encrypted, if they are.
    tls: Option<Arc<Store>>,
    /// By the place of their connection in the front.
    places: Vec<Option<Client>>,
    count: usize,
    /// Clients whose sockets may hold something.
    readable: Vec<usize>,
    /// Clients whose input the front has not seen as it is.
    to_offer: Vec<usize>,
    /// Clients whose output or progress may have changed.
    to_write: Vec<usize>,
    sweep_at: Instant,
    /// Refused for being too many, since the start.
    pub(crate) refused_count: u64,
}

struct Client {
    stream: Stream,
    connection: ConnectionId,
    input: Vec<u8>,
    /// How much of the front's output is written already.
    sent: usize,
    /// The front takes nothing at the moment: neither is anything read.
    is_paused: bool,
    /// The socket may hold something.
    is_unread: bool,
    is_read_closed: bool,
    /// Nothing more will come. It may still read what it is owed.
    is_over: bool,
    is_broken: bool,
    /// The socket takes nothing at the moment.
    is_blocked: bool,
    is_in_readable: bool,
    is_in_to_offer: bool,
    is_in_to_write: bool,
    /// Since when more waits for it than should, or it should be gone.
    slow_since: Option<Instant>,
    /// Since when it has been a guest or in its handshake, if it is; looked at in sweeps.
    guest_since: Option<Instant>,
}

impl Clients {
    pub(crate) fn new(
        listener: TcpListener,
        registry: Registry,
        limits: config::Limits,
        tls: Option<Arc<Store>>,
    ) -> Clients {
        Clients {
            registry,
            listener: Some(listener),
            accept_at: Some(Instant(0)),
            limits,
            tls,
            places: Vec::new(),
            count: 0,
            readable: Vec::new(),
            to_offer: Vec::new(),
            to_write: Vec::new(),
            sweep_at: Instant(0),
            refused_count: 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many there may be at once.
    pub(crate) fn count_max(&self) -> usize {
        self.limits.clients
    }

    /// Those that are there stay, if they are more.
    pub(crate) fn set_count_max(&mut self, count_max: usize) {
        self.limits.clients = count_max;
    }

    pub(crate) fn on_listener(&mut self) {
        self.accept_at = Some(Instant(0));
    }

    pub(crate) fn on_event(&mut self, place: usize, event: &Event) {
        let Some(client) = self.places.get_mut(place).and_then(Option::as_mut) else { return };
        client.is_read_closed |= event.is_read_closed() || event.is_error();
        if event.is_readable() || client.is_read_closed {
            client.is_unread = true;
            if !client.is_paused {
                enlist(&mut client.is_in_readable, &mut self.readable, place);
            }
        }
        if event.is_writable() && std::mem::take(&mut client.is_blocked) {
            enlist(&mut client.is_in_to_write, &mut self.to_write, place);
        }
    }

    /// The front may have output for this connection, or a new progress.
    pub(crate) fn touch(&mut self, connection: ConnectionId) {
        let place = connection.place();
        if let Some(client) = self.places.get_mut(place).and_then(Option::as_mut) {
            enlist(&mut client.is_in_to_write, &mut self.to_write, place);
        }
    }

    pub(crate) fn accept(&mut self, front: &mut Front, now: Instant, now_ms: u64) {
        if self.accept_at.is_none_or(|at| now < at) {
            return;
        }
        self.accept_at = Some(Instant(0));
        for _ in 0..ACCEPTED_PER_TURN_MAX {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, address)) => self.admit(front, stream, &address.to_string(), now, now_ms),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.accept_at = None;
                    return;
                }
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    warn!("cannot accept a client: {error}");
                    self.accept_at = Some(now.after_us(ACCEPT_RETRY_US));
                    return;
                }
            }
        }
    }

    fn admit(&mut self, front: &mut Front, mut stream: TcpStream, address: &str, now: Instant, now_ms: u64) {
        if self.count >= self.limits.clients {
            self.refused_count += 1;
            // If not even this much fits, the client learns it from the closed connection.
            if self.tls.is_none() {
                let _ = stream.write(TOO_MANY);
            }
            return;
        }
        let Ok(local) = stream.local_addr().and_then(|local| stream.set_nodelay(true).map(|()| local)) else { return };
        let config = self.tls.as_ref().map(|store| store.current().outside.clone());
        let mut stream = match Stream::accept(stream, config, SPEAK_TLS) {
            Ok(stream) => stream,
            Err(error) => return warn!("cannot encrypt a client's connection: {error}"),
        };
        let connection = front.connected(address.to_owned(), local.to_string(), now_ms);
        let place = connection.place();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.registry.register(stream.socket(), Source::Client(place).token(), interest) {
            warn!("cannot watch a client's connection: {error}");
            return front.disconnected(connection);
        }
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place] = Some(Client::new(stream, connection, now));
        self.count += 1;
    }

    /// Takes what the sockets hold, one read each.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) {
        for place in std::mem::take(&mut self.readable) {
            let Some(client) = self.places.get_mut(place).and_then(Option::as_mut) else { continue };
            client.is_in_readable = false;
            if client.is_paused || client.is_over || !client.read(buffer) {
                continue;
            }
            if client.is_unread {
                enlist(&mut client.is_in_readable, &mut self.readable, place);
            }
            enlist(&mut client.is_in_to_offer, &mut self.to_offer, place);
        }
    }

    /// Lets the front take what was read.
    pub(crate) fn offer(&mut self, front: &mut Front, backend: &mut impl Backend, now_ms: u64) {
        for place in std::mem::take(&mut self.to_offer) {
            let Some(client) = self.places.get_mut(place).and_then(Option::as_mut) else { continue };
            client.is_in_to_offer = false;
            if !client.input.is_empty() {
                let progress = front.received(client.connection, &mut client.input, now_ms, backend);
                client.is_paused = progress == Progress::Paused;
                if client.input.is_empty() {
                    client.input.shrink_to(BUFFER_BYTES_KEPT);
                }
            }
            if client.input.len() > self.limits.query_buffer_bytes {
                debug!("a client is disconnected: it has sent {} bytes that are not served", client.input.len());
                client.is_broken = true;
            }
            enlist(&mut client.is_in_to_write, &mut self.to_write, place);
        }
    }

    /// Writes what there is to write, once to each client, and says goodbye where that is due.
    pub(crate) fn write(&mut self, front: &mut Front, now: Instant) {
        for place in std::mem::take(&mut self.to_write) {
            let Some(client) = self.places.get_mut(place).and_then(Option::as_mut) else { continue };
            client.is_in_to_write = false;
            client.write(front, now);
            let progress = front.progress(client.connection);
            if client.is_finished(front, progress) {
                self.close(front, place);
            } else if client.is_paused && progress == Progress::Open {
                client.is_paused = false;
                enlist(&mut client.is_in_to_offer, &mut self.to_offer, place);
                if client.is_unread {
                    enlist(&mut client.is_in_readable, &mut self.readable, place);
                }
            } else if progress == Progress::Close {
                client.slow_since.get_or_insert(now);
            }
        }
    }

    /// Disconnects those who have not read what they asked for in time, or not said who they are.
    pub(crate) fn tick(&mut self, front: &mut Front, now: Instant) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now.after_us(SWEEP_US);
        for place in 0..self.places.len() {
            let Some(client) = &mut self.places[place] else { continue };
            if !front.is_guest(client.connection) && !client.stream.is_handshaking() {
                client.guest_since = None;
            } else if client.guest_since.get_or_insert(now).after_us(GUEST_US) <= now {
                debug!("a client is disconnected: it did not give the password in time");
                self.close(front, place);
                continue;
            }
            if client.slow_since.is_some_and(|since| since.after_us(OUTPUT_PATIENCE_US) <= now) {
                warn!("a client is disconnected: it reads too slowly what it asked for");
                self.close(front, place);
            }
        }
    }

    /// When there is something to do even if no socket says so.
    pub(crate) fn next_due(&self) -> Instant {
        if !self.readable.is_empty() || !self.to_offer.is_empty() || !self.to_write.is_empty() {
            return Instant(0);
        }
        let sweep_at = if self.count > 0 { self.sweep_at } else { Instant::MAX };
        self.accept_at.unwrap_or(Instant::MAX).min(sweep_at)
    }

    /// Takes neither connections nor requests any more.
    pub(crate) fn stop_listening(&mut self) {
        if let Some(mut listener) = self.listener.take() {
            // It is closed in any case.
            let _ = self.registry.deregister(&mut listener);
        }
        self.accept_at = None;
    }

    /// Whether everything that was answered has been written, to clients that read.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.to_write.is_empty() && self.places.iter().flatten().all(|client| !client.is_blocked)
    }

    fn close(&mut self, front: &mut Front, place: usize) {
        if let Some(mut client) = self.places[place].take() {
            client.stream.close();
            front.disconnected(client.connection);
            self.count -= 1;
        }
    }
}

impl Client {
    fn new(stream: Stream, connection: ConnectionId, now: Instant) -> Client {
        Client {
            stream,
            connection,
            input: Vec::new(),
            sent: 0,
            is_paused: false,
            is_unread: false,
            is_read_closed: false,
            is_over: false,
            is_broken: false,
            is_blocked: false,
            is_in_readable: false,
            is_in_to_offer: false,
            is_in_to_write: false,
            slow_since: None,
            guest_since: Some(now),
        }
    }

    /// False if there was nothing to be read after all.
    fn read(&mut self, buffer: &mut [u8]) -> bool {
        match self.stream.read(buffer) {
            Ok(0) => {
                self.is_over = true;
                self.is_unread = false;
            }
            Ok(length) => {
                self.input.extend_from_slice(&buffer[..length]);
                // A socket that gave less than was asked for is empty, unless its end is still to be read.
                self.is_unread = length == buffer.len() || self.is_read_closed || self.stream.has_end();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_unread = false;
                return false;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => {
                self.is_over = true;
                self.is_broken = true;
                self.is_unread = false;
            }
        }
        true
    }

    fn write(&mut self, front: &mut Front, now: Instant) {
        let output = front.output(self.connection);
        if self.sent < output.len() && !self.is_blocked && !self.is_broken {
            match self.stream.write(&output[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => self.is_broken = true,
            }
            self.is_blocked = self.sent < output.len() || self.stream.wants_write();
        } else if self.stream.wants_write() && !self.is_blocked && !self.is_broken {
            self.is_broken = self.stream.flush().is_err();
            self.is_blocked = self.stream.wants_write();
        }
        if self.sent >= output.len() {
            // The front has taken back what a client did not read, when it was too much.
            output.clear();
            output.shrink_to(BUFFER_BYTES_KEPT);
            self.sent = 0;
        } else if self.sent > output.len() / 2 {
            // Rarely enough that moving the rest costs little.
            output.drain(..self.sent);
            self.sent = 0;
        }
        if output.len() - self.sent > OUTPUT_BYTES_SOFT {
            self.slow_since.get_or_insert(now);
        } else {
            self.slow_since = None;
        }
    }

    fn is_finished(&self, front: &mut Front, progress: Progress) -> bool {
        let is_all_sent = front.output(self.connection).is_empty();
        let is_served = self.is_over && !self.is_paused && front.is_answered(self.connection);
        self.is_broken || (is_all_sent && !self.stream.wants_write() && (is_served || progress == Progress::Close))
    }
}

/// Puts a place on a list that it is on at most once.
fn enlist(is_in: &mut bool, list: &mut Vec<usize>, place: usize) {
    if !std::mem::replace(is_in, true) {
        list.push(place);
    }
}

#[cfg(test)]
mod tests {
    use mio::Poll;
    use quorate_front::{Access, Limits};

    use super::*;

    /// One client that says nothing: whether it is still there after so long.
    fn stays(access: Access, after_us: u64) -> bool {
        let poll = Poll::new().expect("a poll");
        let registry = poll.registry().try_clone().expect("another handle");
        let listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let mut clients = Clients::new(listener, registry, config::Limits::default(), None);
        let mut front = Front::new(Limits::default(), access);
        let _stream = std::net::TcpStream::connect(address).expect("connected");
        let now = Instant(1_000_000);
        clients.accept(&mut front, now, 0);
        assert_eq!(clients.count(), 1);
        clients.tick(&mut front, now.after_us(after_us));
        clients.count() == 1
    }

    #[test]
    fn a_guest_has_ten_seconds_to_give_the_password() {
        assert!(stays(Access::Password, GUEST_US - 1));
        assert!(!stays(Access::Password, GUEST_US));
        assert!(stays(Access::Open, 100 * GUEST_US));
    }
}
