//! Reading and writing the little-endian bytes of commands, outcomes, changes and stored objects.
//!
//! Promises that no input makes a reader panic or allocate more than the input holds. It knows nothing of what is read.

use std::error::Error;
use std::fmt;

/// Bytes that no encoder of this crate wrote: refuse the frame or report the record as damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What was wrong, for a log line.
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed bytes: {}", self.what)
    }
}

impl Error for Malformed {}

pub(crate) fn malformed<T>(what: &'static str) -> Result<T, Malformed> {
    Err(Malformed { what })
}

/// Takes fields off the front of a slice.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array::<1>()?;
        Ok(byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Malformed> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A `u32` length and that many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            return malformed("a length goes beyond the end");
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// 0 or 1, and after 1 what `read` reads.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => malformed("an option is neither 0 nor 1"),
        }
    }

    /// 0 or 1.
    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        Ok(self.optional(|_| Ok(()))?.is_some())
    }

    /// What has not been read, which ends the reading.
    pub(crate) fn remainder(self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes after the last field.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { malformed("bytes after the end") }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((array, rest)) = self.rest.split_first_chunk::<N>() else {
            return malformed("a field is cut off");
        };
        self.rest = rest;
        Ok(*array)
    }
}

pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(crate) fn write_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("names, values and lists are far below 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
}

pub(crate) fn write_optional_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        write_bytes(out, bytes);
    }
}

pub(crate) fn write_optional_u64(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(u8::from(number.is_some()));
    if let Some(number) = number {
        out.extend_from_slice(&number.to_le_bytes());
    }
}
