//! The cluster as it is: whichever node answers is asked, since each of them is away once.

use std::thread::sleep;
use std::time::{Duration, Instant};

use quorate_control::upgrade::{Floor, Group, Member, Node, View};
use quorate_node::quorum::Quorum;
use quorate_node::replica::Protocol;
use quorate_node::status::{NodeState, NodeStatus, Status, VolumeStatus};
use quorate_resp::Value;

use crate::client::{Client, Endpoint};
use crate::failure::Failure;
use crate::status;

/// How long one node may take to answer; a change of the root takes 5 s at most.
const ANSWER_WITHIN: Duration = Duration::from_secs(6);
/// How long it may take until some node answers.
const SOME_ANSWER_WITHIN: Duration = Duration::from_secs(10);
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// What a node could not do now, and another one may, or the same one later.
const PASSING: [&str; 4] = ["LOADING", "NOQUORUM", "TRYAGAIN", "TIMEOUT"];

/// The nodes of a cluster, each where its clients connect.
pub(super) struct Nodes {
    endpoints: Vec<(String, Endpoint)>,
}

impl Nodes {
    /// All nodes that the one at this endpoint knows.
    pub(super) fn of(endpoint: &Endpoint) -> Result<Nodes, Failure> {
        let status = status::fetch(&mut Client::connect(endpoint)?)?;
        let at = |node: &NodeStatus| {
            let found = endpoint.at(&node.client).map(|endpoint| (node.name.clone(), endpoint));
            found.ok_or_else(|| Failure(format!("{} has the address {:?}, which is none", node.name, node.client)))
        };
        Ok(Nodes { endpoints: status.nodes.iter().map(at).collect::<Result<_, _>>()? })
    }

    /// What any node answers to these words, which may be said twice.
    pub(super) fn ask(&self, words: &[&str]) -> Result<Value, Failure> {
        self.of_some(&[], |client| {
            Ok(match client.call(words)? {
                Value::Error(text) if PASSING.iter().any(|word| text.starts_with(word)) => return Err(Failure(text)),
                reply => reply,
            })
        })
    }

    /// The cluster, as a node tells that is not among these.
    pub(super) fn status(&self, except: &[String]) -> Result<Status, Failure> {
        self.of_some(except, |client| {
            let status = status::fetch(client)?;
            match status.namespaces.is_empty() {
                // It has just started.
                true => Err(Failure(format!("{} does not know the cluster yet", status.answered_by))),
                false => Ok(status),
            }
        })
    }

    fn of_some<T>(&self, except: &[String], ask: impl Fn(&mut Client) -> Result<T, Failure>) -> Result<T, Failure> {
        let deadline = Instant::now() + SOME_ANSWER_WITHIN;
        loop {
            let mut last = Failure("no node can be asked".into());
            for (_, endpoint) in self.endpoints.iter().filter(|(name, _)| !except.contains(name)) {
                let client = Client::connect_within(endpoint, ANSWER_WITHIN).map_err(Failure::from);
                match client.and_then(|mut client| ask(&mut client)) {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => last = failure,
                }
            }
            if Instant::now() > deadline {
                return Err(last);
            }
            sleep(AGAIN_AFTER);
        }
    }
}

/// What the planner has to know of it.
pub(super) fn view(status: &Status) -> View {
    let coordinated = |node: u32| status.volumes.iter().filter(|volume| volume.coordinator == Some(node)).count();
    let node = |node: &NodeStatus| Node {
        id: node.id,
        name: node.name.clone(),
        obstacle: obstacle(node),
        coordinates: coordinated(node.id),
    };
    let mut groups = vec![group("the root".into(), &status.root, Protocol::Paxos, 0)];
    for volume in &status.volumes {
        let namespace = status.namespaces.iter().find(|namespace| namespace.id == volume.namespace);
        let protocol = namespace.and_then(|namespace| Protocol::parse(&namespace.protocol)).unwrap_or(Protocol::Paxos);
        let name = format!("volume {} of namespace {}", volume.index, volume.namespace);
        groups.push(group(name, volume, protocol, namespace.map_or(0, |namespace| namespace.replicas as usize)));
    }
    View { nodes: status.nodes.iter().map(node).collect(), groups }
}

fn obstacle(node: &NodeStatus) -> Option<String> {
    let Some(own) = node.own.as_ref().filter(|_| node.state == NodeState::Live) else {
        return Some("it is not heard of; does it run?".into());
    };
    own.not_ready.clone().or_else(|| own.alarms.first().cloned())
}

fn group(name: String, volume: &VolumeStatus, protocol: Protocol, replicas: usize) -> Group {
    let is_register = protocol.is_register();
    let floor = match (protocol, Quorum::parse(&volume.quorum)) {
        (Protocol::Chain, _) => Floor::One,
        (Protocol::Register, Some(Quorum::Threshold { read, write })) => {
            Floor::Threshold { read: read.into(), write: write.into() }
        }
        (Protocol::Register, Some(Quorum::Grid { rows, columns })) => {
            Floor::Grid { rows: rows.into(), columns: columns.into() }
        }
        _ => Floor::Majority,
    };
    let members = volume.members.iter().map(|member| Member {
        node: member.node,
        // Those of registers are not behind each other.
        position: if is_register { Some(0) } else { member.lag.map(|lag| volume.next_slot.saturating_sub(lag)) },
        silent: member.silent.clone(),
    });
    Group {
        id: volume.group,
        name,
        floor,
        // Who is left out of a chain is no member, until it is back.
        wanted: if protocol == Protocol::Chain { replicas } else { 0 },
        members: members.collect(),
        front: if is_register { 0 } else { volume.next_slot },
    }
}

#[cfg(test)]
mod tests {
    use quorate_node::status::{MemberStatus, NamespaceStatus, NodeOwnStatus};

    use super::*;

    #[test]
    fn a_status_becomes_what_the_planner_knows() {
        let member = |node, lag| MemberStatus { node, lag, silent: None };
        let volume = |namespace, quorum: &str, lag| VolumeStatus {
            namespace,
            group: 7,
            members: vec![member(1, lag), member(2, lag)],
            coordinator: Some(2),
            next_slot: 20,
            quorum: quorum.into(),
            ..VolumeStatus::default()
        };
        let namespace = |id, protocol: &str| NamespaceStatus {
            id,
            protocol: protocol.into(),
            replicas: 3,
            ..NamespaceStatus::default()
        };
        let own = NodeOwnStatus { not_ready: Some("its clock is off".into()), ..NodeOwnStatus::default() };
        let node = |id, state, own| NodeStatus { id, name: format!("n{id}"), state, own, ..NodeStatus::default() };
        let view = view(&Status {
            nodes: vec![
                node(1, NodeState::Live, Some(own)),
                node(2, NodeState::Live, Some(NodeOwnStatus::default())),
                node(3, NodeState::Suspected, Some(NodeOwnStatus::default())),
            ],
            namespaces: vec![namespace(0, "paxos"), namespace(1, "chain"), namespace(2, "register")],
            volumes: vec![volume(0, "", Some(5)), volume(1, "", Some(0)), volume(2, "threshold 1 2", None)],
            ..Status::default()
        });
        let obstacles: Vec<Option<&str>> = view.nodes.iter().map(|node| node.obstacle.as_deref()).collect();
        assert_eq!(obstacles, [Some("its clock is off"), None, Some("it is not heard of; does it run?")]);
        assert_eq!(view.nodes.iter().map(|node| node.coordinates).collect::<Vec<_>>(), [0, 3, 0]);
        let floors: Vec<Floor> = view.groups.iter().map(|group| group.floor).collect();
        let sizes = Floor::Threshold { read: 1, write: 2 };
        assert_eq!(floors, [Floor::Majority, Floor::Majority, Floor::One, sizes]);
        assert_eq!((view.groups[1].front, view.groups[1].members[0].position), (20, Some(15)));
        assert_eq!((view.groups[3].front, view.groups[3].members[0].position), (0, Some(0)), "of registers");
        assert_eq!((view.groups[1].wanted, view.groups[2].wanted), (0, 3), "a chain lacks one");
    }
}
