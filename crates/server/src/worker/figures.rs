//! What the worker tells for metrics, when it is asked.

use quorate_node::Host;
use quorate_protocol::NodeId;

use super::Worker;
use crate::metrics::{ClientFigures, Figures, PeerFigures};

impl Worker {
    pub(super) fn figures(&mut self) -> Figures {
        let census = self.host.census();
        let (state, counters) = (&self.state, self.state.counters);
        let wal = self.host.log_mut();
        let (log, log_segments) = (wal.statistics(), wal.segments().collect());
        let host = &self.host;
        let peers = host.peers().map(|node| PeerFigures {
            name: name_of(host, node),
            is_suspected: host.is_suspected(node),
            is_absent: host.absent_nodes().contains(&node),
            is_linked: self.links.is_linked_to(node),
        });
        let expiries = self.watch.as_ref().map_or_else(Vec::new, |watch| watch.expiries());
        Figures {
            node_name: name_of(host, host.settings().node),
            is_ready: host.readiness().is_ready(),
            is_clock_off: host.is_clock_known_off(),
            is_clock_unknown: host.is_clock_off() && !host.is_clock_known_off(),
            clients: ClientFigures {
                connected: self.clients.count(),
                limit: self.clients.count_max(),
                refused: self.clients.counters().refused,
            },
            front: *self.front.counts(),
            slow_log_length: self.front.slow_log_length(),
            in_flight: state.in_flight,
            host: host.counters(),
            turns: counters.turns,
            frames_sent: counters.frames_sent,
            frame_bytes_sent: counters.frame_bytes_sent,
            flushes: state.flushes,
            log,
            log_segments,
            has_space: self.disk.has_space(),
            batches_waiting: self.checkpointer.outstanding(),
            checkpoint_stored_ms: state.stored_ms,
            replicas: census.replicas().collect(),
            own_groups: host.own_counts(),
            lag_slots_max: census.lag_slots_max,
            peers: peers.collect(),
            applications: self.applications.figures(),
            passwords_wrong: self.gate.counters.wrong,
            passwords_refused: self.gate.counters.refused,
            certificates: expiries.iter().map(|expiry| (expiry.name, expiry.ends_s())).collect(),
        }
    }
}

pub(super) fn name_of(host: &Host, node: NodeId) -> String {
    let known = host.known_nodes().iter().find(|known| known.id == node.0);
    known.map_or_else(|| node.to_string(), |known| known.name.clone())
}
