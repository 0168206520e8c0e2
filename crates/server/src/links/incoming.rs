//! The links from other nodes: accepted, greeted and read.

use std::io::{self, ErrorKind};

use mio::Interest;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use quorate_node::Host;
use quorate_node::frame::{FrameError, frame_length};
use quorate_protocol::{Instant, NodeId};
use slab::Slab;
use tracing::warn;

use super::greeting::Greeting;
use super::hello::ENCRYPT;
use super::{Common, GREETING_US, nonce};
use crate::socket;
use crate::tls::Stream;
use crate::worker::Source;

/// Connections for each other node; a node that comes back may find its old ones still there.
const CONNECTIONS_PER_NODE: usize = 4;
/// And for those who mistake this for another port, or mean harm.
const CONNECTIONS_SPARE: usize = 16;
/// After an accept that failed, for want of descriptors perhaps.
const ACCEPT_RETRY_US: u64 = 100_000;
/// An emptied input buffer larger than this is given back.
const INPUT_BYTES_KEPT: usize = 1 << 20;

pub(super) struct Incoming {
    listener: TcpListener,
    /// The listener may have connections, to be asked for at this time.
    accept_at: Option<Instant>,
    links: Slab<Link>,
    connections_max: usize,
    /// Links whose sockets may hold something.
    readable: Vec<usize>,
    /// Links of which something was read.
    fed: Vec<usize>,
    /// Nodes that have made a link since they were last asked for.
    arrived: Vec<NodeId>,
}

struct Link {
    stream: Stream,
    state: State,
    input: Vec<u8>,
    is_listed: bool,
    /// The peer's end is announced: there is something to read, if only that.
    is_read_closed: bool,
    /// Nothing more will come.
    is_over: bool,
    /// What is wrong with what came.
    error: Option<io::Error>,
}

enum State {
    Greeting { greeting: Box<Greeting>, until: Instant },
    Linked(NodeId),
}

impl Incoming {
    pub(super) fn new(listener: TcpListener) -> Incoming {
        Incoming {
            listener,
            accept_at: Some(Instant(0)),
            links: Slab::new(),
            connections_max: CONNECTIONS_SPARE,
            readable: Vec::new(),
            fed: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// How many nodes there are.
    pub(super) fn set_node_count(&mut self, count: usize) {
        self.connections_max = count * CONNECTIONS_PER_NODE + CONNECTIONS_SPARE;
    }

    pub(super) fn on_listener(&mut self) {
        self.accept_at = Some(Instant(0));
    }

    pub(super) fn on_event(&mut self, place: usize, event: &Event) {
        let Some(link) = self.links.get_mut(place) else { return };
        link.is_read_closed |= event.is_read_closed() || event.is_error();
        if !link.is_listed && (event.is_readable() || link.is_read_closed) {
            link.is_listed = true;
            self.readable.push(place);
        }
    }

    pub(super) fn accept(&mut self, common: &mut Common, now: Instant) {
        if self.accept_at.is_none_or(|at| now < at) {
            return;
        }
        self.accept_at = None;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.links.len() >= self.connections_max {
                        self.drop_slowest();
                    }
                    self.admit(common, stream, now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    warn!("cannot accept a link: {error}");
                    self.accept_at = Some(now.after_us(ACCEPT_RETRY_US));
                    return;
                }
            }
        }
    }

    /// With too many, whoever has been greeting for longest is dropped: strangers who say nothing must not keep nodes out.
    /// There is always one, as each node has one link at most.
    fn drop_slowest(&mut self) {
        let greeting = self.links.iter().filter_map(|(place, link)| match link.state {
            State::Greeting { until, .. } => Some((until, place)),
            State::Linked(_) => None,
        });
        if let Some((_, place)) = greeting.min() {
            self.links.remove(place);
        }
    }

    fn admit(&mut self, common: &mut Common, mut stream: TcpStream, now: Instant) {
        let entry = self.links.vacant_entry();
        let token = Source::Incoming(entry.key()).token();
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| socket::keep_alive(&stream))
            .and_then(|()| common.registry.register(&mut stream, token, Interest::READABLE))
            .and_then(|()| nonce());
        let encrypted = Stream::accept(stream, common.encryption(|peers| peers.accept.clone()), ENCRYPT);
        // A connection that cannot even be prepared is gone already.
        let (Ok(nonce), Ok(stream)) = (prepared, encrypted) else { return };
        let greeting = Box::new(Greeting::accept(&common.terms, nonce));
        let state = State::Greeting { greeting, until: now.after_us(GREETING_US) };
        let input = Vec::new();
        let link = Link { stream, state, input, is_listed: false, is_read_closed: false, is_over: false, error: None };
        entry.insert(link);
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) {
        for place in std::mem::take(&mut self.readable) {
            let Some(link) = self.links.get_mut(place) else { continue };
            link.is_listed = false;
            let has_more = match link.stream.read(buffer) {
                Ok(0) => {
                    link.is_over = true;
                    false
                }
                Ok(length) => {
                    link.input.extend_from_slice(&buffer[..length]);
                    length == buffer.len() || link.is_read_closed || link.stream.has_end()
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => true,
                Err(error) => {
                    link.is_over = true;
                    link.error = Some(error).filter(|error| error.kind() == ErrorKind::InvalidData);
                    false
                }
            };
            if has_more {
                link.is_listed = true;
                self.readable.push(place);
            }
            self.fed.push(place);
        }
    }

    /// What nodes send that have been met with another directory since they began is not heard any more.
    pub(super) fn drop_all_of(&mut self, nodes: &[NodeId]) {
        self.links.retain(|_, link| !matches!(link.state, State::Linked(node) if nodes.contains(&node)));
    }

    pub(super) fn deliver(&mut self, common: &mut Common, host: &mut Host) {
        for place in std::mem::take(&mut self.fed) {
            let Some(link) = self.links.get_mut(place) else { continue };
            let was_linked = matches!(link.state, State::Linked(_));
            if let Some(error) = link.error.take() {
                common.report_stranger(&error);
            }
            let stays = link.greet(common, host) && link.deliver(common, host);
            match link.state {
                _ if !stays || link.is_over => drop(self.links.remove(place)),
                State::Linked(node) if !was_linked => {
                    self.drop_older(place, node);
                    self.arrived.push(node);
                }
                _ => {}
            }
        }
    }

    pub(super) fn take_arrived(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.arrived)
    }

    /// A node has one link to us: with a new one, the old one is of a run, or a connection, that is over.
    fn drop_older(&mut self, place: usize, node: NodeId) {
        let newer = place;
        self.links.retain(|place, link| place == newer || !matches!(link.state, State::Linked(other) if other == node));
    }

    pub(super) fn tick(&mut self, common: &mut Common, now: Instant) {
        self.links.retain(|_, link| !matches!(link.state, State::Greeting { until, .. } if until <= now));
        self.accept(common, now);
    }

    pub(super) fn next_due(&self) -> Instant {
        if self.readable.is_empty() { self.accept_at.unwrap_or(Instant::MAX) } else { Instant(0) }
    }
}

impl Link {
    /// Goes on with the greeting, if it is not over. False if the link is refused.
    fn greet(&mut self, common: &mut Common, host: &mut Host) -> bool {
        let State::Greeting { greeting, .. } = &mut self.state else { return true };
        greeting.show(self.stream.certificate());
        let mut answer = Vec::new();
        let advanced = {
            let is_unheard = |node| host.is_unheard(node);
            greeting.advance(&common.terms, &mut common.pins, &is_unheard, &mut self.input, &mut answer)
        };
        // A new connection takes these few bytes whole, or is of no use.
        let written = answer.is_empty() || self.stream.write(&answer).is_ok_and(|length| length == answer.len());
        match advanced {
            Ok(None) => written,
            Ok(Some(peer)) => {
                tracing::debug!("link from {} in its start {}", peer.node, peer.start);
                host.note_level(peer.node, peer.level_known);
                self.state = State::Linked(peer.node);
                written
            }
            Err(failed) => {
                common.report(greeting.claimed(), &failed);
                false
            }
        }
    }

    /// Hands the host the whole frames. False if they are none.
    fn deliver(&mut self, common: &mut Common, host: &mut Host) -> bool {
        let State::Linked(from) = self.state else { return true };
        let mut taken = 0;
        let outcome: Result<(), FrameError> = loop {
            match frame_length(&self.input[taken..]) {
                Ok(None) => break Ok(()),
                Ok(Some(length)) => {
                    if let Err(error) = host.receive(from, &self.input[taken..taken + length]) {
                        break Err(error);
                    }
                    taken += length;
                }
                Err(error) => break Err(error),
            }
        };
        self.input.drain(..taken);
        if self.input.is_empty() {
            self.input.shrink_to(INPUT_BYTES_KEPT);
        } else {
            host.hears(from);
        }
        if let Err(error) = &outcome {
            common.report_frame(from, error);
        }
        outcome.is_ok()
    }
}
