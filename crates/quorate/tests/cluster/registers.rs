//! Registers: nodes are killed and stand still, quorums and members change, and no client at another node is told of an
//! error or waits for long.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::nodes::{Cluster, until};
use crate::random::Random;
use crate::register_changes::{Changes, Namespace, create_namespace};
use crate::register_load::{Client, End, RegisterLoad, free_keys};

/// How long clients are watched, with all nodes and without some.
pub(crate) const WATCHED: Duration = Duration::from_millis(1_500);
/// What all volumes need for their first answers.
const WARMED_AFTER: Duration = Duration::from_millis(500);
/// No client at a live node may be without a success for so long.
const GAP_MAX: Duration = Duration::from_secs(1);
/// How long clients go on between two changes.
pub(crate) const BETWEEN_CHANGES: Duration = Duration::from_millis(300);
/// The same where there are far more nodes than processors.
pub(crate) const MANY_CHANGED_WITHIN: Duration = Duration::from_secs(50);
pub(crate) const MANY_GAP_MAX: Duration = Duration::from_secs(5);
/// How often volumes are moved.
const MOVES: usize = 8;
/// How often something changes while a node goes.
const ROUNDS: usize = 4;
/// The server's deadline for a command, and what a busy machine adds.
const DEADLINE: Duration = Duration::from_secs(5);
const BUSY: Duration = Duration::from_secs(4);
/// How often all keys are read at a node just after it went on.
const READS_AFTER: usize = 20;
/// Questions that a node finds when it goes on.
const ASKERS: usize = 4;

const NODES: usize = 4;
pub(crate) const SQUARE_COLUMNS: [[usize; 2]; 2] = [[0, 2], [1, 3]];

/// A cluster whose namespace 0 is of registers on all nodes.
fn started(name: &str, node_count: usize, quorum: &str) -> Cluster {
    let mut cluster = Cluster::new(name, node_count);
    let mut command = cluster.up_command();
    command.args(["--protocol", "register", "--quorum", quorum]);
    cluster.up_as(command);
    cluster
}

pub(crate) fn others(node_count: usize, without: &[usize]) -> Vec<usize> {
    (0..node_count).filter(|index| !without.contains(index)).collect()
}

/// The longest gap of a client while it is watched, in a cluster that has just begun.
pub(crate) fn watched(load: &RegisterLoad) -> Duration {
    thread::sleep(WARMED_AFTER);
    load.watch();
    thread::sleep(WATCHED);
    load.assert_unharmed();
    load.longest_gap()
}

pub(crate) fn not_done(ends: &[End]) -> usize {
    ends.iter().filter(|end| **end != End::Done).count()
}

pub(crate) fn names(nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|index| format!("n{}", index + 1)).collect()
}

/// Kills nodes that are not missed, and lets them come back.
fn kill_and_restart(cluster: &mut Cluster, namespace: u32, victims: &[usize], random: &mut Random) -> RegisterLoad {
    let (count, live) = (cluster.node_count(), others(cluster.node_count(), victims));
    let mut load = RegisterLoad::start(cluster, namespace, &live, random);
    load.join_wary(cluster, victims, random);
    let quiet = watched(&load);
    load.watch();
    victims.iter().for_each(|&index| cluster.kill(index));
    thread::sleep(WATCHED);
    load.assert_unharmed();
    let without = load.longest_gap();
    load.watch();
    victims.iter().for_each(|&index| cluster.start_by_hand(index));
    for &index in victims {
        load.read_all(cluster, index, random);
    }
    load.join(cluster, victims, random);
    thread::sleep(Duration::from_secs(1));
    let back = load.longest_gap();
    load.stop();
    load.check(cluster, 0..count, random);
    println!(
        "killed {}: longest gap of a client {} ms, {} ms before, {} ms while they come back; {} answers",
        names(victims).join(" "),
        without.as_millis(),
        quiet.as_millis(),
        back.as_millis(),
        load.answered()
    );
    assert!(without < GAP_MAX, "a client had no success for {without:?}, and for {quiet:?} before");
    load
}

#[test]
fn a_grid_does_not_miss_a_node_that_is_killed() {
    let mut random = Random::announced();
    let mut cluster = started("register-kill", NODES, "grid");
    assert!(cluster.status().namespaces.iter().all(|namespace| namespace.protocol == "register"));
    let victim = random.below(NODES as u64) as usize;
    let load = kill_and_restart(&mut cluster, 0, &[victim], &mut random);
    cluster.stop_all();
    cluster.up();
    load.check(&cluster, 0..NODES, &mut random);
    cluster.stop_all();
}

#[test]
fn a_member_of_a_grid_that_stood_still_is_not_missed_and_answers_nothing_old() {
    let mut random = Random::announced();
    let cluster = started("register-pause", NODES, "grid");
    let victim = random.below(NODES as u64) as usize;
    let mut load = RegisterLoad::start(&cluster, 0, &others(NODES, &[victim]), &mut random);
    load.join_wary(&cluster, &[victim], &mut random);
    let quiet = watched(&load);
    let mut askers: Vec<_> = (0..ASKERS).map(|_| load.asker(&cluster, victim, &mut random)).collect();
    load.watch();
    cluster.freeze(victim);
    thread::sleep(WATCHED);
    load.assert_unharmed();
    let without = load.longest_gap();
    for asker in &mut askers {
        asker.look_at_all();
        asker.set_free(0);
        asker.send().expect("a socket takes so much from who does not read");
    }
    // The questions are old when the node goes on: others write meanwhile.
    thread::sleep(Duration::from_millis(200));
    load.watch();
    cluster.signal(victim, libc::SIGCONT);
    let mut refused = 0;
    for asker in &mut askers {
        refused += not_done(&asker.receive().expect("the node keeps its clients"));
    }
    for _ in 0..READS_AFTER {
        askers[0].look_at_all();
        refused += not_done(&askers[0].send().and_then(|()| askers[0].receive()).expect("the node keeps its clients"));
    }
    load.read_all(&cluster, victim, &mut random);
    load.join(&cluster, &[victim], &mut random);
    thread::sleep(Duration::from_secs(1));
    let back = load.longest_gap();
    load.stop();
    load.check(&cluster, 0..NODES, &mut random);
    println!(
        "n{} stood still: longest gap of a client {} ms, {} ms before, {} ms when it went on; it refused {refused} commands; {} answers",
        victim + 1,
        without.as_millis(),
        quiet.as_millis(),
        back.as_millis(),
        load.answered()
    );
    assert!(without < GAP_MAX, "a client had no success for {without:?}, and for {quiet:?} before");
}

/// Of squares.
const NAMESPACE: u32 = 1;
const SQUARE_VOLUMES: usize = 4;

/// A square of so many rows, of which as many nodes are killed as it survives whichever they are.
fn a_square_does_not_miss_those_that_are_killed(name: &str, side: usize) {
    let (node_count, tolerated) = (side * side, side - 1);
    let mut random = Random::announced();
    let mut cluster = Cluster::started(name, node_count);
    create_namespace(
        &cluster,
        NAMESPACE,
        &format!("VOLUMES {SQUARE_VOLUMES} QUORUM grid {side}x{side} TOLERANCE {tolerated}"),
    );
    let mut victims: Vec<usize> = (0..node_count).collect();
    random.shuffle(&mut victims);
    victims.truncate(tolerated);
    kill_and_restart(&mut cluster, NAMESPACE, &victims, &mut random);
    cluster.stop_all();
}

#[test]
fn nine_nodes_in_a_grid_do_not_miss_two_that_are_killed() {
    a_square_does_not_miss_those_that_are_killed("register-nine", 3);
}

#[test]
#[ignore = "many processes: cargo xtask long registers"]
fn sixteen_nodes_in_a_grid_do_not_miss_three_that_are_killed() {
    a_square_does_not_miss_those_that_are_killed("register-sixteen", 4);
}

#[test]
#[ignore = "many processes: cargo xtask long registers"]
fn twenty_five_nodes_in_a_grid_do_not_miss_four_that_are_killed() {
    a_square_does_not_miss_those_that_are_killed("register-twenty-five", 5);
}

/// Members of a square of so many rows, and sizes of as many members, change under load, with far more nodes than processors.
fn many_change_and_no_client_takes_notice(name: &str, side: usize) {
    let node_count = side * side;
    let mut random = Random::announced();
    let mut cluster = Cluster::started(name, node_count);
    let all = others(node_count, &[]);
    let grid = format!("grid {side}x{side}");
    create_namespace(&cluster, NAMESPACE, &format!("VOLUMES {SQUARE_VOLUMES} QUORUM {grid}"));
    let changes = || Changes::of(NAMESPACE).within(MANY_CHANGED_WITHIN);
    let mut namespace = Namespace::start(&cluster, changes(), &all, &mut random);
    namespace.load.watch();
    let smaller = side - 1;
    for _ in 0..ROUNDS {
        let mut members = all.clone();
        random.shuffle(&mut members);
        let some = [
            (node_count - 1, "majority".to_owned()),
            (smaller * smaller, format!("grid {smaller}x{smaller}")),
            (node_count, grid.clone()),
        ];
        for (count, quorum) in some {
            namespace.move_to(&cluster, &all, &members[..count], &quorum, &mut random);
            thread::sleep(BETWEEN_CHANGES);
            namespace.load.assert_unharmed();
        }
    }
    namespace.end(&cluster, MANY_GAP_MAX, &grid, &mut random);
    let drop = format!("QUORATE NAMESPACE DROP {NAMESPACE}");
    assert_eq!(ask(&mut cluster.client(0), &drop), Value::Okay);
    create_namespace(&cluster, NAMESPACE, &format!("VOLUMES {SQUARE_VOLUMES} QUORUM majority"));
    let mut namespace = Namespace::start(&cluster, changes(), &all, &mut random);
    namespace.load.watch();
    let half = node_count / 2 + 1;
    let sizes = [(1, node_count), (half, half), (node_count, 1), (side, node_count + 1 - side), (half, half)];
    for sizes in sizes {
        namespace.resize(&cluster, &all, sizes, &mut random);
        thread::sleep(BETWEEN_CHANGES);
        namespace.load.assert_unharmed();
    }
    namespace.end(&cluster, MANY_GAP_MAX, &format!("thresholds of {node_count}"), &mut random);
    cluster.stop_all();
}

#[test]
#[ignore = "many processes: cargo xtask long registers"]
fn sixteen_nodes_in_a_grid_change_and_no_client_takes_notice() {
    many_change_and_no_client_takes_notice("register-change-sixteen", 4);
}

#[test]
#[ignore = "many processes: cargo xtask long registers"]
fn twenty_five_nodes_in_a_grid_change_and_no_client_takes_notice() {
    many_change_and_no_client_takes_notice("register-change-twenty-five", 5);
}

#[test]
fn quorums_and_members_change_and_no_client_takes_notice() {
    let mut random = Random::announced();
    let mut cluster = started("register-change", NODES, "majority");
    let all = others(NODES, &[]);
    let mut load = RegisterLoad::start(&cluster, 0, &all, &mut random);
    let mut changes = Changes::of(0);
    let keys = changes.key_of_each_volume(&cluster);
    let quiet = watched(&load);
    load.watch();
    for (read, write) in [(1, 4), (4, 1), (2, 3), (3, 2), (1, 4), (3, 3)] {
        let node = random.below(NODES as u64) as usize;
        let sent_at = Instant::now();
        changes.resize(&cluster, node, (read, write));
        changes.wait(&cluster, &all, &keys, |_| format!("threshold {read} {write}"), sent_at);
        thread::sleep(BETWEEN_CHANGES);
        load.assert_unharmed();
    }
    let resized = load.longest_gap();
    let (resized_longest, resized_count) = (std::mem::take(&mut changes.longest), std::mem::take(&mut changes.count));
    load.watch();
    // Volumes of keys that all clients write.
    let moved = changes.one_of_each_volume(&cluster, &free_keys().collect::<Vec<_>>());
    for round in 1..=MOVES {
        let sent_at = Instant::now();
        let mut quorums = BTreeMap::new();
        for key in &moved {
            let mut members = all.clone();
            random.shuffle(&mut members);
            // The last time, all are where they were at first.
            if round < MOVES {
                members.truncate(1 + random.below(NODES as u64) as usize);
            }
            let (node, count) = (random.below(NODES as u64) as usize, members.len());
            let quorum = match random.below(3) {
                0 if count == NODES => "grid 2x2".to_owned(),
                1 => format!("threshold 1 {count}"),
                _ => "majority".to_owned(),
            };
            changes.move_to(&cluster, node, key, &members, &quorum);
            quorums.insert(key.clone(), quorum);
        }
        changes.wait(&cluster, &all, &moved, |key| quorums[key].clone(), sent_at);
        thread::sleep(BETWEEN_CHANGES);
        load.assert_unharmed();
    }
    println!(
        "{resized_count} changes of sizes of {} volumes, the longest {} ms; {} moves of {} volumes, the longest {} ms; \
         longest gap of a client {} ms and {} ms, {} ms before; {} answers",
        keys.len(),
        resized_longest.as_millis(),
        changes.count,
        moved.len(),
        changes.longest.as_millis(),
        resized.as_millis(),
        load.longest_gap().as_millis(),
        quiet.as_millis(),
        load.answered()
    );
    load.stop();
    load.check(&cluster, 0..NODES, &mut random);
    cluster.stop_all();
    cluster.up();
    load.check(&cluster, 0..NODES, &mut random);
    cluster.stop_all();
}

/// All members of the groups take clients: a write that another node sends to one that dies has an unknown outcome.
#[test]
fn quorums_and_members_change_while_a_node_is_killed_or_stands_still() {
    let mut random = Random::announced();
    let mut cluster = started("register-change-kill", NODES, "majority");
    let (all, victim) = (others(NODES, &[]), random.below(NODES as u64) as usize);
    let live = others(NODES, &[victim]);
    let mut load = RegisterLoad::start(&cluster, 0, &live, &mut random);
    let mut changes = Changes::of(0);
    let keys = changes.key_of_each_volume(&cluster);
    let moved = changes.one_of_each_volume(&cluster, &free_keys().collect::<Vec<_>>());
    let quiet = watched(&load);
    let (mut is_in, mut stops) = (true, random.below(2) == 0);
    load.watch();
    for round in 0..ROUNDS {
        let node = live[random.below(live.len() as u64) as usize];
        let sent_at = Instant::now();
        let (changed, quorum) = if round % 2 == 0 {
            is_in = !is_in;
            let mut members = if is_in { all.clone() } else { live.clone() };
            for key in &moved {
                random.shuffle(&mut members);
                changes.move_to(&cluster, node, key, &members, "majority");
            }
            (&moved, "majority".to_owned())
        } else {
            // The groups of three are without the node that goes.
            let (read, write) = if is_in { (3, 2) } else { (2, 3) };
            changes.resize(&cluster, node, (read, write));
            (&keys, format!("threshold {read} {write}"))
        };
        thread::sleep(Duration::from_millis(random.below(60)));
        if stops {
            cluster.freeze(victim);
        } else {
            cluster.kill(victim);
        }
        changes.wait(&cluster, &live, changed, |_| quorum.clone(), sent_at);
        thread::sleep(BETWEEN_CHANGES);
        load.assert_unharmed();
        let back_at = Instant::now();
        if stops {
            cluster.signal(victim, libc::SIGCONT);
        } else {
            cluster.start_by_hand(victim);
        }
        load.read_all(&cluster, victim, &mut random);
        Changes::of(0).wait(&cluster, &all, changed, |_| quorum.clone(), back_at);
        stops = !stops;
    }
    println!(
        "{} changes while n{} was killed or stood still, the longest {} ms; longest gap of a client {} ms, {} ms before; \
         {} answers",
        changes.count,
        victim + 1,
        changes.longest.as_millis(),
        load.longest_gap().as_millis(),
        quiet.as_millis(),
        load.answered()
    );
    load.stop();
    load.check(&cluster, all.into_iter(), &mut random);
}

/// What `QUORATE GROUP SHOW` tells of each key.
pub(crate) fn show(client: &mut Connection, keys: &[String]) -> Vec<BTreeMap<String, Value>> {
    if keys.is_empty() {
        return Vec::new();
    }
    let line = format!("QUORATE GROUP SHOW KEYS {} {}", keys.len(), keys.join(" "));
    let shown = match ask(client, &line) {
        Value::Array(shown) => shown,
        other => panic!("asked about {} keys: {other:?}", keys.len()),
    };
    let fields = |shown: Value| {
        let Value::Array(words) = shown else { panic!("a group is shown as {shown:?}") };
        words.chunks(2).map(|pair| (text(&pair[0]).expect("a name"), pair[1].clone())).collect()
    };
    shown.into_iter().map(fields).collect()
}

pub(crate) fn text(value: &Value) -> Option<String> {
    redis::from_redis_value(value.clone()).ok()
}

#[test]
fn without_a_whole_column_writes_are_refused_in_time_and_go_on_afterwards() {
    let mut random = Random::announced();
    let mut cluster = started("register-lost", NODES, "grid 2x2");
    let victims = SQUARE_COLUMNS.map(|column| column[random.below(2) as usize]);
    let live = others(NODES, &victims);
    let mut load = RegisterLoad::start(&cluster, 0, &others(NODES, &[]), &mut random);
    thread::sleep(Duration::from_secs(1));
    load.stop();
    victims.iter().for_each(|&index| cluster.kill(index));
    let at = [&live[..], &live[..]].concat();
    let mut askers: Vec<Client> = at.iter().map(|&at| load.asker(&cluster, at, &mut random)).collect();
    // A member of each column is there, which is enough for reads.
    let first = answers_in_time(&mut askers, |_, asker| asker.look_at_all());
    // At first a node hopes for the others.
    let (mut unknown, mut rounds) = (0, 0);
    until("all writes are refused at once", || {
        let ends = answers_in_time(&mut askers, |number, asker| {
            asker.set_free(number as u16);
            asker.set_free(number as u16 + 1);
        });
        let is_right = |end: &End| [End::NoQuorum, End::Unknown].contains(end);
        assert!(ends.iter().all(is_right), "writes without a column ended as {ends:?}");
        unknown += ends.iter().filter(|end| **end == End::Unknown).count();
        rounds += 1;
        ends.iter().all(|end| *end == End::NoQuorum)
    });
    let last = answers_in_time(&mut askers, |_, asker| asker.look_at_all());
    println!(
        "without {}: {unknown} writes of unknown fate, none in round {rounds}; of {} reads {} were refused at first and {} \
         at last",
        names(&victims).join(" "),
        first.len(),
        not_done(&first),
        not_done(&last),
    );
    victims.iter().for_each(|&index| cluster.start_by_hand(index));
    for index in 0..NODES {
        load.read_all(&cluster, index, &mut random);
        let mut asker = load.asker(&cluster, index, &mut random);
        until("the node takes writes", || {
            asker.set_free(0);
            let ends = asker.send().and_then(|()| asker.receive());
            ends.expect("the node keeps its clients") == [End::Done]
        });
    }
    load.join(&cluster, &others(NODES, &[]), &mut random);
    thread::sleep(Duration::from_secs(1));
    load.stop();
    load.check(&cluster, 0..NODES, &mut random);
    cluster.stop_all();
}

/// What all of them are told, which must be soon.
pub(crate) fn answers_in_time(askers: &mut [Client], mut choose: impl FnMut(usize, &mut Client)) -> Vec<End> {
    let sent_at = Instant::now();
    for (number, asker) in askers.iter_mut().enumerate() {
        choose(number, asker);
        asker.send().expect("the node is there");
    }
    let mut ends = Vec::new();
    for asker in askers {
        ends.extend(asker.receive().expect("the node keeps its clients"));
    }
    let waited = sent_at.elapsed();
    assert!(waited < DEADLINE + BUSY, "a command was answered after {waited:?}");
    ends
}

pub(crate) fn ask(client: &mut Connection, line: &str) -> Value {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().expect("a command has words"));
    words.for_each(|word| {
        command.arg(word);
    });
    let sent = client.send_packed_command(&command.get_packed_command());
    sent.and_then(|()| client.recv_response()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn a_benchmark_tells_how_long_changes_take_and_clients_wait() {
    let mut cluster = Cluster::started("register-bench", 3);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quorate"));
    let port = cluster.address(1).1.to_string();
    command.args(["bench", "changes", "--port", &port, "--connections", "6", "--keys", "100"]);
    let output = command.args(["--seconds", "1", "--pairs", "1", "--json"]).output().expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let changed: Vec<&str> = rows.iter().filter_map(|row| row["changed"].as_str()).collect();
    assert_eq!(changed, ["sizes", "members"]);
    for row in &rows {
        assert!(row["changes_under_load"].as_u64().is_some_and(|count| count > 0), "{row}");
        for figure in ["idle_ms", "loaded_ms", "latency_p99_ms", "quiet_gap_ms", "changing_gap_ms"] {
            assert!(row[figure]["median"].as_f64().is_some_and(|ms| ms > 0.0), "{figure}: {row}");
        }
    }
    assert_eq!(cluster.status().namespaces.len(), 1, "its namespaces are dropped");
    cluster.down();
}
