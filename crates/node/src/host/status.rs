//! Telling how the cluster is: every node is asked for its own part, and whoever does not answer soon is left out.

use hashbrown::HashMap;
use quorate_protocol::NodeId;

use super::readmission::why_forgetful;
use super::{Host, Timer};
use crate::answer::{AdminReply, Answer};
use crate::frame::Message;
use crate::group_state::GroupState;
use crate::hash::FixedState;
use crate::readiness::Readiness;
use crate::replica::Protocol;
use crate::root::{GroupRecord, Places, ROOT, RootGroup};
use crate::status::{
    GroupReport, LogStatus, MemberStatus, NamespaceStatus, NodeOwnStatus, NodeStatus, OwnGroupsStatus, Report, Status,
    VolumeStatus,
};
use crate::volume::volume_of;

/// How long a status waits for nodes that are not suspected.
const PATIENCE_US: u64 = 500_000;

#[derive(Default)]
pub(super) struct Questions {
    nonce_last: u64,
    open: HashMap<u64, Question, FixedState>,
}

struct Question {
    operation: u64,
    wanted: Wanted,
    awaited: Vec<NodeId>,
    reports: Vec<Report>,
}

/// What is to be told once all have answered.
#[derive(Clone, Copy)]
enum Wanted {
    Summary,
    Json,
    Node(NodeId),
}

impl Host {
    pub(super) fn ask_for_status(&mut self, operation: u64, json: bool) {
        let awaited = self.peers.nodes().filter(|&node| !self.peers.is_unheard(node)).collect();
        self.ask_nodes(operation, if json { Wanted::Json } else { Wanted::Summary }, awaited);
    }

    /// As [`Host::ask_for_status`], about one node: who coordinates volumes knows of own groups there.
    pub(super) fn ask_for_node(&mut self, operation: u64, node: NodeId) {
        let awaited = self.peers.nodes().filter(|&peer| !self.peers.is_unheard(peer)).collect();
        self.ask_nodes(operation, Wanted::Node(node), awaited);
    }

    fn ask_nodes(&mut self, operation: u64, wanted: Wanted, awaited: Vec<NodeId>) {
        self.questions.nonce_last += 1;
        let nonce = self.questions.nonce_last;
        for &node in &awaited {
            self.outbox.send(node, &Message::StatusQuestion { nonce });
        }
        let question = Question { operation, wanted, awaited, reports: vec![self.report()] };
        self.questions.open.insert(nonce, question);
        self.timers.set(self.clock.now().after_us(PATIENCE_US), Timer::Status { nonce });
        self.try_finish_status(nonce, false);
    }

    pub(super) fn handle_status_question(&mut self, from: NodeId, nonce: u64) {
        let bytes = serde_json::to_vec(&self.report()).expect("plain data has an encoding");
        self.outbox.send(from, &Message::StatusAnswer { nonce, bytes: &bytes });
    }

    pub(super) fn handle_status_answer(&mut self, from: NodeId, nonce: u64, bytes: &[u8]) {
        let Some(question) = self.questions.open.get_mut(&nonce) else { return };
        let Ok(report) = serde_json::from_slice::<Report>(bytes) else {
            self.counters.nonsense += 1;
            return;
        };
        if report.node == from.0 && question.awaited.contains(&from) {
            question.awaited.retain(|&node| node != from);
            question.reports.push(report);
            self.try_finish_status(nonce, false);
        }
    }

    /// Answers once everybody has, or the patience is over.
    pub(super) fn try_finish_status(&mut self, nonce: u64, patience_is_over: bool) {
        let Some(question) = self.questions.open.get(&nonce) else { return };
        if !patience_is_over && !question.awaited.is_empty() {
            return;
        }
        let Some(question) = self.questions.open.remove(&nonce) else { return };
        let status = || self.assemble(&question.reports);
        let reply = match question.wanted {
            Wanted::Json => AdminReply::Text(serde_json::to_string(&status()).expect("plain data has an encoding")),
            Wanted::Summary => summary(&status()),
            Wanted::Node(node) => self.tell_node(node, &question.reports),
        };
        self.answers.push((question.operation, Answer::Admin(reply)));
    }

    fn report(&mut self) -> Report {
        let statistics = self.wal.statistics();
        let log = LogStatus {
            segments: statistics.segment_count,
            bytes: statistics.bytes,
            live_bytes: statistics.live_bytes,
            groups: statistics.group_count,
            index_bytes: statistics.index_bytes,
        };
        // Who has just started may have promised something that it does not know any more, and promises nothing new.
        let promises = self.clock.now() >= self.started_at.after_us(self.settings.timing.lease_given_us);
        let just_started = (!promises).then_some("it has just started, and promises nothing new yet");
        let own = NodeOwnStatus {
            starts: self.settings.start,
            not_ready: self.readiness().obstacle().or(just_started).map(str::to_owned),
            version: self.settings.version.clone(),
            pid: self.settings.pid,
            uptime_s: (self.clock.now().0 - self.started_at.0) / 1_000_000,
            clients: self.client_count,
            messages_sent: self.counters.messages_sent,
            log,
            own_groups: self.own_groups_status(),
            alarms: self.damage.iter().chain(&self.alarms).cloned().collect(),
        };
        // In the order of their places. To look at each of very many own groups would take long.
        let mut volumes: Vec<u32> =
            self.index.iter().filter(|(group, _)| volume_of(**group).is_none()).map(|(_, index)| *index).collect();
        volumes.sort_unstable();
        let groups = volumes
            .into_iter()
            .filter_map(|index| self.groups.get(index as usize))
            .map(|group| GroupReport {
                group: group.id().0,
                next_slot: group.replica.next_slot().0,
                coordinating: group.replica.is_coordinating(),
                silent: match group.state {
                    GroupState::Alive => None,
                    GroupState::Unborn if self.settings.is_new => {
                        Some("its node's data directory is new, and not all other nodes have accepted it".into())
                    }
                    GroupState::Unborn => Some("being created".into()),
                    GroupState::Forgetful => Some(why_forgetful(group).into()),
                    GroupState::Quarantined => {
                        Some("its code panicked or could not read its state: see its node's log".into())
                    }
                    GroupState::Closed => Some("its node is being stopped".into()),
                    GroupState::Damaged => Some("its part of the log, or its checkpoint, is damaged".into()),
                },
            })
            .collect();
        Report { node: self.settings.node.0, own, groups, own_groups_on: self.own_groups_on() }
    }

    fn own_groups_status(&self) -> OwnGroupsStatus {
        let counts = self.own_counts();
        OwnGroupsStatus {
            active: counts.active as u64,
            idle: counts.idle as u64,
            idle_bytes: counts.resting_bytes as u64,
            paused: counts.paused as u64,
            wakeups: self.counters.woken_from_memory + self.counters.woken_from_store,
        }
    }

    fn assemble(&self, reports: &[Report]) -> Status {
        let by_node: HashMap<u32, &Report, FixedState> = reports.iter().map(|report| (report.node, report)).collect();
        let by_group: HashMap<(u32, u64), &GroupReport, FixedState> = reports
            .iter()
            .flat_map(|report| report.groups.iter().map(|group| ((report.node, group.group), group)))
            .collect();
        let me = self.settings.node.0;
        let nodes = self.known_nodes();
        let node_status = nodes.iter().map(|node| NodeStatus {
            id: node.id,
            name: node.name.clone(),
            state: self.node_state(NodeId(node.id)),
            client: node.client.clone(),
            admin: node.admin.clone(),
            own: by_node.get(&node.id).map(|report| report.own.clone()),
        });
        let mut status = Status {
            cluster: format!("{:016x}", self.settings.cluster),
            answered_by: nodes.iter().find(|node| node.id == me).map(|node| node.name.clone()).unwrap_or_default(),
            nodes: node_status.collect(),
            ..Status::default()
        };
        let RootGroup { record, seats, .. } = self.directory.root_group();
        let members = self.root_members().into_iter().map(|node| node.0).collect();
        let record = GroupRecord { members, ..record.clone() };
        let told = volume_status(0, 0, &record, true, |node| by_group.get(&(node, ROOT.0)).copied());
        let places = Places::of(Protocol::Paxos, &record, Some(seats));
        status.root = VolumeStatus { joining: places.coming, leaving: places.leaving, ..told };
        let Some(state) = self.directory.state() else { return status };
        status.replace_after_s = state.placement.replace_after.0;
        for (&number, namespace) in &state.namespaces {
            status.namespaces.push(NamespaceStatus {
                id: number,
                protocol: namespace.settings.protocol.word().into(),
                replicas: u32::from(namespace.settings.replicas),
                volumes: namespace.volumes.len() as u32,
                durability: namespace.settings.durability.word().into(),
                reads: namespace.settings.reads.word().into(),
                groups: namespace.settings.groups.word().into(),
            });
            for (index, volume) in namespace.volumes.iter().enumerate() {
                let report = |node: u32| by_group.get(&(node, volume.group)).copied();
                let is_ordered = namespace.settings.protocol.is_ordered();
                let present = self.present(volume);
                let places = state.places(namespace.settings.protocol, &present);
                let told = volume_status(number, index as u32, &present, is_ordered, report);
                status.volumes.push(VolumeStatus { joining: places.coming, leaving: places.leaving, ..told });
            }
        }
        status
    }

    /// Whether this node takes commands. A replica of the root that is silent does not keep it from that: others tell it of
    /// the cluster.
    pub fn readiness(&self) -> Readiness {
        let is_unborn = self.root_state() == Some(GroupState::Unborn);
        let (heard, counted) = self.count_heard();
        if self.directory.state().is_none() || is_unborn {
            Readiness::ClusterUnknown
        } else if !self.is_of_cluster() {
            Readiness::Removed
        } else if self.level() > self.settings.level_known {
            Readiness::ReleaseTooOld
        } else if heard * 2 <= counted {
            Readiness::CutOff
        } else if self.is_clock_known_off() {
            Readiness::ClockOff
        } else if self.is_clock_off() {
            Readiness::ClockUnknown
        } else {
            Readiness::Ready
        }
    }

    /// Whether this node has a replica of the root that neither votes nor serves.
    pub fn is_root_silent(&self) -> bool {
        // Who has not been a member yet is no loss.
        let is_lost = |index: u32| self.groups[index as usize].state.is_silent() && !self.is_newcomer(index);
        self.find(ROOT).is_some_and(is_lost)
    }

    pub(super) fn root_state(&self) -> Option<GroupState> {
        self.find(ROOT).map(|index| self.groups[index as usize].state)
    }
}

fn volume_status<'a>(
    namespace: u32,
    index: u32,
    volume: &GroupRecord,
    is_ordered: bool,
    report: impl Fn(u32) -> Option<&'a GroupReport>,
) -> VolumeStatus {
    let coordinator = volume.members.iter().copied().find(|&node| report(node).is_some_and(|group| group.coordinating));
    let next_slot = |node: u32| report(node).map(|group| group.next_slot);
    let ahead = volume.members.iter().filter_map(|&node| next_slot(node)).max().unwrap_or(0);
    let front = coordinator.and_then(next_slot).unwrap_or(ahead);
    let member = |&node: &u32| MemberStatus {
        node,
        // A silent one stands where it stood; members of registers are not behind each other.
        lag: report(node)
            .filter(|group| group.silent.is_none() && is_ordered)
            .map(|group| front.saturating_sub(group.next_slot)),
        silent: report(node).and_then(|group| group.silent.clone()),
    };
    VolumeStatus {
        namespace,
        index,
        group: volume.group,
        epoch: volume.epoch,
        members: volume.members.iter().map(member).collect(),
        coordinator,
        next_slot: front,
        joining: Vec::new(),
        leaving: Vec::new(),
        quorum: if is_ordered { String::new() } else { volume.quorum().words() },
    }
}

/// The status in a few lines, for people at a Redis client.
fn summary(status: &Status) -> AdminReply {
    let text = |text: &str| AdminReply::Text(text.to_string());
    let number = |number: u64| AdminReply::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let nodes = status.nodes.iter().map(|node| {
        let coordinates = status.volumes.iter().filter(|volume| volume.coordinator == Some(node.id)).count();
        let mut fields = vec![
            ("name".to_string(), text(&node.name)),
            ("state".to_string(), text(node.state.word())),
            ("client".to_string(), text(&node.client)),
            ("coordinates".to_string(), number(coordinates as u64)),
        ];
        if let Some(own) = &node.own {
            fields.push(("log_bytes".to_string(), number(own.log.bytes)));
            fields.push(("uptime_s".to_string(), number(own.uptime_s)));
        }
        AdminReply::Map(fields)
    });
    let lag = |volume: &VolumeStatus| volume.members.iter().filter_map(|member| member.lag).max().unwrap_or(0);
    AdminReply::Map(vec![
        ("cluster".to_string(), text(&status.cluster)),
        ("nodes".to_string(), AdminReply::List(nodes.collect())),
        ("namespaces".to_string(), number(status.namespaces.len() as u64)),
        ("volumes".to_string(), number(status.volumes.len() as u64)),
        ("lag_max".to_string(), number(status.volumes.iter().map(lag).max().unwrap_or(0))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::three_nodes::{Cluster, arrives};

    #[test]
    fn a_node_that_takes_no_commands_says_why() {
        let mut cluster = Cluster::new(|_| {});
        let all = |cluster: &mut Cluster| [1, 2, 3].map(|id| cluster.node(id).host.readiness());
        assert_eq!(all(&mut cluster), [Readiness::Ready; 3]);
        cluster.node(3).wall_ahead_ms = 30_000;
        cluster.pass(10_000, arrives);
        assert_eq!(all(&mut cluster), [Readiness::Ready, Readiness::Ready, Readiness::ClockOff]);
        cluster.node(3).wall_ahead_ms = 0;
        cluster.pass(10_000, arrives);
        assert_eq!(all(&mut cluster), [Readiness::Ready; 3]);
        [1, 2].into_iter().for_each(|id| cluster.node(id).is_down = true);
        cluster.pass(2_000, arrives);
        assert_eq!(cluster.node(3).host.readiness(), Readiness::CutOff);
        [1, 2].into_iter().for_each(|id| cluster.node(id).is_down = false);
        cluster.pass(10_000, arrives);
        assert_eq!(all(&mut cluster), [Readiness::Ready; 3]);
    }

    #[test]
    fn a_silent_replica_of_the_root_keeps_a_node_from_nothing() {
        let mut cluster = Cluster::new(|_| {});
        let host = &mut cluster.node(2).host;
        let root = host.find(ROOT).expect("every node has one");
        host.quarantine(root, "testing", "as planned".into());
        cluster.pass(2_000, arrives);
        let host = &cluster.node(2).host;
        assert!(host.is_root_silent());
        assert_eq!(host.readiness(), Readiness::Ready);
        let written = cluster.write(2, b"value");
        cluster.pass(2_000, arrives);
        assert!(cluster.is_done(2, written));
    }
}
