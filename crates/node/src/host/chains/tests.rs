use super::*;
use quorate_checkpoint::MemoryStore;
use quorate_wal::memory::MemoryStorage;

use crate::Moment;
use crate::host::HostSettings;
use crate::host::batches::{GroupAction, GroupRequest};
use crate::host::quarantine::PanicIn;
use crate::host::three_nodes::{Cluster, arrives, settings};
use crate::quorum::Quorum;
use crate::root::Settings;
use crate::volume::own_group;

fn chains_of(volumes: u32) -> Host {
    let defaults =
        Settings { replicas: 1, volumes, protocol: Protocol::Chain, quorum: Quorum::Majority, ..Settings::default() };
    let settings = HostSettings { defaults, ..settings(NodeId(1), 1) };
    let moment = Moment { now: Instant(1_000_000), wall: Stamp(1_700_000_000_000) };
    Host::open(settings, &MemoryStorage::default(), &MemoryStore::default(), moment).expect("nothing is stored").0
}

#[test]
fn all_volumes_that_are_asked_about_are_found_in_one_look_at_the_roots_records() {
    let host = chains_of(300);
    let linear: Vec<&GroupRecord> = host.led_as_executed(ROOT, Protocol::Chain).collect();
    assert_eq!(linear.len(), 300);
    let executed = host.chains_as_executed();
    let own = own_group(GroupId(linear[0].group), 1);
    assert!(executed.find(own).is_none() && executed.volumes.get().is_none(), "no volume was asked about");
    for record in &linear {
        assert!(executed.find(GroupId(record.group)).is_some_and(|found| std::ptr::eq(found, *record)));
    }
    assert_eq!(executed.volumes.get().map(HashMap::len), Some(300));
    assert!(executed.find(ROOT).is_none());
    assert_eq!(host.volumes_led_by(GroupId(linear[0].group)).count(), 0);
}

fn answers_reads(host: &Host, chain: GroupId) -> bool {
    let replica = host.find(chain).and_then(|index| host.groups[index as usize].replica.chain());
    replica.is_some_and(|chain| chain.answers_clean(host.clock.now()))
}

fn goes_on_without_first(host: &Host, chain: GroupId) -> bool {
    let replica = host.find(chain).and_then(|index| host.groups[index as usize].replica.chain());
    replica.is_some_and(|chain| chain.membership().members.iter().all(|node| node.0 != 1))
}

#[test]
fn a_chain_goes_on_without_a_member_only_once_terms_of_the_coordinator_before_are_over() {
    let mut cluster = Cluster::new(|_| {});
    let (volume, chain) = (cluster.volume(), own_group(cluster.volume(), 1));
    let first = cluster.write(1, b"one");
    cluster.pass(200, arrives);
    let number = cluster.next_number();
    let mut request = GroupRequest::of(GroupAction::Promote);
    request.names = vec![b"key".to_vec()];
    request.protocol = Protocol::Chain;
    cluster.node(1).host.submit_group_request(number, 0, request);
    cluster.pass(1_000, arrives);
    let second = cluster.write(2, b"two");
    cluster.pass(300, arrives);
    assert!(cluster.is_done(1, first) && cluster.is_done(2, second));

    // Node 1 coordinates the volume, and has given itself a term. The others elect another as soon as they hear of this.
    let host = &mut cluster.node(1).host;
    host.plan_panic(volume, PanicIn::Step);
    let index = host.find(volume).expect("it is a member");
    host.plan(index, Event::Woken);
    cluster.pass(1, arrives);
    assert!(answers_reads(&cluster.node(1).host, chain), "the test is about a term that still binds");
    let mut has_gone_on = false;
    for _ in 0..3_000 {
        cluster.pass(1, arrives);
        has_gone_on |= goes_on_without_first(&cluster.node(2).host, chain);
        assert!(!(has_gone_on && answers_reads(&cluster.node(1).host, chain)), "what node 1 answers is old");
    }
    assert!(has_gone_on, "it goes on without the member that hears nothing of it");
    let third = cluster.write(2, b"three");
    cluster.pass(300, arrives);
    assert!(cluster.is_done(2, third));
}
