//! Own groups whose replicas here cannot speak begin anew: their volumes end them, and have others of the same members and the same
//! protocol go on with what they have come to ([decision 0006](../../../../docs/decisions/0006-durability.md)).
//!
//! Whoever cannot speak sees to it itself, for one volume after the other and some groups at a time, in rounds until there are
//! none left: clients wait some milliseconds for each, and a node may have very many.

use std::collections::BTreeMap;
use std::ops::Bound;

use quorate_protocol::{GroupId, NodeId};

use super::Host;
use crate::entry::Purpose;
use crate::group_state::GroupState;
use crate::quorum::Quorum;
use crate::record::GroupRecord;
use crate::volume::{Record, Renewed, VolumeCommand, own_group, volume_of};

/// Objects that are looked at with one heartbeat, and groups of these that may begin anew.
const LOOKED_AT: usize = 8192;
const RENEWED: usize = 128;
/// Heartbeats between two rounds: what could not begin anew, because others lack, is looked at again, ever more rarely as long as
/// nothing can.
const BEATS_MIN: u32 = 20;
const BEATS_MAX: u32 = 640;

#[derive(Default)]
pub(super) struct Renewals {
    volumes: BTreeMap<GroupId, Round>,
    /// The one that was seen to last.
    last: Option<GroupId>,
}

#[derive(Default)]
struct Round {
    /// The hash of the name that is looked at next.
    from: u64,
    /// Some cannot speak, of those that were looked at, and ...
    has_found: bool,
    /// ... some of them were asked to begin anew.
    has_asked: bool,
    /// The volume has not answered yet.
    is_asked: bool,
    beats_to_wait: u32,
    /// Before this round.
    waited: u32,
}

impl Round {
    fn next(&self) -> Round {
        let wait = if self.has_asked { BEATS_MIN } else { (2 * self.waited).clamp(BEATS_MIN, BEATS_MAX) };
        Round { beats_to_wait: wait, waited: wait, is_asked: self.is_asked, ..Round::default() }
    }
}

/// Where a round stands once some names have been looked at.
struct Looked {
    found: Vec<(u64, Vec<u8>)>,
    /// Others are to begin anew, once those are back who can end them.
    has_more: bool,
    /// `None` at the end of the round.
    next: Option<u64>,
}

impl Renewals {
    /// The volume is gone.
    pub(super) fn forget(&mut self, volume: GroupId) {
        self.volumes.remove(&volume);
    }
}

impl Host {
    /// Some own groups of this volume may have replicas here that cannot speak.
    pub(super) fn renew_own_groups_of(&mut self, volume: GroupId) {
        self.own.renewals.volumes.insert(volume, Round::default());
    }

    /// When the node is opened: which volumes have such.
    pub(super) fn find_renewals(&mut self) {
        let forgetful = self.groups().filter(|group| group.state == GroupState::Forgetful);
        let mut volumes: Vec<GroupId> = forgetful.filter_map(|group| Some(volume_of(group.id())?.0)).collect();
        volumes.extend(self.own.from_before.keys());
        volumes.into_iter().for_each(|volume| self.renew_own_groups_of(volume));
    }

    /// With every heartbeat.
    pub(super) fn tend_renewals(&mut self) {
        let volumes = &mut self.own.renewals.volumes;
        volumes.values_mut().for_each(|round| round.beats_to_wait = round.beats_to_wait.saturating_sub(1));
        if let Some(volume) = self.next_to_renew() {
            self.own.renewals.last = Some(volume);
            self.renew_some(volume);
        }
    }

    /// The volume of the round under way, whose names are in memory for it, or else the next one.
    fn next_to_renew(&self) -> Option<GroupId> {
        let Renewals { volumes, last } = &self.own.renewals;
        let is_alive = |volume| self.find(volume).is_some_and(|index| self.groups[index as usize].is_alive());
        let is_ready = |volume: GroupId, round: &Round| !round.is_asked && round.beats_to_wait == 0 && is_alive(volume);
        let begun = last.filter(|last| volumes.get(last).is_some_and(|round| round.from > 0 && is_ready(*last, round)));
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut in_turn = volumes.range((after, Bound::Unbounded)).chain(volumes.iter());
        begun.or_else(|| in_turn.find(|(volume, round)| is_ready(**volume, round)).map(|(volume, _)| *volume))
    }

    fn renew_some(&mut self, volume: GroupId) {
        let (Some(target), Some(index)) = (self.directory.target_of_volume(volume), self.find(volume)) else { return };
        if !self.want_names(index) {
            return;
        }
        let Some(from) = self.own.renewals.volumes.get(&volume).map(|round| round.from) else { return };
        let Some(Looked { found, has_more, next }) = self.look_for_unspeaking(index, from) else { return };
        // Births that an earlier start may have executed are found once they are executed, which a quiet volume does with its next
        // command: that comes from here then.
        let next_slot = self.groups[index as usize].replica.next_slot();
        let awaits_births = self.own.from_before.get(&volume).is_some_and(|before| before.slots_below > next_slot);
        let Some(round) = self.own.renewals.volumes.get_mut(&volume) else { return };
        round.is_asked = awaits_births || !found.is_empty();
        round.has_asked |= round.is_asked;
        round.has_found |= has_more || round.is_asked;
        let is_asked = round.is_asked;
        match next {
            Some(next) => round.from = next,
            None if round.has_found => *round = round.next(),
            None => drop(self.own.renewals.volumes.remove(&volume)),
        }
        if is_asked {
            let of_volume = self.groups[index as usize].configuration.members.iter().map(|node| node.0).collect();
            let renewed = Renewed { groups: found, volume: volume.0, of_volume };
            self.submit_to_volume(target, &VolumeCommand::Renew(renewed), Purpose::Renewed { volume });
        }
    }

    fn look_for_unspeaking(&self, index: u32, from: u64) -> Option<Looked> {
        let volume = &self.groups[index as usize];
        let objects = volume.machine.objects()?;
        let (names, next) = objects.away_among(from, LOOKED_AT);
        let mut looked = Looked { found: Vec::new(), has_more: false, next };
        for name in names {
            let Some(record) = objects.away(&name).and_then(|record| Record::decode(&record).ok()) else { continue };
            let members = record.member_ids(&volume.configuration.members);
            let group = own_group(volume.id(), record.number);
            // A chain leaves out who cannot speak, and takes it in again.
            let is_concerned =
                members.contains(&self.settings.node) && !record.stopping && !record.protocol().is_chain();
            if !is_concerned || !self.cannot_speak(group) {
                continue;
            }
            if !self.others_can_end(&record, &members) {
                looked.has_more = true;
            } else if looked.found.len() == RENEWED {
                looked.next = Some(objects.hash(&name));
                break;
            } else {
                looked.found.push((record.number, name));
            }
        }
        Some(looked)
    }

    /// Whether the other members are there who end the group without this one. A register that does not come to its end is not even
    /// read any more: where reads need fewer members than that, it is left as it is.
    fn others_can_end(&self, record: &Record, members: &[NodeId]) -> bool {
        self.can_end(record, members, Some(self.settings.node))
    }

    /// Whether enough members are there to end the group, one left out.
    pub(super) fn can_end(&self, record: &Record, members: &[NodeId], but: Option<NodeId>) -> bool {
        let quorum = record.led().map(GroupRecord::quorum).unwrap_or_default();
        let is_alike = match quorum {
            Quorum::Majority => true,
            Quorum::Threshold { read, write } => read == write,
            Quorum::Square | Quorum::Grid { .. } => false,
        };
        let is_there = |node: NodeId| Some(node) != but && !self.peers.is_suspected(node);
        if members.iter().all(|&node| is_there(node)) {
            return true;
        }
        let there = members.iter().enumerate().filter(|&(_, &node)| is_there(node));
        let there = there.fold(0, |there, (position, _)| there | 1 << position);
        is_alike && quorum.system(members.len()).is_write_quorum(members.len(), there)
    }

    /// Because it has forgotten what it said. What the store has of a damaged one may be more than it can delete.
    pub(super) fn cannot_speak(&self, group: GroupId) -> bool {
        match self.find(group) {
            Some(index) => self.groups[index as usize].state == GroupState::Forgetful,
            None => self.is_kept_for_good(group),
        }
    }

    /// The volume has answered. What it refused is found again in the next round.
    pub(super) fn take_renewed(&mut self, volume: GroupId) {
        if let Some(round) = self.own.renewals.volumes.get_mut(&volume) {
            round.is_asked = false;
        }
    }
}
