//! `quorate upgrade`: restarts every node of a cluster, one after the other, while clients go on.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_control::upgrade::View;
use quorate_node::status::{NodeStatus, Status};
use quorate_server::config::NODES_MAX;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

mod look;
mod progress;
mod restart;

use crate::client::Endpoint;
use crate::failure::{Context, Failure};
use crate::output::say;
use look::{Nodes, view};
use progress::{Driver, show};
use restart::Restarter;

/// How often the cluster is looked at. Who has caught up is not further behind than what was decided in that time.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How many of the things that are wrong are told.
const WRONG_TOLD: usize = 3;
/// How often it is told what is waited for, if that takes long.
const WAIT_TOLD_EVERY: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "Examples:
  quorate upgrade                                        restart a cluster of `quorate up` in ./quorate-data with this program
  quorate upgrade --dry-run                              only say what would be done, and whether it can be
  quorate upgrade --program ./quorate-new -p 7100        with another one, which must be there already
  quorate upgrade --with 'ssh {node} systemctl restart quorate' --to 0.2.0
                                                         nodes that systemd runs; install the new program on them first";

/// Restart every node with a new release, one after the other, while clients go on
///
/// Before a node is stopped it is checked that every group goes on without it, and that nothing else is wrong. The node is stopped
/// cleanly, so that it hands over what it coordinates, and started again; the next is not touched before it serves, has caught up and runs
/// the right version. Nodes that coordinate least come first: if the new release is bad, that shows where it costs least.
///
/// If a node does not get well, the upgrade stops there. The same command goes on with the nodes that are left, also after Ctrl-C; another
/// version, or --anew, begins with all of them. There is one upgrade at a time.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Where `quorate up` has the nodes
    #[arg(long, value_name = "DIR", default_value = "./quorate-data", conflicts_with = "with")]
    dir: PathBuf,
    /// What the nodes are started with [default: this program]
    #[arg(long, value_name = "PATH", conflicts_with = "with")]
    program: Option<PathBuf>,
    /// Restart each node by this command of the shell, which has the node's name in place of {node}
    #[arg(long, value_name = "COMMAND")]
    with: Option<String>,
    /// The version that nodes are to run, which is checked [default: that of PROGRAM; with --with any]
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// How many nodes are restarted at once, at most: fewer where a group could not go on without them
    #[arg(long, value_name = "NODES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=NODES_MAX as i64))]
    granularity: u16,
    /// Seconds that nodes may take to get well after they were restarted
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    within: u64,
    /// Restart all nodes, also those that an upgrade to this version has restarted before it was interrupted
    #[arg(long)]
    anew: bool,
    /// Only say what would be done, and whether it can be
    #[arg(long)]
    dry_run: bool,
    /// Tell each step as a JSON object on a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let nodes = Nodes::of(&options.endpoint)?;
    let status = nodes.status(&[])?;
    let (restarter, version) = match &options.with {
        Some(command) => (Restarter::With(command.clone()), options.to.clone()),
        None => {
            let program = program(options)?;
            let version = version_of(&program)?;
            if let Some(to) = options.to.as_ref().filter(|to| **to != version) {
                return Err(Failure(format!("{} is version {version}, not {to}", program.display())));
            }
            (Restarter::here(&options.dir, program, &status)?, Some(version))
        }
    };
    let mut upgrade = Upgrade { options, nodes: &nodes, restarter, version, is_interrupted: Arc::default() };
    if options.dry_run {
        return upgrade.tell_plan();
    }
    upgrade.heed_signals()?;
    let mut driver = Driver::begin(&nodes, upgrade.version.as_deref().unwrap_or("any"), options.anew)?;
    match upgrade.drive(&mut driver) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Failure(why)) => {
            upgrade.restarter.withdraw();
            // Whoever goes on would wait until this one is known to be gone.
            let _ = driver.leave();
            Err(Failure(format!("{why}. Nodes that are done stay so; the same command goes on with the others")))
        }
    }
}

/// As an absolute path: who starts it may be in another directory.
fn program(options: &Options) -> Result<PathBuf, Failure> {
    match &options.program {
        Some(path) => path.canonicalize().context(format_args!("cannot find {}", path.display())),
        None => std::env::current_exe().context("cannot find this program; give --program"),
    }
}

/// What it says of itself, which shows that it is one.
fn version_of(program: &PathBuf) -> Result<String, Failure> {
    let told = Command::new(program).arg("--version").output();
    let told = told.context(format_args!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let version = text.trim().strip_prefix("quorate ").filter(|_| told.status.success());
    version.map(str::to_owned).ok_or_else(|| {
        Failure(format!("{} --version says {:?}, and should say which quorate it is", program.display(), text.trim()))
    })
}

struct Upgrade<'a> {
    options: &'a Options,
    nodes: &'a Nodes,
    restarter: Restarter,
    /// Which version nodes must tell afterwards.
    version: Option<String>,
    is_interrupted: Arc<AtomicBool>,
}

impl Upgrade<'_> {
    /// A signal ends the upgrade between two steps, the second one at once.
    fn heed_signals(&self) -> Result<(), Failure> {
        for signal in [SIGINT, SIGTERM] {
            let flag = || self.is_interrupted.clone();
            let second = signal_hook::flag::register_conditional_default(signal, flag());
            let first = second.and_then(|_| signal_hook::flag::register(signal, flag()));
            first.context("cannot listen for signals")?;
        }
        Ok(())
    }

    /// What would be done, in which order, and what is in its way.
    fn tell_plan(&self) -> Result<ExitCode, Failure> {
        let shown = show(self.nodes)?;
        let (wrong, status) = self.look_twice()?;
        let view = view(&status);
        let is_done = |node: &&NodeStatus| {
            let goes_on = self.version.as_deref().unwrap_or("any") == shown.version && !self.options.anew;
            goes_on && shown.done.contains(&node.name)
        };
        let mut left: Vec<u32> = status.nodes.iter().filter(|node| !is_done(node)).map(|node| node.id).collect();
        let mut can_be = wrong.is_empty();
        for wrong in &wrong {
            self.tell(json!({ "step": "not now", "why": wrong }), format_args!("not now: {wrong}"));
        }
        while !left.is_empty() {
            match view.next_batch(&left, self.options.granularity.into()) {
                Ok(batch) => {
                    self.tell_batch("would restart", &names(&status, &batch), &view);
                    left.retain(|node| !batch.contains(node));
                }
                Err(broken) => {
                    can_be = false;
                    self.tell(json!({ "step": "not at all", "why": broken }), format_args!("not at all: {broken}"));
                    break;
                }
            }
        }
        Ok(if can_be { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn drive(&mut self, driver: &mut Driver<'_>) -> Result<(), Failure> {
        // Only once: another node than the one that was told may not have heard of the latest yet.
        let mut done = show(self.nodes)?.done;
        loop {
            let status = self.wait_until_well(driver, &[])?;
            let left: Vec<u32> =
                status.nodes.iter().filter(|node| !done.contains(&node.name)).map(|node| node.id).collect();
            let view = view(&status);
            let batch = view.next_batch(&left, self.options.granularity.into()).map_err(|broken| {
                Failure(format!("{broken}: give it more members, or restart that node when nobody needs it"))
            })?;
            if batch.is_empty() {
                break;
            }
            let names = names(&status, &batch);
            self.tell_batch("restarting", &names, &view);
            // Whoever has taken over meanwhile is told first.
            driver.note(&names, &[])?;
            let batch: Vec<&NodeStatus> = status.nodes.iter().filter(|node| batch.contains(&node.id)).collect();
            let began = Instant::now();
            self.restarter.restart(&batch, driver)?;
            self.wait_until_well(driver, &batch)?;
            driver.note(&[], &names)?;
            done.extend(names.iter().cloned());
            self.tell_done(&names, began.elapsed());
        }
        driver.raise_level()?;
        driver.end()?;
        self.tell(json!({ "step": "done", "version": self.version }), "every node is done");
        Ok(())
    }

    /// Returns once all nodes serve and have caught up, and these have been restarted since they were as they are given here.
    fn wait_until_well(&mut self, driver: &mut Driver<'_>, restarted: &[&NodeStatus]) -> Result<Status, Failure> {
        let deadline = Instant::now() + Duration::from_secs(self.options.within);
        let except: Vec<String> = restarted.iter().map(|node| node.name.clone()).collect();
        let mut before = View::default();
        let mut told_at = Instant::now();
        loop {
            let status = self.nodes.status(&except)?;
            let now = view(&status);
            let mut wrong = now.wrong(&before);
            for node in restarted {
                if !self.is_new(node, &status)? {
                    wrong.push(format!("{} has not been started again yet", node.name));
                }
            }
            if wrong.is_empty() {
                return Ok(status);
            }
            if let Some(ended) = self.restarter.ended() {
                return Err(Failure(ended));
            }
            if self.is_interrupted.load(Ordering::Relaxed) {
                return Err(Failure("interrupted".into()));
            }
            if Instant::now() > deadline {
                let within = self.options.within;
                let log = if restarted.is_empty() { "" } else { "; see the log of what was restarted last" };
                return Err(Failure(format!("not well after {within} s: {}{log}", told(&wrong))));
            }
            if told_at.elapsed() > WAIT_TOLD_EVERY {
                told_at = Instant::now();
                let why = told(&wrong);
                self.tell(json!({ "step": "waiting", "for": wrong }), format_args!("waiting: {why}"));
            }
            driver.beat()?;
            before = now;
            sleep(LOOK_EVERY);
        }
    }

    /// Whether a node has been started since it was as it is given here. One that runs another version than it should never gets well.
    fn is_new(&self, node: &NodeStatus, status: &Status) -> Result<bool, Failure> {
        let now = status.nodes.iter().find(|now| now.id == node.id).and_then(|now| now.own.as_ref());
        let Some(now) = now.filter(|now| node.own.as_ref().is_none_or(|before| now.starts > before.starts)) else {
            return Ok(false);
        };
        match self.version.as_ref().filter(|expected| now.version != **expected) {
            None => Ok(true),
            Some(expected) => Err(Failure(format!("{} runs version {}, not {expected}", node.name, now.version))),
        }
    }

    /// What is wrong, and the cluster at the second look.
    fn look_twice(&self) -> Result<(Vec<String>, Status), Failure> {
        let before = view(&self.nodes.status(&[])?);
        sleep(LOOK_EVERY);
        let status = self.nodes.status(&[])?;
        Ok((view(&status).wrong(&before), status))
    }

    fn tell_batch(&self, what: &str, names: &[String], view: &View) {
        let coordinates =
            |name: &&String| view.nodes.iter().find(|node| node.name == **name).map(|node| node.coordinates);
        let handed_over: usize = names.iter().filter_map(|name| coordinates(&name)).sum();
        let all = view.groups.len();
        self.tell(
            json!({ "step": what, "nodes": names, "coordinates": handed_over, "groups": all }),
            format_args!(
                "{what} {}: coordinates {handed_over}; all {all} groups, the root among them, serve without",
                names.join(", ")
            ),
        );
    }

    fn tell_done(&self, names: &[String], took: Duration) {
        let took_s = took.as_secs_f64();
        let version = self.version.as_ref().map_or_else(String::new, |version| format!(", version {version}"));
        self.tell(
            json!({ "step": "restarted", "nodes": names, "seconds": took_s }),
            format_args!("{} serves and has caught up after {took_s:.1} s{version}", names.join(", ")),
        );
    }

    fn tell(&self, json: serde_json::Value, line: impl Display) {
        match self.options.json {
            true => say(json),
            false => say(line),
        }
    }
}

fn names(status: &Status, nodes: &[u32]) -> Vec<String> {
    let name = |id: &u32| status.nodes.iter().find(|node| node.id == *id).map(|node| node.name.clone());
    nodes.iter().filter_map(name).collect()
}

fn told(wrong: &[String]) -> String {
    let more = wrong.len().saturating_sub(WRONG_TOLD);
    let first = wrong.iter().take(WRONG_TOLD).cloned().collect::<Vec<String>>().join("; ");
    if more == 0 { first } else { format!("{first}; and {more} more") }
}
