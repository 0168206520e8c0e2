//! `quorate namespace`: the namespaces of the cluster, in the words of `QUORATE NAMESPACE`.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use quorate_node::quorum::Quorum;
use quorate_node::replica::Protocol;
use quorate_node::root::{
    Authority, Durability, Groups, NAMESPACE_NUMBER_MAX, REGISTER_REPLICAS_MAX, Reads, VOLUMES_MAX,
};
use quorate_resp::Value;

use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{fields, say, table, trimmed};

const EXAMPLES: &str = "Examples:
  quorate namespace create 1 --durability interval    for what a power cut may cost 50 ms of
  quorate namespace set 1 --reads local               any member answers, a little late
  quorate namespace create 2 --protocol register --quorum grid --replicas 4
  quorate namespace set 3 --quorum 1 3                of registers: read one, write all three
  quorate namespace create 4 --protocol register --authority members --members n1,n2,n3
  quorate namespace move 4 --members n2,n3,n4         its members decide it, while clients use it
  quorate namespace list";

/// Create, change, list and drop namespaces
///
/// Clients enter namespace N with `SELECT N`. Namespace 0 always exists.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
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
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(NAMESPACE_NUMBER_MAX)))]
        number: u32,
        /// How the replicas of each volume agree [default: paxos]
        #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Protocol::ALL.map(Protocol::word)))]
        protocol: Option<String>,
        /// How many nodes hold each volume [default: the cluster's, 3]
        #[arg(long, value_name = "R", value_parser = clap::value_parser!(u8).range(1..=i64::from(REGISTER_REPLICAS_MAX)))]
        replicas: Option<u8>,
        /// How many groups its keys are divided over [default: the cluster's, 64]
        #[arg(long, value_name = "V", value_parser = clap::value_parser!(u32).range(1..=i64::from(VOLUMES_MAX)))]
        volumes: Option<u32>,
        /// When writes are acknowledged: on disk at a majority, or in memory, synced every 50 ms or never
        #[arg(long, value_name = "WHEN", value_parser = PossibleValuesParser::new(durabilities()))]
        durability: Option<String>,
        /// Linearizable by a lease or by a quorum round, or from any member: linearizable from a chain's (apportioned) or from
        /// those that are known to be consistent (routed; stays as it is), or sequentially consistent (local)
        #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(reads()))]
        reads: Option<String>,
        /// Whether every key has a group of its own from its first write on [default: volumes]
        #[arg(long, value_name = "WHICH", value_parser = PossibleValuesParser::new(groups()))]
        groups: Option<String>,
        /// Of registers: majority, "threshold R W", grid or "grid ROWSxCOLS" [default: majority]
        #[arg(long, value_name = "WHICH", value_parser = parse_quorum)]
        quorum: Option<Quorum>,
        /// Of registers: how many crashes every configuration must survive [default: 0]
        #[arg(long, value_name = "CRASHES")]
        tolerance: Option<u8>,
        /// Of registers: who decides on members and quorums, the cluster's root (parent) or the members of the one group that
        /// the namespace is then [default: parent]
        #[arg(long, value_name = "WHO", value_parser = PossibleValuesParser::new(Authority::ALL.map(Authority::word)))]
        authority: Option<String>,
        /// Where members decide: names of nodes, of a grid row by row [default: as many nodes as --replicas says]
        #[arg(long, value_name = "NODE,...")]
        members: Option<String>,
    },
    /// Give a namespace whose members decide other members, while clients use it
    ///
    /// Any member decides it with the others, whatever becomes of the cluster's root. `quorate group show KEY` tells how far it is.
    Move {
        /// Its number
        number: u32,
        /// Names of nodes, of a grid row by row
        #[arg(long, value_name = "NODE,...")]
        members: String,
        /// Its quorums from then on: majority, "threshold R W", grid or "grid ROWSxCOLS" [default: what the namespace was made
        /// with]
        #[arg(long, value_name = "WHICH", value_parser = parse_quorum)]
        quorum: Option<Quorum>,
    },
    /// Change what can be changed of a namespace
    #[command(group = clap::ArgGroup::new("what").required(true))]
    Set {
        /// Its number
        number: u32,
        /// Linearizable by a lease or by a quorum round, or from any member: linearizable from a chain's (apportioned), or
        /// sequentially consistent (local)
        #[arg(long, group = "what", value_name = "HOW", value_parser = PossibleValuesParser::new(reads()))]
        reads: Option<String>,
        /// Of registers: how many members a read asks, and how many know of a write before it is answered
        #[arg(long, group = "what", num_args = 2, value_names = ["R", "W"])]
        quorum: Option<Vec<u8>>,
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

pub(crate) fn parse_quorum(words: &str) -> Result<Quorum, String> {
    Quorum::try_from(words.to_owned())
}

fn groups() -> [&'static str; 2] {
    [Groups::Volumes, Groups::Own].map(Groups::word)
}

fn durabilities() -> [&'static str; 3] {
    [Durability::Sync, Durability::Interval, Durability::Memory].map(Durability::word)
}

fn reads() -> [&'static str; 5] {
    Reads::ALL.map(Reads::word)
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Command::Drop { number, yes: false } = options.command
        && !is_confirmed(number)?
    {
        return Ok(ExitCode::FAILURE);
    }
    let answer = Client::connect(&options.endpoint)?.ask(&request(&options.command))?;
    match options.command {
        Command::List => say(list(&answer)?),
        _ => say("OK"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The command as the node takes it.
fn request(command: &Command) -> Vec<String> {
    let mut words = ["QUORATE", "NAMESPACE"].map(str::to_owned).to_vec();
    let mut add = |new: &[&str]| words.extend(new.iter().map(|&word| word.to_owned()));
    match command {
        Command::List => add(&["LIST"]),
        Command::Drop { number, .. } => add(&["DROP", &number.to_string()]),
        Command::Set { number, quorum: Some(sizes), .. } => {
            let sizes: Vec<String> = sizes.iter().map(u8::to_string).collect();
            let words = ["QUORATE", "QUORUM", "SET", "NAMESPACE", &number.to_string()].map(str::to_owned);
            return words.into_iter().chain(sizes).collect();
        }
        Command::Set { number, reads, .. } => {
            add(&["SET", &number.to_string(), "READS", reads.as_deref().unwrap_or_default()]);
        }
        Command::Move { number, members, quorum } => {
            add(&["MOVE", &number.to_string(), "MEMBERS", members]);
            quorum.iter().for_each(|quorum| add(&["QUORUM", &quorum.words()]));
        }
        Command::Create {
            number,
            protocol,
            replicas,
            volumes,
            durability,
            reads,
            groups,
            quorum,
            tolerance,
            authority,
            members,
        } => {
            add(&["CREATE", &number.to_string()]);
            let replicas = replicas.map(|number| number.to_string());
            let volumes = volumes.map(|number| number.to_string());
            let (quorum, tolerance) = (quorum.map(Quorum::words), tolerance.map(|number| number.to_string()));
            let settings = [
                ("PROTOCOL", protocol),
                ("REPLICAS", &replicas),
                ("VOLUMES", &volumes),
                ("DURABILITY", durability),
                ("READS", reads),
                ("GROUPS", groups),
                ("QUORUM", &quorum),
                ("TOLERANCE", &tolerance),
                ("AUTHORITY", authority),
                ("MEMBERS", members),
            ];
            for (name, value) in settings {
                if let Some(value) = value {
                    add(&[name, value]);
                }
            }
        }
    }
    words
}

/// A table of what the node lists: names and values of each namespace, whatever they are.
fn list(answer: &Value) -> Result<String, Failure> {
    let Value::Array(entries) = answer else {
        return Err(Failure(format!("QUORATE NAMESPACE LIST was answered with {answer:?}")));
    };
    let rows: Vec<Vec<(String, String)>> = entries.iter().map(fields).collect();
    let header: Vec<&str> = rows.first().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let mut table = table(&header);
    for row in &rows {
        table.add_row(row.iter().map(|(_, value)| value));
    }
    Ok(trimmed(table))
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

    #[test]
    fn options_become_the_words_of_the_grammar() {
        let full = Command::Create {
            protocol: Some("chain".to_owned()),
            number: 1,
            replicas: Some(5),
            volumes: Some(8),
            durability: Some("interval".to_owned()),
            reads: Some("quorum".to_owned()),
            groups: Some("own".to_owned()),
            quorum: Some(Quorum::Threshold { read: 2, write: 4 }),
            tolerance: Some(1),
            authority: Some("members".to_owned()),
            members: Some("n1,n2".to_owned()),
        };
        let expected = "QUORATE NAMESPACE CREATE 1 PROTOCOL chain REPLICAS 5 VOLUMES 8 DURABILITY interval READS quorum \
                        GROUPS own QUORUM threshold 2 4 TOLERANCE 1 AUTHORITY members MEMBERS n1,n2";
        assert_eq!(request(&full).join(" "), expected);
        let plain = Command::Create {
            number: 2,
            protocol: None,
            replicas: None,
            volumes: None,
            durability: None,
            reads: None,
            groups: None,
            quorum: None,
            tolerance: None,
            authority: None,
            members: None,
        };
        assert_eq!(request(&plain).join(" "), "QUORATE NAMESPACE CREATE 2");
        let set = Command::Set { number: 2, reads: Some("local".to_owned()), quorum: None };
        assert_eq!(request(&set).join(" "), "QUORATE NAMESPACE SET 2 READS local");
        let set = Command::Set { number: 2, reads: None, quorum: Some(vec![1, 3]) };
        assert_eq!(request(&set).join(" "), "QUORATE QUORUM SET NAMESPACE 2 1 3");
        let moved = Command::Move { number: 4, members: "n2,n3".to_owned(), quorum: Some(Quorum::Majority) };
        assert_eq!(request(&moved).join(" "), "QUORATE NAMESPACE MOVE 4 MEMBERS n2,n3 QUORUM majority");
        assert_eq!(request(&Command::Drop { number: 2, yes: true }).join(" "), "QUORATE NAMESPACE DROP 2");
    }

    #[test]
    fn a_list_is_a_table_in_either_version_of_the_protocol() {
        let name = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let flat = Value::Array(vec![name("namespace"), Value::Integer(0), name("reads"), name("lease")]);
        let map = Value::Map(vec![(name("namespace"), Value::Integer(12)), (name("reads"), name("local"))]);
        let table = list(&Value::Array(vec![flat, map])).expect("a table");
        assert_eq!(table, "NAMESPACE  READS\n0          lease\n12         local");
        assert!(list(&Value::Null).is_err());
    }
}
