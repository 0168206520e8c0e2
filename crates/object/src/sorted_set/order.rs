//! Members by their scores, and by their bytes where scores are equal.
//!
//! They are kept in chunks of a few hundred. One is found by binary search among the chunks and in one of them; its rank is its
//! place there and the lengths of the chunks before. It knows nothing of whose members they are.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// A chunk of so many is split before one more comes.
const CHUNK_LEN_MAX: usize = 256;

/// A chunk of fewer joins a neighbour if both together are at most half full.
const CHUNK_LEN_MIN: usize = CHUNK_LEN_MAX / 4;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// No NaN, and 0 has no sign.
    pub(super) score: f64,
    pub(super) member: Arc<[u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Order {
    /// None of them is empty.
    chunks: Vec<Vec<Entry>>,
}

impl Entry {
    fn cmp(&self, score: f64, member: &[u8]) -> Ordering {
        self.score.total_cmp(&score).then_with(|| (*self.member).cmp(member))
    }
}

impl Order {
    /// Adds one that is not there yet.
    pub(super) fn insert(&mut self, entry: Entry) {
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        let mut number = self.chunk_of(entry.score, &entry.member).min(self.chunks.len() - 1);
        let mut place = self.place_in(number, entry.score, &entry.member);
        if self.chunks[number].len() >= CHUNK_LEN_MAX {
            // Those that come in order leave full chunks behind.
            let is_end = number + 1 == self.chunks.len() && place == CHUNK_LEN_MAX;
            let left = if is_end { CHUNK_LEN_MAX } else { CHUNK_LEN_MAX / 2 };
            let right = self.chunks[number].split_off(left);
            self.chunks.insert(number + 1, right);
            if place > left || is_end {
                number += 1;
                place -= left;
            }
        }
        self.chunks[number].insert(place, entry);
    }

    pub(super) fn remove(&mut self, score: f64, member: &[u8]) -> Option<Entry> {
        let (number, place) = self.find(score, member)?;
        let removed = self.chunks[number].remove(place);
        self.join(number);
        Some(removed)
    }

    /// How many come before this one.
    pub(super) fn rank(&self, score: f64, member: &[u8]) -> Option<usize> {
        let (number, place) = self.find(score, member)?;
        Some(self.len_before(number) + place)
    }

    /// How many come before the first for which `is_before` does not hold: it holds for none after that.
    pub(super) fn count_while(&self, is_before: impl Fn(&Entry) -> bool) -> usize {
        let number = self.chunks.partition_point(|chunk| chunk.last().is_some_and(&is_before));
        let place = self.chunks.get(number).map_or(0, |chunk| chunk.partition_point(&is_before));
        self.len_before(number) + place
    }

    /// Those of these ranks.
    pub(super) fn range(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = &Entry> {
        let (first, skipped) = self.locate(ranks.start);
        let (last, ended) = self.locate(ranks.end);
        self.chunks.iter().enumerate().take(last.saturating_add(1)).skip(first).flat_map(move |(number, chunk)| {
            let start = if number == first { skipped } else { 0 };
            let end = if number == last { ended } else { chunk.len() };
            chunk.get(start..end).unwrap_or_default().iter()
        })
    }

    /// The chunk with the one of this rank, and its place there; after the last one, the chunk that is not there.
    fn locate(&self, rank: usize) -> (usize, usize) {
        let mut left = rank;
        for (number, chunk) in self.chunks.iter().enumerate() {
            match left.checked_sub(chunk.len()) {
                None => return (number, left),
                Some(rest) => left = rest,
            }
        }
        (self.chunks.len(), 0)
    }

    fn len_before(&self, number: usize) -> usize {
        self.chunks[..number].iter().map(Vec::len).sum()
    }

    fn find(&self, score: f64, member: &[u8]) -> Option<(usize, usize)> {
        let number = self.chunk_of(score, member);
        let place = self.chunks.get(number).map(|_| self.place_in(number, score, member))?;
        self.chunks[number][place].cmp(score, member).is_eq().then_some((number, place))
    }

    /// The first chunk that does not end before this one.
    fn chunk_of(&self, score: f64, member: &[u8]) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.cmp(score, member).is_lt()))
    }

    fn place_in(&self, number: usize, score: f64, member: &[u8]) -> usize {
        self.chunks[number].partition_point(|entry| entry.cmp(score, member).is_lt())
    }

    /// Takes a chunk away that is empty, and makes one of two that are small.
    fn join(&mut self, number: usize) {
        let len = self.chunks[number].len();
        if len == 0 {
            self.chunks.remove(number);
        }
        if len == 0 || len >= CHUNK_LEN_MIN {
            return;
        }
        let pairs = [number.checked_sub(1), Some(number)].into_iter().flatten();
        let fits = |first: &usize| {
            self.chunks.get(first + 1).is_some_and(|next| self.chunks[*first].len() + next.len() <= CHUNK_LEN_MAX / 2)
        };
        if let Some(first) = pairs.into_iter().find(fits) {
            let next = self.chunks.remove(first + 1);
            self.chunks[first].extend(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(score: u64, member: u64) -> Entry {
        Entry { score: score as f64, member: member.to_string().as_bytes().into() }
    }

    fn check(order: &Order, naive: &[(u64, String)], random: &mut impl FnMut(u64) -> u64) {
        let shown = |entry: &Entry| (entry.score as u64, String::from_utf8_lossy(&entry.member).into_owned());
        let len = naive.len();
        assert!(order.chunks.iter().all(|chunk| (1..=CHUNK_LEN_MAX).contains(&chunk.len())));
        assert!(order.chunks.len() <= 2 + len * 8 / CHUNK_LEN_MAX, "{} chunks of {len}", order.chunks.len());
        let start = random(len as u64 + 2) as usize;
        let end = start + random(700) as usize;
        let expected = naive.get(start..end.min(len)).unwrap_or_default();
        assert!(order.range(start..end).map(shown).eq(expected.iter().cloned()), "{start}..{end}");
        assert!(order.range(start..end).rev().map(shown).eq(expected.iter().rev().cloned()), "{start}..{end}");
        let score = random(60);
        let expected = naive.partition_point(|(other, _)| *other < score);
        assert_eq!(order.count_while(|entry| entry.score < score as f64), expected);
        if let Some((score, member)) = naive.get(start) {
            assert_eq!(order.rank(*score as f64, member.as_bytes()), Some(start));
            assert_eq!(order.rank(*score as f64 + 0.5, member.as_bytes()), None);
        }
    }

    #[test]
    fn it_is_a_sorted_list() {
        for seed in 1..=6_u64 {
            let mut state = seed;
            let mut random = move |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % bound
            };
            let (mut order, mut naive) = (Order::default(), Vec::new());
            for step in 0..12_000 {
                // It grows, shrinks and grows again.
                let grows = if step / 4000 == 1 { 1 } else { 7 };
                if random(8) < grows || naive.is_empty() {
                    let (score, member) = if seed == 1 { (0, step + 100_000) } else { (random(50), random(5_000)) };
                    let key = (score, member.to_string());
                    if let Err(place) = naive.binary_search(&key) {
                        naive.insert(place, key);
                        order.insert(entry(score, member));
                    }
                } else {
                    let (score, member) = naive.remove(random(naive.len() as u64) as usize);
                    let removed = order.remove(score as f64, member.as_bytes());
                    assert!(removed.is_some_and(|removed| *removed.member == *member.as_bytes()));
                    assert!(order.remove(score as f64, member.as_bytes()).is_none());
                }
                if step % 16 == 0 {
                    check(&order, &naive, &mut random);
                }
            }
            for (score, member) in naive {
                assert!(order.remove(score as f64, member.as_bytes()).is_some());
            }
            assert!(order.chunks.is_empty());
        }
    }
}
