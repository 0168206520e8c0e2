//! Of very many objects that expire at one time some are removed with each step of group time, and nobody who asks can tell.

mod common;

use std::collections::BTreeMap;

use common::{HASH_KEY, Random, any_command, bulk, get, pttl, set, set_until, set_with};
use quorate_object::{Command, Condition, EXPIRED_AT_ONCE_MAX, Expiry, Objects, Outcome, SetAnswer};

/// This many times the most that go at once, and one that stays.
const TIMES: usize = 3;
const AT_MS: u64 = 1_000_000;

fn crowded(names: impl Iterator<Item = usize>) -> Objects {
    let mut objects = Objects::new(HASH_KEY);
    for name in names {
        objects.run(&set_until(&format!("name {name}"), "value", AT_MS as i64), 0, 0);
    }
    objects.run(&set("stays", "value"), 0, 0);
    objects
}

fn restored(objects: &Objects) -> Objects {
    let mut restored = Objects::new(HASH_KEY);
    objects.for_each(|key, encoded| restored.restore_object(key, encoded).expect("it was encoded"));
    restored
}

#[test]
fn of_many_that_expire_at_one_time_some_are_removed_with_each_step() {
    let all = TIMES * EXPIRED_AT_ONCE_MAX;
    let mut objects = crowded(0..all);
    objects.advance(AT_MS - 1);
    assert_eq!(objects.count(), all + 1);
    for step in 1..=TIMES {
        objects.advance(AT_MS + step as u64);
        assert_eq!(objects.count(), all + 1 - step * EXPIRED_AT_ONCE_MAX);
        let is_left = step < TIMES;
        assert_eq!(
            objects.next_expiry_ms(),
            is_left.then_some(AT_MS),
            "whoever moves group time goes on until nothing is left"
        );
    }
}

#[test]
fn who_asks_finds_nothing_of_what_has_expired_and_is_still_here() {
    let mut objects = crowded(0..TIMES * EXPIRED_AT_ONCE_MAX);
    objects.advance(AT_MS);
    let mut left = Vec::new();
    objects.for_each(|key, _| left.push(String::from_utf8(key.to_vec()).unwrap()));
    left.retain(|name| name != "stays");
    assert_eq!(left.len(), (TIMES - 1) * EXPIRED_AT_ONCE_MAX);
    let name = &left[0];

    let listing = [Command::Count, Command::Keys { pattern: b"*" }];
    let alone = [Outcome::Int(1), Outcome::Keys(vec![b"stays".to_vec()])];
    for (command, expected) in listing.iter().zip(alone) {
        assert!(!objects.is_due(command, AT_MS, AT_MS + 5), "nothing is left to be decided");
        assert_eq!(objects.read(command, AT_MS), expected);
    }
    let (mut from, mut met) = (Some(0), Vec::new());
    while let Some(hash) = from {
        let scan = Command::Scan { from: hash, count: 100, pattern: None, type_name: None };
        let Outcome::Scan { next, keys } = objects.read(&scan, AT_MS) else { panic!("SCAN answers a page") };
        met.extend(keys);
        from = next;
    }
    assert_eq!(met, [b"stays".to_vec()]);
    assert_eq!((objects.read(&get(name), AT_MS), objects.read(&pttl(name), AT_MS)), (Outcome::Nil, Outcome::Int(-2)));
    assert!(!objects.is_due(&get(name), AT_MS, AT_MS + 5) && !objects.has_live(name.as_bytes(), AT_MS));

    // Whoever names one finds nothing in its place.
    let only = |condition| set_with(name, "new", condition, Expiry::Keep, SetAnswer::Flag);
    let mut run = |command: &Command<'_>| objects.run_advanced(command, AT_MS, 0);
    assert_eq!(run(&only(Condition::IfPresent)), Outcome::Int(0));
    assert_eq!(run(&only(Condition::IfAbsent)), Outcome::Int(1));
    assert_eq!((run(&get(name)), run(&pttl(name))), (bulk("new"), Outcome::Int(-1)));
    assert_eq!(run(&Command::Append { key: left[1].as_bytes(), value: b"w" }), Outcome::Int(1));
    assert_eq!(run(&Command::Del { key: left[2].as_bytes() }), Outcome::Int(0));
    assert_eq!(run(&Command::Count), Outcome::Int(3));
    objects.expire(left[3].as_bytes(), AT_MS);
    assert_eq!(objects.encoded(left[3].as_bytes()), None);
    objects.expire(b"stays", AT_MS);
    for step in 0..TIMES as u64 {
        objects.advance(AT_MS + step);
    }
    assert_eq!((objects.count(), objects.next_expiry_ms()), (3, None));
    assert_eq!(objects.bytes(), restored(&objects).bytes() + memory_of_gone(&mut objects));
}

/// What a removed name takes until a checkpoint has that it is gone.
fn memory_of_gone(objects: &mut Objects) -> usize {
    let before = objects.bytes();
    objects.take_dirty(|_, _| {});
    before - objects.bytes()
}

/// However the objects came here, by commands or by changes, and whoever began with a checkpoint in between.
#[test]
fn replicas_that_step_alike_hold_alike_while_some_that_have_expired_are_left() {
    for seed in 1..=4 {
        let mut random = Random(seed);
        let all = TIMES * EXPIRED_AT_ONCE_MAX;
        let (mut by_command, mut by_change) = (crowded(0..all), crowded((0..all).rev()));
        let (mut command_twin, mut change_twin) = (crowded((0..all).rev()), crowded(0..all));
        let mut checkpoint = BTreeMap::new();
        for step in 0..40 {
            let time_ms = AT_MS + step / 10;
            if step % 10 == 0 {
                for objects in [&mut by_command, &mut by_change, &mut command_twin, &mut change_twin] {
                    objects.advance(time_ms);
                }
            }
            let command = any_command(&mut random, time_ms);
            let outcome = by_command.run_advanced(&command, time_ms, step);
            assert_eq!(command_twin.run_advanced(&command, time_ms, step), outcome, "{command:?}");
            for objects in [&mut by_change, &mut change_twin] {
                let (change, same_outcome) = objects.execute(&command, time_ms, step);
                assert_eq!(outcome, same_outcome, "{command:?}");
                change.into_iter().for_each(|change| objects.apply(change, time_ms));
            }
            assert_eq!(by_command.digest(), command_twin.digest(), "seed {seed}, step {step}, {command:?}");
            assert_eq!(by_change.digest(), change_twin.digest(), "seed {seed}, step {step}, {command:?}");
            if step % 7 == 0 {
                if by_command.was_flushed() {
                    checkpoint.clear();
                }
                by_command.take_dirty(|key, encoded| match encoded {
                    Some(encoded) => drop(checkpoint.insert(key.to_vec(), encoded.to_vec())),
                    None => drop(checkpoint.remove(key)),
                });
                command_twin = Objects::new(HASH_KEY);
                checkpoint.iter().for_each(|(key, encoded)| command_twin.restore_object(key, encoded).unwrap());
                change_twin = restored(&by_change);
            }
        }
        (0..TIMES).for_each(|_| [&mut by_command, &mut by_change].iter_mut().for_each(|all| all.advance(AT_MS + 4)));
        assert_eq!(by_command.digest(), by_change.digest());
    }
}
