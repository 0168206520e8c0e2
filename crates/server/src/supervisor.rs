//! Tells systemd how the node is, as `Type=notify` of a unit asks for: that it serves, and that it stops.
//!
//! One datagram to the socket that the environment names; without one nobody is told. A message that is lost does no
//! harm here, so errors are logged and nothing is tried again.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

#[derive(Debug)]
pub(crate) struct Supervisor {
    /// Where it listens, if there is one.
    socket: Option<OsString>,
    has_served: bool,
}

impl Supervisor {
    pub(crate) fn of_this_process() -> Supervisor {
        Supervisor::at(std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()))
    }

    fn at(socket: Option<OsString>) -> Supervisor {
        Supervisor { socket, has_served: false }
    }

    /// The node serves: told once.
    pub(crate) fn serves(&mut self) {
        if !std::mem::replace(&mut self.has_served, true) {
            self.tell("READY=1\nSTATUS=serving");
        }
    }

    pub(crate) fn stops(&self) {
        self.tell("STOPPING=1\nSTATUS=handing over and flushing");
    }

    fn tell(&self, message: &str) {
        let Some(name) = &self.socket else { return };
        if let Err(error) = send(name, message.as_bytes()) {
            tracing::warn!("systemd cannot be told {:?}: {error}", message.lines().next().unwrap_or_default());
        }
    }
}

/// A name that begins with `@` is one of Linux's abstract ones, and no path.
fn send(name: &OsStr, message: &[u8]) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_by_path_or_abstract_name() {
        let unique = format!("quorate-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&unique);
        let abstract_address = SocketAddr::from_abstract_name(&unique).expect("a name");
        let sockets = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).expect("a socket")),
            (format!("@{unique}").into(), UnixDatagram::bind_addr(&abstract_address).expect("a socket")),
        ];
        for (name, socket) in sockets {
            socket.set_nonblocking(true).expect("a socket");
            let mut supervisor = Supervisor::at(Some(name));
            supervisor.serves();
            supervisor.serves();
            supervisor.stops();
            let received = || {
                let mut buffer = [0; 256];
                let length = socket.recv(&mut buffer).ok()?;
                Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
            };
            assert_eq!(received().as_deref(), Some("READY=1\nSTATUS=serving"));
            assert!(received().is_some_and(|message| message.starts_with("STOPPING=1\n")));
            assert_eq!(received(), None);
        }
        std::fs::remove_file(path).expect("there");
        Supervisor::at(Some("/nonexistent/socket".into())).serves();
        Supervisor::at(None).serves();
    }
}
