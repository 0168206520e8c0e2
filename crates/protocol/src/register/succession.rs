//! How the members themselves decide their successor, where no parent does: Rollup's three phases (section III-A).
//!
//! Any member may be a candidate. It *prepares* a ballot at a read quorum, *proposes* a configuration to a read and a write
//! quorum, and whoever is told that both have voted knows the successor and *propagates* it. The read quorum of a later
//! ballot meets the write quorum that has voted, and the member in both voted before it promised: it tells what is to be
//! proposed again. Then the candidate retires the old configuration as for a parent, and says so itself: that its conditions
//! have been met stays true whatever happens, so nobody need agree on it.
//!
//! A ballot counts for the successor of one configuration, the only one that its members know. So nobody votes on a
//! successor before its predecessor's is retired, and there are never more than two.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::view::{Known, Nodes, Quorum, is_sound};
use super::{Answer, Body, Record, Register, Stage};
use crate::effect::{Cx, Effects};
use crate::id::{Ballot, Configuration, Epoch, Instant, NodeId};
use crate::planted::{self, Planted};
use crate::quorum::QuorumSystem;

/// Nobody campaigns so often: a ballot above it is nonsense.
const BALLOT_NUMBER_MAX: u32 = 1 << 30;

/// Who decides a group's configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Authority {
    /// Another group, which speaks by [`Request::Know`](super::Request).
    Parent,
    /// Its own members.
    Members(Reach),
}

/// To how many the phases of a candidate speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// To one preferred quorum of each kind; voters tell the candidate, which tells everybody.
    Preferred,
    /// To two quorums of each kind, as in the paper; voters tell each other, and each of them propagates what was decided to
    /// as many of the old configuration and of the new one.
    Twofold,
}

/// What a member has voted for: the successor of the only configuration that it knows.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Choice {
    pub ballot: Ballot,
    pub configuration: Configuration,
    /// All members have drained up to this epoch.
    pub fence: Epoch,
}

#[derive(Clone, Hash)]
pub(super) struct Succession {
    pub(super) authority: Authority,
    promised: Ballot,
    voted: Option<Choice>,
    /// Who has voted at the highest ballot that a vote was heard for.
    heard: (Ballot, Nodes),
    candidate: Option<Candidate>,
}

#[derive(Clone, Hash)]
struct Candidate {
    token: u64,
    wanted: Wanted,
    phase: Phase,
    answered: Nodes,
    pub(super) retry_at: Instant,
    /// The epoch for which this was proposed last: it may have been decided.
    proposed: Option<Epoch>,
}

/// What a candidate was asked for.
#[derive(Clone, Hash)]
struct Wanted {
    members: Arc<[NodeId]>,
    quorum: QuorumSystem,
    fence: Epoch,
    unless: Unless,
}

/// What others may decide meanwhile that makes it pointless.
#[derive(Clone, Copy, Hash, PartialEq, Eq)]
enum Unless {
    Never,
    /// Other members.
    Moved,
    /// Anything after this epoch.
    Past(Epoch),
}

#[derive(Clone, Hash)]
enum Phase {
    Prepare {
        ballot: Ballot,
        /// What is to be proposed again: the highest vote that was heard of.
        best: Option<Choice>,
    },
    Propose {
        choice: Choice,
        audience: u64,
    },
    /// Somebody has promised a higher ballot: until it has had its time.
    Yield,
    /// The predecessor has to be retired first.
    Retire,
}

impl Default for Succession {
    fn default() -> Self {
        let heard = (Ballot::default(), 0);
        Succession { authority: Authority::Parent, promised: Ballot::default(), voted: None, heard, candidate: None }
    }
}

impl Succession {
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.candidate.as_ref().map(|candidate| candidate.retry_at)
    }

    fn is_twofold(&self) -> bool {
        self.authority == Authority::Members(Reach::Twofold)
    }

    /// The configuration that votes were about has its successor.
    pub(super) fn forget(&mut self) {
        (self.promised, self.voted, self.heard) = (Ballot::default(), None, (Ballot::default(), 0));
    }

    /// Whether an errand with this token is the candidate's own, of whom nobody else is told.
    pub(super) fn owns(&self, token: u64) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.token == token)
    }

    pub(super) fn restore(&mut self, ballot: Ballot, voted: Option<Choice>) {
        self.promised = self.promised.max(ballot);
        if voted.is_some() {
            self.voted = voted;
        }
    }

    pub(super) fn records(&self, epoch: Epoch) -> impl Iterator<Item = Record> + '_ {
        let promised = (self.promised != Ballot::default()).then_some(self.promised);
        let promised = promised.map(|ballot| Record::Promised { epoch, ballot });
        let voted = self.voted.clone().map(|choice| Record::Voted { epoch, choice });
        voted.into_iter().chain(promised)
    }

    pub(super) fn check(&self, me: NodeId, known: &Known) {
        if let Some(choice) = &self.voted {
            assert!(choice.ballot <= self.promised, "voted at {:?}, promised {:?}", choice.ballot, self.promised);
            let next = known.single().map(|stage| stage.epoch().0 + 1);
            assert_eq!(Some(choice.configuration.epoch.0), next, "voted for {choice:?}");
        }
        let campaign = self.candidate.as_ref().map(|candidate| &candidate.phase);
        if let Some(Phase::Prepare { ballot, .. } | Phase::Propose { choice: Choice { ballot, .. }, .. }) = campaign {
            assert_eq!(ballot.node, me, "a ballot of somebody else");
            assert!(*ballot <= self.promised, "{ballot:?} is above the own promise {:?}", self.promised);
        }
    }
}

impl Candidate {
    fn proposes(&self, ballot: Ballot) -> bool {
        matches!(&self.phase, Phase::Propose { choice, .. } if choice.ballot == ballot)
    }
}

impl Wanted {
    /// Whether this configuration, with such a fence, is it.
    fn is(&self, configuration: &Configuration, fence: Epoch) -> bool {
        let is_late_enough = match self.unless {
            Unless::Past(epoch) => configuration.epoch > epoch,
            Unless::Never | Unless::Moved => true,
        };
        let same = self.members == configuration.members && self.quorum == configuration.quorum;
        same && is_late_enough && self.fence <= fence
    }

    fn is_stage(&self, stage: &Stage) -> bool {
        self.is(&stage.configuration, stage.fence)
    }

    fn is_overtaken_by(&self, newest: &Stage) -> bool {
        match self.unless {
            Unless::Never => false,
            Unless::Moved => newest.configuration.members != self.members,
            Unless::Past(epoch) => newest.epoch() != epoch,
        }
    }
}

impl Register {
    /// These members shall be the group's, whatever they are now.
    pub(super) fn reconfigure(
        &mut self,
        cx: &Cx<'_>,
        token: u64,
        members: Vec<NodeId>,
        quorum: QuorumSystem,
        out: &mut Effects<Register>,
    ) {
        let wanted = Wanted { members: members.into(), quorum, fence: Epoch(0), unless: Unless::Never };
        self.begin_campaign(cx, token, wanted, out);
    }

    /// The members that there are shall have these quorums.
    pub(super) fn resize(&mut self, cx: &Cx<'_>, token: u64, quorum: QuorumSystem, out: &mut Effects<Register>) {
        let members = self.known.newest().configuration.members.clone();
        self.begin_campaign(cx, token, Wanted { members, quorum, fence: Epoch(0), unless: Unless::Moved }, out);
    }

    /// The same members and quorums shall go on in the epoch after this one.
    pub(super) fn renew_epoch(
        &mut self,
        cx: &Cx<'_>,
        token: u64,
        epoch: Epoch,
        fence: Epoch,
        out: &mut Effects<Register>,
    ) {
        let Configuration { members, quorum, .. } = self.known.newest().configuration.clone();
        self.begin_campaign(cx, token, Wanted { members, quorum, fence, unless: Unless::Past(epoch) }, out);
    }

    fn begin_campaign(&mut self, cx: &Cx<'_>, token: u64, wanted: Wanted, out: &mut Effects<Register>) {
        let newest = &self.known.newest().configuration;
        let epoch = Epoch(newest.epoch.0 + 1);
        let (members, quorum) = (wanted.members.clone(), wanted.quorum);
        let configuration = Configuration { group: newest.group, epoch, members, quorum };
        let is_sound = is_sound(&Stage::first(configuration)) && wanted.fence < epoch;
        let answer = if self.succession.authority == Authority::Parent || !is_sound {
            Some(Answer::Unsound { token })
        } else if !self.is_member() {
            Some(Answer::Elsewhere { token, members: newest.members.to_vec() })
        } else if self.succession.candidate.is_some() {
            Some(Answer::Overloaded { token })
        } else {
            None
        };
        if let Some(answer) = answer {
            return self.tell(answer, out);
        }
        let (phase, retry_at) = (Phase::Yield, Instant::MAX);
        let candidate = Candidate { token, wanted, phase, answered: 0, retry_at, proposed: None };
        self.pursue(cx, candidate, out);
    }

    /// The view has changed.
    pub(super) fn restart_succession(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        if let Some(candidate) = self.succession.candidate.take() {
            self.pursue(cx, candidate, out);
        }
    }

    /// Does what is next, as far as the view tells.
    fn pursue(&mut self, cx: &Cx<'_>, mut candidate: Candidate, out: &mut Effects<Register>) {
        let lost = |stage: &Stage| Some(stage.epoch()) == candidate.proposed && !candidate.wanted.is_stage(stage);
        if self.known.stages().iter().any(lost) {
            candidate.proposed = None;
        }
        if let Some(answer) = self.outcome(&candidate) {
            return self.tell(answer, out);
        }
        if self.known.single().is_some() {
            return self.prepare(cx, candidate, out);
        }
        candidate.phase = Phase::Retire;
        candidate.retry_at = cx.now.after_us(self.pace.retry_us);
        let token = candidate.token;
        self.succession.candidate = Some(candidate);
        // The same may be on its way already, for the host.
        if !self.is_retiring() {
            self.retire(cx, token, out);
        }
    }

    fn outcome(&self, candidate: &Candidate) -> Option<Answer> {
        let token = candidate.token;
        let oldest = self.known.oldest();
        let is_single = self.known.single().is_some();
        let is_own = candidate.proposed == Some(oldest.epoch());
        if candidate.wanted.is_stage(oldest) && (is_single || is_own) {
            return Some(Answer::Reconfigured { token, epoch: oldest.epoch() });
        }
        if candidate.proposed.is_some_and(|epoch| epoch < oldest.epoch()) {
            // Others have gone on since. To ask for it once more might undo what they did.
            return Some(Answer::Unknown { token });
        }
        let newest = self.known.newest();
        if candidate.wanted.is_overtaken_by(newest) && candidate.proposed != Some(newest.epoch()) {
            return Some(Answer::Overtaken { token });
        }
        let members = || self.known.newest().configuration.members.to_vec();
        (is_single && !self.is_member()).then(|| Answer::Elsewhere { token, members: members() })
    }

    /// A turn in which this node is in the preferred quorum, if there is one, so that it asks fewer others.
    fn own_turn(&self, stage: &Stage, quorum: Quorum) -> u64 {
        let count = stage.configuration.members.len() as u64;
        let bit = self.known.bit(self.me);
        (0..count).find(|&turn| self.known.preferred(stage, quorum, turn, 0) & bit != 0).unwrap_or(0)
    }

    fn reach(&self, stage: &Stage, quorum: Quorum, avoid: Nodes) -> Nodes {
        let turn = self.own_turn(stage, quorum);
        let one = self.known.preferred(stage, quorum, turn, avoid);
        match self.succession.is_twofold() {
            true => one | self.known.preferred(stage, quorum, turn + 1, avoid),
            false => one,
        }
    }

    fn reach_both(&self, stage: &Stage, avoid: Nodes) -> Nodes {
        self.reach(stage, Quorum::Read, avoid) | self.reach(stage, Quorum::Write, avoid)
    }

    fn prepare(&mut self, cx: &Cx<'_>, mut candidate: Candidate, out: &mut Effects<Register>) {
        let number = (self.succession.promised.number + 1).min(BALLOT_NUMBER_MAX);
        let ballot = Ballot { number, node: self.me };
        candidate.phase = Phase::Prepare { ballot, best: None };
        candidate.answered = 0;
        candidate.retry_at = cx.now.after_us(self.pace.widen_us);
        self.succession.candidate = Some(candidate);
        // On record before it is said, so that no ballot is used for two configurations.
        self.promise(ballot, out);
        let stage = self.known.newest();
        let whom = self.reach(stage, Quorum::Read, self.suspects(cx));
        self.campaign(whom, out);
    }

    fn promise(&mut self, ballot: Ballot, out: &mut Effects<Register>) {
        if ballot > self.succession.promised {
            self.succession.promised = ballot;
            out.persist(Record::Promised { epoch: self.known.newest().epoch(), ballot });
        }
    }

    /// What the candidate's phase says, to these.
    fn campaign(&self, whom: Nodes, out: &mut Effects<Register>) {
        let Some(candidate) = &self.succession.candidate else { return };
        let body = match &candidate.phase {
            Phase::Prepare { ballot, .. } => Body::Prepare { ballot: *ballot },
            Phase::Propose { choice, audience } => Body::Propose { choice: choice.clone(), audience: *audience },
            Phase::Yield | Phase::Retire => return,
        };
        for node in self.known.members_of(whom & !candidate.answered) {
            self.answer(node, body.clone(), out);
        }
    }

    pub(super) fn on_woken_succession(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        let Some(mut candidate) = self.succession.candidate.take_if(|candidate| candidate.retry_at <= cx.now) else {
            return;
        };
        match candidate.phase {
            Phase::Prepare { .. } | Phase::Propose { .. } => {
                candidate.retry_at = cx.now.after_us(self.pace.retry_us);
                self.succession.candidate = Some(candidate);
                self.campaign(self.known.all(), out);
            }
            Phase::Yield | Phase::Retire => self.pursue(cx, candidate, out),
        }
    }

    /// The member has caught up with this view: what it was told before then it dropped.
    pub(super) fn campaign_again(&self, node: NodeId, out: &mut Effects<Register>) {
        self.campaign(self.known.bit(node), out);
    }

    /// Whether a member of this group could say it, where members decide.
    pub(super) fn is_plausible_campaign(&self, from: NodeId, body: &Body) -> bool {
        let Some(stage) = self.known.single() else { return false };
        let is_next = |choice: &Choice| {
            let (old, new) = (&stage.configuration, &choice.configuration);
            let is_fenced = choice.fence <= old.epoch;
            new.group == old.group
                && new.epoch.0 == old.epoch.0 + 1
                && is_fenced
                && is_sound(&Stage::first(new.clone()))
        };
        let is_ballot = |ballot: &Ballot| (1..=BALLOT_NUMBER_MAX).contains(&ballot.number);
        let is_choice = |choice: &Choice| is_ballot(&choice.ballot) && is_next(choice);
        let is_said = match body {
            Body::Prepare { ballot } => ballot.node == from && is_ballot(ballot),
            Body::Promise { ballot, voted } => ballot.node == self.me && voted.as_ref().is_none_or(is_choice),
            Body::Propose { choice, .. } => choice.ballot.node == from && is_choice(choice),
            Body::Vote { choice } => is_choice(choice),
            Body::Abstain { ballot, promised } => ballot.node == self.me && is_ballot(promised),
            _ => false,
        };
        self.succession.authority != Authority::Parent && self.known.bit(from) != 0 && is_said
    }

    pub(super) fn handle_campaign(&mut self, cx: &Cx<'_>, from: NodeId, body: Body, out: &mut Effects<Register>) {
        match body {
            Body::Prepare { ballot } => self.handle_prepare(from, ballot, out),
            Body::Promise { ballot, voted } => self.handle_promise(cx, from, ballot, voted, out),
            Body::Propose { choice, audience } => self.handle_propose(from, choice, audience, out),
            Body::Vote { choice } => self.handle_vote(cx, from, choice, out),
            Body::Abstain { ballot, promised } => self.handle_abstain(cx, ballot, promised, out),
            _ => unreachable!("said by no candidate and to none"),
        }
    }

    fn handle_prepare(&mut self, from: NodeId, ballot: Ballot, out: &mut Effects<Register>) {
        if ballot < self.succession.promised {
            let promised = self.succession.promised;
            return self.answer(from, Body::Abstain { ballot, promised }, out);
        }
        self.promise(ballot, out);
        let voted = self.succession.voted.clone().filter(|_| !planted::is(Planted::RegisterVoteUntold));
        self.answer(from, Body::Promise { ballot, voted }, out);
    }

    fn handle_promise(
        &mut self,
        cx: &Cx<'_>,
        from: NodeId,
        ballot: Ballot,
        voted: Option<Choice>,
        out: &mut Effects<Register>,
    ) {
        let bit = self.known.bit(from);
        let Some(candidate) = &mut self.succession.candidate else { return };
        let Phase::Prepare { ballot: own, best } = &mut candidate.phase else { return };
        if ballot != *own {
            return;
        }
        if voted.as_ref().map(|choice| choice.ballot) > best.as_ref().map(|choice| choice.ballot) {
            *best = voted;
        }
        candidate.answered |= bit;
        if self.known.is_quorum(self.known.newest(), Quorum::Read, candidate.answered) {
            self.propose(cx, out);
        }
    }

    fn propose(&mut self, cx: &Cx<'_>, out: &mut Effects<Register>) {
        let stage = self.known.newest();
        let whom = self.reach_both(stage, self.suspects(cx));
        let audience = if self.succession.is_twofold() { self.known.positions(stage, whom) } else { 0 };
        let (group, epoch) = (stage.configuration.group, Epoch(stage.epoch().0 + 1));
        let Some(candidate) = &mut self.succession.candidate else { return };
        let Phase::Prepare { ballot, best } = &candidate.phase else { return };
        let (configuration, fence) = match best {
            Some(choice) => (choice.configuration.clone(), choice.fence),
            None => {
                let Wanted { ref members, quorum, fence, .. } = candidate.wanted;
                (Configuration { group, epoch, members: members.clone(), quorum }, fence)
            }
        };
        if candidate.wanted.is(&configuration, fence) {
            candidate.proposed = Some(epoch);
        }
        candidate.phase = Phase::Propose { choice: Choice { ballot: *ballot, configuration, fence }, audience };
        candidate.answered = 0;
        candidate.retry_at = cx.now.after_us(self.pace.widen_us);
        self.campaign(whom, out);
    }

    fn handle_propose(&mut self, from: NodeId, choice: Choice, audience: u64, out: &mut Effects<Register>) {
        if choice.ballot < self.succession.promised {
            let (ballot, promised) = (choice.ballot, self.succession.promised);
            return self.answer(from, Body::Abstain { ballot, promised }, out);
        }
        let stage = self.known.newest();
        let whom = self.known.at(stage, audience) | self.known.bit(from);
        if self.succession.voted.as_ref() != Some(&choice) {
            out.persist(Record::Voted { epoch: stage.epoch(), choice: choice.clone() });
            self.succession.restore(choice.ballot, Some(choice.clone()));
        }
        for node in self.known.members_of(whom) {
            self.answer(node, Body::Vote { choice: choice.clone() }, out);
        }
    }

    fn handle_vote(&mut self, cx: &Cx<'_>, from: NodeId, choice: Choice, out: &mut Effects<Register>) {
        let bit = self.known.bit(from);
        let Succession { candidate, heard, .. } = &mut self.succession;
        // Votes for its own count also once a candidate has heard of others: who casts those may have crashed.
        let voters = match candidate.as_mut().filter(|candidate| candidate.proposes(choice.ballot)) {
            Some(candidate) => &mut candidate.answered,
            None if choice.ballot < heard.0 => return,
            None => {
                if choice.ballot > heard.0 {
                    *heard = (choice.ballot, 0);
                }
                &mut heard.1
            }
        };
        *voters |= bit;
        let voters = *voters;
        let stage = self.known.newest();
        let is_read = self.known.is_quorum(stage, Quorum::Read, voters);
        let is_write = self.known.is_quorum(stage, Quorum::Write, voters);
        if is_read && (is_write || planted::is(Planted::RegisterDecidesByReadQuorum)) {
            self.on_decided(cx, choice, out);
        }
    }

    /// The last phase. A candidate propagates by what it does next.
    fn on_decided(&mut self, cx: &Cx<'_>, choice: Choice, out: &mut Effects<Register>) {
        let stage = self.known.newest();
        let stages = [stage.clone(), stage.successor(choice.configuration).fenced(choice.fence)];
        let oldest = stage.epoch();
        let is_candidate = self.succession.candidate.is_some();
        self.learn(cx, oldest, &stages, out);
        if self.succession.is_twofold() && !is_candidate {
            self.propagate(out);
        }
    }

    /// Tells two quorums of each kind, of the old configuration and of the new one. Who is in both is told twice, as the paper
    /// counts.
    pub(super) fn propagate(&self, out: &mut Effects<Register>) {
        for stage in self.known.stages() {
            for node in self.known.members_of(self.reach_both(stage, 0)) {
                self.send(node, Body::Inform { stages: self.known.stages().to_vec() }, out);
            }
        }
    }

    pub(super) fn propagates(&self) -> bool {
        self.succession.is_twofold()
    }

    fn handle_abstain(&mut self, cx: &Cx<'_>, ballot: Ballot, promised: Ballot, out: &mut Effects<Register>) {
        let Some(candidate) = &mut self.succession.candidate else { return };
        let own = match &candidate.phase {
            Phase::Prepare { ballot, .. } | Phase::Propose { choice: Choice { ballot, .. }, .. } => *ballot,
            Phase::Yield | Phase::Retire => return,
        };
        if own != ballot || promised <= own {
            return;
        }
        // Apart from each other, so that one of them gets through.
        let turn = 1 + (u64::from(self.me.0) + cx.random) % 8;
        candidate.phase = Phase::Yield;
        candidate.retry_at = cx.now.after_us(turn * self.pace.widen_us);
        // The next ballot is to be above it. To know of it is to have promised it, as far as this one is concerned.
        self.promise(promised, out);
    }

    /// What the parent would decide: the conditions are met, once and for all.
    pub(super) fn on_retirable(&mut self, cx: &Cx<'_>, token: u64, out: &mut Effects<Register>) {
        let newest = self.known.newest().clone();
        let epoch = newest.epoch();
        if self.succession.authority != Authority::Parent && self.known.single().is_none() {
            let everybody: Vec<NodeId> = self.known.nodes().to_vec();
            let owned = self.succession.owns(token);
            self.learn(cx, epoch, core::slice::from_ref(&newest), out);
            for node in everybody.into_iter().filter(|&node| node != self.me) {
                self.send(node, Body::Inform { stages: self.known.stages().to_vec() }, out);
            }
            if owned {
                return;
            }
        } else if self.succession.owns(token) {
            return;
        }
        self.tell(Answer::Retirable { token, epoch }, out);
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Configuration { epoch, members, quorum, .. } = &self.configuration;
        write!(f, "{:?} for {epoch:?} {members:?} {quorum:?}", self.ballot)
    }
}
