//! Administrative commands, in the words of docs/commands.md.

use quorate_object::Outcome;

use super::{Answer, Failure, Host};
use crate::admin_reply::AdminReply;
use crate::entry::Purpose;
use crate::root::{Durability, Reads, RootCommand, Settings};

/// An operation whose root command was executed, and that waits until this node has heard of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub operation: u64,
    /// Answered once the answer to this question to the root has come.
    pub question: u64,
}

const USAGE: &str = "ERR the commands are QUORATE NAMESPACE CREATE|SET|LIST|DROP and QUORATE STATUS [JSON]";
const CREATE_USAGE: &str = "ERR QUORATE NAMESPACE CREATE number [REPLICAS n] [VOLUMES n] \
                            [DURABILITY sync|interval|memory] [READS lease|quorum|local]";
const SET_USAGE: &str = "ERR QUORATE NAMESPACE SET number READS lease|quorum|local";

/// What a line of words asks for.
#[derive(Debug, PartialEq)]
enum Request {
    Root(RootCommand),
    List,
    Status { json: bool },
}

impl Host {
    /// Takes a client's administrative command, the words after `QUORATE`.
    pub fn submit_admin(&mut self, number: u64, words: &[Vec<u8>]) {
        match parse(words, self.settings.defaults) {
            Err(usage) => self.answers.push((number, Answer::Admin(AdminReply::Error(usage)))),
            Ok(Request::Root(command)) => self.submit_to_root(&command, Purpose::Admin { operation: number }),
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

fn parse_settings(words: &[&str], defaults: Settings) -> Result<Settings, String> {
    let mut settings = defaults;
    let usage = || CREATE_USAGE.to_string();
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(usage()) };
        match name.to_ascii_uppercase().as_str() {
            "REPLICAS" => settings.replicas = value.parse().map_err(|_| usage())?,
            "VOLUMES" => settings.volumes = value.parse().map_err(|_| usage())?,
            "DURABILITY" => settings.durability = Durability::parse(value).ok_or_else(usage)?,
            "READS" => settings.reads = Reads::parse(value).ok_or_else(usage)?,
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
            ("protocol".into(), AdminReply::Text("paxos".into())),
            ("replicas".into(), AdminReply::Int(i64::from(settings.replicas))),
            ("volumes".into(), AdminReply::Int(i64::from(settings.volumes))),
            ("durability".into(), AdminReply::Text(settings.durability.word().into())),
            ("reads".into(), AdminReply::Text(settings.reads.word().into())),
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
    fn what_is_no_command_is_told_the_usage() {
        for line in ["", "NAMESPACE", "NAMESPACE CREATE", "NAMESPACE CREATE x", "STATUS XML", "NAMESPACE DROP"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert_eq!(parsed("NAMESPACE CREATE 1 REPLICAS"), Err(CREATE_USAGE.to_string()));
        assert_eq!(parsed("NAMESPACE SET 1 VOLUMES 3"), Err(SET_USAGE.to_string()));
    }
}
