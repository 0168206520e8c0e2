//! A store that is right by construction, and clients that use it: where the tests' histories come from.
//!
//! It shares no code with the checkers' model, so that a misunderstanding would have to be made twice.
#![allow(dead_code, reason = "each test binary uses its part of this")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use quorate_sim::check::Bounds;
use quorate_sim::history::{Action, Answer, Bytes, Call, CallId, Connection, Fate, History, Object, Record};
use quorate_sim::random::Random;
use quorate_sim::workload::{Shape, Workload};

pub(crate) fn bytes(text: &str) -> Bytes {
    text.as_bytes().into()
}

pub(crate) fn set(value: &str) -> Action {
    Action::Set { value: bytes(value) }
}

pub(crate) fn incr() -> Action {
    Action::IncrBy { delta: 1 }
}

/// A value and when it expires.
pub(crate) type Stored = Option<(Vec<u8>, Option<i64>)>;

/// Executes a call at a moment of group time.
pub(crate) fn execute(action: &Action, stored: &mut Stored, now_ms: i64) -> Answer {
    if matches!(stored, Some((_, Some(at_ms))) if *at_ms < now_ms) {
        *stored = None;
    }
    let read = |stored: &Stored| match stored {
        Some((value, _)) => Answer::Bytes(value.as_slice().into()),
        None => Answer::Nil,
    };
    let was_present = stored.is_some();
    match action {
        Action::Get => read(stored),
        Action::Exists => Answer::Int(was_present.into()),
        Action::Strlen => Answer::Int(stored.as_ref().map_or(0, |(value, _)| value.len() as i64)),
        Action::Pttl => Answer::Int(match stored {
            None => -2,
            Some((_, None)) => -1,
            Some((_, Some(at_ms))) => *at_ms - now_ms,
        }),
        Action::Set { value } => {
            *stored = Some((value.to_vec(), None));
            Answer::Ok
        }
        Action::SetExpiring { value, at_ms } => {
            *stored = Some((value.to_vec(), Some(*at_ms)));
            Answer::Ok
        }
        Action::SetIfAbsent { value } => {
            stored.get_or_insert_with(|| (value.to_vec(), None));
            Answer::Int((!was_present).into())
        }
        Action::SetIfEqual { expected, value } => match stored {
            Some((old, _)) if **old == **expected => {
                *stored = Some((value.to_vec(), None));
                Answer::Ok
            }
            _ => Answer::Nil,
        },
        Action::GetSet { value } => {
            let old = read(stored);
            *stored = Some((value.to_vec(), None));
            old
        }
        Action::Append { value } => {
            let (text, _) = stored.get_or_insert_with(|| (Vec::new(), None));
            text.extend_from_slice(value);
            Answer::Int(text.len() as i64)
        }
        Action::IncrBy { delta } => {
            let (text, _) = stored.get_or_insert_with(|| (b"0".to_vec(), None));
            // "07" and "-0" are none to Redis.
            let number = String::from_utf8_lossy(text).parse::<i64>().ok();
            let Some(number) = number.filter(|number| number.to_string().as_bytes() == text) else {
                return Answer::Error("ERR value is not an integer or out of range".into());
            };
            *text = (number + delta).to_string().into_bytes();
            Answer::Int(number + delta)
        }
        Action::Erase => {
            *stored = None;
            Answer::Int(1)
        }
        Action::Del => {
            *stored = None;
            Answer::Int(was_present.into())
        }
        Action::GetDel => {
            let old = read(stored);
            *stored = None;
            old
        }
        Action::ExpireAt { at_ms } => {
            if let Some((_, expiry)) = stored {
                *expiry = Some(*at_ms);
            }
            Answer::Int(was_present.into())
        }
        Action::Persist => {
            let had_expiry = stored.as_mut().and_then(|(_, expiry)| expiry.take()).is_some();
            Answer::Int(had_expiry.into())
        }
    }
}

/// What is wrong with the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defect {
    None,
    /// A read answers what was there before the last write.
    StaleRead,
    /// A write is acknowledged and forgotten.
    LostWrite,
    /// A command that changes something is executed twice; the client sees the second answer.
    ExecutedTwice,
    /// As above, and the client sees the first answer.
    ExecutedAgainLater,
    /// Commands of one pipeline change places.
    Reordered,
    /// What was deleted comes back.
    Resurrected,
    /// Its clock stands still, so that nothing ever expires.
    NeverExpires,
    /// For a while, half of the connections are served by another coordinator with a state of its own.
    SplitBrain,
    /// A call that was refused as not executed is executed.
    RefusedButExecuted,
    /// A call of unknown fate takes effect after its bound.
    LateEffect,
}

/// How many of a thousand chances a defect takes.
const DEFECT_PER_MILLE: u64 = 100;
const ORIGIN_MS: i64 = 1_700_000_000_000;
const SKEW_MS: u64 = 20;
const UNKNOWN_EFFECT_US: u64 = 20_000;

pub(crate) fn bounds() -> Bounds {
    Bounds { origin_ms: ORIGIN_MS, skew_ms: SKEW_MS, unknown_effect_us: Some(UNKNOWN_EFFECT_US), ..Bounds::default() }
}

/// How a generated run goes.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) calls: usize,
    pub(crate) clients: usize,
    /// How many of a thousand batches lose their connection, and how many are refused.
    pub(crate) lost_per_mille: u64,
    pub(crate) refused_per_mille: u64,
    pub(crate) shape: Shape,
    pub(crate) defect: Defect,
}

impl Run {
    pub(crate) fn new(seed: u64, calls: usize) -> Self {
        let shape = Shape { expiry_mean_ms: 60, ..Shape::default() };
        let defect = Defect::None;
        Self { seed, calls, clients: 24, lost_per_mille: 10, refused_per_mille: 10, shape, defect }
    }

    pub(crate) fn with(self, defect: Defect) -> Self {
        Self { defect, ..self }
    }

    pub(crate) fn history(self) -> History {
        World::new(self).run()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send { client: usize },
    Execute { call: CallId },
    Answer { call: CallId },
}

struct World {
    run: Run,
    random: Random,
    workload: Workload,
    history: History,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    connections: Vec<Connection>,
    connection_next: u32,
    /// By brain: there should be one.
    stores: [BTreeMap<Object, Stored>; 2],
    before_last_write: BTreeMap<Object, Stored>,
    answers: BTreeMap<CallId, Answer>,
    group_ms: i64,
}

impl World {
    fn new(run: Run) -> Self {
        let mut random = Random::new(run.seed);
        let workload = Workload::new(random.next_u64(), run.shape);
        let mut world = Self {
            run,
            random,
            workload,
            history: History::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
            connections: (0..run.clients as u32).map(Connection).collect(),
            connection_next: run.clients as u32,
            stores: Default::default(),
            before_last_write: BTreeMap::new(),
            answers: BTreeMap::new(),
            group_ms: 0,
        };
        for client in 0..run.clients {
            world.schedule(client as u64, Event::Send { client });
        }
        world
    }

    fn run(mut self) -> History {
        let mut now_us = 0;
        while let Some(Reverse((at_us, _, event))) = self.events.pop() {
            now_us = at_us;
            match event {
                Event::Send { client } => self.send(client, now_us),
                Event::Execute { call } => self.execute(call, now_us),
                Event::Answer { call } => self.answer(call, now_us),
            }
        }
        // Two seconds later all is quiet, and everything is read once.
        for call in self.workload.last_reads() {
            now_us += 2_000_000;
            let id = self.history.invoke(Connection(self.connection_next), call, now_us);
            self.execute(id, now_us + 1);
            self.answer(id, now_us + 2);
        }
        self.history
    }

    fn schedule(&mut self, at_us: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at_us, self.scheduled, event)));
    }

    fn send(&mut self, client: usize, now_us: u64) {
        if self.history.records().len() >= self.run.calls {
            return;
        }
        let calls = self.workload.next_calls(ORIGIN_MS + (now_us / 1000) as i64);
        let connection = self.connections[client];
        let is_lost = self.random.chance(self.run.lost_per_mille);
        let is_refused = !is_lost && self.random.chance(self.run.refused_per_mille);
        let lost_from = if is_lost { self.random.below(calls.len() as u64) as usize } else { usize::MAX };
        let mut executed_us = Vec::new();
        let mut ids = Vec::new();
        let mut last_us = now_us;
        for (place, call) in calls.into_iter().enumerate() {
            ids.push(self.history.invoke(connection, call, now_us));
            let mean_us = if place >= lost_from { 5_000 } else { 500 };
            last_us = (last_us + self.random.delay(mean_us)).min(now_us + UNKNOWN_EFFECT_US);
            executed_us.push(last_us);
        }
        if self.run.defect == Defect::Reordered && self.random.chance(2 * DEFECT_PER_MILLE) {
            executed_us.reverse();
            last_us = executed_us[0];
        }
        if self.run.defect == Defect::LateEffect && is_lost {
            executed_us.iter_mut().skip(lost_from).for_each(|at_us| *at_us += 2 * UNKNOWN_EFFECT_US);
        }
        let mut answered_us = last_us.min(now_us + UNKNOWN_EFFECT_US);
        for (place, (&id, &at_us)) in ids.iter().zip(&executed_us).enumerate() {
            if is_refused {
                self.history.settle(id, Fate::NotExecuted);
                if self.run.defect != Defect::RefusedButExecuted {
                    continue;
                }
            }
            if place < lost_from || self.random.chance(600) {
                self.schedule(at_us, Event::Execute { call: id });
            }
            if place < lost_from && !is_refused {
                answered_us = answered_us.max(at_us) + self.random.delay(300);
                self.schedule(answered_us, Event::Answer { call: id });
            }
        }
        if is_lost {
            self.connections[client] = Connection(self.connection_next);
            self.connection_next += 1;
        }
        let pause_us = self.random.delay(400);
        self.schedule(answered_us + 1 + pause_us, Event::Send { client });
    }

    fn execute(&mut self, id: CallId, now_us: u64) {
        let drift_ms = self.random.range(0..2 * SKEW_MS + 1) as i64 - SKEW_MS as i64;
        self.group_ms = self.group_ms.max(ORIGIN_MS + (now_us / 1000) as i64 + drift_ms);
        let record: &Record = self.history.record(id);
        let (action, object) = (record.call.action.clone(), record.call.object);
        let is_split = self.run.defect == Defect::SplitBrain && now_us / 20_000 % 2 == 1;
        if self.run.defect == Defect::SplitBrain && !is_split {
            self.stores[1] = self.stores[0].clone();
        }
        let brain = usize::from(is_split && record.connection.0 % 2 == 1);
        let now_ms = if self.run.defect == Defect::NeverExpires { ORIGIN_MS } else { self.group_ms };
        let errs = self.random.chance(DEFECT_PER_MILLE);
        let stored = self.stores[brain].entry(object).or_default();
        let before = stored.clone();
        let mut answer = execute(&action, stored, now_ms);
        match self.run.defect {
            Defect::StaleRead if errs && action == Action::Get => {
                let mut stale = self.before_last_write.get(&object).cloned().unwrap_or_default();
                answer = execute(&action, &mut stale, now_ms);
            }
            Defect::LostWrite if errs => *stored = before.clone(),
            Defect::ExecutedTwice if errs => answer = execute(&action, stored, now_ms),
            Defect::ExecutedAgainLater if errs => {
                execute(&action, stored, now_ms);
            }
            Defect::Resurrected if matches!(action, Action::Del | Action::GetDel) => {
                *stored = before.clone();
            }
            _ => {}
        }
        if *stored != before {
            self.before_last_write.insert(object, before);
        }
        self.answers.insert(id, answer);
    }

    fn answer(&mut self, id: CallId, now_us: u64) {
        let answer = self.answers.remove(&id).expect("a call is executed before it is answered");
        self.workload.observe(&self.history.record(id).call, &answer);
        self.history.settle(id, Fate::Answered { at_us: now_us, answer });
    }
}

/// A call written down by hand: connection, action, invocation, and the return with its answer if there was one.
pub(crate) type HandWritten = (u32, Action, u64, Option<(u64, Answer)>);

pub(crate) fn by_hand(calls: &[HandWritten]) -> History {
    let mut history = History::new();
    for (connection, action, invoked_us, returned) in calls {
        let call = Call { object: Object(0), action: action.clone() };
        let id = history.invoke(Connection(*connection), call, *invoked_us);
        if let Some((at_us, answer)) = returned {
            history.settle(id, Fate::Answered { at_us: *at_us, answer: answer.clone() });
        }
    }
    history
}
