//! Members of volumes of `paxos` are replaced: a node copies the volume, takes a member's seat in the next epoch, and is taken in by the
//! others as one that has forgotten what it said. See docs/decisions/0033 and [`quorate_protocol::paxos`].
//!
//! The root decides each step, and its directory says it to everybody. Here a step is followed once the directory is stored: a start
//! finds it there, and no replica goes back to an epoch that it has left.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_protocol::{Configuration, Epoch, Event, GroupId, Instant, NodeId, Proposal, Slot};

use super::{Group, Host};
use crate::entry::Purpose;
use crate::group_state::GroupState;
use crate::record::GroupRecord;
use crate::replica::Protocol;
use crate::root::{PlaceCommand, RootCommand, RootState};

/// How often the root is asked once more for what it has not decided.
const ASKED_AGAIN_US: u64 = 1_000_000;
/// A copy that has come so close, in time, to what the others have is followed by the seat.
const CLOSE_US: u64 = 2_000_000;

#[derive(Default)]
pub(super) struct SeatChanges {
    /// Who has left may hold leases that the replicas here are bound by: until then these hear nobody.
    bound: BTreeMap<GroupId, Instant>,
    /// A replica is not where the directory says that it is to be.
    is_waiting: bool,
    /// When the root was last asked to decide something of a volume.
    asked: BTreeMap<GroupId, Instant>,
}

/// What comes before others testify to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeforeTestimonies {
    /// It copies the volume.
    Copy,
    /// It is to be in another epoch.
    Wait,
}

/// How far the copy is that a node makes of a volume in which it is to take a seat.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copying {
    /// How far some member had come, and when it said so.
    standing: Option<(Slot, Instant)>,
}

impl Copying {
    pub(super) fn note_standing(&mut self, next_slot: Slot, now: Instant) {
        let further = self.standing.is_none_or(|(known, _)| known < next_slot);
        if further {
            self.standing = Some((next_slot, now));
        }
    }

    /// Whether the copy has everything that the members had.
    pub(super) fn has_reached(&self, next_slot: Slot) -> bool {
        self.standing.is_some_and(|(standing, _)| standing <= next_slot)
    }

    pub(super) fn has_asked(&self) -> bool {
        self.standing.is_some()
    }

    /// Whether it has now what they had a moment ago. If not they are asked anew.
    pub(super) fn is_close(&mut self, next_slot: Slot, now: Instant) -> bool {
        if !self.has_reached(next_slot) {
            return false;
        }
        let is_recent = self.standing.is_some_and(|(_, at)| now <= at.after_us(CLOSE_US));
        if !is_recent {
            self.standing = None;
        }
        is_recent
    }
}

/// Who sits where, as the root says it of a volume of `paxos`. To a node that is to come in, as it will be.
pub(super) fn seated(root: &RootState, volume: &GroupRecord, me: NodeId) -> Configuration {
    let mut configuration = Configuration { epoch: Epoch(volume.epoch), ..volume.configuration() };
    let leaving = root.seats(volume.group).and_then(|seats| seats.leaving).map(NodeId);
    if volume.joining == Some(me.0) {
        let seat = |member: &NodeId| if Some(*member) == leaving { me } else { *member };
        configuration.members = configuration.members.iter().map(seat).collect();
    }
    configuration
}

/// Whether a replica that is born here takes a seat where others have spoken before.
pub(super) fn takes_a_seat(root: &RootState, volume: &GroupRecord, me: NodeId) -> bool {
    let has_entered = root.seats(volume.group).is_some_and(|seats| seats.entered.contains_key(&me.0));
    has_entered || volume.joining == Some(me.0)
}

impl Host {
    /// What the stored directory says of the volumes of `paxos` here.
    pub(super) fn follow_seats(&mut self) {
        let Some(root) = self.directory.state() else { return };
        self.seats.is_waiting = false;
        let me = self.settings.node;
        let mut left = Vec::new();
        let mut taken = Vec::new();
        for (.., volume) in root.volumes().filter(|(_, namespace, _)| namespace.settings.protocol == Protocol::Paxos) {
            let Some(index) = self.find(GroupId(volume.group)) else { continue };
            if !volume.lives_on(me, Protocol::Paxos) {
                left.push(GroupId(volume.group));
                continue;
            }
            let next = seated(root, volume, me);
            let here = &self.groups[index as usize].configuration;
            if **here != next && here.epoch <= next.epoch {
                let is_word = root.seats(volume.group).is_none_or(|seats| seats.is_word_of(me, here.epoch.0));
                taken.push((index, next, is_word));
            }
        }
        for group in left {
            self.leave_volume(group);
        }
        for (index, next, is_word) in taken {
            self.take_seats(index, next, is_word);
        }
    }

    /// Another node sits where this one sat. What it has of the volume's own groups stays.
    fn leave_volume(&mut self, group: GroupId) {
        self.seats.bound.remove(&group);
        self.counters.seats_left += 1;
        self.leave_group(group);
    }

    fn take_seats(&mut self, index: u32, next: Configuration, is_word: bool) {
        let (now, me) = (self.clock.now(), self.settings.node);
        let id = next.group;
        // A snapshot that is being stored is of the epoch that it came in.
        if self.storing.installing().any(|installing| installing.group() == id) {
            self.seats.is_waiting = true;
            return;
        }
        let group = &self.groups[index as usize];
        let holder = group.replica.paxos().map(|replica| replica.coordinator());
        let has_left = |node: NodeId| node != me && !next.members.contains(&node) && group.configuration.contains(node);
        if let Some(holder) = holder.filter(|&holder| has_left(holder) && group.is_alive()) {
            let until = *self.seats.bound.entry(id).or_insert_with(|| self.peers.break_grant(holder, now));
            if now < until {
                self.seats.is_waiting = true;
                return;
            }
        }
        self.seats.bound.remove(&id);
        let next = Arc::new(next);
        let group = &mut self.groups[index as usize];
        let before = std::mem::replace(&mut group.configuration, next.clone());
        if let Some(replica) = group.replica.paxos_mut() {
            replica.take_seats(next.clone(), now);
        }
        group.demand = None;
        if !is_word && group.is_alive() {
            group.state = GroupState::Forgetful;
            group.replica.restored();
        }
        group.checkpoint.changed = true;
        self.transfers.forget(id);
        self.readmissions.begin_anew(id);
        self.counters.seats_changed += 1;
        self.seek_readmission(index);
        if self.groups[index as usize].is_alive() {
            for node in before.members.iter().copied().filter(|node| !next.contains(*node)) {
                self.plan(index, Event::Suspected(node));
            }
            self.plan(index, Event::Woken);
        }
        self.want_checkpoint_now(index);
    }

    /// Whether the replica hears nobody, since its next configuration is near.
    pub(super) fn hears_nobody(&self, group: GroupId) -> bool {
        self.seats.bound.contains_key(&group)
    }

    /// What a silent replica is to do about its seat before it asks others to testify.
    pub(super) fn before_testimonies(&self, group: &Group) -> Option<BeforeTestimonies> {
        let is_seat = group.own.is_none() && group.replica.paxos().is_some();
        let place = self.directory.place_of(group.namespace, group.id()).filter(|_| is_seat)?;
        if place.joining == Some(self.settings.node) {
            return Some(BeforeTestimonies::Copy);
        }
        (place.epoch != group.configuration.epoch).then_some(BeforeTestimonies::Wait)
    }

    /// Whether this node copies the volume, to take a seat in it.
    pub(super) fn is_copying(&self, group: &Group) -> bool {
        group.state == GroupState::Forgetful && self.before_testimonies(group) == Some(BeforeTestimonies::Copy)
    }

    /// Whether a node that asks is to take a seat in this volume.
    pub(super) fn is_to_enter(&self, group: &Group, node: NodeId) -> bool {
        let place = self.directory.place_of(group.namespace, group.id());
        place.is_some_and(|place| place.joining == Some(node) && place.epoch == group.configuration.epoch)
    }

    /// With each heartbeat.
    pub(super) fn tend_seats(&mut self) {
        let Some(root) = self.directory.state().filter(|root| !root.placement.seats.is_empty()) else { return };
        let me = self.settings.node.0;
        let mut asked = Vec::new();
        let mut handed = Vec::new();
        for (.., volume) in root.volumes() {
            let Some(seats) = root.seats(volume.group) else { continue };
            let Some(index) = self.find(GroupId(volume.group)) else { continue };
            let (group, epoch) = (volume.group, volume.epoch);
            let here = &self.groups[index as usize];
            if volume.joining == Some(me)
                && self.readmissions.is_close(GroupId(group), here.replica.next_slot(), self.clock.now())
            {
                asked.push(PlaceCommand::Enter { group, epoch });
            } else if seats.unsettled == Some(me) && here.is_alive() && here.configuration.epoch == Epoch(epoch) {
                asked.push(PlaceCommand::Settle { group, epoch });
            } else if seats.leaving == Some(me) && here.replica.is_coordinating() {
                handed.push(index);
            }
        }
        asked.into_iter().for_each(|command| self.ask_root_for_seat(command));
        handed.into_iter().for_each(|index| self.hand_over_seat(index));
        if self.seats.is_waiting {
            self.follow_seats();
        }
    }

    fn ask_root_for_seat(&mut self, command: PlaceCommand) {
        let (PlaceCommand::Enter { group, .. } | PlaceCommand::Settle { group, .. }) = command else { return };
        let now = self.clock.now();
        let asked = self.seats.asked.entry(GroupId(group)).or_insert(Instant(0));
        if *asked > Instant(0) && now < asked.after_us(ASKED_AGAIN_US) {
            return;
        }
        *asked = now;
        self.submit_to_root(&RootCommand::Place(command), Purpose::Settling);
    }

    /// This node is to leave a volume that it coordinates: whoever knows the most of the others takes over.
    fn hand_over_seat(&mut self, index: u32) {
        let (me, group) = (self.settings.node, &self.groups[index as usize]);
        let fit = |node: &NodeId| *node != me && !self.peers.is_suspected(*node) && group.replica.has_answered(*node);
        let heir = group.configuration.members.iter().copied().find(fit);
        if let Some(to) = heir {
            self.plan(index, Event::Proposed(Proposal::HandOver { to }));
        }
    }

    /// Whether the group is to leave this node.
    pub(super) fn is_leaving_seat(&self, group: GroupId, node: NodeId) -> bool {
        let seats = self.directory.state().and_then(|root| root.seats(group.0));
        seats.is_some_and(|seats| seats.leaving == Some(node.0))
    }
}

#[cfg(test)]
mod tests;
