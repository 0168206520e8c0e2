//! Hashes: limits, and what becomes of one whose time is up.

mod common;

use common::{HASH_KEY, bulk, error, expire, pttl, set};
use quorate_object::{Command, EXPIRED_AT_ONCE_MAX, HashOp, HashPart, OBJECT_BYTES_MAX, Objects, Op, Outcome};

fn on<'a>(key: &'a str, op: HashOp<'a>) -> Command<'a> {
    Command::Elements { key: key.as_bytes(), op: Op::Hash(op) }
}

fn hset<'a>(key: &'a str, pairs: &[(&'a str, &'a str)]) -> Command<'a> {
    let pairs = pairs.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes())).collect();
    on(key, HashOp::Set { pairs, answers_ok: false })
}

fn hget<'a>(key: &'a str, field: &'a str) -> Command<'a> {
    on(key, HashOp::Get { field: field.as_bytes() })
}

#[test]
fn fields_keep_the_order_in_which_they_came() {
    let mut objects = Objects::new(HASH_KEY);
    assert_eq!(objects.run(&hset("h", &[("b", "1"), ("a", "2"), ("c", "3"), ("a", "4")]), 0, 0), Outcome::Int(3));
    assert_eq!(objects.run(&on("h", HashOp::Del { fields: vec![b"b", b"none", b"b"] }), 0, 0), Outcome::Int(1));
    assert_eq!(objects.run(&hset("h", &[("b", "5")]), 0, 0), Outcome::Int(1));
    let all = objects.read(&on("h", HashOp::All { what: HashPart::Both }), 0);
    assert_eq!(all, Outcome::Map(["a", "4", "c", "3", "b", "5"].map(bulk).into()));
    assert_eq!(objects.run(&on("h", HashOp::Del { fields: vec![b"a", b"b", b"c"] }), 0, 0), Outcome::Int(3));
    assert_eq!(objects.count(), 0);
}

#[test]
fn a_command_of_another_type_is_refused_and_set_takes_any() {
    let mut objects = Objects::new(HASH_KEY);
    let wrong = error("WRONGTYPE Operation against a key holding the wrong kind of value");
    objects.run(&hset("h", &[("f", "v")]), 0, 0);
    objects.run(&expire("h", 100), 0, 0);
    assert_eq!(objects.run(&Command::Append { key: b"h", value: b"x" }, 0, 0), wrong);
    assert_eq!(objects.read(&common::get("h"), 0), wrong);
    assert_eq!(objects.read(&pttl("h"), 0), Outcome::Int(100));
    assert_eq!(objects.run(&set("h", "text"), 0, 0), Outcome::Ok);
    assert_eq!((objects.read(&hget("h", "f"), 0), objects.next_expiry_ms()), (wrong, None));
}

#[test]
fn a_hash_has_a_largest_size_and_may_be_overwritten_within_it() {
    let mut objects = Objects::new(HASH_KEY);
    let large = "x".repeat(OBJECT_BYTES_MAX / 2 + 1);
    for _ in 0..3 {
        assert!(matches!(objects.run(&hset("h", &[("f", &large)]), 0, 0), Outcome::Int(_)));
    }
    let refused = objects.run(&hset("h", &[("g", &large)]), 0, 0);
    assert_eq!(refused, error("ERR the object would be larger than 16 MiB"));
    let twice = objects.read(&on("h", HashOp::MGet { fields: vec![b"f", b"f"] }), 0);
    assert_eq!(twice, error("ERR the answer would be longer than 16 MiB: ask for fewer elements"));
}

/// Of very many that expire at one time some are still there when a change comes that was computed without them.
#[test]
fn a_change_of_what_has_expired_begins_anew() {
    let count = 3 * EXPIRED_AT_ONCE_MAX;
    for what_it_was in ["hash", "string"] {
        let mut objects = Objects::new(HASH_KEY);
        let names: Vec<String> = (0..count).map(|number| format!("k{number}")).collect();
        for name in &names {
            let command = if what_it_was == "hash" { hset(name, &[("old", "1")]) } else { set(name, "1") };
            objects.run(&command, 0, 0);
            objects.run(&expire(name, 100), 0, 0);
        }
        objects.advance(100);
        assert!(objects.count() > EXPIRED_AT_ONCE_MAX, "many are left");
        for name in &names {
            let command = hset(name, &[("new", "2")]);
            let (change, outcome) = objects.execute(&command, 100, 0);
            assert_eq!(outcome, Outcome::Int(1));
            objects.apply(change.expect("a field is new"), 100);
        }
        for _ in 0..10 {
            objects.advance(100);
        }
        for name in &names {
            let all = objects.read(&on(name, HashOp::All { what: HashPart::Both }), 200);
            assert_eq!(all, Outcome::Map(["new", "2"].map(bulk).into()), "{name} was a {what_it_was}");
        }
    }
}
