//! Administrative commands, in the words of docs/commands.md.

use quorate_object::{Outcome, slot_of_key};
use quorate_protocol::{GroupId, NodeId};

use super::batches::{BATCH_NAMES_MAX, GroupAction, GroupRequest};
use super::directory::Missing;
use super::nodes::{self, NodeRequest};
use super::placement::{self, PlacementRequest};
use super::upgrade::{self, UpgradeRequest};
use super::{Host, demand, help};
use crate::answer::{AdminReply, Answer, Failure};
use crate::entry::{Purpose, Target};
use crate::members::Wanted;
use crate::quorum::Quorum;
use crate::replica::Protocol;
use crate::root::{Authority, Durability, Groups, NO_LEASE, REGISTER_REPLICAS_MAX, Reads, RootCommand, Settings};

/// An operation whose root command was executed, and that waits until this node has heard of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub operation: u64,
    /// Answered once the answer to this question to the root has come.
    pub question: u64,
    /// The number that the root has told.
    pub number: Option<i64>,
}

const USAGE: &str = "ERR the commands are QUORATE NAMESPACE CREATE|SET|MOVE|LIST|DROP, \
                     QUORATE GROUP CREATE|PROMOTE|DEMOTE|MOVE|RETYPE|SHOW, QUORATE QUORUM SET|SHOW, \
                     QUORATE VOLUME LIST|MOVE, QUORATE ROOT SHOW|MOVE|WIDEN, QUORATE NODE LIST|SHOW|ADD|REMOVE|DRAIN|UNDRAIN|LEVEL|REPLACE, \
                     QUORATE UPGRADE SHOW|BEGIN|NOTE|LEAVE|END|RAISE, QUORATE DEMAND [COUNT n] and QUORATE STATUS [JSON]: QUORATE HELP tells what each does";
const CREATE_USAGE: &str = "ERR QUORATE NAMESPACE CREATE number [PROTOCOL paxos|chain|register] [REPLICAS n] \
                            [VOLUMES n] [DURABILITY sync|interval|memory] [READS lease|quorum|local|apportioned|routed] \
                            [GROUPS volumes|own] [QUORUM majority | threshold R W | grid | grid ROWSxCOLS] \
                            [TOLERANCE crashes] [AUTHORITY parent|members] [MEMBERS node,node,...]";
const MOVE_NAMESPACE_USAGE: &str = "ERR QUORATE NAMESPACE MOVE number MEMBERS node,node,... \
                                    [QUORUM majority | threshold R W | grid | grid ROWSxCOLS]";
const MOVED_BY_ROOT: &str = "ERR QUORATE NAMESPACE MOVE is for namespaces of AUTHORITY members, which are one group: \
                             QUORATE GROUP MOVE moves a volume of registers";
const MOVE_USAGE: &str = "ERR QUORATE GROUP MOVE key MEMBERS node,node,... \
                          [QUORUM majority | threshold R W | grid | grid ROWSxCOLS]";
const QUORUM_USAGE: &str = "ERR QUORATE QUORUM SET key R W, or KEYS count key ... in place of key; \
                            QUORATE QUORUM SET NAMESPACE number R W; or QUORATE QUORUM SHOW key";
const DEMAND_USAGE: &str = "ERR QUORATE DEMAND [COUNT n]";
const GROUP_USAGE: &str = "ERR QUORATE GROUP CREATE|PROMOTE|RETYPE|DEMOTE|SHOW key, or KEYS count key ... in place of key; \
                           then, where it creates, promotes or retypes, [PROTOCOL paxos|chain|register] [MEMBERS node,node,...] \
                           [QUORUM majority | threshold R W | grid | grid ROWSxCOLS] and, where it creates, \
                           [VALUE value]; or QUORATE GROUP MOVE key MEMBERS node,node,... [QUORUM ...]";
const GRID_HAS_NO_SIZES: &str = "ERR the sizes of a grid's quorums are its shape: QUORATE NAMESPACE MOVE gives the \
                                 namespace another one";
const SET_USAGE: &str = "ERR QUORATE NAMESPACE SET number READS lease|quorum|local|apportioned";

/// What a line of words asks for.
#[derive(Debug, PartialEq)]
enum Request {
    Root(RootCommand),
    Create { number: u32, settings: Settings, members: Vec<String> },
    Help,
    List,
    Status { json: bool },
    Demand { count: usize },
    Group(GroupRequest),
    Move { name: Vec<u8>, members: Vec<String>, quorum: Option<Quorum> },
    MoveNamespace { number: u32, members: Vec<String>, quorum: Option<Quorum> },
    SetQuorum { number: u32, quorum: Quorum },
    Node(NodeRequest),
    Upgrade(UpgradeRequest),
    Placement(PlacementRequest),
}

impl Host {
    /// Takes a client's administrative command, the words after `QUORATE`, on the namespace that the client has entered.
    pub fn submit_admin(&mut self, number: u64, namespace: u32, words: &[Vec<u8>]) {
        match parse(words, self.default_settings()) {
            Err(usage) => self.answers.push((number, Answer::Admin(AdminReply::Error(usage)))),
            Ok(Request::Root(command)) => self.submit_to_root(&command, Purpose::Admin { operation: number }),
            Ok(Request::Create { number: namespace, settings, members }) => {
                self.submit_create(number, namespace, settings, &members);
            }
            Ok(Request::MoveNamespace { number: namespace, members, quorum }) => {
                self.submit_move_namespace(number, namespace, &members, quorum);
            }
            Ok(Request::SetQuorum { number: namespace, quorum }) => self.submit_quorum(number, namespace, quorum),
            Ok(Request::Group(request)) => self.submit_group_request(number, namespace, request),
            Ok(Request::Move { name, members, quorum }) => self.submit_move(number, namespace, &name, &members, quorum),
            Ok(Request::Node(request)) => self.submit_node_request(number, request),
            Ok(Request::Upgrade(request)) => self.submit_upgrade(number, request),
            Ok(Request::Placement(request)) => self.submit_placement(number, request),
            Ok(Request::Help) => self.answers.push((number, Answer::Admin(help::reply()))),
            Ok(Request::Demand { count }) => self.answers.push((number, Answer::Admin(self.tell_demand(count)))),
            Ok(Request::Status { json }) => self.ask_for_status(number, json),
            Ok(Request::List) => {
                let reply =
                    self.directory().map(list_namespaces).map_or(Answer::Failed(Failure::Loading), Answer::Admin);
                self.answers.push((number, reply));
            }
        }
    }

    fn submit_create(&mut self, operation: u64, number: u32, settings: Settings, members: &[String]) {
        match self.node_numbers(members) {
            Ok(members) => {
                let command = RootCommand::CreateNamespace { number, settings, members };
                self.submit_to_root(&command, Purpose::Admin { operation });
            }
            Err(line) => self.answers.push((operation, Answer::Admin(AdminReply::Error(line)))),
        }
    }

    /// The settings and the only group of a namespace whose members decide; none of any other.
    fn decided_by_members(&self, namespace: u32) -> Option<(Settings, GroupId)> {
        let namespace = self.directory.namespace(namespace)?;
        let group = namespace.volumes.first().map(|volume| GroupId(volume.group))?;
        namespace.settings.authority.is_members().then_some((namespace.settings, group))
    }

    /// Other members for a namespace whose members decide.
    fn submit_move_namespace(&mut self, operation: u64, number: u32, names: &[String], quorum: Option<Quorum>) {
        let Some((settings, group)) = self.decided_by_members(number) else {
            let answer = match (self.directory.state(), self.directory.namespace(number)) {
                (None, _) => Answer::Failed(Failure::Loading),
                (_, None) => {
                    let line = format!("ERR no namespace {number}: QUORATE NAMESPACE LIST shows those that exist");
                    Answer::Admin(AdminReply::Error(line))
                }
                _ => Answer::Admin(AdminReply::Error(MOVED_BY_ROOT.into())),
            };
            return self.answers.push((operation, answer));
        };
        let quorum = quorum.unwrap_or(settings.quorum);
        let members = self.node_numbers(names).and_then(|members| match members.len() {
            0 => Err(MOVE_NAMESPACE_USAGE.to_owned()),
            count if count > usize::from(REGISTER_REPLICAS_MAX) => {
                Err(format!("ERR MEMBERS names from 1 to {REGISTER_REPLICAS_MAX} nodes of the cluster"))
            }
            count => quorum.check(count, settings.tolerance).map(|()| members),
        });
        match members {
            Ok(members) => {
                let quorum = quorum.system(members.len());
                let members = members.into_iter().map(NodeId).collect();
                self.submit_reconfiguration(operation, group, Wanted::Members { members, quorum });
            }
            Err(line) => self.answers.push((operation, Answer::Admin(AdminReply::Error(line)))),
        }
    }

    /// Other quorums for a namespace of registers, among the members that there are.
    fn submit_quorum(&mut self, operation: u64, number: u32, quorum: Quorum) {
        let Some((settings, group)) = self.decided_by_members(number) else {
            return self.submit_change(operation, RootCommand::SetQuorum { number, quorum });
        };
        let place = self.directory.resolve(Target::Volume { namespace: number, index: 0 });
        let Some(newest) = place.ok().and_then(|place| place.stages.last()) else {
            return self.answers.push((operation, Answer::Failed(Failure::Loading)));
        };
        let count = newest.configuration.members.len();
        let refusal = match Quorum::of_system(newest.configuration.quorum).is_grid() {
            true => Err(GRID_HAS_NO_SIZES.to_owned()),
            false => quorum.check(count, settings.tolerance),
        };
        match refusal {
            Ok(()) => {
                self.submit_reconfiguration(operation, group, Wanted::Quorum(quorum.system(count)));
            }
            Err(line) => self.answers.push((operation, Answer::Admin(AdminReply::Error(line)))),
        }
    }

    /// Other members for the group of a key's object.
    fn submit_move(&mut self, operation: u64, namespace: u32, name: &[u8], members: &[String], quorum: Option<Quorum>) {
        if self.decided_by_members(namespace).is_some() {
            return self.submit_move_namespace(operation, namespace, members, quorum);
        }
        let target = Target::Slot { namespace, slot: slot_of_key(name) };
        if self.directory.resolve(target).is_ok_and(|place| !place.protocol.is_register()) {
            let (names, members) = (vec![name.to_vec()], members.to_vec());
            let request = GroupRequest { quorum, names, members, ..GroupRequest::of(GroupAction::Move) };
            return self.submit_group_request(operation, namespace, request);
        }
        let command = match (self.directory.resolve(target), self.node_numbers(members)) {
            (Err(Missing::Everything), _) => return self.answers.push((operation, Answer::Failed(Failure::Loading))),
            (Err(Missing::Namespace), _) => {
                return self.answers.push((operation, Answer::Failed(Failure::NoNamespace)));
            }
            (_, Err(line)) => return self.answers.push((operation, Answer::Admin(AdminReply::Error(line)))),
            (Ok(place), Ok(members)) => RootCommand::MoveRegisters { group: place.group.0, members, quorum },
        };
        self.submit_change(operation, command);
    }

    /// The root has executed a command, or not. A change is told as done once this node follows it.
    pub(super) fn finish_admin(&mut self, operation: u64, answer: Answer) {
        if self.postpone_change(operation, &answer) {
            return;
        }
        match answer {
            Answer::Outcome(Outcome::Error(text)) => {
                self.answers.push((operation, Answer::Admin(AdminReply::Error(text))));
            }
            Answer::Outcome(outcome) => {
                let number = if let Outcome::Int(number) = outcome { Some(number) } else { None };
                let question = self.ask_for_directory_anew();
                if self.directory.has_answer_to(question) {
                    // This node coordinates the root, and has answered itself.
                    self.answers.push((operation, Answer::Admin(done(number))));
                } else {
                    self.admins.push(Waiting { operation, question, number });
                }
            }
            // As for a list: what there is cannot be said here yet, and neither was anything changed.
            Answer::Failed(Failure::NoQuorum) if self.directory.state().is_none() => {
                self.answers.push((operation, Answer::Failed(Failure::Loading)));
            }
            failed => self.answers.push((operation, failed)),
        }
    }

    /// The root's answer to its `question`-th question has been followed.
    pub(super) fn finish_waiting_admins(&mut self, question: u64) {
        let answers = &mut self.answers;
        self.admins.retain(|waiting| {
            let is_done = waiting.question <= question;
            if is_done {
                answers.push((waiting.operation, Answer::Admin(done(waiting.number))));
            }
            !is_done
        });
    }
}

fn done(number: Option<i64>) -> AdminReply {
    number.map_or(AdminReply::Ok, AdminReply::Int)
}

fn parse(words: &[Vec<u8>], defaults: Settings) -> Result<Request, String> {
    let is_word = |at: usize, word: &[u8]| words.get(at).is_some_and(|found| found.eq_ignore_ascii_case(word));
    if is_word(0, b"GROUP") && is_word(1, b"MOVE") {
        return parse_move(&words[2..]);
    }
    if is_word(0, b"GROUP") {
        return parse_group(&words[1..]).map(Request::Group);
    }
    if is_word(0, b"QUORUM") {
        return parse_quorum(&words[1..]);
    }
    let words: Vec<&str> =
        words.iter().map(|word| std::str::from_utf8(word)).collect::<Result<_, _>>().map_err(|_| USAGE.to_string())?;
    let is = |at: usize, word: &str| words.get(at).is_some_and(|found| found.eq_ignore_ascii_case(word));
    if is(0, "HELP") && words.len() == 1 {
        return Ok(Request::Help);
    }
    if is(0, "STATUS") {
        return match words.len() {
            1 => Ok(Request::Status { json: false }),
            2 if is(1, "JSON") => Ok(Request::Status { json: true }),
            _ => Err(USAGE.into()),
        };
    }
    if is(0, "DEMAND") {
        let count = words.get(2).and_then(|word| word.parse().ok());
        return match (words.len(), count) {
            (1, _) => Ok(Request::Demand { count: demand::TOLD }),
            (3, Some(count)) if is(1, "COUNT") => Ok(Request::Demand { count }),
            _ => Err(DEMAND_USAGE.into()),
        };
    }
    if is(0, "UPGRADE") {
        return upgrade::parse(&words[1..]).map(Request::Upgrade);
    }
    if is(0, "VOLUME") {
        return placement::parse_volume(&words[1..]).map(Request::Placement);
    }
    if is(0, "ROOT") {
        return placement::parse_root(&words[1..]).map(Request::Placement);
    }
    if is(0, "NODE") {
        let moves = placement::parse_node(&words[1..]).map(Request::Placement);
        return moves.map_or_else(|| nodes::parse(&words[1..]).map(Request::Node), Ok);
    }
    if !is(0, "NAMESPACE") {
        return Err(USAGE.into());
    }
    if is(1, "LIST") && words.len() == 2 {
        return Ok(Request::List);
    }
    let number = |usage: &str| words.get(2).and_then(|word| word.parse::<u32>().ok()).ok_or(usage.to_string());
    if is(1, "CREATE") {
        let (settings, members) = parse_settings(&words[3.min(words.len())..], defaults)?;
        return Ok(Request::Create { number: number(CREATE_USAGE)?, settings, members });
    }
    if is(1, "MOVE") {
        let number = number(MOVE_NAMESPACE_USAGE)?;
        let (members, quorum) = parse_members(&words[3..]).ok_or(MOVE_NAMESPACE_USAGE)?;
        return Ok(Request::MoveNamespace { number, members, quorum });
    }
    if is(1, "SET") {
        let number = number(SET_USAGE)?;
        let reads = words.get(4).and_then(|word| Reads::parse(word));
        return match reads {
            Some(reads) if is(3, "READS") && words.len() == 5 => {
                Ok(Request::Root(RootCommand::SetNamespace { number, reads }))
            }
            _ => Err(SET_USAGE.into()),
        };
    }
    if is(1, "DROP") && words.len() == 3 {
        return Ok(Request::Root(RootCommand::DropNamespace { number: number(USAGE)? }));
    }
    Err(USAGE.into())
}

fn parse_move(words: &[Vec<u8>]) -> Result<Request, String> {
    let usage = || MOVE_USAGE.to_string();
    let (name, rest) = words.split_first().ok_or_else(usage)?;
    let rest: Vec<&str> =
        rest.iter().map(|word| str::from_utf8(word)).collect::<Result<_, _>>().map_err(|_| usage())?;
    let (members, quorum) = parse_members(&rest).ok_or_else(usage)?;
    Ok(Request::Move { name: name.clone(), members, quorum })
}

/// `MEMBERS node,node,...`, and perhaps `QUORUM` with its words.
fn parse_members(words: &[&str]) -> Option<(Vec<String>, Option<Quorum>)> {
    let (option, rest) = words.split_first()?;
    let (list, rest) = rest.split_first().filter(|_| option.eq_ignore_ascii_case("MEMBERS"))?;
    let quorum = match rest.split_first() {
        None => None,
        Some((option, rest)) if option.eq_ignore_ascii_case("QUORUM") => Some(Quorum::parse(&rest.join(" "))?),
        Some(_) => return None,
    };
    Some((names_of(list), quorum))
}

fn names_of(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_owned()).collect()
}

/// `SHOW key` is told as a group is.
fn parse_quorum(words: &[Vec<u8>]) -> Result<Request, String> {
    let usage = || QUORUM_USAGE.to_string();
    let is = |at: usize, word: &[u8]| words.get(at).is_some_and(|found| found.eq_ignore_ascii_case(word));
    if is(0, b"SHOW") && words.len() == 2 {
        return Ok(Request::Group(GroupRequest {
            names: vec![words[1].clone()],
            ..GroupRequest::of(GroupAction::Show)
        }));
    }
    if !is(0, b"SET") {
        return Err(usage());
    }
    let number = words.get(2).and_then(|word| str::from_utf8(word).ok()?.parse::<u32>().ok());
    if let (true, Some(number), Some(quorum)) = (is(1, b"NAMESPACE"), number, words.get(3..).and_then(threshold_of)) {
        return Ok(Request::SetQuorum { number, quorum });
    }
    let (names, sizes, is_batch) = take_names(&words[1..], usage)?;
    let quorum = Some(threshold_of(sizes).ok_or_else(usage)?);
    let request = GroupRequest { names: names.to_vec(), quorum, is_batch, ..GroupRequest::of(GroupAction::Move) };
    Ok(Request::Group(request))
}

/// Two sizes, with the word for such quorums or without.
fn threshold_of(words: &[Vec<u8>]) -> Option<Quorum> {
    let words: Option<Vec<&str>> = words.iter().map(|word| str::from_utf8(word).ok()).collect();
    Quorum::parse(&words?.join(" ")).filter(|quorum| matches!(quorum, Quorum::Threshold { .. }))
}

/// Names with what comes behind them.
type Named<'a> = (&'a [Vec<u8>], &'a [Vec<u8>], bool);

/// One name, or `KEYS count` and as many; and whether they came as a list.
fn take_names(words: &[Vec<u8>], usage: impl Fn() -> String) -> Result<Named<'_>, String> {
    if words.len() < 2 || !words[0].eq_ignore_ascii_case(b"KEYS") {
        let (names, rest) = words.split_at_checked(1).ok_or_else(usage)?;
        return Ok((names, rest, false));
    }
    let count: usize = str::from_utf8(&words[1]).ok().and_then(|word| word.parse().ok()).ok_or_else(&usage)?;
    if count == 0 || count > BATCH_NAMES_MAX {
        return Err(format!("ERR KEYS names from 1 to {BATCH_NAMES_MAX} keys"));
    }
    let (names, rest) = words[2..].split_at_checked(count).ok_or_else(usage)?;
    Ok((names, rest, true))
}

/// A quorum of one to three words, and how many they are.
fn take_quorum(words: &[&str]) -> Option<(Quorum, usize)> {
    let said = |count: usize| Quorum::parse(&words[..count].join(" ")).map(|quorum| (quorum, count));
    (1..=words.len().min(3)).rev().find_map(said)
}

/// Keys and values are bytes; only the words between them are text.
fn parse_group(words: &[Vec<u8>]) -> Result<GroupRequest, String> {
    let usage = || GROUP_USAGE.to_string();
    let (action, rest) = words.split_first().ok_or_else(usage)?;
    let mut action = match &action.to_ascii_uppercase()[..] {
        b"CREATE" => GroupAction::Create { value: Vec::new() },
        b"PROMOTE" => GroupAction::Promote,
        b"RETYPE" => GroupAction::Retype,
        b"DEMOTE" => GroupAction::Demote,
        b"SHOW" => GroupAction::Show,
        _ => return Err(usage()),
    };
    let (names, options, is_batch) = take_names(rest, usage)?;
    let makes = matches!(action, GroupAction::Create { .. } | GroupAction::Promote | GroupAction::Retype);
    let mut says_protocol = false;
    let mut request = GroupRequest::of(GroupAction::Show);
    let mut rest = options;
    while let Some((option, after)) = rest.split_first() {
        let (given, mut behind) = after.split_first().ok_or_else(usage)?;
        let word = || str::from_utf8(given).map_err(|_| usage());
        match (&option.to_ascii_uppercase()[..], &mut action) {
            (b"PROTOCOL", _) if makes => {
                (request.protocol, says_protocol) = (Protocol::parse(word()?).ok_or_else(usage)?, true);
            }
            (b"MEMBERS", _) if makes => {
                request.members = names_of(word()?);
            }
            (b"QUORUM", _) if makes => {
                let words: Vec<&str> = after.iter().take(3).map_while(|word| str::from_utf8(word).ok()).collect();
                let (quorum, count) = take_quorum(&words).ok_or_else(usage)?;
                request.quorum = Some(quorum);
                behind = &after[count..];
            }
            (b"VALUE", GroupAction::Create { value }) => value.clone_from(given),
            _ => return Err(usage()),
        }
        rest = behind;
    }
    if action == GroupAction::Retype && !says_protocol {
        return Err(
            "ERR QUORATE GROUP RETYPE says which PROTOCOL the group is to have: paxos, chain or register".into()
        );
    }
    Ok(GroupRequest { action, names: names.to_vec(), is_batch, ..request })
}

/// And the members that are named.
fn parse_settings(words: &[&str], defaults: Settings) -> Result<(Settings, Vec<String>), String> {
    let (mut settings, mut members) = (defaults, Vec::new());
    let (mut says_quorum, mut says_volumes, mut says_replicas, mut says_reads) = (false, false, false, false);
    let usage = || CREATE_USAGE.to_string();
    let mut rest = words;
    while let Some((name, after)) = rest.split_first() {
        let (value, after) = after.split_first().ok_or_else(usage)?;
        rest = after;
        match name.to_ascii_uppercase().as_str() {
            "QUORUM" => {
                says_quorum = true;
                let (quorum, count) = take_quorum(&words[words.len() - after.len() - 1..]).ok_or_else(usage)?;
                settings.quorum = quorum;
                rest = &after[count - 1..];
            }
            "TOLERANCE" => {
                says_quorum = true;
                settings.tolerance = value.parse().map_err(|_| usage())?;
            }
            "PROTOCOL" => settings.protocol = Protocol::parse(value).ok_or_else(usage)?,
            "REPLICAS" => (settings.replicas, says_replicas) = (value.parse().map_err(|_| usage())?, true),
            "VOLUMES" => (settings.volumes, says_volumes) = (value.parse().map_err(|_| usage())?, true),
            "AUTHORITY" => settings.authority = Authority::parse(value).ok_or_else(usage)?,
            "MEMBERS" => members = names_of(value),
            "DURABILITY" => settings.durability = Durability::parse(value).ok_or_else(usage)?,
            "READS" => (settings.reads, says_reads) = (Reads::parse(value).ok_or_else(usage)?, true),
            "GROUPS" => settings.groups = Groups::parse(value).ok_or_else(usage)?,
            _ => return Err(usage()),
        }
    }
    // What is the default for registers says nothing of others.
    if !settings.protocol.is_register() && !says_quorum {
        (settings.quorum, settings.tolerance) = (Quorum::Majority, 0);
    }
    if says_reads && settings.protocol.is_register() && settings.reads == Reads::Lease {
        return Err(NO_LEASE.into());
    }
    if !members.is_empty() {
        let count = u8::try_from(members.len()).unwrap_or(u8::MAX);
        if says_replicas && settings.replicas != count {
            return Err(format!(
                "ERR REPLICAS {} and MEMBERS, which names {count}, say different things",
                settings.replicas
            ));
        }
        settings.replicas = count;
    }
    // It is one group.
    if settings.authority.is_members() && !says_volumes {
        settings.volumes = 1;
    }
    Ok((settings, members))
}

fn list_namespaces(state: &crate::root::RootState) -> AdminReply {
    let entry = |(number, namespace): (&u32, &crate::root::Namespace)| {
        let settings = &namespace.settings;
        AdminReply::Map(vec![
            ("namespace".into(), AdminReply::Int(i64::from(*number))),
            ("protocol".into(), AdminReply::Text(settings.protocol.word().into())),
            ("replicas".into(), AdminReply::Int(i64::from(settings.replicas))),
            ("volumes".into(), AdminReply::Int(i64::from(settings.volumes))),
            ("durability".into(), AdminReply::Text(settings.durability.word().into())),
            ("reads".into(), AdminReply::Text(settings.reads.word().into())),
            ("groups".into(), AdminReply::Text(settings.groups.word().into())),
            ("quorum".into(), AdminReply::Text(settings.quorum.words())),
            ("tolerance".into(), AdminReply::Int(i64::from(settings.tolerance))),
            ("authority".into(), AdminReply::Text(settings.authority.word().into())),
        ])
    };
    AdminReply::List(state.namespaces.iter().map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        let words: Vec<Vec<u8>> = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
        parse(&words, Settings::default())
    }

    #[test]
    fn namespaces_are_created_with_what_is_named_and_the_defaults() {
        let settings = Settings { replicas: 1, reads: Reads::Quorum, ..Settings::default() };
        let create = Request::Create { number: 3, settings, members: Vec::new() };
        assert_eq!(parsed("namespace create 3 replicas 1 READS quorum"), Ok(create));
    }

    #[test]
    fn quorums_are_one_to_three_words_and_concern_registers_only() {
        let of_registers = Settings {
            protocol: Protocol::Register,
            quorum: Quorum::Grid { rows: 2, columns: 2 },
            tolerance: 1,
            ..Settings::default()
        };
        let settings = |line: &str, defaults| {
            parse_settings(&line.split_whitespace().collect::<Vec<_>>(), defaults).expect("a sound line").0
        };
        assert_eq!(
            settings("PROTOCOL paxos", of_registers),
            Settings::default(),
            "defaults of registers are not meant"
        );
        assert_eq!(settings("", of_registers), of_registers);
        for words in ["majority", "grid", "grid 3x2", "threshold 1 3"] {
            let line = format!("PROTOCOL register QUORUM {words} TOLERANCE 0 VOLUMES 8");
            let found = settings(&line, Settings::default());
            assert_eq!((found.quorum.words(), found.volumes), (words.to_owned(), 8));
        }
        assert!(parsed("NAMESPACE CREATE 1 QUORUM all").is_err());
        let moved = parsed("GROUP MOVE k MEMBERS n1,n2 QUORUM threshold 1 2");
        let quorum = Some(Quorum::Threshold { read: 1, write: 2 });
        let members = vec!["n1".to_owned(), "n2".to_owned()];
        assert_eq!(moved, Ok(Request::Move { name: b"k".to_vec(), members, quorum }));
        for line in ["GROUP MOVE", "GROUP MOVE k", "GROUP MOVE k MEMBERS", "GROUP MOVE k MEMBERS n1 QUORUM x", "QUORUM"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
        let resize = Request::SetQuorum { number: 2, quorum: Quorum::Threshold { read: 1, write: 3 } };
        assert_eq!(parsed("QUORUM SET NAMESPACE 2 1 3"), Ok(resize));
        for (one, other) in [
            ("QUORUM SET NAMESPACE 2 threshold 1 3", "QUORUM SET NAMESPACE 2 1 3"),
            ("QUORUM SET NAMESPACE threshold 1 3", "QUORUM SET NAMESPACE 1 3"),
            ("QUORUM SET KEYS 2 a b THRESHOLD 1 3", "QUORUM SET KEYS 2 a b 1 3"),
            ("GROUP PROMOTE a QUORUM 1 3 MEMBERS n1", "GROUP PROMOTE a QUORUM threshold 1 3 MEMBERS n1"),
            ("NAMESPACE CREATE 1 QUORUM 1 3 TOLERANCE 1", "NAMESPACE CREATE 1 QUORUM threshold 1 3 TOLERANCE 1"),
        ] {
            assert!(parsed(one).is_ok() && parsed(one) == parsed(other), "{one}");
        }
        assert!(parsed("QUORUM SET k grid").is_err() && parsed("QUORUM SET k majority").is_err());
        assert!(parsed("QUORUM SET NAMESPACE 2 1 300").is_err() && parsed("QUORUM SET k 1").is_err());
    }

    #[test]
    fn a_namespace_whose_members_decide_is_one_group_of_those_that_are_named() {
        let line = "NAMESPACE CREATE 3 PROTOCOL register AUTHORITY members MEMBERS n2,n4 QUORUM threshold 1 2";
        let Ok(Request::Create { number: 3, settings, members }) = parsed(line) else { panic!("{:?}", parsed(line)) };
        assert_eq!((settings.authority, settings.replicas, settings.volumes), (Authority::Members, 2, 1));
        assert_eq!(members, ["n2", "n4"]);
        let line = "NAMESPACE CREATE 3 PROTOCOL register AUTHORITY members VOLUMES 2 REPLICAS 4";
        let Ok(Request::Create { settings, .. }) = parsed(line) else { panic!("{:?}", parsed(line)) };
        assert_eq!((settings.volumes, settings.replicas), (2, 4), "the root refuses it, and says why");
        let quorum = Some(Quorum::Square);
        let moved = Request::MoveNamespace { number: 3, members: vec!["n1".into(), "n4".into()], quorum };
        assert_eq!(parsed("NAMESPACE MOVE 3 MEMBERS n1,n4 QUORUM grid"), Ok(moved));
        for line in ["MOVE", "MOVE 3", "MOVE 3 MEMBERS", "MOVE x MEMBERS n1", "CREATE 3 AUTHORITY nobody"] {
            assert!(parsed(&format!("NAMESPACE {line}")).is_err(), "{line}");
        }
        assert!(parsed("NAMESPACE CREATE 3 REPLICAS 2 MEMBERS n1").is_err_and(|line| line.contains("different")));
    }

    #[test]
    fn groups_are_asked_for_by_one_key_or_by_many() {
        let request = |action, names: &[&str], members: &[&str], is_batch| {
            let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let members = members.iter().map(|name| name.to_string()).collect();
            Ok(Request::Group(GroupRequest { names, members, is_batch, ..GroupRequest::of(action) }))
        };
        assert_eq!(parsed("GROUP show k"), request(GroupAction::Show, &["k"], &[], false));
        let create = GroupAction::Create { value: b"v".to_vec() };
        assert_eq!(
            parsed("group create keys 2 a b members n1,n2 value v protocol PAXOS"),
            request(create, &["a", "b"], &["n1", "n2"], true)
        );
        let of_registers = |action, names: &[&str], quorum: &str| {
            let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let quorum = Quorum::parse(quorum);
            GroupRequest { names, quorum, ..GroupRequest::of(action) }
        };
        let promote = of_registers(GroupAction::Promote, &["a"], "grid 2x2");
        let promote = GroupRequest { protocol: Protocol::Register, members: vec!["n2".into()], ..promote };
        assert_eq!(parsed("GROUP PROMOTE a QUORUM grid 2x2 PROTOCOL register MEMBERS n2"), Ok(Request::Group(promote)));
        let retype = of_registers(GroupAction::Retype, &["a"], "");
        let retype = GroupRequest { protocol: Protocol::Chain, ..retype };
        assert_eq!(parsed("GROUP RETYPE a PROTOCOL chain"), Ok(Request::Group(retype)));
        assert!(parsed("GROUP RETYPE a MEMBERS n1").is_err_and(|line| line.contains("which PROTOCOL")));
        let resize = of_registers(GroupAction::Move, &["a"], "threshold 1 3");
        assert_eq!(parsed("QUORUM SET a 1 3"), Ok(Request::Group(resize)));
        let resize = of_registers(GroupAction::Move, &["a", "b"], "threshold 1 3");
        let resize = GroupRequest { is_batch: true, ..resize };
        assert_eq!(parsed("QUORUM SET KEYS 2 a b 1 3"), Ok(Request::Group(resize)));
        for line in ["GROUP", "GROUP SHOW", "GROUP DEMOTE a MEMBERS n1", "GROUP PROMOTE a VALUE b", "GROUP CREATE a b"]
        {
            assert_eq!(parsed(line), Err(GROUP_USAGE.to_string()), "{line}");
        }
        for line in ["GROUP SHOW KEYS 2 a", "GROUP SHOW KEYS 0", "GROUP SHOW KEYS 10001", "GROUP CREATE a PROTOCOL x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn help_tells_of_every_command_in_words_that_are_understood() {
        assert_eq!(parsed("help"), Ok(Request::Help));
        assert_eq!(parsed("HELP me"), Err(USAGE.to_string()));
        for syntax in help::syntaxes() {
            let one = syntax.replace("|KEYS count key ...", "").replace("|quorum|local|apportioned", "");
            let filled = one
                .replace("DRIVER number", "DRIVER 1")
                .replace("number", "1")
                .replace("namespace", "1")
                .replace("volume FROM", "3 FROM")
                .replace("R W", "1 3")
                .replace("PROTOCOL protocol", "PROTOCOL chain");
            let line = filled.split('[').next().expect("a split has a first part");
            assert!(parsed(line).is_ok(), "{line}");
        }
        let commands =
            [("NAMESPACE", "CREATE|SET|MOVE|LIST|DROP"), ("GROUP", "CREATE|PROMOTE|DEMOTE|MOVE|RETYPE|SHOW")];
        let others = [
            ("QUORUM", "SET|SHOW"),
            ("VOLUME", "LIST|MOVE"),
            ("ROOT", "SHOW|MOVE|WIDEN"),
            ("NODE", "LIST|SHOW|ADD|REMOVE|DRAIN|UNDRAIN|LEVEL"),
            ("UPGRADE", "SHOW|BEGIN|NOTE|LEAVE|END|RAISE"),
            ("", "DEMAND"),
            ("", "STATUS"),
            ("", "HELP"),
        ];
        for (of, names) in commands.into_iter().chain(others) {
            assert!(USAGE.contains(format!("QUORATE {of} {names}").replace("  ", " ").as_str()), "{of} {names}");
            for name in names.split('|') {
                let command = format!("{of} {name}");
                assert!(help::syntaxes().any(|syntax| syntax.starts_with(command.trim_start())), "{command}");
            }
        }
    }

    #[test]
    fn who_does_not_know_the_namespaces_yet_says_so_of_a_change_as_of_a_list() {
        let mut host = crate::host::dispatch::tests::first_of(3);
        assert!(host.directory().is_none());
        host.submit_admin(1, 0, &[b"NAMESPACE".to_vec(), b"LIST".to_vec()]);
        host.finish_admin(2, Answer::Failed(Failure::NoQuorum));
        host.finish_admin(3, Answer::Failed(Failure::Timeout));
        let mut answers = Vec::new();
        host.take_answers(&mut answers);
        let loading = Answer::Failed(Failure::Loading);
        assert_eq!(answers, [(1, loading.clone()), (2, loading), (3, Answer::Failed(Failure::Timeout))]);
    }

    #[test]
    fn what_is_no_command_is_told_the_usage() {
        for line in ["", "NAMESPACE", "NAMESPACE CREATE", "NAMESPACE CREATE x", "STATUS XML", "NAMESPACE DROP"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert_eq!(parsed("NAMESPACE CREATE 1 REPLICAS"), Err(CREATE_USAGE.to_string()));
        for line in ["DEMAND COUNT", "DEMAND COUNT x", "DEMAND 3"] {
            assert_eq!(parsed(line), Err(DEMAND_USAGE.to_string()), "{line}");
        }
        assert_eq!(parsed("NAMESPACE SET 1 VOLUMES 3"), Err(SET_USAGE.to_string()));
        assert_eq!(parsed("NAMESPACE CREATE 1 READS lease PROTOCOL register"), Err(NO_LEASE.to_string()));
        assert!(parsed("NAMESPACE CREATE 1 PROTOCOL register").is_ok(), "the default is not meant");
    }
}
