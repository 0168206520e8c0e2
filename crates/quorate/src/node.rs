//! `quorate node`: one node of a cluster, in this process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use quorate_server::Checked;
use quorate_server::config::Config;

use crate::failure::Failure;
use crate::output::say;

/// Run one node of a cluster
///
/// The node runs in the foreground, logs to standard error, and stops on SIGTERM or Ctrl-C after it has handed over
/// what it coordinates. On SIGHUP it takes password, token, certificates and log level anew from its files. `quorate node --example-config` prints a configuration with every key explained.
#[derive(Debug, Args)]
pub(crate) struct Options {
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

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
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
    let (name, count) = (&config.node.name, config.cluster.nodes.len());
    say(format_args!("{} is good: node {name} of a cluster of {count}; {found}", path.display()));
    Ok(())
}
