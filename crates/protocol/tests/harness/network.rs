//! What is on its way between nodes, until the test delivers it, and links that lose it.

use std::collections::{BTreeSet, VecDeque};

use quorate_protocol::id::NodeId;

use super::Random;
use super::golden::node;

#[derive(Clone, Debug)]
pub struct Packet<Load> {
    pub from: NodeId,
    pub to: NodeId,
    pub load: Load,
}

/// How rough a network is, in percent of what is delivered.
#[derive(Clone, Copy)]
pub struct Roughness {
    pub loss: u64,
    pub repetition: u64,
    pub reordering: u64,
    /// Packets that are put aside, to arrive much later; where there are any.
    pub lateness: Option<u64>,
}

pub struct Network<Load> {
    pub packets: VecDeque<Packet<Load>>,
    /// Put aside, to arrive late.
    late: Vec<Packet<Load>>,
    cut: BTreeSet<(NodeId, NodeId)>,
    isolated: BTreeSet<NodeId>,
}

impl<Load: Clone> Network<Load> {
    pub fn new() -> Network<Load> {
        Network { packets: VecDeque::new(), late: Vec::new(), cut: BTreeSet::new(), isolated: BTreeSet::new() }
    }

    pub fn post(&mut self, from: NodeId, to: NodeId, load: Load) {
        if self.connects(from, to) {
            self.packets.push_back(Packet { from, to, load });
        }
    }

    pub fn connects(&self, from: NodeId, to: NodeId) -> bool {
        !self.cut.contains(&(from, to)) && !self.isolated.contains(&from) && !self.isolated.contains(&to)
    }

    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cut.insert((from, to));
    }

    pub fn isolate(&mut self, id: NodeId) {
        self.isolated.insert(id);
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        self.isolated.clear();
    }

    /// Takes the packets of a link, `n1->n2`, out of the network; `*` is any node.
    pub fn take(&mut self, link: &str) -> Vec<Packet<Load>> {
        let (from, to) = link.split_once("->").expect("a link is n1->n2, * is any");
        let matches = |pattern: &str, id: NodeId| pattern == "*" || node(pattern) == id;
        let all = std::mem::take(&mut self.packets);
        let (taken, left): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|packet| matches(from, packet.from) && matches(to, packet.to));
        self.packets = left.into();
        taken
    }

    /// Takes the next packet, or a later one. Nothing if it is lost, or late, or there is none.
    pub fn take_one(&mut self, random: &mut Random, roughness: Roughness) -> Option<Packet<Load>> {
        let count = self.packets.len() as u64;
        if count == 0 {
            return None;
        }
        let index = if random.chance(roughness.reordering) { random.below(count) as usize } else { 0 };
        let packet = self.packets.remove(index).expect("below the length");
        if random.chance(roughness.loss) {
            return None;
        }
        if roughness.lateness.is_some_and(|lateness| random.chance(lateness)) {
            self.late.push(packet.clone());
            if random.chance(50) {
                return None;
            }
        }
        if random.chance(roughness.repetition) {
            self.packets.push_back(packet.clone());
        }
        Some(packet)
    }

    pub fn hold(&mut self, link: &str) {
        let packets = self.take(link);
        self.late.extend(packets);
    }

    /// What was put aside is on its way again.
    pub fn release(&mut self) {
        self.packets.extend(self.late.drain(..));
    }

    pub fn duplicate(&mut self, link: &str) {
        for packet in self.take(link) {
            self.packets.extend([packet.clone(), packet]);
        }
    }
}
