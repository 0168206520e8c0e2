//! What is as large as it may be, and a little more: it is cut, stored in pieces or refused, and nothing ends with it.

use quorate_checkpoint::MemoryStore;
use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer};
use quorate_protocol::{NodeId, Stamp};
use quorate_wal::memory::MemoryStorage;

use super::batches::{GroupAction, GroupRequest};
use super::dispatch::INTERNAL;
use super::quarantine::tests::Node;
use super::three_nodes::settings;
use super::{HostSettings, Submission};
use crate::Target;
use crate::answer::{AdminReply, Answer};
use crate::entry::Purpose;
use crate::envelope::{Envelope, Ticket};
use crate::quorum::Quorum;
use crate::replica::Protocol;
use crate::root::{Groups, Reads, Settings};
use crate::volume::{Plan, VolumeCommand};

/// Two of them are more than a record may have.
const LARGE: usize = 13 << 20;

fn settings_with(start: u32, set: impl FnOnce(&mut Settings)) -> HostSettings {
    let mut defaults = Settings { replicas: 1, volumes: 1, reads: Reads::Lease, ..Settings::default() };
    set(&mut defaults);
    HostSettings { start, defaults, ..settings(NodeId(1), 1) }
}

fn node(set: impl FnOnce(&mut Settings)) -> Node {
    Node::open_with(MemoryStorage::default(), MemoryStore::default(), settings_with(1, set))
}

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Command<'a> {
    Command::Set { key, value, condition: Condition::Always, expiry: Expiry::Unset, answer: SetAnswer::Ok }
}

fn turns(node: &mut Node, count: u32) {
    (0..count).for_each(|_| node.turn());
}

impl Node {
    /// Begins a command on the one key.
    fn begin(&mut self, command: &Command<'_>) -> u64 {
        self.number += 1;
        let target = Target::Slot { namespace: 0, slot: 0 };
        self.host.submit(Submission { number: self.number, predecessor: None, target, command });
        self.number
    }

    fn request(&mut self, action: GroupAction, names: Vec<Vec<u8>>) -> Vec<AdminReply> {
        self.number += 1;
        let number = self.number;
        let request = GroupRequest { names, is_batch: true, ..GroupRequest::of(action) };
        self.host.submit_group_request(number, 0, request);
        for _ in 0..600 {
            self.turn();
            if let Some(at) = self.answers.iter().position(|(of, _)| *of == number) {
                return match self.answers.swap_remove(at).1 {
                    Answer::Admin(AdminReply::List(replies)) => replies,
                    answer => panic!("{answer:?}"),
                };
            }
        }
        panic!("nobody was answered");
    }

    /// Whether a new start of the node finds everything.
    fn start_anew(self, set: impl FnOnce(&mut Settings)) -> Node {
        Node::open_with(self.storage, self.store, settings_with(2, set))
    }

    fn length(&mut self) -> Answer {
        self.ask(0, &Command::Strlen { key: b"key" })
    }

    fn is_well(&mut self) -> bool {
        assert!(self.answers.iter().all(|(number, _)| number & INTERNAL == 0), "nobody has asked for that");
        let faults = self.host.take_faults();
        assert!(faults.is_empty(), "{faults:?}");
        true
    }
}

#[test]
fn a_request_on_more_names_than_one_command_may_have_is_answered() {
    let mut node = node(|_| {});
    let names: Vec<Vec<u8>> = (0..1000).map(|n| format!("{n:030000}").into_bytes()).collect();
    let replies = node.request(GroupAction::Promote, names);
    assert_eq!(replies.len(), 1000);
    assert!(replies.iter().all(|reply| *reply == AdminReply::Error("ERR no such key".into())));
    assert!(node.is_well());
}

#[test]
fn a_request_that_is_too_large_for_its_volume_is_refused() {
    let mut node = node(|_| {});
    let value = vec![7; 21 << 20];
    let replies = node.request(GroupAction::Create { value }, vec![b"key".to_vec()]);
    assert_eq!(replies, [AdminReply::Error("ERR the command is larger than 20971520 bytes".into())]);
    assert!(node.is_well());
}

const IS_LARGE: Answer = Answer::Outcome(Outcome::Int(LARGE as i64));
const IS_DONE: Answer = Answer::Outcome(Outcome::Ok);
const REMOVE_EXPIRY: Command<'_> = Command::GetEx { key: b"key", expiry: Expiry::Remove };

fn chain(settings: &mut Settings) {
    (settings.protocol, settings.quorum) = (Protocol::Chain, Quorum::Majority);
}

#[test]
fn what_a_chain_answers_and_changes_is_divided_into_updates() {
    let mut node = node(chain);
    let value = vec![7; LARGE];
    assert_eq!(node.ask(0, &set(b"key", &value)), IS_DONE);
    let numbers = [node.begin(&REMOVE_EXPIRY), node.begin(&REMOVE_EXPIRY), node.begin(&set(b"other", b"v"))];
    turns(&mut node, 20);
    let answered =
        |node: &Node, number| node.answers.iter().find(|(of, _)| *of == number).map(|(_, answer)| answer.clone());
    let bulk = Answer::Outcome(Outcome::Bulk(value.clone()));
    assert_eq!(numbers.map(|number| answered(&node, number)), [Some(bulk.clone()), Some(bulk), Some(IS_DONE)]);
    assert!(node.is_well());
    let mut node = node.start_anew(chain);
    assert_eq!(node.length(), IS_LARGE);
}

#[test]
fn what_is_too_large_for_an_update_of_a_chain_by_itself_is_refused() {
    let mut node = node(chain);
    let value = vec![7; LARGE];
    assert_eq!(node.ask(0, &set(b"key", &value)), IS_DONE);
    let answer = node.ask(0, &Command::GetSet { key: b"key", value: &vec![8; LARGE] });
    assert!(
        matches!(&answer, Answer::Outcome(Outcome::Error(line)) if line.starts_with("ERR not executed")),
        "{answer:?}"
    );
    let end = Command::GetRange { key: b"key", start: -1, end: -1 };
    assert_eq!(node.ask(0, &end), Answer::Outcome(Outcome::Bulk(vec![7])), "it was not");
    let answer = node.ask(0, &Command::GetSet { key: b"key", value: b"v" });
    assert_eq!(answer, Answer::Outcome(Outcome::Bulk(value)));
    assert!(node.is_well());
}

#[test]
fn an_object_gets_a_group_of_its_own_though_a_large_one_was_just_answered() {
    let mut node = node(|_| {});
    let value = vec![7; LARGE];
    assert_eq!(node.ask(0, &set(b"key", &value)), IS_DONE);
    node.ask(0, &Command::GetSet { key: b"key", value: &value });
    assert_eq!(node.request(GroupAction::Promote, vec![b"key".to_vec()]), [AdminReply::Ok]);
    assert_eq!(node.length(), IS_LARGE);
    assert!(node.is_well());
    let mut node = node.start_anew(|_| {});
    assert_eq!(node.length(), IS_LARGE);
    assert!(node.is_well());
}

#[test]
fn what_has_come_back_to_a_volume_goes_out_again_beside_a_large_object() {
    let mut node = node(|settings| settings.groups = Groups::Own);
    let value = vec![7; LARGE];
    assert_eq!(node.ask(0, &set(b"key", &value)), IS_DONE);
    assert_eq!(node.ask(0, &Command::GetDel { key: b"key" }), Answer::Outcome(Outcome::Bulk(value.clone())));
    // As another entry node would send it: its commands do not settle this one's.
    let ticket = Ticket { node: NodeId(1), start: 7, number: 1 };
    let deadline = Stamp(node.host.stamp().0 + 4_000);
    let mut envelope = Vec::new();
    Envelope::encode(ticket, deadline, 0, 0, |out| set(b"key", &value).encode(out), &mut envelope);
    let index = node.host.find(node.volume(0)).expect("it is here");
    node.host.gather(index, &envelope);
    turns(&mut node, 50);
    assert_eq!(node.length(), IS_LARGE);
    assert!(node.is_well());
}

/// Its results are more than its record may have.
fn own_group_with_large_results() -> Node {
    let mut node = node(|_| {});
    let value = vec![7; LARGE];
    assert_eq!(node.ask(0, &set(b"key", &value)), IS_DONE);
    assert_eq!(node.request(GroupAction::Promote, vec![b"key".to_vec()]), [AdminReply::Ok]);
    node.begin(&REMOVE_EXPIRY);
    node.begin(&REMOVE_EXPIRY);
    node
}

#[test]
fn an_own_group_with_large_results_is_checkpointed_and_rests_without_them() {
    let mut node = own_group_with_large_results();
    turns(&mut node, 30);
    assert_eq!(node.answers.len(), 2);
    let group = crate::volume::own_group(node.volume(0), 1);
    let index = node.host.find(group).expect("it is awake");
    node.host.want_checkpoint_now(index);
    turns(&mut node, 5);
    assert!(node.is_well());
    turns(&mut node, 7_000);
    assert!(node.host.find(group).is_none(), "it rests");
    assert!(node.is_well());
    let mut node = node.start_anew(|_| {});
    assert_eq!(node.length(), IS_LARGE);
}

#[test]
fn an_own_group_with_large_results_comes_back_to_its_volume() {
    let mut node = own_group_with_large_results();
    turns(&mut node, 10);
    assert_eq!(node.request(GroupAction::Demote, vec![b"key".to_vec()]), [AdminReply::Ok]);
    turns(&mut node, 100);
    let children = node.host.groups().find_map(|group| group.machine.children()).expect("there was one");
    assert!(children.stopping.is_empty(), "it has ended");
    assert_eq!(node.length(), IS_LARGE);
    assert!(node.is_well());
}

/// Together they are more than one value of the store may be.
fn objects_in(node: &mut Node) -> Vec<Vec<u8>> {
    let value = vec![7; 50 << 10];
    let names: Vec<Vec<u8>> = (0..600).map(|n| format!("key{n}").into_bytes()).collect();
    for name in &names {
        node.begin(&set(name, &value));
    }
    turns(node, 10);
    node.answers.clear();
    names
}

fn assert_the_last_is_there(node: &mut Node) {
    assert_eq!(node.ask(0, &Command::Strlen { key: b"key599" }), Answer::Outcome(Outcome::Int(50 << 10)));
    assert!(node.is_well());
}

/// Pieces in which the store has what the volume keeps of its own groups.
fn pieces(node: &Node) -> Option<u8> {
    node.host.groups().find_map(|group| group.machine.children()).map(|children| children.pieces)
}

/// They have begun, and the volume was stored before they were complete.
fn many_own_groups() -> Node {
    let mut node = node(|_| {});
    let names = objects_in(&mut node);
    let command = VolumeCommand::Promote { names, plan: Plan::plain() };
    node.host.submit_to_volume(Target::Volume { namespace: 0, index: 0 }, &command, Purpose::Settling);
    node.host.propose_gathered();
    store(&mut node);
    turns(&mut node, 3);
    assert_eq!(pieces(&node), Some(2));
    assert!(node.is_well());
    node
}

fn store(node: &mut Node) {
    let index = node.host.find(node.volume(0)).expect("it is here");
    node.host.want_checkpoint_now(index);
}

#[test]
fn what_very_many_own_groups_begin_with_is_stored_in_pieces() {
    let mut node = many_own_groups().start_anew(|_| {});
    assert_eq!(pieces(&node), Some(2));
    assert_the_last_is_there(&mut node);
}

#[test]
fn births_that_a_start_found_incomplete_are_completed_by_themselves() {
    let mut node = many_own_groups().start_anew(|_| {});
    // Nobody coordinates the volume until it is used, or has something to see to.
    turns(&mut node, 50);
    let children = node.host.groups().find_map(|group| group.machine.children()).expect("the volume has some");
    assert_eq!(children.starting_bytes, 0);
    assert_the_last_is_there(&mut node);
}

#[test]
fn pieces_that_are_not_needed_any_more_go() {
    let mut node = many_own_groups();
    turns(&mut node, 50);
    store(&mut node);
    turns(&mut node, 5);
    assert_eq!(pieces(&node), Some(1));
    let mut node = node.start_anew(|_| {});
    assert_eq!(pieces(&node), Some(1));
    assert_the_last_is_there(&mut node);
}

#[test]
fn objects_get_groups_of_their_own_as_many_at_once_as_are_not_too_large() {
    let mut node = node(|_| {});
    let names = objects_in(&mut node);
    let before = node.host.counters().slots_applied;
    assert!(node.request(GroupAction::Promote, names).iter().all(|reply| *reply == AdminReply::Ok));
    assert!(
        node.host.counters().slots_applied - before >= 3,
        "in two commands, and one that says that the first is complete"
    );
    turns(&mut node, 50);
    assert_the_last_is_there(&mut node);
    let mut node = node.start_anew(|_| {});
    assert_the_last_is_there(&mut node);
}

#[test]
fn a_volume_with_more_own_groups_than_one_answer_names_is_emptied() {
    let mut node = node(|_| {});
    let names: Vec<Vec<u8>> = (0..300).map(|n| format!("{n:060000}").into_bytes()).collect();
    for some in names.chunks(100) {
        let replies = node.request(GroupAction::Create { value: b"v".to_vec() }, some.to_vec());
        assert!(replies.iter().all(|reply| *reply == AdminReply::Ok));
    }
    let target = Target::Volume { namespace: 0, index: 0 };
    node.number += 1;
    node.host.submit(Submission { number: node.number, predecessor: None, target, command: &Command::Flush });
    turns(&mut node, 400);
    assert_eq!(node.answers, [(node.number, IS_DONE)]);
    let index = node.host.find(node.volume(0)).expect("it is here");
    assert_eq!(node.host.groups[index as usize].machine.objects().map(|objects| objects.away_count()), Some(0));
    assert!(node.is_well());
}
