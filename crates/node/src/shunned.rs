//! Nodes that no own group of a volume may name, since they are about to be removed.
//!
//! The root, which removes nodes, knows nothing of own groups. Whoever is asked to remove one has each volume say that no own group names
//! the node: that stays true from then on, until the volume is told that the node was not removed. See docs/decisions/0036.

use quorate_object::Outcome;
use quorate_protocol::Slot;

use crate::machine::Machine;
use crate::volume::Plan;

pub(crate) const SHUNNED: &str =
    "ERR a node of these MEMBERS is about to be removed from the cluster: name another one";

impl Machine {
    pub(crate) fn shun(&mut self, slot: Slot, node: u32) -> Outcome {
        self.keep_names();
        let children = self.children_mut();
        // Who is to take a seat is named by what is born meanwhile.
        let is_coming = children.held.as_ref().is_some_and(|held| held.joining == node);
        let count = children.count_on(node) + u64::from(is_coming);
        if count == 0 {
            children.shunned.insert(node, slot.0);
        }
        Outcome::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(crate) fn unshun(&mut self, node: u32, slot: u64) -> Outcome {
        let shunned = &mut self.children_mut().shunned;
        if shunned.get(&node) != Some(&slot) {
            return Outcome::Nil;
        }
        shunned.remove(&node);
        Outcome::Ok
    }

    pub(crate) fn shuns(&self, members: &[u32]) -> bool {
        let shunned = self.children().map(|children| &children.shunned).filter(|shunned| !shunned.is_empty());
        shunned.is_some_and(|shunned| members.iter().any(|member| shunned.contains_key(member)))
    }

    /// Whether an own group like this would name a node that is about to be removed.
    pub(crate) fn shuns_plan(&self, plan: &Plan) -> bool {
        self.shuns(if plan.protocol.is_led() { plan.led_members() } else { &plan.members })
    }
}
