//! What `QUORATE STATUS JSON` tells: one definition for the node that answers and the programs that ask.
//!
//! Fields are only ever added, each with a default, so that a program and a node of different releases understand each
//! other.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The cluster's id.
    pub cluster: String,
    /// The name of the node that answered.
    pub answered_by: String,
    pub nodes: Vec<NodeStatus>,
    pub namespaces: Vec<NamespaceStatus>,
    pub volumes: Vec<VolumeStatus>,
    /// The group that knows the nodes and the namespaces, as if it were a volume.
    pub root: VolumeStatus,
    /// After how many seconds without a word of it a node's replicas get other places by themselves; never, if null.
    pub replace_after_s: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    pub id: u32,
    pub name: String,
    pub state: NodeState,
    /// Where clients connect, as `host:port`.
    pub client: String,
    pub admin: String,
    /// What the node tells of itself; absent of a node that did not answer in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<NodeOwnStatus>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    Live,
    #[default]
    Suspected,
    /// Likewise, and for so long that what it has gets other places.
    Absent,
}

impl NodeState {
    pub fn word(self) -> &'static str {
        match self {
            NodeState::Live => "live",
            NodeState::Suspected => "suspected",
            NodeState::Absent => "absent",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeOwnStatus {
    pub version: String,
    pub pid: u32,
    /// How often it was started, this time included.
    pub starts: u32,
    /// Why it takes no commands or makes no promises yet, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<String>,
    pub uptime_s: u64,
    pub clients: u64,
    /// What its replicas have said to those of other nodes, since the node's start.
    pub messages_sent: u64,
    pub log: LogStatus,
    pub own_groups: OwnGroupsStatus,
    /// What is wrong with the node, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
}

/// Where a node's replicas of groups with one object are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnGroupsStatus {
    /// With something in hand, or used a moment ago.
    pub active: u64,
    /// With nothing in hand, in memory.
    pub idle: u64,
    /// What those at rest among them take in memory.
    pub idle_bytes: u64,
    /// In the checkpoint store only.
    pub paused: u64,
    /// How often one was woken, since the node's start.
    pub wakeups: u64,
}

/// The logs of a node, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogStatus {
    pub segments: u64,
    pub bytes: u64,
    /// The part of `bytes` that recovery would still need, within a quarter.
    pub live_bytes: u64,
    /// Groups that need something of it.
    pub groups: u64,
    /// What knowing where that is takes in memory.
    pub index_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceStatus {
    pub id: u32,
    pub protocol: String,
    pub replicas: u32,
    pub volumes: u32,
    pub durability: String,
    pub reads: String,
    pub groups: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    pub namespace: u32,
    pub index: u32,
    pub group: u64,
    pub epoch: u32,
    pub members: Vec<MemberStatus>,
    /// The node that coordinates it, as far as the node that answered knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<u32>,
    /// The first slot not yet decided at the coordinator.
    pub next_slot: u64,
    /// Nodes that are to have a replica and do not take part yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joining: Vec<u32>,
    /// Members in whose place others come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<u32>,
    /// Of registers, which members are a quorum.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub quorum: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberStatus {
    pub node: u32,
    /// How many decided slots it has not executed; absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// Why it neither votes nor serves, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<String>,
}

/// What one node tells another of itself, for a status of the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub node: u32,
    pub own: NodeOwnStatus,
    pub groups: Vec<GroupReport>,
    /// Of the volumes that it coordinates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_groups_on: Vec<OwnGroupsOn>,
}

/// How many own groups name a node as their member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnGroupsOn {
    pub node: u32,
    pub groups: u64,
    /// Those of them that are to leave it and do not, as far as that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    pub groups: u64,
    pub why: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupReport {
    pub group: u64,
    pub next_slot: u64,
    pub coordinating: bool,
    /// Absent of a replica that votes and serves; else why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<String>,
}
