//! What a volume holds besides objects: for each name whose object has a group of its own, the record of that group.
//!
//! The record stands in the object's place, as a note beside the name. Replicas of an own group come to life and go when
//! a replica of the volume on the same node executes the command that says so: see docs/decisions/0018.

use std::collections::BTreeMap;

use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{GroupId, NodeId, Slot, Stamp};
use serde::{Deserialize, Serialize};

use crate::number::{put_number, take_number, take_u32};

/// Commands on a volume that are not commands on its objects begin with this byte, which is no object command's.
const VOLUME_COMMAND: u8 = 0x80;

/// Names in one command.
pub const NAMES_MAX: usize = 1_000;

/// Own groups are numbered within their volume: the volume's number is in the high bits of theirs.
const NUMBER_BITS: u32 = 40;

/// The id of a volume's own group.
pub fn own_group(volume: GroupId, number: u64) -> GroupId {
    debug_assert!(number >> NUMBER_BITS == 0 && volume.0 >> (64 - NUMBER_BITS) == 0);
    GroupId(volume.0 << NUMBER_BITS | number)
}

/// The volume whose state has the record of this group, and the group's number in it; `None` if it is no own group.
pub fn volume_of(group: GroupId) -> Option<(GroupId, u64)> {
    let volume = group.0 >> NUMBER_BITS;
    (volume != 0).then_some((GroupId(volume), group.0 & ((1 << NUMBER_BITS) - 1)))
}

/// The record of an own group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub number: u64,
    pub epoch: u32,
    /// Its last command has been asked for: the object comes back, or is gone.
    pub stopping: bool,
    /// Empty: the volume's own, beginning with another one for each group.
    pub members: Vec<u32>,
}

mod flag {
    pub(super) const STOPPING: u8 = 1;
    pub(super) const MEMBERS: u8 = 2;
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8);
        let named = if self.members.is_empty() { 0 } else { flag::MEMBERS };
        out.push(named | if self.stopping { flag::STOPPING } else { 0 });
        put_number(self.number, &mut out);
        put_number(u64::from(self.epoch), &mut out);
        if named != 0 {
            out.push(self.members.len() as u8);
            self.members.iter().for_each(|&member| put_number(u64::from(member), &mut out));
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
        let mut reader = Reader::new(bytes);
        let flags = reader.u8()?;
        if flags & !(flag::STOPPING | flag::MEMBERS) != 0 {
            return Err(Malformed::UnknownTag { of: "record of an own group", tag: flags });
        }
        let number = take_number(&mut reader)?;
        let epoch = take_u32(&mut reader)?;
        let count = if flags & flag::MEMBERS == 0 { 0 } else { reader.u8()? };
        let members = (0..count).map(|_| take_u32(&mut reader)).collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Record { number, epoch, stopping: flags & flag::STOPPING != 0, members })
    }

    /// Its members, in order, given the volume's.
    pub fn member_ids(&self, volume: &[NodeId]) -> Vec<NodeId> {
        if !self.members.is_empty() {
            return self.members.iter().copied().map(NodeId).collect();
        }
        let first = (self.number % volume.len() as u64) as usize;
        volume[first..].iter().chain(&volume[..first]).copied().collect()
    }
}

/// A command on a volume that concerns own groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeCommand {
    /// Gives names that have no object one, with this value, in groups of their own. Answers with a line for each.
    Create { names: Vec<Vec<u8>>, members: Vec<u32>, value: Vec<u8> },
    /// Gives the objects of these names groups of their own. Answers with a line for each.
    Promote { names: Vec<Vec<u8>>, members: Vec<u32> },
    /// Begins to bring the objects of these names back. Answers with a line for each.
    Demote { names: Vec<Vec<u8>> },
    /// The object of this own group was deleted: begins to bring back what is left.
    Retire { number: u64, name: Vec<u8> },
    /// The births of these slots are on the disks of enough members: no copy is needed here any more.
    Complete { slots: Vec<u64> },
    /// What an own group had come to when it stopped.
    Return { number: u64, state: Frozen },
    /// The records of these names: for each its bytes, or a line of text.
    Show { names: Vec<Vec<u8>> },
}

impl VolumeCommand {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VOLUME_COMMAND);
        let bytes = postcard::to_stdvec(self).expect("plain data has an encoding");
        out.extend_from_slice(&bytes);
    }

    /// `None` if it is a command on objects, or none at all.
    pub fn decode(bytes: &[u8]) -> Option<VolumeCommand> {
        match bytes.split_first() {
            Some((&VOLUME_COMMAND, rest)) => postcard::from_bytes(rest).ok(),
            _ => None,
        }
    }

    pub fn is_read(&self) -> bool {
        matches!(self, VolumeCommand::Show { .. })
    }
}

/// Whether a command is one on a volume.
pub fn is_volume_command(bytes: &[u8]) -> bool {
    bytes.first() == Some(&VOLUME_COMMAND)
}

/// All that an own group begins with, or has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// Group time.
    pub time_ms: u64,
    /// The encoded object; none if it is deleted.
    pub object: Option<Vec<u8>>,
    /// The encoded results of the commands on it.
    pub results: Vec<u8>,
}

impl Frozen {
    pub fn time(&self) -> Stamp {
        Stamp(self.time_ms)
    }
}

/// An own group that begins with the slot that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    pub name: Vec<u8>,
    pub record: Record,
    pub state: Frozen,
}

/// What executing a slot means for own groups: the host sees to it on nodes that are members.
#[derive(Debug, Default)]
pub struct Changes {
    pub births: Vec<Birth>,
    pub deaths: Vec<u64>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.births.is_empty() && self.deaths.is_empty()
    }
}

/// Replicated: what a volume keeps of its own groups besides their records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Children {
    /// Of the last one. Never used again.
    pub last_number: u64,
    /// Births by slot that are not known to be on the disks of enough members: until then what they begin with is kept.
    pub starting: BTreeMap<u64, Vec<Starting>>,
    /// Own groups whose last command has been asked for, with their names.
    pub stopping: BTreeMap<u64, Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Starting {
    pub name: Vec<u8>,
    pub number: u64,
    pub members: Vec<u32>,
    pub time_ms: u64,
    pub object: Option<Vec<u8>>,
    pub results: Vec<u8>,
}

impl Children {
    pub fn is_settled(&self) -> bool {
        self.starting.is_empty() && self.stopping.is_empty()
    }

    /// A number that no own group of the volume has had.
    pub fn take_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub fn begin(&mut self, slot: Slot, birth: &Birth) {
        let Frozen { time_ms, object, results } = birth.state.clone();
        let Record { number, members, .. } = birth.record.clone();
        self.starting.entry(slot.0).or_default().push(Starting {
            name: birth.name.clone(),
            number,
            members,
            time_ms,
            object,
            results,
        });
    }

    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain data has an encoding")
    }

    pub fn decode(bytes: &[u8]) -> Option<Children> {
        postcard::from_bytes(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_few_bytes() {
        let record = Record { number: 1_000_000, epoch: 0, stopping: false, members: Vec::new() };
        assert_eq!(record.encode().len(), 5);
        let named = Record { number: 7, epoch: 300, stopping: true, members: vec![3, 1, 200] };
        for record in [record, named] {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Ok(record));
            for length in 0..bytes.len() {
                assert!(Record::decode(&bytes[..length]).is_err(), "{length}");
            }
        }
        assert!(Record::decode(&[4, 1, 0]).is_err() && Record::decode(&[0xff; 12]).is_err());
    }

    #[test]
    fn coordinators_of_own_groups_are_even() {
        let volume = [NodeId(1), NodeId(2), NodeId(3)];
        let first = |number| {
            let record = Record { number, epoch: 0, stopping: false, members: Vec::new() };
            record.member_ids(&volume)[0].0
        };
        assert_eq!((1..=6).map(first).collect::<Vec<_>>(), [2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn own_groups_are_told_from_others() {
        assert_eq!(volume_of(own_group(GroupId(66), 5)), Some((GroupId(66), 5)));
        assert_eq!(volume_of(GroupId(66)), None);
    }

    #[test]
    fn commands_on_volumes_are_no_commands_on_objects() {
        let command = VolumeCommand::Demote { names: vec![b"a".to_vec()] };
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        assert!(quorate_object::Command::decode(&bytes).is_err());
        assert_eq!(VolumeCommand::decode(&bytes), Some(command));
    }
}
