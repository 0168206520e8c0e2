//! Nodes with one processor each, the messages between them, and clients that ask again as soon as they are answered.

use std::collections::VecDeque;

use quorate_protocol::router::{Kgroup, Place, Recall, RecallNumber, Router, Scope, SessionId};
use quorate_protocol::{Instant, NodeId, Slot};

use super::keys::{Choice, kgroup_of};
use super::leader::{By, Leader};
use super::{Experiment, HANDLE_NS, KGROUPS, MESSAGE_NS, OBJECTS, Outcome, System};
use crate::queue::Queue;
use crate::random::Random;

pub(super) const LEADER: usize = 0;
/// As nodes have it.
const LEASE_HELD_US: u64 = 400_000;
const LEASE_GIVEN_US: u64 = 450_000;
const ASK_NS: u64 = 100_000_000;

/// What nodes say to each other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Letter {
    /// From a client.
    Request {
        client: usize,
    },
    /// From a router to the leader.
    Routed {
        client: usize,
        by: By,
    },
    /// From a router to another member.
    Read {
        client: usize,
        slot: Slot,
    },
    TurnedBack {
        client: usize,
        member: usize,
    },
    /// To the router by which the request came. `slot` is that of the write that was executed or read.
    Answer {
        client: usize,
        slot: Slot,
        acknowledgers: u64,
        share: Option<Share>,
    },
    Accept {
        slot: Slot,
        frontier: Slot,
    },
    Accepted {
        slot: Slot,
        member: usize,
    },
    Decide {
        frontier: Slot,
    },
    /// The leader's own: it is time to tell what is decided, if nothing else has.
    DecideIsDue,
    Confirm {
        round: u64,
    },
    Confirmed {
        round: u64,
    },
    Recall(Recall),
    Recalled {
        router: NodeId,
        number: RecallNumber,
        kgroup: Kgroup,
    },
    Ask {
        router: usize,
        asked_at: Instant,
        held: Option<SessionId>,
    },
    Grant {
        asked_at: Instant,
        session: SessionId,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) session: SessionId,
    pub(super) recalls: RecallNumber,
    pub(super) next_slot: Slot,
}

enum Event {
    Arrives { node: usize, letter: Letter },
    Free { node: usize },
    Answered { client: usize, slot: Slot },
    Asks { router: usize },
}

/// What comes of a message, once the processor is done with it.
#[derive(Default)]
pub(super) struct Output {
    pub(super) letters: Vec<(usize, Letter)>,
    pub(super) answers: Vec<(usize, Slot)>,
    pub(super) later: Vec<(u64, Letter)>,
    pub(super) work_ns: u64,
}

impl Output {
    /// An answer to the message in hand, or by way of a router to a client.
    pub(super) fn answer(&mut self, to: usize, letter: Letter) {
        self.letters.push((to, letter));
    }

    pub(super) fn send(&mut self, to: usize, letter: Letter) {
        self.work_ns += HANDLE_NS;
        self.letters.push((to, letter));
    }
}

struct Node {
    busy_until: u64,
    waiting: VecDeque<Letter>,
}

struct Client {
    random: Random,
    object: usize,
    is_write: bool,
    /// What was answered about the object before this was asked.
    floor: Slot,
    /// Of a write that its router counts.
    session: Option<SessionId>,
    /// Whether it is the leader that answers, and whether a member could not.
    at_leader: bool,
    was_turned_back: bool,
}

/// What a replica has executed.
pub(super) struct Store {
    pub(super) executed: Slot,
    /// Of each object the slot of its last write.
    pub(super) slots: Vec<Slot>,
}

impl Store {
    pub(super) fn new() -> Store {
        Store { executed: Slot(0), slots: vec![Slot(0); OBJECTS] }
    }

    /// The next write.
    pub(super) fn execute(&mut self, object: usize) -> Slot {
        self.executed = self.executed.next();
        self.slots[object] = self.executed;
        self.executed
    }
}

pub(super) struct World {
    experiment: Experiment,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    followers: Vec<Store>,
    leader: Leader,
    routers: Vec<Router>,
    turns: Vec<usize>,
    clients: Vec<Client>,
    choice: Choice,
    /// Of each object the last slot that anybody was answered.
    floors: Vec<Slot>,
    answered: u64,
    outcome: Outcome,
}

impl World {
    pub(super) fn new(experiment: &Experiment) -> World {
        let &Experiment { system, replicas, clients, seed, .. } = experiment;
        let routers = system.routers();
        let client = |client: u64| Client {
            random: Random::new(seed * 100_000 + client),
            object: 0,
            is_write: false,
            floor: Slot(0),
            session: None,
            at_leader: false,
            was_turned_back: false,
        };
        let mut world = World {
            experiment: *experiment,
            queue: Queue::new(),
            nodes: (0..replicas + routers).map(|_| Node { busy_until: 0, waiting: VecDeque::new() }).collect(),
            followers: (1..replicas).map(|_| Store::new()).collect(),
            leader: Leader::new(replicas),
            routers: vec![Router::default(); routers],
            turns: vec![0; routers],
            clients: (0..clients as u64).map(client).collect(),
            choice: Choice::new(experiment.keys),
            floors: vec![Slot(0); OBJECTS],
            answered: 0,
            outcome: Outcome::default(),
        };
        (0..routers).for_each(|router| world.begin(router));
        (0..clients).for_each(|client| world.ask(client));
        world
    }

    fn now(&self) -> Instant {
        Instant(self.queue.now() / 1000)
    }

    fn router_node(&self, router: usize) -> usize {
        self.experiment.replicas + router
    }

    /// A router that has read every kgroup once: how long that takes is not what is measured.
    fn begin(&mut self, router: usize) {
        let (now, node) = (self.now(), node_id(self.router_node(router)));
        let sessions = &mut self.leader.sessions;
        let session = sessions.grant(node, None, now, now.after_us(LEASE_GIVEN_US)).expect("there are few");
        self.routers[router].handle_grant(session, now, LEASE_HELD_US, now);
        for kgroup in (0..KGROUPS as u16).map(Kgroup::of_hash_slot) {
            let recalls = sessions.share(node, session, kgroup, now).expect("it is its session");
            self.routers[router].handle_share(session, recalls, kgroup, Slot(1));
        }
        self.queue.plan(ASK_NS, Event::Asks { router });
    }

    pub(super) fn run(mut self) -> Outcome {
        let operations = self.experiment.operations;
        let (mut from_ns, mut recalls_before) = (0, 0);
        while self.answered < 2 * operations {
            let event = self.queue.pop().expect("clients always wait for something");
            if let Some(client) = self.handle(event) {
                self.answered += 1;
                self.ask(client);
                if self.answered == operations {
                    (from_ns, recalls_before) = (self.queue.now(), self.leader.recalls_sent);
                    self.outcome = Outcome::default();
                }
            }
        }
        self.outcome.recalls = self.leader.recalls_sent - recalls_before;
        self.outcome.throughput = operations as f64 * 1e9 / (self.queue.now() - from_ns) as f64;
        self.outcome
    }

    fn ask(&mut self, client: usize) {
        let state = &mut self.clients[client];
        state.is_write = state.random.below(100) < self.experiment.workload.write_percent();
        state.object = self.choice.object(&mut state.random);
        (state.floor, state.session) = (self.floors[state.object], None);
        (state.at_leader, state.was_turned_back) = (false, false);
        let node = match self.experiment.system.routers() {
            0 => LEADER,
            routers => self.router_node(client % routers),
        };
        self.queue.plan(MESSAGE_NS, Event::Arrives { node, letter: Letter::Request { client } });
    }

    /// The client that is answered, if one is.
    fn handle(&mut self, event: Event) -> Option<usize> {
        match event {
            Event::Answered { client, slot } => {
                self.judge(client, slot);
                return Some(client);
            }
            Event::Arrives { node, letter } => {
                let state = &mut self.nodes[node];
                let is_free = state.waiting.is_empty() && state.busy_until <= self.queue.now();
                if is_free {
                    self.work(node, letter);
                } else {
                    if state.waiting.is_empty() {
                        self.queue.plan(state.busy_until - self.queue.now(), Event::Free { node });
                    }
                    state.waiting.push_back(letter);
                }
            }
            Event::Free { node } => {
                let letter = self.nodes[node].waiting.pop_front().expect("something waits");
                self.work(node, letter);
                let state = &self.nodes[node];
                if !state.waiting.is_empty() {
                    self.queue.plan(state.busy_until - self.queue.now(), Event::Free { node });
                }
            }
            Event::Asks { router } => {
                let (asked_at, held) = (self.now(), self.routers[router].session());
                let letter = Letter::Ask { router: self.router_node(router), asked_at, held };
                self.queue.plan(MESSAGE_NS, Event::Arrives { node: LEADER, letter });
                self.queue.plan(ASK_NS, Event::Asks { router });
            }
        }
        None
    }

    /// Slots only grow, so an object is linearizable if nobody is answered a slot below one that somebody was answered before.
    fn judge(&mut self, client: usize, slot: Slot) {
        let Client { object, floor, is_write, at_leader, was_turned_back, .. } = self.clients[client];
        assert!(slot >= floor, "a stale read of {object}: {slot:?}, and {floor:?} was answered before it began");
        self.floors[object] = self.floors[object].max(slot);
        if is_write {
            self.outcome.writes += 1;
        } else {
            self.outcome.reads += 1;
            self.outcome.read_at_leader += u64::from(at_leader);
            self.outcome.turned_back += u64::from(was_turned_back);
        }
    }

    /// A processor takes up a message. What comes of it leaves when it is done with it.
    fn work(&mut self, node: usize, letter: Letter) {
        let mut out = Output::default();
        if let Some(router) = node.checked_sub(self.experiment.replicas) {
            out.work_ns = self.experiment.router_ns;
            self.route(router, letter, &mut out);
        } else {
            out.work_ns = HANDLE_NS;
            self.replicate(node, letter, &mut out);
        }
        let way = out.work_ns + MESSAGE_NS;
        self.nodes[node].busy_until = self.queue.now() + out.work_ns;
        for (to, letter) in out.letters {
            self.queue.plan(way, Event::Arrives { node: to, letter });
        }
        for (client, slot) in out.answers {
            self.queue.plan(way, Event::Answered { client, slot });
        }
        for (delay, letter) in out.later {
            self.queue.plan(delay, Event::Arrives { node, letter });
        }
    }

    fn route(&mut self, router: usize, letter: Letter, out: &mut Output) {
        let now = self.now();
        let node = node_id(self.router_node(router));
        let routing = &mut self.routers[router];
        match letter {
            Letter::Request { client } => {
                let state = &mut self.clients[client];
                let kgroup = kgroup_of(state.object);
                if state.is_write {
                    state.session = routing.begin_write(kgroup);
                } else if let Place::Members { slot, members } = routing.place(kgroup, now) {
                    let fit = |member: &usize| *member != LEADER && members >> member & 1 == 1;
                    let count = (0..self.experiment.replicas).filter(fit).count();
                    self.turns[router] += 1;
                    let turn = self.turns[router].checked_rem(count);
                    if let Some(member) = turn.and_then(|turn| (0..self.experiment.replicas).filter(fit).nth(turn)) {
                        return out.answer(member, Letter::Read { client, slot });
                    }
                }
                let by = routing.session().map(|session| (node, session));
                out.answer(LEADER, Letter::Routed { client, by });
            }
            Letter::TurnedBack { client, member } => {
                routing.leave_out(kgroup_of(self.clients[client].object), member);
                self.clients[client].was_turned_back = true;
                let by = routing.session().map(|session| (node, session));
                out.answer(LEADER, Letter::Routed { client, by });
            }
            Letter::Answer { client, slot, acknowledgers, share } => {
                let state = &self.clients[client];
                let kgroup = kgroup_of(state.object);
                if let Some(Share { session, recalls, next_slot }) = share {
                    routing.handle_share(session, recalls, kgroup, next_slot);
                }
                if let Some(session) = state.session {
                    routing.end_write(session, kgroup, slot, acknowledgers);
                }
                out.answers.push((client, slot));
            }
            Letter::Recall(Recall { number, scope, .. }) => {
                routing.handle_recall(node_id(LEADER), number, scope);
                let Scope::One(kgroup) = scope else { unreachable!("nothing concerns more") };
                out.answer(LEADER, Letter::Recalled { router: node, number, kgroup });
            }
            Letter::Grant { asked_at, session } => routing.handle_grant(session, asked_at, LEASE_HELD_US, now),
            letter => unreachable!("no router is sent {letter:?}"),
        }
    }

    fn replicate(&mut self, node: usize, letter: Letter, out: &mut Output) {
        let now = self.now();
        match letter {
            Letter::Request { client } | Letter::Routed { client, .. } => {
                let by = if let Letter::Routed { by, .. } = letter { by } else { None };
                let Client { object, is_write, ref mut at_leader, .. } = self.clients[client];
                *at_leader = !is_write;
                match (is_write, self.experiment.system) {
                    (true, _) => self.leader.write(client, object, by, now, out),
                    (false, System::Quorum) => self.leader.confirm(client, out),
                    (false, _) => self.leader.read(client, object, by, now, out),
                }
            }
            Letter::Read { client, slot } => {
                let (store, router) = (&self.followers[node - 1], self.router_node(client % self.routers.len()));
                let answer = match store.executed >= slot {
                    true => {
                        let slot = store.slots[self.clients[client].object];
                        Letter::Answer { client, slot, acknowledgers: 0, share: None }
                    }
                    false => Letter::TurnedBack { client, member: node },
                };
                out.answer(router, answer);
            }
            Letter::Accept { slot, frontier } => {
                self.execute(node, frontier);
                out.answer(LEADER, Letter::Accepted { slot, member: node });
            }
            Letter::Decide { frontier } => self.execute(node, frontier),
            Letter::DecideIsDue => {
                out.work_ns = 0;
                self.leader.decide_is_due(now, out);
            }
            Letter::Accepted { slot, member } => self.leader.accepted(slot, member, out),
            Letter::Confirm { round } => out.answer(LEADER, Letter::Confirmed { round }),
            Letter::Confirmed { round } => {
                if let Some(client) = self.leader.confirmed(round) {
                    out.answers.push((client, self.leader.store.slots[self.clients[client].object]));
                }
            }
            Letter::Recalled { router, number, kgroup } => {
                self.leader.recalled(router, number, kgroup, now, out);
            }
            Letter::Ask { router, asked_at, held } => {
                let until = now.after_us(LEASE_GIVEN_US);
                if let Some(session) = self.leader.sessions.grant(node_id(router), held, now, until) {
                    out.answer(router, Letter::Grant { asked_at, session });
                }
            }
            letter => unreachable!("no replica is sent {letter:?}"),
        }
    }

    /// Links keep their order and lose nothing: a member has accepted whatever it is told to be decided.
    fn execute(&mut self, member: usize, frontier: Slot) {
        let store = &mut self.followers[member - 1];
        while store.executed < frontier {
            store.execute(self.leader.object_at(store.executed.next()));
        }
    }
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId(node as u32 + 1)
}
