//! From an address to an open socket.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Endpoint;
use super::sentinel::Located;
use crate::base::error::{Result, StoreError, refusal};
use crate::store::redis::socket::{self, Stream};
#[cfg(feature = "tls")]
use crate::store::redis::tls;
use crate::store::url::{Place, address};

/// The time for one address of a host name with several; then the next one is tried.
const ADDRESS_MAX: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Opens the socket, and returns how long it may stay when the server may move.
    pub(super) async fn dial(&self) -> Result<(Stream, Option<Located>)> {
        match &self.0.url.place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                let stream = stream.map_err(|error| Self::unreachable(&self.to_string(), error))?;
                Ok((Stream::Unix(stream), None))
            }
            Place::Tcp { host, port, tls } => {
                let stream = connect(host, *port).await;
                let stream = stream.map_err(|error| Self::unreachable(&self.to_string(), error))?;
                Ok((self.tuned(stream, host, *tls).await?, None))
            }
            Place::Watched(sentinels) => {
                let located = Box::pin(self.locate()).await?;
                let (host, port) = located.address();
                let there = || format!("{}, the primary of {self}", address(host, port));
                let stream = connect(host, port).await;
                let stream = stream.map_err(|error| Self::unreachable(&there(), error))?;
                Ok((
                    self.tuned(stream, host, sentinels.tls).await?,
                    Some(located),
                ))
            }
        }
    }

    async fn tuned(&self, stream: TcpStream, host: &str, tls: bool) -> Result<Stream> {
        socket::tune(&stream);
        if tls {
            self.wrapped(stream, host).await
        } else {
            Ok(Stream::Tcp(stream))
        }
    }

    #[cfg(feature = "tls")]
    async fn wrapped(&self, stream: TcpStream, host: &str) -> Result<Stream> {
        let options = &self.0.url.tls;
        let config = match self.0.tls.get() {
            Some(config) => config.clone(),
            None => {
                let named = Arc::clone(options);
                let read = on_a_thread(move || tls::configured(&named)).await;
                let read =
                    read.map_err(|error| refusal!(Internal: "{error}").with_source(error))??;
                if options.is_lasting() {
                    self.0.tls.get_or_init(|| read.clone());
                }
                read
            }
        };
        let wrapped = tls::wrap(stream, options.name_of(host), config).await?;
        Ok(Stream::Tls(Box::new(wrapped)))
    }

    /// Unreachable: URLs for TLS are refused without the feature.
    #[cfg(not(feature = "tls"))]
    async fn wrapped(&self, _: TcpStream, _: &str) -> Result<Stream> {
        Err(refusal!(Unsupported: "this build has no TLS in it: switch on the feature `tls`"))
    }

    fn unreachable(place: &str, error: io::Error) -> StoreError {
        refusal!(Unreachable: "no connection to {place}: {error}").with_source(error)
    }
}

/// Connects to the first address that accepts, in the resolver's order.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    let addresses = match host.parse() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => {
            let host = host.to_owned();
            Vec::from_iter(on_a_thread(move || (&*host, port).to_socket_addrs()).await??)
        }
    };
    for address in addresses {
        match timeout(ADDRESS_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => {
                failure = io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no reply to the connection request",
                )
            }
        }
    }
    Err(failure)
}

/// Runs what blocks. The runtime's own threads for that are no choice: it panics when the system lets none start.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (told, result) = oneshot::channel();
    std::thread::Builder::new()
        .spawn(move || drop(told.send(work())))
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start a thread: {error}")))?;
    result.await.map_err(io::Error::other)
}
