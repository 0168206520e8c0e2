//! A model check of the real register replica: every order of what may happen to a small group, as far as a number of states
//! reaches. Members n1, n2, n3 decide by themselves; n1 wants n3 and n4 to follow, n2 wants n1, n3 and n4. Two clients write
//! and read one key, one node crashes, and messages take any order or never arrive.
//!
//! The search is breadth first and begins at several moments of the same story at once, so that what happens late in it is
//! within reach. In each state what clients saw must be linearizable, and all must know the same configuration by each epoch.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use quorate_protocol::id::{Configuration, Epoch, GroupId, Instant, NodeId, Stamp};
use quorate_protocol::peers::{Peers, Timing};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{
    Answer, Authority, Body, Content, Key, Message, Pace, Reach, Register, Request, Stage,
};
use quorate_protocol::wire::Wire;
use quorate_protocol::{Cx, Effect, Effects, Event, Replica};
use stateright::semantics::register::{Register as Reference, RegisterOp, RegisterRet};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};
use stateright::{Checker, Model, Property};

const PACE: Pace = Pace { widen_us: 1_000, retry_us: 10_000 };
/// When everything that waits is due.
const LATER: Instant = Instant(1_000_000);
const DEADLINE: Stamp = Stamp(1_000_000_000);
/// Of reconfigurations, from which those of clients differ.
const CANDIDACY: u64 = 100;

/// What a client does, one after the other, at its node: `None` reads.
type Story = &'static [Option<char>];
const CLIENTS: [(usize, Story); 2] = [(1, &[Some('a'), None]), (2, &[None, Some('b')])];

#[derive(Clone)]
struct Group {
    peers: Arc<Peers>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    done: usize,
    asked: bool,
}

/// A replica is compared by everything that it is made of.
#[derive(Clone)]
enum Node {
    Unborn,
    Up(Arc<Register>),
    /// What is on its disk.
    Down(Arc<Register>),
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct State {
    nodes: [Node; 4],
    starts: [u32; 4],
    /// Messages on their way, with how often: sender, receiver, bytes.
    network: BTreeMap<(usize, usize, Arc<[u8]>), u8>,
    clients: [Client; 2],
    candidates: [bool; 2],
    crashed: bool,
    restarted: bool,
    /// The nodes that have noticed the crash, and whose waiting is over.
    noticed: [bool; 4],
    seen: LinearizabilityTester<usize, Reference<char>>,
}

#[derive(Clone, PartialEq)]
enum Action {
    Deliver(usize, usize, Arc<[u8]>),
    Ask(usize),
    Campaign(usize),
    Crash(usize),
    Restart(usize),
    Notice(usize),
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Deliver(from, to, bytes) => {
                let message = Message::decode_all(bytes).expect("it was encoded");
                write!(f, "{} -> {} {message:?}", id(*from), id(*to))
            }
            Action::Ask(client) => write!(f, "client {client} asks"),
            Action::Campaign(node) => write!(f, "{} reconfigures", id(*node)),
            Action::Crash(node) => write!(f, "{} crashes", id(*node)),
            Action::Restart(node) => write!(f, "{} restarts", id(*node)),
            Action::Notice(node) => write!(f, "{} has waited long enough", id(*node)),
        }
    }
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Node::Unborn => 0_u8.hash(state),
            Node::Up(replica) => (1_u8, replica).hash(state),
            Node::Down(replica) => (2_u8, replica).hash(state),
        }
    }
}

/// Equal is what has the same hash, as for the checker.
impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        let hash = |node: &Node| {
            let mut hasher = DefaultHasher::new();
            node.hash(&mut hasher);
            hasher.finish()
        };
        hash(self) == hash(other)
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Node::Unborn => write!(f, "unborn"),
            Node::Up(replica) => write!(f, "up {:?}", replica.status()),
            Node::Down(replica) => write!(f, "down {:?}", replica.status()),
        }
    }
}

fn id(node: usize) -> NodeId {
    NodeId(node as u32 + 1)
}

fn key() -> Key {
    Key(Arc::from(&b"k"[..]))
}

fn replica(stages: Vec<Stage>, node: usize, start: u32) -> Register {
    Register::new(stages, id(node), start, PACE).decided_by(Authority::Members(Reach::Preferred))
}

impl Group {
    fn first(&self) -> State {
        let members = [id(0), id(1), id(2)].into();
        let configuration =
            Configuration { group: GroupId(1), epoch: Epoch(1), members, quorum: QuorumSystem::Majority };
        let stages = vec![Stage::first(configuration)];
        let up = |node| Node::Up(Arc::new(replica(stages.clone(), node, 1)));
        State {
            nodes: [up(0), up(1), up(2), Node::Unborn],
            starts: [1; 4],
            network: BTreeMap::new(),
            clients: [(); 2].map(|()| Client { done: 0, asked: false }),
            candidates: [false; 2],
            crashed: false,
            restarted: false,
            noticed: [false; 4],
            seen: LinearizabilityTester::new(Reference('-')),
        }
    }

    /// In the order in which they are sent, all messages are delivered until a moment has come.
    fn run(&self, mut state: State, is_there: impl Fn(&State) -> bool) -> State {
        let mut order: VecDeque<_> = VecDeque::new();
        loop {
            for envelope in state.network.keys() {
                if !order.contains(envelope) {
                    order.push_back(envelope.clone());
                }
            }
            if is_there(&state) {
                return state;
            }
            let (from, to, bytes) = order.pop_front().expect("the moment comes");
            self.apply(&mut state, &Action::Deliver(from, to, bytes));
        }
    }

    fn apply(&self, state: &mut State, action: &Action) {
        match action {
            Action::Deliver(from, to, bytes) => {
                let envelope = (*from, *to, bytes.clone());
                let count = state.network.get_mut(&envelope).expect("on its way");
                *count -= 1;
                if *count == 0 {
                    state.network.remove(&envelope);
                }
                let message = Message::decode_all(bytes).expect("it was encoded");
                if let (Node::Unborn, Body::Inform { stages }) = (&state.nodes[*to], &message.body) {
                    state.nodes[*to] = Node::Up(Arc::new(replica(stages.clone(), *to, 1)));
                }
                self.step(state, *to, Instant(0), Event::Received { from: id(*from), message });
            }
            Action::Ask(client) => self.ask(state, *client),
            Action::Campaign(node) => {
                state.candidates[*node] = true;
                let members = if *node == 0 { vec![id(2), id(3)] } else { vec![id(0), id(2), id(3)] };
                let token = CANDIDACY + *node as u64;
                let request = Request::Reconfigure { token, members, quorum: QuorumSystem::Majority };
                self.step(state, *node, Instant(0), Event::Requested(request));
            }
            Action::Crash(node) => {
                state.crashed = true;
                if let Node::Up(replica) = &state.nodes[*node] {
                    state.nodes[*node] = Node::Down(replica.clone());
                }
            }
            Action::Restart(node) => {
                state.restarted = true;
                state.starts[*node] += 1;
                if let Node::Down(before) = &state.nodes[*node] {
                    let mut after = replica(before.stages().to_vec(), *node, state.starts[*node]);
                    before.records().for_each(|record| after.restore(record));
                    after.check();
                    state.nodes[*node] = Node::Up(Arc::new(after));
                }
            }
            Action::Notice(node) => {
                state.noticed[*node] = true;
                self.step(state, *node, LATER, Event::Woken);
            }
        }
    }

    fn ask(&self, state: &mut State, client: usize) {
        let (node, story) = CLIENTS[client];
        state.clients[client].asked = true;
        let number = state.clients[client].done;
        let token = (client * 10 + number) as u64;
        let (key, deadline) = (key(), DEADLINE);
        let (operation, request) = match story[number] {
            Some(letter) => {
                let content = Content::Value { bytes: Arc::from([letter as u8]), expires: None };
                (RegisterOp::Write(letter), Request::Write { token, key, content, deadline })
            }
            None => (RegisterOp::Read, Request::Read { token, key, deadline }),
        };
        state.seen.on_invoke(client, operation).expect("one at a time");
        self.step(state, node, Instant(0), Event::Requested(request));
    }

    /// Everything is durable at once, and what a node says to itself arrives at once.
    fn step(&self, state: &mut State, node: usize, now: Instant, event: Event<Message, Request>) {
        let Node::Up(shared) = &state.nodes[node] else { return };
        let mut replica = Register::clone(shared);
        let mut events = VecDeque::from([event]);
        let mut answers = Vec::new();
        while let Some(event) = events.pop_front() {
            let (mut out, mut nonsense_count) = (Effects::default(), 0);
            let nonsense_count = &mut nonsense_count;
            let mut cx = Cx {
                me: id(node),
                now,
                stamp: Stamp(1),
                random: 0,
                peers: &self.peers,
                wants_frontiers: true,
                proposes_late: false,
                nonsense_count,
            };
            replica.step(&mut cx, event, &mut out);
            for effect in out.list {
                match effect {
                    Effect::Send { to, message, .. } if to == id(node) => {
                        events.push_back(Event::Received { from: to, message });
                    }
                    Effect::Send { to, message, .. } => {
                        let mut bytes = Vec::new();
                        message.encode(&mut bytes);
                        *state.network.entry((node, to.0 as usize - 1, bytes.into())).or_default() += 1;
                    }
                    Effect::Answered(answer) => answers.push(answer),
                    _ => {}
                }
            }
        }
        replica.check();
        state.nodes[node] = Node::Up(Arc::new(replica));
        answers.into_iter().for_each(|answer| answered(state, answer));
    }
}

fn answered(state: &mut State, answer: Answer) {
    let (token, returned) = match answer {
        Answer::Written { token } => (token, RegisterRet::WriteOk),
        Answer::Value { token, content: Content::Value { bytes, .. }, .. } => {
            (token, RegisterRet::ReadOk(char::from(bytes[0])))
        }
        Answer::Value { token, content: Content::Tombstone, .. } => (token, RegisterRet::ReadOk('-')),
        // The client never hears of it: it may have happened, and nothing comes after it.
        _ => return,
    };
    let client = token as usize / 10;
    state.seen.on_return(client, returned).expect("it was asked");
    state.clients[client] = Client { done: state.clients[client].done + 1, asked: false };
}

fn agrees(state: &State) -> bool {
    let mut known: BTreeMap<Epoch, &Stage> = BTreeMap::new();
    let replicas = state.nodes.iter().filter_map(|node| match node {
        Node::Up(replica) | Node::Down(replica) => Some(replica),
        Node::Unborn => None,
    });
    replicas.flat_map(|replica| replica.stages()).all(|stage| *known.entry(stage.epoch()).or_insert(stage) == stage)
}

fn newest(state: &State) -> Epoch {
    let views = state.nodes.iter().filter_map(|node| match node {
        Node::Up(replica) => Some(replica.view().newest),
        _ => None,
    });
    views.max().unwrap_or_default()
}

impl Model for Group {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let first = self.first();
        // One write is done, and the other candidate is on its way while the first has votes.
        let mut written = first.clone();
        self.apply(&mut written, &Action::Ask(0));
        let written = self.run(written, |state| state.clients[0].done == 1);
        let mut competing = written.clone();
        self.apply(&mut competing, &Action::Campaign(0));
        let mut decided = self.run(competing.clone(), |state| newest(state) == Epoch(2));
        self.apply(&mut competing, &Action::Campaign(1));
        self.apply(&mut decided, &Action::Campaign(1));
        vec![first, competing, decided]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (from, to, bytes) in state.network.keys() {
            if !matches!(state.nodes[*to], Node::Down(_)) {
                actions.push(Action::Deliver(*from, *to, bytes.clone()));
            }
        }
        let is_up = |node: usize| matches!(state.nodes[node], Node::Up(_));
        for (client, (node, story)) in CLIENTS.iter().enumerate() {
            let Client { done, asked } = state.clients[client];
            if is_up(*node) && !asked && done < story.len() {
                actions.push(Action::Ask(client));
            }
        }
        actions.extend((0..2).filter(|&node| is_up(node) && !state.candidates[node]).map(Action::Campaign));
        if !state.crashed {
            actions.extend((0..2).filter(|&node| is_up(node)).map(Action::Crash));
        } else if !state.restarted {
            actions.extend((0..2).filter(|&node| !is_up(node)).map(Action::Restart));
            actions.extend((0..4).filter(|&node| is_up(node) && !state.noticed[node]).map(Action::Notice));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, &action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("linearizable", |_, state: &State| state.seen.serialized_history().is_some()),
            Property::always("one configuration by each epoch", |_, state| agrees(state)),
        ]
    }
}

fn group() -> Group {
    Group { peers: Arc::new(Peers::new(Timing::default(), Instant(0), 1)) }
}

/// How many states there are up to the one where a rule is broken, if any is.
fn explore(states: usize) -> (usize, Option<String>) {
    let checker = group().checker().threads(2).target_state_count(states).spawn_bfs().join();
    let broken = checker.discoveries().into_iter().next();
    println!("{} states, up to {} steps deep", checker.unique_state_count(), checker.max_depth());
    (checker.unique_state_count(), broken.map(|(name, path)| format!("{name}: {:#?}", path.into_actions())))
}

#[test]
fn every_order_of_events_is_linearizable() {
    let (count, broken) = explore(60_000);
    assert_eq!(broken, None);
    assert!(count > 20_000, "{count} states");
}

/// Half a minute, and 5 GiB of memory.
#[cfg(not(feature = "planted"))]
#[test]
#[ignore = "more than a million states"]
fn a_million_states_are_linearizable() {
    let (count, broken) = explore(4_000_000);
    assert_eq!(broken, None);
    assert!(count > 1_000_000, "{count} states");
}

#[cfg(feature = "planted")]
#[test]
#[ignore = "mutates the whole process: run alone"]
fn planted_early_retirement_is_found() {
    use quorate_protocol::planted::{Planted, select};
    select(Some(Planted::RegisterRetiresEarly));
    let (count, broken) = explore(1_000_000);
    select(None);
    let broken = broken.unwrap_or_else(|| panic!("not within {count} states"));
    println!("{broken}");
    assert!(broken.starts_with("linearizable"), "{broken}");
}
