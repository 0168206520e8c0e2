//! Administrative commands, in the words of docs/commands.md.

use quorate_object::Outcome;

use super::batches::{BATCH_NAMES_MAX, GroupAction, GroupRequest};
use super::{Answer, Failure, Host};
use crate::admin_reply::AdminReply;
use crate::entry::Purpose;
use crate::replica::Protocol;
use crate::root::{Durability, Groups, Reads, RootCommand, Settings};

/// An operation whose root command was executed, and that waits until this node has heard of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub operation: u64,
    /// Answered once the answer to this question to the root has come.
    pub question: u64,
}

const USAGE: &str = "ERR the commands are QUORATE NAMESPACE CREATE|SET|LIST|DROP, \
                     QUORATE GROUP CREATE|PROMOTE|DEMOTE|SHOW and QUORATE STATUS [JSON]";
const CREATE_USAGE: &str = "ERR QUORATE NAMESPACE CREATE number [PROTOCOL paxos|chain] [REPLICAS n] [VOLUMES n] \
                            [DURABILITY sync|interval|memory] [READS lease|quorum|local|apportioned] \
                            [GROUPS volumes|own]";
const GROUP_USAGE: &str = "ERR QUORATE GROUP CREATE|PROMOTE|DEMOTE|SHOW key, or KEYS count key ... in place of key; \
                           then, where it creates or promotes, [PROTOCOL paxos] [MEMBERS node,node,...] and, where it \
                           creates, [VALUE value]";
const SET_USAGE: &str = "ERR QUORATE NAMESPACE SET number READS lease|quorum|local|apportioned";

/// What a line of words asks for.
#[derive(Debug, PartialEq)]
enum Request {
    Root(RootCommand),
    List,
    Status { json: bool },
    Group(GroupRequest),
}

impl Host {
    /// Takes a client's administrative command, the words after `QUORATE`, on the namespace that the client has entered.
    pub fn submit_admin(&mut self, number: u64, namespace: u32, words: &[Vec<u8>]) {
        match parse(words, self.settings.defaults) {
            Err(usage) => self.answers.push((number, Answer::Admin(AdminReply::Error(usage)))),
            Ok(Request::Root(command)) => self.submit_to_root(&command, Purpose::Admin { operation: number }),
            Ok(Request::Group(request)) => self.submit_group_request(number, namespace, request),
            Ok(Request::Status { json }) => self.ask_for_status(number, json),
            Ok(Request::List) => {
                let reply =
                    self.directory().map(list_namespaces).map_or(Answer::Failed(Failure::Loading), Answer::Admin);
                self.answers.push((number, reply));
            }
        }
    }

    /// The root has executed a command, or not. A change is told as done once this node follows it.
    pub(super) fn finish_admin(&mut self, operation: u64, answer: Answer) {
        match answer {
            Answer::Outcome(Outcome::Error(text)) => {
                self.answers.push((operation, Answer::Admin(AdminReply::Error(text))));
            }
            Answer::Outcome(_) => {
                let question = self.ask_for_directory_anew();
                if self.directory.has_answer_to(question) {
                    // This node coordinates the root, and has answered itself.
                    self.answers.push((operation, Answer::Admin(AdminReply::Ok)));
                } else {
                    self.admins.push(Waiting { operation, question });
                }
            }
            failed => self.answers.push((operation, failed)),
        }
    }

    /// The root's answer to its `question`-th question has been followed.
    pub(super) fn finish_waiting_admins(&mut self, question: u64) {
        let answers = &mut self.answers;
        self.admins.retain(|waiting| {
            let done = waiting.question <= question;
            if done {
                answers.push((waiting.operation, Answer::Admin(AdminReply::Ok)));
            }
            !done
        });
    }
}

fn parse(words: &[Vec<u8>], defaults: Settings) -> Result<Request, String> {
    if words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"GROUP")) {
        return parse_group(&words[1..]).map(Request::Group);
    }
    let words: Vec<&str> =
        words.iter().map(|word| std::str::from_utf8(word)).collect::<Result<_, _>>().map_err(|_| USAGE.to_string())?;
    let is = |at: usize, word: &str| words.get(at).is_some_and(|found| found.eq_ignore_ascii_case(word));
    if is(0, "STATUS") {
        return match words.len() {
            1 => Ok(Request::Status { json: false }),
            2 if is(1, "JSON") => Ok(Request::Status { json: true }),
            _ => Err(USAGE.into()),
        };
    }
    if !is(0, "NAMESPACE") {
        return Err(USAGE.into());
    }
    if is(1, "LIST") && words.len() == 2 {
        return Ok(Request::List);
    }
    let number = |usage: &str| words.get(2).and_then(|word| word.parse::<u32>().ok()).ok_or(usage.to_string());
    if is(1, "CREATE") {
        let settings = parse_settings(&words[3.min(words.len())..], defaults)?;
        return Ok(Request::Root(RootCommand::CreateNamespace { number: number(CREATE_USAGE)?, settings }));
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

/// Keys and values are bytes; only the words between them are text.
fn parse_group(words: &[Vec<u8>]) -> Result<GroupRequest, String> {
    let usage = || GROUP_USAGE.to_string();
    let (action, rest) = words.split_first().ok_or_else(usage)?;
    let mut action = match &action.to_ascii_uppercase()[..] {
        b"CREATE" => GroupAction::Create { value: Vec::new() },
        b"PROMOTE" => GroupAction::Promote,
        b"DEMOTE" => GroupAction::Demote,
        b"SHOW" => GroupAction::Show,
        _ => return Err(usage()),
    };
    let is_batch = rest.len() > 1 && rest[0].eq_ignore_ascii_case(b"KEYS");
    let (names, options) = if is_batch {
        let count: usize = str::from_utf8(&rest[1]).ok().and_then(|word| word.parse().ok()).ok_or_else(usage)?;
        if count == 0 || count > BATCH_NAMES_MAX {
            return Err(format!("ERR KEYS names from 1 to {BATCH_NAMES_MAX} keys"));
        }
        rest[2..].split_at_checked(count).ok_or_else(usage)?
    } else {
        rest.split_at_checked(1).ok_or_else(usage)?
    };
    let makes = matches!(action, GroupAction::Create { .. } | GroupAction::Promote);
    let mut members = Vec::new();
    for pair in options.chunks(2) {
        let [option, given] = pair else { return Err(usage()) };
        match (&option.to_ascii_uppercase()[..], &mut action) {
            (b"PROTOCOL", _) if makes && given.eq_ignore_ascii_case(b"paxos") => {}
            (b"MEMBERS", _) if makes => {
                let list = str::from_utf8(given).map_err(|_| usage())?;
                members = list.split(',').map(|name| name.trim().to_owned()).collect();
            }
            (b"VALUE", GroupAction::Create { value }) => value.clone_from(given),
            _ => return Err(usage()),
        }
    }
    Ok(GroupRequest { action, names: names.to_vec(), members, is_batch })
}

fn parse_settings(words: &[&str], defaults: Settings) -> Result<Settings, String> {
    let mut settings = defaults;
    let usage = || CREATE_USAGE.to_string();
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(usage()) };
        match name.to_ascii_uppercase().as_str() {
            "PROTOCOL" => settings.protocol = Protocol::parse(value).ok_or_else(usage)?,
            "REPLICAS" => settings.replicas = value.parse().map_err(|_| usage())?,
            "VOLUMES" => settings.volumes = value.parse().map_err(|_| usage())?,
            "DURABILITY" => settings.durability = Durability::parse(value).ok_or_else(usage)?,
            "READS" => settings.reads = Reads::parse(value).ok_or_else(usage)?,
            "GROUPS" => settings.groups = Groups::parse(value).ok_or_else(usage)?,
            _ => return Err(usage()),
        }
    }
    Ok(settings)
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
        let create = RootCommand::CreateNamespace { number: 3, settings };
        assert_eq!(parsed("namespace create 3 replicas 1 READS quorum"), Ok(Request::Root(create)));
    }

    #[test]
    fn groups_are_asked_for_by_one_key_or_by_many() {
        let request = |action, names: &[&str], members: &[&str], is_batch| {
            let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let members = members.iter().map(|name| name.to_string()).collect();
            Ok(Request::Group(GroupRequest { action, names, members, is_batch }))
        };
        assert_eq!(parsed("GROUP show k"), request(GroupAction::Show, &["k"], &[], false));
        let create = GroupAction::Create { value: b"v".to_vec() };
        assert_eq!(
            parsed("group create keys 2 a b members n1,n2 value v protocol PAXOS"),
            request(create, &["a", "b"], &["n1", "n2"], true)
        );
        for line in ["GROUP", "GROUP SHOW", "GROUP DEMOTE a MEMBERS n1", "GROUP PROMOTE a VALUE b", "GROUP CREATE a b"]
        {
            assert_eq!(parsed(line), Err(GROUP_USAGE.to_string()), "{line}");
        }
        for line in ["GROUP SHOW KEYS 2 a", "GROUP SHOW KEYS 0", "GROUP SHOW KEYS 10001", "GROUP CREATE a PROTOCOL x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_is_no_command_is_told_the_usage() {
        for line in ["", "NAMESPACE", "NAMESPACE CREATE", "NAMESPACE CREATE x", "STATUS XML", "NAMESPACE DROP"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert_eq!(parsed("NAMESPACE CREATE 1 REPLICAS"), Err(CREATE_USAGE.to_string()));
        assert_eq!(parsed("NAMESPACE SET 1 VOLUMES 3"), Err(SET_USAGE.to_string()));
    }
}
