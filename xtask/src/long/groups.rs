//! What very many groups cost, as tests of the crates do it with fewer, or only when they are asked to: `cargo xtask long
//! groups` through clusters, `long log` and `long checkpoints` below the host. They write into the directory for temporary
//! files.

use std::path::Path;
use std::process::Command;

use super::{Failure, Options};

const GROUPS: u64 = 1_000_000;

/// A million own groups in a cluster whose nodes are killed; then, if asked for, so much of one group while each other one
/// writes once.
pub(crate) fn groups_of_a_cluster(root: &Path, options: &mut Options) -> Result<(), Failure> {
    let count = options.take_number("--groups")?.unwrap_or(GROUPS);
    let set = [("QUORATE_GROUPS", Some(count)), ("QUORATE_GIGABYTES", options.take_number("--gigabytes")?)];
    options.finish()?;
    test(root, "quorate", "cluster", &["very_many_own_groups"], &set)
}

/// 10 GB of one group, while each of a million others writes once.
pub(crate) fn log(root: &Path, options: &mut Options) -> Result<(), Failure> {
    let set = [("QUORATE_GIGABYTES", options.take_number("--gigabytes")?), groups(options)?];
    options.finish()?;
    test(root, "quorate-wal", "size", &["--ignored"], &set)
}

/// Stores, looks up and opens again a million small groups.
pub(crate) fn checkpoints(root: &Path, options: &mut Options) -> Result<(), Failure> {
    let set = [groups(options)?];
    options.finish()?;
    test(root, "quorate-checkpoint", "scale", &["--ignored"], &set)
}

type Variable = (&'static str, Option<u64>);

fn groups(options: &mut Options) -> Result<Variable, Failure> {
    Ok(("QUORATE_GROUPS", options.take_number("--groups")?))
}

fn test(root: &Path, package: &str, name: &str, which: &[&str], set: &[Variable]) -> Result<(), Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--release", "--locked", "-p", package, "--test", name, "--", "--nocapture"]).args(which);
    cargo.envs(set.iter().filter_map(|(name, value)| Some((name, value.as_ref()?.to_string()))));
    match cargo.current_dir(root).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the test ended with {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}
