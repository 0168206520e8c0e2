//! What one run of a node has written to the log in its directory, which holds that of earlier runs as well.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How much of a log's end is searched for its last line, and how much of that line is shown.
const TAIL_BYTES: u64 = 4096;
const LINE_CHARS_MAX: usize = 300;

#[derive(Debug)]
pub(crate) struct RunLog {
    path: PathBuf,
    /// In front of it is what earlier runs have written.
    from: u64,
}

impl RunLog {
    /// For a run that is about to begin: the file that it is to write to, at its end, and what it will have written.
    pub(crate) fn begin(directory: &Path) -> io::Result<(File, RunLog)> {
        let path = directory.join("log");
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let from = file.metadata()?.len();
        Ok((file, RunLog { path, from }))
    }

    /// How it ends, to be put behind what is told of the run; empty if the run has written nothing.
    pub(crate) fn ending(&self) -> String {
        self.last_line().map_or_else(String::new, |line| format!(" (its log ends: {line})"))
    }

    fn last_line(&self) -> Option<String> {
        let mut file = File::open(&self.path).ok()?;
        let length = file.metadata().ok()?.len();
        // Somebody who has emptied it meanwhile has taken what was in front as well.
        let from = if length < self.from { 0 } else { self.from };
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(TAIL_BYTES)))).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().take(LINE_CHARS_MAX).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_line_of_a_run_is_found_and_cut() {
        let directory = std::env::temp_dir().join(format!("quorate-log-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("writable");
        let write = |mut file: &File, text: &str| file.write_all(text.as_bytes()).expect("writable");
        let (file, first) = RunLog::begin(&directory).expect("writable");
        assert_eq!(first.ending(), "");
        let long = "x".repeat(LINE_CHARS_MAX + 1);
        write(&file, &format!("{}first\n{long}\n\n", "padding\n".repeat(1000)));
        assert_eq!(first.ending(), format!(" (its log ends: {})", &long[1..]));
        let (file, second) = RunLog::begin(&directory).expect("writable");
        assert_eq!(second.ending(), "", "the line is another run's");
        write(&file, "\n");
        assert_eq!(second.ending(), "");
        write(&file, "second\n");
        assert_eq!(second.ending(), " (its log ends: second)");
        file.set_len(0).expect("writable");
        write(&file, "emptied\n");
        assert_eq!(second.ending(), " (its log ends: emptied)");
        fs::remove_dir_all(&directory).expect("there");
    }
}
