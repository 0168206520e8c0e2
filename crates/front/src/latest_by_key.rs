//! What a new operation on a key follows: the connection's latest one on that key that is unanswered.

use crate::backend::OperationId;
use crate::operations::Operations;

const BUCKETS_MIN: usize = 16;
/// What is more is given back once nothing is unanswered.
const BUCKETS_KEPT: usize = 1024;
const BUCKETS_MAX: usize = 1 << 20;

/// The connection's latest operation for each bucket of key hashes, from which [`Operations`] link to earlier ones.
#[derive(Debug)]
pub(crate) struct LatestByKey {
    /// 0 for none. Their number is a power of two.
    buckets: Vec<u64>,
}

/// What a new operation on a key follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) predecessor: Option<OperationId>,
    /// The unanswered operation before it in the same bucket; 0 if there is none.
    pub(crate) previous: u64,
}

impl Default for LatestByKey {
    fn default() -> Self {
        LatestByKey { buckets: vec![0; BUCKETS_MIN] }
    }
}

impl LatestByKey {
    /// Makes the operation its bucket's latest. Before the connection's `oldest` operation everything is answered;
    /// `unanswered_count` are not.
    pub(crate) fn link(
        &mut self,
        operation: OperationId,
        key_hash: u64,
        oldest: u64,
        unanswered_count: usize,
        operations: &mut Operations,
    ) -> Link {
        if oldest == operation.0 && self.buckets.len() > BUCKETS_KEPT {
            self.buckets = vec![0; BUCKETS_MIN];
        }
        if unanswered_count > self.buckets.len() && self.buckets.len() < BUCKETS_MAX {
            self.grow(oldest, operations);
        }
        let bucket = self.bucket(key_hash);
        let latest = core::mem::replace(&mut self.buckets[bucket], operation.0);
        let previous = unanswered(latest, oldest, operations);
        let mut candidate = previous;
        while let Some(earlier) = operations.at(candidate) {
            if earlier.key_hash == key_hash {
                return Link { predecessor: Some(OperationId(candidate)), previous };
            }
            // Nobody comes past those again that have been answered meanwhile.
            let next = unanswered(earlier.previous, oldest, operations);
            operations.set_previous(candidate, next);
            candidate = next;
        }
        Link { predecessor: None, previous }
    }

    fn bucket(&self, key_hash: u64) -> usize {
        key_hash as usize % self.buckets.len()
    }

    fn grow(&mut self, oldest: u64, operations: &mut Operations) {
        let count = (self.buckets.len() * 4).min(BUCKETS_MAX);
        let before = core::mem::replace(&mut self.buckets, vec![0; count]);
        let mut chain = Vec::new();
        for latest in before {
            let mut number = unanswered(latest, oldest, operations);
            while let Some(operation) = operations.at(number) {
                chain.push((number, operation.key_hash));
                number = unanswered(operation.previous, oldest, operations);
            }
            for (number, key_hash) in chain.drain(..).rev() {
                let bucket = self.bucket(key_hash);
                operations.set_previous(number, self.buckets[bucket]);
                self.buckets[bucket] = number;
            }
        }
    }
}

/// The operation of this number, or the next one in its bucket that is unanswered; 0 if there is none.
fn unanswered(mut number: u64, oldest: u64, operations: &Operations) -> u64 {
    // What is older than the oldest pending reply is answered, wherever the chain leads.
    while number >= oldest
        && let Some(operation) = operations.at(number)
    {
        if operation.is_unanswered() {
            return number;
        }
        number = operation.previous;
    }
    0
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::operations::{Asker, Waiter};

    struct Asked {
        latest: LatestByKey,
        operations: Operations,
        unanswered: usize,
        oldest: u64,
    }

    impl Asked {
        fn new() -> Asked {
            Asked { latest: LatestByKey::default(), operations: Operations::default(), unanswered: 0, oldest: 1 }
        }

        fn ask(&mut self, key_hash: u64) -> (OperationId, Option<OperationId>) {
            let operation = self.operations.next();
            let link = self.latest.link(operation, key_hash, self.oldest, self.unanswered, &mut self.operations);
            let asker = Asker::Client(Waiter { connection: 0, generation: 0, sequence: 0 });
            self.unanswered += 1;
            (self.operations.add(asker, key_hash, link.previous), link.predecessor)
        }

        fn answer(&mut self, operation: OperationId) {
            assert!(self.operations.answer(operation).is_some());
            self.unanswered -= 1;
        }

        /// How many operations those on this key would be sought among.
        fn chain_length(&self, key_hash: u64) -> usize {
            let mut number = self.latest.buckets[self.latest.bucket(key_hash)];
            let mut length = 0;
            while let Some(operation) = self.operations.at(number) {
                length += 1;
                number = operation.previous;
            }
            length
        }
    }

    /// As hashes are: the lower bits of neighbours have nothing to do with each other.
    fn hash(key: u64) -> u64 {
        key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
    }

    #[test]
    fn each_operation_follows_the_latest_unanswered_one_on_its_key_while_the_table_grows() {
        let mut asked = Asked::new();
        let mut unanswered: HashMap<u64, Vec<OperationId>> = HashMap::new();
        let mut random = 1_u64;
        for turn in 0..20_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (random >> 33) % 3_000;
            let of_key = unanswered.entry(key).or_default();
            if turn % 3 == 2 && !of_key.is_empty() {
                // In any order: reads are answered before writes that came earlier.
                let operation = of_key.swap_remove((random >> 20) as usize % of_key.len());
                asked.answer(operation);
                continue;
            }
            let expected = of_key.iter().max_by_key(|operation| operation.0).copied();
            let (operation, predecessor) = asked.ask(hash(key));
            assert_eq!(predecessor, expected, "turn {turn}, key {key}");
            of_key.push(operation);
        }
        assert!(asked.latest.buckets.len() > BUCKETS_MIN);
    }

    #[test]
    fn among_very_many_unanswered_operations_an_earlier_one_is_found_in_a_few_steps() {
        let mut asked = Asked::new();
        (0..200_000).for_each(|key| assert_eq!(asked.ask(hash(key)).1, None));
        let longest = (0..200_000).map(|key| asked.chain_length(hash(key))).max();
        assert!(longest <= Some(16), "{longest:?} in one bucket");
    }

    #[test]
    fn answered_operations_are_passed_over_once() {
        let mut asked = Asked::new();
        // What came first is never answered, so that all are still known.
        asked.ask(hash(0));
        for _ in 0..1_000 {
            let (operation, _) = asked.ask(hash(7));
            asked.answer(operation);
        }
        asked.ask(hash(7));
        assert!(asked.chain_length(hash(7)) <= 3, "{} in one bucket", asked.chain_length(hash(7)));
    }

    #[test]
    fn a_large_table_is_given_back_once_all_is_answered() {
        let mut asked = Asked::new();
        let operations: Vec<OperationId> = (0..5_000).map(|key| asked.ask(hash(key)).0).collect();
        assert!(asked.latest.buckets.len() > BUCKETS_KEPT);
        operations.into_iter().for_each(|operation| asked.answer(operation));
        asked.oldest = asked.operations.next().0;
        asked.ask(hash(1));
        assert_eq!(asked.latest.buckets.len(), BUCKETS_MIN);
    }
}
