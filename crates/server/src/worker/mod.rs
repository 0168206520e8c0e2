//! The thread that owns the groups, the clients and the links of a node, and turns.
//!
//! A turn takes what the sockets hold, reads the clocks, steps the host, sends what may leave, and then writes and syncs
//! the log if that is due. What waited for the disk leaves with the next turn, which follows at once, beside what that
//! turn has to say: one frame for both. The log is due when no socket holds anything more, or when its oldest record has
//! waited for as long as syncs take: under load one sync covers what several turns brought. A turn never blocks but for that
//! sync, where that is quick, and for want of anything to do; slow syncs are a [thread's](flusher). See
//! [`quorate_node::host`] for the contract that its order keeps.

mod absence;
mod backend;
mod checkpointer;
mod clients;
mod clock;
mod disk;
mod figures;
mod flusher;
mod lookups;
mod memory;
mod source;
mod stopping;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use mio::{Events, Poll};
use quorate_front::{Access, Front, Histogram, OperationId};
use quorate_node::host::{Admission, Discarded, ROOT_NAMESPACE};
use quorate_node::root::{Durability, INTERVAL_US};
use quorate_node::{Answer, Carrier, Fault, Host, Readiness};
use quorate_protocol::{Instant, NodeId};
use quorate_wal::file::FileStorage;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use crate::ServerError;
use crate::admin::{self, Pulse};
use crate::applications::Applications;
use crate::auth::Gate;
use crate::directory::Directory;
use crate::links::Links;
use crate::priority::step_back;
use crate::supervisor::Supervisor;
use crate::tls::Watch;
use backend::{Counters, Entry};
use stopping::{STOPPING_SLEEP_US, Stopping};

pub(crate) use backend::{Facts, resident_bytes};
pub(crate) use checkpointer::{Checkpointer, SPACE_RETRY, is_for_space};
pub(crate) use clients::Clients;
pub(crate) use clock::Clocks;
pub(crate) use disk::{Disk, Pace};
pub(crate) use flusher::Flusher;
pub(crate) use lookups::Lookups;
pub(crate) use memory::Memory;
pub(crate) use source::Source;

/// Events taken from one poll; what is left comes with the next.
const EVENTS_MAX: usize = 1024;
/// What one read takes at most.
const READ_BYTES: usize = 64 << 10;
/// The longest sleep: whoever watches the worker sees it turn.
const SLEEP_MAX_US: u64 = 500_000;
/// How often the log is told what changed in the cluster.
const NEWS_US: u64 = 100_000;
/// How soon and how often it is told that others must accept a new data directory.
const WAITING_FIRST_US: u64 = 2_000_000;
const WAITING_AGAIN_US: u64 = 60_000_000;
/// A node that has just started is not said to be unable to compare its clock.
const CLOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Operations that were asked for over HTTP have this bit; those of clients are numbered from 1.
const ADMIN: u64 = 1 << 62;

/// What the worker is told from outside.
#[derive(Debug, Default)]
pub(crate) struct Orders(AtomicU8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Go = 0,
    /// Hand over, answer, flush, end.
    Stop = 1,
    /// End at once, as a crash would.
    Kill = 2,
}

impl Orders {
    pub(crate) fn give(&self, order: Order) {
        self.0.fetch_max(order as u8, Ordering::Relaxed);
    }

    fn read(&self) -> Order {
        match self.0.load(Ordering::Relaxed) {
            0 => Order::Go,
            1 => Order::Stop,
            _ => Order::Kill,
        }
    }
}

pub(crate) struct Worker {
    pub(crate) poll: Poll,
    pub(crate) orders: Arc<Orders>,
    pub(crate) clocks: Clocks,
    pub(crate) directory: Directory,
    pub(crate) is_ephemeral: bool,
    pub(crate) host: Host,
    pub(crate) front: Front,
    pub(crate) gate: Gate,
    /// Over the certificates, for as long as the worker runs; none without encryption.
    pub(crate) watch: Option<Watch>,
    pub(crate) disk: Disk<FileStorage>,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) lookups: Lookups,
    pub(crate) applications: Applications,
    pub(crate) clients: Clients,
    pub(crate) links: Links,
    pub(crate) memory: Memory,
    pub(crate) admin: admin::Port,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) facts: Facts,
    pub(crate) supervisor: Supervisor,
    pub(crate) state: State,
}

/// What the worker keeps from turn to turn.
pub(crate) struct State {
    buffer: Vec<u8>,
    counters: Counters,
    answers: Vec<(u64, Answer)>,
    refused: Vec<(OperationId, quorate_front::Answer)>,
    /// Clients' operations that are not answered.
    in_flight: u64,
    wall_ms: u64,
    /// How long flushes took.
    flushes: Histogram,
    /// When a checkpoint was last stored, by the wall clock.
    stored_ms: u64,
    admin_next: u64,
    admins: HashMap<u64, oneshot::Sender<Answer>>,
    /// The version of the directory that the following two were read from.
    directory_version: u64,
    /// Some groups speak of what is merely written: it must be, before they do.
    writes_before_speaking: bool,
    news_at: Instant,
    suspected: Vec<NodeId>,
    absent: Vec<NodeId>,
    readiness: Readiness,
    /// When it is told next whom a new data directory waits for, unless that changes; and whom it waited for.
    waiting_at: Option<Instant>,
    waits_for: Vec<String>,
    snapshots_installed: u64,
    readmitted: u64,
    renewed: u64,
    renewed_told: u64,
    stopping: Option<Stopping>,
    /// Since when records wait to be written.
    gathering_since: Option<Instant>,
    /// Something may leave that waited for the disk.
    has_flushed: bool,
}

impl State {
    pub(crate) fn new() -> State {
        State {
            buffer: vec![0; READ_BYTES],
            counters: Counters::default(),
            answers: Vec::new(),
            refused: Vec::new(),
            in_flight: 0,
            wall_ms: 0,
            flushes: Histogram::default(),
            stored_ms: 0,
            admin_next: ADMIN,
            admins: HashMap::new(),
            directory_version: 0,
            writes_before_speaking: false,
            news_at: Instant(0),
            suspected: Vec::new(),
            absent: Vec::new(),
            readiness: Readiness::ClusterUnknown,
            waiting_at: None,
            waits_for: Vec::new(),
            snapshots_installed: 0,
            readmitted: 0,
            renewed: 0,
            renewed_told: 0,
            stopping: None,
            gathering_since: None,
            has_flushed: false,
        }
    }
}

/// Takes frames to the links, and counts them.
struct Sender<'a> {
    links: &'a mut Links,
    counters: &'a mut Counters,
}

impl Carrier for Sender<'_> {
    fn can_take(&self, to: NodeId) -> bool {
        self.links.can_take(to)
    }

    fn carry(&mut self, to: NodeId, frame: &[u8]) {
        self.counters.frames_sent += 1;
        self.counters.frame_bytes_sent += frame.len() as u64;
        self.links.send(to, frame);
    }
}

impl Worker {
    /// Turns until it is told to end, or cannot go on.
    pub(crate) fn run(mut self) -> Result<(), ServerError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        self.directory.begin();
        self.host.begin_listening(self.clocks.now());
        let ended = loop {
            match self.orders.read() {
                Order::Kill => break Ok(Order::Kill),
                Order::Stop if self.is_stopped() => break Ok(Order::Stop),
                _ => {}
            }
            if let Err(error) = self.turn(&mut events) {
                break Err(error);
            }
        };
        match ended {
            Ok(Order::Stop) => self.end_cleanly(),
            Ok(_) => Ok(self.checkpointer.end().map(drop)?),
            Err(error) => Err(error),
        }
    }

    fn turn(&mut self, events: &mut Events) -> Result<(), ServerError> {
        self.wait(events)?;
        self.read();
        // Behind the reads: a lease that holds now held while these requests waited in their sockets.
        let moment = self.clocks.read();
        let now = moment.now;
        self.host.begin(moment);
        self.take_written(now)?;
        self.memory.measure(now);
        self.host.set_out_of_memory(self.memory.is_exceeded());
        self.host.set_out_of_space(!self.disk.has_space());
        self.links.deliver(&mut self.host, now);
        self.end_if_removed()?;
        self.state.wall_ms = moment.wall.0;
        self.take_clients(now, moment.wall.0);
        self.take_admin();
        self.take_stored()?;
        self.take_found();
        self.begin_stop(now);
        self.links.tick(&mut self.host, now);
        self.try_admit()?;
        self.clients.tick(&mut self.front, now);
        self.host.end(self.disk.storage());
        self.follow_directory();
        self.checkpointer.hand_over(self.host.take_batches());
        free_elsewhere(self.host.take_discarded());
        self.lookups.ask(self.host.take_lookups());
        if self.state.writes_before_speaking {
            self.flush(now)?;
            self.speak(now);
        } else {
            self.speak(now);
            if self.is_flush_due(events.is_empty(), now) {
                self.flush(now)?;
            }
        }
        self.state.counters.turns += 1;
        self.pulse.beat(self.host.readiness());
        self.tell_news(now);
        Ok(())
    }

    fn wait(&mut self, events: &mut Events) -> Result<(), ServerError> {
        let now = self.clocks.now();
        let asleep_max_us = if self.state.stopping.is_some() { STOPPING_SLEEP_US } else { SLEEP_MAX_US };
        let mut due = now.after_us(asleep_max_us).min(self.host.next_turn_at());
        due = due.min(self.disk.next_due(self.host.log_mut()));
        if !self.disk.is_backed_up(self.host.log_mut()) {
            due = due.min(self.links.next_due());
        }
        if self.state.stopping.is_none() {
            due = due.min(self.clients.next_due(now));
        }
        if std::mem::take(&mut self.state.has_flushed) || self.front.has_unread() {
            due = now;
        }
        let timeout = Duration::from_micros(due.0.saturating_sub(now.0));
        // Where there is less processor than work, whoever has something to say to this node goes first: it shares this
        // turn's frames and sync then. Where nobody waits for the processor this returns at once.
        std::thread::yield_now();
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(ServerError::Io { action: "wait for sockets", source: error });
            }
            _ => {}
        }
        for event in events.iter() {
            match Source::of(event.token()) {
                Source::Waker => {}
                Source::ClientListener => self.clients.on_listener(),
                Source::PeerListener => self.links.on_listener(),
                Source::Client(place) => self.clients.on_event(place, event),
                Source::Incoming(place) => self.links.on_incoming(place, event),
                Source::Outgoing(place) => self.links.on_outgoing(place, event),
            }
        }
        Ok(())
    }

    fn read(&mut self) {
        let now = self.clocks.now();
        // What other nodes send is mostly to be logged. A node that cannot has told them, and they do without it; one that reads
        // nothing any more is suspected.
        if !self.disk.is_backed_up(self.host.log_mut()) {
            self.links.read(&mut self.state.buffer, now);
        }
        self.clients.read(&mut self.state.buffer);
    }

    fn take_clients(&mut self, now: Instant, now_ms: u64) {
        let (front, clients) = (&mut self.front, &mut self.clients);
        self.gate.take_verdicts(now, |connection, verdict| {
            if let Some(connection) = front.verified(connection, verdict) {
                clients.touch(connection);
            }
        });
        let takes_requests = self.state.stopping.is_none();
        if takes_requests {
            self.clients.accept(&mut self.front, now, now_ms);
        }
        self.host.set_client_count(self.clients.count() as u64);
        self.front.set_now(now.0, now_ms);
        let mut entry = Entry {
            host: &mut self.host,
            gate: &mut self.gate,
            now,
            facts: &self.facts,
            applications: &self.applications,
            counters: self.state.counters,
            has_space: self.disk.has_space(),
            memory: &mut self.memory,
            clients: self.clients.counters(),
            in_flight: &mut self.state.in_flight,
            refused: &mut self.state.refused,
            clients_max: self.clients.count_max(),
        };
        while let Some(worked) = self.applications.take_worked() {
            self.front.worked(worked, &mut entry);
        }
        self.front.read_due(&mut entry);
        if takes_requests {
            self.clients.offer(&mut self.front, &mut entry, now, now_ms);
            self.clients.set_count_max(entry.clients_max);
        }
        self.serve_front();
    }

    /// Does what the front asks for besides its operations.
    fn serve_front(&mut self) {
        self.applications.give(self.front.take_jobs());
        for connection in self.front.take_touched() {
            self.clients.touch(connection);
        }
    }

    fn take_admin(&mut self) {
        while let Some(request) = self.admin.next_request() {
            match request {
                admin::Request::Words { namespace, words, answer } => {
                    self.state.admins.retain(|_, waiting| !waiting.is_closed());
                    self.state.admin_next += 1;
                    self.state.admins.insert(self.state.admin_next, answer);
                    self.host.set_out_of_memory(self.memory.is_exceeded());
                    self.host.submit_admin(self.state.admin_next, namespace, &words);
                }
                admin::Request::Figures { answer } => {
                    // Whoever asked may have given up.
                    let _ = answer.send(Box::new(self.figures()));
                }
                admin::Request::Password(hash) => {
                    let access = if hash.is_some() { Access::Password } else { Access::Open };
                    match self.gate.set_password(hash.map(|hash| *hash)) {
                        Ok(()) => self.front.set_access(access),
                        Err(reason) => error!("the password cannot be changed: {reason}"),
                    }
                }
            }
        }
    }

    fn take_written(&mut self, now: Instant) -> Result<(), ServerError> {
        if let Some((durable, took_us)) = self.disk.take_written(now)? {
            self.note_flush(took_us);
            self.host.flushed(durable);
        }
        Ok(())
    }

    fn take_stored(&mut self) -> Result<(), ServerError> {
        while let Some(number) = self.checkpointer.take_finished()? {
            self.host.stored(number);
            self.state.stored_ms = self.state.wall_ms;
        }
        if self.host.remembers_losses()
            && let Err(error) = self.directory.settle()
        {
            warn!("{error}: the next start will take this machine for restarted, unless this run ends cleanly");
        }
        Ok(self.disk.trim(self.host.log_mut())?)
    }

    fn take_found(&mut self) {
        while let Some(found) = self.lookups.take_found() {
            self.host.found(found);
        }
    }

    /// A new directory counts once every other node has accepted it: one of them may know an older one of this node's. Of a node that was
    /// added the root knows whether there was one.
    fn try_admit(&mut self) -> Result<(), ServerError> {
        if !self.directory.is_new() {
            return Ok(());
        }
        let (is_let_in, why) = match self.host.admission() {
            Admission::AllOthers => (self.links.not_met().next().is_none(), "all other nodes have accepted this one"),
            Admission::ByRoot => (true, "the root has noted this node's data directory, and it begins"),
            Admission::ClusterIsAsked | Admission::RootIsAsked | Admission::Never => (false, ""),
        };
        if is_let_in {
            self.directory.admit()?;
            self.host.admit();
            info!("{why}");
        }
        Ok(())
    }

    /// Whom a new data directory waits for.
    fn waits_for(&self) -> Vec<String> {
        let root = match self.host.admission() {
            Admission::AllOthers | Admission::ByRoot => None,
            Admission::ClusterIsAsked => Some("a member of the root, which tells who the others are"),
            Admission::RootIsAsked => Some("the root, which notes it"),
            Admission::Never => Some(
                "the root, which knows another data directory of this node: put that one back or, if it is lost for good, set \
                 node.directory one higher",
            ),
        };
        let others = self.links.not_met().filter(|_| self.host.admission() != Admission::RootIsAsked);
        root.map(str::to_owned).into_iter().chain(others).collect()
    }

    /// Nobody takes this node for one of the cluster any more.
    fn end_if_removed(&mut self) -> Result<(), ServerError> {
        let told = self.links.removed().map(str::to_owned);
        let told = told.or_else(|| (!self.host.is_of_cluster()).then(|| "it was removed from the cluster".to_owned()));
        let Some(told) = told else { return Ok(()) };
        self.directory.remove()?;
        Err(ServerError::Removed(told))
    }

    /// What is wrong, for whoever asks for the status.
    fn alarms(&self) -> Vec<String> {
        let mut alarms = Vec::new();
        if self.directory.is_new() {
            let others = self.waits_for().join(", ");
            alarms.push(format!(
                "its data directory is new: it neither votes nor serves until these accept it: {others}"
            ));
        }
        alarms.extend(self.links.refusals().map(|what| format!("no link: {what}")));
        let readiness = self.host.readiness();
        // Why it does not know the cluster is told above.
        alarms.extend(readiness.obstacle().filter(|_| readiness != Readiness::ClusterUnknown).map(str::to_owned));
        if self.host.is_root_silent() {
            alarms.push("its replica of the root, which has the namespaces, neither votes nor serves".to_owned());
        }
        if !self.disk.has_space() {
            alarms.push("no space left for the log: writes are refused here until there is".to_owned());
        }
        let now_s = (self.state.wall_ms / 1000).cast_signed();
        alarms.extend(self.applications.alarms());
        alarms.extend(self.host.absence_alarms());
        alarms.extend(self.watch.iter().flat_map(|watch| watch.expiries()).filter_map(|expiry| expiry.alarm(now_s)));
        alarms
    }

    /// Tells whoever supervises the node, and its log, whether it takes commands.
    fn tell_readiness(&mut self) {
        if self.state.stopping.is_some() {
            return;
        }
        let readiness = self.host.readiness();
        if readiness.is_ready() {
            self.supervisor.serves();
        }
        // Answers to the first questions are still on their way.
        if readiness == Readiness::ClockUnknown && self.facts.started_at.elapsed() < CLOCK_PATIENCE {
            return;
        }
        let before = std::mem::replace(&mut self.state.readiness, readiness);
        match readiness.obstacle() {
            Some(obstacle) if readiness != before => warn!("not ready: {obstacle}"),
            None if readiness != before => info!("ready"),
            _ => {}
        }
    }

    /// What the namespaces ask for decides when the log is written and synced.
    fn follow_directory(&mut self) {
        let Some(directory) = self.host.directory() else { return };
        if directory.version == self.state.directory_version {
            return;
        }
        self.state.directory_version = directory.version;
        let has =
            |durability| directory.namespaces.values().any(|namespace| namespace.settings.durability == durability);
        self.state.writes_before_speaking = has(Durability::Interval);
        self.disk.set_writes_before_speaking(self.state.writes_before_speaking);
        if !self.is_ephemeral {
            let nobody_waits = has(Durability::Interval) && !has(Durability::Sync);
            let interval = Pace::Every { interval_us: INTERVAL_US };
            self.disk.set_pace(if nobody_waits { interval } else { Pace::EachTurn });
        }
    }

    /// Sends the frames and answers that may leave now.
    fn speak(&mut self, now: Instant) {
        let (links, counters) = (&mut self.links, &mut self.state.counters);
        self.host.take_frames(Sender { links, counters });
        self.host.take_answers(&mut self.state.answers);
        if !self.state.answers.is_empty() {
            // Behind the flush that they waited for.
            self.front.set_now(self.clocks.now().0, self.state.wall_ms);
        }
        for (number, answer) in self.state.answers.drain(..) {
            if number & ADMIN != 0 {
                if let Some(waiting) = self.state.admins.remove(&number) {
                    // Whoever asked may have given up.
                    let _ = waiting.send(answer);
                }
                continue;
            }
            self.state.in_flight -= 1;
            if let Some(connection) = self.front.completed(OperationId(number), backend::answer(answer)) {
                self.clients.touch(connection);
            }
        }
        for (operation, answer) in self.state.refused.drain(..) {
            self.state.in_flight -= 1;
            if let Some(connection) = self.front.completed(operation, answer) {
                self.clients.touch(connection);
            }
        }
        self.serve_front();
        self.clients.write(&mut self.front, now);
    }

    /// Whether the log is to be written now, or rather after another look at the sockets.
    fn is_flush_due(&mut self, is_quiet: bool, now: Instant) -> bool {
        if !self.disk.has_unwritten(self.host.log_mut()) {
            return true;
        }
        let since = *self.state.gathering_since.get_or_insert(now);
        !self.disk.is_writing() && (is_quiet || since.after_us(self.disk.write_us()) <= now)
    }

    fn flush(&mut self, now: Instant) -> Result<(), ServerError> {
        let began_at = self.clocks.now();
        self.state.gathering_since = None;
        if let Some(durable) = self.disk.flush(self.host.log_mut(), now)? {
            let took_us = self.clocks.now().0.saturating_sub(began_at.0);
            self.disk.note_write(took_us);
            self.note_flush(took_us);
            self.state.has_flushed = true;
            self.host.flushed(durable);
        }
        Ok(())
    }

    fn note_flush(&mut self, took_us: u64) {
        self.state.counters.flushes += 1;
        self.state.flushes.add(took_us);
    }

    /// Tells the log of the process what has changed since it was last looked.
    fn tell_news(&mut self, now: Instant) {
        for fault in self.host.take_faults() {
            tell_fault(&fault);
        }
        if now < self.state.news_at {
            return;
        }
        self.state.news_at = now.after_us(NEWS_US);
        self.tell_readiness();
        self.host.set_alarms(self.alarms());
        self.tell_of_waiting(now);
        let suspected: Vec<NodeId> = self.host.peers().filter(|&node| self.host.is_suspected(node)).collect();
        for node in suspected.iter().filter(|node| !self.state.suspected.contains(node)) {
            match self.host.is_excused(*node) {
                true => warn!("{node} has no space for its log, or is being stopped: others act in its place"),
                false => warn!("{node} is suspected: nothing was heard of it for too long"),
            }
        }
        for node in self.state.suspected.iter().filter(|node| !suspected.contains(node)) {
            info!("{node} is heard of again and takes part");
        }
        self.state.suspected = suspected;
        self.tell_of_absence();
        let installed = self.host.counters().snapshots_installed;
        if installed > self.state.snapshots_installed {
            match installed - self.state.snapshots_installed {
                1 => info!("1 group caught up by a snapshot"),
                count => info!("{count} groups caught up by snapshots"),
            }
            self.state.snapshots_installed = installed;
        }
        let readmitted = self.host.counters().readmitted;
        if readmitted > self.state.readmitted {
            match readmitted - self.state.readmitted {
                1 => info!("1 group that may have forgotten something takes part again"),
                count => info!("{count} groups that may have forgotten something take part again"),
            }
            self.state.readmitted = readmitted;
        }
        // Once all of them have: a node may have very many.
        let renewed = self.host.counters().own_groups_renewed;
        if renewed > self.state.renewed_told && renewed == self.state.renewed {
            match renewed - self.state.renewed_told {
                1 => info!("1 object's own group began anew, which may have forgotten something here"),
                count => info!("{count} objects' own groups began anew, which may have forgotten something here"),
            }
            self.state.renewed_told = renewed;
        }
        self.state.renewed = renewed;
    }

    fn tell_of_waiting(&mut self, now: Instant) {
        if !self.directory.is_new() {
            return;
        }
        let due = *self.state.waiting_at.get_or_insert(now.after_us(WAITING_FIRST_US));
        let waits_for = self.waits_for();
        let is_told_already = !self.state.waits_for.is_empty() && self.state.waits_for == waits_for;
        // The first moments are none to speak of, and nothing is said twice but now and then.
        if now < due && (is_told_already || self.state.waits_for.is_empty()) {
            return;
        }
        warn!(
            "the data directory is new, and clients get LOADING until these nodes were up and have accepted it: {}",
            waits_for.join(", ")
        );
        self.state.waits_for = waits_for;
        self.state.waiting_at = Some(now.after_us(WAITING_AGAIN_US));
    }
}

/// Frees the memory of what is of no use any more in a thread that nobody waits for.
fn free_elsewhere(discarded: Vec<Discarded>) {
    if discarded.is_empty() {
        return;
    }
    let work = move || {
        step_back();
        drop(discarded);
    };
    // Without a thread it is freed here, with what it would have run.
    drop(std::thread::Builder::new().name("free".into()).spawn(work));
}

fn tell_fault(fault: &Fault) {
    let Fault { group, namespace, doing, words, is_panic, is_quarantined } = fault;
    let place = match *namespace {
        ROOT_NAMESPACE => "the root".to_owned(),
        namespace => format!("group {} of namespace {namespace}", group.0),
    };
    match is_quarantined {
        true if !is_panic => error!(
            "{place} is quarantined, since something was met while {doing} that is sound and that this release cannot read: it \
             neither votes nor serves here, and the other members go on without it. What is on the disk is left as it is. \
             Start the newer release that wrote it; if there was none this is a bug, please report it: {words}"
        ),
        true => error!(
            "{place} panicked while {doing} and is quarantined: it neither votes nor serves here until this node starts \
             anew, and the other members go on without it. This is a bug, please report it: {words}"
        ),
        false => {
            error!("{place} panicked while {doing}; the command was refused. This is a bug, please report it: {words}")
        }
    }
}
