//! Commands on the objects of several keys: when objects expire, what has no room, what is elsewhere.
//!
//! What they answer is told by conversations recorded from Redis, in `crates/front/tests/golden`.

mod common;

use common::{HASH_KEY, bulk, check, error, expire, get, pttl, set, set_until};
use quorate_object::{
    APART, Access, Aggregate, Combination, Combined, Command, KeysOp, ListOp, ListSide, NAME_BYTES_MAX,
    OBJECT_BYTES_MAX, Objects, OnKeys, Op, Outcome, SetOp, SortedSetOp, Span, Transaction,
};

const MOVE: KeysOp<'_> = KeysOp::MoveElement { from: ListSide::Left, to: ListSide::Right };
const RENAME: KeysOp<'_> = KeysOp::Rename { if_absent: false };
const UNION: KeysOp<'_> = KeysOp::CombineSets { how: Combination::Union, result: Combined::Members };
const STORE_UNION: KeysOp<'_> = KeysOp::CombineSets { how: Combination::Union, result: Combined::Stored };

fn on<'a>(keys: &[&'a str], op: KeysOp<'a>) -> Command<'a> {
    let keys = keys.iter().map(|key| key.as_bytes()).collect();
    Command::OnKeys(OnKeys::new(keys, op).expect("an operation on these keys"))
}

fn push<'a>(key: &'a str, values: Vec<&'a [u8]>) -> Command<'a> {
    let op = Op::List(ListOp::Push { side: ListSide::Right, values, if_there: false });
    Command::Elements { key: key.as_bytes(), op }
}

fn add<'a>(key: &'a str, members: Vec<&'a [u8]>) -> Command<'a> {
    Command::Elements { key: key.as_bytes(), op: Op::Set(SetOp::Add { members }) }
}

fn len_of_set(key: &str) -> Command<'_> {
    Command::Elements { key: key.as_bytes(), op: Op::Set(SetOp::Len) }
}

#[test]
fn what_would_look_at_very_many_elements_is_not_executed() {
    let objects = &mut Objects::new(HASH_KEY);
    let members: Vec<String> = (0..1024).map(|number| number.to_string()).collect();
    let members: Vec<&[u8]> = members.iter().map(String::as_bytes).collect();
    let refused = || {
        error(
            "ERR not executed: more than 1048576 elements would be looked at in one step: name fewer or smaller objects",
        )
    };
    let combine = |names: usize, how: Combination| {
        on(&vec!["{t}s"; names], KeysOp::CombineSets { how, result: Combined::Count { most: 1 } })
    };
    let (union, others) = (Combination::Union, [Combination::Intersection, Combination::Difference]);
    check(objects, &[(0, add("{t}s", members), Outcome::Int(1024)), (0, combine(1024, union), Outcome::Int(1))]);
    check(objects, &[(0, combine(1025, union), refused())]);
    others.into_iter().for_each(|how| check(objects, &[(0, combine(1025, how), refused())]));
    let twice = Transaction::new(vec![combine(600, union), combine(600, union)]).expect("on one object");
    let half = Outcome::List(vec![Outcome::Int(1), refused()]);
    check(objects, &[(0, Command::Transaction(twice), half)]);
}

#[test]
fn how_much_is_copied_is_known_before() {
    let objects = &mut Objects::new(HASH_KEY);
    let large = "x".repeat(100_000);
    check(
        objects,
        &[
            (0, set("{t}string", &large), Outcome::Ok),
            (0, add("{t}large", vec![large.as_bytes()]), Outcome::Int(1)),
            (0, add("{t}small", vec![b"a", b"b"]), Outcome::Int(2)),
        ],
    );
    let copy = || on(&["{t}string", "{t}to"], KeysOp::Copy { replace: false });
    assert_eq!(copy().copied_bytes(objects), 100_000);
    let stored = |how| on(&["{t}to", "{t}small", "{t}large"], KeysOp::CombineSets { how, result: Combined::Stored });
    assert!((100_000..100_200).contains(&stored(Combination::Union).copied_bytes(objects)));
    assert!(stored(Combination::Intersection).copied_bytes(objects) < 100);
    assert!(stored(Combination::Difference).copied_bytes(objects) < 100);
    let twice = Transaction::new(vec![copy(), copy()]).expect("of one slot");
    assert_eq!(Command::Transaction(twice).copied_bytes(objects), 200_000);
    assert_eq!(on(&["{t}string", "{t}to"], RENAME).copied_bytes(objects), 0);
}

#[test]
fn an_expiry_goes_with_a_name_and_a_copy_and_with_nothing_that_is_made_of_others() {
    let int = Outcome::Int;
    let objects = &mut Objects::new(HASH_KEY);
    check(
        objects,
        &[
            (0, set_until("{t}a", "v", 100), Outcome::Ok),
            (0, set_until("{t}b", "w", 900), Outcome::Ok),
            (1, on(&["{t}a", "{t}b"], RENAME), Outcome::Ok),
            (1, pttl("{t}b"), int(99)),
            (1, on(&["{t}b", "{t}c"], KeysOp::Copy { replace: false }), int(1)),
            (99, pttl("{t}c"), int(1)),
            // Both have expired.
            (100, on(&["{t}b", "{t}d"], RENAME), error("ERR no such key")),
            (100, on(&["{t}c", "{t}d"], KeysOp::Copy { replace: false }), int(0)),
            (100, add("{t}s", vec![b"m"]), int(1)),
            (100, add("{t}r", vec![b"m", b"n"]), int(2)),
            (100, expire("{t}s", 200), int(1)),
            (100, expire("{t}r", 200), int(1)),
            (100, on(&["{t}s", "{t}s", "{t}r"], STORE_UNION), int(2)),
            (100, pttl("{t}s"), int(-1)),
            // One that moves out and in is another object, one that stays is not.
            (100, on(&["{t}r", "{t}s"], KeysOp::MoveMember { member: b"n" }), int(1)),
            (100, pttl("{t}r"), int(100)),
            (200, on(&["{t}r", "{t}s"], KeysOp::MoveMember { member: b"m" }), int(0)),
            (200, push("{t}l", vec![b"x"]), int(1)),
            (200, expire("{t}l", 300), int(1)),
            (200, on(&["{t}l", "{t}l"], MOVE), bulk("x")),
            (200, pttl("{t}l"), int(100)),
            (300, on(&["{t}l", "{t}m"], MOVE), Outcome::Nil),
        ],
    );
    assert_eq!(objects.next_expiry_ms(), None);
}

#[test]
fn what_would_be_too_large_changes_nothing() {
    let half = vec![b'x'; OBJECT_BYTES_MAX / 2];
    let other = vec![b'y'; OBJECT_BYTES_MAX / 2];
    let too_large = || error("ERR the object would be larger than 16 MiB");
    let objects = &mut Objects::new(HASH_KEY);
    objects.run(&push("{t}a", vec![&half, b"end"]), 0, 0);
    objects.run(&push("{t}b", vec![&half]), 0, 0);
    objects.run(&add("{t}s", vec![&half]), 0, 0);
    objects.run(&add("{t}r", vec![&other]), 0, 0);
    let before = objects.digest();
    for (command, refusal) in [
        (on(&["{t}a", "{t}b"], MOVE), too_large()),
        (on(&["{t}r", "{t}s"], KeysOp::MoveMember { member: &other }), too_large()),
        (on(&["{t}d", "{t}s", "{t}r"], STORE_UNION), too_large()),
        (on(&["{t}s", "{t}r"], UNION), error("ERR the answer would be longer than 16 MiB: ask for fewer elements")),
    ] {
        assert_eq!(objects.run(&command, 0, 0), refusal);
        assert_eq!(objects.digest(), before);
    }
    // A list that turns needs no room for what it has.
    let rest = vec![b'z'; OBJECT_BYTES_MAX / 2 - 100];
    objects.run(&push("{t}b", vec![&rest]), 0, 0);
    assert_eq!(objects.run(&on(&["{t}b", "{t}b"], MOVE), 0, 0), Outcome::Bulk(half));
}

#[test]
fn a_transaction_stores_so_much_of_whole_objects_and_no_more() {
    const TOO_LARGE: &str =
        "ERR not executed: the objects that the transaction stores would be larger than 32 MiB together";
    let value = "x".repeat(OBJECT_BYTES_MAX * 2 / 3 - 100);
    let copy = |to| on(&["{t}a", to], KeysOp::Copy { replace: false });
    let commands = vec![copy("{t}b"), copy("{t}c"), copy("{t}d"), copy("{t}e"), set("{t}f", "v")];
    let transaction = Command::Transaction(Transaction::new(commands).expect("all are in one slot"));
    let refused = error(TOO_LARGE);
    let expected = [Outcome::Int(1), Outcome::Int(1), Outcome::Int(1), refused.clone(), refused];
    let (mut by_command, mut by_change) = (Objects::new(HASH_KEY), Objects::new(HASH_KEY));
    by_command.run(&set("{t}a", &value), 0, 0);
    by_change.run(&set("{t}a", &value), 0, 0);
    assert_eq!(by_command.run(&transaction, 0, 0), Outcome::List(expected.to_vec()));
    let (change, outcome) = by_change.execute(&transaction, 0, 0);
    assert_eq!(outcome, Outcome::List(expected.to_vec()));
    by_change.apply(change.expect("it copies"), 0);
    assert_eq!(by_command.count(), 4);
    assert_eq!(by_command.digest(), by_change.digest());
}

#[test]
fn commands_of_a_transaction_see_what_those_before_them_have_moved() {
    let commands = vec![
        add("{t}a", vec![b"m", b"n"]),
        on(&["{t}a", "{t}b"], KeysOp::MoveMember { member: b"m" }),
        on(&["{t}b", "{t}c"], RENAME),
        on(&["{t}a", "{t}c"], UNION),
        on(&["{t}a", "{t}a", "{t}c"], STORE_UNION),
        len_of_set("{t}a"),
        get("{t}b"),
    ];
    let transaction = Command::Transaction(Transaction::new(commands).expect("all are in one slot"));
    let union = Outcome::Set(vec![bulk("n"), bulk("m")]);
    let int = Outcome::Int;
    let expected = Outcome::List(vec![int(2), int(1), Outcome::Ok, union, int(2), int(2), Outcome::Nil]);
    let (mut by_command, mut by_change) = (Objects::new(HASH_KEY), Objects::new(HASH_KEY));
    assert_eq!(by_command.run(&transaction, 0, 0), expected);
    let (change, outcome) = by_change.execute(&transaction, 0, 0);
    assert_eq!(outcome, expected);
    by_change.apply(change.expect("it adds"), 0);
    assert_eq!(by_command.digest(), by_change.digest());
}

#[test]
fn one_with_an_object_that_is_elsewhere_changes_nothing() {
    let mut objects = Objects::new(HASH_KEY);
    objects.run(&add("{t}a", vec![b"m"]), 0, 0);
    objects.run(&add("{t}b", vec![b"m"]), 0, 0);
    objects.send_away(b"{t}a", b"note");
    for keys in [["{t}a", "{t}b"], ["{t}b", "{t}a"]] {
        assert_eq!(objects.run(&on(&keys, RENAME), 0, 0), error(APART));
        assert_eq!(objects.execute(&on(&keys, STORE_UNION), 0, 0), (None, error(APART)));
        assert_eq!(objects.read(&on(&keys, UNION), 0), error(APART));
    }
    assert_eq!(objects.read(&len_of_set("{t}b"), 0), Outcome::Int(1));
    assert_eq!(objects.away(b"{t}a").as_deref(), Some(&b"note"[..]));
}

#[test]
fn one_whose_keys_are_all_the_same_is_on_that_key() {
    let same = on(&["k", "k", "k"], UNION);
    assert_eq!((same.key(), same.is_on_several(), same.access()), (Some(&b"k"[..]), false, Access::Read));
    let others = on(&["{t}a", "{t}a", "{t}b"], STORE_UNION);
    assert_eq!((others.key(), others.is_on_several(), others.access()), (None, true, Access::Write));
    let keys: Vec<&[u8]> = others.keys().collect();
    assert_eq!(keys, [b"{t}a", b"{t}a", b"{t}b"]);
    for (command, key, in_slot) in [(same, Some(&b"k"[..]), &b"k"[..]), (others, None, b"{t}a")] {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        assert_eq!((Command::key_of(&bytes), Command::key_in_slot_of(&bytes)), (key, Some(in_slot)));
    }
}

#[test]
fn keys_that_lie_apart_are_too_long_or_of_another_number_make_none() {
    let long = vec![b'k'; NAME_BYTES_MAX + 1];
    let combined = |how, weights| KeysOp::CombineSortedSets {
        how,
        weights,
        aggregate: Aggregate::Sum,
        result: Combined::Stored,
        wrong: None,
    };
    let weighted = |weights| combined(Combination::Union, weights);
    let weighted_difference = combined(Combination::Difference, vec![2.0]);
    let range = KeysOp::StoreRange { span: Span::Ranks { start: 0, end: -1 }, offset: 0, count: -1, reversed: false };
    let none: [(Vec<&[u8]>, KeysOp<'_>); 10] = [
        (vec![b"a", b"b"], UNION),
        (vec![&long], UNION),
        (vec![], UNION),
        (vec![b"a"], STORE_UNION),
        (vec![b"a"], RENAME),
        (vec![b"a", b"a", b"a"], range),
        (vec![b"a", b"a"], KeysOp::SetIfAllAbsent { values: vec![b"v"] }),
        (vec![b"a", b"a"], weighted(vec![1.0, 2.0])),
        (vec![b"a"], weighted(vec![])),
        (vec![b"a", b"a"], weighted_difference),
    ];
    for (keys, op) in none {
        assert_eq!(OnKeys::new(keys, op), None);
    }
    assert!(OnKeys::new(vec![b"a", b"a"], weighted(vec![2.0])).is_some());
}

#[test]
fn a_difference_of_many_members_is_the_same_however_it_is_asked_for() {
    let objects = &mut Objects::new(HASH_KEY);
    let members: Vec<Vec<u8>> = (0..3000_u32).map(|number| number.to_string().into_bytes()).collect();
    let every = |step: usize| members.iter().step_by(step).map(|member| &**member).collect::<Vec<&[u8]>>();
    objects.run(&add("{t}a", every(1)), 0, 0);
    objects.run(&add("{t}b", every(3)), 0, 0);
    let scored = every(2).into_iter().map(|member| (member, 2.0)).collect();
    let condition = quorate_object::ScoreCondition::Always;
    let put = SortedSetOp::Add { pairs: scored, condition, counts_changed: false };
    objects.run(&Command::Elements { key: b"{t}z", op: Op::SortedSet(put) }, 0, 0);
    let combine = |how, result| KeysOp::CombineSets { how, result };
    let count = |command: &Command<'_>| match objects.read(command, 0) {
        Outcome::Int(count) => count as usize,
        Outcome::Set(members) => members.len(),
        other => panic!("{other:?}"),
    };
    let both = ["{t}a", "{t}b"];
    assert_eq!(count(&on(&both, combine(Combination::Difference, Combined::Members))), 2000);
    assert_eq!(count(&on(&both, combine(Combination::Intersection, Combined::Count { most: 0 }))), 1000);
    assert_eq!(count(&on(&both, combine(Combination::Intersection, Combined::Count { most: 7 }))), 7);
    let scores = KeysOp::CombineSortedSets {
        how: Combination::Intersection,
        weights: vec![1.0, 10.0, 100.0],
        aggregate: Aggregate::Sum,
        result: Combined::Scores,
        wrong: None,
    };
    let Outcome::Pairs(pairs) = objects.read(&on(&["{t}z", "{t}a", "{t}b"], scores), 0) else { panic!("pairs") };
    assert_eq!(pairs.len(), 2 * 500, "every sixth is in all of them");
    assert!(pairs.iter().skip(1).step_by(2).all(|score| *score == Outcome::Float(112.0)), "2 + 10 + 100");
}
