//! Where groups lie, as far as it has been changed since the cluster and its namespaces were made.

use std::collections::BTreeMap;

use quorate_object::Outcome;
use serde::{Deserialize, Serialize};

use super::{GroupRecord, NodeRecord, ReplaceAfter, RootState};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The root's first members, once nodes have come or gone; before that [`super::root_members`] of all nodes.
    pub root: Vec<u32>,
    /// The nodes that the cluster was made with, once nodes have come or gone; before that all nodes.
    pub founders: Vec<NodeRecord>,
    /// Of nodes that were added, the data directory that each has begun with.
    pub begun: BTreeMap<u32, u64>,
    /// Every number of a node that was ever given is below, once nodes have come or gone.
    pub node_next: u32,
    /// Nodes whose groups are to move to others.
    pub draining: Vec<u32>,
    /// Volumes are to move until every node has as many as any other.
    pub is_levelling: bool,
    /// By volume, of `paxos`: those of which a member was ever replaced, or is to be, as of the root; and chains of which one is being replaced.
    pub seats: BTreeMap<u64, Seats>,
    /// Nodes that have been away for too long, and are not back.
    pub absent: Vec<u32>,
    /// How long that is.
    pub replace_after: ReplaceAfter,
    /// The root's own group, once a member of it was to be replaced.
    pub root_record: Option<GroupRecord>,
}

/// Who sits where in a volume, or in the root itself. One member is replaced at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seats {
    /// In which epoch a member has entered, of those that were not there from birth.
    pub entered: BTreeMap<u32, u32>,
    /// The member in whose place the group's `joining` node comes, once it has a copy. Of the root none, if its seat is a new one.
    pub leaving: Option<u32>,
    /// The root's version with which that was decided: no two changes of a volume have the same.
    pub change: u64,
    /// Who has entered last and does not take part yet, as far as the root knows; of a chain, who was to come and is no member yet.
    pub unsettled: Option<u32>,
}

impl Placement {
    /// Whether a member of a volume, or of the root, is being replaced.
    pub(crate) fn is_moving(&self) -> bool {
        let is_joining = self.root_record.as_ref().is_some_and(|root| root.joining.is_some());
        is_joining || self.seats.values().any(|seats| seats.leaving.is_some() || seats.unsettled.is_some())
    }
}

/// A command on the root that changes which nodes there are, or where groups lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaceCommand {
    /// A node that was not there before; it begins with no groups. With the number 0 it is given the next one.
    AddNode { node: NodeRecord },
    /// A node that no group is on any more goes for good.
    /// Of volumes of `paxos` with group numbers below this, whoever asks knows that no own group names the node.
    RemoveNode { node: u32, asked_below: u64 },
    /// Whether a node's groups are to move to others.
    Drain { node: u32, is_draining: bool },
    /// Whether volumes are to move until every node has as many as any other.
    Level { is_levelling: bool },
    /// One node in place of another in a volume, or in the root, that stands at this epoch.
    Replace { group: u64, epoch: u32, from: u32, to: u32 },
    /// What was to replace a member of a volume of `paxos`, or of the root, does not any more.
    Keep { group: u64, epoch: u32 },
    /// Who is to replace a member of a volume of `paxos`, or of the root, has a copy, and enters.
    Enter { group: u64, change: u64 },
    /// Who has entered last takes part.
    Settle { group: u64, epoch: u32 },
    /// A node that was added is about to begin, with this data directory: it has said nothing, and no other one may.
    Begin { node: u32, directory: u64 },
    /// Whether a node has been away for too long, as whoever coordinates the root has seen it, or is back.
    Absent { node: u32, is_absent: bool },
    /// How long that is.
    ReplaceAfter { after: ReplaceAfter },
    /// A member more for the root, which stands at this epoch.
    WidenRoot { epoch: u32, to: u32 },
}

impl RootState {
    pub(super) fn execute_place(&mut self, command: &PlaceCommand) -> Outcome {
        match command {
            PlaceCommand::AddNode { node } => self.add_node(node),
            PlaceCommand::RemoveNode { node, asked_below } => self.remove_node(*node, *asked_below),
            PlaceCommand::Begin { node, directory } => self.begin_node(*node, *directory),
            PlaceCommand::Absent { node, is_absent } => self.set_absent(*node, *is_absent),
            PlaceCommand::ReplaceAfter { after } => self.set_replace_after(*after),
            PlaceCommand::Drain { node, is_draining } => self.drain(*node, *is_draining),
            PlaceCommand::Level { is_levelling } => self.level(*is_levelling),
            PlaceCommand::Replace { group, epoch, from, to } => self.replace(*group, *epoch, *from, *to),
            PlaceCommand::WidenRoot { epoch, to } => self.replace_in_root(*epoch, None, *to),
            PlaceCommand::Keep { group, epoch } => self.keep_seat(*group, *epoch),
            PlaceCommand::Enter { group, change } => self.enter_seat(*group, *change),
            PlaceCommand::Settle { group, epoch } => self.settle_seat(*group, *epoch),
        }
    }
}
