//! Register groups as their members serve them: any member carries out what a client asks, by itself, and no two replicas are
//! asked the same write. Their configurations are decided in the parent, the root for a volume, and made ready to be retired
//! by whichever member comes first among those alive. See docs/decisions/0021 and docs/protocols/register.md.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use quorate_object::{Command, NAMES_BYTES_MAX, Outcome, glob, too_many_keys};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{Answer as CoreAnswer, Content, Key, Request, Stage, Tag};
use quorate_protocol::{Epoch, Event, GroupId, Instant, NodeId, Stamp};

use super::directory::Place;
use super::routes::{NoRoute, Route};
use super::tombstones::{Collections, Expiries};
use super::waiters::Waiters;
use super::{Host, Timer};
use crate::entry::{Purpose, Target};
use crate::envelope::{Envelope, Ticket};
use crate::frame::{Access, Bounce, Position};
use crate::hash::FixedState;
use crate::machine::malformed;
use crate::own_place::OwnPlace;
use crate::pace::RoundTrips;
use crate::planted::{self, Planted};
use crate::record::GroupRecord;
use crate::register::{
    Asked, NOT_IN_ONE_STEP, RegisterReplica, asked, before_hash, hash_of_key, key_of, name_of_key, read, written,
};
use crate::replica::{AnyReplica, AnyRequest, Protocol};
use crate::root::{ROOT, RootCommand};
use crate::volume::{VolumeCommand, volume_of};

/// After this the next member makes a configuration ready to be retired, and whoever has failed to tries again.
const RETIRE_PATIENCE_US: u64 = 3_000_000;
/// Configurations that a node makes ready in a heartbeat: with more, those that clients wait for would wait too.
const RETIRED_PER_BEAT: usize = 256;
/// A node that is suspected, and whose link is there, may be back before this.
const BUSY_US: u64 = 1_000_000;
/// Keys that a page of a listing asks for, at least: so few never all have one hash.
const PAGE_KEYS_MIN: usize = 16;
const PAGE_KEYS: usize = 256;

#[derive(Default)]
pub(super) struct Registers {
    /// Tokens so far: what replicas here are asked is numbered across groups.
    token_count: u64,
    pub(super) waiting: Waiters,
    /// Clients' writes, with their deadlines: one that comes again is the same to its replica.
    writes: HashMap<Ticket, (u64, Stamp), FixedState>,
    /// When they need not be known any more.
    forgettable: BTreeSet<(Stamp, Ticket)>,
    pub(super) collections: Collections,
    pub(super) expiries: Expiries,
    /// Writes that were under way when their own group was sealed here, with their tags.
    pub(super) undecided: HashMap<GroupId, Vec<(u64, Tag)>, FixedState>,
    /// Own groups that a replica here is ending.
    pub(super) ending: BTreeSet<GroupId>,
    /// The last own group that was looked at for whether its object is there.
    pub(super) looked_at: Option<GroupId>,
    round_trips: RoundTrips,
    /// Groups between two configurations, by the newer one's epoch, and when this node makes the older one ready to be retired.
    retiring: HashMap<GroupId, Retiring, FixedState>,
    /// They are looked after in the next turn.
    retires_soon: bool,
}

struct Retiring {
    /// Of the newer configuration.
    epoch: Epoch,
    /// How many live members there were before this node.
    rank: usize,
    due_at: Instant,
    /// The errand that the replica here has, or had.
    token: Option<u64>,
    /// It is done, and the parent is to hear of it.
    is_ready: bool,
}

/// Who waits for the answer to a token.
pub(super) enum Waiting {
    Client {
        group: GroupId,
        ticket: Ticket,
        command: Vec<u8>,
        asked_at: Instant,
    },
    Listing(Box<Listing>),
    Retirement {
        group: GroupId,
    },
    Collection {
        group: GroupId,
    },
    /// A read finds that something has expired, which is all that is wanted of it.
    Expiry {
        group: GroupId,
    },
    /// An own group is being ended: first it is sealed, and then what it ends with is gathered.
    End {
        group: GroupId,
    },
    /// This node wants to know whether the replica here has drained.
    Drain {
        group: GroupId,
        asker: NodeId,
    },
    /// Where members decide: somebody wants another configuration.
    Reconfiguration {
        group: GroupId,
    },
}

impl Waiting {
    pub(super) fn group(&self) -> GroupId {
        match self {
            Waiting::Listing(listing) => listing.group,
            Waiting::Client { group, .. }
            | Waiting::Retirement { group }
            | Waiting::Collection { group }
            | Waiting::Expiry { group }
            | Waiting::End { group }
            | Waiting::Drain { group, .. }
            | Waiting::Reconfiguration { group } => *group,
        }
    }
}

/// A command on all objects of a volume, answered from the names that a read quorum knows.
pub(super) struct Listing {
    group: GroupId,
    ticket: Ticket,
    deadline: Stamp,
    command: Vec<u8>,
    names: Vec<Vec<u8>>,
    bytes: usize,
    count: i64,
}

impl Registers {
    pub(super) fn token(&mut self, waiting: Waiting) -> u64 {
        self.token_count += 1;
        self.waiting.insert(self.token_count, waiting);
        self.token_count
    }
}

impl Host {
    /// Whether a target's objects are registers.
    pub(super) fn is_register(&self, target: Target) -> bool {
        self.directory.resolve(target).is_ok_and(|place| place.protocol.is_register())
    }

    /// Whether nothing orders what is asked of a target, or of its object's own group; or this node cannot tell yet.
    pub(super) fn is_in_turn(&self, target: Target, own: Option<&OwnPlace>) -> bool {
        if own.is_some_and(|own| own.protocol.is_register()) {
            return !planted::is(Planted::OwnRegisterOutOfTurn);
        }
        let is_in_turn = self.directory.resolve(target).map_or(true, |place| !place.protocol.is_ordered());
        is_in_turn && !planted::is(Planted::RegisterOutOfTurn)
    }

    /// Any live member, this node first; a write that somebody may have carried out is asked of nobody else.
    pub(super) fn route_to_register(
        &self,
        place: &Place,
        access: Access,
        told: Option<NodeId>,
        bound: Option<(NodeId, u32)>,
    ) -> Result<Route, NoRoute> {
        let (group, me, binds) = (place.group, self.settings.node, access == Access::Write);
        let route = |node: NodeId, start: u32| Route { group, epoch: Epoch(start), coordinator: node, binds };
        if let Some((node, start)) = bound.filter(|_| !planted::is(Planted::RegisterAskedElsewhere)) {
            return if self.start_of(node) == Some(start) { Ok(route(node, start)) } else { Err(NoRoute::Lost) };
        }
        let here = self.find(group).map(|index| &self.groups[index as usize]);
        let is_there = |node: NodeId| match here {
            // Or it will be, in a moment.
            Some(group) if node == me => !group.state.is_silent(),
            // An own group is born when the volume's replica here has executed that it is.
            None if node == me => volume_of(group).is_some() && !self.is_kept_from_birth(group),
            _ => !self.is_gone(node),
        };
        let has_quorum = |stage: &Stage| {
            let members = &stage.configuration.members;
            let alive = (0..members.len()).filter(|&at| is_there(members[at])).fold(0, |set, at| set | 1 << at);
            let quorum: QuorumSystem = stage.configuration.quorum;
            quorum.is_read_quorum(members.len(), alive)
                && (access != Access::Write || quorum.is_write_quorum(members.len(), alive))
        };
        if !place.stages.iter().all(has_quorum) {
            return Err(NoRoute::NoQuorum);
        }
        let members = &place.members;
        // The link to a node goes with its process, long before it is suspected.
        let is_fit =
            |node: &NodeId| members.contains(node) && !self.peers.is_suspected(*node) && self.linked.contains(node);
        let first = (u64::from(me.0) + group.0) as usize;
        let in_turn = (0..members.len()).map(|step| members[(first + step) % members.len()]);
        let own = Some(me).filter(|_| here.is_some_and(|group| group.is_alive() && group.replica.is_inside()));
        let found =
            told.filter(is_fit).or(own).or(place.hint.filter(is_fit)).or_else(|| in_turn.into_iter().find(is_fit));
        let node = found.ok_or(NoRoute::Changing)?;
        let start = self.start_of(node).ok_or(NoRoute::Changing)?;
        Ok(route(node, start))
    }

    /// Whether nothing is to be expected of a node. One that nothing was heard of for too long may be busy, or this node may.
    fn is_gone(&self, node: NodeId) -> bool {
        let since = self.suspected_at.get(&node).copied().unwrap_or_default();
        self.peers.is_suspected(node) && (!self.linked.contains(&node) || since.after_us(BUSY_US) <= self.clock.now())
    }

    /// The start of a node that was heard of last.
    fn start_of(&self, node: NodeId) -> Option<u32> {
        if node == self.settings.node {
            return Some(self.settings.start);
        }
        self.seen.get(&node).map(|seen| seen.start()).filter(|&start| start > 0)
    }

    /// A client's command has come to a member.
    pub(super) fn ask_register(&mut self, index: u32, envelope: &Envelope<'_>) {
        let (ticket, deadline) = (envelope.ticket, envelope.deadline);
        let group = &self.groups[index as usize];
        let id = group.id();
        if self.holds_answer(id, ticket) {
            return;
        }
        let Ok(command) = Command::decode(envelope.command) else {
            return self.answer_ticket(ticket, Position::default(), malformed());
        };
        let Some(name) = command.key() else { return self.list_register(index, envelope, &command) };
        let Some(objects) = group.machine.objects() else { return };
        let key = key_of(objects.hash(name), name);
        let asked_at = self.clock.now();
        let client = || Waiting::Client { group: id, ticket, command: envelope.command.to_vec(), asked_at };
        let pace = self.registers.round_trips.pace();
        if let Some(replica) = self.groups[index as usize].replica.register_mut() {
            replica.core_mut().set_pace(pace);
        }
        match asked(&command) {
            // Also what a register refuses: the object may be none any more.
            None | Some(Asked::Read) => {
                if self.outbox.is_congested(ticket.node) {
                    return self.bounce(ticket.node, ticket.start, ticket.number, Bounce::Overloaded);
                }
                let token = self.registers.token(client());
                self.ask_core(index, Request::Read { token, key, deadline });
            }
            Some(Asked::Write(content)) => {
                let is_lost = |token| {
                    let replica = self.groups[index as usize].replica.register();
                    replica.is_some_and(|replica| replica.was_asked_before(token))
                };
                let token = match self.registers.writes.get(&ticket) {
                    // What a replica that was given up here has made of it, nobody knows.
                    Some(&(token, _)) if is_lost(token) => {
                        let why = Bounce::Uncertain { coordinator: None };
                        return self.bounce(ticket.node, ticket.start, ticket.number, why);
                    }
                    Some(&(token, _)) => {
                        self.counters.answered_from_window += 1;
                        self.registers.waiting.insert(token, client());
                        token
                    }
                    None if self.out_of_memory && command.growth_bytes_max().is_some() => {
                        return self.bounce(ticket.node, ticket.start, ticket.number, Bounce::OutOfMemory);
                    }
                    None => {
                        let token = self.registers.token(client());
                        self.registers.writes.insert(ticket, (token, deadline));
                        self.registers.forgettable.insert((deadline, ticket));
                        token
                    }
                };
                self.ask_core(index, Request::Write { token, key, content, deadline });
            }
        }
    }

    pub(super) fn ask_core(&mut self, index: u32, request: Request) {
        self.plan(index, Event::Requested(AnyRequest::Register(request)));
    }

    /// A replica here has answered.
    pub(super) fn take_register_answer(&mut self, index: u32, answer: CoreAnswer) {
        let Some(answer) = self.take_reconfigured(answer) else { return };
        match answer {
            CoreAnswer::Value { token, content, rounds } => self.take_value(token, &content, rounds),
            CoreAnswer::Written { token } => self.take_written(index, token),
            CoreAnswer::Listed { token, keys, next } => self.take_page(index, token, keys, next),
            CoreAnswer::Retirable { token, epoch } => {
                if let Some(Waiting::Retirement { group }) = self.registers.waiting.remove(token) {
                    let retiring = self.registers.retiring.get_mut(&group);
                    if let Some(retiring) = retiring.filter(|retiring| retiring.epoch == epoch) {
                        retiring.is_ready = true;
                    }
                    self.tell_ready(group, epoch);
                }
            }
            // Nobody can tell what has become of it.
            CoreAnswer::Unknown { token } => self.turn_back(token, Bounce::Expired),
            CoreAnswer::Undecided { token, tag } => self.leave_undecided(token, tag),
            CoreAnswer::Overloaded { token } => self.turn_back(token, Bounce::Overloaded),
            CoreAnswer::Elsewhere { token, members } => {
                let coordinator = members.iter().copied().find(|&node| !self.peers.is_suspected(node));
                self.tell_asker(token);
                self.turn_back(token, Bounce::NotCoordinator { coordinator });
            }
            CoreAnswer::Over { token } => self.turn_back(token, Bounce::Stopped),
            CoreAnswer::GivenUp { token } => self.turn_back(token, Bounce::Stopped),
            CoreAnswer::Drained { token, epoch } => {
                if let Some(Waiting::Drain { group, asker }) = self.registers.waiting.remove(token) {
                    self.tell_drained(asker, group, epoch);
                }
            }
            CoreAnswer::Forgotten { token, count, next } => {
                if let Some(Waiting::Collection { group }) = self.registers.waiting.remove(token) {
                    self.end_collection(group, count, next.is_some());
                }
            }
            CoreAnswer::Sealed { token, .. } => self.gather_final_state(index, token),
            CoreAnswer::Final { token, versions, .. } => self.take_final_state(index, token, versions),
            CoreAnswer::Unsound { token } => self.turn_back(token, Bounce::Stopped),
            // Not asked for.
            CoreAnswer::Reconfigured { .. } | CoreAnswer::Overtaken { .. } => {}
        }
    }

    pub(super) fn take_written(&mut self, index: u32, token: u64) {
        let waiting = self.registers.waiting.remove(token);
        let Some(Waiting::Client { ticket, command, asked_at, .. }) = waiting else { return };
        self.counters.commands_applied += 1;
        self.registers.round_trips.note(asked_at, self.clock.now());
        self.settle_write(index, ticket);
        let command = Command::decode(&command);
        let is_gone = matches!(command, Ok(Command::Del { .. }));
        let outcome = command.map_or_else(|_| malformed(), |command| written(&command));
        let group = self.groups[index as usize].id();
        if is_gone {
            self.answer_once_ended(group, ticket, outcome);
        } else {
            self.release_answers(group);
            self.answer_ticket(ticket, Position::default(), outcome);
        }
        self.look_whether_deleted(index);
    }

    /// A write is answered. One that entered here is never asked again; any other may be, since its answer can be lost.
    fn settle_write(&mut self, index: u32, ticket: Ticket) {
        if ticket.node != self.settings.node {
            return;
        }
        if let Some((token, deadline)) = self.registers.writes.remove(&ticket) {
            self.registers.forgettable.remove(&(deadline, ticket));
            if let Some(replica) = self.groups[index as usize].replica.register_mut() {
                replica.core_mut().forget_answer(token);
            }
        }
    }

    fn take_value(&mut self, token: u64, content: &Content, rounds: u32) {
        let waiting = self.registers.waiting.remove(token);
        let Some(Waiting::Client { group, ticket, command, asked_at }) = waiting else { return };
        self.registers.round_trips.note(asked_at, self.clock.now());
        match rounds {
            0 | 1 => self.counters.register_reads_one_round += 1,
            _ => self.counters.register_reads_more_rounds += 1,
        }
        let now = self.clock.stamp();
        let outcome = match Command::decode(&command) {
            Ok(command) if asked(&command).is_none() => Outcome::Error(NOT_IN_ONE_STEP.into()),
            Ok(command) => read(&command, content, now),
            Err(_) => malformed(),
        };
        match content {
            Content::Value { .. } => self.answer_ticket(ticket, Position::default(), outcome),
            Content::Tombstone => self.tell_gone(group, ticket, outcome),
        }
    }

    /// What was asked was not carried out, or nobody knows.
    pub(super) fn turn_back(&mut self, token: u64, why: Bounce) {
        let ticket = match self.registers.waiting.remove(token) {
            Some(Waiting::Client { ticket, .. }) => {
                if why != Bounce::Expired {
                    self.registers.writes.remove(&ticket);
                }
                ticket
            }
            Some(Waiting::Listing(listing)) => listing.ticket,
            Some(Waiting::Collection { group }) => return self.registers.collections.give_up(group, token),
            Some(Waiting::End { group }) => {
                self.registers.ending.remove(&group);
                return;
            }
            Some(
                Waiting::Retirement { .. }
                | Waiting::Expiry { .. }
                | Waiting::Drain { .. }
                | Waiting::Reconfiguration { .. },
            )
            | None => return,
        };
        self.bounce(ticket.node, ticket.start, ticket.number, why);
    }

    /// The group's replica here is gone. Of its writes nobody knows: whoever sent them is told at their deadline.
    pub(super) fn lose_register(&mut self, group: GroupId, why: Bounce) {
        let mut lost = Vec::new();
        self.registers.retiring.remove(&group);
        self.registers.ending.remove(&group);
        self.registers.undecided.remove(&group);
        self.registers.collections.forget(group);
        self.lose_wishes(group);
        for (_, waiting) in self.registers.waiting.take_all_of(group) {
            match waiting {
                Waiting::Client { ticket, .. } => lost.push(ticket),
                Waiting::Listing(listing) => lost.push(listing.ticket),
                Waiting::Retirement { .. }
                | Waiting::Collection { .. }
                | Waiting::Expiry { .. }
                | Waiting::End { .. }
                | Waiting::Reconfiguration { .. }
                | Waiting::Drain { .. } => {}
            }
        }
        for ticket in lost {
            if !self.registers.writes.contains_key(&ticket) {
                self.bounce(ticket.node, ticket.start, ticket.number, why);
            }
        }
    }
}

/// Listings.
impl Host {
    fn list_register(&mut self, index: u32, envelope: &Envelope<'_>, command: &Command<'_>) {
        let (ticket, deadline) = (envelope.ticket, envelope.deadline);
        let (after, count) = match command {
            Command::Scan { from, count, .. } => {
                let after = (*from > 0).then(|| before_hash(*from));
                (after, (*count as usize).clamp(PAGE_KEYS_MIN, PAGE_KEYS))
            }
            Command::Keys { pattern } if pattern.len() > glob::PATTERN_BYTES_MAX => {
                return self.answer_ticket(ticket, Position::default(), pattern_too_long());
            }
            Command::Count | Command::Keys { .. } => (None, PAGE_KEYS),
            _ => return self.answer_ticket(ticket, Position::default(), malformed()),
        };
        let group = self.groups[index as usize].id();
        let command = envelope.command.to_vec();
        let listing = Listing { group, ticket, deadline, command, names: Vec::new(), bytes: 0, count: 0 };
        let token = self.registers.token(Waiting::Listing(Box::new(listing)));
        self.ask_core(index, Request::List { token, after, count, deadline });
    }

    fn take_page(&mut self, index: u32, token: u64, keys: Vec<Key>, next: Option<Key>) {
        let Some(Waiting::Listing(mut listing)) = self.registers.waiting.remove(token) else { return };
        let bytes = std::mem::take(&mut listing.command);
        let Ok(command) = Command::decode(&bytes) else { return };
        match command {
            Command::Scan { from, pattern, type_name, .. } => {
                let outcome = scanned(from, pattern, type_name, &keys, next.as_ref());
                return self.answer_ticket(listing.ticket, Position::default(), outcome);
            }
            Command::Keys { pattern } => {
                for name in keys.iter().map(name_of_key).filter(|name| glob::matches(pattern, name)) {
                    listing.bytes += name.len() + size_of::<Vec<u8>>();
                    listing.names.push(name.to_vec());
                }
            }
            _ => {}
        }
        listing.count += keys.len() as i64;
        let is_too_long = listing.bytes > NAMES_BYTES_MAX;
        if let Some(next) = next.filter(|_| !is_too_long) {
            listing.command = bytes;
            let deadline = listing.deadline;
            let token = self.registers.token(Waiting::Listing(listing));
            return self.ask_core(index, Request::List { token, after: Some(next), count: PAGE_KEYS, deadline });
        }
        let outcome = match command {
            Command::Keys { .. } if is_too_long => too_many_keys(),
            Command::Keys { .. } => Outcome::Keys(listing.names),
            _ => Outcome::Int(listing.count),
        };
        self.answer_ticket(listing.ticket, Position::default(), outcome);
    }
}

fn pattern_too_long() -> Outcome {
    Outcome::Error(format!("ERR pattern is longer than {} bytes", glob::PATTERN_BYTES_MAX))
}

/// What SCAN answers for a page. Its cursor is a hash, so names of the hash that the next page begins with are left for that.
fn scanned(from: u64, pattern: Option<&[u8]>, type_name: Option<&[u8]>, keys: &[Key], next: Option<&Key>) -> Outcome {
    if pattern.is_some_and(|pattern| pattern.len() > glob::PATTERN_BYTES_MAX) {
        return pattern_too_long();
    }
    let next = next.map(|key| match hash_of_key(key) {
        hash if hash > from => hash,
        hash => hash + 1,
    });
    let is_wanted = |key: &&Key| {
        next.is_none_or(|next| hash_of_key(key) < next)
            && type_name.is_none_or(|name| name.eq_ignore_ascii_case(b"string"))
            && pattern.is_none_or(|pattern| glob::matches(pattern, name_of_key(key)))
    };
    Outcome::Scan { next, keys: keys.iter().filter(is_wanted).map(|key| name_of_key(key).to_vec()).collect() }
}

/// Configurations.
impl Host {
    /// What the directory says of the configurations of groups here.
    pub(super) fn tell_registers(&mut self) {
        let news = |volume: &GroupRecord| Some((self.find(GroupId(volume.group))?, volume.stages.0.clone()));
        let news: Vec<(u32, Vec<Stage>)> = self.led_by(ROOT, Protocol::Register).filter_map(news).collect();
        news.into_iter().for_each(|(index, stages)| self.tell_register(index, stages));
    }

    /// The parent's word on a group here.
    pub(super) fn tell_register(&mut self, index: u32, stages: Vec<Stage>) {
        let group = &self.groups[index as usize];
        let replica = group.replica.register().filter(|_| group.is_alive());
        if replica.is_some_and(|replica| replica.core().stages() != &stages[..]) {
            if stages.len() > 1 && !std::mem::replace(&mut self.registers.retires_soon, true) {
                self.timers.set(self.clock.now(), Timer::Retire);
            }
            self.ask_core(index, Request::Know { stages });
        }
    }

    /// A replica that is born on this node.
    pub(super) fn register_replica(&self, record: &GroupRecord) -> AnyReplica {
        let (stages, me) = (record.stages.0.clone(), self.settings.node);
        let mut replica = match volume_of(GroupId(record.group)) {
            Some(_) => RegisterReplica::of_own(stages, me),
            None => RegisterReplica::new(stages, me),
        };
        replica.core_mut().set_start(self.settings.start);
        replica.set_asked_before(self.registers.token_count);
        AnyReplica::Register(Box::new(replica))
    }

    /// The link to a node goes with its process: operations ask others at once, without waiting for a suspicion. Groups in which
    /// there are none are told in the next turns.
    pub(super) fn tell_registers_of_link(&mut self, node: NodeId, is_linked: bool) {
        let in_use: BTreeSet<GroupId> = self.registers.waiting.groups().collect();
        for group in in_use {
            if let Some(index) = self.find(group) {
                self.tell_register_of_link(index, node, is_linked);
            }
        }
        self.sweep_registers(node, is_linked);
    }

    /// Whether that is news to it, and somebody there may wait for the node.
    pub(super) fn tell_register_of_link(&mut self, index: u32, node: NodeId, is_linked: bool) -> bool {
        let Some(replica) = self.groups[index as usize].replica.register_mut() else { return false };
        let is_lost = replica.core_mut().set_reachable(node, is_linked) && !is_linked && !replica.core().is_idle();
        if is_lost {
            self.plan(index, Event::Suspected(node));
        }
        is_lost
    }

    /// Groups here have come to be between two configurations: whoever asked for that need not wait for a heartbeat.
    pub(super) fn retire_timer_fired(&mut self) {
        self.registers.retires_soon = false;
        self.retire_configurations();
    }

    /// Each heartbeat: configurations are made ready to be retired, and what nobody asks for any more is forgotten.
    pub(super) fn tend_registers(&mut self) {
        let stamp = self.clock.stamp();
        while let Some(&(deadline, ticket)) = self.registers.forgettable.first()
            && deadline < stamp
        {
            self.registers.forgettable.pop_first();
            self.registers.writes.remove(&ticket);
        }
        self.registers.round_trips.fade();
        self.retire_configurations();
        self.collect_tombstones();
        self.look_for_expired();
        self.look_after_own_registers();
        self.leave_registers();
    }

    /// Where two configurations are in use, the first of the live members makes the older one ready to be retired; if nothing
    /// comes of that, for its replica may be silent, the next one does, and so on.
    fn retire_configurations(&mut self) {
        let (me, now) = (self.settings.node, self.clock.now());
        let live = |node: &NodeId| *node == me || !self.peers.is_suspected(*node);
        let mut changing: Vec<(GroupId, Epoch, usize)> = self
            .led(Protocol::Register)
            .filter(|record| record.is_moving())
            .filter_map(|record| {
                let rank = record.member_ids().filter(live).position(|node| node == me)?;
                Some((GroupId(record.group), Epoch(record.epoch), rank))
            })
            .collect();
        changing.extend(self.between_two());
        let retiring = &mut self.registers.retiring;
        let open: BTreeMap<GroupId, Epoch> = changing.iter().map(|&(group, epoch, _)| (group, epoch)).collect();
        retiring.retain(|group, retiring| open.get(group) == Some(&retiring.epoch));
        let (mut due, mut ready) = (Vec::new(), Vec::new());
        for (group, epoch, rank) in changing {
            if due.len() + ready.len() >= RETIRED_PER_BEAT {
                break;
            }
            let first_at = now.after_us(rank as u64 * RETIRE_PATIENCE_US);
            let first = Retiring { epoch, rank, due_at: first_at, token: None, is_ready: false };
            let entry = retiring.entry(group).or_insert(first);
            // Members before this one are suspected since.
            if rank < entry.rank {
                (entry.rank, entry.due_at) = (rank, entry.due_at.min(first_at));
            }
            // Whoever is asked again begins again: not while it is at it.
            let is_at_it = entry.token.is_some_and(|token| self.registers.waiting.contains(token));
            let Some(&index) = self.index.get(&group) else { continue };
            if entry.due_at > now || is_at_it || !self.groups[index as usize].is_alive() {
                continue;
            }
            entry.due_at = now.after_us(RETIRE_PATIENCE_US);
            match entry.is_ready {
                true => ready.push((group, epoch)),
                false => due.push((index, group)),
            }
        }
        for (index, group) in due {
            let record = self.record_of_led(group).filter(|record| record.is_moving());
            let stages = record.map(|record| record.stages.0.clone());
            let is_known_here = self.successions.contains(group);
            if stages.is_none() && !is_known_here {
                continue;
            }
            self.counters.registers_retired += 1;
            let token = self.registers.token(Waiting::Retirement { group });
            if let Some(retiring) = self.registers.retiring.get_mut(&group) {
                retiring.token = Some(token);
            }
            if let Some(stages) = stages.filter(|_| !is_known_here) {
                self.ask_core(index, Request::Know { stages });
            }
            self.ask_core(index, Request::Retire { token });
        }
        ready.into_iter().for_each(|(group, epoch)| self.tell_ready(group, epoch));
    }

    /// The parent is to decide that what was before this epoch is over. Without one it is.
    fn tell_ready(&mut self, group: GroupId, epoch: Epoch) {
        if self.successions.contains(group) {
            return;
        }
        let epoch = epoch.0;
        match volume_of(group) {
            None => self.submit_to_root(&RootCommand::RetireBefore { group: group.0, epoch }, Purpose::Settling),
            Some((volume, number)) => {
                self.submit_to_volume_of(volume, &VolumeCommand::RetireBefore { number, epoch });
            }
        }
    }

    /// Replicas of groups that this node is not in any more go once nobody waits for them.
    fn leave_registers(&mut self) {
        let me = self.settings.node;
        let is_left = |record: &&GroupRecord| !record.lives_on(me, Protocol::Register);
        let left: Vec<GroupId> =
            self.led(Protocol::Register).filter(is_left).map(|record| GroupId(record.group)).collect();
        for group in left {
            let Some(index) = self.find(group) else { continue };
            let replica = &self.groups[index as usize].replica;
            // One that is silent is told nothing any more.
            let is_over = self.groups[index as usize].state.is_silent() || replica.is_idle() && !replica.is_inside();
            if is_over {
                self.leave_register(group);
            }
        }
    }
}
