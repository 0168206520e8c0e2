//! `quorate namespace`: the namespaces of the cluster, in the words of `QUORATE NAMESPACE`.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use quorate_server::config::{Durability, NODES_MAX, Reads, VOLUMES_MAX};

use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{align_right, say, table, trimmed};
use crate::status;

/// Create, change, list and drop namespaces
///
/// Clients enter namespace N with `SELECT N`. Namespace 0 always exists.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a namespace
    Create {
        /// Its number
        number: u32,
        #[command(flatten)]
        settings: Settings,
        /// How many groups its keys are divided over [default: the cluster's, 64]
        #[arg(long, value_name = "V", value_parser = clap::value_parser!(u32).range(1..=i64::from(VOLUMES_MAX)))]
        volumes: Option<u32>,
    },
    /// Change what can be changed of a namespace
    Set {
        /// Its number
        number: u32,
        #[command(flatten)]
        settings: Settings,
    },
    /// List the namespaces
    List,
    /// Drop a namespace and everything in it
    Drop {
        /// Its number
        number: u32,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Default, Args)]
struct Settings {
    /// How many nodes hold each volume [default: the cluster's, 3]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=NODES_MAX as i64))]
    replicas: Option<u16>,
    /// When writes are acknowledged: on disk at a majority, or in memory, synced every 50 ms or never
    #[arg(long, value_name = "WHEN", value_parser = PossibleValuesParser::new(Durability::WORDS))]
    durability: Option<String>,
    /// Linearizable by a lease or by a quorum round, or sequentially consistent from the nearest member
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(Reads::WORDS))]
    reads: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Command::Drop { number, yes: false } = options.command
        && !is_confirmed(number)?
    {
        return Ok(ExitCode::FAILURE);
    }
    match request(&options.command)? {
        Some(request) => {
            Client::connect(&options.endpoint)?.ask(&request)?;
            say("OK");
        }
        None => list(&options.endpoint)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The command as the node takes it; a list is read from the status instead.
fn request(command: &Command) -> Result<Option<Vec<String>>, Failure> {
    let (verb, number, settings) = match command {
        Command::List => return Ok(None),
        Command::Drop { number, .. } => ("DROP", number, Vec::new()),
        Command::Create { number, settings, volumes } => {
            let mut words = settings.words();
            words.extend(pair("VOLUMES", volumes.as_ref()));
            ("CREATE", number, words)
        }
        Command::Set { number, settings } => {
            let words = settings.words();
            if words.is_empty() {
                return Err(Failure::new("nothing to change; give --replicas, --durability or --reads"));
            }
            ("SET", number, words)
        }
    };
    let head = ["QUORATE", "NAMESPACE", verb].map(str::to_owned);
    Ok(Some(head.into_iter().chain([number.to_string()]).chain(settings).collect()))
}

impl Settings {
    fn words(&self) -> Vec<String> {
        let replicas = pair("REPLICAS", self.replicas.as_ref());
        let durability = pair("DURABILITY", self.durability.as_ref());
        replicas.chain(durability).chain(pair("READS", self.reads.as_ref())).collect()
    }
}

fn pair(name: &str, value: Option<&impl ToString>) -> impl Iterator<Item = String> {
    let words = value.map(|value| [name.to_owned(), value.to_string()]);
    words.into_iter().flatten()
}

fn list(endpoint: &Endpoint) -> Result<(), Failure> {
    let status = status::fetch(&mut Client::connect(endpoint)?)?;
    let mut table = table(&["namespace", "protocol", "replicas", "volumes", "durability", "reads"]);
    for namespace in status.namespaces {
        table.add_row([
            namespace.id.to_string(),
            namespace.protocol,
            namespace.replicas.to_string(),
            namespace.volumes.to_string(),
            namespace.durability,
            namespace.reads,
        ]);
    }
    align_right(&mut table, [2, 3]);
    say(trimmed(table));
    Ok(())
}

fn is_confirmed(number: u32) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure(format!("dropping namespace {number} loses everything in it; add --yes to do so")));
    }
    let mut stdout = std::io::stdout();
    let question = write!(stdout, "Drop namespace {number} and everything in it? Type its number to do so: ");
    question.and_then(|()| stdout.flush()).context("cannot ask")?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(answer.trim() == number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> String {
        request(command).expect("good").expect("a request").join(" ")
    }

    #[test]
    fn options_become_the_words_of_the_grammar() {
        let settings =
            Settings { replicas: Some(5), durability: Some("interval".to_owned()), reads: Some("quorum".to_owned()) };
        assert_eq!(
            words(&Command::Create { number: 1, settings, volumes: Some(8) }),
            "QUORATE NAMESPACE CREATE 1 REPLICAS 5 DURABILITY interval READS quorum VOLUMES 8"
        );
        let plain = Command::Create { number: 2, settings: Settings::default(), volumes: None };
        assert_eq!(words(&plain), "QUORATE NAMESPACE CREATE 2");
        assert_eq!(words(&Command::Drop { number: 2, yes: true }), "QUORATE NAMESPACE DROP 2");
    }

    #[test]
    fn a_change_of_nothing_is_refused() {
        let refusal = request(&Command::Set { number: 1, settings: Settings::default() }).expect_err("refused");
        assert!(refusal.0.contains("nothing to change"), "{refusal:?}");
    }
}
