//! Log size: what nobody needs any more leaves the log, whoever is slow and whoever was given up.

use quorate_node::Host;

/// Segments that a log may have. Most have a few; crashes, pauses and a checkpoint store that takes half a second make it
/// some sixty now and then.
const SEGMENTS_MAX: u64 = 200;

/// Looks at a node's log after a turn.
pub fn assert_bounded(host: &mut Host) {
    let segments = host.log_mut().statistics().segment_count;
    assert!(segments <= SEGMENTS_MAX, "log size: the log of {} keeps {segments} segments", host.settings().node);
}
