//! A front over a backend in memory: real objects, one table a volume, and answers in an order of the test's choice.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;

use quorate_front::{
    Access, Answer, Backend, ConnectionId, Failure, Front, InfoSection, Limits, ObjectCount, OperationId, Progress,
    ReplyTree, Request, SLOT_COUNT, ServerInfo, Target, Verdict,
};
use quorate_object::Objects;

/// The time at which every test happens.
pub(crate) const NOW_MS: u64 = 1_700_000_000_123;

pub(crate) const VOLUME_COUNT: u32 = 8;

/// Executes at once, in the order of submission, and keeps the answers.
pub(crate) struct MemoryBackend {
    pub(crate) volumes: BTreeMap<(u32, u32), Objects>,
    pub(crate) namespaces: Vec<u32>,
    pub(crate) volume_count: u32,
    /// It knows nothing of the cluster yet.
    pub(crate) is_loading: bool,
    /// Answers not yet delivered, in the order of submission.
    pub(crate) answers: Vec<(OperationId, Answer)>,
    /// What has been submitted: number, predecessor, and what about.
    pub(crate) log: Vec<(u64, Option<u64>, String)>,
    /// Passwords that have been tried, with whoever waits for a verdict.
    pub(crate) passwords: Vec<(ConnectionId, Vec<u8>)>,
    /// Failures for operations on these keys, which are then not executed.
    pub(crate) failing: BTreeMap<Vec<u8>, Failure>,
    /// How many answers may wait before nothing more is taken.
    pub(crate) answers_max: usize,
}

impl Default for MemoryBackend {
    fn default() -> Self {
        MemoryBackend {
            volumes: BTreeMap::new(),
            namespaces: vec![0, 1],
            volume_count: VOLUME_COUNT,
            is_loading: false,
            answers: Vec::new(),
            log: Vec::new(),
            passwords: Vec::new(),
            failing: BTreeMap::new(),
            answers_max: usize::MAX,
        }
    }
}

impl MemoryBackend {
    fn objects(&mut self, namespace: u32, volume: u32) -> &mut Objects {
        self.volumes.entry((namespace, volume)).or_insert_with(|| Objects::new([7; 16]))
    }

    fn execute(&mut self, request: &Request<'_>) -> Answer {
        let namespace = request.namespace;
        match &request.target {
            Target::Object { slot, key, command } => {
                assert_eq!(*slot, quorate_front::slot_of_key(key));
                assert!(command.keys().next() == Some(*key), "{command:?}");
                if let Some(failure) = self.failing.get(*key) {
                    return Answer::Failed(failure.clone());
                }
                let volume = u32::from(*slot) * self.volume_count / u32::from(SLOT_COUNT);
                Answer::Outcome(self.objects(namespace, volume).run(command, NOW_MS, 0))
            }
            Target::Volume { index, command } => {
                Answer::Outcome(self.objects(namespace, *index).run(command, NOW_MS, 0))
            }
            Target::Admin { words } => Answer::Tree(admin(words)),
        }
    }
}

/// Answers in every shape that there is.
fn admin(words: &[Vec<u8>]) -> ReplyTree {
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
    match words.get(1).map(String::as_str) {
        Some("ok") => ReplyTree::ok(),
        Some("tree") => ReplyTree::Map(vec![
            ("name".into(), ReplyTree::Text("n1".into())),
            ("volumes".into(), ReplyTree::Integer(64)),
            ("load".into(), ReplyTree::Double(0.5)),
            ("up".into(), ReplyTree::Boolean(true)),
            ("parent".into(), ReplyTree::Null),
            ("words".into(), ReplyTree::Array(words.into_iter().map(ReplyTree::Simple).collect())),
        ]),
        _ => ReplyTree::Error("ERR unknown subcommand".into()),
    }
}

impl Backend for MemoryBackend {
    fn has_room(&self) -> bool {
        self.answers.len() < self.answers_max
    }

    fn submit(&mut self, request: Request<'_>) {
        let what = match &request.target {
            Target::Object { key, .. } => format!("object {}", key.escape_ascii()),
            Target::Volume { index, .. } => format!("volume {index}"),
            Target::Admin { .. } => "admin".to_string(),
        };
        self.log.push((request.operation.0, request.predecessor.map(|id| id.0), what));
        let answer = self.execute(&request);
        self.answers.push((request.operation, answer));
    }

    /// `known` and `unknown` are right and wrong at once, anything else takes a while.
    fn verify(&mut self, connection: ConnectionId, address: &str, password: &[u8]) -> Option<Verdict> {
        assert_eq!(address, "127.0.0.1:50000");
        match password {
            b"known" => Some(Verdict::Right),
            b"unknown" => Some(Verdict::Wrong),
            _ => {
                self.passwords.push((connection, password.to_vec()));
                None
            }
        }
    }

    fn namespace_exists(&self, namespace: u32) -> bool {
        self.namespaces.contains(&namespace)
    }

    fn namespaces(&self) -> Vec<u32> {
        self.namespaces.clone()
    }

    fn application(&self, name: &[u8]) -> Option<usize> {
        [&b"counter"[..], b"other"].iter().position(|known| *known == name)
    }

    fn volumes(&self, namespace: u32) -> Option<u32> {
        let count = if self.namespace_exists(namespace) { self.volume_count } else { 0 };
        (!self.is_loading).then_some(count)
    }

    fn server_info(&mut self) -> ServerInfo {
        let count = ObjectCount::default();
        ServerInfo {
            quorate_version: "0.1.0".into(),
            node_name: "n1".into(),
            node_id: 1,
            port: 7000,
            clients_max: 10_000,
            objects: vec![ObjectCount { objects: 3, expiring: 2, ..count }, ObjectCount { namespace: 1, ..count }],
            sections: vec![InfoSection { title: "Quorate".into(), fields: vec![("volumes".into(), "64".into())] }],
            ..ServerInfo::default()
        }
    }

    fn config(&self) -> Vec<(&'static str, String)> {
        vec![("save", String::new()), ("appendonly", "no".into()), ("maxmemory", "0".into()), ("databases", "2".into())]
    }
}

/// One client's view of a front.
pub(crate) struct Talk {
    pub(crate) front: Front,
    pub(crate) backend: MemoryBackend,
    pub(crate) id: ConnectionId,
    pub(crate) input: Vec<u8>,
}

impl Default for Talk {
    fn default() -> Self {
        Talk::new(Limits::default())
    }
}

impl Talk {
    pub(crate) fn new(limits: Limits) -> Talk {
        Talk::with(limits, Access::Open)
    }

    pub(crate) fn with(limits: Limits, access: Access) -> Talk {
        let mut front = Front::new(limits, access);
        let id = front.connected("127.0.0.1:50000".into(), "127.0.0.1:7000".into(), NOW_MS);
        Talk { front, backend: MemoryBackend::default(), id, input: Vec::new() }
    }

    /// Sends bytes and delivers no answer yet.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> Progress {
        self.input.extend_from_slice(bytes.as_ref());
        self.front.received(self.id, &mut self.input, NOW_MS, &mut self.backend)
    }

    /// Delivers the answer with this number among those that wait.
    pub(crate) fn deliver(&mut self, number: usize) -> Option<ConnectionId> {
        let (operation, answer) = self.backend.answers.remove(number);
        self.front.completed(operation, answer)
    }

    /// Delivers all answers in an order that `choose` makes out of their number, and goes on with held requests.
    pub(crate) fn deliver_all(&mut self, mut choose: impl FnMut(usize) -> usize) {
        loop {
            while !self.backend.answers.is_empty() {
                let number = choose(self.backend.answers.len());
                self.deliver(number);
            }
            let length = self.input.len();
            self.send(b"");
            if self.backend.answers.is_empty() && self.input.len() == length {
                return;
            }
        }
    }

    /// What the client reads now, escaped.
    pub(crate) fn read(&mut self) -> String {
        let output = std::mem::take(self.front.output(self.id));
        output.escape_ascii().to_string()
    }

    /// Sends a line and reads everything that there is to read.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n"));
        self.deliver_all(|_| 0);
        self.read()
    }
}

/// A small generator of pseudo-random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}
