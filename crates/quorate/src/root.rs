//! `quorate root`: which nodes hold the root, in the words of `QUORATE ROOT`.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::client::{Client, Endpoint};
use crate::failure::Failure;
use crate::output::{fields, say};

const EXAMPLES: &str = "Examples:
  quorate root show
  quorate root move --from n1 --to n4     while clients go on
  quorate root widen --to n5

`quorate node drain` moves all that a node has, the root's replica as well.";

/// Tell which nodes hold the root, and have others hold it
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
    /// Who its members are, and who is coming and going
    Show,
    /// Have a node take a member's place
    ///
    /// It is answered once that is decided. The other node copies the root then; `quorate root show` tells it as joining until it
    /// takes part.
    Move {
        /// The member
        #[arg(long, value_name = "NODE")]
        from: String,
        /// The node that takes its place
        #[arg(long, value_name = "NODE")]
        to: String,
    },
    /// Give it a member more, up to five
    ///
    /// A root that was made with fewer than three members gets them by itself. It never gets fewer: each of them is to be on a
    /// node of its own as long as the cluster lives.
    Widen {
        /// The node that is to be a member
        #[arg(long, value_name = "NODE")]
        to: String,
    },
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut client = Client::connect(&options.endpoint)?;
    match &options.command {
        Command::Show => {
            for (name, value) in fields(&client.ask(&["QUORATE", "ROOT", "SHOW"])?) {
                say(format!("{name:<8} {}", if value.is_empty() { "-" } else { &value }));
            }
        }
        Command::Move { from, to } => {
            client.ask(&["QUORATE", "ROOT", "MOVE", "FROM", from, "TO", to])?;
            say("OK");
        }
        Command::Widen { to } => {
            client.ask(&["QUORATE", "ROOT", "WIDEN", "TO", to])?;
            say("OK");
        }
    }
    Ok(ExitCode::SUCCESS)
}
