//! Tests of own groups that become others while clients use them.

use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer, TtlUnit};
use quorate_protocol::NodeId;

use crate::Target;
use crate::answer::{AdminReply, Answer};
use crate::host::Submission;
use crate::host::three_nodes::{Cluster, arrives};

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
            eprintln!("{first} to {second}: {longest_ms} ms");
            counted.sort_unstable();
            assert_eq!(counted, (1..=300).collect::<Vec<_>>(), "{first} to {second}");
            cluster.pass(500, arrives);
            let expected = second.split(' ').nth(1).expect("a protocol");
            assert_eq!(shown(&mut cluster, "protocol"), expected);
            let number = told(&mut cluster, &format!("GROUP RETYPE key {second}"));
            let before = shown(&mut cluster, "group");
            assert_eq!((number, before), (AdminReply::Ok, shown(&mut cluster, "group")), "nothing is to be done");
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
