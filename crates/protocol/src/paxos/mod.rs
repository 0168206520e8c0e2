//! Stoppable Multi-Paxos for millions of groups (GigaPaxos, sections 3.2 and 3.3).

mod message;
mod record;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::effect::{Cx, Effects, Event, Replica};
use crate::id::{Ballot, Configuration, NodeId, Slot, Stamp};

pub use message::{AcceptedValue, Message};
pub use record::{Position, Record};

/// One member's part of a group. Its size is what an idle group costs.
pub struct Paxos {
    configuration: Arc<Configuration>,
    position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Following,
    Preparing,
    Coordinating,
}

/// What an operator is shown of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub role: Role,
    pub ballot: Ballot,
    pub next_slot: Slot,
    pub frontier_majority: Slot,
    /// Slots accepted or proposed, not yet executed.
    pub in_flight: u64,
    /// At the coordinator, as far as known: up to where each member has executed.
    pub frontiers: Vec<(NodeId, Slot)>,
    pub stopped: bool,
}

impl Paxos {
    /// A replica born empty, in this run of its node. The first member coordinates from birth, at ballot 0.
    pub fn new(configuration: Arc<Configuration>, me: NodeId) -> Paxos {
        assert!(
            configuration.contains(me),
            "{me} is not in {configuration:?}"
        );
        let promised = Ballot {
            number: 0,
            node: configuration.members[0],
        };
        let position = Position {
            next_slot: Slot(0),
            promised,
            frontier_majority: Slot(0),
            time: Stamp(0),
            stopped: false,
        };
        Paxos {
            configuration,
            position,
        }
    }

    /// The end of recovery: whatever was coordinated before the restart is not any more.
    pub fn restored(&mut self) {}

    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.configuration
    }

    pub fn position(&self) -> Position {
        self.position
    }

    pub fn next_slot(&self) -> Slot {
        self.position.next_slot
    }

    /// Who is believed to coordinate.
    pub fn coordinator(&self) -> NodeId {
        self.position.promised.node
    }

    pub fn is_coordinating(&self) -> bool {
        false
    }

    pub fn is_stopped(&self) -> bool {
        self.position.stopped
    }

    pub fn is_idle(&self) -> bool {
        true
    }

    pub fn status(&self) -> Status {
        Status {
            role: Role::Following,
            ballot: self.position.promised,
            next_slot: self.position.next_slot,
            frontier_majority: self.position.frontier_majority,
            in_flight: 0,
            frontiers: Vec::new(),
            stopped: self.position.stopped,
        }
    }
}

impl Replica for Paxos {
    type Message = Message;
    type Record = Record;

    fn restore(&mut self, _record: Record) {}

    fn step(&mut self, _cx: &mut Cx<'_>, _event: Event<Message>, _out: &mut Effects<Self>) {}

    fn check(&self) {}
}
