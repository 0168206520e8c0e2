//! One replica: what it keeps, what it is asked, and the dispatch of events.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;

use super::errand::Errand;
use super::member::Objects;
use super::operation::{Operation, Phase, Purpose};
use super::renewal::Renewals;
use super::seal::LastWord;
use super::succession::{Authority, Succession};
use super::view::{Known, Nodes};
use super::{
    Answer, Body, COUNTER_MAX, Content, Entry, Key, LIST_KEYS_MAX, LISTINGS_MAX, Message, OPERATIONS_MAX, Record,
    Request, Round, Stage, Status, Tag, Version, View,
};
use crate::effect::{Cx, Effect, Effects, Event, Refusal, Replica};
use crate::id::{Epoch, Instant, NodeId, Stamp};
use crate::planted::{self, Planted};

/// One node's part of a register group.
///
/// Unlike a replica of an ordered group it lives through the group's epochs, because two of them are in use at once.
#[derive(Clone, Hash)]
pub struct Register {
    pub(super) me: NodeId,
    /// The node's durable count of its starts.
    pub(super) start: u32,
    pub(super) pace: Pace,
    pub(super) known: Known,
    pub(super) objects: Objects,
    pub(super) operations: BTreeMap<Round, Operation>,
    /// When operations want to be looked at.
    pub(super) due: BTreeSet<(Instant, Round)>,
    /// How many of them are listings.
    pub(super) listing_count: usize,
    pub(super) errand: Option<Errand>,
    pub(super) succession: Succession,
    pub(super) renewals: Renewals,
    /// It answers nothing more.
    pub(super) sealed: bool,
    pub(super) last_word: Option<LastWord>,
    /// Who was told what is known here, and who was asked for more, and when: under load many messages of another view arrive
    /// at once, and one word is enough for all of them. Empty whenever the view changes.
    told: BTreeMap<NodeId, Instant>,
    asked: BTreeMap<NodeId, Instant>,
    /// Members that have answered that they know this view.
    pub(super) level: Nodes,
    /// What clients wait for, and writes whose answer a retry shall find.
    tokens: BTreeMap<u64, Progress>,
    /// When answers may be forgotten.
    forgettable: BTreeSet<(Instant, u64)>,
    /// Who wants to know when all that began before an epoch has ended.
    drains: Vec<(u64, Epoch)>,
    round_number: u64,
    operation_number: u64,
    /// Nodes that the host has no way to at present: they are asked like suspects, last.
    pub(super) unreachable: BTreeSet<NodeId>,
}

/// How long a phase waits before it asks more members, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// From the preferred quorums to everybody else; suspects are asked after as long again.
    pub widen_us: u64,
    /// Until everybody who has not answered is asked again, at first. To be slow is not to be lost: it doubles each time, up to
    /// four times as long.
    pub retry_us: u64,
}

/// How often it doubles.
const DOUBLINGS_MAX: u32 = 2;

impl Pace {
    /// After so many times.
    pub(super) fn repeat_us(self, repeats: u32) -> u64 {
        self.retry_us << repeats.min(DOUBLINGS_MAX)
    }
}

#[derive(Clone, Hash)]
enum Progress {
    Asked,
    Done(Answer),
}

impl Register {
    /// A replica born empty, into what the parent says are the group's configurations, in the `start`th run of its node.
    /// Its records follow by [`Replica::restore`].
    pub fn new(stages: Vec<Stage>, me: NodeId, start: u32, pace: Pace) -> Register {
        Register {
            me,
            start,
            pace,
            known: Known::new(stages),
            objects: Objects::default(),
            operations: BTreeMap::new(),
            due: BTreeSet::new(),
            listing_count: 0,
            errand: None,
            succession: Succession::default(),
            renewals: Renewals::default(),
            sealed: false,
            last_word: None,
            told: BTreeMap::new(),
            asked: BTreeMap::new(),
            level: 0,
            tokens: BTreeMap::new(),
            forgettable: BTreeSet::new(),
            drains: Vec::new(),
            round_number: 0,
            operation_number: 0,
            unreachable: BTreeSet::new(),
        }
    }

    /// As the group was made; a group's parent decides unless this is said.
    #[must_use]
    pub fn decided_by(mut self, authority: Authority) -> Register {
        self.set_authority(authority);
        self
    }

    /// As [`Register::decided_by`], before the first step.
    pub fn set_authority(&mut self, authority: Authority) {
        self.succession.authority = authority;
    }

    pub fn authority(&self) -> Authority {
        self.succession.authority
    }

    /// Whether the oldest configuration is being made ready to be retired here.
    pub fn is_retiring(&self) -> bool {
        self.errand.as_ref().is_some_and(Errand::is_retiring)
    }

    /// Said before its first step, where it was made before the count was known.
    pub fn set_start(&mut self, start: u32) {
        self.start = start;
    }

    /// A replica that is born again in one start of its node, after it was given up, counts its operations from above all that
    /// it counted before: their tags must differ.
    pub fn number_from(&mut self, first: u64) {
        (self.round_number, self.operation_number) = (first, first);
    }

    /// Keys after this one, or from the first on, whose values have expired by `now`, among the next `count` that are held; and
    /// where to go on, if there are more.
    pub fn expired(&self, after: Option<&Key>, count: usize, now: Stamp) -> (Vec<Key>, Option<Key>) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut held = self.objects.held.range((from, Bound::Unbounded));
        let (mut expired, mut last) = (Vec::new(), None);
        for (key, held) in held.by_ref().take(count) {
            if held.version.content.is_expired(now) {
                expired.push(key.clone());
            }
            last = Some(key);
        }
        let next = last.filter(|_| held.next().is_some()).cloned();
        (expired, next)
    }

    /// Nobody will retry the write of this token, which was answered.
    pub fn forget_answer(&mut self, token: u64) {
        if let Some(Progress::Done(_)) = self.tokens.get(&token) {
            self.tokens.remove(&token);
        }
    }

    /// Waits change with what operations take at present.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Whoever waits for a node that cannot be reached is told by `Suspected`.
    /// False if it was known.
    pub fn set_reachable(&mut self, node: NodeId, is_reachable: bool) -> bool {
        match is_reachable {
            true => self.unreachable.remove(&node),
            false => self.unreachable.insert(node),
        }
    }

    pub fn is_reachable(&self, node: NodeId) -> bool {
        !self.unreachable.contains(&node)
    }

    pub fn view(&self) -> View {
        self.known.view()
    }

    /// The configurations that are not known to be retired.
    pub fn stages(&self) -> &[Stage] {
        self.known.stages()
    }

    pub fn is_member(&self) -> bool {
        self.known.bit(self.me) != 0
    }

    /// What this replica holds of a key: the latest version at some quorums, but perhaps not here.
    pub fn held(&self, key: &Key) -> Option<&Version> {
        self.objects.held.get(key).map(|held| &held.version)
    }

    /// Nothing is under way, and nobody's retry could come: all that there is are the records.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty()
            && self.errand.is_none()
            && self.succession.retry_at().is_none()
            && self.renewals.is_empty()
            && self.last_word.is_none()
            && self.tokens.is_empty()
            && self.drains.is_empty()
    }

    /// Everything it must not forget, anew: a checkpoint.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let known = Record::Known { stages: self.known.stages().to_vec() };
        let floor = Record::Floor { floor: self.objects.floor };
        let held = self.objects.held.iter();
        let held = held.map(|(key, held)| Record::Held { key: key.clone(), version: held.version.clone() });
        let votes = self.succession.records(self.view().newest);
        let sealed = self.sealed.then_some(Record::Sealed {});
        [known, floor].into_iter().chain(sealed).chain(votes).chain(held)
    }

    /// The epoch whose operations must be over before tombstones are forgotten, if only that is waited for.
    pub fn awaits_fence(&self) -> Option<Epoch> {
        self.errand.as_ref()?.awaits_fence()
    }

    pub fn status(&self) -> Status {
        Status {
            view: self.view(),
            is_member: self.is_member(),
            key_count: self.objects.held.len(),
            tombstone_count: self.objects.tombstones.len(),
            operation_count: self.operations.len(),
        }
    }

    fn is_single(&self, epoch: Epoch) -> bool {
        self.known.single().is_some_and(|stage| stage.epoch() == epoch)
    }

    pub(super) fn next_round(&mut self) -> Round {
        self.round_number += 1;
        Round { start: self.start, number: self.round_number }
    }

    pub(super) fn next_operation(&mut self) -> u64 {
        self.operation_number += 1;
        self.operation_number
    }

    pub(super) fn send(&self, to: NodeId, body: Body, out: &mut Effects<Register>) {
        out.send(to, Message { view: self.view(), body });
    }

    /// What an answer says must be on disk first, and so must the view that it is given under.
    pub(super) fn answer(&self, to: NodeId, body: Body, out: &mut Effects<Register>) {
        let message = Message { view: self.view(), body };
        if planted::is(Planted::RegisterAnswersBeforeDurable) {
            return out.send(to, message);
        }
        out.send_once_durable(to, message);
    }

    pub(super) fn tell(&self, answer: Answer, out: &mut Effects<Register>) {
        out.list.push(Effect::Answered(answer));
    }

    /// Takes an operation out, to be kept again or to end.
    pub(super) fn take(&mut self, round: Round) -> Option<Operation> {
        let operation = self.operations.remove(&round)?;
        self.due.remove(&(operation.due_at(), round));
        self.listing_count -= usize::from(operation.is_listing());
        Some(operation)
    }

    pub(super) fn keep(&mut self, round: Round, operation: Operation) {
        self.due.insert((operation.due_at(), round));
        self.listing_count += usize::from(operation.is_listing());
        self.operations.insert(round, operation);
    }

    /// The moves of an errand that was given up.
    pub(super) fn drop_moves(&mut self) {
        let is_move = |operation: &Operation| matches!(operation.purpose, Purpose::Move);
        let rounds: Vec<Round> =
            self.operations.iter().filter(|(_, operation)| is_move(operation)).map(|(round, _)| *round).collect();
        for round in rounds {
            self.take(round);
        }
    }

    pub(super) fn end(&mut self, operation: &Operation, answer: Option<Answer>, out: &mut Effects<Register>) {
        if let Some(answer) = answer {
            let token = operation.token().expect("somebody waits for the answer");
            // A retry of a write is answered the same; one of a read may be carried out again.
            if let Purpose::Write { .. } = operation.purpose {
                self.tokens.insert(token, Progress::Done(answer.clone()));
                self.forgettable.insert((operation.deadline_at, token));
            } else {
                self.tokens.remove(&token);
            }
            self.tell(answer, out);
        }
    }

    pub(super) fn end_unknown(&mut self, operation: &Operation, out: &mut Effects<Register>) {
        self.end(operation, operation.token().map(|token| Answer::Unknown { token }), out);
    }

    fn request(&mut self, cx: &Cx<'_>, request: Request, out: &mut Effects<Register>) {
        match request {
            Request::Read { token, key, deadline } => {
                let operation = Operation::new(Purpose::Read { token }, key, Phase::query());
                self.operate(cx, token, operation, deadline, out);
            }
            Request::Write { token, key, content, deadline } => {
                let operation = Operation::new(Purpose::Write { token, content }, key, Phase::query());
                self.operate(cx, token, operation, deadline, out);
            }
            Request::List { token, after, count, deadline } => {
                self.operate(cx, token, Operation::listing(token, after.as_ref(), count), deadline, out);
            }
            Request::Know { stages } => {
                if let Some(oldest) = stages.first().map(Stage::epoch) {
                    self.learn(cx, oldest, &stages, out);
                }
            }
            Request::Retire { token } => self.retire(cx, token, out),
            Request::Seal { token } => self.seal(cx, token, out),
            Request::Final { token, after } => self.tell_final(cx, token, after, out),
            Request::Reconfigure { token, members, quorum } => self.reconfigure(cx, token, members, quorum, out),
            Request::Resize { token, quorum } => self.resize(cx, token, quorum, out),
            Request::Renew { token, epoch, fence } => self.renew_epoch(cx, token, epoch, fence, out),
            Request::Drain { token, epoch } => self.drains.push((token, epoch)),
            Request::Forget { token, after } => self.forget(cx, token, after, out),
        }
    }

    fn operate(
        &mut self,
        cx: &Cx<'_>,
        token: u64,
        mut operation: Operation,
        deadline: Stamp,
        out: &mut Effects<Register>,
    ) {
        match self.tokens.get(&token) {
            Some(Progress::Asked) => return,
            Some(Progress::Done(answer)) => return self.tell(answer.clone(), out),
            None => {}
        }
        let answer = if deadline <= cx.stamp {
            // The answer of a first attempt may be forgotten already.
            Some(Answer::Unknown { token })
        } else if self.sealed {
            Some(Answer::Over { token })
        } else if !self.is_member() {
            Some(Answer::Elsewhere { token, members: self.known.newest().configuration.members.to_vec() })
        } else if self.tokens.len() >= OPERATIONS_MAX || operation.is_listing() && self.listing_count >= LISTINGS_MAX {
            Some(Answer::Overloaded { token })
        } else {
            None
        };
        if let Some(answer) = answer {
            return self.tell(answer, out);
        }
        self.tokens.insert(token, Progress::Asked);
        operation.deadline_at = cx.now.after_us((deadline.0 - cx.stamp.0).saturating_mul(1000));
        operation.number = self.next_operation();
        self.begin(cx, operation, out);
    }

    /// Takes over what is news about configurations, and begins again whatever is under way.
    pub(super) fn learn(&mut self, cx: &Cx<'_>, oldest: Epoch, stages: &[Stage], out: &mut Effects<Register>) -> bool {
        let Some(is_news) = self.take_over(oldest, stages) else { return false };
        if is_news {
            out.persist(Record::Known { stages: self.known.stages().to_vec() });
            self.restart_operations(cx, out);
            self.restart_errand(cx, out);
            self.give_up_last_word(out);
            self.restart_succession(cx, out);
        }
        true
    }

    fn take_over(&mut self, oldest: Epoch, stages: &[Stage]) -> Option<bool> {
        let newest_before = self.view().newest;
        let is_news = self.known.learn(oldest, stages)?;
        // What was held here has moved on meanwhile, without this node or while it was away. It could by now be older than a
        // tombstone that all other members have forgotten. That this node is to be a member again does not make it newer.
        let oldest = self.known.oldest();
        let has_moved = !oldest.configuration.contains(self.me) || oldest.moved > newest_before;
        if is_news && has_moved {
            self.objects.clear();
        }
        if is_news {
            self.succession.forget();
            self.renewals.clear();
            self.told.clear();
            self.asked.clear();
            self.level = 0;
        }
        Some(is_news)
    }

    fn receive(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message, out: &mut Effects<Register>) {
        let Message { view, body } = message;
        // Whoever has voted is told of what came of it by those that decide.
        let is_vote = matches!(body, Body::Vote { .. });
        if let Body::Inform { stages } = body {
            if !self.learn(cx, view.oldest, &stages, out) {
                *cx.nonsense_count += 1;
                return;
            }
            self.answer(from, Body::Informed {}, out);
        } else if view == self.view() {
            self.handle(cx, from, body, out);
        } else if !matches!(body, Body::Behind {})
            && view.is_ahead_of(self.view())
            && is_time(&mut self.asked, from, cx.now, self.pace)
        {
            self.send(from, Body::Behind {}, out);
        }
        if self.view().is_ahead_of(view) && !is_vote && is_time(&mut self.told, from, cx.now, self.pace) {
            self.send(from, Body::Inform { stages: self.known.stages().to_vec() }, out);
        }
    }

    /// Whether a correct replica of this view could have said this. Its answers come from its members.
    fn is_plausible(&self, from: NodeId, body: &Body) -> bool {
        let newest = self.view().newest;
        let is_tag = |tag: &Tag| (1..=COUNTER_MAX).contains(&tag.counter);
        let are_tags = |tags: &[(Key, Tag)]| tags.iter().all(|(_, tag)| is_tag(tag));
        let is_member = self.known.bit(from) != 0;
        match body {
            Body::Store { version, .. } => is_tag(&version.tag) && version.renewed <= newest,
            Body::Renew { versions, .. } => {
                versions.iter().all(|(_, version)| is_tag(&version.tag) && version.renewed <= newest)
            }
            Body::Raise { floor, .. } => *floor <= COUNTER_MAX,
            Body::Bury { tombstones, .. } | Body::Forget { tombstones, .. } => are_tags(tombstones),
            Body::Found { tag, renewed, floor, content, .. } => {
                let is_absent = *tag == Tag::ABSENT && content.is_none();
                is_member && (is_absent || is_tag(tag)) && *renewed <= newest && *floor <= COUNTER_MAX
            }
            Body::List { count, .. } => (1..=LIST_KEYS_MAX as u32).contains(count),
            Body::Listed { round, entries, end, floor } => {
                let is_said = entries.iter().all(|entry| is_tag(&entry.tag)) && (*end || !entries.is_empty());
                is_member && is_said && self.are_asked_for(*round, entries) && *floor <= COUNTER_MAX
            }
            Body::Told { versions, end, .. } => {
                is_member && (*end || !versions.is_empty()) && versions.iter().all(|(_, version)| is_tag(&version.tag))
            }
            Body::Seal { .. } => is_member && self.succession.authority == Authority::Parent,
            Body::Sealed { .. }
            | Body::Renewed { .. }
            | Body::Stored { .. }
            | Body::Raised { .. }
            | Body::Buried { .. }
            | Body::Forgotten { .. } => is_member,
            Body::Prepare { .. }
            | Body::Promise { .. }
            | Body::Propose { .. }
            | Body::Vote { .. }
            | Body::Abstain { .. } => self.is_plausible_campaign(from, body),
            _ => true,
        }
    }

    /// Whether these are in order, and of a listing's keys.
    fn are_asked_for(&self, round: Round, entries: &[Entry]) -> bool {
        let in_order = entries.is_sorted_by(|one, next| one.key < next.key);
        let least = self.operations.get(&round).map(|operation| &operation.key);
        in_order && entries.first().is_none_or(|first| least.is_none_or(|least| first.key >= *least))
    }

    /// A message from somebody who knows exactly what is known here.
    fn handle(&mut self, cx: &mut Cx<'_>, from: NodeId, body: Body, out: &mut Effects<Register>) {
        if !self.is_plausible(from, &body) {
            *cx.nonsense_count += 1;
            return;
        }
        if self.refuses(from, &body, out) {
            return;
        }
        match body {
            Body::Query { round, key, content } => self.handle_query(from, round, &key, content, out),
            Body::Store { round, key, version } => self.handle_store(from, round, key, version, out),
            Body::Confirm { key, tag } => self.handle_confirm(&key, tag),
            Body::ConfirmAll { tags } => tags.iter().for_each(|(key, tag)| self.handle_confirm(key, *tag)),
            Body::Renew { round, versions } => self.handle_renew(from, round, versions, out),
            Body::List { round, from: key, tombstones, count } => {
                self.handle_list(from, round, &key, (tombstones, count), out);
            }
            Body::Raise { round, floor } => self.handle_raise(from, round, floor, out),
            Body::Bury { round, tombstones } => self.handle_bury(from, round, tombstones, out),
            Body::Forget { round, tombstones } => self.handle_forget(from, round, tombstones, out),

            Body::Found { round, tag, renewed, floor, confirmed, content } => {
                self.handle_found(cx, from, round, (tag, renewed), floor, confirmed, content, out);
            }
            Body::Stored { round } => self.handle_stored(cx, from, round, out),
            Body::Seal { round } => self.handle_seal(from, round, out),
            Body::Sealed { round } => self.handle_sealed(from, round, out),
            Body::Tell { round, after } => self.handle_tell(from, round, after.as_ref(), out),
            Body::Told { round, versions, end } => self.handle_told(from, round, (versions, end), out),
            Body::Renewed { round } => self.handle_renewed(cx, from, round, out),
            Body::Informed {} => self.handle_informed(cx, from, out),
            Body::Listed { round, entries, end, .. } if self.operations.contains_key(&round) => {
                self.handle_listed(cx, from, round, (entries, end), out);
            }
            Body::Listed { round, entries, end, floor } => {
                self.handle_listed_errand(cx, from, round, (entries, end), floor, out);
            }
            Body::Raised { round } | Body::Buried { round } | Body::Forgotten { round } => {
                self.handle_errand_done(cx, from, round, out)
            }
            body @ (Body::Prepare { .. }
            | Body::Promise { .. }
            | Body::Propose { .. }
            | Body::Vote { .. }
            | Body::Abstain { .. }) => self.handle_campaign(cx, from, body, out),
            // The view was told in answer to something older.
            Body::Inform { .. } | Body::Behind {} => {}
        }
    }

    fn on_woken(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        while let Some(&(at, round)) = self.due.first()
            && at <= cx.now
        {
            self.widen(cx, round, out);
        }
        self.on_woken_errand(cx, out);
        self.on_woken_succession(cx, out);
        self.on_woken_renewals(cx, out);
        self.on_woken_last_word(cx, out);
        while let Some(&(at, token)) = self.forgettable.first()
            && at <= cx.now
        {
            self.forgettable.pop_first();
            self.tokens.remove(&token);
        }
    }

    /// Nothing is to be expected of this node: whoever waits for it asks others at once.
    fn on_suspected(&mut self, cx: &Cx<'_>, node: NodeId, out: &mut Effects<Register>) {
        let bit = self.known.bit(node);
        let waiting = self.operations.iter().filter(|(_, operation)| operation.is_waiting_for(bit));
        let rounds: Vec<Round> = waiting.map(|(round, _)| *round).collect();
        for round in rounds {
            self.widen(cx, round, out);
        }
    }

    fn tell_drained(&mut self, out: &mut Effects<Register>) {
        if self.drains.is_empty() {
            return;
        }
        let (newest, oldest_begun) =
            (self.view().newest, self.operations.values().map(|operation| operation.began).min());
        let is_drained = |epoch: Epoch| newest >= epoch && oldest_begun.is_none_or(|began| began >= epoch);
        let drained: Vec<_> = self.drains.extract_if(.., |(_, epoch)| is_drained(*epoch)).collect();
        for (token, epoch) in drained {
            self.tell(Answer::Drained { token, epoch }, out);
        }
    }
}

/// Whether a word to this node is due: it may have been lost, but hardly as long as it may be on its way.
fn is_time(said: &mut BTreeMap<NodeId, Instant>, to: NodeId, now: Instant, pace: Pace) -> bool {
    let is_time = said.get(&to).is_none_or(|at| at.after_us(pace.widen_us) <= now);
    if is_time {
        said.insert(to, now);
    }
    is_time
}

impl Replica for Register {
    type Message = Message;
    type Record = Record;
    type Request = Request;
    type Answer = Answer;

    fn restore(&mut self, record: Record) {
        match record {
            Record::Known { stages } => {
                if let Some(oldest) = stages.first().map(Stage::epoch) {
                    self.take_over(oldest, &stages);
                }
            }
            Record::Held { key, version } => self.objects.hold(key, version),
            Record::Forgotten { key, tag } => self.objects.forget(&key, tag),
            Record::Floor { floor } => self.objects.floor = self.objects.floor.max(floor),
            Record::Sealed {} => self.sealed = true,
            Record::Promised { epoch, ballot } if self.is_single(epoch) => self.succession.restore(ballot, None),
            Record::Voted { epoch, choice } if self.is_single(epoch) => {
                self.succession.restore(choice.ballot, Some(choice));
            }
            // That one has its successor.
            Record::Promised { .. } | Record::Voted { .. } => {}
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, event: Event<Message, Request>, out: &mut Effects<Register>) {
        match event {
            Event::Received { from, message } => self.receive(cx, from, message, out),
            Event::Requested(request) => self.request(cx, request, out),
            // There is no order in which anything could be decided.
            Event::Proposed(proposal) => {
                let why = Refusal::NotCoordinator { coordinator: None };
                out.list.push(Effect::Refused { proposal, why });
            }
            Event::Suspected(node) | Event::Silenced(node) => self.on_suspected(cx, node, out),
            Event::Woken => self.on_woken(cx, out),
        }
        self.tell_drained(out);
    }

    fn wake_at(&self) -> Option<Instant> {
        let operation = self.due.first().map(|&(at, _)| at);
        let answer = self.forgettable.first().map(|&(at, _)| at);
        let errand = self.errand.as_ref().map(|errand| errand.retry_at).filter(|&at| at != Instant::MAX);
        let candidate = self.succession.retry_at().filter(|&at| at != Instant::MAX);
        let last_word = self.last_word.as_ref().map(|last_word| last_word.retry_at);
        [operation, answer, errand, candidate, self.renewals.retry_at(), last_word].into_iter().flatten().min()
    }

    fn check(&self) {
        self.known.check();
        self.succession.check(self.me, &self.known);
        let newest = self.view().newest;
        assert!(!self.sealed || self.operations.is_empty(), "a sealed replica goes on");
        assert_eq!(self.due.len(), self.operations.len(), "every operation is due at some time, once");
        for (round, operation) in &self.operations {
            assert!(self.due.contains(&(operation.due_at(), *round)), "{round:?} is never looked at");
            assert!(operation.began <= newest, "began in {:?}, the newest is {newest:?}", operation.began);
            if let Phase::Store { version, .. } = &operation.phase {
                assert!(version.tag.counter > 0, "{version:?} is stored");
                assert!(version.renewed <= newest, "{version:?} is renewed beyond {newest:?}");
            }
            let fence = self.known.newest().fence;
            let is_write = matches!(operation.purpose, Purpose::Write { .. });
            assert!(!is_write || operation.began >= fence, "a write of {:?} goes on behind {fence:?}", operation.began);
        }
        let listings = self.operations.values().filter(|operation| operation.is_listing()).count();
        assert_eq!(self.listing_count, listings, "listings among operations");
        let waiting = self.tokens.values().filter(|progress| matches!(progress, Progress::Asked)).count();
        let asked = self.operations.values().filter(|operation| operation.token().is_some()).count();
        assert_eq!(waiting, asked, "operations and those who wait for them");
        let tombstones = self.objects.held.iter().filter(|(_, held)| held.version.content == Content::Tombstone);
        assert!(
            tombstones.map(|(key, _)| key).eq(&self.objects.tombstones),
            "tombstones, and those that are known as such"
        );
        for (key, held) in &self.objects.held {
            assert!(held.version.tag.counter > 0, "{key:?}: {:?} is held", held.version);
            assert!(held.confirmed.is_none_or(|epoch| epoch <= newest), "{key:?} is confirmed in {:?}", held.confirmed);
        }
    }
}
