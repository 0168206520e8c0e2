//! Growing byte buffers that begin at a page boundary in memory, as direct I/O wants them.

use crate::PAGE_BYTES;

/// What a buffer is born with; doubled as it fills.
const CAPACITY_BYTES: usize = 16 * PAGE_BYTES;
/// Larger buffers are freed rather than kept, so that one burst does not own memory for ever.
const KEPT_BYTES_MAX: usize = 1024 * 1024;
const KEPT_COUNT_MAX: usize = 4;

/// Bytes that begin at a multiple of [`PAGE_BYTES`] in memory.
pub(crate) struct Buffer {
    /// Room for a page more than needed, so that an aligned start exists without unsafe code.
    memory: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(crate) fn with_capacity(capacity: usize) -> Buffer {
        let mut memory: Vec<u8> = Vec::with_capacity(capacity + PAGE_BYTES);
        let start = memory.as_ptr().addr().wrapping_neg() % PAGE_BYTES;
        memory.resize(start, 0);
        Buffer { memory, start }
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len() - self.start
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }

    pub(crate) fn clear(&mut self) {
        self.memory.truncate(self.start);
    }

    /// Makes room for `more` bytes: a vector that grew by itself would lose its alignment.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) {
        if self.memory.capacity() - self.memory.len() < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let mut grown = Buffer::with_capacity((self.len() + more).next_power_of_two());
        grown.memory.extend_from_slice(self.bytes());
        *self = grown;
    }

    #[inline]
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.memory.extend_from_slice(bytes);
    }

    pub(crate) fn extend_zeros(&mut self, count: usize) {
        self.reserve(count);
        self.memory.resize(self.memory.len() + count, 0);
    }

    fn capacity(&self) -> usize {
        self.memory.capacity()
    }
}

/// A few buffers that wait to be used again.
#[derive(Default)]
pub(crate) struct Pool {
    kept: Vec<Buffer>,
}

impl Pool {
    pub(crate) fn take(&mut self) -> Buffer {
        self.kept.pop().unwrap_or_else(|| Buffer::with_capacity(CAPACITY_BYTES))
    }

    pub(crate) fn give(&mut self, mut buffer: Buffer) {
        if self.kept.len() < KEPT_COUNT_MAX && buffer.capacity() <= KEPT_BYTES_MAX + PAGE_BYTES {
            buffer.clear();
            self.kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_aligned_and_whole_while_it_grows() {
        let mut buffer = Buffer::with_capacity(10);
        for byte in 0..=255 {
            buffer.extend(&[byte; 100]);
            assert_eq!(buffer.bytes().as_ptr().addr() % PAGE_BYTES, 0);
        }
        buffer.extend_zeros(PAGE_BYTES);
        assert_eq!(buffer.len(), 25_600 + PAGE_BYTES);
        assert!(buffer.bytes()[..25_600].chunks(100).zip(0..=255).all(|(chunk, byte)| chunk == [byte; 100]));
        assert!(buffer.bytes()[25_600..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_pool_frees_what_a_burst_left() {
        let mut pool = Pool::default();
        pool.give(Buffer::with_capacity(2 * KEPT_BYTES_MAX));
        assert!(pool.kept.is_empty());
        for _ in 0..10 {
            pool.give(Buffer::with_capacity(PAGE_BYTES));
        }
        assert_eq!(pool.kept.len(), KEPT_COUNT_MAX);
    }
}
