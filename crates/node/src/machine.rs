//! A group's replicated state: its time, what was executed, and what it holds. The same slots make the same machine on
//! every replica, whichever protocol ordered them.

use quorate_object::{APART, Access, Command, Objects, Outcome};
use quorate_protocol::id::Content as ValueContent;
use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{Slot, Stamp, Value};

use crate::changes::Done;
use crate::envelope::{Envelope, Ticket};
use crate::planted::{self, Planted};
use crate::results::{Results, name_tag};
use crate::root::{RootCommand, RootState};
use crate::volume::{Changes, Children, VolumeCommand};

pub struct Machine {
    pub(crate) time: Stamp,
    pub(crate) results: Results,
    pub(crate) content: Content,
    /// Of a volume, once it has had an own group.
    pub(crate) children: Option<Box<Children>>,
    /// Whether each name of this volume is given a group of its own when it is first written.
    pub(crate) owns: bool,
    /// What slots meant for own groups that nobody has taken note of yet.
    pub(crate) changes: Option<Box<Changes>>,
}

pub enum Content {
    Objects(Box<Objects>),
    Root(Box<RootState>),
}

/// What became of one command of a slot.
#[derive(Debug)]
pub enum Verdict {
    Executed(Outcome),
    /// Executed earlier; this is what was answered then.
    Again(Outcome),
    /// Group time is past its deadline. Nobody can tell any more whether it was executed before.
    Expired,
    /// The command before it on its connection has not been executed. Not executed either: to be sent again in order.
    OutOfOrder,
    /// Not executed: too much is kept of what was, until its deadlines have passed.
    Full,
    /// Not executed: the object has a group of its own, of this record.
    Away(Vec<u8>),
}

impl Verdict {
    pub fn is_executed(&self) -> bool {
        matches!(self, Verdict::Executed(_) | Verdict::Again(_))
    }
}

/// What a read was answered.
#[derive(Debug, PartialEq)]
pub enum ReadAnswer {
    Outcome(Outcome),
    /// The object has a group of its own, of this record.
    Away(Vec<u8>),
    /// Some of the names that are asked for are in the checkpoint store only.
    Swapped,
}

/// What a group keeps of outcomes at most, in memory. Beyond it commands are refused, on all replicas alike.
pub(crate) const RESULTS_BYTES_MAX: usize = 64 << 20;

impl Machine {
    pub fn new(content: Content) -> Machine {
        Machine::restored(Stamp(0), Results::default(), content)
    }

    pub fn time(&self) -> Stamp {
        self.time
    }

    pub fn results(&self) -> &Results {
        &self.results
    }

    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Whether it is the root's, of a newcomer that has nothing yet.
    pub(crate) fn is_unborn_root(&self) -> bool {
        matches!(&self.content, Content::Root(root) if root.version == 0)
    }

    pub fn content_mut(&mut self) -> &mut Content {
        &mut self.content
    }

    pub fn objects_mut(&mut self) -> Option<&mut Objects> {
        match &mut self.content {
            Content::Objects(objects) => Some(objects),
            Content::Root(_) => None,
        }
    }

    /// Executes a decided value and tells of each of its commands, in their order.
    pub fn apply(&mut self, slot: Slot, value: &Value, mut each: impl FnMut(Ticket, Verdict)) {
        self.advance(value.stamp);
        let mut bytes: &[u8] = match &value.content {
            ValueContent::Commands(payload) => payload,
            // The last word says nothing to the objects.
            ValueContent::Stop(_) | ValueContent::Mark => &[],
        };
        self.look_ahead(bytes);
        let mut seed = value.seed;
        while let Some(envelope) = Envelope::take(&mut bytes) {
            seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let verdict = self.execute(slot, &envelope, seed);
            each(envelope.ticket, verdict);
        }
    }

    /// Looks at the objects of these commands before the first is executed, if there are more than one.
    fn look_ahead(&self, mut envelopes: &[u8]) {
        if let Content::Objects(objects) = &self.content
            && Envelope::is_followed(envelopes)
        {
            let commands = std::iter::from_fn(|| Envelope::take(&mut envelopes));
            objects.look_ahead(commands.filter_map(|envelope| Command::key_of(envelope.command)));
        }
    }

    /// Applies an update of a chain and tells of each of its commands, in their order. Panics on what no head has written.
    pub(crate) fn apply_changes(&mut self, value: &Value, mut each: impl FnMut(Ticket, Verdict)) {
        self.advance(value.stamp);
        let mut bytes: &[u8] = match &value.content {
            ValueContent::Commands(payload) => payload,
            ValueContent::Stop(_) | ValueContent::Mark => &[],
        };
        while let Some(done) = Done::take(&mut bytes).expect("an update says what became of commands") {
            let Done { ticket, deadline, tag, settled, verdict, change } = done;
            if let (Some(change), Content::Objects(objects)) = (change, &mut self.content) {
                objects.apply(change, self.time.0);
            }
            if let Verdict::Executed(outcome) = &verdict {
                debug_assert!(!self.results.contains(ticket), "{ticket:?} is executed twice");
                self.results.settle(ticket, settled);
                self.results.keep(ticket, deadline, tag, outcome);
            }
            each(ticket, verdict);
        }
    }

    pub fn next_expiry(&self) -> Option<Stamp> {
        match &self.content {
            Content::Objects(objects) => objects.next_expiry_ms().map(Stamp),
            Content::Root(_) => None,
        }
    }

    /// Reads at `now`: the time that is left to an object is counted from then, however long ago the last slot was. Nothing if
    /// an expiry has to be decided first.
    pub fn read(&self, command: &[u8], now: Stamp) -> Option<ReadAnswer> {
        let outcome = match &self.content {
            Content::Objects(_) => match Command::decode(command) {
                Ok(command) if command.access() == Access::Read => return self.read_objects(&command, now),
                _ if self.has_swapped()
                    && VolumeCommand::decode(command).is_some_and(|command| command.lists_names()) =>
                {
                    return Some(ReadAnswer::Swapped);
                }
                _ => self.read_volume(command),
            },
            Content::Root(root) => RootCommand::decode(command).map_or_else(malformed, |command| root.read(&command)),
        };
        Some(ReadAnswer::Outcome(outcome))
    }

    /// The same for a read of objects.
    pub fn read_objects(&self, command: &Command<'_>, now: Stamp) -> Option<ReadAnswer> {
        let Content::Objects(objects) = &self.content else { return Some(ReadAnswer::Outcome(malformed())) };
        if objects.is_due(command, self.time.0, now.0) && !planted::is(Planted::ExpiryIgnored) {
            return None;
        }
        if let Some(record) = command.key().and_then(|key| objects.away(key)) {
            return Some(ReadAnswer::Away(record.to_vec()));
        }
        if command.lists_names() && self.has_swapped() {
            return Some(ReadAnswer::Swapped);
        }
        Some(ReadAnswer::Outcome(objects.read(command, self.time.max(now).0)))
    }

    /// Whether time changes the object of this name, for all that is known here.
    pub fn expires(&self, key: &[u8]) -> bool {
        self.objects().is_none_or(|objects| objects.expires(key))
    }

    /// Whether names of own groups are in the checkpoint store only.
    pub fn has_swapped(&self) -> bool {
        self.objects().is_some_and(|objects| objects.swapped_count() > 0)
    }

    pub fn results_mut(&mut self) -> &mut Results {
        &mut self.results
    }

    /// A machine at this time that has executed what `results` keeps.
    pub fn restored(time: Stamp, results: Results, content: Content) -> Machine {
        Machine { time, results, content, children: None, owns: false, changes: None }
    }

    /// The part of the state that is neither objects nor the protocol's.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.time.0.to_le_bytes());
        self.results.encode(out);
        let children = self.children.as_ref().map(|children| children.encode()).unwrap_or_default();
        out.extend_from_slice(&(children.len() as u32).to_le_bytes());
        out.extend_from_slice(&children);
    }

    pub fn decode_head(content: Content, reader: &mut Reader<'_>) -> Result<Machine, Malformed> {
        let mut machine = Machine::restored(Stamp(reader.u64()?), Results::decode(reader)?, content);
        let length = reader.u32()? as usize;
        machine.restore_children(reader.bytes(length)?)?;
        Ok(machine)
    }

    /// Takes back what a checkpoint or snapshot has of a volume's own groups; nothing if it has had none.
    pub fn restore_children(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if !bytes.is_empty() {
            let children = Children::decode(bytes).ok_or(Malformed::UnknownTag { of: "own groups", tag: 0 })?;
            self.children = Some(Box::new(children));
        }
        Ok(())
    }

    /// What a planted bug does to a snapshot.
    pub(crate) fn forget_results(&mut self) {
        self.results = Results::default();
    }

    /// Equal on replicas that executed the same slots.
    pub fn digest(&self) -> u64 {
        let mut head = Vec::new();
        self.encode_head(&mut head);
        let content = match &self.content {
            Content::Objects(objects) => objects.digest(),
            Content::Root(root) => xxhash_rust::xxh3::xxh3_64(&root.encode()),
        };
        xxhash_rust::xxh3::xxh3_64(&head) ^ content.rotate_left(1)
    }

    fn away_of(&self, command: &[u8]) -> Option<Vec<u8>> {
        match (&self.content, Command::decode(command)) {
            (Content::Objects(objects), Ok(command)) => objects.away(command.key()?).map(|note| note.to_vec()),
            _ => None,
        }
    }

    /// Whether objects have expired that are still here: they go with the next slots.
    pub fn has_expired(&self) -> bool {
        self.next_expiry().is_some_and(|expiry| expiry <= self.time)
    }

    pub(crate) fn advance(&mut self, stamp: Stamp) {
        if stamp <= self.time {
            return;
        }
        self.time = stamp;
        self.results.forget_before(stamp);
        if let Content::Objects(objects) = &mut self.content {
            objects.advance(stamp.0);
        }
    }

    fn execute(&mut self, slot: Slot, envelope: &Envelope<'_>, seed: u64) -> Verdict {
        let ticket = envelope.ticket;
        if envelope.deadline < self.time {
            return Verdict::Expired;
        }
        if planted::is(Planted::PromoteLosesResults)
            && let Some(record) = self.away_of(envelope.command)
        {
            return Verdict::Away(record);
        }
        if !planted::is(Planted::SessionForgotten)
            && let Some(outcome) = self.results.outcome(ticket)
        {
            return Verdict::Again(outcome);
        }
        // A late copy of what was answered, or given up.
        if self.results.is_settled(ticket) {
            return Verdict::Expired;
        }
        if envelope.predecessor != 0 && !planted::is(Planted::PipelineOrderIgnored) {
            let number = ticket.number.wrapping_sub(u64::from(envelope.predecessor));
            let before = Ticket { number, ..ticket };
            if !self.results.contains(before) && !self.results.is_settled(before) {
                // The object's own group keeps the order: a pipeline must not learn of it one command after the other.
                return self.away_of(envelope.command).map_or(Verdict::OutOfOrder, Verdict::Away);
            }
        }
        if self.results.bytes() > RESULTS_BYTES_MAX {
            return Verdict::Full;
        }
        let (outcome, name) = match &mut self.content {
            Content::Objects(objects) => match Command::decode(envelope.command) {
                Ok(command) => {
                    if let Some(record) = command.key().and_then(|key| objects.away(key)) {
                        return Verdict::Away(record.to_vec());
                    }
                    let is_apart = self.owns && command.is_on_several();
                    let outcome = match is_apart {
                        true => Outcome::Error(APART.into()),
                        false => objects.run_advanced(&command, self.time.0, seed),
                    };
                    // Objects in groups of their own are left for whoever asked to delete.
                    let left = command == Command::Flush && objects.away_count() > 0;
                    (if left { Outcome::Int(objects.away_count() as i64) } else { outcome }, command.key())
                }
                Err(_) => (self.execute_volume(slot, envelope.command), None),
            },
            Content::Root(root) => match RootCommand::decode(envelope.command) {
                Some(command) => (root.execute(&command, seed), None),
                None => (malformed(), None),
            },
        };
        self.results.settle(ticket, envelope.settled_below());
        self.results.keep(ticket, envelope.deadline, name_tag(name), &outcome);
        if self.owns
            && let Some(name) = name
        {
            self.give_own_group(slot, name);
        }
        Verdict::Executed(outcome)
    }
}

/// Only a node of a newer release could have asked for it.
pub(crate) fn malformed() -> Outcome {
    Outcome::Error("ERR this node does not know the command: ask a node of the newer version".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_object::{Condition, Expiry, SetAnswer, TtlUnit};
    use quorate_protocol::{NodeId, Payload};

    use crate::envelope::NOTHING_SETTLED;

    fn command(command: &Command<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        bytes
    }

    fn slot(stamp: u64, number: u64, predecessor: u32, deadline: u64, asked: &Command<'_>) -> Value {
        let mut bytes = Vec::new();
        let ticket = Ticket { node: NodeId(1), start: 1, number };
        let write = |out: &mut Vec<u8>| asked.encode(out);
        Envelope::encode(ticket, Stamp(deadline), predecessor, NOTHING_SETTLED, write, &mut bytes);
        Value { stamp: Stamp(stamp), seed: 1, content: ValueContent::Commands(Payload::from(&bytes[..])) }
    }

    fn verdict(machine: &mut Machine, value: &Value) -> String {
        let mut verdicts = Vec::new();
        machine.apply(Slot(0), value, |_, verdict| verdicts.push(format!("{verdict:?}")));
        verdicts.join(", ")
    }

    fn machine() -> Machine {
        Machine::new(Content::Objects(Box::new(Objects::new([7; 16]))))
    }

    const INCR: Command<'_> = Command::IncrBy { key: b"n", delta: 1 };

    #[test]
    fn a_command_sent_again_is_executed_once() {
        let mut machine = machine();
        assert_eq!(verdict(&mut machine, &slot(100, 1, 0, 5100, &INCR)), "Executed(Int(1))");
        assert_eq!(verdict(&mut machine, &slot(200, 1, 0, 5100, &INCR)), "Again(Int(1))");
        assert_eq!(verdict(&mut machine, &slot(5101, 1, 0, 5100, &INCR)), "Expired");
        assert_eq!(
            machine.read(&command(&Command::Get { key: b"n" }), Stamp(0)),
            Some(ReadAnswer::Outcome(Outcome::Bulk(b"1".to_vec())))
        );
    }

    #[test]
    fn a_command_is_not_executed_before_the_one_before_it() {
        let mut machine = machine();
        assert_eq!(verdict(&mut machine, &slot(100, 2, 1, 5100, &INCR)), "OutOfOrder");
        assert_eq!(verdict(&mut machine, &slot(100, 1, 0, 5100, &INCR)), "Executed(Int(1))");
        assert_eq!(verdict(&mut machine, &slot(100, 2, 1, 5100, &INCR)), "Executed(Int(2))");
    }

    #[test]
    fn the_time_left_to_an_object_runs_on_in_a_quiet_group() {
        let mut machine = machine();
        let set = Command::Set {
            key: b"k",
            value: b"v",
            condition: Condition::Always,
            expiry: Expiry::AtMs(10_000),
            answer: SetAnswer::Ok,
        };
        assert_eq!(verdict(&mut machine, &slot(1000, 1, 0, 5100, &set)), "Executed(Ok)");
        let ttl = command(&Command::Ttl { key: b"k", unit: TtlUnit::Milliseconds });
        assert_eq!(machine.read(&ttl, Stamp(4000)), Some(ReadAnswer::Outcome(Outcome::Int(6000))));
        assert_eq!(machine.read(&ttl, Stamp(9999)), Some(ReadAnswer::Outcome(Outcome::Int(1))));
        assert_eq!(machine.read(&ttl, Stamp(10_000)), None, "its expiry comes first");
    }

    #[test]
    fn what_no_release_wrote_is_answered_and_harmless() {
        let machine = machine();
        let refused = Some(ReadAnswer::Outcome(malformed()));
        assert_eq!(machine.read(b"\xff\xff", Stamp(0)), refused);
        assert_eq!(machine.read(&command(&INCR), Stamp(0)), refused, "a write is no read");
    }
}
