//! What a node's replicas do, counted for whoever watches.
//!
//! To look at a million groups takes longer than other nodes wait for a word of this one. So very many are counted a few a turn,
//! again and again, and what is told is the last count.

use quorate_protocol::paxos::Role;
use quorate_protocol::{Instant, NodeId};

use super::{Group, Host};
use crate::group_state::GroupState;

/// With no more groups than this, they are counted when somebody asks.
const AT_ONCE: usize = 16_384;
/// Places of groups looked at in a turn otherwise.
const PLACES_PER_TURN: usize = 1_024;
/// From the beginning of one such count to that of the next.
const COUNT_US: u64 = 30_000_000;

/// What replicas do, or why they do nothing.
const STATES: [&str; 8] =
    ["coordinating", "preparing", "following", "unborn", "forgetful", "damaged", "quarantined", "closed"];

/// Of the replicas that are awake at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    counts: [u64; STATES.len()],
    /// How far the last member of a group that is coordinated here is behind, as far as known.
    pub lag_slots_max: u64,
}

impl Census {
    /// Every state is there, also where no replica is in it: who watches for one must see it at 0 before.
    pub fn replicas(&self) -> impl Iterator<Item = (&'static str, u64)> {
        STATES.into_iter().zip(self.counts)
    }

    pub fn coordinating(&self) -> u64 {
        self.counts[0]
    }

    fn add(&mut self, group: &Group) {
        let state = match group.state {
            GroupState::Alive => match group.replica.role() {
                Role::Coordinating => 0,
                Role::Preparing => 1,
                Role::Following => 2,
            },
            GroupState::Unborn => 3,
            GroupState::Forgetful => 4,
            GroupState::Damaged => 5,
            GroupState::Quarantined => 6,
            GroupState::Closed => 7,
        };
        self.counts[state] += 1;
        if state == 0 {
            self.lag_slots_max = self.lag_slots_max.max(lag_slots(group));
        }
    }
}

/// At rest nobody is known to be behind.
fn lag_slots(group: &Group) -> u64 {
    if group.replica.is_idle() {
        return 0;
    }
    let next_slot = group.replica.next_slot().0;
    let behind = |(_, frontier): &(NodeId, quorate_protocol::Slot)| next_slot.saturating_sub(frontier.0);
    group.replica.frontiers().iter().map(behind).max().unwrap_or(0)
}

/// A count of very many groups.
#[derive(Default)]
pub(super) struct Counting {
    /// The next place to be looked at, and what those before it came to.
    under_way: Option<(usize, Census)>,
    last: Option<Census>,
    begun_at: Option<Instant>,
}

impl Host {
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Of more than 16,384 groups what was counted last, half a minute ago or as long as so many turns take.
    pub fn census(&mut self) -> Census {
        if self.groups.len() <= AT_ONCE {
            let census = self.count_all();
            self.counting.last = Some(census.clone());
            return census;
        }
        if self.counting.last.is_none() {
            self.counting.last = Some(self.count_all());
        }
        self.counting.last.clone().unwrap_or_default()
    }

    fn count_all(&self) -> Census {
        let mut census = Census::default();
        self.groups().for_each(|group| census.add(group));
        census
    }

    /// Begins a count of very many groups, if it is time.
    pub(super) fn count_again(&mut self, now: Instant) {
        let counting = &mut self.counting;
        let is_time = counting.begun_at.is_none_or(|at| at.after_us(COUNT_US) <= now);
        if self.groups.len() > AT_ONCE && counting.under_way.is_none() && is_time {
            counting.under_way = Some(Default::default());
            counting.begun_at = Some(now);
        }
    }

    pub(super) fn count_some(&mut self) {
        let Some((place, census)) = &mut self.counting.under_way else { return };
        let end = (*place + PLACES_PER_TURN).min(self.groups.capacity());
        (*place..end).filter_map(|place| self.groups.get(place)).for_each(|group| census.add(group));
        *place = end;
        if end == self.groups.capacity() {
            self.counting.last = self.counting.under_way.take().map(|(_, census)| census);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::{Configuration, Epoch, GroupId, quorum::QuorumSystem};

    use super::*;
    use crate::host::dispatch::tests::{first_of, settle};
    use crate::host::transfer::empty_content;
    use crate::machine::Machine;
    use crate::replica::Protocol;
    use crate::root::Durability;

    fn unborn(number: u64) -> Box<Group> {
        let me = NodeId(1);
        let (group, quorum) = (GroupId(number), QuorumSystem::Majority);
        let configuration = Configuration { group, epoch: Epoch(0), members: [me].into(), quorum };
        let machine = Machine::new(empty_content(group, [0; 16]));
        Box::new(Group::new(Protocol::Paxos, configuration, 0, Durability::Sync, [0; 16], machine, me))
    }

    fn unborn_count(census: &Census) -> u64 {
        census.replicas().find(|(state, _)| *state == "unborn").map_or(0, |(_, count)| count)
    }

    #[test]
    fn very_many_groups_are_counted_in_turns_again_and_again() {
        let mut host = first_of(1);
        settle(&mut host);
        let few = host.census();
        assert_eq!((few.coordinating(), unborn_count(&few)), (2, 0), "the root and a volume");
        let count_in_turns = |host: &mut Host| {
            (0..host.groups.capacity().div_ceil(PLACES_PER_TURN)).for_each(|_| host.count_some());
        };
        let many = AT_ONCE as u64;
        let places: Vec<usize> = (0..many).map(|number| host.groups.insert(unborn(1 << 40 | number))).collect();
        assert_eq!(host.census(), few, "as it was counted last");
        host.count_again(Instant(9_000_000));
        count_in_turns(&mut host);
        assert_eq!(unborn_count(&host.census()), many);
        places[..places.len() / 2].iter().for_each(|&place| drop(host.groups.remove(place)));
        for number in 0..many {
            host.groups.insert(unborn(1 << 41 | number));
        }
        host.count_again(Instant(9_000_000 + COUNT_US - 1));
        count_in_turns(&mut host);
        assert_eq!(unborn_count(&host.census()), many, "it is too early for another count");
        host.count_again(Instant(9_000_000 + COUNT_US));
        assert_eq!(unborn_count(&host.census()), many, "the count is under way");
        count_in_turns(&mut host);
        let now = host.census();
        assert_eq!((now.coordinating(), unborn_count(&now)), (2, many + many / 2));
        host.counting = Counting::default();
        assert_eq!(host.census(), now, "nothing has been counted before");
        host.groups.retain(|_, group| group.is_alive());
        assert_eq!(host.census(), few, "few again, they are counted at once");
    }
}
