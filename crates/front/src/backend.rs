//! What the front asks of the rest of the server, and what it is answered.

use quorate_object::{Command, Outcome};

use crate::connection::ConnectionId;

/// Numbers the operations of one front from 1 since its start; it is the number in a command's ticket too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Carries out operations. All calls return at once; the answers come by [`Front::completed`](crate::Front::completed),
/// one for each operation, in any order.
pub trait Backend {
    /// Whether it can take more operations at the moment. While it cannot, requests stay in their connection's input.
    fn has_room(&self) -> bool;

    /// Begins an operation.
    fn submit(&mut self, request: Request<'_>);

    /// Whether this is the password, if that is known at once. `None` if it takes a while: the verdict then comes by
    /// [`Front::verified`](crate::Front::verified), and until then the connection takes nothing more.
    fn verify(&mut self, connection: ConnectionId, address: &str, password: &[u8]) -> Option<Verdict>;

    /// Whether `SELECT` may enter this namespace. While nobody has told this node which exist, that is the first alone.
    fn namespace_exists(&self, namespace: u32) -> bool;

    /// The namespaces that `FLUSHALL` empties.
    fn namespaces(&self) -> Vec<u32>;

    /// The number of the application of this name that this node has.
    fn application(&self, name: &[u8]) -> Option<usize>;

    /// How many volumes must be asked for what concerns all objects of a namespace.
    /// `None` while nobody has told this node; 0 if there is no such namespace.
    fn volumes(&self, namespace: u32) -> Option<u32>;

    /// What `INFO` prints.
    fn server_info(&mut self) -> ServerInfo;

    /// What `CONFIG GET` prints: parameters by Redis's lower-case names (`save`, `appendonly`, `maxmemory`, `databases`,
    /// `timeout`, `proto-max-bulk-len`, `port`, `bind`, ...) and their values, in the order to be printed.
    fn config(&self) -> Vec<(&'static str, String)>;

    /// Whether a parameter that [`Backend::config`] lists can be given this value; if not why, as Redis words it.
    fn check_config(&self, _name: &str, _value: &[u8]) -> Result<(), String> {
        Err(IMMUTABLE.to_owned())
    }

    /// Gives a parameter a value that was checked.
    fn set_config(&mut self, _name: &str, _value: &[u8]) {}
}

/// Why most parameters cannot be set.
pub const IMMUTABLE: &str = "can't set immutable config";

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    pub operation: OperationId,
    /// The same connection's latest operation on the same object that is still unanswered: this one must come after it.
    pub predecessor: Option<OperationId>,
    pub namespace: u32,
    pub target: Target<'a>,
}

/// What an operation is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Target<'a> {
    /// A command on one object, in the slot that Redis Cluster would give its key.
    Object { slot: u16, key: &'a [u8], command: Command<'a> },
    /// One volume's part of a command on all objects of a namespace.
    Volume { index: u32, command: Command<'a> },
    /// `QUORATE ...`, all words including the first.
    Admin { words: Vec<Vec<u8>> },
}

/// What a node says that does not know the cluster yet: in Redis's words, which clients know.
pub(crate) const LOADING: &str = "LOADING Redis is loading the dataset in memory";

/// How an operation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Outcome(Outcome),
    Tree(ReplyTree),
    Failed(Failure),
}

/// What became of a client's password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Right,
    Wrong,
    /// Nobody has looked at it, for the reason in this error line.
    Refused(String),
}

/// Why there is no outcome. Each text tells the client whether the command was executed and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Too few replicas can be reached. Not executed.
    NoQuorum,
    /// No answer in time. It may have been executed, or may yet be.
    Timeout,
    /// The object's group is just being changed. Not executed.
    TryAgain,
    /// The node is starting. Not executed.
    Loading,
    /// The node's memory limit is reached. Not executed.
    OutOfMemory,
    /// The node's disk is full. Not executed.
    NoSpace,
    /// An error line of its own, with its code first.
    Other(String),
}

impl Failure {
    /// By which failures are counted.
    pub const CODES: [&'static str; 7] = ["NOQUORUM", "TIMEOUT", "TRYAGAIN", "LOADING", "OOM", "MISCONF", "other"];
    pub const COUNT: usize = Failure::CODES.len();

    /// Its place among the [codes](Failure::CODES).
    #[must_use]
    pub fn index(&self) -> usize {
        let code = self.text().split(' ').next().unwrap_or_default();
        Failure::CODES.iter().position(|known| *known == code).unwrap_or(Failure::COUNT - 1)
    }

    /// The error line without the leading dash.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Failure::NoQuorum => "NOQUORUM not executed: too few replicas of this object can be reached, try again",
            Failure::Timeout => {
                "TIMEOUT outcome unknown: no answer in time, the command may still take effect, read before you repeat it"
            }
            Failure::TryAgain => "TRYAGAIN not executed: the replicas of this object are being changed, try again",
            Failure::Loading => LOADING,
            Failure::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Failure::NoSpace => "MISCONF not executed: no space left on the disk, reads still work",
            Failure::Other(text) => text,
        }
    }
}

/// An answer that is not an object's outcome, as of an administrative command: a small tree that prints well in both versions of the
/// protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyTree {
    /// A status such as `OK`.
    Simple(String),
    /// An error line of its own, with its code first.
    Error(String),
    Integer(i64),
    Double(f64),
    Boolean(bool),
    Text(String),
    Bytes(Vec<u8>),
    Null,
    Array(Vec<ReplyTree>),
    /// In order; a flat array in version 2.
    Map(Vec<(String, ReplyTree)>),
}

impl ReplyTree {
    #[must_use]
    pub fn ok() -> ReplyTree {
        ReplyTree::Simple("OK".to_string())
    }
}

/// What `INFO` and `HELLO` tell of this server; the front adds what it knows of its clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    /// Our own version; the version of Redis whose commands we speak is [`REDIS_VERSION`](crate::REDIS_VERSION).
    pub quorate_version: String,
    pub node_name: String,
    pub node_id: u64,
    /// Random for each start of the process, in hexadecimal.
    pub run_id: String,
    pub process_id: u32,
    pub port: u16,
    pub uptime_s: u64,
    /// Connections that the server accepts at most.
    pub clients_max: u64,
    pub memory_used_bytes: u64,
    pub memory_resident_bytes: u64,
    pub memory_peak_bytes: u64,
    /// 0 for no limit.
    pub memory_max_bytes: u64,
    /// Connections refused for being too many.
    pub clients_rejected: u64,
    /// Clients disconnected because all together had too much waiting.
    pub clients_evicted: u64,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    /// Objects in each namespace of which this node knows all.
    pub objects: Vec<ObjectCount>,
    /// Whether the node is still starting.
    pub loading: bool,
    /// Sections of our own, behind those of Redis.
    pub sections: Vec<InfoSection>,
}

/// How many objects a namespace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCount {
    pub namespace: u32,
    pub objects: u64,
    /// Those that expire some time.
    pub expiring: u64,
}

/// A section of `INFO`: what stands behind `# `, and its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfoSection {
    pub title: String,
    pub fields: Vec<(String, String)>,
}
