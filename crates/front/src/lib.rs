//! What a Redis client meets: bytes in, operations on objects out, outcomes gathered into replies in order.
//!
//! [`Front`] holds the connections of one worker. It parses requests, answers what concerns only the connection or this
//! server at once, turns everything else into [`Request`]s for a [`Backend`], and puts the [`Answer`]s, which come in any
//! order, into each connection's output in the order of its requests, worded as Redis 7.0 words them.
//!
//! It knows no sockets, no clocks (time is an argument) and nothing of where objects live. What it refuses to promise: a command
//! on each of several keys, such as MGET, is atomic for each key, not for all of them together.
//!
//! Read `front` first, then `specs` (the table of commands), `submit` and `object_command` (words to operations), `gather`
//! and `connection` (answers to replies), `application` (operations around what a program makes of an object).

#![forbid(unsafe_code)]

mod access;
mod application;
mod backend;
mod client;
mod command_info;
mod config;
mod connection;
mod double;
mod expiry;
mod front;
mod gather;
mod hash_command;
mod histogram;
mod info;
mod journal;
mod kill;
mod latest_by_key;
mod list_command;
mod object_command;
mod operations;
mod refusal;
mod reply;
mod scan;
mod session;
mod set_command;
mod slot_command;
mod slow_log;
mod sorted_set_command;
mod specs;
mod submit;
mod transaction;

pub use access::{Access, GUEST_OUTPUT_LENGTH_MAX};
pub use application::{Job, JobCall, JobId, Worked};
pub use backend::{
    Answer, Backend, Failure, IMMUTABLE, InfoSection, ObjectCount, OperationId, ReplyTree, Request, ServerInfo, Target,
    Verdict,
};
pub use config::config_integer;
pub use connection::ConnectionId;
pub use front::{Front, Limits, Progress};
pub use histogram::{BOUNDS_US, Histogram};
pub use journal::{Counts, SLOW_LOG_LENGTH_MAX, SlowLogSettings};
pub use quorate_object::{SLOT_COUNT, slot_of_key};
pub use refusal::REDIS_VERSION;
pub use specs::Kind;
