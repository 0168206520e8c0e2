//! Programs beside this node that objects are given to.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::check_name;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// What `FCALL` calls it.
    pub name: String,
    /// Where it listens.
    pub address: ApplicationAddress,
    /// How many objects it is given at once, over a connection each.
    #[serde(default = "four")]
    pub connections: u32,
    /// How long it may take to answer one call.
    #[serde(default = "a_second")]
    pub timeout_ms: u64,
}

/// `unix:` and a path, or an IP address and a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ApplicationAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

fn four() -> u32 {
    4
}

fn a_second() -> u64 {
    1000
}

const CONNECTIONS_MAX: u32 = 256;
/// As long as a client waits for anything else.
const TIMEOUT_MS_MAX: u64 = 60_000;
const APPLICATIONS_MAX: usize = 64;

impl Application {
    pub fn new(name: String, address: ApplicationAddress) -> Application {
        Application { name, address, connections: four(), timeout_ms: a_second() }
    }

    pub(super) fn check_all(applications: &[Application]) -> Result<(), String> {
        if applications.len() > APPLICATIONS_MAX {
            return Err(format!("{} applications are too many: list at most {APPLICATIONS_MAX}", applications.len()));
        }
        for (index, application) in applications.iter().enumerate() {
            let Application { name, connections, timeout_ms, .. } = application;
            check_name(name).map_err(|reason| format!("applications: {reason}"))?;
            if applications[..index].iter().any(|other| other.name == *name) {
                return Err(format!("applications lists {name:?} twice; each needs its own name"));
            }
            if !(1..=CONNECTIONS_MAX).contains(connections) {
                return Err(format!(
                    "applications: connections of {name:?} is {connections}; it can be 1 to {CONNECTIONS_MAX}"
                ));
            }
            if !(1..=TIMEOUT_MS_MAX).contains(timeout_ms) {
                return Err(format!(
                    "applications: timeout_ms of {name:?} is {timeout_ms}; it can be 1 to {TIMEOUT_MS_MAX}"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for ApplicationAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ApplicationAddress, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("an application's address lacks the path behind unix:".to_owned()),
            Some(path) => Ok(ApplicationAddress::Unix(path.into())),
            None => text.parse().map(ApplicationAddress::Tcp).map_err(|_| {
                format!("an application's address is unix:PATH, or an IP address and a port as in 127.0.0.1:9100, not {text:?}")
            }),
        }
    }
}

impl fmt::Display for ApplicationAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplicationAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            ApplicationAddress::Tcp(address) => address.fmt(f),
        }
    }
}

impl TryFrom<String> for ApplicationAddress {
    type Error = String;

    fn try_from(text: String) -> Result<ApplicationAddress, String> {
        text.parse()
    }
}

impl From<ApplicationAddress> for String {
    fn from(address: ApplicationAddress) -> String {
        address.to_string()
    }
}
