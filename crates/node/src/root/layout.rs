//! Moves of volumes' replicas, as the root decides them: one node in place of another, one at a time of each volume. And what is
//! to be moved: everything that a draining node has, or as much as makes all nodes even.

use quorate_object::Outcome;

use super::{GroupRecord, Namespace, ROOT, Reads, RootState, Seats, Settings, error};
use crate::record::{ReplaceError, STILL_CHANGING};
use crate::replica::Protocol;

/// Whoever asked knows another epoch of the volume, or of the root, than the root. It asks again once it has heard more.
pub(crate) const HAS_CHANGED: &str =
    "ERR not done: what is to be moved has changed since the node that was asked has heard of it: try again";

/// Where a volume's replicas are to be, and how far that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Once nothing is under way any more; the first coordinates, or is the head.
    pub seats: Vec<u32>,
    /// Those of them that do not take part yet.
    pub coming: Vec<u32>,
    /// Those that still take part, and are not to.
    pub leaving: Vec<u32>,
}

impl Places {
    pub(crate) fn of(protocol: Protocol, volume: &GroupRecord, seats: Option<&Seats>) -> Places {
        let without = |nodes: &[u32], others: &[u32]| -> Vec<u32> {
            nodes.iter().filter(|node| !others.contains(node)).copied().collect()
        };
        match protocol {
            Protocol::Chain => Places {
                seats: volume.home.clone(),
                coming: without(&volume.home, &volume.members),
                leaving: without(&volume.members, &volume.home),
            },
            Protocol::Register => {
                let before: Vec<u32> = match &volume.stages.0[..] {
                    [before, _] => before.configuration.members.iter().map(|node| node.0).collect(),
                    _ => volume.members.clone(),
                };
                Places {
                    coming: without(&volume.members, &before),
                    leaving: without(&before, &volume.members),
                    seats: volume.members.clone(),
                }
            }
            Protocol::Paxos => {
                let leaving = seats.and_then(|seats| seats.leaving).filter(|_| volume.joining.is_some());
                let sits = |&node: &u32| volume.joining.filter(|_| leaving == Some(node)).unwrap_or(node);
                let beside = volume.joining.filter(|_| leaving.is_none());
                let unsettled = seats.and_then(|seats| seats.unsettled);
                Places {
                    seats: volume.members.iter().map(sits).chain(beside).collect(),
                    coming: volume.joining.into_iter().chain(unsettled).collect(),
                    leaving: leaving.into_iter().collect(),
                }
            }
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn are_taken(&self) -> bool {
        self.coming.is_empty() && self.leaving.is_empty()
    }
}

/// Why a volume's replicas stay where they are, if they do.
pub(crate) fn stays(namespace: &Namespace, places: &Places) -> Option<&'static str> {
    if namespace.settings.authority.is_members() {
        return Some("its members decide where it is: QUORATE NAMESPACE MOVE asks them");
    }
    let Settings { protocol, reads, .. } = namespace.settings;
    match (protocol, reads) {
        (Protocol::Paxos, Reads::Routed) => Some("a volume that is read through routers cannot be moved"),
        (Protocol::Paxos, _) if places.seats.len() == 1 => Some("a volume of paxos with one replica cannot be moved"),
        _ => None,
    }
}

impl RootState {
    /// Where a volume's replicas are to be.
    pub(crate) fn places(&self, protocol: Protocol, volume: &GroupRecord) -> Places {
        Places::of(protocol, volume, self.placement.seats.get(&volume.group))
    }

    /// Every volume with its namespace and where its replicas are to be.
    pub(crate) fn all_places(&self) -> impl Iterator<Item = (u32, &Namespace, &GroupRecord, Places)> {
        self.volumes().map(|(number, namespace, volume)| {
            (number, namespace, volume, self.places(namespace.settings.protocol, volume))
        })
    }

    pub fn is_draining(&self, node: u32) -> bool {
        self.placement.draining.contains(&node)
    }

    /// The nodes that may get what they do not have, in the order of their numbers.
    pub(crate) fn nodes_that_stay(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().map(|node| node.id).filter(|node| !self.is_to_be_emptied(*node))
    }

    fn has_node(&self, node: u32) -> bool {
        self.node(node).is_some()
    }

    pub(crate) fn name_of_node(&self, node: u32) -> String {
        self.node(node).map_or_else(|| format!("node {node}"), |record| record.name.clone())
    }

    pub(super) fn drain(&mut self, node: u32, is_draining: bool) -> Outcome {
        if !self.has_node(node) {
            return error(&format!("the cluster has no node of number {node}"));
        }
        if self.is_draining(node) == is_draining {
            return Outcome::Ok;
        }
        if !is_draining {
            self.placement.draining.retain(|other| *other != node);
            self.version += 1;
            return Outcome::Ok;
        }
        // Whoever is absent may be back before this one is empty.
        let left = self.nodes.iter().filter(|other| other.id != node && !self.is_draining(other.id)).count();
        let moved = self.all_places().filter(|(_, namespace, _, places)| stays(namespace, places).is_none());
        let most = moved.map(|(number, _, _, places)| (places.seats.len(), number)).max();
        if let Some((replicas, number)) = most.filter(|(replicas, _)| *replicas > left) {
            return error(&format!(
                "{} cannot be drained: namespace {number} has volumes of {replicas} replicas, and only {left} nodes \
                 would be left for them: add a node first, or drop the namespace",
                self.name_of_node(node)
            ));
        }
        self.placement.draining.push(node);
        self.placement.draining.sort_unstable();
        self.version += 1;
        Outcome::Ok
    }

    pub(super) fn level(&mut self, is_levelling: bool) -> Outcome {
        if self.placement.is_levelling != is_levelling {
            self.placement.is_levelling = is_levelling;
            self.version += 1;
        }
        Outcome::Ok
    }

    /// One node in place of another in a volume, or in the root, that stands at this epoch.
    pub(super) fn replace(&mut self, group: u64, epoch: u32, from: u32, to: u32) -> Outcome {
        if group == ROOT.0 {
            return self.replace_in_root(epoch, Some(from), to);
        }
        let found = self.volumes().find(|(.., volume)| volume.group == group);
        let Some((number, namespace, volume)) = found else {
            return error("no such volume: QUORATE VOLUME LIST shows those of a namespace");
        };
        let settings = namespace.settings;
        if settings.authority.is_members() {
            return error(&format!(
                "the members of namespace {number} decide who they are: QUORATE NAMESPACE MOVE {number} asks them for others"
            ));
        }
        if !self.has_node(to) {
            return error(&format!("the cluster has no node of number {to}"));
        }
        if volume.epoch != epoch {
            return Outcome::Error(HAS_CHANGED.into());
        }
        match settings.protocol {
            Protocol::Paxos => self.replace_seat(group, epoch, Some(from), to),
            Protocol::Register => self.replace_register(group, from, to),
            Protocol::Chain => self.replace_in_chain(group, from, to),
        }
    }

    fn replace_in_chain(&mut self, group: u64, from: u32, to: u32) -> Outcome {
        let mut volumes = self.namespaces.values_mut().flat_map(|namespace| &mut namespace.volumes);
        let Some(volume) = volumes.find(|volume| volume.group == group) else { return Outcome::Nil };
        match volume.replace(from, to) {
            Ok(()) => {
                let members = volume.members.clone();
                self.placement.seats.entry(group).or_default().unsettled = Some(to);
                self.note_members_of_chain(group, &members);
                self.version += 1;
                Outcome::Ok
            }
            Err(why) => self.not_replaced(why, from, to),
        }
    }

    /// A chain has these members: if whoever was to come is among them, it has come.
    pub(super) fn note_members_of_chain(&mut self, group: u64, members: &[u32]) {
        let unsettled = self.placement.seats.get(&group).and_then(|seats| seats.unsettled);
        if unsettled.is_some_and(|node| members.contains(&node)) {
            self.placement.seats.remove(&group);
        }
    }

    fn replace_register(&mut self, group: u64, from: u32, to: u32) -> Outcome {
        let Some((.., volume)) = self.volumes().find(|(.., volume)| volume.group == group) else { return Outcome::Nil };
        let Some(at) = volume.members.iter().position(|member| *member == from) else {
            return self.not_replaced(ReplaceError::NotThere, from, to);
        };
        if volume.members.contains(&to) {
            return self.not_replaced(ReplaceError::IsThere, from, to);
        }
        let (mut members, quorum) = (volume.members.clone(), volume.quorum());
        members[at] = to;
        self.move_registers(group, &members, Some(quorum))
    }

    fn not_replaced(&self, why: ReplaceError, from: u32, to: u32) -> Outcome {
        match why {
            ReplaceError::Changing => Outcome::Error(STILL_CHANGING.into()),
            ReplaceError::NotThere => error(&format!(
                "the volume has no replica on {}: QUORATE VOLUME LIST tells where",
                self.name_of_node(from)
            )),
            ReplaceError::IsThere => error(&format!("the volume has a replica on {} already", self.name_of_node(to))),
        }
    }

    /// Numbers of nodes that a new volume may lie on, if those that are to be emptied are not needed for it.
    pub(super) fn nodes_for_new(&self, replicas: usize) -> Vec<u32> {
        let staying: Vec<u32> = self.nodes_that_stay().collect();
        match staying.len() >= replicas {
            true => staying,
            false => self.nodes.iter().map(|node| node.id).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::Quorum;
    use crate::root::{Authority, PlaceCommand, ROOT, RootCommand};

    /// Four nodes, and one volume on the first three.
    fn root(protocol: Protocol) -> RootState {
        let settings = Settings { protocol, volumes: 1, ..Settings::default() };
        RootState::of_nodes(4, settings)
    }

    fn place(root: &mut RootState, command: PlaceCommand) -> Outcome {
        let before = root.clone();
        let outcome = root.execute(&RootCommand::Place(command), 1);
        match &outcome {
            Outcome::Error(_) => assert_eq!(*root, before, "refused, and changed"),
            _ => assert!(root.version > before.version || *root == before, "nobody would hear of it"),
        }
        outcome
    }

    fn refusal(root: &mut RootState, command: PlaceCommand) -> String {
        match place(root, command.clone()) {
            Outcome::Error(line) => line,
            other => panic!("{command:?} was answered with {other:?}"),
        }
    }

    fn volume(root: &RootState) -> &GroupRecord {
        &root.namespaces[&0].volumes[0]
    }

    const VOLUME: u64 = ROOT.0 + 1;

    fn replace(epoch: u32, from: u32, to: u32) -> PlaceCommand {
        PlaceCommand::Replace { group: VOLUME, epoch, from, to }
    }

    #[test]
    fn a_node_of_a_chain_is_replaced_in_the_epoch_that_was_seen() {
        let mut root = root(Protocol::Chain);
        assert!(refusal(&mut root, replace(0, 4, 1)).contains("no replica on n4"));
        assert!(refusal(&mut root, replace(0, 1, 2)).contains("on n2 already"));
        assert!(refusal(&mut root, replace(0, 1, 9)).contains("no node of number 9"));
        assert_eq!(refusal(&mut root, replace(1, 1, 4)), HAS_CHANGED);
        assert!(
            refusal(&mut root, PlaceCommand::Replace { group: 99, epoch: 0, from: 1, to: 4 }).contains("VOLUME LIST")
        );
        assert_eq!(place(&mut root, replace(0, 1, 4)), Outcome::Ok);
        assert_eq!((&volume(&root).home[..], &volume(&root).members[..]), (&[4, 2, 3][..], &[1, 2, 3][..]));
        let places = root.places(Protocol::Chain, volume(&root));
        assert_eq!((&places.coming[..], &places.leaving[..]), (&[4][..], &[1][..]));
        assert_eq!(refusal(&mut root, replace(0, 2, 1)), STILL_CHANGING);
        let is_awaited = |root: &RootState| root.placement.seats.get(&VOLUME).and_then(|seats| seats.unsettled);
        let office = root.office;
        let change = |epoch, members: &[u32], joining| RootCommand::Reconfigure {
            group: VOLUME,
            epoch,
            members: members.to_vec(),
            joining,
            office,
        };
        root.execute(&change(0, &[1, 2, 3], Some(4)), 1);
        assert_eq!(is_awaited(&root), Some(4));
        root.execute(&change(1, &[1, 2, 3, 4], None), 1);
        assert!(root.placement.seats.is_empty(), "it has come");
        root.execute(&change(2, &[2, 3, 4], None), 1);
        assert!(root.places(Protocol::Chain, volume(&root)).are_taken());
        assert_eq!(place(&mut root, replace(3, 2, 1)), Outcome::Ok);
        assert_eq!(place(&mut root, replace(3, 1, 2)), Outcome::Ok, "back");
        assert!(root.placement.seats.is_empty() && root.places(Protocol::Chain, volume(&root)).are_taken());
        place(&mut root, replace(3, 2, 1));
        root.execute(&RootCommand::CreateNamespace { number: 1, settings: Settings::default(), members: vec![] }, 1);
        assert_eq!(
            root.execute(&RootCommand::Reconfigure { group: 9, epoch: 0, members: vec![1], joining: None, office }, 1),
            Outcome::Ok
        );
        assert_eq!(is_awaited(&root), Some(1), "another volume's members are no news");
    }

    #[test]
    fn a_member_of_registers_is_replaced_where_it_stands_and_by_the_quorums_that_there_are() {
        let mut root = root(Protocol::Register);
        let quorum = Quorum::Threshold { read: 3, write: 1 };
        assert_eq!(root.execute(&RootCommand::SetQuorum { number: 0, quorum }, 1), Outcome::Ok);
        assert_eq!(refusal(&mut root, replace(1, 2, 4)), STILL_CHANGING);
        root.execute(&RootCommand::RetireBefore { group: VOLUME, epoch: 1 }, 1);
        assert!(refusal(&mut root, replace(1, 4, 1)).contains("no replica on n4"));
        assert!(refusal(&mut root, replace(1, 1, 3)).contains("on n3 already"));
        assert_eq!(place(&mut root, replace(1, 2, 4)), Outcome::Ok);
        assert_eq!((&volume(&root).members[..], volume(&root).quorum()), (&[1, 4, 3][..], quorum));
        let places = root.places(Protocol::Register, volume(&root));
        assert_eq!((&places.coming[..], &places.leaving[..]), (&[4][..], &[2][..]));
        root.execute(&RootCommand::RetireBefore { group: VOLUME, epoch: 2 }, 1);
        assert!(root.places(Protocol::Register, volume(&root)).are_taken());
    }

    #[test]
    fn where_members_decide_they_are_asked() {
        let mut root = root(Protocol::Chain);
        let settings =
            Settings { protocol: Protocol::Register, volumes: 1, authority: Authority::Members, ..Settings::default() };
        root.execute(&RootCommand::CreateNamespace { number: 5, settings, members: vec![1, 2, 3] }, 1);
        let group = root.namespaces[&5].volumes[0].group;
        let line = refusal(&mut root, PlaceCommand::Replace { group, epoch: 0, from: 1, to: 4 });
        assert!(line.contains("QUORATE NAMESPACE MOVE 5"), "{line}");
    }

    #[test]
    fn a_node_is_drained_if_enough_others_are_left() {
        let mut root = root(Protocol::Chain);
        let drain = |node, is_draining| PlaceCommand::Drain { node, is_draining };
        assert!(refusal(&mut root, drain(9, true)).contains("number 9"));
        assert_eq!(place(&mut root, drain(1, true)), Outcome::Ok);
        let version = root.version;
        assert_eq!(place(&mut root, drain(1, true)), Outcome::Ok);
        assert_eq!(root.version, version, "it was said before");
        let line = refusal(&mut root, drain(2, true));
        assert!(line.contains("namespace 0") && line.contains("3 replicas") && line.contains("only 2 nodes"), "{line}");
        assert_eq!(place(&mut root, drain(1, false)), Outcome::Ok);
        assert_eq!(place(&mut root, drain(2, true)), Outcome::Ok);
        assert_eq!(root.placement.draining, [2]);
    }

    #[test]
    fn a_new_namespace_lies_on_nodes_that_stay_if_they_are_enough() {
        let mut root = root(Protocol::Chain);
        place(&mut root, PlaceCommand::Drain { node: 2, is_draining: true });
        let settings = Settings { volumes: 12, ..Settings::default() };
        let create = |number, settings| RootCommand::CreateNamespace { number, settings, members: Vec::new() };
        assert_eq!(root.execute(&create(1, settings), 1), Outcome::Ok);
        assert_eq!(root.execute(&create(2, Settings { replicas: 4, ..settings }), 1), Outcome::Ok);
        assert!(root.namespaces[&1].volumes.iter().all(|volume| !volume.members.contains(&2)));
        assert!(root.namespaces[&2].volumes.iter().all(|volume| volume.members.len() == 4));
    }
}
