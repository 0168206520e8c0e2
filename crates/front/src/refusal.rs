//! Errors that need nobody but the front, in the words of Redis 7.0.

use std::borrow::Cow;

use quorate_resp::{Arguments, ProtocolError};

use crate::specs::{Id, Spec};

/// The Redis whose commands, replies and errors these are.
pub const REDIS_VERSION: &str = "7.0.15";

/// An error line without the leading dash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(Cow<'static, [u8]>);

impl Refusal {
    pub(crate) const NO_AUTH: Refusal = Refusal::fixed("NOAUTH Authentication required.");
    pub(crate) const SYNTAX: Refusal = Refusal::fixed("ERR syntax error");
    pub(crate) const NOT_AN_INTEGER: Refusal = Refusal::fixed("ERR value is not an integer or out of range");
    pub(crate) const NEGATIVE: Refusal = Refusal::fixed("ERR value is out of range, must be positive");
    pub(crate) const STRING_TOO_LARGE: Refusal =
        Refusal::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub(crate) const NOT_A_FLOAT: Refusal = Refusal::fixed("ERR value is not a valid float");

    pub(crate) const KEY_TOO_LONG: Refusal = Refusal::fixed("ERR the key is longer than 64000 bytes");
    pub(crate) const CROSS_SLOT: Refusal = Refusal::fixed(
        "CROSSSLOT Keys in request don't hash to the same slot: give those that belong together a common hash tag, as {user:7}:name",
    );

    pub(crate) const NO_NAMESPACE: Refusal = Refusal::fixed("ERR DB index is out of range");
    pub(crate) const LOADING: Refusal = Refusal::fixed(crate::backend::LOADING);

    pub(crate) const fn fixed(text: &'static str) -> Refusal {
        Refusal(Cow::Borrowed(text.as_bytes()))
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn protocol(error: ProtocolError) -> Refusal {
        Refusal::of(format!("ERR {error}"))
    }

    pub(crate) fn wrong_arity(spec: &Spec) -> Refusal {
        let before = if spec.id == Id::Exec { "EXECABORT Transaction discarded because of:" } else { "ERR" };
        Refusal::of(format!("{before} wrong number of arguments for '{}' command", spec.name))
    }

    pub(crate) fn invalid_expire_time(spec: &Spec) -> Refusal {
        Refusal::of(format!("ERR invalid expire time in '{}' command", spec.name))
    }

    /// An error that quotes a word of the client between two texts.
    pub(crate) fn quoting(before: &str, word: &[u8], after: &str) -> Refusal {
        let mut text = before.as_bytes().to_vec();
        text.extend_from_slice(c_string(word, usize::MAX));
        text.extend_from_slice(after.as_bytes());
        Refusal(Cow::Owned(text))
    }

    pub(crate) fn unknown_command(words: Arguments<'_>) -> Refusal {
        let mut text = b"ERR unknown command '".to_vec();
        text.extend_from_slice(c_string(&words[0], PREVIEW_LENGTH_MAX));
        text.extend_from_slice(b"', with args beginning with: ");
        let preview = text.len();
        for word in words.from(1).iter() {
            let Some(left) = PREVIEW_LENGTH_MAX.checked_sub(text.len() - preview) else { break };
            if left == 0 {
                break;
            }
            text.push(b'\'');
            text.extend_from_slice(c_string(word, left));
            text.extend_from_slice(b"' ");
        }
        Refusal(Cow::Owned(text))
    }

    pub(crate) fn unknown_subcommand(container: &Spec, word: &[u8]) -> Refusal {
        let mut text = b"ERR unknown subcommand '".to_vec();
        text.extend_from_slice(c_string(word, PREVIEW_LENGTH_MAX));
        text.extend_from_slice(format!("'. Try {} HELP.", container.name.to_ascii_uppercase()).as_bytes());
        Refusal(Cow::Owned(text))
    }

    pub(crate) fn of(text: String) -> Refusal {
        Refusal(Cow::Owned(text.into_bytes()))
    }
}

/// Bytes of a client's words that an error repeats.
const PREVIEW_LENGTH_MAX: usize = 128;

/// Redis prints words with `%.128s`: up to a NUL, and no more than a limit.
pub(crate) fn c_string(word: &[u8], length_max: usize) -> &[u8] {
    let word = &word[..word.len().min(length_max)];
    let length = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
    &word[..length]
}
