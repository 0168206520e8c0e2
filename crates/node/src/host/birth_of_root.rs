//! The root's replicas: born with the cluster, or of a node that takes a seat there, or that has joined a cluster of which it is a founder.

use quorate_checkpoint::Batch;
use quorate_protocol::{Configuration, GroupId};

use super::Host;
use super::checkpoints::Stored;
use super::group::{Group, ROOT_NAMESPACE};
use super::seats::{seated, takes_a_seat};
use crate::group_state::GroupState;
use crate::machine::{Content, Machine};
use crate::replica::Protocol;
use crate::root::{Durability, NodeRecord, ROOT, RootGroup, RootState};

impl Host {
    /// The root's first members are born with the cluster; where there is one already, its nodes are asked.
    pub(super) fn bear_root(&mut self) {
        let has_heard = self.directory.root_group().version > 0;
        if self.settings.joins || has_heard {
            return;
        }
        let mut batch = Batch::new();
        let founders = self.settings.nodes.clone();
        let configuration = seated(&self.directory.root_group().record, None, self.settings.node);
        if configuration.contains(self.settings.node) && self.find(ROOT).is_none() {
            let births = vec![self.bear_first_root(configuration, founders, &mut batch)];
            self.store(batch, Stored::Directory { births, dropped: Vec::new() });
        }
    }

    /// Of a node that takes a seat there; or that has joined with a new directory, and was one of the root's first members.
    pub(super) fn bear_root_of(&mut self, state: &RootState, batch: &mut Batch) -> Option<GroupId> {
        let (me, RootGroup { version, record, seats, .. }) = (self.settings.node, state.root_group());
        let known = self.directory.root_group();
        let is_newest = known.version <= version || known.is_same(&state.root_group());
        if !is_newest || !record.lives_on(me, Protocol::Paxos) || self.find(ROOT).is_some() {
            return None;
        }
        let configuration = seated(&record, Some(&seats), me);
        if takes_a_seat(&record, Some(&seats), me) {
            let mut group = self.root_replica(configuration, RootState::empty());
            self.seats.born.insert(ROOT);
            group.state = GroupState::Forgetful;
            group.replica.restored();
            return Some(self.bear(group, batch));
        }
        if !self.settings.joins {
            return None;
        }
        let id = self.bear_first_root(configuration, state.founders().to_vec(), batch);
        // A node that was let in may have said something before.
        if let Some(index) = self.find(ROOT).filter(|_| !self.settings.is_new) {
            let group = &mut self.groups[index as usize];
            group.state = GroupState::Forgetful;
            group.replica.restored();
        }
        Some(id)
    }

    /// With the state that all members began with.
    fn bear_first_root(
        &mut self,
        configuration: Configuration,
        founders: Vec<NodeRecord>,
        batch: &mut Batch,
    ) -> GroupId {
        let state = RootState::bootstrap(founders, self.settings.defaults, self.settings.cluster);
        let group = self.root_replica(configuration, state);
        self.bear(group, batch)
    }

    fn root_replica(&self, configuration: Configuration, state: RootState) -> Group {
        let machine = Machine::new(Content::Root(Box::new(state)));
        let me = self.settings.node;
        Group::new(Protocol::Paxos, configuration, ROOT_NAMESPACE, Durability::Sync, [0; 16], machine, me)
    }
}
