//! SCAN meets every object that stays, whatever comes and goes meanwhile.

mod common;

use std::collections::BTreeSet;

use common::{HASH_KEY, Random, error, set, set_until};
use quorate_object::glob::PATTERN_BYTES_MAX;
use quorate_object::{
    Command, HASH_BITS, HashOp, NAME_BYTES_MAX, NAMES_BYTES_MAX, Objects, Op, Outcome, SCAN_COUNT_MAX, too_many_keys,
};

fn scan(objects: &Objects, from: u64, count: u32) -> (Vec<Vec<u8>>, Option<u64>) {
    let command = Command::Scan { from, count, pattern: None, type_name: None };
    match objects.read(&command, 0) {
        Outcome::Scan { next, keys } => (keys, next),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_object_that_stays_is_met() {
    let mut random = Random(5);
    for (object_count, count) in [(0, 10), (1, 10), (300, 1), (300, 7), (20_000, 100)] {
        let mut objects = Objects::new(HASH_KEY);
        for n in 0..object_count {
            objects.run(&set(&format!("stays:{n}"), ""), 0, 0);
        }
        let mut met = BTreeSet::new();
        let mut from = Some(0);
        while let Some(hash) = from {
            let (keys, next) = scan(&objects, hash, count);
            assert!(keys.len() <= count as usize, "no two of these names have the same hash");
            assert!(keys.iter().all(|key| objects.hash(key) >= hash));
            assert!(keys.is_sorted_by_key(|key| objects.hash(key)));
            assert!(next.is_none_or(|next| next > hash && next >> HASH_BITS == 0));
            met.extend(keys);
            from = next;
            // Others come and go, in the end about half of the names there are.
            for _ in 0..2 * count {
                let name = format!("goes:{}", random.below(30_000));
                objects.run(&set(&name, ""), 0, 0);
                let name = format!("goes:{}", random.below(30_000));
                objects.run(&Command::Del { key: name.as_bytes() }, 0, 0);
            }
        }
        for n in 0..object_count {
            assert!(met.contains(format!("stays:{n}").as_bytes()), "stays:{n} was not met");
        }
    }
}

#[test]
fn a_quiet_scan_meets_each_object_once() {
    let mut objects = Objects::new(HASH_KEY);
    for n in 0..10_000 {
        objects.run(&set(&n.to_string(), ""), 0, 0);
    }
    let mut met = Vec::new();
    let (mut from, mut calls) = (Some(0), 0);
    while let Some(hash) = from {
        let (keys, next) = scan(&objects, hash, 100);
        met.extend(keys);
        from = next;
        calls += 1;
    }
    assert_eq!((met.len(), calls), (10_000, 100));
    let distinct: BTreeSet<Vec<u8>> = met.into_iter().collect();
    assert_eq!(distinct.len(), 10_000);
    assert_eq!(scan(&objects, 0, SCAN_COUNT_MAX).0.len(), 10_000);
    assert_eq!(scan(&objects, 0, 0).0.len(), 1, "a scan goes on whatever the count");
    assert_eq!(scan(&objects, u64::MAX, 10), (Vec::new(), None));
}

#[test]
fn patterns_types_and_expiry_filter() {
    let mut objects = Objects::new(HASH_KEY);
    for name in ["one", "two", "three"] {
        objects.run(&set(name, ""), 0, 0);
    }
    objects.run(&set_until("tomorrow", "", 10), 0, 0);
    let scan = |pattern, type_name, time_ms| {
        let command = Command::Scan { from: 0, count: 10, pattern, type_name };
        match objects.read(&command, time_ms) {
            Outcome::Scan { next: None, keys } => BTreeSet::from_iter(keys),
            other => panic!("{other:?}"),
        }
    };
    let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
    assert_eq!(scan(Some(b"t*"), None, 0), names(&["two", "three", "tomorrow"]));
    assert_eq!(scan(Some(b"t*"), None, 10), names(&["two", "three"]));
    assert_eq!(scan(None, Some(b"String"), 10), names(&["one", "two", "three"]));
    assert_eq!(scan(None, Some(b"list"), 0), names(&[]));
    match objects.read(&Command::Keys { pattern: b"t[^o]*" }, 0) {
        Outcome::Keys(keys) => assert_eq!(BTreeSet::from_iter(keys), names(&["two", "three"])),
        other => panic!("{other:?}"),
    }
    let pattern = vec![b'*'; PATTERN_BYTES_MAX + 1];
    let too_long = error("ERR pattern is longer than 4096 bytes");
    assert_eq!(objects.read(&Command::Keys { pattern: &pattern }, 0), too_long);
    let command = Command::Scan { from: 0, count: 10, pattern: Some(&pattern), type_name: None };
    assert_eq!(objects.read(&command, 0), too_long);
    assert_ne!(objects.read(&Command::Keys { pattern: &pattern[1..] }, 0), too_long);
}

/// So many names that are as long as they may be.
fn long_names(count: usize) -> (Objects, BTreeSet<Vec<u8>>) {
    let mut objects = Objects::new(HASH_KEY);
    let names: BTreeSet<Vec<u8>> =
        (0..count).map(|n| format!("{n:0width$}", width = NAME_BYTES_MAX).into_bytes()).collect();
    for name in &names {
        objects.run(&set(std::str::from_utf8(name).expect("digits"), ""), 0, 0);
    }
    (objects, names)
}

#[test]
fn more_names_than_one_answer_may_have_are_scanned_and_not_listed() {
    let most = NAMES_BYTES_MAX / (NAME_BYTES_MAX + size_of::<Vec<u8>>());
    let (mut objects, mut names) = long_names(most);
    let every = Command::Keys { pattern: b"*" };
    match objects.read(&every, 0) {
        Outcome::Keys(keys) => assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), names),
        other => panic!("{other:?}"),
    }
    names.insert(vec![b'x'; NAME_BYTES_MAX]);
    objects.run(&set(&"x".repeat(NAME_BYTES_MAX), ""), 0, 0);
    assert_eq!(objects.read(&every, 0), too_many_keys());
    let (mut met, mut from) = (BTreeSet::new(), Some(0));
    while let Some(hash) = from {
        let (keys, next) = scan(&objects, hash, SCAN_COUNT_MAX);
        assert!(!keys.is_empty() && keys.iter().map(Vec::len).sum::<usize>() <= NAMES_BYTES_MAX / 2);
        assert!(keys.iter().all(|key| met.insert(key.clone())), "each once");
        from = next;
    }
    assert_eq!(met, names);
}

#[test]
fn names_that_are_away_are_paged_through() {
    let (mut objects, names) = long_names(600);
    for name in &names {
        objects.send_away(name, b"note");
    }
    for n in 0..1000 {
        objects.run(&set(&format!("here:{n}"), ""), 0, 0);
    }
    let (mut met, mut from, mut pages) = (BTreeSet::new(), Some(0), 0);
    while let Some(hash) = from {
        let (names, next) = objects.page_away(hash);
        assert!(names.iter().map(Vec::len).sum::<usize>() <= NAMES_BYTES_MAX / 2);
        met.extend(names);
        (from, pages) = (next, pages + 1);
    }
    assert_eq!((met, pages), (names, 3));
    assert_eq!(Objects::new(HASH_KEY).page_away(0), (Vec::new(), None));
}

#[test]
fn a_scan_tells_types_apart_but_of_what_is_elsewhere() {
    let mut objects = Objects::new(HASH_KEY);
    objects.run(&set("text", "v"), 0, 0);
    let hash = HashOp::Set { pairs: vec![(b"f", b"v")], answers_ok: false };
    objects.run(&Command::Elements { key: b"hash", op: Op::Hash(hash) }, 0, 0);
    objects.run(&set("elsewhere", "v"), 0, 0);
    objects.send_away(b"elsewhere", b"note");
    for (type_name, names) in
        [("hash", vec!["elsewhere", "hash"]), ("STRING", vec!["elsewhere", "text"]), ("list", vec!["elsewhere"])]
    {
        let scan = Command::Scan { from: 0, count: 10, pattern: None, type_name: Some(type_name.as_bytes()) };
        let Outcome::Scan { next: None, mut keys } = objects.read(&scan, 0) else { panic!("SCAN answers a page") };
        keys.sort();
        assert_eq!(keys, names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>(), "{type_name}");
    }
}
