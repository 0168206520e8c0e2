//! MULTI, EXEC and DISCARD.

mod support;

use support::Talk;

/// What is said to these lines, one after the other.
fn told(lines: &[&str]) -> Vec<String> {
    let mut talk = Talk::default();
    lines.iter().map(|line| talk.ask(line)).collect()
}

#[test]
fn what_was_queued_is_answered_together() {
    let replies = told(&[
        "set {t}a 5",
        "multi",
        "incr {t}a",
        "set {t}b x",
        "hset {t}h f v g w",
        "mget {t}a {t}h {t}none",
        "incrby {t}a one",
        "get {t}h",
        "ping",
        "echo said",
        "mset {t}c 1 {t}d 2",
        "del {t}c {t}d {t}e",
        "hgetall {t}h",
        "exec",
        "get {t}a",
    ]);
    assert!(replies[2..13].iter().all(|reply| reply == r"+QUEUED\r\n"), "{replies:?}");
    assert_eq!(
        replies[13],
        r"*11\r\n:6\r\n+OK\r\n:2\r\n*3\r\n$1\r\n6\r\n$-1\r\n$-1\r\n-ERR value is not an integer or out of range\r\n-WRONGTYPE Operation against a key holding the wrong kind of value\r\n+PONG\r\n$4\r\nsaid\r\n+OK\r\n:2\r\n*4\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\ng\r\n$1\r\nw\r\n"
    );
    assert_eq!(replies[14], r"$1\r\n6\r\n");
}

#[test]
fn what_is_wrong_at_once_keeps_all_from_being_executed() {
    const ABORTED: &str = r"-EXECABORT Transaction discarded because of previous errors.\r\n";
    for wrong in ["nosuch", "get", "dbsize", "select 1", "hello 3", "quorate status", "config get save"] {
        let replies = told(&["multi", "set a 1", wrong, "set a 2", "exec", "get a", "exec"]);
        assert!(replies[2].starts_with("-ERR"), "{wrong}: {replies:?}");
        assert_eq!(replies[3..5], [r"+QUEUED\r\n".to_string(), ABORTED.to_string()], "{wrong}");
        assert_eq!(replies[5..], [r"$-1\r\n", r"-ERR EXEC without MULTI\r\n"], "{wrong}");
    }
}

#[test]
fn a_transaction_is_begun_once_and_ends_once() {
    let replies = told(&["multi", "multi", "exec", "discard", "multi", "set a 1", "discard", "get a"]);
    let expected = [
        r"+OK\r\n",
        r"-ERR MULTI calls can not be nested\r\n",
        r"*0\r\n",
        r"-ERR DISCARD without MULTI\r\n",
        r"+OK\r\n",
        r"+QUEUED\r\n",
        r"+OK\r\n",
        r"$-1\r\n",
    ];
    assert_eq!(replies, expected);
    assert_eq!(told(&["multi", "set a 1", "reset", "exec"])[2..], [r"+RESET\r\n", r"-ERR EXEC without MULTI\r\n"]);
    let replies = told(&["multi", "set a 1", "exec now", "exec", "get a"]);
    assert!(replies[2].starts_with("-EXECABORT Transaction discarded because of: wrong number"), "{replies:?}");
    assert_eq!(replies[3..], [r"-ERR EXEC without MULTI\r\n", r"$-1\r\n"]);
    assert_eq!(told(&["multi", "ping", "exec"])[2], r"*1\r\n+PONG\r\n");
}

#[test]
fn a_key_that_is_too_long_is_refused_in_its_place() {
    let key = "k".repeat(64_001);
    let replies = told(&["multi", &format!("set {key} 1"), "set a 1", &format!("mset {key} 1 a 2"), "exec"]);
    let refused = r"-ERR the key is longer than 64000 bytes\r\n";
    assert_eq!(replies[4], format!(r"*3\r\n{refused}+OK\r\n{refused}"));
}

#[test]
fn keys_lie_in_one_hash_slot() {
    let replies = told(&["multi", "set a 1", "set b 2", "exec", "mget a b", "multi", "set a 1", "append a 2", "exec"]);
    assert_eq!(
        replies[3],
        r"-CROSSSLOT Keys in request don\'t hash to the same slot: give those that belong together a common hash tag, as {user:7}:name\r\n"
    );
    assert_eq!(replies[4], r"*2\r\n$-1\r\n$-1\r\n");
    assert_eq!(replies[8], r"*2\r\n+OK\r\n:2\r\n");
}

#[test]
fn it_waits_for_what_was_before_and_what_is_behind_waits_for_it() {
    let mut talk = Talk::default();
    talk.send("set {t}a 1\r\nset {t}b 1\r\nmulti\r\nincr {t}a\r\nincr {t}b\r\nexec\r\nget {t}b\r\n");
    assert_eq!(talk.backend.log.len(), 2, "EXEC waits");
    talk.deliver(0);
    talk.deliver(0);
    talk.send("");
    assert_eq!(talk.backend.log.len(), 3, "GET waits for EXEC");
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r"+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:2\r\n:2\r\n$1\r\n2\r\n");
}

#[test]
fn what_is_too_much_is_refused() {
    let mut talk = Talk::default();
    talk.send("multi\r\n");
    talk.send("ping\r\n".repeat(10_001));
    let replies = talk.read();
    assert!(
        replies.ends_with(
            r"-ERR the transaction has more than 10,000 commands, each key of MGET and the like counted\r\n"
        )
    );
    assert!(talk.ask("exec").starts_with("-EXECABORT"));
    talk.ask("multi");
    talk.ask(&format!("set a {}", "x".repeat(1000)));
    assert!(talk.front.reply_length() > 1000, "what is queued is counted");
    talk.ask("discard");
    assert!(talk.front.reply_length() < 500, "{}", talk.front.reply_length());
    let far = (1 << 24) - 100;
    let replies =
        told(&["multi", &format!("setrange {{t}}a {far} x"), &format!("setrange {{t}}b {far} x"), "ping", "exec"]);
    assert!(replies[4].starts_with("*3"), "{replies:?}");
    let more = [1, 2, 3].map(|number| format!("setrange {{t}}{number} {far} x"));
    let replies = told(&["multi", &more[0], &more[1], &more[2], "exec", "exists {t}1"]);
    assert_eq!(replies[4..], [r"-ERR the transaction would write more than 32 MiB\r\n", r":0\r\n"]);
}

#[test]
fn clients_that_queue_are_shown_as_such() {
    let mut talk = Talk::default();
    talk.ask("multi");
    talk.ask("get a");
    let other = talk.front.connected("127.0.0.1:50001".into(), "127.0.0.1:7000".into(), 0);
    let mut input = b"client list\r\n".to_vec();
    talk.front.received(other, &mut input, 0, &mut talk.backend);
    let list = String::from_utf8_lossy(talk.front.output(other)).into_owned();
    assert!(list.contains("flags=x ") && list.contains("multi=1 ") && list.contains("multi=-1 "), "{list}");
}
