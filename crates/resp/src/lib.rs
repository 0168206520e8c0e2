//! The Redis serialization protocol, versions 2 and 3: parse and print. No I/O, no clocks, no dependencies.
//!
//! A server uses [`RequestParser`] and [`ReplyWriter`]; a client (our CLI, our benchmark, our tests) uses
//! [`write_request`] and [`ReplyParser`]. Both parsers are incremental: they take a growing buffer, never look twice at
//! what they have understood, and never allocate what a peer merely declares. What a command means is not known here.

#![forbid(unsafe_code)]

mod inline;
mod integer;
mod reply;
mod request;
mod value;

pub use integer::parse_integer;
pub use reply::{ReplyWriter, Version};
pub use request::{
    Arguments, GUEST_ARGUMENT_COUNT_MAX, GUEST_ARGUMENT_LENGTH_MAX, ProtocolError, Request, RequestLimits,
    RequestParser,
};
pub use value::{ReplyError, ReplyLimits, ReplyParser, Value, write_request};
