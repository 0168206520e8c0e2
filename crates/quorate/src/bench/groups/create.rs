//! Making groups: batches of names, several at once, over all nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_resp::Value;
use serde::Serialize;

use super::super::cluster::{Cluster, Node};
use super::super::load;
use crate::client::Client;
use crate::failure::Failure;
use crate::keys;

/// How often, and after which pause, names that were not answered for are asked for again.
const AGAIN_MAX: usize = 20;
const AGAIN_AFTER: Duration = Duration::from_millis(500);

pub(super) struct Order<'a> {
    pub(super) namespace: u32,
    pub(super) groups: u64,
    pub(super) batch: u32,
    pub(super) batches_at_once: u32,
    pub(super) size: u32,
    /// The only member; else the groups have those of their volumes.
    pub(super) member: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct Created {
    pub(super) batch: u32,
    pub(super) batches_at_once: u32,
    pub(super) seconds: f64,
    pub(super) groups_per_s: f64,
    /// Summed over the server processes; absent if they are not known.
    pub(super) cpu_us_per_group: Option<f64>,
    /// The median and the longest time that a batch took.
    pub(super) batch_p50_ms: f64,
    pub(super) batch_max_ms: f64,
}

impl Order<'_> {
    pub(super) fn carry_out(&self, cluster: &Cluster) -> Result<Created, Failure> {
        let next = AtomicU64::new(0);
        let (began, cpu_before) = (Instant::now(), cluster.processes.cpu_us());
        let threads = (0..self.batches_at_once as usize).zip(cluster.nodes.iter().cycle());
        let times = thread::scope(|scope| {
            let threads: Vec<_> = threads.map(|(_, node)| scope.spawn(|| self.create_some(node, &next))).collect();
            let join =
                |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("a creating thread does not panic");
            threads.into_iter().map(join).collect::<Result<Vec<Vec<f64>>, Failure>>()
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu_us = cluster.processes.cpu_us().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
        let mut times = times.concat();
        times.sort_by(f64::total_cmp);
        Ok(Created {
            batch: self.batch,
            batches_at_once: self.batches_at_once,
            seconds,
            groups_per_s: self.groups as f64 / seconds,
            cpu_us_per_group: cpu_us.map(|us| us as f64 / self.groups as f64),
            batch_p50_ms: times.get(times.len() / 2).copied().unwrap_or_default(),
            batch_max_ms: times.last().copied().unwrap_or_default(),
        })
    }

    /// Creates batches until none is left: how long each took, in milliseconds.
    fn create_some(&self, node: &Node, next: &AtomicU64) -> Result<Vec<f64>, Failure> {
        let mut client = Client::connect_to_namespace(&node.endpoint, self.namespace)?;
        let (mut times, tail) = (Vec::new(), self.tail());
        loop {
            let first = next.fetch_add(u64::from(self.batch), Ordering::Relaxed);
            if first >= self.groups {
                return Ok(times);
            }
            let names: Vec<String> = (first..self.groups.min(first + u64::from(self.batch))).map(load::key).collect();
            let began = Instant::now();
            self.create(&mut client, &names, &tail)?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }

    /// Creates groups of these names. Those that were refused for the moment are asked for again, and so are those of which
    /// nobody knew in time whether they were made: they may be there by then.
    fn create(&self, client: &mut Client, names: &[String], tail: &[String]) -> Result<(), Failure> {
        let mut answers = keys::ask_for(client, &["GROUP", "CREATE"], names, tail)?;
        for _ in 0..AGAIN_MAX {
            let passing: Vec<usize> = (0..names.len()).filter(|&at| is_passing(&answers[at])).collect();
            if passing.is_empty() {
                break;
            }
            thread::sleep(AGAIN_AFTER);
            let again: Vec<String> = passing.iter().map(|&at| names[at].clone()).collect();
            let told = keys::ask_for(client, &["GROUP", "CREATE"], &again, tail)?;
            for (at, answer) in passing.into_iter().zip(told) {
                let is_there = is_error(&answer, "ERR the key has a group of its own already");
                answers[at] = if is_there { Value::Simple("OK".to_owned()) } else { answer };
            }
        }
        check(&answers, names)
    }

    /// What the command says behind the names.
    fn tail(&self) -> Vec<String> {
        let member = self.member.into_iter().flat_map(|member| ["MEMBERS", member]);
        let value = "x".repeat(self.size as usize);
        member.chain(["VALUE", &value]).map(str::to_owned).collect()
    }
}

/// Whether the same question may be answered otherwise in a moment.
fn is_passing(answer: &Value) -> bool {
    ["TIMEOUT", "TRYAGAIN", "NOQUORUM"].iter().any(|code| is_error(answer, code))
}

fn is_error(answer: &Value, begins: &str) -> bool {
    matches!(answer, Value::Error(line) if line.starts_with(begins))
}

/// Every name must have been answered with OK.
fn check(answers: &[Value], names: &[String]) -> Result<(), Failure> {
    match answers.iter().zip(names).find(|(answer, _)| !matches!(answer, Value::Simple(_))) {
        Some((answer, name)) => Err(Failure(format!("creating {name} was answered with {answer:?}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_that_fails_is_told() {
        let names = [load::key(0), load::key(1)];
        let ok = || Value::Simple("OK".to_owned());
        assert_eq!(check(&[ok(), ok()], &names), Ok(()));
        let failure = check(&[ok(), Value::Error("NOQUORUM".to_owned())], &names).expect_err("told");
        assert!(failure.0.contains(&names[1]) && failure.0.contains("NOQUORUM"), "{failure:?}");
    }
}
