//! A node is removed once no own group has a member on it. The root does not know of own groups: each volume is asked, and says it in its
//! log. See docs/decisions/0036 and [`crate::shunned`].

use std::collections::{BTreeMap, BTreeSet};

use quorate_object::Outcome;
use quorate_protocol::{GroupId, Instant};

use super::Host;
use crate::answer::{AdminReply, Answer};
use crate::entry::{Purpose, Target};
use crate::replica::Protocol;
use crate::root::{PlaceCommand, RootCommand};
use crate::volume::VolumeCommand;

/// A node that the volumes were told of was not removed if it is there after so long: no removal is tried for that long.
const TRIED_FOR_US: u64 = 60_000_000;
/// What volumes have said is not gone by for longer: a node that stood still meanwhile finds that they have gone on.
const ASKED_FOR_US: u64 = 20_000_000;

#[derive(Default)]
pub(super) struct Removals {
    number_next: u64,
    open: BTreeMap<u64, Removal>,
    /// By volume and node, the slot in which the volume was told of it, and since when this node knows of that.
    seen: BTreeMap<(GroupId, u32), (u64, Instant)>,
}

struct Removal {
    operation: u64,
    node: u32,
    begun_at: Instant,
    /// Volumes with group numbers from here on are not known here, or were not asked.
    asked_below: u64,
    /// Volumes that have not answered.
    awaited: BTreeSet<GroupId>,
    /// Those that will not.
    unknown: usize,
    /// Own groups that name the node.
    own_groups: u64,
}

impl Host {
    /// The volumes are asked first, unless the root will refuse it for what it knows itself.
    pub(super) fn begin_removal(&mut self, operation: u64, node: u32) {
        let Some(root) = self.directory.state() else { return };
        let is_named = root.with_part().contains(&node);
        let mut targets = BTreeMap::new();
        for (&namespace, of) in root.namespaces.iter().filter(|_| !is_named) {
            let volumes = of.volumes.iter().filter(|_| of.settings.protocol == Protocol::Paxos);
            for (index, volume) in (0..).zip(volumes) {
                targets.insert(GroupId(volume.group), Target::Volume { namespace, index });
            }
        }
        let asked_below = if is_named { 0 } else { root.group_next() };
        let removal = self.removals.number_next;
        self.removals.number_next += 1;
        let awaited = targets.keys().copied().collect();
        let begun_at = self.clock.now();
        let asked = Removal { operation, node, begun_at, asked_below, awaited, unknown: 0, own_groups: 0 };
        self.removals.open.insert(removal, asked);
        for (volume, target) in targets {
            self.submit_to_volume(target, &VolumeCommand::Shun { node }, Purpose::Shunned { removal, volume });
        }
        self.go_on_removing(removal);
    }

    pub(super) fn take_shunned(&mut self, removal: u64, volume: GroupId, answer: &Answer) {
        let is_dropped = self.directory.target_of_volume(volume).is_none();
        let Some(open) = self.removals.open.get_mut(&removal) else { return };
        open.awaited.remove(&volume);
        match answer {
            Answer::Outcome(Outcome::Int(count)) => open.own_groups += u64::try_from(*count).unwrap_or(0),
            _ if is_dropped => {}
            _ => open.unknown += 1,
        }
        self.go_on_removing(removal);
    }

    /// Once all volumes have answered.
    fn go_on_removing(&mut self, removal: u64) {
        if self.removals.open.get(&removal).is_none_or(|open| !open.awaited.is_empty()) {
            return;
        }
        let Some(Removal { operation, node, begun_at, asked_below, unknown, own_groups, .. }) =
            self.removals.open.remove(&removal)
        else {
            return;
        };
        let is_late = begun_at.after_us(ASKED_FOR_US) <= self.clock.now();
        let name = self.directory.state().map(|root| root.name_of_node(node)).unwrap_or_default();
        let refusal = match (own_groups, unknown) {
            (0, 0) if is_late => {
                format!("ERR the volumes took too long to say whether own groups have members on {name}: ask again")
            }
            (0, 0) => {
                let command = RootCommand::Place(PlaceCommand::RemoveNode { node, asked_below });
                return self.submit_to_root(&command, Purpose::Admin { operation });
            }
            (0, unknown) => format!(
                "ERR {unknown} of the volumes did not say whether own groups have members on {name}: ask again once a quorum of \
                 its members is there"
            ),
            (count, _) => {
                let groups = if count == 1 {
                    "1 own group has a member".into()
                } else {
                    format!("{count} own groups have members")
                };
                format!(
                    "ERR {groups} on {name}: QUORATE NODE DRAIN {name} moves them, QUORATE NODE SHOW {name} tells which stay"
                )
            }
        };
        self.answers.push((operation, Answer::Admin(AdminReply::Error(refusal))));
    }

    /// Each second: volumes that this node coordinates are told of nodes that were not removed after all.
    pub(super) fn unshun_those_that_stay(&mut self) {
        let now = self.clock.now();
        let mut seen = BTreeMap::new();
        let mut over = Vec::new();
        for (volume, index) in self.volumes_of_paxos() {
            let group = &self.groups[index as usize];
            let shunned = group.machine.children().map(|children| &children.shunned);
            let Some(shunned) = shunned.filter(|_| group.replica.is_coordinating()) else { continue };
            for (&node, &slot) in shunned {
                let known = self.removals.seen.get(&(volume, node)).filter(|(of, _)| *of == slot);
                let since = known.map_or(now, |(_, since)| *since);
                seen.insert((volume, node), (slot, since));
                let is_there = self.directory.state().is_some_and(|root| root.node(node).is_some());
                let tried_for_us = TRIED_FOR_US.max(ASKED_FOR_US + 2_000 * self.settings.timeout_ms);
                if is_there && since.after_us(tried_for_us) <= now {
                    over.push((volume, VolumeCommand::Unshun { node, slot }));
                }
            }
        }
        self.removals.seen = seen;
        over.iter().for_each(|(volume, command)| self.submit_to_volume_of(*volume, command));
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::NodeId;

    use super::*;
    use crate::host::nodes::tests::joined;
    use crate::host::three_nodes::{Cluster, arrives};

    fn told(cluster: &mut Cluster, line: &str) -> Result<(), String> {
        match cluster.say(1, line) {
            Answer::Admin(AdminReply::Ok) => Ok(()),
            Answer::Admin(AdminReply::Error(line)) => Err(line),
            answer => panic!("{line}: {answer:?}"),
        }
    }

    fn refused(cluster: &mut Cluster, line: &str, words: &str) {
        let refusal = told(cluster, line).expect_err("refused");
        assert!(refusal.contains(words), "{line}: {refusal}");
    }

    fn kill_the_fourth(cluster: &mut Cluster) {
        cluster.node(4).is_down = true;
        (1..=3).for_each(|id| cluster.node(id).host.unlinked(NodeId(4)));
        cluster.pass(3_000, arrives);
    }

    fn shun(cluster: &mut Cluster, node: u32) {
        let volume = cluster.volume();
        cluster.node(2).host.submit_to_volume_of(volume, &VolumeCommand::Shun { node });
        cluster.pass(500, arrives);
    }

    #[test]
    fn a_node_is_removed_once_no_own_group_has_a_member_there() {
        let mut cluster = joined();
        assert_eq!(told(&mut cluster, "GROUP CREATE a MEMBERS n4,n1,n2 VALUE 1"), Ok(()));
        assert_eq!(told(&mut cluster, "GROUP CREATE b MEMBERS n2,n3,n4 VALUE 1"), Ok(()));
        cluster.pass(500, arrives);
        kill_the_fourth(&mut cluster);
        refused(&mut cluster, "NODE REMOVE n4", "2 own groups have members on n4: QUORATE NODE DRAIN n4 moves them");
        // Of what is refused nothing is remembered.
        assert_eq!(told(&mut cluster, "GROUP CREATE c MEMBERS n1,n4,n3 VALUE 1"), Ok(()));
        refused(&mut cluster, "NODE REMOVE n4", "3 own groups");
        assert_eq!(told(&mut cluster, "NODE DRAIN n4"), Ok(()));
        refused(&mut cluster, "GROUP CREATE d MEMBERS n4", "n4 is being drained: name other MEMBERS");
        refused(&mut cluster, "GROUP MOVE a MEMBERS n4", "n4 is being drained");
        cluster.pass(5_000, arrives);
        assert_eq!(told(&mut cluster, "NODE REMOVE n4"), Ok(()));
        assert_eq!(cluster.node(2).host.known_nodes().len(), 3);
        cluster.pass(90_000, arrives);
        let volume = cluster.volume();
        let host = &cluster.node(1).host;
        let children = host.groups[host.find(volume).expect("it has it") as usize].machine.children();
        assert!(children.expect("it has some").shunned.contains_key(&4), "for good");
    }

    #[test]
    fn a_volume_that_has_said_that_none_is_there_keeps_its_word_for_a_while() {
        let mut cluster = joined();
        assert_eq!(told(&mut cluster, "GROUP CREATE a MEMBERS n1 VALUE 1"), Ok(()));
        assert_eq!(told(&mut cluster, "GROUP CREATE r PROTOCOL register VALUE 1"), Ok(()));
        shun(&mut cluster, 4);
        for line in ["CREATE b MEMBERS n2,n4", "MOVE a MEMBERS n4,n1", "RETYPE r PROTOCOL paxos MEMBERS n1,n4"] {
            refused(&mut cluster, &format!("GROUP {line}"), "about to be removed from the cluster");
        }
        assert_eq!(told(&mut cluster, "GROUP CREATE c MEMBERS n2,n3 VALUE 1"), Ok(()));
        cluster.pass(40_000, arrives);
        // Somebody tries again: it counts from then on.
        shun(&mut cluster, 4);
        cluster.pass(40_000, arrives);
        refused(&mut cluster, "GROUP CREATE b MEMBERS n2,n4", "about to be removed from the cluster");
        cluster.pass(40_000, arrives);
        assert_eq!(told(&mut cluster, "GROUP CREATE b MEMBERS n2,n4"), Ok(()));
        shun(&mut cluster, 4);
        assert_eq!(told(&mut cluster, "GROUP MOVE a MEMBERS n4,n1"), Ok(()), "there is one");
    }

    #[test]
    fn a_node_is_not_removed_while_a_volume_cannot_say_what_is_there() {
        let mut cluster = joined();
        kill_the_fourth(&mut cluster);
        for id in [2, 3] {
            cluster.node(id).is_down = true;
            cluster.node(1).host.unlinked(NodeId(id));
        }
        cluster.pass(1_000, arrives);
        let number = cluster.next_number();
        let words: Vec<Vec<u8>> = ["NODE", "REMOVE", "n4"].iter().map(|word| word.as_bytes().to_vec()).collect();
        cluster.node(1).host.submit_admin(number, 0, &words);
        cluster.pass(8_000, arrives);
        let answers = &cluster.node(1).answers;
        let answer = answers.iter().find(|(answered, _)| *answered == number).map(|(_, answer)| answer);
        let Some(Answer::Admin(AdminReply::Error(line))) = answer else { panic!("{answer:?}") };
        assert!(line.contains("1 of the volumes did not say whether own groups have members on n4"), "{line}");
    }
}
