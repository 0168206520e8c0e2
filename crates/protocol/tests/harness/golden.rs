//! Files of commands and what must come of them.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use quorate_protocol::effect::{Proposal, ReadMode};
use quorate_protocol::id::{NodeId, Payload, Value};

use super::Group;

/// Heartbeats go with the first tick of each so much.
const HEARTBEAT_US: u64 = 100_000;

/// What the scripts of a protocol say beyond what all scripts do.
pub trait Scripted: Group + Sized {
    /// How far the clock moves at once.
    const TICK_US: u64;

    /// As the words after `new` have it.
    fn begin(words: &[&str]) -> Self;

    fn act(&mut self, words: &[&str], output: &mut String);

    /// The clock has moved. `silent`: no heartbeats. `running`: all is delivered as it goes.
    fn tick(&mut self, manner: &[&str]) {
        if self.now().0 % HEARTBEAT_US == Self::TICK_US && manner != ["silent"] {
            self.exchange_heartbeats();
        }
        self.ids().into_iter().for_each(|id| self.attend(id));
        if manner == ["running"] {
            self.run();
        }
    }
}

/// Plays every script of a protocol.
pub fn play<G: Scripted>(protocol: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(protocol);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder of scripts").map(|entry| entry.expect("a script").path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in paths {
        let expected = std::fs::read_to_string(&path).expect("a script is text");
        let actual = play_text::<G>(&expected);
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

fn play_text<G: Scripted>(text: &str) -> String {
    let mut printed = String::new();
    let mut group: Option<G> = None;
    for block in text.split("\n\n") {
        let commands: Vec<_> = block.lines().take_while(|line| *line != "----").collect();
        let mut output = String::new();
        for line in &commands {
            writeln!(printed, "{line}").expect("strings take everything");
            let command = line.split('#').next().unwrap_or_default().trim();
            match command.split_whitespace().collect::<Vec<_>>()[..] {
                [] => {}
                ["new", ref words @ ..] => *group.insert(G::begin(words)).trace() = Some(String::new()),
                ref words => execute(group.as_mut().expect("a script begins with new"), words, &mut output),
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

pub fn execute<G: Scripted>(group: &mut G, words: &[&str], output: &mut String) {
    match *words {
        ["hold", link] => group.network().hold(link),
        ["release"] => group.network().release(),
        ["drop", link] => drop(group.network().take(link)),
        ["duplicate", link] => group.network().duplicate(link),
        ["deliver", link] => {
            let packets = group.network().take(link);
            packets.into_iter().for_each(|packet| group.deliver(packet));
        }
        ["cut", link] => {
            let (from, to) = link.split_once("->").expect("cut n1->n2");
            group.network().cut(node(from), node(to));
        }
        ["isolate", id] => group.network().isolate(node(id)),
        ["heal"] => group.network().heal(),
        ["sync", id] => group.sync(node(id)),
        ["run"] => group.run(),
        ["tick", duration, ref manner @ ..] => {
            for _ in 0..milliseconds(duration) / G::TICK_US {
                *group.now() = group.now().after_us(G::TICK_US);
                group.tick(manner);
            }
        }
        _ => group.act(words, output),
    }
    if let Some(trace) = group.trace() {
        output.push_str(&std::mem::take(trace));
    }
}

/// What a group that executes in order is asked for.
pub fn proposal(words: &[&str]) -> Option<(NodeId, Proposal)> {
    let (id, proposal) = match *words {
        ["propose", id, text] => (id, Proposal::Commands(payload(text))),
        ["mark", id] => (id, Proposal::Mark),
        ["stop", id, text] => (id, Proposal::Stop(payload(text))),
        ["read", id, token] => (id, Proposal::Read { token: number(token), mode: ReadMode::Lease }),
        ["read", id, token, "quorum"] => (id, Proposal::Read { token: number(token), mode: ReadMode::Quorum }),
        ["handover", id, to] => (id, Proposal::HandOver { to: node(to) }),
        _ => return None,
    };
    Some((node(id), proposal))
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

/// A value without its stamp.
pub fn content(value: &Value) -> String {
    format!("{value:?}").split('@').next().unwrap_or_default().to_string()
}
