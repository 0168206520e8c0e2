//! What a chain's updates in flight will make of its objects.
//!
//! A member's objects hold what is decided. What it has beyond that it looks up here: a head, to execute the next command
//! on it; any member, to know of which objects it cannot tell what was answered last. All of it follows from the updates in
//! flight, and it is brought up to them whenever it is asked.

use std::collections::VecDeque;

use hashbrown::HashMap;
use quorate_object::{Change, Command, Objects, Outcome};
use quorate_protocol::chain::{Chain, Order};
use quorate_protocol::id::Content as ValueContent;
use quorate_protocol::{Slot, Stamp, Value};

use crate::changes::Done;
use crate::envelope::{Envelope, Ticket};
use crate::hash::FixedState;
use crate::machine::{Content, Machine, RESULTS_BYTES_MAX, Verdict, malformed};
use crate::planted::{self, Planted};
use crate::results::{Results, name_tag};

/// No update is larger: it is logged in one record.
const UPDATE_BYTES_MAX: usize = 20 << 20;

const TOO_LARGE: &str = "ERR not executed: a chain logs what a command answers together with what it changes, and this is more than \
                         20 MiB: take fewer elements at once, or use GET and SET";

pub(crate) struct Ahead {
    hash_key: [u8; 16],
    /// The updates of these slots are counted in.
    from: Slot,
    until: Slot,
    /// What each of them concerns.
    slots: VecDeque<Touched>,
    /// What they do to the object of each name that they concern.
    names: HashMap<Box<[u8]>, Pending, FixedState>,
    /// How many of them concern every name.
    flushes: u32,
    outcomes: HashMap<Ticket, Outcome, FixedState>,
    outcome_bytes: usize,
    /// Those of these objects that somebody had to look at, as they will be. One that is not here will be gone.
    objects: Objects,
}

/// Changes of one object in flight, the oldest first. A large object is copied only if a command comes for it meanwhile.
#[derive(Default)]
struct Pending {
    /// When, and what. Nothing of those that `objects` has already.
    changes: VecDeque<Option<(Stamp, Vec<u8>)>>,
    is_copied: bool,
}

#[derive(Default)]
struct Touched {
    names: Vec<Box<[u8]>>,
    flushes: u32,
    tickets: Vec<Ticket>,
}

impl Ahead {
    pub(crate) fn new(hash_key: [u8; 16]) -> Ahead {
        Ahead {
            hash_key,
            from: Slot(0),
            until: Slot(0),
            slots: VecDeque::new(),
            names: HashMap::default(),
            flushes: 0,
            outcomes: HashMap::default(),
            outcome_bytes: 0,
            objects: Objects::new(hash_key),
        }
    }

    /// Whether an update in flight concerns what this command reads.
    pub(crate) fn concerns(&mut self, chain: &Chain, command: &[u8]) -> bool {
        self.follow(chain);
        if self.from == self.until {
            return false;
        }
        match Command::decode(command).ok().and_then(|command| command.key()) {
            Some(key) => self.flushes > 0 || self.names.contains_key(key),
            // It reads all of them.
            None => true,
        }
    }

    /// Executes these commands, one envelope behind the other, on what is to come: what has become of each. Beside that, those
    /// for which the update has no room any more: they are to have another one.
    pub(crate) fn execute<'a>(
        &mut self,
        chain: &Chain,
        machine: &Machine,
        order: &Order,
        envelopes: &'a [u8],
    ) -> (Vec<u8>, &'a [u8]) {
        self.follow(chain);
        let mut touched = Touched::default();
        let mut out = Vec::with_capacity(envelopes.len() + 64);
        let (mut bytes, mut seed) = (envelopes, order.seed);
        self.objects.advance(order.stamp.0);
        let (mut before, mut left): (&[u8], &[u8]) = (bytes, &[]);
        while let Some(envelope) = Envelope::take(&mut bytes) {
            seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let command = Command::decode(envelope.command);
            let name = command.as_ref().ok().and_then(Command::key);
            let (verdict, change) = match self.refuse(machine, order, &envelope) {
                Some(verdict) => (verdict, None),
                None => {
                    let (change, outcome) = match &command {
                        Ok(command) => self.run(machine, command, order, seed),
                        Err(_) => (None, malformed()),
                    };
                    (Verdict::Executed(outcome), change)
                }
            };
            let (ticket, deadline, settled) = (envelope.ticket, envelope.deadline, envelope.settled_below());
            let mut done = Done { ticket, deadline, tag: name_tag(name), settled, verdict, change };
            let length = out.len();
            done.encode(&mut out);
            if out.len() > UPDATE_BYTES_MAX {
                out.truncate(length);
                if length > 0 {
                    left = before;
                    break;
                }
                (done.verdict, done.change) = (Verdict::Executed(Outcome::Error(TOO_LARGE.into())), None);
                done.encode(&mut out);
            }
            self.count(done, order.stamp, &mut touched);
            before = bytes;
        }
        self.slots.push_back(touched);
        self.until = order.slot.next();
        (out, left)
    }

    fn refuse(&self, machine: &Machine, order: &Order, envelope: &Envelope<'_>) -> Option<Verdict> {
        let ticket = envelope.ticket;
        if envelope.deadline < order.stamp {
            return Some(Verdict::Expired);
        }
        if !planted::is(Planted::SessionForgotten)
            && let Some(outcome) = self.outcome(ticket).or_else(|| machine.results.outcome(ticket))
        {
            return Some(Verdict::Again(outcome));
        }
        // A late copy of what was answered, or given up.
        if machine.results.is_settled(ticket) {
            return Some(Verdict::Expired);
        }
        if envelope.predecessor != 0 && !planted::is(Planted::PipelineOrderIgnored) {
            let before = Ticket { number: ticket.number.wrapping_sub(u64::from(envelope.predecessor)), ..ticket };
            let is_done = |results: &Results| results.contains(before) || results.is_settled(before);
            if !self.outcomes.contains_key(&before) && !is_done(&machine.results) {
                return Some(Verdict::OutOfOrder);
            }
        }
        (machine.results.bytes() + self.outcome_bytes > RESULTS_BYTES_MAX).then_some(Verdict::Full)
    }

    fn outcome(&self, ticket: Ticket) -> Option<Outcome> {
        self.outcomes.get(&ticket).filter(|_| !planted::is(Planted::AheadForgetsOutcomes)).cloned()
    }

    /// What a command changes, on what is to come. The objects here come to be that by [`Ahead::count`].
    fn run<'a>(
        &mut self,
        machine: &Machine,
        command: &Command<'a>,
        order: &Order,
        seed: u64,
    ) -> (Option<Change<'a>>, Outcome) {
        let Content::Objects(objects) = &machine.content else { return (None, malformed()) };
        command.keys().for_each(|key| self.copy(objects, key, order.stamp));
        let of = |key: &[u8]| if self.flushes > 0 || self.names.contains_key(key) { &self.objects } else { &**objects };
        command.execute_among(&of, order.stamp.0, seed)
    }

    /// Comes up to the updates in flight.
    fn follow(&mut self, chain: &Chain) {
        let (from, until) = (chain.next_slot(), chain.received());
        if from < self.from || until < self.until || from > self.until {
            *self = Ahead { from, until: from, ..Ahead::new(self.hash_key) };
        }
        while self.from < from
            && let Some(touched) = self.slots.pop_front()
        {
            self.forget(touched);
            self.from = self.from.next();
            self.objects.forget_changes();
        }
        if self.until < until {
            let from = self.until;
            for (slot, value) in chain.pending().filter(|(slot, _)| *slot >= from) {
                self.foresee(value);
                self.until = slot.next();
            }
        }
    }

    /// An update that another head has ordered, or this one before it was started anew.
    fn foresee(&mut self, value: &Value) {
        let mut touched = Touched::default();
        self.objects.advance(value.stamp.0);
        if let ValueContent::Commands(payload) = &value.content {
            let mut bytes: &[u8] = payload;
            // What cannot be read stops whoever applies it.
            while let Ok(Some(done)) = Done::take(&mut bytes) {
                self.count(done, value.stamp, &mut touched);
            }
        }
        self.slots.push_back(touched);
    }

    fn count(&mut self, done: Done<'_>, at: Stamp, touched: &mut Touched) {
        let Done { ticket, verdict, change, .. } = done;
        if let Verdict::Executed(outcome) = verdict {
            self.outcome_bytes += outcome.heap_bytes();
            self.outcomes.insert(ticket, outcome);
            touched.tickets.push(ticket);
        }
        match change {
            None => {}
            Some(Change::Several(changes)) => {
                changes.into_iter().for_each(|change| self.count_change(change, at, touched));
            }
            Some(change) => self.count_change(change, at, touched),
        }
    }

    fn count_change(&mut self, change: Change<'_>, at: Stamp, touched: &mut Touched) {
        let Some(key) = change.key() else {
            self.flushes += 1;
            touched.flushes += 1;
            // Whatever they were, they will be gone.
            for pending in self.names.values_mut() {
                pending.is_copied = true;
                pending.changes.iter_mut().for_each(|change| *change = None);
            }
            return self.objects.apply(change, at.0);
        };
        touched.names.push(key.into());
        let pending = self.names.entry_ref(key).or_default();
        pending.is_copied |= self.flushes > 0;
        if pending.is_copied {
            pending.changes.push_back(None);
            return self.objects.apply(change, at.0);
        }
        let mut encoded = Vec::new();
        change.encode(&mut encoded);
        pending.changes.push_back(Some((at, encoded)));
    }

    /// Has the object of this name here, as it will be at `now`, if something in flight concerns it.
    fn copy(&mut self, objects: &Objects, key: &[u8], now: Stamp) {
        let Some(pending) = self.names.get_mut(key).filter(|pending| !pending.is_copied) else { return };
        pending.is_copied = true;
        if let Some(object) = objects.encoded(key) {
            // What cannot be read is taken for gone, as where it is stored.
            let _ = self.objects.put_encoded(key, &object);
        }
        for (at, change) in pending.changes.iter_mut().filter_map(Option::take) {
            self.objects.advance(at.0);
            self.objects.apply(Change::decode(&change).expect("it was encoded here"), at.0);
        }
        self.objects.advance(now.0);
    }

    /// The update of a slot has been applied to the objects themselves.
    fn forget(&mut self, touched: Touched) {
        for ticket in touched.tickets {
            if let Some(outcome) = self.outcomes.remove(&ticket) {
                self.outcome_bytes -= outcome.heap_bytes();
            }
        }
        self.flushes -= touched.flushes;
        for name in touched.names {
            let Some(pending) = self.names.get_mut(&name) else { continue };
            pending.changes.pop_front();
            if pending.changes.is_empty() && self.names.remove(&name).is_some_and(|pending| pending.is_copied) {
                self.objects.remove_name(&name);
            }
        }
    }
}
