//! Where a record is and roughly how large, in eight bytes.

use std::fmt;
use std::num::NonZeroU64;

use crate::{Lsn, SEGMENT_BYTES_MAX};

const OFFSET_BITS: u32 = 30;
const SIZE_BITS: u32 = 6;
/// The last segment number that an index can hold: enough for sixteen exabytes in segments of the usual size.
pub(crate) const SEGMENT_MAX: u64 = (1 << (u64::BITS - OFFSET_BITS - SIZE_BITS)) - 1;

const _: () = assert!(SEGMENT_BYTES_MAX <= 1 << OFFSET_BITS);

/// Segment, offset and class of size of a record. Ordered as the log is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(NonZeroU64);

impl Position {
    pub(super) const NONE: Position = Position(NonZeroU64::MAX);

    /// `bytes` is the length of the record with its header.
    pub(crate) fn new(segment: u64, offset: u64, bytes: usize) -> Position {
        debug_assert!(segment <= SEGMENT_MAX && offset < 1 << OFFSET_BITS);
        let packed = segment << (OFFSET_BITS + SIZE_BITS) | offset << SIZE_BITS | class_of(bytes);
        Position(NonZeroU64::new(packed).expect("a record lies behind the header of its block"))
    }

    pub(crate) fn segment(self) -> u64 {
        self.0.get() >> (OFFSET_BITS + SIZE_BITS)
    }

    pub(crate) fn offset(self) -> u64 {
        self.0.get() >> SIZE_BITS & ((1 << OFFSET_BITS) - 1)
    }

    pub(crate) fn lsn(self) -> Lsn {
        Lsn::at(self.segment(), self.offset())
    }

    /// What the record takes, within a quarter. Added and taken away by this same figure, sums come out even.
    pub(super) fn bytes(self) -> u64 {
        let class = self.0.get() & ((1 << SIZE_BITS) - 1);
        let power = 1 << (class / 2);
        if class.is_multiple_of(2) { power + power / 4 } else { power + power / 2 + power / 4 }
    }

    pub(super) fn is_none(self) -> bool {
        self == Position::NONE
    }
}

/// Two classes for every power of two.
fn class_of(bytes: usize) -> u64 {
    let power = u64::from(bytes.max(1).ilog2());
    let upper_half = power > 0 && bytes >> (power - 1) & 1 == 1;
    (2 * power + u64::from(upper_half)).min((1 << SIZE_BITS) - 1)
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (~{} bytes)", self.lsn(), self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RECORD_BYTES_MAX;

    #[test]
    fn says_where_and_within_a_quarter_how_large() {
        for bytes in [24, 25, 31, 47, 48, 49, 100, 4095, 4096, 1_000_000, RECORD_BYTES_MAX] {
            for (segment, offset) in [(1, 72), (SEGMENT_MAX, SEGMENT_BYTES_MAX - 1)] {
                let position = Position::new(segment, offset, bytes);
                assert_eq!((position.segment(), position.offset()), (segment, offset));
                let told = position.bytes() as f64 / bytes as f64;
                assert!((0.8..=1.25).contains(&told), "{bytes} bytes are told as {}", position.bytes());
            }
        }
    }

    #[test]
    fn is_ordered_as_the_log_whatever_the_size() {
        assert!(Position::new(1, 1000, 5000) < Position::new(1, 1001, 24));
        assert!(Position::new(1, SEGMENT_BYTES_MAX - 1, 5000) < Position::new(2, 72, 24));
        assert!(Position::new(SEGMENT_MAX, SEGMENT_BYTES_MAX - 1, 24) < Position::NONE);
    }
}
