//! What a replica does for the group's parent, which orders configurations: make the oldest ready to be retired, and forget
//! tombstones. One errand at a time; whoever is asked for another gives up the one before. An errand that is lost with its
//! node is given to somebody else and begins from the start: each step may be taken twice.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

use super::operation::{Operation, Phase, Purpose};
use super::view::{Nodes, Quorum};
use super::{Answer, Body, Entry, Key, LIST_KEYS_MAX, Register, Round, Tag};
use crate::effect::{Cx, Effects};
use crate::id::{Epoch, Instant, NodeId};
use crate::planted::{self, Planted};

#[derive(Clone, Hash)]
pub(super) struct Errand {
    token: u64,
    step: Step,
    round: Round,
    answered: Nodes,
    /// The answers to a listing: keys in order, and whether there are no more.
    pages: Vec<(Vec<(Key, Tag)>, bool)>,
    after: Option<Key>,
    /// The highest floor heard of.
    floor: u64,
    pub(super) retry_at: Instant,
}

#[derive(Clone, Hash)]
enum Step {
    /// The oldest configuration is being retired. So many of its members must know the newest that no phase completes
    /// in the oldest alone any more.
    Inform,
    /// Which keys are there? Of a read quorum that knows the newest.
    List,
    /// Each of them is read and stored where it is to go. `to`: up to where, if there are more.
    Move {
        left: usize,
        to: Option<Key>,
    },
    /// Tags of the newest configuration's writes shall be above those of all tombstones that were forgotten.
    Raise,

    /// Tombstones are to be forgotten. Which are there?
    First,
    /// All members shall hold them.
    Bury {
        tombstones: Vec<(Key, Tag)>,
        next: Option<Key>,
    },
    /// Until all operations that began at this epoch or before are over: none of them may bring back an older version.
    Await {
        epoch: Epoch,
        tombstones: Vec<(Key, Tag)>,
        next: Option<Key>,
    },
    /// Which of them do all members hold? There may be newer versions, and other members than before.
    Second {
        tombstones: Vec<(Key, Tag)>,
        next: Option<Key>,
    },
    Forget {
        tombstones: Vec<(Key, Tag)>,
        next: Option<Key>,
    },
}

impl Errand {
    pub(super) fn awaits_fence(&self) -> Option<Epoch> {
        match self.step {
            Step::Await { epoch, .. } => Some(epoch),
            _ => None,
        }
    }

    pub(super) fn is_retiring(&self) -> bool {
        matches!(self.step, Step::Inform | Step::List | Step::Move { .. } | Step::Raise)
    }
}

impl Register {
    /// The oldest configuration shall be made ready to be retired.
    pub(super) fn retire(&mut self, cx: &Cx<'_>, token: u64, out: &mut Effects<Register>) {
        self.give_up_errand(out);
        if self.known.single().is_some() {
            return self.on_retirable(cx, token, out);
        }
        self.start_errand(cx, token, None, Step::Inform, out);
    }

    /// Tombstones of keys after this one shall be forgotten.
    pub(super) fn forget(&mut self, cx: &Cx<'_>, token: u64, after: Option<Key>, out: &mut Effects<Register>) {
        self.give_up_errand(out);
        if self.known.single().is_none() {
            return self.tell(Answer::GivenUp { token }, out);
        }
        self.start_errand(cx, token, after, Step::First, out);
    }

    fn start_errand(&mut self, cx: &Cx<'_>, token: u64, after: Option<Key>, step: Step, out: &mut Effects<Register>) {
        let round = self.next_round();
        let errand =
            Errand { token, step, round, answered: 0, pages: Vec::new(), after, floor: 0, retry_at: Instant(0) };
        if matches!(errand.step, Step::Inform) && self.propagates() {
            let retry_at = cx.now.after_us(self.pace.retry_us);
            self.errand = Some(Errand { retry_at, ..errand });
            return self.propagate(out);
        }
        self.ask_all(cx, errand, out);
    }

    pub(super) fn is_errand(&self, round: Round) -> bool {
        self.errand.as_ref().is_some_and(|errand| errand.round == round)
    }

    pub(super) fn give_up_errand(&mut self, out: &mut Effects<Register>) {
        if let Some(errand) = self.errand.take() {
            self.drop_moves();
            if !self.succession.owns(errand.token) {
                self.tell(Answer::GivenUp { token: errand.token }, out);
            }
        }
    }

    /// The view has changed. Whoever had state to move has to look again at what is there.
    pub(super) fn restart_errand(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        let Some(mut errand) = self.errand.take() else { return };
        let token = errand.token;
        match errand.step {
            Step::Inform | Step::List | Step::Move { .. } | Step::Raise => self.retire(cx, token, out),
            // Whoever is out has nothing to forget, and may never hear of a fence.
            Step::Await { .. } if !self.is_member() => self.tell(Answer::GivenUp { token }, out),
            Step::Await { epoch, tombstones, next } => {
                let is_over = self.known.single().is_some_and(|stage| stage.fence > epoch);
                errand.step =
                    if is_over { Step::Second { tombstones, next } } else { Step::Await { epoch, tombstones, next } };
                self.enter(cx, errand, out);
            }
            Step::First | Step::Bury { .. } | Step::Second { .. } | Step::Forget { .. } => {
                self.tell(Answer::GivenUp { token }, out);
            }
        }
    }

    /// Begins the errand's present step.
    fn enter(&mut self, cx: &Cx<'_>, mut errand: Errand, out: &mut Effects<Register>) {
        errand.round = self.next_round();
        errand.answered = 0;
        errand.pages.clear();
        self.ask_all(cx, errand, out);
    }

    fn ask_all(&mut self, cx: &Cx<'_>, mut errand: Errand, out: &mut Effects<Register>) {
        errand.retry_at = cx.now.after_us(self.pace.retry_us);
        self.ask_for(errand, Nodes::MAX, out);
    }

    /// Asks those of a set who are concerned and have not answered, and keeps the errand.
    fn ask_for(&mut self, mut errand: Errand, only: Nodes, out: &mut Effects<Register>) {
        let known = &self.known;
        let round = errand.round;
        let list = |tombstones| {
            let from = Key::after(errand.after.as_ref());
            Body::List { round, from, tombstones, count: LIST_KEYS_MAX as u32 }
        };
        let (whom, body) = match &errand.step {
            Step::Inform => (known.all(), Some(Body::Inform { stages: known.stages().to_vec() })),
            Step::List => (known.all_of(known.oldest()), Some(list(false))),
            Step::Raise => (known.all_of(known.newest()), Some(Body::Raise { round, floor: errand.floor })),
            Step::First | Step::Second { .. } => (known.all(), Some(list(true))),
            Step::Bury { tombstones, .. } => (known.all(), Some(Body::Bury { round, tombstones: tombstones.clone() })),
            Step::Forget { tombstones, .. } => {
                (known.all(), Some(Body::Forget { round, tombstones: tombstones.clone() }))
            }
            Step::Move { .. } | Step::Await { .. } => (0, None),
        };
        if let Some(body) = body {
            for node in self.known.members_of(whom & only & !errand.answered) {
                self.send(node, body.clone(), out);
            }
        } else {
            errand.retry_at = Instant::MAX;
        }
        self.errand = Some(errand);
    }

    pub(super) fn on_woken_errand(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        if let Some(errand) = self.errand.take_if(|errand| errand.retry_at <= cx.now) {
            self.ask_all(cx, errand, out);
        }
    }

    pub(super) fn handle_informed(&mut self, cx: &Cx<'_>, from: NodeId, out: &mut Effects<Register>) {
        let bit = self.known.bit(from);
        // What it is asked from now on it does not drop.
        let is_first = self.level & bit == 0;
        self.level |= bit;
        if is_first {
            self.ask_again(from, out);
            self.campaign_again(from, out);
        }
        match self.errand.take() {
            Some(errand) if matches!(errand.step, Step::Inform) => {
                self.errand = Some(errand);
                self.note(cx, from, out);
            }
            Some(errand) if is_first => self.ask_for(errand, bit, out),
            Some(errand) => self.errand = Some(errand),
            None => {}
        }
    }

    pub(super) fn handle_listed_errand(
        &mut self,
        cx: &Cx<'_>,
        from: NodeId,
        round: Round,
        (entries, end): (Vec<Entry>, bool),
        floor: u64,
        out: &mut Effects<Register>,
    ) {
        let bit = self.known.bit(from);
        let Some(errand) = self.errand.as_mut().filter(|errand| errand.round == round) else { return };
        let listing = matches!(errand.step, Step::List | Step::First | Step::Second { .. });
        if !listing || errand.answered & bit != 0 {
            return;
        }
        errand.pages.push((entries.into_iter().map(|entry| (entry.key, entry.tag)).collect(), end));
        errand.floor = errand.floor.max(floor);
        self.note(cx, from, out);
    }

    /// An answer that says nothing but that it is one.
    pub(super) fn handle_errand_done(&mut self, cx: &Cx<'_>, from: NodeId, round: Round, out: &mut Effects<Register>) {
        let Some(errand) = self.errand.as_ref().filter(|errand| errand.round == round) else { return };
        if let Step::Raise | Step::Bury { .. } | Step::Forget { .. } = errand.step {
            self.note(cx, from, out);
        }
    }

    fn note(&mut self, cx: &Cx<'_>, from: NodeId, out: &mut Effects<Register>) {
        let Some(mut errand) = self.errand.take() else { return };
        errand.answered |= self.known.bit(from);
        if self.is_step_done(&errand) {
            self.advance_errand(cx, errand, out);
        } else {
            self.errand = Some(errand);
        }
    }

    fn is_step_done(&self, errand: &Errand) -> bool {
        let (known, set) = (&self.known, errand.answered);
        let everybody = known.all() & !set == 0;
        match errand.step {
            Step::Inform => {
                let oldest = known.oldest();
                known.is_quorum(oldest, Quorum::Read, set) && known.is_quorum(oldest, Quorum::Write, set)
            }
            Step::List => {
                let oldest = known.oldest();
                known.is_quorum(oldest, Quorum::Read, set) && known.is_wide_enough(oldest, set, Epoch(0))
            }
            Step::Raise => known.is_quorum(known.newest(), Quorum::Write, set),
            Step::First | Step::Second { .. } if planted::is(Planted::RegisterForgetsEarly) => {
                known.is_quorum(known.newest(), Quorum::Read, set)
            }
            Step::First | Step::Bury { .. } | Step::Second { .. } | Step::Forget { .. } => everybody,
            Step::Move { left, .. } => left == 0,
            Step::Await { .. } => false,
        }
    }

    fn advance_errand(&mut self, cx: &Cx<'_>, mut errand: Errand, out: &mut Effects<Register>) {
        match mem::replace(&mut errand.step, Step::Inform) {
            Step::Inform if self.known.newest().moves() && !planted::is(Planted::RegisterRetiresEarly) => {
                errand.step = Step::List;
                errand.after = None;
                self.enter(cx, errand, out);
            }
            Step::Inform | Step::Raise => {
                self.on_retirable(cx, errand.token, out);
            }
            Step::List => self.move_page(cx, errand, out),
            Step::Move { to, .. } => {
                errand.step = if to.is_some() { Step::List } else { Step::Raise };
                errand.after = to;
                self.enter(cx, errand, out);
            }
            Step::First => {
                let (tombstones, next) = (held_by_some(&errand.pages), shared_end(&errand.pages));
                self.bury(cx, errand, tombstones, next, out);
            }
            Step::Bury { tombstones, next } => {
                errand.step = Step::Await { epoch: self.known.newest().epoch(), tombstones, next };
                self.enter(cx, errand, out);
            }
            Step::Second { tombstones, next } => {
                let everywhere = held_by_all(&errand.pages);
                let tombstones = tombstones.into_iter().filter(|tombstone| everywhere.contains(tombstone)).collect();
                errand.step = Step::Forget { tombstones, next };
                self.enter(cx, errand, out);
            }
            Step::Forget { tombstones, next } => {
                let answer = Answer::Forgotten { token: errand.token, count: tombstones.len(), next };
                self.tell(answer, out);
            }
            Step::Await { .. } => unreachable!("only a change of view ends it"),
        }
    }

    fn bury(
        &mut self,
        cx: &Cx<'_>,
        mut errand: Errand,
        tombstones: Vec<(Key, Tag)>,
        next: Option<Key>,
        out: &mut Effects<Register>,
    ) {
        if tombstones.is_empty() {
            return self.tell(Answer::Forgotten { token: errand.token, count: 0, next }, out);
        }
        errand.step = match planted::is(Planted::RegisterForgetsEarly) {
            true => Step::Forget { tombstones, next },
            false => Step::Bury { tombstones, next },
        };
        self.enter(cx, errand, out);
    }

    /// Every key that somebody listed, up to where everybody has.
    fn move_page(&mut self, cx: &Cx<'_>, mut errand: Errand, out: &mut Effects<Register>) {
        let to = shared_end(&errand.pages);
        let listed = errand.pages.iter().flat_map(|(keys, _)| keys).map(|(key, _)| key);
        let keys: BTreeSet<Key> = listed.filter(|&key| to.as_ref().is_none_or(|to| key <= to)).cloned().collect();
        errand.step = Step::Move { left: keys.len(), to };
        if keys.is_empty() {
            return self.advance_errand(cx, errand, out);
        }
        errand.round = self.next_round();
        errand.retry_at = Instant::MAX;
        self.errand = Some(errand);
        for key in keys {
            let mut operation = Operation::new(Purpose::Move, key, Phase::query());
            operation.number = self.next_operation();
            self.begin(cx, operation, out);
        }
    }

    pub(super) fn on_moved(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        let Some(mut errand) = self.errand.take() else { return };
        if let Step::Move { left, .. } = &mut errand.step {
            *left -= 1;
            if *left == 0 {
                return self.advance_errand(cx, errand, out);
            }
        }
        self.errand = Some(errand);
    }
}

/// The key up to which every page reaches; none if all reach the end.
fn shared_end(pages: &[(Vec<(Key, Tag)>, bool)]) -> Option<Key> {
    let ends = pages.iter().filter(|(_, end)| !end).filter_map(|(keys, _)| keys.last());
    ends.map(|(key, _)| key).min().cloned()
}

/// What is on some page, up to where all reach. Where pages differ the highest tag is the one to keep.
fn held_by_some(pages: &[(Vec<(Key, Tag)>, bool)]) -> Vec<(Key, Tag)> {
    let to = shared_end(pages);
    let listed = pages.iter().flat_map(|(keys, _)| keys).filter(|(key, _)| to.as_ref().is_none_or(|to| key <= to));
    // In order of the tags, so that the highest stays.
    let by_key: BTreeMap<Key, Tag> = listed.cloned().collect::<BTreeSet<_>>().into_iter().collect();
    by_key.into_iter().collect()
}

/// What is on every page.
fn held_by_all(pages: &[(Vec<(Key, Tag)>, bool)]) -> BTreeSet<(Key, Tag)> {
    let on_all = |tombstone: &&(Key, Tag)| pages.iter().all(|(keys, _)| keys.binary_search(tombstone).is_ok());
    pages.first().map(|(keys, _)| keys.iter().filter(on_all).cloned().collect()).unwrap_or_default()
}
