//! Files that one can read in one sitting.

use super::Finding;
use super::source::Source;

/// Longer files are split, unless they are listed here with their length; the list only shrinks.
const LINES_MAX: usize = 700;
const EXCEPTIONS: [(&str, usize); 0] = [];

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    check_with(sources, &EXCEPTIONS)
}

fn check_with(sources: &[Source], exceptions: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let lines = source.line_count();
        let exception = exceptions.iter().find(|(path, _)| *path == source.path);
        let message = match exception {
            None if lines > LINES_MAX => format!("{lines} lines: split what is longer than {LINES_MAX}"),
            Some((_, allowed)) if lines > *allowed => {
                format!("{lines} lines: this exception may not grow beyond {allowed}")
            }
            Some(_) if lines <= LINES_MAX => "short enough now: take it off the list of exceptions".to_owned(),
            _ => continue,
        };
        findings.push(Finding::new(&source.path, lines, message));
    }
    let is_gone = |path: &str| sources.iter().all(|source| source.path != path);
    let gone = exceptions.iter().filter(|(path, _)| is_gone(path));
    findings.extend(gone.map(|(path, _)| Finding::new(path, 1, "gone: take it off the list of exceptions")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found_and_exceptions_only_shrink() {
        let long = "x\n".repeat(LINES_MAX + 1);
        let sources = [Source::new("a.rs", &long), Source::new("b.rs", "x\n")];
        assert_eq!(check_with(&sources, &[]).len(), 1);
        assert!(check_with(&sources, &[("a.rs", LINES_MAX + 1)]).is_empty());
        assert_eq!(check_with(&sources, &[("a.rs", LINES_MAX)]).len(), 1);
        assert_eq!(check_with(&sources, &[("a.rs", 2000), ("b.rs", 2000)]).len(), 1);
        assert_eq!(check_with(&sources, &[("a.rs", 2000), ("c.rs", 2000)]).len(), 1);
    }
}
