//! The connections of one worker and the way of every request through them.

use slab::Slab;

use quorate_resp::{Arguments, ProtocolError, RequestLimits, RequestParser, Version};

use crate::access::{self, Access, GUEST_OUTPUT_LENGTH_MAX, Step};
use crate::application::{self, Applications, Job, Worked};
use crate::backend::{Answer, Backend, OperationId, Verdict};
use crate::connection::{Allowance, Client, Connection, ConnectionId};
use crate::journal::{Counts, Journal, SlowLogSettings};
use crate::object_command::Call;
use crate::operations::{Asker, Operations, Waiter};
use crate::refusal::Refusal;
use crate::session;
use crate::specs::{self, Shape};
use crate::submit;
use crate::transaction;

/// What clients may use. See also [`RequestLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub request: RequestLimits,
    /// Words of a command that does not take many keys.
    pub word_count_max: usize,
    /// Bytes of an object's value.
    pub object_length_max: usize,
    /// Requests of one connection that are unanswered; further ones are left in its input.
    pub unanswered_max: usize,
    /// Bytes of such requests; with more, further ones are left in its input.
    pub unanswered_length_max: usize,
    /// Bytes of replies that wait to be sent; with more, further requests are left in the connection's input.
    pub output_length_pause: usize,
    /// Bytes of replies that wait to be sent; with more, the connection is closed. One reply of many keys may have half of
    /// it.
    pub output_length_max: usize,
    /// Keys that one part of a SCAN is asked for, whatever its COUNT says.
    pub scan_count_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request: RequestLimits::default(),
            word_count_max: 65_536,
            object_length_max: quorate_object::OBJECT_BYTES_MAX,
            unanswered_max: 10_000,
            unanswered_length_max: 32 << 20,
            output_length_pause: 1 << 20,
            output_length_max: 64 << 20,
            scan_count_max: quorate_object::SCAN_COUNT_MAX,
        }
    }
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It takes requests.
    Open,
    /// It takes none until some are answered or some output is sent: leave its bytes in the socket, and call
    /// [`Front::received`] again with what is in its input once its progress is [`Progress::Open`].
    Paused,
    /// It takes none any more, but some are still to be answered.
    Draining,
    /// Send what is in the output, then close it and call [`Front::disconnected`].
    Close,
}

/// What the connections of one worker have asked and been answered. See the [crate's documentation](crate).
#[derive(Debug)]
pub struct Front {
    pub(crate) limits: Limits,
    pub(crate) access: Access,
    pub(crate) connections: Slab<Connection>,
    pub(crate) journal: Journal,
    pub(crate) operations: Operations,
    pub(crate) applications: Applications,
    /// Connections that have output or a new progress of which nobody was told.
    pub(crate) touched: Vec<ConnectionId>,
    generation_last: u32,
    /// Of replies, over all connections.
    reply_length: usize,
}

impl Front {
    #[must_use]
    pub fn new(limits: Limits, access: Access) -> Front {
        Front {
            limits,
            access,
            connections: Slab::new(),
            journal: Journal::default(),
            operations: Operations::default(),
            applications: Applications::default(),
            touched: Vec::new(),
            generation_last: 0,
            reply_length: 0,
        }
    }

    /// Whom it serves from now on. Connections that exist stay what they are.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// What the slow log keeps from now on.
    pub fn set_slow_log(&mut self, settings: SlowLogSettings) {
        self.journal.settings = settings;
        self.journal.trim();
    }

    /// Tells the time, before requests and before answers: microseconds on a clock of any origin by which both are timed,
    /// and milliseconds since the Unix epoch.
    pub fn set_now(&mut self, now_us: u64, now_ms: u64) {
        self.journal.set_now(now_us, now_ms / 1000);
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.journal.counts
    }

    /// How many commands the slow log holds.
    #[must_use]
    pub fn slow_log_length(&self) -> usize {
        self.journal.slow.len()
    }

    /// The connections that have output or a new [progress](Front::progress) since this was last asked, and that no call has returned:
    /// whom `CLIENT KILL` has disconnected, and who was answered by an application.
    pub fn take_touched(&mut self) -> Vec<ConnectionId> {
        core::mem::take(&mut self.touched)
    }

    /// A client has connected from `address` to `local`, both as `host:port`. Times are milliseconds since the Unix epoch.
    pub fn connected(&mut self, address: String, local: String, now_ms: u64) -> ConnectionId {
        self.journal.counts.connections += 1;
        self.generation_last = self.generation_last.wrapping_add(1);
        let client = Client {
            id: self.journal.counts.connections,
            address,
            local,
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            namespace: 0,
            version: Version::Resp2,
            is_kept: false,
            connected_ms: now_ms,
            active_ms: now_ms,
            last_command: None,
            transaction: None,
        };
        let parser = RequestParser::new(self.limits.request);
        let generation = self.generation_last;
        let index =
            self.connections.insert(Connection::new(generation, client, parser, self.access == Access::Password));
        ConnectionId { index: index as u32, generation }
    }

    /// The connection is gone; answers that are still to come for it will be dropped.
    pub fn disconnected(&mut self, id: ConnectionId) {
        if self.connection(id).is_some() {
            let connection = self.connections.remove(id.index as usize);
            self.reply_length -= connection.reply_length_counted;
        }
    }

    /// Whether the connection has still to give the password.
    #[must_use]
    pub fn is_guest(&self, id: ConnectionId) -> bool {
        self.connection(id).is_some_and(|connection| connection.is_guest)
    }

    /// How many connections there are.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Roughly the bytes of replies that all connections together have not been sent.
    #[must_use]
    pub fn reply_length(&self) -> usize {
        self.reply_length
    }

    /// The same of one connection.
    #[must_use]
    pub fn reply_length_of(&self, id: ConnectionId) -> usize {
        self.connection(id).map_or(0, Connection::kept_length)
    }

    /// Takes whole requests from the start of `input` and leaves the rest; nobody else may take bytes from it.
    /// Replies that are ready go to the [output](Front::output). If the backend has no room, whole requests may be left
    /// although the progress is [`Progress::Open`]: call again when it has.
    pub fn received<B: Backend>(
        &mut self,
        id: ConnectionId,
        input: &mut Vec<u8>,
        now_ms: u64,
        backend: &mut B,
    ) -> Progress {
        let Some(connection) = self.connection_mut(id) else { return Progress::Close };
        connection.client.active_ms = now_ms;
        // Taken out, because the words of a request borrow from the parser while the request changes the connection.
        let mut parser = core::mem::take(&mut connection.parser);
        let mut held = connection.held.take();
        let mut consumed = 0;
        while backend.has_room() && self.make_ready(id) {
            let rest = &mut input[consumed..];
            let is_new = held.is_none();
            let parsed = match held.take() {
                Some(length) => Ok(Some(length)),
                None => {
                    parser.set_guest(self.connections[id.index as usize].is_guest);
                    parser.parse(rest)
                }
            };
            match parsed {
                Ok(None) => break,
                Ok(Some(length)) => {
                    let pending = self.connections[id.index as usize].pending_count();
                    match self.take_request(id, parser.arguments(rest), is_new, now_ms, backend) {
                        Step::Done => {
                            self.connections[id.index as usize].note_request(pending, length);
                            consumed += length;
                        }
                        Step::Waits => held = Some(length),
                    }
                }
                Err(error) => self.refuse_and_close(id, error),
            }
        }
        input.drain(..consumed);
        if let Some(connection) = self.connection_mut(id) {
            connection.parser = parser;
            connection.held = held;
            if connection.is_closing() {
                input.clear();
            }
        }
        self.recount(id);
        self.progress(id)
    }

    /// An operation has ended. Returns the connection that now has output or a new [progress](Front::progress), if any.
    pub fn completed(&mut self, operation: OperationId, answer: Answer) -> Option<ConnectionId> {
        match self.operations.answer(operation)? {
            Asker::Client(waiter) => self.answer(waiter, operation, answer),
            Asker::Work(work) => {
                application::completed(self, work, answer);
                None
            }
        }
    }

    /// Gives an answer to whoever waits for it. Returns the connection if it now has output or a new progress.
    pub(crate) fn answer(&mut self, waiter: Waiter, operation: OperationId, answer: Answer) -> Option<ConnectionId> {
        let id = ConnectionId { index: waiter.connection, generation: waiter.generation };
        self.journal.count_failure(&answer);
        let output_length_max = self.limits.output_length_max;
        let connection = self.connections.get_mut(id.index as usize);
        let connection = connection.filter(|connection| connection.generation == id.generation)?;
        let journal = &mut self.journal;
        let has_output = connection.accept(waiter.sequence, operation, answer, output_length_max / 2, journal);
        let is_too_much = connection.reply_length() > output_length_max;
        if is_too_much {
            connection.abandon();
        }
        self.recount(id);
        (has_output || is_too_much).then_some(id)
    }

    /// What applications are to do since this was last asked.
    pub fn take_jobs(&mut self) -> Vec<Job> {
        self.applications.take_jobs()
    }

    /// An application has done its work.
    pub fn worked<B: Backend>(&mut self, worked: Worked, backend: &mut B) {
        application::worked(self, worked, backend);
    }

    /// Whether objects are to be read for applications, which [`Front::read_due`] does.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        self.applications.has_unread()
    }

    /// Reads them.
    pub fn read_due<B: Backend>(&mut self, backend: &mut B) {
        application::read_due(self, backend);
    }

    /// Whether no client waits for an application.
    #[must_use]
    pub fn is_idle_of_applications(&self) -> bool {
        self.applications.is_idle()
    }

    /// The verdict on a password that [`Backend::verify`] has promised. Returns the connection if it is still there and
    /// now has a new [progress](Front::progress).
    pub fn verified(&mut self, id: ConnectionId, verdict: Verdict) -> Option<ConnectionId> {
        self.connection_mut(id)?.accept_verdict(verdict).then_some(id)
    }

    /// The bytes to be sent to the client; the caller removes what it has sent and says so with [`Front::sent`].
    ///
    /// # Panics
    /// If the connection is gone, which only the caller can have done.
    pub fn output(&mut self, id: ConnectionId) -> &mut Vec<u8> {
        let connection = self.connection_mut(id).expect("the caller has disconnected this connection");
        &mut connection.output
    }

    /// Bytes were removed from the connection's output.
    pub fn sent(&mut self, id: ConnectionId) {
        self.recount(id);
    }

    /// How the connection stands, which `completed` and sending its output may have changed.
    #[must_use]
    pub fn progress(&self, id: ConnectionId) -> Progress {
        match self.connection(id) {
            None => Progress::Close,
            Some(connection) if connection.is_closing() => {
                if connection.is_answered() {
                    Progress::Close
                } else {
                    Progress::Draining
                }
            }
            Some(connection) if connection.is_ready(self.allowance()) => Progress::Open,
            Some(_) => Progress::Paused,
        }
    }

    /// Whether every request that the connection has sent whole is answered; the replies may still be in its output.
    #[must_use]
    pub fn is_answered(&self, id: ConnectionId) -> bool {
        self.connection(id).is_none_or(Connection::is_answered)
    }

    /// Carries out one request, which `is_new` if it has not waited before, and holds a guest to what guests may be told.
    fn take_request<B: Backend>(
        &mut self,
        id: ConnectionId,
        words: Arguments<'_>,
        is_new: bool,
        now_ms: u64,
        backend: &mut B,
    ) -> Step {
        if words.is_empty() {
            return Step::Done;
        }
        let index = id.index as usize;
        let length_before = self.connections[index].reply_length();
        if is_new {
            self.connections[index].begin_request();
        }
        let step = self.execute(id, words, now_ms, backend);
        let connection = &mut self.connections[index];
        if step == Step::Done {
            connection.verdict = None;
        }
        if connection.is_guest && connection.reply_length().saturating_sub(length_before) > GUEST_OUTPUT_LENGTH_MAX {
            connection.abandon();
        }
        step
    }

    fn execute<B: Backend>(&mut self, id: ConnectionId, words: Arguments<'_>, now_ms: u64, backend: &mut B) -> Step {
        let index = id.index as usize;
        let connection = &mut self.connections[index];
        let spec = match specs::resolve(words) {
            Ok(spec) => spec,
            // A browser that was tricked into sending commands; Redis too closes without a word.
            Err(_) if is_http(&words[0]) => {
                connection.close();
                return Step::Done;
            }
            Err(refusal) => {
                transaction::refused(connection, &words[0]);
                connection.refuse(&refusal);
                return Step::Done;
            }
        };
        if connection.is_guest && !spec.is_for_guests() {
            connection.refuse(&Refusal::NO_AUTH);
            return Step::Done;
        }
        if connection.client.transaction.is_some() && transaction::is_queued(spec.id) {
            connection.client.last_command = Some(spec);
            self.journal.count(spec);
            transaction::queue(connection, spec, words, self.limits.object_length_max);
            return Step::Done;
        }
        let waits_for_all =
            matches!(spec.shape, Shape::Volumes | Shape::Admin | Shape::Transaction | Shape::Slot | Shape::Application)
                || access::may_verify(spec, words);
        if waits_for_all && !connection.is_answered() {
            connection.bar();
            return Step::Waits;
        }
        if words.len() > self.limits.word_count_max && !matches!(spec.shape, Shape::Keys | Shape::Object | Shape::Slot)
        {
            self.refuse_and_close(id, ProtocolError::MultibulkLength);
            return Step::Done;
        }
        connection.client.last_command = Some(spec);
        let object_length_max = self.limits.object_length_max;
        let seed = now_ms << 20 ^ self.operations.next().0;
        let call = Call { spec, words, now_ms, object_length_max, seed };
        // One with a verdict was counted when its password was given to be looked at.
        if connection.verdict.is_none() {
            self.journal.count(spec);
        }
        if spec.shape == Shape::Connection {
            let step = session::execute(self, index, &call, backend);
            if step == Step::Done {
                self.journal.answered_at_once(spec, words, &self.connections[index].client);
            }
            return step;
        }
        self.connections[index].mark = Some(self.journal.begin(spec, words));
        submit::execute(self, index, &call, backend);
        let connection = &mut self.connections[index];
        // Nothing waits for what was refused.
        if let Some(mark) = connection.mark.take() {
            self.journal.end(&mark, &connection.client);
        }
        Step::Done
    }

    fn refuse_and_close(&mut self, id: ConnectionId, error: ProtocolError) {
        let connection = &mut self.connections[id.index as usize];
        connection.refuse(&Refusal::protocol(error));
        connection.close();
    }

    fn make_ready(&mut self, id: ConnectionId) -> bool {
        let allowance = self.allowance();
        self.connections[id.index as usize].make_ready(allowance)
    }

    fn allowance(&self) -> Allowance {
        Allowance {
            unanswered_max: self.limits.unanswered_max,
            unanswered_length_max: self.limits.unanswered_length_max,
            output_length_pause: self.limits.output_length_pause,
        }
    }

    /// Keeps the sum over all connections.
    fn recount(&mut self, id: ConnectionId) {
        let Some(connection) = self.connection_mut(id) else { return };
        let now = connection.kept_length();
        let before = std::mem::replace(&mut connection.reply_length_counted, now);
        self.reply_length = self.reply_length + now - before;
    }

    fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(id.index as usize).filter(|connection| connection.generation == id.generation)
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id.index as usize).filter(|connection| connection.generation == id.generation)
    }
}

fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"POST") || word.eq_ignore_ascii_case(b"Host:")
}
