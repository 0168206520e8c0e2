//! Whether a node could start, found out without starting it: what `quorate node --check` says beyond the file itself.

use std::ffi::CString;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
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

/// Looks at the data directory and the ports of a node; changes nothing.
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

/// The directory is or could be made, and files in it as well.
fn check_writable(path: &Path) -> Result<(), ServerError> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    // A relative path ends in the empty one, which is the working directory.
    let existing = existing.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = |reason| ServerError::DataDir { path: path.display().to_string(), reason };
    if !existing.is_dir() {
        return Err(refused(format!("{} is not a directory", existing.display())));
    }
    let name = CString::new(existing.as_os_str().as_bytes()).map_err(|_| refused("its name holds a NUL".to_owned()))?;
    // SAFETY: a plain system call on a string that ends with a NUL.
    if unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(refused(format!("{} cannot be written to: {error}", existing.display())));
    }
    Ok(())
}

fn check_port(address: SocketAddr, what: &'static str, key: &'static str) -> Result<(), ServerError> {
    let bound = TcpListener::bind(address);
    bound.map(drop).map_err(|source| ServerError::Listen { what, key, address, source })
}
