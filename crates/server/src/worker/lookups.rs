//! The thread that looks things up in the checkpoint store, so that no turn waits for the disk.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Waker;
use quorate_checkpoint::Store;
use quorate_node::{Found, Lookup};

/// A store that ran out of space is opened again by whoever writes it; readers look for it so often meanwhile.
const REOPENED_CHECK: Duration = Duration::from_millis(20);
/// What was found is told at the latest after so many.
const TOLD_TOGETHER_MAX: u32 = 32;

/// A store for reading; none while it is being opened again.
pub(crate) type Shelf<S> = Arc<Mutex<Option<S>>>;

pub(crate) struct Lookups {
    jobs: Sender<Lookup>,
    found: Receiver<Found>,
    is_stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Lookups {
    pub(crate) fn start<S: Store + Send + 'static>(shelf: Shelf<S>, waker: Arc<Waker>) -> io::Result<Lookups> {
        let (jobs, todo) = channel::<Lookup>();
        let (report, found) = channel();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stops = is_stopping.clone();
        let work = move || {
            let mut untold = 0;
            while let Ok(first) = todo.recv() {
                let mut next = Some(first);
                while let Some(lookup) = next {
                    let Some(found) = look_up(&shelf, lookup, &stops) else { return };
                    // Whoever has gone without waiting does not want to know. The waker only fails with its poll.
                    let _ = report.send(found);
                    next = todo.try_recv().ok();
                    untold += 1;
                    if next.is_none() || untold == TOLD_TOGETHER_MAX {
                        let _ = waker.wake();
                        untold = 0;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("lookups".into()).spawn(work)?;
        Ok(Lookups { jobs, found, is_stopping, thread })
    }

    pub(crate) fn ask(&self, lookups: Vec<Lookup>) {
        for lookup in lookups {
            // The thread ends before its worker only by a panic, which the end of the worker tells of.
            let _ = self.jobs.send(lookup);
        }
    }

    pub(crate) fn take_found(&self) -> Option<Found> {
        self.found.try_recv().ok()
    }

    /// Gives the store back. What is not looked up yet is not looked up.
    pub(crate) fn end(self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        drop(self.jobs);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// `None` if nobody wants to know any more.
fn look_up<S: Store>(shelf: &Shelf<S>, lookup: Lookup, is_stopping: &AtomicBool) -> Option<Found> {
    while !is_stopping.load(Ordering::Relaxed) {
        if let Some(store) = &*shelf.lock().unwrap_or_else(PoisonError::into_inner) {
            return Some(lookup.run(store));
        }
        std::thread::sleep(REOPENED_CHECK);
    }
    None
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token};
    use quorate_checkpoint::MemoryStore;
    use quorate_protocol::GroupId;

    use super::*;

    #[test]
    fn groups_are_looked_up_once_there_is_a_store() {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let shelf: Shelf<MemoryStore> = Arc::default();
        let lookups = Lookups::start(shelf.clone(), waker).unwrap();
        lookups.ask([1, 2].map(|group| Lookup::Paused(GroupId(group))).to_vec());
        *shelf.lock().unwrap() = Some(MemoryStore::default());
        let mut found = Vec::new();
        while found.len() < 2 {
            found.extend(lookups.take_found());
            std::thread::yield_now();
        }
        let nothing = [1, 2].map(|group| Lookup::Paused(GroupId(group)).run(&MemoryStore::default()));
        assert_eq!(format!("{found:?}"), format!("{nothing:?}"));
        *shelf.lock().unwrap() = None;
        lookups.ask(vec![Lookup::Paused(GroupId(3))]);
        lookups.end();
    }
}
