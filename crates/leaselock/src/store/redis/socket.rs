//! The socket of a connection: opened by us, so that we decide how it ends.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// An answer of ours is some kilobytes; a server that sends this much without completing one is no server of ours.
const UNANSWERED_MAX: usize = 4 << 20;
/// An error line with room to spare.
const FIRST_MAX: usize = 1024;
/// How long sent bytes may stay unacknowledged, and how soon an idle line is probed: a silently dead peer is noticed
/// even by a connection that nobody uses.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX_MS: u32 = 10_000;
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// The transport of one connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Stream {
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(stream) => Some(stream),
            Stream::Unix(_) => None,
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => Some(stream.get_ref().0),
        }
    }
}

/// No delay, because requests are small and wait for answers; and probes, because a peer may vanish.
pub(super) fn tune(stream: &TcpStream) {
    use rustix::net::sockopt;
    ignore(stream.set_nodelay(true));
    ignore(sockopt::set_socket_keepalive(stream, true));
    ignore(sockopt::set_tcp_keepidle(stream, PROBE_AFTER));
    ignore(sockopt::set_tcp_keepintvl(stream, PROBE_EVERY));
    ignore(sockopt::set_tcp_keepcnt(stream, PROBES));
    #[cfg(target_os = "linux")]
    ignore(sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MAX_MS));
}

/// Options are a courtesy of the system: a connection without them still works.
fn ignore<E>(_: Result<(), E>) {}

/// What the owner of a connection keeps while the socket itself belongs to the driver.
#[derive(Debug, Default)]
pub(super) struct SocketControl {
    abort: AtomicBool,
    /// It was given up because a request had no answer in time.
    silent: AtomicBool,
    unanswered: AtomicUsize,
    /// The beginning of what came first.
    first: OnceLock<Vec<u8>>,
    /// What ended a connection over TLS.
    #[cfg(feature = "tls")]
    ended: OnceLock<io::Error>,
}

impl SocketControl {
    /// The socket's end will throw away what it has not sent yet, so that a request that nobody waits for any more
    /// does not reach a stalled server later.
    pub(super) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
    }

    /// The server has not answered in time, so nobody waits for it on this connection any more.
    pub(super) fn give_up_on_silence(&self) {
        self.silent.store(true, Ordering::Release);
        self.abort();
    }

    /// The connection ended by that, and not by the server.
    pub(super) fn was_silent(&self) -> bool {
        self.silent.load(Ordering::Acquire)
    }

    /// The error line that the server began with. One that lets nobody in says so before it is asked, and the client
    /// drops what is no answer to a request.
    pub(super) fn first_error(&self) -> Option<String> {
        let text = String::from_utf8_lossy(self.first.get()?.strip_prefix(b"-")?);
        text.split_once("\r\n").map(|(line, _)| line.to_owned())
    }

    /// What the server has said against our certificate, with which TLS was agreed on at first.
    #[cfg(feature = "tls")]
    pub(super) fn tls_trouble(&self, host: &str) -> Option<crate::base::error::StoreError> {
        super::tls::refused(self.ended.get()?, host)
    }

    /// An answer was complete.
    pub(super) fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }
}

/// A transport on a control.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    control: Arc<SocketControl>,
}

impl Socket {
    pub(super) fn new(stream: Stream, control: Arc<SocketControl>) -> Self {
        Socket { stream, control }
    }
}

#[cfg(feature = "tls")]
impl Socket {
    /// Keeps the reason for the end of a connection over TLS, which the client does not pass on. When writing fails,
    /// the reason lies unread before the end: the server said it and hung up.
    fn note_end<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let (Poll::Ready(Err(error)), Stream::Tls(stream)) = (&polled, &mut self.stream) else {
            return polled;
        };
        let mut scratch = [0; 1];
        let reason = match Pin::new(&mut **stream).poll_read(cx, &mut ReadBuf::new(&mut scratch)) {
            Poll::Ready(Err(reason)) if is_from_tls(&reason) => reason,
            _ => same(error),
        };
        self.control.ended.get_or_init(|| reason);
        polled
    }
}

/// An error cannot be copied; one of TLS can.
#[cfg(feature = "tls")]
fn same(error: &io::Error) -> io::Error {
    use tokio_rustls::rustls;
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(inner) => io::Error::new(error.kind(), inner.clone()),
        None => error.kind().into(),
    }
}

#[cfg(feature = "tls")]
fn is_from_tls(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<tokio_rustls::rustls::Error>())
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.control.abort.load(Ordering::Acquire)
            && let Some(stream) = self.stream.tcp()
        {
            // When it fails the socket is closed already, or will be without a reset.
            ignore(stream.set_zero_linger());
        }
    }
}

/// Runs the same poll on whichever transport this is.
macro_rules! poll {
    ($socket:expr, $stream:ident => $body:expr) => {
        match &mut $socket.stream {
            Stream::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $body
            }
            Stream::Unix(stream) => {
                let $stream = Pin::new(stream);
                $body
            }
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                let $stream = Pin::new(&mut **stream);
                $body
            }
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = poll!(self, stream => stream.poll_read(cx, buf));
        let read = buf.filled().len() - before;
        if read > 0 {
            let news = &buf.filled()[before..];
            self.control
                .first
                .get_or_init(|| news[..read.min(FIRST_MAX)].to_vec());
        }
        if self.control.unanswered.fetch_add(read, Ordering::Relaxed) + read > UNANSWERED_MAX {
            // Of this kind, because the client takes other kinds for errors that pass.
            let error = io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the server's answer has no end",
            );
            return Poll::Ready(Err(error));
        }
        #[cfg(feature = "tls")]
        let polled = self.note_end(cx, polled);
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = poll!(self, stream => stream.poll_write(cx, bytes));
        #[cfg(feature = "tls")]
        let polled = self.note_end(cx, polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = poll!(self, stream => stream.poll_flush(cx));
        #[cfg(feature = "tls")]
        let polled = self.note_end(cx, polled);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll!(self, stream => stream.poll_shutdown(cx))
    }
}
