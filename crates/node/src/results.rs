//! What was executed, so that nothing is executed twice.
//!
//! Every executed ticket is kept with its outcome until nobody waits for it any more, as its node says with later commands, or
//! group time has passed its deadline. From then on a copy of the command that comes late is refused. Part of the replicated
//! state: what is kept and what is forgotten follows from the sequence of slots alone.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use quorate_object::Outcome;
use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{NodeId, Stamp};

use crate::envelope::Ticket;
use crate::number::{put_bytes, put_near, put_number, take_bytes, take_near, take_number, take_u32};
use crate::planted::{self, Planted};

mod within;

#[derive(Clone, Debug, Default)]
pub struct Results {
    /// In the order of execution.
    kept: VecDeque<Kept>,
    /// The number of the first one kept, counting all that ever were: positions in `origins` never move.
    base: u64,
    origins: Vec<Origin>,
    /// What is kept beside the entries themselves.
    outcome_bytes: usize,
    /// The positions that checkpoints hold, in runs: the first of each and the one after its last.
    saved: VecDeque<(u64, u64)>,
}

/// A run of saved results is closed when it has grown to this.
const RUN_BYTES: usize = 1 << 20;

/// Where the tickets of one start of one node are kept, by number.
///
/// A node's commands mostly arrive in the order of their numbers, so that what is looked for is at one of the two ends: the
/// memory that a hash table would take from everywhere is not touched.
#[derive(Clone, Debug)]
struct Origin {
    node: NodeId,
    start: u32,
    /// See [`Ticket::space`].
    space: u8,
    /// Number and position, ascending.
    tickets: VecDeque<(u64, u64)>,
    /// Nobody waits for what has a smaller number, and none of that is executed from now on.
    settled: u64,
    /// The largest deadline that was forgotten because nobody waits: past it a copy is refused anyway.
    until: Stamp,
}

/// What must be known of an origin beside what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    node: NodeId,
    start: u32,
    space: u8,
    settled: u64,
    until: Stamp,
}

#[derive(Clone, Debug)]
struct Kept {
    ticket: Ticket,
    deadline: Stamp,
    /// Of the name of the object that the command was on.
    tag: u32,
    outcome: Short,
}

/// Tells results of one name from those of most others; 0 for a command that names no object.
pub fn name_tag(name: Option<&[u8]>) -> u32 {
    name.map_or(0, |name| xxhash_rust::xxh3::xxh3_64(name) as u32 | 1)
}

/// Most outcomes are a word.
#[derive(Clone, Debug)]
enum Short {
    Ok,
    Nil,
    Int(i64),
    Other(Box<[u8]>),
}

impl Results {
    /// Looks at the newest and at where it came from, so that they are in a cache when another one follows.
    pub fn look(&self) -> u64 {
        let newest = self.kept.back().map_or(0, |kept| kept.tag);
        u64::from(newest) ^ self.origins.last().map_or(0, |origin| origin.settled ^ origin.until.0)
    }

    pub fn look_deeper(&self) -> u64 {
        let newest = self.origins.last().and_then(|origin| origin.tickets.back());
        newest.map_or(0, |(number, _)| *number)
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// The memory that is taken, about.
    pub fn bytes(&self) -> usize {
        self.kept.len() * (size_of::<Kept>() + size_of::<(u64, u64)>()) + self.outcome_bytes
    }

    /// The position of the oldest one kept: what a checkpoint must remember beside the runs.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Visits what has come since the last call as runs of results, each under a number of its own, and the numbers of
    /// runs of which nothing is kept any more.
    pub fn take_unsaved(&mut self, mut each: impl FnMut(u64, Option<&[u8]>)) {
        while let Some(&(first, end)) = self.saved.front().filter(|(_, end)| *end <= self.base) {
            debug_assert!(first < end);
            each(first, None);
            self.saved.pop_front();
        }
        let end = self.base + self.kept.len() as u64;
        let mut position = self.saved.back().map_or(self.base, |(_, end)| *end).max(self.base);
        let mut run = Vec::new();
        while position < end {
            let first = position;
            run.clear();
            while position < end && run.len() < RUN_BYTES {
                self.kept[(position - self.base) as usize].encode(&mut run);
                position += 1;
            }
            each(first, Some(&run));
            self.saved.push_back((first, position));
        }
    }

    /// Nothing is saved any more: the next call of [`Results::take_unsaved`] visits everything.
    pub fn forget_saved(&mut self) {
        self.saved.clear();
    }

    /// Takes back a run, in the order of their numbers. `base` is what [`Results::base`] was at the checkpoint.
    pub fn restore_run(&mut self, base: u64, first: u64, bytes: &[u8]) -> Result<(), Malformed> {
        if self.kept.is_empty() {
            self.base = base;
        }
        let mut reader = Reader::new(bytes);
        let mut position = first;
        while reader.remaining() > 0 {
            let (ticket, deadline, tag, outcome) = Kept::decode(&mut reader)?;
            if position >= base {
                self.keep(ticket, deadline, tag, &outcome);
            }
            position += 1;
        }
        self.saved.push_back((first, position));
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.origins.is_empty()
    }

    /// The largest deadline kept: once group time is past it, nothing needs to be.
    pub fn deadline_max(&self) -> Option<Stamp> {
        let forgotten = self.origins.iter().map(|origin| origin.until).filter(|until| *until > Stamp(0));
        self.kept.iter().map(|kept| kept.deadline).chain(forgotten).max()
    }

    pub fn contains(&self, ticket: Ticket) -> bool {
        self.find(ticket).is_some()
    }

    pub fn outcome(&self, ticket: Ticket) -> Option<Outcome> {
        self.find(ticket).map(|kept| kept.outcome.expand())
    }

    /// Keeps what a ticket, not kept so far, was answered.
    pub fn keep(&mut self, ticket: Ticket, deadline: Stamp, tag: u32, outcome: &Outcome) {
        let position = self.base + self.kept.len() as u64;
        let outcome = Short::from(outcome);
        self.outcome_bytes += outcome.bytes();
        self.kept.push_back(Kept { ticket, deadline, tag, outcome });
        self.origin_of(ticket).insert(ticket.number, position);
    }

    fn origin_of(&mut self, ticket: Ticket) -> &mut Origin {
        let at = self.origins.iter().position(|origin| origin.is_of(ticket)).unwrap_or_else(|| {
            self.origins.push(Origin::new(ticket));
            self.origins.len() - 1
        });
        &mut self.origins[at]
    }

    /// Nobody waits any more for what the ticket's node asked below this number, in the same start and space.
    pub fn settle(&mut self, ticket: Ticket, below: u64) {
        let origin = self.origin_of(ticket);
        origin.settled = origin.settled.max(below);
        self.forget_settled();
    }

    /// Whether nobody waits for it: if it is not kept, it must not be executed, once more or at all.
    pub fn is_settled(&self, ticket: Ticket) -> bool {
        let origin = self.origins.iter().find(|origin| origin.is_of(ticket));
        origin.is_some_and(|origin| ticket.number < origin.settled) && !planted::is(Planted::SettledRunsAgain)
    }

    /// Only the oldest are looked at, in the order of execution: most nodes go on, and so do their marks.
    fn forget_settled(&mut self) {
        while let Some(&Kept { ticket, deadline, .. }) = self.kept.front()
            && let Some(origin) = self.origins.iter_mut().find(|origin| origin.is_of(ticket))
            && ticket.number < origin.settled
        {
            origin.until = origin.until.max(deadline);
            self.forget_oldest();
        }
    }

    /// Forgets what group time has passed. Deadlines are nearly in order, so only the oldest are looked at.
    pub fn forget_before(&mut self, time: Stamp) {
        while self.kept.front().is_some_and(|kept| kept.deadline < time) {
            self.forget_oldest();
        }
        self.forget_settled();
        self.origins.retain(|origin| !origin.tickets.is_empty() || origin.until >= time);
        if self.kept.is_empty() && self.kept.capacity() > 64 {
            self.kept = VecDeque::new();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(kept) = self.kept.pop_front() else { return };
        begin_again_if_empty(&mut self.kept);
        self.base += 1;
        self.outcome_bytes -= kept.outcome.bytes();
        if let Some(origin) = self.origins.iter_mut().find(|origin| origin.is_of(kept.ticket)) {
            origin.remove(kept.ticket.number);
        }
    }

    /// In order.
    fn marks(&self) -> Vec<Mark> {
        let mark = |origin: &Origin| {
            let Origin { node, start, space, settled, until, .. } = *origin;
            Mark { node, start, space, settled, until }
        };
        let mut marks: Vec<Mark> = self.origins.iter().filter(|origin| origin.settled > 0).map(mark).collect();
        marks.sort_unstable();
        marks
    }

    /// Takes over what another has forgotten, or this one before it was restored.
    pub fn mark(&mut self, mark: Mark) {
        let ticket = Ticket { node: mark.node, start: mark.start, number: u64::from(mark.space) << 62 };
        let origin = self.origin_of(ticket);
        (origin.settled, origin.until) = (origin.settled.max(mark.settled), origin.until.max(mark.until));
    }

    pub fn encode_marks(&self, out: &mut Vec<u8>) {
        let marks = self.marks();
        out.extend_from_slice(&(marks.len() as u32).to_le_bytes());
        for Mark { node, start, space, settled, until } in marks {
            out.extend_from_slice(&node.0.to_le_bytes());
            out.extend_from_slice(&start.to_le_bytes());
            out.push(space);
            out.extend_from_slice(&settled.to_le_bytes());
            out.extend_from_slice(&until.0.to_le_bytes());
        }
    }

    pub fn decode_marks(reader: &mut Reader<'_>) -> Result<Vec<Mark>, Malformed> {
        let mut marks = Vec::new();
        for _ in 0..reader.u32()? {
            let (node, start, space) = (NodeId(reader.u32()?), reader.u32()?, take_space(reader)?);
            marks.push(Mark { node, start, space, settled: reader.u64()?, until: Stamp(reader.u64()?) });
        }
        Ok(marks)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.kept.len() as u32).to_le_bytes());
        self.kept.iter().for_each(|kept| kept.encode(out));
        self.encode_marks(out);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Results, Malformed> {
        let mut results = Results::default();
        for _ in 0..reader.u32()? {
            let (ticket, deadline, tag, outcome) = Kept::decode(reader)?;
            results.keep(ticket, deadline, tag, &outcome);
        }
        Results::decode_marks(reader)?.into_iter().for_each(|mark| results.mark(mark));
        Ok(results)
    }

    /// As [`Results::encode`], in far fewer bytes where all are of commands on one name, near this time.
    pub fn encode_short(&self, time: Stamp, tag: u32, out: &mut Vec<u8>) {
        put_number(self.kept.len() as u64, out);
        let mut outcome = Vec::new();
        for kept in &self.kept {
            put_number(u64::from(kept.ticket.node.0), out);
            put_number(u64::from(kept.ticket.start), out);
            put_number(kept.ticket.number, out);
            put_near(kept.deadline.0, time.0, out);
            put_number(u64::from(kept.tag ^ tag), out);
            outcome.clear();
            kept.outcome.expand().encode(&mut outcome);
            put_bytes(&outcome, out);
        }
        let marks = self.marks();
        put_number(marks.len() as u64, out);
        for Mark { node, start, space, settled, until } in marks {
            put_number(u64::from(node.0), out);
            put_number(u64::from(start), out);
            out.push(space);
            put_number(settled, out);
            put_near(until.0, time.0, out);
        }
    }

    pub fn decode_short(time: Stamp, tag: u32, reader: &mut Reader<'_>) -> Result<Results, Malformed> {
        let mut results = Results::default();
        for _ in 0..take_number(reader)? {
            let (node, start) = (NodeId(take_u32(reader)?), take_u32(reader)?);
            let ticket = Ticket { node, start, number: take_number(reader)? };
            let deadline = Stamp(take_near(time.0, reader)?);
            let kept_tag = take_u32(reader)? ^ tag;
            let outcome = Outcome::decode(take_bytes(reader)?);
            let outcome = outcome.map_err(|_| Malformed::UnknownTag { of: "outcome", tag: 0 })?;
            results.keep(ticket, deadline, kept_tag, &outcome);
        }
        for _ in 0..take_number(reader)? {
            let (node, start, space) = (NodeId(take_u32(reader)?), take_u32(reader)?, take_space(reader)?);
            let (settled, until) = (take_number(reader)?, Stamp(take_near(time.0, reader)?));
            results.mark(Mark { node, start, space, settled, until });
        }
        Ok(results)
    }

    /// What is kept of commands on names with one of these tags, by tag.
    pub fn of_names(&self, tags: &BTreeSet<u32>) -> BTreeMap<u32, Results> {
        let mut of_names: BTreeMap<u32, Results> = BTreeMap::new();
        for kept in self.kept.iter().filter(|kept| tags.contains(&kept.tag)) {
            let results = of_names.entry(kept.tag).or_default();
            results.keep(kept.ticket, kept.deadline, kept.tag, &kept.outcome.expand());
        }
        of_names
    }

    /// Takes over what another group has kept, but for what is kept here, and what it has forgotten.
    pub fn merge(&mut self, other: &Results) {
        for kept in &other.kept {
            if !self.contains(kept.ticket) {
                self.keep(kept.ticket, kept.deadline, kept.tag, &kept.outcome.expand());
            }
        }
        other.marks().into_iter().for_each(|mark| self.mark(mark));
    }

    fn find(&self, ticket: Ticket) -> Option<&Kept> {
        let origin = self.origins.iter().find(|origin| origin.is_of(ticket))?;
        let position = origin.position(ticket.number)?;
        Some(&self.kept[(position - self.base) as usize])
    }
}

/// What comes next lies where the last one lay, which is in a cache, and not behind it, once around all the memory that most
/// of them ever took.
fn begin_again_if_empty<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        queue.clear();
    }
}

fn take_space(reader: &mut Reader<'_>) -> Result<u8, Malformed> {
    match reader.u8()? {
        space @ 0..=3 => Ok(space),
        tag => Err(Malformed::UnknownTag { of: "space of numbers", tag }),
    }
}

impl Origin {
    fn new(ticket: Ticket) -> Origin {
        let Ticket { node, start, .. } = ticket;
        let (space, tickets) = (ticket.space(), VecDeque::new());
        Origin { node, start, space, tickets, settled: 0, until: Stamp(0) }
    }

    fn is_of(&self, ticket: Ticket) -> bool {
        (self.node, self.start, self.space) == (ticket.node, ticket.start, ticket.space())
    }

    fn insert(&mut self, number: u64, position: u64) {
        let at = match self.tickets.back() {
            Some(&(last, _)) if last > number => self.tickets.partition_point(|&(other, _)| other < number),
            _ => self.tickets.len(),
        };
        self.tickets.insert(at, (number, position));
    }

    fn position(&self, number: u64) -> Option<u64> {
        // A command that is executed for the first time, and the one before it, are at the end or behind it.
        let &(last, position) = self.tickets.back()?;
        match last.cmp(&number) {
            Ordering::Equal => Some(position),
            Ordering::Less => None,
            Ordering::Greater => self.find(number).map(|at| self.tickets[at].1),
        }
    }

    fn remove(&mut self, number: u64) {
        if self.tickets.front().is_some_and(|&(first, _)| first == number) {
            self.tickets.pop_front();
            begin_again_if_empty(&mut self.tickets);
        } else if let Some(at) = self.find(number) {
            self.tickets.remove(at);
        }
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.tickets.binary_search_by_key(&number, |&(other, _)| other).ok()
    }
}

impl Kept {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.ticket.node.0.to_le_bytes());
        out.extend_from_slice(&self.ticket.start.to_le_bytes());
        out.extend_from_slice(&self.ticket.number.to_le_bytes());
        out.extend_from_slice(&self.deadline.0.to_le_bytes());
        out.extend_from_slice(&self.tag.to_le_bytes());
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        self.outcome.expand().encode(out);
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<(Ticket, Stamp, u32, Outcome), Malformed> {
        let ticket = Ticket { node: NodeId(reader.u32()?), start: reader.u32()?, number: reader.u64()? };
        let (deadline, tag) = (Stamp(reader.u64()?), reader.u32()?);
        let length = reader.u32()? as usize;
        let outcome =
            Outcome::decode(reader.bytes(length)?).map_err(|_| Malformed::UnknownTag { of: "outcome", tag: 0 })?;
        Ok((ticket, deadline, tag, outcome))
    }
}

impl Short {
    fn bytes(&self) -> usize {
        match self {
            Short::Other(bytes) => bytes.len(),
            Short::Ok | Short::Nil | Short::Int(_) => 0,
        }
    }

    fn expand(&self) -> Outcome {
        match self {
            Short::Ok => Outcome::Ok,
            Short::Nil => Outcome::Nil,
            Short::Int(number) => Outcome::Int(*number),
            Short::Other(bytes) => Outcome::decode(bytes).expect("it was encoded here"),
        }
    }
}

impl From<&Outcome> for Short {
    fn from(outcome: &Outcome) -> Short {
        match outcome {
            Outcome::Ok => Short::Ok,
            Outcome::Nil => Short::Nil,
            Outcome::Int(number) => Short::Int(*number),
            other => {
                let mut bytes = Vec::new();
                other.encode(&mut bytes);
                Short::Other(bytes.into_boxed_slice())
            }
        }
    }
}

impl Hash for Results {
    /// For comparing replicas: what is kept, in its order.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(number: u64) -> Ticket {
        Ticket { node: NodeId(1), start: 1, number }
    }

    #[test]
    fn an_outcome_is_kept_until_group_time_passes_its_deadline() {
        let mut results = Results::default();
        results.keep(ticket(1), Stamp(100), 0, &Outcome::Int(5));
        results.keep(ticket(2), Stamp(200), 0, &Outcome::Bulk(b"old".to_vec()));
        results.forget_before(Stamp(100));
        assert_eq!(results.outcome(ticket(1)), Some(Outcome::Int(5)));
        results.forget_before(Stamp(101));
        assert_eq!(results.outcome(ticket(1)), None);
        assert_eq!(results.outcome(ticket(2)), Some(Outcome::Bulk(b"old".to_vec())));
    }

    #[test]
    fn tickets_are_found_whatever_order_they_came_in() {
        let mut results = Results::default();
        let numbers = [5, 9, 3, 8, 1, 20, 4];
        for (at, number) in numbers.into_iter().enumerate() {
            results.keep(ticket(number), Stamp(100 + at as u64), 0, &Outcome::Int(number as i64));
        }
        for (at, gone) in numbers.into_iter().enumerate() {
            for number in 0..25 {
                let expected = numbers[at..].contains(&number).then_some(Outcome::Int(number as i64));
                assert_eq!(results.outcome(ticket(number)), expected, "{number} after {at} were forgotten");
            }
            results.forget_before(Stamp(101 + at as u64));
            assert!(!results.contains(ticket(gone)));
        }
        assert!(results.is_empty() && results.origins.is_empty());
    }

    #[test]
    fn the_same_number_of_another_start_or_node_is_another_ticket() {
        let mut results = Results::default();
        results.keep(ticket(1), Stamp(100), 0, &Outcome::Ok);
        assert!(!results.contains(Ticket { start: 2, ..ticket(1) }));
        assert!(!results.contains(Ticket { node: NodeId(2), ..ticket(1) }));
    }

    #[test]
    fn checkpoints_hold_what_is_kept_and_write_only_what_is_new() {
        let mut results = Results::default();
        let mut store = std::collections::BTreeMap::new();
        let mut written = 0;
        for round in 0..50u64 {
            for number in round * 100..(round + 1) * 100 {
                results.keep(ticket(number), Stamp(number), 0, &Outcome::Int(number as i64));
            }
            results.forget_before(Stamp((round * 100).saturating_sub(1000)));
            results.take_unsaved(|run, bytes| match bytes {
                Some(bytes) => {
                    written += 1;
                    store.insert(run, bytes.to_vec());
                }
                None => assert!(store.remove(&run).is_some(), "run {run} was never saved"),
            });
        }
        assert_eq!((written, store.len()), (50, 11));
        let mut restored = Results::default();
        for (run, bytes) in &store {
            restored.restore_run(results.base(), *run, bytes).unwrap();
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        results.encode(&mut before);
        restored.encode(&mut after);
        assert_eq!(before, after);
        assert_eq!((restored.base(), restored.bytes()), (results.base(), results.bytes()));
    }

    fn of(node: u32, number: u64) -> Ticket {
        Ticket { node: NodeId(node), ..ticket(number) }
    }

    #[test]
    fn what_nobody_waits_for_is_forgotten_and_never_executed_again() {
        let mut results = Results::default();
        for number in 1..=5 {
            results.keep(ticket(number), Stamp(100 + number), 0, &Outcome::Ok);
            results.settle(ticket(number), 3);
        }
        assert_eq!([1, 2, 3, 4, 5].map(|number| results.contains(ticket(number))), [false, false, true, true, true]);
        assert_eq!([2, 3, 9].map(|number| results.is_settled(ticket(number))), [true, false, false]);
        results.settle(ticket(5), 1);
        assert!(results.is_settled(ticket(2)), "an older word says nothing new");
        assert!(!results.is_settled(of(2, 1)) && !results.is_settled(Ticket { start: 2, ..ticket(1) }));
        let internal = ticket(1 << 63);
        results.settle(internal, internal.number);
        assert!(!results.is_settled(ticket(4)), "a node's own operations are numbered beside its clients'");
        assert_eq!(results.deadline_max(), Some(Stamp(105)));
        results.settle(ticket(5), 6);
        assert_eq!((results.len(), results.deadline_max()), (0, Some(Stamp(105))), "the mark is left");
        results.forget_before(Stamp(105));
        assert!(results.is_settled(ticket(5)) && !results.is_empty());
        results.forget_before(Stamp(106));
        assert!(results.is_empty(), "copies are refused by their deadlines");
    }

    #[test]
    fn one_who_waits_holds_up_what_was_executed_later() {
        let mut results = Results::default();
        results.keep(of(1, 1), Stamp(100), 0, &Outcome::Ok);
        for number in 1..=9 {
            results.keep(of(2, number), Stamp(200), 0, &Outcome::Ok);
            results.settle(of(2, number), number);
        }
        assert_eq!(results.kept.len(), 10);
        results.forget_before(Stamp(101));
        assert_eq!(results.kept.len(), 1);
    }

    #[test]
    fn marks_are_taken_over_by_codecs_checkpoints_and_other_groups() {
        let mut results = Results::default();
        for number in 1..=4 {
            results.keep(of(1, number), Stamp(100 + number), 7, &Outcome::Ok);
            results.keep(of(2, number), Stamp(200 + number), 7, &Outcome::Nil);
        }
        results.settle(of(1, 4), 4);
        results.settle(of(2, 4), 3);
        let is_same = |other: &Results, how: &str| {
            for number in 1..=5 {
                for ticket in [of(1, number), of(2, number)] {
                    let known = |results: &Results| (results.contains(ticket), results.is_settled(ticket));
                    assert_eq!(known(other), known(&results), "{ticket:?} {how}");
                }
            }
            assert_eq!(other.deadline_max(), results.deadline_max(), "{how}");
        };
        let mut bytes = Vec::new();
        results.encode(&mut bytes);
        is_same(&Results::decode(&mut Reader::new(&bytes)).expect("whole"), "decoded");
        for length in 0..bytes.len() {
            assert!(Results::decode(&mut Reader::new(&bytes[..length])).is_err());
        }
        bytes.clear();
        results.encode_short(Stamp(150), 7, &mut bytes);
        is_same(&Results::decode_short(Stamp(150), 7, &mut Reader::new(&bytes)).expect("whole"), "at rest");
        let mut merged = Results::default();
        merged.merge(&results);
        is_same(&merged, "merged");
        let mut restored = Results::default();
        results.clone().take_unsaved(|run, bytes| {
            restored.restore_run(results.base(), run, bytes.expect("new")).expect("whole");
        });
        bytes.clear();
        results.encode_marks(&mut bytes);
        for mark in Results::decode_marks(&mut Reader::new(&bytes)).expect("whole") {
            restored.mark(mark);
        }
        is_same(&restored, "restored");
    }

    #[test]
    fn thousands_survive_growth_forgetting_and_the_codec() {
        let mut results = Results::default();
        for number in 0..10_000 {
            results.keep(ticket(number), Stamp(number), 0, &Outcome::Int(number as i64));
            results.forget_before(Stamp(number.saturating_sub(3000)));
        }
        assert_eq!(results.len(), 3001);
        let mut bytes = Vec::new();
        results.encode(&mut bytes);
        let decoded = Results::decode(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(decoded.outcome(ticket(6999)), Some(Outcome::Int(6999)));
        assert_eq!(decoded.outcome(ticket(6998)), None);
        assert_eq!(decoded.len(), 3001);
    }
}
