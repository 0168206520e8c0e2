//! Changes of the quorums and the members of a namespace of registers, and how long they take.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::nodes::{Cluster, until};
use crate::random::Random;
use crate::register_load::{RegisterLoad, free_keys, rising_key};
use crate::registers::{ask, names, show, text};

/// A change of quorums or members must be over so soon, on all nodes.
const CHANGED_WITHIN: Duration = Duration::from_secs(8);
/// Enough that every volume has one of them.
const KEYS_SHOWN: usize = 700;

pub(crate) struct Changes {
    namespace: u32,
    within: Duration,
    pub(crate) longest: Duration,
    pub(crate) count: usize,
}

impl Changes {
    pub(crate) fn of(namespace: u32) -> Changes {
        Changes { namespace, within: CHANGED_WITHIN, longest: Duration::ZERO, count: 0 }
    }

    pub(crate) fn within(self, within: Duration) -> Changes {
        Changes { within, ..self }
    }

    pub(crate) fn resize(&self, cluster: &Cluster, node: usize, (read, write): (usize, usize)) {
        let line = format!("QUORATE QUORUM SET NAMESPACE {} {read} {write}", self.namespace);
        assert_eq!(ask(&mut cluster.client(node), &line), Value::Okay, "{line}");
    }

    pub(crate) fn move_to(&self, cluster: &Cluster, node: usize, key: &str, members: &[usize], quorum: &str) {
        let line = format!("QUORATE GROUP MOVE {key} MEMBERS {} QUORUM {quorum}", names(members).join(","));
        assert_eq!(ask(&mut entered(cluster, node, self.namespace), &line), Value::Okay, "{line}");
    }

    /// Returns when these nodes know of nothing but these quorums for the volumes of these keys.
    pub(crate) fn wait(
        &mut self,
        cluster: &Cluster,
        nodes: &[usize],
        keys: &[String],
        quorum: impl Fn(&str) -> String,
        sent_at: Instant,
    ) {
        for &index in nodes {
            let mut client = entered(cluster, index, self.namespace);
            let mut moving = keys.to_vec();
            until("the change is over", || {
                let shown = show(&mut client, &moving);
                let is_over = |key: &str, fields: &BTreeMap<String, Value>| {
                    !fields.contains_key("moving") && fields.get("quorum").and_then(text) == Some(quorum(key))
                };
                let mut shown = shown.iter();
                moving.retain(|key| !is_over(key, shown.next().expect("each is shown")));
                let waited = sent_at.elapsed();
                assert!(
                    moving.is_empty() || waited < self.within,
                    "after {waited:?}, n{} shows of {} of {} groups that they change, such as {:?}",
                    index + 1,
                    moving.len(),
                    keys.len(),
                    show(&mut client, &moving[..1])
                );
                moving.is_empty()
            });
        }
        self.longest = self.longest.max(sent_at.elapsed());
        self.count += 1;
    }

    /// The first of these keys that is in it, for each volume.
    pub(crate) fn one_of_each_volume(&self, cluster: &Cluster, keys: &[String]) -> Vec<String> {
        let shown = show(&mut entered(cluster, 0, self.namespace), keys);
        let mut found: BTreeMap<Option<String>, String> = BTreeMap::new();
        for (key, fields) in keys.iter().zip(shown) {
            found.entry(fields.get("volume").and_then(text)).or_insert_with(|| key.clone());
        }
        found.into_values().collect()
    }

    pub(crate) fn key_of_each_volume(&self, cluster: &Cluster) -> Vec<String> {
        until("all nodes know their groups", || {
            let shown = |index| ask(&mut entered(cluster, index, self.namespace), "QUORATE GROUP SHOW key");
            (0..cluster.node_count()).all(|index| matches!(shown(index), Value::Array(_)))
        });
        let keys: Vec<String> = (0..KEYS_SHOWN).map(rising_key).collect();
        let found = self.one_of_each_volume(cluster, &keys);
        let status = cluster.status();
        let here = status.namespaces.iter().find(|here| here.id == self.namespace).expect("the namespace is there");
        assert_eq!(found.len(), here.volumes as usize, "a key of every volume");
        found
    }
}

/// Makes a namespace of registers on all nodes, which serve it when this returns.
pub(crate) fn create_namespace(cluster: &Cluster, number: u32, settings: &str) {
    let node_count = cluster.node_count();
    let line = format!("QUORATE NAMESPACE CREATE {number} PROTOCOL register REPLICAS {node_count} {settings}");
    until("the namespace is made", || ask(&mut cluster.client(0), &line) == Value::Okay);
    for node in 0..node_count {
        let mut client = entered(cluster, node, number);
        until("the node serves the namespace", || ask(&mut client, "SET first x") == Value::Okay);
    }
}

/// A client in the namespace.
fn entered(cluster: &Cluster, node: usize, namespace: u32) -> Connection {
    let mut client = cluster.client(node);
    let select = format!("SELECT {namespace}");
    until("the node knows the namespace", || ask(&mut client, &select) == Value::Okay);
    client
}

/// A namespace under load, and its changes.
pub(crate) struct Namespace {
    pub(crate) load: RegisterLoad,
    pub(crate) changes: Changes,
    /// A key of each volume.
    pub(crate) keys: Vec<String>,
    /// Of volumes of keys that all clients write.
    pub(crate) free: Vec<String>,
}

impl Namespace {
    /// With clients at these nodes.
    pub(crate) fn start(cluster: &Cluster, changes: Changes, nodes: &[usize], random: &mut Random) -> Namespace {
        let load = RegisterLoad::start(cluster, changes.namespace, nodes, random);
        let keys = changes.key_of_each_volume(cluster);
        let free = changes.one_of_each_volume(cluster, &free_keys().collect::<Vec<_>>());
        Namespace { load, changes, keys, free }
    }

    /// Has sizes changed by one of these nodes, until all of them know of nothing else.
    pub(crate) fn resize(&mut self, cluster: &Cluster, nodes: &[usize], sizes: (usize, usize), random: &mut Random) {
        let sent_at = Instant::now();
        self.changes.resize(cluster, one_of(nodes, random), sizes);
        self.changes.wait(cluster, nodes, &self.keys, |_| threshold_of(sizes), sent_at);
    }

    /// Gives the volumes of free keys these members all at once, each at one of these nodes, until all of them know of nothing
    /// else.
    pub(crate) fn move_to(
        &mut self,
        cluster: &Cluster,
        nodes: &[usize],
        members: &[usize],
        quorum: &str,
        random: &mut Random,
    ) {
        let sent_at = Instant::now();
        for key in &self.free {
            self.changes.move_to(cluster, one_of(nodes, random), key, members, quorum);
        }
        self.changes.wait(cluster, nodes, &self.free, |_| quorum.to_owned(), sent_at);
    }

    /// Ends the load: no client was without a success for too long, and all nodes read what clients were told.
    pub(crate) fn end(mut self, cluster: &Cluster, gap_max: Duration, told: &str, random: &mut Random) {
        self.load.assert_unharmed();
        let gap = self.load.longest_gap();
        self.load.stop();
        self.load.check(cluster, 0..cluster.node_count(), random);
        println!(
            "{told}: {} changes, the longest {} ms; longest gap of a client {} ms; {} answers",
            self.changes.count,
            self.changes.longest.as_millis(),
            gap.as_millis(),
            self.load.answered()
        );
        assert!(gap < gap_max, "a client had no success for {gap:?}");
    }
}

pub(crate) fn threshold_of((read, write): (usize, usize)) -> String {
    format!("threshold {read} {write}")
}

fn one_of(nodes: &[usize], random: &mut Random) -> usize {
    nodes[random.below(nodes.len() as u64) as usize]
}
