//! The socket of a connection: opened by leaselock, to control how it ends.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A reply is some kilobytes; a server that sends this much without completing one is not a lock server.
const UNANSWERED_MAX: usize = 4 << 20;
/// The bound of a first error line, with some reserve.
const FIRST_MAX: usize = 1024;
/// How long sent bytes may stay unacknowledged before the system ends the connection.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX_MS: u32 = 10_000;
/// When the system probes an idle connection, and how often: so it detects a peer that has vanished.
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

/// Sets no delay, because requests are small and wait for replies; and probes, because a peer may vanish.
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

/// Ignores an error: a connection without these options still works.
fn ignore<E>(_: Result<(), E>) {}

/// The control that the owner of a connection keeps while its driver owns the socket.
#[derive(Debug, Default)]
pub(super) struct SocketControl {
    abort: AtomicBool,
    /// True if it was given up because a request had no reply in time.
    silent: AtomicBool,
    unanswered: AtomicUsize,
    /// The first bytes that arrived.
    first: OnceLock<Vec<u8>>,
    /// Why a connection over TLS ended.
    #[cfg(feature = "tls")]
    ended: OnceLock<io::Error>,
}

impl SocketControl {
    /// Makes the end of the socket discard its unsent bytes.
    ///
    /// So an abandoned request does not reach a stalled server later.
    pub(super) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
    }

    /// Gives the connection up, because the server has not replied in time.
    pub(super) fn give_up_on_silence(&self) {
        self.silent.store(true, Ordering::Release);
        self.abort();
    }

    /// True if that ended the connection, and not the server.
    pub(super) fn was_silent(&self) -> bool {
        self.silent.load(Ordering::Acquire)
    }

    /// Returns the error line with which the server began.
    ///
    /// A server that refuses every client sends it before any request, and the redis client drops what is not a reply.
    pub(super) fn first_error(&self) -> Option<String> {
        let text = String::from_utf8_lossy(self.first.get()?.strip_prefix(b"-")?);
        text.split_once("\r\n").map(|(line, _)| line.to_owned())
    }

    /// Returns the server's refusal of our certificate, which follows a complete handshake.
    #[cfg(feature = "tls")]
    pub(super) fn tls_trouble(&self, host: &str) -> Option<crate::base::error::StoreError> {
        super::tls::refused(self.ended.get()?, host)
    }

    /// Notes a complete reply.
    pub(super) fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }
}

/// A transport with its control.
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
    /// Keeps the reason for the end of a connection over TLS, which the redis client does not pass on.
    ///
    /// When a write fails, the reason is still unread: the server sent it and closed the connection.
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
            Poll::Ready(Err(reason)) if super::tls::found_in(&reason).is_some() => reason,
            _ => same(error),
        };
        self.control.ended.get_or_init(|| reason);
        polled
    }
}

/// Copies an error of TLS; an I/O error cannot be copied.
#[cfg(feature = "tls")]
fn same(error: &io::Error) -> io::Error {
    match super::tls::found_in(error) {
        Some(inner) => io::Error::new(error.kind(), inner.clone()),
        None => error.kind().into(),
    }
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

/// Runs the same poll on either transport.
macro_rules! poll {
    ($socket:expr, $poll:ident($($arg:expr),*)) => {
        match &mut $socket.stream {
            Stream::Tcp(stream) => Pin::new(stream).$poll($($arg),*),
            Stream::Unix(stream) => Pin::new(stream).$poll($($arg),*),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => Pin::new(stream).$poll($($arg),*),
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
        let polled = poll!(self, poll_read(cx, buf));
        let read = buf.filled().len() - before;
        if read > 0 {
            let news = &buf.filled()[before..];
            self.control
                .first
                .get_or_init(|| news[..read.min(FIRST_MAX)].to_vec());
        }
        if self.control.unanswered.fetch_add(read, Ordering::Relaxed) + read > UNANSWERED_MAX {
            // Of this kind, because the redis client takes other kinds for transient errors.
            let error = io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the server's answer has no end",
            );
            return Poll::Ready(Err(error));
        }
        #[cfg(feature = "tls")]
        let polled = self.note_end(cx, polled);
        if read == 0 && buf.remaining() > 0 && matches!(polled, Poll::Ready(Ok(()))) {
            // The redis client would take an end within a reply for a reply that is not in the protocol.
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = poll!(self, poll_write(cx, bytes));
        #[cfg(feature = "tls")]
        let polled = self.note_end(cx, polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = poll!(self, poll_flush(cx));
        #[cfg(feature = "tls")]
        let polled = self.note_end(cx, polled);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll!(self, poll_shutdown(cx))
    }
}
