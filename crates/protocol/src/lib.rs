//! The replication protocols, as pure state machines.
//!
//! A replica is driven by events and answers with effects ([`effect`], start there). Nothing here reads a clock,
//! a socket or a disk, spawns, logs or blocks: time, randomness and what the node knows of its peers are arguments.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod chain;
pub mod effect;
pub mod id;
pub mod paxos;
pub mod peers;
pub mod planted;
pub mod quorum;
pub mod register;
pub mod router;
pub mod wire;

pub use effect::{After, Cx, Effect, Effects, Event, Proposal, Refusal, Replica};
pub use id::{Ballot, Configuration, Epoch, GroupId, Instant, NodeId, Payload, Slot, Stamp, Value};
