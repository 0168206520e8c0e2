//! `cargo xtask long`: what takes too long for `.ci/run`, or needs a machine of one's own. Each job ends by itself, says
//! what it found, and fails if that is not as it must be; results worth keeping go into `docs/operations`.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

mod clients;
mod disk_image;
mod fuzz;
mod groups;
mod node;
mod power_cuts;

/// Why a job failed, in a line.
pub(crate) type Failure = String;

struct Job {
    name: &'static str,
    options: &'static str,
    about: &'static str,
    run: fn(&Path, &mut Options) -> Result<(), Failure>,
}

const JOBS: [Job; 7] = [
    Job {
        name: "checkpoints",
        options: "[--groups 1000000]",
        about: "what so many small groups cost in the checkpoint store: storing, looking up, opening, memory",
        run: groups::checkpoints,
    },
    Job {
        name: "clients",
        options: "",
        about: "go-redis, ioredis, node-redis, Jedis and Lettuce, also through a node that dies and comes back",
        run: clients::run,
    },
    Job {
        name: "fuzz",
        options: "[--minutes 60] [--target NAME]",
        about: "every fuzz target, for so long each, one after the other",
        run: fuzz::run,
    },
    Job {
        name: "groups",
        options: "[--groups 1000000] [--gigabytes N]",
        about: "so many own groups in a cluster: nodes killed under writes, restart until it answers, every value verified",
        run: groups::groups_of_a_cluster,
    },
    Job {
        name: "log",
        options: "[--gigabytes 10] [--groups 1000000]",
        about: "the size of a log to which one group writes so much while so many others write once each",
        run: groups::log,
    },
    Job {
        name: "power-cuts",
        options: "[--cycles 1000] [--seed N] [--program FILE]",
        about: "cut the power of a node's disk under load, and look for what was acknowledged (root)",
        run: power_cuts::run,
    },
    Job {
        name: "registers",
        options: "",
        about: "grids of 16 and 25 nodes under load: as many are killed as they survive, networks are parted, members and sizes change (root)",
        run: registers,
    },
];

fn registers(root: &Path, options: &mut Options) -> Result<(), Failure> {
    options.finish()?;
    clients::run_ignored(root, "nodes_in_a_grid", "a client was told of an error, or waited for too long")
}

pub(crate) fn run(root: &Path, words: &[&str]) -> ExitCode {
    let Some((job, words)) = words.split_first().and_then(|(name, rest)| Some((find(name)?, rest))) else {
        eprint!("{}", usage());
        return ExitCode::FAILURE;
    };
    let mut options = Options { words: words.iter().map(|word| (*word).to_owned()).collect() };
    match (job.run)(root, &mut options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("cargo xtask long {}: {failure}", job.name);
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> Option<&'static Job> {
    JOBS.iter().find(|job| job.name == name)
}

fn usage() -> String {
    let job = |job: &Job| {
        let call = format!("cargo xtask long {} {}", job.name, job.options);
        format!("{}\n    {}\n", call.trim_end(), job.about)
    };
    JOBS.iter().map(job).collect()
}

/// What follows the name of a job: pairs of `--option` and value.
pub(crate) struct Options {
    words: Vec<String>,
}

impl Options {
    /// Takes an option's value, if it is there.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let Some(at) = self.words.iter().position(|word| word == name) else { return Ok(None) };
        if at + 1 == self.words.len() {
            return Err(format!("{name} needs a value"));
        }
        self.words.remove(at);
        Ok(Some(self.words.remove(at)))
    }

    pub(crate) fn take_number(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        let text = self.take(name)?;
        text.map(|text| text.parse().map_err(|_| format!("{name} is a number, not {text:?}"))).transpose()
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        self.words.first().map_or(Ok(()), |word| Err(format!("{word} is not understood")))
    }
}

/// Runs a command to its end. What it printed on standard output; on failure, what it complained of.
pub(crate) fn call(command: &mut Command) -> Result<String, Failure> {
    let called = command.stdin(Stdio::null()).output();
    let output = called.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}: {}", output.status, complaint.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Options {
        Options { words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    #[test]
    fn options_are_taken_by_name_and_nothing_is_left_unread() {
        let mut given = options(&["--seed", "7", "--cycles", "3"]);
        assert_eq!(given.take_number("--cycles"), Ok(Some(3)));
        assert_eq!(given.take("--program"), Ok(None));
        assert_eq!(given.finish(), Err("--seed is not understood".to_owned()));
        assert_eq!(given.take("--seed"), Ok(Some("7".to_owned())));
        assert_eq!(given.finish(), Ok(()));
        assert!(options(&["--cycles"]).take("--cycles").is_err());
        assert!(options(&["--cycles", "x"]).take_number("--cycles").is_err());
    }

    #[test]
    fn every_job_is_found_by_its_name() {
        assert!(JOBS.iter().all(|job| find(job.name).is_some() && usage().contains(job.name)));
    }
}
