//! Commands of the golden scripts of `register`.

use std::fmt::Write;

use quorate_protocol::effect::Event;
use quorate_protocol::id::{Epoch, NodeId, Stamp};
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::{Authority, Key, Reach, Request, Stage};

use super::{World, configuration, text};
use crate::harness::golden::{Player, milliseconds, node, number};

const TICK_US: u64 = 1_000;
const HEARTBEAT_TICKS: u64 = 100;
const PATIENCE_MS: u64 = 2_000;

#[derive(Default)]
pub struct RegisterScript {
    world: Option<World>,
    ticks: u64,
}

impl Player for RegisterScript {
    fn execute(&mut self, command: &str, output: &mut String) {
        let words: Vec<_> = command.split_whitespace().collect();
        if let ["new", count, ref rest @ ..] = words[..] {
            let (nodes, rest) = match *rest {
                ["of", nodes, ref rest @ ..] => (number(nodes), rest),
                _ => (number(count), rest),
            };
            let mut world = World::new(nodes, number(count), quorum(rest, number(count)), 1);
            world.trace = Some(String::new());
            self.world = Some(world);
            return;
        }
        match words[..] {
            ["hold", link] => self.world().network.hold(link),
            ["release"] => self.world().network.release(),
            ["drop", link] => drop(self.world().network.take(link)),
            ["duplicate", link] => self.world().network.duplicate(link),
            ["deliver", link] => {
                for packet in self.world().network.take(link) {
                    self.world().deliver(packet);
                }
            }
            ["run"] => self.run(),
            // As `run`, of which only what clients and the parent hear is shown.
            ["quietly", ref rest @ ..] => {
                let before = self.world().trace.replace(String::new());
                let mut said = String::new();
                if !rest.is_empty() {
                    self.execute(&rest.join(" "), &mut said);
                }
                self.run();
                said += &self.world().trace.replace(before.unwrap_or_default()).unwrap_or_default();
                let heard = said.lines().filter(|line| line.contains(" answered "));
                heard.for_each(|line| writeln!(output, "{line}").expect("strings take everything"));
                return;
            }
            ["tick", duration, ref manner @ ..] => self.tick(milliseconds(duration), manner),
            ["show"] => self.show(output),
            ["linearizable"] => assert_eq!(self.world().assert_linearizable(), 0),
            _ => self.act(&words),
        }
        if let Some(trace) = &mut self.world().trace {
            output.push_str(&std::mem::take(trace));
        }
    }
}

impl RegisterScript {
    fn act(&mut self, words: &[&str]) {
        let world = self.world();
        let deadline = Stamp(world.stamp().0 + PATIENCE_MS);
        match *words {
            ["read", id, key] => drop(world.read(node(id), key, deadline)),
            ["write", id, key, value] => drop(world.write(node(id), key, Some(value), None, deadline)),
            ["write", id, key, value, "for", duration] => {
                let expires = Stamp(world.stamp().0 + milliseconds(duration) / 1000);
                world.write(node(id), key, Some(value), Some(expires), deadline);
            }
            ["delete", id, key] => drop(world.write(node(id), key, None, None, deadline)),
            ["list", id, count] => drop(world.list(node(id), None, number(count), deadline)),
            ["list", id, count, "after", key] => drop(world.list(node(id), Some(key), number(count), deadline)),
            ["retry", id, token] => world.retry(node(id), number(token)),
            ["decide", members, ref rest @ ..] => {
                let members: Vec<u32> = members.split(',').map(|member| node(member).0).collect();
                let renew = rest.first() == Some(&"renew");
                let quorum = quorum(if renew { &rest[1..] } else { rest }, members.len());
                let decided = world.decide(|stage: &Stage, epoch| {
                    let next = configuration(epoch, &members, quorum);
                    if renew { stage.renewal(next) } else { stage.successor(next) }
                });
                assert!(decided, "{words:?}");
            }
            // Members decide; as the paper does it, or with one quorum of each kind.
            ["authority", "preferred"] => world.set_authority(Authority::Members(Reach::Preferred)),
            ["authority", "twofold"] => world.set_authority(Authority::Members(Reach::Twofold)),
            ["reconfigure", id, members, ref rest @ ..] => {
                let members: Vec<NodeId> = members.split(',').map(node).collect();
                let (token, quorum) = (world.next_token(), quorum(rest, members.len()));
                world.step(node(id), Event::Requested(Request::Reconfigure { token, members, quorum }));
            }
            ["resize", id, ref rest @ ..] => {
                let (token, members) = (world.next_token(), world.parent.stages[0].configuration.members.len());
                let quorum = quorum(rest, members);
                world.step(node(id), Event::Requested(Request::Resize { token, quorum }));
            }
            ["bear", id] => world.bear(node(id)),
            ["know", id] => world.know(node(id)),
            ["retire", id] => {
                let token = world.next_token();
                world.step(node(id), Event::Requested(Request::Retire { token }));
            }
            ["seal", id] => {
                let token = world.next_token();
                world.step(node(id), Event::Requested(Request::Seal { token }));
            }
            ["final", id] => {
                let token = world.next_token();
                world.step(node(id), Event::Requested(Request::Final { token, after: None }));
            }
            ["renew", id, epoch, ref fence @ ..] => {
                let fence = fence.first().map_or(Epoch(0), |fence| Epoch(number(fence)));
                let (token, epoch) = (world.next_token(), Epoch(number(epoch)));
                world.step(node(id), Event::Requested(Request::Renew { token, epoch, fence }));
            }
            ["drain", id, ref epoch @ ..] => {
                let present = world.parent.stages.last().expect("a stage").epoch();
                let epoch = epoch.first().map_or(present, |epoch| Epoch(number(epoch)));
                let token = world.next_token();
                world.step(node(id), Event::Requested(Request::Drain { token, epoch }));
            }
            ["forget", id, ref after @ ..] => {
                let (token, after) = (world.next_token(), after.first().map(|key| Key(text(key))));
                world.step(node(id), Event::Requested(Request::Forget { token, after }));
            }
            ["sync", id] => world.sync(node(id)),
            ["checkpoint", id] => world.checkpoint(node(id)),
            ["crash", id] => world.crash(node(id), 0),
            ["restart", id] => world.restart(node(id)),
            ["isolate", id] => world.network.isolate(node(id)),
            ["cut", link] => {
                let (from, to) = link.split_once("->").expect("cut n1->n2");
                world.network.cut(node(from), node(to));
            }
            ["heal"] => world.network.heal(),
            _ => panic!("unknown command: {words:?}"),
        }
    }

    fn world(&mut self) -> &mut World {
        self.world.as_mut().expect("a script begins with new")
    }

    fn run(&mut self) {
        let world = self.world();
        loop {
            (1..=world.nodes.len() as u32).for_each(|id| world.sync(NodeId(id)));
            let Some(packet) = world.network.packets.pop_front() else { return };
            world.deliver(packet);
        }
    }

    /// `running`: all is delivered as it goes.
    fn tick(&mut self, duration_us: u64, manner: &[&str]) {
        for _ in 0..duration_us / TICK_US {
            let beats = self.ticks.is_multiple_of(HEARTBEAT_TICKS);
            self.ticks += 1;
            let world = self.world();
            world.now = world.now.after_us(TICK_US);
            if beats {
                world.exchange_heartbeats();
            }
            (1..=world.nodes.len() as u32).for_each(|id| world.attend(NodeId(id)));
            if manner == ["running"] {
                self.run();
            }
        }
    }

    fn show(&mut self, output: &mut String) {
        for node in &self.world().nodes {
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
