//! What changes of a configuration while its node runs: secrets, certificates and how much is logged. Everything else
//! is for the next start.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use mio::Waker;
use tracing::{error, info, warn};

use crate::admin::{Expected, Request};
use crate::config::Config;
use crate::log;
use crate::tls::Store;

#[derive(Clone, Debug)]
pub struct Reloader {
    /// What is in force, as far as it was written in a file.
    running: Config,
    requests: SyncSender<Request>,
    waker: Arc<Waker>,
    token: Expected,
    tls: Option<Arc<Store>>,
}

impl Reloader {
    pub(crate) fn new(
        running: Config,
        requests: SyncSender<Request>,
        waker: Arc<Waker>,
        token: Expected,
        tls: Option<Arc<Store>>,
    ) -> Reloader {
        Reloader { running, requests, waker, token, tls }
    }

    /// Takes what can be taken, and says in the log what that was and what was left.
    pub fn reload(&mut self, wanted: Config) {
        if let Err(reason) = wanted.check_exposure() {
            return error!("nothing of the configuration is taken: {reason}");
        }
        let mut taken = Vec::new();
        if wanted.auth.password_hash != self.running.auth.password_hash && self.take_password(&wanted) {
            taken.push("the password");
        }
        if wanted.auth.admin_token_hash != self.running.auth.admin_token_hash {
            self.running.auth.admin_token_hash = wanted.auth.admin_token_hash;
            self.token.set(wanted.auth.admin_token_hash);
            taken.push("the admin token");
        }
        if wanted.log.level != log::directives() && self.take_level(&wanted) {
            taken.push("the log level");
        }
        if let Some(tls) = &self.tls {
            tls.renew();
        }
        match taken.is_empty() {
            true => info!("the configuration was read again; neither secrets nor the log level have changed"),
            false => info!("the configuration was read again; taken anew: {}", taken.join(", ")),
        }
        if wanted != self.running {
            warn!("the configuration has other changes too, which take effect when the node is started again");
        }
    }

    fn take_password(&mut self, wanted: &Config) -> bool {
        let hash = wanted.auth.password_hash.clone();
        if self.requests.try_send(Request::Password(hash.clone().map(Box::new))).is_err() {
            error!("the node is too busy to change the password: send SIGHUP again");
            return false;
        }
        // A poll that is gone belongs to a worker that has ended.
        let _ = self.waker.wake();
        self.running.auth.password_hash = hash;
        true
    }

    fn take_level(&mut self, wanted: &Config) -> bool {
        match log::set(&wanted.log.level) {
            Ok(()) => {
                self.running.log.level = wanted.log.level.clone();
                true
            }
            Err(reason) => {
                error!("the log level stays: {reason}");
                false
            }
        }
    }
}
