//! What a host's records say, for whoever looks at the disk of a stopped node.

use quorate_protocol::wire::{Malformed, Reader, Wire};
use quorate_protocol::{GroupId, chain, paxos, register};

use crate::group_state::GroupState;
use crate::host::checkpoints::{Name, decode_meta, take_name};
use crate::host::is_birth;
use crate::quorum::Quorum;
use crate::register::name_of_key;
use crate::replica::Position;
use crate::rest::{Rest, StoredHead, is_rest};

/// A group's meta record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFacts {
    pub namespace: u32,
    pub epoch: u32,
    pub members: Vec<u32>,
    pub durability: &'static str,
    /// Why the replica neither votes nor serves, if that is on record.
    pub silent: Option<&'static str>,
    /// Every slot below is executed in what is stored.
    pub next_slot: u64,
    pub promised: String,
}

/// Takes a meta record apart; says why not.
pub fn checkpoint_facts(group: u64, meta: &[u8]) -> Result<CheckpointFacts, String> {
    if is_rest(meta) {
        return facts_at_rest(meta).map_err(|malformed| malformed.to_string());
    }
    let meta = decode_meta(GroupId(group), meta).map_err(|malformed| malformed.to_string())?;
    Ok(CheckpointFacts {
        namespace: meta.namespace,
        epoch: meta.configuration.epoch.0,
        members: meta.configuration.members.iter().map(|member| member.0).collect(),
        durability: meta.durability.word(),
        silent: silence(meta.state),
        next_slot: meta.position.next_slot().0,
        promised: promised(&meta.position),
    })
}

fn facts_at_rest(record: &[u8]) -> Result<CheckpointFacts, Malformed> {
    let mut reader = Reader::new(record);
    let StoredHead { kin, .. } = StoredHead::take(&mut reader)?;
    let rest = Rest::decode(&kin, reader)?;
    Ok(CheckpointFacts {
        namespace: kin.namespace,
        epoch: kin.epoch.0,
        members: kin.members.iter().map(|member| member.0).collect(),
        durability: kin.durability.word(),
        silent: silence(rest.state),
        next_slot: rest.position.next_slot().0,
        promised: promised(&rest.position),
    })
}

fn silence(state: GroupState) -> Option<&'static str> {
    match state {
        GroupState::Forgetful => Some("forgetful"),
        GroupState::Damaged => Some("damaged"),
        _ => None,
    }
}

/// What a name in the store names: an object, or some of the results that are kept.
pub fn stored_name(name: &[u8]) -> String {
    match take_name(name) {
        Ok(Name::Object(key)) => format!("object {:?}", String::from_utf8_lossy(key)),
        Ok(Name::Run(run)) => format!("results {run}"),
        Ok(Name::Children(0)) => "own groups that begin or end".into(),
        Ok(Name::Children(piece)) => format!("own groups that begin or end, piece {piece}"),
        Err(malformed) => format!("unknown name {name:02x?} ({malformed})"),
    }
}

/// A record of the log in a few words, with the ballot that it promises or accepts; or why it cannot be read.
pub fn log_record(bytes: &[u8]) -> Result<(String, Option<(u32, u32)>), String> {
    if is_birth(bytes) {
        return Ok(("birth of an own group".into(), None));
    }
    if chain::Record::is_one(bytes) {
        let record = chain::Record::decode_all(bytes).map_err(|malformed| malformed.to_string())?;
        return Ok((chain_record(&record), None));
    }
    if register::Record::is_one(bytes) {
        let record = register::Record::decode_all(bytes).map_err(|malformed| malformed.to_string())?;
        return Ok((register_record(&record), None));
    }
    let record = paxos::Record::decode_all(bytes).map_err(|malformed| malformed.to_string())?;
    let number = |ballot: quorate_protocol::Ballot| Some((ballot.number, ballot.node.0));
    Ok(match &record {
        paxos::Record::Promised { ballot: promised } => (format!("promised {}", ballot(*promised)), number(*promised)),
        paxos::Record::Accepted { ballot: at, slot, frontier, .. } => {
            (format!("slot {} accepted at {}, decided below {}", slot.0, ballot(*at), frontier.0), number(*at))
        }
        paxos::Record::Decided { slot, .. } => (format!("slot {} decided", slot.0), None),
        paxos::Record::Checkpoint(position) => {
            (format!("checkpoint at slot {}", position.next_slot.0), number(position.promised))
        }
    })
}

fn chain_record(record: &chain::Record) -> String {
    match record {
        chain::Record::Adopted { membership, decided, .. } => {
            format!("chain {membership:?} adopted, decided below {}", decided.0)
        }
        chain::Record::Update { epoch, slot, frontier, .. } => {
            format!("update {} of epoch {}, decided below {}", slot.0, epoch.0, frontier.0)
        }
        chain::Record::Joined { membership, .. } => {
            format!("the joining node of epoch {} holds everything", membership.epoch.0)
        }
        chain::Record::Checkpoint(position) => format!("checkpoint at slot {}", position.next_slot.0),
    }
}

fn register_record(record: &register::Record) -> String {
    match record {
        register::Record::Known { stages: known } => format!("known: {}", stages(known)),
        register::Record::Held { key, version } => {
            let name = String::from_utf8_lossy(name_of_key(key)).into_owned();
            format!("{name:?} at {:?}: {}", version.tag, content(&version.content))
        }
        register::Record::Forgotten { key, tag } => {
            format!("{:?} at {tag:?} forgotten", String::from_utf8_lossy(name_of_key(key)))
        }
        register::Record::Floor { floor } => format!("tombstones forgotten up to {floor}"),
        register::Record::Sealed {} => "sealed".into(),
        register::Record::Promised { epoch, ballot: promised } => {
            format!("promised {} for the successor of epoch {}", ballot(*promised), epoch.0)
        }
        register::Record::Voted { epoch, choice } => {
            format!("voted at {} for the successor of epoch {}", ballot(choice.ballot), epoch.0)
        }
    }
}

fn content(content: &register::Content) -> String {
    match content {
        register::Content::Value { bytes, expires: None } => format!("{} bytes", bytes.len()),
        register::Content::Value { bytes, expires: Some(at) } => format!("{} bytes until {}", bytes.len(), at.0),
        register::Content::Tombstone => "deleted".into(),
    }
}

fn stages(stages: &[register::Stage]) -> String {
    let each = stages.iter().map(|stage| {
        let members: Vec<String> = stage.configuration.members.iter().map(|member| member.0.to_string()).collect();
        let quorum = Quorum::of_system(stage.configuration.quorum).words();
        format!("epoch {} of {} with {quorum}", stage.epoch().0, members.join(","))
    });
    each.collect::<Vec<_>>().join(", then ")
}

/// What a replica is bound by: a ballot, or the configuration of a chain.
fn promised(position: &Position) -> String {
    match position {
        Position::Paxos(position) => ballot(position.promised),
        Position::Chain(position) => format!("{:?}", position.membership),
        Position::Register(position) => stages(position.stages()),
    }
}

fn ballot(ballot: quorate_protocol::Ballot) -> String {
    ballot_words((ballot.number, ballot.node.0))
}

/// `3.1`: the third, of node 1.
pub fn ballot_words((number, node): (u32, u32)) -> String {
    format!("{number}.{node}")
}
