//! A replica of a group, of whichever protocol the group has. The set is closed: what the host does for all of them stands
//! in the host, and what one of them needs for itself is asked of that one.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_protocol::chain::{self, Chain, Membership, Place};
use quorate_protocol::paxos::{self, Paxos, Role};
use quorate_protocol::register::{self, Register};
use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Configuration, Effects, Epoch, Event, Instant, NodeId, Replica, Slot, Stamp, Value};
use quorate_wal::Kind;
use serde::{Deserialize, Serialize};

use crate::register::{RegisterPosition, RegisterReplica};

/// How a group's replicas agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Paxos,
    Chain,
    Register,
}

impl Protocol {
    pub const ALL: [Protocol; 3] = [Protocol::Paxos, Protocol::Chain, Protocol::Register];

    pub const fn word(self) -> &'static str {
        match self {
            Protocol::Paxos => "paxos",
            Protocol::Chain => "chain",
            Protocol::Register => "register",
        }
    }

    pub fn is_chain(self) -> bool {
        self == Protocol::Chain
    }

    /// Whether a parent says who is in groups of it, and changes that.
    pub(crate) fn is_led(self) -> bool {
        self != Protocol::Paxos
    }

    pub fn is_register(self) -> bool {
        self == Protocol::Register
    }

    /// Whether commands have an order: then whatever one reads and writes is one step.
    pub fn is_ordered(self) -> bool {
        self != Protocol::Register
    }

    pub fn parse(word: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.word().eq_ignore_ascii_case(word))
    }
}

/// In boxes where a replica is large and seldom.
pub enum AnyReplica {
    Paxos(Paxos),
    Chain(Box<Chain>),
    Register(Box<RegisterReplica>),
}

#[derive(Clone, Debug)]
pub enum AnyMessage {
    Paxos(paxos::Message),
    Chain(chain::Message),
    Register(register::Message),
}

/// A message that is about to be said.
#[derive(Clone, Copy, Debug)]
pub enum AnyMessageRef<'a> {
    Paxos(&'a paxos::Message),
    Chain(&'a chain::Message),
    Register(&'a register::Message),
}

impl AnyMessage {
    pub fn as_ref(&self) -> AnyMessageRef<'_> {
        match self {
            AnyMessage::Paxos(message) => AnyMessageRef::Paxos(message),
            AnyMessage::Chain(message) => AnyMessageRef::Chain(message),
            AnyMessage::Register(message) => AnyMessageRef::Register(message),
        }
    }
}

impl AnyMessageRef<'_> {
    pub(crate) fn to_owned(self) -> AnyMessage {
        match self {
            AnyMessageRef::Paxos(message) => AnyMessage::Paxos(message.clone()),
            AnyMessageRef::Chain(message) => AnyMessage::Chain(message.clone()),
            AnyMessageRef::Register(message) => AnyMessage::Register(message.clone()),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum AnyRequest {
    Chain(chain::Request),
    Register(register::Request),
}

pub(crate) type AnyEvent = Event<AnyMessage, AnyRequest>;

/// What a step has led to, of whichever protocol.
#[derive(Default)]
pub(crate) struct AnyEffects {
    pub paxos: Effects<Paxos>,
    pub chain: Effects<Chain>,
    pub register: Effects<Register>,
}

impl AnyEffects {
    pub fn clear(&mut self) {
        self.paxos.list.clear();
        self.chain.list.clear();
        self.register.list.clear();
    }
}

/// A protocol that the host performs effects of.
pub(crate) trait Hosted: Replica<Record: Wire> {
    fn effects_of(effects: &mut AnyEffects) -> &mut Effects<Self>;
    fn any(message: &Self::Message) -> AnyMessageRef<'_>;
    /// What a record is to the log, of the replica that has just made it.
    fn kind_of(record: &Self::Record, replica: &mut AnyReplica) -> Kind;
    fn answer(answer: Self::Answer) -> register::Answer;
}

fn kind_of_slot(slot: Option<Slot>) -> Kind {
    slot.map_or(Kind::State, |slot| Kind::Slot(slot.0))
}

fn never(answer: Infallible) -> register::Answer {
    match answer {}
}

impl Hosted for Paxos {
    fn effects_of(effects: &mut AnyEffects) -> &mut Effects<Paxos> {
        &mut effects.paxos
    }

    fn any(message: &paxos::Message) -> AnyMessageRef<'_> {
        AnyMessageRef::Paxos(message)
    }

    fn kind_of(record: &paxos::Record, _: &mut AnyReplica) -> Kind {
        kind_of_slot(record.entry().map(|(slot, _)| slot))
    }

    fn answer(answer: Infallible) -> register::Answer {
        never(answer)
    }
}

impl Hosted for Chain {
    fn effects_of(effects: &mut AnyEffects) -> &mut Effects<Chain> {
        &mut effects.chain
    }

    fn any(message: &chain::Message) -> AnyMessageRef<'_> {
        AnyMessageRef::Chain(message)
    }

    fn kind_of(record: &chain::Record, _: &mut AnyReplica) -> Kind {
        kind_of_slot(record.entry().map(|(slot, _)| slot))
    }

    fn answer(answer: Infallible) -> register::Answer {
        never(answer)
    }
}

impl Hosted for Register {
    fn effects_of(effects: &mut AnyEffects) -> &mut Effects<Register> {
        &mut effects.register
    }

    fn any(message: &register::Message) -> AnyMessageRef<'_> {
        AnyMessageRef::Register(message)
    }

    /// Each record is one of its own to the log: none makes up for another before a checkpoint does.
    fn kind_of(record: &register::Record, replica: &mut AnyReplica) -> Kind {
        let AnyReplica::Register(replica) = replica else { unreachable!("a record of another protocol") };
        Kind::Slot(replica.number(record).0)
    }

    fn answer(answer: register::Answer) -> register::Answer {
        answer
    }
}

/// What a checkpoint says of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    Paxos(paxos::Position),
    Chain(chain::Position),
    Register(RegisterPosition),
}

impl Position {
    pub fn protocol(&self) -> Protocol {
        match self {
            Position::Paxos(_) => Protocol::Paxos,
            Position::Chain(_) => Protocol::Chain,
            Position::Register(_) => Protocol::Register,
        }
    }

    pub fn next_slot(&self) -> Slot {
        match self {
            Position::Paxos(position) => position.next_slot,
            Position::Chain(position) => position.next_slot,
            Position::Register(position) => position.next_record,
        }
    }

    pub(crate) fn next_slot_mut(&mut self) -> &mut Slot {
        match self {
            Position::Paxos(position) => &mut position.next_slot,
            Position::Chain(position) => &mut position.next_slot,
            Position::Register(position) => &mut position.next_record,
        }
    }

    /// The largest stamp of what is executed.
    pub(crate) fn time(&self) -> Stamp {
        match self {
            Position::Paxos(position) => position.time,
            Position::Chain(position) => position.time,
            Position::Register(_) => Stamp(0),
        }
    }

    pub fn stopped(&self) -> bool {
        match self {
            Position::Paxos(position) => position.stopped,
            Position::Chain(position) => position.stopped,
            Position::Register(_) => false,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Position::Paxos(position) => position.encode(out),
            Position::Chain(position) => position.encode(out),
            Position::Register(position) => position.encode(out),
        }
    }

    pub(crate) fn decode(protocol: Protocol, reader: &mut Reader<'_>) -> Result<Position, Malformed> {
        Ok(match protocol {
            Protocol::Paxos => Position::Paxos(Wire::decode(reader)?),
            Protocol::Chain => Position::Chain(Wire::decode(reader)?),
            Protocol::Register => Position::Register(RegisterPosition::decode(reader)?),
        })
    }
}

impl AnyReplica {
    /// A replica of a group that is born with it. `members` of a chain stand from head to tail.
    pub(crate) fn new(protocol: Protocol, configuration: &Arc<Configuration>, me: NodeId) -> AnyReplica {
        match protocol {
            Protocol::Paxos => AnyReplica::Paxos(Paxos::new(configuration.clone(), me)),
            Protocol::Chain => AnyReplica::Chain(Box::new(Chain::new(Arc::new(Membership::of(configuration)), me))),
            Protocol::Register => {
                let stage = register::Stage::first(Configuration::clone(configuration));
                AnyReplica::Register(Box::new(RegisterReplica::new(vec![stage], me)))
            }
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
            Protocol::Register => AnyReplica::new(protocol, configuration, me),
        }
    }

    pub fn protocol(&self) -> Protocol {
        match self {
            AnyReplica::Paxos(_) => Protocol::Paxos,
            AnyReplica::Chain(_) => Protocol::Chain,
            AnyReplica::Register(_) => Protocol::Register,
        }
    }

    pub fn paxos(&self) -> Option<&Paxos> {
        match self {
            AnyReplica::Paxos(replica) => Some(replica),
            AnyReplica::Chain(_) | AnyReplica::Register(_) => None,
        }
    }

    pub(crate) fn paxos_mut(&mut self) -> Option<&mut Paxos> {
        match self {
            AnyReplica::Paxos(replica) => Some(replica),
            AnyReplica::Chain(_) | AnyReplica::Register(_) => None,
        }
    }

    pub fn chain(&self) -> Option<&Chain> {
        match self {
            AnyReplica::Chain(replica) => Some(replica),
            AnyReplica::Paxos(_) | AnyReplica::Register(_) => None,
        }
    }

    pub(crate) fn chain_mut(&mut self) -> Option<&mut Chain> {
        match self {
            AnyReplica::Chain(replica) => Some(replica),
            AnyReplica::Paxos(_) | AnyReplica::Register(_) => None,
        }
    }

    pub fn register(&self) -> Option<&RegisterReplica> {
        match self {
            AnyReplica::Register(replica) => Some(replica),
            AnyReplica::Paxos(_) | AnyReplica::Chain(_) => None,
        }
    }

    pub(crate) fn register_mut(&mut self) -> Option<&mut RegisterReplica> {
        match self {
            AnyReplica::Register(replica) => Some(replica),
            AnyReplica::Paxos(_) | AnyReplica::Chain(_) => None,
        }
    }

    pub(crate) fn position(&self) -> Position {
        match self {
            AnyReplica::Paxos(replica) => Position::Paxos(replica.position()),
            AnyReplica::Chain(replica) => Position::Chain(replica.position()),
            AnyReplica::Register(replica) => Position::Register(replica.position()),
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
            (AnyReplica::Register(replica), Position::Register(position)) => replica.restore_position(position),
            (AnyReplica::Paxos(_) | AnyReplica::Chain(_) | AnyReplica::Register(_), _) => {
                debug_assert!(false, "a position of another protocol");
            }
        }
    }

    /// Reads a record of the log, and takes it back with what is returned.
    pub(crate) fn decode_record(&self, bytes: &[u8]) -> Result<AnyRecord, Malformed> {
        Ok(match self {
            AnyReplica::Paxos(_) => AnyRecord::Paxos(paxos::Record::decode_all(bytes)?),
            AnyReplica::Chain(_) => AnyRecord::Chain(chain::Record::decode_all(bytes)?),
            AnyReplica::Register(_) => AnyRecord::Register(register::Record::decode_all(bytes)?),
        })
    }

    /// `number` is that of a register's record in the log.
    pub(crate) fn restore_record(&mut self, record: AnyRecord, number: Slot) {
        match (self, record) {
            (AnyReplica::Paxos(replica), AnyRecord::Paxos(record)) => replica.restore(record),
            (AnyReplica::Chain(replica), AnyRecord::Chain(record)) => replica.restore(record),
            (AnyReplica::Register(replica), AnyRecord::Register(record)) => replica.restore(record, number),
            (AnyReplica::Paxos(_) | AnyReplica::Chain(_) | AnyReplica::Register(_), _) => {
                debug_assert!(false, "a record of another protocol");
            }
        }
    }

    /// The end of recovery.
    pub(crate) fn restored(&mut self) {
        match self {
            AnyReplica::Paxos(replica) => replica.restored(),
            AnyReplica::Chain(replica) => replica.restored(),
            AnyReplica::Register(_) => {}
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
            AnyReplica::Register(replica) => replica.next_record(),
        }
    }

    /// Who is believed to order commands: the coordinator, or the head of the chain. Nobody orders those of a register.
    pub fn coordinator(&self) -> Option<NodeId> {
        match self {
            AnyReplica::Paxos(replica) => Some(replica.coordinator()),
            AnyReplica::Chain(replica) => Some(replica.membership().head()),
            AnyReplica::Register(_) => None,
        }
    }

    /// Whether this replica orders commands.
    pub fn is_coordinating(&self) -> bool {
        match self {
            AnyReplica::Paxos(replica) => replica.is_coordinating(),
            AnyReplica::Chain(replica) => replica.is_head(),
            AnyReplica::Register(_) => false,
        }
    }

    /// Whether the answers to what this replica decides are its to give.
    pub(crate) fn answers(&self) -> bool {
        match self {
            AnyReplica::Paxos(replica) => replica.is_coordinating(),
            AnyReplica::Chain(replica) => replica.is_tail(),
            AnyReplica::Register(_) => true,
        }
    }

    pub fn is_stopped(&self) -> bool {
        match self {
            AnyReplica::Paxos(replica) => replica.is_stopped(),
            AnyReplica::Chain(replica) => replica.is_stopped(),
            AnyReplica::Register(_) => false,
        }
    }

    pub fn is_idle(&self) -> bool {
        match self {
            AnyReplica::Paxos(replica) => replica.is_idle(),
            AnyReplica::Chain(replica) => replica.is_idle(),
            AnyReplica::Register(replica) => replica.core().is_idle(),
        }
    }

    pub fn role(&self) -> Role {
        match self {
            AnyReplica::Paxos(replica) => replica.role(),
            AnyReplica::Chain(replica) if replica.is_head() => Role::Coordinating,
            AnyReplica::Chain(_) | AnyReplica::Register(_) => Role::Following,
        }
    }

    /// Whether it has reason to hear at once that this node is suspected.
    pub(crate) fn depends_on(&self, node: NodeId) -> bool {
        match self {
            AnyReplica::Register(replica) => {
                replica.core().stages().iter().any(|stage| stage.configuration.contains(node))
            }
            AnyReplica::Paxos(_) | AnyReplica::Chain(_) => self.coordinator() == Some(node),
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

    /// How far the members are known to have executed, or been told to execute what they hold; empty where nobody has been heard.
    pub fn frontiers(&self) -> Vec<(NodeId, Slot)> {
        self.paxos().map(|replica| replica.status().frontiers).unwrap_or_default()
    }

    /// Slots that are accepted here, and not known as decided.
    pub fn in_flight(&self) -> u64 {
        match self {
            AnyReplica::Paxos(replica) => replica.status().in_flight,
            AnyReplica::Chain(replica) => replica.status().in_flight,
            AnyReplica::Register(_) => 0,
        }
    }

    pub fn wake_at(&self) -> Option<Instant> {
        match self {
            AnyReplica::Paxos(replica) => replica.wake_at(),
            AnyReplica::Chain(replica) => replica.wake_at(),
            AnyReplica::Register(replica) => replica.core().wake_at(),
        }
    }

    /// Panics, naming the values, if an invariant is broken.
    pub(crate) fn check(&self) {
        match self {
            AnyReplica::Paxos(replica) => replica.check(),
            AnyReplica::Chain(replica) => replica.check(),
            AnyReplica::Register(replica) => replica.core().check(),
        }
    }

    /// Whether this node is in the group as it is now.
    pub fn is_inside(&self) -> bool {
        match self {
            AnyReplica::Paxos(_) => true,
            AnyReplica::Chain(replica) => replica.status().place != Place::Outside,
            AnyReplica::Register(replica) => replica.core().is_member(),
        }
    }
}

/// A record of the log, of one of the protocols.
pub(crate) enum AnyRecord {
    Paxos(paxos::Record),
    Chain(chain::Record),
    Register(register::Record),
}

impl AnyRecord {
    /// Of a record that must be restored in order: see [`chain::Record::order`], and [`Hosted::kind_of`] for a register's.
    pub(crate) fn order(&self, kind: Kind) -> Option<(Epoch, u8, Slot)> {
        match (self, kind) {
            (AnyRecord::Paxos(_), _) => None,
            (AnyRecord::Chain(record), _) => Some(record.order()),
            (AnyRecord::Register(_), Kind::Slot(number)) => Some((Epoch(0), 0, Slot(number))),
            (AnyRecord::Register(_), Kind::State) => Some((Epoch(0), 0, Slot(0))),
        }
    }

    /// The slot that it fills, and its value.
    pub(crate) fn entry(&self) -> Option<(Slot, &Value)> {
        match self {
            AnyRecord::Paxos(record) => record.entry(),
            AnyRecord::Chain(record) => record.entry(),
            AnyRecord::Register(_) => None,
        }
    }
}
