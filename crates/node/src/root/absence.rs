//! Nodes that have been away for long: what they have gets other places, as if they drained, until they are back.
//! See docs/decisions/0035.

use quorate_object::Outcome;
use serde::{Deserialize, Serialize};

use super::{RootState, error};

/// A month: whoever waits for longer waits for ever.
pub const REPLACE_AFTER_S_MAX: u32 = 30 * 24 * 60 * 60;

/// After how many seconds without a word of it a node's replicas get other places; never, if none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaceAfter(pub Option<u32>);

impl ReplaceAfter {
    pub const DEFAULT: ReplaceAfter = ReplaceAfter(Some(600));

    /// As people write it, and the program takes it.
    pub fn words(self) -> String {
        self.0.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds}s"))
    }
}

impl Default for ReplaceAfter {
    fn default() -> ReplaceAfter {
        ReplaceAfter::DEFAULT
    }
}

/// Why a node that is missed is not taken for absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spared {
    Never,
    Upgrade,
    /// As many are absent as may be.
    Enough,
}

impl Spared {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Spared::Never => {
                "nodes that are away are never replaced by themselves: QUORATE NODE REPLACE AFTER says when"
            }
            Spared::Upgrade => {
                "a rolling upgrade is under way, or was left: no node is replaced by itself until it ends"
            }
            Spared::Enough => {
                "as many nodes are being replaced as may be at a time, a third of all: QUORATE NODE DRAIN replaces more"
            }
        }
    }
}

impl RootState {
    /// Whether the root has decided that a node has been away for too long, and is not back.
    pub fn is_absent(&self, node: u32) -> bool {
        self.placement.absent.contains(&node)
    }

    /// Whether what a node has is to get other places: somebody has said so, or it is absent.
    pub(crate) fn is_to_be_emptied(&self, node: u32) -> bool {
        self.is_draining(node) || self.is_absent(node)
    }

    /// How many more nodes may be taken for absent. At most a third of all are at a time, and at least one may be: a partition is no
    /// reason to copy everything. Those of which no volume has a replica any more do not count.
    pub(crate) fn absent_more(&self) -> usize {
        let has_replicas = |node: &&u32| self.volumes().any(|(.., volume)| volume.names(**node));
        let emptying = self.placement.absent.iter().filter(has_replicas).count();
        (self.nodes.len() / 3).max(1).saturating_sub(emptying)
    }

    /// Why no further node may be taken for absent now.
    pub(crate) fn spared(&self) -> Option<Spared> {
        if self.placement.replace_after.0.is_none() {
            Some(Spared::Never)
        } else if self.upgrade.is_some() {
            Some(Spared::Upgrade)
        } else {
            (self.absent_more() == 0).then_some(Spared::Enough)
        }
    }

    pub(super) fn set_replace_after(&mut self, after: ReplaceAfter) -> Outcome {
        if let Some(seconds) = after.0
            && (seconds == 0 || seconds > REPLACE_AFTER_S_MAX)
        {
            return error(&format!(
                "a node is replaced after 1 to {REPLACE_AFTER_S_MAX} seconds without a word of it, or NEVER"
            ));
        }
        let is_over = after.0.is_none() && !self.placement.absent.is_empty();
        if self.placement.replace_after != after || is_over {
            self.placement.replace_after = after;
            // Whoever says never wants nothing of it to go on.
            if is_over {
                self.placement.absent.clear();
            }
            self.version += 1;
        }
        Outcome::Ok
    }

    pub(super) fn set_absent(&mut self, node: u32, is_absent: bool) -> Outcome {
        if self.node(node).is_none() {
            return error(&format!("the cluster has no node of number {node}"));
        }
        if self.is_absent(node) == is_absent {
            return Outcome::Ok;
        }
        if !is_absent {
            self.placement.absent.retain(|other| *other != node);
            self.version += 1;
            return Outcome::Ok;
        }
        if let Some(spared) = self.spared() {
            return error(spared.why());
        }
        self.placement.absent.push(node);
        self.placement.absent.sort_unstable();
        self.version += 1;
        Outcome::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{PlaceCommand, RootCommand, Settings, UpgradeCommand};

    fn root(nodes: u32) -> RootState {
        RootState::of_nodes(nodes, Settings::default())
    }

    fn place(root: &mut RootState, command: PlaceCommand) -> Outcome {
        let before = root.clone();
        let outcome = root.execute(&RootCommand::Place(command), 1);
        match &outcome {
            Outcome::Error(_) => assert_eq!(*root, before, "refused, and changed"),
            _ => assert!(root.version > before.version || *root == before, "nobody would hear of it"),
        }
        assert_eq!(RootState::decode(&root.encode()).as_ref(), Some(&*root));
        outcome
    }

    fn absent(node: u32, is_absent: bool) -> PlaceCommand {
        PlaceCommand::Absent { node, is_absent }
    }

    fn after(seconds: Option<u32>) -> PlaceCommand {
        PlaceCommand::ReplaceAfter { after: ReplaceAfter(seconds) }
    }

    fn refusal(root: &mut RootState, command: PlaceCommand) -> String {
        match place(root, command) {
            Outcome::Error(line) => line,
            other => panic!("answered with {other:?}"),
        }
    }

    #[test]
    fn a_third_of_the_nodes_are_absent_at_a_time_and_at_least_one() {
        for (nodes, most) in [(1, 1), (3, 1), (5, 1), (6, 2), (8, 2), (9, 3)] {
            let mut root = root(nodes);
            (1..=most).for_each(|node| assert_eq!(place(&mut root, absent(node, true)), Outcome::Ok));
            assert_eq!(place(&mut root, absent(1, true)), Outcome::Ok, "it is decided again");
            if nodes > most {
                let line = refusal(&mut root, absent(nodes, true));
                assert!(line.contains("as many nodes are being replaced as may be"), "{line}");
            }
            assert_eq!(place(&mut root, absent(1, false)), Outcome::Ok);
            assert_eq!(place(&mut root, absent(nodes, true)), Outcome::Ok);
        }
        assert!(refusal(&mut root(3), absent(4, true)).contains("no node of number 4"));
        // Those that have nothing any more keep nobody from being replaced.
        let mut root = root(4);
        assert_eq!(place(&mut root, absent(4, true)), Outcome::Ok);
        refusal(&mut root, absent(3, true));
        root.namespaces.clear();
        assert_eq!(place(&mut root, absent(3, true)), Outcome::Ok);
    }

    #[test]
    fn when_nodes_are_replaced_is_said_within_bounds_and_never_ends_what_has_begun() {
        let mut root = root(6);
        assert_eq!(root.placement.replace_after.0, Some(600));
        for seconds in [0, REPLACE_AFTER_S_MAX + 1] {
            assert!(refusal(&mut root, after(Some(seconds))).contains("1 to 2592000 seconds"));
        }
        for seconds in [1, REPLACE_AFTER_S_MAX] {
            assert_eq!(place(&mut root, after(Some(seconds))), Outcome::Ok);
        }
        place(&mut root, PlaceCommand::Drain { node: 2, is_draining: true });
        assert_eq!(place(&mut root, absent(2, true)), Outcome::Ok);
        assert_eq!(place(&mut root, absent(4, true)), Outcome::Ok);
        assert_eq!(root.nodes_that_stay().collect::<Vec<u32>>(), [1, 3, 5, 6]);
        assert_eq!(place(&mut root, absent(2, false)), Outcome::Ok);
        assert!(root.is_draining(2) && root.is_to_be_emptied(2), "somebody has said so");
        assert_eq!(place(&mut root, after(None)), Outcome::Ok);
        assert_eq!((&root.placement.absent[..], &root.placement.draining[..]), (&[][..], &[2][..]));
        assert!(refusal(&mut root, absent(4, true)).contains("never replaced"));
        assert_eq!(root.placement.replace_after.words(), "never");
    }

    #[test]
    fn nobody_is_taken_for_absent_during_an_upgrade_and_who_is_comes_back() {
        let mut root = root(4);
        assert_eq!(place(&mut root, absent(4, true)), Outcome::Ok);
        let begin = UpgradeCommand::Begin { version: "2".into(), driver: 7, anew: false, silent_at: None };
        root.execute(&RootCommand::Upgrade(begin), 1);
        assert_eq!(place(&mut root, absent(4, false)), Outcome::Ok);
        assert!(refusal(&mut root, absent(4, true)).contains("rolling upgrade"));
        root.execute(&RootCommand::Upgrade(UpgradeCommand::Leave { driver: 7 }), 1);
        assert!(refusal(&mut root, absent(4, true)).contains("or was left"));
    }

    #[test]
    fn others_are_drained_and_namespaces_are_made_whoever_is_absent() {
        let mut root = root(4);
        place(&mut root, absent(4, true));
        let drain = |node| PlaceCommand::Drain { node, is_draining: true };
        assert_eq!(place(&mut root, drain(1)), Outcome::Ok, "it waits for who is absent");
        assert_eq!(place(&mut root, PlaceCommand::Drain { node: 1, is_draining: false }), Outcome::Ok);
        let create = |number, replicas| RootCommand::CreateNamespace {
            number,
            settings: Settings { replicas, volumes: 12, ..Settings::default() },
            members: Vec::new(),
        };
        assert_eq!(root.execute(&create(1, 3), 1), Outcome::Ok);
        assert_eq!(root.execute(&create(2, 4), 1), Outcome::Ok);
        assert!(root.namespaces[&1].volumes.iter().all(|volume| !volume.members.contains(&4)));
        assert!(root.namespaces[&2].volumes.iter().all(|volume| volume.members.contains(&4)));
    }
}
