//! Clusters of real processes, started through the program and used through a client library that is not ours: what is
//! acknowledged stays, whoever is killed.
//!
//! `QUORATE_KILLS=50 cargo test -p quorate --test cluster kill -- --nocapture` is the long run, `QUORATE_SEED` repeats
//! the random choices of one; the moments are the machine's own.

mod absent;
mod applications;
mod authority;
mod backup;
mod becoming;
mod chains;
mod clients;
mod come_and_go;
mod compat;
mod digests;
mod disk;
mod follow;
mod forget;
mod kill;
mod ledger;
mod life;
mod load;
mod local_reads;
mod many;
mod moves;
mod network;
mod nodes;
mod outside;
mod own;
mod own_leave;
mod own_led;
mod partition;
mod pause;
mod python;
mod quorum;
mod random;
mod register_changes;
mod register_load;
mod registers;
mod root;
mod routed;
mod stranded;
mod transactions;
mod tune;
mod upgrade;
