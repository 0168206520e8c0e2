//! How long lives end: all is healed, and the group comes to rest, or it is sealed and tells what it ends with.

use quorate_protocol::effect::Event;
use quorate_protocol::id::{NodeId, Stamp};
use quorate_protocol::register::{Register, Request, Stage};

use super::harness::Group;
use super::harness::linear::Outcome;
use super::harness::register::Node;
use super::{Life, PATIENCE_MS_MAX};

impl Life {
    /// Of members that know of all changes.
    pub fn ask_for_the_end(&mut self, node: NodeId) {
        self.world.know(node);
        let is_level = |replica: &Register| replica.stages() == &self.world.parent.stages[..];
        if !self.random.chance(20) || !self.world.node(node).replica.as_ref().is_some_and(is_level) {
            return;
        }
        let token = self.world.next_token();
        let request = match (self.world.is_sealed, self.world.final_next.clone()) {
            (false, _) => Request::Seal { token },
            (true, None) => Request::Final { token, after: None },
            (true, Some(Some(after))) => Request::Final { token, after: Some(after) },
            (true, Some(None)) => return,
        };
        self.world.step(node, Event::Requested(request));
    }

    /// Healed, the group comes to one configuration, of which each member writes and reads.
    pub fn come_to_rest(&mut self) {
        self.world.network.heal();
        self.world.network.release();
        self.world.synced_at_once = true;
        if let Some(ready) = self.world.parent.ready.take() {
            ready.into_iter().for_each(|epoch| self.world.retire(epoch));
        }
        for turn in 0..6_000_u32 {
            let stages = if self.own { self.newest_known() } else { self.world.parent.stages.clone() };
            if !self.own {
                self.bear_members();
            }
            for id in self.world.ids() {
                self.world.sync(id);
                if !self.world.is_up(id) && self.world.node(id).born.is_some() {
                    self.world.restart(id);
                }
            }
            let knows_two = |node: &&Node| node.replica.as_ref().is_some_and(|replica| replica.stages().len() == 2);
            let driver = match self.own {
                true => self.world.nodes.iter().find(knows_two).map(|node| node.id),
                false => stages[0].configuration.members.first().copied(),
            };
            if turn.is_multiple_of(400)
                && let Some(driver) = driver
                && stages.len() == 2
            {
                if !self.own {
                    self.world.know(driver);
                }
                let token = self.world.next_token();
                self.world.step(driver, Event::Requested(Request::Retire { token }));
            }
            if stages.len() == 1 && turn > 1_000 && self.are_level(&stages[0]) {
                self.read_all(&stages[0]);
                return self.assert_quiet(&stages[0]);
            }
            self.let_pass(turn);
        }
        panic!("no rest: {:?}", self.replicas().map(Register::stages).collect::<Vec<_>>());
    }

    /// Healed, the group tells what it ends with.
    pub fn come_to_an_end(&mut self) {
        self.world.network.heal();
        self.world.network.release();
        self.world.synced_at_once = true;
        if let Some(ready) = self.world.parent.ready.take() {
            ready.into_iter().for_each(|epoch| self.world.retire(epoch));
        }
        for turn in 0..6_000_u32 {
            let members = self.world.parent.stages[0].configuration.members.clone();
            if self.world.parent.stages.len() == 2 && turn.is_multiple_of(400) {
                self.world.know(members[0]);
                let token = self.world.next_token();
                self.world.step(members[0], Event::Requested(Request::Retire { token }));
            }
            self.ends |= self.world.parent.stages.len() == 1;
            if self.world.final_next == Some(None) && turn > 1_000 {
                // What was undecided is decided only then.
                self.world.assert_pages();
                return self.world.take_over_finals();
            }
            self.bear_members();
            for id in self.world.ids() {
                self.world.sync(id);
                self.bring_back(id);
            }
            let node = self.any_node();
            if self.ends && turn > 1_000 {
                self.ask_for_the_end(node);
                self.operate(node);
            }
            self.let_pass(turn);
            self.let_pass(turn);
        }
        panic!("not sealed, or its last word is not heard");
    }

    fn let_pass(&mut self, turn: u32) {
        self.world.now = self.world.now.after_us(2_000);
        if turn.is_multiple_of(50) {
            self.world.exchange_heartbeats();
        }
        self.world.ids().into_iter().for_each(|id| self.world.attend(id));
        for _ in 0..self.world.network.packets.len() {
            self.world.deliver_next();
        }
    }

    fn are_level(&mut self, stage: &Stage) -> bool {
        let members = stage.configuration.members.clone();
        // Of what was decided all nodes hear, where members decide by those who have heard of it.
        members.iter().for_each(|&node| self.world.know_of(node, vec![stage.clone()]));
        let knows = |replica: &Register| replica.stages() == std::slice::from_ref(stage);
        let is_level = |node: &NodeId| self.world.node(*node).replica.as_ref().is_none_or(knows);
        members.iter().all(is_level)
    }

    fn read_all(&mut self, stage: &Stage) {
        let deadline = Stamp(self.world.stamp().0 + 10_000);
        let keys: Vec<String> = self.calls.keys().cloned().collect();
        let mut tokens = Vec::new();
        let members = stage.configuration.members.iter().copied();
        for node in members.filter(|&node| self.world.is_up(node)).collect::<Vec<_>>() {
            for key in &keys {
                tokens.push(self.world.read(node, key, deadline));
            }
        }
        (0..500).for_each(|turn| self.let_pass(turn));
        for token in tokens {
            let call = &self.world.calls[&token];
            assert!(matches!(call.outcome, Outcome::Returned { .. }), "{call:?}");
        }
    }

    /// Once all have heard where the group stands, and every deadline has passed, nobody has anything in hand.
    fn assert_quiet(&mut self, stage: &Stage) {
        for id in self.world.ids() {
            self.world.know_of(id, vec![stage.clone()]);
        }
        for turn in 0..PATIENCE_MS_MAX / 100 {
            self.world.now = self.world.now.after_us(100_000);
            self.let_pass(turn as u32);
        }
        for replica in self.replicas() {
            let is_quiet = replica.is_idle() || replica.is_member() && replica.awaits_fence().is_some();
            assert!(is_quiet, "something is in hand: {:?}", replica.status());
        }
    }
}
