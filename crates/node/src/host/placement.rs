//! Where volumes lie, changed while they are used: by an operator, one replica at a time, or as whoever coordinates the root plans it.
//! See docs/decisions/0034.

use std::collections::BTreeMap;

use quorate_protocol::{GroupId, Instant, NodeId};

use super::Host;
use super::absence::Missed;
use super::chains::STEADY_US;
use crate::answer::{AdminReply, Answer, Failure};
use crate::entry::Purpose;
use crate::machine::Content;
use crate::record::GroupRecord;
use crate::replica::Protocol;
use crate::root::{Health, PlaceCommand, Places, ROOT, ReplaceAfter, RootCommand, RootGroup, RootState, plan, stays};
use crate::status::Report;

/// A node of which nothing is heard for so long is not waited for by whoever would give it a replica.
const GONE_US: u64 = 10_000_000;
/// While something is to be moved, what is next is looked for so often, and
const PLAN_PAUSE_US: u64 = 250_000;
/// ... otherwise whether somebody who was to come to a volume is gone.
const LOOK_PAUSE_US: u64 = 1_000_000;

const VOLUME_USAGE: &str = "ERR QUORATE VOLUME LIST namespace; QUORATE VOLUME MOVE namespace volume FROM node TO node";

const ROOT_USAGE: &str = "ERR QUORATE ROOT SHOW; QUORATE ROOT MOVE FROM node TO node; QUORATE ROOT WIDEN TO node";

/// What this node, where it coordinates the root, has it decide.
#[derive(Default)]
pub(super) struct Placing {
    /// Commands of the last plan that are not answered.
    open: usize,
    next_at: Instant,
    pub(super) missed: Missed,
}

/// What a line of words asks for.
#[derive(Debug, PartialEq)]
pub(super) enum PlacementRequest {
    ShowRoot,
    MoveRoot { from: String, to: String },
    WidenRoot { to: String },
    ListVolumes { namespace: u32 },
    MoveVolume { namespace: u32, index: u32, from: String, to: String },
    ShowNode { name: String },
    Drain { name: String, is_draining: bool },
    Level { is_levelling: bool },
    ShowReplaceAfter,
    ReplaceAfter { after: ReplaceAfter },
}

/// The words behind `VOLUME`.
pub(super) fn parse_volume(words: &[&str]) -> Result<PlacementRequest, String> {
    try_parse_volume(words).ok_or_else(|| VOLUME_USAGE.to_owned())
}

fn try_parse_volume(words: &[&str]) -> Option<PlacementRequest> {
    let (action, rest) = words.split_first()?;
    match (&action.to_ascii_uppercase()[..], rest) {
        ("LIST", [namespace]) => Some(PlacementRequest::ListVolumes { namespace: namespace.parse().ok()? }),
        ("MOVE", [namespace, index, word_from, from, word_to, to])
            if word_from.eq_ignore_ascii_case("FROM") && word_to.eq_ignore_ascii_case("TO") =>
        {
            let (namespace, index) = (namespace.parse().ok()?, index.parse().ok()?);
            Some(PlacementRequest::MoveVolume { namespace, index, from: (*from).to_owned(), to: (*to).to_owned() })
        }
        _ => None,
    }
}

/// The words behind `ROOT`.
pub(super) fn parse_root(words: &[&str]) -> Result<PlacementRequest, String> {
    let is = |at: usize, expected: &str| words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(expected));
    match *words {
        [_] if is(0, "SHOW") => Ok(PlacementRequest::ShowRoot),
        [_, _, from, _, to] if is(0, "MOVE") && is(1, "FROM") && is(3, "TO") => {
            Ok(PlacementRequest::MoveRoot { from: from.to_owned(), to: to.to_owned() })
        }
        [_, _, to] if is(0, "WIDEN") && is(1, "TO") => Ok(PlacementRequest::WidenRoot { to: to.to_owned() }),
        _ => Err(ROOT_USAGE.to_owned()),
    }
}

/// The words behind `NODE`, if they are about where volumes lie.
pub(super) fn parse_node(words: &[&str]) -> Option<PlacementRequest> {
    let (action, rest) = words.split_first()?;
    match (&action.to_ascii_uppercase()[..], rest) {
        ("SHOW", [name]) => Some(PlacementRequest::ShowNode { name: (*name).to_owned() }),
        ("DRAIN", [name]) => Some(PlacementRequest::Drain { name: (*name).to_owned(), is_draining: true }),
        ("UNDRAIN", [name]) => Some(PlacementRequest::Drain { name: (*name).to_owned(), is_draining: false }),
        ("LEVEL", []) => Some(PlacementRequest::Level { is_levelling: true }),
        ("LEVEL", [stop]) if stop.eq_ignore_ascii_case("STOP") => Some(PlacementRequest::Level { is_levelling: false }),
        ("REPLACE", [after, rest @ ..]) if after.eq_ignore_ascii_case("AFTER") => match rest {
            [] => Some(PlacementRequest::ShowReplaceAfter),
            [never] if never.eq_ignore_ascii_case("NEVER") => {
                Some(PlacementRequest::ReplaceAfter { after: ReplaceAfter(None) })
            }
            [seconds] => {
                // What is larger is too large.
                let seconds = u32::try_from(seconds.parse::<u64>().ok()?).unwrap_or(u32::MAX);
                Some(PlacementRequest::ReplaceAfter { after: ReplaceAfter(Some(seconds)) })
            }
            _ => None,
        },
        _ => None,
    }
}

/// By whoever coordinates the root.
impl Host {
    /// Each heartbeat: the root is to decide which replicas move next. If another node has it decide others meanwhile, these are
    /// refused: each names the epoch, and the replica, that it is about.
    pub(super) fn tend_placement(&mut self) {
        let now = self.clock.now();
        // A node that has just started does not know which others are there.
        if now < self.placing.next_at || self.placing.open > 0 || now < self.started_at.after_us(GONE_US / 2) {
            return;
        }
        let Some(index) = self.find(ROOT) else { return };
        if self.ballot_coordinated(index).is_none() || self.is_clock_off() {
            return;
        }
        let Content::Root(root) = self.groups[index as usize].machine.content() else { return };
        let is_emptied = root.nodes.iter().any(|node| root.is_to_be_emptied(node.id));
        let is_asked_for = is_emptied || root.placement.is_levelling;
        let mut commands = self.absences(root);
        // What is to move follows from what is decided of them.
        if commands.is_empty() {
            commands = plan(root, &|node| self.health(node)).commands;
        }
        let is_replaced = |node: u32| root.is_absent(node) && !root.is_draining(node);
        for command in &commands {
            match command {
                PlaceCommand::Absent { is_absent: true, .. } => self.counters.absences += 1,
                PlaceCommand::Absent { .. } => self.counters.absences_over += 1,
                PlaceCommand::Replace { from, .. } if is_replaced(*from) => self.counters.replicas_replaced += 1,
                _ => self.counters.moves_planned += 1,
            }
        }
        let pause_us = if is_asked_for { PLAN_PAUSE_US } else { LOOK_PAUSE_US };
        self.placing.next_at = now.after_us(pause_us);
        self.placing.open = commands.len();
        for command in commands {
            self.submit_to_root(&RootCommand::Place(command), Purpose::Placing);
        }
    }

    /// Whether replicas of volumes, or of the root, are on their way, as far as this node has heard, or one here is where it is not to be.
    pub fn sees_moves(&self) -> bool {
        let is_here = |group: u64| self.find(GroupId(group)).is_some();
        let RootGroup { record, seats, .. } = self.directory.root_group();
        let places = Places::of(Protocol::Paxos, record, Some(seats));
        let is_root_out = is_here(ROOT.0) && !places.seats.contains(&self.settings.node.0);
        if !places.are_taken() || is_root_out {
            return true;
        }
        self.directory.state().is_some_and(|root| {
            root.all_places().any(|(.., volume, places)| {
                let is_out = !places.seats.contains(&self.settings.node.0) && is_here(volume.group);
                !places.are_taken() || is_out
            })
        })
    }

    /// The root has answered one command of a plan, or nobody knows.
    pub(super) fn note_placed(&mut self) {
        self.placing.open = self.placing.open.saturating_sub(1);
    }

    pub(super) fn health(&self, node: u32) -> Health {
        let (node, now) = (NodeId(node), self.clock.now());
        if node == self.settings.node {
            return Health::Well;
        }
        if self.peers.is_suspected(node) {
            let since = self.suspected_at.get(&node).copied().unwrap_or(now);
            return if since.after_us(GONE_US) <= now { Health::Gone } else { Health::Away };
        }
        match self.is_steady(node, STEADY_US) && !self.peers.is_unable(node, now) {
            true => Health::Well,
            false => Health::Away,
        }
    }
}

/// By operators.
impl Host {
    pub(super) fn submit_placement(&mut self, operation: u64, request: PlacementRequest) {
        let Some(root) = self.directory.state() else {
            return self.answers.push((operation, Answer::Failed(Failure::Loading)));
        };
        let node = |name: &String| self.node_numbers(std::slice::from_ref(name)).map(|numbers| numbers[0]);
        let epoch_of_root = self.directory.root_group().record.epoch;
        let command = match &request {
            PlacementRequest::ShowRoot => Err(Ok(self.show_root(root))),
            PlacementRequest::MoveRoot { from, to } => node(from)
                .and_then(|from| self.check_members_of_root(root, Some(from)).map(|()| (from, node(to))))
                .and_then(|(from, to)| Ok(PlaceCommand::Replace { group: ROOT.0, epoch: epoch_of_root, from, to: to? }))
                .map_err(Err),
            PlacementRequest::WidenRoot { to } => node(to)
                .and_then(|to| self.check_members_of_root(root, None).map(|()| to))
                .map(|to| PlaceCommand::WidenRoot { epoch: epoch_of_root, to })
                .map_err(Err),
            PlacementRequest::ListVolumes { namespace } => Err(self.list_volumes(root, *namespace)),
            PlacementRequest::ShowNode { name } => match node(name) {
                Ok(node) => return self.ask_for_node(operation, NodeId(node)),
                Err(line) => Err(Err(line)),
            },
            PlacementRequest::Drain { name, is_draining } => {
                let command = |node| PlaceCommand::Drain { node, is_draining: *is_draining };
                node(name).map(command).map_err(Err)
            }
            PlacementRequest::ShowReplaceAfter => Err(Ok(AdminReply::Text(root.placement.replace_after.words()))),
            PlacementRequest::ReplaceAfter { after } => Ok(PlaceCommand::ReplaceAfter { after: *after }),
            PlacementRequest::Level { is_levelling } => Ok(PlaceCommand::Level { is_levelling: *is_levelling }),
            PlacementRequest::MoveVolume { namespace, index, from, to } => {
                let nodes = node(from).and_then(|from| Ok((from, node(to)?)));
                let volume = volume_of(root, *namespace, *index);
                nodes
                    .and_then(|(from, to)| {
                        let volume = volume?;
                        let is_paxos = root.namespaces[namespace].settings.protocol == Protocol::Paxos;
                        if is_paxos && volume.members.contains(&from) {
                            self.check_members(root, "the volume", volume, Some(from))?;
                        }
                        Ok(PlaceCommand::Replace { group: volume.group, epoch: volume.epoch, from, to })
                    })
                    .map_err(Err)
            }
        };
        match command {
            Ok(command) => self.submit_change(operation, RootCommand::Place(command)),
            Err(Ok(reply)) => self.answers.push((operation, Answer::Admin(reply))),
            Err(Err(line)) => self.answers.push((operation, Answer::Admin(AdminReply::Error(line)))),
        }
    }

    /// What is to be moved has changed since this node has heard of it: the next time it is asked for as it is now.
    pub(super) fn refresh_move(&self, command: &mut RootCommand) {
        let RootCommand::Place(command) = command else { return };
        let (group, epoch) = match command {
            PlaceCommand::Replace { group, epoch, .. } => (GroupId(*group), epoch),
            PlaceCommand::WidenRoot { epoch, .. } => (ROOT, epoch),
            _ => return,
        };
        let known = match group {
            ROOT => Some(&self.directory.root_group().record),
            volume => self.record_of_led(volume),
        };
        *epoch = known.map_or(*epoch, |known| known.epoch);
    }

    fn check_members_of_root(&self, root: &RootState, leaving: Option<u32>) -> Result<(), String> {
        self.check_members(root, "the root", &self.directory.root_group().record, leaving)
    }

    /// Nobody comes into the root, or a volume of `paxos`, without all that stay.
    fn check_members(
        &self,
        root: &RootState,
        of_what: &str,
        record: &GroupRecord,
        leaving: Option<u32>,
    ) -> Result<(), String> {
        let is_missed = |node: &&u32| Some(**node) != leaving && self.health(**node) != Health::Well;
        match record.members.iter().find(is_missed) {
            Some(missed) => Err(format!(
                "ERR {}, another member of {of_what}, is not well, or was not a moment ago, and whoever comes in needs its word: bring it \
                 back, or move {of_what} away from it first",
                root.name_of_node(*missed)
            )),
            None => Ok(()),
        }
    }

    fn show_root(&self, root: &RootState) -> AdminReply {
        let RootGroup { record, seats, .. } = self.directory.root_group();
        let places = Places::of(Protocol::Paxos, record, Some(seats));
        let names = |nodes: &[u32]| named(root, nodes);
        AdminReply::Map(vec![
            ("epoch".into(), AdminReply::Int(record.epoch.into())),
            ("members".into(), names(&record.members)),
            ("joining".into(), names(&places.coming)),
            ("leaving".into(), names(&places.leaving)),
        ])
    }

    fn list_volumes(&self, root: &RootState, number: u32) -> Result<AdminReply, String> {
        let namespace = root.namespaces.get(&number).ok_or_else(|| no_such_namespace(number))?;
        let names = |nodes: &[u32]| named(root, nodes);
        let volumes = namespace.volumes.iter().enumerate().map(|(index, volume)| {
            let volume = &self.present(volume);
            let places = root.places(namespace.settings.protocol, volume);
            AdminReply::Map(vec![
                ("volume".into(), AdminReply::Int(index as i64)),
                ("group".into(), AdminReply::Int(i64::try_from(volume.group).unwrap_or(i64::MAX))),
                ("epoch".into(), AdminReply::Int(volume.epoch.into())),
                ("members".into(), names(&volume.members)),
                ("joining".into(), names(&places.coming)),
                ("leaving".into(), names(&places.leaving)),
            ])
        });
        Ok(AdminReply::List(volumes.collect()))
    }

    /// What a node has, and what keeps it there: what the root says of it, what it says of itself, if it has answered, and what those
    /// say that coordinate volumes.
    pub(super) fn tell_node(&self, node: NodeId, reports: &[Report]) -> AdminReply {
        let Some(root) = self.directory.state() else { return AdminReply::Failed(Failure::Loading) };
        let text = |text: &str| AdminReply::Text(text.to_owned());
        let yes_or_no = |is_so: bool| text(if is_so { "yes" } else { "no" });
        let number = |number: u64| AdminReply::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let mut of_node = Blocks::of(root, node.0, &|node| self.health(node));
        if let Some(why) = self.why_not_replaced(root, node) {
            let movable = of_node.replicas - of_node.staying;
            of_node.waits.extend((movable > 0).then_some((why, movable)));
        }
        let waits = of_node
            .waits
            .iter()
            .map(|(why, count)| AdminReply::Map(vec![("replicas".into(), number(*count)), ("why".into(), text(why))]));
        let mut fields = vec![
            ("name".to_owned(), AdminReply::Text(root.name_of_node(node.0))),
            ("state".to_owned(), text(self.node_state(node).word())),
            ("draining".to_owned(), yes_or_no(root.is_draining(node.0))),
            ("absent".to_owned(), yes_or_no(root.is_absent(node.0))),
            ("replace_after".to_owned(), AdminReply::Text(root.placement.replace_after.words())),
            ("levelling".to_owned(), yes_or_no(root.placement.is_levelling)),
            ("root".to_owned(), yes_or_no(root.root_members().contains(&node))),
            ("replicas".to_owned(), number(of_node.replicas)),
            ("joining".to_owned(), number(of_node.joining)),
            ("leaving".to_owned(), number(of_node.leaving)),
            ("staying".to_owned(), number(of_node.staying)),
            ("waiting".to_owned(), AdminReply::List(waits.collect())),
        ];
        if let Some(Report { own, .. }) = reports.iter().find(|report| report.node == node.0) {
            let groups = own.own_groups;
            fields.push(("own_groups".to_owned(), number(groups.active + groups.idle + groups.paused)));
        }
        let on = || reports.iter().flat_map(|report| &report.own_groups_on).filter(|on| on.node == node.0);
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        on().flat_map(|on| &on.waiting).for_each(|one| *reasons.entry(&one.why).or_default() += one.groups);
        let staying = reasons.values().sum();
        let reasons = reasons
            .into_iter()
            .map(|(why, count)| AdminReply::Map(vec![("groups".into(), number(count)), ("why".into(), text(why))]));
        fields.push(("own_groups_named".to_owned(), number(on().map(|on| on.groups).sum())));
        fields.push(("own_groups_staying".to_owned(), number(staying)));
        fields.push(("own_groups_waiting".to_owned(), AdminReply::List(reasons.collect())));
        AdminReply::Map(fields)
    }
}

fn named(root: &RootState, nodes: &[u32]) -> AdminReply {
    AdminReply::List(nodes.iter().map(|node| AdminReply::Text(root.name_of_node(*node))).collect())
}

fn no_such_namespace(number: u32) -> String {
    format!("ERR no namespace {number}: QUORATE NAMESPACE LIST shows those that exist")
}

fn volume_of(root: &RootState, number: u32, index: u32) -> Result<&GroupRecord, String> {
    let namespace = root.namespaces.get(&number).ok_or_else(|| no_such_namespace(number))?;
    namespace.volumes.get(index as usize).ok_or_else(|| {
        format!(
            "ERR namespace {number} has no volume {index}: its volumes are numbered from 0 to {}",
            namespace.volumes.len() - 1
        )
    })
}

/// Replicas of volumes, and of the root, that a node has.
struct Blocks {
    replicas: u64,
    /// Those that do not take part yet.
    joining: u64,
    /// Those in whose place others come.
    leaving: u64,
    /// Those that cannot be moved so.
    staying: u64,
    /// Of those that do not move now, why they do not.
    waits: Vec<(&'static str, u64)>,
}

impl Blocks {
    fn of(root: &RootState, node: u32, health: &dyn Fn(u32) -> Health) -> Blocks {
        let mut blocks = Blocks { replicas: 0, joining: 0, leaving: 0, staying: 0, waits: Vec::new() };
        let mut staying = BTreeMap::<&'static str, u64>::new();
        let of_root = (root.root_stays(node).filter(|_| root.is_to_be_emptied(node)), root.places_of_root());
        let volumes = root.all_places().map(|(_, namespace, _, places)| (stays(namespace, &places), places));
        for (stays, places) in volumes.chain([of_root]) {
            if !places.seats.contains(&node) && !places.leaving.contains(&node) {
                continue;
            }
            blocks.replicas += 1;
            blocks.joining += u64::from(places.coming.contains(&node));
            blocks.leaving += u64::from(places.leaving.contains(&node));
            if let Some(why) = stays {
                *staying.entry(why).or_default() += 1;
            }
        }
        blocks.staying = staying.values().sum();
        let waits = plan(root, health).waits;
        let of_node = waits.into_iter().filter(|((of, _), _)| *of == node).map(|((_, why), count)| (why, count));
        blocks.waits = staying.into_iter().chain(of_node).collect();
        blocks
    }
}
