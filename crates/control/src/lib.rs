//! Which sizes quorums should have, from what is asked of them (Q-Opt, sections III-A and V), and which nodes a rolling upgrade restarts
//! next ([`upgrade`]).
//!
//! Promises of the former: the same arguments give the same answer; an answer is within the sizes allowed, and `R + W = N + 1`. Knows no
//! clock, no file and no node: whoever observes demand and makes changes calls it.
#![forbid(unsafe_code)]

pub mod analytic;
pub mod boost;
pub mod data;
pub mod follow;
pub mod oracle;
pub mod policy;
#[cfg(test)]
mod random;
pub mod rounds;
pub mod tree;
pub mod upgrade;

pub use oracle::{Advice, Measured, Oracle, Workload};
pub use policy::{Change, Kind, Settings, Sizes, Tunable, plan};
pub use rounds::{Phase, Rounds, Turn};
