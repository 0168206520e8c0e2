//! `quorate cert`: a certificate authority of one's own, for trying out encryption.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::failure::{Context, Failure};
use crate::output::say;

/// What every certificate is also for, so that clients on the same machine can connect.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const AUTHORITY_NAME: &str = "Quorate development CA";

const EXAMPLES: &str = "Examples:
  quorate cert n1 n2 n3                          for nodes of these names on this machine
  quorate cert n1 --host db1.example.org         for a node that clients reach as db1.example.org";

/// Make certificates for trying out encryption, and the authority that signs them
///
/// For each name DIR/NAME.pem and DIR/NAME-key.pem are made, signed by DIR/ca.pem, which is made first if there is no
/// DIR/ca-key.pem. A node's certificate is for its name in cluster.nodes, and for the hosts at which clients reach it.
/// Anybody with ca-key.pem can make more: for production, use an authority that guards its key.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Names of nodes, or of clients that show certificates
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Where the files are
    #[arg(long, value_name = "DIR", default_value = "./tls")]
    dir: PathBuf,
    /// A host name or address at which clients reach the nodes; may be given more than once
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// For how many days the certificates are good, from now
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let authority = Authority::open(&options.dir, options.days)?;
    for name in &options.names {
        let (certificate, key) = (format!("{name}.pem"), format!("{name}-key.pem"));
        if name == "ca" || name.contains('/') {
            return Err(Failure(format!("{name:?} cannot be a name here; use that of a node")));
        }
        authority.issue(name, &options.hosts, &options.dir.join(&certificate), &options.dir.join(&key))?;
        say(format_args!("{}, {}", options.dir.join(certificate).display(), options.dir.join(key).display()));
    }
    say(format_args!("signed by {}", authority.path.display()));
    Ok(ExitCode::SUCCESS)
}

/// Signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    days: u32,
    /// Of its own certificate.
    pub(crate) path: PathBuf,
}

impl Authority {
    /// Takes the one in the directory, or makes it.
    pub(crate) fn open(dir: &Path, days: u32) -> Result<Authority, Failure> {
        let (path, key_path) = (dir.join("ca.pem"), dir.join("ca-key.pem"));
        let params = authority_params(days)?;
        if key_path.exists() {
            let pem = std::fs::read_to_string(&key_path).context(format_args!("cannot read {}", key_path.display()))?;
            let key = KeyPair::from_pem(&pem).context(format_args!("{} holds no key", key_path.display()))?;
            return Ok(Authority { issuer: Issuer::new(params, key), days, path });
        }
        std::fs::create_dir_all(dir).context(format_args!("cannot make {}", dir.display()))?;
        let key = KeyPair::generate().context("cannot make a key")?;
        let certificate = params.self_signed(&key).context("cannot sign the authority's certificate")?;
        write(&path, &certificate.pem(), 0o644)?;
        write(&key_path, &key.serialize_pem(), 0o600)?;
        Ok(Authority { issuer: Issuer::new(params, key), days, path })
    }

    /// A certificate for this name and these hosts, as a server and as a client, and its key.
    pub(crate) fn issue(&self, name: &str, hosts: &[String], certificate: &Path, key: &Path) -> Result<(), Failure> {
        let mut names = vec![name.to_owned()];
        names.extend(HOSTS.map(str::to_owned));
        names.extend(hosts.iter().cloned());
        let mut params =
            CertificateParams::new(names).context(format_args!("{name:?} or a host cannot be certified"))?;
        set_validity(&mut params, self.days);
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let pair = KeyPair::generate().context("cannot make a key")?;
        let signed = params.signed_by(&pair, &self.issuer).context("cannot sign a certificate")?;
        // The key first: nodes that watch the files then see a pair that fits at the end.
        write(key, &pair.serialize_pem(), 0o600)?;
        write(certificate, &signed.pem(), 0o644)
    }
}

/// The same for each run, so that the certificate need not be read to sign with its key.
fn authority_params(days: u32) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(Vec::new()).context("cannot describe an authority")?;
    set_validity(&mut params, days);
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn set_validity(params: &mut CertificateParams, days: u32) {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let now = rcgen::date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A clock that is a little behind must not take it for one of the future.
    params.not_before = now - DAY;
    params.not_after = now + DAY * days;
}

/// Whole, or not at all.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let cannot = || format!("cannot write {}", path.display());
    let mut temporary = path.to_owned();
    temporary.as_mut_os_string().push(".new");
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(mode).open(&temporary);
    let mut file = opened.context(cannot())?;
    file.write_all(text.as_bytes()).context(cannot())?;
    std::fs::rename(&temporary, path).context(cannot())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_made_once_and_then_used() {
        let dir = std::env::temp_dir().join(format!("quorate-cert-{}", std::process::id()));
        let authority = Authority::open(&dir, 1).expect("made");
        let made = std::fs::read(&authority.path).expect("written");
        authority.issue("n1", &[], &dir.join("n1.pem"), &dir.join("n1-key.pem")).expect("issued");
        let again = Authority::open(&dir, 1).expect("opened");
        again.issue("n2", &["db2".to_owned()], &dir.join("n2.pem"), &dir.join("n2-key.pem")).expect("issued");
        assert_eq!(std::fs::read(&again.path).expect("still there"), made);
        let identity = (dir.join("n2.pem"), dir.join("n2-key.pem"));
        let config = quorate_server::tls::client_config(&again.path, Some((&identity.0, &identity.1)));
        assert!(config.is_ok(), "{config:?}");
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&identity.1).expect("there"));
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_dir_all(&dir).expect("ours");
    }
}
