//! Tests of own groups that become others while clients use them.

use quorate_object::{Command, Condition, Expiry, HashOp, Op, Outcome, SetAnswer, TtlUnit};
use quorate_protocol::{GroupId, NodeId};

use crate::Target;
use crate::answer::{AdminReply, Answer, Failure};
use crate::frame::Message;
use crate::host::Submission;
use crate::host::batches::{GroupAction, GroupRequest};
use crate::host::three_nodes::{Cluster, Fate, arrives};
use crate::own_groups::NO_STRING;
use crate::replica::Protocol;

const INCR: Command<'_> = Command::IncrBy { key: b"key", delta: 1 };
const GET: Command<'_> = Command::Get { key: b"key" };

fn administer(cluster: &mut Cluster, at: u32, line: &str) -> u64 {
    let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let number = cluster.next_number();
    cluster.node(at).host.submit_admin(number, 0, &words);
    number
}

fn submit(cluster: &mut Cluster, at: u32, predecessor: Option<u64>, command: &Command<'_>) -> u64 {
    let number = cluster.next_number();
    let target = Target::Slot { namespace: 0, slot: 0 };
    cluster.node(at).host.submit(Submission { number, predecessor, target, command });
    number
}

fn take_answer(cluster: &mut Cluster, at: u32, number: u64) -> Option<Answer> {
    let answers = &mut cluster.node(at).answers;
    let found = answers.iter().position(|(answered, _)| *answered == number)?;
    Some(answers.swap_remove(found).1)
}

/// Waits for it, for at most so many milliseconds, and for how long it took.
fn wait(cluster: &mut Cluster, at: u32, number: u64, at_most_ms: u64) -> (Option<Answer>, u64) {
    for waited_ms in 0..at_most_ms {
        if let Some(answer) = take_answer(cluster, at, number) {
            return (Some(answer), waited_ms);
        }
        cluster.pass(1, arrives);
    }
    (take_answer(cluster, at, number), at_most_ms)
}

/// The answer to a line of words.
fn told(cluster: &mut Cluster, line: &str) -> AdminReply {
    let number = administer(cluster, 1, line);
    match wait(cluster, 1, number, 6_000).0 {
        Some(Answer::Admin(reply)) => reply,
        answer => panic!("{line}: {answer:?}"),
    }
}

fn refused(cluster: &mut Cluster, line: &str) -> String {
    match told(cluster, line) {
        AdminReply::Error(refusal) => refusal,
        reply => panic!("{line}: {reply:?}"),
    }
}

/// The entries of `GROUP SHOW` as text.
fn shown(cluster: &mut Cluster, entry: &str) -> String {
    let AdminReply::Map(entries) = told(cluster, "GROUP SHOW key") else { panic!("no group is shown") };
    let found = entries.into_iter().find(|(name, _)| name == entry);
    let text = |reply: &AdminReply| match reply {
        AdminReply::Text(text) => text.clone(),
        AdminReply::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    match found.map(|(_, reply)| reply) {
        Some(AdminReply::List(list)) => list.iter().map(text).collect::<Vec<_>>().join(","),
        Some(reply) => text(&reply),
        None => String::new(),
    }
}

const KINDS: [&str; 4] =
    ["PROTOCOL paxos", "PROTOCOL chain", "PROTOCOL paxos MEMBERS n3,n1", "PROTOCOL chain MEMBERS n2,n3"];

#[test]
fn counters_go_on_while_their_groups_become_others() {
    for first in KINDS {
        for second in KINDS.into_iter().filter(|second| *second != first) {
            let mut cluster = Cluster::new(|_| {});
            assert_eq!(told(&mut cluster, &format!("GROUP CREATE key {first} VALUE 0")), AdminReply::Ok);
            cluster.pass(300, arrives);
            // The clients of each node count in a pipeline; the group changes in the midst of it.
            let (mut last, mut answered_at) = ([None; 3], [0; 3]);
            let (mut counted, mut longest_ms) = (Vec::new(), 0);
            for now_ms in 0..200 {
                for at in 1..=3 {
                    let client = at as usize - 1;
                    if now_ms < 100 {
                        last[client] = Some(submit(&mut cluster, at, last[client], &INCR));
                    }
                    for (_, answer) in std::mem::take(&mut cluster.node(at).answers) {
                        let Answer::Outcome(Outcome::Int(value)) = answer else {
                            assert_eq!(answer, Answer::Admin(AdminReply::Ok), "{first} to {second}");
                            continue;
                        };
                        counted.push(value);
                        longest_ms = longest_ms.max(now_ms - answered_at[client]);
                        answered_at[client] = now_ms;
                    }
                }
                if now_ms == 20 {
                    administer(&mut cluster, 2, &format!("GROUP RETYPE key {second}"));
                }
                cluster.pass(1, arrives);
            }
            assert!(longest_ms <= 40, "{first} to {second}: {longest_ms} ms without an answer");
            counted.sort_unstable();
            assert_eq!(counted, (1..=300).collect::<Vec<_>>(), "{first} to {second}");
            cluster.pass(500, arrives);
            let expected = second.split(' ').nth(1).expect("a protocol");
            assert_eq!(shown(&mut cluster, "protocol"), expected);
            let before = shown(&mut cluster, "group");
            assert_eq!(told(&mut cluster, &format!("GROUP RETYPE key {second}")), AdminReply::Ok);
            assert_eq!(shown(&mut cluster, "group"), before, "nothing is to be done");
        }
    }
}

#[test]
fn a_value_goes_through_all_protocols_with_its_expiry() {
    let mut cluster = Cluster::new(|_| {});
    let set = |value: &'static [u8]| Command::Set {
        key: b"key",
        value,
        condition: Condition::Always,
        expiry: Expiry::AtMs(1_700_000_900_000),
        answer: SetAnswer::Ok,
    };
    let number = submit(&mut cluster, 1, None, &set(b"0"));
    wait(&mut cluster, 1, number, 100);
    assert_eq!(told(&mut cluster, "GROUP PROMOTE key"), AdminReply::Ok);
    let turns = ["register", "chain", "register", "paxos", "chain", "paxos", "register"];
    for (turn, protocol) in turns.into_iter().enumerate() {
        assert_eq!(told(&mut cluster, &format!("GROUP RETYPE key PROTOCOL {protocol}")), AdminReply::Ok);
        cluster.pass(1_000, arrives);
        assert_eq!(shown(&mut cluster, "protocol"), protocol);
        let value: &'static [u8] = if turn % 2 == 0 { b"even" } else { b"odd" };
        let before: &[u8] = match turn {
            0 => b"0",
            _ if turn % 2 == 0 => b"odd",
            _ => b"even",
        };
        let number = submit(&mut cluster, 2, None, &GET);
        assert_eq!(wait(&mut cluster, 2, number, 1_000).0, Some(Answer::Outcome(Outcome::Bulk(before.to_vec()))));
        let number = submit(&mut cluster, 3, None, &set(value));
        assert_eq!(wait(&mut cluster, 3, number, 1_000).0, Some(Answer::Outcome(Outcome::Ok)));
    }
    let number = submit(&mut cluster, 1, None, &Command::Ttl { key: b"key", unit: TtlUnit::UnixMilliseconds });
    let answer = wait(&mut cluster, 1, number, 1_000).0;
    assert_eq!(answer, Some(Answer::Outcome(Outcome::Int(1_700_000_900_000))));
}

#[test]
fn a_group_moves_off_a_node_that_is_down_and_not_onto_such_nodes() {
    let mut cluster = Cluster::new(|_| {});
    assert_eq!(told(&mut cluster, "GROUP CREATE key VALUE 5"), AdminReply::Ok);
    cluster.pass(300, arrives);
    cluster.node(3).is_down = true;
    [1, 2].into_iter().for_each(|at| cluster.node(at).host.unlinked(NodeId(3)));
    cluster.pass(3_000, arrives);
    let refusal = refused(&mut cluster, "GROUP MOVE key MEMBERS n3");
    assert!(refusal.contains("no majority of these MEMBERS can be reached"), "{refusal}");
    assert_eq!(told(&mut cluster, "GROUP MOVE key MEMBERS n2,n1"), AdminReply::Ok);
    cluster.pass(1_000, arrives);
    assert_eq!(shown(&mut cluster, "members"), "n2,n1");
    let number = submit(&mut cluster, 1, None, &INCR);
    assert_eq!(wait(&mut cluster, 1, number, 1_000).0, Some(Answer::Outcome(Outcome::Int(6))));
}

#[test]
fn a_node_without_the_volume_hears_that_a_group_has_moved_though_nobody_is_left_of_it() {
    let mut cluster = Cluster::new(|settings| settings.defaults.replicas = 1);
    cluster.write(1, b"value");
    cluster.pass(100, arrives);
    assert_eq!(told(&mut cluster, "GROUP PROMOTE key MEMBERS n1,n2"), AdminReply::Ok);
    let before = cluster.write(3, b"before");
    assert_eq!(wait(&mut cluster, 3, before, 1_000).0, Some(Answer::Outcome(Outcome::Ok)));
    assert_eq!(told(&mut cluster, "GROUP MOVE key MEMBERS n1"), AdminReply::Ok);
    cluster.node(2).is_down = true;
    cluster.pass(2_000, arrives);
    let after = cluster.write(3, b"after");
    assert_eq!(wait(&mut cluster, 3, after, 1_000).0, Some(Answer::Outcome(Outcome::Ok)));
    // Where it is, is told at once.
    assert_eq!(told(&mut cluster, "GROUP MOVE key MEMBERS n1,n3"), AdminReply::Ok);
    cluster.node(2).is_down = false;
    cluster.pass(2_000, arrives);
    let known = cluster.write(2, b"known");
    assert_eq!(wait(&mut cluster, 2, known, 1_000).0, Some(Answer::Outcome(Outcome::Ok)));
    cluster.node(3).is_down = true;
    cluster.pass(2_000, arrives);
    let refused = cluster.write(2, b"refused");
    let (answer, waited_ms) = wait(&mut cluster, 2, refused, 1_000);
    assert_eq!((answer, waited_ms < 100), (Some(Answer::Failed(Failure::NoQuorum)), true), "after {waited_ms} ms");
    // Those after it are not asked about one by one.
    cluster.node(1).executed.clear();
    for _ in 0..50 {
        let refused = cluster.write(2, b"refused");
        assert_eq!(wait(&mut cluster, 2, refused, 1), (Some(Answer::Failed(Failure::NoQuorum)), 1));
        cluster.pass(10, arrives);
    }
    let volume = cluster.volume();
    assert_eq!(cluster.node(1).executed.iter().filter(|(group, ..)| *group == volume).count(), 0);
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let mut cluster = Cluster::new(|settings| settings.defaults.replicas = 2);
    let refusal = refused(&mut cluster, "GROUP MOVE key MEMBERS n1");
    assert!(refusal.contains("no group of its own"), "{refusal}");
    assert_eq!(told(&mut cluster, "GROUP CREATE key MEMBERS n1,n2,n3"), AdminReply::Ok);
    for (line, words) in [
        ("GROUP RETYPE key PROTOCOL chain", "must be among those of the key's volume, which are n"),
        ("GROUP RETYPE key PROTOCOL chain QUORUM majority", "QUORUM goes with PROTOCOL register"),
        ("GROUP MOVE key MEMBERS n1,n2 QUORUM majority", "QUORUM goes with PROTOCOL register"),
        ("GROUP RETYPE key PROTOCOL register MEMBERS n1 QUORUM threshold 1 3", "threshold"),
        ("QUORUM SET key 1 3", "QUORUM goes with PROTOCOL register"),
    ] {
        let refusal = refused(&mut cluster, line);
        assert!(refusal.contains(words), "{line}: {refusal}");
    }
}

#[test]
fn putting_it_back_wins_over_what_it_was_to_become() {
    let mut cluster = Cluster::new(|_| {});
    assert_eq!(told(&mut cluster, "GROUP CREATE key VALUE 1"), AdminReply::Ok);
    cluster.pass(300, arrives);
    administer(&mut cluster, 1, "GROUP RETYPE key PROTOCOL chain");
    administer(&mut cluster, 1, "GROUP DEMOTE key");
    cluster.pass(1_000, arrives);
    assert_eq!(shown(&mut cluster, "kind"), "volume");
    assert_eq!(cluster.nodes.iter().map(|node| node.host.own_groups().count()).sum::<usize>(), 0);
}

fn elements<'a>(op: HashOp<'a>) -> Command<'a> {
    Command::Elements { key: b"key", op: Op::Hash(op) }
}

#[test]
fn a_hash_goes_through_the_protocols_of_state_machines_and_into_no_register() {
    let mut cluster = Cluster::new(|_| {});
    let set = elements(HashOp::Set { pairs: vec![(b"a", b"1"), (b"b", b"2")], answers_ok: false });
    let number = submit(&mut cluster, 1, None, &set);
    assert_eq!(wait(&mut cluster, 1, number, 100).0, Some(Answer::Outcome(Outcome::Int(2))));
    let AdminReply::Error(refusal) = told(&mut cluster, "GROUP PROMOTE key PROTOCOL register") else {
        panic!("it is no string");
    };
    assert!(refusal.starts_with("WRONGTYPE"), "{refusal}");
    assert_eq!(told(&mut cluster, "GROUP PROMOTE key"), AdminReply::Ok);
    for (turn, protocol) in ["chain", "paxos"].into_iter().enumerate() {
        assert_eq!(told(&mut cluster, &format!("GROUP RETYPE key PROTOCOL {protocol}")), AdminReply::Ok);
        cluster.pass(500, arrives);
        let refusal = refused(&mut cluster, "GROUP RETYPE key PROTOCOL register");
        assert!(refusal.starts_with("WRONGTYPE"), "{refusal}");
        cluster.pass(500, arrives);
        assert_eq!(shown(&mut cluster, "protocol"), protocol);
        let number = submit(&mut cluster, 2, None, &elements(HashOp::IncrBy { field: b"a", delta: 1 }));
        assert_eq!(wait(&mut cluster, 2, number, 100).0, Some(Answer::Outcome(Outcome::Int(turn as i64 + 2))));
        let number = submit(&mut cluster, 3, None, &elements(HashOp::Get { field: b"b" }));
        assert_eq!(wait(&mut cluster, 3, number, 100).0, Some(Answer::Outcome(Outcome::Bulk(b"2".to_vec()))));
    }
    let number = submit(&mut cluster, 1, None, &elements(HashOp::Del { fields: vec![b"a", b"b"] }));
    assert_eq!(wait(&mut cluster, 1, number, 100).0, Some(Answer::Outcome(Outcome::Int(2))));
    cluster.pass(1_000, arrives);
    assert_eq!(cluster.nodes.iter().map(|node| node.host.own_groups().count()).sum::<usize>(), 0, "nothing is left");
}

#[test]
fn of_many_groups_those_of_strings_become_registers() {
    const COUNT: usize = 200;
    let mut cluster = Cluster::new(|_| {});
    let names: Vec<Vec<u8>> = (0..COUNT).map(|at| format!("key{at}").into_bytes()).collect();
    let ask = |cluster: &mut Cluster, action, protocol| {
        let number = cluster.next_number();
        let names = names.clone();
        let request = GroupRequest { names, protocol, is_batch: true, ..GroupRequest::of(action) };
        cluster.node(1).host.submit_group_request(number, 0, request);
        wait(cluster, 1, number, 6_000).0
    };
    let is_hash = |at: usize| at.is_multiple_of(3);
    for (at, key) in names.iter().enumerate().filter(|(at, _)| is_hash(*at)) {
        let op = Op::Hash(HashOp::Set { pairs: vec![(b"a", b"1")], answers_ok: false });
        let number = submit(&mut cluster, 1 + at as u32 % 3, None, &Command::Elements { key, op });
        wait(&mut cluster, 1 + at as u32 % 3, number, 100);
    }
    ask(&mut cluster, GroupAction::Create { value: b"v".to_vec() }, Protocol::Paxos);
    ask(&mut cluster, GroupAction::Promote, Protocol::Paxos);
    let Some(Answer::Admin(AdminReply::List(lines))) = ask(&mut cluster, GroupAction::Retype, Protocol::Register)
    else {
        panic!("a line for each");
    };
    for (at, line) in lines.iter().enumerate() {
        let is_refused = matches!(line, AdminReply::Error(line) if line == NO_STRING);
        assert!(is_refused == is_hash(at) && (is_refused || *line == AdminReply::Ok), "{at}: {line:?}");
    }
    cluster.pass(2_000, arrives);
    let registers = cluster.nodes[0].host.groups().filter(|group| group.replica.register().is_some()).count();
    assert_eq!(registers, COUNT - COUNT.div_ceil(3));
}

#[test]
fn what_no_register_does_waits_for_what_the_register_becomes() {
    for second in ["GROUP RETYPE key PROTOCOL chain", "GROUP RETYPE key PROTOCOL paxos", "GROUP DEMOTE key"] {
        for late_us in [0, 5_000, 30_000] {
            let mut cluster = Cluster::new(|_| {});
            assert_eq!(told(&mut cluster, "GROUP CREATE key PROTOCOL register VALUE 0"), AdminReply::Ok);
            cluster.pass(300, arrives);
            let number = submit(&mut cluster, 3, None, &INCR);
            let (answer, _) = wait(&mut cluster, 3, number, 50);
            let is_refusal = |text: &String| text.starts_with("PROTOCOL the object is a register");
            assert!(matches!(&answer, Some(Answer::Outcome(Outcome::Error(text))) if is_refusal(text)), "{answer:?}");
            // It is decided, and the register goes on for a while; node 3 hears of it late as well.
            let volume = cluster.volume();
            let slow = |_: NodeId, to: NodeId, message: &Message<'_>| match message {
                Message::StopGroup { .. } => Fate::IsLate { by_us: 20_000 },
                Message::Replica { group, .. } if *group == volume && to == NodeId(3) => {
                    Fate::IsLate { by_us: late_us }
                }
                _ => Fate::Arrives,
            };
            let changed = administer(&mut cluster, 1, second);
            let answer = loop {
                cluster.pass(1, slow);
                if let Some(answer) = take_answer(&mut cluster, 1, changed) {
                    break answer;
                }
            };
            assert_eq!(answer, Answer::Admin(AdminReply::Ok));
            let mut counted = Vec::new();
            for now_ms in 0..1_000 {
                for at in (1..=3).filter(|_| now_ms < 50) {
                    submit(&mut cluster, at, None, &INCR);
                }
                cluster.pass(1, slow);
                for (_, answer) in cluster.nodes.iter_mut().flat_map(|node| std::mem::take(&mut node.answers)) {
                    let Answer::Outcome(Outcome::Int(value)) = answer else {
                        panic!("{second}, {late_us} us late: {answer:?}");
                    };
                    counted.push(value);
                }
            }
            counted.sort_unstable();
            assert_eq!(counted, (1..=150).collect::<Vec<_>>(), "{second}, {late_us} us late");
        }
    }
}

fn is_request_of(message: &Message<'_>, asked: GroupId) -> bool {
    matches!(message, Message::Request { group, .. } if *group == asked)
}

#[test]
fn writes_that_meet_the_end_of_a_group_go_to_the_register_that_it_becomes() {
    const SET: Command<'_> = Command::Set {
        key: b"key",
        value: b"v",
        condition: Condition::Always,
        expiry: Expiry::Unset,
        answer: SetAnswer::Ok,
    };
    for first in ["PROTOCOL paxos", "PROTOCOL chain"] {
        for late_us in [0, 30_000, 120_000] {
            let mut cluster = Cluster::new(|_| {});
            assert_eq!(told(&mut cluster, &format!("GROUP CREATE key {first} VALUE 0")), AdminReply::Ok);
            cluster.pass(300, arrives);
            // They are told of the group that ends by a volume that is slow to answer, and of the register by it as well.
            let volume = cluster.volume();
            let slow = |from: NodeId, _: NodeId, message: &Message<'_>| match is_request_of(message, volume) {
                true if from == NodeId(2) => Fate::IsLate { by_us: late_us },
                _ => Fate::Arrives,
            };
            let mut answered = 0;
            for now_ms in 0..1_000 {
                for at in [1, 3].into_iter().filter(|_| now_ms < 100) {
                    submit(&mut cluster, at, None, &SET);
                }
                if now_ms == 20 {
                    administer(&mut cluster, 2, "GROUP RETYPE key PROTOCOL register");
                }
                cluster.pass(1, slow);
                for at in [1, 3] {
                    let answers = std::mem::take(&mut cluster.node(at).answers);
                    assert!(answers.iter().all(|(_, answer)| *answer == Answer::Outcome(Outcome::Ok)), "{answers:?}");
                    answered += answers.len();
                }
            }
            assert_eq!(answered, 200, "{first}, {late_us} us late");
        }
    }
}

#[test]
fn no_end_is_awaited_that_has_been_executed_here() {
    let mut cluster = Cluster::new(|_| {});
    assert_eq!(told(&mut cluster, "GROUP CREATE key VALUE 0"), AdminReply::Ok);
    cluster.pass(300, arrives);
    for turn in 0..20 {
        for now_ms in 0..200 {
            for at in (1..=3).filter(|_| now_ms < 100) {
                submit(&mut cluster, at, None, &INCR);
            }
            if now_ms == 20 {
                let members = ["n1,n2,n3", "n2,n3,n1", "n3,n1,n2"][turn % 3];
                administer(&mut cluster, 2, &format!("GROUP MOVE key MEMBERS {members}"));
            }
            // Any message may take a little longer than another.
            cluster.pass(1, |from, to, _| match (from.0 * 3 + to.0 + now_ms) % 3 {
                0 => Fate::IsLate { by_us: 2_000 },
                _ => Fate::Arrives,
            });
        }
        cluster.pass(300, arrives);
    }
    assert!(cluster.nodes.iter().all(|node| node.host.retries.awaited_ends() == 0));
}

#[test]
fn members_keep_their_order_unless_others_are_named() {
    for (first, second) in [("paxos", "chain"), ("chain", "paxos"), ("register", "chain"), ("register", "paxos")] {
        let mut cluster = Cluster::new(|_| {});
        let create = format!("GROUP CREATE key PROTOCOL {first} MEMBERS n3,n1,n2");
        assert_eq!(told(&mut cluster, &create), AdminReply::Ok);
        cluster.pass(300, arrives);
        assert_eq!(told(&mut cluster, &format!("GROUP RETYPE key PROTOCOL {second}")), AdminReply::Ok);
        cluster.pass(500, arrives);
        assert_eq!(shown(&mut cluster, "members"), "n3,n1,n2", "{first} to {second}");
    }
}

/// A node is gone on which too much is to begin: nobody can say that it has.
#[test]
fn no_group_stops_for_one_that_would_have_to_wait_to_begin() {
    let mut cluster = Cluster::new(|_| {});
    assert_eq!(told(&mut cluster, "GROUP CREATE key MEMBERS n1,n2 VALUE 5"), AdminReply::Ok);
    cluster.pass(300, arrives);
    cluster.node(3).is_down = true;
    let number = cluster.next_number();
    let mut request = GroupRequest::of(GroupAction::Create { value: vec![b'v'; 1 << 20] });
    request.names = (0..20).map(|at| format!("large{at}").into_bytes()).collect();
    request.members = ["n1", "n3"].map(str::to_owned).to_vec();
    cluster.node(1).host.submit_group_request(number, 0, request);
    cluster.pass(100, arrives);
    // Asked while there was room, or later: it serves all the time.
    for line in ["GROUP MOVE key MEMBERS n2,n1", "GROUP RETYPE key PROTOCOL chain"] {
        administer(&mut cluster, 1, line);
        cluster.pass(1_000, arrives);
        let number = submit(&mut cluster, 1, None, &Command::IncrBy { key: b"key", delta: 0 });
        assert_eq!(wait(&mut cluster, 1, number, 1_000).0, Some(Answer::Outcome(Outcome::Int(5))), "{line}");
    }
    cluster.node(3).is_down = false;
    [1, 2].into_iter().for_each(|at| cluster.node(at).host.linked(NodeId(3)));
    [1, 2].into_iter().for_each(|at| cluster.node(3).host.linked(NodeId(at)));
    cluster.pass(10_000, arrives);
    assert_eq!(told(&mut cluster, "GROUP RETYPE key PROTOCOL chain"), AdminReply::Ok);
    cluster.pass(1_000, arrives);
    assert_eq!(shown(&mut cluster, "protocol"), "chain");
}

#[test]
fn a_group_that_waits_for_its_turn_to_stop_serves_clients_of_every_node() {
    // The third node has no replica of the volume.
    let mut cluster = Cluster::new(|settings| settings.defaults.replicas = 2);
    assert_eq!(told(&mut cluster, "GROUP CREATE key VALUE 5"), AdminReply::Ok);
    cluster.pass(300, arrives);
    let is_held_up = |_: NodeId, _: NodeId, message: &Message<'_>| match message {
        Message::StopGroup { .. } => Fate::IsLost,
        _ => Fate::Arrives,
    };
    // The volume coordinates itself, the group elsewhere.
    administer(&mut cluster, 1, "GROUP MOVE key MEMBERS n2,n1");
    let mut answered = Vec::new();
    for _ in 0..500 {
        cluster.pass(1, is_held_up);
        answered.append(&mut cluster.node(3).answers);
        if answered.is_empty() {
            submit(&mut cluster, 3, None, &Command::IncrBy { key: b"key", delta: 0 });
        }
    }
    assert_eq!(shown(&mut cluster, "state"), "changing");
    assert_eq!(answered.first().map(|(_, answer)| answer.clone()), Some(Answer::Outcome(Outcome::Int(5))));
}
