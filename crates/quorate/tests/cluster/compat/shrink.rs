//! From a mismatch at the end of a long history to the few commands that show it.

use super::step::{Step, shown};
use super::{Mismatch, Over, Pair};

/// Replays that one mismatch is worth.
const REPLAYS_MAX: usize = 400;

/// The mismatch at the last of these steps, with the fewest steps before it that still show one.
pub(crate) fn told(pair: Pair, steps: &[Step], seen: &Mismatch) -> String {
    let mut replays = 0;
    let mut mismatches = |steps: &[Step]| {
        replays += 1;
        if replays > REPLAYS_MAX { None } else { replay(pair, steps) }
    };
    let mut length = 1;
    let mut found = loop {
        let tail = &steps[steps.len() - length.min(steps.len())..];
        if let Some(mismatch) = mismatches(tail) {
            break Some((tail.to_vec(), mismatch));
        }
        if length >= steps.len() {
            break None;
        }
        length *= 2;
    };
    if let Some((tail, mismatch)) = &mut found {
        tail.truncate(mismatch.place + 1);
        let mut place = 0;
        while place + 1 < tail.len() {
            let mut shorter = tail.clone();
            shorter.remove(place);
            match mismatches(&shorter) {
                Some(smaller) => {
                    shorter.truncate(smaller.place + 1);
                    (*tail, *mismatch) = (shorter, smaller);
                }
                None => place += 1,
            }
        }
    }
    let (note, tail, mismatch) = match &found {
        Some((tail, mismatch)) => ("", &tail[..], mismatch),
        None => {
            ("(does not happen again when its history is repeated)\n", &steps[steps.len().saturating_sub(8)..], seen)
        }
    };
    let lines: Vec<String> = tail.iter().map(Step::told).collect();
    format!(
        "{note}{}\n  Redis:   {}\n  Quorate: {}",
        lines.join("\n"),
        shown(&mismatch.redis),
        shown(&mismatch.quorate)
    )
}

/// The first mismatch when these steps are sent, one by one, to servers that are empty.
fn replay(pair: Pair, steps: &[Step]) -> Option<Mismatch> {
    let mut session = pair.fresh();
    for (place, step) in steps.iter().enumerate() {
        match session.exchange(std::slice::from_ref(step)) {
            Ok(Over::Open) => {}
            Ok(Over::Closed) => session = Pair::connect(pair),
            Err(mismatch) => return Some(Mismatch { place, ..mismatch }),
        }
    }
    None
}
