//! Code that the simulator runs follows from its arguments alone: no clocks, no sockets, no files, no threads, no order
//! of a randomly seeded map.

use super::Finding;
use super::source::{Source, find_words, line_of};

/// Folders of pure code.
const PURE: [&str; 8] = [
    "crates/protocol/src/",
    "crates/object/src/",
    "crates/node/src/",
    "crates/front/src/",
    "crates/resp/src/",
    "crates/wal/src/",
    "crates/lab/src/",
    "crates/control/src/",
];

/// Where pure crates touch the world: the log's files.
const EXCEPT: [&str; 2] = ["crates/wal/src/file.rs", "crates/wal/src/file/"];

/// What is not asked for there, and what is done instead.
const FORBIDDEN: [(&str, &str); 12] = [
    ("Instant::now", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("std::thread", "threads belong to the server"),
    ("std::net", "sockets belong to the server"),
    ("std::fs", "files belong to the log's file module and to the server"),
    ("std::env::var", "configuration is an argument"),
    ("RandomState", "a hash that differs from run to run gives an order that does"),
    ("thread_rng", "random bits are an argument"),
    ("getrandom", "random bits are an argument"),
    ("println!", "what happened is returned, not printed"),
    ("eprintln!", "what happened is returned, not printed"),
    ("tracing", "what happened is returned, not logged"),
];

/// Crates whose first file must say so to the compiler.
const NO_STD: [&str; 1] = ["crates/protocol/src/lib.rs"];
const NO_UNSAFE: [&str; 8] = [
    "crates/protocol/src/lib.rs",
    "crates/node/src/lib.rs",
    "crates/front/src/lib.rs",
    "crates/resp/src/lib.rs",
    "crates/wal/src/lib.rs",
    "crates/checkpoint/src/lib.rs",
    "crates/lab/src/lib.rs",
    "crates/control/src/lib.rs",
];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = check_attributes(source);
    let path = source.path.as_str();
    let is_pure = PURE.iter().any(|folder| path.starts_with(folder));
    if !is_pure || EXCEPT.iter().any(|exception| path.starts_with(exception)) {
        return findings;
    }
    let code = source.production.as_str();
    for (word, instead) in FORBIDDEN {
        let found = find_words(code, word);
        findings.extend(found.map(|at| {
            let message = format!("`{word}` in pure code: {instead}");
            Finding::new(path, line_of(code, at), message)
        }));
    }
    for (name, arguments) in [("HashMap", 3), ("HashSet", 2)] {
        let found = find_words(code, name).filter(|at| is_randomly_seeded(&code[at + name.len()..], arguments));
        findings.extend(found.map(|at| {
            let message =
                format!("a {name} with the default hasher in pure code: name a hasher, or use a BTree{}", &name[4..]);
            Finding::new(path, line_of(code, at), message)
        }));
    }
    findings
}

fn check_attributes(source: &Source) -> Vec<Finding> {
    let must = [(&NO_STD[..], "#![no_std]"), (&NO_UNSAFE[..], "#![forbid(unsafe_code)]")];
    let lacks = |(paths, attribute): &(&[&str], &str)| {
        paths.contains(&source.path.as_str()) && !source.code.contains(attribute)
    };
    let missing = must.into_iter().filter(lacks);
    missing.map(|(_, attribute)| Finding::new(&source.path, 1, format!("this crate says `{attribute}`"))).collect()
}

/// Whether what follows the name of a map or set leaves its hasher to the default: a type with fewer than `arguments`
/// arguments, or a constructor that only the default has.
fn is_randomly_seeded(rest: &str, arguments: usize) -> bool {
    let (generics, rest) = match rest.strip_prefix("::<").or_else(|| rest.strip_prefix('<')) {
        None => (None, rest),
        Some(inner) => {
            let Some(length) = generics_length(inner) else { return false };
            (Some(&inner[..length]), &inner[length + 1..])
        }
    };
    let is_constructed = rest.starts_with("::new(") || rest.starts_with("::with_capacity(");
    is_constructed || generics.is_some_and(|generics| count_arguments(generics) < arguments)
}

/// The length of a list of generic arguments up to the `>` that ends it.
fn generics_length(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if before == '-' => {}
            '>' if depth == 0 => return Some(at),
            '>' | ')' | ']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        before = letter;
    }
    None
}

fn count_arguments(generics: &str) -> usize {
    let (mut depth, mut count, mut is_begun) = (0i32, 0, false);
    let mut before = ' ';
    for letter in generics.chars() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                count += 1;
                is_begun = false;
                before = letter;
                continue;
            }
            _ => {}
        }
        is_begun |= !letter.is_whitespace();
        before = letter;
    }
    count + usize::from(is_begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        check(&Source::new(path, text))
    }

    #[test]
    fn the_world_is_not_touched_by_pure_code() {
        let text = "fn f() {\n    let now = std::time::Instant::now();\n}\n";
        let found = findings("crates/node/src/x.rs", text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "crates/node/src/x.rs:2: `Instant::now` in pure code: time is an argument");
        assert!(findings("crates/server/src/x.rs", text).is_empty());
        assert!(findings("crates/wal/src/file.rs", text).is_empty());
        assert!(findings("crates/node/src/x.rs", "// never Instant::now\n").is_empty());
    }

    #[test]
    fn maps_need_a_hasher_that_is_the_same_in_every_run() {
        let count = |text: &str| findings("crates/front/src/x.rs", text).len();
        assert_eq!(count("x: HashMap<u64, Vec<(u8, u8)>>"), 1);
        assert_eq!(count("x: HashMap<u64, Vec<(u8, u8)>, FixedState>"), 0);
        assert_eq!(count("x: HashMap<\n    (A, B),\n    fn(A) -> B,\n    FixedState,\n>"), 0);
        assert_eq!(count("x: HashSet<u64>"), 1);
        assert_eq!(count("x: HashSet<u64, Fixed>"), 0);
        assert_eq!(count("HashMap::new()"), 1);
        assert_eq!(count("HashMap::<A, B, C>::default()"), 0);
        assert_eq!(count("HashMap::default()"), 0);
        assert_eq!(count("use std::collections::HashMap;"), 0);
        assert_eq!(count("#[cfg(test)]\nmod tests { fn f() { HashSet::new(); } }"), 0);
    }

    #[test]
    fn the_protocols_are_kept_from_the_world_by_the_compiler() {
        let found = findings("crates/protocol/src/lib.rs", "pub mod x;\n");
        assert_eq!(found.len(), 2);
        assert!(findings("crates/protocol/src/lib.rs", "#![no_std]\n#![forbid(unsafe_code)]\n").is_empty());
    }
}
