//! A connection's bytes, with TLS or without, over a socket that waits or one that does not.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustls::{ClientConnection, StreamOwned};

#[derive(Debug)]
pub(crate) enum Wire<S: Read + Write = TcpStream> {
    Plain(S),
    Tls(Box<StreamOwned<ClientConnection, S>>),
}

impl Wire {
    /// Goes on with a connection that has been used by waiting for it.
    pub(crate) fn without_waiting(self) -> io::Result<Wire<mio::net::TcpStream>> {
        let converted = |stream: TcpStream| {
            stream.set_nonblocking(true)?;
            io::Result::Ok(mio::net::TcpStream::from_std(stream))
        };
        match self {
            Wire::Plain(stream) => converted(stream).map(Wire::Plain),
            Wire::Tls(stream) => {
                let (session, stream) = stream.into_parts();
                Ok(Wire::Tls(Box::new(StreamOwned::new(session, converted(stream)?))))
            }
        }
    }
}

impl<S: Read + Write> Wire<S> {
    pub(crate) fn socket(&mut self) -> &mut S {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => stream.get_mut(),
        }
    }

    /// Whether a read that returns less than was asked for has emptied the socket. TLS hands out a record at a time.
    pub(crate) fn reads_all_there_is(&self) -> bool {
        matches!(self, Wire::Plain(_))
    }
}

impl<S: Read + Write> Read for Wire<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(stream) => stream.read(buffer),
        }
    }
}

impl<S: Read + Write> Write for Wire<S> {
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
