//! One suite for every store.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use quorate_checkpoint::{
    Batch, FORMAT_VERSION, FjallSettings, FjallStore, Key, MemoryStore, NAME_BYTES_MAX, Store, StoreError,
    VALUE_BYTES_MAX,
};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("quorate-checkpoint-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(FjallStore::count_path(&path));
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_file(FjallStore::count_path(&self.0));
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(directory: &Path) -> FjallStore {
    FjallStore::open(directory, &FjallSettings::default()).expect("a store can be opened")
}

fn objects(store: &impl Store, group: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    store.for_each(group, &mut |name, value| found.push((name.to_vec(), value.to_vec()))).unwrap();
    found
}

fn groups(store: &impl Store) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    store.groups(&mut |group, meta| found.push((group, meta.to_vec()))).unwrap();
    found
}

fn pair(name: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (name.to_vec(), value.to_vec())
}

/// Runs the suite; `reopen` closes a store and opens what it left.
fn conform<S: Store>(mut store: S, reopen: impl Fn(S) -> S) {
    store = records_are_found(store, &reopen);
    store = the_last_change_counts(store, &reopen);
    store = those_that_go_leave_their_neighbours(store, &reopen);
    store = limits_are_reached(store, &reopen);
    store = groups_are_told_apart(store, &reopen);
    agrees_with_a_map(store, &reopen);
}

fn records_are_found<S: Store>(mut store: S, reopen: &impl Fn(S) -> S) -> S {
    assert_eq!((groups(&store), objects(&store, 1), store.node_record("identity").unwrap()), (vec![], vec![], None));
    store.apply(Batch::new()).unwrap();
    let mut batch = Batch::new();
    batch.put_meta(1, b"meta".to_vec());
    batch.put_object(1, b"b", b"2".to_vec());
    batch.put_object(1, b"", b"no name".to_vec());
    batch.put_object(1, b"a", Vec::new());
    batch.put_object(1, &[0xff; 40], b"high".to_vec());
    batch.put_node_record("identity", b"n1".to_vec());
    batch.put_node_record("format", b"mine".to_vec());
    store.apply(batch).unwrap();
    store = reopen(store);
    assert_eq!(store.get(1, Key::Meta).unwrap().as_deref(), Some(b"meta".as_slice()));
    assert_eq!(store.get(1, Key::Object(b"a")).unwrap(), Some(Vec::new()), "an empty value is a value");
    assert_eq!(store.get(1, Key::Object(b"c")).unwrap(), None);
    assert_eq!(store.get(2, Key::Object(b"a")).unwrap(), None);
    assert_eq!(
        objects(&store, 1),
        [pair(b"", b"no name"), pair(b"a", b""), pair(b"b", b"2"), pair(&[0xff; 40], b"high")]
    );
    assert_eq!(store.node_record("identity").unwrap().as_deref(), Some(b"n1".as_slice()));
    assert_eq!(store.node_record("format").unwrap().as_deref(), Some(b"mine".as_slice()));
    store
}

fn the_last_change_counts<S: Store>(mut store: S, reopen: &impl Fn(S) -> S) -> S {
    let mut batch = Batch::new();
    batch.put_object(1, b"gone with the clearing", b"1".to_vec());
    batch.clear_objects(1);
    batch.put_object(1, b"a", b"put again".to_vec());
    batch.put_object(1, b"x", b"1".to_vec());
    batch.delete_object(1, b"x");
    batch.delete_object(1, b"y");
    batch.put_object(1, b"y", b"2".to_vec());
    batch.delete_node_record("identity");
    store.apply(batch).unwrap();
    store = reopen(store);
    assert_eq!(objects(&store, 1), [pair(b"a", b"put again"), pair(b"y", b"2")]);
    assert_eq!(groups(&store), [(1, b"meta".to_vec())], "the meta record is no object");
    assert_eq!(store.node_record("identity").unwrap(), None);
    let mut batch = Batch::new();
    batch.put_meta(1, b"never".to_vec());
    batch.delete_group(1);
    batch.put_object(1, b"orphan", b"3".to_vec());
    store.apply(batch).unwrap();
    store = reopen(store);
    assert_eq!((groups(&store), objects(&store, 1)), (vec![], vec![pair(b"orphan", b"3")]));
    let mut batch = Batch::new();
    batch.delete_group(1);
    store.apply(batch).unwrap();
    assert_eq!(objects(&store, 1), []);
    store
}

fn those_that_go_leave_their_neighbours<S: Store>(mut store: S, reopen: &impl Fn(S) -> S) -> S {
    let mut batch = Batch::new();
    for group in 10..17 {
        batch.put_meta(group, vec![group as u8]);
        batch.put_object(group, b"name", b"value".to_vec());
    }
    store.apply(batch).unwrap();
    let mut batch = Batch::new();
    [11, 12, 13, 16, 17].iter().for_each(|&group| batch.delete_group(group));
    batch.put_object(14, b"other", b"value".to_vec());
    store.apply(batch).unwrap();
    store = reopen(store);
    assert_eq!(groups(&store), [10, 14, 15].map(|group| (group, vec![group as u8])));
    assert_eq!((10..18).map(|group| objects(&store, group).len()).collect::<Vec<_>>(), [1, 0, 0, 0, 2, 1, 0, 0]);
    let mut batch = Batch::new();
    (10..18).for_each(|group| batch.delete_group(group));
    store.apply(batch).unwrap();
    assert_eq!(groups(&store), []);
    store
}

fn limits_are_reached<S: Store>(mut store: S, reopen: &impl Fn(S) -> S) -> S {
    let (name, value) = (vec![7; NAME_BYTES_MAX], vec![8; 16 * 1024 * 1024]);
    let mut batch = Batch::new();
    batch.put_object(u64::MAX, &name, value.clone());
    batch.put_meta(u64::MAX, vec![9; VALUE_BYTES_MAX]);
    assert_eq!(batch.bytes(), NAME_BYTES_MAX + 40 * 1024 * 1024);
    store.apply(batch).unwrap();
    store = reopen(store);
    assert!(store.get(u64::MAX, Key::Object(&name)).unwrap() == Some(value));
    assert_eq!(store.get(u64::MAX, Key::Meta).unwrap().map(|meta| meta.len()), Some(VALUE_BYTES_MAX));
    assert_eq!(groups(&store).len(), 1);
    let mut batch = Batch::new();
    batch.delete_group(u64::MAX);
    store.apply(batch).unwrap();
    store
}

/// Groups with none, few and many objects, and one that has objects but no meta record.
fn groups_are_told_apart<S: Store>(mut store: S, reopen: &impl Fn(S) -> S) -> S {
    let mut batch = Batch::new();
    for group in 0..300u64 {
        if group != 256 {
            batch.put_meta(group, group.to_le_bytes().to_vec());
        }
        for object in 0..(group % 7) * (group % 11) {
            batch.put_object(group, &object.to_be_bytes(), group.to_le_bytes().to_vec());
        }
    }
    store.apply(batch).unwrap();
    store = reopen(store);
    let expected: Vec<u64> = (0..300).filter(|group| *group != 256).collect();
    assert_eq!(groups(&store).iter().map(|(group, _)| *group).collect::<Vec<_>>(), expected);
    assert!(groups(&store).iter().all(|(group, meta)| *meta == group.to_le_bytes()));
    assert_eq!(walked(&store, 100, usize::MAX), expected[100..]);
    assert_eq!(walked(&store, 256, 3).first(), Some(&257));
    assert_eq!(walked(&store, 0, 0), expected);
    for group in 0..300 {
        let found = objects(&store, group);
        assert_eq!(found.len() as u64, (group % 7) * (group % 11));
        assert!(found.iter().all(|(_, value)| *value == group.to_le_bytes()), "group {group}");
    }
    let mut batch = Batch::new();
    (0..300).for_each(|group| batch.delete_group(group));
    store.apply(batch).unwrap();
    assert_eq!((groups(&store), objects(&store, 299)), (vec![], vec![]));
    store
}

/// The groups that a walk from `first` on visits, of each of which it reads at most so many objects.
fn walked(store: &impl Store, first: u64, objects_max: usize) -> Vec<u64> {
    let (mut found, mut walk) = (Vec::new(), store.walk_from(first));
    while let Some((group, _)) = walk.next_group().unwrap() {
        found.push(group);
        let mut read = 0;
        let mut each = |name: &[u8], value: &[u8]| {
            assert_eq!((name, value), (&(read as u64).to_be_bytes()[..], &group.to_le_bytes()[..]));
            read += 1;
            read < objects_max
        };
        if objects_max > 0 {
            walk.objects(&mut each).unwrap();
            assert_eq!(read, objects_max.min(((group % 7) * (group % 11)) as usize), "group {group}");
        }
    }
    found
}

/// Random batches against plain maps.
fn agrees_with_a_map<S: Store>(mut store: S, reopen: &impl Fn(S) -> S) {
    let mut state = 3u64;
    let mut random = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut model: BTreeMap<(u64, Vec<u8>), Vec<u8>> = BTreeMap::new();
    for round in 0..60 {
        let mut batch = Batch::new();
        for _ in 0..random(40) {
            let (group, name) = (random(4), vec![b'k'; 1 + random(30) as usize]);
            match random(20) {
                0 => {
                    batch.clear_objects(group);
                    model.retain(|(of, _), _| *of != group);
                }
                1..6 => {
                    batch.delete_object(group, &name);
                    model.remove(&(group, name));
                }
                _ => {
                    let value = vec![round as u8; random(2000) as usize];
                    batch.put_object(group, &name, value.clone());
                    model.insert((group, name), value);
                }
            }
        }
        store.apply(batch).unwrap();
        if round % 20 == 19 {
            store = reopen(store);
        }
        for group in 0..4 {
            let of_group = model.iter().filter(|((of, _), _)| *of == group);
            let expected: Vec<_> = of_group.map(|((_, name), value)| (name.clone(), value.clone())).collect();
            assert_eq!(objects(&store, group), expected, "round {round}");
        }
    }
}

#[test]
fn the_memory_store_conforms() {
    conform(MemoryStore::default(), |store| store.clone());
}

#[test]
fn the_fjall_store_conforms() {
    let directory = Directory::new("conformance");
    conform(open(&directory.0), |store| {
        drop(store);
        open(&directory.0)
    });
}

/// Names the directory that a process of this program is to fill, and to be killed over.
const KILLED_OVER: &str = "QUORATE_KILLED_OVER";
const KILLED_AFTER: u64 = 50;

#[test]
fn an_applied_batch_survives_a_kill() {
    if let Some(directory) = std::env::var_os(KILLED_OVER) {
        return fill_until_killed(Path::new(&directory));
    }
    let directory = Directory::new("kill");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["an_applied_batch_survives_a_kill", "--exact", "--nocapture"])
        .env(KILLED_OVER, &directory.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let applied = lines.map_while(Result::ok).any(|line| line.ends_with("applied"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(applied, "all batches were applied before the kill");
    let found = open(&directory.0);
    assert!(groups(&found).iter().all(|(_, meta)| *meta == (KILLED_AFTER - 1).to_le_bytes()));
    assert_eq!((groups(&found).len(), objects(&found, 19).len()), (20, KILLED_AFTER as usize));
}

fn fill_until_killed(directory: &Path) {
    let mut store = open(directory);
    for round in 0..KILLED_AFTER {
        let mut batch = Batch::new();
        for group in 0..20 {
            batch.put_meta(group, round.to_le_bytes().to_vec());
            batch.put_object(group, &round.to_be_bytes(), vec![round as u8; 5_000]);
        }
        store.apply(batch).unwrap();
    }
    println!("applied");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_batch_is_built_on_one_thread_and_applied_on_another() {
    let directory = Directory::new("threads");
    let store = open(&directory.0);
    let (batches, received) = mpsc::channel::<Batch>();
    let mut applier = store.clone();
    let thread = std::thread::spawn(move || received.iter().try_for_each(|batch| applier.apply(batch)));
    let mut batch = Batch::new();
    batch.put_object(1, b"a", b"1".to_vec());
    batches.send(batch).unwrap();
    drop(batches);
    thread.join().unwrap().unwrap();
    assert_eq!(objects(&store, 1), [pair(b"a", b"1")]);
}

#[test]
fn a_store_in_use_is_refused() {
    let directory = Directory::new("in-use");
    let _store = open(&directory.0);
    let outcome = FjallStore::open(&directory.0, &FjallSettings::default()).map(|_| ());
    assert!(matches!(outcome, Err(StoreError::InUse { .. })), "{outcome:?}");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let directory = Directory::new("newer");
    drop(open(&directory.0));
    let set = |version: &[u8]| {
        let database = fjall::Database::builder(&directory.0).open().unwrap();
        let records = database.keyspace("checkpoints", fjall::KeyspaceCreateOptions::default).unwrap();
        records.insert(b"\0format", version).unwrap();
        database.persist(fjall::PersistMode::SyncAll).unwrap();
    };
    set(&(FORMAT_VERSION + 1).to_le_bytes());
    let outcome = FjallStore::open(&directory.0, &FjallSettings::default()).map(|_| ());
    let Err(error) = outcome else { panic!("a newer format was opened") };
    assert!(matches!(error, StoreError::NewerVersion { found: 2, known: 1, .. }), "{error:?}");
    assert!(error.to_string().ends_with("written by a newer release (format 2, this one knows up to 1)"));
    set(b"what");
    let outcome = FjallStore::open(&directory.0, &FjallSettings::default()).map(|_| ());
    assert!(matches!(outcome, Err(StoreError::Damaged { .. })), "{outcome:?}");
}

#[test]
#[should_panic(expected = "a name of 65001 bytes")]
fn a_longer_name_is_a_callers_bug() {
    Batch::new().put_object(1, &vec![0; NAME_BYTES_MAX + 1], Vec::new());
}

#[test]
#[should_panic(expected = "a value of 25165825 bytes")]
fn a_larger_value_is_a_callers_bug() {
    Batch::new().put_meta(1, vec![0; VALUE_BYTES_MAX + 1]);
}
