//! What the tests share: short spellings of commands and outcomes, and a small random number generator.

#![allow(dead_code, reason = "each test file uses its part")]

use quorate_object::{
    Aggregate, Chance, Combination, Combined, Command, Condition, ElementScan, ExpireCondition, Expiry, HashOp,
    HashPart, KeysOp, ListOp, ListSide, MemberBound, Objects, OnKeys, Op, Outcome, ScoreBound, ScoreCondition,
    SetAnswer, SetOp, SortedSetOp, Span, Transaction, TtlUnit, Wrong,
};

pub(crate) const HASH_KEY: [u8; 16] = *b"sixteen bytes !!";

pub(crate) fn get(key: &str) -> Command<'_> {
    Command::Get { key: key.as_bytes() }
}

pub(crate) fn set<'a>(key: &'a str, value: &'a str) -> Command<'a> {
    set_with(key, value, Condition::Always, Expiry::Unset, SetAnswer::Ok)
}

pub(crate) fn set_until<'a>(key: &'a str, value: &'a str, at_ms: i64) -> Command<'a> {
    set_with(key, value, Condition::Always, Expiry::AtMs(at_ms), SetAnswer::Ok)
}

pub(crate) fn set_with<'a>(
    key: &'a str,
    value: &'a str,
    condition: Condition<'a>,
    expiry: Expiry,
    answer: SetAnswer,
) -> Command<'a> {
    Command::Set { key: key.as_bytes(), value: value.as_bytes(), condition, expiry, answer }
}

pub(crate) fn pttl(key: &str) -> Command<'_> {
    Command::Ttl { key: key.as_bytes(), unit: TtlUnit::Milliseconds }
}

pub(crate) fn expire(key: &str, at_ms: i64) -> Command<'_> {
    expire_if(key, at_ms, ExpireCondition::Always)
}

pub(crate) fn expire_if(key: &str, at_ms: i64, condition: ExpireCondition) -> Command<'_> {
    Command::ExpireAt { key: key.as_bytes(), at_ms, condition }
}

pub(crate) fn bulk(value: &str) -> Outcome {
    Outcome::Bulk(value.as_bytes().to_vec())
}

pub(crate) fn error(line: &str) -> Outcome {
    Outcome::Error(line.to_owned())
}

/// Runs each command at its time, and compares.
pub(crate) fn check(objects: &mut Objects, steps: &[(u64, Command<'_>, Outcome)]) {
    for (n, (time_ms, command, expected)) in steps.iter().enumerate() {
        assert_eq!(objects.run(command, *time_ms, 0), *expected, "step {n}: {command:?}");
    }
}

/// Xorshift: the same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len() as u64) as usize]
    }

    pub(crate) fn bytes(&mut self, len_max: u64) -> Vec<u8> {
        (0..self.below(len_max + 1)).map(|_| self.next() as u8).collect()
    }
}

/// Of some commands on objects of one hash slot.
fn any_transaction(random: &mut Random, time_ms: u64) -> Transaction<'static> {
    let mut commands: Vec<Command<'static>> = Vec::new();
    let mut found = None;
    for _ in 0..30 {
        commands.push(match random.below(6) {
            0 => Command::OnKeys(any_on_keys(random)),
            _ => any_plain_command(random, time_ms),
        });
        match Transaction::new(commands.clone()) {
            Some(transaction) => found = Some(transaction),
            None => drop(commands.pop()),
        }
    }
    found.expect("some of thirty commands are on objects")
}

fn any_op(random: &mut Random, value: &'static [u8]) -> Op<'static> {
    match random.below(4) {
        0 => Op::Hash(any_hash_op(random, value)),
        1 => Op::List(any_list_op(random, value)),
        2 => Op::Set(any_set_op(random)),
        _ => Op::SortedSet(any_sorted_set_op(random)),
    }
}

const ELEMENTS: [&[u8]; 10] = [b"", b"f", b"g", b"h", b"1", b"2", b"-17", b"a longer element", b"\xff\x00", b"text"];

fn any_elements(random: &mut Random) -> Vec<&'static [u8]> {
    (0..=random.below(4)).map(|_| random.pick(&ELEMENTS)).collect()
}

fn any_chance(random: &mut Random) -> Chance {
    let count = (random.below(3) > 0).then(|| random.below(12) as i64 - 5);
    Chance { count, seed: random.next() }
}

fn any_scan(random: &mut Random) -> ElementScan<'static> {
    ElementScan { from: random.below(4), count: random.below(4) as u32, pattern: None, wrong: None }
}

fn any_hash_op(random: &mut Random, value: &'static [u8]) -> HashOp<'static> {
    let field = random.pick(&ELEMENTS);
    match random.below(16) {
        0..4 => HashOp::Set {
            pairs: any_elements(random).into_iter().map(|field| (field, value)).collect(),
            answers_ok: random.below(2) == 0,
        },
        4 => HashOp::SetNx { field, value },
        5 => HashOp::Get { field },
        6 => HashOp::MGet { fields: any_elements(random) },
        7 => HashOp::All { what: *random.pick(&[&HashPart::Field, &HashPart::Value, &HashPart::Both]) },
        8 => HashOp::Len,
        9 => HashOp::Exists { field },
        10 => HashOp::Strlen { field },
        11 => HashOp::Del { fields: any_elements(random) },
        12 => HashOp::IncrBy { field, delta: random.below(9) as i64 - 4 },
        13 => HashOp::IncrByFloat { field, delta: random.below(99) as f64 / 8.0 - 3.0 },
        14 => HashOp::Scan(any_scan(random)),
        _ => HashOp::Random { with_values: random.below(2) == 0, chance: any_chance(random) },
    }
}

fn any_list_op(random: &mut Random, value: &'static [u8]) -> ListOp<'static> {
    const INDEXES: [&[u8]; 7] = [b"0", b"1", b"-1", b"4", b"-9", b"x", b"9223372036854775807"];
    let side = *random.pick(&[&ListSide::Left, &ListSide::Right]);
    let (element, index) = (random.pick(&ELEMENTS), random.pick(&INDEXES));
    let (start, stop) = (random.below(9) as i64 - 4, random.below(9) as i64 - 4);
    let count = (random.below(2) == 0).then(|| random.below(4));
    match random.below(16) {
        0..5 => ListOp::Push { side, values: any_elements(random), if_there: random.below(4) == 0 },
        5 => ListOp::Pop { side, count },
        6 => ListOp::Len,
        7 | 8 => ListOp::Range { start, stop },
        9 => ListOp::Index { index },
        10 => ListOp::Set { index, value },
        11 => ListOp::Insert { after: random.below(2) == 0, pivot: element, value },
        12 => ListOp::Remove { count: start, element },
        13 => ListOp::Trim { start, stop: stop + 4 },
        _ => ListOp::Pos { element, rank: start, count, compared_max: random.below(6) },
    }
}

fn any_set_op(random: &mut Random) -> SetOp<'static> {
    match random.below(14) {
        0..5 => SetOp::Add { members: any_elements(random) },
        5 => SetOp::Remove { members: any_elements(random) },
        6 => SetOp::Has { member: random.pick(&ELEMENTS) },
        7 => SetOp::HasEach { members: any_elements(random) },
        8 => SetOp::Members,
        9 => SetOp::Len,
        10 | 11 => SetOp::Pop { count: (random.below(2) == 0).then(|| random.below(6)) },
        12 => SetOp::Random { chance: any_chance(random) },
        _ => SetOp::Scan(any_scan(random)),
    }
}

fn any_score(random: &mut Random) -> f64 {
    const SCORES: [f64; 10] = [0.0, -0.0, 1.0, 1.0, -1.5, 0.1, 1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY];
    SCORES[random.below(10) as usize]
}

fn any_score_condition(random: &mut Random) -> ScoreCondition {
    *random.pick(&[
        &ScoreCondition::Always,
        &ScoreCondition::Always,
        &ScoreCondition::Always,
        &ScoreCondition::IfAbsent,
        &ScoreCondition::IfPresent,
        &ScoreCondition::IfGreater,
        &ScoreCondition::IfLess,
        &ScoreCondition::IfPresentAndGreater,
        &ScoreCondition::IfPresentAndLess,
    ])
}

fn any_score_bound(random: &mut Random) -> ScoreBound {
    ScoreBound { score: any_score(random), excluded: random.below(2) == 0 }
}

fn any_member_bound(random: &mut Random) -> MemberBound<'static> {
    match random.below(6) {
        0 => MemberBound::First,
        1 => MemberBound::Last,
        2 | 3 => MemberBound::Including(random.pick(&ELEMENTS)),
        _ => MemberBound::Excluding(random.pick(&ELEMENTS)),
    }
}

fn any_span(random: &mut Random) -> Span<'static> {
    match random.below(3) {
        0 => Span::Ranks { start: random.below(9) as i64 - 4, end: random.below(9) as i64 - 4 },
        1 => Span::Scores { min: any_score_bound(random), max: any_score_bound(random) },
        _ => Span::Members { min: any_member_bound(random), max: any_member_bound(random) },
    }
}

fn any_sorted_set_op(random: &mut Random) -> SortedSetOp<'static> {
    let member = random.pick(&ELEMENTS);
    match random.below(18) {
        0..6 => SortedSetOp::Add {
            pairs: any_elements(random).into_iter().map(|member| (member, any_score(random))).collect(),
            condition: any_score_condition(random),
            counts_changed: random.below(2) == 0,
        },
        6 => SortedSetOp::Incr { member, delta: any_score(random), condition: any_score_condition(random) },
        7 => SortedSetOp::Remove { members: any_elements(random) },
        8 => SortedSetOp::Score { member },
        9 => SortedSetOp::MScore { members: any_elements(random) },
        10 => SortedSetOp::Len,
        11 => SortedSetOp::Count { span: any_span(random) },
        12 => SortedSetOp::Range {
            span: any_span(random),
            offset: random.below(4) as i64 - 1,
            count: random.below(4) as i64 - 1,
            reversed: random.below(2) == 0,
            with_scores: random.below(2) == 0,
        },
        13 => SortedSetOp::Rank { member, reversed: random.below(2) == 0 },
        14 => {
            SortedSetOp::Pop { highest: random.below(2) == 0, count: (random.below(2) == 0).then(|| random.below(4)) }
        }
        15 => SortedSetOp::RemoveRange { span: any_span(random) },
        16 => SortedSetOp::Scan(any_scan(random)),
        _ => SortedSetOp::Random { with_scores: random.below(2) == 0, chance: any_chance(random) },
    }
}

/// On keys that lie in one hash slot, where other commands put objects of all types.
fn any_on_keys(random: &mut Random) -> OnKeys<'static> {
    const KEYS: [&[u8]; 4] = [b"e", b"{e}1", b"{e}2", b"{e}"];
    let keys = (0..=random.below(4)).map(|_| random.pick(&KEYS)).collect::<Vec<_>>();
    let count = keys.len();
    loop {
        // Some are for another number of keys.
        if let Some(on_keys) = OnKeys::new(keys.clone(), any_keys_op(random, count)) {
            return on_keys;
        }
    }
}

fn any_keys_op(random: &mut Random, keys: usize) -> KeysOp<'static> {
    let side = |random: &mut Random| *random.pick(&[&ListSide::Left, &ListSide::Right]);
    let member = random.pick(&ELEMENTS);
    let how = *random.pick(&[&Combination::Union, &Combination::Intersection, &Combination::Difference]);
    let result = match random.below(5) {
        0 => Combined::Members,
        1 => Combined::Scores,
        2 => Combined::Count { most: random.below(3) },
        _ => Combined::Stored,
    };
    let weights = random.below(keys as u64 + 1);
    match random.below(13) {
        0 | 1 => KeysOp::MoveElement { from: side(random), to: side(random) },
        2 | 3 => KeysOp::MoveMember { member },
        4 => KeysOp::Rename { if_absent: random.below(2) == 0 },
        5 => KeysOp::Copy { replace: random.below(2) == 0 },
        6 => KeysOp::SetIfAllAbsent { values: (0..keys).map(|_| random.pick(&ELEMENTS)).collect() },
        7 => KeysOp::PopElements { side: side(random), count: 1 + random.below(3) },
        8 => KeysOp::PopMembers { highest: random.below(2) == 0, count: 1 + random.below(3) },
        9 => KeysOp::StoreRange {
            span: any_span(random),
            offset: random.below(3) as i64,
            count: random.below(4) as i64 - 1,
            reversed: random.below(2) == 0,
        },
        10 => KeysOp::CombineSets { how, result },
        _ => KeysOp::CombineSortedSets {
            how,
            weights: (0..weights).map(|_| any_score(random)).collect(),
            aggregate: *random.pick(&[&Aggregate::Sum, &Aggregate::Least, &Aggregate::Greatest]),
            result,
            wrong: (random.below(9) == 0).then_some(Wrong::WeightNotAFloat),
        },
    }
}

/// A random command of any kind on a few keys, with times around `time_ms`.
pub(crate) fn any_command(random: &mut Random, time_ms: u64) -> Command<'static> {
    match random.below(12) {
        0 => Command::Transaction(any_transaction(random, time_ms)),
        1 => Command::OnKeys(any_on_keys(random)),
        _ => any_plain_command(random, time_ms),
    }
}

fn any_plain_command(random: &mut Random, time_ms: u64) -> Command<'static> {
    const KEYS: [&[u8]; 13] =
        [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"", b"{e}1", b"{e}2", b"key:2", b"\xff\x00"];
    const VALUES: [&[u8]; 8] =
        [b"", b"0", b"17", b"-9223372036854775808", b"1.5", b"text", b"1e300", b"a longer value, really"];
    const PATTERNS: [&[u8]; 4] = [b"*", b"key:?", b"[a-d]", b"nothing"];
    let key = random.pick(&KEYS);
    let value = random.pick(&VALUES);
    let at_ms = time_ms as i64 + random.below(200) as i64 - 40;
    let expiry = match random.below(5) {
        0 => Expiry::Keep,
        1 => Expiry::Remove,
        2 => Expiry::AtMs(at_ms),
        _ => Expiry::Unset,
    };
    match random.below(34) {
        24..34 => Command::Elements { key, op: any_op(random, value) },
        0 => Command::Get { key },
        1 => Command::Strlen { key },
        2 => Command::GetRange { key, start: random.below(12) as i64 - 6, end: random.below(12) as i64 - 6 },
        3 => Command::Exists { key },
        4 => Command::Type { key },
        5 => Command::Ttl {
            key,
            unit: *random.pick(&[
                &TtlUnit::Seconds,
                &TtlUnit::Milliseconds,
                &TtlUnit::UnixSeconds,
                &TtlUnit::UnixMilliseconds,
            ]),
        },
        6..=9 => Command::Set {
            key,
            value,
            condition: match random.below(6) {
                0 => Condition::IfAbsent,
                1 => Condition::IfPresent,
                2 => Condition::IfEqual(random.pick(&VALUES)),
                _ => Condition::Always,
            },
            expiry,
            answer: *random.pick(&[&SetAnswer::Ok, &SetAnswer::Old, &SetAnswer::Flag]),
        },
        10 => Command::GetSet { key, value },
        11 => Command::GetDel { key },
        12 => Command::GetEx { key, expiry },
        13 | 14 => Command::Append { key, value },
        15 => Command::SetRange { key, offset: random.below(40) as u32, value },
        16 => Command::IncrBy { key, delta: random.below(9) as i64 - 4 },
        17 => Command::IncrByFloat { key, delta: random.below(99) as f64 / 8.0 - 3.0 },
        18 => Command::Del { key },
        19 => Command::ExpireAt {
            key,
            at_ms,
            condition: *random.pick(&[
                &ExpireCondition::Always,
                &ExpireCondition::IfNone,
                &ExpireCondition::IfSome,
                &ExpireCondition::IfGreater,
                &ExpireCondition::IfLess,
                &ExpireCondition::IfSomeAndLess,
            ]),
        },
        20 => Command::Persist { key },
        21 => Command::Count,
        22 => Command::Scan {
            from: random.next() >> 16,
            count: random.below(6) as u32,
            pattern: Some(random.pick(&PATTERNS)),
            type_name: (random.below(2) == 0).then_some(b"STRING"),
        },
        _ if random.below(20) == 0 => Command::Flush,
        _ => Command::Keys { pattern: random.pick(&PATTERNS) },
    }
}
