use quorate_protocol::id::Content;
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::router::{Kgroup, Scope, SessionId};
use quorate_protocol::{Ballot, Configuration, Value};

use super::*;
use crate::chain_view::ChainRest;
use crate::quorum::Stages;

const HEADER: Header = Header { node: NodeId(2), start: 3, sequence: 6, stamp: Stamp(4), wall: Stamp(8), directory: 5 };

fn frame(messages: &[Message<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| message.encode(&mut bytes));
    let mut frame = Vec::new();
    encode_frame(&HEADER, &bytes, &mut frame);
    frame
}

fn every_message() -> Vec<Message<'static>> {
    let (group, epoch) = (GroupId(9), Epoch(1));
    let members = [NodeId(1), NodeId(4)];
    let quorum = QuorumSystem::Threshold { read: 1, write: 2 };
    let stage = register::Stage::first(Configuration { group, epoch, members: members.into(), quorum });
    let told = Told { namespace: 3, hash_key: [7; 16], stages: Stages(vec![stage]), ..Told::question(group) };
    let wanted = Wanted::Members { members: members.to_vec(), quorum };
    let reconfigure = |wanted| Message::Reconfigure { group, start: 2, nonce: 3, wanted };
    let ballot = Ballot { number: 3, node: NodeId(1) };
    let value = Value { stamp: Stamp(4), seed: 5, content: Content::Commands((&b"reference"[..]).into()) };
    let accepted = vec![paxos::AcceptedValue { slot: Slot(5), ballot, value: value.clone() }];
    let testimony = paxos::Testimony { promised: ballot, next_slot: Slot(4), accepted };
    let accept = paxos::Message::Accept { ballot, slot: Slot(5), frontier: Slot(4), frontier_majority: Slot(3), value };
    let (session, kgroup, router) =
        (SessionId { coordinator: NodeId(1), number: 6 }, Kgroup::of_hash_slot(7), Message::Router);
    vec![
        Message::Peers(peers::Message::Heartbeat { sent_at: quorate_protocol::Instant(1) }),
        Message::Peers(peers::Message::Grant { sent_at: quorate_protocol::Instant(1), number: 2 }),
        Message::Request { group, epoch, access: Access::ReadQuorum, envelope: b"envelope" },
        Message::Reply { start: 1, number: 2, position: Position { slot: Slot(3), acknowledgers: 5 }, outcome: b"" },
        Message::Bounced { start: 1, number: 2, why: Bounce::NotCoordinator { coordinator: Some(NodeId(3)) } },
        Message::Bounced { start: 1, number: 2, why: Bounce::NotCoordinator { coordinator: None } },
        Message::Bounced { start: 1, number: 2, why: Bounce::Stopped },
        Message::Bounced { start: 1, number: 2, why: Bounce::Silent },
        Message::Silent { group, epoch },
        Message::Readmit { group, epoch, start: 2, next_slot: Slot(7), asks: Asks::Slots },
        Message::Testimony { group, epoch, start: 2, testimony },
        Message::Bounced { start: 1, number: 2, why: Bounce::OutOfMemory },
        Message::Snapshot { group, epoch, next_slot: 7, part: 1, last: true, bytes: b"part" },
        Message::SnapshotTaken { group, epoch, next_slot: 7, part: 1 },
        Message::Members(told),
        reconfigure(wanted),
        reconfigure(Wanted::Quorum(quorum)),
        reconfigure(Wanted::Renewal { epoch, fence: Epoch(1) }),
        Message::Reconfigured { start: 2, nonce: 3, outcome: Reconfigured::Decided },
        Message::Reconfigured { start: 2, nonce: 3, outcome: Reconfigured::Refused("no".into()) },
        Message::ViewQuestion { nonce: 4, groups: vec![group, GroupId(10)] },
        Message::ViewAnswer {
            nonce: 4,
            views: vec![ChainView {
                group,
                rest: ChainRest::Idle,
                epoch,
                received: Slot(7),
                decided: Slot(6),
                lease_us: 5,
            }],
        },
        Message::Births { volume: group, numbers: vec![1, 1 << 39] },
        Message::Born { volume: group, numbers: vec![2] },
        Message::StoreBehind,
        Message::Unable,
        Message::RootGroup(b"record"),
        Message::StatusQuestion { nonce: 4 },
        Message::StatusAnswer { nonce: 4, bytes: b"status" },
        Message::Digest(DigestMessage::Body { start: 2, number: 3, command: b"command" }),
        Message::Digest(DigestMessage::Spread { start: 2, number: 3 }),
        Message::Digest(DigestMessage::Referring { group, epoch, accept }),
        Message::Digest(DigestMessage::InFull { group, epoch, ballot, slot: Slot(5) }),
        router(RouterMessage::Ask { group, epoch, start: 1, asked_at: Instant(2), held: None }),
        router(RouterMessage::Ask { group, epoch, start: 1, asked_at: Instant(2), held: Some(session) }),
        router(RouterMessage::Grant { group, start: 1, asked_at: Instant(2), session, left_us: 3 }),
        router(RouterMessage::Recall { group, number: 4, scope: Scope::All }),
        router(RouterMessage::Recall { group, number: 4, scope: Scope::One(kgroup) }),
        router(RouterMessage::Recalled { group, number: 4 }),
        router(RouterMessage::Share { group, session, recalls: 4, kgroup, next_slot: Slot(5) }),
        router(RouterMessage::Request { group, epoch, access: Access::Write, session, envelope: b"envelope" }),
        router(RouterMessage::Read { group, epoch, slot: Slot(5), envelope: b"envelope" }),
    ]
}

#[test]
fn every_message_survives_a_frame() {
    let sent = every_message();
    let frame = frame(&sent);
    assert_eq!(frame_length(&frame), Ok(Some(frame.len())));
    let (header, bytes) = decode_frame(&frame).unwrap();
    assert_eq!(header, HEADER);
    let received: Vec<String> = messages(bytes).map(|message| format!("{:?}", message.unwrap())).collect();
    assert_eq!(received, sent.iter().map(|message| format!("{message:?}")).collect::<Vec<_>>());
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let frame = frame(&every_message());
    for at in LENGTH_BYTES..frame.len() {
        let mut damaged = frame.clone();
        damaged[at] ^= 4;
        assert!(decode_frame(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn a_kind_from_the_future_is_passed_over() {
    let mut bytes = vec![200, 2, 0, 0, 0, 1, 2];
    Message::StatusQuestion { nonce: 4 }.encode(&mut bytes);
    let received: Vec<_> = messages(&bytes).collect();
    assert!(matches!(received[..], [Ok(Message::StatusQuestion { nonce: 4 })]), "{received:?}");
}

#[test]
fn a_frame_is_awaited_whole_and_a_monstrous_one_refused() {
    let frame = frame(&every_message());
    for length in 0..frame.len() {
        assert_eq!(frame_length(&frame[..length]), Ok(None));
    }
    let monstrous = ((FRAME_BYTES_MAX + 1) as u32).to_le_bytes();
    assert_eq!(frame_length(&monstrous), Err(FrameError::TooLong(FRAME_BYTES_MAX + 1)));
}

#[test]
fn groups_are_told_without_taking_messages_apart() {
    let replica = |group| Message::Replica {
        group: GroupId(group),
        epoch: Epoch(1),
        message: AnyMessage::Paxos(paxos::Message::Fetch { from: Slot(1) }),
    };
    let mut bytes = Vec::new();
    for message in every_message().into_iter().chain([replica(11), replica(12)]) {
        message.encode(&mut bytes);
    }
    let named = |place: Result<Place, FrameError>| Some(place.ok()?.group?.0);
    let of = |bytes| places(bytes).filter_map(named).collect::<Vec<_>>();
    assert_eq!(of(&bytes), [9, 11, 12], "the request's and those of the replicas");
    for length in 0..bytes.len() {
        assert!([9, 11, 12].starts_with(&of(&bytes[..length])));
    }
    assert_eq!(of(&[0xff; 64]), [0; 0], "no message is so long");
    for place in places(&bytes).map(Result::unwrap) {
        let message = place.message(&bytes).unwrap().unwrap();
        let said = place.said(&bytes).map(|(epoch, said)| (epoch, format!("{said:?}")));
        let expected = match &message {
            Message::Replica { epoch, message: AnyMessage::Paxos(said), .. } => Some((*epoch, format!("{said:?}"))),
            _ => None,
        };
        assert_eq!(said, expected, "{message:?}");
    }
}
