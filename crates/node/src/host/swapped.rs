//! Records of own groups that leave memory, as their groups do.
//!
//! Where the records of a node's volumes take more than they may, those that the volumes' checkpoints hold lose their names: what
//! stays of each is enough to find it by its name, and 16 bytes. Names come back where somebody lists them, or copies the volume:
//! the environment reads them in the checkpoint, page by page, and whoever wants them asks again until they are here. They
//! stay until nobody has wanted them for a while. See docs/decisions/0018.

use std::collections::BTreeMap;

use quorate_checkpoint::{Store, StoreError};
use quorate_protocol::{GroupId, Instant};

use super::checkpoints::{Name, take_name};
use super::lookups::Lookup;
use super::{Host, Timer};
use crate::planted::{self, Planted};
use crate::volume::{OwnRecord, Record};

/// Names, or bytes of whatever the volume's checkpoint holds, that are read at once.
const PAGE_NAMES_MAX: usize = 4096;
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Names that were wanted stay for so long.
const WANTED_FOR_US: u64 = 10_000_000;
/// Leaves of the objects' table of which names are swapped in one turn, and the time until the next one.
const LEAVES_PER_TURN: usize = 1;
const PAUSE_US: u64 = 1_000;

#[derive(Default)]
pub(super) struct Swapping {
    volumes: BTreeMap<GroupId, VolumeNames>,
    /// What all records take that are in memory whole, by the volumes' last checkpoints.
    bytes: usize,
    is_timer_set: bool,
}

#[derive(Default)]
struct VolumeNames {
    bytes: usize,
    /// Where names may be swapped that are not.
    next_leaf: Option<u64>,
    /// Kept until then.
    wanted_until: Instant,
    is_being_read: bool,
    /// Once a checkpoint or snapshot that is under way is stored.
    is_to_be_read_again: bool,
}

/// Names of own groups that a volume's checkpoint holds.
#[derive(Clone, Debug)]
pub(super) struct Names {
    names: Vec<Vec<u8>>,
    /// Where the rest begins.
    next: Option<Vec<u8>>,
}

pub(super) fn read_names(store: &impl Store, volume: GroupId, from: Vec<u8>) -> Result<Names, StoreError> {
    let mut page = Names { names: Vec::new(), next: None };
    let mut bytes = 0;
    store.objects_from(volume.0, &from, &mut |stored, object| {
        if page.names.len() == PAGE_NAMES_MAX || bytes >= PAGE_BYTES_MAX {
            page.next = Some(stored.to_vec());
            return false;
        }
        bytes += stored.len() + object.len();
        if let Ok(Name::Object(name)) = take_name(stored)
            && quorate_object::is_away(object)
        {
            page.names.push(name.to_vec());
        }
        true
    })?;
    Ok(page)
}

/// Nothing but the group's number is to be known of most own groups.
fn is_plain(note: &[u8]) -> bool {
    Record::decode(note).is_ok_and(|record| match record.place {
        OwnRecord::Paxos { members } => members.is_empty() && !record.stopping,
        OwnRecord::Led { .. } => false,
    })
}

impl Swapping {
    /// The volume's replica here is gone, or says nothing any more.
    pub(super) fn forget(&mut self, volume: GroupId) {
        if let Some(names) = self.volumes.remove(&volume) {
            self.bytes -= names.bytes;
        }
    }

    fn note_bytes(&mut self, volume: GroupId, bytes: usize) {
        let names = self.volumes.entry(volume).or_default();
        self.bytes = self.bytes + bytes - names.bytes;
        names.bytes = bytes;
    }
}

impl Host {
    /// A volume's checkpoint is stored: what did not change since it was made may be swapped.
    pub(super) fn note_names_stored(&mut self, volume: u32) {
        let group = &self.groups[volume as usize];
        let id = group.id();
        if group.own.is_some() || group.machine.children().is_none() {
            return;
        }
        let Some(objects) = group.machine.objects() else { return };
        self.swapping.note_bytes(id, objects.away_bytes());
        let names = self.swapping.volumes.entry(id).or_default();
        names.next_leaf = Some(0);
        if std::mem::take(&mut names.is_to_be_read_again) {
            self.want_names(volume);
        }
    }

    /// Some records are swapped, if they take too much.
    pub(super) fn swap_some(&mut self) {
        if self.swapping.bytes <= self.settings.records_bytes_max {
            return;
        }
        let now = self.clock.now();
        for _ in 0..LEAVES_PER_TURN {
            let may =
                |names: &VolumeNames| names.next_leaf.is_some() && !names.is_being_read && names.wanted_until <= now;
            let Some(volume) = self.swapping.volumes.iter().find(|(_, names)| may(names)).map(|(id, _)| *id) else {
                return;
            };
            self.swap_leaf(volume);
        }
        if !std::mem::replace(&mut self.swapping.is_timer_set, true) {
            self.timers.set(now.after_us(PAUSE_US), Timer::Swap);
        }
    }

    pub(super) fn swap_timer_fired(&mut self) {
        self.swapping.is_timer_set = false;
    }

    fn swap_leaf(&mut self, volume: GroupId) {
        let Some(index) = self.find(volume) else { return self.swapping.forget(volume) };
        let Some(names) = self.swapping.volumes.get_mut(&volume) else { return };
        let group = &mut self.groups[index as usize];
        if group.checkpoint.under_way || group.checkpoint.whole {
            // Once that is stored.
            names.next_leaf = None;
            return;
        }
        let (Some(objects), Some(leaf)) = (group.machine.objects_mut(), names.next_leaf) else { return };
        if planted::is(Planted::SwapsBeforeItIsStored) {
            objects.forget_changes();
        }
        let before = objects.swapped_count();
        names.next_leaf = objects.swap_out(leaf, is_plain);
        self.counters.records_swapped += (objects.swapped_count() - before) as u64;
        let bytes = objects.away_bytes();
        self.swapping.note_bytes(volume, bytes);
    }

    /// Whether all names of a volume's own groups are in memory. If not they will be, for a while.
    pub(super) fn want_names(&mut self, volume: u32) -> bool {
        let group = &self.groups[volume as usize];
        let (id, are_here) = (group.id(), !group.machine.has_swapped());
        if let Some(names) = self.swapping.volumes.get_mut(&id) {
            names.wanted_until = self.clock.now().after_us(WANTED_FOR_US);
            if !are_here && !std::mem::replace(&mut names.is_being_read, true) {
                self.lookups.push(Lookup::Names { volume: id, from: Vec::new() });
            }
        }
        are_here
    }

    /// All names come back into memory, and stay: for a simulator that compares replicas.
    pub(super) fn want_all_names(&mut self) {
        self.settings.records_bytes_max = usize::MAX;
        let volumes: Vec<u32> = self.swapping.volumes.keys().filter_map(|volume| self.find(*volume)).collect();
        for volume in volumes {
            self.want_names(volume);
        }
    }

    /// How many records are swapped.
    pub(super) fn records_swapped(&self) -> usize {
        let of = |volume: &GroupId| Some(self.groups[self.find(*volume)? as usize].machine.objects()?.swapped_count());
        self.swapping.volumes.keys().filter_map(of).sum()
    }

    pub(super) fn found_names(&mut self, volume: GroupId, found: Result<Names, String>) {
        let Some(index) = self.find(volume) else { return self.swapping.forget(volume) };
        let Some(names) = self.swapping.volumes.get_mut(&volume) else { return };
        names.is_being_read = false;
        names.next_leaf = Some(0);
        let group = &mut self.groups[index as usize];
        let Some(objects) = group.machine.objects_mut() else { return };
        let found = match found {
            Ok(found) => found,
            Err(words) => return self.quarantine(index, "reading the names of its own groups", words),
        };
        let before = objects.swapped_count();
        found.names.iter().for_each(|name| objects.swap_in(name));
        let (missing, bytes) = (objects.swapped_count(), objects.away_bytes());
        self.counters.records_swapped_in += (before - missing) as u64;
        match found.next {
            _ if missing == 0 => {}
            Some(from) => {
                names.is_being_read = true;
                self.lookups.push(Lookup::Names { volume, from });
            }
            // The store may hold a snapshot that the replica is about to stand on.
            None if group.checkpoint.under_way => names.is_to_be_read_again = true,
            None => {
                let words = format!("{missing} are not in its checkpoint");
                return self.quarantine(index, "reading the names of its own groups", words);
            }
        }
        self.swapping.note_bytes(volume, bytes);
    }
}

#[cfg(test)]
mod tests {
    use quorate_checkpoint::{Batch, MemoryStore};
    use quorate_object::{Command, Condition, Expiry, Objects, SetAnswer};

    use super::super::checkpoints::name_of;
    use super::*;
    use crate::volume::Plan;

    const VOLUME: GroupId = GroupId(66);

    #[test]
    fn names_of_own_groups_are_read_page_by_page() {
        let mut objects = Objects::new([7; 16]);
        let mut batch = Batch::new();
        batch.put_object(VOLUME.0 + 1, &name_of(b"another's"), Vec::new());
        for number in 0..PAGE_NAMES_MAX + 100 {
            let name = format!("name {number:05}").into_bytes();
            let set = Command::Set {
                key: &name,
                value: b"v",
                condition: Condition::Always,
                expiry: Expiry::Unset,
                answer: SetAnswer::Ok,
            };
            objects.run(&set, 1, 0);
            if number % 50 != 0 {
                objects.send_away(&name, b"note");
            }
        }
        objects.for_each(|name, object| batch.put_object(VOLUME.0, &name_of(name), object.to_vec()));
        let mut store = MemoryStore::default();
        store.apply(batch).unwrap();
        let (mut names, mut pages, mut from) = (Vec::new(), 0, Some(Vec::new()));
        while let Some(first) = from {
            let page = read_names(&store, VOLUME, first).unwrap();
            names.extend(page.names);
            from = page.next;
            pages += 1;
        }
        let mut away = Vec::new();
        objects.for_each_away(|name, _| away.push(name.to_vec()));
        away.sort();
        assert_eq!((names, pages), (away, 2));
    }

    #[test]
    fn only_records_that_say_nothing_but_a_number_are_swapped() {
        let record = |plan: &Plan, stopping| Record { stopping, ..Record::new(7, plan.record(7)) }.encode();
        let plain = Plan::plain();
        assert!(is_plain(&record(&plain, false)));
        assert!(!is_plain(&record(&plain, true)));
        assert!(!is_plain(&record(&Plan { members: vec![1, 2, 3], ..plain }, false)));
        assert!(!is_plain(b"\xff"));
    }
}
