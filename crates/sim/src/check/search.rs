//! The search for an order that explains one object's answers: Wing and Gong (1993), with Lowe's (2017) memory of
//! configurations already tried, on an explicit stack.
//!
//! A *configuration* is the set of operations put in order so far and the state that they leave. Which operation can be
//! next follows from it alone: one that was invoked before any required operation outside the set returned. So a
//! configuration that led nowhere once never need be tried again, and that memory is all that carries over a quiescent
//! point, where the set is everything before it: the history splits there by itself into short, independent pieces,
//! joined only by the states in which a piece can end.
//!
//! Sets are remembered as 128-bit fingerprints (Zobrist 1970). Two that collided would make the search *miss an order*,
//! never accept a wrong history.
//!
//! Optional operations, whose fate is unknown, would double the work each. Four rules keep them cheap; each only drops
//! attempts of which an equally good one remains:
//! - **Seen, not changed:** a required operation whose answer fits, and says that it changed nothing, is taken at once,
//!   alone. (That it changes nothing *here* is not enough: a PERSIST may be needed later.)
//! - **Only when stuck:** optional operations are tried after the required ones.
//! - **Useless:** an optional operation whose effect is invisible to the very next operation is not used there.
//! - **Twins:** of interchangeable ones the earliest is used.
//!
//! Of those that can be used, one behind which a required operation fits is tried first. (A deletion behind which nothing is found,
//! for one, before a dozen appends in all their orders.)
//!
//! A search can be *sparing* besides: where it took so many optional operations lately it takes no other. What it finds is an order; that
//! it finds none says nothing.
//!
//! And [`awaited`](crate::check::awaited) values are not left early.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::check::awaited::{Awaited, ValueId};
use crate::check::linearizability::Operation;
use crate::check::model::{Change, State, explain};
use crate::history::{Answer, Fate, History};
use crate::random::Random;

/// A sparing search counts the optional operations among so many of the latest in order.
const LATELY: usize = 16;

/// How many of the calls before a dead end are kept for its description.
const LAST_MAX: usize = 12;

/// How the search ended.
pub(super) enum End {
    Explained,
    Exhausted(Dead),
    GaveUp(Dead),
}

/// The dead end that came closest to explaining everything. Indices are of operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Dead {
    /// How many required operations were in order.
    pub(super) explained: usize,
    pub(super) state: State,
    pub(super) last: Vec<usize>,
    /// The required operations of which one must be next, and none can.
    pub(super) blocked: Vec<usize>,
}

/// Set iteration order is never looked at, but a run shall not differ from the next in anything.
type Seeded = BuildHasherDefault<DefaultHasher>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StateId(u32);

pub(super) struct Search<'a> {
    history: &'a History,
    operations: &'a [Operation],
    configurations_max: usize,
    /// Optional operations of the latest in order, at most.
    optional_lately_max: usize,
    states: States,
    awaited: Awaited<'a>,
    fingerprints: Vec<u128>,
    seen: HashSet<u128, Seeded>,
    /// The operations outside the set, in the order of invocation.
    required: Chain,
    optional: Chain,
    in_order: Vec<bool>,
    /// The latest operation in order of each lane.
    lane_last: Vec<Option<usize>>,
    explained: usize,
    frames: Vec<Frame>,
    /// The attempts that remain of all frames, the best of each last.
    attempts: Vec<Attempt>,
    dead: Option<Dead>,
}

/// One configuration on the path that is being tried.
struct Frame {
    state: StateId,
    set: u128,
    /// The latest invocation in the set: an optional operation that ended before it is too late.
    latest_invoked_us: u64,
    /// When the first required operation outside the set returned.
    first_end_us: u64,
    taken: Option<Taken>,
    attempts_from: usize,
    optional_due: bool,
}

/// The operation that led to a frame, and what to restore when it is taken back.
struct Taken {
    operation: usize,
    lane_last: Option<usize>,
    state_before: StateId,
}

#[derive(Clone, Copy)]
struct Attempt {
    operation: usize,
    state: StateId,
}

impl<'a> Search<'a> {
    pub(super) fn new(history: &'a History, operations: &'a [Operation], configurations_max: usize) -> Self {
        let mut random = Random::new(operations.len() as u64);
        let lanes = operations.iter().map(|operation| operation.lane + 1).max().unwrap_or(0);
        let number = |_| u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        Self {
            history,
            operations,
            configurations_max,
            optional_lately_max: usize::MAX,
            states: States::default(),
            awaited: Awaited::new(history, operations),
            fingerprints: operations.iter().map(number).collect(),
            seen: HashSet::default(),
            required: Chain::of(operations, |operation| !operation.optional),
            optional: Chain::of(operations, |operation| operation.optional),
            in_order: vec![false; operations.len()],
            lane_last: vec![None; lanes],
            explained: 0,
            frames: Vec::new(),
            attempts: Vec::new(),
            dead: None,
        }
    }

    pub(super) fn sparing(self, optional_lately_max: usize) -> Self {
        Self { optional_lately_max, ..self }
    }

    pub(super) fn run(&mut self) -> End {
        let nothing = self.states.number(None, |_| None);
        self.push_frame(Frame {
            state: nothing,
            set: 0,
            latest_invoked_us: 0,
            first_end_us: 0,
            taken: None,
            attempts_from: 0,
            optional_due: false,
        });
        while !self.required.is_empty() {
            if self.seen.len() > self.configurations_max {
                return End::GaveUp(self.dead.take().unwrap_or_default());
            }
            if let Some(attempt) = self.next_attempt() {
                self.take(attempt);
            } else if !self.take_back() {
                return End::Exhausted(self.dead.take().unwrap_or_default());
            }
        }
        End::Explained
    }

    fn frame(&self) -> &Frame {
        self.frames.last().expect("a search has its first frame until it ends")
    }

    fn next_attempt(&mut self) -> Option<Attempt> {
        let from = self.frame().attempts_from;
        if self.attempts.len() == from && self.frame().optional_due {
            self.note_dead_end();
            self.attempt_optional();
        }
        if self.attempts.len() > from { self.attempts.pop() } else { None }
    }

    /// Goes on to a configuration, unless it was tried before.
    fn take(&mut self, attempt: Attempt) {
        let Attempt { operation: index, state } = attempt;
        let operation = &self.operations[index];
        let set = self.frame().set ^ self.fingerprints[index];
        if !self.seen.insert(set ^ self.states.fingerprint(state)) {
            return;
        }
        let chain = if operation.optional { &mut self.optional } else { &mut self.required };
        chain.unlink(index);
        self.in_order[index] = true;
        self.awaited.take(index);
        self.explained += usize::from(!operation.optional);
        let lane_last = self.lane_last[operation.lane].replace(index);
        let frame = self.frame();
        self.push_frame(Frame {
            state,
            set,
            latest_invoked_us: frame.latest_invoked_us.max(operation.invoked_us),
            first_end_us: 0,
            taken: Some(Taken { operation: index, lane_last, state_before: frame.state }),
            attempts_from: self.attempts.len(),
            optional_due: false,
        });
    }

    /// Leaves the present configuration for the one before; false if there is none.
    fn take_back(&mut self) -> bool {
        let frame = self.frames.pop().expect("a search has its first frame until it ends");
        let Some(taken) = frame.taken else {
            return false;
        };
        let operation = &self.operations[taken.operation];
        let chain = if operation.optional { &mut self.optional } else { &mut self.required };
        chain.relink(taken.operation);
        self.in_order[taken.operation] = false;
        self.awaited.put_back(taken.operation);
        self.explained -= usize::from(!operation.optional);
        self.lane_last[operation.lane] = taken.lane_last;
        true
    }

    fn push_frame(&mut self, frame: Frame) {
        self.frames.push(frame);
        self.attempt_required();
    }

    /// Finds the required operations that can be next.
    fn attempt_required(&mut self) {
        let frame = self.frame();
        let (state, from) = (frame.state, frame.attempts_from);
        let (candidates, first_end_us) = self.candidates();
        for &index in &candidates {
            if !self.is_its_turn(index) {
                continue;
            }
            let next_states = self.next_states(index, state);
            if next_states == [Some(state), None] && self.may_be_taken_alone(index, first_end_us) {
                self.attempts.truncate(from);
                self.attempts.push(Attempt { operation: index, state });
                return;
            }
            for next in next_states.into_iter().flatten() {
                if !self.shows_a_useless_one(index, next) {
                    self.attempts.push(Attempt { operation: index, state: next });
                }
            }
        }
        // What returned first most likely took effect first.
        self.attempts[from..].sort_by_key(|attempt| std::cmp::Reverse(self.operations[attempt.operation].end_us));
        let frame = self.frames.last_mut().expect("a search has its first frame until it ends");
        frame.first_end_us = first_end_us;
        frame.optional_due = true;
    }

    /// The required operations outside the set that no other of them precedes, and when the first of those returned.
    fn candidates(&self) -> (Vec<usize>, u64) {
        let mut candidates = Vec::new();
        let mut first_end_us = u64::MAX;
        for index in self.required.iter() {
            let operation = &self.operations[index];
            if operation.invoked_us > first_end_us {
                break;
            }
            first_end_us = first_end_us.min(operation.end_us);
            candidates.push(index);
        }
        (candidates, first_end_us)
    }

    /// Finds the optional operations that can be next.
    fn attempt_optional(&mut self) {
        let lately = self.frames.iter().rev().take(LATELY).filter_map(|frame| frame.taken.as_ref());
        let spent = lately.filter(|taken| self.operations[taken.operation].optional).count();
        let frame = self.frames.last_mut().expect("a search has its first frame until it ends");
        frame.optional_due = false;
        if spent >= self.optional_lately_max {
            return;
        }
        let (state, first_end_us, latest_invoked_us) = (frame.state, frame.first_end_us, frame.latest_invoked_us);
        let mut found = Vec::new();
        for index in self.optional.iter() {
            let operation = &self.operations[index];
            if operation.invoked_us > first_end_us {
                break;
            }
            if operation.end_us >= latest_invoked_us && self.is_its_turn(index) {
                found.push(index);
            }
        }
        for &index in &found {
            if self.operations[index].twin.is_some_and(|twin| found.contains(&twin)) {
                continue;
            }
            for next in self.next_states(index, state).into_iter().flatten() {
                if next != state && !self.shows_a_useless_one(index, next) {
                    self.attempts.push(Attempt { operation: index, state: next });
                }
            }
        }
        self.prefer_what_helps();
    }

    /// Puts those of the attempts last, to be tried first, that a required operation fits behind.
    fn prefer_what_helps(&mut self) {
        let from = self.frame().attempts_from;
        let mut attempts = self.attempts.split_off(from);
        let (candidates, _) = self.candidates();
        attempts.sort_by_cached_key(|attempt| {
            let fits = |&index: &usize| {
                self.is_its_turn(index) && self.next_states(index, attempt.state).iter().any(Option::is_some)
            };
            candidates.iter().any(fits)
        });
        self.attempts.append(&mut attempts);
    }

    /// Whether what its connection sent before is in order, and nothing that it sent later.
    fn is_its_turn(&self, index: usize) -> bool {
        let operation = &self.operations[index];
        operation.required_before.is_none_or(|before| self.in_order[before])
            && self.lane_last[operation.lane].is_none_or(|last| last < index)
    }

    /// Whether an operation that fits here changes nothing wherever it is put, and takes nothing away from others by
    /// being next: neither makes it an optional one too late, nor one that its connection sent before.
    fn may_be_taken_alone(&self, index: usize, first_end_us: u64) -> bool {
        let operation = &self.operations[index];
        let latest_invoked_us = self.frame().latest_invoked_us;
        let expires = |optional: &Operation| {
            (latest_invoked_us..operation.invoked_us).contains(&optional.end_us) && optional.invoked_us <= first_end_us
        };
        operation.idle
            && !operation.optional_before
            && (operation.invoked_us <= latest_invoked_us
                || !self.optional.iter().any(|optional| expires(&self.operations[optional])))
    }

    /// Whether the frame was reached by an optional operation without which this one would have led to the same state
    /// with the same answer. Then that one had better not been executed, which is tried as well.
    fn shows_a_useless_one(&mut self, index: usize, next: StateId) -> bool {
        match &self.frame().taken {
            Some(taken) if self.operations[taken.operation].optional => {
                let state_before = taken.state_before;
                self.next_states(index, state_before).contains(&Some(next))
            }
            _ => false,
        }
    }

    /// The states to which an operation can lead from a state, given its answer.
    fn next_states(&mut self, index: usize, state: StateId) -> [Option<StateId>; 2] {
        let operation = &self.operations[index];
        let record = self.history.record(operation.id);
        let observed: Option<&Answer> = match &record.fate {
            Fate::Answered { answer, .. } => Some(answer),
            Fate::Unknown | Fate::NotExecuted => None,
        };
        let changes = explain(&record.call.action, observed, self.states.state(state), operation.window);
        let awaited = &self.awaited;
        let next_states = changes.map(|change| match change? {
            Change::Keep => Some(state),
            Change::Replace(next) => Some(self.states.number(next, |state| awaited.value_of(state))),
        });
        next_states.map(|next| next.filter(|&next| !self.leaves_too_early(index, state, next)))
    }

    /// Whether this step leaves a value for ever that another operation has yet to see.
    fn leaves_too_early(&self, index: usize, state: StateId, next: StateId) -> bool {
        let value = self.states.value(state);
        value.is_some_and(|left| value != self.states.value(next) && self.awaited.is_awaited(left, index))
    }

    fn note_dead_end(&mut self) {
        if self.dead.as_ref().is_some_and(|dead| dead.explained >= self.explained) {
            return;
        }
        let taken = self.frames.iter().rev().filter_map(|frame| frame.taken.as_ref());
        let mut last: Vec<usize> = taken.map(|taken| taken.operation).take(LAST_MAX).collect();
        last.reverse();
        self.dead = Some(Dead {
            explained: self.explained,
            state: self.states.state(self.frame().state).clone(),
            last,
            blocked: self.candidates().0,
        });
    }
}

/// Each state once, so that configurations compare by number.
#[derive(Default)]
struct States {
    states: Vec<State>,
    values: Vec<Option<ValueId>>,
    numbers: HashMap<State, StateId, Seeded>,
}

impl States {
    fn number(&mut self, state: State, value_of: impl FnOnce(&State) -> Option<ValueId>) -> StateId {
        if let Some(&id) = self.numbers.get(&state) {
            return id;
        }
        let id = StateId(u32::try_from(self.states.len()).expect("the budget of configurations is far below 2^32"));
        self.values.push(value_of(&state));
        self.states.push(state.clone());
        self.numbers.insert(state, id);
        id
    }

    fn state(&self, id: StateId) -> &State {
        &self.states[id.0 as usize]
    }

    fn value(&self, id: StateId) -> Option<ValueId> {
        self.values[id.0 as usize]
    }

    fn fingerprint(&self, id: StateId) -> u128 {
        let mut random = Random::new(u64::from(id.0) ^ STATE_SALT);
        u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
    }
}

/// Keeps the fingerprints of states apart from those of operations.
const STATE_SALT: u64 = 0x5157_4154_4553;

/// A linked list of operations from which any can be taken, and put back in the reverse order, in constant time.
struct Chain {
    /// The place after the last operation is the list's head.
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl Chain {
    fn of(operations: &[Operation], belongs: impl Fn(&Operation) -> bool) -> Self {
        let head = operations.len();
        let mut chain = Self { next: vec![head as u32; head + 1], previous: vec![head as u32; head + 1] };
        let mut last = head;
        for index in (0..head).filter(|&index| belongs(&operations[index])) {
            chain.next[last] = index as u32;
            chain.previous[index] = last as u32;
            last = index;
        }
        chain.next[last] = head as u32;
        chain.previous[head] = last as u32;
        chain
    }

    fn head(&self) -> usize {
        self.next.len() - 1
    }

    fn is_empty(&self) -> bool {
        self.next[self.head()] as usize == self.head()
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let follow = |&index: &usize| Some(self.next[index] as usize).filter(|&next| next != self.head());
        std::iter::successors(follow(&self.head()), follow)
    }

    fn unlink(&mut self, index: usize) {
        let (previous, next) = (self.previous[index], self.next[index]);
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
    }

    fn relink(&mut self, index: usize) {
        let (previous, next) = (self.previous[index], self.next[index]);
        self.next[previous as usize] = index as u32;
        self.previous[next as usize] = index as u32;
    }
}
