//! Servers that run the core of chain replication.

use std::collections::VecDeque;
use std::sync::Arc;

use quorate_protocol::chain::{Body, Chain, Membership, Message};
use quorate_protocol::effect::ReadMode;
use quorate_protocol::id::{Content, Payload};
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::{Cx, Effect, Effects, Epoch, Event, Instant, NodeId, Proposal, Replica, Stamp};

use super::{CHANGE_US, Job, Outgoing, QUERY_US, Service, UPDATE_US};

pub(super) struct Servers {
    replicas: Vec<Chain>,
    /// Any server answers queries, from whatever it has.
    weak: bool,
    peers: Peers,
}

impl Servers {
    pub(super) fn new(count: usize, weak: bool) -> Servers {
        let members: Arc<[NodeId]> = (0..count).map(node).collect();
        let membership = Arc::new(Membership { epoch: Epoch(1), members, joining: None });
        let replica = |server| {
            let mut replica = Chain::new(membership.clone(), node(server));
            replica.lease(Epoch(1), Instant::MAX);
            replica
        };
        Servers {
            replicas: (0..count).map(replica).collect(),
            weak,
            peers: Peers::new(Timing::default(), Instant(0), 1),
        }
    }

    fn step(&mut self, now: u64, server: usize, event: Event<Message, <Chain as Replica>::Request>) -> Effects<Chain> {
        let (mut out, mut nonsense_count) = (Effects::default(), 0);
        let mut cx = Cx {
            me: node(server),
            now: Instant(now),
            stamp: Stamp(now / 1000),
            random: 0,
            peers: &self.peers,
            wants_frontiers: true,
            proposes_late: false,
            nonsense_count: &mut nonsense_count,
        };
        self.replicas[server].step(&mut cx, event, &mut out);
        assert_eq!(nonsense_count, 0, "a server was sent what none would say");
        out
    }

    fn drive(
        &mut self,
        now: u64,
        server: usize,
        event: Event<Message, <Chain as Replica>::Request>,
    ) -> Vec<Effect<Chain>> {
        let mut events = VecDeque::from([event]);
        let mut effects = Vec::new();
        while let Some(event) = events.pop_front() {
            for effect in self.step(now, server, event).list {
                match effect {
                    // Writing is part of the work that it follows from, so it is durable by now.
                    Effect::Send { to, message, .. } if to == node(server) => {
                        events.push_back(Event::Received { from: to, message });
                    }
                    // Nothing is lost here, so nothing need be sent again.
                    Effect::Persist(_) => {}
                    effect => effects.push(effect),
                }
            }
        }
        effects
    }
}

impl Service for Servers {
    type Letter = Message;

    fn server_for(&self, update: bool, dice: u64) -> usize {
        match (update, self.weak) {
            (true, _) => 0,
            (false, false) => self.replicas.len() - 1,
            (false, true) => dice as usize % self.replicas.len(),
        }
    }

    fn work_us(&self, job: &Job<Message>) -> u64 {
        match job {
            Job::Request { update: true, .. } => UPDATE_US,
            Job::Request { update: false, .. } => QUERY_US,
            Job::Letter { letter: Message { body: Body::Forward { .. }, .. }, .. } => CHANGE_US,
            Job::Letter { .. } => 0,
        }
    }

    fn finish(&mut self, now: u64, server: usize, job: Job<Message>, out: &mut Vec<Outgoing<Message>>) {
        let event = match job {
            Job::Request { client, update: false } if self.weak => return out.push(Outgoing::ToClient { client }),
            Job::Request { client, update: true } => Event::Proposed(Proposal::Commands(ticket(client))),
            Job::Request { client, update: false } => {
                Event::Proposed(Proposal::Read { token: client as u64, mode: ReadMode::Lease })
            }
            Job::Letter { from, letter } => Event::Received { from: node(from), message: letter },
        };
        for effect in self.drive(now, server, event) {
            match effect {
                Effect::Send { to, message, .. } => {
                    out.push(Outgoing::ToServer { from: server, to: to.0 as usize - 1, letter: message });
                }
                Effect::Decided { value, .. } if self.replicas[server].is_tail() => {
                    let Content::Commands(bytes) = &value.content else { continue };
                    out.push(Outgoing::ToClient { client: client_of(bytes) });
                }
                Effect::Decided { .. } => {}
                Effect::Readable { token } => out.push(Outgoing::ToClient { client: token as usize }),
                effect => unreachable!("without failures there is no {effect:?}"),
            }
        }
    }
}

fn node(server: usize) -> NodeId {
    NodeId(server as u32 + 1)
}

fn ticket(client: usize) -> Payload {
    Arc::from((client as u64).to_le_bytes())
}

fn client_of(ticket: &[u8]) -> usize {
    u64::from_le_bytes(ticket.try_into().expect("tickets are eight bytes")) as usize
}
