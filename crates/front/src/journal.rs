//! What was asked and how long it took: counts and latencies for metrics, and the slow log of `SLOWLOG`.
//!
//! A request is timed from when it was parsed to when its reply was written. Its words are gone from the input long
//! before; a beginning of them goes into a ring that old requests are overwritten in, so that timing a request costs one
//! small copy and nobody has to tidy up. What was overwritten before it turned out to be slow is logged by name alone.

use std::collections::VecDeque;

use quorate_resp::Arguments;

use crate::backend::{Answer, Failure};
use crate::connection::Client;
use crate::histogram::Histogram;
use crate::specs::{Id, Kind, Spec};

/// As Redis keeps them: so many words of a slow command, and so many bytes of a word.
const WORDS_KEPT_MAX: usize = 32;
const WORD_LENGTH_MAX: usize = 128;
/// Bytes of words that are remembered of requests under way.
const RING_LENGTH: usize = 1 << 20;

/// The most commands that the slow log can be told to keep; each takes a few kilobytes at worst.
pub const SLOW_LOG_LENGTH_MAX: usize = 10_000;

/// What the slow log keeps, which `CONFIG SET` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowLogSettings {
    /// Commands that took at least so long are kept; negative for none.
    pub slower_than_us: i64,
    pub length_max: usize,
}

impl Default for SlowLogSettings {
    fn default() -> Self {
        SlowLogSettings { slower_than_us: 10_000, length_max: 128 }
    }
}

/// Plain counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub connections: u64,
    /// Requests by [`Kind`].
    pub requests: [u64; Kind::COUNT],
    /// How long those took that were not answered at once, by [`Kind`].
    pub latencies: [Histogram; Kind::COUNT],
    /// Operations without an outcome, by [`Failure::index`].
    pub failures: [u64; Failure::COUNT],
}

/// A request that is to be timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    spec: &'static Spec,
    begun_us: u64,
    /// Where its words begin in the ring, and how many bytes they take there.
    words_at: u64,
    words_length: u32,
}

#[derive(Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    pub(crate) time_s: u64,
    pub(crate) duration_us: u64,
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) address: String,
    pub(crate) name: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) counts: Counts,
    /// What was counted when `CONFIG RESETSTAT` came: INFO tells what was since.
    pub(crate) counts_before: (u64, u64),
    pub(crate) settings: SlowLogSettings,
    /// The newest first.
    pub(crate) slow: VecDeque<SlowCommand>,
    slow_next_id: u64,
    /// As last told: a clock of any origin, and the wall clock.
    now_us: u64,
    now_s: u64,
    ring: Ring,
    scratch: Vec<u8>,
}

impl Journal {
    pub(crate) fn set_now(&mut self, now_us: u64, now_s: u64) {
        self.now_us = now_us;
        self.now_s = now_s;
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.now_us
    }

    pub(crate) fn count(&mut self, spec: &Spec) {
        self.counts.requests[spec.kind as usize] += 1;
    }

    /// Marks a request that was parsed for when it is answered.
    pub(crate) fn begin(&mut self, spec: &'static Spec, words: Arguments<'_>) -> Mark {
        self.scratch.clear();
        let words_at = match self.settings.slower_than_us {
            ..0 => u64::MAX,
            _ => {
                abbreviate(words, &mut self.scratch);
                self.ring.put(&self.scratch)
            }
        };
        Mark { spec, begun_us: self.now_us, words_at, words_length: self.scratch.len() as u32 }
    }

    /// A request that was marked has its reply.
    pub(crate) fn end(&mut self, mark: &Mark, client: &Client) {
        let duration_us = self.now_us.saturating_sub(mark.begun_us);
        self.counts.latencies[mark.spec.kind as usize].add(duration_us);
        if self.is_slow(duration_us) {
            let words = self.ring.get(mark.words_at, mark.words_length as usize);
            let words = words.and_then(|bytes| spell_out(&bytes));
            self.log(mark.spec, duration_us, words, client);
        }
    }

    /// A request that concerned no operation was answered at once.
    pub(crate) fn answered_at_once(&mut self, spec: &'static Spec, words: Arguments<'_>, client: &Client) {
        if self.is_slow(0) {
            self.scratch.clear();
            abbreviate(words, &mut self.scratch);
            let words = spell_out(&self.scratch);
            self.log(spec, 0, words, client);
        }
    }

    pub(crate) fn count_failure(&mut self, answer: &Answer) {
        if let Answer::Failed(failure) = answer {
            self.counts.failures[failure.index()] += 1;
        }
    }

    pub(crate) fn request_count(&self) -> u64 {
        self.counts.requests.iter().sum()
    }

    pub(crate) fn reset_statistics(&mut self) {
        self.counts_before = (self.counts.connections, self.request_count());
    }

    /// Keeps no more than the settings say.
    pub(crate) fn trim(&mut self) {
        self.slow.truncate(self.settings.length_max);
    }

    fn is_slow(&self, duration_us: u64) -> bool {
        u64::try_from(self.settings.slower_than_us).is_ok_and(|slow_us| duration_us >= slow_us)
    }

    fn log(&mut self, spec: &'static Spec, duration_us: u64, words: Option<Vec<Vec<u8>>>, client: &Client) {
        let mut words = words.unwrap_or_else(|| vec![spec.name.as_bytes().to_vec(), b"(forgotten)".to_vec()]);
        // Passwords are among them.
        if spec.id == Id::Hello || spec.name == "auth" {
            words.iter_mut().skip(1).for_each(|word| *word = b"(redacted)".to_vec());
        }
        let id = self.slow_next_id;
        self.slow_next_id += 1;
        let (time_s, address, name) = (self.now_s, client.address.clone(), client.name.clone());
        self.slow.push_front(SlowCommand { id, time_s, duration_us, words, address, name });
        self.trim();
    }
}

/// The number of words, then for each of the first ones its length and its beginning.
fn abbreviate(words: Arguments<'_>, into: &mut Vec<u8>) {
    into.extend_from_slice(&(words.len() as u32).to_le_bytes());
    for word in words.iter().take(WORDS_KEPT_MAX) {
        into.extend_from_slice(&(word.len() as u32).to_le_bytes());
        into.extend_from_slice(&word[..word.len().min(WORD_LENGTH_MAX)]);
    }
}

/// The words as Redis shows them: what was left out is counted.
fn spell_out(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let count = take_number(&mut bytes)?;
    let shown = if count > WORDS_KEPT_MAX { WORDS_KEPT_MAX - 1 } else { count };
    let mut words = Vec::with_capacity(shown + 1);
    for _ in 0..shown {
        let length = take_number(&mut bytes)?;
        let mut word = bytes.split_off(..length.min(WORD_LENGTH_MAX))?.to_vec();
        if length > WORD_LENGTH_MAX {
            word.extend_from_slice(format!("... ({} more bytes)", length - WORD_LENGTH_MAX).as_bytes());
        }
        words.push(word);
    }
    if shown < count {
        words.push(format!("... ({} more arguments)", count - shown).into_bytes());
    }
    Some(words)
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let number = bytes.split_off(..4)?.try_into().ok()?;
    Some(u32::from_le_bytes(number) as usize)
}

/// The latest bytes of an endless row of them.
#[derive(Debug, Default)]
struct Ring {
    bytes: Vec<u8>,
    /// How many were ever put.
    written: u64,
}

impl Ring {
    /// Returns where they begin.
    fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.written;
        let place = (at % RING_LENGTH as u64) as usize;
        let (first, second) = bytes.split_at(bytes.len().min(RING_LENGTH - place));
        if place == self.bytes.len() {
            // The first time round it grows.
            self.bytes.extend_from_slice(first);
        } else {
            self.bytes[place..place + first.len()].copy_from_slice(first);
        }
        self.bytes[..second.len()].copy_from_slice(second);
        self.written += bytes.len() as u64;
        at
    }

    /// So many bytes that were put there; none if they are overwritten.
    fn get(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        self.written.checked_sub(at).filter(|&since| since <= RING_LENGTH as u64)?;
        let place = (at % RING_LENGTH as u64) as usize;
        let end = self.bytes.len().min(place + length);
        let mut bytes = self.bytes[place..end].to_vec();
        bytes.extend_from_slice(&self.bytes[..length - bytes.len()]);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_forgets_the_oldest_first() {
        let mut ring = Ring::default();
        let record = |number: u64| [number as u8; 1000];
        let places: Vec<u64> = (0..3000).map(|number| ring.put(&record(number))).collect();
        let kept = RING_LENGTH / 1000;
        for (number, &at) in places.iter().enumerate() {
            let expected = (number >= places.len() - kept).then(|| record(number as u64).to_vec());
            assert_eq!(ring.get(at, 1000), expected, "record {number}");
        }
        assert_eq!(ring.bytes.len(), RING_LENGTH);
        assert_eq!(ring.get(u64::MAX, 1), None);
    }
}
