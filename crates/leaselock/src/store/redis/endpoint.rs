//! One server: its address, its login, and how a connection to it is opened.

mod dial;
mod open;
pub(super) mod sentinel;

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "tls")]
use std::sync::OnceLock;

use self::sentinel::PrimaryLocator;
use super::error_map;
use super::socket::SocketControl;
use crate::base::{ErrorKind, StoreError, debug_as, refusal};
use crate::store::url::{Place, RedisUrl, address};

/// Clones share the files that were read for TLS.
#[derive(Clone)]
pub(super) struct Endpoint(Arc<EndpointState>);

struct EndpointState {
    url: RedisUrl,
    /// Locates the server, when its address can change.
    watch: Option<PrimaryLocator>,
    #[cfg(feature = "tls")]
    tls: Tls,
}

/// Read once, when it is needed first.
#[cfg(feature = "tls")]
type Tls = Arc<OnceLock<Arc<tokio_rustls::rustls::ClientConfig>>>;

impl Endpoint {
    pub(super) fn new(url: RedisUrl) -> Self {
        Endpoint(Arc::new(EndpointState {
            watch: PrimaryLocator::of(&url),
            url,
            #[cfg(feature = "tls")]
            tls: Tls::default(),
        }))
    }

    /// Returns another server of the same set-up, whose address does not change.
    pub(super) fn beside(&self, url: RedisUrl) -> Self {
        Endpoint(Arc::new(EndpointState {
            url,
            watch: None,
            #[cfg(feature = "tls")]
            tls: Arc::clone(&self.0.tls),
        }))
    }

    pub(super) fn url(&self) -> &RedisUrl {
        &self.0.url
    }

    /// Names the server without a login: by host and port where it has one of them for ever.
    pub(super) fn address(&self) -> String {
        match &self.0.url.place {
            Place::Tcp { host, port, .. } => address(host, *port),
            _ => self.to_string(),
        }
    }

    pub(super) fn watch(&self) -> Option<&PrimaryLocator> {
        self.0.watch.as_ref()
    }

    /// Names the server, as an administrator would.
    pub(super) fn place(&self) -> String {
        match self.0.watch.as_ref().and_then(PrimaryLocator::primary) {
            Some((host, port)) => format!("{}, the primary of {self},", address(&host, port)),
            None => self.to_string(),
        }
    }

    /// Waits until the server is said to have another address; never ends for a fixed address.
    pub(super) async fn moved(&self) {
        match &self.0.watch {
            Some(watch) => watch.moved().await,
            None => std::future::pending().await,
        }
    }

    /// Converts an error line of this server, which may repeat what it was sent, but never the password.
    pub(super) fn explain(&self, line: &str) -> StoreError {
        if let Some(watch) = &self.0.watch {
            watch.note_error(line);
        }
        match self.0.url.password.as_deref() {
            Some(password) if !password.is_empty() => {
                error_map::from_line(&line.replace(password, "…"))
            }
            _ => error_map::from_line(line),
        }
    }

    /// Converts a refusal of our certificate, which comes after the client regards the handshake as done.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables))]
    fn behind(&self, control: &SocketControl, error: StoreError) -> StoreError {
        #[cfg(feature = "tls")]
        {
            let host = match (&self.0.url.place, &self.0.watch) {
                (Place::Tcp { host, .. }, _) => Some(host.clone()),
                (_, Some(watch)) => watch.primary().map(|(host, _)| host),
                _ => None,
            };
            let trouble = |host: String| control.tls_trouble(self.0.url.tls.name_of(&host));
            if let Some(found) = host.and_then(trouble) {
                return found;
            }
        }
        error
    }

    /// Creates the error for a connection that the server has ended, or that was given up because the server moved.
    pub(super) fn ended(&self) -> StoreError {
        refusal!(Unreachable: "the connection to {self} ended")
    }

    /// Converts a refusal from before any request.
    pub(super) fn refusal(&self, reply: &redis::ServerError) -> StoreError {
        error_map::surely_not(self.explain(&error_map::line(reply)))
    }

    pub(super) fn connecting(&self, error: redis::RedisError) -> StoreError {
        match redis::ServerError::try_from(error) {
            Ok(reply) => self.refusal(&reply),
            Err(error) => error_map::from_connecting(error, &self.to_string()),
        }
    }

    /// Creates the error for a request without a reply, which may have had its effect.
    pub(super) fn no_answer(&self) -> StoreError {
        let message = format!("no reply from {self} in time");
        StoreError::unknown(ErrorKind::NoReply, message)
    }

    /// Creates the error for a connection that broke during a request, which may have had its effect.
    pub(super) fn broke(&self, error: redis::RedisError) -> StoreError {
        error_map::from_connection(error, &self.to_string())
    }

    /// Creates the error for no reply while connecting.
    pub(super) fn silent(&self) -> StoreError {
        let message = format!("no connection to {self} in time");
        StoreError::refused(ErrorKind::NoReply, message)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.url.fmt(f)
    }
}

debug_as!(Endpoint, it => "Endpoint({it})");
