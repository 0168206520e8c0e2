//! Commands of the golden scripts of `chain`.

use std::fmt::Write;

use quorate_protocol::chain::Place;
use quorate_protocol::effect::{Proposal, ReadMode};

use super::{Load, PARENT, Packet, World};
use crate::harness::golden::{Player, milliseconds, node, number, payload};

const TICK_US: u64 = 50_000;

#[derive(Default)]
pub struct ChainScript {
    world: Option<World>,
}

impl Player for ChainScript {
    fn execute(&mut self, command: &str, output: &mut String) {
        let words: Vec<_> = command.split_whitespace().collect();
        if let ["new", members, ref rest @ ..] = words[..] {
            let members = number(members);
            let count = if let ["of", count] = *rest { number(count) } else { members };
            let mut world = World::new(count, members, 1);
            world.trace = Some(String::new());
            world.lease_all();
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
            ["tick", duration, ref manner @ ..] => self.tick(milliseconds(duration), manner),
            ["show"] => self.show(output),
            ["clean", id] => {
                let line = match self.world().read_clean(node(id)) {
                    Some(seen) => format!("{id} reads {seen} updates"),
                    None => format!("{id} does not answer for itself"),
                };
                self.world().say(&line);
            }
            _ => self.act(&words),
        }
        if let Some(trace) = &mut self.world().trace {
            output.push_str(&std::mem::take(trace));
        }
    }
}

impl ChainScript {
    fn act(&mut self, words: &[&str]) {
        let world = self.world();
        match *words {
            ["propose", id, text] => world.propose(node(id), Proposal::Commands(payload(text))),
            ["mark", id] => world.propose(node(id), Proposal::Mark),
            ["stop", id, text] => world.propose(node(id), Proposal::Stop(payload(text))),
            ["read", id, token] => {
                world.propose(node(id), Proposal::Read { token: number(token), mode: ReadMode::Lease });
            }
            ["read", id, token, "quorum"] => {
                world.propose(node(id), Proposal::Read { token: number(token), mode: ReadMode::Quorum });
            }
            ["handover", id, to] => world.propose(node(id), Proposal::HandOver { to: node(to) }),
            ["sync", id] => world.sync(node(id)),
            ["checkpoint", id] => world.checkpoint(node(id)),
            ["rest", id] => world.rest_and_wake(node(id)),
            ["crash", id] => world.crash(node(id), 0),
            ["restart", id] => world.restart(node(id)),
            ["isolate", id] => world.network.isolate(node(id)),
            ["cut", link] => {
                let (from, to) = link.split_once("->").expect("cut n1->n2");
                world.network.cut(node(from), node(to));
            }
            ["heal"] => world.network.heal(),
            ["chunk", slots] => world.learned_max = number(slots),
            // The parent.
            ["lease"] => world.lease_all(),
            ["remove", id] => {
                world.parent.remove(node(id));
                self.say_parent();
            }
            ["join", id] => {
                world.parent.join(node(id));
                self.say_parent();
            }
            ["tell", id] => {
                let membership = world.parent.membership.clone();
                world.tell(node(id), membership);
            }
            ["report", id] => {
                let told = world.replica(node(id)).filter(|replica| replica.is_extended());
                if let Some(epoch) = told.map(|replica| replica.epoch()) {
                    world.deliver(Packet { from: node(id), to: PARENT, load: Load::Extended { epoch } });
                }
                self.say_parent();
            }
            _ => panic!("unknown command: {words:?}"),
        }
    }

    fn say_parent(&mut self) {
        let world = self.world();
        let line = match world.parent.removing {
            Some(node) => format!("parent: {:?}, waits for the lease of {node}", world.parent.membership),
            None => format!("parent: {:?}", world.parent.membership),
        };
        world.say(&line);
    }

    fn world(&mut self) -> &mut World {
        self.world.as_mut().expect("a script begins with new")
    }

    fn run(&mut self) {
        let world = self.world();
        loop {
            world.ids().for_each(|id| world.sync(id));
            let Some(packet) = world.network.packets.pop_front() else { return };
            world.deliver(packet);
        }
    }

    /// `leased`: members renew their leases as time passes.
    fn tick(&mut self, duration_us: u64, manner: &[&str]) {
        for _ in 0..duration_us / TICK_US {
            let world = self.world();
            world.now = world.now.after_us(TICK_US);
            if manner == ["leased"] {
                world.lease_all();
            }
            let now = world.now;
            if world.parent.attend(now) {
                self.say_parent();
            }
            let world = self.world();
            for id in world.ids() {
                world.attend(id);
            }
            // Leases and reports are commands of their own here.
            world.network.packets.retain(|packet| packet.to != PARENT);
        }
    }

    fn show(&mut self, output: &mut String) {
        let world = self.world();
        for node in &world.nodes {
            let line = match &node.replica {
                _ if !node.up => format!("{}: down, {} records on disk", node.id, node.disk.log.len()),
                None => format!("{}: not in the chain", node.id),
                Some(replica) => {
                    let status = replica.status();
                    let place = match status.place {
                        Place::Member(_) if replica.is_head() && replica.is_tail() => String::from("head and tail"),
                        Place::Member(_) if replica.is_head() => String::from("head"),
                        Place::Member(_) if replica.is_tail() => String::from("tail"),
                        Place::Member(_) => String::from("middle"),
                        Place::Joining => String::from("joining"),
                        Place::Outside => String::from("outside"),
                    };
                    let texts = |values: Vec<String>| values.join(" ");
                    let text = |value: &quorate_protocol::Value| {
                        format!("{value:?}").split('@').next().unwrap_or_default().to_string()
                    };
                    let executed = texts(node.executed.iter().map(text).collect());
                    let pending = texts(replica.pending().map(|(_, value)| text(value)).collect());
                    let membership = &status.membership;
                    let lease = if replica.holds_lease(world.clock(node.id)) { ", leased" } else { "" };
                    let stopped = if status.stopped { ", stopped" } else { "" };
                    let extension = status.extension.map_or(String::new(), |(extension, held)| {
                        format!(", {extension:?}, its successor holds {held:?}")
                    });
                    format!(
                        "{}: {place} of {membership:?}, executed [{executed}], in flight [{pending}]{lease}{stopped}{extension}",
                        node.id
                    )
                }
            };
            writeln!(output, "{line}").expect("strings take everything");
        }
    }
}
