//! What the worker tells for metrics, when it is asked.

use quorate_node::{Group, GroupState, Host};
use quorate_protocol::NodeId;
use quorate_protocol::paxos::Role;

use super::Worker;
use crate::metrics::{ClientFigures, Figures, PeerFigures};

impl Worker {
    pub(super) fn figures(&mut self) -> Figures {
        let (state, counters) = (&self.state, self.state.counters);
        let wal = self.host.log_mut();
        let (log, log_segments) = (wal.statistics(), wal.segments().collect());
        let host = &self.host;
        let peers = host.peers().map(|node| PeerFigures {
            name: name_of(host, node),
            is_suspected: host.is_suspected(node),
            is_linked: self.links.is_linked_to(node),
        });
        let expiries = self.watch.as_ref().map_or_else(Vec::new, |watch| watch.expiries());
        Figures {
            node_name: name_of(host, host.settings().node),
            is_ready: host.is_ready(),
            is_clock_off: host.is_clock_off(),
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
            replicas: replicas(host),
            own_groups: host.own_counts(),
            lag_slots_max: host.groups().map(lag_slots).max().unwrap_or(0),
            peers: peers.collect(),
            passwords_wrong: self.gate.counters.wrong,
            passwords_refused: self.gate.counters.refused,
            certificates: expiries.iter().map(|expiry| (expiry.name, expiry.ends_s())).collect(),
        }
    }
}

fn name_of(host: &Host, node: NodeId) -> String {
    let known = host.settings().nodes.iter().find(|known| known.id == node.0);
    known.map_or_else(|| node.to_string(), |known| known.name.clone())
}

/// Every state is there, also where no replica is in it: who watches for one must see it at 0 before.
fn replicas(host: &Host) -> Vec<(&'static str, u64)> {
    const STATES: [&str; 8] =
        ["coordinating", "preparing", "following", "unborn", "forgetful", "damaged", "quarantined", "closed"];
    let mut counts: Vec<(&str, u64)> = STATES.map(|state| (state, 0)).into();
    for group in host.groups() {
        let state = state_of(group);
        let count = counts.iter_mut().find(|(known, _)| *known == state);
        count.expect("every state is listed").1 += 1;
    }
    counts
}

fn state_of(group: &Group) -> &'static str {
    match group.state {
        GroupState::Alive => match group.replica.role() {
            Role::Coordinating => "coordinating",
            Role::Preparing => "preparing",
            Role::Following => "following",
        },
        GroupState::Unborn => "unborn",
        GroupState::Forgetful => "forgetful",
        GroupState::Damaged => "damaged",
        GroupState::Quarantined => "quarantined",
        GroupState::Closed => "closed",
    }
}

/// How far the last member of a group that is coordinated here is behind, as far as known.
fn lag_slots(group: &Group) -> u64 {
    if !group.is_alive() || !group.replica.is_coordinating() {
        return 0;
    }
    let next_slot = group.replica.next_slot().0;
    let behind = |(_, frontier): &(NodeId, quorate_protocol::Slot)| next_slot.saturating_sub(frontier.0);
    group.replica.frontiers().iter().map(behind).max().unwrap_or(0)
}
