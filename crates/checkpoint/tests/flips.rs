//! Flipped bits in the files of a store, and files that are not there: it holds what it held, or says that it does not.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quorate_checkpoint::{Batch, FjallSettings, FjallStore, Store, StoreError};

/// A store's directory within one of its own, which goes with the test; the file beside the store goes too.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-flips-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    fn open(&self) -> Result<FjallStore, StoreError> {
        // Small enough that some of what is stored becomes tables, and some stays in the journal.
        FjallStore::open(&self.store(), &FjallSettings { memtable_bytes: 128 << 10, ..FjallSettings::default() })
    }

    /// Every file, with its bytes, by its path from here.
    fn image(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut image = BTreeMap::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    image.insert(path.strip_prefix(&self.0).unwrap().to_owned(), fs::read(&path).unwrap());
                }
            }
        }
        image
    }

    fn restore(&self, image: &BTreeMap<PathBuf, Vec<u8>>) {
        fs::remove_dir_all(&self.0).unwrap();
        for (path, bytes) in image {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Content = BTreeMap<(u64, Vec<u8>), Vec<u8>>;

fn content(store: &FjallStore) -> Result<Content, StoreError> {
    let mut content = Content::new();
    let mut groups = Vec::new();
    store.groups(&mut |group, meta| {
        content.insert((group, b"meta".to_vec()), meta.to_vec());
        groups.push(group);
    })?;
    for group in groups {
        store.for_each(group, &mut |name, value| {
            content.insert((group, name.to_vec()), value.to_vec());
        })?;
    }
    Ok(content)
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        })
        .collect()
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    for group in 0..3 {
        batch.put_meta(group, bytes(number, 40));
        for object in 0..5 {
            let name = format!("object{}", (number + object) % 20);
            batch.put_object(group, name.as_bytes(), bytes(number * 100 + object, 900));
        }
    }
    batch
}

/// A store that was overwritten a few times over, and what it holds.
fn stored(scratch: &Scratch) -> (BTreeMap<PathBuf, Vec<u8>>, Content) {
    let mut store = scratch.open().unwrap();
    for number in 0..40 {
        store.apply(batch(number)).unwrap();
    }
    drop(store);
    // What was to become tables is written when it is opened again.
    let mut store = scratch.open().unwrap();
    store.apply(batch(40)).unwrap();
    let content = content(&store).unwrap();
    drop(store);
    (scratch.image(), content)
}

#[test]
fn no_flipped_bit_changes_what_is_read() {
    let scratch = Scratch::new("bits");
    let (image, expected) = stored(&scratch);
    assert!(image.keys().any(|path| path.to_string_lossy().contains("tables")), "{:?}", image.keys());
    let mut refused = BTreeMap::<String, (u64, u64)>::new();
    let mut wrong = Vec::new();
    for (path, clean) in image.iter().filter(|(_, clean)| !clean.is_empty()) {
        let flips: u64 = std::env::var("QUORATE_FLIPS").map_or(6, |text| text.parse().unwrap());
        for number in 0..flips {
            let used = clean.iter().rposition(|&byte| byte != 0).unwrap_or(0) + 1;
            let at = (number as usize * used / flips as usize + number as usize * 7) % used;
            let mut flipped = image.clone();
            flipped.get_mut(path).unwrap()[at] ^= 1 << (number % 8);
            scratch.restore(&flipped);
            let read = scratch.open().and_then(|store| content(&store));
            let entry = refused.entry(path.display().to_string()).or_default();
            match read {
                Ok(found) if found == expected => entry.0 += 1,
                Ok(_) => wrong.push((path.clone(), at, number % 8)),
                Err(_) => entry.1 += 1,
            }
        }
    }
    println!("file: (no matter, refused) {refused:#?}");
    assert!(wrong.is_empty(), "read as if nothing were wrong: {wrong:?}");
    assert!(refused.values().map(|(_, refused)| refused).sum::<u64>() > 10);
}

#[test]
fn a_store_that_lost_its_last_batches_is_refused() {
    let scratch = Scratch::new("lost");
    let mut store = scratch.open().unwrap();
    (0..4).for_each(|number| store.apply(batch(number)).unwrap());
    drop(store);
    let older = scratch.image();
    let mut store = scratch.open().unwrap();
    (4..7).for_each(|number| store.apply(batch(number)).unwrap());
    drop(store);
    let newer = scratch.image();
    // An older copy of the store, with the count as it was left.
    let mut mixed = older.clone();
    mixed.insert("store.count".into(), newer[Path::new("store.count")].clone());
    scratch.restore(&mixed);
    let outcome = scratch.open().map(|_| ());
    assert!(matches!(outcome, Err(StoreError::Lost { lost: 3, .. })), "{outcome:?}");
    // Its journal cut short, as the library does by itself with what it cannot read.
    let journal = newer.keys().find(|path| path.extension().is_some_and(|end| end == "jnl")).unwrap();
    let mut cut = newer.clone();
    let used = cut[journal].iter().rposition(|&byte| byte != 0).unwrap();
    cut.get_mut(journal).unwrap()[used - 3000..].fill(0);
    scratch.restore(&cut);
    let outcome = scratch.open().map(|_| ());
    assert!(matches!(outcome, Err(StoreError::Lost { lost: 1, .. } | StoreError::Engine { .. })), "{outcome:?}");
    // The store gone, and then the count.
    scratch.restore(
        &newer.iter().filter(|(path, _)| path.ends_with("store.count")).map(|(a, b)| (a.clone(), b.clone())).collect(),
    );
    let outcome = scratch.open().map(|_| ());
    assert!(matches!(outcome, Err(StoreError::Lost { .. })), "{outcome:?}");
    scratch.restore(
        &newer.iter().filter(|(path, _)| !path.ends_with("store.count")).map(|(a, b)| (a.clone(), b.clone())).collect(),
    );
    let outcome = scratch.open().map(|_| ());
    assert!(matches!(outcome, Err(StoreError::Damaged { .. })), "{outcome:?}");
    // One page of the count is enough; a count that is behind by a crash is set right.
    let mut behind = newer.clone();
    behind.insert("store.count".into(), older[Path::new("store.count")].clone());
    scratch.restore(&behind);
    drop(scratch.open().unwrap());
    assert_eq!(scratch.image()[Path::new("store.count")][..24], newer[Path::new("store.count")][..24]);
}
