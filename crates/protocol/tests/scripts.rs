//! Golden interactions: each file in `scripts/` drives a cluster by commands and holds what must come of them.
//!
//! A file is a sequence of blocks: commands, a line `----`, what they print, an empty line. `UPDATE=1` writes what they
//! print into the files; whoever does that reads the difference. Lines with `#` are for the reader.
//!
//! Nothing happens by itself: `sync` puts a node's records on disk and lets out what waited for that, `deliver` moves
//! packets, `tick` moves the clock (with heartbeats, detectors and timers); `run` syncs and delivers until all is quiet.

mod harness;

use std::fmt::Write;

use harness::Cluster;
use harness::chain::script::ChainScript;
use harness::golden::{self, milliseconds, node, number, payload};
use harness::register::script::RegisterScript;
use quorate_protocol::effect::{Proposal, ReadMode};
use quorate_protocol::quorum::QuorumSystem;

const TICK_US: u64 = 50_000;
const HEARTBEAT_TICKS: u64 = 2;

#[test]
fn paxos() {
    golden::play("paxos", Script::default);
}

#[test]
fn chain() {
    golden::play("chain", ChainScript::default);
}

#[test]
fn register() {
    golden::play("register", RegisterScript::default);
}

#[derive(Default)]
struct Script {
    cluster: Option<Cluster>,
    ticks: u64,
}

impl golden::Player for Script {
    fn execute(&mut self, command: &str, output: &mut String) {
        let words: Vec<_> = command.split_whitespace().collect();
        if let ["new", count, ref rest @ ..] = words[..] {
            let quorum = match *rest {
                [] | ["own"] => QuorumSystem::Majority,
                [read, write] => QuorumSystem::Threshold { read: number(read), write: number(write) },
                _ => panic!("{command}"),
            };
            let mut cluster = Cluster::new(number(count), quorum, 1);
            cluster.trace = Some(String::new());
            cluster.wants_frontiers = *rest != ["own"];
            self.cluster = Some(cluster);
            return;
        }
        match words[..] {
            ["hold", link] => self.cluster().network.hold(link),
            ["release"] => self.cluster().network.release(),
            ["drop", link] => drop(self.cluster().network.take(link)),
            ["duplicate", link] => self.cluster().network.duplicate(link),
            ["deliver", link] => {
                for packet in self.cluster().network.take(link) {
                    self.cluster().deliver(packet);
                }
            }
            ["run"] => self.run(),
            ["tick", duration, ref manner @ ..] => self.tick(milliseconds(duration), manner),
            ["show"] => self.show(output),
            _ => self.act(&words),
        }
        if let Some(trace) = &mut self.cluster().trace {
            output.push_str(&std::mem::take(trace));
        }
    }
}

impl Script {
    fn act(&mut self, words: &[&str]) {
        let cluster = self.cluster();
        match *words {
            ["propose", id, text] => cluster.propose(node(id), Proposal::Commands(payload(text))),
            ["mark", id] => cluster.propose(node(id), Proposal::Mark),
            ["stop", id, text] => cluster.propose(node(id), Proposal::Stop(payload(text))),
            ["read", id, token] => {
                let token = number(token);
                cluster.propose(node(id), Proposal::Read { token, mode: ReadMode::Lease });
            }
            ["read", id, token, "quorum"] => {
                let token = number(token);
                cluster.propose(node(id), Proposal::Read { token, mode: ReadMode::Quorum });
            }
            ["handover", id, to] => cluster.propose(node(id), Proposal::HandOver { to: node(to) }),
            ["sync", id] => cluster.sync(node(id)),
            ["checkpoint", id] => cluster.checkpoint(node(id)),
            ["aside", id] => cluster.set_aside(node(id)),
            ["crash", id] => cluster.crash(node(id)),
            ["restart", id] => cluster.restart(node(id)),
            ["silence", id] => cluster.silence(node(id)),
            ["isolate", id] => cluster.network.isolate(node(id)),
            ["cut", link] => {
                let (from, to) = link.split_once("->").expect("cut n1->n2");
                cluster.network.cut(node(from), node(to));
            }
            ["heal"] => cluster.network.heal(),
            _ => panic!("unknown command: {words:?}"),
        }
    }

    fn cluster(&mut self) -> &mut Cluster {
        self.cluster.as_mut().expect("a script begins with new")
    }

    fn run(&mut self) {
        let cluster = self.cluster();
        let members = cluster.configuration.members.clone();
        loop {
            members.iter().for_each(|&id| cluster.sync(id));
            let Some(packet) = cluster.network.packets.pop_front() else { return };
            cluster.deliver(packet);
        }
    }

    /// `silent`: no heartbeats. `running`: all is delivered as it goes.
    fn tick(&mut self, duration_us: u64, manner: &[&str]) {
        for _ in 0..duration_us / TICK_US {
            let beats = self.ticks.is_multiple_of(HEARTBEAT_TICKS) && manner != ["silent"];
            self.ticks += 1;
            let cluster = self.cluster();
            cluster.now = cluster.now.after_us(TICK_US);
            if beats {
                cluster.exchange_heartbeats();
            }
            for &id in cluster.configuration.members.clone().iter() {
                cluster.attend(id);
            }
            if manner == ["running"] {
                self.run();
            }
        }
    }

    fn show(&mut self, output: &mut String) {
        for node in &self.cluster().nodes {
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
            let executed: Vec<_> = node.executed.iter().map(|value| value.content_only()).collect();
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
}

trait ContentOnly {
    fn content_only(&self) -> String;
}

impl ContentOnly for quorate_protocol::Value {
    fn content_only(&self) -> String {
        let text = format!("{self:?}");
        text.split('@').next().unwrap_or_default().to_string()
    }
}
