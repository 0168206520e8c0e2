//! `quorate node`: one node of a cluster, in this process; or, with a word behind it, the nodes that there are.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use quorate_server::Checked;
use quorate_server::config::Config;

use crate::failure::Failure;
use crate::nodes;
use crate::output::say;

const EXAMPLES: &str = "Examples:
  quorate node --config node.toml
  quorate node list
  quorate node add n4 --peer 10.0.0.4:17000 --client 10.0.0.4:7000 --admin 10.0.0.4:8000
  quorate node drain n4                            its volumes move to other nodes
  quorate node level                               until all nodes have as many
  quorate node replace-after 10m                   a node that is away for so long is replaced by itself
  quorate node remove n4";

/// Run one node of a cluster, or tell and change which nodes there are
///
/// The node runs in the foreground, logs to standard error, and stops on SIGTERM or Ctrl-C after it has handed over
/// what it coordinates. On SIGHUP it takes password, token, certificates and log level anew from its files. `quorate node --example-config` prints a configuration with every key explained.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<nodes::Command>,
    /// The node's configuration
    #[arg(long, value_name = "FILE", required_unless_present = "example_config")]
    config: Option<PathBuf>,
    /// Only say whether the node could start: look at the configuration, the data directory and the ports
    #[arg(long)]
    check: bool,
    /// Serve everybody also on addresses that others can reach, without a password or a token
    #[arg(long)]
    insecure: bool,
    /// Print a configuration with every key explained
    #[arg(long, conflicts_with_all = ["config", "check"])]
    example_config: bool,
}

impl Options {
    /// Whether a node is to run here, rather than a cluster to be told something.
    pub(crate) fn is_of_a_node(&self) -> bool {
        self.command.is_none()
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(command) = &options.command {
        return nodes::run(command);
    }
    let Some(path) = &options.config else {
        say(Config::EXAMPLE.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    let (file, insecure) = (path.clone(), options.insecure);
    let load = move || {
        let mut config = Config::load(&file)?;
        config.auth.insecure |= insecure;
        Ok(config)
    };
    let config = load()?;
    if options.check {
        check(path, &config)?;
    } else {
        quorate_server::run(config, crate::memory::allocated_bytes, load)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(path: &Path, config: &Config) -> Result<(), Failure> {
    let found = match quorate_server::check(config)? {
        Checked::CanStart { unseen: None } => "it can start".to_owned(),
        Checked::CanStart { unseen: Some(what) } => format!("it can start but for what was not looked at: {what}"),
        Checked::Runs { pid } => {
            let pid = pid.map_or_else(String::new, |pid| format!(", as pid {pid}"));
            format!("it runs already{pid}, so its directory and ports were not looked at")
        }
    };
    let name = &config.node.name;
    let cluster = match config.node.joins {
        true => "a cluster that is there already".to_owned(),
        false => format!("a cluster of {}", config.cluster.nodes.len()),
    };
    say(format_args!("{} is good: node {name} of {cluster}; {found}", path.display()));
    Ok(())
}
