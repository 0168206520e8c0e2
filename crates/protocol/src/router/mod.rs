//! Consistency-aware routing of reads, after FLAIR: linearizable reads of an ordered group at any member that is known to be
//! consistent.
//!
//! A *router* is a node at which clients enter. From the group's coordinator it has a *session*: a lease that lies within the
//! coordinator's own. The group's keys are divided into *kgroups*, and of each the router knows whether it is *stable*: no write
//! on it is under way, or will be, without the router having been told. A read of a stable kgroup is answered by any member that has
//! executed the slot of its last write; every other read goes to the coordinator.
//!
//! FLAIR's router is a switch that all traffic passes. Here several nodes may be routers of one group, and writes come by all
//! of them and past them, so stability is handed out and taken back: the coordinator *shares* a kgroup with a router when it
//! answers a read of it with no write on it in hand, and before it proposes a write it *recalls* the kgroup from every
//! other router that it shares it with. The router by which the write comes needs no recall: it counts its own writes.
//!
//! Whoever drives the two keeps these rules; `tests/router_model.rs` shows of each that without it a read is stale. An elected
//! coordinator tells its [`Sessions`], and proposes nothing for as long as a session lasts, *neither anew nor again what its
//! election found*: coordination may pass on before the leases of routers are over, and what a minority accepted long ago is
//! nothing that they were told of. It answers and shares nothing before it has executed what it found, and shares no kgroup on
//! which a write waits, or is proposed and not executed. A write is sent with the session that it was begun in, however often, and
//! told as lost if it ends without an answer, or without one that tells its slot in this group. A member answers once it has executed the slot. A session lasts longer at its
//! giver than at its holder, and no grant counts that an earlier process of the router's node asked for.
//!
//! [`Router`] is what a router knows of one group, [`Sessions`] what the group's coordinator knows of its routers. Why this is
//! safe, and where it differs from the paper, is told in docs/protocols/router.md.

mod kgroups;
mod sessions;
mod state;

pub use kgroups::{Kgroup, Scope};
pub use sessions::{ROUTERS_MAX, Recall, Sessions};
pub use state::{Place, Router};

use crate::id::NodeId;

/// Names a session as no other, whoever has coordinated since: its writes are told from those of every other by this alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    pub coordinator: NodeId,
    /// Never given twice by one node in one group.
    pub number: u64,
}

/// Counts the recalls of a session. A kgroup that was shared before it was recalled is not shared, whichever of the two the
/// router is told first.
pub type RecallNumber = u64;
