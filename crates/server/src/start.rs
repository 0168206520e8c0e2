//! From a configuration to a node that serves.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use mio::net::TcpListener;
use mio::{Interest, Poll, Waker};
use quorate_checkpoint::{FjallSettings, FjallStore, StoreError};
use quorate_front::{Access, Front, SlowLogSettings};
use quorate_node::level::FeatureLevel;
use quorate_node::root::Durability;
use quorate_node::{Forgotten, Host, HostSettings, OpenReport};
use quorate_wal::file::FileStorage;
use tracing::{error, info, warn};

use crate::admin::{self, Pulse};
use crate::applications::Applications;
use crate::auth::Gate;
use crate::config::Config;
use crate::directory::{Directory, Whose, random_u64, start_within};
use crate::links::Links;
use crate::priority::stepping_back;
use crate::reload::Reloader;
use crate::space;
use crate::supervisor::Supervisor;
use crate::tls::{Store, Watch};
use crate::worker::{
    Checkpointer, Clients, Clocks, Disk, Facts, Flusher, Lookups, Memory, Orders, Pace, SPACE_RETRY, Source, State,
    Worker, is_for_space,
};
use crate::{Meter, Node, ServerError, Stopper};

/// Tombstones of registers cost memory and nothing else: there is no hurry.
const TOMBSTONES_AFTER_US: u64 = 60_000_000;
/// About 2 ms of a turn.
const SAVED_PER_TURN: usize = 8192;
/// About 10 ms.
const ENCODED_AT_ONCE_MAX: usize = 4 << 20;
/// While the order of chains is mended each of them has a member less for a moment: not where nodes come and go.
const TURN_AFTER_US: u64 = 10_000_000;
/// File descriptors that are not for clients: log, checkpoints, links, HTTP.
const DESCRIPTORS_RESERVED: u64 = 512;
/// Its presence says that the directory was written without waiting for the disk.
const EPHEMERAL_MARK: &str = "ephemeral";

/// `None` if it was told to stop while it waited for space.
pub(crate) fn start(
    mut config: Config,
    meter: Meter,
    told_to_stop: impl FnMut() -> bool,
) -> Result<Option<Node>, ServerError> {
    config.check_exposure().map_err(ServerError::Exposed)?;
    let as_written = config.clone();
    config.limits.clients = clients_max(config.limits.clients);
    let directory = Directory::open(&config.node.data_dir, Whose::of(&config))?;
    check_ephemeral(&config, directory.forgotten())?;
    let tls = Store::open(&config.tls)?;
    let mut clocks = Clocks::new();
    let storage = open_storage(&config, &directory)?;
    let store_path = directory.checkpoint_path();
    let store_settings = FjallSettings { cache_bytes: config.storage.cache_bytes.0, ..FjallSettings::default() };
    let data_dir = config.node.data_dir.clone();
    let has_room = move || space::has_room(&data_dir);
    let open = || FjallStore::open(&store_path, &store_settings);
    let Some(store) = open_with_space(open, &has_room, told_to_stop)? else { return Ok(None) };
    let shelf = Arc::new(Mutex::new(Some(store.clone())));
    let readers = shelf.clone();
    let open_again = move || {
        let mut shelf = readers.lock().unwrap_or_else(PoisonError::into_inner);
        // It is in use for as long as somebody reads it.
        *shelf = None;
        let store = FjallStore::open(&store_path, &store_settings)?;
        Ok(shelf.insert(store).clone())
    };
    let seed = random()?;
    let (mut host, report) = Host::open(settings(&config, &directory, seed), &storage, &store, clocks.read())?;
    tell_of_start(&config, &directory, &report);

    let poll = Poll::new().map_err(io("make a poll"))?;
    let waker = Arc::new(Waker::new(poll.registry(), Source::Waker.token()).map_err(io("make a waker"))?);
    let client_listener = listen(&poll, config.listen.client, "clients", "client", Source::ClientListener)?;
    let peer_listener = listen(&poll, config.listen.peer, "the other nodes", "peer", Source::PeerListener)?;
    let pulse = Arc::new(Pulse::new());
    let token = admin::Expected::new(config.auth.admin_token_hash);
    let admin = listen_for_admin(&config, &waker, &pulse, token.clone(), tls.clone())?;
    let reloader = Reloader::new(as_written, admin.sender(), waker.clone(), token, tls.clone());
    let registry = || poll.registry().try_clone().map_err(io("share the poll"));
    let links = Links::new(&config, &directory, &mut host, peer_listener, registry()?, waker.clone(), tls.clone())?;
    let clients = Clients::new(client_listener, registry()?, config.limits, tls.clone().filter(|_| config.tls.client));
    let checkpointer = Checkpointer::start(store, open_again, has_room, waker.clone()).map_err(io("start a thread"))?;
    let applications = Applications::start(&config.applications, &waker).map_err(io("start a thread"))?;
    let lookups = Lookups::start(shelf, waker.clone()).map_err(io("start a thread"))?;
    info!(clients = %config.listen.client, peers = %config.listen.peer, admin = %config.listen.admin, "listening");

    let front_limits = quorate_front::Limits {
        output_length_max: config.limits.output_buffer_bytes,
        unanswered_length_max: config.limits.query_buffer_bytes,
        ..quorate_front::Limits::default()
    };
    let access = if config.auth.password_hash.is_some() { Access::Password } else { Access::Open };
    let gate = Gate::new(config.auth.password_hash.clone(), &waker).map_err(io("start a thread"))?;
    let watch = tls.clone().map(Watch::start).transpose().map_err(io("start a thread"))?;
    let pace = if config.node.ephemeral { Pace::Never } else { Pace::EachTurn };
    let mut front = Front::new(front_limits, access);
    let slow_log =
        SlowLogSettings { slower_than_us: config.log.slow_command_us, length_max: config.log.slow_commands_max };
    front.set_slow_log(slow_log);
    let flusher = Flusher::start(waker.clone()).map_err(io("start a thread"))?;
    let disk = Disk::new(storage, host.log_mut(), pace).with_flusher(flusher, config.storage.log_thread_from_us);
    let orders = Arc::new(Orders::default());
    let worker = Worker {
        poll,
        orders: orders.clone(),
        clocks,
        directory,
        is_ephemeral: config.node.ephemeral,
        host,
        front,
        gate,
        watch,
        disk,
        checkpointer,
        lookups,
        applications,
        clients,
        links,
        memory: Memory::new(meter, config.limits.maxmemory.0),
        admin,
        pulse,
        facts: Facts::new(&config, seed),
        supervisor: Supervisor::of_this_process(),
        state: State::new(),
    };
    let name = format!("worker-{}", config.node.name);
    let worker = std::thread::Builder::new().name(name).spawn(move || worker.run()).map_err(io("start a thread"))?;
    Ok(Some(Node { stopper: Stopper { orders, waker }, reloader, worker }))
}

/// Opens the checkpoint store once there is space for that. `None` if told to stop before.
fn open_with_space(
    mut open: impl FnMut() -> Result<FjallStore, StoreError> + Send,
    has_room: &impl Fn() -> bool,
    mut told_to_stop: impl FnMut() -> bool,
) -> Result<Option<FjallStore>, ServerError> {
    let mut had_space = true;
    loop {
        match stepping_back(&mut open).map_err(io("start a thread"))? {
            Ok(store) => return Ok(Some(store)),
            Err(failed) if is_for_space(&failed, has_room) => {
                if std::mem::replace(&mut had_space, false) {
                    error!("no space left to open the checkpoints: this node starts once there is");
                }
                std::thread::sleep(SPACE_RETRY);
                if told_to_stop() {
                    return Ok(None);
                }
            }
            Err(failed) => return Err(failed.into()),
        }
    }
}

fn io(action: &'static str) -> impl Fn(std::io::Error) -> ServerError {
    move |source| ServerError::Io { action, source }
}

fn random() -> Result<u64, ServerError> {
    random_u64().map_err(io("draw a random number"))
}

/// As many clients as the configuration says, or as there are descriptors for.
fn clients_max(configured: usize) -> usize {
    let possible = clients_possible();
    if possible < configured {
        warn!("at most {possible} clients can connect, not {configured}: this process may not open more files");
    }
    configured.min(possible)
}

/// As many clients as there are descriptors for, which are as many as the system grants.
pub(crate) fn clients_possible() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write the rlimit that they are given.
    let available = unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return usize::MAX >> 1;
        }
        let before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0 { limit.rlim_max } else { before }
    };
    clients_with(available)
}

/// How many clients there can be with so many descriptors.
fn clients_with(descriptors: u64) -> usize {
    usize::try_from(descriptors.saturating_sub(DESCRIPTORS_RESERVED)).unwrap_or(usize::MAX).max(1)
}

/// A directory that was written without waiting for the disk does not survive the machine.
fn check_ephemeral(config: &Config, forgotten: Forgotten) -> Result<(), ServerError> {
    let mark = config.node.data_dir.join(EPHEMERAL_MARK);
    if mark.exists() && forgotten == Forgotten::Unsynced {
        return Err(ServerError::EphemeralLost { path: config.node.data_dir.display().to_string() });
    }
    if config.node.ephemeral {
        std::fs::write(&mark, "").map_err(io("mark the data directory as ephemeral"))?;
    }
    Ok(())
}

fn open_storage(config: &Config, directory: &Directory) -> Result<FileStorage, ServerError> {
    // Direct writes are durable when they return: too slow where nobody waits for that.
    let is_hurried = config.defaults.durability != Durability::Sync || config.node.ephemeral;
    let path = directory.wal_path();
    Ok(if is_hurried { FileStorage::open_buffered(&path)? } else { FileStorage::open(&path)? })
}

fn settings(config: &Config, directory: &Directory, seed: u64) -> HostSettings {
    let identity = directory.identity();
    let mut nodes = config.node_records();
    // All nodes must begin with the same root, whatever the order in their files.
    nodes.sort_by_key(|node| node.id);
    HostSettings {
        node: config.node_id(),
        start: identity.start_number,
        nodes,
        joins: config.node.joins,
        defaults: config.settings(),
        cluster: config.cluster.id.0,
        timing: config.timing.peers(),
        timeout_ms: config.timing.timeout_ms,
        log: quorate_wal::Settings {
            known_end: quorate_wal::Lsn(identity.log_end),
            size_bytes_max: config.storage.log_bytes.0,
            index_bytes_max: config.storage.log_index_bytes.0 as usize,
            ..quorate_wal::Settings::new(identity.incarnation)
        },
        seed,
        checkpoint_bytes: config.storage.checkpoint_bytes.0,
        checkpoint_slots: config.storage.checkpoint_slots,
        encoded_at_once_max: ENCODED_AT_ONCE_MAX,
        saved_per_turn: SAVED_PER_TURN,
        rest_after_us: config.groups.rest_after_ms.saturating_mul(1000),
        awake_max: config.groups.awake_max as usize,
        turn_after_us: TURN_AFTER_US,
        tombstones_after_us: TOMBSTONES_AFTER_US,
        resting_bytes_max: config.groups.resting_bytes.0 as usize,
        records_bytes_max: config.groups.records_bytes.0 as usize,
        digest_bytes: config.groups.digest_bytes.0 as usize,
        follow_clients_at: config.groups.follow_clients_at,
        forgotten: directory.forgotten(),
        is_new: directory.is_new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        level_known: FeatureLevel::KNOWN,
        pid: std::process::id(),
        observe: false,
    }
}

fn tell_of_start(config: &Config, directory: &Directory, report: &OpenReport) {
    let (path, start) = (config.node.data_dir.display(), start_within(directory.identity().start_number));
    info!(
        node = %config.node.name,
        cluster = %config.cluster.id,
        directory = config.node.directory,
        start,
        groups = report.group_count,
        records = report.record_count,
        "started with the data in {path}"
    );
    if report.torn_bytes > 0 {
        info!("{} bytes at the end of the log were never acknowledged and are cut off", report.torn_bytes);
    }
    for damage in &report.damage {
        error!("{damage}");
    }
    if report.silent_count > 0 {
        match report.silent_count {
            1 => warn!("1 group may have forgotten what it said: it neither votes nor serves"),
            count => warn!("{count} groups may have forgotten what they said: they neither vote nor serve"),
        }
    }
    if directory.forgotten() == Forgotten::Everything {
        info!("it takes the place of a directory that was lost: the other nodes are to say what this one had");
    }
    if directory.is_new() && config.cluster.nodes.len() > 1 {
        info!("the data directory is new: this node neither votes nor serves until all others have accepted it");
    }
}

fn listen(
    poll: &Poll,
    address: SocketAddr,
    what: &'static str,
    key: &'static str,
    source: Source,
) -> Result<TcpListener, ServerError> {
    let listening = TcpListener::bind(address).and_then(|mut listener| {
        poll.registry().register(&mut listener, source.token(), Interest::READABLE)?;
        Ok(listener)
    });
    listening.map_err(|source| ServerError::Listen { what, key, address, source })
}

fn listen_for_admin(
    config: &Config,
    waker: &Arc<Waker>,
    pulse: &Arc<Pulse>,
    token: admin::Expected,
    tls: Option<Arc<Store>>,
) -> Result<admin::Port, ServerError> {
    let address = config.listen.admin;
    let refused = |source| ServerError::Listen { what: "HTTP", key: "admin", address, source };
    let listener = std::net::TcpListener::bind(address).map_err(refused)?;
    let tls = tls.filter(|_| config.tls.admin);
    admin::Port::open(listener, waker.clone(), pulse.clone(), token, tls, &config.node.name).map_err(io("serve HTTP"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_kept_back_for_what_is_no_client() {
        assert_eq!(clients_with(1024), 512);
        assert_eq!(clients_with(DESCRIPTORS_RESERVED + 1), 1);
        assert_eq!(clients_with(DESCRIPTORS_RESERVED), 1, "one can always look what is wrong");
        assert_eq!(clients_with(libc::RLIM_INFINITY), (u64::MAX - DESCRIPTORS_RESERVED) as usize);
    }
}
