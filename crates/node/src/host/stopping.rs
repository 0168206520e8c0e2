//! How a volume's coordinator has own groups of it end: it asks their members, some groups at once, until each has told the
//! volume what it has come to.

use quorate_protocol::{Epoch, Event, GroupId, NodeId, Payload, Proposal};

use super::Host;
use super::own::BIRTH_EPOCH;
use crate::frame::Message;
use crate::volume::{Record, own_group};

/// Own groups that this node has asked to stop, and of which nothing has come back: with more, no other is asked, so that ten
/// thousand that end at once do not drown what clients do meanwhile.
const STOPPING_AT_ONCE: usize = 1_000;
/// Looked at for that, in one volume.
const STOPPING_SEEN_MAX: usize = 4 * STOPPING_AT_ONCE;
/// Who was asked to stop is asked again after this,
const STOP_AGAIN_US: u64 = 200_000;
/// ... and after twice as long each time, up to 2 to this power times as long: it may be at it, with many others.
const STOP_DOUBLINGS_MAX: u32 = 3;

impl Host {
    /// Own groups of the volume that have not ended yet, and were not asked to stop, or some time ago.
    pub(super) fn ask_all_to_stop(&mut self, volume: u32) {
        let Some(children) = self.groups[volume as usize].machine.children() else { return };
        let numbers: Vec<u64> = children.stopping.keys().take(STOPPING_SEEN_MAX).copied().collect();
        numbers.into_iter().for_each(|number| self.ask_to_stop(volume, number));
    }

    /// First whoever is believed to coordinate the group is asked, and then, with emphasis, all of its members.
    pub(super) fn ask_to_stop(&mut self, volume: u32, number: u64) {
        let now = self.clock.now();
        let group = own_group(self.groups[volume as usize].id(), number);
        let times = match self.own.asked.get(&group) {
            Some((at, times)) if at.after_us(stop_again_us(*times)) > now => return,
            Some((_, times)) => *times,
            None if self.own.asked.len() >= STOPPING_AT_ONCE => return,
            None => 0,
        };
        let Some((record, members)) = self.about_to_stop(volume, number) else { return };
        self.own.asked.insert(group, (now, times + 1));
        let epoch = record.led().map_or(BIRTH_EPOCH, |led| Epoch(led.epoch));
        let insist = times > 0;
        let here = self.find(group).and_then(|index| self.groups[index as usize].replica.coordinator());
        let first = here.unwrap_or(members[0]);
        // Whoever ends a register does all of it, so one after the other is asked.
        let only = record.protocol().is_register().then(|| self.in_turn(&members, number + u64::from(times)));
        let is_asked = |member: NodeId| only.map_or(insist || member == first, |only| member == only);
        for &member in members.iter().filter(|&&member| is_asked(member)) {
            if member == self.settings.node {
                self.handle_stop_group(group, epoch, insist);
            } else {
                self.outbox.send(member, &Message::StopGroup { group, epoch, insist });
            }
        }
    }

    /// One of these that is not suspected, if there is one.
    fn in_turn(&self, members: &[NodeId], turn: u64) -> NodeId {
        let at = |step: usize| members[(turn as usize + step) % members.len()];
        let is_live = |node: &NodeId| *node == self.settings.node || !self.peers.is_suspected(*node);
        (0..members.len()).map(at).find(is_live).unwrap_or(members[0])
    }

    /// The record of an own group that is to stop now, and its members.
    fn about_to_stop(&self, volume: u32, number: u64) -> Option<(Record, Vec<NodeId>)> {
        let group = &self.groups[volume as usize];
        let name = group.machine.children()?.stopping.get(&number)?;
        let record = Record::decode(&group.machine.objects()?.away(name)?).ok()?;
        let members = record.member_ids(&group.configuration.members);
        // A successor that is decided comes first: what is sealed does not move.
        let is_settled = record.led().is_none_or(|led| !led.is_moving());
        (record.number == number && is_settled).then_some((record, members))
    }

    pub(super) fn handle_stop_group(&mut self, group: GroupId, epoch: Epoch, insist: bool) {
        let Some(index) = self.rouse(group) else {
            // It is asked to stop again, once it is here.
            self.look_for(group);
            return;
        };
        let found = &self.groups[index as usize];
        if !found.is_alive() || found.own.is_none() {
            return;
        }
        match found.replica.register().map(|replica| replica.core()) {
            // A member that has not heard of all changes would be sealed in a configuration that is over.
            Some(core) if core.stages().len() > 1 || core.view().newest != epoch => {}
            Some(_) => self.end_register(index),
            None if found.replica.is_stopped() && insist => self.tell_final_state(index),
            None if found.replica.is_stopped() => {}
            None => self.plan(index, Event::Proposed(Proposal::Stop(Payload::from(&[][..])))),
        }
    }

    pub(super) fn forget_asked_to_stop(&mut self) {
        // Of volumes that another node coordinates by now, nothing comes back.
        let now = self.clock.now();
        self.own.asked.retain(|_, (at, times)| at.after_us(2 * stop_again_us(*times)) > now);
    }
}

/// After what wait who was asked to stop so often is asked again.
fn stop_again_us(times: u32) -> u64 {
    STOP_AGAIN_US << times.saturating_sub(1).min(STOP_DOUBLINGS_MAX)
}
