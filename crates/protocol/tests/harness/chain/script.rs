//! Commands of the golden scripts of `chain`.

use std::fmt::Write;

use quorate_protocol::chain::Place;

use super::{Load, PARENT, Packet, World};
use crate::harness::Group;
use crate::harness::golden::{self, Scripted, content, node, number};

impl Scripted for World {
    const TICK_US: u64 = 50_000;

    fn begin(words: &[&str]) -> World {
        let members = number(words[0]);
        let count = if let ["of", count] = words[1..] { number(count) } else { members };
        let mut world = World::new(count, members, 1);
        world.lease_all();
        world
    }

    fn act(&mut self, words: &[&str], output: &mut String) {
        if let Some((id, proposal)) = golden::proposal(words) {
            return self.propose(id, proposal);
        }
        match *words {
            ["checkpoint", id] => self.checkpoint(node(id)),
            ["rest", id] => self.rest_and_wake(node(id)),
            ["crash", id] => self.crash(node(id), 0),
            ["restart", id] => self.restart(node(id)),
            ["chunk", slots] => self.learned_max = number(slots),
            ["show"] => show(self, output),
            ["clean", id] => match self.read_clean(node(id)) {
                Some(seen) => self.say(&format!("{id} reads {seen} updates")),
                None => self.say(&format!("{id} does not answer for itself")),
            },
            // The parent.
            ["lease"] => self.lease_all(),
            ["remove", id] => {
                self.parent.remove(node(id));
                self.say_parent();
            }
            ["join", id] => {
                self.parent.join(node(id));
                self.say_parent();
            }
            ["tell", id] => {
                let membership = self.parent.membership.clone();
                self.tell(node(id), membership);
            }
            ["report", id] => {
                let told = self.replica(node(id)).filter(|replica| replica.is_extended());
                if let Some(epoch) = told.map(|replica| replica.epoch()) {
                    self.deliver(Packet { from: node(id), to: PARENT, load: Load::Extended { epoch } });
                }
                self.say_parent();
            }
            _ => panic!("unknown command: {words:?}"),
        }
    }

    /// `leased`: members renew their leases as time passes.
    fn tick(&mut self, manner: &[&str]) {
        if manner == ["leased"] {
            self.lease_all();
        }
        if self.parent.attend(self.now) {
            self.say_parent();
        }
        self.ids().into_iter().for_each(|id| self.attend(id));
        // Leases and reports are commands of their own here.
        self.network.packets.retain(|packet| packet.to != PARENT);
    }
}

impl World {
    fn say_parent(&mut self) {
        let line = match self.parent.removing {
            Some(node) => format!("parent: {:?}, waits for the lease of {node}", self.parent.membership),
            None => format!("parent: {:?}", self.parent.membership),
        };
        self.say(&line);
    }
}

fn show(world: &World, output: &mut String) {
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
                let executed: Vec<_> = node.executed.iter().map(content).collect();
                let pending: Vec<_> = replica.pending().map(|(_, value)| content(value)).collect();
                let (executed, pending) = (executed.join(" "), pending.join(" "));
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
