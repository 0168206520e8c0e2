//! Clusters, each in a directory and on ports of its own; as many at once as there are threads for tests. Whatever was started ends with its value, also when
//! the test fails; then the directory stays, for whoever looks for the reason.

use std::fs::{File, OpenOptions};
use std::io::{Write, stderr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_node::status::Status;
use redis::{Connection, RedisResult};

use crate::network::{self, Network};

/// Time enough for whatever must happen at all, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the program promises for SIGTERM.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// How long a client waits for a reply: longer than the server may take to say TIMEOUT.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

pub(crate) struct Cluster {
    scratch: PathBuf,
    ports: Ports,
    up: Option<Child>,
    /// Nodes that were started by hand.
    by_hand: Vec<Option<Child>>,
    /// Where they are, if not all on this machine's loopback.
    network: Option<Network>,
}

#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) client: u16,
    pub(crate) admin: u16,
}

impl Cluster {
    /// Nothing runs yet.
    pub(crate) fn new(name: &str, node_count: usize) -> Cluster {
        let scratch = std::env::temp_dir().join(format!("quorate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).expect("a directory of its own");
        let by_hand = (0..node_count).map(|_| None).collect();
        Cluster { scratch, ports: Ports::free(node_count as u16), up: None, by_hand, network: None }
    }

    /// All nodes are up, started by hand, each in a network namespace of its own. None, and a word of it, where there may be
    /// no such thing.
    pub(crate) fn started_apart(name: &str, node_count: usize) -> Option<Cluster> {
        let network = match Network::make(node_count) {
            Ok(network) => network,
            Err(reason) => {
                // Not by a macro for printing, of which nothing is shown where a test passes; and in one piece.
                let word = format!("\nSKIPPED: {name}: no node can be cut off here: {reason}\n");
                let _ = stderr().write_all(word.as_bytes());
                return None;
            }
        };
        let mut cluster = Cluster::new(name, node_count);
        for (index, configuration) in network.configurations().iter().enumerate() {
            let directory = cluster.node_directory(index);
            std::fs::create_dir_all(&directory).expect("a directory of its own");
            std::fs::write(directory.join("node.toml"), configuration.to_toml()).expect("writable");
        }
        cluster.network = Some(network);
        cluster.start_all_by_hand();
        Some(cluster)
    }

    pub(crate) fn network(&self) -> &Network {
        self.network.as_ref().expect("the nodes are apart")
    }

    /// All nodes are up.
    pub(crate) fn started(name: &str, node_count: usize) -> Cluster {
        let mut cluster = Cluster::new(name, node_count);
        cluster.up();
        cluster
    }

    /// `quorate up`, until every node answers and it has seen that too: one killed before is one that could not start.
    pub(crate) fn up(&mut self) {
        self.up_as(self.up_command());
    }

    /// The same with a command of one's own, which lacks but the number of nodes and the ports.
    pub(crate) fn up_as(&mut self, mut command: Command) {
        command.args(["--nodes", &self.by_hand.len().to_string()]);
        command.arg("--port").arg(self.ports.client.to_string());
        command.arg("--admin-port").arg(self.ports.admin.to_string());
        let log = self.scratch.join("up.log");
        let told_before = self.told().len();
        self.up = Some(spawn(&mut command, &log));
        until("the nodes answer", || {
            let ended = self.up.as_mut().expect("just started").try_wait().expect("ours to wait for");
            let told = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "up ended: {}", told());
            told().len() > told_before && (0..self.by_hand.len()).all(|index| self.answers(index))
        });
    }

    /// `quorate up --dir` on this cluster's directory, not started.
    pub(crate) fn up_command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.arg("up").arg("--dir").arg(self.data()).stdin(Stdio::null());
        command
    }

    /// What `up` has told.
    pub(crate) fn told(&self) -> String {
        std::fs::read_to_string(self.scratch.join("up.log")).unwrap_or_default()
    }

    /// A directory of this cluster's own.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports
    }

    pub(crate) fn node_count(&self) -> usize {
        self.by_hand.len()
    }

    /// `kill -9`; returns when the process is gone.
    pub(crate) fn kill(&mut self, index: usize) {
        let pid = self.pid(index).expect("the node runs");
        self.signal(index, libc::SIGKILL);
        self.reap(index);
        until("the killed node is gone", || !Path::new(&format!("/proc/{pid}")).exists());
    }

    pub(crate) fn signal(&self, index: usize, signal: libc::c_int) {
        let pid = self.pid(index).expect("the node runs");
        // SAFETY: a plain system call, and the process is of this cluster.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "node {} takes signal {signal}", index + 1);
    }

    /// Makes the node stand still. Until its first thread has taken the signal, the others may run on.
    pub(crate) fn freeze(&self, index: usize) {
        let pid = self.pid(index).expect("the node runs");
        self.signal(index, libc::SIGSTOP);
        until("the node stands still", || {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the node runs");
            threads.flatten().all(|thread| stands_still(&thread.path()))
        });
    }

    /// `quorate node --config DIR/node-i/node.toml`, until it answers.
    pub(crate) fn start_by_hand(&mut self, index: usize) {
        self.start_by_hand_under(index, &[]);
    }

    /// The same for all nodes, at once.
    pub(crate) fn start_all_by_hand(&mut self) {
        (0..self.node_count()).for_each(|index| self.spawn_by_hand(index, &[]));
        (0..self.node_count()).for_each(|index| self.wait_for_answer(index));
    }

    /// The same under another program, whose words come first.
    pub(crate) fn start_by_hand_under(&mut self, index: usize, wrapper: &[&str]) {
        self.spawn_by_hand(index, wrapper);
        self.wait_for_answer(index);
    }

    /// There is place for one more node, which is not started.
    pub(crate) fn one_more(&mut self) {
        self.by_hand.push(None);
    }

    /// The last node does not count any more, and does not run.
    pub(crate) fn one_fewer(&mut self) {
        let last = self.by_hand.pop().expect("there are nodes");
        assert!(last.is_none(), "it does not run");
    }

    pub(crate) fn spawn_by_hand(&mut self, index: usize, wrapper: &[&str]) {
        let directory = self.node_directory(index);
        let words: Vec<&str> = wrapper.iter().copied().chain([env!("CARGO_BIN_EXE_quorate")]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("node").arg("--config").arg(directory.join("node.toml")).stdin(Stdio::null());
        if let Some(network) = &self.network {
            let namespace = network.namespace(index);
            // SAFETY: the closure makes one plain system call, which is allowed between fork and exec.
            unsafe { command.pre_exec(move || network::enter(namespace)) };
        }
        self.by_hand[index] = Some(spawn(&mut command, &directory.join("log")));
    }

    pub(crate) fn wait_for_answer(&mut self, index: usize) {
        until("the node answers", || {
            let child = self.by_hand[index].as_mut().expect("just started");
            let ended = child.try_wait().expect("ours to wait for");
            assert!(ended.is_none(), "node {} ended: {ended:?}", index + 1);
            self.answers(index)
        });
    }

    /// Waits until a node that was started by hand has ended by itself: its exit status.
    pub(crate) fn wait_by_hand(&mut self, index: usize) -> Option<i32> {
        let mut child = self.by_hand[index].take().expect("started by hand");
        ended_within(&mut child, PATIENCE).expect("it ends by itself").code()
    }

    /// What a node that was started by hand has logged.
    pub(crate) fn log_of(&self, index: usize) -> String {
        std::fs::read_to_string(self.node_directory(index).join("log")).unwrap_or_default()
    }

    /// SIGTERM to a node that was started by hand; it must end well and in time.
    pub(crate) fn stop_by_hand(&mut self, index: usize) {
        self.signal(index, libc::SIGTERM);
        let child = self.by_hand[index].as_mut().expect("started by hand");
        let status = ended_within(child, STOPPED_WITHIN).expect("a node ends within ten seconds of SIGTERM");
        assert!(status.success(), "node {} ended with {status}", index + 1);
        self.by_hand[index] = None;
    }

    /// SIGTERM to `up`, which must stop its nodes well and in time.
    pub(crate) fn down(&mut self) {
        let mut up = self.up.take().expect("up runs");
        terminate(&up);
        let status = ended_within(&mut up, STOPPED_WITHIN + Duration::from_secs(1)).expect("up ends in time");
        assert!(status.success(), "up ended with {status}: {}", self.told());
    }

    pub(crate) fn stop_all(&mut self) {
        for index in 0..self.by_hand.len() {
            if self.by_hand[index].is_some() {
                self.stop_by_hand(index);
            }
        }
        if self.up.is_some() {
            self.down();
        }
    }

    pub(crate) fn client(&self, index: usize) -> Connection {
        self.try_client(index).expect("the node takes clients")
    }

    pub(crate) fn try_client(&self, index: usize) -> RedisResult<Connection> {
        match &self.network {
            Some(network) => network.at(index, || connect(self.address(index))),
            None => connect(self.address(index)),
        }
    }

    /// Where the node's clients find it; if the nodes are apart, those that are where it is.
    pub(crate) fn address(&self, index: usize) -> (&'static str, u16) {
        match &self.network {
            Some(network) => network.client_address(index),
            None => ("127.0.0.1", self.ports.client + index as u16),
        }
    }

    /// What some node that answers knows of the cluster.
    pub(crate) fn status(&self) -> Status {
        let told = (0..self.node_count()).find_map(|index| self.status_of(index).ok());
        told.expect("some node tells its status")
    }

    /// What this node knows of the cluster.
    pub(crate) fn status_of(&self, index: usize) -> RedisResult<Status> {
        let command = redis::cmd("QUORATE").arg("STATUS").arg("JSON").to_owned();
        let text: String = command.query(&mut self.try_client(index)?)?;
        Ok(serde_json::from_str(&text).expect("a status"))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.join("data")
    }

    pub(crate) fn node_directory(&self, index: usize) -> PathBuf {
        self.data().join(format!("node-{}", index + 1))
    }

    /// From its next start on: own groups rest almost at once, and only in the checkpoint store, and so do their names.
    pub(crate) fn rest_at_once(&self) {
        self.set_groups(&[("rest_after_ms", 200), ("resting_bytes", 0), ("records_bytes", 0)]);
    }

    /// From its next start on: these keys of the nodes' section `groups` have these values.
    pub(crate) fn set_groups(&self, values: &[(&str, u64)]) {
        for index in 0..self.node_count() {
            let config = self.node_directory(index).join("node.toml");
            let text = std::fs::read_to_string(&config).expect("it was written");
            let is_kept = |line: &&str| !values.iter().any(|(key, _)| line.starts_with(&format!("{key} = ")));
            let kept: String = text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
            let said: String = values.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
            std::fs::write(&config, kept.replace("[groups]\n", &format!("[groups]\n{said}"))).expect("written");
        }
    }

    fn answers(&self, index: usize) -> bool {
        self.try_client(index).is_ok_and(|mut client| redis::cmd("PING").query::<String>(&mut client).is_ok())
    }

    /// The node's process, if it is really a process of this cluster.
    fn pid(&self, index: usize) -> Option<libc::pid_t> {
        let directory = self.node_directory(index);
        let pid: libc::pid_t = std::fs::read_to_string(directory.join("pid")).ok()?.trim().parse().ok()?;
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let config = directory.join("node.toml");
        words.split(|&byte| byte == 0).any(|word| word == config.as_os_str().as_encoded_bytes()).then_some(pid)
    }

    /// Takes note of the end of a node that was started by hand; `up` does that for its own.
    fn reap(&mut self, index: usize) {
        if let Some(mut child) = self.by_hand[index].take() {
            child.wait().expect("ours to wait for");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // First `up`, which would report the deaths of its nodes, then the nodes that are left.
        if let Some(mut up) = self.up.take() {
            terminate(&up);
            if ended_within(&mut up, STOPPED_WITHIN + Duration::from_secs(2)).is_none() {
                let _ = up.kill();
                let _ = up.wait();
            }
        }
        for index in 0..self.by_hand.len() {
            if self.pid(index).is_some() {
                self.signal(index, libc::SIGKILL);
            }
            self.reap(index);
        }
        if thread::panicking() {
            println!("logs and data are kept in {}", self.scratch.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.scratch);
        }
    }
}

impl Ports {
    /// Ports that nobody uses now, below those that the system gives to clients. A block of them is given once only: whoever
    /// was given one may not listen yet.
    pub(crate) fn free(node_count: u16) -> Ports {
        const BLOCK: u16 = 32;
        static GIVEN: AtomicU16 = AtomicU16::new(0);
        let first = std::process::id() as u16 % BLOCKS;
        for _ in 0..BLOCKS {
            let block = (first + GIVEN.fetch_add(1, Ordering::Relaxed) % BLOCKS) % BLOCKS * BLOCK;
            // Peers are 10,000 above clients.
            let ports = Ports { client: 11_000 + block, admin: 29_000 + block };
            let starts = [ports.client, ports.client + 10_000, ports.admin];
            let mut all = starts.iter().flat_map(|start| (0..node_count).map(move |index| start + index));
            if all.all(|port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()) {
                return ports;
            }
        }
        panic!("no free ports");
    }
}

/// How many blocks of ports there are to choose from.
const BLOCKS: u16 = 110;

pub(crate) fn connect(address: (&str, u16)) -> RedisResult<Connection> {
    let client = redis::Client::open(address)?;
    let connection = client.get_connection_with_timeout(CONNECTED_WITHIN)?;
    connection.set_read_timeout(Some(ANSWERED_WITHIN))?;
    connection.set_write_timeout(Some(ANSWERED_WITHIN))?;
    Ok(connection)
}

/// A figure that a node has in INFO.
pub(crate) fn figure(client: &mut Connection, name: &str) -> u64 {
    let info: String = redis::cmd("INFO").arg("quorate").query(client).expect("told");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {info}"))
}

/// Waits for something that must happen.
pub(crate) fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "waited for {} s until {what}", PATIENCE.as_secs());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a thread, given by its directory in /proc, is stopped; one that has ended is, too.
fn stands_still(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
}

/// A process that gets SIGTERM should this one die, and whose output goes to the end of a file.
fn spawn(command: &mut Command, output: &Path) -> Child {
    let log: File = OpenOptions::new().create(true).append(true).open(output).expect("writable");
    command.stdout(log.try_clone().expect("another descriptor")).stderr(log);
    // SAFETY: the closure makes one plain system call, which is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command.spawn().expect("started")
}

fn terminate(child: &Child) {
    // SAFETY: a plain system call. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
}

fn ended_within(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + within;
    loop {
        match child.try_wait().expect("ours to wait for") {
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            ended => return ended,
        }
    }
}
