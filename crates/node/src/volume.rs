//! What a volume holds besides objects: for each name whose object has a group of its own, the record of that group.
//!
//! The record stands in the object's place, as a note beside the name. Replicas of an own group come to life and go when
//! a replica of the volume on the same node executes the command that says so: see docs/decisions/0018.

use std::collections::BTreeMap;

use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{GroupId, NodeId, Slot, Stamp};
use serde::{Deserialize, Serialize};

use crate::number::{put_number, take_number, take_u32};
use crate::office::{Office, decode_with_office};
use crate::quorum::Quorum;
use crate::record::GroupRecord;
use crate::replica::Protocol;
use crate::results::Results;

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

/// As [`own_group`], of numbers that somebody else has said; `None` if there can be no such group.
pub fn own_group_said(volume: GroupId, number: u64) -> Option<GroupId> {
    let is_sound = number >> NUMBER_BITS == 0 && volume.0 >> (64 - NUMBER_BITS) == 0 && volume.0 != 0;
    is_sound.then(|| own_group(volume, number))
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
    /// Its last command has been asked for: the object comes back, or is gone.
    pub stopping: bool,
    /// Once it has come back it goes into another group, which is like this.
    pub becomes: Option<Box<Plan>>,
    pub place: OwnRecord,
}

/// How an own group's members agree, and who they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OwnRecord {
    /// Empty: the volume's members, beginning with another one for each group.
    Paxos { members: Vec<u32> },
    /// Whose members, or quorums, the volume changes.
    Led { protocol: Protocol, record: Box<GroupRecord> },
}

mod flag {
    pub(super) const STOPPING: u8 = 1;
    pub(super) const MEMBERS: u8 = 2;
    pub(super) const LED: u8 = 4;
    pub(super) const BECOMES: u8 = 8;
}

impl Record {
    /// Of a group that begins.
    pub fn new(number: u64, place: OwnRecord) -> Record {
        Record { number, stopping: false, becomes: None, place }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![if self.stopping { flag::STOPPING } else { 0 }];
        put_number(self.number, &mut out);
        if let Some(plan) = &self.becomes {
            out[0] |= flag::BECOMES;
            let bytes = postcard::to_stdvec(plan).expect("plain data has an encoding");
            put_number(bytes.len() as u64, &mut out);
            out.extend(bytes);
        }
        match &self.place {
            OwnRecord::Paxos { members } if members.is_empty() => {}
            OwnRecord::Paxos { members } => {
                out[0] |= flag::MEMBERS;
                out.push(members.len() as u8);
                members.iter().for_each(|&member| put_number(u64::from(member), &mut out));
            }
            led @ OwnRecord::Led { .. } => {
                out[0] |= flag::LED;
                out.extend(postcard::to_stdvec(led).expect("plain data has an encoding"));
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
        let mut reader = Reader::new(bytes);
        let flags = reader.u8()?;
        let unknown = Malformed::UnknownTag { of: "record of an own group", tag: flags };
        if flags & !(flag::STOPPING | flag::MEMBERS | flag::LED | flag::BECOMES) != 0 {
            return Err(unknown);
        }
        let number = take_number(&mut reader)?;
        let becomes = if flags & flag::BECOMES != 0 {
            let length = take_u32(&mut reader)? as usize;
            Some(postcard::from_bytes(reader.bytes(length)?).map_err(|_| unknown)?)
        } else {
            None
        };
        let place = if flags & flag::LED != 0 {
            let rest = reader.bytes(reader.remaining())?;
            postcard::from_bytes(rest).map_err(|_| unknown)?
        } else {
            let count = if flags & flag::MEMBERS == 0 { 0 } else { reader.u8()? };
            let members = (0..count).map(|_| take_u32(&mut reader)).collect::<Result<_, _>>()?;
            OwnRecord::Paxos { members }
        };
        reader.finish()?;
        Ok(Record { number, stopping: flags & flag::STOPPING != 0, becomes, place })
    }

    /// Its members, in order, given the volume's.
    pub fn member_ids(&self, volume: &[NodeId]) -> Vec<NodeId> {
        self.place.member_ids(self.number, volume)
    }

    pub fn protocol(&self) -> Protocol {
        match &self.place {
            OwnRecord::Paxos { .. } => Protocol::Paxos,
            OwnRecord::Led { protocol, .. } => *protocol,
        }
    }

    /// Of a group whose members or quorums the volume changes.
    pub fn led(&self) -> Option<&GroupRecord> {
        match &self.place {
            OwnRecord::Paxos { .. } => None,
            OwnRecord::Led { record, .. } => Some(record),
        }
    }
}

impl OwnRecord {
    /// The members of the group of this number, in order, given the volume's.
    pub fn member_ids(&self, number: u64, volume: &[NodeId]) -> Vec<NodeId> {
        match self {
            OwnRecord::Led { record, .. } => record.member_ids().collect(),
            OwnRecord::Paxos { members } if members.is_empty() => rotated(volume, number),
            OwnRecord::Paxos { members } => members.iter().copied().map(NodeId).collect(),
        }
    }
}

/// Begins with another member for each number.
pub(crate) fn rotated<T: Copy>(members: &[T], number: u64) -> Vec<T> {
    if members.is_empty() {
        return Vec::new();
    }
    let first = (number % members.len() as u64) as usize;
    members[first..].iter().chain(&members[..first]).copied().collect()
}

/// What groups of their own are to be like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub protocol: Protocol,
    /// Empty: the volume's.
    pub members: Vec<u32>,
    /// Of registers.
    pub quorum: Quorum,
    /// The volume itself, and its members, as far as whoever asks knows.
    pub volume: u64,
    pub of_volume: Vec<u32>,
}

impl Plan {
    /// Paxos groups of the volume's members.
    pub fn plain() -> Plan {
        let (protocol, quorum) = (Protocol::Paxos, Quorum::Majority);
        Plan { protocol, members: Vec::new(), quorum, volume: 0, of_volume: Vec::new() }
    }

    /// Of a group that its volume leads.
    pub(crate) fn led_members(&self) -> &[u32] {
        if self.members.is_empty() { &self.of_volume } else { &self.members }
    }

    pub fn record(&self, number: u64) -> OwnRecord {
        if self.protocol == Protocol::Paxos || self.of_volume.is_empty() {
            return OwnRecord::Paxos { members: self.members.clone() };
        }
        let members = if self.members.is_empty() { rotated(&self.of_volume, number) } else { self.members.clone() };
        let group = own_group(GroupId(self.volume), number);
        let record = GroupRecord::new(self.protocol, group, members, self.quorum);
        OwnRecord::Led { protocol: self.protocol, record: Box::new(record) }
    }
}

/// A command on a volume that concerns own groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeCommand {
    /// Gives names that have no object one, with this value, in groups of their own. Answers with a line for each.
    Create { names: Vec<Vec<u8>>, plan: Plan, value: Vec<u8> },
    /// Gives the objects of these names groups of their own, however large all of them are: as nodes asked in earlier logs. Answers
    /// with a line for each.
    Promote { names: Vec<Vec<u8>>, plan: Plan },
    /// Begins to bring the objects of these names back. Answers with a line for each.
    Demote { names: Vec<Vec<u8>> },
    /// The object of this own group was deleted: begins to bring back what is left.
    Retire { number: u64, name: Vec<u8> },
    /// The births of these slots are on the disks of enough members: no copy is needed here any more.
    Complete { slots: Vec<u64> },
    /// What an own group had come to when it stopped; `last` is the tag of the version that a register ended with.
    Return { number: u64, state: Frozen, last: Vec<u8> },
    /// The records of these names: for each its bytes, or a line of text.
    Show { names: Vec<Vec<u8>> },
    /// Another configuration of an own group that is a chain: as [`crate::root::RootCommand::Reconfigure`].
    Reconfigure { number: u64, epoch: u32, members: Vec<u32>, joining: Option<u32>, office: Office },
    /// Other quorums for the registers of these names, and perhaps other members: as nodes asked in earlier logs. Answers with a
    /// line for each.
    Move { names: Vec<Vec<u8>>, members: Option<Vec<u32>>, quorum: Option<Quorum> },
    /// A member has made an own group that is a register ready to go on in this epoch's configuration alone.
    RetireBefore { number: u64, epoch: u32 },
    /// What there is of the own groups of these numbers: asked by nodes that have no replica of the volume. Answers with
    /// [`Word`]s.
    Tell { numbers: Vec<u64> },
    /// The names of all own groups.
    ListOwn,
    /// Some of them, from this hash of a name on, and from which others follow.
    ListOwnFrom { hash: u64 },
    /// As [`VolumeCommand::Promote`], but for those that find too much of what is starting already: they are to be asked for again.
    PromoteSome { names: Vec<Vec<u8>>, plan: Plan },
    /// Whoever coordinates the volume is about to give terms.
    TakeOffice { office: Office },
    /// Other members, quorums or protocols for the own groups of these names. Answers with a line for each.
    Change { names: Vec<Vec<u8>>, change: Change },
    /// Own groups that are to begin anew, as they are. Answers with a line for each.
    Renew(Renewed),
    /// A member of the volume is about to be replaced, or is not any more, and these are its members; void behind a later order.
    Hold { order: u64, members: Vec<u32>, held: Option<Held> },
    /// Own groups that are to have other nodes in the place of some of their members. Answers with a line for each.
    MoveOff(MovedOff),
    /// A node is about to be removed: unless own groups name it, none that begins or changes from now on does. Answers with how many do.
    Shun { node: u32 },
    /// It was not removed, by what was said of it in this slot.
    Unshun { node: u32, slot: u64 },
}

/// Own groups that leave nodes which are to be emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedOff {
    pub groups: Vec<MoveOff>,
    /// As in [`Plan`].
    pub volume: u64,
    pub of_volume: Vec<u32>,
}

/// An own group, which keeps the order of its members: of a name that has another group by now nothing is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveOff {
    pub number: u64,
    pub name: Vec<u8>,
    /// Who leaves, and who comes in its place.
    pub places: Vec<(u32, u32)>,
}

/// Own groups of which a member cannot speak: it may have forgotten what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Their numbers and names: of a name that has another group by now nothing is meant.
    pub groups: Vec<(u64, Vec<u8>)>,
    /// As in [`Plan`].
    pub volume: u64,
    pub of_volume: Vec<u32>,
}

/// What a volume holds itself to while another node comes in the place of one of its members: no own group goes by whoever are the
/// volume's members, and none that it leads has the one that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Held {
    /// The root's number of this change.
    pub change: u64,
    pub leaving: u32,
    pub joining: u32,
    /// The volume's, after that.
    pub members: Vec<u32>,
    /// All that began earlier and was not so has begun anew.
    pub is_clear: bool,
}

impl Held {
    /// As [`Plan::record`].
    pub(crate) fn place(&self, plan: &Plan, number: u64) -> OwnRecord {
        if plan.protocol == Protocol::Paxos && plan.members.is_empty() {
            return OwnRecord::Paxos { members: rotated(&self.members, number) };
        }
        if plan.protocol == Protocol::Paxos {
            return plan.record(number);
        }
        let members = match &plan.members[..] {
            [] => rotated(&plan.of_volume, number),
            named => named.to_vec(),
        };
        if !members.contains(&self.leaving) {
            return plan.record(number);
        }
        // One of those that stay, rather than the one that comes: it may not come.
        let in_its_place = self.staying().find(|member| !members.contains(member));
        let seat = |member: u32| if member == self.leaving { in_its_place } else { Some(member) };
        let quorum = if in_its_place.is_some() { plan.quorum } else { Quorum::Majority };
        let members = members.into_iter().filter_map(seat).collect();
        Plan { members, quorum, ..plan.clone() }.record(number)
    }

    /// The members of the volume that stay.
    fn staying(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().copied().filter(|&member| member != self.joining)
    }

    /// Whether an own group is not as it is to be, or will not be.
    pub(crate) fn concerns(&self, record: &Record) -> bool {
        let is_led_there = |plan: &Plan| plan.protocol != Protocol::Paxos && plan.led_members().contains(&self.leaving);
        if record.becomes.as_deref().is_some_and(is_led_there) {
            return true;
        }
        match &record.place {
            OwnRecord::Paxos { members } => members.is_empty(),
            OwnRecord::Led { record, .. } => {
                record.home.contains(&self.leaving) || record.member_ids().any(|member| member.0 == self.leaving)
            }
        }
    }

    /// Whether it is about the same change.
    pub(crate) fn is_of(&self, other: &Held) -> bool {
        *self == Held { is_clear: self.is_clear, ..other.clone() }
    }
}

/// What is to be different about own groups that there are, as far as it is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub protocol: Option<Protocol>,
    pub members: Option<Vec<u32>>,
    pub quorum: Option<Quorum>,
    /// As in [`Plan`].
    pub volume: u64,
    pub of_volume: Vec<u32>,
}

/// What a volume says of one of its own groups to a node that has no replica of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// No group has had this number yet.
    Unborn,
    /// Its group is over, or was never one of other members than the volume's.
    Gone,
    /// It has these members. `state` is what it begins with, as long as the volume keeps that.
    Lives { name: Vec<u8>, members: Vec<u32>, state: Option<Frozen> },
}

/// The answer to [`VolumeCommand::Tell`] names more numbers while it is shorter than this, and in any case one.
const TELL_BYTES: usize = 1 << 20;

impl Word {
    /// Some of these words with their numbers, in order: as many as make an answer.
    pub fn encode_some(words: impl Iterator<Item = (u64, Word)>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in words {
            bytes.extend(postcard::to_stdvec(&word).expect("plain data has an encoding"));
            if bytes.len() >= TELL_BYTES {
                break;
            }
        }
        bytes
    }

    pub fn decode_all(mut bytes: &[u8]) -> Option<Vec<(u64, Word)>> {
        let mut words = Vec::new();
        while !bytes.is_empty() {
            let (word, rest) = postcard::take_from_bytes(bytes).ok()?;
            words.push(word);
            bytes = rest;
        }
        Some(words)
    }
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
            Some((&VOLUME_COMMAND, rest)) => decode_with_office(rest),
            _ => None,
        }
    }

    pub fn is_read(&self) -> bool {
        matches!(self, VolumeCommand::Show { .. } | VolumeCommand::Tell { .. }) || self.lists_names()
    }

    pub fn lists_names(&self) -> bool {
        matches!(self, VolumeCommand::ListOwn | VolumeCommand::ListOwnFrom { .. })
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

/// Bytes of what one own group begins with, or has come to, about: it goes into one record, and into one command.
const FROZEN_BYTES_MAX: usize = 19 << 20;

impl Frozen {
    pub fn new(time: Stamp, object: Option<Vec<u8>>, results: &Results) -> Frozen {
        let object_length = object.as_ref().map_or(0, Vec::len);
        let results = results.encode_within(FROZEN_BYTES_MAX.saturating_sub(object_length));
        Frozen { time_ms: time.0, object, results }
    }

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
    /// Own groups whose record is another one.
    pub changed: Vec<(Vec<u8>, Record)>,
    /// Own groups whose last command is asked for from now on.
    pub stopping: Vec<u64>,
    pub deaths: Vec<Death>,
}

/// An own group that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    pub number: u64,
    /// Of a register, the encoded tag of the version that it ended with: of a write that was under way it says whether it
    /// happened.
    pub last: Vec<u8>,
    /// Another one goes on with what it came to.
    pub becomes_another: bool,
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
    /// Own groups whose members or quorums the volume changes, with their names.
    pub led: BTreeMap<u64, Vec<u8>>,
    /// The latest that was taken.
    pub(crate) office: Office,
    /// Of the latest [`VolumeCommand::Hold`].
    pub(crate) hold_order: u64,
    /// The volume's, if any was ever to be replaced: groups that it leads have no others.
    pub(crate) members: Vec<u32>,
    pub held: Option<Held>,
    /// Nodes that no own group may name, since they are about to be removed or were, and the slots that said so.
    pub(crate) shunned: BTreeMap<u32, u64>,
    /// The names of the other own groups whose members were named. It follows from the records, and is made where it is
    /// wanted.
    #[serde(skip)]
    pub named: Option<BTreeMap<u64, Vec<u8>>>,
    /// How many own groups name each node, as a member or as one to be. As the names, it follows from the records.
    #[serde(skip)]
    pub(crate) on_nodes: Option<BTreeMap<u32, u64>>,
    /// What those that are starting begin with takes so many bytes. It follows from them.
    #[serde(skip)]
    pub starting_bytes: usize,
    /// Pieces in which the store has it. Not replicated.
    #[serde(skip)]
    pub pieces: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Starting {
    pub name: Vec<u8>,
    pub number: u64,
    pub place: OwnRecord,
    pub time_ms: u64,
    pub object: Option<Vec<u8>>,
    pub results: Vec<u8>,
}

impl Starting {
    fn bytes(&self) -> usize {
        self.name.len() + self.object.as_ref().map_or(0, Vec::len) + self.results.len()
    }

    pub fn state(&self) -> Frozen {
        Frozen { time_ms: self.time_ms, object: self.object.clone(), results: self.results.clone() }
    }
}

impl Children {
    pub fn is_settled(&self) -> bool {
        self.starting.is_empty() && self.stopping.is_empty()
    }

    /// Whether a group like this has no members but those of the volume, if the volume leads it: whoever asks may know others.
    pub(crate) fn fits(&self, plan: &Plan) -> bool {
        // The one that leaves is replaced.
        let is_member = |member: &u32| match &self.held {
            Some(held) => held.leaving == *member || held.staying().any(|staying| staying == *member),
            None => self.members.is_empty() || self.members.contains(member),
        };
        plan.protocol == Protocol::Paxos || plan.led_members().iter().all(is_member)
    }

    /// A number that no own group of the volume has had.
    pub fn take_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub fn begin(&mut self, slot: Slot, birth: &Birth) {
        let Frozen { time_ms, object, results } = birth.state.clone();
        let Record { number, place, .. } = birth.record.clone();
        self.count(&birth.record);
        match &place {
            OwnRecord::Led { .. } => drop(self.led.insert(number, birth.name.clone())),
            OwnRecord::Paxos { members } if members.is_empty() => {}
            OwnRecord::Paxos { .. } => {
                if let Some(named) = &mut self.named {
                    named.insert(number, birth.name.clone());
                }
            }
        }
        let starting = Starting { name: birth.name.clone(), number, place, time_ms, object, results };
        self.starting_bytes += starting.bytes();
        self.starting.entry(slot.0).or_default().push(starting);
    }

    /// The births of this slot are on enough disks.
    pub fn complete(&mut self, slot: u64) {
        let complete = self.starting.remove(&slot).unwrap_or_default();
        self.starting_bytes -= complete.iter().map(Starting::bytes).sum::<usize>();
    }

    pub fn starting_by_number(&self) -> impl Iterator<Item = (u64, &Starting)> {
        self.starting.values().flatten().map(|starting| (starting.number, starting))
    }

    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain data has an encoding")
    }

    pub fn decode(bytes: &[u8]) -> Option<Children> {
        // It may have been written before nodes were shunned, before volumes moved, or before there were offices.
        const NOT_SHUNNED: [u8; 1] = [0];
        const NOT_HELD: [u8; 4] = [0, 0, 0, 0];
        let whole = postcard::from_bytes(bytes).ok();
        let whole = whole.or_else(|| postcard::from_bytes(&[bytes, &NOT_SHUNNED].concat()).ok());
        let mut children: Children = whole.or_else(|| decode_with_office(&[bytes, &NOT_HELD].concat()))?;
        children.starting_bytes = children.starting.values().flatten().map(Starting::bytes).sum();
        Some(children)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_few_bytes() {
        let record = Record::new(1_000_000, Plan::plain().record(1_000_000));
        assert_eq!(record.encode().len(), 4);
        let plan = |protocol| Plan { protocol, members: vec![3, 1, 200], ..Plan::plain() };
        let of = |plan: Plan| Record { stopping: true, ..Record::new(7, plan.record(7)) };
        let led = |protocol| of(Plan { volume: 66, of_volume: vec![1, 3, 200], ..plan(protocol) });
        let becoming = |record| Record { becomes: Some(Box::new(plan(Protocol::Register))), ..record };
        let [plain, chain] = [of(plan(Protocol::Paxos)), led(Protocol::Chain)];
        let both = [becoming(plain.clone()), becoming(chain.clone())];
        for record in [record, plain, chain, led(Protocol::Register)].into_iter().chain(both) {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Ok(record));
            for length in 0..bytes.len() {
                assert!(Record::decode(&bytes[..length]).is_err(), "{length}");
            }
        }
        assert!(Record::decode(&[16, 1, 0]).is_err() && Record::decode(&[0xff; 12]).is_err());
    }

    #[test]
    fn what_was_written_before_nodes_were_shunned_or_volumes_moved_is_read() {
        let shunned = BTreeMap::from([(4, 300)]);
        let children = Children { last_number: 7, hold_order: 9, members: vec![1, 2], shunned, ..Children::default() };
        let bytes = children.encode();
        assert_eq!(Children::decode(&bytes), Some(children.clone()));
        let children = Children { shunned: BTreeMap::new(), ..children };
        let bytes = children.encode();
        assert_eq!(Children::decode(&bytes[..bytes.len() - 1]), Some(children));
        let children = Children { last_number: 7, ..Children::default() };
        let bytes = children.encode();
        // Without what is held, and without the office.
        assert_eq!(Children::decode(&bytes[..bytes.len() - 4]), Some(children.clone()));
        assert_eq!(Children::decode(&bytes[..bytes.len() - 6]), Some(children));
    }

    #[test]
    fn coordinators_of_own_groups_are_even() {
        let volume = [NodeId(1), NodeId(2), NodeId(3)];
        let first = |number| {
            let record = Record::new(number, Plan::plain().record(number));
            record.member_ids(&volume)[0].0
        };
        assert_eq!((1..=6).map(first).collect::<Vec<_>>(), [2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn own_groups_are_told_from_others() {
        assert_eq!(volume_of(own_group(GroupId(66), 5)), Some((GroupId(66), 5)));
        assert_eq!(volume_of(GroupId(66)), None);
        assert_eq!(own_group_said(GroupId(66), 5), Some(own_group(GroupId(66), 5)));
        for (volume, number) in [(66, 1 << NUMBER_BITS), (1 << 24, 1), (0, 1)] {
            assert_eq!(own_group_said(GroupId(volume), number), None);
        }
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
