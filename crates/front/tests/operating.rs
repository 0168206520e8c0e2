//! What operators do at a node: watch what is slow, close connections, change settings.

mod support;

use quorate_front::{Kind, Limits, Progress};
use support::{NOW_MS, Talk};

/// The slow log's entries as `id duration words`, newest first.
fn slow(talk: &mut Talk) -> Vec<String> {
    let reply = talk.ask("slowlog get -1").replace(r"\r\n", "\n");
    let mut lines = reply.lines().filter(|line| !line.starts_with('$'));
    let number = |line: &str| line[1..].parse::<usize>().expect("a number");
    let count = number(lines.next().expect("a reply"));
    let mut entries = Vec::new();
    for _ in 0..count {
        let fields: Vec<&str> = lines.by_ref().take(5).collect();
        assert_eq!((fields[0], fields[2]), ("*6", ":1700000000"));
        let words: Vec<&str> = lines.by_ref().take(number(fields[4])).collect();
        assert_eq!(lines.next(), Some("127.0.0.1:50000"));
        assert!(matches!(lines.next(), Some("" | "joe")));
        entries.push(format!("{} {} {}", &fields[1][1..], &fields[3][1..], words.join(" ")));
    }
    entries
}

#[test]
fn what_was_answered_late_is_in_the_slow_log() {
    let mut talk = Talk::default();
    talk.front.set_now(1_000, NOW_MS);
    talk.send("set a 1\r\nget a\r\nmset b 1 c 2\r\n");
    talk.front.set_now(10_999, NOW_MS);
    talk.deliver(0);
    talk.front.set_now(11_000, NOW_MS);
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r"+OK\r\n$1\r\n1\r\n+OK\r\n");
    assert_eq!(slow(&mut talk), ["1 10000 mset b 1 c 2", "0 10000 get a"]);
    assert_eq!(talk.ask("slowlog get 1").matches("mset").count(), 1);
    assert_eq!(talk.ask("slowlog len"), r":2\r\n");
    let counts = talk.front.counts();
    assert_eq!(counts.requests[Kind::Write as usize], 2);
    // Of 9,999 us and of 10,000 us.
    assert_eq!(counts.latencies[Kind::Write as usize].sum_us, 19_999);
    assert_eq!(counts.latencies[Kind::Read as usize].counts.iter().sum::<u64>(), 1);
    assert_eq!(talk.ask("slowlog reset"), r"+OK\r\n");
    assert_eq!(slow(&mut talk), Vec::<String>::new());
}

#[test]
fn the_slow_log_keeps_a_beginning_of_each_command_and_so_many_commands() {
    let mut talk = Talk::default();
    talk.front.set_now(0, NOW_MS);
    talk.ask("config set slowlog-log-slower-than 0 slowlog-max-len 3");
    talk.ask("client setname joe");
    let many: Vec<String> = (0..40).map(|number| format!("key{number}")).collect();
    talk.ask(&format!("exists {}", many.join(" ")));
    talk.ask(&format!("get {}", "x".repeat(130)));
    talk.ask("hello 2 auth default secret");
    let shown = slow(&mut talk);
    assert_eq!(shown.len(), 3);
    assert_eq!(shown[0], "4 0 hello (redacted) (redacted) (redacted) (redacted)");
    assert_eq!(shown[1], format!("3 0 get {}... (2 more bytes)", "x".repeat(128)));
    let keys = many[..30].join(" ");
    assert_eq!(shown[2], format!("2 0 exists {keys} ... (10 more arguments)"));
    talk.ask("config set slowlog-max-len 1");
    assert_eq!(slow(&mut talk).len(), 1);
    talk.ask("config set slowlog-log-slower-than -1");
    talk.ask("slowlog reset");
    talk.ask("get a");
    assert_eq!(talk.ask("slowlog len"), r":0\r\n");
}

#[test]
fn words_that_others_have_overwritten_are_said_to_be_forgotten() {
    let mut talk = Talk::default();
    talk.front.set_now(0, NOW_MS);
    talk.send("get slow\r\n");
    let other = talk.front.connected("10.0.0.2:1234".into(), "127.0.0.1:7000".into(), NOW_MS);
    // More than the ring holds.
    let mut flood = format!("get {}\r\n", "x".repeat(500)).repeat(9_000).into_bytes();
    talk.front.received(other, &mut flood, NOW_MS, &mut talk.backend);
    talk.front.set_now(50_000, NOW_MS);
    talk.deliver(0);
    assert_eq!(talk.read(), r"$-1\r\n");
    assert_eq!(slow(&mut talk), ["0 50000 get (forgotten)"]);
}

#[test]
fn settings_are_changed_together_or_not_at_all() {
    let mut talk = Talk::default();
    let refused = talk.ask("config set slowlog-max-len 5 maxmemory 1mb");
    assert_eq!(
        refused,
        r"-ERR CONFIG SET failed (possibly related to argument \'maxmemory\') - can\'t set immutable config\r\n"
    );
    let asked = talk.ask("config get slowlog-max-len SLOWLOG-LOG* save");
    assert_eq!(
        asked,
        r"*6\r\n$4\r\nsave\r\n$0\r\n\r\n$23\r\nslowlog-log-slower-than\r\n$5\r\n10000\r\n$15\r\nslowlog-max-len\r\n$3\r\n128\r\n"
    );
    assert!(talk.ask("config set slowlog-max-len 10001").contains("must be between 0 and 10000 inclusive"));
    assert!(talk.ask("config rewrite").starts_with("-ERR Rewriting config file: node.toml"));
    assert!(!talk.ask("info stats").contains("total_commands_processed:0"));
    talk.ask("config resetstat");
    assert!(talk.ask("info stats").contains("total_connections_received:0\\r\\ntotal_commands_processed:1\\r\\n"));
}

#[test]
fn killed_connections_get_nothing_any_more() {
    let mut talk = Talk::default();
    let connect = |talk: &mut Talk, port: u16, age_s: u64| {
        talk.front.connected(format!("10.0.0.2:{port}"), "127.0.0.1:7000".into(), NOW_MS - 1000 * age_s)
    };
    let (old, young, third) = (connect(&mut talk, 1, 60), connect(&mut talk, 2, 5), connect(&mut talk, 3, 5));
    let mut input = b"set a 1\r\nget a\r\n".to_vec();
    talk.front.received(old, &mut input, NOW_MS, &mut talk.backend);
    assert_eq!(talk.ask("client kill maxage 60"), r":1\r\n");
    assert_eq!(talk.front.take_touched(), [old]);
    assert_eq!(talk.front.progress(old), Progress::Close);
    assert!(talk.front.output(old).is_empty(), "its commands were executed, but nobody is told");
    talk.front.disconnected(old);
    assert_eq!(talk.ask("get a"), r"$1\r\n1\r\n");
    assert_eq!(talk.ask("client kill 10.0.0.2:1"), r"-ERR No such client\r\n");
    assert_eq!(talk.ask("client kill 10.0.0.2:2"), r"+OK\r\n");
    assert_eq!(talk.ask("client kill id 3"), r":0\r\n", "it is closing already");
    assert_eq!(talk.ask("client kill addr 10.0.0.2:3 id 3"), r":0\r\n", "all must fit");
    assert_eq!(talk.ask("client kill type normal user default laddr 127.0.0.1:7000"), r":1\r\n", "not oneself");
    assert_eq!(talk.front.take_touched(), [young, third]);
    assert_eq!(talk.ask("client kill id 1 skipme no"), r":1\r\n");
    assert_eq!(talk.front.progress(talk.id), Progress::Close);
    assert!(talk.front.take_touched().is_empty());
}

#[test]
fn unwanted_replies_are_left_out_of_a_pipeline() {
    let mut talk = Talk::new(Limits::default());
    talk.send("set a 1\r\nclient reply skip\r\nincr a\r\nget a\r\nclient reply off\r\nincr a\r\nmget a b\r\nping\r\nclient reply on\r\nget a\r\n");
    talk.deliver_all(|length| length - 1);
    assert_eq!(talk.read(), r"+OK\r\n$1\r\n2\r\n+OK\r\n$1\r\n3\r\n");
    talk.ask("client reply off");
    assert_eq!(talk.ask("reset"), r"+RESET\r\n");
}
