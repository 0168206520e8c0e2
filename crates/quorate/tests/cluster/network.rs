//! A network of the test's own: each node has a network namespace with a cable to a switch, and nodes whose cables lead to
//! different switches cannot hear each other. Nobody is told of it: packets vanish.
//!
//! The namespaces have no names. The system removes them with all that is in them when the last process and the last
//! descriptor are gone, however the test ends.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Command, Stdio};
use std::thread;

use quorate_server::config::{
    Auth, Cluster, ClusterId, Config, Defaults, Limits, Listen, Log, Member, Node, OwnGroups, Secret, Storage, Timing,
    Tls,
};
use quorate_server::directory::random_u64;

/// In each node's namespace nobody else listens.
const CLIENT_PORT: u16 = 7000;
const PEER_PORT: u16 = 7001;
const ADMIN_PORT: u16 = 7002;

/// Addresses as text, each for as long as the tests run.
const ADDRESSES: [&str; 25] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.5",
    "10.0.0.6",
    "10.0.0.7",
    "10.0.0.8",
    "10.0.0.9",
    "10.0.0.10",
    "10.0.0.11",
    "10.0.0.12",
    "10.0.0.13",
    "10.0.0.14",
    "10.0.0.15",
    "10.0.0.16",
    "10.0.0.17",
    "10.0.0.18",
    "10.0.0.19",
    "10.0.0.20",
    "10.0.0.21",
    "10.0.0.22",
    "10.0.0.23",
    "10.0.0.24",
    "10.0.0.25",
];

pub(crate) struct Network {
    /// Where the switches are.
    hub: Namespace,
    nodes: Vec<Namespace>,
}

impl Network {
    /// All nodes hear each other. The reason if this machine or this user may not have such a network.
    pub(crate) fn make(node_count: usize) -> Result<Network, String> {
        let (hub, nodes) = Network::namespaces(node_count).map_err(|error| format!("network namespaces: {error}"))?;
        let mut lines = String::new();
        for switch in 0..node_count {
            lines += &format!("link add switch{switch} type bridge\nlink set switch{switch} up\n");
        }
        for (index, node) in nodes.iter().enumerate() {
            let node = node.path();
            lines += &format!("link add cable{index} type veth peer name cable netns {node}\n");
            lines += &format!("link set cable{index} master switch0\nlink set cable{index} up\n");
        }
        hub.ip(&lines)?;
        for (node, address) in nodes.iter().zip(ADDRESSES) {
            node.ip(&format!("link set lo up\naddress add {address}/24 dev cable\nlink set cable up\n"))?;
        }
        Ok(Network { hub, nodes })
    }

    fn namespaces(node_count: usize) -> io::Result<(Namespace, Vec<Namespace>)> {
        assert!(node_count <= ADDRESSES.len(), "{node_count} nodes");
        let nodes: io::Result<Vec<Namespace>> = (0..node_count).map(|_| Namespace::make()).collect();
        Ok((Namespace::make()?, nodes?))
    }

    /// From now on, only nodes of one side hear each other.
    pub(crate) fn part(&self, sides: &[&[usize]]) {
        let mut lines = String::new();
        for (side, nodes) in sides.iter().enumerate() {
            for node in *nodes {
                lines += &format!("link set cable{node} master switch{side}\n");
            }
        }
        self.set(&lines);
    }

    /// These do not hear each other, and everybody else hears both.
    pub(crate) fn part_from_each_other(&self, nodes: &[usize]) {
        self.set(&nodes.iter().map(|node| isolated(*node, "on")).collect::<String>());
    }

    /// All hear each other.
    pub(crate) fn join(&self) {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.part(&[&all]);
        self.set(&all.iter().map(|node| isolated(*node, "off") + &plugged(*node, "up")).collect::<String>());
    }

    /// The node is without a cable.
    pub(crate) fn unplug(&self, node: usize) {
        self.set(&plugged(node, "down"));
    }

    fn set(&self, lines: &str) {
        self.hub.ip(lines).unwrap_or_else(|error| panic!("{lines}: {error}"));
    }

    /// Where a process has to be to be this node.
    pub(crate) fn namespace(&self, node: usize) -> RawFd {
        self.nodes[node].0.as_raw_fd()
    }

    /// Does something where this node is, such as to open a connection, which stays there.
    pub(crate) fn at<T: Send>(&self, node: usize, act: impl FnOnce() -> T + Send) -> T {
        self.nodes[node].within(act)
    }

    pub(crate) fn client_address(&self, node: usize) -> (&'static str, u16) {
        (ADDRESSES[node], CLIENT_PORT)
    }

    /// What each node's file says: everybody may come, since nobody else can.
    pub(crate) fn configurations(&self) -> Vec<Config> {
        let random = || random_u64().expect("the system has random numbers");
        let listen = |index: usize| {
            let address: Ipv4Addr = ADDRESSES[index].parse().expect("an address");
            let at = |port| SocketAddr::from((address, port));
            Listen { client: at(CLIENT_PORT), peer: at(PEER_PORT), admin: at(ADMIN_PORT) }
        };
        let member = |index: usize| {
            let Listen { client, peer, admin } = listen(index);
            let (id, name) = (index as u32 + 1, format!("n{}", index + 1));
            Member { id, name, client: client.into(), peer: peer.into(), admin: admin.into() }
        };
        let count = self.nodes.len();
        let cluster = Cluster {
            id: ClusterId(random()),
            secret: Secret::new(format!("{:016x}", random())),
            nodes: (0..count).map(member).collect(),
        };
        let configuration = |index: usize| {
            let Member { id, name, .. } = member(index);
            Config {
                node: Node { id, name, data_dir: ".".into(), directory: 1, joins: false, ephemeral: false },
                listen: listen(index),
                cluster: cluster.clone(),
                auth: Auth { insecure: true, ..Auth::default() },
                tls: Tls::default(),
                defaults: Defaults::default(),
                timing: Timing::default(),
                limits: Limits::default(),
                storage: Storage::default(),
                groups: OwnGroups::default(),
                log: Log::default(),
                applications: Vec::new(),
            }
        };
        (0..count).map(configuration).collect()
    }
}

fn isolated(node: usize, switch: &str) -> String {
    format!("link set cable{node} type bridge_slave isolated {switch}\n")
}

fn plugged(node: usize, switch: &str) -> String {
    format!("link set cable{node} {switch}\n")
}

/// Enters the namespace of this descriptor; the calling thread alone does.
pub(crate) fn enter(namespace: RawFd) -> io::Result<()> {
    // SAFETY: a plain system call.
    match unsafe { libc::setns(namespace, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

struct Namespace(File);

impl Namespace {
    fn make() -> io::Result<Namespace> {
        // A namespace is a thread's own, so this one's ends with it.
        let made = thread::spawn(|| {
            // SAFETY: a plain system call.
            match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
                0 => File::open("/proc/thread-self/ns/net").map(Namespace),
                _ => Err(io::Error::last_os_error()),
            }
        });
        made.join().expect("it does not panic")
    }

    fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let namespace = self.0.as_raw_fd();
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                enter(namespace).expect("who has made it may enter it");
                act()
            });
            inside.join().expect("it does not panic")
        })
    }

    /// For other processes, while this one lasts.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Has the lines carried out by `ip` in here.
    fn ip(&self, lines: &str) -> Result<(), String> {
        let run = || -> io::Result<String> {
            let mut ip = Command::new("ip");
            ip.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
            let mut ip = ip.spawn()?;
            ip.stdin.take().expect("a pipe").write_all(lines.as_bytes())?;
            let output = ip.wait_with_output()?;
            let complaint = if output.status.success() { String::new() } else { text(&output.stderr) };
            Ok(complaint)
        };
        match self.within(run) {
            Ok(complaint) if complaint.is_empty() => Ok(()),
            Ok(complaint) => Err(complaint),
            Err(error) => Err(format!("ip, which scripts/iproute2 installs: {error}")),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
