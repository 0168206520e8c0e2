//! The node processes of `up`: started, waited for, watched and stopped.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use quorate_server::directory::{Directory, DirectoryError, Whose};

use super::plan::{Plan, PlannedNode};
use super::run_log::RunLog;
use super::successor::take_successor;
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{complain, shell_word};

/// How often a state is looked at while it is waited for.
const POLL_EVERY: Duration = Duration::from_millis(20);
/// How long one PING may take while nodes start.
const PING_WITHIN: Duration = Duration::from_millis(500);
/// A signal to a process and to its group comes twice: the second time so soon it asks for nothing more.
const SAME_SIGNAL: Duration = Duration::from_millis(500);
/// How long a node stays down before it is started again, the first time; each time it dies soon, twice as long.
const RESTART_PAUSE_MIN: Duration = Duration::from_millis(500);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(30);
/// A node that has run for this long did not die soon.
const RUN_IS_LONG: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Processes<'a> {
    list: Vec<Process<'a>>,
    /// Nodes that die are started again.
    restarts: bool,
}

#[derive(Debug)]
struct Process<'a> {
    node: &'a PlannedNode,
    child: Child,
    log: RunLog,
    started_at: Instant,
    /// Once it has ended.
    ended: Option<ExitStatus>,
    /// It is to be started again then.
    restart_at: Option<Instant>,
    /// How long it was down for, the last time that it died soon.
    pause: Duration,
    /// What an upgrade has started it with, in place of this program.
    program: Option<PathBuf>,
}

impl<'a> Processes<'a> {
    pub(super) fn start(plan: &'a Plan, restarts: bool) -> Result<Processes<'a>, Failure> {
        let mut processes = Processes { list: Vec::new(), restarts };
        for node in &plan.nodes {
            // What an upgrade asked for that is over.
            drop(take_successor(&node.directory));
            match start(node, None).context(format_args!("cannot start {}", node.name())) {
                Ok(run) => processes.list.push(Process::new(node, run)),
                Err(failure) => {
                    processes.stop(super::STOPPED_WITHIN, &mut || false);
                    return Err(failure);
                }
            }
        }
        Ok(processes)
    }

    /// Starts one more.
    pub(super) fn add(&mut self, node: &'a PlannedNode) -> Result<(), Failure> {
        let run = start(node, None).context(format_args!("cannot start {}", node.name()))?;
        self.list.push(Process::new(node, run));
        Ok(())
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&'a PlannedNode, u32)> {
        self.list.iter().map(|process| (process.node, process.child.id()))
    }

    /// True once every node has answered a PING, false if that is no longer wanted.
    pub(super) fn wait_until_ready(
        &mut self,
        within: Duration,
        ended: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Failure> {
        let deadline = Instant::now() + within;
        let mut index = 0;
        while index < self.list.len() {
            while self.list.get(index).is_some_and(|process| !process.answers()) {
                if ended() {
                    return Ok(false);
                }
                self.leave_removed();
                if let Some(dead) = self.list.iter_mut().find_map(Process::just_ended) {
                    return Err(Failure(format!("{} while the cluster started", dead.death())));
                }
                if Instant::now() > deadline {
                    let Some(process) = self.list.get(index) else { break };
                    let (name, within_s) = (process.node.name(), within.as_secs());
                    let log = process.log.ending();
                    return Err(Failure(format!("{name} did not answer within {within_s} s{log}")));
                }
                sleep(POLL_EVERY);
            }
            index += 1;
        }
        Ok(true)
    }

    /// Nodes that have ended because the others have told them that they were removed are none any more.
    fn leave_removed(&mut self) {
        self.list.retain_mut(|process| {
            // Of others the end is not to be noticed here.
            let stays = !Directory::is_removed(&process.node.directory) || process.is_running();
            if !stays {
                let (name, directory) = (process.node.name(), process.node.directory.display());
                complain(format_args!("{name} was removed from the cluster; {directory} can be removed too"));
            }
            stays
        });
    }

    /// One line on standard error for each node that has died since the last call, with what comes of it.
    pub(super) fn report_deaths(&mut self) {
        self.leave_removed();
        let mut somebody_died = false;
        for process in &mut self.list {
            let Some(process) = process.just_ended() else { continue };
            let succeeds = process.ended.is_some_and(|status| status.success());
            if let Some(program) = take_successor(&process.node.directory).filter(|_| succeeds) {
                process.program = Some(program);
                process.restart(Instant::now());
                continue;
            }
            somebody_died = true;
            // Who ended well was asked to.
            if self.restarts && process.ended.is_none_or(|status| !status.success()) {
                let pause_ms = process.plan_restart(Instant::now()).as_millis();
                complain(format_args!("{}; it is started again in {pause_ms} ms", process.death()));
            } else {
                let config = shell_word(&process.node.config_path());
                let death = process.death();
                complain(format_args!("{death}; start it again with: quorate node --config {config}"));
            }
        }
        let is_gone = |process: &Process| process.ended.is_some() && process.restart_at.is_none();
        if somebody_died && self.list.iter().all(is_gone) {
            complain("every node that was started here has died; Ctrl-C ends this program");
        }
    }

    /// Starts the nodes again that have been down for long enough. How long until the next is due, if there is one.
    pub(super) fn restart_due(&mut self) -> Option<Duration> {
        let now = Instant::now();
        for process in self.list.iter_mut().filter(|process| process.restart_at.is_some_and(|at| at <= now)) {
            process.restart(now);
        }
        let next = self.list.iter().filter_map(|process| process.restart_at).min();
        next.map(|at| at.saturating_duration_since(now))
    }

    /// Asks every node to stop, insists when `insist` says so or time is up. True if all that still ran stopped cleanly.
    pub(super) fn stop(&mut self, within: Duration, insist: &mut dyn FnMut() -> bool) -> bool {
        let deadline = Instant::now() + within;
        // Those that died until now are reported; none is started any more.
        self.restarts = false;
        for process in &mut self.list {
            if let Some(process) = process.just_ended() {
                // How to start it again is no use to anybody now, and an ephemeral directory is about to go.
                complain(process.death());
            }
        }
        let mut running: Vec<&mut Process> = self.list.iter_mut().filter(|process| process.ended.is_none()).collect();
        for process in &running {
            process.signal(libc::SIGTERM);
        }
        let insists_from = Instant::now() + SAME_SIGNAL;
        while running.iter_mut().any(|process| process.is_running()) {
            let insists = insist() && Instant::now() > insists_from;
            if insists || Instant::now() > deadline {
                let why = if insists {
                    "was killed: a second signal asked for that"
                } else {
                    "did not stop in time and was killed"
                };
                running.iter_mut().for_each(|process| process.kill(why));
            }
            sleep(POLL_EVERY);
        }
        for process in running.iter().filter(|process| process.failed()) {
            complain(format_args!("{} instead of stopping cleanly", process.death()));
        }
        let all_clean = running.iter().all(|process| process.ended.is_some_and(is_clean));
        for process in &self.list {
            process.report_successor();
        }
        all_clean
    }
}

fn start(node: &PlannedNode, program: Option<&Path>) -> std::io::Result<(Child, RunLog)> {
    let (output, log) = RunLog::begin(&node.directory)?;
    let program = program.map_or_else(std::env::current_exe, |program| Ok(program.to_owned()))?;
    let mut command = Command::new(program);
    command.arg("node").arg("--config").arg(node.config_path());
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    // A Ctrl-C in the terminal is for `up` alone, which then tells the nodes.
    command.process_group(0);
    let parent = std::process::id();
    let follow_parent = move || {
        // SAFETY: both calls are plain system calls, allowed between fork and exec.
        let (outcome, parent_now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM), libc::getppid()) };
        if outcome != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // The parent may have gone before its end could be asked for.
        if parent_now.unsigned_abs() != parent { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(()) }
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(follow_parent) };
    Ok((command.spawn()?, log))
}

impl<'a> Process<'a> {
    fn new(node: &'a PlannedNode, (child, log): (Child, RunLog)) -> Process<'a> {
        let (started_at, pause) = (Instant::now(), Duration::ZERO);
        Process { node, child, log, started_at, ended: None, restart_at: None, pause, program: None }
    }

    /// How long it will be down.
    fn plan_restart(&mut self, now: Instant) -> Duration {
        self.pause = pause_after(self.pause, now.saturating_duration_since(self.started_at));
        self.restart_at = Some(now + self.pause);
        self.pause
    }

    fn restart(&mut self, now: Instant) {
        self.restart_at = None;
        let name = self.node.name();
        if self.successor().is_some() {
            // Told of at the end.
            return complain(format_args!("{name} was started by hand meanwhile and is left alone"));
        }
        match start(self.node, self.program.as_deref()) {
            Ok((child, log)) => {
                complain(format_args!("{name} was started again as pid {}", child.id()));
                (self.child, self.log) = (child, log);
                self.started_at = now;
                self.ended = None;
            }
            Err(error) => {
                let pause_ms = self.plan_restart(now).as_millis();
                complain(format_args!("cannot start {name}: {error}; it is tried again in {pause_ms} ms"));
            }
        }
    }

    /// Whether it answers clients, and has been accepted by all others: a cluster that lost a node before would not serve.
    fn answers(&self) -> bool {
        if !Directory::is_accepted(&self.node.directory) {
            return false;
        }
        let client = self.node.config.listen.client;
        let mut endpoint = Endpoint::new(client.ip().to_string(), client.port());
        let tls = &self.node.config.tls;
        if tls.client {
            endpoint = endpoint.with_tls(&tls.ca, &tls.certificate, &tls.key);
        }
        Client::connect_within(&endpoint, PING_WITHIN).is_ok_and(|mut client| client.is_served())
    }

    fn is_running(&mut self) -> bool {
        self.just_ended();
        self.ended.is_none()
    }

    /// Itself, if it has ended since the last time it was asked.
    fn just_ended(&mut self) -> Option<&mut Self> {
        if self.ended.is_some() {
            return None;
        }
        self.ended = self.child.try_wait().ok().flatten();
        self.ended.is_some().then(|| {
            self.remove_pid_file();
            self
        })
    }

    /// Only while it names this process: somebody may have started the node again.
    fn remove_pid_file(&self) {
        let path = self.node.directory.join("pid");
        let named = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        if named == Some(self.child.id()) {
            // Left behind, it would be overwritten by the next start.
            let _ = std::fs::remove_file(path);
        }
    }

    fn signal(&self, signal: libc::c_int) {
        if self.ended.is_none() {
            // SAFETY: a plain system call. The pid is still ours: the child has not been waited for.
            unsafe { libc::kill(self.child.id().cast_signed(), signal) };
        }
    }

    /// Ended neither well nor by [`Process::kill`].
    fn failed(&self) -> bool {
        self.ended.is_some_and(|status| !is_clean(status) && status.signal() != Some(libc::SIGKILL))
    }

    fn kill(&mut self, why: &str) {
        if self.ended.is_none() {
            complain(format_args!("{} {why}", self.node.name()));
            self.signal(libc::SIGKILL);
            self.ended = self.child.wait().ok();
            self.remove_pid_file();
        }
    }

    /// How it ended, in one line.
    fn death(&self) -> String {
        let (name, pid) = (self.node.name(), self.child.id());
        let how = self.ended.map_or_else(|| "ended".to_owned(), describe);
        format!("{name} (pid {pid}) {how}{}", self.log.ending())
    }

    /// A node that was started again by hand is not ours to stop.
    fn report_successor(&self) {
        if let Some(pid) = self.successor() {
            let name = self.node.name();
            complain(format_args!(
                "{name} was started again by hand and goes on as pid {pid}; stop it with: kill {pid}"
            ));
        }
    }

    /// The process that uses the node's directory now.
    fn successor(&self) -> Option<u32> {
        let config = &self.node.config;
        match Directory::check(&config.node.data_dir, Whose::of(config)) {
            Err(DirectoryError::InUse { pid, .. }) => pid,
            _ => None,
        }
    }
}

/// How long to wait before a node is started again that has run for so long, having waited `pause` before.
fn pause_after(pause: Duration, ran: Duration) -> Duration {
    let pause = if ran >= RUN_IS_LONG { Duration::ZERO } else { pause };
    (pause * 2).clamp(RESTART_PAUSE_MIN, RESTART_PAUSE_MAX)
}

/// Of a node that was told to end. A node that the signal itself ended had not yet asked for signals, which it does before
/// it opens its directory: it had done nothing that could be left half done.
fn is_clean(status: ExitStatus) -> bool {
    status.success() || status.signal() == Some(libc::SIGTERM)
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
            format!("was killed by signal {signal}, {name}")
        }
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_told_with_their_names() {
        assert_eq!(describe(ExitStatus::from_raw(9)), "was killed by signal 9, SIGKILL");
        assert_eq!(describe(ExitStatus::from_raw(1 << 8)), "ended with status 1");
    }

    #[test]
    fn a_node_that_was_told_to_end_before_it_began_ended_cleanly() {
        assert!(is_clean(ExitStatus::from_raw(0)) && is_clean(ExitStatus::from_raw(libc::SIGTERM)));
        assert!(!is_clean(ExitStatus::from_raw(1 << 8)) && !is_clean(ExitStatus::from_raw(libc::SIGSEGV)));
    }

    #[test]
    fn who_dies_soon_waits_longer_each_time() {
        let soon = Duration::from_secs(1);
        let mut pause = Duration::ZERO;
        let pauses: Vec<u128> = (0..8)
            .map(|_| {
                pause = pause_after(pause, soon);
                pause.as_millis()
            })
            .collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(pause_after(pause, RUN_IS_LONG), RESTART_PAUSE_MIN);
    }
}
