//! Linearizability of strings, counters and expiring objects: for each object there is one order of its calls that
//! explains every answer, keeps the order of calls that did not overlap, and keeps the order in which each connection
//! sent its calls.
//!
//! Objects are judged one by one, which suffices: linearizability is local (Herlihy and Wing 1990, theorem 1). A call
//! of unknown fate is executed at most once, at any time from its invocation on, or up to [`Bounds::unknown_effect_us`]
//! after it. A call that was refused as not executed is not executed.

use std::collections::{BTreeMap, HashMap};

use crate::check::model::{Window, changed_nothing};
use crate::check::search::{Dead, End, Search};
use crate::check::{Bounds, Verdict, lanes};
use crate::history::{Action, Answer, CallId, Fate, History, Object, Quoted, Record};

/// The part of the budget for each attempt to find an order with few calls of unknown fate. It seldom takes more, where there is one.
const PART: usize = 8;
/// So many of them close together, at most. Where an order needs some, one without that bound tries whatever piles up behind a crowd of
/// calls that waited for a partition to end.
const FEW_UNKNOWN: [usize; 3] = [1, 2, 4];

/// Judges all objects; the first that fails is the verdict.
pub fn check(history: &History, bounds: &Bounds) -> Verdict {
    let objects = history.by_object();
    let mut verdicts = objects.iter().map(|(object, calls)| check_object(history, *object, calls, bounds));
    verdicts.find(|verdict| !verdict.is_linearizable()).unwrap_or(Verdict::Linearizable)
}

/// Judges one object by all its calls, which are given in the order of their invocation.
pub fn check_object(history: &History, object: Object, calls: &[CallId], bounds: &Bounds) -> Verdict {
    // An order without some calls of unknown fate is an order: they need not take effect.
    let seen = without_unseen(history, calls);
    if seen.len() < calls.len() {
        let operations = operations(history, &seen, bounds);
        let mut search = Search::new(history, &operations, bounds.configurations_max / PART);
        if matches!(search.run(), End::Explained) {
            return Verdict::Linearizable;
        }
    }
    let operations = operations(history, calls, bounds);
    for few in FEW_UNKNOWN {
        let mut search = Search::new(history, &operations, bounds.configurations_max / PART).sparing(few);
        if matches!(search.run(), End::Explained) {
            return Verdict::Linearizable;
        }
    }
    let mut search = Search::new(history, &operations, bounds.configurations_max);
    match search.run() {
        End::Explained => Verdict::Linearizable,
        End::Exhausted(dead) => Verdict::Violation { object, explanation: explain(history, &operations, &dead) },
        End::GaveUp(dead) => {
            let budget = format!("gave up after {} configurations; ", bounds.configurations_max);
            Verdict::Unknown { object, explanation: budget + &explain(history, &operations, &dead) }
        }
    }
}

/// All calls but writes of unknown fate whose value is in no answer, and that no answered call has compared with.
fn without_unseen(history: &History, calls: &[CallId]) -> Vec<CallId> {
    let mut seen: Vec<&[u8]> = Vec::new();
    for record in calls.iter().map(|&id| history.record(id)) {
        let Fate::Answered { answer, .. } = &record.fate else { continue };
        if let Answer::Bytes(bytes) = answer {
            seen.push(bytes);
        }
        if let Action::SetIfEqual { expected, .. } = &record.call.action {
            seen.push(expected);
        }
    }
    let is_seen =
        |value: &[u8]| value.is_empty() || seen.iter().any(|seen| seen.windows(value.len()).any(|part| part == value));
    let is_kept = |record: &Record| match (&record.fate, written(&record.call.action)) {
        (Fate::Unknown, Some(value)) => is_seen(value),
        _ => true,
    };
    calls.iter().copied().filter(|&id| is_kept(history.record(id))).collect()
}

fn written(action: &Action) -> Option<&[u8]> {
    match action {
        Action::Set { value }
        | Action::SetExpiring { value, .. }
        | Action::SetIfAbsent { value }
        | Action::SetIfEqual { value, .. }
        | Action::GetSet { value }
        | Action::Append { value } => Some(value),
        _ => None,
    }
}

/// A call as the search sees it. Operations are numbered by their place in the order of invocation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) id: CallId,
    pub(super) invoked_us: u64,
    /// When it returned, or the last moment at which it may take effect.
    pub(super) end_us: u64,
    pub(super) window: Window,
    /// Of unknown fate: it need not take effect.
    pub(super) optional: bool,
    /// Its answer says that it changed nothing.
    pub(super) idle: bool,
    /// Its connection, numbered from 0 within this object.
    pub(super) lane: usize,
    /// The last operation before it in its lane that is not optional.
    pub(super) required_before: Option<usize>,
    pub(super) optional_before: bool,
    /// The latest earlier operation with which it may change places at will.
    pub(super) twin: Option<usize>,
}

fn operations(history: &History, calls: &[CallId], bounds: &Bounds) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::with_capacity(calls.len());
    let mut lanes = Lanes::default();
    for &id in calls {
        let record = history.record(id);
        let optional = match &record.fate {
            Fate::NotExecuted => continue,
            // It changed nothing, and nobody heard what it saw.
            Fate::Unknown if !record.call.action.is_write() => continue,
            Fate::Unknown => true,
            Fate::Answered { .. } => false,
        };
        let (end_us, idle) = match &record.fate {
            Fate::Answered { at_us, answer } => (*at_us, changed_nothing(&record.call.action, answer)),
            _ => (bounds.unknown_end_us(record.invoked_us), false),
        };
        let lane = lanes.of(record);
        operations.push(Operation {
            id,
            invoked_us: record.invoked_us,
            end_us,
            window: window(record.invoked_us, end_us, bounds),
            optional,
            idle,
            lane,
            required_before: lanes.required[lane],
            optional_before: lanes.optional[lane],
            twin: None,
        });
        lanes.push(lane, operations.len() - 1, optional);
    }
    find_twins(history, &mut operations, &lanes);
    operations
}

/// What each connection has sent so far on this object.
#[derive(Default)]
struct Lanes {
    by_connection: BTreeMap<u32, usize>,
    required: Vec<Option<usize>>,
    optional: Vec<bool>,
    last: Vec<Option<usize>>,
}

impl Lanes {
    fn of(&mut self, record: &Record) -> usize {
        let lane = *self.by_connection.entry(record.connection.0).or_insert(self.last.len());
        if lane == self.last.len() {
            self.required.push(None);
            self.optional.push(false);
            self.last.push(None);
        }
        lane
    }

    fn push(&mut self, lane: usize, operation: usize, optional: bool) {
        self.last[lane] = Some(operation);
        if optional {
            self.optional[lane] = true;
        } else {
            self.required[lane] = Some(operation);
        }
    }
}

/// Two optional operations that do the same are interchangeable if neither has optional ones before it or anything after
/// it in its connection, and the object never expires: then time plays no part in what they do. Without this, twenty
/// lost INCRs would be tried in every order.
fn find_twins(history: &History, operations: &mut [Operation], lanes: &Lanes) {
    let action = |operation: &Operation| &history.record(operation.id).call.action;
    if operations.iter().any(|operation| action(operation).sets_expiry()) {
        return;
    }
    let mut latest: HashMap<&Action, usize> = HashMap::new();
    for (index, operation) in operations.iter_mut().enumerate() {
        let alone = lanes.last[operation.lane] == Some(index) && !operation.optional_before;
        if operation.optional && alone {
            operation.twin = latest.insert(action(operation), index);
        }
    }
}

fn window(invoked_us: u64, end_us: u64, bounds: &Bounds) -> Window {
    let group_ms = |world_ms: u64| bounds.origin_ms.saturating_add_unsigned(world_ms);
    Window {
        earliest_ms: group_ms(invoked_us / 1000).saturating_sub_unsigned(bounds.skew_ms),
        latest_ms: group_ms(end_us.div_ceil(1000)).saturating_add_unsigned(bounds.skew_ms),
    }
}

fn explain(history: &History, operations: &[Operation], dead: &Dead) -> String {
    let state = match &dead.state {
        None => "there is no object".to_owned(),
        Some(contents) => {
            let expiry = contents.expires_at_ms.map_or(String::new(), |at_ms| format!(", expiring at {at_ms} ms"));
            format!("the object is {}{expiry}", Quoted(&contents.value))
        }
    };
    let required = operations.iter().filter(|operation| !operation.optional).count();
    let draw = |indices: &[usize]| {
        let calls: Vec<CallId> = indices.iter().map(|&index| operations[index].id).collect();
        lanes(history, &calls)
    };
    format!(
        "{} of {required} answered calls can be put in order. After these last ones\n{}{state}, and none of the calls \
         that must come next fits:\n{}",
        dead.explained,
        draw(&dead.last),
        draw(&dead.blocked),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Connection};

    #[test]
    fn unknown_writes_are_left_out_of_the_first_search_unless_somebody_may_have_seen_them() {
        let answered = |answer| Fate::Answered { at_us: 20, answer };
        let value = |text: &str| text.as_bytes().into();
        let kept = [
            (Action::Append { value: value("seen;") }, Fate::Unknown),
            (Action::Get, answered(Answer::Bytes(value("first;seen;last;")))),
            (Action::Set { value: value("compared;") }, Fate::Unknown),
            (Action::SetIfEqual { expected: value("compared;"), value: value("new;") }, answered(Answer::Ok)),
            (Action::Set { value: value("answered;") }, answered(Answer::Ok)),
            (Action::IncrBy { delta: 1 }, Fate::Unknown),
            (Action::Del, Fate::Unknown),
        ];
        let left_out = [
            (Action::Set { value: value("unseen;") }, Fate::Unknown),
            (Action::GetSet { value: value("unseen too;") }, Fate::Unknown),
        ];
        let mut history = History::new();
        let mut invoke = |(action, fate): &(Action, Fate)| {
            let id = history.invoke(Connection(0), Call { object: Object(0), action: action.clone() }, 10);
            history.settle(id, fate.clone());
            id
        };
        let (kept, left_out) = (kept.each_ref().map(&mut invoke), left_out.each_ref().map(&mut invoke));
        assert_eq!(without_unseen(&history, &[&left_out[..], &kept[..]].concat()), kept);
    }
}
