use quorate_wal::Kind;

use super::*;
use crate::host::dispatch::tests::{first_of, settle};
use crate::root::ROOT;

#[test]
fn a_checkpoint_that_covers_nothing_of_the_oldest_segment_has_it_searched_again() {
    let mut host = first_of(1);
    settle(&mut host);
    let index = host.find(ROOT).expect("it is born");
    host.wal.release(ROOT.0, u64::MAX, Lsn(u64::MAX));
    for slot in 0..6 {
        host.wal.append(ROOT.0, Kind::Slot(slot), &[7; 100 << 10]);
        let lsn = host.wal.submit().expect("there is something").lsn;
        host.wal.completed(lsn);
    }
    assert_eq!(host.wal.pinning(10), [ROOT.0]);
    assert!(host.wal.pinning(10).is_empty());
    let (next_slot, appended) = (Slot(0), Lsn(0));
    host.release(Checkpointed { index, group: ROOT, next_slot, appended, is_alive: true });
    assert_eq!(host.wal.pinning(10), [ROOT.0]);
}
