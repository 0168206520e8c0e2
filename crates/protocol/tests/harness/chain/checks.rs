//! What must hold of every run: one order; Update Propagation and In-process Requests (the paper's invariants); nothing
//! answered that is not on every member's disk; and a history of one counter that is linearizable.

use std::collections::BTreeMap;

use quorate_protocol::chain::Record;
use quorate_protocol::effect::{Proposal, Refusal};
use quorate_protocol::id::{Content, NodeId, Slot, Value};

use super::World;
use crate::harness::agreement::Agreement;

/// The object is a counter that every update increments, so an update is answered with its place and a read with the
/// number of updates that it has seen. Such a history is linearizable if and only if no answer is smaller than one that
/// was given before its question was asked.
#[derive(Default)]
pub struct Checks {
    pub agreement: Agreement,
    /// The largest answer given so far.
    answered: u64,
    /// By token and by command: the largest answer when it was asked.
    reads: BTreeMap<u64, u64>,
    updates: BTreeMap<Vec<u8>, u64>,
    pub reads_answered: usize,
    pub clean_reads_answered: usize,
    pub updates_answered: usize,
}

impl Checks {
    pub fn on_proposed(&mut self, proposal: &Proposal) {
        match proposal {
            Proposal::Read { token, .. } => drop(self.reads.insert(*token, self.answered)),
            Proposal::Commands(bytes) | Proposal::Stop(bytes) => {
                self.updates.insert(bytes.to_vec(), self.answered);
            }
            _ => {}
        }
    }

    pub fn on_read(&mut self, id: NodeId, token: u64, seen: u64) {
        let asked_at = self.reads.remove(&token).expect("asked for once");
        assert!(seen >= asked_at, "{id} answers read {token} with {seen}, after {asked_at} was answered");
        self.answered = self.answered.max(seen);
        self.reads_answered += 1;
    }

    pub fn on_clean_read(&mut self, id: NodeId, seen: u64) {
        assert!(seen >= self.answered, "{id} answers a clean read with {seen}, after {} was answered", self.answered);
        self.answered = seen;
        self.clean_reads_answered += 1;
    }

    fn on_answered(&mut self, id: NodeId, slot: Slot, value: &Value) {
        if let Content::Commands(bytes) | Content::Stop(bytes) = &value.content
            && let Some(asked_at) = self.updates.remove(&bytes[..])
        {
            assert!(slot.0 >= asked_at, "{id} answers {value:?} with {slot:?}, after {asked_at} was answered");
        }
        self.answered = self.answered.max(slot.0 + 1);
        self.updates_answered += 1;
    }

    pub fn on_refused(&mut self, proposal: Proposal, why: Refusal) {
        self.agreement.refuse(&proposal, why);
        if let Proposal::Read { token, .. } = proposal {
            self.reads.remove(&token).expect("asked for once");
        }
    }
}

pub fn on_decided(world: &mut World, id: NodeId, slot: Slot, value: Value) {
    let is_tail = world.replica(id).is_some_and(|replica| replica.is_tail());
    if is_tail {
        assert_on_every_disk(world, id, slot);
        world.checks.on_answered(id, slot, &value);
    }
    let executed = &mut world.nodes[id.0 as usize - 1].executed;
    world.checks.agreement.execute(id, executed, slot, value);
}

/// The first slot that is not on a node's disk, if it is up.
fn on_disk(world: &World, id: NodeId) -> Option<u64> {
    let node = world.node(id);
    let replica = node.replica.as_ref().filter(|_| node.up)?;
    let unsynced = node.unsynced.iter().filter(|record| matches!(record, Record::Update { .. })).count();
    Some(replica.received().0 - unsynced as u64)
}

fn assert_on_every_disk(world: &World, tail: NodeId, slot: Slot) {
    for &member in world.parent.membership.members.iter() {
        if let Some(below) = on_disk(world, member) {
            assert!(slot.0 < below, "{tail} answers {slot:?}, and {member} has only what is below {below} on disk");
        }
    }
}

/// For each two members that are up, in the order of the chain.
pub fn check_members(world: &World) {
    let members = world.parent.membership.members.iter();
    let up = members.filter_map(|&id| Some((id, world.replica(id).filter(|_| world.is_up(id))?)));
    let up: Vec<_> = up.collect();
    for (later, &(j, replica_j)) in up.iter().enumerate() {
        for &(i, replica_i) in &up[..later] {
            // What i knows as decided is no longer in its Sent: j has it.
            assert!(
                replica_i.next_slot() <= replica_j.received(),
                "in-process requests: {i} has decided to {:?}, {j} has {:?}",
                replica_i.next_slot(),
                replica_j.received()
            );
            assert!(
                replica_j.received() <= replica_i.received(),
                "update propagation: {j} has {:?}, {i} before it {:?}",
                replica_j.received(),
                replica_i.received()
            );
            for (slot, value) in replica_j.pending() {
                let before = match slot < replica_i.next_slot() {
                    true => world.checks.agreement.chosen.get(&slot),
                    false => replica_i.pending().find(|(other, _)| *other == slot).map(|(_, value)| value),
                };
                assert_eq!(before, Some(value), "update propagation: {slot:?} at {i} and {j}");
            }
        }
    }
}
