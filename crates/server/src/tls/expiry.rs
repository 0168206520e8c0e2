//! When certificates run out, so that somebody is told before.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::TlsError;

/// Before that many seconds a certificate that runs out is no news.
const SOON_S: i64 = 14 * DAY_S;
const DAY_S: i64 = 24 * 60 * 60;

/// Of a file: when the first of its certificates runs out.
#[derive(Clone, Debug)]
pub(crate) struct Expiry {
    /// The key of the configuration that names the file, without its table.
    pub(crate) name: &'static str,
    path: PathBuf,
    ends: ASN1Time,
}

impl Expiry {
    /// None of no certificates.
    pub(super) fn of(
        name: &'static str,
        path: &Path,
        certificates: &[CertificateDer<'static>],
    ) -> Result<Option<Expiry>, TlsError> {
        let mut first: Option<ASN1Time> = None;
        for certificate in certificates {
            let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| TlsError::Unreadable {
                path: path.to_owned(),
                what: "certificates",
                reason: error.to_string(),
            })?;
            let ends = parsed.validity().not_after;
            first = Some(first.map_or(ends, |first| first.min(ends)));
        }
        Ok(first.map(|ends| Expiry { name, path: path.to_owned(), ends }))
    }

    /// Seconds since the Unix epoch.
    pub(crate) fn ends_s(&self) -> i64 {
        self.ends.timestamp()
    }

    /// What to tell whoever asks how the node is, if it is time to.
    pub(crate) fn alarm(&self, now_s: i64) -> Option<String> {
        let left_s = self.ends_s() - now_s;
        let (path, ends) = (self.path.display(), self.ends);
        match left_s {
            ..=0 => Some(format!("the certificate in {path} ran out at {ends}: whoever is shown it refuses it")),
            1..SOON_S => {
                let days = left_s / DAY_S;
                Some(format!(
                    "the certificate in {path} runs out in {days} days, at {ends}: put a new one in its place"
                ))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(ends: (i32, u8, u8)) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(["n1".to_owned()]).expect("a name");
        params.not_after = rcgen::date_time_ymd(ends.0, ends.1, ends.2);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").der().clone()
    }

    #[test]
    fn the_first_that_runs_out_is_told_before_it_does() {
        let certificates = [certificate((2031, 1, 1)), certificate((2030, 1, 31)), certificate((2030, 2, 1))];
        let expiry = Expiry::of("certificate", Path::new("n1.pem"), &certificates).expect("parsed").expect("three");
        let ends_s = 1_896_048_000;
        assert_eq!(expiry.ends_s(), ends_s);
        assert_eq!(expiry.alarm(ends_s - SOON_S), None);
        let told = |now_s| expiry.alarm(now_s).expect("an alarm");
        assert!(told(ends_s - SOON_S + 1).starts_with("the certificate in n1.pem runs out in 13 days, at Jan 31"));
        assert!(told(ends_s - 1).contains("runs out in 0 days"));
        assert!(told(ends_s).starts_with("the certificate in n1.pem ran out at Jan 31"), "{}", told(ends_s));
        assert!(Expiry::of("ca", Path::new("ca.pem"), &[]).expect("parsed").is_none());
    }
}
