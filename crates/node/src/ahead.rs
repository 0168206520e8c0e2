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
                         20 MiB: use GET and SET";

pub(crate) struct Ahead {
    hash_key: [u8; 16],
    /// The updates of these slots are counted in.
    from: Slot,
    until: Slot,
    /// What each of them concerns.
    slots: VecDeque<Touched>,
    /// How many of them concern each name.
    names: HashMap<Box<[u8]>, u32, FixedState>,
    /// How many of them concern every name.
    flushes: u32,
    outcomes: HashMap<Ticket, Outcome, FixedState>,
    outcome_bytes: usize,
    /// The objects of those names as they will be. One that is not here will be gone.
    objects: Objects,
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
    pub(crate) fn concerns(&mut self, chain: &Chain, machine: &Machine, command: &[u8]) -> bool {
        self.follow(chain, machine);
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
        self.follow(chain, machine);
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
            self.count(machine, done, order.stamp, &mut touched);
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
        let time = order.stamp.0;
        let of = |key: &[u8]| if self.flushes > 0 || self.names.contains_key(key) { &self.objects } else { &**objects };
        match (command, command.key()) {
            (Command::Transaction(transaction), _) => transaction.execute(of, time, seed),
            (_, Some(key)) => of(key).execute(command, time, seed),
            // Only one that deletes all of them changes more than one.
            (_, None) => objects.execute(command, time, seed),
        }
    }

    /// Comes up to the updates in flight.
    fn follow(&mut self, chain: &Chain, machine: &Machine) {
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
                self.foresee(machine, value);
                self.until = slot.next();
            }
        }
    }

    /// An update that another head has ordered, or this one before it was started anew.
    fn foresee(&mut self, machine: &Machine, value: &Value) {
        let mut touched = Touched::default();
        self.objects.advance(value.stamp.0);
        if let ValueContent::Commands(payload) = &value.content {
            let mut bytes: &[u8] = payload;
            // What cannot be read stops whoever applies it.
            while let Ok(Some(done)) = Done::take(&mut bytes) {
                self.count(machine, done, value.stamp, &mut touched);
            }
        }
        self.slots.push_back(touched);
    }

    fn count(&mut self, machine: &Machine, done: Done<'_>, at: Stamp, touched: &mut Touched) {
        let Done { ticket, verdict, change, .. } = done;
        if let Verdict::Executed(outcome) = verdict {
            self.outcome_bytes += outcome.heap_bytes();
            self.outcomes.insert(ticket, outcome);
            touched.tickets.push(ticket);
        }
        match change {
            None => {}
            Some(Change::Several(changes)) => {
                changes.into_iter().for_each(|change| self.count_change(machine, change, at, touched));
            }
            Some(change) => self.count_change(machine, change, at, touched),
        }
    }

    fn count_change(&mut self, machine: &Machine, change: Change<'_>, at: Stamp, touched: &mut Touched) {
        match change.key() {
            None => {
                self.flushes += 1;
                touched.flushes += 1;
            }
            Some(key) => {
                let count = self.names.entry_ref(key).or_insert(0);
                *count += 1;
                if *count == 1 && self.flushes == 0 {
                    self.copy(machine, key);
                    self.objects.advance(at.0);
                }
                touched.names.push(key.into());
            }
        }
        self.objects.apply(change);
    }

    /// An object that nothing in flight concerned so far.
    fn copy(&mut self, machine: &Machine, key: &[u8]) {
        let Content::Objects(objects) = &machine.content else { return };
        if let Some(object) = objects.encoded(key) {
            // What cannot be read is taken for gone, as where it is stored.
            let _ = self.objects.put_encoded(key, &object);
        }
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
            let Some(count) = self.names.get_mut(&name) else { continue };
            *count -= 1;
            if *count == 0 {
                self.names.remove(&name);
                self.objects.remove_name(&name);
            }
        }
    }
}
