//! What an operation costs in the simulated world, at the busiest of processor, network and disk: what the oracle is compared with.

use quorate_control::Workload;

/// A question and its answer, each handled by a processor.
const EXCHANGE_US: f64 = 30.0;
/// A byte from one member to another, checked there: 1 GB a second.
const BYTE_US: f64 = 0.001;
/// A byte on disk: 100 MB a second.
const DISK_BYTE_US: f64 = 0.01;
/// What a member writes beside the content.
const RECORD_BYTES: f64 = 100.0;

/// In µs of the busiest resource for a mean operation. Only quotients mean something.
pub(super) fn cost(members: usize, write: usize, workload: Workload) -> f64 {
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
