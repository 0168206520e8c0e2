//! Restarting a node: a process of this machine that `quorate up` has made, or whatever a command of the user's restarts.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use quorate_node::status::{NodeStatus, Status};
use quorate_server::config::Config;

use super::progress::Driver;
use crate::failure::{Context, Failure};
use crate::output::shell_word;
use crate::up::{self, RunLog};

/// How long a node may take to end: what it promises, and as long again.
const ENDED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How nodes are restarted.
pub(super) enum Restarter {
    /// They are processes here: each is asked to end, and this program is started in its place.
    Here { nodes: Vec<Here>, program: PathBuf },
    /// This command line, for each of them, with its name in place of `{node}`.
    With(String),
}

/// A node whose directory `quorate up` has made.
pub(super) struct Here {
    name: String,
    directory: PathBuf,
    data: PathBuf,
    /// Started here, and by nobody else.
    run: Option<(Child, RunLog)>,
}

impl Restarter {
    /// Of the nodes that `up` has in this directory, which must be those of the cluster.
    pub(super) fn here(dir: &Path, program: PathBuf, status: &Status) -> Result<Restarter, Failure> {
        let here = |node: &NodeStatus| {
            let directory = up::node_directory(dir, node.id as usize);
            let config = Config::load(&directory.join("node.toml")).map_err(|error| {
                Failure(format!(
                    "{error}; --dir is where `quorate up` has the nodes; for those that something else runs, give --with"
                ))
            })?;
            if config.cluster.id.to_string() != status.cluster || config.node.name != node.name {
                return Err(Failure(format!(
                    "{} is not of {} of the cluster that answers: check --dir and -p",
                    directory.display(),
                    node.name
                )));
            }
            let directory = directory.canonicalize().context(format_args!("cannot find {}", directory.display()))?;
            let data = config.node.data_dir;
            Ok(Here { name: node.name.clone(), directory, data, run: None })
        };
        let nodes = status.nodes.iter().map(here).collect::<Result<_, _>>()?;
        Ok(Restarter::Here { nodes, program })
    }

    /// Restarts these nodes, and returns once they are on their way; of those that cannot be, one is told of.
    pub(super) fn restart(&mut self, batch: &[&NodeStatus], driver: &mut Driver<'_>) -> Result<(), Failure> {
        match self {
            Restarter::With(command) => {
                for node in batch {
                    run(&command.replace("{node}", &shell_word(Path::new(&node.name))), driver)?;
                }
                Ok(())
            }
            Restarter::Here { nodes, program } => {
                let mut ours: Vec<&mut Here> =
                    nodes.iter_mut().filter(|here| batch.iter().any(|node| node.name == here.name)).collect();
                let mut running = Vec::new();
                for (here, node) in ours.iter().zip(batch_in_order(&ours, batch)) {
                    running.push(here.running(node)?);
                }
                for (here, running) in ours.iter().zip(&running) {
                    here.ask_to_end(running, program)?;
                }
                for (here, running) in ours.iter_mut().zip(&running) {
                    running.wait_for_end(&here.name)?;
                    if !running.is_of_up {
                        here.start(program)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether a node that was started here has ended again, in words.
    pub(super) fn ended(&mut self) -> Option<String> {
        let Restarter::Here { nodes, .. } = self else { return None };
        nodes.iter_mut().find_map(|here| {
            let (child, log) = here.run.as_mut()?;
            let status = child.try_wait().ok()??;
            Some(format!("{} ended with {status} after its start{}", here.name, log.ending()))
        })
    }

    /// Nobody is to start a node because of what was asked for and has not come.
    pub(super) fn withdraw(&self) {
        if let Restarter::Here { nodes, .. } = self {
            nodes.iter().for_each(|here| drop(up::take_successor(&here.directory)));
        }
    }
}

fn batch_in_order<'a>(ours: &[&mut Here], batch: &'a [&NodeStatus]) -> Vec<&'a NodeStatus> {
    let of = |here: &&mut Here| batch.iter().copied().find(|node| node.name == here.name);
    ours.iter().filter_map(of).collect()
}

/// A process that runs a node.
struct Running {
    pid: libc::pid_t,
    /// When it began, which tells it from a later process of this number.
    began: String,
    /// A `quorate up` waits for its end.
    is_of_up: bool,
}

impl Here {
    fn running(&self, node: &NodeStatus) -> Result<Running, Failure> {
        let path = self.data.join("pid");
        let told = node.own.as_ref().map(|own| own.pid);
        let text = std::fs::read_to_string(&path).context(format_args!("cannot read {}", path.display()))?;
        let pid = text.trim().parse::<u32>().ok().filter(|pid| told == Some(*pid));
        let found = pid.and_then(|pid| Some((pid, Process::of(pid)?)));
        let Some((pid, Process { parent, began, .. })) = found else {
            return Err(Failure(format!(
                "{} names process {}, and {} says that it is {}: is it on another machine? Then give --with",
                path.display(),
                text.trim(),
                node.name,
                told.map_or_else(|| "none".to_owned(), |pid| pid.to_string())
            )));
        };
        let is_of_up = self.directory.parent().and_then(up::pid).is_some_and(|up| up == parent);
        Ok(Running { pid: pid.cast_signed(), began, is_of_up })
    }

    fn ask_to_end(&self, running: &Running, program: &Path) -> Result<(), Failure> {
        if running.is_of_up {
            up::name_successor(&self.directory, program)
                .context(format_args!("cannot write to {}", self.directory.display()))?;
        }
        // SAFETY: a plain system call, on a process that was just seen to run the node.
        match unsafe { libc::kill(running.pid, libc::SIGTERM) } {
            0 => Ok(()),
            _ => {
                let error = std::io::Error::last_os_error();
                Err(Failure(format!("cannot ask {} (pid {}) to end: {error}", self.name, running.pid)))
            }
        }
    }

    /// In a session of its own: it goes on when this process, or the terminal, does not.
    fn start(&mut self, program: &Path) -> Result<(), Failure> {
        let cannot_open = || format!("cannot open the log in {}", self.directory.display());
        let (output, log) = RunLog::begin(&self.directory).context(cannot_open())?;
        let mut command = Command::new(program);
        command.arg("node").arg("--config").arg(self.directory.join("node.toml")).stdin(Stdio::null());
        command.stdout(output.try_clone().context(cannot_open())?).stderr(output);
        // SAFETY: the closure makes one plain system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::setsid() {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let child = command.spawn().context(format_args!("cannot start {}", self.name))?;
        self.run = Some((child, log));
        Ok(())
    }
}

impl Running {
    fn wait_for_end(&self, name: &str) -> Result<(), Failure> {
        let deadline = Instant::now() + ENDED_WITHIN;
        let is_there = || {
            let now = Process::of(self.pid.unsigned_abs());
            now.is_some_and(|now| now.began == self.began && !now.has_ended)
        };
        while is_there() {
            if Instant::now() > deadline {
                return Err(Failure(format!(
                    "{name} (pid {}) was asked to end and has not within {} s: see its log",
                    self.pid,
                    ENDED_WITHIN.as_secs()
                )));
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// What the system tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    began: String,
    /// Its parent has not taken note yet.
    has_ended: bool,
}

impl Process {
    fn of(pid: u32) -> Option<Process> {
        Process::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `PID (NAME) STATE PARENT ...`, with the time of its start in the 22nd field. The name may hold anything.
    fn parse(stat: &str) -> Option<Process> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Process {
            parent: fields.get(1)?.parse().ok()?,
            began: (*fields.get(19)?).to_owned(),
            has_ended: matches!(*fields.first()?, "Z" | "X"),
        })
    }
}

/// A command of the user's, which may take its time.
fn run(line: &str, driver: &mut Driver<'_>) -> Result<(), Failure> {
    let mut child = Command::new("sh").arg("-c").arg(line).stdin(Stdio::null()).spawn().context("cannot start sh")?;
    loop {
        match child.try_wait().context("cannot wait for the command")? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(Failure(format!("`{line}` ended with {status}"))),
            None => {
                sleep(LOOK_EVERY);
                driver.beat()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_parent_and_its_beginning() {
        let mut stat = "12 (a) b) S 7".to_owned();
        (5..=21).for_each(|field| stat += &format!(" {field}"));
        stat += " 4711 23 24";
        assert_eq!(Process::parse(&stat), Some(Process { parent: 7, began: "4711".into(), has_ended: false }));
        let me = Process::of(std::process::id()).expect("this one runs");
        // SAFETY: a plain system call.
        assert_eq!(me.parent, unsafe { libc::getppid() }.unsigned_abs());
        assert_eq!(Process::parse("12 (a) S"), None);
    }
}
