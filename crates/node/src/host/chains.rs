//! Chains as their parents and their members see them: who is in the chain, and until when a member may answer by itself.
//!
//! The parent of a chain, the root for a volume and the volume for an own group, holds its configuration and changes it when a member is suspected. Nobody
//! may learn of a chain without a member before that member has stopped answering reads. So members answer only within a
//! *term*: whoever coordinates the parent gives it to a node, for no longer than its own lease, and with it confirms epochs
//! of chains that the node is in. It proposes to leave a node out only when no term binds under which it has confirmed that.
//! Terms are numbered like leases between nodes: with a new number, what was confirmed before counts no more. See
//! docs/decisions/0020.

mod office;
mod replaced;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use quorate_protocol::chain::{Chain, Membership, Place, Request};
use quorate_protocol::effect::ReadMode;
use quorate_protocol::{Ballot, Epoch, Event, GroupId, Instant, NodeId, Proposal, Slot, Stamp};

use self::office::Taking;
use super::Host;
use super::dispatch::INTERNAL;
use super::led::{own_groups_of, parent_of};
use crate::frame::Message;
use crate::hash::FixedState;
use crate::office::Office;
use crate::planted::{self, Planted};
use crate::record::GroupRecord;
use crate::replica::{AnyRequest, Protocol};
use crate::root::{ROOT, RootCommand};
use crate::volume::{VolumeCommand, volume_of};

/// Numbers of proposed configurations: no operation waits under them.
const PROPOSAL: u64 = INTERNAL | 1 << 62;
/// No read has this token: it asks for the lease only.
const NOBODY: u64 = u64::MAX;
/// A node comes back to a chain after so long without suspicion.
pub(super) const STEADY_US: u64 = 1_000_000;
/// Who has no replica, or a silent one, is not asked to join for so long: while it joins, reads may wait for it.
const ABSENT_US: u64 = 3_000_000;
/// When coordination of a parent is to be given away, no term is given for so long.
const LEAVING_US: u64 = 1_500_000;
/// Configurations proposed in one turn.
const PER_TURN: usize = 256;
/// Of so many own chains what their volumes say is looked at with each heartbeat, besides those that something is known of.
const SEEN_PER_BEAT: usize = 1_024;
/// Whoever is moved behind the tail leaves one that is replicated still.
const TURNED_MEMBERS_MIN: usize = 3;
/// A chain that is not whole again so long after its head was moved does not keep others from their turn.
const TURN_US: u64 = 10_000_000;

#[derive(Default)]
pub(super) struct Terms {
    /// From coordinators of parents, to this node.
    held: HashMap<GroupId, Held, FixedState>,
    /// By this node, where it coordinates parents.
    given: HashMap<(GroupId, NodeId), Given, FixedState>,
    /// Parents that this node coordinates.
    coordinated: BTreeMap<GroupId, Coordinated>,
    /// Chains of which another configuration is proposed, and the epoch that it ends.
    changing: BTreeMap<GroupId, Changing>,
    /// Members that have no replica, or a silent one, as they have said: until they are left out.
    absent: BTreeSet<(GroupId, NodeId)>,
    /// Nodes that have asked for a term of the root's since they were last linked: each says with that which chains it is absent of.
    have_spoken: BTreeSet<NodeId>,
    /// Chains whose joining node holds everything, as their tails have said.
    extended: BTreeMap<GroupId, Epoch>,
    /// When those who said so may join again, at the earliest.
    not_before: BTreeMap<(GroupId, NodeId), Instant>,
    proposal_count: u64,
    /// By parent, the chain whose order is mended.
    turning: BTreeMap<GroupId, Turning>,
    /// Members in whose place others have come, and the epoch that they are to leave their chain in.
    going: BTreeMap<GroupId, (Epoch, NodeId)>,
    /// Own chains that are looked at with this heartbeat, and the last of those that were looked at in turn.
    due: BTreeSet<GroupId>,
    seen_up_to: GroupId,
    /// Those that are looked at with the next one, since something is known of them.
    due_next: BTreeSet<GroupId>,
    /// Parents whose coordination is to be given away.
    leaving: BTreeMap<GroupId, Instant>,
}

struct Held {
    giver: NodeId,
    number: u64,
    asked_at: Instant,
    until: Instant,
    confirmed: BTreeMap<GroupId, Epoch>,
}

#[derive(Default)]
struct Given {
    number: u64,
    until: Instant,
    confirmed: BTreeMap<GroupId, Epoch>,
    /// Chains of which nothing more is confirmed, and when the last that was confirmed ends.
    ending: BTreeMap<GroupId, Instant>,
}

/// A member of a chain that is on its way behind the tail.
struct Turning {
    group: GroupId,
    /// Of the chain that it is still in its old place of.
    epoch: Epoch,
    member: NodeId,
    since: Instant,
}

struct Changing {
    epoch: Epoch,
    number: u64,
    /// Of the command, in group time.
    deadline: Stamp,
    /// Once that has passed: a slot that was proposed in time, and keeps the stamp that it was given, lies below.
    last_slots: Option<Slot>,
}

impl Changing {
    /// Whether it may still be executed in the parent, which has come to this slot and has so many in flight.
    fn is_open(&mut self, stamp: Stamp, next_slot: Slot, in_flight: u64) -> bool {
        if stamp <= self.deadline {
            return true;
        }
        next_slot < *self.last_slots.get_or_insert(Slot(next_slot.0 + in_flight))
    }
}

/// A parent that this node coordinates.
struct Coordinated {
    ballot: Ballot,
    since: Instant,
    taking: Option<Taking>,
}

/// What a coordinator of a parent answers.
pub(super) struct TermAnswer {
    pub parent: GroupId,
    pub asked_at: Instant,
    pub number: u64,
    pub left_us: u64,
    pub confirmed: Vec<(GroupId, Epoch)>,
}

impl Terms {
    /// A proposal of this number was not taken, or is executed. Or it was in flight and has lost its coordinator: if the next one
    /// has found it, it is executed before that one has a lease, and so before it gives any term; if not, it is void once that one
    /// has taken office.
    pub(super) fn settle(&mut self, number: u64) {
        self.changing.retain(|_, changing| changing.number != number);
        for coordinated in self.coordinated.values_mut() {
            coordinated.taking.take_if(|taking| taking.number == number);
        }
    }

    fn binds(&self, parent: GroupId, now: Instant) -> bool {
        self.given.iter().any(|((of, _), given)| *of == parent && now < given.until)
    }

    /// Whether a node may still be answering reads of a chain.
    fn binds_to(&self, parent: GroupId, node: NodeId, group: GroupId, now: Instant) -> bool {
        let given = self.given.get(&(parent, node)).filter(|given| now < given.until);
        let is_turned =
            self.turning.get(&parent).is_some_and(|turning| (turning.group, turning.member) == (group, node));
        let is_replaced = self.going.get(&group).is_some_and(|(_, leaving)| *leaving == node);
        if (is_turned || is_replaced) && planted::is(Planted::TurnedWhileBound) {
            return false;
        }
        given.is_some_and(|given| {
            given.confirmed.contains_key(&group) || given.ending.get(&group).is_some_and(|until| now < *until)
        })
    }

    fn note_coordinated(&mut self, parent: GroupId, ballot: Option<Ballot>, now: Instant) {
        match ballot {
            Some(ballot) if self.coordinated.get(&parent).is_some_and(|known| known.ballot == ballot) => {}
            Some(ballot) => {
                self.absent.retain(|(group, _)| parent_of(*group) != parent);
                self.coordinated.insert(parent, Coordinated { ballot, since: now, taking: None });
            }
            None => drop(self.coordinated.remove(&parent)),
        }
    }

    /// Whether terms may bind that another coordinator of this parent has given, or an earlier start of this node. Where a
    /// coordinator's replica falls silent the next one is elected at once, long before its terms end.
    fn may_bind_from_before(&self, parent: GroupId, now: Instant, lease_given_us: u64) -> bool {
        let since = self.coordinated.get(&parent).map(|coordinated| coordinated.since);
        since.is_none_or(|since| now < since.after_us(lease_given_us))
    }

    /// With its next term a node has nothing confirmed, and this chain is not confirmed to it again.
    fn release(&mut self, parent: GroupId, node: NodeId, group: GroupId) {
        if let Some(given) = self.given.get_mut(&(parent, node))
            && given.confirmed.remove(&group).is_some()
        {
            given.ending.insert(group, given.until);
            given.number += 1;
        }
    }
}

impl Host {
    /// What an earlier start of this node said counts no more.
    pub(super) fn hear_anew_of(&mut self, node: NodeId) {
        self.terms.have_spoken.remove(&node);
    }

    /// Whether a configuration of a chain is proposed that may not be executed yet.
    pub fn changes_chains(&self) -> bool {
        !self.terms.changing.is_empty()
    }

    /// Each heartbeat: terms are asked for, and chains looked after.
    pub(super) fn tend_chains(&mut self) {
        self.follow_root();
        self.leave_replaced_chains();
        self.choose_due();
        for parent in self.leading(Protocol::Chain) {
            self.ask_for_term(parent);
            self.look_after_chains(parent);
        }
    }

    /// An own chain is to be looked at with the next heartbeat.
    pub(super) fn look_soon_at(&mut self, group: GroupId) {
        self.terms.due_next.insert(group);
    }

    /// Chains that rest are many: each heartbeat looks at some of them, and at those that something is known of.
    fn choose_due(&mut self) {
        let mut due = std::mem::take(&mut self.terms.due_next);
        let from = GroupId(self.terms.seen_up_to.0 + 1);
        let mut last = None;
        for (&group, led) in self.own.led.range(from..).take(SEEN_PER_BEAT) {
            last = Some(group);
            if led.protocol.is_chain() {
                due.insert(group);
            }
        }
        self.terms.seen_up_to = last.filter(|_| self.own.led.len() > SEEN_PER_BEAT).unwrap_or(GroupId(0));
        let me = self.settings.node.0;
        for &group in &due {
            // Nobody but who joins begins with it.
            if self.own.led.get(&group).is_some_and(|led| led.record.joining == Some(me)) {
                self.rouse(group);
            }
        }
        self.terms.due = due;
    }

    /// The records of this parent's chains that are looked at with this heartbeat.
    fn due_of(&self, parent: GroupId) -> impl Iterator<Item = &GroupRecord> {
        let volumes = (parent == ROOT).then(|| self.led_as_executed(ROOT, Protocol::Chain)).into_iter().flatten();
        volumes.chain(self.own_due_of(parent))
    }

    fn own_due_of(&self, volume: GroupId) -> impl Iterator<Item = &GroupRecord> {
        let own = self.terms.due.range(own_groups_of(volume)).filter_map(|group| self.own.led.get(group));
        own.filter(|led| led.protocol.is_chain()).map(|led| &led.record)
    }

    /// A parent's chains that are awake here and that this node is a member of.
    fn chains_here(&self, parent: GroupId) -> Vec<(GroupId, &Chain)> {
        let volumes = self.volumes_led_by(parent).filter_map(|record| self.find(GroupId(record.group)));
        let own = self.here.chains.range(own_groups_of(parent)).map(|(_, index)| *index);
        let chain = |index: u32| {
            let group = &self.groups[index as usize];
            let chain = group.replica.chain().filter(|_| group.is_alive())?;
            let is_member = matches!(chain.membership().place(self.settings.node), Place::Member(_));
            is_member.then(|| (group.id(), chain))
        };
        volumes.chain(own).filter_map(chain).collect()
    }

    pub(super) fn ask_for_term(&mut self, parent: GroupId) {
        let chains = self.chains_here(parent);
        let absent = self.absent_here(parent);
        if chains.is_empty() && absent.is_empty() {
            return;
        }
        let Some(target) = self.target_of(parent) else { return };
        let Ok(route) = self.route(target, None, None) else { return };
        let held = self.terms.held.get(&parent).filter(|held| held.giver == route.coordinator);
        // One with a member that is suspected is asked for again, so that its parent looks at it.
        let is_asked_for = |(group, chain): &&(GroupId, &Chain)| {
            held.is_none_or(|held| held.confirmed.get(group) != Some(&chain.epoch()))
                || chain.membership().members.iter().any(|&node| self.peers.is_suspected(node))
        };
        let with_epoch = |(group, chain): &(GroupId, &Chain)| (*group, chain.epoch());
        let confirm: Vec<_> = chains.iter().filter(is_asked_for).map(with_epoch).collect();
        let extended: Vec<_> = chains.iter().filter(|(_, chain)| chain.is_extended()).map(with_epoch).collect();
        let (me, asked_at, to) = (self.settings.node, self.clock.now(), route.coordinator);
        let is_unanswered = parent == ROOT && to != me && held.is_none_or(|held| held.until <= asked_at);
        if is_unanswered {
            // Whoever is asked may coordinate no more, and does not say so to this question.
            self.meet_unknown_group();
        }
        if to == me {
            self.note_absent(me, parent, &absent);
            self.handle_term_question(me, parent, asked_at, &confirm, &extended);
        } else {
            self.outbox.send(to, &Message::TermQuestion { parent, asked_at, confirm, extended, absent });
        }
    }

    /// Chains that name this node a member, while it has no replica of them, or one that is silent: it was not there when
    /// they were born, or has lost what it had.
    fn absent_here(&self, parent: GroupId) -> Vec<(GroupId, Epoch)> {
        let me = self.settings.node;
        let is_absent = |record: &GroupRecord| {
            let group = GroupId(record.group);
            match self.find(group) {
                Some(index) => self.groups[index as usize].state.is_silent(),
                None if self.here.all.contains(group.0) => self.own.lost.contains(&group),
                // Who is to join may not have come to life yet, nor a volume's first members. Those of own groups have.
                None => (record.epoch > 0 || parent != ROOT) && record.members.contains(&me.0),
            }
        };
        self.volumes_led_by(parent)
            .chain(self.own_due_of(parent))
            .filter(|record| record.members.contains(&me.0) || record.joining == Some(me.0))
            .filter(|record| is_absent(record))
            .map(|record| (GroupId(record.group), Epoch(record.epoch)))
            .collect()
    }

    /// They are left out like those who are suspected, and may join.
    pub(super) fn note_absent(&mut self, from: NodeId, parent: GroupId, absent: &[(GroupId, Epoch)]) {
        if self.find(parent).is_some_and(|index| self.groups[index as usize].replica.is_coordinating()) {
            self.terms.due_next.extend(absent.iter().map(|(group, _)| *group));
            self.terms.absent.extend(absent.iter().map(|&(group, _)| (group, from)));
            let until = self.clock.now().after_us(ABSENT_US);
            self.terms.not_before.extend(absent.iter().map(|&(group, _)| ((group, from), until)));
            // Whoever says so answers no reads of that chain, whatever was confirmed to it up to then.
            if let Some(given) = self.terms.given.get_mut(&(parent, from)) {
                given.confirmed.retain(|group, epoch| !absent.iter().any(|(gone, at)| gone == group && *epoch <= *at));
            }
        }
    }

    /// A node asks for how long it may answer for chains whose parent this node coordinates.
    pub(super) fn handle_term_question(
        &mut self,
        from: NodeId,
        parent: GroupId,
        asked_at: Instant,
        confirm: &[(GroupId, Epoch)],
        extended: &[(GroupId, Epoch)],
    ) {
        let now = self.clock.now();
        if parent == ROOT {
            self.terms.have_spoken.insert(from);
        }
        // A chain waits for each of its members, so it goes on without one that can log nothing, once its term has ended.
        if self.peers.is_excused(from) {
            return;
        }
        let Some((index, lease_until)) = self.parent_lease(parent) else { return };
        if self.terms.leaving.get(&parent).is_some_and(|until| now < *until) || !self.takes_office(index, parent) {
            return;
        }
        let is_told = !self.hears_nothing_of(parent, from);
        let executed = self.chains_as_executed();
        let is_tail = |(group, _): &&(GroupId, Epoch)| {
            executed.find(*group).is_some_and(|record| record.members.last() == Some(&from.0))
        };
        let of_tails: Vec<(GroupId, Epoch)> = extended.iter().filter(is_tail).copied().collect();
        let is_current = |(group, epoch): &&(GroupId, Epoch)| {
            let record = executed.find(*group);
            let is_newest = record.is_some_and(|record| record.epoch == epoch.0 && record.members.contains(&from.0));
            let is_settled = !self.terms.changing.contains_key(group) && !self.terms.goes(parent, *group, *epoch, from);
            is_newest && is_told && is_settled || planted::is(Planted::AnyEpochConfirmed)
        };
        let confirmed: Vec<(GroupId, Epoch)> = confirm.iter().filter(is_current).copied().collect();
        drop(executed);
        // Only whoever takes part asks.
        for (group, _) in &confirmed {
            self.terms.absent.remove(&(*group, from));
        }
        let timing = self.settings.timing;
        let given = self.terms.given.entry((parent, from)).or_default();
        if now >= given.until {
            *given = Given { number: now.0.max(given.number + 1), ..Given::default() };
        }
        given.until = now.after_us(timing.lease_given_us);
        given.confirmed.extend(confirmed.iter().copied());
        let left_us = timing.lease_held_us.min(lease_until.0.saturating_sub(now.0));
        let answer = TermAnswer { parent, asked_at, number: given.number, left_us, confirmed };
        self.terms.extended.extend(of_tails);
        self.terms.due_next.extend(confirm.iter().map(|(group, _)| *group));
        self.terms.due.extend(extended.iter().map(|(group, _)| *group));
        if from == self.settings.node {
            self.handle_term_answer(from, answer);
        } else {
            let TermAnswer { parent, asked_at, number, left_us, confirmed } = answer;
            self.outbox.send(from, &Message::TermAnswer { parent, asked_at, number, left_us, confirmed });
        }
        if !extended.is_empty() {
            self.look_after_chains(parent);
        }
    }

    pub(super) fn handle_term_answer(&mut self, from: NodeId, answer: TermAnswer) {
        let TermAnswer { parent, asked_at, number, left_us, confirmed } = answer;
        // A peer that answers from the future has not answered us.
        if asked_at > self.clock.now() || left_us > self.settings.timing.lease_held_us {
            self.counters.nonsense += 1;
            return;
        }
        let until = asked_at.after_us(left_us);
        let held = self.terms.held.entry(parent).or_insert_with(|| Held {
            giver: from,
            number,
            asked_at,
            until,
            confirmed: BTreeMap::new(),
        });
        if asked_at < held.asked_at {
            return;
        }
        if (held.giver, held.number) != (from, number) {
            *held = Held { giver: from, number, asked_at, until, confirmed: BTreeMap::new() };
        }
        (held.asked_at, held.until) = (asked_at, held.until.max(until));
        held.confirmed.extend(confirmed);
        let awake: Vec<u32> = match parent {
            ROOT => held.confirmed.keys().filter_map(|group| self.index.get(group).copied()).collect(),
            _ => self.here.chains.range(own_groups_of(parent)).map(|(_, index)| *index).collect(),
        };
        awake.into_iter().for_each(|index| self.lease(index));
    }

    /// A chain here is told until when it may answer by itself. What was confirmed before it came to rest holds as long as the
    /// term does.
    pub(super) fn lease(&mut self, index: u32) {
        let group = &mut self.groups[index as usize];
        let (id, now) = (group.id(), self.clock.now());
        let held = self.terms.held.get(&parent_of(id)).filter(|held| now < held.until);
        if let (Some(held), Some(chain)) = (held, group.replica.chain_mut())
            && let Some(epoch) = held.confirmed.get(&id)
        {
            chain.lease(*epoch, held.until);
        }
    }

    /// Where the replica of a parent is, and until when nothing is decided there without this node. If its replica knows of none it
    /// comes to know that again; if whoever coordinated is suspected, it takes over.
    fn parent_lease(&mut self, parent: GroupId) -> Option<(u32, Instant)> {
        let index = self.find(parent)?;
        let group = &self.groups[index as usize];
        if !group.is_alive() {
            return None;
        }
        let now = self.clock.now();
        let lease = group.replica.paxos()?.lease_until(now, &self.peers);
        if lease.is_none() {
            self.plan(index, Event::Proposed(Proposal::Read { token: NOBODY, mode: ReadMode::Lease }));
        }
        lease.map(|until| (index, until)).filter(|_| !self.clock_off)
    }

    /// Proposes configurations without those who are gone, and with those who are back.
    fn look_after_chains(&mut self, parent: GroupId) {
        let Some(index) = self.find(parent) else { return };
        let Some(replica) = self.groups[index as usize].replica.paxos() else { return };
        let (status, ballot) = (replica.status(), self.ballot_coordinated(index));
        let (now, stamp) = (self.clock.now(), self.clock.stamp());
        let mut terms = std::mem::take(&mut self.terms);
        let executed = self.chains_as_executed();
        let is_present = |group: &GroupId, epoch: &Epoch| {
            parent_of(*group) != parent || executed.find(*group).is_some_and(|record| Epoch(record.epoch) == *epoch)
        };
        let is_named = |group: &GroupId, node: NodeId| {
            let membership = executed.find(*group).map(GroupRecord::membership);
            membership.is_some_and(|membership| membership.place(node) != Place::Outside)
        };
        // Also at another ballot: what had no slot yet is proposed there.
        let is_open = |group: &GroupId, changing: &mut Changing| {
            parent_of(*group) != parent || changing.is_open(stamp, status.next_slot, status.in_flight)
        };
        terms.changing.retain(|group, changing| is_present(group, &changing.epoch) && is_open(group, changing));
        terms.extended.retain(|group, epoch| is_present(group, epoch));
        terms.absent.retain(|(group, node)| parent_of(*group) != parent || is_named(group, *node));
        terms.not_before.retain(|_, at| *at > now);
        drop(executed);
        terms.note_coordinated(parent, ballot, now);
        self.terms = terms;
        let Some(ballot) = ballot else { return };
        if self.peers.is_bound_by_the_past(now) || self.due_of(parent).next().is_none() {
            return;
        }
        if self.parent_lease(parent).is_none() {
            return;
        }
        self.turn_one(parent);
        self.let_replaced_go(parent);
        let wanted: Vec<(GroupId, Epoch, Membership)> = self
            .due_of(parent)
            .filter(|record| !self.terms.changing.contains_key(&GroupId(record.group)))
            .filter_map(|record| {
                let next = self.next_membership(parent, record)?;
                Some((GroupId(record.group), Epoch(record.epoch), next))
            })
            .take(PER_TURN)
            .collect();
        for (group, epoch, next) in wanted {
            self.propose_membership(index, ballot, group, epoch, &next);
        }
    }

    /// The configuration that a chain is to have, if that is another one.
    fn next_membership(&self, parent: GroupId, record: &GroupRecord) -> Option<Membership> {
        let (group, membership) = (GroupId(record.group), record.membership());
        let now = self.clock.now();
        let next = membership.epoch.next();
        let is_gone = |node: NodeId| {
            self.hears_nothing_of(parent, node)
                || self.terms.absent.contains(&(group, node))
                || self.terms.goes(parent, group, membership.epoch, node)
                || node != self.settings.node && self.peers.is_suspected(node)
        };
        if let Some(joining) = membership.joining {
            // It may have been replaced since it was asked to join.
            if is_gone(joining) || !record.home.contains(&joining.0) {
                return Some(membership.without(joining, next));
            }
            let is_complete = self.terms.extended.get(&group) == Some(&membership.epoch);
            if is_complete {
                return Some(membership.extended(next));
            }
        }
        let may_be_bound = self.terms.may_bind_from_before(parent, now, self.settings.timing.lease_given_us);
        let is_bound = |node: NodeId| may_be_bound || self.terms.binds_to(parent, node, group, now);
        let gone = membership.members.iter().copied().find(|&node| is_gone(node) && !is_bound(node));
        // Not for one that was just started and may come to say that it has forgotten everything.
        let stays = |node: NodeId| !is_gone(node) && (parent != ROOT || self.terms.have_spoken.contains(&node));
        if let Some(gone) = gone.filter(|_| membership.members.iter().any(|&node| stays(node))) {
            return Some(membership.without(gone, next));
        }
        let is_out = |node: &NodeId| {
            let may_join = !self.hears_nothing_of(parent, *node)
                && self.terms.not_before.get(&(group, *node)).is_none_or(|at| *at <= now);
            may_join && membership.place(*node) == Place::Outside
        };
        let home = record.home.iter().copied().map(NodeId);
        let back = home
            .filter(is_out)
            .find(|&node| self.is_steady(node, STEADY_US))
            .filter(|_| membership.joining.is_none())?;
        Some(membership.with_joining(back, next))
    }

    /// Whether a node has been well for so long.
    pub(super) fn is_steady(&self, node: NodeId, us: u64) -> bool {
        node == self.settings.node
            || !self.peers.is_suspected(node)
                && self.linked.contains(&node)
                && self.recovered_at.get(&node).is_none_or(|at| at.after_us(us) <= self.clock.now())
    }

    /// Whoever was away comes back as the tail, and so heads gather where nothing ever failed. Once all is well, chains get the
    /// order back that they were born with, one of a parent's at a time: a member that stands too far ahead leaves, and joins
    /// behind the tail. It is never the tail, so reads go on; who is head changes as in a failure, without one.
    fn turn_one(&mut self, parent: GroupId) {
        let now = self.clock.now();
        if self.terms.turning.get(&parent).is_some_and(|turning| self.goes_on_turning(parent, turning)) {
            return;
        }
        // A node that has just started does not know for how long others have been well.
        if now < self.started_at.after_us(self.settings.turn_after_us) {
            self.terms.turning.remove(&parent);
            return;
        }
        let turned = self
            .due_of(parent)
            .filter(|record| record.members.len() >= TURNED_MEMBERS_MIN && self.is_well(parent, record))
            .find_map(|record| Some((GroupId(record.group), Epoch(record.epoch), record.out_of_turn()?)));
        self.terms.turning.remove(&parent);
        if let Some((group, epoch, member)) = turned {
            self.counters.chains_turned += 1;
            self.terms.release(parent, member, group);
            self.terms.turning.insert(parent, Turning { group, epoch, member, since: now });
        }
    }

    /// Whether all nodes of a chain, but for one that is joining, have been well for long.
    fn is_well(&self, parent: GroupId, record: &GroupRecord) -> bool {
        let mut home = record.home.iter().filter(|&&node| record.joining != Some(node)).copied().map(NodeId);
        home.all(|node| self.is_steady(node, self.settings.turn_after_us) && !self.hears_nothing_of(parent, node))
    }

    fn goes_on_turning(&self, parent: GroupId, turning: &Turning) -> bool {
        let Some(record) = self.chains_as_executed().find(turning.group) else { return false };
        let is_back = record.epoch != turning.epoch.0 && record.is_whole();
        self.is_well(parent, record) && !is_back && self.clock.now() < turning.since.after_us(TURN_US)
    }

    fn propose_membership(&mut self, parent: u32, ballot: Ballot, group: GroupId, epoch: Epoch, next: &Membership) {
        let members = next.members.iter().map(|node| node.0).collect();
        let joining = next.joining.map(|node| node.0);
        let office = Office::from(ballot);
        let mut command = Vec::new();
        match volume_of(group) {
            None => RootCommand::Reconfigure { group: group.0, epoch: epoch.0, members, joining, office }
                .encode(&mut command),
            Some((_, number)) => {
                VolumeCommand::Reconfigure { number, epoch: epoch.0, members, joining, office }.encode(&mut command)
            }
        }
        let (number, deadline) = self.propose_here(parent, &command);
        self.terms.changing.insert(group, Changing { epoch, number, deadline, last_slots: None });
        self.counters.chains_changed += 1;
    }

    /// The parent's word on a chain here.
    pub(super) fn tell_chain(&mut self, index: u32, membership: Membership) {
        let group = &self.groups[index as usize];
        let is_news = group.replica.chain().is_some_and(|chain| chain.epoch() < membership.epoch);
        if is_news && group.is_alive() {
            self.plan(
                index,
                Event::Requested(AnyRequest::Chain(Request::Reconfigure { membership: Arc::new(membership) })),
            );
        }
    }

    /// What the directory says of the chains here.
    pub(super) fn tell_chains(&mut self) {
        let chain = |volume: &GroupRecord| Some((self.find(GroupId(volume.group))?, volume.membership()));
        let chains: Vec<(u32, Membership)> = self.led_by(ROOT, Protocol::Chain).filter_map(chain).collect();
        chains.into_iter().for_each(|(index, membership)| self.tell_chain(index, membership));
    }

    /// Coordination of a group is to be given away. Not while terms that this node gave for its chains bind; if they do, no
    /// other is given for a while.
    pub(super) fn may_hand_over(&mut self, group: GroupId) -> bool {
        let now = self.clock.now();
        if !self.terms.binds(group, now) {
            return true;
        }
        let leaving = self.terms.leaving.entry(group).or_insert(now);
        *leaving = (*leaving).max(now.after_us(LEAVING_US));
        false
    }

    /// Whether a node does not come to know what this volume decides about its chains: its replica of the volume is silent.
    fn hears_nothing_of(&self, parent: GroupId, node: NodeId) -> bool {
        let index = self.find(parent).filter(|_| parent != ROOT);
        index.is_some_and(|index| self.groups[index as usize].replica.is_silent(node))
    }

    /// For whoever looks for the records of many chains.
    pub(super) fn chains_as_executed(&self) -> Executed<'_> {
        Executed { host: self, volumes: OnceCell::new() }
    }

    /// The volumes that are chains, as far as this parent leads them, here as this node has heard of them.
    fn volumes_led_by(&self, parent: GroupId) -> impl Iterator<Item = &GroupRecord> {
        (parent == ROOT).then(|| self.led_by(ROOT, Protocol::Chain)).into_iter().flatten()
    }
}

/// Chains' records, as this node's replicas of their parents have executed them. The root's are put in order once, when the first of
/// them is asked for: with each heartbeat every node may ask about all of them.
pub(super) struct Executed<'a> {
    host: &'a Host,
    volumes: OnceCell<HashMap<u64, &'a GroupRecord, FixedState>>,
}

impl<'a> Executed<'a> {
    pub(super) fn find(&self, group: GroupId) -> Option<&'a GroupRecord> {
        if let Some(own) = self.host.own.led.get(&group) {
            return Some(&own.record);
        }
        if parent_of(group) != ROOT {
            return None;
        }
        let volumes =
            || self.host.led_as_executed(ROOT, Protocol::Chain).map(|record| (record.group, record)).collect();
        self.volumes.get_or_init(volumes).get(&group.0).copied()
    }
}

#[cfg(test)]
mod tests;
