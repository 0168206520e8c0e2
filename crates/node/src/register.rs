//! A replica of a register group as a node keeps it: the protocol's core, and which of its versions the store lacks.
//!
//! Keys of registers begin with the hash of the object's name, which is SCAN's order on all members.

use std::collections::BTreeSet;

use quorate_object::{Access, Command, Condition, Expiry, Objects, Outcome, SetAnswer, read_value};
use quorate_protocol::register::{Body, Content, Key, Record, Register, Stage, Tag, Version};
use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{Epoch, NodeId, Payload, Replica, Slot, Stamp};

use crate::pace::PACE;
use crate::planted::{self, Planted};

/// Of the hash, before a name; a byte 0 follows. So what is only a hash stands before all names that have it.
const HASH_BYTES: usize = 6;

/// A replica makes fewer records and operations than this in an epoch. It may be born again into a later one, in the same start
/// of its node: numbered from the epoch on, none has the number of one before, in the log or in a tag.
const NUMBERS_PER_EPOCH_LOG2: u32 = 40;

pub struct RegisterReplica {
    me: NodeId,
    core: Register,
    /// Of the next record, in the log.
    next_record: Slot,
    /// Keys whose versions the store does not have as they are here.
    unsaved: BTreeSet<Key>,
    /// The store has versions that are gone here.
    whole: bool,
    /// What was asked under tokens up to this one was asked of another replica, which is gone.
    asked_before: u64,
}

/// What replicas of registers here have said to those of other nodes, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterMessages {
    pub query: u64,
    pub found: u64,
    pub store: u64,
    pub stored: u64,
    pub confirm: u64,
    pub other: u64,
}

impl RegisterMessages {
    pub(crate) fn note(&mut self, body: &Body) {
        let count = match body {
            Body::Query { .. } => &mut self.query,
            Body::Found { .. } => &mut self.found,
            Body::Store { .. } => &mut self.store,
            Body::Stored { .. } => &mut self.stored,
            Body::Confirm { .. } => &mut self.confirm,
            _ => &mut self.other,
        };
        *count += 1;
    }
}

/// What a checkpoint says of a replica, but for its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterPosition {
    pub next_record: Slot,
    pub records: Vec<Record>,
}

impl RegisterPosition {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.next_record.encode(out);
        out.push(self.records.len() as u8);
        self.records.iter().for_each(|record| record.encode(out));
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<RegisterPosition, Malformed> {
        let next_record = Slot::decode(reader)?;
        let count = reader.u8()?;
        let records = (0..count).map(|_| Record::decode(reader)).collect::<Result<_, _>>()?;
        Ok(RegisterPosition { next_record, records })
    }

    /// The configurations that it stands in.
    pub fn stages(&self) -> &[Stage] {
        let stages = self.records.iter().find_map(|record| match record {
            Record::Known { stages } => Some(&stages[..]),
            _ => None,
        });
        stages.unwrap_or_default()
    }
}

impl RegisterReplica {
    pub(crate) fn new(stages: Vec<Stage>, me: NodeId) -> RegisterReplica {
        let epoch = stages.last().map_or(0, |stage| u64::from(stage.epoch().0));
        let first = epoch << NUMBERS_PER_EPOCH_LOG2;
        let mut core = Register::new(stages, me, 0, PACE);
        core.number_from(first);
        RegisterReplica { me, core, next_record: Slot(first), unsaved: BTreeSet::new(), whole: false, asked_before: 0 }
    }

    /// The replica of an own group: the log has its birth in the place of record 0.
    pub(crate) fn of_own(stages: Vec<Stage>, me: NodeId) -> RegisterReplica {
        let mut replica = RegisterReplica::new(stages, me);
        replica.next_record = replica.next_record.max(Slot(1));
        replica
    }

    /// Takes over an object that all members begin with.
    pub(crate) fn begin_with(&mut self, key: Key, content: Content) {
        let tag = Tag { counter: 1, ..Tag::ABSENT };
        let record = Record::Held { key, version: Version { tag, renewed: Epoch(0), content } };
        self.note(&record);
        self.core.restore(record);
    }

    /// It is born while its node runs, after so many tokens were given out.
    pub(crate) fn set_asked_before(&mut self, token: u64) {
        self.asked_before = token;
    }

    pub(crate) fn was_asked_before(&self, token: u64) -> bool {
        token <= self.asked_before
    }

    pub fn core(&self) -> &Register {
        &self.core
    }

    pub(crate) fn core_mut(&mut self) -> &mut Register {
        &mut self.core
    }

    pub(crate) fn next_record(&self) -> Slot {
        self.next_record
    }

    /// Takes note of a record that is on its way to the log.
    pub(crate) fn number(&mut self, record: &Record) -> Slot {
        self.note(record);
        let number = self.next_record;
        self.next_record = number.next();
        number
    }

    fn note(&mut self, record: &Record) {
        match record {
            Record::Held { .. } if planted::is(Planted::RegisterVersionsUnsaved) => {}
            Record::Held { key, .. } | Record::Forgotten { key, .. } => {
                self.unsaved.insert(key.clone());
            }
            // Versions may have been given up with it.
            Record::Known { .. } => self.whole = true,
            Record::Floor { .. } | Record::Sealed {} | Record::Promised { .. } | Record::Voted { .. } => {}
        }
    }

    pub(crate) fn position(&self) -> RegisterPosition {
        let records = self.core.records().filter(|record| !matches!(record, Record::Held { .. }));
        RegisterPosition { next_record: self.next_record, records: records.collect() }
    }

    pub(crate) fn restore_position(&mut self, position: RegisterPosition) {
        let stages = position.stages();
        if !stages.is_empty() {
            self.core = Register::new(stages.to_vec(), self.me, 0, PACE);
        }
        position.records.into_iter().for_each(|record| self.core.restore(record));
        self.next_record = position.next_record;
    }

    /// A record of the log, behind the checkpoint. One that was carried on there may be found twice.
    pub(crate) fn restore(&mut self, record: Record, number: Slot) {
        if number < self.next_record {
            return;
        }
        self.note(&record);
        self.next_record = number.next();
        self.core.restore(record);
    }

    /// A version from the store.
    pub(crate) fn restore_version(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Malformed> {
        let version = Version::decode_all(bytes)?;
        self.core.restore(Record::Held { key: Key(Payload::from(key)), version });
        Ok(())
    }

    /// Whether the store's versions are to be replaced as a whole; then all are unsaved.
    pub(crate) fn take_whole(&mut self) -> bool {
        let whole = std::mem::take(&mut self.whole);
        if whole {
            let held = self.core.records().filter_map(|record| match record {
                Record::Held { key, .. } => Some(key),
                _ => None,
            });
            self.unsaved = held.collect();
        }
        whole
    }

    /// Calls `each` with every key whose version the store lacks, and its version; with none if it is forgotten.
    pub(crate) fn take_unsaved(&mut self, mut each: impl FnMut(&[u8], Option<Vec<u8>>)) {
        for key in std::mem::take(&mut self.unsaved) {
            let version = self.core.held(&key).map(|version| {
                let mut bytes = Vec::new();
                version.encode(&mut bytes);
                bytes
            });
            each(&key.0, version);
        }
    }
}

/// What a command asks of one register.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Read,
    Write(Content),
}

/// The key of an object of this hash and name.
pub(crate) fn key_of(hash: u64, name: &[u8]) -> Key {
    let mut bytes = hash.to_be_bytes()[8 - HASH_BYTES..].to_vec();
    bytes.push(0);
    bytes.extend_from_slice(name);
    Key(Payload::from(&bytes[..]))
}

/// Before the keys of all names of this hash, and behind those of smaller ones.
pub(crate) fn before_hash(hash: u64) -> Key {
    Key(Payload::from(&hash.to_be_bytes()[8 - HASH_BYTES..]))
}

pub(crate) fn name_of_key(key: &Key) -> &[u8] {
    key.0.get(HASH_BYTES + 1..).unwrap_or_default()
}

pub(crate) fn hash_of_key(key: &Key) -> u64 {
    let mut hash = [0; 8];
    if let Some(bytes) = key.0.get(..HASH_BYTES) {
        hash[8 - HASH_BYTES..].copy_from_slice(bytes);
    }
    u64::from_be_bytes(hash)
}

/// What a command on one object is to its register; `None` if it reads and writes in one step, which no register can.
pub(crate) fn asked(command: &Command<'_>) -> Option<Asked> {
    match command {
        Command::Set {
            value,
            condition: Condition::Always,
            expiry: expiry @ (Expiry::Unset | Expiry::AtMs(_)),
            answer: SetAnswer::Ok,
            ..
        } => {
            let expires = match expiry {
                Expiry::AtMs(at_ms) => Some(Stamp(u64::try_from(*at_ms).unwrap_or(0))),
                _ => None,
            };
            Some(Asked::Write(Content::Value { bytes: Payload::from(*value), expires }))
        }
        Command::Del { .. } => Some(Asked::Write(Content::Tombstone)),
        Command::OnKeys(_) | Command::Transaction(_) => None,
        _ if command.access() == Access::Read && command.key().is_some() => Some(Asked::Read),
        _ => None,
    }
}

/// Whether registers can carry a command out, one or all of a volume.
pub(crate) fn is_for_registers(command: &Command<'_>) -> bool {
    match command {
        Command::Count | Command::Scan { .. } | Command::Keys { .. } => true,
        command => asked(command).is_some(),
    }
}

/// The refusal of a command that a register cannot carry out.
pub(crate) const NOT_IN_ONE_STEP: &str = "PROTOCOL the object is a register (protocol register), which is read, overwritten and deleted by any member: nothing \
     can read and write it in one step. Use SET, GET and DEL; QUORATE GROUP DEMOTE if it has a group of its own; or a \
     namespace of PROTOCOL paxos or chain";

/// The same of what registers have nothing of.
pub(crate) const NO_TRANSACTIONS: &str = "PROTOCOL the objects are registers (protocol register), which take no transactions: send the commands without MULTI, or \
                                          use a namespace of PROTOCOL paxos or chain";
pub(crate) const STRINGS_ONLY: &str = "PROTOCOL the object is a register (protocol register), which holds a string: hashes, lists, sets and sorted sets are \
                                       for namespaces of PROTOCOL paxos or chain";

/// What a register's object is where it is none.
pub(crate) fn content_of(value: &[u8], expires_ms: Option<u64>) -> Content {
    Content::Value { bytes: Payload::from(value), expires: expires_ms.map(Stamp) }
}

/// What a register ends with, as an object of that name; `None` if it is deleted.
pub(crate) fn object_of(name: &[u8], content: &Content, hash_key: [u8; 16]) -> Option<Vec<u8>> {
    let Content::Value { bytes, expires } = content else { return None };
    let mut objects = Objects::new(hash_key);
    let at_ms = expires.and_then(|expires| i64::try_from(expires.0).ok());
    let expiry = at_ms.map_or(Expiry::Unset, Expiry::AtMs);
    let set = Command::Set { key: name, value: bytes, condition: Condition::Always, expiry, answer: SetAnswer::Ok };
    objects.run(&set, 0, 0);
    objects.encoded(name)
}

/// What a command answers that reads this content at this time.
pub(crate) fn read(command: &Command<'_>, content: &Content, now: Stamp) -> Outcome {
    match content {
        Content::Value { bytes, expires } => {
            // Whether it has expired was decided when it was found.
            let now = expires.map_or(now, |expires| now.min(Stamp(expires.0.saturating_sub(1))));
            read_value(command, Some((bytes, expires.map(|stamp| stamp.0))), now.0)
        }
        Content::Tombstone => read_value(command, None, now.0),
    }
}

/// What a write answers that was carried out. Nobody can tell which of two deletes has found an object, so each answers
/// that there was one.
pub(crate) fn written(command: &Command<'_>) -> Outcome {
    match command {
        Command::Del { .. } => Outcome::Int(1),
        _ => Outcome::Ok,
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::quorum::QuorumSystem;
    use quorate_protocol::register::Tag;
    use quorate_protocol::{Configuration, Epoch, GroupId};

    use super::*;

    #[test]
    fn keys_stand_in_the_order_of_their_hashes_behind_what_is_only_a_hash() {
        let keys =
            [before_hash(1), key_of(1, b""), key_of(1, b"a"), before_hash(2), key_of(2, b""), key_of(1 << 47, b"b")];
        assert!(keys.is_sorted());
        assert_eq!((hash_of_key(&keys[5]), name_of_key(&keys[5])), (1 << 47, &b"b"[..]));
    }

    #[test]
    fn a_record_that_is_found_twice_is_counted_once() {
        let configuration = Configuration {
            group: GroupId(7),
            epoch: Epoch(3),
            members: [NodeId(1)].into(),
            quorum: QuorumSystem::Majority,
        };
        let mut replica = RegisterReplica::new(vec![Stage::first(configuration)], NodeId(1));
        let first = replica.next_record();
        assert_eq!(first, Slot(3 << NUMBERS_PER_EPOCH_LOG2));
        let floor = |floor| Record::Floor { floor };
        for (step, number) in [(1, 0), (1, 0), (2, 1), (3, 2), (2, 1)] {
            replica.restore(floor(step), Slot(first.0 + number));
        }
        assert_eq!(replica.next_record(), Slot(first.0 + 3));
        let again = Record::Held {
            key: key_of(1, b"k"),
            version: Version { tag: Tag { counter: 9, ..Tag::ABSENT }, renewed: Epoch(3), content: Content::Tombstone },
        };
        replica.restore(again, first);
        assert_eq!(replica.core().held(&key_of(1, b"k")), None, "a number that was restored already");
    }

    #[test]
    fn an_expiry_is_decided_once() {
        let content = Content::Value { bytes: Payload::from(&b"v"[..]), expires: Some(Stamp(100)) };
        assert_eq!(read(&Command::Get { key: b"k" }, &content, Stamp(150)), Outcome::Bulk(b"v".to_vec()));
    }

    #[test]
    fn what_depends_on_the_value_is_refused() {
        let set = |condition, expiry, answer| Command::Set { key: b"k", value: b"v", condition, expiry, answer };
        assert!(asked(&set(Condition::Always, Expiry::AtMs(5), SetAnswer::Ok)).is_some());
        for command in [
            set(Condition::IfAbsent, Expiry::Unset, SetAnswer::Ok),
            set(Condition::Always, Expiry::Keep, SetAnswer::Ok),
            set(Condition::Always, Expiry::Unset, SetAnswer::Old),
            Command::IncrBy { key: b"k", delta: 1 },
            Command::GetDel { key: b"k" },
            Command::Persist { key: b"k" },
            Command::Count,
        ] {
            assert_eq!(asked(&command), None, "{command:?}");
        }
        assert_eq!(asked(&Command::Exists { key: b"k" }), Some(Asked::Read));
    }
}
