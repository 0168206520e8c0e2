//! Commands on several keys: which slot they have to lie in, how many they may be, and what waits for them.

mod support;

use support::Talk;

const CROSS_SLOT: &str = r"-CROSSSLOT Keys in request don\'t hash to the same slot: give those that belong together a common hash tag, as {user:7}:name\r\n";

fn told(lines: &[&str]) -> Vec<String> {
    let mut talk = Talk::default();
    lines.iter().map(|line| talk.ask(line)).collect()
}

#[test]
fn keys_lie_in_one_hash_slot_or_nothing_is_done() {
    for line in [
        "lmove a b left left",
        "rename a b",
        "copy a b",
        "sunion a a b",
        "sintercard 2 a b",
        "sunionstore b a",
        "zunionstore b 1 a",
        "zunion 2 a b nosuch",
        "zrangestore b a 0 -1",
        "msetnx a 1 b 2",
        "lmpop 2 a b left",
    ] {
        assert_eq!(told(&[line])[0], CROSS_SLOT, "{line}");
        // It is told by EXEC, and keeps the others from being executed.
        let replies = told(&["multi", "set c 1", line, "exec", "get c"]);
        assert_eq!(replies[2..], [r"+QUEUED\r\n", CROSS_SLOT, r"$-1\r\n"], "{line}");
    }
    // Those that are not looked at may lie anywhere.
    assert_eq!(told(&["sintercard 1 a limit 2"])[0], r":0\r\n");
    assert_eq!(told(&["multi", "set a 1", "rename b {b}c", "exec"])[3], CROSS_SLOT);
}

#[test]
fn a_copy_stays_in_its_namespace() {
    let refused = "-ERR COPY takes no DB: ";
    let replies = told(&["set {t}a v", "copy {t}a {t}b db 1", "copy {t}a {t}b db 0 replace", "exists {t}b"]);
    assert!(replies[1].starts_with(refused) && replies[2].starts_with(refused), "{replies:?}");
    assert_eq!(replies[3], r":0\r\n");
}

#[test]
fn what_is_too_much_is_refused() {
    let keys = |count: usize| " {t}k".repeat(count);
    let replies = told(&[
        "sadd {t}k m",
        &format!("sunion{}", keys(10_000)),
        &format!("sunion{}", keys(10_001)),
        &format!("sunionstore {{t}}d{}", keys(10_000)),
        &format!("zunion 10001{}", keys(10_001)),
        &format!("rename {{t}}k {{t}}{}", "k".repeat(64_000)),
        "scard {t}k",
    ]);
    let too_many = r"-ERR the command has more than 10,000 keys\r\n";
    assert_eq!(replies[1], r"*1\r\n$1\r\nm\r\n");
    assert_eq!(replies[2..5], [too_many, too_many, too_many]);
    assert_eq!(replies[5..], [r"-ERR the key is longer than 64000 bytes\r\n", r":1\r\n"]);
    let value = "x".repeat(1 << 23);
    let mut talk = Talk::default();
    talk.send(format!(
        "*5\r\n$6\r\nmsetnx\r\n$4\r\n{{t}}a\r\n${0}\r\n{value}\r\n$4\r\n{{t}}b\r\n${0}\r\n{value}\r\n",
        1 << 23
    ));
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r"-ERR the command is longer than 16 MiB: write fewer elements at once\r\n");
}

#[test]
fn it_waits_for_what_was_before_and_what_is_behind_waits_for_it() {
    let mut talk = Talk::default();
    talk.send("rpush {t}a 1\r\nrpoplpush {t}a {t}b\r\nlpop {t}b\r\n");
    assert_eq!(talk.backend.log.len(), 1, "RPOPLPUSH waits");
    talk.deliver(0);
    talk.send("");
    assert_eq!(talk.backend.log.len(), 2, "LPOP waits for it");
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r":1\r\n$1\r\n1\r\n$1\r\n1\r\n");
}
