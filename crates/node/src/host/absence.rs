//! Nodes that are missed for long, as whoever coordinates the root counts it, and what it has the root decide of them.
//! See docs/decisions/0035.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use quorate_protocol::{Ballot, Instant, NodeId};

use super::Host;
use crate::root::{PlaceCommand, ROOT, RootState, Spared};
use crate::status::NodeState;

/// A node that was absent is back once it has been well for so long.
const BACK_US: u64 = 5_000_000;
/// Of the time between two looks no more counts: a coordinator that stood still has missed nobody meanwhile.
const LOOK_US_MAX: u64 = 1_000_000;

const IS_WAITED_FOR: &str = "the node is suspected, and not for as long as QUORATE NODE REPLACE AFTER says";

/// Whom this node misses while it coordinates the root.
#[derive(Default)]
pub(super) struct Missed {
    /// The ballot at which it has coordinated since it began to count.
    term: Option<Ballot>,
    looked_at: Instant,
    /// For how long, without a break.
    us: BTreeMap<NodeId, u64>,
}

impl Host {
    /// Each heartbeat. What others have counted before is not known here: it begins anew with each term.
    pub(super) fn count_missed(&mut self) {
        let now = self.clock.now();
        let term = self.find(ROOT).and_then(|index| self.ballot_coordinated(index));
        let unheard: Vec<NodeId> = match term {
            Some(_) => self.peers.nodes().filter(|&node| self.peers.is_unheard(node) && self.is_peer(node)).collect(),
            None => Vec::new(),
        };
        let missed = &mut self.placing.missed;
        if missed.term != term {
            (missed.term, missed.looked_at) = (term, now);
            missed.us.clear();
        }
        let passed_us = now.0.saturating_sub(missed.looked_at.0).min(LOOK_US_MAX);
        missed.looked_at = now;
        missed.us.retain(|node, _| unheard.contains(node));
        for node in unheard {
            *missed.us.entry(node).or_default() += passed_us;
        }
    }

    /// What the root is to decide of nodes that are away for too long, or back.
    pub(super) fn absences(&self, root: &RootState) -> Vec<PlaceCommand> {
        let is_back = |node: &u32| {
            let node = NodeId(*node);
            self.is_steady(node, BACK_US) && !self.peers.is_unable(node, self.clock.now())
        };
        let back = root.placement.absent.iter().copied().filter(is_back);
        let mut commands: Vec<PlaceCommand> =
            back.map(|node| PlaceCommand::Absent { node, is_absent: false }).collect();
        if root.spared().is_none() {
            let news = self.missed_for_long(root).into_iter().take(root.absent_more());
            commands.extend(news.map(|node| PlaceCommand::Absent { node, is_absent: true }));
        }
        commands
    }

    /// Nodes that are to be replaced as far as time goes, and are not absent yet: those first that are missed for longest.
    fn missed_for_long(&self, root: &RootState) -> Vec<u32> {
        let Some(after_s) = root.placement.replace_after.0 else { return Vec::new() };
        let is_long = |us: u64| us >= u64::from(after_s) * 1_000_000;
        let missed = self.placing.missed.us.iter().map(|(node, us)| (Reverse(*us), node.0));
        let mut missed: Vec<(Reverse<u64>, u32)> =
            missed.filter(|(us, node)| is_long(us.0) && !root.is_absent(*node)).collect();
        missed.sort_unstable();
        missed.into_iter().map(|(_, node)| node).collect()
    }

    /// A line for each node that would be replaced, and is not. By whoever coordinates the root.
    pub fn absence_alarms(&self) -> Vec<String> {
        let Some(root) = self.directory.state() else { return Vec::new() };
        let Some(spared) = root.spared() else { return Vec::new() };
        let line = |node: u32| {
            let away_s = self.placing.missed.us.get(&NodeId(node)).copied().unwrap_or_default() / 1_000_000;
            format!("{} has been away for {away_s} s and is not replaced: {}", root.name_of_node(node), spared.why())
        };
        self.missed_for_long(root).into_iter().map(line).collect()
    }

    /// The nodes that are absent, as far as this one has heard.
    pub fn absent_nodes(&self) -> Vec<NodeId> {
        let absent = self.directory.state().map(|root| root.placement.absent.iter().copied().map(NodeId));
        absent.into_iter().flatten().collect()
    }

    /// How a node is, as this one sees it and the root has said.
    pub(super) fn node_state(&self, node: NodeId) -> NodeState {
        if node == self.settings.node || !self.peers.is_unheard(node) {
            NodeState::Live
        } else if self.directory.state().is_some_and(|root| root.is_absent(node.0)) {
            NodeState::Absent
        } else {
            NodeState::Suspected
        }
    }

    /// Why what a node has stays where it is although nothing is heard of it, if so.
    pub(super) fn why_not_replaced(&self, root: &RootState, node: NodeId) -> Option<&'static str> {
        let is_away = self.node_state(node) == NodeState::Suspected;
        (is_away && !root.is_to_be_emptied(node.0)).then(|| root.spared().map_or(IS_WAITED_FOR, Spared::why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{AdminReply, Answer};
    use crate::host::three_nodes::{Cluster, arrives};

    fn state(cluster: &mut Cluster, at: u32) -> RootState {
        cluster.node(at).host.directory().expect("the nodes know the cluster").clone()
    }

    fn members(cluster: &mut Cluster, at: u32) -> Vec<u32> {
        state(cluster, at).namespaces[&0].volumes[0].members.clone()
    }

    fn shown(cluster: &mut Cluster, at: u32, name: &str) -> String {
        let Answer::Admin(AdminReply::Map(fields)) = cluster.say(at, &format!("NODE SHOW {name}")) else {
            panic!("not told")
        };
        fields.iter().map(|(field, told)| format!("{field}={told:?} ")).collect()
    }

    fn said(cluster: &mut Cluster, line: &str) {
        assert_eq!(cluster.say(1, line), Answer::Admin(AdminReply::Ok), "{line}");
    }

    #[test]
    fn a_node_that_is_missed_for_long_is_replaced_and_what_it_had_does_not_come_back_with_it() {
        let mut cluster = Cluster::of(4, |_| {});
        said(&mut cluster, "NODE REPLACE AFTER 5");
        assert_eq!(cluster.say(4, "NODE REPLACE AFTER"), Answer::Admin(AdminReply::Text("5s".into())));
        cluster.node(3).is_down = true;
        cluster.pass(2_000, arrives);
        let told = shown(&mut cluster, 2, "n3");
        assert!(told.contains("Text(\"suspected\")") && told.contains(IS_WAITED_FOR), "{told}");
        assert_eq!((members(&mut cluster, 1), cluster.node(1).host.absent_nodes()), (vec![1, 2, 3], vec![]));
        cluster.pass(6_000, arrives);
        assert_eq!(members(&mut cluster, 2), [1, 2, 4]);
        let told = shown(&mut cluster, 2, "n3");
        assert!(told.contains("state=Text(\"absent\")") && told.contains("absent=Text(\"yes\")"), "{told}");
        assert!(told.contains("replicas=Int(0)") && told.contains("replace_after=Text(\"5s\")"), "{told}");
        let counters = cluster.node(1).host.counters();
        assert_eq!(
            (counters.absences, counters.replicas_replaced, counters.moves_planned),
            (1, 2, 0),
            "the root's, too"
        );
        assert_eq!(cluster.node(2).host.root_members(), [1, 2, 4].map(NodeId));
        let written = cluster.write(2, b"value");
        cluster.pass(2_000, arrives);
        assert!(cluster.is_done(2, written));
        cluster.node(3).is_down = false;
        cluster.restart(3);
        cluster.pass(10_000, arrives);
        for at in 1..=4 {
            assert_eq!(members(&mut cluster, at), [1, 2, 4], "node {at}");
            assert_eq!(cluster.node(at).host.absent_nodes(), [], "node {at}");
        }
        let volume = cluster.volume();
        assert!(cluster.node(3).host.find(volume).is_none(), "it has forgotten what it had");
        assert_eq!(cluster.node(1).host.counters().absences_over, 1);
    }

    #[test]
    fn whoever_has_just_come_to_coordinate_the_root_counts_anew_and_a_third_of_the_nodes_may_be_absent() {
        let mut cluster = Cluster::of(5, |_| {});
        said(&mut cluster, "NODE REPLACE AFTER 4");
        cluster.node(3).is_down = true;
        cluster.pass(3_000, arrives);
        cluster.node(1).is_down = true;
        cluster.pass(3_500, arrives);
        assert_eq!(cluster.node(2).host.absent_nodes(), [], "nobody has missed it for long");
        cluster.pass(4_000, arrives);
        assert_eq!(cluster.node(2).host.absent_nodes(), [NodeId(1)]);
        let alarms: Vec<String> = [2, 4, 5].into_iter().flat_map(|at| cluster.node(at).host.absence_alarms()).collect();
        assert!(alarms.len() == 1 && alarms[0].contains("n3 has been away for"), "{alarms:?}");
        let told = shown(&mut cluster, 4, "n3");
        assert!(told.contains(Spared::Enough.why()), "{told}");
        let told = shown(&mut cluster, 4, "n1");
        assert!(told.contains("another replica of the volume is on a node that is not well"), "{told}");
    }

    #[test]
    fn whoever_stood_still_has_missed_nobody_meanwhile() {
        let mut cluster = Cluster::of(4, |_| {});
        said(&mut cluster, "NODE REPLACE AFTER 20");
        cluster.node(3).is_down = true;
        cluster.pass(2_000, arrives);
        let missed_s = |cluster: &mut Cluster| {
            let us = cluster.node(1).host.placing.missed.us.get(&NodeId(3)).copied();
            us.map(|us| us / 1_000_000)
        };
        assert_eq!(missed_s(&mut cluster), Some(1));
        cluster.node(1).host.placing.missed.looked_at = Instant(0);
        cluster.pass(100, arrives);
        assert_eq!(missed_s(&mut cluster), Some(2));
    }

    #[test]
    fn nothing_moves_where_nodes_are_never_replaced() {
        let mut cluster = Cluster::of(4, |_| {});
        said(&mut cluster, "NODE REPLACE AFTER 1");
        said(&mut cluster, "NODE REPLACE AFTER never");
        cluster.node(3).is_down = true;
        cluster.pass(15_000, arrives);
        assert_eq!((members(&mut cluster, 1), cluster.node(1).host.absent_nodes()), (vec![1, 2, 3], vec![]));
        let told = shown(&mut cluster, 1, "n3");
        assert!(told.contains(Spared::Never.why()), "{told}");
        assert!(cluster.node(1).host.absence_alarms().is_empty());
        for line in ["NODE REPLACE AFTER 0", "NODE REPLACE AFTER 99999999999"] {
            let refused = cluster.say(1, line);
            assert!(
                matches!(&refused, Answer::Admin(AdminReply::Error(line)) if line.contains("1 to 2592000 seconds"))
            );
        }
        let refused = cluster.say(1, "NODE REPLACE AFTER 10m");
        assert!(matches!(&refused, Answer::Admin(AdminReply::Error(line)) if line.contains("REPLACE AFTER [seconds")));
    }
}
