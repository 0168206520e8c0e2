//! Volumes of `paxos` whose members are replaced, one at a time, and the root, which decides that of itself. See docs/decisions/0033 and
//! 0042.
//!
//! Who is to come in copies the group first, as the record's `joining` node. Then it takes the seat, in the next epoch, and is taken in by
//! the others as a member that has forgotten what it said. Until it takes part nobody else is replaced: of two that know nothing each
//! would wait for the other.

use quorate_object::Outcome;
use quorate_protocol::NodeId;
use serde::{Deserialize, Serialize};

use super::own_seats::SURVIVES_ONE;
use super::{GroupRecord, HAS_CHANGED, NodeRecord, ROOT, Reads, RootState, Seats, error, no_such_node};
use crate::record::STILL_CHANGING;
use crate::replica::Protocol;

/// What the root says of its own group: nodes tell each other, since the root cannot be asked by who does not know where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RootGroup {
    /// Of the state that says so. Whatever stands in a later one is newer.
    pub(crate) version: u64,
    pub(crate) record: GroupRecord,
    pub(crate) seats: Seats,
    /// Those that the record names: whoever is told may know neither them nor where they are.
    pub(crate) nodes: Vec<NodeRecord>,
}

impl RootGroup {
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain data has an encoding")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<RootGroup> {
        postcard::from_bytes(bytes).ok()
    }

    /// Whether it says the same, in whichever version.
    pub(crate) fn is_same(&self, other: &RootGroup) -> bool {
        (&self.record, &self.seats) == (&other.record, &other.seats)
    }
}

impl Seats {
    /// Whether what this node's replica said in `epoch` is still the word of its seat: it has sat there ever since.
    pub(crate) fn is_word_of(&self, node: NodeId, epoch: u32) -> bool {
        self.entered.get(&node.0).is_none_or(|&entered| entered <= epoch)
    }

    fn is_empty(&self) -> bool {
        self.entered.is_empty() && self.leaving.is_none() && self.unsettled.is_none()
    }
}

/// Why a volume stays where it is.
const ALONE: &str =
    "a volume with one replica does not move: its members could not tell what it has decided without each other";
const ROUTED: &str = "volumes that are read through routers do not move";
const ROOT_ALONE: &str = "the root has one member, which stays: others come beside it once there are three nodes";
const ROOT_IS_NARROW: &str =
    "with fewer than three nodes the root would need all of them, for good: add one that neither drains nor is absent";
const ROOT_IS_WIDE: &str = "the root has five members, and gets no more";

/// The root gets no more members than this, however many nodes there are.
const ROOT_MEMBERS_MAX: usize = 5;

impl RootState {
    /// Who sits where in a volume of `paxos`, or in the root, if anybody was ever replaced there.
    pub(crate) fn seats(&self, group: u64) -> Option<&Seats> {
        self.placement.seats.get(&group)
    }

    pub(crate) fn root_group(&self) -> RootGroup {
        let (record, seats) = (self.root_record(), self.seats(ROOT.0).cloned().unwrap_or_default());
        let nodes = self.nodes.iter().filter(|node| record.names(node.id)).cloned().collect();
        RootGroup { version: self.version, record, seats, nodes }
    }

    /// `to` is to come in the place of one of the root's members, or beside them.
    pub(super) fn replace_in_root(&mut self, epoch: u32, from: Option<u32>, to: u32) -> Outcome {
        let record = self.root_record();
        if record.epoch != epoch {
            return Outcome::Error(HAS_CHANGED.into());
        }
        if from.is_none() && record.members.len() >= ROOT_MEMBERS_MAX {
            return error(ROOT_IS_WIDE);
        }
        // Two would need each other, for good.
        if from.is_none() && self.nodes_that_stay().count() < SURVIVES_ONE {
            return error(ROOT_IS_NARROW);
        }
        let is_new = self.placement.root_record.is_none();
        self.placement.root_record = Some(record);
        let outcome = self.replace_seat(ROOT.0, epoch, from, to);
        if is_new && outcome != Outcome::Ok {
            self.placement.root_record = None;
        }
        outcome
    }

    /// `to` is to come in the place of `from`, or beside all.
    pub(super) fn replace_seat(&mut self, group: u64, epoch: u32, from: Option<u32>, to: u32) -> Outcome {
        if !self.nodes.iter().any(|node| node.id == to) {
            return no_such_node(to);
        }
        let is_routed = |reads: Reads| reads == Reads::Routed;
        let routed =
            self.volumes().any(|(_, namespace, volume)| volume.group == group && is_routed(namespace.settings.reads));
        let Some(volume) = self.volume_mut(group).filter(|volume| volume.epoch == epoch) else { return Outcome::Nil };
        if routed {
            return error(ROUTED);
        }
        let (of_what, alone) = if group == ROOT.0 { ("the root", ROOT_ALONE) } else { ("the volume", ALONE) };
        if volume.members.len() < 2 && from.is_some() {
            return error(alone);
        }
        if volume.joining == Some(to) || volume.members.contains(&to) {
            return error(&format!("{} has a replica of {of_what}, or is to have one", self.name_of_node(to)));
        }
        if let Some(from) = from.filter(|from| !volume.members.contains(from)) {
            return error(&format!("{} has no replica of {of_what}", self.name_of_node(from)));
        }
        let unsettled = self.seats(group).and_then(|seats| seats.unsettled);
        let Some(volume) = self.volume_mut(group) else { return Outcome::Nil };
        if volume.joining.is_some() || unsettled.is_some() && unsettled != from {
            return Outcome::Error(STILL_CHANGING.into());
        }
        volume.joining = Some(to);
        self.version += 1;
        let change = self.version;
        let seats = self.placement.seats.entry(group).or_default();
        (seats.leaving, seats.change) = (from, change);
        Outcome::Ok
    }

    /// Nobody comes in after all.
    pub(super) fn keep_seat(&mut self, group: u64, epoch: u32) -> Outcome {
        let Some(volume) = self.volume_mut(group).filter(|volume| volume.epoch == epoch && volume.joining.is_some())
        else {
            return Outcome::Nil;
        };
        volume.joining = None;
        let seats = self.placement.seats.entry(group).or_default();
        seats.leaving = None;
        if seats.is_empty() {
            self.placement.seats.remove(&group);
        }
        self.version += 1;
        Outcome::Ok
    }

    /// The node that was to come in has a copy, and takes the seat.
    pub(super) fn enter_seat(&mut self, group: u64, change: u64) -> Outcome {
        let Some(seats) = self.seats(group).filter(|seats| seats.change == change) else { return Outcome::Nil };
        let leaving = seats.leaving;
        let Some(volume) = self.volume_mut(group) else { return Outcome::Nil };
        let Some(joining) = volume.joining else { return Outcome::Nil };
        match leaving {
            None => volume.members.push(joining),
            Some(leaving) => {
                let seat = volume.members.iter_mut().find(|member| **member == leaving);
                let Some(seat) = seat else { return Outcome::Nil };
                *seat = joining;
            }
        }
        volume.home = volume.members.clone();
        volume.epoch += 1;
        volume.joining = None;
        let entered = volume.epoch;
        let seats = self.placement.seats.entry(group).or_default();
        leaving.map(|leaving| seats.entered.remove(&leaving));
        seats.entered.insert(joining, entered);
        (seats.leaving, seats.unsettled) = (None, Some(joining));
        self.version += 1;
        Outcome::Ok
    }

    /// Who has entered in this epoch takes part.
    pub(super) fn settle_seat(&mut self, group: u64, epoch: u32) -> Outcome {
        let is_current = self.volume_mut(group).is_some_and(|volume| volume.epoch == epoch);
        let Some(seats) = self.placement.seats.get_mut(&group).filter(|_| is_current) else { return Outcome::Nil };
        if seats.unsettled.take().is_none() {
            return Outcome::Nil;
        }
        self.version += 1;
        Outcome::Ok
    }

    /// Of namespaces that are there; the others' seats are forgotten.
    pub(super) fn forget_seats(&mut self) {
        let there: std::collections::BTreeSet<u64> = self.volumes().map(|(.., volume)| volume.group).collect();
        self.placement.seats.retain(|group, _| *group == ROOT.0 || there.contains(group));
    }

    /// Of a volume of `paxos`, or of the root.
    fn volume_mut(&mut self, group: u64) -> Option<&mut GroupRecord> {
        if group == ROOT.0 {
            return self.placement.root_record.as_mut();
        }
        let of_paxos = self.namespaces.values_mut().filter(|namespace| namespace.settings.protocol == Protocol::Paxos);
        of_paxos.flat_map(|namespace| &mut namespace.volumes).find(|volume| volume.group == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{HAS_CHANGED, PlaceCommand, RootCommand, Settings};

    fn root() -> (RootState, u64) {
        let root = RootState::of_nodes(5, Settings::default());
        let volume = root.namespaces[&0].volumes[0].group;
        (root, volume)
    }

    fn execute(root: &mut RootState, command: PlaceCommand) -> Outcome {
        root.execute(&RootCommand::Place(command), 1)
    }

    fn record(root: &RootState, group: u64) -> (u32, Vec<u32>, Option<u32>) {
        let (.., volume) = root.volumes().find(|(.., volume)| volume.group == group).expect("it is there");
        assert_eq!(volume.home, volume.members, "what it is born with");
        (volume.epoch, volume.members.clone(), volume.joining)
    }

    #[test]
    fn a_seat_changes_hands_in_three_steps() {
        let (mut root, group) = root();
        assert_eq!(record(&root, group), (0, vec![1, 2, 3], None));
        let replace = |epoch, from, to| PlaceCommand::Replace { group, epoch, from, to };
        assert_eq!(execute(&mut root, replace(1, 2, 4)), Outcome::Error(HAS_CHANGED.into()), "another epoch");
        assert_eq!(execute(&mut root, replace(0, 2, 4)), Outcome::Ok);
        assert_eq!(record(&root, group), (0, vec![1, 2, 3], Some(4)));
        assert_eq!(execute(&mut root, replace(0, 1, 5)), Outcome::Error(STILL_CHANGING.into()));
        assert_eq!(execute(&mut root, PlaceCommand::Settle { group, epoch: 0 }), Outcome::Nil, "nobody has entered");
        let change = root.version;
        let enter = |change| PlaceCommand::Enter { group, change };
        assert_eq!(execute(&mut root, enter(change - 1)), Outcome::Nil, "another change");
        assert_eq!(execute(&mut root, enter(change)), Outcome::Ok);
        assert_eq!(execute(&mut root, enter(change)), Outcome::Nil, "once");
        assert_eq!(record(&root, group), (1, vec![1, 4, 3], None));
        assert_eq!(execute(&mut root, replace(1, 1, 5)), Outcome::Error(STILL_CHANGING.into()), "4 knows nothing yet");
        assert_eq!(execute(&mut root, PlaceCommand::Settle { group, epoch: 1 }), Outcome::Ok);
        assert_eq!(execute(&mut root, replace(1, 1, 5)), Outcome::Ok);
        assert_eq!(execute(&mut root, PlaceCommand::Keep { group, epoch: 1 }), Outcome::Ok);
        assert_eq!(record(&root, group), (1, vec![1, 4, 3], None));
        let seats = root.seats(group).expect("somebody was replaced");
        let is_word = |node, epoch| seats.is_word_of(NodeId(node), epoch);
        assert_eq!([is_word(1, 0), is_word(4, 0), is_word(4, 1), is_word(3, 0)], [true, false, true, true]);
        assert_eq!(RootState::decode(&root.encode()), Some(root));
    }

    #[test]
    fn who_has_entered_and_does_not_take_part_is_replaced_itself() {
        let (mut root, group) = root();
        let replace = |epoch, from, to| PlaceCommand::Replace { group, epoch, from, to };
        execute(&mut root, replace(0, 2, 4));
        let change = root.version;
        execute(&mut root, PlaceCommand::Enter { group, change });
        assert_eq!(execute(&mut root, replace(1, 4, 2)), Outcome::Ok);
        let change = root.version;
        assert_eq!(execute(&mut root, PlaceCommand::Enter { group, change }), Outcome::Ok);
        assert_eq!(record(&root, group), (2, vec![1, 2, 3], None));
        let seats = root.seats(group).expect("somebody was replaced");
        assert!(!seats.is_word_of(NodeId(2), 0), "it was away in between");
        assert_eq!(execute(&mut root, PlaceCommand::Settle { group, epoch: 1 }), Outcome::Nil, "that one is out");
        assert_eq!(seats_unsettled(&root, group), Some(2));
    }

    fn seats_unsettled(root: &RootState, group: u64) -> Option<u32> {
        root.seats(group).and_then(|seats| seats.unsettled)
    }

    #[test]
    fn what_cannot_be_replaced_is_refused() {
        let (mut root, group) = root();
        let replace = |from, to| PlaceCommand::Replace { group, epoch: 0, from, to };
        for (from, to) in [(4, 5), (1, 2), (1, 9)] {
            assert!(matches!(execute(&mut root, replace(from, to)), Outcome::Error(_)), "{from} {to}");
        }
        let of = |number, settings| RootCommand::CreateNamespace { number, settings, members: Vec::new() };
        let alone = Settings { replicas: 1, volumes: 1, ..Settings::default() };
        let routed = Settings { reads: Reads::Routed, volumes: 1, ..Settings::default() };
        for (number, settings, why) in [(1, alone, ALONE), (2, routed, ROUTED)] {
            assert_eq!(root.execute(&of(number, settings), 1), Outcome::Ok);
            let volume = &root.namespaces[&number].volumes[0];
            let from = volume.members[0];
            let replace = PlaceCommand::Replace { group: volume.group, epoch: 0, from, to: 5 };
            assert_eq!(execute(&mut root, replace), error(why));
        }
        execute(&mut root, PlaceCommand::Replace { group, epoch: 0, from: 1, to: 4 });
        assert_eq!(root.placement.seats.len(), 1);
        execute(&mut root, PlaceCommand::Keep { group, epoch: 0 });
        assert!(root.placement.seats.is_empty(), "nothing has been replaced");
    }
}
