//! What clients asked, when, and what they were told: the evidence that the checkers judge.
//!
//! A history knows nothing of nodes, groups or messages. Times are the simulated world's true time in microseconds, not
//! any node's clock. A call precedes another if it returned strictly before the other was invoked.

use std::fmt;

/// One connection of a client. Calls of one connection on one object take effect in the order in which they were
/// invoked, also when they were pipelined. A client that connects again is another connection: nothing orders what it
/// sends against what the old connection left unanswered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Connection(pub u32);

/// One of the few objects that a workload uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Object(pub u16);

impl fmt::Display for Object {
    /// The object's key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object-{}", self.0)
    }
}

/// Where a call stands in its history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u32);

/// The bytes of a value, never empty space: a history holds up to a million calls.
pub type Bytes = Box<[u8]>;

/// One operation on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub object: Object,
    pub action: Action,
}

/// What workloads do to an object. Times are absolute milliseconds of group time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Get,
    Exists,
    Strlen,
    Pttl,
    Set {
        value: Bytes,
    },
    SetExpiring {
        value: Bytes,
        at_ms: i64,
    },
    SetIfAbsent {
        value: Bytes,
    },
    SetIfEqual {
        expected: Bytes,
        value: Bytes,
    },
    GetSet {
        value: Bytes,
    },
    Append {
        value: Bytes,
    },
    IncrBy {
        delta: i64,
    },
    Del,
    /// DEL of what may be a register: then nobody can tell whether there was an object.
    Erase,
    GetDel,
    ExpireAt {
        at_ms: i64,
    },
    Persist,
}

/// What a call that was executed answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ok,
    Nil,
    Int(i64),
    Bytes(Bytes),
    /// A refusal that follows from the object's state, or an error that no object gives.
    Error(Box<str>),
}

/// What is known of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Unanswered, or answered with *unknown*: it may take effect later, once, or never.
    Unknown,
    /// The client was told that it was not executed, and it must never be.
    NotExecuted,
    Answered {
        at_us: u64,
        answer: Answer,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub connection: Connection,
    pub call: Call,
    pub invoked_us: u64,
    pub fate: Fate,
}

/// All calls of a run, in the order in which they were invoked.
#[derive(Clone, Debug, Default)]
pub struct History {
    records: Vec<Record>,
}

impl History {
    pub fn new() -> Self {
        Self::default()
    }

    /// A call leaves its client. Calls are recorded in the order of their times, and those of one connection in the
    /// order in which they are sent.
    pub fn invoke(&mut self, connection: Connection, call: Call, now_us: u64) -> CallId {
        let before = self.records.last().map_or(0, |record| record.invoked_us);
        assert!(now_us >= before, "a call at {now_us} was recorded after one at {before}");
        let id = CallId(u32::try_from(self.records.len()).expect("a run has far fewer than 2^32 calls"));
        self.records.push(Record { connection, call, invoked_us: now_us, fate: Fate::Unknown });
        id
    }

    /// The client learns what became of the call. Until then, and if it never learns, the fate is unknown.
    pub fn settle(&mut self, id: CallId, fate: Fate) {
        let record = &mut self.records[id.0 as usize];
        assert_eq!(record.fate, Fate::Unknown, "call {id:?} was answered twice");
        if let Fate::Answered { at_us, .. } = fate {
            assert!(at_us >= record.invoked_us, "call {id:?} was answered before it was invoked");
        }
        record.fate = fate;
    }

    pub fn record(&self, id: CallId) -> &Record {
        &self.records[id.0 as usize]
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The calls of each object, in the order of their invocation.
    pub fn by_object(&self) -> Vec<(Object, Vec<CallId>)> {
        let mut objects: Vec<(Object, Vec<CallId>)> = Vec::new();
        let mut places: Vec<Option<usize>> = Vec::new();
        for (index, record) in self.records.iter().enumerate() {
            let object = record.call.object;
            let slot = usize::from(object.0);
            if places.len() <= slot {
                places.resize(slot + 1, None);
            }
            let place = *places[slot].get_or_insert_with(|| {
                objects.push((object, Vec::new()));
                objects.len() - 1
            });
            objects[place].1.push(CallId(index as u32));
        }
        objects.sort_by_key(|(object, _)| *object);
        objects
    }
}

impl Action {
    /// Whether the call can change the object.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get | Self::Exists | Self::Strlen | Self::Pttl)
    }

    pub fn sets_expiry(&self) -> bool {
        matches!(self, Self::SetExpiring { .. } | Self::ExpireAt { .. })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => f.write_str("GET"),
            Self::Erase => f.write_str("DEL of what may be a register"),
            Self::Exists => f.write_str("EXISTS"),
            Self::Strlen => f.write_str("STRLEN"),
            Self::Pttl => f.write_str("PTTL"),
            Self::Set { value } => write!(f, "SET {}", Quoted(value)),
            Self::SetExpiring { value, at_ms } => write!(f, "SET {} PXAT {at_ms}", Quoted(value)),
            Self::SetIfAbsent { value } => write!(f, "SETNX {}", Quoted(value)),
            Self::SetIfEqual { expected, value } => {
                write!(f, "SET {} IFEQ {}", Quoted(value), Quoted(expected))
            }
            Self::GetSet { value } => write!(f, "GETSET {}", Quoted(value)),
            Self::Append { value } => write!(f, "APPEND {}", Quoted(value)),
            Self::IncrBy { delta } => write!(f, "INCRBY {delta}"),
            Self::Del => f.write_str("DEL"),
            Self::GetDel => f.write_str("GETDEL"),
            Self::ExpireAt { at_ms } => write!(f, "PEXPIREAT {at_ms}"),
            Self::Persist => f.write_str("PERSIST"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("OK"),
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "{}", Quoted(bytes)),
            Self::Error(line) => write!(f, "-{line}"),
        }
    }
}

/// A value as a person reads it.
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(object: u16) -> Call {
        Call { object: Object(object), action: Action::Get }
    }

    #[test]
    fn groups_calls_by_object_in_order() {
        let mut history = History::new();
        for (time, object) in [(1, 3), (2, 0), (3, 3)] {
            history.invoke(Connection(0), call(object), time);
        }
        let expected = vec![(Object(0), vec![CallId(1)]), (Object(3), vec![CallId(0), CallId(2)])];
        assert_eq!(history.by_object(), expected);
    }

    #[test]
    #[should_panic(expected = "answered twice")]
    fn refuses_a_second_answer() {
        let mut history = History::new();
        let id = history.invoke(Connection(0), call(0), 1);
        history.settle(id, Fate::Answered { at_us: 2, answer: Answer::Nil });
        history.settle(id, Fate::NotExecuted);
    }

    #[test]
    #[should_panic(expected = "answered before it was invoked")]
    fn refuses_an_answer_from_the_future() {
        let mut history = History::new();
        let id = history.invoke(Connection(0), call(0), 5);
        history.settle(id, Fate::Answered { at_us: 4, answer: Answer::Nil });
    }
}
