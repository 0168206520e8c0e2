//! The byte layout: golden bytes of every kind of message and record, and inputs that no correct peer would send.

use std::fmt::Debug;
use std::sync::Arc;

use quorate_protocol::chain;
use quorate_protocol::id::{Ballot, Configuration, Content, Epoch, GroupId, Instant, NodeId, Slot, Stamp, Value};
use quorate_protocol::paxos::{AcceptedValue, Message, Position, Record, Testimony};
use quorate_protocol::peers;
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register;
use quorate_protocol::wire::{Malformed, Reader, Wire};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes to exactly these bytes, decodes from them, and from no proper prefix of them nor with a byte more.
fn golden<T: Wire + PartialEq + Debug>(value: &T, groups: &[&str]) {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    assert_eq!(hex(&bytes), groups.concat(), "{value:?}");
    assert_eq!(T::decode_all(&bytes).as_ref(), Ok(value));
    for length in 0..bytes.len() {
        assert!(T::decode_all(&bytes[..length]).is_err(), "{value:?} from its first {length} bytes");
    }
    bytes.push(0);
    assert_eq!(T::decode_all(&bytes), Err(Malformed::Trailing), "{value:?}");
}

const BALLOT: Ballot = Ballot { number: 3, node: NodeId(2) };
const BALLOT_BYTES: &str = "0300000002000000";
const HIGHER: Ballot = Ballot { number: 4, node: NodeId(1) };
const HIGHER_BYTES: &str = "0400000001000000";
const SLOT: Slot = Slot(0x0102);
const SLOT_BYTES: &str = "0201000000000000";
const SEVEN: &str = "0700000000000000";
const COMMAND_BYTES: &str = "0500000000000000aa0000000000000001020000006869";
const MARK_BYTES: &str = "0500000000000000aa0000000000000000";

fn value(content: Content) -> Value {
    Value { stamp: Stamp(5), seed: 0xaa, content }
}

fn command() -> Value {
    value(Content::Commands(Arc::from(&b"hi"[..])))
}

#[test]
fn values() {
    golden(&value(Content::Mark), &[MARK_BYTES]);
    golden(&command(), &[COMMAND_BYTES]);
    let stop = value(Content::Stop(Arc::from(&b"hi"[..])));
    golden(&stop, &["0500000000000000", "aa00000000000000", "02", "02000000", "6869"]);
}

#[test]
fn messages_of_an_election() {
    let prepare = |released| Message::Prepare { ballot: BALLOT, from: SLOT, released };
    golden(&prepare(None), &["01", BALLOT_BYTES, SLOT_BYTES, "00"]);
    golden(&prepare(Some(HIGHER)), &["01", BALLOT_BYTES, SLOT_BYTES, "01", HIGHER_BYTES]);
    let accepted = vec![AcceptedValue { slot: SLOT, ballot: HIGHER, value: command() }];
    let promise = Message::Promise { ballot: BALLOT, next_slot: SLOT, grant: 7, accepted };
    let entry = [SLOT_BYTES, HIGHER_BYTES, COMMAND_BYTES].concat();
    golden(&promise, &["02", BALLOT_BYTES, SLOT_BYTES, SEVEN, "01000000", &entry]);
    let accepted = vec![AcceptedValue { slot: SLOT, ballot: HIGHER, value: command() }];
    let testimony = Testimony { promised: BALLOT, next_slot: SLOT, accepted };
    golden(&testimony, &[BALLOT_BYTES, SLOT_BYTES, "01000000", &entry]);
    let busy = Message::Busy { ballot: BALLOT, promised: HIGHER, wait_us: 7 };
    golden(&busy, &["03", BALLOT_BYTES, HIGHER_BYTES, SEVEN]);
    let rejected = Message::Rejected { ballot: BALLOT, promised: HIGHER };
    golden(&rejected, &["04", BALLOT_BYTES, HIGHER_BYTES]);
    golden(&Message::HandOver { ballot: BALLOT, next_slot: SLOT }, &["0d", BALLOT_BYTES, SLOT_BYTES]);
}

#[test]
fn messages_of_a_decision() {
    let (frontier, frontier_majority) = (Slot(7), Slot(7));
    let accept = Message::Accept { ballot: BALLOT, slot: SLOT, frontier, frontier_majority, value: command() };
    golden(&accept, &["05", BALLOT_BYTES, SLOT_BYTES, SEVEN, SEVEN, COMMAND_BYTES]);
    let accepted = Message::Accepted { ballot: BALLOT, slot: SLOT, next_slot: Slot(7), grant: 7 };
    golden(&accepted, &["06", BALLOT_BYTES, SLOT_BYTES, SEVEN, SEVEN]);
    let decide = Message::Decide { ballot: BALLOT, frontier: SLOT, frontier_majority };
    golden(&decide, &["07", BALLOT_BYTES, SLOT_BYTES, SEVEN]);
    golden(&Message::Execute { ballot: BALLOT, frontier: SLOT }, &["0e", BALLOT_BYTES, SLOT_BYTES]);
    golden(&Message::Frontier { ballot: BALLOT, next_slot: SLOT }, &["08", BALLOT_BYTES, SLOT_BYTES]);
}

#[test]
fn messages_of_reading_and_catching_up() {
    golden(&Message::Confirm { ballot: BALLOT, round: 7 }, &["09", BALLOT_BYTES, SEVEN]);
    let confirmed = Message::Confirmed { ballot: BALLOT, round: 7, next_slot: SLOT, grant: 7 };
    golden(&confirmed, &["0a", BALLOT_BYTES, SEVEN, SLOT_BYTES, SEVEN]);
    golden(&Message::Fetch { from: SLOT }, &["0b", SLOT_BYTES]);
    let learn = Message::Learn { slots: vec![(SLOT, value(Content::Mark))], next_slot: Slot(7) };
    golden(&learn, &["0c", "01000000", SLOT_BYTES, MARK_BYTES, SEVEN]);
}

#[test]
fn records() {
    golden(&Record::Promised { ballot: BALLOT }, &["01", BALLOT_BYTES]);
    let accepted = Record::Accepted { ballot: BALLOT, slot: SLOT, value: command(), frontier: Slot(7) };
    golden(&accepted, &["02", BALLOT_BYTES, SLOT_BYTES, SEVEN, COMMAND_BYTES]);
    golden(&Record::Decided { slot: SLOT, value: command() }, &["03", SLOT_BYTES, COMMAND_BYTES]);
    let position =
        Position { next_slot: SLOT, promised: BALLOT, frontier_majority: Slot(7), time: Stamp(7), stopped: true };
    golden(&Record::Checkpoint(position), &["04", SLOT_BYTES, BALLOT_BYTES, SEVEN, SEVEN, "01"]);
}

#[test]
fn messages_between_nodes() {
    golden(&peers::Message::Heartbeat { sent_at: Instant(7) }, &["01", SEVEN]);
    golden(&peers::Message::Grant { sent_at: Instant(7), number: 0x0102 }, &["02", SEVEN, SLOT_BYTES]);
}

fn membership(joining: Option<NodeId>) -> Arc<chain::Membership> {
    Arc::new(chain::Membership { epoch: Epoch(9), members: Arc::from([NodeId(2), NodeId(1)]), joining })
}

const MEMBERS_BYTES: &str = "09000000020000000200000001000000";
const EPOCH_BYTES: &str = "08000000";

#[test]
fn messages_of_a_chain() {
    use chain::Body;
    let message = |body, bytes: &[&str]| {
        let groups = [&[EPOCH_BYTES], bytes].concat();
        golden(&chain::Message { epoch: Epoch(8), body }, &groups);
    };
    let (frontier, next_slot) = (Slot(7), SLOT);
    message(Body::Forward { slot: SLOT, frontier, value: command() }, &["01", SLOT_BYTES, SEVEN, COMMAND_BYTES]);
    let slots = vec![(SLOT, command())];
    message(Body::Suffix { slots, frontier }, &["02", "01000000", SLOT_BYTES, COMMAND_BYTES, SEVEN]);
    message(Body::Acknowledge { frontier }, &["03", SEVEN]);
    let connect = Body::Connect { membership: membership(Some(NodeId(5))), next_slot };
    message(connect, &["04", MEMBERS_BYTES, "0105000000", SLOT_BYTES]);
    message(Body::Held { next_slot }, &["05", SLOT_BYTES]);
    message(Body::Newest { membership: membership(None) }, &["06", MEMBERS_BYTES, "00"]);
    message(Body::Behind, &["07"]);
    message(Body::Query { round: 7, confirmed: true }, &["08", SEVEN, "01"]);
    message(Body::Committed { round: 7, frontier: SLOT }, &["09", SEVEN, SLOT_BYTES]);
    message(Body::Confirm { round: 7 }, &["0a", SEVEN]);
    message(Body::Confirmed { round: 7 }, &["0b", SEVEN]);
    message(Body::Kept { next_slot, joined: false }, &["0c", SLOT_BYTES, "00"]);
}

#[test]
fn records_of_a_chain() {
    use chain::{Position, Record};
    let adopted = Record::Adopted { membership: membership(None), decided: SLOT, since: Epoch(8) };
    golden(&adopted, &["11", MEMBERS_BYTES, "00", SLOT_BYTES, EPOCH_BYTES]);
    let update = Record::Update { epoch: Epoch(8), slot: SLOT, value: command(), frontier: Slot(7) };
    golden(&update, &["12", EPOCH_BYTES, SLOT_BYTES, SEVEN, COMMAND_BYTES]);
    let joined = Record::Joined { membership: membership(None), decided: SLOT, since: Epoch(8) };
    golden(&joined, &["13", MEMBERS_BYTES, "00", SLOT_BYTES, EPOCH_BYTES]);
    let position = Position {
        next_slot: SLOT,
        time: Stamp(7),
        stopped: true,
        membership: membership(Some(NodeId(5))),
        since: Epoch(8),
        established: true,
        joined: false,
    };
    let bytes = ["14", SLOT_BYTES, SEVEN, "01", MEMBERS_BYTES, "0105000000", EPOCH_BYTES, "01", "00"];
    golden(&Record::Checkpoint(position), &bytes);
}

const ROUND: register::Round = register::Round { start: 3, number: 7 };
const ROUND_BYTES: &str = "030000000700000000000000";
const TAG: register::Tag = register::Tag { counter: 0x0102, node: NodeId(2), start: 3, operation: 7, expired: true };
const TAG_BYTES: &str = "02010000000000000200000003000000070000000000000001";
const TAGGED_BYTES: &str = "010000006b02010000000000000200000003000000070000000000000001";
const STAGE_BYTES: &str = "07000000000000000900000001020202000000020000000100000008000000010000000800000003\
    06000000";

const CONFIGURATION_BYTES: &str = "070000000000000009000000010202020000000200000001000000";

fn choice() -> register::Choice {
    register::Choice { ballot: BALLOT, configuration: stage().configuration, fence: Epoch(5) }
}

fn key() -> register::Key {
    register::Key(Arc::from(&b"k"[..]))
}

fn stage() -> register::Stage {
    let quorum = QuorumSystem::Threshold { read: 2, write: 2 };
    let members = Arc::from([NodeId(2), NodeId(1)]);
    let configuration = Configuration { group: GroupId(7), epoch: Epoch(9), members, quorum };
    register::Stage { configuration, moved: Epoch(8), reads_since: vec![(Epoch(8), 3)], fence: Epoch(6) }
}

#[test]
fn messages_of_a_register() {
    use register::{Body, Content, Entry, Outline, Version};
    let says = |body: Body, bytes: &[&str]| {
        let view = register::View { oldest: Epoch(8), newest: Epoch(9) };
        let groups = [&["0800000009000000"][..], bytes].concat();
        golden(&register::Message { view, body }, &groups);
    };
    let round = ROUND;
    let tombstones = vec![(key(), TAG)];
    let value = Content::Value { bytes: Arc::from(&b"hi"[..]), expires: Some(Stamp(7)) };
    says(Body::Query { round, key: key(), content: true }, &["01", ROUND_BYTES, "010000006b", "01"]);
    let found = |content| Body::Found { round, tag: TAG, renewed: Epoch(8), floor: 7, confirmed: true, content };
    let found_bytes = ["02", ROUND_BYTES, TAG_BYTES, "08000000", SEVEN, "01"].concat();
    says(found(None), &[&found_bytes, "00"]);
    says(found(Some(Content::Tombstone)), &[&found_bytes, "0100"]);
    says(found(Some(value)), &[&found_bytes, "010101", SEVEN, "020000006869"]);
    let version = Version { tag: TAG, renewed: Epoch(8), content: Content::Tombstone };
    says(Body::Store { round, key: key(), version }, &["03", ROUND_BYTES, "010000006b", TAG_BYTES, "08000000", "00"]);
    says(Body::Stored { round }, &["04", ROUND_BYTES]);
    says(Body::Confirm { key: key(), tag: TAG }, &["05", TAGGED_BYTES]);
    says(Body::Inform { stages: vec![stage()] }, &["06", "01000000", STAGE_BYTES]);
    says(Body::Informed {}, &["07"]);
    says(Body::Behind {}, &["08"]);
    let list = Body::List { round, from: key(), tombstones: true, count: 5 };
    says(list, &["09", ROUND_BYTES, "010000006b", "01", "05000000"]);
    let entries = |outline| vec![Entry { key: key(), tag: TAG, outline }];
    let listed = |outline| Body::Listed { round, entries: entries(outline), end: true, floor: 7 };
    let listed_bytes = ["0a", ROUND_BYTES, "01000000", TAGGED_BYTES].concat();
    says(listed(Outline::Tombstone), &[&listed_bytes, "00", "01", SEVEN]);
    says(listed(Outline::Value { expires: None }), &[&listed_bytes, "0100", "01", SEVEN]);
    says(listed(Outline::Value { expires: Some(Stamp(7)) }), &[&listed_bytes, "0101", SEVEN, "01", SEVEN]);
    says(Body::Raise { round, floor: 7 }, &["0b", ROUND_BYTES, SEVEN]);
    says(Body::Raised { round }, &["0c", ROUND_BYTES]);
    says(Body::Bury { round, tombstones: tombstones.clone() }, &["0d", ROUND_BYTES, "01000000", TAGGED_BYTES]);
    says(Body::Buried { round }, &["0e", ROUND_BYTES]);
    says(Body::Forget { round, tombstones }, &["0f", ROUND_BYTES, "01000000", TAGGED_BYTES]);
    says(Body::Forgotten { round }, &["10", ROUND_BYTES]);
    says(Body::Prepare { ballot: BALLOT }, &["11", BALLOT_BYTES]);
    says(Body::Promise { ballot: BALLOT, voted: None }, &["12", BALLOT_BYTES, "00"]);
    let promise = Body::Promise { ballot: BALLOT, voted: Some(choice()) };
    says(promise, &["12", BALLOT_BYTES, "01", BALLOT_BYTES, CONFIGURATION_BYTES, "05000000"]);
    let propose = Body::Propose { choice: choice(), audience: 7 };
    says(propose, &["13", BALLOT_BYTES, CONFIGURATION_BYTES, "05000000", SEVEN]);
    says(Body::Vote { choice: choice() }, &["14", BALLOT_BYTES, CONFIGURATION_BYTES, "05000000"]);
    let version = Version { tag: TAG, renewed: Epoch(8), content: Content::Tombstone };
    let renew = Body::Renew { round, versions: vec![(key(), version)] };
    says(renew, &["16", ROUND_BYTES, "01000000", TAGGED_BYTES, "08000000", "00"]);
    says(Body::Renewed { round }, &["17", ROUND_BYTES]);
    says(Body::ConfirmAll { tags: vec![(key(), TAG)] }, &["18", "01000000", TAGGED_BYTES]);
    says(Body::Seal { round }, &["19", ROUND_BYTES]);
    says(Body::Sealed { round }, &["1a", ROUND_BYTES]);
    says(Body::Tell { round, after: None }, &["1b", ROUND_BYTES, "00"]);
    let versions = vec![(key(), Version { tag: TAG, renewed: Epoch(8), content: Content::Tombstone })];
    let told = Body::Told { round, versions, end: true };
    says(told, &["1c", ROUND_BYTES, "01000000", TAGGED_BYTES, "08000000", "00", "01"]);
    says(Body::Abstain { ballot: BALLOT, promised: BALLOT }, &["15", BALLOT_BYTES, BALLOT_BYTES]);
}

#[test]
fn records_of_a_register() {
    use register::{Content, Record, Version};
    golden(&Record::Known { stages: vec![stage()] }, &["21", "01000000", STAGE_BYTES]);
    let content = Content::Value { bytes: Arc::from(&b"hi"[..]), expires: None };
    let version = Version { tag: TAG, renewed: Epoch(8), content };
    let held = ["22", TAGGED_BYTES, "08000000", "0100", "020000006869"];
    golden(&Record::Held { key: key(), version }, &held);
    golden(&Record::Forgotten { key: key(), tag: TAG }, &["23", TAGGED_BYTES]);
    golden(&Record::Floor { floor: 7 }, &["24", SEVEN]);
    golden(&Record::Promised { epoch: Epoch(8), ballot: BALLOT }, &["25", EPOCH_BYTES, BALLOT_BYTES]);
    golden(&Record::Sealed {}, &["27"]);
    let voted = Record::Voted { epoch: Epoch(8), choice: choice() };
    golden(&voted, &["26", EPOCH_BYTES, BALLOT_BYTES, CONFIGURATION_BYTES, "05000000"]);
    golden(&QuorumSystem::Majority, &["00"]);
    golden(&QuorumSystem::Grid { rows: 2, columns: 3 }, &["020203"]);
}

#[test]
fn counts_and_lengths_are_not_believed() {
    // A promise of four thousand million values in five bytes.
    let mut bytes = Vec::new();
    Message::Promise { ballot: BALLOT, next_slot: SLOT, grant: 7, accepted: Vec::new() }.encode(&mut bytes);
    let count_at = bytes.len() - 4;
    bytes[count_at..].fill(0xff);
    assert_eq!(Message::decode_all(&bytes), Err(Malformed::TooLong { of: "accepted values" }));

    let mut bytes = Vec::new();
    command().encode(&mut bytes);
    bytes[17..21].fill(0xff);
    assert_eq!(Value::decode_all(&bytes), Err(Malformed::TooLong { of: "commands" }));
    bytes[17..21].copy_from_slice(&3u32.to_le_bytes());
    assert_eq!(Value::decode_all(&bytes), Err(Malformed::Truncated));
}

#[test]
fn unknown_tags_are_named() {
    assert_eq!(Message::decode_all(&[99]), Err(Malformed::UnknownTag { of: "message", tag: 99 }));
    assert_eq!(Record::decode_all(&[0]), Err(Malformed::UnknownTag { of: "record", tag: 0 }));
    assert_eq!(peers::Message::decode_all(&[3]), Err(Malformed::UnknownTag { of: "peer message", tag: 3 }));
    let error = Malformed::UnknownTag { of: "record", tag: 0 };
    assert_eq!(error.to_string(), "unknown record 0");
}

/// Whatever the bytes, decoding ends, in a value that encodes to what was read or in an error.
#[test]
fn noise_is_refused_or_read_faithfully() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..100_000 {
        let length = (next() % 80) as usize;
        let mut noise: Vec<u8> = (0..length).map(|_| if next() % 2 == 0 { 0 } else { next() as u8 }).collect();
        if let Some(tag) = noise.first_mut() {
            *tag %= 32;
        }
        faithful::<Message>(&noise);
        faithful::<Record>(&noise);
        faithful::<chain::Body>(&noise);
        faithful::<chain::Record>(&noise);
        faithful::<register::Body>(&noise);
        faithful::<register::Record>(&noise);
    }
}

fn faithful<T: Wire + Debug>(noise: &[u8]) {
    let mut reader = Reader::new(noise);
    if let Ok(decoded) = T::decode(&mut reader) {
        let mut bytes = Vec::new();
        decoded.encode(&mut bytes);
        assert_eq!(bytes, noise[..noise.len() - reader.remaining()], "{decoded:?}");
    }
}
