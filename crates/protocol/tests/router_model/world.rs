//! Everything around [`Router`] and [`Sessions`], with as little in it as can go wrong: routers with the operations that enter
//! there, members that execute one sequence of writes, one of them the coordinator, and the messages between them.
//!
//! Consensus is taken for granted. What it leaves to a router is modelled: who coordinates may change at any moment, as when a
//! lease is given back, and an election may find what an earlier coordinator had proposed and nobody has heard of since.

use std::collections::BTreeSet;

use quorate_protocol::id::{Instant, NodeId, Slot};
use quorate_protocol::router::{Kgroup, Place, Recall, Router, Scope, SessionId, Sessions};

use super::held::Held;
use super::paths::{Path, Paths};

/// A rule for whoever drives the two, to be left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Omitted {
    Nothing,
    /// A coordinator proposes nothing before all sessions of others are over.
    Hold,
    /// Neither does it propose again what its election found.
    HoldOfAdopted,
    /// A coordinator is told that it was elected.
    Elected,
    /// Nothing is shared on which a write is in hand.
    InHand,
    /// Whoever coordinates answers no read before it has executed what it adopted.
    AdoptedFirst,
    /// Sessions are kept while the node runs, also when there are none.
    Kept,
    /// A router believes no grant that an earlier process of its node asked for.
    Process,
    /// A member answers only once it has executed the slot.
    Slot,
    /// A write is sent with the session that it was begun in.
    Tag,
    /// A write that ended without an answer is told as lost.
    Lost,
    /// Where a lease is counted from when it was asked for, it lasts longer at its giver.
    Margin,
}

/// Durations in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    pub left_us: u64,
    pub margin_us: u64,
    pub hold_us: u64,
    pub omitted: Omitted,
}

/// A position in [`World::operations`].
pub type Number = usize;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    Ask { router: usize, to: usize, start: u32, held: Option<SessionId>, asked_at: Instant },
    Grant { router: usize, start: u32, id: SessionId, asked_at: Instant, left_us: u64 },
    Write { number: Number, to: usize, by: Option<SessionId> },
    Written { number: Number, slot: Slot },
    Read { number: Number, to: usize, by: Option<SessionId> },
    ReadAt { number: Number, to: usize, slot: Slot },
    Share { router: usize, id: SessionId, recalls: u64, kgroup: Kgroup, next_slot: Slot },
    Recall { router: usize, from: usize, number: u64, scope: Scope },
    Recalled { router: usize, to: usize, number: u64 },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Pass {
        us: u64,
    },
    Ask {
        router: usize,
    },
    /// With the member that a read goes to if it may go to one.
    Begin {
        number: Number,
        at: Option<usize>,
    },
    SendAgain {
        number: Number,
    },
    GiveUp {
        number: Number,
    },
    Deliver {
        message: Message,
        again: bool,
    },
    Drop {
        message: Message,
    },
    Decide,
    Execute {
        member: usize,
    },
    RecallAgain,
    /// Of what was proposed and not decided, the election finds what the bits of `found` say.
    Elect {
        member: usize,
        found: u32,
        restarts: bool,
    },
    Restart {
        router: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    Coming,
    Open,
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    pub router: usize,
    pub kgroup: Kgroup,
    pub is_write: bool,
    /// It changes all kgroups, so that its router does not count it.
    pub is_wide: bool,
    pub stage: Stage,
    /// Of the router, when a write was begun.
    session: Option<SessionId>,
    /// A read answers with this version or a later one.
    floor: u64,
}

impl Operation {
    pub fn new(router: usize, kgroup: Kgroup, is_write: bool) -> Operation {
        Operation { router, kgroup, is_write, is_wide: false, stage: Stage::Coming, session: None, floor: 0 }
    }

    fn scope(&self) -> Scope {
        if self.is_wide { Scope::All } else { Scope::One(self.kgroup) }
    }
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct Entrance {
    start: u32,
    router: Held<Router>,
    /// How much faster than time its clock goes.
    ppm: i64,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct Member {
    start: u32,
    sessions: Held<Sessions>,
    next_slot: usize,
    ppm: i64,
}

/// In a slot that is proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Proposed {
    /// Nothing where an election found a hole.
    number: Option<Number>,
    is_adopted: bool,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct Coordination {
    member: usize,
    held_until: Instant,
    waiting: Vec<(Number, Option<SessionId>)>,
    /// In the slots after the log.
    proposed: Vec<Proposed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    number: Option<Number>,
    /// It had been executed before, and changes nothing.
    is_repeated: bool,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub struct World {
    terms: Terms,
    now_us: u64,
    entrances: Vec<Entrance>,
    members: Vec<Member>,
    coordination: Coordination,
    elections: u32,
    log: Vec<Entry>,
    /// Proposed by an earlier coordinator and not decided. Later ones have higher ballots.
    left_over: Vec<(usize, Option<Number>)>,
    pub network: BTreeSet<Message>,
    pub operations: Vec<Operation>,
    /// By kgroup, what the answers so far have told of.
    told: Vec<u64>,
    pub broken: Option<(Number, u64)>,
}

impl World {
    /// The first member has coordinated for long.
    pub fn new(terms: Terms, routers: &[i64], members: &[i64], kgroups: usize) -> World {
        let entrance = |&ppm: &i64| Entrance { start: 1, router: Held::new(Router::default()), ppm };
        let member = |(member, &ppm): (usize, &i64)| {
            let sessions = Held::new(Sessions::new(member_id(member), 1));
            Member { start: 1, sessions, next_slot: 1, ppm }
        };
        World {
            terms,
            now_us: 0,
            entrances: routers.iter().map(entrance).collect(),
            members: members.iter().enumerate().map(member).collect(),
            coordination: Coordination { member: 0, held_until: Instant(0), waiting: Vec::new(), proposed: Vec::new() },
            elections: 0,
            log: vec![Entry { number: None, is_repeated: false }],
            left_over: Vec::new(),
            network: BTreeSet::new(),
            operations: Vec::new(),
            told: vec![0; kgroups],
            broken: None,
        }
    }

    pub fn coordinator(&self) -> usize {
        self.coordination.member
    }

    pub fn members_count(&self) -> usize {
        self.members.len()
    }

    pub fn left_over_count(&self) -> usize {
        self.left_over.len() + self.coordination.proposed.len()
    }

    pub fn is_behind(&self, member: usize) -> bool {
        self.members[member].next_slot < self.log.len()
    }

    pub fn can_decide(&self) -> bool {
        let is_held = self.clock_of(self.coordinator()) < self.coordination.held_until;
        let is_free = !is_held || matches!(self.terms.omitted, Omitted::Hold | Omitted::HoldOfAdopted);
        self.coordination.proposed.first().is_some_and(|first| !first.is_adopted || is_free)
    }

    /// Where a read may be sent, but for the coordinator.
    pub fn places(&self, number: Number) -> Vec<usize> {
        let Operation { router, kgroup, .. } = self.operations[number];
        match self.entrances[router].router.value.place(kgroup, self.clock_at(router)) {
            Place::Members { members, .. } => (0..self.members.len())
                .filter(|&member| members >> member & 1 == 1 && member != self.coordinator())
                .collect(),
            Place::Coordinator => Vec::new(),
        }
    }

    fn clock_at(&self, router: usize) -> Instant {
        clock(self.now_us, self.entrances[router].ppm)
    }

    fn clock_of(&self, member: usize) -> Instant {
        clock(self.now_us, self.members[member].ppm)
    }

    /// The number of the last write below this slot, from 1.
    fn version(&self, kgroup: Kgroup, next_slot: usize) -> u64 {
        let changes = |entry: &Entry| {
            !entry.is_repeated && entry.number.is_some_and(|number| self.operations[number].scope().contains(kgroup))
        };
        self.log[..next_slot].iter().rposition(changes).map_or(0, |slot| slot as u64 + 1)
    }

    fn slot_of(&self, number: Number) -> Option<usize> {
        self.log.iter().position(|entry| entry.number == Some(number))
    }

    pub fn apply(&mut self, action: &Action, paths: &mut Paths) {
        match *action {
            Action::Pass { us } => {
                self.now_us += us;
                if self.terms.omitted == Omitted::Kept {
                    self.forget_empty();
                }
                let waiting = self.coordination.waiting.len();
                self.try_propose(paths);
                paths.note(Path::Lapse, self.coordination.waiting.len() < waiting);
            }
            Action::Ask { router } => {
                let Entrance { start, router: held, .. } = &self.entrances[router];
                let (start, held, asked_at) = (*start, held.value.session(), self.clock_at(router));
                self.network.insert(Message::Ask { router, to: self.coordinator(), start, held, asked_at });
            }
            Action::Begin { number, at } => self.begin(number, at),
            Action::SendAgain { number } => {
                let Operation { is_write, session, router, .. } = self.operations[number];
                let to = self.coordinator();
                let by = if is_write { session } else { self.entrances[router].router.value.session() };
                self.send_operation(number, to, by);
            }
            Action::GiveUp { number } => self.give_up(number),
            Action::Deliver { ref message, again } => {
                if !again {
                    self.network.remove(message);
                }
                self.deliver(message.clone(), paths);
            }
            Action::Drop { ref message } => {
                self.network.remove(message);
            }
            Action::Decide => self.decide(paths),
            Action::Execute { member } => self.members[member].next_slot += 1,
            Action::RecallAgain => {
                let sessions = &self.members[self.coordinator()].sessions.value;
                let recalls: Vec<Recall> = sessions.open_recalls().collect();
                self.send_recalls(&recalls);
            }
            Action::Elect { member, found, restarts } => self.elect(member, found, restarts, paths),
            Action::Restart { router } => {
                let entrance = &mut self.entrances[router];
                entrance.start += 1;
                entrance.router = Held::new(Router::default());
                let is_lost = |number: &Number| {
                    let Operation { router: at, stage, .. } = self.operations[*number];
                    at == router && stage == Stage::Open
                };
                let lost: Vec<Number> = (0..self.operations.len()).filter(is_lost).collect();
                lost.into_iter().for_each(|number| self.end(number));
            }
        }
    }

    fn send_operation(&mut self, number: Number, to: usize, by: Option<SessionId>) {
        self.network.insert(match self.operations[number].is_write {
            true => Message::Write { number, to, by },
            false => Message::Read { number, to, by },
        });
    }

    fn begin(&mut self, number: Number, at: Option<usize>) {
        let Operation { router, kgroup, is_write, is_wide, .. } = self.operations[number];
        let counts = is_write && !is_wide;
        let (now, to) = (self.clock_at(router), self.coordinator());
        let router = &mut self.entrances[router].router;
        let session = if counts { router.change(|router| router.begin_write(kgroup)) } else { router.value.session() };
        let place = router.value.place(kgroup, now);
        let operation = &mut self.operations[number];
        operation.stage = Stage::Open;
        operation.floor = self.told[usize::from(kgroup.hash_slot())];
        operation.session = session.filter(|_| counts);
        match (at, place) {
            (Some(to), Place::Members { slot, .. }) => {
                self.network.insert(Message::ReadAt { number, to, slot });
            }
            _ => self.send_operation(number, to, session),
        }
    }

    fn give_up(&mut self, number: Number) {
        let Operation { router, session, kgroup, .. } = self.operations[number];
        self.end(number);
        let now = self.clock_at(router);
        let Some(session) = session else { return };
        self.entrances[router].router.change(|router| match self.terms.omitted {
            Omitted::Lost => router.end_write(session, kgroup, Slot(0), 0),
            _ => router.lose_write(session, now),
        });
    }

    fn deliver(&mut self, message: Message, paths: &mut Paths) {
        match message {
            Message::Ask { router, to, start, held, asked_at } => self.grant(router, to, start, held, asked_at),
            Message::Grant { router, start, id, asked_at, left_us } => {
                let now = self.clock_at(router);
                let entrance = &mut self.entrances[router];
                if entrance.start == start || self.terms.omitted == Omitted::Process {
                    let before = entrance.router.value.session();
                    entrance.router.change(|router| router.handle_grant(id, asked_at, left_us, now));
                    paths.note(
                        Path::SessionReplaced,
                        before.is_some_and(|before| Some(before) != entrance.router.value.session()),
                    );
                }
            }
            Message::Write { number, to, by } => self.write_at(number, to, by, paths),
            Message::Written { number, slot } => self.on_written(number, slot),
            Message::Read { number, to, by } => self.read_at_coordinator(number, to, by),
            Message::ReadAt { number, to, slot } => self.read_at_member(number, to, slot, paths),
            Message::Share { router, id, recalls, kgroup, next_slot } => {
                let router = &mut self.entrances[router].router;
                let before = router.clone();
                router.change(|router| router.handle_share(id, recalls, kgroup, next_slot));
                let counts = before != *router;
                paths.note(Path::ShareOvertaken, !counts && router.value.session() == Some(id));
                paths.note(Path::SharedAfterRecall, counts && recalls > id.number);
            }
            Message::Recall { router, from, number, scope } => {
                let entrance = &mut self.entrances[router];
                entrance.router.change(|router| router.handle_recall(member_id(from), number, scope));
                self.network.insert(Message::Recalled { router, to: from, number });
            }
            Message::Recalled { router, to, number } => {
                self.members[to].sessions.change(|sessions| sessions.handle_recalled(router_id(router), number));
                let waiting = self.coordination.waiting.len();
                self.try_propose(paths);
                paths.note(Path::Recalled, self.coordination.waiting.len() < waiting);
            }
        }
    }

    fn grant(&mut self, router: usize, to: usize, start: u32, held: Option<SessionId>, asked_at: Instant) {
        if to != self.coordinator() {
            return;
        }
        let Terms { left_us, margin_us, omitted, .. } = self.terms;
        let now = self.clock_of(to);
        // Sometimes less is left of the coordinator's own.
        let left_us = if now.0 % 8 == 7 { left_us / 2 } else { left_us };
        let margin_us = if omitted == Omitted::Margin { 0 } else { margin_us };
        let until = now.after_us(left_us + margin_us);
        let granted = self.members[to].sessions.change(|sessions| sessions.grant(router_id(router), held, now, until));
        if let Some(id) = granted {
            self.network.insert(Message::Grant { router, start, id, asked_at, left_us });
        }
    }

    fn write_at(&mut self, number: Number, to: usize, by: Option<SessionId>, paths: &mut Paths) {
        if to != self.coordinator() {
            return;
        }
        if self.slot_of(number).is_some() {
            paths.note(Path::WriteComesAgain, true);
            let slot = Slot(self.log.len() as u64 - 1);
            self.network.insert(Message::Written { number, slot });
            return;
        }
        let Coordination { waiting, proposed, .. } = &mut self.coordination;
        if waiting.iter().any(|(waiting, _)| *waiting == number)
            || proposed.iter().any(|proposed| proposed.number == Some(number))
        {
            return;
        }
        let by = if self.terms.omitted == Omitted::Tag {
            self.entrances[self.operations[number].router].router.value.session()
        } else {
            by
        };
        waiting.push((number, by));
        self.try_propose(paths);
        paths.note(Path::WriteWaits, !self.coordination.waiting.is_empty());
    }

    fn try_propose(&mut self, paths: &mut Paths) {
        let coordinator = self.coordinator();
        let now = self.clock_of(coordinator);
        let is_held = now < self.coordination.held_until && self.terms.omitted != Omitted::Hold;
        let mut recalls = Vec::new();
        let operations = &self.operations;
        let Coordination { waiting, proposed, .. } = &mut self.coordination;
        if waiting.is_empty() {
            return;
        }
        self.members[coordinator].sessions.change(|sessions| {
            waiting.retain(|&(number, by)| {
                let Operation { router, .. } = operations[number];
                let by = by.map(|session| (router_id(router), session));
                let goes = sessions.admit(operations[number].scope(), by, now, &mut recalls) && !is_held;
                if goes {
                    proposed.push(Proposed { number: Some(number), is_adopted: false });
                }
                !goes
            });
        });
        paths.note(Path::Recall, !recalls.is_empty());
        self.send_recalls(&recalls);
    }

    fn send_recalls(&mut self, recalls: &[Recall]) {
        let from = self.coordinator();
        let message = |&Recall { router, number, scope }: &Recall| Message::Recall {
            router: router.0 as usize - ROUTERS,
            from,
            number,
            scope,
        };
        self.network.extend(recalls.iter().map(message));
    }

    fn decide(&mut self, paths: &mut Paths) {
        let Proposed { number, is_adopted } = self.coordination.proposed.remove(0);
        let slot = self.log.len();
        let is_repeated = number.is_some_and(|number| self.slot_of(number).is_some());
        paths.note(Path::WriteAfterElection, self.elections > 0 && !is_adopted);
        self.log.push(Entry { number, is_repeated });
        let coordinator = self.coordinator();
        self.members[coordinator].next_slot = self.log.len();
        self.left_over.retain(|&(left, _)| left > slot);
        // Nobody waits here for what was adopted.
        if let Some(number) = number.filter(|_| !is_adopted) {
            self.network.insert(Message::Written { number, slot: Slot(slot as u64) });
        }
    }

    fn on_written(&mut self, number: Number, slot: Slot) {
        let Operation { router, kgroup, stage, session, .. } = self.operations[number];
        if stage != Stage::Open {
            return;
        }
        self.end(number);
        if let Some(session) = session {
            // Whichever members are named have executed nothing yet.
            self.entrances[router].router.change(|router| router.end_write(session, kgroup, slot, 0));
        }
        let slot = self.slot_of(number).expect("it was executed");
        let scope = self.operations[number].scope();
        for (hash_slot, told) in self.told.iter_mut().enumerate() {
            if scope.contains(Kgroup::of_hash_slot(hash_slot as u16)) {
                *told = (slot as u64 + 1).max(*told);
            }
        }
    }

    fn read_at_coordinator(&mut self, number: Number, to: usize, by: Option<SessionId>) {
        let adopts = self.coordination.proposed.iter().any(|proposed| proposed.is_adopted);
        if to != self.coordinator() || adopts && self.terms.omitted != Omitted::AdoptedFirst {
            return;
        }
        let Operation { router, kgroup, .. } = self.operations[number];
        let next_slot = self.log.len();
        let (now, operations) = (self.clock_of(to), &self.operations);
        let Coordination { waiting, proposed, .. } = &self.coordination;
        let waiting = waiting.iter().map(|(number, _)| *number);
        let own = proposed.iter().filter(|proposed| !proposed.is_adopted).filter_map(|proposed| proposed.number);
        let mut in_hand = waiting.chain(own);
        let is_in_hand = in_hand.any(|number| operations[number].scope().contains(kgroup));
        if let Some(id) = by.filter(|_| !is_in_hand || self.terms.omitted == Omitted::InHand) {
            let sessions = &mut self.members[to].sessions;
            let shared = sessions.change(|sessions| sessions.share(router_id(router), id, kgroup, now));
            if let Some(recalls) = shared {
                let next_slot = Slot(next_slot as u64);
                self.network.insert(Message::Share { router, id, recalls, kgroup, next_slot });
            }
        }
        self.end_read(number, self.version(kgroup, next_slot));
    }

    fn read_at_member(&mut self, number: Number, to: usize, slot: Slot, paths: &mut Paths) {
        let Operation { router, kgroup, stage, .. } = self.operations[number];
        let next_slot = self.members[to].next_slot;
        if stage != Stage::Open {
            return;
        }
        if next_slot as u64 <= slot.0 && self.terms.omitted != Omitted::Slot {
            paths.note(Path::FollowerRefuses, true);
            let entrance = &mut self.entrances[router].router;
            entrance.change(|router| router.leave_out(kgroup, to));
            let session = entrance.value.session();
            self.send_operation(number, self.coordinator(), session);
            return;
        }
        let version = self.version(kgroup, next_slot);
        let at_slot = self.version(kgroup, self.log.len().min(slot.0 as usize + 1));
        let own =
            |operation: &Operation| operation.is_write && operation.router == router && operation.session.is_some();
        let wrote =
            version > 0 && self.log[version as usize - 1].number.is_some_and(|number| own(&self.operations[number]));
        for (path, is_there) in [
            (Path::ReadAtFollower, true),
            (Path::ReadAtFollowerBeyondSlot, version > at_slot),
            (Path::ReadAtFollowerAfterOwnWrite, wrote),
            (Path::ReadAtFollowerAfterElection, self.elections > 0),
        ] {
            paths.note(path, is_there);
        }
        self.end_read(number, version);
    }

    fn end_read(&mut self, number: Number, version: u64) {
        let Operation { kgroup, stage, floor, .. } = self.operations[number];
        if stage != Stage::Open {
            return;
        }
        self.end(number);
        if version < floor {
            self.broken = Some((number, version));
        }
        self.tell(kgroup, version);
    }

    /// What comes of it later comes to nothing.
    fn end(&mut self, ended: Number) {
        self.operations[ended].stage = Stage::Ended;
        self.network.retain(|message| match message {
            Message::ReadAt { number, .. } | Message::Written { number, .. } => *number != ended,
            _ => true,
        });
    }

    fn tell(&mut self, kgroup: Kgroup, version: u64) {
        let told = &mut self.told[usize::from(kgroup.hash_slot())];
        *told = version.max(*told);
    }

    fn elect(&mut self, member: usize, found: u32, restarts: bool, paths: &mut Paths) {
        let slot = self.log.len();
        let before = self.coordination.proposed.drain(..).enumerate();
        self.left_over.extend(before.map(|(after, proposed)| (slot + after, proposed.number)));
        self.elections += 1;
        let elected = &mut self.members[member];
        elected.next_slot = slot;
        if restarts {
            elected.start += 1;
            elected.sessions = Held::new(Sessions::new(member_id(member), elected.start));
        }
        if self.terms.omitted != Omitted::Elected {
            elected.sessions.change(Sessions::on_elected);
        }
        let is_found = |&index: &usize| index < 32 && found >> index & 1 == 1;
        let found: Vec<_> = (0..self.left_over.len()).filter(is_found).map(|index| self.left_over[index]).collect();
        let count = found.iter().map(|(left, _)| left + 1 - slot).max().unwrap_or(0);
        let mut proposed = vec![Proposed { number: None, is_adopted: true }; count];
        found.iter().for_each(|(left, number)| proposed[left - slot].number = *number);
        self.left_over.retain(|left| !found.contains(left));
        paths.note(Path::ElectionAdopts, !proposed.is_empty());
        let held_until = self.clock_of(member).after_us(self.terms.hold_us);
        self.coordination = Coordination { member, held_until, waiting: Vec::new(), proposed };
    }

    fn forget_empty(&mut self) {
        for member in 0..self.members.len() {
            let now = self.clock_of(member);
            let Member { start, sessions, .. } = &mut self.members[member];
            sessions.change(|sessions| sessions.forget_lapsed(now));
            if sessions.value.is_empty() {
                *sessions = Held::new(Sessions::new(member_id(member), *start));
            }
        }
    }
}

const ROUTERS: usize = 100;

fn router_id(router: usize) -> NodeId {
    NodeId((ROUTERS + router) as u32)
}

fn member_id(member: usize) -> NodeId {
    NodeId(member as u32 + 1)
}

fn clock(now_us: u64, ppm: i64) -> Instant {
    Instant(now_us.checked_add_signed((now_us as i64 * ppm).div_euclid(1_000_000)).expect("clocks start at 0"))
}
