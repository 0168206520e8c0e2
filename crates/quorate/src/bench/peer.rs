//! Another server, measured in turns with the cluster so that a noisy machine is equally noisy for both.

use std::collections::HashSet;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use super::cpu::Processes;
use super::load::{Load, Measured};
use super::{Operation, etcd};
use crate::client::Endpoint;
use crate::failure::Failure;

/// How the server is spoken to, and what counts as one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// SET and GET: Redis, or another Quorate.
    Redis,
    /// A SET is followed by `WAIT 2 0` in the same packet, and is done when both are answered.
    RedisWait,
    Etcd,
}

#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    kind: Kind,
    /// The first is asked; the processor time of all is counted.
    endpoints: Vec<String>,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let (name, endpoints) = text.split_once('=').ok_or("say KIND=HOST:PORT,...")?;
        let kind = match name {
            "redis" | "quorate" => Kind::Redis,
            "redis+wait" => Kind::RedisWait,
            "etcd" => Kind::Etcd,
            _ => return Err("the kinds are redis, redis+wait, etcd and quorate".to_owned()),
        };
        let endpoints: Vec<String> = endpoints.split(',').map(str::to_owned).collect();
        if let Some(odd) = endpoints.iter().find(|endpoint| Endpoint::parse(endpoint).is_none()) {
            return Err(format!("'{odd}' is no HOST:PORT"));
        }
        Ok(Peer { name: name.to_owned(), kind, endpoints })
    }
}

impl Peer {
    /// The processes that listen at its endpoints; without all of them no processor time is told.
    pub(super) fn processes(&self) -> Processes {
        let pids: Option<HashSet<u32>> = self.endpoints.iter().map(|endpoint| listener(endpoint)).collect();
        pids.map_or_else(Processes::default, |pids| Processes::of(pids.into_iter().collect()))
    }

    /// Whether it can be given this load at all.
    pub(super) fn check(&self, operation: Operation, pipeline: u32) -> Result<(), Failure> {
        let problem = match self.kind {
            Kind::Etcd if pipeline > 1 => "etcd has no pipelining: leave out --pipeline",
            Kind::Etcd | Kind::RedisWait if operation == Operation::Get => "only writes are compared: say --ops set",
            _ => return Ok(()),
        };
        Err(Failure(format!("{}: {problem}", self.name)))
    }

    pub(super) fn measure(&self, load: &Load, processes: &Processes) -> Result<Measured, Failure> {
        match self.kind {
            Kind::Redis => load.run(&[self.asked()?], processes),
            Kind::RedisWait => load.waiting().run(&[self.asked()?], processes),
            Kind::Etcd => etcd::run(load, &self.endpoints, processes),
        }
        .map_err(|Failure(why)| Failure(format!("{}: {why}", self.name)))
    }

    /// The first endpoint, which is given no password.
    fn asked(&self) -> Result<Endpoint, Failure> {
        let text = &self.endpoints[0];
        Endpoint::parse(text).ok_or_else(|| Failure(format!("'{text}' is no HOST:PORT")))
    }
}

/// The process on this machine that listens at an address, as far as this user may know.
fn listener(endpoint: &str) -> Option<u32> {
    let address = endpoint.to_socket_addrs().ok()?.next()?;
    let inodes: HashSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening_inodes(&table, address))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let targets = descriptors.flatten().filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        let mut names = targets.filter_map(|target| target.to_str().map(str::to_owned));
        names.any(|name| inodes.contains(&name))
    })
}

/// `socket:[N]` of every socket in the table that listens on the address's port.
fn listening_inodes(table: &str, address: SocketAddr) -> Vec<String> {
    const LISTENING: &str = "0A";
    let port = format!(":{:04X}", address.port());
    let lines = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let listening = lines.filter(|words| words.len() > 9 && words[1].ends_with(&port) && words[3] == LISTENING);
    listening.map(|words| format!("socket:[{}]", words[9])).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listening_process_is_found_by_its_address() {
        let listening = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = listening.local_addr().expect("bound").to_string();
        assert_eq!(listener(&endpoint), Some(std::process::id()));
        drop(listening);
        assert_eq!(listener(&endpoint), None);
    }

    #[test]
    fn peers_are_named_by_kind_and_endpoints() {
        let peer: Peer = "redis+wait=127.0.0.1:6380,127.0.0.1:6381".parse().expect("well-formed");
        assert_eq!((peer.kind, peer.endpoints.len()), (Kind::RedisWait, 2));
        for wrong in ["redis", "mysql=127.0.0.1:1", "etcd=somewhere", "redis=here:port"] {
            assert!(wrong.parse::<Peer>().is_err(), "{wrong}");
        }
        assert!(peer.check(Operation::Get, 1).is_err() && peer.check(Operation::Set, 16).is_ok());
    }
}
