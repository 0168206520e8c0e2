//! Random commands to a Redis 7.0 and to a cluster: the replies must be equal byte for byte, but for what [`rules`] lists.
//!
//! `QUORATE_COMMANDS=100000 QUORATE_SEED=7 cargo test -p quorate --test cluster compat -- --nocapture` is a long run.

mod commands;
mod generate;
pub(crate) mod peer;
mod rules;
mod several;
mod shrink;
mod step;
mod words;

use std::collections::BTreeMap;

use generate::Generator;
use peer::{Address, Peer, Redis, Replies};
use rules::{Exchange, RULES};
use step::{After, Form, Step};

use crate::nodes::Cluster;
use crate::random::Random;

/// Namespaces 0, 1 and 2 exist in both: what clients see does not depend on how objects are replicated.
const DATABASES: u32 = 3;
const SETTINGS: [(u32, &str); 2] = [(1, "PROTOCOL chain READS apportioned VOLUMES 4"), (2, "VOLUMES 4 GROUPS own")];
/// Commands in each version of the protocol, unless `QUORATE_COMMANDS` says otherwise.
const COMMANDS: usize = 5000;
const SEED: u64 = 20_261_122;
/// Different mismatches that are looked for before the test gives up.
const MISMATCHES_MAX: usize = 10;
/// Steps on one pair of connections.
const CONNECTION_STEPS: usize = 500;

/// Replies that differ without an excuse.
pub(crate) struct Mismatch {
    /// Where, among the steps that were sent.
    place: usize,
    redis: Vec<u8>,
    quorate: Vec<u8>,
}

/// The two servers.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    redis: Address,
    quorate: Address,
}

/// A connection to each.
pub(crate) struct Session {
    redis: Peer,
    quorate: Peer,
    excused: BTreeMap<&'static str, usize>,
}

#[test]
fn replies_are_those_of_redis() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
    };
    let (count, seed) = (number("QUORATE_COMMANDS", COMMANDS as u64) as usize, number("QUORATE_SEED", SEED));
    let redis = Redis::started(DATABASES);
    let cluster = Cluster::started("compat", 3);
    for (namespace, settings) in SETTINGS {
        let mut create = redis::cmd("QUORATE");
        create.arg("NAMESPACE").arg("CREATE").arg(namespace).arg(settings.split(' ').collect::<Vec<_>>());
        create.query::<()>(&mut cluster.client(0)).expect("created");
    }
    let pair = Pair { redis: redis.address, quorate: cluster.address(0) };
    let mut told = Vec::new();
    for version in [2, 3] {
        told.extend(pair.compare(Generator::new(Random::new(seed), version), count));
    }
    assert!(told.is_empty(), "{} mismatches, QUORATE_SEED={seed} QUORATE_COMMANDS={count}", told.len());
}

#[test]
fn every_rule_is_documented_and_every_documented_rule_exists() {
    let page = include_str!("../../../../../docs/compatibility.md");
    let documented: Vec<&str> = page.lines().skip_while(|line| *line != "| replies to | are compared so |").collect();
    let documented: Vec<&str> = documented.into_iter().skip(2).take_while(|line| line.starts_with('|')).collect();
    let commands = |rule: &rules::Rule| {
        let names: Vec<_> = rule.commands.split(' ').map(|name| format!("`{}`", name.replace('|', " "))).collect();
        names.join(" ")
    };
    let rules: Vec<String> = RULES.iter().map(|rule| format!("| {} | {} |", commands(rule), rule.text)).collect();
    assert_eq!(documented, rules);
}

impl Pair {
    /// What went wrong with so many random commands, told.
    fn compare(self, mut generator: Generator, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        let mut sent: Vec<Step> = Vec::new();
        let mut excused = BTreeMap::new();
        let mut session = self.fresh();
        let mut on_connection = usize::MAX;
        let mut total = 0;
        while total < count && told.len() < MISMATCHES_MAX {
            let batch = if on_connection >= CONNECTION_STEPS && !generator.awaits_expiry() {
                session.reconnect(self, &mut excused);
                on_connection = 0;
                generator.opening()
            } else {
                generator.batch()
            };
            let exchange = session.exchange(&batch);
            total += batch.len();
            on_connection += batch.len();
            let start = sent.len();
            sent.extend(batch);
            match exchange {
                Ok(Over::Open) => {}
                Ok(Over::Closed) => on_connection = usize::MAX,
                Err(mismatch) => {
                    let mismatch = shrink::told(self, &sent[..=start + mismatch.place], &mismatch);
                    println!("{mismatch}\n");
                    told.push(mismatch);
                    sent.clear();
                    session = self.fresh();
                    on_connection = usize::MAX;
                }
            }
        }
        session.reconnect(self, &mut excused);
        println!("{total} commands, {} mismatches, replies compared by a rule: {excused:?}", told.len());
        told
    }

    /// Connections to both servers, which are empty.
    fn fresh(self) -> Session {
        let mut session = self.connect();
        for peer in [&mut session.redis, &mut session.quorate] {
            assert_eq!(peer.call(&Step::of(&["FLUSHALL"])), b"+OK\r\n");
        }
        session
    }

    fn connect(self) -> Session {
        Session { redis: Peer::connect(self.redis), quorate: Peer::connect(self.quorate), excused: BTreeMap::new() }
    }
}

/// How a batch left the connections.
enum Over {
    Open,
    Closed,
}

impl Session {
    fn reconnect(&mut self, pair: Pair, excused: &mut BTreeMap<&'static str, usize>) {
        let before = std::mem::replace(self, pair.connect());
        for (commands, count) in before.excused {
            *excused.entry(commands).or_default() += count;
        }
    }

    /// Sends the batch to both and compares what they say.
    fn exchange(&mut self, batch: &[Step]) -> Result<Over, Mismatch> {
        if let [Step { form: Form::WholeScan, words, .. }] = batch {
            return self.scan(words);
        }
        self.redis.send(batch);
        self.quorate.send(batch);
        let (redis, quorate) = (self.redis.receive(), self.quorate.receive());
        let result = self.compare(batch, &redis, &quorate);
        if batch.last().is_some_and(|step| step.after == After::Expiry) {
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        result
    }

    fn compare(&mut self, batch: &[Step], redis: &Replies, quorate: &Replies) -> Result<Over, Mismatch> {
        let none = Vec::new();
        for place in 0..redis.replies.len().max(quorate.replies.len()) {
            let (theirs, ours) = (redis.replies.get(place), quorate.replies.get(place));
            // Only the last step may have several replies or none.
            let step = place.min(batch.len() - 1);
            if theirs == ours
                || theirs.zip(ours).is_some_and(|(theirs, ours)| self.is_excused(&batch[step], theirs, ours))
            {
                continue;
            }
            let (redis, quorate) = (theirs.unwrap_or(&none).clone(), ours.unwrap_or(&none).clone());
            return Err(Mismatch { place: step, redis, quorate });
        }
        match (redis.is_closed, quorate.is_closed) {
            (true, true) => Ok(Over::Closed),
            (false, false) => Ok(Over::Open),
            (closed, _) => {
                let told = |closed| if closed { b"(closed)".to_vec() } else { b"(open)".to_vec() };
                Err(Mismatch { place: batch.len() - 1, redis: told(closed), quorate: told(!closed) })
            }
        }
    }

    fn is_excused(&mut self, step: &Step, redis: &[u8], quorate: &[u8]) -> bool {
        let Some(exchange) = Exchange::new(&step.words, redis, quorate) else { return false };
        let Some(rule) = exchange.excused() else { return false };
        *self.excused.entry(rule.commands).or_default() += 1;
        if step.after == After::EndOfBatch {
            // What the key holds may differ as well.
            let forget = Step::request(vec![b"DEL".to_vec(), step.words[1].clone()]);
            self.redis.call(&forget);
            self.quorate.call(&forget);
        }
        true
    }

    fn scan(&mut self, options: &[Vec<u8>]) -> Result<Over, Mismatch> {
        let scan = |peer: &mut Peer| -> Result<Vec<Vec<u8>>, Vec<u8>> {
            let mut cursor = "0".to_owned();
            let mut keys = Vec::new();
            loop {
                let mut words = vec![b"SCAN".to_vec(), cursor.into_bytes()];
                words.extend_from_slice(options);
                let reply = peer.call(&Step::request(words));
                let Some((next, found)) = rules::scan_reply(&reply) else { return Err(reply) };
                keys.extend(found);
                if next == "0" {
                    keys.sort_unstable();
                    keys.dedup();
                    return Ok(keys);
                }
                cursor = next;
            }
        };
        let (redis, quorate) = (scan(&mut self.redis), scan(&mut self.quorate));
        if redis == quorate {
            return Ok(Over::Open);
        }
        let told =
            |result: Result<Vec<Vec<u8>>, Vec<u8>>| result.map_or_else(|reply| reply, |keys| keys.join(&b", "[..]));
        Err(Mismatch { place: 0, redis: told(redis), quorate: told(quorate) })
    }
}
