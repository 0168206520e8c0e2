//! Counters: what can be said of INCR and GET alone, in one pass, of histories of any length.
//!
//! With `acknowledged` the sum of the answered increments and `unknown` that of the increments of unknown fate:
//! - the counter ends between `acknowledged` and `acknowledged + unknown`;
//! - no two increments answered the same number;
//! - each answer lies between what had been acknowledged before the call, and what had been asked for by its end;
//! - numbers never fall from a call to one that follows it in real time, or in its connection.
//!
//! These are consequences of linearizability that name the loss or the repetition directly; the search of
//! [`linearizability`](crate::check::linearizability) decides the rest.

use std::collections::{BTreeMap, HashMap};

use crate::check::{Verdict, lanes};
use crate::history::{Action, Answer, CallId, Fate, History, Object};

/// Judges an object that is only ever incremented (by positive amounts) and read. `end` is its value after the last call.
pub fn check_object(history: &History, object: Object, calls: &[CallId], end: i64) -> Verdict {
    let tally = match Tally::of(history, calls) {
        Ok(tally) => tally,
        Err(Fault { explanation, calls }) => {
            let explanation = format!("{explanation}\n{}", lanes(history, &calls));
            return Verdict::Unknown { object, explanation };
        }
    };
    let faults = [tally.check_end(end), tally.check_unique(), tally.check_range(), tally.check_order(history)];
    match faults.into_iter().find_map(Result::err) {
        None => Verdict::Linearizable,
        Some(Fault { explanation, calls }) => {
            Verdict::Violation { object, explanation: format!("{explanation}\n{}", lanes(history, &calls)) }
        }
    }
}

struct Fault {
    explanation: String,
    calls: Vec<CallId>,
}

/// An answered call: an increment, or a read with `delta` 0.
struct Seen {
    id: CallId,
    invoked_us: u64,
    returned_us: u64,
    delta: i64,
    number: i64,
}

struct Tally {
    /// In the order of invocation.
    seen: Vec<Seen>,
    /// Invocation and amount of all increments that may have been executed.
    asked: Vec<(u64, i64)>,
    acknowledged: i64,
    unknown: i64,
}

impl Tally {
    fn of(history: &History, calls: &[CallId]) -> Result<Self, Fault> {
        let mut tally = Self { seen: Vec::new(), asked: Vec::new(), acknowledged: 0, unknown: 0 };
        for &id in calls {
            let record = history.record(id);
            let refuse = |why: &str| Err(Fault { explanation: why.to_owned(), calls: vec![id] });
            let delta = match record.call.action {
                Action::Get => 0,
                Action::IncrBy { delta } if delta > 0 => delta,
                _ => {
                    return refuse("only GET and positive increments can be judged as a counter's");
                }
            };
            match &record.fate {
                Fate::NotExecuted => continue,
                Fate::Unknown => tally.unknown += delta,
                Fate::Answered { at_us, answer } => {
                    let Some(number) = number(answer) else {
                        return refuse("the answer is not a counter's");
                    };
                    tally.acknowledged += delta;
                    let invoked_us = record.invoked_us;
                    tally.seen.push(Seen { id, invoked_us, returned_us: *at_us, delta, number });
                }
            }
            tally.asked.push((record.invoked_us, delta));
        }
        Ok(tally)
    }

    fn check_end(&self, end: i64) -> Result<(), Fault> {
        let most = self.acknowledged + self.unknown;
        if (self.acknowledged..=most).contains(&end) {
            return Ok(());
        }
        let explanation =
            format!("it ends at {end}, with {} acknowledged and {} unknown", self.acknowledged, self.unknown);
        Err(Fault { explanation, calls: Vec::new() })
    }

    fn check_unique(&self) -> Result<(), Fault> {
        let mut answered: HashMap<i64, CallId> = HashMap::new();
        for seen in self.seen.iter().filter(|seen| seen.delta > 0) {
            if let Some(other) = answered.insert(seen.number, seen.id) {
                let explanation = format!("two increments answered {}", seen.number);
                return Err(Fault { explanation, calls: vec![other, seen.id] });
            }
        }
        Ok(())
    }

    fn check_range(&self) -> Result<(), Fault> {
        let mut by_return: Vec<&Seen> = self.seen.iter().collect();
        by_return.sort_by_key(|seen| seen.returned_us);
        let mut returned = by_return.iter().peekable();
        let mut acknowledged = 0;
        for seen in &self.seen {
            while let Some(before) = returned.next_if(|before| before.returned_us < seen.invoked_us) {
                acknowledged += before.delta;
            }
            let least = acknowledged + seen.delta;
            if seen.number < least {
                let explanation = format!("{} was answered where at least {least} was due", seen.number);
                return Err(Fault { explanation, calls: vec![seen.id] });
            }
        }
        let mut asked = self.asked.iter().peekable();
        let mut most = 0;
        for seen in by_return {
            while let Some((_, delta)) = asked.next_if(|(invoked_us, _)| *invoked_us <= seen.returned_us) {
                most += delta;
            }
            if seen.number > most {
                let explanation = format!("{} was answered when only {most} had been asked for", seen.number);
                return Err(Fault { explanation, calls: vec![seen.id] });
            }
        }
        Ok(())
    }

    /// A call's number must be above the highest number answered before it, by at least its own amount.
    fn check_order(&self, history: &History) -> Result<(), Fault> {
        let mut by_return: Vec<&Seen> = self.seen.iter().collect();
        by_return.sort_by_key(|seen| seen.returned_us);
        let mut returned = by_return.into_iter().peekable();
        let mut highest: Option<&Seen> = None;
        let mut connections: BTreeMap<u32, &Seen> = BTreeMap::new();
        for seen in &self.seen {
            while let Some(before) = returned.next_if(|before| before.returned_us < seen.invoked_us) {
                highest = highest.filter(|highest| highest.number >= before.number).or(Some(before));
            }
            let sent_before = connections.insert(history.record(seen.id).connection.0, seen);
            for before in highest.into_iter().chain(sent_before) {
                if seen.number < before.number + seen.delta {
                    let explanation = format!("{} was answered after {}", seen.number, before.number);
                    return Err(Fault { explanation, calls: vec![before.id, seen.id] });
                }
            }
        }
        Ok(())
    }
}

fn number(answer: &Answer) -> Option<i64> {
    match answer {
        Answer::Int(number) => Some(*number),
        Answer::Nil => Some(0),
        Answer::Bytes(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        Answer::Ok | Answer::Error(_) => None,
    }
}
