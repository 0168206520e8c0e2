//! Looks every second whether the files of certificates have changed, and takes the new ones.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::{Expiry, Store};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Ends with its value.
#[derive(Debug)]
pub(crate) struct Watch {
    store: Arc<Store>,
    _open: Sender<()>,
}

/// What tells a file from the same file before: its inode, size and time of change.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Watch {
    pub(crate) fn start(store: Arc<Store>) -> io::Result<Watch> {
        let (open, closed) = channel::<()>();
        let mut seen = stamps(&store);
        let watched = store.clone();
        let work = move || {
            while closed.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let now = stamps(&watched);
                if now == seen {
                    continue;
                }
                seen = now;
                watched.renew();
            }
        };
        std::thread::Builder::new().name("certificates".into()).spawn(work)?;
        Ok(Watch { store, _open: open })
    }

    /// When what is in use runs out.
    pub(crate) fn expiries(&self) -> Vec<Expiry> {
        self.store.current().expiries.clone()
    }
}

fn stamps(store: &Store) -> [Stamp; 3] {
    let config = &store.config;
    [&config.certificate, &config.key, &config.ca].map(|path| stamp(path))
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}
