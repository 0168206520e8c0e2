//! What `up --secure` makes up: a password, a token, and certificates, each in a file of the cluster's directory.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use quorate_server::auth::secrets::{PasswordHash, Token};
use quorate_server::config::{Auth, Tls};

use crate::cert::Authority;
use crate::failure::{Context, Failure};

/// For how long the certificates are good.
const DAYS: u32 = 365;

/// Where the secrets of a cluster are.
#[derive(Debug)]
pub(super) struct Secrets {
    pub(super) ca: PathBuf,
    pub(super) password: PathBuf,
    token: PathBuf,
    certificates: PathBuf,
}

impl Secrets {
    pub(super) fn of(dir: &Path) -> Secrets {
        let certificates = dir.join("tls");
        let (ca, password, token) = (certificates.join("ca.pem"), dir.join("password"), dir.join("admin-token"));
        Secrets { ca, password, token, certificates }
    }

    /// What nodes keep of a new password and a new token, both written to their files.
    pub(super) fn make_auth(&self) -> Result<Auth, Failure> {
        let (password, token) = (random()?, random()?);
        write(&self.password, password.expose())?;
        write(&self.token, token.expose())?;
        let hash = PasswordHash::make(password.expose().as_bytes()).map_err(|error| Failure(error.to_string()))?;
        Ok(Auth { password_hash: Some(hash), admin_token_hash: Some(token.hash()), insecure: false })
    }

    /// Certificates for nodes of these names.
    pub(super) fn make_certificates<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<(), Failure> {
        let authority = Authority::open(&self.certificates, DAYS)?;
        for name in names {
            let at = |file: String| self.certificates.join(file);
            authority.issue(name, &[], &at(format!("{name}.pem")), &at(format!("{name}-key.pem")))?;
        }
        Ok(())
    }
}

/// As it stands in the file of the node, which is in a directory beside that of the certificates.
pub(super) fn tls(name: &str) -> Tls {
    let at = |file: String| Path::new("../tls").join(file);
    Tls {
        client: true,
        peer: true,
        admin: true,
        client_certificates: false,
        certificate: at(format!("{name}.pem")),
        key: at(format!("{name}-key.pem")),
        ca: at("ca.pem".to_owned()),
    }
}

fn random() -> Result<Token, Failure> {
    Token::random().map_err(|error| Failure(error.to_string()))
}

fn write(path: &Path, secret: &str) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| writeln!(file, "{secret}"));
    written.context(format_args!("cannot write {}", path.display()))
}
