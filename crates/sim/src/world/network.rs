//! The network: frames are late, lost, doubled and overtaken, and some nodes cannot reach some others, or only later.

use crate::random::Random;

pub struct Network {
    nodes: usize,
    random: Random,
    /// `blocked[from * nodes + to]`: nothing gets through.
    blocked: Vec<bool>,
    /// `held_until_us[from * nodes + to]`: what is sent before arrives then, as if it had been sent again and again.
    held_until_us: Vec<u64>,
    /// Per mille.
    pub loss: u64,
    pub duplication: u64,
    pub delay_mean_us: u64,
    pub slow: u64,
    /// Of any weather.
    slow_min: u64,
    late_max_us: u64,
}

/// When the copies of a frame arrive.
pub type Arrivals = Vec<u64>;

impl Network {
    pub fn new(nodes: usize, slow_min: u64, late_max_us: u64, random: Random) -> Network {
        let mut network = Network {
            nodes,
            random,
            blocked: vec![false; nodes * nodes],
            held_until_us: vec![0; nodes * nodes],
            loss: 0,
            duplication: 0,
            delay_mean_us: 300,
            slow: 0,
            slow_min,
            late_max_us,
        };
        network.calm();
        network
    }

    /// Nothing is lost any more, and everybody reaches everybody.
    pub fn calm(&mut self) {
        self.blocked.fill(false);
        self.held_until_us.fill(0);
        (self.loss, self.duplication, self.slow) = (0, 0, 0);
    }

    /// Another kind of bad weather.
    pub fn change_weather(&mut self) {
        self.loss = *self.random.pick(&[0, 0, 5, 30]);
        self.duplication = *self.random.pick(&[0, 5, 30]);
        self.slow = *self.random.pick(&[0, 5, 20]).max(&self.slow_min);
        self.delay_mean_us = *self.random.pick(&[100, 300, 1000]);
    }

    pub fn unblock_all(&mut self) {
        self.blocked.fill(false);
    }

    /// Whether everything gets through by `now_us`, sooner or later.
    pub fn is_whole(&self, now_us: u64) -> bool {
        !self.blocked.contains(&true) && self.held_until_us.iter().all(|until| *until <= now_us)
    }

    pub fn block(&mut self, from: usize, to: usize) {
        self.blocked[from * self.nodes + to] = true;
    }

    pub fn hold_back(&mut self, from: usize, to: usize, until_us: u64) {
        self.held_until_us[from * self.nodes + to] = until_us;
    }

    /// Decides what becomes of a frame.
    pub fn send(&mut self, from: usize, to: usize, now_us: u64) -> Arrivals {
        let link = from * self.nodes + to;
        if self.blocked[link] || self.random.chance(self.loss) {
            return Vec::new();
        }
        let held_us = self.held_until_us[link].saturating_sub(now_us);
        let copies = if self.random.chance(self.duplication) { 2 } else { 1 };
        (0..copies)
            .map(|_| {
                let late = if self.random.chance(self.slow) { self.random.range(1_000..self.late_max_us) } else { 0 };
                50 + self.random.delay(self.delay_mean_us) + late + held_us
            })
            .collect()
    }
}
