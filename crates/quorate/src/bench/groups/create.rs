//! Making groups: batches of names, several at once, over all nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use quorate_resp::Value;
use serde::Serialize;

use super::super::cluster::{Cluster, Node};
use super::super::load;
use crate::client::Client;
use crate::failure::Failure;

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
        let mut times = Vec::new();
        loop {
            let first = next.fetch_add(u64::from(self.batch), Ordering::Relaxed);
            if first >= self.groups {
                return Ok(times);
            }
            let names: Vec<String> = (first..self.groups.min(first + u64::from(self.batch))).map(load::key).collect();
            let words = self.words(&names);
            let began = Instant::now();
            check(&client.ask(&words)?, &names)?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }

    fn words(&self, names: &[String]) -> Vec<String> {
        let mut words = ["QUORATE", "GROUP", "CREATE", "KEYS"].map(str::to_owned).to_vec();
        words.push(names.len().to_string());
        words.extend_from_slice(names);
        if let Some(member) = self.member {
            words.extend(["MEMBERS".to_owned(), member.to_owned()]);
        }
        words.extend(["VALUE".to_owned(), "x".repeat(self.size as usize)]);
        words
    }
}

/// Every name must have been answered with OK.
fn check(answer: &Value, names: &[String]) -> Result<(), Failure> {
    let Value::Array(answers) = answer else {
        return Err(Failure(format!("QUORATE GROUP CREATE was answered with {answer:?}")));
    };
    let wrong = answers.iter().zip(names).find(|(answer, _)| !matches!(answer, Value::Simple(_)));
    match wrong {
        Some((answer, name)) => Err(Failure(format!("creating {name} was answered with {answer:?}"))),
        None if answers.len() != names.len() => {
            Err(Failure(format!("{} names were answered with {} answers", names.len(), answers.len())))
        }
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
        assert_eq!(check(&Value::Array(vec![ok(), ok()]), &names), Ok(()));
        let failure = check(&Value::Array(vec![ok(), Value::Error("NOQUORUM".to_owned())]), &names).expect_err("told");
        assert!(failure.0.contains(&names[1]) && failure.0.contains("NOQUORUM"), "{failure:?}");
        assert!(check(&Value::Array(vec![ok()]), &names).is_err());
    }
}
