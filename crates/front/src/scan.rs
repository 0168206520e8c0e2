//! SCAN's cursor: one number for a volume and a place in it.
//!
//! The upper 16 bits are the volume's index, the lower 48 the place, which is a hash of as many bits in the objects'
//! table. Cursor 0 begins at volume 0, place 0; no other cursor is 0, since a scan never goes on where it began.

use quorate_object::HASH_BITS as PLACE_BITS;

use crate::refusal::c_string;

const PLACE_END: u64 = 1 << PLACE_BITS;

/// Volumes that a cursor can tell apart.
pub(crate) const VOLUMES_MAX: u32 = 1 << (u64::BITS - PLACE_BITS);

/// How many names or elements a scan asks for unless it is told.
pub(crate) const SCAN_COUNT_DEFAULT: u32 = 10;

/// Where a scan goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) volume: u32,
    pub(crate) place: u64,
}

impl Cursor {
    pub(crate) fn decode(number: u64) -> Cursor {
        Cursor { volume: (number >> PLACE_BITS) as u32, place: number % PLACE_END }
    }

    pub(crate) fn encode(self) -> u64 {
        u64::from(self.volume) << PLACE_BITS | self.place
    }

    /// Where to go on after a part of this volume's scan; `next` is what the volume said.
    pub(crate) fn after(volume: u32, next: Option<u64>) -> Cursor {
        match next {
            Some(place) if place < PLACE_END => Cursor { volume, place },
            _ => Cursor { volume: volume + 1, place: 0 },
        }
    }
}

/// Cursors as C's `strtoul` takes them: up to a NUL, a sign is allowed, a negative number wraps around, and nothing is 0.
pub(crate) fn parse_cursor(word: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(c_string(word, usize::MAX)).ok()?;
    match text.strip_prefix('-') {
        _ if text.is_empty() => Some(0),
        Some(digits) if digits.starts_with('+') => None,
        Some(digits) => digits.parse().ok().map(u64::wrapping_neg),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_the_client() {
        for cursor in [
            Cursor::default(),
            Cursor { volume: 0, place: 1 },
            Cursor { volume: 63, place: PLACE_END - 1 },
            Cursor { volume: VOLUMES_MAX - 1, place: PLACE_END - 1 },
        ] {
            assert_eq!(Cursor::decode(cursor.encode()), cursor);
        }
        assert_eq!(Cursor::default().encode(), 0);
    }

    #[test]
    fn the_end_of_a_volume_is_the_start_of_the_next() {
        assert_eq!(Cursor::after(3, Some(7)), Cursor { volume: 3, place: 7 });
        assert_eq!(Cursor::after(3, None), Cursor { volume: 4, place: 0 });
        assert_eq!(Cursor::after(3, Some(PLACE_END)), Cursor { volume: 4, place: 0 });
    }

    #[test]
    fn cursors_as_redis_takes_them() {
        for (word, cursor) in [
            ("0", Some(0)),
            ("00", Some(0)),
            ("+7", Some(7)),
            ("-1", Some(u64::MAX)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", Some(0)),
            ("7\0x", Some(7)),
            ("-+1", None),
            ("+", None),
            ("-", None),
            (" 0", None),
            ("x", None),
            ("0x0", None),
        ] {
            assert_eq!(parse_cursor(word.as_bytes()), cursor, "{word:?}");
        }
    }
}
