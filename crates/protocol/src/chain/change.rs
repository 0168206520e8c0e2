//! Adopting configurations: told by the parent, or by a member that has adopted. Neighbours that disagree converge,
//! whichever is ahead: an old message is answered with what is newer, a newer one with the wish to be told.

use alloc::sync::Arc;

use super::replica::{Extension, RETRY_US, refuse};
use super::{Body, Chain, Membership, Place, Position, Record};
use crate::effect::{Cx, Effects, Proposal, Refusal};
use crate::id::{Content, Epoch, Instant, NodeId, Slot, Value};
use crate::planted::{self, Planted};

impl Chain {
    /// The parent's word.
    pub(super) fn reconfigure(&mut self, cx: &mut Cx<'_>, membership: Arc<Membership>, out: &mut Effects<Chain>) {
        if membership.epoch > self.epoch() {
            self.adopt(cx, membership, out);
        }
    }

    pub(super) fn refuse_old(&mut self, cx: &Cx<'_>, from: NodeId, out: &mut Effects<Chain>) {
        // A predecessor learns at once what it is to send as well; but not by each of a hundred messages.
        if self.predecessor() == Some(from) && self.ask(cx, out) {
            return;
        }
        let membership = self.membership.clone();
        out.send_once_durable(from, self.message(Body::Newest { membership }));
    }

    /// First the configuration, then what was said at it.
    pub(super) fn handle_ahead(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        epoch: Epoch,
        body: Body,
        out: &mut Effects<Chain>,
    ) {
        match body {
            Body::Connect { membership, next_slot } if membership.epoch == epoch => {
                self.adopt(cx, membership, out);
                if self.successor() == Some(from) {
                    self.handle_connect(cx, from, next_slot, out);
                }
            }
            Body::Newest { membership } if membership.epoch == epoch => self.adopt(cx, membership, out),
            Body::Connect { .. } | Body::Newest { .. } => *cx.nonsense_count += 1,
            _ => out.send(from, self.message(Body::Behind)),
        }
    }

    fn adopt(&mut self, cx: &mut Cx<'_>, membership: Arc<Membership>, out: &mut Effects<Chain>) {
        if membership.members.is_empty() || membership.members.len() > super::MEMBERS_MAX {
            *cx.nonsense_count += 1;
            return;
        }
        if !planted::is(Planted::ChainAdoptedNotPersisted) {
            let since = match membership.place(self.me) {
                Place::Joining | Place::Outside => membership.epoch,
                Place::Member(_) => self.since,
            };
            out.persist(Record::Adopted { membership: membership.clone(), decided: self.history.decided(), since });
        }
        let was_head = self.is_head();
        if was_head && membership.place(self.me) == Place::Outside {
            self.refuse_in_flight(membership.head(), out);
        }
        self.change_to(membership);
        self.fresh = false;
        self.advance(out);
        self.floor = self.history.received();
        if !was_head {
            self.ordered_from = self.history.received();
        }
        self.retry_at = Some(cx.now.after_us(RETRY_US));
        self.keep(out);
        self.connect(cx, out);
        self.restart_reads(cx, out);
    }

    /// What follows from a configuration, also for a replica that is being restored.
    pub(super) fn change_to(&mut self, membership: Arc<Membership>) {
        let (was, place) = (self.place, membership.place(self.me));
        self.place = place;
        self.membership = membership;
        match place {
            // What it has may come from the predecessor or, if it has been away, from a past that nobody else had.
            Place::Joining | Place::Outside => {
                if !planted::is(Planted::ChainRejoinKeepsSuffix) {
                    self.history.truncate(self.history.decided(), self.time);
                    self.since = self.membership.epoch;
                }
                self.established = false;
            }
            // Whoever was before it is out of the way, and its lease over.
            Place::Member(0) => self.established = true,
            Place::Member(_) => {
                self.established &= matches!(was, Place::Member(_));
                self.established |= planted::is(Planted::ChainActivatesEarly);
            }
        }
        self.durable = self.history.next_slot();
        self.lease_until = Instant(0);
        self.extension = Extension::Copying;
        self.joiner_held = Slot(0);
        self.served = None;
        self.connected = self.predecessor().is_none();
        self.linked = false;
        self.asked = None;
        self.told = (Instant(0), self.history.decided());
        self.tell_at = None;
    }

    /// A head that is removed does not know what becomes of what it has ordered.
    fn refuse_in_flight(&mut self, head: NodeId, out: &mut Effects<Chain>) {
        let why = Refusal::Uncertain { coordinator: Some(head) };
        for (_, Value { content, .. }) in self.history.from(self.ordered_from) {
            let proposal = match content {
                Content::Mark => Proposal::Mark,
                Content::Commands(bytes) => Proposal::Commands(bytes.clone()),
                Content::Stop(bytes) => Proposal::Stop(bytes.clone()),
            };
            refuse(proposal, why, out);
        }
    }

    /// Records of configurations before this one may be gone from the log.
    pub(super) fn restore_adopted(&mut self, membership: Arc<Membership>, decided: Slot, since: Epoch) {
        if !planted::is(Planted::ChainRemovalForgetsDecided) {
            self.history.decide_below(decided);
        }
        if self.restored_at < since && !planted::is(Planted::ChainRejoinKeepsSuffix) {
            self.history.truncate(self.history.decided(), self.time);
        }
        if membership.epoch > self.epoch() {
            self.change_to(membership);
        }
        if !planted::is(Planted::ChainRejoinKeepsSuffix) {
            self.since = self.since.max(since);
        }
    }

    /// Only what a prefix of the log says is here, and only what is no remnant of a membership that has ended.
    pub(super) fn restore_update(&mut self, epoch: Epoch, slot: Slot, value: Value, frontier: Slot) {
        if epoch < self.since || slot < self.history.decided() || slot > self.history.received() || self.has_stop() {
            self.history.decide_below(frontier);
            return;
        }
        if slot < self.history.received() {
            self.history.truncate(slot, self.time);
        }
        if epoch == self.epoch() {
            // It came from the predecessor, which therefore knows this epoch.
            self.connected = true;
            self.established |= matches!(self.place, Place::Member(_));
        }
        self.history.push(value);
        self.restored_at = epoch;
        self.history.decide_below(frontier);
        self.durable = self.history.next_slot();
    }

    /// From the checkpoint store, or a snapshot that another sent.
    pub(super) fn restore_checkpoint(&mut self, position: Position) {
        if !self.running && position.membership.epoch >= self.epoch() {
            if position.membership.epoch > self.epoch() {
                self.change_to(position.membership);
            }
            self.since = position.since;
            self.established = position.established;
            self.connected &= self.established || self.predecessor().is_none();
            if position.joined {
                self.extension = Extension::Joined { durable: true };
            }
        }
        if position.next_slot < self.history.next_slot() {
            return;
        }
        self.time = self.time.max(position.time);
        self.stopped |= position.stopped;
        self.history.drop_below(position.next_slot, position.time);
        if self.stopped {
            self.history.truncate(position.next_slot, self.time);
        }
        self.durable = self.durable.max(position.next_slot);
        self.fresh = true;
        self.connected &= !self.running;
    }
}
