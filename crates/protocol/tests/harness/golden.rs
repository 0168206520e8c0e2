//! Files of commands and what must come of them.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use quorate_protocol::id::{NodeId, Payload};

pub trait Player {
    fn execute(&mut self, command: &str, output: &mut String);
}

/// Plays every script of a protocol.
pub fn play<P: Player>(protocol: &str, player: impl Fn() -> P) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(protocol);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder of scripts").map(|entry| entry.expect("a script").path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in paths {
        let expected = std::fs::read_to_string(&path).expect("a script is text");
        let actual = play_text(&mut player(), &expected);
        if actual != expected {
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&path, &actual).expect("a script can be written");
            } else {
                wrong.push(format!("{}:\n{}", path.display(), first_difference(&expected, &actual)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 rewrites the files", wrong.join("\n"));
}

fn first_difference(expected: &str, actual: &str) -> String {
    let pairs = expected.lines().zip(actual.lines()).enumerate();
    match pairs.into_iter().find(|(_, (expected, actual))| expected != actual) {
        Some((number, (expected, actual))) => format!("line {}\n  - {expected}\n  + {actual}", number + 1),
        None => String::from("one is longer than the other"),
    }
}

fn play_text(player: &mut impl Player, text: &str) -> String {
    let mut printed = String::new();
    for block in text.split("\n\n") {
        let commands: Vec<_> = block.lines().take_while(|line| *line != "----").collect();
        let mut output = String::new();
        for line in &commands {
            writeln!(printed, "{line}").expect("strings take everything");
            let command = line.split('#').next().unwrap_or_default().trim();
            if !command.is_empty() {
                player.execute(command, &mut output);
            }
        }
        if block.lines().any(|line| line == "----") {
            printed.push_str("----\n");
            printed.push_str(&output);
        }
        printed.push('\n');
    }
    format!("{}\n", printed.trim_end())
}

pub fn node(text: &str) -> NodeId {
    NodeId(number(text.strip_prefix('n').expect("a node is n1, n2, ...")))
}

pub fn payload(text: &str) -> Payload {
    Arc::from(text.as_bytes())
}

pub fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

pub fn milliseconds(text: &str) -> u64 {
    number::<u64>(text.strip_suffix("ms").expect("a duration is in ms")) * 1000
}
