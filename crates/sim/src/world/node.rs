//! One node: the server's part around a real host, with a disk that forgets and a clock that drifts.

use std::collections::{BTreeSet, VecDeque};

use quorate_checkpoint::{Batch, MemoryStore, Store};
use quorate_node::root::{NodeRecord, PlaceCommand, Settings as NamespaceSettings};
use quorate_node::{Answer, Forgotten, Found, Host, HostSettings, Lookup, Moment, PanicIn, Submission};
use quorate_protocol::{GroupId, Instant, NodeId, Stamp, peers::Timing};
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Lsn, PAGE_BYTES, Storage};

use super::{Event, ORIGIN_MS, Rest, Settings, Sometimes, World};
use crate::random::Random;
use crate::workload::Shape;

/// Clocks run this much too fast or slow at most, in parts per million: two of them differ by twice that.
const DRIFT_PPM: u64 = 240;
/// How far wall clocks are off, either way.
pub const WALL_SKEW_MS: u64 = 200;

/// More than a run has.
const STARTS_OF_A_DIRECTORY: u32 = 1 << 20;

pub struct Node {
    id: NodeId,
    records: Vec<NodeRecord>,
    defaults: NamespaceSettings,
    checkpoint_slots: u64,
    encoded_at_once_max: usize,
    saved_per_turn: usize,
    rest: Rest,
    digest_bytes: usize,
    follow_clients_at: u32,
    turn_after_us: u64,
    random: Random,
    host: Option<Box<Host>>,
    /// Counts starts in the simulation, so that events of an earlier start are known.
    pub(super) life: u32,
    /// The durable count of starts.
    start: u32,
    storage: MemoryStorage,
    store: MemoryStore,
    clock: Clock,
    pub(super) paused: bool,
    /// The power goes while the next flush is under way.
    pub(super) doomed: bool,
    /// It dies with the next checkpoint: before it is stored, or after.
    pub(super) doomed_at_store: bool,
    inbox: Vec<Input>,
    turn_planned_us: u64,
    batches: VecDeque<(u64, Batch)>,
    storing: bool,
    /// Numbers of operations of the present start.
    pub(super) number_next: u64,
    /// What it may not remember of what it said before it was stopped.
    forgotten: Forgotten,
    /// Own groups that it had a part in when it last forgot what it had said.
    pub(super) forgotten_own: BTreeSet<GroupId>,
    /// Its directory is new in place of one that was lost: whom it has not heard yet in this start. It is let in once that is nobody.
    unmet: Option<BTreeSet<NodeId>>,
    /// A part of its log has decayed.
    is_decayed: bool,
    /// The last block that was durable when it stopped.
    log_durable: Lsn,
    lost: Sometimes,
}

enum Input {
    Frame { from: NodeId, bytes: Vec<u8> },
    Call(Box<ClientCall>),
    Admin { number: u64, namespace: u32, words: Vec<Vec<u8>> },
    Place(PlaceCommand),
    Count { number: u64, volume: u32 },
    Flushed(quorate_wal::Lsn),
    Stored(u64),
    Found(Found),
    WakeAll,
    Linked(NodeId),
}

/// A call on its way from a client.
pub(super) struct ClientCall {
    pub number: u64,
    pub predecessor: Option<u64>,
    pub slot: u16,
    pub call: crate::history::Call,
}

struct Clock {
    /// The lease clock's reading at the world's time 0, and its rate's deviation.
    origin_us: u64,
    drift_ppm: i64,
    wall_offset_ms: i64,
    /// How far somebody has set the wall clock wrong.
    wall_step_ms: i64,
}

impl Clock {
    fn new(random: &mut Random) -> Clock {
        Clock {
            origin_us: random.range(1_000_000..1_000_000_000_000),
            drift_ppm: random.range(0..2 * DRIFT_PPM + 1) as i64 - DRIFT_PPM as i64,
            wall_offset_ms: random.range(0..2 * WALL_SKEW_MS + 1) as i64 - WALL_SKEW_MS as i64,
            wall_step_ms: 0,
        }
    }

    fn read(&self, now_us: u64) -> Moment {
        let local_us = (now_us as i64 + now_us as i64 * self.drift_ppm / 1_000_000) as u64;
        let wall_ms = ORIGIN_MS as i64 + (local_us / 1000) as i64 + self.wall_offset_ms + self.wall_step_ms;
        Moment { now: Instant(self.origin_us + local_us), wall: Stamp(wall_ms as u64) }
    }

    /// The true time that passes until the clock reads `at`.
    fn delay_until_us(&self, at: Instant, now_us: u64) -> u64 {
        at.0.saturating_sub(self.read(now_us).now.0)
    }
}

impl Node {
    pub(super) fn new(
        id: NodeId,
        records: Vec<NodeRecord>,
        defaults: NamespaceSettings,
        settings: &Settings,
        random: &mut Random,
    ) -> Node {
        let mut random = random.fork();
        Node {
            id,
            records,
            defaults,
            checkpoint_slots: settings.checkpoint_slots,
            encoded_at_once_max: settings.encoded_at_once_max,
            saved_per_turn: settings.saved_per_turn,
            rest: settings.rest,
            digest_bytes: settings.digest_bytes,
            follow_clients_at: settings.follow_clients_at,
            turn_after_us: settings.turn_after_us,
            clock: Clock::new(&mut random),
            random,
            host: None,
            life: 0,
            start: 0,
            storage: MemoryStorage::default(),
            store: MemoryStore::default(),
            paused: false,
            doomed: false,
            doomed_at_store: false,
            inbox: Vec::new(),
            turn_planned_us: u64::MAX,
            batches: VecDeque::new(),
            storing: false,
            number_next: 1,
            forgotten: Forgotten::Nothing,
            forgotten_own: BTreeSet::new(),
            unmet: None,
            is_decayed: false,
            log_durable: Lsn(0),
            lost: Sometimes::default(),
        }
    }

    pub fn host(&self) -> Option<&Host> {
        self.host.as_deref()
    }

    pub(super) fn plan_panic(&mut self, group: GroupId, place: PanicIn) {
        if let Some(host) = &mut self.host {
            host.plan_panic(group, place);
        }
    }

    pub fn is_up(&self) -> bool {
        self.host.is_some()
    }

    fn host_settings(&mut self) -> HostSettings {
        HostSettings {
            node: self.id,
            start: self.start,
            nodes: self.records.clone(),
            defaults: self.defaults,
            cluster: 77,
            timing: Timing::default(),
            timeout_ms: 5_000,
            // So small that old segments are relieved of what is needed of them all the time.
            log: quorate_wal::Settings {
                segment_bytes: 32 * 1024,
                slack_bytes: 64 * 1024,
                size_bytes_max: 256 * 1024,
                ..quorate_wal::Settings::new(7)
            },
            seed: self.random.next_u64(),
            checkpoint_bytes: 64 * 1024,
            checkpoint_slots: self.checkpoint_slots,
            encoded_at_once_max: self.encoded_at_once_max,
            saved_per_turn: self.saved_per_turn,
            rest_after_us: self.rest.after_us,
            awake_max: self.rest.awake_max,
            turn_after_us: self.turn_after_us,
            tombstones_after_us: 1_000_000,
            resting_bytes_max: self.rest.bytes_max,
            records_bytes_max: self.rest.records_bytes_max,
            digest_bytes: self.digest_bytes,
            follow_clients_at: self.follow_clients_at,
            forgotten: self.forgotten,
            is_new: self.unmet.is_some(),
            version: "sim".into(),
            joins: false,
            level_known: quorate_node::level::FeatureLevel::KNOWN,
            pid: 0,
            observe: true,
        }
    }

    /// A bit of its log flips, before the last block that was durable: damage to that one cannot be told from a torn write.
    pub(super) fn decay(&mut self) {
        let last = self.log_durable;
        let segments = self.storage.segments().expect("memory answers");
        let older: Vec<u64> = segments.into_iter().filter(|&segment| segment < last.segment()).collect();
        let (segment, length) = match older.is_empty() || self.random.chance(500) {
            true => (last.segment(), last.offset()),
            false => {
                let segment = *self.random.pick(&older);
                (segment, self.storage.length(segment).expect("it is there"))
            }
        };
        let pages = length as usize / PAGE_BYTES;
        if pages > 0 {
            // At the beginning of one: much of a page that holds a small block is empty.
            let offset = self.random.below(pages as u64) as usize * PAGE_BYTES + self.random.below(24) as usize;
            self.storage.flip(segment, offset, 1 << self.random.below(8));
            self.is_decayed = true;
        }
    }

    /// Its data directory is gone, and a new one takes its place, with starts that are counted from above all earlier ones.
    pub(super) fn replace_directory(&mut self) {
        (self.storage, self.store) = (MemoryStorage::default(), MemoryStore::default());
        self.start += STARTS_OF_A_DIRECTORY;
        self.forgotten = Forgotten::Everything;
        self.lost.directories_replaced += 1;
        self.unmet = Some(BTreeSet::new());
        self.is_decayed = false;
    }

    pub(super) fn wall_step_ms(&self) -> i64 {
        self.clock.wall_step_ms
    }

    /// Somebody sets the wall clock, by so much off what it would be; 0 corrects it.
    pub(super) fn set_wall_step(&mut self, step_ms: i64) {
        self.clock.wall_step_ms = step_ms;
    }

    /// What this node's hosts have seen, the present one's and those before it.
    pub(super) fn add_to(&self, sometimes: &mut Sometimes) {
        sometimes.add(&self.lost);
        if let Some(host) = &self.host {
            sometimes.add(&seen_by(host));
        }
    }
}

fn seen_by(host: &Host) -> Sometimes {
    let counters = host.counters();
    Sometimes {
        coordinator_changed_in_flight: counters.uncertain,
        snapshot_installed: counters.snapshots_installed,
        learned_from_log: counters.learned_sent,
        lease_refused: counters.busy_sent,
        read_without_lease: counters.confirm_rounds,
        answered_from_window: counters.answered_from_window,
        out_of_order_refused: counters.out_of_order,
        snapshot_copied: counters.snapshots_copied,
        checkpointed: counters.checkpoints,
        checkpointed_in_turns: counters.checkpoints_in_turns,
        stored_unused: counters.stored_unused,
        log_carried: counters.carried,
        handed_over: counters.handed_over,
        followed: counters.followed,
        quarantined: counters.quarantined,
        born: counters.own_groups_born,
        rested: counters.rested,
        paused_stranded: counters.paused_stranded,
        readmitted: counters.readmitted,
        chains_left: counters.chains_left,
        woken_from_memory: counters.woken_from_memory,
        woken_from_store: counters.woken_from_store,
        records_swapped: counters.records_swapped,
        records_swapped_in: counters.records_swapped_in,
        returned: counters.own_groups_ended,
        own_changed: counters.own_groups_changed,
        own_renewed: counters.own_groups_renewed,
        own_moved_off: counters.own_groups_moved_off,
        outside_born: counters.outside_born,
        outside_ended: counters.outside_ended,
        chains_changed: counters.chains_changed,
        chains_turned: counters.chains_turned,
        chains_replaced: counters.chains_replaced,
        moves_planned: counters.moves_planned,
        replicas_replaced: counters.replicas_replaced,
        absences_over: counters.absences_over,
        read_by_member: counters.reads_clean,
        read_through_router: counters.reads_routed,
        seats_changed: counters.seats_changed,
        seats_left: counters.seats_left,
        root_seats_changed: counters.root_seats_changed,
        read_at_router: counters.reads_routed_here,
        routed_read_turned_back: counters.reads_turned_back,
        recalled: counters.recalls_sent,
        register_read_in_one_round: counters.register_reads_one_round,
        register_read_in_more_rounds: counters.register_reads_more_rounds,
        registers_retired: counters.registers_retired,
        registers_ended: counters.registers_ended,
        registers_left: counters.registers_left,
        tombstones_forgotten: counters.tombstones_forgotten,
        members_born: counters.members_born,
        references_resolved: counters.digests.references_resolved,
        references_held: counters.digests.held,
        references_in_full: counters.digests.sent_in_full,
        bodies_unused: counters.digests.bodies_unused,
        ..Sometimes::default()
    }
}

impl World {
    pub(super) fn start_node(&mut self, at: usize) {
        let now_us = self.now_us;
        let node = &mut self.nodes[at];
        node.life += 1;
        node.start += 1;
        node.number_next = 1;
        node.paused = false;
        node.doomed = false;
        node.doomed_at_store = false;
        node.inbox.clear();
        node.batches.clear();
        node.storing = false;
        node.turn_planned_us = u64::MAX;
        if let Some(unmet) = &mut node.unmet {
            unmet.extend(node.records.iter().map(|record| NodeId(record.id)).filter(|other| *other != node.id));
        }
        let settings = node.host_settings();
        let moment = node.clock.read(now_us);
        let (host, report) = Host::open(settings, &node.storage, &node.store, moment)
            .unwrap_or_else(|error| panic!("{} does not open: {error}", node.id));
        assert!(report.damage.is_empty() || node.is_decayed, "a crash alone damages no log: {:?}", report.damage);
        node.lost.torn_tail += u64::from(report.torn_bytes > 0);
        node.lost.log_damaged += u64::from(!report.damage.is_empty());
        node.host = Some(Box::new(host));
        let id = node.id;
        for other in 0..self.nodes.len() {
            if other != at {
                let peer = self.nodes[other].id;
                self.nodes[at].inbox.push(Input::Linked(peer));
                if self.nodes[other].is_up() {
                    self.nodes[other].inbox.push(Input::Linked(id));
                    self.plan_turn(other, 100);
                }
            }
        }
        self.plan_turn(at, 1);
    }

    /// The process dies; with `power`, the machine does.
    pub(super) fn stop_node(&mut self, at: usize, power: bool) {
        let node = &mut self.nodes[at];
        let Some(mut host) = node.host.take() else { return };
        node.log_durable = host.log_mut().durable();
        node.lost.add(&seen_by(&host));
        node.forgotten = match node.forgotten {
            unknown @ (Forgotten::Unsynced | Forgotten::Everything) if !host.remembers_losses() => unknown,
            _ if power => Forgotten::Unsynced,
            _ => Forgotten::Memory,
        };
        if power {
            let random = &mut node.random;
            node.storage.crash(&mut || random.next_u64());
            let Clock { wall_offset_ms, wall_step_ms, .. } = node.clock;
            node.clock = Clock { wall_offset_ms, wall_step_ms, ..Clock::new(&mut node.random) };
        } else {
            node.storage.restart();
        }
        for client in self.clients.lose_node(at, &mut self.history, &mut self.sometimes) {
            self.plan(1_000, Event::Client { client });
        }
    }

    pub(super) fn plan_turn(&mut self, at: usize, delay_us: u64) {
        let node = &mut self.nodes[at];
        let due_us = self.now_us + delay_us;
        if node.host.is_none() || node.turn_planned_us <= due_us {
            return;
        }
        node.turn_planned_us = due_us;
        let life = node.life;
        self.plan(delay_us, Event::Turn { node: at, life });
    }

    pub(super) fn deliver(&mut self, to: usize, from: usize, bytes: Vec<u8>) {
        if self.nodes[to].host.is_none() {
            return;
        }
        let from = self.nodes[from].id;
        self.nodes[to].inbox.push(Input::Frame { from, bytes });
        let delay_us = self.random.range(1..40);
        self.plan_turn(to, delay_us);
    }

    pub(super) fn call_node(&mut self, at: usize, call: ClientCall) {
        self.nodes[at].inbox.push(Input::Call(Box::new(call)));
        let delay_us = self.random.range(20..200);
        self.plan_turn(at, delay_us);
    }

    /// Nobody waits for the answer. A node that is down hears nothing of it.
    pub(super) fn call_admin(&mut self, at: usize, namespace: u32, line: &str) {
        if !self.nodes[at].is_up() {
            return;
        }
        let words = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
        self.put_numbered(at, |number| Input::Admin { number, namespace, words });
    }

    /// Nobody waits for the answer.
    pub(super) fn place(&mut self, at: usize, command: PlaceCommand) {
        if self.nodes[at].is_up() {
            self.nodes[at].inbox.push(Input::Place(command));
            self.plan_turn(at, 20);
        }
    }

    /// Nobody waits for the answer.
    pub(super) fn count_objects(&mut self, at: usize, volume: u32) {
        self.put_numbered(at, |number| Input::Count { number, volume });
    }

    fn put_numbered(&mut self, at: usize, input: impl FnOnce(u64) -> Input) {
        let number = self.nodes[at].number_next;
        self.nodes[at].number_next += 1;
        self.nodes[at].inbox.push(input(number));
        self.plan_turn(at, 20);
    }

    pub(super) fn finish_flush(&mut self, at: usize, life: u32, lsn: quorate_wal::Lsn) {
        let node = &mut self.nodes[at];
        if node.life != life || node.host.is_none() {
            return;
        }
        node.storage.sync().expect("the simulated disk does not fail");
        node.inbox.push(Input::Flushed(lsn));
        self.plan_turn(at, 1);
    }

    pub(super) fn finish_store(&mut self, at: usize, life: u32) {
        let node = &mut self.nodes[at];
        if node.life != life || node.host.is_none() {
            return;
        }
        node.storing = false;
        let dies = std::mem::take(&mut node.doomed_at_store);
        if dies && node.random.chance(300) {
            return self.crash_at_store(at);
        }
        if let Some((number, batch)) = node.batches.pop_front() {
            node.store.apply(batch).expect("the simulated store does not fail");
            node.inbox.push(Input::Stored(number));
        }
        if dies {
            return self.crash_at_store(at);
        }
        self.plan_turn(at, 1);
        self.plan_store(at);
    }

    fn crash_at_store(&mut self, at: usize) {
        let power = self.random.chance(500);
        self.crash(at, power);
        // Unless it may not.
        self.plan_turn(at, 1);
        self.plan_store(at);
    }

    fn plan_lookups(&mut self, at: usize, lookups: Vec<Lookup>) {
        for lookup in lookups {
            let node = &mut self.nodes[at];
            let slow = node.random.chance(50);
            let delay_us = if slow { node.random.range(10_000..300_000) } else { node.random.range(5..2_000) };
            let life = node.life;
            self.plan(delay_us, Event::LookedUp { node: at, life, lookup });
        }
    }

    pub(super) fn finish_lookup(&mut self, at: usize, life: u32, lookup: Lookup) {
        let node = &mut self.nodes[at];
        if node.life != life || node.host.is_none() {
            return;
        }
        let found = lookup.run(&node.store);
        node.inbox.push(Input::Found(found));
        self.plan_turn(at, 1);
    }

    /// Every own group wakes, so that replicas can be compared.
    pub(super) fn wake_all(&mut self, at: usize) {
        self.nodes[at].inbox.push(Input::WakeAll);
        self.plan_turn(at, 1);
    }

    fn plan_store(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if !node.storing && !node.batches.is_empty() {
            node.storing = true;
            let slow = node.random.chance(50);
            let delay_us = if slow { node.random.range(100_000..500_000) } else { node.random.range(200..20_000) };
            let life = node.life;
            self.plan(delay_us, Event::Stored { node: at, life });
        }
    }

    pub(super) fn resume_node(&mut self, at: usize) {
        self.nodes[at].paused = false;
        self.plan_turn(at, 1);
    }

    /// A turn as the server runs it.
    pub(super) fn turn(&mut self, at: usize, life: u32) {
        let now_us = self.now_us;
        let node = &mut self.nodes[at];
        if node.life != life || node.turn_planned_us > now_us {
            return;
        }
        node.turn_planned_us = u64::MAX;
        if node.paused {
            return;
        }
        let Some(mut host) = node.host.take() else { return };
        self.turns += 1;
        let changes = host.counters().chains_changed;
        host.begin(node.clock.read(now_us));
        for input in std::mem::take(&mut node.inbox) {
            match input {
                Input::Frame { from, bytes } => {
                    host.receive(from, &bytes).expect("frames arrive whole");
                    if node.unmet.as_mut().is_some_and(|unmet| unmet.remove(&from) && unmet.is_empty()) {
                        node.unmet = None;
                        host.admit();
                    }
                }
                Input::Call(call) => submit(&mut host, *call, &self.settings.shape),
                Input::Admin { number, namespace, words } => host.submit_admin(number, namespace, &words),
                Input::Place(command) => host.submit_place(command),
                Input::Count { number, volume } => host.submit(Submission {
                    number,
                    predecessor: None,
                    target: quorate_node::Target::Volume { namespace: 0, index: volume },
                    command: &quorate_object::Command::Count,
                }),
                Input::Flushed(lsn) => host.flushed(lsn),
                Input::Stored(number) => host.stored(number),
                Input::Found(found) => host.found(found),
                Input::WakeAll => host.wake_all(),
                Input::Linked(peer) => host.linked(peer),
            }
        }
        host.end(&node.storage);
        node.batches.extend(host.take_batches());
        let flush = host.log_mut().submit();
        if let Some(submission) = &flush {
            submission.write(&mut node.storage).expect("the simulated disk has room");
        }
        for segment in host.log_mut().removable() {
            node.storage.remove(segment).expect("a removable segment is there");
            node.lost.log_segment_removed += 1;
        }
        let strikes = node.doomed && flush.is_some();
        let is_changing = host.counters().chains_changed > changes;
        if let Some(submission) = flush {
            let delay_us =
                if node.random.chance(60) { node.random.range(1_000..30_000) } else { node.random.range(60..1_500) };
            self.plan(delay_us, Event::Flushed { node: at, life, lsn: submission.lsn });
        }
        self.finish_turn(at, host);
        if strikes {
            self.crash(at, true);
        }
        if is_changing {
            self.cut_at_change(at);
        }
    }

    fn finish_turn(&mut self, at: usize, mut host: Box<Host>) {
        let mut frames = Vec::new();
        host.take_frames(|to, bytes: &[u8]| frames.push((to, bytes.to_vec())));
        let mut answers = Vec::new();
        host.take_answers(&mut answers);
        let lookups = host.take_lookups();
        self.agreement.observe(self.nodes[at].id, &mut host);
        crate::property::log_size::assert_bounded(&mut host);
        for group in host.groups() {
            group.assert_sound();
        }
        let clock = &self.nodes[at].clock;
        let delay_us = clock.delay_until_us(host.next_turn_at(), self.now_us).clamp(1, 10_000_000);
        self.nodes[at].host = Some(host);
        self.trace(&[self.now_us, at as u64, frames.len() as u64, answers.len() as u64]);
        for (to, bytes) in frames {
            self.send_frame(at, to, bytes);
        }
        self.plan_lookups(at, lookups);
        for (number, answer) in answers {
            self.answer_client(at, number, answer);
        }
        self.plan_store(at);
        self.plan_turn(at, delay_us);
    }

    fn send_frame(&mut self, from: usize, to: NodeId, bytes: Vec<u8>) {
        let to = to.0 as usize - 1;
        self.trace(&[to as u64, bytes.len() as u64, u64::from(bytes[4]) | u64::from(bytes[11]) << 8]);
        for delay_us in self.network.send(from, to, self.now_us) {
            self.plan(delay_us, Event::Frame { to, from, bytes: bytes.clone() });
        }
    }

    fn answer_client(&mut self, at: usize, number: u64, answer: Answer) {
        let delay_us = self.random.range(20..200);
        if let Some(client) =
            self.clients.answer(at, number, answer, self.now_us + delay_us, &mut self.history, &mut self.sometimes)
        {
            let think_us = delay_us + self.random.delay(20_000);
            self.plan(think_us, Event::Client { client });
        }
    }
}

fn submit(host: &mut Host, call: ClientCall, shape: &Shape) {
    let target = quorate_node::Target::Slot { namespace: 0, slot: call.slot };
    call.call.with_command(shape, |command| {
        host.submit(Submission { number: call.number, predecessor: call.predecessor, target, command });
    });
}
