//! Which nodes `up` is to run, where: made up for a new directory, read back from one that has them.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use quorate_node::quorum::Quorum;
use quorate_node::replica::Protocol;
use quorate_node::root::Durability;
use quorate_server::config::{
    Application, Auth, Cluster, ClusterId, Config, Defaults, Limits, Listen, Log, Member, NODES_MAX, Node, Secret,
    Storage, Timing, Tls,
};
use quorate_server::directory::{Directory, Whose, random_u64};

use super::Options;
use super::secrets::{self, Secrets};
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::nodes;

const NODES_DEFAULT: u16 = 3;
/// Places that are tried for a node that is added, each with ports of its own.
const PLACES_TRIED: usize = 100;
const PORT_DEFAULT: u16 = 7000;
const ADMIN_PORT_DEFAULT: u16 = 8000;
/// A node's port for its peers is this far from its port for clients.
const PEER_PORT_DISTANCE: u16 = 10_000;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<PlannedNode>,
    /// How many are to be added to those once they run.
    pub(super) more: usize,
    /// What is to be told of nodes that are not there.
    pub(super) absent: Vec<String>,
    /// The directory has no nodes yet.
    is_new: bool,
    /// Where clients find what the nodes ask for, if they were made to ask.
    pub(super) secrets: Option<Secrets>,
}

#[derive(Debug)]
pub(super) struct PlannedNode {
    pub(super) directory: PathBuf,
    /// As `quorate node` would load it.
    pub(super) config: Config,
}

impl PlannedNode {
    pub(super) fn config_path(&self) -> PathBuf {
        self.directory.join("node.toml")
    }

    pub(super) fn name(&self) -> &str {
        &self.config.node.name
    }
}

impl Plan {
    pub(super) fn new(options: &Options, dir: &Path) -> Result<Plan, Failure> {
        if config_path(dir, 1).exists() {
            return Plan::read(options, dir);
        }
        // The first node's file is written last: without it nothing was ever started, unless somebody removed it.
        for index in 2..=NODES_MAX {
            if Directory::holds_data(&node_directory(dir, index)) {
                let missing = config_path(dir, 1);
                let message = format!(
                    "{} is missing, but node {index} holds data; restore it or use another --dir",
                    missing.display()
                );
                return Err(Failure(message));
            }
        }
        Plan::invent(options, dir)
    }

    /// Refuses directories that are in use, damaged, of another cluster or of a newer version.
    pub(super) fn check_directories(&self) -> Result<(), Failure> {
        for node in &self.nodes {
            let config = &node.config;
            Directory::check(&config.node.data_dir, Whose::of(config))?;
        }
        Ok(())
    }

    /// Refuses ports that are in use.
    pub(super) fn check_ports(&self) -> Result<(), Failure> {
        for node in &self.nodes {
            let Listen { client, peer, admin } = node.config.listen;
            for (what, address) in [("clients", client), ("peers", peer), ("HTTP", admin)] {
                if let Err(error) = TcpListener::bind(address) {
                    let options = if self.is_new { "--port and --admin-port" } else { "listen in node.toml" };
                    let name = node.name();
                    return Err(Failure(format!(
                        "cannot listen on {address} for the {what} of {name} ({error}); end what uses it or change {options}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Makes the directories and configurations of a new cluster.
    pub(super) fn write(&self) -> Result<(), Failure> {
        if !self.is_new {
            return Ok(());
        }
        let mut auth = Auth::default();
        if let Some(secrets) = &self.secrets {
            secrets.make_certificates(self.nodes.iter().map(PlannedNode::name))?;
            auth = secrets.make_auth()?;
        }
        for node in self.nodes.iter().rev() {
            node.write(&auth).context(format_args!("cannot write {}", node.config_path().display()))?;
        }
        Ok(())
    }

    fn invent(options: &Options, dir: &Path) -> Result<Plan, Failure> {
        let count = options.nodes.unwrap_or(NODES_DEFAULT);
        let listens =
            listens(count, options.port.unwrap_or(PORT_DEFAULT), options.admin_port.unwrap_or(ADMIN_PORT_DEFAULT))?;
        let random = || random_u64().context("cannot draw a random number");
        let cluster = Cluster {
            id: ClusterId(random()?),
            secret: Secret::new(format!("{:016x}{:016x}", random()?, random()?)),
            nodes: (1..).zip(&listens).map(|(id, listen)| member(id, *listen)).collect(),
        };
        let mut defaults = Defaults::default();
        defaults.durability = options.durability.unwrap_or(defaults.durability);
        defaults.protocol = options.protocol.unwrap_or(defaults.protocol);
        check_quorum(options.quorum, defaults.protocol)?;
        if let Some(quorum) = options.quorum {
            (defaults.quorum, defaults.replicas) = (quorum, Some(count as u8));
        }
        let planned = (1..).zip(listens).map(|(id, listen)| {
            let directory = node_directory(dir, id);
            let node = Node {
                id: id as u32,
                name: format!("n{id}"),
                data_dir: directory.clone(),
                directory: 1,
                joins: false,
                ephemeral: options.ephemeral,
            };
            let mut tls = if options.secure { secrets::tls(&node.name) } else { Tls::default() };
            tls.set_directory(&directory);
            let config = Config {
                node,
                listen,
                cluster: cluster.clone(),
                auth: Auth::default(),
                tls,
                defaults: defaults.clone(),
                timing: Timing::default(),
                limits: Limits::default(),
                storage: Storage::default(),
                groups: Default::default(),
                log: Log::default(),
                applications: options.applications.clone(),
            };
            PlannedNode { directory, config }
        });
        let nodes: Vec<PlannedNode> = planned.collect();
        for node in &nodes {
            // What is written once is read by every later start, and none of them could mend it.
            node.config.check().map_err(|reason| Failure(format!("these options do not fit together: {reason}")))?;
        }
        let secrets = options.secure.then(|| Secrets::of(dir));
        Ok(Plan { nodes, more: 0, absent: Vec::new(), is_new: true, secrets })
    }

    fn read(options: &Options, dir: &Path) -> Result<Plan, Failure> {
        let first = Config::load(&config_path(dir, 1))?;
        let count = first.cluster.nodes.len();
        let refuse_other = |asked: Option<String>, option: &str, found: String, way_out: &str| match asked {
            Some(asked) if asked != found => Err(Failure(format!(
                "{} was made with {option} {found}, not {asked}; {way_out}, or use another --dir",
                dir.display()
            ))),
            _ => Ok(()),
        };
        let listen = first.listen;
        let way_out = "leave it out or edit every node-*/node.toml";
        refuse_other(options.port.map(|n| n.to_string()), "--port", listen.client.port().to_string(), way_out)?;
        refuse_other(
            options.admin_port.map(|n| n.to_string()),
            "--admin-port",
            listen.admin.port().to_string(),
            way_out,
        )?;
        let way_out = "leave it out and choose with `quorate namespace create`";
        let (asked, found) = (options.durability.map(Durability::word), first.defaults.durability.word());
        refuse_other(asked.map(str::to_owned), "--durability", found.to_owned(), way_out)?;
        let (asked, found) = (options.protocol.map(Protocol::word), first.defaults.protocol.word());
        refuse_other(asked.map(str::to_owned), "--protocol", found.to_owned(), way_out)?;
        refuse_other(options.quorum.map(Quorum::words), "--quorum", first.defaults.quorum.words(), way_out)?;
        let written = |applications: &[Application]| {
            applications
                .iter()
                .map(|Application { name, address, .. }| format!("{name}={address}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let asked = Some(written(&options.applications)).filter(|asked| !asked.is_empty());
        refuse_other(asked, "--application", written(&first.applications), "edit every node-*/node.toml")?;
        if options.secure && !first.tls.client {
            return Err(Failure(format!(
                "{} was made without --secure; edit every node-*/node.toml, or use another --dir",
                dir.display()
            )));
        }
        let mut nodes = vec![PlannedNode { directory: node_directory(dir, 1), config: first }];
        let (indices, absent) = present(dir, count)?;
        for index in indices {
            let path = config_path(dir, index);
            let config = Config::load(&path)?;
            if config.cluster.id != nodes[0].config.cluster.id || config.node.id as usize != index {
                let message = format!("{} is not node {index} of the cluster of node-1; restore it", path.display());
                return Err(Failure(message));
            }
            nodes.push(PlannedNode { directory: node_directory(dir, index), config });
        }
        let wanted = options.nodes.map_or(nodes.len(), usize::from);
        let mut absent = absent;
        if wanted < nodes.len() {
            absent.push(format!(
                "{} has {} nodes, and all of them are started: `quorate node remove` removes one that is stopped and has no replicas",
                dir.display(),
                nodes.len()
            ));
        }
        let more = wanted.saturating_sub(nodes.len());
        let is_secure = nodes[0].config.tls.client && nodes[0].config.auth.password_hash.is_some();
        Ok(Plan { nodes, more, absent, is_new: false, secrets: is_secure.then(|| Secrets::of(dir)) })
    }

    /// Adds one more node to the cluster, which runs, and makes its directory and its configuration. `added` are those that this has
    /// done before.
    pub(super) fn add(&self, added: &[&PlannedNode]) -> Result<PlannedNode, Failure> {
        let first = &self.nodes[0];
        let dir = first.directory.parent().unwrap_or(Path::new("."));
        let known: Vec<&PlannedNode> = self.nodes.iter().chain(added.iter().copied()).collect();
        let (index, listen) = self.place_of_next(dir, &known)?;
        let name = format!("n{index}");
        let addresses = [listen.peer, listen.client, listen.admin].map(|address| address.to_string());
        let mut client = Client::connect(&self.endpoint_of_first())?;
        let id = nodes::add(&mut client, &name, [&addresses[0], &addresses[1], &addresses[2]])?;
        if let Some(secrets) = &self.secrets {
            secrets.make_certificates(std::iter::once(name.as_str()))?;
        }
        let directory = node_directory(dir, id as usize);
        let mut config = first.config.clone();
        config.node = Node {
            id,
            name: name.clone(),
            data_dir: directory.clone(),
            directory: 1,
            joins: true,
            ephemeral: first.config.node.ephemeral,
        };
        config.listen = listen;
        config.cluster.nodes = known.iter().map(|node| member_of(&node.config)).collect();
        config.cluster.nodes.push(member_of(&config));
        config.tls = if first.config.tls.client { secrets::tls(&name) } else { Tls::default() };
        config.tls.set_directory(&directory);
        let node = PlannedNode { directory, config };
        node.write(&first.config.auth).context(format_args!("cannot write {}", node.config_path().display()))?;
        Ok(node)
    }

    /// Behind all nodes that there were, where nobody listens.
    fn place_of_next(&self, dir: &Path, known: &[&PlannedNode]) -> Result<(usize, Listen), Failure> {
        let first = self.nodes[0].config.listen;
        let last_known = known.iter().map(|node| node.config.node.id as usize).max().unwrap_or_default();
        let last = indices_in(dir)?.into_iter().max().unwrap_or_default().max(last_known);
        let at = |address: SocketAddr, index: usize| {
            let port = u16::try_from(index - 1).ok().and_then(|further| address.port().checked_add(further));
            port.map(|port| SocketAddr::new(address.ip(), port))
        };
        let used: Vec<SocketAddr> = known.iter().flat_map(|node| addresses(&node.config.listen)).collect();
        let is_free = |listen: &Listen| {
            addresses(listen).into_iter().all(|address| !used.contains(&address) && TcpListener::bind(address).is_ok())
        };
        let listen = |index: usize| {
            let (client, peer, admin) = (at(first.client, index)?, at(first.peer, index)?, at(first.admin, index)?);
            Some(Listen { client, peer, admin }).filter(is_free)
        };
        let found = (last + 1..=last + PLACES_TRIED).find_map(|index| Some((index, listen(index)?)));
        found.ok_or_else(|| Failure("no free ports for another node: `quorate node add` adds one elsewhere".to_owned()))
    }

    fn endpoint_of_first(&self) -> Endpoint {
        let config = &self.nodes[0].config;
        let endpoint = Endpoint::new(config.listen.client.ip().to_string(), config.listen.client.port());
        let endpoint = endpoint.with_password_file(self.secrets.as_ref().map(|secrets| &*secrets.password));
        let tls = &config.tls;
        if tls.client { endpoint.with_tls(&tls.ca, &tls.certificate, &tls.key) } else { endpoint }
    }
}

impl PlannedNode {
    fn write(&self, auth: &Auth) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let mut config = self.config.clone();
        config.node.data_dir = PathBuf::from(".");
        config.auth = auth.clone();
        config.tls = if config.tls.client { secrets::tls(&config.node.name) } else { Tls::default() };
        let text = format!(
            "# Written by `quorate up`. `quorate node --example-config` explains every key.\n# Holds the cluster's secret: keep it private.\n\n{}",
            config.to_toml()
        );
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(self.config_path())?;
        file.write_all(text.as_bytes())
    }
}

/// The nodes that there are beside the first, of those that the cluster was made with and those that were added; and what is to be told
/// of others.
fn present(dir: &Path, founders: usize) -> Result<(Vec<usize>, Vec<String>), Failure> {
    let found = indices_in(dir)?;
    let mut absent = Vec::new();
    let mut indices: Vec<usize> = (2..=founders).chain(found.into_iter().filter(|&index| index > founders)).collect();
    indices.retain(|&index| {
        let directory = node_directory(dir, index);
        let why = if Directory::is_removed(&directory) {
            "was removed from the cluster: its directory can be removed too"
        } else if !directory.exists() {
            "is not there: its node is left out"
        } else {
            return true;
        };
        absent.push(format!("{} {why}", directory.display()));
        false
    });
    Ok((indices, absent))
}

/// The nodes that have a configuration in this directory.
fn indices_in(dir: &Path) -> Result<Vec<usize>, Failure> {
    let read = || std::fs::read_dir(dir)?.collect::<std::io::Result<Vec<_>>>();
    let entries = read().context(format_args!("cannot read {}", dir.display()))?;
    let index = |entry: &std::fs::DirEntry| {
        let index: usize = entry.file_name().to_str()?.strip_prefix("node-")?.parse().ok()?;
        config_path(dir, index).exists().then_some(index)
    };
    let mut indices: Vec<usize> = entries.iter().filter_map(index).collect();
    indices.sort_unstable();
    Ok(indices)
}

fn addresses(listen: &Listen) -> [SocketAddr; 3] {
    [listen.client, listen.peer, listen.admin]
}

fn member_of(config: &Config) -> Member {
    Member { name: config.node.name.clone(), ..member(config.node.id, config.listen) }
}

fn check_quorum(quorum: Option<Quorum>, protocol: Protocol) -> Result<(), Failure> {
    match quorum {
        Some(quorum) if quorum != Quorum::Majority && !protocol.is_register() => Err(Failure(format!(
            "--quorum {:?} is for registers, and {} decides by majorities; say --protocol register too, or leave --quorum out",
            quorum.words(),
            protocol.word()
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn node_directory(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("node-{index}"))
}

fn config_path(dir: &Path, index: usize) -> PathBuf {
    node_directory(dir, index).join("node.toml")
}

fn member(id: u32, listen: Listen) -> Member {
    Member {
        id,
        name: format!("n{id}"),
        client: listen.client.into(),
        peer: listen.peer.into(),
        admin: listen.admin.into(),
    }
}

/// The addresses of `count` nodes, each port used once.
fn listens(count: u16, port: u16, admin_port: u16) -> Result<Vec<Listen>, Failure> {
    let peer_port = port.checked_add(PEER_PORT_DISTANCE).filter(|first| first.checked_add(count - 1).is_some());
    let peer_port = peer_port.unwrap_or(port.saturating_sub(PEER_PORT_DISTANCE));
    let firsts = [("--port", port), ("the peers' ports", peer_port), ("--admin-port", admin_port)];
    for (index, &(name, first)) in firsts.iter().enumerate() {
        if first.checked_add(count - 1).is_none() {
            return Err(Failure(format!("{count} ports from {first} on ({name}) go beyond 65535; choose a lower one")));
        }
        for &(other_name, other) in &firsts[..index] {
            if first.abs_diff(other) < count {
                return Err(Failure(format!(
                    "{count} ports from {other} on ({other_name}) and from {first} on ({name}) overlap; choose others"
                )));
            }
        }
    }
    let at = |first: u16, index: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, first + index));
    let listen = |index| Listen { client: at(port, index), peer: at(peer_port, index), admin: at(admin_port, index) };
    Ok((0..count).map(listen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::parse_quorum;

    fn options() -> Options {
        Options {
            nodes: None,
            dir: PathBuf::new(),
            port: None,
            admin_port: None,
            ephemeral: false,
            restart: false,
            secure: false,
            durability: None,
            protocol: None,
            quorum: None,
            applications: Vec::new(),
        }
    }

    /// A directory of its own for each test, gone when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("quorate-plan-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Scratch(path)
        }

        fn refusal(&self, options: &Options) -> String {
            Plan::new(options, &self.0).expect_err("refused").0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_new_plan_is_read_back_as_it_was_written() {
        let scratch = Scratch::new("back");
        let made = Plan::new(&options(), &scratch.0).expect("made");
        made.write().expect("written");
        let read = Plan::new(&options(), &scratch.0).expect("read");
        assert!(made.is_new && !read.is_new);
        assert_eq!(read.nodes.len(), 3);
        for (made, read) in made.nodes.iter().zip(&read.nodes) {
            assert_eq!(made.config.cluster, read.config.cluster);
            assert_eq!(made.config.listen, read.config.listen);
            assert_eq!(read.config.node.data_dir.canonicalize().ok(), made.directory.canonicalize().ok());
        }
    }

    #[test]
    fn options_that_no_node_could_start_with_are_refused_before_anything_is_written() {
        let scratch = Scratch::new("unfit");
        let grid = Quorum::parse("grid").expect("a quorum");
        let refusal = scratch.refusal(&Options { quorum: Some(grid), ..options() });
        assert!(refusal.contains("--quorum \"grid\" is for registers"), "{refusal}");
        let register = Some(Protocol::Register);
        let apart = Some(parse_quorum("threshold 1 1").expect("a quorum"));
        let refusal = scratch.refusal(&Options { quorum: apart, protocol: register, ..options() });
        assert!(refusal.starts_with("these options do not fit together: defaults: "), "{refusal}");
        assert!(!scratch.0.exists());
        assert!(Plan::new(&Options { quorum: Some(grid), protocol: register, ..options() }, &scratch.0).is_ok());
    }

    #[test]
    fn a_directory_made_otherwise_is_refused() {
        let scratch = Scratch::new("otherwise");
        Plan::new(&options(), &scratch.0).and_then(|plan| plan.write()).expect("made");
        assert!(scratch.refusal(&Options { port: Some(7100), ..options() }).contains("--port 7000, not 7100"));
        let memory = Options { durability: Some(Durability::Memory), ..options() };
        assert!(scratch.refusal(&memory).contains("quorate namespace create"));
        let same = Options { nodes: Some(3), port: Some(7000), ..options() };
        assert!(Plan::new(&same, &scratch.0).is_ok());
    }

    #[test]
    fn more_nodes_than_there_are_are_to_be_added_and_fewer_are_all_started() {
        let scratch = Scratch::new("more");
        Plan::new(&options(), &scratch.0).and_then(|plan| plan.write()).expect("made");
        let plan = Plan::new(&Options { nodes: Some(5), ..options() }, &scratch.0).expect("read");
        assert_eq!((plan.nodes.len(), plan.more, plan.absent.len()), (3, 2, 0));
        let plan = Plan::new(&Options { nodes: Some(2), ..options() }, &scratch.0).expect("read");
        assert_eq!((plan.nodes.len(), plan.more), (3, 0));
        assert!(
            plan.absent[0].contains("3 nodes") && plan.absent[0].contains("`quorate node remove`"),
            "{:?}",
            plan.absent
        );
    }

    #[test]
    fn nodes_that_were_added_are_started_with_the_others_and_those_that_were_removed_are_not() {
        let scratch = Scratch::new("added");
        let made = Plan::new(&options(), &scratch.0).expect("made");
        made.write().expect("written");
        let mut config = made.nodes[2].config.clone();
        (config.node.id, config.node.name, config.node.joins) = (7, "n7".to_owned(), true);
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        config.listen = Listen { client: at(7006), peer: at(17_006), admin: at(8006) };
        config.cluster.nodes.push(member_of(&config));
        let seventh = PlannedNode { directory: node_directory(&scratch.0, 7), config };
        seventh.write(&Auth::default()).expect("written");
        let plan = Plan::new(&Options { nodes: Some(4), ..options() }, &scratch.0).expect("read");
        let ids = |plan: &Plan| plan.nodes.iter().map(|node| node.config.node.id).collect::<Vec<_>>();
        assert_eq!((ids(&plan), plan.more), (vec![1, 2, 3, 7], 0));
        let (index, _) = plan.place_of_next(&scratch.0, &plan.nodes.iter().collect::<Vec<_>>()).expect("a place");
        assert!(index >= 8, "{index}");
        std::fs::write(seventh.directory.join("removed"), "").expect("written");
        std::fs::remove_dir_all(scratch.0.join("node-3")).expect("there");
        let plan = Plan::new(&options(), &scratch.0).expect("read");
        assert_eq!((ids(&plan), plan.more, plan.absent.len()), (vec![1, 2], 0, 2));
        assert!(plan.absent[0].contains("node-3 is not there") && plan.absent[1].contains("node-7 was removed"));
    }

    #[test]
    fn a_lost_first_node_is_not_taken_for_a_new_directory() {
        let scratch = Scratch::new("lost");
        Plan::new(&options(), &scratch.0).and_then(|plan| plan.write()).expect("made");
        std::fs::create_dir(scratch.0.join("node-2/wal")).expect("made");
        std::fs::remove_file(scratch.0.join("node-1/node.toml")).expect("there");
        assert!(scratch.refusal(&options()).contains("node 2 holds data"));
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("an address").port();
        let plan = Plan::invent(&Options { nodes: Some(1), port: Some(port), ..options() }, Path::new("unused"));
        let refusal = plan.expect("planned").check_ports().expect_err("in use").0;
        assert!(refusal.contains(&format!("127.0.0.1:{port} for the clients of n1")), "{refusal}");
    }

    #[test]
    fn ports_neither_overlap_nor_run_out() {
        let ports = listens(3, 7000, 8000).expect("fit");
        assert_eq!(ports[2].client.port(), 7002);
        assert_eq!(ports[2].peer.port(), 17_002);
        assert_eq!(listens(2, 60_000, 8000).expect("fit")[0].peer.port(), 50_000);
        assert!(listens(64, 7990, 8000).expect_err("overlap").0.contains("overlap"));
        assert!(listens(3, 65_534, 8000).expect_err("too high").0.contains("beyond 65535"));
        assert!(listens(64, 7000, 8000).is_ok());
    }
}
