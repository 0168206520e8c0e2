//! Looks every second whether the files of certificates have changed, and takes the new ones.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tracing::{error, info};

use super::Store;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Ends with its value.
#[derive(Debug)]
pub(crate) struct Watch {
    _open: Sender<()>,
}

/// What tells a file from the same file before: its inode, size and time of change.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Watch {
    pub(crate) fn start(store: Arc<Store>) -> io::Result<Watch> {
        let (open, closed) = channel::<()>();
        let mut seen = stamps(&store);
        let work = move || {
            while closed.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let now = stamps(&store);
                if now == seen {
                    continue;
                }
                seen = now;
                match store.reload() {
                    Ok(()) => info!("the certificates have changed; new connections use the new ones"),
                    Err(reason) => {
                        error!("the certificates have changed and cannot be used, the old ones stay: {reason}")
                    }
                }
            }
        };
        std::thread::Builder::new().name("certificates".into()).spawn(work)?;
        Ok(Watch { _open: open })
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
