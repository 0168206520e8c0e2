//! Which configurations of a group a replica knows and does not know to be retired.
//!
//! There are one or two: the present one, and its successor while state moves there. A phase of an operation counts only
//! answers of members that knew exactly the same ones, and completes with quorums in each of them. So a member that
//! knows a successor stops, by its answer, every phase that does not; it redirects it.

use alloc::vec::Vec;
use core::fmt;

use crate::id::{Configuration, Epoch, NodeId};
use crate::quorum::QuorumSystem;

/// The epochs of the configurations that somebody knows and does not know to be retired. Travels with every message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct View {
    pub oldest: Epoch,
    pub newest: Epoch,
}

/// A configuration in the sequence that the group's parent decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage {
    pub configuration: Configuration,
    /// The latest epoch to which versions are moved before its predecessor is retired. If that is an earlier one, members
    /// are the same since and quorums were resized: versions stay where they are, and `reads_since` says what finds them.
    pub moved: Epoch,
    /// Larger sizes of read quorums that were in use up to an epoch, while the members were the same. A query whose highest
    /// version was renewed no later than such an epoch needs as many answers: the write quorums of that time may have been
    /// so small that this stage's read quorums miss them.
    pub reads_since: Vec<(Epoch, u8)>,
    /// Operations that began before this epoch are over: at members they have ended, and whoever else learns of this stage
    /// gives up what is left of them. Nobody who does not know it is heard by those who do.
    pub fence: Epoch,
}

/// Members of all known configurations, as a set of positions among [`Known::nodes`].
pub(super) type Nodes = u128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quorum {
    Read,
    Write,
}

impl Stage {
    /// The first configuration of a group.
    pub fn first(configuration: Configuration) -> Stage {
        let fence = configuration.epoch;
        Stage { moved: fence, configuration, reads_since: Vec::new(), fence }
    }

    /// What follows this stage, as the parent is to decide it.
    pub fn successor(&self, configuration: Configuration) -> Stage {
        let (old, new) = (&self.configuration, &configuration);
        assert!(new.epoch > old.epoch, "{new:?} follows {old:?}");
        let count = old.members.len();
        let (moved, fence) = (self.moved, self.fence);
        if old.members != new.members {
            return Stage { moved: new.epoch, configuration, reads_since: Vec::new(), fence };
        }
        match (old.quorum.sizes(count), new.quorum.sizes(count)) {
            (Some((read, _)), Some((read_new, _))) => {
                let mut reads_since = self.reads_since.clone();
                reads_since.push((old.epoch, read as u8));
                // Whatever is not larger is covered by this stage's own size, now and in the list of its successors.
                reads_since.retain(|&(_, size)| usize::from(size) > read_new);
                Stage { configuration, moved, reads_since, fence }
            }
            _ => {
                let moved = if old.quorum == new.quorum { moved } else { new.epoch };
                Stage { configuration, moved, reads_since: Vec::new(), fence }
            }
        }
    }

    /// What follows if all versions are to be written anew: afterwards no read needs an older size.
    pub fn renewal(&self, configuration: Configuration) -> Stage {
        Stage { moved: configuration.epoch, reads_since: Vec::new(), ..self.successor(configuration) }
    }

    /// With the word that all operations that began before `epoch` have ended at all members.
    #[must_use]
    pub fn fenced(self, epoch: Epoch) -> Stage {
        Stage { fence: self.fence.max(epoch), ..self }
    }

    pub fn epoch(&self) -> Epoch {
        self.configuration.epoch
    }

    /// Whether its predecessor's versions are to be moved here.
    pub fn moves(&self) -> bool {
        self.moved == self.epoch()
    }

    /// How many answers a query needs here, beside a read quorum, to find whatever was written since `renewed`.
    pub(super) fn read_size_since(&self, renewed: Epoch) -> usize {
        let sizes = self.reads_since.iter().filter(|(epoch, _)| *epoch >= renewed);
        sizes.map(|&(_, size)| usize::from(size)).max().unwrap_or(0)
    }

    /// Whom a query asks that expects a version of the past: as many as any of those needs.
    fn preferred_since(&self, turn: u64, avoid: u64) -> u64 {
        match self.read_size_since(Epoch(0)) as u8 {
            0 => 0,
            size => QuorumSystem::Threshold { read: size, write: size }.preferred_read(
                self.configuration.members.len(),
                turn,
                avoid,
            ),
        }
    }

    fn is_quorum(&self, quorum: Quorum, set: u64) -> bool {
        let count = self.configuration.members.len();
        match quorum {
            Quorum::Read => self.configuration.quorum.is_read_quorum(count, set),
            Quorum::Write => self.configuration.quorum.is_write_quorum(count, set),
        }
    }

    fn preferred(&self, quorum: Quorum, turn: u64, avoid: u64) -> u64 {
        let count = self.configuration.members.len();
        match quorum {
            Quorum::Read => self.configuration.quorum.preferred_read(count, turn, avoid),
            Quorum::Write => self.configuration.quorum.preferred_write(count, turn, avoid),
        }
    }
}

/// What a replica knows.
#[derive(Clone, Hash)]
pub(super) struct Known {
    /// By epoch. One or two.
    stages: Vec<Stage>,
    /// All members, in order, each once.
    nodes: Vec<NodeId>,
}

impl Known {
    pub(super) fn new(stages: Vec<Stage>) -> Known {
        let mut known = Known { stages, nodes: Vec::new() };
        known.check();
        known.collect_nodes();
        known
    }

    fn collect_nodes(&mut self) {
        self.nodes = self.stages.iter().flat_map(|stage| stage.configuration.members.iter().copied()).collect();
        self.nodes.sort();
        self.nodes.dedup();
    }

    pub(super) fn stages(&self) -> &[Stage] {
        &self.stages
    }

    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub(super) fn oldest(&self) -> &Stage {
        self.stages.first().expect("never empty")
    }

    pub(super) fn newest(&self) -> &Stage {
        self.stages.last().expect("never empty")
    }

    pub(super) fn view(&self) -> View {
        View { oldest: self.oldest().epoch(), newest: self.newest().epoch() }
    }

    /// The present configuration, if its successor is not known.
    pub(super) fn single(&self) -> Option<&Stage> {
        if self.stages.len() == 1 { self.stages.first() } else { None }
    }

    /// Takes over what somebody else knows: configurations below `oldest` are retired. True if that is news. Nonsense is
    /// told by `None`.
    pub(super) fn learn(&mut self, oldest: Epoch, told: &[Stage]) -> Option<bool> {
        let sound = told.first().is_some_and(|stage| stage.epoch() == oldest)
            && told.len() <= 2
            && told.is_sorted_by_key(Stage::epoch)
            && told.iter().all(is_sound);
        if !sound {
            return None;
        }
        let before = self.view();
        let oldest = oldest.max(before.oldest);
        let known = self.stages.iter().chain(told.iter().filter(|stage| stage.epoch() > before.newest));
        let merged: Vec<Stage> = known.filter(|stage| stage.epoch() >= oldest).cloned().collect();
        if merged.is_empty() || merged.len() > 2 {
            return None;
        }
        self.stages = merged;
        self.collect_nodes();
        Some(self.view() != before)
    }

    /// The set of this node only; empty for anybody else.
    pub(super) fn bit(&self, node: NodeId) -> Nodes {
        self.nodes.binary_search(&node).map_or(0, |position| 1 << position)
    }

    pub(super) fn members_of(&self, set: Nodes) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().enumerate().filter(move |(position, _)| set >> position & 1 == 1).map(|(_, &node)| node)
    }

    /// All members of a stage.
    pub(super) fn all_of(&self, stage: &Stage) -> Nodes {
        stage.configuration.members.iter().fold(0, |set, &node| set | self.bit(node))
    }

    pub(super) fn all(&self) -> Nodes {
        self.stages.iter().fold(0, |set, stage| set | self.all_of(stage))
    }

    /// The positions that a set has in a stage's configuration.
    pub(super) fn positions(&self, stage: &Stage, set: Nodes) -> u64 {
        let members = stage.configuration.members.iter().enumerate();
        members.filter(|(_, node)| set & self.bit(**node) != 0).fold(0, |set, (position, _)| set | 1 << position)
    }

    /// The members at these positions of a stage's configuration.
    pub(super) fn at(&self, stage: &Stage, positions: u64) -> Nodes {
        let members = stage.configuration.members.iter().enumerate();
        members.filter(|(position, _)| positions >> position & 1 == 1).fold(0, |set, (_, &node)| set | self.bit(node))
    }

    pub(super) fn is_quorum(&self, stage: &Stage, quorum: Quorum, set: Nodes) -> bool {
        stage.is_quorum(quorum, self.positions(stage, set))
    }

    pub(super) fn preferred(&self, stage: &Stage, quorum: Quorum, turn: u64, avoid: Nodes) -> Nodes {
        self.at(stage, stage.preferred(quorum, turn, self.positions(stage, avoid)))
    }

    pub(super) fn preferred_since(&self, stage: &Stage, turn: u64, avoid: Nodes) -> Nodes {
        self.at(stage, stage.preferred_since(turn, self.positions(stage, avoid)))
    }

    /// Whether these answers of a query hold the latest of what was written at any size since `renewed`.
    pub(super) fn is_wide_enough(&self, stage: &Stage, set: Nodes, renewed: Epoch) -> bool {
        self.positions(stage, set).count_ones() as usize >= stage.read_size_since(renewed)
    }

    pub(super) fn check(&self) {
        assert!(matches!(self.stages.len(), 1 | 2), "{} configurations", self.stages.len());
        assert!(self.stages.is_sorted_by(|one, next| one.epoch() < next.epoch()), "{:?}", self.stages);
        for stage in &self.stages {
            assert!(is_sound(stage), "{stage:?}");
        }
    }
}

/// Whether somebody could know these configurations of a group: one or two, the second of which succeeds the first.
pub fn are_sound(stages: &[Stage]) -> bool {
    let group = |stage: &Stage| stage.configuration.group;
    matches!(stages.len(), 1 | 2)
        && stages.is_sorted_by(|one, next| one.epoch() < next.epoch() && group(one) == group(next))
        && stages.iter().all(is_sound)
}

pub(super) fn is_sound(stage: &Stage) -> bool {
    let members = &stage.configuration.members;
    stage.configuration.quorum.fit(members.len()).is_ok()
        && stage.fence <= stage.epoch()
        && stage.moved <= stage.epoch()
        && stage.reads_since.iter().all(|&(epoch, size)| epoch < stage.epoch() && usize::from(size) <= members.len())
        && members.iter().enumerate().all(|(position, node)| !members[..position].contains(node))
}

impl View {
    /// Whether something is known here that is not known there.
    pub(super) fn is_ahead_of(self, other: View) -> bool {
        self.oldest > other.oldest || self.newest > other.newest
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "{:?}", self.newest)
        } else {
            write!(f, "{:?}+{:?}", self.oldest, self.newest)
        }
    }
}
