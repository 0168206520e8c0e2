//! A chain of three, a master that tells it of the failure, and clients that send a query and an update at each instant to
//! whom they believe to be tail and head. Every message takes one unit, everything else none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_protocol::chain::{Body, Chain, Membership, Message, Request};
use quorate_protocol::effect::ReadMode;
use quorate_protocol::id::Content;
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::{Cx, Effect, Effects, Epoch, Event, Instant, NodeId, Proposal, Replica, Slot, Stamp};

use super::{Case, Outage};
use crate::queue::Queue;

const HEAD: NodeId = NodeId(1);
const MIDDLE: NodeId = NodeId(2);
const TAIL: NodeId = NodeId(3);

/// Clients send until then; what is not answered long after it never is.
const SENT_UNTIL: u64 = 10;
const ENDS_AT: u64 = 40;
/// The update that the failed server had, or should have got.
const IN_FLIGHT: u64 = 0;

enum Delivery {
    ClientsSend,
    MasterTellsClients,
    ClientsKnow,
    ToServer { from: Option<NodeId>, to: NodeId, event: Event<Message, Request> },
    ByTheMaster { from: NodeId, to: NodeId, message: Message },
    Answer { request: u64 },
}

struct World {
    replicas: BTreeMap<NodeId, Chain>,
    /// What the master has decided, and what clients know.
    membership: Arc<Membership>,
    known: Arc<Membership>,
    /// What a successor says to its new predecessor goes by way of the master, as in figure 3.
    by_the_master: bool,
    queue: Queue<Delivery>,
    peers: Peers,
    messages: Vec<(u64, String)>,
    queries: BTreeMap<u64, u64>,
    updates: BTreeMap<u64, u64>,
    answered_at: BTreeMap<u64, u64>,
    /// When the update in flight was decided.
    decided_at: Option<u64>,
    next_request: u64,
}

impl World {
    /// Before the failure: one update is on its way, and stops at the failed server.
    fn new(failed: NodeId, by_the_master: bool) -> World {
        let membership =
            Arc::new(Membership { epoch: Epoch(1), members: Arc::from([HEAD, MIDDLE, TAIL]), joining: None });
        let replica = |&id: &NodeId| {
            let mut replica = Chain::new(membership.clone(), id);
            replica.lease(Epoch(1), Instant::MAX);
            (id, replica)
        };
        let mut world = World {
            replicas: membership.members.iter().map(replica).collect(),
            membership: membership.clone(),
            known: membership,
            by_the_master,
            queue: Queue::new(),
            peers: Peers::new(Timing::default(), Instant(0), 1),
            messages: Vec::new(),
            queries: BTreeMap::new(),
            updates: BTreeMap::new(),
            answered_at: BTreeMap::new(),
            decided_at: None,
            next_request: IN_FLIGHT + 1,
        };
        let mut at = HEAD;
        let mut event = Event::Proposed(Proposal::Commands(Arc::from(IN_FLIGHT.to_le_bytes())));
        while at != failed {
            let forward = world.step(at, event).into_iter().find_map(|effect| match effect {
                Effect::Send { to, message, .. } => Some((to, message)),
                _ => None,
            });
            let (to, message) = forward.expect("an update is forwarded");
            event = Event::Received { from: at, message };
            at = to;
        }
        world.replicas.remove(&failed);
        world.membership = Arc::new(world.membership.without(failed, Epoch(2)));
        world
    }

    /// The master tells these servers at once, then clients; `told` for how long it takes them.
    fn run(mut self, tells: &[NodeId], tells_clients: bool) -> World {
        for &to in tells {
            self.tell(to);
        }
        if tells_clients {
            self.queue.plan(1, Delivery::MasterTellsClients);
        }
        self.queue.plan(0, Delivery::ClientsSend);
        while let Some(delivery) = self.queue.pop() {
            if self.queue.now() > ENDS_AT {
                break;
            }
            self.deliver(delivery);
        }
        self
    }

    fn tell(&mut self, to: NodeId) {
        let event = Event::Requested(Request::Reconfigure { membership: self.membership.clone() });
        self.queue.plan(1, Delivery::ToServer { from: None, to, event });
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::ClientsSend => self.send(),
            Delivery::MasterTellsClients => self.queue.plan(1, Delivery::ClientsKnow),
            Delivery::ClientsKnow => {
                self.known = self.membership.clone();
                self.note(format!("master -> clients: {:?}", self.known));
            }
            Delivery::ToServer { from, to, event } => {
                if self.replicas.contains_key(&to) {
                    self.note_event(from, to, &event);
                    self.act(to, event);
                }
            }
            Delivery::ByTheMaster { from, to, message } => {
                self.note(format!("{from} -> master: {message:?}"));
                self.tell(to);
                let event = Event::Received { from, message };
                self.queue.plan(1, Delivery::ToServer { from: Some(from), to, event });
            }
            Delivery::Answer { request } => {
                self.answered_at.entry(request).or_insert(self.queue.now());
            }
        }
    }

    fn send(&mut self) {
        let now = self.queue.now();
        let (query, update) = (self.next_request, self.next_request + 1);
        self.next_request += 2;
        self.queries.insert(query, now);
        self.updates.insert(update, now);
        let (head, tail) = (self.known.head(), self.known.tail());
        let event = Event::Proposed(Proposal::Read { token: query, mode: ReadMode::Lease });
        self.queue.plan(1, Delivery::ToServer { from: None, to: tail, event });
        let event = Event::Proposed(Proposal::Commands(Arc::from(update.to_le_bytes())));
        self.queue.plan(1, Delivery::ToServer { from: None, to: head, event });
        if now < SENT_UNTIL {
            self.queue.plan(1, Delivery::ClientsSend);
        }
    }

    fn act(&mut self, id: NodeId, event: Event<Message, Request>) {
        // The parent's word brings a lease along.
        let lease = matches!(event, Event::Requested(_)).then_some(self.membership.epoch);
        let effects = self.step(id, event);
        if let (Some(epoch), Some(replica)) = (lease, self.replicas.get_mut(&id)) {
            replica.lease(epoch, Instant::MAX);
        }
        for effect in effects {
            match effect {
                Effect::Send { to, message, .. } => self.post(id, to, message),
                Effect::Decided { slot, value, .. } if self.replicas[&id].is_tail() => {
                    if slot == Slot(0) {
                        self.decided_at.get_or_insert(self.queue.now());
                    }
                    let Content::Commands(bytes) = &value.content else { continue };
                    let request = u64::from_le_bytes(bytes[..].try_into().expect("requests are eight bytes"));
                    self.queue.plan(1, Delivery::Answer { request });
                }
                Effect::Readable { token } => self.queue.plan(1, Delivery::Answer { request: token }),
                _ => {}
            }
        }
    }

    fn post(&mut self, from: NodeId, to: NodeId, message: Message) {
        let delivery = match &message.body {
            Body::Connect { .. } if self.by_the_master => Delivery::ByTheMaster { from, to, message },
            _ => Delivery::ToServer { from: Some(from), to, event: Event::Received { from, message } },
        };
        self.queue.plan(1, delivery);
    }

    /// Everything is on disk as soon as it is written.
    fn step(&mut self, id: NodeId, event: Event<Message, Request>) -> Vec<Effect<Chain>> {
        let now = Instant(self.queue.now());
        let Some(replica) = self.replicas.get_mut(&id) else { return Vec::new() };
        let (mut events, mut effects) = (VecDeque::from([event]), Vec::new());
        while let Some(event) = events.pop_front() {
            let (mut out, mut nonsense_count) = (Effects::default(), 0);
            let nonsense_count = &mut nonsense_count;
            let mut cx = Cx {
                me: id,
                now,
                stamp: Stamp(0),
                random: 0,
                peers: &self.peers,
                wants_frontiers: true,
                proposes_late: false,
                nonsense_count,
            };
            replica.step(&mut cx, event, &mut out);
            for effect in out.list {
                match effect {
                    Effect::Send { to, message, .. } if to == id => {
                        events.push_back(Event::Received { from: id, message });
                    }
                    effect => effects.push(effect),
                }
            }
        }
        effects
    }

    fn note_event(&mut self, from: Option<NodeId>, to: NodeId, event: &Event<Message, Request>) {
        match event {
            Event::Requested(Request::Reconfigure { membership }) => {
                self.note(format!("master -> {to}: {membership:?}"));
            }
            Event::Received { message, .. } if matches!(message.body, Body::Connect { .. } | Body::Suffix { .. }) => {
                let from = from.expect("a server speaks");
                let words = match &message.body {
                    Body::Suffix { slots, .. } => format!("{:?} Suffix of {} updates", message.epoch, slots.len()),
                    _ => format!("{message:?}"),
                };
                self.note(format!("{from} -> {to}: {words}"));
            }
            _ => {}
        }
    }

    fn note(&mut self, line: String) {
        self.messages.push((self.queue.now(), line));
    }

    /// From this instant on every request sent is answered.
    fn answered_from(&self, requests: &BTreeMap<u64, u64>) -> u64 {
        let lost = requests.iter().filter(|(request, _)| !self.answered_at.contains_key(request));
        lost.map(|(_, sent_at)| sent_at + 1).max().unwrap_or(0)
    }

    fn queries(&self, failed: &'static str, paper: u64) -> Outage {
        let delays = self.answered_from(&self.queries);
        outage(failed, "queries", delays, paper, "every query that is sent is answered")
    }

    fn case(self, title: &'static str, outages: Vec<Outage>) -> Case {
        Case { title, outages, messages: self.messages }
    }
}

fn outage(failed: &'static str, requests: &'static str, delays: u64, paper: u64, what: &'static str) -> Outage {
    Outage { protocol: "chain", failed, requests, delays, paper, what }
}

pub(super) fn head_fails() -> Case {
    let world = World::new(HEAD, false).run(&[MIDDLE, TAIL], true);
    let updates = world.answered_from(&world.updates);
    let updates = outage("head", "updates", updates, 2, "every update that is sent is answered");
    let queries = world.queries("head", 0);
    world.case("chain: the head fails", vec![queries, updates])
}

pub(super) fn middle_fails() -> Case {
    middle("middle", World::new(MIDDLE, false).run(&[TAIL], false), "chain: a middle server fails")
}

pub(super) fn middle_fails_by_the_master() -> Case {
    let title = "chain: a middle server fails, and the master passes on what its successor says (figure 3)";
    middle("middle, figure 3", World::new(MIDDLE, true).run(&[TAIL], false), title)
}

fn middle(failed: &'static str, world: World, title: &'static str) -> Case {
    assert_eq!(world.answered_from(&world.updates), 0, "no update is lost");
    let delayed = world.decided_at.expect("the update in flight is decided");
    let updates =
        outage(failed, "updates", delayed, 4, "an update that the failed server had is at the tail; none is lost");
    let queries = world.queries(failed, 0);
    world.case(title, vec![queries, updates])
}

pub(super) fn tail_fails() -> Case {
    let world = World::new(TAIL, false).run(&[MIDDLE, HEAD], true);
    let answered = world.answered_at[&IN_FLIGHT];
    let updates = outage("tail", "updates", answered, 2, "an update that was in flight is answered; none is lost");
    let queries = world.queries("tail", 2);
    world.case("chain: the tail fails", vec![queries, updates])
}
