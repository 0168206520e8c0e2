//! A node's configuration file.
//!
//! Loading answers with a configuration that is consistent in itself, or with one line that says what to change.
//! Keys nobody knows are refused: a mistyped key must not silently mean its default. `node.example.toml` holds every
//! key with its explanation; it is what unknown keys are compared with and what people start from.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use quorate_front::SlowLogSettings;
use quorate_node::quorum::Quorum;
use quorate_node::replica::Protocol;
use quorate_node::root::{
    Durability, NodeRecord, Reads, Settings, VOLUMES_MAX, check_name, check_quorum, replicas_max,
};
use quorate_protocol::id::NodeId;
use quorate_protocol::peers;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toml::de::DeTable;

use crate::directory::DIRECTORIES_MAX;
use crate::log;
use unknown::Unknown;

mod applications;
mod auth;
mod bytes;
mod groups;
mod storage;
mod tls;
mod unknown;

pub use applications::{Application, ApplicationAddress};
pub use auth::Auth;
pub use bytes::Bytes;
pub use groups::OwnGroups;
pub use quorate_node::root::{NAME_LENGTH_MAX, NODES_MAX};
pub use storage::Storage;
pub use tls::Tls;

/// The fewest characters of a cluster's secret.
pub const SECRET_LENGTH_MIN: usize = 16;
/// The least limit on memory: with less a node could not even take a deletion.
pub const MAXMEMORY_MIN: u64 = 32 << 20;
const REPLICAS_DEFAULT: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub node: Node,
    pub listen: Listen,
    pub cluster: Cluster,
    #[serde(default)]
    pub auth: Auth,
    #[serde(default)]
    pub tls: Tls,
    #[serde(default)]
    pub defaults: Defaults,
    #[serde(default)]
    pub timing: Timing,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub storage: Storage,
    #[serde(default)]
    pub groups: OwnGroups,
    #[serde(default)]
    pub log: Log,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<Application>,
}

/// Who this node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// From 1, one for each node of the cluster.
    pub id: u32,
    pub name: String,
    /// Where its state lives. Relative to the file; once loaded, relative to the working directory or absolute.
    #[serde(default = "here")]
    pub data_dir: PathBuf,
    /// The how manieth data directory of this node it is. One more than before says that what was there is lost for good, and a
    /// new directory takes its place.
    #[serde(default = "first")]
    pub directory: u32,
    /// The cluster is there already, and this node was added to it.
    #[serde(default)]
    pub joins: bool,
    /// Never wait for the disk, whatever the durability.
    #[serde(default)]
    pub ephemeral: bool,
}

fn first() -> u32 {
    1
}

/// Where this node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Redis clients.
    #[serde(deserialize_with = "address_to_listen_on")]
    pub client: SocketAddr,
    /// The other nodes.
    #[serde(deserialize_with = "address_to_listen_on")]
    pub peer: SocketAddr,
    /// HTTP.
    #[serde(deserialize_with = "address_to_listen_on")]
    pub admin: SocketAddr,
}

/// What all nodes of the cluster agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub id: ClusterId,
    pub secret: Secret,
    /// The nodes that make the cluster, or of one that joins it those by which it finds the others; this one included.
    pub nodes: Vec<Member>,
}

/// A node as the others and the clients reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    pub id: u32,
    pub name: String,
    pub client: Address,
    pub peer: Address,
    pub admin: Address,
}

/// What a new namespace gets where its creator says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    pub durability: Durability,
    /// How many nodes hold each volume. None is three, or all nodes where there are fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u8>,
    pub volumes: u32,
    /// None is what the protocol has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// How the replicas of each volume agree.
    pub protocol: Protocol,
    /// Of registers.
    pub quorum: Quorum,
    /// Of registers: crashes that every configuration must survive.
    pub tolerance: u8,
}

/// Milliseconds; what they mean and how they must fit together is [`peers::Timing`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    pub heartbeat_ms: u64,
    pub suspicion_ms: u64,
    pub lease_held_ms: u64,
    pub lease_given_ms: u64,
    /// A client's command unanswered for this long gets `-TIMEOUT`.
    pub timeout_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Client connections at once.
    pub clients: usize,
    /// What one client may have sent and not yet been served.
    pub query_buffer_bytes: usize,
    /// What one client may leave unread before it is disconnected.
    pub output_buffer_bytes: usize,
    /// Both, of all clients together.
    pub client_buffers_bytes: usize,
    /// How long a client may take for one request, from its first byte to its last.
    pub request_s: u64,
    /// A client that says nothing for so long is disconnected. 0 for never.
    pub idle_s: u64,
    /// With more memory in use, writes that could take more are refused. 0 for no limit.
    pub maxmemory: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// A level, or directives as in `info,quorate_server=debug`.
    pub level: String,
    pub format: LogFormat,
    /// A client's command that took so long is kept for `SLOWLOG`; -1 for none.
    pub slow_command_us: i64,
    /// How many are kept.
    pub slow_commands_max: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Why a configuration cannot be used. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}, line {line}: {message}", path.display())]
    Malformed { path: PathBuf, line: usize, message: String },
    #[error("{}, line {line}: unknown key {key}; {}", path.display(), key_note(.nearest))]
    UnknownKey { path: PathBuf, line: usize, key: String, nearest: Option<String> },
    #[error("{}: {message}", path.display())]
    Inconsistent { path: PathBuf, message: String },
}

fn key_note(nearest: &Option<String>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "`quorate node --example-config` prints every key there is".to_owned(),
    }
}

impl Config {
    /// Every key, explained.
    pub const EXAMPLE: &'static str = include_str!("../node.example.toml");

    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let mut config = Config::parse(&text, path)?;
        if let Some(directory) = path.parent() {
            // By its components, so that messages do not say `node-1/.`.
            config.node.data_dir = directory.join(&config.node.data_dir).components().collect();
            config.tls.set_directory(directory);
        }
        Ok(config)
    }

    /// `path` is for messages only.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let line_at = |start: usize| text.bytes().take(start).filter(|&byte| byte == b'\n').count() + 1;
        let malformed = |error: toml::de::Error| {
            let line = line_at(error.span().map_or(0, |span| span.start));
            let message = error.message().trim().replace('\n', " ");
            ConfigError::Malformed { path: path.to_owned(), line, message }
        };
        let table = DeTable::parse(text).map_err(malformed)?;
        if let Some(Unknown { key, start, nearest }) = unknown::find(table.get_ref()) {
            return Err(ConfigError::UnknownKey { path: path.to_owned(), line: line_at(start), key, nearest });
        }
        let config: Config = toml::from_str(text).map_err(malformed)?;
        config.check().map_err(|message| ConfigError::Inconsistent { path: path.to_owned(), message })?;
        Ok(config)
    }

    /// The configuration as a file's text, without explanations.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration is tables of strings, numbers and lists of tables")
    }

    pub fn node_id(&self) -> NodeId {
        NodeId(self.node.id)
    }

    /// What a namespace gets that says nothing else, where there are nodes enough.
    pub fn settings(&self) -> Settings {
        let Defaults { durability, replicas, volumes, reads, protocol, quorum, tolerance } = self.defaults;
        let replicas = replicas.unwrap_or(REPLICAS_DEFAULT);
        let reads = reads.unwrap_or(Settings::default().reads);
        Settings { replicas, volumes, durability, reads, protocol, quorum, tolerance, ..Settings::default() }
    }

    /// The cluster's nodes as the root records them.
    pub fn node_records(&self) -> Vec<NodeRecord> {
        let record = |member: &Member| NodeRecord {
            id: member.id,
            name: member.name.clone(),
            peer: member.peer.to_string(),
            client: member.client.to_string(),
            admin: member.admin.to_string(),
        };
        self.cluster.nodes.iter().map(record).collect()
    }

    fn replicas_max(&self) -> u8 {
        let most = replicas_max(self.defaults.protocol);
        if self.node.joins {
            // There may be more nodes than it lists.
            return most;
        }
        u8::try_from(self.cluster.nodes.len()).map_or(most, |nodes| nodes.min(most))
    }

    /// Whether it is consistent in itself, which everything that was loaded is; if not, what to change.
    pub fn check(&self) -> Result<(), String> {
        self.check_nodes()?;
        self.check_listen()?;
        if self.cluster.secret.expose().chars().count() < SECRET_LENGTH_MIN {
            return Err(format!("cluster.secret must have at least {SECRET_LENGTH_MIN} characters"));
        }
        self.tls.check(&self.cluster.nodes)?;
        self.check_defaults()?;
        self.timing.check()?;
        self.limits.check()?;
        self.storage.check()?;
        self.groups.check()?;
        Application::check_all(&self.applications)?;
        self.log.check()
    }

    fn check_nodes(&self) -> Result<(), String> {
        if !(1..=DIRECTORIES_MAX).contains(&self.node.directory) {
            let found = self.node.directory;
            return Err(format!("node.directory is {found}; the first one is 1, and there can be {DIRECTORIES_MAX}"));
        }
        if self.node.directory > 1 && self.cluster.nodes.len() == 1 {
            return Err(
                "node.directory is above 1, and no other node has what was in the one before: leave it out".into()
            );
        }
        let nodes = &self.cluster.nodes;
        if nodes.is_empty() || nodes.len() > NODES_MAX {
            return Err(format!("cluster.nodes lists {} nodes; list 1 to {NODES_MAX}", nodes.len()));
        }
        if self.node.joins && nodes.len() == 1 {
            return Err(
                "node.joins is true, and cluster.nodes lists no other node; list those of the cluster".to_owned()
            );
        }
        for (index, node) in nodes.iter().enumerate() {
            if node.id == 0 {
                return Err(format!("cluster.nodes gives {} the id 0; ids begin at 1", node.name));
            }
            check_name(&node.name)?;
            for other in &nodes[..index] {
                if let Some(what) = node.shared_with(other) {
                    let both = match node.name == other.name {
                        true if node.id != other.id => format!("{} and {}", other.id, node.id),
                        _ => format!("{} and {}", other.name, node.name),
                    };
                    return Err(format!("cluster.nodes gives {what} to two nodes, {both}; each needs its own"));
                }
            }
        }
        let Some(own) = nodes.iter().find(|node| node.id == self.node.id) else {
            return Err(format!("cluster.nodes does not list this node (id {}); add it", self.node.id));
        };
        if own.name != self.node.name {
            return Err(format!(
                "node.name is {:?} but cluster.nodes calls node {} {:?}; use one name",
                self.node.name, self.node.id, own.name
            ));
        }
        Ok(())
    }

    fn check_listen(&self) -> Result<(), String> {
        let all = [("client", self.listen.client), ("peer", self.listen.peer), ("admin", self.listen.admin)];
        for (index, (name, address)) in all.iter().enumerate() {
            if address.port() == 0 {
                return Err(format!("listen.{name} has port 0; name a port"));
            }
            if let Some((other, _)) = all[..index].iter().find(|(_, other)| other == address) {
                return Err(format!("listen.{other} and listen.{name} are both {address}; use two ports"));
            }
        }
        Ok(())
    }

    fn check_defaults(&self) -> Result<(), String> {
        let replicas_max = self.replicas_max();
        if let Some(replicas) = self.defaults.replicas
            && !(1..=replicas_max).contains(&replicas)
        {
            let nodes = self.cluster.nodes.len();
            return Err(format!(
                "defaults.replicas is {replicas}; with {nodes} nodes in cluster.nodes it can be 1 to {replicas_max}"
            ));
        }
        let settings = self.settings();
        let replicas = settings.replicas.min(replicas_max);
        if let Err(refusal) = check_quorum(&Settings { replicas, ..settings }) {
            return Err(format!("defaults: {}", refusal.trim_start_matches("ERR ")));
        }
        let volumes = self.defaults.volumes;
        if !(1..=VOLUMES_MAX).contains(&volumes) {
            return Err(format!("defaults.volumes is {volumes}; it can be 1 to {VOLUMES_MAX}"));
        }
        if let Some(reads) = self.defaults.reads.filter(|reads| *reads != Reads::Quorum)
            && self.defaults.protocol.is_register()
        {
            return Err(format!(
                "defaults.reads is {:?}, which is not for registers, and defaults.protocol is \"register\": leave it out, \
                 or say \"quorum\"",
                reads.word()
            ));
        }
        if self.defaults.reads == Some(Reads::Routed) && self.defaults.protocol != Protocol::Paxos {
            let protocol = self.defaults.protocol.word();
            return Err(format!(
                "defaults.reads is \"routed\", which goes with \"paxos\", and defaults.protocol is {protocol:?}: of chains, any member \
                 is read with \"apportioned\""
            ));
        }
        Ok(())
    }
}

impl Member {
    /// What the two nodes have in common and must not, if anything.
    fn shared_with(&self, other: &Member) -> Option<String> {
        let addresses = [&self.client, &self.peer, &self.admin];
        if self.id == other.id {
            Some(format!("id {}", self.id))
        } else if self.name == other.name {
            Some(format!("the name {:?}", self.name))
        } else {
            let shared =
                [&other.client, &other.peer, &other.admin].into_iter().find(|address| addresses.contains(address));
            shared.map(|address| format!("the address {address}"))
        }
    }
}

impl Timing {
    pub fn peers(&self) -> peers::Timing {
        peers::Timing {
            heartbeat_us: self.heartbeat_ms.saturating_mul(1000),
            suspicion_us: self.suspicion_ms.saturating_mul(1000),
            lease_held_us: self.lease_held_ms.saturating_mul(1000),
            lease_given_us: self.lease_given_ms.saturating_mul(1000),
        }
    }

    fn check(&self) -> Result<(), String> {
        /// An hour: longer than anybody waits, and far from any overflow.
        const DURATION_MS_MAX: u64 = 3_600_000;
        let all = [
            ("heartbeat_ms", self.heartbeat_ms),
            ("suspicion_ms", self.suspicion_ms),
            ("lease_held_ms", self.lease_held_ms),
            ("lease_given_ms", self.lease_given_ms),
            ("timeout_ms", self.timeout_ms),
        ];
        if let Some((name, value)) = all.iter().find(|(_, value)| !(1..=DURATION_MS_MAX).contains(value)) {
            return Err(format!("timing.{name} is {value}; it can be 1 to {DURATION_MS_MAX}"));
        }
        if !self.peers().is_consistent() {
            return Err(format!(
                "timing does not fit together: heartbeat_ms ({}) * 2 < lease_held_ms ({}) < lease_given_ms ({}, with 0.2% \
                 for clocks) <= suspicion_ms ({}) must hold",
                self.heartbeat_ms, self.lease_held_ms, self.lease_given_ms, self.suspicion_ms
            ));
        }
        Ok(())
    }
}

impl Limits {
    fn check(&self) -> Result<(), String> {
        /// One object of the largest size, and the command around it.
        const BUFFER_BYTES_MIN: usize = 17 << 20;
        if self.clients == 0 {
            return Err("limits.clients is 0; allow at least one".to_owned());
        }
        let buffers =
            [("query_buffer_bytes", self.query_buffer_bytes), ("output_buffer_bytes", self.output_buffer_bytes)];
        if let Some((name, bytes)) = buffers.iter().find(|(_, bytes)| *bytes < BUFFER_BYTES_MIN) {
            return Err(format!(
                "limits.{name} is {bytes}; it must hold a command with the largest value: at least {BUFFER_BYTES_MIN}"
            ));
        }
        let one = self.query_buffer_bytes.max(self.output_buffer_bytes);
        if self.client_buffers_bytes < one {
            return Err(format!(
                "limits.client_buffers_bytes is {}; it is for all clients, and one alone may have {one}",
                self.client_buffers_bytes
            ));
        }
        if self.request_s == 0 {
            return Err("limits.request_s is 0; give a client at least a second for a request".to_owned());
        }
        let maxmemory = self.maxmemory.0;
        if maxmemory > 0 && maxmemory < MAXMEMORY_MIN {
            return Err(format!("limits.maxmemory is {maxmemory}; a node alone needs more: at least {MAXMEMORY_MIN}"));
        }
        Ok(())
    }
}

impl Log {
    fn check(&self) -> Result<(), String> {
        log::parse(&self.level).map_err(|reason| format!("log.level cannot be used: {reason}"))?;
        /// As `CONFIG SET slowlog-log-slower-than` takes it.
        const SLOW_COMMAND_OFF: i64 = -1;
        if self.slow_command_us < SLOW_COMMAND_OFF {
            return Err(format!(
                "log.slow_command_us is {}; it can be 0 or more, or -1 for none",
                self.slow_command_us
            ));
        }
        let (count, count_max) = (self.slow_commands_max, quorate_front::SLOW_LOG_LENGTH_MAX);
        if count > count_max {
            return Err(format!("log.slow_commands_max is {count}; it can be 0 to {count_max}"));
        }
        Ok(())
    }
}

impl Default for Defaults {
    fn default() -> Self {
        let Settings { volumes, durability, protocol, quorum, tolerance, .. } = Settings::default();
        Defaults { durability, replicas: None, volumes, reads: None, protocol, quorum, tolerance }
    }
}

impl Default for Timing {
    fn default() -> Self {
        let peers::Timing { heartbeat_us, suspicion_us, lease_held_us, lease_given_us } = peers::Timing::default();
        Timing {
            heartbeat_ms: heartbeat_us / 1000,
            suspicion_ms: suspicion_us / 1000,
            lease_held_ms: lease_held_us / 1000,
            lease_given_ms: lease_given_us / 1000,
            timeout_ms: 5000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            clients: 10_000,
            query_buffer_bytes: 32 << 20,
            output_buffer_bytes: 64 << 20,
            client_buffers_bytes: 1 << 30,
            request_s: 120,
            idle_s: 0,
            maxmemory: Bytes(0),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        let SlowLogSettings { slower_than_us, length_max } = SlowLogSettings::default();
        Log {
            level: "info".to_owned(),
            format: LogFormat::Text,
            slow_command_us: slower_than_us,
            slow_commands_max: length_max,
        }
    }
}

fn address_to_listen_on<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        de::Error::custom(format!(
            "an address to listen on is an IP address and a port, as in \"127.0.0.1:7000\", not {text:?}: no names"
        ))
    })
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

/// Which cluster a node and its data belong to. Random, so that no two clusters share one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClusterId(pub u64);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ClusterId {
    type Err = String;

    fn from_str(text: &str) -> Result<ClusterId, String> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(ClusterId).ok_or_else(|| format!("a cluster id is 16 hexadecimal digits, not {text:?}"))
    }
}

/// What the nodes of a cluster know each other by. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// `host:port`; the host may be a name, which is looked up at each connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed = self.host.contains(':');
        if bracketed { write!(f, "[{}]:{}", self.host, self.port) } else { write!(f, "{}:{}", self.host, self.port) }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let refused = || format!("an address is host:port, as in \"10.0.0.1:7000\", not {text:?}");
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let port = port.parse().ok().filter(|&port| port > 0).ok_or_else(refused)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || host.contains(char::is_whitespace) || (bare.is_none() && host.contains(':')) {
            return Err(refused());
        }
        Ok(Address { host: host.to_owned(), port })
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address { host: address.ip().to_string(), port: address.port() }
    }
}

/// Types that are written in the file as they are displayed.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

as_text!(ClusterId, Address);

#[cfg(test)]
mod tests;
