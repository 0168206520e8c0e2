//! Forwarding updates down the chain, acknowledgements up, and repairing what is missing between two neighbours.
//!
//! An update leaves for the successor once it is on the own disk. So what a member has is on the disks of all before it,
//! whatever crashes and comes back, and a member that lacks something finds it at its predecessor.

use alloc::vec::Vec;

use super::replica::{ACKNOWLEDGE_SLOTS, ACKNOWLEDGE_US, RETRY_US};
use super::{Body, Chain, Place, Record};
use crate::effect::{Cx, Effect, Effects};
use crate::id::{NodeId, Slot, Value};
use crate::planted::{self, Planted};

impl Chain {
    /// The next update of the history: on record, then on its way.
    pub(super) fn take(&mut self, value: Value, out: &mut Effects<Chain>) {
        let (epoch, slot, frontier) = (self.epoch(), self.history.received(), self.history.decided());
        self.history.push(value.clone());
        out.persist(Record::Update { epoch, slot, value: value.clone(), frontier });
        if let Some(successor) = self.successor().filter(|_| self.linked) {
            let message = self.message(Body::Forward { slot, frontier, value });
            match planted::is(Planted::ChainForwardsBeforeDurable) {
                true => out.send(successor, message),
                false => out.send_once_durable(successor, message),
            }
        }
    }

    /// Whoever decides, or is waited for, wants to know what it has on disk.
    pub(super) fn keep(&mut self, out: &mut Effects<Chain>) {
        if self.is_tail() || self.place == Place::Joining {
            let kept = self.message(Body::Kept { next_slot: self.history.received(), joined: false });
            match planted::is(Planted::ChainDecidesBeforeDurable) {
                true => out.send(self.me, kept),
                false => out.send_once_durable(self.me, kept),
            }
        }
    }

    pub(super) fn handle_forward(
        &mut self,
        cx: &mut Cx<'_>,
        slot: Slot,
        frontier: Slot,
        value: Value,
        out: &mut Effects<Chain>,
    ) {
        self.on_connected(cx, out);
        if slot > self.history.received() {
            self.ask(cx, out);
        } else if slot < self.history.received() {
            // Sent again, because what became of it is not known there.
            self.tell_progress(cx, out);
        } else if !self.has_stop() {
            self.receive_update(value, out);
            self.keep(out);
        }
        self.learn(cx, frontier, out);
    }

    pub(super) fn handle_suffix(
        &mut self,
        cx: &mut Cx<'_>,
        slots: Vec<(Slot, Value)>,
        frontier: Slot,
        out: &mut Effects<Chain>,
    ) {
        self.on_connected(cx, out);
        // News for who sent it, unless it only says that it is there.
        let wants_news = slots.is_empty() && (self.place == Place::Joining || frontier < self.history.decided());
        let received = self.history.received();
        for (slot, value) in slots {
            if slot > self.history.received() {
                self.ask(cx, out);
                break;
            }
            if slot == self.history.received() && !self.has_stop() {
                self.receive_update(value, out);
            }
        }
        if self.history.received() > received {
            self.keep(out);
        }
        self.learn(cx, frontier, out);
        if wants_news {
            self.tell_progress(cx, out);
        }
    }

    fn receive_update(&mut self, value: Value, out: &mut Effects<Chain>) {
        self.take(value, out);
        if planted::is(Planted::ChainAcknowledgementOvertakes)
            && let Some(predecessor) = self.predecessor().filter(|_| self.place != Place::Joining)
        {
            out.send(predecessor, self.message(Body::Acknowledge { frontier: self.history.received() }));
        }
        if self.has_stop() {
            self.stop_reads(out);
        }
    }

    /// The predecessor is at this epoch, and so no tail any more if it was one before.
    fn on_connected(&mut self, cx: &mut Cx<'_>, out: &mut Effects<Chain>) {
        self.connected = true;
        if !self.established && matches!(self.place, Place::Member(_)) {
            self.established = true;
            self.try_decide(cx, out);
        }
    }

    pub(super) fn handle_acknowledge(&mut self, cx: &mut Cx<'_>, frontier: Slot, out: &mut Effects<Chain>) {
        self.learn(cx, frontier, out);
    }

    /// Everything below `frontier` is decided; who is before hears of it too.
    pub(super) fn learn(&mut self, cx: &Cx<'_>, frontier: Slot, out: &mut Effects<Chain>) {
        if !self.history.decide_below(frontier) {
            return;
        }
        self.retry_at = Some(cx.now.after_us(RETRY_US));
        self.advance(out);
        self.tell_decided_soon(cx, out);
    }

    /// More is decided: the predecessor is told, at once if it was not told a moment ago.
    pub(super) fn tell_decided_soon(&mut self, cx: &Cx<'_>, out: &mut Effects<Chain>) {
        let (told_at, told) = self.told;
        let at = told_at.after_us(ACKNOWLEDGE_US);
        let is_urgent = self.stopped || self.history.decided().0 - told.0 >= ACKNOWLEDGE_SLOTS;
        if at <= cx.now || is_urgent {
            self.tell_decided(cx, out);
        } else if matches!(self.place, Place::Member(_)) && self.predecessor().is_some() {
            self.tell_at.get_or_insert(at);
        }
    }

    pub(super) fn tell_decided(&mut self, cx: &Cx<'_>, out: &mut Effects<Chain>) {
        self.tell_at = None;
        if let (Place::Member(_), Some(predecessor)) = (self.place, self.predecessor()) {
            let frontier = self.history.decided();
            self.told = (cx.now, frontier);
            out.send(predecessor, self.message(Body::Acknowledge { frontier }));
        }
    }

    fn tell_progress(&mut self, cx: &Cx<'_>, out: &mut Effects<Chain>) {
        match (self.place, self.predecessor()) {
            (Place::Joining, Some(tail)) => {
                out.send(tail, self.message(Body::Held { next_slot: self.durable }));
            }
            _ => self.tell_decided(cx, out),
        }
    }

    /// Something is missing. Once is enough until it should have come; true if this was the time.
    pub(super) fn ask(&mut self, cx: &Cx<'_>, out: &mut Effects<Chain>) -> bool {
        let received = self.history.received();
        let asked = self.asked.is_some_and(|(slot, at)| slot == received && cx.now < at.after_us(RETRY_US));
        if !asked {
            self.connect(cx, out);
        }
        !asked
    }

    pub(super) fn connect(&mut self, cx: &Cx<'_>, out: &mut Effects<Chain>) {
        let Some(predecessor) = self.predecessor() else {
            return;
        };
        let (membership, next_slot) = (self.membership.clone(), self.history.received());
        self.asked = Some((next_slot, cx.now));
        out.send_once_durable(predecessor, self.message(Body::Connect { membership, next_slot }));
    }

    /// Figure 3 of the paper, messages 2 to 4: the successor says what it has, and gets the suffix that it lacks.
    pub(super) fn handle_connect(&mut self, cx: &mut Cx<'_>, from: NodeId, next_slot: Slot, out: &mut Effects<Chain>) {
        if next_slot > self.history.received() {
            *cx.nonsense_count += 1;
        } else if self.membership.joining == Some(from) {
            self.linked = false;
            self.handle_held(cx, from, next_slot, out);
        } else if next_slot < self.history.next_slot() {
            out.list.push(Effect::CatchUp { peer: from, from: next_slot });
        } else {
            self.send_suffix(from, next_slot, out);
        }
    }

    pub(super) fn send_suffix(&mut self, to: NodeId, from: Slot, out: &mut Effects<Chain>) {
        self.linked = true;
        let missing = self.history.from(from).map(|(slot, value)| (slot, value.clone()));
        let slots: Vec<_> = missing.skip(usize::from(planted::is(Planted::ChainRepairTooShort))).collect();
        let frontier = self.history.decided();
        out.send_once_durable(to, self.message(Body::Suffix { slots, frontier }));
    }

    /// To the successor: the configuration, if it has not connected in this one; else the last update that is not known as
    /// decided, once more: its receiver asks for what it lacks, or tells what it knows.
    pub(super) fn prompt(&self, out: &mut Effects<Chain>) {
        let Some(successor) = self.successor() else {
            return;
        };
        if !self.linked {
            let membership = self.membership.clone();
            out.send_once_durable(successor, self.message(Body::Newest { membership }));
        } else if let Some((slot, value)) = self.history.last() {
            let (frontier, value) = (self.history.decided(), value.clone());
            out.send_once_durable(successor, self.message(Body::Forward { slot, frontier, value }));
        }
    }
}
