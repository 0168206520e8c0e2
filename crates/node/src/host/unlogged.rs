//! What groups of `DURABILITY memory` have decided lately. No log has it, and without it a member that has missed one message
//! would be sent a copy of the whole group.

use quorate_protocol::id::Content;
use quorate_protocol::{Epoch, GroupId, Instant, Slot, Value};

use super::Host;
use crate::recent::Recent;
use crate::root::Durability;

/// A member that lacks something asks for it much sooner, unless it was away.
const LASTS_US: u64 = 10_000_000;
const BYTES_MAX: usize = 16 << 20;
/// Of a value, before what it says.
const HEADER_BYTES: usize = 32;

pub(super) struct Unlogged(Recent<(GroupId, Epoch, Slot), Value>);

impl Default for Unlogged {
    fn default() -> Self {
        Unlogged(Recent::new(LASTS_US, BYTES_MAX))
    }
}

impl Unlogged {
    /// Of an epoch: what comes after a loss may decide the same slots again.
    pub(super) fn find(&self, group: GroupId, epoch: Epoch, slot: Slot) -> Option<(&Value, usize)> {
        self.0.get(&(group, epoch, slot)).map(|value| (value, length(value)))
    }

    pub(super) fn drop_old(&mut self, now: Instant) {
        self.0.drop_old(now);
    }
}

/// In a message, roughly.
fn length(value: &Value) -> usize {
    let content = match &value.content {
        Content::Mark => 0,
        Content::Commands(bytes) | Content::Stop(bytes) => bytes.len(),
    };
    HEADER_BYTES + content
}

impl Host {
    /// A slot is executed here.
    pub(super) fn keep_unlogged(&mut self, index: u32, slot: Slot, value: &Value) {
        let group = &self.groups[index as usize];
        if group.durability == Durability::Memory && self.peers.nodes().next().is_some() {
            let key = (group.id(), group.configuration.epoch, slot);
            self.unlogged.0.insert(key, value.clone(), length(value), self.clock.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use quorate_protocol::{NodeId, paxos};

    use super::*;
    use crate::frame::Message;
    use crate::host::three_nodes::{Cluster, Fate, arrives};
    use crate::replica::AnyMessage;

    fn cluster() -> Cluster {
        Cluster::new(|settings| settings.defaults.durability = Durability::Memory)
    }

    fn copies(cluster: &Cluster) -> u64 {
        cluster.nodes.iter().map(|node| node.host.counters().snapshots_sent).sum()
    }

    #[test]
    fn a_member_that_missed_a_slot_of_a_volume_that_is_not_logged_is_told_of_that_one() {
        let mut cluster = cluster();
        let lost = Cell::new(0);
        let first = cluster.write(1, b"one");
        cluster.pass(50, |from, to, message| match message {
            Message::Replica { message: AnyMessage::Paxos(paxos::Message::Accept { .. }), .. }
                if (from, to) == (NodeId(1), NodeId(3)) && lost.replace(lost.get() + 1) == 0 =>
            {
                Fate::IsLost
            }
            _ => Fate::Arrives,
        });
        assert!(lost.get() > 0 && cluster.is_done(1, first));
        let second = cluster.write(1, b"two");
        cluster.pass(1_000, arrives);
        assert!(cluster.is_done(1, second));
        cluster.assert_executed(&[1, 2, 3], 2);
        assert_eq!(copies(&cluster), 0);
    }

    #[test]
    fn a_member_that_was_away_for_long_is_sent_a_copy() {
        let mut cluster = cluster();
        cluster.node(3).is_down = true;
        let first = cluster.write(1, b"one");
        cluster.pass(LASTS_US / 1_000 + 1_000, arrives);
        assert!(cluster.is_done(1, first));
        cluster.node(3).is_down = false;
        let second = cluster.write(1, b"two");
        cluster.pass(3_000, arrives);
        assert!(cluster.is_done(1, second));
        assert_eq!(copies(&cluster), 1);
    }
}
