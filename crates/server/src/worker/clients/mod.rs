//! The sockets of Redis clients: what they send goes to the front, what the front answers goes to them.
//!
//! A turn reads each socket that has something once and writes each that something is for once. What a client may have
//! waiting is bounded in both directions, and so is what all of them have together; whoever goes beyond is disconnected,
//! whoever is merely fast is not read. While the backend has no room nobody is read who asks for more.

mod client;
#[cfg(test)]
mod tests;

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
use crate::socket;
use crate::tls::{SPEAK_TLS, Store, Stream};
use client::Client;

/// Connections accepted in one turn.
const ACCEPTED_PER_TURN_MAX: usize = 128;
/// After an accept that failed, for want of descriptors perhaps.
const ACCEPT_RETRY_US: u64 = 100_000;
/// How often slow clients and old guests are looked for.
const SWEEP_US: u64 = 1_000_000;
/// How often it is looked for room for those who wait for it.
const ROOM_RETRY_US: u64 = 1_000;
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
    /// Clients whose input waits until the backend has room.
    held_back: Vec<usize>,
    /// Of all clients' input.
    input_bytes: usize,
    sweep_at: Instant,
    /// The node stops.
    is_leaving: bool,
    counters: Counters,
}

/// Plain counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// For being too many.
    pub(crate) refused: u64,
    /// For having the most, when all together had too much.
    pub(crate) evicted: u64,
    /// For reading, asking or taking up too little, or too much, or too slowly.
    pub(crate) cut: u64,
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
            held_back: Vec::new(),
            input_bytes: 0,
            sweep_at: Instant(0),
            is_leaving: false,
            counters: Counters::default(),
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
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
            if !client.is_paused && !client.is_held_back {
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
            self.counters.refused += 1;
            // If not even this much fits, the client learns it from the closed connection.
            if self.tls.is_none() {
                let _ = stream.write(TOO_MANY);
            }
            return;
        }
        let prepared = stream.set_nodelay(true).and_then(|()| socket::keep_alive(&stream));
        let Ok(local) = prepared.and_then(|()| stream.local_addr()) else { return };
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
            let is_left = self.is_leaving && !client.is_lingering();
            if is_left || client.is_paused || client.is_held_back || client.is_over || !client.read(buffer) {
                continue;
            }
            client.count_input(&mut self.input_bytes);
            if client.is_unread {
                enlist(&mut client.is_in_readable, &mut self.readable, place);
            }
            enlist(&mut client.is_in_to_offer, &mut self.to_offer, place);
        }
    }

    /// Lets the front take what was read, as far as the backend has room.
    pub(crate) fn offer(&mut self, front: &mut Front, backend: &mut impl Backend, now: Instant, now_ms: u64) {
        self.let_go(backend);
        for place in std::mem::take(&mut self.to_offer) {
            let Some(client) = self.places.get_mut(place).and_then(Option::as_mut) else { continue };
            client.is_in_to_offer = false;
            if !client.input.is_empty() {
                let length = client.input.len();
                let progress = front.received(client.connection, &mut client.input, now_ms, backend);
                client.is_paused = progress == Progress::Paused;
                if client.input.is_empty() {
                    client.input.shrink_to(BUFFER_BYTES_KEPT);
                } else if progress == Progress::Open && !backend.has_room() {
                    client.is_held_back = true;
                    self.held_back.push(place);
                }
                client.note_request(client.input.len() < length, now);
                client.count_input(&mut self.input_bytes);
            }
            if client.input.len() > self.limits.query_buffer_bytes {
                debug!("a client is disconnected: it has sent {} bytes that are not served", client.input.len());
                self.counters.cut += 1;
                client.is_broken = true;
            }
            enlist(&mut client.is_in_to_write, &mut self.to_write, place);
        }
    }

    /// Goes on with those who waited for room, if there is some.
    fn let_go(&mut self, backend: &impl Backend) {
        if self.held_back.is_empty() || !backend.has_room() {
            return;
        }
        for place in std::mem::take(&mut self.held_back) {
            let Some(client) = self.places.get_mut(place).and_then(Option::as_mut) else { continue };
            if !std::mem::take(&mut client.is_held_back) {
                continue;
            }
            enlist(&mut client.is_in_to_offer, &mut self.to_offer, place);
            if client.is_unread && !client.is_paused {
                enlist(&mut client.is_in_readable, &mut self.readable, place);
            }
        }
    }

    /// Writes what there is to write, once to each client, and says goodbye where that is due.
    pub(crate) fn write(&mut self, front: &mut Front, now: Instant) {
        for place in std::mem::take(&mut self.to_write) {
            let Some(client) = self.places.get_mut(place).and_then(Option::as_mut) else { continue };
            client.is_in_to_write = false;
            client.write(front, now);
            let progress = match front.progress(client.connection) {
                _ if self.is_leaving && front.is_answered(client.connection) => Progress::Close,
                progress => progress,
            };
            if client.is_finished(front, progress) {
                if !client.try_linger(now) {
                    self.close(front, place);
                } else if client.is_unread {
                    enlist(&mut client.is_in_readable, &mut self.readable, place);
                }
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
        self.relieve(front);
    }

    /// Disconnects whoever has the most, until what all have together is within the limit.
    fn relieve(&mut self, front: &mut Front) {
        while self.input_bytes + front.reply_length() > self.limits.client_buffers_bytes {
            let weight = |client: &Client| client.input.len() + front.reply_length_of(client.connection);
            let places = self.places.iter().enumerate();
            let weights = places.filter_map(|(place, client)| Some((weight(client.as_ref()?), place)));
            let Some((bytes, place)) = weights.max().filter(|(bytes, _)| *bytes > 0) else { return };
            warn!("a client is disconnected: all together have too much waiting, and it the most, {bytes} bytes");
            self.counters.evicted += 1;
            self.close(front, place);
        }
    }

    /// Disconnects those who have not read, said or finished in time what they should.
    pub(crate) fn tick(&mut self, front: &mut Front, now: Instant) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now.after_us(SWEEP_US);
        for place in 0..self.places.len() {
            let Some(client) = &mut self.places[place] else { continue };
            if client.has_lingered(now) {
                self.close(front, place);
            } else if client.is_guest_for_too_long(front, now) {
                debug!("a client is disconnected: it did not give the password in time");
                self.close(front, place);
            } else if let Some(reason) = client.is_too_slow(&self.limits, front, now) {
                warn!("a client is disconnected: {reason}");
                self.counters.cut += 1;
                self.close(front, place);
            }
        }
    }

    /// When there is something to do even if no socket says so.
    pub(crate) fn next_due(&self, now: Instant) -> Instant {
        if !self.readable.is_empty() || !self.to_offer.is_empty() || !self.to_write.is_empty() {
            return Instant(0);
        }
        let sweep_at = if self.count > 0 { self.sweep_at } else { Instant::MAX };
        let room_at = if self.held_back.is_empty() { Instant::MAX } else { now.after_us(ROOM_RETRY_US) };
        self.accept_at.unwrap_or(Instant::MAX).min(sweep_at).min(room_at)
    }

    /// Takes neither connections nor requests any more. Each client is told goodbye once it has its answers: what it sent besides
    /// is not carried out, and what is thrown away of it unread does not reset the connection before it has read them.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
        for (place, client) in self.places.iter_mut().enumerate() {
            if let Some(client) = client {
                enlist(&mut client.is_in_to_write, &mut self.to_write, place);
            }
        }
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
            client.close();
            front.disconnected(client.connection);
            self.input_bytes -= client.input_counted();
            self.count -= 1;
        }
    }
}

/// Puts a place on a list that it is on at most once.
fn enlist(is_in: &mut bool, list: &mut Vec<usize>, place: usize) {
    if !std::mem::replace(is_in, true) {
        list.push(place);
    }
}
