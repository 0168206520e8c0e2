//! Who the root's members are, as nodes tell each other. The root decides it, and who does not know them cannot ask the root. See
//! docs/decisions/0042.
//!
//! What the root has decided of its own group is true whoever tells it, and of two words on it that of a later version is the newer one. So a
//! member goes by what its own replica has executed, and nodes whose messages about the root are of different epochs tell each other
//! what they know. Nothing comes to life by that: births are in the directory only.

use std::collections::BTreeMap;

use quorate_checkpoint::Batch;
use quorate_protocol::{Epoch, GroupId, Instant, NodeId};

use super::Host;
use super::checkpoints::Stored;
use crate::frame::Message;
use crate::machine::Content;
use crate::planted::{self, Planted};
use crate::root::{MEMBERS_MAX, ROOT, RootGroup};

/// The name of the node record that keeps it over a restart.
pub(super) const RECORD: &str = "root_group";
/// How often one node is told, at most.
const TOLD_AGAIN_US: u64 = 100_000;

#[derive(Default)]
pub(super) struct RootWord {
    /// The batch that has the latest word, until the store has it.
    storing: Option<u64>,
    told_at: BTreeMap<NodeId, Instant>,
}

impl RootWord {
    /// Whether a start would find the latest.
    pub(super) fn is_stored(&self) -> bool {
        self.storing.is_none()
    }

    pub(super) fn note_stored(&mut self, batch: u64) {
        self.storing.take_if(|number| *number <= batch);
    }
}

fn is_sound(told: &RootGroup) -> bool {
    let members = &told.record.members;
    // Who has heard of no root asks, and names nobody.
    if told.version > 0 && told.record.named().any(|named| told.nodes.iter().all(|node| node.id != named)) {
        return false;
    }
    let mut apart = members.clone();
    apart.sort_unstable();
    apart.dedup();
    told.record.group == ROOT.0 && (1..=MEMBERS_MAX).contains(&members.len()) && apart.len() == members.len()
}

impl Host {
    /// What a replica of the root here has executed, the directory comes to say.
    pub(super) fn follow_root(&mut self) {
        let Some(index) = self.find(ROOT) else { return };
        if let Content::Root(root) = self.groups[index as usize].machine.content()
            && root.version > self.directory.version()
        {
            let of_itself = root.root_group();
            self.hear_of_root_group(of_itself);
            self.ask_for_directory();
        }
    }

    /// The root, in some version, has said this of its own group.
    pub(super) fn hear_of_root_group(&mut self, told: RootGroup) {
        if self.directory.hear_of_root_group(told) {
            self.store_root_group();
            self.follow_nodes();
        }
    }

    /// A start is to find what is known of the root's own group by now: it is followed then.
    pub(super) fn store_root_group(&mut self) {
        let mut batch = Batch::new();
        batch.put_node_record(RECORD, self.directory.root_group().encode());
        self.store(batch, Stored::Directory { births: Vec::new(), dropped: Vec::new() });
        self.seats.root.storing = Some(self.storing.last_number());
    }

    pub(super) fn epoch_of_root(&self) -> Epoch {
        Epoch(self.directory.root_group().record.epoch)
    }

    /// Whether this node is a member, and has no replica: its directory was lost. Others may wait for what it said in the root before;
    /// without the root it does not come to know what it had.
    pub(super) fn has_lost_root(&self) -> bool {
        let RootGroup { version, record, .. } = self.directory.root_group();
        *version > 0 && record.members.contains(&self.settings.node.0) && self.find(ROOT).is_none()
    }

    /// A message of the root's group has come that is of this epoch: whoever of the two knows less is told.
    pub(super) fn compare_root_groups(&mut self, from: NodeId, group: GroupId, epoch: Epoch) {
        if group == ROOT && self.epoch_of_root() != epoch {
            self.tell_root_group(from);
        }
    }

    /// The root does not answer: perhaps it is elsewhere, and somebody knows.
    pub(super) fn ask_where_the_root_is(&mut self) {
        self.linked.clone().into_iter().for_each(|node| self.tell_root_group(node));
    }

    fn tell_root_group(&mut self, to: NodeId) {
        let now = self.clock.now();
        let is_time = self.seats.root.told_at.get(&to).is_none_or(|at| at.after_us(TOLD_AGAIN_US) <= now);
        if is_time && to != self.settings.node && !planted::is(Planted::RootNotTold) {
            self.seats.root.told_at.insert(to, now);
            let bytes = self.directory.root_group().encode();
            self.outbox.send(to, &Message::RootGroup(&bytes));
        }
    }

    pub(super) fn handle_root_group(&mut self, from: NodeId, bytes: &[u8]) {
        let Some(told) = RootGroup::decode(bytes).filter(is_sound) else {
            self.counters.nonsense += 1;
            return;
        };
        let known = self.directory.root_group();
        if told.version < known.version && !told.is_same(known) {
            return self.tell_root_group(from);
        }
        self.hear_of_root_group(told);
    }
}

#[cfg(test)]
mod tests;
