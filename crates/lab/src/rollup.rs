//! Section V-A of the Rollup paper: how many messages a rolling upgrade of 25 servers takes. The paper counts them by a
//! formula; here registers that decide their successors by themselves are driven through the same reconfigurations, and what
//! they send is counted.
//!
//! Counted as the paper does: one exchange's questions, not their answers, and messages to oneself as messages. What the
//! formula leaves out (answers, and retiring the old configuration) is told beside it.

use std::collections::{BTreeMap, VecDeque};

use quorate_protocol::id::{Configuration, GroupId};
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::quorum::QuorumSystem;
pub use quorate_protocol::register::Reach;
use quorate_protocol::register::{Answer, Authority, Body, Message, Pace, Register, Request, Stage};
use quorate_protocol::{Cx, Effect, Effects, Epoch, Event, Instant, NodeId, Replica, Stamp};

/// The servers of the paper's example.
pub const SERVERS: usize = 25;
pub const GRANULARITIES: [usize; 2] = [1, 5];

/// Messages of the three phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    pub prepare: u64,
    /// Proposals, and the votes that follow from them.
    pub propose: u64,
    pub propagate: u64,
}

impl Phases {
    pub fn total(self) -> u64 {
        self.prepare + self.propose + self.propagate
    }

    fn plus(self, other: Phases) -> Phases {
        Phases {
            prepare: self.prepare + other.prepare,
            propose: self.propose + other.propose,
            propagate: self.propagate + other.propagate,
        }
    }
}

/// What one reconfiguration took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub phases: Phases,
    /// Answers, and whatever moves state and retires the old configuration.
    pub rest: u64,
    /// Of all those, so many a server sent to itself.
    pub own: u64,
}

impl Counted {
    fn plus(self, other: Counted) -> Counted {
        Counted { phases: self.phases.plus(other.phases), rest: self.rest + other.rest, own: self.own + other.own }
    }
}

/// An upgrade of so many servers at a time: the reconfiguration that takes out the first of them, those that follow, and the
/// one that takes in the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    pub granularity: usize,
    pub reconfigurations: Vec<Counted>,
}

impl Upgrade {
    pub fn total(&self) -> Counted {
        self.reconfigurations.iter().fold(Counted::default(), |sum, &one| sum.plus(one))
    }
}

/// How many distinct servers two rows and two columns of a square hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// 18 of a square of 5, 14 of one of 4.
    AsInThePaper,
    /// Two rows meet two columns at four servers: 16 and 12.
    Corrected,
}

/// The paper's formula for one reconfiguration.
pub fn formula(servers_before: usize, servers_after: usize, distinct: Distinct) -> Phases {
    let side = |servers: usize| servers.isqrt() as u64;
    let in_four_quorums = |servers| match distinct {
        Distinct::AsInThePaper => 4 * side(servers) - 2,
        Distinct::Corrected => 4 * side(servers) - 4,
    };
    let (before, after) = (in_four_quorums(servers_before), in_four_quorums(servers_after));
    Phases {
        prepare: 2 * side(servers_before),
        propose: before + before * before,
        propagate: before * (before + after),
    }
}

/// The formula over a whole upgrade.
pub fn formula_of_upgrade(servers: usize, granularity: usize, distinct: Distinct) -> u64 {
    let steps = sizes(servers, granularity);
    steps.windows(2).map(|step| formula(step[0], step[1], distinct).total()).sum()
}

/// Members by the numbers of servers that serve, from one reconfiguration to the next.
fn sizes(servers: usize, granularity: usize) -> Vec<usize> {
    memberships(servers, granularity).iter().map(Vec::len).collect()
}

/// All, then all but each batch in turn, then all.
fn memberships(servers: usize, granularity: usize) -> Vec<Vec<NodeId>> {
    let all: Vec<NodeId> = (1..=servers as u32).map(NodeId).collect();
    let without = |batch: &[NodeId]| all.iter().copied().filter(|node| !batch.contains(node)).collect();
    let between = all.chunks(granularity).map(without);
    [all.clone()].into_iter().chain(between).chain([all.clone()]).collect()
}

/// Drives registers through an upgrade.
pub fn upgrade(servers: usize, granularity: usize, reach: Reach) -> Upgrade {
    let memberships = memberships(servers, granularity);
    let mut world = World::new(&memberships[0], reach);
    let reconfigurations = memberships.windows(2).map(|step| world.reconfigure(&step[0], &step[1])).collect();
    Upgrade { granularity, reconfigurations }
}

struct World {
    replicas: BTreeMap<NodeId, Register>,
    /// First in, first out; nothing is lost, and time stands still.
    queue: VecDeque<(NodeId, NodeId, Message)>,
    counted: Counted,
    answers: Vec<Answer>,
    peers: Peers,
}

impl World {
    fn new(members: &[NodeId], reach: Reach) -> World {
        let quorum = QuorumSystem::square(members.len());
        let configuration = Configuration { group: GroupId(1), epoch: Epoch(1), members: members.into(), quorum };
        let first = Stage::first(configuration);
        let pace = Pace { widen_us: 1_000, retry_us: 1_000_000 };
        let replica = |&node: &NodeId| {
            let replica = Register::new(vec![first.clone()], node, 1, pace);
            (node, replica.decided_by(Authority::Members(reach)))
        };
        World {
            replicas: members.iter().map(replica).collect(),
            queue: VecDeque::new(),
            counted: Counted::default(),
            answers: Vec::new(),
            peers: Peers::new(Timing::default(), Instant(0), 1),
        }
    }

    fn reconfigure(&mut self, before: &[NodeId], after: &[NodeId]) -> Counted {
        self.counted = Counted::default();
        let candidate = before.iter().copied().find(|node| after.contains(node)).expect("somebody stays");
        let quorum = QuorumSystem::square(after.len());
        let request = Request::Reconfigure { token: 1, members: after.to_vec(), quorum };
        self.step(candidate, Event::Requested(request));
        while let Some((from, to, message)) = self.queue.pop_front() {
            self.step(to, Event::Received { from, message });
        }
        let answers = std::mem::take(&mut self.answers);
        assert!(matches!(answers[..], [Answer::Reconfigured { .. }]), "{answers:?}");
        self.counted
    }

    fn step(&mut self, id: NodeId, event: Event<Message, Request>) {
        let (mut out, mut nonsense_count) = (Effects::default(), 0);
        let nonsense_count = &mut nonsense_count;
        let mut cx = Cx {
            me: id,
            now: Instant(0),
            stamp: Stamp(0),
            random: 0,
            peers: &self.peers,
            wants_frontiers: true,
            proposes_late: false,
            nonsense_count,
        };
        let replica = self.replicas.get_mut(&id).expect("a server");
        let before = replica.view();
        replica.step(&mut cx, event, &mut out);
        replica.check();
        let after = replica.view();
        // What is told of a successor in the step in which it was decided is the third phase.
        let decides = before.newest < after.newest;
        for effect in out.list {
            match effect {
                Effect::Send { to, message, .. } => {
                    self.count(id, to, &message, decides);
                    self.queue.push_back((id, to, message));
                }
                Effect::Answered(answer) => self.answers.push(answer),
                // Nothing crashes here, and nothing is lost.
                Effect::Persist(_) => {}
                effect => unreachable!("registers have no {effect:?}"),
            }
        }
    }

    fn count(&mut self, from: NodeId, to: NodeId, message: &Message, decides: bool) {
        self.counted.own += u64::from(from == to);
        match message.body {
            Body::Prepare { .. } => self.counted.phases.prepare += 1,
            Body::Propose { .. } | Body::Vote { .. } => self.counted.phases.propose += 1,
            Body::Inform { .. } if decides => self.counted.phases.propagate += 1,
            _ => self.counted.rest += 1,
        }
    }
}
