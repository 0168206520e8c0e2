//! The link to one other node: made, greeted, written to, and made anew when it is lost.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Waker};
use quorate_node::Host;
use quorate_protocol::{Instant, NodeId};
use rustls::pki_types::ServerName;
use tracing::{info, warn};

use super::greeting::Greeting;
use super::{Common, GREETING_US, nonce};
use crate::config::Address;
use crate::socket;
use crate::tls::Stream;
use crate::worker::Source;

/// A link that failed is tried again after this; each time it fails again, after twice as long.
const BACK_OFF_MIN_US: u64 = 50_000;
const BACK_OFF_MAX_US: u64 = 1_000_000;
/// Bytes that may wait for the socket before no more frames are made; what the host keeps for the node is bounded too.
const OUTPUT_BYTES_WAITING_MAX: usize = 16 << 20;
/// An emptied output buffer larger than this is given back.
const OUTPUT_BYTES_KEPT: usize = 1 << 20;
/// How long bytes may go unacknowledged, or untaken by a node that does not read, before the connection counts as lost:
/// else a healed network would be waited out by TCP's own patience, which grows to minutes.
const UNACKNOWLEDGED_MS_MAX: libc::c_int = 3_000;
/// A peer says little on this link.
const READ_BYTES: usize = 1 << 10;

pub(super) struct Outgoing {
    place: usize,
    node: NodeId,
    name: String,
    address: Address,
    state: State,
    /// The socket has something to tell.
    is_readable: bool,
    is_writable: bool,
    /// From `sent` on, not written yet.
    output: Vec<u8>,
    sent: usize,
    back_off_us: u64,
    /// When to try again (resting), or to give up (connecting and greeting).
    due_at: Instant,
    /// The node has accepted us, since we were started.
    has_met: bool,
    /// Why it failed, as last logged.
    told: String,
    /// Why it must be given up, noticed while sending.
    failed: Option<String>,
}

enum State {
    Resting,
    Resolving(Receiver<io::Result<SocketAddr>>),
    Connecting(TcpStream),
    Greeting(Stream, Box<Greeting>, Vec<u8>),
    Linked(Stream),
}

impl Outgoing {
    pub(super) fn new(place: usize, node: NodeId, name: String, address: Address) -> Outgoing {
        Outgoing {
            place,
            node,
            name,
            address,
            state: State::Resting,
            is_readable: false,
            is_writable: false,
            output: Vec::new(),
            sent: 0,
            back_off_us: BACK_OFF_MIN_US,
            due_at: Instant(0),
            has_met: false,
            told: String::new(),
            failed: None,
        }
    }

    pub(super) fn has_met(&self) -> bool {
        self.has_met
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn leads_to(&self, name: &str, address: &Address) -> bool {
        self.name == name && self.address == *address
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn is_linked(&self) -> bool {
        matches!(self.state, State::Linked(_))
    }

    pub(super) fn on_event(&mut self, event: &Event) {
        self.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.is_writable |= event.is_writable() || event.is_error();
    }

    /// There is reason to believe that the node can be reached now.
    pub(super) fn hurry(&mut self, now: Instant) {
        if let State::Resting = self.state {
            self.due_at = now;
        }
    }

    pub(super) fn next_due(&self) -> Instant {
        match self.state {
            State::Linked(_) if self.failed.is_some() => Instant(0),
            State::Linked(_) => Instant::MAX,
            _ => self.due_at,
        }
    }

    /// Starts what is due and ends what takes too long.
    pub(super) fn tick(&mut self, common: &mut Common, host: &mut Host, now: Instant) {
        if let Some(reason) = self.failed.take() {
            return self.lose(host, now, &reason);
        }
        match &self.state {
            State::Resting if now >= self.due_at => self.resolve(common, host, now),
            State::Resolving(_) | State::Connecting(_) | State::Greeting(..) if now >= self.due_at => {
                self.lose(host, now, "it does not answer");
            }
            _ => {}
        }
    }

    /// Goes on as far as the socket allows.
    pub(super) fn advance(&mut self, common: &mut Common, host: &mut Host, now: Instant) {
        if let State::Resolving(answer) = &self.state {
            match answer.try_recv() {
                Ok(Ok(address)) => self.connect(common, host, address, now),
                Ok(Err(error)) => self.lose(host, now, &format!("{}: {error}", self.address)),
                Err(TryRecvError::Disconnected) => self.lose(host, now, "its address cannot be looked up"),
                Err(TryRecvError::Empty) => {}
            }
        }
        if matches!(self.state, State::Connecting(_)) && self.is_writable {
            self.greet(common, host, now);
        }
        if std::mem::take(&mut self.is_readable) {
            self.read(common, host, now);
        }
        if self.is_writable && (self.sent < self.output.len() || self.wants_write()) {
            self.write(&[]);
        }
        if let Some(reason) = self.failed.take() {
            self.lose(host, now, &reason);
        }
    }

    /// False while so much waits for the socket that more would help nobody.
    pub(super) fn can_take(&self) -> bool {
        !self.is_linked() || self.output.len() - self.sent <= OUTPUT_BYTES_WAITING_MAX
    }

    pub(super) fn send(&mut self, frame: &[u8]) {
        if !self.is_linked() || self.failed.is_some() {
            return;
        }
        if self.is_writable {
            self.write(frame);
        } else {
            self.output.extend_from_slice(frame);
        }
    }

    /// Writes what waits and then `more`, once; what the socket does not take waits.
    fn write(&mut self, more: &[u8]) {
        let (State::Linked(stream) | State::Greeting(stream, ..)) = &mut self.state else { return };
        let waits = self.sent < self.output.len();
        if waits {
            self.output.extend_from_slice(more);
        }
        let bytes = if waits { &self.output[self.sent..] } else { more };
        let written = match stream.write(bytes) {
            Ok(written) => written,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => {
                self.failed = Some(error.to_string());
                return;
            }
        };
        self.is_writable = written == bytes.len() && !stream.wants_write();
        if waits {
            self.sent += written;
        } else {
            self.output.extend_from_slice(&more[written..]);
        }
        self.forget_sent();
    }

    fn wants_write(&self) -> bool {
        match &self.state {
            State::Linked(stream) | State::Greeting(stream, ..) => stream.wants_write(),
            _ => false,
        }
    }

    /// Removes what was sent, rarely enough that moving the rest costs little.
    fn forget_sent(&mut self) {
        if self.sent == self.output.len() {
            self.output.clear();
            self.output.shrink_to(OUTPUT_BYTES_KEPT);
            self.sent = 0;
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn resolve(&mut self, common: &mut Common, host: &mut Host, now: Instant) {
        self.due_at = now.after_us(GREETING_US);
        match self.address.host.parse::<IpAddr>() {
            Ok(ip) => self.connect(common, host, SocketAddr::new(ip, self.address.port), now),
            Err(_) => match look_up(self.address.clone(), common.waker.clone()) {
                Ok(answer) => self.state = State::Resolving(answer),
                Err(error) => self.lose(host, now, &error.to_string()),
            },
        }
    }

    fn connect(&mut self, common: &mut Common, host: &mut Host, address: SocketAddr, now: Instant) {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let connected = TcpStream::connect(address).and_then(|mut stream| {
            common.registry.register(&mut stream, Source::Outgoing(self.place).token(), interest)?;
            Ok(stream)
        });
        match connected {
            Ok(stream) => {
                (self.is_readable, self.is_writable) = (false, false);
                self.state = State::Connecting(stream);
            }
            Err(error) => self.lose(host, now, &error.to_string()),
        }
    }

    fn greet(&mut self, common: &mut Common, host: &mut Host, now: Instant) {
        let State::Connecting(stream) = std::mem::replace(&mut self.state, State::Resting) else { return };
        let ready = match stream.take_error() {
            Ok(None) => stream.peer_addr().map(drop).and_then(|()| prepare(&stream)).and_then(|()| nonce()),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        match ready {
            Ok(nonce) => {
                let stream = match self.encrypt(common, stream) {
                    Ok(stream) => stream,
                    Err(error) => return self.lose(host, now, &error.to_string()),
                };
                self.output.clear();
                self.sent = 0;
                let mut hello = Vec::new();
                let greeting = Greeting::connect(&common.terms, self.node, nonce, &mut hello);
                self.state = State::Greeting(stream, Box::new(greeting), Vec::new());
                self.write(&hello);
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => self.state = State::Connecting(stream),
            Err(error) => self.lose(host, now, &error.to_string()),
        }
    }

    /// The other side must have a certificate for its name.
    fn encrypt(&self, common: &Common, stream: TcpStream) -> Result<Stream, rustls::Error> {
        let encryption = common.encryption(|peers| peers.connect.clone()).map(|config| {
            let name = ServerName::try_from(self.name.clone());
            name.map(|name| (config, name)).map_err(|error| rustls::Error::General(error.to_string()))
        });
        Stream::connect(stream, encryption.transpose()?)
    }

    fn read(&mut self, common: &mut Common, host: &mut Host, now: Instant) {
        let (State::Linked(stream) | State::Greeting(stream, ..)) = &mut self.state else { return };
        let mut buffer = [0; READ_BYTES];
        let length = match stream.read(&mut buffer) {
            Ok(0) if stream.is_handshaking() => {
                return self.lose(host, now, "it closed the link: is tls.peer set there as well?");
            }
            Ok(0) => return self.lose(host, now, "it closed the link"),
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(error) => return self.lose(host, now, &error.to_string()),
        };
        // Whatever else the socket holds, its end included, is read in the next turn.
        self.is_readable = true;
        let mut answer = Vec::new();
        let State::Greeting(_, greeting, input) = &mut self.state else {
            return self.lose(host, now, "it speaks where it should listen");
        };
        input.extend_from_slice(&buffer[..length]);
        let advanced = {
            let is_unheard = |node| host.is_unheard(node);
            greeting.advance(&common.terms, &mut common.pins, &is_unheard, input, &mut answer)
        };
        if !answer.is_empty() {
            self.write(&answer);
        }
        match advanced {
            Ok(None) => {}
            Ok(Some(peer)) => {
                host.note_level(peer.node, peer.level_known);
                self.link(common, host);
            }
            Err(failed) => {
                common.report(Some(self.node), &failed);
                self.told = "refused".to_owned();
                self.rest(now);
            }
        }
    }

    fn link(&mut self, common: &mut Common, host: &mut Host) {
        let State::Greeting(stream, ..) = std::mem::replace(&mut self.state, State::Resting) else { return };
        self.state = State::Linked(stream);
        self.has_met = true;
        self.back_off_us = BACK_OFF_MIN_US;
        self.told.clear();
        common.refusals.forget(self.node);
        info!(node = %self.name, "linked to {}", self.node);
        host.linked(self.node);
    }

    /// Gives the connection up, tells the host and the log, and waits before the next.
    fn lose(&mut self, host: &mut Host, now: Instant, reason: &str) {
        if self.is_linked() {
            warn!(node = %self.name, "the link to {} is lost: {reason}", self.node);
            host.unlinked(self.node);
        } else if self.told.is_empty() {
            info!(node = %self.name, "no link to {} yet: {reason}; trying again until there is", self.node);
        }
        self.told = reason.to_owned();
        self.rest(now);
    }

    /// The node has another data directory now than this link leads to.
    pub(super) fn lose_of_earlier(&mut self, host: &mut Host, now: Instant) {
        if self.is_linked() {
            self.lose(host, now, "it has another data directory now");
        }
    }

    fn rest(&mut self, now: Instant) {
        self.state = State::Resting;
        self.output = Vec::new();
        self.sent = 0;
        self.failed = None;
        self.due_at = now.after_us(self.back_off_us);
        self.back_off_us = (self.back_off_us * 2).min(BACK_OFF_MAX_US);
    }
}

/// Looks a host's address up on a thread of its own: it may take seconds.
fn look_up(address: Address, waker: Arc<Waker>) -> io::Result<Receiver<io::Result<SocketAddr>>> {
    let (answer, receiver) = channel();
    let work = move || {
        let found = (address.host.as_str(), address.port).to_socket_addrs();
        let first = found.and_then(|mut all| all.next().ok_or(ErrorKind::NotFound.into()));
        // Nobody waits any more, if it took too long.
        let _ = answer.send(first);
        let _ = waker.wake();
    };
    std::thread::Builder::new().name("look-up".into()).spawn(work)?;
    Ok(receiver)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket::give_up_after(stream, UNACKNOWLEDGED_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_rests_ever_longer_unless_it_is_told_to_hurry() {
        let address = Address { host: "127.0.0.1".to_owned(), port: 2 };
        let mut link = Outgoing::new(0, NodeId(2), "n2".to_owned(), address);
        let now = Instant(5_000_000);
        let rests = (0..7).map(|_| {
            link.rest(now);
            link.next_due().0 - now.0
        });
        assert_eq!(rests.collect::<Vec<_>>(), [50_000, 100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000]);
        link.hurry(now);
        assert_eq!(link.next_due(), now);
    }
}
