//! The thread that stores checkpoints, so that no turn waits for them.
//!
//! Batches are applied one by one in the order in which they were handed over, and reported in that order. A batch for
//! which there is no space is tried again until there is; any other failure is reported and ends the thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Waker;
use quorate_checkpoint::{Batch, Store, StoreError};
use tracing::{error, info};

use crate::priority::step_back;

/// Batches on their way to the thread; more wait with the worker.
const BATCHES_UNDER_WAY_MAX: usize = 16;
const SPACE_RETRY: Duration = Duration::from_millis(200);

pub(crate) struct Checkpointer {
    jobs: SyncSender<(u64, Batch)>,
    /// What the channel has not taken yet.
    waiting: VecDeque<(u64, Batch)>,
    finished: Receiver<Result<u64, StoreError>>,
    /// Batches that were handed over and are not stored.
    outstanding: usize,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// `reopen` opens the store again after it ran out of space.
    pub(crate) fn start<S: Store + Send + 'static>(
        store: S,
        mut reopen: impl FnMut() -> Result<S, StoreError> + Send + 'static,
        waker: Arc<Waker>,
    ) -> io::Result<Checkpointer> {
        let (jobs, todo) = sync_channel::<(u64, Batch)>(BATCHES_UNDER_WAY_MAX);
        let (report, finished) = channel();
        let work = move || {
            step_back();
            let mut store = Some(store);
            for (number, batch) in todo {
                let result = apply(&mut store, &mut reopen, &batch).map(|()| number);
                let failed = result.is_err();
                // Whoever has gone without waiting does not want to know. The waker only fails with its poll.
                let _ = report.send(result);
                let _ = waker.wake();
                if failed {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("checkpoints".into()).spawn(work)?;
        Ok(Checkpointer { jobs, waiting: VecDeque::new(), finished, outstanding: 0, thread })
    }

    pub(crate) fn hand_over(&mut self, batches: Vec<(u64, Batch)>) {
        self.outstanding += batches.len();
        self.waiting.extend(batches);
        while let Some(job) = self.waiting.pop_front() {
            match self.jobs.try_send(job) {
                Ok(()) => {}
                // A thread that has failed has reported so.
                Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                    self.waiting.push_front(job);
                    return;
                }
            }
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The number of the next batch that has been stored.
    pub(crate) fn take_finished(&mut self) -> Result<Option<u64>, StoreError> {
        match self.finished.try_recv() {
            Ok(result) => {
                self.outstanding -= 1;
                result.map(Some)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        }
    }

    /// Stores what was handed over, and closes the store.
    pub(crate) fn end(self) -> Result<(), StoreError> {
        let Checkpointer { jobs, waiting, finished, thread, .. } = self;
        for job in waiting {
            if jobs.send(job).is_err() {
                break;
            }
        }
        drop(jobs);
        finished.into_iter().try_for_each(|result| result.map(|_| ()))?;
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
        Ok(())
    }
}

fn apply<S: Store>(
    store: &mut Option<S>,
    reopen: &mut impl FnMut() -> Result<S, StoreError>,
    batch: &Batch,
) -> Result<(), StoreError> {
    let mut had_space = true;
    loop {
        let applied = match store {
            Some(open) => open.apply(batch.clone()),
            None => reopen().and_then(|open| store.insert(open).apply(batch.clone())),
        };
        match applied {
            Err(StoreError::NoSpace) => {
                if had_space {
                    error!("no space left for checkpoints: they are tried again until there is");
                }
                had_space = false;
                // It can only be used again after it was opened anew.
                *store = None;
                std::thread::sleep(SPACE_RETRY);
            }
            Ok(()) => {
                if !had_space {
                    info!("there is space for checkpoints again");
                }
                return Ok(());
            }
            Err(failed) => return Err(failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token};
    use quorate_checkpoint::{Key, MemoryStore};

    use super::*;

    /// A store that fails as told, once each.
    struct Failing {
        inner: MemoryStore,
        failures: Vec<StoreError>,
        applied: std::sync::mpsc::Sender<Batch>,
    }

    impl Store for Failing {
        fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
            if let Some(failure) = self.failures.pop() {
                return Err(failure);
            }
            self.applied.send(batch.clone()).unwrap();
            self.inner.apply(batch)
        }

        fn get(&self, group: u64, key: Key<'_>) -> Result<Option<Vec<u8>>, StoreError> {
            self.inner.get(group, key)
        }

        fn objects_from(
            &self,
            group: u64,
            first: &[u8],
            each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        ) -> Result<(), StoreError> {
            self.inner.objects_from(group, first, each)
        }

        fn groups_from(&self, first: u64, each: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), StoreError> {
            self.inner.groups_from(first, each)
        }

        fn node_record(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
            self.inner.node_record(name)
        }
    }

    fn batch(number: u64) -> Batch {
        let mut batch = Batch::new();
        batch.put_meta(number, vec![number as u8]);
        batch
    }

    fn start(failures: Vec<StoreError>) -> (Checkpointer, Receiver<Batch>, Poll) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (applied, seen) = channel();
        let again = applied.clone();
        let reopen =
            move || Ok(Failing { inner: MemoryStore::default(), failures: Vec::new(), applied: again.clone() });
        let store = Failing { inner: MemoryStore::default(), failures, applied };
        (Checkpointer::start(store, reopen, waker).unwrap(), seen, poll)
    }

    #[test]
    fn batches_are_stored_in_order_however_many_are_handed_over() {
        let (mut checkpointer, applied, _poll) = start(vec![StoreError::NoSpace]);
        let count = 3 * BATCHES_UNDER_WAY_MAX as u64;
        checkpointer.hand_over((0..count).map(|number| (number, batch(number))).collect());
        checkpointer.end().unwrap();
        assert_eq!(applied.into_iter().collect::<Vec<_>>(), (0..count).map(batch).collect::<Vec<_>>());
    }

    #[test]
    fn a_failure_is_told() {
        let (mut checkpointer, _applied, _poll) = start(vec![StoreError::InUse { path: "x".into() }]);
        checkpointer.hand_over(vec![(0, batch(0))]);
        let told = loop {
            match checkpointer.take_finished() {
                Ok(None) => std::thread::yield_now(),
                other => break other,
            }
        };
        assert!(matches!(told, Err(StoreError::InUse { .. })), "{told:?}");
    }
}
