//! What nodes say to each other, and keep, of register groups whose members decide their configurations.

use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{Stage, are_sound};
use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Epoch, GroupId, NodeId};
use serde::{Deserialize, Serialize};

use crate::quorum::Stages;
use crate::record::is_ahead;
use crate::root::Durability;

/// What a node knows of such a group: all that a replica is born with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub group: u64,
    pub namespace: u32,
    pub durability: Durability,
    pub hash_key: [u8; 16],
    /// None from a node that has only heard of the group, and asks.
    pub stages: Stages,
}

impl Told {
    /// From who has only heard of it.
    pub(crate) fn question(group: GroupId) -> Told {
        let (durability, stages) = (Durability::Sync, Stages::default());
        Told { group: group.0, namespace: 0, durability, hash_key: [0; 16], stages }
    }

    pub(crate) fn group(&self) -> GroupId {
        GroupId(self.group)
    }

    pub(crate) fn stages(&self) -> &[Stage] {
        &self.stages.0
    }

    pub(crate) fn newest(&self) -> Option<&Stage> {
        self.stages.0.last()
    }

    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.stages().iter().any(|stage| stage.configuration.contains(node))
    }

    pub(crate) fn is_ahead_of(&self, other: &Told) -> bool {
        is_ahead(self.stages(), other.stages())
    }

    pub(crate) fn is_question(&self) -> bool {
        self.stages.0.is_empty()
    }

    /// Whether a correct node could have said it.
    pub(crate) fn is_sound(&self) -> bool {
        are_sound(self.stages()) && self.stages().iter().all(|stage| stage.configuration.group == self.group())
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.to_le_bytes());
        out.extend_from_slice(&self.namespace.to_le_bytes());
        out.push(self.durability.code());
        out.extend_from_slice(&self.hash_key);
        self.stages.0.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Told, Malformed> {
        let (group, namespace) = (reader.u64()?, reader.u32()?);
        let durability = Durability::of_code(reader.u8()?)?;
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(reader.bytes(16)?);
        Ok(Told { group, namespace, durability, hash_key, stages: Stages(Vec::decode(reader)?) })
    }
}

/// Another configuration, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Members {
        members: Vec<NodeId>,
        quorum: QuorumSystem,
    },
    /// Of the members that there are.
    Quorum(QuorumSystem),
    /// The same once more, right after this epoch: what began before is to end. With a fence, all members have drained up to it.
    Renewal {
        epoch: Epoch,
        fence: Epoch,
    },
}

impl Wanted {
    /// Whether this is it.
    pub(crate) fn is(&self, stage: &Stage) -> bool {
        let configuration = &stage.configuration;
        match self {
            Wanted::Members { members, quorum } => {
                configuration.members[..] == members[..] && configuration.quorum == *quorum
            }
            Wanted::Quorum(quorum) => configuration.quorum == *quorum,
            Wanted::Renewal { epoch, fence } => configuration.epoch > *epoch && stage.fence >= *fence,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Wanted::Members { members, quorum } => {
                out.extend([0, members.len() as u8]);
                members.iter().for_each(|node| node.encode(out));
                quorum.encode(out);
            }
            Wanted::Quorum(quorum) => {
                out.push(1);
                quorum.encode(out);
            }
            Wanted::Renewal { epoch, fence } => {
                out.push(2);
                epoch.encode(out);
                fence.encode(out);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Wanted, Malformed> {
        Ok(match reader.u8()? {
            0 => {
                let count = reader.u8()?;
                let members = (0..count).map(|_| NodeId::decode(reader)).collect::<Result<_, _>>()?;
                Wanted::Members { members, quorum: QuorumSystem::decode(reader)? }
            }
            1 => Wanted::Quorum(QuorumSystem::decode(reader)?),
            2 => Wanted::Renewal { epoch: Epoch::decode(reader)?, fence: Epoch::decode(reader)? },
            tag => return Err(Malformed::UnknownTag { of: "wanted configuration", tag }),
        })
    }
}

/// What has become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconfigured {
    /// The members have decided it.
    Decided,
    /// Not asked for: the node is no member. It has told who is, if it knows.
    Elsewhere,
    /// It may have been decided, or may still be.
    Unknown,
    /// Not decided.
    Refused(String),
}

impl Reconfigured {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Reconfigured::Decided => out.push(0),
            Reconfigured::Elsewhere => out.push(1),
            Reconfigured::Unknown => out.push(2),
            Reconfigured::Refused(line) => {
                out.push(3);
                out.extend_from_slice(line.as_bytes());
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Reconfigured, Malformed> {
        Ok(match reader.u8()? {
            0 => Reconfigured::Decided,
            1 => Reconfigured::Elsewhere,
            2 => Reconfigured::Unknown,
            3 => Reconfigured::Refused(String::from_utf8_lossy(reader.bytes(reader.remaining())?).into_owned()),
            tag => return Err(Malformed::UnknownTag { of: "outcome of a reconfiguration", tag }),
        })
    }
}
