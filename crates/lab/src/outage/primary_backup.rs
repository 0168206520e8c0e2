//! Primary/backup with one primary and two backups, told of a failure by the master as section 4 describes it.

use std::fmt;

use super::{Case, Outage};
use crate::queue::Queue;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Master,
    Clients,
    Server(u32),
}

/// What is said after a failure of the primary, server 1.
#[derive(Clone, Copy)]
enum Word {
    Suspend,
    Processed {
        updates: u64,
    },
    Primary {
        server: u32,
        lag: u64,
    },
    Missing {
        updates: u64,
    },
    InPlace,
    NewPrimary,
    /// After a failure of a backup: expect nothing from it.
    WithoutBackup,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Master => write!(f, "master"),
            Node::Clients => write!(f, "clients"),
            Node::Server(number) => write!(f, "n{number}"),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Suspend => write!(f, "process nothing; how much have you?"),
            Word::Processed { updates } => write!(f, "{updates} updates"),
            Word::Primary { server, .. } => write!(f, "n{server} is the primary"),
            Word::Missing { updates } => write!(f, "the {updates} updates that you lack"),
            Word::InPlace => write!(f, "in place"),
            Word::NewPrimary => write!(f, "turn to the new primary"),
            Word::WithoutBackup => write!(f, "expect nothing from n3"),
        }
    }
}

struct World {
    queue: Queue<(Node, Node, Word)>,
    messages: Vec<(u64, String)>,
}

impl World {
    fn new() -> World {
        World { queue: Queue::new(), messages: Vec::new() }
    }

    fn say(&mut self, from: Node, to: Node, word: Word) {
        self.queue.plan(1, (from, to, word));
    }

    fn hear(&mut self) -> Option<(Node, Node, Word)> {
        let (from, to, word) = self.queue.pop()?;
        self.messages.push((self.queue.now(), format!("{from} -> {to}: {word}")));
        Some((from, to, word))
    }
}

const BACKUPS: [(u32, u64); 2] = [(2, 7), (3, 5)];

/// Each backup says how much it has; the one with the most becomes the primary and sends the other what that lacks; then
/// clients are told.
pub(super) fn primary_fails() -> Case {
    let mut world = World::new();
    let mut heard = Vec::new();
    for (backup, _) in BACKUPS {
        world.say(Node::Master, Node::Server(backup), Word::Suspend);
    }
    let mut clients_know_at = 0;
    while let Some((_, to, word)) = world.hear() {
        match (to, word) {
            (Node::Server(server), Word::Suspend) => {
                let updates = BACKUPS.iter().find(|backup| backup.0 == server).map_or(0, |backup| backup.1);
                world.say(to, Node::Master, Word::Processed { updates });
            }
            (Node::Master, Word::Processed { updates }) => {
                heard.push(updates);
                if heard.len() == BACKUPS.len() {
                    let (most, least) =
                        (heard.iter().max().copied().unwrap_or(0), heard.iter().min().copied().unwrap_or(0));
                    let server = BACKUPS.iter().find(|backup| backup.1 == most).map_or(0, |backup| backup.0);
                    for (backup, _) in BACKUPS {
                        world.say(Node::Master, Node::Server(backup), Word::Primary { server, lag: most - least });
                    }
                }
            }
            (Node::Server(me), Word::Primary { server, lag }) if me == server => {
                for (backup, _) in BACKUPS.into_iter().filter(|backup| backup.0 != me) {
                    world.say(to, Node::Server(backup), Word::Missing { updates: lag });
                }
                world.say(to, Node::Master, Word::InPlace);
            }
            (Node::Master, Word::InPlace) => world.say(Node::Master, Node::Clients, Word::NewPrimary),
            (Node::Clients, Word::NewPrimary) => clients_know_at = world.queue.now(),
            _ => {}
        }
    }
    let what = "clients know the new primary";
    let outage = |requests| outage("primary", requests, clients_know_at, 5, what);
    Case {
        title: "primary/backup: the primary fails",
        outages: vec![outage("queries"), outage("updates")],
        messages: world.messages,
    }
}

/// With an update in progress the primary waits for the backup's word until it is told not to.
pub(super) fn backup_fails() -> Case {
    let mut world = World::new();
    world.say(Node::Master, Node::Server(1), Word::WithoutBackup);
    let mut primary_knows_at = 0;
    while let Some((_, to, word)) = world.hear() {
        if let (Node::Server(1), Word::WithoutBackup) = (to, word) {
            primary_knows_at = world.queue.now();
        }
    }
    let what = "the primary waits for that backup no more; nothing waits without an update in progress";
    Case {
        title: "primary/backup: a backup fails",
        outages: vec![
            outage("backup", "queries", primary_knows_at, 1, what),
            outage("backup", "updates", primary_knows_at, 1, what),
        ],
        messages: world.messages,
    }
}

fn outage(failed: &'static str, requests: &'static str, delays: u64, paper: u64, what: &'static str) -> Outage {
    Outage { protocol: "p/b", failed, requests, delays, paper, what }
}
