//! The thread that stores checkpoints, so that no turn waits for them.
//!
//! Batches are applied one by one in the order in which they were handed over, and reported in that order. A batch for
//! which there is no space is tried again until there is, or until the node stops; any other failure is reported and ends the
//! thread. So is what happens to the store between two batches.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Waker;
use quorate_checkpoint::{Batch, Store, StoreError};
use tracing::{error, info};

use crate::priority::step_back;

/// Batches on their way to the thread; more wait with the worker.
const BATCHES_UNDER_WAY_MAX: usize = 16;
/// The store is opened again each time, and reads its journals.
pub(crate) const SPACE_RETRY: Duration = Duration::from_millis(500);
/// How often the store is looked at while there is nothing to apply: why it has stopped is only known for as long as there
/// is no space.
const CHECK: Duration = Duration::from_millis(200);

pub(crate) struct Checkpointer {
    jobs: SyncSender<(u64, Batch)>,
    /// What the channel has not taken yet.
    waiting: VecDeque<(u64, Batch)>,
    finished: Receiver<Result<u64, StoreError>>,
    /// Batches that were handed over and are not stored.
    outstanding: usize,
    is_stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// `reopen` opens the store again after it ran out of space; `has_room` says whether there is some.
    pub(crate) fn start<S: Store + Send + 'static>(
        store: S,
        reopen: impl FnMut() -> Result<S, StoreError> + Send + 'static,
        has_room: impl Fn() -> bool + Send + 'static,
        waker: Arc<Waker>,
    ) -> io::Result<Checkpointer> {
        let (jobs, todo) = sync_channel::<(u64, Batch)>(BATCHES_UNDER_WAY_MAX);
        let (report, finished) = channel();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut keeper = Keeper { store: Some(store), reopen, has_room, is_stopping: is_stopping.clone() };
        let work = move || {
            step_back();
            loop {
                let result = match todo.recv_timeout(CHECK) {
                    Ok((number, batch)) => keeper.insist(|store| store.apply(batch.clone())).map(|()| number),
                    Err(RecvTimeoutError::Timeout) => match keeper.insist(|store| store.check()) {
                        Ok(()) => continue,
                        Err(failed) => Err(failed),
                    },
                    Err(RecvTimeoutError::Disconnected) => return,
                };
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
        Ok(Checkpointer { jobs, waiting: VecDeque::new(), finished, outstanding: 0, is_stopping, thread })
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
            Ok(Ok(number)) => {
                self.outstanding -= 1;
                Ok(Some(number))
            }
            Ok(Err(failed)) => Err(failed),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        }
    }

    /// Stores what was handed over, and closes the store. False if there was no space for all of it.
    pub(crate) fn end(self) -> Result<bool, StoreError> {
        let Checkpointer { jobs, waiting, finished, is_stopping, thread, .. } = self;
        is_stopping.store(true, Ordering::Relaxed);
        for job in waiting {
            if jobs.send(job).is_err() {
                break;
            }
        }
        drop(jobs);
        let stored = finished.into_iter().try_for_each(|result| result.map(|_| ()));
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
        match stored {
            Err(StoreError::NoSpace) => Ok(false),
            stored => stored.map(|()| true),
        }
    }
}

/// The thread's own: the store, or how to get it back.
struct Keeper<S, R, H> {
    store: Option<S>,
    reopen: R,
    has_room: H,
    is_stopping: Arc<AtomicBool>,
}

impl<S, R, H> Keeper<S, R, H>
where
    S: Store,
    R: FnMut() -> Result<S, StoreError>,
    H: Fn() -> bool,
{
    /// Does it again until there is space for it.
    fn insist(&mut self, mut work: impl FnMut(&mut S) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut had_space = true;
        loop {
            let done = match &mut self.store {
                Some(open) => work(open),
                None => (self.reopen)().and_then(|open| work(self.store.insert(open))),
            };
            match done {
                Err(failed) if is_for_space(&failed, &self.has_room) => {
                    if had_space {
                        error!("no space left for checkpoints: they are tried again until there is");
                    }
                    had_space = false;
                    // It can only be used again after it was opened anew.
                    self.store = None;
                    if self.is_stopping.load(Ordering::Relaxed) {
                        return Err(StoreError::NoSpace);
                    }
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
}

/// Whether that was for want of space, as far as there is none now.
pub(crate) fn is_for_space(failed: &StoreError, has_room: impl Fn() -> bool) -> bool {
    match failed {
        StoreError::NoSpace => true,
        StoreError::Stopped { .. } => !has_room(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token};
    use quorate_checkpoint::{Key, MemoryStore, Walk};

    use super::*;

    /// A store that fails as told, once each.
    struct Failing {
        inner: MemoryStore,
        failures: Vec<StoreError>,
        applied: std::sync::mpsc::Sender<Batch>,
    }

    impl Store for Failing {
        fn check(&self) -> Result<(), StoreError> {
            match self.failures.last() {
                Some(StoreError::Stopped { .. }) => Err(stopped()),
                _ => Ok(()),
            }
        }

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

        fn walk_from(&self, first: u64) -> Box<dyn Walk + '_> {
            self.inner.walk_from(first)
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
        start_on(failures, || true)
    }

    fn start_on(
        failures: Vec<StoreError>,
        has_room: impl Fn() -> bool + Send + 'static,
    ) -> (Checkpointer, Receiver<Batch>, Poll) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (applied, seen) = channel();
        let again = applied.clone();
        let reopen =
            move || Ok(Failing { inner: MemoryStore::default(), failures: Vec::new(), applied: again.clone() });
        let store = Failing { inner: MemoryStore::default(), failures, applied };
        (Checkpointer::start(store, reopen, has_room, waker).unwrap(), seen, poll)
    }

    #[test]
    fn batches_are_stored_in_order_however_many_are_handed_over() {
        let (mut checkpointer, applied, _poll) = start(vec![StoreError::NoSpace]);
        let count = 3 * BATCHES_UNDER_WAY_MAX as u64;
        checkpointer.hand_over((0..count).map(|number| (number, batch(number))).collect());
        for number in 0..count {
            assert_eq!(told(&mut checkpointer).unwrap(), Some(number));
            checkpointer.hand_over(Vec::new());
        }
        assert!(checkpointer.end().unwrap());
        assert_eq!(applied.into_iter().collect::<Vec<_>>(), (0..count).map(batch).collect::<Vec<_>>());
    }

    #[test]
    fn a_failure_is_told() {
        let (mut checkpointer, _applied, _poll) = start(vec![StoreError::InUse { path: "x".into() }]);
        checkpointer.hand_over(vec![(0, batch(0))]);
        let told = told(&mut checkpointer);
        assert!(matches!(told, Err(StoreError::InUse { .. })), "{told:?}");
    }

    fn told(checkpointer: &mut Checkpointer) -> Result<Option<u64>, StoreError> {
        loop {
            match checkpointer.take_finished() {
                Ok(None) => std::thread::yield_now(),
                other => return other,
            }
        }
    }

    fn stopped() -> StoreError {
        StoreError::Stopped { path: "x".into(), source: "it does not say why".into() }
    }

    #[test]
    fn a_store_that_stopped_for_want_of_space_is_opened_again_and_none_that_had_some() {
        let (mut checkpointer, applied, _poll) = start_on(vec![stopped()], || false);
        checkpointer.hand_over(vec![(7, batch(7))]);
        assert_eq!(told(&mut checkpointer).unwrap(), Some(7));
        assert!(checkpointer.end().unwrap());
        assert_eq!(applied.into_iter().count(), 1);
        let (mut checkpointer, _applied, _poll) = start_on(vec![stopped()], || true);
        checkpointer.hand_over(vec![(7, batch(7))]);
        let told = told(&mut checkpointer);
        assert!(matches!(told, Err(StoreError::Stopped { .. })), "{told:?}");
    }

    #[test]
    fn a_store_that_stops_between_two_batches_is_opened_again_while_it_is_known_why() {
        let has_room = Arc::new(AtomicBool::new(false));
        let seen = has_room.clone();
        let (mut checkpointer, applied, _poll) = start_on(vec![stopped()], move || seen.load(Ordering::Relaxed));
        std::thread::sleep(2 * CHECK);
        has_room.store(true, Ordering::Relaxed);
        checkpointer.hand_over(vec![(7, batch(7))]);
        assert!(checkpointer.end().unwrap());
        assert_eq!(applied.into_iter().count(), 1);
    }

    #[test]
    fn a_stop_does_not_wait_for_space() {
        let (mut checkpointer, _applied, _poll) = start(vec![StoreError::NoSpace]);
        checkpointer.is_stopping.store(true, Ordering::Relaxed);
        checkpointer.hand_over(vec![(0, batch(0)), (1, batch(1))]);
        assert!(!checkpointer.end().unwrap());
    }
}
