//! The way of a command: to the volume of its key, or to the own group of its object.
//!
//! What is known of own groups may be old. Whoever is asked wrongly says so: the volume tells of the group, and a group
//! that has ended sends back to the volume. Each costs one hop.

use hashbrown::HashMap;
use quorate_object::{Command, Outcome};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::{Epoch, GroupId, NodeId, Slot};

use super::Host;
use super::directory::{Missing, Place};
use super::group::Group;
use super::own::BIRTH_EPOCH;
use crate::answer::Answer;
use crate::entry::{Purpose, Target};
use crate::envelope::Envelope;
use crate::frame::Access;
use crate::hash::FixedState;
use crate::own_place::OwnPlace;
use crate::register::NOT_IN_ONE_STEP;
use crate::replica::Protocol;
use crate::root::Reads;
use crate::volume::{Record, own_group, volume_of};

/// Own groups whose members are remembered, where this node is no member of their volume.
const REMEMBERED_MAX: usize = 1 << 16;

/// For how long it is believed that an object is in a group without a quorum, and of how many groups.
const CONFIRMED_US: u64 = 1_000_000;
const CONFIRMED_MAX: usize = 1 << 12;

/// Where a command is to go.
pub(super) struct Route {
    pub group: GroupId,
    /// Of a register group, the start of the member that is asked: see [`crate::frame::Message::Request`].
    pub epoch: Epoch,
    pub coordinator: NodeId,
    /// Whoever is asked is the only one that may be asked again.
    pub binds: bool,
}

pub(super) enum NoRoute {
    Loading,
    NoNamespace,
    NoQuorum,
    /// Whoever is to be asked is suspected, and a chain without it will come.
    Changing,
    /// Whoever may have carried the write out was started anew since, and knows nothing of it.
    Lost,
}

/// Own groups by namespace and name.
pub(super) type Remembered = HashMap<(u32, Vec<u8>), OwnPlace, FixedState>;

impl Host {
    /// Where a command goes.
    pub(super) fn route_for(
        &self,
        access: Access,
        target: Target,
        own: Option<&OwnPlace>,
        told: Option<NodeId>,
        bound: Option<(NodeId, u32)>,
    ) -> Result<Route, NoRoute> {
        let Ok(place) = self.directory.resolve(target) else { return self.route(target, own, told) };
        let of_own = own.and_then(|own| own.led.as_ref().map(|led| place.of_own(own.protocol, led)));
        let place = match (own, &of_own) {
            (Some(_), Some(of_own)) => of_own,
            (Some(_), None) => return self.route(target, own, told),
            (None, _) => place,
        };
        match place.protocol {
            Protocol::Paxos => self.route(target, None, told),
            Protocol::Chain => self.route_to_chain(place, access, told),
            Protocol::Register => self.route_to_register(place, access, told, bound),
        }
    }

    /// The head orders writes, and the tail, or any member, answers reads.
    fn route_to_chain(&self, place: &Place, access: Access, told: Option<NodeId>) -> Result<Route, NoRoute> {
        let (group, me) = (place.group, self.settings.node);
        let here = self.find(group).map(|index| &self.groups[index as usize]);
        // The replica here may have heard of a change first.
        let adopted = here.and_then(|group| group.replica.chain()).map(|chain| chain.membership().clone());
        let newer = adopted.filter(|membership| membership.epoch > place.epoch);
        let members = newer.as_ref().map_or(&place.members[..], |membership| &membership.members);
        let live = |node: NodeId| match here {
            Some(group) if node == me => group.is_alive(),
            _ => node == me || !self.peers.is_suspected(node),
        };
        if !members.iter().any(|&member| live(member)) {
            return Err(NoRoute::NoQuorum);
        }
        let spread = place.reads == Reads::Apportioned && access == Access::ReadLease;
        let coordinator = match told.filter(|node| members.contains(node)) {
            Some(node) => node,
            None if access == Access::Write => members[0],
            None if spread && members.contains(&me) => me,
            None if spread => {
                let first = (u64::from(me.0) + group.0) as usize;
                let turn = (0..members.len()).map(|step| members[(first + step) % members.len()]);
                turn.into_iter().find(|&member| live(member)).unwrap_or(members[0])
            }
            None => members[members.len() - 1],
        };
        // The epoch travels with what the replicas say to each other.
        let route = Route { group, epoch: Epoch(0), coordinator, binds: false };
        if live(coordinator) { Ok(route) } else { Err(NoRoute::Changing) }
    }

    pub(super) fn route(&self, target: Target, own: Option<&OwnPlace>, told: Option<NodeId>) -> Result<Route, NoRoute> {
        let place = self.directory.resolve(target).map_err(|missing| match missing {
            Missing::Everything => NoRoute::Loading,
            Missing::Namespace => NoRoute::NoNamespace,
        })?;
        let (group, epoch, members, hint) = match own {
            Some(own) => (own.group, BIRTH_EPOCH, &own.members[..], None),
            None => (place.group, place.epoch, &place.members[..], place.hint),
        };
        let here = self.find(group).map(|index| &self.groups[index as usize]);
        let live = |node: NodeId| match here {
            Some(group) if node == self.settings.node => !group.state.is_silent(),
            Some(group) if group.replica.is_silent(node) => false,
            None if node == self.settings.node && self.is_kept_from_birth(group) => false,
            // The root may be on nodes that are not known yet.
            _ if matches!(target, Target::Root) && node != self.settings.node && !self.is_peer(node) => false,
            _ => node == self.settings.node || !self.peers.is_suspected(node),
        };
        let alive: u64 = (0..members.len()).filter(|&at| live(members[at])).map(|at| 1 << at).sum();
        if !QuorumSystem::Majority.is_write_quorum(members.len(), alive) {
            return Err(NoRoute::NoQuorum);
        }
        // The replica here may follow a coordinator that has stepped back since, and hears of no other before a command
        // reaches that one: whoever is told of it goes there.
        let believed = match (told, here) {
            (Some(node), _) => node,
            (None, Some(group)) if group.is_alive() => group.replica.coordinator().unwrap_or(members[0]),
            (None, _) => hint.or_else(|| self.here.resting.coordinator(group)).unwrap_or(members[0]),
        };
        let at = members.iter().position(|&member| member == believed).unwrap_or(0);
        // Where the coordinator is gone, the next live member in order takes over.
        let coordinator = (0..members.len())
            .map(|step| members[(at + step) % members.len()])
            .find(|&member| live(member))
            .unwrap_or(believed);
        Ok(Route { group, epoch, coordinator, binds: false })
    }

    /// The own group of a key's object, as far as this node knows.
    pub(super) fn find_own(&self, target: Target, key: Option<&[u8]>) -> Option<Box<OwnPlace>> {
        let (Target::Slot { namespace, .. }, Some(key)) = (target, key) else { return None };
        let place = self.directory.resolve(target).ok()?;
        let Some(volume) = self.find(place.group).map(|index| &self.groups[index as usize]) else {
            if self.remembered.is_empty() {
                return None;
            }
            return self.remembered.get(&(namespace, key.to_vec())).cloned().map(Box::new);
        };
        let record = Record::decode(&volume.machine.objects()?.away(key)?).ok()?;
        Some(Box::new(OwnPlace::new(place.group, record, &place.members)))
    }

    /// The volume tells that the operation's object has a group of its own.
    pub(super) fn handle_away(&mut self, number: u64, volume: GroupId, slot: Slot, record: &[u8]) {
        let Ok(record) = Record::decode(record) else {
            self.counters.nonsense += 1;
            return;
        };
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        // Two coordinators of the volume, one after the other, may both tell of one copy of a write; each of one slot.
        if operation.access != Access::Write || operation.away_at < Some(slot) {
            operation.away_at = Some(slot);
            operation.copies_at_large = operation.copies_at_large.saturating_sub(1);
        }
        if operation.away_number < Some(record.number) {
            operation.away_number = Some(record.number);
            operation.count_anew();
        }
        let (target, group) = (operation.target, own_group(volume, record.number));
        let is_refused = operation.refused_by == Some(group);
        let is_of_volume = self.directory.resolve(target).is_ok_and(|place| place.group == volume);
        // One that is to become another goes on until it is its turn to stop, and turns back then whoever comes: but for what it has
        // refused it does nothing.
        let goes_on = !record.stopping || record.becomes.is_some() && !is_refused;
        if !is_of_volume || !goes_on {
            self.go_by_volume(number);
            self.retry_later(number);
            return self.await_end(number, group);
        }
        if is_refused {
            return self.complete(number, Answer::Outcome(Outcome::Error(NOT_IN_ONE_STEP.into())));
        }
        let Ok(place) = self.directory.resolve(target) else { return };
        let own = OwnPlace::new(volume, record, &place.members);
        if self.find(volume).is_none() {
            self.remember(number, target, &own);
        }
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        // Another one each time: who was asked before may not be there yet.
        let turn = own.members[operation.attempts as usize % own.members.len()];
        operation.told = Some(turn).filter(|_| own.protocol.is_register());
        operation.own = Some(Box::new(own));
        // After that it has been there before, and was not known yet, or not any more.
        if operation.attempts > 2 { self.retry_later(number) } else { self.retry_after(number, 0) }
    }

    /// Whether an operation was refused by a register that is its object's own group, and goes to the volume with that. What the
    /// register is about to become, or has become already, may carry the command out.
    pub(super) fn is_refused_for_now(&mut self, number: u64, outcome: &Outcome) -> bool {
        if !matches!(outcome, Outcome::Error(text) if text == NOT_IN_ONE_STEP) {
            return false;
        }
        let Some(operation) = self.operations(number).find_mut(number) else { return false };
        let register = operation.own.as_ref().filter(|own| own.protocol.is_register()).map(|own| own.group);
        // With more copies of it under way, nobody could tell later which of them was settled.
        if register.is_none() || operation.was_sent_to != register || operation.copies_at_large != 1 {
            return false;
        }
        (operation.copies_at_large, operation.bound_to, operation.refused_by) = (0, None, register);
        self.go_by_volume(number);
        self.retry_after(number, 0);
        true
    }

    fn remember(&mut self, number: u64, target: Target, own: &OwnPlace) {
        if let Some(place) = self.place_name(number, target) {
            if self.remembered.len() >= REMEMBERED_MAX {
                self.remembered.clear();
            }
            self.remembered.insert(place, own.clone());
        }
    }

    /// The operation goes to its key's volume next, which knows where the object is.
    pub(super) fn go_by_volume(&mut self, number: u64) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        let target = operation.target;
        if operation.own.take().is_some()
            && !self.remembered.is_empty()
            && let Some(place) = self.place_name(number, target)
        {
            self.remembered.remove(&place);
        }
    }

    /// Whether an operation's object may have left its own group without this node having heard of it, and the volume can tell:
    /// the replica here is behind, or there is none.
    pub(super) fn may_have_left(&mut self, number: u64, target: Target, group: GroupId) -> bool {
        let told = self.operations(number).find(number).and_then(|operation| operation.away_number);
        let is_told = volume_of(group).is_some_and(|(_, own_number)| told >= Some(own_number));
        let Ok(volume) = self.route(target, None, None) else { return false };
        let is_up_to_date = |here: &Group| {
            let is_led = here.replica.coordinator().is_some_and(|node| !self.peers.is_suspected(node));
            is_led && here.replica.in_flight() == 0 && here.is_alive()
        };
        let here = self.find(volume.group).map(|index| &self.groups[index as usize]);
        !is_told && !self.is_place_confirmed(group) && !here.is_some_and(|here| is_up_to_date(here))
    }

    /// An operation is refused, perhaps because its volume has said where its object is: for a while others need not ask.
    pub(super) fn note_place_confirmed(&mut self, number: u64, group: GroupId) {
        let told = self.operations(number).find(number).and_then(|operation| operation.away_number);
        if told.is_none() || told != volume_of(group).map(|(_, own_number)| own_number) {
            return;
        }
        if self.confirmed.len() >= CONFIRMED_MAX {
            self.confirmed.clear();
        }
        self.confirmed.insert(group, self.clock.now());
    }

    fn is_place_confirmed(&self, group: GroupId) -> bool {
        let until = self.confirmed.get(&group).map(|at| at.after_us(CONFIRMED_US));
        until.is_some_and(|until| self.clock.now() < until)
    }

    /// An own group that its volume leads may have other members by now: the operation is to know what this node knows.
    pub(super) fn look_again(&mut self, number: u64) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        let target = operation.target;
        if operation.own.as_ref().is_none_or(|own| own.led.is_none()) {
            return;
        }
        let Some((_, key)) = self.place_name(number, target) else { return };
        let is_volume_here = self.directory.resolve(target).is_ok_and(|place| self.find(place.group).is_some());
        if !is_volume_here {
            return self.go_by_volume(number);
        }
        let own = self.find_own(target, Some(&key));
        if let Some(operation) = self.operations(number).find_mut(number) {
            operation.own = own;
        }
    }

    fn place_name(&mut self, number: u64, target: Target) -> Option<(u32, Vec<u8>)> {
        let Target::Slot { namespace, .. } = target else { return None };
        let operation = self.operations(number).find_mut(number)?;
        let envelope = Envelope::take(&mut &operation.envelope[..])?;
        let key = Command::decode(envelope.command).ok()?.key()?.to_vec();
        Some((namespace, key))
    }

    /// The number of the own group of an operation's object, as the replica of its volume here has it.
    pub(super) fn own_number_of(&mut self, number: u64) -> Option<u64> {
        let target = self.operations(number).find_mut(number)?.target;
        let (_, key) = self.place_name(number, target)?;
        let (_, own) = volume_of(self.find_own(target, Some(&key))?.group)?;
        Some(own)
    }

    /// An operation was answered at this slot: a read behind it must see no older state.
    pub(super) fn bind_successor(&mut self, number: u64, slot: Slot) {
        let operations = self.operations(number);
        let Some(operation) = operations.find_mut(number) else { return };
        let (successor, place, moved) = (operation.successor, operation.was_sent_to, operation.has_moved);
        if let Some(successor) = successor.and_then(|successor| operations.find_mut(successor)) {
            successor.not_before = slot;
            // Slots of different groups cannot be compared.
            successor.is_doubtful |= moved || successor.was_sent_to.is_some_and(|group| Some(group) != place);
        }
    }

    /// An operation has the answer of another one, in whatever group that was: an answer to a read behind it that is on its way
    /// may be older.
    pub(super) fn doubt_successor(&mut self, number: u64) {
        let operations = self.operations(number);
        let successor = operations.find_mut(number).and_then(|operation| operation.successor);
        if let Some(successor) = successor.and_then(|successor| operations.find_mut(successor)) {
            successor.is_doubtful = true;
        }
    }

    /// Asks again, as another operation, what this read asked: whatever is still on its way to it is too old. One that is
    /// answered here while it is being sent is asked again by whoever sends it.
    pub(super) fn ask_anew(&mut self, number: u64) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        operation.is_asked_anew = true;
        let (target, access) = (operation.target, operation.access);
        let Some(envelope) = Envelope::take(&mut &operation.envelope[..]) else { return };
        let command = envelope.command.to_vec();
        self.submit_bytes(target, access, &command, Purpose::Again { operation: number });
    }

    pub(super) fn submit_bytes(&mut self, target: Target, access: Access, command: &[u8], purpose: Purpose) {
        let number = self.internals.number_next();
        self.open_operation(number, target, None, access, 0, purpose, |out| out.extend_from_slice(command));
    }
}
