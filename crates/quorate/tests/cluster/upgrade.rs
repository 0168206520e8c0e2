//! A rolling upgrade, as clients see it: whose connection closes before an answer came says it again to another node, and that is all
//! that there is to notice.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redis::{Connection, ErrorKind, RedisResult, Value};

use crate::nodes::{Cluster, connect, until};

const CLIENTS_PER_NODE: usize = 4;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One client, with keys that nobody else writes.
struct Client {
    addresses: Vec<(&'static str, u16)>,
    at: usize,
    number: usize,
    namespace: u32,
    connection: Option<Connection>,
    count: u64,
    reconnections: u64,
    /// When each request was answered, and how long after it was first sent.
    answered: Vec<(Instant, Duration)>,
}

impl Client {
    /// An answer; a request whose connection closed before is sent to the next node. It has not been carried out: see
    /// docs/operations/running.md, "Stopping and starting".
    fn ask(&mut self, words: &[&str]) -> Value {
        let sent_at = Instant::now();
        loop {
            let asked = self.connected().and_then(|connection| {
                let mut command = redis::Cmd::new();
                command.arg(words);
                command.query::<Value>(connection)
            });
            match asked {
                Ok(answer) => {
                    self.answered.push((Instant::now(), sent_at.elapsed()));
                    return answer;
                }
                Err(error) if error.kind() == ErrorKind::Io && !error.is_timeout() => {
                    self.connection = None;
                    self.at = (self.at + 1) % self.addresses.len();
                    self.reconnections += 1;
                    // All three at once are never away.
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("{words:?} in namespace {} got {error}", self.namespace),
            }
        }
    }

    fn connected(&mut self) -> RedisResult<&mut Connection> {
        if self.connection.is_none() {
            let mut connection = connect(self.addresses[self.at])?;
            redis::cmd("SELECT").arg(self.namespace).exec(&mut connection)?;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("it was just made"))
    }

    /// One more write and a read of it. A counter tells of each increment that was lost or carried out twice.
    fn turn(&mut self, counts: bool) {
        self.count += 1;
        let (counter, register) = (format!("counter {}", self.number), format!("register {}", self.number));
        if counts {
            let count = i64::try_from(self.count).expect("it is small");
            assert_eq!(self.ask(&["INCR", &counter]), Value::Int(count), "{counter} of namespace {}", self.namespace);
        }
        let value = self.count.to_string();
        assert_eq!(self.ask(&["SET", &register, &value]), Value::Okay);
        assert_eq!(self.ask(&["GET", &register]), Value::BulkString(value.into_bytes()));
    }
}

struct Load {
    is_over: Arc<AtomicBool>,
    turns: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Client>>,
}

impl Load {
    /// On every node, in these namespaces.
    fn start(cluster: &Cluster, namespaces: &'static [u32]) -> Load {
        let (is_over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let addresses: Vec<_> = (0..cluster.node_count()).map(|index| cluster.address(index)).collect();
        let start = |number: usize| {
            let at = number % addresses.len();
            let namespace = namespaces[number / addresses.len() % namespaces.len()];
            let addresses = addresses.clone();
            let (connection, answered) = (None, Vec::new());
            let mut client =
                Client { addresses, at, number, namespace, connection, count: 0, reconnections: 0, answered };
            let (is_over, turns) = (is_over.clone(), turns.clone());
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    client.turn(namespace != REGISTERS);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
                client
            })
        };
        let threads = (0..CLIENTS_PER_NODE * cluster.node_count()).map(start).collect();
        Load { is_over, turns, threads }
    }

    fn wait_for_turns(&self, count: u64) {
        let goal = self.turns.load(Ordering::Relaxed) + count;
        until("clients go on", || self.turns.load(Ordering::Relaxed) >= goal);
    }

    fn stop(self) -> Vec<Client> {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().expect("no request fails")).collect()
    }
}

const CHAINS: u32 = 1;
const REGISTERS: u32 = 2;

fn command(cluster: &Cluster, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.arg("upgrade").args(words).args(["-p", &cluster.ports().client.to_string()]).stdin(Stdio::null());
    command
}

fn upgrade(cluster: &Cluster, words: &[&str]) -> Output {
    let data = cluster.data();
    let words = [words, &["--dir", data.to_str().expect("text")]].concat();
    command(cluster, &words).output().expect("started")
}

/// Standard output of one that must succeed.
fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How often each node was started.
fn starts(cluster: &Cluster) -> Vec<u32> {
    let status = cluster.status();
    status.nodes.iter().map(|node| node.own.as_ref().map_or(0, |own| own.starts)).collect()
}

/// What `QUORATE UPGRADE` answers.
fn said(cluster: &Cluster, words: &str) -> BTreeMap<String, Value> {
    let mut command = redis::cmd("QUORATE");
    command.arg("UPGRADE").arg(words.split(' ').collect::<Vec<_>>());
    let mut answer = Value::Nil;
    // A node that has just started does not know it yet.
    until("the cluster answers", || command.query(&mut cluster.client(0)).map(|told| answer = told).is_ok());
    match answer {
        Value::Okay => BTreeMap::new(),
        answer => redis::from_redis_value(answer).expect("a map"),
    }
}

fn state(cluster: &Cluster) -> String {
    match &said(cluster, "SHOW")["state"] {
        Value::BulkString(state) => String::from_utf8_lossy(state).into_owned(),
        other => panic!("the state is {other:?}"),
    }
}

/// A node may hear a moment later of what another was told.
fn wait_for_state(cluster: &Cluster, expected: &str) {
    until("the upgrade is where it should be", || state(cluster) == expected);
}

/// What clients of a namespace got from one moment to another, in words: the median and the least of windows of 100 ms, and times.
fn figures(clients: &[Client], namespace: u32, from: Instant, to: Instant) -> String {
    const WINDOW: Duration = Duration::from_millis(100);
    let of_namespace = clients.iter().filter(|client| client.namespace == namespace);
    let answered = of_namespace.flat_map(|client| &client.answered).filter(|(at, _)| (from..to).contains(at));
    let mut windows = vec![0; ((to - from).as_millis() / WINDOW.as_millis()) as usize];
    let mut times = Vec::new();
    for (at, took) in answered {
        if let Some(window) = windows.get_mut(((*at - from).as_millis() / WINDOW.as_millis()) as usize) {
            *window += 1;
        }
        times.push(took.as_secs_f64() * 1000.0);
    }
    let stalled: Vec<String> =
        windows.iter().enumerate().filter(|(_, count)| **count == 0).map(|(at, _)| format!("{at}00")).collect();
    windows.sort_unstable();
    times.sort_unstable_by(f64::total_cmp);
    let time = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!(
        "{} requests; in 100 ms {} in the median, {} at least; p50 {:.2} ms, p99 {:.2}, p99.9 {:.2}, most {:.1}; nothing in 100 ms after {} ms",
        times.len(),
        windows[windows.len() / 2],
        windows[0],
        time(0.5),
        time(0.99),
        time(0.999),
        time(1.0),
        if stalled.is_empty() { "no".to_owned() } else { stalled.join(", ") }
    )
}

#[test]
fn every_node_is_restarted_and_no_request_fails() {
    let mut cluster = Cluster::started("upgrade", 3);
    let mut client = cluster.client(0);
    for namespace in [["1", "PROTOCOL", "chain"], ["2", "PROTOCOL", "register"]] {
        let create = [&["NAMESPACE", "CREATE"][..], &namespace, &["VOLUMES", "8"]].concat();
        redis::cmd("QUORATE").arg(create).exec(&mut client).expect("created");
    }
    for index in 0..3 {
        until("the node knows all namespaces", || {
            let selected = |namespace: u32| {
                let mut client = cluster.client(index);
                redis::cmd("SELECT").arg(namespace).exec(&mut client)?;
                redis::cmd("GET").arg("key").query::<Option<String>>(&mut client)
            };
            [0, CHAINS, REGISTERS].into_iter().all(|namespace| selected(namespace).is_ok())
        });
    }
    let load = Load::start(&cluster, &[0, CHAINS, REGISTERS, 0]);
    load.wait_for_turns(500);
    let quiet = Instant::now();
    let quiet_s = std::env::var("QUORATE_QUIET_S").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(1);
    thread::sleep(Duration::from_secs(quiet_s));
    let disturbed = Instant::now();
    let planned = told(&upgrade(&cluster, &["--dry-run"]));
    assert_eq!(planned.lines().filter(|line| line.starts_with("would restart")).count(), 3, "{planned}");
    assert_eq!((starts(&cluster), state(&cluster)), (vec![1; 3], "none".to_owned()), "nothing was done");
    let done = told(&upgrade(&cluster, &[]));
    assert_eq!(done.lines().filter(|line| line.contains("serves and has caught up")).count(), 3, "{done}");
    load.wait_for_turns(500);
    let over = Instant::now();
    let clients = load.stop();
    for (namespace, protocol) in [(0, "paxos"), (CHAINS, "chain"), (REGISTERS, "register")] {
        println!("{protocol}, quiet:   {}", figures(&clients, namespace, quiet, disturbed));
        println!("{protocol}, upgrade: {}", figures(&clients, namespace, disturbed, over));
    }
    assert_eq!(starts(&cluster), [2; 3]);
    wait_for_state(&cluster, "none");
    assert!(clients.iter().all(|client| client.reconnections > 0), "each node was away once");
    for index in 0..3 {
        let mut reader = cluster.client(index);
        for client in clients.iter().filter(|client| client.namespace != REGISTERS) {
            redis::cmd("SELECT").arg(client.namespace).exec(&mut reader).expect("selected");
            let key = format!("counter {}", client.number);
            let count: u64 = redis::cmd("GET").arg(&key).query(&mut reader).expect("read");
            assert_eq!(count, client.count, "{key} at node {}", index + 1);
        }
    }
    // `up` has started them, and stops them.
    assert_eq!(cluster.told().matches("was started again as pid").count(), 3, "{}", cluster.told());
    cluster.down();
}

#[test]
fn nodes_that_up_does_not_run_are_started_by_the_upgrade() {
    let mut cluster = Cluster::started("upgraded", 3);
    cluster.down();
    (0..3).for_each(|index| cluster.start_by_hand(index));
    let load = Load::start(&cluster, &[0]);
    load.wait_for_turns(100);
    told(&upgrade(&cluster, &["--granularity", "3"]));
    load.wait_for_turns(100);
    load.stop();
    assert_eq!(starts(&cluster), [3; 3], "one at a time, since no volume can do without two");
}

#[test]
fn what_no_volume_can_do_without_is_not_restarted() {
    let mut cluster = Cluster::started("single", 3);
    let mut client = cluster.client(0);
    let create = ["NAMESPACE", "CREATE", "1", "REPLICAS", "1", "VOLUMES", "1"];
    redis::cmd("QUORATE").arg(&create).exec(&mut client).expect("created");
    let planned = upgrade(&cluster, &["--dry-run"]);
    assert_eq!(planned.status.code(), Some(1));
    let planned = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(
        planned.contains("not at all: without n1, volume 0 of namespace 1 would have 0 of its 1 members"),
        "{planned}"
    );
    let refusal = refusal(&upgrade(&cluster, &[]));
    assert!(refusal.contains("without n1, volume 0 of namespace 1") && refusal.contains("more members"), "{refusal}");
    assert_eq!(starts(&cluster), [1, 2, 2], "the others first");
    wait_for_state(&cluster, "left");
    cluster.down();
}

/// One whose command does nothing, so that it waits.
fn waiting(cluster: &Cluster) -> Child {
    let mut command = command(cluster, &["--with", "true {node}", "--to", VERSION]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    until("it drives", || state(cluster) == "driven");
    child
}

#[test]
fn there_is_one_upgrade_at_a_time_and_what_was_interrupted_is_gone_on_with() {
    let mut cluster = Cluster::started("resumed", 3);
    let first = waiting(&cluster);
    let second = refusal(&upgrade(&cluster, &[]));
    assert!(second.contains("there is one at a time"), "{second}");
    assert_eq!(starts(&cluster), [1; 3]);
    // SAFETY: a plain system call. The child has not been waited for, so its number is still its own.
    assert_eq!(unsafe { libc::kill(first.id().cast_signed(), libc::SIGINT) }, 0);
    let interrupted = refusal(&first.wait_with_output().expect("ours to wait for"));
    assert!(interrupted.contains("interrupted") && interrupted.contains("goes on with the others"), "{interrupted}");
    wait_for_state(&cluster, "left");
    for words in ["BEGIN VERSION DRIVER 5", "NOTE DRIVER 5 DONE n2", "LEAVE DRIVER 5"] {
        said(&cluster, &words.replace("VERSION", VERSION));
    }
    // Killed, it cannot leave: whoever goes on sees first that it is gone.
    let mut killed = waiting(&cluster);
    killed.kill().expect("it runs");
    killed.wait().expect("ours to wait for");
    let done = told(&upgrade(&cluster, &[]));
    assert!(done.contains("looking whether somebody still drives it"), "{done}");
    assert_eq!(starts(&cluster), [2, 1, 2], "n2 was done");
    wait_for_state(&cluster, "none");
    cluster.down();
}

#[test]
fn a_command_and_a_directory_that_do_not_fit_are_refused_before_anything_is_done() {
    let mut cluster = Cluster::started("unfit", 1);
    let other = upgrade(&cluster, &["--to", "9.9.9"]);
    assert!(refusal(&other).contains("not 9.9.9"));
    let port = cluster.ports().client.to_string();
    let nowhere = Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(["upgrade", "--dir", "/nonexistent", "-p", &port])
        .output()
        .expect("started");
    let line = refusal(&nowhere);
    assert!(line.contains("/nonexistent/node-1/node.toml") && line.contains("give --with"), "{line}");
    let no_program = upgrade(&cluster, &["--program", "/bin/true"]);
    assert!(refusal(&no_program).contains("/bin/true --version says") || Path::new("/bin/true").is_symlink());
    let failed = command(&cluster, &["--with", "exit 3"]).output().expect("started");
    let line = refusal(&failed);
    assert!(line.contains("without n1, the root would have 0 of its 1 members"), "{line}");
    cluster.down();
}
