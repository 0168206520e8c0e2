//! Stoppable Multi-Paxos for millions of groups (GigaPaxos, sections 3.2 and 3.3).
//!
//! Promises, for each group: every slot is decided once; replicas execute the same values in slot order, nothing after a
//! stop; a read is answered from a state that holds everything answered before it was asked. All of it across crashes,
//! lost, repeated and late messages, as long as records outlive their node.
//!
//! Refuses to know what commands mean, how records are stored, how messages travel and which clock is read.
//!
//! [`replica`] is the state and its entry points, [`acceptor`] votes and follows, [`candidate`] wins a ballot,
//! [`coordinator`] proposes and reads with it; [`ledger`] holds the slots that are not executed yet; [`aside`] is how a
//! replica that lacks a quorum is made fit to leave memory; [`readmission`] how one that has
//! forgotten is taken in again, and [`seats`] how one is replaced.

mod acceptor;
mod aside;
mod candidate;
mod coordinator;
mod ledger;
mod look_ahead;
mod members;
mod message;
mod readmission;
mod reads;
mod record;
mod replica;
mod seats;
#[cfg(test)]
mod tests;

pub use message::{AcceptedValue, Message};
pub use readmission::Testimony;
pub use record::{Position, Record};
pub use replica::{Paxos, Role, Status};

/// Slots that a coordinator has in flight at most, from the first that is not executed.
pub const WINDOW_SLOTS: u64 = 256;
/// Bytes that a coordinator has in flight at most, if more than one slot is.
pub const WINDOW_BYTES: usize = 8 << 20;
/// Slots beyond its next one that an acceptor keeps: a follower that lost messages lags behind the coordinator's window.
/// With [`ACCEPTED_BYTES_MAX`] it bounds a promise, but that of a member that has just recovered: what that one holds is
/// bounded by the log since its checkpoint.
pub const ACCEPTED_SLOTS_MAX: u64 = 2 * WINDOW_SLOTS;
pub const ACCEPTED_BYTES_MAX: usize = 2 * WINDOW_BYTES;
/// Bytes of proposals that wait for the window; beyond it they are refused.
pub const WAITING_BYTES_MAX: usize = 16 << 20;
/// Reads that wait for a quorum round; beyond it they are refused.
pub const WAITING_READS_MAX: usize = 1 << 16;
/// A set of members is a `u64`; more members than this make a group slower, not safer.
pub const MEMBERS_MAX: usize = 15;
