//! What a command answers, independent of the Redis protocol's version, and its bytes in frames.

/// The answer of one command on one group.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Ok,
    Nil,
    Int(i64),
    Bulk(Vec<u8>),
    /// A status word other than OK: what TYPE answers.
    Word(&'static str),
    /// A Redis error line without the leading `-`, such as `WRONGTYPE Operation against ...`.
    Error(String),
    Keys(Vec<Vec<u8>>),
    /// `next` is where the scan of this group goes on; `None` at its end.
    Scan { next: Option<u64>, keys: Vec<Vec<u8>> },
}
