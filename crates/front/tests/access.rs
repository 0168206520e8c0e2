//! Who may do what before the password is given, and after. Replies are those of Redis 7.0.15 with `requirepass` set.

mod support;

use quorate_front::{Access, GUEST_OUTPUT_LENGTH_MAX, Limits, Progress, Verdict};
use support::Talk;

const NO_AUTH: &str = r"-NOAUTH Authentication required.\r\n";
const WRONG: &str = r"-WRONGPASS invalid username-password pair or user is disabled.\r\n";

fn guest() -> Talk {
    Talk::with(Limits::default(), Access::Password)
}

impl Talk {
    /// Gives the verdict that somebody waits for, and goes on.
    fn verdict(&mut self, verdict: Verdict) {
        let (connection, _) = self.backend.passwords.remove(0);
        assert_eq!(self.front.verified(connection, verdict), Some(self.id));
        self.send("");
    }
}

#[test]
fn a_guest_may_ask_for_little() {
    let mut talk = guest();
    for line in ["get a", "ping", "select 0", "command docs auth", "quorate status", "dbsize"] {
        assert_eq!(talk.ask(line), NO_AUTH, "{line}");
    }
    assert!(talk.backend.log.is_empty());
    assert_eq!(talk.ask("foo"), r"-ERR unknown command \'foo\', with args beginning with: \r\n");
    assert_eq!(talk.ask("get"), r"-ERR wrong number of arguments for \'get\' command\r\n");
    assert_eq!(talk.ask("client foo"), r"-ERR unknown subcommand \'foo\'. Try CLIENT HELP.\r\n");
    assert!(talk.ask("hello 3").starts_with("-NOAUTH HELLO must be called with the client already authenticated"));
    assert_eq!(talk.ask("hello 4 auth default known"), r"-NOPROTO unsupported protocol version\r\n");
    assert_eq!(talk.ask("reset"), r"+RESET\r\n");
    assert_eq!(talk.ask("quit"), r"+OK\r\n");
    assert_eq!(talk.front.progress(talk.id), Progress::Close);
}

#[test]
fn the_password_opens_and_reset_closes_again() {
    let mut talk = guest();
    assert_eq!(talk.ask("auth unknown"), WRONG);
    assert_eq!(talk.ask("auth other known"), WRONG);
    assert_eq!(talk.ask("auth a b c"), r"-ERR syntax error\r\n");
    assert!(talk.front.is_guest(talk.id));
    assert_eq!(talk.ask("auth default known"), r"+OK\r\n");
    assert!(!talk.front.is_guest(talk.id));
    assert_eq!(talk.ask("get a"), r"$-1\r\n");
    assert_eq!(talk.ask("auth unknown"), WRONG);
    assert_eq!(talk.ask("get a"), r"$-1\r\n");
    assert_eq!(talk.ask("reset"), r"+RESET\r\n");
    assert_eq!(talk.ask("get a"), NO_AUTH);
}

#[test]
fn options_of_hello_count_from_left_to_right() {
    let mut talk = guest();
    assert_eq!(talk.ask("hello 3 auth default unknown foo"), WRONG);
    assert_eq!(talk.ask("hello 3 auth default known foo"), r"-ERR Syntax error in HELLO option \'foo\'\r\n");
    assert_eq!(talk.ask("get a"), r"$-1\r\n");
    let mut talk = guest();
    assert!(talk.ask("hello 3 setname x auth default known").starts_with("%7"));
    assert_eq!(talk.ask("client getname"), r"$1\r\nx\r\n");
    let mut talk = guest();
    assert_eq!(talk.ask("hello 3 auth default known auth default unknown"), WRONG);
    assert_eq!(talk.ask("get a"), r"$-1\r\n");
    let mut talk = guest();
    assert_eq!(talk.ask("hello 3 auth default unknown auth default known"), WRONG);
    assert_eq!(talk.ask("get a"), NO_AUTH);
}

#[test]
fn what_comes_behind_a_password_waits_for_the_verdict() {
    let mut talk = guest();
    assert_eq!(talk.send("auth slow\r\nset a 1\r\nget a\r\n"), Progress::Paused);
    assert_eq!(talk.backend.passwords.len(), 1);
    assert!(!talk.front.is_answered(talk.id));
    talk.verdict(Verdict::Right);
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r"+OK\r\n+OK\r\n$1\r\n1\r\n");
    // Also on a connection that is its user's already, with something unanswered.
    assert_eq!(talk.send("set a 2\r\nhello 3 auth default slow\r\nget a\r\n"), Progress::Paused);
    assert!(talk.backend.passwords.is_empty(), "the write first");
    talk.deliver(0);
    talk.send("");
    talk.verdict(Verdict::Wrong);
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), format!(r"+OK\r\n{WRONG}$1\r\n2\r\n"));
}

#[test]
fn each_password_of_a_request_gets_its_own_verdict() {
    let mut talk = guest();
    talk.send("hello 3 auth default first setname x auth default second\r\nget a\r\n");
    assert_eq!(talk.backend.passwords[0].1, b"first");
    talk.verdict(Verdict::Right);
    assert_eq!(talk.backend.passwords[0].1, b"second");
    talk.verdict(Verdict::Refused("ERR busy".into()));
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r"-ERR busy\r\n$-1\r\n");
    // And the verdict is of no use to the next request.
    talk.send("auth third\r\n");
    assert_eq!(talk.backend.passwords[0].1, b"third");
}

#[test]
fn a_verdict_finds_only_who_waits_for_it() {
    let mut talk = guest();
    talk.send("auth slow\r\n");
    let (connection, _) = talk.backend.passwords.remove(0);
    talk.front.disconnected(connection);
    assert_eq!(talk.front.verified(connection, Verdict::Right), None);
    let id = talk.front.connected("127.0.0.1:50000".into(), "127.0.0.1:7000".into(), support::NOW_MS);
    assert_eq!(id.place(), connection.place());
    assert_eq!(talk.front.verified(connection, Verdict::Right), None);
    assert_eq!(talk.front.verified(id, Verdict::Right), None, "it never gave a password");
    assert!(talk.front.is_guest(id));
}

#[test]
fn a_guest_sends_ten_short_words() {
    let mut talk = guest();
    talk.send("*10\r\n");
    assert_eq!(talk.read(), "");
    let mut talk = guest();
    assert_eq!(talk.send("*11\r\n"), Progress::Close);
    assert_eq!(talk.read(), r"-ERR Protocol error: unauthenticated multibulk length\r\n");
    let mut talk = guest();
    talk.send("*2\r\n$4\r\nAUTH\r\n$16384\r\n");
    assert_eq!(talk.read(), "");
    let mut talk = guest();
    assert_eq!(talk.send("*2\r\n$4\r\nAUTH\r\n$16385\r\n"), Progress::Close);
    assert_eq!(talk.read(), r"-ERR Protocol error: unauthenticated bulk length\r\n");
    let mut talk = guest();
    assert_eq!(talk.ask("auth known"), r"+OK\r\n");
    assert_eq!(talk.send("*11\r\n$16385\r\n"), Progress::Open);
}

#[test]
fn a_guest_is_told_little() {
    let mut talk = guest();
    // As many refusals as fit: the next waits until they are read.
    let fitting = GUEST_OUTPUT_LENGTH_MAX.div_ceil("-NOAUTH Authentication required.\r\n".len());
    assert_eq!(talk.send("get a\r\n".repeat(100)), Progress::Paused);
    assert_eq!(talk.read(), NO_AUTH.repeat(fitting));
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), NO_AUTH.repeat(fitting), "read, so there is room");
    // One long reply, to the byte.
    let told = |option_length: usize| {
        let mut talk = guest();
        let progress = talk.send(format!("hello 3 {}\r\n", "x".repeat(option_length)));
        (progress, talk.front.output(talk.id).len())
    };
    let frame = "-ERR Syntax error in HELLO option ''\r\n".len();
    assert_eq!(told(GUEST_OUTPUT_LENGTH_MAX - frame), (Progress::Paused, GUEST_OUTPUT_LENGTH_MAX));
    assert_eq!(told(GUEST_OUTPUT_LENGTH_MAX - frame + 1), (Progress::Close, 0));
}
