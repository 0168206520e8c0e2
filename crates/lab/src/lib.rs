//! The papers' experiments, run on the protocols' cores in an imagined world.
//!
//! Promises: the same arguments give the same figures, on every machine. What is simulated is what the paper says, the
//! latencies of messages and of work, and nothing else: no losses, and no disks and no bandwidth where an experiment does not
//! say so. Baselines that exist only to be compared with are models of a few lines beside the core that they are compared
//! with.
#![forbid(unsafe_code)]

pub mod flair;
pub mod outage;
pub mod plot;
pub mod qopt;
mod queue;
mod random;
pub mod rollup;
pub mod throughput;
