//! Whole nodes on real sockets and disks, on threads of this process.

mod access;
mod cluster;
mod common;
mod encryption;
mod http;
mod limits;
mod memory;
mod operating;
mod silence;
mod strangers;
