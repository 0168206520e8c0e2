use quorate_checkpoint::{MemoryStore, Store};
use quorate_object::{Command, Condition, Expiry, SetAnswer};
use quorate_wal::Storage;
use quorate_wal::memory::MemoryStorage;

use super::*;
use crate::answer::{Answer, Failure};
use crate::host::three_nodes::settings;
use crate::host::{HostSettings, Submission};
use crate::root::{Reads, SLOT_COUNT, Settings};
use crate::{Moment, Target};
use quorate_protocol::Stamp;

/// A cluster of one node.
pub(in crate::host) struct Node {
    pub(in crate::host) host: Host,
    pub(in crate::host) storage: MemoryStorage,
    pub(in crate::host) store: MemoryStore,
    now_us: u64,
    pub(in crate::host) number: u64,
    pub(in crate::host) answers: Vec<(u64, Answer)>,
}

impl Node {
    pub(in crate::host) fn open(
        storage: MemoryStorage,
        store: MemoryStore,
        durability: Durability,
        start: u32,
    ) -> Node {
        let settings = HostSettings {
            start,
            defaults: Settings { replicas: 1, volumes: 2, durability, reads: Reads::Lease, ..Settings::default() },
            checkpoint_bytes: 1 << 20,
            ..settings(NodeId(1), 1)
        };
        Node::open_with(storage, store, settings)
    }

    /// Each start is a thousand seconds after the one before it.
    pub(in crate::host) fn open_with(storage: MemoryStorage, store: MemoryStore, settings: HostSettings) -> Node {
        let now_us = u64::from(settings.start) * 1_000_000_000;
        let (host, _) = Host::open(settings, &storage, &store, moment(now_us)).expect("it opens");
        let mut node = Node { host, storage, store, now_us, number: 0, answers: Vec::new() };
        (0..200).for_each(|_| node.turn());
        node
    }

    /// Ten milliseconds.
    pub(in crate::host) fn turn(&mut self) {
        self.now_us += 10_000;
        self.host.begin(moment(self.now_us));
        for lookup in self.host.take_lookups() {
            self.host.found(lookup.run(&self.store));
        }
        self.host.end(&self.storage);
        self.store_batches();
        self.flush();
        self.host.take_answers(&mut self.answers);
        for lookup in self.host.take_lookups() {
            self.host.found(lookup.run(&self.store));
        }
    }

    pub(in crate::host) fn wall_ms(&self) -> u64 {
        moment(self.now_us).wall.0
    }

    fn flush(&mut self) {
        if let Some(submission) = self.host.log_mut().submit() {
            submission.perform(&mut self.storage).expect("it has room");
            self.host.flushed(submission.lsn);
        }
        for segment in self.host.log_mut().removable() {
            self.storage.remove(segment).expect("it is there");
        }
    }

    fn store_batches(&mut self) {
        for (number, batch) in self.host.take_batches() {
            self.store.apply(batch).expect("it has room");
            self.host.stored(number);
        }
    }

    /// The answer to a write in this volume.
    pub(in crate::host) fn write(&mut self, volume: u32) -> Answer {
        self.write_value(volume, b"value")
    }

    fn write_value(&mut self, volume: u32, value: &[u8]) -> Answer {
        let (condition, expiry, answer) = (Condition::Always, Expiry::Unset, SetAnswer::Ok);
        self.ask(volume, &Command::Set { key: b"key", value, condition, expiry, answer })
    }

    pub(in crate::host) fn ask(&mut self, volume: u32, command: &Command<'_>) -> Answer {
        self.number += 1;
        let slot = (volume * SLOT_COUNT / 2) as u16;
        let target = Target::Slot { namespace: 0, slot };
        self.host.submit(Submission { number: self.number, predecessor: None, target, command });
        for _ in 0..600 {
            self.turn();
            if let Some(at) = self.answers.iter().position(|(number, _)| *number == self.number) {
                return self.answers.swap_remove(at).1;
            }
        }
        panic!("no answer within its deadline");
    }

    pub(in crate::host) fn volume(&self, index: usize) -> GroupId {
        let namespace = &self.host.directory().expect("it is known").namespaces[&0];
        GroupId(namespace.volumes[index].group)
    }

    pub(in crate::host) fn state(&self, group: GroupId) -> GroupState {
        self.host.groups().find(|found| found.id() == group).expect("it is here").state
    }
}

fn moment(now_us: u64) -> Moment {
    Moment { now: Instant(now_us), wall: Stamp(1_700_000_000_000 + now_us / 1000) }
}

fn is_done(answer: &Answer) -> bool {
    matches!(answer, Answer::Outcome(Outcome::Ok))
}

#[test]
fn a_panic_costs_one_group_until_the_node_starts_anew() {
    for place in [PanicIn::Step, PanicIn::Apply] {
        let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Sync, 1);
        assert!(is_done(&node.write(0)) && is_done(&node.write(1)));
        let bad = node.volume(0);
        // Its next step is to be the one that proposes the write.
        (0..100).for_each(|_| node.turn());
        node.host.plan_panic(bad, place);
        let answer = node.write(0);
        // A slot that was decided is executed when the node is started anew.
        assert_eq!(answer, Answer::Failed(Failure::Timeout), "{place:?}");
        let faults = node.host.take_faults();
        assert!(matches!(&faults[..], [fault] if fault.group == bad && fault.is_quarantined), "{faults:?}");
        assert_eq!((node.state(bad), node.host.counters().quarantined), (GroupState::Quarantined, 1));
        assert!(is_done(&node.write(1)), "the other volume goes on");
        let began_us = node.now_us;
        assert_eq!(node.write(0), Answer::Failed(Failure::NoQuorum));
        assert!(node.now_us - began_us < 100_000, "nobody is left who could take it: that is said at once");
        let mut node = Node::open(node.storage, node.store, Durability::Sync, 2);
        assert_eq!(node.state(bad), GroupState::Alive);
        assert!(is_done(&node.write(0)));
    }
}

#[test]
fn what_only_memory_held_is_not_trusted_after_a_clean_stop() {
    let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Memory, 1);
    assert!(is_done(&node.write(0)) && is_done(&node.write(1)));
    let (bad, good) = (node.volume(0), node.volume(1));
    node.host.plan_panic(bad, PanicIn::Step);
    node.write(0);
    for start in 2..=3 {
        assert_eq!(node.host.close(), []);
        node.store_batches();
        node = Node::open(node.storage, node.store, Durability::Memory, start);
        assert_eq!((node.state(bad), node.state(good)), (GroupState::Forgetful, GroupState::Alive));
        assert!(is_done(&node.write(1)));
    }
}

#[test]
fn what_a_clean_stop_cannot_store_as_a_whole_is_not_trusted_afterwards() {
    let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Memory, 1);
    assert!(is_done(&node.write(0)) && is_done(&node.write(1)));
    let (bad, good) = (node.volume(0), node.volume(1));
    for start in 2..=3 {
        assert_eq!(node.host.close(), []);
        node.store_batches();
        node = Node::open(node.storage, node.store, Durability::Memory, start);
        assert_eq!((node.state(bad), node.state(good)), (GroupState::Alive, GroupState::Alive));
        assert!(is_done(&node.write(0)));
    }
    let index = node.host.find(bad).expect("it is here");
    let group = &mut node.host.groups[index as usize];
    group.checkpoint.whole = true;
    let objects = group.machine.objects_mut().expect("of a volume");
    objects.send_away(b"has its own group", b"7");
    objects.forget_changes();
    objects.swap_out(0, |_| true);
    assert!(group.has_swapped());
    for start in 4..=5 {
        assert_eq!(node.host.close(), if start == 4 { vec![bad] } else { vec![] });
        node.store_batches();
        node = Node::open(node.storage, node.store, Durability::Memory, start);
        assert_eq!((node.state(bad), node.state(good)), (GroupState::Forgetful, GroupState::Alive));
    }
}

/// What is wrong with the bytes of a group, and how it is put right.
type Spoil = fn(GroupId, &Node) -> (Batch, Batch);

fn spoil_meta(group: GroupId, node: &Node) -> (Batch, Batch) {
    let mut right = None;
    node.store.groups(&mut |id, meta| right = if id == group.0 { Some(meta.to_vec()) } else { right.take() }).unwrap();
    let (mut spoilt, mut cured) = (Batch::new(), Batch::new());
    spoilt.put_meta(group.0, vec![u8::MAX; 40]);
    cured.put_meta(group.0, right.expect("it has one"));
    (spoilt, cured)
}

fn spoil_object(group: GroupId, _: &Node) -> (Batch, Batch) {
    let (mut spoilt, mut cured) = (Batch::new(), Batch::new());
    spoilt.put_object(group.0, b"\0name", vec![u8::MAX; 3]);
    cured.delete_object(group.0, b"\0name");
    (spoilt, cured)
}

#[test]
fn a_checkpoint_that_this_release_cannot_read_costs_one_group_and_is_kept() {
    for (spoil, name) in [(spoil_meta as Spoil, "meta"), (spoil_object, "object")] {
        let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Sync, 1);
        assert!(is_done(&node.write(0)) && is_done(&node.write(1)));
        let (bad, good) = (node.volume(0), node.volume(1));
        let (spoilt, cured) = spoil(bad, &node);
        node.store.apply(spoilt).expect("it has room");
        for start in 2..=3 {
            node = Node::open(node.storage, node.store, Durability::Sync, start);
            assert_eq!((node.state(bad), node.state(good)), (GroupState::Quarantined, GroupState::Alive), "{name}");
            assert_eq!(node.host.counters().quarantined, 1);
            assert!(matches!(&node.host.take_faults()[..], [fault] if fault.doing == "reading its checkpoint"));
            assert!(is_done(&node.write(1)));
            assert_eq!(node.write(0), Answer::Failed(Failure::NoQuorum), "{name}");
        }
        node.store.apply(cured).expect("it has room");
        let mut node = Node::open(node.storage, node.store, Durability::Sync, 4);
        let value = node.ask(0, &Command::Get { key: b"key" });
        assert_eq!(
            value,
            Answer::Outcome(Outcome::Bulk(b"value".to_vec())),
            "{name}: a release that reads it finds it"
        );
    }
}

#[test]
fn a_log_record_that_this_release_cannot_read_costs_one_group() {
    let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Sync, 1);
    assert!(is_done(&node.write(0)) && is_done(&node.write(1)));
    let bad = node.volume(0);
    node.host.log_mut().append(bad.0, quorate_wal::Kind::Slot(1 << 40), &[u8::MAX; 30]);
    node.flush();
    for start in 2..=3 {
        node = Node::open(node.storage, node.store, Durability::Sync, start);
        assert_eq!((node.state(bad), node.state(node.volume(1))), (GroupState::Quarantined, GroupState::Alive));
        assert!(matches!(&node.host.take_faults()[..], [fault] if fault.doing == "reading its log"));
        assert!(is_done(&node.write(1)));
    }
}

#[test]
fn a_root_and_a_directory_that_this_release_cannot_read_stop_no_volume() {
    let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Sync, 1);
    assert!(is_done(&node.write(0)));
    let (spoilt, cured) = spoil_meta(crate::root::ROOT, &node);
    node.store.apply(spoilt).expect("it has room");
    let mut node = Node::open(node.storage, node.store, Durability::Sync, 2);
    assert_eq!(node.state(crate::root::ROOT), GroupState::Quarantined);
    assert!(is_done(&node.write(0)), "the directory says where it is");
    node.store.apply(cured).expect("it has room");
    let mut batch = Batch::new();
    batch.put_node_record("directory", vec![u8::MAX; 9]);
    node.store.apply(batch).expect("it has room");
    let mut node = Node::open(node.storage, node.store, Durability::Sync, 3);
    assert!(is_done(&node.write(0)), "the root says where it is");
}

#[test]
fn a_quarantined_replica_pins_no_log_and_finds_its_records_later() {
    let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Sync, 1);
    assert!(is_done(&node.write(0)) && is_done(&node.write(1)));
    let bad = node.volume(0);
    node.host.plan_panic(bad, PanicIn::Step);
    node.write(0);
    assert_eq!(node.state(bad), GroupState::Quarantined);
    let segments = |node: &mut Node| node.host.log_mut().statistics().segment_count;
    for _ in 0..100 {
        assert!(is_done(&node.write_value(1, &[7; 200_000])));
        // Until somebody looks for what pins the log.
        (0..30).for_each(|_| node.turn());
        assert!(segments(&mut node) <= 10, "{} segments", segments(&mut node));
    }
    assert!(node.storage.segments().expect("memory answers")[0] > 10, "the log went on");
    let mut node = Node::open(node.storage, node.store, Durability::Sync, 2);
    assert_eq!(node.state(bad), GroupState::Alive);
    let value = node.ask(0, &Command::Get { key: b"key" });
    assert_eq!(value, Answer::Outcome(Outcome::Bulk(b"value".to_vec())));
}

#[test]
fn that_a_log_has_lost_its_end_is_known_also_after_a_crash_right_behind_that_start() {
    let mut node = Node::open(MemoryStorage::default(), MemoryStore::default(), Durability::Sync, 1);
    (0..20).for_each(|_| assert!(is_done(&node.write(0))));
    let (volume, end) = (node.volume(0), node.host.log_mut().durable());
    let Node { mut storage, store, .. } = node;
    // After a clean stop its end is lost.
    storage.write(end.segment(), end.offset(), &[0; 4096]).expect("it is there");
    let open = |storage: &MemoryStorage, start: u32| {
        let defaults = Settings {
            replicas: 1,
            volumes: 2,
            durability: Durability::Sync,
            reads: Reads::Lease,
            ..Settings::default()
        };
        let before = settings(NodeId(1), 1);
        let log = quorate_wal::Settings { known_end: end, ..before.log };
        let settings = HostSettings { start, defaults, checkpoint_bytes: 1 << 20, log, ..before };
        Host::open(settings, storage, &store, moment(u64::from(start) * 1_000_000_000)).expect("it opens")
    };
    let state = |host: &Host| host.groups().find(|found| found.id() == volume).expect("it is here").state;
    let (mut host, report) = open(&storage, 2);
    assert_eq!((report.damage.len(), state(&host)), (1, GroupState::Damaged), "{report:?}");
    // The first flush vouches for what was found; what the store is to remember is not stored yet.
    host.begin(moment(2_000_010_000));
    host.end(&storage);
    host.log_mut().vouch();
    let submission = host.log_mut().submit().expect("a block");
    submission.perform(&mut storage).expect("it has room");
    host.flushed(submission.lsn);
    drop(host);
    let (host, _) = open(&storage, 3);
    assert_eq!(state(&host), GroupState::Damaged, "it votes without what it had acknowledged");
}
