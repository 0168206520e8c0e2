//! Administrative commands on many names: each name goes to its volume, and each has its own answer.

mod types;

use std::collections::BTreeMap;

use quorate_object::{NAME_BYTES_MAX, Outcome, slot_of_key};
use quorate_protocol::NodeId;

use self::types::TypesAsked;
use super::postponed::Patience;
use super::shown::{Shown, Views};
use super::{Host, Timer};
use crate::answer::{AdminReply, Answer, Failure};
use crate::entry::{Purpose, Target};
use crate::own_changes::OUTSIDE;
use crate::quorum::{QUORUM_OF_OTHERS, Quorum};
use crate::record::STILL_CHANGING;
use crate::replica::Protocol;
use crate::root::MEMBERS_MAX;
use crate::volume::{Change, NAMES_MAX, Plan, VolumeCommand};

/// Names in one administrative command.
pub const BATCH_NAMES_MAX: usize = 10_000;

/// Bytes of names that one command on a volume has, about: with a value it still is no larger than a command may be.
const PART_BYTES: usize = 1 << 20;

/// Bytes of the strings that one command makes, unless it makes but one.
const MADE_BYTES_MAX: usize = 32 << 20;

/// What is asked for the own groups of some names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GroupRequest {
    pub action: GroupAction,
    pub names: Vec<Vec<u8>>,
    /// Names of nodes; empty for the volume's members.
    pub members: Vec<String>,
    /// Of the groups that are made, or what they become.
    pub protocol: Protocol,
    /// Of registers; `None` for what they have, or a majority.
    pub quorum: Option<Quorum>,
    /// Whether the names came as a list, and are answered as one.
    pub is_batch: bool,
}

impl GroupRequest {
    /// Of no names yet, with nothing said of how groups are to be.
    pub(super) fn of(action: GroupAction) -> GroupRequest {
        let protocol = Protocol::default();
        GroupRequest { action, names: Vec::new(), members: Vec::new(), protocol, quorum: None, is_batch: false }
    }

    fn makes_registers_of_groups(&self) -> bool {
        self.action == GroupAction::Retype && self.protocol.is_register()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum GroupAction {
    Create {
        value: Vec<u8>,
    },
    Promote,
    Demote,
    Show,
    /// Other members, or quorums for registers.
    Move,
    /// Another protocol.
    Retype,
}

/// Batches whose parts are with their volumes.
#[derive(Default)]
pub(super) struct Batches {
    number_next: u64,
    open: BTreeMap<u64, Batch>,
}

struct Batch {
    operation: u64,
    namespace: u32,
    request: GroupRequest,
    /// The numbers of the nodes that are named.
    members: Vec<u32>,
    /// In the order in which the names came.
    replies: Vec<AdminReply>,
    /// Which names each part was about; taken out as they are answered.
    parts: BTreeMap<u32, Part>,
    /// What is asked before the volumes are.
    types: TypesAsked,
    /// What volumes have told of names that are to be shown.
    shown: Vec<(usize, Shown)>,
    /// What members of the shown chains say.
    views: Views,
}

struct Part {
    volume: u32,
    at: Vec<usize>,
    patience: Patience,
}

impl Host {
    pub(super) fn submit_group_request(&mut self, operation: u64, namespace: u32, request: GroupRequest) {
        let Some(root) = self.directory.state() else {
            return self.answers.push((operation, Answer::Failed(Failure::Loading)));
        };
        let Some(volumes) = root.namespaces.get(&namespace).map(|namespace| namespace.volumes.len()) else {
            return self.answers.push((operation, Answer::Failed(Failure::NoNamespace)));
        };
        if let GroupAction::Create { value } = &request.action {
            if self.out_of_memory {
                return self.answers.push((operation, Answer::Failed(Failure::OutOfMemory)));
            }
            // A short command must not become long work: each name has a copy of the value.
            if request.names.len() > 1 && value.len() > MADE_BYTES_MAX / request.names.len() {
                let line =
                    format!("ERR the strings have more than {MADE_BYTES_MAX} bytes together: create fewer at once");
                return self.refuse_request(operation, line);
            }
        }
        let members = match self.node_numbers(&request.members) {
            Ok(members) if members.len() <= MEMBERS_MAX => members,
            Ok(_) => {
                return self.refuse_request(operation, format!("ERR a group has at most {MEMBERS_MAX} members"));
            }
            Err(line) => return self.refuse_request(operation, line),
        };
        if request.quorum.is_some() && request.protocol != Protocol::Register && request.action != GroupAction::Move {
            return self.refuse_request(operation, QUORUM_OF_OTHERS.into());
        }
        let mut by_volume: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut replies = vec![AdminReply::Ok; request.names.len()];
        for (at, name) in request.names.iter().enumerate() {
            let volume = u32::from(slot_of_key(name)) * volumes as u32 / crate::root::SLOT_COUNT;
            match self.check_name(namespace, volume, name, &members, &request) {
                // Nothing is kept beside the objects of registers: what there is to be told is known here.
                Ok(()) if self.is_register(Target::Volume { namespace, index: volume }) => {
                    replies[at] = self.show(namespace, &Shown::in_volume(volume), &Views::default());
                }
                Ok(()) => by_volume.entry(volume).or_default().push(at),
                Err(line) => replies[at] = AdminReply::Error(line),
            }
        }
        let patience = self.patience();
        let parts = by_volume.into_iter().flat_map(|(volume, at)| {
            parts_of(&request.names, at).into_iter().map(move |at| Part { volume, at, patience })
        });
        // All of them are open before the first is asked for: a volume may answer at once.
        let parts: BTreeMap<u32, Part> = (0..).zip(parts).collect();
        let number = self.batches_open.number_next;
        self.batches_open.number_next += 1;
        let types = match request.makes_registers_of_groups() {
            true => TypesAsked::of(parts.values().flat_map(|part| part.at.iter().copied())),
            false => TypesAsked::default(),
        };
        let (shown, views) = (Vec::new(), Views::default());
        let batch = Batch { operation, namespace, request, members, replies, parts, types, shown, views };
        self.batches_open.open.insert(number, batch);
        self.ask_types(number);
    }

    /// Nothing is to be asked before any more. The volumes are not asked about names that are refused already.
    fn submit_parts(&mut self, number: u64) {
        let Some(batch) = self.batches_open.open.get_mut(&number) else { return };
        batch.parts.retain(|_, part| {
            part.at.retain(|&at| batch.replies[at] == AdminReply::Ok);
            !part.at.is_empty()
        });
        let parts: Vec<u32> = batch.parts.keys().copied().collect();
        parts.into_iter().for_each(|part| self.submit_part(number, part));
        self.finish_batch(number);
    }

    fn refuse_request(&mut self, operation: u64, line: String) {
        self.answers.push((operation, Answer::Admin(AdminReply::Error(line))));
    }

    fn check_name(
        &self,
        namespace: u32,
        volume: u32,
        name: &[u8],
        members: &[u32],
        request: &GroupRequest,
    ) -> Result<(), String> {
        const NOT_OWN: &str = "ERR the objects of this namespace have no groups of their own: those of a namespace of \
                               PROTOCOL paxos can have some";
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("ERR the key is longer than {NAME_BYTES_MAX} bytes"));
        }
        let target = Target::Volume { namespace, index: volume };
        let Ok(place) = self.directory.resolve(target) else { return Err("ERR no such volume".into()) };
        if place.protocol != Protocol::Paxos && request.action != GroupAction::Show {
            return Err(NOT_OWN.into());
        }
        self.check_named(members)?;
        let is_outside = |&member: &u32| !place.members.contains(&NodeId(member));
        if request.protocol != Protocol::Paxos && members.iter().any(is_outside) {
            return Err(self.outside_of(&place.members));
        }
        let live_count = members.iter().filter(|&&member| !self.peers.is_suspected(NodeId(member))).count();
        if request.protocol == Protocol::Paxos && !members.is_empty() && live_count <= members.len() / 2 {
            return Err("ERR no majority of these MEMBERS can be reached: the group could decide nothing".into());
        }
        let count = if members.is_empty() { place.members.len() } else { members.len() };
        match request.protocol.is_register() {
            true => request.quorum.unwrap_or_default().check(count, 0),
            false => Ok(()),
        }
    }

    /// Nobody is named who is to be emptied.
    fn check_named(&self, members: &[u32]) -> Result<(), String> {
        let Some(root) = self.directory.state() else { return Ok(()) };
        let Some(&member) = members.iter().find(|member| root.is_to_be_emptied(**member)) else { return Ok(()) };
        let name = root.name_of_node(member);
        Err(match root.is_draining(member) {
            true => format!("ERR {name} is being drained: name other MEMBERS, or QUORATE NODE UNDRAIN {name} first"),
            false => format!(
                "ERR {name} is absent, and what it has gets other places: name other MEMBERS, or wait until it is back"
            ),
        })
    }

    /// [`OUTSIDE`], and who is inside.
    fn outside_of(&self, volume: &[NodeId]) -> String {
        let names: Vec<&str> = volume.iter().filter_map(|&node| self.node_name(node)).collect();
        format!("{OUTSIDE}, which are {}", names.join(","))
    }

    fn outside_of_part(&self, number: u64, part: u32) -> String {
        let batch = self.batches_open.open.get(&number);
        let target = batch.and_then(|batch| {
            let index = batch.parts.get(&part)?.volume;
            Some(Target::Volume { namespace: batch.namespace, index })
        });
        let place = target.and_then(|target| self.directory.resolve(target).ok());
        place.map_or_else(|| OUTSIDE.to_owned(), |place| self.outside_of(&place.members))
    }

    /// The numbers of nodes that are named, each once.
    pub(super) fn node_numbers(&self, names: &[String]) -> Result<Vec<u32>, String> {
        let nodes = self.directory.state().map(|state| &state.nodes[..]).unwrap_or_default();
        let mut members = Vec::new();
        for name in names {
            match nodes.iter().find(|node| node.name == *name) {
                Some(node) if members.contains(&node.id) => return Err("ERR MEMBERS names a node twice".into()),
                Some(node) => members.push(node.id),
                None if name.is_empty() => return Err("ERR MEMBERS has a name with nothing in it".into()),
                None => return Err(format!("ERR no node is called {name}")),
            }
        }
        Ok(members)
    }

    pub(super) fn node_name(&self, node: NodeId) -> Option<&str> {
        let nodes = &self.directory.state()?.nodes;
        nodes.iter().find(|record| record.id == node.0).map(|record| &record.name[..])
    }

    pub(super) fn submit_part(&mut self, number: u64, part: u32) {
        let Some(batch) = self.batches_open.open.get(&number) else { return };
        let Some(content) = batch.parts.get(&part) else { return };
        let names: Vec<Vec<u8>> = content.at.iter().map(|&at| batch.request.names[at].clone()).collect();
        let target = Target::Volume { namespace: batch.namespace, index: content.volume };
        let Ok(place) = self.directory.resolve(target) else {
            return self.take_part(number, part, Answer::Failed(Failure::NoNamespace));
        };
        let plan = || Plan {
            protocol: batch.request.protocol,
            members: batch.members.clone(),
            quorum: batch.request.quorum.unwrap_or_default(),
            volume: place.group.0,
            of_volume: place.members.iter().map(|node| node.0).collect(),
        };
        let change = |protocol| Change {
            protocol,
            members: Some(&batch.members).filter(|members| !members.is_empty()).cloned(),
            quorum: batch.request.quorum,
            volume: place.group.0,
            of_volume: place.members.iter().map(|node| node.0).collect(),
        };
        let command = match &batch.request.action {
            GroupAction::Create { value } => VolumeCommand::Create { names, plan: plan(), value: value.clone() },
            GroupAction::Promote => VolumeCommand::PromoteSome { names, plan: plan() },
            GroupAction::Demote => VolumeCommand::Demote { names },
            GroupAction::Show => VolumeCommand::Show { names },
            GroupAction::Move => VolumeCommand::Change { names, change: change(None) },
            GroupAction::Retype => VolumeCommand::Change { names, change: change(Some(batch.request.protocol)) },
        };
        self.submit_to_volume(target, &command, Purpose::Batch { batch: number, part });
    }

    /// A volume has answered for the names that it was asked about.
    pub(super) fn take_part(&mut self, number: u64, part: u32, answer: Answer) {
        let is_outside = |line: &Vec<u8>| line == OUTSIDE.as_bytes();
        let outside = match &answer {
            Answer::Outcome(Outcome::Keys(lines)) if lines.iter().any(is_outside) => self.outside_of_part(number, part),
            _ => String::new(),
        };
        let Some(batch) = self.batches_open.open.get_mut(&number) else { return };
        let Some(Part { volume, at, mut patience }) = batch.parts.remove(&part) else { return };
        let lines: Vec<AdminReply> = match answer {
            Answer::Outcome(Outcome::Keys(lines)) if lines.len() == at.len() => {
                if batch.request.action == GroupAction::Show {
                    let shown = |(&at, line): (&usize, &Vec<u8>)| Some((at, Shown::told(volume, line)?));
                    batch.shown.extend(at.iter().zip(&lines).filter_map(shown));
                }
                lines.iter().map(|line| reply_of(line)).collect()
            }
            Answer::Outcome(Outcome::Error(line)) => vec![AdminReply::Error(line); at.len()],
            Answer::Failed(failure) => vec![AdminReply::Failed(failure); at.len()],
            _ => vec![AdminReply::Error("ERR the volume's node is of another version".into()); at.len()],
        };
        let mut still_changing = Vec::new();
        for (at, line) in at.into_iter().zip(lines) {
            batch.replies[at] = match line {
                AdminReply::Error(line) if line == OUTSIDE => AdminReply::Error(outside.clone()),
                line => line,
            };
            if matches!(&batch.replies[at], AdminReply::Error(line) if line == STILL_CHANGING) {
                still_changing.push(at);
            }
        }
        if let Some(again_at) = patience.again_at(self.clock.now()).filter(|_| !still_changing.is_empty()) {
            batch.parts.insert(part, Part { volume, at: still_changing, patience });
            self.timers.set(again_at, Timer::Part { batch: number, part });
        }
        self.finish_batch(number);
    }

    /// The views of chains that are to be shown, while they are awaited.
    pub(super) fn views_of_batch(&mut self, number: u64) -> Option<&mut Views> {
        self.batches_open.open.get_mut(&number).map(|batch| &mut batch.views)
    }

    pub(super) fn finish_batch(&mut self, number: u64) {
        let Some(batch) = self.batches_open.open.get_mut(&number).filter(|batch| batch.parts.is_empty()) else {
            return;
        };
        if !batch.shown.is_empty() && !batch.views.are_asked() {
            let (namespace, shown) = (batch.namespace, std::mem::take(&mut batch.shown));
            let views = self.ask_for_views(number, namespace, shown.iter().map(|(_, shown)| shown));
            let Some(batch) = self.batches_open.open.get_mut(&number) else { return };
            (batch.shown, batch.views) = (shown, views);
        }
        if self.batches_open.open.get(&number).is_none_or(|batch| batch.views.are_awaited()) {
            return;
        }
        let Some(mut batch) = self.batches_open.open.remove(&number) else { return };
        for (at, shown) in &batch.shown {
            batch.replies[*at] = self.show(batch.namespace, shown, &batch.views);
        }
        let reply = match batch.request.is_batch {
            true => AdminReply::List(batch.replies),
            false => batch.replies.pop().unwrap_or(AdminReply::Ok),
        };
        self.answers.push((batch.operation, Answer::Admin(reply)));
    }
}

/// The names at these places, as many together as one command on their volume has.
fn parts_of(names: &[Vec<u8>], places: Vec<usize>) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for at in places {
        bytes += names[at].len();
        match parts.last_mut().filter(|part| part.len() < NAMES_MAX && bytes <= PART_BYTES) {
            Some(part) => part.push(at),
            None => {
                bytes = names[at].len();
                parts.push(vec![at]);
            }
        }
    }
    parts
}

pub(super) fn reply_of(line: &[u8]) -> AdminReply {
    match &String::from_utf8_lossy(line)[..] {
        "OK" => AdminReply::Ok,
        line => AdminReply::Error(line.into()),
    }
}
