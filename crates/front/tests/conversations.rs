//! What only this front says, or says in its own way: order under pipelining, several keys, failures, limits.

mod support;

use quorate_front::{Answer, Failure, Limits, OperationId, Progress};
use quorate_object::Outcome;
use support::{NOW_MS, Random, Talk, VOLUME_COUNT};

#[test]
fn replies_keep_the_order_of_requests() {
    let mut talk = Talk::default();
    talk.send("set a 1\r\nset b 2\r\nping\r\nget a\r\nmget b a\r\necho x\r\n");
    assert_eq!(talk.read(), "");
    // The last first: nothing can be said until the first operation is answered.
    for number in (1..5).rev() {
        assert_eq!(talk.deliver(number), None);
        assert_eq!(talk.read(), "");
    }
    assert_eq!(talk.deliver(0), Some(talk.id));
    assert_eq!(talk.read(), r"+OK\r\n+OK\r\n+PONG\r\n$1\r\n1\r\n*2\r\n$1\r\n2\r\n$1\r\n1\r\n$1\r\nx\r\n");
}

#[test]
fn any_order_of_answers_gives_the_same_replies() {
    let mut script = Vec::new();
    for number in 0..300 {
        let (key, other) = (number % 7, number % 5);
        script.extend_from_slice(
            format!(
                "set k{key} {number}\r\nget k{other}\r\nmget k{key} k{other} none\r\nping {number}\r\n\
                 del k{other} k{key}\r\nincr n\r\nmset k{key} x k{other} y\r\nexists k{key} k{key}\r\n\
                 dbsize\r\nkeys n\r\nnonsense\r\nget\r\n"
            )
            .as_bytes(),
        );
    }
    let mut in_order = Talk::default();
    in_order.send(&script);
    in_order.deliver_all(|_| 0);
    let want = in_order.read();
    assert!(in_order.input.is_empty());
    for seed in 1..20 {
        let mut random = Random(seed);
        let mut talk = Talk::default();
        let mut want_left = want.as_str();
        for piece in script.chunks(1 + random.below(3000)) {
            talk.send(piece);
            for _ in 0..random.below(talk.backend.answers.len() + 1) {
                talk.deliver(random.below(talk.backend.answers.len()));
            }
            let read = talk.read();
            want_left = want_left.strip_prefix(read.as_str()).expect("replies come in order");
        }
        talk.deliver_all(|length| random.below(length));
        assert_eq!(talk.read(), want_left, "seed {seed}");
    }
}

#[test]
fn an_operation_names_its_unanswered_predecessor_on_the_same_object() {
    let mut talk = Talk::default();
    talk.send("set a 1\r\nset b 1\r\nget a\r\nmget a b a\r\n");
    let predecessors: Vec<_> = talk.backend.log.iter().map(|(id, predecessor, _)| (*id, *predecessor)).collect();
    assert_eq!(predecessors, [(1, None), (2, None), (3, Some(1)), (4, Some(3)), (5, Some(2)), (6, Some(4))]);
    // The latest that is unanswered, whatever is answered before and behind it.
    talk.deliver(5);
    talk.deliver(3);
    talk.backend.log.clear();
    talk.send("get a\r\nget b\r\n");
    assert_eq!(talk.backend.log[0].1, Some(3));
    assert_eq!(talk.backend.log[1].1, Some(5));
    talk.deliver_all(|_| 0);
    talk.backend.log.clear();
    talk.send("get a\r\n");
    assert_eq!(talk.backend.log[0].1, None, "everything is answered");
}

#[test]
fn predecessors_are_found_in_long_pipelines() {
    let mut talk = Talk::default();
    let mut random = Random(42);
    let mut latest = std::collections::HashMap::new();
    for _ in 0..5_000 {
        let key = format!("key:{}", random.below(700));
        talk.backend.log.clear();
        talk.send(format!("get {key}\r\n"));
        let (id, predecessor, _) = talk.backend.log[0];
        assert_eq!(predecessor, latest.insert(key, id));
    }
}

#[test]
fn the_same_key_in_two_namespaces_is_two_objects() {
    let mut talk = Talk::default();
    talk.send("set a 1\r\nselect 1\r\nset a 2\r\nselect 0\r\nget a\r\n");
    let predecessors: Vec<_> = talk.backend.log.iter().map(|(_, predecessor, _)| *predecessor).collect();
    assert_eq!(predecessors, [None, None, Some(1)]);
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r"+OK\r\n+OK\r\n+OK\r\n+OK\r\n$1\r\n1\r\n");
}

#[test]
fn two_connections_do_not_wait_for_each_other() {
    let mut talk = Talk::default();
    talk.send("set a 1\r\n");
    let other = talk.front.connected("127.0.0.1:50001".into(), "127.0.0.1:7000".into(), NOW_MS);
    let mut input = b"get a\r\n".to_vec();
    talk.front.received(other, &mut input, NOW_MS, &mut talk.backend);
    assert_eq!(talk.backend.log[1].1, None);
    assert_eq!(talk.deliver(1), Some(other));
    assert_eq!(talk.front.output(other), b"$1\r\n1\r\n");
    assert_eq!(talk.deliver(0), Some(talk.id));
}

#[test]
fn a_command_on_all_objects_has_its_place_in_the_pipeline() {
    let mut talk = Talk::default();
    assert_eq!(talk.send("set a 1\r\ndbsize\r\nset b 2\r\ndbsize\r\n"), Progress::Paused);
    assert_eq!(talk.backend.answers.len(), 1, "DBSIZE waits for the SET before it");
    talk.deliver(0);
    assert_eq!(talk.front.progress(talk.id), Progress::Open);
    assert_eq!(talk.send(""), Progress::Paused);
    assert_eq!(talk.backend.answers.len(), VOLUME_COUNT as usize, "the SET behind it waits for DBSIZE");
    talk.deliver_all(|length| length - 1);
    assert_eq!(talk.read(), r"+OK\r\n:1\r\n+OK\r\n:2\r\n");
}

#[test]
fn a_namespace_that_a_node_has_not_heard_of_yet_may_exist() {
    let mut talk = Talk::default();
    talk.backend.is_loading = true;
    talk.send("select 7\r\nselect 0\r\nselect -1\r\n");
    let out_of_range = r"-ERR DB index is out of range\r\n";
    let loading = r"-LOADING Redis is loading the dataset in memory\r\n";
    assert_eq!(talk.read(), format!(r"{loading}+OK\r\n{out_of_range}"));
    talk.backend.is_loading = false;
    talk.send("select 7\r\n");
    assert_eq!(talk.read(), out_of_range);
}

#[test]
fn a_command_on_all_objects_is_refused_while_nobody_knows_how_many_volumes_there_are() {
    let mut talk = Talk::default();
    talk.backend.is_loading = true;
    talk.send("dbsize\r\nkeys *\r\nscan 0\r\nflushall\r\n");
    assert_eq!(talk.read(), r"-LOADING Redis is loading the dataset in memory\r\n".repeat(4));
    talk.backend.is_loading = false;
    talk.send("dbsize\r\n");
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r":0\r\n");
}

#[test]
fn a_held_inline_request_is_not_unquoted_twice() {
    let mut talk = Talk::default();
    talk.send("set 'a b' 1\r\nkeys 'a b'\r\n");
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r"+OK\r\n*1\r\n$3\r\na b\r\n");
}

#[test]
fn a_partial_request_waits_in_the_input() {
    let mut talk = Talk::default();
    for byte in b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r" {
        assert_eq!(talk.send([*byte]), Progress::Open);
        assert_eq!(talk.read(), "");
    }
    talk.send("\n*1\r\n$4\r\nPI");
    assert_eq!(talk.read(), r"$2\r\nhi\r\n");
    assert_eq!(talk.input, b"*1\r\n$4\r\nPI");
    talk.send("NG\r\n");
    assert_eq!(talk.read(), r"+PONG\r\n");
}

#[test]
fn failures_say_what_happened() {
    for (failure, code, words) in [
        (Failure::NoQuorum, "NOQUORUM", "not executed"),
        (Failure::Timeout, "TIMEOUT", "outcome unknown"),
        (Failure::TryAgain, "TRYAGAIN", "try again"),
        (Failure::Loading, "LOADING", "loading"),
        (Failure::OutOfMemory, "OOM", "maxmemory"),
        (Failure::NoSpace, "MISCONF", "no space"),
        (Failure::Other("ERR odd".into()), "ERR", "odd"),
    ] {
        let mut talk = Talk::default();
        talk.backend.failing.insert(b"a".to_vec(), failure);
        let reply = talk.ask("set a 1");
        assert!(reply.starts_with(&format!("-{code} ")) && reply.contains(words), "{reply}");
    }
}

#[test]
fn a_partly_failed_write_says_how_much_was_done() {
    let mut talk = Talk::default();
    talk.backend.failing.insert(b"b".to_vec(), Failure::NoQuorum);
    let reply = talk.ask("mset a 1 b 2 c 3");
    assert!(reply.starts_with("-NOQUORUM ") && reply.ends_with(r"(2 of 3 keys were done)\r\n"), "{reply}");
    // An unknown outcome is worth more than an earlier certain one.
    talk.backend.failing.insert(b"c".to_vec(), Failure::Timeout);
    let reply = talk.ask("del a b c");
    assert!(reply.starts_with("-TIMEOUT ") && reply.ends_with(r"(1 of 3 keys were done)\r\n"), "{reply}");
    assert_eq!(talk.ask("exists a"), r":0\r\n");
    let reply = talk.ask("mget a b");
    assert!(reply.starts_with("-NOQUORUM ") && reply.ends_with(r"try again\r\n"), "{reply}");
}

#[test]
fn mget_shows_nothing_for_what_is_no_string() {
    let mut talk = Talk::default();
    talk.send("mget a b\r\n");
    let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
    talk.front.completed(OperationId(1), Answer::Outcome(Outcome::Error(wrong_type.into())));
    talk.front.completed(OperationId(2), Answer::Outcome(Outcome::Bulk(b"v".to_vec())));
    assert_eq!(talk.read(), r"*2\r\n$-1\r\n$1\r\nv\r\n");
}

#[test]
fn answers_after_a_disconnect_are_dropped() {
    let mut talk = Talk::default();
    talk.send("set a 1\r\nmget a b\r\n");
    talk.front.disconnected(talk.id);
    let stale = talk.id;
    talk.id = talk.front.connected("127.0.0.1:50001".into(), "127.0.0.1:7000".into(), NOW_MS);
    assert_ne!(talk.id, stale);
    talk.send("get a\r\n");
    assert_eq!(talk.deliver(0), None);
    assert_eq!(talk.deliver(0), None);
    assert_eq!(talk.deliver(0), None);
    assert_eq!(talk.deliver(0), Some(talk.id));
    assert_eq!(talk.read(), r"$1\r\n1\r\n");
    assert_eq!(talk.front.progress(stale), Progress::Close);
    talk.front.disconnected(stale);
    assert_eq!(talk.front.connection_count(), 1);
}

#[test]
fn an_operation_is_answered_once() {
    let mut talk = Talk::default();
    talk.send("get a\r\nget b\r\n");
    let nil = || Answer::Outcome(Outcome::Nil);
    assert_eq!(talk.front.completed(OperationId(1), nil()), Some(talk.id));
    assert_eq!(talk.front.completed(OperationId(1), nil()), None);
    assert_eq!(talk.front.completed(OperationId(7), nil()), None);
    assert_eq!(talk.read(), r"$-1\r\n");
}

#[test]
fn quit_answers_what_came_before_it_and_takes_nothing_more() {
    let mut talk = Talk::default();
    assert_eq!(talk.send("get a\r\nquit\r\nset a 1\r\n"), Progress::Draining);
    assert!(talk.input.is_empty());
    assert_eq!(talk.backend.answers.len(), 1);
    talk.deliver(0);
    assert_eq!(talk.front.progress(talk.id), Progress::Close);
    assert_eq!(talk.read(), r"$-1\r\n+OK\r\n");
    assert_eq!(talk.send("ping\r\n"), Progress::Close);
    assert_eq!(talk.read(), "");
}

#[test]
fn a_protocol_error_ends_the_connection_after_its_replies() {
    let mut talk = Talk::default();
    assert_eq!(talk.send("get a\r\n*1\r\nx\r\n"), Progress::Draining);
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r"$-1\r\n-ERR Protocol error: expected \'$\', got \'x\'\r\n");
    assert_eq!(talk.front.progress(talk.id), Progress::Close);
}

#[test]
fn a_browser_is_shown_the_door() {
    for line in ["POST / HTTP/1.1\r\n", "host: 127.0.0.1\r\n"] {
        let mut talk = Talk::default();
        assert_eq!(talk.send(line), Progress::Close);
        assert_eq!(talk.read(), "");
    }
}

#[test]
fn a_long_pipeline_is_taken_in_portions() {
    let limits = Limits { unanswered_max: 10, ..Limits::default() };
    let mut talk = Talk::new(limits);
    assert_eq!(talk.send("incr n\r\n".repeat(25)), Progress::Paused);
    assert_eq!(talk.backend.answers.len(), 10);
    for _ in 0..4 {
        talk.deliver(0);
    }
    assert_eq!(talk.send(""), Progress::Paused, "not before half of them are answered");
    assert_eq!(talk.backend.answers.len(), 6);
    talk.deliver(0);
    talk.deliver(0);
    assert_eq!(talk.front.progress(talk.id), Progress::Open);
    talk.send("");
    assert_eq!(talk.backend.answers.len(), 10);
    talk.deliver_all(|length| length - 1);
    let want: String = (1..=25).map(|number| format!(r":{number}\r\n")).collect();
    assert_eq!(talk.read(), want);
}

#[test]
fn long_requests_are_taken_in_portions_too() {
    let set = |length: usize| format!("*3\r\n$3\r\nset\r\n$1\r\na\r\n${length}\r\n{}\r\n", "x".repeat(length));
    let one = set(100).len();
    let mut talk = Talk::new(Limits { unanswered_length_max: 4 * one, ..Limits::default() });
    assert_eq!(talk.send(set(100).repeat(4)), Progress::Paused, "as much as is allowed, and no more");
    assert_eq!(talk.backend.answers.len(), 4);
    assert_eq!(talk.send(set(100).repeat(4)), Progress::Paused);
    talk.deliver(0);
    talk.deliver(0);
    assert_eq!(talk.front.progress(talk.id), Progress::Paused, "not before less than half of it is unanswered");
    talk.deliver(0);
    assert_eq!(talk.front.progress(talk.id), Progress::Open);
    talk.send("");
    assert_eq!((talk.backend.answers.len(), talk.input.len()), (4, one));
    talk.deliver_all(|length| length - 1);
    assert_eq!(talk.read(), r"+OK\r\n".repeat(8));
}

#[test]
fn without_room_requests_stay_where_they_are() {
    let mut talk = Talk::default();
    talk.backend.answers_max = 3;
    assert_eq!(talk.send("incr n\r\n".repeat(5)), Progress::Open);
    assert_eq!((talk.backend.answers.len(), talk.input.len()), (3, 2 * "incr n\r\n".len()));
    talk.send("");
    assert_eq!(talk.backend.answers.len(), 3);
    talk.deliver_all(|_| 0);
    assert_eq!(talk.read(), r":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n");
}

#[test]
fn what_all_connections_have_waiting_is_summed_up() {
    let mut talk = Talk::default();
    let other = talk.front.connected("127.0.0.1:50001".into(), "127.0.0.1:7000".into(), NOW_MS);
    talk.front.received(other, &mut b"ping 0123456789\r\n".to_vec(), NOW_MS, &mut talk.backend);
    let one = b"$10\r\n0123456789\r\n".len();
    assert_eq!((talk.front.reply_length_of(other), talk.front.reply_length()), (one, one));
    talk.send("incr n\r\nping 0123456789\r\n");
    assert_eq!(talk.front.reply_length(), 2 * one, "the second reply is kept behind the first, which is missing");
    talk.deliver(0);
    assert_eq!(talk.front.reply_length(), 2 * one + b":1\r\n".len());
    talk.front.output(other).clear();
    talk.front.sent(other);
    assert_eq!(talk.front.reply_length(), one + b":1\r\n".len());
    talk.front.disconnected(talk.id);
    assert_eq!(talk.front.reply_length(), 0);
}

#[test]
fn who_does_not_read_is_not_served() {
    let limits = Limits { output_length_pause: 100, output_length_max: 1_000, ..Limits::default() };
    let mut talk = Talk::new(limits);
    assert_eq!(talk.send("ping 0123456789\r\n".repeat(50)), Progress::Paused);
    let length = talk.front.output(talk.id).len();
    assert!((100..200).contains(&length), "{length} bytes");
    talk.read();
    assert_eq!(talk.front.progress(talk.id), Progress::Open);

    // Replies to what was taken before can exceed any limit: then there is no more to be done for the client.
    let mut talk = Talk::new(limits);
    talk.ask(&format!("set a {}", "x".repeat(400)));
    talk.send("get a\r\nget a\r\nget a\r\n");
    while !talk.backend.answers.is_empty() {
        let last = talk.backend.answers.len() - 1;
        talk.deliver(last);
    }
    assert_eq!(talk.front.progress(talk.id), Progress::Close);
    assert_eq!(talk.read(), "");
}

#[test]
fn a_gathered_reply_has_a_limit() {
    let limits = Limits { output_length_max: 1_000, ..Limits::default() };
    let mut talk = Talk::new(limits);
    talk.ask(&format!("set a {}", "x".repeat(300)));
    assert!(talk.ask("mget a none").starts_with("*2"));
    let reply = talk.ask("mget a a none");
    assert_eq!(reply, r"-ERR the reply would be too long: use SCAN, or fewer keys\r\n");
    assert_eq!(talk.ask("ping"), r"+PONG\r\n");
}

#[test]
fn only_commands_on_many_keys_take_many_words() {
    let limits = Limits { word_count_max: 10, ..Limits::default() };
    let mut talk = Talk::new(limits);
    let words = " a".repeat(10);
    assert!(talk.ask(&format!("mget{words}")).starts_with("*10"));
    assert_eq!(talk.ask(&format!("config get{words}")), r"-ERR Protocol error: invalid multibulk length\r\n");
    assert_eq!(talk.front.progress(talk.id), Progress::Close);
}

#[test]
fn set_if_equal_compares_and_sets() {
    let mut talk = Talk::default();
    assert_eq!(talk.ask("set a 1"), r"+OK\r\n");
    assert_eq!(talk.ask("set a 2 ifeq 0"), r"$-1\r\n");
    assert_eq!(talk.ask("set a 2 ifeq 1"), r"+OK\r\n");
    assert_eq!(talk.ask("set a 3 get ifeq 2 ex 100"), r"$1\r\n2\r\n");
    assert_eq!(talk.ask("expiretime a"), format!(r":{}\r\n", (NOW_MS + 100_000 + 500) / 1000));
    assert_eq!(talk.ask("set a 3 ifeq"), r"-ERR syntax error\r\n");
    assert_eq!(talk.ask("set a 3 nx ifeq 3"), r"-ERR syntax error\r\n");
    assert_eq!(talk.ask("set a 3 ifeq 3 xx"), r"-ERR syntax error\r\n");
}

#[test]
fn an_object_has_a_largest_size() {
    let mut talk = Talk::default();
    let too_long = r"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    assert_eq!(talk.ask("setrange a 16777216 x"), too_long);
    assert_eq!(talk.ask("setrange a 16777215 x"), r":16777216\r\n");
}

#[test]
fn relative_times_become_absolute() {
    let mut talk = Talk::default();
    talk.ask("set a 1 px 877");
    assert_eq!(talk.ask("pexpiretime a"), r":1700000001000\r\n");
    talk.ask("expire a 10");
    assert_eq!(talk.ask("pexpiretime a"), r":1700000010123\r\n");
    talk.ask("getex a px 1");
    assert_eq!(talk.ask("pttl a"), r":1\r\n");
    talk.ask("psetex a 500 v");
    assert_eq!(talk.ask("pttl a"), r":500\r\n");
}

#[test]
fn scan_meets_every_key_once() {
    for (key_count, volume_count) in [(0, 1), (3, 64), (500, 1), (500, 64), (500, 200)] {
        for count in ["", " count 1", " count 7", " count 100000"] {
            let mut talk = Talk::default();
            talk.backend.volume_count = volume_count;
            (0..key_count).for_each(|number| assert_eq!(talk.ask(&format!("set key:{number} v")), r"+OK\r\n"));
            let mut keys = Vec::new();
            let mut cursor = "0".to_string();
            loop {
                let reply = talk.ask(&format!("scan {cursor}{count}"));
                let mut words = reply.split(r"\r\n").filter(|word| !word.starts_with(['*', '$']));
                cursor = words.next().expect("a cursor").to_string();
                keys.extend(words.filter(|word| !word.is_empty()).map(str::to_string));
                if cursor == "0" {
                    break;
                }
            }
            assert_eq!(keys.len(), key_count, "{volume_count} volumes,{count}");
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), key_count, "{volume_count} volumes,{count}");
        }
    }
}

#[test]
fn a_small_namespace_is_scanned_in_one_call() {
    let mut talk = Talk::default();
    talk.backend.volume_count = 64;
    talk.ask("mset a 1 b 2 c 3");
    assert!(talk.ask("scan 0").starts_with(r"*2\r\n$1\r\n0\r\n*3\r\n"));
}

#[test]
fn flushing_one_namespace_or_all() {
    let mut talk = Talk::default();
    talk.ask("mset a 1 b 2");
    talk.ask("select 1");
    talk.ask("mset a 1 b 2");
    assert_eq!(talk.ask("flushdb"), r"+OK\r\n");
    assert_eq!(talk.ask("dbsize"), r":0\r\n");
    talk.ask("set a 1");
    talk.ask("select 0");
    assert_eq!(talk.ask("dbsize"), r":2\r\n");
    assert_eq!(talk.ask("flushall"), r"+OK\r\n");
    assert_eq!(talk.ask("dbsize"), r":0\r\n");
    talk.ask("select 1");
    assert_eq!(talk.ask("dbsize"), r":0\r\n");
}

#[test]
fn a_dropped_namespace_is_not_taken_for_an_empty_one() {
    let mut talk = Talk::default();
    talk.ask("select 1");
    talk.backend.namespaces = vec![0];
    for command in ["dbsize", "keys *", "scan 0", "flushdb", "select 1"] {
        assert_eq!(talk.ask(command), r"-ERR DB index is out of range\r\n", "{command}");
    }
    assert_eq!(talk.ask("flushall"), r"+OK\r\n");
}

#[test]
fn garbage_never_panics() {
    let words = [
        "get",
        "set",
        "mset",
        "mget",
        "del",
        "scan",
        "keys",
        "expire",
        "getex",
        "hello",
        "client",
        "list",
        "info",
        "id",
        "command",
        "docs",
        "config",
        "quorate",
        "flushall",
        "select",
        "incrbyfloat",
        "setrange",
        "0",
        "1",
        "-1",
        "3",
        "nx",
        "ex",
        "count",
        "match",
        "*",
        "a",
        "b",
        "''",
        "\"",
        "\r\n",
        "\r\n",
        "\r\n",
        "\r\n",
        "*2\r\n$",
        "\0",
        "reset",
        "quit",
    ];
    let mut random = Random(7);
    let mut taken = 0;
    for _ in 0..3_000 {
        let mut talk = Talk::default();
        for _ in 0..40 {
            let word = words[random.below(words.len())];
            if talk.send(format!("{word} ")) == Progress::Close {
                break;
            }
            while !talk.backend.answers.is_empty() && random.below(3) > 0 {
                talk.deliver(random.below(talk.backend.answers.len()));
            }
        }
        talk.deliver_all(|length| random.below(length));
        taken += talk.backend.log.len();
        assert!(talk.front.progress(talk.id) != Progress::Draining);
    }
    assert!(taken > 1_000, "some garbage should be requests: {taken}");
}

#[test]
fn what_is_no_option_is_none_even_if_it_is_nothing() {
    let mut talk = Talk::default();
    talk.ask("sadd s a");
    for command in ["srandmember s 1 \"\"", "hrandfield h 1 \"\"", "zrandmember z 1 \"\"", "srandmember s 1 withvalues"]
    {
        assert_eq!(talk.ask(command), r"-ERR syntax error\r\n", "{command}");
    }
    assert_eq!(talk.ask("srandmember s 1"), r"*1\r\n$1\r\na\r\n");
}
