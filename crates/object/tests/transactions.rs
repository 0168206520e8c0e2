//! Transactions: what they answer, and where they stop.

mod common;

use common::{HASH_KEY, bulk, get, set};
use quorate_object::{APART, Command, OBJECT_BYTES_MAX, Objects, Outcome, Transaction};

const TOO_LONG: &str = "ERR not executed: the answers of the transaction would be longer than 16 MiB together";

fn transaction<'a>(commands: &[Command<'a>]) -> Command<'a> {
    Command::Transaction(Transaction::new(commands.to_vec()).expect("all are in one slot"))
}

#[test]
fn from_the_first_on_whose_answer_has_no_room_none_is_executed() {
    let large = "x".repeat(OBJECT_BYTES_MAX / 2);
    let incr = Command::IncrBy { key: b"{t}n", delta: 1 };
    let take = Command::GetDel { key: b"{t}b" };
    let commands = [incr.clone(), get("{t}a"), incr.clone(), take.clone(), incr, take];
    let too_long = Outcome::Error(TOO_LONG.into());
    let expected = Outcome::List(vec![
        Outcome::Int(1),
        bulk(&large),
        Outcome::Int(2),
        too_long.clone(),
        too_long.clone(),
        too_long,
    ]);
    let filled = || {
        let mut objects = Objects::new(HASH_KEY);
        objects.run(&set("{t}a", &large), 0, 0);
        objects.run(&set("{t}b", &large), 0, 0);
        objects
    };
    let (mut by_command, mut by_change) = (filled(), filled());
    assert_eq!(by_command.run(&transaction(&commands), 0, 0), expected);
    let both = transaction(&commands);
    let (change, outcome) = by_change.execute(&both, 0, 0);
    assert_eq!(outcome, expected);
    by_change.apply(change.expect("it counts"), 0);
    for objects in [&by_command, &by_change] {
        assert_eq!(objects.read(&get("{t}n"), 0), bulk("2"));
        assert_eq!(objects.read(&Command::Exists { key: b"{t}b" }, 0), Outcome::Int(1), "nobody was told what it was");
    }
    assert_eq!(by_command.digest(), by_change.digest());
}

#[test]
fn one_with_an_object_that_is_elsewhere_changes_nothing() {
    let mut objects = Objects::new(HASH_KEY);
    objects.run(&set("{t}a", "1"), 0, 0);
    objects.send_away(b"{t}a", b"note");
    let both = transaction(&[set("{t}b", "2"), set("{t}a", "3")]);
    assert_eq!(objects.run(&both, 0, 0), Outcome::Error(APART.into()));
    assert_eq!(objects.execute(&both, 0, 0), (None, Outcome::Error(APART.into())));
    assert_eq!(objects.read(&transaction(&[get("{t}b"), get("{t}a")]), 0), Outcome::Error(APART.into()));
    assert_eq!(objects.read(&get("{t}b"), 0), Outcome::Nil);
}

#[test]
fn commands_that_lie_apart_or_are_on_no_object_make_none() {
    for commands in [vec![], vec![get("a"), get("b")], vec![get("a"), Command::Count], vec![transaction(&[get("a")])]] {
        assert_eq!(Transaction::new(commands), None);
    }
}
