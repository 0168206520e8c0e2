//! Log size: what nobody needs any more leaves the log, whoever is slow and whoever was given up.

use quorate_node::Host;

/// Segments that a log may have. Most have a few; crashes, pauses and a checkpoint store that takes half a second make it
/// some sixty now and then.
const SEGMENTS_MAX: u64 = 200;
/// Groups that may each need one record more of a segment, for a while.
const GROUPS_PER_SEGMENT: u64 = 4;

/// Looks at a node's log after a turn.
pub fn assert_bounded(host: &mut Host) {
    let segments = host.log_mut().segments().count() as u64;
    let own = host.own_counts();
    let most = SEGMENTS_MAX + (own.active + own.idle + own.paused) as u64 / GROUPS_PER_SEGMENT;
    assert!(segments <= most, "log size: the log of {} keeps {segments} segments", host.settings().node);
}
