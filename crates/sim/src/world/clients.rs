//! The clients: each keeps one connection to some node, sends calls in pipelines and remembers what it was told.

use quorate_node::Answer;

use super::node::ClientCall;
use super::{ORIGIN_MS, Settings, Sometimes, World};
use crate::history::{Action, Call, CallId, Connection, Fate, History};
use crate::random::Random;
use crate::workload::{Workload, fate};

pub struct Clients {
    workload: Workload,
    readers: usize,
    random: Random,
    list: Vec<Client>,
    connections: u32,
    /// Calls sent so far.
    pub sent: u64,
    answered: u64,
    /// The calls that end a run: a read of every object at every node. `None` until the faults are over.
    last_reads: Option<Vec<LastRead>>,
}

#[derive(Clone)]
struct LastRead {
    node: usize,
    call: Call,
}

struct Client {
    node: usize,
    connection: Connection,
    /// Unanswered calls by their number at the node.
    open: Vec<Open>,
}

struct Open {
    number: u64,
    id: CallId,
}

impl Clients {
    pub fn new(settings: &Settings, mut random: Random) -> Clients {
        let list = (0..settings.clients)
            .map(|client| Client {
                node: (client % settings.nodes) as usize,
                connection: Connection(client),
                open: Vec::new(),
            })
            .collect();
        let workload = Workload::new(random.next_u64(), settings.shape);
        let connections = settings.clients;
        Clients {
            workload,
            readers: settings.readers as usize,
            random,
            list,
            connections,
            sent: 0,
            answered: 0,
            last_reads: None,
        }
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    fn next_calls(&mut self, which: usize, now_ms: i64) -> Vec<Call> {
        if which < self.readers { vec![self.workload.next_read()] } else { self.workload.next_calls(now_ms) }
    }

    pub fn is_done(&self) -> bool {
        self.last_reads.as_ref().is_some_and(Vec::is_empty) && self.list.iter().all(|client| client.open.is_empty())
    }

    /// What clients still wait for, in words, for a run that does not end.
    pub fn unrest(&self, history: &History) -> String {
        let waits = |client: &Client| {
            let calls =
                client.open.iter().map(|open| format!("{:?}", history.record(open.id).call)).collect::<Vec<_>>();
            (!calls.is_empty())
                .then(|| format!("\n  a client waits at node {} for {}", client.node + 1, calls.join(", ")))
        };
        let reads = self
            .last_reads
            .iter()
            .flatten()
            .map(|read| format!("\n  to be read at node {}: {:?}", read.node + 1, read.call));
        self.list.iter().filter_map(waits).chain(reads.take(10)).collect()
    }

    /// From now on every object is read once more at every one of so many nodes, and then no more.
    pub fn finish(&mut self, nodes: usize) {
        let reads_at = |node| self.workload.last_reads().into_iter().map(move |call| LastRead { node, call });
        self.last_reads = Some((0..nodes).flat_map(reads_at).collect());
    }

    fn connect(&mut self, which: usize, node: usize) {
        self.connections += 1;
        let client = &mut self.list[which];
        (client.node, client.connection) = (node, Connection(self.connections));
    }

    /// The node is gone: nobody will learn what became of the calls that it had. Names the clients that had some.
    pub fn lose_node(&mut self, node: usize, history: &mut History, sometimes: &mut Sometimes) -> Vec<usize> {
        let mut bereft = Vec::new();
        for (which, client) in self.list.iter_mut().enumerate().filter(|(_, client)| client.node == node) {
            if !client.open.is_empty() {
                bereft.push(which);
            }
            for open in client.open.drain(..) {
                sometimes.unknown_outcome += 1;
                if let (Some(reads), record) = (&mut self.last_reads, history.record(open.id)) {
                    reads.push(LastRead { node, call: record.call.clone() });
                }
            }
            self.connections += 1;
            client.connection = Connection(self.connections);
        }
        bereft
    }

    /// Records an answer. Names the client if it has all its answers now.
    pub fn answer(
        &mut self,
        node: usize,
        number: u64,
        answer: Answer,
        at_us: u64,
        history: &mut History,
        sometimes: &mut Sometimes,
    ) -> Option<usize> {
        let holds = |client: &Client| client.node == node && client.open.iter().any(|open| open.number == number);
        let which = self.list.iter().position(holds)?;
        let client = &mut self.list[which];
        let at = client.open.iter().position(|open| open.number == number)?;
        let open = client.open.remove(at);
        let fate = fate_of(&answer, at_us);
        self.answered += 1;
        let call = history.record(open.id).call.clone();
        match &fate {
            // It may still take effect, and after what the client does next: nothing orders the two any more.
            Fate::Unknown => {
                sometimes.unknown_outcome += 1;
                self.connections += 1;
                self.list[which].connection = Connection(self.connections);
            }
            Fate::Answered { answer, .. } => self.workload.observe(&call, answer),
            Fate::NotExecuted => {}
        }
        if let Some(reads) = &mut self.last_reads
            && !matches!(fate, Fate::Answered { .. })
        {
            // A write may have been refused for what the object is.
            reads.push(LastRead { node, call: Call { action: Action::Get, ..call } });
        }
        if fate != Fate::Unknown {
            history.settle(open.id, fate);
        }
        self.list[which].open.is_empty().then_some(which)
    }
}

fn fate_of(answer: &Answer, at_us: u64) -> Fate {
    match answer {
        Answer::Outcome(outcome) => fate(outcome, at_us),
        Answer::Failed(quorate_node::Failure::Timeout) => Fate::Unknown,
        Answer::Failed(_) => Fate::NotExecuted,
        Answer::Admin(_) => panic!("clients ask nothing of the kind: {answer:?}"),
    }
}

impl World {
    /// A client whose calls are answered sends the next ones, if its node is up; else it goes elsewhere.
    pub(super) fn wake_client(&mut self, which: usize) {
        if !self.clients.list[which].open.is_empty() {
            return;
        }
        if self.clients.last_reads.is_none() && self.clients.sent >= self.settings.calls && self.faults_are_enough() {
            self.start_healing();
        }
        if let Some(reads) = &mut self.clients.last_reads {
            let read = reads.pop();
            return self.send_last_read(which, read);
        }
        let down = !self.nodes[self.clients.list[which].node].is_up();
        if down || self.clients.random.chance(3) {
            self.reconnect(which);
        }
        let node = self.clients.list[which].node;
        if !self.nodes[node].is_up() {
            return self.plan(50_000, super::Event::Client { client: which });
        }
        for call in self.clients.next_calls(which, (ORIGIN_MS + self.now_us / 1000) as i64) {
            self.send_call(which, node, call);
        }
    }

    /// Sends one of the reads that end the run. A read that failed comes back, so a client without one asks again later.
    fn send_last_read(&mut self, which: usize, read: Option<LastRead>) {
        match read {
            Some(LastRead { node, call }) if self.nodes[node].is_up() => {
                self.clients.connect(which, node);
                self.send_call(which, node, call);
            }
            read => {
                self.clients.last_reads.iter_mut().for_each(|reads| reads.extend(read.clone()));
                self.plan(100_000, super::Event::Client { client: which });
            }
        }
    }

    fn reconnect(&mut self, which: usize) {
        let up: Vec<usize> = (0..self.nodes.len()).filter(|&node| self.nodes[node].is_up()).collect();
        let node = if up.is_empty() { self.clients.list[which].node } else { *self.clients.random.pick(&up) };
        self.clients.connect(which, node);
    }

    fn send_call(&mut self, which: usize, node: usize, call: Call) {
        let number = self.nodes[node].number_next;
        self.nodes[node].number_next += 1;
        let client = &mut self.clients.list[which];
        let same_object = |open: &&Open| self.history.record(open.id).call.object == call.object;
        let predecessor = client.open.iter().rev().find(same_object).map(|open| open.number);
        let id = self.history.invoke(client.connection, call.clone(), self.now_us);
        client.open.push(Open { number, id });
        self.clients.sent += 1;
        let slot = quorate_object::slot_of_key(call.object.to_string().as_bytes());
        self.call_node(node, ClientCall { number, predecessor, slot, call });
    }
}
