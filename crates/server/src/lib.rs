//! A node as a process: its configuration, its data directory, its sockets and its worker thread.
//!
//! [`run`] is all that the binary needs. [`Node`] is a node on threads of the caller's process, for tests.

mod admin;
mod applications;
pub mod auth;
mod check;
pub mod config;
pub mod directory;
pub mod inspect;
mod links;
mod log;
mod metrics;
mod priority;
mod reload;
mod socket;
mod space;
mod start;
mod supervisor;
pub mod tls;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::Waker;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

pub use check::{Checked, check};
pub use reload::Reloader;

use config::{Config, ConfigError};
use directory::DirectoryError;
use worker::{Order, Orders};

/// Tells how many bytes of memory are in use.
pub type Meter = fn() -> u64;

/// Why a node could not start or had to stop. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{0}")]
    Exposed(String),
    #[error("log.level cannot be used: {0}")]
    LogLevel(String),
    #[error("cannot listen on {address} for {what} ({source}); end what uses it or change listen.{key}")]
    Listen { what: &'static str, key: &'static str, address: SocketAddr, source: std::io::Error },
    #[error("node.data_dir cannot be {path}: {reason}")]
    DataDir { path: String, reason: String },
    #[error(
        "{path} was kept without waiting for the disk (node.ephemeral) and the machine was started since: what it holds \
         cannot be trusted; remove it"
    )]
    EphemeralLost { path: String },
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error("{}", open_words(.0))]
    Open(#[from] quorate_node::OpenError),
    /// What a start would have found.
    #[error("{0}")]
    WouldNotStart(String),
    #[error(transparent)]
    Peers(#[from] links::PinsError),
    /// The log cannot be trusted after any failure but a lack of space; nothing is tried again.
    #[error("the log failed and this node stops: {0}")]
    Log(#[from] quorate_wal::StorageError),
    #[error("{}", inspect::store_words(.0))]
    Store(#[from] quorate_checkpoint::StoreError),
    #[error("cannot {action}: {source}")]
    Io { action: &'static str, source: std::io::Error },
    #[error("this node stops: {0}")]
    Removed(String),
    #[error("the worker panicked, which is a bug: please report what it said above")]
    Panicked,
}

fn open_words(error: &quorate_node::OpenError) -> String {
    match error {
        quorate_node::OpenError::Store(error) => inspect::store_words(error),
        error => error.to_string(),
    }
}

/// Runs the node until SIGTERM or SIGINT, then stops it cleanly.
///
/// On SIGHUP it takes from the configuration, read anew by `reread`, what can change while it runs. `meter` tells what the
/// process has allocated: the server does not know which allocator there is.
pub fn run<R>(config: Config, meter: Meter, reread: R) -> Result<(), ServerError>
where
    R: Fn() -> Result<Config, ConfigError> + Send + 'static,
{
    log::begin(&config.log).map_err(ServerError::LogLevel)?;
    let io = |action| move |source| ServerError::Io { action, source };
    let mut signals =
        signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(io("listen for signals"))?;
    let told_to_stop = || signals.pending().any(|signal| signal != SIGHUP);
    let Some(node) = start::start(config, meter, told_to_stop)? else { return Ok(()) };
    let (stopper, mut reloader) = (node.stopper(), node.reloader());
    let wait_for_signals = move || {
        for signal in &mut signals {
            match signal {
                SIGHUP => match reread() {
                    Ok(config) => reloader.reload(config),
                    Err(reason) => tracing::error!("SIGHUP changes nothing: {reason}"),
                },
                signal => {
                    tracing::info!("told to stop by signal {signal}");
                    stopper.stop();
                }
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait_for_signals).map_err(io("start a thread"))?;
    node.wait()
}

/// A node that runs on threads of this process.
#[derive(Debug)]
pub struct Node {
    stopper: Stopper,
    reloader: Reloader,
    worker: JoinHandle<Result<(), ServerError>>,
}

/// Ends a node from anywhere.
#[derive(Clone, Debug)]
pub struct Stopper {
    orders: Arc<Orders>,
    waker: Arc<Waker>,
}

impl Node {
    /// Opens the data directory, recovers what it holds, listens and serves.
    /// The memory that it uses is that of the whole process, as the machine sees it.
    pub fn start(config: Config) -> Result<Node, ServerError> {
        Node::start_metered(config, || worker::resident_bytes().unwrap_or(0))
    }

    /// The same, with somebody who knows better what memory is in use.
    pub fn start_metered(config: Config, meter: Meter) -> Result<Node, ServerError> {
        let node = start::start(config, meter, || false)?;
        Ok(node.expect("nobody tells it to stop before it has started"))
    }

    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Waits until the node has ended.
    pub fn wait(self) -> Result<(), ServerError> {
        self.worker.join().unwrap_or(Err(ServerError::Panicked))
    }
}

impl Stopper {
    /// Hand over, answer what is in flight, flush, end.
    pub fn stop(&self) {
        self.order(Order::Stop);
    }

    /// End as a crash of the process would.
    pub fn kill(&self) {
        self.order(Order::Kill);
    }

    fn order(&self, order: Order) {
        self.orders.give(order);
        // A poll that is gone belongs to a worker that has ended.
        let _ = self.waker.wake();
    }
}
