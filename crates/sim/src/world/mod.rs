//! A cluster of real hosts in an imagined world: its clocks, its network, its disks and its clients follow a seed.
//!
//! Every node runs the very host and log that the server runs; the world plays the server's part, turn by turn. What
//! happens is a queue of events in true time, and the order of equal times is the order in which they were planned.

mod clients;
mod faults;
mod movers;
mod network;
mod node;
mod settings;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use quorate_node::Lookup;
use quorate_node::root::{NodeRecord, Settings as NamespaceSettings};
use quorate_protocol::{GroupId, NodeId};

use crate::history::{History, Object};
use crate::property::agreement::Agreement;
use crate::random::Random;

pub use faults::{Blow, FaultCounts, Strike};
pub use network::Network;
pub use node::Node;
pub use settings::{Rest, Settings};

use clients::Clients;

/// Wall time, in milliseconds, at the world's time 0.
pub const ORIGIN_MS: u64 = 1_700_000_000_000;

/// Until then nothing goes wrong.
const FAULTS_FROM_US: u64 = 3_000_000;

/// What happens.
#[derive(Debug)]
enum Event {
    /// A node looks at what has arrived. Of an earlier start of the node: void.
    Turn {
        node: usize,
        life: u32,
    },
    Frame {
        to: usize,
        from: usize,
        bytes: Vec<u8>,
    },
    Flushed {
        node: usize,
        life: u32,
        lsn: quorate_wal::Lsn,
    },
    Stored {
        node: usize,
        life: u32,
    },
    LookedUp {
        node: usize,
        life: u32,
        lookup: Lookup,
    },
    Client {
        client: usize,
    },
    Fault,
    Outage,
    Death,
    Strike(Strike),
    CutOff {
        node: usize,
    },
    Move,
    Crowd,
    Guests,
    Replace,
    Restart {
        node: usize,
    },
    Resume {
        node: usize,
    },
    Heal,
}

struct Planned {
    at_us: u64,
    order: u64,
    event: Event,
}

/// A count of something that must be reached sometimes, or a rare path is not tested at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sometimes {
    pub coordinator_changed_in_flight: u64,
    pub snapshot_installed: u64,
    pub learned_from_log: u64,
    pub torn_tail: u64,
    pub log_damaged: u64,
    pub directories_replaced: u64,
    pub lease_refused: u64,
    pub read_without_lease: u64,
    pub answered_from_window: u64,
    pub out_of_order_refused: u64,
    pub snapshot_copied: u64,
    pub checkpointed: u64,
    pub checkpointed_in_turns: u64,
    pub stored_unused: u64,
    pub log_segment_removed: u64,
    pub log_carried: u64,
    pub unknown_outcome: u64,
    pub handed_over: u64,
    pub followed: u64,
    pub quarantined: u64,
    pub born: u64,
    pub rested: u64,
    pub paused_stranded: u64,
    pub readmitted: u64,
    pub chains_left: u64,
    pub woken_from_memory: u64,
    pub woken_from_store: u64,
    pub records_swapped: u64,
    pub records_swapped_in: u64,
    pub returned: u64,
    pub own_changed: u64,
    pub own_renewed: u64,
    pub own_moved_off: u64,
    pub outside_born: u64,
    pub outside_ended: u64,
    pub chains_changed: u64,
    pub chains_turned: u64,
    pub chains_replaced: u64,
    pub moves_planned: u64,
    pub replicas_replaced: u64,
    pub absences_over: u64,
    pub read_by_member: u64,
    pub read_through_router: u64,
    pub read_at_router: u64,
    pub routed_read_turned_back: u64,
    pub recalled: u64,
    pub register_read_in_one_round: u64,
    pub register_read_in_more_rounds: u64,
    pub registers_retired: u64,
    pub registers_ended: u64,
    pub registers_left: u64,
    pub tombstones_forgotten: u64,
    pub members_born: u64,
    pub references_resolved: u64,
    pub references_held: u64,
    pub references_in_full: u64,
    pub bodies_unused: u64,
    pub guests_dropped: u64,
    pub seats_changed: u64,
    pub seats_left: u64,
    pub root_seats_changed: u64,
}

impl Sometimes {
    /// Every count with what it counts.
    pub fn counts(&self) -> [(&'static str, u64); 61] {
        [
            ("a coordinator changed with slots in flight", self.coordinator_changed_in_flight),
            ("a snapshot was installed", self.snapshot_installed),
            ("a member caught up from the log", self.learned_from_log),
            ("a log had a torn tail", self.torn_tail),
            ("a log had lost something", self.log_damaged),
            ("a node came back with a new directory", self.directories_replaced),
            ("a promise was refused because of a lease", self.lease_refused),
            ("a read took a quorum round", self.read_without_lease),
            ("a command sent again was answered from what was kept", self.answered_from_window),
            ("a command was refused because it overtook", self.out_of_order_refused),
            ("a snapshot was read from the store", self.snapshot_copied),
            ("a group was checkpointed", self.checkpointed),
            ("a checkpoint took several turns", self.checkpointed_in_turns),
            ("a volume was checkpointed because nobody used it", self.stored_unused),
            ("a segment of a log was removed", self.log_segment_removed),
            ("records of a log were carried on", self.log_carried),
            ("the fate of a call stayed unknown", self.unknown_outcome),
            ("a coordinator handed over", self.handed_over),
            ("a coordinator handed over to where the clients are", self.followed),
            ("a replica panicked and was given up", self.quarantined),
            ("a replica of an own group was born", self.born),
            ("an own group came to rest", self.rested),
            ("an own group without a quorum was paused", self.paused_stranded),
            ("a replica that had forgotten was taken in again", self.readmitted),
            ("a member of a chain that had forgotten began anew", self.chains_left),
            ("an own group woke from memory", self.woken_from_memory),
            ("an own group woke from the store", self.woken_from_store),
            ("an own group's record left memory", self.records_swapped),
            ("an own group's record was read again", self.records_swapped_in),
            ("an own group ended", self.returned),
            ("an own group became another", self.own_changed),
            ("an own group began anew because a member had forgotten what it said", self.own_renewed),
            ("an own group left a node that was drained", self.own_moved_off),
            ("a replica of an own group was born where its volume has none", self.outside_born),
            ("one of these ended", self.outside_ended),
            ("a chain was changed", self.chains_changed),
            ("a member of a chain was moved behind the tail", self.chains_turned),
            ("a member of a chain left since another had come in its place", self.chains_replaced),
            ("whoever coordinated the root had a replica moved", self.moves_planned),
            ("a replica got another place since its node was away for long", self.replicas_replaced),
            ("a node that was away for long was back", self.absences_over),
            ("a member of a chain answered a read by itself", self.read_by_member),
            ("a member answered a read that a router sent it", self.read_through_router),
            ("a router read its own replica", self.read_at_router),
            ("a member turned back a router's read", self.routed_read_turned_back),
            ("a kgroup was recalled from a router", self.recalled),
            ("a register was read in one round", self.register_read_in_one_round),
            ("a register was read in more than one round", self.register_read_in_more_rounds),
            ("a configuration of registers was made ready to be retired", self.registers_retired),
            ("an own group that was a register told what it ended with", self.registers_ended),
            ("a node forgot a group that it had left", self.registers_left),
            ("a tombstone of a register was forgotten", self.tombstones_forgotten),
            ("a member came to life on the word of others", self.members_born),
            ("a reference was replaced by what it stands for", self.references_resolved),
            ("a message waited for what it refers to", self.references_held),
            ("a message whose bodies did not come was sent in full", self.references_in_full),
            ("a body was not referred to in time", self.bodies_unused),
            ("a namespace with own groups was dropped", self.guests_dropped),
            ("a replica followed a change of seats", self.seats_changed),
            ("a node left a volume to another", self.seats_left),
            ("a member of the root followed a change of seats there", self.root_seats_changed),
        ]
    }

    pub fn add(&mut self, more: &Sometimes) {
        self.coordinator_changed_in_flight += more.coordinator_changed_in_flight;
        self.snapshot_installed += more.snapshot_installed;
        self.learned_from_log += more.learned_from_log;
        self.torn_tail += more.torn_tail;
        self.log_damaged += more.log_damaged;
        self.directories_replaced += more.directories_replaced;
        self.lease_refused += more.lease_refused;
        self.read_without_lease += more.read_without_lease;
        self.answered_from_window += more.answered_from_window;
        self.out_of_order_refused += more.out_of_order_refused;
        self.snapshot_copied += more.snapshot_copied;
        self.checkpointed += more.checkpointed;
        self.checkpointed_in_turns += more.checkpointed_in_turns;
        self.stored_unused += more.stored_unused;
        self.log_segment_removed += more.log_segment_removed;
        self.log_carried += more.log_carried;
        self.unknown_outcome += more.unknown_outcome;
        self.handed_over += more.handed_over;
        self.followed += more.followed;
        self.quarantined += more.quarantined;
        self.born += more.born;
        self.rested += more.rested;
        self.paused_stranded += more.paused_stranded;
        self.readmitted += more.readmitted;
        self.chains_left += more.chains_left;
        self.woken_from_memory += more.woken_from_memory;
        self.woken_from_store += more.woken_from_store;
        self.records_swapped += more.records_swapped;
        self.records_swapped_in += more.records_swapped_in;
        self.returned += more.returned;
        self.own_changed += more.own_changed;
        self.own_renewed += more.own_renewed;
        self.own_moved_off += more.own_moved_off;
        self.outside_born += more.outside_born;
        self.outside_ended += more.outside_ended;
        self.chains_changed += more.chains_changed;
        self.chains_turned += more.chains_turned;
        self.chains_replaced += more.chains_replaced;
        self.moves_planned += more.moves_planned;
        self.replicas_replaced += more.replicas_replaced;
        self.absences_over += more.absences_over;
        self.read_by_member += more.read_by_member;
        self.read_through_router += more.read_through_router;
        self.read_at_router += more.read_at_router;
        self.routed_read_turned_back += more.routed_read_turned_back;
        self.recalled += more.recalled;
        self.register_read_in_one_round += more.register_read_in_one_round;
        self.register_read_in_more_rounds += more.register_read_in_more_rounds;
        self.registers_retired += more.registers_retired;
        self.registers_ended += more.registers_ended;
        self.registers_left += more.registers_left;
        self.tombstones_forgotten += more.tombstones_forgotten;
        self.members_born += more.members_born;
        self.references_resolved += more.references_resolved;
        self.references_held += more.references_held;
        self.references_in_full += more.references_in_full;
        self.bodies_unused += more.bodies_unused;
        self.guests_dropped += more.guests_dropped;
        self.seats_changed += more.seats_changed;
        self.seats_left += more.seats_left;
        self.root_seats_changed += more.root_seats_changed;
    }
}

pub struct World {
    settings: Settings,
    random: Random,
    /// What becomes of the guests' namespace.
    guests: Random,
    now_us: u64,
    order: u64,
    queue: BinaryHeap<Reverse<Planned>>,
    nodes: Vec<Node>,
    network: Network,
    clients: Clients,
    history: History,
    faults: FaultCounts,
    walls_right_since_us: u64,
    /// Until then no network heals.
    outage_until_us: u64,
    /// Where a replica of a group was made to panic last: at which node, in which life of it.
    panics: BTreeMap<GroupId, (usize, u32)>,
    /// Of which object something is wished next, and how often still.
    hurry: (Object, u64),
    /// Faults are over: what is left must come to an end.
    healing: bool,
    agreement: Agreement,
    sometimes: Sometimes,
    trace: u64,
    turns: u64,
}

impl World {
    pub fn new(settings: Settings) -> World {
        let mut random = Random::new(settings.seed);
        let records: Vec<NodeRecord> = (1..=settings.nodes).map(node_record).collect();
        let defaults = NamespaceSettings {
            replicas: settings.replicas,
            volumes: settings.volumes,
            durability: settings.durability,
            reads: settings.reads,
            protocol: settings.protocol,
            groups: settings.groups,
            quorum: settings.quorum,
            tolerance: settings.tolerance,
            authority: settings.authority,
        };
        let nodes = (0..settings.nodes)
            .map(|at| Node::new(NodeId(at + 1), records.clone(), defaults, &settings, &mut random))
            .collect();
        let mut world = World {
            network: Network::new(settings.nodes as usize, settings.slow_frames, settings.late_max_us, random.fork()),
            clients: Clients::new(&settings, random.fork()),
            guests: Random::new(settings.seed ^ 0x6E57),
            settings,
            random,
            now_us: 0,
            order: 0,
            queue: BinaryHeap::new(),
            nodes,
            history: History::new(),
            faults: FaultCounts::default(),
            walls_right_since_us: 0,
            outage_until_us: 0,
            panics: BTreeMap::new(),
            hurry: (Object(0), 0),
            healing: false,
            agreement: Agreement::default(),
            sometimes: Sometimes::default(),
            trace: 0,
            turns: 0,
        };
        for node in 0..world.nodes.len() {
            world.start_node(node);
        }
        for client in 0..world.clients.count() {
            world.plan(1_000_000, Event::Client { client });
        }
        match world.settings.strikes.clone() {
            None => world.plan(FAULTS_FROM_US, Event::Fault),
            Some(strikes) => {
                strikes
                    .into_iter()
                    .for_each(|strike| world.plan(FAULTS_FROM_US + strike.after_us, Event::Strike(strike)));
            }
        }
        if world.settings.outages {
            world.plan(FAULTS_FROM_US, Event::Outage);
        }
        if world.settings.deaths_mean_ms.is_some() {
            world.plan(FAULTS_FROM_US, Event::Death);
        }
        world.plan(1_000_000, Event::Move);
        world.plan(1_200_000, Event::Crowd);
        if world.settings.guests {
            world.plan(1_400_000, Event::Guests);
        }
        if world.settings.replaces_mean_ms.is_some() {
            world.plan(1_600_000, Event::Replace);
        }
        world
    }

    /// Lets the world happen until every client has its calls behind it and the cluster has come to rest, or too much
    /// time has passed for that. True if it came to rest.
    pub fn run(&mut self) -> bool {
        while let Some(Reverse(planned)) = self.queue.pop() {
            assert!(planned.at_us >= self.now_us);
            self.now_us = planned.at_us;
            self.happen(planned.event);
            if self.healing && self.is_at_rest() {
                return true;
            }
            if self.now_us > self.time_limit_us() {
                return false;
            }
        }
        false
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn { node, life } => self.turn(node, life),
            Event::Frame { to, from, bytes } => self.deliver(to, from, bytes),
            Event::Flushed { node, life, lsn } => self.finish_flush(node, life, lsn),
            Event::Stored { node, life } => self.finish_store(node, life),
            Event::LookedUp { node, life, lookup } => self.finish_lookup(node, life, lookup),
            Event::Client { client } => self.wake_client(client),
            Event::Fault => self.strike(),
            Event::Outage => self.begin_outage(),
            Event::Death => self.die_for_long(),
            Event::Strike(strike) => self.strike_at(strike),
            Event::CutOff { node } => self.cut_off(node, faults::CUT_LASTS_US),
            Event::Move => self.move_an_object(),
            Event::Crowd => self.move_the_crowd(),
            Event::Guests => self.change_guests(),
            Event::Replace => self.replace_a_member(),
            Event::Restart { node } => self.restart_node(node),
            Event::Resume { node } => self.resume_node(node),
            Event::Heal => self.heal_network(),
        }
    }

    fn plan(&mut self, delay_us: u64, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Planned { at_us: self.now_us + delay_us, order: self.order, event }));
    }

    /// Folds something that happened into the run's fingerprint.
    fn trace(&mut self, what: &[u64]) {
        for &number in what {
            self.trace = (self.trace.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    pub fn trace_hash(&self) -> u64 {
        self.trace
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    /// Why the world is not at rest, in words.
    pub fn unrest(&self) -> String {
        crate::property::convergence::unrest(&self.nodes) + &self.clients.unrest(&self.history)
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn faults(&self) -> FaultCounts {
        self.faults
    }

    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    pub fn turns(&self) -> u64 {
        self.turns
    }

    pub fn sometimes(&self) -> Sometimes {
        let mut sometimes = self.sometimes;
        self.nodes.iter().for_each(|node| node.add_to(&mut sometimes));
        sometimes
    }

    fn time_limit_us(&self) -> u64 {
        // Calls take milliseconds; faults stall the clients for seconds at a time.
        60_000_000 + self.settings.calls * 40_000
    }
}

fn node_record(id: u32) -> NodeRecord {
    let address = |port: u32| format!("n{id}:{port}");
    NodeRecord { id, name: format!("n{id}"), peer: address(1), client: address(2), admin: address(3) }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        (self.at_us, self.order) == (other.at_us, other.order)
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.order).cmp(&(other.at_us, other.order))
    }
}
