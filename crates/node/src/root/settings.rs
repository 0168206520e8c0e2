//! What can be said of a namespace.

use quorate_object::Outcome;
use quorate_protocol::wire::Malformed;
use serde::{Deserialize, Serialize};

use super::{REGISTER_REPLICAS_MAX, REPLICAS_MAX, error};
use crate::quorum::Quorum;
use crate::replica::Protocol;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub replicas: u8,
    pub volumes: u32,
    pub durability: Durability,
    pub reads: Reads,
    pub groups: Groups,
    pub protocol: Protocol,
    /// Of registers.
    pub quorum: Quorum,
    /// Of registers: no configuration survives fewer crashes.
    pub tolerance: u8,
    /// Of registers.
    pub authority: Authority,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            replicas: 3,
            volumes: 64,
            durability: Durability::Sync,
            reads: Reads::Lease,
            groups: Groups::Volumes,
            protocol: Protocol::Paxos,
            quorum: Quorum::Majority,
            tolerance: 0,
            authority: Authority::Parent,
        }
    }
}

/// What has happened to a write when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// On the disks of a write quorum.
    Sync,
    /// In the memory of a write quorum, synced every [`INTERVAL_US`].
    Interval,
    /// In the memory of a write quorum.
    Memory,
}

/// How often `interval` groups are synced.
pub const INTERVAL_US: u64 = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    Lease,
    Quorum,
    /// Sequentially consistent: any member answers from what it has.
    Local,
    /// Of a chain: any member answers for an object without updates in flight, and otherwise asks the tail.
    Apportioned,
    /// Of paxos: any member that is known to be consistent answers, as [`quorate_protocol::router`] tells. For ever: how leases
    /// end depends on it.
    Routed,
}

/// What groups a namespace's objects are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Groups {
    /// Those of the volumes, but for objects that are given a group of their own.
    Volumes,
    /// Every object is given a group of its own when it is first written.
    Own,
}

/// Who decides the configurations of a namespace's groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authority {
    /// The root.
    Parent,
    /// The members of the one register group that the namespace is. The root's record is of those that it was made with, or of
    /// later ones that it was told of.
    Members,
}

impl Authority {
    pub const ALL: [Authority; 2] = [Authority::Parent, Authority::Members];

    pub const fn word(self) -> &'static str {
        match self {
            Authority::Parent => "parent",
            Authority::Members => "members",
        }
    }

    pub fn parse(word: &str) -> Option<Authority> {
        Authority::ALL.into_iter().find(|authority| authority.word().eq_ignore_ascii_case(word))
    }

    pub fn is_members(self) -> bool {
        self == Authority::Members
    }
}

impl Groups {
    pub fn word(self) -> &'static str {
        match self {
            Groups::Volumes => "volumes",
            Groups::Own => "own",
        }
    }

    pub fn parse(word: &str) -> Option<Groups> {
        [Groups::Volumes, Groups::Own].into_iter().find(|groups| groups.word().eq_ignore_ascii_case(word))
    }
}

impl Durability {
    pub fn word(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Interval => "interval",
            Durability::Memory => "memory",
        }
    }

    /// As records on disk name it.
    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn of_code(code: u8) -> Result<Durability, Malformed> {
        let all = [Durability::Sync, Durability::Interval, Durability::Memory];
        all.get(code as usize).copied().ok_or(Malformed::UnknownTag { of: "durability", tag: code })
    }

    pub fn parse(word: &str) -> Option<Durability> {
        [Durability::Sync, Durability::Interval, Durability::Memory]
            .into_iter()
            .find(|durability| durability.word().eq_ignore_ascii_case(word))
    }
}

impl Reads {
    pub const ALL: [Reads; 5] = [Reads::Lease, Reads::Quorum, Reads::Local, Reads::Apportioned, Reads::Routed];

    pub fn word(self) -> &'static str {
        match self {
            Reads::Lease => "lease",
            Reads::Quorum => "quorum",
            Reads::Local => "local",
            Reads::Apportioned => "apportioned",
            Reads::Routed => "routed",
        }
    }

    pub fn parse(word: &str) -> Option<Reads> {
        Reads::ALL.into_iter().find(|reads| reads.word().eq_ignore_ascii_case(word))
    }
}

/// How many nodes can hold a volume.
pub fn replicas_max(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Paxos | Protocol::Chain => REPLICAS_MAX,
        Protocol::Register => REGISTER_REPLICAS_MAX,
    }
}

/// Of a namespace of registers for which it is said, and not the default.
pub(crate) const NO_LEASE: &str =
    "ERR READS lease is not for PROTOCOL register: nobody has a lease on a register. Say READS quorum";

pub(super) const ROUTED_FOR_EVER: &str = "READS routed is chosen when a namespace is made, and stays: make another one";

pub(super) fn refused_reads(protocol: Protocol, reads: Reads) -> Option<Outcome> {
    if reads == Reads::Routed && protocol != Protocol::Paxos {
        return Some(error(
            "READS routed goes with PROTOCOL paxos: any member of a chain is read with READS apportioned",
        ));
    }
    if protocol.is_register() && reads == Reads::Local {
        return Some(error("READS local is not for PROTOCOL register: no member knows what it has not been told"));
    }
    // With paxos it concerns the objects whose own groups are chains.
    let is_refused = reads == Reads::Apportioned && protocol.is_register();
    is_refused.then(|| error("READS apportioned is for chains: of registers, any member reads with the help of others"))
}
