//! The entry node's part: finding the group, sending the command to its coordinator, and again until it is answered.

use quorate_object::{Command, NAME_BYTES_MAX, Outcome};
use quorate_protocol::router::SessionId;
use quorate_protocol::{NodeId, Stamp};

use super::flush::holds_registers;
use super::retries::RETRY_US;
use super::routes::{NoRoute, Route};
use super::{Host, Submission, access_of};
use crate::answer::{Answer, Failure};
use crate::entry::{Operation, Operations, Purpose, Target};
use crate::envelope::{ENVELOPE_BYTES_MAX, Envelope, NOTHING_SETTLED, Ticket};
use crate::frame::{Access, Bounce, Message, Position, RouterMessage};
use crate::own_place::OwnPlace;
use crate::planted::{self, Planted};
use crate::register::{NO_TRANSACTIONS, NOT_IN_ONE_STEP, STRINGS_ONLY, is_for_registers};
use crate::root::Reads;
use crate::volume::VolumeCommand;

/// Numbers of the node's own operations have this bit.
pub(super) const INTERNAL: u64 = 1 << 63;

impl Host {
    /// Takes a client's operation; its answer comes with [`Host::take_answers`], now or within the time-out.
    pub fn submit(&mut self, submission: Submission<'_>) {
        let number = submission.number;
        if self.clients.is_full() {
            return self.answers.push((number, Answer::Failed(Failure::Overloaded)));
        }
        if self.out_of_memory && submission.command.growth_bytes_max().is_some() {
            return self.answers.push((number, Answer::Failed(Failure::OutOfMemory)));
        }
        let reads = match submission.target {
            Target::Slot { namespace, .. } | Target::Volume { namespace, .. } => {
                self.directory.namespace(namespace).map_or(Reads::Lease, |namespace| namespace.settings.reads)
            }
            Target::Root => Reads::Lease,
        };
        if submission.command.key().is_some_and(|key| key.len() > NAME_BYTES_MAX) {
            let refusal = format!("ERR the key is longer than {NAME_BYTES_MAX} bytes");
            return self.answers.push((number, Answer::Outcome(Outcome::Error(refusal))));
        }
        let access = access_of(submission.command, reads);
        if self.is_register(submission.target) && !is_for_registers(submission.command) {
            let refusal = match (submission.command, submission.target) {
                (Command::Flush, Target::Volume { namespace, .. }) => holds_registers(namespace),
                (Command::Transaction(_), _) => NO_TRANSACTIONS.to_owned(),
                (Command::Elements { .. }, _) => STRINGS_ONLY.to_owned(),
                _ => NOT_IN_ONE_STEP.to_owned(),
            };
            return self.answers.push((number, Answer::Outcome(Outcome::Error(refusal))));
        }
        self.note_demand_of_client(&submission);
        if access != Access::Write && self.read_at_once(&submission, reads) {
            return;
        }
        if let (Command::Flush, Target::Volume { namespace, index }) = (submission.command, submission.target) {
            return self.submit_flush(number, namespace, index);
        }
        let predecessor = submission.predecessor.unwrap_or(0);
        let command = |out: &mut Vec<u8>| submission.command.encode(out);
        let own = self.find_own(submission.target, submission.command.key());
        self.open_operation(number, submission.target, own, access, predecessor, Purpose::Client, command);
    }

    /// Begins an operation of the node's own on the root.
    pub(super) fn submit_to_root(&mut self, command: &crate::root::RootCommand, purpose: Purpose) {
        let number = self.internals.number_next();
        let access = match command {
            crate::root::RootCommand::Read { .. } => Access::ReadLease,
            _ => Access::Write,
        };
        self.open_operation(number, Target::Root, None, access, 0, purpose, |out| command.encode(out));
    }

    /// Begins an operation of the node's own on a volume.
    pub(super) fn submit_to_volume(&mut self, target: Target, command: &VolumeCommand, purpose: Purpose) {
        let number = self.internals.number_next();
        let access = if command.is_read() { Access::ReadLease } else { Access::Write };
        self.open_operation(number, target, None, access, 0, purpose, |out| command.encode(out));
    }

    #[expect(clippy::too_many_arguments, reason = "each is said once, here")]
    pub(super) fn open_operation(
        &mut self,
        number: u64,
        target: Target,
        own: Option<Box<OwnPlace>>,
        access: Access,
        predecessor: u64,
        purpose: Purpose,
        command: impl FnOnce(&mut Vec<u8>),
    ) {
        let ticket = Ticket { node: self.settings.node, start: self.settings.start, number };
        let sent_at = self.clock.now();
        let give_up_at = sent_at.after_us(self.settings.timeout_ms * 1000);
        let mut parked = false;
        let in_turn = self.is_in_turn(target, own.as_deref());
        if let Some(before) = self.operations(number).find_mut(predecessor) {
            before.successor = Some(number);
            parked = before.parked || in_turn || access.waits_for(before.access);
        }
        let operations = self.operations(number);
        let mut envelope = operations.buffer();
        let settled = u32::try_from(number - operations.oldest().unwrap_or(number)).unwrap_or(NOTHING_SETTLED);
        Envelope::encode(ticket, Stamp(0), 0, settled, command, &mut envelope);
        if envelope.len() > ENVELOPE_BYTES_MAX {
            let refusal = format!("ERR the command is larger than {ENVELOPE_BYTES_MAX} bytes");
            return self.give(number, purpose, Answer::Outcome(Outcome::Error(refusal)));
        }
        let unsent = Operation::unsent(number, target, access, envelope, purpose);
        operations.insert(Operation { own, in_turn, give_up_at, predecessor, parked, sent_at, ..unsent });
        if !parked {
            self.dispatch(number);
        }
    }

    pub(super) fn operations(&mut self, number: u64) -> &mut Operations {
        if number & INTERNAL != 0 { &mut self.internals } else { &mut self.clients }
    }

    pub(super) fn operations_of(&self, number: u64) -> &Operations {
        if number & INTERNAL != 0 { &self.internals } else { &self.clients }
    }

    /// Sends an operation to where it must go, as far as this node knows.
    pub(super) fn dispatch(&mut self, number: u64) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        if operation.parked {
            return;
        }
        let (target, access, predecessor) = (operation.target, operation.access, operation.predecessor);
        let purpose = operation.purpose;
        let at_large = operation.copies_at_large > 0;
        // Once: if that leads nowhere, what is believed here may be better by then.
        let told = operation.told.take();
        let (bound, was_sent_to) = (operation.bound_to, operation.was_sent_to);
        let is_register = |own: &OwnPlace| own.protocol.is_register();
        // What was perhaps executed in order, no register is asked as well: the volume knows.
        let by_volume = at_large && bound.is_none() && access == Access::Write;
        let own = operation.own.clone().filter(|own| !(by_volume && is_register(own)));
        let in_turn = self.is_in_turn(target, own.as_deref());
        match self.route_for(access, target, own.as_deref(), told, bound) {
            // A member of a register group that has ended may have carried it out.
            Ok(route)
                if bound.is_some() && was_sent_to != Some(route.group) && !planted::is(Planted::OwnRegisterUnbound) =>
            {
                self.complete(number, Answer::Failed(Failure::Timeout));
            }
            // The namespace was dropped and made anew since: what is meant is gone.
            Ok(route) if purpose.volume().is_some_and(|volume| volume != route.group) => {
                self.complete(number, Answer::Failed(Failure::NoNamespace));
            }
            // The first copy gets its deadline now. From a wrong clock it would have passed long ago, or bind the members
            // for ever. Whoever hears nobody does not know its clock to be right either, but that is not what it lacks.
            Ok(_) if self.clock_off => {
                if let Some(operation) = self.operations(number).find_mut(number) {
                    operation.told = told;
                }
                self.retry_later(number);
            }
            Ok(route) => {
                let unanswered = predecessor != 0 && self.operations(number).contains(predecessor);
                let (now, stamp) = (self.clock.now(), self.clock.stamp());
                let must_wait = unanswered && in_turn;
                let Some(operation) = self.operations(number).find_mut(number) else { return };
                // Its object was put into a register since the operation came, or the namespace made anew.
                if must_wait {
                    (operation.in_turn, operation.parked) = (true, true);
                    return;
                }
                let is_first = operation.attempts == 0;
                let may_be_routed = is_first && own.is_none() && access == Access::ReadLease;
                let reader = if may_be_routed { self.reader(number, target, &route) } else { None };
                let session = if own.is_none() { self.session_of(number, target, &route) } else { None };
                let Some(operation) = self.operations(number).find_mut(number) else { return };
                operation.set_predecessor(unanswered);
                operation.set_deadline_once(now, stamp);
                operation.sent_to = Some(reader.map_or(route.coordinator, |reader| reader.node));
                operation.routed_read = reader;
                operation.bound_to = route.binds.then_some((route.coordinator, route.epoch.0));
                operation.has_moved |= operation.was_sent_to.is_some_and(|group| group != route.group);
                operation.was_sent_to = Some(route.group);
                operation.sent_at = now;
                operation.copies_at_large += 1;
                operation.attempts = operation.attempts.saturating_add(1);
                let was_asked_anew = operation.is_asked_anew;
                let envelope = std::mem::take(&mut operation.envelope);
                if is_first {
                    self.spread_body(target, own.as_deref(), &route, access, &envelope);
                }
                match reader {
                    Some(reader) => self.send_routed_read(&route, reader, &envelope),
                    None => self.send_request(&route, access, session, &envelope),
                }
                let operations = self.operations(number);
                match operations.find_mut(number) {
                    Some(operation) => {
                        operation.envelope = envelope;
                        if operation.is_asked_anew && !was_asked_anew {
                            self.ask_anew(number);
                        }
                    }
                    // It was a local one, and is answered already.
                    None => operations.recycle(envelope),
                }
            }
            Err(NoRoute::Loading | NoRoute::Changing) => {
                self.look_again(number);
                self.retry_later(number);
            }
            Err(NoRoute::Lost) => self.complete(number, Answer::Failed(Failure::Timeout)),
            Err(NoRoute::NoQuorum)
                if own.as_deref().is_some_and(|own| self.may_have_left(number, target, own.group)) =>
            {
                self.go_by_volume(number);
                self.retry_after(number, 0);
            }
            Err(NoRoute::NoNamespace) => self.complete(number, Answer::Failed(Failure::NoNamespace)),
            Err(NoRoute::NoQuorum) if !at_large => {
                if let Some(own) = own {
                    self.note_place_confirmed(number, own.group);
                }
                self.complete(number, Answer::Failed(Failure::NoQuorum));
            }
            // Nobody can say that it was not executed: wait for a quorum, or for the deadline.
            Err(NoRoute::NoQuorum) => {
                self.look_again(number);
                self.retry_later(number);
            }
        }
    }

    fn send_request(&mut self, route: &Route, access: Access, session: Option<SessionId>, envelope: &[u8]) {
        let &Route { group, epoch, coordinator, .. } = route;
        if coordinator == self.settings.node {
            self.handle_request(coordinator, group, epoch, access, None, envelope);
            self.run();
        } else {
            let message = match session {
                Some(session) => Message::Router(RouterMessage::Request { group, epoch, access, session, envelope }),
                None => Message::Request { group, epoch, access, envelope },
            };
            self.outbox.send(coordinator, &message);
        }
    }

    pub(super) fn handle_reply(&mut self, start: u32, number: u64, position: Position, outcome: &[u8]) {
        if start != self.settings.start {
            return;
        }
        match Outcome::decode(outcome) {
            Ok(outcome) => self.complete_at(number, position, outcome),
            Err(_) => self.counters.nonsense += 1,
        }
    }

    pub(super) fn handle_bounced(&mut self, from: NodeId, start: u32, number: u64, why: Bounce) {
        if start != self.settings.start {
            return;
        }
        let Some(operation) = self.operations(number).find_mut(number) else {
            return self.terms.settle(number);
        };
        // Two coordinators, one after the other, may both tell of one copy that it overtook.
        if !matches!(why, Bounce::Uncertain { .. } | Bounce::Expired | Bounce::OutOfOrder) {
            operation.copies_at_large = operation.copies_at_large.saturating_sub(1);
            if operation.copies_at_large == 0 {
                operation.bound_to = None;
            }
        }
        if operation.routed_read.is_some_and(|read| read.node == from) {
            return self.handle_read_refused(from, number);
        }
        operation.is_overload = why == Bounce::Overloaded;
        let at_large = operation.copies_at_large > 0;
        let (predecessor, target, is_own) = (operation.predecessor, operation.target, operation.own.is_some());
        let was_sent_to = operation.was_sent_to;
        if let Bounce::NotCoordinator { coordinator } | Bounce::Uncertain { coordinator } = why {
            operation.told = coordinator.filter(|&node| node != from);
        }
        match why {
            Bounce::Expired => self.complete(number, Answer::Failed(Failure::Timeout)),
            Bounce::NotCoordinator { coordinator } | Bounce::Uncertain { coordinator } => {
                // Nobody else tells that one, who would wait for this node for ever.
                if let Some(group) = was_sent_to.filter(|_| coordinator == Some(self.settings.node)) {
                    self.tell_if_silent(group);
                }
                if let Some(node) = coordinator.filter(|&node| node != from && !is_own) {
                    self.directory.set_hint(target, node);
                }
                self.look_again(number);
                self.retry_later(number);
            }
            Bounce::UnknownGroup if self.ask_another(number, from) => self.retry_after(number, 0),
            Bounce::Stopped if is_own => self.retry_anew(number),
            Bounce::UnknownGroup if is_own => {
                self.go_by_volume(number);
                self.retry_after(number, 0);
            }
            Bounce::NotBelieved | Bounce::Silent if is_own => {
                self.ask_next_member(number, from);
                self.retry_later(number);
            }
            Bounce::UnknownGroup => {
                self.meet_unknown_group();
                self.directory.distrust(target, from);
                self.retry_later(number);
            }
            Bounce::OutOfOrder => {
                // Copies of it may be on their way; if it is lost, it goes again before this one.
                self.retry_after(predecessor, RETRY_US);
                self.retry_later(number);
            }
            Bounce::NotBelieved | Bounce::Silent => {
                self.directory.distrust(target, from);
                self.retry_later(number);
            }
            // Of a copy that was sent before, nobody can say yet that it was not executed.
            Bounce::OutOfMemory if !at_large => self.complete(number, Answer::Failed(Failure::OutOfMemory)),
            Bounce::OutOfMemory | Bounce::Overloaded | Bounce::Stopped => self.retry_later(number),
        }
    }

    /// Any member of a register answers for it, and one may be there later than the others. False if it is time to ask the
    /// volume.
    fn ask_another(&mut self, number: u64, from: NodeId) -> bool {
        self.look_again(number);
        let Some(operation) = self.operations(number).find_mut(number) else { return false };
        let count = operation.own.as_ref().filter(|own| own.protocol.is_register()).map_or(0, |own| own.members.len());
        let is_tried = (operation.attempts as usize).is_multiple_of(count + 1);
        if count < 2 || is_tried {
            return false;
        }
        self.ask_next_member(number, from);
        true
    }

    /// The own group's member that was asked neither votes nor serves.
    pub(super) fn ask_next_member(&mut self, number: u64, from: NodeId) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        let members = operation.own.as_ref().map_or(&[][..], |own| &own.members);
        let at = members.iter().position(|&member| member == from);
        operation.told = at.map(|at| members[(at + 1) % members.len()]);
    }

    pub(super) fn fail_overdue(&mut self) {
        let now = self.clock.now();
        while let Some(number) = self.clients.overdue(now).or_else(|| self.internals.overdue(now)) {
            let operation = self.operations(number).find_mut(number);
            let at_large = operation.is_some_and(|operation| operation.copies_at_large > 0);
            let is_overload = self.operations(number).find_mut(number).is_some_and(|operation| operation.is_overload);
            let loading = self.directory.state().is_none();
            let failure = match (at_large, loading) {
                (true, _) => Failure::Timeout,
                (false, true) => Failure::Loading,
                (false, false) if self.is_clock_known_off() => Failure::ClockOff,
                (false, false) if self.is_clock_off() => Failure::ClockUnknown,
                (false, false) if is_overload => Failure::Overloaded,
                (false, false) => Failure::NoQuorum,
            };
            self.complete(number, Answer::Failed(failure));
        }
    }

    /// An operation was executed, or a read answered, at this slot.
    pub(super) fn complete_at(&mut self, number: u64, position: Position, outcome: Outcome) {
        let slot = position.slot;
        if self.is_out_of_order(number, slot) || self.is_refused_for_now(number, &outcome) {
            return;
        }
        self.end_routed_write(number, position);
        self.bind_successor(number, slot);
        self.note_told(number, slot);
        self.complete(number, Answer::Outcome(outcome));
    }

    /// Puts a client's answer where the environment takes it, and counts what it keeps until then.
    pub(super) fn answer(&mut self, number: u64, answer: Answer) {
        if let Answer::Outcome(outcome) = &answer {
            self.answer_bytes += outcome.heap_bytes();
        }
        self.note_size(number, &answer);
        self.answers.push((number, answer));
    }

    /// An operation has its answer. Later answers to it find nothing.
    pub(super) fn complete(&mut self, number: u64, answer: Answer) {
        let Some(operation) = self.operations(number).take(number) else {
            self.counters.answered_again += 1;
            self.terms.settle(number);
            return;
        };
        if let Some(write) = operation.routed_write {
            self.lose_routed_write(write);
        }
        let may_come_later = operation.was_bound && answer == Answer::Failed(Failure::Timeout);
        if may_come_later {
            self.refuse_behind(operation.successor);
        } else if let Some(successor) = operation.successor {
            // What failed leaves a gap in its connection's order, which the next one must not slip through.
            let unanswered =
                matches!(answer, Answer::Failed(_)) && self.operations(number).contains(operation.predecessor);
            if unanswered {
                self.close_gap(operation.predecessor, successor);
            } else {
                self.unpark(successor);
            }
            // What this one would have to be as new as, that one has to be.
            if let Some(successor) = self.operations(number).find_mut(successor).filter(|_| operation.follows) {
                successor.is_doubtful |= matches!(answer, Answer::Failed(_)) && successor.was_sent_to.is_some();
            }
        }
        self.give(number, operation.purpose, answer);
    }

    /// Gives the answer to whoever wanted it.
    fn give(&mut self, number: u64, purpose: Purpose, answer: Answer) {
        match purpose {
            Purpose::Client => self.answer(number, answer),
            Purpose::Directory => self.take_directory(answer),
            Purpose::Admin { operation } => self.finish_admin(operation, answer),
            Purpose::Settling | Purpose::OfVolume { .. } => {}
            Purpose::Placing => self.note_placed(),
            Purpose::Renewed { volume } => self.take_renewed(volume),
            Purpose::Shunned { removal, volume } => self.take_shunned(removal, volume, &answer),
            Purpose::MovedOff { volume } => self.take_moved_off(volume, &answer),
            Purpose::Returned { group } => self.take_returned(group, &answer),
            Purpose::Words { volume } => self.take_words(volume, answer),
            Purpose::Flush { operation, namespace, volume } => {
                self.take_flushed(operation, namespace, volume, answer);
            }
            Purpose::FlushedNames { flush } => self.take_flushed_names(flush, answer),
            Purpose::FlushedName { flush } => self.take_deleted(flush, answer),
            Purpose::Batch { batch, part } => self.take_part(batch, part, answer),
            Purpose::Type { batch, at } => self.take_type(batch, at, &answer),
            Purpose::Again { operation } => {
                self.doubt_successor(operation);
                self.complete(operation, answer);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use quorate_checkpoint::MemoryStore;
    use quorate_object::{Command, Condition, Expiry, SetAnswer};
    use quorate_protocol::{GroupId, Instant, Slot};
    use quorate_wal::memory::MemoryStorage;

    use super::*;
    use crate::clock::Moment;
    use crate::host::three_nodes::settings;
    use crate::host::{Group, HostSettings};
    use crate::root::{ROOT, Settings};
    use crate::volume::volume_of;
    use crate::volume::{OwnRecord, Record};

    /// The first node of so many, before it has heard of another. One of three knows no directory, so that what is
    /// submitted waits.
    pub(in crate::host) fn first_of(count: u32) -> Host {
        let settings = HostSettings {
            defaults: Settings { replicas: 1, volumes: 1, ..Settings::default() },
            log: quorate_wal::Settings { segment_bytes: 256 * 1024, ..quorate_wal::Settings::new(7) },
            checkpoint_bytes: 64 * 1024,
            checkpoint_slots: 100,
            encoded_at_once_max: 1 << 20,
            saved_per_turn: 100,
            observe: false,
            ..settings(NodeId(1), count)
        };
        let moment = Moment { now: Instant(1_000_000), wall: Stamp(1_700_000_000_000) };
        let (host, _) = Host::open(settings, &MemoryStorage::default(), &MemoryStore::default(), moment).unwrap();
        host
    }

    fn submit_set(host: &mut Host, number: u64, predecessor: Option<u64>) {
        let command = Command::Set {
            key: b"key",
            value: b"value",
            condition: Condition::Always,
            expiry: Expiry::Unset,
            answer: SetAnswer::Ok,
        };
        host.submit(Submission {
            number,
            predecessor,
            target: Target::Slot { namespace: 0, slot: 0 },
            command: &command,
        });
    }

    /// Lets a node that is its whole cluster come to know itself.
    pub(in crate::host) fn settle(host: &mut Host) {
        let mut storage = MemoryStorage::default();
        for turn in 0..100 {
            host.begin(Moment { now: Instant(1_000_000 + turn * 10_000), wall: Stamp(1_700_000_000_000 + turn * 10) });
            host.end(&storage);
            if let Some(submission) = host.log_mut().submit() {
                submission.perform(&mut storage).unwrap();
                host.flushed(submission.lsn);
            }
            for (number, _) in host.take_batches() {
                host.stored(number);
            }
        }
    }

    fn submit_get(host: &mut Host, number: u64, predecessor: Option<u64>) {
        let target = Target::Slot { namespace: 0, slot: 0 };
        host.submit(Submission { number, predecessor, target, command: &Command::Get { key: b"key" } });
    }

    #[test]
    fn a_doubtful_read_that_is_answered_while_it_is_sent_is_asked_anew() {
        let mut host = first_of(1);
        settle(&mut host);
        submit_set(&mut host, 1, None);
        submit_get(&mut host, 2, Some(1));
        host.clients.find_mut(2).expect("it waits for the write").is_doubtful = true;
        settle(&mut host);
        let mut answers = Vec::new();
        host.take_answers(&mut answers);
        let value = Outcome::Bulk(b"value".to_vec());
        assert_eq!(answers, [(1, Answer::Outcome(Outcome::Ok)), (2, Answer::Outcome(value))]);
    }

    #[test]
    fn a_write_that_its_volume_may_have_executed_is_not_asked_of_a_register() {
        let mut host = first_of(1);
        settle(&mut host);
        let words: Vec<Vec<u8>> =
            ["GROUP", "CREATE", "key", "PROTOCOL", "register"].iter().map(|word| word.as_bytes().to_vec()).collect();
        host.submit_admin(1, 0, &words);
        settle(&mut host);
        let volume = host.groups().map(Group::id).find(|group| *group != ROOT && volume_of(*group).is_none());
        let sent_to = |host: &mut Host, number| host.clients.find_mut(number).and_then(|open| open.was_sent_to);
        submit_set(&mut host, 2, None);
        assert!(sent_to(&mut host, 2).is_some_and(|group| volume_of(group).is_some()), "to the register");
        submit_set(&mut host, 3, Some(2));
        let operation = host.clients.find_mut(3).expect("it waits for the one before it");
        (operation.copies_at_large, operation.parked, operation.predecessor) = (1, false, 0);
        host.dispatch(3);
        assert_eq!(sent_to(&mut host, 3), volume);
    }

    /// The numbers of the commands that are to share the next slot.
    fn gathered(host: &Host) -> Vec<u64> {
        let mut numbers = Vec::new();
        for group in host.groups() {
            let mut rest = &group.gathered[..];
            while let Some(envelope) = Envelope::take(&mut rest) {
                numbers.push(envelope.ticket.number);
            }
        }
        numbers
    }

    #[test]
    fn what_waits_for_an_operation_goes_again_with_it() {
        let mut host = first_of(1);
        settle(&mut host);
        for number in 1..=1000 {
            submit_set(&mut host, number, (number > 1).then(|| number - 1));
        }
        let first: Vec<u64> = (1..=1000).collect();
        assert_eq!(gathered(&host), first);
        for number in 3..=1000 {
            host.handle_bounced(NodeId(1), 1, number, Bounce::OutOfOrder);
        }
        host.retry(2);
        assert_eq!(gathered(&host), first, "its time has not come");
        host.begin(Moment { now: Instant(2_000_000 + RETRY_US), wall: Stamp(1_700_000_001_010) });
        host.retry(2);
        let again: Vec<u64> = (1..=1000).chain(2..=1000).collect();
        assert_eq!(gathered(&host), again);
        host.retry(500);
        assert_eq!(gathered(&host), again, "it went with the one before it");
    }

    #[test]
    fn what_cannot_be_sent_is_tried_again_by_itself() {
        let mut host = first_of(3);
        for number in 1..=1000 {
            submit_set(&mut host, number, (number > 1).then(|| number - 1));
        }
        for turn in 1..200 {
            let at = Moment { now: Instant(1_000_000 + turn * 10_000), wall: Stamp(1_700_000_000_000 + turn * 10) };
            host.begin(at);
            host.end(&MemoryStorage::default());
            assert!(host.timers.count() < 4_000, "timers pile up");
        }
    }

    #[test]
    fn what_waits_for_a_write_of_unknown_outcome_to_a_register_is_refused() {
        let answers = |why| {
            let mut host = first_of(3);
            for number in 1..=4 {
                submit_set(&mut host, number, (number > 1).then(|| number - 1));
            }
            host.clients.find_mut(2).expect("it waits").bound_to = Some((NodeId(2), 1));
            host.complete(2, Answer::Failed(why));
            let mut answers = Vec::new();
            host.take_answers(&mut answers);
            let mut numbers: Vec<u64> = answers.into_iter().map(|(number, _)| number).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(answers(Failure::Timeout), [2, 3, 4]);
        assert_eq!(answers(Failure::NoQuorum), [2], "it was not executed");
    }

    #[test]
    fn an_answer_on_its_way_is_doubted_once_the_read_before_it_was_asked_anew() {
        let mut host = first_of(3);
        submit_set(&mut host, 1, None);
        submit_set(&mut host, 2, Some(1));
        host.clients.find_mut(1).expect("it waits").successor = Some(2);
        host.ask_anew(1);
        let asked = |host: &mut Host, number| {
            let purpose = host.internals.find_mut(number).map(|operation| operation.purpose);
            purpose == Some(Purpose::Again { operation: 1 })
        };
        let next = host.internals.number_next();
        let again = (next.saturating_sub(8)..next).find(|&number| asked(&mut host, number)).expect("it is asked again");
        host.complete(again, Answer::Outcome(Outcome::Nil));
        assert!(!host.clients.contains(1));
        assert!(host.clients.find_mut(2).expect("it waits").is_doubtful);
    }

    #[test]
    fn what_a_failed_read_had_to_be_as_new_as_the_next_one_has_to_be() {
        let is_doubtful = |follows: Slot| {
            let mut host = first_of(3);
            submit_get(&mut host, 1, None);
            submit_get(&mut host, 2, Some(1));
            let first = host.clients.find_mut(1).expect("it waits");
            (first.successor, first.not_before) = (Some(2), follows);
            host.clients.find_mut(2).expect("it waits").was_sent_to = Some(GroupId(7));
            host.complete(1, Answer::Failed(Failure::Timeout));
            host.clients.find_mut(2).map(|operation| operation.is_doubtful)
        };
        assert_eq!((is_doubtful(Slot(100)), is_doubtful(Slot(0))), (Some(true), Some(false)));
    }

    #[test]
    fn a_copy_that_two_coordinators_tell_of_counts_once() {
        let mut host = first_of(3);
        submit_set(&mut host, 1, None);
        let record = Record::new(1, OwnRecord::Paxos { members: Vec::new() }).encode();
        for _ in 0..2 {
            // A copy that was sent to the volume at first, and one that is in the own group's hands then.
            host.clients.find_mut(1).expect("it waits").copies_at_large = 1;
            host.handle_away(1, GroupId(2), Slot(7), &record);
        }
        assert_eq!(host.clients.find_mut(1).map(|operation| operation.copies_at_large), Some(1));
        host.handle_away(1, GroupId(2), Slot(8), &record);
        assert_eq!(host.clients.find_mut(1).map(|operation| operation.copies_at_large), Some(0), "another copy");
    }

    #[test]
    fn a_failed_write_leaves_no_gap_in_the_order_of_its_connection() {
        let mut host = first_of(3);
        for number in 1..=4 {
            submit_set(&mut host, number, (number > 1).then(|| number - 1));
        }
        host.handle_bounced(NodeId(2), 1, 3, Bounce::Expired);
        host.handle_bounced(NodeId(2), 1, 2, Bounce::Expired);
        assert_eq!(host.clients.find_mut(4).map(|operation| operation.predecessor), Some(1));
        assert_eq!(host.clients.find_mut(1).and_then(|operation| operation.successor), Some(4));
        host.handle_bounced(NodeId(2), 1, 1, Bounce::Expired);
        assert!(!host.clients.contains(1), "there is nothing left to wait for");
    }
}

#[cfg(test)]
mod transactions;
