use super::*;
use quorate_checkpoint::MemoryStore;
use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer};
use quorate_protocol::paxos;
use quorate_wal::memory::MemoryStorage;

use crate::Moment;
use crate::answer::Answer;
use crate::host::HostSettings;
use crate::host::batches::{GroupAction, GroupRequest};
use crate::host::quarantine::PanicIn;
use crate::host::three_nodes::{Cluster, Fate, arrives, coordinates, settings};
use crate::quorum::Quorum;
use crate::replica::AnyMessage;
use crate::root::Reads;
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

pub(super) fn answers_reads(host: &Host, chain: GroupId) -> bool {
    let replica = host.find(chain).and_then(|index| host.groups[index as usize].replica.chain());
    replica.is_some_and(|chain| chain.answers_clean(host.clock.now()))
}

pub(super) fn goes_on_without(host: &Host, chain: GroupId, node: u32) -> bool {
    let replica = host.find(chain).and_then(|index| host.groups[index as usize].replica.chain());
    replica.is_some_and(|chain| chain.membership().members.iter().all(|member| member.0 != node))
}

/// Three nodes, a volume that node 1 coordinates, and an object of it that has a chain of its own.
fn with_a_chain() -> (Cluster, GroupId, GroupId) {
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
    (cluster, volume, chain)
}

#[test]
fn a_chain_goes_on_without_a_member_only_once_terms_of_the_coordinator_before_are_over() {
    let (mut cluster, volume, chain) = with_a_chain();

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
        has_gone_on |= goes_on_without(&cluster.node(2).host, chain, 1);
        assert!(!(has_gone_on && answers_reads(&cluster.node(1).host, chain)), "what node 1 answers is old");
    }
    assert!(has_gone_on, "it goes on without the member that hears nothing of it");
    let third = cluster.write(2, b"three");
    cluster.pass(300, arrives);
    assert!(cluster.is_done(2, third));
}

/// Node 1, which coordinates the volume, hears nothing of node 3 for a moment. Node 3 is to be left out of the chain, but the
/// disks of the volume's two other acceptors write nothing for `stall_ms` from then on; meanwhile all nodes hear each other.
/// When the disks write again node 3 is cut off. Whether a write is answered by the chain that has gone on without node 3 while
/// that answers reads.
fn is_left_out_while_it_answers(stall_ms: u64) -> bool {
    let (mut cluster, volume, chain) = with_a_chain();
    assert!(answers_reads(&cluster.node(3).host, chain));

    // What they accept they cannot say, since it is not on their disks.
    let stalled = |_: NodeId, _: NodeId, message: &Message<'_>| match message {
        Message::Replica { group, message: AnyMessage::Paxos(paxos::Message::Accepted { .. }), .. }
            if *group == volume =>
        {
            Fate::IsLost
        }
        _ => Fate::Arrives,
    };
    // Node 1 hears nothing of node 3.
    let muted = |from: NodeId, to: NodeId, message: &Message<'_>| match (from.0, to.0) {
        (3, 1) => Fate::IsLost,
        _ => stalled(from, to, message),
    };
    let mut waited_ms = 0;
    while !cluster.node(1).host.terms.changing.contains_key(&chain) {
        cluster.pass(1, muted);
        waited_ms += 1;
        assert!(waited_ms < 3_000, "nobody leaves node 3 out");
    }
    cluster.pass(stall_ms, stalled);
    assert!(!goes_on_without(&cluster.node(1).host, chain, 3), "nothing is decided meanwhile");
    let cut_off = |from: NodeId, to: NodeId, _: &Message<'_>| match (from.0, to.0) {
        (3, _) | (_, 3) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    let (mut third, mut is_wrong) = (None, false);
    for _ in 0..1_000 {
        cluster.pass(1, cut_off);
        if third.is_none() && goes_on_without(&cluster.node(1).host, chain, 3) {
            third = Some(cluster.write(1, b"three"));
        }
        let is_old = third.is_some_and(|third| cluster.is_done(1, third));
        is_wrong |= is_old && answers_reads(&cluster.node(3).host, chain);
    }
    is_wrong
}

#[test]
fn a_proposal_in_flight_counts_while_it_is_in_time() {
    assert!(!is_left_out_while_it_answers(3_000));
}

#[test]
fn a_proposal_in_flight_counts_also_behind_its_deadline() {
    let wrong: Vec<u64> = (5_500..5_700).step_by(20).filter(|stall| is_left_out_while_it_answers(*stall)).collect();
    assert!(wrong.is_empty(), "a member answered reads of a chain that went on without it: {wrong:?}");
}

/// Node 1 is not heard for a moment, node 2 takes over, and what it proposes is accepted by nobody else: so many writes of the
/// volume, and a chain without node 1. Node 1 is back, gets the volume back without knowing of that, and gives itself a term.
/// Then its replica of the volume falls silent, and whoever is elected may find the old proposals. Whether the chain answers a
/// write without node 1 while that answers reads.
fn is_old_with_a_lost_proposal_behind(writes: u32) -> bool {
    let (mut cluster, volume, chain) = with_a_chain();
    let alone = |from: NodeId, _: NodeId, message: &Message<'_>| match message {
        // Nor does it promise in time.
        Message::Replica {
            group,
            message: AnyMessage::Paxos(paxos::Message::Accept { .. } | paxos::Message::Promise { .. }),
            ..
        } if *group == volume && from == NodeId(2) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    let muted = |from: NodeId, to: NodeId, message: &Message<'_>| match from.0 {
        1 => Fate::IsLost,
        _ => alone(from, to, message),
    };
    let within = |limit_ms: u64| 0..limit_ms;
    let is_elected = within(4_000).any(|_| {
        cluster.pass(1, muted);
        coordinates(&cluster.node(2).host, volume)
    });
    assert!(is_elected, "nobody takes over");
    (0..writes).for_each(|_| {
        cluster.set(2, b"other", b"1");
        cluster.pass(1, muted);
    });
    let is_proposed = within(4_000).any(|_| {
        cluster.pass(1, muted);
        cluster.node(2).host.terms.changing.contains_key(&chain)
    });
    assert!(is_proposed, "nobody leaves node 1 out");
    let is_back = within(20_000).any(|_| {
        cluster.pass(1, alone);
        coordinates(&cluster.node(1).host, volume)
    });
    assert!(is_back, "node 1 does not get the volume back");
    // Reads wake the chain, and it asks for a term.
    let has_term = within(5).any(|_| {
        cluster.read(1);
        cluster.pass(100, alone);
        answers_reads(&cluster.node(1).host, chain)
    });
    assert!(has_term, "the test is about a term that binds");
    let host = &mut cluster.node(1).host;
    host.plan_panic(volume, PanicIn::Step);
    let index = host.find(volume).expect("it is a member");
    host.plan(index, Event::Woken);
    let (mut third, mut is_old) = (None, false);
    for _ in 0..1_500 {
        cluster.pass(1, arrives);
        if third.is_none() && goes_on_without(&cluster.node(2).host, chain, 1) {
            third = Some(cluster.write(2, b"three"));
        }
        let is_written = third.is_some_and(|third| cluster.is_done(2, third));
        is_old |= is_written && answers_reads(&cluster.node(1).host, chain);
    }
    assert!(third.is_some(), "it goes on without the member that hears nothing of it");
    is_old
}

#[test]
fn an_old_proposal_is_void_once_another_coordinator_has_taken_office() {
    let old: Vec<u32> = (0..4).filter(|&writes| is_old_with_a_lost_proposal_behind(writes)).collect();
    assert!(old.is_empty(), "what node 1 answers is old: with so many writes before the lost proposal: {old:?}");
}

#[test]
fn a_chain_goes_on_without_a_pause_where_a_member_leaves() {
    let (mut cluster, _, chain) = with_a_chain();
    cluster.node(3).host.leave();
    let mut last = cluster.write(1, b"one");
    let mut waited_ms = 0;
    let mut longest_ms = 0;
    let mut left_at_ms = None;
    for at_ms in 0..3_000 {
        cluster.pass(1, arrives);
        waited_ms += 1;
        if cluster.is_done(1, last) {
            longest_ms = longest_ms.max(waited_ms);
            (last, waited_ms) = (cluster.write(1, b"more"), 0);
        }
        if left_at_ms.is_none() && !cluster.node(3).host.is_relied_on() {
            left_at_ms = Some(at_ms);
            cluster.node(3).is_down = true;
            [1, 2].into_iter().for_each(|id| cluster.node(id).host.unlinked(NodeId(3)));
        }
    }
    assert!(left_at_ms.is_some_and(|left_at_ms| left_at_ms < 1_500), "{left_at_ms:?}");
    assert!(goes_on_without(&cluster.node(1).host, chain, 3));
    assert!(longest_ms < 100, "{longest_ms} ms");
}

/// Node 1 is the head, and its clock so far ahead that node 2 does not follow it. Node 3, the tail, does, and answers by it.
#[test]
fn a_clean_read_is_of_no_time_before_what_is_in_flight() {
    let set = |settings: &mut Settings| (settings.protocol, settings.reads) = (Protocol::Chain, Reads::Apportioned);
    let mut cluster = Cluster::new(|settings| set(&mut settings.defaults));
    cluster.pass(2_000, arrives);
    let far = |from: NodeId, to: NodeId, _: &Message<'_>| match (from.0, to.0) {
        (1, 3) | (3, 1) => Fate::IsLate { by_us: 150_000 },
        _ => Fate::Arrives,
    };
    let chain = cluster.volume();
    let key: &[u8] = b"key";
    let expires = Stamp(cluster.node(1).host.stamp().0 + 8_000);
    let (condition, expiry, answer) = (Condition::Always, Expiry::AtMs(expires.0 as i64), SetAnswer::Ok);
    let written = cluster.submit(1, &Command::Set { key, value: b"value", condition, expiry, answer });
    cluster.pass(100, arrives);
    assert!(cluster.is_done(1, written));
    (cluster.node(1).wall_ahead_ms, cluster.node(3).wall_ahead_ms) = (1_200, 600);
    while cluster.node(1).host.stamp() <= expires {
        cluster.pass(1, far);
    }
    assert!(cluster.node(2).host.stamp() < expires, "its time has not come at node 2");
    let received = |cluster: &Cluster, at: usize| {
        let host = &cluster.nodes[at].host;
        let replica = host.find(chain).and_then(|index| host.groups[index as usize].replica.chain());
        replica.map(|chain| (chain.status().next_slot, chain.received()))
    };
    let before = received(&cluster, 2);
    let tail_is_unheard = |from: NodeId, to: NodeId, message: &Message<'_>| match (from.0, to.0) {
        (3, 2) => Fate::IsLost,
        _ => far(from, to, message),
    };
    cluster.set(1, b"other", b"value");
    for _ in 0..20 {
        if received(&cluster, 2) != before {
            break;
        }
        cluster.pass(1, tail_is_unheard);
    }
    assert_ne!(received(&cluster, 2), before, "the tail has executed it");
    assert!(received(&cluster, 1).is_some_and(|(next, received)| next < received), "node 2 has it in flight");
    assert!(answers_reads(&cluster.node(2).host, chain) && cluster.node(2).host.stamp() < expires);
    let reads: Vec<u64> = (0..6).map(|_| cluster.read(2)).collect();
    cluster.pass(2, tail_is_unheard);
    let old = Answer::Outcome(Outcome::Bulk(b"value".to_vec()));
    let answers = &cluster.node(2).answers;
    assert!(answers.iter().all(|(number, answer)| !reads.contains(number) || *answer != old), "it has expired");
}
