//! The thread that writes the log where a write takes long, so that the worker goes on gathering meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::Waker;
use quorate_wal::{Errand, StorageError};

/// An errand that was done, or has failed, and how long that took.
pub(super) struct Done {
    pub(super) result: Result<(), StorageError>,
    pub(super) took: Duration,
}

/// It has one errand at a time.
pub(crate) struct Flusher {
    errands: Option<Sender<Errand>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(crate) fn start(waker: Arc<Waker>) -> io::Result<Flusher> {
        let (errands, todo) = channel::<Errand>();
        let (report, done) = channel();
        let work = move || {
            for errand in todo {
                let began = Instant::now();
                let result = errand();
                // Whoever has gone without waiting does not want to know. The waker only fails with its poll.
                let _ = report.send(Done { result, took: began.elapsed() });
                let _ = waker.wake();
            }
        };
        let thread = std::thread::Builder::new().name("log".into()).spawn(work)?;
        Ok(Flusher { errands: Some(errands), done, thread: Some(thread) })
    }

    pub(super) fn begin(&self, errand: Errand) {
        let errands = self.errands.as_ref().expect("it is given up only when it is dropped");
        // The thread ends before its worker only by a panic, which whoever waits for the errand tells of.
        let _ = errands.send(errand);
    }

    pub(super) fn try_take(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    /// # Panics
    /// If the thread has, which does nothing but write and sync.
    pub(super) fn wait(&self) -> Done {
        self.done.recv().expect("the thread that writes the log reports every errand")
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        drop(self.errands.take());
        if let Some(thread) = self.thread.take() {
            // What it panicked with has been told, and whoever waited for it has panicked as well.
            let _ = thread.join();
        }
    }
}
