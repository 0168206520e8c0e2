//! Values that must not be left yet.
//!
//! A value that only one call can bring about exists once: when the object has left it, it does not return. So while a
//! call that saw it is not yet in order, nothing may change it, and the search need not try. Without this, a dozen
//! overlapping writes are tried in thousands of orders before the reads that follow refute them.
//!
//! If the one call is an APPEND, it saw such a value itself: what precedes its own part. And if an object is only ever
//! incremented, by positive amounts, no number returns, whichever call brings it about; an increment saw the one before its
//! answer.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use crate::check::linearizability::Operation;
use crate::check::model::State;
use crate::history::{Action, Answer, Fate, History, Record};

/// A value that exists once and that somebody saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ValueId(u32);

pub(super) struct Awaited<'a> {
    values: HashMap<Cow<'a, [u8]>, ValueId>,
    /// By operation: the value that it saw, by its own answer or by that of a call that saw what it appended to.
    seen_by: Vec<Option<ValueId>>,
    /// By value: how many operations outside the order saw it.
    waiting: Vec<u32>,
}

impl<'a> Awaited<'a> {
    /// All operations are outside the order at first.
    pub(super) fn new(history: &'a History, operations: &[Operation]) -> Self {
        let mut producers = Producers::default();
        for (index, operation) in operations.iter().enumerate().filter(|(_, operation)| !operation.idle) {
            producers.add(index, &history.record(operation.id).call.action);
        }
        let mut awaited = Self { values: HashMap::new(), seen_by: vec![None; operations.len()], waiting: Vec::new() };
        for (index, operation) in operations.iter().enumerate() {
            let record = history.record(operation.id);
            if producers.is_rising() {
                awaited.seen_by[index] = number_seen(record).map(|value| awaited.number(value));
                continue;
            }
            let mut seen = value_seen(record).map(|value| (index, value));
            while let Some((by, value)) = seen.filter(|(_, value)| producers.count(value) == 1) {
                awaited.seen_by[by] = Some(awaited.number(Cow::Borrowed(value)));
                seen = producers.append_to(value);
            }
        }
        (0..operations.len()).for_each(|index| awaited.put_back(index));
        awaited
    }

    fn number(&mut self, value: Cow<'a, [u8]>) -> ValueId {
        let next = ValueId(self.waiting.len() as u32);
        let id = *self.values.entry(value).or_insert(next);
        if id == next {
            self.waiting.push(0);
        }
        id
    }

    /// The value of a state, if it exists once and was seen.
    pub(super) fn value_of(&self, state: &State) -> Option<ValueId> {
        self.values.get(&*state.as_ref()?.value).copied()
    }

    /// Whether somebody other than this operation still has to see the value.
    pub(super) fn is_awaited(&self, value: ValueId, index: usize) -> bool {
        let by_itself = u32::from(self.seen_by[index] == Some(value));
        self.waiting[value.0 as usize] > by_itself
    }

    pub(super) fn take(&mut self, index: usize) {
        if let Some(value) = self.seen_by[index] {
            self.waiting[value.0 as usize] -= 1;
        }
    }

    pub(super) fn put_back(&mut self, index: usize) {
        if let Some(value) = self.seen_by[index] {
            self.waiting[value.0 as usize] += 1;
        }
    }
}

/// The whole value that the object had when this call was executed, if its answer tells.
fn value_seen(record: &Record) -> Option<&[u8]> {
    match (&record.call.action, &record.fate) {
        (Action::SetIfEqual { expected, .. }, Fate::Answered { answer: Answer::Ok, .. }) => Some(expected),
        (_, Fate::Answered { answer: Answer::Bytes(value), .. }) => Some(value),
        _ => None,
    }
}

/// The number that an object had when this call was executed, if it is a counter and the answer tells.
fn number_seen(record: &Record) -> Option<Cow<'_, [u8]>> {
    match (&record.call.action, &record.fate) {
        (Action::IncrBy { delta }, Fate::Answered { answer: Answer::Int(number), .. }) => {
            Some(Cow::Owned((i128::from(*number) - i128::from(*delta)).to_string().into_bytes()))
        }
        _ => value_seen(record).map(Cow::Borrowed),
    }
}

/// The calls that can bring about a value, counted with a margin: never too few.
#[derive(Default)]
struct Producers<'a> {
    whole: HashMap<&'a [u8], usize>,
    /// The operations that append it.
    tails: HashMap<&'a [u8], Vec<usize>>,
    tail_lengths: BTreeSet<usize>,
    increments: Increments,
    /// Some call changes the object, and is no increment.
    is_written: bool,
}

/// What all increments together can make of a number.
#[derive(Default)]
struct Increments {
    count: usize,
    /// The sums of those that add and of those that subtract.
    up: i128,
    down: i128,
    has_zero: bool,
    /// The numbers that were written, and what there is at first.
    bases: BTreeSet<i128>,
    /// Numbers may come about by appending digits.
    is_any_base: bool,
}

impl<'a> Producers<'a> {
    fn add(&mut self, index: usize, action: &'a Action) {
        self.increments.add(action);
        self.is_written |= action.is_write() && !matches!(action, Action::IncrBy { .. });
        match action {
            Action::Set { value }
            | Action::SetExpiring { value, .. }
            | Action::SetIfAbsent { value }
            | Action::SetIfEqual { value, .. }
            | Action::GetSet { value } => *self.whole.entry(value).or_default() += 1,
            Action::Append { value } => {
                self.tails.entry(value).or_default().push(index);
                self.tail_lengths.insert(value.len());
            }
            Action::IncrBy { .. } | Action::Get | Action::Exists | Action::Strlen | Action::Pttl => {}
            Action::Del | Action::Erase | Action::GetDel | Action::ExpireAt { .. } | Action::Persist => {}
        }
    }

    /// Whether the object holds ever greater numbers, and nothing else.
    fn is_rising(&self) -> bool {
        !self.is_written && self.increments.down == 0 && !self.increments.has_zero
    }

    fn count(&self, value: &[u8]) -> usize {
        let by_increment = if self.increments.may_make(value) { self.increments.count } else { 0 };
        let by_append: usize = self.appends(value).map(|(appends, _)| appends.len()).sum();
        self.whole.get(value).copied().unwrap_or(0) + by_append + by_increment
    }

    /// The appends that can have brought about a value, by what was there before them.
    fn appends<'v>(&self, value: &'v [u8]) -> impl Iterator<Item = (&[usize], &'v [u8])> {
        let places = self.tail_lengths.iter().filter_map(|&length| value.len().checked_sub(length));
        places.filter_map(|from| {
            let (before, tail) = value.split_at(from);
            Some((self.tails.get(tail)?.as_slice(), before))
        })
    }

    /// The append that brought about a value which nothing else can have brought about, and what it appended to.
    fn append_to<'v>(&self, value: &'v [u8]) -> Option<(usize, &'v [u8])> {
        let (appends, before) = self.appends(value).next()?;
        (before.len() < value.len()).then_some((appends[0], before))
    }
}

impl Increments {
    fn add(&mut self, action: &Action) {
        match action {
            Action::IncrBy { delta } => {
                self.count += 1;
                let delta = i128::from(*delta);
                self.has_zero |= delta == 0;
                self.up += delta.max(0);
                self.down += delta.min(0);
            }
            Action::Set { value }
            | Action::SetExpiring { value, .. }
            | Action::SetIfAbsent { value }
            | Action::SetIfEqual { value, .. }
            | Action::GetSet { value } => self.bases.extend(number(value)),
            Action::Append { value } => {
                self.is_any_base |= value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-')
            }
            _ => {}
        }
    }

    /// Whether some of them, one after the other, may end with this value, which was another one just before.
    fn may_make(&self, value: &[u8]) -> bool {
        let Some(number) = number(value).filter(|_| self.count > 0) else { return false };
        let from = |base: i128| (self.down..=self.up).contains(&(number - base));
        let comes_back = self.up > 0 && self.down < 0;
        let within = self.bases.range(number - self.up..=number - self.down);
        self.is_any_base || comes_back || from(0) || within.copied().any(|base| base != number)
    }
}

fn number(value: &[u8]) -> Option<i128> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
