//! What happens to a cluster in a random run: packets that arrive or do not, time that passes, links that are cut.

use super::network::Roughness;
use super::{Cluster, Group, Random};

impl Cluster {
    pub fn deliver_some(&mut self, random: &mut Random, roughness: Roughness) {
        for _ in 0..1 + random.below(6) {
            if let Some(packet) = self.network.take_one(random, roughness) {
                self.deliver(packet);
            }
        }
    }

    /// Heartbeats get through in so many percent of the cases.
    pub fn pass_time(&mut self, random: &mut Random, heartbeats: u64) {
        let most_us = if random.chance(10) { 600_000 } else { 60_000 };
        let passed_us = random.below(most_us);
        self.now = self.now.after_us(passed_us);
        if random.chance(heartbeats) {
            self.exchange_heartbeats();
        }
        for node in self.ids() {
            if random.chance(70) {
                self.attend(node);
            }
        }
    }

    pub fn turn_links(&mut self, random: &mut Random) {
        let count = self.nodes.len() as u64;
        let [from, to] = [random.below(count), random.below(count)].map(|index| self.nodes[index as usize].id);
        match random.below(6) {
            0..=2 => self.network.heal(),
            3 => self.network.cut(from, to),
            4 => self.network.isolate(from),
            _ => self.cut_many(random),
        }
    }

    /// Some directions are dead.
    fn cut_many(&mut self, random: &mut Random) {
        let percent = 20 + random.below(40);
        for from in self.ids() {
            for to in self.ids() {
                if from != to && random.chance(percent) {
                    self.network.cut(from, to);
                }
            }
        }
    }

    /// Ten milliseconds in which nothing is lost.
    pub fn calm_turn(&mut self, turn: u64) {
        self.now = self.now.after_us(10_000);
        for node in self.ids() {
            self.sync(node);
            if turn.is_multiple_of(10) {
                self.heartbeat(node);
            }
            self.attend(node);
        }
        for _ in 0..self.network.packets.len() {
            self.deliver_next();
        }
    }
}
