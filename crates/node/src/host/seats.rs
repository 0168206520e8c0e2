//! Members of volumes of `paxos`, and of the root, are replaced: a node copies the group, takes a member's seat in the next epoch, and is
//! taken in by the others as one that has forgotten what it said. See docs/decisions/0033 and [`quorate_protocol::paxos`].
//!
//! The root decides each step, and its directory says it to everybody, or, of the root's own group, whoever knows (see
//! [`super::root_group`]). Here a step is followed once that is stored: a start finds it there, and no replica goes back to an epoch
//! that it has left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use quorate_protocol::{Configuration, Epoch, Event, GroupId, Instant, NodeId, Proposal, Slot};

use super::checkpoints::Stored;
use super::root_group::RootWord;
use super::{Group, Host};
use crate::entry::Purpose;
use crate::group_state::GroupState;
use crate::machine::Content;
use crate::planted::{self, Planted};
use crate::record::GroupRecord;
use crate::replica::Protocol;
use crate::root::{Durability, PlaceCommand, ROOT, RootCommand, RootGroup, RootState, Seats};
use crate::volume::{Held, Record, Renewed, VolumeCommand};

/// How often the root is asked once more for what it has not decided.
const ASKED_AGAIN_US: u64 = 300_000;
/// A copy that has come so close, in time, to what the others have is followed by the seat.
const CLOSE_US: u64 = 1_000_000;
/// How often each of them is asked how far it is.
const HEARD_AGAIN_US: u64 = 400_000;
/// How often a volume is handed over by a node that is to leave it, if that fails.
const HANDED_OVER_AGAIN_US: u64 = 5_000_000;
/// Objects of a volume that are looked at in one turn for own groups that are to begin anew, and those that are asked to.
const LOOKED_AT: usize = 8192;
const RENEWED: usize = 128;

#[derive(Default)]
pub(super) struct SeatChanges {
    /// Who has left may hold leases that the replicas here are bound by: until then these hear nobody.
    bound: BTreeMap<GroupId, Instant>,
    /// A replica is not where the directory says that it is to be.
    is_waiting: bool,
    /// The version of the directory that the store holds, and those on their way there, with the numbers of their batches.
    stored: u64,
    storing: VecDeque<(u64, u64)>,
    pub(super) root: RootWord,
    /// Volumes in which this node is a newcomer that was born since its start.
    pub(super) born: BTreeSet<GroupId>,
    /// When the root was last asked to decide something of a volume, or the volume was.
    asked: BTreeMap<GroupId, Instant>,
    /// When a volume that this node is to leave was last to be handed over.
    handed_over: BTreeMap<GroupId, Instant>,
    /// Volumes whose own groups are looked at, and from which hash of a name on.
    clearing: BTreeMap<GroupId, Clearing>,
}

/// A volume's own groups are looked through for those that are to begin anew before a member of it is replaced.
#[derive(Default)]
struct Clearing {
    /// Of this change.
    change: u64,
    from: u64,
    has_found: bool,
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
#[derive(Debug, Default)]
pub(super) struct Copying {
    /// How far the members had come, those that stay, and when they said so: that they are well is part of it.
    heard: BTreeMap<NodeId, (Slot, Instant)>,
}

impl Copying {
    pub(super) fn note(&mut self, from: NodeId, next_slot: Slot, now: Instant) {
        self.heard.insert(from, (next_slot, now));
    }

    /// Those that have said nothing for a while.
    pub(super) fn unheard(&self, others: Vec<NodeId>, now: Instant) -> Vec<NodeId> {
        let is_old = |node: &NodeId| self.heard.get(node).is_none_or(|(_, at)| at.after_us(HEARD_AGAIN_US) <= now);
        others.into_iter().filter(is_old).collect()
    }

    /// Whether the copy has what the members had that were heard.
    pub(super) fn has_reached(&self, next_slot: Slot) -> bool {
        !self.heard.is_empty() && self.heard.values().all(|(heard, _)| *heard <= next_slot)
    }

    /// Whether it has what each of them had a moment ago.
    fn is_close(&self, others: impl Iterator<Item = NodeId>, next_slot: Slot, now: Instant) -> bool {
        let is_recent = |node| self.heard.get(&node).is_some_and(|(_, at)| now < at.after_us(CLOSE_US));
        self.has_reached(next_slot) && others.into_iter().all(is_recent)
    }
}

/// Who sits where, as the root says it of a volume of `paxos`, or of itself. To a node that is to come in, as it will be.
pub(super) fn seated(record: &GroupRecord, seats: Option<&Seats>, me: NodeId) -> Configuration {
    let mut configuration = Configuration { epoch: Epoch(record.epoch), ..record.configuration() };
    if record.joining == Some(me.0) {
        let leaving = seats.and_then(|seats| seats.leaving).map(NodeId);
        let seat = |member: &NodeId| if Some(*member) == leaving { me } else { *member };
        let beside = leaving.is_none().then_some(me);
        configuration.members = configuration.members.iter().map(seat).chain(beside).collect();
    }
    configuration
}

/// Whether a replica that is born here takes a seat where others have spoken before.
pub(super) fn takes_a_seat(record: &GroupRecord, seats: Option<&Seats>, me: NodeId) -> bool {
    let has_entered = seats.is_some_and(|seats| seats.entered.contains_key(&me.0));
    has_entered || record.joining == Some(me.0)
}

/// What a node is to do with its replica of a group of which somebody sits elsewhere now.
enum Seating {
    Leaves(GroupId),
    Takes { index: u32, next: Configuration, is_word: bool },
}

/// What this node has to do for a volume of which a member is replaced.
enum SeatStep {
    Ask(PlaceCommand),
    Hold(Box<Held>),
    /// Nobody coordinates a volume that nobody uses.
    TakeOver,
    HandOver,
}

fn held_of(group: &Group) -> Option<&Held> {
    group.machine.children()?.held.as_ref()
}

/// Each volume of `paxos`, and who sits where.
fn seated_groups(root: &RootState) -> impl Iterator<Item = (&GroupRecord, Option<&Seats>)> {
    let of_paxos = root.volumes().filter(|(_, namespace, _)| namespace.settings.protocol == Protocol::Paxos);
    of_paxos.map(|(.., volume)| (volume, root.seats(volume.group)))
}

/// What the volume is to hold itself to while its member is replaced.
fn held_for(volume: &GroupRecord, seats: &Seats) -> Held {
    let (leaving, joining) = (seats.leaving.unwrap_or_default(), volume.joining.unwrap_or_default());
    let members = volume.members.iter().map(|&member| if member == leaving { joining } else { member }).collect();
    Held { change: seats.change, leaving, joining, members, is_clear: false }
}

/// Whether nothing in the copy here goes by the group's members, nor will. The root has no own groups.
fn is_clear(group: &Group, record: &GroupRecord, seats: &Seats) -> bool {
    let is_clear = |held: &Held| held.is_clear || planted::is(Planted::SeatBeforeClear);
    group.id() == ROOT || held_of(group).is_some_and(|held| is_clear(held) && held.is_of(&held_for(record, seats)))
}

/// Whether the replica takes part, and will know at the next start what it has said.
pub(super) fn remembers(group: &Group) -> bool {
    group.is_alive() && !group.checkpoint.forgets
}

impl Host {
    /// The directory was read from the store.
    pub(super) fn follow_stored_seats(&mut self) {
        self.seats.stored = self.directory.version();
        self.follow_seats();
    }

    /// A directory of this version is in the batch that was handed over last.
    pub(super) fn note_directory_storing(&mut self, version: u64) {
        self.seats.storing.push_back((self.storing.last_number(), version));
    }

    pub(super) fn note_directory_stored(&mut self, batch: u64) {
        self.seats.root.note_stored(batch);
        while let Some(&(_, version)) = self.seats.storing.front().filter(|(number, _)| *number <= batch) {
            self.seats.storing.pop_front();
            self.seats.stored = version;
        }
        self.follow_seats();
    }

    /// What is stored says of the volumes of `paxos`, and of the root, here. While a later word is on its way to the store it waits for
    /// that: what a start would not find is not followed.
    fn follow_seats(&mut self) {
        let is_stored = |root: &&RootState| root.version == self.seats.stored;
        let stored = self.directory.state().filter(is_stored);
        self.seats.is_waiting = stored.is_none() && self.directory.state().is_some() || !self.seats.root.is_stored();
        let mut seatings: Vec<Seating> = stored
            .iter()
            .flat_map(|root| seated_groups(root))
            .filter_map(|(record, seats)| self.seating(record, seats))
            .collect();
        let RootGroup { version, record, seats, .. } = self.directory.root_group();
        // As long as nothing was heard it is what the configuration says.
        if self.seats.root.is_stored() && *version > 0 {
            seatings.extend(self.seating(record, Some(seats)));
        }
        for seating in seatings {
            match seating {
                Seating::Leaves(group) => self.leave_seat(group),
                Seating::Takes { index, next, is_word } => self.take_seats(index, next, is_word),
            }
        }
    }

    fn seating(&self, record: &GroupRecord, seats: Option<&Seats>) -> Option<Seating> {
        let (me, group) = (self.settings.node, GroupId(record.group));
        let index = self.find(group)?;
        if !record.lives_on(me, Protocol::Paxos) {
            return Some(Seating::Leaves(group));
        }
        let next = seated(record, seats, me);
        let here = &self.groups[index as usize].configuration;
        if **here == next || here.epoch > next.epoch {
            return None;
        }
        let has_stayed = seats.is_none_or(|seats| seats.is_word_of(me, here.epoch.0));
        let is_word = has_stayed && record.joining != Some(me.0) || planted::is(Planted::SeatTakenTwice);
        Some(Seating::Takes { index, next, is_word })
    }

    /// Another node sits where this one sat. What it has of the volume's own groups stays.
    fn leave_seat(&mut self, volume: GroupId) {
        let Some(index) = self.find(volume) else { return };
        let group = &self.groups[index as usize];
        let last_number = group.machine.children().map_or(0, |children| children.last_number);
        // Of durability `memory` births are in no log: after a start nothing tells one that was lost from one that never was here. A
        // replica that has forgotten does not know how many there were.
        let is_known = group.is_alive() && !self.own.from_before.contains_key(&volume);
        let numbers_below = if is_known { last_number + 1 } else { u64::MAX };
        let may_lose_births = group.durability == Durability::Memory && numbers_below > 1;
        self.seats.bound.remove(&volume);
        self.seats.clearing.remove(&volume);
        self.readmissions.begin_anew(volume);
        self.forget_led_by(volume);
        self.terms.leave_parent(volume);
        self.end_all_awaited(volume);
        self.own.late.forget_unborn(volume);
        self.own.renewals.forget(volume);
        self.seats.born.remove(&volume);
        self.seats.handed_over.remove(&volume);
        self.counters.seats_left += 1;
        let mut batch = quorate_checkpoint::Batch::new();
        let mut dropped = self.drop_group(volume, &mut batch);
        dropped.push(volume);
        if may_lose_births {
            self.keep_births_away(volume, numbers_below, &mut batch);
        }
        self.store(batch, Stored::Directory { births: Vec::new(), dropped });
        self.tend_outside();
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
        if group.state == GroupState::Forgetful && planted::is(Planted::SeatWithoutTestimonies) {
            group.state = GroupState::Alive;
        }
        group.checkpoint.changed = true;
        self.transfers.forget(id);
        self.readmissions.begin_anew(id);
        match id {
            ROOT => self.counters.root_seats_changed += 1,
            _ => self.counters.seats_changed += 1,
        }
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

    /// Whether the replica of a volume here is that of a node which takes a seat, and not taken in yet.
    pub(super) fn is_newcomer(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        let me = self.settings.node;
        let seats = || self.seats_of(group.id());
        // Where births are in no log, own groups may have been born here before the node's start.
        let knows_births = group.durability != Durability::Memory || self.seats.born.contains(&group.id());
        group.state == GroupState::Forgetful
            && knows_births
            && (self.is_copying(group) || seats().is_some_and(|seats| seats.unsettled == Some(me.0)))
    }

    fn seats_of(&self, group: GroupId) -> Option<&Seats> {
        match group {
            ROOT => Some(&self.directory.root_group().seats),
            volume => self.directory.state()?.seats(volume.0),
        }
    }

    /// Whether a replica of the volume here bears own groups; a newcomer's does not yet.
    pub(super) fn has_volume(&self, volume: GroupId) -> bool {
        self.find(volume).is_some_and(|index| !self.is_newcomer(index))
    }

    /// Whether a node that asks is to take a seat in this volume.
    pub(super) fn is_to_enter(&self, group: &Group, node: NodeId) -> bool {
        let place = self.directory.place_of(group.namespace, group.id());
        place.is_some_and(|place| place.joining == Some(node) && place.epoch == group.configuration.epoch)
    }

    /// Has the root place something otherwise; nobody waits for the answer.
    pub fn submit_place(&mut self, command: PlaceCommand) {
        self.submit_to_root(&RootCommand::Place(command), Purpose::Settling);
    }

    /// With each heartbeat.
    pub(super) fn tend_seats(&mut self) {
        if self.seats.is_waiting {
            self.follow_seats();
        }
        let mut steps = Vec::new();
        let RootGroup { record, seats, .. } = self.directory.root_group();
        self.seat_steps(record, seats, &mut steps);
        if let Some(root) = self.directory.state().filter(|root| root.placement.is_moving()) {
            for (volume, seats) in seated_groups(root) {
                if let Some(seats) = seats {
                    self.seat_steps(volume, seats, &mut steps);
                }
            }
        }
        for (index, step) in steps {
            match step {
                SeatStep::Ask(command) => self.ask_root_for_seat(index, command),
                SeatStep::Hold(held) => self.hold_volume(index, *held),
                SeatStep::TakeOver => self.take_over_if_uncoordinated(index),
                SeatStep::HandOver if self.may_hand_over_seat(index) => self.hand_over_seat(index),
                SeatStep::HandOver => {}
            }
        }
    }

    fn seat_steps(&self, record: &GroupRecord, seats: &Seats, steps: &mut Vec<(u32, SeatStep)>) {
        let (me, now) = (self.settings.node.0, self.clock.now());
        let Some(index) = self.find(GroupId(record.group)) else { return };
        let (group, epoch, change) = (record.group, record.epoch, seats.change);
        let here = &self.groups[index as usize];
        let is_changing = record.joining.is_some();
        if record.joining == Some(me) {
            let copying = self.readmissions.copying(here.id());
            let others = || here.configuration.members.iter().copied().filter(|node| node.0 != me);
            let is_close = |copying: &Copying| copying.is_close(others(), here.replica.next_slot(), now);
            if copying.is_some_and(is_close) && is_clear(here, record, seats) {
                steps.push((index, SeatStep::Ask(PlaceCommand::Enter { group, change })));
            }
        } else if seats.unsettled == Some(me) && here.configuration.epoch == Epoch(epoch) && remembers(here) {
            steps.push((index, SeatStep::Ask(PlaceCommand::Settle { group, epoch })));
        } else if is_changing && here.id() != ROOT && here.replica.is_coordinating() {
            steps.push((index, SeatStep::Hold(Box::new(held_for(record, seats)))));
        } else if is_changing {
            steps.push((index, SeatStep::TakeOver));
        }
        if seats.leaving == Some(me) && here.replica.is_coordinating() {
            steps.push((index, SeatStep::HandOver));
        }
    }

    /// Each second: volumes that this node coordinates and of which no member is replaced any more go on as ever.
    pub(super) fn release_held(&mut self) {
        let Some(root) = self.directory.state() else { return };
        let is_over = |volume: &GroupRecord| {
            volume.joining.is_none() && root.seats(volume.group).is_none_or(|seats| seats.unsettled.is_none())
        };
        let is_held = |index: &u32| {
            let group = &self.groups[*index as usize];
            held_of(group).is_some() && group.replica.is_coordinating()
        };
        let over = root.volumes().filter(|(.., volume)| is_over(volume));
        let held: Vec<u32> = over.filter_map(|(.., volume)| self.find(GroupId(volume.group)).filter(is_held)).collect();
        for index in held {
            let group = self.groups[index as usize].id();
            self.seats.clearing.remove(&group);
            self.submit_hold(index, None);
        }
    }

    /// Own groups that go by whoever the volume's members are, and those that it leads on the node that is to leave it, begin anew.
    fn hold_volume(&mut self, index: u32, held: Held) {
        let group = &self.groups[index as usize];
        let id = group.id();
        match held_of(group) {
            Some(known) if known.is_of(&held) && known.is_clear => {
                self.seats.clearing.remove(&id);
            }
            Some(known) if known.is_of(&held) => self.clear_some(index, held),
            _ => {
                self.seats.clearing.remove(&id);
                if self.is_time_to_ask(id) {
                    self.submit_hold(index, Some(held));
                }
            }
        }
    }

    fn submit_hold(&mut self, index: u32, held: Option<Held>) {
        let volume = self.groups[index as usize].id();
        let root = self.directory.state();
        let record =
            root.and_then(|root| root.volumes().map(|(.., volume)| volume).find(|found| found.group == volume.0));
        let members = record.map(|record| record.members.clone()).unwrap_or_default();
        self.submit_to_volume_of(volume, &VolumeCommand::Hold { order: self.directory.version(), members, held });
    }

    fn clear_some(&mut self, index: u32, held: Held) {
        let id = self.groups[index as usize].id();
        if !self.want_names(index) {
            return;
        }
        let clearing = self.seats.clearing.entry(id).or_default();
        if clearing.change != held.change {
            *clearing = Clearing { change: held.change, ..Clearing::default() };
        }
        let from = clearing.from;
        let Some(objects) = self.groups[index as usize].machine.objects() else { return };
        let (names, mut next) =
            if objects.away_count() == 0 { (Vec::new(), None) } else { objects.away_among(from, LOOKED_AT) };
        let mut groups = Vec::new();
        let mut has_found = false;
        for name in names {
            let record = objects.away(&name).and_then(|record| Record::decode(&record).ok());
            let Some(record) = record.filter(|record| held.concerns(record)) else { continue };
            has_found = true;
            if groups.len() == RENEWED {
                next = Some(objects.hash(&name));
                break;
            }
            // One that would be sealed, and not come to its end, is left as it is: the volume waits for its members.
            let members = record.member_ids(&self.groups[index as usize].configuration.members);
            let is_register = record.protocol().is_register();
            if !record.stopping && (!is_register || self.can_end(&record, &members, None)) {
                groups.push((record.number, name));
            }
        }
        let clearing = self.seats.clearing.entry(id).or_default();
        clearing.has_found |= has_found;
        match next {
            Some(next) => clearing.from = next,
            None if clearing.has_found => *clearing = Clearing { change: held.change, ..Clearing::default() },
            None if self.is_time_to_ask(id) => self.submit_hold(index, Some(Held { is_clear: true, ..held })),
            None => {}
        }
        if !groups.is_empty() {
            let of_volume = self.groups[index as usize].configuration.members.iter().map(|node| node.0).collect();
            let renewed = Renewed { groups, volume: id.0, of_volume };
            self.submit_to_volume_of(id, &VolumeCommand::Renew(renewed));
        }
    }

    fn is_time_to_ask(&mut self, group: GroupId) -> bool {
        let now = self.clock.now();
        let asked = self.seats.asked.entry(group).or_insert(Instant(0));
        let is_time = *asked == Instant(0) || asked.after_us(ASKED_AGAIN_US) <= now;
        if is_time {
            *asked = now;
        }
        is_time
    }

    fn ask_root_for_seat(&mut self, index: u32, command: PlaceCommand) {
        if self.is_time_to_ask(self.groups[index as usize].id()) {
            self.submit_place(command);
        }
    }

    /// Whether a command, which has come to this coordinator of the root, would have a node take a seat while one of those that stay is
    /// missed: without its testimony the node would not take part, and whoever it replaces would be gone.
    pub(super) fn is_too_early_to_enter(&self, index: u32, command: &[u8]) -> bool {
        let Content::Root(root) = self.groups[index as usize].machine.content() else { return false };
        let Some(RootCommand::Place(PlaceCommand::Enter { group, .. })) = RootCommand::decode(command) else {
            return false;
        };
        let leaving = root.seats(group).and_then(|seats| seats.leaving);
        let record = match GroupId(group) {
            ROOT => Some(root.root_record()),
            _ => root.volumes().map(|(.., volume)| volume).find(|volume| volume.group == group).cloned(),
        };
        let members: Vec<NodeId> = record.iter().flat_map(GroupRecord::member_ids).collect();
        let replica = &self.groups[index as usize].replica;
        let is_missed = |node: &NodeId| {
            let is_silent = GroupId(group) == ROOT && replica.is_silent(*node);
            *node != self.settings.node && (self.peers.is_suspected(*node) || is_silent)
        };
        members.iter().filter(|node| Some(node.0) != leaving).any(is_missed)
    }

    /// Nothing is proposed while a hand-over is tried: where it fails, clients go on before the next one.
    fn may_hand_over_seat(&mut self, index: u32) -> bool {
        let (now, group) = (self.clock.now(), self.groups[index as usize].id());
        let tried = self.seats.handed_over.entry(group).or_insert(Instant(0));
        let is_time = *tried == Instant(0) || tried.after_us(HANDED_OVER_AGAIN_US) <= now;
        if is_time {
            *tried = now;
        }
        is_time
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
        self.seats_of(group).is_some_and(|seats| seats.leaving == Some(node.0))
    }
}

#[cfg(test)]
mod tests;
