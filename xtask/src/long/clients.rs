//! `cargo xtask long clients`: the programs in `clients` against a cluster, with a node that is killed and comes back.
//!
//! The tests' own clients, redis-py and redis-rs, are part of `cargo test`. These are not, since they need Go, Node.js and
//! a JDK, which their scripts install where they are missing.

use std::path::Path;
use std::process::Command;

use super::{Failure, Options};

pub(crate) fn run(root: &Path, options: &mut Options) -> Result<(), Failure> {
    options.finish()?;
    run_ignored(root, "libraries", "a library did not find what it expects")
}

/// The tests of clusters with names like this that do not run with the others.
pub(super) fn run_ignored(root: &Path, name: &str, failed: &str) -> Result<(), Failure> {
    let status = Command::new("cargo")
        .args(["test", "--locked", "-p", "quorate", "--test", "cluster", name])
        .args(["--", "--ignored", "--nocapture"])
        .current_dir(root)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(failed.into()),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}
