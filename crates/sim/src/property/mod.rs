//! What must hold in every run, one property a file. All are general: none knows of any particular bug.
//!
//! Linearizability and the fate of acknowledged writes are judged from the clients' history, in [`crate::check`].

pub mod agreement;
pub mod convergence;
pub mod log_size;
