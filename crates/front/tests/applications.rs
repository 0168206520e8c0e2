//! FCALL: objects that are given to applications.

mod support;

use std::collections::BTreeMap;
use std::mem::swap;
use std::sync::Arc;

use quorate_front::{Answer, ConnectionId, Failure, Job, JobCall, ReplyTree, Worked};
use quorate_object::Outcome;
use support::{NOW_MS, Random, Talk};

/// An application that counts: `add` answers what the number has become, `get` what it is, `forget` removes it, `fail` does nothing.
fn count(job: &Job) -> Worked {
    let mut object = job.object.clone();
    let replies = job.calls.iter().map(|JobCall { words, only_reads }| {
        let text = object.as_ref().map_or("0", |object| str::from_utf8(object).expect("digits"));
        let number: i64 = text.parse().expect("a number");
        match words.arguments().at(0).unwrap_or_default() {
            b"add" if *only_reads => ReplyTree::Error("ERR it only reads".into()),
            b"add" => {
                object = Some(Arc::new((number + 1).to_string().into_bytes()));
                ReplyTree::Integer(number + 1)
            }
            b"get" => ReplyTree::Integer(number),
            b"forget" => {
                object = None;
                ReplyTree::ok()
            }
            _ => ReplyTree::Error("ERR failed".into()),
        }
    });
    let replies = replies.collect();
    Worked { id: job.id, object, replies }
}

/// Has everything done that is to be done, and reads what there is to read.
fn finish(talk: &mut Talk) -> String {
    loop {
        talk.front.read_due(&mut talk.backend);
        talk.deliver_all(|_| 0);
        let jobs = talk.front.take_jobs();
        jobs.iter().for_each(|job| talk.front.worked(count(job), &mut talk.backend));
        if jobs.is_empty() && talk.backend.answers.is_empty() && !talk.front.has_unread() {
            return talk.read();
        }
    }
}

fn ask(talk: &mut Talk, line: &str) -> String {
    talk.send(format!("{line}\r\n"));
    finish(talk)
}

#[test]
fn an_application_says_what_an_object_becomes() {
    let mut talk = Talk::default();
    for (line, reply) in [
        ("fcall counter 1 n get", r":0\r\n"),
        ("exists n", r":0\r\n"),
        ("fcall counter 1 n add", r":1\r\n"),
        ("fcall counter 1 n add and more", r":2\r\n"),
        ("get n", r"$1\r\n2\r\n"),
        ("fcall_ro counter 1 n get", r":2\r\n"),
        ("fcall_ro counter 1 n add", r"-ERR it only reads\r\n"),
        ("fcall counter 1 n", r"-ERR failed\r\n"),
        ("get n", r"$1\r\n2\r\n"),
        ("fcall counter 1 n forget", r"+OK\r\n"),
        ("exists n", r":0\r\n"),
        ("fcall counter 1 n forget", r"+OK\r\n"),
        ("fcall counter 1 n add", r":1\r\n"),
        ("expire n 100", r":1\r\n"),
        ("fcall counter 1 n add", r":2\r\n"),
        ("ttl n", r":100\r\n"),
        ("hset h f v", r":1\r\n"),
        ("fcall counter 1 h add", r"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ] {
        assert_eq!(ask(&mut talk, line), reply, "{line}");
    }
    assert!(talk.front.is_idle_of_applications());
}

#[test]
fn what_is_wrong_with_a_call_is_told_at_once() {
    let mut talk = Talk::default();
    for (line, reply) in [
        ("fcall counter", "-ERR wrong number of arguments for \\'fcall\\' command"),
        ("fcall nosuch 1 a", "-ERR Function not found: this node has no application \\'nosuch\\' in its configuration"),
        ("fcall counter one a", "-ERR Bad number of keys provided"),
        ("fcall counter -1 a", "-ERR Number of keys can\\'t be negative"),
        ("fcall counter 2 a", "-ERR Number of keys can\\'t be greater than number of args"),
        ("fcall counter 0", "-ERR an application is given one object at a time: give it 1 key"),
        ("fcall counter 2 a b", "-ERR an application is given one object at a time: give it 1 key"),
    ] {
        let told = ask(&mut talk, line);
        assert!(told.starts_with(reply), "{line}: {told}");
    }
    let long = format!("fcall counter 1 {} add", "k".repeat(64_001));
    assert_eq!(ask(&mut talk, &long), r"-ERR the key is longer than 64000 bytes\r\n");
    assert!(talk.backend.log.is_empty());
}

#[test]
fn a_client_is_told_where_the_key_is() {
    let mut talk = Talk::default();
    for (name, access) in [("fcall", "RW"), ("fcall_ro", "RO")] {
        let told = ask(&mut talk, &format!("command info {name}"));
        assert!(told.contains(r"$5\r\nindex\r\n:2\r\n") && told.contains(r"$6\r\nkeynum\r\n"), "{told}");
        assert!(told.contains(&format!(r"+{access}\r\n")), "{told}");
    }
}

#[test]
fn calls_of_a_pipeline_keep_their_places() {
    let mut talk = Talk::default();
    talk.send(
        "set n 5\r\nfcall counter 1 n add\r\nget n\r\nfcall counter 1 n add\r\nfcall counter 1 m add\r\nincr n\r\n",
    );
    assert_eq!(finish(&mut talk), r"+OK\r\n:6\r\n$1\r\n6\r\n:7\r\n:1\r\n:8\r\n");
}

#[test]
fn a_call_in_a_transaction_is_refused() {
    let mut talk = Talk::default();
    ask(&mut talk, "multi");
    assert!(ask(&mut talk, "fcall counter 1 n add").starts_with("-ERR not in a transaction"));
    assert!(ask(&mut talk, "exec").starts_with("-EXECABORT"));
}

#[test]
fn a_failure_is_told_to_all_that_it_concerns() {
    let mut talk = Talk::default();
    talk.backend.failing.insert(b"n".to_vec(), Failure::NoQuorum);
    assert!(ask(&mut talk, "fcall counter 1 n add").starts_with("-NOQUORUM not executed"));
    talk.backend.failing.clear();
    talk.send("fcall counter 1 n add\r\n");
    talk.deliver_all(|_| 0);
    let jobs = talk.front.take_jobs();
    // It was read, and cannot be stored.
    talk.backend.failing.insert(b"n".to_vec(), Failure::Timeout);
    talk.front.worked(count(&jobs[0]), &mut talk.backend);
    assert!(finish(&mut talk).starts_with("-TIMEOUT outcome unknown"));
    talk.backend.failing.clear();
    assert_eq!(ask(&mut talk, "fcall counter 1 n add"), r":1\r\n");
}

#[test]
fn nobody_waits_for_ever_for_an_object_that_others_change() {
    let mut talk = Talk::default();
    talk.front.set_now(0, NOW_MS);
    talk.send("fcall counter 1 n add\r\n");
    for second in 0..10 {
        talk.front.set_now(second * 1_000_000, NOW_MS);
        talk.front.read_due(&mut talk.backend);
        talk.deliver_all(|_| 0);
        let jobs = talk.front.take_jobs();
        // Somebody sets it each time between the reading and the storing.
        let mut other = Talk::default();
        swap(&mut other.backend.volumes, &mut talk.backend.volumes);
        other.ask(&format!("set n {}", 10 * second));
        swap(&mut other.backend.volumes, &mut talk.backend.volumes);
        jobs.iter().for_each(|job| talk.front.worked(count(job), &mut talk.backend));
        talk.deliver_all(|_| 0);
    }
    assert_eq!(talk.read(), r"-TRYAGAIN not executed: others kept changing the object, try again\r\n");
    assert_eq!(ask(&mut talk, "get n"), r"$2\r\n90\r\n");
    assert!(talk.front.is_idle_of_applications());
}

/// Carries out all calls that an application has been given, and says how many.
fn work_once(talk: &mut Talk) -> usize {
    talk.front.read_due(&mut talk.backend);
    talk.deliver_all(|_| 0);
    let jobs = talk.front.take_jobs();
    jobs.iter().for_each(|job| talk.front.worked(count(job), &mut talk.backend));
    talk.deliver_all(|_| 0);
    jobs.iter().map(|job| job.calls.len()).sum()
}

fn calls_of(talk: &mut Talk, lines: &[&str]) -> Vec<ConnectionId> {
    let calls = lines.iter().enumerate().map(|(port, line)| {
        let client = talk.front.connected(format!("10.0.0.2:{port}"), "127.0.0.1:7000".into(), NOW_MS);
        talk.front.received(client, &mut format!("{line}\r\n").into_bytes(), NOW_MS, &mut talk.backend);
        client
    });
    calls.collect()
}

#[test]
fn what_an_application_had_no_time_for_waits_until_the_rest_is_stored() {
    let mut talk = Talk::default();
    calls_of(&mut talk, &["fcall counter 1 n add"; 9]);
    assert_eq!(work_once(&mut talk), 1);
    // What was stored is known, so nothing is read in between.
    let jobs = talk.front.take_jobs();
    let Worked { id, mut replies, .. } = count(&jobs[0]);
    replies.truncate(3);
    let worked = Worked { id, object: Some(Arc::new(b"4".to_vec())), replies };
    talk.front.worked(worked, &mut talk.backend);
    talk.deliver_all(|_| 0);
    assert_eq!(work_once(&mut talk), 5);
    finish(&mut talk);
    assert_eq!(ask(&mut talk, "get n"), r"$1\r\n9\r\n");
    assert!(talk.front.is_idle_of_applications());
}

#[test]
fn who_only_reads_has_no_part_in_what_cannot_be_stored() {
    let mut talk = Talk::default();
    let lines = ["fcall counter 1 n get", "fcall counter 1 n add", "fcall_ro counter 1 n get"];
    let clients = calls_of(&mut talk, &lines);
    assert_eq!(work_once(&mut talk), 1);
    talk.front.read_due(&mut talk.backend);
    talk.deliver_all(|_| 0);
    let jobs = talk.front.take_jobs();
    talk.backend.failing.insert(b"n".to_vec(), Failure::NoSpace);
    jobs.iter().for_each(|job| talk.front.worked(count(job), &mut talk.backend));
    talk.deliver_all(|_| 0);
    talk.backend.failing.clear();
    finish(&mut talk);
    let told = clients.iter().map(|client| String::from_utf8(std::mem::take(talk.front.output(*client))).unwrap());
    let told: Vec<_> = told.collect();
    assert!(told[1].starts_with("-MISCONF"), "{told:?}");
    assert_eq!((&told[0][..], &told[2][..]), (":0\r\n", ":0\r\n"));
}

#[test]
fn an_application_is_given_so_many_objects_and_no_more() {
    let mut talk = Talk::default();
    let lines: Vec<String> = (0..100).map(|number| format!("fcall counter 1 n{number} add")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let clients = calls_of(&mut talk, &lines);
    assert_eq!(work_once(&mut talk), 64);
    assert_eq!(work_once(&mut talk), 36);
    for client in clients {
        assert_eq!(talk.front.output(client).as_slice(), b":1\r\n");
    }
    assert!(talk.front.is_idle_of_applications());
}

#[test]
fn what_was_and_what_becomes_may_be_too_large_together_and_goes_all_the_same() {
    let mut talk = Talk::default();
    let large = |bytes: usize| Some(Arc::new(vec![b'x'; bytes]));
    let becomes = |talk: &mut Talk, object: Option<Arc<Vec<u8>>>| {
        talk.send("fcall counter 1 n any\r\n");
        talk.deliver_all(|_| 0);
        let jobs = talk.front.take_jobs();
        let worked = Worked { id: jobs[0].id, object, replies: vec![ReplyTree::ok()] };
        talk.front.worked(worked, &mut talk.backend);
        finish(talk)
    };
    assert_eq!(becomes(&mut talk, large(16 << 20)), r"+OK\r\n");
    let told = becomes(&mut talk, large(4 << 20));
    assert!(told.starts_with("-APPLICATION not executed: what the object was"), "{told}");
    assert_eq!(ask(&mut talk, "strlen n"), r":16777216\r\n");
    assert_eq!(becomes(&mut talk, None), r"+OK\r\n");
    assert_eq!(ask(&mut talk, "exists n"), r":0\r\n");
}

/// A node of several that share the objects, with clients that each wait for one reply.
struct Node {
    talk: Talk,
    jobs: Vec<Job>,
    waiting: BTreeMap<usize, Asked>,
    clients: Vec<ConnectionId>,
}

struct Asked {
    adds: bool,
    /// The highest number that anybody had been told before.
    told_before: i64,
}

/// Whatever happens between reading and storing, each call that adds is told a number of its own, and each that asks one that is not
/// older than what anybody knew.
#[test]
fn calls_at_several_nodes_happen_one_after_the_other() {
    for seed in 1..=300 {
        let mut random = Random(seed * 0x9e37_79b9);
        let mut nodes: Vec<Node> = (0..3).map(|_| node()).collect();
        let mut volumes = BTreeMap::new();
        let (mut told, mut adds_told, mut adds_begun, mut plain) = (0, Vec::new(), 0, 0);
        for step in 0.. {
            let is_ending = step > 600;
            let place = random.below(nodes.len());
            let node = &mut nodes[place];
            swap(&mut volumes, &mut node.talk.backend.volumes);
            match random.below(7) {
                0 if !is_ending => {
                    let client = random.below(node.clients.len());
                    if !node.waiting.contains_key(&client) {
                        let adds = random.below(3) > 0;
                        let word = if adds { "add" } else { "get" };
                        let mut input = format!("fcall counter 1 n {word}\r\n").into_bytes();
                        node.talk.front.received(node.clients[client], &mut input, NOW_MS, &mut node.talk.backend);
                        adds_begun += usize::from(adds);
                        node.waiting.insert(client, Asked { adds, told_before: told });
                    }
                }
                1 if !is_ending && random.below(2) == 0 => {
                    // Somebody who knows nothing of applications; told at once.
                    let id = node.talk.id;
                    let mut input = b"incr n\r\n".to_vec();
                    node.talk.front.received(id, &mut input, NOW_MS, &mut node.talk.backend);
                    plain += 1;
                    if let Some((_, Answer::Outcome(Outcome::Int(number)))) = node.talk.backend.answers.last() {
                        told = *number;
                    }
                }
                2 | 3 if !node.talk.backend.answers.is_empty() => {
                    let number = random.below(node.talk.backend.answers.len());
                    node.talk.deliver(number);
                }
                4 => node.talk.front.read_due(&mut node.talk.backend),
                5 => node.jobs.extend(node.talk.front.take_jobs()),
                6 if !node.jobs.is_empty() => {
                    let job = node.jobs.swap_remove(random.below(node.jobs.len()));
                    node.talk.front.worked(count(&job), &mut node.talk.backend);
                }
                _ => {}
            }
            swap(&mut volumes, &mut node.talk.backend.volumes);
            for client in node.talk.front.take_touched() {
                let place = node.clients.iter().position(|known| *known == client).unwrap();
                let asked = node.waiting.remove(&place).unwrap();
                let output = String::from_utf8(std::mem::take(node.talk.front.output(client))).unwrap();
                let number: i64 =
                    output.trim_start_matches(':').trim_end().parse().unwrap_or_else(|_| panic!("{output}"));
                assert!(number >= asked.told_before + i64::from(asked.adds), "seed {seed}: {number} is an old number");
                if asked.adds {
                    adds_told.push(number);
                }
                told = told.max(number);
            }
            if is_ending && nodes.iter().all(|node| node.waiting.is_empty()) {
                break;
            }
            assert!(step < 100_000, "seed {seed} does not end");
        }
        assert!(nodes.iter().all(|node| node.talk.front.is_idle_of_applications()));
        let count = adds_told.len();
        adds_told.sort_unstable();
        adds_told.dedup();
        assert_eq!((adds_told.len(), count), (adds_begun, adds_begun), "seed {seed}: two were told the same number");
        let mut last = Talk::default();
        swap(&mut volumes, &mut last.backend.volumes);
        let sum = adds_begun + plain;
        assert_eq!(last.ask("get n"), format!(r"${}\r\n{sum}\r\n", sum.to_string().len()), "seed {seed}");
    }
}

fn node() -> Node {
    let mut talk = Talk::default();
    let connect = |port| talk.front.connected(format!("10.0.0.2:{port}"), "127.0.0.1:7000".into(), NOW_MS);
    let clients = (1..=4).map(connect).collect();
    Node { talk, jobs: Vec::new(), waiting: BTreeMap::new(), clients }
}

#[test]
fn a_client_that_is_gone_is_not_told() {
    let mut talk = Talk::default();
    let client = talk.front.connected("10.0.0.2:1".into(), "127.0.0.1:7000".into(), NOW_MS);
    let mut input = b"fcall counter 1 n add\r\n".to_vec();
    talk.front.received(client, &mut input, NOW_MS, &mut talk.backend);
    talk.front.disconnected(client);
    assert_eq!(ask(&mut talk, "fcall counter 1 n add"), r":2\r\n", "what it asked for is done nevertheless");
    assert!(talk.front.is_idle_of_applications());
}
