//! A connection that never waits, with TLS or without.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use rustls::{ClientConnection, StreamOwned};

use crate::client;

pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// Goes on with a connection that has been used by waiting for it.
    pub(super) fn new(stream: client::Wire) -> io::Result<Wire> {
        match stream {
            client::Wire::Plain(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Wire::Plain(TcpStream::from_std(stream)))
            }
            client::Wire::Tls(stream) => {
                let (session, stream) = stream.into_parts();
                stream.set_nonblocking(true)?;
                Ok(Wire::Tls(Box::new(StreamOwned::new(session, TcpStream::from_std(stream)))))
            }
        }
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => stream.get_mut(),
        }
    }

    /// Whether a read that returns less than was asked for has emptied the socket. TLS hands out a record at a time.
    pub(super) fn reads_all_there_is(&self) -> bool {
        matches!(self, Wire::Plain(_))
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.flush(),
            Wire::Tls(stream) => stream.flush(),
        }
    }
}
