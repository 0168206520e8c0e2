//! Sets answer and do what those of Redis 7.0 would.

mod common;

use std::collections::BTreeSet;

use common::{HASH_KEY, bulk, check, error, set};
use quorate_object::Outcome::{Int, List, Nil, Ok, Set, Word};
use quorate_object::{Chance, Change, Command, ElementScan, OBJECT_BYTES_MAX, Objects, Op, OpChange, Outcome};
use quorate_object::{SetChange, SetOp};

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

fn on(op: SetOp<'_>) -> Command<'_> {
    Command::Elements { key: b"s", op: Op::Set(op) }
}

/// Runs each operation on the set `s`, and compares.
fn run(objects: &mut Objects, steps: Vec<(SetOp<'static>, Outcome)>) {
    for (op, expected) in steps {
        check(objects, &[(0, on(op), expected)]);
    }
}

fn words(text: &'static str) -> Vec<&'static [u8]> {
    text.split_whitespace().map(str::as_bytes).collect()
}

fn add(members: &'static str) -> SetOp<'static> {
    SetOp::Add { members: words(members) }
}

fn remove(members: &'static str) -> SetOp<'static> {
    SetOp::Remove { members: words(members) }
}

fn has(member: &'static str) -> SetOp<'static> {
    SetOp::Has { member: member.as_bytes() }
}

fn random(count: Option<i64>) -> SetOp<'static> {
    SetOp::Random { chance: Chance { count, seed: 1 } }
}

fn list(text: &str) -> Vec<Outcome> {
    text.split_whitespace().map(bulk).collect()
}

fn names(outcome: &Outcome) -> BTreeSet<Vec<u8>> {
    let (Set(items) | List(items)) = outcome else { panic!("{outcome:?} is no list") };
    let name = |item: &Outcome| match item {
        Outcome::Bulk(name) => name.clone(),
        other => panic!("{other:?} is no member"),
    };
    let names: BTreeSet<_> = items.iter().map(name).collect();
    assert_eq!(names.len(), items.len(), "each of them once");
    names
}

#[test]
fn members_come_once() {
    let mut objects = Objects::new(HASH_KEY);
    run(
        &mut objects,
        vec![
            (SetOp::Members, Set(Vec::new())),
            (SetOp::Len, Int(0)),
            (remove("a"), Int(0)),
            (has("a"), Int(0)),
            (add("a b a c"), Int(3)),
            (add("c b"), Int(0)),
            (add("d a"), Int(1)),
            (SetOp::Len, Int(4)),
            (SetOp::Members, Set(list("a b c d"))),
            (has("d"), Int(1)),
            (SetOp::HasEach { members: words("d none d") }, List(vec![Int(1), Int(0), Int(1)])),
            (remove("b none b"), Int(1)),
            (SetOp::Members, Set(list("a c d"))),
            (remove("d c a"), Int(3)),
        ],
    );
    assert_eq!((objects.count(), objects.digest()), (0, Objects::new(HASH_KEY).digest()));
}

#[test]
fn what_is_taken_by_chance_is_gone() {
    let mut objects = Objects::new(HASH_KEY);
    run(
        &mut objects,
        vec![
            (SetOp::Pop { count: None }, Nil),
            (SetOp::Pop { count: Some(3) }, Set(Vec::new())),
            (random(None), Nil),
            (random(Some(-3)), List(Vec::new())),
            (add("a b c d e f g h"), Int(8)),
            (SetOp::Pop { count: Some(0) }, Set(Vec::new())),
            (random(Some(0)), List(Vec::new())),
            (random(Some(100)), List(list("a b c d e f g h"))),
        ],
    );
    let all = names(&objects.run(&on(SetOp::Members), 0, 0));
    let some = names(&objects.run(&on(random(Some(3))), 0, 0));
    assert!(some.len() == 3 && some.is_subset(&all));
    let taken = names(&objects.run(&on(SetOp::Pop { count: Some(3) }), 0, 9));
    assert!(taken.len() == 3 && taken.is_subset(&all));
    let left = names(&objects.run(&on(SetOp::Members), 0, 0));
    assert_eq!(left, all.difference(&taken).cloned().collect());
    let Outcome::Bulk(one) = objects.run(&on(SetOp::Pop { count: None }), 0, 9) else { panic!("one is taken") };
    assert!(left.contains(&one));
    assert_eq!(names(&objects.run(&on(SetOp::Pop { count: Some(u64::MAX) }), 0, 9)).len(), 4);
    assert_eq!(objects.count(), 0);
}

#[test]
fn taking_names_what_it_takes() {
    let mut objects = Objects::new(HASH_KEY);
    run(&mut objects, vec![(add("a b c d e f g h"), Int(8))]);
    let mut met = BTreeSet::new();
    for seed in 0..200 {
        let command = on(SetOp::Pop { count: None });
        let (change, Outcome::Bulk(taken)) = objects.execute(&command, 0, seed) else { panic!("one is taken") };
        let expected = SetChange::Remove(vec![taken.clone().into()]);
        assert_eq!(change, Some(Change::Elements { key: b"s", change: OpChange::Set(expected) }));
        met.insert(taken);
    }
    assert_eq!(met.len(), 8, "each is chosen some time");
    let all = on(SetOp::Pop { count: Some(8) });
    let cleared = Change::Elements { key: b"s", change: OpChange::Set(SetChange::Clear) };
    assert_eq!(objects.execute(&all, 0, 0).0, Some(cleared));
}

#[test]
fn a_scan_shows_every_member_of_a_large_set() {
    let mut objects = Objects::new(HASH_KEY);
    let members: Vec<Vec<u8>> = (0..1000).map(|number| format!("member {number}").into_bytes()).collect();
    let members: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
    assert_eq!(objects.run(&on(SetOp::Add { members: members.clone() }), 0, 0), Int(1000));
    let (mut met, mut from, mut pages) = (BTreeSet::new(), 0, 0);
    loop {
        let scan = ElementScan { from, count: 10, pattern: None, wrong: None };
        let List(parts) = objects.run(&on(SetOp::Scan(scan)), 0, 0) else { panic!("a page is a list") };
        let [Outcome::Bulk(next), shown] = &parts[..] else { panic!("a cursor and members") };
        met.extend(names(shown));
        pages += 1;
        // What stays is shown, also while others go.
        let gone = members[(pages * 7) % 500 + 500];
        objects.run(&on(SetOp::Remove { members: vec![gone] }), 0, 0);
        from = String::from_utf8_lossy(next).parse().expect("a number");
        if from == 0 {
            break;
        }
    }
    assert!(pages >= 50, "{pages} pages");
    assert!(members[..500].iter().all(|member| met.contains(*member)));
}

#[test]
fn sets_and_strings_are_different_things() {
    let mut objects = Objects::new(HASH_KEY);
    check(&mut objects, &[(0, set("s", "v"), Ok)]);
    for op in [add("a"), remove("a"), has("a"), SetOp::Members, SetOp::Len, SetOp::Pop { count: Some(0) }, random(None)]
    {
        run(&mut objects, vec![(op, error(WRONG_TYPE))]);
    }
    check(&mut objects, &[(0, Command::Del { key: b"s" }, Int(1))]);
    run(&mut objects, vec![(add("a"), Int(1))]);
    check(&mut objects, &[(0, Command::Type { key: b"s" }, Word("set"))]);
}

#[test]
fn a_set_has_a_limit() {
    let (one, other) = (vec![b'x'; OBJECT_BYTES_MAX / 2], vec![b'y'; OBJECT_BYTES_MAX / 2]);
    let too_large = || error("ERR the object would be larger than 16 MiB");
    let large = |members| on(SetOp::Add { members });
    let long_answer = error("ERR the answer would be longer than 16 MiB: ask for fewer elements");
    check(
        &mut Objects::new(HASH_KEY),
        &[
            (0, large(vec![&one, &other]), too_large()),
            (0, large(vec![&one]), Int(1)),
            (0, large(vec![&one, &one]), Int(0)),
            (0, large(vec![&other]), too_large()),
            (0, on(random(Some(-3))), long_answer),
            (0, on(SetOp::Len), Int(1)),
        ],
    );
}
