//! Tests of transactions and of commands on several keys: where they are executed, and where they are refused.

use quorate_object::{
    Combination, Combined, Command, Condition, Expiry, KeysOp, ListOp, ListSide, OnKeys, Op, Outcome, SetAnswer, SetOp,
    Transaction, slot_of_key,
};

use crate::Target;
use crate::answer::{AdminReply, Answer};
use crate::host::Submission;
use crate::host::three_nodes::{Cluster, arrives};

const A: &[u8] = b"{t}a";
const B: &[u8] = b"{t}b";

fn wait(cluster: &mut Cluster, at: u32, number: u64) -> Answer {
    for _ in 0..3_000 {
        let answers = &mut cluster.node(at).answers;
        if let Some(found) = answers.iter().position(|(answered, _)| *answered == number) {
            return answers.swap_remove(found).1;
        }
        cluster.pass(1, arrives);
    }
    panic!("no answer");
}

fn administer(cluster: &mut Cluster, namespace: u32, line: &str) {
    let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let number = cluster.next_number();
    cluster.node(1).host.submit_admin(number, namespace, &words);
    assert_eq!(wait(cluster, 1, number), Answer::Admin(AdminReply::Ok), "{line}");
    cluster.pass(300, arrives);
}

fn ask(cluster: &mut Cluster, at: u32, namespace: u32, command: &Command<'_>) -> Outcome {
    let number = cluster.next_number();
    let target = Target::Slot { namespace, slot: slot_of_key(A) };
    cluster.node(at).host.submit(Submission { number, predecessor: None, target, command });
    match wait(cluster, at, number) {
        Answer::Outcome(outcome) => outcome,
        answer => panic!("{answer:?}"),
    }
}

fn exec(cluster: &mut Cluster, at: u32, namespace: u32, commands: &[Command<'static>]) -> Outcome {
    let transaction = Transaction::new(commands.to_vec()).expect("each is on one object");
    ask(cluster, at, namespace, &Command::Transaction(transaction))
}

fn incr(key: &'static [u8], delta: i64) -> Command<'static> {
    Command::IncrBy { key, delta }
}

fn counts(numbers: &[i64]) -> Outcome {
    Outcome::List(numbers.iter().map(|number| Outcome::Int(*number)).collect())
}

fn refusal(outcome: Outcome) -> String {
    match outcome {
        Outcome::Error(line) => line,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn a_volume_executes_all_of_it_or_nothing() {
    let mut cluster = Cluster::new(|_| {});
    administer(&mut cluster, 0, "NAMESPACE CREATE 1 READS routed");
    for (namespace, at) in [(0, 1), (0, 2), (1, 2), (1, 3)] {
        let before = ask(&mut cluster, at, namespace, &incr(A, 0));
        let Outcome::Int(before) = before else { panic!("{before:?}") };
        // Routed reads at every node share the kgroup, which the transaction has to call back.
        (1..=3).for_each(|reader| drop(ask(&mut cluster, reader, namespace, &Command::Get { key: B })));
        assert_eq!(exec(&mut cluster, at, namespace, &[incr(A, 1), incr(B, 1)]), counts(&[before + 1, before + 1]));
        for reader in 1..=3 {
            let read = exec(&mut cluster, reader, namespace, &[Command::Get { key: B }, Command::Strlen { key: A }]);
            let value = Outcome::Bulk((before + 1).to_string().into_bytes());
            assert_eq!(read, Outcome::List(vec![value, Outcome::Int(1)]), "{namespace} at {reader}");
        }
    }
}

#[test]
fn an_own_group_executes_what_concerns_its_object_alone() {
    let mut cluster = Cluster::new(|_| {});
    administer(&mut cluster, 0, "GROUP CREATE {t}a VALUE 1");
    for at in 1..=3 {
        assert_eq!(exec(&mut cluster, at, 0, &[incr(A, 1), incr(A, -1)]), counts(&[2, 1]));
        let apart = refusal(exec(&mut cluster, at, 0, &[incr(B, 1), incr(A, 1)]));
        assert!(apart.starts_with("CROSSSLOT"), "{apart}");
        let read = refusal(exec(&mut cluster, at, 0, &[Command::Get { key: B }, Command::Get { key: A }]));
        assert!(read.starts_with("CROSSSLOT"), "{read}");
    }
    assert_eq!(ask(&mut cluster, 1, 0, &Command::Exists { key: B }), Outcome::Int(0), "nothing of it was executed");
    administer(&mut cluster, 0, "GROUP DEMOTE {t}a");
    cluster.pass(500, arrives);
    assert_eq!(exec(&mut cluster, 2, 0, &[incr(B, 1), incr(A, 1)]), counts(&[1, 2]));
}

#[test]
fn what_is_written_first_in_a_transaction_gets_its_group_too() {
    let mut cluster = Cluster::new(|_| {});
    administer(&mut cluster, 0, "NAMESPACE CREATE 1 GROUPS own");
    let apart = refusal(exec(&mut cluster, 1, 1, &[incr(A, 1), incr(B, 1)]));
    assert!(apart.starts_with("CROSSSLOT"), "{apart}");
    assert_eq!(exec(&mut cluster, 2, 1, &[incr(A, 1), incr(A, 1)]), counts(&[1, 2]));
    cluster.pass(500, arrives);
    assert_eq!(cluster.node(1).host.own_groups().count(), 1);
    assert_eq!(exec(&mut cluster, 3, 1, &[incr(A, 1), Command::Del { key: A }]), counts(&[3, 1]));
    cluster.pass(1_000, arrives);
    assert_eq!(cluster.node(1).host.own_groups().count(), 0);
}

#[test]
fn chains_execute_them_and_registers_say_that_they_cannot() {
    let mut cluster = Cluster::new(|_| {});
    administer(&mut cluster, 0, "NAMESPACE CREATE 1 PROTOCOL chain");
    administer(&mut cluster, 0, "NAMESPACE CREATE 2 PROTOCOL register");
    let set = |key| Command::Set {
        key,
        value: b"v",
        condition: Condition::Always,
        expiry: Expiry::Unset,
        answer: SetAnswer::Ok,
    };
    for commands in [vec![set(A)], vec![set(A), set(B)]] {
        for at in 1..=3 {
            let line = refusal(exec(&mut cluster, at, 2, &commands));
            assert!(line.starts_with("PROTOCOL "), "{line}");
        }
        assert_eq!(ask(&mut cluster, 1, 2, &Command::Get { key: A }), Outcome::Nil);
    }
    for at in 1..=3 {
        // Several of them are on their way down the chain at once, and each builds on those before it.
        let numbers: Vec<u64> = (0..10)
            .map(|_| {
                let commands = vec![incr(A, 1), incr(B, 1), incr(A, 1), Command::Del { key: B }, incr(B, 7)];
                let command = Command::Transaction(Transaction::new(commands).expect("each is on one object"));
                let number = cluster.next_number();
                let target = Target::Slot { namespace: 1, slot: slot_of_key(A) };
                cluster.node(at).host.submit(Submission { number, predecessor: None, target, command: &command });
                number
            })
            .collect();
        let mut seen: Vec<Outcome> = Vec::new();
        for number in numbers {
            match wait(&mut cluster, at, number) {
                Answer::Outcome(outcome) => seen.push(outcome),
                answer => panic!("{answer:?}"),
            }
        }
        let done = i64::from(at - 1) * 10;
        for (outcome, turn) in seen.into_iter().zip(done..) {
            let before = if turn == 0 { 0 } else { 7 };
            assert_eq!(outcome, counts(&[2 * turn + 1, before + 1, 2 * turn + 2, 1, 7]), "{at}");
        }
        let reads = [Command::Get { key: A }, Command::Get { key: B }];
        let expected = [2 * (done + 10), 7].map(|number| Outcome::Bulk(number.to_string().into_bytes()));
        assert_eq!(exec(&mut cluster, at, 1, &reads), Outcome::List(expected.into()));
    }
}

fn on_keys(keys: &[&'static [u8]], op: KeysOp<'static>) -> Command<'static> {
    Command::OnKeys(OnKeys::new(keys.to_vec(), op).expect("they are in one slot"))
}

fn rename(from: &'static [u8], to: &'static [u8]) -> Command<'static> {
    on_keys(&[from, to], KeysOp::Rename { if_absent: false })
}

fn push(key: &'static [u8], values: Vec<&'static [u8]>) -> Command<'static> {
    Command::Elements { key, op: Op::List(ListOp::Push { side: ListSide::Right, values, if_there: false }) }
}

fn range(key: &'static [u8]) -> Command<'static> {
    Command::Elements { key, op: Op::List(ListOp::Range { start: 0, stop: -1 }) }
}

fn bulks(values: &[&[u8]]) -> Outcome {
    Outcome::List(values.iter().map(|value| Outcome::Bulk(value.to_vec())).collect())
}

#[test]
fn a_chain_moves_elements_that_are_still_on_their_way() {
    let mut cluster = Cluster::new(|_| {});
    administer(&mut cluster, 0, "NAMESPACE CREATE 1 PROTOCOL chain");
    let turn = on_keys(&[A, A], KeysOp::MoveElement { from: ListSide::Left, to: ListSide::Right });
    let there = on_keys(&[A, B], KeysOp::MoveElement { from: ListSide::Left, to: ListSide::Right });
    for at in 1..=3 {
        // None of them waits for the one before it to be decided.
        let commands = [
            push(A, vec![b"1", b"2", b"3"]),
            there.clone(),
            turn.clone(),
            there.clone(),
            rename(B, A),
            turn.clone(),
            on_keys(&[A, B], KeysOp::Copy { replace: true }),
            there.clone(),
        ];
        let numbers = commands.each_ref().map(|command| {
            let number = cluster.next_number();
            let target = Target::Slot { namespace: 1, slot: slot_of_key(A) };
            cluster.node(at).host.submit(Submission { number, predecessor: None, target, command });
            number
        });
        let told = numbers.map(|number| match wait(&mut cluster, at, number) {
            Answer::Outcome(outcome) => outcome,
            answer => panic!("{answer:?}"),
        });
        let bulk = |value: &[u8]| Outcome::Bulk(value.to_vec());
        let expected =
            [Outcome::Int(3), bulk(b"1"), bulk(b"2"), bulk(b"3"), Outcome::Ok, bulk(b"1"), Outcome::Int(1), bulk(b"3")];
        assert_eq!(told, expected, "{at}");
        for reader in 1..=3 {
            assert_eq!(ask(&mut cluster, reader, 1, &range(A)), bulks(&[b"1"]), "{at}");
            assert_eq!(ask(&mut cluster, reader, 1, &range(B)), bulks(&[b"3", b"1", b"3"]), "{at}");
        }
        assert_eq!(exec(&mut cluster, at, 1, &[Command::Del { key: A }, Command::Del { key: B }]), counts(&[1, 1]));
    }
}

#[test]
fn a_volume_reads_several_objects_at_one_moment() {
    let mut cluster = Cluster::new(|_| {});
    administer(&mut cluster, 0, "NAMESPACE CREATE 1 READS routed");
    let add = |key| Command::Elements { key, op: Op::Set(SetOp::Add { members: vec![b"m"] }) };
    let has = Command::Elements { key: A, op: Op::Set(SetOp::Has { member: b"m" }) };
    let move_back = on_keys(&[B, A], KeysOp::MoveMember { member: b"m" });
    let count_both = KeysOp::CombineSets { how: Combination::Union, result: Combined::Count { most: 0 } };
    for namespace in [0, 1] {
        assert_eq!(ask(&mut cluster, 1, namespace, &add(A)), Outcome::Int(1));
        for at in 1..=3 {
            // Routed reads share the kgroup with every node, and it has to be called back.
            (1..=3).for_each(|reader| assert_eq!(ask(&mut cluster, reader, namespace, &has), Outcome::Int(1)));
            let moved = on_keys(&[A, B], KeysOp::MoveMember { member: b"m" });
            assert_eq!(ask(&mut cluster, at, namespace, &moved), Outcome::Int(1));
            for reader in 1..=3 {
                assert_eq!(ask(&mut cluster, reader, namespace, &has), Outcome::Int(0));
                let both = on_keys(&[A, B], count_both.clone());
                assert_eq!(ask(&mut cluster, reader, namespace, &both), Outcome::Int(1));
            }
            assert_eq!(ask(&mut cluster, at, namespace, &move_back), Outcome::Int(1));
        }
    }
}

#[test]
fn several_objects_of_which_one_has_its_own_group_are_refused_and_so_are_registers() {
    let mut cluster = Cluster::new(|_| {});
    administer(&mut cluster, 0, "GROUP CREATE {t}a VALUE 1");
    administer(&mut cluster, 0, "NAMESPACE CREATE 1 GROUPS own");
    administer(&mut cluster, 0, "NAMESPACE CREATE 2 PROTOCOL register");
    let to_itself = rename(A, A);
    for at in 1..=3 {
        for command in [rename(A, B), rename(B, A)] {
            let apart = refusal(ask(&mut cluster, at, 0, &command));
            assert!(apart.starts_with("CROSSSLOT"), "{apart}");
            let apart = refusal(ask(&mut cluster, at, 1, &command));
            assert!(apart.starts_with("CROSSSLOT"), "{apart}");
            let line = refusal(ask(&mut cluster, at, 2, &command));
            assert!(line.starts_with("PROTOCOL "), "{line}");
        }
        let line = refusal(ask(&mut cluster, at, 2, &to_itself));
        assert!(line.starts_with("PROTOCOL "), "{line}");
        assert_eq!(ask(&mut cluster, at, 0, &to_itself), Outcome::Ok, "its group executes it");
    }
    let all_absent = KeysOp::SetIfAllAbsent { values: vec![b"v", b"w"] };
    assert_eq!(ask(&mut cluster, 1, 1, &on_keys(&[A, A], all_absent.clone())), Outcome::Int(1));
    assert_eq!(ask(&mut cluster, 2, 1, &Command::Get { key: A }), Outcome::Bulk(b"w".to_vec()));
    assert_eq!(ask(&mut cluster, 3, 1, &on_keys(&[A, A], all_absent)), Outcome::Int(0));
}
