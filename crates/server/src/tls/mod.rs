//! Encryption: the certificates of this node, whom they are shown to, and whose it trusts.
//!
//! Clients and administrators see this node's certificate and may be asked for one. Nodes always show theirs to each
//! other, each for its own name. All of it is read from files at the start and again whenever they change: connections
//! that are made then have the new ones, those that exist keep what they have, and files that are no good change
//! nothing.

mod expiry;
mod files;
mod stream;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ServerConfig};
use tracing::{error, info};

use crate::config;

pub(crate) use expiry::Expiry;
pub use files::{TlsError, client_config};
pub(crate) use stream::HANDSHAKE_RECORD;
pub use stream::Stream;
pub(crate) use watch::Watch;

/// What a client is told that speaks plainly to the encrypted client port.
pub(crate) const SPEAK_TLS: &[u8] = b"-ERR this port speaks TLS: connect with TLS, as in redis-cli --tls\r\n";
/// What an administrator is told that speaks plainly to the encrypted admin port.
pub(crate) const SPEAK_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
                                        content-type: application/json\r\ncontent-length: 43\r\n\r\n\
                                        {\"error\":\"this port speaks TLS: use https\"}\n";

/// What connections are made with.
#[derive(Debug)]
pub(crate) struct Material {
    /// For clients and administrators.
    pub(crate) outside: Arc<ServerConfig>,
    /// For other nodes, if links are encrypted.
    pub(crate) peers: Option<PeerMaterial>,
    pub(crate) expiries: Vec<Expiry>,
}

#[derive(Debug)]
pub(crate) struct PeerMaterial {
    pub(crate) accept: Arc<ServerConfig>,
    pub(crate) connect: Arc<ClientConfig>,
}

/// What is in use now, for all ports of a node.
#[derive(Debug)]
pub(crate) struct Store {
    config: config::Tls,
    current: Mutex<Arc<Material>>,
}

impl Store {
    /// None if no port is encrypted.
    pub(crate) fn open(config: &config::Tls) -> Result<Option<Arc<Store>>, TlsError> {
        if !config.is_used() {
            return Ok(None);
        }
        let current = Mutex::new(Arc::new(files::load(config)?));
        Ok(Some(Arc::new(Store { config: config.clone(), current })))
    }

    pub(crate) fn current(&self) -> Arc<Material> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again, and says in the log what came of it.
    pub(crate) fn renew(&self) {
        match files::load(&self.config) {
            Ok(material) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(material);
                info!("the certificates were read again; new connections use what the files hold now");
            }
            Err(reason) => error!("the certificates cannot be used, those before stay: {reason}"),
        }
    }
}

/// Whether a certificate that is known to be good is for this node.
pub(crate) fn is_for_node(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let (Ok(certificate), Ok(name)) = (ParsedCertificate::try_from(certificate), ServerName::try_from(name)) else {
        return false;
    };
    rustls::client::verify_server_name(&certificate, &name).is_ok()
}
