//! What the log tells people and hosts: findings, errors, figures.

use std::fmt;

use crate::Lsn;
use crate::storage::StorageError;

/// What opening a log found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    pub segments: Vec<u64>,
    pub block_count: u64,
    pub record_count: u64,
    /// Cut off at the end: writes that a crash interrupted and that nobody was told were durable.
    pub torn_bytes: u64,
    /// What was durable and is not there. Whose records it held is unknown: every group of this log may be concerned that
    /// had records before [`Damage::end`].
    pub damage: Vec<Damage>,
    /// Groups of which a whole record can still be made out in what is damaged, ascending. There may have been others.
    pub groups_made_out: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One or more blocks between these addresses.
    Unreadable {
        from: Lsn,
        to: Lsn,
    },
    MissingSegment {
        segment: u64,
    },
}

impl Damage {
    /// Blocks from here on are not concerned.
    pub fn end(self) -> Lsn {
        match self {
            Damage::Unreadable { to, .. } => to,
            Damage::MissingSegment { segment } => Lsn::at(segment + 1, 0),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Unreadable { from, to } => write!(
                f,
                "segment {} is unreadable at offset {}, up to segment {} offset {}",
                from.segment(),
                from.offset(),
                to.segment(),
                to.offset()
            ),
            Damage::MissingSegment { segment } => write!(f, "segment {segment} is missing"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("log segment {segment} was written by a newer release (format {found}, this one knows up to {known})")]
    NewerVersion { segment: u64, found: u16, known: u16 },
    #[error("log segment {segment} belongs to another log ({found:016x}, this one is {expected:016x})")]
    ForeignLog { segment: u64, found: u64, expected: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The medium lost the record since the log was opened. The group must be treated as damaged.
    #[error("the log record in segment {segment} at offset {offset} is damaged")]
    Damaged { segment: u64, offset: u64 },
}

/// Figures for people and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub segment_count: u64,
    /// What the segments take on the medium.
    pub bytes: u64,
    /// What records that somebody still needs take, within a quarter.
    pub live_bytes: u64,
    /// Groups of which the log holds something that is needed.
    pub group_count: u64,
    /// What knowing where they are takes in memory.
    pub index_bytes: u64,
    /// Since the log was opened: blocks, and the bytes written for them with and without padding.
    pub block_count: u64,
    pub written_bytes: u64,
    pub record_bytes: u64,
    /// Of them, records that were appended again so that an old segment could go.
    pub carried_bytes: u64,
}

/// How much of a segment somebody still needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStatistics {
    pub segment: u64,
    pub bytes: u64,
    pub live_bytes: u64,
    pub live_record_count: u64,
}
