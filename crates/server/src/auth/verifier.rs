//! The thread that checks passwords, one after another.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use mio::Waker;
use ring::hmac;
use ring::rand::SystemRandom;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::secrets::PasswordHash;

pub(super) struct Job {
    pub(super) password: Zeroizing<Vec<u8>>,
    pub(super) hash: Arc<PasswordHash>,
}

/// Whether each password was right, in the order of the jobs.
pub(super) type Verdicts = Receiver<bool>;

/// Ends when nobody can give it jobs any more.
pub(super) fn start(jobs: Receiver<Job>, waker: Arc<Waker>) -> io::Result<Verdicts> {
    let (verdicts, receiver) = channel();
    let work = move || {
        for Job { password, hash } in jobs {
            if verdicts.send(hash.is_of(&password)).is_err() {
                return;
            }
            // A poll that is gone belongs to a worker that has ended.
            let _ = waker.wake();
        }
    };
    std::thread::Builder::new().name("passwords".into()).spawn(work)?;
    Ok(receiver)
}

/// Makes tags by which passwords are known again without being kept.
pub(super) struct Key(hmac::Key);

impl Key {
    /// One that nobody else has.
    pub(super) fn random() -> io::Result<Key> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.map(Key).map_err(|_| io::Error::other("cannot draw random bytes"))
    }

    pub(super) fn tag(&self, password: &[u8]) -> Tag {
        Tag(hmac::sign(&self.0, password))
    }
}

/// Compared in a time that does not tell how much is equal.
#[derive(Clone)]
pub(super) struct Tag(hmac::Tag);

impl PartialEq for Tag {
    fn eq(&self, other: &Tag) -> bool {
        self.0.as_ref().ct_eq(other.0.as_ref()).into()
    }
}
