//! The root's replicas: born with the cluster, or of a node that has joined one of which it is a founder.

use quorate_checkpoint::Batch;
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::{Configuration, GroupId, NodeId};

use super::checkpoints::Stored;
use super::directory::Directory;
use super::dispatch::ROOT_EPOCH;
use super::group::{Group, ROOT_NAMESPACE};
use super::{Host, HostSettings};
use crate::machine::{Content, Machine};
use crate::replica::Protocol;
use crate::root::{Durability, NodeRecord, ROOT, RootState, root_members};

impl Host {
    /// The root's first members are born with the cluster; where there is one already, its nodes are asked.
    pub(super) fn bear_root(&mut self) {
        if self.settings.joins || self.directory.state().is_some() {
            return;
        }
        let mut batch = Batch::new();
        let founders = self.settings.nodes.clone();
        let births: Vec<GroupId> =
            self.bear_root_among(root_members(&founders), founders, &mut batch).into_iter().collect();
        if !births.is_empty() {
            self.store(batch, Stored::Directory { births, dropped: Vec::new() });
        }
    }

    /// Of a node that has joined with a new directory: one of the root's members had none yet, or has lost it.
    pub(super) fn bear_root_of(&mut self, state: &RootState, batch: &mut Batch) -> Option<GroupId> {
        let is_due = self.settings.joins && self.settings.is_new;
        is_due.then(|| self.bear_root_among(state.root_members(), state.founders().to_vec(), batch)).flatten()
    }

    fn bear_root_among(
        &mut self,
        members: Vec<NodeId>,
        founders: Vec<NodeRecord>,
        batch: &mut Batch,
    ) -> Option<GroupId> {
        let configuration = root_configuration(members);
        if !configuration.contains(self.settings.node) || self.find(ROOT).is_some() {
            return None;
        }
        let state = RootState::bootstrap(founders, self.settings.defaults, self.settings.cluster);
        let machine = Machine::new(Content::Root(Box::new(state)));
        let group = Group::new(
            Protocol::Paxos,
            configuration,
            ROOT_NAMESPACE,
            Durability::Sync,
            [0; 16],
            machine,
            self.settings.node,
        );
        Some(self.bear(group, batch))
    }
}

pub(super) fn root_configuration(members: Vec<NodeId>) -> Configuration {
    Configuration { group: ROOT, epoch: ROOT_EPOCH, members: members.into(), quorum: QuorumSystem::Majority }
}

/// As the directory says, if there is one.
pub(super) fn members_of_root(settings: &HostSettings, directory: &Directory) -> Vec<NodeId> {
    directory.state().map_or_else(|| root_members(&settings.nodes), RootState::root_members)
}
