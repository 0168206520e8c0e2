//! Which member coordinates a group: the one it was born with, or the one at which its commands enter.
//!
//! A command goes from the node that its client is connected to, to the one that coordinates the group. A volume of which
//! nearly all commands enter at one member is handed over to that member. As a member it hears of every slot anyway, so
//! coordinating costs it about what sending the commands on does; the way there and back is saved, and the other node's work
//! for it, and its reads under a lease need no message. A coordinator counts where commands come from, and each second
//! forgets half of what it has counted.
//!
//! Own groups stay where they were born: spread evenly, and most of them not used often enough to be handed over.

use quorate_protocol::{Event, GroupId, Instant, NodeId, Proposal};

use super::Host;
use super::group::Group;
use crate::root::ROOT;

/// How many groups are handed over in a second, back to whom they were born with, or after their clients.
const HANDED_OVER_MAX: usize = 16;
/// Groups looked at for that.
const SEEN_MAX: usize = 4_096;
/// A node that came back coordinates again after this long without suspicion.
const RECOVERY_US: u64 = 3_000_000;
/// The share of a group's commands that must enter at one member for it to be handed over, and ...
const FOLLOWED_PERCENT: u64 = 80;
/// ... for it to stay there.
const KEPT_PERCENT: u64 = 50;
/// It stays so long after that, lest whoever comes and goes takes it along each time.
const KEPT_US: u64 = 60_000_000;
/// It stays for so long wherever it comes to: meanwhile it is counted whether its clients are there.
const COUNTED_US: u64 = 5_000_000;

/// Where a group's commands have entered lately, as its coordinator counts them.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// In the order of the configuration.
    by_member: Vec<u32>,
    elsewhere: u32,
    /// Until when this node coordinates the group for its clients' sake.
    kept_until: Option<Instant>,
}

impl Demand {
    fn note(&mut self, members: &[NodeId], from: NodeId) {
        self.by_member.resize(members.len(), 0);
        let count = match members.iter().position(|&member| member == from) {
            Some(position) => &mut self.by_member[position],
            None => &mut self.elsewhere,
        };
        *count = count.saturating_add(1);
    }

    fn total(&self) -> u64 {
        self.by_member.iter().map(|&count| u64::from(count)).sum::<u64>() + u64::from(self.elsewhere)
    }

    /// The member at which at least this share of the commands enters.
    fn enters_at(&self, members: &[NodeId], percent: u64) -> Option<NodeId> {
        let total = self.total();
        let (position, &most) = self.by_member.iter().enumerate().max_by_key(|(_, count)| **count)?;
        (most > 0 && u64::from(most) * 100 >= total * percent).then(|| members[position])
    }

    fn halve(&mut self) {
        self.by_member.iter_mut().for_each(|count| *count /= 2);
        self.elsewhere /= 2;
    }
}

impl Host {
    /// A command or read of a group has come to be executed here.
    pub(super) fn note_demand(&mut self, index: u32, from: NodeId) {
        if let Some((demand, members)) = self.demand_of(index) {
            demand.note(members, from);
        }
    }

    /// None of groups that stay where they are.
    fn demand_of(&mut self, index: u32) -> Option<(&mut Demand, &[NodeId])> {
        let group = &mut self.groups[index as usize];
        let is_volume = group.own.is_none() && group.id() != ROOT;
        if self.settings.follow_clients_at == 0 || !is_volume || group.replica.paxos().is_none() {
            return None;
        }
        if group.demand.is_none() {
            self.followed.push((index, group.id()));
        }
        Some((group.demand.get_or_insert_default(), &group.configuration.members))
    }

    /// After a step: a group that this node coordinates for another is given back in time.
    pub(super) fn note_role(&mut self, index: u32) {
        let Some(group) = self.groups.get_mut(index as usize) else { return };
        if group.is_displaced || !group.replica.paxos().is_some_and(|replica| replica.is_coordinating()) {
            return;
        }
        let preferred = group.preferred();
        if preferred == self.settings.node {
            return;
        }
        group.is_displaced = true;
        self.displaced.push_back((index, group.configuration.group));
        let now = self.clock.now();
        // Where nobody is missing, it may have come for its clients' sake.
        if self.may_coordinate(preferred)
            && let Some((demand, _)) = self.demand_of(index)
        {
            demand.kept_until = Some(now.after_us(COUNTED_US));
        }
    }

    /// Each second.
    pub(super) fn balance(&mut self) {
        if !self.is_clock_off() {
            self.follow_clients();
            self.give_back();
        }
    }

    /// Hands over what is used at another member.
    fn follow_clients(&mut self) {
        let (me, now) = (self.settings.node, self.clock.now());
        let least = 2 * u64::from(self.settings.follow_clients_at);
        let mut away = Vec::new();
        for (index, id) in std::mem::take(&mut self.followed) {
            let Some(group) = self.groups.get_mut(index as usize).filter(|group| group.id() == id) else { continue };
            let Some(demand) = &mut group.demand else { continue };
            let members = &group.configuration.members;
            if demand.total() >= least && demand.enters_at(members, KEPT_PERCENT) == Some(me) {
                demand.kept_until = Some(now.after_us(KEPT_US));
            }
            let wanted_by = demand.enters_at(members, FOLLOWED_PERCENT).filter(|&to| to != me);
            let is_wanted = demand.total() >= least && group.replica.is_coordinating();
            demand.halve();
            let is_over = demand.total() == 0 && demand.kept_until.is_none_or(|until| until <= now);
            if is_over {
                group.demand = None;
                continue;
            }
            self.followed.push((index, id));
            if let Some(to) = wanted_by.filter(|&to| is_wanted && group.replica.has_answered(to)) {
                away.push((index, to));
            }
        }
        away.retain(|&(_, to)| self.may_coordinate(to));
        away.truncate(HANDED_OVER_MAX);
        self.hand_over_groups(away);
    }

    /// Gives groups back to the members that they were born with, so that coordinators stay even over the nodes.
    fn give_back(&mut self) {
        let mut away = Vec::new();
        for _ in 0..self.displaced.len().min(SEEN_MAX) {
            let Some((index, id)) = self.displaced.pop_front() else { break };
            let Some(group) = self.groups.get_mut(index as usize).filter(|group| group.id() == id) else { continue };
            let to = group.preferred();
            if !group.replica.is_coordinating() {
                group.is_displaced = false;
                continue;
            }
            // Until it has handed over, it is looked at again.
            self.displaced.push_back((index, id));
            let group = &self.groups[index as usize];
            let may_go = self.may_coordinate(to) && group.replica.has_answered(to) && !self.is_kept(group);
            if away.len() < HANDED_OVER_MAX && may_go {
                away.push((index, to));
            }
        }
        self.hand_over_groups(away);
    }

    /// Whether the group is here for its clients' sake, or may be.
    fn is_kept(&self, group: &Group) -> bool {
        let kept_until = group.demand.as_ref().and_then(|demand| demand.kept_until);
        kept_until.is_some_and(|until| until > self.clock.now())
    }

    fn may_coordinate(&self, node: NodeId) -> bool {
        let is_able = !self.peers.is_unable(node, self.clock.now());
        is_able && self.is_steady(node, RECOVERY_US) && self.walls.agrees_with(node)
    }

    fn hand_over_groups(&mut self, away: Vec<(u32, NodeId)>) {
        for (index, to) in away {
            let group = self.groups[index as usize].id();
            if !self.is_leaving_seat(group, to) && self.may_hand_over(group) {
                self.plan(index, Event::Proposed(Proposal::HandOver { to }));
            }
        }
    }

    /// This node has given coordination of a group away.
    pub(super) fn note_handed_over(&mut self, index: u32, to: NodeId) {
        let group = &self.groups[index as usize];
        let demand = group.demand.as_ref();
        let is_followed =
            demand.is_some_and(|demand| demand.enters_at(&group.configuration.members, FOLLOWED_PERCENT) == Some(to));
        self.counters.handed_over += 1;
        self.counters.followed += u64::from(is_followed);
    }

    /// For the environment's use before a clean stop: gives away what this node coordinates, to members that the environment
    /// can reach. Which groups it is that could be given to somebody.
    pub fn hand_over_all(&mut self, can_reach: impl Fn(NodeId) -> bool) -> Vec<GroupId> {
        let mine = self.settings.node;
        let live = |node: NodeId| node != mine && !self.peers.is_suspected(node) && can_reach(node);
        let heirs: Vec<(u32, NodeId)> = self
            .groups
            .iter()
            .filter(|(_, group)| group.replica.is_coordinating())
            .filter_map(|(index, group)| {
                let fit = |node: &NodeId| live(*node) && group.replica.has_answered(*node);
                let heir = group.configuration.members.iter().copied().find(fit)?;
                Some((index as u32, heir))
            })
            .collect();
        let handed = heirs.iter().map(|&(index, _)| self.groups[index as usize].id()).collect();
        self.hand_over_groups(heirs);
        self.run();
        handed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::three_nodes::{Cluster, arrives, coordinates};

    const MEMBERS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

    fn demand(counts: &[(u32, u32)]) -> Demand {
        let mut demand = Demand::default();
        for &(node, count) in counts {
            (0..count).for_each(|_| demand.note(&MEMBERS, NodeId(node)));
        }
        demand
    }

    #[test]
    fn what_enters_elsewhere_counts_against_every_member() {
        let spread = demand(&[(1, 10), (2, 80), (9, 10)]);
        assert_eq!(spread.total(), 100);
        assert_eq!(spread.enters_at(&MEMBERS, 80), Some(NodeId(2)));
        assert_eq!(spread.enters_at(&MEMBERS, 81), None);
        assert_eq!(demand(&[(2, 49), (9, 51)]).enters_at(&MEMBERS, KEPT_PERCENT), None);
    }

    #[test]
    fn what_was_counted_is_forgotten() {
        let mut old = demand(&[(1, 1_000), (9, 100)]);
        (0..10).for_each(|_| old.halve());
        assert_eq!((old.total(), old.enters_at(&MEMBERS, 1)), (0, None));
        (0..10).for_each(|_| old.note(&MEMBERS, NodeId(3)));
        assert_eq!(old.enters_at(&MEMBERS, FOLLOWED_PERCENT), Some(NodeId(3)));
    }
    /// Node 1, where the volume was born, has handed it over; nobody has missed it.
    fn handed_over() -> Cluster {
        let mut cluster = Cluster::new(|settings| settings.follow_clients_at = 1);
        assert_eq!(cluster.node(1).host.hand_over_all(|_| true).len(), 2, "the root and the volume");
        cluster.pass(1_000, arrives);
        assert_eq!(coordinator(&mut cluster), NodeId(2));
        cluster
    }

    #[test]
    fn a_node_whose_log_has_no_space_leaves_coordination_to_others_until_it_has() {
        let mut cluster = Cluster::new(|_| {});
        cluster.node(1).is_full = true;
        cluster.pass(2_000, arrives);
        assert_ne!(coordinator(&mut cluster), NodeId(1));
        let written = [1, 2, 3].map(|at| (at, cluster.write(at, b"value")));
        cluster.pass(1_000, arrives);
        for (at, number) in written {
            assert!(cluster.is_done(at, number), "at node {at}");
        }
        cluster.pass(10_000, arrives);
        assert_ne!(coordinator(&mut cluster), NodeId(1), "it is not given back meanwhile");
        cluster.node(1).is_full = false;
        cluster.pass(7_000, arrives);
        assert_eq!(coordinator(&mut cluster), NodeId(1));
        cluster.assert_executed(&[1, 2, 3], 2);
    }

    #[test]
    fn a_candidate_that_can_log_no_promise_leaves_it_to_others() {
        let mut cluster = Cluster::new(|_| {});
        // Everybody believes that it coordinates, and it has to be elected first.
        cluster.node(1).is_full = true;
        cluster.restart(1);
        let early = cluster.write(1, b"early");
        cluster.pass(4_000, arrives);
        assert_ne!(coordinator(&mut cluster), NodeId(1));
        let late = cluster.write(2, b"late");
        cluster.pass(1_000, arrives);
        assert!(cluster.is_done(1, early) && cluster.is_done(2, late));
    }

    #[test]
    fn where_most_logs_have_no_space_coordination_stays_where_it_is() {
        let mut cluster = Cluster::new(|_| {});
        for id in [1, 2] {
            cluster.node(id).is_full = true;
        }
        cluster.pass(4_000, arrives);
        assert_eq!(coordinator(&mut cluster), NodeId(1));
        let number = cluster.read(3);
        cluster.pass(500, arrives);
        assert!(cluster.node(3).answers.iter().any(|(answered, _)| *answered == number), "reads go on");
    }

    fn coordinator(cluster: &mut Cluster) -> NodeId {
        let volume = cluster.volume();
        let is_it = |&node: &NodeId| coordinates(&cluster.node(node.0).host, volume);
        MEMBERS.into_iter().find(is_it).expect("somebody coordinates the volume")
    }

    #[test]
    fn a_node_that_stopped_and_is_back_at_once_coordinates_again_within_seconds() {
        let mut cluster = handed_over();
        cluster.pass(7_000, arrives);
        assert_eq!(coordinator(&mut cluster), NodeId(1));
    }

    #[test]
    fn what_is_used_where_it_came_to_stays_there() {
        let mut cluster = handed_over();
        for _ in 0..2_000 {
            cluster.write(2, b"value");
            cluster.pass(10, arrives);
        }
        assert_eq!(coordinator(&mut cluster), NodeId(2));
        cluster.pass(50_000, arrives);
        assert_eq!(coordinator(&mut cluster), NodeId(2), "clients come back");
        cluster.pass(25_000, arrives);
        assert_eq!(coordinator(&mut cluster), NodeId(1));
    }
}
