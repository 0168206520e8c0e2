//! Golden interactions: each file in `scripts/` drives a cluster by commands and holds what must come of them.
//!
//! A file is a sequence of blocks: commands, a line `----`, what they print, an empty line. `UPDATE=1` writes what they
//! print into the files; whoever does that reads the difference. Lines with `#` are for the reader.
//!
//! Nothing happens by itself: `sync` puts a node's records on disk and lets out what waited for that, `deliver` moves
//! packets, `tick` moves the clock (with heartbeats, detectors and timers); `run` syncs and delivers until all is quiet.

mod harness;

use std::fmt::Write;

use harness::golden::{self, Scripted, content, node, number};
use harness::{Cluster, chain, register};
use quorate_protocol::quorum::QuorumSystem;

#[test]
fn paxos() {
    golden::play::<Cluster>("paxos");
}

#[test]
fn chain() {
    golden::play::<chain::World>("chain");
}

#[test]
fn register() {
    golden::play::<register::World>("register");
}

impl Scripted for Cluster {
    const TICK_US: u64 = 50_000;

    fn begin(words: &[&str]) -> Cluster {
        let quorum = match words[1..] {
            [] | ["own" | "routed"] => QuorumSystem::Majority,
            [read, write] => QuorumSystem::Threshold { read: number(read), write: number(write) },
            _ => panic!("{words:?}"),
        };
        let mut cluster = Cluster::new(number(words[0]), quorum, 1);
        cluster.wants_frontiers = words[1..] != ["own"];
        cluster.proposes_late = words[1..] == ["routed"];
        cluster
    }

    fn act(&mut self, words: &[&str], output: &mut String) {
        if let Some((id, proposal)) = golden::proposal(words) {
            return self.propose(id, proposal);
        }
        match *words {
            ["checkpoint", id] => self.checkpoint(node(id)),
            ["aside", id] => self.set_aside(node(id)),
            ["crash", id] => self.crash(node(id)),
            ["restart", id] => self.restart(node(id)),
            ["silence", id] => self.silence(node(id)),
            ["show"] => show(self, output),
            _ => panic!("unknown command: {words:?}"),
        }
    }
}

fn show(cluster: &Cluster, output: &mut String) {
    for node in &cluster.nodes {
        let Some(replica) = &node.replica else {
            writeln!(output, "{}: down, {} records on disk", node.id, node.disk.log.len())
                .expect("strings take everything");
            continue;
        };
        if node.silent {
            writeln!(output, "{}: silent", node.id).expect("strings take everything");
            continue;
        }
        let status = replica.status();
        let executed: Vec<_> = node.executed.iter().map(content).collect();
        writeln!(
            output,
            "{}: {:?} {:?} {}{}executed [{}], {} in flight",
            node.id,
            status.role,
            status.ballot,
            if replica.is_idle() { "idle " } else { "" },
            if status.stopped { "stopped " } else { "" },
            executed.join(" "),
            status.in_flight,
        )
        .expect("strings take everything");
    }
}
