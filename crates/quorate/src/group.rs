//! `quorate group`: objects with groups of their own, in the words of `QUORATE GROUP`.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use quorate_node::root::NAMESPACE_NUMBER_MAX;
use quorate_resp::Value;

use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{complain, fields, say};

/// Names in one command; a file may have any number.
const NAMES_PER_COMMAND: usize = 10_000;

const EXAMPLES: &str = "Examples:
  quorate group promote hot --members n2,n1,n3     n2 shall coordinate
  quorate group show hot                           where it is, and who coordinates it
  quorate group create --file names.txt            a group for each line; `-` reads standard input
  quorate group demote hot
  quorate group -n 2 move user:1 --members n2,n3,n4    of registers: their volume, while clients use it";

/// Give objects groups of their own, and put them back
///
/// An object in a group of its own has a coordinator, and members if you name them, for itself. Clients notice nothing.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The namespace that the keys are in
    #[arg(short = 'n', long, global = true, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=i64::from(NAMESPACE_NUMBER_MAX)))]
    namespace: u32,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell of the groups that objects are in
    Show {
        #[command(flatten)]
        keys: Keys,
    },
    /// Make strings in groups of their own, where there are no objects yet
    Create {
        #[command(flatten)]
        keys: Keys,
        #[command(flatten)]
        members: Members,
        /// The strings' value
        #[arg(long, default_value = "")]
        value: String,
    },
    /// Give objects groups of their own
    Promote {
        #[command(flatten)]
        keys: Keys,
        #[command(flatten)]
        members: Members,
    },
    /// Move the volume of a register to other nodes, while clients use it
    Move {
        /// A key in it
        #[arg(value_name = "KEY")]
        name: String,
        /// Names of nodes; of a grid row by row
        #[arg(long, value_name = "NODE,...")]
        members: String,
        /// Its quorums from then on: majority, "threshold R W", grid or "grid ROWSxCOLS" [default: the namespace's]
        #[arg(long, value_name = "WHICH")]
        quorum: Option<String>,
    },
    /// Put objects back into their volumes
    Demote {
        #[command(flatten)]
        keys: Keys,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Keys {
    /// The keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Read the keys from a file, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Members {
    /// Names of nodes among the volume's members, the coordinator first [default: all of them]
    #[arg(long, value_name = "NODE,...")]
    members: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut client = Client::connect_to_namespace(&options.endpoint, options.namespace)?;
    if let Command::Move { name, members, quorum } = &options.command {
        client.ask(&move_request(name, members, quorum.as_deref()))?;
        say("OK");
        return Ok(ExitCode::SUCCESS);
    }
    let (action, keys, tail) = words_of(&options.command);
    let keys = keys.all()?;
    let mut tally = Tally { of: keys.len(), shows_progress: std::io::stderr().is_terminal(), ..Tally::default() };
    for names in keys.chunks(NAMES_PER_COMMAND) {
        let answer = client.ask(&request(action, names, &tail))?;
        let Value::Array(answers) = answer else {
            return Err(Failure(format!("QUORATE GROUP {action} was answered with {answer:?}")));
        };
        for (name, answer) in names.iter().zip(&answers) {
            tally.take(name, answer);
        }
    }
    Ok(tally.finish())
}

fn move_request(key: &str, members: &str, quorum: Option<&str>) -> Vec<String> {
    let mut words = ["QUORATE", "GROUP", "MOVE", key, "MEMBERS", members].map(str::to_owned).to_vec();
    if let Some(quorum) = quorum {
        words.push("QUORUM".to_owned());
        words.extend(quorum.split_whitespace().map(str::to_owned));
    }
    words
}

fn words_of(command: &Command) -> (&'static str, &Keys, Vec<String>) {
    let with_members = |members: &Members| match &members.members {
        Some(list) => vec!["MEMBERS".to_owned(), list.clone()],
        None => Vec::new(),
    };
    match command {
        Command::Show { keys } => ("SHOW", keys, Vec::new()),
        Command::Demote { keys } => ("DEMOTE", keys, Vec::new()),
        Command::Move { .. } => unreachable!("it concerns one key, and is asked for by itself"),
        Command::Promote { keys, members } => ("PROMOTE", keys, with_members(members)),
        Command::Create { keys, members, value } => {
            let mut tail = with_members(members);
            tail.extend(["VALUE".to_owned(), value.clone()]);
            ("CREATE", keys, tail)
        }
    }
}

fn request(action: &str, names: &[String], tail: &[String]) -> Vec<String> {
    let mut words = ["QUORATE", "GROUP", action, "KEYS"].map(str::to_owned).to_vec();
    words.push(names.len().to_string());
    words.extend_from_slice(names);
    words.extend_from_slice(tail);
    words
}

impl Keys {
    fn all(&self) -> Result<Vec<String>, Failure> {
        let Some(file) = &self.file else { return Ok(self.keys.clone()) };
        let told = format!("cannot read {}", file.display());
        let lines: std::io::Result<Vec<String>> = match file.as_os_str() == "-" {
            true => std::io::stdin().lock().lines().collect(),
            false => BufReader::new(std::fs::File::open(file).context(&told)?).lines().collect(),
        };
        let mut keys = lines.context(&told)?;
        keys.retain(|key| !key.is_empty());
        Ok(keys)
    }
}

/// What became of each name.
#[derive(Default)]
struct Tally {
    of: usize,
    done: usize,
    failed: usize,
    shows_progress: bool,
}

impl Tally {
    fn take(&mut self, name: &str, answer: &Value) {
        match answer {
            Value::Error(line) => {
                self.failed += 1;
                complain(format_args!("{name}: {line}"));
            }
            Value::Simple(_) => self.done += 1,
            group => {
                self.done += 1;
                let fields: Vec<String> =
                    fields(group).into_iter().map(|(field, value)| format!("  {field}: {value}")).collect();
                say(format_args!("{name}\n{}", fields.join("\n")));
            }
        }
        if self.shows_progress && self.of > NAMES_PER_COMMAND && (self.done + self.failed).is_multiple_of(1000) {
            // Nobody is told anything wrong if it is not shown.
            let _ = write!(std::io::stderr(), "\r{} of {}", self.done + self.failed, self.of);
        }
    }

    fn finish(&self) -> ExitCode {
        if self.shows_progress && self.of > NAMES_PER_COMMAND {
            let _ = writeln!(std::io::stderr());
        }
        if self.of > 1 {
            let failed = if self.failed == 0 { String::new() } else { format!(", {} failed", self.failed) };
            say(format_args!("{} done{failed}", self.done));
        } else if self.failed == 0 && self.of == 1 {
            say("OK");
        }
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_the_words_of_the_grammar() {
        let keys = || Keys { keys: vec!["a".into(), "b".into()], file: None };
        let line = |command: &Command| {
            let (action, keys, tail) = words_of(command);
            request(action, &keys.all().expect("named"), &tail).join(" ")
        };
        let members = Members { members: Some("n2,n1".into()) };
        assert_eq!(line(&Command::Show { keys: keys() }), "QUORATE GROUP SHOW KEYS 2 a b");
        let create = Command::Create { keys: keys(), members, value: "v".into() };
        assert_eq!(line(&create), "QUORATE GROUP CREATE KEYS 2 a b MEMBERS n2,n1 VALUE v");
        let promote = Command::Promote { keys: keys(), members: Members { members: None } };
        assert_eq!(line(&promote), "QUORATE GROUP PROMOTE KEYS 2 a b");
        let moved = move_request("a", "n1,n2,n3,n4", Some("grid 2x2")).join(" ");
        assert_eq!(moved, "QUORATE GROUP MOVE a MEMBERS n1,n2,n3,n4 QUORUM grid 2x2");
    }

    #[test]
    fn keys_come_from_a_file_too() {
        let file = std::env::temp_dir().join(format!("quorate-keys-{}", std::process::id()));
        std::fs::write(&file, "one\n\ntwo words\n").expect("written");
        let keys = Keys { keys: Vec::new(), file: Some(file.clone()) };
        assert_eq!(keys.all().expect("read"), ["one", "two words"]);
        std::fs::remove_file(&file).expect("removed");
        assert!(keys.all().expect_err("gone").0.contains("cannot read"));
    }
}
