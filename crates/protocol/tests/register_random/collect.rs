//! Tombstones are forgotten: what a parent does for that, or whoever sees to it where members decide.

use quorate_protocol::effect::Event;
use quorate_protocol::id::{Epoch, NodeId};
use quorate_protocol::register::{Register, Request};

use super::Run;
use super::harness::register::Node;

/// How far the parent has come.
#[derive(Clone, Copy, PartialEq)]
pub enum Collection {
    Begin,
    Bury,
    Drain,
    Fenced,
}

impl Run {
    /// What the parent does so that tombstones are forgotten: two changes, with a drain in between.
    pub fn collect(&mut self) {
        self.bring_back();
        let changing = self.world.parent.stages.len() == 2;
        match self.collection {
            Collection::Begin => {
                let members = &self.world.parent.stages[0].configuration.members;
                let collector = members[self.random.below(members.len() as u64) as usize];
                if changing || !self.world.is_up(collector) || !self.is_to_collect() {
                    return;
                }
                self.world.know(collector);
                self.ask_to_forget(collector);
                self.collection = Collection::Bury;
            }
            Collection::Bury if self.random.chance(10) => {
                self.decide_and_count();
                self.collection = Collection::Drain;
            }
            Collection::Drain | Collection::Fenced if changing => self.urge(),
            Collection::Drain if self.random.chance(30) => {
                self.decide_and_count();
                self.collection = Collection::Fenced;
            }
            Collection::Drain | Collection::Fenced => {
                let members = self.world.parent.stages[0].configuration.members.clone();
                for &node in members.iter() {
                    self.world.know(node);
                    self.drain_to_present(node);
                }
                if self.collection == Collection::Fenced && self.random.chance(10) {
                    self.collection = Collection::Begin;
                }
            }
            Collection::Bury => {}
        }
    }

    /// Collecting needs all members.
    fn bring_back(&mut self) {
        let node = self.any_node();
        if !self.world.is_up(node) && self.world.node(node).born.is_some() {
            self.world.restart(node);
        }
        if self.random.chance(10) {
            self.world.network.heal();
        }
    }

    fn is_to_collect(&self) -> bool {
        let is_worth_it = |node: &Node| node.replica.as_ref().is_some_and(|up| up.status().tombstone_count > 0);
        self.world.nodes.iter().any(is_worth_it)
    }

    pub fn ask_to_forget(&mut self, collector: NodeId) {
        self.collector = Some(collector);
        let token = self.world.next_token();
        self.world.step(collector, Event::Requested(Request::Forget { token, after: None }));
    }

    /// As [`Run::collect`], where another member is asked to have the epochs decided.
    pub fn collect_among_members(&mut self) {
        self.bring_back();
        if self.world.nodes.iter().all(|node| node.replica.is_none()) {
            return;
        }
        let (newest, is_settled) = self.newest();
        let (epoch, members) = (newest.epoch(), newest.configuration.members);
        if !is_settled {
            return;
        }
        let any = members[self.random.below(members.len() as u64) as usize];
        let collector = self.collector.unwrap_or(any);
        let awaited = self.world.node(collector).replica.as_ref().and_then(Register::awaits_fence);
        match (self.collection, awaited) {
            (Collection::Begin, _) if self.world.is_up(any) && self.is_to_collect() => {
                self.ask_to_forget(any);
                self.collection = Collection::Bury;
            }
            (Collection::Bury, Some(awaited)) if awaited == epoch && any != collector => {
                self.renew(any, epoch, Epoch(0));
            }
            (Collection::Bury, Some(awaited)) if awaited < epoch => {
                let late: Vec<NodeId> =
                    members.iter().copied().filter(|&node| !self.world.has_drained(node, epoch)).collect();
                if late.is_empty() && any != collector {
                    self.renew(any, epoch, epoch);
                }
                late.into_iter().for_each(|node| self.drain(node, epoch));
            }
            _ if self.random.chance(2) => self.collection = Collection::Begin,
            _ => {}
        }
    }

    fn renew(&mut self, node: NodeId, epoch: Epoch, fence: Epoch) {
        let token = self.world.next_token();
        self.world.step(node, Event::Requested(Request::Renew { token, epoch, fence }));
    }
}
