//! A node as a process: its configuration, its data directory, its sockets and its worker threads.

pub mod config;
pub mod directory;

use config::Config;
use directory::{Directory, DirectoryError};

/// Why a node could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("this build has no worker: it can hold a data directory but serves nobody")]
    NoWorker,
}

/// Runs the node until it is told to stop.
pub fn run(config: Config) -> Result<(), ServerError> {
    let _directory = Directory::open(&config.node.data_dir, config.cluster.id, config.node_id())?;
    Err(ServerError::NoWorker)
}
