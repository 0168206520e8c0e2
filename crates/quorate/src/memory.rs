//! The program's allocator: jemalloc, and a count of the bytes that it has given out.
//!
//! jemalloc can count by itself, but only in pages and slabs, for its own statistics, if it is built to. What `maxmemory`
//! is compared with has to fall at once when something is deleted, so it is counted here, byte for byte.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use tikv_jemallocator::Jemalloc;

/// Threads with a counter of their own, which costs them two plain instructions. Those that come later share one.
const OWN_COUNTERS: usize = 32;
const SHARED: usize = OWN_COUNTERS;

/// On a cache line of its own.
#[repr(align(64))]
struct Counter(AtomicI64);

/// Memory may be freed by another thread than it was allocated by: only the sum means something.
static COUNTERS: [Counter; OWN_COUNTERS + 1] = [const { Counter(AtomicI64::new(0)) }; OWN_COUNTERS + 1];
static THREAD_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Without a destructor and without lazy initialization, so that an allocator may use it.
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The bytes that the program has been given and not given back.
pub(crate) fn allocated_bytes() -> u64 {
    let sum: i64 = COUNTERS.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum();
    u64::try_from(sum).unwrap_or(0)
}

fn count(bytes: i64) {
    let place = PLACE.with(|place| match place.get() {
        Some(known) => known,
        None => {
            let new = THREAD_COUNT.fetch_add(1, Ordering::Relaxed).min(SHARED);
            place.set(Some(new));
            new
        }
    });
    let counter = &COUNTERS[place].0;
    if place == SHARED {
        counter.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Nobody else writes it.
        counter.store(counter.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

pub(crate) struct Counting(pub(crate) Jemalloc);

// SAFETY: every call is jemalloc's own with the same arguments; counting neither allocates nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let memory = unsafe { self.0.alloc(layout) };
        if !memory.is_null() {
            count(layout.size() as i64);
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { self.0.alloc_zeroed(layout) };
        if !memory.is_null() {
            count(layout.size() as i64);
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(memory, layout) };
        count(-(layout.size() as i64));
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { self.0.realloc(memory, layout, size) };
        if !moved.is_null() {
            count(size as i64 - layout.size() as i64);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    const BYTES: usize = 64 << 20;

    /// What one of these tests allocates must not be counted by another.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn assert_near(found: u64, expected: u64) {
        // Other tests allocate meanwhile.
        assert!(found.abs_diff(expected) < BYTES as u64 / 4, "{found}, not about {expected}");
    }

    #[test]
    fn what_is_allocated_is_counted_until_it_is_freed_by_whomever() {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let before = allocated_bytes();
        let mut large = vec![1u8; BYTES];
        assert_near(allocated_bytes(), before + BYTES as u64);
        large.reserve_exact(BYTES);
        assert_near(allocated_bytes(), before + 2 * BYTES as u64);
        std::thread::spawn(move || drop(std::hint::black_box(large))).join().expect("it frees");
        assert_near(allocated_bytes(), before);
    }

    #[test]
    fn many_threads_count_no_worse_than_few() {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let before = allocated_bytes();
        for _ in 0..4 {
            let work = |_| std::thread::spawn(|| (0..1000).map(|size| vec![1u8; size]).map(|bytes| bytes.len()).sum());
            let threads: Vec<std::thread::JoinHandle<usize>> = (0..OWN_COUNTERS).map(work).collect();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().expect("it counts"), 499_500));
        }
        assert_near(allocated_bytes(), before);
    }
}
