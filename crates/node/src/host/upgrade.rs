//! The words of `QUORATE UPGRADE`: whoever restarts the nodes one after the other keeps in the root how far it is.

use quorate_protocol::NodeId;

use super::Host;
use crate::answer::{AdminReply, Answer, Failure};
use crate::entry::Purpose;
use crate::level::FeatureLevel;
use crate::root::{RootCommand, RootState, UpgradeCommand};

const USAGE: &str = "ERR QUORATE UPGRADE SHOW; QUORATE UPGRADE BEGIN version DRIVER number [ANEW] [SILENT beat]; \
                     QUORATE UPGRADE NOTE DRIVER number [BATCH node,node,...] [DONE node,node,...]; \
                     QUORATE UPGRADE LEAVE DRIVER number; QUORATE UPGRADE END DRIVER number; QUORATE UPGRADE RAISE";

#[derive(Debug, PartialEq)]
pub(super) enum UpgradeRequest {
    Show,
    Note { driver: u64, batch: Vec<String>, done: Vec<String> },
    Other(UpgradeCommand),
    Raise,
}

impl Host {
    pub(super) fn submit_upgrade(&mut self, operation: u64, request: UpgradeRequest) {
        let command = match request {
            UpgradeRequest::Show => {
                let told = self.directory().map(show);
                return self.answers.push((operation, told.map_or(Answer::Failed(Failure::Loading), Answer::Admin)));
            }
            UpgradeRequest::Other(command) => Ok(command),
            UpgradeRequest::Raise => self.level_of_all().map(|level| UpgradeCommand::Raise { level }),
            UpgradeRequest::Note { driver, batch, done } => self
                .node_numbers(&batch)
                .and_then(|batch| self.node_numbers(&done).map(|done| UpgradeCommand::Note { driver, batch, done })),
        };
        match command {
            Ok(command) => self.submit_to_root(&RootCommand::Upgrade(command), Purpose::Admin { operation }),
            Err(line) => self.answers.push((operation, Answer::Admin(AdminReply::Error(line)))),
        }
    }
}

/// What the nodes know of each other's releases.
impl Host {
    /// A node has said, in a greeting, which levels its release knows.
    pub fn note_level(&mut self, node: NodeId, known: FeatureLevel) {
        self.levels.insert(node, known);
    }

    /// That of the cluster, as far as this node knows.
    pub fn level(&self) -> FeatureLevel {
        self.directory.state().map_or(FeatureLevel::FIRST, |state| state.level)
    }

    /// The highest that every node knows. Each must be linked now, and so have said it in its present run.
    fn level_of_all(&self) -> Result<FeatureLevel, String> {
        let nodes = self.directory.state().map(|state| &state.nodes[..]).unwrap_or_default();
        let mut level = self.settings.level_known;
        for node in nodes.iter().filter(|node| node.id != self.settings.node.0) {
            let id = NodeId(node.id);
            let known = self.levels.get(&id).filter(|_| self.linked.contains(&id));
            level = level.min(*known.ok_or_else(|| {
                format!(
                    "ERR {} has not said which feature levels it knows: it must be up and linked to this node",
                    node.name
                )
            })?);
        }
        Ok(level)
    }
}

/// The words behind `UPGRADE`.
pub(super) fn parse(words: &[&str]) -> Result<UpgradeRequest, String> {
    try_parse(words).ok_or_else(|| USAGE.to_owned())
}

fn try_parse(words: &[&str]) -> Option<UpgradeRequest> {
    let (action, rest) = words.split_first()?;
    let action = action.to_ascii_uppercase();
    match (&action[..], rest) {
        ("SHOW", []) => Some(UpgradeRequest::Show),
        ("RAISE", []) => Some(UpgradeRequest::Raise),
        ("BEGIN", [version, rest @ ..]) => {
            let (driver, mut rest) = driver_of(rest)?;
            let (mut anew, mut silent_at) = (false, None);
            while let [option, after @ ..] = rest {
                match (&option.to_ascii_uppercase()[..], after) {
                    ("ANEW", after) => (anew, rest) = (true, after),
                    ("SILENT", [beat, after @ ..]) => (silent_at, rest) = (Some(beat.parse().ok()?), after),
                    _ => return None,
                }
            }
            let version = (*version).to_owned();
            Some(UpgradeRequest::Other(UpgradeCommand::Begin { version, driver, anew, silent_at }))
        }
        ("NOTE", rest) => {
            let (driver, mut rest) = driver_of(rest)?;
            let (mut batch, mut done) = (Vec::new(), Vec::new());
            while let [option, names, after @ ..] = rest {
                let names = names.split(',').map(|name| name.trim().to_owned()).collect();
                match &option.to_ascii_uppercase()[..] {
                    "BATCH" => batch = names,
                    "DONE" => done = names,
                    _ => return None,
                }
                rest = after;
            }
            rest.is_empty().then_some(UpgradeRequest::Note { driver, batch, done })
        }
        ("LEAVE" | "END", rest) => {
            let (driver, []) = driver_of(rest)? else { return None };
            Some(UpgradeRequest::Other(match &action[..] {
                "END" => UpgradeCommand::End { driver },
                _ => UpgradeCommand::Leave { driver },
            }))
        }
        _ => None,
    }
}

fn driver_of<'a, 'b>(words: &'a [&'b str]) -> Option<(u64, &'a [&'b str])> {
    let [option, number, rest @ ..] = words else { return None };
    option.eq_ignore_ascii_case("DRIVER").then_some((number.parse().ok()?, rest))
}

fn show(state: &RootState) -> AdminReply {
    let text = |text: &str| AdminReply::Text(text.to_owned());
    let level = ("level".to_owned(), AdminReply::Int(state.level.0.into()));
    let Some(upgrade) = &state.upgrade else { return AdminReply::Map(vec![("state".into(), text("none")), level]) };
    let number = |number: u64| AdminReply::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let name = |id: &u32| {
        let node = state.nodes.iter().find(|node| node.id == *id);
        AdminReply::Text(node.map_or_else(|| id.to_string(), |node| node.name.clone()))
    };
    let names = |ids: &[u32]| AdminReply::List(ids.iter().map(name).collect());
    AdminReply::Map(vec![
        ("state".into(), text(if upgrade.driver == 0 { "left" } else { "driven" })),
        level,
        ("version".into(), text(&upgrade.version)),
        ("driver".into(), number(upgrade.driver)),
        ("beat".into(), number(upgrade.beat)),
        ("batch".into(), names(&upgrade.batch)),
        ("done".into(), names(&upgrade.done)),
        ("left".into(), names(&state.upgrade_left().collect::<Vec<u32>>())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::three_nodes::{Cluster, arrives};
    use crate::readiness::Readiness;

    fn parsed(line: &str) -> Result<UpgradeRequest, String> {
        parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn each_word_of_a_driver_is_understood() {
        let begin = |anew, silent_at| {
            let version = "0.2.0".to_owned();
            Ok(UpgradeRequest::Other(UpgradeCommand::Begin { version, driver: 7, anew, silent_at }))
        };
        assert_eq!(parsed("BEGIN 0.2.0 DRIVER 7"), begin(false, None));
        assert_eq!(parsed("begin 0.2.0 driver 7 silent 3 anew"), begin(true, Some(3)));
        let note = |batch: &[&str], done: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
            Ok(UpgradeRequest::Note { driver: 7, batch: names(batch), done: names(done) })
        };
        assert_eq!(parsed("NOTE DRIVER 7"), note(&[], &[]));
        assert_eq!(parsed("NOTE DRIVER 7 DONE n1 BATCH n2,n3"), note(&["n2", "n3"], &["n1"]));
        assert_eq!(parsed("END DRIVER 7"), Ok(UpgradeRequest::Other(UpgradeCommand::End { driver: 7 })));
        assert_eq!(parsed("SHOW"), Ok(UpgradeRequest::Show));
        for line in ["", "SHOW x", "BEGIN", "BEGIN 2", "BEGIN 2 DRIVER x", "BEGIN 2 DRIVER 7 SILENT", "NOTE", "END"] {
            assert_eq!(parsed(line), Err(USAGE.to_owned()), "{line}");
        }
        for line in ["NOTE DRIVER 7 BATCH", "NOTE DRIVER 7 UP n1", "LEAVE DRIVER 7 now", "ROLL"] {
            assert_eq!(parsed(line), Err(USAGE.to_owned()), "{line}");
        }
    }

    #[test]
    fn any_node_tells_how_far_it_is() {
        let mut cluster = Cluster::new(|_| {});
        let mut say = |id: u32, line: &str| {
            let number = cluster.next_number();
            let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            cluster.node(id).host.submit_admin(number, 0, &words);
            cluster.pass(2_000, arrives);
            let answers = &cluster.node(id).answers;
            answers.iter().find(|(of, _)| *of == number).map(|(_, answer)| answer.clone()).expect("answered")
        };
        let ok = Answer::Admin(AdminReply::Ok);
        assert_eq!(say(2, "UPGRADE BEGIN 0.2.0 DRIVER 7"), ok);
        assert_eq!(say(1, "UPGRADE NOTE DRIVER 7 DONE n3 BATCH n2"), ok);
        let Answer::Admin(AdminReply::Map(fields)) = say(3, "UPGRADE SHOW") else { panic!("not told") };
        let told = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, told)| told.clone());
        let names =
            |names: &[&str]| Some(AdminReply::List(names.iter().map(|&n| AdminReply::Text(n.into())).collect()));
        assert_eq!((told("batch"), told("left")), (names(&["n2"]), names(&["n1", "n2"])));
        let refused = say(1, "UPGRADE NOTE DRIVER 7 DONE n9");
        assert!(matches!(refused, Answer::Admin(AdminReply::Error(line)) if line.contains("no node is called n9")));
        assert_eq!(say(1, "UPGRADE NOTE DRIVER 7 DONE n1,n2"), ok);
        assert_eq!(say(3, "UPGRADE END DRIVER 7"), ok);
        let none = vec![("state".into(), AdminReply::Text("none".into())), ("level".into(), AdminReply::Int(1))];
        assert_eq!(say(2, "UPGRADE SHOW"), Answer::Admin(AdminReply::Map(none)));
    }

    #[test]
    fn the_level_is_raised_to_what_all_nodes_have_said_and_one_that_does_not_know_it_serves_nobody() {
        let mut cluster = Cluster::new(|settings| settings.level_known = FeatureLevel(4 - settings.node.0 as u8 / 3));
        let raise = |cluster: &mut Cluster| {
            let number = cluster.next_number();
            cluster.node(1).host.submit_admin(number, 0, &[b"UPGRADE".to_vec(), b"RAISE".to_vec()]);
            cluster.pass(2_000, arrives);
            let answers = &cluster.node(1).answers;
            answers.iter().find(|(of, _)| *of == number).map(|(_, answer)| answer.clone()).expect("answered")
        };
        cluster.node(1).host.note_level(NodeId(2), FeatureLevel(4));
        let refused = raise(&mut cluster);
        assert!(matches!(refused, Answer::Admin(AdminReply::Error(line)) if line.contains("n3 has not said")));
        assert_eq!(cluster.node(2).host.level(), FeatureLevel::FIRST);
        cluster.node(1).host.note_level(NodeId(3), FeatureLevel(3));
        assert_eq!(raise(&mut cluster), Answer::Admin(AdminReply::Ok));
        assert_eq!([1, 2, 3].map(|id| cluster.node(id).host.level()), [FeatureLevel(3); 3]);
        assert!(cluster.node(3).host.readiness().is_ready());
        cluster.node(1).host.unlinked(NodeId(2));
        assert!(matches!(raise(&mut cluster), Answer::Admin(AdminReply::Error(line)) if line.contains("n2 has not")));
        cluster.node(3).host.settings.level_known = FeatureLevel(2);
        assert_eq!(cluster.node(3).host.readiness(), Readiness::ReleaseTooOld);
    }
}
