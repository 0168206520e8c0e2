//! Agreement: no two replicas of a group execute different values in one slot, and none executes a slot twice in one
//! start of its node, nor leaves one out.

use std::collections::BTreeMap;

use quorate_node::Host;
use quorate_protocol::{GroupId, NodeId, Slot};

#[derive(Default)]
pub struct Agreement {
    decided: BTreeMap<(GroupId, Slot), (u64, NodeId)>,
}

impl Agreement {
    /// Looks at what a node executed since it was last looked at.
    pub fn observe(&mut self, node: NodeId, host: &mut Host) {
        for (group, slot, value) in host.take_executed() {
            let (first, by) = *self.decided.entry((group, slot)).or_insert((value, node));
            assert!(first == value, "agreement: {by} and {node} executed different values in {group:?} {slot:?}");
        }
    }

    pub fn slot_count(&self) -> usize {
        self.decided.len()
    }
}
