//! The cluster and its peers in turns, and how they compare.
//!
//! Each pair of measurements, made one right after the other, gives a ratio; what is told is the median of the ratios
//! and an interval that holds the true median with a probability of at least 95%, whatever the noise looks like: the
//! k-th smallest and the k-th largest of them (the sign test's interval).

use serde::Serialize;

use super::cpu::Processes;
use super::load::Measured;
use super::peer::Peer;
use super::{Options, Row, loads};
use crate::client::Endpoint;
use crate::failure::Failure;
use crate::output::{align_right, say, table, trimmed};

/// A median and between what it lies; without an interval if there are too few values for one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Estimate {
    pub(super) median: f64,
    interval: Option<(f64, f64)>,
}

/// One server under one load, or one of several things that a server is asked for.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    pub(super) server: String,
    operation: super::Operation,
    connections: u32,
    pipeline: u32,
    size_bytes: u32,
    pairs: u32,
    pub(super) operations_per_s: Estimate,
    pub(super) latency_p50_us: Estimate,
    pub(super) latency_p99_us: Estimate,
    pub(super) cpu_us_per_operation: Option<Estimate>,
    /// The first's throughput divided by this one's, and its processor time an operation.
    throughput_ratio: Option<Estimate>,
    pub(super) cpu_ratio: Option<Estimate>,
}

/// One of those that are measured in turns.
pub(super) struct Contender<'a> {
    pub(super) name: String,
    pub(super) measure: Box<dyn FnMut() -> Result<Measured, Failure> + 'a>,
}

/// How many pairs, unless somebody says.
const PAIRS: u32 = 20;

pub(super) fn run(options: &Options, targets: &[Endpoint], processes: &Processes) -> Result<(), Failure> {
    let peers: Vec<(&Peer, Processes)> = options.against.iter().map(|peer| (peer, peer.processes())).collect();
    let mut all = Vec::new();
    for (load, is_measured) in &loads(options) {
        for (peer, _) in &peers {
            peer.check(load.operation, if *is_measured { load.pipeline } else { 1 })?;
        }
        let ours = Contender { name: "this".to_owned(), measure: Box::new(|| load.run(targets, processes)) };
        let elsewhere = options.against_namespace.iter().map(|&namespace| Contender {
            name: format!("namespace {namespace}"),
            measure: Box::new(move || load.clone().in_namespace(namespace).run(targets, processes)),
        });
        let theirs = peers.iter().map(|(peer, processes)| Contender {
            name: peer.name.clone(),
            measure: Box::new(|| peer.measure(load, processes)),
        });
        let mut contenders: Vec<Contender<'_>> = [ours].into_iter().chain(elsewhere).chain(theirs).collect();
        let pairs = if *is_measured { options.pairs.unwrap_or(PAIRS) } else { 1 };
        let compared = in_turns(pairs, &mut contenders)?;
        if *is_measured {
            if !options.json {
                print(&compared, "server", "ours to theirs");
            }
            all.extend(compared);
        }
    }
    if options.json {
        let json = serde_json::to_string_pretty(&all).map_err(|error| Failure(error.to_string()))?;
        say(json);
    }
    Ok(())
}

/// Measures each so often, and compares the first with the others.
pub(super) fn in_turns(pairs: u32, contenders: &mut [Contender<'_>]) -> Result<Vec<Compared>, Failure> {
    let mut rows: Vec<Vec<Row>> = contenders.iter().map(|_| Vec::new()).collect();
    for pair in 0..pairs {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        // Who comes second may find a warmer machine, or a fuller disk.
        if pair % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let Contender { name, measure } = &mut contenders[at];
            rows[at].push(served(name, measure()?)?);
        }
    }
    Ok(contenders.iter().zip(&rows).map(|(contender, own)| compare(&contender.name, &rows[0], own)).collect())
}

/// A measurement that can be compared: nothing was refused, and something was answered.
pub(super) fn served(server: &str, Measured { row, error, .. }: Measured) -> Result<Row, Failure> {
    match error {
        Some(error) => Err(Failure(format!("{server}: some requests were refused, the first with: {error}"))),
        None if row.operations_per_s == 0.0 => {
            Err(Failure(format!("{server}: nothing was answered; redis+wait waits for ever without two replicas")))
        }
        None => Ok(row),
    }
}

pub(super) fn compare(server: &str, ours: &[Row], theirs: &[Row]) -> Compared {
    let of = |figure: &dyn Fn(&Row) -> f64| estimate(theirs.iter().map(figure).collect());
    let ratio = |figure: &dyn Fn(&Row) -> f64| {
        estimate(ours.iter().zip(theirs).map(|(our, their)| figure(our) / figure(their)).collect())
    };
    let has_cpu = |rows: &[Row]| rows.iter().all(|row| row.cpu_us_per_operation.is_some_and(|us| us > 0.0));
    let cpu = |row: &Row| row.cpu_us_per_operation.unwrap_or(f64::NAN);
    let is_peer = !std::ptr::eq(ours, theirs);
    let first = &theirs[0];
    Compared {
        server: server.to_owned(),
        operation: first.operation,
        connections: first.connections,
        pipeline: first.pipeline,
        size_bytes: first.size_bytes,
        pairs: theirs.len() as u32,
        operations_per_s: of(&|row| row.operations_per_s),
        latency_p50_us: of(&|row| row.latency_p50_us as f64),
        latency_p99_us: of(&|row| row.latency_p99_us as f64),
        cpu_us_per_operation: has_cpu(theirs).then(|| of(&cpu)),
        throughput_ratio: is_peer.then(|| ratio(&|row| row.operations_per_s)),
        cpu_ratio: (is_peer && has_cpu(theirs) && has_cpu(ours)).then(|| ratio(&cpu)),
    }
}

pub(super) fn estimate(mut values: Vec<f64>) -> Estimate {
    values.sort_by(f64::total_cmp);
    let (count, half) = (values.len(), values.len() / 2);
    let median = if count % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
    let interval = rank(count).map(|rank| (values[rank - 1], values[count - rank]));
    Estimate { median, interval }
}

/// The largest k for which fewer than k heads in `count` tosses of a coin have a probability of at most 2.5%.
fn rank(count: usize) -> Option<usize> {
    let mut probability = 0.5_f64.powi(count as i32);
    let (mut sum, mut rank) = (0.0, 0);
    for heads in 0..count {
        sum += probability;
        if sum > 0.025 {
            break;
        }
        rank = heads + 1;
        probability *= (count - heads) as f64 / (heads + 1) as f64;
    }
    (rank > 0).then_some(rank)
}

pub(super) fn print(compared: &[Compared], column: &str, ratios: &str) {
    let first = &compared[0];
    let operation = if first.operation == super::Operation::Set { "SET" } else { "GET" };
    let Compared { connections, pipeline, size_bytes, pairs, .. } = first;
    say(format_args!(
        "{operation}, {connections} connections, pipeline {pipeline}, {size_bytes} B: medians of {pairs}, ratios of {ratios}"
    ));
    let mut lines = table(&[column, "ops/s", "p50 ms", "p99 ms", "CPU us/op", "ratio of ops/s", "ratio of CPU us/op"]);
    for row in compared {
        let ms = |estimate: Estimate| format!("{:.3}", estimate.median / 1000.0);
        let ratio = |estimate: Option<Estimate>| estimate.map_or_else(String::new, |estimate| told(&estimate));
        lines.add_row([
            row.server.clone(),
            told_whole(&row.operations_per_s),
            ms(row.latency_p50_us),
            ms(row.latency_p99_us),
            row.cpu_us_per_operation.map_or_else(|| "-".to_owned(), |us| told(&us)),
            ratio(row.throughput_ratio),
            ratio(row.cpu_ratio),
        ]);
    }
    align_right(&mut lines, 1..5);
    say(trimmed(lines));
}

pub(super) fn told(estimate: &Estimate) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{:.2} ({low:.2} to {high:.2})", estimate.median),
        None => format!("{:.2}", estimate.median),
    }
}

pub(super) fn told_whole(estimate: &Estimate) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{:.0} ({low:.0} to {high:.0})", estimate.median),
        None => format!("{:.0}", estimate.median),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_answers_nothing_is_no_peer() {
        let row = Row {
            operation: super::super::Operation::Set,
            connections: 64,
            pipeline: 1,
            size_bytes: 16,
            operations_per_s: 0.0,
            latency_p50_us: 0,
            latency_p99_us: 0,
            cpu_us_per_operation: None,
            errors: 0,
        };
        assert!(
            served("redis+wait", Measured { row, seconds: 1.0, longest_us: None, key_next: 0, error: None }).is_err()
        );
    }

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        // From tables of the sign test at 5%.
        let ranks = [(5, None), (6, Some(1)), (10, Some(2)), (20, Some(6)), (100, Some(40))];
        for (count, expected) in ranks {
            assert_eq!(rank(count), expected, "{count} pairs");
        }
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(estimate(values), Estimate { median: 10.5, interval: Some((6.0, 15.0)) });
    }
}
