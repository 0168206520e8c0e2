//! Performing a replica's effects, in their order.

use quorate_object::Outcome;
use quorate_protocol::chain::Chain;
use quorate_protocol::paxos::{self, Paxos};
use quorate_protocol::register::Register;
use quorate_protocol::wire::Wire;
use quorate_protocol::{After, Effect, Event, GroupId, NodeId, Proposal, Refusal, Value};
use quorate_wal::{Kind, RECORD_BYTES_MAX};

use super::Host;
use super::held::HeldAnswer;
use super::quarantine::{PanicIn, isolate, panic_as_planned};
use crate::changes::Done;
use crate::envelope::{Envelope, Ticket};
use crate::frame::{Bounce, DigestMessage, Message, Position, encode_replica, encode_reply};
use crate::group_state::GroupState;
use crate::machine::Verdict;
use crate::planted::{self, Planted};
use crate::replica::{AnyMessage, AnyMessageRef, Hosted, Protocol};
use crate::root::{Durability, ROOT};

impl Host {
    pub(super) fn perform(&mut self, index: u32) {
        self.perform_all::<Paxos>(index);
        self.perform_all::<Chain>(index);
        let is_register = !self.effects.register.list.is_empty();
        self.perform_all::<Register>(index);
        if is_register && self.groups.contains(index as usize) {
            self.note_succession(index);
            self.want_checkpoint(index);
            self.note_unstored(index);
        }
    }

    fn perform_all<R: Hosted>(&mut self, index: u32) {
        if R::effects_of(&mut self.effects).list.is_empty() {
            return;
        }
        let mut effects = std::mem::take(R::effects_of(&mut self.effects));
        for effect in &effects.list {
            match effect {
                Effect::Persist(record) => {
                    self.persist::<R>(index, record);
                    if self.is_given_up(index) {
                        break;
                    }
                }
                Effect::Send { to, message, after } => self.send(index, *to, R::any(message), *after),
                Effect::Decided { slot, value, acknowledgers } => {
                    let position = Position { slot: *slot, acknowledgers: *acknowledgers as u16 };
                    self.apply(index, position, value);
                    if self.is_given_up(index) {
                        break;
                    }
                }
                Effect::Readable { token } => {
                    self.answer_read(index, *token as u32);
                    if self.is_given_up(index) {
                        break;
                    }
                }
                Effect::Refused { proposal, why } => self.refuse(index, proposal, *why),
                Effect::Answered(answer) => self.take_register_answer(index, R::answer(answer.clone())),
                Effect::CatchUp { peer, from } => {
                    let group = self.groups[index as usize].id();
                    self.catch_ups.push((group, *peer, *from));
                }
            }
        }
        effects.list.clear();
        *R::effects_of(&mut self.effects) = effects;
    }

    pub(super) fn persist<R: Hosted>(&mut self, index: u32, record: &R::Record) {
        let group = &mut self.groups[index as usize];
        group.note_progress();
        self.scratch.clear();
        record.encode(&mut self.scratch);
        group.checkpoint.bytes += self.scratch.len() as u64;
        group.checkpoint.changed = true;
        // With another configuration, updates in flight may be void.
        let kind = R::kind_of(record, &mut group.replica);
        if kind == Kind::State {
            group.ahead = None;
        }
        if group.durability == Durability::Memory {
            return;
        }
        let length = self.scratch.len();
        if length > RECORD_BYTES_MAX {
            return self.quarantine(index, "logging a record", format!("a record of {length} bytes"));
        }
        self.wal.append(group.id().0, kind, &self.scratch);
        group.lsn = self.wal.appended();
    }

    /// Whether everything that the group persisted is on disk, if it is to be there at all.
    pub(super) fn is_on_disk(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        group.durability == Durability::Memory || group.lsn <= self.wal.durable()
    }

    /// Whether everything that the group persisted is as durable as its namespace asks before it speaks.
    pub(super) fn may_speak(&self, index: u32) -> bool {
        let group = &self.groups[index as usize];
        let durable = self.wal.durable();
        let kept = group.durability != Durability::Sync || group.lsn <= durable;
        kept && group.births_lsn <= durable || planted::is(Planted::DurableSentAtOnce)
    }

    fn send(&mut self, index: u32, to: NodeId, message: AnyMessageRef<'_>, after: After) {
        match message {
            AnyMessageRef::Paxos(paxos::Message::Busy { .. }) => self.counters.busy_sent += 1,
            AnyMessageRef::Paxos(paxos::Message::Confirm { .. }) => self.counters.confirm_rounds += 1,
            AnyMessageRef::Paxos(paxos::Message::HandOver { .. }) => self.note_handed_over(index, to),
            _ => {}
        }
        let wait = match after {
            After::Durable => !self.may_speak(index),
            // It may tell how far the volume has been executed here, which includes the births that this has led to.
            After::Now => self.groups[index as usize].births_lsn > self.wal.durable(),
        };
        let group = &self.groups[index as usize];
        // A silent replica executes what it recovered as decided. It is not to vote over that, nor over anything else.
        if !group.is_alive() {
            return;
        }
        let (id, epoch, lsn) = (group.id(), group.configuration.epoch, group.lsn.max(group.births_lsn));
        if to == self.settings.node {
            if wait {
                self.held.push_back((lsn, index, id, message.to_owned()));
            } else {
                self.plan(index, Event::Received { from: to, message: message.to_owned() });
            }
            return;
        }
        self.counters.messages_sent += 1;
        let referring = match message {
            AnyMessageRef::Paxos(full) => self.refer(id, epoch, to, full),
            AnyMessageRef::Chain(_) => None,
            AnyMessageRef::Register(message) => {
                self.counters.register_messages.note(&message.body);
                None
            }
        };
        let lane = if wait { self.outbox.lane_once_durable(to, lsn) } else { self.outbox.lane(to) };
        let Some(lane) = lane else { return };
        match referring {
            Some(accept) => Message::Digest(DigestMessage::Referring { group: id, epoch, accept }).encode(lane),
            None => encode_replica(id, epoch, message, lane),
        }
    }

    /// What waited for the disk goes on.
    pub(super) fn release_durable(&mut self) {
        let durable = self.wal.durable();
        self.finish_own_births();
        self.outbox.release(durable);
        while self.held.front().is_some_and(|(lsn, ..)| *lsn <= durable) {
            let Some((_, index, group, message)) = self.held.pop_front() else { break };
            if self.groups.get(index as usize).is_some_and(|found| found.id() == group) {
                let from = self.settings.node;
                match message {
                    AnyMessage::Paxos(message) => self.hear(index, from, message),
                    message => self.step_next(index, Event::Received { from, message }),
                }
            }
        }
    }

    /// Nothing more is said for a replica that was given up between two effects: what it had said and logged before is a
    /// past that it could have had.
    fn is_given_up(&self, index: u32) -> bool {
        self.groups.get(index as usize).is_none_or(|group| group.state == GroupState::Quarantined)
    }

    fn apply(&mut self, index: u32, position: Position, value: &Value) {
        let slot = position.slot;
        self.counters.slots_applied += 1;
        self.clock.follow(value.stamp);
        self.keep_unlogged(index, slot, value);
        let panics = self.take_planned_panic(index, PanicIn::Apply);
        let group = &mut self.groups[index as usize];
        group.note_progress();
        if self.settings.observe {
            self.executed.push((group.id(), slot, hash_of(value)));
        }
        let (coordinating, group_id) = (group.replica.answers(), group.id());
        let is_chain = group.replica.protocol() == Protocol::Chain;
        let (machine, mut verdicts) = (&mut group.machine, std::mem::take(&mut self.verdicts));
        let executed = isolate(|| {
            if panics {
                panic_as_planned();
            }
            let each = |ticket: Ticket, verdict| verdicts.push((ticket, verdict));
            match is_chain {
                true => machine.apply_changes(value, each),
                false => machine.apply(slot, value, each),
            }
        });
        if let Err(words) = executed {
            // Whoever takes over executes the slot again, and answers.
            return self.quarantine(index, "executing a slot", words);
        }
        debug_assert!(slot < group.replica.next_slot(), "{group_id:?} applies {slot:?} before it is passed");
        let is_object_gone = group.is_object_gone();
        self.discard_deleted(index);
        self.follow_changes(index, slot);
        self.watch_children(index);
        if !is_object_gone {
            self.release_answers(group_id);
        }
        for (ticket, verdict) in verdicts.drain(..) {
            self.counters.commands_applied += 1;
            self.counters.answered_from_window += u64::from(matches!(verdict, Verdict::Again(_)));
            self.counters.out_of_order += u64::from(matches!(verdict, Verdict::OutOfOrder));
            self.forget_executed(index, slot, ticket);
            // Of a command that was not executed, the coordinator tells: one that overtook is counted once.
            if coordinating || ticket.node == self.settings.node && verdict.is_executed() {
                self.tell_verdict(group_id, position, ticket, verdict, is_object_gone);
            }
        }
        self.verdicts = verdicts;
        self.arm_timers_after_apply(index);
        self.answer_due_reads(index);
        self.follow_own(index, value);
        if group_id == ROOT {
            self.follow_root();
        }
    }

    fn tell_verdict(
        &mut self,
        group: GroupId,
        position: Position,
        ticket: Ticket,
        verdict: Verdict,
        is_object_gone: bool,
    ) {
        let Ticket { node, start, number } = ticket;
        match verdict {
            Verdict::Executed(outcome) | Verdict::Again(outcome) if is_object_gone => {
                self.hold_answer(group, HeldAnswer { ticket, position, outcome, since: self.clock.now() });
            }
            Verdict::Executed(outcome) | Verdict::Again(outcome) => self.answer_ticket(ticket, position, outcome),
            Verdict::Away(record) if node != self.settings.node => {
                self.outbox
                    .send(node, &Message::Away { start, number, volume: group, slot: position.slot, record: &record });
            }
            Verdict::Away(record) if start == self.settings.start => {
                self.handle_away(number, group, position.slot, &record)
            }
            // An earlier start of this node asked.
            Verdict::Away(_) => {}
            Verdict::Expired => self.bounce(node, start, number, Bounce::Expired),
            Verdict::OutOfOrder => self.bounce(node, start, number, Bounce::OutOfOrder),
            Verdict::Full => self.bounce(node, start, number, Bounce::Uncertain { coordinator: None }),
        }
    }

    /// Answers a command that was executed here, or a read.
    pub(super) fn answer_ticket(&mut self, ticket: Ticket, position: Position, outcome: Outcome) {
        let Ticket { node, start, number } = ticket;
        if node != self.settings.node {
            if let Some(lane) = self.outbox.lane(node) {
                encode_reply(start, number, position, &outcome, lane);
            }
        } else if start == self.settings.start {
            self.complete_at(number, position, outcome);
        }
    }

    fn refuse(&mut self, index: u32, proposal: &Proposal, why: Refusal) {
        let bounce = match why {
            Refusal::NotCoordinator { coordinator } => Bounce::NotCoordinator { coordinator },
            Refusal::Uncertain { coordinator } => {
                self.counters.uncertain += 1;
                Bounce::Uncertain { coordinator }
            }
            Refusal::Stopped => Bounce::Stopped,
            Refusal::Overloaded => Bounce::Overloaded,
        };
        let is_chain = self.groups[index as usize].replica.protocol() == Protocol::Chain;
        match proposal {
            // What is refused before it is executed is still commands.
            Proposal::Commands(payload) if is_chain && matches!(why, Refusal::Uncertain { .. }) => {
                let mut bytes: &[u8] = payload;
                while let Ok(Some(done)) = Done::take(&mut bytes) {
                    let ticket = done.ticket;
                    self.bounce(ticket.node, ticket.start, ticket.number, bounce);
                }
            }
            Proposal::Commands(payload) | Proposal::Stop(payload) => {
                let mut bytes: &[u8] = payload;
                while let Some(envelope) = Envelope::take(&mut bytes) {
                    let ticket = envelope.ticket;
                    self.forget_in_hand(index, ticket);
                    self.bounce(ticket.node, ticket.start, ticket.number, bounce);
                }
            }
            Proposal::Read { token, .. } => self.bounce_read(*token as u32, bounce),
            // Reads that wait for this mark ask whoever coordinates now.
            Proposal::Mark => self.bounce_due_reads(index, bounce),
            Proposal::HandOver { .. } => {}
        }
    }
}

fn hash_of(value: &Value) -> u64 {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
