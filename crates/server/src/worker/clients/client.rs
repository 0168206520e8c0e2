//! One client's socket, what it has sent and how long it takes for everything.

use std::io::ErrorKind;
use std::net::Shutdown;

use quorate_front::{ConnectionId, Front, Progress};
use quorate_protocol::Instant;

use super::BUFFER_BYTES_KEPT;
use crate::config;
use crate::tls::Stream;

/// How long a client may be a guest: whoever does not give the password is disconnected.
pub(super) const GUEST_US: u64 = 10_000_000;
/// Output beyond this many bytes may wait for this long.
pub(super) const OUTPUT_BYTES_SOFT: usize = 16 << 20;
pub(super) const OUTPUT_PATIENCE_US: u64 = 10_000_000;
/// Whoever is told goodbye may have more to say, and must have said it before it can read why: it is listened to for so
/// long, and up to so much, which is the largest value that Redis takes.
pub(super) const LINGER_US: u64 = 5_000_000;
const LINGER_BYTES_MAX: usize = 512 << 20;

pub(super) struct Client {
    stream: Stream,
    pub(super) connection: ConnectionId,
    pub(super) input: Vec<u8>,
    /// The input's part in the sum over all clients.
    input_counted: usize,
    /// How much of the front's output is written already.
    sent: usize,
    /// The front takes nothing at the moment: neither is anything read.
    pub(super) is_paused: bool,
    /// The backend has no room for what it asks: nothing is read either.
    pub(super) is_held_back: bool,
    /// The socket may hold something.
    pub(super) is_unread: bool,
    pub(super) is_read_closed: bool,
    /// Nothing more will come. It may still read what it is owed.
    pub(super) is_over: bool,
    pub(super) is_broken: bool,
    /// The socket takes nothing at the moment.
    pub(super) is_blocked: bool,
    pub(super) is_in_readable: bool,
    pub(super) is_in_to_offer: bool,
    pub(super) is_in_to_write: bool,
    /// Since when more waits for it than should, or it should be gone.
    pub(super) slow_since: Option<Instant>,
    /// Since when it has been a guest or in its handshake, if it is; looked at in sweeps.
    guest_since: Option<Instant>,
    /// Since when a request of it has begun and not ended.
    request_since: Option<Instant>,
    /// When it last sent something.
    heard_at: Instant,
    /// It has been sent everything, the end included; until then what it still says is thrown away.
    lingers_until: Option<Instant>,
    discarded_bytes: usize,
}

impl Client {
    pub(super) fn new(stream: Stream, connection: ConnectionId, now: Instant) -> Client {
        Client {
            stream,
            connection,
            input: Vec::new(),
            input_counted: 0,
            sent: 0,
            is_paused: false,
            is_held_back: false,
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
            request_since: None,
            heard_at: now,
            lingers_until: None,
            discarded_bytes: 0,
        }
    }

    /// False if there was nothing to be read after all.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> bool {
        match self.stream.read(buffer) {
            Ok(0) => {
                self.is_over = true;
                self.is_unread = false;
            }
            Ok(length) => {
                if self.is_lingering() {
                    self.discarded_bytes += length;
                } else {
                    self.input.extend_from_slice(&buffer[..length]);
                }
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

    pub(super) fn write(&mut self, front: &mut Front, now: Instant) {
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
        front.sent(self.connection);
    }

    /// Keeps the sum over all clients.
    pub(super) fn count_input(&mut self, sum: &mut usize) {
        *sum = *sum + self.input.len() - self.input_counted;
        self.input_counted = self.input.len();
    }

    pub(super) fn input_counted(&self) -> usize {
        self.input_counted
    }

    /// The front has seen the input, and perhaps taken something of it. What is left then is the beginning of a request,
    /// unless it has to wait for others.
    pub(super) fn note_request(&mut self, has_taken: bool, now: Instant) {
        self.heard_at = now;
        if self.input.is_empty() || self.is_paused || self.is_held_back {
            self.request_since = None;
        } else if has_taken || self.request_since.is_none() {
            self.request_since = Some(now);
        }
    }

    /// Whether it should have given the password by now.
    pub(super) fn is_guest_for_too_long(&mut self, front: &Front, now: Instant) -> bool {
        if !front.is_guest(self.connection) && !self.stream.is_handshaking() {
            self.guest_since = None;
            return false;
        }
        self.guest_since.get_or_insert(now).after_us(GUEST_US) <= now
    }

    /// Why it is to be disconnected, if so.
    pub(super) fn is_too_slow(&self, limits: &config::Limits, front: &Front, now: Instant) -> Option<&'static str> {
        let has_passed = |since: Instant, wait_s: u64| since.after_us(wait_s.saturating_mul(1_000_000)) <= now;
        if self.slow_since.is_some_and(|since| since.after_us(OUTPUT_PATIENCE_US) <= now) {
            Some("it reads too slowly what it asked for")
        } else if self.request_since.is_some_and(|since| has_passed(since, limits.request_s)) {
            Some("it has begun a request and not finished it")
        } else if limits.idle_s > 0 && has_passed(self.heard_at, limits.idle_s) && front.is_answered(self.connection) {
            Some("it has said nothing for longer than limits.idle_s")
        } else {
            None
        }
    }

    /// Ends the sending and goes on reading: a connection that is closed with bytes unread is reset, and who is reset
    /// while it sends never sees why. False if there is no use in it, or no more.
    pub(super) fn try_linger(&mut self, now: Instant) -> bool {
        if self.is_broken || self.is_over || self.discarded_bytes > LINGER_BYTES_MAX {
            return false;
        }
        if !self.is_lingering() {
            self.lingers_until = Some(now.after_us(LINGER_US));
            self.is_paused = false;
            self.stream.close();
            return self.stream.socket().shutdown(Shutdown::Write).is_ok();
        }
        true
    }

    /// Says goodbye.
    pub(super) fn close(&mut self) {
        self.stream.close();
    }

    pub(super) fn is_lingering(&self) -> bool {
        self.lingers_until.is_some()
    }

    pub(super) fn has_lingered(&self, now: Instant) -> bool {
        self.lingers_until.is_some_and(|until| until <= now)
    }

    pub(super) fn is_finished(&self, front: &mut Front, progress: Progress) -> bool {
        let is_all_sent = front.output(self.connection).is_empty();
        let is_served = self.is_over && !self.is_paused && !self.is_held_back && front.is_answered(self.connection);
        self.is_broken || (is_all_sent && !self.stream.wants_write() && (is_served || progress == Progress::Close))
    }
}
