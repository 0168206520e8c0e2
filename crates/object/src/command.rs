//! What can be asked of a group's objects, and the bytes that a command is in logs and frames.
//!
//! A command borrows from the bytes it was decoded from, so that executing a batch copies only what the objects keep.
//!
//! # Bytes
//!
//! One opcode byte, then the fields in the order below, little-endian. `key`, `value` and other byte strings are a `u32`
//! length and the bytes; `?` marks a field that a byte 0 or 1 precedes. An opcode or a code never changes its meaning.
//!
//! | opcode | command | fields |
//! | --- | --- | --- |
//! | 0x01 | Get | key |
//! | 0x02 | Strlen | key |
//! | 0x03 | GetRange | key, start i64, end i64 |
//! | 0x04 | Exists | key |
//! | 0x05 | Type | key |
//! | 0x06 | Ttl | key, unit u8 (0 s, 1 ms, 2 Unix s, 3 Unix ms) |
//! | 0x10 | Set | options u8, key, value, at_ms i64 if the expiry is 3, expected bytes if the condition is 3 |
//! | 0x11 | GetSet | key, value |
//! | 0x12 | GetDel | key |
//! | 0x13 | GetEx | expiry u8, key, at_ms i64 if the expiry is 3 |
//! | 0x14 | Append | key, value |
//! | 0x15 | SetRange | key, offset u32, value |
//! | 0x16 | IncrBy | key, delta i64 |
//! | 0x17 | IncrByFloat | key, delta f64 |
//! | 0x18 | Del | key |
//! | 0x19 | ExpireAt | key, at_ms i64, condition u8 (0 always, 1 none, 2 some, 3 greater, 4 less, 5 some and less) |
//! | 0x1a | Persist | key |
//! | 0x20 to 0x23 | on elements | key, operation: see `hash.rs`, `list.rs`, `set.rs` and `sorted_set.rs` |
//! | 0x28 | Transaction | whether all are on one object u8, key of the first, count u32, each command as bytes |
//! | 0x29 | OnKeys | whether all keys are the same u8, first key, list of the others, operation: see `on_keys/operation.rs` |
//! | 0x30 | Count | |
//! | 0x31 | Scan | from u64, count u32, pattern?, type name? |
//! | 0x32 | Keys | pattern |
//! | 0x33 | Flush | |
//!
//! Set's options are `condition | expiry << 2 | answer << 4`: condition 0 always, 1 absent, 2 present, 3 equal; expiry 0 unset, 1
//! keep, 2 remove, 3 at; answer 0 OK, 1 old, 2 flag.

use crate::change::Change;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_optional_bytes};
use crate::collection::Op;
use crate::objects::Objects;
use crate::on_keys::OnKeys;
use crate::outcome::Outcome;
use crate::transaction::Transaction;

/// A command on one object, or on all objects of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Command<'a> {
    // Reads of one object.
    Get {
        key: &'a [u8],
    },
    Strlen {
        key: &'a [u8],
    },
    GetRange {
        key: &'a [u8],
        start: i64,
        end: i64,
    },
    Exists {
        key: &'a [u8],
    },
    Type {
        key: &'a [u8],
    },
    /// TTL, PTTL, EXPIRETIME and PEXPIRETIME: one question, four units.
    Ttl {
        key: &'a [u8],
        unit: TtlUnit,
    },

    // Writes of one object.
    Set {
        key: &'a [u8],
        value: &'a [u8],
        condition: Condition<'a>,
        expiry: Expiry,
        answer: SetAnswer,
    },
    GetSet {
        key: &'a [u8],
        value: &'a [u8],
    },
    GetDel {
        key: &'a [u8],
    },
    GetEx {
        key: &'a [u8],
        expiry: Expiry,
    },
    Append {
        key: &'a [u8],
        value: &'a [u8],
    },
    SetRange {
        key: &'a [u8],
        offset: u32,
        value: &'a [u8],
    },
    IncrBy {
        key: &'a [u8],
        delta: i64,
    },
    IncrByFloat {
        key: &'a [u8],
        delta: f64,
    },
    Del {
        key: &'a [u8],
    },
    /// EXPIRE and its relatives. `at_ms` is absolute and may be past, which deletes.
    ExpireAt {
        key: &'a [u8],
        at_ms: i64,
        condition: ExpireCondition,
    },
    Persist {
        key: &'a [u8],
    },

    /// Reads or writes the elements of one object.
    Elements {
        key: &'a [u8],
        op: Op<'a>,
    },

    /// Reads or writes the objects of several keys, in one step.
    OnKeys(OnKeys<'a>),

    /// Commands on keys that nobody else's come between. One that fails keeps none of the others from being executed.
    Transaction(Transaction<'a>),

    // Reads and writes of all objects of the group.
    Count,
    /// Objects whose key hash is at least `from`, about `count` of them, then where to go on.
    Scan {
        from: u64,
        count: u32,
        pattern: Option<&'a [u8]>,
        type_name: Option<&'a [u8]>,
    },
    Keys {
        pattern: &'a [u8],
    },
    Flush,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlUnit {
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition<'a> {
    Always,
    IfAbsent,
    IfPresent,
    /// Compare-and-set.
    IfEqual(&'a [u8]),
}

/// When a write's object shall expire, in absolute milliseconds since the Unix epoch: the entry node has added its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never (SET), or as it is (GETEX).
    Unset,
    Keep,
    /// GETEX PERSIST.
    Remove,
    AtMs(i64),
}

/// What SET answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAnswer {
    /// OK, or nil where the condition failed.
    Ok,
    /// The old value (SET ... GET).
    Old,
    /// 1 or 0 (SETNX).
    Flag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpireCondition {
    Always,
    IfNone,
    IfSome,
    IfGreater,
    IfLess,
    /// `XX LT`: LT alone takes an object without expiry for one that expires last.
    IfSomeAndLess,
}

/// Whether a command may change an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

impl<'a> Command<'a> {
    /// By how many bytes the object may be larger afterwards, about; `None` for a command that is served also when there is
    /// no memory. As in Redis, a counter is not: it may be new.
    pub fn growth_bytes_max(&self) -> Option<usize> {
        match self {
            // It takes the place of what is as large.
            Command::Set { value, condition: Condition::IfEqual(expected), .. } if value.len() <= expected.len() => {
                None
            }
            Command::Set { key, value, .. } | Command::GetSet { key, value } | Command::Append { key, value } => {
                Some(key.len() + value.len())
            }
            Command::SetRange { key, offset, value } => Some(key.len() + *offset as usize + value.len()),
            Command::IncrBy { key, .. } | Command::IncrByFloat { key, .. } => Some(key.len()),
            Command::Elements { key, op } => Some(key.len() + op.growth_bytes_max()?),
            Command::OnKeys(on_keys) => on_keys.growth_bytes_max(),
            Command::Transaction(transaction) => transaction.growth_bytes_max(),
            _ => None,
        }
    }

    /// Whether it is an error where the object is no string.
    pub(crate) fn is_of_strings(&self) -> bool {
        match self {
            Command::Get { .. }
            | Command::Strlen { .. }
            | Command::GetRange { .. }
            | Command::GetSet { .. }
            | Command::GetDel { .. }
            | Command::GetEx { .. }
            | Command::Append { .. }
            | Command::SetRange { .. }
            | Command::IncrBy { .. }
            | Command::IncrByFloat { .. } => true,
            Command::Set { condition, answer, .. } => {
                matches!(condition, Condition::IfEqual(_)) || *answer == SetAnswer::Old
            }
            _ => false,
        }
    }

    /// What the whole object becomes.
    pub fn value(&self) -> Option<&'a [u8]> {
        match *self {
            Command::Set { value, .. } | Command::GetSet { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The name of the one object concerned; `None` for a command that may concern any object of the group.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Command::Get { key }
            | Command::Strlen { key }
            | Command::GetRange { key, .. }
            | Command::Exists { key }
            | Command::Type { key }
            | Command::Ttl { key, .. }
            | Command::Set { key, .. }
            | Command::GetSet { key, .. }
            | Command::GetDel { key }
            | Command::GetEx { key, .. }
            | Command::Append { key, .. }
            | Command::SetRange { key, .. }
            | Command::IncrBy { key, .. }
            | Command::IncrByFloat { key, .. }
            | Command::Del { key }
            | Command::ExpireAt { key, .. }
            | Command::Persist { key }
            | Command::Elements { key, .. } => Some(key),
            Command::OnKeys(ref on_keys) => on_keys.key(),
            Command::Transaction(ref transaction) => transaction.key(),
            Command::Count | Command::Scan { .. } | Command::Keys { .. } | Command::Flush => None,
        }
    }

    /// The names of all objects concerned; none for a command on all objects of the group.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        let commands = match self {
            Command::Transaction(transaction) => transaction.commands(),
            command => std::slice::from_ref(command),
        };
        commands.iter().flat_map(|command| {
            let (several, one) = match command {
                Command::OnKeys(on_keys) => (on_keys.keys(), None),
                command => (&[][..], command.key()),
            };
            several.iter().copied().chain(one)
        })
    }

    /// Whether it is on keys that are not all the same.
    pub fn is_on_several(&self) -> bool {
        matches!(self, Command::OnKeys(_) | Command::Transaction(_)) && self.key().is_none()
    }

    /// [`Objects::execute`] where not all objects are in one place: which ones a name is among says `of`.
    pub fn execute_among<'o>(
        &self,
        of: &dyn Fn(&[u8]) -> &'o Objects,
        time_ms: u64,
        seed: u64,
    ) -> (Option<Change<'a>>, Outcome) {
        match self {
            Command::OnKeys(on_keys) => on_keys.execute(of, time_ms),
            Command::Transaction(transaction) => transaction.execute(of, time_ms, seed),
            // One on all objects looks at none of them, if it changes any.
            command => of(command.key().unwrap_or_default()).execute(command, time_ms, seed),
        }
    }

    /// How much of what objects hold it would store once more, at most, beside what was [sent](Command::growth_bytes_max).
    pub fn copied_bytes(&self, objects: &Objects) -> usize {
        match self {
            Command::OnKeys(on_keys) => on_keys.copied_bytes(objects),
            Command::Transaction(transaction) => {
                transaction.commands().iter().map(|command| command.copied_bytes(objects)).sum()
            }
            _ => 0,
        }
    }

    /// See [`OnKeys::looks`]; other commands look at the elements of one object.
    pub(crate) fn looks_among<'o>(&self, of: &dyn Fn(&[u8]) -> &'o Objects, time_ms: u64) -> usize {
        match self {
            Command::OnKeys(on_keys) => on_keys.looks(of, time_ms),
            _ => 0,
        }
    }

    /// Whether its answer may name any of the group's objects.
    pub fn lists_names(&self) -> bool {
        matches!(self, Command::Scan { .. } | Command::Keys { .. })
    }

    /// `Read` only if no state and no time makes the command change anything.
    pub fn access(&self) -> Access {
        match self {
            Command::Get { .. }
            | Command::Strlen { .. }
            | Command::GetRange { .. }
            | Command::Exists { .. }
            | Command::Type { .. }
            | Command::Ttl { .. }
            // Without options GETEX is GET.
            | Command::GetEx { expiry: Expiry::Unset | Expiry::Keep, .. }
            | Command::Count
            | Command::Scan { .. }
            | Command::Keys { .. } => Access::Read,
            Command::Elements { op, .. } if op.is_read() => Access::Read,
            Command::OnKeys(on_keys) => on_keys.access(),
            Command::Transaction(transaction) => transaction.access(),
            Command::Set { .. }
            | Command::GetSet { .. }
            | Command::Elements { .. }
            | Command::GetDel { .. }
            | Command::GetEx { expiry: Expiry::Remove | Expiry::AtMs(_), .. }
            | Command::Append { .. }
            | Command::SetRange { .. }
            | Command::IncrBy { .. }
            | Command::IncrByFloat { .. }
            | Command::Del { .. }
            | Command::ExpireAt { .. }
            | Command::Persist { .. }
            | Command::Flush => Access::Write,
        }
    }

    /// Appends the command's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Command::Transaction(ref transaction) => {
                out.push(op::TRANSACTION);
                transaction.encode(out);
            }
            Command::OnKeys(ref on_keys) => {
                out.push(op::ON_KEYS);
                on_keys.encode(out);
            }
            Command::Elements { key, ref op } => {
                write_op(out, op.opcode(), key);
                op.encode(out);
            }
            Command::Get { key } => write_op(out, op::GET, key),
            Command::Strlen { key } => write_op(out, op::STRLEN, key),
            Command::GetRange { key, start, end } => {
                write_op(out, op::GET_RANGE, key);
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&end.to_le_bytes());
            }
            Command::Exists { key } => write_op(out, op::EXISTS, key),
            Command::Type { key } => write_op(out, op::TYPE, key),
            Command::Ttl { key, unit } => {
                write_op(out, op::TTL, key);
                out.push(unit.code());
            }
            Command::Set { key, value, condition, expiry, answer } => {
                out.push(op::SET);
                out.push(condition.code() | expiry.code() << 2 | answer.code() << 4);
                write_bytes(out, key);
                write_bytes(out, value);
                expiry.write_time(out);
                if let Condition::IfEqual(expected) = condition {
                    write_bytes(out, expected);
                }
            }
            Command::GetSet { key, value } => {
                write_op(out, op::GET_SET, key);
                write_bytes(out, value);
            }
            Command::GetDel { key } => write_op(out, op::GET_DEL, key),
            Command::GetEx { key, expiry } => {
                out.push(op::GET_EX);
                out.push(expiry.code());
                write_bytes(out, key);
                expiry.write_time(out);
            }
            Command::Append { key, value } => {
                write_op(out, op::APPEND, key);
                write_bytes(out, value);
            }
            Command::SetRange { key, offset, value } => {
                write_op(out, op::SET_RANGE, key);
                out.extend_from_slice(&offset.to_le_bytes());
                write_bytes(out, value);
            }
            Command::IncrBy { key, delta } => {
                write_op(out, op::INCR_BY, key);
                out.extend_from_slice(&delta.to_le_bytes());
            }
            Command::IncrByFloat { key, delta } => {
                write_op(out, op::INCR_BY_FLOAT, key);
                out.extend_from_slice(&delta.to_le_bytes());
            }
            Command::Del { key } => write_op(out, op::DEL, key),
            Command::ExpireAt { key, at_ms, condition } => {
                write_op(out, op::EXPIRE_AT, key);
                out.extend_from_slice(&at_ms.to_le_bytes());
                out.push(condition.code());
            }
            Command::Persist { key } => write_op(out, op::PERSIST, key),
            Command::Count => out.push(op::COUNT),
            Command::Scan { from, count, pattern, type_name } => {
                out.push(op::SCAN);
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
                write_optional_bytes(out, pattern);
                write_optional_bytes(out, type_name);
            }
            Command::Keys { pattern } => write_op(out, op::KEYS, pattern),
            Command::Flush => out.push(op::FLUSH),
        }
    }

    /// Reads exactly what [`Command::encode`] wrote. Refuses anything else, also bytes after the end; never panics.
    pub fn decode(bytes: &'a [u8]) -> Result<Command<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let r = &mut reader;
        // The fields of a struct expression are evaluated as they are written here, which is their order in the bytes.
        let command = match r.u8()? {
            op::GET => Command::Get { key: r.bytes()? },
            op::STRLEN => Command::Strlen { key: r.bytes()? },
            op::GET_RANGE => Command::GetRange { key: r.bytes()?, start: r.i64()?, end: r.i64()? },
            op::EXISTS => Command::Exists { key: r.bytes()? },
            op::TYPE => Command::Type { key: r.bytes()? },
            op::TTL => Command::Ttl { key: r.bytes()?, unit: TtlUnit::decode(r.u8()?)? },
            op::SET => decode_set(r)?,
            op::GET_SET => Command::GetSet { key: r.bytes()?, value: r.bytes()? },
            op::GET_DEL => Command::GetDel { key: r.bytes()? },
            op::GET_EX => {
                let code = r.u8()?;
                Command::GetEx { key: r.bytes()?, expiry: Expiry::decode(code, r)? }
            }
            op::APPEND => Command::Append { key: r.bytes()?, value: r.bytes()? },
            op::SET_RANGE => Command::SetRange { key: r.bytes()?, offset: r.u32()?, value: r.bytes()? },
            op::INCR_BY => Command::IncrBy { key: r.bytes()?, delta: r.i64()? },
            op::INCR_BY_FLOAT => Command::IncrByFloat { key: r.bytes()?, delta: r.f64()? },
            op::DEL => Command::Del { key: r.bytes()? },
            op::EXPIRE_AT => {
                Command::ExpireAt { key: r.bytes()?, at_ms: r.i64()?, condition: ExpireCondition::decode(r.u8()?)? }
            }
            op::PERSIST => Command::Persist { key: r.bytes()? },
            op::TRANSACTION => Command::Transaction(Transaction::decode(r)?),
            op::ON_KEYS => Command::OnKeys(OnKeys::decode(r)?),
            op::COUNT => Command::Count,
            op::SCAN => Command::Scan {
                from: r.u64()?,
                count: r.u32()?,
                pattern: r.optional(Reader::bytes)?,
                type_name: r.optional(Reader::bytes)?,
            },
            op::KEYS => Command::Keys { pattern: r.bytes()? },
            op::FLUSH => Command::Flush,
            opcode => Command::Elements { key: r.bytes()?, op: Op::decode(opcode, r)? },
        };
        reader.end()?;
        Ok(command)
    }

    /// A key that lies in the hash slot of every key that an encoded command has, if it has any.
    pub fn key_in_slot_of(bytes: &'a [u8]) -> Option<&'a [u8]> {
        if !matches!(bytes.first(), Some(&op::TRANSACTION | &op::ON_KEYS)) {
            return Command::key_of(bytes);
        }
        let mut reader = Reader::new(bytes.get(2..)?);
        reader.bytes().ok()
    }

    /// Whether an encoded command is a transaction.
    pub(crate) fn is_transaction(bytes: &[u8]) -> bool {
        bytes.first() == Some(&op::TRANSACTION)
    }

    /// The key of an encoded command, if it has one, without taking all of it apart.
    pub fn key_of(bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut reader = Reader::new(bytes);
        match reader.u8().ok()? {
            op::COUNT | op::SCAN | op::KEYS | op::FLUSH => return None,
            op::TRANSACTION | op::ON_KEYS if !reader.flag().ok()? => return None,
            op::TRANSACTION | op::ON_KEYS => {}
            op::SET | op::GET_EX => {
                reader.u8().ok()?;
            }
            _ => {}
        }
        reader.bytes().ok()
    }
}

mod op {
    pub(super) const GET: u8 = 0x01;
    pub(super) const STRLEN: u8 = 0x02;
    pub(super) const GET_RANGE: u8 = 0x03;
    pub(super) const EXISTS: u8 = 0x04;
    pub(super) const TYPE: u8 = 0x05;
    pub(super) const TTL: u8 = 0x06;
    pub(super) const SET: u8 = 0x10;
    pub(super) const GET_SET: u8 = 0x11;
    pub(super) const GET_DEL: u8 = 0x12;
    pub(super) const GET_EX: u8 = 0x13;
    pub(super) const APPEND: u8 = 0x14;
    pub(super) const SET_RANGE: u8 = 0x15;
    pub(super) const INCR_BY: u8 = 0x16;
    pub(super) const INCR_BY_FLOAT: u8 = 0x17;
    pub(super) const DEL: u8 = 0x18;
    pub(super) const EXPIRE_AT: u8 = 0x19;
    pub(super) const PERSIST: u8 = 0x1a;
    pub(super) const TRANSACTION: u8 = 0x28;
    pub(super) const ON_KEYS: u8 = 0x29;
    pub(super) const COUNT: u8 = 0x30;
    pub(super) const SCAN: u8 = 0x31;
    pub(super) const KEYS: u8 = 0x32;
    pub(super) const FLUSH: u8 = 0x33;
}

fn write_op(out: &mut Vec<u8>, op: u8, key: &[u8]) {
    out.push(op);
    write_bytes(out, key);
}

fn decode_set<'a>(r: &mut Reader<'a>) -> Result<Command<'a>, Malformed> {
    let options = r.u8()?;
    let key = r.bytes()?;
    let value = r.bytes()?;
    let expiry = Expiry::decode(options >> 2 & 3, r)?;
    let condition = match options & 3 {
        0 => Condition::Always,
        1 => Condition::IfAbsent,
        2 => Condition::IfPresent,
        _ => Condition::IfEqual(r.bytes()?),
    };
    let answer = match options >> 4 {
        0 => SetAnswer::Ok,
        1 => SetAnswer::Old,
        2 => SetAnswer::Flag,
        _ => return malformed("unknown options of SET"),
    };
    Ok(Command::Set { key, value, condition, expiry, answer })
}

impl TtlUnit {
    fn code(self) -> u8 {
        match self {
            TtlUnit::Seconds => 0,
            TtlUnit::Milliseconds => 1,
            TtlUnit::UnixSeconds => 2,
            TtlUnit::UnixMilliseconds => 3,
        }
    }

    fn decode(code: u8) -> Result<TtlUnit, Malformed> {
        match code {
            0 => Ok(TtlUnit::Seconds),
            1 => Ok(TtlUnit::Milliseconds),
            2 => Ok(TtlUnit::UnixSeconds),
            3 => Ok(TtlUnit::UnixMilliseconds),
            _ => malformed("unknown unit"),
        }
    }
}

impl Condition<'_> {
    fn code(self) -> u8 {
        match self {
            Condition::Always => 0,
            Condition::IfAbsent => 1,
            Condition::IfPresent => 2,
            Condition::IfEqual(_) => 3,
        }
    }
}

impl SetAnswer {
    fn code(self) -> u8 {
        match self {
            SetAnswer::Ok => 0,
            SetAnswer::Old => 1,
            SetAnswer::Flag => 2,
        }
    }
}

impl Expiry {
    fn code(self) -> u8 {
        match self {
            Expiry::Unset => 0,
            Expiry::Keep => 1,
            Expiry::Remove => 2,
            Expiry::AtMs(_) => 3,
        }
    }

    fn write_time(self, out: &mut Vec<u8>) {
        if let Expiry::AtMs(at_ms) = self {
            out.extend_from_slice(&at_ms.to_le_bytes());
        }
    }

    fn decode(code: u8, r: &mut Reader<'_>) -> Result<Expiry, Malformed> {
        match code {
            0 => Ok(Expiry::Unset),
            1 => Ok(Expiry::Keep),
            2 => Ok(Expiry::Remove),
            3 => Ok(Expiry::AtMs(r.i64()?)),
            _ => malformed("unknown expiry"),
        }
    }
}

impl ExpireCondition {
    fn code(self) -> u8 {
        match self {
            ExpireCondition::Always => 0,
            ExpireCondition::IfNone => 1,
            ExpireCondition::IfSome => 2,
            ExpireCondition::IfGreater => 3,
            ExpireCondition::IfLess => 4,
            ExpireCondition::IfSomeAndLess => 5,
        }
    }

    fn decode(code: u8) -> Result<ExpireCondition, Malformed> {
        match code {
            0 => Ok(ExpireCondition::Always),
            1 => Ok(ExpireCondition::IfNone),
            2 => Ok(ExpireCondition::IfSome),
            3 => Ok(ExpireCondition::IfGreater),
            4 => Ok(ExpireCondition::IfLess),
            5 => Ok(ExpireCondition::IfSomeAndLess),
            _ => malformed("unknown condition of EXPIRE"),
        }
    }
}
