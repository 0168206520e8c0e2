//! `quorate group`: objects with groups of their own, in the words of `QUORATE GROUP`.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use quorate_node::quorum::Quorum;
use quorate_node::replica::Protocol;

use crate::failure::Failure;
use crate::keys::{Keys, Place};
use crate::namespace::parse_quorum;
use crate::output::say;

const EXAMPLES: &str = "Examples:
  quorate group promote hot --members n2,n1,n3     n2 shall coordinate
  quorate group show hot                           where it is, and who coordinates it
  quorate group create --file names.txt            a group for each line; `-` reads standard input
  quorate group promote feed --protocol chain --members n3,n1    n3 is the head, n1 the tail
  quorate group promote flag --protocol register --quorum \"threshold 1 3\"
  quorate group move flag --members n2,n3 --quorum majority
  quorate group move hot --members n3,n1,n4    to other nodes, while clients use it
  quorate group retype hot --protocol chain    another protocol, while clients use it
  quorate group demote hot

`quorate quorum set` changes the sizes of registers in groups of their own.";

/// Give objects groups of their own, and put them back
///
/// An object in a group of its own has a coordinator, and members if you name them, for itself. Clients notice nothing, but
/// that a register is only read, overwritten and deleted.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    place: Place,
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
        plan: Plan,
        /// The strings' value
        #[arg(long, default_value = "")]
        value: String,
    },
    /// Give objects groups of their own
    Promote {
        #[command(flatten)]
        keys: Keys,
        #[command(flatten)]
        plan: Plan,
    },
    /// Give an object's group other members, while clients use it
    ///
    /// In a namespace of registers that is the volume that the key is in, with all of its objects.
    Move {
        /// The object's key, or one in the volume
        #[arg(value_name = "KEY")]
        name: String,
        /// Names of nodes: the coordinator or head first, of a grid row by row; of chains and registers, among the volume's
        /// members
        #[arg(long, value_name = "NODE,...")]
        members: String,
        /// Of registers, their quorums from then on: majority, "threshold R W", grid or "grid ROWSxCOLS" [default: what an own
        /// group has, and a volume's namespace]
        #[arg(long, value_name = "WHICH", value_parser = parse_quorum)]
        quorum: Option<Quorum>,
    },
    /// Give objects' own groups another protocol, while clients use them
    Retype {
        #[command(flatten)]
        keys: Keys,
        /// How their replicas agree from then on
        #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Protocol::ALL.map(Protocol::word)))]
        protocol: String,
        /// Names of nodes, as for `promote` [default: those that the group has]
        #[arg(long, value_name = "NODE,...")]
        members: Option<String>,
        /// Of registers, as for `promote` [default: majority, or what the register has]
        #[arg(long, value_name = "WHICH", value_parser = parse_quorum)]
        quorum: Option<Quorum>,
    },
    /// Put objects back into their volumes
    Demote {
        #[command(flatten)]
        keys: Keys,
    },
}

/// How the groups are to be.
#[derive(Debug, Args)]
struct Plan {
    /// How their replicas agree [default: paxos]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Protocol::ALL.map(Protocol::word)))]
    protocol: Option<String>,
    /// Names of nodes, the coordinator or head first; of chains and registers, among the volume's members [default: all of
    /// those]
    #[arg(long, value_name = "NODE,...")]
    members: Option<String>,
    /// Of registers: majority, "threshold R W", grid or "grid ROWSxCOLS" [default: majority]
    #[arg(long, value_name = "WHICH", value_parser = parse_quorum)]
    quorum: Option<Quorum>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut client = options.place.connect()?;
    if let Command::Move { name, members, quorum } = &options.command {
        client.ask(&move_request(name, members, *quorum))?;
        say("OK");
        return Ok(ExitCode::SUCCESS);
    }
    let (action, keys, tail) = words_of(&options.command);
    keys.ask(&mut client, &["GROUP", action], &tail)
}

fn move_request(key: &str, members: &str, quorum: Option<Quorum>) -> Vec<String> {
    let mut words = ["QUORATE", "GROUP", "MOVE", key, "MEMBERS", members].map(str::to_owned).to_vec();
    words.extend(quorum.into_iter().flat_map(|quorum| ["QUORUM".to_owned(), quorum.words()]));
    words
}

fn words_of(command: &Command) -> (&'static str, &Keys, Vec<String>) {
    match command {
        Command::Show { keys } => ("SHOW", keys, Vec::new()),
        Command::Demote { keys } => ("DEMOTE", keys, Vec::new()),
        Command::Move { .. } => unreachable!("it concerns one key, and is asked for by itself"),
        Command::Promote { keys, plan } => ("PROMOTE", keys, plan.words()),
        Command::Retype { keys, protocol, members, quorum } => {
            let plan = Plan { protocol: Some(protocol.clone()), members: members.clone(), quorum: *quorum };
            ("RETYPE", keys, plan.words())
        }
        Command::Create { keys, plan, value } => {
            let mut tail = plan.words();
            tail.extend(["VALUE".to_owned(), value.clone()]);
            ("CREATE", keys, tail)
        }
    }
}

impl Plan {
    fn words(&self) -> Vec<String> {
        let quorum = self.quorum.map(Quorum::words);
        let said = [("PROTOCOL", &self.protocol), ("MEMBERS", &self.members), ("QUORUM", &quorum)];
        let said = said.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value.clone()?]));
        said.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::request;

    #[test]
    fn options_become_the_words_of_the_grammar() {
        let keys = || Keys { keys: vec!["a".into(), "b".into()], file: None };
        let line = |command: &Command| {
            let (action, keys, tail) = words_of(command);
            request(&["GROUP", action], &keys.all().expect("named"), &tail).join(" ")
        };
        let plain = || Plan { protocol: None, members: None, quorum: None };
        assert_eq!(line(&Command::Show { keys: keys() }), "QUORATE GROUP SHOW KEYS 2 a b");
        let plan = Plan { members: Some("n2,n1".into()), ..plain() };
        let create = Command::Create { keys: keys(), plan, value: "v".into() };
        assert_eq!(line(&create), "QUORATE GROUP CREATE KEYS 2 a b MEMBERS n2,n1 VALUE v");
        assert_eq!(line(&Command::Promote { keys: keys(), plan: plain() }), "QUORATE GROUP PROMOTE KEYS 2 a b");
        let grid = Quorum::Grid { rows: 2, columns: 2 };
        let plan = Plan { protocol: Some("register".into()), quorum: Some(grid), ..plain() };
        assert_eq!(
            line(&Command::Promote { keys: keys(), plan }),
            "QUORATE GROUP PROMOTE KEYS 2 a b PROTOCOL register QUORUM grid 2x2"
        );
        let retype = Command::Retype { keys: keys(), protocol: "chain".into(), members: None, quorum: None };
        assert_eq!(line(&retype), "QUORATE GROUP RETYPE KEYS 2 a b PROTOCOL chain");
        let moved = move_request("a", "n1,n2,n3,n4", Some(grid)).join(" ");
        assert_eq!(moved, "QUORATE GROUP MOVE a MEMBERS n1,n2,n3,n4 QUORUM grid 2x2");
    }
}
