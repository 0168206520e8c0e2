//! From PEM files to what connections are made with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::{Expiry, Material, PeerMaterial};
use crate::config;

/// Why files cannot be used. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {reason}; it must hold {what} in PEM, as `quorate cert` writes it", path.display())]
    Unreadable { path: PathBuf, what: &'static str, reason: String },
    #[error("{} and {} do not go together: {reason}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, reason: String },
    #[error("{} cannot be trusted: {reason}", path.display())]
    Authority { path: PathBuf, reason: String },
}

/// This node's certificate and its key.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    certificate_path: PathBuf,
    key_path: PathBuf,
}

pub(super) fn load(config: &config::Tls) -> Result<Material, TlsError> {
    let identity = Identity::read(&config.certificate, &config.key)?;
    let mut expiries: Vec<Expiry> =
        Expiry::of("certificate", &config.certificate, &identity.chain)?.into_iter().collect();
    let roots = if config.peer || config.client_certificates {
        expiries.extend(Expiry::of("ca", &config.ca, &read_authorities(&config.ca)?)?);
        Some(Arc::new(read_roots(&config.ca)?))
    } else {
        None
    };
    let verifier = roots.as_ref().map(|roots| verifier(roots, &config.ca)).transpose()?;
    let outside_verifier = verifier.clone().filter(|_| config.client_certificates);
    let outside = identity.server(rustls::DEFAULT_VERSIONS, outside_verifier)?;
    let peers = match (roots, verifier) {
        (Some(roots), Some(verifier)) if config.peer => {
            let mut accept = identity.server(&[&TLS13], Some(verifier))?;
            // Links are made rarely, and each shows its certificate.
            accept.send_tls13_tickets = 0;
            Some(PeerMaterial { accept: Arc::new(accept), connect: Arc::new(identity.client(&[&TLS13], roots)?) })
        }
        _ => None,
    };
    Ok(Material { outside: Arc::new(outside), peers, expiries })
}

/// For a client: whom it trusts, and its own certificate and key if it has them.
pub fn client_config(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<ClientConfig, TlsError> {
    let roots = Arc::new(read_roots(ca)?);
    match identity {
        Some((certificate, key)) => Identity::read(certificate, key)?.client(rustls::DEFAULT_VERSIONS, roots),
        None => {
            let builder =
                ClientConfig::builder_with_provider(provider()).with_protocol_versions(rustls::DEFAULT_VERSIONS);
            Ok(builder.expect("the provider has these versions").with_root_certificates(roots).with_no_client_auth())
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl Identity {
    fn read(certificate: &Path, key: &Path) -> Result<Identity, TlsError> {
        let unreadable = |what| move |error: pem::Error| unreadable(key, what, &error);
        Ok(Identity {
            chain: read_certificates(certificate, "a certificate")?,
            key: PrivateKeyDer::from_pem_file(key).map_err(unreadable("a private key"))?,
            certificate_path: certificate.to_owned(),
            key_path: key.to_owned(),
        })
    }

    fn server(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        verifier: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<ServerConfig, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions);
        let builder = builder.expect("the provider has these versions");
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        builder.with_single_cert(self.chain.clone(), self.key.clone_key()).map_err(|error| self.no_pair(&error))
    }

    fn client(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        roots: Arc<RootCertStore>,
    ) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions);
        let builder = builder.expect("the provider has these versions").with_root_certificates(roots);
        builder.with_client_auth_cert(self.chain.clone(), self.key.clone_key()).map_err(|error| self.no_pair(&error))
    }

    fn no_pair(&self, error: &rustls::Error) -> TlsError {
        let (certificate, key) = (self.certificate_path.clone(), self.key_path.clone());
        TlsError::Pair { certificate, key, reason: error.to_string() }
    }
}

fn verifier(roots: &Arc<RootCertStore>, path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let built = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider()).build();
    match built {
        Ok(verifier) => Ok(verifier),
        Err(error) => Err(TlsError::Authority { path: path.to_owned(), reason: error.to_string() }),
    }
}

fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_authorities(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError::Authority { path: path.to_owned(), reason: error.to_string() })?;
    }
    Ok(roots)
}

fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    read_certificates(path, "the certificate of an authority")
}

/// At least one.
fn read_certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| unreadable(path, what, &error))?;
    if certificates.is_empty() {
        return Err(unreadable(path, what, &pem::Error::NoItemsFound));
    }
    Ok(certificates)
}

fn unreadable(path: &Path, what: &'static str, error: &pem::Error) -> TlsError {
    let reason = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "there is none in it".to_owned(),
        other => other.to_string(),
    };
    TlsError::Unreadable { path: path.to_owned(), what, reason }
}
