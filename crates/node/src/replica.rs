//! A replica of a group, of whichever protocol the group has. The set is closed: what the host does for all of them stands
//! in the host, and what one of them needs for itself is asked of that one.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_protocol::chain::{self, Chain, Membership, Place};
use quorate_protocol::paxos::{self, Paxos, Role};
use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Configuration, Epoch, Event, Instant, NodeId, Replica, Slot, Stamp, Value};
use serde::{Deserialize, Serialize};

/// How a group's replicas agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Paxos,
    Chain,
}

impl Protocol {
    pub const ALL: [Protocol; 2] = [Protocol::Paxos, Protocol::Chain];

    pub fn word(self) -> &'static str {
        match self {
            Protocol::Paxos => "paxos",
            Protocol::Chain => "chain",
        }
    }

    pub fn is_chain(self) -> bool {
        self == Protocol::Chain
    }

    pub fn parse(word: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.word().eq_ignore_ascii_case(word))
    }
}

/// In boxes where a replica is large and seldom.
pub enum AnyReplica {
    Paxos(Paxos),
    Chain(Box<Chain>),
}

#[derive(Clone, Debug)]
pub enum AnyMessage {
    Paxos(paxos::Message),
    Chain(chain::Message),
}

pub(crate) type AnyEvent = Event<AnyMessage, chain::Request>;

/// A protocol that the host performs effects of.
pub(crate) trait Hosted: Replica<Answer = Infallible, Record: Wire> {
    fn any(message: Self::Message) -> AnyMessage;
    /// The slot that a record fills.
    fn slot_of(record: &Self::Record) -> Option<Slot>;
}

impl Hosted for Paxos {
    fn any(message: paxos::Message) -> AnyMessage {
        AnyMessage::Paxos(message)
    }

    fn slot_of(record: &paxos::Record) -> Option<Slot> {
        record.entry().map(|(slot, _)| slot)
    }
}

impl Hosted for Chain {
    fn any(message: chain::Message) -> AnyMessage {
        AnyMessage::Chain(message)
    }

    fn slot_of(record: &chain::Record) -> Option<Slot> {
        record.entry().map(|(slot, _)| slot)
    }
}

/// What a checkpoint says of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    Paxos(paxos::Position),
    Chain(chain::Position),
}

impl Position {
    pub fn protocol(&self) -> Protocol {
        match self {
            Position::Paxos(_) => Protocol::Paxos,
            Position::Chain(_) => Protocol::Chain,
        }
    }

    pub fn next_slot(&self) -> Slot {
        match self {
            Position::Paxos(position) => position.next_slot,
            Position::Chain(position) => position.next_slot,
        }
    }

    pub(crate) fn next_slot_mut(&mut self) -> &mut Slot {
        match self {
            Position::Paxos(position) => &mut position.next_slot,
            Position::Chain(position) => &mut position.next_slot,
        }
    }

    pub fn stopped(&self) -> bool {
        match self {
            Position::Paxos(position) => position.stopped,
            Position::Chain(position) => position.stopped,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Position::Paxos(position) => position.encode(out),
            Position::Chain(position) => position.encode(out),
        }
    }

    pub(crate) fn decode(protocol: Protocol, reader: &mut Reader<'_>) -> Result<Position, Malformed> {
        Ok(match protocol {
            Protocol::Paxos => Position::Paxos(Wire::decode(reader)?),
            Protocol::Chain => Position::Chain(Wire::decode(reader)?),
        })
    }
}

impl AnyReplica {
    /// A replica of a group that is born with it. `members` of a chain stand from head to tail.
    pub(crate) fn new(protocol: Protocol, configuration: &Arc<Configuration>, me: NodeId) -> AnyReplica {
        match protocol {
            Protocol::Paxos => AnyReplica::Paxos(Paxos::new(configuration.clone(), me)),
            Protocol::Chain => AnyReplica::Chain(Box::new(Chain::new(Arc::new(Membership::of(configuration)), me))),
        }
    }

    /// As [`AnyReplica::new`], with what all members are born with.
    pub(crate) fn born(
        protocol: Protocol,
        configuration: &Arc<Configuration>,
        me: NodeId,
        next_slot: Slot,
        time: Stamp,
    ) -> AnyReplica {
        match protocol {
            Protocol::Paxos => AnyReplica::Paxos(Paxos::born(configuration.clone(), me, next_slot, time)),
            Protocol::Chain => {
                let membership = Arc::new(Membership::of(configuration));
                AnyReplica::Chain(Box::new(Chain::born(membership, me, next_slot, time)))
            }
        }
    }

    pub fn protocol(&self) -> Protocol {
        match self {
            AnyReplica::Paxos(_) => Protocol::Paxos,
            AnyReplica::Chain(_) => Protocol::Chain,
        }
    }

    pub fn paxos(&self) -> Option<&Paxos> {
        match self {
            AnyReplica::Paxos(replica) => Some(replica),
            AnyReplica::Chain(_) => None,
        }
    }

    pub(crate) fn paxos_mut(&mut self) -> Option<&mut Paxos> {
        match self {
            AnyReplica::Paxos(replica) => Some(replica),
            AnyReplica::Chain(_) => None,
        }
    }

    pub fn chain(&self) -> Option<&Chain> {
        match self {
            AnyReplica::Paxos(_) => None,
            AnyReplica::Chain(replica) => Some(replica),
        }
    }

    pub(crate) fn chain_mut(&mut self) -> Option<&mut Chain> {
        match self {
            AnyReplica::Paxos(_) => None,
            AnyReplica::Chain(replica) => Some(replica),
        }
    }

    pub(crate) fn position(&self) -> Position {
        match self {
            AnyReplica::Paxos(replica) => Position::Paxos(replica.position()),
            AnyReplica::Chain(replica) => Position::Chain(replica.position()),
        }
    }

    /// Takes back what a checkpoint or a snapshot says; of another protocol, nothing.
    pub(crate) fn restore(&mut self, position: Position) {
        match (self, position) {
            (AnyReplica::Paxos(replica), Position::Paxos(position)) => {
                replica.restore(paxos::Record::Checkpoint(position));
            }
            (AnyReplica::Chain(replica), Position::Chain(position)) => {
                replica.restore(chain::Record::Checkpoint(position));
            }
            (AnyReplica::Paxos(_) | AnyReplica::Chain(_), _) => debug_assert!(false, "a position of another protocol"),
        }
    }

    /// Reads a record of the log, and takes it back with what is returned.
    pub(crate) fn decode_record(&self, bytes: &[u8]) -> Result<AnyRecord, Malformed> {
        Ok(match self {
            AnyReplica::Paxos(_) => AnyRecord::Paxos(paxos::Record::decode_all(bytes)?),
            AnyReplica::Chain(_) => AnyRecord::Chain(chain::Record::decode_all(bytes)?),
        })
    }

    pub(crate) fn restore_record(&mut self, record: AnyRecord) {
        match (self, record) {
            (AnyReplica::Paxos(replica), AnyRecord::Paxos(record)) => replica.restore(record),
            (AnyReplica::Chain(replica), AnyRecord::Chain(record)) => replica.restore(record),
            (AnyReplica::Paxos(_) | AnyReplica::Chain(_), _) => debug_assert!(false, "a record of another protocol"),
        }
    }

    /// The end of recovery.
    pub(crate) fn restored(&mut self) {
        match self {
            AnyReplica::Paxos(replica) => replica.restored(),
            AnyReplica::Chain(replica) => replica.restored(),
        }
    }

    /// Whether a read may be answered here for an object that no update in flight concerns, without a step.
    pub(crate) fn answers_clean(&self, now: Instant) -> bool {
        self.chain().is_some_and(|chain| chain.answers_clean(now))
    }

    pub fn next_slot(&self) -> Slot {
        match self {
            AnyReplica::Paxos(replica) => replica.next_slot(),
            AnyReplica::Chain(replica) => replica.next_slot(),
        }
    }

    /// Who is believed to order commands: the coordinator, or the head of the chain.
    pub fn coordinator(&self) -> NodeId {
        match self {
            AnyReplica::Paxos(replica) => replica.coordinator(),
            AnyReplica::Chain(replica) => replica.membership().head(),
        }
    }

    /// Whether this replica orders commands.
    pub fn is_coordinating(&self) -> bool {
        match self {
            AnyReplica::Paxos(replica) => replica.is_coordinating(),
            AnyReplica::Chain(replica) => replica.is_head(),
        }
    }

    /// Whether the answers to what this replica decides are its to give.
    pub(crate) fn answers(&self) -> bool {
        match self {
            AnyReplica::Paxos(replica) => replica.is_coordinating(),
            AnyReplica::Chain(replica) => replica.is_tail(),
        }
    }

    pub fn is_stopped(&self) -> bool {
        match self {
            AnyReplica::Paxos(replica) => replica.is_stopped(),
            AnyReplica::Chain(replica) => replica.is_stopped(),
        }
    }

    pub fn is_idle(&self) -> bool {
        match self {
            AnyReplica::Paxos(replica) => replica.is_idle(),
            AnyReplica::Chain(replica) => replica.is_idle(),
        }
    }

    pub fn role(&self) -> Role {
        match self {
            AnyReplica::Paxos(replica) => replica.role(),
            AnyReplica::Chain(replica) if replica.is_head() => Role::Coordinating,
            AnyReplica::Chain(_) => Role::Following,
        }
    }

    /// Whether this replica coordinates and could give that to this member. Places in a chain are the parent's to give.
    pub(crate) fn has_answered(&self, member: NodeId) -> bool {
        self.paxos().is_some_and(|replica| replica.has_answered(member))
    }

    /// Whether this member has said that it is silent here, and nothing since.
    pub(crate) fn is_silent(&self, member: NodeId) -> bool {
        self.paxos().is_some_and(|replica| replica.is_silent(member))
    }

    pub(crate) fn forget_silence(&mut self, member: NodeId) {
        if let AnyReplica::Paxos(replica) = self {
            replica.forget_silence(member);
        }
    }

    /// How far the members are known to have executed, while that is heard of.
    pub fn frontiers(&self) -> Vec<(NodeId, Slot)> {
        self.paxos().map(|replica| replica.status().frontiers).unwrap_or_default()
    }

    /// Slots that are accepted here, and not known as decided.
    pub fn in_flight(&self) -> u64 {
        match self {
            AnyReplica::Paxos(replica) => replica.status().in_flight,
            AnyReplica::Chain(replica) => replica.status().in_flight,
        }
    }

    /// Panics, naming the values, if an invariant is broken.
    pub(crate) fn check(&self) {
        match self {
            AnyReplica::Paxos(replica) => replica.check(),
            AnyReplica::Chain(replica) => replica.check(),
        }
    }

    /// Whether this node is in the group as it is now.
    pub fn is_inside(&self) -> bool {
        self.chain().is_none_or(|chain| chain.status().place != Place::Outside)
    }
}

/// A record of the log, of one of the protocols.
pub(crate) enum AnyRecord {
    Paxos(paxos::Record),
    Chain(chain::Record),
}

impl AnyRecord {
    /// Of a record that must be restored in order: see [`chain::Record::order`].
    pub(crate) fn order(&self) -> Option<(Epoch, u8, Slot)> {
        match self {
            AnyRecord::Paxos(_) => None,
            AnyRecord::Chain(record) => Some(record.order()),
        }
    }

    /// The slot that it fills, and its value.
    pub(crate) fn entry(&self) -> Option<(Slot, &Value)> {
        match self {
            AnyRecord::Paxos(record) => record.entry(),
            AnyRecord::Chain(record) => record.entry(),
        }
    }
}
