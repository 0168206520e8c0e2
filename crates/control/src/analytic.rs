//! What an operation costs: the oracle's fallback, and what is to be gained by a change.
//!
//! A read asks R members for the content. A write asks R members for their tags and has W members store the content. Latency is left
//! out: it hardly depends on sizes. So is what conflicting operations cost.

use crate::oracle::Workload;
use crate::policy::Sizes;

// In µs of one of two processors that five nodes and their clients share: least squares by `data/workloads.csv`, of its
// rows with 64 connections, from which they are 8 % away in the mean. Only quotients mean something.
const OPERATION_US: f64 = 13.2;
/// A write beside that.
const WRITE_US: f64 = 17.4;
/// Of each member that is asked.
const QUESTION_US: f64 = 0.82;
const BYTE_ASKED_US: f64 = 0.000_37;
/// Of each member that stores.
const STORE_US: f64 = 2.7;
const BYTE_STORED_US: f64 = 0.001_22;

/// In µs, of a mean operation.
pub fn cost(read: usize, write: usize, workload: Workload) -> f64 {
    let (writes, bytes) = (workload.write_share, workload.bytes);
    let reads = 1.0 - writes;
    let (read, write) = (read as f64, write as f64);
    let asked = read * (QUESTION_US + reads * bytes * BYTE_ASKED_US);
    let stored = writes * write * (STORE_US + bytes * BYTE_STORED_US);
    OPERATION_US + writes * WRITE_US + asked + stored
}

/// The cheapest write quorum from `least` to `most`; the middle is preferred among equals.
pub fn cheapest(members: usize, least: usize, most: usize, workload: Workload) -> usize {
    cheapest_by(members, least, most, |write| cost(members + 1 - write, write, workload))
}

/// The same, by other costs.
pub fn cheapest_by(members: usize, least: usize, most: usize, cost: impl Fn(usize) -> f64) -> usize {
    let key = |write: usize| (cost(write), (2 * write).abs_diff(members + 1));
    let cheaper = |a: &usize, b: &usize| key(*a).0.total_cmp(&key(*b).0).then(key(*a).1.cmp(&key(*b).1));
    (least..=most).min_by(cheaper).unwrap_or(least)
}

/// By how much more can be done once the write quorum is `to`: 0.5 is half as much again.
pub fn gain(from: Sizes, to: Sizes, workload: Workload) -> f64 {
    cost(from.read, from.write, workload) / cost(to.read, to.write, workload) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(write_share: f64, bytes: f64) -> Workload {
        Workload { write_share, bytes, throughput: 1000.0 }
    }

    #[test]
    fn many_reads_want_small_read_quorums_and_large_writes_small_write_quorums() {
        assert_eq!(cheapest(5, 1, 5, workload(0.01, 1024.0)), 5);
        assert_eq!(cheapest(5, 1, 5, workload(0.95, 65536.0)), 1);
        assert_eq!(cheapest(5, 2, 4, workload(0.0, 0.0)), 4);
    }

    #[test]
    fn what_is_gained_one_way_is_lost_the_other() {
        let workload = workload(0.05, 1024.0);
        let (balanced, for_reads) = (Sizes { read: 3, write: 3 }, Sizes { read: 1, write: 5 });
        assert!(gain(balanced, for_reads, workload) > 0.05);
        assert!(gain(for_reads, balanced, workload) < 0.0);
        assert_eq!(gain(balanced, balanced, workload), 0.0);
    }

    #[test]
    fn of_equals_the_middle_is_taken() {
        assert_eq!(cheapest_by(5, 1, 5, |_| 1.0), 3);
    }

    #[test]
    fn costs_are_those_that_were_measured() {
        let measured = crate::Oracle::measured_built_in().expect("it parses");
        let lost = |one: &crate::Measured| one.loss(cheapest(one.members, 1, one.members, one.workload));
        let mean = measured.iter().map(lost).sum::<f64>() / measured.len() as f64;
        assert!(mean < 0.05, "{mean}");
    }
}
