//! `quorate up`: a real cluster of node processes on this machine.
//!
//! Each node is this same program run as `quorate node --config DIR/node-i/node.toml`, so that any of them can be killed
//! and started again by hand. `up` starts them, says when they answer, reports the ones that die, and stops them.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use quorate_node::quorum::Quorum;
use quorate_node::replica::Protocol;
use quorate_node::root::Durability;
use quorate_server::config::{Application, NODES_MAX};
use quorate_server::directory::random_u64;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

mod plan;
mod processes;
mod run_log;
mod secrets;
mod successor;

use crate::failure::{Context, Failure};
use crate::namespace::parse_quorum;
use crate::output::{complain, say, shell_word, table, trimmed};
use plan::{Plan, PlannedNode};
use processes::Processes;
use secrets::Secrets;
use successor::Running;

pub(crate) use plan::node_directory;
pub(crate) use run_log::RunLog;
pub(crate) use successor::{name_successor, pid, take_successor};

/// How long the nodes may take to answer their first PING; recovery of a large log included.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How often signals are looked for while a node is to be started again.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);
/// How long they may take to stop.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "Examples:
  quorate up                                  three nodes, data in ./quorate-data
  quorate up --nodes 5 --dir /var/lib/try     five nodes, data elsewhere; of a cluster that has fewer, the rest are added
  quorate up --ephemeral --durability memory  as fast as it gets, nothing is kept";

/// Start a cluster on this machine, one process a node
///
/// Node i keeps its state in DIR/node-i and listens for Redis clients on port PORT + i - 1, for HTTP on ADMIN_PORT +
/// i - 1, and for the other nodes 10000 above its client port (below, where there is no such port). The first run
/// writes DIR/node-i/node.toml; later runs use what is there. Ctrl-C stops the cluster, the same command brings it back
/// with its data.
///
/// With more --nodes than DIR has, new ones are added to the cluster, which begin without data. `quorate node remove` removes one.
///
/// A node that dies is reported. `quorate node --config DIR/node-i/node.toml` starts it again by hand; with --restart
/// that is done for you, after a pause that doubles from half a second to 30 s while it keeps dying within a minute. A
/// node that was asked to end (SIGTERM) stays down, unless `quorate upgrade` has asked it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// How many nodes, 1 to 64 [default: 3, or as many as DIR has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=NODES_MAX as i64))]
    nodes: Option<u16>,
    /// Where the nodes keep their state
    #[arg(long, value_name = "DIR", default_value = "./quorate-data")]
    dir: PathBuf,
    /// The first node's port for Redis clients [default: 7000]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The first node's port for HTTP [default: 8000]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    admin_port: Option<u16>,
    /// Keep nothing: the state is in a temporary directory, removed at the end
    #[arg(long, conflicts_with = "dir")]
    ephemeral: bool,
    /// Start nodes again that die
    #[arg(long)]
    restart: bool,
    /// Ask for a password, a token and certificates, all made up for a new DIR: see `Try` when it is up
    #[arg(long)]
    secure: bool,
    /// When writes are acknowledged in new namespaces: on disk at a majority, or in memory, synced every 50 ms or never
    #[arg(long, value_name = "WHEN", value_parser = durability_parser())]
    durability: Option<Durability>,

    /// How the replicas of volumes agree in new namespaces
    #[arg(long, value_name = "NAME", value_parser = protocol_parser())]
    protocol: Option<Protocol>,
    /// Of registers in new namespaces: majority, "threshold R W", grid or "grid ROWSxCOLS"; then on all nodes
    #[arg(long, value_name = "WHICH", value_parser = parse_quorum)]
    quorum: Option<Quorum>,
    /// A program that `FCALL NAME` gives objects to: where it listens, unix:PATH or ADDRESS:PORT; may be given again
    #[arg(long = "application", value_name = "NAME=ADDRESS", value_parser = parse_application)]
    applications: Vec<Application>,
}

fn protocol_parser() -> impl TypedValueParser<Value = Protocol> {
    PossibleValuesParser::new(Protocol::ALL.map(Protocol::word))
        .try_map(|word| Protocol::parse(&word).ok_or("no such protocol"))
}

fn parse_application(text: &str) -> Result<Application, String> {
    let (name, address) = text.split_once('=').ok_or("write it as NAME=ADDRESS")?;
    Ok(Application::new(name.to_owned(), address.parse()?))
}

fn durability_parser() -> impl TypedValueParser<Value = Durability> {
    let words = [Durability::Sync, Durability::Interval, Durability::Memory].map(Durability::word);
    PossibleValuesParser::new(words).try_map(|word| Durability::parse(&word).ok_or("no such durability"))
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let temporary = if options.ephemeral { Some(TemporaryDirectory::new()?) } else { None };
    let plan = Plan::new(options, temporary.as_ref().map_or(&options.dir, |directory| &directory.0))?;
    plan.check_directories()?;
    plan.check_ports()?;
    plan.write()?;
    let _running = Running::note(&plan)?;
    // Before the first process: none may outlive a Ctrl-C that comes early.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGCHLD]).context("cannot listen for signals")?;
    plan.absent.iter().for_each(complain);
    let added: Vec<OnceCell<PlannedNode>> = (0..plan.more).map(|_| OnceCell::new()).collect();
    let mut processes = Processes::start(&plan, options.restart)?;
    let started = start_all(&plan, &added, &mut processes, &mut signals);
    let result = match started {
        Ok(true) => {
            say(welcome(&plan, &processes, options));
            serve(&mut signals, &mut processes);
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(failure) => Err(failure),
    };
    let all_clean = processes.stop(STOPPED_WITHIN, &mut || wants_to_end(&mut signals));
    result.map(|()| if all_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for the nodes that there are, and then for each that is added. False if that is no longer wanted.
fn start_all<'a>(
    plan: &Plan,
    added: &'a [OnceCell<PlannedNode>],
    processes: &mut Processes<'a>,
    signals: &mut Signals,
) -> Result<bool, Failure> {
    let mut wait =
        |processes: &mut Processes<'a>| processes.wait_until_ready(READY_WITHIN, &mut || wants_to_end(signals));
    if !wait(processes)? {
        return Ok(false);
    }
    for cell in added {
        let before: Vec<&PlannedNode> = added.iter().filter_map(OnceCell::get).collect();
        let node = plan.add(&before)?;
        let (name, id) = (node.name().to_owned(), node.config.node.id);
        processes.add(cell.get_or_init(|| node))?;
        if !wait(processes)? {
            return Ok(false);
        }
        say(format_args!("{name} was added to the cluster as node {id}; it has no data yet"));
    }
    Ok(true)
}

/// Reports nodes that die, and starts them again if that is wanted, until somebody asks to end.
fn serve(signals: &mut Signals, processes: &mut Processes) {
    loop {
        // One may have died before its signal was asked for.
        processes.report_deaths();
        let asked_to_end = match processes.restart_due() {
            // There is no waiting for signals that ends by itself.
            Some(due) => {
                std::thread::sleep(due.min(SIGNALS_EVERY));
                wants_to_end(signals)
            }
            None => signals.wait().any(|signal| signal != SIGCHLD),
        };
        if asked_to_end {
            return;
        }
    }
}

fn wants_to_end(signals: &mut Signals) -> bool {
    signals.pending().any(|signal| signal != SIGCHLD)
}

fn welcome(plan: &Plan, processes: &Processes, options: &Options) -> String {
    let mut nodes = table(&["node", "clients", "admin", "pid"]);
    for (node, pid) in processes.nodes() {
        let listen = &node.config.listen;
        let scheme = if node.config.tls.admin { "https" } else { "http" };
        let admin = format!("{scheme}://{}", listen.admin);
        nodes.add_row([node.config.node.name.clone(), listen.client.to_string(), admin, pid.to_string()]);
    }
    let count = processes.nodes().count();
    let port = plan.nodes[0].config.listen.client.port();
    let program = try_with(plan);
    let (kept, end) = if options.ephemeral {
        ("nothing is kept".to_owned(), "Ctrl-C stops it.")
    } else {
        let durability = plan.nodes[0].config.defaults.durability.word();
        let kept = format!("data in {}, durability {durability}", options.dir.display());
        (kept, "Ctrl-C stops it; the same command brings it back with its data.")
    };
    let nodes = trimmed(&nodes);
    let plural = if count == 1 { "" } else { "s" };
    format!(
        "Quorate is up: {count} node{plural}, {kept}.\n\n{nodes}\n\nTry:  {program} -p {port} SET hello world\n{end}"
    )
}

/// The client that people can try, with what it needs to be let in.
fn try_with(plan: &Plan) -> String {
    match &plan.secrets {
        Some(Secrets { ca, password, .. }) => {
            format!("quorate cli --tls --cacert {} --password-file {}", shell_word(ca), shell_word(password))
        }
        None if is_on_path("redis-cli") => "redis-cli".to_owned(),
        None => "quorate cli".to_owned(),
    }
}

fn is_on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// Where an ephemeral cluster lives; gone with its value.
struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn new() -> Result<TemporaryDirectory, Failure> {
        let number = random_u64().context("cannot draw a random number")?;
        let path = std::env::temp_dir().join(format!("quorate-{number:016x}"));
        std::fs::create_dir(&path).context(format_args!("cannot make {}", path.display()))?;
        Ok(TemporaryDirectory(path))
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let remove = |path: &Path| std::fs::remove_dir_all(path);
        if let Err(error) = remove(&self.0) {
            complain(format_args!("cannot remove {}: {error}", self.0.display()));
        }
    }
}
