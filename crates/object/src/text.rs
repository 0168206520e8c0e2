//! A string object with its name: 24 bytes, and one allocation for everything of variable size.
//!
//! The allocation holds the name, the value, room to grow, and at its very end, only if the object expires, when. So an object
//! that never expires pays nothing for it, and a value that fits is written in place.

use crate::objects::OBJECT_BYTES_MAX;

/// Bytes of the expiry at the end of the allocation.
const EXPIRY_BYTES: usize = 8;

/// Room that a value written over a longer one may leave unused before it gets a smaller allocation.
const SLACK_BYTES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Text {
    bytes: Box<[u8]>,
    value_len: u32,
    name_len: u16,
    /// The allocation ends with an expiry.
    expires: bool,
}

impl Text {
    /// Panics if name or value are longer than any may be: that has been checked long before.
    pub(crate) fn new(name: &[u8], value: &[u8], expires_ms: Option<u64>) -> Text {
        let expiry_len = if expires_ms.is_some() { EXPIRY_BYTES } else { 0 };
        let mut bytes = Vec::with_capacity(name.len() + value.len() + expiry_len);
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
        if let Some(expires_ms) = expires_ms {
            bytes.extend_from_slice(&expires_ms.to_le_bytes());
        }
        let name_len = u16::try_from(name.len()).expect("names are at most NAME_BYTES_MAX long");
        let expires = expires_ms.is_some();
        Text { bytes: bytes.into_boxed_slice(), value_len: len_u32(value.len()), name_len, expires }
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.bytes[..self.name_len()]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[self.name_len()..][..self.value_len as usize]
    }

    pub(crate) fn expires_ms(&self) -> Option<u64> {
        if !self.expires {
            return None;
        }
        self.bytes.last_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Bytes allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Makes the value and the expiry these.
    pub(crate) fn put(&mut self, value: &[u8], expires_ms: Option<u64>) {
        let name_len = self.name_len();
        let needed = name_len + value.len() + if expires_ms.is_some() { EXPIRY_BYTES } else { 0 };
        if needed > self.bytes.len() || self.bytes.len() > 2 * needed + SLACK_BYTES_MAX {
            *self = Text::new(self.name(), value, expires_ms);
            return;
        }
        self.bytes[name_len..][..value.len()].copy_from_slice(value);
        self.value_len = len_u32(value.len());
        self.store_expiry(expires_ms);
    }

    /// Writes `new` at `offset`, after zeros if that is beyond the end. A value that grows gets room to grow again, so that
    /// appending costs constant time a byte.
    pub(crate) fn write(&mut self, offset: usize, new: &[u8]) {
        let old_len = self.value_len as usize;
        let new_len = old_len.max(offset + new.len());
        if new_len > self.value_capacity() {
            let roomy_len = (new_len + new_len / 2).min(OBJECT_BYTES_MAX);
            self.reallocate(roomy_len.max(new_len), self.expires_ms());
        }
        let value = &mut self.bytes[usize::from(self.name_len)..];
        if offset > old_len {
            // What a longer value left behind is not part of this one.
            value[old_len..offset].fill(0);
        }
        value[offset..][..new.len()].copy_from_slice(new);
        self.value_len = len_u32(new_len);
    }

    pub(crate) fn set_expires_ms(&mut self, expires_ms: Option<u64>) {
        let used = self.name_len() + self.value_len as usize;
        if expires_ms.is_some() && self.bytes.len() - used < EXPIRY_BYTES {
            self.reallocate(self.value_len as usize, expires_ms);
        } else {
            self.store_expiry(expires_ms);
        }
    }

    fn name_len(&self) -> usize {
        usize::from(self.name_len)
    }

    fn value_capacity(&self) -> usize {
        let expiry_len = if self.expires { EXPIRY_BYTES } else { 0 };
        self.bytes.len() - expiry_len - self.name_len()
    }

    /// Gives the value room for `value_capacity` bytes, and stores the expiry.
    fn reallocate(&mut self, value_capacity: usize, expires_ms: Option<u64>) {
        let expiry_len = if expires_ms.is_some() { EXPIRY_BYTES } else { 0 };
        let used = self.name_len() + self.value_len as usize;
        let mut bytes = Vec::with_capacity(self.name_len() + value_capacity + expiry_len);
        bytes.extend_from_slice(&self.bytes[..used]);
        bytes.resize(bytes.capacity(), 0);
        self.bytes = bytes.into_boxed_slice();
        self.store_expiry(expires_ms);
    }

    /// For an allocation with room for it.
    fn store_expiry(&mut self, expires_ms: Option<u64>) {
        self.expires = expires_ms.is_some();
        if let Some(expires_ms) = expires_ms {
            let end = self.bytes.last_chunk_mut().expect("the allocation has room for an expiry");
            *end = expires_ms.to_le_bytes();
        }
    }
}

fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("values are at most OBJECT_BYTES_MAX long")
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn every_part_survives_every_change_of_the_others() {
        let mut text = Text::new(b"name", b"value", None);
        assert_eq!(text.heap_bytes(), 9);
        text.set_expires_ms(Some(7));
        assert_eq!((text.name(), text.value(), text.expires_ms()), (&b"name"[..], &b"value"[..], Some(7)));
        text.write(5, b"+more");
        assert_eq!((text.name(), text.value(), text.expires_ms()), (&b"name"[..], &b"value+more"[..], Some(7)));
        text.put(b"v", Some(u64::MAX));
        assert_eq!((text.name(), text.value(), text.expires_ms()), (&b"name"[..], &b"v"[..], Some(u64::MAX)));
        text.write(3, b"x");
        assert_eq!(text.value(), b"v\0\0x", "what the longer value left behind shows");
        text.set_expires_ms(None);
        assert_eq!((text.value(), text.expires_ms()), (&b"v\0\0x"[..], None));
        text.put(&[1; 1000], Some(3));
        assert_eq!((text.name(), text.value(), text.expires_ms()), (&b"name"[..], &[1; 1000][..], Some(3)));
        text.put(b"", None);
        assert_eq!((text.name(), text.value(), text.expires_ms()), (&b"name"[..], &b""[..], None));
        assert_eq!(text.heap_bytes(), 4, "a large allocation is not kept for a small value");
    }

    #[test]
    fn appending_reallocates_seldom() {
        let mut text = Text::new(b"k", b"", None);
        let mut reallocations = 0;
        for n in 0..100_000 {
            let before = text.heap_bytes();
            text.write(n, b"x");
            reallocations += usize::from(text.heap_bytes() != before);
        }
        assert_eq!(text.value().len(), 100_000);
        assert!(reallocations < 40, "{reallocations} reallocations");
    }
}
