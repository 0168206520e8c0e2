//! What is meant for the moment stays out of the repository: reminders, stubs, prints for debugging, and unwraps where
//! a failure has a name.

use super::Finding;
use super::source::{Source, find_words, line_of};

/// In comments: work that is not done.
const REMINDERS: [&str; 3] = ["TODO", "FIXME", "XXX"];
/// In any code.
const STUBS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
/// In code that runs in production.
const UNWRAP: &str = ".unwrap()";

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let find = |text: &str, words: &[&str], message: &dyn Fn(&str) -> String| -> Vec<Finding> {
        let all = words.iter().flat_map(|word| find_words(text, word).map(move |at| (*word, at)));
        all.map(|(word, at)| Finding::new(&source.path, line_of(text, at), message(word))).collect()
    };
    let mut findings = find(&source.comments, &REMINDERS, &|word| {
        format!("{word}: do it, or open an issue and say what is not there")
    });
    findings.extend(find(&source.code, &STUBS, &|word| format!("`{word}` is not for the repository")));
    findings.extend(find(&source.production, &[UNWRAP], &|_| {
        "unwrap outside of tests: an error, or an `expect` that says why it holds".to_owned()
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::new("crates/x/src/lib.rs", text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn reminders_stubs_and_unwraps_are_found_where_they_stand() {
        assert_eq!(lines("fn f() {}\n// TODO: more\n"), [2]);
        assert_eq!(lines("fn f() {\n    todo!()\n}\n"), [2]);
        assert_eq!(lines("\n\nlet x = y.unwrap();\n"), [3]);
    }

    #[test]
    fn what_only_looks_like_them_is_not() {
        assert!(lines("let x = \"TODO dbg!\"; // todo lists are fine\n").is_empty());
        assert!(lines("let x = y.unwrap_or(3).unwrap_or_default();\n").is_empty());
        assert!(lines("#[cfg(test)]\nmod tests {\n    fn f() { x.unwrap(); }\n}\n").is_empty());
    }
}
