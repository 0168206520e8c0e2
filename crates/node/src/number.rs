//! Numbers that are mostly small, in as few bytes as they need.

use quorate_protocol::wire::{Malformed, Reader};

/// Seven bits a byte, the lowest first; the last byte has its high bit clear.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn take_number(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.u8()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed::TooLong { of: "number in a record" })
}

pub(crate) fn take_u32(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    u32::try_from(take_number(reader)?).map_err(|_| Malformed::TooLong { of: "number in a record" })
}

/// A number that is near another one, on either side of it.
pub(crate) fn put_near(number: u64, other: u64, out: &mut Vec<u8>) {
    let distance = number.wrapping_sub(other) as i64;
    put_number(((distance << 1) ^ (distance >> 63)) as u64, out);
}

pub(crate) fn take_near(other: u64, reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let folded = take_number(reader)?;
    let distance = (folded >> 1) as i64 ^ -((folded & 1) as i64);
    Ok(other.wrapping_add(distance as u64))
}

pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

pub(crate) fn take_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let length = usize::try_from(take_number(reader)?).map_err(|_| Malformed::TooLong { of: "bytes in a record" })?;
    reader.bytes(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_as_few_bytes_as_they_need() {
        for (number, length) in [(0, 1), (127, 1), (128, 2), (u64::from(u32::MAX), 5), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            assert_eq!((bytes.len(), take_number(&mut Reader::new(&bytes))), (length, Ok(number)));
        }
        assert!(take_number(&mut Reader::new(&[0xff; 12])).is_err());
        assert!(take_number(&mut Reader::new(&[0x80])).is_err());
    }

    #[test]
    fn what_is_near_is_short_and_whatever_is_far_comes_back() {
        for (number, other) in [(5, 5), (4, 5), (u64::MAX, 0), (0, u64::MAX), (1 << 63, 0), (0, 1 << 63)] {
            let mut bytes = Vec::new();
            put_near(number, other, &mut bytes);
            assert_eq!(take_near(other, &mut Reader::new(&bytes)), Ok(number), "{number} near {other}");
        }
        let mut bytes = Vec::new();
        put_near(1_700_000_000_060, 1_700_000_000_000, &mut bytes);
        assert_eq!(bytes.len(), 1);
    }
}
