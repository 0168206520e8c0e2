//! Clusters of nodes on threads of the test's process, and a client that speaks raw RESP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use quorate_server::config::{
    Auth, Cluster, ClusterId, Config, Defaults, Limits, Listen, Log, Member, Node, Secret, Storage, Timing, Tls,
};

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

/// Nodes of one cluster, each started or not.
pub struct Nodes {
    pub configs: Vec<Config>,
    /// What tells each node the memory in use, if not the process's own.
    pub meters: Vec<Option<quorate_server::Meter>>,
    running: Vec<Option<quorate_server::Node>>,
    pub directory: PathBuf,
}

impl Nodes {
    pub fn new(count: usize) -> Nodes {
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("quorate-server-{}-{number}", std::process::id()));
        let listens: Vec<Listen> = free_ports(count);
        let member = |(index, listen): (usize, &Listen)| Member {
            id: index as u32 + 1,
            name: format!("n{}", index + 1),
            client: listen.client.into(),
            peer: listen.peer.into(),
            admin: listen.admin.into(),
        };
        let cluster = Cluster {
            id: ClusterId(0xc0ffee),
            secret: Secret::new("known to all of the cluster".into()),
            nodes: listens.iter().enumerate().map(member).collect(),
        };
        let config = |(index, listen): (usize, &Listen)| Config {
            node: Node {
                id: index as u32 + 1,
                name: format!("n{}", index + 1),
                data_dir: directory.join(format!("node-{}", index + 1)),
                directory: 1,
                joins: false,
                ephemeral: false,
            },
            listen: *listen,
            cluster: cluster.clone(),
            auth: Auth::default(),
            tls: Tls::default(),
            defaults: Defaults { volumes: 8, ..Defaults::default() },
            timing: Timing::default(),
            limits: Limits::default(),
            storage: Storage::default(),
            groups: Default::default(),
            log: Log::default(),
            applications: Vec::new(),
        };
        let configs = listens.iter().enumerate().map(config).collect();
        Nodes { configs, meters: vec![None; count], running: (0..count).map(|_| None).collect(), directory }
    }

    pub fn started(count: usize) -> Nodes {
        let mut nodes = Nodes::new(count);
        (0..count).for_each(|index| nodes.start(index));
        nodes
    }

    pub fn start(&mut self, index: usize) {
        let config = self.configs[index].clone();
        let started = match self.meters[index] {
            Some(meter) => quorate_server::Node::start_metered(config, meter),
            None => quorate_server::Node::start(config),
        };
        self.running[index] = Some(started.expect("the node starts"));
    }

    /// Ends the node as a crash of its process would.
    pub fn kill(&mut self, index: usize) {
        let node = self.running[index].take().expect("the node runs");
        node.stopper().kill();
        node.wait().expect("it ends without an error");
    }

    pub fn stop(&mut self, index: usize) {
        let node = self.running[index].take().expect("the node runs");
        node.stopper().stop();
        node.wait().expect("it stops cleanly");
    }

    /// Stops every node at the same time.
    pub fn stop_all(&mut self) {
        let running: Vec<_> = self.running.iter_mut().filter_map(Option::take).collect();
        running.iter().for_each(|node| node.stopper().stop());
        running.into_iter().for_each(|node| node.wait().expect("it stops cleanly"));
    }

    pub fn reloader(&self, index: usize) -> quorate_server::Reloader {
        self.running[index].as_ref().expect("the node runs").reloader()
    }

    pub fn client(&self, index: usize) -> Client {
        Client::connect(self.configs[index].listen.client)
    }

    /// What the node's HTTP answers to a request line such as `GET /readyz`: status and body.
    pub fn http(&self, index: usize, request: &str) -> (u16, String) {
        self.http_with(index, request, "")
    }

    /// The same with more header lines, each with its end.
    pub fn http_with(&self, index: usize, request: &str, headers: &str) -> (u16, String) {
        self.http_sending(index, request, headers, "")
    }

    /// The same with a body.
    pub fn http_sending(&self, index: usize, request: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.configs[index].listen.admin).expect("HTTP is served");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let lines = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}{length}\r\n{body}");
        stream.write_all(lines.as_bytes()).expect("it is read");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response in time");
        let status = response.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in self.running.iter_mut().filter_map(Option::take) {
            node.stopper().kill();
            let _ = node.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Below the ports that the system gives to clients: one of those could be taken before its node listens.
const PORTS: Range<u16> = 12_000..32_000;
static PORTS_TRIED: AtomicU32 = AtomicU32::new(0);

/// Ports that nobody uses now, none of them twice.
fn free_ports(count: usize) -> Vec<Listen> {
    let tried = || {
        let number = std::process::id().wrapping_mul(97).wrapping_add(PORTS_TRIED.fetch_add(1, Ordering::Relaxed));
        SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + (number % PORTS.len() as u32) as u16))
    };
    let mut free = std::iter::repeat_with(tried).filter(|address| TcpListener::bind(address).is_ok());
    let mut next = || free.next().expect("it does not end");
    (0..count).map(|_| Listen { client: next(), peer: next(), admin: next() }).collect()
}

pub struct Client {
    pub stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("clients are served");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
        stream.set_nodelay(true).expect("it is open");
        Client { stream, received: Vec::new() }
    }

    pub fn send(&mut self, words: &[&str]) {
        let mut request = Vec::new();
        quorate_resp::write_request(&mut request, words);
        self.stream.write_all(&request).expect("it is read");
    }

    /// The next line that arrives, without its end.
    pub fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.received.windows(2).position(|bytes| bytes == b"\r\n") {
                let line = String::from_utf8_lossy(&self.received[..at]).into_owned();
                self.received.drain(..at + 2);
                return line;
            }
            let mut buffer = [0; 4096];
            let length = self.stream.read(&mut buffer).expect("an answer in time");
            assert!(length > 0, "the node closed the connection behind {:?}", self.received);
            self.received.extend_from_slice(&buffer[..length]);
        }
    }

    /// One command and the first line of its reply, or the second for a bulk string.
    pub fn call(&mut self, words: &[&str]) -> String {
        self.send(words);
        let line = self.line();
        if line.starts_with('$') && line != "$-1" { self.line() } else { line }
    }

    /// Repeats a command until its reply is no passing refusal.
    pub fn call_until_served(&mut self, words: &[&str]) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reply = self.call(words);
            let is_passing = ["-NOQUORUM", "-LOADING", "-TRYAGAIN"].iter().any(|code| reply.starts_with(code));
            if !is_passing || Instant::now() > deadline {
                return reply;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
