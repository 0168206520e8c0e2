//! The admin port's connections: so many at once, and none that takes its time.
//!
//! A request must have arrived whole within the patience, counted from when the connection was made or last answered;
//! dripping bytes does not lengthen it. Who is one too many is told so.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at once.
pub(super) const CONNECTIONS_MAX: usize = 128;
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 22\r\n\r\n\
                          too many connections\r\n";

pub(super) struct Guarded<L> {
    listener: L,
    places: Arc<Semaphore>,
    patience: Duration,
}

pub(super) struct Connection<S> {
    stream: S,
    patience: Duration,
    ends_at: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl<L: Listener> Guarded<L> {
    pub(super) fn new(listener: L, connections_max: usize, patience: Duration) -> Guarded<L> {
        Guarded { listener, places: Arc::new(Semaphore::new(connections_max)), patience }
    }
}

impl<L: Listener> Listener for Guarded<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Connection<L::Io>, L::Addr) {
        loop {
            let (mut stream, address) = self.listener.accept().await;
            let Ok(place) = self.places.clone().try_acquire_owned() else {
                // Once, without waiting: if not even this much fits, it learns it from the closed connection.
                let _ = Pin::new(&mut stream).poll_write(&mut Context::from_waker(Waker::noop()), TOO_MANY);
                continue;
            };
            let ends_at = Box::pin(sleep(self.patience));
            return (Connection { stream, patience: self.patience, ends_at, _place: place }, address);
        }
    }

    fn local_addr(&self) -> io::Result<L::Addr> {
        self.listener.local_addr()
    }
}

impl<S> Connection<S> {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.ends_at.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        let ends_at = Instant::now() + self.patience;
        self.ends_at.as_mut().reset(ends_at);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Instant;

    use axum::Router;
    use axum::routing::get;

    use super::*;

    /// More than sockets hold.
    const LARGE_BYTES: usize = 64 << 20;

    /// Serves on a thread that ends with the test's process.
    fn serve(connections_max: usize, patience: Duration) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let listener = Guarded::new(listener, connections_max, patience);
                let router = Router::new().route("/", get(|| async { "served" }));
                let router = router.route("/large", get(|| async { vec![b'x'; LARGE_BYTES] }));
                axum::serve(listener, router).await
            })
        });
        address
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn request(stream: &mut TcpStream) -> String {
        // It may be refused before it is read.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let mut response = String::new();
        let _ = stream.read_to_string(&mut response);
        response
    }

    #[test]
    fn a_request_that_drips_is_cut_and_one_that_comes_at_once_is_not() {
        let patience = Duration::from_millis(300);
        let address = serve(8, patience);
        let began = Instant::now();
        let mut dripping = connect(address);
        // Until the other side closes: every byte comes well within the patience.
        while dripping.write_all(b"G").is_ok() {
            assert!(began.elapsed() < Duration::from_secs(20), "it is still listened to");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(began.elapsed() >= patience);
        assert!(request(&mut connect(address)).ends_with("served"));
    }

    #[test]
    fn who_does_not_read_the_answer_is_cut() {
        let address = serve(1, Duration::from_millis(300));
        let mut greedy = connect(address);
        greedy.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let began = Instant::now();
        while !request(&mut connect(address)).ends_with("served") {
            assert!(began.elapsed() < Duration::from_secs(20), "its place is not free again");
        }
        let mut received = Vec::new();
        let _ = greedy.read_to_end(&mut received);
        assert!(received.starts_with(b"HTTP/1.1 200") && received.len() < LARGE_BYTES, "{} bytes", received.len());
    }

    #[test]
    fn one_too_many_is_told_so_until_another_has_gone() {
        let address = serve(2, Duration::from_secs(60));
        let (first, _second) = (connect(address), connect(address));
        assert!(request(&mut connect(address)).starts_with("HTTP/1.1 503 "));
        drop(first);
        let began = Instant::now();
        while !request(&mut connect(address)).ends_with("served") {
            assert!(began.elapsed() < Duration::from_secs(20), "the place is not free again");
        }
    }
}
