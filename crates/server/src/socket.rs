//! Options of sockets that the standard library and mio do not set.

use std::io;
use std::os::fd::AsRawFd;

/// After so long without a word the other side is asked whether it is still there, as Redis asks.
pub(crate) const KEEP_ALIVE_S: libc::c_int = 300;
/// Without an answer it is asked again after so long, and given up after so many times.
const KEEP_ALIVE_AGAIN_S: libc::c_int = KEEP_ALIVE_S / 3;
const KEEP_ALIVE_COUNT: libc::c_int = 3;

/// A connection whose other side has vanished without a word ends by itself, though nobody writes to it.
pub(crate) fn keep_alive(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEP_ALIVE_S)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEP_ALIVE_AGAIN_S)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEP_ALIVE_COUNT)
}

/// A connection on which bytes go unacknowledged, or untaken, for so long is lost.
pub(crate) fn give_up_after(socket: &impl AsRawFd, milliseconds: libc::c_int) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, milliseconds)
}

fn set(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open, and the option's value is an int that lives through the call.
    let outcome = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
