//! `quorate node drain|undrain|level`: volumes and objects' own groups move away from a node, or volumes until all nodes have as many as
//! any other.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use quorate_resp::Value;

use crate::client::{Client, Endpoint};
use crate::failure::Failure;
use crate::output::{complain, fields, say};

/// How often it is asked how far it is.
const PAUSE: Duration = Duration::from_secs(1);

/// Move all replicas of volumes and of objects' own groups that a node has to other nodes
///
/// Clients go on meanwhile. It waits until nothing is left, and tells how far it is; Ctrl-C ends the waiting, not the moving, which
/// `quorate node undrain` does.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Drain {
    #[command(flatten)]
    endpoint: Endpoint,
    /// What people call it
    name: String,
    /// Return at once
    #[arg(long)]
    no_wait: bool,
}

/// Let a node that was drained have replicas again
///
/// What has moved away does not come back by itself: `quorate node level` makes all nodes even.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Undrain {
    #[command(flatten)]
    endpoint: Endpoint,
    /// What people call it
    name: String,
}

/// Move replicas of volumes until every node has as many as any other
///
/// It goes on in the cluster, and ends by itself; `quorate node list` tells how many each has.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Level {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Leave it at what has been moved so far
    #[arg(long)]
    stop: bool,
}

pub(crate) fn undrain(Undrain { endpoint, name }: &Undrain) -> Result<ExitCode, Failure> {
    Client::connect(endpoint)?.ask(&["QUORATE", "NODE", "UNDRAIN", name])?;
    say("OK");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn level(Level { endpoint, stop }: &Level) -> Result<ExitCode, Failure> {
    let words: &[&str] = &["QUORATE", "NODE", "LEVEL", "STOP"][..if *stop { 4 } else { 3 }];
    Client::connect(endpoint)?.ask(words)?;
    say("OK");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn drain(Drain { endpoint, name, no_wait }: &Drain) -> Result<ExitCode, Failure> {
    let mut client = Client::connect(endpoint)?;
    client.ask(&["QUORATE", "NODE", "DRAIN", name])?;
    if *no_wait {
        say("OK");
        return Ok(ExitCode::SUCCESS);
    }
    let mut told = String::new();
    loop {
        let progress = Progress::of(&client.ask(&["QUORATE", "NODE", "SHOW", name])?)?;
        let line = progress.line(name);
        if line != told {
            complain(&line);
            told = line;
        }
        if !progress.is_draining {
            return Err(Failure(format!("{name} does not drain any more: somebody has undone it")));
        }
        if progress.is_over() {
            progress.what_is_left(name).iter().for_each(say);
            return Ok(if progress.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        std::thread::sleep(PAUSE);
    }
}

/// What `QUORATE NODE SHOW` tells of a node that is drained.
#[derive(Debug, Default, PartialEq)]
struct Progress {
    is_draining: bool,
    replicas: u64,
    staying: u64,
    /// What is told of those that do not move now.
    waiting: String,
    /// None if the node did not answer.
    own_groups: Option<u64>,
    /// Own groups that name it, as far as those answered that coordinate their volumes, those of them that do not move now, and why.
    named: u64,
    named_staying: u64,
    named_waiting: String,
}

impl Progress {
    fn of(reply: &Value) -> Result<Progress, Failure> {
        let fields = fields(reply);
        let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
        let number = |name: &str| field(name).and_then(|value| value.parse().ok());
        let waits = |name: &str| {
            let lines = field(name).unwrap_or_default().lines().map(str::trim).filter(|line| !line.is_empty());
            lines.map(counted).collect::<Vec<_>>().join("; ")
        };
        let not_understood = || Failure(format!("QUORATE NODE SHOW was answered with {reply:?}"));
        Ok(Progress {
            is_draining: field("draining") == Some("yes"),
            replicas: number("replicas").ok_or_else(not_understood)?,
            staying: number("staying").ok_or_else(not_understood)?,
            waiting: waits("waiting"),
            own_groups: number("own_groups"),
            named: number("own_groups_named").unwrap_or(0),
            named_staying: number("own_groups_staying").unwrap_or(0),
            named_waiting: waits("own_groups_waiting"),
        })
    }

    /// Whether nothing moves any more. Of own groups that nobody names, replicas end by themselves once their volumes have left.
    fn is_over(&self) -> bool {
        let are_volumes_over = self.replicas == self.staying;
        let are_ending = self.staying == 0 && self.own_groups.is_some_and(|there| there > self.named_staying);
        are_volumes_over && self.named <= self.named_staying && !are_ending
    }

    fn is_empty(&self) -> bool {
        self.replicas == 0 && self.named == 0 && self.own_groups.unwrap_or(0) == 0
    }

    fn line(&self, name: &str) -> String {
        let of = |waiting: &str| if waiting.is_empty() { String::new() } else { format!(" ({waiting})") };
        let own = match (self.named, self.own_groups) {
            (0, None | Some(0)) => String::new(),
            (named, there) => {
                format!(", {} own groups{}", there.unwrap_or(0).max(named), of(&self.named_waiting))
            }
        };
        format!("{name} has {} replicas left{}{own}", self.replicas, of(&self.waiting))
    }

    /// Once nothing moves any more.
    fn what_is_left(&self, name: &str) -> Vec<String> {
        let mut lines = vec![match self.replicas {
            0 => format!("{name} has no replica of a volume or of the root any more"),
            1 => format!("1 replica stays on {name}: {}", self.waiting),
            staying => format!("{staying} replicas stay on {name}: {}", self.waiting),
        }];
        match self.named {
            0 => {}
            1 => lines.push(format!("1 own group stays on {name}: {}", self.named_waiting)),
            count => lines.push(format!("{count} own groups stay on {name}: {}", self.named_waiting)),
        }
        lines
    }
}

/// `replicas 2, why it is so`, as an entry of a list is printed, in fewer words.
fn counted(line: &str) -> String {
    let Some((count, why)) = line.split_once(", why ") else { return line.to_owned() };
    format!("{}: {why}", count.rsplit(' ').next().unwrap_or(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &[(&str, Value)]) -> Value {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        Value::Map(fields.iter().map(|(name, value)| (bulk(name), value.clone())).collect())
    }

    #[test]
    fn how_far_it_is_and_what_stays_is_told() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let reply = shown(&[
            ("draining", bulk("yes")),
            ("replicas", Value::Integer(5)),
            ("staying", Value::Integer(0)),
            ("own_groups", Value::Integer(7)),
            ("own_groups_named", Value::Integer(3)),
            ("own_groups_staying", Value::Integer(3)),
            ("own_groups_waiting", bulk("3 because")),
            ("waiting", Value::Array(vec![shown(&[("replicas", Value::Integer(2)), ("why", bulk("so"))])])),
        ]);
        let progress = Progress::of(&reply).expect("understood");
        assert_eq!(progress.line("n4"), "n4 has 5 replicas left (2: so), 7 own groups (3 because)");
        assert!(!progress.is_over() && !progress.is_empty());
        let progress = Progress { replicas: 0, ..progress };
        assert!(!progress.is_over(), "four that nobody names are about to end there");
        let progress = Progress { own_groups: Some(3), ..progress };
        assert!(progress.is_over() && !progress.is_empty());
        let progress = Progress { named: 4, ..progress };
        assert!(!progress.is_over());
        let progress = Progress { named: 3, ..progress };
        let left = progress.what_is_left("n4");
        assert!(left.len() == 2 && left[0].contains("no replica of a volume or of the root"), "{left:?}");
        assert_eq!(left[1], "3 own groups stay on n4: 3 because");
        let progress = Progress { named: 0, named_staying: 0, own_groups: None, ..progress };
        assert!(progress.is_over() && progress.is_empty(), "it is dead");
        let stays = Progress { replicas: 2, staying: 2, waiting: "2 because".into(), ..Progress::default() };
        assert!(stays.what_is_left("n4")[0].contains("2 replicas stay on n4: 2 because"));
        assert!(Progress::of(&shown(&[("draining", bulk("no"))])).is_err());
    }
}
