//! Where the root's own replicas are to be: away from nodes that drain or are absent, and on three nodes once there are three. The
//! planner's part that is about no volume.

use std::collections::BTreeMap;

use super::planner::{HAS_NOWHERE_TO_GO, Health, WAITS_FOR_OTHERS};
use super::{PlaceCommand, Places, ROOT, RootState};
use crate::replica::Protocol;

/// So many members survive that one is away. A root that was born with fewer gets them, and none gets more by itself: it never gets
/// smaller again, so a fourth and fifth would keep nodes from being removed.
pub(super) const SURVIVES_ONE: usize = 3;
pub(crate) const IS_ALONE: &str =
    "the root's only replica stays: others come beside it once there are three nodes that neither drain nor are absent";
pub(crate) const NEEDS_A_NODE: &str =
    "the root never gets smaller, and no node is left that could have this replica of it: add one";

impl RootState {
    /// Where the root's replicas are to be.
    pub(crate) fn places_of_root(&self) -> Places {
        Places::of(Protocol::Paxos, &self.root_record(), self.seats(ROOT.0))
    }

    /// Why the root's replica stays on a node though that is to be emptied, if it does.
    pub(crate) fn root_stays(&self, node: u32) -> Option<&'static str> {
        let members = self.root_members().len();
        let staying = self.nodes_that_stay().filter(|other| *other != node).count();
        let stays = (members == 1).then_some(IS_ALONE);
        stays.or_else(|| (staying < members).then_some(NEEDS_A_NODE))
    }

    /// What the root is to decide next of its own group, and what a node that is to be emptied waits for.
    pub(super) fn plan_of_root(
        &self,
        health: &dyn Fn(u32) -> Health,
    ) -> (Option<PlaceCommand>, BTreeMap<(u32, &'static str), u64>) {
        let (record, places) = (self.root_record(), self.places_of_root());
        let (group, epoch) = (record.group, record.epoch);
        let is_well = |node: u32| health(node) == Health::Well;
        let target = || self.nodes_that_stay().find(|node| is_well(*node) && !record.names(*node));
        let is_gone = |node: u32| health(node) == Health::Gone;
        if record.joining.is_some() {
            // Nobody comes in without those that stay.
            let is_in_vain = places.seats.iter().copied().any(is_gone);
            return (is_in_vain.then_some(PlaceCommand::Keep { group, epoch }), BTreeMap::new());
        }
        let are_others_well = |node: u32| record.members.iter().all(|&member| member == node || is_well(member));
        if let Some(&unsettled) = places.coming.first() {
            let to = target().filter(|_| is_gone(unsettled) && are_others_well(unsettled));
            let command = to.map(|to| PlaceCommand::Replace { group, epoch, from: unsettled, to });
            return (command, BTreeMap::new());
        }
        let is_emptied = |node: u32| self.is_draining(node) || self.is_absent(node) && !is_well(node);
        let mut waits = BTreeMap::new();
        let emptied = record.members.iter().copied().filter(|node| is_emptied(*node));
        for from in emptied.filter(|node| self.root_stays(*node).is_none()) {
            match target() {
                None => drop(waits.insert((from, HAS_NOWHERE_TO_GO), 1)),
                Some(_) if !are_others_well(from) => drop(waits.insert((from, WAITS_FOR_OTHERS), 1)),
                Some(to) => return (Some(PlaceCommand::Replace { group, epoch, from, to }), waits),
            }
        }
        let well = self.nodes_that_stay().filter(|node| is_well(*node)).count();
        let is_narrow = record.members.len() < SURVIVES_ONE && well >= SURVIVES_ONE && are_others_well(0);
        let wider = target().filter(|_| is_narrow).map(|to| PlaceCommand::WidenRoot { epoch, to });
        (wider, waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{NodeRecord, RootCommand, Settings};
    use quorate_object::Outcome;

    fn execute(root: &mut RootState, command: PlaceCommand) -> Outcome {
        root.execute(&RootCommand::Place(command), 1)
    }

    fn members(root: &RootState) -> Vec<u32> {
        root.root_members().into_iter().map(|node| node.0).collect()
    }

    fn add(root: &mut RootState, id: u32) {
        let at = |port: u32| format!("127.0.0.1:{}", port + id);
        let node = NodeRecord { id, name: format!("n{id}"), peer: at(17_000), client: at(7_000), admin: at(8_000) };
        assert_eq!(execute(root, PlaceCommand::AddNode { node }), Outcome::Int(id.into()));
    }

    fn without(gone: &[u32]) -> impl Fn(u32) -> Health {
        move |node| if gone.contains(&node) { Health::Gone } else { Health::Well }
    }

    fn settle_what_is_under_way(root: &mut RootState) {
        let (change, epoch) = (root.seats(ROOT.0).expect("somebody comes").change, root.root_record().epoch);
        if execute(root, PlaceCommand::Enter { group: ROOT.0, change }) == Outcome::Ok {
            assert_eq!(execute(root, PlaceCommand::Settle { group: ROOT.0, epoch: epoch + 1 }), Outcome::Ok);
        }
    }

    /// Everything that is planned is carried out, until there is nothing more.
    fn settle(root: &mut RootState, health: &dyn Fn(u32) -> Health) -> usize {
        for count in 0.. {
            let (Some(command), _) = root.plan_of_root(health) else { return count };
            assert_eq!(execute(root, command), Outcome::Ok);
            settle_what_is_under_way(root);
            assert!(count < 20, "it comes to no end");
        }
        unreachable!("it returns")
    }

    #[test]
    fn the_root_leaves_a_node_that_drains_or_is_absent() {
        let mut root = RootState::of_nodes(5, Settings::default());
        add(&mut root, 6);
        assert_eq!(settle(&mut root, &without(&[])), 0);
        execute(&mut root, PlaceCommand::Drain { node: 2, is_draining: true });
        assert_eq!(settle(&mut root, &without(&[])), 1);
        assert_eq!(members(&root), [1, 6, 3, 4, 5]);
        execute(&mut root, PlaceCommand::Drain { node: 2, is_draining: false });
        execute(&mut root, PlaceCommand::Absent { node: 4, is_absent: true });
        assert_eq!(settle(&mut root, &without(&[])), 0, "it is about to be back");
        assert_eq!(settle(&mut root, &without(&[4])), 1);
        assert_eq!((members(&root), root.root_record().epoch), (vec![1, 6, 3, 2, 5], 2));
    }

    #[test]
    fn it_waits_for_its_other_members_and_for_a_node_to_go_to() {
        let mut root = RootState::of_nodes(4, Settings { replicas: 1, ..Settings::default() });
        execute(&mut root, PlaceCommand::Drain { node: 2, is_draining: true });
        assert_eq!(root.root_stays(2), None);
        let waits = |root: &RootState, gone: &[u32]| root.plan_of_root(&without(gone)).1;
        assert_eq!(waits(&root, &[3]), BTreeMap::from([((2, WAITS_FOR_OTHERS), 1)]));
        assert_eq!(waits(&root, &[4]), BTreeMap::from([((2, HAS_NOWHERE_TO_GO), 1)]));
        assert_eq!(settle(&mut root, &without(&[])), 1);
        assert_eq!(members(&root), [1, 4, 3]);
        execute(&mut root, PlaceCommand::Drain { node: 1, is_draining: true });
        assert_eq!((root.root_stays(1), settle(&mut root, &without(&[]))), (Some(NEEDS_A_NODE), 0));
        assert_eq!(RootState::of_nodes(1, Settings::default()).root_stays(1), Some(IS_ALONE));
    }

    #[test]
    fn who_was_to_come_and_is_gone_is_not_waited_for() {
        let mut root = RootState::of_nodes(5, Settings::default());
        (6..=7).for_each(|id| add(&mut root, id));
        let replace = |epoch| PlaceCommand::Replace { group: ROOT.0, epoch, from: 1, to: 6 };
        assert_eq!(execute(&mut root, replace(0)), Outcome::Ok);
        assert_eq!(root.plan_of_root(&without(&[])), (None, BTreeMap::new()));
        let keep = PlaceCommand::Keep { group: ROOT.0, epoch: 0 };
        assert_eq!(root.plan_of_root(&without(&[6])).0, Some(keep.clone()));
        assert_eq!(execute(&mut root, keep.clone()), Outcome::Ok);
        assert_eq!(execute(&mut root, replace(0)), Outcome::Ok);
        assert_eq!(root.plan_of_root(&without(&[3])).0, Some(keep), "nobody comes in without who stays");
        assert_eq!(root.plan_of_root(&without(&[1])).0, None, "who leaves is not needed");
        let change = root.version;
        assert_eq!(execute(&mut root, PlaceCommand::Enter { group: ROOT.0, change }), Outcome::Ok);
        let other = PlaceCommand::Replace { group: ROOT.0, epoch: 1, from: 6, to: 1 };
        assert_eq!(root.plan_of_root(&without(&[6])).0, Some(other.clone()), "it has entered, and knows nothing");
        assert_eq!(root.plan_of_root(&without(&[6, 3])).0, None, "its successor would be given up at once");
        assert_eq!(execute(&mut root, other), Outcome::Ok);
        assert_eq!(root.plan_of_root(&without(&[6])).0, None, "another one is on its way already");
    }

    #[test]
    fn it_grows_with_the_cluster_once_that_is_a_gain() {
        let mut root = RootState::of_nodes(1, Settings::default());
        add(&mut root, 2);
        let two = PlaceCommand::WidenRoot { epoch: 0, to: 2 };
        assert!(matches!(execute(&mut root, two), Outcome::Error(line) if line.contains("for good")));
        assert_eq!(settle(&mut root, &without(&[])), 0, "two survive no more than one");
        add(&mut root, 3);
        assert_eq!(settle(&mut root, &without(&[3])), 0);
        assert_eq!(settle(&mut root, &without(&[])), 2);
        assert_eq!(members(&root), [1, 2, 3]);
        (4..=6).for_each(|id| add(&mut root, id));
        assert_eq!(settle(&mut root, &without(&[])), 0, "more only if somebody says so");
        let wider = |root: &RootState, to| PlaceCommand::WidenRoot { epoch: root.root_record().epoch, to };
        for to in [4, 5] {
            let command = wider(&root, to);
            assert_eq!(execute(&mut root, command), Outcome::Ok);
            settle_what_is_under_way(&mut root);
        }
        assert_eq!(members(&root), [1, 2, 3, 4, 5]);
        let one_more = wider(&root, 6);
        assert!(matches!(execute(&mut root, one_more), Outcome::Error(_)));
    }
}
