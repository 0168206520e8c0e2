//! What can be done with a group of any protocol.

use std::fmt::Write;

use quorate_protocol::id::{Instant, NodeId};

use super::network::{Network, Packet};

pub trait Group {
    type Load: Clone;

    fn ids(&self) -> Vec<NodeId>;
    fn now(&mut self) -> &mut Instant;
    fn network(&mut self) -> &mut Network<Self::Load>;
    fn trace(&mut self) -> &mut Option<String>;

    /// What is appended is on disk, and what waited for that goes out.
    fn sync(&mut self, id: NodeId);
    fn deliver(&mut self, packet: Packet<Self::Load>);
    /// The turn of whatever notices at one node that time has passed.
    fn attend(&mut self, id: NodeId);
    /// Every connected pair exchanges a heartbeat and its answer at once. A chain has none: its parent grants leases.
    fn exchange_heartbeats(&mut self) {}

    fn say(&mut self, line: &str) {
        if let Some(trace) = self.trace() {
            writeln!(trace, "{line}").expect("strings take everything");
        }
    }

    /// False if nothing is on its way.
    fn deliver_next(&mut self) -> bool {
        let packet = self.network().packets.pop_front();
        packet.map(|packet| self.deliver(packet)).is_some()
    }

    /// Syncs and delivers until all is quiet.
    fn run(&mut self) {
        loop {
            self.ids().into_iter().for_each(|id| self.sync(id));
            if !self.deliver_next() {
                return;
            }
        }
    }
}
