//! Threads that clients do not wait for let those go first that they do wait for.

use std::io;

/// How much nicer such a thread is than others: where there is less processor than work, one of the others has three times
/// as much of it. With far less than that, checkpoints would not keep up with what has to be stored, and the log would grow.
const NICER_BY: libc::c_int = 5;

/// Makes this thread nicer, and those that it starts from now on.
pub(crate) fn step_back() {
    // SAFETY: the call takes and gives numbers. On Linux it concerns the calling thread alone, and fails only where a thread
    // may not become nicer: then it goes on as it is.
    unsafe { libc::nice(NICER_BY) };
}

/// Has a nicer thread do this, and waits for it: the threads that are started meanwhile are as nice.
pub(crate) fn stepping_back<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let work = || {
            step_back();
            work()
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn niceness() -> libc::c_int {
        // SAFETY: the call takes and gives numbers; zero is the calling thread.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn threads_that_are_started_meanwhile_are_nicer_and_this_one_is_not() {
        let before = niceness();
        let started = stepping_back(|| std::thread::spawn(niceness).join().unwrap()).unwrap();
        // A process can be nicer from the start, and nobody is nicer than by 19.
        assert_eq!((niceness(), started), (before, (before + NICER_BY).min(19)));
    }
}
