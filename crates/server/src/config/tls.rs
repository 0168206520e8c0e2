//! Which ports are encrypted, and with what.

use std::path::{Path, PathBuf};

use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};

use super::Member;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    pub client: bool,
    pub peer: bool,
    pub admin: bool,
    /// Clients and administrators must show a certificate.
    pub client_certificates: bool,
    /// In PEM, as the other two. Relative to the file; once loaded, relative to the working directory or absolute.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Of the authority whose certificates are trusted.
    pub ca: PathBuf,
}

impl Default for Tls {
    fn default() -> Self {
        Tls {
            client: false,
            peer: false,
            admin: false,
            client_certificates: false,
            certificate: PathBuf::from("tls/node.pem"),
            key: PathBuf::from("tls/node-key.pem"),
            ca: PathBuf::from("tls/ca.pem"),
        }
    }
}

impl Tls {
    /// Some port is encrypted.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.client || self.peer || self.admin
    }

    /// What is relative counts from this directory.
    pub fn set_directory(&mut self, directory: &Path) {
        for path in [&mut self.certificate, &mut self.key, &mut self.ca] {
            *path = directory.join(&*path).components().collect();
        }
    }

    pub(super) fn check(&self, nodes: &[Member]) -> Result<(), String> {
        if self.client_certificates && !(self.client || self.admin) {
            return Err("tls.client_certificates needs tls.client or tls.admin; set one of them".to_owned());
        }
        let is_unfit = |node: &&Member| !matches!(ServerName::try_from(node.name.as_str()), Ok(ServerName::DnsName(_)));
        match nodes.iter().filter(|_| self.peer).find(is_unfit) {
            Some(node) => {
                Err(format!("tls.peer needs names that a certificate can hold, as a host's; {:?} is none", node.name))
            }
            None => Ok(()),
        }
    }
}
