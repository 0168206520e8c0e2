//! What is as large as it may be, and a little more: it is cut, stored in pieces or refused, and nothing ends with it.

use quorate_checkpoint::MemoryStore;
use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer};
use quorate_protocol::NodeId;
use quorate_wal::memory::MemoryStorage;

use super::batches::{GroupAction, GroupRequest};
use super::dispatch::INTERNAL;
use super::quarantine::tests::Node;
use super::three_nodes::settings;
use super::{Answer, HostSettings, Submission};
use crate::Target;
use crate::admin_reply::AdminReply;
use crate::root::{Reads, Settings};

/// Two of them are more than a record may have.
const LARGE: usize = 13 << 20;

fn settings_with(set: impl FnOnce(&mut Settings)) -> HostSettings {
    let mut defaults = Settings { replicas: 1, volumes: 1, reads: Reads::Lease, ..Settings::default() };
    set(&mut defaults);
    HostSettings { defaults, ..settings(NodeId(1), 1) }
}

fn node(set: impl FnOnce(&mut Settings)) -> Node {
    Node::open_with(MemoryStorage::default(), MemoryStore::default(), 1, settings_with(set))
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
