//! Who waits for the answers of replicas of registers here, by token.
//!
//! Ten thousand groups may end one after the other while as many clients wait: of a group for which nobody does, nothing is
//! looked for.

use hashbrown::HashMap;
use quorate_protocol::GroupId;

use super::registers::Waiting;
use crate::hash::FixedState;

#[derive(Default)]
pub(super) struct Waiters {
    by_token: HashMap<u64, Waiting, FixedState>,
    /// How many of each group.
    counts: HashMap<GroupId, usize, FixedState>,
}

impl Waiters {
    pub(super) fn insert(&mut self, token: u64, waiting: Waiting) {
        *self.counts.entry(waiting.group()).or_default() += 1;
        if let Some(before) = self.by_token.insert(token, waiting) {
            self.count_out(before.group());
        }
    }

    pub(super) fn remove(&mut self, token: u64) -> Option<Waiting> {
        let waiting = self.by_token.remove(&token)?;
        self.count_out(waiting.group());
        Some(waiting)
    }

    pub(super) fn get(&self, token: u64) -> Option<&Waiting> {
        self.by_token.get(&token)
    }

    pub(super) fn contains(&self, token: u64) -> bool {
        self.by_token.contains_key(&token)
    }

    /// All of a group, in the order in which they came.
    pub(super) fn take_all_of(&mut self, group: GroupId) -> Vec<(u64, Waiting)> {
        if self.counts.remove(&group).is_none() {
            return Vec::new();
        }
        let mut all: Vec<_> = self.by_token.extract_if(|_, waiting| waiting.group() == group).collect();
        all.sort_unstable_by_key(|(token, _)| *token);
        all
    }

    /// In no order that means anything.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.counts.keys().copied()
    }

    fn count_out(&mut self, group: GroupId) {
        if let Some(count) = self.counts.get_mut(&group) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_a_group_are_known_until_the_last_is_taken_out() {
        let (mut waiters, group) = (Waiters::default(), |number| GroupId(number));
        for (token, number) in [(3, 1), (1, 1), (2, 2), (2, 2), (4, 2)] {
            waiters.insert(token, Waiting::End { group: group(number) });
        }
        let tokens = |all: Vec<(u64, Waiting)>| all.into_iter().map(|(token, _)| token).collect::<Vec<_>>();
        assert_eq!(tokens(waiters.take_all_of(group(1))), [1, 3]);
        assert!(waiters.remove(2).is_some() && waiters.remove(2).is_none() && waiters.contains(4));
        assert_eq!(waiters.counts.get(&group(2)), Some(&1));
        assert_eq!(tokens(waiters.take_all_of(group(2))), [4]);
        assert_eq!((waiters.counts.len(), waiters.by_token.len()), (0, 0));
    }
}
