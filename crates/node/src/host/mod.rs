//! The host of one worker's groups: everything a node does except touching the world.
//!
//! Its environment, the server or the simulator, runs *turns*:
//!
//! ```text
//! take what the sockets hold; then read the clocks
//! host.begin(moment)                    the clocks are read after the requests were taken: see the leases
//! host.receive / submit / linked / stored ...
//! host.end(&storage)                    timers; gathered commands become slots
//! send host.take_frames(..), answer host.take_answers(), store host.take_batches(), drop host.take_discarded()
//! perform host.log_mut().submit(), then host.flushed(lsn), then send and answer again
//! ```
//!
//! The host keeps the order that the core's contract asks for: what a replica says only once durable leaves in
//! [`Host::flushed`]. Nothing here reads a clock, a random number, a socket or a file.

mod absence;
mod admin;
mod at_once;
mod batches;
#[cfg(test)]
mod becoming;
mod behind;
mod birth_of_root;
mod births;
#[cfg(test)]
mod brief_lives;
mod census;
mod chains;
pub(crate) mod checkpoints;
mod clocks;
mod coordination;
mod copies;
mod counters;
mod demand;
mod digests;
mod directory;
mod discarded;
mod dispatch;
mod emptied;
mod expired;
mod flush;
mod grid;
mod group;
mod held;
mod help;
mod late;
mod leaving;
mod led;
mod look_ahead;
mod lookups;
mod losses;
mod nodes;
mod open;
mod order;
mod orphans;
mod outside;
mod own;
mod own_registers;
mod perform;
mod placement;
mod postponed;
mod quarantine;
mod readmission;
mod registers;
mod relief;
mod removal;
mod renewals;
mod replay;
mod requests;
mod resting;
mod retries;
mod root_group;
mod routed;
mod router;
mod routes;
mod saving;
mod seats;
mod shown;
#[cfg(test)]
mod sizes;
mod status;
mod steps;
mod stopping;
mod stranded;
mod succession;
mod swapped;
#[cfg(test)]
mod three_nodes;
mod tombstones;
mod transfer;
mod unlogged;
mod unstored;
mod upgrade;
mod upkeep;
mod waiters;
mod wishes;

use std::collections::VecDeque;

use hashbrown::HashMap;
use quorate_checkpoint::Batch;
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::{GroupId, Instant, NodeId, Stamp};
use quorate_wal::{Lsn, Storage, Wal};
use slab::Slab;

pub(crate) use births::is_birth;
pub use census::Census;
pub use counters::Counters;
pub use digests::DigestCounts;
pub use directory::ObjectCount;
pub use discarded::Discarded;
pub use group::{Group, ROOT_NAMESPACE};
pub use lookups::{Found, Lookup};
pub use nodes::Admission;
pub use open::{OpenError, OpenReport};
pub use quarantine::{Fault, PanicIn};
pub use resting::OwnCounts;
pub(crate) use router::{RoutedRead, RoutedWrite};
pub use transfer::check_snapshot;

use crate::answer::Answer;
use crate::clock::{HybridClock, Moment, WallClocks};
use crate::entry::Operations;
use crate::frame::{Access, Bounce, FrameError, Header, Message, decode_frame};
use crate::hash::FixedState;
use crate::level::FeatureLevel;
use crate::outbox::{Carrier, Outbox};
use crate::replica::{AnyEffects, AnyEvent, AnyMessage};
use crate::root::{NodeRecord, RootState, Settings};
use crate::timers::Timers;
use crate::wakings::Wakings;
use chains::TermAnswer;

/// Bytes of answers that may wait to be taken before nothing more is asked for.
pub const ANSWER_BYTES_MAX: usize = 32 << 20;

/// What a host is told at its start and cannot find out by itself.
#[derive(Clone, Debug)]
pub struct HostSettings {
    pub node: NodeId,
    /// The node's durable count of its starts, this one included.
    pub start: u32,
    /// The cluster that the first nodes form; the same on all of them. Of a node that joins, those by which it finds the others.
    pub nodes: Vec<NodeRecord>,
    /// The cluster is there already: nothing is born here that the others do not tell of.
    pub joins: bool,
    pub defaults: Settings,
    pub cluster: u64,
    pub timing: Timing,
    /// How long an operation is tried.
    pub timeout_ms: u64,
    pub log: quorate_wal::Settings,
    /// Seeds what the host does at random.
    pub seed: u64,
    /// A group is checkpointed after this many bytes of its records, or this many slots.
    pub checkpoint_bytes: u64,
    pub checkpoint_slots: u64,
    /// A volume whose objects take more is sent to members from the checkpoint store.
    pub encoded_at_once_max: usize,
    /// Changed objects of volumes that are encoded for checkpoints in a turn, about.
    pub saved_per_turn: usize,
    /// An own group with nothing in hand comes to rest after this,
    pub rest_after_us: u64,
    /// ... and if more than this are awake, at once.
    pub awake_max: usize,
    /// A chain gets back the order that it was born with once all its nodes have been well for so long.
    pub turn_after_us: u64,
    /// Tombstones of registers are collected so long after they were before.
    pub tombstones_after_us: u64,
    /// What own groups at rest may take in memory; the others are in the checkpoint store only.
    pub resting_bytes_max: usize,
    /// What volumes' records of own groups may take in memory; of the others the checkpoint store has the names only.
    pub records_bytes_max: usize,
    /// This node sends commands that enter here and are so large to all members of their group; 0 for none.
    pub digest_bytes: usize,
    /// A volume of which so many commands a second enter at one member, nearly all of them, is coordinated there; 0 for none.
    pub follow_clients_at: u32,
    /// What the last stop may have lost.
    pub forgotten: Forgotten,
    /// The data directory is new, and not all other nodes have accepted it yet: until [`Host::admit`] its replicas say
    /// nothing. Who lost a directory must not found the cluster anew with others who did.
    pub is_new: bool,
    pub version: String,
    /// The highest feature level that the release knows.
    pub level_known: FeatureLevel,
    pub pid: u32,
    /// Keep what is executed for [`Host::take_executed`], for a simulator that compares replicas.
    pub observe: bool,
}

/// What a node may have said and not remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// It was stopped cleanly, or never started before.
    Nothing,
    /// The process died: what only memory held is gone.
    Memory,
    /// The machine died: what was not synced is gone as well.
    Unsynced,
    /// The data directory is gone, and a new one takes its place. Which groups it had a part in is not known yet.
    Everything,
}

/// Something a client wants, at the node it is connected to.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Rises from one submission to the next.
    pub number: u64,
    /// The number of the connection's latest unanswered operation on the same object.
    pub predecessor: Option<u64>,
    pub target: crate::entry::Target,
    pub command: &'a quorate_object::Command<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Forget { index: u32, group: GroupId },
    Retry { number: u64 },
    Status { nonce: u64 },
    Views { batch: u64 },
    Part { batch: u64, part: u32 },
    Change { operation: u64 },
    Routed { index: u32, group: GroupId },
    Settle,
    Late,
    Outside,
    Retire,
    Rest,
    Swap,
    Digests,
    Directory,
    Heartbeat,
    Resend,
    Balance,
}

pub struct Host {
    settings: HostSettings,
    clock: HybridClock,
    random: u64,
    peers: Peers,
    started_at: Instant,
    linked: Vec<NodeId>,
    /// Nodes that were removed, until no lease that they were given or gave can last.
    gone: Vec<NodeId>,
    /// When the root was last asked to note with which data directory this node begins.
    begin_asked_at: Option<Instant>,
    /// The feature levels that nodes have said their releases know.
    levels: HashMap<NodeId, FeatureLevel, FixedState>,
    walls: WallClocks,
    /// This node's wall clock is not known to agree with most: it neither coordinates nor takes commands.
    clock_off: bool,
    /// Which frames of each node have arrived.
    seen: HashMap<NodeId, crate::seen::Seen, FixedState>,
    /// Connected clients, as the environment last said.
    client_count: u64,
    /// When each node was last found to be suspected no more: coordination returns to it only after a while.
    recovered_at: HashMap<NodeId, Instant, FixedState>,
    /// When each node came to be suspected last.
    suspected_at: HashMap<NodeId, Instant, FixedState>,
    /// In boxes, so that places which are free cost little.
    groups: Slab<Box<Group>>,
    index: HashMap<GroupId, u32, FixedState>,
    /// Messages of the frame that is being taken; kept for its memory.
    staged: Vec<look_ahead::Staged>,
    directory: directory::Directory,
    clients: Operations,
    internals: Operations,
    /// Own groups of volumes that are not here.
    remembered: routes::Remembered,
    routers: router::Routers,
    /// In namespaces of local reads.
    told: at_once::ToldOf,
    /// When volumes have said last that these own groups, which lack a quorum, still are their objects'.
    confirmed: HashMap<GroupId, Instant, FixedState>,
    unknown_group_asked_at: Instant,
    admins: Vec<admin::Waiting>,
    batches_open: batches::Batches,
    changes: postponed::Changes,
    placing: placement::Placing,
    flushes: flush::Flushes,
    questions: status::Questions,
    lookups: Vec<Lookup>,
    swapping: swapped::Swapping,
    discarded: Vec<Discarded>,
    reads: Slab<requests::Read>,
    read_buffers: Vec<Vec<u8>>,
    outbox: Outbox,
    /// A replica's messages to itself that wait for the disk.
    held: VecDeque<(Lsn, u32, GroupId, AnyMessage)>,
    todo: VecDeque<(u32, GroupId, AnyEvent)>,
    /// Within [`Host::run`].
    running: bool,
    effects: AnyEffects,
    gathered: Vec<u32>,
    /// What was executed, if somebody observes: a hash of each value.
    executed: Vec<(GroupId, quorate_protocol::Slot, u64)>,
    /// Of own groups whose object is gone and that have not ended yet.
    held_answers: std::collections::BTreeMap<GroupId, Vec<held::HeldAnswer>>,
    /// What has become of the commands of the slot that is being applied.
    verdicts: Vec<(crate::envelope::Ticket, crate::machine::Verdict)>,
    catch_ups: Vec<(GroupId, NodeId, quorate_protocol::Slot)>,
    transfers: transfer::Transfers,
    digests: digests::Digests,
    unlogged: unlogged::Unlogged,
    readmissions: readmission::Readmissions,
    seats: seats::SeatChanges,
    emptying: emptied::Emptying,
    removals: removal::Removals,
    own: own::OwnGroups,
    terms: chains::Terms,
    registers: registers::Registers,
    successions: succession::Successions,
    wishes: wishes::Wishes,
    here: resting::OwnHere,
    /// Groups that this node coordinates though it is not the member they were born with.
    displaced: VecDeque<(u32, GroupId)>,
    /// Groups of which is counted where their commands enter.
    followed: Vec<(u32, GroupId)>,
    sweeps: VecDeque<upkeep::Sweep>,
    timers: Timers<Timer>,
    /// When what expires next in groups is looked at. Very many may be due at one time, and nothing else waits for them.
    expiries: Timers<GroupId>,
    retries: retries::Retries,
    /// Of the groups' replicas.
    wakings: Wakings,
    wal: Wal,
    scratch: Vec<u8>,
    answers: Vec<(u64, Answer)>,
    demand: demand::DemandOfClients,
    /// What the answers keep, roughly.
    answer_bytes: usize,
    /// As the environment last said: writes that may take more are refused.
    out_of_memory: bool,
    out_of_space: bool,
    is_leaving: bool,
    batches: Vec<(u64, Batch)>,
    storing: checkpoints::Storing,
    behind: behind::Behind,
    checkpoint_wanted: VecDeque<u32>,
    unstored: VecDeque<unstored::Unstored>,
    /// Panics in groups that nobody has been told of yet.
    faults: Vec<Fault>,
    panic_planned: Option<(GroupId, PanicIn)>,
    /// When the members of a group were last told that the replica here is silent.
    silence_told: HashMap<GroupId, Instant, FixedState>,
    /// Somebody has said that a replica of his is silent.
    silence_heard: bool,
    /// Born, and silent until the node is admitted.
    births_waiting: Vec<GroupId>,
    /// Groups that are born here may have been here before, in a directory that was lost, until the root has answered this question or
    /// a later one.
    lost_groups_known_with: Option<u64>,
    /// What is wrong with this node: found when it was opened, and as the environment last said.
    damage: Vec<String>,
    alarms: Vec<String>,
    counters: Counters,
    counting: census::Counting,
}

impl Host {
    /// Starts a turn. The clocks were read after everything handed over in this turn was taken from the outside.
    pub fn begin(&mut self, moment: Moment) {
        self.discarded.clear();
        self.clock.advance(moment);
        self.walls.read(moment);
        self.judge_clock();
    }

    /// A link to this node was made; what it missed meanwhile is sent again.
    pub fn linked(&mut self, node: NodeId) {
        if !self.linked.contains(&node) {
            self.linked.push(node);
        }
        self.send_heartbeat(node);
        self.hear_anew_of(node);
        self.resend_operations_to(node);
        self.tell_registers_of_link(node, true);
        self.tell_all_members(node);
        self.ask_again_soon();
    }

    pub fn unlinked(&mut self, node: NodeId) {
        self.linked.retain(|&linked| linked != node);
        self.tell_registers_of_link(node, false);
        self.run();
    }

    /// Something has come from this node, be it a part of a frame: one that is large takes its time.
    pub fn hears(&mut self, node: NodeId) {
        if self.peers.heard(node, self.clock.now()) {
            self.note_recovered(node);
        }
    }

    /// Whether nothing has been heard of this node for so long that no grant which it was given here lasts.
    pub fn is_unheard(&self, node: NodeId) -> bool {
        self.peers.is_unheard(node)
    }

    /// Takes a whole frame from the node that the link leads to.
    pub fn receive(&mut self, from: NodeId, frame: &[u8]) -> Result<(), FrameError> {
        let (header, bytes) = decode_frame(frame)?;
        if header.node != from {
            self.counters.nonsense += 1;
            return Ok(());
        }
        if !self.is_peer(from) {
            self.counters.nonsense += 1;
            return Ok(());
        }
        let seen = self.seen.entry(from).or_default();
        let start_before = seen.start();
        if !seen.is_new(header.start, header.sequence) {
            self.counters.frames_repeated += 1;
            return Ok(());
        }
        if header.start != start_before {
            self.forget_silence_of(from);
            self.hear_anew_of(from);
            self.digests.forget_held_from(from);
        }
        self.hears(from);
        if header.directory > self.directory.version() {
            self.ask_for_directory();
        }
        self.handle_messages(&header, bytes)?;
        if !self.clock_off && self.walls.agrees_with(from) {
            self.clock.follow(header.stamp);
        }
        Ok(())
    }

    /// Ends the taking of inputs: time passes, gathered commands are proposed, and peers are helped to catch up.
    pub fn end(&mut self, storage: &impl Storage) {
        self.fire_timers();
        self.run();
        self.propose_gathered();
        self.fail_overdue();
        self.serve_catch_ups(storage);
        self.relieve_log(storage);
        self.rest_some();
        self.swap_some();
        self.end_orphans();
        self.bear_some_late();
        self.start_checkpoints();
        self.count_some();
    }

    /// The log is durable up to `lsn`: what waited for it goes on.
    pub fn flushed(&mut self, lsn: Lsn) {
        self.wal.completed(lsn);
        self.release_durable();
        self.run();
        self.propose_gathered();
    }

    /// When the next turn is due even if nothing arrives.
    pub fn next_turn_at(&self) -> Instant {
        let overdue_at = self.clients.give_up_at().unwrap_or(Instant::MAX);
        let idle = self.sweeps.is_empty()
            && self.catch_ups.is_empty()
            && !self.may_end_orphans()
            && !self.own.late.has_unborn()
            && !self.retries.is_due();
        let busy_at = if idle { Instant::MAX } else { self.clock.now() };
        let timers_at = self.timers.next_at().into_iter().chain(self.wakings.next_at());
        timers_at
            .chain(self.expiries_at())
            .chain(self.saves_at())
            .min()
            .unwrap_or(Instant::MAX)
            .min(overdue_at)
            .min(busy_at)
    }

    /// Hands out frames for every peer that there is something to say to, and that can take more at the moment.
    pub fn take_frames(&mut self, mut carrier: impl Carrier) {
        let header = Header {
            node: self.settings.node,
            start: self.settings.start,
            sequence: 0,
            stamp: self.clock.stamp(),
            wall: self.clock.wall(),
            directory: self.directory.version(),
        };
        self.outbox.take_frames(&header, &mut carrier);
    }

    pub fn take_answers(&mut self, into: &mut Vec<(u64, Answer)>) {
        self.answer_bytes = 0;
        into.append(&mut self.answers);
    }

    /// Whether clients' operations should be submitted now. Those that are submitted all the same are refused, if they
    /// are far too many, or their answers take memory until they are taken.
    pub fn has_room(&self) -> bool {
        self.answer_bytes < ANSWER_BYTES_MAX && !self.clients.is_full()
    }

    /// The environment has measured what this process uses.
    pub fn set_out_of_memory(&mut self, out_of_memory: bool) {
        self.out_of_memory = out_of_memory;
    }

    /// Messages to other nodes that were dropped, because too much was waiting for them.
    pub fn dropped_count(&self) -> u64 {
        self.outbox.dropped_count
    }

    /// What the checkpoint store is to hold; [`Host::stored`] is called with each number once it does, in order.
    pub fn take_batches(&mut self) -> Vec<(u64, Batch)> {
        std::mem::take(&mut self.batches)
    }

    pub fn log_mut(&mut self) -> &mut Wal {
        &mut self.wal
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn directory(&self) -> Option<&RootState> {
        self.directory.state()
    }

    pub fn stamp(&self) -> Stamp {
        self.clock.stamp()
    }

    pub fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// Everyone that a link should be kept to.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.peers.nodes()
    }

    /// To be called before the first turn: what the log and the checkpoint took to open is nobody's silence.
    pub fn begin_listening(&mut self, now: Instant) {
        self.peers.begin_listening(now);
    }

    pub fn is_suspected(&self, node: NodeId) -> bool {
        self.peers.is_suspected(node)
    }

    /// What was executed since this was last asked: group, slot and a hash of the value.
    pub fn take_executed(&mut self) -> Vec<(GroupId, quorate_protocol::Slot, u64)> {
        std::mem::take(&mut self.executed)
    }

    pub fn set_client_count(&mut self, count: u64) {
        self.client_count = count;
    }

    /// What is wrong with the node, apart from what its disk lost, for its status.
    pub fn set_alarms(&mut self, alarms: Vec<String>) {
        self.alarms = alarms;
    }

    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|(_, group)| &**group)
    }

    fn handle_message(&mut self, header: &Header, message: Message<'_>) {
        let from = header.node;
        match message {
            Message::Peers(message) => self.handle_peers(header, message),
            Message::Request { group, epoch, access, envelope } => {
                self.handle_request(from, group, epoch, access, None, envelope)
            }
            Message::Reply { start, number, position, outcome } => self.handle_reply(start, number, position, outcome),
            Message::Bounced { start, number, why } => self.handle_bounced(from, start, number, why),
            Message::Replica { group, epoch, message } => self.handle_replica_message(from, group, epoch, message),
            Message::Digest(message) => self.handle_digest(from, message),
            Message::Router(message) => self.handle_router_message(from, message),
            Message::Snapshot { group, epoch, next_slot, part, last, bytes } => {
                self.handle_snapshot(from, group, epoch, transfer::Part { next_slot, part, last, bytes })
            }
            Message::SnapshotTaken { group, epoch, next_slot, part } => {
                self.handle_snapshot_taken(from, group, epoch, next_slot, part)
            }
            Message::Silent { group, epoch } => {
                // Its sender may have been taken in again since: silence that comes late says nothing. It is told again.
                let seen = self.seen.get(&from).copied().unwrap_or_default();
                if !seen.is_overtaken(header.start, header.sequence) {
                    self.handle_silent(from, group, epoch);
                }
            }
            Message::Readmit { group, epoch, start, next_slot, asks } => {
                self.handle_readmit(from, (group, epoch), start, next_slot, asks)
            }
            Message::RootGroup(bytes) => self.handle_root_group(from, bytes),
            Message::Testimony { group, epoch, start, testimony } => {
                self.handle_testimony(from, group, epoch, start, testimony)
            }
            Message::Away { start, number, volume, slot, record } => {
                if start == self.settings.start {
                    self.handle_away(number, volume, slot, record);
                }
            }
            Message::StopGroup { group, epoch, insist } => self.handle_stop_group(group, epoch, insist),
            Message::Births { volume, numbers } => self.handle_births(from, volume, &numbers),
            Message::Born { volume, numbers } => self.handle_born(from, volume, &numbers),
            Message::StoreBehind => self.handle_store_behind(from),
            Message::Unable => self.peers.note_unable(from, self.clock.now()),
            Message::TermQuestion { parent, asked_at, confirm, extended, absent } => {
                self.note_absent(from, parent, &absent);
                self.handle_term_question(from, parent, asked_at, &confirm, &extended)
            }
            Message::TermAnswer { parent, asked_at, number, left_us, confirmed } => {
                self.handle_term_answer(from, TermAnswer { parent, asked_at, number, left_us, confirmed })
            }
            Message::Drain { group, epoch } => self.handle_drain(from, group, epoch),
            Message::Members(told) => self.handle_members(from, told),
            Message::Reconfigure { group, start, nonce, wanted } => {
                self.handle_reconfigure(from, group, start, nonce, wanted)
            }
            Message::Reconfigured { start, nonce, outcome } => self.handle_reconfigured(start, nonce, outcome),
            Message::Drained { group, epoch } => self.handle_drained(from, group, epoch),
            Message::ViewQuestion { nonce, groups } => self.handle_view_question(from, nonce, &groups),
            Message::ViewAnswer { nonce, views } => self.handle_view_answer(from, nonce, &views),
            Message::StatusQuestion { nonce } => self.handle_status_question(from, nonce),
            Message::StatusAnswer { nonce, bytes } => self.handle_status_answer(from, nonce, bytes),
        }
    }

    fn handle_peers(&mut self, header: &Header, message: quorate_protocol::peers::Message) {
        use quorate_protocol::peers::Message as PeersMessage;
        let from = header.node;
        match message {
            PeersMessage::Heartbeat { sent_at } => {
                if let Some(answer) = self.peers.handle_heartbeat(from, sent_at, self.clock.now()) {
                    self.outbox.send(from, &Message::Peers(answer));
                }
            }
            PeersMessage::Grant { sent_at, number } => {
                // A peer that answers from the future has not answered us.
                if sent_at <= self.clock.now() {
                    self.peers.handle_grant(from, sent_at, number);
                    self.walls.hear(from, header.wall, sent_at);
                    self.judge_clock();
                } else {
                    self.counters.nonsense += 1;
                }
            }
        }
    }

    fn find(&self, group: GroupId) -> Option<u32> {
        self.index.get(&group).copied()
    }

    fn bounce(&mut self, to: NodeId, start: u32, number: u64, why: Bounce) {
        if to == self.settings.node {
            self.handle_bounced(to, start, number, why);
        } else {
            self.outbox.send(to, &Message::Bounced { start, number, why });
        }
    }
}

/// The access that a command's request asks for.
fn access_of(command: &quorate_object::Command<'_>, reads: crate::root::Reads) -> Access {
    match command.access() {
        quorate_object::Access::Write => Access::Write,
        quorate_object::Access::Read if reads == crate::root::Reads::Quorum => Access::ReadQuorum,
        quorate_object::Access::Read => Access::ReadLease,
    }
}
