//! `cargo xtask long fuzz`: every fuzz target for a while, one after the other.
//!
//! Stable Rust instruments code as libFuzzer wants it, without sanitizers: the code under test has no `unsafe`. So nothing
//! is needed but a C++ compiler, which builds libFuzzer. `cargo fuzz run -s none TARGET` does the same for one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Failure, Options, call};

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
    let named = options.take("--target")?;
    options.finish()?;
    if minutes == 0 {
        return Err("--minutes 0 would never end: say how many".into());
    }
    let targets: Vec<&str> =
        TARGETS.into_iter().filter(|target| named.as_deref().is_none_or(|name| name == *target)).collect();
    if targets.is_empty() {
        return Err(format!("--target is one of {}", TARGETS.join(", ")));
    }
    let binaries = build(root)?;
    let mut failed = Vec::new();
    for target in targets {
        println!("fuzz {target}: {minutes} min, told in fuzz/found/{target}.log");
        match fuzz(root, &binaries.join(target), target, minutes) {
            Ok(summary) => println!("fuzz {target}: {summary}, nothing found"),
            Err(failure) => {
                println!("fuzz {target}: {failure}");
                failed.push(target);
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}; the inputs are in fuzz/artifacts", failed.join(", ")))
}

/// Builds all targets. The folder that they are in.
fn build(root: &Path) -> Result<PathBuf, Failure> {
    let triple = triple()?;
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    call(Command::new(&compiler).arg("--version")).map_err(|failure| {
        format!("libFuzzer is written in C++: install a compiler, as with apt-get install g++, or name one in CXX ({failure})")
    })?;
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
        Ok(status) => Err(format!("the fuzz targets do not build: cargo ended with {status}")),
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

/// Runs one target. New inputs stay in `fuzz/found`, beside the corpus that is kept. How much was tried.
fn fuzz(root: &Path, binary: &Path, target: &str, minutes: u64) -> Result<String, Failure> {
    let folder = root.join("fuzz");
    let (found, artifacts) = (folder.join("found").join(target), folder.join("artifacts").join(target));
    for folder in [&found, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    let log = found.with_extension("log");
    let told = File::create(&log).map_err(|error| format!("cannot make {}: {error}", log.display()))?;
    let status = Command::new(binary)
        .arg(&found)
        .arg(folder.join("corpus").join(target))
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-timeout={TIMEOUT_S}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-close_fd_mask=1"])
        .stderr(told)
        .status()
        .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
    let told = std::fs::read(&log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
    let told = String::from_utf8_lossy(&told);
    if status.success() { Ok(summary(&told)) } else { Err(format!("{status}; {}", what_failed(&told))) }
}

/// What libFuzzer counted.
fn summary(told: &str) -> String {
    let figure = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(':').trim().to_owned()
    };
    let (inputs, kept) = (figure("stat::number_of_executed_units"), figure("stat::new_units_added"));
    format!("{inputs} inputs, {kept} of them new to it, {} MiB", figure("stat::peak_rss_mb"))
}

/// The line that says most about a failure.
fn what_failed(told: &str) -> String {
    let lines: Vec<&str> = told.lines().collect();
    let panicked = lines.iter().position(|line| line.contains("panicked at"));
    match panicked {
        Some(at) => lines[at..].iter().take(2).copied().collect::<Vec<_>>().join(" "),
        None => {
            lines.iter().find(|line| line.contains("ERROR: libFuzzer")).copied().unwrap_or("see its log").to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_told_in_a_line() {
        let told = "#2 INITED\nstat::number_of_executed_units: 1306\nstat::average_exec_per_sec:     0\n\
                    stat::new_units_added:          67\nstat::peak_rss_mb:              134\n";
        assert_eq!(summary(told), "1306 inputs, 67 of them new to it, 134 MiB");
        let told = "#2 INITED\nthread '<unnamed>' (3) panicked at src/lib.rs:127:5:\nassertion `left == right` failed\n\
                    ==3== ERROR: libFuzzer: deadly signal\n";
        assert_eq!(
            what_failed(told),
            "thread '<unnamed>' (3) panicked at src/lib.rs:127:5: assertion `left == right` failed"
        );
        assert_eq!(what_failed("==3== ERROR: libFuzzer: timeout"), "==3== ERROR: libFuzzer: timeout");
    }
}
