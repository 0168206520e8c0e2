//! Pages of listings, judged by what clients saw of each key.

use std::collections::BTreeMap;

use quorate_protocol::register::{Answer, Key};

use super::text;
use crate::harness::linear::{Call, Outcome};

/// What was asked, when, and what was answered.
#[derive(Clone, Debug)]
pub struct Page {
    pub after: Option<String>,
    pub count: usize,
    pub called: u64,
    pub answered: Option<(u64, Answer)>,
}

/// How many keys had to be on the page, and how many had to be missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    pub listed: usize,
    pub missing: usize,
}

impl Page {
    pub fn assert_right(&self, calls: &BTreeMap<u64, Call>) -> Judged {
        let Some((at, Answer::Listed { keys, next, .. })) = &self.answered else { return Judged::default() };
        let after = self.after.as_ref().map(|after| Key(text(after)));
        let is_within = |key: &Key| after.as_ref() < Some(key) && next.as_ref().is_none_or(|next| key <= next);
        assert!(keys.is_sorted_by(|one, following| one < following), "{self:?}");
        assert!(keys.len() <= self.count && keys.iter().all(is_within), "{self:?}");
        assert!(next.as_ref().is_none_or(|next| after.as_ref() < Some(next)), "{self:?}");

        let mut by_key: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
        for call in calls.values().filter(|call| call.outcome != Outcome::NotCarriedOut && call.called < *at) {
            by_key.entry(&call.key).or_default().push(call);
        }
        assert!(keys.iter().all(|key| by_key.keys().any(|called| Key(text(called)) == *key)), "{self:?}");
        let mut judged = Judged::default();
        for (key, calls) in by_key.into_iter().filter(|(key, _)| is_within(&Key(text(key)))) {
            let is_listed = keys.contains(&Key(text(key)));
            if must_be_listed(&calls, self.called) {
                assert!(is_listed, "{key} is missing: {self:?}\n{calls:#?}");
                judged.listed += 1;
            } else if must_be_missing(&calls, self.called) {
                assert!(!is_listed, "{key} is listed: {self:?}\n{calls:#?}");
                judged.missing += 1;
            }
        }
        judged
    }
}

/// What the call has written or seen, if that is known to have been so before a moment.
fn known_by(call: &Call, moment: u64) -> Option<Option<&String>> {
    match &call.outcome {
        Outcome::Returned { at, value, .. } if *at < moment => {
            Some(call.write.as_ref().map_or(value, |(value, _)| value).as_ref())
        }
        _ => None,
    }
}

fn is_over(call: &Call, moment: u64) -> bool {
    matches!(call.outcome, Outcome::Returned { at, .. } if at < moment)
}

/// A value that does not expire is known, and whatever could end it was over when its write began.
fn must_be_listed(calls: &[&Call], called: u64) -> bool {
    let is_end = |call: &&&Call| matches!(call.write, Some((None, _) | (_, Some(_))));
    calls.iter().filter_map(|call| known_by(call, called).flatten()).any(|value| {
        let writes = |call: &&&Call| matches!(&call.write, Some((Some(written), None)) if written == value);
        let write = calls.iter().find(writes);
        write.is_some_and(|write| calls.iter().filter(is_end).all(|end| is_over(end, write.called)))
    })
}

/// No value was ever written; or none is known, and whatever could have written one was over before.
fn must_be_missing(calls: &[&Call], called: u64) -> bool {
    let is_value = |call: &&&Call| matches!(call.write, Some((Some(_), _)));
    let are_over = |moment| calls.iter().filter(is_value).all(|write| is_over(write, moment));
    let mut ends = calls.iter().filter(|call| known_by(call, called) == Some(None));
    !calls.iter().any(|call| is_value(&call)) || ends.any(|end| are_over(end.called))
}
