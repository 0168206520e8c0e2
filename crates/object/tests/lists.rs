//! Lists answer and do what those of Redis 7.0 would.

mod common;

use common::{HASH_KEY, Random, bulk, check, error, get, set};
use quorate_object::Outcome::{Int, List, Nil, NilList, Ok, Word};
use quorate_object::{Change, Command, ListChange, ListOp, ListSide, OBJECT_BYTES_MAX, Objects, Op, OpChange, Outcome};

const LEFT: ListSide = ListSide::Left;
const RIGHT: ListSide = ListSide::Right;
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const OUT_OF_RANGE: &str = "ERR index out of range";

fn on(op: ListOp<'_>) -> (u64, Command<'_>) {
    (0, Command::Elements { key: b"l", op: Op::List(op) })
}

/// Runs each operation on the list `l`, and compares.
fn run(objects: &mut Objects, steps: Vec<(ListOp<'static>, Outcome)>) {
    for (op, expected) in steps {
        let (time_ms, command) = on(op);
        check(objects, &[(time_ms, command, expected)]);
    }
}

fn words(text: &'static str) -> Vec<&'static [u8]> {
    text.split_whitespace().map(str::as_bytes).collect()
}

fn push(side: ListSide, values: &'static str) -> ListOp<'static> {
    ListOp::Push { side, values: words(values), if_there: false }
}

fn push_if_there(side: ListSide, values: &'static str) -> ListOp<'static> {
    ListOp::Push { side, values: words(values), if_there: true }
}

fn pop(side: ListSide, count: Option<u64>) -> ListOp<'static> {
    ListOp::Pop { side, count }
}

fn range(start: i64, stop: i64) -> ListOp<'static> {
    ListOp::Range { start, stop }
}

fn index(index: &'static str) -> ListOp<'static> {
    ListOp::Index { index: index.as_bytes() }
}

fn write(index: &'static str) -> ListOp<'static> {
    ListOp::Set { index: index.as_bytes(), value: b"x" }
}

fn insert(after: bool, pivot: &'static str) -> ListOp<'static> {
    ListOp::Insert { after, pivot: pivot.as_bytes(), value: b"x" }
}

fn remove(count: i64, element: &'static str) -> ListOp<'static> {
    ListOp::Remove { count, element: element.as_bytes() }
}

fn position(rank: i64, count: Option<u64>, compared_max: u64) -> ListOp<'static> {
    ListOp::Pos { element: b"a", rank, count, compared_max }
}

fn list(text: &str) -> Outcome {
    List(text.split_whitespace().map(bulk).collect())
}

fn places(places: &[i64]) -> Outcome {
    List(places.iter().map(|place| Int(*place)).collect())
}

#[test]
fn push_and_pop_at_both_ends() {
    let mut objects = Objects::new(HASH_KEY);
    run(
        &mut objects,
        vec![
            (push_if_there(LEFT, "a"), Int(0)),
            (ListOp::Len, Int(0)),
            (push(RIGHT, "c d"), Int(2)),
            (push(LEFT, "b a"), Int(4)),
            (push_if_there(RIGHT, "e f"), Int(6)),
            (push_if_there(LEFT, "z"), Int(7)),
            (range(0, -1), list("z a b c d e f")),
            (pop(LEFT, None), bulk("z")),
            (pop(RIGHT, None), bulk("f")),
            (pop(RIGHT, Some(2)), list("e d")),
            (pop(LEFT, Some(0)), list("")),
            (pop(LEFT, Some(u64::MAX)), list("a b c")),
            (pop(LEFT, None), Nil),
            (pop(RIGHT, Some(0)), NilList),
        ],
    );
    assert_eq!((objects.count(), objects.digest()), (0, Objects::new(HASH_KEY).digest()));
}

#[test]
fn ranges_and_indexes_count_from_both_ends() {
    run(
        &mut Objects::new(HASH_KEY),
        vec![
            (range(0, -1), list("")),
            (index("x"), Nil),
            (write("x"), error("ERR no such key")),
            (ListOp::Trim { start: 1, stop: 0 }, Ok),
            (push(RIGHT, "a b c d e"), Int(5)),
            (range(1, 2), list("b c")),
            (range(-2, 100), list("d e")),
            (range(-100, 0), list("a")),
            (range(3, 2), list("")),
            (range(5, 9), list("")),
            (range(i64::MIN, i64::MAX), list("a b c d e")),
            (index("0"), bulk("a")),
            (index("-1"), bulk("e")),
            (index("5"), Nil),
            (index("-6"), Nil),
            (index("-9223372036854775808"), Nil),
            (index("01"), error(NOT_AN_INTEGER)),
            (write("1"), Ok),
            (write("-1"), Ok),
            (write("5"), error(OUT_OF_RANGE)),
            (write("-6"), error(OUT_OF_RANGE)),
            (write("one"), error(NOT_AN_INTEGER)),
            (range(0, -1), list("a x c d x")),
            (ListOp::Trim { start: -4, stop: 2 }, Ok),
            (range(0, -1), list("x c")),
            (ListOp::Trim { start: 0, stop: -1 }, Ok),
            (ListOp::Len, Int(2)),
            (ListOp::Trim { start: 2, stop: 5 }, Ok),
            (ListOp::Len, Int(0)),
        ],
    );
}

#[test]
fn insert_and_remove_by_element() {
    run(
        &mut Objects::new(HASH_KEY),
        vec![
            (insert(true, "a"), Int(0)),
            (remove(0, "a"), Int(0)),
            (push(RIGHT, "a b a c a d a"), Int(7)),
            (insert(false, "none"), Int(-1)),
            (insert(false, "a"), Int(8)),
            (insert(true, "c"), Int(9)),
            (insert(true, "d"), Int(10)),
            (range(0, -1), list("x a b a c x a d x a")),
            (remove(1, "a"), Int(1)),
            (remove(-1, "a"), Int(1)),
            (range(0, -1), list("x b a c x a d x")),
            (remove(-2, "x"), Int(2)),
            (range(0, -1), list("x b a c a d")),
            (remove(i64::MIN, "a"), Int(2)),
            (remove(0, "none"), Int(0)),
            (range(0, -1), list("x b c d")),
        ],
    );
}

#[test]
fn positions_of_an_element() {
    run(
        &mut Objects::new(HASH_KEY),
        vec![
            (position(1, None, 0), Nil),
            (position(1, Some(0), 0), places(&[])),
            (push(RIGHT, "a b a c a"), Int(5)),
            (position(1, None, 0), Int(0)),
            (position(2, None, 0), Int(2)),
            (position(-1, None, 0), Int(4)),
            (position(4, None, 0), Nil),
            (position(1, Some(0), 0), places(&[0, 2, 4])),
            (position(-2, Some(0), 0), places(&[2, 0])),
            (position(2, Some(1), 0), places(&[2])),
            (position(1, Some(0), 3), places(&[0, 2])),
            (position(-1, Some(0), 2), places(&[4])),
            (position(2, None, 2), Nil),
            (position(i64::MIN, Some(u64::MAX), u64::MAX), places(&[])),
        ],
    );
}

#[test]
fn lists_and_strings_are_different_things() {
    let mut objects = Objects::new(HASH_KEY);
    check(&mut objects, &[(0, set("l", "v"), Ok)]);
    for op in [push(LEFT, "a"), pop(LEFT, Some(0)), index("x"), write("x"), insert(true, "a"), remove(0, "a")] {
        run(&mut objects, vec![(op, error(WRONG_TYPE))]);
    }
    check(&mut objects, &[(0, Command::Del { key: b"l" }, Int(1))]);
    run(&mut objects, vec![(push(LEFT, "a"), Int(1))]);
    check(&mut objects, &[(0, Command::Type { key: b"l" }, Word("list")), (0, get("l"), error(WRONG_TYPE))]);
}

#[test]
fn a_list_has_a_limit() {
    let half = vec![b'x'; OBJECT_BYTES_MAX / 2];
    let large = |values| on(ListOp::Push { side: RIGHT, values, if_there: false }).1;
    let too_large = || error("ERR the object would be larger than 16 MiB");
    let insert = on(ListOp::Insert { after: true, pivot: &half, value: &half }).1;
    let write = on(ListOp::Set { index: b"1", value: &half }).1;
    check(
        &mut Objects::new(HASH_KEY),
        &[
            (0, large(vec![&half, &half]), too_large()),
            (0, large(vec![&half, b""]), Int(2)),
            (0, large(vec![&half]), too_large()),
            (0, insert, too_large()),
            (0, write, too_large()),
            (0, on(ListOp::Set { index: b"0", value: &half }).1, Ok),
        ],
    );
}

#[test]
fn indexes_beyond_the_end_change_nothing() {
    let mut objects = Objects::new(HASH_KEY);
    run(&mut objects, vec![(push(RIGHT, "a b c"), Int(3))]);
    let before = objects.digest();
    for change in [
        ListChange::Write { index: 3, value: b"x" },
        ListChange::Insert { index: 4, value: b"x" },
        ListChange::Trim { start: 0, len: u32::MAX },
        ListChange::Remove { count: i64::MIN, element: b"x" },
    ] {
        objects.apply(Change::Elements { key: b"l", change: OpChange::List(change) }, 0);
    }
    assert_eq!(objects.digest(), before);
    let beyond = OpChange::List(ListChange::Trim { start: u32::MAX, len: u32::MAX });
    objects.apply(Change::Elements { key: b"l", change: beyond }, 0);
    assert_eq!(objects.count(), 0);
}

/// LREM and LTRIM against the plainest way to do them.
#[test]
fn random_removals_leave_what_they_should() {
    const NAMES: [&[u8]; 3] = [b"a", b"bb", b""];
    let mut random = Random(7);
    for _ in 0..500 {
        let mut objects = Objects::new(HASH_KEY);
        let mut model: Vec<&[u8]> = (0..1 + random.below(200)).map(|_| random.pick(&NAMES)).collect();
        objects.run(&on(ListOp::Push { side: RIGHT, values: model.clone(), if_there: false }).1, 0, 0);
        let (count, element) = (random.below(60) as i64 - 30, random.pick(&NAMES));
        objects.run(&on(ListOp::Remove { count, element }).1, 0, 0);
        let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
        for _ in 0..most.min(model.len()) {
            let mut places = model.iter();
            let is_one = |other: &&[u8]| *other == element;
            match if count < 0 { places.rposition(is_one) } else { places.position(is_one) } {
                Some(place) => drop(model.remove(place)),
                None => break,
            }
        }
        let (start, stop) = (random.below(30), 30 + random.below(200));
        objects.run(&on(ListOp::Trim { start: start as i64, stop: stop as i64 }).1, 0, 0);
        let kept = model.iter().skip(start as usize).take((stop - start) as usize + 1);
        let kept = List(kept.map(|element| Outcome::Bulk(element.to_vec())).collect());
        assert_eq!(objects.run(&on(range(0, -1)).1, 0, 0), kept, "{count} of {element:?}, {start} to {stop}");
    }
}
