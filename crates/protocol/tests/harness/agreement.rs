//! What must hold wherever values are executed in an order: all execute the same, and nothing that was refused.

use std::collections::{BTreeMap, BTreeSet};

use quorate_protocol::effect::{Proposal, Refusal};
use quorate_protocol::id::{Content, NodeId, Slot, Value};

#[derive(Default)]
pub struct Agreement {
    pub chosen: BTreeMap<Slot, Value>,
    /// Commands of which somebody was told that they are not executed.
    refused: BTreeSet<Vec<u8>>,
}

impl Agreement {
    /// One value a slot, in order, each once, and none after a stop.
    pub fn execute(&mut self, id: NodeId, executed: &mut Vec<Value>, slot: Slot, value: Value) {
        assert_eq!(slot.0, executed.len() as u64, "{id} executes out of order");
        let chosen = self.chosen.entry(slot).or_insert_with(|| value.clone());
        assert_eq!(*chosen, value, "{id} executes {value:?} in {slot:?}, where {chosen:?} was executed");
        if let Content::Commands(bytes) | Content::Stop(bytes) = &value.content {
            assert!(!self.refused.contains(&bytes[..]), "{value:?} was refused and is executed");
        }
        let is_stop = |value: &Value| matches!(value.content, Content::Stop(_));
        assert!(!executed.iter().any(is_stop), "{id} executes {value:?} after a stop");
        executed.push(value);
    }

    pub fn refuse(&mut self, proposal: &Proposal, why: Refusal) {
        let (Proposal::Commands(bytes) | Proposal::Stop(bytes)) = proposal else { return };
        if !matches!(why, Refusal::Uncertain { .. }) {
            let executed = self.chosen.values().any(|value| match &value.content {
                Content::Commands(chosen) | Content::Stop(chosen) => chosen == bytes,
                Content::Mark => false,
            });
            assert!(!executed, "{bytes:?} is refused as {why:?} and was executed");
            self.refused.insert(bytes.to_vec());
        }
    }
}
