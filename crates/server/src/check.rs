//! Whether a node could start, found out without starting it: what `quorate node --check` says beyond the file itself.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use quorate_checkpoint::Store;
use quorate_wal::Wal;
use quorate_wal::file::FileStorage;

use crate::config::Config;
use crate::directory::{Directory, DirectoryError, WAL, Whose};
use crate::inspect::{copy_store, store_words};
use crate::links::Pins;
use crate::{ServerError, tls};

/// There is no log before there is this.
const BOUNDS: &str = "wal/log.bounds";

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The node could start now, as far as could be seen.
    CanStart { unseen: Option<String> },
    /// The directory is in use, by this very node one may hope: neither it nor the ports could be looked at.
    Runs { pid: Option<u32> },
}

/// Looks at the data directory and the ports of a node; leaves nothing changed.
pub fn check(config: &Config) -> Result<Checked, ServerError> {
    config.check_exposure().map_err(ServerError::Exposed)?;
    tls::Store::open(&config.tls)?;
    let path = &config.node.data_dir;
    match Directory::check(path, Whose::of(config)) {
        Err(DirectoryError::InUse { pid, .. }) => return Ok(Checked::Runs { pid }),
        checked => checked?,
    }
    check_writable(path)?;
    let listen = &config.listen;
    check_port(listen.client, "clients", "client")?;
    check_port(listen.peer, "the other nodes", "peer")?;
    check_port(listen.admin, "HTTP", "admin")?;
    Ok(Checked::CanStart { unseen: check_contents(path)? })
}

/// What a start reads before it begins can be read. What could not be looked at, if anything.
fn check_contents(path: &Path) -> Result<Option<String>, ServerError> {
    let _lock = match Directory::lock_stopped(path) {
        Err(DirectoryError::NoNode { .. }) => return Ok(None),
        locked => locked?,
    };
    Pins::open(path)?;
    let identities = Directory::identities(path).into_iter().filter_map(|(_, read)| read.ok());
    if let Some(identity) = identities.max_by_key(|identity| identity.start_number)
        && path.join(BOUNDS).exists()
    {
        let storage = FileStorage::open_read_only(&path.join(WAL))?;
        let known_end = quorate_wal::Lsn(identity.log_end);
        let settings = quorate_wal::Settings { known_end, ..quorate_wal::Settings::new(identity.incarnation) };
        Wal::open(&storage, settings, |_| {}).map_err(quorate_node::OpenError::Log)?;
    }
    match copy_store(path) {
        Ok(None) => Ok(None),
        Ok(Some(copy)) => {
            let read = copy.store().and_then(|store| store.groups(&mut |_, _| {}));
            let words = |error| copy.named_after(&store_words(&error), &path.display().to_string());
            read.map(|()| None).map_err(|error| ServerError::WouldNotStart(words(error)))
        }
        Err(error) => {
            let copies = std::env::temp_dir();
            Ok(Some(format!("the checkpoints, which cannot be copied to {} to be read: {error}", copies.display())))
        }
    }
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
    use std::fs;

    use quorate_checkpoint::{FjallSettings, FjallStore};
    use quorate_protocol::NodeId;

    use super::*;
    use crate::config::ClusterId;
    use crate::directory::CHECKPOINT;

    #[test]
    fn a_place_where_nothing_can_be_made_is_refused() {
        let refusal = check_writable(Path::new("/proc/x")).expect_err("there is no making anything there").to_string();
        assert!(refusal.contains("/proc cannot be written to"), "{refusal}");
        assert!(check_writable(&std::env::temp_dir().join("quorate-none/deeper")).is_ok());
    }

    #[test]
    fn what_a_start_would_stumble_over_is_found_and_left_as_it_is() {
        let path = std::env::temp_dir().join(format!("quorate-checked-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        assert_eq!(check_contents(&path).expect("there is nothing"), None);
        drop(
            Directory::open(&path, Whose { cluster: ClusterId(1), node: NodeId(1), directory: 1 })
                .expect("a new directory"),
        );
        let store = path.join(CHECKPOINT);
        drop(FjallStore::open(&store, &FjallSettings::default()).expect("a new store"));
        assert_eq!(check_contents(&path).expect("all is well"), None);
        fs::write(path.join("peers"), "no list of peers").expect("it can be written to");
        let refusal = check_contents(&path).expect_err("it is damaged").to_string();
        assert!(refusal.contains("peers is damaged"), "{refusal}");
        fs::remove_file(path.join("peers")).expect("it is there");
        fs::remove_dir_all(&store).and_then(|()| fs::create_dir(&store)).expect("it is there");
        fs::write(FjallStore::count_path(&store), "no count").expect("it can be written to");
        let refusal = check_contents(&path).expect_err("it is damaged").to_string();
        assert!(refusal.contains(&*path.to_string_lossy()) && !refusal.contains("quorate-inspect-"), "{refusal}");
        assert_eq!(fs::read_dir(&store).expect("it is there").count(), 0, "nothing was made");
        let _ = fs::remove_dir_all(&path);
    }
}
