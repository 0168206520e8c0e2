//! The connections of the admin port, encrypted or not.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tls::{HANDSHAKE_RECORD, SPEAK_HTTPS, Store};

/// How long a handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Listener {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Arc<Store>>,
}

type Handshake = Pin<Box<dyn Future<Output = io::Result<TlsStream<TcpStream>>> + Send>>;

/// One connection. Its handshake is part of its first reading, so that others can be accepted meanwhile.
pub(super) enum Connection {
    Plain(TcpStream),
    Greeting(Handshake),
    Tls(Box<TlsStream<TcpStream>>),
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
        let Some(store) = &self.tls else { return (Connection::Plain(stream), address) };
        let acceptor = TlsAcceptor::from(store.current().outside.clone());
        let handshake = async move {
            let accepted = tokio::time::timeout(HANDSHAKE_WITHIN, greet(acceptor, stream)).await;
            accepted.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
        };
        (Connection::Greeting(Box::pin(handshake)), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The handshake. Whoever speaks plainly to a port that is encrypted is told so, in plain words.
async fn greet(acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 || first[0] == HANDSHAKE_RECORD {
        return acceptor.accept(stream).await;
    }
    // What it has sent is taken, or closing would throw the answer away.
    stream.try_read(&mut vec![0; 16 << 10])?;
    stream.writable().await?;
    stream.try_write(SPEAK_HTTPS)?;
    Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak TLS"))
}

trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl Connection {
    /// The stream, once the handshake is over.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Both>>> {
        if let Connection::Greeting(handshake) = self {
            *self = Connection::Tls(Box::new(ready!(handshake.as_mut().poll(cx))?));
        }
        Poll::Ready(match self {
            Connection::Plain(stream) => Ok(Pin::new(stream)),
            Connection::Tls(stream) => Ok(Pin::new(stream.as_mut())),
            Connection::Greeting(_) => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.get_mut().poll_stream(cx))?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.get_mut().poll_stream(cx))?.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // Nothing was written that could be flushed.
            Connection::Greeting(_) => Poll::Ready(Ok(())),
            Connection::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Connection::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Greeting(_) => Poll::Ready(Ok(())),
            Connection::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Connection::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
