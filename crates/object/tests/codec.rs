//! Commands, changes and outcomes survive their bytes; the bytes never change; no bytes make a decoder panic.

mod common;

use std::borrow::Cow;

use common::{Random, any_command};
use quorate_object::{
    Aggregate, Change, Combination, Combined, Command, Condition, ExpireCondition, Expiry, KeysOp, ListChange, ListOp,
    ListSide, MemberBound, OBJECT_BYTES_MAX, Objects, OnKeys, Op, OpChange, Outcome, ScoreBound, ScoreCondition,
    SetAnswer, SetChange, SetOp, SortedSetChange, SortedSetOp, Span, TtlUnit, WORDS, Wrong,
};

fn command_bytes(command: &Command<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    command.encode(&mut out);
    out
}

fn change_bytes(change: &Change<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    change.encode(&mut out);
    out
}

fn outcome_bytes(outcome: &Outcome) -> Vec<u8> {
    let mut out = Vec::new();
    outcome.encode(&mut out);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One of each, with its bytes since release 0.1. A line here may be added but never changed.
fn golden_commands() -> Vec<(Command<'static>, &'static str)> {
    let key = &b"k"[..];
    let value = &b"vw"[..];
    let set = |condition, expiry, answer| Command::Set { key, value, condition, expiry, answer };
    let list = |op| Command::Elements { key, op: Op::List(op) };
    let set_of = |op| Command::Elements { key, op: Op::Set(op) };
    vec![
        (Command::Get { key }, "01010000006b"),
        (Command::Strlen { key }, "02010000006b"),
        (Command::GetRange { key, start: 1, end: -1 }, "03010000006b0100000000000000ffffffffffffffff"),
        (Command::Exists { key }, "04010000006b"),
        (Command::Type { key }, "05010000006b"),
        (Command::Ttl { key, unit: TtlUnit::Seconds }, "06010000006b00"),
        (Command::Ttl { key, unit: TtlUnit::Milliseconds }, "06010000006b01"),
        (Command::Ttl { key, unit: TtlUnit::UnixSeconds }, "06010000006b02"),
        (Command::Ttl { key, unit: TtlUnit::UnixMilliseconds }, "06010000006b03"),
        (set(Condition::Always, Expiry::Unset, SetAnswer::Ok), "1000010000006b020000007677"),
        (set(Condition::IfAbsent, Expiry::Keep, SetAnswer::Flag), "1025010000006b020000007677"),
        (set(Condition::IfPresent, Expiry::AtMs(258), SetAnswer::Ok), "100e010000006b0200000076770201000000000000"),
        (
            set(Condition::IfEqual(b"x"), Expiry::AtMs(-1), SetAnswer::Old),
            "101f010000006b020000007677ffffffffffffffff0100000078",
        ),
        (Command::GetSet { key, value }, "11010000006b020000007677"),
        (Command::GetDel { key }, "12010000006b"),
        (Command::GetEx { key, expiry: Expiry::Unset }, "1300010000006b"),
        (Command::GetEx { key, expiry: Expiry::Remove }, "1302010000006b"),
        (Command::GetEx { key, expiry: Expiry::AtMs(1) }, "1303010000006b0100000000000000"),
        (Command::Append { key, value }, "14010000006b020000007677"),
        (Command::SetRange { key, offset: 9, value }, "15010000006b09000000020000007677"),
        (Command::IncrBy { key, delta: -2 }, "16010000006bfeffffffffffffff"),
        (Command::IncrByFloat { key, delta: 1.5 }, "17010000006b000000000000f83f"),
        (Command::Del { key }, "18010000006b"),
        (Command::ExpireAt { key, at_ms: 7, condition: ExpireCondition::Always }, "19010000006b070000000000000000"),
        (Command::ExpireAt { key, at_ms: 7, condition: ExpireCondition::IfNone }, "19010000006b070000000000000001"),
        (Command::ExpireAt { key, at_ms: 7, condition: ExpireCondition::IfSome }, "19010000006b070000000000000002"),
        (Command::ExpireAt { key, at_ms: 7, condition: ExpireCondition::IfGreater }, "19010000006b070000000000000003"),
        (Command::ExpireAt { key, at_ms: 7, condition: ExpireCondition::IfLess }, "19010000006b070000000000000004"),
        (
            Command::ExpireAt { key, at_ms: 7, condition: ExpireCondition::IfSomeAndLess },
            "19010000006b070000000000000005",
        ),
        (Command::Persist { key }, "1a010000006b"),
        (Command::Count, "30"),
        (
            Command::Scan { from: 5, count: 10, pattern: Some(b"*"), type_name: None },
            "3105000000000000000a00000001010000002a00",
        ),
        (Command::Keys { pattern: b"a?" }, "3202000000613f"),
        (Command::Flush, "33"),
        (
            list(ListOp::Push { side: ListSide::Right, values: vec![value], if_there: true }),
            "21010000006b00010101000000020000007677",
        ),
        (
            list(ListOp::Pos { element: value, rank: -1, count: Some(2), compared_max: 3 }),
            "21010000006b09020000007677ffffffffffffffff0102000000000000000300000000000000",
        ),
        (set_of(SetOp::Add { members: vec![value, b""] }), "22010000006b000200000002000000767700000000"),
        (set_of(SetOp::Pop { count: Some(2) }), "22010000006b06010200000000000000"),
    ]
    .into_iter()
    .chain(golden_sorted_set_commands())
    .chain(golden_commands_on_keys())
    .collect()
}

fn golden_commands_on_keys() -> Vec<(Command<'static>, &'static str)> {
    let on = |keys: &[&'static [u8]], op| Command::OnKeys(OnKeys::new(keys.to_vec(), op).expect("of one slot"));
    let (how, result) = (Combination::Difference, Combined::Count { most: 5 });
    let (both, same): ([&[u8]; 2], [&[u8]; 2]) = ([b"a", b"{a}"], [b"a", b"a"]);
    let span = Span::Ranks { start: 1, end: -1 };
    vec![
        (
            on(&both, KeysOp::MoveElement { from: ListSide::Left, to: ListSide::Right }),
            "2900010000006101000000030000007b617d000001",
        ),
        (on(&same, KeysOp::MoveMember { member: b"m" }), "2901010000006101000000010000006101010000006d"),
        (on(&both, KeysOp::Rename { if_absent: true }), "2900010000006101000000030000007b617d0201"),
        (on(&both, KeysOp::Copy { replace: true }), "2900010000006101000000030000007b617d0301"),
        (
            on(&both, KeysOp::SetIfAllAbsent { values: vec![b"v", b""] }),
            "2900010000006101000000030000007b617d0402000000010000007600000000",
        ),
        (
            on(&both, KeysOp::PopElements { side: ListSide::Right, count: 2 }),
            "2900010000006101000000030000007b617d05010200000000000000",
        ),
        (
            on(&both, KeysOp::PopMembers { highest: true, count: 3 }),
            "2900010000006101000000030000007b617d06010300000000000000",
        ),
        (
            on(&both, KeysOp::StoreRange { span, offset: 1, count: 2, reversed: true }),
            "2900010000006101000000030000007b617d07000100000000000000ffffffffffffffff0100000000000000020000000000000001",
        ),
        (
            on(&both, KeysOp::CombineSets { how, result: Combined::Stored }),
            "2900010000006101000000030000007b617d080203",
        ),
        (
            on(
                &both,
                KeysOp::CombineSortedSets {
                    how: Combination::Intersection,
                    weights: vec![1.5, 0.0],
                    aggregate: Aggregate::Greatest,
                    result,
                    wrong: Some(Wrong::NegativeLimit),
                },
            ),
            "2900010000006101000000030000007b617d090102000000000000000000f83f00000000000000000202050000000000000004",
        ),
    ]
}

fn golden_sorted_set_commands() -> Vec<(Command<'static>, &'static str)> {
    let on = |op| Command::Elements { key: b"k", op: Op::SortedSet(op) };
    let condition = ScoreCondition::IfPresentAndLess;
    let scores = Span::Scores {
        min: ScoreBound { score: 1.0, excluded: true },
        max: ScoreBound { score: f64::INFINITY, excluded: false },
    };
    let members = Span::Members { min: MemberBound::Excluding(b"a"), max: MemberBound::Last };
    vec![
        (
            on(SortedSetOp::Add { pairs: vec![(b"vw", 1.5), (b"", -0.0)], condition, counts_changed: true }),
            "23010000006b00060102000000020000007677000000000000f83f000000000000000000000080",
        ),
        (
            on(SortedSetOp::Incr { member: b"m", delta: 2.0, condition: ScoreCondition::Always }),
            "23010000006b0100010000006d0000000000000040",
        ),
        (on(SortedSetOp::Count { span: scores }), "23010000006b060101000000000000f03f00000000000000f07f"),
        (
            on(SortedSetOp::Range { span: members, offset: 1, count: -1, reversed: true, with_scores: false }),
            "23010000006b0702030100000061010100000000000000ffffffffffffffff0100",
        ),
        (on(SortedSetOp::Pop { highest: true, count: Some(3) }), "23010000006b0901010300000000000000"),
        (
            on(SortedSetOp::RemoveRange { span: Span::Ranks { start: 0, end: -1 } }),
            "23010000006b0a000000000000000000ffffffffffffffff",
        ),
    ]
}

fn golden_changes() -> Vec<(Change<'static>, &'static str)> {
    let key = &b"k"[..];
    let value = Cow::Borrowed(&b"vw"[..]);
    let list = |change| Change::Elements { key, change: OpChange::List(change) };
    let set = |change| Change::Elements { key, change: OpChange::Set(change) };
    vec![
        (Change::Put { key, value: value.clone(), expires_ms: None }, "01010000006b02000000767700"),
        (Change::Put { key, value, expires_ms: Some(3) }, "01010000006b020000007677010300000000000000"),
        (Change::Write { key, offset: 4, bytes: b"x" }, "02010000006b040000000100000078"),
        (Change::Expire { key, expires_ms: Some(1) }, "03010000006b010100000000000000"),
        (Change::Expire { key, expires_ms: None }, "03010000006b00"),
        (Change::Delete { key }, "04010000006b"),
        (Change::Flush, "05"),
        (Change::Store { key, object: Cow::Borrowed(b"\x01\x01\0vw") }, "0a010000006b050000000101007677"),
        (
            list(ListChange::Push { side: ListSide::Left, values: vec![Cow::Borrowed(b"vw")] }),
            "07010000006b000001000000020000007677",
        ),
        (list(ListChange::Trim { start: 1, len: 2 }), "07010000006b010100000002000000"),
        (list(ListChange::Remove { count: -1, element: b"vw" }), "07010000006b04ffffffffffffffff020000007677"),
        (set(SetChange::Remove(vec![Cow::Borrowed(b"vw")])), "08010000006b0101000000020000007677"),
        (set(SetChange::Clear), "08010000006b02"),
        (
            Change::Elements { key, change: OpChange::SortedSet(SortedSetChange::Put(vec![(b"m", 1.0)])) },
            "09010000006b0001000000010000006d000000000000f03f",
        ),
        (
            Change::Elements { key, change: OpChange::SortedSet(SortedSetChange::Remove(vec![(b"m"[..]).into()])) },
            "09010000006b0101000000010000006d",
        ),
    ]
}

fn golden_outcomes() -> Vec<(Outcome, &'static str)> {
    vec![
        (Outcome::Ok, "00"),
        (Outcome::Nil, "01"),
        (Outcome::Int(-1), "02ffffffffffffffff"),
        (Outcome::Bulk(b"vw".to_vec()), "03020000007677"),
        (Outcome::Word("none"), "0400"),
        (Outcome::Word("string"), "0401"),
        (Outcome::Error("ERR".to_owned()), "0503000000455252"),
        (Outcome::Keys(vec![b"a".to_vec(), Vec::new()]), "0602000000010000006100000000"),
        (Outcome::Scan { next: None, keys: Vec::new() }, "070000000000"),
        (Outcome::Scan { next: Some(2), keys: vec![b"a".to_vec()] }, "07010200000000000000010000000100000061"),
    ]
}

#[test]
fn golden_bytes_stay() {
    for (command, golden) in golden_commands() {
        let bytes = command_bytes(&command);
        assert_eq!(hex(&bytes), golden, "{command:?}");
        assert_eq!(Command::key_of(&bytes), command.key(), "{command:?}");
        assert_eq!(Command::decode(&bytes), Ok(command));
    }
    for (change, golden) in golden_changes() {
        let bytes = change_bytes(&change);
        assert_eq!(hex(&bytes), golden, "{change:?}");
        assert_eq!(Change::decode(&bytes), Ok(change));
    }
    for (outcome, golden) in golden_outcomes() {
        let bytes = outcome_bytes(&outcome);
        assert_eq!(hex(&bytes), golden, "{outcome:?}");
        assert_eq!(Outcome::decode(&bytes), Ok(outcome));
    }
}

#[test]
fn every_word_has_a_code() {
    for word in WORDS {
        let outcome = Outcome::Word(word);
        assert_eq!(Outcome::decode(&outcome_bytes(&outcome)), Ok(outcome));
    }
}

#[test]
fn random_commands_changes_and_outcomes_survive() {
    let mut random = Random(1);
    let mut objects = Objects::new([1; 16]);
    for time_ms in 0..20_000 {
        let command = any_command(&mut random, time_ms);
        let bytes = command_bytes(&command);
        assert_eq!(Command::decode(&bytes).as_ref(), Ok(&command));
        assert_eq!(Command::key_of(&bytes), command.key());
        let (change, outcome) = objects.execute(&command, time_ms, 0);
        assert_eq!(Outcome::decode(&outcome_bytes(&outcome)).as_ref(), Ok(&outcome));
        assert_eq!(outcome_bytes(&outcome).len(), outcome.encoded_bytes());
        if let Some(change) = change {
            assert_eq!(Change::decode(&change_bytes(&change)).as_ref(), Ok(&change));
            objects.apply(change, time_ms);
        }
    }
}

#[test]
fn cut_extended_and_random_bytes_are_refused_or_mean_themselves() {
    let mut samples: Vec<Vec<u8>> = Vec::new();
    samples.extend(golden_commands().iter().map(|(command, _)| command_bytes(command)));
    samples.extend(golden_changes().iter().map(|(change, _)| change_bytes(change)));
    samples.extend(golden_outcomes().iter().map(|(outcome, _)| outcome_bytes(outcome)));
    let mut random = Random(2);
    let mut decoded_count = 0;
    for round in 0..200_000 {
        let sample = &samples[random.below(samples.len() as u64) as usize];
        let mut bytes = if round % 4 == 0 { random.bytes(40) } else { sample.clone() };
        for _ in 0..random.below(3) {
            if let Some(byte) = bytes.get_mut(random.below(40) as usize) {
                *byte = random.next() as u8;
            }
        }
        // What is accepted is exactly what an encoder writes, so there is one spelling of everything.
        if let Ok(command) = Command::decode(&bytes) {
            assert_eq!(command_bytes(&command), bytes);
            decoded_count += 1;
        }
        if let Ok(change) = Change::decode(&bytes) {
            assert_eq!(change_bytes(&change), bytes);
            decoded_count += 1;
        }
        if let Ok(outcome) = Outcome::decode(&bytes) {
            assert_eq!(outcome_bytes(&outcome), bytes);
            decoded_count += 1;
        }
        let _ = Objects::new([0; 16]).restore_object(b"k", &bytes);
    }
    assert!(decoded_count > 10_000, "only {decoded_count} were decoded");
    for (command, _) in golden_commands() {
        let mut bytes = command_bytes(&command);
        for len in 0..bytes.len() {
            assert!(Command::decode(&bytes[..len]).is_err(), "{command:?} cut to {len} bytes");
        }
        bytes.push(0);
        assert!(Command::decode(&bytes).is_err(), "{command:?} and one byte more");
    }
}

#[test]
fn a_change_beyond_the_limit_is_refused() {
    let offset = OBJECT_BYTES_MAX as u32;
    let fits = Change::Write { key: b"k", offset: offset - 1, bytes: b"x" };
    assert!(Change::decode(&change_bytes(&fits)).is_ok());
    let beyond = Change::Write { key: b"k", offset, bytes: b"x" };
    assert!(Change::decode(&change_bytes(&beyond)).is_err());
}
