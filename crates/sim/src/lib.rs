//! The deterministic world in which the store is proven: a cluster of real hosts under faults, what clients do, what
//! they were told, and whether that can be true.
//!
//! A run follows from its seed alone. Nothing here reads a clock, the system's randomness, or the order of a hash map.

pub mod check;
pub mod history;
pub mod property;
pub mod random;
pub mod run;
pub mod workload;
pub mod world;
