//! `cargo xtask long log` and `long checkpoints`: what very many groups cost below the host, as ignored tests of the two
//! crates do it. They write into the directory for temporary files.

use std::path::Path;
use std::process::Command;

use super::{Failure, Options};

/// 10 GB of one group, while each of a million others writes once.
pub(crate) fn log(root: &Path, options: &mut Options) -> Result<(), Failure> {
    let set = [("QUORATE_GIGABYTES", options.take_number("--gigabytes")?), groups(options)?];
    options.finish()?;
    test(root, "quorate-wal", "size", &set)
}

/// Stores, looks up and opens again a million small groups.
pub(crate) fn checkpoints(root: &Path, options: &mut Options) -> Result<(), Failure> {
    let set = [groups(options)?];
    options.finish()?;
    test(root, "quorate-checkpoint", "scale", &set)
}

type Variable = (&'static str, Option<u64>);

fn groups(options: &mut Options) -> Result<Variable, Failure> {
    Ok(("QUORATE_GROUPS", options.take_number("--groups")?))
}

fn test(root: &Path, package: &str, name: &str, set: &[Variable]) -> Result<(), Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--release", "--locked", "-p", package, "--test", name, "--", "--ignored", "--nocapture"]);
    cargo.envs(set.iter().filter_map(|(name, value)| Some((name, value.as_ref()?.to_string()))));
    match cargo.current_dir(root).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the test ended with {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}
