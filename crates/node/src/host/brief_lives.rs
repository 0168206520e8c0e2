//! Tests of commands on an object whose own group begins or ends while they are on their way.

use std::collections::BTreeMap;

use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer};

use crate::Target;
use crate::answer::Answer;
use crate::host::Submission;
use crate::host::three_nodes::{Cluster, arrives};

const INCR: Command<'_> = Command::IncrBy { key: b"key", delta: 1 };
const DEL: Command<'_> = Command::Del { key: b"key" };

/// Namespace 1 gives each object a group of its own.
fn with_own_groups() -> Cluster {
    let mut cluster = Cluster::new(|_| {});
    let words: Vec<Vec<u8>> = "NAMESPACE CREATE 1 GROUPS own".split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let number = cluster.next_number();
    cluster.node(1).host.submit_admin(number, 0, &words);
    cluster.pass(3_000, arrives);
    cluster.nodes.iter_mut().for_each(|node| node.answers.clear());
    cluster
}

fn submit(cluster: &mut Cluster, at: u32, predecessor: Option<u64>, command: &Command<'_>) -> u64 {
    let number = cluster.next_number();
    let target = Target::Slot { namespace: 1, slot: 0 };
    cluster.node(at).host.submit(Submission { number, predecessor, target, command });
    number
}

fn submit_all(cluster: &mut Cluster, at: u32, commands: &[Command<'_>]) {
    let mut before = None;
    for command in commands {
        before = Some(submit(cluster, at, before, command));
    }
}

/// In how many milliseconds so many are answered.
fn wait_ms(cluster: &mut Cluster, at: u32, count: usize) -> u64 {
    let mut waited_ms = 0;
    while cluster.node(at).answers.len() < count && waited_ms < 10_000 {
        cluster.pass(1, arrives);
        waited_ms += 1;
    }
    waited_ms
}

/// The outcomes in the order of the commands.
fn take_outcomes(cluster: &mut Cluster, at: u32) -> Vec<Answer> {
    let mut answers = std::mem::take(&mut cluster.node(at).answers);
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn int(value: i64) -> Answer {
    Answer::Outcome(Outcome::Int(value))
}

#[test]
fn a_pipeline_goes_on_as_soon_as_the_group_of_its_object_is_born() {
    for at in 1..=3 {
        let mut cluster = with_own_groups();
        submit_all(&mut cluster, at, &[INCR; 100]);
        let waited_ms = wait_ms(&mut cluster, at, 100);
        let expected: Vec<Answer> = (1..=100).map(int).collect();
        assert_eq!(take_outcomes(&mut cluster, at), expected);
        assert!(waited_ms <= 40, "{waited_ms} ms at node {at}");
    }
}

#[test]
fn a_pipeline_goes_on_as_soon_as_the_object_that_it_deletes_has_another_group() {
    for at in 1..=3 {
        for rounds in [1, 3, 10] {
            let mut cluster = with_own_groups();
            submit_all(&mut cluster, at, &[INCR]);
            wait_ms(&mut cluster, at, 1);
            take_outcomes(&mut cluster, at);
            let mut before = None;
            for _ in 0..rounds {
                before = Some(submit(&mut cluster, at, before, &DEL));
                cluster.pass(1, arrives);
                for turn in 0..100 {
                    before = Some(submit(&mut cluster, at, before, &INCR));
                    if turn % 10 == 0 {
                        cluster.pass(1, arrives);
                    }
                }
            }
            let waited_ms = wait_ms(&mut cluster, at, rounds * 101);
            let round = std::iter::once(1).chain(1..=100);
            let expected: Vec<Answer> = (0..rounds).flat_map(|_| round.clone()).map(int).collect();
            assert_eq!(take_outcomes(&mut cluster, at), expected);
            assert!(waited_ms <= 100, "{waited_ms} ms at node {at}");
        }
    }
}

/// Each takes a lock, looks at it, and gives it back, at several nodes.
#[test]
fn nobody_starves_who_wants_what_others_make_and_delete() {
    let mut cluster = with_own_groups();
    let (condition, expiry, answer) = (Condition::IfAbsent, Expiry::Unset, SetAnswer::Ok);
    let set = Command::Set { key: b"key", value: b"owner", condition, expiry, answer };
    let steps = [set, Command::Get { key: b"key" }, DEL];
    let mut now_ms = 0;
    let mut waiting: BTreeMap<(u32, u64), (usize, u64)> = BTreeMap::new();
    for client in 0..64 {
        let at = client % 3 + 1;
        waiting.insert((at, submit(&mut cluster, at, None, &steps[0])), (0, now_ms));
    }
    let mut longest_ms = 0;
    for _ in 0..6_000 {
        cluster.pass(1, arrives);
        now_ms += 1;
        for at in 1..=3 {
            for (number, answer) in std::mem::take(&mut cluster.node(at).answers) {
                let (step, since_ms) = waiting.remove(&(at, number)).expect("it was asked, and not answered");
                assert!(matches!(answer, Answer::Outcome(_)), "{answer:?} after {} ms", now_ms - since_ms);
                longest_ms = longest_ms.max(now_ms - since_ms);
                let step = (step + 1) % steps.len();
                waiting.insert((at, submit(&mut cluster, at, None, &steps[step])), (step, now_ms));
            }
        }
    }
    let oldest_ms = waiting.values().map(|(_, since_ms)| now_ms - since_ms).max().unwrap_or(0);
    assert!(longest_ms.max(oldest_ms) <= 500, "{longest_ms} ms, {oldest_ms} ms");
}
