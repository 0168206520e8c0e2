//! `quorate node`: one node of a cluster, in this process.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quorate_server::config::Config;

use crate::failure::Failure;
use crate::output::say;

/// Run one node of a cluster
///
/// The node runs in the foreground, logs to standard error, and stops on SIGTERM or Ctrl-C after it has handed over
/// what it coordinates. `quorate node --example` prints a configuration with every key explained.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The node's configuration
    #[arg(long, value_name = "FILE", required_unless_present = "example")]
    config: Option<PathBuf>,
    /// Only check the configuration and say whether it is good
    #[arg(long)]
    check: bool,
    /// Print a configuration with every key explained
    #[arg(long, conflicts_with_all = ["config", "check"])]
    example: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let Some(path) = &options.config else {
        say(Config::EXAMPLE.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    let config = Config::load(path)?;
    if options.check {
        let (name, count) = (&config.node.name, config.cluster.nodes.len());
        say(format_args!("{} is good: node {name} of a cluster of {count}", path.display()));
    } else {
        quorate_server::run(config)?;
    }
    Ok(ExitCode::SUCCESS)
}
