//! `cargo xtask compare`: what a change costs or saves in processor time, against another commit in the same minutes.
//!
//! Both commits are built in release, a cluster of three nodes of each is started, and `quorate bench` loads them in
//! turns. On a shared machine a throughput says little; the ratio of processor times an operation, with its interval,
//! says whether there is a difference at all.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "\
cargo xtask compare COMMIT [COMMIT] [--pairs N] [--rows LIST]

Compares the processor time an operation of the second COMMIT (the working tree, if left out) with that of the first.
Instead of a COMMIT the path of a built program can be given. LIST names some of the rows: c64, c64p16, c256, c8, get,
getp16, kib.";

/// What is measured: a name and the arguments of `quorate bench`.
const ROWS: [(&str, &[&str]); 7] = [
    ("c64", &["--ops", "set", "--connections", "64"]),
    ("c64p16", &["--ops", "set", "--connections", "64", "--pipeline", "16"]),
    ("c256", &["--ops", "set", "--connections", "256"]),
    ("c8", &["--ops", "set", "--connections", "8"]),
    ("get", &["--ops", "get", "--connections", "64"]),
    ("getp16", &["--ops", "get", "--connections", "64", "--pipeline", "16"]),
    ("kib", &["--ops", "set", "--connections", "64", "--pipeline", "16", "--size", "1024"]),
];

const PAIRS_DEFAULT: &str = "10";
/// First ports of the two clusters; peers' ports are 10000 above.
const PORTS: [u16; 2] = [21_610, 21_630];
const READY_WITHIN: Duration = Duration::from_secs(60);

struct Options<'a> {
    contenders: Vec<&'a str>,
    pairs: &'a str,
    rows: Vec<&'a str>,
}

pub(crate) fn run(root: &Path, words: &[&str]) -> ExitCode {
    let outcome = parse(words).and_then(|options| compare(root, &options));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn parse<'a>(words: &[&'a str]) -> Result<Options<'a>, String> {
    let mut options = Options { contenders: Vec::new(), pairs: PAIRS_DEFAULT, rows: Vec::new() };
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "--pairs" => options.pairs = words.next().ok_or(USAGE)?,
            "--rows" => options.rows = words.next().ok_or(USAGE)?.split(',').collect(),
            _ if word.starts_with('-') => return Err(USAGE.to_owned()),
            _ => options.contenders.push(word),
        }
    }
    if !(1..=2).contains(&options.contenders.len()) {
        return Err(USAGE.to_owned());
    }
    let unknown = options.rows.iter().find(|row| ROWS.iter().all(|(name, _)| name != *row));
    match unknown {
        Some(row) => Err(format!("there is no row {row}\n{USAGE}")),
        None => Ok(options),
    }
}

fn compare(root: &Path, options: &Options<'_>) -> Result<(), String> {
    let before = program(root, options.contenders[0])?;
    let after = match options.contenders.get(1) {
        Some(contender) => program(root, contender)?,
        None => build(root, &target(root).join("release/quorate"), &target(root))?,
    };
    let place = std::env::temp_dir().join(format!("quorate-compare-{}", std::process::id()));
    let old = Cluster::start(&before, &place.join("before"), PORTS[0])?;
    let new = Cluster::start(&after, &place.join("after"), PORTS[1])?;
    let changed = options.contenders.get(1).unwrap_or(&"the working tree");
    println!("'this' is {changed}, 'quorate' is {}", options.contenders[0]);
    let endpoints: Vec<String> = (PORTS[0]..PORTS[0] + 3).map(|port| format!("127.0.0.1:{port}")).collect();
    let against = format!("quorate={}", endpoints.join(","));
    for (row, arguments) in ROWS {
        if !options.rows.is_empty() && !options.rows.contains(&row) {
            continue;
        }
        let status = Command::new(&after)
            .args(["bench", "--port", &PORTS[1].to_string(), "--seconds", "1", "--pairs", options.pairs])
            .args(["--against", &against])
            .args(arguments)
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("quorate bench failed: {status}")),
            Err(error) => return Err(format!("cannot start {}: {error}", after.display())),
        }
    }
    // Their servers are stopped as they go out of scope, and then nobody needs the directory.
    drop((old, new));
    let _ = std::fs::remove_dir_all(&place);
    Ok(())
}

/// The built program of a commit, or of a path.
fn program(root: &Path, contender: &str) -> Result<PathBuf, String> {
    if contender.contains('/') && Path::new(contender).is_file() {
        return Ok(PathBuf::from(contender));
    }
    let commit = git(root, &["rev-parse", "--verify", "--quiet", &format!("{contender}^{{commit}}")])
        .map_err(|_| format!("{contender} is neither a commit nor the path of a program"))?;
    let folder = target(root).join("compare");
    let built = folder.join(format!("quorate-{}", &commit[..12]));
    if built.is_file() {
        return Ok(built);
    }
    let tree = folder.join("tree");
    let tree_name = tree.display().to_string();
    // What an interrupted run left behind.
    let _ = git(root, &["worktree", "remove", "--force", &tree_name]);
    git(root, &["worktree", "add", "--quiet", "--detach", &tree_name, &commit])?;
    let compiled = build(&tree, &folder.join("target/release/quorate"), &folder.join("target"));
    git(root, &["worktree", "remove", "--force", &tree_name])?;
    std::fs::rename(compiled?, &built).map_err(|error| format!("cannot move {}: {error}", built.display()))?;
    Ok(built)
}

fn build(tree: &Path, program: &Path, target: &Path) -> Result<PathBuf, String> {
    let status = Command::new("cargo")
        .args(["build", "--release", "--locked", "--package", "quorate"])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(tree)
        .status();
    match status {
        Ok(status) if status.success() => Ok(program.to_owned()),
        _ => Err(format!("{} does not build", tree.display())),
    }
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root).stderr(Stdio::inherit()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Ok(_) => Err(format!("git {} failed", arguments.join(" "))),
        Err(error) => Err(format!("cannot start git: {error}")),
    }
}

/// Three nodes, stopped when this is dropped.
struct Cluster {
    up: Child,
}

impl Cluster {
    fn start(program: &Path, directory: &Path, port: u16) -> Result<Cluster, String> {
        std::fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        let up = Command::new(program)
            .args(["up", "--nodes", "3", "--dir"])
            .arg(directory)
            .args(["--port", &port.to_string(), "--admin-port", &(port + 10).to_string()])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let cluster = Cluster { up };
        let started_at = Instant::now();
        while !serves(program, port) {
            if started_at.elapsed() > READY_WITHIN {
                return Err(format!("the cluster of {} does not serve", program.display()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(cluster)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let pid = self.up.id().to_string();
        // `up` stops its nodes when it is asked to end.
        let _ = Command::new("kill").arg(pid).status();
        let _ = self.up.wait();
    }
}

/// Whether a write is answered.
fn serves(program: &Path, port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
        && Command::new(program)
            .args(["cli", "--port", &port.to_string(), "SET", "compare", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_two_contenders_and_known_rows_are_taken() {
        let options = parse(&["main", "--pairs", "6", "HEAD", "--rows", "c8,get"]).expect("well-formed");
        assert_eq!((options.contenders, options.pairs, options.rows), (vec!["main", "HEAD"], "6", vec!["c8", "get"]));
        for wrong in [&[][..], &["a", "b", "c"], &["a", "--rows", "c9"], &["a", "--fast"], &["a", "--pairs"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
