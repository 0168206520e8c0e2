//! What the environment looks up in the checkpoint store, so that no turn waits for the disk.

use quorate_checkpoint::{Store, StoreError};
use quorate_protocol::{GroupId, NodeId};

use super::Host;
use super::copies::{Page, read_page};
use super::quarantine::isolate;
use super::resting::{Paused, read_paused};
use super::swapped::{Names, read_names};

/// To be [run](Lookup::run) with the node's checkpoint store, in the order of [`Host::take_lookups`] or any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// A paused group.
    Paused(GroupId),
    /// Names of a volume's own groups, from this one in the store on.
    Names { volume: GroupId, from: Vec<u8> },
    /// A part of a group's checkpoint, for a peer: its beginning, or objects from this name on.
    Page { group: GroupId, peer: NodeId, number: u64, from: Option<Vec<u8>> },
}

/// What was looked up, for [`Host::found`].
#[derive(Clone, Debug)]
pub struct Found(Answer);

#[derive(Clone, Debug)]
enum Answer {
    Paused(GroupId, Result<Option<Paused>, String>),
    Names(GroupId, Result<Names, String>),
    Page { group: GroupId, peer: NodeId, number: u64, page: Result<Option<Page>, String> },
}

impl Lookup {
    pub fn run(self, store: &impl Store) -> Found {
        let words = |error: StoreError| error.to_string();
        Found(match self {
            Lookup::Paused(group) => Answer::Paused(group, read_paused(store, group).map_err(words)),
            Lookup::Names { volume, from } => Answer::Names(volume, read_names(store, volume, from).map_err(words)),
            Lookup::Page { group, peer, number, from } => {
                let page = isolate(|| read_page(store, group, from.as_deref())).unwrap_or_else(Err);
                Answer::Page { group, peer, number, page }
            }
        })
    }
}

impl Host {
    pub fn take_lookups(&mut self) -> Vec<Lookup> {
        std::mem::take(&mut self.lookups)
    }

    pub fn found(&mut self, found: Found) {
        match found.0 {
            Answer::Paused(group, paused) => self.found_paused(group, paused),
            Answer::Names(volume, names) => self.found_names(volume, names),
            Answer::Page { group, peer, number, page } => self.found_page(group, peer, number, page),
        }
        self.run();
    }
}
