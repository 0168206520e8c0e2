//! `quorate backup` and `quorate restore`: everything that clients see of a cluster, in a file of Redis commands.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use quorate_resp::Value;

use crate::client::{Client, accepted};
use crate::failure::Failure;

mod file;
mod objects;
mod restore;
mod save;

pub(crate) use restore::Options as RestoreOptions;
pub(crate) use save::Options as SaveOptions;

/// Connections that read objects, or write them. Each has one answer under way that may be as large as objects are.
const CONNECTIONS: usize = 8;
/// Between one try and the next of what was not executed.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// A group without a quorum for longer than this needs somebody.
const PATIENCE: Duration = Duration::from_secs(60);
/// Values that nodes take.
const VALUE_BYTES_MAX: usize = 16 << 20;
/// Of a key, in what is told.
const KEY_SHOWN_BYTES: usize = 64;

pub(crate) fn save(options: &SaveOptions) -> Result<ExitCode, Failure> {
    save::run(options)
}

pub(crate) fn restore(options: &RestoreOptions) -> Result<ExitCode, Failure> {
    restore::run(options)
}

/// Whether an error says that nothing was done, and that it may be otherwise in a moment.
fn is_for_now(error: &str) -> bool {
    ["NOQUORUM", "TRYAGAIN", "LOADING", "MISCONF"].iter().any(|word| error.starts_with(word))
}

/// Asks what changes nothing, again if it has to be.
fn ask_again<T: AsRef<[u8]>>(client: &mut Client, words: &[T]) -> Result<Value, Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        match client.call(words)? {
            Value::Error(text) if may_be_asked_again(&text) && Instant::now() < until => thread::sleep(AGAIN_AFTER),
            answer => return accepted(answer),
        }
    }
}

/// Of what changes nothing, or is the same when done twice.
fn may_be_asked_again(error: &str) -> bool {
    is_for_now(error) || error.starts_with("TIMEOUT")
}

fn shown(key: &[u8]) -> String {
    let end = if key.len() > KEY_SHOWN_BYTES { "..." } else { "" };
    format!("{}{end}", key[..key.len().min(KEY_SHOWN_BYTES)].escape_ascii())
}

/// `1 object`, `2 objects`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
