//! Rules of this repository that no compiler knows, each in a module of its own.
//!
//! Every violation is one line, `file:line: what is wrong and what to do`, so that editors can jump to it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod dependencies;
mod documents;
mod leftovers;
mod purity;
mod sizes;
mod source;

use source::Source;

/// Something that must not be so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the repository.
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A file of the repository, as text.
pub(crate) struct Document {
    /// Relative to the repository, with `/`.
    path: String,
    text: String,
}

pub(crate) fn run(root: &Path) -> ExitCode {
    let documents = match read_all(root) {
        Ok(documents) => documents,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let sources: Vec<Source> = documents
        .iter()
        .filter(|document| document.path.ends_with(".rs"))
        .map(|document| Source::new(&document.path, &document.text))
        .collect();
    let mut findings = dependencies::check(&documents);
    findings.extend(sources.iter().flat_map(purity::check));
    findings.extend(sources.iter().flat_map(leftovers::check));
    findings.extend(sizes::check(&sources));
    findings.extend(documents::check(&documents));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files looked at, {} findings", documents.len(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every text file that git knows or would know. What it ignores is nobody's business.
fn read_all(root: &Path) -> Result<Vec<Document>, String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot ask git for the files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git does not list the files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut documents = Vec::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let path: PathBuf = root.join(name);
        // Deleted and not yet committed, or not text.
        if let Some(text) = fs::read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
            documents.push(Document { path: name.to_owned(), text });
        }
    }
    documents.sort_by(|left, right| left.path.cmp(&right.path));
    documents.dedup_by(|left, right| left.path == right.path);
    Ok(documents)
}
