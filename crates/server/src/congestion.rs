//! How TCP sends on the connections of a node.
//!
//! Messages here are small and answers are waited for. BBR, which some systems have as their default, paces what is sent by
//! its estimate of the bandwidth, and that estimate is poor where there is never much to send: messages then wait for
//! milliseconds in the sender's kernel. Measured on loopback, see docs/performance.md.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// What is asked for in place of BBR: the first one that this process may use.
const WANTED: [&[u8]; 2] = [b"cubic", b"reno"];
/// As long as a name gets in the kernel.
const NAME_BYTES_MAX: usize = 16;

/// Makes a connection send at once, whatever the system's default is. A connection that cannot be made so works anyway.
pub(crate) fn send_unpaced(stream: &impl AsRawFd) {
    let descriptor = stream.as_raw_fd();
    if name(descriptor).is_some_and(|name| name.starts_with(b"bbr")) {
        let _ = WANTED.iter().find(|wanted| set(descriptor, wanted).is_ok());
    }
}

fn name(descriptor: RawFd) -> Option<[u8; NAME_BYTES_MAX]> {
    let mut name = [0; NAME_BYTES_MAX];
    let mut length = NAME_BYTES_MAX as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the buffer, which has as many.
    let outcome = unsafe {
        let value = name.as_mut_ptr().cast();
        libc::getsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, &raw mut length)
    };
    (outcome == 0).then_some(name)
}

fn set(descriptor: RawFd, name: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads the bytes of the name, which live through the call.
    let outcome = unsafe {
        let (value, length) = (name.as_ptr().cast(), name.len() as libc::socklen_t);
        libc::setsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, length)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_paced_connection_is_paced_no_more_and_others_are_left_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let before = name(stream.as_raw_fd()).expect("a TCP socket has one");
        send_unpaced(&stream);
        let after = name(stream.as_raw_fd()).expect("a TCP socket has one");
        assert!(!after.starts_with(b"bbr"));
        assert!(before == after || before.starts_with(b"bbr"));
        // Reno is always there; BBR may not be.
        set(stream.as_raw_fd(), b"reno").expect("anybody may ask for it");
        send_unpaced(&stream);
        assert!(name(stream.as_raw_fd()).expect("a TCP socket has one").starts_with(b"reno"));
    }
}
