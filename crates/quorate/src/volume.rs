//! `quorate volume`: where the volumes of a namespace are, in the words of `QUORATE VOLUME`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use quorate_node::root::{NAMESPACE_NUMBER_MAX, VOLUMES_MAX};
use quorate_resp::Value;

use crate::client::{Client, Endpoint};
use crate::failure::Failure;
use crate::output::{fields, say, table, trimmed};

const EXAMPLES: &str = "Examples:
  quorate volume list 0
  quorate volume move 0 17 --from n1 --to n4     while clients use it

`quorate node drain` moves all that a node has, and `quorate node level` makes all nodes even.";

/// Tell where volumes are, and move their replicas from node to node
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
    /// List the volumes of a namespace: their members, and who is coming and going
    List {
        /// The namespace
        #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(NAMESPACE_NUMBER_MAX)))]
        namespace: u32,
    },
    /// Move one replica of a volume to another node
    ///
    /// It is answered once that is decided. The other node copies the volume then; `quorate volume list` shows it as joining
    /// until it takes part, and whoever it replaces as leaving until it is gone.
    Move {
        /// The namespace
        #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(NAMESPACE_NUMBER_MAX)))]
        namespace: u32,
        /// The volume's number in it, from 0
        #[arg(value_parser = clap::value_parser!(u32).range(..i64::from(VOLUMES_MAX)))]
        volume: u32,
        /// The node that has it
        #[arg(long, value_name = "NODE")]
        from: String,
        /// The node that is to have it
        #[arg(long, value_name = "NODE")]
        to: String,
    },
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut client = Client::connect(&options.endpoint)?;
    match &options.command {
        Command::List { namespace } => match client.ask(&["QUORATE", "VOLUME", "LIST", &namespace.to_string()])? {
            Value::Array(entries) => say(in_a_table(&entries)),
            other => return Err(Failure(format!("QUORATE VOLUME LIST was answered with {other:?}"))),
        },
        Command::Move { namespace, volume, from, to } => {
            let (namespace, volume) = (namespace.to_string(), volume.to_string());
            client.ask(&["QUORATE", "VOLUME", "MOVE", &namespace, &volume, "FROM", from, "TO", to])?;
            say("OK");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn in_a_table(entries: &[Value]) -> String {
    let rows: Vec<Vec<(String, String)>> = entries.iter().map(fields).collect();
    let header: Vec<&str> = rows.first().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let mut table = table(&header);
    for row in &rows {
        table.add_row(row.iter().map(|(_, value)| if value.is_empty() { "-" } else { value.as_str() }));
    }
    trimmed(table)
}
