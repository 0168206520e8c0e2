//! Nodes that come and go: see docs/decisions/0032-nodes-come-and-go.md.

use std::collections::BTreeSet;

use quorate_object::Outcome;
use quorate_protocol::NodeId;

use super::{GroupRecord, Namespace, NodeRecord, ROOT, RootState, error, root_members};
use crate::quorum::Quorum;
use crate::replica::Protocol;

/// The most nodes a cluster may have.
pub const NODES_MAX: usize = 64;
/// The longest name of a node.
pub const NAME_LENGTH_MAX: usize = 64;
/// The longest address of a node.
const ADDRESS_LENGTH_MAX: usize = 262;

/// A name is a word in commands and lists of names: `QUORATE GROUP MOVE key MEMBERS n1,n2`.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_LENGTH_MAX || !name.chars().all(is_plain) {
        return Err(format!("{name:?} cannot be a name; use 1 to {NAME_LENGTH_MAX} letters, digits, '-', '_' and '.'"));
    }
    Ok(())
}

/// `host:port`, as in a configuration file.
fn check_address(address: &str) -> Result<(), String> {
    let is_sound = |(host, port): (&str, &str)| {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match bare {
            Some(host) => !host.is_empty(),
            None => !host.is_empty() && !host.contains(':'),
        };
        is_host && !address.contains(char::is_whitespace) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    match address.len() <= ADDRESS_LENGTH_MAX && address.rsplit_once(':').is_some_and(is_sound) {
        true => Ok(()),
        false => Err(format!("an address is host:port, as in \"10.0.0.1:7000\", not {address:?}")),
    }
}

impl NodeRecord {
    pub fn addresses(&self) -> [&str; 3] {
        [&self.peer, &self.client, &self.admin]
    }

    /// What the two nodes have in common and must not, if anything.
    fn shared_with(&self, other: &NodeRecord) -> Option<String> {
        if self.id == other.id {
            return Some(format!("the number {}", self.id));
        }
        if self.name == other.name {
            return Some(format!("the name {}", self.name));
        }
        let shared = self.addresses().into_iter().find(|address| other.addresses().contains(address));
        shared.map(|address| format!("the address {address}"))
    }
}

impl RootState {
    pub fn node(&self, id: u32) -> Option<&NodeRecord> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Who the root's members are, whatever nodes have come since.
    pub fn root_members(&self) -> Vec<NodeId> {
        match (&self.placement.root_record, &self.placement.root[..]) {
            (Some(record), _) => record.member_ids().collect(),
            (None, []) => root_members(&self.nodes),
            (None, members) => members.iter().copied().map(NodeId).collect(),
        }
    }

    /// The root's own group.
    pub fn root_record(&self) -> GroupRecord {
        let born = || {
            let members = self.root_members().into_iter().map(|node| node.0).collect();
            GroupRecord::new(Protocol::Paxos, ROOT, members, Quorum::Majority)
        };
        self.placement.root_record.clone().unwrap_or_else(born)
    }

    /// The nodes that the cluster was made with.
    pub fn founders(&self) -> &[NodeRecord] {
        if self.has_changed_nodes() { &self.placement.founders } else { &self.nodes }
    }

    /// Whether nodes have come or gone.
    pub fn has_changed_nodes(&self) -> bool {
        !self.placement.root.is_empty()
    }

    /// The number of the next node: it and all above it were never given.
    pub fn node_next(&self) -> u32 {
        let above = self.nodes.iter().map(|node| node.id.saturating_add(1)).max().unwrap_or(1);
        above.max(self.placement.node_next)
    }

    /// Whether there was a node of this number, which there is not any more.
    pub fn has_removed(&self, id: u32) -> bool {
        id > 0 && id < self.placement.node_next && self.node(id).is_none()
    }

    /// Nodes on which the root or a volume has a replica, or may come to have one.
    pub(crate) fn with_part(&self) -> BTreeSet<u32> {
        let root = self.root_record();
        root.named().chain(self.volumes().flat_map(|(_, _, volume)| volume.named())).collect()
    }

    /// How many volumes have a replica on a node.
    pub fn volumes_on(&self, node: u32) -> usize {
        self.volumes().filter(|(_, _, volume)| volume.members.contains(&node)).count()
    }

    /// A node of number 0 is given the next one.
    pub(super) fn add_node(&mut self, node: &NodeRecord) -> Outcome {
        let is_same = |known: &&NodeRecord| {
            let node = NodeRecord { id: if node.id == 0 { known.id } else { node.id }, ..node.clone() };
            **known == node
        };
        // It had no answer, and asks again.
        if let Some(known) = self.nodes.iter().find(is_same) {
            return Outcome::Int(known.id.into());
        }
        let next = self.node_next();
        let node = NodeRecord { id: if node.id == 0 { next } else { node.id }, ..node.clone() };
        if let Err(reason) = self.check_node(&node) {
            return error(&reason);
        }
        self.freeze();
        self.placement.node_next = next + 1;
        let id = node.id;
        self.nodes.push(node);
        self.nodes.sort_by_key(|node| node.id);
        self.version += 1;
        Outcome::Int(id.into())
    }

    fn check_node(&self, node: &NodeRecord) -> Result<(), String> {
        check_name(&node.name)?;
        node.addresses().into_iter().try_for_each(check_address)?;
        let [peer, client, admin] = node.addresses();
        if peer == client || peer == admin || client == admin {
            return Err("PEER, CLIENT and ADMIN are three addresses: one node listens on each of them".to_owned());
        }
        let shared = self.nodes.iter().find_map(|known| Some((node.shared_with(known)?, &known.name)));
        if let Some((what, name)) = shared {
            return Err(format!("{name} has {what}: each node needs its own"));
        }
        let next = self.node_next();
        if node.id != next {
            return Err(format!("the next node has the number {next}, not {}: no number is given twice", node.id));
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(format!("there are {NODES_MAX} nodes already: remove one first"));
        }
        // No number is given that could not be followed by another one.
        if next == u32::MAX {
            return Err("all numbers of nodes have been given".to_owned());
        }
        Ok(())
    }

    pub(super) fn remove_node(&mut self, id: u32, asked_below: u64) -> Outcome {
        let Some(node) = self.node(id) else {
            // It had no answer, and asks again.
            return if self.has_removed(id) { Outcome::Ok } else { error(&format!("no node has the number {id}")) };
        };
        let name = node.name.clone();
        if self.root_record().names(id) {
            let way_out = format!("QUORATE NODE DRAIN {name} has another node take its place");
            return error(&format!(
                "{name} is a member of the root, or is to be one, which decides what nodes and volumes there are: {}",
                self.root_stays(id).unwrap_or(&way_out)
            ));
        }
        let named = self.volumes().filter(|(_, _, volume)| volume.names(id)).count();
        if named > 0 {
            let volumes = if named == 1 { "1 volume has".to_owned() } else { format!("{named} volumes have") };
            return error(&format!(
                "{volumes} a replica on {name}, or may come to have one: QUORATE NODE DRAIN {name} moves them to others"
            ));
        }
        // Numbers of groups are given in order: whoever knew of the last one knew of all before it.
        let is_unasked = |volume: &GroupRecord| volume.group >= asked_below;
        let is_paxos = |namespace: &Namespace| namespace.settings.protocol == Protocol::Paxos;
        if self.volumes().any(|(_, namespace, volume)| is_paxos(namespace) && is_unasked(volume)) {
            return error(&format!(
                "there are volumes that were not asked whether own groups have members on {name}: ask again in a moment"
            ));
        }
        self.freeze();
        self.placement.draining.retain(|&node| node != id);
        self.placement.absent.retain(|&node| node != id);
        self.placement.begun.remove(&id);
        if let Some(upgrade) = &mut self.upgrade {
            upgrade.done.retain(|&node| node != id);
            upgrade.batch.retain(|&node| node != id);
        }
        self.nodes.retain(|node| node.id != id);
        self.version += 1;
        Outcome::Ok
    }

    /// The first directory that a node which was added says it has is the one.
    pub(super) fn begin_node(&mut self, id: u32, directory: u64) -> Outcome {
        let is_founder = self.founders().iter().any(|founder| founder.id == id);
        match (self.node(id), self.placement.begun.get(&id)) {
            (None, _) => error(&format!("no node has the number {id}")),
            (Some(node), None) if is_founder => error(&format!("{} has been there from the start", node.name)),
            (Some(_), Some(&known)) if known == directory => Outcome::Ok,
            (Some(node), Some(_)) => error(&format!("{} has begun with another data directory", node.name)),
            (Some(_), None) => {
                self.placement.begun.insert(id, directory);
                self.version += 1;
                Outcome::Ok
            }
        }
    }

    /// From the first change on, which nodes there are says no more what the root was born with, nor which numbers were given.
    fn freeze(&mut self) {
        if self.placement.root.is_empty() {
            self.placement.founders = self.nodes.clone();
            self.placement.root = self.root_members().into_iter().map(|node| node.0).collect();
        }
        self.placement.node_next = self.node_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{PlaceCommand, RootCommand, Settings};

    fn record(id: u32) -> NodeRecord {
        let at = |port: u32| format!("127.0.0.1:{}", port + id);
        NodeRecord { id, name: format!("n{id}"), peer: at(17_000), client: at(7_000), admin: at(8_000) }
    }

    fn cluster(nodes: u32) -> RootState {
        RootState::bootstrap((1..=nodes).map(record).collect(), Settings::default(), 7)
    }

    fn add(root: &mut RootState, node: NodeRecord) -> Outcome {
        root.execute(&RootCommand::Place(PlaceCommand::AddNode { node }), 1)
    }

    fn remove(root: &mut RootState, node: u32) -> Outcome {
        root.execute(&RootCommand::Place(PlaceCommand::RemoveNode { node, asked_below: u64::MAX }), 1)
    }

    /// What is said where nothing is changed.
    fn refusal(root: &mut RootState, execute: impl Fn(&mut RootState) -> Outcome) -> String {
        let before = root.clone();
        let Outcome::Error(line) = execute(root) else { panic!("not refused") };
        assert_eq!(*root, before);
        line
    }

    fn ids(root: &RootState) -> Vec<u32> {
        root.nodes.iter().map(|node| node.id).collect()
    }

    #[test]
    fn who_the_root_s_members_are_stays_as_it_was_when_nodes_come_and_go() {
        let mut root = cluster(4);
        let first: Vec<NodeId> = [1, 2, 3].map(NodeId).into();
        assert_eq!(root.root_members(), first);
        assert_eq!(add(&mut root, record(5)), Outcome::Int(5));
        assert_eq!(root.root_members(), first, "five nodes from the start have five");
        assert_eq!(root_members(&root.nodes).len(), 5);
        let restored = RootState::decode(&root.encode()).expect("it was encoded");
        assert_eq!((restored.root_members(), restored.node_next()), (first.clone(), 6));
        assert_eq!((restored.founders().len(), restored.nodes.len()), (4, 5));
        assert_eq!(remove(&mut root, 5), Outcome::Ok);
        assert_eq!((root.root_members(), ids(&root)), (first, vec![1, 2, 3, 4]));
        let mut root = cluster(6);
        root.namespaces.clear();
        assert_eq!(remove(&mut root, 6), Outcome::Ok);
        assert_eq!(root.root_members(), [1, 2, 3, 4, 5].map(NodeId), "also where the first change is a removal");
    }

    #[test]
    fn no_number_is_given_twice() {
        let mut root = cluster(3);
        let unnumbered = |name: &str, at: u32| NodeRecord { id: 0, name: name.into(), ..record(at) };
        assert!(!root.has_removed(4));
        assert_eq!(add(&mut root, unnumbered("n4", 4)), Outcome::Int(4));
        assert_eq!(remove(&mut root, 4), Outcome::Ok);
        assert!(root.has_removed(4) && !root.has_removed(3) && !root.has_removed(5) && !root.has_removed(0));
        let line = refusal(&mut root, |root| add(root, record(4)));
        assert!(line.contains("the number 5, not 4"), "{line}");
        assert_eq!(add(&mut root, unnumbered("n4", 4)), Outcome::Int(5), "names and addresses may be used again");
        assert_eq!(remove(&mut root, 5), Outcome::Ok);
        assert_eq!(remove(&mut root, 5), Outcome::Ok, "it is asked again");
        let line = refusal(&mut root, |root| remove(root, 6));
        assert!(line.contains("no node has the number 6"), "{line}");
        let restored = RootState::decode(&root.encode()).expect("it was encoded");
        assert_eq!((restored.node_next(), restored.has_removed(5)), (6, true));
    }

    #[test]
    fn the_same_node_again_is_the_same() {
        let mut root = cluster(3);
        assert_eq!(add(&mut root, record(4)), Outcome::Int(4));
        let before = root.clone();
        assert_eq!(add(&mut root, record(4)), Outcome::Int(4));
        assert_eq!(add(&mut root, NodeRecord { id: 0, ..record(4) }), Outcome::Int(4));
        assert_eq!(root, before);
    }

    #[test]
    fn what_another_node_has_and_what_cannot_be_is_refused() {
        let mut root = cluster(3);
        for (node, reason) in [
            (NodeRecord { id: 2, ..record(4) }, "n2 has the number 2"),
            (NodeRecord { name: "n2".into(), ..record(4) }, "n2 has the name n2"),
            (NodeRecord { admin: "127.0.0.1:7003".into(), ..record(4) }, "n3 has the address 127.0.0.1:7003"),
            (NodeRecord { admin: record(4).peer, ..record(4) }, "three addresses"),
            (NodeRecord { id: 9, ..record(4) }, "the number 4, not 9"),
            (NodeRecord { name: "n 4".into(), ..record(4) }, "cannot be a name"),
            (NodeRecord { peer: "127.0.0.1".into(), ..record(4) }, "an address is host:port"),
            (NodeRecord { peer: "a b:1".into(), ..record(4) }, "an address is host:port"),
            (NodeRecord { peer: "::1:70".into(), ..record(4) }, "an address is host:port"),
            (NodeRecord { client: "host:0".into(), ..record(4) }, "an address is host:port"),
        ] {
            let line = refusal(&mut root, |root| add(root, node.clone()));
            assert!(line.starts_with("ERR ") && line.contains(reason), "{line}");
        }
        assert_eq!(add(&mut root, NodeRecord { peer: "[::1]:70".into(), ..record(4) }), Outcome::Int(4));
        let mut full = cluster(NODES_MAX as u32);
        let line = refusal(&mut full, |root| add(root, record(NODES_MAX as u32 + 1)));
        assert!(line.contains("64 nodes already"), "{line}");
    }

    #[test]
    fn who_has_a_part_in_something_is_not_removed() {
        let mut root = cluster(4);
        let line = refusal(&mut root, |root| remove(root, 3));
        assert!(line.contains("n3 is a member of the root"), "{line}");
        let line = refusal(&mut root, |root| remove(root, 4));
        assert!(line.contains("48 volumes have a replica on n4") && line.contains("QUORATE NODE DRAIN n4"), "{line}");
        assert_eq!((root.volumes_on(4), root.with_part()), (48, BTreeSet::from([1, 2, 3, 4])));
        let mut root = cluster(3);
        assert_eq!(add(&mut root, record(4)), Outcome::Int(4));
        let parts: [fn(&mut GroupRecord); 3] = [
            |volume| volume.members = vec![1, 4],
            |volume| volume.joining = Some(4),
            |volume| volume.home = vec![4, 1, 2],
        ];
        for part in parts {
            let mut root = root.clone();
            part(&mut root.namespaces.get_mut(&0).expect("it is there").volumes[0]);
            assert!(root.with_part().contains(&4));
            let line = refusal(&mut root, |root| remove(root, 4));
            assert!(line.contains("1 volume has a replica on n4"), "{line}");
        }
        root.placement.draining = vec![4, 2];
        root.placement.absent = vec![4];
        // Whoever asks knew of all volumes but the newest.
        let newest = root.group_next() - 1;
        let with = |asked_below| RootCommand::Place(PlaceCommand::RemoveNode { node: 4, asked_below });
        let line = refusal(&mut root, |root| root.execute(&with(newest), 1));
        assert!(line.contains("volumes that were not asked whether own groups have members on n4"), "{line}");
        assert_eq!(root.execute(&with(newest + 1), 1), Outcome::Ok);
        assert_eq!((ids(&root), root.placement.draining, root.placement.absent), (vec![1, 2, 3], vec![2], vec![]));
    }

    #[test]
    fn a_node_that_was_added_begins_with_one_directory() {
        let mut root = cluster(3);
        let begin = |root: &mut RootState, node, directory| {
            root.execute(&RootCommand::Place(PlaceCommand::Begin { node, directory }), 1)
        };
        let line = refusal(&mut root, |root| begin(root, 4, 7));
        assert!(line.contains("no node has the number 4"), "{line}");
        assert_eq!(add(&mut root, record(4)), Outcome::Int(4));
        let line = refusal(&mut root, |root| begin(root, 3, 7));
        assert!(line.contains("n3 has been there from the start"), "{line}");
        assert_eq!(begin(&mut root, 4, 7), Outcome::Ok);
        let before = root.clone();
        assert_eq!(begin(&mut root, 4, 7), Outcome::Ok, "it is asked again");
        assert_eq!(root, before);
        let line = refusal(&mut root, |root| begin(root, 4, 8));
        assert!(line.contains("n4 has begun with another data directory"), "{line}");
        assert_eq!(RootState::decode(&root.encode()), Some(root.clone()));
        assert_eq!(remove(&mut root, 4), Outcome::Ok);
        assert!(root.placement.begun.is_empty());
    }

    #[test]
    fn a_node_that_has_come_has_no_groups() {
        let mut root = cluster(3);
        let before = root.namespaces.clone();
        assert_eq!(add(&mut root, record(4)), Outcome::Int(4));
        assert_eq!(root.namespaces, before);
        assert_eq!((root.volumes_on(4), root.with_part()), (0, BTreeSet::from([1, 2, 3])));
    }
}
