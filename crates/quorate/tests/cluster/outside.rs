//! Own groups with members that have no replica of the volume, through the public interface.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redis::{Connection, RedisResult, Value};

use crate::nodes::{Cluster, connect, until};
use crate::own::{group, group_all, groups_at, is_refused, shown};
use crate::random::Random;

const NODES: usize = 5;
const NAMESPACE: &str = "5";
const KEYS: usize = 50;

/// Kinds of groups by their prefix, and whose keys' members they have.
struct Kinds(Vec<(&'static str, Vec<usize>)>);

impl Kinds {
    fn names(prefix: &str) -> Vec<String> {
        (0..KEYS).map(|number| format!("{prefix}:{number}")).collect()
    }

    fn all(&self) -> Vec<String> {
        self.0.iter().flat_map(|(prefix, _)| Kinds::names(prefix)).collect()
    }

    /// Those that go on without any one node.
    fn tolerant(&self) -> Vec<String> {
        let kinds = self.0.iter().filter(|(_, members)| members.len() > 2);
        kinds.flat_map(|(prefix, _)| Kinds::names(prefix)).collect()
    }
}

fn try_client(address: (&str, u16)) -> RedisResult<Connection> {
    let mut client = connect(address)?;
    redis::cmd("SELECT").arg(NAMESPACE).exec(&mut client)?;
    Ok(client)
}

/// A client of the namespace.
fn client(cluster: &Cluster, index: usize) -> Connection {
    let mut client = None;
    until("the node knows the namespace", || {
        client = try_client(cluster.address(index)).ok();
        client.is_some()
    });
    client.expect("there is one")
}

fn listed(nodes: &[usize]) -> String {
    nodes.iter().map(|node| format!("n{}", node + 1)).collect::<Vec<_>>().join(",")
}

/// The nodes with a replica of the namespace's only volume, and the others.
fn nodes_of_volume(client: &mut Connection) -> (Vec<usize>, Vec<usize>) {
    redis::cmd("SET").arg(&["probe", "0"]).exec(client).expect("stored");
    let told = shown(client, "probe", "members");
    (0..NODES).partition(|node| told.contains(&format!("n{}", node + 1)))
}

fn values(client: &mut Connection, names: &[String]) -> Vec<i64> {
    let mut values = Vec::new();
    until("all answer", || redis::cmd("MGET").arg(names).query(client).map(|found| values = found).is_ok());
    values
}

fn own_groups(cluster: &Cluster) -> Vec<u64> {
    cluster.status().nodes.iter().map(|node| groups_at(node).unwrap_or(u64::MAX)).collect()
}

#[test]
fn groups_on_nodes_without_their_volume_keep_what_they_acknowledge() {
    let mut random = Random::announced();
    let mut cluster = Cluster::started("outside", NODES);
    let create = ["NAMESPACE", "CREATE", NAMESPACE, "REPLICAS", "3", "VOLUMES", "1"];
    redis::cmd("QUORATE").arg(&create).exec(&mut cluster.client(0)).expect("created");
    let mut first = client(&cluster, 0);
    let (inside, outside) = nodes_of_volume(&mut first);
    assert_eq!((inside.len(), outside.len()), (3, 2));
    let (a, b, d, e) = (inside[0], inside[1], outside[0], outside[1]);
    let kinds = Kinds(vec![
        ("lone", vec![d]),
        ("apart", vec![e, d]),
        ("mixed", vec![d, a, e]),
        ("first-inside", vec![b, e, d]),
        ("everywhere", vec![e, a, inside[2], d, b]),
    ]);
    let refused = group(&mut first, &["CREATE", "chain", "PROTOCOL", "chain", "MEMBERS", &listed(&outside)]);
    assert!(is_refused(&refused, "of a chain or a register must be among those"), "{refused:?}");
    make(&cluster, &kinds);
    let expected = |node: &usize| kinds.0.iter().filter(|(_, members)| members.contains(node)).count() * KEYS;
    until("every member is born", || {
        own_groups(&cluster) == (0..NODES).map(|n| expected(&n) as u64).collect::<Vec<_>>()
    });
    let names = kinds.all();
    let mut counts = vec![1_i64; names.len()];
    for node in 0..NODES {
        let mut client = client(&cluster, node);
        let mut pipeline = redis::pipe();
        names.iter().for_each(|name| {
            pipeline.cmd("INCR").arg(name);
        });
        let counted: Vec<i64> = pipeline.query(&mut client).expect("counted");
        counts.iter_mut().for_each(|count| *count += 1);
        assert_eq!(counted, counts);
    }

    let ledger = load(&mut cluster, &kinds.tolerant(), [d, a, e], &mut random);
    let found = values(&mut client(&cluster, b), &names);
    for ((name, before), found) in names.iter().zip(counts).zip(&found) {
        let (told, unknown) = ledger.get(name).copied().unwrap_or_default();
        let range = before + told..=before + told + unknown;
        assert!(range.contains(found), "{name} is {found}, and should be in {range:?}");
    }
    // All nodes at once, also those of which no other member knows what they have.
    (0..NODES).for_each(|node| cluster.kill(node));
    cluster.start_all_by_hand();
    assert_eq!(values(&mut client(&cluster, d), &names), found);

    end_some(&cluster, &kinds, &found);
    let drop_it = ["NAMESPACE", "DROP", NAMESPACE];
    redis::cmd("QUORATE").arg(&drop_it).exec(&mut cluster.client(d)).expect("dropped");
    until("no replica is left", || own_groups(&cluster) == vec![0; NODES]);
    cluster.kill(e);
    cluster.start_by_hand(e);
    until("none comes back", || own_groups(&cluster) == vec![0; NODES]);
    cluster.stop_all();
}

/// Each holds a one; some are made with it, the others are promoted.
fn make(cluster: &Cluster, kinds: &Kinds) {
    for (number, (prefix, members)) in kinds.0.iter().enumerate() {
        let (members, names) = (listed(members), Kinds::names(prefix));
        let mut client = client(cluster, number % NODES);
        if number % 2 == 0 {
            group_all(&mut client, "CREATE", &names, &["MEMBERS", &members, "VALUE", "1"]);
        } else {
            let mut pipeline = redis::pipe();
            names.iter().for_each(|name| {
                pipeline.cmd("SET").arg(&[name, "1"]);
            });
            pipeline.exec(&mut client).expect("stored");
            group_all(&mut client, "PROMOTE", &names, &["MEMBERS", &members]);
        }
        assert_eq!(shown(&mut client, &names[0], "kind"), "own");
    }
}

/// What was acknowledged of each counter, and what may have been counted beside that.
type Ledger = BTreeMap<String, (i64, i64)>;

/// Counts while these nodes are killed and started again, one after the other.
fn load(cluster: &mut Cluster, names: &[String], victims: [usize; 3], random: &mut Random) -> Ledger {
    let (ledger, is_over) = (Mutex::new(Ledger::new()), AtomicBool::new(false));
    let addresses: Vec<_> = (0..NODES).map(|index| cluster.address(index)).collect();
    thread::scope(|scope| {
        for address in &addresses {
            let mut random = random.fork();
            let (ledger, is_over) = (&ledger, &is_over);
            scope.spawn(move || {
                let mut client = None;
                while !is_over.load(Ordering::Relaxed) {
                    let Some(connection) = &mut client else {
                        client = try_client(*address).ok();
                        thread::sleep(Duration::from_millis(20));
                        continue;
                    };
                    let name = &names[random.below(names.len() as u64) as usize];
                    let counted: RedisResult<i64> = redis::cmd("INCR").arg(name).query(connection);
                    let mut ledger = ledger.lock().expect("nobody panicked with it");
                    let (told, unknown) = ledger.entry(name.clone()).or_default();
                    match counted {
                        Ok(_) => *told += 1,
                        Err(error) => {
                            let is_known = error.code().is_some_and(|code| code == "NOQUORUM" || code == "TRYAGAIN");
                            *unknown += i64::from(!is_known);
                            if error.code().is_none() {
                                client = None;
                            }
                        }
                    }
                }
            });
        }
        for victim in victims {
            thread::sleep(Duration::from_millis(1_500));
            cluster.kill(victim);
            thread::sleep(Duration::from_millis(2_500));
            cluster.start_by_hand(victim);
        }
        thread::sleep(Duration::from_millis(1_500));
        is_over.store(true, Ordering::Relaxed);
    });
    let ledger = ledger.into_inner().expect("nobody panicked with it");
    let told: i64 = ledger.values().map(|(told, _)| told).sum();
    assert!(told > 200, "{told} were acknowledged");
    println!("{told} acknowledged while nodes were killed");
    ledger
}

/// Some are deleted and made anew elsewhere, the others are put back into their volume.
fn end_some(cluster: &Cluster, kinds: &Kinds, found: &[i64]) {
    let names = kinds.all();
    let (mut client, mut other) = (client(cluster, 0), client(cluster, NODES - 1));
    for (prefix, members) in &kinds.0 {
        let ended = &Kinds::names(prefix)[..KEYS / 2];
        let deleted: usize = redis::cmd("DEL").arg(ended).query(&mut client).expect("deleted");
        assert_eq!(deleted, ended.len());
        let turned: Vec<usize> = members.iter().rev().copied().collect();
        group_all(&mut other, "CREATE", ended, &["MEMBERS", &listed(&turned), "VALUE", "7"]);
        assert_eq!(values(&mut client, ended), vec![7; ended.len()]);
    }
    let expected = names.iter().zip(found).map(|(name, found)| {
        let number: usize = name.rsplit(':').next().and_then(|number| number.parse().ok()).expect("a number");
        if number < KEYS / 2 { 7 } else { *found }
    });
    let expected: Vec<i64> = expected.collect();
    group_all(&mut client, "DEMOTE", &names, &[]);
    for name in &names {
        until("it is back", || shown(&mut other, name, "kind") == "volume");
    }
    assert_eq!(values(&mut client, &names), expected);
    until("no member is left", || own_groups(cluster) == vec![0; NODES]);
    // And away once more, for whoever drops the namespace.
    group_all(&mut client, "PROMOTE", &names[..KEYS], &["MEMBERS", &listed(&kinds.0[2].1)]);
    until("all are there", || own_groups(cluster).iter().sum::<u64>() == 3 * KEYS as u64);
    let _: Value = redis::cmd("INCR").arg(&names[0]).query(&mut client).expect("counted");
}

#[test]
fn a_member_that_has_lost_its_memory_is_not_born_again() {
    let mut cluster = Cluster::started("outside-memory", 4);
    let create = ["NAMESPACE", "CREATE", NAMESPACE, "REPLICAS", "3", "VOLUMES", "1", "DURABILITY", "memory"];
    redis::cmd("QUORATE").arg(&create).exec(&mut cluster.client(0)).expect("created");
    let mut first = client(&cluster, 0);
    redis::cmd("SET").arg(&["probe", "0"]).exec(&mut first).expect("stored");
    let told = shown(&mut first, "probe", "members");
    let (inside, outside): (Vec<usize>, Vec<usize>) = (0..4).partition(|node| told.contains(&format!("n{}", node + 1)));
    let (a, b, d) = (inside[0], inside[1], outside[0]);
    group(&mut first, &["CREATE", "lone", "MEMBERS", &listed(&[d]), "VALUE", "1"]).expect("created");
    group(&mut first, &["CREATE", "three", "MEMBERS", &listed(&[d, a, b]), "VALUE", "1"]).expect("created");
    let incr = |client: &mut Connection, key: &str| redis::cmd("INCR").arg(key).query::<i64>(client);
    assert_eq!((incr(&mut first, "lone"), incr(&mut first, "three")), (Ok(2), Ok(2)));
    cluster.kill(d);
    cluster.start_by_hand(d);
    let mut client = client(&cluster, a);
    until("the others go on", || incr(&mut client, "three").is_ok());
    for _ in 0..3 {
        let answer = redis::cmd("GET").arg("lone").query::<Option<i64>>(&mut client);
        assert!(answer.is_err(), "nobody has it any more, and yet it is {answer:?}");
    }
    cluster.stop_all();
}
