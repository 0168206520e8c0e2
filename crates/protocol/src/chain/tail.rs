//! The tail: decides what it has on disk, and extends the chain while it serves.
//!
//! A joining node gets decided updates from the tail's log, or a snapshot. Once it lacks only a few, the tail decides
//! nothing more until it has them, and from then on nothing without it: only then may the parent make it a member. So
//! each member that the parent knows holds everything that was ever answered.

use super::replica::{Extension, RETRY_US};
use super::{Body, CLOSE_SLOTS, Chain, Place, Record};
use crate::effect::{Cx, Effect, Effects};
use crate::id::{NodeId, Slot};
use crate::planted::{self, Planted};

impl Chain {
    pub(super) fn handle_kept(&mut self, cx: &mut Cx<'_>, next_slot: Slot, joined: bool, out: &mut Effects<Chain>) {
        self.durable = self.durable.max(next_slot.min(self.history.received()));
        if joined && self.membership.joining.is_some() {
            self.extension = Extension::Joined { durable: true };
        }
        if let (Place::Joining, Some(tail)) = (self.place, self.predecessor()) {
            out.send(tail, self.message(Body::Held { next_slot: self.durable }));
        }
        self.try_decide(cx, out);
    }

    pub(super) fn try_decide(&mut self, cx: &mut Cx<'_>, out: &mut Effects<Chain>) {
        if !self.is_tail() || !self.established {
            return;
        }
        let is_alone = self.membership.joining.is_none() || self.extension == Extension::Copying;
        let frontier = if is_alone { self.durable } else { self.durable.min(self.joiner_held) };
        if self.history.decide_below(frontier) {
            self.retry_at = Some(cx.now.after_us(RETRY_US));
            self.advance(out);
            self.tell_decided_soon(cx, out);
        }
        // What it took over from a tail before it may have been answered, too.
        let floor = if planted::is(Planted::ChainJoinedBelowFloor) { Slot(0) } else { self.floor };
        let answered = self.history.decided().max(floor);
        if self.extension == Extension::Closing && self.joiner_held >= answered {
            self.extension = Extension::Joined { durable: false };
            let (membership, decided, since) = (self.membership.clone(), self.history.decided(), self.since);
            out.persist(Record::Joined { membership, decided, since });
            let kept = Body::Kept { next_slot: self.history.received(), joined: true };
            out.send_once_durable(self.me, self.message(kept));
        }
        self.release_reads(cx, out);
    }

    /// What the joining node has on its disk.
    pub(super) fn handle_held(&mut self, cx: &mut Cx<'_>, from: NodeId, next_slot: Slot, out: &mut Effects<Chain>) {
        if next_slot > self.history.received() {
            *cx.nonsense_count += 1;
            return;
        }
        self.joiner_held = self.joiner_held.max(next_slot);
        if !self.linked {
            self.serve_joining(cx, from, next_slot, out);
        }
        self.try_decide(cx, out);
    }

    fn serve_joining(&mut self, cx: &Cx<'_>, joining: NodeId, next_slot: Slot, out: &mut Effects<Chain>) {
        let lacks = self.history.next_slot().0.saturating_sub(next_slot.0);
        let holds_little = lacks <= CLOSE_SLOTS || planted::is(Planted::ChainJoinedTooEarly);
        if self.extension == Extension::Copying && holds_little {
            self.extension = match planted::is(Planted::ChainJoinedTooEarly) {
                true => Extension::Joined { durable: true },
                false => Extension::Closing,
            };
        }
        if lacks == 0 {
            return self.send_suffix(joining, next_slot, out);
        }
        // It says several times where it is; once is enough until it should be elsewhere.
        let is_served = self.served.is_some_and(|(slot, at)| slot == next_slot && cx.now < at.after_us(RETRY_US));
        if !is_served {
            self.served = Some((next_slot, cx.now));
            out.list.push(Effect::CatchUp { peer: joining, from: next_slot });
        }
    }
}
