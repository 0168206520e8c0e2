//! `quorate quorum`: how many members of a register know of a write, in the words of `QUORATE QUORUM`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use quorate_node::root::REGISTER_REPLICAS_MAX;

use crate::failure::Failure;
use crate::keys::{Keys, Place};

const EXAMPLES: &str = "Examples:
  quorate group promote hot --protocol register    a register of its own, decided on by majorities
  quorate quorum set hot --read 1 --write 3        reads ask one member, writes all three
  quorate quorum set --file names.txt --read 2 --write 2
  quorate quorum show hot                          its sizes, and what they survive

The sizes of a namespace of registers are changed by `quorate namespace set N --quorum R W`, members and grids by
`quorate group move`.";

/// Change the quorum sizes of registers in groups of their own
///
/// Clients go on reading and writing meanwhile. `quorate group promote --protocol register` makes such groups.
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
    /// Change how many members reads ask and writes tell
    Set {
        #[command(flatten)]
        keys: Keys,
        /// How many members a read asks
        #[arg(long, value_name = "R", value_parser = size())]
        read: u8,
        /// How many members know of a write before it is answered; with R, more than there are members
        #[arg(long, value_name = "W", value_parser = size())]
        write: u8,
    },
    /// Tell of the quorums of the groups that objects are in, as `quorate group show` does
    Show {
        #[command(flatten)]
        keys: Keys,
    },
}

fn size() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=i64::from(REGISTER_REPLICAS_MAX))
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut client = options.place.connect()?;
    let (action, keys, sizes) = words_of(&options.command);
    keys.ask(&mut client, &action, &sizes)
}

fn words_of(command: &Command) -> ([&'static str; 2], &Keys, Vec<String>) {
    match command {
        Command::Set { keys, read, write } => (["QUORUM", "SET"], keys, vec![read.to_string(), write.to_string()]),
        // Of one key, `QUORUM SHOW` tells the same.
        Command::Show { keys } => (["GROUP", "SHOW"], keys, Vec::new()),
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
            let (action, keys, sizes) = words_of(command);
            request(&action, &keys.all().expect("named"), &sizes).join(" ")
        };
        let set = Command::Set { keys: keys(), read: 1, write: 3 };
        assert_eq!(line(&set), "QUORATE QUORUM SET KEYS 2 a b 1 3");
        assert_eq!(line(&Command::Show { keys: keys() }), "QUORATE GROUP SHOW KEYS 2 a b");
    }
}
