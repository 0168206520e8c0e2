//! The log record of an own group's birth: what it begins with.

use quorate_protocol::wire::Malformed;
use quorate_protocol::{GroupId, NodeId};

use super::group::{Group, Own};
use super::transfer::{decode_snapshot, encode_snapshot};
use crate::group_state::GroupState;

/// Begins the log record of a birth; no record of a replica begins so.
const BIRTH: u8 = 0xB1;

/// Whether a record of the log is a birth.
pub(crate) fn is_birth(record: &[u8]) -> bool {
    record.first() == Some(&BIRTH)
}

/// The group that a birth's record says was born.
pub(super) fn decode_birth(group: GroupId, record: &[u8], me: NodeId) -> Result<Group, Malformed> {
    let snapshot = decode_snapshot(group, record.get(1..).unwrap_or_default())?;
    let meta = snapshot.meta;
    if !meta.configuration.contains(me) {
        return Err(Malformed::UnknownTag { of: "member of an own group", tag: 0 });
    }
    let protocol = meta.position.protocol();
    let mut born =
        Group::new(protocol, meta.configuration, meta.namespace, meta.durability, meta.hash_key, snapshot.machine, me);
    born.own = Own::of(group, &meta.name);
    born.state = GroupState::Alive;
    // No checkpoint has anything of it yet.
    born.checkpoint.whole = true;
    born.checkpoint.changed = true;
    born.replica.restore(meta.position);
    born.begin_register(&meta.name);
    Ok(born)
}

pub(super) fn encode_birth(group: &Group) -> Vec<u8> {
    let mut record = encode_snapshot(group);
    record.insert(0, BIRTH);
    record
}
