//! The nodes of the cluster as this one knows them: who the others are follows the directory, and `QUORATE NODE` changes it.

use quorate_protocol::NodeId;

use super::{Forgotten, Host, HostSettings};
use crate::answer::{AdminReply, Answer, Failure};
use crate::entry::Purpose;
use crate::root::{NodeRecord, PlaceCommand, RootCommand, RootState, Settings, root_members};

const USAGE: &str = "ERR QUORATE NODE LIST; QUORATE NODE ADD name PEER host:port CLIENT host:port ADMIN host:port; \
                     QUORATE NODE REMOVE name; QUORATE NODE SHOW|DRAIN|UNDRAIN name; QUORATE NODE LEVEL [STOP]; \
                     QUORATE NODE REPLACE AFTER [seconds|NEVER]";

/// How often the root is asked, until it has answered.
const BEGIN_AGAIN_US: u64 = 1_000_000;

/// Who lets a node in whose data directory is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Every other node: one of them may know an older directory.
    AllOthers,
    /// It is not known yet who the others are.
    ClusterIsAsked,
    /// The node was added, and the root is to note its directory.
    RootIsAsked,
    /// The root has noted it: there was none before.
    ByRoot,
    /// The root has noted another one.
    Never,
}

#[derive(Debug, PartialEq)]
pub(super) enum NodeRequest {
    List,
    /// Its number is for the root to give.
    Add(NodeRecord),
    Remove {
        name: String,
    },
}

/// The words behind `NODE`.
pub(super) fn parse(words: &[&str]) -> Result<NodeRequest, String> {
    try_parse(words).ok_or_else(|| USAGE.to_owned())
}

fn try_parse(words: &[&str]) -> Option<NodeRequest> {
    let (action, rest) = words.split_first()?;
    match (&action.to_ascii_uppercase()[..], rest) {
        ("LIST", []) => Some(NodeRequest::List),
        ("REMOVE", [name]) => Some(NodeRequest::Remove { name: (*name).to_owned() }),
        ("ADD", [name, rest @ ..]) => {
            let (options, []) = rest.as_chunks::<2>() else { return None };
            let (mut peer, mut client, mut admin) = (None, None, None);
            for [option, address] in options {
                let said = match &option.to_ascii_uppercase()[..] {
                    "PEER" => &mut peer,
                    "CLIENT" => &mut client,
                    "ADMIN" => &mut admin,
                    _ => return None,
                };
                if said.replace((*address).to_owned()).is_some() {
                    return None;
                }
            }
            let name = (*name).to_owned();
            Some(NodeRequest::Add(NodeRecord { id: 0, name, peer: peer?, client: client?, admin: admin? }))
        }
        _ => None,
    }
}

impl Host {
    pub(super) fn submit_node_request(&mut self, operation: u64, request: NodeRequest) {
        let command = match request {
            NodeRequest::List => {
                let told = self.directory.state().map(|state| self.list_nodes(state));
                return self.answers.push((operation, told.map_or(Answer::Failed(Failure::Loading), Answer::Admin)));
            }
            NodeRequest::Add(node) => PlaceCommand::AddNode { node },
            NodeRequest::Remove { .. } if self.directory.state().is_none() => {
                return self.answers.push((operation, Answer::Failed(Failure::Loading)));
            }
            NodeRequest::Remove { name } => match self.removable(&name) {
                Ok(node) => return self.begin_removal(operation, node),
                Err(line) => return self.answers.push((operation, Answer::Admin(AdminReply::Error(line)))),
            },
        };
        self.submit_to_root(&RootCommand::Place(command), Purpose::Admin { operation });
    }

    /// The number of a node that is gone, as far as this one can tell. Whether anything is left on it, the root and the volumes know.
    fn removable(&self, name: &str) -> Result<u32, String> {
        let nodes = self.known_nodes();
        let Some(node) = nodes.iter().find(|node| node.name == name) else {
            return Err(format!("ERR no node is called {name}: QUORATE NODE LIST shows those that there are"));
        };
        let id = NodeId(node.id);
        if id == self.settings.node {
            return Err(format!("ERR {name} is this node: stop it, and ask another one"));
        }
        if self.linked.contains(&id) || !self.peers.is_unheard(id) {
            return Err(format!(
                "ERR {name} is live, or was a moment ago: stop it first, and remove it when QUORATE NODE LIST shows it as suspected or absent"
            ));
        }
        Ok(node.id)
    }

    fn list_nodes(&self, state: &RootState) -> AdminReply {
        let text = |text: &str| AdminReply::Text(text.to_owned());
        let yes = |is_so: bool| text(if is_so { "yes" } else { "no" });
        let members = state.root_members();
        let entry = |node: &NodeRecord| {
            let id = NodeId(node.id);
            AdminReply::Map(vec![
                ("number".into(), AdminReply::Int(node.id.into())),
                ("name".into(), text(&node.name)),
                ("state".into(), text(self.node_state(id).word())),
                ("peer".into(), text(&node.peer)),
                ("client".into(), text(&node.client)),
                ("admin".into(), text(&node.admin)),
                ("volumes".into(), AdminReply::Int(state.volumes_on(node.id) as i64)),
                ("root".into(), yes(members.contains(&id))),
                ("draining".into(), yes(state.is_draining(node.id))),
            ])
        };
        AdminReply::List(state.nodes.iter().map(entry).collect())
    }
}

/// Who the other nodes are.
impl Host {
    /// As the directory says or, as long as there is none, the configuration; and those that the root is on, as others have told.
    pub fn known_nodes(&self) -> &[NodeRecord] {
        self.directory.nodes()
    }

    /// Rises when other nodes are known, or others are said of them.
    pub fn known_nodes_version(&self) -> u64 {
        self.directory.nodes_version()
    }

    pub(super) fn root_members(&self) -> Vec<NodeId> {
        match self.directory.state() {
            Some(_) => self.directory.root_group().record.member_ids().collect(),
            None => root_members(&self.settings.nodes),
        }
    }

    /// Whether this node is one of the cluster, as far as it knows.
    pub fn is_of_cluster(&self) -> bool {
        self.known_nodes().iter().any(|node| node.id == self.settings.node.0)
    }

    fn is_heard(&self, node: NodeId) -> bool {
        node == self.settings.node || !self.peers.is_unheard(node)
    }

    /// How many nodes are heard of, and of how many. One that was never started and has no part in anything is no loss.
    pub(super) fn count_heard(&self) -> (usize, usize) {
        let nodes = self.known_nodes();
        let heard = nodes.iter().filter(|node| self.is_heard(NodeId(node.id))).count();
        let counts = |node: &&NodeRecord| self.is_counted(node.id) || self.is_heard(NodeId(node.id));
        (heard, nodes.iter().filter(counts).count())
    }

    /// Whether a node counts also where nothing is known of it.
    fn is_counted(&self, node: u32) -> bool {
        self.directory.state().is_none() || self.directory.has_part(node)
    }

    pub(super) fn is_peer(&self, node: NodeId) -> bool {
        !self.gone.contains(&node) && self.peers.nodes().any(|peer| peer == node)
    }

    /// What a namespace gets that says nothing else: no more replicas than there are nodes.
    pub(super) fn default_settings(&self) -> Settings {
        let defaults = self.settings.defaults;
        let nodes = u8::try_from(self.known_nodes().len()).unwrap_or(u8::MAX);
        Settings { replicas: defaults.replicas.min(nodes), ..defaults }
    }

    /// Meets the nodes that are new here, and parts from those that are there no more.
    pub(super) fn follow_nodes(&mut self) {
        let me = self.settings.node;
        let nodes: Vec<NodeId> = self.known_nodes().iter().map(|node| NodeId(node.id)).collect();
        for &node in nodes.iter().filter(|node| **node != me) {
            self.peers.add(node, self.clock.now());
            self.outbox.add(node);
        }
        // One that the root was to be on may be known, then not, and then for good.
        self.gone.retain(|node| !nodes.contains(node));
        let is_gone = |node: &NodeId| !nodes.contains(node) && !self.gone.contains(node);
        let gone: Vec<NodeId> = self.peers.nodes().filter(is_gone).collect();
        gone.into_iter().for_each(|node| self.part_from(node));
        let counted = nodes.iter().copied().filter(|node| *node != me && self.is_counted(node.0)).collect();
        self.walls.count(counted, |node| nodes.contains(&node));
        self.judge_clock();
    }

    /// Nothing is said to the node and nothing heard of it any more. What it was promised holds for as long as it may believe it.
    fn part_from(&mut self, node: NodeId) {
        if self.linked.contains(&node) {
            self.linked.retain(|&linked| linked != node);
            self.tell_registers_of_link(node, false);
        }
        self.outbox.remove(node);
        self.levels.remove(&node);
        self.gone.push(node);
    }

    /// Each heartbeat of a node that was added and has said nothing yet: the root is to note its data directory, if there was none.
    pub(super) fn seek_begin(&mut self) {
        let now = self.clock.now();
        let is_time = self.begin_asked_at.is_none_or(|at| at.after_us(BEGIN_AGAIN_US) <= now);
        if self.admission() != Admission::RootIsAsked || !is_time {
            return;
        }
        self.begin_asked_at = Some(now);
        let command = PlaceCommand::Begin { node: self.settings.node.0, directory: self.settings.log.log_id };
        self.submit_to_root(&RootCommand::Place(command), Purpose::Settling);
        self.ask_for_directory_anew();
    }

    /// What a new data directory waits for before its node says anything.
    pub fn admission(&self) -> Admission {
        let HostSettings { node, joins, is_new, forgotten, log, .. } = &self.settings;
        let Some(state) = self.directory.state() else {
            return if *joins { Admission::ClusterIsAsked } else { Admission::AllOthers };
        };
        let is_founder = state.founders().iter().any(|founder| founder.id == node.0);
        if !joins || !is_new || is_founder || *forgotten == Forgotten::Everything {
            return Admission::AllOthers;
        }
        match state.placement.begun.get(&node.0) {
            None => Admission::RootIsAsked,
            Some(directory) if *directory == log.log_id => Admission::ByRoot,
            Some(_) => Admission::Never,
        }
    }

    /// Each heartbeat: whoever has been silent for as long as suspicion takes holds no grant of this node, and gave none that lasts.
    pub(super) fn forget_gone(&mut self) {
        let over: Vec<NodeId> = self.gone.iter().copied().filter(|&node| self.peers.is_unheard(node)).collect();
        for node in over {
            self.gone.retain(|&gone| gone != node);
            self.peers.remove(node);
            self.recovered_at.remove(&node);
            self.suspected_at.remove(&node);
            self.seen.remove(&node);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::group_state::GroupState;
    use crate::host::three_nodes::{Cluster, arrives, settings};
    use crate::machine::Content;
    use crate::readiness::Readiness;
    use crate::root::ROOT;

    const ADD: &str = "NODE ADD n4 PEER n4:1 CLIENT n4:2 ADMIN n4:3";

    fn parsed(line: &str) -> Result<NodeRequest, String> {
        parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn refusal(answer: Answer) -> String {
        let Answer::Admin(AdminReply::Error(line)) = answer else { panic!("{answer:?}") };
        line
    }

    fn numbers(nodes: impl Iterator<Item = NodeId>) -> Vec<u32> {
        nodes.map(|node| node.0).collect()
    }

    /// Four nodes, of which the last was added and has joined.
    pub(in crate::host) fn joined() -> Cluster {
        let mut cluster = Cluster::new(|_| {});
        assert_eq!(cluster.say(2, ADD), Answer::Admin(AdminReply::Int(4)));
        cluster.join(HostSettings { joins: true, is_new: true, ..settings(NodeId(4), 4) });
        for id in 1..=3 {
            cluster.node(id).host.linked(NodeId(4));
            cluster.node(4).host.linked(NodeId(id));
        }
        cluster.pass(2_000, arrives);
        assert!(cluster.node(4).host.directory().is_some(), "it is told before it is let in");
        cluster.node(4).host.admit();
        cluster.pass(2_000, arrives);
        cluster
    }

    #[test]
    fn each_word_on_nodes_is_understood() {
        let node =
            NodeRecord { id: 0, name: "n4".into(), peer: "n4:1".into(), client: "n4:2".into(), admin: "n4:3".into() };
        assert_eq!(parsed("LIST"), Ok(NodeRequest::List));
        assert_eq!(parsed("remove n4"), Ok(NodeRequest::Remove { name: "n4".into() }));
        assert_eq!(parsed("ADD n4 PEER n4:1 CLIENT n4:2 ADMIN n4:3"), Ok(NodeRequest::Add(node.clone())));
        assert_eq!(parsed("add n4 admin n4:3 peer n4:1 client n4:2"), Ok(NodeRequest::Add(node)));
        for line in [
            "",
            "LIST x",
            "REMOVE",
            "REMOVE a b",
            "ADD",
            "ADD n4",
            "ADD n4 PEER a:1 CLIENT a:2",
            "ADD n4 PEER a:1 PEER a:2 CLIENT a:2 ADMIN a:3",
            "ADD n4 PEER a:1 CLIENT a:2 ADMIN",
            "ADD n4 PEER a:1 CLIENT a:2 ADMIN a:3 ID 4",
        ] {
            assert_eq!(parsed(line), Err(USAGE.to_owned()), "{line}");
        }
    }

    #[test]
    fn a_node_that_was_added_joins_with_nothing_and_serves() {
        let mut cluster = joined();
        for id in 1..=4 {
            let host = &cluster.node(id).host;
            assert_eq!(host.known_nodes().len(), 4, "node {id}");
            assert_eq!(host.readiness(), Readiness::Ready, "node {id}");
            assert_eq!(numbers(host.peers()).len(), 3, "node {id}");
            assert_eq!(host.root_members(), [1, 2, 3].map(NodeId), "node {id}");
        }
        assert_eq!(cluster.node(4).host.groups().count(), 0);
        let written = cluster.write(4, b"value");
        cluster.pass(2_000, arrives);
        assert!(cluster.is_done(4, written));
        let Answer::Admin(AdminReply::List(listed)) = cluster.say(4, "NODE LIST") else { panic!("no list") };
        let fields = |at: usize| match &listed[at] {
            AdminReply::Map(fields) => {
                fields.iter().map(|(name, value)| format!("{name}={value:?}")).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(listed.len(), 4);
        let first = fields(0).join(" ");
        assert!(first.contains("volumes=Int(1)") && first.contains("root=Text(\"yes\")"), "{first}");
        let last = fields(3).join(" ");
        assert!(last.contains("number=Int(4)") && last.contains("peer=Text(\"n4:1\")"), "{last}");
        assert!(last.contains("volumes=Int(0)") && last.contains("root=Text(\"no\")"), "{last}");
        assert!(last.contains("state=Text(\"live\")") && last.contains("draining=Text(\"no\")"), "{last}");
        // A node that was restarted knows it from what it has stored.
        cluster.restart(1);
        assert!(cluster.node(1).host.is_peer(NodeId(4)));
        assert_eq!(cluster.node(1).host.known_nodes().len(), 4);
    }

    #[test]
    fn a_node_that_was_added_begins_once_the_root_has_noted_its_directory_also_while_others_are_down() {
        let mut cluster = Cluster::new(|_| {});
        assert_eq!(cluster.say(2, ADD), Answer::Admin(AdminReply::Int(4)));
        cluster.node(3).is_down = true;
        let fourth = |log_id| {
            let mut settings = HostSettings { joins: true, is_new: true, ..settings(NodeId(4), 4) };
            (settings.log.log_id, settings.start) = (log_id, log_id as u32);
            settings
        };
        cluster.join(fourth(7));
        let link = |cluster: &mut Cluster| {
            for id in 1..=2 {
                cluster.node(id).host.linked(NodeId(4));
                cluster.node(4).host.linked(NodeId(id));
            }
        };
        link(&mut cluster);
        assert_eq!(cluster.node(4).host.admission(), Admission::ClusterIsAsked);
        cluster.pass(3_000, arrives);
        assert_eq!(cluster.node(4).host.admission(), Admission::ByRoot);
        cluster.node(4).host.admit();
        cluster.pass(1_000, arrives);
        let written = cluster.write(4, b"value");
        cluster.pass(2_000, arrives);
        assert!(cluster.is_done(4, written));
        // Its directory is emptied: another one has another number.
        cluster.nodes.pop();
        cluster.join(fourth(8));
        link(&mut cluster);
        cluster.pass(3_000, arrives);
        assert_eq!(cluster.node(4).host.admission(), Admission::Never);
        // One that is said to take its place is let in by all, as where nodes were not added.
        cluster.node(4).host.settings.forgotten = Forgotten::Everything;
        assert_eq!(cluster.node(4).host.admission(), Admission::AllOthers);
        assert_eq!(cluster.node(1).host.admission(), Admission::AllOthers);
    }

    #[test]
    fn nodes_that_were_never_started_keep_nobody_from_serving() {
        let mut cluster = Cluster::new(|_| {});
        for number in 4..=9 {
            let line = ADD.replace("n4", &format!("n{number}"));
            assert_eq!(cluster.say(1, &line), Answer::Admin(AdminReply::Int(number)));
        }
        assert_eq!([1, 2, 3].map(|id| cluster.node(id).host.readiness()), [Readiness::Ready; 3]);
        let written = cluster.write(1, b"value");
        cluster.pass(2_000, arrives);
        assert!(cluster.is_done(1, written));
        cluster.node(2).is_down = true;
        cluster.node(3).is_down = true;
        cluster.pass(2_000, arrives);
        assert_eq!(cluster.node(1).host.readiness(), Readiness::CutOff);
    }

    #[test]
    fn a_node_that_was_removed_is_forgotten_once_no_lease_can_last() {
        let mut cluster = joined();
        let line = refusal(cluster.say(1, "NODE REMOVE n4"));
        assert!(line.contains("n4 is live") && line.contains("stop it first"), "{line}");
        let line = refusal(cluster.say(1, "NODE REMOVE n9"));
        assert!(line.contains("no node is called n9"), "{line}");
        let line = refusal(cluster.say(1, "NODE REMOVE n1"));
        assert!(line.contains("n1 is this node"), "{line}");
        cluster.node(4).is_down = true;
        (1..=3).for_each(|id| cluster.node(id).host.unlinked(NodeId(4)));
        cluster.pass(1_000, arrives);
        assert_eq!(cluster.say(1, "NODE REMOVE n4"), Answer::Admin(AdminReply::Ok));
        cluster.pass(2_000, arrives);
        for id in 1..=3 {
            let host = &cluster.node(id).host;
            assert_eq!((host.known_nodes().len(), numbers(host.peers()).len()), (3, 2), "node {id}");
            assert!(host.gone.is_empty() && !host.is_peer(NodeId(4)));
            assert_eq!(host.readiness(), Readiness::Ready);
        }
        // What it says is nothing to anybody, should a frame of it arrive.
        let nonsense = cluster.node(1).host.counters.nonsense;
        cluster.node(4).is_down = false;
        cluster.pass(1_000, arrives);
        assert!(cluster.node(1).host.counters.nonsense > nonsense);
        assert_eq!(cluster.node(4).host.readiness(), Readiness::CutOff);
    }

    #[test]
    fn a_node_that_goes_while_a_grant_may_last_is_parted_from_at_once_and_forgotten_later() {
        let mut cluster = joined();
        let state = cluster.node(2).host.directory().expect("known").clone();
        let (mut without, host) = (state, &mut cluster.node(1).host);
        without.nodes.retain(|node| node.id != 4);
        host.directory.set(without);
        host.follow_nodes();
        let now = host.clock.now();
        assert!(!host.is_peer(NodeId(4)) && numbers(host.peers()).contains(&4));
        assert!(host.peers.bound_until(NodeId(4), now).is_some(), "it may still believe in its grant");
        cluster.pass(400, arrives);
        assert!(numbers(cluster.node(1).host.peers()).contains(&4));
        cluster.pass(400, arrives);
        let host = &cluster.node(1).host;
        assert!(!numbers(host.peers()).contains(&4) && host.gone.is_empty());
    }

    #[test]
    fn a_member_of_the_root_that_lost_its_directory_after_nodes_have_come_joins_again() {
        let mut cluster = joined();
        cluster.node(3).host.settings.joins = true;
        cluster.replace_directory_unmet(3);
        cluster.node(3).host.linked(NodeId(4));
        assert!(cluster.node(3).host.find(ROOT).is_none(), "it is not known yet who the root's members are");
        cluster.pass(2_000, arrives);
        assert_eq!(cluster.node(3).host.root_state(), Some(GroupState::Forgetful));
        cluster.node(3).host.admit();
        cluster.pass(5_000, arrives);
        let host = &cluster.node(3).host;
        assert_eq!(host.root_state(), Some(GroupState::Alive));
        assert_eq!(host.readiness(), Readiness::Ready);
        let root = |host: &Host| {
            let group = host.groups().find(|group| group.id() == ROOT).expect("it has one");
            let Content::Root(state) = group.machine.content() else { panic!("it is the root") };
            (**state).clone()
        };
        assert_eq!(root(&cluster.node(3).host), root(&cluster.node(1).host));
    }

    #[test]
    fn a_node_whose_own_directory_says_that_it_was_removed_does_not_start() {
        let mut cluster = joined();
        let mut without = cluster.node(4).host.directory().expect("known").clone();
        without.nodes.retain(|node| node.id != 4);
        cluster.node(4).host.directory.set(without.clone());
        assert_eq!(cluster.node(4).host.readiness(), Readiness::Removed);
        let mut batch = quorate_checkpoint::Batch::new();
        batch.put_node_record(crate::host::directory::RECORD, without.encode());
        let node = cluster.node(4);
        quorate_checkpoint::Store::apply(&mut node.store, batch).expect("it has room");
        let moment = crate::Moment { now: node.host.clock.now(), wall: quorate_protocol::Stamp(1_700_000_000_000) };
        let settings = HostSettings { start: 2, forgotten: Forgotten::Memory, ..node.host.settings().clone() };
        let refused = Host::open(settings, &node.storage, &node.store, moment).map(drop).expect_err("it is no node");
        assert!(refused.to_string().contains("n4 was removed from the cluster"), "{refused}");
    }
}
