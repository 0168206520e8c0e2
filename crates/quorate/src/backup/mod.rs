//! `quorate backup` and `quorate restore`: everything that clients see of a cluster, in a file of Redis commands.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use quorate_resp::Value;

use crate::client::Client;
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
/// So often, which is a minute: a group without a quorum for longer needs somebody.
const TRIES: u32 = 300;

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
    for _ in 1..TRIES {
        match client.call(words)? {
            Value::Error(text) if is_for_now(&text) || text.starts_with("TIMEOUT") => thread::sleep(AGAIN_AFTER),
            _ => break,
        }
    }
    client.ask(words)
}

/// `1 object`, `2 objects`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
