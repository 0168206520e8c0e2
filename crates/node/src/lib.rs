//! A node, without the world it lives in: the groups of one worker, the way of a command from the node it enters to the
//! members that execute it and back, and what is kept of it all.
//!
//! Start at [`host::Host`]. Pure: no clocks, no random numbers, no sockets, no files, no threads. The server and the
//! simulator run the same host.

#![forbid(unsafe_code)]

mod ahead;
mod answer;
mod bodies;
mod chain_view;
mod changes;
pub mod clock;
pub mod entry;
mod envelope;
pub mod frame;
mod group_state;
mod hash;
pub mod host;
pub mod inspect;
pub mod level;
mod machine;
pub mod members;
mod named;
mod number;
mod office;
mod outbox;
mod own_changes;
mod own_groups;
mod own_place;
mod pace;
pub mod planted;
pub mod quorum;
mod readiness;
mod readmission;
mod recent;
pub mod record;
pub mod register;
pub mod replica;
mod rest;
mod results;
pub mod root;
mod seen;
mod shunned;
pub mod status;
mod timers;
pub mod volume;
mod wakings;

pub use answer::{AdminReply, Answer, Failure};
pub use clock::Moment;
pub use entry::Target;
pub use envelope::Ticket;
pub use group_state::GroupState;
pub use host::{
    Census, Counters, DigestCounts, Fault, Forgotten, Found, Group, Host, HostSettings, Lookup, ObjectCount, OpenError,
    OpenReport, OwnCounts, PanicIn, Submission,
};
pub use outbox::Carrier;
pub use readiness::Readiness;
