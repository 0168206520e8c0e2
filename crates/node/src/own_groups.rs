//! How a volume executes commands on own groups. Deterministic, as everything that a [`Machine`] does.

use std::collections::{BTreeMap, BTreeSet};

use quorate_object::{Command, Condition, Expiry, NAME_BYTES_MAX, Objects, Outcome, SetAnswer, is_string};
use quorate_protocol::Slot;
use quorate_protocol::wire::Reader;

use crate::machine::{Content, Machine, malformed};
use crate::office::Office;
use crate::own_changes::OUTSIDE;
use crate::planted::{self, Planted};
use crate::record::{GroupRecord, STILL_CHANGING};
use crate::results::{Results, name_tag};
use crate::shunned::SHUNNED;
use crate::volume::{
    Birth, Changes, Children, Death, Frozen, Held, NAMES_MAX, OwnRecord, Plan, Record, Starting, VolumeCommand, Word,
};

const DONE: &str = "OK";
pub(crate) const NO_STRING: &str = "WRONGTYPE a register holds a string, and the object is none";

/// Of the objects that one command gives groups of their own, together with those that began before and are not on enough disks.
const STARTING_BYTES_MAX: usize = 16 << 20;

impl Machine {
    /// What the slots executed since the last call mean for own groups.
    pub fn take_changes(&mut self) -> Option<Box<Changes>> {
        self.changes.take()
    }

    pub fn children(&self) -> Option<&Children> {
        self.children.as_deref()
    }

    /// The latest that was taken in this parent of chains.
    pub(crate) fn office(&self) -> Office {
        match &self.content {
            Content::Root(root) => root.office,
            Content::Objects(_) => self.children().map_or_else(Office::default, |children| children.office),
        }
    }

    /// Of a volume: its objects and the records of its own groups.
    pub fn objects(&self) -> Option<&Objects> {
        match &self.content {
            Content::Objects(objects) => Some(objects),
            Content::Root(_) => None,
        }
    }

    /// A machine that begins where another group left an object.
    pub fn thawed(hash_key: [u8; 16], name: &[u8], frozen: &Frozen) -> Machine {
        let mut objects = Objects::new(hash_key);
        if let Some(object) = &frozen.object {
            // What cannot be read here could not be read there either, and was never taken for an object.
            let _ = objects.put_encoded(name, object);
        }
        let results = decode_results(&frozen.results);
        Machine::restored(frozen.time(), results, Content::Objects(Box::new(objects)))
    }

    /// What this own group has come to.
    pub fn freeze(&self, name: &[u8]) -> Frozen {
        let object = self.objects().and_then(|objects| objects.encoded(name));
        Frozen::new(self.time, object, &self.results)
    }

    pub(crate) fn read_volume(&self, command: &[u8]) -> Outcome {
        match (VolumeCommand::decode(command), self.objects()) {
            (Some(VolumeCommand::Show { names }), Some(objects)) => {
                let line = |name: &Vec<u8>| match objects.away(name) {
                    Some(record) => record.to_vec(),
                    None if objects.has_live(name, self.time.0) => Vec::new(),
                    None => b"ERR no such key".to_vec(),
                };
                Outcome::Keys(names.iter().map(line).collect())
            }
            (Some(VolumeCommand::ListOwn), Some(objects)) => {
                let mut names = Vec::with_capacity(objects.away_count());
                objects.for_each_away(|name, _| names.push(name.to_vec()));
                Outcome::Keys(names)
            }
            (Some(VolumeCommand::ListOwnFrom { hash }), Some(objects)) => {
                let (keys, next) = objects.page_away(hash);
                Outcome::Scan { next, keys }
            }
            (Some(VolumeCommand::Tell { numbers }), Some(_)) => Outcome::Bulk(self.tell(&numbers)),
            _ => malformed(),
        }
    }

    /// What nodes without a replica of the volume are told of own groups.
    fn tell(&self, numbers: &[u64]) -> Vec<u8> {
        let made;
        let named = match self.children().map(|children| &children.named) {
            Some(Some(named)) => named,
            _ => {
                made = self.names_of_named();
                &made
            }
        };
        let last_number = self.children().map_or(0, |children| children.last_number);
        let states: BTreeMap<u64, &Starting> =
            self.children().into_iter().flat_map(Children::starting_by_number).collect();
        let word = |number: u64| {
            let record = named.get(&number).and_then(|name| Some((name, self.record_of(name)?)));
            match record.map(|(name, record)| (name, record.number, record.place)) {
                _ if number > last_number => Word::Unborn,
                Some((name, found, OwnRecord::Paxos { members })) if found == number => {
                    let state = states.get(&number).map(|starting| starting.state());
                    Word::Lives { name: name.clone(), members, state }
                }
                _ => Word::Gone,
            }
        };
        Word::encode_some(numbers.iter().map(|&number| (number, word(number))))
    }

    pub(crate) fn execute_volume(&mut self, slot: Slot, command: &[u8]) -> Outcome {
        match VolumeCommand::decode(command) {
            Some(VolumeCommand::Create { names, plan, value }) => self.create(slot, &names, &plan, &value),
            Some(VolumeCommand::Promote { names, plan }) => self.promote(slot, &names, &plan, usize::MAX),
            Some(VolumeCommand::PromoteSome { names, plan }) => self.promote(slot, &names, &plan, STARTING_BYTES_MAX),
            Some(VolumeCommand::Demote { names }) => self.demote(&names),
            Some(VolumeCommand::Retire { number, name }) => self.retire(number, &name),
            Some(VolumeCommand::Complete { slots }) => {
                if let Some(children) = &mut self.children {
                    slots.iter().for_each(|&slot| children.complete(slot));
                }
                Outcome::Ok
            }
            Some(VolumeCommand::Return { number, state, last }) => self.take_back(slot, number, &state, last),
            Some(
                VolumeCommand::Show { .. }
                | VolumeCommand::Tell { .. }
                | VolumeCommand::ListOwn
                | VolumeCommand::ListOwnFrom { .. },
            ) => self.read_volume(command),
            Some(VolumeCommand::Reconfigure { office, .. }) if office < self.office() => Outcome::Nil,
            Some(VolumeCommand::Reconfigure { number, epoch, members, joining, .. }) => {
                self.change_led(number, |record| {
                    let is_next = record.epoch == epoch;
                    if is_next {
                        record.reconfigure(members, joining);
                    }
                    is_next
                })
            }
            Some(VolumeCommand::Move { names, members, quorum }) => {
                each(&names, |name| self.move_register(name, members.as_deref(), quorum))
            }
            Some(VolumeCommand::Change { names, change }) => each(&names, |name| self.change_own(name, &change)),
            Some(VolumeCommand::Renew(renewed)) => {
                each(&renewed.groups, |(number, name)| self.renew_own(*number, name, &renewed))
            }
            Some(VolumeCommand::Hold { order, members, held }) => self.hold(order, members, held),
            Some(VolumeCommand::MoveOff(moved)) => {
                each(&moved.groups, |group| self.move_off(group, moved.volume, &moved.of_volume))
            }
            Some(VolumeCommand::Shun { node }) => self.shun(slot, node),
            Some(VolumeCommand::Unshun { node, slot }) => self.unshun(node, slot),
            Some(VolumeCommand::RetireBefore { number, epoch }) => {
                self.change_led(number, |record| record.retire_before(epoch))
            }
            Some(VolumeCommand::TakeOffice { office }) => {
                let children = self.children_mut();
                children.office = children.office.max(office);
                Outcome::Ok
            }
            None => malformed(),
        }
    }

    fn hold(&mut self, order: u64, members: Vec<u32>, held: Option<Held>) -> Outcome {
        let children = self.children_mut();
        if order < children.hold_order {
            return Outcome::Nil;
        }
        (children.hold_order, children.members) = (order, members);
        // What is clear stays so.
        let stays = |before: &Held| held.as_ref().is_some_and(|held| !held.is_clear && before.is_of(held));
        if !children.held.as_ref().is_some_and(stays) {
            children.held = held;
        }
        Outcome::Ok
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), &'static str> {
        match self.fits(plan) {
            true if self.shuns_plan(plan) => Err(SHUNNED),
            true => Ok(()),
            false => Err(OUTSIDE),
        }
    }

    /// Whether own groups can be like this here.
    pub(crate) fn fits(&self, plan: &Plan) -> bool {
        self.children().is_none_or(|children| children.fits(plan))
    }

    /// The object of this name, if it is here, gets a group of its own.
    pub(crate) fn give_own_group(&mut self, slot: Slot, name: &[u8]) {
        self.send_away(slot, &[name], &Plan::plain());
    }

    fn create(&mut self, slot: Slot, names: &[Vec<u8>], plan: &Plan, value: &[u8]) -> Outcome {
        if let Err(refusal) = self.check_plan(plan) {
            return each(names, |_| Err(refusal.to_owned()));
        }
        let (time, Content::Objects(objects)) = (self.time.0, &mut self.content) else { return malformed() };
        let mut made = Vec::new();
        let mut lines = Vec::with_capacity(names.len());
        for name in names.iter().take(NAMES_MAX) {
            objects.expire(name, time);
            lines.push(if name.len() > NAME_BYTES_MAX {
                format!("ERR the key is longer than {NAME_BYTES_MAX} bytes")
            } else if objects.away(name).is_some() {
                "ERR the key has a group of its own already".into()
            } else if objects.encoded(name).is_some() {
                "ERR the key exists: QUORATE GROUP PROMOTE gives it a group of its own".into()
            } else {
                let set = Command::Set {
                    key: name,
                    value,
                    condition: Condition::IfAbsent,
                    expiry: Expiry::Unset,
                    answer: SetAnswer::Ok,
                };
                match objects.run_advanced(&set, time, 0) {
                    Outcome::Error(line) => line,
                    _ => {
                        made.push(&name[..]);
                        DONE.into()
                    }
                }
            });
        }
        self.send_away(slot, &made, plan);
        answer(lines)
    }

    /// No other begins once what is starting takes so many bytes.
    fn promote(&mut self, slot: Slot, names: &[Vec<u8>], plan: &Plan, starting_max: usize) -> Outcome {
        if let Err(refusal) = self.check_plan(plan) {
            return each(names, |_| Err(refusal.to_owned()));
        }
        let mut starting = self.children().map_or(0, |children| children.starting_bytes);
        let (time, Content::Objects(objects)) = (self.time.0, &mut self.content) else { return malformed() };
        let mut there = Vec::new();
        let mut lines = Vec::with_capacity(names.len());
        for name in names.iter().take(NAMES_MAX) {
            objects.expire(name, time);
            lines.push(if objects.away(name).is_some() {
                "ERR the key has a group of its own already".into()
            } else if let Some(object) = objects.encoded(name) {
                if plan.protocol.is_register() && !is_string(&object) {
                    NO_STRING.into()
                } else if starting >= starting_max {
                    STILL_CHANGING.into()
                } else {
                    starting += object.len();
                    there.push(&name[..]);
                    DONE.into()
                }
            } else {
                "ERR no such key".into()
            });
        }
        self.send_away(slot, &there, plan);
        answer(lines)
    }

    fn demote(&mut self, names: &[Vec<u8>]) -> Outcome {
        let mut lines = Vec::with_capacity(names.len());
        for name in names.iter().take(NAMES_MAX) {
            lines.push(match self.record_of(name) {
                None => "ERR the key has no group of its own".into(),
                // One that is to become another becomes one as they are made here.
                Some(record) if self.owns && !record.stopping => {
                    "ERR every key of this namespace has a group of its own".into()
                }
                Some(record) => {
                    self.begin_to_stop(name, Record { becomes: None, ..record });
                    DONE.to_string()
                }
            });
        }
        answer(lines)
    }

    fn retire(&mut self, number: u64, name: &[u8]) -> Outcome {
        // More than one member tells of it.
        if let Some(record) = self.record_of(name).filter(|record| record.number == number && !record.stopping) {
            self.begin_to_stop(name, record);
        }
        Outcome::Ok
    }

    pub(crate) fn begin_to_stop(&mut self, name: &[u8], record: Record) {
        let number = record.number;
        self.write_record(name, Record { stopping: true, ..record });
        self.children_mut().stopping.insert(number, name.to_vec());
        self.changes.get_or_insert_default().stopping.push(number);
    }

    /// An own group's record is another one.
    pub(crate) fn write_record(&mut self, name: &[u8], record: Record) {
        self.count_anew(self.record_of(name), Some(&record));
        if let Content::Objects(objects) = &mut self.content {
            objects.send_away(name, &record.encode());
            if record.led().is_some() {
                self.changes.get_or_insert_default().changed.push((name.to_vec(), record));
            }
        }
    }

    pub(crate) fn record_of(&self, name: &[u8]) -> Option<Record> {
        Record::decode(&self.objects()?.away(name)?).ok()
    }

    /// Changes who is in an own group, if that is still to be so.
    fn change_led(&mut self, number: u64, change: impl FnOnce(&mut GroupRecord) -> bool) -> Outcome {
        let name = self.children().and_then(|children| children.led.get(&number)).cloned();
        let Some((name, mut record)) = name.and_then(|name| self.record_of(&name).map(|record| (name, record))) else {
            return Outcome::Nil;
        };
        let is_changed = match &mut record.place {
            OwnRecord::Led { record: led, .. } => record.number == number && change(led),
            OwnRecord::Paxos { .. } => false,
        };
        if !is_changed {
            return Outcome::Nil;
        }
        self.write_record(&name, record);
        Outcome::Ok
    }

    /// What an own group had come to is the volume's again: the object, if there still is one, and what was executed on it.
    fn take_back(&mut self, slot: Slot, number: u64, state: &Frozen, last: Vec<u8>) -> Outcome {
        if state.object.is_some() && self.starts_too_much() && self.becomes_another(number) {
            return Outcome::Error(STILL_CHANGING.into());
        }
        let Some(name) = self.children.as_mut().and_then(|children| children.stopping.remove(&number)) else {
            // Somebody else has brought it.
            return Outcome::Nil;
        };
        let record = self.record_of(&name);
        self.count_anew(record.clone(), None);
        let becomes = record.and_then(|record| record.becoming(state.object.as_deref()));
        self.advance(state.time());
        if !planted::is(Planted::ReturnLosesResults) {
            self.results.merge(&decode_results(&state.results));
        }
        if let Content::Objects(objects) = &mut self.content {
            let put = state.object.as_ref().is_some_and(|object| objects.put_encoded(&name, object).is_ok());
            if !put {
                objects.remove_name(&name);
            }
            // It may have expired by the volume's time.
            objects.expire(&name, self.time.0);
        }
        if let Some(children) = &mut self.children {
            children.led.remove(&number);
            children.named.as_mut().and_then(|named| named.remove(&number));
        }
        let mut becomes_another = false;
        match becomes {
            Some(plan) => {
                self.send_away(slot, &[&name], &plan);
                becomes_another = self.record_of(&name).is_some();
            }
            None if self.owns => self.give_own_group(slot, &name),
            None => {}
        }
        self.changes.get_or_insert_default().deaths.push(Death { number, last, becomes_another });
        Outcome::Ok
    }

    /// Whether groups that are to become others have to wait for what is starting already.
    pub(crate) fn starts_too_much(&self) -> bool {
        self.children().is_some_and(|children| children.starting_bytes >= STARTING_BYTES_MAX)
    }

    fn becomes_another(&self, number: u64) -> bool {
        let name = self.children().and_then(|children| children.stopping.get(&number));
        name.and_then(|name| self.record_of(name)).is_some_and(|record| record.becomes.is_some())
    }

    /// Freezes these objects, as far as they are here, and puts records in their place.
    fn send_away(&mut self, slot: Slot, names: &[&[u8]], plan: &Plan) {
        let tags: BTreeSet<u32> = names.iter().map(|name| name_tag(Some(name))).collect();
        let results = self.results.of_names(&tags);
        let Content::Objects(objects) = &mut self.content else { return };
        let children = self.children.get_or_insert_with(|| Box::new(Children::none_yet()));
        for &name in names {
            let Some(object) = objects.encoded(name) else { continue };
            let number = children.take_number();
            let place = children.held.as_ref().map_or_else(|| plan.record(number), |held| held.place(plan, number));
            let record = Record::new(number, place);
            objects.send_away(name, &record.encode());
            let results = results.get(&name_tag(Some(name))).filter(|_| !planted::is(Planted::PromoteLosesResults));
            let state = match results {
                Some(results) => Frozen::new(self.time, Some(object), results),
                None => Frozen { time_ms: self.time.0, object: Some(object), results: Vec::new() },
            };
            let birth = Birth { name: name.to_vec(), record, state };
            children.begin(slot, &birth);
            self.changes.get_or_insert_default().births.push(birth);
        }
    }
}

/// A line for each of these names: whether what was asked for is done.
fn each<T>(asked: &[T], mut ask: impl FnMut(&T) -> Result<(), String>) -> Outcome {
    let line = |one: &T| ask(one).map_or_else(|refusal| refusal, |()| DONE.to_owned());
    answer(asked.iter().take(NAMES_MAX).map(line).collect())
}

fn answer(lines: Vec<String>) -> Outcome {
    Outcome::Keys(lines.into_iter().map(String::into_bytes).collect())
}

fn decode_results(bytes: &[u8]) -> Results {
    if bytes.is_empty() {
        return Results::default();
    }
    Results::decode(&mut Reader::new(bytes)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use quorate_object::Outcome;
    use quorate_protocol::id::{Content as ValueContent, Value};
    use quorate_protocol::{NodeId, Payload, Stamp};

    use super::*;
    use crate::envelope::{Envelope, NOTHING_SETTLED, Ticket};
    use crate::machine::{ReadAnswer, Verdict};
    use crate::quorum::Quorum;
    use crate::replica::Protocol;
    use crate::volume::{Renewed, rotated};

    struct Volume {
        machine: Machine,
        number: u64,
    }

    impl Volume {
        fn new(owns: bool) -> Volume {
            let mut machine = Machine::new(Content::Objects(Box::new(Objects::new([7; 16]))));
            machine.owns = owns;
            Volume { machine, number: 0 }
        }

        /// The verdict on a command in a slot of its own, under this ticket.
        fn run_as(&mut self, number: u64, write: impl FnOnce(&mut Vec<u8>)) -> Verdict {
            let mut payload = Vec::new();
            let ticket = Ticket { node: NodeId(1), start: 1, number };
            Envelope::encode(ticket, Stamp(5_000), 0, NOTHING_SETTLED, write, &mut payload);
            let content = ValueContent::Commands(Payload::from(&payload[..]));
            let mut verdicts = Vec::new();
            self.machine.apply(Slot(number), &Value { stamp: Stamp(100), seed: 1, content }, |_, verdict| {
                verdicts.push(verdict)
            });
            verdicts.pop().expect("one command")
        }

        fn run(&mut self, command: &Command<'_>) -> Verdict {
            self.number += 1;
            self.run_as(self.number, |out| command.encode(out))
        }

        fn own(&mut self, command: &VolumeCommand) -> Vec<String> {
            self.number += 1;
            match self.run_as(self.number, |out| command.encode(out)) {
                Verdict::Executed(Outcome::Keys(lines)) => {
                    lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
                }
                verdict => vec![format!("{verdict:?}")],
            }
        }

        fn births(&mut self) -> Vec<Birth> {
            self.machine.take_changes().map(|changes| changes.births).unwrap_or_default()
        }
    }

    const INCR: Command<'_> = Command::IncrBy { key: b"n", delta: 1 };

    fn names(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn promote(list: &[&str]) -> VolumeCommand {
        VolumeCommand::Promote { names: names(list), plan: Plan::plain() }
    }

    #[test]
    fn an_object_goes_with_what_was_executed_on_it_and_comes_back_with_more() {
        let mut volume = Volume::new(false);
        volume.run(&Command::IncrBy { key: b"other", delta: 1 });
        let counted = volume.number + 1;
        assert!(matches!(volume.run(&INCR), Verdict::Executed(Outcome::Int(1))));
        assert_eq!(volume.own(&promote(&["n", "nothing"])), ["OK", "ERR no such key"]);
        let [birth] = &volume.births()[..] else { panic!("one birth") };
        let mut own = Volume { machine: Machine::thawed([7; 16], &birth.name, &birth.state), number: 100 };
        assert!(matches!(own.run_as(counted, |out| INCR.encode(out)), Verdict::Again(Outcome::Int(1))));
        assert!(matches!(own.run(&INCR), Verdict::Executed(Outcome::Int(2))));
        assert!(matches!(volume.run(&INCR), Verdict::Away(_)));
        assert_eq!(own.machine.results().of_names(&[name_tag(Some(b"other"))].into()).len(), 0);

        let number = birth.record.number;
        assert_eq!(volume.own(&VolumeCommand::Demote { names: names(&["n"]) }), ["OK"]);
        let state = own.machine.freeze(b"n");
        volume.own(&VolumeCommand::Return { number, state: state.clone(), last: Vec::new() });
        assert_eq!(
            volume.machine.take_changes().map(|changes| changes.deaths),
            Some(vec![Death { number, last: Vec::new(), becomes_another: false }])
        );
        assert!(matches!(volume.run_as(101, |out| INCR.encode(out)), Verdict::Again(Outcome::Int(2))));
        assert!(matches!(volume.run(&INCR), Verdict::Executed(Outcome::Int(3))));
        // Somebody else brings it again.
        volume.own(&VolumeCommand::Return { number, state, last: Vec::new() });
        assert!(matches!(volume.run(&INCR), Verdict::Executed(Outcome::Int(4))));
    }

    #[test]
    fn a_group_begins_anew_once_as_it_was() {
        let mut volume = Volume::new(false);
        let quorum = Quorum::Threshold { read: 1, write: 3 };
        let (members, of_volume) = (Vec::new(), vec![1, 2, 3]);
        let plan = Plan { protocol: Protocol::Register, members, quorum, volume: 9, of_volume: of_volume.clone() };
        let create = VolumeCommand::Create { names: names(&["r"]), plan, value: b"1".to_vec() };
        assert_eq!(volume.own(&create), ["OK"]);
        let renewed = |number| Renewed { groups: vec![(number, b"r".to_vec())], volume: 9, of_volume: vec![1, 2, 3] };
        assert_eq!(volume.own(&VolumeCommand::Renew(renewed(2))), ["ERR the group is over"]);
        assert_eq!(volume.own(&VolumeCommand::Renew(renewed(1))), ["OK"]);
        assert_eq!(volume.own(&VolumeCommand::Renew(renewed(1))), ["ERR the group is over"], "it is ending");
        volume.births();
        let state = Frozen { object: plain_object(), ..Frozen::default() };
        volume.own(&VolumeCommand::Return { number: 1, state, last: Vec::new() });
        let [birth] = &volume.births()[..] else { panic!("one birth") };
        let led = birth.record.led().expect("a register");
        assert_eq!((birth.record.number, birth.record.protocol()), (2, Protocol::Register));
        assert_eq!((led.quorum(), led.members.clone()), (quorum, rotated(&of_volume, 2)));
        assert_eq!(volume.own(&VolumeCommand::Renew(renewed(1))), ["ERR the group is over"], "it is another one");
    }

    fn plain_object() -> Option<Vec<u8>> {
        let mut objects = Objects::new([7; 16]);
        let (condition, expiry, answer) = (Condition::Always, Expiry::Unset, SetAnswer::Ok);
        objects.run_advanced(&Command::Set { key: b"r", value: b"1", condition, expiry, answer }, 0, 0);
        objects.encoded(b"r")
    }

    #[test]
    fn who_has_no_replica_of_the_volume_is_told_what_there_is_of_its_groups() {
        let mut volume = Volume::new(false);
        let plan = Plan { members: vec![4, 5], ..Plan::plain() };
        let create = VolumeCommand::Create { names: names(&["a", "b"]), plan: plan.clone(), value: b"1".to_vec() };
        assert_eq!(volume.own(&create), ["OK", "OK"]);
        let slot = volume.number;
        let create = VolumeCommand::Create { names: names(&["plain"]), plan: Plan::plain(), value: b"1".to_vec() };
        assert_eq!(volume.own(&create), ["OK"]);
        let told = |machine: &Machine| {
            let mut tell = Vec::new();
            VolumeCommand::Tell { numbers: vec![2, 1, 3, 4] }.encode(&mut tell);
            let Some(ReadAnswer::Outcome(Outcome::Bulk(bytes))) = machine.read(&tell, Stamp(0)) else {
                panic!("words")
            };
            Word::decode_all(&bytes).expect("sound words")
        };
        let words = told(&volume.machine);
        let has_state = |word: &Word| matches!(word, Word::Lives { state: Some(state), .. } if state.object.is_some());
        assert!(words[..2].iter().all(|(_, word)| has_state(word)), "{words:?}");
        assert_eq!(words[2..], [(3, Word::Gone), (4, Word::Unborn)], "its members were not named");

        volume.own(&VolumeCommand::Complete { slots: vec![slot] });
        volume.own(&VolumeCommand::Demote { names: names(&["a"]) });
        let living = |name: &[u8]| Word::Lives { name: name.to_vec(), members: vec![4, 5], state: None };
        assert_eq!(told(&volume.machine)[..2], [(2, living(b"b")), (1, living(b"a"))], "it has not ended yet");
        volume.own(&VolumeCommand::Return { number: 1, state: Frozen::default(), last: Vec::new() });
        let words = told(&volume.machine);
        assert_eq!(words[..2], [(2, living(b"b")), (1, Word::Gone)]);
        volume.machine.children.as_mut().expect("it has some").named = None;
        assert_eq!(told(&volume.machine), words, "also before the names are known");
        volume.machine.keep_names();
        assert_eq!(told(&volume.machine), words);
    }

    #[test]
    fn what_is_told_at_once_is_bounded_and_never_nothing() {
        let large = || Word::Lives { name: vec![7; 1 << 20], members: vec![1], state: None };
        let words = Word::decode_all(&Word::encode_some((1..9).map(|number| (number, large())))).expect("sound words");
        assert_eq!(words, [(1, large())]);
        let gone = Word::encode_some((1..257).map(|number| (number, Word::Gone)));
        assert_eq!(Word::decode_all(&gone).map(|words| words.len()), Some(256));
        assert_eq!(Word::decode_all(&gone[..gone.len() - 1]), None);
    }

    #[test]
    fn what_is_deleted_leaves_nothing_but_what_was_executed() {
        let mut volume = Volume::new(false);
        let plan = Plan { members: vec![2], ..Plan::plain() };
        let create = VolumeCommand::Create { names: names(&["n"]), plan, value: b"1".to_vec() };
        assert_eq!(volume.own(&create), ["OK"]);
        assert!(volume.own(&create)[0].contains("group of its own already"));
        let [birth] = &volume.births()[..] else { panic!("one birth") };
        let (number, name) = (birth.record.number, birth.name.clone());
        volume.own(&VolumeCommand::Retire { number: number + 1, name: name.clone() });
        assert!(volume.machine.children().is_some_and(|children| children.stopping.is_empty()), "of another group");
        volume.own(&VolumeCommand::Retire { number, name });
        volume.own(&VolumeCommand::Return {
            number,
            state: Frozen { time_ms: 200, ..Frozen::default() },
            last: Vec::new(),
        });
        assert_eq!((volume.machine.objects().map(Objects::count), volume.machine.time()), (Some(0), Stamp(200)));
        assert!(matches!(volume.run(&INCR), Verdict::Executed(Outcome::Int(1))), "the name is free again");
        assert_eq!(volume.own(&promote(&["n"])), ["OK"]);
        assert!(volume.births()[0].record.number > number, "numbers are not used again");
    }

    #[test]
    fn a_copy_is_kept_until_it_is_not_needed() {
        let mut volume = Volume::new(true);
        volume.run(&INCR);
        let slot = volume.number;
        assert_eq!(volume.births().len(), 1, "every object has a group of its own");
        assert_eq!(volume.own(&VolumeCommand::Demote { names: names(&["n"]) }).len(), 1);
        assert!(volume.machine.children().is_some_and(|children| children.starting.contains_key(&slot)));
        volume.own(&VolumeCommand::Complete { slots: vec![slot] });
        assert!(volume.machine.children().is_some_and(Children::is_settled));
    }

    #[test]
    fn what_is_away_is_shown_and_left_when_the_rest_is_deleted() {
        let mut volume = Volume::new(false);
        volume.run(&INCR);
        volume.run(&Command::IncrBy { key: b"m", delta: 1 });
        volume.own(&promote(&["n"]));
        let mut show = Vec::new();
        VolumeCommand::Show { names: names(&["n", "m", "x"]) }.encode(&mut show);
        let Some(ReadAnswer::Outcome(Outcome::Keys(lines))) = volume.machine.read(&show, Stamp(0)) else {
            panic!("lines")
        };
        assert_eq!(Record::decode(&lines[0]).map(|record| record.number), Ok(1));
        assert_eq!((&lines[1][..], &lines[2][..]), (&b""[..], &b"ERR no such key"[..]));
        assert!(matches!(volume.run(&Command::Flush), Verdict::Executed(Outcome::Int(1))), "one is left");
        let mut list = Vec::new();
        VolumeCommand::ListOwn.encode(&mut list);
        let listed = |volume: &Volume| volume.machine.read(&list, Stamp(0));
        assert_eq!(listed(&volume), Some(ReadAnswer::Outcome(Outcome::Keys(names(&["n"])))));
        let Content::Objects(objects) = volume.machine.content_mut() else { panic!("objects") };
        objects.forget_changes();
        objects.swap_out(0, |_| true);
        assert_eq!(listed(&volume), Some(ReadAnswer::Swapped));
        let every = |pattern| Command::Keys { pattern };
        assert_eq!(volume.machine.read_objects(&every(b"*"), Stamp(0)), Some(ReadAnswer::Swapped));
        let Some(ReadAnswer::Away(record)) = volume.machine.read_objects(&Command::Get { key: b"n" }, Stamp(0)) else {
            panic!("its record is here")
        };
        assert_eq!(record, lines[0]);
    }
}
