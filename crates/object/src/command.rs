//! What can be asked of a group's objects, and the bytes that a command is in logs and frames.
//!
//! A command borrows from the bytes it was decoded from, so that executing a batch copies only what the objects keep.

/// A command on one object, or on all objects of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Command<'a> {
    // Reads of one object.
    Get { key: &'a [u8] },
    Strlen { key: &'a [u8] },
    GetRange { key: &'a [u8], start: i64, end: i64 },
    Exists { key: &'a [u8] },
    Type { key: &'a [u8] },
    /// TTL, PTTL, EXPIRETIME and PEXPIRETIME: one question, four units.
    Ttl { key: &'a [u8], unit: TtlUnit },

    // Writes of one object.
    Set { key: &'a [u8], value: &'a [u8], condition: Condition<'a>, expiry: Expiry, answer: SetAnswer },
    GetSet { key: &'a [u8], value: &'a [u8] },
    GetDel { key: &'a [u8] },
    GetEx { key: &'a [u8], expiry: Expiry },
    Append { key: &'a [u8], value: &'a [u8] },
    SetRange { key: &'a [u8], offset: u32, value: &'a [u8] },
    IncrBy { key: &'a [u8], delta: i64 },
    IncrByFloat { key: &'a [u8], delta: f64 },
    Del { key: &'a [u8] },
    /// EXPIRE and its relatives. `at_ms` is absolute and may be past, which deletes.
    ExpireAt { key: &'a [u8], at_ms: i64, condition: ExpireCondition },
    Persist { key: &'a [u8] },

    // Reads and writes of all objects of the group.
    Count,
    /// Objects whose key hash is at least `from`, about `count` of them, then where to go on.
    Scan { from: u64, count: u32, pattern: Option<&'a [u8]>, type_name: Option<&'a [u8]> },
    Keys { pattern: &'a [u8] },
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
}
