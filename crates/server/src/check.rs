//! Whether a node could start, found out without starting it: what `quorate node --check` says beyond the file itself.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use crate::config::Config;
use crate::directory::{Directory, DirectoryError};
use crate::{ServerError, tls};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The node could start now.
    CanStart,
    /// The directory is in use, by this very node one may hope: neither it nor the ports could be looked at.
    Runs { pid: Option<u32> },
}

/// Looks at the data directory and the ports of a node; leaves nothing changed.
pub fn check(config: &Config) -> Result<Checked, ServerError> {
    config.check_exposure().map_err(ServerError::Exposed)?;
    tls::Store::open(&config.tls)?;
    let path = &config.node.data_dir;
    match Directory::check(path, config.cluster.id, config.node_id()) {
        Err(DirectoryError::InUse { pid, .. }) => return Ok(Checked::Runs { pid }),
        checked => checked?,
    }
    check_writable(path)?;
    let listen = &config.listen;
    check_port(listen.client, "clients", "client")?;
    check_port(listen.peer, "the other nodes", "peer")?;
    check_port(listen.admin, "HTTP", "admin")?;
    Ok(Checked::CanStart)
}

/// The directory is or could be made, and files in it as well. Only an attempt can tell: what it made is removed again.
fn check_writable(path: &Path) -> Result<(), ServerError> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    // A relative path ends in the empty one, which is the working directory.
    let existing = existing.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = |reason| ServerError::DataDir { path: path.display().to_string(), reason };
    if !existing.is_dir() {
        return Err(refused(format!("{} is not a directory", existing.display())));
    }
    let tried = existing.join(format!(".quorate-check-{}", std::process::id()));
    let attempt = std::fs::create_dir(&tried).and_then(|()| std::fs::remove_dir(&tried));
    attempt.map_err(|error| refused(format!("{} cannot be written to: {error}", existing.display())))
}

fn check_port(address: SocketAddr, what: &'static str, key: &'static str) -> Result<(), ServerError> {
    let bound = TcpListener::bind(address);
    bound.map(drop).map_err(|source| ServerError::Listen { what, key, address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_where_nothing_can_be_made_is_refused() {
        let refusal = check_writable(Path::new("/proc/x")).expect_err("there is no making anything there").to_string();
        assert!(refusal.contains("/proc cannot be written to"), "{refusal}");
        assert!(check_writable(&std::env::temp_dir().join("quorate-none/deeper")).is_ok());
    }
}
