//! Leaderless registers: read, overwrite and delete by key at any member (Rollup, sections III and IV; Q-Opt, section III).
//!
//! Promises: each key is a linearizable register, across crashes, lost, repeated and late messages, while configurations
//! change and quorums are resized, as long as records outlive their node. No operation waits for a leader or for a
//! reconfiguration: it goes on while each configuration in use has a live read quorum and a live write quorum.
//!
//! Refuses to know what values mean, who decides the sequence of configurations, how records are stored, how messages
//! travel and which clock is read.
//!
//! [`replica`] is the state and its entry points, [`member`] answers queries and stores, [`operation`] carries out what
//! clients ask, [`listing`] says which keys there are, [`renewal`] stores lazily what resized reads have found, [`errand`] moves state to a successor and forgets tombstones, [`view`] is what is known of configurations,
//! [`succession`] is how members decide them by themselves, where no parent does, [`seal`] is how a group ends.

mod errand;
mod listing;
mod member;
mod message;
mod operation;
mod record;
mod renewal;
mod replica;
mod request;
mod seal;
mod succession;
mod tag;
mod view;

pub use message::{Body, Entry, Message, Outline, Round};
pub use record::Record;
pub use replica::{Pace, Register};
pub use request::{Answer, Request, Status};
pub use succession::{Authority, Choice, Reach};
pub use tag::{Content, Key, Tag, Version};
pub use view::{Stage, View, are_sound};

/// A set of members is a `u64`.
pub const MEMBERS_MAX: usize = 64;
/// Operations that a replica carries out at once, and answers that it remembers; beyond it they are refused.
pub const OPERATIONS_MAX: usize = 1 << 16;
/// Listings among them: each holds up to a page of keys.
pub const LISTINGS_MAX: usize = 256;
/// Keys in one answer to a listing, and their bytes, if more than one key is in it.
pub const LIST_KEYS_MAX: usize = 1024;
pub const LIST_BYTES_MAX: usize = 1 << 20;
/// No register is written so often: a tag above it is nonsense.
pub const COUNTER_MAX: u64 = 1 << 62;
