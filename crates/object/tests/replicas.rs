//! Replicas that get the same commands, the same changes, or a checkpoint, hold the same objects.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{HASH_KEY, Random, any_command, bulk, get, set, set_until};
use quorate_object::{Change, Command, Objects, Outcome};

/// What a checkpoint would hold.
#[derive(Default)]
struct Checkpoint(BTreeMap<Vec<u8>, Vec<u8>>);

impl Checkpoint {
    fn save(&mut self, objects: &mut Objects) {
        if objects.was_flushed() {
            self.0.clear();
        }
        let mut names = BTreeSet::new();
        objects.take_dirty(|key, encoded| {
            assert!(names.insert(key.to_vec()), "{key:?} is shown twice");
            match encoded {
                Some(encoded) => self.0.insert(key.to_vec(), encoded.to_vec()),
                None => self.0.remove(key),
            };
        });
        assert!(!objects.was_flushed());
    }

    /// Begins, and goes on in the next steps.
    fn begin(&mut self, objects: &mut Objects) {
        if objects.was_flushed() {
            self.0.clear();
        }
        objects.begin_saving();
    }

    /// Whether that was all.
    fn go_on(&mut self, objects: &mut Objects, count: usize, shown: &mut BTreeSet<Vec<u8>>) -> bool {
        objects.save_some(&mut count.clone(), |key, encoded| {
            assert!(shown.insert(key.to_vec()), "{key:?} is shown twice");
            match encoded {
                Some(encoded) => self.0.insert(key.to_vec(), encoded.to_vec()),
                None => self.0.remove(key),
            };
        })
    }

    fn restore(&self) -> Objects {
        let mut objects = Objects::new(HASH_KEY);
        for (key, encoded) in &self.0 {
            objects.restore_object(key, encoded).expect("an object that was encoded");
        }
        objects
    }
}

#[test]
fn commands_changes_and_checkpoints_lead_to_the_same_objects() {
    for seed in 1..=8 {
        let mut random = Random(seed);
        let mut by_command = Objects::new(HASH_KEY);
        let mut by_change = Objects::new(HASH_KEY);
        let mut checkpoint = Checkpoint::default();
        for step in 0..5_000 {
            let time_ms = step * 3;
            let command = any_command(&mut random, time_ms);
            let outcome = by_command.run(&command, time_ms, step);

            by_change.advance(time_ms);
            let (change, same_outcome) = by_change.execute(&command, time_ms, step);
            assert_eq!(outcome, same_outcome, "{command:?}");
            if let Some(change) = change {
                let mut bytes = Vec::new();
                change.encode(&mut bytes);
                by_change.apply(Change::decode(&bytes).unwrap(), time_ms);
            }
            assert_eq!(by_command.digest(), by_change.digest(), "seed {seed}, step {step}, {command:?}");
            assert_eq!(by_command.bytes(), by_change.bytes());

            if random.below(50) == 0 {
                checkpoint.save(&mut by_command);
                let restored = checkpoint.restore();
                assert_eq!(restored.digest(), by_command.digest(), "seed {seed}, step {step}");
                assert_eq!(restored.count(), by_command.count());
                assert_eq!(restored.next_expiry_ms(), by_command.next_expiry_ms());
                by_change.take_dirty(|_, _| {});
            }
        }
    }
}

#[test]
fn a_saving_shows_what_there_was_when_it_began() {
    for seed in 1..=40 {
        let mut random = Random(seed);
        let mut objects = Objects::new(HASH_KEY);
        let mut checkpoint = Checkpoint::default();
        let mut under_way: Option<(BTreeSet<Vec<u8>>, u64)> = None;
        let mut savings = 0;
        // Many leaves, and then few names that change again and again.
        let names: u64 = if seed % 2 == 0 { 20_000 } else { 0 };
        for name in 0..names {
            objects.run(&set(&format!("name {name}"), "first"), 0, 0);
        }
        for step in 0..4_000 {
            let time_ms = step * 3;
            objects.run(&any_command(&mut random, time_ms), time_ms, step);
            if names > 0 {
                let name = format!("name {}", random.below(names));
                objects.run(&set(&name, &step.to_string()), time_ms, step);
                let name = format!("name {}", random.below(names));
                objects.run(&Command::Del { key: name.as_bytes() }, time_ms, step);
            }
            let Some((shown, digest)) = &mut under_way else {
                if random.below(20) == 0 {
                    under_way = Some((BTreeSet::new(), objects.digest()));
                    checkpoint.begin(&mut objects);
                }
                continue;
            };
            if random.below(3) == 0 && checkpoint.go_on(&mut objects, random.below(300) as usize, shown) {
                assert_eq!(checkpoint.restore().digest(), *digest, "seed {seed}, step {step}");
                under_way = None;
                savings += 1;
            }
        }
        assert!(savings > 5, "seed {seed}");
    }
}

#[test]
fn what_is_forgotten_of_a_saving_comes_with_the_next_that_stores_everything() {
    let mut objects = Objects::new(HASH_KEY);
    objects.run(&set("a", "1"), 0, 0);
    objects.run(&set("b", "1"), 0, 0);
    objects.begin_saving();
    objects.run(&set("a", "2"), 0, 0);
    objects.forget_changes();
    objects.take_dirty(|key, _| panic!("{key:?} is dirty"));
    objects.note_all_changed();
    let mut checkpoint = Checkpoint::default();
    checkpoint.save(&mut objects);
    assert_eq!(checkpoint.restore().digest(), objects.digest());
}

#[test]
fn a_digest_tells_names_values_and_expiries_apart() {
    let digest_after = |commands: &[Command<'_>]| {
        let mut objects = Objects::new(HASH_KEY);
        for command in commands {
            objects.run(command, 0, 0);
        }
        objects.digest()
    };
    let different = [
        digest_after(&[]),
        digest_after(&[set("a", "bc")]),
        digest_after(&[set("ab", "c")]),
        digest_after(&[set("a", "bd")]),
        digest_after(&[set_until("a", "bc", 5)]),
        digest_after(&[set_until("a", "bc", 6)]),
        digest_after(&[set("a", "bc"), set("b", "")]),
    ];
    assert_eq!(BTreeSet::from(different).len(), different.len());
    let one_way = digest_after(&[set("a", "1"), set("b", "2")]);
    assert_eq!(one_way, digest_after(&[set("b", "1"), set("a", "1"), set("b", "2")]));
    let mut other_hash_key = Objects::new([0; 16]);
    other_hash_key.run(&set("a", "bc"), 0, 0);
    assert_eq!(other_hash_key.digest(), different[1]);
}

#[test]
fn dirty_names_are_shown_once() {
    let mut objects = Objects::new(HASH_KEY);
    let take = |objects: &mut Objects| {
        let mut shown = Vec::new();
        objects.take_dirty(|key, encoded| shown.push((key.to_vec(), encoded.is_some())));
        shown.sort();
        shown
    };
    objects.run(&set("a", "1"), 0, 0);
    objects.run(&set("a", "2"), 0, 0);
    objects.run(&set("b", "1"), 0, 0);
    objects.run(&set_until("c", "1", 10), 0, 0);
    assert_eq!(take(&mut objects), [(b"a".to_vec(), true), (b"b".to_vec(), true), (b"c".to_vec(), true)]);
    assert_eq!(take(&mut objects), []);
    objects.run(&get("a"), 0, 0);
    assert_eq!(take(&mut objects), []);
    for _ in 0..3 {
        objects.run(&Command::Del { key: b"a" }, 0, 0);
        objects.run(&set("a", "3"), 0, 0);
        objects.run(&Command::Del { key: b"b" }, 0, 0);
    }
    objects.advance(10);
    assert_eq!(take(&mut objects), [(b"a".to_vec(), true), (b"b".to_vec(), false), (b"c".to_vec(), false)]);
    objects.run(&set("d", "1"), 10, 0);
    objects.run(&Command::Flush, 10, 0);
    objects.run(&set("e", "1"), 10, 0);
    assert!(objects.was_flushed());
    assert_eq!(take(&mut objects), [(b"e".to_vec(), true)]);
    assert!(!objects.was_flushed());
}

#[test]
fn what_is_restored_counts_as_saved() {
    let mut source = Objects::new(HASH_KEY);
    source.run(&set_until("a", "1", 50), 0, 0);
    source.run(&set("b", "2"), 0, 0);
    let mut target = Objects::new(HASH_KEY);
    target.run(&set_until("a", "other", 40), 0, 0);
    source.for_each(|key, encoded| target.restore_object(key, encoded).unwrap());
    assert_eq!(target.digest(), source.digest());
    assert_eq!(target.bytes(), source.bytes());
    target.take_dirty(|key, _| panic!("{key:?} is dirty"));
    assert_eq!(target.next_expiry_ms(), Some(50));
    assert_eq!(target.run(&get("a"), 49, 0), bulk("1"));
    assert_eq!(target.run(&get("a"), 50, 0), Outcome::Nil);
    assert!(target.restore_object(b"c", b"\x02\x01\x00").is_err(), "a layout of a later release");
    assert!(target.restore_object(b"c", b"\x01\x63\x00").is_err(), "an unknown type");
}

#[test]
fn stored_objects_keep_their_bytes() {
    let mut objects = Objects::new(HASH_KEY);
    objects.run(&set("a", "vw"), 0, 0);
    objects.run(&set_until("b", "vw", 258), 0, 0);
    let mut stored = BTreeMap::new();
    objects.for_each(|key, encoded| {
        stored.insert(key.to_vec(), encoded.to_vec());
    });
    assert_eq!(stored[&b"a"[..]], b"\x01\x01\x00vw");
    assert_eq!(stored[&b"b"[..]], b"\x01\x01\x01\x02\x01\0\0\0\0\0\0vw");
}

#[test]
fn memory_is_given_back_in_the_books() {
    let mut objects = Objects::new(HASH_KEY);
    let empty = objects.bytes();
    let mut random = Random(3);
    for step in 0..20_000 {
        objects.run(&any_command(&mut random, step), step, 0);
    }
    assert!(objects.bytes() > empty);
    let mut names = Vec::new();
    objects.for_each(|key, _| names.push(key.to_vec()));
    for key in &names {
        objects.run(&Command::Del { key }, 20_000, 0);
    }
    assert!(objects.bytes() > empty, "the names that are gone take memory until a checkpoint");
    objects.take_dirty(|_, _| {});
    assert_eq!(objects.bytes(), empty);
}
