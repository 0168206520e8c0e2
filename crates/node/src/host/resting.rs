//! Own groups that nobody uses cost nothing.
//!
//! An own group here is *awake*: a whole replica with its machine; *resting*: some tens of bytes in memory; or *paused*: a
//! record in the checkpoint store and one bit here. It comes to rest once it has been quiet for long enough, or too many
//! are awake, and the store holds all that it is: what rests in memory is a copy of that, and may leave at any time. What
//! comes for it wakes it, with one look-up by the environment if it is paused; until that is answered what came waits, as it
//! does for groups that are being born. See docs/decisions/0019.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;
use quorate_checkpoint::{Key, Store, StoreError};
use quorate_protocol::chain::Chain;
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{Configuration, Cx, Event, GroupId, Instant, NodeId, Slot};
use quorate_wal::Lsn;
use roaring::RoaringTreemap;

use super::checkpoints::name_of;
use super::expired::Expired;
use super::group::{CheckpointState, Group, Own};
use super::led::own_groups_of;
use super::lookups::Lookup;
use super::losses::Losses;
use super::quarantine::isolate;
use super::steps::next_random;
use super::stranded::is_accepted_at;
use super::{Host, Timer};
use crate::group_state::GroupState;
use crate::hash::FixedState;
use crate::planted::{self, Planted};
use crate::replica::{AnyRecord, AnyReplica, Position};
use crate::rest::{Kin, Rest, RestOf, Resting, StoredHead, glance};
use crate::results::Results;
use crate::volume::volume_of;

/// Groups looked at for coming to rest in one turn ...
const PER_TURN: usize = 512;
/// ... and in one that has executed commands: who waits for an answer does not wait for those that rest. As many more as came
/// awake in it, so that those awake do not become more and more.
const PER_TURN_IN_USE: usize = 64;
/// A group that is used so often is not told to rest because others are awake too.
const BUSY_US: u64 = 100_000;
/// A group with more results than this, or larger ones, rests once they are forgotten.
const RESULTS_AT_REST_MAX: usize = 16;
const RESULTS_BYTES_AT_REST_MAX: usize = 1 << 20;
/// What takes more is paused at once.
const RESTING_BYTES_MAX: usize = 64 << 10;

impl OwnHere {
    /// How many paused groups are being looked up.
    pub(super) fn sought_count(&self) -> usize {
        self.sought.len()
    }
}

#[derive(Default)]
pub(super) struct OwnHere {
    /// Every own group that was born here and has not ended.
    pub(super) all: RoaringTreemap,
    pub(super) resting: Resting,
    /// Born a moment ago: most groups that are created by the thousand are not used at once.
    newborn: VecDeque<(u32, GroupId)>,
    /// Awake groups with nothing in hand, and since when.
    quiet: VecDeque<(Instant, u32, GroupId)>,
    /// Awake groups, more or less in the order in which they were used last.
    awake: VecDeque<(u32, GroupId)>,
    pub(super) awake_count: usize,
    /// Of those, how many were not in the turn before, and what had been executed by then.
    came_awake: usize,
    commands_before: u64,
    /// Those of them that are chains, and their places.
    pub(super) chains: BTreeMap<GroupId, u32>,
    /// Awake groups that lack a quorum, and since when.
    pub(super) stranded: VecDeque<(Instant, u32, GroupId)>,
    /// Groups in which something expires, that lacked a quorum when they came to rest. Once any node has come back, nobody
    /// knows any more whether they still do.
    pub(super) without_quorum: RoaringTreemap,
    is_timer_set: bool,
    /// Paused groups that are being looked up.
    sought: HashMap<GroupId, Instant, FixedState>,
    /// When what expires next in groups that are not awake is looked at.
    pub(super) expiries: HashMap<GroupId, Instant, FixedState>,
    pub(super) expired: Expired,
    pub(super) losses: Losses,
}

/// Where the own groups of a node are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCounts {
    /// With something in hand, or used a moment ago.
    pub active: usize,
    /// With nothing in hand, awake or at rest in memory.
    pub idle: usize,
    /// What those at rest take in memory, but for the table around them.
    pub resting_bytes: usize,
    /// In the checkpoint store only.
    pub paused: usize,
    /// Of volumes here: records whose names are in the checkpoint store only.
    pub records_swapped: usize,
}

/// A paused group's record, and its object if that has a place of its own.
#[derive(Clone, Debug)]
pub(super) struct Paused {
    record: Vec<u8>,
    object: Option<Vec<u8>>,
}

/// Reads what [`Host::found_paused`] is to be told.
pub(super) fn read_paused(store: &impl Store, group: GroupId) -> Result<Option<Paused>, StoreError> {
    let Some(record) = store.get(group.0, Key::Meta)? else { return Ok(None) };
    let apart = glance(&record).ok().and_then(|glance| glance.name_if_apart);
    let object = match apart {
        Some(name) => store.get(group.0, Key::Object(&name_of(&name)))?,
        None => None,
    };
    Ok(Some(Paused { record, object }))
}

impl Paused {
    /// The group, and the start of the node in which it was stored.
    pub(super) fn revive(&self, group: GroupId, me: NodeId) -> Result<(Group, u32, bool), Malformed> {
        let mut reader = Reader::new(&self.record);
        let StoredHead { kin, start, covered_below, accepted } = StoredHead::take(&mut reader)?;
        let mut rest = Rest::decode(&kin, reader)?;
        if rest.is_apart {
            let missing = Malformed::UnknownTag { of: "object that is not there", tag: 0 };
            let object = self.object.as_ref().ok_or(missing)?;
            let objects = rest.machine.objects_mut().ok_or(missing)?;
            objects.restore_object(&rest.name, object).map_err(|_| missing)?;
        }
        let coordinating = rest.coordinating;
        let mut group = revived(group, kin, rest, me, covered_below)?;
        group.checkpoint.holds_accepted = !accepted.is_empty();
        for record in accepted {
            if !is_accepted_at(group.replica.next_slot(), &record) {
                return Err(Malformed::UnknownTag { of: "slot of an own group at rest", tag: 0 });
            }
            group.replica.restore_record(AnyRecord::Paxos(record), Slot(0));
        }
        Ok((group, start, coordinating))
    }
}

fn revived(id: GroupId, kin: Kin, rest: Rest, me: NodeId, covered_below: Lsn) -> Result<Group, Malformed> {
    if !kin.members.contains(&me) {
        return Err(Malformed::UnknownTag { of: "member of an own group", tag: 0 });
    }
    let protocol = kin.protocol();
    let Kin { namespace, durability, hash_key, epoch, members, chain: _ } = kin;
    let configuration = Configuration { group: id, epoch, members, quorum: QuorumSystem::Majority };
    let mut group = Group::new(protocol, configuration, namespace, durability, hash_key, rest.machine, me);
    group.own = Own::of(id, &rest.name);
    group.state = rest.state;
    let (next_slot, coordinating) = (rest.position.next_slot(), rest.coordinating);
    match rest.position {
        Position::Chain(position) => group.replica = AnyReplica::Chain(Box::new(Chain::resumed(position, me))),
        Position::Paxos(mut position) => {
            if planted::is(Planted::WakeForgetsPromise) {
                position.promised.number = 0;
                position.promised.node = group.configuration.members[0];
            }
            group.replica.restore(Position::Paxos(position));
        }
        Position::Register(_) => {}
    }
    group.checkpoint = CheckpointState {
        next_slot,
        covered_below,
        coordinating,
        is_record: true,
        apart: rest.is_apart,
        ..CheckpointState::default()
    };
    Ok(group)
}

/// Whether these may stand in a group's one record.
pub(super) fn fit_at_rest(results: &Results) -> bool {
    results.len() <= RESULTS_AT_REST_MAX && results.bytes() <= RESULTS_BYTES_AT_REST_MAX
}

pub(super) fn kin_of(group: &Group) -> Kin {
    Kin {
        namespace: group.namespace,
        durability: group.durability,
        hash_key: group.hash_key,
        epoch: group.configuration.epoch,
        members: group.configuration.members.clone(),
        chain: group.replica.chain().map(|chain| chain.membership().clone()),
    }
}

impl Host {
    /// The place of a group that is awake, or rested in memory. If it is paused a look-up begins: what came for it is to wait.
    pub(super) fn rouse(&mut self, group: GroupId) -> Option<u32> {
        if let Some(index) = self.find(group) {
            return Some(index);
        }
        volume_of(group)?;
        if let Some(bytes) = self.here.resting.take(group) {
            return self.wake_resting(group, &bytes);
        }
        if self.here.all.contains(group.0) && !self.own.lost.contains(&group) && !self.here.sought.contains_key(&group)
        {
            self.here.sought.insert(group, self.clock.now());
            self.lookups.push(Lookup::Paused(group));
        }
        None
    }

    pub(super) fn is_sought(&self, group: GroupId) -> bool {
        self.here.sought.contains_key(&group)
    }

    /// What the checkpoint store holds of a paused group.
    pub(super) fn found_paused(&mut self, id: GroupId, found: Result<Option<Paused>, String>) {
        // It may have ended meanwhile.
        if self.here.sought.remove(&id).is_none() {
            return;
        }
        let revived = match found {
            Ok(Some(paused)) => isolate(|| paused.revive(id, self.settings.node))
                .and_then(|revived| revived.map_err(|malformed| malformed.to_string())),
            Ok(None) => Err("it is not there".to_owned()),
            Err(error) => Err(error),
        };
        match revived {
            Ok((mut group, start, coordinating)) => {
                let is_of_this_start = start == self.settings.start;
                if !is_of_this_start {
                    self.here.losses.judge(&mut group, start);
                }
                if let (GroupState::Forgetful, Some((volume, _))) = (group.state, volume_of(id)) {
                    self.renew_own_groups_of(volume);
                }
                group.resume(coordinating && is_of_this_start);
                self.counters.woken_from_store += 1;
                let index = self.admit_awake(group);
                self.log_accepted_again(index);
                if !self.groups[index as usize].replica.is_idle() {
                    self.plan(index, Event::Woken);
                }
                self.deliver_mail(index, id);
            }
            Err(why) => {
                self.note_damage(format!("the checkpoint of group {} cannot be read: {why}", id.0));
                self.own.lost.insert(id);
                self.return_mail(id);
            }
        }
    }

    fn wake_resting(&mut self, id: GroupId, bytes: &[u8]) -> Option<u32> {
        let covered_below = self.wal.durable();
        let revived = self.here.resting.decode(bytes).and_then(|(kin, rest)| {
            let coordinating = rest.coordinating;
            Ok((revived(id, kin, rest, self.settings.node, covered_below)?, coordinating))
        });
        // It was encoded here, in this run; should that ever fail, the store still has it.
        let (mut group, coordinating) = revived.ok()?;
        group.resume(coordinating);
        self.counters.woken_from_memory += 1;
        Some(self.admit_awake(group))
    }

    /// A group takes its place among those awake.
    pub(super) fn admit_awake(&mut self, mut group: Group) -> u32 {
        let id = group.id();
        group.used_at = self.clock.now();
        group.expiry_timer = self.here.expiries.remove(&id);
        self.here.without_quorum.remove(id.0);
        let index = self.groups.insert(Box::new(group)) as u32;
        self.index.insert(id, index);
        self.note_awake(index);
        self.arm_timers_after_apply(index);
        self.expire_if_due(index);
        self.tell_woken(index);
        self.note_quiet(index);
        index
    }

    /// Notes a new own group among those awake.
    pub(super) fn note_awake(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let (id, protocol) = (group.id(), group.replica.protocol());
        if volume_of(id).is_some() {
            self.here.all.insert(id.0);
            self.here.awake.push_back((index, id));
            self.here.awake_count += 1;
            self.here.came_awake += 1;
            if protocol.is_chain() {
                self.here.chains.insert(id, index);
            }
        }
    }

    /// A group that is not used between its birth and the end of this turn, or some later one, need not be awake.
    pub(super) fn note_newborn(&mut self, index: u32, id: GroupId) {
        self.here.newborn.push_back((index, id));
    }

    /// After a step: a group with nothing in hand may come to rest after a while, and so may one that lacks a quorum.
    pub(super) fn note_quiet(&mut self, index: u32) {
        let Some(group) = self.groups.get_mut(index as usize).filter(|group| group.rests()) else { return };
        let is_idle =
            group.replica.is_idle() || planted::is(Planted::ChainRestsInFlight) && group.replica.protocol().is_chain();
        if !is_idle {
            return self.note_stranded(index);
        }
        if !std::mem::replace(&mut group.is_quiet, true) {
            self.here.quiet.push_back((self.clock.now(), index, group.configuration.group));
        }
    }

    /// Some of the groups that have been quiet for long come to rest, or, where too many are awake, of those unused for longest.
    pub(super) fn rest_some(&mut self) {
        let now = self.clock.now();
        let mut left = self.rests_per_turn();
        while left > 0
            && let Some((index, group)) = self.here.newborn.pop_front()
        {
            left -= 1;
            if self.find(group) == Some(index) {
                self.note_quiet(index);
                self.try_rest(index);
            }
        }
        self.pause_stranded(&mut left);
        // Who may not rest goes to the end of its list: each is looked at once in a turn.
        for _ in 0..self.here.quiet.len().min(left) {
            let Some(&(since, index, group)) = self.here.quiet.front() else { break };
            if since.after_us(self.settings.rest_after_us) > now && !self.is_crowded() {
                break;
            }
            self.here.quiet.pop_front();
            left -= 1;
            if self.find(group) == Some(index) {
                self.groups[index as usize].is_quiet = false;
                self.try_rest(index);
            }
        }
        for _ in 0..self.here.awake.len().min(left) {
            if !self.is_crowded() {
                break;
            }
            let Some((index, group)) = self.here.awake.pop_front() else { break };
            if self.find(group) != Some(index) {
                continue;
            }
            self.here.awake.push_back((index, group));
            if self.groups[index as usize].used_at.after_us(BUSY_US) <= now && self.come_to_rest(index) {
                self.try_rest(index);
            }
        }
        self.shorten_lists();
        // Those born in between are looked at in the next turn, whatever it is for.
        if let Some((since, ..)) = self.here.quiet.front()
            && !std::mem::replace(&mut self.here.is_timer_set, true)
        {
            let at = since.after_us(self.settings.rest_after_us).max(now.after_us(1_000));
            self.timers.set(at, Timer::Rest);
        }
    }

    fn rests_per_turn(&mut self) -> usize {
        let commands = self.counters.commands_applied;
        let is_in_use = std::mem::replace(&mut self.here.commands_before, commands) != commands;
        let came = std::mem::take(&mut self.here.came_awake);
        if is_in_use { (PER_TURN_IN_USE + came).min(PER_TURN) } else { PER_TURN }
    }

    /// Groups that were born a moment ago and have not been looked at yet.
    pub(super) fn newborn_count(&self) -> usize {
        self.here.newborn.len()
    }

    pub(super) fn rest_timer_fired(&mut self) {
        self.here.is_timer_set = false;
    }

    /// Those that went to rest stay in the lists until they are many. Lists that were long once give back what they took.
    fn shorten_lists(&mut self) {
        let (index, here) = (&self.index, &mut self.here);
        let most = 2 * here.awake_count + PER_TURN;
        if here.awake.len() > most {
            here.awake.retain(|(at, group)| index.get(group) == Some(at));
        }
        if here.quiet.len() > most {
            here.quiet.retain(|(_, at, group)| index.get(group) == Some(at));
        }
        if here.stranded.len() > most {
            here.stranded.retain(|(_, at, group)| index.get(group) == Some(at));
        }
        if here.awake.capacity() > 4 * most {
            here.stranded.shrink_to(most);
            here.awake.shrink_to(most);
            here.quiet.shrink_to(most);
            here.newborn.shrink_to(most);
            self.index.shrink_to(most);
        }
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.here.awake_count > self.settings.awake_max
    }

    /// Asks the replica to give up what it has in hand, if nothing is lost with it.
    pub(super) fn come_to_rest(&mut self, index: u32) -> bool {
        let cx = Cx {
            me: self.settings.node,
            now: self.clock.now(),
            stamp: self.clock.stamp(),
            random: next_random(&mut self.random),
            peers: &self.peers,
            wants_frontiers: self.groups[index as usize].wants_frontiers(),
            proposes_late: false,
            nonsense_count: &mut self.counters.nonsense,
        };
        match &mut self.groups[index as usize].replica {
            AnyReplica::Paxos(replica) => replica.rest(&cx),
            AnyReplica::Chain(replica) => replica.is_idle(),
            AnyReplica::Register(_) => false,
        }
    }

    /// Puts a group to rest if the store holds what it is, and sees to it otherwise.
    pub(super) fn try_rest(&mut self, index: u32) {
        if !self.may_rest(index) {
            self.look_whether_gone(index);
            // A checkpoint of it is under way, or what it waits for comes without a step: it is looked at again.
            return self.note_quiet(index);
        }
        if self.is_stored(index) {
            return self.put_to_rest(index);
        }
        self.groups[index as usize].rests_once_stored = true;
        self.want_checkpoint_now(index);
    }

    /// A checkpoint of the group is stored.
    pub(super) fn rest_once_stored(&mut self, index: u32) {
        let wanted = std::mem::take(&mut self.groups[index as usize].rests_once_stored);
        if wanted && self.may_rest(index) && self.is_stored(index) {
            self.put_to_rest(index);
        }
    }

    fn may_rest(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        let has_object = group.machine.objects().is_some_and(|objects| objects.count() > 0);
        group.is_alive()
            && group.rests()
            // An object that is gone, or a last command, is yet to be told of.
            && has_object
            && !group.replica.is_stopped()
            && (group.replica.is_idle()
                || group.is_aside()
                || planted::is(Planted::ChainRestsInFlight) && group.replica.protocol().is_chain())
            // Its tail may yet have to tell the parent that who joins holds everything.
            && group.replica.chain().is_none_or(|chain| chain.membership().joining.is_none())
            && group.gathered.is_empty()
            && group.due_reads.is_empty()
            && !group.checkpoint.under_way
            && (group.is_aside() || fit_at_rest(group.machine.results()))
            && !self.own.late.contains(group.id())
            && !self.transfers.concern(group.id())
    }

    /// Whether the store holds everything of the group.
    fn is_stored(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        let checkpoint = &group.checkpoint;
        let is_current = checkpoint.is_record
            && !checkpoint.changed
            && !checkpoint.whole
            && checkpoint.next_slot == group.replica.next_slot()
            && (!group.is_aside() || checkpoint.holds_accepted)
            && checkpoint.coordinating == group.replica.is_coordinating();
        is_current || planted::is(Planted::RestsBeforeItIsStored) && checkpoint.is_record
    }

    fn put_to_rest(&mut self, index: u32) {
        let group = self.groups.remove(index as usize);
        let id = group.id();
        self.index.remove(&id);
        self.here.awake_count -= 1;
        self.here.chains.remove(&id);
        self.silence_told.remove(&id);
        if let Some(at) = group.expiry_timer {
            self.here.expiries.insert(id, at);
            if self.lacks_quorum(&group, self.clock.now()) {
                self.here.without_quorum.insert(id.0);
            }
        }
        self.counters.rested += 1;
        if group.is_aside() {
            return self.release_accepted(id);
        }
        let Some(own) = group.own() else { return };
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        self.here.resting.head(id, &kin_of(&group), &mut bytes);
        let object = group.machine.objects().and_then(|objects| objects.encoded(&own.name));
        let position = group.replica.position();
        let coordinating = group.replica.is_coordinating();
        let rest =
            RestOf { position: &position, coordinating, state: group.state, name: &own.name, machine: &group.machine };
        rest.encode(object.as_deref(), false, &mut bytes);
        if bytes.len() <= RESTING_BYTES_MAX {
            self.here.resting.insert(&bytes);
        }
        self.scratch = bytes;
        while self.here.resting.bytes() > self.settings.resting_bytes_max
            && let Some(leaves) = self.here.resting.next_to_leave()
        {
            self.here.resting.take(leaves);
        }
    }

    /// An own group has ended: it is nowhere any more. False if it was not here.
    pub(super) fn remove_own(&mut self, id: GroupId) -> bool {
        if !self.here.all.remove(id.0) {
            return false;
        }
        if let Some(index) = self.index.remove(&id) {
            self.groups.remove(index as usize);
            self.here.awake_count -= 1;
            self.here.chains.remove(&id);
        }
        self.here.resting.take(id);
        self.here.expiries.remove(&id);
        self.here.without_quorum.remove(id.0);
        if self.here.sought.remove(&id).is_some() {
            self.return_mail(id);
        }
        true
    }

    /// The numbers of a volume's own groups that are here.
    pub(super) fn numbers_here(&self, volume: GroupId) -> impl Iterator<Item = u64> {
        let range = own_groups_of(volume);
        let mut groups = self.here.all.iter();
        groups.advance_to(range.start().0);
        groups.map(GroupId).take_while(move |group| range.contains(group)).filter_map(|group| Some(volume_of(group)?.1))
    }

    /// Every own group that was born here and has not ended.
    pub fn own_groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.here.all.iter().map(GroupId)
    }

    /// When something expires in a group that is not awake.
    pub(super) fn arm_expiry_of_paused(&mut self, group: GroupId, at: Instant) {
        self.here.expiries.insert(group, at);
        self.expiries.set(at, group);
    }

    /// Wakes every own group, and lets none rest from now on, nor any record leave memory: for a simulator that compares replicas.
    pub fn wake_all(&mut self) {
        self.settings.rest_after_us = u64::MAX / 4;
        self.settings.awake_max = usize::MAX;
        for group in self.here.all.iter().collect::<Vec<_>>() {
            self.rouse(GroupId(group));
        }
        self.want_all_names();
    }

    /// Where a group is that has not ended, in a word. Where this node is no member of it, it tells of none that sleeps.
    pub(super) fn state_of_own(&self, group: GroupId) -> &'static str {
        match self.find(group).map(|index| self.groups[index as usize].replica.is_idle()) {
            Some(true) => "idle",
            None if self.here.resting.coordinator(group).is_some() => "idle",
            None if self.here.all.contains(group.0) => "paused",
            Some(false) | None => "active",
        }
    }

    pub fn own_counts(&self) -> OwnCounts {
        let (awake, resting) = (self.here.awake_count, self.here.resting.len());
        let quiet = self.here.quiet.len().min(awake);
        OwnCounts {
            active: awake - quiet,
            idle: resting + quiet,
            resting_bytes: self.here.resting.bytes(),
            paused: (self.here.all.len() as usize).saturating_sub(awake + resting),
            records_swapped: self.records_swapped(),
        }
    }
}
