//! Random runs: which seeds, how a failure is told, and the planted bugs that must be found.

use std::ops::RangeInclusive;

/// `SEEDS=1..1000` runs others.
fn seeds(last: u64) -> RangeInclusive<u64> {
    let Ok(text) = std::env::var("SEEDS") else { return 1..=last };
    let (first, last) = text.split_once("..").expect("SEEDS=first..last");
    first.parse().expect("a number")..=last.parse().expect("a number")
}

/// Names the seed of a run that does not end well.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}", self.0);
        }
    }
}

/// What comes of the seeds up to `last`; with `VERBOSE` each is named before it runs.
pub fn runs<T>(last: u64, run: impl Fn(u64) -> T) -> impl Iterator<Item = T> {
    seeds(last).map(move |seed| {
        if std::env::var_os("VERBOSE").is_some() {
            eprintln!("{seed}");
        }
        let _named = Named(seed);
        run(seed)
    })
}

/// Each planted bug makes a run fail.
#[cfg(feature = "planted")]
pub fn assert_caught<T>(
    bugs: impl IntoIterator<Item = quorate_protocol::planted::Planted>,
    last: u64,
    run: impl Fn(u64) -> T + std::panic::RefUnwindSafe,
) {
    use quorate_protocol::planted::select;
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for planted in bugs {
        select(Some(planted));
        let caught = seeds(last).find(|&seed| std::panic::catch_unwind(|| run(seed)).is_err());
        println!("{planted:?}: {caught:?}");
        if caught.is_none() {
            missed.push(planted);
        }
    }
    select(None);
    assert!(missed.is_empty(), "{missed:?}");
}
