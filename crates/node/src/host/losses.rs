//! What stops of this node may have lost, for groups that are looked at only later.
//!
//! A group that is paused is not read when its node starts. When it is woken, any time after, it must still be known
//! whether a stop since it was stored has taken from it what it had said: the node keeps a record of such stops.

use std::collections::BTreeSet;

use quorate_checkpoint::Batch;
use quorate_protocol::GroupId;
use quorate_wal::Lsn;

use super::group::{Group, Own};
use super::own::configuration_of;
use super::transfer::empty_content;
use super::{Forgotten, Host, HostSettings};
use crate::group_state::GroupState;
use crate::machine::Machine;
use crate::root::Durability;
use crate::volume::{Record, own_group};

/// The name of the node's record.
pub(super) const RECORD: &str = "losses";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// The latest start before which the process had died.
    memory: u32,
    /// The latest start before which the machine had died.
    unsynced: u32,
    /// The latest start that has found the log damaged, and the first block behind all damage.
    damaged: u32,
    damage_end: Lsn,
    /// Volumes of lower numbers, and their own groups, this node may have had in a directory that was lost; 0 if none was.
    had_below: u64,
}

/// Records without `had_below` are of releases that knew no lost directories.
const RECORD_BYTES_1: usize = 20;

impl Losses {
    pub(super) fn decode(record: &[u8]) -> Option<Losses> {
        let (fields, rest) = record.split_first_chunk::<RECORD_BYTES_1>()?;
        let field = |at: usize| u32::from_le_bytes(*fields[at..].first_chunk().expect("every field lies inside"));
        let damage_end = Lsn(u64::from_le_bytes(*fields[12..].first_chunk()?));
        let had_below = match rest {
            [] => 0,
            rest => u64::from_le_bytes(rest.try_into().ok()?),
        };
        Some(Losses { memory: field(0), unsynced: field(4), damaged: field(8), damage_end, had_below })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(RECORD_BYTES_1 + 8);
        for start in [self.memory, self.unsynced, self.damaged] {
            record.extend_from_slice(&start.to_le_bytes());
        }
        record.extend_from_slice(&self.damage_end.0.to_le_bytes());
        record.extend_from_slice(&self.had_below.to_le_bytes());
        record
    }

    /// Nobody can read what earlier stops have lost: whatever was stored before this start may have lost all that it could.
    pub(super) fn unknown(start: u32, durable: Lsn) -> Losses {
        Losses { memory: start, unsynced: start, damaged: start, damage_end: durable, had_below: u64::MAX }
    }

    /// With what this start has found.
    pub(super) fn after_start(self, settings: &HostSettings, damage_end: Lsn) -> Losses {
        let (start, forgotten) = (settings.start, settings.forgotten);
        let mut losses = self;
        if forgotten != Forgotten::Nothing {
            losses.memory = start;
        }
        if matches!(forgotten, Forgotten::Unsynced | Forgotten::Everything) {
            losses.unsynced = start;
        }
        if forgotten == Forgotten::Everything {
            losses.had_below = u64::MAX;
        }
        if damage_end > self.damage_end {
            (losses.damaged, losses.damage_end) = (start, damage_end);
        }
        losses
    }

    /// Whether own groups of this volume may have been born here of which nobody here knows: in a part of the log, or in a directory
    /// that was lost.
    pub(super) fn may_hide_births_of(&self, volume: GroupId) -> bool {
        self.damaged != 0 || self.may_have_had(volume)
    }

    /// Whether this node may have had a replica of this volume in a directory that was lost.
    pub(super) fn may_have_had(&self, volume: GroupId) -> bool {
        volume.0 < self.had_below
    }

    /// Volumes from this number on are newer than any directory that was lost.
    pub(super) fn know_what_was_had(&mut self, volumes_below: u64) {
        self.had_below = volumes_below;
    }

    pub(super) fn put(&self, batch: &mut Batch) {
        batch.put_node_record(RECORD, self.encode());
    }

    /// What has become of a group that was stored in that start of the node, by now.
    pub(super) fn judge(&self, group: &mut Group, stored_in: u32) {
        if group.state != GroupState::Alive {
            return;
        }
        let forgetful = match group.durability {
            Durability::Sync => false,
            Durability::Interval => stored_in < self.unsynced,
            Durability::Memory => stored_in < self.memory,
        };
        let is_damaged = group.durability != Durability::Memory
            && stored_in < self.damaged
            && group.checkpoint.covered_below < self.damage_end;
        group.state = match (forgetful, is_damaged) {
            (true, _) => GroupState::Forgetful,
            (_, true) => GroupState::Damaged,
            _ => GroupState::Alive,
        };
    }
}

impl Host {
    /// The log is damaged, and may have held births of own groups that no checkpoint holds. A volume whose checkpoint makes up for
    /// what was lost of itself tells of them: they may have spoken, and are not to be born anew. How many there are.
    pub(super) fn give_up_lost_births(&mut self) -> usize {
        let mut lost = Vec::new();
        for volume in self.groups().filter(|group| group.is_alive() && group.durability != Durability::Memory) {
            let (Some(objects), Some(children)) = (volume.machine.objects(), volume.machine.children()) else {
                continue;
            };
            let starting: BTreeSet<u64> = children.starting_by_number().map(|(number, _)| number).collect();
            objects.for_each_away(|name, bytes| {
                if let Ok(record) = Record::decode(bytes) {
                    // A chain leaves out who has nothing to begin with, and takes it in again with a copy.
                    let is_born_with_nothing = !record.protocol().is_chain() || starting.contains(&record.number);
                    lost.extend(self.lost_birth(volume, name, &record).filter(|_| is_born_with_nothing));
                }
            });
        }
        let count = lost.len();
        lost.into_iter().for_each(|group| self.adopt(group));
        count
    }

    /// What stands here for an own group of this volume, if this node is a member and has nothing of it.
    fn lost_birth(&self, volume: &Group, name: &[u8], record: &Record) -> Option<Group> {
        let (me, id) = (self.settings.node, own_group(volume.id(), record.number));
        let configuration = configuration_of(id, record, &volume.configuration.members);
        if self.here.all.contains(id.0) || self.own.lost.contains(&id) || !configuration.contains(me) {
            return None;
        }
        let machine = Machine::new(empty_content(id, volume.hash_key));
        let (namespace, durability, hash_key) = (volume.namespace, volume.durability, volume.hash_key);
        let mut group = Group::new(record.protocol(), configuration, namespace, durability, hash_key, machine, me);
        group.own = Own::of(id, name);
        group.state = GroupState::Damaged;
        group.replica.restored();
        Some(group)
    }
}

#[cfg(test)]
mod tests {
    use quorate_wal::PAGE_BYTES;

    use super::*;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, arrives};
    use crate::replica::Protocol;

    #[test]
    fn a_group_whose_birth_the_log_has_lost_is_not_born_anew_though_its_volume_has_all_of_its_own() {
        let mut cluster = Cluster::new(|_| {});
        let before = cluster.node(3).host.wal.durable();
        let number = cluster.next_number();
        let mut request = GroupRequest::of(GroupAction::Create { value: b"v".to_vec() });
        (request.names, request.protocol) = (vec![b"own".to_vec()], Protocol::Register);
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(1_000, arrives);
        let after = cluster.node(3).host.wal.durable();
        cluster.write(1, b"value");
        // The volume is stored, since nobody uses it any more.
        cluster.pass(10_000, arrives);
        let state = |cluster: &mut Cluster| {
            let own = cluster.node(3).host.groups().find(|group| group.own.is_some());
            own.map(|group| group.state)
        };
        assert_eq!(state(&mut cluster), Some(GroupState::Alive));
        let lost = (before.offset() as usize..=after.offset() as usize).step_by(PAGE_BYTES).skip(1);
        lost.for_each(|offset| cluster.node(3).storage.flip(before.segment(), offset, 1));
        assert!(!cluster.restart_after(3, Forgotten::Memory).damage.is_empty());
        assert_eq!(state(&mut cluster), Some(GroupState::Damaged));
        let volume = cluster.volume();
        assert!(cluster.node(3).host.groups().any(|group| group.id() == volume && group.is_alive()));
        cluster.pass(1_000, arrives);
        cluster.restart_after(3, Forgotten::Memory);
        assert_eq!(state(&mut cluster), Some(GroupState::Damaged), "it stays so");
    }

    #[test]
    fn a_record_that_cannot_be_read_is_taken_for_the_worst() {
        let known = Losses { memory: 3, unsynced: 2, damaged: 1, damage_end: Lsn(4096), had_below: 4 };
        assert_eq!(Losses::decode(&known.encode()), Some(known));
        assert_eq!(Losses::decode(&known.encode()[1..]), None);
        let unknown = Losses::unknown(9, Lsn(8192));
        assert!(unknown.memory > known.memory && unknown.unsynced > known.unsynced);
        assert!(unknown.damage_end > known.damage_end);
    }
}
