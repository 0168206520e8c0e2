//! The node's clocks, read together once a turn.
//!
//! The lease clock is the raw monotonic one, which nobody slews, plus the time that the machine was suspended, during
//! which leases given to others ran on. What is not known exactly is taken as less: a lease clock that ran ahead would
//! end the leases this node has given too early.

use std::mem::MaybeUninit;
use std::time::{SystemTime, UNIX_EPOCH};

use quorate_node::Moment;
use quorate_protocol::{Instant, Stamp};

/// Differences below this are the time between two readings, not a suspension.
const SUSPENSION_MIN_US: u64 = 1_000;

#[derive(Debug)]
pub(crate) struct Clocks {
    suspended_us: u64,
}

impl Clocks {
    pub(crate) fn new() -> Clocks {
        let mut clocks = Clocks { suspended_us: 0 };
        clocks.note_suspension();
        clocks
    }

    pub(crate) fn read(&mut self) -> Moment {
        self.note_suspension();
        Moment { now: self.now(), wall: wall() }
    }

    /// The lease clock, without a look for suspensions since the last full reading.
    pub(crate) fn now(&self) -> Instant {
        Instant(microseconds(libc::CLOCK_MONOTONIC_RAW) + self.suspended_us)
    }

    fn note_suspension(&mut self) {
        // In this order a pause between the two readings makes the difference smaller, never larger.
        let boot = microseconds(libc::CLOCK_BOOTTIME);
        let suspended_us = boot.saturating_sub(microseconds(libc::CLOCK_MONOTONIC));
        if suspended_us > self.suspended_us + SUSPENSION_MIN_US {
            self.suspended_us = suspended_us;
        }
    }
}

fn wall() -> Stamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp(since_epoch.as_millis() as u64)
}

fn microseconds(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the call writes a timespec to the pointer it is given. All bits zero are a timespec, should it fail.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_clock_counts_microseconds_and_never_goes_back() {
        let mut clocks = Clocks::new();
        let first = clocks.read().now;
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = clocks.read().now;
        assert!(first.after_us(19_000) < second && second < first.after_us(10_000_000), "{first:?}, {second:?}");
    }
}
