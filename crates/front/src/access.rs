//! AUTH and HELLO: who may use a connection, and in which version of the protocol.
//!
//! There is one user, `default`, and it has a password or none. Whether a password is right is for the backend to say,
//! and may take it a while; meanwhile the request stays in the connection's input, and is carried out again from its
//! start once there is a verdict.

use quorate_resp::{Arguments, Version, parse_integer};

use crate::backend::{Backend, Verdict};
use crate::client;
use crate::connection::Connection;
use crate::front::Front;
use crate::object_command::Call;
use crate::refusal::{REDIS_VERSION, Refusal};
use crate::specs::{Id, Spec};

/// Whom a front serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody who connects.
    Open,
    /// Those who give the password. Until then a client is a guest, who may do little and within narrow limits.
    Password,
}

/// Bytes of replies that may wait for a guest, and of any single one: with more waiting no request is taken, and
/// whoever asks for a longer one is disconnected.
pub const GUEST_OUTPUT_LENGTH_MAX: usize = 1 << 10;

/// How far a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    /// It must be taken again, once what it waits for is there.
    Waits,
}

const WRONG: Refusal = Refusal::fixed("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD: Refusal = Refusal::fixed(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration \
     is correct?",
);
const HELLO_NO_AUTH: Refusal = Refusal::fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option \
     can be used to authenticate the client and select the RESP protocol version at the same time",
);

/// Whether the request may need a verdict, before which everything else must be answered.
pub(crate) fn may_verify(spec: &Spec, words: Arguments<'_>) -> bool {
    spec.id == Id::Auth || (spec.id == Id::Hello && words.len() > 2)
}

/// Carries out AUTH or HELLO.
pub(crate) fn execute<B: Backend>(
    front: &mut Front,
    index: usize,
    call: &Call<'_>,
    backend: &mut B,
) -> Result<Step, Refusal> {
    match call.spec.id {
        Id::Auth => auth(front, index, call.words, backend),
        _ => hello(front, index, call.words, backend),
    }
}

/// AUTH [user] password
fn auth<B: Backend>(front: &mut Front, index: usize, words: Arguments<'_>, backend: &mut B) -> Result<Step, Refusal> {
    match words.len() {
        2 if front.access == Access::Open => return Err(NO_PASSWORD),
        2 | 3 => {}
        _ => return Err(Refusal::SYNTAX),
    }
    let user = if words.len() == 3 { &words[1] } else { DEFAULT_USER };
    let step = authenticate(front, index, user, words, words.len() - 1, backend)?;
    if step == Step::Done {
        front.connections[index].reply(|writer| writer.simple("OK"));
    }
    Ok(step)
}

/// HELLO [version [AUTH user password] [SETNAME name]]. Options count from left to right until one is wrong; the version
/// changes only if all are right.
fn hello<B: Backend>(front: &mut Front, index: usize, words: Arguments<'_>, backend: &mut B) -> Result<Step, Refusal> {
    let version = match words.at(1).map(parse_integer) {
        None => front.connections[index].client.version,
        Some(Some(2)) => Version::Resp2,
        Some(Some(3)) => Version::Resp3,
        Some(Some(_)) => return Err(Refusal::fixed("NOPROTO unsupported protocol version")),
        Some(None) => {
            return Err(Refusal::fixed("ERR Protocol version is not an integer or out of range"));
        }
    };
    let mut at = 2;
    while let Some(option) = words.at(at) {
        let behind = words.len() - at - 1;
        if option.eq_ignore_ascii_case(b"AUTH") && behind >= 2 {
            let step = authenticate(front, index, &words[at + 1], words, at + 2, backend)?;
            if step == Step::Waits {
                return Ok(step);
            }
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && behind >= 1 {
            client::set_name(&mut front.connections[index], &words[at + 1])?;
            at += 2;
        } else {
            return Err(Refusal::quoting("ERR Syntax error in HELLO option '", option, "'"));
        }
    }
    let connection = &mut front.connections[index];
    if connection.is_guest {
        return Err(HELLO_NO_AUTH);
    }
    connection.client.version = version;
    welcome(connection);
    Ok(Step::Done)
}

const DEFAULT_USER: &[u8] = b"default";

/// Done once the connection is its user's. The password is the word at `at`.
fn authenticate<B: Backend>(
    front: &mut Front,
    index: usize,
    user: &[u8],
    words: Arguments<'_>,
    at: usize,
    backend: &mut B,
) -> Result<Step, Refusal> {
    if user != DEFAULT_USER {
        return Err(WRONG);
    }
    if front.access == Access::Open {
        return Ok(Step::Done);
    }
    let connection = &mut front.connections[index];
    let id = connection.id(index);
    let verdict = match &connection.verdict {
        // An earlier password was right, or this one would not have been looked at.
        Some((word, _)) if *word > at => Some(Verdict::Right),
        Some((word, verdict)) if *word == at => Some(verdict.clone()),
        _ => backend.verify(id, &connection.client.address, &words[at]),
    };
    match verdict {
        None => {
            connection.await_verdict(at);
            return Ok(Step::Waits);
        }
        Some(Verdict::Right) => connection.is_guest = false,
        Some(Verdict::Wrong) => return Err(WRONG),
        Some(Verdict::Refused(text)) => return Err(Refusal::of(text)),
    }
    Ok(Step::Done)
}

/// What HELLO replies.
fn welcome(connection: &mut Connection) {
    let id = connection.client.id as i64;
    let is_resp3 = connection.client.version == Version::Resp3;
    connection.reply(|writer| {
        writer.map(7);
        for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
            writer.bulk(name.as_bytes());
            writer.bulk(value.as_bytes());
        }
        writer.bulk(b"proto");
        writer.integer(if is_resp3 { 3 } else { 2 });
        writer.bulk(b"id");
        writer.integer(id);
        for (name, value) in [("mode", "standalone"), ("role", "master")] {
            writer.bulk(name.as_bytes());
            writer.bulk(value.as_bytes());
        }
        writer.bulk(b"modules");
        writer.array(0);
    });
}
