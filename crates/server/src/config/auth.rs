//! Who may use the node, and from where.

use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Config, Listen};
use crate::auth::secrets::{PasswordHash, TokenHash};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// Of the password of Redis clients; without one everybody may come.
    #[serde(with = "text_or_empty")]
    pub password_hash: Option<PasswordHash>,
    /// Of the bearer token on the admin port; without one everybody may come.
    #[serde(with = "text_or_empty")]
    pub admin_token_hash: Option<TokenHash>,
    /// Serve everybody also on addresses that others can reach.
    pub insecure: bool,
}

impl Config {
    /// Refuses to serve strangers: what listens elsewhere than on this machine asks who is there, or says that it
    /// does not.
    pub fn check_exposure(&self) -> Result<(), String> {
        if self.auth.insecure {
            return Ok(());
        }
        let Listen { client, admin, .. } = self.listen;
        let asks = |is_encrypted: bool| is_encrypted && self.tls.client_certificates;
        if is_exposed(client) && self.auth.password_hash.is_none() && !asks(self.tls.client) {
            return Err(exposed("client", client, "set auth.password_hash to what `quorate password` prints"));
        }
        if is_exposed(admin) && self.auth.admin_token_hash.is_none() && !asks(self.tls.admin) {
            return Err(exposed("admin", admin, "set auth.admin_token_hash to what `quorate token` prints"));
        }
        Ok(())
    }
}

fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

fn exposed(key: &str, address: SocketAddr, what_to_do: &str) -> String {
    format!(
        "listen.{key} is {address}, which others can reach, and whoever does may do anything: {what_to_do}, or listen on \
         127.0.0.1; --insecure serves everybody all the same"
    )
}

/// Something that is written in the file as it is displayed, where an empty text stands for none.
mod text_or_empty {
    use super::*;

    pub(super) fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_str(""),
        }
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(de::Error::custom) }
    }
}
