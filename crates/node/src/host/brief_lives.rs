//! Tests of commands on an object whose own group begins or ends while they are on their way.

use quorate_object::{Command, Outcome};

use crate::Target;
use crate::answer::Answer;
use crate::host::Submission;
use crate::host::three_nodes::{Cluster, arrives};

const INCR: Command<'_> = Command::IncrBy { key: b"key", delta: 1 };

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
