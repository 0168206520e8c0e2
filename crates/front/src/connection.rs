//! One client's connection: who it is, what it has asked, and the queue that keeps its replies in order.

use std::collections::VecDeque;

use quorate_resp::{ReplyWriter, RequestParser, Version};

use crate::access::GUEST_OUTPUT_LENGTH_MAX;
use crate::backend::{Answer, OperationId, Verdict};
use crate::gather::Gathering;
use crate::journal::{Journal, Mark};
use crate::latest_by_key::{LatestByKey, Link};
use crate::operations::Operations;
use crate::refusal::Refusal;
use crate::reply::{answer_length, write_answer};
use crate::specs::Spec;
use crate::transaction::Queued;

/// Names a connection of one front. Places are reused, generations are not, so a stale id finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// The connection's place among those of its front; small, and used again once the connection is gone.
    #[must_use]
    pub fn place(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) generation: u32,
    pub(crate) client: Client,
    pub(crate) parser: RequestParser,
    /// The length of a parsed request that waits until everything before it is answered.
    pub(crate) held: Option<usize>,
    pub(crate) output: Vec<u8>,
    /// Of the request that is being carried out, until a reply is queued for it.
    pub(crate) mark: Option<Mark>,
    mute: Mute,
    /// It has not given the password, and there is one.
    pub(crate) is_guest: bool,
    /// On the password at this word of the request that is held.
    pub(crate) verdict: Option<(usize, Verdict)>,
    /// Its part in the front's sum.
    pub(crate) reply_length_counted: usize,
    replies: Replies,
    state: State,
}

/// What `CLIENT` tells of a connection and what `HELLO`, `SELECT` and `RESET` change.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) local: String,
    pub(crate) name: Vec<u8>,
    pub(crate) library_name: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
    pub(crate) namespace: u32,
    pub(crate) version: Version,
    /// What `CLIENT NO-EVICT` has said. It is only shown: whoever has the most waiting goes, if somebody must.
    pub(crate) is_kept: bool,
    pub(crate) connected_ms: u64,
    pub(crate) active_ms: u64,
    pub(crate) last_command: Option<&'static Spec>,
    /// What was queued since MULTI.
    pub(crate) transaction: Option<Box<Queued>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// As many requests are unanswered, or replies unsent, as are allowed; until half of them are gone, none is taken.
    Full,
    /// A command on all objects is unanswered: what comes behind it must wait.
    Barred,
    /// Somebody is looking at its password: what comes behind it must wait.
    Verifying {
        word: usize,
    },
    /// Nothing more is taken.
    Closing,
}

/// What `CLIENT REPLY` asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mute {
    Off,
    Always,
    /// The request after the one being carried out has no reply.
    Next,
    /// The request being carried out has no reply.
    This,
}

/// A reply that cannot be written yet, because it or one before it is not complete.
#[derive(Debug)]
struct Pending {
    version: Version,
    /// The reply's first operation; its operations are numbered one by one. For a reply without any, the next one.
    operation_first: u64,
    /// Bytes of the request, which its operations keep until they are answered.
    request_length: usize,
    reply: Reply,
    mark: Option<Mark>,
    is_muted: bool,
}

#[derive(Debug)]
enum Reply {
    Written(Vec<u8>),
    Awaited,
    Answered(Answer),
    Gathered(Box<Gathering>),
}

#[derive(Debug, Default)]
struct Replies {
    queue: VecDeque<Pending>,
    /// The number of the queue's head.
    sequence_first: u32,
    /// Operations without an answer.
    operation_count: usize,
    /// Roughly the bytes kept in the queue.
    length: usize,
    /// Of the requests that the queue's replies are for.
    request_length: usize,
    latest: LatestByKey,
}

/// How much a connection may have under way; see [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) unanswered_max: usize,
    pub(crate) unanswered_length_max: usize,
    pub(crate) output_length_pause: usize,
}

impl Allowance {
    /// Whoever has had too much waits until half of it is gone.
    fn half(self) -> Allowance {
        Allowance {
            unanswered_max: self.unanswered_max / 2,
            unanswered_length_max: self.unanswered_length_max / 2,
            output_length_pause: self.output_length_pause / 2,
        }
    }
}

impl Connection {
    pub(crate) fn new(generation: u32, client: Client, parser: RequestParser, is_guest: bool) -> Connection {
        Connection {
            generation,
            client,
            parser,
            held: None,
            output: Vec::new(),
            mark: None,
            mute: Mute::Off,
            is_guest,
            verdict: None,
            reply_length_counted: 0,
            replies: Replies::default(),
            state: State::Open,
        }
    }

    /// Its name, given its place.
    pub(crate) fn id(&self, index: usize) -> ConnectionId {
        ConnectionId { index: index as u32, generation: self.generation }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state == State::Closing
    }

    /// Takes no more requests; what is unanswered will still be answered.
    pub(crate) fn close(&mut self) {
        self.state = State::Closing;
    }

    /// Forgets all replies, written or not: the client does not read them.
    pub(crate) fn abandon(&mut self) {
        self.close();
        self.output = Vec::new();
        self.replies = Replies::default();
    }

    /// Takes another request: what was said of the next one is about this one now.
    pub(crate) fn begin_request(&mut self) {
        self.mute = match self.mute {
            Mute::Next => Mute::This,
            Mute::This => Mute::Off,
            lasting => lasting,
        };
    }

    /// Skipping the next reply says nothing new to whoever gets none.
    pub(crate) fn set_mute(&mut self, mute: Mute) {
        if !(mute == Mute::Next && self.mute == Mute::Always) {
            self.mute = mute;
        }
    }

    fn is_muted(&self) -> bool {
        matches!(self.mute, Mute::Always | Mute::This)
    }

    /// Lets no request pass until everything is answered.
    pub(crate) fn bar(&mut self) {
        self.state = State::Barred;
    }

    /// Lets no request pass until there is a verdict on the password at this word of the one that is held.
    pub(crate) fn await_verdict(&mut self, word: usize) {
        self.state = State::Verifying { word };
    }

    /// True if one was awaited.
    pub(crate) fn accept_verdict(&mut self, verdict: Verdict) -> bool {
        let State::Verifying { word } = self.state else { return false };
        self.state = State::Open;
        self.verdict = Some((word, verdict));
        true
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.replies.queue.is_empty() && !matches!(self.state, State::Verifying { .. })
    }

    /// Whether another request may be taken now.
    pub(crate) fn is_ready(&self, allowance: Allowance) -> bool {
        match self.state {
            State::Open => !self.is_beyond(allowance),
            State::Full => !self.is_beyond(allowance.half()),
            State::Barred => self.is_answered(),
            State::Verifying { .. } | State::Closing => false,
        }
    }

    /// The same, and remembers it.
    pub(crate) fn make_ready(&mut self, allowance: Allowance) -> bool {
        let is_ready = self.is_ready(allowance);
        match self.state {
            State::Open if !is_ready => self.state = State::Full,
            State::Full | State::Barred if is_ready => self.state = State::Open,
            _ => {}
        }
        is_ready
    }

    fn is_beyond(&self, allowance: Allowance) -> bool {
        let guest_max = if self.is_guest { GUEST_OUTPUT_LENGTH_MAX } else { usize::MAX };
        self.replies.queue.len().max(self.replies.operation_count) >= allowance.unanswered_max.max(1)
            || self.replies.request_length >= allowance.unanswered_length_max.max(1)
            || self.reply_length() >= allowance.output_length_pause.clamp(1, guest_max)
    }

    /// How many replies are pending.
    pub(crate) fn pending_count(&self) -> usize {
        self.replies.queue.len()
    }

    /// A request of this length was carried out, before which so many replies were pending.
    pub(crate) fn note_request(&mut self, pending_count: usize, length: usize) {
        if self.replies.queue.len() > pending_count
            && let Some(pending) = self.replies.queue.back_mut()
        {
            pending.request_length = length;
            self.replies.request_length += length;
        }
    }

    /// Roughly the bytes of replies that the client has not been sent.
    pub(crate) fn reply_length(&self) -> usize {
        self.output.len() + self.replies.length
    }

    /// The same, and of the requests that are queued for EXEC.
    pub(crate) fn kept_length(&self) -> usize {
        self.reply_length() + self.client.transaction.as_ref().map_or(0, |queued| queued.kept_length())
    }

    /// Replies at once: to the output if nothing is before it.
    pub(crate) fn reply(&mut self, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        if self.is_muted() {
            return;
        }
        let version = self.client.version;
        if self.is_answered() {
            return write(&mut ReplyWriter::new(&mut self.output, version));
        }
        let mut bytes = Vec::new();
        write(&mut ReplyWriter::new(&mut bytes, version));
        self.replies.length += bytes.len();
        let operation_first = self.replies.queue.back().map_or(0, |last| last.operation_first);
        let reply = Reply::Written(bytes);
        self.replies.push(Pending { version, operation_first, request_length: 0, reply, mark: None, is_muted: false });
    }

    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        self.reply(|writer| writer.error(refusal.text()));
    }

    /// Queues a reply that one operation answers, and returns its number in the queue.
    pub(crate) fn await_answer(&mut self, operation: OperationId) -> u32 {
        self.queue(operation, Reply::Awaited)
    }

    /// Queues a reply that several operations answer, and returns its number in the queue.
    pub(crate) fn await_answers(&mut self, first: OperationId, gathering: Gathering) -> u32 {
        self.queue(first, Reply::Gathered(Box::new(gathering)))
    }

    fn queue(&mut self, first: OperationId, reply: Reply) -> u32 {
        let (mark, is_muted) = (self.mark.take(), self.is_muted());
        let version = self.client.version;
        self.replies.push(Pending { version, operation_first: first.0, request_length: 0, reply, mark, is_muted })
    }

    /// Notes an operation whose reply is queued.
    pub(crate) fn note_operation(&mut self) {
        self.replies.operation_count += 1;
    }

    /// Notes an operation on a key, whose reply is queued, and returns what it follows.
    pub(crate) fn link(&mut self, operation: OperationId, key_hash: u64, operations: &mut Operations) -> Link {
        let replies = &mut self.replies;
        let oldest = replies.queue.front().map_or(operation.0, |head| head.operation_first);
        replies.latest.link(operation, key_hash, oldest, replies.operation_count, operations)
    }

    /// Takes the answer of one operation. True if there is new output. A gathered reply may have `gathered_length_max` bytes.
    pub(crate) fn accept(
        &mut self,
        sequence: u32,
        operation: OperationId,
        answer: Answer,
        gathered_length_max: usize,
        journal: &mut Journal,
    ) -> bool {
        let position = sequence.wrapping_sub(self.replies.sequence_first) as usize;
        let Some(pending) = self.replies.queue.get_mut(position) else {
            // The connection was abandoned.
            return false;
        };
        self.replies.operation_count -= 1;
        match &mut pending.reply {
            Reply::Gathered(gathering) => {
                let part = (operation.0 - pending.operation_first) as usize;
                self.replies.length -= gathering.length();
                gathering.add(part, answer, gathered_length_max);
                self.replies.length += gathering.length();
            }
            // The usual case, without a detour through the queue.
            _ if position == 0 => {
                if !pending.is_muted {
                    write_answer(&mut ReplyWriter::new(&mut self.output, pending.version), &answer);
                }
                self.finish_first(journal);
                self.write_complete(journal);
                return true;
            }
            reply => {
                self.replies.length += answer_length(&answer);
                *reply = Reply::Answered(answer);
            }
        }
        position == 0 && self.write_complete(journal)
    }

    /// Writes the replies at the head of the queue that are complete. True if there was one.
    fn write_complete(&mut self, journal: &mut Journal) -> bool {
        let mut has_written = false;
        while let Some(head) = self.replies.queue.front() {
            let length_before = self.output.len();
            let mut writer = ReplyWriter::new(&mut self.output, head.version);
            let length = match &head.reply {
                Reply::Awaited => break,
                Reply::Gathered(gathering) if !gathering.is_complete() => break,
                Reply::Gathered(gathering) => {
                    gathering.write(&mut writer);
                    gathering.length()
                }
                Reply::Answered(answer) => {
                    write_answer(&mut writer, answer);
                    answer_length(answer)
                }
                Reply::Written(bytes) => {
                    self.output.extend_from_slice(bytes);
                    bytes.len()
                }
            };
            if head.is_muted {
                self.output.truncate(length_before);
            }
            self.replies.length -= length;
            self.finish_first(journal);
            has_written = true;
        }
        has_written
    }

    /// The first reply of the queue is written.
    fn finish_first(&mut self, journal: &mut Journal) {
        if let Some(mark) = self.replies.pop().and_then(|pending| pending.mark) {
            journal.end(&mark, &self.client);
        }
    }
}

impl Replies {
    fn push(&mut self, pending: Pending) -> u32 {
        let sequence = self.sequence_first.wrapping_add(self.queue.len() as u32);
        self.queue.push_back(pending);
        sequence
    }

    fn pop(&mut self) -> Option<Pending> {
        let first = self.queue.pop_front();
        self.request_length -= first.as_ref().map_or(0, |pending| pending.request_length);
        self.sequence_first = self.sequence_first.wrapping_add(1);
        if self.queue.is_empty() {
            self.queue.shrink_to(QUEUE_KEPT);
        }
        first
    }
}

/// Queue places kept allocated while nothing is pending; what a long pipeline needed is given back.
const QUEUE_KEPT: usize = 128;
