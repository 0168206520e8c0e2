//! What clients sent and were told, and whether what is there agrees with it.
//!
//! A write is *acknowledged*, *refused* (the error says that it was not executed) or *unknown*. A counter must be at
//! least the sum of its acknowledged increments and at most that and the unknown ones; a register must hold its last
//! acknowledged value or an unknown one. Each value is written once, so that nothing can be mistaken for another.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Acknowledged,
    /// An increment, with its result.
    Counted(i64),
    Refused,
    Unknown,
}

/// A write, by the number of the object that it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Write {
    Increment { counter: usize },
    Assign { register: usize, value: u64 },
}

pub(crate) struct Ledger(Mutex<Books>);

#[derive(Default)]
struct Books {
    counters: Vec<Counter>,
    registers: Vec<Register>,
    totals: Totals,
    /// What no client should ever have been told.
    nonsense: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) acknowledged: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) in_flight: u64,
}

#[derive(Default)]
struct Counter {
    acknowledged: i64,
    unknown: i64,
    /// What the acknowledged increments were told: each number once.
    numbers: HashSet<i64>,
    told_max: i64,
    /// Since when to wait for a new increment, and when one that was sent since then was acknowledged.
    watched_since: Option<Instant>,
    resumed_at: Option<Instant>,
}

#[derive(Default)]
struct Register {
    acknowledged: Option<u64>,
    unknown: Vec<u64>,
}

pub(crate) fn counter_key(number: usize) -> String {
    format!("counter:{number}")
}

pub(crate) fn register_key(number: usize) -> String {
    format!("register:{number}")
}

impl Ledger {
    pub(crate) fn new(counter_count: usize) -> Ledger {
        let counters = (0..counter_count).map(|_| Counter::default()).collect();
        Ledger(Mutex::new(Books { counters, ..Books::default() }))
    }

    pub(crate) fn new_register(&self) -> usize {
        let mut books = self.books();
        books.registers.push(Register::default());
        books.registers.len() - 1
    }

    pub(crate) fn sent(&self) {
        self.books().totals.in_flight += 1;
    }

    pub(crate) fn ended(&self, write: Write, sent_at: Instant, end: &End) {
        let mut books = self.books();
        let total = match end {
            End::Acknowledged | End::Counted(_) => &mut books.totals.acknowledged,
            End::Refused => &mut books.totals.refused,
            End::Unknown => &mut books.totals.unknown,
        };
        *total += 1;
        books.totals.in_flight -= 1;
        match write {
            Write::Increment { counter } => {
                let nonsense = books.counters[counter].ended(sent_at, end).err();
                books.nonsense.extend(nonsense.map(|what| format!("{}: {what}", counter_key(counter))));
            }
            Write::Assign { register, value } => books.registers[register].ended(value, end),
        }
    }

    pub(crate) fn complain(&self, what: String) {
        self.books().nonsense.push(what);
    }

    pub(crate) fn totals(&self) -> Totals {
        self.books().totals
    }

    /// From now on, [`Ledger::resumed_after`] waits for each counter.
    pub(crate) fn watch(&self) {
        let now = Instant::now();
        for counter in &mut self.books().counters {
            counter.watched_since = Some(now);
            counter.resumed_at = None;
        }
    }

    /// How long after [`Ledger::watch`] the last counter took an increment that was sent since.
    pub(crate) fn resumed_after(&self) -> Option<Duration> {
        let books = self.books();
        let waited = |counter: &Counter| Some(counter.resumed_at?.duration_since(counter.watched_since?));
        books.counters.iter().map(waited).max_by_key(|waited| waited.map_or(Duration::MAX, |waited| waited))?
    }

    /// What each counter is at least, and which key it has: the largest number that anybody was told.
    pub(crate) fn told(&self) -> Vec<(String, i64)> {
        let books = self.books();
        books.counters.iter().enumerate().map(|(number, counter)| (counter_key(number), counter.told_max)).collect()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.books().keys().collect()
    }

    /// Compares the values of [`Ledger::keys`] with what was told. Nobody writes meanwhile.
    pub(crate) fn assert_explains(&self, values: &[Option<String>], seen_at: &str) {
        let books = self.books();
        assert!(books.nonsense.is_empty(), "{seen_at}: {}", books.nonsense.join("\n"));
        assert_eq!(books.totals.in_flight, 0, "somebody still writes");
        let (counters, registers) = values.split_at(books.counters.len());
        let counters = books.counters.iter().zip(counters).map(|(counter, value)| counter.check(value.as_deref()));
        let registers = books.registers.iter().zip(registers).map(|(register, value)| register.check(value.as_deref()));
        let checks = books.keys().zip(counters.chain(registers));
        let wrong: Vec<String> = checks.filter_map(|(key, check)| Some(format!("{key}: {}", check.err()?))).collect();
        assert!(wrong.is_empty(), "{seen_at}: {} objects are wrong: {}", wrong.len(), wrong.join("\n"));
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().expect("no thread panics with the books open")
    }
}

impl Books {
    fn keys(&self) -> impl Iterator<Item = String> {
        let registers = (0..self.registers.len()).map(register_key);
        (0..self.counters.len()).map(counter_key).chain(registers)
    }
}

impl Counter {
    fn ended(&mut self, sent_at: Instant, end: &End) -> Result<(), String> {
        match *end {
            End::Counted(number) => {
                self.acknowledged += 1;
                self.told_max = self.told_max.max(number);
                if self.watched_since.is_some_and(|since| sent_at >= since) {
                    self.resumed_at.get_or_insert_with(Instant::now);
                }
                if !self.numbers.insert(number) {
                    return Err(format!("two increments were told {number}"));
                }
            }
            End::Unknown => self.unknown += 1,
            End::Refused => {}
            End::Acknowledged => return Err("an increment was told no number".to_owned()),
        }
        Ok(())
    }

    fn check(&self, value: Option<&str>) -> Result<(), String> {
        let value: i64 = value.map_or(Ok(0), str::parse).map_err(|_| format!("holds {value:?}"))?;
        let (least, most) = (self.acknowledged, self.acknowledged + self.unknown);
        if !(least..=most).contains(&value) {
            return Err(format!("is {value}, with {least} acknowledged and {} unknown", self.unknown));
        }
        if self.told_max > value {
            return Err(format!("is {value}, although somebody was told {}", self.told_max));
        }
        Ok(())
    }
}

impl Register {
    fn ended(&mut self, value: u64, end: &End) {
        match end {
            End::Acknowledged | End::Counted(_) => self.acknowledged = Some(value),
            End::Unknown => self.unknown.push(value),
            End::Refused => {}
        }
    }

    fn check(&self, value: Option<&str>) -> Result<(), String> {
        let value: Option<u64> = value.map(str::parse).transpose().map_err(|_| format!("holds {value:?}"))?;
        if value == self.acknowledged || value.is_some_and(|value| self.unknown.contains(&value)) {
            return Ok(());
        }
        Err(format!("holds {value:?}, acknowledged last {:?}, unknown {:?}", self.acknowledged, self.unknown))
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { acknowledged, refused, unknown, .. } = self;
        write!(f, "{acknowledged} acknowledged, {refused} refused, {unknown} unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter_after(ends: &[End]) -> Counter {
        let mut counter = Counter::default();
        ends.iter().for_each(|end| counter.ended(Instant::now(), end).expect("no nonsense"));
        counter
    }

    #[test]
    fn a_counter_may_hold_unknown_increments_and_no_others() {
        let counter = counter_after(&[End::Counted(1), End::Refused, End::Unknown, End::Counted(2)]);
        assert!(counter.check(Some("1")).is_err(), "an acknowledged increment is lost");
        assert!(counter.check(Some("2")).is_ok());
        assert!(counter.check(Some("3")).is_ok());
        assert!(counter.check(Some("4")).is_err(), "a refused increment was executed, or one was executed twice");
        assert!(counter_after(&[End::Unknown, End::Counted(2)]).check(Some("1")).is_err(), "told 2 already");
        assert!(counter_after(&[End::Counted(1)]).ended(Instant::now(), &End::Counted(1)).is_err());
    }

    #[test]
    fn a_register_holds_its_last_acknowledged_value_or_an_unknown_one() {
        let mut register = Register::default();
        assert!(register.check(None).is_ok());
        let ends = [(1, End::Acknowledged), (2, End::Acknowledged), (3, End::Refused), (4, End::Unknown)];
        ends.iter().for_each(|(value, end)| register.ended(*value, end));
        for (value, is_good) in [(None, false), (Some("1"), false), (Some("2"), true), (Some("3"), false)] {
            assert_eq!(register.check(value).is_ok(), is_good, "{value:?}");
        }
        assert!(register.check(Some("4")).is_ok());
        assert!(register.check(Some("x")).is_err());
    }
}
