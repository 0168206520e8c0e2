//! What an operation costs at the busiest of processor, network and disk: the oracle's fallback, and what is to be gained by a
//! change.
//!
//! A read asks R members, each of which sends its content. A write asks R members for their tags and has W members store its
//! content. Latency is left out: it hardly depends on sizes. So is what conflicting operations cost.

use crate::oracle::Workload;

/// A question and its answer, each handled by a processor.
const EXCHANGE_US: f64 = 30.0;
/// A byte from one member to another, checked there: 1 GB a second.
const BYTE_US: f64 = 0.001;
/// A byte on disk: 100 MB a second.
const DISK_BYTE_US: f64 = 0.01;
/// What a member writes beside the content.
const RECORD_BYTES: f64 = 100.0;

/// In µs of the busiest resource for a mean operation. Only quotients mean something.
pub fn cost(members: usize, write: usize, workload: Workload) -> f64 {
    let (writes, bytes) = (workload.write_share, workload.bytes);
    let reads = 1.0 - writes;
    let (read, write) = ((members + 1 - write) as f64, write as f64);
    let exchanges = reads * read + writes * (read + write);
    let contents = reads * read + writes * write;
    let network = bytes * contents * BYTE_US;
    let processor = exchanges * EXCHANGE_US + network;
    let disk = writes * write * (bytes + RECORD_BYTES) * DISK_BYTE_US;
    processor.max(disk)
}

/// The cheapest write quorum from `least` to `most`; the middle is preferred among equals.
pub fn cheapest(members: usize, least: usize, most: usize, workload: Workload) -> usize {
    let key = |write: usize| (cost(members, write, workload), (2 * write).abs_diff(members + 1));
    let cheaper = |a: &usize, b: &usize| key(*a).0.total_cmp(&key(*b).0).then(key(*a).1.cmp(&key(*b).1));
    (least..=most).min_by(cheaper).unwrap_or(least)
}

/// By how much more can be done once the write quorum is `to`: 0.5 is half as much again.
pub fn gain(members: usize, from: usize, to: usize, workload: Workload) -> f64 {
    cost(members, from, workload) / cost(members, to, workload) - 1.0
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
        // Where both weigh as much, neither is served by an extreme.
        assert!((2..=4).contains(&cheapest(5, 1, 5, workload(0.2, 65536.0))));
    }

    #[test]
    fn what_is_gained_one_way_is_lost_the_other() {
        let workload = workload(0.05, 1024.0);
        assert!(gain(5, 3, 5, workload) > 0.5);
        assert!(gain(5, 5, 3, workload) < 0.0);
        assert_eq!(gain(5, 3, 3, workload), 0.0);
    }

    #[test]
    fn where_nothing_differs_quorums_are_balanced() {
        // Small writes ask N + 1 members whatever the sizes.
        assert_eq!(cheapest(5, 1, 5, workload(1.0, 0.0)), 3);
    }
}
