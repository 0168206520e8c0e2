//! `GET /metrics`: what the node tells Prometheus.
//!
//! The worker only counts. When it is asked it copies its counters and looks at its groups once; everything else, the
//! text included, is made on the thread that serves HTTP.

#[cfg(test)]
mod lint;
mod process;
mod text;

use crate::applications::ApplicationFigures;
use quorate_front::{Counts, Failure, Histogram, Kind};
use quorate_node::register::RegisterMessages;
use quorate_node::{Counters, DigestCounts, OwnCounts};
use quorate_wal::{SegmentStatistics, Statistics};

pub(crate) use text::CONTENT_TYPE;
use text::Text;

/// What the worker tells at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) node_name: String,
    pub(crate) is_ready: bool,
    pub(crate) is_clock_off: bool,
    pub(crate) is_clock_unknown: bool,
    pub(crate) clients: ClientFigures,
    pub(crate) front: Counts,
    pub(crate) slow_log_length: usize,
    pub(crate) in_flight: u64,
    pub(crate) host: Counters,
    pub(crate) turns: u64,
    pub(crate) frames_sent: u64,
    pub(crate) frame_bytes_sent: u64,
    pub(crate) flushes: Histogram,
    pub(crate) log: Statistics,
    pub(crate) log_segments: Vec<SegmentStatistics>,
    pub(crate) has_space: bool,
    pub(crate) batches_waiting: usize,
    pub(crate) checkpoint_stored_ms: u64,
    /// Replicas by what they do, or why they do nothing.
    pub(crate) replicas: Vec<(&'static str, u64)>,
    pub(crate) lag_slots_max: u64,
    pub(crate) own_groups: OwnCounts,
    pub(crate) peers: Vec<PeerFigures>,
    pub(crate) applications: Vec<ApplicationFigures>,
    pub(crate) passwords_wrong: u64,
    pub(crate) passwords_refused: u64,
    /// When the certificates in a file run out, in seconds since the Unix epoch, by what the file is for.
    pub(crate) certificates: Vec<(&'static str, i64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientFigures {
    pub(crate) connected: usize,
    pub(crate) limit: usize,
    pub(crate) refused: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct PeerFigures {
    pub(crate) name: String,
    pub(crate) is_suspected: bool,
    pub(crate) is_absent: bool,
    pub(crate) is_linked: bool,
}

impl Figures {
    /// In Prometheus's text format, with what the process uses of the machine.
    pub(crate) fn render(&self) -> String {
        let mut text = Text::default();
        self.render_node(&mut text);
        self.render_clients(&mut text);
        self.render_replication(&mut text);
        self.render_disk(&mut text);
        process::render(&mut text);
        text.0
    }

    fn render_node(&self, text: &mut Text) {
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("node", &self.node_name)];
        text.info("quorate_build_info", "The release that runs, and the node's name.", &labels);
        text.gauge("quorate_ready", "1 if the node serves, as /readyz says.", u8::from(self.is_ready));
        text.gauge(
            "quorate_clock_off",
            "1 if the node's wall clock is more than a second off most of its peers'.",
            u8::from(self.is_clock_off),
        );
        text.gauge(
            "quorate_clock_unknown",
            "1 if the node could not compare its wall clock with most of its peers' in the last seconds.",
            u8::from(self.is_clock_unknown),
        );
        text.counter("quorate_worker_turns_total", "Turns of the worker.", self.turns);
        let peers = |value: fn(&PeerFigures) -> bool| {
            self.peers.iter().map(move |peer| (peer.name.as_str(), u64::from(value(peer))))
        };
        text.gauges(
            "quorate_peer_suspected",
            "1 if nothing was heard of the other node for too long.",
            "peer",
            peers(|peer| peer.is_suspected),
        );
        text.gauges(
            "quorate_peer_absent",
            "1 if the other node is away for so long that its replicas get other places.",
            "peer",
            peers(|peer| peer.is_absent),
        );
        text.gauges(
            "quorate_peer_linked",
            "1 if there is a link to the other node for what this one sends.",
            "peer",
            peers(|peer| peer.is_linked),
        );
        text.counter("quorate_frames_sent_total", "Frames for other nodes.", self.frames_sent);
        text.counter("quorate_frame_sent_bytes_total", "Bytes of frames for other nodes.", self.frame_bytes_sent);
    }

    fn render_clients(&self, text: &mut Text) {
        let ClientFigures { connected, limit, refused } = self.clients;
        text.gauge("quorate_clients_connected", "Clients that are connected.", connected);
        text.gauge("quorate_clients_limit", "Clients that may be connected at once.", limit);
        text.counter("quorate_clients_accepted_total", "Clients that have connected.", self.front.connections);
        text.counter("quorate_clients_refused_total", "Clients refused for being too many.", refused);
        text.counter("quorate_passwords_wrong_total", "Wrong passwords of clients.", self.passwords_wrong);
        text.counter(
            "quorate_passwords_refused_total",
            "Passwords that nobody looked at, for being too many or after too many wrong ones.",
            self.passwords_refused,
        );
        text.gauges(
            "quorate_certificate_expiry_timestamp_seconds",
            "When the first certificate in the file runs out.",
            "file",
            self.certificates.iter().map(|&(file, ends_s)| (file, ends_s.max(0).cast_unsigned())),
        );
        let requests = Kind::ALL.map(|kind| (kind.word(), self.front.requests[kind as usize]));
        text.counters("quorate_commands_total", "Commands of clients, by what they are about.", "kind", requests);
        let timed = Kind::ALL.iter().filter(|kind| **kind != Kind::Connection);
        text.histograms(
            "quorate_command_duration_seconds",
            "From when a command was read to when its reply was written, other nodes and disks included.",
            "kind",
            timed.map(|kind| (kind.word(), &self.front.latencies[*kind as usize])),
        );
        let failures = Failure::CODES.into_iter().zip(self.front.failures);
        text.counters(
            "quorate_operations_failed_total",
            "Operations without an outcome, by the code of their error; a command on many keys is many operations.",
            "code",
            failures,
        );
        self.render_applications(text);
        text.gauge("quorate_operations_in_flight", "Operations of clients that are not answered.", self.in_flight);
        text.gauge("quorate_slow_log_commands", "Commands that SLOWLOG GET shows.", self.slow_log_length);
    }

    fn render_applications(&self, text: &mut Text) {
        let of = |figure: fn(&ApplicationFigures) -> u64| {
            self.applications.iter().map(move |application| (&application.name, figure(application)))
        };
        text.counters(
            "quorate_application_calls_total",
            "Calls that an application was given; those that began anew since others had changed the object count again.",
            "application",
            of(|application| application.calls),
        );
        text.counters(
            "quorate_application_failures_total",
            "Calls that an application did not answer, or not as it may.",
            "application",
            of(|application| application.failures),
        );
        text.gauges(
            "quorate_application_out_of_reach",
            "1 if the last call to an application got no answer.",
            "application",
            of(|application| u64::from(application.is_out_of_reach)),
        );
    }

    fn render_replication(&self, text: &mut Text) {
        text.gauges(
            "quorate_replicas",
            "Replicas of groups awake at this node, by what they do, or why they neither vote nor serve. More than 16,384 \
             are counted every half minute.",
            "state",
            self.replicas.iter().copied(),
        );
        text.gauge(
            "quorate_lag_slots_max",
            "Over the groups that this node coordinates: how far the last member is behind, in slots. Counted with \
             quorate_replicas.",
            self.lag_slots_max,
        );
        let host = &self.host;
        let own = &self.own_groups;
        text.gauges(
            "quorate_own_groups",
            "Groups of one object at this node: with something in hand, with nothing, in the checkpoint store only.",
            "state",
            [("active", own.active as u64), ("idle", own.idle as u64), ("paused", own.paused as u64)],
        );
        text.gauge(
            "quorate_own_groups_idle_bytes",
            "What groups of one object that are at rest take in memory.",
            own.resting_bytes as u64,
        );
        text.gauge(
            "quorate_own_group_records_swapped",
            "Records of groups of one object, in volumes of this node, whose names are in the checkpoint store only.",
            own.records_swapped as u64,
        );
        text.counters(
            "quorate_own_group_wakeups_total",
            "Groups of one object that were woken, by where they were.",
            "from",
            [("memory", host.woken_from_memory), ("store", host.woken_from_store)],
        );
        text.counters(
            "quorate_register_reads_total",
            "Reads of registers that this node carried out, by how often members were asked: once, or again, to store the value first included.",
            "rounds",
            [("one", host.register_reads_one_round), ("more", host.register_reads_more_rounds)],
        );
        let RegisterMessages { query, found, store, stored, confirm, other } = host.register_messages;
        text.counters(
            "quorate_register_messages_sent_total",
            "Messages of registers' replicas to those of other nodes, by what they say.",
            "kind",
            [
                ("query", query),
                ("found", found),
                ("store", store),
                ("stored", stored),
                ("confirm", confirm),
                ("other", other),
            ],
        );
        self.render_digests(text);
        let counters = [
            (
                "quorate_own_groups_stranded_total",
                "Groups of one object that left memory with slots in flight, because they lacked a quorum.",
                host.paused_stranded,
            ),
            (
                "quorate_replica_messages_sent_total",
                "Messages of replicas to those of other nodes.",
                host.messages_sent,
            ),
            ("quorate_slots_applied_total", "Slots that replicas have executed.", host.slots_applied),
            ("quorate_commands_applied_total", "Commands that replicas have executed.", host.commands_applied),
            ("quorate_reads_leased_total", "Reads answered under a lease.", host.reads_leased),
            ("quorate_reads_routed_total", "Reads that this node's replicas answered for routers.", host.reads_routed),
            (
                "quorate_reads_routed_here_total",
                "Reads that this node, as a router, answered from its own replicas.",
                host.reads_routed_here,
            ),
            (
                "quorate_reads_turned_back_total",
                "Reads that this node, as a router, sent to a member that was not consistent.",
                host.reads_turned_back,
            ),
            ("quorate_kgroups_shared_total", "Kgroups shared with routers.", host.shared),
            ("quorate_recalls_sent_total", "Recalls of kgroups sent to routers.", host.recalls_sent),
            ("quorate_read_rounds_total", "Messages of quorum rounds for reads.", host.confirm_rounds),
            ("quorate_snapshots_sent_total", "Snapshots sent to members that were behind.", host.snapshots_sent),
            (
                "quorate_snapshots_copied_total",
                "Those of them that were read from the checkpoint store.",
                host.snapshots_copied,
            ),
            ("quorate_snapshots_installed_total", "Snapshots taken from other members.", host.snapshots_installed),
            ("quorate_hand_overs_total", "Groups whose coordination this node gave away.", host.handed_over),
            (
                "quorate_hand_overs_to_clients_total",
                "Those of them that were volumes whose commands entered at another member.",
                host.followed,
            ),
            ("quorate_operations_resent_total", "Operations sent once more.", host.resent),
            ("quorate_operations_uncertain_total", "Proposals overtaken by another coordinator.", host.uncertain),
            (
                "quorate_replicas_quarantined_total",
                "Replicas given up: their code panicked, or could not read what is on the disk.",
                host.quarantined,
            ),
            (
                "quorate_replicas_readmitted_total",
                "Replicas that had forgotten what they said and take part again.",
                host.readmitted,
            ),
            (
                "quorate_chains_left_total",
                "Replicas of chains that had forgotten what they said, were left out and begin anew.",
                host.chains_left,
            ),
            (
                "quorate_own_groups_changed_total",
                "Own groups that became others, as this node's replicas of their volumes have executed.",
                host.own_groups_changed,
            ),
            (
                "quorate_own_groups_renewed_total",
                "Own groups that began anew because this node's replicas of them had forgotten what they said.",
                host.own_groups_renewed,
            ),
            (
                "quorate_own_groups_moved_off_total",
                "Own groups that this node, as their volumes' coordinator, has had leave nodes that are drained.",
                host.own_groups_moved_off,
            ),
            ("quorate_reads_failed_total", "Reads that panicked.", host.reads_failed),
            ("quorate_chains_changed_total", "Configurations of chains proposed here.", host.chains_changed),
            (
                "quorate_chains_turned_total",
                "Members of chains that this node has moved behind the tail to bring back their order.",
                host.chains_turned,
            ),
            (
                "quorate_seats_changed_total",
                "Members of volumes of paxos that were replaced, as this node's replicas have followed it.",
                host.seats_changed,
            ),
            (
                "quorate_root_seats_changed_total",
                "Seats in the root that were taken by other nodes, or were new, as this node's replica has followed it.",
                host.root_seats_changed,
            ),
            (
                "quorate_seats_left_total",
                "Replicas of volumes of paxos, and of the root, that this node gave up since another node has come in its place.",
                host.seats_left,
            ),
            (
                "quorate_chains_replaced_total",
                "Members of chains that this node, where it coordinated the root, has let go since others had come in their place.",
                host.chains_replaced,
            ),
            (
                "quorate_moves_planned_total",
                "Moves of volumes' replicas that this node has proposed where it coordinated the root.",
                host.moves_planned,
            ),
            ("quorate_replicas_replaced_total", "Likewise, away from nodes that were absent.", host.replicas_replaced),
            ("quorate_reads_clean_total", "Reads that members of chains answered by themselves.", host.reads_clean),
            (
                "quorate_register_configurations_total",
                "Configurations of registers that this node has begun to make ready to be retired.",
                host.registers_retired,
            ),
            (
                "quorate_tombstones_forgotten_total",
                "Tombstones of registers that this node has seen to being forgotten.",
                host.tombstones_forgotten,
            ),
            ("quorate_peer_nonsense_total", "Messages that no correct node would send.", host.nonsense),
            ("quorate_frames_repeated_total", "Frames that had arrived before.", host.frames_repeated),
            ("quorate_stamps_disbelieved_total", "Frames with a time too far ahead.", host.stamps_not_believed),
        ];
        counters.into_iter().for_each(|(name, help, value)| text.counter(name, help, value));
    }

    fn render_digests(&self, text: &mut Text) {
        let DigestCounts { bodies_sent, bodies_unused, references_sent, bytes_saved, .. } = self.host.digests;
        let DigestCounts { references_resolved, held, asked_in_full, sent_in_full, bodies_mistaken, .. } =
            self.host.digests;
        let counters = [
            (
                "quorate_bodies_sent_total",
                "Large commands that this node sent to members as their entry node.",
                bodies_sent,
            ),
            (
                "quorate_bodies_unused_total",
                "Large commands that entry nodes sent here and no coordinator referred to in time.",
                bodies_unused,
            ),
            (
                "quorate_bodies_mistaken_total",
                "Large commands that were not those that a coordinator referred to. There should be none.",
                bodies_mistaken,
            ),
            (
                "quorate_references_sent_total",
                "References sent to members in place of large commands.",
                references_sent,
            ),
            (
                "quorate_references_saved_bytes_total",
                "Bytes that this node's links did not carry because it sent references.",
                bytes_saved,
            ),
            (
                "quorate_references_resolved_total",
                "References replaced by the commands that they stand for.",
                references_resolved,
            ),
            ("quorate_references_held_total", "Messages that waited for a command that they refer to.", held),
            (
                "quorate_references_asked_total",
                "Messages asked for in full because a command that they refer to did not come.",
                asked_in_full,
            ),
            ("quorate_references_in_full_total", "Messages sent in full because a member asked.", sent_in_full),
        ];
        counters.into_iter().for_each(|(name, help, value)| text.counter(name, help, value));
    }

    fn render_disk(&self, text: &mut Text) {
        let log = &self.log;
        text.histogram("quorate_log_flush_duration_seconds", "Writing and syncing the log.", &self.flushes);
        text.counter(
            "quorate_log_written_bytes_total",
            "Bytes written to the log, padding included.",
            log.written_bytes,
        );
        text.counter("quorate_log_record_bytes_total", "Bytes of records in the log.", log.record_bytes);
        text.gauge("quorate_log_segments", "Files of the log.", log.segment_count);
        text.gauge("quorate_log_size_bytes", "What the log takes on the disk.", log.bytes);
        text.gauge("quorate_log_live_bytes", "What groups need of the log, within a quarter.", log.live_bytes);
        text.gauges(
            "quorate_log_segments_by_live_share",
            "Files of the log by the share of them that groups need: up to so much, and more than the one before.",
            "up_to",
            by_live_share(&self.log_segments),
        );
        text.gauge("quorate_log_groups", "Groups that need something of the log.", log.group_count);
        text.gauge("quorate_log_index_bytes", "Memory of the log's index.", log.index_bytes);
        text.counter(
            "quorate_log_carried_bytes_total",
            "Bytes of records that were written again so that an old file could go.",
            log.carried_bytes,
        );
        text.gauge(
            "quorate_log_space_exhausted",
            "1 if the log found no space and writes are refused.",
            u8::from(!self.has_space),
        );
        text.counter("quorate_checkpoints_total", "Checkpoints of groups that were stored.", self.host.checkpoints);
        text.gauge("quorate_checkpoint_batches_waiting", "Checkpoints that wait to be stored.", self.batches_waiting);
        text.gauge(
            "quorate_checkpoint_stored_timestamp_seconds",
            "When anything was last stored; 0 if nothing was since the start.",
            self.checkpoint_stored_ms as f64 / 1e3,
        );
    }
}

/// How many segments are needed to a share of up to 10, 50 and 100 percent.
fn by_live_share(segments: &[SegmentStatistics]) -> [(&'static str, u64); 3] {
    let mut counts = [("0.1", 0), ("0.5", 0), ("1", 0)];
    for segment in segments {
        let class = match segment.live_bytes * 100 / segment.bytes.max(1) {
            0..=10 => 0,
            11..=50 => 1,
            _ => 2,
        };
        counts[class].1 += 1;
    }
    counts
}
