//! `cargo xtask long fuzz`: every fuzz target for a while, one after the other.
//!
//! Stable Rust instruments code as libFuzzer wants it, without sanitizers: the code under test has no `unsafe`. So nothing
//! is needed but a C++ compiler, which builds libFuzzer. `cargo fuzz run -s none TARGET` does the same for one.

use std::path::Path;
use std::process::Command;

use super::{Failure, Options};

const TARGETS: [&str; 6] = ["resp", "frame", "log", "snapshot", "config", "glob"];

/// Coverage counters and compared values.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";
/// How long each target is run.
const MINUTES: u64 = 60;
/// No input may take longer, or more memory, than this.
const TIMEOUT_S: u64 = 10;
const MEMORY_MIB: u64 = 1024;

pub(crate) fn run(root: &Path, options: &mut Options) -> Result<(), Failure> {
    let minutes = options.take_number("--minutes")?.unwrap_or(MINUTES);
    options.finish()?;
    let binaries = build(root)?;
    let failed: Vec<&str> =
        TARGETS.iter().copied().filter(|target| !fuzz(root, &binaries.join(target), target, minutes)).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}; the inputs are in fuzz/artifacts", failed.join(", ")))
}

/// Builds all targets. The folder that they are in.
fn build(root: &Path) -> Result<std::path::PathBuf, String> {
    let triple = triple()?;
    let folder = root.join("fuzz");
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| folder.join("target"), |base| Path::new(&base).join("fuzz"));
    let built = Command::new("cargo")
        .args(["build", "--release", "--target", &triple])
        .current_dir(&folder)
        .env("RUSTFLAGS", INSTRUMENTED)
        .env("CARGO_TARGET_DIR", &target)
        .status();
    match built {
        Ok(status) if status.success() => Ok(target.join(triple).join("release")),
        Ok(_) => Err("the fuzz targets do not build; libFuzzer needs a C++ compiler, as in build-essential".into()),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

/// What rustc compiles for here. Build scripts must not be instrumented, which naming it prevents.
fn triple() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("cannot start rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_owned).ok_or_else(|| "rustc -vV does not tell its host".into())
}

/// Runs one target. New inputs stay in `fuzz/found`, beside the corpus that is kept.
fn fuzz(root: &Path, binary: &Path, target: &str, minutes: u64) -> bool {
    let folder = root.join("fuzz");
    let (found, artifacts) = (folder.join("found").join(target), folder.join("artifacts").join(target));
    for folder in [&found, &artifacts] {
        if let Err(error) = std::fs::create_dir_all(folder) {
            eprintln!("cannot make {}: {error}", folder.display());
            return false;
        }
    }
    println!("fuzz {target}: {minutes} min");
    let status = Command::new(binary)
        .arg(&found)
        .arg(folder.join("corpus").join(target))
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-timeout={TIMEOUT_S}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-close_fd_mask=1"])
        .status();
    match status {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot start {}: {error}", binary.display());
            false
        }
    }
}
