//! Commands of the golden scripts of `register`.

use std::fmt::Write;

use quorate_protocol::effect::Event;
use quorate_protocol::id::{Epoch, NodeId, Stamp};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{Authority, Key, Reach, Request, Stage};

use super::{World, configuration, text};
use crate::harness::golden::{self, Scripted, milliseconds, node, number};

const PATIENCE_MS: u64 = 2_000;

impl Scripted for World {
    const TICK_US: u64 = 1_000;

    fn begin(words: &[&str]) -> World {
        let count = number(words[0]);
        let (nodes, rest) = match words[1..] {
            ["of", nodes, ref rest @ ..] => (number(nodes), rest),
            ref rest => (count, rest),
        };
        World::new(nodes, count, quorum(rest, count as usize), 1)
    }

    fn act(&mut self, words: &[&str], output: &mut String) {
        let deadline = Stamp(self.stamp().0 + PATIENCE_MS);
        match *words {
            // As `run`, of which only what clients and the parent hear is shown.
            ["quietly", ref words @ ..] => {
                let mut said = String::new();
                if !words.is_empty() {
                    golden::execute(self, words, &mut said);
                }
                golden::execute(self, &["run"], &mut said);
                let heard = said.lines().filter(|line| line.contains(" answered "));
                heard.for_each(|line| writeln!(output, "{line}").expect("strings take everything"));
            }
            ["show"] => show(self, output),
            ["linearizable"] => assert_eq!(self.assert_linearizable(), 0),
            ["read", id, key] => drop(self.read(node(id), key, deadline)),
            ["write", id, key, value] => drop(self.write(node(id), key, Some(value), None, deadline)),
            ["write", id, key, value, "for", duration] => {
                let expires = Stamp(self.stamp().0 + milliseconds(duration) / 1000);
                self.write(node(id), key, Some(value), Some(expires), deadline);
            }
            ["delete", id, key] => drop(self.write(node(id), key, None, None, deadline)),
            ["list", id, count] => drop(self.list(node(id), None, number(count), deadline)),
            ["list", id, count, "after", key] => drop(self.list(node(id), Some(key), number(count), deadline)),
            ["retry", id, token] => self.retry(node(id), number(token)),
            ["decide", members, ref rest @ ..] => {
                let members: Vec<u32> = members.split(',').map(|member| node(member).0).collect();
                let renew = rest.first() == Some(&"renew");
                let quorum = quorum(if renew { &rest[1..] } else { rest }, members.len());
                let decided = self.decide(|stage: &Stage, epoch| {
                    let next = configuration(epoch, &members, quorum);
                    if renew { stage.renewal(next) } else { stage.successor(next) }
                });
                assert!(decided, "{words:?}");
            }
            // Members decide; as the paper does it, or with one quorum of each kind.
            ["authority", "preferred"] => self.set_authority(Authority::Members(Reach::Preferred)),
            ["authority", "twofold"] => self.set_authority(Authority::Members(Reach::Twofold)),
            ["reconfigure", id, members, ref rest @ ..] => {
                let members: Vec<NodeId> = members.split(',').map(node).collect();
                let (token, quorum) = (self.next_token(), quorum(rest, members.len()));
                self.step(node(id), Event::Requested(Request::Reconfigure { token, members, quorum }));
            }
            ["resize", id, ref rest @ ..] => {
                let (token, members) = (self.next_token(), self.parent.stages[0].configuration.members.len());
                let quorum = quorum(rest, members);
                self.step(node(id), Event::Requested(Request::Resize { token, quorum }));
            }
            ["bear", id] => self.bear(node(id)),
            ["know", id] => self.know(node(id)),
            ["retire", id] => {
                let token = self.next_token();
                self.step(node(id), Event::Requested(Request::Retire { token }));
            }
            ["seal", id] => {
                let token = self.next_token();
                self.step(node(id), Event::Requested(Request::Seal { token }));
            }
            ["final", id] => {
                let token = self.next_token();
                self.step(node(id), Event::Requested(Request::Final { token, after: None }));
            }
            ["renew", id, epoch, ref fence @ ..] => {
                let fence = fence.first().map_or(Epoch(0), |fence| Epoch(number(fence)));
                let (token, epoch) = (self.next_token(), Epoch(number(epoch)));
                self.step(node(id), Event::Requested(Request::Renew { token, epoch, fence }));
            }
            ["drain", id, ref epoch @ ..] => {
                let present = self.parent.stages.last().expect("a stage").epoch();
                let epoch = epoch.first().map_or(present, |epoch| Epoch(number(epoch)));
                let token = self.next_token();
                self.step(node(id), Event::Requested(Request::Drain { token, epoch }));
            }
            ["forget", id, ref after @ ..] => {
                let (token, after) = (self.next_token(), after.first().map(|key| Key(text(key))));
                self.step(node(id), Event::Requested(Request::Forget { token, after }));
            }
            ["checkpoint", id] => self.checkpoint(node(id)),
            ["crash", id] => self.crash(node(id), 0),
            ["restart", id] => self.restart(node(id)),
            _ => panic!("unknown command: {words:?}"),
        }
    }
}

fn show(world: &World, output: &mut String) {
    for node in &world.nodes {
        let Some(replica) = &node.replica else {
            if node.born.is_some() {
                writeln!(output, "{}: down", node.id).expect("strings take everything");
            }
            continue;
        };
        let status = replica.status();
        let records = replica.records().map(|record| format!("{record:?}"));
        let held: Vec<_> = records.filter_map(|record| record.strip_prefix("Held ").map(String::from)).collect();
        writeln!(
            output,
            "{}: {:?}{} {} operations {}",
            node.id,
            status.view,
            if status.is_member { "" } else { " no member" },
            status.operation_count,
            held.join(" "),
        )
        .expect("strings take everything");
    }
}

/// `2 2`: sizes of reads and writes. `2x3`: rows and columns. `grid`: the square.
fn quorum(words: &[&str], members: usize) -> QuorumSystem {
    match *words {
        [] => QuorumSystem::Majority,
        ["grid"] => QuorumSystem::square(members),
        [read, write] => QuorumSystem::Threshold { read: number(read), write: number(write) },
        [grid] => {
            let (rows, columns) = grid.split_once('x').expect("rows x columns");
            QuorumSystem::Grid { rows: number(rows), columns: number(columns) }
        }
        _ => panic!("{words:?}"),
    }
}
