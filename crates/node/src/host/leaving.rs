//! A node that can do nothing for others, now or soon: its log has no space, or it is being stopped. It says so, and is excused as soon as
//! most nodes are there that can (see [`quorate_protocol::peers`]): others coordinate in its place, and its chains go on without it.
//! A node that is being stopped waits for that. Whoever heard of its end only by its silence would wait for it first.

use quorate_protocol::NodeId;

use super::Host;
use crate::frame::Message;
use crate::replica::Protocol;

/// Until all others have excused it, and a chain has changed.
const CHANGE_BEATS: u64 = 3;

impl Host {
    /// Whether the log has no space, as the environment knows.
    pub fn set_out_of_space(&mut self, out_of_space: bool) {
        self.out_of_space = out_of_space;
        self.peers.set_unable(out_of_space || self.is_leaving);
    }

    /// The node is being stopped.
    pub fn leave(&mut self) {
        self.is_leaving = true;
        self.peers.set_unable(true);
        self.tell_unable();
    }

    /// Whether others are still to find out that they can go on without this node, which is being stopped.
    pub fn is_relied_on(&self) -> bool {
        let now = self.clock.now();
        let timing = self.peers.timing();
        // A chain goes on without it when its term has ended, which this node may hear of last.
        let until_chains_go_on_us = timing.lease_given_us + CHANGE_BEATS * timing.heartbeat_us;
        self.peers.most_are_able(now)
            && match self.peers.excused_for_us(now) {
                Some(excused_us) => excused_us < until_chains_go_on_us && self.is_in_chains(),
                None => true,
            }
    }

    fn is_in_chains(&self) -> bool {
        let me = self.settings.node.0;
        let executed = self.chains_as_executed();
        let mut chains = self.groups.iter().filter(|(_, group)| group.is_alive());
        chains.any(|(_, group)| {
            let is_chain = group.replica.protocol() == Protocol::Chain;
            let record = if is_chain { executed.find(group.id()) } else { None };
            record.is_some_and(|record| record.members.len() > 1 && record.members.contains(&me))
        })
    }

    /// With each heartbeat.
    pub(super) fn tell_unable(&mut self) {
        if self.out_of_space || self.is_leaving {
            let nodes: Vec<NodeId> = self.peers.nodes().collect();
            nodes.into_iter().for_each(|node| self.outbox.send(node, &Message::Unable));
        }
    }

    /// Whether another node has said so of itself, and others act in its place.
    pub fn is_excused(&self, node: NodeId) -> bool {
        self.peers.is_excused(node)
    }
}
