//! The channels of one server: the client's own, for ever, and temporary ones as long as waiters want them.
//!
//! The server may be one that Sentinels name: its endpoint finds it anew for each connection.

use std::sync::Arc;

use super::endpoint::Endpoint;
use super::subscriber::{self, Publisher, Refused};
use crate::base::error::StoreError;
use crate::store::{Sink, Subscriptions};

/// A server with temporary channels: one connection serves all of them, for any number of waiters.
struct Temporary<'a>(&'a Endpoint);

impl Publisher for Temporary<'_> {
    const CONSEQUENCE: &'static str =
        "releases of other libraries are not heard; they are looked for";

    fn endpoint(&self) -> &Endpoint {
        self.0
    }
}

pub(super) async fn serve(endpoint: &Endpoint, set: &Arc<Subscriptions>) {
    subscriber::serve(&Temporary(endpoint), set).await;
}

/// A server with the client's own channel.
struct Own<'a>(&'a Endpoint);

impl Publisher for Own<'_> {
    const CONSEQUENCE: &'static str = "not listening; waiters have their timers only";

    fn endpoint(&self) -> &Endpoint {
        self.0
    }

    /// The client asks again, because it wants this channel as long as it lives.
    fn refused(&self, _: &Subscriptions, _: &str, error: StoreError) -> Refused {
        Err(error)
    }
}

/// Delivers the messages of one channel until it is dropped, and reports every gap.
pub(super) async fn listen(endpoint: &Endpoint, channel: &str, sink: Sink) {
    let set = Subscriptions::observed(Arc::from(sink), true);
    let _wanted = set.subscribe(channel, |_| false);
    subscriber::serve(&Own(endpoint), &set).await;
}
