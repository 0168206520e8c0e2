//! etcd under load: its own Go client drives it, in a program of ours that prints what it counted.
//!
//! The program is `scripts/peers-etcd/load`; `scripts/peers` builds it. It prints a line when its warm-up is over and one
//! when its measurement is, between which processor time is counted, and then its figures.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::Row;
use super::cpu::Processes;
use super::load::{Load, Measured};
use crate::failure::{Context, Failure};

/// The program, unless the environment names another.
const PROGRAM: &str = "etcd-load";
const PROGRAM_VARIABLE: &str = "QUORATE_ETCD_LOAD";

/// What the program prints at its end.
#[derive(Debug, Deserialize)]
struct Counted {
    operations: u64,
    seconds: f64,
    latency_p50_us: u64,
    latency_p99_us: u64,
    errors: u64,
}

pub(super) fn run(load: &Load, endpoints: &[String], processes: &Processes) -> Result<Measured, Failure> {
    let program = std::env::var(PROGRAM_VARIABLE).unwrap_or_else(|_| PROGRAM.to_owned());
    let mut child = Command::new(&program)
        .args(["--endpoints", &endpoints.join(",")])
        .args(["--clients", &load.connections.to_string()])
        .args(["--seconds", &load.measured_s().to_string()])
        .args(["--keys", &load.keys.to_string()])
        .args(["--size", &load.size.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .context(format_args!("cannot start {program} (scripts/peers builds it; {PROGRAM_VARIABLE} names it)"))?;
    let mut lines = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
    let mut line = || lines.next().and_then(Result::ok).ok_or(Failure::new("its load generator failed"));
    line()?;
    let cpu_before = processes.cpu_us();
    line()?;
    let cpu_after = processes.cpu_us();
    let counted = line()?;
    child.wait().context("cannot wait for the load generator")?;
    let counted: Counted = serde_json::from_str(&counted).context("its load generator is of another version")?;
    let count = counted.operations.max(1) as f64;
    let cpu_us = cpu_before.zip(cpu_after).map(|(before, after)| after.saturating_sub(before));
    let row = Row {
        operation: load.operation,
        connections: load.connections,
        pipeline: load.pipeline,
        size_bytes: load.size,
        operations_per_s: counted.operations as f64 / counted.seconds,
        latency_p50_us: counted.latency_p50_us,
        latency_p99_us: counted.latency_p99_us,
        cpu_us_per_operation: cpu_us.map(|us| us as f64 / count),
        errors: counted.errors,
    };
    let error = (counted.errors > 0).then(|| "etcd refused some puts".to_owned());
    Ok(Measured { row, seconds: counted.seconds, longest_us: None, key_next: 0, error })
}
