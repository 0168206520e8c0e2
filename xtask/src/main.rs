//! `cargo xtask`: what the project asks of itself, beyond what cargo and its lints can.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod compare;
mod long;
mod tidy;

const USAGE: &str = "\
cargo xtask tidy       check dependencies, purity, sizes, leftovers and the documents
cargo xtask ci         everything that is checked before a change is taken: .ci/run
cargo xtask compare    processor time an operation of two commits, in turns
cargo xtask long       what takes longer; without a job, a list of them";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["tidy"] => tidy::run(&root()),
        ["ci"] => ci(&root()),
        ["compare", ref rest @ ..] => compare::run(&root(), rest),
        ["long", ..] => long::run(&root(), &words[1..]),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

/// The repository, of which this crate is a folder.
fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().expect("xtask is a folder of the repository").to_owned()
}

fn ci(root: &Path) -> ExitCode {
    match Command::new(root.join(".ci/run")).current_dir(root).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot start .ci/run: {error}");
            ExitCode::FAILURE
        }
    }
}
