//! A connection, encrypted or not: bytes in, bytes out, without waiting.
//!
//! Both kinds keep the contract of a socket whose readiness is told once for each change: `read` that gives less than
//! was asked for has emptied the socket, unless [`Stream::has_end`] says that there is still an end to be read; after a
//! `write` that took less, or with [`Stream::wants_write`], the socket will say when it takes more.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// What every TLS connection begins with: a record of the handshake.
pub(crate) const HANDSHAKE_RECORD: u8 = 22;

#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<Tls>),
}

#[derive(Debug)]
pub struct Tls {
    stream: TcpStream,
    session: Connection,
    /// The first byte has not been looked at; whoever does not begin a handshake is told this.
    notice: Option<&'static [u8]>,
    is_ended: bool,
}

impl Stream {
    /// The side that was connected to. With TLS, whoever does not speak it is told `notice`, as it is.
    pub fn accept(
        stream: TcpStream,
        config: Option<Arc<ServerConfig>>,
        notice: &'static [u8],
    ) -> Result<Stream, rustls::Error> {
        let Some(config) = config else { return Ok(Stream::Plain(stream)) };
        let session = Connection::Server(ServerConnection::new(config)?);
        Ok(Stream::Tls(Box::new(Tls { stream, session, notice: Some(notice), is_ended: false })))
    }

    /// The side that connects, to whoever has a certificate for this name.
    pub fn connect(
        stream: TcpStream,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> Result<Stream, rustls::Error> {
        let Some((config, name)) = tls else { return Ok(Stream::Plain(stream)) };
        let session = Connection::Client(ClientConnection::new(config, name)?);
        Ok(Stream::Tls(Box::new(Tls { stream, session, notice: None, is_ended: false })))
    }

    /// What is to be watched for readiness.
    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(tls) => &mut tls.stream,
        }
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Tls(tls) => tls.read(buffer),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    /// Sends what was taken and not sent yet.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(tls) => tls.flush(),
        }
    }

    /// Something was taken that the socket does not take yet.
    pub fn wants_write(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.session.wants_write(),
        }
    }

    /// An end was read that `read` has still to tell.
    pub fn has_end(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.is_ended,
        }
    }

    /// The two sides do not know yet that they can trust each other.
    pub fn is_handshaking(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.session.is_handshaking(),
        }
    }

    /// The other side's own certificate, if it has shown one that is good.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(tls) => tls.session.peer_certificates().and_then(<[_]>::first),
        }
    }

    /// Says goodbye, as far as the socket takes it at once.
    pub fn close(&mut self) {
        if let Stream::Tls(tls) = self {
            tls.session.send_close_notify();
            // It is over in any case.
            let _ = tls.flush();
        }
    }
}

impl Tls {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check_first_byte()?;
        let mut length = 0;
        while length < buffer.len() && !(self.is_ended && length > 0) {
            match self.session.reader().read(&mut buffer[length..]) {
                Ok(0) => {
                    self.is_ended = true;
                    break;
                }
                Ok(more) => {
                    length += more;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Cut off without a goodbye. Requests have ends of their own, so nothing is gained by it.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.is_ended = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            match self.session.read_tls(&mut self.stream) {
                Ok(_) => self.process()?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.flush()?;
        if length == 0 && !self.is_ended { Err(ErrorKind::WouldBlock.into()) } else { Ok(length) }
    }

    fn process(&mut self) -> io::Result<()> {
        match self.session.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                // The alert tells the other side why.
                let _ = self.flush();
                Err(io::Error::new(ErrorKind::InvalidData, error))
            }
        }
    }

    /// Whoever speaks plainly to a port that is encrypted is told so, in plain words.
    fn check_first_byte(&mut self) -> io::Result<()> {
        let Some(notice) = self.notice else { return Ok(()) };
        let mut first = [0];
        if self.stream.peek(&mut first)? > 0 {
            self.notice = None;
            if first[0] != HANDSHAKE_RECORD {
                // What it has sent is taken, or closing would throw the notice away.
                let _ = self.stream.read(&mut [0; 16 << 10]);
                let _ = self.stream.write(notice);
                let _ = self.stream.shutdown(Shutdown::Write);
                return Err(io::Error::new(ErrorKind::InvalidData, "it does not speak TLS"));
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            self.flush()?;
            if taken == bytes.len() || self.session.wants_write() {
                break;
            }
            match self.session.writer().write(&bytes[taken..])? {
                // It keeps only so much until the handshake is done.
                0 => break,
                more => taken += more,
            }
        }
        if taken == 0 && !bytes.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
