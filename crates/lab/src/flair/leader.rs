//! The coordinator of Multi-Paxos at a ballot that nobody disputes, and what it knows of its routers.

use std::collections::{BTreeMap, VecDeque};

use quorate_protocol::router::{Kgroup, RecallNumber, Scope, SessionId, Sessions};
use quorate_protocol::{Instant, NodeId, Slot};

use super::KGROUPS;
use super::keys::kgroup_of;
use super::world::{LEADER, Letter, Output, Share, Store, node_id};

/// What is decided is told with the next write, or after this.
const DECIDE_US: u64 = 10_000;

/// The router by which a request came.
pub(super) type By = Option<(NodeId, SessionId)>;

#[derive(Clone, Copy)]
struct Write {
    client: usize,
    object: usize,
    by: By,
}

#[derive(Clone, Copy)]
struct Proposed {
    write: Write,
    acknowledgers: u64,
}

pub(super) struct Leader {
    replicas: usize,
    pub(super) sessions: Sessions,
    pub(super) recalls_sent: u64,
    /// Of slot 1 and those after.
    log: Vec<Proposed>,
    pub(super) store: Store,
    proposed_at: Instant,
    /// Below and at which the others were told that all is decided.
    told: Slot,
    waits_to_decide: bool,
    /// Writes that wait for a recall, in their order.
    held: BTreeMap<Kgroup, VecDeque<Write>>,
    /// Of each kgroup, how many writes are held or proposed and not executed.
    in_hand: Vec<u32>,
    /// Of reads that wait for a quorum, the client, and how many members have confirmed.
    rounds: BTreeMap<u64, (usize, usize)>,
    rounds_begun: u64,
}

impl Leader {
    pub(super) fn new(replicas: usize) -> Leader {
        Leader {
            replicas,
            sessions: Sessions::new(node_id(LEADER), 1),
            recalls_sent: 0,
            log: Vec::new(),
            store: Store::new(),
            proposed_at: Instant(0),
            told: Slot(0),
            waits_to_decide: false,
            held: BTreeMap::new(),
            in_hand: vec![0; KGROUPS],
            rounds: BTreeMap::new(),
            rounds_begun: 0,
        }
    }

    pub(super) fn object_at(&self, slot: Slot) -> usize {
        self.log[slot.0 as usize - 1].write.object
    }

    pub(super) fn write(&mut self, client: usize, object: usize, by: By, now: Instant, out: &mut Output) {
        let kgroup = kgroup_of(object);
        self.in_hand[usize::from(kgroup.hash_slot())] += 1;
        self.held.entry(kgroup).or_default().push_back(Write { client, object, by });
        self.look_at_held(kgroup, now, out);
    }

    pub(super) fn recalled(
        &mut self,
        router: NodeId,
        number: RecallNumber,
        kgroup: Kgroup,
        now: Instant,
        out: &mut Output,
    ) {
        self.sessions.handle_recalled(router, number);
        self.look_at_held(kgroup, now, out);
    }

    /// Proposes what need not wait any more, in the order in which it came.
    fn look_at_held(&mut self, kgroup: Kgroup, now: Instant, out: &mut Output) {
        let Some(mut held) = self.held.remove(&kgroup) else { return };
        let mut recalls = Vec::new();
        while let Some(&write) = held.front() {
            if !self.sessions.admit(Scope::One(kgroup), write.by, now, &mut recalls) {
                self.held.insert(kgroup, held);
                break;
            }
            held.pop_front();
            self.propose(write, now, out);
        }
        self.recalls_sent += recalls.len() as u64;
        for recall in recalls {
            out.send(recall.router.0 as usize - 1, Letter::Recall(recall));
        }
    }

    fn propose(&mut self, write: Write, now: Instant, out: &mut Output) {
        let frontier = self.store.executed;
        self.log.push(Proposed { write, acknowledgers: 1 << LEADER });
        (self.proposed_at, self.told) = (now, frontier);
        let slot = Slot(self.log.len() as u64);
        for member in LEADER + 1..self.replicas {
            out.send(member, Letter::Accept { slot, frontier });
        }
    }

    fn is_decided(&self, acknowledgers: u64) -> bool {
        acknowledgers.count_ones() as usize > self.replicas / 2
    }

    pub(super) fn accepted(&mut self, slot: Slot, member: usize, out: &mut Output) {
        self.log[slot.0 as usize - 1].acknowledgers |= 1 << member;
        while let Some(&Proposed { write, acknowledgers }) = self.log.get(self.store.executed.0 as usize) {
            if !self.is_decided(acknowledgers) {
                break;
            }
            let slot = self.store.execute(write.object);
            self.in_hand[usize::from(kgroup_of(write.object).hash_slot())] -= 1;
            let client = write.client;
            match write.by {
                Some((router, _)) => {
                    let answer = Letter::Answer { client, slot, acknowledgers, share: None };
                    out.answer(router.0 as usize - 1, answer);
                }
                None => out.answers.push((client, slot)),
            }
            self.decide_later(out);
        }
    }

    fn decide_later(&mut self, out: &mut Output) {
        if !self.waits_to_decide {
            self.waits_to_decide = true;
            out.later.push((DECIDE_US * 1000, Letter::DecideIsDue));
        }
    }

    pub(super) fn decide_is_due(&mut self, now: Instant, out: &mut Output) {
        self.waits_to_decide = false;
        let frontier = self.store.executed;
        if self.told == frontier {
            return;
        }
        if now < self.proposed_at.after_us(DECIDE_US) {
            return self.decide_later(out);
        }
        self.told = frontier;
        for member in LEADER + 1..self.replicas {
            out.send(member, Letter::Decide { frontier });
        }
    }

    pub(super) fn read(&mut self, client: usize, object: usize, by: By, now: Instant, out: &mut Output) {
        let slot = self.store.slots[object];
        let Some((router, session)) = by else { return out.answers.push((client, slot)) };
        let kgroup = kgroup_of(object);
        let is_quiet = self.in_hand[usize::from(kgroup.hash_slot())] == 0;
        let recalls = is_quiet.then(|| self.sessions.share(router, session, kgroup, now)).flatten();
        let share = recalls.map(|recalls| Share { session, recalls, next_slot: self.store.executed.next() });
        let answer = Letter::Answer { client, slot, acknowledgers: 0, share };
        match share {
            // A message of its own, although it goes with the answer.
            Some(_) => out.send(router.0 as usize - 1, answer),
            None => out.answer(router.0 as usize - 1, answer),
        }
    }

    pub(super) fn confirm(&mut self, client: usize, out: &mut Output) {
        self.rounds_begun += 1;
        let round = self.rounds_begun;
        self.rounds.insert(round, (client, 1));
        for member in LEADER + 1..self.replicas {
            out.send(member, Letter::Confirm { round });
        }
    }

    /// Whose read this was, if a quorum has confirmed it now.
    pub(super) fn confirmed(&mut self, round: u64) -> Option<usize> {
        let (client, count) = self.rounds.get_mut(&round)?;
        *count += 1;
        if *count <= self.replicas / 2 {
            return None;
        }
        let client = *client;
        self.rounds.remove(&round);
        Some(client)
    }
}
