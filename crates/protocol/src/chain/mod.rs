//! Chain replication of one group (van Renesse and Schneider, "Chain Replication for Supporting High Throughput and
//! Availability", sections 2 to 4).
//!
//! Promises, for each group: updates take one order, the head's; every member decides them in that order, none before
//! every member of its configuration has it on disk; a read is answered from a state that holds everything answered
//! before it was asked. All of it across crashes and restarts, lost, repeated and late messages and changes of the
//! configuration, as long as records outlive their node, one established member is left, and whoever gives out
//! configurations keeps the rules of [`Membership`].
//!
//! Refuses to know what updates mean, who decides configurations and how, how records are stored, how messages travel
//! and which clock is read.
//!
//! [`replica`] is the state and its entry points, [`change`] adopts configurations, [`links`] forwards updates and
//! repairs, [`tail`] decides and extends, [`reads`] answers reads; [`history`] holds the updates that are not decided.

mod change;
mod history;
mod links;
mod membership;
mod message;
mod reads;
mod record;
mod replica;
mod tail;

pub use membership::{Membership, Place};
pub use message::{Body, Message, Request};
pub use record::{Position, Record};
pub use replica::{Chain, Extension, Order, Status};

/// Updates that a head has in flight at most; more are refused.
pub const WINDOW_SLOTS: usize = 4096;
/// Bytes of updates that a head has in flight at most, if it is more than one.
pub const WINDOW_BYTES: usize = 16 << 20;
/// Reads that wait; beyond it they are refused.
pub const WAITING_READS_MAX: usize = 1 << 16;
/// A joining member that lacks no more decided updates than this is waited for: see [`tail`].
pub const CLOSE_SLOTS: u64 = 256;
/// A chain's latency grows with each member. The last place is for who comes before another goes.
pub const MEMBERS_MAX: usize = 16;
