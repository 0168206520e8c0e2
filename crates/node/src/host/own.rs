//! Own groups on this node: how they are born, wait, end and are forgotten, and what a volume's coordinator does for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use quorate_protocol::id::{Content, Value};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::{Configuration, Epoch, Event, GroupId, Instant, NodeId, Proposal, Slot};
use quorate_wal::{Kind, Lsn, RECORD_BYTES_MAX};
use roaring::RoaringTreemap;

use super::births::encode_birth;
use super::group::{Group, Own};
use super::late::{BORN_PER_TURN, Late};
use super::led::{Led, parent_of};
use super::orphans::Orphans;
use super::outside::Outside;
use super::readmission::FromBefore;
use super::renewals::Renewals;
use super::stopping::Asked;
use super::{Host, Timer};
use crate::entry::Purpose;
use crate::envelope::Envelope;
use crate::frame::{Access, Bounce};
use crate::group_state::GroupState;
use crate::hash::FixedState;
use crate::machine::Machine;
use crate::planted::{self, Planted};
use crate::record::GroupRecord;
use crate::replica::{AnyMessage, AnyReplica, Protocol};
use crate::root::{Durability, ROOT};
use crate::volume::{Birth, Death, Frozen, OwnRecord, Record, Starting, VolumeCommand, own_group, volume_of};

/// What an own group's replicas are born with: the epochs of those that are led travel with what they say.
pub(super) const BIRTH_EPOCH: Epoch = Epoch(0);
/// How often coordinators of volumes look after own groups that begin or end.
pub(super) const SETTLE_US: u64 = 100_000;
/// What has come for groups that are not born yet is kept for so long, and up to so many messages.
const MAIL_PATIENCE_US: u64 = 400_000;
const MAIL_COUNT_MAX: usize = 16_384;

#[derive(Default)]
pub(super) struct OwnGroups {
    /// Born, and waiting for the log to hold that.
    unborn: VecDeque<(Lsn, u32, GroupId)>,
    /// What has come for groups that are not born here yet, but will be.
    mail: HashMap<GroupId, Vec<Mail>, FixedState>,
    mail_count: usize,
    /// Volumes of which own groups begin or end.
    unsettled: BTreeSet<GroupId>,
    /// Born later than the other members.
    pub(super) late: Late,
    is_timer_set: bool,
    pub(super) asked: Asked,
    /// Born here once, and nobody can read as what: they may have spoken, and must not be born again.
    pub(super) lost: BTreeSet<GroupId>,
    /// By volume: own groups that are not born here.
    pub(super) from_before: BTreeMap<GroupId, FromBefore>,
    /// Those that their volume leads, of all volumes of which this node has a replica.
    pub(super) led: BTreeMap<GroupId, Led>,
    /// What this node was a member of and is not any more, until it is forgotten: only then it may become one again.
    pub(super) leaving: BTreeSet<GroupId>,
    pub(super) outside: Outside,
    pub(super) orphans: Orphans,
    pub(super) renewals: Renewals,
}

/// What a replica of an own group takes from its volume.
pub(super) struct Parent {
    pub id: GroupId,
    pub members: Arc<[NodeId]>,
    pub namespace: u32,
    pub durability: Durability,
    pub hash_key: [u8; 16],
    /// The volume's replica here, if there is one.
    pub here: Option<u32>,
}

struct Mail {
    from: NodeId,
    epoch: Epoch,
    content: MailContent,
    arrived_at: Instant,
}

enum MailContent {
    Request { access: Access, envelope: Vec<u8> },
    Replica(AnyMessage),
}

/// What an own group's replicas are born with, given the volume's members.
pub(super) fn configuration_of(group: GroupId, record: &Record, volume: &[NodeId]) -> Configuration {
    let quorum = QuorumSystem::Majority;
    let born = || Configuration { group, epoch: BIRTH_EPOCH, members: record.member_ids(volume).into(), quorum };
    record.led().map_or_else(born, GroupRecord::configuration)
}

/// Whether the volume of an own group changes who is in it.
fn volume_leads(group: &Group) -> bool {
    group.replica.protocol() != Protocol::Paxos
}

impl Host {
    /// Sees to what the slot that this volume has just executed means for own groups.
    pub(super) fn follow_changes(&mut self, volume: u32, slot: Slot) {
        let Some(changes) = self.groups[volume as usize].machine.take_changes() else { return };
        let id = self.groups[volume as usize].id();
        self.note_last_birth(id, slot, changes.births.iter().map(|birth| birth.record.number).max());
        for birth in &changes.births {
            self.note_led(id, &birth.name, &birth.record);
            self.bear_own(volume, birth, true);
        }
        self.note_births(volume, changes.births.len());
        for (name, record) in changes.changed {
            self.follow_led(volume, &name, record);
        }
        if self.groups[volume as usize].replica.is_coordinating() {
            changes.stopping.iter().for_each(|&number| self.ask_to_stop(volume, number));
        }
        for Death { number, last, becomes_another } in changes.deaths {
            let group = own_group(id, number);
            self.counters.own_groups_changed += u64::from(becomes_another);
            self.counters.own_groups_renewed += u64::from(becomes_another && self.cannot_speak(group));
            self.decide_undecided(group, &last);
            self.own.asked.remove(group);
            self.own.led.remove(&group);
            self.bury(volume, slot, group);
            self.end_awaited(group);
        }
    }

    /// Notes that a volume has own groups that begin or end, so that its coordinator looks after them.
    pub(super) fn watch_children(&mut self, volume: u32) {
        if let Some(group) = self.groups.get(volume as usize)
            && group.machine.children().is_some_and(|children| !children.is_settled())
        {
            self.own.unsettled.insert(group.id());
        }
        self.set_settle_timer(0);
    }

    /// A replica of an own group comes to life where a replica of its volume executes that it does, or learns that it did.
    /// `first_hand` says that every member is born like this, so that the first one coordinates from birth.
    pub(super) fn bear_own(&mut self, volume: u32, birth: &Birth, first_hand: bool) {
        let group = &self.groups[volume as usize];
        let parent = Parent {
            id: group.id(),
            members: group.configuration.members.clone(),
            namespace: group.namespace,
            durability: group.durability,
            hash_key: group.hash_key,
            here: Some(volume),
        };
        self.bear_of(&parent, birth, first_hand);
    }

    pub(super) fn bear_of(&mut self, parent: &Parent, birth: &Birth, first_hand: bool) {
        let me = self.settings.node;
        let id = own_group(parent.id, birth.record.number);
        if self.here.all.contains(id.0) || self.own.lost.contains(&id) || self.own.leaving.contains(&id) {
            return;
        }
        // A chain leaves out who has nothing to begin with, and takes it in again with a copy.
        let is_past = self.own.from_before.get(&parent.id).is_none_or(|before| before.slots_below == Slot(0));
        let joins = is_past && birth.record.protocol().is_chain() && birth.state.object.is_none();
        let is_silent = |index: u32| self.groups[index as usize].state.is_silent();
        let may_have_been_here = parent.here.is_some_and(is_silent) || self.is_from_before(id) && !joins;
        if may_have_been_here && !planted::is(Planted::ForgottenBirthsExecuted) {
            return;
        }
        let protocol = birth.record.protocol();
        let led = match birth.record.led() {
            Some(record) => {
                let Some(replica) = self.led_replica(protocol, record, &birth.state) else { return };
                Some(replica)
            }
            None => None,
        };
        let configuration = configuration_of(id, &birth.record, &parent.members);
        if !configuration.members.contains(&me) {
            return;
        }
        let machine = Machine::thawed(parent.hash_key, &birth.name, &birth.state);
        let (namespace, durability, hash_key) = (parent.namespace, parent.durability, parent.hash_key);
        let mut group = Group::new(protocol, configuration, namespace, durability, hash_key, machine, me);
        let is_paxos = led.is_none();
        // Slot 0 is the birth. Who has not been there for it has to learn of it from the others.
        let next_slot = if birth.state.object.is_some() { Slot(1) } else { Slot(0) };
        group.replica =
            led.unwrap_or_else(|| AnyReplica::born(protocol, &group.configuration, me, next_slot, birth.state.time()));
        if !first_hand && is_paxos {
            group.replica.restored();
            self.own.late.insert(id);
        }
        group.own = Own::of(id, &birth.name);
        let record = encode_birth(&group);
        group.begin_register(&birth.name);
        group.checkpoint.bytes = record.len() as u64;
        group.checkpoint.changed = true;
        // The store has nothing of it that would have to go.
        group.checkpoint.is_record = true;
        let index = self.groups.insert(Box::new(group)) as u32;
        self.index.insert(id, index);
        self.note_awake(index);
        self.counters.own_groups_born += 1;
        // What was born and may have forgotten is told from what was not born by the replica of the volume here, or by the log.
        let is_witnessed = durability == Durability::Memory && parent.here.is_some();
        if is_witnessed || planted::is(Planted::BornTooEarly) {
            return self.finish_birth(index, id);
        }
        if record.len() > RECORD_BYTES_MAX {
            return self.quarantine(index, "logging its birth", format!("a record of {} bytes", record.len()));
        }
        self.wal.append(id.0, Kind::Slot(0), &record);
        let lsn = self.wal.appended();
        self.groups[index as usize].lsn = lsn;
        if let Some(volume) = parent.here {
            self.groups[volume as usize].births_lsn = lsn;
        }
        self.own.unborn.push_back((lsn, index, id));
    }

    /// Own groups whose birth is on disk may speak.
    pub(super) fn finish_own_births(&mut self) {
        let durable = self.wal.durable();
        while self.own.unborn.front().is_some_and(|(lsn, ..)| *lsn <= durable) {
            let Some((_, index, id)) = self.own.unborn.pop_front() else { break };
            if self.find(id) == Some(index) {
                self.finish_birth(index, id);
            }
        }
    }

    fn finish_birth(&mut self, index: u32, id: GroupId) {
        let group = &mut self.groups[index as usize];
        if group.state == GroupState::Unborn {
            group.state = GroupState::Alive;
        }
        self.arm_timers_after_apply(index);
        self.note_newborn(index, id);
        if volume_leads(&self.groups[index as usize]) {
            self.plan(index, Event::Woken);
            self.ask_for_term(parent_of(id));
        }
        self.deliver_mail(index, id);
    }

    /// Of a volume that is born. What other replicas have said meanwhile may be from before they were started anew, which no
    /// link would deliver any more: they say it again.
    pub(super) fn deliver_requests(&mut self, id: GroupId) {
        for mail in self.take_mail(id) {
            if let MailContent::Request { access, envelope } = mail.content {
                self.handle_request(mail.from, id, mail.epoch, access, None, &envelope);
            }
        }
    }

    /// What has waited for a group goes to it.
    pub(super) fn deliver_mail(&mut self, index: u32, id: GroupId) {
        for mail in self.take_mail(id) {
            match mail.content {
                MailContent::Request { access, envelope } => {
                    self.handle_request(mail.from, id, mail.epoch, access, None, &envelope);
                }
                MailContent::Replica(message) => {
                    if self.groups[index as usize].configuration.epoch == mail.epoch {
                        self.plan(index, Event::Received { from: mail.from, message });
                    }
                }
            }
        }
    }

    pub(super) fn keep_from_birth(&mut self, lost: Vec<GroupId>) {
        self.own.lost.extend(lost);
    }

    /// Whether an own group, or the root, will not be born here for now, or not before this node starts anew: nothing is executed in its volume's
    /// replica any more, or its birth cannot be read.
    pub fn is_kept_from_birth(&self, group: GroupId) -> bool {
        if group == ROOT {
            return self.has_lost_root();
        }
        let Some((volume, _)) = volume_of(group).filter(|_| self.find(group).is_none()) else { return false };
        let is_silent = |index: u32| self.groups[index as usize].state.is_silent();
        // One that is at rest was born, whatever has become of its volume's replica since.
        self.own.lost.contains(&group)
            || !self.here.all.contains(group.0)
                && (self.is_from_before(group)
                    || match self.find(volume).filter(|&index| !self.is_newcomer(index)) {
                        Some(index) => is_silent(index),
                        None => self.here.losses.may_hide_births_of(volume),
                    })
    }

    /// Whether an own group is not born here, while others of its volume are that begin later.
    pub(super) fn is_kept_for_good(&self, group: GroupId) -> bool {
        let is_before = |(volume, number): (GroupId, u64)| {
            let below = self.own.from_before.get(&volume).map_or(0, |before| before.numbers_below);
            number < below && below < u64::MAX
        };
        !self.here.all.contains(group.0) && volume_of(group).is_some_and(is_before)
    }

    /// Whether an own group may have been here before its volume's replica forgot what it had said.
    fn is_from_before(&self, group: GroupId) -> bool {
        volume_of(group).is_some_and(|(volume, number)| {
            self.own.from_before.get(&volume).is_some_and(|before| number < before.numbers_below)
        })
    }

    /// Keeps a command for a group that is not born here yet. False if it will not be, as far as this node knows.
    pub(super) fn keep_request(
        &mut self,
        from: NodeId,
        group: GroupId,
        epoch: Epoch,
        access: Access,
        envelope: &[u8],
    ) -> bool {
        self.keep_mail(from, group, epoch, || MailContent::Request { access, envelope: envelope.to_vec() })
    }

    pub(super) fn keep_message(&mut self, from: NodeId, group: GroupId, epoch: Epoch, message: AnyMessage) -> bool {
        self.keep_mail(from, group, epoch, || MailContent::Replica(message))
    }

    fn keep_mail(&mut self, from: NodeId, group: GroupId, epoch: Epoch, content: impl FnOnce() -> MailContent) -> bool {
        let will_come = self.is_sought(group) || self.is_unborn(group) || self.look_for(group);
        if !will_come || self.own.mail_count >= MAIL_COUNT_MAX {
            return false;
        }
        let mail = Mail { from, epoch, content: content(), arrived_at: self.clock.now() };
        self.own.mail.entry(group).or_default().push(mail);
        self.own.mail_count += 1;
        true
    }

    /// Whether an own group is being born here, or its volume has not executed here yet that it is.
    fn is_unborn(&self, group: GroupId) -> bool {
        if let Some(index) = self.find(group) {
            return self.groups[index as usize].state == GroupState::Unborn;
        }
        if self.own.late.is_unborn(group) {
            return true;
        }
        let Some((volume, number)) = volume_of(group) else { return false };
        let Some(index) = self.find(volume) else { return false };
        let volume = &self.groups[index as usize];
        volume.is_alive() && volume.machine.children().map_or(0, |children| children.last_number) < number
    }

    fn take_mail(&mut self, group: GroupId) -> Vec<Mail> {
        if self.own.mail.is_empty() {
            return Vec::new();
        }
        let mail = self.own.mail.remove(&group).unwrap_or_default();
        self.own.mail_count -= mail.len();
        mail
    }

    /// What an earlier start of this node said to a group counts no more.
    pub(super) fn forget_mail_from(&mut self, from: NodeId, group: GroupId) {
        if let Some(mail) = self.own.mail.get_mut(&group) {
            let count = mail.len();
            mail.retain(|mail| mail.from != from);
            self.own.mail_count -= count - mail.len();
        }
    }

    /// What has waited for a birth for too long goes back.
    pub(super) fn return_old_mail(&mut self) {
        let now = self.clock.now();
        let is_old = |mail: &Mail| mail.arrived_at.after_us(MAIL_PATIENCE_US) <= now;
        let mut old: Vec<GroupId> = Vec::new();
        old.extend(self.own.mail.iter().filter(|(_, mail)| mail.iter().any(is_old)).map(|(group, _)| *group));
        old.sort_unstable();
        old.into_iter().for_each(|group| self.return_mail(group));
    }

    /// Whoever has sent what waits for a group is to ask again.
    pub(super) fn return_mail(&mut self, group: GroupId) {
        for mail in self.take_mail(group) {
            if let MailContent::Request { envelope, .. } = mail.content
                && let Some(envelope) = crate::envelope::Envelope::take(&mut &envelope[..])
            {
                let ticket = envelope.ticket;
                self.bounce(ticket.node, ticket.start, ticket.number, Bounce::UnknownGroup);
            }
        }
    }

    /// An own group has ended: its replica is gone at once, and what it said is forgotten once the volume's replica here
    /// cannot come to believe that it never ended.
    pub(super) fn bury(&mut self, volume: u32, slot: Slot, group: GroupId) {
        if self.end_own(group) {
            self.groups[volume as usize].dead.push((slot, group));
        }
    }

    /// False if it was not here.
    pub(super) fn end_own(&mut self, group: GroupId) -> bool {
        let found = self.find(group).map(|index| &mut self.groups[index as usize]);
        let gathered = found.map(|group| std::mem::take(&mut group.gathered)).unwrap_or_default();
        if !self.remove_own(group) {
            return false;
        }
        self.counters.own_groups_ended += 1;
        // What came in the turn in which it ends was not proposed.
        let mut rest = &gathered[..];
        while let Some(envelope) = Envelope::take(&mut rest) {
            let ticket = envelope.ticket;
            self.bounce(ticket.node, ticket.start, ticket.number, Bounce::UnknownGroup);
        }
        self.release_answers(group);
        self.lose_register(group, Bounce::UnknownGroup);
        self.transfers.forget(group);
        self.silence_told.remove(&group);
        self.bounce_reads_of(group, Bounce::UnknownGroup);
        // A checkpoint of it, which old records may wait for, will not come; now they wait for its volume's.
        self.wal.search_again();
        true
    }

    /// A checkpoint of the volume holds every slot below `next_slot`.
    pub(super) fn forget_dead(&mut self, volume: u32, next_slot: Slot) {
        let dead = &mut self.groups[volume as usize].dead;
        let (forgotten, kept): (Vec<_>, Vec<_>) =
            std::mem::take(dead).into_iter().partition(|(slot, _)| *slot < next_slot);
        *dead = kept;
        self.storing.forgettable.extend(forgotten.into_iter().map(|(_, group)| group));
    }

    /// The volume's replica here stands on another's state, or on that of before a restart: own groups that ended
    /// meanwhile are buried, and those that began are born, with nothing but what the volume still has of their beginning.
    pub(super) fn reconcile_own_groups(&mut self, volume: u32) {
        // Whoever is turned back asks elsewhere, perhaps this node: nothing is executed before all that is gone by here is done.
        let was_running = std::mem::replace(&mut self.running, true);
        self.reconcile(volume);
        self.running = was_running;
    }

    fn reconcile(&mut self, volume: u32) {
        self.groups[volume as usize].machine.keep_names();
        let group = &self.groups[volume as usize];
        let (id, next_slot) = (group.id(), group.replica.next_slot());
        let (Some(children), Some(objects)) = (group.machine.children(), group.machine.objects()) else { return };
        let last_number = children.last_number;
        let executed = Slot(next_slot.0.saturating_sub(1));
        let mut numbers = RoaringTreemap::new();
        let mut missing = BTreeMap::new();
        let mut led = Vec::new();
        objects.for_each_away(|name, bytes| {
            if let Ok(record) = Record::decode(bytes) {
                numbers.insert(record.number);
                if record.led().is_some() {
                    led.push((name.to_vec(), record.clone()));
                }
                if !self.here.all.contains(own_group(id, record.number).0) {
                    missing.insert(record.number, (name.to_vec(), record));
                }
            }
        });
        objects.for_each_swapped(|bytes| {
            if let Ok(record) = Record::decode(bytes) {
                numbers.insert(record.number);
            }
        });
        let mut starting: BTreeMap<u64, Frozen> =
            children.starting_by_number().map(|(number, starting)| (number, starting.state())).collect();
        // What began in the slots that were passed over, too.
        self.note_last_birth(id, Slot(0), Some(last_number));
        self.note_last_birth(id, executed, None);
        for number in self.numbers_here(id).collect::<Vec<_>>() {
            if number <= last_number && !numbers.contains(number) {
                self.bury(volume, executed, own_group(id, number));
            }
        }
        self.end_all_awaited(id);
        self.forget_led_by(id);
        led.iter().for_each(|(name, record)| self.note_led(id, name, record));
        self.own.late.forget_unborn(id);
        let (me, members) = (self.settings.node, self.groups[volume as usize].configuration.members.clone());
        let mut left = BORN_PER_TURN;
        for (number, (name, record)) in missing {
            // Also a chain that it joins: it may have done so before. It is taken out and in again.
            if self.is_from_before(own_group(id, number)) && !planted::is(Planted::ForgottenBirthsExecuted) {
                continue;
            }
            let state = starting.remove(&number);
            // Until what one begins with is in the log here, the volume says nothing: and who leads one waits for it.
            if left == 0 && state.is_none() && record.led().is_none() {
                if record.member_ids(&members).contains(&me) {
                    self.own.late.bear_later(own_group(id, number), name);
                }
                continue;
            }
            left = left.saturating_sub(1);
            self.bear_own(volume, &Birth { name, record, state: state.unwrap_or_default() }, false);
        }
        self.tell_own_led(id);
        self.ask_for_term(id);
        self.watch_children(volume);
        self.note_names_stored(volume);
    }

    /// After a start: whatever the volumes' checkpoints know of own groups.
    pub(super) fn reconcile_all_own_groups(&mut self) {
        let volumes: Vec<u32> = self
            .groups
            .iter()
            .filter(|(_, group)| group.is_alive() && group.machine.children().is_some())
            .map(|(index, _)| index as u32)
            .collect();
        for volume in volumes {
            self.reconcile_own_groups(volume);
        }
    }

    /// Looks after the own groups that begin or end, where this node coordinates their volume or nobody does.
    pub(super) fn settle(&mut self) {
        self.own.is_timer_set = false;
        self.fetch_for_late();
        for id in self.own.unsettled.clone() {
            let volume = self.find(id).map(|volume| (volume, &self.groups[volume as usize]));
            match volume.filter(|(_, group)| group.machine.children().is_some_and(|children| !children.is_settled())) {
                Some((volume, group)) if group.replica.is_coordinating() => {
                    self.tell_births(volume);
                    self.complete_births(volume);
                    self.ask_all_to_stop(volume);
                }
                Some((volume, _)) => self.take_over_if_uncoordinated(volume),
                None => {
                    self.own.unsettled.remove(&id);
                    self.own.asked.forget_volume(id);
                    self.forget_told(id, |_| true);
                }
            }
        }
        self.forget_asked_to_stop();
        self.set_settle_timer(SETTLE_US);
    }

    pub(super) fn set_settle_timer(&mut self, wait_us: u64) {
        let is_idle = self.own.unsettled.is_empty() && self.own.late.is_empty();
        if !is_idle && !std::mem::replace(&mut self.own.is_timer_set, true) {
            self.timers.set(self.clock.now().after_us(wait_us), Timer::Settle);
        }
    }

    /// What own groups began with need not be kept where a write quorum of each has it on disk.
    fn complete_births(&mut self, volume: u32) {
        let group = &self.groups[volume as usize];
        let Some(children) = group.machine.children().filter(|children| !children.starting.is_empty()) else { return };
        let mine_durable = group.births_lsn <= self.wal.durable();
        let me = self.settings.node;
        let frontiers = group.replica.frontiers();
        let volume_id = group.id();
        let has_executed = |member: NodeId, slot: u64| {
            (member != me || mine_durable)
                && frontiers.iter().any(|(node, frontier)| *node == member && frontier.0 > slot)
        };
        let is_born = |member: NodeId, slot: u64, number: u64| match group.configuration.contains(member) {
            true => has_executed(member, slot),
            false => self.has_told_birth(own_group(volume_id, number), member),
        };
        // Nobody is born any more with what it began with: a member that has missed that is told that it is over.
        let is_over = |starting: &Starting| {
            let record =
                group.machine.objects().and_then(|objects| Record::decode(&objects.away(&starting.name)?).ok());
            record.is_none_or(|record| record.number != starting.number)
        };
        let is_complete = |slot: u64, starting: &Starting| {
            // A chain that has lost a member since goes on with those that it has.
            let present = self.own.led.get(&own_group(volume_id, starting.number));
            let (members, quorum) = match &starting.place {
                OwnRecord::Led { protocol: Protocol::Chain, record } => {
                    let members: Vec<NodeId> = present.map_or(&**record, |led| &led.record).member_ids().collect();
                    let all = members.len() as u8;
                    (members, QuorumSystem::Threshold { read: 1, write: all })
                }
                OwnRecord::Led { record, .. } => {
                    let first = record.stages.0.first().map(|stage| stage.configuration.quorum);
                    (record.member_ids().collect(), first.unwrap_or(QuorumSystem::Majority))
                }
                OwnRecord::Paxos { .. } => {
                    let members = starting.place.member_ids(starting.number, &group.configuration.members);
                    (members, QuorumSystem::Majority)
                }
            };
            let have = members.iter().enumerate().filter(|(_, member)| is_born(**member, slot, starting.number));
            let have: u64 = have.map(|(at, _)| 1 << at).sum();
            quorum.is_write_quorum(members.len(), have) || have != 0 && planted::is(Planted::CompletedByOne)
        };
        let complete = |(slot, all): (&u64, &Vec<Starting>)| {
            all.iter().all(|starting| is_over(starting) || is_complete(*slot, starting)).then_some(*slot)
        };
        let slots: Vec<u64> = children.starting.iter().filter_map(complete).collect();
        if !slots.is_empty() {
            return self.submit_to_volume_of(volume_id, &VolumeCommand::Complete { slots });
        }
        // The members' positions are not known, or not any more: they are heard of while the volume works.
        if frontiers.is_empty() {
            self.plan(volume, Event::Proposed(Proposal::Mark));
        }
    }

    /// After a slot of an own group: the volume has to know if the object is deleted, or the group has stopped.
    pub(super) fn follow_own(&mut self, index: u32, value: &Value) {
        // The replica may know that it is stopped some slots before the machine has executed the last one.
        if !matches!(value.content, Content::Stop(_)) {
            return self.retire_if_gone(index);
        }
        self.note_stopped(index);
        let group = &mut self.groups[index as usize];
        if let Some(own) = &mut group.own
            && group.state == GroupState::Alive
            && group.replica.is_coordinating()
        {
            (own.told_at, own.telling) = (Instant(0), 0);
            self.tell_final_state(index);
        }
    }

    pub(super) fn retire_if_gone(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let Some(own) = group.own() else { return };
        if !group.is_alive() || !group.replica.is_coordinating() {
            return;
        }
        if group.is_object_gone() && !group.replica.is_stopped() && self.is_time_to_tell(index) {
            let (number, name) = (own.number, own.name.to_vec());
            self.tell_volume(index, &VolumeCommand::Retire { number, name });
        }
    }

    pub(super) fn tell_final_state(&mut self, index: u32) {
        if !self.is_time_to_tell(index) {
            return;
        }
        let group = &self.groups[index as usize];
        let Some(own) = group.own() else { return };
        let (number, state) = (own.number, group.machine.freeze(&own.name));
        self.tell_volume(index, &VolumeCommand::Return { number, state, last: Vec::new() });
    }

    /// Not again and again while an answer may be on its way, however long that takes: what is asked of a volume that has too much
    /// to do must not become more by that. After stopping there is something new to tell.
    pub(super) fn is_time_to_tell(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        let waits = |own: &Own| own.told_at.after_us(SETTLE_US) > self.clock.now() && own.told_at > Instant(0);
        !group.own().is_some_and(|own| waits(own) || self.internals.contains(own.telling))
    }

    pub(super) fn tell_volume(&mut self, index: u32, command: &VolumeCommand) {
        let now = self.clock.now();
        let group = self.groups[index as usize].id();
        let Some(own) = &mut self.groups[index as usize].own else { return };
        (own.told_at, own.telling) = (now, self.internals.number_next());
        let volume = own.volume;
        let purpose = match command {
            VolumeCommand::Return { .. } => Purpose::Returned { group },
            _ => Purpose::OfVolume { volume },
        };
        if let Some(target) = self.target_of(volume) {
            self.submit_to_volume(target, command, purpose);
        }
    }

    /// Has a volume, for an own group of it, execute a command.
    pub(super) fn submit_to_volume_of(&mut self, volume: GroupId, command: &VolumeCommand) {
        if let Some(target) = self.target_of(volume) {
            self.submit_to_volume(target, command, Purpose::OfVolume { volume });
        }
    }
}
